"""A-REX's own file, our database of the same jobs, and the configuration to ask it by."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import arex_corpus as corpus
import pytest

from arcacct.database.access import leave_open


class Asked(NamedTuple):
    """Our database of the corpus."""

    conf: pathlib.Path
    database: pathlib.Path
    control: pathlib.Path


@pytest.fixture(scope="session")
def arex_file(tmp_path_factory) -> pathlib.Path:
    """What A-REX itself wrote, with a rollback journal as A-REX makes it."""
    path = tmp_path_factory.mktemp("arex") / "accounting.db"
    with closing(sqlite3.connect(path)) as con:
        con.executescript((corpus.AREX / "accounting.sql").read_text())
    return path


@pytest.fixture(scope="session")
def arex7_file(tmp_path_factory) -> pathlib.Path:
    """What A-REX 7 itself wrote, with a rollback journal as A-REX makes it."""
    path = tmp_path_factory.mktemp("arex7") / "accounting_v2.db"
    corpus.arex7_database(str(path)).close()
    return path


def _swept(path: pathlib.Path) -> tuple[Asked, sqlite3.Connection]:
    control = corpus.rebuild(path / "control")
    conf = path / "arc.conf"
    conf.write_text(f"[lrms]\nlrms=fork\nbenchmark=HEPSPEC:11.11\n[arex]\ncontroldir={control.path}\n")
    return Asked(conf, pathlib.Path(corpus.place(control.path).database), control.path), corpus.swept(control)


@pytest.fixture
def ours(tmp_path) -> Asked:
    """The same jobs, swept from the control directory."""
    found, con = _swept(tmp_path)
    leave_open(con, str(found.database))
    return found


@pytest.fixture(scope="session")
def unchanged(tmp_path_factory) -> Iterator[Asked]:
    """The same for all tests that only ask; where one has changed it, the last of them fails."""
    found, con = _swept(tmp_path_factory.mktemp("unchanged"))
    with closing(con):
        before = [*con.iterdump()]
        yield found
        assert [*con.iterdump()] == before
