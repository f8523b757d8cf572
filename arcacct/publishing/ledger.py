"""The ledger (publishing.db): what was sent where, the answers, and held records with their reasons (INVARIANTS 4)."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, partial
from os.path import commonprefix
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.database.durable import transaction
from arcacct.publishing import ledger_rows, target_months
from arcacct.publishing.ledger_rows import THERE
from arcacct.publishing.target_months import MonthSnapshot
from arcacct.times import DAY_S, Month, month_of
from arcacct.wording import sanitise_line

Names = tuple[str | int | None, ...]
"""
The names under which a receiver counts a job, as they are sent: site and submit host (SGAS: ``''`` and the machine),
then all others by which it groups jobs, such as the user and the number of cores.
"""
PLACE = 2
"""The number of names that say where a job counts: site and submit host."""
COUNTS = "sync"
"""The kind of messages with the number of jobs that a receiver was given: sums, but not of usage."""
DAMAGED = (
    "publishing.db has two different positions in the log: nothing up to there counts as sent; the next run of `arcacct"
    " publish` reads the log from its start, and sends only unsent records"
)


class SentRecord(NamedTuple):
    """One record in a message."""

    job_id: str
    record_id: int
    """In the accounting database; 0 if that has no such record, or if it was read from the ledger."""
    seq: int
    """0 if it is republished or was read from the ledger."""
    end_time: int
    digest: bytes
    """Empty if it is sent with zeros, to remove the usage under a key that is no longer valid."""
    key: str = ""
    """The receiver's key of the record."""
    notes: str | None = None
    """The repairs that were made before sending."""
    names: Names | None = None
    """The names under which the receiver counts it; ``None``: `total_id` has them, or it is not counted."""
    wall_s: int = 0
    """The wall time that was sent."""
    replaced_id: int | None = None
    """The row of `PublishedTotals` that counts the receiver's previous version of this key; ``None``: there is none."""
    replaced_wall_s: int = 0
    total_id: int | None = None
    """The row of `PublishedTotals` with its names and month; ``None``: the row of `names`, if there are any."""


class SentSum(NamedTuple):
    """One sum in a message: the key (JSON) under which the receiver replaces it, and its figures."""

    key: str
    year: int
    month: int
    jobs: int
    wall_s: int | None = 0
    """``None``: the program that sent it did not note it."""
    site: str = ""
    submit_host: str = ""
    """The submit host that is sent."""
    is_adopted: int = 0
    """1: another program sent it. It is stored only to be retracted, and does not limit a decrease of our figures."""


class Message(NamedTuple):
    """A message as the ledger stores it before it is sent."""

    message_id: int
    message_format: str
    origin: str
    seq: int | None
    """The new place of the cursor once the message is accepted; ``None``: it does not move the cursor."""
    destination: str
    empaid: str | None
    digest: str
    record_count: int
    data: bytes
    """Exactly the bytes that are sent."""
    records: tuple[SentRecord, ...]
    sums: tuple[SentSum, ...] = ()
    """Used only by `record_intent`. `SentSummaries` stores them; the message does not."""
    group: str | None = None
    """The group by which the receiver grants rights (`RecordFormat.authorisation_group`). It is not stored."""


class SentVersion(NamedTuple):
    """The receiver's version of a job under one key."""

    key: str
    digest: bytes
    end_time: int
    total_id: int | None = None
    """The row of `PublishedTotals` that counts it."""
    wall_s: int = 0
    message_id: int = 0
    notes: str | None = None


class HeldRecord(NamedTuple):
    """A record that is not sent, with the reason."""

    record: SentRecord
    state: str
    """``held``, ``quarantined``, ``correction``, ``retry`` or ``dropped``: see table HeldRecords."""
    reason: str
    next_try: int | None = None
    """UTC seconds: it is not tried again automatically before then; ``None``: after it is settled, or never."""
    refusals: int = 0
    """The number of runs in which the receiver refused it."""
    refused_run: int = 0
    """The last of these runs."""


_MESSAGE_COLUMNS = "Kind, Origin, Seq, Destination, EmpaID, Digest, RecordCount"
"""The columns of Messages for a Message, between its id and its bytes."""
_RECORD_COLUMNS = (
    f"JobID, 0, 0, EndTime, Record.Digest, {ledger_rows.KEY}, Notes, NULL, coalesce(Wall, 0), ReplacedID,"
    " coalesce(ReplacedWall, 0), PublishedTotalID"
)
"""The columns of `ledger_rows.of_messages` for a SentRecord. Its number and its place in the log are not stored."""

