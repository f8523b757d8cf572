"""
A slice of Slurm's runs into the database, and the jobs that they change, in one transaction.

What is kept of a run is what all outputs together say of it, so it does not matter in which order they come, or how
often; what is made again and is the same writes nothing and logs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from arcacct.database.connection import Connection
from arcacct.records.enrichment import SACCT
from arcacct.records.imports import BatchPolicy, BatchSlice, BatchTaken, of_written
from arcacct.records.model import Job
from arcacct.records.writer import JobWriter, remove
from arcacct.slurm import stored_runs
from arcacct.slurm.local_jobs import local_job, together
from arcacct.slurm.record import SlurmRun, joined
from arcacct.slurm.stored_runs import JobNumber, KeptRun

_LRMS_NAMES = ("slurm",)


class _RunsSlice(BatchSlice):
    def __init__(self, con: Connection, policy: BatchPolicy) -> None:
        super().__init__(con, policy, SACCT, _LRMS_NAMES)
        self.next_no = stored_runs.next_run_no(con)
        self.kept: dict[int, KeptRun] = {}
        """By RunNo, as they are in the database."""
        self.now: dict[int, KeptRun] = {}
        """As they have to be."""
        self.writes: dict[str, list[tuple[Job, KeptRun]]] = {}
        """By cluster."""

    def known(self, cluster: str, job_ids: Iterable[int]) -> dict[int, dict[int, KeptRun]]:
        """What is kept of some numbers of a cluster: by number and submission."""
        found: dict[int, dict[int, KeptRun]] = {}
        for one in stored_runs.of_jobs(self.con, cluster, job_ids):
            self.kept[one.run_no] = self.now[one.run_no] = one
            found.setdefault(one.run.job_id, {})[one.run.submit_time] = one
        return found

    def add(self, runs: Iterable[SlurmRun], known: dict[int, KeptRun]) -> bool:
        """Put runs of one number among those that are kept of it; whether that changed anything."""
        changed = False
        for run in runs:
            old = known.get(run.submit_time)
            if old is None:
                one = KeptRun(self.next_no, None, run)
                self.next_no += 1
                self.taken = self.taken._replace(new=self.taken.new + 1)
            else:
                one = old._replace(run=joined(old.run, run))
                self.taken = self.taken._replace(known=self.taken.known + 1)
            changed |= one != old
            known[run.submit_time] = self.now[one.run_no] = one
        return changed

    def make(self, known: dict[int, KeptRun]) -> None:
        """The jobs of all runs of one number."""
        of_arc: dict[int, list[tuple[Job, KeptRun]]] = {}
        for _, one in sorted(known.items()):
            job = local_job(one.run, self.policy.site)
            record_id = self.arc_job(job)
            if record_id is not None:
                of_arc.setdefault(record_id, []).append((job, one))
            elif (of_sonar := stored_runs.sonars_record(self.con, one.run)) is not None:
                self._complete(of_sonar, job, [one])
            elif one.record_id is not None and not self.existing([one.record_id]):
                self.taken = self.taken._replace(pruned=self.taken.pruned + 1)
            elif one.record_id is None and self.waits(job):
                self.taken = self.taken._replace(waiting=self.taken.waiting + 1)
            else:
                self.writes.setdefault(one.run.cluster, []).append((job, one))
        for record_id, members in of_arc.items():
            self._complete(record_id, together([job for job, _ in members]), [one for _, one in members])

    def _complete(self, record_id: int, job: Job, members: Sequence[KeptRun]) -> None:
        """Give a record of A-REX's or Sonar's what Slurm measured; one that was made of the run before goes."""
        self.enrich(record_id, job)
        before = {one.record_id for one in members if one.record_id not in (None, record_id)}
        remove(self.con, sorted(number for number, (_, source) in self.existing(before).items() if source == SACCT))
        for one in members:
            self._link(one, record_id)

    def _link(self, one: KeptRun, record_id: int) -> None:
        self.now[one.run_no] = self.now[one.run_no]._replace(record_id=record_id)

    def write(self) -> BatchTaken:
        """Write everything that was planned."""
        for cluster, some in self.writes.items():
            written = JobWriter(self.con, SACCT, cluster).write([job for job, _ in some])
            for job, one in some:
                self._link(one, written.record_ids[job.job_id])
            self.taken = self.taken.plus(of_written(written))
        changed = [one for number, one in self.now.items() if number in self.kept and one != self.kept[number]]
        stored_runs.keep(self.con, [one for number, one in self.now.items() if number not in self.kept], changed)
        return self.taken


def take(con: Connection, policy: BatchPolicy, runs: Sequence[SlurmRun]) -> BatchTaken:
    """Write runs and what they change; inside the caller's transaction."""
    by_cluster: dict[str, dict[int, list[SlurmRun]]] = {}
    for run in runs:
        by_cluster.setdefault(run.cluster, {}).setdefault(run.job_id, []).append(run)
    work = _RunsSlice(con, policy)
    for cluster, by_number in by_cluster.items():
        known = work.known(cluster, by_number)
        for job_id, some in by_number.items():
            own = known.get(job_id, {})
            if work.add(some, own):
                work.make(own)
    return work.write()


def make_again(con: Connection, policy: BatchPolicy, numbers: Iterable[JobNumber]) -> BatchTaken:
    """Make the jobs of these numbers again from their runs; inside the caller's transaction."""
    by_cluster: dict[str, list[int]] = {}
    for cluster, job_id in numbers:
        by_cluster.setdefault(cluster, []).append(job_id)
    work = _RunsSlice(con, policy)
    for cluster, job_ids in by_cluster.items():
        for own in work.known(cluster, job_ids).values():
            work.make(own)
    return work.write()
