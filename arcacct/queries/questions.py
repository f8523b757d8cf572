"""
The queries of `arcacct stats`: which jobs, and how they are counted; and opening a database for a query, ours or
A-REX's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from arcacct.arex import own_database
from arcacct.database import connection
from arcacct.database.access import READABLE, require_own_schema
from arcacct.database.connection import ACCOUNTING_SCHEMA, Connection, DatabaseError, open_for_reading, translated
from arcacct.database.durable import WAL, header_of
from arcacct.database.schema import ACCOUNTING
from arcacct.errors import InputError, SchemaError, StoreError
from arcacct.records.reader import one_state
from arcacct.records.row_mapping import schema_version
from arcacct.records.states import SQL_ABORTED, SQL_BY_ITSELF, SQL_FAILED
from arcacct.records.texts import escaped, plain_text, unescaped
from arcacct.records.usage import OF_DAYS, OF_HOSTS, OF_MONTHS, BreakdownKind
from arcacct.times import DAY_S, HOUR_S, month_bounds, month_of

# Opening a database for a query: ours, or A-REX's own, which is only read (INVARIANTS 1).  Nothing here can write, and
# no configuration is needed when the file is named.


_FIRST_BYTES = 2**20


@contextmanager
def opened_to_ask(path: str, *, anybodys: bool = False) -> Iterator[Connection]:
    """
    An accounting database for reading: ours, or one that A-REX writes, or a copy of that.

    ``anybodys``: a file from the command line may only look like ours. Raises InputError for a file that is no such
    database, StoreError and its kinds when it cannot be read.
    """
    con = _ours(path, anybodys=anybodys)
    if con is not None:
        with closing(con):
            con.text_factory = READABLE
            yield con
        return
    import tempfile  # noqa: PLC0415  only for A-REX's own database

    with tempfile.TemporaryDirectory(prefix="arcacct-") as workspace, own_database.opened(path, workspace) as arex:
        arex.con.text_factory = READABLE
        yield arex.con


def _ours(path: str, *, anybodys: bool) -> Connection | None:
    """Our database, open; ``None`` for one of A-REX, which SQLite opens only with care."""
    connection.refuse_hidden(path)
    if not os.path.exists(path):
        raise StoreError(f"{path}: no such database; create it with `arcacct db init`")
    try:
        journal = header_of(path).journal
    except InputError:
        if anybodys:
            raise
        # A configured database is ours: the function that opens it reports damage.
        return open_for_reading(path, ACCOUNTING_SCHEMA)
    # A snapshot for readers has no WAL, so its journal mode does not distinguish it from A-REX's database.
    if journal != WAL or not os.path.exists(f"{path}-shm"):
        with open(path, "rb") as file:
            # Search for our mark without SQLite: its table is in the first pages.
            if b"ARCACCT_INCARNATION" not in file.read(_FIRST_BYTES):
                return None
    try:
        if anybodys:
            _require_our_views(path)
        return open_for_reading(path, ACCOUNTING_SCHEMA)
    except SchemaError as error:
        if "not a database of arcacct" in str(error):
            return None
        raise


def _require_our_views(path: str) -> None:
    """Raise SchemaError if a foreign object has the name of one of our tables or views."""
    try:
        with closing(connection.connect_to_read(path)) as con:
            tables = {name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if "DBConfig" not in tables or "FinishedLog" not in tables:
                raise SchemaError(f"{path}: not a database of arcacct")
            require_own_schema(con, path, ACCOUNTING, exactly=False)
    except (DatabaseError, UnicodeDecodeError) as error:
        raise translated(error, path) from error


def is_ours(con: Connection) -> bool:
    """Whether an open database has the views of ours; A-REX's has only the tables."""
    return con.execute("SELECT 1 FROM sqlite_master WHERE name = 'v1_usage_by_month'").fetchone() is not None


# The queries of `arcacct stats`: which jobs, and how they are counted. Every function also works on A-REX's own
# database, of ARC 6 or ARC 7, unless it says that it reads sums that only ours keeps.


_LARGEST = 2**53
_MOST_NAMES = 200
_FINAL = f"StatusID IN (SELECT ID FROM Status WHERE Name IN {SQL_BY_ITSELF})"
# The same jobs as those published: a job that vanished unfinished counts if the batch system measured something.
_COUNTED = (
    f"EndTime > 0 AND ({_FINAL} OR (StatusID IN (SELECT ID FROM Status WHERE Name = {SQL_ABORTED})"
    " AND (UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime) <> (0, 0, 0)))"
)
_COUNTED_OF_THOSE = _COUNTED.replace("(StatusID", "(+StatusID")
"""The same for jobs that another condition finds: without statistics SQLite would start with the status."""


class _Name(NamedTuple):
    """A name that jobs have by number."""

    said: str
    """Its name in messages."""
    number: str
    """The column of AAR."""
    table: str
    column: str = "Name"


