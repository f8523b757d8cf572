"""Months in the ledger: which are held, since when, and what operators accepted of them. Without a receiver."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import closing

import pytest
from ledger_rows import ONE, OTHER, new_ledger

from arcacct.database.connection import Connection, open_database
from arcacct.database.schema import PUBLISHING, ensure, in_memory
from arcacct.publishing import ledger, target_months
from arcacct.publishing.cursors import selections, set_selection
from arcacct.publishing.target_months import HeldMonth, MonthFormat, MonthSnapshot

APRIL, MAY, JUNE = (2026, 4), (2026, 5), (2026, 6)


@pytest.fixture
def con() -> Iterator[Connection]:
    """A ledger of two targets."""
    with closing(new_ledger()) as found:
        yield found


def held(con: Connection, target: str = ONE) -> dict[tuple[int, int], tuple[str, int]]:
    """Cause, and since when, of each month of a target that is held."""
    found = target_months.held(target_months.load(con, target))
    return {month: (one.cause, one.since_s) for month, one in found.items()}


def test_months_are_held_until_they_are_looked_at_again(con: Connection) -> None:
    """Each target has its own; one that stays held keeps the time since when, and says its cause of today."""
    of_april, of_may = HeldMonth(*APRIL, "fell", 5, 3), HeldMonth(*MAY, "fell", 7, 0, remedy="wait")
    target_months.set_held(con, OTHER, [of_april])
    target_months.set_held(con, ONE, [of_april, of_may])
    con.execute("UPDATE TargetMonths SET HeldSince = Month")
    assert held(con) == {APRIL: ("fell", 4), MAY: ("fell", 5)}
    assert target_months.load(con, ONE)[MAY].held == of_may._replace(since_s=5)

    target_months.set_held(con, ONE, [of_may._replace(cause="fell again")], [MAY])
    assert held(con) == {APRIL: ("fell", 4), MAY: ("fell again", 5)}
    target_months.set_held(con, ONE, [], [MAY, JUNE])
    assert held(con) == {APRIL: ("fell", 4)}
    target_months.end_run(con, ONE, [HeldMonth(*JUNE, "fell", 1, 0)], 1, is_whole=False)
    assert list(held(con)) == [APRIL, JUNE]
    target_months.end_run(con, ONE, [HeldMonth(*JUNE, "fell", 1, 0)], 1, is_whole=True)
    assert list(held(con)) == [JUNE]
    assert held(con, OTHER) == {APRIL: ("fell", 4)}


def test_a_word_about_a_month_is_used_once(con: Connection) -> None:
    """It is of a target and of a life of the database; that it was said at all is remembered."""
    target_months.decide(con, ONE, [APRIL, MAY], target_months.LOWER, "ada", "life")
    target_months.decide(con, OTHER, [MAY], target_months.LOWER, "ada", "life")
    assert target_months.accepted(con, ONE, "life") == ({APRIL, MAY}, {APRIL, MAY})
    assert target_months.accepted(con, ONE, "another life") == (set(), set())

    target_months.set_held(con, ONE, [HeldMonth(*MAY, "fell", 7, 0)])
    target_months.end_run(con, ONE, [], 1, is_whole=False)
    assert target_months.accepted(con, ONE, "life") == ({MAY}, {APRIL, MAY})
    target_months.end_run(con, ONE, [], 1, is_whole=True)
    assert target_months.accepted(con, ONE, "life") == (set(), {APRIL, MAY})
    assert target_months.accepted(con, OTHER, "life") == ({MAY}, {MAY})


def test_what_a_lost_ledger_knew_of_every_target_counts_for_each(con: Connection) -> None:
    """Until the target has an answer of its own; what else its row says is not changed by that."""
    con.execute("INSERT INTO TargetMonths (Target, Year, Month, UncertainSince) VALUES ('', 2026, 5, 1)")
    target_months.set_held(con, ONE, [HeldMonth(*MAY, "fell", 7, 0)])
    for target in (ONE, OTHER):
        assert target_months.uncertain(target_months.load(con, target)) == {MAY: (None, None, 0)}

    target_months.resolve_uncertain(con, ONE, [MAY, JUNE])
    assert list(held(con)) == [MAY]
    assert target_months.uncertain(target_months.load(con, ONE))[MAY].answered_s is not None
    assert target_months.uncertain(target_months.load(con, OTHER))[MAY].answered_s is None


def test_a_month_before_the_uncertain_ones_is_uncertain_once_it_is_asked_about(con: Connection) -> None:
    """An operator who accepts it answers that; the first uncertain month stays the first."""
    con.execute("INSERT INTO TargetMonths (Target, Year, Month, UncertainSince) VALUES (?, 2026, 5, 1)", (ONE,))
    assert target_months.untouched(target_months.load(con, ONE), [APRIL, MAY, JUNE]) == {APRIL}

    target_months.decide(con, ONE, [APRIL, JUNE], target_months.LOWER, "ada", "life")
    known = target_months.load(con, ONE)
    assert {month: one.is_earlier for month, one in target_months.uncertain(known).items()} == {APRIL: 1, MAY: 0}
    assert target_months.untouched(known, [APRIL, MAY, JUNE]) == set()
    assert target_months.uncertain_before(known) == MAY


def test_what_a_target_selected_is_noted_by_column(con: Connection) -> None:
    """When nothing was held last, and when the log was gone through; of another target nothing."""
    assert selections(con, ONE) == (None, None)
    assert selections(con, "nobody") == (None, None)
    set_selection(con, ONE, "FullScanSelection", {"vofilter": ["atlas"]})
    assert selections(con, ONE) == (None, {"vofilter": ["atlas"]})
    set_selection(con, ONE, "LastGoodSelection", {"vofilter": []})
    assert selections(con, ONE) == ({"vofilter": []}, {"vofilter": ["atlas"]})
    assert selections(con, OTHER) == (None, None)


def test_what_was_published_is_of_one_target(con: Connection) -> None:
    """Its months, with the kind of messages each is in and how far its sums are proven."""
    ledger.record_intent(con, ONE, [], proofs=[MonthSnapshot(*MAY, "summaries", 7, "life")])
    ledger.record_intent(con, OTHER, [], proofs=[MonthSnapshot(*JUNE, "summaries", 9, "life")])
    (sent,) = con.execute("SELECT Sent FROM TargetMonths WHERE Target = ?", (ONE,)).fetchone()

    assert target_months.load(con, ONE)[MAY].format == MonthFormat("summaries", 7, "life", sent)
    assert target_months.kinds(con, ONE) == {MAY: "summaries"}
    assert list(target_months.kinds(con, OTHER)) == [JUNE]


def test_what_five_tables_of_0_2_said_of_a_month_is_in_one_row_after_an_upgrade(tmp_path: pathlib.Path) -> None:
    """Each month keeps what any of them said; what operators decided stays, in its order."""
    of_table = {
        "Months": f"('{ONE}', 2026, 5, 'summaries', 7, 'life', 9), ('{OTHER}', 2026, 5, 'car', NULL, NULL, NULL)",
        "HeldMonths": f"('{ONE}', 2026, 5, 'fell', 7, 3, 5), ('{ONE}', 2026, 4, 'fell', 2, 1, 4)",
        "OpenMonths": f"('{ONE}', 2026, 5), ('{ONE}', 2026, 6)",
        "RefusedSums": f"('{ONE}', 'summaries', 2026, 6, 'no', 2, 3, 1), ('{ONE}', 'sync', 2026, 6, 'nor', 1, 3, 1)",
        "AcceptedMonths": f"(1, '{ONE}', 2026, 5, 'old', 1, 'ada', 0), (2, '{ONE}', 2026, 5, 'life', 2, 'bob', 1)",
    }
    path = str(tmp_path / "x.db")
    with closing(in_memory(PUBLISHING, PUBLISHING.oldest)) as con:
        for table, rows in of_table.items():
            con.execute(f"INSERT INTO {table} VALUES {rows}")
        con.execute("VACUUM INTO ?", (path,))

    ensure(path, PUBLISHING)

    with closing(open_database(path, PUBLISHING.schema)) as con:
        known = target_months.load(con, ONE)
        assert list(known) == [APRIL, MAY, JUNE]
        assert known[MAY].format == MonthFormat("summaries", 7, "life", 9)
        assert known[MAY].held == HeldMonth(*MAY, "fell", 7, 3, 5)
        assert known[MAY].uncertain is None
        assert (known[APRIL].format, known[APRIL].held) == (None, HeldMonth(*APRIL, "fell", 2, 1, 4))
        assert target_months.unfinished(con, ONE) == {MAY, JUNE}
        assert known[JUNE].refused == {"summaries": ("no", 2, 3), "sync": ("nor", 1, 3)}
        assert target_months.kinds(con, OTHER) == {MAY: "car"}
        assert target_months.accepted(con, ONE, "life") == ({MAY}, {MAY})
        assert target_months.accepted(con, ONE, "old") == (set(), {MAY})
        assert target_months.decisions(con, ONE, target_months.LOWER) == {MAY: ("lower", "bob", 2)}
