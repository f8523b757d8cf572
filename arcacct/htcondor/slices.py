"""
A slice of HTCondor's jobs into the database, and the records that they change, in one transaction.

What is kept of a job is what all outputs together say of it, so it does not matter in which order they come, or how
often; what is made again and is the same writes nothing and logs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from arcacct.database.connection import Connection
from arcacct.htcondor import stored_jobs
from arcacct.htcondor.local_jobs import local_job, may_be_of
from arcacct.htcondor.record import CondorJob, joined
from arcacct.htcondor.stored_jobs import JobNumber, KeptJob
from arcacct.records import batch_jobs
from arcacct.records.enrichment import HTCONDOR
from arcacct.records.imports import BatchPolicy, BatchSlice, BatchTaken, of_written
from arcacct.records.model import Job
from arcacct.records.writer import JobWriter, remove

LRMS_NAMES = ("condor", "htcondor")

Known = dict[tuple[int, int], dict[int, KeptJob]]
"""By cluster and process, and when they were queued."""


class _JobsSlice(BatchSlice):
    def __init__(self, con: Connection, policy: BatchPolicy) -> None:
        super().__init__(con, policy, HTCONDOR, LRMS_NAMES)
        self.next_no = stored_jobs.next_job_no(con)
        self.kept: dict[int, KeptJob] = {}
        """By JobNo, as they are in the database."""
        self.now: dict[int, KeptJob] = {}
        """As they have to be."""
        self.writes: dict[str, list[tuple[Job, KeptJob]]] = {}
        """By schedd."""

    def known(self, schedd: str, numbers: Iterable[tuple[int, int]]) -> Known:
        """What is kept of some numbers of a schedd."""
        found: Known = {}
        for one in stored_jobs.of_jobs(self.con, schedd, numbers):
            self.kept[one.job_no] = self.now[one.job_no] = one
            found.setdefault((one.job.cluster, one.job.proc), {})[one.job.queued] = one
        return found

    def add(self, job: CondorJob, known: dict[int, KeptJob]) -> bool:
        """Put a job among those that are kept of its number; whether that changed anything."""
        old = known.get(job.queued)
        if old is None:
            one = KeptJob(self.next_no, None, job)
            self.next_no += 1
            self.taken = self.taken._replace(new=self.taken.new + 1)
        else:
            one = old._replace(job=joined(old.job, job))
            self.taken = self.taken._replace(known=self.taken.known + 1)
        known[job.queued] = self.now[one.job_no] = one
        if old is not None and old.job.token_subject is None:
            # Recorded, and perhaps published, before tokens were read: `--derive-again` says whose it is by its token.
            return one.job.without_token != old.job.without_token
        return one != old

    def record_of_arc(self, one: CondorJob, job: Job) -> int | None:
        """The record of A-REX's that a job is."""
        if not self.has_arc_jobs:
            return None
        found = batch_jobs.arc_jobs_called(self.con, str(one.cluster), job, LRMS_NAMES)
        return next((record_id for record_id, name in found if may_be_of(name, one)), None)

    def make(self, one: KeptJob) -> None:
        """The record of a job."""
        one = self.now[one.job_no]
        job = local_job(one.job, self.policy.site)
        record_id = self.record_of_arc(one.job, job)
        if record_id is not None:
            self._complete(record_id, job, one)
        elif one.record_id is not None and not self.existing([one.record_id]):
            self.taken = self.taken._replace(pruned=self.taken.pruned + 1)
        elif one.record_id is None and not one.job.proc and self.waits(job):
            self.taken = self.taken._replace(waiting=self.taken.waiting + 1)
        else:
            self.writes.setdefault(one.job.schedd, []).append((job, one))

    def _complete(self, record_id: int, job: Job, one: KeptJob) -> None:
        """Give a record of A-REX's what HTCondor measured; one that was made of the job before goes."""
        self.enrich(record_id, job)
        if one.record_id not in (None, record_id):
            before = self.existing([one.record_id])
            remove(self.con, [number for number, (_, source) in before.items() if source == HTCONDOR])
        self._link(one, record_id)

    def _link(self, one: KeptJob, record_id: int) -> None:
        self.now[one.job_no] = self.now[one.job_no]._replace(record_id=record_id)

    def write(self) -> BatchTaken:
        """Write everything that was planned."""
        for schedd, some in self.writes.items():
            written = JobWriter(self.con, HTCONDOR, schedd).write([job for job, _ in some])
            for job, one in some:
                self._link(one, written.record_ids[job.job_id])
            self.taken = self.taken.plus(of_written(written))
        changed = [one for number, one in self.now.items() if number in self.kept and one != self.kept[number]]
        stored_jobs.keep(self.con, [one for number, one in self.now.items() if number not in self.kept], changed)
        return self.taken


def take(con: Connection, policy: BatchPolicy, jobs: Sequence[CondorJob]) -> BatchTaken:
    """Write jobs and what they change; inside the caller's transaction."""
    by_schedd: dict[str, list[CondorJob]] = {}
    for job in jobs:
        by_schedd.setdefault(job.schedd, []).append(job)
    work = _JobsSlice(con, policy)
    for schedd, some in by_schedd.items():
        known = work.known(schedd, {(job.cluster, job.proc) for job in some})
        changed: dict[int, KeptJob] = {}
        for job in some:
            of_number = known.setdefault((job.cluster, job.proc), {})
            if work.add(job, of_number):
                one = of_number[job.queued]
                changed[one.job_no] = one
        for one in changed.values():
            work.make(one)
    return work.write()


def make_again(con: Connection, policy: BatchPolicy, numbers: Iterable[JobNumber]) -> BatchTaken:
    """Make these jobs again from what is kept of them; inside the caller's transaction."""
    by_schedd: dict[str, list[tuple[int, int]]] = {}
    for schedd, *number in numbers:
        by_schedd.setdefault(schedd, []).append((number[0], number[1]))
    work = _JobsSlice(con, policy)
    for schedd, some in by_schedd.items():
        for of_number in work.known(schedd, some).values():
            for one in of_number.values():
                work.make(one)
    return work.write()
