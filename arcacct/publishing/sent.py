"""
The receivers' data as the ledger knows them: versions of jobs and sums by key, and the digests that distinguish
versions.
"""

from __future__ import annotations

import marshal
import sys
import zlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from arcacct.database.connection import Connection
from arcacct.database.durable import transaction
from arcacct.publishing import ledger_rows
from arcacct.publishing.ledger import Message, SentRecord, SentSum, SentVersion, kept_bytes, records_of, stored
from arcacct.publishing.ledger_rows import THERE
from arcacct.records.model import AAR
from arcacct.records.states import SQL_BY_ITSELF
from arcacct.times import Month

# The digest distinguishes versions of a record. It is of the values that the receiver has, so a change of any other
# value sends nothing again. It also stores which values these are: a sent record is compared by the values of its own
# digest, whatever its target or a later program has today.


DIGESTED = (
    "job_id", "local_job_id", "endpoint_type", "endpoint_url", "queue", "user_dn", "vo", "status", "exit_code",
    "submit_time", "end_time", "node_count", "core_count", "memory_kib", "virtual_memory_kib", "wall_s", "cpu_user_s",
    "cpu_kernel_s", "scratch_bytes", "stage_in_bytes", "stage_out_bytes", "fqans", "job_name", "lrms", "node_names",
    "client_host", "local_user", "project", "system_software", "wn_instance", "benchmark", "run_time_environments",
    "transfers", "lrms_submit_time", "lrms_start_time", "lrms_end_time",
)  # fmt: skip
"""The values that a digest may have. Their order never changes: most digests store their positions."""
_FIRST = (1 << 36) - 1
"""The positions of the values of 0.2.0, one bit for each. A digest of exactly these does not store them."""
_DIGEST_BYTES = 16
"""The length of a digest that does not store its positions."""
_SHORT_BYTES = 12
"""The length of another digest, before the positions."""
_POSITION_BYTES = 5


@cache
def digest_of(fields: tuple[str, ...] = DIGESTED) -> Callable[[AAR], bytes]:
    """
    Return the function that makes a record's digest of these values, in any order.

    The digest identifies a version of a record by its values, not by its place in the database.
    """
    names = [name for name in DIGESTED if name in fields]
    at = [AAR._fields.index(name) for name in names]
    # Values that are adjacent in a record are read as one slice, at half the cost.
    is_slice = at == list(range(at[0], at[-1] + 1))
    read: Callable[[AAR], tuple[Any, ...]] = itemgetter(slice(at[0], at[-1] + 1)) if is_slice else itemgetter(*at)
    transfers = names.index("transfers") if "transfers" in names else None
    length, positions, bits = _DIGEST_BYTES, b"", sum(1 << DIGESTED.index(name) for name in names)
    if bits != _FIRST:
        length, positions = _SHORT_BYTES, bits.to_bytes(_POSITION_BYTES, "big")

    def digest(aar: AAR) -> bytes:
        values = read(aar)
        if transfers is not None and (moved := values[transfers]):
            # marshal takes plain tuples only.
            values = (*values[:transfers], tuple(map(tuple, moved)), *values[transfers + 1 :])
        # Format 2 of marshal has no references and no interned texts, so equal values always give equal bytes.
        return sha256(marshal.dumps(values, 2)).digest()[:length] + positions

    return digest


@cache
def _digest_at(positions: bytes) -> Callable[[AAR], bytes] | None:
    """Return the function that makes digests with these positions, ``None`` if this program knows no such digest."""
    bits = int.from_bytes(positions, "big") if positions else _FIRST
    is_known = len(positions) in (0, _POSITION_BYTES) and 0 < bits < 1 << len(DIGESTED)
    return digest_of(tuple(name for at, name in enumerate(DIGESTED) if bits >> at & 1)) if is_known else None


def is_same(aar: AAR, stored: bytes) -> bool:
    """Whether a digest of the ledger is of this version of a record: by the values that it was made of."""
    digest = _digest_at(b"" if len(stored) == _DIGEST_BYTES else stored[_SHORT_BYTES:])
    return digest is not None and digest(aar) == stored


