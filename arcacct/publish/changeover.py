"""
From sums to records of their own, or back, month by month: APEL adds up both, so together they would count double.

The new family is sent first and the old one taken back after; until both is done the month stands in the ledger, and
the next run does it again.
"""

from __future__ import annotations

from collections.abc import Iterable

from arcacct.conf.targets import SGASTarget
from arcacct.publish.batches import JobBatcher
from arcacct.publish.delivery import Deliverer
from arcacct.publish.families import APEL_JOB_KINDS, JobFamily, job_family
from arcacct.publish.feed import Task, add_period
from arcacct.publish.sums import Month, month_bounds, month_name, send_zeros
from arcacct.store import cells, query, sent


def unfinished(task: Task) -> set[Month]:
    """The months whose change is not known to be done, or of which a sum was refused."""
    return sent.open_months(task.publishing, task.target.block)


def to_jobs(task: Task, family: JobFamily, months: Iterable[Month], delivery: Deliverer) -> None:
    """Of months that were sent as sums: send each job instead, then the sums with zeros."""
    open_months = unfinished(task)
    for month in sorted({*months, *open_months}):
        live = sent.live_summaries(task.publishing, task.target.block, *month)
        if not live and month not in open_months:
            continue
        pruned = _pruned_jobs(task, month)
        if pruned:
            task.tally.note(f"{month_name(month)} keeps its sums: {pruned} of its jobs were pruned")
            end(task, [month])
            continue
        was = f"{month_name(month)} was published as {live[0][0] if live else 'sums'} before"
        task.tally.note(
            f"{was}: every job of the month is sent as a {family.document.kind} record,"
            f" then its {len(live)} sums again with zeros"
        )
        _begin(task, month)
        batcher = JobBatcher(family, delivery, task.tally, task.limits, republish=True)
        add_period(task, batcher, *month_bounds(*month))
        batcher.flush()
        send_zeros(task.target, live, [], task.limits, task.tally, delivery)
        end(task, [month])


def has_jobs(task: Task, month: Month) -> bool:
    """Whether the receiver may have jobs of a month as records of their own; says so to the ledger."""
    if month in unfinished(task):
        return True
    if sent.live_summaries(task.publishing, task.target.block, *month) or not _live_jobs(task, month):
        return False
    _begin(task, month)
    return True


def take_jobs_back(task: Task, months: Iterable[Month], delivery: Deliverer) -> None:
    """Of months that are sent as sums now: send the jobs that the receiver has with zeros."""
    assert not isinstance(task.target, SGASTarget)
    for month in sorted(months):
        for kind in _live_jobs(task, month):
            live = sent.live_versions(task.publishing, task.target.block, [kind], month_bounds(*month))
            task.tally.note(
                f"{month_name(month)}: {len(live)} jobs were published as {kind} records before: they are sent again"
                " with zeros, and summaries from now on; the receiver counts these jobs twice, their usage once"
            )
            family = job_family(kind, task.target, task.settings)
            batcher = JobBatcher(family, delivery, task.tally, task.limits, republish=True)
            for start in range(0, len(live), query.PAGE_RECORDS):
                page = live[start : start + query.PAGE_RECORDS]
                records = query.by_job_id(task.accounting, [one.job_id for one in page])
                for one in page:
                    batcher.neutralise(records.get(one.job_id), one)
            batcher.flush()
    end(task, months)


def end(task: Task, months: Iterable[Month]) -> None:
    """These months are in one family."""
    if not task.dry_run:
        sent.close_months(task.publishing, task.target.block, months)


def _begin(task: Task, month: Month) -> None:
    if not task.dry_run:
        sent.open_month(task.publishing, task.target.block, *month)


def _pruned_jobs(task: Task, month: Month) -> int:
    """How many jobs are in the sums of a month and have no record any more."""
    counted = sum(cell.jobs for cell in cells.usage_cells(task.accounting, [month]))
    return counted - query.count_ended(task.accounting, *month_bounds(*month))


def _live_jobs(task: Task, month: Month) -> list[str]:
    """The kinds of job records that the receiver has of a month."""
    kinds = sent.job_kinds_sent(task.publishing, task.target.block) & set(APEL_JOB_KINDS)
    return [
        kind
        for kind in sorted(kinds)
        if sent.live_versions(task.publishing, task.target.block, [kind], month_bounds(*month))
    ]
