"""What corrected benchmarks would change, as a table: by month and VO, before, after, difference."""

from __future__ import annotations

from collections.abc import Iterable

from arcacct.jobs.rating import MonthRating

COLUMNS = ("month", "vo", "type", "jobs", "before_h", "after_h", "difference_h")
"""Hours are core hours times benchmark; a job whose type changes is in a row of each type."""
_MILLIONTHS_OF_HOURS = 3600 * 10**6


def rows(changes: Iterable[MonthRating]) -> list[tuple[str | int | float | None, ...]]:
    """The rows, in the order of the changes."""
    return [
        (
            one.month,
            one.vo,
            one.type,
            one.jobs,
            *(round(amount / _MILLIONTHS_OF_HOURS, 3) for amount in (one.before, one.after, one.after - one.before)),
        )
        for one in changes
    ]
