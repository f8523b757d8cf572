"""
Opening a database to ask it something: ours, or A-REX's own, which is only looked at (INVARIANTS 1).

Nothing here can write, and no configuration is needed when the file is named.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager

from arcacct.arex import own_database
from arcacct.database.access import READABLE, require_own_schema
from arcacct.database.at_rest import connect_to_read, refuse_hidden
from arcacct.database.connection import ACCOUNTING_SCHEMA, Connection, DatabaseError, open_for_reading, translated
from arcacct.database.durable import WAL, header_of
from arcacct.database.schema import ACCOUNTING
from arcacct.errors import SchemaError, StoreError

_FIRST_BYTES = 2**20


@contextmanager
def opened_to_ask(path: str, *, anybodys: bool = False) -> Iterator[Connection]:
    """
    An accounting database for reading: ours, or one that A-REX writes, or a copy of that.

    ``anybodys``: a file that is named on the command line may only look like ours. Raises InputError for a file that
    is no such database, StoreError and its kinds when it cannot be read.
    """
    con = _ours(path, anybodys=anybodys)
    if con is not None:
        with closing(con):
            con.text_factory = READABLE
            yield con
        return
    with tempfile.TemporaryDirectory(prefix="arcacct-") as workspace, own_database.opened(path, workspace) as arex:
        arex.con.text_factory = READABLE
        yield arex.con


def _ours(path: str, *, anybodys: bool) -> Connection | None:
    """Our database, open; ``None`` for one of A-REX, which SQLite opens only with care."""
    refuse_hidden(path)
    if not os.path.exists(path):
        raise StoreError(f"{path}: no such database; create it with `arcacct db init`")
    if header_of(path).journal != WAL:
        return None
    if not os.path.exists(f"{path}-shm"):
        with open(path, "rb") as file:
            # Our mark, looked for without SQLite: the table with it is among the first pages.
            if b"ARCACCT_INCARNATION" not in file.read(_FIRST_BYTES):
                return None
    try:
        if anybodys:
            _require_our_views(path)
        return open_for_reading(path, ACCOUNTING_SCHEMA)
    except SchemaError as error:
        if "not a database of arcacct" in str(error):
            return None
        raise


def _require_our_views(path: str) -> None:
    """Raises SchemaError where what has the name of one of our tables or views is another."""
    try:
        with closing(connect_to_read(path)) as con:
            tables = {name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if "DBConfig" not in tables or "FinishedLog" not in tables:
                raise SchemaError(f"{path}: not a database of arcacct")
            require_own_schema(con, path, ACCOUNTING, exactly=False)
    except (DatabaseError, UnicodeDecodeError) as error:
        raise translated(error, path) from error


def is_ours(con: Connection) -> bool:
    """Whether an open database has the views of ours; A-REX's has only the tables."""
    return con.execute("SELECT 1 FROM sqlite_master WHERE name = 'v1_usage_by_month'").fetchone() is not None
