"""Months in the ledger: which are held, since when, and what operators accepted of them. Without a receiver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from ledger_rows import ONE, OTHER, new_ledger

from arcacct.database.connection import Connection
from arcacct.publishing import ledger, safeguard
from arcacct.publishing.ledger import MonthSnapshot
from arcacct.publishing.safeguard import HeldMonth, MonthFormat

APRIL, MAY, JUNE = (2026, 4), (2026, 5), (2026, 6)


@pytest.fixture
def con() -> Iterator[Connection]:
    """A ledger of two targets."""
    with closing(new_ledger()) as found:
        yield found


def held(con: Connection, target: str = ONE) -> dict[tuple[int, int], tuple[str, int]]:
    """Cause, and since when, of each month of a target that is held."""
    return {(one.year, one.month): (one.cause, one.since_s) for one in safeguard.held(con, target).get(target, [])}


def test_months_are_held_until_they_are_looked_at_again(con: Connection) -> None:
    """Each target has its own; one that stays held keeps the time since when, and says its cause of today."""
    of_april, of_may = HeldMonth(*APRIL, "fell", 5, 3), HeldMonth(*MAY, "fell", 7, 0)
    safeguard.set_held(con, OTHER, [of_april], None)
    safeguard.set_held(con, ONE, [of_april, of_may], None)
    con.execute("UPDATE HeldMonths SET Since = Month")
    assert held(con) == {APRIL: ("fell", 4), MAY: ("fell", 5)}
    assert safeguard.held_month(con, ONE, MAY) == of_may._replace(since_s=5)
    assert safeguard.held_month(con, ONE, JUNE) is None
    assert list(safeguard.held(con)) == [ONE, OTHER]

    safeguard.set_held(con, ONE, [of_may._replace(cause="fell again")], [MAY])
    assert held(con) == {APRIL: ("fell", 4), MAY: ("fell again", 5)}
    safeguard.set_held(con, ONE, [], [MAY, JUNE])
    assert held(con) == {APRIL: ("fell", 4)}
    safeguard.set_held(con, ONE, [HeldMonth(*JUNE, "fell", 1, 0)], None)
    assert list(held(con)) == [JUNE]
    assert held(con, OTHER) == {APRIL: ("fell", 4)}


def test_a_word_about_a_month_is_used_once(con: Connection) -> None:
    """It is of a target and of a life of the database; that it was said at all is remembered."""
    safeguard.accept(con, ONE, [APRIL, MAY], "life", "ada")
    safeguard.accept(con, OTHER, [MAY], "life", "ada")
    assert safeguard.accepted(con, ONE, "life") == ({APRIL, MAY}, {APRIL, MAY})
    assert safeguard.accepted(con, ONE, "another life") == (set(), set())

    safeguard.close_accepted(con, ONE, but=[MAY])
    assert safeguard.accepted(con, ONE, "life") == ({MAY}, {APRIL, MAY})
    safeguard.close_accepted(con, ONE)
    assert safeguard.accepted(con, ONE, "life") == (set(), {APRIL, MAY})
    assert safeguard.accepted(con, OTHER, "life") == ({MAY}, {MAY})


def test_what_a_target_selected_is_noted_by_column(con: Connection) -> None:
    """When nothing was held last, and when the log was gone through; of another target nothing."""
    assert safeguard.selections(con, ONE) == (None, None)
    assert safeguard.selections(con, "nobody") == (None, None)
    safeguard.set_selection(con, ONE, "FullScanSelection", {"vofilter": ["atlas"]})
    assert safeguard.selections(con, ONE) == (None, {"vofilter": ["atlas"]})
    safeguard.set_selection(con, ONE, "LastGoodSelection", {"vofilter": []})
    assert safeguard.selections(con, ONE) == ({"vofilter": []}, {"vofilter": ["atlas"]})
    assert safeguard.selections(con, OTHER) == (None, None)


def test_what_was_published_is_of_one_target(con: Connection) -> None:
    """Its months, with the kind of messages each is in and how far its sums are proven."""
    ledger.record_intent(con, ONE, [], proofs=[MonthSnapshot(*MAY, "summaries", 7, "life")])
    ledger.record_intent(con, OTHER, [], proofs=[MonthSnapshot(*JUNE, "summaries", 9, "life")])
    (sent,) = con.execute("SELECT Sent FROM MonthFormats WHERE Target = ?", (ONE,)).fetchone()

    assert safeguard.published(con, ONE) == {MAY: MonthFormat("summaries", 7, "life", sent)}
    assert list(safeguard.published(con, OTHER)) == [JUNE]
