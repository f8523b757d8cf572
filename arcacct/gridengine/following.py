"""Following accounting files through rotation, truncation and replacement, as they are written."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from arcacct.errors import InputError
from arcacct.gridengine.importing import Import, in_order
from arcacct.gridengine.reading import STDIN, Reader

POLL_S = 2.0
"""The writer appends every 15 s, unless it is told otherwise (accounting_flush_time)."""


class Followed:
    """A path and the file that is open there; the file goes on being read when the path becomes another one."""

    def __init__(self, path: str, work: Import) -> None:
        self.path = path
        self.work = work
        self.reader: Reader | None = None
        self.looked_at: tuple[int, int] = (0, -1)
        """Size and mtime_ns when it was read to its end."""

    def read(self) -> bool:
        """Read what is new; whether anything was."""
        before = self.work.report.lines
        try:
            status = os.stat(self.path)
        except OSError:
            # Between the renaming and the next record there is no file.
            self._read_open()
            return self.work.report.lines > before
        if self.reader is not None and self._is_other(status):
            self._read_open()
            self.close()
        if self.reader is None:
            for path in self.work.rotated(self.path):
                self.work.file(path)
            self.reader = self.work.opened(self.path)
        if (status.st_size, status.st_mtime_ns) != self.looked_at:
            self._read_open()
            self.looked_at = (status.st_size, status.st_mtime_ns)
        return self.work.report.lines > before

    def _is_other(self, status: os.stat_result) -> bool:
        """Whether the path is another file now, or this one was cut or written anew."""
        assert self.reader is not None
        if (status.st_dev, status.st_ino) != self.reader.identity:
            return True
        changed = (status.st_size, status.st_mtime_ns) != self.looked_at
        return changed and not self.reader.holds(self.reader.position)

    def _read_open(self) -> None:
        if self.reader is not None and self.reader.holds(self.reader.position):
            self.work.new_lines(self.reader)

    def close(self) -> None:
        """Close the file."""
        if self.reader is not None:
            self.reader.close()
        self.reader = None
        self.looked_at = (0, -1)


def follow(
    work: Import,
    paths: Sequence[str],
    say: Callable[[str], None],
    *,
    poll_s: float = POLL_S,
    goes_on: Callable[[], bool] = lambda: True,
) -> None:
    """
    Import what is in files, and what comes; ends when ``goes_on`` says so (asked after each round).

    A file that is not there, or cannot be read now, is tried again. Raises StoreError.
    """
    for path in paths:
        if path == STDIN:
            raise InputError("-: standard input cannot be followed; it is read to its end without --follow")
    work.files([path for path in paths if os.path.exists(path)])
    followed = [Followed(path, work) for path in in_order(iter(paths))]
    said: dict[str, str] = {}
    try:
        while goes_on():
            new = [_read(one, say, said) for one in followed]
            if any(new):
                work.finish()
            time.sleep(poll_s)
    finally:
        for one in followed:
            one.close()


def _read(one: Followed, say: Callable[[str], None], said: dict[str, str]) -> bool:
    """One look at a path; a complaint is said once, until it is another."""
    try:
        new = one.read()
    except InputError as error:
        one.close()
        if said.get(one.path) != str(error):
            say(str(error))
        said[one.path] = str(error)
        return False
    said.pop(one.path, None)
    return new
