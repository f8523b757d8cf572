"""Instants and months of UTC, as the ledger has them and people read them."""

from __future__ import annotations

import calendar
import time
from functools import lru_cache

from arcacct.records import reader

DAY_S = 86400
Month = tuple[int, int]
"""Year and month, UTC."""


def recent_months(seconds: int) -> set[Month]:
    """The current and the previous month: APEL never reports a rejected message, so they are sent each time."""
    now = month_of(seconds)
    return {now, month_of(month_bounds(*now)[0] - 1)}


def next_month(seconds: int) -> int:
    """The first second of the month after this one."""
    return month_bounds(*month_of(seconds))[1]


def months_between(first_s: int, before_s: int) -> set[Month]:
    """Every month that has a second of ``[first_s, before_s)``."""
    months, start = set(), month_bounds(*month_of(first_s))[0]
    while start < before_s:
        months.add(month_of(start))
        start = next_month(start)
    return months


def month_bounds(year: int, month: int) -> tuple[int, int]:
    """The first second of a month and of the next."""
    first = calendar.timegm((year, month, 1, 0, 0, 0))
    # No calendar has the month behind the last of the year 9999.
    return first, first + calendar.monthrange(year, month)[1] * 86_400


def month_name(month: Month) -> str:
    """``2026-11``."""
    return f"{month[0]:04d}-{month[1]:02d}"


def iso(seconds: object) -> str:
    """``2026-11-20T10:30:00Z``; what is no time, or beyond any calendar, as it is."""
    if not isinstance(seconds, int) or not 0 <= seconds <= reader.LAST_SECOND:
        return str(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def month_of(end_time: int) -> Month:
    """Year and month of an end, UTC."""
    return _month_of_day(end_time // DAY_S)


@lru_cache(maxsize=1024)
def _month_of_day(day: int) -> Month:
    return time.gmtime(day * DAY_S)[:2]
