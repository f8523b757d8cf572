"""What both databases remember of one job, for `arcacct job why`, and of all that is set aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arcacct.db.engine import Connection
from arcacct.errors import InputError


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


def sighting(con: Connection, record_id: int) -> Sighting | None:
    """The last state recorded; ``None`` for records of other sources."""
    row = con.execute(
        "SELECT State, EventNs / 1000000000, ifnull(Size, -1) >= 0 FROM StatusFiles WHERE RecordID = ?", (record_id,)
    ).fetchone()
    return None if row is None else Sighting(row[0], row[1], bool(row[2]))


def notes_of(con: Connection, record_id: int) -> list[tuple[str, str]]:
    """``(field, note)`` of all that was left out of a record."""
    rows = con.execute("SELECT Field, Note FROM RecordNotes WHERE RecordID = ? ORDER BY Field", (record_id,))
    return [(field, note) for field, note in rows]


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
