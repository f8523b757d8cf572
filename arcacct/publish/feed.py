"""Which records go into a target's batches: those that are new, those whose time has come, those of a period."""

from __future__ import annotations

import time
from _sqlite3 import Connection
from collections.abc import Sequence
from typing import NamedTuple

from arcacct.conf.settings import Settings
from arcacct.conf.targets import Target
from arcacct.publish.batches import JobBatcher, Limits
from arcacct.publish.families import wants
from arcacct.publish.tally import Tally
from arcacct.records.aar import AAR
from arcacct.store import held, query, sent
from arcacct.store.ledger import Cursor, Version
from arcacct.store.query import Page

Versions = dict[str, list[Version]]
"""What the receiver has of each job."""


class Task(NamedTuple):
    """One target's run: what its steps share."""

    settings: Settings
    target: Target
    accounting: Connection
    publishing: Connection
    tally: Tally
    limits: Limits
    dry_run: bool

    @property
    def settled_at(self) -> int:
        """Failed jobs that ended later may still be resumed."""
        return int(time.time()) - self.target.settle_s


def add_logged(task: Task, batcher: JobBatcher, position: Cursor, horizon: int) -> None:
    """What was logged after the cursor, in that order; what is not to be published any more is taken back."""
    _take_back_deleted(task, batcher, query.deleted_records(task.accounting, position.last_seq, horizon))
    seq = position.last_seq
    while page := query.logged_after(task.accounting, seq, horizon, ended_from=position.start_end_time):
        job_ids = [*(one.aar.job_id for one in page.records), *page.others]
        known = _versions(task, job_ids)
        aside = held.states(task.publishing, task.target.block, job_ids)
        settled = [
            one.aar.job_id
            for one in page.records
            if aside.get(one.aar.job_id) != "dropped"
            and _add(task, batcher, one.seq, one.aar, known.get(one.aar.job_id, []))
        ]
        settled += _add_others(task, batcher, page, known)
        # A record that was held back for what it was, and is again what the receiver has, waits for nothing.
        _release(task, [job_id for job_id in settled if job_id in aside])
        seq = page.last_seq
        batcher.passed(seq)


def _add(task: Task, batcher: JobBatcher, seq: int, aar: AAR, known: Sequence[Version]) -> bool:
    """True if nothing has to be sent: the receiver has it, or it is none of the target's business."""
    if wants(task.target, aar.vo):
        return not batcher.add(aar, seq, known)
    return batcher.take_back(aar.job_id, aar, known)


def _add_others(task: Task, batcher: JobBatcher, page: Page, known: Versions) -> list[str]:
    """Records that are not to be published: taken back if they were; returns those that nothing is left of."""
    records = query.by_job_id(task.accounting, [job_id for job_id in page.others if known.get(job_id)])
    return [job_id for job_id in page.others if batcher.take_back(job_id, records.get(job_id), known.get(job_id, []))]


def _take_back_deleted(task: Task, batcher: JobBatcher, record_ids: Sequence[int]) -> None:
    if not record_ids:
        return
    job_ids = sent.jobs_of_records(task.publishing, task.target.block, record_ids)
    there = query.by_job_id(task.accounting, job_ids)
    gone = [job_id for job_id in job_ids if job_id not in there]
    known = _versions(task, gone)
    _release(task, [job_id for job_id in gone if batcher.take_back(job_id, None, known.get(job_id, []))])


def add_held(task: Task, batcher: JobBatcher) -> None:
    """Records that were held back and whose time has come, page by page."""
    after = ""
    while page := held.held_to_send(task.publishing, task.target.block, task.settled_at, after=after):
        job_ids = [job_id for job_id, _state in page]
        records = query.by_job_id(task.accounting, job_ids)
        known = _versions(task, job_ids)
        # Who says "retry" has made room for it at the receiver: what that had before does not matter.
        settled = [
            job_id
            for job_id, state in page
            if job_id not in records
            or _add(task, batcher, 0, records[job_id], () if state == "retry" else known.get(job_id, []))
        ]
        # Before the log, which may have the same records again: by then the ledger has to know these.
        batcher.flush()
        _release(task, settled)
        after = job_ids[-1]


def add_period(task: Task, batcher: JobBatcher, ended_from: int, ended_before: int) -> None:
    """Every record that ended in a period, but for those that an operator dropped."""
    for page in query.ended_between(task.accounting, ended_from, ended_before):
        job_ids = [aar.job_id for aar in page]
        known = _versions(task, job_ids)
        aside = held.states(task.publishing, task.target.block, job_ids)
        for aar in page:
            if wants(task.target, aar.vo) and aside.get(aar.job_id) != "dropped":
                batcher.add(aar, 0, known.get(aar.job_id, []))


def _versions(task: Task, job_ids: Sequence[str]) -> Versions:
    return sent.versions(task.publishing, task.target.block, job_ids)


def _release(task: Task, job_ids: Sequence[str]) -> None:
    if job_ids and not task.dry_run:
        held.release(task.publishing, task.target.block, job_ids)