_NAMES = {
    "queues": _Name("queue", "QueueID", "Queues"),
    "users": _Name("user", "UserID", "Users"),
    "vos": _Name("WLCG VO", "VOID", "WLCGVOs"),
    "states": _Name("state", "StatusID", "Status"),
    "endpoints": _Name("endpoint type", "EndpointID", "Endpoints", "Interface"),
    "fqans": _Name("FQAN", "FQANID", "FQANs"),
}
"""By field of Selection; version 1 has no table of FQANs."""
_FQAN_KEYS = "AttrKey IN ('mainfqan', 'vomsfqan')"
_FIRST_FQAN = (
    "(SELECT AttrValue FROM AuthTokenAttributes AS Token WHERE Token.RecordID = AAR.RecordID"
    " AND +AttrKey IN ('mainfqan', 'vomsfqan') ORDER BY +AttrKey, Token.rowid LIMIT 1)"
)
_EXTRA = (
    "(SELECT InfoValue FROM JobExtraInfo AS Extra WHERE Extra.RecordID = AAR.RecordID AND InfoKey IN ({keys})"
    " ORDER BY Extra.rowid LIMIT 1)"
)
_MINUTE_S = 60
WAIT_CLASSES = {
    _MINUTE_S: "below 1 min", 10 * _MINUTE_S: "1 to 10 min", HOUR_S: "10 to 60 min", 6 * HOUR_S: "1 to 6 h",
    DAY_S: "6 to 24 h", None: "1 day or more",
}  # fmt: skip
WALLTIME_CLASSES = {
    10 * _MINUTE_S: "below 10 min", HOUR_S: "10 to 60 min", 6 * HOUR_S: "1 to 6 h", DAY_S: "6 to 24 h",
    3 * DAY_S: "1 to 3 days", None: "3 days or more",
}  # fmt: skip
"""Names of classes by their upper limit in seconds; ``None``: no limit."""


def classified(seconds: str, classes: Mapping[int | None, str]) -> str:
    """Return SQL for the class of a time, NULL if that is unknown or below 0."""
    cases = "".join(
        f" WHEN {seconds} {'>= 0' if limit is None else f'BETWEEN 0 AND {limit - 1}'} THEN '{name}'"
        for limit, name in classes.items()
    )
    return f"CASE{cases} END"


_TIMES_IN_QUEUE = (
    "(SELECT max(CASE EventKey WHEN 'LRMSSTART' THEN Second END) AS Started,"
    " max(CASE EventKey WHEN 'LRMSEND' THEN Second END) AS Ended,"
    " max(CASE EventKey WHEN 'SUBMIT' THEN Second END) AS Queued FROM"
    " (SELECT EventKey, CAST(strftime('%s', EventTime) AS INTEGER) AS Second FROM JobEvents AS Event"
    " WHERE Event.RecordID = AAR.RecordID AND +EventKey IN ('SUBMIT', 'LRMSSTART', 'LRMSEND')))"
)
_WAIT = f"(SELECT {{}} FROM (SELECT Started - Queued AS Wait FROM {_TIMES_IN_QUEUE}))"
# A worker of A-REX writes Started and Ended in its local time with a false Z. The end in A-REX is UTC and comes soon
# after that in the batch system, so their difference shows the worker's zone. Up to 3 hours may be stage-out. A larger
# difference than any zone shows nothing. A clock may be wrong by a minute. (The same in schema/fleet/counted_jobs.sql.)
_WAIT_OURS = f"""(SELECT {{}} FROM (SELECT CASE WHEN Wait BETWEEN -60 AND -1 THEN 0 WHEN Wait >= 0 THEN Wait END AS Wait
 FROM (SELECT Started - Queued + CASE
 WHEN After BETWEEN -60 AND 10799 OR After > 54000 THEN 0
 WHEN After >= -50460 THEN After + 86460 - (After + 86460) % 1800 - 86400 END AS Wait
 FROM (SELECT Started, AAR.EndTime - Ended AS After, coalesce(Queued,
 CASE WHEN (SELECT URL FROM Endpoints WHERE ID = AAR.EndpointID) = '' THEN nullif(AAR.SubmitTime, 0) END) AS Queued
 FROM {_TIMES_IN_QUEUE}))))"""
"""
How long a job waited in the batch system, in s, inside a function of it: NULL where that is not known.

Of jobs that came to the batch system without A-REX their submission counts, of others the event SUBMIT.
"""