_REMOVED = "deleted by the administrator of the receiver"
KEPT, OTHER = "0", "other"
"""
Values in place of a receiver's row number, for a receiver that returns none: it already had the record, in whatever
version; or it has another version than the one that was sent.
"""
UNKNOWN_DIGEST = b"\0"
"""The digest of a record that the receiver has in an unknown version. No real record has it."""


class LedgerGap(NamedTuple):
    """The possible gaps of a lost or older ledger about a receiver that numbers its records (SGAS)."""

    last_row: int
    """The highest row number that the receiver is known to have given."""
    changed: Callable[[], Set[str]]
    """Returns the JobIDs of records that have changed since the ledger stopped knowing what was sent."""

    def has(self, record: SentRecord, row: str) -> bool:
        """Whether the receiver may have had an older version of a record before, by the row number that it returned."""
        is_old = row.isdecimal() and int(row) <= self.last_row
        return record.replaced_id is None and is_old and record.job_id in self.changed()


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
    Store messages with their bytes before they are sent, and the held records. Return the messages with their ids.

    ``seq`` moves the cursor at once: for records that are all held back. ``proofs`` are of months whose sums are all in
    the messages. With ``one_kind`` a month with records in the messages keeps their kind from now on. Without ``keep``
    the bytes are dropped after the answer, and so are the bytes of answered messages.
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
            _advance(con, target, seq)
        target_months.set_sums(con, target, proofs, now)
        return _inserted(con, target, messages, now, one_kind=one_kind, keep=keep)


def _advance(con: Connection, target: str, seq: int) -> None:
    """Move the cursor to ``seq``: everything up to there is handled. The caller has a transaction."""
    # Each column is computed from its own value, so that a damaged one stays different from the other.
    con.execute(
        "UPDATE Targets SET LastSeq = max(LastSeq, ?1), LastSeqAgain = max(LastSeqAgain, ?1) WHERE Target = ?2",
        (seq, target),
    )


