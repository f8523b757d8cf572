"""
Importing Grid Engine's accounting files: what is new in them, each record once, in slices that no hook waits for.

How far each file was read moves in the same transaction as its records. Interrupted anywhere, the next import goes on;
where a position does not hold, the file is read from its beginning and what is known is known. A slice in which
something fails is taken back and read again in halves, until the record is found: it alone is rejected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from arcacct.conf.places import Places
from arcacct.db.engine import Connection
from arcacct.db.opening import writing
from arcacct.errors import InputError
from arcacct.files.following import Follower
from arcacct.files.reading import STDIN, Overlong, Position, Reader
from arcacct.gridengine import rows
from arcacct.gridengine.lines import record
from arcacct.gridengine.positions import FilePositions
from arcacct.gridengine.record import Record
from arcacct.gridengine.rows import Number, Place
from arcacct.gridengine.slices import Policy, Taken, make_again, take
from arcacct.jobs import cells
from arcacct.jobs.faults import Fault, fault_of
from arcacct.jobs.filling import Conflict
from arcacct.jobs.imports import SHOWN, ImportRun, Progress, Say
from arcacct.jobs.local import LOCAL, has_arc_jobs
from arcacct.jobs.precedence import GRIDENGINE as SOURCE
from arcacct.jobs.rejected import Kept, Reject, drop
from arcacct.jobs.writing import JobWriter

POLL_S = 2.0
"""The writer appends every 15 s, unless it is told otherwise (accounting_flush_time)."""
_CACHE_KIB = 16 * 1024
"""A job goes into some twenty indexes: their pages should stay while a long file is imported."""
_LINE = "line "


class GridEngineReport(NamedTuple):
    """What an import did."""

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


class Import(ImportRun):
    """
    One import, or many while it follows: what it has done so far is in ``report``.

    ``say`` is told of bad lines (the first SHOWN of them), files that cannot be read, torn ends and conflicts.
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
        super().__init__(here, con, SOURCE, policy.site.cell, say)
        con.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._policy = policy
        self._progress = progress
        self._writer = JobWriter(con, SOURCE, policy.site.cell)
        self._positions = FilePositions(con, policy.site.cell)
        self._clock = clock
        self._conflicts: set[Conflict] = set()
        self.report = GridEngineReport()

    def files(self, paths: Sequence[str]) -> None:
        """Import files, the oldest first, each after what it was rotated to since it was last read."""
        for reader in Follower(paths, self._cannot_read, self, _first_time_us).once():
            self._new_lines(reader)
        self.finish()

    def follow(
        self, paths: Sequence[str], *, poll_s: float = POLL_S, goes_on: Callable[[], bool] = lambda: True
    ) -> None:
        """Import what is in files, and what comes; ends when ``goes_on`` says so. Raises InputError for ``-``."""
        if STDIN in paths:
            raise InputError("-: standard input cannot be followed; it is read to its end without --follow")
        finished = -1
        for reader in Follower(paths, self._cannot_read, self, _first_time_us).follow(poll_s, goes_on=goes_on):
            if reader is not None:
                self._new_lines(reader)
            elif self.report.lines != finished:
                finished = self.report.lines
                self.finish()

    def _cannot_read(self, complaint: str) -> None:
        self.report = self.report._replace(unreadable=self.report.unreadable + 1)
        self._say(complaint)

    def read_s(self, path: str) -> int:
        """When something was taken last from the file that stood at a path then."""
        return self._positions.read_s(path)

    def find(self, reader: Reader) -> Position:
        """Where an earlier import stopped in a file; after a `retry` that needs it, or a change, its beginning."""
        position = self._positions.find(reader)
        if reader.path in self._to_read or (not position.position and self._positions.was_read(reader)):
            with writing(self._con, self._here):
                self._quarantine.anew(reader.path)
            position = Position(position.file_id)
            self._to_read.discard(reader.path)
        return position

    def _new_lines(self, reader: Reader) -> None:
        """Import the whole lines that there are."""
        for lines in reader.lines():
            if isinstance(lines, Overlong):
                why = Fault(f"a line of {lines.bytes} bytes: no record of Grid Engine's")
                bad = _reject(reader, 1, lines.beginning, why)._replace(bytes=lines.bytes)
                self._leave_out(reader, bad, lines.after)
                continue
            for part in self._slices(lines):
                self._in_halves(part, partial(self._take, reader), partial(self._refuse, reader))
            self._progress(reader.path, reader.position.position, reader.size)
        if reader.is_last and reader.left_bytes and not reader.complaint:
            self._say(f"{reader.path}: the last {reader.left_bytes} bytes are no whole line: left for the next import")

    def _take(self, reader: Reader, lines: Sequence[bytes]) -> None:
        """One slice: records, what they change, and the position, in one transaction."""
        position = reader.position
        found, bad = self._parsed(reader, lines)
        if not found and not bad and reader.head is None:
            # Only the header so far: the file cannot be told from others yet.
            reader.position = position.after(lines)
            self._read(len(lines), ())
            return
        with writing(self._con, self._here) as con:
            begun = time.monotonic()
            if position.file_id == 0:
                position = self._positions.keep(reader, position)
            places = [(one, Place(position.file_id, line)) for line, one in found]
            taken = take(con, self._now(), self._writer, places)
            position = position.after(lines)._replace(
                records=position.records + taken.new, bad_lines=position.bad_lines + len(bad)
            )
            position = self._positions.keep(reader, position)
            self._quarantine.keep(bad)
            self._adapt(len(found), time.monotonic() - begun)
        reader.position = position
        self._read(len(lines), bad)
        self._count(taken)

    def _refuse(self, reader: Reader, line: bytes, why: Fault) -> None:
        self._leave_out(reader, _reject(reader, 1, line, why), reader.position.after([line]))

    def _leave_out(self, reader: Reader, bad: Reject, after: Position) -> None:
        """The next line is none that can be used."""
        with writing(self._con, self._here):
            position = self._positions.keep(reader, after._replace(bad_lines=after.bad_lines + 1))
            self._quarantine.keep([bad])
        reader.position = position
        self._read(1, [bad])

    def _taken_back(self) -> None:
        super()._taken_back()
        self._writer = JobWriter(self._con, SOURCE, self._scope)

    def _parsed(self, reader: Reader, lines: Sequence[bytes]) -> tuple[list[tuple[int, Record]], list[Reject]]:
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
            what = f"{one.file}:{one.position.removeprefix(_LINE)}: {one.fault.reason}; the line is left out"
            self._show(count, what, "further bad lines are only counted")
        self.report = report._replace(lines=report.lines + lines, bad_lines=report.bad_lines + len(bad))

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
        waiting = rows.numbers_without_record(self._con, self._scope)
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
        row = self._con.execute("SELECT Seq FROM GridEngineProgress WHERE Cell = ?", (self._scope,)).fetchone()
        return 0 if row is None else int(row[0])

    def _seen(self, seq: int) -> None:
        if self._progress_of_cell() < seq:
            with writing(self._con, self._here) as con:
                con.execute("INSERT OR REPLACE INTO GridEngineProgress VALUES (?, ?)", (self._scope, seq))

    def again(self) -> None:
        """Make every job of the cell again from its records: the configuration says something else now."""
        self._make_again(rows.all_numbers(self._con, self._scope))
        self.finish()

    def _make_again(self, pages: Iterator[list[Number]] | list[list[Number]]) -> None:
        for page in pages:
            for part in self._slices(page):
                self._in_halves(part, self._make_part, self._cannot_make)

    def _make_part(self, part: Sequence[Number]) -> None:
        with writing(self._con, self._here) as con:
            begun = time.monotonic()
            taken = make_again(con, self._now(), self._writer, part)
            self._adapt(len(part), time.monotonic() - begun)
        self._count(taken)

    def _cannot_make(self, number: Number, why: Fault) -> None:
        self.report = self.report._replace(failed_jobs=self.report.failed_jobs + 1)
        if self.report.failed_jobs <= SHOWN:
            job, task = number
            name = f"{job}.{task}" if task else str(job)
            self._say(f"job {name}: cannot be made from its records: {why.reason}; it stays as it was")

    def _retried(self, kept: Kept, content: bytes) -> bool:
        refused = []
        self._in_halves([content], lambda _all: self._take_once_more(kept, content), lambda *why: refused.append(why))
        return not refused

    def _take_once_more(self, kept: Kept, line: bytes) -> None:
        number = kept.position.removeprefix(_LINE)
        one = record(line)
        taken = Taken()
        with writing(self._con, self._here) as con:
            if one is not None:
                place = Place(self._positions.file_of(kept.file), int(number) if number.isdecimal() else 0)
                taken = take(con, self._now(), self._writer, [(one, place)])
            drop(con, [kept.rejected_id])
        self._count(taken)


def _reject(reader: Reader, number: int, line: bytes, why: Fault) -> Reject:
    """A line of a slice, by its number there, that cannot be used."""
    return Reject(reader.path, f"{_LINE}{reader.position.lines + number}", why, line)


def _first_time_us(path: str) -> int:
    """When the first record of a file ended, so that a requeued job is seen from its beginning; 0 if unknown."""
    with Reader(path) as reader:
        for line in reader.beginning().split(b"\n")[:-1]:
            try:
                found = record(line)
            except Exception:  # noqa: BLE001, S112  the import says what is wrong with it
                continue
            if found is not None and found.end_time_us:
                return found.end_time_us
    return 0
