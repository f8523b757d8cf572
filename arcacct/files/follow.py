"""Files that are read once or followed while they grow, rotate and are compressed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

from arcacct.errors import InputError

# Files that others write: read their present content, from the position where an earlier reading stopped.  A writer
# appends whole buffers, so a reader can see an incomplete end: only lines that end in a newline are read. Log rotation
# renames, copies, truncates and compresses files: a file is identified by its beginning, and a position in it is valid
# only while the bytes before it are the same.


STDIN = "-"
CHUNK_BYTES = 256 * 1024
LONGEST_LINE = 16 * 1024 * 1024
"""A longer line is not a record: it is skipped, and never held as a whole."""
_BEGINNING = 1024 * 1024 + 1
"""This much is kept of it: enough to show that it is longer than a record may be."""
_TAIL_BYTES = 4096
_COMPRESSED: dict[bytes, Callable[[BinaryIO], object]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_ROTATED = re.compile(r"[.-][0-9][0-9-]*(?:\.(?:gz|bz2|xz|zst))?")
_CLOCK_S = 2
"""The clock of file systems is slow, and positions are noted in whole seconds."""
_UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError)


class FileOffset(NamedTuple):
    """The position in a file, in the order of the columns of GridEngineFiles."""

    file_id: int = 0
    """The number of the file in its source; 0: none yet."""
    position: int = 0
    """Bytes, of the text if the file is compressed, up to the end of the last used line."""
    tail: bytes = b""
    """Digest of the last used line."""
    checksum: int = 0
    """CRC-32 of all bytes before."""
    lines: int = 0
    records: int = 0
    bad_lines: int = 0

    def after(self, lines: Sequence[bytes]) -> FileOffset:
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
    after: FileOffset
    """Where the next line starts."""


class Reader:
    """
    An open file, compressed or not, or ``-`` for standard input, and the position in it; ``with`` closes it.

    ``identity`` is ``None`` for a stream without a start to return to: standard input, pipes, devices. ``state``
    belongs to the source, and moves to the file that continues this one.
    """

    def __init__(self, path: str, *, named: bool = True) -> None:
        """
        Raises InputError when it cannot be opened.

        A pipe that was ``named`` is waited for. In a directory only regular files are read, and links only if root or
        the owner of the file made them: a user who may write there could block us permanently, or have us read and
        keep a file that he may not read.
        """
        self.path = path
        flags = os.O_RDONLY | os.O_CLOEXEC | (0 if named else os.O_NONBLOCK | os.O_NOCTTY)
        with _complaining(path):
            fd = sys.stdin.fileno() if path == STDIN else os.open(path, flags)
            self._raw = cast("BinaryIO", io.FileIO(fd, closefd=path != STDIN))
            status = os.fstat(fd)
            entry = status if named else os.lstat(path)
        self._file = self._raw
        is_file = stat.S_ISREG(status.st_mode)
        if stat.S_ISLNK(entry.st_mode) and entry.st_uid not in (0, status.st_uid):
            self.close()
            raise InputError(f"{path}: another user's link, so it is skipped; name it explicitly to read it")
        if not is_file and not named:
            self.close()
            raise InputError(f"{self.path}: a pipe or a device, so it is skipped; name it explicitly to read it")
        try:
            self._file = self._decompressed() if is_file else self._raw
        except BaseException:
            self.close()
            raise
        self.compressed = self._file is not self._raw
        self.identity = (status.st_dev, status.st_ino) if is_file and path != STDIN else None
        self.size = status.st_size if is_file else 0
        """Bytes on the disk when it was opened."""
        self.position = FileOffset()
        self.state: Any = None
        self.head: bytes | None = None
        """Digest of the first record, which identifies the file; ``None`` if there is none yet."""
        self.complaint = ""
        """The problem of the file; everything readable came before it."""
        self.left_bytes = 0
        """Bytes after the last newline at the last reading."""
        self.is_last = False
        """Whether the file is complete: bytes after its last newline are then no incomplete line."""
        self._at = 0
        """How far it was read: the position plus the remaining bytes."""
        self._tail = b""
        self._seen = (-1, -1)

    def _decompressed(self) -> BinaryIO:
        with _complaining(self.path):
            magic = os.pread(self._raw.fileno(), 8, 0)
        if magic.startswith(_ZSTANDARD):
            raise InputError(f"{self.path}: compressed with zstd, which is not supported; pipe zstdcat's output to -")
        opener = next((opener for mark, opener in _COMPRESSED.items() if magic.startswith(mark)), None)
        return self._raw if opener is None else cast("BinaryIO", opener(self._raw))

    def close(self) -> None:
        """Close the file, except standard input, which is not ours."""
        self._file.close()
        self._raw.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _status(self) -> os.stat_result:
        with _complaining(self.path):
            return os.fstat(self._raw.fileno())

    def has_changed(self) -> bool:
        """Whether size or time differ from the last call. Raises InputError."""
        status = self._status()
        seen, self._seen = self._seen, (status.st_size, status.st_mtime_ns)
        return seen != self._seen

    def is_removed(self) -> bool:
        """Whether the file no longer has a name. Raises InputError."""
        return self._status().st_nlink == 0

    def look_at_head(self) -> None:
        """Read the start of the file. Raises InputError."""
        if self.identity is None or self.head is not None:
            return
        # The header is short; a first line that is longer than this is no record.
        for line in self.beginning().splitlines(keepends=True):
            if line.endswith(b"\n") and len(line) > 2 and not line.startswith(b"#"):
                self.head = _digest(line)
                return

    def beginning(self) -> bytes:
        """Return the first bytes; for a damaged compressed file, the readable part of them. Raises InputError."""
        found = b""
        with _complaining(self.path):
            self._go(0)
            try:
                while len(found) < CHUNK_BYTES and (more := self._read()):
                    found += more
            except _UNREADABLE as error:
                if not _is_damage(error):
                    raise
        return found

    def holds(self, position: FileOffset, *, exactly: bool = False) -> bool:
        """
        Whether the bytes before a position are still the same as when it was noted.

        Raises InputError. In a file with bad lines, all bytes are compared: someone may have corrected one without a
        change of length. ``exactly``: compare all bytes of any file, and only these.
        """
        if self.identity is None or (not self.compressed and self._status().st_size < position.position):
            return False
        with _complaining(self.path), suppress(EOFError):
            if not exactly:
                before = self._go(position.position)
                line = before[before.rfind(b"\n", 0, len(before) - 1) + 1 :]
                if self._at != position.position or (before and _digest(line) != position.tail):
                    return False
            return not (exactly or position.bad_lines) or self._checksum(position.position) == position.checksum
        return False

    def was_cut(self) -> bool:
        """Whether it is shorter than the part that was read, or the bytes before our position have changed."""
        if self.identity is None or self.compressed:
            return False
        with _complaining(self.path):
            tail = os.pread(self._raw.fileno(), len(self._tail), self._at - len(self._tail))
        return tail != self._tail or (self.position.bad_lines > 0 and not self.holds(self.position, exactly=True))

    def _checksum(self, length: int) -> int | None:
        self._go(0)
        checksum = 0
        while length > 0 and (chunk := self._read(min(length, CHUNK_BYTES))):
            checksum = zlib.crc32(chunk, checksum)
            length -= len(chunk)
        return None if length else checksum

    def lines(self) -> Iterator[list[bytes] | Overlong]:
        """
        Yield the complete lines after the position, with their newlines, some at a time, without waiting.

        The caller moves the position before the next ones. After the readable part, ``complaint`` has the error. Sets
        the ``head``, once there is one.
        """
        pending: list[bytes] = []
        coming = self._new(self.look_at_head)
        for chunk in coming:
            end = chunk.rfind(b"\n") + 1
            if end:
                text = b"".join([*pending, chunk[: end - 1]])
                yield [line + b"\n" for line in text.split(b"\n")]
                pending = []
            pending.append(chunk[end:])
            if sum(map(len, pending)) > LONGEST_LINE:
                overlong, rest = self._past(b"".join(pending), coming)
                pending = [rest]
                if overlong is None:
                    break
                yield overlong
                # The rest of the same piece may also have whole lines.
                end = rest.rfind(b"\n") + 1
                if end:
                    yield [line + b"\n" for line in rest[: end - 1].split(b"\n")]
                    pending = [rest[end:]]
        self.left_bytes = sum(map(len, pending))

    def chunks(self) -> Iterator[bytes]:
        """
        Yield the data after the position, in pieces of any length; from a pipe as they arrive.

        Moves the position. After the readable part, ``complaint`` has the error.
        """
        for chunk in self._new():
            before = self.position
            self.position = before._replace(position=self._at, checksum=zlib.crc32(chunk, before.checksum))
            yield chunk

    def _new(self, first: Callable[[], None] = lambda: None) -> Iterator[bytes]:
        """The data after the position."""
        self.complaint = ""
        try:
            first()
            with _complaining(self.path):
                if self.identity is not None and self._at != self.position.position:
                    self._go(self.position.position)
                while chunk := self._read():
                    yield chunk
        except InputError as error:
            self.complaint = str(error)

    def _read(self, most: int | None = None) -> bytes:
        most = CHUNK_BYTES if most is None else most
        read = self._file.read1 if self.compressed else self._file.read  # type: ignore[attr-defined]
        chunk: bytes = read(most) or b""
        self._at += len(chunk)
        self._tail = (self._tail + chunk[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        return chunk

    def _go(self, place: int) -> bytes:
        """Go to a position in the file, or to its end if that comes first; returns the data before it."""
        start = max(0, place - _TAIL_BYTES)
        self._at = self._file.seek(start)
        self._tail = b""
        while self._at < place and self._read(place - self._at):
            pass
        return self._tail

    def _past(self, begun: bytes, coming: Iterator[bytes]) -> tuple[Overlong | None, bytes]:
        """Return a line that is too long, and the text after it; ``None`` and its end, if it has no end yet."""
        length, checksum, tail = len(begun), zlib.crc32(begun, self.position.checksum), begun[-_TAIL_BYTES:]
        for chunk in coming:
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


@contextmanager
def _complaining(path: str) -> Iterator[None]:
    """Turn errors of reading into an InputError with the path."""
    try:
        yield
    except EOFError as error:
        raise InputError(f"{path}: truncated in compressed data; everything before is imported") from error
    except _UNREADABLE as error:
        if isinstance(error, OSError) and not _is_damage(error):
            raise unreadable(path, error) from error
        raise InputError(f"{path}: damaged: {error}; everything before is imported") from error


def _is_damage(error: BaseException) -> bool:
    """Whether a compressed file is no such file to its end; of the modules two say it by an OSError without number."""
    return not isinstance(error, OSError) or error.errno is None


def unreadable(path: str, error: OSError) -> InputError:
    """Return the complaint about a file that the system does not let us read."""
    return InputError(f"{path}: cannot be read: {error.strerror or error}")


def _digest(line: bytes) -> bytes:
    return blake2b(line[-_TAIL_BYTES:], digest_size=16).digest()


def rotated_since(path: str, time_s: int, is_copy: Callable[[str], bool] = lambda _path: False) -> list[str]:
    """
    Return the files to which a path was rotated (``.0``, ``.1.gz``, ``-20261120``) and that were written since, in
    order.

    ``is_copy`` recognises copies next to it with another name. Raises InputError if the directory cannot be read.
    """
    folder, name = os.path.split(path)
    found = []
    with _complaining(folder or "."):
        for entry in os.scandir(folder or "."):
            if entry.name == name or not entry.is_file():
                continue
            mtime, other = entry.stat().st_mtime, os.path.join(folder, entry.name)
            if mtime < time_s - _CLOCK_S:
                continue
            is_rotated = entry.name.startswith(name) and _ROTATED.fullmatch(entry.name[len(name) :])
            if is_rotated or is_copy(other):
                found.append((mtime, other))
    return [rotated for _mtime, rotated in sorted(found)]


# Files that are read once, or followed as they grow: named ones, those of directories, standard input.  If a file was
# renamed, copied or compressed, the old file next to it is read to its end before the new one, under any name. A
# truncated file without a copy is reported. Each file is given to its source as a `Reader`, to be read before the next.
# The source keeps the position, if it needs one.


_REMEMBERED = 50
"""So many files that stood at a path are known again under the names that they were rotated to."""


class Positions(Protocol):
    """The positions up to which earlier imports read files."""

    def find(self, reader: Reader) -> FileOffset:
        """Return where an import of this file stopped, under any path. Raises InputError."""

    def latest(self, path: str) -> tuple[FileOffset, int] | None:
        """Return where the last import stopped in the file then at a path, and its time, in UTC seconds."""


class FileTailer:
    """
    The files of some paths; in directories, the files with one of the ``endings``.

    ``complain`` gets files that cannot be read to their end; while following, once until the problem changes.
    ``positions``: without them, files are read from their start, and recognised only while they are followed. ``order``
    sorts files, so that the first written file is read first; standard input comes last.
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
        """The present problems, by path."""

    def once(self) -> Iterator[Reader]:
        """Yield every file once, after its rotated files since the last reading."""
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
        Yield every file, and its later content; ``None`` whenever all present content was read.

        Continues while ``goes_on`` returns true. A missing or unreadable file is tried again. Standard input ends with
        its writer; raises InputError for standard input together with files.
        """
        if STDIN in self._paths:
            if len(self._paths) > 1:
                raise InputError("-: standard input and files cannot be followed together; use two commands")
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
                # Files of a directory that cannot be read now are not gone.
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
            # A pipe breaks if it is opened for a look and closed again.
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
        """The closed files that were read here, the latest last; only without positions."""
        self._looked_s = 0
        self._is_same = False
        """Whether the file at the path is the one of the last reading."""
        self._gone: FileOffset | None = None
        """How far that file was read, if it was cut or replaced."""

    def look(self) -> Iterator[Reader]:
        """Return the files that may have new content. Raises InputError for a path that cannot be read now."""
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
        # When a file was moved away, the next may not exist yet: the old one may still be written.
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
            # More of a compressed file, or a repaired file, is found by its position like any other. If nothing was
            # read of it, it is unknown whether it was copied and truncated.
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
        """Return a file to be read to its end, once. Raises InputError."""
        reader = self._open(path)
        is_former = self._former is not None and reader.identity == self._former.identity
        # The former file is still read under its old name. Without a rotation, a writer may still append to the old
        # file, but new files next to it are not part of it.
        if is_former or (path != self.path and self._is_same and not reader.position.position):
            reader.close()
            return
        yield from self._end(reader)
        if reader.complaint:
            raise InputError(reader.complaint)

    def leave(self) -> Iterator[Reader]:
        """The path is no longer followed: read the rest of its files."""
        for reader in (self._former, self.reader):
            if reader is not None:
                yield from self._end(reader)
        self._former = self.reader = None

    def rotated(self, looked_s: int = 0) -> list[str]:
        """
        Return the files to which the path was renamed or copied since the last reading; without positions, since the
        last check.

        None if the directory cannot be read: reading the path reports the error.
        """
        gone, self._gone = self._gone, None
        with suppress(InputError):
            if self._positions is not None and (latest := self._positions.latest(self.path)) is not None:
                position, looked_s = latest
                with Reader(self.path, named=False) as reader:
                    # Not by the inode: a new file often gets the inode of the removed one.
                    self._is_same = reader.holds(position)
                    # After a corrected line, the rest of the file is unchanged.
                    if not self._is_same and self.reader is None and self._former is None:
                        gone = None if reader.holds(position._replace(bad_lines=0)) else position
            if not looked_s:
                return []
            if gone is None or not gone.position:
                return rotated_since(self.path, looked_s)
            # A source without positions may have stopped within a line.
            holds = partial(_holds, gone, exactly=self._positions is None)
            found = rotated_since(self.path, looked_s, holds)
            if not any(map(holds, (*found, *self._others))):
                self._complain(
                    f"{self.path}: truncated or replaced after it was read up to byte {gone.position}, and no file "
                    "next to it continues there: if lines were written meanwhile, also import the copy of the old file"
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
        """Read the rest of a file that gets no more data."""
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
        """Close the files; the next check finds them by their positions."""
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
