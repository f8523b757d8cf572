"""
The portal: what each page costs that etc/datasette.yaml makes, with the settings of its unit; no page above a second.

There is no peer. Each page is asked for twice, and the second time counts: the first has Datasette look at the schema.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import tempfile

from figures import Figure
from generate import generate

from arcacct.database import access

SIZES = {"smoke": 300, "small": 100_000, "large": 1_000_000}
ROOT = pathlib.Path(__file__).parents[2]
PAGES = {
    "front page": "/",
    "jobs, by their ends": "/accounting/v1_jobs",
    "jobs, by id in the batch system": "/accounting/v1_jobs?_sort=local_job_id",
    "jobs of a VO": "/accounting/v1_jobs?vo=atlas",
    "usage by month, facets": "/accounting/v1_usage_by_month",
    "events": "/accounting/v1_job_events",
    "attributes": "/accounting/v1_job_attributes",
    "transfers": "/accounting/v1_transfers",
    "latest jobs": "/accounting/latest_jobs",
    "usage of a month": "/accounting/usage_of_a_month?month=2026-08",
    "users of a VO": "/accounting/users_of_a_vo?vo=atlas&month=",
    "jobs of a day": "/accounting/jobs_of_a_day?day=2026-08-01",
    "failures of a day": "/accounting/failures_of_a_day?day=2026-08-01",
}


def bench(size: str) -> list[Figure]:
    """One row for each page: CPU of Datasette."""
    jobs = SIZES[size]
    unit = (ROOT / "etc/systemd/arcacct-portal.service").read_text(encoding="utf-8")
    words = {"on": True, "off": False}
    settings = {name: words.get(text, text) for name, text in re.findall(r"--setting (\S+) (\S+)", unit)}
    settings = {name: int(text) if isinstance(text, str) else text for name, text in settings.items()}
    with tempfile.TemporaryDirectory() as name:
        here = generate(pathlib.Path(name), jobs)
        access.open_publishing(here).close()
        program = [sys.executable, ROOT / "tests/support/datasette_pages.py", ROOT / "etc/datasette.yaml"]
        command = [*program, json.dumps(settings), here.database, here.publishing_database]
        asked = json.dumps([path for path in PAGES.values() for _turn in range(2)])
        run = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
    answers = json.loads(run.stdout.splitlines()[-1])[1::2]
    return [
        Figure(f"{page} of {jobs:,} jobs", answer["cpu_s"], "CPU s", note=_note(answer))
        for page, answer in zip(PAGES, answers, strict=True)
    ]


def _note(answer: dict[str, object]) -> str:
    failed = "" if answer["status"] == 200 else f"FAILED with {answer['status']}"
    return failed or ("a query was given up" if answer["errors"] else "")