_RAW = {
    "cores": "CAST(CPUCount AS TEXT)",
    "wait": _WAIT.format(classified("Wait", WAIT_CLASSES)),
    "walltime": classified("UsedWalltime", WALLTIME_CLASSES),
    "month": "strftime('%Y-%m', nullif(EndTime, 0), 'unixepoch')",
    "day": "strftime('%Y-%m-%d', nullif(EndTime, 0), 'unixepoch')",
    "user_dn": "(SELECT Name FROM Users WHERE ID = UserID)",
    "vo": "(SELECT Name FROM WLCGVOs WHERE ID = VOID)",
    "fqan": _FIRST_FQAN,
    "queue": "(SELECT Name FROM Queues WHERE ID = QueueID)",
    "endpoint_url": "(SELECT URL FROM Endpoints WHERE ID = EndpointID)",
    "status": "(SELECT Name FROM Status WHERE ID = StatusID)",
    "node_names": _EXTRA.format(keys="'nodenames', 'nodename'"),
    "project": _EXTRA.format(keys="'projectname'"),
    "benchmark": _EXTRA.format(keys="'benchmark'"),
}
"""Columns by which jobs can be grouped, as stored."""
_GROUP_BY = {"user_dn": "UserID", "vo": "VOID", "queue": "QueueID", "endpoint_url": "EndpointID", "status": "StatusID"}
"""Numbers group faster than their names."""
# Version 2 stores the first FQAN and the benchmark in the record, by number; the empty name means none.
_RAW_2 = _RAW | {
    "fqan": "(SELECT nullif(Name, '') FROM FQANs WHERE ID = FQANID)",
    "benchmark": "(SELECT nullif(Name, '') FROM Benchmarks WHERE ID = BenchmarkID)",
}
_NO_CORES = (
    "SELECT RecordID FROM FieldSources WHERE Source = 'unknown' AND Field = 'core_count'"
    " UNION ALL SELECT RecordID FROM RecordHolds WHERE CPUCount = -1"
)
_RAW_OURS = _RAW | {
    "cores": f"CASE WHEN AAR.RecordID NOT IN ({_NO_CORES}) THEN {_RAW['cores']} END",
    "wait": _WAIT_OURS.format(classified("Wait", WAIT_CLASSES)),
    "walltime": f"CASE WHEN NOT NoWall THEN {_RAW['walltime']} END",
    "benchmark": f"nullif(coalesce(HoldBenchmark, {_RAW['benchmark']}), '')",
}
"""The jobs as they count (AccountedAAR)."""
_GROUP_BY_2 = _GROUP_BY | {"fqan": "FQANID", "benchmark": "BenchmarkID"}


class Selection(NamedTuple):
    """The selected jobs; a field that is not set does not restrict them."""

    after_s: int | None = None
    """End time after this: arcctl's ``--end-from``."""
    until_s: int | None = None
    """End time not after this: arcctl's ``--end-till``."""
    from_s: int | None = None
    """End time at this or later."""
    before_s: int | None = None
    """End time before this."""
    users: tuple[str, ...] = ()
    vos: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    """Types of submission interface."""
    extra: tuple[tuple[str, str], ...] = ()
    """``(attribute, value)``: vomsfqan, rte, dtrurl, or a key of JobExtraInfo; values of one attribute are choices."""
    submitted_after_s: int | None = None
    """Submission after this: arcctl's ``--start-from``."""
    fqans: tuple[str, ...] = ()
    """First FQAN of the user."""


@dataclass(frozen=True, slots=True)
class JobTotals:
    """The values of arcctl's stats; durations in seconds, volumes in bytes."""

    count: int
    walltime: int
    cpuusertime: int
    cpukerneltime: int
    stagein: int
    stageout: int
    first_submission: int
    """UTC seconds, as the other two."""
    last_end: int
    first_end: int

    @property
    def cputime(self) -> int:
        """User and kernel time."""
        return self.cpuusertime + self.cpukerneltime


class UsagePart(NamedTuple):
    """Some jobs with the same requested values; texts as stored, unescaped."""

    key: tuple[str | None, ...]
    core_count: int
    benchmark: str | None
    jobs: int
    wall_s: int
    cpu_s: int
    failed_jobs: int
    stage_in_bytes: int
    stage_out_bytes: int
    jobs_without_wall: int = 0
    """Jobs that count, without a measured clock time: it is 0."""
    jobs_without_cpu: int = 0
    core_rest_s: int = 0
    """Core time less clock time times cores, of jobs whose runs had different cores."""
    cpu_unpaired_s: int = 0
    """CPU time of the jobs without a measured clock time or CPU time. The efficiency leaves these jobs out."""
    core_unpaired_s: int = 0
    """Core time of the same jobs."""


class MeasuredPart(NamedTuple):
    """The measurements of GPUs and energy of some jobs, or of one; ``None``: unknown."""

    key: tuple[str | None, ...]
    gpu_s: float | None
    """GPUs granted by the batch system, times clock time."""
    gpu_busy_s: float | None
    """GPU time in full use, by samples."""
    gpu_energy_j: float | None
    """The jobs' share of the energy of their cards, by samples."""
    energy_j: float | None
    """Energy of the nodes, as the batch system measured it."""


_OURS = "AccountedAAR AS AAR"
"""
The jobs of our own database as they count: without held ones, and with the operators' decisions (`records.holds`).
"""


def _counted(con: Connection) -> str:
    return _OURS if is_ours(con) else "AAR"


def whole(value: object) -> int:
    """Return a valid number; 0 if it was never measured: SQLite may store texts and bytes as numbers."""
    return int(value) if isinstance(value, int | float) and abs(value) < 2**63 else 0


def totals(con: Connection, selection: Selection) -> JobTotals:
    """The sums over all selected jobs that are not held, finished or not; all 0 when there are none."""
    where, values = _where(con, selection)
    row = con.execute(
        "SELECT count(*), sum(UsedWalltime), sum(UsedCPUUserTime), sum(UsedCPUKernelTime), sum(StageInVolume),"
        f" sum(StageOutVolume), min(SubmitTime), max(EndTime), min(EndTime) FROM {_counted(con)} WHERE {where}",
        values,
    ).fetchone()
    return JobTotals(*map(whole, row))


