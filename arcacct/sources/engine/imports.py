"""The common parts of imports of batch systems' accounting: slices of jobs, and reports."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from arcacct.config.paths import Places
from arcacct.config.values import MapRule, QueueBenchmark
from arcacct.database.access import writing
from arcacct.database.connection import Connection
from arcacct.errors import InputError
from arcacct.files.follow import STDIN, FileTailer, Reader
from arcacct.records import batch_jobs, usage
from arcacct.records.enrichment import OF_AREX, Conflict, enrich
from arcacct.records.import_quarantine import Fault, Reject, RejectedEntry
from arcacct.records.imports import SHOWN, ImportRun, RunReport, Say
from arcacct.records.model import Job
from arcacct.records.reader import unescaped
from arcacct.records.writer import Written

# The common parts of imports of batch systems' accounting.
#
# All reports of a job are kept, and the job is always made from all of them. So the order and the number of reports do
# not matter. A job that is made again and is equal writes nothing and logs nothing.


N = TypeVar("N")
"""The key of a job within a source."""

_CACHE_KIB = 16 * 1024
"""A job is written to about twenty indexes: their pages should stay in the cache during a large import."""
POLL_S = 2.0
"""Batch systems append every few seconds: Grid Engine every 15 s (accounting_flush_time)."""
_PAGE = 500


class BatchSite(NamedTuple):
    """The site's configuration for jobs of a batch system."""

    cell: str = ""
    """Part of each job's identity, so it must never change. Slurm's runs contain their cluster."""
    rules: tuple[MapRule, ...] = ()
    default_benchmark: str | None = None
    queue_benchmarks: tuple[QueueBenchmark, ...] = ()

    def benchmark(self, queue: str | None, end_time: int) -> tuple[str | None, str]:
        """Return the benchmark of a queue's nodes for a job with this end (UTC seconds), and its source."""
        return batch_jobs.queue_benchmark(queue, end_time, self.queue_benchmarks, self.default_benchmark)


class BatchPolicy(NamedTuple):
    """The settings for making jobs."""

    site: BatchSite
    now: int
    """UTC seconds."""
    wait_s: int
    """How many seconds a job waits for A-REX to finish a job that may be the same one."""
    prefer_arc: bool = True


class BatchTaken(NamedTuple):
    """The result of importing records of a batch system, as counts."""

    new: int = 0
    known: int = 0
    """Records that were stored already."""
    added: int = 0
    """New jobs."""
    changed: int = 0
    """Changed jobs."""
    enriched: int = 0
    """Jobs of other sources that got values."""
    waiting: int = 0
    """Jobs that may be the same as one that A-REX has not finished yet."""
    followed: int = 0
    """Jobs that wait for another run, which the batch system announced with the last one."""
    pruned: int = 0
    """Jobs that were pruned from the database: they are counted and published already."""
    conflicts: tuple[Conflict, ...] = ()
    without_wall: int = 0
    """Added or changed jobs for which the batch system has no wall time ..."""
    without_cpu: int = 0
    """... and those for which it has no CPU time ..."""
    with_part_of_cpu: int = 0
    """... or that of only some runs."""

    def plus(self, other: BatchTaken) -> BatchTaken:
        """Return the sum of both results."""
        return BatchTaken._make(one + more for one, more in zip(self, other, strict=True))  # type: ignore[operator]


@dataclass
class BatchReport(RunReport):
    """The report of an import of a batch system."""

    failed_jobs: int = 0
    """Jobs that could not be made again from their stored reports."""
    more_conflicts: int = 0
    """Differences from A-REX that were not reported one by one."""
    unusable: Counter[str] = field(default_factory=Counter)
    """By field: jobs that were imported without its value, which is unusable."""
    taken: BatchTaken = field(default_factory=BatchTaken)


def pages(con: Connection, query: str, last: tuple[Any, ...], *values: object) -> Iterator[list[Any]]:
    """Yield pages of a query; its parameters are the last row of the previous page (first: ``last``) and ``values``."""
    while page := con.execute(query, (*last, *values)).fetchall():
        yield page
        last = page[-1]


