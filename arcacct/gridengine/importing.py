"""
Importing Grid Engine's accounting files: what is new in them, each record once, in slices that no hook waits for.

How far each file was read moves in the same transaction as its records. Interrupted anywhere, the next import goes on;
where a position does not hold, the file is read from its beginning and what is known is known. A slice in which
something fails is rolled back and read again in halves, until the record is found: it alone is rejected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from arcacct.config.paths import Places
from arcacct.database.access import writing
from arcacct.database.connection import Connection
from arcacct.errors import InputError
from arcacct.files.follow import STDIN, FileOffset, FileTailer, Overlong, Reader
from arcacct.gridengine import rows
from arcacct.gridengine.lines import read_lines, record
from arcacct.gridengine.positions import FilePositions
from arcacct.gridengine.record import Record
from arcacct.gridengine.rows import LinePlace, Number
from arcacct.gridengine.slices import make_again, take
from arcacct.records.enrichment import GRIDENGINE as SOURCE
from arcacct.records.import_quarantine import Fault, Reject, RejectedEntry, forget
from arcacct.records.imports import BatchImport, BatchPolicy, BatchReport, BatchTaken, Progress, Say
from arcacct.wording import count_of

POLL_S = 2.0
"""The writer appends every 15 s, unless it is told otherwise (accounting_flush_time)."""
_LINE = "line "


@dataclass
class GridEngineReport(BatchReport):
    """What an import did."""

    lines: int = 0
    """Lines that were read, comments included."""
    bad_lines: int = 0


class Import(BatchImport[Number]):
    """
    One import, or many while it follows: what it has done so far is in ``report``.

    ``say`` is told of bad lines (the first SHOWN of them), files that cannot be read, torn ends and conflicts.
    """

    progress_of = ("GridEngineProgress", "Cell")
    report: GridEngineReport
    made = staticmethod(make_again)

    def __init__(
        self,
        here: Places,
        con: Connection,
        policy: BatchPolicy,
        say: Say,
        progress: Progress = lambda _path, _done, _all: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(here, con, policy, SOURCE, say, clock)
        self._progress = progress
        self._positions = FilePositions(con, self._scope)
        self.report = GridEngineReport()

    def files(self, paths: Sequence[str]) -> None:
        """Import files, the oldest first, each after what it was rotated to since it was last read."""
        for reader in FileTailer(paths, self._cannot_read, self, _first_time_us).once():
            self._new_lines(reader)
        self.finish()

    def follow(
        self, paths: Sequence[str], *, poll_s: float = POLL_S, goes_on: Callable[[], bool] = lambda: True
    ) -> None:
        """Import what is in files, and what comes; ends when ``goes_on`` says so. Raises InputError for ``-``."""
        if STDIN in paths:
            raise InputError("-: standard input cannot be followed; it is read to its end without --follow")
        finished = -1
        for reader in FileTailer(paths, self._cannot_read, self, _first_time_us).follow(poll_s, goes_on=goes_on):
            if reader is not None:
                self._new_lines(reader)
            elif self.report.lines != finished:
                finished = self.report.lines
                self.finish()

    def latest(self, path: str) -> tuple[FileOffset, int] | None:
        """Where the last import stopped in the file that stood at a path then, and when that was."""
        return self._positions.latest(path)

    def find(self, reader: Reader) -> FileOffset:
        """Where an earlier import stopped in a file; after a `retry` that needs it, or a change, its beginning."""
        position = self._positions.find(reader)
        if reader.path in self._to_read or (not position.position and self._positions.was_read(reader)):
            with writing(self._con, self._here):
                self._quarantine.anew(reader.path)
            position = FileOffset(position.file_id)
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
        """One slice: records, what they change, and the position, in one transaction."""
        position = reader.position
        found: list[tuple[Record, int]] = []
        bad = []
        for number, one in read_lines(lines):
            if isinstance(one, Fault):
                bad.append(_reject(reader, number, lines[number - 1], one))
            else:
                found.append((one, position.lines + number))
        if not found and not bad and reader.head is None:
            # Only the header so far: the file cannot be told from others yet.
            reader.position = position.after(lines)
            self._read(len(lines), ())
            return
        with writing(self._con, self._here) as con:
            begun = time.monotonic()
            if position.file_id == 0:
                position = self._positions.keep(reader, position)
            places = [(one, LinePlace(position.file_id, line)) for one, line in found]
            taken = take(con, self._now(), places)
            position = position.after(lines)._replace(
                records=position.records + taken.new, bad_lines=position.bad_lines + len(bad)
            )
            position = self._positions.keep(reader, position)
            self._quarantine.keep(bad)
            self._adapt(len(found), time.monotonic() - begun)
        reader.position = position
        self._read(len(lines), bad)
        self._count(taken)

    def _leave_out(self, reader: Reader, bad: Reject, after: FileOffset) -> None:
        """The next line is none that can be used."""
        with writing(self._con, self._here):
            position = self._positions.keep(reader, after._replace(bad_lines=after.bad_lines + 1))
            self._quarantine.keep([bad])
        reader.position = position
        self._read(1, [bad])

    def _read(self, lines: int, bad: Sequence[Reject]) -> None:
        """Count lines that were read, and say what is wrong with them."""
        for count, one in enumerate(bad, self.report.bad_lines + 1):
            what = f"{one.file}:{one.position.removeprefix(_LINE)}: {one.fault.reason}; the line is left out"
            self._show(count, what, "further bad lines are only counted")
        self.report.lines += lines
        self.report.bad_lines += len(bad)

    def _cells(self) -> list[str]:
        return [self._scope]

    def _numbered(self, cell: str, number: int) -> Number:  # noqa: ARG002  there is but one
        return number, 0

    def _pages(self, *, waiting: bool) -> Iterable[Sequence[Number]]:
        if waiting:
            return [rows.numbers_without_record(self._con, self._scope)]
        return rows.all_numbers(self._con, self._scope)

    def _called(self, job: Number) -> str:
        number, task = job
        return f"job {f'{number}.{task}' if task else number}: cannot be made from its records"

    def again(self) -> None:
        """Make every job of the cell again from its records, and finish."""
        super().again()
        self.finish()

    def _once_more(self, kept: RejectedEntry, content: bytes) -> None:
        number = kept.position.removeprefix(_LINE)
        one = record(content)
        taken = BatchTaken()
        with writing(self._con, self._here) as con:
            if one is not None:
                place = LinePlace(self._positions.file_of(kept.file), int(number) if number.isdecimal() else 0)
                taken = take(con, self._now(), [(one, place)])
            forget(con, [kept.rejected_id])
        self._count(taken)


def _reject(reader: Reader, number: int, line: bytes, why: Fault) -> Reject:
    """A line of a slice, by its number there, that cannot be used."""
    return Reject(reader.path, f"{_LINE}{reader.position.lines + number}", why, line)


def _first_time_us(path: str) -> int:
    """When the first record of a file ended, so that a requeued job is seen from its beginning; 0 if unknown."""
    with Reader(path) as reader:
        found = (one for _, one in read_lines(reader.beginning().split(b"\n")[:-1]) if not isinstance(one, Fault))
        return next((one.end_time_us for one in found if one.end_time_us), 0)