def distinct(con: Connection, selection: Selection, field: str) -> list[str]:
    """
    Return the users, VOs or first FQANs (``users``, ``vos``, ``fqans``) of the selected jobs, as stored.

    They are in the order of first appearance; empty: no FQAN.
    """
    where, values = _where(con, selection)
    if field == "fqans" and schema_version(con) != 2:
        asked = f"SELECT ifnull({_FIRST_FQAN}, '') FROM AAR WHERE {where} GROUP BY 1 ORDER BY min(RecordID)"
    else:
        _said, column, table, _name = _NAMES[field]
        # Without conditions it is quicker to check for each name whether there is a job.
        condition = (
            f"EXISTS (SELECT 1 FROM AAR WHERE {column} = {table}.ID)"
            if not values
            else f"ID IN (SELECT {column} FROM AAR WHERE {where})"
        )
        asked = f"SELECT Name FROM {table} WHERE {condition} ORDER BY ID"
    return [plain_text(name) for (name,) in con.execute(asked, values)]


def job_ids(con: Connection, selection: Selection) -> Iterator[str]:
    """The ids of the selected jobs, sorted; streamed."""
    where, values = _where(con, selection)
    for (job_id,) in con.execute(f"SELECT JobID FROM AAR WHERE {where} ORDER BY JobID", values):
        yield plain_text(job_id)


def unknown_names(con: Connection, selection: Selection) -> Iterator[tuple[str, str]]:
    """Return ``(kind, name)`` of each name in a selection that no job ever had."""
    for field, name in _NAMES.items():
        source = f"{name.table} WHERE {name.column}"
        if field == "fqans" and schema_version(con) != 2:
            source = f"AuthTokenAttributes WHERE {_FQAN_KEYS} AND AttrValue"
        for asked in selection._asdict()[field]:
            if con.execute(f"SELECT 1 FROM {source} IN (?, ?)", (asked, escaped(asked))).fetchone() is None:
                yield name.said, asked


def parts(con: Connection, selection: Selection, keys: Sequence[str], *, everything: bool) -> Iterator[UsagePart]:
    """
    Sum the selected jobs by ``keys`` (of `_RAW`), cores and benchmark; reads every job of the selection.

    ``everything``: also jobs that are not finished; else those that are published. Durations without a measurement
    count 0, as in the monthly sums.
    """
    where, values = _where(con, selection)
    return _parts_of(con, keys, _counted(con), where if everything else f"{where} AND {_COUNTED}", values)


def measured_parts(
    con: Connection, selection: Selection, keys: Sequence[str], *, everything: bool
) -> Iterator[MeasuredPart]:
    """
    Return the known GPUs and energy of the selected jobs, by ``keys``; only of our own database.

    No kept sum has these: it reads the values of the jobs in the range of time, or those of all jobs.
    """
    is_bounded = any(bound is not None for bound in selection[:4])
    where, values = _where(con, selection, by_time=is_bounded)
    chosen = where if everything else f"{where} AND {_COUNTED_OF_THOSE}"
    columns = "".join(f"{_RAW_OURS[key]}, " for key in keys)
    amounts = ", ".join(
        f"total({fine}), count({fine})"
        for name in ("GPUAllocatedS", "GPUBusyS", "GPUEnergyJ", "EnergyJ")
        for fine in [f"CASE WHEN {name} BETWEEN 0 AND {_LARGEST} THEN {name} END"]
    )
    grouped = ", ".join(_GROUP_BY.get(key, str(number)) for number, key in enumerate(keys, 1))
    # From the index of ends if a range of time is requested.
    tables = (_OURS, "KnownAccelerators AS Known")
    source = " CROSS JOIN ".join(tables if is_bounded else tables[::-1])
    rows = con.execute(
        f"SELECT {columns}{amounts} FROM {source} ON AAR.RecordID = Known.RecordID WHERE {chosen} GROUP BY {grouped}",
        values,
    )
    for row in rows:
        pairs = zip(row[len(keys) :: 2], row[len(keys) + 1 :: 2], strict=True)
        yield MeasuredPart(_key(row, len(keys)), *(total if count else None for total, count in pairs))


def _key(row: Sequence[Any], width: int) -> tuple[str | None, ...]:
    return tuple(unescaped(text) if text else None for text in row[:width])


def _parts_of(
    con: Connection, keys: Sequence[str], source: str, where: str, values: Sequence[object]
) -> Iterator[UsagePart]:
    raw, group_by = (_RAW_2, _GROUP_BY_2) if schema_version(con) == 2 else (_RAW, _GROUP_BY)
    no_wall, no_cpu, core_rest, unpaired = "0", "0", "0", "0"
    if is_ours(con):
        raw = _RAW_OURS
        # All jobs include some that do not count: their measurements are not missing.
        no_wall, no_cpu = (f"CASE WHEN {column} THEN {_COUNTED} ELSE 0 END" for column in ("NoWall", "NoCpu"))
        core_rest, unpaired = "CoreRest", "(NoWall OR NoCpu)"
    user_s, kernel_s, wall_s = map(_sound, ("UsedCPUUserTime", "UsedCPUKernelTime", "UsedWalltime"))
    core_s = f"min({wall_s} * CPUCount + {core_rest}, {_LARGEST})"
    columns = ", ".join(raw[key] for key in keys)
    grouped = ", ".join(group_by.get(key, str(number)) for number, key in enumerate(keys, 1))
    rows = con.execute(
        f"SELECT {columns}{', ' if keys else ''}CPUCount, {raw['benchmark']}, count(*),"
        f" sum({wall_s}), sum({user_s}) + sum({kernel_s}),"
        f" sum(StatusID IN (SELECT ID FROM Status WHERE Name = {SQL_FAILED})), sum(StageInVolume), sum(StageOutVolume),"
        f" sum({no_wall}), sum({no_cpu}), sum({core_rest}), sum(CASE WHEN {unpaired} THEN {user_s} + {kernel_s} ELSE 0"
        f" END), sum(CASE WHEN {unpaired} THEN {core_s} ELSE 0 END)"
        f" FROM {source} WHERE {where}"
        f" GROUP BY {grouped}{', ' if grouped else ''}CPUCount, {group_by.get('benchmark', len(keys) + 2)}",
        values,
    )
    return (_part(row, len(keys)) for row in rows)


