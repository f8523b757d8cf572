"""SQLite for every writer: the module, a connection to either database, and the only kind of transaction."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from sqlite3 import Connection, DatabaseError, DataError, OperationalError, connect
from typing import Any

from arcacct.errors import SchemaError, StoreBusy, StoreError, use_as

__all__ = ["Connection", "DataError", "DatabaseError", "OperationalError", "connect"]
OF_VALUES = (DataError, sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
"""SQLite's errors about the values of a row; the database itself is well."""


# Opening the two databases.
#
# Every connection is in WAL mode without automatic checkpoints (INVARIANTS 7): see `transaction`.


ACCOUNTING_SCHEMA = 35
"""The number of the last script in schema/upgrade/accounting; a test checks it."""
PUBLISHING_SCHEMA = 15
"""The number of the last script in schema/upgrade/publishing."""
_READING = ("query_only = 1",)
opened: dict[str, None] = {}
"""The databases that this process has opened, in order."""


def uri(path: str, mode: str) -> str:
    """Return SQLite's URI of a database file, for any bytes in its path."""
    quoted = "".join(
        chr(byte) if 32 < byte < 127 and byte not in b"%?#" else f"%{byte:02x}" for byte in os.fsencode(path)
    )
    # An absolute path needs an empty authority before it, or SQLite reads the first name of //a/b as a host.
    return f"file:{'//' if path.startswith('/') else ''}{quoted}?mode={mode}"


def open_database(path: str, schema: int, *, timeout_s: float = 30.0) -> Connection:
    """
    Open one of our databases for writing; it is not created here (`schema.create`).

    Raises SchemaError when the file is not ours or has another version, StoreBusy when it is locked for ``timeout_s``,
    StoreError when it is missing or damaged.
    """
    return _open(path, "rw", schema, timeout_s, ("synchronous = NORMAL", "wal_autocheckpoint = 0"))


def open_for_reading(path: str, schema: int, *, timeout_s: float = 30.0) -> Connection:
    """
    Open one of our databases for reading only; raises as `open_database`.

    This includes a database without -wal and -shm, for a user who may not create them (`connect_at_rest`).
    """
    try:
        return _open(path, "ro", schema, timeout_s, _READING)
    except StoreError as error:
        if error.__cause__ is None:
            raise
        return _ours(connect_at_rest(path, error.__cause__), path, schema, _READING)


def _open(path: str, mode: str, schema: int, timeout_s: float, settings: tuple[str, ...]) -> Connection:
    opened[path] = None
    try:
        con = connect(uri(path, mode), timeout=timeout_s, isolation_level=None, uri=True, cached_statements=64)
    except (DatabaseError, UnicodeDecodeError) as error:
        raise translated(error, path) from error
    return _ours(con, path, schema, settings)


def _ours(con: Connection, path: str, schema: int, settings: tuple[str, ...]) -> Connection:
    try:
        for setting in settings:
            con.execute(f"PRAGMA {setting}")
        found = version(con, path)
        if found != schema:
            raise other_version(con, path, found, schema)
    except (DatabaseError, UnicodeDecodeError, StoreError) as error:
        con.close()
        if isinstance(error, StoreError):
            raise
        raise translated(error, path) from error
    return con


def version(con: Connection, path: str) -> int:
    """Our schema's number in an open database; raises SchemaError when the file is not ours."""
    try:
        # Without the index: `arcacct db check` also shows that one if it is damaged.
        row = con.execute("SELECT KeyValue FROM DBConfig NOT INDEXED WHERE KeyName = 'ARCACCT_SCHEMA'").fetchone()
    except OperationalError as error:
        if "no such table" not in str(error):
            raise
        row = None
    if row is None or not str(row[0]).isdecimal():
        raise SchemaError(f"{path}: not a database of arcacct; give the path of arcacct's, or move this file away")
    return int(row[0])


def other_version(con: Connection, path: str, found: int, known: int, oldest: int = 0) -> SchemaError:
    """
    Return the complaint about an unknown schema, or that of the other database.

    ``oldest``: the oldest schema that this program upgrades, if it does not upgrade this one either.
    """
    names = {
        name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE name IN ('AAR', 'AccountingTargets')")
    }
    wanted, other = ("accounting", "publishing") if known == ACCOUNTING_SCHEMA else ("publishing", "accounting")
    if names == {"AccountingTargets" if other == "publishing" else "AAR"}:
        return SchemaError(
            f"{path}: it is a {other} database, and the {wanted} database belongs here; were the two files exchanged?"
            " Move each to its own path, with its -wal file"
        )
    if found > known:
        todo = f"this program supports {known}: install the version of arcacct that created it, or a newer one"
    elif not oldest:
        todo = f"this program needs {known}: run `arcacct db upgrade`"
    else:
        todo = (
            "it is of arcacct 0.1: first upgrade it with arcacct 0.2 (`arcacct db upgrade`), then with this program"
            if found < oldest
            else "it is of no release, and cannot be upgraded: restore a backup of arcacct 0.2 (`arcacct db restore`)"
        )
    return SchemaError(f"{path}: schema version {found}; {todo}")


