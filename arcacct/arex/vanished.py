"""Jobs that are unfinished in the database and of which nothing is left in the control directory."""

from __future__ import annotations

import time
from collections.abc import Sequence

from arcacct.arex import own
from arcacct.arex.layout import STATES, is_gone, is_whole
from arcacct.arex.sweeping import Gap, SweepRun, batches
from arcacct.arex.witness import ArexLookup
from arcacct.database import access
from arcacct.records.unfinished import REMEDIES, InProgress, abort, hold, in_progress, is_gone_since, on_hold

PATIENCE_NS = 600_000_000_000
"""
A job without files is taken for vanished when its last event is older than this: A-REX removes a status file before it
writes the next one, and a job that was cleaned in between may still have its last event in a spool.
"""
_ASKED_JOBS = 200

ALL = "all"
"""In place of job ids: every job that is on hold."""

Gone = tuple[str, InProgress]
"""A job by its id."""


class Unfinished:
    """The jobs in progress that have not been met in the control directory; as many as A-REX has under way."""

    def __init__(self, jobs: dict[str, InProgress]) -> None:
        self._jobs = jobs

    @classmethod
    def of(cls, run: SweepRun) -> Unfinished:
        """All that the database has now. Only those of a control directory: other sources follow their jobs up."""
        with access.translating(run.here.database):
            return cls(in_progress(run.con, own.own_origins(run.here)))

    def is_there(self, job_id: str) -> None:
        """Strike off a job."""
        self._jobs.pop(job_id, None)

    def settle(self, run: SweepRun, arex_lookup: ArexLookup) -> None:
        """
        Give those that have vanished the end that A-REX's own database has; without one, abort them.

        One that has told us its end is never aborted: it is put on hold, and told. Raises StoreError and its kinds.
        Does nothing in a directory that is not whole.
        """
        controldir, now_ns = run.here.controldir, time.time_ns()
        gone = (
            (job_id, job)
            for job_id, job in self._jobs.items()
            if job.event_ns < now_ns - PATIENCE_NS and not job.on_hold and is_gone(controldir, job_id)
        )
        for batch in batches(gone, _ASKED_JOBS):
            # Asked behind the jobs: a file system that went away in between has taken all of them with it.
            if run.stopping() or not is_whole(controldir):
                return
            taken = arex_lookup.take(job_id for job_id, _job in batch)
            lost: list[Gone] = []
            missed: list[InProgress] = []
            for job_id, job in batch:
                if job_id in taken:
                    continue
                if not arex_lookup.may_still_report(job_id, job.event_ns, job.gone_ns or now_ns):
                    lost.append((job_id, job))
                elif job.gone_ns is None:
                    missed.append(job)
            for some in run.slices(lost):
                _end(run, some)
            for waiting in run.slices(missed):
                with run.recording(len(waiting)):
                    for job in waiting:
                        is_gone_since(run.con, job, now_ns)


def _end(run: SweepRun, jobs: list[Gone]) -> None:
    """Abort the jobs of a slice, or put them on hold."""
    here = run.here

    def wrong(job: Gone, error: Exception) -> None:
        run.complain(job[0], here.database, error)

    def settle(some: Sequence[Gone]) -> tuple[int, list[str]]:
        aborted = sum(abort(run.con, job, STATES) for _job_id, job in some if job.finished_s is None)
        return aborted, [job_id for job_id, job in some if job.finished_s is not None and hold(run.con, job)]

    for aborted, held in run.record_each(jobs, settle, wrong):
        if aborted:
            run.found[Gap.VANISHED] += aborted
        for job_id in held:
            run.complaints.append(
                f"{job_id}: it has ended, its files in {here.controldir} are gone, and nothing tells what it used, not "
                f"A-REX's own database either; it stays in progress and is not published: {REMEDIES}"
            )


def give_up(run: SweepRun, job_ids: Sequence[str]) -> None:
    """Make jobs that are on hold aborted, as somebody wants who knows that nothing will tell their usage any more."""
    with access.translating(run.here.database):
        waiting = on_hold(run.con)
    wanted = dict.fromkeys(waiting if ALL in job_ids else job_ids)
    for job_id in wanted:
        if job_id not in waiting:
            run.complaints.append(
                f"{job_id}: not given up: no sweep has put it on hold; `arcacct job info` shows what is known of it"
            )
    for some in run.slices([waiting[job_id] for job_id in wanted if job_id in waiting]):
        with run.recording(len(some)):
            run.found[Gap.GIVEN_UP] += sum(abort(run.con, job, STATES) for job in some)
