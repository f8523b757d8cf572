"""
The fence of the publisher (INVARIANTS 3): what is read below the horizon can be taken back by no power cut.

With synchronous=NORMAL the last commits may be lost with the power; their Seq would be issued again for other jobs
while the publisher's cursor stands behind them.
"""

from __future__ import annotations

from _sqlite3 import Connection
from collections.abc import Callable
from typing import NamedTuple

from arcacct.conf.places import Places
from arcacct.db.checkpoint import make_durable
from arcacct.db.opening import writing


class Fence(NamedTuple):
    """What a fence tells."""

    horizon: int
    """The highest Seq that is on disk."""
    passed: int
    """How many fences this database has seen: a number that comes again betrays an older copy of it."""


def pass_fence(con: Connection, here: Places, also: Callable[[], None] = lambda: None, *, at_least: int = 0) -> Fence:
    """
    Commit one real row with an fsync: all that was committed before is on disk since.

    (Synced before the turn as well, so that the sync in the turn, for which hooks wait, has next to nothing to write.)
    ``also`` is done in the same transaction; the fences are counted on from ``at_least``.
    """
    make_durable(here.database)
    con.execute("PRAGMA synchronous = FULL")
    try:
        with writing(con, here):
            horizon = highest_seq(con)
            con.execute("UPDATE Fence SET Horizon = ?, Passed = max(Passed, ?) + 1", (horizon, at_least))
            (passed,) = con.execute("SELECT Passed FROM Fence").fetchone()
            also()
    finally:
        con.execute("PRAGMA synchronous = NORMAL")
    return Fence(horizon, int(passed))


def highest_seq(con: Connection) -> int:
    """The highest Seq that FinishedLog ever had."""
    row = con.execute("SELECT seq FROM sqlite_sequence WHERE name = 'FinishedLog'").fetchone()
    return int(row[0]) if row else 0
