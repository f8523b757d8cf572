"""
Any history of a site: jobs end, turn out otherwise, are resumed, deleted, held and decided on; the site is renamed, its
ledger is lost, the kind of its messages changes. No receiver ever empties a table.

After each run that succeeds, the usage at APEL's portal is what the database counts then, in each group by which APEL
sums; at SGAS and AUDITOR it is after the corrections that the program prints. `publish`, `status` and `verify` are not
green while usage differs.

``--campaigns`` plays the first 100 histories of `Player`, which are the same everywhere; ``ARCACCT_EXAMPLES=N`` plays
N of them, and N that hypothesis finds, each time others.
"""

from __future__ import annotations

import os
import pathlib
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import pytest
from any_history import APEL, AUDITOR, SGAS, Clock, Difference, Group, Publisher, Run, Usage, add
from campaigns import examples, has_campaigns
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    multiple,
    rule,
    run_state_machine_as_test,
)
from publishing_site import DAY_S, LIFE_S, Job

from arcacct.times import Month, month_of

KINDS = ["individual", "urs", "summaries", "normalised-v04"]
DAYS = [0, 3, 20, 40]
RECORDING_DAYS = [None, 10, 30]
OTHERWISE: dict[str, list[Any]] = {
    "wall_s": [100, 200, 5000],
    "cpu_s": [50, 90, 0],
    "cores": [1, 8],
    "nodes": [1, 2],
    "user_dn": ["/CN=Ada", "/CN=ADA", "/CN=Bj\xf6rn"],
    "voms": [("atlas", "/atlas/Role=production"), ("atlas", "/atlas"), ("cms", "/cms")],
    # Their products with the times are whole seconds.
    "benchmark": ["HEPSPEC:10.0", "HEPSPEC:12.5"],
    # Without: a job of the batch system alone.
    "endpoint_url": ["https://ce.example.org:443/arex", ""],
    "is_measured": [True, False],
}
VALUES = st.fixed_dictionaries({}, optional={name: st.sampled_from(some) for name, some in OTHERWISE.items()})
"""What turns out to be otherwise."""
IMPOSSIBLE_S = 2 * LIFE_S
"""A wall time that is longer than the job existed."""
PARTS = 10 if has_campaigns() else 2
"""The histories are played in so many tests, which may run side by side."""
MONTHS = [(2024, month) for month in range(4, 13)]
REPUBLISHED = [None, *MONTHS[:4]]
DECISIONS = ["unknown", "bound", "reported", "excluded", "held"]

LISTED = {
    "the number of jobs": "docs/explanation/months-keys-and-corrections.md",
    "jobs deleted or held after publishing.db was lost": "docs/explanation/what-can-be-lost.md",
    "months kept under a former name of the site": "docs/explanation/figures-that-do-not-fall.md",
}
"""What may differ, and the page of the manual that lists it: `_check_numbers`, `_not_listed`."""