def digests_in(con: Connection, ended: tuple[int, int]) -> list[Callable[[AAR], bytes]]:
    """Return the functions that make the digests of the sent records with ``ended[0] <= EndTime < ended[1]``."""
    rows = con.execute(
        f"SELECT DISTINCT CASE length(Digest) WHEN {_DIGEST_BYTES} THEN x'' ELSE substr(Digest, {_SHORT_BYTES + 1}) END"
        f" FROM SentRecords WHERE EndTime >= ? AND EndTime < ? AND length(Digest) > {_SHORT_BYTES}",
        ended,
    )
    return [digest for (positions,) in rows if (digest := _digest_at(positions)) is not None]


# The receivers' data as the ledger knows them: versions of jobs by key, and sums by key.


MANY = ledger_rows.MANY
"""The highest number of ids in one query."""
_IS_NEWEST = (
    "NOT EXISTS (SELECT 1 FROM SentRecords AS Newer CROSS JOIN Messages AS NewerMessage USING (MessageID)"
    f" WHERE {ledger_rows.same_job('Newer.JobID', 'Record.JobID')}"
    " AND (Newer.MessageID, Newer.Position) > (Record.MessageID, Record.Position)"
    f" AND {ledger_rows.key_of('NewerMessage', 'Newer')} = {ledger_rows.KEY}"
    f" AND NewerMessage.Target = :target AND NewerMessage.State IN {THERE})"
)
"""Whether nothing was sent to the target under the same key after Record, a row of SentRecords, of Messages."""


def versions(
    con: Connection, target: str, job_ids: Sequence[str], *, keeps_first: bool
) -> dict[str, list[SentVersion]]:
    """
    Return the versions of these jobs that the target's receiver may have: the last one of every key, by JobID.

    Messages without an answer count, since they may have arrived. Versions with zeros are left out. At a receiver that
    keeps the first version, a republished version counts only if it was the first.
    """
    found: dict[str, dict[str, SentVersion]] = {}
    version = f"{ledger_rows.KEY}, Record.Digest, EndTime, PublishedTotalID, coalesce(Wall, 0), MessageID, Notes"
    where = f"Target = ? AND State IN {THERE}"
    for job_id, origin, *values in ledger_rows.of_jobs(con, f"JobID, Origin, {version}", job_ids, where, target):
        one = SentVersion._make(values)
        keys = found.setdefault(job_id, {})
        if not (keeps_first and origin == "republish" and one.key in keys):
            keys[one.key] = one
    return {job_id: [one for one in keys.values() if one.digest] for job_id, keys in found.items()}


def zeroed(con: Connection, target: str, ended: tuple[int, int], last_message: int) -> list[SentRecord]:
    """
    Return the records with zeros of ``ended[0] <= EndTime < ended[1]`` under keys that are no longer valid.

    The zeros are of a job, or of a group without jobs, and nothing was sent under the key after them. Only zeros in a
    message up to ``last_message`` are returned. Another job may have the same key now. `SentRecord.total_id` is
    ``None`` if a former program did not store the names.
    """
    # CROSS makes SQLite start with the zeros. Otherwise it may read all messages for a few zeros.
    rows = con.execute(
        f"SELECT DISTINCT JobID, {ledger_rows.KEY}, EndTime, PublishedTotalID FROM SentRecords AS Record"
        " CROSS JOIN Messages USING (MessageID) WHERE length(Record.Digest) = 0 AND EndTime >= :start"
        f" AND EndTime < :before AND Target = :target AND MessageID <= :last AND State IN {THERE} AND {_IS_NEWEST}"
        " ORDER BY 3, 2, 1",
        {"start": ended[0], "before": ended[1], "target": target, "last": last_message},
    )
    found = [SentRecord(job_id, 0, 0, end, b"", key, total_id=total_id) for job_id, key, end, total_id in rows]
    live = versions(con, target, list({one.job_id for one in found}), keeps_first=False)
    return [one for one in found if all(one.key != version.key for version in live.get(one.job_id, ()))]


