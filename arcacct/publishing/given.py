"""Published totals by month and counting key, as the ledger has them: jobs and wall time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.publishing.instants import Month


class CountingKey(NamedTuple):
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


def totals(amounts: Iterable[tuple[CountingKey, Amount]]) -> dict[CountingKey, Amount]:
    """The amounts of each place, added up."""
    found: dict[CountingKey, Amount] = {}
    for place, more in amounts:
        had = found.get(place, NOTHING)
        wall_s = None if had.wall_s is None or more.wall_s is None else had.wall_s + more.wall_s
        found[place] = Amount(had.jobs + more.jobs, wall_s)
    return found


def published_jobs(con: Connection, target: str) -> dict[CountingKey, Amount]:
    """Job records that were published to the receiver and not retracted."""
    rows = con.execute(
        "SELECT Site, SubmitHost, Year, Month, Jobs, Wall FROM Given WHERE Target = ? AND Jobs > 0", (target,)
    )
    return {CountingKey._make(place): Amount(jobs, wall_s) for *place, jobs, wall_s in rows}


def published_total_ids(con: Connection, target: str, month: Month) -> set[int]:
    """The rows of ``Given`` where a target's receiver counts the jobs of a month."""
    rows = con.execute("SELECT GivenID FROM Given WHERE Target = ? AND Year = ? AND Month = ?", (target, *month))
    return {total_id for (total_id,) in rows}


def published_sums(con: Connection, target: str) -> dict[CountingKey, Amount]:
    """The amounts of the published sums; sync messages are no sums of usage."""
    rows = con.execute(
        "SELECT coalesce(Site, ''), coalesce(SubmitHost, ''), Year, Month, sum(Jobs),"
        " CASE WHEN count(Wall) = count(*) THEN sum(Wall) END FROM SumKeys"
        " WHERE Target = ? AND Kind <> 'sync' AND Jobs > 0 AND NOT IsAdopted GROUP BY Site, SubmitHost, Year, Month",
        (target,),
    )
    return {CountingKey._make(place): Amount(jobs, wall_s) for *place, jobs, wall_s in rows}
