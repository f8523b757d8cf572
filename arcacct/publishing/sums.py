"""Messages of monthly sums: summaries of whole months, and the counts that APEL compares its own numbers with."""

from __future__ import annotations

import calendar
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from arcacct.conf.targets import APELTarget, DirectoryTarget, SGASTarget, Target
from arcacct.jobs.aar import UsageCell
from arcacct.publishing.batches import Limits, batched
from arcacct.publishing.delivery import Consignment, Deliverer, Part
from arcacct.publishing.families import DOCUMENTS, SYNC, SummaryFamily, mixed_benchmarks_note, wants, zero_text
from arcacct.publishing.ledger import SentSum
from arcacct.publishing.tally import Tally
from arcacct.targets import acceptance
from arcacct.targets.apel import summaries
from arcacct.targets.apel.summaries import Summary

Month = tuple[int, int]
"""Year and month, UTC."""
_SHOWN = 10
"""So many kinds of repairs are told in a run."""


class Sums(NamedTuple):
    """The sums of some months, ready to be sent."""

    parts: list[Part]
    refused: list[UsageCell]
    """Cells that the receiver would refuse: their jobs are set aside."""


def recent_months(seconds: int) -> set[Month]:
    """The current and the previous month: APEL never reports a rejected message, so they are sent each time."""
    now = time.gmtime(seconds)
    previous = (now.tm_year, now.tm_mon - 1) if now.tm_mon > 1 else (now.tm_year - 1, 12)
    return {(now.tm_year, now.tm_mon), previous}


def next_month(seconds: int) -> int:
    """The first second of the month after this one."""
    now = time.gmtime(seconds)
    return month_bounds(now.tm_year, now.tm_mon)[1]


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


def month_name(month: Month) -> str:
    """``2026-11``."""
    return f"{month[0]:04d}-{month[1]:02d}"


def summary_sums(
    target: APELTarget | DirectoryTarget, family: SummaryFamily, cells: Iterable[UsageCell], tally: Tally
) -> Sums:
    """The summaries of the cells of whole months: a part of a month would lower what the receiver has of it."""
    now = int(time.time())
    sound: list[UsageCell] = []
    refused: list[UsageCell] = []
    repaired: Counter[tuple[Month, str]] = Counter()
    for cell in cells:
        if not wants(target, cell.vo):
            continue
        # SQLite keeps a fraction in a column of whole numbers.
        whole = cell._replace(wall_s=int(cell.wall_s), cpu_s=int(cell.cpu_s))
        verdict = acceptance.accept_cell(whole, family.options, now)
        if verdict.refusal is None:
            sound.append(verdict.cell)
            for note in verdict.notes:
                repaired[cell[:2], note] += cell.jobs
        else:
            refused.append(cell)
            tally.note(f"{month_name(cell[:2])}: {cell.jobs} jobs not sent: {verdict.refusal}")
    for (month, note), jobs in sorted(repaired.items())[:_SHOWN]:
        tally.note(f"{month_name(month)}: {jobs} jobs: {note}")
    if len(repaired) > _SHOWN:
        tally.note(f"and {len(repaired) - _SHOWN} more repairs of this kind; `arcacct job why` tells those of a job")
    if family.version == "v0.3":
        for note in mixed_benchmarks_note(summaries.mixed_benchmarks(sound, family.options)):
            tally.note(note)
    return Sums(
        [
            Part(summaries.summary_record(summary, family.version, family.options.dialect), sum=sent_sum(summary))
            for summary in summaries.summaries(sound, family.options, family.version)
        ],
        refused,
    )


def sent_sum(summary: Summary) -> SentSum:
    """What is noted of a summary that is sent."""
    key, spelling = summary.key, summary.spelling
    return SentSum(
        json.dumps(key),
        key.year,
        key.month,
        summary.jobs,
        summary.wall_s,
        spelling.site or "",
        spelling.submit_host or "",
    )


def zeros(live: Sequence[tuple[str, SentSum]], current: Sequence[Part], dialect: str) -> dict[str, list[Part]]:
    """
    By kind of message: what the receiver has under keys that are not sent now, with zeros.

    ``live`` is what it has, ``current`` what is sent now. A key of another family is neutralised in that family.
    """
    kept = {part.sum.key for part in current if part.sum is not None}
    found: dict[str, list[Part]] = {}
    for kind, old in live:
        if old.key not in kept:
            part = Part(zero_text(kind, old.key, dialect), sum=old._replace(jobs=0, wall_s=0))
            found.setdefault(kind, []).append(part)
    return found


def zeros_note(kind: str, parts: Sequence[Part]) -> str:
    """What to say of sums that are neutralised."""
    months = sorted({(part.sum.year, part.sum.month) for part in parts if part.sum is not None})
    what = "sync records" if kind == SYNC.kind else f"{kind} records"
    return (
        f"{', '.join(map(month_name, months))}: {len(parts)} {what} that were published before are sent again"
        " with zeros, since nothing is counted under their keys any more"
        " (user, VO, role, SubmitHost, benchmark, nodes, cores)"
    )


def send_zeros(
    target: Target,
    live: Sequence[tuple[str, SentSum]],
    current: Sequence[Part],
    limits: Limits,
    tally: Tally,
    delivery: Deliverer,
) -> None:
    """Take back what the receiver has under keys that are not sent now; arguments as of `zeros`."""
    dialect = "server" if isinstance(target, SGASTarget) else target.apel_dialect
    for kind, parts in zeros(live, current, dialect).items():
        tally.note(zeros_note(kind, parts))
        delivery.deliver(Consignment(DOCUMENTS[kind], batched(parts, *limits)))
