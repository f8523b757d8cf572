"""Months in the ledger: which are held, since when, and what operators accepted of them. Without a receiver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from ledger_rows import ONE, OTHER, new_ledger

from arcacct.database.connection import Connection
from arcacct.publishing import ledger, months
from arcacct.publishing.ledger import MonthSnapshot
from arcacct.publishing.months import HeldMonth, MonthFormat

APRIL, MAY, JUNE = (2026, 4), (2026, 5), (2026, 6)


@pytest.fixture
def con() -> Iterator[Connection]:
    """A ledger of two targets."""
    with closing(new_ledger()) as found:
        yield found


def held(con: Connection, target: str = ONE) -> dict[tuple[int, int], tuple[str, int]]:
    """Cause, and since when, of each month of a target that is held."""
    return {(one.year, one.month): (one.cause, one.since_s) for one in months.held(con, target).get(target, [])}


def test_months_are_held_until_they_are_looked_at_again(con: Connection) -> None:
    """Each target has its own; one that stays held keeps the time since when, and says its cause of today."""
    of_april, of_may = HeldMonth(*APRIL, "fell", 5, 3), HeldMonth(*MAY, "fell", 7, 0)
    months.set_held(con, OTHER, [of_april], None)
    months.set_held(con, ONE, [of_april, of_may], None)
    con.execute("UPDATE HeldMonths SET Since = Month")
    assert held(con) == {APRIL: ("fell", 4), MAY: ("fell", 5)}
    assert months.held_month(con, ONE, MAY) == of_may._replace(since_s=5)
    assert months.held_month(con, ONE, JUNE) is None
    assert list(months.held(con)) == [ONE, OTHER]

    months.set_held(con, ONE, [of_may._replace(cause="fell again")], [MAY])
    assert held(con) == {APRIL: ("fell", 4), MAY: ("fell again", 5)}
    months.set_held(con, ONE, [], [MAY, JUNE])
    assert held(con) == {APRIL: ("fell", 4)}
    months.set_held(con, ONE, [HeldMonth(*JUNE, "fell", 1, 0)], None)
    assert list(held(con)) == [JUNE]
    assert held(con, OTHER) == {APRIL: ("fell", 4)}


def test_a_word_about_a_month_is_used_once(con: Connection) -> None:
    """It is of a target and of a life of the database; that it was said at all is remembered."""
    months.accept(con, ONE, [APRIL, MAY], "life", "ada")
    months.accept(con, OTHER, [MAY], "life", "ada")
    assert months.accepted(con, ONE, "life") == ({APRIL, MAY}, {APRIL, MAY})
    assert months.accepted(con, ONE, "another life") == (set(), set())

    months.close_accepted(con, ONE, but=[MAY])
    assert months.accepted(con, ONE, "life") == ({MAY}, {APRIL, MAY})
    months.close_accepted(con, ONE)
    assert months.accepted(con, ONE, "life") == (set(), {APRIL, MAY})
    assert months.accepted(con, OTHER, "life") == ({MAY}, {MAY})


def test_what_a_target_selected_is_noted_by_column(con: Connection) -> None:
    """When nothing was held last, and when the log was gone through; of another target nothing."""
    assert months.selections(con, ONE) == (None, None)
    assert months.selections(con, "nobody") == (None, None)
    months.set_selection(con, ONE, "Walked", {"vofilter": ["atlas"]})
    assert months.selections(con, ONE) == (None, {"vofilter": ["atlas"]})
    months.set_selection(con, ONE, "Selection", {"vofilter": []})
    assert months.selections(con, ONE) == ({"vofilter": []}, {"vofilter": ["atlas"]})
    assert months.selections(con, OTHER) == (None, None)


def test_what_was_published_is_of_one_target(con: Connection) -> None:
    """Its months, with the kind of messages each is in and how far its sums are proven."""
    ledger.record_intent(con, ONE, [], proofs=[MonthSnapshot(*MAY, "summaries", 7, "life")])
    ledger.record_intent(con, OTHER, [], proofs=[MonthSnapshot(*JUNE, "summaries", 9, "life")])
    (sent,) = con.execute("SELECT Sent FROM Months WHERE Target = ?", (ONE,)).fetchone()

    assert months.published(con, ONE) == {MAY: MonthFormat("summaries", 7, "life", sent)}
    assert list(months.published(con, OTHER)) == [JUNE]
