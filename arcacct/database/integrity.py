"""SQLite's checks of a database: pages, references and schema."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from arcacct.database.access import one_moment
from arcacct.database.connection import Connection
from arcacct.database.query import sqlite_utils_package
from arcacct.database.schema import DatabaseKind, in_memory
from arcacct.wording import count_of

_LOCKED_BYTE = 2**30
_SHARED = "SELECT pageno, count(*), group_concat(DISTINCT name) FROM dbstat GROUP BY pageno HAVING count(*) > 1"


def tables(con: Connection) -> list[str]:
    """Each can be checked alone: a WAL restarts only without readers, and everybody reads its content."""
    return [name for (name,) in con.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]


def pages(con: Connection, table: str) -> list[str]:
    """What is wrong with a table's pages and its indexes."""
    return _told(con, f"PRAGMA integrity_check({_quoted(table)})")


def use_of_pages(con: Connection) -> list[str]:
    """
    Problems beyond one table: pages used twice or not at all. One read transaction, a tenth of the cost of tables.

    (The whole integrity_check does not tell it either, where SQLite happens to come to a view first: then it takes
    itself for a check of one table.) If SQLite is built without dbstat, unused pages are not found. Of
    pages that are free SQLite tells only how many there are.
    """
    if ("ENABLE_DBSTAT_VTAB",) not in con.execute("PRAGMA compile_options").fetchall():
        return _told(con, "PRAGMA quick_check")
    with one_moment(con):
        (pages,), (free,), (size,) = (
            con.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "freelist_count", "page_size")
        )
        used, different = con.execute("SELECT count(*), count(DISTINCT pageno) FROM dbstat").fetchone()
        shared = con.execute(_SHARED).fetchall() if used > different else []
    problems = [f"page {page} is used {times} times, by {names}" for page, times, names in shared]
    # The page with SQLite's lock byte belongs to no table.
    lost = pages - different - free - (pages > _LOCKED_BYTE // size)
    if lost > 0:
        problems.append(f"{lost} of {count_of(pages, 'page')} neither used nor free")
    if lost < 0:
        problems.append(f"{-lost} of {count_of(pages, 'page')} used and free at once")
    return problems


def _told(con: Connection, statement: str) -> list[str]:
    """A line for each problem; SQLite puts several into one text."""
    lines = [line for (text,) in con.execute(statement) for line in text.splitlines()]
    return [line for line in lines if line != "ok" and not line.startswith("***")]


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
        wanted, found = _described(fresh), _described(con)
    missing = [f"{name} is missing" for name in wanted if name not in found]
    different = [f"{name} differs from the schema" for name in wanted if name in found and wanted[name] != found[name]]
    return missing + different


def _described(con: Connection) -> dict[str, object]:
    """Every table, index, view and trigger by kind and name, in a form that can be compared."""
    # Without plugins: what others have installed for sqlite-utils does not run here.
    database: Any = sqlite_utils_package().Database(con, execute_plugins=False)
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
