"""
Makes `arcacct sweep --follow` the recorder of this host: while it runs, the launcher starts no Python.

In each spool that it drains it keeps the file `.recorder` open, and writes into it after each drain. The launcher only
spools if the last drain is less than two seconds ago and the process still has the file open (``etc/arcacct-hook``:
`recorder_lives`). If the recorder is stopped or killed, or cannot record, these conditions fail, and each callout
records its own event as without a recorder.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

import arcacct
from arcacct.config.paths import Places, usual_database
from arcacct.database.location import own_as
from arcacct.files.directories import private_directory

BEAT = ".recorder"
"""The file's name. A sweep ignores it."""
LEASE_S = 2.0
"""How many seconds one beat is valid: `lease` of the launcher."""
_SUSPENDED = "-"
"""In place of the second offset: the launcher finds two different ones, and does not rely on the recorder."""


class Configured(NamedTuple):
    """The configuration that the recorder uses."""

    arc_conf: str
    """The absolute path."""
    is_usual: bool
    """Whether a hook uses it if its command line names no configuration."""


class Heartbeats:
    """
    The files `.recorder`, one in each spool in which a launcher may look for it.

    If a spool has several recorders, the first one has the file, and the others wait for the lock.
    """

    def __init__(self, here: Places, configured: Configured) -> None:
        self._here = here
        self._configured = configured
        self._fds: dict[str, int] = {}
        self._drained_cs = 0

    def beat(self, trusted: Container[int]) -> None:
        """
        Confirm that everything in the spools is recorded, except what only a sweep can record.

        ``trusted``: the users whose spools are drained. Raises OSError if a spool cannot be created or written.
        """
        self._drained_cs = int(time.clock_gettime(time.CLOCK_BOOTTIME) * 100)
        for folder in offered(self._here):
            fd = self._fd(folder, trusted)
            if fd is not None:
                self._write(fd)

    def suspend(self) -> None:
        """Make launchers stop relying on this process until the next beat. `seen` still reports the last one."""
        for fd in self._fds.values():
            with suppress(OSError):
                self._write(fd, offers=False)

    def _write(self, fd: int, *, offers: bool = True) -> None:
        epoch = int((time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)) * 100)
        usual = "yes" if self._configured.is_usual else "no"
        # Written twice, since it decides the order of events: a reader during the write sees two different numbers.
        again = epoch if offers else _SUSPENDED
        text = f"{self._drained_cs:<12d} {os.getpid()} {fd} {epoch} {usual} {again} {self._configured.arc_conf}\n"
        # In one call: a reader may see digits of two beats, and both are of this process.
        os.pwrite(fd, text.encode("utf-8", "surrogateescape"), 0)

    def stop(self) -> None:
        """Make launchers stop relying on this process, which must still drain what is in the spool by then."""
        for folder, fd in self._fds.items():
            with suppress(OSError):
                if _is_open_at(fd, f"{folder}/{BEAT}"):
                    os.unlink(f"{folder}/{BEAT}")
            os.close(fd)
        self._fds.clear()

    def _fd(self, folder: str, trusted: Container[int]) -> int | None:
        """Return the descriptor of a spool's file, reopened if it was replaced; ``None`` if another process has it."""
        path = f"{folder}/{BEAT}"
        fd = self._fds.get(folder)
        if fd is not None:
            if _is_open_at(fd, path):
                return fd
            os.close(self._fds.pop(folder))
        if not os.path.isdir(folder):
            private_directory(folder)
            own_as(folder, os.path.dirname(folder))
        if os.stat(folder).st_uid not in trusted:
            return None
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another recorder may have removed it at its end.
            is_ours = _is_open_at(fd, path)
            if is_ours:
                os.ftruncate(fd, 0)
        except BlockingIOError:
            is_ours = False
        except BaseException:
            os.close(fd)
            raise
        if not is_ours:
            os.close(fd)
            return None
        self._fds[folder] = fd
        return fd


UNIT = "arcacct-recorder.service"
_WANTED = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"
"""Exists while the service is running."""


class Seen(NamedTuple):
    """The state of a recorder, for people."""

    process: int | None
    """The process ID of the live recorder."""
    age_s: float | None
    """Seconds since it, or a killed one, had recorded everything; ``None``: no recorder, or before this boot."""
    is_enabled: bool
    is_suspended: bool = False
    """Whether it cannot record now, and has said so."""

    @property
    def is_alive(self) -> bool:
        """Whether the launcher leaves its events to it."""
        has_beat = self.process is not None and self.age_s is not None and self.age_s < LEASE_S
        return has_beat and not self.is_suspended


def seen(here: Places) -> Seen | None:
    """Return the recorder of a host; ``None`` if this user may not look. The rules are those of the launcher."""
    found = Seen(None, None, os.path.lexists(_WANTED))
    try:
        with open(os.path.join(here.spool, BEAT), encoding="utf-8", errors="surrogateescape") as file:
            words = file.readline().split()
            ours = os.fstat(file.fileno())
        if len(words) < 3 or not all(word.isdecimal() for word in words[:3]):
            return found
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(words[0]) / 100
        found = found._replace(age_s=age_s if age_s >= 0 else None, is_suspended=words[5:6] == [_SUSPENDED])
        there = os.stat(f"/proc/{words[1]}/fd/{words[2]}")
    except FileNotFoundError:
        return found
    except OSError:
        return None
    is_open = (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
    return found._replace(process=int(words[1])) if is_open else found


def offered(here: Places) -> list[str]:
    """Return where a launcher may look for a recorder: the hook's spool, and the one below the control directory."""
    below = os.path.join(os.path.dirname(usual_database(here.controldir)), "spool")
    return [*dict.fromkeys((here.spool, below))]


def _is_open_at(fd: int, path: str) -> bool:
    try:
        there, ours = os.stat(path, follow_symlinks=False), os.fstat(fd)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


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

    def __init__(self, read: Callable[[], tuple[Places, Configured]], files: Callable[[], list[str]]) -> None:
        self._read = read
        self._files = files
        self._seen: object = None

    def changed(self) -> tuple[Places, Configured] | None:
        """Return the new configuration if its files have changed since the last call. Raises ConfigError."""
        files = self._files()
        seen = (tuple(files), *_stats(files))
        if seen == self._seen:
            return None
        found = self._read()
        self._seen = seen
        return found
