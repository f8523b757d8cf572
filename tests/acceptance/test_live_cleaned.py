"""
Beside a real A-REX: jobs of which the launcher alone told, and that their client cleaned before any sweep.

Runs on request, as `test_live`.
"""

from __future__ import annotations

import os
import pathlib
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import arex_corpus as corpus
import live_arex
import pytest
from live_arex import LiveCE

from arcacct.arex.sweep import sweep
from arcacct.arex.sweep_context import SweepReport
from arcacct.config.parser import load
from arcacct.config.paths import places
from arcacct.database.access import open_accounting

pytestmark = live_arex.ON_REQUEST

JOBS = {
    "ok": '&(executable=/bin/true)(jobname="ok")(stdout=out)',
    "exit7": '&(executable=/bin/sh)(arguments="-c" "exit 7")(jobname="exit7")',
    "output": '&(executable=/bin/sh)(arguments="-c" "cat in >out")(jobname="output")'
    '(inputFiles=("in" "{files}/in1"))(outputFiles=("out" "{files}/put/out1"))',
    "input404": '&(executable=/bin/true)(jobname="input404")(inputFiles=("in" "{files}/missing"))',
}


class Cleaned(NamedTuple):
    """What is left when A-REX has stopped."""

    jobs: dict[str, str]
    """Job ids by name."""
    left: list[str]
    """What the control directory still had of them before the sweep."""
    report: SweepReport
    theirs: sqlite3.Connection
    ours: sqlite3.Connection


@pytest.fixture(scope="module", params=["launcher", "witness"])
def cleaned(request: pytest.FixtureRequest) -> Iterator[Cleaned]:
    """All jobs have run and were cleaned; then came the first sweep, that has the spool alone, or A-REX's database."""
    live_arex.install_packages()
    home = pathlib.Path(tempfile.mkdtemp(prefix="arcacct-live-", dir="/var/tmp"))
    home.chmod(0o755)
    ce = live_arex.LiveCE(home)
    ce.prepare()
    storage = live_arex.Storage()
    with storage.running(), ce.running():
        urls = {name: ce.submit(name, text.replace("{files}", live_arex.FILES)) for name, text in JOBS.items()}
        for name, url in urls.items():
            live_arex.wait_for(lambda url=url: ce.state(url) == "FINISHED", 180, f"{name} ends")  # type: ignore[misc]
        # A-REX calls the launcher after the state, and writes its row after that.
        time.sleep(3)
        live_arex.wait_for(lambda: _cleaned(ce, list(urls.values())), 180, "every job is cleaned")
    jobs = {name: url.rpartition("/")[2] for name, url in urls.items()}
    left = [path.name for job_id in jobs.values() for path in ce.control.glob(f"job.{job_id}.*")]
    alone = request.param == "launcher"
    (home / "arcacct.conf").write_text(f"[arcacct]\narex_writes_no_accounting={'yes' if alone else 'no'}\n")
    here = places(load(str(ce.conf), {}), str(ce.control))
    if not alone:
        for event in pathlib.Path(here.spool).iterdir():
            # Nothing but the name, from so long ago that it is judged.
            event.write_bytes(b"")
            os.utime(event, (event.stat().st_mtime - 700,) * 2)
    with closing(open_accounting(here)) as ours:
        report = sweep(here, ours)
        copy = live_arex.copy_of(ce.control / "accounting" / "accounting.db", home / "theirs" / "accounting.db")
        with closing(sqlite3.connect(copy)) as theirs:
            yield Cleaned(jobs, left, report, theirs, ours)


def _cleaned(ce: LiveCE, urls: list[str]) -> bool:
    """Asked again until A-REX knows that the jobs have ended."""
    left = [url for url in urls if ce.state(url)]
    if left:
        ce.client("arcclean", *left, check=False)
    return not left


def test_nothing_was_left_of_the_jobs(cleaned: Cleaned) -> None:
    """Else the control directory would have told."""
    assert cleaned.left == []
    assert cleaned.report.jobs == 0
    assert cleaned.report.complaints == ()


@pytest.mark.parametrize("name", JOBS)
def test_the_record_is_what_arex_wrote(cleaned: Cleaned, name: str) -> None:
    """Every column of AAR and every row of its children but the events, whose times may differ by a second."""
    job_id = cleaned.jobs[name]

    assert corpus.records(cleaned.ours)[job_id] == corpus.records(cleaned.theirs)[job_id]
    for table in [table for table in corpus.CHILDREN if table != "JobEvents"]:
        ours, theirs = (corpus.children(con, table)[job_id] for con in (cleaned.ours, cleaned.theirs))
        assert sorted(ours, key=repr) == sorted(theirs, key=repr)
