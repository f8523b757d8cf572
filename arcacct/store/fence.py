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
from arcacct.store.accounting import writing
from arcacct.store.checkpoint import make_durable
from arcacct.store.query import highest_seq


class Fence(NamedTuple):
    """What a fence tells."""

    horizon: int
    """The highest Seq that is on disk."""
    passed: int
    """How many fences this database has seen: a number that comes again betrays an older copy of it."""


def pass_fence(con: Connection, here: Places, also: Callable[[], None] = lambda: None, *, at_least: int = 0) -> Fence:
    """
    Commit one real row and sync it: all that was committed before is on disk since.

    (By a sync behind the commit and not with synchronous=FULL, which syncs while every hook waits in the queue.)
    ``also`` is done in the same transaction; the fences are counted on from ``at_least``.
    """
    with writing(con, here):
        horizon = highest_seq(con)
        con.execute("UPDATE Fence SET Horizon = ?, Passed = max(Passed, ?) + 1", (horizon, at_least))
        (passed,) = con.execute("SELECT Passed FROM Fence").fetchone()
        also()
    make_durable(here.database)
    return Fence(horizon, int(passed))