CHECK_SHOWS = "`arcacct db check` shows what, and what to do"
"""The advice about a damaged database, except for the check's own messages."""


def translated(error: BaseException, path: str) -> StoreError:
    """Return SQLite's error as one of ours, with the name of the file."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return StoreBusy(f"{path}: {text}; another process holds it, try again later")
    if "unable to open" in text and not os.path.exists(path):
        return StoreError(f"{path}: no such database; create it with `arcacct db init`")
    if "unable to open" in text or "readonly" in text:
        return StoreError(f"{path}: {text}; check that this user may write the file and its directory")
    if isinstance(error, UnicodeDecodeError):
        # SQLite reports damage with names from the file.
        text = "malformed: a name in it is not text"
    if advice := _of_system(text, path):
        return StoreError(f"{path}: {text}; {advice}")
    if "interrupted" in text:
        text = "the query took too long and was stopped"
    elif is_damage(error):
        words = " ".join(text.split())
        text = f"{words}; it is damaged or not a database: {CHECK_SHOWS}"
    return StoreError(f"{path}: {text}")


def is_damage(error: BaseException) -> bool:
    """Whether a value from a database cannot have been written this way."""
    words = ("malformed", "not a database", "UTF-8")
    return isinstance(error, UnicodeDecodeError) or any(word in str(error) for word in words)


def _of_system(text: str, path: str) -> str:
    """What to do if SQLite's error is about the disk or the memory; empty: it is not."""
    if "out of memory" in text:
        return "this process is at its limit: raise it (ulimit -v, MemoryMax)"
    if "disk is full" not in text and "disk I/O" not in text:
        return ""
    folder = os.path.dirname(path) or "."
    try:
        found = os.statvfs(folder)
        is_full = found.f_bavail == 0 or (found.f_files > 0 and found.f_favail == 0)
    except OSError:
        is_full = False
    if is_full:
        return f"the file system of {folder} is full: free space there; nothing recorded is lost"
    return (
        f"check the file system of {folder} (df {folder}, a quota, dmesg): it is full or failed, or temporary files"
        " have no space (TMPDIR)"
    )


# The only way to write: in turn, in one BEGIN IMMEDIATE.  Writers wait for each other on a flock, which wakes the next
# one at once; SQLite's own busy handler sleeps and is unfair (200 writers: 1 s at worst against 13 s). The lock is on a
# file of its own: closing any descriptor of the database would drop SQLite's locks. It is held for at most 50 ms;
# checkpoints sync outside it (`shrink`).


WAL_LIMIT_BYTES = 512 * 1024
"""A WAL above this size is written back: every process that opens the database reads all of it, 0.6 ms a MB."""


@contextmanager
def transaction(con: Connection, database: str, lock_path: str) -> Iterator[Connection]:
    """
    Wait for the turn, BEGIN IMMEDIATE, then COMMIT, or ROLLBACK when the block raises.

    ``lock_path`` is the queue of the database's writers, ``database`` its path, for complaints. Errors of SQLite, also
    in the block, become StoreBusy or StoreError.
    """
    fd = open_lock(lock_path)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            con.execute("BEGIN IMMEDIATE")
        except OSError as error:
            raise no_lock(lock_path, error) from error
        except DatabaseError as error:
            raise translated(error, database) from error
        try:
            yield con
            con.execute("COMMIT")
        except DatabaseError as error:
            raise translated(error, database) from error
        finally:
            if con.in_transaction:
                con.execute("ROLLBACK")
    finally:
        os.close(fd)


def shrink(con: Connection, database: str) -> None:
    """
    Write back a WAL that has grown above its limit, and truncate it.

    Does nothing while a reader needs it, and raises no error of SQLite: the committed data is safe.
    """
    with suppress(DatabaseError, FileNotFoundError):
        if os.stat(database + "-wal").st_size <= WAL_LIMIT_BYTES:
            return
        timeout_ms = con.execute("PRAGMA busy_timeout").fetchone()[0]
        con.execute("PRAGMA busy_timeout = 0")
        try:
            # The syncs come first, while other writers need not wait.
            for mode in ("PASSIVE", "TRUNCATE"):
                con.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        finally:
            con.execute(f"PRAGMA busy_timeout = {timeout_ms}")


