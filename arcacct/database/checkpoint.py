"""Write the WAL back into the database while no process waits for the disk (INVARIANTS 7 and 13)."""

import fcntl
import posix
import time

from arcacct.database.connection import WAL_LIMIT_BYTES, Connection, DatabaseError, connect, open_lock, translated, uri
from arcacct.errors import StoreError

_TRIES = 8
"""Maximum number of passes; a pass succeeds if no process committed meanwhile."""
_RESETS, _RESET_PAUSE_S = 10, 0.002
"""How often the reset is tried, and the pause between: the queue waits for it."""
_MOST_WAL_BYTES = 64 * WAL_LIMIT_BYTES
"""A WAL that never stays still is reset all the same: from here on it costs every hook more than one wait."""


def shrink(con: Connection, database: str) -> None:
    """
    Write back a WAL that has grown above its limit and begin it anew.

    Does nothing when a reader is in the way or another process is at it, and raises nothing that SQLite or the file
    system refuses: what was committed is safe.
    """
    if _wal_bytes(database) <= WAL_LIMIT_BYTES:
        return
    fd = begun(database)
    if fd >= 0:
        try:
            shrink_begun(con, database)
        finally:
            posix.close(fd)


def begun(database: str) -> int:
    """A descriptor that keeps other processes from doing the same; -1 if one does it now, or it is not allowed."""
    try:
        fd = open_lock(_beside(database, "checkpoint.lock"))
    except StoreError:
        return -1
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        posix.close(fd)
        return -1
    return fd


def shrink_begun(con: Connection, database: str) -> None:
    """`shrink` for who has the descriptor of `begun`."""
    try:
        timeout_ms = con.execute("PRAGMA busy_timeout").fetchone()[0]
        con.execute("PRAGMA busy_timeout = 0")
        reader = connect(uri(database, "ro"), isolation_level=None, uri=True)
        try:
            for tried in range(_TRIES):
                if _written_back(con, reader, database, force=tried == _TRIES - 1):
                    return
        finally:
            reader.close()
            con.execute(f"PRAGMA busy_timeout = {timeout_ms}")
    except (OSError, DatabaseError, StoreError):
        return


def _written_back(con: Connection, reader: Connection, database: str, *, force: bool) -> bool:
    """One pass: all syncs first, then the reset, if no process committed meanwhile."""
    before = _data_version(con)
    # While a process reads, no hook restarts the WAL, with the sync of its header.
    reader.execute("BEGIN")
    _data_version(reader)
    con.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    fd = open_lock(_beside(database, "queue.lock"))
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        reader.execute("COMMIT")
        if _data_version(con) != before and not (force and _wal_bytes(database) > _MOST_WAL_BYTES):
            return False
        # A hook that just opens the database reads for a moment.
        for _ in range(_RESETS):
            if not con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                break
            time.sleep(_RESET_PAUSE_S)
        else:
            # A reader still needs it.
            return True
        # The first commit syncs the new header: A-REX need not wait for that. (SQLite writes nothing that is there
        # already, so it uses nanoseconds.)
        con.execute(
            "INSERT INTO DBConfig VALUES ('ARCACCT_LAST_CHECKPOINT', ?)"
            " ON CONFLICT (KeyName) DO UPDATE SET KeyValue = excluded.KeyValue",
            (str(time.time_ns()),),
        )
        return True
    finally:
        if reader.in_transaction:
            reader.execute("COMMIT")
        posix.close(fd)


def _beside(database: str, name: str) -> str:
    return f"{database.rpartition('/')[0]}/{name}"


def _data_version(con: Connection) -> int:
    """A number that is another one after a commit of another connection."""
    return int(con.execute("PRAGMA data_version").fetchone()[0])


def _wal_bytes(database: str) -> int:
    try:
        return posix.stat(database + "-wal").st_size
    except OSError:
        return 0


def make_durable(database: str) -> None:
    """
    Sync all that was committed so far, with no lock held: no power cut takes it back.

    (What is not in the WAL any more was synced when it was written back.) Raises StoreError.
    """
    try:
        fd = posix.open(database + "-wal", posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            posix.fsync(fd)
        finally:
            posix.close(fd)
    except FileNotFoundError:
        return
    except OSError as error:
        raise translated(error, database) from error
