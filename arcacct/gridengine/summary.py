"""qacct's sums of files, without importing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from arcacct.files.following import Follower
from arcacct.files.reading import Overlong, Reader
from arcacct.gridengine.lines import record
from arcacct.gridengine.record import Record
from arcacct.gridengine.totals import Question, Row, Sum
from arcacct.jobs.faults import fault_of

SHOWN = 10
"""So many bad lines are shown."""


class Summary:
    """
    The sums of one file after another.

    ``say`` is told of bad lines, the first SHOWN of them, and of files that cannot be read.
    """

    def __init__(self, question: Question, say: Callable[[str], None]) -> None:
        self._question = question
        self._say = say
        self._sums: dict[tuple[str | int, ...], Sum] = {} if question.by else {(): Sum()}
        self.bad_lines = 0
        self.unreadable = 0

    def file(self, path: str) -> None:
        """Add the records of a file."""
        for reader in Follower([path], self._cannot_read).once():
            for one in self._records(reader):
                if self._question.asks_for(one):
                    key = self._question.key(one)
                    self._sums[key] = self._sums.get(key, Sum()).plus(one)

    def _cannot_read(self, complaint: str) -> None:
        self._say(complaint)
        self.unreadable += 1

    def _records(self, reader: Reader) -> Iterator[Record]:
        for lines in reader.lines():
            if isinstance(lines, Overlong):
                reader.position = lines.after
                continue
            before, reader.position = reader.position.lines, reader.position.after(lines)
            for number, line in enumerate(lines, before + 1):
                try:
                    one = record(line)
                except Exception as error:  # noqa: BLE001  whatever it is, it costs this line alone
                    self._bad(f"{reader.path}:{number}: {fault_of(error).reason}")
                else:
                    if one is not None:
                        yield one
        if reader.left_bytes:
            self._say(f"{reader.path}: the last {reader.left_bytes} bytes are no whole line: left out")

    def _bad(self, what: str) -> None:
        self.bad_lines += 1
        if self.bad_lines <= SHOWN:
            self._say(f"{what}; the line is left out")
        elif self.bad_lines == SHOWN + 1:
            self._say("further bad lines are only counted")

    def rows(self) -> list[Row]:
        """The sums, sorted."""
        return sorted(self._sums.items())
