"""
Ends of jobs that sweeps found: neither the callouts nor the spool had told of them.

When these are all the ends that there are, A-REX does not call us. Counts by hour are noted in the accounting database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.database.schema import note, noted

HOUR_S = 3600
_HOURS = 24
_NOTE = "ARCACCT_ENDS_BY_SWEEP"
"""``HOUR:COUNT HOUR:COUNT ...``: hours since 1970."""


class SweepShare(NamedTuple):
    """Of jobs of A-REX's that ended within the last day."""

    jobs: int
    swept: int
    """Those whose end a sweep found."""


def add_ends(con: Connection, ends: Mapping[int, int], now: int) -> None:
    """Add ends, by hour, to those of the last day; inside the caller's transaction."""
    counts = Counter(_counts(con))
    counts.update(ends)
    first = now // HOUR_S - _HOURS
    note(con, _NOTE, " ".join(f"{hour}:{count}" for hour, count in sorted(counts.items()) if hour >= first))


def of_last_day(con: Connection, now: int) -> SweepShare:
    """How many jobs ended, and how many of these ends sweeps found."""
    first = now // HOUR_S - _HOURS
    # A vanished job has no end that anybody could have told, and jobs of other sources no callouts.
    (jobs,) = con.execute(
        "SELECT count(*) FROM AAR CROSS JOIN StatusFiles ON StatusFiles.RecordID = AAR.RecordID"
        " WHERE EndTime BETWEEN ? AND ? AND State = 'FINISHED'"
        " AND NOT EXISTS (SELECT 1 FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID)",
        (first * HOUR_S, now),
    ).fetchone()
    return SweepShare(
        jobs, min(jobs, sum(count for hour, count in _counts(con).items() if first <= hour <= now // HOUR_S))
    )


def _counts(con: Connection) -> dict[int, int]:
    pairs = (pair.partition(":") for pair in (noted(con, _NOTE) or "").split())
    return {int(hour): int(count) for hour, _colon, count in pairs if hour.isdecimal() and count.isdecimal()}
