"""Jobs in progress whose files are gone, and ends that only sweeps found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.database.schema import created, note, noted
from arcacct.records.states import SQL_ABORTED, SQL_IN_PROGRESS
from arcacct.records.texts import unescaped
from arcacct.times import HOUR_S

# Jobs that are in progress in the database, and how vanished ones are settled.
#
# A vanished job without a known end becomes aborted, since no other source exists. If A-REX reported its end (event
# FINISHED), the job used something, and a record without usage would be false. It is put on hold until A-REX's database
# or a person settles it.


VANISHED = "VANISHED"
"""StatusFiles.State of a job on hold. A state that is recorded later replaces it: then the job is examined again."""
REMEDIES = (
    "`arcacct import arex FILE` imports it from a backup of A-REX's database, `arcacct sweep --give-up JOBID` marks it "
    "as aborted, without usage"
)
"""How to end the hold of a job."""
_LAST_OF = (
    "(SELECT max(CAST(strftime('%s', EventTime) AS INTEGER)) FROM JobEvents"
    " WHERE JobEvents.RecordID = AAR.RecordID AND EventKey IN ({}))"
)
_FINISHED = _LAST_OF.format("'FINISHED'")
_IN_PROGRESS = f"StatusID = (SELECT ID FROM Status WHERE Name = {SQL_IN_PROGRESS})"
_NO_FILE = -1
"""StatusFiles.Size of a job that a sweep found gone; MTimeNs is then the time of that sweep."""


class InProgress(NamedTuple):
    """A job without an end."""

    record_id: int
    event_ns: int
    """Start of its last state, UTC nanoseconds."""
    finished_s: int | None
    """When A-REX reported its end, UTC seconds: only its usage is missing."""
    is_held: bool
    """Whether it is on hold already."""
    gone_ns: int | None
    """When a sweep first found its files gone, UTC nanoseconds."""


def in_progress(con: Connection, origins: Iterable[str]) -> dict[str, InProgress]:
    """
    Return every job in progress that came from a control directory, by job ID.

    This includes jobs that were imported from A-REX's databases of that directory; ``origins``: those databases, as
    in RecordSources.Origin.
    """
    ours = tuple(origins)
    is_foreign = (
        "SELECT 1 FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID"
        f" AND NOT (Source = 'arex' AND Origin IN ({', '.join('?' * len(ours))}))"
    )
    return _jobs(con, f"NOT EXISTS ({is_foreign})", ours)


def _jobs(con: Connection, condition: str, values: tuple[str, ...]) -> dict[str, InProgress]:
    rows = con.execute(
        # CROSS: SQLite starts from the few jobs in progress.
        f"SELECT JobID, AAR.RecordID, EventNs, {_FINISHED}, State = '{VANISHED}',"
        f" CASE WHEN Size = {_NO_FILE} THEN MTimeNs END FROM AAR"
        f" CROSS JOIN StatusFiles ON StatusFiles.RecordID = AAR.RecordID WHERE {_IN_PROGRESS} AND {condition}",
        values,
    )
    return {unescaped(job_id): InProgress(row[0], row[1], row[2], bool(row[3]), row[4]) for job_id, *row in rows}


def is_gone_since(con: Connection, job: InProgress, now_ns: int) -> None:
    """Note that a job's files are gone, inside the caller's transaction; a later event or file reverts this."""
    con.execute(
        "UPDATE StatusFiles SET (Size, MTimeNs, CTimeNs) = (?, ?, NULL) WHERE RecordID = ? AND EventNs = ?",
        (_NO_FILE, now_ns, job.record_id, job.event_ns),
    )


def abort(con: Connection, job: InProgress, states: Sequence[str]) -> bool:
    """
    Set a job to aborted, with the time of its last event as its end; False if the job changed meanwhile.

    Inside the caller's transaction. Forgets its status file: if the file appears again, the job is examined.
    ``states``: the events that A-REX dated (workers write LRMSSTART and LRMSEND in local time with a false Z).
    A job with the event FINISHED is not changed, unless it is on hold: then a person has decided so.
    """
    last_event = _LAST_OF.format(", ".join(f"'{state}'" for state in states))
    cursor = con.execute(
        f"""
        UPDATE AAR
           SET StatusID = (SELECT ID FROM Status WHERE Name = {SQL_ABORTED}),
               EndTime = coalesce({_FINISHED}, {last_event}, SubmitTime)
         WHERE RecordID = :record_id AND {_IN_PROGRESS}
           AND (SELECT EventNs FROM StatusFiles WHERE StatusFiles.RecordID = AAR.RecordID) = :event_ns
           AND (:is_held OR {_FINISHED} IS NULL)
        """,
        job._asdict(),
    )
    return _settled(con, job, cursor.rowcount)


def hold(con: Connection, job: InProgress) -> bool:
    """
    Put an ended job with unknown usage on hold; False if the job changed meanwhile.

    Inside the caller's transaction. Forgets its status file, as `abort` does.
    """
    cursor = con.execute(
        "UPDATE StatusFiles SET State = ? WHERE RecordID = ? AND EventNs = ?"
        f" AND EXISTS (SELECT 1 FROM AAR WHERE AAR.RecordID = StatusFiles.RecordID AND {_IN_PROGRESS})",
        (VANISHED, job.record_id, job.event_ns),
    )
    return _settled(con, job, cursor.rowcount)


def _settled(con: Connection, job: InProgress, changed: int) -> bool:
    if changed:
        con.execute("UPDATE StatusFiles SET (Size, MTimeNs, CTimeNs) = (NULL, NULL, NULL) WHERE RecordID = ?", job[:1])
    return changed > 0


def held_jobs(con: Connection) -> dict[str, InProgress]:
    """Return the jobs on hold, by job ID. Fast: reads only jobs in progress."""
    return _jobs(con, "State = ?", (VANISHED,))


# Ends of jobs that sweeps found and that neither callouts nor the spool reported.
#
# If sweeps found all ends, A-REX does not call the launcher. The accounting database has the counts by hour.


_HOURS = 24
_NOTE = "ARCACCT_ENDS_BY_SWEEP"
"""``HOUR:COUNT HOUR:COUNT ...``: hours since 1970."""


class SweepShare(NamedTuple):
    """How many of A-REX's jobs ended within the last day."""

    jobs: int
    swept: int
    """Jobs whose end a sweep found."""


