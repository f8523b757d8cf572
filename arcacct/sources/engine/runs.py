"""Runs of jobs from a batch system: read by a table of fields, stored in one table, and made into records."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from arcacct.config.paths import Places
from arcacct.database.access import writing
from arcacct.database.connection import Connection
from arcacct.database.schema import SOURCES
from arcacct.errors import InputError, UsageError
from arcacct.files.follow import FileTailer, Reader
from arcacct.records import batch_jobs
from arcacct.records.batch_jobs import FOLLOWED_S, Figures, figures
from arcacct.records.batch_systems import BatchSystem
from arcacct.records.import_quarantine import Fault, Reject, RejectedEntry, forget
from arcacct.records.imports import Say
from arcacct.records.model import Job
from arcacct.records.states import CORE_SECONDS, OF_RUNS
from arcacct.records.writer import JobWriter, remove
from arcacct.sources.engine.imports import (
    BatchImport,
    BatchPolicy,
    BatchReport,
    BatchSite,
    BatchSlice,
    BatchTaken,
    of_written,
    pages,
)
from arcacct.wording import count_of

# One table of fields, one function that applies it.
#
# A job is rejected if a value that accounting needs (its identity, its end, how long it ran) is unusable. Any other
# unusable value becomes unknown, and is counted by its field. Values that are in no table are not parsed.


class Field(NamedTuple):
    """A value that a batch system reports of a run."""

    name: str
    """The batch system's name; also used for counting and in messages."""
    parse: Callable[[Any], Any]
    """Raises ValueError for an unusable value; returns ``None`` for unknown."""
    to: str = ""
    """The destination, by the source's name; of several fields with one destination, the first known one counts."""
    is_needed: bool = False
    unit: str = ""
    """Unit of the parsed value, if the batch system's unit differs."""


def values_of(fields: Iterable[Field], said: Callable[[str], Any], unusable: set[str]) -> dict[str, Any]:
    """
    Return the parsed values by destination; ``said`` returns the text of a field by its name, or ``None``.

    Adds the names of unusable optional values to ``unusable``. Raises ValueError, with the name, for a needed one.
    """
    found: dict[str, Any] = {}
    for name, parse, to, is_needed, _unit in fields:
        if found.get(to) is not None:
            continue
        text = said(name)
        if text is None and not is_needed:
            continue
        try:
            found[to] = parse(text)
        except ValueError as error:
            if is_needed:
                raise ValueError(f"{name}: {error}") from error
            unusable.add(name)
            found[to] = None
    return found


# The runs that a source reads, each with everything that is needed to read it again.


RunT = TypeVar("RunT", bound=tuple[Any, ...])

UNFINISHED, NEVER_STARTED = "unfinished", "never started"
JobNumber = tuple[Any, ...]
"""Cluster, schedd or server, and the numbers of a job there."""
_MOST_SHOWN = 200
"""Characters of a line that is ignored."""
_MOST_READ = 4 * 1024 * 1024
"""Characters or bytes of runs that are collected for one slice."""
_MOST_LEFT = 10_000
"""The most jobs without a run whose end may still be found."""


class NoUsage(NamedTuple):
    """Why a run is not accounted, without being an error."""

    why: str
    job: JobNumber | None = None
    """The job, if it is accounted as soon as any run of it ended ..."""
    since: int = 0
    """... at this time or later, UTC seconds."""


class Noise(NamedTuple):
    """A line that is not a record: blank, or printed by another program."""

    line: str
    number: int
    why: str = "is not a row; ignored"


class ParsedRun(NamedTuple):
    """One run of a file or output, or a line that does not belong to a job."""

    what: Any
    """A run of the source's own type, or a NoUsage, Fault or Noise."""
    position: str
    content: str | bytes
    """The run's text in the form of a separate file, as far as it is kept."""
    length: int
    """Length of the whole text, in bytes."""
    is_line: bool = False
    """Whether it is a line of no known job, or of a step that its job does not need."""
    unusable: frozenset[str] = frozenset()
    """Optional fields with an unusable value."""


def better(value: Any, other: Any) -> Any:
    """Return the better of two values, in any order: the known, the larger or the longer one."""
    if isinstance(value, str) and isinstance(other, str):
        return max(value, other, key=lambda text: (len(text), text))
    if isinstance(value, int | float) and isinstance(other, int | float):
        return max(value, other)
    return other if value is None else value


