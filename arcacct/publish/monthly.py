"""The sums of one target's run: whole months of summaries, and the counts of every month."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence

from arcacct.conf.targets import APELTarget, DirectoryTarget, SGASTarget
from arcacct.publish import changeover
from arcacct.publish.batches import batched
from arcacct.publish.coverage import known_in_part, say_known_in_part
from arcacct.publish.delivery import Consignment, Deliverer, Part
from arcacct.publish.families import SYNC, SummaryFamily, apel_options, wants
from arcacct.publish.feed import Task
from arcacct.publish.sums import Month, month_bounds, send_zeros, summary_sums, sync_parts, zeros, zeros_note
from arcacct.records import acceptance
from arcacct.records.aar import AAR, UsageCell
from arcacct.store import cells, held, query, sent
from arcacct.store.ledger import Held, SentRecord

_END_OF_TIME = math.inf
_NO_MEASURE = "a duration that cannot have been measured: it is counted as 0"


def send_summaries(
    task: Task,
    family: SummaryFamily,
    months: Iterable[Month],
    counts: Sequence[Part],
    delivery: Deliverer,
    *,
    seq: int | None,
    logged: Sequence[str] = (),
) -> None:
    """
    Whole months; what was published of them under keys that no longer hold is taken back.

    ``counts`` are those of `sync_counts`, by which months are found that a job left.
    ``logged`` are jobs that were logged since the last run and have values that no sum can hold.
    """
    target = _apel(task)
    published = sent.months_of_sums(task.publishing, target.block)
    changed = changed_months(task, counts)
    perhaps = sorted({*months, *changed, *changeover.unfinished(task)})
    were_jobs = [month for month in perhaps if changeover.has_jobs(task, month)]
    wanted = {*months, *(changed & published), *were_jobs}
    in_part = known_in_part(task, wanted)
    say_known_in_part(task, in_part)
    months = sorted(wanted - in_part)
    live = [one for month in months for one in sent.live_summaries(task.publishing, target.block, *month)]
    sums = summary_sums(target, family, cells.usage_cells(task.accounting, months), task.tally)
    _hold_refused(task, family, months, sums.refused, logged)
    send_zeros(target, live, sums.parts, task.limits, task.tally, delivery)
    delivery.deliver(Consignment(family.document, batched(sums.parts, *task.limits), seq))
    changeover.take_jobs_back(task, were_jobs, delivery)


def sync_counts(task: Task) -> list[Part]:
    """How many jobs there are of each month and SubmitHost, ready to be sent; SGAS is sent none."""
    if isinstance(task.target, SGASTarget):
        return []
    options = apel_options(task.target, task.settings)
    return sync_parts(task.target, options, cells.job_counts(task.accounting))


def send_sync(task: Task, counts: Sequence[Part], delivery: Deliverer) -> None:
    """The counts of every month with jobs; last in every run."""
    if isinstance(task.target, SGASTarget):
        return
    in_part = known_in_part(task, {(part.sum.year, part.sum.month) for part in counts if part.sum is not None})
    counts = [part for part in counts if part.sum is None or (part.sum.year, part.sum.month) not in in_part]
    live = [(SYNC.kind, one) for one in sent.sums_of_kind(task.publishing, task.target.block, SYNC.kind)]
    gone = zeros(live, counts, task.target.apel_dialect).get(SYNC.kind, [])
    if gone:
        task.tally.note(zeros_note(SYNC.kind, gone))
    delivery.deliver(Consignment(SYNC, batched([*gone, *counts], *task.limits)))


def _apel(task: Task) -> APELTarget | DirectoryTarget:
    assert not isinstance(task.target, SGASTarget)
    return task.target


def changed_months(task: Task, counts: Sequence[Part]) -> set[Month]:
    """
    Months whose number of jobs is not what it was at the last run.

    A job that left a month (it was resumed and ended in another one, or was deleted) is logged nowhere in it.
    """
    before = sent.sums_of_kind(task.publishing, task.target.block, SYNC.kind)
    now = [part.sum for part in counts if part.sum is not None]
    then, today = ({(one.key, one.jobs, one.year, one.month) for one in sums} for sums in (before, now))
    return {(year, month) for _key, _jobs, year, month in then ^ today}


def _hold_refused(
    task: Task, family: SummaryFamily, months: Sequence[Month], refused: Sequence[UsageCell], logged: Sequence[str]
) -> None:
    """Name each job that is left out of the summaries, or that they hold without its usage."""
    now = int(time.time())
    aside: dict[str, Held] = {}
    periods = [month_bounds(*month) for month in sorted({(cell.year, cell.month) for cell in refused})]
    beyond = (query.LAST_SECOND + 1, _END_OF_TIME)
    # A job that ends in the future may be mended at any time, and is in none of the months then.
    everything = [*(month_bounds(*month) for month in months), (now, _END_OF_TIME)]
    for period in [*periods, beyond]:
        for page in query.ended_between(task.accounting, *period):
            for aar in page:
                _hold_one(task, family, aar, now, aside)
    known = held.quarantined(task.publishing, task.target.block, everything)
    for aar in query.by_job_id(task.accounting, [*logged, *known]).values():
        _hold_one(task, family, aar, now, aside)
    if task.dry_run:
        task.tally.quarantined += len(aside.keys() - set(known))
    else:
        task.tally.quarantined += held.hold_only(task.publishing, task.target.block, list(aside.values()), everything)


def _hold_one(task: Task, family: SummaryFamily, aar: AAR, now: int, aside: dict[str, Held]) -> None:
    reason = _refusal(family, aar, now)
    if reason is not None and wants(task.target, aar.vo):
        aside[aar.job_id] = Held(SentRecord(aar.job_id, aar.record_id, 0, aar.end_time, b""), "quarantined", reason)


def _refusal(family: SummaryFamily, aar: AAR, now: int) -> str | None:
    if not _is_whole(aar.end_time, 1, query.LAST_SECOND):
        return f"EndTime {aar.end_time} is not a time"
    if not all(_is_whole(value, 0, query.LARGEST_EXACT) for value in (aar.wall_s, aar.cpu_user_s, aar.cpu_kernel_s)):
        return _NO_MEASURE
    return acceptance.accept_cell(query.cell_of(aar), family.options, now).refusal


def _is_whole(value: object, least: int, most: int) -> bool:
    """SQLite holds anything in a column of numbers."""
    return isinstance(value, int) and least <= value <= most