class BatchSlice:
    """The work of one transaction."""

    def __init__(self, con: Connection, policy: BatchPolicy, source: str) -> None:
        self.con = con
        self.policy = policy
        self.taken = BatchTaken()
        self._source = source
        self.has_arc_jobs = batch_jobs.has_arc_jobs(con)
        self._unfinished = batch_jobs.earliest_unfinished(con) if self.has_arc_jobs else None

    def existing(self, record_ids: Iterable[int]) -> dict[int, tuple[str, str | None]]:
        """Return JobID and source of the records that still exist, by RecordID; the others were pruned."""
        marks = ",".join(map(str, record_ids))
        rows = self.con.execute(
            "SELECT AAR.RecordID, JobID, Source FROM AAR LEFT JOIN RecordSources USING (RecordID)"
            f" WHERE AAR.RecordID IN ({marks})"
        )
        return {record_id: (unescaped(job_id), source) for record_id, job_id, source in rows}

    def enrich(self, record_id: int, job: Job) -> None:
        """Add the batch system's measured values to a record of another source."""
        over_arex = not self.policy.prefer_arc
        told, marks = batch_jobs.measured(job), dict(job.field_sources)
        done = enrich(self.con, record_id, self._source, told, events=job.events, marks=marks, over_arex=over_arex)
        self.taken = self.taken.plus(BatchTaken(enriched=int(done.changed), conflicts=done.conflicts))

    def waits(self, job: Job) -> bool:
        """Whether a job may be the same as one that A-REX has not finished yet."""
        return (
            self._unfinished is not None
            and self._unfinished <= job.submit_time + batch_jobs.CLOCKS_S
            and self.policy.now - job.end_time < self.policy.wait_s
        )


def of_written(written: Written) -> BatchTaken:
    """Return the counts for jobs that were written as the batch system's own records."""
    return BatchTaken(
        added=written.added,
        changed=written.changed,
        without_wall=written.without_wall,
        without_cpu=written.without_cpu,
        with_part_of_cpu=written.with_part_of_cpu,
    )


