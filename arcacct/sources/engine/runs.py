"""A batch system as a source: a table of fields, a table of runs, and the jobs made from them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from arcacct.config.paths import QueueBenchmark
from arcacct.config.values import MapRule
from arcacct.database.connection import Connection
from arcacct.database.schema import SOURCES
from arcacct.errors import InputError
from arcacct.files.follow import Reader
from arcacct.records import batch_jobs
from arcacct.records.batch_jobs import Figures, figures
from arcacct.records.batch_systems import BatchSystem
from arcacct.records.model import Job
from arcacct.records.rejected import Fault
from arcacct.records.states import CORE_SECONDS, OF_RUNS
from arcacct.resources import of_runs
from arcacct.wording import count_of


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
    """Empty: it is not reported."""


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
        waits: str = "1",
        end: tuple[str, int] = ("EndTime", 1),
    ) -> None:
        """
        ``spelt``: columns whose names differ from their fields; empty: not stored here. ``no``: the primary key.

        The first field of a run is its place (cluster, schedd), the next ``numbers`` fields are its numbers there, and
        the following field distinguishes runs of the same number. ``progress``: the table with the position up to which
        A-REX's records were examined, and its column for the place. ``source``: the source in a table of several ones.
        ``waits``: SQL for the runs without a record that can have one. ``end``: the column of the end, and its parts of
        a second.
        """
        fields: tuple[str, ...] = run._fields  # type: ignore[attr-defined]
        spellings = [spelt.get(one, "".join(part.capitalize() for part in one.split("_"))) for one in fields]
        columns = list(filter(None, spellings))
        self.progress = progress
        self.source = source
        self.views = next(views for views, tables in SOURCES.items() if name in tables)
        """The key in `schema.SOURCES` whose views show this table."""
        self._make: Callable[[Iterable[Any]], RunT] = run._make  # type: ignore[attr-defined]
        self.numbers = numbers
        self._columns = ", ".join(columns)
        self._name, self._no = name, no
        place, *number = columns[: 1 + numbers]
        self._place, self._number = place, ", ".join(number)
        self._last = columns[1 + numbers]
        self._waits, self._end = waits, end
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
        return run[1 : 1 + self.numbers]

    def once(self, run: RunT) -> Any:
        """Return the value that distinguishes runs of the same number."""
        return run[1 + self.numbers]

    def read(self, values: Sequence[Any]) -> RunT:
        """Return the run of a row."""
        return self._make(values)

    def stored(self, run: RunT) -> tuple[Any, ...]:
        """Return the row of a run."""
        return run

    def needed(self, con: Connection, place: str, new: Mapping[tuple[int, ...], Sequence[RunT]]) -> list[KeptRun[RunT]]:
        """Return the stored runs of a place that are needed to add new runs, by their number."""
        return self.of_numbers(con, place, new)

    def of_numbers(
        self, con: Connection, place: str, numbers: Iterable[tuple[int, ...]], where: str = "1", *values: object
    ) -> list[KeptRun[RunT]]:
        """Return the stored runs of these numbers of a place, in order of time. ``where``: a further condition."""
        marks = ",".join(f"({','.join(map(str, number))})" for number in numbers)
        rows = con.execute(
            f"SELECT {self._no}, RecordID, {self._columns} FROM {self._name}"
            f" WHERE {self._only}({self._number}) IN (VALUES {marks}) AND {where} AND {self._place} = ?"
            f" ORDER BY {self._last}",
            (*values, place),
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
        column, parts = self._end
        query = f"SELECT {column} FROM {self._name} WHERE {self._only}{self._place} = ? ORDER BY {column} DESC LIMIT 1"
        row = con.execute(query, (place,)).fetchone()
        return 0 if row is None else int(row[0]) // parts

    def waiting(self, con: Connection) -> Iterator[list[JobNumber]]:
        """Yield the jobs without a record, in pages."""
        columns = f"{self._place}, {self._number}"
        return self._paged(con, columns, f"RecordID IS NULL AND {self._waits} AND ", ("", *[-1] * self.numbers))

    def all(self, con: Connection) -> Iterator[list[JobNumber]]:
        """Yield all jobs, in pages."""
        for page in self._paged(con, f"{self._number}, {self._place}", "", (*[-1] * self.numbers, "")):
            yield [(row[-1], *row[:-1]) for row in page]

    def _paged(self, con: Connection, columns: str, where: str, first: tuple[Any, ...]) -> Iterator[list[JobNumber]]:
        order = ", ".join(map(str, range(1, self.numbers + 2)))
        after = f"({columns}) > ({', '.join('?' * (self.numbers + 1))}) ORDER BY {order} LIMIT 500"
        query = f"SELECT DISTINCT {columns} FROM {self._name} WHERE {self._only}{where}{after}"
        while page := con.execute(query, first).fetchall():
            yield page
            first = page[-1]

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
    files: str = ""
    """The table with the positions up to which files were read; empty: each import reads whole files."""
    order: Callable[[str], int] = staticmethod(lambda _path: 0)
    """Sorts files by their content, so that the oldest is read first."""
    kept: str = "stored runs"
    """The word for what jobs are made from."""

    @abstractmethod
    def read(self, chunks: Iterable[bytes], form: Any) -> Iterator[ParsedRun]:
        """
        Yield every run of a file or output, in its order, with bounded memory.

        Raises InputError when it is not in the source's format or is truncated; the runs before are valid.
        """

    def complete(self, lines: Sequence[bytes]) -> int:
        """Return how many lines there are up to the end of the last complete record; only for a log of lines."""
        return len(lines)

    def job(self, run: RunT, site: BatchSite) -> Job:
        """Return the job of a run, for a source in which each run is one."""
        raise NotImplementedError

    def joined(self, one: RunT, other: RunT) -> RunT:
        """
        Merge two reports of the same run; the result does not depend on their order.

        Of two known values it takes the larger or the longer one, since outputs may be truncated; of two starts the
        earlier one.
        """
        if one == other:
            return one
        fields: tuple[str, ...] = self.run_type._fields  # type: ignore[attr-defined]
        both = zip(fields, one, other, strict=True)
        return self.run_type(*(min(a, b) if name == "start_time" else better(a, b) for name, a, b in both))

    def is_change(self, old: RunT, new: RunT) -> bool:
        """Whether the records of the run's number must be made again."""
        return old != new

    def jobs(
        self, runs: Sequence[KeptRun[RunT]], site: BatchSite
    ) -> Iterator[tuple[Job | None, Sequence[KeptRun[RunT]]]]:
        """
        Yield the jobs of all runs of one number, with the run that decides last; by default each run is a job.

        ``None``: runs that are not accounted, since none of them started.
        """
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
        return (int(local_job_id), *[0] * (self.table.numbers - 1)) if is_number else None

    def called(self, job: JobNumber) -> str:
        """Return the text that names a job in messages."""
        place, *number = job
        return f"job {'.'.join(map(str, number))} of {place}"

    def figures(self, run: RunT) -> Figures:
        """Return the values of a run that `verify --lrms` compares."""
        return figures(self.job(run, BatchSite()))._replace(is_final=self.is_final(run))

    def compared(self, runs: Iterable[RunT], start: int, end: int) -> Iterator[Figures]:
        """Yield the values of all runs that ended at or after ``start`` and before ``end``, UTC seconds, each once."""
        seen: set[tuple[Any, ...]] = set()
        parts: dict[tuple[Any, ...], RunT] = {}
        for one in runs:
            key = (self.table.place_of(one), *self.table.number_of(one), self.table.once(one))
            if key in parts:
                one = parts[key] = self.joined(parts[key], one)  # noqa: PLW2901  with its phases
            if self.is_part(one):
                parts[key] = one
                continue
            found = self.figures(one)
            if start <= found.end_time < end and key not in seen:
                seen.add(key)
                yield found


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
        accelerators=of_runs([job.accelerators for job in jobs]),
    )


_SUMS = ("wall_s", "cpu_user_s", "cpu_kernel_s")


def _sum_of_known(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


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
    bad = 0

    def runs() -> Iterator[RunT]:
        nonlocal bad
        for one in (told.what for chunks, form in outputs for told in source.read(chunks, form)):
            if isinstance(one, Fault):
                bad += 1
            elif isinstance(one, source.run_type):
                yield one

    yield from source.compared(chain(told_before, runs()), start, end)
    if bad:
        raise InputError(f"{count_of(bad, 'entry')} not usable; `arcacct import {source.system.name}` says why")
