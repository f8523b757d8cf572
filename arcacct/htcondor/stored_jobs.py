"""HTCondor's jobs in the database, which of A-REX's they are, and until when condor_history was asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.htcondor.record import CondorJob
from arcacct.records.imports import pages

_SPELT = {"wall_s": "Wall", "cores": "CPUs", "gpus": "GPUs", "cpu_user_s": "CPUUser", "cpu_kernel_s": "CPUKernel"}
_SPELT |= {"memory_kib": "MaxRSS", "virtual_memory_kib": "MaxVMSize", "memory_mib": "MemoryMiB", "status": "JobStatus"}
_SPELT |= {"user": "UserName", "name": "JobName", "queue": "QueueName", "user_dn": "UserDN", "vo": "VO", "fqan": "FQAN"}
_SPELT |= {"token_id": "TokenID"}
COLUMNS = ", ".join(
    _SPELT.get(field, "".join(part.capitalize() for part in field.split("_"))) for field in CondorJob._fields
)
_INSERT = f"INSERT INTO HTCondorJobs (JobNo, RecordID, {COLUMNS}) VALUES (?, ?{', ?' * len(CondorJob._fields)})"
_REPLACE = f"UPDATE HTCondorJobs SET (RecordID, {COLUMNS}) = (?{', ?' * len(CondorJob._fields)}) WHERE JobNo = ?"
_PAGE = 500

JobNumber = tuple[str, int, int]
"""Schedd, cluster and process."""


class KeptJob(NamedTuple):
    """A job of the database, with its number there and the AAR that it went into."""

    job_no: int
    record_id: int | None
    job: CondorJob


def of_jobs(con: Connection, schedd: str, numbers: Iterable[tuple[int, int]]) -> list[KeptJob]:
    """What is kept of some clusters and processes of a schedd."""
    marks = ",".join(f"({cluster},{proc})" for cluster, proc in numbers)
    rows = con.execute(
        f"SELECT JobNo, RecordID, {COLUMNS} FROM HTCondorJobs WHERE (Cluster, Proc) IN (VALUES {marks}) AND Schedd = ?"
        " ORDER BY Queued",
        (schedd,),
    )
    return [KeptJob(row[0], row[1], CondorJob._make(row[2:])) for row in rows]


def next_job_no(con: Connection) -> int:
    """The number of the next new job; true while the transaction lasts."""
    return int(con.execute("SELECT ifnull(max(JobNo), 0) + 1 FROM HTCondorJobs").fetchone()[0])


def keep(con: Connection, new: Iterable[KeptJob], changed: Iterable[KeptJob]) -> None:
    """Store jobs."""
    con.executemany(_INSERT, [(one.job_no, one.record_id, *one.job) for one in new])
    con.executemany(_REPLACE, [(one.record_id, *one.job, one.job_no) for one in changed])


def waiting(con: Connection) -> Iterator[list[JobNumber]]:
    """The jobs that have no record, in pages."""
    query = "SELECT DISTINCT Schedd, Cluster, Proc FROM HTCondorJobs WHERE RecordID IS NULL"
    return pages(con, f"{query} AND (Schedd, Cluster, Proc) > (?, ?, ?) ORDER BY 1, 2, 3 LIMIT {_PAGE}", ("", 0, 0))


def schedds(con: Connection) -> list[str]:
    """The schedds that there are jobs of."""
    return [row[0] for row in con.execute("SELECT DISTINCT Schedd FROM HTCondorJobs ORDER BY Schedd")]


def all_jobs(con: Connection) -> Iterator[list[JobNumber]]:
    """Every job, in pages."""
    query = "SELECT DISTINCT Cluster, Proc, Schedd FROM HTCondorJobs WHERE (Cluster, Proc, Schedd) > (?, ?, ?)"
    for page in pages(con, f"{query} ORDER BY 1, 2, 3 LIMIT {_PAGE}", (-1, 0, "")):
        yield [(schedd, cluster, proc) for cluster, proc, schedd in page]


def asked_until(con: Connection, schedd: str) -> int | None:
    """Until when condor_history was asked for a schedd, by `--run`."""
    row = con.execute("SELECT AskedUntil FROM HTCondorProgress WHERE Schedd = ?", (schedd,)).fetchone()
    return None if row is None else row[0]


def ask_until(con: Connection, schedd: str, until: int) -> None:
    """Remember that."""
    con.execute(
        "INSERT INTO HTCondorProgress (Schedd, AskedUntil) VALUES (?, ?)"
        " ON CONFLICT (Schedd) DO UPDATE SET AskedUntil = excluded.AskedUntil",
        (schedd, until),
    )
