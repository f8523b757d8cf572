"""
Importing A-REX's own database gives the same published documents as recording the control directory.

The exceptions are what A-REX had already lost or knew otherwise: each is a line of the manual's table of differences.
"""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple
from zoneinfo import ZoneInfo

import arex_corpus as corpus
import pytest
from record_texts import car, individual_job, usage_record

from arcacct.arex.import_database import ImportReport, import_arex
from arcacct.database.access import open_accounting
from arcacct.records import reader
from arcacct.records.model import AAR
from arcacct.targets.apel.messages import APELOptions
from arcacct.targets.apel.summaries import summaries, summary_record
from arcacct.targets.sgas.usage_record import UROptions

NOW = 1_795_400_000
NAMES = corpus.names()
UTC = ZoneInfo("UTC")


class Arex(NamedTuple):
    """What one A-REX wrote, and the jobs in which its database and its control directory differ."""

    database: Callable[[str], sqlite3.Connection]
    jobs: int
    other_zone: int
    """Jobs that ran in another time zone."""
    internal: str
    """The job of the INTERNAL interface: A-REX has neither user nor end of it."""
    stuck: frozenset[str]
    """A-REX accounted for its end, but its files never say FINISHED: recording them knows no end."""
    odd: str
    """A transfer whose URL holds commas: A-REX stored it cut, as another type, without its volume."""

    @property
    def lost(self) -> set[str]:
        return {self.internal}


AREX = {
    6: Arex(
        corpus.arex_database, 36, 2, NAMES["internal"], frozenset({NAMES["hookexp-fail-FINISHING"]}), NAMES["oddurl"]
    ),
    7: Arex(corpus.arex7_database, 40, 0, "66a4fa6e23c6", frozenset(), "66972593fb66"),
}


@pytest.fixture(scope="module", params=AREX)
def version(request: pytest.FixtureRequest) -> int:
    """Of ARC."""
    return int(request.param)


@pytest.fixture(scope="module")
def arex(version) -> Arex:
    return AREX[version]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory, arex: Arex) -> Iterator[sqlite3.Connection]:
    """Our database after one import of what A-REX wrote, and nothing else."""
    here = corpus.place(tmp_path_factory.mktemp("imported"))
    with closing(open_accounting(here)) as con:
        report = import_arex(here, con, str(written_by(arex, tmp_path_factory.mktemp("arex"))), UTC)
        assert (report.added, len(report.lost), report.other_zone) == (arex.jobs - 1, 1, arex.other_zone)
        yield con


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory, version: int) -> Iterator[sqlite3.Connection]:
    """Our database after sweeps over the control directory."""
    with closing(swept_by(version, tmp_path_factory.mktemp("swept"))) as con:
        yield con


def swept_by(version: int, folder: pathlib.Path) -> sqlite3.Connection:
    return corpus.swept7(folder) if version == 7 else corpus.swept(corpus.rebuild(folder / "control"))


def written_by(arex: Arex, directory: pathlib.Path) -> pathlib.Path:
    path = directory / "of-arex.db"
    arex.database(str(path)).close()
    return path


def jobs(con: sqlite3.Connection, without: set[str] | frozenset[str] = frozenset()) -> dict[str, AAR]:
    """Every publishable record by job id, without its number."""
    return {
        aar.job_id: aar._replace(record_id=0)
        for page in reader.ended_between(con, 1, 2**40)
        for aar in page
        if aar.job_id not in without
    }


FORMATS = {
    "usage record": lambda aar: usage_record(aar, UROptions(host="ce.example.org"), NOW),
    "usage record, LRMS start": lambda aar: usage_record(
        aar, UROptions(host="ce.example.org", start_time_source="lrms"), NOW
    ),
    "CAR": lambda aar: car(aar, APELOptions(site="SITE", lrms_host="ce.example.org"), NOW),
    "APEL job": lambda aar: individual_job(aar, APELOptions(site="SITE", lrms_host="ce.example.org"), "v0.4"),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_every_document_is_the_same(arex, imported, swept, kind) -> None:
    """The text of each job's record, byte by byte."""
    differ = arex.lost | arex.stuck | {arex.odd}
    here, there = jobs(imported, differ), jobs(swept, differ)

    # A sweep sees the last state alone: the time of SUBMIT, a hook's event, is A-REX's to tell. Which authgroups a user
    # is in, only the files tell.
    def texts(records: dict[str, AAR]) -> dict[str, str]:
        alike = {one: aar._replace(lrms_submit_time=None, auth_groups=()) for one, aar in records.items()}
        return {job_id: FORMATS[kind](aar) for job_id, aar in alike.items()}

    assert texts(here) == texts(there)
    assert len(here) == arex.jobs - len(differ)


def test_every_summary_is_the_same(arex, imported, swept) -> None:
    """The sums of the month, when the jobs that A-REX had lost are left out."""
    options = APELOptions(site="SITE", lrms_host="ce.example.org")

    def texts(con: sqlite3.Connection) -> list[str]:
        cells = [reader.cell_of(aar._replace(auth_groups=())) for aar in jobs(con, arex.lost | arex.stuck).values()]
        return [summary_record(one, "summaries-v04") for one in summaries(cells, options, "summaries-v04")]

    assert texts(imported) == texts(swept)
    assert len(texts(imported)) > 3


def test_what_arex_had_lost(arex, imported, swept) -> None:
    """The jobs in which the two differ, and in what."""
    here, there = jobs(imported), jobs(swept)

    assert set(there) - set(here) == arex.lost
    assert set(here) - set(there) == arex.stuck
    assert there[arex.odd].transfers != here[arex.odd].transfers
    known = {"transfers": (), "stage_out_bytes": 0, "lrms_submit_time": None, "auth_groups": ()}
    assert there[arex.odd]._replace(**known) == here[arex.odd]._replace(**known)


def test_an_import_into_a_recorded_database(arex, version, tmp_path) -> None:
    """What the control directory told stays; the stuck job comes from A-REX; all that differs is named."""
    with closing(swept_by(version, tmp_path)) as con:
        before = jobs(con)
        report: ImportReport = import_arex(
            corpus.place(tmp_path / "control"), con, str(written_by(arex, tmp_path)), UTC
        )
        after = jobs(con)

    assert report.added + report.completed == len(arex.stuck)
    assert {one.job_id for one in report.differences} == {arex.odd}
    assert set(after) - set(before) == arex.stuck
    assert {
        job_id: aar._replace(lrms_submit_time=None) for job_id, aar in after.items() if job_id not in arex.stuck
    } == {job_id: aar._replace(lrms_submit_time=None) for job_id, aar in before.items()}
