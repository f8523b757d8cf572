"""
The ledger of publishing: what was sent where, what was answered, what is held back and why (publishing.db).

Every function is one transaction, at synchronous=FULL; only `accepted` leaves the sync to the next one: an answer that
a power cut takes back is a message sent again. The order is the caller's: `intend` before sending, `accepted` after
(INVARIANTS 4). No transaction spans the two databases.
A receiver's words, and those of an error, are kept as `wording.fit` lets them out: people read them on terminals.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from arcacct.db.durable import transaction
from arcacct.db.engine import Connection
from arcacct.publishing.instants import month_of
from arcacct.wording import fit

COUNTS = "sync"
"""The kind of messages that say how many jobs a receiver was given: sums, but none of usage."""


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
    site: str = ""
    submit_host: str | None = None
    """Where the receiver counts it, with `site` and the month of its end; ``None``: nowhere, as zeros."""
    wall_s: int = 0
    """As sent."""
    replaced_id: int | None = None
    """Where in `Given` the receiver counts what it had under this key; ``None``: it had nothing."""
    replaced_wall_s: int = 0


class SentSum(NamedTuple):
    """One sum in a message: the key that the receiver replaces by (JSON), and what it stands for."""

    key: str
    year: int
    month: int
    jobs: int
    wall_s: int | None = 0
    """``None``: sent by a program that did not note it."""
    site: str = ""
    submit_host: str = ""
    """As it is sent."""
    is_adopted: int = 0
    """1: another program sent it; it is there to be taken back, and no floor under our figures."""


class MonthProof(NamedTuple):
    """Sums of a month, as of a place in FinishedLog of one life of the accounting database."""

    year: int
    month: int
    kind: str
    seq: int
    incarnation: str


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


class Version(NamedTuple):
    """What a receiver has of a job under one key."""

    key: str
    digest: bytes
    end_time: int
    record_id: int
    given_id: int | None = None
    """Where in `Given` it is counted."""
    wall_s: int = 0
    message_id: int = 0
    notes: str | None = None


class Held(NamedTuple):
    """A record that is not sent, and why."""

    record: SentRecord
    state: str
    """``held``, ``quarantined``, ``correction``, ``retry`` or ``dropped``: see table HeldRecords."""
    reason: str
    next_try: int | None = None
    """Not before then, UTC seconds, is it tried again by itself; ``None``: once it is settled, or not at all."""
    refusals: int = 0
    """In how many runs the receiver refused it."""
    refused_run: int = 0
    """The last of them."""


_BY_TARGET = (
    "Targets",
    "Messages",
    "SumKeys",
    "HeldRecords",
    "OpenMonths",
    "Given",
    "Months",
    "HeldMonths",
    "AcceptedMonths",
    "RefusedSums",
)
"""The tables that know a target by its name."""

_MESSAGE_COLUMNS = "Kind, Origin, Seq, Destination, EmpaID, Digest, RecordCount"
"""A Message between its id and its bytes, from Messages."""
RECORD_COLUMNS = (
    "MessageRecords.JobID, MessageRecords.RecordID, MessageRecords.Seq, MessageRecords.EndTime, MessageRecords.Digest,"
    " MessageRecords.Key, MessageRecords.Notes, coalesce(Given.Site, ''), Given.SubmitHost,"
    " coalesce(MessageRecords.Wall, 0), MessageRecords.ReplacedID, coalesce(MessageRecords.ReplacedWall, 0)"
)
"""A SentRecord, from MessageRecords LEFT JOIN Given."""

KEPT, OTHER = "0", "other"
"""
In the place of a receiver's number of a record, from one that gives none: it had the record already, in whatever
version; it has another version than the one that was sent.
"""
UNKNOWN_DIGEST = b"\0"
"""Of a record that the receiver has in a version that nobody knows: it is that of no record."""


class Unknown(NamedTuple):
    """What a ledger that was lost, or is an older copy, may not know of a receiver that numbers its records (SGAS)."""

    last_row: int
    """The highest number that the receiver is known to have given."""
    changed: frozenset[str]
    """JobIDs of records that were another version once, since when the ledger does not know what was sent."""

    def has(self, record: SentRecord, row: str) -> bool:
        """Whether the receiver had a version of a record before, by the number that it gives it: perhaps an old one."""
        return (
            record.replaced_id is None
            and record.job_id in self.changed
            and row.isdecimal()
            and int(row) <= self.last_row
        )


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
        for table in _BY_TARGET:
            con.execute(f"UPDATE {table} SET Target = ? WHERE Target = ?", (new, old))
        con.execute("UPDATE OR REPLACE AccountingTargets SET TargetID = ? WHERE TargetID = ?", (new, old))


def set_cursor(con: Connection, position: Cursor, *, in_doubt: bool = False) -> None:
    """
    Begin a target, or begin it anew: what was sent before is recognised by its digest.

    ``in_doubt``: a lost ledger may have known it; what was sent is unknown.
    """
    with transaction(con):
        # What is under way counts in the numbers of before: it would carry the new cursor past records of today.
        con.execute("UPDATE Messages SET Seq = NULL WHERE Target = ? AND State = 'sending'", (position.target,))
        con.execute("UPDATE HeldRecords SET Seq = 0 WHERE Target = ?", (position.target,))
        con.execute(
            # A target that was never sent anything has nothing to be counted.
            "INSERT INTO Targets (Target, Incarnation, LastSeq, StartEndTime, Counted) VALUES (?, ?, ?, ?, 1)"
            " ON CONFLICT (Target) DO UPDATE SET Incarnation = excluded.Incarnation, LastSeq = excluded.LastSeq,"
            " StartEndTime = excluded.StartEndTime",
            position[:4],
        )
        if in_doubt:
            con.execute("UPDATE Targets SET DoubtSeq = 0 WHERE Target = ?", (position.target,))


def begin_run(con: Connection, target: str) -> int:
    """The number of a target's run that begins now."""
    with transaction(con):
        con.execute("UPDATE Targets SET Runs = Runs + 1 WHERE Target = ?", (target,))
    return last_run(con, target)


