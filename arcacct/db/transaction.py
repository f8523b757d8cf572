"""
The one way to write: in turn, in one BEGIN IMMEDIATE. On the hook's path.

Writers wait for each other on a flock, which wakes the next one at once; SQLite's own busy handler sleeps and is
unfair (200 writers: 1 s at worst against 13 s). The lock is on a file of its own: closing any descriptor of the
database would drop SQLite's locks. Nobody holds it for more than 50 ms; checkpoints sync outside of it (`checkpoint`).
"""

import fcntl
import posix

from arcacct.db.connect import translated
from arcacct.db.engine import Connection, DatabaseError
from arcacct.errors import StoreError

WAL_LIMIT_BYTES = 512 * 1024
"""
A WAL above this size is written back: after some fifteen hooks.

(A hook that is alone reads the WAL when it opens the database, 0.6 ms a MB; a child that writes it back costs as much
CPU as a hook.)
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


class Transaction:
    """
    A context manager: wait for the turn, BEGIN IMMEDIATE, then COMMIT, or ROLLBACK when the block raises.

    ``lock_path`` is the queue of the database's writers, ``database`` its path, for complaints. What SQLite refuses, in
    the block too, becomes StoreBusy or StoreError. ``patient`` is told when the wait for the turn begins (True) and
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
