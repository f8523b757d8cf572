"""Read records: in commit order, by end time, by an ID that a user gives, and summed by month."""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from json import JSONDecoder
from typing import Any, NamedTuple, TypeVar

from arcacct.database.connection import Connection, OperationalError
from arcacct.errors import InputError
from arcacct.records import states
from arcacct.records.holds import HELD, OVERRIDDEN, OVERRIDES
from arcacct.records.model import AAR, Transfer, UsageCell
from arcacct.records.texts import escaped, plain_text, unescaped, unescaped_name
from arcacct.resources import Accelerators
from arcacct.times import LAST_SECOND, month_of, next_month

# Records are read as the values of `records.model`. Readers page in short transactions (INVARIANTS 7). This module
# removes ARC's percent-escapes.


_T = TypeVar("_T")
PAGE_RECORDS = 500
LARGEST_WHOLE = 2**63
LARGEST_EXACT = 2**53
"""A larger value is not a measurement: it would make the sum of a whole month overflow (INVARIANTS 6)."""

# A job that vanished unfinished is published only when the batch system measured something.
_PUBLISHABLE = (
    f"Status.Name IN {states.SQL_FINAL} AND ifnull(Hold.IsHeld, 0) = 0 AND NOT (Status.Name = {states.SQL_ABORTED}"
    " AND max(coalesce(Hold.UsedWalltime, AAR.UsedWalltime), 0) = 0"
    " AND max(coalesce(Hold.UsedCPUUserTime, AAR.UsedCPUUserTime), 0) = 0"
    " AND max(coalesce(Hold.UsedCPUKernelTime, AAR.UsedCPUKernelTime), 0) = 0)"
)
_HOLD = "LEFT JOIN RecordHolds AS Hold ON Hold.RecordID = AAR.RecordID"
# One text for the children of each table: a row for each child would take twice as long. They come in the order of
# their rows, by the index of RecordID. CAST: a value that another program stored as bytes is a text, too.
_RECORD = f"""
    AAR.RecordID, JobID, LocalJobID, Interface, URL, Queues.Name, Users.Name, WLCGVOs.Name, Status.Name, ExitCode,
    SubmitTime, EndTime, AAR.NodeCount, AAR.CPUCount, UsedMemory, UsedVirtMem, AAR.UsedWalltime, AAR.UsedCPUUserTime,
    AAR.UsedCPUKernelTime, UsedScratch, StageInVolume, StageOutVolume,
    (SELECT json_group_array(AttrKey || ' ' || CAST(AttrValue AS TEXT)) FROM AuthTokenAttributes
      WHERE RecordID = AAR.RecordID AND AttrKey IN {states.FQAN_KEYS}),
    (SELECT json_group_object(InfoKey, CAST(InfoValue AS TEXT)) FROM JobExtraInfo
      WHERE RecordID = AAR.RecordID AND InfoValue <> ''),
    (SELECT json_group_array(CAST(RTEName AS TEXT)) FROM RunTimeEnvironments WHERE RecordID = AAR.RecordID),
    (SELECT json_group_array(json_array(CAST(DataTransfers.URL AS TEXT), CAST(FileSize AS INTEGER),
      CAST(TransferStart AS INTEGER), CAST(TransferEnd AS INTEGER), CAST(TransferType AS INTEGER)))
      FROM DataTransfers WHERE RecordID = AAR.RecordID),
    (SELECT json_group_object(EventKey, ifnull(CAST(strftime('%s', EventTime) AS INTEGER), 0)) FROM JobEvents
      WHERE RecordID = AAR.RecordID AND EventKey IN {states.PUBLISHED_EVENTS}),
    AuthGroups.Names,
    CASE WHEN EXISTS (SELECT 1 FROM JobAccelerators WHERE RecordID = AAR.RecordID) THEN
    (SELECT json_array(max(GPUCount), max(GPUAllocatedS), max(GPUBusyS), max(GPUEnergyJ), max(EnergyJ))
      FROM KnownAccelerators WHERE RecordID = AAR.RecordID) END,
    (SELECT json_group_array(Field) FROM FieldSources WHERE RecordID = AAR.RecordID AND Source = '{states.UNKNOWN}'),
    CASE WHEN Hold.RecordID IS NOT NULL
    THEN json_array(Hold.IsHeld, Hold.Reasons, {", ".join(f"Hold.{column}" for column in OVERRIDES)}) END
"""
# LEFT: a job with a missing name must not disappear.
_NAMES = f"""
    LEFT JOIN Endpoints ON Endpoints.ID = EndpointID
    LEFT JOIN Queues ON Queues.ID = QueueID
    LEFT JOIN Users ON Users.ID = UserID
    LEFT JOIN WLCGVOs ON WLCGVOs.ID = VOID
    LEFT JOIN AuthGroups ON AuthGroups.RecordID = AAR.RecordID
    JOIN Status ON Status.ID = StatusID
    {_HOLD}
"""


