"""Fixtures that every test may use."""

from __future__ import annotations

import ctypes
import os
import pathlib
import sqlite3
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from arcacct import wording
from arcacct.database import connection

# No test is about time, and a machine may be busy with anything.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One half more than there are processors: a fourth of the time tests wait for processes and receivers."""
    return (len(os.sched_getaffinity(0)) * 3 + 1) // 2


CAMPAIGNS = (
    "acceptance/test_power_cut_scenarios.py",
    "acceptance/test_power_cuts.py",
    "arex/hook/test_faults.py",
    "arex/hook/test_system_calls.py",
    "arex/test_records.py::test_memory_does_not_grow_with_the_years_that_are_imported",
    "cli/test_damaged.py",
    "cli/test_db_move.py::test_killed_at_any_moment_one_place_is_complete",
    "cli/test_import_arex.py::test_memory_has_an_end",
    "database/test_foreign.py",
    "database/test_maintain.py::test_an_upgrade_that_is_killed_goes_on",
    "database/test_transaction.py::test_the_wal_stays_small_when_nobody_closes",
    "export/test_export.py::test_a_process_that_is_killed_leaves_a_dataset_to_go_on_with",
    "export/test_export.py::test_an_export_killed_anywhere_is_never_misread",
    "export/test_foreign_places.py",
    "files/test_foreign.py",
    "files/test_json_streams.py::test_time_and_memory_are_in_proportion",
    "fleet/test_clickhouse.py",
    "fleet/test_engines.py",
    "fleet/test_hostile_datasets.py",
    "fleet/test_postgresql.py",
    "fuzz",
    "packages",
    "publishing/test_conformance.py::test_a_fault_that_lasts",
    "publishing/test_interrupted.py",
    "publishing/test_poison.py::test_a_poison_record_delays_nobody",
    "publishing/test_properties.py",
    "publishing/test_refusals.py::test_a_balancer_on_a_bad_day",
    "publishing/test_sent_texts_properties.py",
    "publishing/test_side_by_side.py",
    "publishing/test_simulated_years.py",
    "publishing/test_twelve_lies.py",
    "queries/test_query.py::test_a_statement_that_takes_too_much_is_ended",
    "queries/test_query.py::test_the_result_counts_as_memory",
    "queries/test_verify_memory.py",
    "sources/features/test_attacks.py",
    "sources/gridengine/test_barrier.py::test_an_endless_line_is_passed_over",
    "sources/test_damaged_corpus.py",
    "test_benchmarks.py",
    "test_datasette.py",
    "test_docs_examples.py",
    "test_install_offline.py",
    "test_manual_site.py",
    "test_release_script.py",
)
"""What plays the same thing a thousand times, starts processes by the hundred or makes whole hosts: only on demand."""


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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """
    Leave out campaigns unless they are asked for, by the option or by their path.

    Of the parameters of a test keep those that stand evenly apart; the same ones in each process and each run.
    """
    if not config.getoption("--campaigns"):
        left_out = tuple(f"tests/{one}" for one in CAMPAIGNS)
        for word in config.args:
            path, *names = word.split("::")
            place = "::".join((os.path.relpath(pathlib.Path(path).resolve(), config.rootpath), *names))
            left_out = tuple(one for one in left_out if not place.startswith(one))
        gone = {item for item in items if item.nodeid.startswith(left_out)}
        config.hook.pytest_deselected(items=list(gone))
        items[:] = [item for item in items if item not in gone]
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
    connection.opened.clear()


@pytest.fixture(autouse=True)
def left_open(monkeypatch) -> Iterator[None]:
    """
    Close what a test leaves open as a process does that is about to end (`database.access.leave_open`).

    This process goes on, and SQLite's memory is one for all of it: with a limit for hostile queries, which stays.
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
    """The zone of the machines that the outputs of sacct in tests/data are of: sacct prints none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC0")
        time.tzset()
        yield
    time.tzset()
