"""Two sites with three CEs: their databases, and what `arcacct export` made of them."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import NamedTuple

import arex_corpus as corpus
import pytest
import stored_jobs

from arcacct.cli.main import main
from arcacct.database.access import initialise, open_accounting
from arcacct.records.model import Job

_DAY_S = 86_400


class Federation(NamedTuple):
    """A dataset, and the database of each CE."""

    root: pathlib.Path
    databases: dict[tuple[str, str], sqlite3.Connection]
    """By site and CE."""

    def file(self, site: str, ce: str) -> str:
        """The path of a database."""
        return str(self.databases[site, ce].execute("PRAGMA database_list").fetchone()[2])


def varied(number: int) -> Job:
    """A job that differs from its neighbours in whatever can be asked by."""
    job = stored_jobs.job(
        number,
        end_s=stored_jobs.END_S + number * 7 * _DAY_S // 3,
        status=("completed", "failed", "aborted", "completed", "in-progress")[number % 5],
    )
    vanished = number % 10 == 2
    measured = {"wall_s": 0, "cpu_user_s": 0, "cpu_kernel_s": 0} if vanished else {}
    # Workers in six time zones, and one whose clock is a day off.
    start = (
        stored_jobs.END_S + number * 7 * _DAY_S // 3 - 1000 + (0, 3600, 19_800, -18_000, 7200, -30, 86_400)[number % 7]
    )
    times = (("LRMSSTART", start), ("LRMSEND", start + 900))
    if number % 2:
        times = (("SUBMIT", stored_jobs.END_S + number * 7 * _DAY_S // 3 - 1000 - number**3), *times)
    return job._replace(
        **{
            "vo": ("", "atlas", "cms")[number % 3],
            "queue": ("main", "short")[number % 2],
            "core_count": (1, 8, 0)[number % 3],
            "benchmark": ("HEPSPEC:12.26", "HEPscore23:10.5", "Si2k:2500.125", None, "hs06:8")[number % 5],
            "project": (None, "climate")[number % 2],
            "exit_code": number % 3,
            "wall_s": (0, 3500, 3500)[number % 3] if number > 20 else 100 * number,
            "cpu_user_s": 20_000 if number > 20 else 200 * number,
            "endpoint_url": ("", "https://ce.example.org:443/arex")[number % 2],
            "endpoint_type": ("local", "org.nordugrid.arcrest")[number % 2],
            "auth_tokens": (("mainfqan", f"/atlas/g{number % 2}/Role={('NULL', 'pilot')[number % 2]}"),)
            * (number % 3 > 0),
            "run_time_environments": ("ENV/PROXY", "APPS/ROOT")[: number % 3],
            "events": times,
            "node_names": (("n1", "n1", "n2"), ("n2",), ())[number % 3],
            **measured,
        }
    )


ACCELERATORS = "INSERT INTO JobAccelerators SELECT RecordID, 'sonar', 'fox', 2, 7200, RecordID + 0.5, NULL, NULL"


@pytest.fixture(scope="session")
def federation(tmp_path_factory) -> Iterator[Federation]:
    """Not to be changed by any test."""
    root, work = tmp_path_factory.mktemp("dataset"), tmp_path_factory.mktemp("ces")
    with ExitStack() as open_ones:
        databases = {("North", "ce1.example.org"): corpus.swept(corpus.rebuild(work / "ce1.example.org"))}
        for number, (site, ce) in enumerate((("North", "ce2.example.org"), ("South", "ce.example.com"))):
            here = corpus.place(work / ce)
            initialise(here)
            con = databases[site, ce] = open_accounting(here)
            stored_jobs.add(con, here, *map(varied, range(1 + 30 * number, 40 + 30 * number)))
            con.execute(f"{ACCELERATORS} FROM AAR LIMIT 20")
        for con in databases.values():
            open_ones.enter_context(closing(con))
        made = Federation(root, databases)
        for site, ce in databases:
            with pytest.raises(SystemExit) as ended:
                main(["--database", made.file(site, ce), "export", "--site", site, "--ce", ce, str(root)])
            assert not ended.value.code
        yield made