def _part(row: Sequence[Any], width: int) -> UsagePart:
    cores, benchmark, *numbers = row[width:]
    return UsagePart(_key(row, width), cores, plain_text(benchmark) if benchmark else None, *numbers)


def _sound(column: str) -> str:
    return f"CASE WHEN {column} BETWEEN 0 AND {_LARGEST} THEN {column} ELSE 0 END"


class _KeptSums(NamedTuple):
    """Sums of finished jobs that are kept up to date, grouped by cores and benchmark and ..."""

    extra_columns: frozenset[str]
    """... these columns."""
    rows: str
    """The table, and which of its rows, in SQL."""
    number: str
    contribution: str
    """The column of JobUsageShares with the number of the row."""
    period: str
    is_daily: bool = False
    """A period is a day (since 1970), not a month (202611)."""
    has_details: bool = True
    """Failed jobs and volumes are included."""


def _finer(kind: BreakdownKind, *, is_daily: bool = False) -> _KeptSums:
    rows = f"(SELECT * FROM UsageBreakdown WHERE Kind = {kind.number})"
    return _KeptSums(kind.extra_columns, rows, "FinerID", kind.contribution, "Period", is_daily)


_CELL_COLUMNS = frozenset({"UserID", "VOID", "FQAN", "EndpointID"})
_KEPT = (
    _KeptSums(_CELL_COLUMNS, "MonthlyUsage", "CellID", "CellID", "Month", has_details=False),
    _finer(OF_MONTHS),
    _finer(OF_HOSTS),
    _finer(OF_DAYS, is_daily=True),
)
"""The first one with the requested values is read."""
_KEPT_COLUMNS = _GROUP_BY | {"fqan": "FQAN", "node_names": "Host", "project": "Project", "benchmark": "Benchmark"}
_MONTH_OF = "substr({0}, 1, 4) || '-' || substr({0}, 5)"
_MONTH_OF_DAY = "strftime('%Y-%m', {0} * 86400, 'unixepoch')"
_DAY_OF = "strftime('%Y-%m-%d', {0} * 86400, 'unixepoch')"


class Waits(NamedTuple):
    """How long the jobs of a VO waited in the batch system, in s."""

    vo: str | None
    jobs: int
    """Jobs with a known waiting time."""
    median_s: int
    most_s: int
    """The 90th percentile: nine jobs of ten waited at most this time."""


PERCENTILES = (
    "SELECT {key}, sum(Jobs), min(CASE WHEN 2 * Until >= Total THEN Wait END),"
    " min(CASE WHEN 10 * Until >= 9 * Total THEN Wait END) FROM"
    " (SELECT {key}, Wait, Jobs, sum(Jobs) OVER (PARTITION BY {key} ORDER BY Wait) AS Until,"
    " sum(Jobs) OVER (PARTITION BY {key}) AS Total FROM"
    " (SELECT {key}, Wait, sum(Jobs) AS Jobs FROM Waited GROUP BY {key}, Wait) AS One) AS Two GROUP BY {key}"
)
"""
In SQL: jobs, median and 90th percentile of the times of the table Waited (Wait, Jobs) by one of its columns.

Of n times in order these are the ones at the positions n / 2 and 9 n / 10, rounded up.
"""


def waits(con: Connection, start_s: int, before_s: int, *, one_of: int = 1) -> list[Waits]:
    """
    Return, by VO, how long the jobs that ended in a period waited; first all jobs, with the VO ``''``.

    ``one_of``: read only each such record, for a period with very many.
    """
    whole_month, by_vo = (PERCENTILES.format(key=key) for key in ("Whole", "VOID"))
    rows = con.execute(
        f"WITH EachJob AS (SELECT VOID, {_WAIT_OURS.format('Wait')} AS Wait FROM {_OURS}"
        f" WHERE EndTime >= ? AND EndTime < ? AND {_COUNTED_OF_THOSE.replace('EndTime', '+EndTime')}"
        " AND RecordID % ? = 0),"
        " Waited AS (SELECT 0 AS Whole, VOID, Wait, count(*) AS Jobs FROM EachJob WHERE Wait IS NOT NULL"
        " GROUP BY VOID, Wait)"
        f" SELECT NULL, AllJobs.* FROM ({whole_month}) AS AllJobs UNION ALL"
        f" SELECT 1, ByVO.* FROM ({by_vo}) AS ByVO",
        (start_s, before_s, one_of),
    ).fetchall()
    names = dict(con.execute("SELECT ID, Name FROM WLCGVOs").fetchall())
    return [
        Waits("" if kind is None else unescaped(names[key]) or None if key in names else None, *numbers)
        for kind, key, *numbers in rows
    ]


