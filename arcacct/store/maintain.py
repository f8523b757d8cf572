"""
Care of the databases: backup while others write, restore, and making them small and fast again.

Copies are made by SQLite's own means only: a copy of the file alone lacks what is in the WAL, and one over a file in
use is damaged at once (INVARIANTS 9).
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from _sqlite3 import Connection, DatabaseError, connect
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

import psutil

from arcacct.conf.places import Places
from arcacct.errors import InputError, SchemaError, StoreBusy, StoreError
from arcacct.store import accounting
from arcacct.store.connect import open_for_reading, other_version, translated, uri, version
from arcacct.store.maintenance import let_through, maintenance
from arcacct.store.schema import ACCOUNTING, PUBLISHING, Kind, backup, ensure, open_to_group, sync
from arcacct.store.spool import private_directory
from arcacct.store.transaction import open_lock

PATIENCE_S = 30.0
"""How long to wait for processes that use a database, before a restore gives up."""
ARCHIVE_MARK = "ARCACCT_ARCHIVE"
_SUFFIXES = ("", "-wal", "-shm")


class Copy(NamedTuple):
    """One backup that was made."""

    path: str
    size_bytes: int


class Restored(NamedTuple):
    """What a restore did."""

    database: str
    kept: str | None
    """The old database, moved out of the way."""
    scripts: tuple[int, ...]
    """Schema scripts that took the backup forward."""


class Sizes(NamedTuple):
    """Bytes of a database file."""

    before: int
    after: int


def backups(here: Places, directory: str) -> list[Copy]:
    """
    Whole, checked copies of both databases in a directory, which is made if it is missing; others go on writing.

    Their names have the time. Raises StoreError, and leaves no half copy behind.
    """
    try:
        private_directory(os.path.abspath(directory))
    except OSError as error:
        raise StoreError(f"{directory}: cannot be made: {error.strerror}") from error
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return [
        _backup(path, kind, os.path.join(os.path.abspath(directory), f"{kind.folder}-{now}.db"))
        for path, kind in ((here.database, ACCOUNTING), (here.publishing_database, PUBLISHING))
        if kind is ACCOUNTING or os.path.exists(path)
    ]


def _backup(path: str, kind: Kind, target: str) -> Copy:
    if os.path.exists(target):
        raise StoreError(f"{target}: is there already; wait a second, or choose another directory")
    with closing(open_for_reading(path, kind.schema)) as con:
        backup(con, target)
    try:
        _check_copy(target)
    except StoreError:
        os.unlink(target)
        raise
    return Copy(target, os.path.getsize(target))


def _check_copy(path: str) -> None:
    """Raises StoreError for a copy that is damaged, which means that what was copied is."""
    with closing(_connect_unused(path)) as con:
        found = _one(con, path, "PRAGMA quick_check(1)")
    if found != "ok":
        raise StoreError(f"{path}: the copy is damaged, so the database is: {found}; run `arcacct db check`")


def _connect_unused(path: str) -> Connection:
    """A file that nobody uses; without locks, and without making -wal and -shm beside it."""
    try:
        return connect(f"{uri(path, 'ro')}&immutable=1", isolation_level=None, uri=True)
    except DatabaseError as error:
        raise translated(error, path) from error


def _one(con: Connection, path: str, query: str) -> object:
    try:
        return con.execute(query).fetchone()[0]
    except DatabaseError as error:
        raise translated(error, path) from error


def restore(here: Places, source: str, *, patience_s: float = PATIENCE_S) -> Restored:
    """
    Put a backup in the place of the database that it is one of; the old one is kept beside it under another name.

    Hooks spool meanwhile. Raises SchemaError for a file that is no backup of ours or newer than this program,
    InputError when it cannot be read, StoreBusy when other processes do not let go of the database.
    """
    kind = _kind_of(source, here)
    path = here.database if kind is ACCOUNTING else here.publishing_database
    with _prepared(here, source, kind) as (copy, done), maintenance(here.database, "restore"):
        lock = open_lock(here.queue_lock)
        try:
            let_through(lock)
            _wait_until_unused(path, patience_s)
            kept = _exchange(path, copy)
        finally:
            os.close(lock)
        open_to_group(path, here.read_group)
    return Restored(path, kept, tuple(done))


def _kind_of(source: str, here: Places) -> Kind:
    if not os.path.isfile(source):
        raise InputError(f"{source}: no such file; give a backup that `arcacct db backup` made")
    live = (here.database, here.publishing_database)
    if any(os.path.exists(one) and os.path.samefile(source, one) for one in live):
        raise InputError(f"{source}: that is the database itself; give a backup")
    if os.path.exists(f"{source}-wal"):
        raise InputError(f"{source}: it is in use (there is a -wal beside it); make a copy with `arcacct db backup`")
    with closing(_connect_unused(source)) as con, accounting.translating(source):
        tables = {name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        found = version(con, source)
        kind = ACCOUNTING if "AAR" in tables else PUBLISHING
        if found > kind.schema:
            raise other_version(source, found, kind.schema)
        if con.execute("SELECT 1 FROM DBConfig WHERE KeyName = ?", (ARCHIVE_MARK,)).fetchone():
            raise SchemaError(f"{source}: an archive of pruned jobs, no backup; queries can attach it")
    return kind


@contextmanager
def _prepared(here: Places, source: str, kind: Kind) -> Iterator[tuple[str, list[int]]]:
    """A copy of the backup in our directory, sound, of this program's schema, in a new life, and on disk."""
    folder = os.path.join(here.directory, "restore")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        private_directory(folder)
        copy = os.path.join(folder, f"{kind.folder}.db")
        with closing(_connect_unused(source)) as con:
            backup(con, copy)
        with closing(_connect_unused(copy)) as con:
            found = _one(con, source, "PRAGMA integrity_check(1)")
        if found != "ok":
            raise StoreError(f"{source}: it is damaged: {found}; take an older backup")
        done = ensure(copy, kind)
        _begin_new_life(copy, kind)
        _own_as(copy, here.directory)
        sync(copy)
        yield copy, done
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror}; nothing was changed") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _begin_new_life(path: str, kind: Kind) -> None:
    """Cursors of the publisher belong to the old life: what is sent is compared with what was sent (INVARIANTS 3)."""
    con = connect(path, isolation_level=None)
    try:
        if kind is ACCOUNTING:
            con.execute(
                "UPDATE DBConfig SET KeyValue = ? WHERE KeyName = 'ARCACCT_INCARNATION'", (secrets.token_hex(16),)
            )
    except DatabaseError as error:
        raise translated(error, path) from error
    finally:
        # The last connection takes the WAL into the file.
        con.close()


