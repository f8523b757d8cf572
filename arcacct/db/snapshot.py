"""
Copies of both databases for readers: a portal, analysts, whatever would hold up the WAL of the live files.

They stand under fixed names and are exchanged by a rename each: who has the old one open keeps it, who opens one gets a
whole one. Without a WAL they need nothing beside them, so whoever may read the file can read it, also as immutable:
nobody writes to one that has its name.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from _sqlite3 import Connection, DatabaseError, connect
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

from arcacct.conf.places import Places
from arcacct.db import care, opening
from arcacct.db.connect import open_for_reading, uri
from arcacct.db.maintain import Copy, files
from arcacct.db.schema import SNAPSHOT, DatabaseKind, backup, group_id, incarnation, note, noted, sync
from arcacct.errors import StoreBusy, StoreError
from arcacct.files.foreign import TEMPORARY, Directory, open_directory

_NAMES = ("accounting.db", "publishing.db")
"""In the order in which they are exchanged: a ledger never knows of jobs which the other does not have yet."""


def snapshots(here: Places, directory: str) -> list[Copy]:
    """
    Put whole, checked copies of both databases, of one moment, into a directory, in the place of the last ones.

    The directory is made if it is missing, for the owner or for ``read_group``; so are the files, and read-only. Raises
    StoreError and its kinds, InputError for a link of others, ConfigError for an unknown group; the last stay then.
    """
    opening.require(here)
    group = group_id(here.read_group)
    try:
        with open_directory(directory, make=0o700) as folder, _alone(folder):
            _refuse_others(here, folder)
            if folder.made and group is not None:
                _let_read(here, folder.path, group, 0o750)
            _clear(folder)
            return _exchanged(here, folder, group)
    except OSError as error:
        raise StoreError(
            f"{error.filename or directory}: {error.strerror}; choose a directory that this user may write"
        ) from error


def _let_read(here: Places, path: str, group: int | None, mode: int) -> None:
    try:
        if group is not None:
            os.chown(path, -1, group)
        os.chmod(path, mode)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot set who may read it (read_group={here.read_group}): {error.strerror}"
        ) from error


@contextmanager
def _alone(folder: Directory) -> Iterator[None]:
    """Only one makes snapshots there; raises StoreBusy for the other."""
    try:
        fcntl.flock(folder.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreBusy(f"{folder.path}: another process makes a snapshot there; try again later") from None
    try:
        yield
    finally:
        fcntl.flock(folder.fd, fcntl.LOCK_UN)


def _refuse_others(here: Places, folder: Directory) -> None:
    """Raise StoreError for a directory of somebody else's, and for one with databases that are no snapshots."""
    # SQLite goes by paths. Whose the databases are may do with them what he likes anyway.
    if not folder.sure and folder.status.st_uid != os.stat(here.directory).st_uid:
        raise StoreError(
            f"{folder.path}: others than this user can exchange what is there; choose a directory of your own"
        )
    if os.path.samestat(folder.status, os.stat(here.directory)):
        raise StoreError(f"{folder.path}: is the directory of the databases themselves; choose another directory")
    for name in _NAMES:
        path = folder.path_of(name)
        if os.path.lexists(path) and not _is_snapshot(path):
            raise StoreError(f"{path}: is no snapshot, so it is not replaced; choose another directory, or remove it")


def _is_snapshot(path: str) -> bool:
    if os.path.lexists(f"{path}-wal") or not os.path.isfile(path) or os.path.islink(path):
        return False
    with suppress(DatabaseError, UnicodeDecodeError), closing(_connect_alone(path)) as con:
        return noted(con, SNAPSHOT) is not None
    return False


def _connect_alone(path: str) -> Connection:
    """A file that nobody writes: without locks, and without -wal and -shm. Raises DatabaseError."""
    return connect(f"{uri(path, 'ro')}&immutable=1", isolation_level=None, uri=True)


def _clear(folder: Directory) -> None:
    """What a killed one has left; nobody else is at work there."""
    for name in os.listdir(folder.fd):
        if name.startswith(TEMPORARY):
            shutil.rmtree(folder.path_of(name), ignore_errors=True)


def _exchanged(here: Places, folder: Directory, group: int | None) -> list[Copy]:
    now = int(time.time())
    with folder.make(f"{TEMPORARY}{secrets.token_hex(8)}") as workshop:
        try:
            copies = {os.path.basename(copy): copy for copy in _copied(here, workshop, now)}
            life = _life(copies["accounting.db"])
            for copy in copies.values():
                _let_read(here, copy, group, 0o400 if group is None else 0o440)
                sync(copy)
            done = []
            for name in _NAMES:
                target = folder.path_of(name)
                if name in copies:
                    size_bytes = os.path.getsize(copies[name])
                    os.rename(copies[name], target)
                    done.append(Copy(target, size_bytes))
                elif os.path.exists(target):
                    # The ledger of a life that is lost.
                    os.unlink(target)
            sync(folder.path)
        finally:
            shutil.rmtree(workshop.path, ignore_errors=True)
    care.remember(here, care.SNAPSHOT, life=life, path=folder.path_of("accounting.db"))
    return done


def _copied(here: Places, workshop: Directory, now: int) -> list[str]:
    """The copies, of one moment of both databases: checked, noted as snapshots, and without a WAL."""
    with ExitStack() as reading:
        # The ledger's moment is the first: it tells of nothing then that the other database does not have.
        found = [(_at_one_moment(reading, path, kind), path, kind) for path, kind in reversed(files(here))]
        need = sum(_size_bytes(con) for con, _path, _kind in found)
        free = shutil.disk_usage(workshop.path).free
        if free < need:
            raise StoreError(
                f"{os.path.dirname(workshop.path)}: {free / 1e6:,.0f} MB are free and {need / 1e6:,.0f} MB are needed;"
                " make room"
            )
        copies = [(workshop.path_of(f"{kind.folder}.db"), path) for _con, path, kind in found]
        for (con, _path, _kind), (copy, _database) in zip(found, copies, strict=True):
            backup(con, copy)
    # Not before: while it is read the WAL of a database cannot begin anew.
    for copy, path in copies:
        _finish(copy, path, now)
    return [copy for copy, _path in copies]


def _at_one_moment(reading: ExitStack, path: str, kind: DatabaseKind) -> Connection:
    con = reading.enter_context(closing(open_for_reading(path, kind.schema)))
    with opening.translating(path):
        con.execute("BEGIN")
        con.execute("SELECT count(*) FROM DBConfig").fetchone()
    return con


def _size_bytes(con: Connection) -> int:
    (pages,), (size,) = (con.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size"))
    return int(pages * size)


def _finish(copy: str, path: str, now: int) -> None:
    """Raises StoreError for a copy that is damaged: then the database is."""
    with opening.translating(copy), closing(connect(copy, isolation_level=None)) as con:
        con.execute("PRAGMA journal_mode = DELETE").fetchone()
        note(con, SNAPSHOT, now)
        (found,) = con.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreError(f"{path}: it is damaged: {found}; the last snapshot stays: run `arcacct db check`")


def _life(copy: str) -> str:
    with closing(_connect_alone(copy)) as con:
        return incarnation(con)