def _inserted(
    con: Connection, target: str, messages: Sequence[Message], now: int, *, one_kind: bool, keep: bool
) -> list[Message]:
    # Each row of PublishedTotals is looked up once, and the month of each day is computed once.
    month_of_day = cache(lambda day: month_of(day * DAY_S))
    total_id = cache(partial(published_total_id, con, target))
    written = []
    for message in messages:
        prefix = _key_prefix(message.records)
        row = con.execute(
            f"INSERT INTO Messages (Target, {_MESSAGE_COLUMNS}, State, Created, ByteCount, KeyPrefix)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'sending', ?, ?, ?)",
            (target, *message[1:8], now, len(message.data), prefix),
        )
        message_id = row.lastrowid or 0
        _store(con, message_id, message.data, pack=keep)
        con.executemany(
            "INSERT INTO SentRecords VALUES (?, ?, ?, ?, ?, nullif(?, ?3), ?, ?, ?, ?, ?)",
            [
                (
                    *(message_id, position, one.job_id, one.end_time, one.digest, one.key[len(prefix) :], one.notes),
                    one.total_id if one.names is None else total_id(one.names, month_of_day(one.end_time // DAY_S)),
                    *(one.wall_s, one.replaced_id, one.replaced_wall_s),
                )
                for position, one in enumerate(message.records)
            ],
        )
        if one_kind and message.records:
            # Set the kind before the answer, as for sums: a message that may have arrived decides the month's kind.
            months = {month_of(one.end_time) for one in message.records if one.digest}
            target_months.set_format(con, target, months, message.message_format)
        # Store the sums before the answer: the message may arrive without one. An unneeded key only costs another zero.
        con.executemany(
            "INSERT OR REPLACE INTO SentSummaries (Target, Kind, Key, Year, Month, Jobs, Wall, Site, SubmitHost,"
            " MessageID)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(target, message.message_format, *one[:7], message_id) for one in message.sums],
        )
        written.append(message._replace(message_id=message_id))
    return written


def _key_prefix(records: Sequence[SentRecord]) -> str:
    """Return what the keys of a message's records begin with: at most what comes before a JobID at the end."""
    prefix = commonprefix([one.key for one in records])  # noqa: RUF071  texts, not paths
    if records and records[0].key.endswith(records[0].job_id):
        return prefix[: len(records[0].key) - len(records[0].job_id)]
    return prefix


def published_total_id(con: Connection, target: str, names: Names, month: tuple[int, int]) -> int:
    """Return the row of `PublishedTotals` for names, year and month. The caller has a transaction."""
    text = json.dumps(names, ensure_ascii=False, separators=(",", ":"))
    named = con.execute(
        "INSERT OR IGNORE INTO SentNames (Names, Site, SubmitHost) VALUES (?, ?, ?)",
        (text, names[0] or "", names[1] or ""),
    )
    # New names have no totals yet.
    if not named.rowcount:
        found = con.execute(
            "SELECT PublishedTotalID FROM SentNames JOIN PublishedTotals USING (NamesID)"
            " WHERE Names = ? AND Target = ? AND Year = ? AND Month = ?",
            (text, target, *month),
        ).fetchone()
        if found is not None:
            return int(found[0])
    added = con.execute(
        "INSERT INTO PublishedTotals (Target, NamesID, Year, Month)"
        " SELECT ?, NamesID, ?, ? FROM SentNames WHERE Names = ?",
        (target, *month, text),
    )
    return added.lastrowid or 0


def sent_names(con: Connection, total_id: int | None) -> Names:
    """Return the names in a row of `PublishedTotals`: site and submit host alone if a former program sent them."""
    row = con.execute(
        "SELECT Names FROM PublishedTotals JOIN SentNames USING (NamesID) WHERE PublishedTotalID = ?", (total_id,)
    ).fetchone()
    return () if row is None else tuple(json.loads(row[0]))


def expect_groups(con: Connection, target: str, groups: Iterable[tuple[Names, tuple[int, int]]]) -> None:
    """Note groups (names and month) that a receiver may have, although no message of this ledger has them."""
    with transaction(con):
        con.executemany(
            "UPDATE PublishedTotals SET IsSent = 1 WHERE PublishedTotalID = ?",
            [(published_total_id(con, target, *group),) for group in groups],
        )


def removed(con: Connection, target: str, job_id: str) -> None:
    """Note that a receiver's administrator deleted the records of a job, and release the job."""
    with transaction(con):
        columns = f"MessageID, Position, PublishedTotalID, coalesce(Wall, 0), {ledger_rows.KEY}"
        with_usage = "Target = ? AND State = 'accepted' AND length(Record.Digest) > 0"
        found = ledger_rows.of_jobs(con, columns, [job_id], with_usage, target)
        # Only the last version of each key counts.
        con.executemany(
            "UPDATE PublishedTotals SET Jobs = Jobs - 1, Wall = Wall - ? WHERE PublishedTotalID = ?",
            [(wall_s, total_id) for *_place, total_id, wall_s, _key in {row[-1]: row for row in found}.values()],
        )
        con.executemany(
            "UPDATE SentRecords SET Digest = x'', ReplacedID = NULL, ReplacedWall = NULL, Notes = ?"
            " WHERE MessageID = ? AND Position = ?",
            [(_REMOVED, *place) for *place, _total_id, _wall_s, _key in found],
        )
        con.execute("DELETE FROM HeldRecords WHERE Target = ? AND JobID = ?", (target, job_id))


def hold(con: Connection, target: str, held: HeldRecord, now: int) -> None:
    """Store that a record is not sent, unless an operator has already decided that. The caller has a transaction."""
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
    """Yield the messages without an answer, oldest first. They are sent before anything newer."""
    ids = con.execute(
        "SELECT MessageID FROM Messages WHERE Target = ? AND State = 'sending' ORDER BY MessageID", (target,)
    ).fetchall()
    return (stored(con, message_id) for (message_id,) in ids)


def count_pending(con: Connection, target: str) -> int:
    """Return the number of messages without an answer."""
    row = con.execute("SELECT count(*) FROM Messages WHERE Target = ? AND State = 'sending'", (target,)).fetchone()
    return int(row[0])


def last_message(con: Connection) -> int:
    """Return the highest MessageID that the ledger ever had; 0 if there was none."""
    row = con.execute("SELECT seq FROM sqlite_sequence WHERE name = 'Messages'").fetchone()
    return 0 if row is None else int(row[0])


def has_later_message(con: Connection, target: str, message_id: int) -> bool:
    """Whether a target has a message with a higher MessageID. Other targets may have some, too: runs are parallel."""
    asked = "SELECT EXISTS (SELECT 1 FROM Messages WHERE MessageID > ? AND Target = ?)"
    return bool(con.execute(asked, (message_id, target)).fetchone()[0])


def replace_payload(con: Connection, message_id: int, data: bytes) -> None:
    """Store other bytes for the same text: the certificate that signed the old bytes is no longer ours."""
    with transaction(con):
        _store(con, message_id, data, pack=True)
        con.execute("UPDATE Messages SET ByteCount = ? WHERE MessageID = ?", (len(data), message_id))


def stored(con: Connection, message_id: int) -> Message:
    """Return one message of the ledger with its bytes. Raises zlib.error if the bytes are damaged."""
    values = con.execute(f"SELECT MessageID, {_MESSAGE_COLUMNS} FROM Messages WHERE MessageID = ?", (message_id,))
    data = kept_bytes(con, message_id)
    assert data is not None, "they are kept until they are answered"
    return Message._make((*values.fetchone(), data, tuple(records_of(con, message_id).values()), (), None))


def kept_bytes(con: Connection, message_id: int) -> bytes | None:
    """Return the bytes that were sent, if the ledger still has them. Raises zlib.error if they are damaged."""
    data: bytes | None
    data, is_packed = con.execute(
        "SELECT Bytes, coalesce(IsPacked, 1) FROM Messages LEFT JOIN MessageBytes USING (MessageID)"
        " WHERE MessageID = ?",
        (message_id,),
    ).fetchone()
    return zlib.decompress(data) if is_packed and data is not None else data


def records_of(con: Connection, message_id: int) -> dict[int, SentRecord]:
    """Return the records of a message by position, in that order."""
    rows = con.execute(
        f"{ledger_rows.of_messages(f'Position, {_RECORD_COLUMNS}', 'Messages.MessageID = ?1')} ORDER BY Position",
        (message_id,),
    )
    return {position: SentRecord._make(record) for position, *record in rows}


def _store(con: Connection, message_id: int, data: bytes, *, pack: bool) -> None:
    """Store the bytes of a message. Compress them (twice the time) if they are kept after the answer."""
    if pack:
        # The lowest level, with tables that fit into the processor's cache: a sixth faster than `zlib.compress`.
        packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, 7)
        data = packer.compress(data) + packer.flush()
    con.execute("INSERT OR REPLACE INTO MessageBytes VALUES (?, ?, ?)", (message_id, pack, data))


def last_code(con: Connection, message_id: int) -> int | None:
    """Return the status of the last answer to a message; ``None`` if there was none."""
    row = con.execute("SELECT AnswerCode FROM Messages WHERE MessageID = ?", (message_id,)).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def attempted(con: Connection, message_id: int, code: int | None, words: str) -> None:
    """Note an answer that is not final: the message remains to be sent."""
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
    Note that the receiver has accepted a message: answer, records, counts and cursor in one transaction.

    ``receiver_rows`` are the receiver's own numbers of the records, by key (SGAS). If a number is not new, the receiver
    kept its version, as with `KEPT` and `OTHER`: the record is then held as ``correction``, for the reason
    ``still_there`` with its ``{key}``. The same applies if the receiver may have a version that the ledger has lost
    (``unknown``). Returns the JobIDs of these records.
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
                    # Zeros remove a job's old usage; they do not add the job.
                    [(target, record.job_id) for record in message.records if record.digest],
                )
            kept = _kept(con, target, message, rows, unknown) if rows else []
            _count(con, message)
            now = int(time.time())
            for one in kept:
                hold(con, target, HeldRecord(one, "correction", still_there.format(key=one.key)), now)
            if message.seq is not None:
                _advance(con, target, message.seq)
    finally:
        con.execute("PRAGMA synchronous = FULL")
    return [one.job_id for one in kept]


