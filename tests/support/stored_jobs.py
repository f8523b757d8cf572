"""Jobs that are in the database without ever having been in a control directory."""

from __future__ import annotations

import time

from arcacct.conf.places import Places
from arcacct.db import opening
from arcacct.jobs.writing import ArexJob, JobWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

END_S = 1_780_000_000
"""2026-05-28 20:26:40 UTC."""


def job(number: int, *, end_s: int = END_S, status: str = "completed") -> ArexJob:
    """A finished job with all kinds of children."""
    start_s = end_s - 3600
    return ArexJob(
        f"STORED{number:06d}",
        str(number),
        "org.nordugrid.arcrest",
        "https://ce.example.org:443/arex",
        "main",
        f"/DC=org/CN=User {number % 3}",
        "atlas",
        status,
        (0, start_s, end_s if status != "in-progress" else 0, 1, 8, 2_000_000, 2_000_000, 3500, 20_000, 300, 0, 10, 20),
        auth_tokens=(("mainfqan", "/atlas/Role=production"), ("vomsfqan", "/atlas")),
        rtes=(("ENV/PROXY",),),
        transfers=((f"https://se.example.org/{number}", 10, start_s, start_s + 5, 10),),
        extra=(("benchmark", "HEPSPEC:12.26"), ("jobname", f"job {number}")),
        events=(("ACCEPTED", _text(start_s)), ("FINISHED", _text(end_s))),
    )


def _text(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def add(con: sqlite3.Connection, here: Places, *jobs: ArexJob) -> None:
    """Write jobs as an import does."""
    with opening.writing(con, here):
        JobWriter(con, "arex", "/elsewhere/accounting.db").write(jobs)
