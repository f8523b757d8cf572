"""Records that are held back: whose time has come, whom an operator means, and what is told of each. In memory."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import closing

import pytest
from ledger_rows import MAY, ONE, OTHER, new_ledger, record, send, set_aside
from publishing_site import Site

from arcacct.database.connection import Connection
from arcacct.errors import InputError
from arcacct.publishing import held
from arcacct.publishing.held import RefusalHistory, RetrySummary, RetryThresholds
from arcacct.publishing.ledger import HeldRecord
from arcacct.publishing.sent import MANY
from arcacct.times import LAST_SECOND

DAY_S = 86_400
APRIL = MAY - 20 * DAY_S
NOW = MAY + 100 * DAY_S
DUE = RetryThresholds(settled_at=MAY, now=NOW, run=5)


@pytest.fixture
def con() -> Iterator[Connection]:
    """A ledger of two targets."""
    with closing(new_ledger()) as found:
        yield found


def to_send(con: Connection, *, refused: bool = False, due: RetryThresholds = DUE) -> list[str]:
    """The jobs whose time has come."""
    return [job_id for job_id, _state in held.held_to_send(con, ONE, due, refused=refused)]


def states(con: Connection, target: str = ONE) -> dict[str, str]:
    """The state of each job that is set aside."""
    return {one.job_id: one.state for one in held.held_entries(con, target=target)}


@pytest.mark.parametrize(
    ("state", "values", "is_due"),
    [
        ("held", {}, True),
        ("held", {"end_time": MAY + 1}, False),
        ("held", {"next_try": NOW}, True),
        ("held", {"next_try": NOW + 1}, False),
        ("held", {"next_try": 0}, True),
        ("held", {"next_try": NOW, "refused_run": 5}, False),
        ("quarantined", {}, False),
        ("quarantined", {"next_try": NOW}, True),
        ("quarantined", {"next_try": NOW + 1}, False),
        ("correction", {"next_try": NOW}, False),
        ("correction", {}, False),
        ("retry", {"end_time": MAY + 1, "refused_run": 5}, True),
        ("dropped", {"next_try": NOW}, False),
    ],
)
@pytest.mark.parametrize("refusals", [0, 1, 2])
def test_whose_time_has_come(con: Connection, state: str, values: dict[str, int], is_due: bool, refusals: int) -> None:
    """What the receiver has refused is asked for apart from the rest; months are those of both."""
    set_aside(con, "one", state, **values, refusals=refusals)
    con.execute("UPDATE HeldRecords SET Tried = 1")
    set_aside(con, "another", "retry", target=OTHER, end_time=APRIL)

    assert to_send(con, refused=refusals > 0) == ["one"] * is_due
    assert to_send(con, refused=refusals == 0) == []
    assert held.held_months(con, ONE, DUE) == ({(2026, 5)} if is_due else set())


def test_a_try_that_lies_ahead_was_noted_by_a_wrong_clock(con: Connection) -> None:
    """So was the time of the next one: it is tried at once; one that was tried now waits."""
    set_aside(con, "one", next_try=NOW + 99 * DAY_S)
    con.execute("UPDATE HeldRecords SET Tried = ?", (NOW,))
    assert to_send(con) == []
    con.execute("UPDATE HeldRecords SET Tried = ?", (NOW + 1,))
    assert to_send(con) == ["one"]


def test_months_of_ends_that_are_no_times_are_none(con: Connection) -> None:
    """A record whose end no one can read is in no month."""
    for number, end_time in enumerate([0, -1, LAST_SECOND + 1, 1, LAST_SECOND]):
        set_aside(con, f"job{number}", "retry", end_time=end_time)
    assert held.held_months(con, ONE, DUE) == {(1970, 1), (9999, 12)}


def test_held_records_come_in_pages(con: Connection) -> None:
    """By JobID, each behind the last one of the page before."""
    for name in ("b", "a", "c"):
        set_aside(con, name, "retry")
    page = held.held_to_send(con, ONE, DUE, refused=False)
    assert page == [("a", "retry"), ("b", "retry"), ("c", "retry")]
    assert held.held_to_send(con, ONE, DUE, refused=False, after="a") == page[1:]


def test_what_waits_by_itself_is_counted_by_its_reason(con: Connection) -> None:
    """What was refused and is not believed, and what waits for a time; neither what settles nor what is believed."""
    assert held.retry_summaries(con, ONE) == (None, None)
    set_aside(con, "a", next_try=30, refusals=1)
    set_aside(con, "b", next_try=20, refusals=2)
    set_aside(con, "c", next_try=40)
    set_aside(con, "settles")
    set_aside(con, "believed", "quarantined", next_try=10)
    set_aside(con, "d", target=OTHER, next_try=1)
    con.execute("UPDATE HeldRecords SET Since = unicode(JobID)")

    assert held.retry_summaries(con, ONE) == (RetrySummary(2, 20, ord("a")), RetrySummary(1, 40, ord("c")))


def test_refusals_are_remembered_by_job_and_target(con: Connection) -> None:
    """In how many runs, and in which last."""
    set_aside(con, "one", refusals=2, refused_run=7)
    set_aside(con, "one", "quarantined", target=OTHER, refusals=3, refused_run=8)
    assert held.refusals(con, ONE, "one") == RefusalHistory("held", 2, 7)
    assert held.refusals(con, OTHER, "one") == RefusalHistory("quarantined", 3, 8)
    assert held.refusals(con, ONE, "two") is None


@pytest.mark.parametrize(
    ("before", "state", "is_new"),
    [
        (None, "held", False),
        (None, "quarantined", True),
        ("held", "quarantined", True),
        ("quarantined", "quarantined", False),
        ("quarantined", "correction", True),
        ("correction", "correction", False),
        ("dropped", "quarantined", False),
    ],
)
def test_what_is_reported_once(con: Connection, before: str | None, state: str, is_new: bool) -> None:
    """Not of what goes by itself soon, nor of what an operator has dropped."""
    if before is not None:
        set_aside(con, "one", before)
    set_aside(con, "one", "quarantined" if state != "quarantined" else "dropped", target=OTHER)
    one = HeldRecord(record("one"), state, "why")
    assert held.newly_held(con, ONE, [one]) == [one] * is_new


def test_a_released_record_waits_for_nothing(con: Connection) -> None:
    """At that target, and unless an operator has dropped it."""
    for name in ("one", "two"):
        set_aside(con, name)
        set_aside(con, name, target=OTHER)
    set_aside(con, "dropped", "dropped")

    held.unhold(con, ONE, ["one", "dropped"])
    assert states(con) == {"two": "held", "dropped": "dropped"}
    assert states(con, OTHER) == {"one": "held", "two": "held"}


def test_of_a_month_of_sums_exactly_these_are_quarantined(con: Connection) -> None:
    """What ended in the periods and is not among them waits no more; of other times, and targets, nothing changes."""
    set_aside(con, "first", "quarantined", end_time=MAY)
    set_aside(con, "last", "quarantined", end_time=MAY + 9)
    set_aside(con, "stays", "quarantined", end_time=MAY + 9)
    set_aside(con, "before", "quarantined", end_time=MAY - 1)
    set_aside(con, "after", "quarantined", end_time=MAY + 10)
    set_aside(con, "dropped", "dropped", end_time=MAY)
    set_aside(con, "first", "quarantined", target=OTHER)

    periods = [(MAY, MAY + 10), (MAY + 50, MAY + 60)]
    known = held.held_within(con, ONE, periods)
    assert known == {"first", "last", "stays"}
    aside = [HeldRecord(record(name, end_time=MAY + 9), "quarantined", "why") for name in ("stays", "new", "dropped")]
    assert held.hold_only(con, ONE, aside, known) == 1
    assert states(con) == {**dict.fromkeys(("before", "stays", "new", "after"), "quarantined"), "dropped": "dropped"}
    assert states(con, OTHER) == {"first": "quarantined"}


def test_states_of_more_jobs_than_go_into_one_question(con: Connection) -> None:
    """Each page is asked for, and those that are not set aside are left out."""
    names = [f"job{number:04d}" for number in range(MANY + 2)]
    for name in (names[0], names[1], names[MANY], names[-1]):
        set_aside(con, name)
    set_aside(con, names[2], target=OTHER)
    assert set(held.states(con, ONE, names)) == {names[0], names[1], names[MANY], names[-1]}
    assert held.states(con, ONE, []) == {}


def test_the_earliest_end_that_is_not_delivered(con: Connection) -> None:
    """Of what is held back or has no answer; what is not sent any more holds nothing back, nor do ends of no time."""
    assert held.earliest_undelivered_end(con, ONE) is None
    set_aside(con, "correction", "correction", end_time=5)
    set_aside(con, "dropped", "dropped", end_time=5)
    set_aside(con, "other", end_time=5, target=OTHER)
    set_aside(con, "no-time", end_time=0)
    send(con, record("sent", end_time=5))
    assert held.earliest_undelivered_end(con, ONE) is None
    set_aside(con, "held", end_time=30)
    assert held.earliest_undelivered_end(con, ONE) == 30
    held.change_state(con, ONE, ["held"], "retry")
    assert held.earliest_undelivered_end(con, ONE) == 30


def test_what_is_reported_of_another_try(con: Connection) -> None:
    """When, with the next run, or nothing where there is none by itself."""
    set_aside(con, "a", next_try=MAY)
    set_aside(con, "b", next_try=0)
    set_aside(con, "c", "quarantined", next_try=MAY)
    set_aside(con, "d", "correction", next_try=MAY)
    set_aside(con, "e")
    when = "tried again from 2026-05-05T16:53:20Z"
    found = held.held_entries(con)
    assert [one.retry_text for one in found] == [when, "tried again with the next run", when, "", ""]


def test_what_is_asked_for_is_listed(con: Connection) -> None:
    """Of a job, of a target, of both, of all; by target and end."""
    set_aside(con, "one", end_time=MAY + 1)
    set_aside(con, "two", end_time=MAY)
    set_aside(con, "one", target=OTHER)

    def listed(**asked: str) -> list[tuple[str, str]]:
        return [(one.target, one.job_id) for one in held.held_entries(con, **asked)]

    assert listed() == [(ONE, "two"), (ONE, "one"), (OTHER, "one")]
    assert listed(target=ONE) == [(ONE, "two"), (ONE, "one")]
    assert listed(job_id="one") == [(ONE, "one"), (OTHER, "one")]
    assert listed(target=OTHER, job_id="one") == [(OTHER, "one")]
    assert listed(target=OTHER, job_id="two") == []


def test_an_operators_word_is_for_whom_they_name(con: Connection) -> None:
    """By job at one target or at all; without names all that do not go by themselves, and nothing dropped."""
    for target in (ONE, OTHER):
        set_aside(con, "bad", "quarantined", target=target)
        set_aside(con, "other", "correction", target=target)
        set_aside(con, "waits", next_try=MAY, target=target)
        set_aside(con, "settles", target=target)
        set_aside(con, "dropped", "dropped", target=target)
    assert held.change_state(con, ONE, ["bad", "settles"], "dropped") == 2
    assert states(con) == {
        **dict.fromkeys(("bad", "settles", "dropped"), "dropped"),
        "other": "correction",
        "waits": "held",
    }
    assert held.change_state(con, None, ["bad"], "retry") == 2
    assert (states(con)["bad"], states(con, OTHER)["bad"]) == ("retry", "retry")

    assert held.change_state(con, OTHER, [], "dropped") == 2
    assert held.change_state(con, ONE, [], "retry") == 2
    assert states(con) == {
        **dict.fromkeys(("bad", "other", "waits"), "retry"),
        **dict.fromkeys(("settles", "dropped"), "dropped"),
    }
    assert states(con, OTHER) == {
        "bad": "retry",
        "settles": "held",
        **dict.fromkeys(("other", "waits", "dropped"), "dropped"),
    }


def test_a_word_about_a_job_that_is_not_quarantined_changes_nothing(con: Connection) -> None:
    """The whole of it: also not for those that were named before it."""
    set_aside(con, "bad", "quarantined")
    with pytest.raises(InputError, match=rf"^good: not quarantined at {ONE}; see"):
        held.change_state(con, ONE, ["bad", "good"], "retry")
    with pytest.raises(InputError, match=r"^good: not quarantined; see"):
        held.change_state(con, None, ["good"], "retry")
    assert states(con) == {"bad": "quarantined"}


def test_keys_of_which_a_receiver_has_older_versions(con: Connection, tmp_path: pathlib.Path) -> None:
    """Of the corrections of that target alone, by what the receiver knows them by; none is an error that says so."""
    (target,) = Site(tmp_path, targets="[arex/jura/sgas:one]\ntargeturl=https://localhost:9/sgas\n").settings.targets
    assert target.block == ONE
    for name in ("b", "a", "bad"):
        send(con, record(name))
    send(con, record("a", key="key-new"), origin="republish")
    set_aside(con, "bad", "quarantined")
    set_aside(con, "bad", "correction", target=OTHER)
    with pytest.raises(InputError, match=r"^sgas:one: nothing is quarantined as a correction"):
        held.outdated(con, target)

    for name in ("b", "a"):
        set_aside(con, name, "correction")
    assert held.outdated(con, target) == ["key-a", "key-b", "key-new"]