def walltimes(con: Connection, start_s: int, before_s: int) -> dict[str | None, tuple[int, int]]:
    """
    Return the jobs that ended in a period, by class of their wall time (`WALLTIME_CLASSES`), and their core time in s.
    """
    unknown = "SELECT RecordID FROM FieldSources WHERE Source = 'unknown' AND Field = 'wall_s'"
    unmeasured = (
        f"AAR.RecordID IN ({unknown}) OR AAR.RecordID IN (SELECT RecordID FROM RecordHolds WHERE UsedWalltime = -1)"
    )
    rows = con.execute(
        f"SELECT CASE WHEN {unmeasured} THEN NULL ELSE {classified('UsedWalltime', WALLTIME_CLASSES)} END AS Class,"
        f" count(*), sum({_sound('UsedWalltime')} * CPUCount + CoreRest) FROM {_OURS}"
        f" WHERE EndTime >= ? AND EndTime < ? AND {_COUNTED_OF_THOSE.replace('EndTime', '+EndTime')} GROUP BY 1",
        (start_s, before_s),
    )
    found = {name: (jobs, whole(core_s)) for name, jobs, core_s in rows}
    order = [*WALLTIME_CLASSES.values(), None]
    return {name: found[name] for name in order if name in found}


def first_end_s(con: Connection) -> int | None:
    """Return when the first job that counts ended, UTC seconds, including pruned ones; ``None``: there is none."""
    asked = (
        f"SELECT (SELECT EndTime FROM {_OURS} WHERE {_COUNTED_OF_THOSE} ORDER BY EndTime LIMIT 1)"
        " UNION ALL SELECT min(Earliest) FROM MonthlyUsage WHERE Jobs > 0"
    )
    return min((int(end_s) for (end_s,) in con.execute(asked) if end_s is not None), default=None)


def count_pruned(con: Connection) -> int:
    """Count the jobs in archives: the sums keep neither their waiting time nor their wall time."""
    return int(con.execute("SELECT ifnull(sum(Jobs), 0) FROM Archives").fetchone()[0])


def kept_parts(
    con: Connection, selection: Selection, keys: Sequence[str], *, details: bool, everything: bool
) -> list[UsagePart] | None:
    """
    Do the same as `parts` with the sums that our own database keeps; ``None`` if these lack a requested value.

    Without ``details`` failures and volumes may be 0. Records that changed after the sums are returned twice: as they
    counted (with amounts below 0), and as they are.
    """
    columns = {_KEPT_COLUMNS[key] for key in keys if key in _KEPT_COLUMNS} - {"Benchmark"}
    columns |= {name.number for field, name in _NAMES.items() if selection._asdict()[field]}
    if "FQANID" in columns:
        columns = columns - {"FQANID"} | {"FQAN"}
    if selection.extra or selection.submitted_after_s is not None or {"wait", "walltime"} & set(keys):
        return None
    possible = [
        (kept, periods)
        for kept in _KEPT
        if columns <= kept.extra_columns
        and (kept.is_daily or "day" not in keys)
        and (kept.has_details or not details)
        and (periods := _periods(selection, is_daily=kept.is_daily)) is not None
    ]
    if not possible:
        return None
    kept, periods = min(possible, key=lambda one: one[1].edges_s)
    with one_state(con):
        found = _kept(con, kept, selection, keys, periods)
        return [*found, *_uncounted(con, selection, keys)] if everything else found


class _Periods(NamedTuple):
    """The periods ``[first, before)`` of kept sums that are next to a selection; ``None``: no bound."""

    first: int | None
    before: int | None
    edges: tuple[tuple[int, int, int], ...]
    """Ends ``[from_s, before_s)`` of jobs that the periods lack (1), or that only the periods have (-1)."""

    @property
    def edges_s(self) -> int:
        """Return the total length of the edges."""
        return sum(before_s - from_s for from_s, before_s, _sign in self.edges)


