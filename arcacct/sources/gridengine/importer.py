"""Import Grid Engine's accounting files: each new record once, in slices so short that no writer waits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from arcacct.config.paths import Places
from arcacct.database.access import writing
from arcacct.database.connection import Connection
from arcacct.errors import InputError
from arcacct.files.follow import FileOffset, FileTailer, Overlong, Reader
from arcacct.records import batch_jobs
from arcacct.records.batch_jobs import FOLLOWED_S, Figures, figures
from arcacct.records.batch_systems import GRIDENGINE as SYSTEM
from arcacct.records.enrichment import GRIDENGINE
from arcacct.records.import_quarantine import Fault, Reject, RejectedEntry, forget
from arcacct.records.imports import Progress, Say
from arcacct.records.model import Job
from arcacct.records.writer import JobWriter, remove, rename
from arcacct.sources.engine.imports import (
    BatchImport,
    BatchPolicy,
    BatchReport,
    BatchSite,
    BatchSlice,
    BatchTaken,
    pages,
)
from arcacct.sources.gridengine import accounting_file
from arcacct.sources.gridengine.accounting_file import read_lines
from arcacct.sources.gridengine.record import (
    DID_NOT_RUN,
    STORED,
    JobRuns,
    Record,
    RecordKey,
    Run,
    is_final,
    jobs,
    key,
    local_job,
    richer,
)
from arcacct.wording import count_of

# Grid Engine's records in the database: find them by their key, and write them in slices.


_SPELT = {"group": "GroupName", "pe_taskid": "PeTaskID", "qname": "QName", "granted_pe": "GrantedPE", "arid": "ArID"}
_SPELT |= {"ioops": "IoOps", "maxvmem_bytes": "MaxVmem", "maxrss_bytes": "MaxRss", "maxpss_bytes": "MaxPss"}
_UNITS = ("_s", "_kib", "_gib", "_bytes", "_gib_s")


def column(field: str) -> str:
    """Return the column of GridEngineRecords that holds a field of a record."""
    if field in _SPELT:
        return _SPELT[field]
    unit = max((unit for unit in _UNITS if field.endswith(unit)), key=len, default="")
    return "".join(part.capitalize() for part in field.removesuffix(unit).split("_"))


COLUMNS = ", ".join(map(column, STORED))
_JOB = "JobNumber = ? AND TaskNumber = ? AND Cell = ?"
_IS_MASTER, _IS_TASK = "coalesce(PeTaskID, '') = ''", "coalesce(PeTaskID, '') > ''"
_KEY = (
    "JobNumber = ? AND TaskNumber = ? AND coalesce(PeTaskID, '') = ? AND SubmissionTimeUs = ? AND StartTimeUs = ?"
    " AND EndTimeUs = ? AND Failed = ? AND ExitStatus = ? AND coalesce(QName, '') = ? AND coalesce(Hostname, '') = ?"
    " AND Cell = ?"
)
_INSERT = (
    f"INSERT INTO GridEngineRecords (RecordNo, Cell, RecordID, FileID, Line, {COLUMNS})"
    f" VALUES (?, ?, ?, ?, ?{', ?' * len(STORED)})"
)
_REPLACE = f"UPDATE GridEngineRecords SET ({COLUMNS}) = (?{', ?' * (len(STORED) - 1)}) WHERE RecordNo = ?"

Number = tuple[int, int]
"""Job and task number."""


class Stored(NamedTuple):
    """A record of the database, with its number there and the ID of its AAR."""

    record_no: int
    record_id: int | None
    record: Record


class LinePlace(NamedTuple):
    """The file and line from which a record was read."""

    file_id: int
    line: int


def _stored(con: Connection, condition: str, values: tuple[object, ...]) -> list[Stored]:
    rows = con.execute(
        f"SELECT RecordNo, RecordID, {COLUMNS} FROM GridEngineRecords WHERE {condition} ORDER BY RecordNo", values
    ).fetchall()
    usage = "SELECT UsageGroup, Name, Value FROM GridEngineUsage WHERE RecordNo = ? ORDER BY UsageGroup, Name"
    return [Stored(row[0], row[1], Record._make((*row[2:], tuple(con.execute(usage, row[:1]))))) for row in rows]


def _add_usage(con: Connection, rows: Iterable[Stored]) -> None:
    usage = [(one.record_no, *custom) for one in rows for custom in one.record.custom]
    if usage:
        con.executemany("INSERT OR REPLACE INTO GridEngineUsage VALUES (?, ?, ?, ?)", usage)


# Write a slice of Grid Engine's records, and the jobs that they change, in one transaction.
#
# The AARs of a job are always made from all its stored records. So the order of the records and the number of imports
# do not matter. An AAR that is made again without a change writes and logs nothing.


class _Plan(NamedTuple):
    """A job to write, and its records."""

    job: Job
    members: tuple[Stored, ...]


class _Slice(BatchSlice):
    def __init__(self, con: Connection, policy: BatchPolicy) -> None:
        super().__init__(con, policy, GRIDENGINE)
        self.cell = policy.site.cell
        # These numbers of new records hold until the transaction ends.
        (self.next_no,) = con.execute("SELECT ifnull(max(RecordNo), 0) + 1 FROM GridEngineRecords").fetchone()
        self.new: dict[int, tuple[Stored, LinePlace]] = {}
        self.links: dict[int, int | None] = {}
        self.plans: list[_Plan] = []

    def number(self, number: Number, records: Sequence[tuple[Record, LinePlace]], *, anyway: bool = False) -> None:
        """Add the records of one job number and plan the changes. ``anyway``: make the jobs even if nothing is new."""
        found = self._of_number(number, _IS_MASTER)
        affected = anyway
        for record, place in records:
            affected |= self._record(record, place, found)
        if not affected or all(one.record.pe_taskid is not None for one in found.values()):
            return
        if any(one.record.granted_pe or one.record.pe_taskid for one in found.values()):
            found = self._of_number(number, _IS_TASK) | found
        self._jobs(found)

    def _of_number(self, number: Number, which: str) -> dict[RecordKey, Stored]:
        """Return the records of a job or array task: its own, one for each attempt, or those of its parallel tasks."""
        return {key(one.record): one for one in _stored(self.con, f"{_JOB} AND {which}", (*number, self.cell))}

    def single(self, record: Record, place: LinePlace) -> None:
        """Add the only record of a number. Most jobs have only one, and it needs no lookup."""
        new = self._new(record, place)
        runs = JobRuns((Run(record),))
        job = local_job(runs, self.policy.site)
        if job is not None:
            self._job(job, runs, (new,), {}, set())

    def _new(self, record: Record, place: LinePlace) -> Stored:
        new = Stored(self.next_no, None, record)
        self.next_no += 1
        self.new[new.record_no] = new, place
        return new

    def _record(self, record: Record, place: LinePlace, found: dict[RecordKey, Stored]) -> bool:
        """Add a record to those of its number. Return whether it changed anything."""
        known_by = key(record)
        old = found.get(known_by)
        if old is None and record.pe_taskid is not None:
            old = next(iter(_stored(self.con, _KEY, (*known_by, self.cell))), None)
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
            self.con.execute(_REPLACE, (*better[:-1], old.record_no))
            self.con.execute("DELETE FROM GridEngineUsage WHERE RecordNo = ?", (old.record_no,))
            _add_usage(self.con, [found[known_by]])
        return True

    def _jobs(self, found: dict[RecordKey, Stored]) -> None:
        """Make the jobs of one number, and find the AAR of each."""
        before = {one.record_id for one in found.values() if one.record_id is not None}
        # The others belong to A-REX, or were pruned.
        existing = {one: job_id for one, (job_id, source) in self.existing(before).items() if source == GRIDENGINE}
        claimed: set[int] = set()
        for runs in jobs(one.record for one in found.values()):
            members = tuple(found[key(record)] for run in runs.runs for record in run.records)
            job = local_job(runs, self.policy.site)
            if job is not None:
                self._job(job, runs, members, existing, claimed)
            else:
                self._link(members, None)
        # These AARs have no job now: their records moved to another one.
        remove(self.con, sorted(existing.keys() - claimed))

    def _job(
        self, job: Job, runs: JobRuns, members: tuple[Stored, ...], existing: dict[int, str], claimed: set[int]
    ) -> None:
        linked = {one.record_id for one in members if one.record_id is not None}
        candidates = sorted(linked & existing.keys() - claimed, key=lambda one: (existing[one] != job.job_id, one))
        record_id = batch_jobs.arc_job(self.con, job, SYSTEM.lrms_names) if self.has_arc_jobs else None
        if record_id is not None:
            # Grid Engine's values complete A-REX's record. The job gets no second record.
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
        elif not is_final(runs) and self._reached() < job.end_time + FOLLOWED_S:
            self._link(members, None)
            self.taken = self.taken._replace(followed=self.taken.followed + 1)
        elif self.waits(job):
            self._link(members, None)
            self.taken = self.taken._replace(waiting=self.taken.waiting + 1)
        else:
            self.plans.append(_Plan(job, members))

    def _reached(self) -> int:
        """Return the time that the cell's accounting reached: the newest end of a run, UTC seconds."""
        newest = "SELECT EndTimeUs FROM GridEngineRecords WHERE Cell = ? ORDER BY EndTimeUs DESC LIMIT 1"
        stored = self.con.execute(newest, (self.cell,)).fetchone() or (0,)
        return max([stored[0], *(new.record.end_time_us for new, _place in self.new.values())]) // 10**6

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
        new = self.new.values()
        rows = [(one.record_no, self.cell, one.record_id, *place, *one.record[:-1]) for one, place in new]
        self.con.executemany(_INSERT, rows)
        _add_usage(self.con, [one for one, _place in new])
        self.con.executemany(
            "UPDATE GridEngineRecords SET RecordID = ?2 WHERE RecordNo = ?1 AND RecordID IS NOT ?2",
            list(self.links.items()),
        )
        return self.taken