def last_run(con: Connection, target: str) -> int:
    """The number of a target's last run; 0 when there was none."""
    row = con.execute("SELECT Runs FROM Targets WHERE Target = ?", (target,)).fetchone()
    return 0 if row is None else int(row[0])


def move_cursor(con: Connection, target: str, seq: int) -> None:
    """Nothing up to ``seq`` needs sending."""
    with transaction(con):
        _move(con, target, seq)


def _move(con: Connection, target: str, seq: int) -> None:
    con.execute("UPDATE Targets SET LastSeq = max(LastSeq, ?) WHERE Target = ?", (seq, target))


def intend(
    con: Connection,
    target: str,
    messages: Sequence[Message],
    held: Iterable[Held] = (),
    *,
    seq: int | None = None,
    proofs: Iterable[MonthProof] = (),
    one_kind: bool = False,
) -> list[Message]:
    """
    Write messages down before they are sent, bytes and all, and what is held back; returns them with their ids.

    ``seq`` moves the cursor at once: for records that are all held back. ``proofs`` are of months whose sums are all
    among the messages; ``one_kind``: a month that has records is in the kind of these from then on.
    """
    now = int(time.time())
    with transaction(con):
        for one in held:
            hold(con, target, one, now)
        if seq is not None:
            _move(con, target, seq)
        con.executemany(
            "INSERT INTO Months (Target, Year, Month, Kind, Seq, Incarnation, Sent) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (Target, Year, Month) DO UPDATE SET Seq = excluded.Seq, Incarnation = excluded.Incarnation,"
            " Sent = excluded.Sent",
            [(target, *proof, now) for proof in proofs],
        )
        return [_insert(con, target, message, now, one_kind=one_kind) for message in messages]


