"""Import runs of batch systems: kept in slices, with the jobs that are made from them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, Generic, NamedTuple

from arcacct.config.paths import Places
from arcacct.database.access import writing
from arcacct.database.connection import Connection
from arcacct.errors import InputError, UsageError
from arcacct.files.follow import STDIN, FileOffset, FileTailer, Overlong, Reader
from arcacct.records import batch_jobs, usage
from arcacct.records.batch_jobs import FOLLOWED_S
from arcacct.records.enrichment import OF_AREX, Conflict, enrich, set_accelerators
from arcacct.records.imports import SHOWN, ImportRun, Progress, RunReport, Say
from arcacct.records.model import Job
from arcacct.records.rejected import Fault, RejectedEntry, RejectedRecord, forget
from arcacct.records.texts import unescaped
from arcacct.records.writer import JobWriter, remove, rename
from arcacct.sources.engine.runs import (
    BatchCommand,
    BatchSite,
    JobNumber,
    KeptRun,
    Noise,
    NoUsage,
    ParsedRun,
    RunT,
    SourceType,
    together,
)
from arcacct.wording import count_of

# The import of batch systems' accounting.
#
# All runs of a job are kept, and the job is always made from all of them. So the order and the number of reports do not
# matter. A job that is made again and is equal writes nothing and logs nothing.


_CACHE_KIB = 16 * 1024
"""A job is written to about twenty indexes: their pages should stay in the cache during a large import."""
POLL_S = 2.0
"""Batch systems append every few seconds: Grid Engine every 15 s (accounting_flush_time)."""
_PAGE = 500
_MOST_SHOWN = 200
"""Characters of a line that is ignored."""
_MOST_READ = 4 * 1024 * 1024
"""Characters or bytes of runs that are collected for one slice."""
_MOST_LEFT = 10_000
"""The most jobs without a run whose end may still be found."""
_end_of = attrgetter("end_time")


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


# Write a slice of runs, and the jobs that they change, in one transaction.


class _Slice(Generic[RunT]):
    def __init__(self, con: Connection, policy: BatchPolicy, source: SourceType[RunT]) -> None:
        self.con = con
        self.policy = policy
        self.type = source
        self.taken = BatchTaken()
        self.has_arc_jobs = batch_jobs.has_arc_jobs(con)
        self.unfinished = batch_jobs.earliest_unfinished(con) if self.has_arc_jobs else None
        self.next_no = source.table.next_no(con)
        self.kept: dict[int, KeptRun[RunT]] = {}
        """Runs by their number, as they are in the database."""
        self.now: dict[int, KeptRun[RunT]] = {}
        """Runs by their number, as they will be written."""
        self.writes: dict[str, list[tuple[Job, Sequence[KeptRun[RunT]]]]] = {}
        """Jobs to write, by place."""
        self.newest: dict[str, int] = {}
        """The newest stored end by place, UTC seconds."""

    def existing(self, record_ids: Iterable[int]) -> dict[int, tuple[str, str | None]]:
        """Return JobID and source of the records that still exist, by RecordID; the others were pruned."""
        marks = ",".join(map(str, record_ids))
        rows = self.con.execute(
            "SELECT AAR.RecordID, JobID, Source FROM AAR LEFT JOIN RecordSources USING (RecordID)"
            f" WHERE AAR.RecordID IN ({marks})"
        )
        return {record_id: (unescaped(job_id), source) for record_id, job_id, source in rows}

    def known(
        self, place: str, new: Mapping[tuple[int, ...], Sequence[RunT]]
    ) -> dict[tuple[int, ...], dict[Any, KeptRun[RunT]]]:
        """Return the stored runs that new runs of a place need, by number and then by `RunTable.once`."""
        table = self.type.table
        found: dict[tuple[int, ...], dict[Any, KeptRun[RunT]]] = {}
        for one in table.needed(self.con, place, new):
            self.kept[one.no] = self.now[one.no] = one
            found.setdefault(table.number_of(one.run), {})[table.once(one.run)] = one
        return found

    def add(self, runs: Iterable[RunT], known: dict[Any, KeptRun[RunT]]) -> bool:
        """Merge runs of one number with its stored ones; returns whether anything changed."""
        changed = False
        news = olds = 0
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
                news, olds = news + is_new, olds + (not is_new)
            changed |= old is None or self.type.is_change(old.run, one.run)
            known[once] = self.now[one.no] = one
        self.taken = self.taken._replace(new=self.taken.new + news, known=self.taken.known + olds)
        return changed

    def make(self, place: str, known: dict[Any, KeptRun[RunT]]) -> None:
        """Make the jobs of all runs of one number, and plan how to write them."""
        runs = [one for _, one in sorted(known.items()) if not self.type.is_part(one.run)]
        before = {one.record_id for one in runs if one.record_id is not None}
        existing = self.existing(before) if before else {}
        # The others belong to A-REX or to another source.
        own = {one: job_id for one, (job_id, source) in existing.items() if source == self.type.system.source}
        of_arc: dict[int, list[tuple[Job, Sequence[KeptRun[RunT]]]]] = {}
        for job, members in self.type.jobs(runs, self.policy.site):
            if job is None:
                self._link(members, None)
                continue
            run = members[-1].run
            linked = {one.record_id for one in members if one.record_id is not None}
            mine = sorted((own[one] != job.job_id, one) for one in linked & own.keys())
            record_id = self.type.arc_record(self.con, run, job) if self.has_arc_jobs else None
            if record_id is not None:
                of_arc.setdefault(record_id, []).append((job, members))
            elif (other := self.type.other_record(self.con, run)) is not None:
                self._complete(other, job, members)
            elif linked and not linked & existing.keys():
                self._link(members, min(linked))
                self.taken = self.taken._replace(pruned=self.taken.pruned + 1)
            elif mine:
                is_other, chosen = mine[0]
                del own[chosen]
                if is_other:
                    # The run that its JobID is from came later.
                    rename(self.con, chosen, job.job_id)
                self.writes.setdefault(place, []).append((job, members))
            elif self._waits(place, run, job):
                self._link(members, None)
            else:
                self.writes.setdefault(place, []).append((job, members))
        for record_id, some in of_arc.items():
            self._complete(record_id, together([job for job, _ in some]), [one for _, all_ in some for one in all_])
        # The runs of these records belong to other records now.
        remove(self.con, sorted(own))

    def _waits(self, place: str, run: RunT, job: Job) -> bool:
        """Whether another run of the job follows, or it may be the same as one that A-REX has not finished yet."""
        if not self.type.is_final(run) and self._reached(place) < job.end_time + FOLLOWED_S:
            self.taken = self.taken._replace(followed=self.taken.followed + 1)
            return True
        waits = (
            self.unfinished is not None
            and self.unfinished <= job.submit_time + batch_jobs.CLOCKS_S
            and self.policy.now - job.end_time < self.policy.wait_s
            and self.type.may_be_arc(run)
        )
        self.taken = self.taken._replace(waiting=self.taken.waiting + waits)
        return waits

    def _reached(self, place: str) -> int:
        """Return the time that the log of a place reached: the newest end of a run, UTC seconds."""
        if place not in self.newest:
            self.newest[place] = self.type.table.newest_end(self.con, place)
        ends = (int(_end_of(one.run)) for one in self.now.values() if self.type.table.place_of(one.run) == place)
        return max([self.newest[place], *ends])

    def _complete(self, record_id: int, job: Job, members: Sequence[KeptRun[RunT]]) -> None:
        """Add the measured values to another source's record."""
        source, over_arex = self.type.system.source, not self.policy.prefer_arc
        told, marks = batch_jobs.measured(job), dict(job.field_sources)
        done = enrich(self.con, record_id, source, told, events=job.events, marks=marks, over_arex=over_arex)
        set_accelerators(self.con, record_id, source, self.type.table.place_of(members[-1].run), job.accelerators)
        self.taken = self.taken.plus(BatchTaken(enriched=int(done.changed), conflicts=done.conflicts))
        self._link(members, record_id)

    def _link(self, members: Iterable[KeptRun[RunT]], record_id: int | None) -> None:
        for one in members:
            self.now[one.no] = self.now[one.no]._replace(record_id=record_id)

    def write(self) -> BatchTaken:
        """Write all planned jobs and runs."""
        for place, some in self.writes.items():
            written = JobWriter(self.con, self.type.system.source, place).write([job for job, _ in some])
            for job, members in some:
                self._link(members, written.record_ids[job.job_id])
            counts = {name: value for name, value in written._asdict().items() if name in BatchTaken._fields}
            self.taken = self.taken.plus(BatchTaken(**counts))
        changed = [one for no, one in self.now.items() if no in self.kept and one != self.kept[no]]
        self.type.table.keep(self.con, [one for no, one in self.now.items() if no not in self.kept], changed)
        # A record that its runs left for another one.
        now = {one.record_id for one in self.now.values()}
        for record_id in (self.kept[one.no].record_id for one in changed):
            if record_id is not None and record_id not in now:
                set_accelerators(self.con, record_id, self.type.system.source, "", None)
        return self.taken