def empty_groups(con: Connection, target: str) -> list[tuple[int, int, int]]:
    """
    Return the groups that were sent to a target and have neither a job nor a record with zeros at the receiver.

    A group is its row of `PublishedTotals`, its year and its month. The receiver may keep its former sum.
    """
    return con.execute(
        "SELECT PublishedTotalID, Year, Month FROM PublishedTotals AS Total"
        " WHERE Target = :target AND Jobs = 0 AND IsSent"
        " AND NOT EXISTS (SELECT 1 FROM SentRecords AS Record CROSS JOIN Messages USING (MessageID)"
        " WHERE Record.PublishedTotalID = Total.PublishedTotalID AND length(Record.Digest) = 0"
        f" AND State IN {THERE} AND {_IS_NEWEST}) ORDER BY Year, Month, PublishedTotalID",
        {"target": target},
    ).fetchall()


def months_without_names(con: Connection, target: str) -> set[tuple[int, int]]:
    """Return the months for which a former program stored only site and submit host of records."""
    rows = con.execute(
        "SELECT DISTINCT Year, Month FROM PublishedTotals JOIN SentNames USING (NamesID)"
        " WHERE Target = ? AND IsSent AND json_array_length(Names) = 2",
        (target,),
    )
    return set(rows)


def fewer_records_than(con: Connection, target: str, most: int) -> bool:
    """Whether a target's messages carried fewer than ``most`` records. It reads only as many messages as needed."""
    rows = con.execute("SELECT RecordCount FROM Messages WHERE Target = ?", (target,))
    return all(total < most for total in accumulate(count for (count,) in rows)) and most > 0


def jobs_of(con: Connection, target: str) -> list[str]:
    """Return every job with a record in a target's messages."""
    rows = con.execute(ledger_rows.of_messages("DISTINCT JobID", "Messages.Target = ?1"), (target,))
    return [job_id for (job_id,) in rows]


def ever_carried(con: Connection, target: str, job_ids: Sequence[str]) -> set[str]:
    """Return those of these jobs that were in a message that the receiver accepted or may have received."""
    rows = ledger_rows.of_jobs(con, "JobID", job_ids, f"Target = ? AND State IN {THERE}", target)
    return {job_id for (job_id,) in rows}


class SentVersionAtEnd(NamedTuple):
    """A version of a job that a receiver was sent under a key."""

    key: str
    job_id: str
    digest: bytes
    """Empty for zeros."""
    wall_s: int


def sent_versions(
    con: Connection, target: str, kinds: Sequence[str], ended: tuple[int, int]
) -> Iterator[SentVersionAtEnd]:
    """
    Yield the job records of some kinds that the receiver was sent with ``ended[0] <= EndTime < ended[1]``, in that
    order.

    Each version of a key is returned. The last one counts.
    """
    columns = f"{ledger_rows.KEY}, JobID, Record.Digest, coalesce(Wall, 0)"
    in_order = f"State IN {THERE} ORDER BY MessageID, Position"
    return map(SentVersionAtEnd._make, _of_kinds(con, columns, target, kinds, ended, in_order))


def _of_kinds(
    con: Connection, columns: str, target: str, kinds: Sequence[str], ended: tuple[int, int], which: str
) -> Iterator[Any]:
    asked = ", ".join(f"?{number}" for number in range(4, 4 + len(kinds)))
    where = f"Target = ?1 AND Kind IN ({asked}) AND EndTime >= ?2 AND EndTime < ?3 AND {which}"
    # SQLite 3.46 would read the messages of all targets where ANALYZE found only a few.
    messages = ledger_rows.of_messages(columns, where, "INDEXED BY Messages_Target_IDX")
    return con.execute(messages, (target, *ended, *kinds))