def _insert(con: Connection, target: str, message: Message, now: int, *, one_kind: bool) -> Message:
    row = con.execute(
        f"INSERT INTO Messages (Target, {_MESSAGE_COLUMNS}, State, Created, ByteCount, Bytes)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'sending', ?, ?, ?)",
        (target, *message[1:8], now, len(message.data), zlib.compress(message.data, 1)),
    )
    message_id = row.lastrowid or 0
    places = [
        None if one.submit_host is None else (one.site, one.submit_host, *month_of(one.end_time))
        for one in message.records
    ]
    given = {None: None} | {place: given_id(con, target, place) for place in set(places) if place is not None}
    con.executemany(
        "INSERT INTO MessageRecords (MessageID, Position, JobID, RecordID, Seq, EndTime, Digest, Key, Notes, GivenID,"
        " Wall, ReplacedID, ReplacedWall) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (message_id, position, *one[:7], given[place], one.wall_s, *one[10:])
            for position, (one, place) in enumerate(zip(message.records, places, strict=True))
        ],
    )
    if one_kind:
        # Already now, as the sums: what may have arrived decides in which family the month stays.
        con.executemany(
            "INSERT OR IGNORE INTO Months (Target, Year, Month, Kind) VALUES (?, ?, ?, ?)",
            [(target, *place[2:], message.kind) for place in given if place is not None],
        )
    # Already now: the message may arrive without an answer, and a key too many is only sent zeros once more.
    con.executemany(
        "INSERT OR REPLACE INTO SumKeys (Target, Kind, Key, Year, Month, Jobs, Wall, Site, SubmitHost, MessageID)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(target, message.kind, *one[:7], message_id) for one in message.sums],
    )
    return message._replace(message_id=message_id)


def given_id(con: Connection, target: str, place: tuple[str, str, int, int]) -> int:
    """The row of `Given` for a site, submit host, year and month; inside the caller's transaction."""
    found = con.execute(
        "SELECT GivenID FROM Given WHERE Target = ? AND Site = ? AND SubmitHost = ? AND Year = ? AND Month = ?",
        (target, *place),
    ).fetchone()
    if found is not None:
        return int(found[0])
    made = con.execute(
        "INSERT INTO Given (Target, Site, SubmitHost, Year, Month) VALUES (?, ?, ?, ?, ?)", (target, *place)
    )
    return made.lastrowid or 0


