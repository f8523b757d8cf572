"""
The ledger of publishing: what was sent where, what was answered, what is held back and why (publishing.db).

Every function is one transaction, at synchronous=FULL. The order is the caller's: `intend` before sending, `answered`
after (INVARIANTS 4). No transaction spans the two databases.
"""

from __future__ import annotations

import time
import zlib
from _sqlite3 import Connection
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple


class Cursor(NamedTuple):
    """How far a target is."""

    target: str
    incarnation: str
    last_seq: int
    start_end_time: int
    rebuilding: bool
    last_success: int | None


class SentRecord(NamedTuple):
    """One record in a message."""

    job_id: str
    record_id: int
    seq: int
    """0 when republished."""
    end_time: int
    digest: bytes


class Message(NamedTuple):
    """A message before it is sent, as the ledger keeps it."""

    message_id: int
    kind: str
    origin: str
    seq: int | None
    """Where the cursor stands once the message is accepted; ``None``: it does not move the cursor."""
    destination: str
    empaid: str | None
    digest: str
    record_count: int
    data: bytes
    """Exactly what is sent."""
    records: tuple[SentRecord, ...]
    attempts: int = 0


class Held(NamedTuple):
    """A record that is not sent, and why."""

    record: SentRecord
    state: str
    """``held`` (will be sent later) or ``quarantined`` (the receiver would refuse it, or did)."""
    reason: str


@contextmanager
def _transaction(con: Connection) -> Iterator[None]:
    con.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        con.execute("ROLLBACK")
        raise
    con.execute("COMMIT")


def cursor(con: Connection, target: str) -> Cursor | None:
    """How far a target is; ``None`` for one that never published."""
    row = con.execute(
        "SELECT Target, Incarnation, LastSeq, StartEndTime, Rebuilding, LastSuccess FROM Targets WHERE Target = ?",
        (target,),
    ).fetchone()
    return None if row is None else Cursor(row[0], row[1], row[2], row[3], bool(row[4]), row[5])


def jura_end_time(con: Connection, target: str) -> int | None:
    """The end time up to which jura-ng (or we) published a target; ``None`` for one that jura does not know."""
    row = con.execute("SELECT LastEndTime FROM AccountingTargets WHERE TargetID = ?", (target,)).fetchone()
    return None if row is None else int(row[0])


def set_cursor(con: Connection, position: Cursor) -> None:
    """Begin a target, or begin it anew: ``rebuilding`` recognises by digest what was sent before."""
    with _transaction(con):
        con.execute(
            "INSERT INTO Targets (Target, Incarnation, LastSeq, StartEndTime, Rebuilding) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (Target) DO UPDATE SET Incarnation = excluded.Incarnation, LastSeq = excluded.LastSeq,"
            " StartEndTime = excluded.StartEndTime, Rebuilding = excluded.Rebuilding",
            position[:5],
        )


def move_cursor(con: Connection, target: str, seq: int) -> None:
    """Nothing up to ``seq`` needs sending."""
    with _transaction(con):
        _move(con, target, seq)


def _move(con: Connection, target: str, seq: int) -> None:
    con.execute("UPDATE Targets SET LastSeq = max(LastSeq, ?) WHERE Target = ?", (seq, target))


def intend(
    con: Connection, target: str, messages: Sequence[Message], held: Iterable[Held] = (), *, seq: int | None = None
) -> list[Message]:
    """
    Write messages down before they are sent, bytes and all, and what is held back; returns them with their ids.

    ``seq`` moves the cursor at once: for records that are all held back.
    """
    now = int(time.time())
    with _transaction(con):
        for one in held:
            _hold(con, target, one, now)
        if seq is not None:
            _move(con, target, seq)
        return [_insert(con, target, message, now) for message in messages]


def _insert(con: Connection, target: str, message: Message, now: int) -> Message:
    row = con.execute(
        "INSERT INTO Messages (Target, Kind, Origin, State, Seq, Created, RecordCount, ByteCount, Digest, Destination,"
        " EmpaID, Bytes) VALUES (?, ?, ?, 'sending', ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            target,
            message.kind,
            message.origin,
            message.seq,
            now,
            message.record_count,
            len(message.data),
            message.digest,
            message.destination,
            message.empaid,
            zlib.compress(message.data, 1),
        ),
    )
    message_id = row.lastrowid or 0
    con.executemany(
        "INSERT INTO MessageRecords (MessageID, Position, JobID, RecordID, Seq, EndTime, Digest)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(message_id, position, *record) for position, record in enumerate(message.records)],
    )
    return message._replace(message_id=message_id)


def _hold(con: Connection, target: str, held: Held, now: int) -> None:
    record = held.record
    con.execute(
        "INSERT INTO HeldRecords (Target, JobID, RecordID, Seq, EndTime, State, Reason, Since)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (Target, JobID) DO UPDATE SET RecordID = excluded.RecordID, Seq = excluded.Seq,"
        " EndTime = excluded.EndTime, State = excluded.State, Reason = excluded.Reason, Attempts = Attempts + 1",
        (target, record.job_id, record.record_id, record.seq, record.end_time, held.state, held.reason, now),
    )


def unanswered(con: Connection, target: str) -> list[Message]:
    """The messages that were begun and have no answer, oldest first: they go before anything newer."""
    ids = con.execute(
        "SELECT MessageID FROM Messages WHERE Target = ? AND State = 'sending' ORDER BY MessageID", (target,)
    ).fetchall()
    return [stored(con, message_id) for (message_id,) in ids]


