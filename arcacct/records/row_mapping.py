"""Convert between rows of A-REX's tables and jobs: read an open database of A-REX, and escape texts for writing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from arcacct.database.connection import Connection, DataError
from arcacct.database.foreign import Foreign
from arcacct.records.model import Job
from arcacct.records.reader import decoded, one_state, transfer_of
from arcacct.records.recorder import CHILDREN, INFO_KEYS
from arcacct.records.states import TRANSFER_KINDS
from arcacct.records.texts import escaped, event_time, unescaped

# Read the records of an open database of A-REX, of ARC 6 or ARC 7, page by page, each in one short transaction.
#
# arcacct's own tables are those of ARC 6, so the same queries read the records for an archive.


class Numbers(NamedTuple):
    """The number columns of AAR, as the fields of a `Job`; 0 means unknown (for counts and the exit code: 1)."""

    exit_code: int
    submit_time: int
    end_time: int
    node_count: int
    core_count: int
    memory_kib: int
    virtual_memory_kib: int
    wall_s: int
    cpu_user_s: int
    cpu_kernel_s: int
    scratch_bytes: int
    stage_in_bytes: int
    stage_out_bytes: int


NUMBERS = (
    "ExitCode, SubmitTime, EndTime, NodeCount, CPUCount, UsedMemory, UsedVirtMem, UsedWalltime, UsedCPUUserTime,"
    " UsedCPUKernelTime, UsedScratch, StageInVolume, StageOutVolume"
)
"""The columns of `Numbers`."""
COLUMNS = dict(zip(Numbers._fields, NUMBERS.split(", "), strict=True))
_RECORD = f"""
    SELECT AAR.RecordID, JobID, LocalJobID, Interface, URL, Queues.Name, Users.Name, WLCGVOs.Name, Status.Name,
           {{fqan}}, {{benchmark}}, {NUMBERS}
      FROM AAR
      LEFT JOIN Endpoints ON Endpoints.ID = EndpointID
      LEFT JOIN Queues ON Queues.ID = QueueID
      LEFT JOIN Users ON Users.ID = UserID
      LEFT JOIN WLCGVOs ON WLCGVOs.ID = VOID
      LEFT JOIN Status ON Status.ID = StatusID
"""
_RECORD_QUERIES = {
    1: _RECORD.format(fqan="NULL", benchmark="NULL"),
    2: _RECORD.format(fqan="ifnull(FQANs.Name, '')", benchmark="ifnull(Benchmarks.Name, '')")
    + " LEFT JOIN FQANs ON FQANs.ID = FQANID LEFT JOIN Benchmarks ON Benchmarks.ID = BenchmarkID",
}
_PAGE_BYTES = 32 * 2**20
"""The most bytes of all texts of a page of records, or of a single record that is too large for a page ..."""
_PAGE_ROWS = 500_000
"""... and the most rows."""
_SOME_ROWS = 1000


Row = tuple[object, ...]
Event = tuple[str, str]
"""EventKey and EventTime."""


class ArexRows(NamedTuple):
    """
    The rows of one job in A-REX's or arcacct's database: its record with names resolved, and its children by rowid.

    Texts are percent-escaped as A-REX does.
    """

    record_id: int
    job_id: str
    local_job_id: str
    interface: str
    url: str
    queue: str
    user_dn: str
    vo: str
    status: str
    numbers: Numbers
    fqan: str | None
    """The first FQAN of schema version 2; ``None`` in version 1, which has it among ``auth_tokens``."""
    benchmark: str | None
    """The benchmark of schema version 2; ``None`` in version 1, which has it in ``extra``."""
    auth_tokens: Sequence[Row]
    rtes: Sequence[Row]
    transfers: Sequence[Row]
    extra: Sequence[Row]
    events: Sequence[Event]
    fault: str | None = None
    """Why the record could not be read; then only ``record_id`` is valid."""


def unusable(record_id: int, fault: str) -> ArexRows:
    """Return a placeholder for a record that cannot be read."""
    nothing = Numbers._make((0,) * len(Numbers._fields))
    return ArexRows._make((record_id, "?", *[""] * 7, nothing, None, None, *[()] * 5, fault))


def schema_version(con: Connection) -> int:
    """Return the version of A-REX's tables: 1 for ARC 6 and arcacct, 2 for ARC 7."""
    return 2 if any(row[1] == "FQANID" for row in con.execute("PRAGMA table_info(AAR)")) else 1


