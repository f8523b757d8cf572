"""Fixtures that every test may use."""

from __future__ import annotations

import ctypes
import os
import pathlib
import sqlite3
import time
from collections.abc import Iterator

import pytest
from campaigns import examples, has_campaigns, start_campaigns
from closed_later import closed_databases
from hypothesis import HealthCheck, settings
from other_users import public_dir

from arcacct import wording
from arcacct.database import connection


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One half more than there are processors: a fourth of the time tests wait for processes and receivers."""
    return (len(os.sched_getaffinity(0)) * 3 + 1) // 2


CAMPAIGNS = ("tests/fuzz", "tests/packages")
"""
Folders of campaigns; elsewhere a campaign has the mark of this name. It plays the same thing a thousand times, starts
processes by the hundred or makes whole hosts, and runs only on demand.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--campaigns", action="store_true", help="run the long campaigns, too: fuzzing, kills, power cuts, packages"
    )
    parser.addoption(
        "--parameters",
        type=int,
        metavar="N",
        help="run each test with N of its parameters at most, first and last among them: for another Python",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--campaigns"):
        start_campaigns()
    # No test is about time, and a machine may be busy with anything.
    settings.register_profile(
        "patient", max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("patient")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """
    Leave out campaigns unless they are asked for, by the option or by their path.

    Of the parameters of a test keep those that stand evenly apart; the same ones in each process and each run.
    """
    if not has_campaigns():
        places = [
            os.path.relpath(pathlib.Path(word.partition("::")[0]).resolve(), config.rootpath) for word in config.args
        ]
        named = {place for place in places if place.endswith(".py") or place.startswith(CAMPAIGNS)}
        gone = [
            item
            for item in items
            if (item.get_closest_marker("campaign") or item.nodeid.startswith(CAMPAIGNS))
            and not item.nodeid.startswith(tuple(named))
        ]
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for item in items if item not in set(gone)]
    # Whole hosts take minutes each: whoever began one as the last test would work alone.
    items.sort(key=lambda item: not item.nodeid.startswith("tests/packages/"))
    most = config.getoption("--parameters")
    if not most:
        return
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = set()
    for found in tests.values():
        step = max(1, (len(found) - 1) / max(1, most - 1))
        kept |= {id(found[round(index * step)]) for index in range(min(most, len(found)))}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


@pytest.fixture(autouse=True)
def run_of_its_own(monkeypatch):
    """Each test is a run of its own: what one keeps secret the next may show, and what it opened is not to blame."""
    monkeypatch.setattr(wording, "_secrets", wording.Secrets())
    # An A-REX that this machine has says nothing about the hosts of the tests.
    monkeypatch.setenv("ARC_LOCATION", "/nowhere")
    connection.opened.clear()


@pytest.fixture(autouse=True)
def left_open(monkeypatch) -> Iterator[None]:
    """
    Close what a test leaves open as a process does that is about to end (`database.access.leave_open`).

    This process continues, and SQLite's memory is one for all of it: with a limit for hostile queries, which stays.
    """
    keep, left = ctypes.pythonapi.Py_IncRef, []
    monkeypatch.setattr(ctypes.pythonapi, "Py_IncRef", lambda kept: left.append(kept.value))
    yield
    for con in left:
        try:
            con.close()
        except sqlite3.ProgrammingError:
            # Another thread's.
            keep(ctypes.py_object(con))


@pytest.fixture(scope="session")
def test_data() -> pathlib.Path:
    """Schemas and samples that are not ours to ship, found through ARCACCT_TEST_DATA."""
    directory = os.environ.get("ARCACCT_TEST_DATA")
    if not directory:
        pytest.skip("ARCACCT_TEST_DATA is unset: schemas and samples that are not ours to ship are elsewhere")
    return pathlib.Path(directory)


@pytest.fixture
def utc() -> Iterator[None]:
    """The zone of the machines that the outputs of sacct and qacct in tests/data are of: they print none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC0")
        time.tzset()
        yield
    time.tzset()
