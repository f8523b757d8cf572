"""
Beside a real A-REX: what we record of every job is what A-REX itself records.

Runs on request (ARCACCT_LIVE=1), as root, on a Debian host that may be thrown away: it installs A-REX and starts it.
All traffic is on the loopback interface once the packages are there.
"""

from __future__ import annotations

import os
import pathlib
import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from typing import NamedTuple

import arex_corpus as corpus
import live_arex
import pytest
from live_arex import LiveCE

from arcacct.arex.sweep import sweep
from arcacct.arex.sweep_context import SweepReport
from arcacct.config.parser import load
from arcacct.config.paths import Places, places
from arcacct.database.access import initialise, open_accounting

pytestmark = live_arex.ON_REQUEST

REPORTED = ("ACCEPTED", "PREPARING", "SUBMIT", "FINISHING", "FINISHED")


class Lived(NamedTuple):
    """What is left when A-REX has stopped."""

    way: str
    ce: LiveCE
    jobs: dict[str, str]
    """Job ids by name."""
    recorded: list[str]
    """The jobs that were recorded before the last sweep."""
    report: SweepReport
    theirs: sqlite3.Connection
    ours: sqlite3.Connection


@pytest.fixture(scope="module", params=live_arex.WAYS)
def lived(request: pytest.FixtureRequest) -> Iterator[Lived]:
    """All jobs have run."""
    live_arex.install_packages()
    home = pathlib.Path(tempfile.mkdtemp(prefix="arcacct-live-", dir="/var/tmp"))
    # Jobs run as nobody.
    home.chmod(0o755)
    ce = live_arex.LiveCE(home)
    ce.prepare()
    here = places(load(str(ce.conf), {}), str(ce.control))
    storage = live_arex.Storage()
    storage.refused.add("/put/refused")
    with storage.running(), ce.running():
        # A-REX has set the control directory up.
        initialise(here)
        with ce.recorded(request.param, os.path.join(os.path.dirname(sys.executable), "arcacct")):
            urls = live_arex.live(ce, storage)
        jobs = {name: live_arex.id_of(url) for name, url in urls.items()}
    with closing(open_accounting(here)) as ours:
        recorded = [str(job_id) for (job_id,) in ours.execute("SELECT JobID FROM AAR")]
        report = sweep(here, ours)
        copy = live_arex.copy_of(ce.control / "accounting" / "accounting.db", home / "theirs" / "accounting.db")
        with closing(sqlite3.connect(copy)) as theirs:
            yield Lived(request.param, ce, jobs, recorded, report, theirs, ours)


def test_every_event_came_by_the_spool(lived: Lived) -> None:
    """The recorder, or the last sweep, found the events of every job there; none was unusable."""
    by_recorder = lived.way == "recorder"
    spooled = lived.ce.left_to_recorder() if by_recorder else lived.report.spooled

    assert sorted(lived.recorded) == (sorted(lived.jobs.values()) if by_recorder else [])
    assert spooled >= 4 * len(lived.jobs)
    assert (lived.report.found, lived.report.complaints) == ({}, ())


@pytest.mark.parametrize("name", live_arex.JOBS)
def test_the_record_is_what_arex_wrote(lived: Lived, name: str) -> None:
    """Every column of AAR, names resolved."""
    job_id = lived.jobs[name]

    assert corpus.records(lived.ours)[job_id] == corpus.records(lived.theirs)[job_id]


@pytest.mark.parametrize("table", [table for table in corpus.CHILDREN if table != "JobEvents"])
@pytest.mark.parametrize("name", live_arex.JOBS)
def test_the_children_are_what_arex_wrote(lived: Lived, name: str, table: str) -> None:
    """Every row of every child table; of a resumed job A-REX has them twice."""
    job_id = lived.jobs[name]
    ours, theirs = corpus.children(lived.ours, table)[job_id], corpus.children(lived.theirs, table)[job_id]

    assert sorted(set(ours), key=repr) == sorted(set(theirs), key=repr)
    assert len(ours) == len(set(ours))


