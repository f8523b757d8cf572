"""The jobs of a month with all that is theirs, in the order of their ends, a page at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from arcacct.dataset.columns import columns
from arcacct.dataset.layout import Partition
from arcacct.db.engine import Connection
from arcacct.exporting.months import ACCELERATORS, OF_ACCELERATORS
from arcacct.gridengine.gpus import GPU_FIELDS, RUNS_WITH_GPUS, gpu_count
from arcacct.jobs import tres
from arcacct.jobs.packing import TRANSFER_KINDS
from arcacct.jobs.reading import one_state, plain_text, unescaped

PAGE_JOBS = 1000
"""A reader's transaction ends before a second is over (INVARIANTS 7)."""
Values = tuple[Any, ...]
"""A row of one table of the dataset: the number of its record first."""


class Job(NamedTuple):
    """A job, and its rows in the other tables."""

    end_s: int
    record_id: int
    values: Values
    children: dict[str, list[Values]]


def pages(con: Connection, partition: Partition) -> Iterator[list[Job]]:
    """The jobs of a month, each page as it is at one moment."""
    begin, end = partition.bounds
    position = (begin, 0)
    while True:
        with one_state(con):
            keys = con.execute(
                "SELECT EndTime, RecordID, JobID FROM AAR WHERE (EndTime, RecordID) > (?, ?) AND EndTime >= ?"
                " AND EndTime < ? ORDER BY EndTime, RecordID LIMIT ?",
                (*position, begin, end, PAGE_JOBS),
            ).fetchall()
            if not keys:
                return
            page = list(_jobs(con, keys))
        yield page
        position = keys[-1][:2]


def _jobs(con: Connection, keys: Sequence[tuple[int, int, str]]) -> Iterator[Job]:
    # The view is what the columns mean; it shows no number of the record.
    names = ", ".join(column.name for column in columns()["jobs"][1:])
    query = f"SELECT {names} FROM v1_jobs WHERE job_id IN ({','.join('?' * len(keys))})"
    of_job: dict[str, Values] = {row[0]: row for row in con.execute(query, [job_id for *_key, job_id in keys])}
    numbers = ",".join(str(record_id) for _end, record_id, _job_id in keys)
    children = {table: _by_record(con, query.format(numbers)) for table, query in _CHILDREN.items()}
    _add_granted(children["accelerators"], _by_record(con, _GRANTED.format(numbers)))
    _add_runs(children["accelerators"], _by_record(con, _RUNS.format(numbers)))
    for rows in children["transfers"].values():
        rows[:] = [_transfer(*row) for row in rows]
    for rows in children["attributes"].values():
        rows[:] = [(*row[:3], unescaped(row[3])) for row in rows]
    for end, record_id, job_id in keys:
        of_record = {table: rows[record_id] for table, rows in children.items() if record_id in rows}
        yield Job(end, record_id, (record_id, *of_job[job_id]), of_record)


# In the order in which they were told: the plus keeps SQLite on the index of RecordID.
_CHILDREN = {
    "events": (
        "SELECT RecordID, EventKey, CAST(strftime('%s', EventTime) AS INTEGER) FROM JobEvents"
        " WHERE RecordID IN ({0}) ORDER BY RecordID, rowid"
    ),
    "transfers": (
        "SELECT RecordID, URL, TransferType, FileSize, TransferStart, TransferEnd FROM DataTransfers"
        " WHERE RecordID IN ({0}) ORDER BY RecordID, rowid"
    ),
    "attributes": (
        "SELECT RecordID, Kind, Name, Value FROM ("
        "SELECT RecordID, 'token' AS Kind, AttrKey AS Name, AttrValue AS Value, 1 AS Place, rowid AS Row"
        " FROM AuthTokenAttributes WHERE RecordID IN ({0}) UNION ALL "
        "SELECT RecordID, 'rte', NULL, RTEName, 2, rowid FROM RunTimeEnvironments WHERE RecordID IN ({0}) UNION ALL "
        "SELECT RecordID, 'info', InfoKey, InfoValue, 3, rowid FROM JobExtraInfo WHERE RecordID IN ({0}))"
        " ORDER BY RecordID, Place, Row"
    ),
    "accelerators": (
        "SELECT RecordID, Clusters.Name, GPUCount, GPUAllocatedS, GPUModel, GPUOccupiedS, GPUBusyS, GPUPeakMemory,"
        " GPUEnergyJ, EnergyJ FROM JobTelemetry LEFT JOIN Clusters ON Clusters.ID = ClusterID"
        f" WHERE RecordID IN ({{0}}) AND coalesce({', '.join(ACCELERATORS)}) IS NOT NULL ORDER BY RecordID"
    ),
}


# Of runs that sacct told of.
_RUNS = (
    "SELECT RecordID, Cluster, Elapsed, AllocTRES FROM SlurmRuns WHERE RecordID IN ({0}) AND "
    f"{OF_ACCELERATORS} ORDER BY RecordID, RunNo"
)


def _add_runs(told: dict[int, list[Values]], runs: dict[int, list[Values]]) -> None:
    """What the runs of jobs tell, where telemetry has no word of the batch system (as `stats` has it)."""
    for record_id, of_record in runs.items():
        (known,) = told.get(record_id) or [(record_id, of_record[-1][1], *(None,) * 8)]
        if known[2] is not None or known[9] is not None:
            continue
        found = [(tres.parse(plain_text(text)), elapsed) for _record_id, _cluster, elapsed, text in of_record]
        gpus = tres.gpu_count(found[-1][0]) or None
        gpu_s = sum(tres.gpu_count(of_run) * elapsed for of_run, elapsed in found) or None
        energy_j = sum(of_run.get("energy", 0) for of_run, _elapsed in found) or None
        told[record_id] = [(*known[:2], gpus, gpu_s, *known[4:9], energy_j)]


# Of runs that Grid Engine told of.
_GRANTED = (
    f"SELECT RecordID, Cell, Elapsed, {', '.join(GPU_FIELDS)} FROM {RUNS_WITH_GPUS} WHERE RecordID IN ({{0}})"
    " ORDER BY RecordID, RecordNo"
)


def _add_granted(told: dict[int, list[Values]], runs: dict[int, list[Values]]) -> None:
    """The GPUs of Grid Engine's runs, where telemetry has no word of the batch system (as `stats` has it)."""
    for record_id, of_record in runs.items():
        gpus = [gpu_count(*map(plain_text, run[3:])) for run in of_record]
        (known,) = told.get(record_id) or [(record_id, of_record[-1][1], *(None,) * 8)]
        if any(gpus) and known[2] is None and known[9] is None:
            gpu_s = sum(count * run[2] for count, run in zip(gpus, of_record, strict=True))
            told[record_id] = [(*known[:2], gpus[-1] or None, gpu_s or None, *known[4:])]


def _by_record(con: Connection, query: str) -> dict[int, list[Values]]:
    found: dict[int, list[Values]] = defaultdict(list)
    for row in con.execute(query):
        found[row[0]].append(row)
    return found


def _transfer(record_id: int, url: object, kind: Any, size: object, start: object, end: object) -> Values:
    took = end - start if isinstance(start, int) and isinstance(end, int) else None
    return (record_id, unescaped(url), TRANSFER_KINDS.get(kind, "input"), size, start, end, took)
