"""
Creating the databases and taking them forward: the scripts of ``schema/``, in the order of their numbers.

Each script and the new number commit together. Nothing goes backward: a database of a newer program is refused.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from _sqlite3 import Connection, DatabaseError, connect
from typing import NamedTuple

from arcacct.errors import SchemaError, StoreError
from arcacct.resources import resource
from arcacct.store.connect import ACCOUNTING_SCHEMA, PUBLISHING_SCHEMA, other_version, translated, uri, version
from arcacct.store.spool import private_directory


class Kind(NamedTuple):
    """One of the two databases: the folder of its scripts and the number of the last."""

    folder: str
    schema: int


ACCOUNTING = Kind("accounting", ACCOUNTING_SCHEMA)
PUBLISHING = Kind("publishing", PUBLISHING_SCHEMA)


def scripts(kind: Kind) -> list[tuple[int, str]]:
    """``(number, path)`` of each script of a database, in order."""
    folder = resource("schema", kind.folder)
    return sorted((int(name[:3]), os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".sql"))


def ensure(path: str, kind: Kind, *, read_group: str | None = None) -> list[int]:
    """
    Create a database, or take it forward after a backup beside it; returns the numbers of the scripts that ran.

    Raises SchemaError for a file that is not ours or newer than this program, StoreError when SQLite refuses.
    """
    fresh = not os.path.exists(path) or os.path.getsize(path) == 0
    if fresh:
        private_directory(os.path.dirname(path))
    try:
        con = connect(uri(path, "rwc"), timeout=30.0, isolation_level=None, uri=True)
    except DatabaseError as error:
        raise translated(error, path) from error
    try:
        done = _create(con, kind) if fresh else _upgrade(con, path, kind)
    except DatabaseError as error:
        raise translated(error, path) from error
    finally:
        con.close()
    if fresh:
        open_to_group(path, read_group)
    return done


def open_to_group(path: str, read_group: str | None) -> None:
    """
    The database for its owner only (0600 in a directory 0700), or for a group to read (0640, 0750).

    SQLite gives -wal and -shm the mode and the owner of the database. Raises StoreError for an unknown group.
    """
    os.chmod(path, 0o640 if read_group else 0o600)
    if read_group is None:
        return
    try:
        shutil.chown(path, group=read_group)
        shutil.chown(os.path.dirname(path), group=read_group)
    except LookupError as error:
        raise StoreError(f"read_group={read_group}: this host has no such group") from error
    except OSError as error:
        raise StoreError(f"{path}: cannot give it to the group {read_group}: {error.strerror}") from error
    os.chmod(os.path.dirname(path), 0o750)


def _create(con: Connection, kind: Kind) -> list[int]:
    con.execute("PRAGMA journal_mode = WAL")
    return [number for number, script in scripts(kind) if _run(con, number, script)]


def _upgrade(con: Connection, path: str, kind: Kind) -> list[int]:
    found = version(con, path)
    if found > kind.schema:
        raise other_version(path, found, kind.schema)
    if found == kind.schema:
        return []
    backup(con, f"{path}.before-schema-{kind.schema}.{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    return [number for number, script in scripts(kind) if number > found and _run(con, number, script)]


def backup(con: Connection, path: str) -> None:
    """A whole copy of an open database, by SQLite's own means (a copy of the file alone would miss the WAL)."""
    target = connect(path)
    try:
        con.backup(target)
    finally:
        target.close()
    os.chmod(path, 0o600)


def _run(con: Connection, number: int, script: str) -> bool:
    with open(script, encoding="utf-8") as file:
        text = file.read()
    # executescript() commits what is open before it runs, so the transaction has to be part of the text. Another
    # process may have run the script meanwhile: the number is checked inside.
    try:
        con.executescript(f"BEGIN IMMEDIATE;\n{text}")
        if number == 1:
            con.execute("INSERT INTO DBConfig VALUES ('ARCACCT_INCARNATION', ?)", (secrets.token_hex(16),))
        con.execute("INSERT OR REPLACE INTO DBConfig VALUES ('ARCACCT_SCHEMA', ?)", (str(number),))
        con.execute("COMMIT")
    except DatabaseError as error:
        if con.in_transaction:
            con.execute("ROLLBACK")
        raise SchemaError(f"{os.path.basename(script)}: {error}") from error
    return True


def incarnation(con: Connection) -> str:
    """The random name of this life of the accounting database: a restore gives it a new one."""
    row = con.execute("SELECT KeyValue FROM DBConfig WHERE KeyName = 'ARCACCT_INCARNATION'").fetchone()
    if row is None:
        raise SchemaError("the database has no incarnation; restore it with `arcacct db restore`")
    return str(row[0])