class Histories(RuleBasedStateMachine):
    """What happens at a site, step by step."""

    site: ClassVar[Publisher]
    jobs = Bundle("jobs")

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    @initialize(
        target=jobs,
        kind=st.sampled_from(KINDS),
        recording_days=st.sampled_from(RECORDING_DAYS),
        always_summarised=st.booleans(),
        ended=st.lists(st.tuples(st.sampled_from(DAYS), VALUES), min_size=1, max_size=3),
    )
    def start(
        self, kind: str, recording_days: int | None, always_summarised: bool, ended: list[tuple[int, dict[str, Any]]]
    ) -> Any:
        """A site that has published some jobs, also of months before its database."""
        self.site.start(kind, recording_days, always_summarised=always_summarised)
        found = multiple(*(self._new_job(days, values) for days, values in ended))
        run = self.site.run_publish()
        self.site.accept(run)
        self._check(run)
        return found

    def _tick(self) -> None:
        self.site.clock.now += 60

    def _new_job(self, days: int, values: dict[str, Any]) -> str:
        self._tick()
        self.number += 1
        self._record(Job(f"j{self.number}", self.site.clock.now - days * DAY_S - 30, user_dn="/CN=Ada"), values)
        return f"j{self.number}"

    def _record(self, job: Job, values: dict[str, Any]) -> None:
        vo, fqan = values.get("voms", (job.vo, job.fqan))
        job = job._replace(**{name: value for name, value in values.items() if name != "voms"}, vo=vo, fqan=fqan)
        self.site.record(job if job.is_measured else job._replace(wall_s=0, cpu_s=0))

    # -- jobs

    @rule(target=jobs, days=st.sampled_from(DAYS), values=VALUES)
    def job_ends(self, days: int, values: dict[str, Any]) -> str:
        """Recorded at once, or late."""
        return self._new_job(days, values)

    @rule(job=jobs, values=VALUES)
    def job_turns_out_otherwise(self, job: str, values: dict[str, Any]) -> None:
        """A late measurement, or a correction."""
        self._tick()
        self._record(self.site.jobs[job], values)

    @rule(job=jobs, values=VALUES)
    def job_is_resumed(self, job: str, values: dict[str, Any]) -> None:
        """It has ended again."""
        self._tick()
        self._record(self.site.jobs[job]._replace(end_time=self.site.clock.now - 20), values)

    @rule(job=consumes(jobs))
    def job_is_deleted(self, job: str) -> None:
        """From the accounting database."""
        self._tick()
        self.site.delete(job)

    @rule(job=jobs)
    def job_becomes_impossible(self, job: str) -> None:
        """It is held."""
        self._tick()
        self._record(self.site.jobs[job], {"wall_s": IMPOSSIBLE_S})

    @rule(job=jobs, decision=st.sampled_from(DECISIONS))
    def operator_decides(self, job: str, decision: str) -> None:
        """If the job has an impossible value."""
        self._tick()
        self.site.decide(job, decision)

    @rule(target=jobs, days=st.sampled_from(DAYS))
    def older_program_sent_an_impossible_job(self, days: int) -> str:
        """It is `published` from now on."""
        self._tick()
        self.number += 1
        job = Job(f"j{self.number}", self.site.clock.now - days * DAY_S - 30, user_dn="/CN=Ada")
        self._check(self.site.older_program_sent(job, IMPOSSIBLE_S))
        return job.job_id

    # -- the site

    @rule(days=st.sampled_from([1, 20]))
    def time_passes(self, days: int) -> None:
        """Into the next month, too."""
        self.site.clock.now += days * DAY_S

    @rule()
    def site_is_renamed(self) -> None:
        """`gocdb_name`, on purpose."""
        self._tick()
        self.site.set_target({"ONE": "TWO", "TWO": "ONE"}[self.site.name], self.site.kind)

    @rule(kind=st.sampled_from(KINDS))
    def kind_changes(self, kind: str) -> None:
        """`apel_messages`."""
        self._tick()
        self.site.set_target(self.site.name, kind)

    @rule()
    def ledger_is_lost(self) -> None:
        """publishing.db."""
        self._tick()
        self.site.lose_ledger()

    # -- the operator

    @rule()
    def publish(self) -> None:
        """The timer does."""
        self._tick()
        self._check(self.site.run_publish())

    @rule(month=st.sampled_from(REPUBLISHED))
    def republish_after_publish(self, month: Month | None) -> None:
        """Nothing waits."""
        self.publish()
        self._check(self.site.run_republish(month), [month] if month else MONTHS, is_publish=False)

    @rule(month=st.sampled_from(REPUBLISHED))
    def republish(self, month: Month | None) -> None:
        """Something may have changed since the last publish."""
        self._tick()
        self._check(self.site.run_republish(month), [month] if month else MONTHS, is_publish=False)

    @rule(former_names=st.sampled_from(["move", "keep"]))
    def operator_does_what_is_said(self, former_names: str) -> None:
        """Months are accepted, and what is printed is done at SGAS and AUDITOR."""
        self._tick()
        self.site.accept(self.site.run_publish(), former_names)
        self.site.correct()
        run = self.site.run_publish()
        self._check(run)
        for target in (SGAS, AUDITOR):
            left = self._found()[target]
            assert run.error(target) is not None or not left, f"{target} was corrected:\n{texts(left)}\n{run}"

    # -- what must be true

    def _check(self, run: Run, months: list[Month] = MONTHS, *, is_publish: bool = True) -> None:
        """After a run: what each receiver shows of some months, and what is said of what is wrong."""
        site = self.site
        for target, found in self._found(months).items():
            corrected = site.outdated(target) if found and target != APEL else set()
            left = [one for one in found if one.what not in corrected]
            is_said = run.error(target) is not None or (not is_publish and self._waits_for_publish(target, left))
            assert is_said or not left, f"{target} has another usage:\n{texts(left)}\n{run}"
            for month in {one.month for one in found}:
                answers, _reasons = site.verified(target, month)
                assert not all(map(is_yes, answers)), f"verify says {answers} of {target}:\n{texts(found)}\n{run}"
            assert not (is_publish and found and site.status_is_ok(target)), f"status is OK:\n{texts(found)}\n{run}"
        if run.error(APEL) is None and is_publish:
            self._check_numbers(run, months)

    def _waits_for_publish(self, target: str, differences: list[Difference]) -> bool:
        """Whether `verify` says of each month that only the next publish finds what a lost ledger knew of SGAS."""
        reasons = [self.site.verified(target, month)[1] for month in {one.month for one in differences}]
        return target != APEL and all("until the next run repeats them" in one for one in reasons)

    def _found(self, months: list[Month] = MONTHS) -> dict[str, list[Difference]]:
        """By target what differs, apart from `LISTED`."""
        found: dict[str, list[Difference]] = {}
        for target, differences in self.site.differences(self.site.counted()).items():
            found[target] = []
            for month in months:
                some = [one for one in differences if one.month == month]
                found[target] += self._not_listed(target, month, some) if some else []
        return found

    def _not_listed(self, target: str, month: Month, differences: list[Difference]) -> list[Difference]:
        """Leave out what `verify` says: the month has a former name, or only a lost ledger knew of jobs not here."""
        answers, reasons = self.site.verified(target, month)
        if target != APEL:
            is_unknown = self.site.lost_ledger and not any(map(is_yes, answers))
            return [one for one in differences if one.here is not None or not is_unknown]
        there: dict[Group, Usage] = {}
        here: dict[Group, Usage] = {}
        for one in differences:
            for found, usage in ((there, one.there), (here, one.here)):
                add(found, one.what._replace(site=""), usage or (0,) * 4)
        return [] if there == here and "under the name" in reasons else differences

    def _check_numbers(self, run: Run, months: list[Month]) -> None:
        """The sync message has the number of jobs; how many more the portal shows is said (`LISTED`)."""
        shown, announced = self.site.jobs_at_apel()
        counted = Counter(month_of(one.end_time) for one in self.site.counted())
        for month in months:
            is_right = announced[month] == counted[month] or self.site.names_were_in_doubt
            assert is_right, f"sync of {month}: {announced[month]} jobs, here {counted[month]}\n{run}"
            surplus = shown[month] - counted[month]
            (answer, _sync), _reasons = self.site.verified(APEL, month)
            said = re.search(r"(\d+)( or more)? jobs? too many|(number of jobs unknown)", answer)
            least = 0 if said is None or said[3] else int(said[1])
            # Only a lost ledger knew all records with zeros.
            is_least = said is not None and bool(said[2] or said[3])
            is_right = least == surplus or (is_least and least < surplus and self.site.lost_ledger)
            assert is_right, f"verify says {answer}: {surplus} jobs too many in {month}\n{run}"

    def teardown(self) -> None:
        """In the end the operator does what is said until nothing is said any more: everything is right."""
        for _ in range(4):
            self._tick()
            run = self.site.run_publish()
            self._check(run)
            is_accepted = self.site.accept(run)
            if run.code == 0 and not is_accepted and not self.site.outdated(SGAS) | self.site.outdated(AUDITOR):
                break
            self.site.correct()
        assert run.code == 0, f"the operator does what is said, and it does not end:\n{run}"
        assert not any(self._found().values()), f"nothing more is said:\n{self._found()}"


