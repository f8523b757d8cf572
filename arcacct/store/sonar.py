"""
Taking telemetry into the accounting database: in batches of flat memory, in slices of short transactions.

Whatever order envelopes come in, and however often, the rows are the same (`sonar_points`, `sonar_slurm`).
"""

from __future__ import annotations

import time
from _sqlite3 import Connection
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from arcacct.conf.places import Places
from arcacct.sources.sonar import Cluster, Complaint, Envelope, Errors, Rejected, Sample, Sysinfo, Told
from arcacct.sources.sonar_samples import JobKey, JobSnapshot, Reading
from arcacct.sources.sonar_use import HOUR_S
from arcacct.store.accounting import writing
from arcacct.store.sonar_hardware import Names, observe_cluster, observe_sysinfo, remember_complaint
from arcacct.store.sonar_points import add_job_points, add_node_points, forget_points, fuller
from arcacct.store.sonar_records import settle, settle_logged
from arcacct.store.sonar_site import Site
from arcacct.store.sonar_slurm import merge_report

T = TypeVar("T")

SLICE_S = 0.03
_COMPLAINTS = 100
_BATCH_WEIGHT = 100_000
_WRITES_OF_A_SAMPLE = 20


class Report:
    """What an import did."""

    def __init__(self) -> None:
        self.envelopes: Counter[str] = Counter()
        self.complaints: list[str] = []
        """The first hundred things that could not be used."""
        self.rejected = 0
        self.late = 0
        """Hours that are closed, for which samples came."""
        self.recorded = 0
        """Slurm jobs that became records, or whose records changed."""
        self.enriched = 0
        """Records of other sources that changed."""
        self.unrecorded = 0
        """Finished Slurm jobs that have no record, on a host that records jobs of A-REX."""


class Importer:
    """One run of an import: what waits to be stored, and what was done."""

    def __init__(self, con: Connection, here: Places, site: Site) -> None:
        self.con = con
        self.here = here
        self.site = site
        self.report = Report()
        self._names = Names(con)
        self._weight = 0
        self._empty()

    def _empty(self) -> None:
        self._single: list[Callable[[Connection], None]] = []
        self._readings: dict[tuple[str, str], dict[int, Reading]] = {}
        self._snapshots: dict[tuple[str, str, JobKey], dict[int, JobSnapshot]] = {}
        self._touched: set[tuple[str, int]] = set()
        self._weight = 0

    def take(self, told: Told) -> None:
        """Take one envelope; now and then everything that waits is stored."""
        what = told.what
        if what is None:
            self.store()
        elif isinstance(what, Rejected):
            self.report.rejected += 1
            if self.report.rejected <= _COMPLAINTS:
                self.report.complaints.append(f"{told.origin}: object {what.number}: {what.reason}; left out")
        else:
            self.report.envelopes[type(what).__name__.lower()] += 1
            self._take(what)
            if self._weight >= _BATCH_WEIGHT:
                self.store()

    def _take(self, what: Envelope) -> None:
        names = self._names
        if isinstance(what, Sample):
            self._take_sample(what)
        elif isinstance(what, Sysinfo):
            self._single.append(lambda con: observe_sysinfo(con, names, what))
            self._weight += _WRITES_OF_A_SAMPLE
        elif isinstance(what, Cluster):
            self._single.append(lambda con: observe_cluster(con, names, what))
            self._weight += _WRITES_OF_A_SAMPLE * (1 + len(what.nodes))
        elif isinstance(what, Errors):
            self._single += [_complaint(names, one) for one in what.complaints]
            self._weight += len(what.complaints)
        else:
            for report in what.reports:
                self._single.append(lambda con, report=report: merge_report(con, names, what.cluster, report))  # type: ignore[misc]
                self._touched.add((what.cluster, report.job_id))
            self._weight += _WRITES_OF_A_SAMPLE * len(what.reports)

    def _take_sample(self, sample: Sample) -> None:
        node = self._readings.setdefault((sample.cluster, sample.node), {})
        node[sample.time] = fuller(node.get(sample.time), sample.reading)
        for key, shot in sample.jobs.items():
            own = self._snapshots.setdefault((sample.cluster, sample.node, key), {})
            own[sample.time] = fuller(own.get(sample.time), shot)
            if key.epoch == 0:
                self._touched.add((sample.cluster, key.job))
            self._weight += len(shot.processes)
        for at, detail in sample.errors:
            self._single.append(_complaint(self._names, Complaint(at, sample.cluster, sample.node, detail)))
        self._weight += _WRITES_OF_A_SAMPLE

    def store(self) -> None:
        """Store what waits, then make and enrich the records of the jobs it is about."""
        now = int(time.time())
        self._slices([*self._single, *self._node_work(now), *self._job_work(now)])
        touched = sorted(self._touched)
        self._empty()
        self._slices([self._settling(*job) for job in touched])

    def finish(self) -> None:
        """Store the rest, enrich what became final since the last import, and let go of what is long settled."""
        self.store()
        while True:
            with writing(self.con, self.here) as con:
                done = settle_logged(con, self.site)
            self.report.enriched += done.enriched
            if not done.more:
                break
        with writing(self.con, self.here) as con:
            forget_points(con, int(time.time()))

    def _node_work(self, now: int) -> Iterator[Callable[[Connection], None]]:
        for (cluster, node), points in self._readings.items():
            for hour, own in _by_hour(points).items():
                yield lambda con, cluster=cluster, node=node, hour=hour, own=own: self._late(  # type: ignore[misc]
                    add_node_points(con, self._names.node(cluster, node), hour, own, now)
                )

    def _job_work(self, now: int) -> Iterator[Callable[[Connection], None]]:
        for (cluster, node, key), points in self._snapshots.items():
            for hour, own in sorted(_by_hour(points).items()):
                yield lambda con, cluster=cluster, node=node, key=key, hour=hour, own=own: self._late(  # type: ignore[misc]
                    add_job_points(con, self._names.job(cluster, node, key), hour, own, now)
                )

    def _late(self, stored: bool) -> None:
        self.report.late += not stored

    def _settling(self, cluster: str, job_id: int) -> Callable[[Connection], None]:
        def run(con: Connection) -> None:
            done = settle(con, self.site, self._names.cluster(cluster), cluster, job_id)
            self.report.recorded += done.recorded
            self.report.enriched += done.enriched
            self.report.unrecorded += done.unrecorded

        return run

    def _slices(self, work: Iterable[Callable[[Connection], None]]) -> None:
        """Do some work, in transactions that no hook has to wait for."""
        todo = iter(work)
        one = next(todo, None)
        while one is not None:
            with writing(self.con, self.here) as con:
                began = time.monotonic()
                while one is not None and time.monotonic() - began < SLICE_S:
                    one(con)
                    one = next(todo, None)


def import_telemetry(con: Connection, here: Places, site: Site, stream: Iterable[Told]) -> Report:
    """Take every envelope of a stream; the same twice changes nothing. Raises StoreError and its kinds."""
    run = Importer(con, here, site)
    try:
        for told in stream:
            run.take(told)
    finally:
        run.finish()
    return run.report


def _by_hour(points: dict[int, T]) -> dict[int, dict[int, T]]:
    found: dict[int, dict[int, T]] = {}
    for at, point in points.items():
        found.setdefault(at - at % HOUR_S, {})[at] = point
    return found


def _complaint(names: Names, one: Complaint) -> Callable[[Connection], None]:
    return lambda con: remember_complaint(con, names, one)
