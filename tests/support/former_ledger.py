"""A ledger as the program wrote it before its records stood in narrow rows: publishing.db of schema 6."""

from __future__ import annotations

import json
import pathlib
import sqlite3
import zlib
from contextlib import closing
from itertools import accumulate

from arcacct.db.schema import PUBLISHING, in_memory

SCHEMA = 6


def as_it_was_written(path: str) -> None:
    """What a ledger says, written by the former program if it is not; nobody else may have it open."""
    with closing(sqlite3.connect(path)) as now, closing(in_memory(PUBLISHING, SCHEMA)) as former:
        if now.execute("SELECT 1 FROM sqlite_master WHERE name = 'SentRecords'").fetchone() is None:
            return
        tables = [name for (name,) in former.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            if table in ("MessageRecords", "Messages"):
                continue
            former.execute(f"DELETE FROM {table}")
            _copy(now, former, table, f"SELECT {{}} FROM {table}")
        former.execute(f"UPDATE DBConfig SET KeyValue = '{SCHEMA}' WHERE KeyName = 'ARCACCT_SCHEMA'")
        _copy(now, former, "Messages", "SELECT {} FROM Messages")
        for message_id, is_packed, data in now.execute("SELECT * FROM MessageBytes"):
            packed = data if is_packed else zlib.compress(data, 1)
            former.execute("UPDATE Messages SET Bytes = ? WHERE MessageID = ?", (packed, message_id))
        rows = dict(now.execute("SELECT MessageID, ReceiverRows FROM Messages WHERE ReceiverRows IS NOT NULL"))
        for message_id, position, *values in now.execute(
            "SELECT MessageID, Position, JobID, RecordID, EndTime, Digest, Key, Notes, GivenID, Wall, ReplacedID,"
            " ReplacedWall FROM MessageRecords"
        ).fetchall():
            row = _row(json.loads(rows[message_id]), position) if message_id in rows else None
            former.execute(
                "INSERT INTO MessageRecords (MessageID, Position, JobID, RecordID, Seq, EndTime, Digest, Key, Notes,"
                " GivenID, Wall, ReplacedID, ReplacedWall, ReceiverRow)"
                " VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (message_id, position, *values, row),
            )
        for message_id, position, row in now.execute(
            "SELECT MessageID, Position, ReceiverRow FROM FormerRecords WHERE ReceiverRow IS NOT NULL"
        ):
            former.execute(
                "UPDATE MessageRecords SET ReceiverRow = ? WHERE MessageID = ? AND Position = ?",
                (row, message_id, position),
            )
        for suffix in ("", "-wal", "-shm"):
            pathlib.Path(path + suffix).unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as written:
            former.backup(written)
            written.execute("PRAGMA journal_mode = WAL")


def _copy(now: sqlite3.Connection, former: sqlite3.Connection, table: str, query: str) -> None:
    names = [row[1] for row in former.execute(f"PRAGMA table_info({table})")]
    rows = now.execute(query.format(", ".join(names))).fetchall()
    former.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})", rows)


def _row(packed: list[int | str | None], position: int) -> str | None:
    """The receiver's number of a record, by its place in the message."""
    if not isinstance(packed[position], int):
        return packed[position]  # type: ignore[return-value]
    return str(list(accumulate(one for one in packed[: position + 1] if isinstance(one, int)))[-1])
