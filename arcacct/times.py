"""Times and months in UTC: their bounds, and their form for people and in the databases."""

from __future__ import annotations

import calendar
import time
from functools import lru_cache

HOUR_S, DAY_S = 3600, 86_400
LAST_SECOND = 253_402_300_799
"""The end of the year 9999, since ISO 8601 has four digits for a year: a later EndTime belongs to no month."""
Month = tuple[int, int]
"""Year and month, UTC."""


def recent_months(seconds: int) -> set[Month]:
    """Return the current and the previous month. APEL never reports a rejected message, so they are sent each time."""
    now = month_of(seconds)
    return {now, month_of(month_bounds(*now)[0] - 1)}


def next_month(seconds: int) -> int:
    """Return the first second of the month after this one."""
    return month_bounds(*month_of(seconds))[1]


def months_between(first_s: int, before_s: int) -> set[Month]:
    """Return every month that has a second of ``[first_s, before_s)``."""
    months, start = set(), month_bounds(*month_of(first_s))[0]
    while start < before_s:
        months.add(month_of(start))
        start = next_month(start)
    return months


@lru_cache(maxsize=1024)
def month_bounds(year: int, month: int) -> tuple[int, int]:
    """Return the first second of a month and of the next."""
    first = calendar.timegm((year, month, 1, 0, 0, 0))
    # Python's calendar ends with the year 9999, so the first second of the next month is computed.
    return first, first + calendar.monthrange(year, month)[1] * DAY_S


def month_name(month: Month) -> str:
    """Return a month as ``2026-11``."""
    return f"{month[0]:04d}-{month[1]:02d}"


def iso(seconds: object) -> str:
    """Return a time as ``2026-11-20T10:30:00Z``; a value that is no valid time is returned as text unchanged."""
    if not isinstance(seconds, int) or not 0 <= seconds <= LAST_SECOND:
        return str(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def month_of(end_time: int) -> Month:
    """Return the year and month (UTC) of an end time."""
    return _month_of_day(end_time // DAY_S)


@lru_cache(maxsize=1024)
def _month_of_day(day: int) -> Month:
    return time.gmtime(day * DAY_S)[:2]
