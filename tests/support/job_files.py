"""Control files of invented jobs, and everything that the database has of them."""

from __future__ import annotations

import os
import pathlib
import shutil
import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from arcacct.arex.control_files import job_file, status_files

JOB = "Uc8KDmTestJobNumber1"
NOON_S = 1_795_176_000
"""2026-11-20 12:00:00 UTC."""
NOON_NS = NOON_S * 10**9

LOCAL = b"""\
globalid=Uc8KDmTestJobNumber1
headnode=https://ce.example.org:443/arex
interface=org.nordugrid.arcrest
lrms=fork
queue=main
localid=4711
subject=/DC=org/DC=example/CN=Ada Lovelace
starttime=20261120110000Z
jobname=first
clientname=192.0.2.7:45678
voms=/atlas/Role=production
voms=/atlas
"""
DIAG = b"""\
runtimeenvironments=ENV/PROXY;APPS/SCI-1.0;
nodename=wn1
nodename=wn2
nodename=wn2
Processors=3
Benchmark=HEPSPEC:12.26
WallTime=61.02s
KernelTime=1.96s
UserTime=59.36s
MaxResidentMemory=86232kB
LRMSStartTime=20261120111000Z
LRMSEndTime=20261120115900Z
exitcode=0
"""
STATISTICS = b"""\
inputfile:url=https://se.example.org/in,size=1000,starttime=2026-11-20T11:00:05Z,endtime=2026-11-20T11:00:09Z,fromcache=no
inputfile:url=https://se.example.org/old,size=7,starttime=2026-11-20T11:00:06Z,endtime=2026-11-20T11:00:07Z,fromcache=yes
outputfile:url=https://se.example.org/out,size=20,starttime=2026-11-20T11:59:30Z,endtime=2026-11-20T11:59:40Z
"""


class Files(NamedTuple):
    """What is in the control directory for one job; ``None`` is a missing file."""

    state: str = "FINISHED"
    mtime_ns: int = NOON_NS
    local: bytes | None = LOCAL
    diag: bytes | None = DIAG
    statistics: bytes | None = STATISTICS
    failed: bytes | None = None
    status: bytes | None = b""
    """The text of the status file when it is not the state alone."""


def lay(control: pathlib.Path, files: Files, job_id: str = JOB) -> None:
    """Put a job's files as they are in one state, in place of what was there."""
    for suffix in ("local", "diag", "statistics", "failed"):
        content = getattr(files, suffix)
        path = job_file(str(control), job_id, suffix)
        if content is None:
            if os.path.exists(path):
                os.unlink(path)
        else:
            control.mkdir(parents=True, exist_ok=True)
            _write(path, content)
    for path in status_files(str(control), job_id, files.state):
        if os.path.exists(path):
            os.unlink(path)
    if files.status is not None:
        path = status_files(str(control), job_id, files.state)[0]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _write(path, files.status or files.state.encode())
        os.utime(path, ns=(files.mtime_ns, files.mtime_ns))


def remove(control: pathlib.Path, job_id: str = JOB) -> None:
    """Remove every file of a job."""
    for path in [*control.glob(f"job.{job_id}.*"), *control.glob(f"*/job.{job_id}.status")]:
        path.unlink()


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


AREX_TABLES = {
    "AAR": """
        SELECT JobID, LocalJobID, Endpoints.Interface, Endpoints.URL, Queues.Name, Users.Name, WLCGVOs.Name,
               Status.Name, ExitCode, SubmitTime, EndTime, NodeCount, CPUCount, UsedMemory, UsedVirtMem, UsedWalltime,
               UsedCPUUserTime, UsedCPUKernelTime, UsedScratch, StageInVolume, StageOutVolume
        FROM AAR
        JOIN Endpoints ON Endpoints.ID = EndpointID JOIN Queues ON Queues.ID = QueueID JOIN Users ON Users.ID = UserID
        JOIN WLCGVOs ON WLCGVOs.ID = VOID JOIN Status ON Status.ID = StatusID
    """,
    "AuthTokenAttributes": "SELECT JobID, AttrKey, AttrValue FROM AuthTokenAttributes JOIN AAR USING (RecordID)",
    "JobEvents": "SELECT JobID, EventKey, EventTime FROM JobEvents JOIN AAR USING (RecordID)",
    "RunTimeEnvironments": "SELECT JobID, RTEName FROM RunTimeEnvironments JOIN AAR USING (RecordID)",
    "DataTransfers": """
        SELECT JobID, URL, FileSize, TransferStart, TransferEnd, TransferType
        FROM DataTransfers JOIN AAR USING (RecordID)
    """,
    "JobExtraInfo": "SELECT JobID, InfoKey, InfoValue FROM JobExtraInfo JOIN AAR USING (RecordID)",
}


def rows(database: str | sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    """Every row of A-REX's tables, names resolved, in an order of their own."""
    con = sqlite3.connect(database) if isinstance(database, str) else database
    try:
        return {table: sorted(con.execute(query).fetchall(), key=repr) for table, query in AREX_TABLES.items()}
    finally:
        if isinstance(database, str):
            con.close()


def statuses(con: sqlite3.Connection) -> list[tuple[object, ...]]:
    """``(job id, status, end time)`` of every record."""
    return [(row[0], row[7], row[10]) for row in rows(con)["AAR"]]


def events(database: str | sqlite3.Connection) -> list[tuple[object, ...]]:
    """``(job id, event)`` of every event that is a state of a job."""
    states = ("ACCEPTED", "PREPARING", "SUBMIT", "INLRMS", "CANCELING", "FINISHING", "FINISHED")
    return [(job_id, key) for job_id, key, _time in rows(database)["JobEvents"] if key in states]


def finished_log(con: sqlite3.Connection) -> list[tuple[int, int]]:
    """The log of finished records, in its order."""
    return con.execute("SELECT Seq, RecordID FROM FinishedLog ORDER BY Seq").fetchall()


def sequence(parts: Iterable[bytes]) -> bytes:
    """Lines as the bytes of a file."""
    return b"".join(part + b"\n" for part in parts)


def moved_to_hashed(control: pathlib.Path) -> None:
    """The job's files as ARC 7 keeps them."""
    folder = control / "jobs" / JOB[:3] / JOB[3:6] / JOB[6:9] / JOB[9:]
    folder.mkdir(parents=True, exist_ok=True)
    for path in control.glob(f"job.{JOB}.*"):
        path.rename(folder / path.name.removeprefix(f"job.{JOB}."))
    for path in control.glob(f"*/job.{JOB}.status"):
        path.rename(path.parent / path.name.removeprefix("job."))


def cleaned(control: pathlib.Path) -> None:
    """What A-REX leaves of a job that its client cleans: nothing."""
    for path in (*control.glob(f"job.{JOB}.*"), *control.glob("*/*.status")):
        path.unlink()
    shutil.rmtree(control / "jobs", ignore_errors=True)
