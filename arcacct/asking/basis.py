"""
What the figures of some months rest on: how many jobs were measured, how many have a benchmark, and how many are held.

Read from the monthly sums, so it counts the jobs that are published, pruned ones too; held jobs are beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arcacct.benchmark import FALLBACK_SHOWN, measured_benchmark
from arcacct.database.connection import Connection
from arcacct.publishing.ledger_rows import month_bounds
from arcacct.records.hold_decisions import NONE, counts
from arcacct.records.holds import HELD
from arcacct.records.usage import Month, RatedJobs, by_benchmark
from arcacct.wording import count_of

_FEW_JOBS = 10


class Basis(NamedTuple):
    """How the jobs of some months were measured."""

    jobs: int = 0
    without_wall: int = 0
    """Jobs whose wall time nobody measured; like the next they count 0 in sums, and receivers are sent 0."""
    without_cpu: int = 0
    without_benchmark: int = 0
    """Jobs of which receivers are sent the default benchmark."""
    held: int = 0
    """Jobs that are in no figure, since values of theirs cannot be true."""
    rated: tuple[RatedJobs, ...] = ()
    """By benchmark, in the order in which the first job of each ended; those without one are in one row."""

    @property
    def without_wall_percent(self) -> int:
        """The share of jobs without wall time, rounded down; 0 if they are too few to mean anything."""
        return 100 * self.without_wall // self.jobs if self.without_wall >= _FEW_JOBS else 0

    def __str__(self) -> str:
        """One line for people."""
        held = f"{count_of(self.held, 'job')} held as implausible"
        if not self.jobs:
            return held if self.held else "no job ended"
        parts = [
            f"wall time of {self.jobs - self.without_wall} measured",
            f"CPU time of {self.jobs - self.without_cpu}",
        ]
        if self.without_wall or self.without_cpu:
            parts.append("what was not measured counts 0")
        if self.without_benchmark:
            default = f"{FALLBACK_SHOWN} is sent"
            if self.without_benchmark == self.jobs:
                parts.append(f"no benchmark: there are no normalised figures, and {default}")
            else:
                parts.append(f"{self.without_benchmark} without a benchmark: {default}")
        return f"{count_of(self.jobs, 'job')}: {', '.join(parts)}{f'; {held}, in no figure' if self.held else ''}"


def basis(con: Connection, months: Sequence[Month]) -> Basis:
    """That of the jobs that ended in these months, which follow each other."""
    bounds = [month_bounds(*month) for month in months]
    held = counts(con, min(bounds)[0], max(bounds)[1]).get(HELD, NONE).records
    rated: dict[str | None, RatedJobs] = {}
    for one in by_benchmark(con, months):
        found = measured_benchmark(one.benchmark)
        name = None if found is None else str(found)
        rated[name] = _joined(rated[name], one) if name in rated else one._replace(benchmark=name)
    return Basis(
        sum(one.jobs for one in rated.values()),
        sum(one.without_wall for one in rated.values()),
        sum(one.without_cpu for one in rated.values()),
        rated[None].jobs if None in rated else 0,
        held,
        tuple(rated.values()),
    )


def _joined(one: RatedJobs, other: RatedJobs) -> RatedJobs:
    """The same benchmark, written in another way."""
    return RatedJobs(
        one.benchmark,
        one.jobs + other.jobs,
        one.without_wall + other.without_wall,
        one.without_cpu + other.without_cpu,
        one.core_s + other.core_s,
        min(one.first_end_s, other.first_end_s),
        max(one.last_end_s, other.last_end_s),
    )
