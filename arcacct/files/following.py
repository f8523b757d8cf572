"""
Files that are read once, or followed as they grow: named ones, those of directories, standard input.

What a path is renamed, copied or compressed to is read to its end before what stands at the path then, whatever it is
called if it is beside it; where there is no copy of a file that was cut, that is said. Each file is given to its source
as a `Reader`, to be read before the next; how far it was read is the source's, if it keeps that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

from arcacct.errors import InputError
from arcacct.files.reading import STDIN, FileOffset, Reader, rotated_since, unreadable

_REMEMBERED = 50
"""So many files that stood at a path are known again under the names that they were rotated to."""


class Positions(Protocol):
    """How far files were read by earlier imports."""

    def find(self, reader: Reader) -> FileOffset:
        """Where an import of this file stopped, wherever it stood then. Raises InputError."""

    def latest(self, path: str) -> tuple[FileOffset, int] | None:
        """Where the last import stopped in what stood at a path then, and when that was, in UTC seconds."""


class FileTailer:
    """
    The files of some paths, directories among them if there are ``endings`` of the files in them that are meant.

    ``complain`` is told of what cannot be read, or not to its end; while one follows, once until it is something else.
    ``positions``: without them files are read from their beginning, and known again only while they are followed.
    ``order`` sorts files, so that what was written first is read first; standard input comes last.
    """

    def __init__(
        self,
        paths: Sequence[str],
        complain: Callable[[str], None],
        positions: Positions | None = None,
        order: Callable[[str], int] = lambda _path: 0,
        endings: tuple[str, ...] = (),
    ) -> None:
        self._paths = paths
        self._complain = complain
        self._positions = positions
        self._order = order
        self._endings = endings
        self._said: dict[str, str] = {}
        """What is wrong now, by path."""

    def once(self) -> Iterator[Reader]:
        """Every file, each after what it was rotated to since it was read last."""
        paths, complaints = self._found()
        for complaint in complaints:
            self._complain(complaint)
        todo: dict[str, _Path] = {}
        for path in paths:
            one = self._path(path)
            todo |= {other: one for other in one.rotated() if other not in paths} | {path: one}
        for path in sorted(todo, key=self._when):
            try:
                yield from todo[path].whole(path)
            except InputError as error:
                self._complain(str(error))

    def follow(self, poll_s: float, *, goes_on: Callable[[], bool] = lambda: True) -> Iterator[Reader | None]:
        """
        Every file, and what comes; ``None`` whenever all was read that there is.

        Goes on as long as ``goes_on`` says so. A file that is not there, or cannot be read now, is tried again.
        Standard input ends when its writer does; InputError is raised for it beside anything else.
        """
        if STDIN in self._paths:
            if len(self._paths) > 1:
                raise InputError("-: standard input is followed alone; follow the files by another command")
            with Reader(STDIN) as reader:
                reader.is_last = True
                yield reader
            return
        followed: dict[str, _Path] = {}
        known: set[str] = set()
        try:
            while True:
                paths, complaints = self._found()
                for complaint in set(complaints) - known:
                    self._complain(complaint)
                known = set(complaints)
                for path in sorted(paths, key=self._when) if not followed else paths:
                    yield from self._look(followed.setdefault(path, self._path(path)))
                # What is in a directory that cannot be read now is not gone.
                for path in () if complaints else followed.keys() - set(paths):
                    yield from followed.pop(path).leave()
                    self._said.pop(path)
                yield None
                if not goes_on():
                    return
                time.sleep(poll_s)
        finally:
            for one in followed.values():
                one.close()

    def _look(self, one: _Path) -> Iterator[Reader]:
        wrong = ""
        try:
            yield from one.look()
            wrong = one.reader.complaint if one.reader is not None else ""
        except InputError as error:
            wrong = str(error)
            one.close()
        if wrong and self._said.get(one.path) != wrong:
            self._complain(wrong)
        self._said[one.path] = wrong

    def _path(self, path: str) -> _Path:
        return _Path(path, self._complain, self._positions, self._paths)

    def _when(self, path: str) -> tuple[bool, int]:
        with suppress(InputError):
            # A pipe that is looked into and closed again is broken.
            return path == STDIN, self._order(path) if os.path.isfile(path) else 0
        return False, 0

    def _found(self) -> tuple[list[str], list[str]]:
        """The files meant, and complaints about the directories that cannot be read."""
        found: dict[str, None] = {}
        complaints: list[str] = []

        def complain(error: OSError) -> None:
            complaints.append(str(unreadable(error.filename, error)))

        for path in self._paths:
            if not self._endings or not os.path.isdir(path):
                found[path] = None
                continue
            for folder, folders, names in os.walk(path, onerror=complain):
                folders.sort()
                mine = (name for name in sorted(names) if name.endswith(self._endings) and not name.startswith("."))
                found.update(dict.fromkeys(os.path.join(folder, name) for name in mine))
        return list(found), complaints


class _Path:
    """A path, the file that is open there, and the one before, which its writer may not have let go of yet."""

    def __init__(
        self, path: str, complain: Callable[[str], None], positions: Positions | None, named: Sequence[str]
    ) -> None:
        """``named``: the paths that were."""
        self.path = path
        self.reader: Reader | None = None
        self._complain = complain
        self._positions = positions
        self._named = path in named
        self._others = named
        self._former: Reader | None = None
        self._read: list[Reader] = []
        """The files that stood here, closed, the latest last; only without positions."""
        self._looked_s = 0
        self._is_same = False
        """Whether the file at the path is the one that was read last."""
        self._gone: FileOffset | None = None
        """How far that file was read, if it is the one no longer: it was cut, or another one came."""

    def look(self) -> Iterator[Reader]:
        """The files that may have something new. Raises InputError for what cannot be read now."""
        since_s, self._looked_s = self._looked_s, int(time.time())
        former = self._former
        if former is not None and former.is_removed():
            self._former = None
            yield from self._end(former)
        elif former is not None and former.has_changed():
            yield former
        identity = self._identity()
        if self.reader is not None:
            yield from self._go_on(self.reader, identity)
        # When a file was moved away the next may not be there yet: the old one may still be written to.
        if self.reader is None and identity is not None:
            for path in self.rotated(since_s):
                try:
                    yield from self.whole(path)
                except InputError as error:
                    self._complain(str(error))
            self.reader = self._open(self.path)
            self.reader.has_changed()
            yield self.reader

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable(self.path, error) from error
        return status.st_dev, status.st_ino

    def _go_on(self, reader: Reader, identity: tuple[int, int] | None) -> Iterator[Reader]:
        """The open file, while it is the one at the path; then it is the former one."""
        is_moved = reader.identity not in (None, identity)
        if reader.has_changed():
            # More of a compressed file, or a damaged one that was put right, is found by its position as any other;
            # of one that nothing was read of it cannot be told whether it was copied away and cut.
            is_unsure = reader.compressed or not reader.position.position
            was_cut = reader.was_cut()
            if was_cut or (is_unsure and not is_moved and reader.identity is not None):
                self._gone = reader.position if was_cut else None
                self._let_go(reader)
                self.reader = None
                return
            yield reader
        if is_moved and identity is not None:
            if self._former is not None:
                yield from self._end(self._former)
            self._former, self.reader = reader, None

    def whole(self, path: str) -> Iterator[Reader]:
        """A file that is read to its end, once. Raises InputError."""
        reader = self._open(path)
        is_former = self._former is not None and reader.identity == self._former.identity
        # The former file goes on being read under the name that it had. Where nothing was rotated somebody may still
        # write into what was before, but what he puts beside it is nobody's.
        if is_former or (path != self.path and self._is_same and not reader.position.position):
            reader.close()
            return
        yield from self._end(reader)
        if reader.complaint:
            raise InputError(reader.complaint)

    def leave(self) -> Iterator[Reader]:
        """The path is no longer meant: what is left of its files."""
        for reader in (self._former, self.reader):
            if reader is not None:
                yield from self._end(reader)
        self._former = self.reader = None

    def rotated(self, looked_s: int = 0) -> list[str]:
        """
        What the path was renamed or copied to since it was read last; without positions since it was looked at.

        None of a directory that cannot be read: reading the path says what is wrong.
        """
        gone, self._gone = self._gone, None
        with suppress(InputError):
            if self._positions is not None and (latest := self._positions.latest(self.path)) is not None:
                position, looked_s = latest
                with Reader(self.path, named=False) as reader:
                    # Not by the inode: a file that is made anew often gets that of the one that was removed.
                    self._is_same = reader.holds(position)
                    # Of a line that was corrected what stands behind it is as it was.
                    if not self._is_same and self.reader is None and self._former is None:
                        gone = None if reader.holds(position._replace(bad_lines=0)) else position
            if not looked_s:
                return []
            if gone is None or not gone.position:
                return rotated_since(self.path, looked_s)
            # Who keeps no positions may have stopped within a line.
            holds = partial(_holds, gone, exactly=self._positions is None)
            found = rotated_since(self.path, looked_s, holds)
            if not any(map(holds, (*found, *self._others))):
                self._complain(
                    f"{self.path}: cut, or another file, since it was read up to byte {gone.position}, and no file "
                    "beside it goes on there: if lines were written meanwhile, import the copy that was made of it, too"
                )
            return found
        return []

    def _open(self, path: str) -> Reader:
        reader = Reader(path, named=self._named)
        try:
            if self._positions is not None:
                reader.position = self._positions.find(reader)
            else:
                for known in (*self._read[::-1], *filter(None, [self._former])):
                    if reader.holds(known.position, exactly=True):
                        reader.position, reader.state = known.position, known.state
                        break
        except BaseException:
            reader.close()
            raise
        return reader

    def _end(self, reader: Reader) -> Iterator[Reader]:
        """What is left of a file that nothing more is to come from."""
        reader.is_last = True
        try:
            yield reader
        finally:
            self._let_go(reader)

    def _let_go(self, reader: Reader) -> None:
        reader.close()
        if self._positions is None and reader.position.position:
            self._read = [*self._read, reader][-_REMEMBERED:]

    def close(self) -> None:
        """Close the files; the next look finds them by their positions."""
        for reader in (self._former, self.reader):
            if reader is not None:
                self._let_go(reader)
        self._former = self.reader = None


def _holds(position: FileOffset, path: str, *, exactly: bool) -> bool:
    """Whether a file is the one of a position, or a copy of it; no pipe is looked into."""
    if not os.path.isfile(path):
        return False
    with suppress(InputError), Reader(path, named=False) as reader:
        return reader.holds(position, exactly=exactly)
    return False
