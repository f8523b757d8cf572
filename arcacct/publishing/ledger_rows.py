"""How the ledger finds the records of messages, by message and by job. Also its formats of times and months."""

from __future__ import annotations

import calendar
import json
import time
from collections.abc import Iterable
from functools import lru_cache
from operator import itemgetter
from typing import Any

from arcacct.database.connection import Connection
from arcacct.records import reader

# Times and months in UTC, as the ledger stores them and people read them.


DAY_S = 86400
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
    return first, first + calendar.monthrange(year, month)[1] * 86_400


def month_name(month: Month) -> str:
    """Return a month as ``2026-11``."""
    return f"{month[0]:04d}-{month[1]:02d}"


def iso(seconds: object) -> str:
    """Return a time as ``2026-11-20T10:30:00Z``; a value that is no valid time is returned as text unchanged."""
    if not isinstance(seconds, int) or not 0 <= seconds <= reader.LAST_SECOND:
        return str(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def month_of(end_time: int) -> Month:
    """Return the year and month (UTC) of an end time."""
    return _month_of_day(end_time // DAY_S)


@lru_cache(maxsize=1024)
def _month_of_day(day: int) -> Month:
    return time.gmtime(day * DAY_S)[:2]


# How the ledger stores the records of messages: one row each, found by its message or by its job.


MANY = 500
"""The highest number of ids in one query."""


THERE = "('accepted', 'sending')"
"""The states of a message that a receiver has, or may have."""


def key_of(message: str, record: str) -> str:
    """Return the SQL expression for the receiver's key of a record: of rows of Messages and SentRecords."""
    return f"{message}.KeyPrefix || coalesce({record}.KeyRest, {record}.JobID)"


KEY = key_of("Messages", "Record")
"""The receiver's key of a record, for `of_messages` and `of_jobs`."""


def of_messages(columns: str, where: str) -> str:
    """
    Return a SELECT of ``columns`` of Messages and Record (table SentRecords), with the condition ``where``.

    The parameters in ``columns`` and ``where`` must be numbered.
    """
    # CROSS makes SQLite start with the messages and then read their records.
    return f"SELECT {columns} FROM Messages CROSS JOIN SentRecords AS Record USING (MessageID) WHERE {where}"


def of_jobs(
    con: Connection, columns: str, job_ids: Iterable[str], where: str, *values: object
) -> list[tuple[Any, ...]]:
    """
    Return ``columns`` of Messages and Record (table SentRecords) for each message with any of some jobs, oldest first.

    ``values`` are the parameters of ``where``, as ``?``. The number of jobs is not limited.
    """
    found: list[tuple[Any, ...]] = []
    asked = list(dict.fromkeys(job_ids))
    for start in range(0, len(asked), MANY):
        some = asked[start : start + MANY]
        found += con.execute(
            f"WITH Job (ID) AS (VALUES {','.join(['(?)'] * len(some))}) SELECT MessageID, Position, {columns} FROM Job"
            # CROSS makes SQLite start with the jobs. Otherwise it reads every message that the target was ever sent.
            f" CROSS JOIN SentRecords AS Record ON {same_job('Record.JobID', 'Job.ID')}"
            f" CROSS JOIN Messages USING (MessageID) WHERE {where}",
            (*some, *values),
        )
    found.sort(key=itemgetter(0, 1))
    return [row[2:] for row in found]


def same_job(one: str, other: str) -> str:
    """Return an SQL condition that two columns have one JobID. SentRecords is indexed by the ends of JobIDs."""
    return f"substr({one}, -16) = substr({other}, -16) AND {one} = {other}"


def packed_rows(rows: Iterable[str | None]) -> str:
    """Return the receiver's row numbers, by position, as one text: each as its difference from the previous one."""
    packed: list[int | str | None] = []
    last = 0
    for row in rows:
        if row is not None and row.isdecimal() and str(number := int(row)) == row:
            packed.append(number - last)
            last = number
        else:
            packed.append(row)
    return json.dumps(packed, separators=(",", ":"))


def unpacked_rows(packed: str | None) -> list[str | None]:
    """Return the row numbers from `packed_rows`; an empty list if the message has none."""
    rows: list[str | None] = []
    last = 0
    for row in json.loads(packed or "[]"):
        if isinstance(row, int):
            last += row
            rows.append(str(last))
        else:
            rows.append(row)
    return rows
