"""
Parity with the database of A-REX 7.0.0, for all 40 jobs: by hook, sweep or import, and by two of them.

The jobs ran under three configurations, and are swept under them. The intended differences are tests here, and lines of
the manual's table of differences.
"""

from __future__ import annotations

import pathlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple
from zoneinfo import ZoneInfo

import arex_corpus as corpus
import pytest

from arcacct.arex.import_database import ImportReport, import_arex
from arcacct.database.access import open_accounting

INTERNAL, ODD_URL, FLAKY, REFUSED = "66a4fa6e23c6", "66972593fb66", "669eb7ee8641", "65d2414223c6"
TOKENS = {"66e9bab826fa", "670161ef85fb", "68298b8d9869", "6a1decfe9869"}
STATUS, VO, STAGE_OUT = 6, 5, 19
"""Positions in a row of `corpus.records`."""
UTC = ZoneInfo("UTC")
FINAL = "Status.Name IN ('completed', 'failed', 'aborted')"


class Recorded(NamedTuple):
    """Our database, and how the jobs came into it."""

    con: sqlite3.Connection
    how: str
    report: ImportReport | None
    """Of the import, if there was one."""
    log: list[tuple[object, ...]]
    """FinishedLog before the second of two ways."""


@pytest.fixture(scope="module")
def arex() -> Iterator[sqlite3.Connection]:
    """What A-REX 7 recorded."""
    with closing(corpus.arex7_database()) as con:
        yield con