def jobs_sent_after(
    con: Connection, target: str, kinds: Sequence[str], ended: tuple[int, int], after_s: int
) -> Iterator[str]:
    """Yield the jobs with ``ended[0] <= EndTime < ended[1]`` whose records were accepted after a time, by JobID."""
    later = f"Answered > {int(after_s)} AND State = 'accepted'"
    return (job_id for (job_id,) in _of_kinds(con, "JobID", target, kinds, ended, later))


def sums_sent_after(con: Connection, target: str, year: int, month: int, after_s: int) -> list[tuple[str, SentSum]]:
    """Return those `live_sums` whose last message was accepted after a time. Their figures need not be new."""
    accepted = (
        "SELECT 1 FROM Messages WHERE Messages.MessageID = SentSummaries.MessageID AND Answered > ?"
        " AND State = 'accepted'"
    )
    of_month = f"Target = ? AND Year = ? AND Month = ? AND Jobs > 0 AND EXISTS ({accepted})"
    return _sums(con, of_month, target, year, month, after_s)


def pending(con: Connection, target: str) -> dict[str, str | None]:
    """
    Return the keys in unanswered messages, whose state at the receiver is unknown, with the job of each record.

    Records that were accepted before and have not changed are left out: they are there whatever happens to the message.
    """
    accepted = (
        "SELECT Former.Digest FROM SentRecords AS Former CROSS JOIN Messages AS Taken USING (MessageID)"
        f" WHERE {ledger_rows.same_job('Former.JobID', 'Record.JobID')}"
        f" AND {ledger_rows.key_of('Taken', 'Former')} = {ledger_rows.KEY}"
        " AND Taken.Target = ?1 AND Taken.State = 'accepted'"
        " ORDER BY Former.MessageID DESC, Former.Position DESC LIMIT 1"
    )
    unanswered = f"Messages.Target = ?1 AND Messages.State = 'sending' AND ({accepted}) IS NOT Record.Digest"
    rows = con.execute(
        f"{ledger_rows.of_messages(f'{ledger_rows.KEY}, JobID', unanswered)}"
        " UNION ALL SELECT Key, NULL FROM Messages JOIN SentSummaries USING (MessageID)"
        " WHERE Messages.Target = ?1 AND State = 'sending'",
        (target,),
    )
    return dict(rows.fetchall())


def all_sums(con: Connection, target: str, year: int, month: int) -> list[tuple[str, SentSum]]:
    """Return ``(kind, sum)`` of each sum of a month that the receiver was ever sent, in its last form, also zeros."""
    return _sums(con, "Target = ? AND Year = ? AND Month = ?", target, year, month)


def _sums(con: Connection, where: str, *values: object) -> list[tuple[str, SentSum]]:
    columns = "Kind, Key, Year, Month, Jobs, Wall, coalesce(Site, ''), coalesce(SubmitHost, ''), IsAdopted"
    rows = con.execute(f"SELECT {columns} FROM SentSummaries WHERE {where}", values)
    return [(kind, SentSum._make(one)) for kind, *one in rows]


def live_sums(con: Connection, target: str, year: int, month: int) -> list[tuple[str, SentSum]]:
    """Return ``(kind, sum)`` of each sum of a month that the receiver has and that is not zero."""
    return [(kind, one) for kind, one in all_sums(con, target, year, month) if one.jobs > 0]


def adopt(con: Connection, target: str, kind: str, sums: Iterable[SentSum]) -> int:
    """
    Store sums that another publisher sent for a target, to be retracted like ours. Return how many are new.

    A key that the ledger has is not changed: the receiver has what we sent under it, even zeros.
    """
    with transaction(con):
        before = con.total_changes
        con.executemany(
            "INSERT OR IGNORE INTO SentSummaries (Target, Kind, Key, Year, Month, Jobs, Wall, IsAdopted, MessageID)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, 1, 0)",
            [(target, kind, *one[:5]) for one in sums],
        )
        return con.total_changes - before


def sums_of_kind(con: Connection, target: str, kind: str) -> list[SentSum]:
    """Return every sum of a kind that the receiver was ever sent, in its last form, also zeros."""
    return [one for _kind, one in _sums(con, "Target = ? AND Kind = ?", target, kind)]


