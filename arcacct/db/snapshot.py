"""
Copies of both databases for readers: a portal, analysts, whatever would hold up the WAL of the live files.

They stand under fixed names and are exchanged by a rename each: who has the old one open keeps it, who opens one gets a
whole one. Without a WAL they need nothing beside them, so whoever may read the file can read it, also as immutable:
nobody writes to one that has its name.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from _sqlite3 import DatabaseError, connect
from contextlib import ExitStack, closing, suppress

from arcacct.config.paths import Places
from arcacct.db import care, opening
from arcacct.db.connect import open_for_reading
from arcacct.db.maintain import BackupFile, backup_directory, connect_unused, files
from arcacct.db.schema import SNAPSHOT, backup, group_id, incarnation, note, noted, sync
from arcacct.errors import StoreBusy, StoreError
from arcacct.files.safe_open import TEMPORARY, Directory

_NAMES = ("accounting.db", "publishing.db")
"""In the order in which they are exchanged: a ledger never knows of jobs which the other does not have yet."""
_WORKSHOP = f"{TEMPORARY}snapshot"
_RESERVE_BYTES = 128 << 20
"""What is left free: with less `arcacct status` is critical, and hooks may write to that disk."""


def snapshots(here: Places, directory: str) -> list[BackupFile]:
    """
    Put whole, checked copies of both databases, of one moment, into a directory, in the place of the last ones.

    The directory is made if it is missing, for the owner or for ``read_group``; so are the files, and read-only. Raises
    as `backup_directory`, StoreError also for a directory that is not for them, StoreBusy while another one is made
    there, ConfigError for an unknown group; the last ones stay then.
    """
    group = group_id(here.read_group)
    control = os.path.realpath(here.controldir)
    if os.path.commonpath((control, os.path.realpath(directory))) == control:
        raise StoreError(f"{directory}: is in the control directory, which is A-REX's; choose another directory")
    with backup_directory(here, directory) as folder:
        _lock(folder)
        _refuse_others(here, folder)
        if folder.made:
            _let_read(here, folder.path, group, 0o700 if group is None else 0o750)
        workshop = folder.path_of(_WORKSHOP)
        # What a killed one has left.
        shutil.rmtree(workshop, ignore_errors=True)
        try:
            with folder.make(_WORKSHOP):
                life = _copy(here, folder, workshop)
                done = _exchange(here, folder, workshop, group)
        finally:
            shutil.rmtree(workshop, ignore_errors=True)
    care.log_done(here, care.SNAPSHOT, life=life, path=done[0].path)
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
    # SQLite would take the journal of another file for that of the new one.
    for path in (folder.path_of(name) + suffix for name in _NAMES for suffix in ("", "-wal", "-journal")):
        if os.path.lexists(path) and not _is_snapshot(path):
            raise StoreError(f"{path}: is no snapshot, so it is not replaced; choose another directory, or remove it")


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
        # The ledger's moment is the first: it tells of nothing then that the other database does not have.
        for path, kind in reversed(files(here)):
            con = reading.enter_context(closing(open_for_reading(path, kind.schema)))
            copy = f"{workshop}/{kind.folder}.db"
            with opening.translating(path):
                con.execute("BEGIN")
                life = incarnation(con)
                (pages,), (size,) = (con.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size"))
            found.append((con, path, copy, pages * size))
        free, need = shutil.disk_usage(workshop).free, sum(size for *_copy, size in found) + _RESERVE_BYTES
        if free < need:
            free_mb, need_mb = f"{free / 1e6:,.0f} MB", f"{need / 1e6:,.0f} MB"
            raise StoreError(f"{folder.path}: {free_mb} are free and {need_mb} are needed; make room")
        for con, _path, copy, _size in found:
            backup(con, copy)
    # Not before the databases are let go: while one is read its WAL cannot begin anew.
    for _con, path, copy, _size in found:
        _finish(path, copy, now)
    return life


def _finish(path: str, copy: str, now: int) -> None:
    """Raises StoreError for a copy that is damaged: then the database is."""
    with opening.translating(path), closing(connect(copy, isolation_level=None)) as con:
        con.execute("PRAGMA journal_mode = DELETE").fetchone()
        note(con, SNAPSHOT, now)
        (found,) = con.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreError(f"{path}: it is damaged: {found}; the last snapshot stays: run `arcacct db check`")


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
            # The ledger of a life that is lost.
            os.unlink(target)
    sync(folder.path)
    return done


def _let_read(here: Places, path: str, group: int | None, mode: int) -> None:
    try:
        if group is not None:
            os.chown(path, -1, group)
        os.chmod(path, mode)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot set who may read it (read_group={here.read_group}): {error.strerror}"
        ) from error
