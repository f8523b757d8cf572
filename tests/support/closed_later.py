"""Databases in memory that a test leaves open: `publishing_fixtures.closed_databases` closes them when it is over."""

from __future__ import annotations

from arcacct.database.connection import Connection

OPEN: list[Connection] = []


def closed_later(con: Connection) -> Connection:
    """The same, to be closed at the end of the test."""
    OPEN.append(con)
    return con
