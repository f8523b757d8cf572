"""
The jobs of tests: as a source tells them, as publishing reads them, and as sums count them.

A test names only the values that it is about. `publishing_site.Job` is a job of a site that publishes, with the values
that a receiver counts.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from arcacct.config.paths import Places
from arcacct.database import access
from arcacct.records.model import AAR, Job, Transfer, UsageCell
from arcacct.records.writer import JobWriter

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
        f"STORED{number:06d}", status, start_s, end_s if status != "in-progress" else 0, local_job_id=str(number),
        endpoint_type="org.nordugrid.arcrest", endpoint_url="https://ce.example.org:443/arex", queue="main",
        user_dn=f"/DC=org/CN=User {number % 3}", vo="atlas", exit_code=0, node_count=1, core_count=8,
        memory_kib=2_000_000, virtual_memory_kib=2_000_000, wall_s=3500, cpu_user_s=20_000, cpu_kernel_s=300,
        stage_in_bytes=10, stage_out_bytes=20, job_name=f"job {number}", benchmark="HEPSPEC:12.26",
        auth_tokens=(("mainfqan", "/atlas/Role=production"), ("vomsfqan", "/atlas")),
        run_time_environments=("ENV/PROXY",),
        transfers=(Transfer(f"https://se.example.org/{number}", 10, start_s, start_s + 5, "input"),),
        events=(("ACCEPTED", start_s), ("FINISHED", end_s)),
    )  # fmt: skip


def add(con: sqlite3.Connection, here: Places, *jobs: Job) -> None:
    """Write jobs as an import does."""
    with access.writing(con, here):
        JobWriter(con, "arex", "/elsewhere/accounting.db").write(jobs)


def aar(**values: Any) -> AAR:
    """The job of the recommended sample documents: every attribute is known."""
    return AAR(
        record_id=1, job_id="good1", local_job_id="4711", endpoint_type="org.nordugrid.arcrest",
        endpoint_url="https://arc1.example.org:443/arex", queue="grid", user_dn="/DC=org/DC=example/CN=Test & User",
        vo="atlas", status="completed", exit_code=0, submit_time=1_704_189_600, end_time=1_704_198_605, node_count=2,
        core_count=8, memory_kib=2_048_000, virtual_memory_kib=4_096_000, wall_s=7205, cpu_user_s=50_000,
        cpu_kernel_s=321, scratch_bytes=1_234_567_890, stage_in_bytes=1000, stage_out_bytes=2000,
        fqans=("/atlas/Role=production/Capability=NULL", "/atlas/uk"), job_name="my job", lrms="slurm",
        node_names=("wn001.example.org", "wn002.example.org"), client_host="ui.example.org:34567",
        local_user="atlasprd:atlas", project="proj1", system_software="Debian GNU/Linux 12 (bookworm)",
        wn_instance="m5.large", benchmark="HEPscore23:12.3", run_time_environments=("ENV/PROXY", "APPS/HEP-1.0"),
        transfers=(
            Transfer("https://se.example.org/in1?a=1&b=2", 600, 1_704_189_660, 1_704_189_720, "input"),
            Transfer("https://se.example.org/in2", 400, 1_704_189_650, 1_704_189_655, "cached_input"),
            Transfer("https://se.example.org/out", 2000, 1_704_198_500, 1_704_198_600, "output"),
        ),
        lrms_submit_time=1_704_189_780, lrms_start_time=1_704_190_800, lrms_end_time=1_704_198_005,
    )._replace(**values)  # fmt: skip


def bare_aar() -> AAR:
    """A local job that failed before it ran: only what is never unknown."""
    return AAR(
        record_id=2, job_id="bare1", local_job_id=None, endpoint_type=None, endpoint_url=None, queue=None,
        user_dn=None, vo=None, status="failed", exit_code=1, submit_time=1_704_189_600, end_time=1_704_189_601,
        node_count=0, core_count=0, memory_kib=0, virtual_memory_kib=0, wall_s=0, cpu_user_s=0, cpu_kernel_s=0,
        scratch_bytes=0, stage_in_bytes=0, stage_out_bytes=0,
    )  # fmt: skip


def cell(**values: Any) -> UsageCell:
    """One month of one user."""
    return UsageCell(
        year=2024, month=1, user_dn="/DC=org/DC=example/CN=Jane Doe", vo="atlas", fqan="/atlas/uk/Role=production",
        endpoint_url="https://arc1.example.org:443/arex", node_count=1, core_count=8, benchmark="HEPSPEC:10.5",
        jobs=3, wall_s=7200, cpu_s=5401, earliest_end_time=1_704_198_605, latest_end_time=1_706_000_000,
    )._replace(**values)  # fmt: skip


def cell_of(job: AAR, year: int, month: int) -> UsageCell:
    """The sum of one job."""
    return UsageCell(
        year, month, job.user_dn, job.vo, job.fqans[0] if job.fqans else None, job.endpoint_url,
        job.node_count, job.core_count, job.benchmark, 1, job.wall_s, job.cpu_s, job.end_time, job.end_time,
    )  # fmt: skip