def rows_after(con: Connection, version: int, record_id: int, limit: int) -> list[ArexRows]:
    """Return the next records by RecordID with their children, in one short transaction."""
    return _rows(con, version, "AAR.RecordID > ? ORDER BY AAR.RecordID LIMIT ?", (record_id, limit))


def rows_of(con: Connection, version: int, record_ids: Iterable[int]) -> list[ArexRows]:
    """Return these records with their children, by RecordID; leaves out those that no longer exist."""
    ids = ",".join(str(int(record_id)) for record_id in record_ids)
    return _rows(con, version, f"AAR.RecordID IN ({ids}) ORDER BY AAR.RecordID", ())


def rows_of_jobs(con: Connection, version: int, job_ids: Sequence[str]) -> list[ArexRows]:
    """Return the records of these jobs (a few hundred at most; IDs as stored) with their children."""
    marks = ",".join("?" * len(job_ids))
    return _rows(con, version, f"JobID IN ({marks})", tuple(job_ids))


def _rows(con: Connection, version: int, condition: str, values: tuple[int | str, ...]) -> list[ArexRows]:
    if isinstance(con, Foreign):
        con.more_time()
    try:
        return _read(con, version, condition, values)
    except DataError:
        pass
    # A single record may be too large: read the others one by one.
    rows: list[ArexRows] = []
    for (record_id,) in con.execute(f"SELECT AAR.RecordID FROM AAR WHERE {condition}", values).fetchall():
        try:
            rows += _read(con, version, "AAR.RecordID = ?", (record_id,))
        except DataError as error:
            rows.append(unusable(record_id, f"it is too large: {error}"))
    return rows


class _Room:
    """The remaining room of a page of records."""

    def __init__(self) -> None:
        self._bytes = _PAGE_BYTES
        self._rows = _PAGE_ROWS

    def fetched(self, rows: Iterable[Row]) -> list[Row]:
        """Return all these rows. Raises DataError, as SQLite for a value that is too large, if they exceed the room."""
        taken: list[Row] = []
        coming = iter(rows)
        while some := list(islice(coming, _SOME_ROWS)):
            taken += some
            self._rows -= len(some)
            self._bytes -= sum(len(value) for row in some for value in row if isinstance(value, str | bytes))
            if self._rows < 0 or self._bytes < 0:
                raise DataError(f"more than {_PAGE_BYTES // 2**20} MiB or {_PAGE_ROWS} rows")
        return taken


def _read(con: Connection, version: int, condition: str, values: tuple[int | str, ...]) -> list[ArexRows]:
    # A job name may have invalid bytes: they become \xHH, as in the reading of control files.
    return decoded(con, lambda: _read_texts(con, version, condition, values), _readable)


