"""
Importing Grid Engine's accounting files: what is new in them, each record once, in slices that no hook waits for.

How far each file was read moves in the same transaction as its records. Interrupted anywhere, the next import goes on;
where a position does not hold, the file is read from its beginning and what is known is known. A slice in which
something fails is taken back and read again in halves, until the record is found: it alone is rejected.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from arcacct.conf.places import Places
from arcacct.db.engine import Connection
from arcacct.db.opening import writing
from arcacct.errors import InputError
from arcacct.gridengine import positions, rows
from arcacct.gridengine.lines import record
from arcacct.gridengine.reading import STDIN, Overlong, Position, Reader, first_time, rotated_since
from arcacct.gridengine.record import Record
from arcacct.gridengine.rows import Number, Place
from arcacct.gridengine.slices import Policy, Taken, make_again, take
from arcacct.jobs import cells
from arcacct.jobs.faults import Fault, fault_of
from arcacct.jobs.filling import Conflict
from arcacct.jobs.local import LOCAL, has_arc_jobs
from arcacct.jobs.precedence import GRIDENGINE as SOURCE
from arcacct.jobs.rejected import Kept, Quarantine, Reject, Retried, drop, fault, is_of_record, needing_file
from arcacct.jobs.writing import JobWriter

SHOWN = 10
"""So many bad lines are shown of a run."""
_CACHE_KIB = 16 * 1024
"""A job goes into some twenty indexes: their pages should stay while a long file is imported."""
_SLICE_S = 0.03
"""How long a slice should hold the queue of writers."""
_SMALLEST, _LARGEST = 50, 500

_LINE = "line "

Say = Callable[[str], None]
"""Called with something that a person should know while the import runs."""
Progress = Callable[[str, int, int], None]
"""Called with a path, the bytes of it that are done and those that there are."""


class Report(NamedTuple):
    """What an import did."""

    files: int = 0
    lines: int = 0
    """Lines that were read, comments included."""
    bad_lines: int = 0
    failed_jobs: int = 0
    """Jobs that could not be made again from their records."""
    unreadable: int = 0
    """Files that could not be read, or not to their end."""
    more_conflicts: int = 0
    """Differences between A-REX and Grid Engine that were not said one by one."""
    taken: Taken = Taken()


class Import:
    """
    One import, or many with ``--follow``: what it has done so far is in ``report``.

    ``say`` is told of bad lines (the first SHOWN of them), files that cannot be read, torn ends and conflicts.
    Raises StoreError when the database refuses; nothing that was taken is lost then.
    """

    def __init__(
        self,
        here: Places,
        con: Connection,
        policy: Policy,
        say: Say,
        progress: Progress = lambda _path, _done, _all: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        con.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._here = here
        self._con = con
        self._policy = policy
        self._say = say
        self._progress = progress
        self._writer = JobWriter(con, SOURCE, policy.site.cell)
        self._quarantine = Quarantine(con, SOURCE, policy.site.cell)
        self._clock = clock
        self._conflicts: set[Conflict] = set()
        self._to_read: set[str] = set()
        self._slice = 50
        self.report = Report()

    @property
    def cell(self) -> str:
        """The cell that the files are from."""
        return self._policy.site.cell

    def files(self, paths: Sequence[str]) -> None:
        """Import files, the oldest first, each after what it was rotated to since it was last read."""
        for path in in_order(self._with_rotated(paths)):
            self.file(path)
        self.finish()

    def _with_rotated(self, paths: Sequence[str]) -> Iterator[str]:
        for path in paths:
            yield from (other for other in self.rotated(path) if other not in paths)
            yield path

    def rotated(self, path: str) -> list[str]:
        """
        What a path that is another file than before was renamed to, and what was rotated since.

        None of what cannot be read: reading it says what is wrong.
        """
        last = positions.latest(self._con, self.cell, path)
        if last is None:
            return []
        position, read_at = last
        try:
            reader = Reader(path)
            try:
                # Not by the inode: a file that is made anew often gets that of the one that was removed.
                return [] if reader.holds(position) else rotated_since(path, read_at)
            finally:
                reader.close()
        except InputError:
            return []

    def file(self, path: str) -> None:
        """Import what is new in one file."""
        try:
            reader = self.opened(path)
            try:
                self.new_lines(reader)
                if reader.left_bytes:
                    self._say(f"{path}: the last {reader.left_bytes} bytes are no whole line: left for the next import")
            finally:
                reader.close()
        except InputError as error:
            self._say(str(error))
            self.report = self.report._replace(unreadable=self.report.unreadable + 1)

    def opened(self, path: str) -> Reader:
        """
        A file, at the place where an earlier import stopped; after a `retry` that needs it at its beginning.

        Raises InputError.
        """
        reader = Reader(path)
        try:
            reader.position = positions.find(self._con, self.cell, reader)
            if path in self._to_read or positions.was_read(self._con, self.cell, reader):
                with writing(self._con, self._here):
                    self._quarantine.anew(path)
                reader.position = Position(reader.position.file_id)
                self._to_read.discard(path)
        except BaseException:
            reader.close()
            raise
        self.report = self.report._replace(files=self.report.files + 1)
        return reader

    def new_lines(self, reader: Reader) -> None:
        """Import the whole lines that follow. Raises InputError for what cannot be read, after all that could be."""
        size = 0 if reader.path == STDIN else os.stat(reader.path).st_size
        for lines in reader.lines():
            if isinstance(lines, Overlong):
                self._pass_over(reader, lines)
                continue
            start = 0
            while start < len(lines):
                part = lines[start : start + self._slice]
                start += len(part)
                self._take(reader, part)
            self._progress(reader.path, reader.position.position, size)

    def _take(self, reader: Reader, lines: list[bytes], refused: Fault | None = None) -> None:
        """
        One slice: records, what they change, and the position, in one transaction.

        ``refused``: why the only one of these lines cannot be used.
        """
        position = reader.position
        found, bad = self._parsed(reader, lines) if refused is None else ([], [_reject(reader, 1, lines[0], refused)])
        if not found and not bad and reader.head is None:
            # Only the header so far: the file cannot be told from others yet.
            self._read(len(lines), ())
            reader.position = position.after(lines)
            return
        try:
            with writing(self._con, self._here) as con:
                begun = time.monotonic()
                if position.file_id == 0:
                    position = positions.keep(con, self.cell, reader, position)
                places = [(one, Place(position.file_id, line)) for line, one in found]
                taken = take(con, self._now(), self._writer, places)
                position = position.after(lines)._replace(
                    records=position.records + taken.new, bad_lines=position.bad_lines + len(bad)
                )
                position = positions.keep(con, self.cell, reader, position)
                self._quarantine.keep(bad)
                self._adapt(len(found), time.monotonic() - begun)
        except Exception as error:
            self._taken_back()
            if refused is not None or not is_of_record(error):
                raise
            self._take_apart(reader, lines, fault(error))
            return
        reader.position = position
        self._read(len(lines), bad)
        self._count(taken)

    def _taken_back(self) -> None:
        """A transaction was rolled back: what was remembered of it is wrong."""
        self._writer = JobWriter(self._con, SOURCE, self.cell)
        self._quarantine.forget()

    def _take_apart(self, reader: Reader, lines: list[bytes], why: Fault) -> None:
        """A slice in which something fails, in halves."""
        if len(lines) == 1:
            self._take(reader, lines, why)
            return
        for part in (lines[: len(lines) // 2], lines[len(lines) // 2 :]):
            self._take(reader, part)

    def _pass_over(self, reader: Reader, line: Overlong) -> None:
        """A line that is too long for a record."""
        why = Fault(f"a line of {line.bytes} bytes: no record of Grid Engine's")
        bad = [_reject(reader, 1, line.beginning, why)._replace(bytes=line.bytes)]
        with writing(self._con, self._here) as con:
            position = line.after._replace(bad_lines=reader.position.bad_lines + 1)
            position = positions.keep(con, self.cell, reader, position)
            self._quarantine.keep(bad)
        reader.position = position
        self._read(1, bad)

    def _parsed(self, reader: Reader, lines: list[bytes]) -> tuple[list[tuple[int, Record]], list[Reject]]:
        found = []
        bad = []
        before = reader.position.lines
        for number, line in enumerate(lines, 1):
            try:
                one = record(line)
            except Exception as error:  # noqa: BLE001  whatever it is, it costs this line alone
                bad.append(_reject(reader, number, line, fault_of(error)))
            else:
                if one is not None:
                    found.append((before + number, one))
        return found, bad

    def _read(self, lines: int, bad: Sequence[Reject]) -> None:
        """Count lines that were read, and say what is wrong with them."""
        report = self.report
        for count, one in enumerate(bad, report.bad_lines + 1):
            if count <= SHOWN:
                self._say(f"{one.file}:{one.position.removeprefix(_LINE)}: {one.fault.reason}; the line is left out")
            elif count == SHOWN + 1:
                self._say("further bad lines are only counted")
        self.report = report._replace(lines=report.lines + lines, bad_lines=report.bad_lines + len(bad))

    def _adapt(self, records: int, seconds: float) -> None:
        wanted = int(records * _SLICE_S / max(seconds, 1e-6))
        self._slice = max(_SMALLEST, min(wanted, 2 * self._slice, _LARGEST))

    def _now(self) -> Policy:
        return self._policy._replace(now=int(self._clock()))

    def _count(self, taken: Taken) -> None:
        for conflict in taken.conflicts:
            if len(self._conflicts) < SHOWN and conflict not in self._conflicts:
                self._say(f"{conflict}; {'the first' if self._policy.prefer_arc else 'the second'} is kept")
                self._conflicts.add(conflict)
            elif conflict not in self._conflicts:
                self.report = self.report._replace(more_conflicts=self.report.more_conflicts + 1)
        self.report = self.report._replace(taken=self.report.taken.plus(taken._replace(conflicts=())))

    def finish(self) -> None:
        """What is left after the files: jobs that A-REX finished since, jobs that waited, and the monthly sums."""
        # What is completed now is logged after this: the next import looks at it once and changes nothing.
        horizon = self._con.execute("SELECT ifnull(max(Seq), 0) FROM FinishedLog").fetchone()[0]
        if has_arc_jobs(self._con):
            self._make_again(self._logged_by_arc(horizon))
        self._seen(horizon)
        waiting = rows.numbers_without_record(self._con, self.cell)
        self.report = self.report._replace(taken=self.report.taken._replace(waiting=0))
        self._make_again([waiting])
        cells.advance(self._con, self._here)

    def _logged_by_arc(self, horizon: int) -> Iterator[list[Number]]:
        """The numbers of A-REX's jobs that ended or changed since the last import, in slices."""
        while True:
            seq = self._progress_of_cell()
            logged = self._con.execute(
                "SELECT Seq, LocalJobID, Interface FROM FinishedLog LEFT JOIN AAR USING (RecordID)"
                " LEFT JOIN Endpoints ON Endpoints.ID = EndpointID WHERE Seq > ? AND Seq <= ?"
                " ORDER BY Seq LIMIT 500",
                (seq, horizon),
            ).fetchall()
            if not logged:
                return
            yield [
                (int(local_id), 0)
                for _seq, local_id, interface in logged
                if local_id and interface != LOCAL and local_id.isdecimal() and len(local_id) < 18
            ]
            self._seen(logged[-1][0])

    def _progress_of_cell(self) -> int:
        row = self._con.execute("SELECT Seq FROM GridEngineProgress WHERE Cell = ?", (self.cell,)).fetchone()
        return 0 if row is None else int(row[0])

    def _seen(self, seq: int) -> None:
        if self._progress_of_cell() < seq:
            with writing(self._con, self._here) as con:
                con.execute("INSERT OR REPLACE INTO GridEngineProgress VALUES (?, ?)", (self.cell, seq))

    def again(self) -> None:
        """Make every job of the cell again from its records: the configuration says something else now."""
        self._make_again(rows.all_numbers(self._con, self.cell))
        self.finish()

    def _make_again(self, pages: Iterator[list[Number]] | list[list[Number]]) -> None:
        for page in pages:
            start = 0
            while start < len(page):
                part = page[start : start + self._slice]
                start += len(part)
                self._make_part(part)

    def _make_part(self, part: list[Number]) -> None:
        try:
            with writing(self._con, self._here) as con:
                begun = time.monotonic()
                taken = make_again(con, self._now(), self._writer, part)
                self._adapt(len(part), time.monotonic() - begun)
        except Exception as error:
            self._taken_back()
            if not is_of_record(error):
                raise
            if len(part) > 1:
                for half in (part[: len(part) // 2], part[len(part) // 2 :]):
                    self._make_part(half)
                return
            self.report = self.report._replace(failed_jobs=self.report.failed_jobs + 1)
            if self.report.failed_jobs <= SHOWN:
                job, task = part[0]
                name = f"{job}.{task}" if task else str(job)
                self._say(f"job {name}: cannot be made from its records: {fault(error).reason}; it stays as it was")
        else:
            self._count(taken)

    def retry(self) -> Retried:
        """Take once more what was rejected; what can be used now is rejected no longer."""
        done = Retried()
        for kept, line in self._quarantine.waiting():
            done = done._replace(tried=done.tried + 1, good=done.good + self._retried(kept, line))
        self.finish()
        self._to_read = self._quarantine.files_to_read()
        return done._replace(needs_file=needing_file(self._con, SOURCE, self.cell))

    def _retried(self, kept: Kept, line: bytes) -> bool:
        number = kept.position.removeprefix(_LINE)
        try:
            one = record(line)
            with writing(self._con, self._here) as con:
                taken = Taken()
                if one is not None:
                    file_id = positions.file_of(con, self.cell, kept.file)
                    place = Place(file_id, int(number) if number.isdecimal() else 0)
                    taken = take(con, self._now(), self._writer, [(one, place)])
                drop(con, [kept.rejected_id])
        except Exception as error:
            self._taken_back()
            if not is_of_record(error):
                raise
            return False
        self._count(taken)
        return True


def _reject(reader: Reader, number: int, line: bytes, why: Fault) -> Reject:
    """A line of a slice, by its number there, that cannot be used."""
    return Reject(reader.path, f"{_LINE}{reader.position.lines + number}", why, line)


def in_order(paths: Iterator[str]) -> list[str]:
    """The files by the time of their first record, so that a requeued job is seen from its beginning; stdin last."""

    def when(path: str) -> tuple[bool, int]:
        try:
            return (True, 0) if path == STDIN else (False, first_time(path))
        except InputError:
            return False, 0

    return sorted(dict.fromkeys(paths), key=when)
