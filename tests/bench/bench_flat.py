"""
Flat cost: what a run costs when little is new, after a short history and after a long one.

The peer of each figure is ours after the short history. The histories carry AAR, log and cells without children, so
that millions of jobs can be made; the new jobs have children as any others.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import sqlite3
import sys
import tempfile

from bench_publish import APEL, SGAS, configure, receivers
from figures import Cost, Figure, cost_of
from generate import add_jobs, generate

SIZES = {"smoke": (300, 600), "small": (20_000, 200_000), "large": (200_000, 5_000_000)}
ARCACCT = os.path.join(os.path.dirname(sys.executable), "arcacct")
NEW_RECORDS, NEW_JOBS = 200, 1_000


def bench(size: str) -> list[Figure]:
    """One row for each thing done: CPU after the long history beside CPU after the short one."""
    short, long = SIZES[size]
    with tempfile.TemporaryDirectory() as folder:
        after_short, after_long = (_costs(pathlib.Path(folder), jobs) for jobs in (short, long))
    return [
        Figure(f"{what} after {long:,} jobs", cost.cpu_s, "CPU s", after_short[what].cpu_s, _note(short, cost))
        for what, cost in after_long.items()
    ]


def _note(short: int, cost: Cost) -> str:
    # `status` exits as monitoring plug-ins do.
    failed = "" if cost.exit_code in (0, 1, 2) else f", FAILED with {cost.exit_code}"
    return f"peer: after {short:,}; {cost.peak_mib:.0f} MiB{failed}"


def _costs(folder: pathlib.Path, jobs: int) -> dict[str, Cost]:
    """What is measured, on a site that has published its history."""
    site = folder / f"site{jobs}"
    here = generate(site, jobs, children=False)
    with sqlite3.connect(here.database) as con:
        job_id = con.execute("SELECT JobID FROM AAR WHERE RecordID = ?", (jobs // 2,)).fetchone()[0]
    con.close()
    with receivers(folder / f"box{jobs}") as box:
        costs = {}
        for seed, (what, new, targets) in enumerate(
            (
                (f"publish {NEW_RECORDS} new records", NEW_RECORDS, SGAS.format(sgas=box["sgas"])),
                (
                    f"summaries and sync, {NEW_JOBS:,} new jobs",
                    NEW_JOBS,
                    APEL.format(ams=box["ams"], messages="summaries"),
                ),
            ),
            start=2,
        ):
            configure(site, box, targets)
            _run(site, "publish", "--now")
            add_jobs(here, new, seed=seed)
            costs[what] = _run(site, "publish", "--now")
        costs["status"] = _best(site, "status")
        costs["job info"] = _best(site, "job", "info", job_id)
    shutil.rmtree(site)
    return costs


def _best(site: pathlib.Path, *arguments: str) -> Cost:
    return min((_run(site, *arguments) for _ in range(3)), key=lambda cost: cost.cpu_s)


def _run(site: pathlib.Path, *arguments: str) -> Cost:
    return cost_of([ARCACCT, "--config", str(site / "arc.conf"), *arguments], log=site / "ours.log")
