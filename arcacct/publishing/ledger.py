"""The ledger (publishing.db): what was sent where, what was answered, what is held and why (INVARIANTS 4)."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.database.durable import transaction
from arcacct.publishing import ledger_rows
from arcacct.publishing.cursors import advance
from arcacct.publishing.ledger_rows import DAY_S, month_of
from arcacct.wording import sanitise_line

COUNTS = "sync"
"""The kind of messages that say how many jobs a receiver was given: sums, but none of usage."""
DAMAGED = (
    "publishing.db has two different positions in the log: nothing up to there counts as sent; the next run of `arcacct"
    " publish` reads the log from its start, and sends only unsent records"
)


class SentRecord(NamedTuple):
    """One record in a message."""

    job_id: str
    record_id: int
    seq: int
    """0 when republished, or read from the ledger."""
    end_time: int
    digest: bytes
    """Empty when it is sent with zeros, to zero out what was sent under a key that is no longer valid."""
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
    """Where in `PublishedTotals` the receiver counts what it had under this key; ``None``: it had nothing."""
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
    """1: another program sent it; it is there to be taken back, and does not limit a decrease of our figures."""


class MonthSnapshot(NamedTuple):
    """Sums of a month, as of a place in FinishedLog of one life of the accounting database."""

    year: int
    month: int
    message_format: str
    seq: int
    incarnation: str


class Message(NamedTuple):
    """A message before it is sent, as the ledger keeps it."""

    message_id: int
    message_format: str
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
    """Only for `record_intent`: `SentSummaries` remembers them, not the message."""


class SentVersion(NamedTuple):
    """What a receiver has of a job under one key."""

    key: str
    digest: bytes
    end_time: int
    record_id: int
    total_id: int | None = None
    """Where in `PublishedTotals` it is counted."""
    wall_s: int = 0
    message_id: int = 0
    notes: str | None = None


class HeldRecord(NamedTuple):
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


_MESSAGE_COLUMNS = "Kind, Origin, Seq, Destination, EmpaID, Digest, RecordCount"
"""A Message between its id and its bytes, from Messages."""
_RECORD_COLUMNS = (
    "JobID, RecordID, 0, EndTime, Record.Digest, Key, Notes, coalesce(Site, ''), SubmitHost, coalesce(Record.Wall, 0),"
    " ReplacedID, coalesce(ReplacedWall, 0)"
)
"""A SentRecord of `sent_rows.of_messages`; its place in the log is noted nowhere."""

KEPT, OTHER = "0", "other"
"""
In the place of a receiver's number of a record, from one that gives none: it had the record already, in whatever
version; it has another version than the one that was sent.
"""
UNKNOWN_DIGEST = b"\0"
"""Of a record that the receiver has in a version that nobody knows: it is that of no record."""


class LedgerGap(NamedTuple):
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


def record_intent(
    con: Connection,
    target: str,
    messages: Sequence[Message],
    held: Iterable[HeldRecord] = (),
    *,
    seq: int | None = None,
    proofs: Iterable[MonthSnapshot] = (),
    one_kind: bool = False,
    keep: bool = True,
) -> list[Message]:
    """
    Write messages down before they are sent, bytes and all, and what is held back; returns them with their ids.

    ``seq`` moves the cursor at once: for records that are all held back. ``proofs`` are of months whose sums are all
    among the messages; ``one_kind``: a month that has records is in the kind of these from then on. Without ``keep``
    bytes do not stay when a message is answered: those of what was answered before go.
    """
    now = int(time.time())
    with transaction(con):
        if not keep:
            con.execute(
                "DELETE FROM MessageBytes WHERE MessageID IN (SELECT MessageID FROM (SELECT MessageID FROM MessageBytes"
                f" ORDER BY MessageID DESC LIMIT 100) CROSS JOIN Messages USING (MessageID) WHERE {_FORGOTTEN})"
            )
        for one in held:
            hold(con, target, one, now)
        if seq is not None:
            advance(con, target, seq)
        con.executemany(
            "INSERT INTO MonthFormats (Target, Year, Month, Kind, Seq, Incarnation, Sent) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (Target, Year, Month) DO UPDATE SET Seq = excluded.Seq, Incarnation = excluded.Incarnation,"
            " Sent = excluded.Sent",
            [(target, *proof, now) for proof in proofs],
        )
        return _inserted(con, target, messages, now, one_kind=one_kind, keep=keep)


def _inserted(
    con: Connection, target: str, messages: Sequence[Message], now: int, *, one_kind: bool, keep: bool
) -> list[Message]:
    jobs = ledger_rows.job_numbers(con, (record for message in messages for record in message.records))
    form_of, given = ledger_rows.KeyTemplates(con), _TotalIDs(con, target)
    written = []
    for message in messages:
        row = con.execute(
            f"INSERT INTO Messages (Target, {_MESSAGE_COLUMNS}, State, Created, ByteCount)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'sending', ?, ?)",
            (target, *message[1:8], now, len(message.data)),
        )
        message_id = row.lastrowid or 0
        _store(con, message_id, message.data, pack=keep)
        ledger_rows.add(con, message_id, message.records, [given.of(one) for one in message.records], jobs, form_of)
        if one_kind and message.records:
            # Already now, as the sums: what may have arrived decides in which family the month stays.
            months = {month_of(one.end_time) for one in message.records if one.submit_host is not None}
            con.executemany(
                "INSERT OR IGNORE INTO MonthFormats (Target, Year, Month, Kind) VALUES (?, ?, ?, ?)",
                [(target, *month, message.message_format) for month in months],
            )
        # Already now: the message may arrive without an answer, and a key too many is only sent zeros once more.
        con.executemany(
            "INSERT OR REPLACE INTO SentSummaries (Target, Kind, Key, Year, Month, Jobs, Wall, Site, SubmitHost,"
            " MessageID)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(target, message.message_format, *one[:7], message_id) for one in message.sums],
        )
        written.append(message._replace(message_id=message_id))
    return written


class _TotalIDs:
    """Where the receiver counts records: rows of PublishedTotals, each looked up once."""

    def __init__(self, con: Connection, target: str) -> None:
        """To be used in the caller's transaction."""
        self._con = con
        self._target = target
        self._known: dict[tuple[str, str, int], int] = {}
        """By site, submit host and day."""

    def of(self, record: SentRecord) -> int | None:
        """The row of a record; ``None``: it is counted nowhere."""
        site, host, end_time = record.site, record.submit_host, record.end_time
        if host is None:
            return None
        known = self._known.get((site, host, end_time // DAY_S))
        if known is None:
            known = published_total_id(self._con, self._target, (site, host, *month_of(end_time)))
            self._known[site, host, end_time // DAY_S] = known
        return known


def published_total_id(con: Connection, target: str, place: tuple[str, str, int, int]) -> int:
    """The row of `PublishedTotals` for a site, submit host, year and month; inside the caller's transaction."""
    found = con.execute(
        "SELECT PublishedTotalID FROM PublishedTotals WHERE Target = ? AND Site = ? AND SubmitHost = ? AND Year = ?"
        " AND Month = ?",
        (target, *place),
    ).fetchone()
    if found is not None:
        return int(found[0])
    made = con.execute(
        "INSERT INTO PublishedTotals (Target, Site, SubmitHost, Year, Month) VALUES (?, ?, ?, ?, ?)", (target, *place)
    )
    return made.lastrowid or 0


def hold(con: Connection, target: str, held: HeldRecord, now: int) -> None:
    """Inside a transaction: note that a record is not sent, unless an operator has decided that already."""
    con.execute(
        "INSERT INTO HeldRecords (Target, JobID, RecordID, Seq, EndTime, State, Reason, NextTry, Refusals, RefusedRun,"
        " Tried, Since) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?11, ?11)"
        " ON CONFLICT (Target, JobID) DO UPDATE SET RecordID = excluded.RecordID, Seq = excluded.Seq,"
        " EndTime = excluded.EndTime, State = excluded.State, Reason = excluded.Reason, NextTry = excluded.NextTry,"
        " Refusals = excluded.Refusals, RefusedRun = excluded.RefusedRun, Tried = excluded.Tried,"
        " Attempts = Attempts + 1 WHERE State <> 'dropped'",
        (target, *held.record[:4], held.state, sanitise_line(held.reason), *held[3:], now),
    )


def pending_messages(con: Connection, target: str) -> Iterator[Message]:
    """The messages that were begun and have no answer, oldest first: they go before anything newer."""
    ids = con.execute(
        "SELECT MessageID FROM Messages WHERE Target = ? AND State = 'sending' ORDER BY MessageID", (target,)
    ).fetchall()
    return (stored(con, message_id) for (message_id,) in ids)


def count_pending(con: Connection, target: str) -> int:
    """How many messages were begun and have no answer."""
    row = con.execute("SELECT count(*) FROM Messages WHERE Target = ? AND State = 'sending'", (target,)).fetchone()
    return int(row[0])


def last_message(con: Connection) -> int:
    """The highest MessageID that the ledger ever had; 0 for none."""
    row = con.execute("SELECT seq FROM sqlite_sequence WHERE name = 'Messages'").fetchone()
    return 0 if row is None else int(row[0])


def replace_payload(con: Connection, message_id: int, data: bytes) -> None:
    """The same text in other bytes: the certificate that signed the old ones is not ours any more."""
    with transaction(con):
        _store(con, message_id, data, pack=True)
        con.execute("UPDATE Messages SET ByteCount = ? WHERE MessageID = ?", (len(data), message_id))


def stored(con: Connection, message_id: int) -> Message:
    """One message of the ledger, with its bytes. Raises zlib.error when those are damaged."""
    values = con.execute(f"SELECT MessageID, {_MESSAGE_COLUMNS} FROM Messages WHERE MessageID = ?", (message_id,))
    data = kept_bytes(con, message_id)
    assert data is not None, "they are kept until they are answered"
    return Message._make((*values.fetchone(), data, tuple(records_of(con, message_id).values()), ()))


def kept_bytes(con: Connection, message_id: int) -> bytes | None:
    """What was sent, if the ledger still has it. Raises zlib.error when it is damaged."""
    data: bytes | None
    data, is_packed = con.execute(
        "SELECT Bytes, coalesce(IsPacked, 1) FROM Messages LEFT JOIN MessageBytes USING (MessageID)"
        " WHERE MessageID = ?",
        (message_id,),
    ).fetchone()
    return zlib.decompress(data) if is_packed and data is not None else data


def records_of(con: Connection, message_id: int) -> dict[int, SentRecord]:
    """By position, in that order: the records of a message."""
    rows = con.execute(
        f"{ledger_rows.of_messages(f'Position, {_RECORD_COLUMNS}', 'Messages.MessageID = ?1')} ORDER BY Position",
        (message_id,),
    )
    return {position: SentRecord._make(record) for position, *record in rows}


def _store(con: Connection, message_id: int, data: bytes, *, pack: bool) -> None:
    """Keep the bytes of a message; packed, which costs twice the time, if they stay when it is answered."""
    if pack:
        # The least effort, and tables that fit into the processor's cache: a sixth less time than `zlib.compress`.
        packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, 7)
        data = packer.compress(data) + packer.flush()
    con.execute("INSERT OR REPLACE INTO MessageBytes VALUES (?, ?, ?)", (message_id, pack, data))


def last_code(con: Connection, message_id: int) -> int | None:
    """The status of the last answer to a message; ``None`` when there was none."""
    row = con.execute("SELECT AnswerCode FROM Messages WHERE MessageID = ?", (message_id,)).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def attempted(con: Connection, message_id: int, code: int | None, words: str) -> None:
    """A message got no answer that ends it: it stays to be sent."""
    with transaction(con):
        con.execute(
            "UPDATE Messages SET Attempts = Attempts + 1, AnswerCode = ?, Answer = ? WHERE MessageID = ?",
            (code, sanitise_line(words), message_id),
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
    unknown: LedgerGap | None = None,
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
            rows = [receiver_rows.get(one.key) for one in message.records] if receiver_rows else []
            _answer(con, message.message_id, "accepted", code, words, receiver_id, rows)
            if con.execute("SELECT 1 FROM HeldRecords WHERE Target = ? LIMIT 1", (target,)).fetchone():
                con.executemany(
                    "DELETE FROM HeldRecords WHERE Target = ? AND JobID = ?"
                    " AND State IN ('held', 'quarantined', 'retry')",
                    # Zeros take a job's old usage back; they do not bring the job itself.
                    [(target, record.job_id) for record in message.records if record.digest],
                )
            kept = _kept(con, target, message, rows, unknown) if rows else []
            _count(con, message)
            now = int(time.time())
            for one in kept:
                hold(con, target, HeldRecord(one, "correction", still_there.format(key=one.key)), now)
            if message.seq is not None:
                advance(con, target, message.seq)
    finally:
        con.execute("PRAGMA synchronous = FULL")
    return [one.job_id for one in kept]


def _kept(
    con: Connection, target: str, message: Message, rows: Sequence[str | None], unknown: LedgerGap | None
) -> list[SentRecord]:
    """The records of which the receiver kept another version than the one just sent, by its numbers; noted as such."""
    again = [
        one.job_id
        for one, row in zip(message.records, rows, strict=True)
        if row is not None and one.replaced_id is not None
    ]
    before = ledger_rows.versions_before(con, target, again, message.message_id) if again else {}
    update = "UPDATE SentRecords SET {} WHERE Number = ?"
    kept = []
    first, _behind = ledger_rows.numbers(message.message_id)
    for number, (one, row) in enumerate(zip(message.records, rows, strict=True), first):
        if row is None:
            continue
        if one.replaced_id is None:
            if row == OTHER or (unknown is not None and unknown.has(one, row)):
                con.execute(update.format("Digest = ?"), (UNKNOWN_DIGEST, number))
                kept.append(one)
            continue
        old = before.get((one.job_id, one.key))
        if old is None or row not in (old.receiver_row, KEPT, OTHER):
            continue
        # What the receiver has is the earlier version: the ledger says so, whatever was sent.
        con.execute(
            update.format("(Digest, PublishedTotalID, Wall) = (?, ?, ?)"),
            (old.digest, old.total_id, old.wall_s, number),
        )
        if old.digest != one.digest:
            kept.append(one)
    return kept


def _count(con: Connection, message: Message) -> None:
    """What the receiver has more now, and what less, by where it counts it."""
    changes = [("PublishedTotalID", "Wall", "+")]
    # A refusal may have changed what a record replaces (`_count_without`), but not whether it does.
    if any(one.replaced_id is not None for one in message.records):
        changes.append(("ReplacedID", "ReplacedWall", "-"))
    for place, wall, sign in changes:
        con.execute(
            f"UPDATE PublishedTotals SET Jobs = PublishedTotals.Jobs {sign} Change.Jobs, Wall ="
            f" PublishedTotals.Wall {sign} Change.Wall FROM"
            f" (SELECT {place} AS Place, count(*) AS Jobs, sum({wall}) AS Wall FROM SentRecords WHERE Number >= ?"
            f" AND Number < ? AND {place} IS NOT NULL GROUP BY {place}) AS Change WHERE"
            " PublishedTotals.PublishedTotalID = Change.Place",
            ledger_rows.numbers(message.message_id),
        )


def _count_without(con: Connection, target: str, message_id: int) -> None:
    """
    What was sent in the place of a record that never arrived took that one out of the counts: put it right.

    It replaced what that record would have replaced.
    """
    for job_id, key, given, wall_s, before, before_s in con.execute(
        "SELECT JobID, Key, PublishedTotalID, coalesce(Wall, 0), ReplacedID, coalesce(ReplacedWall, 0) FROM SentRows"
        " WHERE Number >= ? AND Number < ? AND PublishedTotalID IS NOT NULL",
        ledger_rows.numbers(message_id),
    ).fetchall():
        newer = ledger_rows.of_jobs(
            con,
            "Record.MessageID, Record.Position, State",
            [job_id],
            "Target = ? AND Key = ? AND Record.MessageID > ? AND State IN ('accepted', 'sending') AND ReplacedID = ?",
            *(target, key, message_id, given),
        )
        if not newer:
            continue
        newer_id, position, state = newer[0]
        con.execute(
            "UPDATE SentRecords SET (ReplacedID, ReplacedWall) = (?, ?) WHERE Number = ?",
            (before, before_s, ledger_rows.numbers(newer_id)[0] + position),
        )
        if state == "accepted":
            change = "UPDATE PublishedTotals SET Jobs = Jobs + ?, Wall = Wall + ? WHERE PublishedTotalID = ?"
            con.execute(change, (1, wall_s, given))
            con.execute(change, (-1, -before_s, before))


def highest_row(con: Connection, target: str, kind: str) -> int:
    """The highest number that a receiver gave to a record of the newest messages to it; 0 for none."""
    messages = con.execute(
        "SELECT ReceiverRows FROM Messages WHERE Target = ? AND Kind = ? AND State = 'accepted'"
        " ORDER BY MessageID DESC LIMIT 100",
        (target, kind),
    ).fetchall()
    rows = [row for (packed,) in messages for row in ledger_rows.unpacked_rows(packed)]
    return max((int(row) for row in rows if row is not None and row.isdecimal()), default=0)


def discard_unsent(con: Connection, message_ids: Sequence[int]) -> None:
    """Messages that were written down and certainly never sent, with what they were to carry, are forgotten."""
    if not message_ids:
        return
    with transaction(con):
        con.executemany(
            "DELETE FROM SentRecords WHERE Number >= ? AND Number < ?", map(ledger_rows.numbers, message_ids)
        )
        for table in ("MessageBytes", "Messages"):
            con.executemany(f"DELETE FROM {table} WHERE MessageID = ?", [(one,) for one in message_ids])


def split(
    con: Connection, target: str, message: Message, parts: Sequence[Message], *, one_kind: bool = False
) -> list[Message]:
    """Replace one refused message by its parts; the last of them takes over the cursor."""
    now = int(time.time())
    with transaction(con):
        _answer(con, message.message_id, "split", None, f"split into {len(parts)}", None)
        return _inserted(con, target, parts, now, one_kind=one_kind, keep=True)


def refused(
    con: Connection,
    target: str,
    message: Message,
    code: int | None,
    words: str,
    held: Iterable[HeldRecord],
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
                "INSERT INTO RefusedSummaries (Target, Kind, Year, Month, Reason, Refusals, RefusedRun, Since)"
                " VALUES (?, ?, ?, ?, ?, 1, ?, ?) ON CONFLICT (Target, Kind, Year, Month) DO UPDATE SET"
                " Reason = excluded.Reason, Refusals = Refusals + (RefusedRun <> excluded.RefusedRun),"
                " RefusedRun = excluded.RefusedRun",
                (target, message.message_format, *month, sanitise_line(words), run, now),
            )
            (count,) = con.execute(
                "SELECT Refusals FROM RefusedSummaries WHERE Target = ? AND Kind = ? AND Year = ? AND Month = ?",
                (target, message.message_format, *month),
            ).fetchone()
            refusals = max(refusals, count)
            if message.message_format == COUNTS:
                # Counts of every month are sent in every run.
                continue
            con.execute(
                "INSERT OR IGNORE INTO UnfinishedMonths (Target, Year, Month) VALUES (?, ?, ?)", (target, *month)
            )
            con.execute(
                "UPDATE SentSummaries SET Jobs = max(Jobs, 1) WHERE Target = ? AND Year = ? AND Month = ? AND Kind"
                " <> 'sync'",
                (target, *month),
            )
        if message.seq is not None:
            advance(con, target, message.seq)
    return refusals


def _answer(
    con: Connection,
    message_id: int,
    state: str,
    code: int | None,
    words: str,
    receiver_id: str | None,
    receiver_rows: Sequence[str | None] = (),
) -> None:
    con.execute(
        "UPDATE Messages SET State = ?, Answered = ?, Attempts = Attempts + 1, AnswerCode = ?, Answer = ?,"
        " ReceiverID = ?, ReceiverRows = ? WHERE MessageID = ?",
        (
            state,
            int(time.time()),
            code,
            sanitise_line(words),
            None if receiver_id is None else sanitise_line(receiver_id),
            ledger_rows.packed_rows(receiver_rows) if receiver_rows else None,
            message_id,
        ),
    )


_FORGOTTEN = (
    "State <> 'sending' AND (State <> 'accepted' OR EXISTS (SELECT 1 FROM Messages AS Newer WHERE"
    " Newer.Target = Messages.Target AND Newer.Kind = Messages.Kind AND Newer.MessageID > Messages.MessageID"
    " AND Newer.State = 'accepted' AND Newer.MessageID IN (SELECT MessageID FROM"
    " MessageBytes)))"
)
"""
Of which messages the bytes may go: of answered ones, but for the last of each kind that a target took. With that one
a receiver is asked whether it still works.
"""
_SLICE = 50
"""So many messages are looked at, or in one transaction."""


def forget_bytes(con: Connection, answered_before: int) -> None:
    """
    Drop the bytes of messages that were answered before then; what they carried stays known.

    In slices.
    """
    after = 0
    while True:
        some = con.execute(
            f"SELECT MessageID, Answered >= ?1, {_FORGOTTEN} FROM (SELECT MessageID FROM MessageBytes"
            f" WHERE MessageID > ?2 ORDER BY MessageID LIMIT {_SLICE}) CROSS JOIN Messages USING (MessageID)"
            " ORDER BY MessageID",
            (answered_before, after),
        ).fetchall()
        gone = [(message_id,) for message_id, is_young, may_go in some if may_go and not is_young]
        if gone:
            with transaction(con):
                con.executemany("DELETE FROM MessageBytes WHERE MessageID = ?", gone)
        # They are in the order in which they were sent.
        elif not some or any(is_young for _message_id, is_young, _may_go in some):
            break
        after = some[-1][0]