def _kept(
    con: Connection, target: str, message: Message, rows: Sequence[str | None], unknown: LedgerGap | None
) -> list[SentRecord]:
    """Mark and return the records for which the receiver kept another version than the one sent, by its row numbers."""
    again = [one.job_id for one in message.records if one.replaced_id is not None]
    columns = f"JobID, {ledger_rows.KEY}, Position, ReceiverRows, Record.Digest, PublishedTotalID, Wall"
    where = "Target = ? AND State = 'accepted' AND MessageID < ?"
    earlier = ledger_rows.of_jobs(con, columns, again, where, target, message.message_id)
    # The last version of each key counts.
    before = {(job_id, key): values for job_id, key, *values in earlier}
    unpacked = cache(ledger_rows.unpacked_rows)
    update = "UPDATE SentRecords SET {} WHERE MessageID = ? AND Position = ?"
    kept = []
    for position, (one, row) in enumerate(zip(message.records, rows, strict=True)):
        if row is None:
            continue
        if one.replaced_id is None:
            if row == OTHER or (unknown is not None and unknown.has(one, row)):
                con.execute(update.format("Digest = ?"), (UNKNOWN_DIGEST, message.message_id, position))
                kept.append(one)
            continue
        if (one.job_id, one.key) not in before:
            continue
        place, packed, digest, total_id, wall_s = before[one.job_id, one.key]
        had = unpacked(packed)[place] if packed else None
        if row not in (had, KEPT, OTHER):
            continue
        # Store the earlier version: the receiver has that one, not the one that was sent.
        con.execute(
            update.format("(Digest, PublishedTotalID, Wall) = (?, ?, ?)"),
            (digest, total_id, wall_s, message.message_id, position),
        )
        if digest != one.digest:
            kept.append(one)
    return kept


