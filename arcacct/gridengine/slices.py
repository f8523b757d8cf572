"""
A slice of Grid Engine's records into the database, and the jobs that they change, in one transaction.

The AARs of a job are always made from all its records that are stored. So it does not matter in which order records
come, or in how many imports; what is made again and is the same writes nothing and logs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from arcacct.db.engine import Connection
from arcacct.gridengine import rows
from arcacct.gridengine.local_jobs import Site, local_job
from arcacct.gridengine.record import Key, Record, key, richer
from arcacct.gridengine.rows import Number, Place, Stored
from arcacct.gridengine.runs import JobRuns, Run, jobs
from arcacct.jobs import local
from arcacct.jobs.filling import Conflict, enrich
from arcacct.jobs.job import Job
from arcacct.jobs.precedence import GRIDENGINE
from arcacct.jobs.reading import unescaped
from arcacct.jobs.writing import JobWriter, forget, rename

_LRMS_NAMES = ("sge", "gridengine", "ge", "ogs", "uge")


class Policy(NamedTuple):
    """How jobs are made."""

    site: Site
    now: int
    """UTC seconds."""
    wait_s: int
    """How long a job waits for A-REX to finish one that it may be."""
    prefer_arc: bool = True


class Taken(NamedTuple):
    """What became of some records."""

    new: int = 0
    known: int = 0
    """Records that were there already."""
    added: int = 0
    """Jobs that were not there."""
    changed: int = 0
    """Jobs that are not what they were."""
    enriched: int = 0
    """Jobs of A-REX's that were given something."""
    waiting: int = 0
    """Jobs that may be one that A-REX has not finished yet."""
    pruned: int = 0
    """Jobs that were pruned from the database: they are counted and published already."""
    conflicts: tuple[Conflict, ...] = ()

    def plus(self, other: Taken) -> Taken:
        """The sum of two."""
        return Taken._make(one + more for one, more in zip(self, other, strict=True))  # type: ignore[operator]


class _Plan(NamedTuple):
    """A job as it has to be written, and the records that it is made of."""

    job: Job
    members: tuple[Stored, ...]