@pytest.fixture(scope="module", params=["sweep", "hook", "import", "sweep, import", "hook, import", "import, sweep"])
def ours(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """Our database of the same jobs."""
    how = str(request.param)
    folder = tmp_path_factory.mktemp("ours")
    with closing(open_accounting(corpus.place7(folder, corpus.PERIODS[0]))) as con:
        report, log = None, []
        for way in how.split(", "):
            log = finished_log(con)
            if way == "sweep":
                corpus.swept7(folder, con)
            elif way == "hook":
                corpus.hooked7(folder, con)
            else:
                report = imported(folder, con)
        yield Recorded(con, how, report, log)


def imported(folder: pathlib.Path, con: sqlite3.Connection, conf: str = "") -> ImportReport:
    """Import A-REX's database once."""
    path = folder / "accounting_v2.db"
    if not path.exists():
        corpus.arex7_database(str(path)).close()
    return import_arex(corpus.place7(folder, corpus.PERIODS[0], conf), con, str(path), UTC)


def finished_log(con: sqlite3.Connection) -> list[tuple[object, ...]]:
    return con.execute("SELECT Seq, JobID FROM FinishedLog JOIN AAR USING (RecordID) ORDER BY Seq").fetchall()


def as_version_1(con: sqlite3.Connection, table: str) -> dict[str, list[tuple[object, ...]]]:
    """A-REX 7's rows as its forerunner had them: the first FQAN as mainfqan, the benchmark as extra information."""
    rows = corpus.children(con, table)
    beside = {
        job_id: names
        for job_id, *names in con.execute(
            "SELECT JobID, FQANs.Name, Benchmarks.Name FROM AAR JOIN FQANs ON FQANs.ID = FQANID"
            " JOIN Benchmarks ON Benchmarks.ID = BenchmarkID"
        )
    }
    for job_id, (fqan, benchmark) in beside.items():
        if table == "AuthTokenAttributes" and fqan:
            rows[job_id][rows[job_id].index(("vomsfqan", fqan))] = ("mainfqan", fqan)
        if table == "JobExtraInfo" and benchmark:
            rows[job_id] = [("benchmark", benchmark), *rows[job_id]]
    return rows


def test_every_job_of_arex_is_recorded(arex, ours) -> None:
    """All 40; by import alone not the one that A-REX itself has lost."""
    missing = set(corpus.records(arex)) - set(corpus.records(ours.con))

    assert len(corpus.records(arex)) == 40
    assert missing == ({INTERNAL} if ours.how == "import" else set())


def test_every_value_of_the_record_equals(arex, ours) -> None:
    """Every column of AAR, names resolved, the VO among them."""
    theirs, found = corpus.records(arex), corpus.records(ours.con)
    differ = {INTERNAL} if ours.how == "import" else {INTERNAL, ODD_URL}

    assert {job_id: found[job_id] for job_id in theirs if job_id not in differ} == {
        job_id: row for job_id, row in theirs.items() if job_id not in differ
    }
    assert Counter(row[VO] for row in found.values())["dteam.example.org"] == 3


@pytest.mark.parametrize("table", ["AuthTokenAttributes", "RunTimeEnvironments", "DataTransfers", "JobExtraInfo"])
def test_every_child_row_equals(arex, ours, table) -> None:
    """FQANs, attributes of tokens, environments, transfers, extra information and benchmarks, each once, in order."""
    theirs, found = as_version_1(arex, table), corpus.children(ours.con, table)
    unordered = TOKENS if table == "AuthTokenAttributes" else set()

    for job_id, rows in theirs.items():
        if job_id == INTERNAL or (table == "DataTransfers" and job_id == ODD_URL):
            continue
        expected = list(dict.fromkeys(rows))
        if job_id in unordered:
            assert sorted(found[job_id]) == sorted(expected), job_id
        else:
            assert found[job_id] == expected, job_id


def test_every_event_equals(arex, ours) -> None:
    """By import all events; by the last hook, or by sweep, those that the files tell."""
    theirs, found = corpus.children(arex, "JobEvents"), corpus.children(ours.con, "JobEvents")
    told = ("ACCEPTED", "FINISHED", "LRMS", "DTR")

    def kept(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
        return sorted({row for row in rows if "import" in ours.how or str(row[0]).startswith(told)})

    # Of the resumed job a sweep has seen the second end alone.
    differ = {INTERNAL} if ours.how.startswith("import") else {INTERNAL, FLAKY}
    assert {job_id: kept(found[job_id]) for job_id in theirs if job_id not in differ} == {
        job_id: kept(rows) for job_id, rows in theirs.items() if job_id not in differ
    }


def test_only_what_differs_is_called_so(ours) -> None:
    """After hook or sweep, the import names the one job whose URLs A-REX has cut, and no other."""
    if ours.how in ("sweep, import", "hook, import"):
        assert ours.report is not None
        assert {one.job_id for one in ours.report.differences} == {ODD_URL}
        assert (ours.report.added, ours.report.changed, ours.report.completed) == (0, 0, 0)


def test_the_second_way_moves_nothing(ours) -> None:
    """Which record is published when does not change: FinishedLog stays, but for what the files tell better."""
    if ours.how in ("sweep, import", "hook, import"):
        assert finished_log(ours.con) == ours.log
    elif ours.how == "import, sweep":
        stayed = [row for row in ours.log if row[1] != ODD_URL]
        assert finished_log(ours.con)[: len(stayed)] == stayed
        assert {row[1] for row in finished_log(ours.con)[len(stayed) :]} == {ODD_URL, INTERNAL}


# --- differences ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """Our database after the sweeps alone."""
    with closing(corpus.swept7(tmp_path_factory.mktemp("swept"))) as con:
        yield con


def test_fqan_and_benchmark_are_where_arc_6_has_them(arex, swept) -> None:
    """A-REX 7 has tables for both, and the first FQAN once more among the others."""
    columns = {row[1] for row in arex.execute("PRAGMA table_info(AAR)")}
    ours = {row[1] for row in swept.execute("PRAGMA table_info(AAR)")}

    assert columns - ours == {"FQANID", "BenchmarkID"}
    assert {key for rows in corpus.children(arex, "AuthTokenAttributes").values() for key, _ in rows} == {
        *("vomsfqan", "name", "username", "email", "user", "group")
    }
    assert corpus.children(swept, "AuthTokenAttributes")["66824a77a9e3"] == [
        ("mainfqan", "/atlas/Role=production"),
        ("vomsfqan", "/atlas"),
        ("vomsfqan", "/atlas/no"),
    ]


def test_the_internal_job_of_arc_7_is_recorded(arex, swept) -> None:
    """A-REX 7 loses jobs of the INTERNAL interface as A-REX 6 does."""
    theirs, found = corpus.records(arex)[INTERNAL], corpus.records(swept)[INTERNAL]

    assert theirs == ("", "", "", "", "", "", "", 1, 0, 0, 1, 1, *[0] * 8)
    assert found[1:7] == (
        *("org.nordugrid.internal", "", "fork", "/DC=org/DC=nordugrid/DC=ARC/O=TestCA/CN=Grid User One", "", "failed"),
    )


def test_urls_with_commas_are_whole_under_arc_7(arex, swept) -> None:
    """A-REX 7 cuts them as A-REX 6 does, and loses the volume of the upload."""
    url = "http://ce.example.org:8080"

    assert [row[0] for row in corpus.children(arex, "DataTransfers")[ODD_URL]] == [f"{url}/a", f"{url}/put/o"]
    assert [row[0] for row in corpus.children(swept, "DataTransfers")[ODD_URL]] == [
        f"{url}/a,b=c d.dat?x=1&y=2,size=3",
        f"{url}/put/o,d=d.dat?k=v,fromcache=yes",
    ]
    assert (corpus.records(arex)[ODD_URL][STAGE_OUT], corpus.records(swept)[ODD_URL][STAGE_OUT]) == (0, 77)


def test_a_resumed_job_has_its_children_once_under_arc_7(arex, swept) -> None:
    """A-REX 7 writes them at each end; it has the benchmark in the record, once."""
    theirs, found = corpus.children(arex, "RunTimeEnvironments"), corpus.children(swept, "RunTimeEnvironments")

    assert (theirs[FLAKY], found[FLAKY]) == ([("APPS/TEST-1.0",)] * 2, [("APPS/TEST-1.0",)])


def test_a_refused_job_of_arc_7_stays_in_progress(arex, swept) -> None:
    """A submission that a callout refused leaves its status file in `accepting`: the sweep knows the job, A-REX not."""
    assert REFUSED not in corpus.records(arex)
    assert corpus.records(swept)[REFUSED][STATUS] == "in-progress"
    assert REFUSED not in {job_id for _seq, job_id in finished_log(swept)}


# --- a database that arcctl has migrated ----------------------------------------------------------------------------


@pytest.fixture
def migrated(tmp_path) -> pathlib.Path:
    """A-REX 6.17's jobs in ARC 7's tables: with `mainfqan`, and the benchmark in both places."""
    path = tmp_path / "accounting_v2.db"
    with closing(sqlite3.connect(path)) as con:
        con.executescript((corpus.AREX7 / "migrated_v2.sql").read_text())
    return path


@pytest.fixture
def of_arc_6(tmp_path) -> Iterator[sqlite3.Connection]:
    """Our database after an import of A-REX 6.17's own."""
    path = tmp_path / "accounting.db"
    corpus.arex_database(str(path)).close()
    here = corpus.place(tmp_path / "six")
    with closing(open_accounting(here)) as con:
        import_arex(here, con, str(path), UTC)
        yield con


def test_migrated_jobs_are_the_same_jobs(tmp_path, migrated, of_arc_6) -> None:
    """Imported alone, they are what the database of ARC 6 gives, in every row."""
    here = corpus.place(tmp_path / "seven")
    with closing(open_accounting(here)) as con:
        assert import_arex(here, con, str(migrated), UTC).added == 35

        assert corpus.records(con) == corpus.records(of_arc_6)
        for table in corpus.CHILDREN:
            assert corpus.children(con, table) == corpus.children(of_arc_6, table)


def test_migrated_jobs_change_nothing(tmp_path, migrated, of_arc_6) -> None:
    """Imported after the database of ARC 6, as on a CE that has both, no record changes and none differs."""
    log = finished_log(of_arc_6)

    report = import_arex(corpus.place(tmp_path / "six"), of_arc_6, str(migrated), UTC)

    assert (report.looked_at, report.added, report.changed, report.differing) == (35, 0, 0, 0)
    assert finished_log(of_arc_6) == log


# --- what only our configuration tells ------------------------------------------------------------------------------


def test_a_vo_that_only_our_configuration_knows_is_no_difference(tmp_path) -> None:
    """With `vo_claim` in arcacct.conf ours has a VO where A-REX has none, or another: no one has to look at that."""
    conf = "[arcacct]\nvo_claim=wlcg.groups\n"
    with closing(corpus.swept7(tmp_path, ours=conf)) as con:
        before = corpus.records(con), finished_log(con)
        report = imported(tmp_path, con, conf)

        claimed = {"670161ef85fb", "68298b8d9869", "6a1decfe9869"}
        assert {job_id for job_id in TOKENS if before[0][job_id][VO] == "atlas"} == claimed
        assert {one.job_id for one in report.differences} == {ODD_URL}
        assert (corpus.records(con), finished_log(con)) == before


def test_a_vo_that_we_have_by_another_rule_is_no_difference(tmp_path) -> None:
    """With `vomsless_vo` of arcacct.conf alone, A-REX has no VO for these jobs: that is what was asked for."""
    with closing(corpus.swept7(tmp_path, ours="[arex/jura]\nvomsless_vo=site\n")) as con:
        report = imported(tmp_path, con)

    found = {one.job_id: one.what for one in report.differences}
    assert set(found) == {ODD_URL, *corpus.PERIODS[1].jobs, "6a1decfe9869"}
    assert found["6a1decfe9869"] == ("VO is 'site' here, 'dteam.example.org' there",)


def test_a_vo_that_we_lack_is_reported(arex, tmp_path) -> None:
    """Recorded without the rule, as by an arcacct that knew none: A-REX has a VO and ours has not."""
    control = corpus.rebuild(tmp_path / "control", corpus.AREX7)
    here = corpus.place7(tmp_path, corpus.PERIODS[0])
    with closing(open_accounting(here)) as con:
        corpus.sweep(here, con, owner=control.owner)
        report = imported(tmp_path, con)

    found = {one.job_id: one.what for one in report.differences if one.job_id != ODD_URL}
    assert set(found) == {job_id for job_id, row in corpus.records(arex).items() if row[VO] == "dteam.example.org"}
    assert all(what[0] == "VO is '' here, 'dteam.example.org' there" for what in found.values())


def test_a_vo_of_another_attribute_is_reported(tmp_path) -> None:
    """VOMS attributes leave nothing to a configuration: another VO is a difference."""
    with closing(corpus.swept7(tmp_path)) as con:
        con.execute(
            "UPDATE AAR SET VOID = (SELECT ID FROM WLCGVOs WHERE Name = 'bio.example.org') WHERE JobID = '66811329d7ab'"
        )
        report = imported(tmp_path, con, "[arcacct]\nvo_claim=wlcg.groups\n")

    assert {one.job_id for one in report.differences} == {ODD_URL, "66811329d7ab"}
