"""The databases' data about their own health, and how complete the figures of a month are."""

from __future__ import annotations

import calendar
import fcntl
import os
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple

from arcacct.arex.spool import Spooled, saved_status
from arcacct.benchmark import SUBSTITUTE_SHOWN, measured_benchmark
from arcacct.database import incarnation, schema
from arcacct.database.connection import Connection
from arcacct.publishing import audit, cursors, ledger, target_months
from arcacct.publishing.former_publisher import FormerPublisher
from arcacct.publishing.held import RetrySummary, retry_summaries
from arcacct.publishing.plugin import TargetPlugin
from arcacct.publishing.selection import Surplus, first_start, is_start_known, names_in_doubt, not_selected, surplus
from arcacct.publishing.sent import not_sent_again, of_vos, published_jobs, published_sums
from arcacct.publishing.target_months import HeldMonth, Refusal
from arcacct.records.hold_decisions import NONE, counts
from arcacct.records.holds import HELD
from arcacct.records.rejected import Rejections, dropped, rejections
from arcacct.records.unfinished import SweepShare, of_last_day
from arcacct.records.usage import Month, RatedJobs, by_benchmark
from arcacct.times import month_bounds, recent_months
from arcacct.wording import count_of

# The basis of the figures of some months: the numbers of jobs with measurements, with a benchmark, and on hold.  Read
# from the monthly sums, so it counts published jobs, including pruned ones; held jobs are separate.


_FEW_JOBS = 10


class Basis(NamedTuple):
    """How the jobs of some months were measured."""

    jobs: int = 0
    without_wall: int = 0
    """Jobs without a measured wall time; like the next field, they count 0 in sums, and receivers get 0."""
    without_cpu: int = 0
    without_benchmark: int = 0
    """Jobs for which receivers get the default benchmark."""
    held: int = 0
    """Jobs that are in no figure, since some of their values cannot be true."""
    rated: tuple[RatedJobs, ...] = ()
    """By benchmark, in the order of the first end; jobs without a benchmark are in one row."""

    @property
    def without_wall_percent(self) -> int:
        """Return the share of jobs without wall time, rounded down; 0 if there are too few jobs for a share."""
        return 100 * self.without_wall // self.jobs if self.without_wall >= _FEW_JOBS else 0

    def __str__(self) -> str:
        """One line for people."""
        held = f"{count_of(self.held, 'job')} held as implausible"
        if not self.jobs:
            return held if self.held else "no job ended"
        parts = [
            f"wall time of {self.jobs - self.without_wall} measured",
            f"CPU time of {self.jobs - self.without_cpu}",
        ]
        if self.without_wall or self.without_cpu:
            parts.append("values that were not measured count as 0")
        if self.without_benchmark:
            default = f"{SUBSTITUTE_SHOWN} is sent"
            if self.without_benchmark == self.jobs:
                parts.append(f"no benchmark: no normalised figures, and {default}")
            else:
                parts.append(f"{self.without_benchmark} without a benchmark: {default}")
        return f"{count_of(self.jobs, 'job')}: {', '.join(parts)}{f'; {held}, not counted' if self.held else ''}"


def basis(con: Connection, months: Sequence[Month]) -> Basis:
    """Return the basis of the jobs that ended in these consecutive months."""
    bounds = [month_bounds(*month) for month in months]
    held = counts(con, min(bounds)[0], max(bounds)[1]).get(HELD, NONE).records
    rated: dict[str | None, RatedJobs] = {}
    for one in by_benchmark(con, months):
        found = measured_benchmark(one.benchmark)
        name = None if found is None else str(found)
        rated[name] = _joined(rated[name], one) if name in rated else one._replace(benchmark=name)
    return Basis(
        sum(one.jobs for one in rated.values()),
        sum(one.without_wall for one in rated.values()),
        sum(one.without_cpu for one in rated.values()),
        rated[None].jobs if None in rated else 0,
        held,
        tuple(rated.values()),
    )


def _joined(one: RatedJobs, other: RatedJobs) -> RatedJobs:
    """The same benchmark, written in another way."""
    return RatedJobs(
        one.benchmark,
        one.jobs + other.jobs,
        one.without_wall + other.without_wall,
        one.without_cpu + other.without_cpu,
        one.core_s + other.core_s,
        min(one.first_end_s, other.first_end_s),
        max(one.last_end_s, other.last_end_s),
    )


def ended_since(con: Connection, since_s: int) -> int:
    """How many jobs of any source ended at ``since_s`` or later."""
    (jobs,) = con.execute("SELECT count(*) FROM AAR WHERE EndTime >= max(?, 1)", (since_s,)).fetchone()
    return int(jobs)


# The health of both databases, from read-only queries.