def _count(con: Connection, message: Message) -> None:
    """Update the counts of PublishedTotals by what an accepted message adds and replaces."""
    changes = [("PublishedTotalID", "Wall", "+", "length(Digest) > 0")]
    # A refusal may have changed the version that a record replaces (`_count_without`), but not whether it replaces one.
    if any(one.replaced_id is not None for one in message.records):
        changes.append(("ReplacedID", "ReplacedWall", "-", "ReplacedID IS NOT NULL"))
    for place, wall, sign, counts in changes:
        con.execute(
            f"UPDATE PublishedTotals SET IsSent = 1, Jobs = PublishedTotals.Jobs {sign} Change.Jobs, Wall ="
            f" PublishedTotals.Wall {sign} Change.Wall FROM"
            f" (SELECT {place} AS Place, count(*) AS Jobs, sum({wall}) AS Wall FROM SentRecords WHERE MessageID = ?"
            f" AND {counts} GROUP BY {place}) AS Change WHERE PublishedTotals.PublishedTotalID = Change.Place",
            (message.message_id,),
        )


def _count_without(con: Connection, target: str, message_id: int) -> None:
    """
    Correct the counts after a refusal, where a newer message replaced a record that never arrived.

    The newer message replaces the record's predecessor instead.
    """
    replaces = f"Target = ? AND {ledger_rows.KEY} = ? AND MessageID > ? AND ReplacedID = ? AND State IN {THERE}"
    for one in records_of(con, message_id).values():
        job_ids, of_one = [one.job_id] if one.digest else [], (target, one.key, message_id, one.total_id)
        newer = ledger_rows.of_jobs(con, "MessageID, Position, State", job_ids, replaces, *of_one)
        if not newer:
            continue
        *place, state = newer[0]
        con.execute(
            "UPDATE SentRecords SET (ReplacedID, ReplacedWall) = (?, ?) WHERE MessageID = ? AND Position = ?",
            (one.replaced_id, one.replaced_wall_s, *place),
        )
        if state == "accepted":
            change = "UPDATE PublishedTotals SET Jobs = Jobs + ?, Wall = Wall + ? WHERE PublishedTotalID = ?"
            con.execute(change, (1, one.wall_s, one.total_id))
            con.execute(change, (-1, -one.replaced_wall_s, one.replaced_id))


def highest_row(con: Connection, target: str, kind: str) -> int:
    """Return the highest row number that a receiver gave in its newest messages (100 at most); 0 if there is none."""
    messages = con.execute(
        "SELECT ReceiverRows FROM Messages WHERE Target = ? AND Kind = ? AND State = 'accepted'"
        " ORDER BY MessageID DESC LIMIT 100",
        (target, kind),
    ).fetchall()
    rows = [row for (packed,) in messages for row in ledger_rows.unpacked_rows(packed)]
    return max((int(row) for row in rows if row is not None and row.isdecimal()), default=0)


