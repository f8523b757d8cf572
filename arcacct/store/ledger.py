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
        "SELECT Target, Incarnation, LastSeq, StartEndTime, LastSuccess FROM Targets WHERE Target = ?", (target,)
    ).fetchone()
    return None if row is None else Cursor._make(row)


def jura_end_time(con: Connection, target: str) -> int | None:
    """The end time up to which jura-ng (or we) published a target; ``None`` for one that jura does not know."""
    row = con.execute("SELECT LastEndTime FROM AccountingTargets WHERE TargetID = ?", (target,)).fetchone()
    return None if row is None else int(row[0])


def destinations(con: Connection) -> dict[str, str]:
    """Where the last message of each target of the ledger went, by target."""
    return dict(
        con.execute(
            "SELECT Target, Destination FROM Messages WHERE MessageID IN"
            " (SELECT max(MessageID) FROM Messages WHERE State = 'accepted' GROUP BY Target)"
        ).fetchall()
    )


def rename_target(con: Connection, old: str, new: str) -> None:
    """A target goes on under another name, with all its history."""
    with _transaction(con):
        for table in ("Targets", "Messages", "SumKeys", "HeldRecords"):
            con.execute(f"UPDATE {table} SET Target = ? WHERE Target = ?", (new, old))
        con.execute("UPDATE OR REPLACE AccountingTargets SET TargetID = ? WHERE TargetID = ?", (new, old))


def set_cursor(con: Connection, position: Cursor) -> None:
    """Begin a target, or begin it anew: what was sent before is recognised by its digest."""
    with _transaction(con):
        con.execute(
            "INSERT INTO Targets (Target, Incarnation, LastSeq, StartEndTime) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (Target) DO UPDATE SET Incarnation = excluded.Incarnation, LastSeq = excluded.LastSeq,"
            " StartEndTime = excluded.StartEndTime",
            position[:4],
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
        "SELECT JobID, RecordID, Seq, EndTime, Digest, Key, Notes FROM MessageRecords WHERE MessageID = ?"
        " ORDER BY Position",
        (message_id,),
    ).fetchall()
    return Message._make((*row[:8], zlib.decompress(row[8]), tuple(map(SentRecord._make, records)), (), row[9]))


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
            "DELETE FROM HeldRecords WHERE Target = ? AND JobID = ? AND State IN ('held', 'quarantined', 'retry')",
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


def versions(con: Connection, target: str, job_ids: Sequence[str]) -> dict[str, list[Version]]:
    """
    What the target's receiver may have of each of these jobs: the last version of every key, by JobID.

    Messages without an answer count: they may have arrived. Versions sent with zeros are left out.
    """
    found: dict[str, dict[str, Version]] = {}
    marks = ",".join("?" * len(job_ids))
    for job_id, *values in con.execute(
        "SELECT JobID, Kind, Key, MessageRecords.Digest, EndTime, RecordID FROM MessageRecords"
        f" JOIN Messages USING (MessageID) WHERE JobID IN ({marks}) AND Target = ?"
        " AND State IN ('accepted', 'sending') ORDER BY MessageID",
        (*job_ids, target),
    ):
        version = Version._make(values)
        found.setdefault(job_id, {})[version.key] = version
    return {job_id: [one for one in keys.values() if one.digest] for job_id, keys in found.items()}


def live_versions(con: Connection, target: str, kinds: Sequence[str], ended: tuple[int, int]) -> list[SentRecord]:
    """The job records of some kinds that the receiver has with ``ended[0] <= EndTime < ended[1]``, without zeros."""
    marks = ",".join("?" * len(kinds))
    found: dict[str, SentRecord] = {}
    for values in con.execute(
        "SELECT JobID, RecordID, MessageRecords.Seq, EndTime, MessageRecords.Digest, Key, Notes FROM Messages"
        " JOIN MessageRecords USING (MessageID)"
        f" WHERE Target = ? AND Kind IN ({marks}) AND EndTime >= ? AND EndTime < ?"
        " AND State IN ('accepted', 'sending') ORDER BY MessageID",
        (target, *kinds, *ended),
    ):
        record = SentRecord._make(values)
        found[record.key] = record
    return [record for record in found.values() if record.digest]


