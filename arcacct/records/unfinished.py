"""Jobs in progress of which nothing is left, and ends that only sweeps found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.database.schema import created, note, noted
from arcacct.records.reader import unescaped
from arcacct.records.states import SQL_ABORTED, SQL_IN_PROGRESS

# Jobs that are in progress in the database, and what becomes of those that nothing is left of.
#
# One without an end is aborted: nobody knows better. One that A-REX has told us the end of (event FINISHED) did use
# something, so a record without usage would be false: it is put on hold, until A-REX's database or a person settles it.


ON_HOLD = "VANISHED"
"""StatusFiles.State of a job on hold. Any state that is recorded later takes its place: the job is looked at anew."""
REMEDIES = (
    "`arcacct import arex FILE` imports it from a backup of A-REX's database, `arcacct sweep --give-up JOBID` marks it "
    "as aborted, without usage"
)
"""How a job comes off hold."""
_LAST_OF = (
    "(SELECT max(CAST(strftime('%s', EventTime) AS INTEGER)) FROM JobEvents"
    " WHERE JobEvents.RecordID = AAR.RecordID AND EventKey IN ({}))"
)
_FINISHED = _LAST_OF.format("'FINISHED'")
_IN_PROGRESS = f"StatusID = (SELECT ID FROM Status WHERE Name = {SQL_IN_PROGRESS})"
_NO_FILE = -1
"""StatusFiles.Size of a job that a sweep has found gone; MTimeNs is since when."""


class InProgress(NamedTuple):
    """A job without an end."""

    record_id: int
    event_ns: int
    """When its last state began."""
    finished_s: int | None
    """When A-REX said that it is at its end: only what it used is missing."""
    on_hold: bool
    """Whether that was told already."""
    gone_ns: int | None
    """When a sweep found first that nothing is left of it."""


def in_progress(con: Connection, origins: Iterable[str]) -> dict[str, InProgress]:
    """
    Every job in progress that came from a control directory, by job id.

    Also those that were taken from A-REX's databases of that directory, ``origins`` in RecordSources.
    """
    ours = tuple(origins)
    rows = con.execute(
        f"""
        SELECT JobID, AAR.RecordID, EventNs, {_FINISHED}, State = ?, CASE WHEN Size = {_NO_FILE} THEN MTimeNs END
          FROM AAR JOIN StatusFiles ON StatusFiles.RecordID = AAR.RecordID
         WHERE {_IN_PROGRESS}
           AND NOT EXISTS (SELECT 1 FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID
                              AND NOT (Source = 'arex' AND Origin IN ({", ".join("?" * len(ours))})))
        """,
        (ON_HOLD, *ours),
    )
    return {unescaped(job_id): InProgress(row[0], row[1], row[2], bool(row[3]), row[4]) for job_id, *row in rows}


def is_gone_since(con: Connection, job: InProgress, now_ns: int) -> None:
    """Note, inside the caller's transaction, that nothing is left of a job; any later event or file takes that back."""
    con.execute(
        "UPDATE StatusFiles SET (Size, MTimeNs, CTimeNs) = (?, ?, NULL) WHERE RecordID = ? AND EventNs = ?",
        (_NO_FILE, now_ns, job.record_id, job.event_ns),
    )


def abort(con: Connection, job: InProgress, states: Sequence[str]) -> bool:
    """
    Give a job the status aborted and the time of its last event as its end; False if it has moved on meanwhile.

    Inside the caller's transaction. Its status file is forgotten: should it appear again, the job is looked at.
    ``states``: the events that A-REX dated (workers write LRMSSTART and LRMSEND in local time with a false Z).
    Never a job that has the event FINISHED, unless it is on hold: then that is a person's word.
    """
    last_event = _LAST_OF.format(", ".join(f"'{state}'" for state in states))
    cursor = con.execute(
        f"""
        UPDATE AAR
           SET StatusID = (SELECT ID FROM Status WHERE Name = {SQL_ABORTED}),
               EndTime = coalesce({_FINISHED}, {last_event}, SubmitTime)
         WHERE RecordID = :record_id AND {_IN_PROGRESS}
           AND (SELECT EventNs FROM StatusFiles WHERE StatusFiles.RecordID = AAR.RecordID) = :event_ns
           AND (:on_hold OR {_FINISHED} IS NULL)
        """,
        job._asdict(),
    )
    return _settled(con, job, cursor.rowcount)