def stored(con: Connection, message_id: int) -> Message:
    """One message of the ledger, with its bytes."""
    row = con.execute(
        "SELECT MessageID, Kind, Origin, Seq, Destination, EmpaID, Digest, RecordCount, Bytes, Attempts"
        " FROM Messages WHERE MessageID = ?",
        (message_id,),
    ).fetchone()
    records = con.execute(
        "SELECT JobID, RecordID, Seq, EndTime, Digest FROM MessageRecords WHERE MessageID = ? ORDER BY Position",
        (message_id,),
    ).fetchall()
    return Message._make((*row[:8], zlib.decompress(row[8]), tuple(map(SentRecord._make, records)), row[9]))


def attempted(con: Connection, message_id: int, code: int | None, words: str) -> None:
    """A message got no answer that ends it: it stays to be sent."""
    with _transaction(con):
        con.execute(
            "UPDATE Messages SET Attempts = Attempts + 1, AnswerCode = ?, Answer = ? WHERE MessageID = ?",
            (code, words, message_id),
        )


def accepted(
    con: Connection, target: str, message: Message, code: int | None, words: str, receiver_id: str | None
) -> None:
    """The receiver has it: answer, records and cursor in one transaction."""
    with _transaction(con):
        _answer(con, message.message_id, "accepted", code, words, receiver_id)
        con.executemany(
            "DELETE FROM HeldRecords WHERE Target = ? AND JobID = ?",
            [(target, record.job_id) for record in message.records],
        )
        if message.seq is not None:
            _move(con, target, message.seq)


def split(con: Connection, target: str, message: Message, parts: Sequence[Message]) -> list[Message]:
    """Replace one refused message by its parts; the last of them takes over the cursor."""
    now = int(time.time())
    with _transaction(con):
        _answer(con, message.message_id, "split", None, f"split into {len(parts)}", None)
        return [_insert(con, target, part, now) for part in parts]


def refused(con: Connection, target: str, message: Message, code: int | None, words: str, held: Iterable[Held]) -> None:
    """The receiver refuses a message that cannot be split: its record is quarantined, the cursor moves on."""
    now = int(time.time())
    with _transaction(con):
        _answer(con, message.message_id, "refused", code, words, None)
        for one in held:
            _hold(con, target, one, now)
        if message.seq is not None:
            _move(con, target, message.seq)


def _answer(
    con: Connection, message_id: int, state: str, code: int | None, words: str, receiver_id: str | None
) -> None:
    con.execute(
        "UPDATE Messages SET State = ?, Answered = ?, Attempts = Attempts + 1, AnswerCode = ?, Answer = ?,"
        " ReceiverID = ? WHERE MessageID = ?",
        (state, int(time.time()), code, words, receiver_id, message_id),
    )


def sent_since_cursor_moved(con: Connection, target: str) -> set[int]:
    """The Seq of each record that was accepted in a message after the last one that moved the cursor."""
    return {
        seq
        for (seq,) in con.execute(
            "SELECT MessageRecords.Seq FROM Messages JOIN MessageRecords USING (MessageID)"
            " WHERE Target = ?1 AND State = 'accepted' AND Origin = 'publish' AND MessageID >"
            " (SELECT coalesce(max(MessageID), 0) FROM Messages"
            "   WHERE Target = ?1 AND State = 'accepted' AND Messages.Seq IS NOT NULL)",
            (target,),
        )
    }


def delivered_digests(con: Connection, target: str, job_ids: Sequence[str]) -> dict[str, bytes]:
    """What each of these jobs last looked like at the receiver: the digest of the last accepted record."""
    marks = ",".join("?" * len(job_ids))
    return dict(
        con.execute(
            "SELECT JobID, MessageRecords.Digest FROM MessageRecords JOIN Messages USING (MessageID)"
            f" WHERE JobID IN ({marks}) AND Target = ? AND State = 'accepted' ORDER BY MessageID",
            (*job_ids, target),
        ).fetchall()
    )


def accepted_after(con: Connection, target: str, message_id: int) -> bool:
    """Whether the target accepted a message that is newer than this one."""
    row = con.execute(
        "SELECT 1 FROM Messages WHERE Target = ? AND MessageID > ? AND State = 'accepted' LIMIT 1", (target, message_id)
    ).fetchone()
    return row is not None


def finish_run(con: Connection, target: str, *, error: str | None, last_end_time: int | None) -> None:
    """Close a target's run: its times, and jura's own row. Nothing refers to that row: jura's tools delete it."""
    now = int(time.time())
    with _transaction(con):
        con.execute(
            "UPDATE Targets SET LastRun = ?1, LastError = ?2,"
            " LastSuccess = CASE WHEN ?2 IS NULL THEN ?1 ELSE LastSuccess END,"
            " Rebuilding = CASE WHEN ?2 IS NULL THEN 0 ELSE Rebuilding END WHERE Target = ?3",
            (now, error, target),
        )
        if last_end_time is not None:
            con.execute(
                "INSERT OR REPLACE INTO AccountingTargets (TargetID, LastEndTime, LastReport) VALUES (?, ?, ?)",
                (target, last_end_time, now),
            )


def earliest_held_end(con: Connection, target: str) -> int | None:
    """The earliest EndTime of a record that is held back from a target."""
    row = con.execute("SELECT min(EndTime) FROM HeldRecords WHERE Target = ?", (target,)).fetchone()
    return None if row[0] is None else int(row[0])