def _readable(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace")


def _read_texts(con: Connection, version: int, condition: str, values: tuple[int | str, ...]) -> list[ArexRows]:
    room = _Room()
    with one_state(con):
        main = room.fetched(con.execute(f"{_RECORD_QUERIES[version]} WHERE {condition}", values))
        ids = ",".join(str(row[0]) for row in main)
        children = {table: _children(con, room, table, ", ".join(CHILDREN[table]), ids) for table in CHILDREN}
    return [_arex_rows(row, children) for row in main]


def _arex_rows(row: tuple[Any, ...], children: Mapping[str, Mapping[Any, Sequence[Any]]]) -> ArexRows:
    texts, numbers = row[1 : -len(Numbers._fields)], row[-len(Numbers._fields) :]
    tokens, events, rtes, transfers, extra = (children[table].get(row[0], ()) for table in CHILDREN)
    own = (row[0], *_names(texts[:8]), _numbers(numbers), *map(_text, texts[8:]))
    events = [(str(key), str(when)) for key, when in events]
    return ArexRows._make((*own, _texts(tokens), _texts(rtes), transfers, _texts(extra), events, None))


# SQLite may store any type in any column, but this is rare: so the types of all values are checked at once.


_LARGEST_INTEGER = 2**63 - 1


def _numbers(values: tuple[Any, ...]) -> Numbers:
    return Numbers._make(values if set(map(type, values)) == {int} else map(_integer, values))


def _integer(value: Any) -> int:
    """
    Return a number as the column would hold it; 0 for what is not a number.

    A-REX writes unsigned numbers of 64 bits. SQLite makes a REAL of one that does not fit: it stays too large.
    """
    if type(value) is float:
        return int(max(-_LARGEST_INTEGER - 1, min(value, _LARGEST_INTEGER))) if value == value else 0  # noqa: PLR0124
    return value if isinstance(value, int) else 0


def _names(texts: tuple[Any, ...]) -> tuple[Any, ...]:
    return texts if set(map(type, texts)) == {str} else tuple(_text(text) or "" for text in texts)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return _readable(value) if isinstance(value, bytes) else str(value)


def _texts(rows: Sequence[Row]) -> Sequence[Row]:
    if {type(value) for row in rows for value in row} <= {str}:
        return rows
    return [tuple(_text(value) or "" for value in row) for row in rows]


def _children(con: Connection, room: _Room, table: str, columns: str, ids: str) -> dict[Any, list[Row]]:
    """Return the rows of a child table by RecordID, in the order in which they were written."""
    rows = con.execute(f"SELECT RecordID, {columns} FROM {table} WHERE RecordID IN ({ids}) ORDER BY RecordID, rowid")
    return {record_id: [row[1:] for row in group] for record_id, group in groupby(room.fetched(rows), itemgetter(0))}


def records_below(con: Connection, record_id: int) -> list[int]:
    """Return the RecordIDs below a number, sorted."""
    rows = con.execute("SELECT RecordID FROM AAR WHERE RecordID < ? ORDER BY RecordID", (record_id,))
    return [found for (found,) in rows]


def highest_record(con: Connection) -> int:
    """Return the highest RecordID; 0: no records."""
    return int(con.execute("SELECT ifnull(max(RecordID), 0) FROM AAR").fetchone()[0])


def first_end(con: Connection, after_s: int) -> int | None:
    """Return the first end after ``after_s``, both in UTC seconds; ``None``: no such job."""
    (found,) = con.execute("SELECT min(EndTime) FROM AAR WHERE EndTime > ?", (after_s,)).fetchone()
    return found if isinstance(found, int) else None


def job_id_of(con: Connection, record_id: int) -> str | None:
    """Return the JobID of a record; ``None``: no such record."""
    row = con.execute("SELECT JobID FROM AAR WHERE RecordID = ?", (record_id,)).fetchone()
    return None if row is None else str(row[0])


def event_at(con: Connection, row: int) -> str | None:
    """Return a row of JobEvents as one text; ``None``: no such row."""
    found: tuple[int, *Event] | None = con.execute(
        "SELECT RecordID, EventKey, EventTime FROM JobEvents WHERE rowid = ?", (row,)
    ).fetchone()
    return None if found is None else " ".join(map(str, found))


def last_event(con: Connection) -> tuple[int, str]:
    """Return the number of the last row of JobEvents and its text; ``(0, "")``: no rows."""
    row = int(con.execute("SELECT ifnull(max(rowid), 0) FROM JobEvents").fetchone()[0])
    return row, event_at(con, row) or ""


def records_with_events(con: Connection, after: int, limit: int) -> tuple[int, set[int]]:
    """Return the last of the next ``limit`` rows of JobEvents after a row, and the RecordIDs of these rows."""
    rows = con.execute(
        "SELECT rowid, RecordID FROM JobEvents WHERE rowid > ? ORDER BY rowid LIMIT ?", (after, limit)
    ).fetchall()
    # A row without a record may have any value as its RecordID.
    return (rows[-1][0] if rows else after), {one for _row, one in rows if isinstance(one, int)}


def statuses_of(con: Connection, record_ids: Sequence[int]) -> dict[int, str]:
    """Return the status of each of these records that still exists, by RecordID."""
    ids = ",".join(str(int(record_id)) for record_id in record_ids)
    return dict(
        con.execute(
            "SELECT RecordID, ifnull(Status.Name, '') FROM AAR LEFT JOIN Status ON Status.ID = StatusID"
            f" WHERE RecordID IN ({ids})"
        ).fetchall()
    )


# Convert a whole job to rows of the tables, and back. Only this code escapes a job's texts.
#
# Unknown values are stored as A-REX writes them: 0, one node, one core, exit code 1.


NOTHING_TOLD = Numbers._make((1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0))
INFO_FIELDS = {key: field for field, key in INFO_KEYS.items()}
_TEXTS = ("job_id", "local_job_id", "endpoint_type", "endpoint_url", "queue", "user_dn", "vo")
"""Fields of a `Job`, in the order of the first texts of ArexRows."""
_names_of = attrgetter(*_TEXTS[2:])
_named = attrgetter(*INFO_KEYS)
_numbers_of = attrgetter(*Numbers._fields)
_KIND_NUMBERS = {kind: number for number, kind in TRANSFER_KINDS.items()}
_NONE = (None, ())
_SECONDS = tuple(f"{second:02}" for second in range(60))
# The same names and minutes occur in many jobs.
_name = lru_cache(maxsize=8192)(escaped)


@lru_cache(maxsize=8192)
def _minute(minute: int) -> str:
    return event_time(60 * minute)[:-2]


def stored(job: Job) -> ArexRows:
    """Return the rows of a job; its extra values are in the order of their keys, as A-REX writes them."""
    named = zip(INFO_FIELDS, _named(job), strict=True)
    # Node names are a tuple.
    extra = [(key, escaped(text if type(text) is str else ":".join(text))) for key, text in named if text not in _NONE]
    if job.extra:
        extra = sorted([*extra, *((key, escaped(text)) for key, text in job.extra)])
    numbers = _numbers_of(job)
    if None in numbers:
        numbers = tuple(
            unknown if value is None else value for value, unknown in zip(numbers, NOTHING_TOLD, strict=True)
        )
    transfers = [
        (escaped(one.url), one.size_bytes, one.start_time, one.end_time, _KIND_NUMBERS[one.kind])
        for one in job.transfers
    ]
    events = [
        (key, _minute(when // 60) + _SECONDS[when % 60] if isinstance(when, int) else when) for key, when in job.events
    ]
    texts = (escaped(job.job_id), escaped(job.local_job_id), *map(_name, _names_of(job)), job.status)
    tokens = [(key, escaped(value)) for key, value in job.auth_tokens]
    rtes = [(escaped(name),) for name in job.run_time_environments]
    return ArexRows._make((0, *texts, Numbers._make(numbers), None, None, tokens, rtes, transfers, extra, events, None))


def as_job(rows: ArexRows, events: tuple[tuple[str, int | str], ...]) -> Job:
    """Make a job from its rows; ``events``: the job's events, in UTC."""
    named: dict[str, Any] = dict(zip(_TEXTS, map(unescaped, rows[1:8]), strict=True)) | rows.numbers._asdict()
    extra: list[tuple[str, str]] = []
    for key, value in rows.extra:
        field = INFO_FIELDS.get(str(key))
        if field is None or field in named:
            extra.append((str(key), unescaped(value)))
        else:
            named[field] = unescaped(value)
    if "node_names" in named:
        named["node_names"] = tuple(named["node_names"].split(":"))
    return Job(
        status=rows.status,
        extra=tuple(extra),
        auth_tokens=tuple([(str(key), unescaped(value)) for key, value in rows.auth_tokens]),
        run_time_environments=tuple([unescaped(name) for (name,) in rows.rtes]),
        transfers=tuple([transfer_of(*row) for row in rows.transfers]),
        events=events,
        **named,
    )