class _Slice:
    """The work of one transaction."""

    def __init__(self, con: Connection, policy: Policy, writer: JobWriter) -> None:
        self.con = con
        self.policy = policy
        self.cell = policy.site.cell
        self.writer = writer
        self.with_arc = local.has_arc_jobs(con)
        self.unfinished = local.earliest_unfinished(con) if self.with_arc else None
        self.next_no = rows.next_record_no(con)
        self.new: dict[int, tuple[Stored, Place]] = {}
        self.links: dict[int, int | None] = {}
        self.plans: list[_Plan] = []
        self.taken = Taken()

    def number(self, number: Number, records: Sequence[tuple[Record, Place]], *, anyway: bool = False) -> None:
        """The records of one job number, and what they change; ``anyway``: make the jobs also if nothing is new."""
        found = {key(one.record): one for one in rows.masters(self.con, self.cell, number)}
        affected = anyway
        for record, place in records:
            affected |= self._record(record, place, found)
        if not affected or all(one.record.pe_taskid is not None for one in found.values()):
            return
        if any(one.record.granted_pe or one.record.pe_taskid for one in found.values()):
            found = {key(one.record): one for one in rows.tasks(self.con, self.cell, number)} | found
        self._jobs(found)

    def single(self, record: Record, place: Place) -> None:
        """The only record of a number: most jobs have no more, and need no looking up."""
        new = self._new(record, place)
        job = local_job(JobRuns((Run(record),)), self.policy.site)
        if job is not None:
            self._job(job, (new,), {}, set())

    def _new(self, record: Record, place: Place) -> Stored:
        new = Stored(self.next_no, None, record)
        self.next_no += 1
        self.new[new.record_no] = new, place
        return new

    def _record(self, record: Record, place: Place, found: dict[Key, Stored]) -> bool:
        """Put a record among those of its number; whether it changed anything."""
        known_by = key(record)
        old = found.get(known_by)
        if old is None and record.pe_taskid is not None:
            old = rows.same(self.con, self.cell, known_by)
        if old is None:
            found[known_by] = self._new(record, place)
            return True
        found[known_by] = old
        self.taken = self.taken._replace(known=self.taken.known + 1)
        better = old.record if old.record == record else richer(old.record, record)
        if better == old.record:
            return False
        found[known_by] = old._replace(record=better)
        if old.record_no in self.new:
            self.new[old.record_no] = found[known_by], self.new[old.record_no][1]
        else:
            rows.replace(self.con, found[known_by])
        return True

    def _jobs(self, found: dict[Key, Stored]) -> None:
        """Make the jobs of one number, and see which AAR each of them has."""
        before = {one.record_id for one in found.values() if one.record_id is not None}
        existing = self._existing(before)
        claimed: set[int] = set()
        for runs in jobs(one.record for one in found.values()):
            members = tuple(found[key(record)] for run in runs.runs for record in run.records)
            job = local_job(runs, self.policy.site)
            if job is not None:
                self._job(job, members, existing, claimed)
            else:
                self._link(members, None)
        # No job is left for these: their records went to another.
        forget(self.con, sorted(existing.keys() - claimed))

    def _existing(self, record_ids: set[int]) -> dict[int, str]:
        """JobID of our own AARs among these; others are of A-REX, or were pruned."""
        if not record_ids:
            return {}
        marks = ",".join(map(str, record_ids))
        ours = self.con.execute(
            f"SELECT RecordID, JobID FROM AAR JOIN RecordSources USING (RecordID) WHERE RecordID IN ({marks})"
            " AND Source = ?",
            (GRIDENGINE,),
        )
        return {record_id: unescaped(job_id) for record_id, job_id in ours}

    def _job(self, job: Job, members: tuple[Stored, ...], existing: dict[int, str], claimed: set[int]) -> None:
        linked = {one.record_id for one in members if one.record_id is not None}
        candidates = sorted(linked & existing.keys() - claimed, key=lambda one: (existing[one] != job.job_id, one))
        if self.with_arc and self._is_arc_job(job, members):
            return
        if linked and not candidates and not linked & claimed and self._pruned(linked):
            claimed |= linked
            self._link(members, min(linked))
            self.taken = self.taken._replace(pruned=self.taken.pruned + 1)
        elif candidates:
            claimed.add(candidates[0])
            if existing[candidates[0]] != job.job_id:
                rename(self.con, candidates[0], job.job_id)
            self.plans.append(_Plan(job, members))
        elif self._waits(job):
            self._link(members, None)
            self.taken = self.taken._replace(waiting=self.taken.waiting + 1)
        else:
            self.plans.append(_Plan(job, members))

    def _is_arc_job(self, job: Job, members: tuple[Stored, ...]) -> bool:
        """Whether A-REX has the job: then its record is completed, and there is no other."""
        record_id = local.arc_job(self.con, job, _LRMS_NAMES)
        if record_id is None:
            return False
        over_arex = not self.policy.prefer_arc
        told = local.measured(job)
        done = enrich(self.con, record_id, GRIDENGINE, told, events=job.events, over_arex=over_arex)
        self._link(members, record_id)
        self.taken = self.taken.plus(Taken(enriched=int(done.changed), conflicts=done.conflicts))
        return True

    def _pruned(self, linked: set[int]) -> bool:
        marks = ",".join(map(str, linked))
        return self.con.execute(f"SELECT 1 FROM AAR WHERE RecordID IN ({marks})").fetchone() is None

    def _waits(self, job: Job) -> bool:
        return (
            self.unfinished is not None
            and self.unfinished <= job.submit_time + local.CLOCKS_S
            and self.policy.now - job.end_time < self.policy.wait_s
        )

    def _link(self, members: Iterable[Stored], record_id: int | None) -> None:
        for one in members:
            if one.record_no in self.new:
                self.new[one.record_no] = one._replace(record_id=record_id), self.new[one.record_no][1]
            elif one.record_id != record_id:
                self.links[one.record_no] = record_id

    def write(self) -> Taken:
        """Write everything that was planned."""
        plans = {plan.job.job_id: plan for plan in self.plans}
        if plans:
            written = self.writer.write([plan.job for plan in plans.values()])
            for job_id, plan in plans.items():
                self._link(plan.members, written.record_ids[job_id])
            self.taken = self.taken._replace(added=written.added, changed=written.changed)
        self.taken = self.taken._replace(new=len(self.new))
        rows.add(self.con, self.cell, list(self.new.values()))
        rows.link(self.con, [(record_id, record_no) for record_no, record_id in self.links.items()])
        return self.taken


def take(con: Connection, policy: Policy, writer: JobWriter, records: Sequence[tuple[Record, Place]]) -> Taken:
    """Write new records and what they change; inside the caller's transaction."""
    by_number: dict[Number, list[tuple[Record, Place]]] = {}
    for record, place in records:
        by_number.setdefault((record.job_number, record.task_number), []).append((record, place))
    work = _Slice(con, policy, writer)
    known = rows.known_numbers(con, work.cell, list({job for job, _task in by_number}))
    for number, some in by_number.items():
        if number not in known and len(some) == 1 and some[0][0].pe_taskid is None:
            work.single(*some[0])
        else:
            work.number(number, some)
    return work.write()


def make_again(con: Connection, policy: Policy, writer: JobWriter, numbers: Iterable[Number]) -> Taken:
    """Make the jobs of these numbers again from their records; inside the caller's transaction."""
    work = _Slice(con, policy, writer)
    for number in numbers:
        work.number(number, (), anyway=True)
    return work.write()
