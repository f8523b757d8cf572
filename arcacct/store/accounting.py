"""Opening our databases for the commands: created or taken forward when needed, then read and written."""

from __future__ import annotations

from _sqlite3 import Connection

from arcacct.conf.places import Places
from arcacct.store.connect import ACCOUNTING_SCHEMA, PUBLISHING_SCHEMA, open_database
from arcacct.store.recorder import escaped
from arcacct.store.schema import ACCOUNTING, PUBLISHING, ensure
from arcacct.store.transaction import Transaction


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