# Runs in the database.


class KeptRun(NamedTuple, Generic[RunT]):
    """A stored run, with its number in the database and the record that it is part of."""

    no: int
    record_id: int | None
    run: RunT


class RunTable(Generic[RunT]):
    """The table that keeps the runs of a source; its columns are the fields of the run, in order."""

    def __init__(
        self,
        name: str,
        run: type[RunT],
        spelt: Mapping[str, str],
        *,
        no: str = "RunNo",
        numbers: int = 1,
        progress: tuple[str, str],
        source: str = "",
    ) -> None:
        """
        ``spelt``: columns whose names differ from their fields. ``no``: the primary key.

        The first field of a run is its place (cluster, schedd), the next ``numbers`` fields are its numbers there, and
        the following field distinguishes runs of the same number. ``progress``: the table with the position up to which
        A-REX's records were examined, and its column for the place. ``source``: the source in a table of several ones.
        """
        fields: tuple[str, ...] = run._fields  # type: ignore[attr-defined]
        columns = [spelt.get(one, "".join(part.capitalize() for part in one.split("_"))) for one in fields]
        self.progress = progress
        self.source = source
        self.views = next(views for views, tables in SOURCES.items() if name in tables)
        """The key in `schema.SOURCES` whose views show this table."""
        self._make: Callable[[Iterable[Any]], RunT] = run._make  # type: ignore[attr-defined]
        self._numbers = numbers
        self._columns = ", ".join(columns)
        self._name, self._no = name, no
        place, *number = columns[: 1 + numbers]
        self._place, self._number = place, ", ".join(number)
        self._last = columns[1 + numbers]
        self._only = f"Source = '{source}' AND " if source else ""
        marks = ", ".join("?" * len(columns))
        more, mark = (", Source", f", '{source}'") if source else ("", "")
        self._insert = f"INSERT INTO {name} ({no}, RecordID, {self._columns}{more}) VALUES (?, ?, {marks}{mark})"
        self._replace = f"UPDATE {name} SET (RecordID, {self._columns}) = (?, {marks}) WHERE {no} = ?"

    def place_of(self, run: RunT) -> str:
        """Return the cluster, schedd or server of a run."""
        return str(run[0])

    def number_of(self, run: RunT) -> tuple[int, ...]:
        """Return the numbers of a run in its place."""
        return run[1 : 1 + self._numbers]

    def once(self, run: RunT) -> Any:
        """Return the value that distinguishes runs of the same number."""
        return run[1 + self._numbers]

    def read(self, values: Sequence[Any]) -> RunT:
        """Return the run of a row."""
        return self._make(values)

    def stored(self, run: RunT) -> tuple[Any, ...]:
        """Return the row of a run."""
        return run

    def of_numbers(self, con: Connection, place: str, numbers: Iterable[tuple[int, ...]]) -> list[KeptRun[RunT]]:
        """Return the stored runs of these numbers of a place, in order of time."""
        marks = ",".join(f"({','.join(map(str, number))})" for number in numbers)
        rows = con.execute(
            f"SELECT {self._no}, RecordID, {self._columns} FROM {self._name}"
            f" WHERE {self._only}({self._number}) IN (VALUES {marks}) AND {self._place} = ? ORDER BY {self._last}",
            (place,),
        )
        return [KeptRun(row[0], row[1], self.read(row[2:])) for row in rows]

    def where(self, con: Connection, condition: str) -> Iterator[RunT]:
        """Yield the stored runs that meet an SQL condition."""
        rows = con.execute(f"SELECT {self._columns} FROM {self._name} WHERE {self._only}{condition}")
        return map(self.read, rows)

    def next_no(self, con: Connection) -> int:
        """Return the number of the next new run; valid during the transaction."""
        return int(con.execute(f"SELECT ifnull(max({self._no}), 0) + 1 FROM {self._name}").fetchone()[0])

    def keep(self, con: Connection, new: Sequence[KeptRun[RunT]], changed: Sequence[KeptRun[RunT]]) -> None:
        """Store runs."""
        if self.source:
            # `batch_jobs.places` reads the places with jobs from this table.
            table, column = self.progress
            keys = {(self.progress_key(self.place_of(one.run)),) for one in new}
            con.executemany(f"INSERT OR IGNORE INTO {table} ({column}) VALUES (?)", sorted(keys))
        con.executemany(self._insert, [(one.no, one.record_id, *self.stored(one.run)) for one in new])
        con.executemany(self._replace, [(one.record_id, *self.stored(one.run), one.no) for one in changed])

    def places(self, con: Connection) -> list[str]:
        """Return the clusters, schedds or servers that have runs."""
        rows = con.execute(f"SELECT DISTINCT {self._place} FROM {self._name} WHERE {self._only}1 ORDER BY 1")
        return [row[0] for row in rows]

    def newest_end(self, con: Connection, place: str) -> int:
        """Return the newest end of a stored run of a place, UTC seconds; 0: none."""
        query = f"SELECT EndTime FROM {self._name} WHERE {self._only}{self._place} = ? ORDER BY EndTime DESC LIMIT 1"
        row = con.execute(query, (place,)).fetchone()
        return 0 if row is None else int(row[0])

    def waiting(self, con: Connection) -> Iterator[list[JobNumber]]:
        """Yield the jobs without a record, in pages."""
        columns = f"{self._place}, {self._number}"
        return self._paged(con, columns, "RecordID IS NULL AND ", ("", *[-1] * self._numbers))

    def all(self, con: Connection) -> Iterator[list[JobNumber]]:
        """Yield all jobs, in pages."""
        for page in self._paged(con, f"{self._number}, {self._place}", "", (*[-1] * self._numbers, "")):
            yield [(row[-1], *row[:-1]) for row in page]

    def _paged(self, con: Connection, columns: str, where: str, first: tuple[Any, ...]) -> Iterator[list[JobNumber]]:
        order = ", ".join(map(str, range(1, self._numbers + 2)))
        after = f"({columns}) > ({', '.join('?' * (self._numbers + 1))}) ORDER BY {order} LIMIT 500"
        return pages(con, f"SELECT DISTINCT {columns} FROM {self._name} WHERE {self._only}{where}{after}", first)

    def progress_key(self, place: str) -> str:
        """Return the key of a place in the table of progress."""
        return f"{self.source}:{place}" if self.source else place


