"""Slurm's runs in the database, and until when sacct was asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from arcacct.database.connection import Connection
from arcacct.records.enrichment import SLURM
from arcacct.records.imports import pages
from arcacct.slurm.record import SlurmRun, true_signal

_SPELT = {"job_id": "JobID", "shown": "ShownID", "elapsed_s": "Elapsed", "cores": "CPUs", "partition": "QPartition"}
_SPELT |= {"user": "UserName", "group": "GroupName", "qos": "QOS", "wckey": "WCKey", "name": "JobName"}
_SPELT |= {"tres": "AllocTRES", "cpu_us": "CPUUs", "cpu_kernel_us": "CPUKernelUs", "memory_kib": "MaxRSS"}
_SPELT |= {"virtual_memory_kib": "MaxVMSize"}
COLUMNS = ", ".join(
    _SPELT.get(field, "".join(part.capitalize() for part in field.split("_"))) for field in SlurmRun._fields
)
_INSERT = f"INSERT INTO SlurmRuns (RunNo, RecordID, {COLUMNS}) VALUES (?, ?{', ?' * len(SlurmRun._fields)})"
_REPLACE = f"UPDATE SlurmRuns SET (RecordID, {COLUMNS}) = (?{', ?' * len(SlurmRun._fields)}) WHERE RunNo = ?"
_PAGE = 500
_OFF_S = 3600
"""Sonar takes the time zone that holds now for all of Slurm's times."""

JobNumber = tuple[str, int]
"""Cluster and number."""


class KeptRun(NamedTuple):
    """A run of the database, with its number there and the AAR that it went into."""

    run_no: int
    record_id: int | None
    run: SlurmRun


def of_jobs(con: Connection, cluster: str, job_ids: Iterable[int]) -> list[KeptRun]:
    """The runs that are kept of some numbers, in order of time."""
    marks = ",".join(map(str, job_ids))
    rows = con.execute(
        f"SELECT RunNo, RecordID, {COLUMNS} FROM SlurmRuns WHERE JobID IN ({marks}) AND Cluster = ?"
        " ORDER BY SubmitTime, StartTime",
        (cluster,),
    )
    return [KeptRun(row[0], row[1], _run(row[2:])) for row in rows]


def _run(values: Sequence[Any]) -> SlurmRun:
    run = SlurmRun._make(values)
    # Former versions stored Slurm's own marks as signals.
    return run._replace(cores=run.cores or None, exit_signal=true_signal(run.exit_signal))


def _values(run: SlurmRun) -> tuple[Any, ...]:
    """As they are stored: CPUs that are not known as 0."""
    return run if run.cores else run._replace(cores=0)


def next_run_no(con: Connection) -> int:
    """The number of the next new run; true while the transaction lasts."""
    return int(con.execute("SELECT ifnull(max(RunNo), 0) + 1 FROM SlurmRuns").fetchone()[0])


def keep(con: Connection, new: Iterable[KeptRun], changed: Iterable[KeptRun]) -> None:
    """Store runs."""
    con.executemany(_INSERT, [(one.run_no, one.record_id, *_values(one.run)) for one in new])
    con.executemany(_REPLACE, [(one.record_id, *_values(one.run), one.run_no) for one in changed])


def waiting(con: Connection) -> Iterator[list[JobNumber]]:
    """The jobs that have no record, in pages."""
    query = "SELECT DISTINCT Cluster, JobID FROM SlurmRuns WHERE RecordID IS NULL AND (Cluster, JobID) > (?, ?)"
    return pages(con, f"{query} ORDER BY Cluster, JobID LIMIT {_PAGE}", ("", 0))


def clusters(con: Connection) -> list[str]:
    """The clusters that there are runs of."""
    return [row[0] for row in con.execute("SELECT DISTINCT Cluster FROM SlurmRuns ORDER BY Cluster")]


def all_jobs(con: Connection) -> Iterator[list[JobNumber]]:
    """Every job, in pages."""
    query = f"SELECT DISTINCT JobID, Cluster FROM SlurmRuns WHERE (JobID, Cluster) > (?, ?) ORDER BY 1, 2 LIMIT {_PAGE}"
    for page in pages(con, query, (0, "")):
        yield [(cluster, job_id) for job_id, cluster in page]


def sonars_record(con: Connection, run: SlurmRun) -> int | None:
    """
    The record that Sonar's telemetry made of a run, whatever it calls the cluster.

    It has the run's end, or is one hour off: Sonar takes the zone of today for times of another season.
    """
    rows = con.execute(
        "SELECT RecordID, abs(EndTime - ?2) FROM AAR JOIN RecordSources USING (RecordID)"
        " WHERE LocalJobID = ?1 AND Source = ?3 AND abs(EndTime - ?2) <= ?4 + 1 ORDER BY 2, 1",
        (str(run.job_id), run.end_time, SLURM, _OFF_S),
    ).fetchall()
    return next((record_id for record_id, off in rows if off <= 1 or abs(off - _OFF_S) <= 1), None)


def asked_until(con: Connection, cluster: str) -> int | None:
    """Until when sacct was asked for a cluster, by `--run`."""
    row = con.execute("SELECT AskedUntil FROM SlurmProgress WHERE Cluster = ?", (cluster,)).fetchone()
    return None if row is None else row[0]


def ask_until(con: Connection, cluster: str, until: int) -> None:
    """Remember that."""
    con.execute(
        "INSERT INTO SlurmProgress (Cluster, AskedUntil) VALUES (?, ?)"
        " ON CONFLICT (Cluster) DO UPDATE SET AskedUntil = excluded.AskedUntil",
        (cluster, until),
    )
