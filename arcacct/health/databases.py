"""What both databases say of their own health, and how complete the figures of a month are."""

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

# What the figures of some months rest on: how many jobs were measured, how many have a benchmark, and how many are
# held.
#
# Read from the monthly sums, so it counts published jobs, including pruned ones; held jobs are separate.


_FEW_JOBS = 10


class Basis(NamedTuple):
    """How the jobs of some months were measured."""

    jobs: int = 0
    without_wall: int = 0
    """Jobs without a measured wall time; like the next they count 0 in sums, and receivers get 0."""
    without_cpu: int = 0
    without_benchmark: int = 0
    """Jobs for which receivers get the default benchmark."""
    held: int = 0
    """Jobs that are in no figure, since values of theirs cannot be true."""
    rated: tuple[RatedJobs, ...] = ()
    """By benchmark, in the order in which the first job of each ended; those without one are in one row."""

    @property
    def without_wall_percent(self) -> int:
        """The share of jobs without wall time, rounded down; 0 if they are too few to mean anything."""
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
    """That of the jobs that ended in these months, which follow each other."""
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
"""Where in -shm a process that writes the database holds its lock (SQLite's WAL format)."""
_FLOCK = "hhqqi4x"
"""struct flock: type, `whence`, start, length, pid."""
_NEWEST_RECORDS = 200
_NEWEST_EVENTS = 500
_STATES = ("ACCEPTED", "PREPARING", "SUBMIT", "INLRMS", "CANCELING", "FINISHING", "FINISHED")
"""Events with the time of A-REX's own host. Workers write LRMSSTART and LRMSEND in local time with a false Z."""
RECENT_S = 86_400
"""Seconds for which omissions from records are reported."""


class RecordingState(NamedTuple):
    """How recording goes."""

    schema: int
    jobs: int
    last_event_s: int | None
    """When the state of a job began that A-REX, not a worker, dated last."""
    last_sweep_s: int | None
    """``None``: there never was one."""
    foreign_records: int
    """Newest records that arcacct did not write."""
    cut_records: int
    """Records with omissions within the last day."""
    cut_files: int
    """Those with a control file that was too long."""
    rejected: Rejections
    """Records of imports that could not be used."""
    dropped: dict[str, int]
    """Values of telemetry that could not be used, by field, since the database began."""
    created_s: int
    """When the database was made; 0: not known."""
    ends: SweepShare
    """Of jobs of the last day, and how many of them sweeps found."""
    left: Spooled | None
    """What the last sweep left in the spools."""
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
    """When it is due next; in the past: with the next run. 0: it never published."""
    names_in_doubt: str
    """Why nothing may be sent: the receiver's data under other names are unknown."""
    last_run_s: int | None
    last_success_s: int | None
    last_error: str | None
    last_exit_code: int
    """The exit code of that error; 0: none, or an older program noted it."""
    waiting: Waiting
    unanswered: int
    """Messages without an answer."""
    held: dict[str, int]
    """Quarantined records, by state."""
    start_s: int
    """Jobs that ended earlier are none of the target's business ..."""
    never_sent: int
    """... and so many of them were never sent ..."""
    is_start_known: bool
    """... unless the ledger of before was lost, and with it an earlier start."""
    held_months: tuple[HeldMonth, ...]
    """Months on hold, because figures would fall without proof."""
    refused_once: RetrySummary | None
    """Of those that are held: what the receiver refused, and that is tried again before it is believed ..."""
    ahead: RetrySummary | None
    """... and what lies in the future, by this host's clock."""
    refused_sums: tuple[tuple[str, Month, Refusal], ...]
    """Months with a sum that the receiver rejected in the last run."""
    surplus: tuple[tuple[Month, Surplus], ...]
    """The current and the previous month with records that the receiver counts as jobs and that have no usage."""
    not_selected: int
    """Jobs of the current and the previous month that ``vofilter`` leaves out."""
    ledger_problem: str
    """Why its place in the log must not be believed; empty if nothing is against it."""
    in_doubt: bool
    """Whether an older ledger was put back, and what was sent since is unknown."""


def writer_of(database: str, patience_s: float = 2.0) -> int | None:
    """
    The process that kept the database locked for writing during the whole check, ``None`` if there is none.

    Asks the kernel and takes no lock. To be called before the database is opened: closing a file of it would drop
    this process's locks.
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
    """How recording goes, in a few quick looks."""
    settings = dict(con.execute("SELECT KeyName, KeyValue FROM DBConfig").fetchall())
    # Of the rows that were written last: looking at all of them would read every event.
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
    """The records after ``seq`` that ended at ``ended_from`` or later, of these VOs or of any."""
    # CROSS: from what is new, or for a target that has had nothing yet, from the ends of its time.
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
    """What is known of a target; all of nothing for one that never published."""
    target, vos = plugin.target.block, plugin.target.vofilter
    row = publishing.execute(
        "SELECT LastSeq, StartEndTime, LastRun, LastSuccess, LastError FROM Targets WHERE Target = ?", (target,)
    ).fetchone()
    held = dict(
        publishing.execute("SELECT State, count(*) FROM HeldRecords WHERE Target = ? GROUP BY State", (target,))
    )
    # What the next run of a new target sends, and not what it may seem to.
    seq, start, last_run, last_success, error = row or (
        0, first_start(publishing, accounting, plugin, former)[0], None, None, None,
    )  # fmt: skip
    refused_once, ahead = retry_summaries(publishing, target)
    months = target_months.load(publishing, target)
    # jura-ng may have sent the jobs from before.
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
    """How many jobs ended before a target's time and were not sent by a republish either, as whole months tell it."""
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
    # Sums are of whole months: with that of the start the jobs before it went, too.
    in_sum = any(place.year * 100 + place.month == month for place in sums)
    part = 0 if in_sum else not_sent_again(publishing, accounting, target, (first, start), vos)
    return int(max(0, whole - sent) + part)
