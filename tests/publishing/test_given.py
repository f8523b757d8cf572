"""What the ledger says that a receiver was given, by place and month. In memory, of one target beside another."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import closing

import pytest
from kept_batches import APEL, aar, this_run
from ledger_rows import MAY, ONE, OTHER, begin, new_ledger, one_sum, record, send
from publishing_site import Job, write

from arcacct.db.engine import Connection
from arcacct.jobs import reading
from arcacct.publishing import given, ledger
from arcacct.publishing.digests import digest
from arcacct.publishing.given import Amount, Place
from arcacct.publishing.ledger import COUNTS, Cursor, SentRecord

HERE, THERE = Place("SITE", "ce", 2026, 5), Place("SITE", "ce2", 2026, 5)


@pytest.fixture
def con() -> Iterator[Connection]:
    """A ledger of two targets."""
    with closing(new_ledger()) as found:
        yield found


def test_amounts_of_a_place_are_added_up() -> None:
    """A wall time that nobody knows makes the sum one that nobody knows, whichever comes first."""
    assert given.totals([]) == {}
    assert given.totals([(HERE, Amount(1, 10)), (THERE, Amount(4, 0)), (HERE, Amount(2, 20))]) == {
        HERE: Amount(3, 30),
        THERE: Amount(4, 0),
    }
    for unknown in ([None, 10], [10, None]):
        assert given.totals((HERE, Amount(1, wall_s)) for wall_s in unknown) == {HERE: Amount(2, None)}


def test_jobs_that_were_given(con: Connection) -> None:
    """What was accepted, and was not taken back; a place of which nothing is left is none."""
    send(con, record("one"), record("two", wall_s=5), record("three", submit_host="ce2"))
    send(con, record("other"), target=OTHER)
    begin(con, record("under-way"))
    assert given.given_jobs(con, ONE) == {HERE: Amount(2, 65), THERE: Amount(1, 60)}

    ((there,),) = con.execute("SELECT GivenID FROM Given WHERE SubmitHost = 'ce2'")
    zeros = record("three", digest=b"", submit_host=None, replaced_id=there, replaced_wall_s=60)
    send(con, zeros)
    assert given.given_jobs(con, ONE) == {HERE: Amount(2, 65)}


def test_sums_that_were_given(con: Connection) -> None:
    """Neither counts nor what another publisher sent, nor zeros; by place and month."""
    sums = (one_sum("a"), one_sum("b", wall_s=20), one_sum("zero", submit_host="ce2", jobs=0))
    send(con, sums=sums, kind="summaries")
    send(con, sums=(one_sum("count", submit_host="ce2"),), kind=COUNTS)
    send(con, sums=(one_sum("other"),), kind="summaries", target=OTHER)
    assert given.given_sums(con, ONE) == {HERE: Amount(6, 200)}

    con.execute("UPDATE SumKeys SET IsAdopted = 1 WHERE Key = 'b'")
    assert given.given_sums(con, ONE) == {HERE: Amount(3, 180)}
    send(con, sums=(one_sum("c", wall_s=None),), kind="summaries")
    assert given.given_sums(con, ONE) == {HERE: Amount(6, None)}


def test_who_has_to_be_counted(con: Connection) -> None:
    """A target that an older program published to; none that began with this one, or is not known."""
    con.execute("UPDATE Targets SET Counted = 0 WHERE Target = ?", (OTHER,))
    assert given.is_counted(con, ONE)
    assert not given.is_counted(con, OTHER)
    assert given.is_counted(con, "nobody")


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_ledger_of_an_older_program_is_counted_once(tmp_path: pathlib.Path, dry_run: bool) -> None:
    """By what the database has of each job; of one that is gone by where most jobs of its month were said to be."""
    this = this_run(tmp_path, APEL.format(path=tmp_path), dry_run=dry_run)
    con, family = this.publishing, this.plug.any_records()
    for target in (this.block, OTHER):
        ledger.set_cursor(con, Cursor(target, "life", 0, 1, None))
    for name in ("same", "changed", "begun"):
        write(this.accounting, Job(name, MAY, wall_s=50))
    known = reading.by_job_id(this.accounting, ["same", "changed", "begun"])

    def old(name: str, digest_now: bytes = b"digest") -> SentRecord:
        key = family.key(known[name]) if name in known else family.key(aar(name))
        return record(name, submit_host=None, digest=digest_now, key=key)

    counts = (one_sum("few", submit_host="few", jobs=1), one_sum("many", submit_host="many", jobs=5))
    send(con, sums=counts, kind=COUNTS, target=this.block)
    send(con, old("same", digest(known["same"])), old("changed"), old("gone"), target=this.block)
    begin(con, old("begun", digest(known["begun"])), target=this.block)
    send(con, old("same", digest(known["same"])), target=OTHER)
    con.execute(
        "INSERT INTO Given (Target, Site, SubmitHost, Year, Month, Jobs) VALUES (?, '', '', 1, 1, 9)", [this.block]
    )
    con.execute("UPDATE Targets SET Counted = 0")
    con.execute("UPDATE SentRecords SET Wall = NULL")

    for _ in range(2):
        given.count_given(this)
    assert given.is_counted(con, this.block) is not dry_run
    assert not given.is_counted(con, OTHER)
    if dry_run:
        assert list(given.given_jobs(con, this.block)) == [Place("", "", 1, 1)]
        return
    (site, host), (site_of_key, _host) = family.place(known["same"]), family.place(aar())
    assert given.given_jobs(con, this.block) == {
        Place(site.lower(), host, 2026, 5): Amount(2, 50),
        Place(site_of_key.lower(), "many", 2026, 5): Amount(1, 0),
    }
    rows = con.execute(
        "SELECT JobID, SubmitHost, MessageRecords.Wall FROM MessageRecords LEFT JOIN Given USING (GivenID)"
        " ORDER BY MessageID, Position"
    )
    assert rows.fetchall() == [
        *(("same", host, 50), ("changed", host, 0), ("gone", "many", 0), ("begun", host, 50)),
        ("same", None, None),
    ]
