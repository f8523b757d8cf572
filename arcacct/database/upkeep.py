"""Maintenance of the databases: backup while others write, restore, compaction and statistics."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain, count
from sqlite3 import Connection, DatabaseError, connect
from typing import NamedTuple

import psutil

from arcacct.config.paths import Places, refuse_of_arex
from arcacct.database import access, durable, incarnation, integrity, location, schema
from arcacct.database.access import require_own_schema
from arcacct.database.connection import ACCOUNTING_SCHEMA, open_database, open_for_reading, uri
from arcacct.database.durable import BACKUP, CHECK, UNFINISHED, alone, killed, last_done, log_done, maintenance
from arcacct.database.schema import ACCOUNTING, PUBLISHING, DatabaseKind, backup, ensure, note, noted, sync
from arcacct.errors import InputError, SchemaError, StoreBusy, StoreError
from arcacct.files.directories import private_directory, unseen
from arcacct.files.safe_open import TEMPORARY, Directory, open_directory

# Maintenance of the databases: backup while others write, restore, compaction and statistics.  Copies are made by
# SQLite only: a copy of the file alone lacks the WAL, and a copy over a file in use is damaged at once (INVARIANTS 9).


PATIENCE_S = 30.0
"""How long to wait for processes that use a database, before a restore gives up."""
ARCHIVE_MARK = "ARCACCT_ARCHIVE"
_COPY = re.compile(r"(accounting|publishing)-[0-9TZ]+\.db(\.partial)?(-journal|-wal|-shm)?")
SUFFIXES = ("", "-wal", "-shm")


class BackupFile(NamedTuple):
    """One backup that was made."""

    path: str
    size_bytes: int


class Restored(NamedTuple):
    """The result of a restore."""

    database: str
    kept: str | None
    """The old database, under its new name."""
    scripts: tuple[int, ...]
    """Schema scripts that upgraded the backup."""


def backups(here: Places, directory: str) -> list[BackupFile]:
    """
    Write complete, checked copies of both databases into a directory, created if missing; other processes can write.

    Their names have the time. Raises as `backup_directory`, and leaves no incomplete copy.
    """
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    with backup_directory(here, directory) as place:
        for old in killed(place.path, UNFINISHED):
            # Only files that can only be unfinished copies of ours.
            if all(_COPY.fullmatch(name) for name in os.listdir(old)):
                shutil.rmtree(old, ignore_errors=True)
        copies = [_backup(path, kind, place, f"{kind.folder}-{now}.db") for path, kind in files(here)]
    log_done(here.directory, BACKUP)
    return copies


@contextmanager
def backup_directory(here: Places, directory: str) -> Iterator[Directory]:
    """
    Open a directory for copies of our databases, created (0700) if missing.

    Raises StoreError, InputError for a link, ConfigError for one that A-REX writes into.
    """
    access.require(here)
    refuse_of_arex(directory, here.controldir)
    try:
        with open_directory(directory, make=0o700) as place:
            # SQLite uses paths. The owner of the databases may do anything with them anyway.
            if not place.sure and place.status.st_uid != os.stat(here.directory).st_uid:
                raise StoreError(f"{place.path}: other users can replace files there; choose a directory of your own")
            yield place
    except OSError as error:
        raise StoreError(
            f"{error.filename or directory}: {error.strerror}; choose a directory that this user may write"
        ) from error


def _backup(path: str, kind: DatabaseKind, place: Directory, name: str) -> BackupFile:
    target = place.path_of(name)
    if os.path.lexists(target):
        raise StoreError(f"{target}: already exists; wait a second, or choose another directory")
    # Created where no other user can have put a link: the name is predictable, and all users may write to /tmp.
    with place.make(f"{TEMPORARY}{secrets.token_hex(8)}") as folder:
        fcntl.flock(folder.fd, fcntl.LOCK_EX)
        copy = folder.path_of(name)
        try:
            copy_whole(path, kind, copy)
            size_bytes = os.path.getsize(copy)
            os.rename(copy, target)
            sync(place.path)
        finally:
            shutil.rmtree(folder.path, ignore_errors=True)
    return BackupFile(target, size_bytes)


def files(here: Places) -> list[tuple[str, DatabaseKind]]:
    """Return the existing databases: a site that never published has no ledger."""
    both = ((here.database, ACCOUNTING), (here.publishing_database, PUBLISHING))
    return [(path, kind) for path, kind in both if os.path.exists(path)]


def copy_whole(path: str, kind: DatabaseKind, copy: str) -> None:
    """Copy a database to disk. Raises StoreError, also if the copy is damaged: then the source is damaged too."""
    with closing(open_for_reading(path, kind.schema)) as con:
        backup(con, copy)
    with access.translating(copy), closing(connect_unused(copy)) as con:
        (found,) = con.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreError(f"{copy}: the copy and therefore the database are damaged: {found}; run `arcacct db check`")


def connect_unused(path: str) -> Connection:
    """Open an unused file without locks, and without creating -wal and -shm files. Raises DatabaseError."""
    return connect(f"{uri(path, 'ro')}&immutable=1", isolation_level=None, uri=True)


def restore(here: Places, source: str, *, patience_s: float = PATIENCE_S) -> Restored:
    """
    Replace a database with its backup; the old one is kept next to it under another name.

    A backup of the accounting database continues from its own incarnation and from that of the replaced database, or
    the recorded one. Events are spooled meanwhile. Raises SchemaError for a file that is not a backup of ours (its
    schema must be ours, without foreign triggers and views) or newer than this program, InputError if it is unreadable,
    StoreBusy if other processes do not close the database, ConfigError as `may_restore`.
    """
    may_restore(here)
    kind = _kind_of(source, here)
    path = here.database if kind is ACCOUNTING else here.publishing_database
    with _prepared(here, source, kind) as (copy, done), alone(here.database, here.queue_lock, "restore"):
        wait_until_unused(path, patience_s)
        kept = _exchange(path, copy, "restore")
        schema.open_to_group(path, here.read_group)
        if kind is ACCOUNTING:
            _note(here)
    return Restored(path, kept, tuple(done))


def may_restore(here: Places) -> None:
    """Raise ConfigError if a backup must not be restored: the database is elsewhere, or the directory is wrong."""
    location.refuse_another(here)
    location.refuse_misplaced(here)


def _note(here: Places) -> None:
    """Note the place of the database that has just been put there."""
    with closing(open_for_reading(here.database, ACCOUNTING_SCHEMA)) as con:
        location.note_down(here, con, location.read(here))


def start_new_incarnation(here: Places) -> tuple[list[int], frozenset[str]]:
    """
    Create a new accounting database on the operator's request, even if an earlier one is recorded.

    Returns the schema scripts that created the database (none if it existed), and the incarnations that it continues.
    These are the incarnations in the ledger and the place file, also for an existing database. Events in the spool of
    the old place stay there and are drained later. Raises StoreError and its kinds.
    """
    note = location.read(here)
    known = frozenset(
        (*location.ledger_incarnations(here.publishing_database), *(() if note is None else (note.incarnation,)))
    )
    if location.has_database(here.database):
        done: list[int] = []
        durable.refuse_maintenance(here.database)
        ensure(here.database, ACCOUNTING, read_group=here.read_group)
        with closing(open_database(here.database, ACCOUNTING_SCHEMA)) as con:
            known -= schema.incarnation_history(con)
            if known:
                with access.writing(con, here):
                    schema.inherit_from(con, known)
    else:
        location.refuse_misplaced(here)
        done = _make_inheriting(here, known)
    _note(here)
    return done, known


def _make_inheriting(here: Places, known: Iterable[str]) -> list[int]:
    with _temp_directory(here, "new-life") as folder:
        made = os.path.join(folder, "accounting.db")
        done = ensure(made, ACCOUNTING)
        with access.translating(made), closing(connect(made, isolation_level=None)) as con:
            schema.inherit_from(con, sorted(known))
        location.own_as(made, here.directory)
        sync(made)
        with maintenance(here.database, "init"):
            if location.has_database(here.database):
                raise StoreBusy(f"{here.database}: another process has just created a database there; check it first")
            # There may be an empty file, and the WAL of a lost database.
            _exchange(here.database, made, "new-life")
            schema.open_to_group(here.database, here.read_group)
    return done


def _kind_of(source: str, here: Places) -> DatabaseKind:
    if not os.path.isfile(source):
        found = "a directory" if os.path.isdir(source) else unseen(source) or "no such file"
        raise InputError(f"{source}: {found}; give a backup that `arcacct db backup` made: accounting-TIME.db")
    live = (here.database, here.publishing_database)
    if any(os.path.exists(one) and os.path.samefile(source, one) for one in live):
        raise InputError(f"{source}: that is the database itself; give a backup")
    if os.path.exists(f"{source}-wal"):
        raise InputError(f"{source}: it is in use (a -wal file exists); make a copy with `arcacct db backup`")
    with access.translating(source), closing(connect_unused(source)) as con:
        tables = {name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "DBConfig" not in tables:
            raise SchemaError(f"{source}: not a database of arcacct; give a backup that `arcacct db backup` made")
        kind = ACCOUNTING if "AAR" in tables else PUBLISHING
        require_own_schema(con, source, kind, exactly=True)
        if noted(con, ARCHIVE_MARK) is not None:
            raise SchemaError(f"{source}: an archive of pruned jobs, not a backup; queries can attach it")
        if noted(con, schema.SNAPSHOT) is not None:
            raise SchemaError(f"{source}: a snapshot for readers, not a backup; use one that `arcacct db backup` made")
    return kind


@contextmanager
def _prepared(here: Places, source: str, kind: DatabaseKind) -> Iterator[tuple[str, list[int]]]:
    """A copy of the backup in our directory, sound, of this program's schema, in a new life, and on disk."""
    with _temp_directory(here, "restore") as folder:
        copy = os.path.join(folder, f"{kind.folder}.db")
        with access.translating(source):
            with closing(connect_unused(source)) as con:
                backup(con, copy)
            with closing(connect_unused(copy)) as con:
                # Check again: the file may be another one by now.
                require_own_schema(con, source, kind, exactly=True)
                (found,) = con.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise StoreError(f"{source}: it is damaged: {found}; use an older backup")
        done = ensure(copy, kind)
        # The last connection writes the WAL into the file.
        with access.translating(copy), closing(connect(copy, isolation_level=None, uri=True)) as con:
            con.execute("BEGIN IMMEDIATE")
            if kind is ACCOUNTING:
                _refuse_another_ces(here, source, schema.incarnation_history(con))
                # The publisher's cursors belong to the old life: what is sent is compared with what was (INVARIANTS 3).
                # It continues from the replaced database; if that is unreadable, from the recorded incarnation.
                known = location.incarnations_of(here.database)
                if not known and (before := location.read(here)) is not None:
                    known = frozenset((before.incarnation,))
                schema.new_incarnation(con, sorted(known))
                # Targets may have had all of it.
                schema.note_delivered(con, incarnation.highest_seq(con))
            else:
                # It lacks messages since the backup: the next run must know this, whatever else is restored.
                note(con, incarnation.RESTORED, 1)
            con.execute("COMMIT")
            if kind is not ACCOUNTING and location.has_database(here.publishing_database):
                # A damaged database, or that of another program, cannot be queried.
                with suppress(DatabaseError):
                    con.execute("ATTACH ? AS Replaced", (uri(here.publishing_database, "ro"),))
                    con.execute("BEGIN IMMEDIATE")
                    incarnation.compare_ledgers(con)
                    con.execute("COMMIT")
                if con.in_transaction:
                    con.execute("ROLLBACK")
        location.own_as(copy, here.directory)
        sync(copy)
        yield copy, done


