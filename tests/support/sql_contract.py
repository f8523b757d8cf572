"""The views v1_*: their columns as the database has them, what the comments of schema/ say, and real values."""

from __future__ import annotations

import pathlib
import re
import sqlite3
import sys
import tempfile
from contextlib import closing
from typing import NamedTuple

import arex_corpus as corpus

from arcacct.database import schema
from arcacct.database.schema import ACCOUNTING, PUBLISHING, DatabaseKind, in_memory

_VIEW = re.compile(r"((?:--.*\n)*)CREATE VIEW (v1_\w+) AS\n")
_COLUMN = re.compile(r"^--   (\w+): (.*(?:\n--     .*)*)$", re.MULTILINE)


class Column(NamedTuple):
    """A column of the contract."""

    view: str
    name: str
    meaning: str


def with_all_views(kind: DatabaseKind) -> sqlite3.Connection:
    """An empty database in memory with the views of every source."""
    con = in_memory(kind)
    if kind is ACCOUNTING:
        schema.create_views(con, *schema.SOURCES)
    return con


def documented(kind: DatabaseKind, source: str | None = None) -> dict[str, list[Column]]:
    """The columns of each view, or of each view of a source, from the comment above it in `schema/`."""
    folder = pathlib.Path(schema.resource("schema", kind.folder))
    paths = sorted(folder.rglob("*.sql")) if source is None else [folder / "sources" / f"{source}.sql"]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    return {
        view: [Column(view, name, " ".join(re.split(r"\n--\s+", text))) for name, text in _COLUMN.findall(comment)]
        for comment, view in _VIEW.findall(texts)
    }


def actual(con: sqlite3.Connection, view: str) -> list[str]:
    """The columns of a view in an open database."""
    return [row[1] for row in con.execute(f"PRAGMA table_info({view})")]


_DUCKDB = """\
-- The views of {name}.db in DuckDB, with numbers as numbers: its sqlite extension gives all columns of a view as text.
-- First: ATTACH '.../{name}.db' AS {name} (TYPE sqlite, READ_ONLY). The manual: "Other programs".
--
-- SQLite answers each view as a whole. To ask it for less, by its indexes:
--   SELECT * FROM sqlite_query('{name}', 'SELECT ... FROM {view} WHERE ...')
"""
NUMBERS = {"INT": "BIGINT", "NUM": "DOUBLE", "REAL": "DOUBLE"}
"""What DuckDB calls the affinities of numbers."""
DUCKDB = pathlib.Path(__file__).parent.parent.parent / "etc" / "duckdb"
DUCKDB_FILES = {
    "duckdb.sql": (ACCOUNTING, None),
    **{f"duckdb-{source}.sql": (ACCOUNTING, source) for source in schema.SOURCES},
    "duckdb-ledger.sql": (PUBLISHING, None),
}
"""What of the views each has: those of every database of its kind, or those of a source."""
UNTYPED = {"is_neutralised": "INT"}
"""Columns of which SQLite does not tell the affinity."""


def affinities(con: sqlite3.Connection, view: str) -> dict[str, str]:
    """The affinity of each column, whatever version of SQLite: a table that is made of the view has them."""
    con.execute(f"CREATE TEMP TABLE Typed AS SELECT * FROM {view} LIMIT 0")
    found = {row[1]: row[2] for row in con.execute("PRAGMA temp.table_info(Typed)")}
    con.execute("DROP TABLE temp.Typed")
    return found | {name: type_ for name, type_ in UNTYPED.items() if name in found}


def duckdb_views(kind: DatabaseKind, source: str | None) -> str:
    """The text of etc/duckdb/duckdb*.sql: each view as SQLite has it, with the numbers as numbers."""
    with closing(in_memory(kind)) as con:
        shown = schema.views_of(source) if source else {name for name in documented(kind) if actual(con, name)}
    views = [view for view in documented(kind, source) if view in shown]
    parts = [_DUCKDB.format(name=kind.folder, view=views[0])]
    with closing(with_all_views(kind)) as con:
        for view in views:
            casts = [
                f'CAST("{name}" AS {NUMBERS[type_]}) AS "{name}"'
                for name, type_ in affinities(con, view).items()
                if type_ in NUMBERS
            ]
            shown = f"* REPLACE (\n  {f',{chr(10)}  '.join(casts)})" if casts else "*"
            asked = f"sqlite_query('{kind.folder}', 'SELECT * FROM {view}')"
            parts.append(f"CREATE OR REPLACE VIEW {view} AS SELECT {shown}\nFROM {asked};\n")
    return "\n".join(parts)


SHOWN = {"multicore": "mGsLDmZi", "staging": "GZaLDmgi"}
ORDER = {
    "v1_jobs": "",
    "v1_job_events": "ORDER BY event_time, event",
    "v1_transfers": "ORDER BY kind, url",
    "v1_job_attributes": "ORDER BY kind, name",
}


def contract(con: sqlite3.Connection) -> list[str]:
    """One line for each column: view, name, meaning, and its value in rows of two real jobs."""
    lines = []
    for kind in (ACCOUNTING, PUBLISHING):
        for view, columns in documented(kind).items():
            values = real_values(con, view) if view in ORDER else {}
            lines += [f"{view}.{one.name} | {one.meaning} | {values.get(one.name, '')}".rstrip() for one in columns]
    return lines


def real_values(con: sqlite3.Connection, view: str) -> dict[str, str]:
    """The values of each column for the jobs in SHOWN."""
    shown: dict[str, list[str]] = {}
    for job_id in (corpus.names()[name] for name in SHOWN):
        cursor = con.execute(f"SELECT * FROM {view} WHERE job_id = ? {ORDER[view]} LIMIT 1", (job_id,))
        for column, value in zip(cursor.description, cursor.fetchone() or (), strict=False):
            shown.setdefault(column[0], []).append(repr(value))
    return {name: "; ".join(values) for name, values in shown.items()}


def main() -> None:
    """Print the contract as the views are now; with `duckdb` make the files of etc/duckdb/ instead."""
    if sys.argv[1:] == ["duckdb"]:
        for name, (kind, source) in DUCKDB_FILES.items():
            (DUCKDB / name).write_text(duckdb_views(kind, source), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as folder:
        control = corpus.rebuild(pathlib.Path(folder, "control"))
        with closing(corpus.swept(control)) as con:
            print(*contract(con), sep="\n")


if __name__ == "__main__":
    main()
