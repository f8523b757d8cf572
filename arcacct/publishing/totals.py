"""
The published totals of a target by month and counting key: jobs and wall time. Also what the records of a month add up
to that stay at the receiver, or wait here.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from arcacct.database.connection import Connection
from arcacct.times import Month


class CountingKey(NamedTuple):
    """The place where a receiver counts jobs: texts as they are sent; for sums as they are compared (folded)."""

    site: str
    submit_host: str
    year: int
    month: int


class Amount(NamedTuple):
    """Jobs and wall time in seconds; ``wall_s=None``: unknown (an older program sent it)."""

    jobs: int
    wall_s: int | None


NOTHING = Amount(0, 0)
Place = TypeVar("Place")


def totals(amounts: Iterable[tuple[Place, Amount]]) -> dict[Place, Amount]:
    """Return the total amount of each place."""
    found: dict[Place, Amount] = {}
    for place, more in amounts:
        had = found.get(place, NOTHING)
        wall_s = None if had.wall_s is None or more.wall_s is None else had.wall_s + more.wall_s
        found[place] = Amount(had.jobs + more.jobs, wall_s)
    return found


def published_jobs(con: Connection, target: str) -> dict[CountingKey, Amount]:
    """Return the job records that were published to the receiver and not retracted, by place."""
    return _published(con, target, "PublishedTotals JOIN SentNames USING (NamesID)")


def published_sums(con: Connection, target: str) -> dict[CountingKey, Amount]:
    """Return the amounts of the published sums, by place, without sync messages."""
    return _published(con, target, "SentSummaries", " AND Kind <> 'sync' AND NOT IsAdopted")


def published(con: Connection, target: str) -> list[tuple[CountingKey, Amount]]:
    """Return both, job records first."""
    return [*published_jobs(con, target).items(), *published_sums(con, target).items()]


def _published(con: Connection, target: str, tables: str, condition: str = "") -> dict[CountingKey, Amount]:
    rows = con.execute(
        "SELECT coalesce(Site, ''), coalesce(SubmitHost, ''), Year, Month, sum(Jobs),"
        f" CASE WHEN count(Wall) = count(*) THEN sum(Wall) END FROM {tables}"
        f" WHERE Target = ? AND Jobs > 0{condition} GROUP BY 1, 2, Year, Month",
        (target,),
    )
    return {CountingKey._make(place): Amount(jobs, wall_s) for *place, jobs, wall_s in rows}


def published_total_ids(con: Connection, target: str, month: Month) -> set[int]:
    """Return the rows of ``PublishedTotals`` for a target and month."""
    rows = con.execute(
        "SELECT PublishedTotalID FROM PublishedTotals WHERE Target = ? AND Year = ? AND Month = ?", (target, *month)
    )
    return {total_id for (total_id,) in rows}


@dataclass
class KeptRecords:
    """The records that hold a month."""

    kept: int = 0
    """The number of versions that stay at the receiver ..."""
    kept_wall_s: int = 0
    """... with this wall time in seconds, ..."""
    instead_wall_s: int = 0
    """... and the wall time that would be sent in their place."""
    why: str = ""
    """Why the first of them stays."""
    waiting: int = 0
    """The number of new records that wait here."""
    noted: list[tuple[int, int]] = field(default_factory=list)
    """The places of the records that an earlier run noted: the first and the last of each run of places, rising."""
    places: set[int] = field(default_factory=set)
    """The places of the others."""

    def __add__(self, more: KeptRecords) -> KeptRecords:
        """Return what the records of both add up to, without their places."""
        return KeptRecords(
            self.kept + more.kept,
            self.kept_wall_s + more.kept_wall_s,
            self.instead_wall_s + more.instead_wall_s,
            self.why or more.why,
            self.waiting + more.waiting,
        )

    def is_noted(self, place: int) -> bool:
        """Whether an earlier run noted the record at this place."""
        found = bisect_right(self.noted, (place, sys.maxsize))
        return found > 0 and place <= self.noted[found - 1][1]

    def spans(self) -> list[tuple[int, int]]:
        """Return all places, as `noted`."""
        found: list[tuple[int, int]] = []
        for first, last in sorted([*self.noted, *((place, place) for place in self.places)]):
            if found and first <= found[-1][1] + 1:
                found[-1] = (found[-1][0], max(last, found[-1][1]))
            else:
                found.append((first, last))
        return found
