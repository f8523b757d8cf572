"""Moving both databases to another directory, and copies of them for readers."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from contextlib import ExitStack, closing, suppress
from sqlite3 import DatabaseError, connect
from typing import NamedTuple

from arcacct.config.paths import AREX_WRITES, Places, arex_writes, refuse_of_arex
from arcacct.database import access, durable, location, schema, upkeep
from arcacct.database.access import refuse_unasked, require
from arcacct.database.connection import open_for_reading
from arcacct.database.durable import alone, maintenance
from arcacct.database.location import LocationFile
from arcacct.database.schema import ACCOUNTING, SNAPSHOT, backup, ensure, group_id, incarnation, note, noted, sync
from arcacct.database.upkeep import PATIENCE_S, SUFFIXES, BackupFile, connect_unused, copy_whole, files
from arcacct.errors import ConfigError, StoreBusy, StoreError, UsageError
from arcacct.files.directories import private_directory, unseen
from arcacct.files.safe_open import TEMPORARY, Directory

# Moving both databases to another directory: the same incarnation in another place.  First make whole copies, then
# write the note of the place, then rename the old databases. Until the note is rewritten the old place is in use, from
# then on the new one; if killed, the same command continues.


_UNFINISHED = "moving"
"""A folder in the new place during a move: other files there may be overwritten."""


class Moved(NamedTuple):
    """The result of a move."""

    database: str
    """The new path of the accounting database."""
    kept: tuple[str, ...]
    """The old databases, under their new names."""
    spooled: int
    """Events that were moved as well."""


def check(here: Places, directory: str) -> str:
    """
    Return the new path of the accounting database, if it can be moved into the directory.

    Raises UsageError for a directory that makes no sense or already has databases, ConfigError for one that A-REX
    writes into, and as `refuse_unasked` and `require` when there is nothing to move.
    """
    if not os.path.isabs(directory) or "\n" in directory:
        raise UsageError(f"{directory}: give the absolute path of a directory, like /var/lib/arcacct")
    directory = os.path.normpath(directory)
    new = os.path.join(directory, "accounting.db")
    if arex_writes(new, here.controldir):
        raise ConfigError(f"{new}: {AREX_WRITES}")
    refuse_of_arex(directory, here.controldir)
    if os.path.realpath(new) == os.path.realpath(here.database):
        raise UsageError(f"{here.database}: the database is already there; give another directory")
    if not _is_noted(here, new):
        if not refuse_unasked(here):
            require(here)
        _refuse_directory(here, directory)
    return new


def _refuse_directory(here: Places, directory: str) -> None:
    if not os.path.exists(directory):
        if not os.path.isdir(parent := os.path.dirname(directory)):
            what = unseen(parent) or "no such directory"
            raise UsageError(f"{parent}: {what}; create it first, accessible to all its users")
        return
    if not os.path.isdir(directory):
        raise UsageError(f"{directory}: not a directory; give one only for the databases")
    if os.path.exists(here.directory) and os.stat(directory).st_uid != os.stat(here.directory).st_uid:
        raise UsageError(f"{directory}: has another owner than {here.directory}: the launcher could not write there")
    if os.path.isdir(os.path.join(directory, _UNFINISHED)):
        return
    for name in ("accounting.db", "publishing.db"):
        if os.path.exists(os.path.join(directory, name)):
            raise UsageError(f"{os.path.join(directory, name)}: already contains a database; give another directory")


def move(here: Places, directory: str, *, patience_s: float = PATIENCE_S) -> Moved:
    """
    Move both databases and the events in the spool into a directory, created if missing; new events are spooled
    meanwhile.

    The caller holds the publishing lock. The old databases stay in their place under other names. An interrupted move
    is completed. Raises as `check`, StoreBusy if other processes do not close the databases, and StoreError if the note
    of the place cannot be written: without it, old configurations would create new databases.
    """
    new = check(here, directory)
    if _is_noted(here, new):
        # The state of an interrupted move: the file `maintenance` in the old place belongs to it.
        with maintenance(here.database, "move"):
            return _finished(here, new, 0)
    for path, kind in files(here):
        ensure(path, kind, read_group=here.read_group, may_create=False)
    with alone(here.database, here.queue_lock, "move"):
        for path in (here.database, here.publishing_database):
            upkeep.wait_until_unused(path, patience_s)
        with closing(open_for_reading(here.database, ACCOUNTING.schema)) as con:
            life = incarnation(con)
        note = location.read(here)
        before = LocationFile(here.database, life, () if note is None else note.former)
        # Write the old place once more: this shows, before anything is copied, whether the note can be written.
        _write_note(here, before)
        spooled = _copied(here, os.path.dirname(new))
        # From here on the new place applies.
        _write_note(here, LocationFile(new, life, location.former_of(before, os.path.dirname(new))))
        return _finished(here, new, spooled)


def _is_noted(here: Places, new: str) -> bool:
    """Whether an earlier move came as far as the note."""
    note = location.read(here)
    return note is not None and os.path.realpath(note.database) == os.path.realpath(new) and location.has_database(new)


def _copied(here: Places, directory: str) -> int:
    """Whole copies of everything in the new place, on disk; returns how many events of the spool there are."""
    workshop = os.path.join(directory, _UNFINISHED)
    try:
        if not os.path.isdir(directory):
            private_directory(directory)
            location.own_as(directory, here.directory)
            sync(os.path.dirname(directory))
        # The copies of an interrupted move, from before the note named them.
        shutil.rmtree(workshop, ignore_errors=True)
        private_directory(workshop)
        sync(directory)
        for name in ("accounting.db", "publishing.db"):
            for path in filter(os.path.lexists, (os.path.join(directory, name + suffix) for suffix in SUFFIXES)):
                os.unlink(path)
        for path, kind in files(here):
            target = os.path.join(workshop, f"{kind.folder}.db")
            copy_whole(path, kind, target)
            location.own_as(target, here.directory)
        spooled = _copied_spool(here, os.path.join(directory, "spool"), workshop)
        for name in (location.PSEUDONYMS, location.REPORTS, location.CARE):
            if os.path.exists(os.path.join(here.directory, name)):
                # With the same permissions as before.
                copy = os.path.join(workshop, name)
                shutil.copy2(os.path.join(here.directory, name), copy, follow_symlinks=False)
                location.own_as(copy, here.directory)
                sync(copy)
                os.rename(copy, os.path.join(directory, name))
        for _path, kind in files(here):
            final = os.path.join(directory, f"{kind.folder}.db")
            os.rename(os.path.join(workshop, f"{kind.folder}.db"), final)
            schema.open_to_group(final, here.read_group)
        sync(directory)
    except OSError as error:
        raise StoreError(
            f"{error.filename or directory}: {error.strerror}; the databases are still in {here.directory}"
        ) from error
    return spooled


def _copied_spool(here: Places, target: str, workshop: str) -> int:
    """
    Copy the events that wait in the spool, each whole or not at all; returns how many.

    Events being written now go to the old spool, which is also drained. Unusable files stay there, and events whose
    name another event has in the new one: a process ID comes again.
    """
    events = _events(here.spool)
    if events and not os.path.isdir(target):
        private_directory(target)
        location.own_as(target, here.directory)
    moved = 0
    for name in events:
        event, copy, new = (os.path.join(folder, name) for folder in (here.spool, workshop, target))
        if os.path.lexists(new) and not _is_copy(event, new):
            continue
        # With its time, which is the time of the event.
        shutil.copy2(event, copy, follow_symlinks=False)
        location.own_as(copy, here.directory)
        sync(copy)
        os.rename(copy, new)
        moved += 1
    if moved:
        sync(target)
    return moved


def _is_copy(event: str, other: str) -> bool:
    one, two = (os.stat(path, follow_symlinks=False) for path in (event, other))
    return (one.st_size, one.st_mtime_ns) == (two.st_size, two.st_mtime_ns)


def _events(spool: str) -> list[str]:
    try:
        with os.scandir(spool) as entries:
            return sorted(
                one.name for one in entries if one.is_file(follow_symlinks=False) and not one.name.startswith(".")
            )
    except FileNotFoundError:
        return []


def _write_note(here: Places, note: LocationFile) -> None:
    try:
        location.write(here, note)
    except OSError as error:
        raise StoreError(
            f"{here.place_note}: cannot be written: {error.strerror}; without it the old configuration would create an "
            f"empty database: the databases are still in {here.directory}"
        ) from error


def _finished(here: Places, new: str, spooled: int) -> Moved:
    """Rename the old databases, so that nothing is recorded there, and remove the files of the work."""
    directory = os.path.dirname(new)
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    kept = []
    for path, _kind in files(here):
        for suffix in SUFFIXES:
            if os.path.exists(path + suffix):
                os.rename(path + suffix, f"{path}.moved.{now}{suffix}")
        kept.append(f"{path}.moved.{now}")
    sync(here.directory)
    target = os.path.join(directory, "spool")
    taken = set(_events(target))
    for name in _events(here.spool):
        event = os.path.join(here.spool, name)
        # Later events are drained from the old spool.
        if name in taken and _is_copy(event, os.path.join(target, name)):
            os.unlink(event)
    shutil.rmtree(os.path.join(directory, _UNFINISHED), ignore_errors=True)
    return Moved(new, tuple(kept), spooled)


# Copies of both databases for readers, such as a portal or analysts, which would delay checkpoints of the live files.
# They have fixed names, and a rename exchanges each: a reader with the old one open keeps it, and a new reader gets a
# complete one. Without a WAL they need no other file, so any user who may read the file can read it, also as immutable:
# no process writes to a file of that name.


_NAMES = ("accounting.db", "publishing.db")
"""In the order in which they are exchanged: a ledger never knows of jobs which the other does not have yet."""
_WORKSHOP = f"{TEMPORARY}snapshot"
_RESERVE_BYTES = 128 << 20
"""Space that stays free: with less, `arcacct status` is critical, and the recorder may write to that disk."""


def snapshots(here: Places, directory: str) -> list[BackupFile]:
    """
    Write complete, checked copies of both databases, of one moment, into a directory, replacing the last ones.

    A missing directory is created, for the owner or for ``read_group``; the files have the same readers, and are
    read-only. Raises as `backup_directory`, StoreError also for a directory with another purpose, StoreBusy while
    another snapshot is written there, ConfigError for an unknown group. On an error the last copies stay.
    """
    group = group_id(here.read_group)
    with upkeep.backup_directory(here, directory) as folder:
        _lock(folder)
        _refuse_others(here, folder)
        if folder.made:
            _let_read(here, folder.path, group, 0o700 if group is None else 0o750)
        workshop = folder.path_of(_WORKSHOP)
        # The rest of a killed process.
        shutil.rmtree(workshop, ignore_errors=True)
        try:
            with folder.make(_WORKSHOP):
                life = _copy(here, folder, workshop)
                done = _exchange(here, folder, workshop, group)
        finally:
            shutil.rmtree(workshop, ignore_errors=True)
    durable.log_done(here.directory, durable.SNAPSHOT, life=life, path=done[0].path)
    return done


def _lock(folder: Directory) -> None:
    """Only one makes snapshots there, until it closes the directory; raises StoreBusy for the other."""
    try:
        fcntl.flock(folder.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreBusy(f"{folder.path}: another process makes a snapshot there; try again later") from None


def _refuse_others(here: Places, folder: Directory) -> None:
    """Raise StoreError for the directory of the databases, and where files of these names are no snapshots."""
    if os.path.samestat(folder.status, os.stat(here.directory)):
        raise StoreError(f"{folder.path}: is the directory of the databases themselves; choose another directory")
    # SQLite would use the journal of another file for the new one.
    for path in (folder.path_of(name) + suffix for name in _NAMES for suffix in ("", "-wal", "-journal")):
        if os.path.lexists(path) and not _is_snapshot(path):
            raise StoreError(f"{path}: not a snapshot, so it is not replaced; choose another directory, or remove it")


def _is_snapshot(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    with suppress(DatabaseError, UnicodeDecodeError), closing(connect_unused(path)) as con:
        return noted(con, SNAPSHOT) is not None
    return False


def _copy(here: Places, folder: Directory, workshop: str) -> str:
    """Copies of one moment of both databases, checked, noted as snapshots, without a WAL; the life that they are of."""
    now, found, life = int(time.time()), [], ""
    with ExitStack() as reading:
        # The ledger is copied first, so it refers to nothing that the other database lacks.
        for path, kind in reversed(files(here)):
            con = reading.enter_context(closing(open_for_reading(path, kind.schema)))
            copy = f"{workshop}/{kind.folder}.db"
            with access.translating(path):
                con.execute("BEGIN")
                life = incarnation(con)
                (pages,), (size,) = (con.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size"))
            found.append((con, path, copy, pages * size))
        free, need = shutil.disk_usage(workshop).free, sum(size for *_copy, size in found) + _RESERVE_BYTES
        if free < need:
            free_mb, need_mb = f"{free / 1e6:,.0f} MB", f"{need / 1e6:,.0f} MB"
            raise StoreError(f"{folder.path}: {free_mb} are free and {need_mb} are needed; free space")
        for con, _path, copy, _size in found:
            backup(con, copy)
    # Only after the databases are released: while one is read, its WAL cannot restart.
    for _con, path, copy, _size in found:
        _finish(path, copy, now)
    return life


def _finish(path: str, copy: str, now: int) -> None:
    """Raises StoreError for a copy that is damaged: then the database is."""
    with access.translating(path), closing(connect(copy, isolation_level=None)) as con:
        con.execute("PRAGMA journal_mode = DELETE").fetchone()
        note(con, SNAPSHOT, now)
        (found,) = con.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreError(f"{path}: it is damaged: {found}; the last snapshot stays; run `arcacct db check`")


def _exchange(here: Places, folder: Directory, workshop: str, group: int | None) -> list[BackupFile]:
    copies = [(f"{workshop}/{name}", folder.path_of(name)) for name in _NAMES]
    for copy, _target in copies:
        if os.path.exists(copy):
            _let_read(here, copy, group, 0o400 if group is None else 0o440)
            sync(copy)
    done = []
    for copy, target in copies:
        if os.path.exists(copy):
            os.rename(copy, target)
            done.append(BackupFile(target, os.path.getsize(target)))
        elif os.path.exists(target):
            # The ledger of a lost incarnation.
            os.unlink(target)
    sync(folder.path)
    return done


def _let_read(here: Places, path: str, group: int | None, mode: int) -> None:
    try:
        if group is not None:
            os.chown(path, -1, group)
        os.chmod(path, mode)
    except OSError as error:
        raise StoreError(f"{path}: cannot set its readers (read_group={here.read_group}): {error.strerror}") from error
