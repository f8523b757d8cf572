"""Opening our databases for the commands: created or taken forward when needed, then read and written."""

from __future__ import annotations

import ctypes
import os
from _sqlite3 import Connection, DatabaseError
from contextlib import contextmanager

from arcacct.store.connect import ACCOUNTING_SCHEMA, PUBLISHING_SCHEMA, open_database, open_for_reading, translated
from arcacct.store.recorder import escaped
from arcacct.store.schema import ACCOUNTING, PUBLISHING, ensure, in_memory, open_to_group
from arcacct.store.transaction import Transaction, shrink_wal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcacct.conf.places import Places


def initialise(here: Places) -> dict[str, list[int]]:
    """
    Create both databases, or take them forward; the numbers of the scripts that ran, by path.

    Also applies ``read_group`` to databases that are there. Raises StoreError and its kinds.
    """
    done = {}
    for path, kind in ((here.database, ACCOUNTING), (here.publishing_database, PUBLISHING)):
        done[path] = ensure(path, kind, read_group=here.read_group)
        open_to_group(path, here.read_group)
    return done


def open_accounting(here: Places) -> Connection:
    """The accounting database for writing, created when it is missing. Raises StoreError and its kinds."""
    ensure(here.database, ACCOUNTING, read_group=here.read_group)
    return open_database(here.database, ACCOUNTING_SCHEMA)


def open_publishing(here: Places) -> Connection:
    """The publishing database for writing, created when it is missing. Raises StoreError and its kinds."""
    ensure(here.publishing_database, PUBLISHING, read_group=here.read_group)
    con = open_database(here.publishing_database, PUBLISHING_SCHEMA)
    # What was sent must never be forgotten by a power cut.
    con.execute("PRAGMA synchronous = FULL")
    return con


def leave_open(con: Connection, path: str) -> None:
    """
    End the use of a database without closing it, for a process that is about to end.

    The last connection that closes removes -wal and -shm, and without them users who may only read the database
    cannot open it (INVARIANTS 7). Python closes every connection it can still find, at exit too, so this one is
    made one that it cannot.
    """
    shrink_wal(con, path)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(con))


@contextmanager
def translating(path: str) -> Iterator[None]:
    """What SQLite refuses inside becomes StoreBusy or StoreError, with the file it is about."""
    try:
        yield
    except DatabaseError as error:
        raise translated(error, path) from error


def read_accounting(here: Places) -> Connection:
    """The accounting database for reading only. Raises StoreError and its kinds."""
    return open_for_reading(here.database, ACCOUNTING_SCHEMA)


def read_publishing(here: Places) -> Connection:
    """The publishing database for reading only; an empty one in memory when nothing was ever published."""
    if os.path.exists(here.publishing_database):
        return open_for_reading(here.publishing_database, PUBLISHING_SCHEMA)
    return in_memory(PUBLISHING)


def writing(con: Connection, here: Places) -> Transaction:
    """One transaction on the accounting database, in turn with the hooks; keep it below 50 ms."""
    return Transaction(con, here.database, here.queue_lock)


def remembered_status_files(con: Connection) -> dict[str, tuple[int, int, int]]:
    """``(size, mtime_ns, ctime_ns)`` by escaped JobID of every status file that a sweep has read."""
    return {
        job_id: (size, mtime_ns, ctime_ns)
        for job_id, size, mtime_ns, ctime_ns in con.execute(
            "SELECT JobID, Size, MTimeNs, CTimeNs FROM StatusFiles JOIN AAR USING (RecordID) WHERE Size IS NOT NULL"
        )
    }


def record_count(con: Connection, job_id: str) -> int:
    """1 when the database has a record of the job, else 0."""
    return int(con.execute("SELECT count(*) FROM AAR WHERE JobID = ?", (escaped(job_id),)).fetchone()[0])
