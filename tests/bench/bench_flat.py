"""
Flat cost: what a run costs when little is new, after a short history and after a long one.

The peer of each figure is ours after the short history. The histories carry AAR, log, cells and the ledger of what was
sent, without children, so that millions of jobs can be made; the new jobs have children as any others.
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
from generate import FIRST_END, Look, add_jobs, generate

from arcacct.config.paths import Places
from arcacct.database import access
from arcacct.publishing import cursors

SIZES = {"smoke": (300, 600), "small": (20_000, 200_000), "large": (200_000, 5_000_000)}
ARCACCT = os.path.join(os.path.dirname(sys.executable), "arcacct")
NEW_RECORDS, NEW_JOBS = 200, 1_000
RUNS = {"smoke": 1, "small": 3, "large": 3}
"""Of each thing the cheapest run counts."""
_SENT = """
    INSERT INTO Messages (MessageID, Target, Kind, Origin, State, Created, Answered, RecordCount, ByteCount, Digest,
                          Destination, AnswerCode, KeyPrefix)
    SELECT RecordID / :batch + :first, :target, :kind, 'publish', 'accepted', max(EndTime), max(EndTime), count(*),
           2600 * count(*), hex(randomblob(32)), 'https://receiver.example.org', 200, 'ur-ce.example.org-'
      FROM Accounting.AAR GROUP BY RecordID / :batch
"""
_CARRIED = """
    INSERT INTO SentRecords (MessageID, Position, JobID, EndTime, Digest)
    SELECT RecordID / :batch + :first, RecordID % :batch, JobID, EndTime, randomblob(16)
      FROM Accounting.AAR ORDER BY RecordID
"""


def bench(size: str) -> list[Figure]:
    """One row for each thing done: CPU after the long history next to CPU after the short one."""
    short, long = SIZES[size]
    with tempfile.TemporaryDirectory() as folder:
        after_short, after_long = (_costs(pathlib.Path(folder), jobs, RUNS[size]) for jobs in (short, long))
    return [
        Figure(f"{what} after {long:,} jobs", cost.cpu_s, "CPU s", after_short[what].cpu_s, _note(short, cost))
        for what, cost in after_long.items()
    ]


def _note(short: int, cost: Cost) -> str:
    # `status` exits as monitoring plug-ins do.
    failed = "" if cost.exit_code in (0, 1, 2) else f", FAILED with {cost.exit_code}"
    return f"peer: after {short:,}; {cost.peak_mib:.0f} MiB{failed}"


def _costs(folder: pathlib.Path, jobs: int, runs: int) -> dict[str, Cost]:
    """What is measured, on a site that has published its history."""
    site = folder / f"site{jobs}"
    here = generate(site, jobs, Look(children=False))
    with receivers(folder / f"box{jobs}") as box:
        costs = measured(site, here, box, jobs, runs)
    shutil.rmtree(site)
    return costs


def measured(site: pathlib.Path, here: Places, box: dict[str, str], jobs: int, runs: int) -> dict[str, Cost]:
    """Every figure of one site."""
    with sqlite3.connect(here.database) as con:
        job_id = con.execute("SELECT JobID FROM AAR WHERE RecordID = ?", (jobs // 2,)).fetchone()[0]
    con.close()
    summaries = APEL.format(ams=box["ams"], messages="summaries")
    configure(site, box, SGAS.format(sgas=box["sgas"]))
    publish_history(here, "arex/jura/sgas:bench", "ur", batch=50)
    costs = {f"publish {NEW_RECORDS} new records": _new(site, here, NEW_RECORDS, runs)}
    configure(site, box, summaries)
    _run(site, "publish", "--now", "--since", "2026-01-01")
    costs[f"summaries and sync, {NEW_JOBS:,} new jobs"] = _new(site, here, NEW_JOBS, runs)
    configure(site, box, SGAS.format(sgas=box["sgas"]) + summaries)
    for name, line in {
        "status": ("status",),
        "metrics": ("metrics",),
        "job --only info": ("job", "--only", "info", job_id),
        "job --only why": ("job", "--only", "why", job_id),
        "stats --by month,vo": ("stats", "--by", "month,vo"),
        **{
            f"stats --by {by} of a month": ("stats", "--by", by, "--from", "2026-08-01", "--to", "2026-09-01")
            for by in ("day", "user", "queue,status", "project", "host")
        },
        "the latest 100 jobs": ("query", "SELECT * FROM v1_jobs ORDER BY end_time DESC LIMIT 100"),
    }.items():
        costs[name] = min((_run(site, *line) for _ in range(runs)), key=lambda cost: cost.cpu_s)
    return costs


def publish_history(here: Places, target: str, kind: str, *, batch: int) -> None:
    """A target that was sent every job of the history, in messages of ``batch`` records."""
    con = access.open_publishing(here)
    con.execute("PRAGMA synchronous = OFF")
    con.execute("ATTACH ? AS Accounting", (here.database,))
    first = con.execute("SELECT ifnull(max(MessageID), 0) + 1 FROM Messages").fetchone()[0]
    values = {"batch": batch, "first": first, "target": target, "kind": kind}
    con.execute("BEGIN")
    con.execute(_SENT, values)
    con.execute(_CARRIED, values)
    con.execute("COMMIT")
    last, life = con.execute(
        "SELECT (SELECT max(Seq) FROM Accounting.FinishedLog),"
        " (SELECT KeyValue FROM Accounting.DBConfig WHERE KeyName = 'ARCACCT_INCARNATION')"
    ).fetchone()
    cursors.set_cursor(con, cursors.Cursor(target, life, last, FIRST_END, last_success=None))
    con.execute("PRAGMA main.wal_checkpoint(TRUNCATE)").fetchone()
    con.close()


def _new(site: pathlib.Path, here: Places, jobs: int, runs: int) -> Cost:
    """Publishing what is new, everything else being handled."""
    costs = []
    for _ in range(runs):
        add_jobs(here, jobs)
        costs.append(_run(site, "publish", "--now"))
    return min(costs, key=lambda cost: cost.cpu_s)


def _run(site: pathlib.Path, *arguments: str) -> Cost:
    return cost_of([ARCACCT, "--config", str(site / "arc.conf"), *arguments], log=site / "ours.log")