def _refuse_another_ces(here: Places, source: str, incarnations: frozenset[str]) -> None:
    """
    Raise InputError for a backup of a database that the ledger never published from: it is of another CE.

    The restored database continues the incarnation of the replaced one, so its jobs would be sent as those of this CE.
    """
    published = location.ledger_history(here.publishing_database)
    if published and not incarnations & (published | location.incarnations_of(here.database)):
        raise InputError(
            f"{source}: not a backup of the database that {here.publishing_database} belongs to, maybe of another CE."
            " Give a backup of this CE. If it is one from before its databases were lost, move publishing.db away first"
        )


@contextmanager
def _temp_directory(here: Places, name: str) -> Iterator[str]:
    """A folder next to the databases, in which one is prepared; empty at the start, removed at the end."""
    folder = os.path.join(here.directory, name)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        private_directory(folder)
        yield folder
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror}; nothing was changed") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait_until_unused(path: str, patience_s: float) -> None:
    """Raise StoreBusy if other processes still have the database open: they would continue to write the old one."""
    deadline = time.monotonic() + patience_s
    while holders := _holders(path):
        if time.monotonic() > deadline:
            raise StoreBusy(f"{path}: in use by {', '.join(holders)}; stop them and try again")
        time.sleep(0.2)


def _holders(path: str) -> list[str]:
    """The other processes that have a database open, as far as this user may see."""
    files = {os.path.realpath(path) + suffix for suffix in SUFFIXES}
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and any(file.path in files for file in process.open_files()):
                found.append(f"{process.name()} ({process.pid})")
        except psutil.Error:
            continue
    return found