def hold(con: Connection, job: InProgress) -> bool:
    """
    Put a job on hold that has ended and of which nothing tells what it used; False if it has moved on meanwhile.

    Inside the caller's transaction. Its status file is forgotten as in `abort`.
    """
    cursor = con.execute(
        "UPDATE StatusFiles SET State = ? WHERE RecordID = ? AND EventNs = ?"
        f" AND EXISTS (SELECT 1 FROM AAR WHERE AAR.RecordID = StatusFiles.RecordID AND {_IN_PROGRESS})",
        (ON_HOLD, job.record_id, job.event_ns),
    )
    return _settled(con, job, cursor.rowcount)


def _settled(con: Connection, job: InProgress, changed: int) -> bool:
    if changed:
        con.execute("UPDATE StatusFiles SET (Size, MTimeNs, CTimeNs) = (NULL, NULL, NULL) WHERE RecordID = ?", job[:1])
    return changed > 0


def on_hold(con: Connection) -> dict[str, InProgress]:
    """The jobs on hold, by job id; quick: only jobs in progress are looked at."""
    rows = con.execute(
        # CROSS: from the few in progress.
        f"SELECT JobID, AAR.RecordID, EventNs, {_FINISHED} FROM AAR"
        f" CROSS JOIN StatusFiles ON StatusFiles.RecordID = AAR.RecordID WHERE {_IN_PROGRESS} AND State = ?",
        (ON_HOLD,),
    )
    return {unescaped(job_id): InProgress(row[0], row[1], row[2], on_hold=True, gone_ns=None) for job_id, *row in rows}


# Ends of jobs that sweeps found: neither the callouts nor the spool had told of them.
#
# When these are all the ends that there are, A-REX does not call us. Counts by hour are noted in the accounting
# database.


HOUR_S = 3600
_HOURS = 24
_NOTE = "ARCACCT_ENDS_BY_SWEEP"
"""``HOUR:COUNT HOUR:COUNT ...``: hours since 1970."""


class SweepShare(NamedTuple):
    """Of jobs of A-REX's that ended within the last day."""

    jobs: int
    swept: int
    """Those whose end a sweep found."""


def add_ends(con: Connection, ends: Mapping[int, int], now: int) -> None:
    """Add ends since recording began, by hour, to those of the last day; inside the caller's transaction."""
    counts = Counter(_counts(con))
    counts.update(ends)
    first = now // HOUR_S - _HOURS
    note(con, _NOTE, " ".join(f"{hour}:{count}" for hour, count in sorted(counts.items()) if hour >= first))


def of_last_day(con: Connection, now: int) -> SweepShare:
    """
    How many jobs ended since recording began, and how many of these ends sweeps found.

    No callout could report a job that had ended before the database was made: these do not count.
    """
    first = now // HOUR_S - _HOURS
    # A vanished job has no end that anybody could have told, and jobs of other sources no callouts.
    (jobs,) = con.execute(
        "SELECT count(*) FROM AAR CROSS JOIN StatusFiles ON StatusFiles.RecordID = AAR.RecordID"
        " WHERE EndTime BETWEEN ? AND ? AND State = 'FINISHED'"
        " AND NOT EXISTS (SELECT 1 FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID)",
        (max(first * HOUR_S, created(con)), now),
    ).fetchone()
    return SweepShare(
        jobs, min(jobs, sum(count for hour, count in _counts(con).items() if first <= hour <= now // HOUR_S))
    )


def _counts(con: Connection) -> dict[int, int]:
    pairs = (pair.partition(":") for pair in (noted(con, _NOTE) or "").split())
    return {int(hour): int(count) for hour, _colon, count in pairs if hour.isdecimal() and count.isdecimal()}
