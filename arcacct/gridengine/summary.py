"""qacct's sums of files, and its lists of a job's records, without importing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from arcacct.errors import InputError
from arcacct.files.follow import FileTailer, Overlong
from arcacct.gridengine.lines import read_lines
from arcacct.gridengine.questions import Tasks
from arcacct.gridengine.record import STORED, Record, failed_text
from arcacct.gridengine.totals import Question, Row, sums
from arcacct.records.import_quarantine import Fault
from arcacct.records.imports import SHOWN
from arcacct.wording import count_of

ALL_COLUMNS = (*STORED, "usage")
"""Everything that a record says; in `usage` what has no field."""
_TIMES = {name: f"{name.removesuffix('_us')}_iso" for name in ("submission_time_us", "start_time_us", "end_time_us")}
_BLOCK = "=" * 62


class FileSummary:
    """
    What there is in some files.

    ``say`` is told of bad lines, the first SHOWN of them, and of files that cannot be read.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.bad_lines = 0
        self.unreadable = 0

    def rows(self, paths: Sequence[str], question: Question) -> list[Row]:
        """The sums of the records of files, one file after another, sorted."""
        return sums((one for path in paths for one in self._file(path)), question)

    def records(self, paths: Sequence[str], job: str, tasks: Tasks | None, question: Question) -> Iterator[Record]:
        """
        The records of a job: of a number, else of every job with a name that matches, as they stand in the files.

        Raises InputError when there is none.
        """
        number = int(job) if job.isascii() and job.isdecimal() else None
        is_found = False
        for one in (one for path in paths for one in self._file(path)):
            name = one.job_name or ""
            is_its = one.job_number == number if number is not None else name == job or fnmatchcase(name, job)
            if is_its and (tasks is None or tasks.has(one.task_number)) and question.asks_for(one):
                is_found = True
                yield one
        if not is_found:
            raise InputError(
                f"{job}: no record in {', '.join(paths)} has this job number or name, and all that is asked"
            )

    def _cannot_read(self, complaint: str) -> None:
        self._say(complaint)
        self.unreadable += 1

    def _file(self, path: str) -> Iterator[Record]:
        for reader in FileTailer([path], self._cannot_read).once():
            for lines in reader.lines():
                if isinstance(lines, Overlong):
                    reader.position = lines.after
                    continue
                before, reader.position = reader.position.lines, reader.position.after(lines)
                for number, one in read_lines(lines):
                    if not isinstance(one, Fault):
                        yield one
                        continue
                    self.bad_lines += 1
                    if self.bad_lines <= SHOWN:
                        self._say(f"{reader.path}:{before + number}: {one.reason}; the line is left out")
                    elif self.bad_lines == SHOWN + 1:
                        self._say("further bad lines are only counted")
            if reader.left_bytes:
                self._say(
                    f"{reader.path}: the last line is incomplete ({count_of(reader.left_bytes, 'byte')}): left out"
                )


def row(record: Record) -> tuple[Any, ...]:
    """A record in ALL_COLUMNS."""
    usage = (f"{group}.{name}={value}" if group else f"{name}={value}" for group, name, value in record.custom)
    return (*record[:-1], ", ".join(usage) or None)


def block(record: Record) -> Iterator[str]:
    """A record as qacct lists it, a line for each thing that it says; times are UTC, and units in the names."""
    yield _BLOCK
    for name, value in zip(ALL_COLUMNS, row(record), strict=True):
        if name in _TIMES:
            when = datetime.fromtimestamp(value / 1_000_000, UTC) if value else None
            yield f"{_TIMES[name]:<22}{'-/-' if when is None else when.isoformat(sep=' ')}"
        elif value is not None:
            yield f"{name:<22}{failed_text(value) if name == 'failed' else value}"
