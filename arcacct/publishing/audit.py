"""
Checks of the ledger's claims (INVARIANTS 16): cursors, counts of what receivers were sent, and texts.

A cursor claims that every record up to it was sent, or has a reason not to be. No run reads the log below a cursor,
so only this check notices a wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from arcacct.database import incarnation, schema
from arcacct.database.connection import Connection
from arcacct.publishing import cursors, held, ledger, sent, target_months
from arcacct.publishing.cursors import selections
from arcacct.publishing.plugin import TargetPlugin
from arcacct.records.pseudonyms import pseudonymised
from arcacct.records.states import SQL_ABORTED, SQL_FINAL
from arcacct.records.texts import unescaped, unescaped_name
from arcacct.times import LAST_SECOND, month_of
from arcacct.wording import count_of

_PAGE = 500
_NEWEST = 1000
"""How many places in the log `arcacct status` looks at."""
_SLICE = 100_000
_TABLES = ("Targets", "Messages", "SentNames", "SentRecords", "SentSummaries", "HeldRecords", "TargetMonths")
"""The tables with texts of others."""
_JSON = {
    "SentNames": ("Names",),
    "SentSummaries": ("Key",),
    "TargetMonths": ("Refusals",),
    "Targets": ("LastGoodSelection", "FullScanSelection"),
}


class _Logged(NamedTuple):
    """The parts of a logged record that these checks need."""

    seq: int
    record_id: int
    job_id: str
    end_time: int
    vo: str | None


def unaccounted(
    accounting: Connection, publishing: Connection, plugin: TargetPlugin, after_seq: int, last_seq: int
) -> Iterator[str]:
    """
    Yield the JobIDs of records below a target's cursor that were not sent and have no reason to be unsent.

    Only records with ``after_seq < Seq <= last_seq`` are checked. Yields nothing if the target has no cursor for the
    current incarnation of the accounting database, or if its selection has changed since the log was last read: its
    next run then reads the log from the start.
    """
    block, life = plugin.target.block, schema.incarnation(accounting)
    position = cursors.cursor(publishing, block)
    if position is None or position.incarnation != life or _walked(publishing, block) != plugin.record_selection():
        return
    months = target_months.load(publishing, block)
    waiting = {month for month, one in months.items() if one.held or one.is_unfinished or one.refused}

    def is_in_sum(one: _Logged) -> bool:
        found = months.get(month_of(one.end_time))
        month = None if found is None else found.format
        if month is None or plugin.has_records(month.message_format):
            return False
        return month.seq is None or month.incarnation != life or month.seq >= one.seq

    for page in _pages(accounting, position.start_end_time, after_seq, min(last_seq, position.last_seq)):
        asked = [
            one
            for one in page
            if plugin.target.wants(one.vo) and month_of(one.end_time) not in waiting and not is_in_sum(one)
        ]
        job_ids = [one.job_id for one in asked]
        known = sent.ever_carried(publishing, block, job_ids)
        known |= held.states(publishing, block, job_ids).keys()
        left = [one for one in asked if one.job_id not in known]
        closed = pseudonymised(accounting, [one.record_id for one in left])
        yield from (one.job_id for one in left if one.record_id not in closed)


def _walked(con: Connection, block: str) -> dict[str, object] | None:
    """Return the selection with which the log was last read; ``None`` if there is none or it is damaged."""
    try:
        return selections(con, block)[1]
    except ValueError:
        return None


def _pages(con: Connection, ended_from: int, seq: int, last_seq: int) -> Iterator[list[_Logged]]:
    """Yield the publishable records of the log with ``seq < Seq <= last_seq``, in that order, page by page."""
    while seq < last_seq:
        upto = min(seq + _PAGE, last_seq)
        rows = con.execute(
            "SELECT Seq, RecordID, JobID, EndTime, WLCGVOs.Name"
            " FROM FinishedLog CROSS JOIN AccountedAAR USING (RecordID)"
            " JOIN Status ON Status.ID = +StatusID LEFT JOIN WLCGVOs ON WLCGVOs.ID = +VOID"
            f" WHERE Seq > ? AND Seq <= ? AND EndTime BETWEEN ? AND ? AND Status.Name IN {SQL_FINAL}"
            f" AND (Status.Name <> {SQL_ABORTED}"
            " OR (UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime) IS NOT (0, 0, 0)) ORDER BY Seq",
            (seq, upto, max(ended_from, 1), LAST_SECOND),
        ).fetchall()
        yield [
            _Logged(one, record_id, unescaped(job_id), end_time, unescaped_name(vo))
            for one, record_id, job_id, end_time, vo in rows
        ]
        seq = upto


def cursor(
    accounting: Connection, publishing: Connection, plugin: TargetPlugin, after_seq: int, last_seq: int
) -> list[str]:
    """Return the problems of a target's cursor, as the records with ``after_seq < Seq <= last_seq`` show them."""
    problems = [ledger.DAMAGED] if cursors.is_damaged(publishing, plugin.target.block) else []
    if job_ids := list(unaccounted(accounting, publishing, plugin, after_seq, last_seq)):
        some = f"{', '.join(job_ids[:3])}{', ...' if len(job_ids) > 3 else ''}"
        problems.append(
            f"{count_of(len(job_ids), 'record')} up to its position in the log were never sent, for no recorded reason"
            f" ({some}): `arcacct republish` of their months sends them"
        )
    return problems


