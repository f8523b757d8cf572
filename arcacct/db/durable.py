"""Transactions of the publishing database: on the disk before anything is done that cannot be undone."""

from __future__ import annotations

from _sqlite3 import Connection
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_TURN = Lock()
_taken_back = 0


def count_rolled_back() -> int:
    """How many transactions of this process were rolled back: what was cached during them may be wrong."""
    return _taken_back


@contextmanager
def transaction(con: Connection) -> Iterator[None]:
    """All or nothing, and on disk afterwards."""
    global _taken_back  # noqa: PLW0603
    # Threads that publish side by side wait here: SQLite lets one write at a time, and the others sleep and try.
    with _TURN:
        con.execute("BEGIN IMMEDIATE")
        try:
            try:
                yield
            except BaseException:
                con.execute("ROLLBACK")
                raise
            con.execute("COMMIT")
        except BaseException:
            _taken_back += 1
            raise