def accepted_after(con: Connection, target: str, message_id: int) -> bool:
    """Whether the target accepted a message that is newer than this one."""
    # The plus makes SQLite search by MessageID, among the few newer messages.
    asked = "SELECT 1 FROM Messages WHERE +Target = ? AND MessageID > ? AND State = 'accepted' LIMIT 1"
    return con.execute(asked, (target, message_id)).fetchone() is not None


def last_accepted(con: Connection, target: str, kind: str) -> Message | None:
    """Return the last message of a kind that the target accepted, if the ledger still has its bytes."""
    row = con.execute(
        "SELECT MessageID FROM Messages WHERE Target = ? AND Kind = ? AND State = 'accepted'"
        " AND MessageID IN (SELECT MessageID FROM MessageBytes) ORDER BY MessageID DESC LIMIT 1",
        (target, kind),
    ).fetchone()
    return None if row is None else stored(con, row[0])


class SentMessage(NamedTuple):
    """A message of the ledger, with all that the ledger still has of it."""

    message_id: int
    message_format: str
    created_s: int
    digest: str
    """SHA-256 of its text."""
    record_count: int
    """The number of records or sums, as sent."""
    data: bytes | None
    """Exactly the bytes that were sent; ``None``: they are not kept, or are damaged."""
    records: dict[int, SentRecord]
    """The records by position, in that order."""
    sums: tuple[SentSum, ...]
    """The sums that no later message has: by month, then by key."""


def message(con: Connection, message_id: int) -> SentMessage:
    """Return a message with all that the ledger still has of it."""
    columns = "MessageID, Kind, Created, Digest, RecordCount"
    values = con.execute(f"SELECT {columns} FROM Messages WHERE MessageID = ?", (message_id,)).fetchone()
    try:
        data = kept_bytes(con, message_id)
    except zlib.error:
        data = None
    by_position = records_of(con, message_id)
    # This reads all sums of all targets.
    sums = [] if by_position else _sums(con, "MessageID = ? ORDER BY Year, Month, Key", message_id)
    return SentMessage._make((*values, data, by_position, tuple(one for _kind, one in sums)))


def destinations(con: Connection) -> dict[str, str]:
    """Return the destination of the last message of each target in the ledger, by target."""
    return dict(
        con.execute(
            "SELECT Target, Destination FROM Messages WHERE MessageID IN"
            " (SELECT max(MessageID) FROM Messages WHERE State = 'accepted' GROUP BY Target)"
        ).fetchall()
    )


def not_sent_again(
    publishing: Connection, accounting: Connection, target: str, ended: tuple[int, int], vos: Collection[str]
) -> int:
    """Return how many jobs with ``ended[0] <= EndTime < ended[1]``, before a target's time, were not republished."""
    (found,) = accounting.execute(
        "SELECT count(*) FROM AAR JOIN Status ON Status.ID = +StatusID WHERE EndTime >= ? AND EndTime < ?"
        f" AND Status.Name IN {SQL_BY_ITSELF}{of_vos(vos)}",
        (*ended, *vos),
    ).fetchone()
    republished = ledger_rows.of_messages(
        "JobID",
        "Messages.Target = ?1 AND Origin = 'republish' AND State = 'accepted' AND EndTime >= ?2 AND EndTime < ?3",
    )
    (again,) = publishing.execute(f"SELECT count(DISTINCT JobID) FROM ({republished})", (target, *ended)).fetchone()
    return max(0, int(found) - int(again))


def of_vos(vos: Collection[str]) -> str:
    """Return an SQL condition on AAR or MonthlyUsage that selects these VOs; without VOs it selects every job."""
    marks = ",".join("?" * len(vos))
    return f" AND VOID IN (SELECT ID FROM WLCGVOs WHERE Name IN ({marks}))" if vos else ""


# The published totals of a target by month and counting key: jobs and wall time; and what the records of a month add up
# to that stay at the receiver, or wait here.