def add_ends(con: Connection, ends: Mapping[int, int], now: int) -> None:
    """
    Add ends that sweeps found to the counts of the last day; inside the caller's transaction.

    ``ends``: counts by hour since 1970, of ends since the database exists. ``now``: UTC seconds.
    """
    counts = Counter(_counts(con))
    counts.update(ends)
    first = now // HOUR_S - _HOURS
    note(con, _NOTE, " ".join(f"{hour}:{count}" for hour, count in sorted(counts.items()) if hour >= first))


def of_last_day(con: Connection, now: int) -> SweepShare:
    """
    Count the jobs that ended within the last day, and the ends among them that sweeps found. ``now``: UTC seconds.

    Jobs that ended before the database was created do not count: no callout could report them.
    """
    first = now // HOUR_S - _HOURS
    # A vanished job has no end to report, and jobs of other sources have no callouts.
    (jobs,) = con.execute(
        "SELECT count(*) FROM AAR CROSS JOIN StatusFiles ON StatusFiles.RecordID = AAR.RecordID"
        " WHERE EndTime BETWEEN ? AND ? AND State = 'FINISHED'"
        " AND NOT EXISTS (SELECT 1 FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID)",
        (max(first * HOUR_S, created(con)), now),
    ).fetchone()
    swept = sum(count for hour, count in _counts(con).items() if first <= hour <= now // HOUR_S)
    return SweepShare(jobs, min(jobs, swept))


def _counts(con: Connection) -> dict[int, int]:
    pairs = (pair.partition(":") for pair in (noted(con, _NOTE) or "").split())
    return {int(hour): int(count) for hour, _colon, count in pairs if hour.isdecimal() and count.isdecimal()}