def make_durable(database: str) -> None:
    """
    Sync all commits so far, without a lock, so that a power cut cannot undo them.

    (Data that has left the WAL was synced when it was written back.) Raises StoreError.
    """
    try:
        fd = os.open(database + "-wal", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except FileNotFoundError:
        return
    except OSError as error:
        raise translated(error, database) from error


def no_lock(path: str, error: OSError) -> StoreError:
    """Return the complaint about a file that the system cannot lock."""
    return StoreError(
        f"{path}: cannot be locked: {error.strerror}; put the databases on a local disk, or start the lock service of"
        " that file system (NFS: rpc.statd)"
    )


def open_lock(path: str) -> int:
    """
    Return a descriptor of a lock file, created if missing, for its owner only, with any umask.

    Raises StoreError if this user may not use it.
    """
    try:
        try:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.fchmod(fd, 0o600)
            return fd
    except OSError as error:
        raise StoreError(f"{path}: cannot be used: {error.strerror}; run as the owner of the database") from error


# Reading a database that no process has open, for users who may not write it.


_SETTLED_NS = 50_000_000
"""A file whose last change is as young may change again without a sign: clocks of file systems tick in 4 ms."""


class AtRest(Connection):
    """A connection that raises StoreBusy as soon as the file is in use again."""

    path = ""
    stamp: tuple[int, ...] | None = None
    """The state of the file: device, inode, size in bytes, times of its last change in nanoseconds."""

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """Run a statement as `sqlite3` does. Raises StoreBusy, too."""
        self._look()
        return super().execute(*arguments)

    def close(self) -> None:
        """As usual. Raises StoreBusy if the read data may be a mixture."""
        super().close()
        self._look()

    def _look(self) -> None:
        if self.stamp is not None and _stamp(self.path) != self.stamp:
            raise StoreBusy(f"{self.path}: it changed during reading; run the command again")


def connect_to_read(path: str, *, timeout_s: float = 30.0) -> Connection:
    """Open a database for reading, at rest or in use. Raises StoreError and its kinds."""
    try:
        con = connect(uri(path, "ro"), timeout=timeout_s, isolation_level=None, uri=True)
        try:
            con.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
        except BaseException:
            con.close()
            raise
    except (DatabaseError, UnicodeDecodeError) as error:
        return connect_at_rest(path, error)
    return con


def connect_at_rest(path: str, refusal: BaseException) -> Connection:
    """
    Open a database that SQLite did not open for reading (``refusal``: its error), if no process uses it.

    Raises StoreError with the reason why this user cannot read it and the solution; any other refusal unchanged.
    """
    text = str(refusal)
    if not isinstance(refusal, DatabaseError) or not ("unable to open" in text or "readonly" in text):
        raise translated(refusal, path) from refusal
    refuse_hidden(path)
    if not os.path.exists(path):
        raise translated(refusal, path) from refusal
    stamp = _stamp(path)
    if stamp is None or _in_wal(path):
        raise StoreError(
            f"{path}: {text}; a user without write access needs readable {path}-wal and {path}-shm files: "
            "`arcacct sweep` as the user of A-REX creates them, and `arcacct db init` lets read_group= read them"
        ) from refusal
    if 0 <= time.time_ns() - max(stamp[3:]) < _SETTLED_NS:
        time.sleep(_SETTLED_NS / 1e9)
    try:
        con: AtRest = connect(
            f"{uri(path, 'ro')}&immutable=1", isolation_level=None, uri=True, cached_statements=64, factory=AtRest
        )
    except DatabaseError as error:
        raise translated(error, path) from error
    con.path, con.stamp = path, stamp
    return con


def refuse_hidden(path: str) -> None:
    """Raise StoreError for a database that this user may not read or cannot even see."""
    try:
        os.stat(path)
        is_hidden = not os.access(path, os.R_OK, effective_ids=True)
    except PermissionError:
        is_hidden = True
    except OSError:
        return
    if is_hidden:
        raise StoreError(
            f"{path}: this user may not read it; "
            + use_as(
                path,
                "its owner, or as a member of the group in read_group= of [arcacct] (`arcacct db init`, run by the"
                " owner, gives it access)",
            )
        )


def _in_wal(path: str) -> bool:
    """Whether there is, or may be, something that the file does not have."""
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
