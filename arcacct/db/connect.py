"""
Opening the two databases. On the hook's path.

Every connection is in WAL mode without automatic checkpoints (INVARIANTS 7): see `transaction`.
"""

import sys

from arcacct.db.engine import Connection, DatabaseError, OperationalError, connect
from arcacct.errors import SchemaError, StoreBusy, StoreError

ACCOUNTING_SCHEMA = 25
"""The number of the last script in schema/upgrade/accounting; a test keeps it true."""
PUBLISHING_SCHEMA = 10
"""The number of the last script in schema/upgrade/publishing."""
_BACK = "`arcacct db restore FILE` puts a backup in its place"
_READING = ("query_only = 1",)
opened: dict[str, None] = {}
"""The databases that this process has opened, in order."""


def uri(path: str, mode: str) -> str:
    """A database file as SQLite's URI, whatever bytes its path has."""
    # What os.fsencode does.
    raw = path.encode(sys.getfilesystemencoding(), "surrogateescape")
    quoted = "".join(chr(byte) if 32 < byte < 127 and byte not in b"%?#" else f"%{byte:02x}" for byte in raw)
    # An absolute path needs an empty authority before it, or SQLite takes the first name of //a/b for a host.
    return f"file:{'//' if path.startswith('/') else ''}{quoted}?mode={mode}"


def open_database(path: str, schema: int, *, timeout_s: float = 30.0) -> Connection:
    """
    Open one of our databases for writing; it is not created here (`schema.create`).

    Raises SchemaError when the file is not ours or of another version, StoreBusy when it is locked for
    ``timeout_s``, StoreError when it is missing or damaged.
    """
    return _open(path, "rw", schema, timeout_s, ("synchronous = NORMAL", "wal_autocheckpoint = 0"))


def open_for_reading(path: str, schema: int, *, timeout_s: float = 30.0) -> Connection:
    """
    Open one of our databases without the right to change anything in it; raises as `open_database`.

    Also one without -wal and -shm, for a user who may not make them (`at_rest`).
    """
    try:
        return _open(path, "ro", schema, timeout_s, _READING)
    except StoreError as error:
        if error.__cause__ is None:
            raise
        from arcacct.db.at_rest import connect_at_rest  # noqa: PLC0415  only then, and never in the hook

        return _ours(connect_at_rest(path, error.__cause__), path, schema, _READING)


def _open(path: str, mode: str, schema: int, timeout_s: float, settings: "tuple[str, ...]") -> Connection:
    opened[path] = None
    try:
        con = connect(uri(path, mode), timeout=timeout_s, isolation_level=None, uri=True, cached_statements=64)
    except (DatabaseError, UnicodeDecodeError) as error:
        raise translated(error, path) from error
    return _ours(con, path, schema, settings)


def _ours(con: Connection, path: str, schema: int, settings: "tuple[str, ...]") -> Connection:
    try:
        for setting in settings:
            con.execute(f"PRAGMA {setting}")
        found = version(con, path)
        if found != schema:
            raise other_version(path, found, schema)
    except (DatabaseError, UnicodeDecodeError, StoreError) as error:
        con.close()
        if isinstance(error, StoreError):
            raise
        raise translated(error, path) from error
    return con


def version(con: Connection, path: str) -> int:
    """Our schema's number in an open database; raises SchemaError when the file is not ours."""
    try:
        row = con.execute("SELECT KeyValue FROM DBConfig WHERE KeyName = 'ARCACCT_SCHEMA'").fetchone()
    except OperationalError as error:
        if "no such table" not in str(error):
            raise
        row = None
    if row is None or not str(row[0]).isdecimal():
        raise SchemaError(f"{path}: not a database of arcacct; give the path of ours, or move this file away")
    return int(row[0])


def other_version(path: str, found: int, known: int) -> SchemaError:
    """The complaint about a schema that this program does not know how to use."""
    if found > known:
        todo = f"this program knows {known}: install the arcacct that made it, or a newer one"
    else:
        todo = f"this program needs {known}: run `arcacct db upgrade`"
    return SchemaError(f"{path}: schema version {found}; {todo}")


def translated(error: BaseException, path: str) -> StoreError:
    """SQLite's error as one of ours, with the file it is about."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return StoreBusy(f"{path}: {text}; another process holds it, try again later")
    if "unable to open" in text:
        import os  # noqa: PLC0415  only for complaints: it would cost each hook a millisecond

        if not os.path.exists(path):
            return StoreError(f"{path}: no such database; create it with `arcacct db init`")
    if "unable to open" in text or "readonly" in text:
        return StoreError(f"{path}: {text}; check that this user may write the file and its directory")
    if isinstance(error, UnicodeDecodeError):
        # SQLite tells of damage with the names that it read.
        text = "malformed: a name in it is no text"
    if "interrupted" in text:
        return StoreError(f"{path}: the question took too long, and was given up")
    if "malformed" in text or "not a database" in text or "UTF-8" in text:
        text = " ".join(text.split())
        return StoreError(f"{path}: {text}; it is damaged or no database: `arcacct db check` tells more, {_BACK}")
    return StoreError(f"{path}: {text}")