class Page(NamedTuple):
    """A part of FinishedLog, in commit order."""

    records: list[tuple[int, AAR]]
    """Each publishable record after its Seq."""
    last_seq: int
    """The last position that was read, also if no record was wanted."""
    others: list[tuple[int, str]]
    """Seq and JobID of final records that are not published, or no longer: held, without usage, or ended too early."""


def logged_after(con: Connection, seq: int, horizon: int, *, ended_from: int = 0) -> Page | None:
    """
    Return the next records with ``seq < Seq <= horizon`` that ended at ``ended_from`` (UTC seconds) or later.

    Returns ``None`` if the log has no entry in this range. Skips deleted records, aborted ones without usage and held
    ones (`holds`).
    """
    return decoded(con, lambda: _page_after(con, seq, horizon, ended_from))


def logged_among(con: Connection, places: Sequence[int], *, ended_from: int = 0) -> Page:
    """Do the same as `logged_after` for ``places``: at least one position in FinishedLog, in rising order."""
    chosen = f"FinishedLog.Seq IN ({','.join(map(str, places))})"
    return decoded(con, lambda: _page(con, chosen, places[-1], ended_from))


def decoded(con: Connection, read: Callable[[], _T], readable: Callable[[bytes], str] | None = None) -> _T:
    """
    Call ``read`` with SQLite's own decoding of texts; if a text cannot be decoded, call it with another one.

    ``readable``: that one; ``None``: the connection's.
    """
    usual, con.text_factory = con.text_factory, str
    try:
        # SQLite's own decoding is a quarter of the cost of a page; few databases have texts that it cannot read.
        return read()
    except OperationalError as error:
        if "decode" not in str(error):
            raise
        con.text_factory = readable or usual
        return read()
    finally:
        con.text_factory = usual


@contextmanager
def one_state(con: Connection) -> Iterator[None]:
    """Read one state of the database inside the context; uses an open transaction, if any."""
    if con.in_transaction:
        yield
        return
    con.execute("BEGIN")
    try:
        yield
    finally:
        con.execute("COMMIT")


def _page_after(con: Connection, seq: int, horizon: int, ended_from: int) -> Page | None:
    with one_state(con):
        last, count = con.execute(
            "SELECT max(Seq), count(*) FROM (SELECT Seq FROM FinishedLog WHERE Seq > ? AND Seq <= ?"
            " ORDER BY Seq LIMIT ?)",
            (seq, horizon, PAGE_RECORDS),
        ).fetchone()
        if not count:
            return None
        return _page(con, f"FinishedLog.Seq > {int(seq)} AND FinishedLog.Seq <= {int(last)}", last, ended_from)


def _page(con: Connection, chosen: str, last: int, ended_from: int) -> Page:
    """Return the records that a condition on FinishedLog selects, up to the position ``last``."""
    rows = con.execute(
        # CROSS: SQLite must start from the log. The log also has records that another one replaced.
        f"SELECT Seq, EndTime >= ? AND {_PUBLISHABLE}, {_RECORD}"
        f" FROM FinishedLog CROSS JOIN AAR ON AAR.RecordID = FinishedLog.RecordID {_NAMES}"
        f" WHERE {chosen} AND Status.Name IN {states.SQL_FINAL} ORDER BY Seq",
        (ended_from,),
    ).fetchall()
    return Page(
        [(seq, _aar_of(values)) for seq, is_wanted, *values in rows if is_wanted],
        last,
        [(row[0], unescaped(row[3])) for row in rows if not row[1]],
    )


class Ended(NamedTuple):
    """The values of a record for figures: without its children, with the values that count; durations in seconds."""

    record_id: int
    job_id: str
    end_time: int
    vo: str | None
    wall_s: int
    cpu_s: int


