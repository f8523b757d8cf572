"""
SQLite for every writer: the module, a connection to either database, and the one kind of transaction. On the hook's
path: standard library only, and little of it.
"""

import _functools  # type: ignore[import-not-found]
import fcntl
import posix
import sys

from arcacct.errors import SchemaError, StoreBusy, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


# SQLite's own module, `_sqlite3`, without the half of the standard library that its import brings. On the hook's path.
#
# It asks `functools` for `lru_cache`, to keep prepared statements, and for nothing else; `functools` brings
# `collections`, `operator`, `types` and more, a fifth of the time that the interpreter needs to start. The C function
# below `functools.lru_cache` is built in and does the same. (The `sqlite3` package would bring `datetime` as well; its
# classes are these.)


class _Functools:
    """Substitute for `functools` while `_sqlite3` is imported."""

    @staticmethod
    def lru_cache(maxsize: int) -> "object":
        return lambda function: _functools._lru_cache_wrapper(function, maxsize, False, tuple)  # noqa: SLF001


def _import_alone() -> None:
    if "functools" in sys.modules or "_sqlite3" in sys.modules or not hasattr(_functools, "_lru_cache_wrapper"):
        return
    sys.modules["functools"] = _Functools  # type: ignore[assignment]
    try:
        import _sqlite3  # noqa: F401, PLC0415
    except Exception:  # noqa: BLE001, S110  a Python in which that does not do imports it below, with all it wants
        pass
    finally:
        del sys.modules["functools"]


_import_alone()
from _sqlite3 import (  # noqa: E402
    Connection,
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
    connect,
)

__all__ = [
    "Connection",
    "DataError",
    "DatabaseError",
    "IntegrityError",
    "InterfaceError",
    "OperationalError",
    "ProgrammingError",
    "connect",
]


# Opening the two databases. On the hook's path.
#
# Every connection is in WAL mode without automatic checkpoints (INVARIANTS 7): see `transaction`.


ACCOUNTING_SCHEMA = 29
"""The number of the last script in schema/upgrade/accounting; a test keeps it true."""
PUBLISHING_SCHEMA = 13
"""The number of the last script in schema/upgrade/publishing."""
_BACK = "`arcacct db restore FILE` restores a backup"
_READING = ("query_only = 1",)
opened: dict[str, None] = {}
"""The databases that this process has opened, in order."""


def uri(path: str, mode: str) -> str:
    """A database file as SQLite's URI, whatever bytes its path has."""
    # What os.fsencode does.
    raw = path.encode(sys.getfilesystemencoding(), "surrogateescape")
    quoted = "".join(chr(byte) if 32 < byte < 127 and byte not in b"%?#" else f"%{byte:02x}" for byte in raw)
    # An absolute path needs an empty authority before it, or SQLite takes the first name of //a/b for a host.
    return f"file:{'//' if path.startswith('/') else ''}{quoted}?mode={mode}"


def open_database(path: str, schema: int, *, timeout_s: float = 30.0) -> Connection:
    """
    Open one of our databases for writing; it is not created here (`schema.create`).

    Raises SchemaError when the file is not ours or of another version, StoreBusy when it is locked for
    ``timeout_s``, StoreError when it is missing or damaged.
    """
    return _open(path, "rw", schema, timeout_s, ("synchronous = NORMAL", "wal_autocheckpoint = 0"))


def open_for_reading(path: str, schema: int, *, timeout_s: float = 30.0) -> Connection:
    """
    Open one of our databases without the right to change anything in it; raises as `open_database`.

    Also one without -wal and -shm, for a user who may not make them (`at_rest`).
    """
    try:
        return _open(path, "ro", schema, timeout_s, _READING)
    except StoreError as error:
        if error.__cause__ is None:
            raise
        from arcacct.database.at_rest import connect_at_rest  # noqa: PLC0415  only then, and never in the hook

        return _ours(connect_at_rest(path, error.__cause__), path, schema, _READING)


def _open(path: str, mode: str, schema: int, timeout_s: float, settings: "tuple[str, ...]") -> Connection:
    opened[path] = None
    try:
        con = connect(uri(path, mode), timeout=timeout_s, isolation_level=None, uri=True, cached_statements=64)
    except (DatabaseError, UnicodeDecodeError) as error:
        raise translated(error, path) from error
    return _ours(con, path, schema, settings)


def _ours(con: Connection, path: str, schema: int, settings: "tuple[str, ...]") -> Connection:
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
        row = con.execute("SELECT KeyValue FROM DBConfig WHERE KeyName = 'ARCACCT_SCHEMA'").fetchone()
    except OperationalError as error:
        if "no such table" not in str(error):
            raise
        row = None
    if row is None or not str(row[0]).isdecimal():
        raise SchemaError(f"{path}: not a database of arcacct; give the path of arcacct's, or move this file away")
    return int(row[0])


def other_version(con: Connection, path: str, found: int, known: int, oldest: int = 0) -> SchemaError:
    """The complaint about a schema that this program does not know how to use, or that is of the other database."""
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
    elif found < oldest:
        todo = "it is of arcacct 0.1: first upgrade it with arcacct 0.2 (`arcacct db upgrade`), then with this program"
    else:
        todo = f"this program needs {known}: run `arcacct db upgrade`"
    return SchemaError(f"{path}: schema version {found}; {todo}")


