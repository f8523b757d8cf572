"""A host whose clock is wrong: jobs of the future wait, no one is alarmed, and nothing that was sent falls."""

from __future__ import annotations

import json
import time
from collections import Counter

import pytest
from installed import arcacct
from publishing_site import DAY_S, JUNE, at_apel, at_sgas, jobs, truth
from publishing_world import FINE, Fault, World

from arcacct.cli.targets import exit_code
from arcacct.health.facts import OK

TARGETS = (
    "[arex/jura/sgas:s]\ntargeturl=https://sgas.example.org/sgas\nurbatchsize=1\n"
    "[arex/jura/apel:cars]\ntargeturl=https://ams.example.org\ngocdb_name=CARS\napel_messages=individual\n"
    "[arex/jura/apel:sums]\ntargeturl=https://ams.example.org\ngocdb_name=SUMS\napel_messages=summaries\n"
)
BEHIND_S = 40 * DAY_S
HOUR_AGO = int(time.time()) - 3600
OLD, NEW = jobs(3), [job._replace(end_time=HOUR_AGO + number) for number, job in enumerate(jobs(4, 10))]
LATE = [job._replace(end_time=HOUR_AGO + number) for number, job in enumerate(jobs(2, 20), 10)]


@pytest.fixture
def world(memory) -> World:
    """A site that publishes records, and sums."""
    return World(memory, TARGETS)


@pytest.fixture
def clock(monkeypatch):
    """The clock of this host, to be set wrong and right."""
    right = time.time

    def set_clock(behind_s: int) -> None:
        monkeypatch.setattr(time, "time", lambda: right() - behind_s)

    return set_clock


def publish(world: World, fault: Fault = FINE) -> int:
    """One run; its exit code."""
    outcomes = world.publish(fault)
    assert [one.error for one in outcomes] == [None] * 3
    return exit_code(outcomes)


def check_all_have(world: World, recorded: list) -> None:
    """Every receiver has these jobs, and the counts of the sync messages say so."""
    cars, sums = world.receivers["apel:cars"], world.receivers["apel:sums"]
    assert at_sgas(world.receivers["sgas:s"].records) == truth(recorded)
    assert at_apel(cars.job_records) == truth(recorded, by_lrms=True)
    months = Counter(time.gmtime(job.end_time)[:2] for job in recorded)
    for rows in (sums.summaries, sums.sync_records, cars.sync_records):
        found: Counter = Counter()
        for row in rows.values():
            found[row["Year"], row["Month"]] += row["NumberOfJobs"]
        assert +found == months


def test_jobs_of_the_future_wait_until_the_clock_is_right(world, clock) -> None:
    """Seen with a clock that was 40 days behind: sound records were set aside for good. They are held, and go."""
    world.record(*OLD, *NEW)
    clock(BEHIND_S)

    assert publish(world) == 0
    check_all_have(world, OLD)
    held = world.site.ledger("SELECT State, count(*) FROM HeldRecords GROUP BY State")
    assert held == [("held", 3 * len(NEW))]
    assert publish(world) == 0
    assert world.site.ledger("SELECT State, count(*) FROM HeldRecords GROUP BY State") == held
    _look(world)

    clock(0)
    assert publish(world) == 0
    check_all_have(world, OLD + NEW)
    assert world.site.held() == {}


def _look(world: World) -> None:
    """The commands say what waits, and until when; it is no trouble of the quarantine's."""
    done = arcacct("--config", world.site.path / "arc.conf", "status", "--format", "json")
    checks = {check["subject"]: check for check in json.loads(done.stdout)}
    for name in ("sgas:s", "apel:cars", "apel:sums"):
        assert checks[f"{name} quarantine"]["severity"] == OK
        assert f"{len(NEW)} with an end in the future by this host's clock" in checks[f"{name} quarantine"]["text"]
    lines = arcacct("--config", world.site.path / "arc.conf", "quarantine", "list").stdout.splitlines()[1:]
    assert len(lines) == 3 * len(NEW)
    assert all(" held " in line and "by this host's clock" in line and "tried again from 2" in line for line in lines)


def test_a_month_that_was_published_does_not_fall_when_the_clock_goes_back(world, clock) -> None:
    """What the receivers have of it stays, late jobs wait, and all is sent when the clock is right again."""
    world.record(*OLD, *NEW)
    assert publish(world) == 0
    world.record(*LATE)
    clock(BEHIND_S)

    for _ in range(2):
        assert publish(world) == 0
        check_all_have(world, OLD + NEW)
        assert world.site.ledger("SELECT * FROM TargetMonths WHERE Cause IS NOT NULL") == []
    assert {job for job, _why in world.site.held().items()} == {job.job_id for job in LATE}

    clock(0)
    assert publish(world) == 0
    check_all_have(world, OLD + NEW + LATE)
    assert world.site.held() == {}


def test_a_job_of_the_future_that_is_repaired(world, clock) -> None:
    """Recorded again with an end of the past it goes at once, and waits for nothing any more."""
    world.record(*OLD, *NEW)
    clock(BEHIND_S)
    publish(world)

    mended = [job._replace(end_time=JUNE + 100 + number) for number, job in enumerate(NEW)]
    world.record(*mended)
    assert publish(world) == 0
    check_all_have(world, OLD + mended)
    assert world.site.held() == {}


def test_a_clock_that_was_ahead_keeps_nothing_waiting(world, clock) -> None:
    """A next try that was reckoned by a clock of next year is no reason to wait until then."""
    clock(-400 * DAY_S)
    recorded = jobs(4)
    world.record(*recorded[:2])
    assert publish(world, Fault(message=0, how="refused")) == 75
    world.record(*recorded[2:])
    assert publish(world, Fault(message=0, how="refused")) == 65
    assert world.site.held()["job00000"][0] == "quarantined"

    clock(0)
    assert publish(world) == 0
    check_all_have(world, recorded)
    assert world.site.held() == {}
