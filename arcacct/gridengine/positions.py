"""Which accounting files were read, and how far (table GridEngineFiles)."""

from __future__ import annotations

import time
from typing import Any

from arcacct.database.connection import Connection
from arcacct.files.follow import FileOffset, Reader

_COLUMNS = "FileID, Position, Tail, Checksum, Lines, Records, BadLines"
_LATEST = "ORDER BY ReadAt DESC, FileID DESC LIMIT 1"


class FilePositions:
    """The positions in the files of a cell."""

    def __init__(self, con: Connection, cell: str) -> None:
        self._con = con
        self._cell = cell

    def find(self, reader: Reader) -> FileOffset:
        """
        Where an import of this file stopped, wherever it stood then; its beginning, if there was none or it changed.

        A position at the beginning has no number yet (0), but that of what has no beginning to go back to.
        """
        if reader.identity is None:
            rows = self._chosen(_COLUMNS, "Path = ? AND Device IS NULL", reader.path)
            return FileOffset._make(rows[0])._replace(position=0, checksum=0, lines=0) if rows else FileOffset()
        reader.look_at_head()
        rows = self._chosen(_COLUMNS, "Head = ? ORDER BY Position DESC", reader.head)
        return next((one for one in map(FileOffset._make, rows) if reader.holds(one)), FileOffset())

    def latest(self, path: str) -> tuple[FileOffset, int] | None:
        """Where the last import stopped in the file that stood at a path then, and when that was, in UTC seconds."""
        rows = self._chosen(f"{_COLUMNS}, ReadAt", f"Path = ? AND Device IS NOT NULL {_LATEST}", path)
        return (FileOffset._make(rows[0][:-1]), rows[0][-1]) if rows else None

    def was_read(self, reader: Reader) -> bool:
        """Whether what begins as this file does was read before."""
        return bool(self._chosen("1", "Head = ? AND Position > 0", reader.head))

    def file_of(self, path: str) -> int:
        """The number of the file that was read last at a path; inside a transaction, since it may get one now."""
        rows = self._chosen("FileID", f"Path = ? {_LATEST}", path)
        return int(rows[0][0]) if rows else self._new(path, None)

    def keep(self, reader: Reader, position: FileOffset) -> FileOffset:
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

    def _chosen(self, columns: str, condition: str, value: object) -> list[Any]:
        query = f"SELECT {columns} FROM GridEngineFiles WHERE Cell = ? AND {condition}"
        return self._con.execute(query, (self._cell, value)).fetchall()

    def _new(self, path: str, head: bytes | None) -> int:
        insert = "INSERT INTO GridEngineFiles (Cell, Path, Head) VALUES (?, ?, ?)"
        return self._con.execute(insert, (self._cell, path, head)).lastrowid or 0