def usage_ended_between(con: Connection, ended_from: int, ended_before: float) -> Iterator[list[Ended]]:
    """Do the same as `ended_between` at a tenth of the cost: read only the values of `Ended`."""
    measured = ", ".join(
        f"CASE Hold.{column} WHEN {states.UNKNOWN_NUMBER} THEN 0 ELSE coalesce(Hold.{column}, AAR.{column}) END"
        for column in ("UsedWalltime", "UsedCPUUserTime", "UsedCPUKernelTime")
    )
    names = f"LEFT JOIN WLCGVOs ON WLCGVOs.ID = VOID JOIN Status ON Status.ID = StatusID {_HOLD}"
    columns = f"AAR.RecordID, JobID, WLCGVOs.Name, {measured}"
    for rows in _ended_between(con, columns, names, ended_from, ended_before):
        page = []
        for end_time, record_id, job_id, vo, *durations in rows:
            used: list[Any] = durations if _are_whole(durations) else [*map(_plain, durations)]
            page.append(Ended(record_id, unescaped(job_id), end_time, unescaped_name(vo), used[0], used[1] + used[2]))
        yield page


def ended_between(con: Connection, ended_from: int, ended_before: float) -> Iterator[list[AAR]]:
    """Yield pages of the publishable records with ``ended_from <= EndTime < ended_before`` (UTC seconds), by end."""
    for rows in _ended_between(con, _RECORD, _NAMES, ended_from, ended_before):
        yield [_aar_of(row[1:]) for row in rows]