class Asked(NamedTuple):
    """One answer of the batch system's own program."""

    until: int
    """The end of the queried time, UTC seconds: later jobs are not in the answer."""
    chunks: Iterable[bytes]
    form: Any


class BatchCommand(Protocol):
    """Queries a program for jobs."""

    @property
    def program(self) -> str:
        """The name or path of the program."""

    def answers(self, start: int, end: int, form: Any) -> Iterator[Asked]:
        """Yield its output for the jobs of a time span (UTC seconds), in one or several parts."""


class SourceType(Generic[RunT]):
    """The specific parts of a batch system as a source. `RunsImport` has the common parts."""

    system: BatchSystem
    table: RunTable[RunT]
    run_type: type[RunT]
    what: str = "job"
    """The word for a run in messages."""
    never_asked: str = ""
    """The error message if the program was never queried and no start is given."""
    overlap_s: int = 0
    """Seconds before the last query that each query includes again, since jobs may appear late."""
    form: Any = None
    """The default format of files."""
    fields: tuple[Field, ...] = ()
    """The table of fields that are read."""
    endings: tuple[str, ...] = ()
    """Endings of the files that are read in a directory; empty: a directory is not accepted."""

    @abstractmethod
    def read(self, chunks: Iterable[bytes], form: Any) -> Iterator[ParsedRun]:
        """
        Yield every run of a file or output, in its order, with bounded memory.

        Raises InputError when it is not in the source's format or is truncated; the runs before are valid.
        """

    def complete(self, lines: Sequence[bytes]) -> int:
        """Return how many lines there are up to the end of the last complete record; only for a log of lines."""
        return len(lines)

    @abstractmethod
    def job(self, run: RunT, site: BatchSite) -> Job:
        """Return the job of a run."""

    def joined(self, one: RunT, other: RunT) -> RunT:
        """Merge two reports of the same run by the known values; the result does not depend on their order."""
        return one if one == other else self.run_type(*map(better, one, other))

    def is_change(self, old: RunT, new: RunT) -> bool:
        """Whether the records of the run's number must be made again."""
        return old != new

    def jobs(self, runs: Sequence[KeptRun[RunT]], site: BatchSite) -> Iterator[tuple[Job, Sequence[KeptRun[RunT]]]]:
        """Yield the jobs of all runs of one number, in order of time; by default each run is a job."""
        for one in runs:
            yield self.job(one.run, site), (one,)

    def is_part(self, run: RunT) -> bool:  # noqa: ARG002  some are
        """Whether this is only a part of a run, whose end is not known."""
        return False

    def parts(self, con: Connection) -> Iterable[RunT]:  # noqa: ARG002  most have none
        """Return what imports read of runs in parts, without what they read of the ends (`is_part`)."""
        return ()

    def is_final(self, run: RunT) -> bool:  # noqa: ARG002  some are not
        """Whether the batch system does not say that another run follows."""
        return True

    def arc_record(self, con: Connection, run: RunT, job: Job) -> int | None:  # noqa: ARG002  some need it
        """Return A-REX's record of the same job."""
        return batch_jobs.arc_job(con, job, self.system.lrms_names)

    def other_record(self, con: Connection, run: RunT) -> int | None:  # noqa: ARG002  most have none
        """Return another source's record of the same job."""
        return None

    def may_be_arc(self, run: RunT) -> bool:  # noqa: ARG002  most may
        """Whether A-REX may have submitted the job."""
        return True

    def number_of(self, local_job_id: str) -> tuple[int, ...] | None:
        """Return the numbers that A-REX's LocalJobID names; ``None``: not an ID of this batch system."""
        is_number = local_job_id.isascii() and local_job_id.isdecimal() and len(local_job_id) < 18
        return (int(local_job_id),) if is_number else None

    def figures(self, run: RunT) -> Figures:
        """Return the values of a run that `verify --lrms` compares."""
        return figures(self.job(run, BatchSite()))._replace(is_final=self.is_final(run))


