"""Counting what a target was given under an older program, which kept records by their keys alone."""

from __future__ import annotations

from collections.abc import Iterator

from arcacct.jobs import reading
from arcacct.publishing import given, sent
from arcacct.publishing.digests import is_same
from arcacct.publishing.given import Sighting
from arcacct.publishing.instants import month_of
from arcacct.publishing.ledger import COUNTS, Version
from arcacct.publishing.task import Task


def count_given(task: Task) -> None:
    """
    Count all job records that the target was given, once, after the ledger came from an older program.

    A job that is not in the database any more is counted where most jobs of its month were said to be.
    """
    if task.dry_run or given.is_counted(task.publishing, task.block):
        return
    said = sorted(sent.sums_of_kind(task.publishing, task.block, COUNTS), key=lambda one: one.jobs)
    hosts = {(one.year, one.month): one.submit_host for one in said}
    family = task.plug.any_records()

    def count(known: dict[str, list[Version]]) -> Iterator[Sighting]:
        records = reading.by_job_id(task.accounting, list(known))
        for job_id, versions in known.items():
            aar = records.get(job_id)
            for one in versions:
                site = family.site_of(one.key)
                if aar is None:
                    yield job_id, one, (site, hosts.get(month_of(one.end_time), ""), 0)
                else:
                    yield job_id, one, (site, family.place(aar)[1], aar.wall_s if is_same(aar, one.digest) else 0)

    given.count_anew(task.publishing, task.block, count, keeps_first=task.plug.keeps_first)
