"""qacct's sums of files, without importing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from arcacct.files.following import Follower
from arcacct.files.reading import Overlong
from arcacct.gridengine.lines import read_lines
from arcacct.gridengine.record import Record
from arcacct.gridengine.totals import Question, Row, sums
from arcacct.jobs.faults import Fault
from arcacct.jobs.imports import SHOWN
from arcacct.wording import count_of


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

    def _cannot_read(self, complaint: str) -> None:
        self._say(complaint)
        self.unreadable += 1

    def _file(self, path: str) -> Iterator[Record]:
        for reader in Follower([path], self._cannot_read).once():
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
