"""What a database of ours notes of itself, under a name in its table DBConfig."""

from __future__ import annotations

from _sqlite3 import Connection


def noted(con: Connection, name: str) -> str | None:
    """What is noted under a name; ``None`` for nothing."""
    row = con.execute("SELECT KeyValue FROM DBConfig WHERE KeyName = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def note(con: Connection, name: str, value: object) -> None:
    """Note a value, as text, instead of what was noted before; inside the caller's transaction."""
    con.execute("INSERT OR REPLACE INTO DBConfig VALUES (?, ?)", (name, str(value)))
