"""What the ledger says that a receiver was given, month by month and by where it counts it: jobs and wall time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from arcacct.db.durable import transaction
from arcacct.db.engine import Connection
from arcacct.publishing.instants import month_of
from arcacct.publishing.ledger import Version, given_id
from arcacct.publishing.sent import MANY, versions


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


Sighting = tuple[str, Version, tuple[str, str, int]]
"""A job, what a receiver has of it, and where that is counted: site, submit host, wall seconds."""


def given_jobs(con: Connection, target: str) -> dict[Place, Amount]:
    """Job records that the receiver was given and that were not taken back."""
    rows = con.execute(
        "SELECT Site, SubmitHost, Year, Month, Jobs, Wall FROM Given WHERE Target = ? AND Jobs > 0", (target,)
    )
    return {Place._make(place): Amount(jobs, wall_s) for *place, jobs, wall_s in rows}


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


def count_anew(
    con: Connection, target: str, count: Callable[[dict[str, list[Version]]], Iterator[Sighting]], *, keeps_first: bool
) -> None:
    """
    Count all that a receiver has, once, for a ledger of an older program; one transaction.

    ``count`` says of some jobs, with what the receiver has of each, where every version is counted; ``keeps_first`` as
    of `versions`.
    """
    with transaction(con):
        con.execute("DELETE FROM Given WHERE Target = ?", (target,))
        sending = {
            message_id
            for (message_id,) in con.execute(
                "SELECT MessageID FROM Messages WHERE Target = ? AND State = 'sending'", (target,)
            )
        }
        after = ""
        while page := _jobs_sent(con, after):
            for job_id, version, (site, submit_host, wall_s) in count(
                versions(con, target, page, keeps_first=keeps_first)
            ):
                given = given_id(con, target, (site, submit_host, *month_of(version.end_time)))
                if version.message_id not in sending:
                    # What is under way counts when it is accepted.
                    con.execute("UPDATE Given SET Jobs = Jobs + 1, Wall = Wall + ? WHERE GivenID = ?", (wall_s, given))
                con.execute(
                    "UPDATE MessageRecords SET GivenID = ?, Wall = ? WHERE MessageID = ? AND JobID = ? AND Key = ?",
                    (given, wall_s, version.message_id, job_id, version.key),
                )
            after = page[-1]
        con.execute("UPDATE Targets SET Counted = 1 WHERE Target = ?", (target,))


def _jobs_sent(con: Connection, after: str) -> list[str]:
    """A page of the JobIDs that were ever sent to anybody, behind ``after``."""
    rows = con.execute(
        "SELECT DISTINCT JobID FROM MessageRecords WHERE JobID > ? ORDER BY JobID LIMIT ?", (after, MANY)
    )
    return [job_id for (job_id,) in rows]
