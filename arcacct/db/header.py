"""The header of a database file, read without SQLite: whose it is, and whether SQLite may open it (INVARIANTS 1)."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from arcacct.errors import InputError, SchemaError

ROLLBACK_JOURNAL, WAL = 1, 2
"""`Header.journal`."""
_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\0"
_FIRST_BYTES = 4 * 1024 * 1024


class Header(NamedTuple):
    """What tells whether a database file has changed."""

    journal: int
    """1: rollback journal, 2: WAL."""
    change_counter: int
    device: int
    inode: int
    size_bytes: int
    mtime_ns: int

    @property
    def stamp(self) -> str:
        """The file as it is now, as one text."""
        return " ".join(map(str, self[1:]))


def header_of(path: str) -> Header:
    """
    The header of a database file, by read() alone.

    Raises InputError for a file that is missing, unreadable, empty or no SQLite database.
    """
    try:
        # A pipe would be waited for until somebody writes it.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(fd)
            content = os.pread(fd, _HEADER_BYTES, 0) if stat.S_ISREG(status.st_mode) else b""
        finally:
            os.close(fd)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; run as the user of A-REX") from error
    if len(content) < _HEADER_BYTES or not content.startswith(_MAGIC):
        raise InputError(f"{path}: not an SQLite database; give the path of the accounting.db that A-REX writes")
    return Header(
        content[18],
        int.from_bytes(content[24:28], "big"),
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
    )


def refuse_foreign(path: str) -> None:
    """
    Refuse a file that SQLite must not even open: in rollback-journal mode, as A-REX makes its own, and not ours.

    Raises SchemaError. (Any reader of SQLite's makes A-REX lose rows then. Ours are in WAL mode from their first page.)
    """
    try:
        if header_of(path).journal != ROLLBACK_JOURNAL:
            return
        with open(path, "rb") as file:
            begin = file.read(_FIRST_BYTES)
    except (OSError, InputError):
        # Missing, empty or no database: whoever opens it says what is wrong.
        return
    if b"ARCACCT_SCHEMA" not in begin:
        raise SchemaError(
            f"{path}: not a database of arcacct, it may be one that A-REX writes; give the path of ours "
            "(`arcacct import arex` takes over what A-REX has)"
        )
