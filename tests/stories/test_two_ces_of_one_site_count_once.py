"""
Two CEs of one site with one batch system: the same receivers, jobs of their own, at times the same ids and ends.

After any history of both, and one republish where a receiver failed, the receivers have what both databases have.
"""

from __future__ import annotations

import itertools
import os
import pathlib
import tempfile
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from histories import EVENTS, JOBS, PLAY, RUNS
from hypothesis import given, settings
from hypothesis import strategies as st
from publishing_site import Job
from publishing_world import Fault, World

EACH = (
    "[arex/jura/sgas:s]\ntargeturl=https://sgas.example.org/sgas\nurbatchsize=3\n"
    "[arcacct/auditor:a]\ntargeturl=https://auditor.example.org\nsite_id=ONE\nurbatchsize=3\n"
    "[arex/jura/apel:jobs]\ntargeturl=https://ams.example.org\ngocdb_name=ONE\napel_messages=individual\n"
    "urbatchsize=3\nlocalid_prefix={prefix}\n"
    "[arex/jura/apel:sums]\ntargeturl=https://ams.example.org\ngocdb_name=TWO\napel_messages=summaries\nurbatchsize=3\n"
)
NAMES = ("first", "second")


class TwoCEs:
    """Both sites, and what every receiver has to have of them together."""

    check_sgas, check_auditor = World.check_sgas, World.check_auditor
    check_jobs, check_summaries, check_usage = World.check_jobs, World.check_summaries, World.check_usage
    _check_sync = World._check_sync

    def __init__(self, path: pathlib.Path) -> None:
        self.ces = [World(path / name, EACH.format(prefix=f"{name}:"), f"{name}.example.org") for name in NAMES]
        self.site = SimpleNamespace(
            ledger=lambda query, *values: [row for ce in self.ces for row in ce.site.ledger(query, *values)]
        )

    def begin(self) -> None:
        """Everything as on the first day."""
        for ce in self.ces:
            ce.begin()
            ce.receivers, ce.loaded, ce.tables = self.ces[0].receivers, self.ces[0].loaded, self.ces[0].tables
        self.receivers = self.ces[0].receivers

    def record(self, which: int, *recorded: Job) -> None:
        """Jobs of a CE end, with the batch system's ids: another CE's may be the same."""
        host = f"https://{NAMES[which]}.example.org:443/arex"
        self.ces[which].record(
            *(
                job._replace(
                    job_id=f"{'ab'[which]}{job.job_id}", local_id=job.lrms_id, endpoint_url=job.endpoint_url and host
                )
                for job in {job.job_id: job for job in recorded}.values()
            )
        )

    @property
    def jobs(self) -> dict[str, Job]:
        """Those of both, with the ids that APEL knows them by."""
        return {
            job.job_id: job._replace(local_id=f"{name}:{job.lrms_id}")
            for name, ce in zip(NAMES, self.ces, strict=True)
            for job in ce.jobs.values()
        }

    def _ghosts(self) -> set[str]:
        return set()

    def play(self, history: list[tuple[int, list[Job], tuple[Any, ...] | None, Fault | None]]) -> None:
        """What happens to either CE, until all is quiet again."""
        self.begin()
        for which, recorded, event, fault in history:
            self.record(which, *recorded)
            if event is not None:
                what, *values = event
                getattr(self.ces[which], what)(*values)
            if fault is not None:
                self.ces[which].publish(fault)
        self.settle()

    def settle(self) -> None:
        """Mistakes are fixed at both; where a receiver failed, both send all months once more."""
        failed = any(ce.receiver_failed for ce in self.ces)
        for ce in self.ces:
            ce.receiver_failed = failed
            ce.settle()

    def check(self) -> None:
        """All receivers, against what happened."""
        self.check_sgas("sgas:s")
        self.check_auditor("auditor:a")
        self.check_jobs("apel:jobs")
        self.check_summaries("apel:sums")


ONCE = st.one_of(
    st.none(),
    st.tuples(st.just("backup")),
    st.tuples(st.just("restore_both"), st.integers(0, 3)),
    st.tuples(st.just("restore_receiver"), st.integers(0, 3)),
    st.tuples(st.just("power_cut")),
)
HISTORIES = st.lists(st.tuples(st.integers(0, 1), st.lists(JOBS, max_size=3), EVENTS, RUNS), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def both() -> Iterator[TwoCEs]:
    """Two CEs that every history starts again."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="arcacct-test-", dir=where) as path:
        yield TwoCEs(pathlib.Path(path))


@settings(PLAY, max_examples=PLAY.max_examples // 2)
@given(HISTORIES)
def test_the_receivers_have_what_both_databases_have(both, history) -> None:
    """Whatever happens to either CE, or to a receiver, in whatever order."""
    both.play(history)

    both.check()


@settings(PLAY, max_examples=max(1, PLAY.max_examples // 6))
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.lists(JOBS, max_size=3), ONCE, st.sampled_from([None, Fault()])),
        min_size=3,
        max_size=9,
    )
)
def test_both_databases_of_a_ce_are_restored_from_one_moment(both, history) -> None:
    """
    By `db restore`; the sweep finds the jobs, the operator accepts the months that are named, both CEs send again.

    No job changes: of one that did, nothing here knows what SGAS was sent before (see the manual).
    """
    numbers = [itertools.count(1), itertools.count(1)]

    def new(which: int, job: Job) -> Job:
        number = next(numbers[which])
        return job._replace(job_id=f"j{number}", end_time=job.end_time + number)

    both.play([(which, [new(which, job) for job in recorded], *rest) for which, recorded, *rest in history])

    both.check()
