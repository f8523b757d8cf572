"""Which accounting files were read, and how far (table GridEngineFiles)."""

from __future__ import annotations

import time

from arcacct.db.engine import Connection
from arcacct.gridengine.reading import STDIN, Position, Reader

_COLUMNS = "FileID, Position, Tail, Checksum, Lines, Records, BadLines"


def find(con: Connection, cell: str, reader: Reader) -> Position:
    """
    Where an import of this file stopped, wherever it stood then; the beginning, if it was never read or has changed.

    A position at the beginning has no number yet (0).
    """
    if reader.path == STDIN:
        row = con.execute(
            f"SELECT {_COLUMNS} FROM GridEngineFiles WHERE Cell = ? AND Path = ? AND Device IS NULL", (cell, STDIN)
        ).fetchone()
        return Position(0) if row is None else Position(row[0], lines=0, records=row[5], bad_lines=row[6])
    reader.look_at_head()
    rows = con.execute(
        f"SELECT {_COLUMNS} FROM GridEngineFiles WHERE Cell = ? AND Head = ? ORDER BY Position DESC",
        (cell, reader.head),
    ).fetchall()
    for row in rows:
        position = Position._make(row)
        if reader.holds(position):
            return position
    return Position(0)


def was_read(con: Connection, cell: str, reader: Reader) -> bool:
    """Whether a file that is to be read from its beginning is one that was read before, and has changed since."""
    if reader.path == STDIN or reader.position.position:
        return False
    query = "SELECT 1 FROM GridEngineFiles WHERE Cell = ? AND Head = ? AND Position > 0"
    return con.execute(query, (cell, reader.head)).fetchone() is not None


def latest(con: Connection, cell: str, path: str) -> tuple[Position, int] | None:
    """Where the last import stopped in what stood at a path then, and when that was."""
    row = con.execute(
        f"SELECT {_COLUMNS}, ReadAt FROM GridEngineFiles WHERE Cell = ? AND Path = ? AND Device IS NOT NULL"
        " ORDER BY ReadAt DESC, FileID DESC LIMIT 1",
        (cell, path),
    ).fetchone()
    return None if row is None else (Position._make(row[:-1]), row[-1])


def file_of(con: Connection, cell: str, path: str) -> int:
    """The number of the file that was read last at a path; inside a transaction, since it may get one now."""
    row = con.execute(
        "SELECT FileID FROM GridEngineFiles WHERE Cell = ? AND Path = ? ORDER BY ReadAt DESC, FileID DESC LIMIT 1",
        (cell, path),
    ).fetchone()
    if row is not None:
        return int(row[0])
    insert = "INSERT INTO GridEngineFiles (Cell, Path) VALUES (?, ?)"
    return con.execute(insert, (cell, path)).lastrowid or 0


def keep(con: Connection, cell: str, reader: Reader, position: Position) -> Position:
    """Note where we are in a file; inside the transaction that writes what was read. Gives a new file its number."""
    device, inode = reader.identity or (None, None)
    now = int(time.time())
    if position.file_id == 0:
        file_id = con.execute(
            "INSERT INTO GridEngineFiles (Cell, Path, Head) VALUES (?, ?, ?)", (cell, reader.path, reader.head)
        ).lastrowid
        position = position._replace(file_id=file_id or 0)
    con.execute(
        "UPDATE GridEngineFiles SET (Path, Device, Inode, Position, Tail, Checksum, Lines, Records, BadLines, ReadAt)"
        " = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE FileID = ?",
        (reader.path, device, inode, *position[1:], now, position.file_id),
    )
    return position