def live_sums(con: Connection, target: str, year: int, month: int) -> list[tuple[str, SentSum]]:
    """``(kind, sum)`` of each sum of a month that the receiver has and that is not zero."""
    return [
        (kind, SentSum._make(values))
        for kind, *values in con.execute(
            "SELECT Kind, Key, Year, Month, Jobs FROM SumKeys WHERE Target = ? AND Year = ? AND Month = ? AND Jobs > 0",
            (target, year, month),
        )
    ]


def months_of(con: Connection, target: str, kind: str) -> list[tuple[int, int]]:
    """The months of which the receiver has sums of a kind."""
    rows = con.execute(
        "SELECT DISTINCT Year, Month FROM SumKeys WHERE Target = ? AND Kind = ? AND Jobs > 0", (target, kind)
    )
    return [(year, month) for year, month in rows]


def job_kinds_sent(con: Connection, target: str) -> set[str]:
    """The kinds of messages with records of their own that the target was ever sent."""
    return {
        kind
        for (kind,) in con.execute(
            "SELECT DISTINCT Kind FROM Messages WHERE Target = ? AND Kind IN ('ur', 'car', 'individual',"
            " 'individual-v04')",
            (target,),
        )
    }


def held_to_send(con: Connection, target: str, ended_before: int) -> list[Held]:
    """Held records whose time has come (``held`` that ended before then), and those to be tried again."""
    return [
        Held(SentRecord(job_id, record_id, seq, end_time, b""), state, reason)
        for job_id, record_id, seq, end_time, state, reason in con.execute(
            "SELECT JobID, RecordID, Seq, EndTime, State, Reason FROM HeldRecords WHERE Target = ?"
            " AND (State = 'retry' OR (State = 'held' AND EndTime <= ?)) ORDER BY Seq",
            (target, ended_before),
        )
    ]


def release(con: Connection, target: str, job_ids: Iterable[str]) -> None:
    """These records are not held back any more: they no longer exist, or the receiver has them."""
    with _transaction(con):
        con.executemany(
            "DELETE FROM HeldRecords WHERE Target = ? AND JobID = ?", [(target, job_id) for job_id in job_ids]
        )


def hold_only(con: Connection, target: str, held: Sequence[Held]) -> None:
    """Of a target that is sent sums: exactly these jobs are left out of them."""
    now = int(time.time())
    with _transaction(con):
        job_ids = {one.record.job_id for one in held}
        rows = con.execute(
            "SELECT JobID FROM HeldRecords WHERE Target = ? AND State IN ('quarantined', 'retry')", (target,)
        ).fetchall()
        for (job_id,) in rows:
            if job_id not in job_ids:
                con.execute("DELETE FROM HeldRecords WHERE Target = ? AND JobID = ?", (target, job_id))
        for one in held:
            _hold(con, target, one, now)


def dropped(con: Connection, target: str, job_ids: Sequence[str]) -> set[str]:
    """Those of the jobs that an operator wants never sent to the target."""
    marks = ",".join("?" * len(job_ids))
    return {
        job_id
        for (job_id,) in con.execute(
            f"SELECT JobID FROM HeldRecords WHERE Target = ? AND State = 'dropped' AND JobID IN ({marks})",
            (target, *job_ids),
        )
    }


def accepted_after(con: Connection, target: str, message_id: int) -> bool:
    """Whether the target accepted a message that is newer than this one."""
    row = con.execute(
        "SELECT 1 FROM Messages WHERE Target = ? AND MessageID > ? AND State = 'accepted' LIMIT 1", (target, message_id)
    ).fetchone()
    return row is not None


def forget_bytes(con: Connection, answered_before: int) -> None:
    """Drop the bytes of messages that were answered before then; what they carried stays known."""
    with _transaction(con):
        con.execute(
            "UPDATE Messages SET Bytes = NULL WHERE State <> 'sending' AND Answered < ? AND Bytes IS NOT NULL",
            (answered_before,),
        )


def finish_run(con: Connection, target: str, *, error: str | None, last_end_time: int | None) -> None:
    """Close a target's run: its times, and jura's own row. Nothing refers to that row: jura's tools delete it."""
    now = int(time.time())
    with _transaction(con):
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


def earliest_held_end(con: Connection, target: str) -> int | None:
    """The earliest EndTime of a record that is held back from a target."""
    row = con.execute(
        "SELECT min(EndTime) FROM HeldRecords WHERE Target = ? AND State IN ('held', 'quarantined', 'retry')", (target,)
    ).fetchone()
    return None if row[0] is None else int(row[0])