def _periods(selection: Selection, *, is_daily: bool) -> _Periods | None:
    """The periods that are next to a selection; ``None`` if it is quicker to read its jobs than those of the edges."""
    after = None if selection.after_s is None else selection.after_s + 1
    until = None if selection.until_s is None else selection.until_s + 1
    from_s = max((bound for bound in (after, selection.from_s) if bound is not None), default=None)
    before_s = min((bound for bound in (until, selection.before_s) if bound is not None), default=None)
    numbers, edges = list[int | None](), list[tuple[int, int, int]]()
    for bound, sign in ((from_s, -1), (before_s, 1)):
        if bound is None:
            numbers.append(None)
            continue
        day_s = bound // DAY_S * DAY_S
        starts_s = (day_s, day_s + DAY_S) if is_daily else month_bounds(*month_of(bound))
        start_s = min(starts_s, key=lambda start_s: abs(start_s - bound))
        numbers.append(start_s // DAY_S if is_daily else _month_number(start_s))
        if start_s < bound:
            edges.append((start_s, bound, sign))
        elif start_s > bound:
            edges.append((bound, start_s, -sign))
    found = _Periods(numbers[0], numbers[1], tuple(edges))
    is_short = from_s is not None and before_s is not None and 2 * found.edges_s > before_s - from_s
    return None if edges and is_short else found


def _month_number(second: int) -> int:
    year, month = month_of(second)
    return year * 100 + month


def _kept(
    con: Connection, kept: _KeptSums, selection: Selection, keys: Sequence[str], periods: _Periods
) -> list[UsagePart]:
    named = list[object]()
    condition = " AND ".join(["1", *_named(selection, named, fqan="nullif(FQAN, '')")])
    bounds = [
        (comparison, period)
        for comparison, period in ((">=", periods.first), ("<", periods.before))
        if period is not None
    ]
    where = " AND ".join([*(f"Kept.{kept.period} {comparison} ?" for comparison, _period in bounds), condition])
    whole_periods = [period for _comparison, period in bounds]
    changed = "SELECT RecordID FROM FinishedLog WHERE Seq > (SELECT Seq FROM UsageCursor)"
    if kept.contribution != "CellID":
        changed += " UNION SELECT RecordID FROM JobUsageShares WHERE MonthID IS NULL"
    kept_of_job = f" CROSS JOIN {kept.rows} AS Kept ON Kept.{kept.number} = JobUsageShares.{kept.contribution}"
    gone = f"({changed}) AS Changed CROSS JOIN JobUsageShares USING (RecordID){kept_of_job}"
    # A job of the edges is found by its cell, which has an index of ends.
    edge = (
        "(SELECT CellID FROM MonthlyUsage WHERE Month = ?) AS Cells CROSS JOIN JobUsageShares"
        f" ON JobUsageShares.CellID = Cells.CellID AND EndTime >= ? AND EndTime < ?{kept_of_job}"
    )
    volumes = ("Kept.StageIn", "Kept.StageOut") if kept.has_details else ("0", "0")
    unmeasured = ("Kept.NoWall", "Kept.NoCpu", "Kept.CoreRest", "Kept.CpuUnpaired", "Kept.CoreUnpaired")
    amounts = ("Kept.Wall", "Kept.Cpu", *volumes, *unmeasured)
    added = ("1", *(amount.replace("Kept.", "JobUsageShares.") for amount in amounts))
    taken = [f"-{amount}" for amount in added]
    found = _rows_of_kept(
        con, kept, keys, f"{kept.rows} AS Kept", ("Kept.Jobs", *amounts), where, [*whole_periods, *named]
    )
    for from_s, before_s, sign in periods.edges:
        values: list[object] = [_month_number(from_s), from_s, before_s, *named]
        found += _rows_of_kept(con, kept, keys, edge, added if sign > 0 else taken, condition, values)
    ended, values = _in_time(selection, "JobUsageShares.EndTime")
    found += _rows_of_kept(con, kept, keys, gone, taken, " AND ".join([*ended, condition]), [*values, *named])
    now, values = _where(con, selection, by_time=False)
    found += _parts_of_some(con, keys, changed, f"{now} AND {_COUNTED}", values)
    return [*found, *_without_cores(con, keys, changed, f"{now} AND {_COUNTED}", values)] if "cores" in keys else found


def _without_cores(
    con: Connection, keys: Sequence[str], changed: str, where: str, values: Sequence[object]
) -> Iterator[UsagePart]:
    """The jobs whose cores are not known, which sums have among those with one: taken from there, and as they are."""
    records = f"SELECT RecordID FROM ({_NO_CORES}) WHERE RecordID NOT IN ({changed})"
    place = keys.index("cores")
    for part in _parts_of_some(con, keys, records, where, values):
        counted = (*part.key[:place], str(part.core_count), *part.key[place + 1 :])
        yield part
        yield UsagePart(counted, part.core_count, part.benchmark, *(-amount for amount in part[3:]))


def _rows_of_kept(
    con: Connection,
    kept: _KeptSums,
    keys: Sequence[str],
    source: str,
    amounts: Sequence[str],
    where: str,
    values: Sequence[object],
) -> list[UsagePart]:
    jobs, wall_s, cpu_s, *others = amounts
    raw = _RAW | _KEPT_COLUMNS | {key: _RAW[key] for key in _GROUP_BY}
    raw["month"] = (_MONTH_OF_DAY if kept.is_daily else _MONTH_OF).format(kept.period)
    raw["day"] = _DAY_OF.format(kept.period)
    columns = "".join(f"{raw[key]}, " for key in keys)
    grouped = ", ".join(_GROUP_BY.get(key, str(number)) for number, key in enumerate((*keys, "", ""), 1))
    failed = f"StatusID IN (SELECT ID FROM Status WHERE Name = {SQL_FAILED})"
    rows = con.execute(
        f"SELECT {columns}CPUCount, Benchmark, sum({jobs}), sum({wall_s}), sum({cpu_s}),"
        f" {f'sum(CASE WHEN {failed} THEN {jobs} ELSE 0 END)' if kept.has_details else '0'},"
        f" {', '.join(f'sum({one})' for one in others)} FROM {source}"
        f" WHERE {where} GROUP BY {grouped} HAVING sum({jobs}) <> 0",
        values,
    )
    return [_part(row, len(keys)) for row in rows]


def _uncounted(con: Connection, selection: Selection, keys: Sequence[str]) -> Iterator[UsagePart]:
    """The selected jobs that no sum has, since they are not published: unfinished, or vanished without usage."""
    where, values = _where(con, selection, by_time=False)
    few = (
        "SELECT RecordID FROM AAR WHERE EndTime <= 0 UNION"
        " SELECT RecordID FROM Status CROSS JOIN AAR ON StatusID = Status.ID"
        f" WHERE Status.Name NOT IN {SQL_BY_ITSELF} AND +EndTime > 0"
    )
    return _parts_of_some(con, keys, few, f"NOT ({_COUNTED}) AND {where}", values)


def _parts_of_some(
    con: Connection, keys: Sequence[str], records: str, where: str, values: Sequence[object]
) -> Iterator[UsagePart]:
    """Sum the records of a SELECT that meet a condition: they are found first, and then read."""
    source = f"({records}) AS Few CROSS JOIN {_OURS} ON AAR.RecordID = Few.RecordID"
    # A condition on AAR alone would let SQLite read all of it, to make a Bloom filter for a few records.
    return _parts_of(con, keys, source, f"CASE WHEN Few.RecordID THEN {where} END", values)


def names(con: Connection, kind: str, prefix: str) -> list[str]:
    """Return names that start with a text, for completion: kind is user, vo, fqan, queue, state, endpoint or job."""
    _said, _number, source, column = _Name("", "", "AAR", "JobID") if kind == "job" else _NAMES[f"{kind}s"]
    begin = escaped(prefix)
    shown: Callable[[object], str] = unescaped
    if kind == "fqan" and schema_version(con) != 2:
        source, column = "(SELECT AttrValue FROM AuthTokenAttributes WHERE AttrKey = 'mainfqan')", "AttrValue"
        if is_ours(con):
            # Our monthly sums, which are few, have each name, unescaped.
            source, column, begin, shown = "v1_usage_by_month", "fqan", prefix, str
    rows = con.execute(
        f"SELECT DISTINCT {column} FROM {source} WHERE {column} >= ? AND {column} < ? AND {column} <> ''"
        f" ORDER BY {column} LIMIT ?",
        (begin, begin + "\U0010ffff", _MOST_NAMES),
    )
    return [shown(name) for (name,) in rows]


def _in_time(selection: Selection, column: str = "EndTime") -> tuple[list[str], list[object]]:
    bounds = ((">", selection.after_s), ("<=", selection.until_s), (">=", selection.from_s), ("<", selection.before_s))
    given = [(comparison, bound) for comparison, bound in bounds if bound is not None]
    return [f"{column} {comparison} ?" for comparison, _bound in given], [bound for _comparison, bound in given]


def _where(con: Connection, selection: Selection, *, by_time: bool = True) -> tuple[str, list[object]]:
    """The conditions of a selection; the time range first, and only it by index when there is one (``by_time``)."""
    conditions, values = _in_time(selection, "EndTime" if by_time else "+EndTime")
    plus = "+" if conditions else ""
    version = schema_version(con)
    if selection.submitted_after_s is not None:
        conditions.append(f"{plus}SubmitTime > ?")
        values.append(selection.submitted_after_s)
    conditions += _named(selection, values, plus, fqan=_FIRST_FQAN if version == 1 else None)
    for attribute in dict.fromkeys(attribute for attribute, _ in selection.extra):
        asked = tuple(value for one, value in selection.extra if one == attribute)
        condition, more = _extra(attribute, asked, version)
        conditions.append(condition)
        values += more
    return " AND ".join(conditions) or "1", values


def _named(selection: Selection, values: list[object], plus: str = "", *, fqan: str | None) -> Iterator[str]:
    """A condition for each kind of names, whose ``values`` are added; ``fqan``: the FQAN where it has no number."""
    for field, name in _NAMES.items():
        both = [spelled for asked in selection._asdict()[field] for spelled in (asked, escaped(asked))]
        values += both
        if both and field == "fqans" and fqan is not None:
            yield f"{fqan} IN ({_marks(both)})"
        elif both:
            named = f"SELECT ID FROM {name.table} WHERE {name.column} IN ({_marks(both)})"
            yield f"{plus}{name.number} IN ({named})"


def _extra(attribute: str, asked: tuple[str, ...], version: int) -> tuple[str, list[str]]:
    both = [*asked, *map(escaped, asked)]
    marks = _marks(both)
    if attribute == "benchmark" and version != 1:
        return f"BenchmarkID IN (SELECT ID FROM Benchmarks WHERE Name IN ({marks}))", both
    if attribute == "vomsfqan":
        inner = f"SELECT RecordID FROM AuthTokenAttributes WHERE {_FQAN_KEYS} AND AttrValue IN ({marks})"
    elif attribute == "rte":
        inner = f"SELECT RecordID FROM RunTimeEnvironments WHERE RTEName IN ({marks})"
    elif attribute == "dtrurl":
        # As the job named it, or as shown without its query.
        inner = f"SELECT RecordID FROM DataTransfers WHERE URL IN ({marks})"
        inner += f" OR substr(URL, 1, instr(URL, '?') - 1) IN ({marks})"
        both += both
    else:
        inner = f"SELECT RecordID FROM JobExtraInfo WHERE InfoKey = ? AND InfoValue IN ({marks})"
        both = [attribute, *both]
    return f"AAR.RecordID IN ({inner})", both


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
