"""
Which finished jobs are packed (table PackedJob): those that some target still has to have.

Packs are made with the final status. Here those are let go that every target is past, and those made that are missing,
in slices of one short transaction each. Without a pack a record is read from the tables: nothing here is needed for
what is published, and it may end anywhere.
"""

from __future__ import annotations

from arcacct.config.paths import Places
from arcacct.database.access import writing
from arcacct.database.connection import Connection
from arcacct.database.schema import note, noted
from arcacct.jobs import packing, reading

MOST = 1_000_000
"""Of so many places of the log, the last, there may be packs: some 500 MB, where nothing is ever published."""
_BEGIN = "ARCACCT_PACKS_AFTER"
"""DBConfig: the place in the log up to which no record is packed."""
_SLICE, _PAGE = 5000, 200


def delete_delivered(con: Connection, here: Places, seq: int) -> None:
    """Delete the packs of records that were logged up to ``seq``, or very long ago; raises StoreError."""
    (highest,) = con.execute("SELECT coalesce(max(Seq), 0) FROM FinishedLog").fetchone()
    until = min(max(seq, highest - MOST), highest)
    while _begin(con) < until:
        with writing(con, here):
            first = _begin(con)
            (last,) = con.execute(
                "SELECT coalesce(max(Seq), ?2) FROM"
                " (SELECT Seq FROM FinishedLog WHERE Seq > ?1 AND Seq <= ?2 ORDER BY Seq LIMIT ?3)",
                (first, until, _SLICE),
            ).fetchone()
            con.execute(
                "DELETE FROM PackedJob WHERE RecordID IN (SELECT RecordID FROM FinishedLog WHERE Seq > ? AND Seq <= ?)",
                (first, last),
            )
            note(con, _BEGIN, last)


def pack_logged(con: Connection, here: Places, seq: int, horizon: int) -> int:
    """Pack what was logged with ``seq < Seq <= horizon`` and is not; returns of how many records. Raises StoreError."""
    total, place = 0, seq
    while True:
        with writing(con, here):
            lacking = con.execute(
                "SELECT FinishedLog.Seq FROM FinishedLog LEFT JOIN PackedJob"
                " ON PackedJob.RecordID = FinishedLog.RecordID AND PackedJob.Seq = FinishedLog.Seq AND Version = ?"
                " WHERE FinishedLog.Seq > ? AND FinishedLog.Seq <= ? AND PackedJob.RecordID IS NULL"
                " ORDER BY FinishedLog.Seq LIMIT ?",
                (packing.VERSION, place, horizon, _PAGE),
            ).fetchall()
            if not lacking:
                return total
            # In one transaction: what changed between reading and packing would be packed as it was.
            places = [one for (one,) in lacking]
            packs = [(one.aar.record_id, reading.pack_of(one.aar)) for one in reading.logged_at(con, places)]
            made = [(record_id, pack) for record_id, pack in packs if pack is not None]
            packing.keep(con, made)
            if seq < _begin(con):
                note(con, _BEGIN, seq)
        total += len(made)
        place = places[-1]


def _begin(con: Connection) -> int:
    return int(noted(con, _BEGIN) or 0)
