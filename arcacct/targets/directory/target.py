"""Message files for a site's own ssmsend: complete when they appear, and on disk when this is reported."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from arcacct.errors import InputError
from arcacct.files.safe_open import Directory, open_directory
from arcacct.publishing.answers import Answer, Outcome
from arcacct.publishing.ledger import Message
from arcacct.publishing.plugin import Sender
from arcacct.targets.apel.messages import ssm_text
from arcacct.targets.apel.target import APELMessages
from arcacct.targets.directory.options import DirectoryTarget

if TYPE_CHECKING:
    from arcacct.publishing.transport import TimeoutPolicy


# Message files for a site's own ssmsend: unsigned, complete when they appear, and on disk when this is reported.  Two
# layouts that SSM reads: ``dirq`` (a QueueSimple: ``8 hex/14 hex``) and ``directory`` (any file, no folders).  Messages
# belong to the owner of the directory, who must remove them. A group that may write there may also read and remove
# them. No other user can read them, with any umask. All access is by descriptors (`files.safe_open`): that user may put
# links where we want to write.


_GRANULARITY_S = 60
_ADVICE = "the directory must exist, on a filesystem with hard links, and this user must be able to write there"
_NAME = re.compile(r"[0-9a-f]{8}/[0-9a-f]{14}")
_PASSES = {
    errno.ENOSPC, errno.EDQUOT, errno.ENOENT, errno.EIO, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ESTALE,
    errno.EBUSY,
}  # fmt: skip


def new_name(now_ns: int | None = None) -> str:
    """
    Return a name for one message, ``8 hex/14 hex``: the minute, then second, microsecond and a random digit, as in
    dirq.

    Names sort by time, and ssmsend makes the message's empaid from it. Keep it with the message: if the message is
    written again under the same name, it is still one message.
    """
    now_us = (time.time_ns() if now_ns is None else now_ns) // 1000
    seconds, micro = divmod(now_us, 1_000_000)
    return f"{seconds - seconds % _GRANULARITY_S:08x}/{seconds:08x}{micro:05x}{secrets.randbelow(16):x}"


class DirectorySender(Sender):
    """
    An outgoing directory in one of the two layouts.

    It answers at once, unless the file system hangs.
    """

    def __init__(self, path: str, layout: str) -> None:
        """Touch nothing yet."""
        self.path = os.path.abspath(path)
        self.layout = layout
        self.destination = f"file://{path}"

    def name(self) -> str | None:
        return new_name()

    def pack(self, text: str) -> bytes:
        return ssm_text(text)

    def send(self, message: Message) -> Answer:
        return self.write(self.unpack(message.data), message.empaid or new_name())

    def write(self, text: str, name: str) -> Answer:
        """
        Write a message under a name of `new_name`.

        The same message under the same name is accepted again and stays one file. A full disk means "try later", a
        missing or forbidden directory "we are refused"; neither leaves a file. The receiver's id is the file's name
        below the directory. Raises InputError for text that SSM cannot transport.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f"not a message's name: {name!r}")
        data = ssm_text(text)
        try:
            with self._opened() as directory:
                return self._write(directory, data, name)
        except OSError as exc:
            text = f"{self.path}: {exc.strerror}"
            if exc.errno in _PASSES:
                # An error of the disk may come after the file got its name.
                return Answer(Outcome.TRY_LATER, text=text, outcome_known=exc.errno != errno.EIO)
            return Answer(Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, text=text, advice=_ADVICE)
        except InputError as exc:
            return Answer(Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, text=str(exc), advice=_ADVICE)

    def _opened(self) -> Directory:
        try:
            return open_directory(self.path)
        except FileNotFoundError:
            # Not created: its file system may not be mounted.
            raise NotADirectoryError(errno.ENOTDIR, "no such directory") from None

    def _write(self, directory: Directory, data: bytes, name: str) -> Answer:
        if self.layout == "dirq":
            folder_name, _, own_name = name.partition("/")
            with directory.make(folder_name) as folder:
                _hand_over_folder(folder, directory)
                with _draft(folder, f"{own_name}.tmp", data, directory) as draft:
                    _appear(folder, draft, own_name, data)
        else:
            name = name.replace("/", "-")
            with _unnamed_draft(directory, data) as draft:
                _appear(directory, draft, name, data)
        return Answer(Outcome.ACCEPTED, text=os.path.join(self.path, name), receiver_id=name)


