"""Slurm's reports in SlurmJobs: read, merged field by field, written back."""

from __future__ import annotations

import json

from arcacct.database.connection import Connection
from arcacct.sonar.hardware import Names
from arcacct.sonar.slurm_jobs import FIELDS, SACCT_FIELDS, SlurmJob, Value, merged, same_run

_SPELT = {"array_job_id": "ArrayJobID", "array_task_id": "ArrayTaskID", "het_job_id": "HetJobID"}
_SPELT |= {"requested_cpus": "RequestedCPUs", "minimum_cpus_per_node": "MinimumCPUsPerNode"}
# Seconds say so.
_SPELT |= {"time_limit": "TimeLimitS", "suspend_time": "SuspendTimeS"}
_SPELT |= {name: f"{name}S" for name in ("MinCPU", "AveCPU", "ElapsedRaw", "SystemCPU", "UserCPU")}
COLUMNS = {name: "".join(part.capitalize() for part in name.split("_")) for name in FIELDS}
COLUMNS |= {name: name for name in SACCT_FIELDS} | _SPELT
"""The column of each field of the format."""

_NAMES = tuple(COLUMNS)
_LIST = ", ".join(COLUMNS.values())
_SELECT = f"SELECT JobID, JobStep, FieldTimes, Run, {_LIST} FROM SlurmJobs WHERE ClusterID = ?"
_REPLACE = (
    f"INSERT OR REPLACE INTO SlurmJobs (ClusterID, JobID, JobStep, Run, FieldTimes, {_LIST})"
    f" VALUES ({', '.join('?' * (5 + len(COLUMNS)))})"
)


def merge_report(con: Connection, names: Names, cluster: str, report: SlurmJob) -> None:
    """Merge one report into what is known of its job or step."""
    if not report.values:
        return
    cluster_id = names.cluster(cluster)
    found = runs(con, cluster_id, report.job_id, report.job_step)
    old = next((job for job in reversed(found) if same_run(job, report)), None)
    new = report if old is None else merged(old, report)
    if new == old:
        return
    if old is not None and _run(old) != _run(new):
        con.execute(
            "DELETE FROM SlurmJobs WHERE ClusterID = ? AND JobID = ? AND JobStep = ? AND Run = ?",
            (cluster_id, old.job_id, old.job_step, _run(old)),
        )
    values = (new.values.get(name) for name in _NAMES)
    times = json.dumps(new.times, separators=(",", ":"), sort_keys=True)
    con.execute(_REPLACE, (cluster_id, new.job_id, new.job_step, _run(new), times, *values))


def _run(job: SlurmJob) -> int:
    return job.number("start_time") or 0


def runs(con: Connection, cluster_id: int, job_id: int, step: str = "") -> list[SlurmJob]:
    """The runs of a job, or of one of its steps, the one that did not start yet first."""
    rows = con.execute(f"{_SELECT} AND JobID = ? AND JobStep = ? ORDER BY Run", (cluster_id, job_id, step))
    return [_job(row) for row in rows]


def steps(con: Connection, cluster_id: int, main: SlurmJob) -> list[SlurmJob]:
    """The steps of one run of a job: those that started while it ran."""
    rows = con.execute(f"{_SELECT} AND JobID = ? AND JobStep <> '' ORDER BY JobStep, Run", (cluster_id, main.job_id))
    start, end = main.number("start_time") or 0, main.number("end_time")
    # The clocks of two daemons may differ by a second.
    return [
        step
        for step in map(_job, rows)
        if (own := step.number("start_time")) is None or (start - 1 <= own and (end is None or own <= end + 1))
    ]


def _job(row: tuple[Value | None, ...]) -> SlurmJob:
    values = {name: value for name, value in zip(_NAMES, row[4:], strict=True) if value is not None}
    return SlurmJob(int(row[0] or 0), str(row[1]), values, json.loads(str(row[2])))
