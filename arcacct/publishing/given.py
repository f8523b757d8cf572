"""What the ledger says that a receiver was given, month by month and by where it counts it: jobs and wall time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from arcacct.db.durable import transaction
from arcacct.db.engine import Connection
from arcacct.jobs import reading
from arcacct.publishing import sent_rows
from arcacct.publishing.digests import is_same
from arcacct.publishing.instants import Month, month_of
from arcacct.publishing.ledger import COUNTS, given_id
from arcacct.publishing.sent import sums_of_kind, versions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.publishing.this_run import ThisRun


class Place(NamedTuple):
    """Where a receiver counts jobs: texts as they are sent, of sums as they are compared (folded)."""

    site: str
    submit_host: str
    year: int
    month: int


class Amount(NamedTuple):
    """How much; ``wall_s=None`` is not known (sent by an older program)."""

    jobs: int
    wall_s: int | None


NOTHING = Amount(0, 0)


def totals(amounts: Iterable[tuple[Place, Amount]]) -> dict[Place, Amount]:
    """The amounts of each place, added up."""
    found: dict[Place, Amount] = {}
    for place, more in amounts:
        had = found.get(place, NOTHING)
        wall_s = None if had.wall_s is None or more.wall_s is None else had.wall_s + more.wall_s
        found[place] = Amount(had.jobs + more.jobs, wall_s)
    return found


def given_jobs(con: Connection, target: str) -> dict[Place, Amount]:
    """Job records that the receiver was given and that were not taken back."""
    rows = con.execute(
        "SELECT Site, SubmitHost, Year, Month, Jobs, Wall FROM Given WHERE Target = ? AND Jobs > 0", (target,)
    )
    return {Place._make(place): Amount(jobs, wall_s) for *place, jobs, wall_s in rows}


def given_ids(con: Connection, target: str, month: Month) -> set[int]:
    """The rows of `Given` where a target's receiver counts the jobs of a month."""
    rows = con.execute("SELECT GivenID FROM Given WHERE Target = ? AND Year = ? AND Month = ?", (target, *month))
    return {given_id for (given_id,) in rows}


def given_sums(con: Connection, target: str) -> dict[Place, Amount]:
    """What the sums that the receiver was given stand for; sync messages are no sums of usage."""
    rows = con.execute(
        "SELECT coalesce(Site, ''), coalesce(SubmitHost, ''), Year, Month, sum(Jobs),"
        " CASE WHEN count(Wall) = count(*) THEN sum(Wall) END FROM SumKeys"
        " WHERE Target = ? AND Kind <> 'sync' AND Jobs > 0 AND NOT IsAdopted GROUP BY Site, SubmitHost, Year, Month",
        (target,),
    )
    return {Place._make(place): Amount(jobs, wall_s) for *place, jobs, wall_s in rows}


def is_counted(con: Connection, target: str) -> bool:
    """Whether `given_jobs` is complete: not for a target that an older program published to."""
    row = con.execute("SELECT Counted FROM Targets WHERE Target = ?", (target,)).fetchone()
    return row is None or bool(row[0])


def count_given(this: ThisRun) -> None:
    """
    Count all job records that the target was given, once, after the ledger came from an older program.

    That kept records by their keys alone. A job that is not in the database any more is counted where most jobs of its
    month were said to be. One transaction.
    """
    con, target = this.publishing, this.block
    if this.dry_run or is_counted(con, target):
        return
    family = this.plug.any_records()
    said = sorted((one for one in sums_of_kind(con, target, COUNTS) if one.jobs), key=lambda one: one.jobs)
    hosts = {(one.year, one.month): one.submit_host for one in said}
    with transaction(con):
        con.execute("DELETE FROM Given WHERE Target = ?", (target,))
        rows = con.execute("SELECT MessageID FROM Messages WHERE Target = ? AND State = 'sending'", (target,))
        sending = {message_id for (message_id,) in rows}
        for page in sent_rows.all_jobs(con):
            known = versions(con, target, page, keeps_first=this.plug.keeps_first)
            records = reading.by_job_id(this.accounting, list(known))
            for job_id, one in ((job_id, one) for job_id, found in known.items() for one in found):
                aar, month = records.get(job_id), month_of(one.end_time)
                host = hosts.get(month, "") if aar is None else family.place(aar)[1]
                wall_s = aar.wall_s if aar is not None and is_same(aar, one.digest) else 0
                given = given_id(con, target, (family.site_of(one.key), host, *month))
                if one.message_id not in sending:
                    # What is under way counts when it is accepted.
                    con.execute("UPDATE Given SET Jobs = Jobs + 1, Wall = Wall + ? WHERE GivenID = ?", (wall_s, given))
                sent_rows.note_given(con, one.message_id, job_id, one.key, given, wall_s)
        con.execute("UPDATE Targets SET Counted = 1 WHERE Target = ?", (target,))