_WRITE_LOCK_BYTE = 120
"""The byte of -shm that a process locks while it writes the database (SQLite's WAL format)."""
_FLOCK = "hhqqi4x"
"""struct flock: type, `whence`, start, length, pid."""
_NEWEST_RECORDS = 200
_NEWEST_EVENTS = 500
_STATES = ("ACCEPTED", "PREPARING", "SUBMIT", "INLRMS", "CANCELING", "FINISHING", "FINISHED")
"""Events with the time of A-REX's own host. Workers write LRMSSTART and LRMSEND in local time with a false Z."""
RECENT_S = 86_400
"""Seconds for which omissions from records are reported."""


class RecordingState(NamedTuple):
    """The state of recording."""

    schema: int
    jobs: int
    last_event_s: int | None
    """When the latest state that A-REX itself dated began."""
    last_sweep_s: int | None
    """``None``: there was no sweep yet."""
    foreign_records: int
    """Newest records that arcacct did not write."""
    cut_records: int
    """Records with omissions within the last day."""
    cut_files: int
    """Records with a control file that was too long."""
    rejected: Rejections
    """Records of imports that could not be used."""
    dropped: dict[str, int]
    """Values of telemetry that could not be used, by field, since the creation of the database."""
    created_s: int
    """When the database was created; 0: unknown."""
    ends: SweepShare
    """Ends of jobs of the last day, and how many of them sweeps found."""
    left: Spooled | None
    """The files that the last sweep left in the spools."""
    life: str
    """The incarnation of the database."""


class Waiting(NamedTuple):
    """Unsent records of a target."""

    records: int
    oldest_end_s: int | None


class TargetState(NamedTuple):
    """The state of a configured target in both databases."""

    name: str
    block: str
    due_s: int
    """When it is due next; a past time means the next run. 0: it never published."""
    names_in_doubt: str
    """Why nothing may be sent: the names of the receiver's earlier data are unknown."""
    last_run_s: int | None
    last_success_s: int | None
    last_error: str | None
    last_exit_code: int
    """The exit code of that error; 0: no error, or an older program noted it."""
    waiting: Waiting
    unanswered: int
    """Messages without an answer."""
    held: dict[str, int]
    """Quarantined records, by state."""
    start_s: int
    """Jobs that ended earlier are not for the target ..."""
    never_sent: int
    """... and this number of them were never sent ..."""
    is_start_known: bool
    """... unless an earlier ledger was lost, and with it an earlier start."""
    held_months: tuple[HeldMonth, ...]
    """Months on hold, because figures would fall without proof."""
    refused_once: RetrySummary | None
    """Of the held records: those that the receiver refused, and that are tried again before this is believed ..."""
    ahead: RetrySummary | None
    """... and those in the future by this host's clock."""
    refused_sums: tuple[tuple[str, Month, Refusal], ...]
    """Months with a sum that the receiver rejected in the last run."""
    surplus: tuple[tuple[Month, Surplus], ...]
    """The current and the previous month that have records without usage, which the receiver counts as jobs."""
    not_selected: int
    """Jobs of the current and the previous month that ``vofilter`` leaves out."""
    ledger_problem: str
    """Why its position in the log cannot be trusted; empty: it can."""
    in_doubt: bool
    """Whether an older ledger was restored, so that later messages are unknown."""


def writer_of(database: str, patience_s: float = 2.0) -> int | None:
    """
    The process that kept the database locked for writing during the whole check, ``None`` if there is none.

    Asks the kernel and takes no lock. Call this before the database is opened: closing a file of it would drop this
    process's locks.
    """
    holders: set[int] = set()
    end = time.monotonic() + patience_s
    while True:
        holder = _holder(f"{database}-shm")
        holders.add(holder or 0)
        if holder is None or len(holders) > 1:
            return None
        if time.monotonic() > end:
            return holder
        time.sleep(0.05)


def _holder(path: str) -> int | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, _WRITE_LOCK_BYTE, 1, 0)
        kind, _whence, _start, _length, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
        return None if kind == fcntl.F_UNLCK else int(pid)
    finally:
        os.close(fd)


def recorded(con: Connection) -> RecordingState:
    """Return the state of recording, by a few quick queries."""
    settings = dict(con.execute("SELECT KeyName, KeyValue FROM DBConfig").fetchall())
    # The rows that were written last: checking all of them would read every event.
    (last_event_s,) = con.execute(
        "SELECT max(CAST(strftime('%s', EventTime) AS INTEGER)) FROM"
        " (SELECT EventKey, EventTime FROM JobEvents ORDER BY rowid DESC LIMIT ?)"
        f" WHERE EventKey IN ({','.join('?' * len(_STATES))})",
        (_NEWEST_EVENTS, *_STATES),
    ).fetchone()
    (foreign,) = con.execute(
        "SELECT count(*) FROM (SELECT RecordID FROM AAR ORDER BY RecordID DESC LIMIT ?) AS Newest"
        " WHERE NOT EXISTS (SELECT 1 FROM StatusFiles WHERE StatusFiles.RecordID = Newest.RecordID)"
        " AND NOT EXISTS (SELECT 1 FROM RecordSources WHERE RecordSources.RecordID = Newest.RecordID)",
        (_NEWEST_RECORDS,),
    ).fetchone()
    cut, cut_files = con.execute(
        "SELECT count(DISTINCT RecordID), count(DISTINCT CASE WHEN Field IN ('local', 'diag', 'statistics')"
        " THEN RecordID END) FROM TruncationNotes WHERE Noted >= ?",
        (int(time.time()) - RECENT_S,),
    ).fetchone()
    swept = settings.get("ARCACCT_LAST_SWEEP")
    (jobs,) = con.execute("SELECT Records FROM RecordCount").fetchone()
    return RecordingState(
        int(settings["ARCACCT_SCHEMA"]), jobs, last_event_s, None if swept is None else int(swept), foreign, cut,
        cut_files, rejections(con), dict(dropped(con)), schema.created(con), of_last_day(con, int(time.time())),
        saved_status(con), schema.incarnation(con),
    )  # fmt: skip


