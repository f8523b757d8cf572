"""
Importing A-REX's own database gives the same published documents as recording the control directory.

The exceptions are what A-REX had already lost or knew otherwise: each is a line of the manual's table of differences.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from zoneinfo import ZoneInfo

import arex_corpus as corpus
import pytest

from arcacct.records.aar import AAR
from arcacct.records.apel import APELOptions, individual_job
from arcacct.records.apel_summary import summaries, summary_record
from arcacct.records.car import CAROptions, car
from arcacct.records.usage_record import UROptions, usage_record
from arcacct.store import query
from arcacct.store.accounting import open_accounting
from arcacct.store.import_arex import ImportReport, import_arex

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

NOW = 1_795_180_000
LOST = {"internal"}
"""A-REX has neither user nor end of the INTERNAL job."""
STUCK = {"hookexp-fail-FINISHING"}
"""A-REX accounted for its end, but its files never say FINISHED: recording them knows no end."""
ODD = {"oddurl"}
"""A transfer whose URL holds commas: A-REX stored it cut, as another type, without its volume."""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """Our database after one import of what A-REX wrote, and nothing else."""
    here = corpus.place(tmp_path_factory.mktemp("imported"))
    with closing(open_accounting(here)) as con:
        report = import_arex(here, con, str(written_by_arex(tmp_path_factory.mktemp("arex"))), ZoneInfo("UTC"))
        assert (report.added, len(report.lost), report.other_zone) == (35, 1, 2)
        yield con


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """Our database after one sweep over the control directory."""
    control = corpus.rebuild(tmp_path_factory.mktemp("swept") / "control")
    with closing(corpus.swept(control)) as con:
        yield con


def written_by_arex(directory: pathlib.Path) -> pathlib.Path:
    path = directory / "accounting.db"
    with closing(sqlite3.connect(path)) as con:
        con.executescript((corpus.AREX / "accounting.sql").read_text())
    return path


def jobs(con: sqlite3.Connection, without: set[str]) -> dict[str, AAR]:
    """Every publishable record by case of the corpus, without its number."""
    cases = {job_id: name for name, job_id in corpus.names().items()}
    return {
        cases[aar.job_id]: aar._replace(record_id=0)
        for page in query.ended_between(con, 1, 2**40)
        for aar in page
        if cases[aar.job_id] not in without
    }


FORMATS = {
    "usage record": lambda aar: usage_record(aar, UROptions(host="ce.example.org"), NOW),
    "usage record, LRMS start": lambda aar: usage_record(
        aar, UROptions(host="ce.example.org", start_time_source="lrms"), NOW
    ),
    "CAR": lambda aar: car(aar, CAROptions(site="SITE", host="ce.example.org"), NOW),
    "APEL job": lambda aar: individual_job(aar, APELOptions(site="SITE", lrms_host="ce.example.org"), "v0.4"),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_every_document_is_the_same(imported, swept, kind) -> None:
    """The text of each job's record, byte by byte."""
    here, there = jobs(imported, LOST | STUCK | ODD), jobs(swept, LOST | STUCK | ODD)

    # A sweep sees the last state alone: the time of SUBMIT, a hook's event, is A-REX's to tell.
    texts = {name: FORMATS[kind](aar._replace(lrms_submit_time=None)) for name, aar in here.items()}
    assert texts == {name: FORMATS[kind](aar._replace(lrms_submit_time=None)) for name, aar in there.items()}
    assert len(texts) == 33


def test_every_summary_is_the_same(imported, swept) -> None:
    """The sums of the month, when the jobs that A-REX had lost are left out."""
    options = APELOptions(site="SITE", lrms_host="ce.example.org")

    def texts(con: sqlite3.Connection) -> list[str]:
        cells = [query.cell_of(aar) for aar in jobs(con, LOST | STUCK).values()]
        return [summary_record(one, "v0.4") for one in summaries(cells, options, "v0.4")]

    assert texts(imported) == texts(swept)
    assert len(texts(imported)) > 3


def test_what_arex_had_lost(imported, swept) -> None:
    """The jobs in which the two differ, and in what."""
    here, there = jobs(imported, set()), jobs(swept, set())

    assert set(there) - set(here) == LOST
    assert set(here) - set(there) == STUCK
    assert there["oddurl"].transfers != here["oddurl"].transfers
    assert there["oddurl"]._replace(transfers=(), stage_out_bytes=0, lrms_submit_time=None) == here["oddurl"]._replace(
        transfers=(), stage_out_bytes=0, lrms_submit_time=None
    )


def test_an_import_into_a_recorded_database(tmp_path) -> None:
    """What the control directory told stays; the stuck job comes from A-REX; all that differs is named."""
    control = corpus.rebuild(tmp_path / "control")
    with closing(corpus.swept(control)) as con:
        before = jobs(con, set())
        report: ImportReport = import_arex(
            corpus.place(control.path), con, str(written_by_arex(tmp_path)), ZoneInfo("UTC")
        )
        after = jobs(con, set())

    job_ids = corpus.names()
    assert report.added + report.completed == 1
    assert {one.job_id for one in report.differences} == {job_ids["oddurl"]}
    assert set(after) - set(before) == STUCK
    assert {name: aar._replace(lrms_submit_time=None) for name, aar in after.items() if name not in STUCK} == {
        name: aar._replace(lrms_submit_time=None) for name, aar in before.items()
    }