@pytest.mark.parametrize("name", live_arex.JOBS)
def test_the_events_are_what_arex_wrote(lived: Lived, name: str) -> None:
    """Each event of a state with a callout; A-REX takes the time after it, so ours is never later."""
    job_id = lived.jobs[name]
    ours, theirs = corpus.children(lived.ours, "JobEvents")[job_id], corpus.children(lived.theirs, "JobEvents")[job_id]
    wanted = [row for row in theirs if row[0] not in ("INLRMS", "CANCELING")]

    for key, when in wanted:
        behind = [_seconds(when) - _seconds(other) for event, other in ours if event == key]
        assert any(0 <= seconds <= 2 for seconds in behind), (key, when, ours)
    assert {row[0] for row in ours} - {"INLRMS", "CANCELING"} == {row[0] for row in wanted}


def test_no_job_was_delayed(lived: Lived) -> None:
    """A-REX's row of a state is written after the callout: at most the launcher's own time after the state started."""
    delays = {}
    for name, job_id in lived.jobs.items():
        for key, when in corpus.children(lived.theirs, "JobEvents")[job_id]:
            if key in REPORTED:
                began = [
                    _seconds(other) for event, other in corpus.children(lived.ours, "JobEvents")[job_id] if event == key
                ]
                delays[name, key] = min(abs(_seconds(when) - seconds) for seconds in began)
    print("\nseconds from the state to A-REX's row:", delays)

    assert max(delays.values()) <= 2
    assert not re.search(r"Plugin at state .* : (TIMEOUT|FAILED)", (lived.ce.home / "arex.log").read_text())


def _seconds(text: object) -> float:
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


def test_a_second_sweep_changes_nothing(lived: Lived) -> None:
    """What is recorded of the live directory is complete."""
    here: Places = places(load(str(lived.ce.conf), {}), str(lived.ce.control))

    assert sweep(here, lived.ours).found == {}


@pytest.fixture(scope="module")
def arcctl(lived: Lived) -> dict[str, LiveCE]:
    """ARC's own tool, on a copy of A-REX's database and on one of ours."""
    tools = {}
    for name, con in (("theirs", lived.theirs), ("ours", lived.ours)):
        home = lived.ce.home / f"arcctl-{name}"
        (home / "client").mkdir(parents=True)
        (home / "control" / "accounting").mkdir(parents=True)
        with closing(sqlite3.connect(home / "control" / "accounting" / "accounting.db")) as copy:
            con.backup(copy)
        tools[name] = live_arex.LiveCE(home)
        tools[name].conf.write_text(lived.ce.conf.read_text().replace(str(lived.ce.control), str(home / "control")))
    return tools


def _said(tool: LiveCE, *arguments: str) -> str:
    return tool.run(["arcctl", "--config", str(tool.conf), "accounting", *arguments]).stdout


@pytest.mark.parametrize(
    "arguments",
    [("stats",), ("stats", "-o", "json"), ("stats", "-o", "users"), ("stats", "--filter-state", "failed")],
    ids=" ".join,
)
def test_arcctl_stats_are_those_of_arex(lived: Lived, arcctl: dict[str, LiveCE], arguments: tuple[str, ...]) -> None:
    """`arcctl accounting stats` says the same of our database."""
    said = _said(arcctl["ours"], *arguments)

    assert said.strip()
    assert said == _said(arcctl["theirs"], *arguments)


@pytest.mark.parametrize("name", live_arex.JOBS)
def test_arcctl_job_info_is_that_of_arex(lived: Lived, arcctl: dict[str, LiveCE], name: str) -> None:
    """`arcctl accounting job info` says the same of each job of our database; only the order of rows may differ."""
    ours, theirs = (_said(arcctl[which], "job", "info", lived.jobs[name]) for which in ("ours", "theirs"))

    assert ours.strip()
    assert set(ours.splitlines()) == set(theirs.splitlines())