def translated(error: BaseException, path: str) -> StoreError:
    """SQLite's error as one of ours, with the file it is about."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return StoreBusy(f"{path}: {text}; another process holds it, try again later")
    if "unable to open" in text:
        import os  # noqa: PLC0415  only for complaints: it would cost each hook a millisecond

        if not os.path.exists(path):
            return StoreError(f"{path}: no such database; create it with `arcacct db init`")
    if "unable to open" in text or "readonly" in text:
        return StoreError(f"{path}: {text}; check that this user may write the file and its directory")
    if isinstance(error, UnicodeDecodeError):
        # SQLite reports damage with the names that it read.
        text = "malformed: a name in it is not text"
    if advice := _of_system(text, path):
        return StoreError(f"{path}: {text}; {advice}")
    if "interrupted" in text:
        text = "the query took too long and was stopped"
    elif "malformed" in text or "not a database" in text or "UTF-8" in text:
        words = " ".join(text.split())
        text = f"{words}; it is damaged or not a database: `arcacct db check` shows details, {_BACK}"
    return StoreError(f"{path}: {text}")


def _of_system(text: str, path: str) -> str:
    """What to do if SQLite's error is about the disk or the memory; empty: it is not."""
    if "out of memory" in text:
        return "this process is at its limit: raise it (ulimit -v, MemoryMax)"
    if "disk is full" not in text and "disk I/O" not in text:
        return ""
    import os  # noqa: PLC0415  only for complaints

    folder = os.path.dirname(path) or "."
    try:
        found = os.statvfs(folder)
        is_full = found.f_bavail == 0 or (found.f_files > 0 and found.f_favail == 0)
    except OSError:
        is_full = False
    if is_full:
        return f"the file system of {folder} is full: free space there; nothing recorded is lost"
    return (
        f"look at the file system of {folder} (df {folder}, a quota, dmesg): it is full or failed, or temporary files"
        " have no space (TMPDIR)"
    )


# The one way to write: in turn, in one BEGIN IMMEDIATE. On the hook's path.
#
# Writers wait for each other on a flock, which wakes the next one at once; SQLite's own busy handler sleeps and is
# unfair (200 writers: 1 s at worst against 13 s). The lock is on a file of its own: closing any descriptor of the
# database would drop SQLite's locks. It is held for at most 50 ms; checkpoints sync outside it
# (`checkpoint`).


WAL_LIMIT_BYTES = 512 * 1024
"""
A WAL above this size is written back: after some fifteen hooks.

(A hook that is alone reads the WAL when it opens the database, 0.6 ms a MB; a child that writes it back costs as much
CPU as a hook.)
"""


class Transaction:
    """
    A context manager: wait for the turn, BEGIN IMMEDIATE, then COMMIT, or ROLLBACK when the block raises.

    ``lock_path`` is the queue of the database's writers, ``database`` its path, for complaints. What SQLite refuses, in
    the block too, becomes StoreBusy or StoreError. ``patient`` is called when the wait for the turn starts (True) and
    when it is over (False).
    """

    __slots__ = ("con", "database", "fd", "lock_path", "patient")

    def __init__(self, con: Connection, database: str, lock_path: str, patient: "object" = None) -> None:
        self.con = con
        self.database = database
        self.lock_path = lock_path
        self.patient = patient
        self.fd = -1

    def __enter__(self) -> Connection:
        self.fd = open_lock(self.lock_path)
        try:
            if self.patient is not None:
                self.patient(True)  # type: ignore[operator]  # typing.Callable costs an import
            fcntl.flock(self.fd, fcntl.LOCK_EX)
            if self.patient is not None:
                self.patient(False)  # type: ignore[operator]
            self.con.execute("BEGIN IMMEDIATE")
        except DatabaseError as error:
            posix.close(self.fd)
            raise translated(error, self.database) from error
        except OSError as error:
            posix.close(self.fd)
            raise no_lock(self.lock_path, error) from error
        except BaseException:
            posix.close(self.fd)
            raise
        return self.con

    def __exit__(
        self, kind: "type[BaseException] | None", error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        try:
            if error is None:
                self.con.execute("COMMIT")
            elif isinstance(error, DatabaseError):
                raise translated(error, self.database) from error
        except DatabaseError as refused:
            raise translated(refused, self.database) from refused
        finally:
            try:
                if self.con.in_transaction:
                    self.con.execute("ROLLBACK")
            finally:
                posix.close(self.fd)


def no_lock(path: str, error: OSError) -> StoreError:
    """The complaint about a file that the system does not lock."""
    return StoreError(
        f"{path}: cannot be locked: {error.strerror}; put the databases on a local disk, or start the lock service of"
        " that file system (NFS: rpc.statd)"
    )


def open_lock(path: str) -> int:
    """
    A descriptor of a lock file, made when it is missing: for its owner only, whatever the umask.

    Raises StoreError when this user may not use it.
    """
    try:
        try:
            return posix.open(path, posix.O_RDWR | posix.O_CLOEXEC)
        except FileNotFoundError:
            fd = posix.open(path, posix.O_RDWR | posix.O_CREAT | posix.O_CLOEXEC, 0o600)
            posix.fchmod(fd, 0o600)
            return fd
    except OSError as error:
        raise StoreError(f"{path}: cannot be used: {error.strerror}; run as the owner of the database") from error
