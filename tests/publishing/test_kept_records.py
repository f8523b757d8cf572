"""
A target that is new, or that has a month on hold, looks at the records that may be sent, and not at the whole log; it
sends what the whole log would have it send.
"""

from __future__ import annotations

import pathlib
import re
import tempfile
from collections.abc import Iterator

import pytest
from histories import JOBS, NUMBERS, PLAY
from hypothesis import given, settings
from hypothesis import strategies as st
from publishing_site import DAY_S, JUNE, Job, at_apel, at_sgas
from publishing_world import EVERYTHING, FAR, FINE, Fault, World

from arcacct.database import access, incarnation
from arcacct.errors import FiguresHeld
from arcacct.publishing.senders import PlannedSender
from arcacct.publishing.sent import KeptRecords
from arcacct.publishing.target_run import Databases, RunOptions, TargetResult, TargetRun
from arcacct.targets import plugins

TARGETS = (
    "[arex/jura/sgas:s]\ntargeturl=https://sgas.example.org/sgas\nurbatchsize=3\n"
    "[arex/jura/apel:jobs]\ntargeturl=https://ams.example.org\ngocdb_name=ONE\napel_messages=individual\nurbatchsize=3\n"
)
BOUND = JUNE + 10 * DAY_S
ANSWERS = st.one_of(
    st.none(),
    st.just(FINE),
    # No end before a statement: the two ways to the same messages have other numbers of them.
    st.builds(
        Fault,
        statement=st.just(FAR),
        message=st.integers(0, 3),
        how=st.sampled_from(["busy", "lost", "kill-after", "kill-before"]),
    ),
)
EVENTS = st.one_of(
    st.none(),
    st.tuples(st.just("delete"), NUMBERS.map("j{}".format)),
    st.tuples(st.just("choose"), st.sampled_from(["atlas", "cms", ""])),
    st.tuples(st.just("rename"), st.sampled_from(["ONE", "SIGHT"])),
    st.tuples(st.just("host"), st.sampled_from(["lrms.example.org", "batch.example.org"])),
    st.tuples(st.just("backup")),
    st.tuples(st.just("restore"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("lose")),
)
DELETION = st.none() | st.tuples(st.just("delete"), NUMBERS.map("j{}".format))
CALM = st.lists(st.tuples(st.lists(JOBS, max_size=3), DELETION, ANSWERS), min_size=1, max_size=6)
HISTORIES = st.lists(st.tuples(st.lists(JOBS, max_size=3), EVENTS, ANSWERS), min_size=1, max_size=7)


@pytest.fixture(scope="module")
def worlds() -> Iterator[tuple[World, World]]:
    """Two sites with the same targets."""
    with tempfile.TemporaryDirectory(prefix="arcacct-test-") as path:
        yield World(pathlib.Path(path, "one"), TARGETS), World(pathlib.Path(path, "other"), TARGETS)


def play(world: World, history: list, *, whole_log: bool = False, old: int = 0) -> Iterator[object]:
    """
    What happens, and after each round what the receivers have and what is held.

    ``whole_log``: no list of what waits is used; ``old``: in each round so many jobs of long ago are recorded, too.
    """
    for number, (ended, event, fault) in enumerate(history):
        if old:
            world.record(*(Job(f"old{number}-{one}", JUNE - (200 + one) * DAY_S) for one in range(old)))
        world.record(*{job.job_id: job for job in ended}.values())
        if event is not None:
            what, *values = event
            getattr(world, what)(*values)
        if fault is not None:
            if whole_log:
                forget_what_waits(world)
            outcomes = world.publish(fault)
            # When each of the databases was made is no difference.
            errors = [re.sub(r"\d{4}-\d\d-\d\dT\S*", "", str(one.error)) for one in outcomes]
            yield [(one.target, error, records_sent(one)) for one, error in zip(outcomes, errors, strict=True)]
        yield received(world)
        yield world.site.ledger(
            "SELECT Target, Year, Month, PublishedJobs, FoundJobs FROM TargetMonths WHERE Cause IS NOT NULL"
        )


def records_sent(outcome: TargetResult) -> dict[str, int]:
    """Without sync messages: these count every job of the database."""
    return {kind: counts.records for kind, counts in outcome.summary.sent.items() if kind != "sync"}


def forget_what_waits(world: World) -> None:
    """Without the lists of what waits every run with a month on hold reads the whole log."""
    con = access.open_publishing(world.here)
    con.execute("DELETE FROM DBConfig WHERE KeyName LIKE 'WAITING_RECORDS %'")
    con.close()


def received(world: World) -> object:
    """The records that each receiver has."""
    sgas, apel = world.receivers["sgas:s"], world.receivers["apel:jobs"]
    return at_sgas(sgas.records), at_apel(apel.job_records)


@PLAY
@given(HISTORIES)
def test_the_list_of_what_waits_sends_what_the_whole_log_would(worlds, history) -> None:
    """Filters, names and databases change, months are held and released: after each run both sites are the same."""
    by_list, by_log = worlds
    by_list.begin()
    by_log.begin()

    steps = zip(play(by_list, history), play(by_log, history, whole_log=True), strict=True)
    for one, other in steps:
        assert one == other


@settings(PLAY, max_examples=PLAY.max_examples // 2)
@given(CALM)
def test_a_target_finds_by_their_ends_what_the_whole_log_has(worlds, history) -> None:
    """Among many jobs of long ago a target sends what it sends without them; ends move across the bound of its time."""
    short, long = worlds
    for world in worlds:
        world.begin()
        world.since = BOUND
    try:
        steps = zip(play(short, history), play(long, history, old=60), strict=True)
        for one, other in steps:
            assert one == other
    finally:
        for world in worlds:
            world.since = 1


class Counted:
    """About how many steps of SQLite's machine a run of one target takes."""

    def __init__(self) -> None:
        self.steps = 0

    def of(self, world: World, since: int, target: str) -> int:
        self.steps = 0
        both = Databases(access.open_accounting(world.here), access.open_publishing(world.here))
        begun = incarnation.begin_run(both.accounting, both.publishing, world.here)
        for con in both:
            con.set_progress_handler(self._count, 20)
        (plugin,) = plugins(world.site.settings, target)
        options = RunOptions(
            now=True, since=since, dry_run=True, make_sender=lambda plugin: PlannedSender(plugin.sender, None, plugin)
        )
        outcome = TargetRun(plugin, both, options).publish(begun.horizon)
        assert outcome.error is None or isinstance(outcome.error, FiguresHeld), outcome.error
        for con in both:
            con.set_progress_handler(None, 0)
            con.close()
        return self.steps

    def _count(self) -> int:
        self.steps += 20
        return 0


def old_jobs(count: int) -> list[Job]:
    """Jobs of two years before June."""
    return [Job(f"o{number}", JUNE - 800 * DAY_S + number * 600 * DAY_S // count, vo="cms") for number in range(count)]


@pytest.mark.parametrize("target", ["sgas:s", "apel:jobs"])
def test_a_new_target_costs_what_it_sends(worlds, target) -> None:
    """Six jobs that ended in its time, behind a log of 100 and one of 1000."""
    costs = []
    for world, count in zip(worlds, (100, 1000), strict=True):
        world.begin()
        world.record(*old_jobs(count), *(Job(f"new{number}", JUNE + number) for number in range(6)))
        costs.append(Counted().of(world, JUNE, target))

    assert costs[1] < 1.5 * costs[0] + 500, costs


@pytest.mark.campaign
def test_a_month_on_hold_costs_what_waits(worlds) -> None:
    """Two jobs wait for a month that is published under another name, behind a log of 100 and one of 1000."""
    costs = []
    for world, count in zip(worlds, (100, 1000), strict=True):
        world.begin()
        world.record(*old_jobs(count), Job("first", JUNE))
        assert all(one.error is None for one in world.publish())
        world.rename("SIGHT")
        world.record(Job("a", JUNE + 1), Job("b", JUNE + 2))
        (outcome,) = [one for one in world.publish() if one.target == "apel:jobs"]
        assert "under the name ONE" in str(outcome.error)
        costs.append(Counted().of(world, 1, "apel:jobs"))
        (outcome,) = [one for one in world.publish() if one.target == "apel:jobs"]
        assert "under the name ONE" in str(outcome.error)

    assert costs[1] < 1.5 * costs[0] + 500, costs


@pytest.mark.parametrize("target", ["sgas:s", "apel:jobs"])
def test_a_month_on_hold_costs_nothing_while_nothing_changes(worlds, target) -> None:
    """A mistyped filter keeps 20 jobs at the receiver, and 400: a run after the one that found them costs the same."""
    costs = []
    for world, count in zip(worlds, (20, 400), strict=True):
        world.begin()
        world.record(*(Job(f"j{number}", JUNE + number) for number in range(count)))
        assert all(one.error is None for one in world.publish())
        world.site.configure(re.sub("(targeturl=.*\n)", r"\1vofilter=cms\n", TARGETS))
        errors = [str(one.error) for one in world.publish()]
        assert all(f"{count} would be changed, moved or removed without proof" in error for error in errors)
        costs.append(Counted().of(world, 1, target))
        assert [str(one.error) for one in world.publish()] == errors

    # It looks whether the log still has their places.
    assert costs[1] - costs[0] < 10 * 380, costs


DROPPED = (
    "INSERT INTO HeldRecords (Target, JobID, RecordID, Seq, EndTime, State, Reason, Since)"
    " VALUES ('arex/jura/apel:jobs', 'b', 1, 1, 1, 'dropped', 'an operator wants it never sent', 1)"
)


@pytest.mark.parametrize("change", ["dropped", "pseudonym", "deleted", "republished"])
def test_records_of_a_month_on_hold_are_checked_again_after_a_change(worlds, change) -> None:
    """An operator drops one, or its user is forgotten, or it is deleted, or the month is sent again with the filter."""
    world, _other = worlds
    world.begin()
    world.record(*(Job(name, JUNE + number) for number, name in enumerate("abc")))
    world.publish()
    world.choose("cms")
    for _ in range(2):
        assert "3 jobs published, and 3 would be changed" in apel_error(world)

    if change == "deleted":
        world.delete("b")
    elif change == "republished":
        world.republish(EVERYTHING)
    else:
        open_one = access.open_publishing if change == "dropped" else access.open_accounting
        con = open_one(world.here)
        con.execute(DROPPED if change == "dropped" else "INSERT INTO PseudonymisedRecords VALUES (2)")
        con.close()
    kept = 3 if change == "republished" else 2
    assert f"3 jobs published, and {kept} would be changed" in apel_error(world)
    published = 2 if change == "deleted" else 3
    assert f"{published} jobs published, and {kept} would be changed" in apel_error(world)


def apel_error(world: World) -> str:
    """The error of a run of the target at APEL."""
    (outcome,) = [one for one in world.publish() if one.target == "apel:jobs"]
    return str(outcome.error)


def test_places_in_the_log_are_noted_as_spans() -> None:
    """Those of an earlier run and of this one; each is counted once."""
    noted = KeptRecords(noted=[(2, 4), (8, 8)])
    assert [place for place in range(10) if noted.is_noted(place)] == [2, 3, 4, 8]
    noted.places |= {1, 5, 7, 11}
    assert noted.spans() == [(1, 5), (7, 8), (11, 11)]