def take(
    con: Connection,
    policy: BatchPolicy,
    source: SourceType[RunT],
    runs: Iterable[RunT] = (),
    again: Iterable[JobNumber] = (),
) -> BatchTaken:
    """Write runs and the jobs that they change, and make other jobs ``again``, inside the caller's transaction."""
    by_place: dict[str, dict[tuple[int, ...], list[RunT]]] = {}
    for place, *own_number in again:
        by_place.setdefault(place, {})[tuple(own_number)] = []
    for run in runs:
        numbers = by_place.setdefault(source.table.place_of(run), {})
        numbers.setdefault(source.table.number_of(run), []).append(run)
    work = _Slice(con, policy, source)
    for place, by_number in by_place.items():
        known = work.known(place, by_number)
        for number, some in by_number.items():
            own = known.get(number, {})
            if work.add(some, own) or not some:
                work.make(place, own)
    return work.write()


# How far the files of a source were read, and which file is the same one under another name.


_POSITION = "FileID, Position, Tail, Checksum, Lines, Records, BadLines"
_LATEST_FIRST = "ORDER BY ReadAt DESC, FileID DESC LIMIT 1"


class FilePositions:
    """The positions in the files of a cell, in a table of the form of GridEngineFiles."""

    def __init__(self, con: Connection, table: str, cell: str) -> None:
        self._con = con
        self._table = table
        self._cell = cell

    def find(self, reader: Reader) -> FileOffset:
        """
        Return the position where an import of this file stopped, even if its path changed since.

        Returns the start of the file if no import read it or if it changed. A position at the start has the file number
        0. Exception: the number of an input that cannot return to its start, such as a pipe, is kept.
        """
        if reader.identity is None:
            rows = self._chosen(_POSITION, "Path = ? AND Device IS NULL", reader.path)
            return FileOffset._make(rows[0])._replace(position=0, checksum=0, lines=0) if rows else FileOffset()
        reader.look_at_head()
        rows = self._chosen(_POSITION, "Head = ? ORDER BY Position DESC", reader.head)
        return next((one for one in map(FileOffset._make, rows) if reader.holds(one)), FileOffset())

    def latest(self, path: str) -> tuple[FileOffset, int] | None:
        """
        Return the position where the last import of the file at this path stopped, and the time of it in UTC seconds.
        """
        rows = self._chosen(f"{_POSITION}, ReadAt", f"Path = ? AND Device IS NOT NULL {_LATEST_FIRST}", path)
        return (FileOffset._make(rows[0][:-1]), rows[0][-1]) if rows else None

    def was_read(self, reader: Reader) -> bool:
        """Whether a file with the same first bytes was read before."""
        return bool(self._chosen("1", "Head = ? AND Position > 0", reader.head))

    def file_of(self, path: str) -> int:
        """
        Return the number of the file last read at a path. Call this inside a transaction: it may create the number.
        """
        rows = self._chosen("FileID", f"Path = ? {_LATEST_FIRST}", path)
        return int(rows[0][0]) if rows else self.number(path, None)

    def number(self, path: str, head: bytes | None) -> int:
        """Return the number of a new file, inside a transaction. ``head``: the digest of its first record."""
        insert = f"INSERT INTO {self._table} (Cell, Path, Head) VALUES (?, ?, ?)"
        return self._con.execute(insert, (self._cell, path, head)).lastrowid or 0

    def keep(self, reader: Reader, position: FileOffset) -> None:
        """Store the current position in a file that has a number, inside the transaction that writes the records."""
        device, inode = reader.identity or (None, None)
        self._con.execute(
            f"UPDATE {self._table} SET (Path, Device, Inode, Position, Tail, Checksum, Lines, Records, BadLines,"
            " ReadAt) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE FileID = ?",
            (reader.path, device, inode, *position[1:], int(time.time()), position.file_id),
        )

    def _chosen(self, columns: str, condition: str, value: object) -> list[Any]:
        query = f"SELECT {columns} FROM {self._table} WHERE Cell = ? AND {condition}"
        return self._con.execute(query, (self._cell, value)).fetchall()


