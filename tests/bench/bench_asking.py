"""What people ask, on a year of jobs: CPU time of the whole command, as a person waits for it."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

from figures import Figure, cost_of
from generate import generate

SIZES = {"smoke": 2_000, "small": 100_000, "large": 1_000_000}
QUESTIONS = {
    "stats": ("stats",),
    "stats --by month,vo": ("stats", "--by", "month,vo"),
    "stats --by month,user,role": ("stats", "--by", "month,user,role"),
    "stats --by queue,status --details": ("stats", "--by", "queue,status", "--details"),
    "stats --by day": ("stats", "--by", "day"),
    "stats of one month of one VO": ("stats", "-b", "2026-08-01", "-e", "2026-09-01", "--filter-vo", "atlas"),
    "query monthly usage": ("query", "SELECT month, vo, sum(jobs) FROM v1_usage_by_month GROUP BY 1, 2"),
    "query failures by VO": ("query", "SELECT vo, count(*) FROM v1_jobs WHERE status = 'failed' GROUP BY 1"),
    "status": ("status",),
}
ARCACCT = os.path.join(os.path.dirname(sys.executable), "arcacct")


def bench(size: str) -> list[Figure]:
    """Each question once the file is in the cache."""
    with tempfile.TemporaryDirectory() as folder:
        here = generate(pathlib.Path(folder), SIZES[size])
        conf = pathlib.Path(folder, "arc.conf")
        conf.write_text(f"[arex]\ncontroldir={here.controldir}\n")
        return [
            _figure(f"{name}, {SIZES[size]} jobs", ["--config", str(conf), *line]) for name, line in QUESTIONS.items()
        ]


def _figure(name: str, arguments: list[str]) -> Figure:
    cost = cost_of([ARCACCT, *arguments])
    return Figure(name, cost.cpu_s, "CPU s", note=f"{cost.peak_mib:.0f} MiB, exit {cost.exit_code}")
