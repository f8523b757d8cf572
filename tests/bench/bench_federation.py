"""
A year of a federation of 50 CEs as a dataset: bytes a job, seconds a question on DuckDB, and how both grow with size.

Seconds are CPU time of the whole command, with the files in the cache; what a person waits stands next to them. The
peer is the same question at the smallest size: the ratio tells how much less that one takes. The largest size is a
year of 200 thousand jobs a day, and takes 5 GB of ``$TMPDIR``.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator

import federation as generated
from federation import Federation
from figures import Cost, Figure, cost_of

SIZES = {"smoke": (600,), "small": (1_000_000,), "large": (1_000_000, 4_000_000, 12_000_000, 73_000_000)}
"""Jobs a year, of all CEs."""
WITH_CHILDREN = {"smoke": 600, "small": 100_000, "large": 1_000_000}
"""Jobs that have events, transfers and attributes, too, in one month of five CEs."""
QUESTIONS = {
    "stats --by month,vo": ("stats", "--by", "month,vo"),
    "stats --by month,vo of one month": ("stats", "--by", "month,vo", "--from", "2026-11-01", "--to", "2026-12-01"),
    "stats --by site,ce --details": ("stats", "--by", "site,ce", "--details"),
    "sql: sums by month and VO": (
        "sql",
        "SELECT year, month, vo, count(*), sum(wall_s * core_count), sum(cpu_s) FROM jobs GROUP BY ALL",
    ),
    "sql: users of a VO": ("sql", "SELECT user_dn, count(*), sum(cpu_s) FROM jobs WHERE vo = 'belle' GROUP BY ALL"),
    "sql: a job by its id": ("sql", "SELECT * FROM jobs WHERE job_id = 'none'"),
    "verify": ("verify",),
}
RUNS = {"smoke": 1, "small": 3, "large": 3}
ARCACCT = os.path.join(os.path.dirname(sys.executable), "arcacct")


def bench(size: str) -> list[Figure]:
    """Jobs alone, at each size; then bytes with all that belongs to a job."""
    figures: list[Figure] = []
    first: dict[str, float] = {}
    for jobs in SIZES[size]:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            figures += _written(root, Federation(ces=5 if size == "smoke" else 50, jobs_per_day=round(jobs / 365)))
            for name, command in QUESTIONS.items():
                cost = _asked(root, command, RUNS[size])
                peer = first.get(name)
                first.setdefault(name, cost.cpu_s)
                note = f"{cost.wall_s:.2f} s of clock time, {cost.peak_mib:.0f} MiB"
                note += f", FAILED: exit {cost.exit_code}" if cost.exit_code else ""
                figures.append(Figure(f"{name}, {jobs:,} jobs", cost.cpu_s, "s", peer, note))
    with tempfile.TemporaryDirectory() as folder:
        children = Federation(ces=5, jobs_per_day=round(WITH_CHILDREN[size] / 31), months=1, children=True)
        figures += _written(pathlib.Path(folder), children)
    return figures


def _written(root: pathlib.Path, federation: Federation) -> Iterator[Figure]:
    # In a process of its own: what is started from here must not seem to take what writing takes.
    options = ["--ces", str(federation.ces), "--months", str(federation.months)]
    options += ["--jobs-per-day", str(federation.jobs_per_day), *(["--children"] * federation.children)]
    cost = cost_of([sys.executable, generated.__file__, str(root), *options])
    jobs = sum(jobs for _partition, jobs in federation.partitions())
    for table in ("jobs", "events", "transfers", "attributes") if federation.children else ("jobs",):
        size = sum(file.stat().st_size for file in root.glob(f"{table}/**/*.parquet"))
        note = f"{size / 1e6:.1f} MB, written in {cost.cpu_s:.0f} s CPU" if table == "jobs" else ""
        yield Figure(f"{table} of {jobs:,} jobs", size / jobs, "B a job", note=note)


def _asked(root: pathlib.Path, command: tuple[str, ...], runs: int) -> Cost:
    """The quickest of some runs."""
    name, *options = command
    return min(
        (cost_of([ARCACCT, "fleet", name, str(root), *options]) for _ in range(runs)), key=lambda cost: cost.cpu_s
    )
