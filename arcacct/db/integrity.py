"""What SQLite can tell of a database: whether its pages, references and schema are whole."""

from __future__ import annotations

from contextlib import closing

from sqlite_utils import Database

from arcacct.db.engine import Connection
from arcacct.db.schema import DatabaseKind, in_memory


def tables(con: Connection) -> list[str]:
    """Each can be looked at alone: a WAL begins anew only when nobody reads, and all hooks read what it has."""
    return [name for (name,) in con.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]


def pages(con: Connection, table: str) -> list[str]:
    """What is wrong with a table's pages and its indexes."""
    return [text for (text,) in con.execute(f"PRAGMA integrity_check({_quoted(table)})") if text != "ok"]


def references(con: Connection, table: str) -> list[str]:
    """The rows of a table that refer to none."""
    return [
        f"{table} row {row}: {parent} has no such row"
        for table, row, parent, _id in con.execute(f"PRAGMA foreign_key_check({_quoted(table)})")
    ]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def schema(con: Connection, kind: DatabaseKind) -> list[str]:
    """What a new database has and this one lacks, or has otherwise. What somebody added is no problem."""
    with closing(in_memory(kind)) as fresh:
        wanted, found = _described(Database(fresh)), _described(Database(con))
    missing = [f"{name} is missing" for name in wanted if name not in found]
    different = [f"{name} is not as it should be" for name in wanted if name in found and wanted[name] != found[name]]
    return missing + different


def _described(database: Database) -> dict[str, object]:
    """Every table, index, view and trigger by kind and name, in a form that can be compared."""
    described: dict[str, object] = {}
    for table in database.tables:
        described[f"table {table.name}"] = [tuple(column) for column in table.columns]
        for index in table.indexes:
            if index.origin == "c":
                described[f"index {index.name}"] = (bool(index.unique), tuple(index.columns))
    for view in database.views:
        described[f"view {view.name}"] = " ".join(view.schema.split())
    for trigger in database.triggers:
        described[f"trigger {trigger.name}"] = " ".join(trigger.sql.split())
    return described
