"""
What APEL's server makes of its tables for the portal, in the three steps of its summariser.

Each step replaces rows of one table by their key and none deletes, so a later step wins over an earlier one, and what
a run put there stays until a run replaces it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from arcacct.sandbox.apel_text import Value, int_of
from arcacct.targets.apel.messages import rounded

Row = dict[str, "Value"]
Key = tuple["Value", ...]

WHOSE = ("Site", "Month", "Year", "GlobalUserName", "VO", "VORole", "VOGroup", "SubmitHost")
SIZE = ("NodeCount", "Processors")
HYBRID_KEY = (*WHOSE, "Infrastructure", "ServiceLevelType", "ServiceLevel", *SIZE)
"""The columns by which rows of the portal's table are replaced."""

_SUMMED = ("WallDuration", "CpuDuration", "NumberOfJobs")
_COPIED = (*WHOSE, "ServiceLevelType", *SIZE, "EarliestEndTime", "LatestEndTime", *_SUMMED)
_SHOWN = ("NumberOfJobs", "WallDuration", "CpuDuration", "NormalisedWallDuration", "NormalisedCpuDuration")
"""In the order of `PortalTotals`."""
_SI2K_PER_HEPSPEC = 250
_LEVEL_DECIMALS = 1000
"""Service levels are stored with three decimals."""


class PortalTotals(NamedTuple):
    """What the portal shows of a site's month, or of more."""

    jobs: int = 0
    wall_s: int = 0
    cpu_s: int = 0
    normalised_wall_s: int = 0
    """Seconds times the benchmark (HEPSPEC06 or HEPscore23)."""
    normalised_cpu_s: int = 0


def folded(values: Row, columns: Iterable[str]) -> Key:
    """The columns' values, compared as MySQL does: letters' case and trailing blanks do not count."""
    parts = (values[column] for column in columns)
    return tuple(part.casefold().rstrip() if isinstance(part, str) else part for part in parts)


def hybrid_rows(job_records: Iterable[Row], summaries: Iterable[Row], normalised: Iterable[Row]) -> Iterator[Row]:
    """The rows that one run puts into the portal's table, in the order in which it does; see `HYBRID_KEY`."""
    yield from map(_normalised, _jobs_summed(job_records))
    yield from map(_normalised, summaries)
    # A normalised summary comes as it is, and has no service level: 0.
    came = (*_COPIED, "Infrastructure", "NormalisedWallDuration", "NormalisedCpuDuration")
    for row in normalised:
        yield {**{column: row[column] for column in came}, "ServiceLevel": 0.0}


def totals(hybrid: Iterable[Row]) -> dict[tuple[str, int, int], PortalTotals]:
    """Sums of the portal's table by (site, year, month), in this order."""
    found: dict[tuple[str, int, int], PortalTotals] = {}
    for row in hybrid:
        month = (str(row["Site"]), int_of(row, "Year"), int_of(row, "Month"))
        usage = PortalTotals(*(int_of(row, name) for name in _SHOWN))
        found[month] = PortalTotals(*map(sum, zip(found.get(month, PortalTotals()), usage, strict=True)))
    return dict(sorted(found.items()))


def _jobs_summed(job_records: Iterable[Row]) -> Iterator[Row]:
    """Job records as summaries, a row for each key."""
    columns = (*WHOSE, "InfrastructureType", "ServiceLevelType", "ServiceLevel", *SIZE)
    groups: dict[Key, Row] = {}
    for record in job_records:
        end_time = int_of(record, "EndTime")
        year, month, *_ = time.gmtime(end_time)
        own: Row = {"Year": year, "Month": month, "EarliestEndTime": end_time, "LatestEndTime": end_time}
        job = {**record, **own, "NumberOfJobs": 1}
        group = groups.setdefault(folded(job, columns), job)
        if group is not job:
            for column in _SUMMED:
                group[column] = int_of(group, column) + int_of(job, column)
            group["EarliestEndTime"] = min(int_of(group, "EarliestEndTime"), end_time)
            group["LatestEndTime"] = max(int_of(group, "LatestEndTime"), end_time)
    return iter(groups.values())


def _normalised(summary: Row) -> Row:
    """A row of a summary, its durations times its service level."""
    level = round(float(str(summary["ServiceLevel"])) * _LEVEL_DECIMALS)
    si2k = str(summary["ServiceLevelType"]).casefold() == "si2k"
    divisor = _LEVEL_DECIMALS * (_SI2K_PER_HEPSPEC if si2k else 1)
    own: Row = {
        "Infrastructure": summary["InfrastructureType"],
        "ServiceLevel": summary["ServiceLevel"],
        "NormalisedWallDuration": rounded(int_of(summary, "WallDuration") * level, divisor),
        "NormalisedCpuDuration": rounded(int_of(summary, "CpuDuration") * level, divisor),
    }
    return {**{column: summary[column] for column in _COPIED}, **own}
