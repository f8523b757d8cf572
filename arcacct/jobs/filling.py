"""
Filling in values that a record lacks from another source than its own, and remembering which (table FieldSources).

What another source filled in before, it may correct; what the record has of its own stays.
"""

from __future__ import annotations

from arcacct.db.engine import Connection
from arcacct.jobs.reading import unescaped
from arcacct.jobs.recorder import escaped


def fill_column(
    con: Connection, record_id: int, column: str, field: str, value: int | None, source: str = "sonar"
) -> None:
    """Fill in a column of AAR that is 0 (unknown), or that was filled in from the same source."""
    if not value:
        return
    row = con.execute(f"SELECT {column} FROM AAR WHERE RecordID = ?", (record_id,)).fetchone()
    if row[0] == 0 or (row[0] != value and source_of(con, record_id, field) == source):
        con.execute(f"UPDATE AAR SET {column} = ? WHERE RecordID = ?", (value, record_id))
        set_source(con, record_id, field, source)


def fill_extra(
    con: Connection,
    record_id: int,
    key: str,
    field: str,
    value: str | None,
    *,
    unless: str | None = None,
    source: str = "sonar",
) -> None:
    """Fill in a key of JobExtraInfo that is missing, has a default (``unless``), or came from the same source."""
    if value is None:
        return
    rows = con.execute(
        "SELECT InfoValue FROM JobExtraInfo WHERE RecordID = ? AND InfoKey = ? ORDER BY rowid", (record_id, key)
    ).fetchall()
    old = unescaped(rows[0][0] or "") if rows else None
    if old == value:
        return
    if not old or old == unless or source_of(con, record_id, field) == source:
        con.execute("DELETE FROM JobExtraInfo WHERE RecordID = ? AND InfoKey = ?", (record_id, key))
        con.execute("INSERT INTO JobExtraInfo VALUES (?, ?, ?)", (record_id, key, escaped(value)))
        set_source(con, record_id, field, source)


def source_of(con: Connection, record_id: int, field: str) -> str | None:
    """Where a value of a record came from, when it was not where the record came from."""
    row = con.execute("SELECT Source FROM FieldSources WHERE RecordID = ? AND Field = ?", (record_id, field)).fetchone()
    return None if row is None else str(row[0])


def set_source(con: Connection, record_id: int, field: str, source: str) -> None:
    """Remember where a value came from; ``field`` is a column of v1_jobs."""
    con.execute("INSERT OR REPLACE INTO FieldSources VALUES (?, ?, ?)", (record_id, field, source))
