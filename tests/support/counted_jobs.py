"""Jobs that count and jobs that do not, of each kind, and what our sums must be by the tables alone."""

from __future__ import annotations

import calendar
import sqlite3
import time
from typing import NamedTuple

import stored_jobs
from stored_jobs import END_S

from arcacct.config.paths import Places
from arcacct.records import holds, usage
from arcacct.records.writer import JobWriter

MONTH = "2026-05"
"""In which all of these jobs ended."""
DAY_S = 86_400
NO_CPU = {"cpu_user_s": None, "cpu_kernel_s": None}
JOBS: dict[str, dict[str, object]] = {
    "completed": {},
    "failed": {"status": "failed", "exit_code": 7, "queue": "short"},
    "without wall time": {"wall_s": None, "vo": "cms"},
    "without CPU time": {**NO_CPU, "queue": "short"},
    "without cores": {"core_count": None, "node_count": None, "vo": "cms"},
    "of two runs": {"extra": (("coreseconds", "27000"),), "queue": "short"},
    "held": {"wall_s": 10**8},
    "held for its CPU time": {"cpu_user_s": 10**7, "queue": "short"},
    "excluded": {"wall_s": 10**8, "vo": "cms"},
    "bound": {"wall_s": 10**8},
    "unknown": {"cpu_user_s": 10**7, "queue": "short"},
    "reported": {"wall_s": 10**6, "vo": "cms"},
    "in progress": {"status": "in-progress", "end_time": 0, "wall_s": None, **NO_CPU},
    "aborted": {"status": "aborted", "wall_s": 500},
    "aborted without usage": {"status": "aborted", "wall_s": None, **NO_CPU},
    "of two runs without CPU time": {"extra": (("coreseconds", "27001"),), **NO_CPU},
}
"""Values by kind, where they differ from those of a usual job; the jobs that are decided have the decision's name."""
OLD = 2
"""Jobs that ended some days before the others: a prune can take them."""


def add(con: sqlite3.Connection, here: Places) -> dict[str, str]:
    """Write the jobs with telemetry, decide about some, and return their JobIDs by kind."""
    old = [stored_jobs.job(900 + number, end_s=END_S - 9 * DAY_S)._replace(queue="old") for number in range(OLD)]
    jobs = {}
    for number, (kind, values) in enumerate(JOBS.items(), 1):
        job = stored_jobs.job(number, end_s=END_S + number)
        queued = (("SUBMIT", job.submit_time + 1), ("LRMSSTART", job.submit_time + 1 + number * number))
        jobs[kind] = job._replace(events=(*job.events, *queued), **values)
    stored_jobs.add(con, here, *old)
    # Of a batch system: its 0 is one that it measured.
    JobWriter(con, "pbs", "server").write(list(jobs.values()))
    ids = {kind: job.job_id for kind, job in jobs.items()}
    for kind in ("excluded", "bound", "unknown", "reported"):
        (record_id,) = con.execute("SELECT RecordID FROM AAR WHERE JobID = ?", (ids[kind],)).fetchone()
        assert holds.decide(con, record_id, kind, "test")
    con.execute("INSERT OR IGNORE INTO Clusters VALUES (1, 'one.example.org')")
    con.execute(
        "INSERT INTO JobTelemetry (RecordID, ClusterID, JobID, Samples)"
        " SELECT RecordID, 1, RecordID, 5 FROM AAR WHERE JobID LIKE 'STORED%'"
    )
    con.execute(
        "INSERT INTO JobAccelerators SELECT RecordID, 'sonar', 'one.example.org', NULL, NULL, NULL, 1000.5,"
        " 3600000 * RecordID FROM AAR WHERE JobID LIKE 'STORED%'"
    )
    usage.update_monthly(con, here)
    return ids


class CountedJob(NamedTuple):
    """A job as it counts; ``None``: not measured."""

    job_id: str
    status: str
    user_dn: str
    vo: str
    queue: str
    end_s: int
    exit_code: int
    wall_s: int | None
    cpu_s: int | None
    core_s: int | None
    energy_j: int | None
    wait_s: int | None = None


def counted(con: sqlite3.Connection) -> list[CountedJob]:
    """The jobs of a database that count, job by job from A-REX's tables and the decisions."""
    unknown = set(con.execute("SELECT RecordID, Field FROM FieldSources WHERE Source = 'unknown'"))
    names = {
        table: dict(con.execute(f"SELECT ID, Name FROM {table}")) for table in ("Users", "WLCGVOs", "Queues", "Status")
    }
    columns = "IsHeld, CPUCount, UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime"
    decided = {row[0]: row[1:] for row in con.execute(f"SELECT RecordID, {columns} FROM RecordHolds")}
    of_runs = dict(con.execute("SELECT RecordID, InfoValue FROM JobExtraInfo WHERE InfoKey = 'coreseconds'"))
    energy = dict(con.execute("SELECT RecordID, EnergyJ FROM JobAccelerators"))
    events = {
        (record_id, key): calendar.timegm(time.strptime(text[:19].replace("T", " "), "%Y-%m-%d %H:%M:%S"))
        for record_id, key, text in con.execute("SELECT RecordID, EventKey, EventTime FROM JobEvents ORDER BY rowid")
    }
    found = []
    columns = "JobID, StatusID, UserID, VOID, QueueID, EndTime, ExitCode, CPUCount, UsedWalltime, UsedCPUUserTime"
    for record_id, job_id, status, user, vo, queue, end_s, exit_code, *told in con.execute(
        f"SELECT RecordID, {columns}, UsedCPUKernelTime FROM AAR"
    ):
        is_held, *instead = decided.get(record_id, (0, None, None, None, None))
        cores, wall_s, user_s, kernel_s = [
            None if new == -1 or (record_id, field) in unknown else old if new is None else new
            for field, old, new in zip(
                ("core_count", "wall_s", "cpu_user_s", "cpu_kernel_s"), told, instead, strict=True
            )
        ]
        name = names["Status"][status]
        has_usage = any((wall_s, user_s, kernel_s))
        if is_held or not end_s or not (name in ("completed", "failed") or (name == "aborted" and has_usage)):
            continue
        core_s = None if wall_s is None else wall_s * (cores or 1)
        if core_s is not None and instead[:2] == [None, None]:
            core_s = int(of_runs.get(record_id, core_s))
        cpu_s = None if user_s is None else user_s + (kernel_s or 0)
        of = names["Users"][user], names["WLCGVOs"][vo], names["Queues"][queue]
        measured = wall_s, cpu_s, core_s, energy.get(record_id)
        queued_s, start_s = events.get((record_id, "SUBMIT")), events.get((record_id, "LRMSSTART"))
        wait_s = None if queued_s is None or start_s is None else start_s - queued_s
        found.append(CountedJob(job_id, name, *of, end_s, exit_code, *measured, wait_s))
    return found
