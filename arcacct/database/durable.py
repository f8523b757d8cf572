"""
Transactions that are on disk before any irreversible step, the header of a database file, the file that stops the
recorder during maintenance, and the last time of each kind of maintenance.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from sqlite3 import Connection
from threading import Lock
from typing import NamedTuple

from arcacct.database.connection import open_lock
from arcacct.errors import InputError, SchemaError, StoreBusy, StoreError, use_as
from arcacct.files.json_reader import parsed
from arcacct.files.safe_open import TEMPORARY, open_directory

# Transactions of the publishing database: on disk before any step that cannot be undone.


_TURN = Lock()


@contextmanager
def transaction(con: Connection) -> Iterator[None]:
    """All or nothing, and on disk afterwards."""
    # Threads that publish in parallel wait here: SQLite lets one write at a time, and the others sleep and retry.
    with _TURN:
        con.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            con.execute("ROLLBACK")
            raise
        con.execute("COMMIT")


# The header of a database file, read without SQLite: the program that wrote it, and whether SQLite may open it
# (INVARIANTS 1).


ROLLBACK_JOURNAL, WAL = 1, 2
"""`Header.journal`."""
_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\0"
_FIRST_BYTES = 4 * 1024 * 1024


class Header(NamedTuple):
    """The values that show whether a database file has changed."""

    journal: int
    """1: rollback journal, 2: WAL."""
    change_counter: int
    device: int
    inode: int
    size_bytes: int
    mtime_ns: int

    @property
    def stamp(self) -> str:
        """The present state of the file, as one text."""
        return " ".join(map(str, self[1:]))


def header_of(path: str) -> Header:
    """
    Read the header of a database file with read() only.

    Raises InputError for a file that is missing, unreadable, empty or no SQLite database.
    """
    try:
        # Opening a pipe would wait until somebody writes to it.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            found = os.fstat(fd)
            content = os.pread(fd, _HEADER_BYTES, 0) if stat.S_ISREG(found.st_mode) else b""
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give the path of a database") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; {use_as(path)}") from error
    if len(content) < _HEADER_BYTES or not content.startswith(_MAGIC):
        raise InputError(f"{path}: not an SQLite database; give the path of the accounting.db that A-REX writes")
    return Header(
        content[18], int.from_bytes(content[24:28], "big"), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    )


def refuse_foreign(path: str) -> None:
    """
    Refuse a file that SQLite must not even open: one in rollback-journal mode, like A-REX's own, that is not ours.

    Raises SchemaError. (Any reader through SQLite would make A-REX lose rows. Our databases are in WAL mode from their
    first page.)
    """
    try:
        if header_of(path).journal != ROLLBACK_JOURNAL:
            return
        with open(path, "rb") as file:
            begin = file.read(_FIRST_BYTES)
    except (OSError, InputError):
        # Missing, empty or not a database: opening it reports the problem.
        return
    if b"ARCACCT_SCHEMA" not in begin:
        raise SchemaError(
            f"{path}: not a database of arcacct, it may be one that A-REX writes; give the path of ours "
            "(`arcacct import arex` imports A-REX's jobs)"
        )


# The file `maintenance` next to the database: while it exists, events wait in the spool and commands exit.  The process
# that creates it holds a lock on it. A file without a lock was left by a killed process, and is removed. A file made by
# hand (empty, or with other words) stays until its author removes it.


_OURS = "arcacct: "
_DRAFT = re.compile(r"maintenance\.[0-9]+")
UNFINISHED = re.compile(re.escape(TEMPORARY) + "[0-9a-f]{16}")
"""The folder of an unfinished copy."""
_GRACE_S = 60
"""A younger file may not be locked yet."""
_IN_TURNS = f"{_OURS}prune "
"""A work that lets others have their turn again and again: for that one is worth waiting."""
_TURN_S = 5.0
"""How long its part between two turns may take; usually some tenths of a second."""
_RESTORE = "`arcacct db restore FILE`"
_AGAIN = {"init": "`arcacct db init --new-life`"}
"""The command that continues an interrupted one while there is no database, by its first word."""


@contextmanager
def maintenance(database: str, work: str) -> Iterator[None]:
    """
    Keep recorder and commands away from a database during some work; ``work`` names it in a word or two.

    Writers that were already waiting in the queue may still write: see `alone`. The file outlives an error that leaves
    no database behind. Raises StoreBusy when another process works on it.
    """
    path = _path(database)
    fd = _taken(path, f"{_OURS}{work} by process {os.getpid()}\n".encode())
    try:
        try:
            yield
        except BaseException:
            if os.path.exists(database):
                os.unlink(path)
            raise
        os.unlink(path)
    finally:
        os.close(fd)


@contextmanager
def alone(database: str, queue_lock: str, work: str) -> Iterator[None]:
    """
    `maintenance` with an empty queue of the database's writers.

    Waits for the current holder: each writer checks the file at its turn.
    """
    with maintenance(database, work):
        with locked(open_lock(queue_lock)):
            pass
        yield


@contextmanager
def locked(fd: int) -> Iterator[None]:
    """Take the lock on an open file, waiting as long as needed; closes the descriptor at the end."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def refuse_maintenance(database: str) -> None:
    """
    Raise StoreBusy during maintenance of a database; the file of a killed process is removed.

    During a prune it waits for its turn. Raises StoreError if a restore was killed, so that there is no database.
    """
    path = _path(database)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except PermissionError as error:
        advice = use_as(path, "its owner")
        raise StoreBusy(f"{path}: cannot check for maintenance of the database: {error.strerror}; {advice}") from error
    except OSError:
        # Missing file or directory: opening the database reports the problem.
        return
    try:
        words = os.pread(fd, 200, 0).decode("utf-8", "replace").strip()
        if not words.startswith(_OURS):
            raise StoreBusy(f"{path} exists: it was created by hand for maintenance; remove it afterwards")
        deadline = time.monotonic() + (_TURN_S if words.startswith(_IN_TURNS) else 0)
        while not (is_ours := _lock(fd)) and time.monotonic() < deadline:
            time.sleep(0.01)
        if not is_ours:
            raise StoreBusy(f"{path}: database maintenance is running ({words}); try again later")
        if not os.path.exists(database):
            raise StoreError(f"{path}: {words} was interrupted; run {_AGAIN.get(words.split()[1], _RESTORE)} again")
        if _is_still(path, fd):
            os.unlink(path)
    finally:
        os.close(fd)


