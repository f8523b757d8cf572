"""
Room on disk for what would fill the memory: a database of this process alone, in a file that has no name.

SQLite makes the file when its cache of 2 MB is full, where SQLITE_TMPDIR or TMPDIR says, else in /var/tmp, and
removes its name at once: nothing is left of it, however the process ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from arcacct.db.engine import Connection, DatabaseError, connect
from arcacct.errors import StoreError

_CACHE_KIB = 2 * 1024


@contextmanager
def scratch(script: str) -> Iterator[Connection]:
    """A new one with the tables that ``script`` makes. Raises StoreError when the disk has no room for it."""
    with closing(connect("", isolation_level=None)) as con:
        con.executescript(
            f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{_CACHE_KIB};"
            f"PRAGMA temp_store = FILE; {script}"
        )
        try:
            yield con
        except DatabaseError as error:
            # Also that of another database which is read meanwhile: who opened that one says what is wrong with it.
            if "full" not in str(error):
                raise
            raise StoreError(
                "the disk with temporary files is full: make room in /var/tmp, or name another directory in TMPDIR"
            ) from error