class CountingKey(NamedTuple):
    """The place where a receiver counts jobs: texts as they are sent; for sums as they are compared (folded)."""

    site: str
    submit_host: str
    year: int
    month: int


class Amount(NamedTuple):
    """Jobs and wall time in seconds; ``wall_s=None``: unknown (an older program sent it)."""

    jobs: int
    wall_s: int | None


NOTHING = Amount(0, 0)
Place = TypeVar("Place")


def totals(amounts: Iterable[tuple[Place, Amount]]) -> dict[Place, Amount]:
    """Return the total amount of each place."""
    found: dict[Place, Amount] = {}
    for place, more in amounts:
        had = found.get(place, NOTHING)
        wall_s = None if had.wall_s is None or more.wall_s is None else had.wall_s + more.wall_s
        found[place] = Amount(had.jobs + more.jobs, wall_s)
    return found


def published_jobs(con: Connection, target: str) -> dict[CountingKey, Amount]:
    """Return the job records that were published to the receiver and not retracted, by place."""
    return _published(con, target, "PublishedTotals JOIN SentNames USING (NamesID)")


def published_sums(con: Connection, target: str) -> dict[CountingKey, Amount]:
    """Return the amounts of the published sums, by place, without sync messages."""
    return _published(con, target, "SentSummaries", " AND Kind <> 'sync' AND NOT IsAdopted")


def published(con: Connection, target: str) -> list[tuple[CountingKey, Amount]]:
    """Return both, job records first."""
    return [*published_jobs(con, target).items(), *published_sums(con, target).items()]


def _published(con: Connection, target: str, tables: str, condition: str = "") -> dict[CountingKey, Amount]:
    rows = con.execute(
        "SELECT coalesce(Site, ''), coalesce(SubmitHost, ''), Year, Month, sum(Jobs),"
        f" CASE WHEN count(Wall) = count(*) THEN sum(Wall) END FROM {tables}"
        f" WHERE Target = ? AND Jobs > 0{condition} GROUP BY 1, 2, Year, Month",
        (target,),
    )
    return {CountingKey._make(place): Amount(jobs, wall_s) for *place, jobs, wall_s in rows}


def published_total_ids(con: Connection, target: str, month: Month) -> set[int]:
    """Return the rows of ``PublishedTotals`` for a target and month."""
    rows = con.execute(
        "SELECT PublishedTotalID FROM PublishedTotals WHERE Target = ? AND Year = ? AND Month = ?", (target, *month)
    )
    return {total_id for (total_id,) in rows}


@dataclass
class KeptRecords:
    """The records that hold a month."""

    kept: int = 0
    """The number of versions that stay at the receiver ..."""
    kept_wall_s: int = 0
    """... with this wall time in seconds, ..."""
    instead_wall_s: int = 0
    """... and the wall time that would be sent in their place."""
    why: str = ""
    """Why the first of them stays."""
    waiting: int = 0
    """The number of new records that wait here."""
    noted: list[tuple[int, int]] = field(default_factory=list)
    """The places of the records that an earlier run noted: the first and the last of each run of places, rising."""
    places: set[int] = field(default_factory=set)
    """The places of the others."""

    def __add__(self, more: KeptRecords) -> KeptRecords:
        """Return what the records of both add up to, without their places."""
        return KeptRecords(
            self.kept + more.kept,
            self.kept_wall_s + more.kept_wall_s,
            self.instead_wall_s + more.instead_wall_s,
            self.why or more.why,
            self.waiting + more.waiting,
        )

    def is_noted(self, place: int) -> bool:
        """Whether an earlier run noted the record at this place."""
        found = bisect_right(self.noted, (place, sys.maxsize))
        return found > 0 and place <= self.noted[found - 1][1]

    def spans(self) -> list[tuple[int, int]]:
        """Return all places, as `noted`."""
        found: list[tuple[int, int]] = []
        for first, last in sorted([*self.noted, *((place, place) for place in self.places)]):
            if found and first <= found[-1][1] + 1:
                found[-1] = (found[-1][0], max(last, found[-1][1]))
            else:
                found.append((first, last))
        return found
