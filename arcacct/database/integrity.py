"""SQLite's checks of a database: pages, references and schema."""

from __future__ import annotations

import re
from collections import deque
from contextlib import closing
from typing import Any, NamedTuple

from arcacct.database.access import one_moment
from arcacct.database.connection import Connection, DatabaseError, is_damage
from arcacct.database.query import sqlite_utils_package
from arcacct.database.schema import DatabaseKind, in_memory
from arcacct.wording import count_of

_LOCKED_BYTE = 2**30
_SHARED = "SELECT pageno, count(*), group_concat(DISTINCT name) FROM dbstat GROUP BY pageno HAVING count(*) > 1"


def tables(con: Connection) -> list[str]:
    """
    The names of the tables. Each can be checked alone: a WAL restarts only without readers, and everybody reads its
    content.
    """
    return [name for (name,) in con.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]


class Damage(NamedTuple):
    """The damaged parts of a table and its indexes."""

    problems: list[str]
    """In SQLite's words; empty: no damage."""
    rows: bool
    """Whether rows are damaged, as far as SQLite can find it."""
    indexes: list[str]
    """Indexes that must be rebuilt."""


def damage(con: Connection, table: str) -> Damage:
    """
    Run SQLite's check, and read the rows and each index separately.

    An index is damaged if it cannot be read, has more or fewer entries than there are rows, or if SQLite names its
    pages. (If a row and an entry differ, it is unknown which of them is damaged.) Raises DatabaseError for anything but
    damage.
    """
    problems = _told(con, f"PRAGMA integrity_check({_quoted(table)})")
    if not problems:
        return Damage([], False, [])

    def is_named(root: int) -> bool:
        return any(re.match(rf"(On tree page|Tree) {root}\b", line) for line in problems)

    roots = con.execute("SELECT name, rootpage, sql FROM sqlite_schema WHERE tbl_name = ? AND rootpage", (table,))
    rows, indexes = _readable(con, f"SELECT * FROM {_quoted(table)} NOT INDEXED") is None, []
    rows |= any(re.search("reference to page| value in |constraint failed", line) for line in problems)
    for name, root, sql in roots.fetchall():
        if name == table:
            rows |= is_named(root)
            continue
        of_part = re.search(r"\)\s*(WHERE\s.*)", sql or "", re.IGNORECASE | re.DOTALL)
        # Not count(*), for which SQLite would choose any index.
        by_index, by_rows = (
            _readable(con, f"SELECT sum(1) FROM {_quoted(table)} {by} {of_part[1] if of_part else ''}")
            for by in (f"INDEXED BY {_quoted(name)}", "NOT INDEXED")
        )
        if by_index is None or by_index != by_rows or is_named(root):
            indexes.append(name)
    return Damage(problems, rows, indexes)


def pages(con: Connection, table: str) -> list[str]:
    """Return the problems of a table's pages and its indexes: first the damage, and what to do."""
    found = damage(con, table)
    if not found.problems:
        return []
    if found.rows:
        said = f"rows of {table} are damaged; restore a backup: `arcacct db restore FILE`"
    elif found.indexes:
        said = (
            f"the rows of {table} are intact, and only indexes are damaged, {', '.join(found.indexes)}; run"
            " `arcacct db optimize`, which rebuilds them from the rows"
        )
    else:
        said = (
            f"a row of {table} and its entry in an index differ, so one of the two is damaged; restore a backup:"
            " `arcacct db restore FILE`"
        )
    return [said, *found.problems]


def _readable(con: Connection, question: str) -> tuple[Any, ...] | None:
    """The last row of an answer, empty if there is none; ``None`` if a page that it needs is damaged."""
    try:
        rows = deque(con.execute(question), maxlen=1)
    except (DatabaseError, UnicodeDecodeError) as error:
        if not is_damage(error):
            raise
        return None
    return rows[0] if rows else ()


def use_of_pages(con: Connection) -> list[str]:
    """
    Problems beyond one table: pages used twice or not at all. One read transaction, a tenth of the cost of tables.

    (The whole integrity_check does not report them either if SQLite meets a view first: then it runs as a check of one
    table.) If SQLite is built without dbstat, unused pages are not found. For free pages SQLite reports only the
    number.
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
    """A line for each problem; SQLite puts several into one text, and breaks off at some damaged pages."""
    lines: list[str] = []
    try:
        for (text,) in con.execute(statement):
            lines += text.splitlines()
    except DatabaseError as error:
        if not is_damage(error):
            raise
        lines.append(str(error))
    return [line for line in lines if line != "ok" and not line.startswith("***")]


def references(con: Connection, table: str) -> list[str]:
    """Return the rows of a table that refer to a missing row."""
    return [
        f"{table} row {row}: {parent} has no such row"
        for table, row, parent, _id in con.execute(f"PRAGMA foreign_key_check({_quoted(table)})")
    ]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def schema(con: Connection, kind: DatabaseKind) -> list[str]:
    """Return what this database lacks or has differently from a new one. Additions are no problem."""
    with closing(in_memory(kind)) as fresh:
        wanted, found = _described(fresh), _described(con)
    missing = [f"{name} is missing" for name in wanted if name not in found]
    different = [f"{name} differs from the schema" for name in wanted if name in found and wanted[name] != found[name]]
    return missing + different


def _described(con: Connection) -> dict[str, object]:
    """Every table, index, view and trigger by kind and name, in a form that can be compared."""
    # Without plugins: do not run plugins that others installed for sqlite-utils.
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
