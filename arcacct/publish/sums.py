"""Messages of monthly sums: summaries of whole months, and the counts that APEL compares its own numbers with."""

from __future__ import annotations

import calendar
import time
from _sqlite3 import Connection
from collections.abc import Iterable

from arcacct.conf.targets import APELTarget, DirectoryTarget
from arcacct.publish.batches import batched
from arcacct.publish.delivery import Deliverer, Tally
from arcacct.publish.families import SYNC, SummaryFamily, mixed_benchmarks_note, wants
from arcacct.records import acceptance, apel_summary
from arcacct.records.aar import UsageCell
from arcacct.records.apel import APELOptions
from arcacct.store import query

Month = tuple[int, int]
"""Year and month, UTC."""

_LAST_SECOND = 2**62


def recent_months(seconds: int) -> set[Month]:
    """The current and the previous month: APEL never reports a rejected message, so they are sent each time."""
    now = time.gmtime(seconds)
    previous = (now.tm_year, now.tm_mon - 1) if now.tm_mon > 1 else (now.tm_year - 1, 12)
    return {(now.tm_year, now.tm_mon), previous}


def months_between(first_s: int, before_s: int) -> set[Month]:
    """Every month that has a second of ``[first_s, before_s)``."""
    months = set()
    start = time.gmtime(first_s)
    year, month = start.tm_year, start.tm_mon
    while month_bounds(year, month)[0] < before_s:
        months.add((year, month))
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
    return months


def month_bounds(year: int, month: int) -> tuple[int, int]:
    """The first second of a month and of the next."""
    after = (year, month + 1) if month < 12 else (year + 1, 1)
    return calendar.timegm((year, month, 1, 0, 0, 0)), calendar.timegm((*after, 1, 0, 0, 0))


def summary_texts(
    target: APELTarget | DirectoryTarget, family: SummaryFamily, con: Connection, months: Iterable[Month], tally: Tally
) -> list[str]:
    """The summary records of whole months: a part of a month would lower what the receiver has of it."""
    now = int(time.time())
    cells: list[UsageCell] = []
    for year, month in sorted(months):
        for cell in query.usage_cells(con, *month_bounds(year, month)):
            verdict = acceptance.accept_cell(cell, family.options, now)
            if not wants(target, cell.vo):
                continue
            if verdict.refusal is None:
                cells.append(verdict.cell)
            else:
                tally.quarantined += 1
                tally.notes.append(f"{year:04d}-{month:02d}: {cell.jobs} jobs not sent: {verdict.refusal}")
    if family.version == "v0.3":
        tally.notes += mixed_benchmarks_note(apel_summary.mixed_benchmarks(cells, family.options))
    return [
        apel_summary.summary_record(summary, family.version, family.options.dialect)
        for summary in apel_summary.summaries(cells, family.options, family.version)
    ]


def send_sync(
    target: APELTarget | DirectoryTarget, options: APELOptions, con: Connection, delivery: Deliverer, max_bytes: int
) -> None:
    """How many jobs there are of every month and SubmitHost; last in every run."""
    cells = [cell for cell in query.usage_cells(con, 1, _LAST_SECOND) if wants(target, cell.vo)]
    texts = [apel_summary.sync_record(sync) for sync in apel_summary.syncs(cells, options)]
    delivery.deliver(SYNC, batched(texts, target.urbatchsize, max_bytes), None, [])
