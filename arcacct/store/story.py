"""What both databases remember of one job, for `arcacct job why`, and of all that is set aside."""

from __future__ import annotations

from _sqlite3 import Connection
from collections.abc import Sequence
from typing import NamedTuple

from arcacct.errors import InputError
from arcacct.records.xml import iso_time


class Sighting(NamedTuple):
    """How the recorder last saw the job's status file."""

    state: str
    event_s: int
    swept: bool
    """Whether a sweep has read the job's files since."""


class Carried(NamedTuple):
    """One message that carried a job, or a sum that it is part of."""

    message_id: int
    kind: str
    origin: str
    state: str
    created_s: int
    answered_s: int | None
    answer_code: int | None
    answer: str | None
    receiver_id: str | None
    zeros: bool
    """Whether it took back what was sent before."""
    notes: str | None
    digest: bytes | None
    """Of the record as it was sent; ``None`` for sums."""


class Aside(NamedTuple):
    """One record that is not sent to a target, and why."""

    target: str
    job_id: str
    record_id: int
    end_time: int
    state: str
    reason: str
    attempts: int
    since_s: int
    next_try_s: int | None
    """When it is tried again by itself; ``None``: once it is settled, or not by itself."""
    refusals: int
    """In so many runs the receiver refused it."""

    @property
    def again(self) -> str:
        """What to say of another try: ``tried again from 2026-11-20T10:30:00Z``; empty if there is none."""
        if self.next_try_s is None or self.state not in ("held", "quarantined"):
            return ""
        return f"tried again from {iso_time(self.next_try_s)}" if self.next_try_s else "tried again with the next run"


def sighting(con: Connection, record_id: int) -> Sighting | None:
    """The last state recorded; ``None`` for records of other sources."""
    row = con.execute(
        "SELECT State, EventNs / 1000000000, Size IS NOT NULL FROM StatusFiles WHERE RecordID = ?", (record_id,)
    ).fetchone()
    return None if row is None else Sighting(row[0], row[1], bool(row[2]))


def seq_of(con: Connection, record_id: int) -> int | None:
    """The record's place in FinishedLog; ``None`` while it is not final."""
    row = con.execute("SELECT Seq FROM FinishedLog WHERE RecordID = ?", (record_id,)).fetchone()
    return None if row is None else int(row[0])


def events_of(con: Connection, record_id: int) -> list[tuple[str, str]]:
    """``(time, event)`` of a job, oldest first; times as text, UTC."""
    rows = con.execute(
        "SELECT EventTime, EventKey FROM JobEvents WHERE RecordID = ? ORDER BY EventTime, rowid", (record_id,)
    )
    return [(when, key) for when, key in rows]


_CARRIED = (
    "SELECT Messages.MessageID, Messages.Kind, Origin, State, Created, Answered, AnswerCode, Answer, ReceiverID,"
    " {record} FROM Messages"
)


def messages_of(con: Connection, target: str, job_id: str) -> list[Carried]:
    """Every message to a target that carried a job's record, oldest first."""
    rows = con.execute(
        _CARRIED.format(record="length(MessageRecords.Digest) = 0, Notes, MessageRecords.Digest")
        + " JOIN MessageRecords USING (MessageID) WHERE JobID = ? AND Target = ? ORDER BY Messages.MessageID",
        (job_id, target),
    )
    return [Carried._make((*row[:9], bool(row[9]), *row[10:])) for row in rows]


def message_of_sum(con: Connection, target: str, key: str) -> Carried | None:
    """The last message to a target with a sum of this key."""
    row = con.execute(
        _CARRIED.format(record="Jobs = 0, NULL, NULL")
        + " JOIN SumKeys USING (MessageID) WHERE SumKeys.Target = ? AND Key = ?",
        (target, key),
    ).fetchone()
    return None if row is None else Carried._make((*row[:9], bool(row[9]), *row[10:]))


_ASIDE = "SELECT Target, JobID, RecordID, EndTime, State, Reason, Attempts, Since, NextTry, Refusals FROM HeldRecords"


def set_aside(con: Connection, *, target: str | None = None, job_id: str | None = None) -> list[Aside]:
    """What is set aside, of all targets or one, of all jobs or one; by target and end time."""
    asked = {f"{column} = ?": value for column, value in (("Target", target), ("JobID", job_id)) if value is not None}
    rows = con.execute(
        f"{_ASIDE} WHERE {' AND '.join(asked) or '1'} ORDER BY Target, EndTime, JobID", tuple(asked.values())
    )
    return [Aside._make(row) for row in rows]


def change_state(con: Connection, target: str | None, job_ids: Sequence[str], state: str) -> int:
    """
    Mark records that are set aside as ``retry`` or ``dropped``; returns how many.

    No job ids: all but dropped ones, and those that are not settled yet.

    Raises InputError for a job that is not set aside.
    """
    con.execute("BEGIN IMMEDIATE")
    try:
        changed = _change(con, target, job_ids, state)
    except BaseException:
        con.execute("ROLLBACK")
        raise
    con.execute("COMMIT")
    return changed


def _change(con: Connection, target: str | None, job_ids: Sequence[str], state: str) -> int:
    if not job_ids:
        return con.execute(
            "UPDATE HeldRecords SET State = ?1 WHERE (?2 IS NULL OR Target = ?2)"
            " AND (State IN ('quarantined', 'correction') OR (State = 'held' AND NextTry IS NOT NULL))",
            (state, target),
        ).rowcount
    changed = 0
    for job_id in job_ids:
        rows = con.execute(
            "UPDATE HeldRecords SET State = ?1 WHERE (?2 IS NULL OR Target = ?2) AND JobID = ?3",
            (state, target, job_id),
        ).rowcount
        if not rows:
            raise InputError(
                f"{job_id}: not set aside{f' at {target}' if target else ''}; see `arcacct quarantine list`"
            )
        changed += rows
    return changed
