"""
The questions of `arcacct stats`: which jobs, counted how.

Every function works on A-REX's own database too, of ARC 6 or ARC 7, except where it says that it reads the monthly
sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from arcacct.asking.reading import is_ours
from arcacct.db.engine import Connection
from arcacct.jobs.reading import plain_text, unescaped
from arcacct.jobs.recorder import escaped
from arcacct.jobs.rows import schema_version
from arcacct.jobs.statuses import SQL_ABORTED, SQL_BY_ITSELF, SQL_FAILED

_LARGEST = 2**53
_MOST_NAMES = 200
_FINAL = f"StatusID IN (SELECT ID FROM Status WHERE Name IN {SQL_BY_ITSELF})"
# The same jobs as are published: one that vanished unfinished counts if the batch system measured something.
_COUNTED = (
    f"EndTime > 0 AND ({_FINAL} OR (StatusID IN (SELECT ID FROM Status WHERE Name = {SQL_ABORTED})"
    " AND (UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime) <> (0, 0, 0)))"
)


class _Name(NamedTuple):
    """A name that jobs have by number."""

    said: str
    """What it is called."""
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
_RAW = {
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
"""What jobs can be told apart by, as stored."""
_GROUP_BY = {"user_dn": "UserID", "vo": "VOID", "queue": "QueueID", "endpoint_url": "EndpointID", "status": "StatusID"}
"""Numbers group faster than the names they stand for."""
# Version 2 has the first FQAN and the benchmark beside the record, by number; the empty name stands for none.
_RAW_2 = _RAW | {
    "fqan": "(SELECT nullif(Name, '') FROM FQANs WHERE ID = FQANID)",
    "benchmark": "(SELECT nullif(Name, '') FROM Benchmarks WHERE ID = BenchmarkID)",
}
_GROUP_BY_2 = _GROUP_BY | {"fqan": "FQANID", "benchmark": "BenchmarkID"}
MONTHLY = ("month", "user_dn", "vo", "fqan", "endpoint_url", "benchmark")
"""What the monthly sums know of a job."""


class Selection(NamedTuple):
    """Which jobs; what is not set does not matter."""

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
    """What arcctl's stats are made of; durations in seconds, volumes in bytes."""

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
        """Of user and kernel."""
        return self.cpuusertime + self.cpukerneltime


class UsagePart(NamedTuple):
    """Some jobs that agree in what was asked for; texts as stored, unescaped."""

    key: tuple[str | None, ...]
    core_count: int
    benchmark: str | None
    jobs: int
    wall_s: int
    cpu_s: int
    failed_jobs: int
    stage_in_bytes: int
    stage_out_bytes: int


def whole(value: object) -> int:
    """A number that is one, and fits; 0 for what was never measured: SQLite keeps texts and bytes as numbers, too."""
    return int(value) if isinstance(value, int | float) and abs(value) < 2**63 else 0


def totals(con: Connection, selection: Selection) -> JobTotals:
    """The sums over all selected jobs, finished or not; all 0 when there are none."""
    where, values = _where(con, selection)
    row = con.execute(
        "SELECT count(*), sum(UsedWalltime), sum(UsedCPUUserTime), sum(UsedCPUKernelTime), sum(StageInVolume),"
        f" sum(StageOutVolume), min(SubmitTime), max(EndTime), min(EndTime) FROM AAR WHERE {where}",
        values,
    ).fetchone()
    return JobTotals(*map(whole, row))


def distinct(con: Connection, selection: Selection, field: str) -> list[str]:
    """
    The users, VOs or first FQANs (``users``, ``vos``, ``fqans``) of the selected jobs, as stored.

    In the order in which they first came; empty for having no FQAN.
    """
    where, values = _where(con, selection)
    if field == "fqans" and schema_version(con) != 2:
        asked = f"SELECT ifnull({_FIRST_FQAN}, '') FROM AAR WHERE {where} GROUP BY 1 ORDER BY min(RecordID)"
    else:
        _said, column, table, _name = _NAMES[field]
        # Without conditions it is quicker to ask for each name whether there is a job.
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
    """``(kind, name)`` of each name in a selection that no job ever had."""
    for field, name in _NAMES.items():
        source = f"{name.table} WHERE {name.column}"
        if field == "fqans" and schema_version(con) != 2:
            source = f"AuthTokenAttributes WHERE {_FQAN_KEYS} AND AttrValue"
        for asked in selection._asdict()[field]:
            if con.execute(f"SELECT 1 FROM {source} IN (?, ?)", (asked, escaped(asked))).fetchone() is None:
                yield name.said, asked


def parts(con: Connection, selection: Selection, keys: Sequence[str], *, everything: bool) -> Iterator[UsagePart]:
    """
    The selected jobs, summed by ``keys`` (of `_RAW`), cores and benchmark; reads every job of the selection.

    ``everything``: also jobs that are not finished; else those that are published. Durations that are no
    measurement count 0, as in the monthly sums.
    """
    where, values = _where(con, selection)
    counted = "" if everything else f" AND {_COUNTED}"
    raw, group_by = (_RAW_2, _GROUP_BY_2) if schema_version(con) == 2 else (_RAW, _GROUP_BY)
    columns = ", ".join(raw[key] for key in keys)
    grouped = ", ".join(group_by.get(key, str(number)) for number, key in enumerate(keys, 1))
    rows = con.execute(
        f"SELECT {columns}{', ' if keys else ''}CPUCount, {raw['benchmark']}, count(*),"
        f" {_measured('UsedWalltime')}, {_measured('UsedCPUUserTime')} + {_measured('UsedCPUKernelTime')},"
        f" sum(StatusID IN (SELECT ID FROM Status WHERE Name = {SQL_FAILED})), sum(StageInVolume), sum(StageOutVolume)"
        f" FROM AAR WHERE {where}{counted}"
        f" GROUP BY {grouped}{', ' if grouped else ''}CPUCount, {group_by.get('benchmark', len(keys) + 2)}",
        values,
    )
    for row in rows:
        key = tuple(unescaped(text) if text else None for text in row[: len(keys)])
        cores, benchmark, *numbers = row[len(keys) :]
        yield UsagePart(key, cores, plain_text(benchmark) if benchmark else None, *numbers)


