"""
Jobs that A-REX ran in Grid Engine: found by LocalJobID and times, and given what A-REX could not measure.

A-REX's backend for Grid Engine drops memory, sees only the last of several records, and nothing of the JSON files.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from arcacct.db.engine import Connection
from arcacct.gridengine.record import LocalJob
from arcacct.jobs.recorder import escaped, event_time

SOURCE = "gridengine"
LOCAL = "local"
"""Interface of jobs that came through no endpoint of A-REX."""
CLOCKS_S = 600
"""How far the clocks of A-REX's host and of the nodes may be apart."""

_COLUMNS = {
    "exit_code": "ExitCode",
    "node_count": "NodeCount",
    "core_count": "CPUCount",
    "memory_kib": "UsedMemory",
    "virtual_memory_kib": "UsedVirtMem",
    "wall_s": "UsedWalltime",
    "cpu_user_s": "UsedCPUUserTime",
    "cpu_kernel_s": "UsedCPUKernelTime",
}
_SLACK = {"wall_s": 5, "cpu_user_s": 5, "cpu_kernel_s": 5, "memory_kib": 10_240, "virtual_memory_kib": 10_240}
"""A-REX cuts to seconds and samples otherwise: less than this, or 5 %, is no conflict."""
_UNKNOWN_EXIT_CODE = 1


class ArcJob(NamedTuple):
    """A finished job of A-REX's that ran under a given number in the batch system."""

    record_id: int
    job_id: str


class Conflict(NamedTuple):
    """A value that both measured, differently."""

    job_id: str
    field: str
    ours: int
    theirs: int

    def __str__(self) -> str:
        """For people."""
        return f"{self.job_id}: {self.field} is {self.ours} by A-REX, {self.theirs} by Grid Engine"


def has_arc_jobs(con: Connection) -> bool:
    """Whether any job came through A-REX: where none did, none has to be looked for."""
    return con.execute("SELECT 1 FROM Endpoints WHERE Interface <> ? LIMIT 1", (LOCAL,)).fetchone() is not None


def earliest_unfinished(con: Connection) -> int | None:
    """When the first job was submitted that A-REX has not finished: it does not say its number yet."""
    row = con.execute(
        "SELECT min(SubmitTime) FROM AAR WHERE StatusID = (SELECT ID FROM Status WHERE Name = 'in-progress')"
    ).fetchone()
    return None if row[0] is None else int(row[0])


def arc_job(con: Connection, job: LocalJob) -> ArcJob | None:
    """The job of A-REX that a job of the batch system is: of several, the one that was submitted last before it."""
    row = con.execute(
        "SELECT RecordID, JobID FROM AAR JOIN Endpoints ON Endpoints.ID = EndpointID"
        " WHERE LocalJobID = ? AND Interface <> ? AND EndTime > 0 AND SubmitTime <= ? AND EndTime >= ?"
        " AND NOT EXISTS (SELECT 1 FROM JobExtraInfo AS Extra WHERE Extra.RecordID = AAR.RecordID"
        " AND InfoKey = 'lrms' AND lower(InfoValue) NOT IN ('sge', 'gridengine', 'ge', 'ogs', 'uge'))"
        " ORDER BY SubmitTime DESC, RecordID DESC LIMIT 1",
        (job.local_job_id, LOCAL, job.submit_time + CLOCKS_S, job.end_time - CLOCKS_S),
    ).fetchone()
    return None if row is None else ArcJob._make(row)


def enrich(con: Connection, arc: ArcJob, job: LocalJob, *, prefer_ours: bool = True) -> tuple[bool, list[Conflict]]:
    """
    Give a record of A-REX's what it lacks and the batch system measured.

    Whether that changed anything, and what both measured differently.

    ``prefer_ours``: A-REX's measured values stay. What was filled before is made what the records say now.
    """
    filled = {
        field
        for (field,) in con.execute(
            "SELECT Field FROM FieldSources WHERE RecordID = ? AND Source = ?", (arc.record_id, SOURCE)
        )
    }
    changes: dict[str, int] = {}
    conflicts: list[Conflict] = []
    measured = _measured(con, arc.record_id, filled)
    theirs = job._asdict()
    for field, (value, known) in measured.items():
        other = theirs[field]
        if not known or not prefer_ours:
            if other or field == "exit_code" or (field.startswith("cpu_") and not known):
                changes[field] = other
        elif other and not _agree(field, value, other):
            conflicts.append(Conflict(arc.job_id, field, value, other))
    changes = {field: value for field, value in changes.items() if value != measured[field][0]}
    return _fill(con, arc.record_id, job, changes), conflicts


def _measured(con: Connection, record_id: int, filled: set[str]) -> dict[str, tuple[int, bool]]:
    """Each value that A-REX has, and whether it is one that it measured."""
    columns = ", ".join(_COLUMNS.values())
    row = con.execute(f"SELECT {columns} FROM AAR WHERE RecordID = ?", (record_id,)).fetchone()
    values = dict(zip(_COLUMNS, row, strict=True))
    has_nodes = _has_extra(con, record_id, "nodenames") and "node_names" not in filled
    has_end = _has_event(con, record_id, "LRMSEND") and "lrms_end_time" not in filled
    has_cpu = values["cpu_user_s"] or values["cpu_kernel_s"]
    known = {field: bool(value) for field, value in values.items()}
    known |= {"cpu_user_s": bool(has_cpu), "cpu_kernel_s": bool(has_cpu)}
    known |= {field: has_nodes or values[field] > 1 for field in ("node_count", "core_count")}
    known["exit_code"] = has_end or values["exit_code"] != _UNKNOWN_EXIT_CODE
    return {field: (values[field], known[field] and field not in filled) for field in values}


def _agree(field: str, value: int, other: int) -> bool:
    return math.isclose(value, other, rel_tol=0.05 if field in _SLACK else 0.0, abs_tol=_SLACK.get(field, 0))


def _fill(con: Connection, record_id: int, job: LocalJob, changes: dict[str, int]) -> bool:
    fields = list(changes)
    if changes:
        assignments = ", ".join(f"{_COLUMNS[field]} = ?" for field in changes)
        con.execute(f"UPDATE AAR SET {assignments} WHERE RecordID = ?", (*changes.values(), record_id))
    for key, value in job.extra:
        name = {"nodenames": "node_names", "projectname": "project"}.get(key)
        if name is not None and not _has_extra(con, record_id, key):
            con.execute("INSERT INTO JobExtraInfo VALUES (?, ?, ?)", (record_id, key, escaped(value)))
            fields.append(name)
    for event, name in (("LRMSSTART", "lrms_start_time"), ("LRMSEND", "lrms_end_time")):
        if not _has_event(con, record_id, event):
            rows = [(record_id, event, event_time(seconds)) for key, seconds in job.events if key == event]
            con.executemany("INSERT INTO JobEvents VALUES (?, ?, ?)", rows)
            fields.append(name)
    con.executemany(
        "INSERT OR REPLACE INTO FieldSources (RecordID, Field, Source) VALUES (?, ?, ?)",
        [(record_id, field, SOURCE) for field in fields],
    )
    return bool(fields)


def _has_extra(con: Connection, record_id: int, key: str) -> bool:
    row = con.execute(
        "SELECT 1 FROM JobExtraInfo WHERE RecordID = ? AND InfoKey = ? AND InfoValue <> ''", (record_id, key)
    ).fetchone()
    return row is not None


def _has_event(con: Connection, record_id: int, event: str) -> bool:
    row = con.execute("SELECT 1 FROM JobEvents WHERE RecordID = ? AND EventKey = ?", (record_id, event)).fetchone()
    return row is not None
