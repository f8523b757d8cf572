"""The jobs of a month with all that is theirs, in the order of their ends, a page at a time."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import starmap
from math import ceil
from typing import Any, NamedTuple

from arcacct.database.connection import Connection
from arcacct.dataset.columns import columns
from arcacct.dataset.layout import Partition
from arcacct.exporting.months import ACCELERATORS, OF_ACCELERATORS
from arcacct.records import slurm_formats
from arcacct.records.packing import TRANSFER_KINDS
from arcacct.records.reader import decoded, one_state, plain_text, unescaped
from arcacct.sources.gridengine.record import GPU_FIELDS, RUNS_WITH_GPUS, gpu_count

PAGE_JOBS = 1000
"""A reader's transaction ends before a second is over (INVARIANTS 7)."""
_PAGE_ROWS = 50_000
Values = tuple[Any, ...]
"""A row of one table of the dataset: the number of its record first."""


class Job(NamedTuple):
    """A job, and its rows in the other tables."""

    end_s: int
    record_id: int
    values: Values
    children: dict[str, list[Values]]


def paged(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """Jobs a page at a time, of jobs with many rows in other tables fewer."""
    page: list[Job] = []
    rows = 0
    for job in jobs:
        page.append(job)
        rows += sum(map(len, job.children.values()))
        if len(page) >= PAGE_JOBS or rows >= _PAGE_ROWS:
            yield page
            page, rows = [], 0
    if page:
        yield page


def pages(con: Connection, partition: Partition) -> Iterator[list[Job]]:
    """The jobs of a month, each page as it is at one moment."""
    begin, end = partition.bounds
    position = (begin, 0)
    while True:
        chosen = (*position, begin, end, PAGE_JOBS)
        with one_state(con):
            page = decoded(con, partial(_jobs, con, chosen))
        if not page:
            return
        yield page
        position = page[-1][:2]


def _jobs(con: Connection, chosen: tuple[int, ...]) -> list[Job]:
    keys = con.execute(
        # Not those that are held: they are in no figure (`records.holds`).
        "SELECT EndTime, RecordID, JobID FROM AccountedAAR WHERE (EndTime, RecordID) > (?, ?) AND EndTime >= ?"
        " AND EndTime < ? ORDER BY EndTime, RecordID LIMIT ?",
        chosen,
    ).fetchall()
    numbers = ",".join(str(record_id) for _end, record_id, _job_id in keys)
    # The view is what the columns mean; it shows no number of the record.
    query = f"SELECT {_ASKED} FROM v1_jobs WHERE job_id IN (SELECT JobID FROM AAR WHERE RecordID IN ({numbers}))"
    of_job: dict[str, Values] = {
        row[0]: (*row[: _FQAN + 1], *_group_and_role(row[_FQAN]), *row[_FQAN + 1 :]) for row in con.execute(query)
    }
    children = {table: _by_record(con, query.format(numbers)) for table, query in _CHILDREN.items()}
    _add_runs(
        children["accelerators"], [*_of_slurm(con, numbers), *_of_gridengine(con, numbers), *_of_htcondor(con, numbers)]
    )
    for rows in children["transfers"].values():
        rows[:] = [(row[0], unescaped(row[1]), TRANSFER_KINDS.get(row[2], "input"), *row[3:]) for row in rows]
    for rows in children["attributes"].values():
        rows[:] = [(*row[:3], row[3] if row[3] is None else unescaped(row[3])) for row in rows]
    return [
        Job(
            end,
            record_id,
            (record_id, *of_job[job_id]),
            {table: rows[record_id] for table, rows in children.items() if record_id in rows},
        )
        for end, record_id, job_id in keys
    ]


_NAMES = [column.name for column in columns()["jobs"][1:]]
_FQAN = _NAMES.index("fqan")
_ASKED = ", ".join(name for name in _NAMES if name not in ("vo_group", "vo_role"))


@lru_cache(maxsize=4096)
def _group_and_role(fqan: object) -> tuple[str | None, str | None]:
    """As the view has them; there they are a third of what a job costs."""
    text = "" if fqan is None else plain_text(fqan)
    group = re.split("/Role=|/Capability=", text, maxsplit=1)[0] if text.startswith("/") else None
    role = text.partition("/Role=")[2].partition("/")[0]
    return group, None if role in ("", "NULL") else role


# In the order in which they were told: the plus keeps SQLite on the index of RecordID.
_CHILDREN = {
    "events": (
        "SELECT RecordID, EventKey, CAST(strftime('%s', EventTime) AS INTEGER) AS T FROM JobEvents"
        " WHERE RecordID IN ({0}) ORDER BY RecordID, T, rowid"
    ),
    "transfers": (
        "SELECT RecordID, URL, TransferType, FileSize, TransferStart, TransferEnd,"
        " CAST(TransferEnd - TransferStart AS INTEGER) FROM DataTransfers"
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


class _Run(NamedTuple):
    """What a batch system tells of a run of a job."""

    record_id: int
    cluster: str
    elapsed_s: int
    gpus: float
    """HTCondor gives parts of one."""
    energy_j: int = 0


def _of_slurm(con: Connection, numbers: str) -> Iterator[_Run]:
    """The runs of some records that sacct told of, in order."""
    query = (
        f"SELECT RecordID, Cluster, Elapsed, AllocTRES FROM SlurmRuns WHERE RecordID IN ({numbers}) AND "
        f"{OF_ACCELERATORS} ORDER BY RecordID, RunNo"
    )
    for record_id, cluster, elapsed_s, text in con.execute(query):
        resources = slurm_formats.parse(plain_text(text))
        yield _Run(record_id, cluster, elapsed_s, slurm_formats.gpu_count(resources), resources.get("energy", 0))


def _of_gridengine(con: Connection, numbers: str) -> Iterator[_Run]:
    """The runs of some records that Grid Engine told of, in order."""
    query = (
        f"SELECT RecordID, Cell, Elapsed, {', '.join(GPU_FIELDS)} FROM {RUNS_WITH_GPUS} WHERE RecordID IN ({numbers})"
        " ORDER BY RecordID, RecordNo"
    )
    for record_id, cell, elapsed_s, *said in con.execute(query):
        gpus = gpu_count(*map(plain_text, said))
        if gpus:
            yield _Run(record_id, cell, elapsed_s, gpus)


def _of_htcondor(con: Connection, numbers: str) -> Iterator[_Run]:
    """The jobs among some records that HTCondor gave GPUs: all runs of one together."""
    query = f"SELECT RecordID, Schedd, Wall, GPUs FROM HTCondorJobs WHERE RecordID IN ({numbers}) AND GPUs > 0"
    return starmap(_Run, con.execute(f"{query} ORDER BY RecordID, JobNo"))


def _add_runs(told: dict[int, list[Values]], runs: Sequence[_Run]) -> None:
    """What the runs of jobs tell, where telemetry has no word of the batch system (as `stats` has it)."""
    by_record: dict[int, list[_Run]] = defaultdict(list)
    for run in runs:
        by_record[run.record_id].append(run)
    for record_id, of_record in by_record.items():
        (known,) = told.get(record_id) or [(record_id, of_record[-1].cluster, *(None,) * 8)]
        if known[2] is not None or known[9] is not None:
            continue
        # Of a part of a GPU the job saw one.
        gpus = ceil(of_record[-1].gpus) or None
        gpu_s = round(sum(run.gpus * run.elapsed_s for run in of_record)) or None
        energy_j = sum(run.energy_j for run in of_record) or None
        told[record_id] = [(*known[:2], gpus, gpu_s, *known[4:9], energy_j)]


def _by_record(con: Connection, query: str) -> dict[int, list[Values]]:
    found: dict[int, list[Values]] = defaultdict(list)
    for row in con.execute(query):
        found[row[0]].append(row)
    return found
