"""
The files that telemetry comes in: named ones, all of a directory, standard input; once, or for ever as they grow.

This is where bytes are read; the parsers do no I/O. What is wrong with one file is told (`Unreadable`) after what could
be read of it, and the next one is read.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import time
import zlib
from typing import BinaryIO, cast

from arcacct.sonar.envelopes import Telemetry, Told, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

CHUNK_BYTES = 1024 * 1024
POLL_S = 1.0
_ENDINGS = (".json", ".jsonl", ".ndjson")
_PACKED = ".gz"
_GZIP = b"\x1f\x8b"
_TAIL_BYTES = 4096


def telemetry(paths: Sequence[str], *, progress: Callable[[int], None] = lambda _: None) -> Iterator[Told]:
    """Every envelope of some files, directories and ``-``, once."""
    found, complaints = files(paths)
    for complaint in complaints:
        yield Told("", Unreadable(complaint))
    for path in found:
        stream = Telemetry()
        file = _File.opened(path, named=path in paths)
        if isinstance(file, Unreadable):
            yield Told(path, file)
            continue
        with file:
            for chunk in file.chunks():
                yield from _told(path, stream, chunk)
                progress(len(chunk))
            if file.complaint:
                # What is half there is told by that, and comes whole with the whole file.
                yield Told(path, Unreadable(file.complaint))
            else:
                yield from _told(path, stream, b"", final=True)


def files(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """
    The files meant: those named, and in directories, at any depth, those that are JSON by name.

    With complaints about the directories that cannot be read.
    """
    found: dict[str, None] = {}
    complaints: list[str] = []
    for path in paths:
        if path == "-" or not os.path.isdir(path):
            found[path] = None
            continue
        for folder, folders, names in os.walk(path, onerror=lambda error: complaints.append(_complaint(error))):
            folders.sort()
            for name in sorted(names):
                if name.removesuffix(_PACKED).endswith(_ENDINGS) and not name.startswith("."):
                    found[os.path.join(folder, name)] = None
    return list(found), complaints


def _complaint(error: OSError, path: str | None = None) -> str:
    return f"{path or error.filename}: cannot be read: {error.strerror or error}"


def _told(path: str, stream: Telemetry, chunk: bytes, *, final: bool = False) -> Iterator[Told]:
    for what in stream.feed(chunk, final=final):
        yield Told(path, what, stream.number, stream.text)


class _File:
    """An open file, compressed or not, and what was wrong with it."""

    def __init__(self, path: str, raw: BinaryIO, status: os.stat_result) -> None:
        self.path = path
        self.identity = (status.st_dev, status.st_ino)
        self.complaint = ""
        self._raw = raw
        self.packed = stat.S_ISREG(status.st_mode) and os.pread(raw.fileno(), 2, 0) == _GZIP
        self._file = cast("BinaryIO", gzip.open(raw)) if self.packed else raw  # noqa: SIM115  closed by close()
        self.read_bytes = 0
        """So much of it was read, without compression."""
        self._tail = b""

    @staticmethod
    def opened(path: str, *, named: bool) -> _File | Unreadable:
        """
        A file, ``-`` for standard input; a pipe that was ``named`` is waited for.

        Of a directory only regular files are read: whoever may write there could make us wait for ever.
        """
        flags = os.O_RDONLY | os.O_CLOEXEC | (0 if named else os.O_NONBLOCK | os.O_NOCTTY)
        try:
            fd = sys.stdin.fileno() if path == "-" else os.open(path, flags)
            raw = cast("BinaryIO", io.FileIO(fd, closefd=path != "-"))
            status = os.fstat(fd)
            if named or stat.S_ISREG(status.st_mode):
                return _File(path, raw, status)
            raw.close()
        except OSError as error:
            return Unreadable(_complaint(error, path))
        return Unreadable(f"{path}: a pipe or a device, so it is left out; name it to read from it")

    def chunks(self) -> Iterator[bytes]:
        """What there is now, from where the last one ended; ends at damage, too, which is in ``complaint`` then."""
        while True:
            try:
                chunk = self._file.read1(CHUNK_BYTES) if self.packed else self._file.read(CHUNK_BYTES)  # type: ignore[attr-defined]
            except EOFError:
                self.complaint = f"{self.path}: cut: it ends before its compressed end; what came before is imported"
                return
            except (gzip.BadGzipFile, zlib.error) as error:
                self.complaint = f"{self.path}: damaged: {error}; what came before is imported"
                return
            except OSError as error:
                self.complaint = _complaint(error, self.path)
                return
            if not chunk:
                return
            self.read_bytes += len(chunk)
            self._tail = (self._tail + chunk[-_TAIL_BYTES:])[-_TAIL_BYTES:]
            yield chunk

    def is_cut(self) -> bool:
        """Whether it is shorter than what was read, or the bytes before our place are others than then."""
        if self.packed:
            return False
        try:
            before = os.pread(self._raw.fileno(), len(self._tail), self.read_bytes - len(self._tail))
        except OSError:
            return False
        return before != self._tail

    def close(self) -> None:
        """Close it."""
        self._file.close()
        self._raw.close()

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class _Followed:
    """A path and the file that is open there."""

    def __init__(self, path: str, *, named: bool) -> None:
        self.path = path
        self._named = named
        self._file: _File | None = None
        self._stream = Telemetry()
        self._looked_at = (0, -1)
        """Size and mtime_ns when it was read to its end, or to where it is damaged."""

    def read(self) -> Iterator[Told]:
        """What is new at the path; an `Unreadable` each time that it cannot be read."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            # Moved away, and the next one is not there yet: it may still be written to.
            yield from self._rest()
            return
        except OSError as error:
            yield Told(self.path, Unreadable(_complaint(error, self.path)))
            return
        now = (status.st_size, status.st_mtime_ns)
        if self._file is not None and (
            self._file.identity != (status.st_dev, status.st_ino) or (now != self._looked_at and self._file.is_cut())
        ):
            # The rest of the old one first: it was moved away with its last lines in it.
            if not self._file.is_cut():
                yield from self._rest()
            self.close()
        if self._file is not None and self._file.packed and now != self._looked_at:
            # More of a compressed file, or a damaged one that was put right: from its beginning, it is all the same.
            self.close()
        if self._file is None:
            opened = _File.opened(self.path, named=self._named)
            if isinstance(opened, Unreadable):
                yield Told(self.path, opened)
                return
            self._file, self._stream = opened, Telemetry()
            self._looked_at = (0, -1)
        if now != self._looked_at:
            yield from self._rest()
            self._looked_at = now
            if self._file.complaint:
                yield Told(self.path, Unreadable(self._file.complaint))

    def _rest(self) -> Iterator[Told]:
        if self._file is not None:
            self._file.complaint = ""
            for chunk in self._file.chunks():
                yield from _told(self.path, self._stream, chunk)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file = None


