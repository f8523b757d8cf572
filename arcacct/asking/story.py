"""What both databases remember of one job, for `arcacct job why`."""

from __future__ import annotations

from typing import NamedTuple

from arcacct.db.engine import Connection


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
    return None if row is None else Sighting._make(row)


def notes_of(con: Connection, record_id: int) -> list[tuple[str, str]]:
    """``(field, note)`` of all that was left out of a record."""
    return con.execute("SELECT Field, Note FROM RecordNotes WHERE RecordID = ? ORDER BY Field", (record_id,)).fetchall()


def seq_of(con: Connection, record_id: int) -> int | None:
    """The record's place in FinishedLog; ``None`` while it is not final."""
    rows = con.execute("SELECT Seq FROM FinishedLog WHERE RecordID = ?", (record_id,))
    return next((int(seq) for (seq,) in rows), None)


def events_of(con: Connection, record_id: int) -> list[tuple[str, str]]:
    """``(time, event)`` of a job, oldest first; times as text, UTC."""
    return con.execute(
        "SELECT EventTime, EventKey FROM JobEvents WHERE RecordID = ? ORDER BY EventTime, rowid", (record_id,)
    ).fetchall()


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
    return list(map(Carried._make, rows))


def message_of_sum(con: Connection, target: str, key: str) -> Carried | None:
    """The last message to a target with a sum of this key."""
    row = con.execute(
        _CARRIED.format(record="Jobs = 0, NULL, NULL")
        + " JOIN SumKeys USING (MessageID) WHERE SumKeys.Target = ? AND Key = ?",
        (target, key),
    ).fetchone()
    return None if row is None else Carried._make(row)