def take(con: Connection, policy: BatchPolicy, records: Sequence[tuple[Record, LinePlace]]) -> BatchTaken:
    """Write new records and the jobs that they change, inside the caller's transaction."""
    by_number: dict[Number, list[tuple[Record, LinePlace]]] = {}
    for record, place in records:
        by_number.setdefault((record.job_number, record.task_number), []).append((record, place))
    work = _Slice(con, policy)
    marks = ",".join({str(job) for job, _task in by_number})
    rows = con.execute(
        f"SELECT DISTINCT JobNumber, TaskNumber FROM GridEngineRecords WHERE JobNumber IN ({marks}) AND Cell = ?",
        (work.cell,),
    )
    known = set(map(tuple, rows))
    for number, some in by_number.items():
        if number not in known and len(some) == 1 and some[0][0].pe_taskid is None:
            work.single(*some[0])
        else:
            work.number(number, some)
    return work.write()


def make_again(con: Connection, policy: BatchPolicy, numbers: Iterable[Number]) -> BatchTaken:
    """Make the jobs of these numbers again from their records, inside the caller's transaction."""
    work = _Slice(con, policy)
    for number in numbers:
        work.number(number, (), anyway=True)
    return work.write()


# The accounting files that were read, and how far (table GridEngineFiles).