def discard_unsent(con: Connection, message_ids: Sequence[int]) -> None:
    """Delete stored messages that were certainly never sent, with their records."""
    if not message_ids:
        return
    with transaction(con):
        for table in ("SentRecords", "MessageBytes", "Messages"):
            con.executemany(f"DELETE FROM {table} WHERE MessageID = ?", [(one,) for one in message_ids])


TIMED_OUT = "split: no answer in time"
SMALLER_MESSAGES = 100
"""After this many messages, the split of one that was not answered in time limits the next ones no longer."""


def split(
    con: Connection,
    target: str,
    message: Message,
    parts: Sequence[Message],
    *,
    one_kind: bool = False,
    reason: str | None = None,
) -> list[Message]:
    """Replace a message that was refused or timed out by its parts. The last part takes over the cursor."""
    now = int(time.time())
    with transaction(con):
        _answer(con, message.message_id, "split", None, reason or f"split into {len(parts)}", None)
        return _inserted(con, target, parts, now, one_kind=one_kind, keep=True)


def least_timed_out(con: Connection, target: str, kind: str) -> int | None:
    """Return the records of the smallest of a target's last messages that was split because no answer came in time."""
    row = con.execute(
        "SELECT min(RecordCount) FROM (SELECT RecordCount, State, Answer FROM Messages WHERE Target = ? AND Kind = ?"
        " ORDER BY MessageID DESC LIMIT ?) WHERE State = 'split' AND Answer = ?",
        (target, kind, SMALLER_MESSAGES, TIMED_OUT),
    ).fetchone()
    return None if row[0] is None else int(row[0])


def refused(
    con: Connection,
    target: str,
    message: Message,
    code: int | None,
    words: str,
    held: Iterable[HeldRecord],
    months: Collection[Month] = (),
    run: int = 0,
) -> int:
    """
    Note that the receiver refuses a message that cannot be split: hold its records and move the cursor.

    ``months`` are the months of a refused sum: the receiver's figures for them are then unknown. Returns in how many
    consecutive runs, this one included, a sum of such a month was refused.
    """
    now = int(time.time())
    is_sum = message.message_format != COUNTS
    with transaction(con):
        _answer(con, message.message_id, "refused", code, words, None)
        _count_without(con, target, message.message_id)
        for one in held:
            hold(con, target, one, now)
        # Every run sends the counts of every month, so a refused one leaves no month unfinished.
        refusals = target_months.refuse(con, target, message.message_format, months, words, run, is_open=is_sum)
        con.executemany(
            "UPDATE SentSummaries SET Jobs = max(Jobs, 1) WHERE Target = ? AND Year = ? AND Month = ? AND Kind"
            " <> 'sync'",
            [(target, *month) for month in months if is_sum],
        )
        if message.seq is not None:
            _advance(con, target, message.seq)
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
    named = None if receiver_id is None else sanitise_line(receiver_id)
    rows = ledger_rows.packed_rows(receiver_rows) if receiver_rows else None
    con.execute(
        "UPDATE Messages SET State = ?, Answered = ?, Attempts = Attempts + 1, AnswerCode = ?, Answer = ?,"
        " ReceiverID = ?, ReceiverRows = ? WHERE MessageID = ?",
        (state, int(time.time()), code, sanitise_line(words), named, rows, message_id),
    )


_FORGOTTEN = (
    "State <> 'sending' AND (State <> 'accepted' OR EXISTS (SELECT 1 FROM Messages AS Newer WHERE"
    " Newer.Target = Messages.Target AND Newer.Kind = Messages.Kind AND Newer.MessageID > Messages.MessageID"
    " AND Newer.State = 'accepted' AND Newer.MessageID IN (SELECT MessageID FROM"
    " MessageBytes)))"
)
"""
The messages whose bytes may be dropped: answered ones, except the last accepted one of each kind and target. That one
is sent again to test whether a receiver still works.
"""
_SLICE = 50
"""How many messages are examined at a time, or changed in one transaction."""


def forget_bytes(con: Connection, answered_before: int) -> None:
    """
    Drop the bytes of messages that were answered before a time (UTC seconds). Their records remain.

    It works in small transactions.
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
        # The messages are in the order of sending.
        elif not some or any(is_young for _message_id, is_young, _may_go in some):
            break
        after = some[-1][0]
