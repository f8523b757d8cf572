"""
The files that telemetry comes in: named ones, all of a directory, standard input; once, or for ever as they grow.

This is where bytes are read; the parsers do no I/O.
"""

from __future__ import annotations

import gzip
import os
import sys
import time
from typing import BinaryIO, NamedTuple, cast

from arcacct.errors import InputError
from arcacct.sources.sonar import Telemetry, Told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

CHUNK_BYTES = 1024 * 1024
POLL_S = 1.0
_ENDINGS = (".json", ".jsonl", ".ndjson")
_PACKED = ".gz"


def telemetry(paths: Sequence[str], *, progress: Callable[[int], None] = lambda _: None) -> Iterator[Told]:
    """Every envelope of some files, directories and ``-``. Raises InputError for one that cannot be read."""
    for path in files(paths):
        stream = Telemetry()
        with _open(path) as file:
            for chunk in _chunks(file, path):
                for what in stream.feed(chunk):
                    yield Told(path, what)
                progress(len(chunk))
        for what in stream.feed(b"", final=True):
            yield Told(path, what)


def files(paths: Sequence[str]) -> list[str]:
    """The files meant: those named, and in directories, at any depth, those that are JSON by name."""
    found: dict[str, None] = {}
    for path in paths:
        if path == "-" or not os.path.isdir(path):
            found[path] = None
            continue
        for folder, folders, names in os.walk(path, onerror=_refuse):
            folders.sort()
            for name in sorted(names):
                if name.removesuffix(_PACKED).endswith(_ENDINGS) and not name.startswith("."):
                    found[os.path.join(folder, name)] = None
    return list(found)


def _refuse(error: OSError) -> None:
    raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from error


def _open(path: str) -> BinaryIO:
    try:
        if path == "-":
            return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
        return cast("BinaryIO", gzip.open(path, "rb")) if path.endswith(_PACKED) else open(path, "rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def _chunks(file: BinaryIO, path: str) -> Iterator[bytes]:
    while True:
        try:
            chunk = file.read(CHUNK_BYTES)
        except (OSError, EOFError) as error:
            raise InputError(f"{path}: cannot be read: {error}") from error
        if not chunk:
            return
        yield chunk


class _Followed(NamedTuple):
    """A file that grows: what is read of it, and which file that is."""

    file: BinaryIO
    identity: tuple[int, int]
    stream: Telemetry


def follow(paths: Sequence[str], *, sleep: Callable[[float], None] = time.sleep) -> Iterator[Told]:
    """
    Every envelope of some files and directories, and of what is added to them, for ever.

    A file that is replaced or cut is read from its start: the same envelope twice changes nothing. Between two looks
    the stream pauses. ``-`` ends when its writer does.
    """
    if "-" in paths:
        yield from _follow_stdin()
        return
    known: dict[str, _Followed] = {}
    while True:
        for path in files(paths):
            yield from _follow_file(known, path)
        yield Told("", None)
        sleep(POLL_S)


def _follow_stdin() -> Iterator[Told]:
    """Envelopes as they come through a pipe; stored with each piece, since the next may be long away."""
    stream = Telemetry()
    while chunk := os.read(sys.stdin.fileno(), CHUNK_BYTES):
        for what in stream.feed(chunk):
            yield Told("-", what)
        yield Told("-", None)
    for what in stream.feed(b"", final=True):
        yield Told("-", what)


def _follow_file(known: dict[str, _Followed], path: str) -> Iterator[Told]:
    try:
        now = os.stat(path)
    except FileNotFoundError:
        return
    held = known.get(path)
    identity = (now.st_dev, now.st_ino)
    if held is not None and (held.identity != identity or now.st_size < held.file.tell()):
        # The rest of the old one first: it was moved away with its last lines in it.
        yield from _told(path, held.stream, _chunks(held.file, path))
        held.file.close()
        held = None
    if held is None:
        held = known[path] = _Followed(_open(path), identity, Telemetry())
    yield from _told(path, held.stream, _chunks(held.file, path))


def _told(path: str, stream: Telemetry, chunks: Iterable[bytes]) -> Iterator[Told]:
    for chunk in chunks:
        for what in stream.feed(chunk):
            yield Told(path, what)