def _exchange(path: str, copy: str, work: str) -> str | None:
    """
    Rename the old database with its WAL, and put the copy in its place; return the old one's new name.

    If it is killed in between, there is no database, and `maintenance` tells all processes why.
    """
    if location.has_database(path):
        # A power cut between two renames would separate it from its WAL. A damaged database is renamed as it is.
        with suppress(DatabaseError), closing(connect(uri(path, "rw"), isolation_level=None, uri=True)) as con:
            con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    begin = f"{path}.before-{work}.{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
    # A database that was renamed within the same second stays.
    names = chain([f"{begin}Z"], (f"{begin}.{number}Z" for number in count(2)))
    kept = next(name for name in names if not any(os.path.exists(name + suffix) for suffix in SUFFIXES))
    old = [suffix for suffix in SUFFIXES if os.path.exists(path + suffix)]
    for suffix in old:
        os.rename(path + suffix, kept + suffix)
    # SQLite would use a WAL that a power cut left as that of the copy.
    sync(os.path.dirname(path))
    os.rename(copy, path)
    sync(os.path.dirname(path))
    return kept if "" in old else None


def optimize(here: Places, con: Connection) -> None:
    """Let SQLite read a sample of each index, so that it chooses well; takes some ten milliseconds."""
    con.execute("PRAGMA analysis_limit = 400")
    with access.writing(con, here):
        con.execute("ANALYZE")