def _measured(column: str) -> str:
    return f"sum(CASE WHEN {column} BETWEEN 0 AND {_LARGEST} THEN {column} ELSE 0 END)"


def monthly_parts(
    con: Connection, selection: Selection, keys: Sequence[str], months: tuple[str | None, str | None]
) -> Iterator[UsagePart]:
    """
    The monthly sums of the months ``[first, before)``, summed by ``keys`` (of MONTHLY), cores and benchmark.

    Of the selection users and VOs count; failures and volumes are not in the sums, and 0 here.
    """
    conditions, values = ["1"], []
    for comparison, month in zip((">=", "<"), months, strict=True):
        if month is not None:
            conditions.append(f"month {comparison} ?")
            values.append(month)
    for column, names in (("user_dn", selection.users), ("vo", selection.vos)):
        if names:
            plain = [unescaped(name) for name in names]
            conditions.append(f"coalesce({column}, '') IN ({_marks([*names, *plain])})")
            values += [*names, *plain]
    grouped = [*(key for key in keys if key != "benchmark"), "benchmark_type", "benchmark_value", "core_count"]
    for row in con.execute(
        f"SELECT {', '.join(grouped)}, sum(jobs), sum(wall_s), sum(cpu_s) FROM v1_usage_by_month"
        f" WHERE {' AND '.join(conditions)} GROUP BY {', '.join(map(str, range(1, len(grouped) + 1)))}",
        values,
    ):
        *key, kind, value, cores, jobs, wall_s, cpu_s = row
        benchmark = None if kind is None else f"{kind}:{value:.6f}".rstrip("0").rstrip(".")
        if "benchmark" in keys:
            key.insert(list(keys).index("benchmark"), benchmark)
        yield UsagePart(tuple(key), cores, benchmark, jobs, wall_s, cpu_s, 0, 0, 0)


def names(con: Connection, kind: str, prefix: str) -> list[str]:
    """Names that begin so, for completion: kind is user, vo, fqan, queue, state, endpoint or job."""
    _said, _number, source, column = _Name("", "", "AAR", "JobID") if kind == "job" else _NAMES[f"{kind}s"]
    begin = escaped(prefix)
    shown: Callable[[object], str] = unescaped
    if kind == "fqan" and schema_version(con) != 2:
        source, column = "(SELECT AttrValue FROM AuthTokenAttributes WHERE AttrKey = 'mainfqan')", "AttrValue"
        if is_ours(con):
            # Our monthly sums, which are few, have each, unescaped.
            source, column, begin, shown = "v1_usage_by_month", "fqan", prefix, str
    rows = con.execute(
        f"SELECT DISTINCT {column} FROM {source} WHERE {column} >= ? AND {column} < ? AND {column} <> ''"
        f" ORDER BY {column} LIMIT ?",
        (begin, begin + "\U0010ffff", _MOST_NAMES),
    )
    return [shown(name) for (name,) in rows]


def _where(con: Connection, selection: Selection) -> tuple[str, list[object]]:
    """The conditions of a selection; the time range first, and only it by index when there is one."""
    conditions: list[str] = []
    values: list[object] = []
    bounds = ((">", selection.after_s), ("<=", selection.until_s), (">=", selection.from_s), ("<", selection.before_s))
    for comparison, bound in bounds:
        if bound is not None:
            conditions.append(f"EndTime {comparison} ?")
            values.append(bound)
    plus = "+" if conditions else ""
    version = schema_version(con)
    if selection.submitted_after_s is not None:
        conditions.append(f"{plus}SubmitTime > ?")
        values.append(selection.submitted_after_s)
    for field, name in _NAMES.items():
        both = [spelled for asked in selection._asdict()[field] for spelled in (asked, escaped(asked))]
        if both and field == "fqans" and version == 1:
            conditions.append(f"{_FIRST_FQAN} IN ({_marks(both)})")
        elif both:
            named = f"SELECT ID FROM {name.table} WHERE {name.column} IN ({_marks(both)})"
            conditions.append(f"{plus}{name.number} IN ({named})")
        values += both
    for attribute in dict.fromkeys(attribute for attribute, _ in selection.extra):
        asked = tuple(value for one, value in selection.extra if one == attribute)
        condition, more = _extra(attribute, asked, version)
        conditions.append(condition)
        values += more
    return " AND ".join(conditions) or "1", values


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
        inner = f"SELECT RecordID FROM DataTransfers WHERE URL IN ({marks})"
    else:
        inner = f"SELECT RecordID FROM JobExtraInfo WHERE InfoKey = ? AND InfoValue IN ({marks})"
        both = [attribute, *both]
    return f"AAR.RecordID IN ({inner})", both


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
