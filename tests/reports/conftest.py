"""Sites of which reports are made: the corpus of A-REX, and one of any jobs."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from contextlib import closing

import arex_corpus as corpus
import conf_files
import pytest
import stored_jobs

from arcacct.config.parser import load
from arcacct.config.settings import Settings, settings
from arcacct.database.access import leave_open, open_accounting
from arcacct.records.model import Job
from arcacct.targets import kinds


@pytest.fixture
def swept(tmp_path) -> pathlib.Path:
    """The arc.conf of a site that has recorded the corpus of A-REX, all of November 2026."""
    control = corpus.rebuild(tmp_path / "control")
    here = corpus.place(control.path)
    leave_open(corpus.swept(control), here.database)
    conf = tmp_path / "arc.conf"
    conf.write_text(f"[lrms]\nlrms=fork\nbenchmark=HEPSPEC:11.11\n[arex]\ncontroldir={control.path}\n")
    return conf


class Site:
    """A host with the jobs that it is given."""

    def __init__(self, path: pathlib.Path, ours: str) -> None:
        self.path = path
        (path / "accounting").mkdir(mode=0o700)
        (path / "control").mkdir()
        conf_files.write(
            path,
            f"[arcacct]\ndatabase={path}/accounting/accounting.db\n{ours}\n",
            f"[common]\nhostname=ce.example.org\n[arex]\ncontroldir={path}/control\n",
        )
        self.conf = str(path / "arc.conf")

    def settings(self) -> Settings:
        return settings(load(self.conf, {}), kinds())

    def add(self, *jobs: Job) -> None:
        here = self.settings().places
        with closing(open_accounting(here)) as con:
            stored_jobs.add(con, here, *jobs)


@pytest.fixture
def site(tmp_path) -> Callable[..., Site]:
    """Makes a host, with these lines of arcacct.conf."""

    def made(ours: str = "") -> Site:
        return Site(tmp_path, ours)

    return made
