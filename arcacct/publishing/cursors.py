"""The progress of each target: its cursor in the change feed, and its runs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import NamedTuple

from arcacct.database import schema
from arcacct.database.connection import Connection
from arcacct.database.durable import transaction
from arcacct.errors import ArcacctError
from arcacct.wording import sanitise_line

_EXIT_CODE = "LAST_EXIT_CODE "
"""The prefix of a note; the target's block follows."""

# The ledger of publishing: messages, answers, and held records with their reasons (publishing.db).
#
# Every function is one transaction, at synchronous=FULL. Only `accepted` leaves the sync to the next transaction: if a
# power cut loses an answer, the message is sent again. The caller keeps the order: `record_intent` before sending,
# `accepted` after it (INVARIANTS 4). No transaction spans the two databases. Texts from a receiver or an error are
# stored as `wording.sanitise_line` returns them, since people read them on terminals.


class Cursor(NamedTuple):
    """The progress of a target."""

    target: str
    incarnation: str
    last_seq: int
    start_end_time: int
    last_success: int | None


def cursor(con: Connection, target: str) -> Cursor | None:
    """Return the progress of a target; ``None`` if it never published."""
    row = con.execute(
        "SELECT Target, Incarnation, LastSeq, StartEndTime, LastSuccess FROM Targets WHERE Target = ?", (target,)
    ).fetchone()
    return None if row is None else Cursor._make(row)


def is_damaged(con: Connection, target: str) -> bool:
    """Whether the two copies of a target's progress differ. If so, any record up to there may be unhandled."""
    row = con.execute("SELECT 1 FROM Targets WHERE Target = ? AND LastSeq IS NOT LastSeqAgain", (target,)).fetchone()
    return row is not None


def jura_end_time(con: Connection, target: str) -> int | None:
    """Return the end time up to which jura-ng or arcacct published to a target; ``None``: not in jura's table."""
    row = con.execute("SELECT LastEndTime FROM AccountingTargets WHERE TargetID = ?", (target,)).fetchone()
    return None if row is None else int(row[0])


def rename_target(con: Connection, old: str, new: str) -> None:
    """Give a target another name and keep all its history."""
    with transaction(con):
        tables = con.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
            " AND EXISTS (SELECT 1 FROM pragma_table_info(sqlite_master.name) AS Its WHERE Its.name = 'Target')"
        ).fetchall()
        for (table,) in tables:
            con.execute(f"UPDATE {table} SET Target = ? WHERE Target = ?", (new, old))
        con.execute("UPDATE OR REPLACE AccountingTargets SET TargetID = ? WHERE TargetID = ?", (new, old))


def set_cursor(con: Connection, position: Cursor, *, in_doubt: bool = False) -> None:
    """
    Create or reset the cursor of a target. What was sent before is recognised by its digest.

    ``in_doubt``: a lost ledger may have had this target, so what was sent is unknown.
    """
    with transaction(con):
        # Unanswered messages have a Seq of the old numbering: it would move the new cursor past unsent records.
        con.execute("UPDATE Messages SET Seq = NULL WHERE Target = ? AND State = 'sending'", (position.target,))
        con.execute("UPDATE HeldRecords SET Seq = 0 WHERE Target = ?", (position.target,))
        con.execute(
            "INSERT INTO Targets (Target, Incarnation, LastSeq, LastSeqAgain, StartEndTime)"
            " VALUES (?1, ?2, ?3, ?3, ?4) ON CONFLICT (Target) DO UPDATE SET Incarnation = excluded.Incarnation,"
            " LastSeq = excluded.LastSeq, LastSeqAgain = excluded.LastSeqAgain, StartEndTime = excluded.StartEndTime,"
            # A place in the log of another incarnation does not apply here: any change may be missing from the ledger.
            " UncertainAfterSeq = CASE WHEN Incarnation = excluded.Incarnation THEN UncertainAfterSeq ELSE"
            " min(UncertainAfterSeq, 0) END",
            position[:4],
        )
        if in_doubt:
            con.execute("UPDATE Targets SET UncertainAfterSeq = 0 WHERE Target = ?", (position.target,))


def begin_run(con: Connection, target: str) -> int:
    """Start a run of a target; return its number."""
    with transaction(con):
        con.execute("UPDATE Targets SET Runs = Runs + 1 WHERE Target = ?", (target,))
        (number,) = con.execute("SELECT Runs FROM Targets WHERE Target = ?", (target,)).fetchone()
    return int(number)


def last_exit_code(con: Connection, target: str) -> int:
    """Return the exit code of the error that ended the last run; 0: no error, or an older program did not note it."""
    return int(schema.noted(con, f"{_EXIT_CODE}{target}") or 0)


def finish_run(con: Connection, target: str, *, error: ArcacctError | None, last_end_time: int | None) -> None:
    """Close a target's run: write its times and jura's own row. Nothing refers to that row: jura's tools delete it."""
    now = int(time.time())
    with transaction(con):
        schema.note(con, f"{_EXIT_CODE}{target}", 0 if error is None else error.exit_code)
        con.execute(
            "UPDATE Targets SET LastRun = ?1, LastError = ?2,"
            " LastSuccess = CASE WHEN ?2 IS NULL THEN ?1 ELSE LastSuccess END WHERE Target = ?3",
            (now, None if error is None else sanitise_line(str(error)), target),
        )
        if last_end_time is not None:
            con.execute(
                "INSERT OR REPLACE INTO AccountingTargets (TargetID, LastEndTime, LastReport) VALUES (?, ?, ?)",
                (target, last_end_time, now),
            )


def selections(con: Connection, target: str) -> tuple[dict[str, object] | None, dict[str, object] | None]:
    """Return the target's selection when nothing was held last, and when the whole log was read last."""
    row = con.execute("SELECT LastGoodSelection, FullScanSelection FROM Targets WHERE Target = ?", (target,)).fetchone()
    proven, walked = row or (None, None)
    return None if proven is None else json.loads(proven), None if walked is None else json.loads(walked)


def set_selection(con: Connection, target: str, column: str, selection: Mapping[str, object]) -> None:
    """Store the target's present selection in ``LastGoodSelection`` or ``FullScanSelection``."""
    with transaction(con):
        con.execute(
            f"UPDATE Targets SET {column} = ? WHERE Target = ?", (json.dumps(selection, sort_keys=True), target)
        )
