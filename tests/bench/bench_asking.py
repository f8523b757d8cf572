"""
What people ask, on 100 days of jobs: CPU time of the whole command, as a person waits for it.

Monthly usage by VO also without the start of a process, next to the same question asked of the jobs themselves.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing

from figures import Figure, cost_of
from generate import add_jobs, generate

from arcacct.config.paths import Places
from arcacct.database import access
from arcacct.database.connection import Connection
from arcacct.queries.questions import Selection
from arcacct.queries.usage import NEEDS, usage

SIZES = {"smoke": 2_000, "small": 100_000, "large": 1_000_000}
QUESTIONS = {
    "stats": ("stats",),
    "stats --by month,vo": ("stats", "--by", "month,vo"),
    "stats --by month,user,role": ("stats", "--by", "month,user,role"),
    "stats --by queue,status --details": ("stats", "--by", "queue,status", "--details"),
    "stats --by day": ("stats", "--by", "day"),
    "stats of one month of one VO": ("stats", "-b", "2026-08-01", "-e", "2026-09-01", "--filter-vo", "atlas"),
    **{
        f"stats of a month by {by}": ("stats", "--by", by, "--from", "2026-08-01", "--to", "2026-09-01")
        for by in (*NEEDS, "day,queue,status", "user,queue,project", "day,user")
    },
    "query monthly usage": ("query", "SELECT month, vo, sum(jobs) FROM v1_usage_by_month GROUP BY 1, 2"),
    "query failures by VO": ("query", "SELECT vo, count(*) FROM v1_jobs WHERE status = 'failed' GROUP BY 1"),
    "query jobs of a day": (
        "query",
        "SELECT job_id, vo, wall_s FROM v1_jobs WHERE end_time BETWEEN 1785888000 AND 1785974399",
    ),
    "query the latest 100": ("query", "SELECT * FROM v1_jobs ORDER BY end_time DESC LIMIT 100"),
    "status": ("status",),
}
RUNS = 5
NEW_JOBS = 1_000
MONTHLY = "SELECT month, vo, sum(jobs), sum(wall_s), sum(cpu_s) FROM v1_usage_by_month GROUP BY 1, 2"
MONTHLY_OF_JOBS = """
    SELECT strftime('%Y-%m', EndTime, 'unixepoch'), WLCGVOs.Name, count(*), sum(UsedWalltime),
           sum(UsedCPUUserTime + UsedCPUKernelTime)
      FROM AAR JOIN WLCGVOs ON WLCGVOs.ID = VOID
     WHERE StatusID IN (SELECT ID FROM Status WHERE Name IN ('completed', 'failed')) GROUP BY 1, 2
"""
ARCACCT = os.path.join(os.path.dirname(sys.executable), "arcacct")


def bench(size: str) -> list[Figure]:
    """Each question once the file is in the cache."""
    jobs = SIZES[size]
    with tempfile.TemporaryDirectory() as folder:
        here = generate(pathlib.Path(folder), jobs)
        conf = pathlib.Path(folder, "arc.conf")
        conf.write_text(f"[arex]\ncontroldir={here.controldir}\n")
        figures = _monthly(here, f"{jobs:,} jobs")
        figures += [
            _figure(f"{name}, {jobs:,} jobs", ["--config", str(conf), *line]) for name, line in QUESTIONS.items()
        ]
        add_jobs(here, NEW_JOBS)
        return figures + _monthly(here, f"{jobs:,} jobs, {NEW_JOBS:,} not in the cells")


def _monthly(here: Places, of: str) -> list[Figure]:
    """Monthly usage by VO inside a process: the database is opened again for each question."""
    peer, _wall = _asked(here, lambda con: con.execute(MONTHLY_OF_JOBS).fetchall())
    figures = []
    for name, ask in (
        ("stats", lambda con: usage(con, Selection(), ("month", "vo"), details=False)),
        ("SQL", lambda con: con.execute(MONTHLY).fetchall()),
    ):
        cpu, wall = _asked(here, ask)
        note = f"{1000 * wall:.1f} ms wall; peer: SQL on AAR"
        figures.append(Figure(f"monthly usage by VO ({name}), {of}", 1000 * cpu, "CPU ms", 1000 * peer, note))
    return figures


def _asked(here: Places, ask: Callable[[Connection], object]) -> tuple[float, float]:
    """CPU and wall seconds of the quickest of some runs."""
    costs = []
    for _ in range(RUNS):
        cpu, wall = time.process_time(), time.monotonic()
        with closing(access.read_accounting(here)) as con:
            ask(con)
        costs.append((time.process_time() - cpu, time.monotonic() - wall))
    return min(costs)


def _figure(name: str, arguments: list[str]) -> Figure:
    cost = cost_of([ARCACCT, *arguments])
    return Figure(
        name, cost.cpu_s, "CPU s", note=f"{cost.wall_s:.2f} s wall, {cost.peak_mib:.0f} MiB, exit {cost.exit_code}"
    )
