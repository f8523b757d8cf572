"""The views v1_*: their columns as the database has them, what the comments of schema/ say, and real values."""

from __future__ import annotations

import pathlib
import re
import sqlite3
import tempfile
from contextlib import closing
from typing import NamedTuple

import arex_corpus as corpus

from arcacct.db.schema import ACCOUNTING, PUBLISHING, DatabaseKind, scripts

_VIEW = re.compile(r"^CREATE VIEW (v1_\w+) AS$")
_COLUMN = re.compile(r' AS "?(\w+)"?,? -- (.*)$')
_BARE = re.compile(r"^  (?:\w+\.)?(\w+),? -- (.*)$")


class Column(NamedTuple):
    """A column of the contract."""

    view: str
    name: str
    meaning: str


def documented(kind: DatabaseKind) -> dict[str, list[Column]]:
    """The columns of each view with their comments, from the last script that makes the view."""
    views: dict[str, list[Column]] = {}
    for _number, path in scripts(kind):
        view = None
        with open(path, encoding="utf-8") as script:
            for line in script.read().splitlines():
                begins = _VIEW.match(line)
                if begins:
                    view = begins[1]
                    views[view] = []
                elif view is not None:
                    column = _COLUMN.search(line) or _BARE.match(line)
                    if column:
                        views[view].append(Column(view, column[1], column[2]))
                    if line.endswith(";"):
                        view = None
    return views


def actual(con: sqlite3.Connection, view: str) -> list[str]:
    """The columns of a view in an open database."""
    return [row[1] for row in con.execute(f"PRAGMA table_info({view})")]


def markdown() -> str:
    """The manual's tables of all views."""
    parts = []
    for kind in (ACCOUNTING, PUBLISHING):
        for view, columns in documented(kind).items():
            parts.append(
                f"`{view}` (`{kind.folder}.db`):\n\n| column | what it is; unit; where it is from |\n|---|---|\n"
            )
            parts.extend(f"| `{one.name}` | {one.meaning.replace('|', chr(92) + '|')} |\n" for one in columns)
            parts.append("\n")
    return "".join(parts)


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
    """Print the contract as the views are now."""
    with tempfile.TemporaryDirectory() as folder:
        control = corpus.rebuild(pathlib.Path(folder, "control"))
        with closing(corpus.swept(control)) as con:
            print(*contract(con), sep="\n")


if __name__ == "__main__":
    main()
