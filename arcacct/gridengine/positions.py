"""Which accounting files were read, and how far (table GridEngineFiles)."""

from __future__ import annotations

import time

from arcacct.db.engine import Connection
from arcacct.files.reading import Position, Reader

_COLUMNS = "FileID, Position, Tail, Checksum, Lines, Records, BadLines"


class FilePositions:
    """The positions in the files of a cell."""

    def __init__(self, con: Connection, cell: str) -> None:
        self._con = con
        self._cell = cell

    def find(self, reader: Reader) -> Position:
        """
        Where an import of this file stopped, wherever it stood then; its beginning, if there was none or it changed.

        A position at the beginning has no number yet (0), but that of what has no beginning to go back to.
        """
        if reader.identity is None:
            row = self._con.execute(
                f"SELECT {_COLUMNS} FROM GridEngineFiles WHERE Cell = ? AND Path = ? AND Device IS NULL",
                (self._cell, reader.path),
            ).fetchone()
            return Position() if row is None else Position._make(row)._replace(position=0, checksum=0, lines=0)
        reader.look_at_head()
        rows = self._con.execute(
            f"SELECT {_COLUMNS} FROM GridEngineFiles WHERE Cell = ? AND Head = ? ORDER BY Position DESC",
            (self._cell, reader.head),
        ).fetchall()
        return next((one for one in map(Position._make, rows) if reader.holds(one)), Position())

    def read_s(self, path: str) -> int:
        """When something was taken last from the file that stood at a path then, in UTC seconds; 0: never."""
        row = self._con.execute(
            "SELECT ifnull(max(ReadAt), 0) FROM GridEngineFiles WHERE Cell = ? AND Path = ? AND Device IS NOT NULL",
            (self._cell, path),
        ).fetchone()
        return int(row[0])

    def was_read(self, reader: Reader) -> bool:
        """Whether what begins as this file does was read before."""
        query = "SELECT 1 FROM GridEngineFiles WHERE Cell = ? AND Head = ? AND Position > 0"
        return self._con.execute(query, (self._cell, reader.head)).fetchone() is not None

    def file_of(self, path: str) -> int:
        """The number of the file that was read last at a path; inside a transaction, since it may get one now."""
        row = self._con.execute(
            "SELECT FileID FROM GridEngineFiles WHERE Cell = ? AND Path = ? ORDER BY ReadAt DESC, FileID DESC LIMIT 1",
            (self._cell, path),
        ).fetchone()
        return self._new(path, None) if row is None else int(row[0])

    def keep(self, reader: Reader, position: Position) -> Position:
        """
        Note where we are in a file; inside the transaction that writes what was read.

        Gives a new file its number.
        """
        device, inode = reader.identity or (None, None)
        if position.file_id == 0:
            position = position._replace(file_id=self._new(reader.path, reader.head))
        self._con.execute(
            "UPDATE GridEngineFiles SET (Path, Device, Inode, Position, Tail, Checksum, Lines, Records, BadLines,"
            " ReadAt) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE FileID = ?",
            (reader.path, device, inode, *position[1:], int(time.time()), position.file_id),
        )
        return position

    def _new(self, path: str, head: bytes | None) -> int:
        insert = "INSERT INTO GridEngineFiles (Cell, Path, Head) VALUES (?, ?, ?)"
        return self._con.execute(insert, (self._cell, path, head)).lastrowid or 0
