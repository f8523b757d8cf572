"""Jobs that are in the database without ever having been in a control directory."""

from __future__ import annotations

from arcacct.config.paths import Places
from arcacct.database import access
from arcacct.records.model import Job, Transfer
from arcacct.records.writer import JobWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

END_S = 1_780_000_000
"""2026-05-28 20:26:40 UTC."""


def endpoint_id(con: sqlite3.Connection, interface: str, url: str) -> int:
    """The ID of a submission endpoint, added when it is new."""
    row = con.execute("SELECT ID FROM Endpoints WHERE Interface = ? AND URL = ?", (interface, url)).fetchone()
    into = "INSERT INTO Endpoints (Interface, URL) VALUES (?, ?)"
    return con.execute(into, (interface, url)).lastrowid or 0 if row is None else int(row[0])


def job(number: int, *, end_s: int = END_S, status: str = "completed") -> Job:
    """A finished job with all kinds of children."""
    start_s = end_s - 3600
    return Job(
        f"STORED{number:06d}",
        status,
        start_s,
        end_s if status != "in-progress" else 0,
        local_job_id=str(number),
        endpoint_type="org.nordugrid.arcrest",
        endpoint_url="https://ce.example.org:443/arex",
        queue="main",
        user_dn=f"/DC=org/CN=User {number % 3}",
        vo="atlas",
        exit_code=0,
        node_count=1,
        core_count=8,
        memory_kib=2_000_000,
        virtual_memory_kib=2_000_000,
        wall_s=3500,
        cpu_user_s=20_000,
        cpu_kernel_s=300,
        stage_in_bytes=10,
        stage_out_bytes=20,
        job_name=f"job {number}",
        benchmark="HEPSPEC:12.26",
        auth_tokens=(("mainfqan", "/atlas/Role=production"), ("vomsfqan", "/atlas")),
        run_time_environments=("ENV/PROXY",),
        transfers=(Transfer(f"https://se.example.org/{number}", 10, start_s, start_s + 5, "input"),),
        events=(("ACCEPTED", start_s), ("FINISHED", end_s)),
    )


def add(con: sqlite3.Connection, here: Places, *jobs: Job) -> None:
    """Write jobs as an import does."""
    with access.writing(con, here):
        JobWriter(con, "arex", "/elsewhere/accounting.db").write(jobs)