def waiting(con: Connection, seq: int, ended_from: int, vos: tuple[str, ...]) -> Waiting:
    """Return the records after ``seq`` that ended at ``ended_from`` or later, of these VOs or of any."""
    # CROSS: start from the new records. For a target that has received nothing yet, start from the ends in its time.
    first, second = ("FinishedLog", "AAR") if seq else ("AAR", "FinishedLog")
    row = con.execute(
        f"SELECT count(*), min(EndTime) FROM {first} CROSS JOIN {second} ON AAR.RecordID = FinishedLog.RecordID"
        f" WHERE Seq > ? AND EndTime >= ?{of_vos(vos)}",
        (seq, ended_from, *vos),
    ).fetchone()
    return Waiting._make(row)


def target_state(
    publishing: Connection, accounting: Connection, plugin: TargetPlugin, former: FormerPublisher | None
) -> TargetState:
    """Return the state of a target; for one that never published, nothing is known."""
    target, vos = plugin.target.block, plugin.target.vofilter
    row = publishing.execute(
        "SELECT LastSeq, StartEndTime, LastRun, LastSuccess, LastError FROM Targets WHERE Target = ?", (target,)
    ).fetchone()
    held = dict(
        publishing.execute("SELECT State, count(*) FROM HeldRecords WHERE Target = ? GROUP BY State", (target,))
    )
    # The records that the next run of a new target really sends.
    seq, start, last_run, last_success, error = row or (
        0, first_start(publishing, accounting, plugin, former)[0], None, None, None,
    )  # fmt: skip
    refused_once, ahead = retry_summaries(publishing, target)
    months = target_months.load(publishing, target)
    # jura-ng may have sent the earlier jobs.
    was_sent = former is not None and former.until_s >= start
    return TargetState(
        name=plugin.target.name,
        block=target,
        due_s=0 if last_success is None else last_success + plugin.target.urdelivery_frequency_s,
        names_in_doubt=names_in_doubt(accounting, publishing, plugin),
        last_run_s=last_run,
        last_success_s=last_success,
        last_error=error,
        last_exit_code=cursors.last_exit_code(publishing, target),
        waiting=waiting(accounting, seq, start, vos),
        unanswered=ledger.count_pending(publishing, target),
        held=held,
        start_s=start,
        never_sent=0 if was_sent else never_sent(publishing, accounting, target, start, vos),
        is_start_known=is_start_known(accounting, publishing, target),
        held_months=tuple(target_months.held(months).values()),
        refused_once=refused_once,
        ahead=ahead,
        refused_sums=tuple(
            sorted((kind, month, why) for month, one in months.items() for kind, why in one.refused.items())
        ),
        surplus=tuple(
            (month, found)
            for month in sorted(recent_months(int(time.time())))
            if (found := surplus(accounting, publishing, plugin, month)).jobs
        ),
        not_selected=not_selected(accounting, plugin),
        ledger_problem=audit.newest(accounting, publishing, plugin),
        in_doubt=incarnation.uncertain_after_seq(publishing, target) is not None,
    )


def never_sent(publishing: Connection, accounting: Connection, target: str, start: int, vos: tuple[str, ...]) -> int:
    """Return how many jobs ended before a target's time and were not sent by a republish either, by whole months."""
    now = time.gmtime(start)
    month, first = now.tm_year * 100 + now.tm_mon, calendar.timegm((now.tm_year, now.tm_mon, 1, 0, 0, 0))
    (whole,) = accounting.execute(
        f"SELECT coalesce(sum(Jobs), 0) FROM MonthlyUsage WHERE Month < ?{of_vos(vos)}", (month, *vos)
    ).fetchone()
    sums = published_sums(publishing, target)
    sent = sum(
        amount.jobs
        for place, amount in (*sums.items(), *published_jobs(publishing, target).items())
        if place.year * 100 + place.month < month
    )
    # Sums are of whole months: the sum of the first month included earlier jobs.
    in_sum = any(place.year * 100 + place.month == month for place in sums)
    part = 0 if in_sum else not_sent_again(publishing, accounting, target, (first, start), vos)
    return int(max(0, whole - sent) + part)
