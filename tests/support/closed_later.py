"""Databases in memory that a test leaves open: `closed_databases` closes them when it is over."""

from __future__ import annotations

import pytest

from arcacct.database.connection import Connection

OPEN: list[Connection] = []


def closed_later(con: Connection) -> Connection:
    """The same, to be closed at the end of the test."""
    OPEN.append(con)
    return con


@pytest.fixture(autouse=True)
def closed_databases():
    """What a test has opened in memory and left open is closed."""
    yield
    while OPEN:
        OPEN.pop().close()
