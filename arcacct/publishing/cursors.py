"""How far each target is: its cursor in the change feed, its runs, and where jura-ng stopped."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import NamedTuple

from arcacct.config.settings import Settings
from arcacct.database import schema
from arcacct.database.connection import Connection, DatabaseError, connect
from arcacct.database.durable import transaction
from arcacct.errors import ArcacctError
from arcacct.wording import sanitise_line

_EXIT_CODE = "LAST_EXIT_CODE "
"""Noted with the target's block behind it."""

# How far jura-ng came with each target, read from its own publishing.db when arcacct takes over.


def published_until(settings: Settings, block: str) -> int | None:
    """When the last job ended that jura-ng published to a target, UTC seconds; ``None``: it never did."""
    if not os.path.exists(settings.jura_database):
        return None
    return jura_end_times(settings.jura_database).get(block)


def jura_end_times(path: str) -> dict[str, int]:
    """
    LastEndTime by TargetID of jura-ng's database; empty when there is none or it cannot be read.

    SQLite opens a copy: a lock on the file could stop a jura-ng that still runs.
    """
    # Once in the life of a target.
    import shutil  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="arcacct-") as folder:
        copy = os.path.join(folder, "publishing.db")
        try:
            for suffix in ("", "-wal"):
                if os.path.exists(path + suffix):
                    shutil.copyfile(path + suffix, copy + suffix)
            if not os.path.exists(copy):
                return {}
            with closing(connect(copy)) as con:
                rows = con.execute("SELECT TargetID, LastEndTime FROM AccountingTargets")
                return {str(name): int(end) for name, end in rows}
        except (OSError, DatabaseError, ValueError):
            return {}


# The ledger of publishing: what was sent where, what was answered, what is held back and why (publishing.db).
#
# Every function is one transaction, at synchronous=FULL; only `accepted` leaves the sync to the next one: an answer
# that a power cut takes back is a message sent again. The order is the caller's: `record_intent` before sending,
# `accepted` after (INVARIANTS 4). No transaction spans the two databases. A receiver's words, and those of an error,
# are kept as `wording.sanitise_line` lets them out: people read them on terminals.


class Cursor(NamedTuple):
    """How far a target is."""

    target: str
    incarnation: str
    last_seq: int
    start_end_time: int
    last_success: int | None


_BY_TARGET = (
    "Targets",
    "Messages",
    "SentSummaries",
    "HeldRecords",
    "UnfinishedMonths",
    "PublishedTotals",
    "MonthFormats",
    "HeldMonths",
    "AcceptedDecreases",
    "RefusedSummaries",
    "UncertainMonths",
)
"""The tables that know a target by its name."""


def cursor(con: Connection, target: str) -> Cursor | None:
    """How far a target is; ``None`` for one that never published."""
    row = con.execute(
        "SELECT Target, Incarnation, LastSeq, StartEndTime, LastSuccess FROM Targets WHERE Target = ?", (target,)
    ).fetchone()
    return None if row is None else Cursor._make(row)


def is_damaged(con: Connection, target: str) -> bool:
    """Whether the two notes of how far a target is differ: then nothing up to there is known to be handled."""
    row = con.execute("SELECT 1 FROM Targets WHERE Target = ? AND LastSeq IS NOT LastSeqAgain", (target,)).fetchone()
    return row is not None


def jura_end_time(con: Connection, target: str) -> int | None:
    """The end time up to which jura-ng (or we) published a target; ``None`` for one that jura does not know."""
    row = con.execute("SELECT LastEndTime FROM AccountingTargets WHERE TargetID = ?", (target,)).fetchone()
    return None if row is None else int(row[0])


def rename_target(con: Connection, old: str, new: str) -> None:
    """A target goes on under another name, with all its history."""
    with transaction(con):
        for table in _BY_TARGET:
            con.execute(f"UPDATE {table} SET Target = ? WHERE Target = ?", (new, old))
        con.execute("UPDATE OR REPLACE AccountingTargets SET TargetID = ? WHERE TargetID = ?", (new, old))


def set_cursor(con: Connection, position: Cursor, *, in_doubt: bool = False) -> None:
    """
    Begin a target, or begin it anew: what was sent before is recognised by its digest.

    ``in_doubt``: a lost ledger may have known it; what was sent is unknown.
    """
    with transaction(con):
        # What is under way counts in the numbers of before: it would carry the new cursor past records of today.
        con.execute("UPDATE Messages SET Seq = NULL WHERE Target = ? AND State = 'sending'", (position.target,))
        con.execute("UPDATE HeldRecords SET Seq = 0 WHERE Target = ?", (position.target,))
        con.execute(
            "INSERT INTO Targets (Target, Incarnation, LastSeq, LastSeqAgain, StartEndTime)"
            " VALUES (?1, ?2, ?3, ?3, ?4) ON CONFLICT (Target) DO UPDATE SET Incarnation = excluded.Incarnation,"
            " LastSeq = excluded.LastSeq, LastSeqAgain = excluded.LastSeqAgain, StartEndTime = excluded.StartEndTime,"
            # A place in the log of another life says nothing about this one: any change may be unknown to the ledger.
            " UncertainAfterSeq = CASE WHEN Incarnation = excluded.Incarnation THEN UncertainAfterSeq ELSE"
            " min(UncertainAfterSeq, 0) END",
            position[:4],
        )
        if in_doubt:
            con.execute("UPDATE Targets SET UncertainAfterSeq = 0 WHERE Target = ?", (position.target,))


def begin_run(con: Connection, target: str) -> int:
    """The number of a target's run that begins now."""
    with transaction(con):
        con.execute("UPDATE Targets SET Runs = Runs + 1 WHERE Target = ?", (target,))
    return last_run(con, target)


def last_run(con: Connection, target: str) -> int:
    """The number of a target's last run; 0 when there was none."""
    row = con.execute("SELECT Runs FROM Targets WHERE Target = ?", (target,)).fetchone()
    return 0 if row is None else int(row[0])


def move_cursor(con: Connection, target: str, seq: int) -> None:
    """Nothing up to ``seq`` needs sending."""
    with transaction(con):
        advance(con, target, seq)


def advance(con: Connection, target: str, seq: int) -> None:
    # Each from itself: one that was damaged stays different from the other.
    con.execute(
        "UPDATE Targets SET LastSeq = max(LastSeq, ?1), LastSeqAgain = max(LastSeqAgain, ?1) WHERE Target = ?2",
        (seq, target),
    )


def last_exit_code(con: Connection, target: str) -> int:
    """The exit code of the error that ended the last run; 0: none, or an older program did not note it."""
    return int(schema.noted(con, f"{_EXIT_CODE}{target}") or 0)


def finish_run(con: Connection, target: str, *, error: ArcacctError | None, last_end_time: int | None) -> None:
    """Close a target's run: its times, and jura's own row. Nothing refers to that row: jura's tools delete it."""
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
