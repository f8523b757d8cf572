"""
The ledger of publishing: what was sent where, what was answered, what is held back and why (publishing.db).

Every function is one transaction, at synchronous=FULL; only `accepted` leaves the sync to the next one: an answer that
a power cut takes back is a message sent again. The order is the caller's: `intend` before sending, `accepted` after
(INVARIANTS 4). No transaction spans the two databases.
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
    last_success: int | None


class SentRecord(NamedTuple):
    """One record in a message."""

    job_id: str
    record_id: int
    seq: int
    """0 when republished."""
    end_time: int
    digest: bytes
    """Empty when it is sent with zeros, to neutralise what was sent under a key that no longer holds."""
    key: str = ""
    """What the receiver knows it by."""
    notes: str | None = None
    """What was repaired before it was sent."""


class SentSum(NamedTuple):
    """One sum in a message: the key that the receiver replaces by (JSON), and how many jobs it stands for."""

    key: str
    year: int
    month: int
    jobs: int


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
    sums: tuple[SentSum, ...] = ()
    """Only for `intend`: `SumKeys` remembers them, not the message."""
    attempts: int = 0


class Version(NamedTuple):
    """What a receiver has of a job under one key."""

    kind: str
    key: str
    digest: bytes
    end_time: int
    record_id: int


class Held(NamedTuple):
    """A record that is not sent, and why."""

    record: SentRecord
    state: str
    """``held``, ``quarantined``, ``correction``, ``retry`` or ``dropped``: see table HeldRecords."""
    reason: str


@contextmanager
def transaction(con: Connection) -> Iterator[None]:
    """All or nothing, and on disk afterwards."""
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
        "SELECT Target, Incarnation, LastSeq, StartEndTime, LastSuccess FROM Targets WHERE Target = ?", (target,)
    ).fetchone()
    return None if row is None else Cursor._make(row)


def jura_end_time(con: Connection, target: str) -> int | None:
    """The end time up to which jura-ng (or we) published a target; ``None`` for one that jura does not know."""
    row = con.execute("SELECT LastEndTime FROM AccountingTargets WHERE TargetID = ?", (target,)).fetchone()
    return None if row is None else int(row[0])


def rename_target(con: Connection, old: str, new: str) -> None:
    """A target goes on under another name, with all its history."""
    with transaction(con):
        for table in ("Targets", "Messages", "SumKeys", "HeldRecords", "OpenMonths"):
            con.execute(f"UPDATE {table} SET Target = ? WHERE Target = ?", (new, old))
        con.execute("UPDATE OR REPLACE AccountingTargets SET TargetID = ? WHERE TargetID = ?", (new, old))


def set_cursor(con: Connection, position: Cursor) -> None:
    """Begin a target, or begin it anew: what was sent before is recognised by its digest."""
    with transaction(con):
        # What is under way counts in the numbers of before: it would carry the new cursor past records of today.
        con.execute("UPDATE Messages SET Seq = NULL WHERE Target = ? AND State = 'sending'", (position.target,))
        con.execute("UPDATE HeldRecords SET Seq = 0 WHERE Target = ?", (position.target,))
        con.execute(
            "INSERT INTO Targets (Target, Incarnation, LastSeq, StartEndTime) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (Target) DO UPDATE SET Incarnation = excluded.Incarnation, LastSeq = excluded.LastSeq,"
            " StartEndTime = excluded.StartEndTime",
            position[:4],
        )


def is_older_copy(con: Connection, fences_passed: int) -> bool:
    """
    Whether the accounting database is an older copy of the one that was published from last.

    It had passed as many fences before. Every target begins anew then, whatever the incarnation says: somebody may
    have put a copy in place by hand.
    """
    with transaction(con):
        row = con.execute("SELECT KeyValue FROM DBConfig WHERE KeyName = 'FENCES_PASSED'").fetchone()
        older = row is not None and fences_passed <= int(row[0])
        if older:
            con.execute("UPDATE Targets SET Incarnation = ''")
        con.execute("INSERT OR REPLACE INTO DBConfig VALUES ('FENCES_PASSED', ?)", (str(fences_passed),))
    return older


def move_cursor(con: Connection, target: str, seq: int) -> None:
    """Nothing up to ``seq`` needs sending."""
    with transaction(con):
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
    with transaction(con):
        for one in held:
            hold(con, target, one, now)
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
        "INSERT INTO MessageRecords (MessageID, Position, JobID, RecordID, Seq, EndTime, Digest, Key, Notes)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(message_id, position, *record) for position, record in enumerate(message.records)],
    )
    # Already now: the message may arrive without an answer, and a key too many is only sent zeros once more.
    con.executemany(
        "INSERT OR REPLACE INTO SumKeys (Target, Kind, Key, Year, Month, Jobs, MessageID) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(target, message.kind, *one, message_id) for one in message.sums],
    )
    return message._replace(message_id=message_id)


def hold(con: Connection, target: str, held: Held, now: int) -> None:
    """Inside a transaction: note that a record is not sent, unless an operator has decided that already."""
    record = held.record
    con.execute(
        "INSERT INTO HeldRecords (Target, JobID, RecordID, Seq, EndTime, State, Reason, Since)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (Target, JobID) DO UPDATE SET RecordID = excluded.RecordID, Seq = excluded.Seq,"
        " EndTime = excluded.EndTime, State = excluded.State, Reason = excluded.Reason, Attempts = Attempts + 1"
        " WHERE State <> 'dropped'",
        (target, record.job_id, record.record_id, record.seq, record.end_time, held.state, held.reason, now),
    )


def unanswered(con: Connection, target: str) -> Iterator[Message]:
    """The messages that were begun and have no answer, oldest first: they go before anything newer."""
    ids = con.execute(
        "SELECT MessageID FROM Messages WHERE Target = ? AND State = 'sending' ORDER BY MessageID", (target,)
    ).fetchall()
    return (stored(con, message_id) for (message_id,) in ids)


def count_unanswered(con: Connection, target: str) -> int:
    """How many messages were begun and have no answer."""
    row = con.execute("SELECT count(*) FROM Messages WHERE Target = ? AND State = 'sending'", (target,)).fetchone()
    return int(row[0])


def renew(con: Connection, message_id: int, data: bytes) -> None:
    """The same text in other bytes: the certificate that signed the old ones is not ours any more."""
    with transaction(con):
        con.execute(
            "UPDATE Messages SET Bytes = ?, ByteCount = ? WHERE MessageID = ?",
            (zlib.compress(data, 1), len(data), message_id),
        )


def stored(con: Connection, message_id: int) -> Message:
    """One message of the ledger, with its bytes."""
    row = con.execute(
        "SELECT MessageID, Kind, Origin, Seq, Destination, EmpaID, Digest, RecordCount, Bytes, Attempts"
        " FROM Messages WHERE MessageID = ?",
        (message_id,),
    ).fetchone()
    records = con.execute(
        "SELECT JobID, RecordID, Seq, EndTime, Digest, Key, Notes FROM MessageRecords WHERE MessageID = ?"
        " ORDER BY Position",
        (message_id,),
    ).fetchall()
    return Message._make((*row[:8], zlib.decompress(row[8]), tuple(map(SentRecord._make, records)), (), row[9]))


def attempted(con: Connection, message_id: int, code: int | None, words: str) -> None:
    """A message got no answer that ends it: it stays to be sent."""
    with transaction(con):
        con.execute(
            "UPDATE Messages SET Attempts = Attempts + 1, AnswerCode = ?, Answer = ? WHERE MessageID = ?",
            (code, words, message_id),
        )


def accepted(
    con: Connection, target: str, message: Message, code: int | None, words: str, receiver_id: str | None
) -> None:
    """The receiver has it: answer, records and cursor in one transaction."""
    con.execute("PRAGMA synchronous = NORMAL")
    try:
        with transaction(con):
            _answer(con, message.message_id, "accepted", code, words, receiver_id)
            if con.execute("SELECT 1 FROM HeldRecords WHERE Target = ? LIMIT 1", (target,)).fetchone():
                con.executemany(
                    "DELETE FROM HeldRecords WHERE Target = ? AND JobID = ?"
                    " AND State IN ('held', 'quarantined', 'retry')",
                    # Zeros take a job's old usage back; they do not bring the job itself.
                    [(target, record.job_id) for record in message.records if record.digest],
                )
            if message.seq is not None:
                _move(con, target, message.seq)
    finally:
        con.execute("PRAGMA synchronous = FULL")


def withdraw(con: Connection, message_ids: Sequence[int]) -> None:
    """Messages that were written down and certainly never sent, with what they were to carry, are forgotten."""
    if not message_ids:
        return
    with transaction(con):
        con.executemany("DELETE FROM MessageRecords WHERE MessageID = ?", [(one,) for one in message_ids])
        con.executemany("DELETE FROM Messages WHERE MessageID = ?", [(one,) for one in message_ids])


def split(con: Connection, target: str, message: Message, parts: Sequence[Message]) -> list[Message]:
    """Replace one refused message by its parts; the last of them takes over the cursor."""
    now = int(time.time())
    with transaction(con):
        _answer(con, message.message_id, "split", None, f"split into {len(parts)}", None)
        return [_insert(con, target, part, now) for part in parts]


def refused(
    con: Connection,
    target: str,
    message: Message,
    code: int | None,
    words: str,
    held: Iterable[Held],
    months: Iterable[tuple[int, int]] = (),
) -> None:
    """
    The receiver refuses a message that cannot be split: its record is set aside, the cursor moves on.

    ``months`` are those of a sum that was refused: what the receiver has of them is not known any more.
    """
    now = int(time.time())
    with transaction(con):
        _answer(con, message.message_id, "refused", code, words, None)
        for one in held:
            hold(con, target, one, now)
        for month in months:
            con.execute("INSERT OR IGNORE INTO OpenMonths (Target, Year, Month) VALUES (?, ?, ?)", (target, *month))
            con.execute(
                "UPDATE SumKeys SET Jobs = max(Jobs, 1) WHERE Target = ? AND Year = ? AND Month = ? AND Kind <> 'sync'",
                (target, *month),
            )
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


def forget_bytes(con: Connection, answered_before: int) -> None:
    """Drop the bytes of messages that were answered before then; what they carried stays known."""
    with transaction(con):
        con.execute(
            "UPDATE Messages SET Bytes = NULL WHERE State <> 'sending' AND Answered < ? AND Bytes IS NOT NULL",
            (answered_before,),
        )


def finish_run(con: Connection, target: str, *, error: str | None, last_end_time: int | None) -> None:
    """Close a target's run: its times, and jura's own row. Nothing refers to that row: jura's tools delete it."""
    now = int(time.time())
    with transaction(con):
        con.execute(
            "UPDATE Targets SET LastRun = ?1, LastError = ?2,"
            " LastSuccess = CASE WHEN ?2 IS NULL THEN ?1 ELSE LastSuccess END WHERE Target = ?3",
            (now, error, target),
        )
        if last_end_time is not None:
            con.execute(
                "INSERT OR REPLACE INTO AccountingTargets (TargetID, LastEndTime, LastReport) VALUES (?, ?, ?)",
                (target, last_end_time, now),
            )
