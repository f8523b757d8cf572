"""Empty accounting databases for importers: made once, copied for each try, and closed after it."""

from __future__ import annotations

import pathlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from arcacct.config.paths import JobRules, Places
from arcacct.database.access import open_accounting

_template: list[pathlib.Path] = []
_UNCOMPARED = ("DBConfig", "sqlite_sequence")


def _places(folder: pathlib.Path) -> Places:
    return Places(str(folder / "control"), str(folder / "accounting.db"), JobRules("HEPSPEC:1.0"), None)


@contextmanager
def opened(folder: pathlib.Path) -> Iterator[tuple[Places, sqlite3.Connection]]:
    """A database in a new directory; what it has is gone with that."""
    if not _template:
        made = pathlib.Path(tempfile.mkdtemp())
        with closing(open_accounting(_places(made))) as con:
            con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _template.append(made / "accounting.db")
    folder.mkdir(mode=0o700)
    shutil.copy(_template[0], folder / "accounting.db")
    here = _places(folder)
    with closing(open_accounting(here)) as con:
        yield here, con


def dump(con: sqlite3.Connection, *uncompared: str) -> dict[str, list[Any]]:
    """Every row of every table, sorted."""
    tables = [name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {
        name: sorted(con.execute(f"SELECT * FROM {name}"), key=repr)
        for name in tables
        if name not in (*_UNCOMPARED, *uncompared)
    }


def differing(one: dict[str, list[Any]], other: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The rows that only one of two dumps has, by table."""
    return {
        name: [row for row in (*rows, *other[name]) if (row in rows) != (row in other[name])]
        for name, rows in one.items()
        if rows != other[name]
    }
