"""
Reading a database that A-REX writes, so that A-REX never notices (INVARIANTS 1).

A-REX repeats the whole text `BEGIN; ...; COMMIT` when the file is locked, and then loses every later row. In
rollback-journal mode any reader locks the file: SQLite never opens it there, we copy it with read(). In WAL mode
readers lock nothing: SQLite opens it read-only, in short transactions, and never writes anything back.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from arcacct.config.paths import private_directory
from arcacct.database.connection import DatabaseError, translated, uri
from arcacct.database.durable import ROLLBACK_JOURNAL, WAL, Header, header_of
from arcacct.database.query import LONGEST_S, Foreign, open_foreign, require_tables
from arcacct.errors import InputError, StoreBusy, StoreError
from arcacct.files.safe_open import private

PATIENCE_S = 60.0
"""How long to wait for a moment in which A-REX does not write, before giving up until the next time."""
_CHUNK_BYTES = 4 * 1024 * 1024

_ways: dict[tuple[int, int], str] = {}
"""
How this process reads each file, by device and inode. Never both ways: closing a descriptor of a file drops every lock
that SQLite has on it in this process.
"""


class ArexDatabase(NamedTuple):
    """An open database of A-REX, or our copy of one."""

    con: Foreign
    path: str
    version: int
    """1 (ARC 6) or 2 (ARC 7)."""
    stamp: str
    """The file that was copied; empty for one that is read as it lives."""


def newest_stamp(path: str) -> str:
    """
    The stamp of a file that would be copied, to be compared with that of an earlier copy; empty for one in WAL mode.

    Raises InputError.
    """
    header = header_of(path)
    return header.stamp if header.journal == ROLLBACK_JOURNAL and not os.path.exists(f"{path}-journal") else ""


@contextmanager
def opened(
    path: str, workspace: str, *, patience_s: float = PATIENCE_S, at_rest: bool = True
) -> Iterator[ArexDatabase]:
    """
    A database of A-REX for reading; ``workspace`` is a directory of ours with room for a copy.

    ``at_rest=False`` is for processes that come back: a WAL database that nobody uses now is not copied, since once it
    is used it could not be read in place any more. Only one process at a time may use a workspace. Raises InputError
    when it is none, StoreBusy when A-REX writes all the time or not now, StoreError when it cannot be read.
    """
    header = header_of(path)
    live = header.journal == WAL and _is_open_somewhere(path)
    if header.journal == WAL and not live and not at_rest:
        raise StoreBusy(f"{path}: A-REX does not use it now; try again when A-REX runs")
    way = "live" if live else "copy"
    if _ways.setdefault((header.device, header.inode), way) != way:
        raise StoreBusy(f"{path}: another program changed its journal mode meanwhile; start the command again")
    copy = os.path.join(workspace, f"arex-copy-{os.path.basename(path)}")
    try:
        stamp = "" if live else _copied(path, copy, patience_s)
        # Nobody else knows the copy: without locks, and without the -shm that a WAL database would need.
        copied = f"{uri(os.path.join(copy, 'accounting.db'), 'ro')}&immutable=1"
        try:
            with closing(open_foreign(uri(path, "ro") if live else copied)) as con:
                # The tables first: the check would run what a virtual table stands for.
                version = require_tables(con, path)
                found = "ok" if live else con.execute("PRAGMA quick_check(1)").fetchone()[0]
                if found != "ok":
                    raise _damaged(path, str(found))
                if con.execute("SELECT 1 FROM DBConfig WHERE KeyName = 'ARCACCT_SCHEMA'").fetchone():
                    raise InputError(f"{path}: a database of arcacct; give the path of the one that A-REX writes")
                con.more_time()
                yield ArexDatabase(con, path, version, stamp)
        except (DatabaseError, UnicodeDecodeError) as error:
            text = str(error)
            if "locked" in text or "busy" in text or "unable to open" in text:
                raise translated(error, path) from error
            if "interrupted" in text:
                raise StoreError(
                    f"{path}: reading it took more than {LONGEST_S:g} s at one place, and was given up"
                ) from error
            said = "a name in it is no text" if isinstance(error, UnicodeDecodeError) else text
            raise _damaged(path, said) from error
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _is_open_somewhere(path: str) -> bool:
    """Whether somebody uses a WAL database, or left a WAL behind: else the file alone is all there is."""
    if os.path.exists(f"{path}-shm"):
        return True
    if not _has_wal(path):
        return False
    if os.geteuid() not in (0, os.stat(path).st_uid):
        # SQLite would make a -shm that the owner cannot write.
        raise StoreError(f"{path}: left open by a process that ended; run as its owner")
    return True


def _has_wal(path: str) -> bool:
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False


def _damaged(path: str, what: str) -> StoreError:
    return StoreError(f"{path}: it is damaged: {' '.join(what.split())}; stop A-REX and look at it with `sqlite3`")


def _copied(path: str, folder: str, patience_s: float) -> str:
    """
    Copy a file in a moment in which nobody writes it; the stamp of what was copied.

    Raises StoreBusy, and StoreError where there is no room for it (a file may say that it has a terabyte).
    """
    shutil.rmtree(folder, ignore_errors=True)
    private_directory(folder)
    needed, free = header_of(path).size_bytes, shutil.disk_usage(folder).free
    if needed > free:
        raise StoreError(
            f"{path}: cannot be copied to {folder}: it has {needed:,} bytes, and {free:,} are free there; make room"
        )
    deadline = time.monotonic() + patience_s
    pause_s = 0.01
    while True:
        stamp = _copied_once(path, os.path.join(folder, "accounting.db"))
        if stamp is not None:
            return stamp
        if time.monotonic() + pause_s > deadline:
            raise StoreBusy(
                f"{path}: A-REX writes it all the time, no whole copy within {patience_s:g} s; try again later, or "
                "once while A-REX is stopped"
            )
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 1.0)


def _copied_once(path: str, target: str) -> str | None:
    """
    One attempt; ``None`` when somebody wrote meanwhile.

    The order matters. Before: the header, then no journal, so that whatever began before is finished. After: no
    journal, then the same header, so that whatever began meanwhile is seen by one or the other.
    """
    before = header_of(path)
    if _in_use(path, before) or not _copy_bytes(path, target, before):
        return None
    return None if _in_use(path, before) or header_of(path) != before else before.stamp


def _in_use(path: str, header: Header) -> bool:
    if os.path.exists(f"{path}-journal"):
        return True
    # A WAL database is in its file alone only as long as it has no WAL.
    return header.journal == WAL and (_has_wal(path) or os.path.exists(f"{path}-shm"))


def _copy_bytes(path: str, target: str, before: Header) -> bool:
    """By read() alone; False as soon as the file changes."""
    try:
        with open(path, "rb", buffering=0) as source, open(target, "wb", opener=private) as copy:
            while content := source.read(_CHUNK_BYTES):
                copy.write(content)
                status = os.fstat(source.fileno())
                if (status.st_size, status.st_mtime_ns) != (before.size_bytes, before.mtime_ns):
                    return False
            return copy.tell() == before.size_bytes
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be copied to {target}: {error.strerror}; {before.size_bytes} bytes are needed there"
        ) from error