# Import files and outputs of any length, in slices so short that the recorder does not wait for them.
#
# An import reads the whole file, and ignores known runs; or, where the source has positions, what came since. A slice
# that fails is rolled back and repeated in halves, until the bad run is found: only that one is rejected.


@dataclass
class RunsReport(RunReport):
    """The report of an import of a batch system."""

    jobs: int = 0
    """Number of runs that were read."""
    lines: int = 0
    """Number of all lines and runs, usable or not."""
    rejected: int = 0
    """Unusable jobs."""
    bad_lines: int = 0
    """Unusable lines that do not affect a job."""
    noise: int = 0
    """Lines that are not records: blank, or of another program."""
    failed_jobs: int = 0
    """Jobs that could not be made again from their stored runs."""
    more_conflicts: int = 0
    """Differences from A-REX that were not reported one by one."""
    unusable: Counter[str] = field(default_factory=Counter)
    """By field: jobs that were imported without its value, which is unusable."""
    unused: Counter[str] = field(default_factory=Counter)
    """By reason: jobs that are not accounted, without being errors."""
    taken: BatchTaken = field(default_factory=BatchTaken)


class RunsImport(ImportRun, Generic[RunT]):
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
        progress: Progress = lambda _path, _done, _all: None,
    ) -> None:
        super().__init__(here, con, source.system.name, policy.site.cell, say, source.table.views)
        con.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self.type = source
        self._policy = policy
        self._form = form
        self._clock = clock
        self._progress = progress
        self._files = FilePositions(con, source.files, policy.site.cell) if source.files else None
        self._conflicts: set[Conflict] = set()
        self._left: dict[JobNumber, NoUsage] = {}
        self.report = RunsReport()

    def files(self, paths: Sequence[str]) -> None:
        """Import files, compressed or not, or ``-`` for standard input."""
        for reader in self._tailer(paths).once():
            if self._files is not None:
                self._new_lines(reader)
            else:
                self.output(reader.path, reader.chunks())

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
            elif self.report.lines != finished:
                finished = self.report.lines
                self.finish()

    def _tailer(self, paths: Sequence[str]) -> FileTailer:
        positions = None if self._files is None else self
        return FileTailer(paths, self._cannot_read, positions, self.type.order, self.type.endings)

    def latest(self, path: str) -> tuple[FileOffset, int] | None:
        """Return the position where the last import of the file at this path stopped, and the time of it."""
        return None if self._files is None else self._files.latest(path)

    def find(self, reader: Reader) -> FileOffset:
        """
        Return the position where an earlier import stopped. It is the start after a change, or if a `retry` needs the
        file.
        """
        if self._files is None:
            return FileOffset()
        position = self._files.find(reader)
        if reader.path in self._to_read or (not position.position and self._files.was_read(reader)):
            with writing(self._con, self._here):
                self._quarantine.anew(reader.path)
            position = FileOffset(position.file_id)
            self._to_read.discard(reader.path)
        return position

    def _new_lines(self, reader: Reader) -> None:
        """Read on from the end of a file's last complete record; only for sources whose records are lines."""
        begun: list[bytes] = []
        for lines in reader.lines():
            if self._files is not None and not reader.position.file_id and (reader.head or reader.identity is None):
                with writing(self._con, self._here):
                    number = self._files.number(reader.path, reader.head)
                reader.position = reader.position._replace(file_id=number)
            start = reader.position.lines
            if isinstance(lines, Overlong):
                size, count = sum(map(len, begun)) + lines.after.position, len(begun) + lines.after.lines
                after = lines.after._replace(file_id=reader.position.file_id, position=size, lines=count)
                why = Fault(f"a line of {lines.bytes} bytes: not a record of {self.type.system.title}")
                run = ParsedRun(why, "line 1", b"".join([*begun, lines.beginning]), lines.bytes)
                self._take(reader.path, start, [run], reader, after)
                begun = []
            elif self._files is not None:
                form = self._form._replace(file_id=reader.position.file_id, line=start)
                self.output(reader.path, lines, form, start, reader, lines)
            else:
                lines = begun + lines  # noqa: PLW2901  with the lines of the record that they complete
                count = self.type.complete(lines)
                lines, begun = lines[:count], lines[count:]  # noqa: PLW2901
                if lines:
                    self.output(reader.path, lines, start=start)
                    reader.position = reader.position.after(lines)
            self._progress(reader.path, reader.position.position, reader.size)
        if reader.is_last and reader.left_bytes and not reader.complaint:
            left = count_of(reader.left_bytes, "byte")
            self._say(f"{reader.path}: the last line is incomplete ({left}): left for the next import")

    def output(
        self,
        name: str,
        chunks: Iterable[bytes],
        form: Any = None,
        start: int = 0,
        reader: Reader | None = None,
        lines: Sequence[bytes] = (),
    ) -> bool:
        """
        Import one output; returns whether it was read to its end.

        ``start``: number of lines before it. ``form``: its format, if it is not the default. ``lines``: the lines of
        ``reader``, if each line is one run; its position moves with the runs that are imported.
        """
        if not start and self._files is None and name in self._quarantine.files_to_read():
            with writing(self._con, self._here):
                self._quarantine.anew(name)

        def take_slice(runs: Sequence[ParsedRun]) -> None:
            at = reader.position.lines - start if reader is not None else 0
            after = reader.position.after(lines[at : at + len(runs)]) if reader is not None else None
            self._take(name, start, runs, reader, after)

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
        begin = since if since is not None else max(0, (asked or 0) - self.type.overlap_s)
        for answer in command.answers(begin, int(self._clock()), self._form):
            if not self.output(command.program, answer.chunks, answer.form):
                return
            self._reach(place, "AskedUntil", answer.until)

    def _take(
        self,
        name: str,
        start: int,
        jobs: Sequence[ParsedRun],
        reader: Reader | None = None,
        after: FileOffset | None = None,
    ) -> None:
        """Import one slice in one transaction; which also stores ``after``, the position of ``reader`` behind it."""
        good = [one for one in jobs if isinstance(one.what, self.type.run_type)]
        bad = [_reject(name, start, one) for one in jobs if isinstance(one.what, Fault)]

        def work(con: Connection) -> BatchTaken:
            nonlocal after
            taken = take(con, self._now(), self.type, [one.what for one in good])
            if reader is not None and after is not None:
                records, bad_lines = after.records + taken.new, after.bad_lines + len(bad)
                after = after._replace(records=records, bad_lines=bad_lines)
                if self._files is not None:
                    self._files.keep(reader, after)
            return taken

        if good or bad or after is not None:
            self._write(work, len(good), bad)
        if reader is not None and after is not None:
            reader.position = after
        report = self.report
        noise = [one for one in jobs if isinstance(one.what, Noise)]
        for note in (one for one in noise if one.what.why and one.content.strip()):
            self._causes.add(f"{name}: {note.position}", f"{note.content[:_MOST_SHOWN]!r} {note.what.why}")
        lines = sum(one.is_line for one in jobs)
        report.lines += len(jobs)
        report.jobs += len(jobs) - lines - sum(self.type.is_part(one.what) for one in good)
        report.noise += len(noise)
        report.bad_lines += lines - len(noise)
        report.rejected += len(bad) - (lines - len(noise))
        for one in (one.what for one in jobs if isinstance(one.what, NoUsage)):
            report.unused[one.why] += 1
            if one.job is not None:
                self._uncount(one.job)
                self._left[one.job] = one
        report.unusable.update(field for one in good if one.unusable for field in one.unusable)
        if len(self._left) > _MOST_LEFT:
            self._find_ends()
            self._left.clear()

    def _write(
        self, work: Callable[[Connection], BatchTaken], records: int, bad: Sequence[RejectedRecord] = ()
    ) -> None:
        """Write one slice in one transaction: ``work`` for so many ``records``, and the rejected ones, ``bad``."""
        with writing(self._con, self._here) as con:
            begun = time.monotonic()
            taken = work(con)
            news = self._quarantine.keep(bad)
            self._adapt(records, time.monotonic() - begun)
        self._say_news(news)
        self._count(taken)

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
        """
        Process jobs that A-REX finished since, then the waiting jobs, and update the monthly sums.

        Counts no job as left out whose end is known by now.
        """
        self._find_ends()
        # Jobs that are completed now are logged after this: the next import examines them and changes nothing.
        horizon = self._con.execute("SELECT ifnull(max(Seq), 0) FROM FinishedLog").fetchone()[0]
        with_arc = batch_jobs.has_arc_jobs(self._con)
        for place in [self._scope] if self._scope else self.type.table.places(self._con):
            self._make_again(self._logged_by_arc(place, horizon) if with_arc else ())
            self._reach(place, "Seq", horizon)
        self.report.taken = self.report.taken._replace(waiting=0, followed=0)
        self._make_again(self.type.table.waiting(self._con))
        usage.update_monthly(self._con, self._here)
        usage.update_breakdown(self._con, self._here)
        self._say_causes()

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
        """Count a job once, by its last report."""
        if told := self._left.pop(job, None):
            self.report.jobs -= 1
            self.report.unused -= Counter((told.why,))

    def _logged_by_arc(self, place: str, horizon: int) -> Iterator[list[JobNumber]]:
        """Yield A-REX's jobs that ended or changed since the last import, in pages."""
        while logged := self._con.execute(
            "SELECT Seq, LocalJobID, coalesce(Source, ?) FROM FinishedLog LEFT JOIN AAR USING (RecordID)"
            " LEFT JOIN RecordSources USING (RecordID) WHERE Seq > ? AND Seq <= ? ORDER BY Seq LIMIT ?",
            (OF_AREX[0], self._reached(place, "Seq") or 0, horizon, _PAGE),
        ).fetchall():
            yield [
                (place, *number)
                for _seq, local_job_id, source in logged
                if source in OF_AREX and (number := self.type.number_of(local_job_id or "")) is not None
            ]
            self._reach(place, "Seq", logged[-1][0])

    def _reached(self, place: str, column: str) -> int | None:
        """Return how far a place was examined: ``Seq`` of A-REX's records, or ``AskedUntil`` (`ask`)."""
        table, key = self.type.table.progress
        query = f"SELECT {column} FROM {table} WHERE {key} = ?"
        row = self._con.execute(query, (self.type.table.progress_key(place),)).fetchone()
        return None if row is None else row[0]

    def _reach(self, place: str, column: str, position: int) -> None:
        if (self._reached(place, column) or 0) < position:
            table, key = self.type.table.progress
            insert = f"INSERT INTO {table} ({key}, {column}) VALUES (?, ?)"
            with writing(self._con, self._here) as con:
                con.execute(
                    f"{insert} ON CONFLICT ({key}) DO UPDATE SET {column} = excluded.{column}",
                    (self.type.table.progress_key(place), position),
                )

    def again(self) -> None:
        """Make every job again from its stored runs, after a change of the configuration."""
        self._make_again(self.type.table.all(self._con))

    def _make_again(self, pages: Iterable[Sequence[JobNumber]]) -> None:
        for page in pages:
            for part in self._slices(page):
                self._in_halves(part, self._make_part, self._cannot_make)

    def _make_part(self, part: Sequence[JobNumber]) -> None:
        self._write(lambda con: take(con, self._now(), self.type, again=part), len(part))

    def _cannot_make(self, job: JobNumber, why: Fault) -> None:
        self.report.failed_jobs += 1
        cannot = f"{self.type.called(job)}: cannot be rebuilt from its {self.type.kept}"
        self._causes.add(cannot, f"{why.reason}; it does not change")

    def _retried(self, kept: RejectedEntry, content: bytes) -> bool:
        refused: list[object] = []
        self._in_halves([content], lambda _all: self._once_more(kept, content), lambda *why: refused.append(why))
        return not refused

    def _once_more(self, kept: RejectedEntry, content: bytes) -> None:
        """Import a rejected record again, in its own transaction."""
        form = self._form
        with writing(self._con, self._here) as con:
            if self._files is not None:
                number = kept.position.removeprefix("line ")
                line = int(number) - 1 if number.isdecimal() else -1
                form = form._replace(file_id=self._files.file_of(kept.file), line=line)
            found = [one.what for one in self.type.read([content], form)]
            for one in found:
                if isinstance(one, Fault):
                    raise InputError(one.reason)
            taken = take(con, self._now(), self.type, [one for one in found if isinstance(one, self.type.run_type)])
            forget(con, [kept.rejected_id])
        self._count(taken)


def _reject(name: str, start: int, one: ParsedRun) -> RejectedRecord:
    content = one.content.encode("utf-8", "surrogateescape") if isinstance(one.content, str) else one.content
    position = f"line {int(one.position.removeprefix('line ')) + start}" if start else one.position
    return RejectedRecord(name, position, one.what, content, one.length)
