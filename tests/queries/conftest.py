"""A-REX's own file, our database of the same jobs, and the configuration to ask it by."""

from __future__ import annotations

import pathlib
import sqlite3
from contextlib import closing
from typing import NamedTuple

import arex_corpus as corpus
import pytest
from watched_site import WatchedSite, watched

from arcacct.database.access import leave_open
from arcacct.sandbox.authority import Authority, create


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


@pytest.fixture
def ours(tmp_path) -> Asked:
    """The same jobs, swept from the control directory."""
    control = corpus.rebuild(tmp_path / "control")
    here = corpus.place(control.path)
    leave_open(corpus.swept(control), here.database)
    conf = tmp_path / "arc.conf"
    conf.write_text(f"[lrms]\nlrms=fork\nbenchmark=HEPSPEC:11.11\n[arex]\ncontroldir={control.path}\n")
    return Asked(conf, pathlib.Path(here.database), control.path)


@pytest.fixture(scope="session")
def authority(tmp_path_factory) -> Authority:
    """A throw-away certificate authority."""
    return create(str(tmp_path_factory.mktemp("authority")))


@pytest.fixture
def site(ours, authority) -> WatchedSite:
    """A site with one target that has everything, swept and published just now."""
    return watched(ours.conf, corpus.place(ours.control), authority)
