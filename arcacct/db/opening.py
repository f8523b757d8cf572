"""Opening our databases for the commands: created or taken forward when needed, then read and written."""

from __future__ import annotations

import ctypes
import os
from _sqlite3 import Connection, DatabaseError, DataError, IntegrityError, InterfaceError, ProgrammingError
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial

from arcacct.config.paths import Places
from arcacct.db import checkpoint, place
from arcacct.db.connect import ACCOUNTING_SCHEMA, PUBLISHING_SCHEMA, open_database, open_for_reading, translated
from arcacct.db.header import refuse_foreign
from arcacct.db.maintenance import locked, refuse_maintenance
from arcacct.db.schema import ACCOUNTING, PUBLISHING, ensure, in_memory, open_to_group
from arcacct.db.transaction import Transaction, open_lock
from arcacct.errors import SchemaError, StoreError

READABLE = partial(str, encoding="utf-8", errors="replace")
"""How a database's texts are read: one name that is no UTF-8 must not hide what there is beside it."""
_OF_VALUES = (DataError, IntegrityError, InterfaceError, ProgrammingError)


def initialise(here: Places) -> dict[str, list[int]]:
    """
    Create both databases, or take them forward; the numbers of the scripts that ran, by path.

    Also applies ``read_group`` to databases that are there. Raises as `open_accounting`.
    """
    is_there = refuse_unasked(here)
    done = {}
    for path, kind in ((here.database, ACCOUNTING), (here.publishing_database, PUBLISHING)):
        done[path] = ensure(path, kind, read_group=here.read_group, may_create=kind is PUBLISHING or not is_there)
        open_to_group(path, here.read_group)
    with closing(open_database(here.database, ACCOUNTING_SCHEMA)) as con:
        place.settle(here, con)
    return done


def refuse_unasked(here: Places) -> bool:
    """
    Refuse work on a database that is not this control directory's, or under maintenance, or to begin a second one.

    Returns whether the database is there. Raises ConfigError with the ways out, StoreBusy, StoreError.
    """
    place.refuse_no_file(here.database, here.publishing_database)
    # In this order: the maintenance of a move that was interrupted keeps hooks away from the old place, and stays.
    place.refuse_another(here)
    refuse_maintenance(here.database)
    return place.refuse_lost(here)


def open_accounting(here: Places) -> Connection:
    """
    The accounting database for writing, created when it is missing and nothing tells that there was one.

    Its place is noted if it is not yet. Raises ConfigError when it would be a second one for the control directory,
    StoreError and its kinds.
    """
    is_there = refuse_unasked(here)
    con = None
    if is_there:
        # To look whether it has to be taken forward one would open and close it: whoever closes last writes the WAL
        # back, and all hooks wait for his disk.
        refuse_foreign(here.database)
        with suppress(SchemaError):
            con = open_database(here.database, ACCOUNTING_SCHEMA)
    if con is None:
        # What is there now may be moved away by another process in this moment: no empty one takes its place.
        ensure(here.database, ACCOUNTING, read_group=here.read_group, may_create=not is_there)
        con = open_database(here.database, ACCOUNTING_SCHEMA)
    try:
        place.settle(here, con)
    except BaseException:
        con.close()
        raise
    return _for_records(con)


def _for_records(con: Connection) -> Connection:
    # Statement journals of inserts with triggers: in memory they cost half (18 us a record against 42).
    con.execute("PRAGMA temp_store = MEMORY")
    # SQLite's own 2 MB are less than the index pages that a sweep comes back to.
    con.execute("PRAGMA cache_size = -16000")
    return con


def open_as_it_is(here: Places) -> Connection:
    """
    The accounting database for a rehearsal: not made and not taken forward; an empty one in memory if there is none.

    Raises StoreError and its kinds, SchemaError for a database of another version, ConfigError where the command
    itself would refuse to begin one.
    """
    place.refuse_no_file(here.database)
    place.refuse_another(here)
    if place.refuse_lost(here):
        return open_database(here.database, ACCOUNTING_SCHEMA)
    return in_memory(ACCOUNTING)


def open_publishing(here: Places) -> Connection:
    """The publishing database for writing, created when it is missing. Raises as `open_accounting`."""
    refuse_unasked(here)
    ensure(here.publishing_database, PUBLISHING, read_group=here.read_group)
    return _for_the_ledger(open_database(here.publishing_database, PUBLISHING_SCHEMA))


def _for_the_ledger(con: Connection) -> Connection:
    # What was sent must never be forgotten by a power cut.
    con.execute("PRAGMA synchronous = FULL")
    # One writer for as long as a run takes: without SQLite's own checkpoints a million records make gigabytes of WAL.
    con.execute("PRAGMA wal_autocheckpoint = 1000")
    # 8 MB, not 2: jobs are looked up by hashes, which stand anywhere, and the same ones twice within a moment.
    con.execute("PRAGMA cache_size = -8000")
    return con