def together(jobs: Sequence[Job]) -> Job:
    """
    Merge the runs of one job, given in order of time, into one job.

    Core seconds are summed run by run. If the runs had different cores, the job has the largest number of cores and the
    wall time with about the same core seconds, which never exceeds the sum of its runs; the exact sum is in its
    CORE_SECONDS. The CPU time is that of the runs that have one: a lower bound if a run has none. The number of GPUs is
    the largest one.
    """
    last = jobs[-1]
    if len(jobs) == 1 and CORE_SECONDS not in dict(last.extra):
        return last
    cores = max((job.core_count or 0 for job in jobs), default=0) or None
    core_s = sum(map(batch_jobs.core_s, jobs))
    wall_s = sum(job.wall_s or 0 for job in jobs)
    sources = dict(last.field_sources)
    sources |= {name: source for job in jobs for name, source in job.field_sources if name in _SUMS}
    extra = {key: value for key, value in last.extra if key != CORE_SECONDS}
    if core_s != wall_s * (cores or 1):
        wall_s, *labels = batch_jobs.calculated_wall(core_s, cores)
        extra |= dict(labels[:1])
        sources |= dict(labels[1:])
    for name in _SUMS[1:]:
        if 0 < [getattr(job, name) for job in jobs].count(None) < len(jobs):
            sources[name] = OF_RUNS
    if gpus := max((float(value) for job in jobs for key, value in job.extra if key == "gpus"), default=0):
        extra["gpus"] = f"{gpus:g}"
    return last._replace(
        submit_time=jobs[0].submit_time,
        core_count=cores,
        wall_s=wall_s,
        cpu_user_s=_sum_of_known([job.cpu_user_s for job in jobs]),
        cpu_kernel_s=_sum_of_known([job.cpu_kernel_s for job in jobs]),
        memory_kib=max((job.memory_kib or 0 for job in jobs), default=0) or None,
        virtual_memory_kib=max((job.virtual_memory_kib or 0 for job in jobs), default=0) or None,
        extra=tuple(extra.items()),
        events=tuple(event for job in jobs for event in job.events),
        field_sources=tuple(sources.items()),
    )


