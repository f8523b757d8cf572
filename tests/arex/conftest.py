"""Fixtures of these tests."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from recording_host import host, shell

from arcacct.config.paths import Places
from arcacct.database.access import open_accounting

# What the tests of the sweep share; each file says itself what host it is about (`here`).


@pytest.fixture
def con(here: Places) -> Iterator[sqlite3.Connection]:
    """Its accounting database."""
    with closing(open_accounting(here)) as found:
        yield found


@pytest.fixture
def control(here: Places) -> pathlib.Path:
    """Its control directory."""
    return pathlib.Path(here.controldir)
