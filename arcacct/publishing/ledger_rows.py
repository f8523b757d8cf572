"""How the ledger stores the records of messages: one row each, found by its message or by its job."""

from __future__ import annotations

import json
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from arcacct.database.connection import Connection

MANY = 500
"""The highest number of ids in one query."""


THERE = "('accepted', 'sending')"
"""The states of a message that a receiver has, or may have."""


def key_of(message: str, record: str) -> str:
    """Return the SQL expression for the receiver's key of a record: of rows of Messages and SentRecords."""
    return f"{message}.KeyPrefix || coalesce({record}.KeyRest, {record}.JobID)"


KEY = key_of("Messages", "Record")
"""The receiver's key of a record, for `of_messages` and `of_jobs`."""


def of_messages(columns: str, where: str, index: str = "") -> str:
    """
    Return a SELECT of ``columns`` of Messages and Record (table SentRecords), with the condition ``where``.

    The parameters in ``columns`` and ``where`` must be numbered. ``index``: ``INDEXED BY`` one of Messages.
    """
    # CROSS makes SQLite start with the messages and then read their records.
    return f"SELECT {columns} FROM Messages {index} CROSS JOIN SentRecords AS Record USING (MessageID) WHERE {where}"


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