def shrink(here: Places, con: Connection) -> tuple[int, int]:
    """
    Rewrite the whole database, without the space of deleted rows; events are spooled meanwhile.

    Raises StoreError if the disk has no space for it, StoreBusy if another process writes.
    """
    before = _room_for(here.database)
    with alone(here.database, here.queue_lock, "optimize"), access.translating(here.database):
        _write_anew(con)
    return before, os.path.getsize(here.database)


def _room_for(path: str) -> int:
    """Return the size of a database in bytes. Raises StoreError if the disk has no space to rewrite it."""
    size = os.path.getsize(path)
    directory = os.path.dirname(path)
    room = shutil.disk_usage(directory).free
    if room < 2 * size:
        raise StoreError(
            f"{directory}: {room / 1e6:,.0f} MB are free and {2 * size / 1e6:,.0f} MB are needed; free space"
        )
    return size


def _write_anew(con: Connection) -> None:
    con.execute("VACUUM")
    con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def rebuild_indexes(here: Places) -> Iterator[tuple[str, str]]:
    """
    Rebuild the damaged indexes of both databases from the rows if the last check found damage; return path and index.

    Events are spooled meanwhile. Raises StoreError, also if rows are damaged, ConfigError for a database of another
    control directory.
    """
    access.refuse_unasked(here)
    last = last_done(here.directory).get(CHECK)
    if last is None or last.is_well:
        return
    for path, kind in files(here):
        with access.translating(path), closing(open_database(path, kind.schema)) as con:
            found = {table: integrity.damage(con, table) for table in integrity.tables(con)}
            damaged = [(name, table) for table, one in found.items() for name in one.indexes]
            if rows := [table for table, one in found.items() if one.rows]:
                raise StoreError(
                    f"{path}: rows of {', '.join(rows)} are damaged; restore a backup: `arcacct db restore FILE`"
                )
            if not damaged:
                continue
            _room_for(path)
            with alone(here.database, here.queue_lock, "optimize"):
                for name, table in damaged:
                    _rebuild(con, name, table)
                # The damaged pages are now unused.
                _write_anew(con)
            yield from ((path, name) for name, _table in damaged)


def _rebuild(con: Connection, name: str, table: str) -> None:
    """Let an index start at an empty page and fill it: REINDEX alone would read the damaged pages."""
    con.execute("BEGIN IMMEDIATE")
    try:
        con.execute(f'CREATE INDEX temporary_IDX ON "{table}" (1) WHERE 0')
        con.execute("PRAGMA writable_schema = ON")
        con.execute(
            "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'temporary_IDX')"
            " WHERE name = ?",
            (name,),
        )
        con.execute("DELETE FROM sqlite_schema WHERE name = 'temporary_IDX'")
        con.execute("PRAGMA writable_schema = RESET")
        con.execute(f'REINDEX "{name}"')
        con.execute("COMMIT")
    finally:
        if con.in_transaction:
            con.execute("ROLLBACK")
