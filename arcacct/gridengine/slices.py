"""
A slice of Grid Engine's records into the database, and the jobs that they change, in one transaction.

The AARs of a job are always made from all its records that are stored. So it does not matter in which order records
come, or in how many imports; what is made again and is the same writes nothing and logs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.gridengine import rows
from arcacct.gridengine.local_jobs import local_job
from arcacct.gridengine.record import Record, RecordKey, key, richer
from arcacct.gridengine.rows import LinePlace, Number, Stored
from arcacct.gridengine.runs import JobRuns, Run, jobs
from arcacct.records.enrichment import GRIDENGINE
from arcacct.records.imports import BatchPolicy, BatchSlice, BatchTaken
from arcacct.records.model import Job
from arcacct.records.writer import JobWriter, remove, rename

_LRMS_NAMES = ("sge", "gridengine", "ge", "ogs", "uge")


class _Plan(NamedTuple):
    """A job as it has to be written, and the records that it is made of."""

    job: Job
    members: tuple[Stored, ...]


class _Slice(BatchSlice):
    def __init__(self, con: Connection, policy: BatchPolicy) -> None:
        super().__init__(con, policy, GRIDENGINE, _LRMS_NAMES)
        self.cell = policy.site.cell
        self.next_no = rows.next_record_no(con)
        self.new: dict[int, tuple[Stored, LinePlace]] = {}
        self.links: dict[int, int | None] = {}
        self.plans: list[_Plan] = []

    def number(self, number: Number, records: Sequence[tuple[Record, LinePlace]], *, anyway: bool = False) -> None:
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

    def single(self, record: Record, place: LinePlace) -> None:
        """The only record of a number: most jobs have no more, and need no looking up."""
        new = self._new(record, place)
        job = local_job(JobRuns((Run(record),)), self.policy.site)
        if job is not None:
            self._job(job, (new,), {}, set())

    def _new(self, record: Record, place: LinePlace) -> Stored:
        new = Stored(self.next_no, None, record)
        self.next_no += 1
        self.new[new.record_no] = new, place
        return new

    def _record(self, record: Record, place: LinePlace, found: dict[RecordKey, Stored]) -> bool:
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

    def _jobs(self, found: dict[RecordKey, Stored]) -> None:
        """Make the jobs of one number, and see which AAR each of them has."""
        before = {one.record_id for one in found.values() if one.record_id is not None}
        # Others are of A-REX, or were pruned.
        existing = {one: job_id for one, (job_id, source) in self.existing(before).items() if source == GRIDENGINE}
        claimed: set[int] = set()
        for runs in jobs(one.record for one in found.values()):
            members = tuple(found[key(record)] for run in runs.runs for record in run.records)
            job = local_job(runs, self.policy.site)
            if job is not None:
                self._job(job, members, existing, claimed)
            else:
                self._link(members, None)
        # No job is left for these: their records went to another.
        remove(self.con, sorted(existing.keys() - claimed))

    def _job(self, job: Job, members: tuple[Stored, ...], existing: dict[int, str], claimed: set[int]) -> None:
        linked = {one.record_id for one in members if one.record_id is not None}
        candidates = sorted(linked & existing.keys() - claimed, key=lambda one: (existing[one] != job.job_id, one))
        record_id = self.arc_job(job)
        if record_id is not None:
            # Its record is completed, and there is no other.
            self.enrich(record_id, job)
            self._link(members, record_id)
            return
        if linked and not candidates and not linked & claimed and not self.existing(linked):
            claimed |= linked
            self._link(members, min(linked))
            self.taken = self.taken._replace(pruned=self.taken.pruned + 1)
        elif candidates:
            claimed.add(candidates[0])
            if existing[candidates[0]] != job.job_id:
                rename(self.con, candidates[0], job.job_id)
            self.plans.append(_Plan(job, members))
        elif self.waits(job):
            self._link(members, None)
            self.taken = self.taken._replace(waiting=self.taken.waiting + 1)
        else:
            self.plans.append(_Plan(job, members))

    def _link(self, members: Iterable[Stored], record_id: int | None) -> None:
        for one in members:
            if one.record_no in self.new:
                self.new[one.record_no] = one._replace(record_id=record_id), self.new[one.record_no][1]
            elif one.record_id != record_id:
                self.links[one.record_no] = record_id

    def write(self) -> BatchTaken:
        """Write everything that was planned."""
        plans = {plan.job.job_id: plan for plan in self.plans}
        if plans:
            written = JobWriter(self.con, GRIDENGINE, self.cell).write([plan.job for plan in plans.values()])
            for job_id, plan in plans.items():
                self._link(plan.members, written.record_ids[job_id])
            self.taken = self.taken._replace(added=written.added, changed=written.changed)
        self.taken = self.taken._replace(new=len(self.new))
        rows.add(self.con, self.cell, list(self.new.values()))
        rows.link(self.con, [(record_id, record_no) for record_no, record_id in self.links.items()])
        return self.taken


def take(con: Connection, policy: BatchPolicy, records: Sequence[tuple[Record, LinePlace]]) -> BatchTaken:
    """Write new records and what they change; inside the caller's transaction."""
    by_number: dict[Number, list[tuple[Record, LinePlace]]] = {}
    for record, place in records:
        by_number.setdefault((record.job_number, record.task_number), []).append((record, place))
    work = _Slice(con, policy)
    known = rows.known_numbers(con, work.cell, list({job for job, _task in by_number}))
    for number, some in by_number.items():
        if number not in known and len(some) == 1 and some[0][0].pe_taskid is None:
            work.single(*some[0])
        else:
            work.number(number, some)
    return work.write()


def make_again(con: Connection, policy: BatchPolicy, numbers: Iterable[Number]) -> BatchTaken:
    """Make the jobs of these numbers again from their records; inside the caller's transaction."""
    work = _Slice(con, policy)
    for number in numbers:
        work.number(number, (), anyway=True)
    return work.write()
