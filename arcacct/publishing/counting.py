"""Counting what a target was given under an older program, which kept records by their keys alone."""

from __future__ import annotations

import json
from collections.abc import Iterator

from arcacct.conf.targets import SGASTarget
from arcacct.jobs import reading
from arcacct.publishing import given, sent
from arcacct.publishing.digests import is_same
from arcacct.publishing.families import SYNC, UR, job_family
from arcacct.publishing.feed import Task
from arcacct.publishing.given import Sighting
from arcacct.publishing.ledger import JOB_KINDS, Version, month_of


def count_given(task: Task) -> None:
    """
    Count all job records that the target was given, once, after the ledger came from an older program.

    A job that is not in the database any more is counted where most jobs of its month were said to be.
    """
    if task.dry_run or given.is_counted(task.publishing, task.target.block):
        return
    said = sorted(sent.sums_of_kind(task.publishing, task.target.block, SYNC.kind), key=lambda one: one.jobs)
    hosts = {(one.year, one.month): one.submit_host for one in said}
    kind = UR.kind if isinstance(task.target, SGASTarget) else JOB_KINDS[0]
    place = job_family(kind, task.target, task.settings).place

    def count(known: dict[str, list[Version]]) -> Iterator[Sighting]:
        records = reading.by_job_id(task.accounting, list(known))
        for job_id, versions in known.items():
            aar = records.get(job_id)
            for one in versions:
                site = "" if kind == UR.kind else json.loads(one.key)[0]
                if aar is None:
                    yield job_id, one, (site, hosts.get(month_of(one.end_time), ""), 0)
                else:
                    yield job_id, one, (site, place(aar)[1], aar.wall_s if is_same(aar, one.digest) else 0)

    given.count_anew(task.publishing, task.target.block, count)
