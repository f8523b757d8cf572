"""Reading a database that no process has open, for users who may not write it."""

from __future__ import annotations

import os
import time
from sqlite3 import Cursor
from typing import Any

from arcacct.database.connection import Connection, DatabaseError, connect, translated, uri
from arcacct.errors import StoreBusy, StoreError, use_as

_SETTLED_NS = 50_000_000
"""A file whose last change is as young may change again without a sign: clocks of file systems tick in 4 ms."""


class AtRest(Connection):
    """A connection that raises StoreBusy as soon as the file is not at rest any more."""

    path = ""
    stamp: tuple[int, ...] | None = None
    """The file as it was: device, inode, size in bytes, times of its last change in nanoseconds."""

    def execute(self, *arguments: Any) -> Cursor:
        """As ever. Raises StoreBusy, too."""
        self._look()
        return super().execute(*arguments)

    def close(self) -> None:
        """As ever. Raises StoreBusy if what was read may be a mixture."""
        super().close()
        self._look()

    def _look(self) -> None:
        if self.stamp is not None and _stamp(self.path) != self.stamp:
            raise StoreBusy(f"{self.path}: it changed during reading; run the command again")


def connect_to_read(path: str, *, timeout_s: float = 30.0) -> Connection:
    """Open a database for reading, at rest or in use. Raises StoreError and its kinds."""
    try:
        con = connect(uri(path, "ro"), timeout=timeout_s, isolation_level=None, uri=True)
        try:
            con.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
        except BaseException:
            con.close()
            raise
    except (DatabaseError, UnicodeDecodeError) as error:
        return connect_at_rest(path, error)
    return con


def connect_at_rest(path: str, refusal: BaseException) -> Connection:
    """
    Open a database that SQLite did not open for reading (``refusal`` is what it said), if it is at rest.

    Raises StoreError with what keeps this user from reading it, and what to do; any other refusal as it is.
    """
    text = str(refusal)
    if not isinstance(refusal, DatabaseError) or not ("unable to open" in text or "readonly" in text):
        raise translated(refusal, path) from refusal
    refuse_hidden(path)
    if not os.path.exists(path):
        raise translated(refusal, path) from refusal
    stamp = _stamp(path)
    if stamp is None or _in_wal(path):
        raise StoreError(
            f"{path}: {text}; a user without write access needs readable {path}-wal and {path}-shm files: "
            "`arcacct sweep` as the user of A-REX creates them, and `arcacct db init` lets read_group= read them"
        ) from refusal
    if 0 <= time.time_ns() - max(stamp[3:]) < _SETTLED_NS:
        time.sleep(_SETTLED_NS / 1e9)
    try:
        con: AtRest = connect(
            f"{uri(path, 'ro')}&immutable=1", isolation_level=None, uri=True, cached_statements=64, factory=AtRest
        )
    except DatabaseError as error:
        raise translated(error, path) from error
    con.path, con.stamp = path, stamp
    return con


def refuse_hidden(path: str) -> None:
    """Raise StoreError for a database that this user may not read or cannot even see."""
    try:
        os.stat(path)
        is_hidden = not os.access(path, os.R_OK, effective_ids=True)
    except PermissionError:
        is_hidden = True
    except OSError:
        return
    if is_hidden:
        raise StoreError(
            f"{path}: this user may not read it; "
            + use_as(
                path,
                "its owner, or as a member of the group in read_group= of [arcacct] (`arcacct db init`, run by the"
                " owner, gives it access)",
            )
        )


def _in_wal(path: str) -> bool:
    """Whether there is, or may be, something that the file does not have."""
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
