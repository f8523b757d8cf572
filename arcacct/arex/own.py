"""The databases that A-REX itself keeps of this control directory's jobs, and when to ask them (INVARIANTS 1)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from arcacct.arex.database import ArexDatabase
from arcacct.config.paths import AREX_DATABASES, Places
from arcacct.database.connection import Connection
from arcacct.database.schema import note, noted
from arcacct.records.reader import unescaped
from arcacct.records.states import SQL_FINAL

_ASK_AFTER = "ARCACCT_ASK_AREX_AFTER"
_LONGEST_PAUSE_S = 86_400
_PAGE_RECORDS = 5000


class Ended(NamedTuple):
    """A job that is at its end in A-REX's database."""

    end_time: int
    wall_s: int
    cpu_s: int


def own_databases(here: Places) -> list[str]:
    """
    Those that there are, the one that was written last first; none where A-REX writes none (the configuration says so).

    Our own database is none of them, wherever ``database=`` puts it.
    """
    if not here.arex_accounting:
        return []
    ours = os.path.realpath(here.database)
    found = []
    for name in AREX_DATABASES:
        path = os.path.join(here.controldir, "accounting", name)
        try:
            written_ns = os.stat(path).st_mtime_ns
        except OSError:
            continue
        if os.path.realpath(path) != ours:
            found.append((written_ns, path))
    return [path for _written_ns, path in sorted(found, reverse=True)]


def own_origins(here: Places) -> list[str]:
    """What RecordSources calls these databases, whether they are there now or not."""
    return [os.path.realpath(os.path.join(here.controldir, "accounting", name)) for name in AREX_DATABASES]


def ask_after(con: Connection) -> float:
    """When they may be asked again, in UTC seconds; in the past: now."""
    after = float(noted(con, _ASK_AFTER) or 0)
    # A clock that was put back must not silence A-REX.
    return after if after < time.time() + _LONGEST_PAUSE_S else 0.0


def save_pause(con: Connection, seconds: float) -> None:
    """Do not ask again for so long; inside the caller's transaction."""
    note(con, _ASK_AFTER, round(time.time() + min(seconds, _LONGEST_PAUSE_S / 2)))


def ended_between(database: ArexDatabase, start: int, end: int, settled_before: int) -> Iterator[dict[str, Ended]]:
    """
    Every job with ``start <= EndTime < end`` by its plain id, some thousand at a time, each in a short transaction.

    Without the records that A-REX has lost itself, and those whose end it is still writing: ``settled_before`` and the
    event FINISHED tell as in an import.
    """
    after = (start, 0)
    while True:
        page = database.con.execute(
            "SELECT EndTime, RecordID, JobID, UsedWalltime, UsedCPUUserTime + UsedCPUKernelTime,"
            f" Status.Name IN {SQL_FINAL} AND (EndTime < ? OR EXISTS (SELECT 1 FROM JobEvents"
            " WHERE JobEvents.RecordID = AAR.RecordID AND +EventKey = 'FINISHED'))"
            " FROM AAR JOIN Status ON Status.ID = +StatusID"
            " WHERE (EndTime, AAR.RecordID) > (?, ?) AND EndTime < ? ORDER BY EndTime, AAR.RecordID LIMIT ?",
            (settled_before, *after, end, _PAGE_RECORDS),
        ).fetchall()
        if not page:
            return
        after = page[-1][:2]
        yield {unescaped(row[2]): Ended(row[0], row[3], row[4]) for row in page if row[5]}