_COLUMNS = "FileID, Position, Tail, Checksum, Lines, Records, BadLines"
_LATEST = "ORDER BY ReadAt DESC, FileID DESC LIMIT 1"


class FilePositions:
    """The positions in the files of a cell."""

    def __init__(self, con: Connection, cell: str) -> None:
        self._con = con
        self._cell = cell

    def find(self, reader: Reader) -> FileOffset:
        """
        Return the position where an import of this file stopped, even if its path changed since.

        Returns the start of the file if no import read it or if it changed. A position at the start has the file number
        0. Exception: the number of an input that cannot return to its start, such as a pipe, is kept.
        """
        if reader.identity is None:
            rows = self._chosen(_COLUMNS, "Path = ? AND Device IS NULL", reader.path)
            return FileOffset._make(rows[0])._replace(position=0, checksum=0, lines=0) if rows else FileOffset()
        reader.look_at_head()
        rows = self._chosen(_COLUMNS, "Head = ? ORDER BY Position DESC", reader.head)
        return next((one for one in map(FileOffset._make, rows) if reader.holds(one)), FileOffset())

    def latest(self, path: str) -> tuple[FileOffset, int] | None:
        """
        Return the position where the last import of the file at this path stopped, and the time of it in UTC seconds.
        """
        rows = self._chosen(f"{_COLUMNS}, ReadAt", f"Path = ? AND Device IS NOT NULL {_LATEST}", path)
        return (FileOffset._make(rows[0][:-1]), rows[0][-1]) if rows else None

    def was_read(self, reader: Reader) -> bool:
        """Whether a file with the same first bytes was read before."""
        return bool(self._chosen("1", "Head = ? AND Position > 0", reader.head))

    def file_of(self, path: str) -> int:
        """
        Return the number of the file last read at a path. Call this inside a transaction: it may create the number.
        """
        rows = self._chosen("FileID", f"Path = ? {_LATEST}", path)
        return int(rows[0][0]) if rows else self._new(path, None)

    def keep(self, reader: Reader, position: FileOffset) -> FileOffset:
        """
        Store the current position in a file, inside the transaction that writes the records.

        A new file gets its number.
        """
        device, inode = reader.identity or (None, None)
        if position.file_id == 0:
            position = position._replace(file_id=self._new(reader.path, reader.head))
        self._con.execute(
            "UPDATE GridEngineFiles SET (Path, Device, Inode, Position, Tail, Checksum, Lines, Records, BadLines,"
            " ReadAt) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE FileID = ?",
            (reader.path, device, inode, *position[1:], int(time.time()), position.file_id),
        )
        return position

    def _chosen(self, columns: str, condition: str, value: object) -> list[Any]:
        query = f"SELECT {columns} FROM GridEngineFiles WHERE Cell = ? AND {condition}"
        return self._con.execute(query, (self._cell, value)).fetchall()

    def _new(self, path: str, head: bytes | None) -> int:
        insert = "INSERT INTO GridEngineFiles (Cell, Path, Head) VALUES (?, ?, ?)"
        return self._con.execute(insert, (self._cell, path, head)).lastrowid or 0


