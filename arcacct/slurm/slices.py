"""
A slice of Slurm's runs into the database, and the jobs that they change, in one transaction.

What is kept of a run is what all outputs together say of it, so it does not matter in which order they come, or how
often; what is made again and is the same writes nothing and logs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from arcacct.db.engine import Connection
from arcacct.jobs import local
from arcacct.jobs.filling import Conflict, enrich
from arcacct.jobs.job import Job
from arcacct.jobs.precedence import SACCT
from arcacct.jobs.writing import JobWriter, forget
from arcacct.slurm import stored_runs
from arcacct.slurm.local_jobs import SlurmSite, local_job, together
from arcacct.slurm.record import SlurmRun, joined
from arcacct.slurm.stored_runs import JobNumber, KeptRun

_LRMS_NAMES = ("slurm",)


class SlurmPolicy(NamedTuple):
    """How jobs are made."""

    site: SlurmSite
    now: int
    """UTC seconds."""
    wait_s: int
    """How long a job waits for A-REX to finish one that it may be."""
    prefer_arc: bool = True


class RunsTaken(NamedTuple):
    """What became of some runs."""

    new: int = 0
    known: int = 0
    """Runs that were there already."""
    added: int = 0
    """Jobs that were not there."""
    changed: int = 0
    """Jobs that are not what they were."""
    enriched: int = 0
    """Jobs of A-REX's, or of Sonar's, that were given something."""
    waiting: int = 0
    """Jobs that may be one that A-REX has not finished yet."""
    pruned: int = 0
    """Runs that were pruned from the database: they are counted and published already."""
    conflicts: tuple[Conflict, ...] = ()

    def plus(self, other: RunsTaken) -> RunsTaken:
        """The sum of two."""
        return RunsTaken._make(one + more for one, more in zip(self, other, strict=True))  # type: ignore[operator]


class _RunsSlice:
    """The work of one transaction."""

    def __init__(self, con: Connection, policy: SlurmPolicy) -> None:
        self.con = con
        self.policy = policy
        self.with_arc = local.has_arc_jobs(con)
        self.unfinished = local.earliest_unfinished(con) if self.with_arc else None
        self.next_no = stored_runs.next_run_no(con)
        self.kept: dict[int, KeptRun] = {}
        """By RunNo, as they are in the database."""
        self.now: dict[int, KeptRun] = {}
        """As they have to be."""
        self.writes: dict[str, list[tuple[Job, KeptRun]]] = {}
        """By cluster."""
        self.taken = RunsTaken()

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
            record_id = local.arc_job(self.con, job, _LRMS_NAMES) if self.with_arc else None
            if record_id is not None:
                of_arc.setdefault(record_id, []).append((job, one))
            else:
                self._alone(job, one)
        for record_id, members in of_arc.items():
            job = together([job for job, _ in members])
            self._enrich(record_id, job, [one for _, one in members])

    def _alone(self, job: Job, one: KeptRun) -> None:
        """A run that A-REX does not know."""
        record_id = stored_runs.sonars_record(self.con, one.run)
        if record_id is not None:
            self._enrich(record_id, job, [one])
        elif one.record_id is not None and not stored_runs.existing(self.con, [one.record_id]):
            self.taken = self.taken._replace(pruned=self.taken.pruned + 1)
        elif one.record_id is None and self._waits(job):
            self.taken = self.taken._replace(waiting=self.taken.waiting + 1)
        else:
            self.writes.setdefault(one.run.cluster, []).append((job, one))

    def _enrich(self, record_id: int, job: Job, members: Sequence[KeptRun]) -> None:
        """Give a record of A-REX's or Sonar's what Slurm measured; one that was made of the run before goes."""
        done = enrich(
            self.con,
            record_id,
            SACCT,
            local.measured(job),
            events=job.events,
            over_arex=not self.policy.prefer_arc,
        )
        self.taken = self.taken.plus(RunsTaken(enriched=int(done.changed), conflicts=done.conflicts))
        before = {one.record_id for one in members if one.record_id not in (None, record_id)}
        sources = stored_runs.existing(self.con, before)
        forget(self.con, sorted(number for number, source in sources.items() if source == SACCT))
        for one in members:
            self._link(one, record_id)

    def _link(self, one: KeptRun, record_id: int) -> None:
        self.now[one.run_no] = self.now[one.run_no]._replace(record_id=record_id)

    def _waits(self, job: Job) -> bool:
        return (
            self.unfinished is not None
            and self.unfinished <= job.submit_time + local.CLOCKS_S
            and self.policy.now - job.end_time < self.policy.wait_s
        )

    def write(self) -> RunsTaken:
        """Write everything that was planned."""
        for cluster, some in self.writes.items():
            written = JobWriter(self.con, SACCT, cluster).write([job for job, _ in some])
            for job, one in some:
                self._link(one, written.record_ids[job.job_id])
            self.taken = self.taken.plus(RunsTaken(added=written.added, changed=written.changed))
        changed = [one for number, one in self.now.items() if number in self.kept and one != self.kept[number]]
        stored_runs.keep(self.con, [one for number, one in self.now.items() if number not in self.kept], changed)
        return self.taken


def take(con: Connection, policy: SlurmPolicy, runs: Sequence[SlurmRun]) -> RunsTaken:
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


def make_again(con: Connection, policy: SlurmPolicy, numbers: Iterable[JobNumber]) -> RunsTaken:
    """Make the jobs of these numbers again from their runs; inside the caller's transaction."""
    by_cluster: dict[str, list[int]] = {}
    for cluster, job_id in numbers:
        by_cluster.setdefault(cluster, []).append(job_id)
    work = _RunsSlice(con, policy)
    for cluster, job_ids in by_cluster.items():
        for own in work.known(cluster, job_ids).values():
            work.make(own)
    return work.write()
