"""Messages of monthly sums: whole months of usage, and zeros under keys that no longer hold."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from arcacct.publishing.delivery import MessagePart
from arcacct.publishing.instants import Month, month_name
from arcacct.publishing.ledger import COUNTS, SentSum
from arcacct.publishing.plug import MonthlySummaries, TargetPlugin
from arcacct.publishing.this_run import RunContext, RunSummary
from arcacct.records.model import UsageCell
from arcacct.wording import count_of

_SHOWN = 10
"""So many kinds of repairs are told in a run."""


class Summed(NamedTuple):
    """The sums of some months, ready to be sent."""

    parts: list[MessagePart]
    refused: list[UsageCell]
    """Cells that the receiver would refuse: their jobs are set aside."""


def summed(plugin: TargetPlugin, family: MonthlySummaries, cells: Iterable[UsageCell], summary: RunSummary) -> Summed:
    """The summaries of the cells of whole months: a part of a month would lower what the receiver has of it."""
    now = int(time.time())
    sound: list[UsageCell] = []
    refused: list[UsageCell] = []
    repaired: Counter[tuple[Month, str]] = Counter()
    for cell in cells:
        if not plugin.target.wants(cell.vo):
            continue
        # SQLite keeps a fraction in a column of whole numbers.
        whole = cell._replace(wall_s=int(cell.wall_s), cpu_s=int(cell.cpu_s))
        verdict = family.accept(whole, now)
        if verdict.refusal is None:
            sound.append(verdict.cell)
            for note in verdict.notes:
                repaired[cell[:2], note] += cell.jobs
        else:
            refused.append(cell)
            summary.note(f"{month_name(cell[:2])}: {count_of(cell.jobs, 'job')} not sent: {verdict.refusal}")
    for (month, note), jobs in sorted(repaired.items())[:_SHOWN]:
        summary.note(f"{month_name(month)}: {count_of(jobs, 'job')}: {note}")
    if len(repaired) > _SHOWN:
        summary.note(f"and {len(repaired) - _SHOWN} more repairs of this kind; `arcacct job why` tells those of a job")
    for note in family.notes(sound):
        summary.note(note)
    return Summed([MessagePart(text, sum=one) for text, one in family.sums(sound)], refused)


def zeros(
    ctx: RunContext, known: Sequence[tuple[str, SentSum]], current: Sequence[MessagePart]
) -> Iterator[tuple[str, list[MessagePart]]]:
    """
    By kind of message: every key that the receiver was ever sent and that holds no more, with zeros.

    ``known`` are all sums that it was sent, ``current`` those that are sent now. Zeros are repeated: the receiver may
    have lost those of before, or got an older message since. The run says only which are new, as they are asked for. A
    key of another family is zeroed in that family.
    """
    kept = {part.sum.key for part in current if part.sum is not None}
    gone: dict[str, list[SentSum]] = {}
    for kind, old in known:
        if old.key not in kept:
            gone.setdefault(kind, []).append(old)
    for kind, sums in gone.items():
        new = [one for one in sums if one.jobs]
        if new:
            months = sorted({(one.year, one.month) for one in new})
            what = "sync records" if kind == COUNTS else f"{kind} records"
            ctx.summary.note(
                f"{', '.join(map(month_name, months))}: {len(new)} {what} that were published before are sent again"
                " with zeros, since nothing is counted under their keys any more"
                " (user, VO, role, SubmitHost, benchmark, nodes, cores)"
            )
        family = ctx.plugin.sums(kind)
        yield kind, [MessagePart(family.zero(one.key), sum=one._replace(jobs=0, wall_s=0)) for one in sums]
