"""What the ledger says that a receiver was given, by place and month. In memory, of one target next to another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from ledger_rows import ONE, OTHER, begin, new_ledger, one_sum, record, send

from arcacct.database.connection import Connection
from arcacct.publishing.ledger import COUNTS
from arcacct.publishing.sent import Amount, CountingKey, published_jobs, published_sums, totals

HERE, THERE = CountingKey("SITE", "ce", 2026, 5), CountingKey("SITE", "ce2", 2026, 5)


@pytest.fixture
def con() -> Iterator[Connection]:
    """A ledger of two targets."""
    with closing(new_ledger()) as found:
        yield found


def test_amounts_of_a_place_are_added_up() -> None:
    """A wall time that no one knows makes the sum one that no one knows, whichever comes first."""
    assert totals([]) == {}
    assert totals([(HERE, Amount(1, 10)), (THERE, Amount(4, 0)), (HERE, Amount(2, 20))]) == {
        HERE: Amount(3, 30),
        THERE: Amount(4, 0),
    }
    for unknown in ([None, 10], [10, None]):
        assert totals((HERE, Amount(1, wall_s)) for wall_s in unknown) == {HERE: Amount(2, None)}


def test_jobs_that_were_given(con: Connection) -> None:
    """What was accepted, and was not taken back; a place of which nothing is left is none."""
    send(con, record("one"), record("two", wall_s=5), record("three", names=("SITE", "ce2")))
    send(con, record("other"), target=OTHER)
    begin(con, record("under-way"))
    assert published_jobs(con, ONE) == {HERE: Amount(2, 65), THERE: Amount(1, 60)}

    ((there,),) = con.execute(
        "SELECT PublishedTotalID FROM PublishedTotals JOIN SentNames USING (NamesID) WHERE SubmitHost = 'ce2'"
    )
    zeros = record("three", digest=b"", names=None, replaced_id=there, replaced_wall_s=60)
    send(con, zeros)
    assert published_jobs(con, ONE) == {HERE: Amount(2, 65)}


def test_sums_that_were_given(con: Connection) -> None:
    """Neither counts nor what another publisher sent, nor zeros; by place and month."""
    sums = (one_sum("a"), one_sum("b", wall_s=20), one_sum("zero", submit_host="ce2", jobs=0))
    send(con, sums=sums, message_format="summaries")
    send(con, sums=(one_sum("count", submit_host="ce2"),), message_format=COUNTS)
    send(con, sums=(one_sum("other"),), message_format="summaries", target=OTHER)
    assert published_sums(con, ONE) == {HERE: Amount(6, 200)}

    con.execute("UPDATE SentSummaries SET IsAdopted = 1 WHERE Key = 'b'")
    assert published_sums(con, ONE) == {HERE: Amount(3, 180)}
    send(con, sums=(one_sum("c", wall_s=None),), message_format="summaries")
    assert published_sums(con, ONE) == {HERE: Amount(6, None)}
