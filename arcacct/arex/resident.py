"""Makes `arcacct sweep --follow` the recorder of this host: it records within a second what the launcher spools."""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

import arcacct
from arcacct.config.paths import Places
from arcacct.files.directories import private_directory

LOCK = ".recorder"
"""The file's name. A sweep ignores it."""
UNIT = "arcacct-recorder.service"
_WANTED = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"
"""Exists while the service is enabled."""
_LONGEST_LINE = 4096


class RecorderLock:
    """The lock file in the spool: the process that holds it is the recorder of this host."""

    def __init__(self, here: Places) -> None:
        self._path = f"{here.spool}/{LOCK}"
        self._fd = -1
        self._reason = ""

    def hold(self, reason: str = "") -> None:
        """
        Take the lock, unless this process has it or another recorder does. Raises OSError.

        ``reason``: why this recorder cannot record at present, one line; empty: it records.
        """
        with suppress(FileNotFoundError):
            if self._fd >= 0 and os.path.samestat(os.fstat(self._fd), os.stat(self._path)):
                if reason != self._reason:
                    self._note(reason)
                return
        # The spool was moved away.
        self.release()
        private_directory(os.path.dirname(self._path))
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if isinstance(error, BlockingIOError):
                return
            raise
        self._fd = fd
        self._note(reason)

    def _note(self, reason: str) -> None:
        self._reason = reason
        # The lock counts, also if the disk has no room for this.
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()} {reason}\n".encode(errors="replace"), 0)

    def release(self) -> None:
        """Give up the lock."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Seen(NamedTuple):
    """The recorder of a host, for people."""

    process: int | None
    """The process ID of the recorder that runs."""
    is_enabled: bool
    reason: str = ""
    """Why it cannot record at present; empty: it records."""


def seen(here: Places) -> Seen | None:
    """Return the recorder of a host; ``None`` if this user may not look."""
    process, reason = None, ""
    try:
        with open(os.path.join(here.spool, LOCK), encoding="utf-8", errors="replace") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                number, _, reason = file.readline(_LONGEST_LINE).strip().partition(" ")
                process = int(number) if number.isdecimal() else 0
    except FileNotFoundError:
        pass
    except OSError:
        return None
    return Seen(process, os.path.lexists(_WANTED), reason)


class SpoolWatch:
    """Waits for new files in the spools, with inotify if the system has it."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = -1
        with suppress(AttributeError):
            self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def look_at(self, folders: Iterable[str]) -> None:
        """Also watch these directories from now on; missing ones are ignored."""
        if self._fd >= 0:
            for folder in folders:
                self._libc.inotify_add_watch(self._fd, os.fsencode(folder), _CLOSE_WRITE | _MOVED_TO)

    def has_news(self) -> bool:
        """Whether there was a new file since the last call. Without inotify this is unknown."""
        if self._fd < 0:
            return False
        news = False
        with suppress(BlockingIOError):
            while os.read(self._fd, _EVENTS_BYTES):
                news = True
        return news

    def wait(self, seconds: float) -> None:
        """Wait for a new file, for this many seconds at most."""
        if self._fd < 0:
            time.sleep(seconds)
        else:
            select.select([self._fd], [], [], seconds)

    def close(self) -> None:
        """Stop watching."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


_CLOSE_WRITE, _MOVED_TO = 0x8, 0x80
_EVENTS_BYTES = 65_536


def of_program() -> tuple[object, ...]:
    """Return values that change when another version of arcacct or of Python is installed over this one."""
    return tuple(_stats((arcacct.__file__, os.__file__)))


def _stats(paths: Iterable[str]) -> Iterator[object]:
    for path in paths:
        try:
            stat = os.stat(path)
        except OSError:
            yield None
        else:
            yield stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


class Reloaded:
    """
    The places of a host whose configuration may change.

    ``read`` reads the configuration and returns the values for `follow`. ``files`` returns the paths of the files that
    it reads, missing ones too. Raises ConfigError while the configuration cannot be used.
    """

    def __init__(self, read: Callable[[], Places], files: Callable[[], list[str]]) -> None:
        self._read = read
        self._files = files
        self._seen: object = None

    def changed(self) -> Places | None:
        """Return the new configuration if its files have changed since the last call. Raises ConfigError."""
        files = self._files()
        seen = (tuple(files), *_stats(files))
        if seen == self._seen:
            return None
        found = self._read()
        self._seen = seen
        return found
