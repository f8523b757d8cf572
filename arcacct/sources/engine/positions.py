"""How far the files of a source were read, and which file is the same one under another name."""

from __future__ import annotations

import time
from typing import Any

from arcacct.database.connection import Connection
from arcacct.files.follow import FileOffset, Reader

_COLUMNS = "FileID, Position, Tail, Checksum, Lines, Records, BadLines"
_LATEST = "ORDER BY ReadAt DESC, FileID DESC LIMIT 1"


class FilePositions:
    """The positions in the files of a cell, in a table of the form of GridEngineFiles."""

    def __init__(self, con: Connection, table: str, cell: str) -> None:
        self._con = con
        self._table = table
        self._cell = cell

    def find(self, reader: Reader) -> FileOffset:
        """
        Return the position where an import of this file stopped, even if its path changed since.

        Returns the start of the file if no import read it or if it changed. A position at the start has the file number
        0. Exception: the number of an input that cannot return to its start, such as a pipe, is kept.
        """
        if reader.identity is None:
            rows = self._chosen(_COLUMNS, "Path = ? AND Device IS NULL", reader.path)
            return FileOffset._make(rows[0])._replace(position=0, checksum=0, lines=0) if rows else FileOffset()
        reader.look_at_head()
        rows = self._chosen(_COLUMNS, "Head = ? ORDER BY Position DESC", reader.head)
        return next((one for one in map(FileOffset._make, rows) if reader.holds(one)), FileOffset())

    def latest(self, path: str) -> tuple[FileOffset, int] | None:
        """
        Return the position where the last import of the file at this path stopped, and the time of it in UTC seconds.
        """
        rows = self._chosen(f"{_COLUMNS}, ReadAt", f"Path = ? AND Device IS NOT NULL {_LATEST}", path)
        return (FileOffset._make(rows[0][:-1]), rows[0][-1]) if rows else None

    def was_read(self, reader: Reader) -> bool:
        """Whether a file with the same first bytes was read before."""
        return bool(self._chosen("1", "Head = ? AND Position > 0", reader.head))

    def file_of(self, path: str) -> int:
        """
        Return the number of the file last read at a path. Call this inside a transaction: it may create the number.
        """
        rows = self._chosen("FileID", f"Path = ? {_LATEST}", path)
        return int(rows[0][0]) if rows else self.number(path, None)

    def number(self, path: str, head: bytes | None) -> int:
        """Return the number of a new file, inside a transaction. ``head``: the digest of its first record."""
        insert = f"INSERT INTO {self._table} (Cell, Path, Head) VALUES (?, ?, ?)"
        return self._con.execute(insert, (self._cell, path, head)).lastrowid or 0

    def keep(self, reader: Reader, position: FileOffset) -> None:
        """Store the current position in a file that has a number, inside the transaction that writes the records."""
        device, inode = reader.identity or (None, None)
        self._con.execute(
            f"UPDATE {self._table} SET (Path, Device, Inode, Position, Tail, Checksum, Lines, Records, BadLines,"
            " ReadAt) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE FileID = ?",
            (reader.path, device, inode, *position[1:], int(time.time()), position.file_id),
        )

    def _chosen(self, columns: str, condition: str, value: object) -> list[Any]:
        query = f"SELECT {columns} FROM {self._table} WHERE Cell = ? AND {condition}"
        return self._con.execute(query, (self._cell, value)).fetchall()