def _path(database: str) -> str:
    return os.path.join(os.path.dirname(database), "maintenance")


def _taken(path: str, words: bytes) -> int:
    """
    The file with its words, made or put in the place of one whose process is gone, and locked.

    The words are on disk before it has its name: an empty one, as a power cut would leave it, is one made by hand.
    """
    draft = f"{path}.{os.getpid()}"
    for old in killed(os.path.dirname(path), _DRAFT):
        os.unlink(old)
    try:
        fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, words)
            os.fsync(fd)
            _lock(fd)
            while not _is_named(draft, path):
                pass
        except BaseException:
            os.close(fd)
            raise
        finally:
            if os.path.lexists(draft):
                os.unlink(draft)
    except OSError as error:
        raise StoreError(f"{path}: cannot be created: {error.strerror}; run as the owner of the database") from error
    return fd


def killed(directory: str, name: re.Pattern[str]) -> list[str]:
    """
    Return the leftovers of killed processes in a directory under such names: a running process has a lock on its file,
    and is fast.
    """
    found = []
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if not name.fullmatch(entry.name) or entry.is_symlink():
                continue
            with suppress(OSError):
                fd = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    if os.fstat(fd).st_mtime < time.time() - _GRACE_S and _lock(fd):
                        found.append(entry.path)
                finally:
                    os.close(fd)
    return sorted(found)


def leftovers(directory: str) -> list[str]:
    """Files that killed commands left next to the databases and in the backups; the next such command removes them."""
    return [*killed(directory, _DRAFT), *killed(os.path.join(directory, "backups"), UNFINISHED)]


def _is_named(draft: str, path: str) -> bool:
    """Give the draft its name. Raises StoreBusy if another process works under it; False: another was faster."""
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    else:
        return True
    try:
        old = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        if not _lock(old):
            raise StoreBusy(f"{path}: database maintenance is running; try again later")
        if not _is_still(path, old):
            return False
        os.rename(draft, path)
    finally:
        os.close(old)
    return True


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(path: str, fd: int) -> bool:
    """Whether the locked file is the one at its path: another process may have removed it in between."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


# Backup while others write, restore, compaction, and the record of the last time of each.


# The last maintenance of the databases: backup, check, prune, copy for readers.  A small file next to them,
# `care.json`, by operation: its end (UTC seconds), and whether it succeeded; for a copy for readers also the
# incarnation of the database, and the path. It is not in the databases: a check changes nothing in them, and a restored
# one must not claim that it was checked.


BACKUP, CHECK, PRUNE, SNAPSHOT = KINDS = ("backup", "check", "prune", "snapshot")
_FILE = "care.json"
_LARGEST_CHARACTERS = 2**16


class MaintenanceEntry(NamedTuple):
    """The last time of a kind of maintenance."""

    at_s: int
    is_well: bool
    incarnation: str = ""
    """The incarnation of the database that was copied."""
    path: str = ""
    """The copy."""


def log_done(directory: str, kind: str, *, is_well: bool = True, life: str = "", path: str = "") -> None:
    """Store what was done now; for a user who may only read the databases, nothing is stored."""
    done = MaintenanceEntry(int(time.time()), is_well, life, path)
    found = {name: [one for one in care if one != ""] for name, care in (last_done(directory) | {kind: done}).items()}
    # Any user with access to the directory may read it.
    with suppress(OSError, InputError), open_directory(directory) as folder:
        folder.replace(_FILE, f"{json.dumps(found)}\n".encode(), 0o644)


def last_done(directory: str) -> dict[str, MaintenanceEntry]:
    """Return the last time of each kind; unknown ones are absent, and so is a copy that was removed."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        with open(os.path.join(directory, _FILE), encoding="utf-8") as file:
            found = parsed(file.read(_LARGEST_CHARACTERS))
        known = {
            kind: MaintenanceEntry(int(found[kind][0]), bool(found[kind][1]), *map(str, found[kind][2:4]))
            for kind in KINDS
            if kind in found
        }
        return {kind: done for kind, done in known.items() if not (done.path and _is_gone(done.path))}
    return {}


def _is_gone(path: str) -> bool:
    """Whether it is gone; false for a user who may not look."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False