def open_again(here: Places) -> tuple[Connection, Connection]:
    """
    The accounting and the publishing database, for one more thread of a process that has both open.

    Nothing but SQLite touches the files, so nothing is looked at before: closing any other descriptor of a database
    drops the locks of all connections that this process has to it, and whoever closes it elsewhere then takes the WAL
    away from under them (INVARIANTS 7; seen: a damaged ledger). Raises StoreError and its kinds.
    """
    con = _for_records(open_database(here.database, ACCOUNTING_SCHEMA))
    try:
        return con, _for_the_ledger(open_database(here.publishing_database, PUBLISHING_SCHEMA))
    except BaseException:
        con.close()
        raise


@contextmanager
def one_moment(con: Connection) -> Iterator[None]:
    """All that is read inside is as it was at one moment; short, and without other transactions inside."""
    con.execute("BEGIN")
    try:
        yield
    finally:
        con.execute("COMMIT")


def shrink_page_cache(con: Connection) -> None:
    """From now on nothing is read twice: no memory for pages that might come back."""
    con.execute("PRAGMA cache_size = -2000")


def leave_open(con: Connection, path: str) -> None:
    """
    End the use of a database without closing it, for a process that is about to end.

    The last connection that closes removes -wal and -shm, and without them users who may only read the database
    cannot open it (INVARIANTS 7). Python closes every connection it can still find, at exit too, so this one is
    made one that it cannot.
    """
    checkpoint.shrink(con, path)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(con))


@contextmanager
def accounting(here: Places) -> Iterator[Connection]:
    """The accounting database for a command that writes and then ends: as `open_accounting`, then `leave_open`."""
    con = open_accounting(here)
    try:
        yield con
    finally:
        leave_open(con, here.database)


@contextmanager
def close_or_leave_open(con: Connection, path: str, here: Places) -> Iterator[Connection]:
    """Close a connection at the end, or leave it open where others than the owner may read (``read_group``)."""
    try:
        yield con
    finally:
        if here.read_group is None:
            # Whoever closes last writes the WAL back with all hooks waiting: there is to be nothing left for that.
            write_back(con)
            con.close()
        else:
            leave_open(con, path)


@contextmanager
def translating(path: str) -> Iterator[None]:
    """What SQLite refuses inside becomes StoreBusy or StoreError, with the file it is about."""
    try:
        yield
    except (DatabaseError, UnicodeDecodeError) as error:
        raise translated(error, path) from error


def refuses_values(error: StoreError) -> bool:
    """Whether it is the values of a row that SQLite refused, and the database itself is well."""
    return isinstance(error.__cause__, _OF_VALUES)


def read_accounting(here: Places) -> Connection:
    """The accounting database for reading only. Raises StoreError and its kinds."""
    require(here)
    con = open_for_reading(here.database, ACCOUNTING_SCHEMA)
    con.text_factory = READABLE
    return con


def require(here: Places) -> None:
    """For commands that only read: raise StoreError when there is no database, with what can be done about it."""
    place.refuse_no_file(here.database)
    place.refuse_missing(here)


def read_publishing(here: Places) -> Connection:
    """
    The publishing database for reading only; an empty one in memory when nothing was ever published.

    Raises ConfigError where not even an accounting database could be begun, StoreError and its kinds.
    """
    if os.path.exists(here.publishing_database):
        place.refuse_no_file(here.publishing_database)
        return open_for_reading(here.publishing_database, PUBLISHING_SCHEMA)
    place.refuse_misplaced(here)
    return in_memory(PUBLISHING)


@contextmanager
def writing(con: Connection, here: Places) -> Iterator[Connection]:
    """One transaction on the accounting database, in turn with the hooks; keep it below 50 ms."""
    with writing_much(con, here):
        yield con
    checkpoint.shrink(con, here.database)


@contextmanager
def rehearsing(con: Connection, here: Places) -> Iterator[Connection]:
    """A transaction on the accounting database that is taken back at its end, in turn with the hooks as `writing`."""
    turn = locked(open_lock(here.queue_lock)) if os.path.isdir(here.directory) else nullcontext()
    with turn, translating(here.database):
        con.execute("BEGIN IMMEDIATE")
        try:
            yield con
        finally:
            con.execute("ROLLBACK")


def writing_much(con: Connection, here: Places) -> Transaction:
    """One of very many transactions: the WAL may grow, and the caller uses `write_back` every few MB."""
    return Transaction(con, here.database, here.queue_lock)


def write_back(con: Connection) -> None:
    """
    Write what is in the WAL back into the database, without holding up any hook; the WAL begins anew after it.

    (It takes longer than the transactions that filled it: an fsync of each file.)
    """
    # What was committed is safe: this is housekeeping.
    with suppress(DatabaseError):
        con.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
