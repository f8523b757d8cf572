"""Both databases for a dry run: only the run sees what it writes, and nothing of it stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from sqlite3 import Connection, DatabaseError, connect

from arcacct.config.paths import Places
from arcacct.database import access
from arcacct.database.connection import ACCOUNTING_SCHEMA, open_for_reading
from arcacct.errors import StoreError

_WRITTEN = ("DBConfig", "Fence")
"""The tables of accounting.db that a run writes; the others are read where they are."""
_CACHE_KIB = 16 * 1024


@contextmanager
def databases(here: Places) -> Iterator[tuple[Connection, Connection]]:
    """
    accounting.db and publishing.db as they are now; a run may write to both, without a lock, and leaves no trace.

    The few tables of accounting.db that a run writes become temporary tables, which SQLite finds first by name.
    publishing.db is copied whole, into a file without a name (SQLITE_TMPDIR or TMPDIR, else /var/tmp).

    Raises StoreError and its kinds, also when there is no room for the copy.
    """
    with closing(_accounting(here)) as accounting, closing(_publishing(here)) as publishing:
        yield accounting, publishing


def _accounting(here: Places) -> Connection:
    access.require(here)
    con = open_for_reading(here.database, ACCOUNTING_SCHEMA)
    con.text_factory = access.READABLE
    # The file is open for reading only, whatever this says; without it there were no tables of our own either.
    con.execute("PRAGMA query_only = 0")
    for table in _WRITTEN:
        (sql,) = con.execute("SELECT sql FROM main.sqlite_master WHERE name = ?", (table,)).fetchone()
        con.execute(sql.replace("CREATE TABLE", "CREATE TEMP TABLE", 1))
        con.execute(f"INSERT INTO temp.{table} SELECT * FROM main.{table}")
    return con


def _publishing(here: Places) -> Connection:
    with closing(access.read_publishing(here)) as ledger:
        con = connect("", isolation_level=None, check_same_thread=False)
        con.execute("PRAGMA synchronous = OFF")
        con.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        try:
            # In one step, so in one read transaction: another publisher would make it start again and again.
            ledger.backup(con)
        except DatabaseError as error:
            con.close()
            if "full" not in str(error):
                raise
            raise StoreError(
                f"no space for a copy of {here.publishing_database}, which a dry run needs: make room in /var/tmp, or"
                " name another directory in TMPDIR"
            ) from error
    return con