def hold(con: Connection, target: str, held: Held, now: int) -> None:
    """Inside a transaction: note that a record is not sent, unless an operator has decided that already."""
    con.execute(
        "INSERT INTO HeldRecords (Target, JobID, RecordID, Seq, EndTime, State, Reason, NextTry, Refusals, RefusedRun,"
        " Tried, Since) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?11, ?11)"
        " ON CONFLICT (Target, JobID) DO UPDATE SET RecordID = excluded.RecordID, Seq = excluded.Seq,"
        " EndTime = excluded.EndTime, State = excluded.State, Reason = excluded.Reason, NextTry = excluded.NextTry,"
        " Refusals = excluded.Refusals, RefusedRun = excluded.RefusedRun, Tried = excluded.Tried,"
        " Attempts = Attempts + 1 WHERE State <> 'dropped'",
        (target, *held.record[:4], held.state, fit(held.reason), *held[3:], now),
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
    *values, packed = con.execute(
        f"SELECT MessageID, {_MESSAGE_COLUMNS}, Bytes FROM Messages WHERE MessageID = ?", (message_id,)
    ).fetchone()
    records = con.execute(
        f"SELECT {RECORD_COLUMNS} FROM MessageRecords LEFT JOIN Given USING (GivenID) WHERE MessageID = ?"
        " ORDER BY Position",
        (message_id,),
    ).fetchall()
    return Message._make((*values, zlib.decompress(packed), tuple(map(SentRecord._make, records)), ()))


def last_code(con: Connection, message_id: int) -> int | None:
    """The status of the last answer to a message; ``None`` when there was none."""
    row = con.execute("SELECT AnswerCode FROM Messages WHERE MessageID = ?", (message_id,)).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def attempted(con: Connection, message_id: int, code: int | None, words: str) -> None:
    """A message got no answer that ends it: it stays to be sent."""
    with transaction(con):
        con.execute(
            "UPDATE Messages SET Attempts = Attempts + 1, AnswerCode = ?, Answer = ? WHERE MessageID = ?",
            (code, fit(words), message_id),
        )


def accepted(
    con: Connection,
    target: str,
    message: Message,
    code: int | None,
    words: str,
    receiver_id: str | None,
    receiver_rows: Mapping[str, str] | None = None,
    still_there: str = "",
    unknown: Unknown | None = None,
) -> list[str]:
    """
    The receiver has it: answer, records, counts and cursor in one transaction.

    ``receiver_rows`` are the receiver's own numbers of the records, by key (SGAS). A number that is not new says that
    it kept what it had, as `KEPT` and `OTHER` do: such a record is set aside as ``correction``, for the reason
    ``still_there`` with its ``{key}``. So is one of which it may have another version that the ledger has lost
    (``unknown``). Returns the JobIDs of those.
    """
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
            kept = _note_rows(con, target, message, receiver_rows or {}, unknown)
            _count(con, message)
            now = int(time.time())
            for one in kept:
                hold(con, target, Held(one, "correction", still_there.format(key=one.key)), now)
            if message.seq is not None:
                _move(con, target, message.seq)
    finally:
        con.execute("PRAGMA synchronous = FULL")
    return [one.job_id for one in kept]


def _note_rows(
    con: Connection, target: str, message: Message, rows: Mapping[str, str], unknown: Unknown | None
) -> list[SentRecord]:
    """Note the receiver's numbers; returns the records of which it kept another version than the one just sent."""

    def note(what: str, position: int, *values: object) -> None:
        update = f"UPDATE MessageRecords SET {what} WHERE MessageID = ? AND Position = ?"
        con.execute(update, (*values, message.message_id, position))

    kept = []
    for position, one in enumerate(message.records):
        row = rows.get(one.key)
        if row is None:
            continue
        note("ReceiverRow = ?", position, row)
        if one.replaced_id is None:
            if row == OTHER or (unknown is not None and unknown.has(one, row)):
                note("Digest = ?", position, UNKNOWN_DIGEST)
                kept.append(one)
            continue
        before = con.execute(
            "SELECT MessageRecords.Digest, GivenID, Wall, ReceiverRow FROM MessageRecords"
            " JOIN Messages USING (MessageID) WHERE JobID = ? AND Target = ? AND Key = ? AND State = 'accepted'"
            " AND MessageID < ? ORDER BY MessageID DESC LIMIT 1",
            (one.job_id, target, one.key, message.message_id),
        ).fetchone()
        if before is None or row not in (before[3], KEPT, OTHER):
            continue
        # What the receiver has is the earlier version: the ledger says so, whatever was sent.
        digest, given, wall_s, _row = before
        note("(Digest, GivenID, Wall) = (?, ?, ?)", position, digest, given, wall_s)
        if digest != one.digest:
            kept.append(one)
    return kept


def _count(con: Connection, message: Message) -> None:
    """What the receiver has more now, and what less, by where it counts it."""
    for place, wall, sign in (("GivenID", "Wall", "+"), ("ReplacedID", "ReplacedWall", "-")):
        con.execute(
            f"UPDATE Given SET Jobs = Given.Jobs {sign} Change.Jobs, Wall = Given.Wall {sign} Change.Wall FROM"
            f" (SELECT {place} AS Place, count(*) AS Jobs, sum({wall}) AS Wall FROM MessageRecords WHERE MessageID = ?"
            f" AND {place} IS NOT NULL GROUP BY {place}) AS Change WHERE Given.GivenID = Change.Place",
            (message.message_id,),
        )


def _count_without(con: Connection, target: str, message_id: int) -> None:
    """
    What was sent in the place of a record that never arrived took that one out of the counts: put it right.

    It replaced what that record would have replaced.
    """
    for job_id, key, given, wall_s, before, before_s in con.execute(
        "SELECT JobID, Key, GivenID, coalesce(Wall, 0), ReplacedID, coalesce(ReplacedWall, 0) FROM MessageRecords"
        " WHERE MessageID = ? AND GivenID IS NOT NULL",
        (message_id,),
    ).fetchall():
        newer = con.execute(
            "SELECT MessageID, Position, State FROM MessageRecords JOIN Messages USING (MessageID) WHERE JobID = ?"
            " AND Target = ? AND Key = ? AND MessageID > ? AND State IN ('accepted', 'sending') AND ReplacedID = ?"
            " ORDER BY MessageID LIMIT 1",
            (job_id, target, key, message_id, given),
        ).fetchone()
        if newer is None:
            continue
        newer_id, position, state = newer
        con.execute(
            "UPDATE MessageRecords SET (ReplacedID, ReplacedWall) = (?, ?) WHERE MessageID = ? AND Position = ?",
            (before, before_s, newer_id, position),
        )
        if state == "accepted":
            change = "UPDATE Given SET Jobs = Jobs + ?, Wall = Wall + ? WHERE GivenID = ?"
            con.execute(change, (1, wall_s, given))
            con.execute(change, (-1, -before_s, before))


def highest_row(con: Connection, target: str, kind: str) -> int:
    """The highest number that a receiver gave to a record of the newest messages to it; 0 for none."""
    row = con.execute(
        "SELECT max(CAST(ReceiverRow AS INTEGER)) FROM MessageRecords WHERE MessageID IN"
        " (SELECT MessageID FROM Messages WHERE Target = ? AND Kind = ? AND State = 'accepted'"
        " ORDER BY MessageID DESC LIMIT 100)",
        (target, kind),
    ).fetchone()
    return int(row[0] or 0)


def withdraw(con: Connection, message_ids: Sequence[int]) -> None:
    """Messages that were written down and certainly never sent, with what they were to carry, are forgotten."""
    if not message_ids:
        return
    with transaction(con):
        con.executemany("DELETE FROM MessageRecords WHERE MessageID = ?", [(one,) for one in message_ids])
        con.executemany("DELETE FROM Messages WHERE MessageID = ?", [(one,) for one in message_ids])


def split(
    con: Connection, target: str, message: Message, parts: Sequence[Message], *, one_kind: bool = False
) -> list[Message]:
    """Replace one refused message by its parts; the last of them takes over the cursor."""
    now = int(time.time())
    with transaction(con):
        _answer(con, message.message_id, "split", None, f"split into {len(parts)}", None)
        return [_insert(con, target, part, now, one_kind=one_kind) for part in parts]


def refused(
    con: Connection,
    target: str,
    message: Message,
    code: int | None,
    words: str,
    held: Iterable[Held],
    months: Iterable[tuple[int, int]] = (),
    run: int = 0,
) -> int:
    """
    The receiver refuses a message that cannot be split: its record is set aside, the cursor moves on.

    ``months`` are those of a sum that was refused: what the receiver has of them is not known any more. Returns in how
    many runs, one after the other and this one included, a sum of such a month was refused.
    """
    now, refusals = int(time.time()), 0
    with transaction(con):
        _answer(con, message.message_id, "refused", code, words, None)
        _count_without(con, target, message.message_id)
        for one in held:
            hold(con, target, one, now)
        for month in months:
            con.execute(
                "INSERT INTO RefusedSums (Target, Kind, Year, Month, Reason, Refusals, RefusedRun, Since)"
                " VALUES (?, ?, ?, ?, ?, 1, ?, ?) ON CONFLICT (Target, Kind, Year, Month) DO UPDATE SET"
                " Reason = excluded.Reason, Refusals = Refusals + (RefusedRun <> excluded.RefusedRun),"
                " RefusedRun = excluded.RefusedRun",
                (target, message.kind, *month, fit(words), run, now),
            )
            (count,) = con.execute(
                "SELECT Refusals FROM RefusedSums WHERE Target = ? AND Kind = ? AND Year = ? AND Month = ?",
                (target, message.kind, *month),
            ).fetchone()
            refusals = max(refusals, count)
            if message.kind == COUNTS:
                # Counts of every month are sent in every run.
                continue
            con.execute("INSERT OR IGNORE INTO OpenMonths (Target, Year, Month) VALUES (?, ?, ?)", (target, *month))
            con.execute(
                "UPDATE SumKeys SET Jobs = max(Jobs, 1) WHERE Target = ? AND Year = ? AND Month = ? AND Kind <> 'sync'",
                (target, *month),
            )
        if message.seq is not None:
            _move(con, target, message.seq)
    return refusals


def _answer(
    con: Connection, message_id: int, state: str, code: int | None, words: str, receiver_id: str | None
) -> None:
    con.execute(
        "UPDATE Messages SET State = ?, Answered = ?, Attempts = Attempts + 1, AnswerCode = ?, Answer = ?,"
        " ReceiverID = ? WHERE MessageID = ?",
        (state, int(time.time()), code, fit(words), None if receiver_id is None else fit(receiver_id), message_id),
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
            (now, None if error is None else fit(error), target),
        )
        if last_end_time is not None:
            con.execute(
                "INSERT OR REPLACE INTO AccountingTargets (TargetID, LastEndTime, LastReport) VALUES (?, ?, ?)",
                (target, last_end_time, now),
            )