class BatchImport(ImportRun, Generic[N]):
    """One import, or many while it follows files; ``report``, of the source's own type, has the results so far."""

    progress_of: tuple[str, str]
    """The table with the position up to which A-REX's records were examined, and its column for the cell or cluster."""
    report: BatchReport

    def __init__(
        self,
        here: Places,
        con: Connection,
        policy: BatchPolicy,
        source: str,
        say: Say,
        clock: Callable[[], float],
        views: str | None = None,
    ) -> None:
        super().__init__(here, con, source, policy.site.cell, say, views)
        con.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._policy = policy
        self._clock = clock
        self._conflicts: set[Conflict] = set()

    @abstractmethod
    def made(self, con: Connection, policy: BatchPolicy, jobs: Sequence[N], /) -> BatchTaken:
        """Make jobs again from their stored reports, inside the transaction."""

    @abstractmethod
    def _cells(self) -> Collection[str]:
        """Return the cells or clusters that have jobs."""

    def _progress_key(self, cell: str) -> str:
        """Return the key of a cell in the table of progress."""
        return cell

    @abstractmethod
    def _numbers(self, cell: str, local_job_id: str) -> N | None:
        """Return the key of the job that A-REX's LocalJobID names in a cell; ``None``: not of this batch system."""

    @abstractmethod
    def _pages(self, *, waiting: bool) -> Iterable[Sequence[N]]:
        """Return all jobs, or those without a record, in pages."""

    @abstractmethod
    def _called(self, job: N) -> str:
        """Return a text that names a job, and what it is made from, for messages."""

    @abstractmethod
    def _once_more(self, kept: RejectedEntry, content: bytes) -> None:
        """Import a rejected record again, in its own transaction."""

    @abstractmethod
    def _tailer(self, paths: Sequence[str]) -> FileTailer:
        """Return a reader of the files of these paths."""

    @abstractmethod
    def _new_lines(self, reader: Reader) -> None:
        """Import the complete lines of a file after its position."""

    @abstractmethod
    def _so_far(self) -> int:
        """Return how much was read; the value changes with each line."""

    def follow(
        self, paths: Sequence[str], *, poll_s: float = POLL_S, goes_on: Callable[[], bool] = lambda: True
    ) -> None:
        """
        Import files and then new lines, every ``poll_s`` seconds, as long as ``goes_on`` returns True.

        Raises InputError for ``-``.
        """
        if STDIN in paths:
            raise InputError("-: standard input cannot be followed; it is read to its end without --follow")
        finished = -1
        for reader in self._tailer(paths).follow(poll_s, goes_on=goes_on):
            if reader is not None:
                self._new_lines(reader)
            elif self._so_far() != finished:
                finished = self._so_far()
                self.finish()

    def _now(self) -> BatchPolicy:
        return self._policy._replace(now=int(self._clock()))

    def _count(self, taken: BatchTaken) -> None:
        for conflict in taken.conflicts:
            if conflict in self._conflicts:
                continue
            if len(self._conflicts) < SHOWN:
                self._say(f"{conflict}; {'the first' if self._policy.prefer_arc else 'the second'} is kept")
                self._conflicts.add(conflict)
            else:
                self.report.more_conflicts += 1
        self.report.taken = self.report.taken.plus(taken._replace(conflicts=()))

    def finish(self) -> None:
        """Process jobs that A-REX finished since, then the waiting jobs, and update the monthly sums."""
        # Jobs that are completed now are logged after this: the next import examines them and changes nothing.
        horizon = self._con.execute("SELECT ifnull(max(Seq), 0) FROM FinishedLog").fetchone()[0]
        with_arc = batch_jobs.has_arc_jobs(self._con)
        for cell in self._cells():
            self._make_again(self._logged_by_arc(cell, horizon) if with_arc else ())
            self._reach(cell, "Seq", horizon)
        self.report.taken = self.report.taken._replace(waiting=0, followed=0)
        self._make_again(self._pages(waiting=True))
        usage.update_monthly(self._con, self._here)
        usage.update_breakdown(self._con, self._here)
        self._say_causes()

    def _logged_by_arc(self, cell: str, horizon: int) -> Iterator[list[N]]:
        """Yield A-REX's jobs that ended or changed since the last import, in pages."""
        while logged := self._con.execute(
            "SELECT Seq, LocalJobID, coalesce(Source, ?) FROM FinishedLog LEFT JOIN AAR USING (RecordID)"
            " LEFT JOIN RecordSources USING (RecordID) WHERE Seq > ? AND Seq <= ? ORDER BY Seq LIMIT ?",
            (OF_AREX[0], self._reached(cell, "Seq") or 0, horizon, _PAGE),
        ).fetchall():
            yield [
                number
                for _seq, local_job_id, source in logged
                if source in OF_AREX and (number := self._numbers(cell, local_job_id or "")) is not None
            ]
            self._reach(cell, "Seq", logged[-1][0])

    def _reached(self, cell: str, column: str) -> int | None:
        """Return how far a cell was examined: ``Seq`` of A-REX's records, or ``AskedUntil`` (`RunsImport.ask`)."""
        table, key = self.progress_of
        query = f"SELECT {column} FROM {table} WHERE {key} = ?"
        row = self._con.execute(query, (self._progress_key(cell),)).fetchone()
        return None if row is None else row[0]

    def _reach(self, cell: str, column: str, position: int) -> None:
        if (self._reached(cell, column) or 0) < position:
            table, key = self.progress_of
            insert = f"INSERT INTO {table} ({key}, {column}) VALUES (?, ?)"
            with writing(self._con, self._here) as con:
                con.execute(
                    f"{insert} ON CONFLICT ({key}) DO UPDATE SET {column} = excluded.{column}",
                    (self._progress_key(cell), position),
                )

    def again(self) -> None:
        """Make every job again from its stored reports, after a change of the configuration."""
        self._make_again(self._pages(waiting=False))

    def _make_again(self, pages: Iterable[Sequence[N]]) -> None:
        for page in pages:
            for part in self._slices(page):
                self._in_halves(part, self._make_part, self._cannot_make)

    def _make_part(self, part: Sequence[N]) -> None:
        self._write(lambda con: self.made(con, self._now(), part), len(part))

    def _write(self, work: Callable[[Connection], BatchTaken], records: int, bad: Sequence[Reject] = ()) -> None:
        """Write one slice in one transaction: ``work`` for so many ``records``, and the rejected ones, ``bad``."""
        with writing(self._con, self._here) as con:
            begun = time.monotonic()
            taken = work(con)
            news = self._quarantine.keep(bad)
            self._adapt(records, time.monotonic() - begun)
        self._say_news(news)
        self._count(taken)

    def _cannot_make(self, job: N, why: Fault) -> None:
        self.report.failed_jobs += 1
        self._causes.add(self._called(job), f"{why.reason}; it does not change")

    def _retried(self, kept: RejectedEntry, content: bytes) -> bool:
        refused: list[object] = []
        self._in_halves([content], lambda _all: self._once_more(kept, content), lambda *why: refused.append(why))
        return not refused