_SUMS = ("wall_s", "cpu_user_s", "cpu_kernel_s")


def _sum_of_known(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


end_of = attrgetter("end_time")


# Write a slice of runs, and the jobs that they change, in one transaction.
#
# A stored run is merged from all its reports, so the order and the number of reports do not matter. A job that is made
# again and is equal writes nothing and logs nothing.


class _RunsSlice(BatchSlice, Generic[RunT]):
    def __init__(self, con: Connection, policy: BatchPolicy, source: SourceType[RunT]) -> None:
        super().__init__(con, policy, source.system.source)
        self.type = source
        self.next_no = source.table.next_no(con)
        self.kept: dict[int, KeptRun[RunT]] = {}
        """Runs by their number, as they are in the database."""
        self.now: dict[int, KeptRun[RunT]] = {}
        """Runs by their number, as they will be written."""
        self.writes: dict[str, list[tuple[Job, Sequence[KeptRun[RunT]]]]] = {}
        """Jobs to write, by place."""
        self.newest: dict[str, int] = {}
        """The newest stored end by place, UTC seconds."""

    def known(self, place: str, numbers: Iterable[tuple[int, ...]]) -> dict[tuple[int, ...], dict[Any, KeptRun[RunT]]]:
        """Return the stored runs of these numbers of a place, by number and then by `RunTable.once`."""
        table = self.type.table
        found: dict[tuple[int, ...], dict[Any, KeptRun[RunT]]] = {}
        for one in table.of_numbers(self.con, place, numbers):
            self.kept[one.no] = self.now[one.no] = one
            found.setdefault(table.number_of(one.run), {})[table.once(one.run)] = one
        return found

    def add(self, runs: Iterable[RunT], known: dict[Any, KeptRun[RunT]]) -> bool:
        """Merge runs of one number with its stored ones; returns whether anything changed."""
        changed = False
        for run in runs:
            once = self.type.table.once(run)
            old = known.get(once)
            if old is None:
                one = KeptRun(self.next_no, None, run)
                self.next_no += 1
            else:
                one = old._replace(run=self.type.joined(old.run, run))
            if not self.type.is_part(run):
                is_new = old is None or self.type.is_part(old.run)
                self.taken = self.taken.plus(BatchTaken(new=int(is_new), known=int(not is_new)))
            changed |= old is None or self.type.is_change(old.run, one.run)
            known[once] = self.now[one.no] = one
        return changed

    def make(self, place: str, known: dict[Any, KeptRun[RunT]]) -> None:
        """Make the jobs of all runs of one number, and plan how to write them."""
        of_arc: dict[int, list[tuple[Job, Sequence[KeptRun[RunT]]]]] = {}
        runs = [one for _, one in sorted(known.items()) if not self.type.is_part(one.run)]
        for job, members in self.type.jobs(runs, self.policy.site):
            run = members[-1].run
            linked = {one.record_id for one in members if one.record_id is not None}
            record_id = self.type.arc_record(self.con, run, job) if self.has_arc_jobs else None
            if record_id is not None:
                of_arc.setdefault(record_id, []).append((job, members))
            elif (other := self.type.other_record(self.con, run)) is not None:
                self._complete(other, job, members)
            elif linked and not self.existing(linked):
                self._link(members, min(linked))
                self.taken = self.taken._replace(pruned=self.taken.pruned + 1)
            elif not linked and not self.type.is_final(run) and self._reached(place) < job.end_time + FOLLOWED_S:
                self.taken = self.taken._replace(followed=self.taken.followed + 1)
            elif not linked and self.type.may_be_arc(run) and self.waits(job):
                self.taken = self.taken._replace(waiting=self.taken.waiting + 1)
            else:
                self.writes.setdefault(place, []).append((job, members))
        for record_id, some in of_arc.items():
            self._complete(record_id, together([job for job, _ in some]), [one for _, own in some for one in own])

    def _reached(self, place: str) -> int:
        """Return the time that the log of a place reached: the newest end of a run, UTC seconds."""
        if place not in self.newest:
            self.newest[place] = self.type.table.newest_end(self.con, place)
        ends = [int(end_of(one.run)) for one in self.now.values() if one.run[0] == place]
        return max([self.newest[place], *ends])

    def _complete(self, record_id: int, job: Job, members: Sequence[KeptRun[RunT]]) -> None:
        """Add the measured values to another source's record; remove an earlier record of the same runs."""
        self.enrich(record_id, job)
        before = {one.record_id for one in members if one.record_id not in (None, record_id)}
        own = self.type.system.source
        remove(self.con, sorted(number for number, (_, source) in self.existing(before).items() if source == own))
        self._link(members, record_id)

    def _link(self, members: Iterable[KeptRun[RunT]], record_id: int) -> None:
        for one in members:
            self.now[one.no] = self.now[one.no]._replace(record_id=record_id)

    def write(self) -> BatchTaken:
        """Write all planned jobs and runs."""
        for place, some in self.writes.items():
            written = JobWriter(self.con, self.type.system.source, place).write([job for job, _ in some])
            for job, members in some:
                self._link(members, written.record_ids[job.job_id])
            self.taken = self.taken.plus(of_written(written))
        changed = [one for no, one in self.now.items() if no in self.kept and one != self.kept[no]]
        self.type.table.keep(self.con, [one for no, one in self.now.items() if no not in self.kept], changed)
        return self.taken


def take(con: Connection, policy: BatchPolicy, source: SourceType[RunT], runs: Iterable[RunT]) -> BatchTaken:
    """Write runs and the jobs that they change, inside the caller's transaction."""
    by_place: dict[str, dict[tuple[int, ...], list[RunT]]] = {}
    for run in runs:
        numbers = by_place.setdefault(source.table.place_of(run), {})
        numbers.setdefault(source.table.number_of(run), []).append(run)
    work = _RunsSlice(con, policy, source)
    for place, by_number in by_place.items():
        known = work.known(place, by_number)
        for number, some in by_number.items():
            own = known.get(number, {})
            if work.add(some, own):
                work.make(place, own)
    return work.write()


# Import files and outputs of any length, in slices so short that the recorder does not wait for them.
#
# An import always reads the whole file, and ignores known runs. A slice that fails is rolled back and repeated in
# halves, until the bad run is found: only that one is rejected.


@dataclass
class RunsReport(BatchReport):
    """The report of an import of runs."""

    jobs: int = 0
    """Number of runs that were read."""
    rejected: int = 0
    """Unusable jobs."""
    lines: int = 0
    """Unusable lines that do not affect a job."""
    noise: int = 0
    """Lines that are not records: blank, or of another program."""
    unused: Counter[str] = field(default_factory=Counter)
    """By reason: jobs that are not accounted, without being errors."""


class RunsImport(BatchImport[JobNumber], Generic[RunT]):
    """
    One import, or many while it follows files; ``report`` has the results so far.

    ``say`` is called with the unusable records (one text for each reason), with unreadable files, and with conflicts.
    """

    report: RunsReport

    def __init__(
        self,
        source: SourceType[RunT],
        here: Places,
        con: Connection,
        policy: BatchPolicy,
        form: Any,
        say: Say,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(here, con, policy, source.system.name, say, clock, source.table.views)
        self.progress_of = source.table.progress
        self.type = source
        self._form = form
        self._left: dict[JobNumber, NoUsage] = {}
        self.report = RunsReport()

    def made(self, con: Connection, policy: BatchPolicy, jobs: Sequence[JobNumber]) -> BatchTaken:
        """Make jobs again from their stored runs, inside the transaction."""
        by_place: dict[str, list[tuple[int, ...]]] = {}
        for place, *number in jobs:
            by_place.setdefault(place, []).append(tuple(number))
        work = _RunsSlice(con, policy, self.type)
        for place, some in by_place.items():
            for own in work.known(place, some).values():
                work.make(place, own)
        return work.write()

    def files(self, paths: Sequence[str]) -> None:
        """Import files, compressed or not, or ``-`` for standard input."""
        for reader in self._tailer(paths).once():
            self.output(reader.path, reader.chunks())

    def _new_lines(self, reader: Reader) -> None:
        """Read on from the end of a file's last complete record; only for sources whose records are lines."""
        begun: list[bytes] = []
        for lines in reader.lines():
            start = reader.position.lines
            if isinstance(lines, list):
                lines = begun + lines  # noqa: PLW2901  with the lines of the record that they complete
                count = self.type.complete(lines)
                lines, begun = lines[:count], lines[count:]  # noqa: PLW2901
                if lines:
                    self.output(reader.path, lines, start=start)
                    reader.position = reader.position.after(lines)
            else:
                self.output(reader.path, [*begun, lines.beginning + b"\n"], start=start)
                size, count = lines.after.position + sum(map(len, begun)), lines.after.lines + len(begun)
                reader.position = lines.after._replace(position=size, lines=count)
                begun = []

    def _so_far(self) -> int:
        return self.report.jobs

    def _tailer(self, paths: Sequence[str]) -> FileTailer:
        return FileTailer(paths, self._cannot_read, endings=self.type.endings)

    def output(self, name: str, chunks: Iterable[bytes], form: Any = None, start: int = 0) -> bool:
        """
        Import one output; returns whether it was read to its end.

        ``start``: number of lines before it. ``form``: its format, if it is not the default.
        """
        if name in self._quarantine.files_to_read():
            with writing(self._con, self._here):
                self._quarantine.anew(name)
        take_slice = partial(self._take, name, start)

        def refuse(run: ParsedRun, why: Fault) -> None:
            take_slice([run._replace(what=why)])

        wait: list[ParsedRun] = []
        size = 0
        complaint = ""
        try:
            for one in self.type.read(chunks, form or self._form):
                wait.append(one)
                size += len(one.content)
                if len(wait) >= self._slice or size > _MOST_READ:
                    self._in_halves(wait, take_slice, refuse)
                    wait, size = [], 0
        except InputError as error:
            # An error of a program names it already.
            complaint = str(error) if str(error).startswith(f"{name}: ") else f"{name}: {error}"
        if wait:
            self._in_halves(wait, take_slice, refuse)
        if complaint:
            self._cannot_read(complaint)
        return not complaint

    def ask(self, command: BatchCommand, since: int | None, place: str = "") -> None:
        """
        Import a program's answers for the time since the last query, or since ``since`` (UTC seconds).

        Stops at the first answer that cannot be read to its end. Raises UsageError when neither time is known.
        """
        asked = self._reached(place, "AskedUntil")
        if since is None and asked is None:
            raise UsageError(self.type.never_asked)
        start = since if since is not None else max(0, (asked or 0) - self.type.overlap_s)
        for answer in command.answers(start, int(self._clock()), self._form):
            if not self.output(command.program, answer.chunks, answer.form):
                return
            self._reach(place, "AskedUntil", answer.until)

    def _take(self, name: str, start: int, jobs: Sequence[ParsedRun]) -> None:
        """Import one slice in one transaction."""
        good = [one for one in jobs if isinstance(one.what, self.type.run_type)]
        bad = [_reject(name, start, one) for one in jobs if isinstance(one.what, Fault)]
        if good or bad:
            self._write(lambda con: take(con, self._now(), self.type, [one.what for one in good]), len(good), bad)
        report = self.report
        noise = [one for one in jobs if isinstance(one.what, Noise)]
        for note in (one for one in noise if one.content.strip()):
            self._causes.add(f"{name}: {note.position}", f"{note.content[:_MOST_SHOWN]!r} {note.what.why}")
        lines = sum(one.is_line for one in jobs)
        report.jobs += len(jobs) - lines - sum(self.type.is_part(one.what) for one in good)
        report.noise += len(noise)
        report.lines += lines - len(noise)
        report.rejected += len(bad) - (lines - len(noise))
        for one in (one.what for one in jobs if isinstance(one.what, NoUsage)):
            report.unused[one.why] += 1
            if one.job is not None:
                self._uncount(one.job)
                self._left[one.job] = one
        report.unusable.update(name for one in good for name in one.unusable)
        if len(self._left) > _MOST_LEFT:
            self._find_ends()
            self._left.clear()

    def finish(self) -> None:
        """Do what `BatchImport.finish` does, and count no job as left out whose end is known by now."""
        self._find_ends()
        super().finish()

    def _find_ends(self) -> None:
        table, jobs = self.type.table, sorted(self._left)
        for start in range(0, len(jobs), 500):
            for place, some in groupby(jobs[start : start + 500], key=lambda job: str(job[0])):
                for one in table.of_numbers(self._con, place, [tuple(number) for _, *number in some]):
                    job = (place, *table.number_of(one.run))
                    if (
                        job in self._left
                        and not self.type.is_part(one.run)
                        and self.type.figures(one.run).end_time >= self._left[job].since
                    ):
                        self._uncount(job)

    def _uncount(self, job: JobNumber) -> None:
        """Count a job once, by what is known of it last."""
        if told := self._left.pop(job, None):
            self.report.jobs -= 1
            self.report.unused -= Counter((told.why,))

    def _cells(self) -> Collection[str]:
        return self.type.table.places(self._con)

    def _progress_key(self, cell: str) -> str:
        return self.type.table.progress_key(cell)

    def _numbers(self, cell: str, local_job_id: str) -> JobNumber | None:
        number = self.type.number_of(local_job_id)
        return None if number is None else (cell, *number)

    def _pages(self, *, waiting: bool) -> Iterable[Sequence[JobNumber]]:
        return self.type.table.waiting(self._con) if waiting else self.type.table.all(self._con)

    def _called(self, job: JobNumber) -> str:
        place, *number = job
        return f"job {'.'.join(map(str, number))} of {place}: cannot be rebuilt from its stored runs"

    def _once_more(self, kept: RejectedEntry, content: bytes) -> None:
        found = [one.what for one in self.type.read([content], self._form)]
        for one in found:
            if isinstance(one, Fault):
                raise InputError(one.reason)
        with writing(self._con, self._here) as con:
            taken = take(con, self._now(), self.type, [one for one in found if isinstance(one, self.type.run_type)])
            forget(con, [kept.rejected_id])
        self._count(taken)


def _reject(name: str, start: int, one: ParsedRun) -> Reject:
    content = one.content.encode("utf-8", "surrogateescape") if isinstance(one.content, str) else one.content
    position = f"line {int(one.position.removeprefix('line ')) + start}" if start else one.position
    return Reject(name, position, one.what, content, one.length)


# The runs of a batch system in a time span, to be compared with the records.


def figures_of_file(
    source: SourceType[RunT], path: str, form: Any, start: int, end: int, parts: Iterable[RunT] = ()
) -> Iterator[Figures]:
    """
    Yield the runs of a file that ended at or after ``start`` and before ``end``, UTC seconds.

    ``parts``: what other logs have of runs (`SourceType.parts`): a log may begin in the middle of one.

    Raises InputError when the file cannot be read. Raises it after the last run when some entries are unusable, since
    the comparison would be incomplete.
    """
    with Reader(path) as reader:
        try:
            yield from _figures(source, [(reader.chunks(), form)], start, end, parts)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        if reader.complaint:
            raise InputError(reader.complaint)


def figures_of_command(
    source: SourceType[RunT], command: BatchCommand, form: Any, start: int, end: int
) -> Iterator[Figures]:
    """Do the same as `figures_of_file` with the answers of the batch system's program."""
    answers = ((one.chunks, one.form) for one in command.answers(start, end, form))
    yield from _figures(source, answers, start, end)


def _figures(
    source: SourceType[RunT],
    outputs: Iterable[tuple[Iterable[bytes], Any]],
    start: int,
    end: int,
    told_before: Iterable[RunT] = (),
) -> Iterator[Figures]:
    table = source.table

    def key_of(run: RunT) -> tuple[Any, ...]:
        return table.place_of(run), *table.number_of(run), table.once(run)

    seen: set[tuple[Any, ...]] = set()
    parts = {key_of(run): run for run in told_before}
    bad = 0
    for chunks, form in outputs:
        for one in (told.what for told in source.read(chunks, form)):
            if isinstance(one, Fault):
                bad += 1
            elif isinstance(one, source.run_type):
                key = key_of(one)
                if key in parts:
                    one = parts[key] = source.joined(parts[key], one)  # noqa: PLW2901  with its phases
                if source.is_part(one):
                    parts[key] = one
                    continue
                found = source.figures(one)
                if start <= found.end_time < end and key not in seen:
                    seen.add(key)
                    yield found
    if bad:
        raise InputError(f"{count_of(bad, 'entry')} not usable; `arcacct import {source.system.name}` says why")