_Draft = tuple[str, int | None]
"""A complete file that is not a message yet: its name, and the directory it is relative to; ``None``: a path."""


def _hand_over_folder(folder: Directory, directory: Directory) -> None:
    # An empty one of ours is from a run that was killed then.
    if folder.made or (folder.status.st_uid == os.geteuid() and not os.listdir(folder.fd)):
        group = directory.status.st_mode & stat.S_IRWXG if _has_group(directory) else 0
        _hand_over(folder.fd, 0o700 | group | folder.status.st_mode & stat.S_ISGID, directory)
        os.fsync(directory.fd)


def _has_group(directory: Directory) -> bool:
    """Whether its group may take messages out of a directory."""
    both = stat.S_IWGRP | stat.S_IXGRP
    return directory.status.st_mode & both == both


def _hand_over(fd: int, mode: int, directory: Directory) -> None:
    """Give what was just made to whom the directory belongs, and to its group if that may take messages out."""
    uid, gid = directory.status.st_uid, directory.status.st_gid
    # Only root can give files away. Another user who is not in the group cannot give it the file, and no other group
    # gets it.
    with contextlib.suppress(PermissionError):
        os.fchown(fd, uid if os.geteuid() == 0 else -1, gid if _has_group(directory) else -1)
    os.fchmod(fd, mode if os.fstat(fd).st_gid == gid else mode & ~stat.S_IRWXG)


@contextlib.contextmanager
def _draft(folder: Directory, name: str, data: bytes, directory: Directory) -> Iterator[_Draft]:
    """A file under a name that SSM ignores; it is removed afterwards, after errors too."""
    # A file under this name from a killed run is ours; any other is not.
    with contextlib.suppress(FileNotFoundError):
        there = folder.lstat(name)
        if not stat.S_ISREG(there.st_mode) or there.st_uid not in (0, os.geteuid(), directory.status.st_uid):
            raise InputError(f"{folder.path_of(name)}: another user created it; remove it")
        os.unlink(name, dir_fd=folder.fd)
    descriptor = folder.create(name)
    try:
        _fill(descriptor, data, directory)
        yield name, folder.fd
    finally:
        os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder.fd)


@contextlib.contextmanager
def _unnamed_draft(directory: Directory, data: bytes) -> Iterator[_Draft]:
    """A file without a name on the directory's filesystem: SSM sends whatever has one in the directory."""
    try:
        descriptor = os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o600, dir_fd=directory.fd)
    except OSError as exc:
        if exc.errno not in {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL}:
            raise
        # NFS has no nameless files: use one next to the directory.
        with (
            open_directory(os.path.dirname(directory.path)) as beside,
            _draft(beside, f".arcacct-{secrets.token_hex(8)}.tmp", data, directory) as draft,
        ):
            yield draft
        return
    try:
        _fill(descriptor, data, directory)
        yield f"/proc/self/fd/{descriptor}", None
    finally:
        os.close(descriptor)


def _fill(descriptor: int, data: bytes, directory: Directory) -> None:
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(data)
    _hand_over(descriptor, 0o640 if _has_group(directory) else 0o600, directory)
    os.fsync(descriptor)


def _appear(folder: Directory, draft: _Draft, name: str, data: bytes) -> None:
    """Give the draft its name, unless a file has it already: the same message is fine, another one is not."""
    try:
        # Only /proc/self/fd/N is followed (linkat, which Python calls with a directory): any other link may lead to a
        # foreign file.
        path, beside = draft
        os.link(path, name, src_dir_fd=beside, dst_dir_fd=folder.fd, follow_symlinks=beside is None)
    except FileExistsError:
        if folder.read(name, len(data) + 1) != data:
            raise
    os.fsync(folder.fd)


# The behaviour of a directory of messages: a site's own sender takes the messages and sends them to APEL.


class DirectoryPlugin(APELMessages):
    """Unsigned messages as files."""

    target: DirectoryTarget
    confirmation_level = "written"

    def sender(self, _timeouts: TimeoutPolicy | None = None) -> Sender:
        return DirectorySender(self.target.path, self.target.layout)


PLUGIN = DirectoryPlugin
