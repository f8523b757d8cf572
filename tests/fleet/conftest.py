"""Two sites with three CEs: their databases, and what they exported."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import NamedTuple

import arex_corpus as corpus
import pytest
import stored_jobs

from arcacct.db.opening import initialise, open_accounting
from arcacct.jobs.job import Job

_DAY_S = 86_400


class Federation(NamedTuple):
    """A dataset, and the database of each CE."""

    root: pathlib.Path
    databases: dict[tuple[str, str], sqlite3.Connection]
    """By site and CE."""


def varied(number: int) -> Job:
    """A job that differs from its neighbours in whatever can be asked by."""
    job = stored_jobs.job(
        number,
        end_s=stored_jobs.END_S + number * 7 * _DAY_S // 3,
        status=("completed", "failed", "aborted", "completed", "in-progress")[number % 5],
    )
    told = {
        "vo": (None, "atlas", "cms")[number % 3],
        "queue": ("main", "short")[number % 2],
        "core_count": (1, 8, 0)[number % 3],
        "benchmark": ("HEPSPEC:12.26", "HEPscore23:10.5", "Si2k:2500.125", None, "hs06:8")[number % 5],
        "project": (None, "climate")[number % 2],
        "exit_code": number % 3,
        "wall_s": (0, 3500, 2**60)[number % 3] if number > 20 else 100 * number,
        "endpoint_url": (None, "https://ce.example.org:443/arex")[number % 2],
        "endpoint_type": (None, "org.nordugrid.arcrest")[number % 2],
        "auth_tokens": (("mainfqan", f"/atlas/g{number % 2}/Role={('NULL', 'pilot')[number % 2]}"),) * (number % 3 > 0),
        "run_time_environments": ("ENV/PROXY", "APPS/ROOT")[: number % 3],
        "node_names": ("n1:n1:n2", "n2", None)[number % 3],
    }
    if number % 10 == 2:
        # It vanished, and nothing was measured of it.
        told |= {"wall_s": 0, "cpu_user_s": 0, "cpu_kernel_s": 0}
    return job._replace(**{name: value for name, value in told.items() if name in Job._fields})


@pytest.fixture(scope="session")
def federation(tmp_path_factory) -> Iterator[Federation]:
    """Not to be changed by any test."""
    from written_partitions import write_database

    root, work = tmp_path_factory.mktemp("dataset"), tmp_path_factory.mktemp("ces")
    with ExitStack() as open_ones:
        databases = {("North", "ce1.example.org"): corpus.swept(corpus.rebuild(work / "control"))}
        for number, (site, ce) in enumerate((("North", "ce2.example.org"), ("South", "ce.example.com"))):
            (work / ce / "control").mkdir(parents=True)
            conf = work / ce / "arc.conf"
            conf.write_text(f"[arex]\ncontroldir={work / ce}/control\n")
            here = corpus.place(work / ce / "control")
            initialise(here)
            con = databases[site, ce] = open_accounting(here)
            stored_jobs.add(con, here, *map(varied, range(1 + 30 * number, 40 + 30 * number)))
        for (site, ce), con in databases.items():
            open_ones.enter_context(closing(con))
            write_database(root, con, site, ce)
        yield Federation(root, databases)