def _own_as(path: str, directory: str) -> None:
    """Root restores what belongs to the user of A-REX."""
    if os.geteuid() == 0:
        status = os.stat(directory)
        os.chown(path, status.st_uid, status.st_gid)


def _wait_until_unused(path: str, patience_s: float) -> None:
    """Raises StoreBusy when other processes still have the database open: they would go on writing the old one."""
    deadline = time.monotonic() + patience_s
    while holders := _holders(path):
        if time.monotonic() > deadline:
            raise StoreBusy(f"{path}: in use by {', '.join(holders)}; stop them and try again")
        time.sleep(0.2)


def _holders(path: str) -> list[str]:
    """The other processes that have a database open, as far as this user may see."""
    files = {os.path.realpath(path) + suffix for suffix in _SUFFIXES}
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and any(file.path in files for file in process.open_files()):
                found.append(f"{process.name()} ({process.pid})")
        except psutil.Error:
            continue
    return found


def _exchange(path: str, copy: str) -> str | None:
    """
    The old database out of the way, with its WAL, and the copy in its place; the old one's new name.

    Killed in between, there is no database, and `maintenance` tells everybody why.
    """
    kept = f"{path}.before-restore.{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    old = [suffix for suffix in _SUFFIXES if os.path.exists(path + suffix)]
    for suffix in old:
        os.rename(path + suffix, kept + suffix)
    os.rename(copy, path)
    sync(os.path.dirname(path))
    return kept if "" in old else None


def optimize(here: Places, con: Connection) -> None:
    """Let SQLite look at a sample of each index, so that it chooses well; takes some ten milliseconds."""
    con.execute("PRAGMA analysis_limit = 400")
    with accounting.writing(con, here):
        con.execute("ANALYZE")


def shrink(here: Places, con: Connection) -> Sizes:
    """
    Write the whole database anew, without the room that deleted rows left; hooks spool meanwhile.

    Raises StoreError when the disk has no room for it, StoreBusy when somebody else writes.
    """
    before = os.path.getsize(here.database)
    room = shutil.disk_usage(here.directory).free
    if room < 2 * before:
        raise StoreError(
            f"{here.directory}: {room / 1e6:,.0f} MB are free and {2 * before / 1e6:,.0f} MB are needed; make room"
        )
    with maintenance(here.database, "optimize"), accounting.translating(here.database):
        lock = open_lock(here.queue_lock)
        try:
            let_through(lock)
            con.execute("VACUUM")
            con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            os.close(lock)
    return Sizes(before, os.path.getsize(here.database))
