"""
Reading accounting files line by line, and remembering where we stopped.

The writer appends whole buffers, so a reader can see a torn last line: only what ends in a newline is taken. Files are
renamed, copied, cut and compressed by whoever rotates them: a file is known by what it begins with, and a position in
it holds only while the bytes before it are the same.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import BinaryIO, NamedTuple, cast

from arcacct.errors import InputError
from arcacct.gridengine.lines import record

CHUNK_BYTES = 256 * 1024
LONGEST_LINE = 16 * 1024 * 1024
"""A longer line is none of Grid Engine's: it is passed over, and never held as a whole."""
_BEGINNING = 1024 * 1024 + 1
"""So much is kept of it: what tells that it is longer than a record may be."""
_TAIL_BYTES = 4096
_COMPRESSED: dict[bytes, Callable[[BinaryIO], object]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
_ROTATED = re.compile(r"[.-][0-9][0-9-]*(?:\.(?:gz|bz2|xz))?")
STDIN = "-"


class Position(NamedTuple):
    """Where we are in a file (a row of GridEngineFiles)."""

    file_id: int
    position: int = 0
    """Bytes, of the text if the file is compressed, up to the end of the last line that was taken."""
    tail: bytes = b""
    """Digest of that line."""
    checksum: int = 0
    lines: int = 0
    records: int = 0
    bad_lines: int = 0

    def after(self, lines: list[bytes]) -> Position:
        """The position after some more lines."""
        text = b"".join(lines)
        return self._replace(
            position=self.position + len(text),
            tail=_digest(lines[-1]),
            checksum=zlib.crc32(text, self.checksum),
            lines=self.lines + len(lines),
        )


class Overlong(NamedTuple):
    """A line that is too long to be a record."""

    beginning: bytes
    bytes: int
    after: Position
    """Where the next line begins."""


class Reader:
    """An open accounting file and where we are in it."""

    def __init__(self, path: str) -> None:
        """Open a file, compressed or not, or ``-`` for standard input. Raises InputError when it cannot be read."""
        self.path = path
        try:
            self._raw: BinaryIO = sys.stdin.buffer if path == STDIN else open(path, "rb")  # noqa: SIM115  closed by close()
            status = os.fstat(self._raw.fileno())
            self.file = self._opened()
        except OSError as error:
            raise unreadable(path, error) from error
        self.compressed = self.file is not self._raw
        self.identity = None if path == STDIN else (status.st_dev, status.st_ino)
        self.head: bytes | None = None
        """Digest of the first record, which tells one file from another; ``None`` while there is none."""
        self.position = Position(0)
        self.left_bytes = 0
        """What stood after the last newline when we read last."""

    def _opened(self) -> BinaryIO:
        if self.path != STDIN:
            magic = os.pread(self._raw.fileno(), 8, 0)
            for mark, opener in _COMPRESSED.items():
                if magic.startswith(mark):
                    return cast("BinaryIO", opener(self._raw))
        return self._raw

    def close(self) -> None:
        """Close the file; not standard input, which is not ours."""
        if self.path != STDIN:
            self.file.close()
            self._raw.close()

    def look_at_head(self) -> None:
        """Find out what the file begins with."""
        if self.path == STDIN or self.head is not None:
            return
        with self.complaining():
            # The header is short; a first line that is longer than this is no record.
            for line in self.beginning().splitlines(keepends=True):
                if line.endswith(b"\n") and len(line) > 2 and not line.startswith(b"#"):
                    self.head = _digest(line)
                    return

    def beginning(self) -> bytes:
        """The first bytes; of a compressed file that is cut or damaged, what can be read of them."""
        self.file.seek(0)
        found = b""
        try:
            while len(found) < CHUNK_BYTES and (more := self.file.read1(CHUNK_BYTES)):  # type: ignore[attr-defined]
                found += more
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            if not _is_damage(error):
                raise
        return found

    def holds(self, position: Position) -> bool:
        """
        Whether the bytes before a position are those that were there when it was noted.

        Of a file that had bad lines all of them are compared: someone may have corrected one without changing any
        length.
        """
        with self.complaining(), suppress(EOFError):
            if not self.compressed and os.fstat(self.file.fileno()).st_size < position.position:
                return False
            start = max(0, position.position - _TAIL_BYTES)
            self.file.seek(start)
            before = self.file.read(position.position - start)
            line = before[before.rfind(b"\n", 0, len(before) - 1) + 1 :]
            if len(before) != position.position - start or (before and _digest(line) != position.tail):
                return False
            return not position.bad_lines or self._checksum(position.position) == position.checksum
        return False

    def _checksum(self, length: int) -> int:
        self.file.seek(0)
        checksum = 0
        while length > 0 and (chunk := self.file.read(min(length, CHUNK_BYTES))):
            checksum = zlib.crc32(chunk, checksum)
            length -= len(chunk)
        return checksum

    def lines(self) -> Iterator[list[bytes] | Overlong]:
        """
        The whole lines after the position, with their newlines, some at a time: as many as there are without waiting.

        Does not move the position: who takes lines does, before the next. Raises InputError for what cannot be read,
        after all that could be.
        """
        self.look_at_head()
        if self.path != STDIN:
            with self.complaining():
                self.file.seek(self.position.position)
        pending: list[bytes] = []
        while chunk := self._chunk():
            end = chunk.rfind(b"\n") + 1
            if end:
                text = b"".join([*pending, chunk[: end - 1]])
                yield [line + b"\n" for line in text.split(b"\n")]
                pending = []
            pending.append(chunk[end:])
            if sum(map(len, pending)) > LONGEST_LINE:
                overlong, rest = self._past(b"".join(pending))
                pending = [rest]
                if overlong is None:
                    break
                yield overlong
                # What stands behind it in the same piece: whole lines, too.
                end = rest.rfind(b"\n") + 1
                if end:
                    yield [line + b"\n" for line in rest[: end - 1].split(b"\n")]
                    pending = [rest[end:]]
        self.left_bytes = sum(map(len, pending))

    def _chunk(self) -> bytes:
        with self.complaining():
            chunk: bytes = self.file.read1(CHUNK_BYTES)  # type: ignore[attr-defined]
            return chunk

    def _past(self, begun: bytes) -> tuple[Overlong | None, bytes]:
        """A line that is too long, and what was read behind it; ``None`` and its end, if it has no end yet."""
        length, checksum, tail = len(begun), zlib.crc32(begun, self.position.checksum), begun[-_TAIL_BYTES:]
        while chunk := self._chunk():
            own = chunk[: chunk.find(b"\n") + 1] or chunk
            length += len(own)
            checksum = zlib.crc32(own, checksum)
            tail = (tail + own)[-_TAIL_BYTES:]
            if own.endswith(b"\n"):
                before = self.position
                after = before._replace(
                    position=before.position + length, tail=_digest(tail), checksum=checksum, lines=before.lines + 1
                )
                return Overlong(begun[:_BEGINNING], length, after), chunk[len(own) :]
        return None, tail

    def record_lines(self) -> Iterator[list[bytes]]:
        """As `lines`, without those that are too long to be records."""
        for lines in self.lines():
            if isinstance(lines, Overlong):
                self.position = lines.after
            else:
                yield lines
                # The rest of the position is for those who read on another day.
                self.position = self.position._replace(lines=self.position.lines + len(lines))

    def complaining(self) -> _Complaining:
        """A context in which what reading raises becomes InputError."""
        return _Complaining(self.path)


class _Complaining:
    """What reading raises becomes an InputError with the path."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if _is_damage(error):
            raise InputError(f"{self.path}: damaged or cut: {error}; what came before is imported") from error
        if isinstance(error, OSError):
            raise unreadable(self.path, error) from error


def _is_damage(error: BaseException | None) -> bool:
    """Whether a compressed file is no such file to its end; of the modules two say it by an OSError without number."""
    return isinstance(error, EOFError | zlib.error | lzma.LZMAError) or (
        isinstance(error, OSError) and error.errno is None
    )


def _digest(line: bytes) -> bytes:
    return blake2b(line[-_TAIL_BYTES:], digest_size=16).digest()


def unreadable(path: str, error: OSError) -> InputError:
    """The complaint about a file that the system does not let us read."""
    return InputError(f"{path}: cannot be read: {error.strerror or error}")


def rotated_since(path: str, time_s: int) -> list[str]:
    """
    The files that a path was rotated to (``.0``, ``.1.gz``, ``-20261120``) and that were written since, in order.

    Raises InputError when the directory cannot be read.
    """
    folder, name = os.path.split(path)
    found = []
    with _Complaining(folder or "."):
        for entry in os.scandir(folder or "."):
            if entry.name.startswith(name) and _ROTATED.fullmatch(entry.name[len(name) :]) and entry.is_file():
                mtime = entry.stat().st_mtime
                if mtime >= time_s:
                    found.append((mtime, os.path.join(folder, entry.name)))
    return [rotated for _mtime, rotated in sorted(found)]


def first_time(path: str) -> int:
    """When the first record of a file ended, for putting files into the order they were written in; 0 if unknown."""
    reader = Reader(path)
    try:
        with reader.complaining():
            for line in reader.beginning().split(b"\n")[:-1]:
                try:
                    found = record(line)
                except Exception:  # noqa: BLE001, S112  the import says what is wrong with it
                    continue
                if found is not None and found.end_time_us:
                    return found.end_time_us
    finally:
        reader.close()
    return 0