def follow(paths: Sequence[str], *, sleep: Callable[[float], None] = time.sleep) -> Iterator[Told]:
    """
    Every envelope of some files and directories, and of what is added to them, for ever.

    A file that is replaced or cut is read from its start: the same envelope twice changes nothing. Between two looks
    the stream pauses. A complaint is told once, until it is another. ``-`` ends when its writer does.
    """
    if "-" in paths:
        yield from _follow_stdin()
        return
    known: dict[str, _Followed] = {}
    said: set[str] = set()
    while True:
        found, complaints = files(paths)
        saying = set(complaints)
        for complaint in saying - said:
            yield Told("", Unreadable(complaint))
        for path in found:
            for told in known.setdefault(path, _Followed(path, named=path in paths)).read():
                if isinstance(told.what, Unreadable):
                    saying.add(told.what.complaint)
                    if told.what.complaint in said:
                        continue
                yield told
        for path in known.keys() - set(found):
            yield from known[path].read()
            known.pop(path).close()
        said = saying
        yield Told("", None)
        sleep(POLL_S)


def _follow_stdin() -> Iterator[Told]:
    """Envelopes as they come through a pipe; stored with each piece, since the next may be long away."""
    stream = Telemetry()
    while chunk := os.read(sys.stdin.fileno(), CHUNK_BYTES):
        yield from _told("-", stream, chunk)
        yield Told("-", None)
    yield from _told("-", stream, b"", final=True)
