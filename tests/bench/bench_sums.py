"""
Summaries and sync after 1,000 new jobs, on 100 days of jobs: ours next to ARC's own, in turns, from one database.

Compared are the figures alone (what `arc.control.AccountingDB` answers, the cells for us: advanced, then read), each in
a process of its own without what that costs to start; and whole runs of both publishers, what is sent included.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import peer
from bench_publish import APEL, configure, receivers
from figures import Cost, Figure, cost_of
from generate import Look, add_jobs, generate

from arcacct.config.paths import Places

SIZES = {"smoke": 300, "small": 50_000, "large": 1_000_000}
NEW_JOBS, RUNS = 1_000, 3
RECORDED = 4.9 + 0.85
"""CPU seconds of get_apel_summaries and get_apel_sync at 1,000,000 jobs, where the facts were measured."""
SINCE = "2026-09-01"
"""One month and a bit: what jura-ng's regular run asks for."""
ARCACCT = os.path.join(os.path.dirname(sys.executable), "arcacct")

_OURS = """
import json, sys, time
from arcacct.config.paths import places
from arcacct.database import access as opening
from arcacct.records import usage as cells
here = places(None, sys.argv[1])
con = opening.open_accounting(here)
begun = time.process_time()
seq = cells.position(con)
cells.update_monthly(con, here)
months = cells.months_changed_after(con, seq) | {(2026, 9), (2026, 10), (2026, 11)}
summaries = cells.usage_cells(con, None if sys.argv[2] == "all" else months)
syncs = {}
for cell in cells.usage_cells(con):
    key = cell.year, cell.month, cell.endpoint_url
    syncs[key] = syncs.get(key, 0) + cell.jobs
spent = time.process_time() - begun
print(json.dumps([spent, sum(cell.jobs for cell in summaries), sum(syncs.values())]))
"""
_THEIRS = """
import datetime, json, sys, time
from arc.control.AccountingDB import AccountingDB
begun = time.process_time()
db = AccountingDB(sys.argv[1])
if sys.argv[2] != "all":
    db.filter_endfrom(datetime.datetime.fromisoformat(sys.argv[2]))
db.filter_statuses(["completed", "failed"])
summaries = db.get_apel_summaries()
db.filters_clean()
db.filter_statuses(["completed", "failed"])
syncs = db.get_apel_sync()
spent = time.process_time() - begun
print(json.dumps([spent, sum(one["count"] for one in summaries), sum(one["count"] for one in syncs)]))
"""


def bench(size: str) -> list[Figure]:
    """The figures of one database."""
    jobs = SIZES[size]
    root = None if size == "smoke" else peer.arc_root()
    with tempfile.TemporaryDirectory() as folder:
        site = pathlib.Path(folder) / "site"
        here = generate(site, jobs, Look(plain=True))
        figures = [_answers(here, root, period, jobs) for period in ("all", SINCE)]
        with receivers(pathlib.Path(folder) / "box") as box:
            configure(site, box, APEL.format(ams=box["ams"], messages="summaries"))
            figures.append(_runs(site, here, root, jobs))
    return figures


def _answers(here: Places, root: pathlib.Path | None, period: str, jobs: int) -> Figure:
    ours, theirs, counts = [], [], set()
    for _ in range(RUNS):
        add_jobs(here, NEW_JOBS)
        spent, *counted = _asked(_OURS, here.controldir, period, {})
        ours.append(spent)
        counts.add(tuple(counted))
        if root:
            spent, *their_counts = _asked(_THEIRS, here.database, period, peer.environment(root))
            theirs.append(spent)
            counts.discard(tuple(their_counts))
    note = "" if root else f"peer as recorded at 1,000,000 jobs: {RECORDED} s"
    if root and counts:
        note = f"other counts than the peer's: {sorted(counts)}"
    what = "every month" if period == "all" else f"since {period}"
    name = f"summaries + sync of {jobs:,} jobs, {NEW_JOBS:,} new, {what}"
    return Figure(name, min(ours), "CPU s", min(theirs) if theirs else None, note)


def _asked(program: str, database: str, period: str, env: dict[str, str]) -> list:
    command = [sys.executable, "-c", program, database, period]
    run = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def _runs(site: pathlib.Path, here: Places, root: pathlib.Path | None, jobs: int) -> Figure:
    publish = [ARCACCT, "--config", str(site / "arc.conf"), "publish", "--now"]
    cost_of([*publish, "--since", "2026-01-01"], log=site / "ours.log")
    ours, theirs = [], []
    for number in range(RUNS):
        add_jobs(here, NEW_JOBS)
        ours.append(cost_of(publish, log=site / "ours.log"))
        if root and number == 0:
            theirs.append(_jura(site, here, root))
    failed = "".join(f"FAILED with {cost.exit_code} " for cost in ours if cost.exit_code)
    note = failed or (f"jura-ng exit code {theirs[0].exit_code}" if theirs and theirs[0].exit_code else "")
    peer_cpu = min(cost.cpu_s for cost in theirs) if theirs else None
    name = f"publish summaries of {jobs:,} jobs, {NEW_JOBS:,} new: whole run"
    return Figure(name, min(cost.cpu_s for cost in ours), "CPU s", peer_cpu, note)


def _jura(site: pathlib.Path, here: Places, root: pathlib.Path) -> Cost:
    """jura-ng sends the months of all jobs, as it does in its regular run when they are of this month and the last."""
    shutil.copyfile(here.database, site / "accounting" / "accounting.db")
    peer.publish_everything(site, ["arex/jura/apel:bench"])
    return cost_of(peer.jura(root, site / "jura.conf"), env=peer.environment(root), log=site / "jura.log")