# Import the new records of Grid Engine's accounting files, each once, in slices so short that no writer waits.
#
# The position in each file moves in the same transaction as its records. After an interruption, the next import
# continues there. If a position is not valid, the file is read from its start, and known records change nothing. If
# something in a slice fails, the slice is rolled back and read again in halves until the bad record is found. Only this
# record is rejected.


_LINE = "line "


@dataclass
class GridEngineReport(BatchReport):
    """The results of an import."""

    lines: int = 0
    """Lines that were read, comments included."""
    bad_lines: int = 0


class Import(BatchImport[Number]):
    """
    One import, or several while it follows files. The results so far are in ``report``.

    ``say`` gets messages about bad lines (one for each reason), unreadable files, incomplete last lines and conflicts.
    """

    progress_of = ("GridEngineProgress", "Cell")
    report: GridEngineReport

    def __init__(
        self,
        here: Places,
        con: Connection,
        policy: BatchPolicy,
        say: Say,
        progress: Progress = lambda _path, _done, _all: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(here, con, policy, SYSTEM.name, say, clock)
        self._progress = progress
        self._positions = FilePositions(con, self._scope)
        self.report = GridEngineReport()

    def files(self, paths: Sequence[str]) -> None:
        """Import files, the oldest first. Rotated parts that were not read yet come before the file itself."""
        for reader in self._tailer(paths).once():
            self._new_lines(reader)
        self.finish()

    def _tailer(self, paths: Sequence[str]) -> FileTailer:
        return FileTailer(paths, self._cannot_read, self, _first_time_us)

    def _so_far(self) -> int:
        return self.report.lines

    def latest(self, path: str) -> tuple[FileOffset, int] | None:
        """Return the position where the last import of the file at this path stopped, and the time of it."""
        return self._positions.latest(path)

    def find(self, reader: Reader) -> FileOffset:
        """
        Return the position where an earlier import stopped. It is the start after a change, or if a `retry` needs the
        file.
        """
        position = self._positions.find(reader)
        if reader.path in self._to_read or (not position.position and self._positions.was_read(reader)):
            with writing(self._con, self._here):
                self._quarantine.anew(reader.path)
            position = FileOffset(position.file_id)
            self._to_read.discard(reader.path)
        return position

    def _new_lines(self, reader: Reader) -> None:
        """Import the complete lines that are available."""
        for lines in reader.lines():
            if isinstance(lines, Overlong):
                why = Fault(f"a line of {lines.bytes} bytes: no record of Grid Engine's")
                bad = _reject(reader, 1, lines.beginning, why)._replace(bytes=lines.bytes)
                self._leave_out(reader, bad, lines.after)
                continue
            for part in self._slices(lines):
                self._in_halves(
                    part,
                    partial(self._take, reader),
                    lambda line, why: self._leave_out(
                        reader, _reject(reader, 1, line, why), reader.position.after([line])
                    ),
                )
            self._progress(reader.path, reader.position.position, reader.size)
        if reader.is_last and reader.left_bytes and not reader.complaint:
            self._say(
                f"{reader.path}: the last line is incomplete ({count_of(reader.left_bytes, 'byte')}): left for the "
                "next import"
            )

    def _take(self, reader: Reader, lines: Sequence[bytes]) -> None:
        """Write one slice in one transaction: the records, the jobs that they change, and the position."""
        position = reader.position
        found: list[tuple[Record, int]] = []
        bad = []
        unusable: Counter[str] = Counter()
        for number, one in read_lines(lines, unusable):
            if isinstance(one, Fault):
                bad.append(_reject(reader, number, lines[number - 1], one))
            else:
                found.append((one, position.lines + number))
        if not found and not bad and reader.head is None:
            # The file has only its header so far, so it cannot be distinguished from others.
            reader.position = position.after(lines)
            self.report.lines += len(lines)
            return
        self._keep(reader, found, bad, position.after(lines))
        self.report.unusable.update(unusable)
        self.report.lines += len(lines)

    def _leave_out(self, reader: Reader, bad: Reject, after: FileOffset) -> None:
        """Reject the next line, which cannot be used."""
        self._keep(reader, (), [bad], after)
        self.report.lines += 1

    def _keep(
        self, reader: Reader, found: Sequence[tuple[Record, int]], bad: Sequence[Reject], after: FileOffset
    ) -> None:
        position = after._replace(bad_lines=after.bad_lines + len(bad))

        def write(con: Connection) -> BatchTaken:
            nonlocal position
            if position.file_id == 0:
                position = position._replace(file_id=self._positions.keep(reader, reader.position).file_id)
            taken = take(con, self._now(), [(one, LinePlace(position.file_id, line)) for one, line in found])
            position = self._positions.keep(reader, position._replace(records=position.records + taken.new))
            return taken

        self._write(write, len(found), bad)
        reader.position = position
        self.report.bad_lines += len(bad)

    def _cells(self) -> list[str]:
        return [self._scope]

    def made(self, con: Connection, policy: BatchPolicy, jobs: Sequence[Number], /) -> BatchTaken:
        """Make some jobs again, inside the transaction."""
        return make_again(con, policy, jobs)

    def _numbers(self, cell: str, local_job_id: str) -> Number | None:  # noqa: ARG002  there is one cell
        is_number = local_job_id.isascii() and local_job_id.isdecimal() and len(local_job_id) < 18
        return (int(local_job_id), 0) if is_number else None

    def _pages(self, *, waiting: bool) -> Iterable[Sequence[Number]]:
        columns = "SELECT DISTINCT JobNumber, TaskNumber FROM GridEngineRecords WHERE"
        if waiting:
            # These jobs ran, and wait for A-REX's job.
            never = ",".join(map(str, sorted(DID_NOT_RUN)))
            which = f"RecordID IS NULL AND StartTimeUs > 0 AND PeTaskID IS NULL AND Failed NOT IN ({never})"
            return [self._con.execute(f"{columns} {which} AND Cell = ?", (self._scope,)).fetchall()]
        which = "(JobNumber, TaskNumber) > (?, ?) AND Cell = ? ORDER BY JobNumber, TaskNumber LIMIT 1000"
        return pages(self._con, f"{columns} {which}", (-1, -1), self._scope)

    def _called(self, job: Number) -> str:
        number, task = job
        return f"job {f'{number}.{task}' if task else number}: cannot be rebuilt from its records"

    def again(self) -> None:
        """Make every job of the cell again from its records, and finish."""
        super().again()
        self.finish()

    def _once_more(self, kept: RejectedEntry, content: bytes) -> None:
        number = kept.position.removeprefix(_LINE)
        one = accounting_file.record(content)
        taken = BatchTaken()
        with writing(self._con, self._here) as con:
            if one is not None:
                place = LinePlace(self._positions.file_of(kept.file), int(number) if number.isdecimal() else 0)
                taken = take(con, self._now(), [(one, place)])
            forget(con, [kept.rejected_id])
        self._count(taken)


def _reject(reader: Reader, number: int, line: bytes, why: Fault) -> Reject:
    """Return the rejection of a line of a slice. ``number`` is its number within the slice."""
    return Reject(reader.path, f"{_LINE}{reader.position.lines + number}", why, line)


def _first_time_us(path: str) -> int:
    """
    Return the end of the first record of a file, so that the runs of a requeued job are read in order; 0 if unknown.
    """
    with Reader(path) as reader:
        found = (one for _, one in read_lines(reader.beginning().split(b"\n")[:-1]) if not isinstance(one, Fault))
        return next((one.end_time_us for one in found if one.end_time_us), 0)


# The jobs of a period in an accounting file, for comparison with the recorded jobs.


_RUNS_S = 31 * 86_400
"""The first run of a job may end this many seconds before its last run."""


def of_file(path: str, start: int, end: int) -> Iterator[Figures]:
    """
    Yield the jobs that ended at or after ``start`` and before ``end``, UTC seconds. Their records are held in memory.

    Raises InputError when the file cannot be read, or when some of its lines cannot be used.
    """
    found: dict[tuple[int, int], list[Record]] = {}
    bad = 0
    with Reader(path) as reader:
        for lines in reader.lines():
            bad += isinstance(lines, Overlong)
            for _, one in read_lines(() if isinstance(lines, Overlong) else lines):
                if isinstance(one, Fault):
                    bad += 1
                elif start - _RUNS_S <= one.end_time_us // 10**6 < end:
                    found.setdefault((one.job_number, one.task_number), []).append(one)
        if reader.complaint:
            raise InputError(reader.complaint)
    site = BatchSite()
    for records in found.values():
        for runs in jobs(records):
            job = local_job(runs, site)
            if job is not None and start <= job.end_time < end:
                yield figures(job)._replace(is_final=is_final(runs))
    if bad:
        raise InputError(f"{path}: {count_of(bad, 'line')} not usable; `arcacct import gridengine` says why")