def is_yes(answer: str) -> bool:
    """Whether an answer of `verify` is green."""
    return answer.startswith(("yes", "usage yes"))


def texts(found: Iterable[Difference]) -> str:
    """A line for each difference."""
    return "\n".join(map(str, found))


@pytest.fixture(scope="module")
def machine():
    """The machine, on a site in memory."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="arcacct-test-", dir=where) as path, pytest.MonkeyPatch.context() as patch:
        site = Publisher(pathlib.Path(path), Clock(patch))
        yield type("Histories", (Histories,), {"site": site})


class Player:
    """Plays a history whose steps depend only on its number, on any machine."""

    def __init__(self, state: Histories, number: int) -> None:
        self._state = state
        self._chance = random.Random(number)
        self._jobs: list[str] = []

    def play(self, steps: int) -> None:
        """Play all steps; the output has each of them."""
        pick = self._chance.choice
        ended = [(pick(DAYS), self._values()) for _ in range(pick([1, 2, 3]))]
        is_always = pick([True, False])
        first = self._do(
            "start", kind=pick(KINDS), recording_days=pick(RECORDING_DAYS), always_summarised=is_always, ended=ended
        )
        self._jobs += first.values
        for _ in range(steps):
            self._step(pick)
        self._do("teardown")

    def _values(self) -> dict[str, Any]:
        return {name: self._chance.choice(some) for name, some in OTHERWISE.items() if self._chance.random() < 0.5}

    def _do(self, step: str, **arguments: Any) -> Any:
        print(step, arguments)
        return getattr(self._state, step)(**arguments)

    def _step(self, pick: Callable[[list[Any]], Any]) -> None:
        do, jobs = self._do, self._jobs
        steps: list[Callable[[], object]] = [
            lambda: jobs.append(do("job_ends", days=pick(DAYS), values=self._values())),
            lambda: jobs.append(do("older_program_sent_an_impossible_job", days=pick(DAYS))),
            lambda: do("time_passes", days=pick([1, 20])),
            lambda: do("site_is_renamed"),
            lambda: do("kind_changes", kind=pick(KINDS)),
            lambda: do("ledger_is_lost"),
            lambda: do("publish"),
            lambda: do("republish_after_publish", month=pick(REPUBLISHED)),
            lambda: do("republish", month=pick(REPUBLISHED)),
            lambda: do("operator_does_what_is_said", former_names=pick(["move", "keep"])),
        ]
        if jobs:
            steps += [
                lambda: do("job_turns_out_otherwise", job=pick(jobs), values=self._values()),
                lambda: do("job_is_resumed", job=pick(jobs), values=self._values()),
                lambda: do("job_is_deleted", job=jobs.pop(self._chance.randrange(len(jobs)))),
                lambda: do("job_becomes_impossible", job=pick(jobs)),
                lambda: do("operator_decides", job=pick(jobs), decision=pick(DECISIONS)),
            ]
        pick(steps)()


@pytest.mark.parametrize("part", range(PARTS))
def test_a_history(machine, part) -> None:
    """See above."""
    for number in range(part, examples(100), PARTS):
        print(f"history {number}")
        Player(machine(), number).play(25)


@pytest.mark.skipif("ARCACCT_EXAMPLES" not in os.environ, reason="runs on request: ARCACCT_EXAMPLES=N")
def test_any_history(machine) -> None:
    """The same, as hypothesis finds and shortens them."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(100),
            stateful_step_count=25,
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