def given(con: Connection) -> list[str]:
    """Return a line for each published total that differs from the records of its accepted messages."""
    rows = con.execute(
        "WITH Change (PublishedTotalID, Jobs, Wall) AS ("
        " SELECT PublishedTotalID, 1, ifnull(Record.Wall, 0) FROM SentRecords AS Record JOIN Messages USING (MessageID)"
        " WHERE State = 'accepted' AND PublishedTotalID IS NOT NULL AND length(Record.Digest) > 0"
        " UNION ALL SELECT ReplacedID, -1, -ifnull(ReplacedWall, 0) FROM SentRecords AS Record"
        " JOIN Messages USING (MessageID) WHERE State = 'accepted' AND ReplacedID IS NOT NULL)"
        " SELECT PublishedTotals.Target, Year, Month, PublishedTotals.Jobs, PublishedTotals.Wall,"
        " total(Change.Jobs), total(Change.Wall) FROM PublishedTotals"
        " JOIN Targets ON Targets.Target = PublishedTotals.Target LEFT JOIN Change USING (PublishedTotalID) GROUP"
        " BY PublishedTotalID"
        " HAVING PublishedTotals.Jobs <> total(Change.Jobs) OR PublishedTotals.Wall <> total(Change.Wall)"
    )
    return [
        f"{target}: {year:04d}-{month:02d}: {count_of(jobs, 'job')} and {wall_s} s recorded as sent, its messages have"
        f" {count_of(int(found), 'job')} and {int(found_s)} s"
        for target, year, month, jobs, wall_s, found, found_s in rows
    ]


def texts(con: Connection, table: str) -> list[str]:
    """Return the problems of a table's text columns: values that are not UTF-8, or not JSON where JSON is expected."""
    problems = []
    for (column,) in con.execute("SELECT name FROM pragma_table_info(?) WHERE type = 'TEXT'", (table,)).fetchall():
        wrong = 0
        for (value,) in con.execute(f"SELECT CAST({column} AS BLOB) FROM {table} WHERE {column} IS NOT NULL"):
            try:
                value.decode()
            except UnicodeDecodeError:
                wrong += 1
        if wrong:
            problems.append(f"{table}: {count_of(wrong, 'row')} with a {column} that is no text")
    for column in _JSON.get(table, ()):
        (wrong,) = con.execute(
            f"SELECT count(*) FROM {table} WHERE {column} IS NOT NULL AND NOT json_valid({column})"
        ).fetchone()
        if wrong:
            problems.append(f"{table}: {count_of(wrong, 'row')} with a {column} that is no JSON")
    return problems


def questions(
    accounting: Connection, publishing: Connection, plugins: Sequence[TargetPlugin]
) -> dict[str, dict[str, Callable[[], list[str]]]]:
    """Return the checks of the ledger for `arcacct db check`, by question and part. Each part runs on its own."""
    highest = incarnation.highest_seq(accounting)
    bounds = [*range(0, highest, _SLICE), highest]

    def of_target(plugin: TargetPlugin, low: int, high: int) -> list[str]:
        return [f"{plugin.target.name}: {one}" for one in cursor(accounting, publishing, plugin, low, high)]

    return {
        "texts": {table: partial(texts, publishing, table) for table in _TABLES},
        "the totals sent to receivers, compared with a recount": {"": partial(given, publishing)},
        "places in the log: all up to them was sent, or has a reason": {
            f"{plugin.target.block} from {low}": partial(of_target, plugin, low, high)
            for plugin in plugins
            for low, high in pairwise(bounds)
        },
    }


def newest(accounting: Connection, publishing: Connection, plugin: TargetPlugin) -> str:
    """Return the problem of a target's cursor that the last records below it show; empty if there is none."""
    position = cursors.cursor(publishing, plugin.target.block)
    last_seq = 0 if position is None else position.last_seq
    return next(iter(cursor(accounting, publishing, plugin, max(0, last_seq - _NEWEST), last_seq)), "")
