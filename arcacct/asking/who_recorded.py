"""
Who told of the last jobs: A-REX's callouts, or only the sweep, which finds what no hook has told.

Both write the same rows, so it is told by the events. A job that callouts tell of has those of states that last for
moments (`PASSING`); a sweep meets a job in one of them by chance, and in two of them next to never. What waited in a
spool was told by a hook, whoever recorded it.
"""

from __future__ import annotations

from typing import NamedTuple

from arcacct.database.connection import Connection

PASSING = ("PREPARING", "SUBMIT", "FINISHING")
"""States with a callout in which a job stays for moments. (ACCEPTED is told by .local, too, so by every sweep.)"""
_AT_LEAST = 2
_MOST_JOBS = 1000


class HookCoverage(NamedTuple):
    """Jobs of the control directory that ended lately, at most the last thousand of them."""

    jobs: int
    by_hook: int
    """Those of which the callouts told."""

    @property
    def by_sweep(self) -> int:
        """Those that only the sweep has found, when they were over."""
        return self.jobs - self.by_hook


def hook_coverage(con: Connection, since_s: int) -> HookCoverage:
    """Who told of the jobs that ended at ``since_s`` (UTC seconds) or later, in our database of any size."""
    marks = ", ".join("?" * len(PASSING))
    jobs, by_hook = con.execute(
        "SELECT count(*), coalesce(sum((SELECT count(DISTINCT EventKey) FROM JobEvents"
        f" WHERE JobEvents.RecordID = Lately.RecordID AND +EventKey IN ({marks})) >= ?), 0) FROM"
        " (SELECT AAR.RecordID FROM AAR JOIN StatusFiles ON StatusFiles.RecordID = AAR.RecordID"
        " WHERE AAR.EndTime >= max(?, 1)"
        " AND NOT EXISTS (SELECT 1 FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID)"
        " ORDER BY AAR.EndTime DESC LIMIT ?) AS Lately",
        (*PASSING, _AT_LEAST, since_s, _MOST_JOBS),
    ).fetchone()
    return HookCoverage(jobs, by_hook)


def ended_since(con: Connection, since_s: int) -> int:
    """How many jobs of any source ended at ``since_s`` or later."""
    (jobs,) = con.execute("SELECT count(*) FROM AAR WHERE EndTime >= max(?, 1)", (since_s,)).fetchone()
    return int(jobs)
