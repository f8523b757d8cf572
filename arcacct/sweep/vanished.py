"""Jobs that are unfinished in the database and of which nothing is left in the control directory."""

from __future__ import annotations

import time

from arcacct.controldir.layout import is_gone, is_whole
from arcacct.store import accounting
from arcacct.store.aborting import InProgress, abort, in_progress
from arcacct.sweep.task import SLICE_JOBS, Found, Task, batches

PATIENCE_NS = 600_000_000_000
"""
A job without files is taken for vanished when its last event is older than this: A-REX removes a status file before it
writes the next one, and a job that was cleaned in between may still have its last event in a spool.
"""


class Unfinished:
    """The jobs in progress that have not been met in the control directory; as many as A-REX has under way."""

    def __init__(self, jobs: dict[str, InProgress]) -> None:
        self._jobs = jobs

    @classmethod
    def of(cls, task: Task) -> Unfinished:
        """All that the database has now. Only those of a control directory: other sources follow their jobs up."""
        with accounting.translating(task.here.database):
            return cls(in_progress(task.con))

    def is_there(self, job_id: str) -> None:
        """Strike off a job."""
        self._jobs.pop(job_id, None)

    def abort(self, task: Task) -> None:
        """
        Make those aborted that have vanished: nothing is left of them, and that for some time.

        Raises StoreError and its kinds. Does nothing in a directory that is not whole.
        """
        controldir, before_ns = task.here.controldir, time.time_ns() - PATIENCE_NS
        gone = (job for job_id, job in self._jobs.items() if job.event_ns < before_ns and is_gone(controldir, job_id))
        for batch in batches(gone, SLICE_JOBS):
            # Asked behind the jobs: a file system that went away in between has taken all of them with it.
            if task.stopping() or not is_whole(controldir):
                return
            with task.recording(len(batch)):
                task.found[Found.VANISHED] += sum(abort(task.con, job) for job in batch)
