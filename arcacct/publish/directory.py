"""
Message files for a site's own ssmsend: unsigned, complete at the moment they appear, on the disk when we say so.

Two layouts that SSM reads: ``dirq`` (a QueueSimple: ``8 hex/14 hex``) and ``directory`` (any file, no folders).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import time

from arcacct.errors import ConfigError
from arcacct.publish.answers import Answer, Kind
from arcacct.publish.ssm_text import ssm_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LAYOUTS = ("dirq", "directory")

_GRANULARITY_S = 60
_NAME = re.compile(r"[0-9a-f]{8}/[0-9a-f]{14}")
_PASSES = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.ENOENT,
    errno.EIO,
    errno.EAGAIN,
    errno.EMFILE,
    errno.ENFILE,
    errno.ESTALE,
    errno.EBUSY,
}


def new_name(now_ns: int | None = None) -> str:
    """
    A name for one message, ``8 hex/14 hex``: the minute, then second, microsecond and a random digit, as dirq's.

    Names sort by time, and ssmsend makes the message's empaid of it. Keep it with the message: written again under
    the same name it is still one message.
    """
    now_us = (time.time_ns() if now_ns is None else now_ns) // 1000
    seconds, micro = divmod(now_us, 1_000_000)
    return f"{seconds - seconds % _GRANULARITY_S:08x}/{seconds:08x}{micro:05x}{secrets.randbelow(16):x}"


class MessageDirectory:
    """An outgoing directory in one of the two layouts. Raises ConfigError for a third."""

    def __init__(self, path: str, layout: str = "dirq") -> None:
        """Touch nothing yet."""
        if layout not in LAYOUTS:
            raise ConfigError(f"layout {layout}: ssmsend knows {' and '.join(LAYOUTS)}")
        self.path = os.path.abspath(path)
        self.layout = layout

    def write(self, text: str, name: str) -> Answer:
        """
        Lay down a message under a name of `new_name`.

        The same message under the same name is accepted again and stays one file. A full disk is "try later", a
        missing or forbidden directory "we are refused"; both leave nothing behind. The receiver's id is the file's
        name below the directory. Raises InputError for text that SSM cannot carry.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f"not a message's name: {name!r}")
        data = ssm_text(text)
        try:
            return self._write(data, name)
        except OSError as exc:
            return _failed(self.path, exc)

    def _write(self, data: bytes, name: str) -> Answer:
        if not os.path.isdir(self.path):
            raise NotADirectoryError(errno.ENOTDIR, "no such directory")
        if self.layout == "dirq":
            file = os.path.join(self.path, name)
            _make_folder(os.path.dirname(file))
            draft = _draft(f"{file}.tmp", data)
        else:
            name = name.replace("/", "-")
            file = os.path.join(self.path, name)
            draft = _unnamed_draft(self.path, data)
        with draft as source:
            _appear(source, file, data)
        _sync_folder(os.path.dirname(file))
        return Answer(Kind.ACCEPTED, text=file, receiver_id=name)


def _make_folder(path: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
        _sync_folder(os.path.dirname(path))


@contextlib.contextmanager
def _draft(path: str, data: bytes) -> Iterator[str]:
    """A complete file under a name that SSM passes over; it is gone afterwards, whatever happens."""
    # What a killed run left under this name is ours and is replaced.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
    try:
        _fill(descriptor, data)
        yield path
    finally:
        os.close(descriptor)
        os.unlink(path)


@contextlib.contextmanager
def _unnamed_draft(folder: str, data: bytes) -> Iterator[str]:
    """A complete file without a name on the folder's filesystem: SSM sends whatever has one in the folder."""
    try:
        descriptor = os.open(folder, os.O_WRONLY | os.O_TMPFILE, 0o666)
    except OSError as exc:
        if exc.errno not in {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL}:
            raise
        # NFS knows no nameless files: beside the folder, then.
        with _draft(os.path.join(os.path.dirname(folder), f".arcacct-{secrets.token_hex(8)}.tmp"), data) as draft:
            yield draft
        return
    try:
        _fill(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _fill(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.fsync(descriptor)


def _appear(source: str, file: str, data: bytes) -> None:
    """Give the draft its name, unless a file has it already: the same message is fine, another one is not."""
    folder = os.open(os.path.dirname(file), os.O_RDONLY | os.O_DIRECTORY)
    try:
        # With a directory Python calls linkat(), which follows /proc/self/fd/N to a file without a name.
        os.link(source, file, src_dir_fd=folder)
    except FileExistsError:
        with open(file, "rb") as there:
            if there.read() != data:
                raise
    finally:
        os.close(folder)


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failed(path: str, exc: OSError) -> Answer:
    text = f"{path}: {exc.strerror}"
    if exc.errno in _PASSES:
        # An error of the disk may come after the file got its name.
        return Answer(Kind.TRY_LATER, text=text, outcome_known=exc.errno != errno.EIO)
    advice = "the directory must exist, on a filesystem with hard links, and this user must be able to write there"
    return Answer(Kind.WE_ARE_REFUSED, text=text, advice=advice)