def _ended_between(
    con: Connection, columns: str, names: str, ended_from: int, ended_before: float
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield pages of rows of the publishable records, by end: the end before ``columns``, which begin with RecordID."""
    # The plus keeps SQLite on the index of EndTime: the one of StatusID would walk the whole table.
    query = (
        f"SELECT EndTime, {columns} FROM AAR {names.replace('= StatusID', '= +StatusID')}"
        " WHERE (EndTime, AAR.RecordID) > (?, ?) AND EndTime >= ? AND EndTime < ?"
        f" AND {_PUBLISHABLE} ORDER BY EndTime, AAR.RecordID LIMIT {PAGE_RECORDS}"
    )
    position = (ended_from, 0)
    while rows := con.execute(query, (*position, ended_from, ended_before)).fetchall():
        yield rows
        position = rows[-1][:2]


def ended_at(
    con: Connection, end_times: Iterable[object], *, besides: Collection[int] = ()
) -> list[tuple[int, str, str | None, int]]:
    """
    Return ``(RecordID, JobID, LocalJobID, EndTime)`` of the publishable records that ended in one of these seconds.

    Leaves out the records in ``besides``, and ends that are not whole numbers.
    """
    seconds = ",".join(str(end) for end in set(end_times) if isinstance(end, int))
    rows = con.execute(
        # The plus keeps SQLite on the index of EndTime.
        f"SELECT AAR.RecordID, JobID, LocalJobID, EndTime FROM AAR JOIN Status ON Status.ID = +StatusID {_HOLD}"
        f" WHERE EndTime IN ({seconds}) AND {_PUBLISHABLE} ORDER BY AAR.RecordID"
    )
    return [
        (record_id, unescaped(job_id), unescaped(local) if local else None, end)
        for record_id, job_id, local, end in rows
        if record_id not in besides
    ]


def seconds_of_others(con: Connection, end_times: Iterable[object], own_ids: Collection[int]) -> set[int]:
    """Return the seconds of ``end_times`` in which records other than ``own_ids`` ended, with any status."""
    seconds = ",".join(str(end) for end in set(end_times) if isinstance(end, int))
    # The index alone answers this query.
    rows = con.execute(f"SELECT EndTime, RecordID FROM AAR WHERE EndTime IN ({seconds})")
    return {end for end, record_id in rows if record_id not in own_ids}


def by_job_id(con: Connection, job_ids: Sequence[str]) -> dict[str, AAR]:
    """Return these jobs, with any status, by JobID; leaves out those that no longer exist."""
    found: dict[str, AAR] = {}
    for start in range(0, len(job_ids), PAGE_RECORDS):
        some = [escaped(job_id) for job_id in job_ids[start : start + PAGE_RECORDS]]
        chosen = f"JobID IN ({','.join('?' * len(some))}) ORDER BY AAR.RecordID"
        rows = con.execute(f"SELECT {_RECORD} FROM AAR {_NAMES} WHERE {chosen}", some)
        found |= {aar.job_id: aar for aar in map(_aar_of, rows)}
    return found


def by_record_id(con: Connection, record_ids: Sequence[int]) -> dict[int, AAR]:
    """Return these records, with any status, by RecordID; leaves out those that no longer exist."""
    ids = ",".join(str(int(record_id)) for record_id in record_ids)
    rows = con.execute(f"SELECT {_RECORD} FROM AAR {_NAMES} WHERE AAR.RecordID IN ({ids})")
    return {aar.record_id: aar for aar in map(_aar_of, rows)}


def _aar_of(row: Sequence[Any]) -> AAR:
    """Make a record from a row of `_RECORD`."""
    record_id, job_id, local_job_id, *names = row[:8]
    status, *numbers = row[8:22]
    tokens, extra, environments, transfers, events, auth_groups, accelerators, unknown, hold = row[22:]
    named = _named(extra)[0]
    if "%" in extra:
        named = {key: unescaped(value) for key, value in named.items()}
    get, time_of = named.get, _decoded(events)[0].get
    moved = [
        _transfer((unescaped(url), size, start, end, states.TRANSFER_KINDS.get(kind, "input")))
        for url, size, start, end, kind in _decoded(transfers)[0]
    ]
    aar = _aar(
        (
            record_id,
            unescaped(job_id),
            unescaped(local_job_id) if local_job_id else None,
            *map(unescaped_name, names),
            status,
            *(numbers if _are_whole(numbers) else map(_plain, numbers)),
            _fqans(tokens),
            *map(get, ("jobname", "lrms")),
            _node_names(get("nodenames") or get("nodename")),
            *map(get, ("clienthost", "localuser", "projectname", "systemsoftware", "wninstance", "benchmark")),
            _environments(environments),
            tuple(moved),
            *map(time_of, states.PUBLISHED_EVENTS),
            auth_groups_of(auth_groups) if auth_groups else (),
            None if accelerators is None else Accelerators(*_decoded(accelerators)[0]),
            "",
            _fields(unknown),
        )
    )
    return aar if hold is None else _as_it_counts(aar, *_decoded(hold)[0])


_aar: Callable[[Any], AAR] = partial(tuple.__new__, AAR)
_transfer: Callable[[Any], Transfer] = partial(tuple.__new__, Transfer)
"""Create these tuples from all their values, in order, at two thirds of the usual cost."""
_decoded = JSONDecoder().raw_decode
"""If a key occurs twice, the last counts: for a job that ran twice, the times of the last run."""
_named = JSONDecoder(object_pairs_hook=lambda pairs: dict(reversed(pairs))).raw_decode
"""If a key occurs twice, the first counts."""


@lru_cache(maxsize=1024)
def _fqans(tokens: str) -> tuple[str, ...]:
    """Return the values of ``KEY VALUE`` in a JSON array, the last main one first."""
    fqans: list[str] = []
    for token in filter(None, _decoded(tokens)[0]):
        key, _, value = token.partition(" ")
        fqans.insert(0 if key == states.FQAN_KEYS[0] else len(fqans), unescaped(value))
    return tuple(fqans)


@lru_cache(maxsize=1024)
def _environments(names: str) -> tuple[str, ...]:
    """Return the distinct names in a JSON array."""
    return tuple(dict.fromkeys(map(unescaped, _decoded(names)[0])))


@lru_cache(maxsize=1024)
def _fields(names: str) -> tuple[str, ...]:
    return tuple(sorted(_decoded(names)[0]))


def _are_whole(numbers: Sequence[Any]) -> bool:
    """Whether these are whole numbers: SQLite may store any type in a number column."""
    try:
        # The sum has the type of any fraction in it, and there is none with a text or bytes.
        return type(sum(numbers)) is int
    except TypeError:
        return False


def _as_it_counts(aar: AAR, is_held: int, reasons: str, *overrides: Any) -> AAR:
    """Return a record with its impossible values replaced, and with the reasons of its hold, if it is held."""
    values = {field: value for field, value in zip(OVERRIDDEN, overrides, strict=True) if value is not None}
    unknown = {field for field, value in values.items() if value == states.UNKNOWN_NUMBER}
    # Receivers have no value for unknown: A-REX's number is used, and for a benchmark the site's default.
    counted: dict[str, Any] = {
        field: (int(field in _COUNTS) if field in unknown else value) if value != "" else None
        for field, value in values.items()
    }
    return aar._replace(held=reasons if is_held else "", unknown=tuple(sorted(unknown.union(aar.unknown))), **counted)


_COUNTS = ("node_count", "core_count")
"""Fields with a value of at least 1."""


def transfer_of(url: object, *numbers: object) -> Transfer:
    """Make a Transfer from a row of DataTransfers; a value that is not a number becomes 0."""
    size, start, end, kind = [number if isinstance(number, int) else 0 for number in numbers]
    return Transfer(unescaped(url), size, start, end, states.TRANSFER_KINDS.get(kind, "input"))


@lru_cache(maxsize=1024)
def auth_groups_of(names: str) -> tuple[str, ...]:
    """Split the stored text of authgroups."""
    return tuple(names.split())


def _plain(value: object) -> object:
    """Convert fractions and bytes that SQLite stored in a column of whole numbers; too large fractions stay."""
    if isinstance(value, float) and abs(value) < LARGEST_WHOLE:
        return int(value)
    return plain_text(value) if isinstance(value, bytes) else value


@lru_cache(maxsize=8192)
def _node_names(text: str | None) -> tuple[str, ...]:
    """Return the distinct names, in order. A-REX writes one per slot, under `nodenames` (jura reads `nodename`)."""
    return tuple(dict.fromkeys([name for name in (text or "").split(":") if name]))


def is_time(end_time: object) -> bool:
    """Whether an end belongs to a month; SQLite may store any type in a number column."""
    return isinstance(end_time, int) and 0 < end_time <= LAST_SECOND


def is_publishable(aar: AAR) -> bool:
    """Whether a record is not held, and its job ended, or vanished after something was measured."""
    measured = (aar.wall_s, aar.cpu_user_s, aar.cpu_kernel_s) != (0, 0, 0)
    return not aar.held and aar.status in states.FINAL and (aar.status != states.ABORTED or measured)


def cell_of(aar: AAR) -> UsageCell:
    """Return the cell of a single job."""
    when = time.gmtime(aar.end_time)
    durations: tuple[object, ...] = (aar.wall_s, aar.cpu_user_s, aar.cpu_kernel_s)
    wall_s, user_s, kernel_s = (one if isinstance(one, int) and 0 <= one <= LARGEST_EXACT else 0 for one in durations)
    key = (aar.user_dn, aar.vo, aar.fqans[0] if aar.fqans else None, aar.endpoint_url)
    size = (aar.node_count, aar.core_count, aar.benchmark)
    used = (1, wall_s, user_s + kernel_s)
    lacks = (int(not aar.has_wall), int(not aar.has_cpu))
    ends = (aar.end_time, aar.end_time)
    return UsageCell(when.tm_year, when.tm_mon, *key, *size, *used, *ends, aar.auth_groups, *lacks)


def months_logged_after(con: Connection, seq: int, horizon: int, *, ended_from: int = 0) -> set[tuple[int, int]]:
    """Return ``(year, month)`` of the ends of all records that became final or changed after ``seq``."""
    first = max(ended_from, 1)
    if not seq:
        return _months_from(con, horizon, first)
    return {
        (int(year), int(month))
        for year, month in con.execute(
            "SELECT DISTINCT strftime('%Y', EndTime, 'unixepoch'), strftime('%m', EndTime, 'unixepoch')"
            f" FROM {_logged(seq)} WHERE Seq > ? AND Seq <= ? AND EndTime BETWEEN ? AND ?",
            (seq, horizon, first, LAST_SECOND),
        )
    }


def _months_from(con: Connection, horizon: int, first_s: float) -> set[tuple[int, int]]:
    """Return the months of the whole log from ``first_s`` on, with one query on the index of ends for each."""
    query = f"SELECT EndTime FROM {_logged(0)} WHERE EndTime BETWEEN ? AND ? AND Seq <= ? ORDER BY EndTime LIMIT 1"
    months: set[tuple[int, int]] = set()
    while row := con.execute(query, (first_s, LAST_SECOND, horizon)).fetchone():
        months.add(month_of(row[0]))
        first_s = next_month(row[0])
    return months


def places_ended_from(con: Connection, seq: int, horizon: int, ended_from: int) -> array[int]:
    """Return the positions in FinishedLog, ``seq < Seq <= horizon``, of records that ended from ``ended_from`` on."""
    rows = con.execute(
        f"SELECT Seq FROM {_logged(0)} WHERE EndTime >= ? AND Seq > ? AND Seq <= ?", (ended_from, seq, horizon)
    )
    return array("q", (place for (place,) in rows))


def places_of(con: Connection, job_ids: Sequence[str], seq: int, horizon: int) -> array[int]:
    """Return the positions in FinishedLog, ``seq < Seq <= horizon``, of any number of jobs."""
    found: array[int] = array("q")
    for start in range(0, len(job_ids), PAGE_RECORDS):
        some = [escaped(job_id) for job_id in job_ids[start : start + PAGE_RECORDS]]
        rows = con.execute(
            f"SELECT Seq FROM {_logged(0)} WHERE JobID IN ({','.join('?' * len(some))}) AND Seq > ? AND Seq <= ?",
            (*some, seq, horizon),
        )
        found.extend(place for (place,) in rows)
    return found


def are_logged(con: Connection, spans: Sequence[Sequence[int]]) -> bool:
    """Whether FinishedLog still has all places of these spans: the first and the last of each."""
    query = (
        "SELECT total((SELECT count(*) FROM FinishedLog WHERE Seq BETWEEN json_extract(value, '$[0]') AND"
        " json_extract(value, '$[1]'))) FROM json_each(?)"
    )
    (found,) = con.execute(query, (json.dumps(spans),)).fetchone()
    return bool(found == sum(last - first + 1 for first, last in spans))


def highest_place(con: Connection, horizon: int) -> int:
    """Return the last position in FinishedLog up to ``horizon``; 0: no entry."""
    row = con.execute("SELECT max(Seq) FROM FinishedLog WHERE Seq <= ?", (horizon,)).fetchone()
    return int(row[0] or 0)


def ended_from_up_to(con: Connection, ended_from: int, most: int) -> int:
    """Count the records that ended at ``ended_from`` or later, up to ``most``."""
    query = "SELECT count(*) FROM (SELECT 1 FROM AAR WHERE EndTime >= ? LIMIT ?)"
    return int(con.execute(query, (ended_from, most)).fetchone()[0])


def _logged(seq: int) -> str:
    """
    Return the join of the log with its records. It starts from new log entries, or with ``seq`` 0 from the ends.

    CROSS, since SQLite would otherwise read every end even if only three records are new.
    """
    first, second = ("FinishedLog", "AAR") if seq else ("AAR", "FinishedLog")
    return f"{first} CROSS JOIN {second} ON AAR.RecordID = FinishedLog.RecordID"


def without_measure(con: Connection, seq: int, horizon: int) -> list[str]:
    """Return JobIDs, ``seq < Seq <= horizon``, with a duration that the cells count as 0, or an end without a month."""
    rows = con.execute(
        "SELECT JobID FROM FinishedLog CROSS JOIN AAR ON AAR.RecordID = FinishedLog.RecordID"
        " WHERE Seq > :seq AND Seq <= :horizon AND NOT (EndTime BETWEEN 1 AND :last"
        " AND UsedWalltime BETWEEN 0 AND :most AND UsedCPUUserTime BETWEEN 0 AND :most"
        " AND UsedCPUKernelTime BETWEEN 0 AND :most)",
        {"seq": seq, "horizon": horizon, "last": LAST_SECOND, "most": LARGEST_EXACT},
    )
    return [unescaped(job_id) for (job_id,) in rows]


def logged_ended_from(con: Connection, seq: int, horizon: int, ended_from: int) -> list[str]:
    """Return JobIDs logged with ``seq < Seq <= horizon`` that ended at ``ended_from`` or later."""
    rows = con.execute(
        f"SELECT JobID FROM {_logged(seq)} WHERE Seq > ? AND Seq <= ? AND EndTime BETWEEN ? AND ?",
        (seq, horizon, ended_from, LAST_SECOND),
    )
    return [unescaped(job_id) for (job_id,) in rows]


def count_held(con: Connection, seq: int, horizon: int) -> int:
    """Count the records logged with ``seq < Seq <= horizon`` that wait for a decision (`holds`)."""
    row = con.execute(
        "SELECT count(*) FROM RecordHolds CROSS JOIN FinishedLog USING (RecordID)"
        " WHERE State = ? AND Seq > ? AND Seq <= ?",
        (HELD, seq, horizon),
    ).fetchone()
    return int(row[0])


def earliest_unhandled_end(con: Connection, seq: int, *, ended_from: int = 0) -> int | None:
    """Return the smallest EndTime of a record that became final after ``seq``, UTC seconds; ``None``: no record."""
    # Not min(): with a condition on another table it would read all records.
    row = con.execute(
        f"SELECT EndTime FROM {_logged(seq)} WHERE Seq > ? AND EndTime BETWEEN ? AND ? ORDER BY EndTime LIMIT 1",
        (seq, ended_from, LAST_SECOND),
    ).fetchone()
    return None if row is None else int(row[0])


def vos(con: Connection) -> list[str]:
    """Return the VOs of recorded jobs."""
    return [unescaped(name) for (name,) in con.execute("SELECT Name FROM WLCGVOs WHERE Name <> '' ORDER BY Name")]


def latest_end(con: Connection) -> int | None:
    """Return the largest valid EndTime of a finished record that is not held, UTC seconds; ``None``: no record."""
    # Not max(): with a condition on another table it would read all records.
    query = "SELECT EndTime FROM AccountedAAR WHERE EndTime <= ? ORDER BY EndTime DESC LIMIT 1"
    row = con.execute(query, (LAST_SECOND,)).fetchone()
    return int(row[0]) if row and row[0] else None


def core_seconds(con: Connection, start_s: int, before_s: int) -> dict[int, int]:
    """
    Return, by RecordID, the core seconds of jobs whose runs had different cores, unless an operator decided.

    Of the jobs that ended at or after ``start_s`` and before ``before_s``, UTC seconds.
    """
    # The order of the tables is that of a CROSS JOIN: the ends are read first.
    query = (
        "SELECT AAR.RecordID, CAST(InfoValue AS INTEGER) FROM AAR CROSS JOIN JobExtraInfo AS Extra"
        " ON Extra.RecordID = AAR.RecordID AND +InfoKey = 'coreseconds' WHERE EndTime >= ? AND EndTime < ?"
        " AND NOT EXISTS (SELECT 1 FROM RecordHolds AS Hold WHERE Hold.RecordID = AAR.RecordID"
        " AND coalesce(Hold.CPUCount, Hold.UsedWalltime) IS NOT NULL)"
    )
    return dict(con.execute(query, (start_s, before_s)).fetchall())


def endpoint_urls(con: Connection) -> list[str]:
    """Return the URL of every endpoint that a job ever had; ``''``: no endpoint."""
    return [url for (url,) in con.execute("SELECT DISTINCT URL FROM Endpoints")]


# Find a job by an ID that a user gives: its job ID or URL, its local ID, or the start of its job ID.


_MOST_NAMED = 5


class FoundJob(NamedTuple):
    """A record of the database."""

    record_id: int
    job_id: str


def find_job(con: Connection, text: str) -> FoundJob:
    """
    Return the job with this JobID or LocalJobID, or whose JobID starts with the text; of a URL, the last part is used.

    Raises InputError when no job matches, or more than one (the message names the first few).
    """
    found = _jobs(con, text)
    if not found:
        raise InputError(
            f"{text or repr(text)}: no such job; give its id, its id in the batch system or the beginning of its id"
        )
    if len(found) > 1:
        names = ", ".join(one.job_id for one in found[:_MOST_NAMED])
        more = ", ..." if len(found) > _MOST_NAMED else ""
        raise InputError(f"{text}: several jobs: {names}{more}; give the whole id")
    return found[0]


def has_job(con: Connection, text: str) -> bool:
    """Whether any job has this JobID or LocalJobID, or a JobID that starts with the text."""
    return bool(_jobs(con, text))


def _jobs(con: Connection, text: str) -> list[FoundJob]:
    text = text.rpartition("/")[2] if "://" in text else text
    if not text:
        # Jobs without a local ID have an empty one.
        return []
    # A range instead of LIKE: it uses the index and has no wildcards.
    for condition in ("JobID = :text", "LocalJobID = :text", "JobID >= :text AND JobID < :text || char(0x10ffff)"):
        rows = con.execute(
            f"SELECT RecordID, JobID FROM AAR WHERE {condition} ORDER BY RecordID DESC LIMIT {_MOST_NAMED + 1}",
            {"text": escaped(text)},
        ).fetchall()
        if rows:
            return [FoundJob(record_id, unescaped(job_id)) for record_id, job_id in rows]
    return []
