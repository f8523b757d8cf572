"""Asking the database of A-REX 7 (schema version 2), and answering as arcctl 7 does."""

from __future__ import annotations

import json
import os
import pathlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import arex_corpus as corpus
import pytest
from installed import arcacct

from arcacct.queries import arcctl, questions
from arcacct.queries.arcctl import arcctl_record
from arcacct.queries.questions import Selection
from arcacct.records.reader import find_job

EXPECTED = corpus.AREX7 / "expected"
"""What the arcctl of ARC 7.0.0 printed of the same database."""
JOBS = sorted(path.name for path in (EXPECTED / "jobs").iterdir())
LISTS = ("users", "wlcgvos", "fqans", "jobids")
SINGLE = ("brief", "jobcount", "walltime", "cputime", "data-staged-in", "data-staged-out")
FILTERED = {
    "active": ("-a",),
    "state-completed": ("--filter-state", "completed"),
    "state-failed": ("--filter-state", "failed"),
    "state-failed-active": ("--filter-state", "failed", "-a"),
    "state-in-progress": ("--filter-state", "in-progress"),
    "vo-atlas": ("--filter-vo", "atlas"),
    "vo-dteam": ("--filter-vo", "dteam.example.org"),
    "fqan-production": ("--filter-fqan", "/atlas/Role=production"),
    "fqans": ("--filter-fqan", "/atlas", "--filter-fqan", "/atlas/Role=production", "--filter-fqan", "/nonesuch"),
    "start-from": ("-s", "2026-11-22 04:00:00"),
    "end": ("-b", "2026-11-22 03:50:45", "-e", "2026-11-22 03:51:04"),
    "extra-fqan": ("--filter-extra", "vomsfqan", "/atlas/no"),
    "queue": ("--filter-queue", "big"),
    "two": ("--filter-vo", "atlas", "--filter-extra", "jobname", "multicore 4"),
}
MULTICORE = "66824a77a9e3"


def printed(name: str) -> str:
    """What arcctl 7 printed."""
    return (EXPECTED / name).read_text()


def in_order(answer: dict[str, Any]) -> dict[str, Any]:
    """Lists of names are in the order of whatever index arcctl's query used; ours are in the order of their numbers."""
    return {key: sorted(value) if isinstance(value, list) else value for key, value in answer.items()}


@pytest.fixture(scope="module")
def arex7() -> Iterator[sqlite3.Connection]:
    """A-REX 7's own database, to be read alone."""
    with closing(corpus.arex7_database()) as con:
        yield con


@pytest.mark.parametrize("output", SINGLE)
def test_every_output_is_what_arcctl_7_printed(arex7_file, output) -> None:
    """Asked of A-REX 7's own file, each -o prints the same bytes as arcctl 7 did."""
    done = arcacct("--database", arex7_file, "stats", "-o", output)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == printed(f"stats-{output}.txt")


def test_active_jobs_are_shown_when_asked_for(arex7_file) -> None:
    """With -a the frame starts with the first submission, and has the name that arcctl 7 gives it then."""
    assert arcacct("--database", arex7_file, "stats", "-a").stdout == printed("stats-active.txt")


@pytest.mark.parametrize("output", LISTS)
def test_every_list_has_the_lines_of_arcctl_7(arex7_file, output) -> None:
    """The same lines; arcctl's order is that of the index that SQLite happened to use."""
    done = arcacct("--database", arex7_file, "stats", "-o", output)

    assert sorted(done.stdout.splitlines()) == sorted(printed(f"stats-{output}.txt").splitlines())


def test_the_json_of_arcctl_7(arex7_file) -> None:
    """Keys in arcctl 7's order, and its values."""
    done = arcacct("--database", arex7_file, "stats", "-o", "json")

    expected = json.loads(printed("stats-json.txt"))
    assert list(json.loads(done.stdout)) == list(expected)
    assert in_order(json.loads(done.stdout)) == in_order(expected)


@pytest.mark.parametrize("name", FILTERED)
def test_every_filter_selects_what_arcctl_7_selected(arex7_file, name) -> None:
    """Each filter, and two of them together."""
    done = arcacct("--database", arex7_file, "stats", "-o", "json", *FILTERED[name])

    assert in_order(json.loads(done.stdout)) == in_order(json.loads(printed(f"stats-{name}.json")))
    assert ("the database has no jobs with FQAN /nonesuch" in done.stderr) == (name == "fqans")


@pytest.mark.parametrize("name", JOBS)
def test_each_job_is_reported_as_arcctl_7_told_it(arex7, name) -> None:
    """Info, as text and as JSON, events and transfers of each job: the same bytes."""
    job_id, what, form = name.split(".")
    record = arcctl_record(arex7, find_job(arex7, job_id).record_id)

    if form == "json":
        assert json.dumps(record) + "\n" == printed(f"jobs/{name}")
        return
    lines = {"info": arcctl.info(record, "all"), "events": arcctl.events(record), "transfers": arcctl.transfers(record)}
    assert "".join(f"{line}\n" for line in lines[what]) == printed(f"jobs/{name}")


def test_a_job_is_found_by_its_url(arex7_file) -> None:
    """As arcctl 7 does, the last part of a URL is the id."""
    url = f"https://ce.example.org:443/arex/rest/1.0/jobs/{MULTICORE}"

    assert arcacct("--database", arex7_file, "job", "info", url).stdout == printed(f"jobs/{MULTICORE}.info.txt")


def test_a_volume_of_nothing_is_nothing() -> None:
    """Where arcctl 7 takes a transfer of 0 bytes for one of 4 GiB, we do not; one of ARC 6 may be negative there."""
    with closing(corpus.arex7_database()) as con:
        con.execute("UPDATE DataTransfers SET FileSize = 0 WHERE RecordID = 9")
        moved = arcctl_record(con, 9)["DataTransfers"]

    assert {one["size"] for one in moved} == {0}


# --- the other way round: as arcctl 6 of version 2, as arcctl 7 of version 1 ----------------------------------------


def test_an_answer_of_arc_6_of_a_database_of_arc_7(arex7_file) -> None:
    """With --arcctl 6 FQAN and benchmark are where scripts for ARC 6 look for them, and all jobs are counted."""
    asked = ("--database", arex7_file)

    record = json.loads(arcacct(*asked, "job", "info", "-o", "json", "--arcctl", "6", MULTICORE).stdout)
    stats = json.loads(arcacct(*asked, "stats", "-o", "json", "--arcctl", "6").stdout)

    assert not {"FQAN", "FQANID", "Benchmark", "BenchmarkID"} & set(record)
    assert record["AuthTokenAttributes"] == [
        ["mainfqan", "/atlas/Role=production"],
        ["vomsfqan", "/atlas"],
        ["vomsfqan", "/atlas/no"],
    ]
    assert next(iter(record["JobExtraInfo"].items())) == ("benchmark", "HEPSPEC:12.26")
    assert record["JobEvents"] == sorted(record["JobEvents"], key=lambda event: event[1])
    assert (stats["count"], "rangestart" in stats, "fqans" in stats) == (40, True, False)


def test_our_database_answers_as_arcctl_7(unchanged) -> None:
    """With --arcctl 7, ours has the keys of ARC 7, null for the numbers that it lacks; every FQAN is a vomsfqan."""
    job_id = corpus.names()["multicore"]
    asked = ("--config", unchanged.conf, "job", "info", "--arcctl", "7")

    record = json.loads(arcacct(*asked, "-o", "json", job_id).stdout)
    lines = arcacct(*asked, job_id).stdout.splitlines()

    assert list(record) == list(json.loads(printed(f"jobs/{MULTICORE}.info.json")))
    assert (record["FQANID"], record["BenchmarkID"]) == (None, None)
    assert (record["FQAN"], record["Benchmark"]) == ("/atlas/Role=production", "HEPSPEC:12.26")
    assert {key for key, _value in record["AuthTokenAttributes"]} == {"vomsfqan"}
    assert "benchmark" not in record["JobExtraInfo"]
    assert "    BENCHMARK: HEPSPEC:12.26" in lines
    assert any(line.endswith('"atlas" WLCG VO (/atlas/Role=production).') for line in lines)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Iterator[sqlite3.Connection]:
    """Our database of A-REX 7's jobs, from the control directory."""
    with closing(corpus.swept7(tmp_path_factory.mktemp("recorded"))) as con:
        yield con


INTERNAL, ODD_URL, FLAKY = "66a4fa6e23c6", "66972593fb66", "669eb7ee8641"
"""What A-REX has lost, cut or written twice (`tests/acceptance/test_parity_arc7.py`)."""
OURS = [name for name in JOBS if not name.startswith((INTERNAL, ODD_URL, FLAKY)) and "events" not in name]
OWN_NUMBERS = {"RecordID", "EndpointID", "QueueID", "UserID", "VOID", "FQANID", "StatusID", "BenchmarkID", "JobEvents"}


@pytest.mark.parametrize("name", OURS)
def test_what_we_recorded_is_reported_as_arcctl_7_tells_it(recorded, name) -> None:
    """Scripts for the arcctl of ARC 7 read the same of our database; claims may come in another order."""
    job_id, what, form = name.split(".")
    record = arcctl_record(recorded, find_job(recorded, job_id).record_id, 7)

    if form == "json":
        theirs = json.loads(printed(f"jobs/{name}"))
        assert list(record) == list(theirs)
        for one in (record, theirs):
            one["AuthTokenAttributes"].sort(key=lambda row: row[0])
        differ = {key for key in record if record[key] != theirs[key]}
        assert differ <= OWN_NUMBERS
        return
    lines = list(arcctl.info(record, "all") if what == "info" else arcctl.transfers(record))
    fqans = [line for line in lines if "VOMS FQAN" in line]
    assert fqans == [line for line in printed(f"jobs/{name}").splitlines() if "VOMS FQAN" in line]
    assert sorted(lines) == sorted(printed(f"jobs/{name}").splitlines())


def test_our_stats_answer_as_arcctl_7(unchanged) -> None:
    """Jobs at their end unless -a, the frame of their ends, and the FQANs."""
    asked = ("--config", unchanged.conf, "stats", "--arcctl", "7")

    ended, active = (json.loads(arcacct(*asked, "-o", "json", *more).stdout) for more in ((), ("-a",)))

    assert active["count"] - ended["count"] == 1
    assert ended["minendtime"] > ended["minstarttime"] > 0
    assert {"", "/atlas/Role=production"} <= set(ended["fqans"])
    assert "Accounting timeframe: 2026-11-20" in arcacct(*asked).stdout
    assert arcacct("--config", unchanged.conf, "stats").stdout.splitlines()[2].startswith("  Execution timeframe")


@pytest.mark.parametrize("conf", ["arex_file", "arex7_file", "unchanged"])
def test_the_first_fqan_selects_in_every_database(request, conf) -> None:
    """--filter-fqan is for all of them, and looks at the first FQAN of a job alone."""
    found = request.getfixturevalue(conf)
    asked = ("--config", found.conf) if conf == "unchanged" else ("--database", found)

    done = arcacct(*asked, "stats", "-o", "jobcount", "--filter-fqan", "/atlas/Role=production")
    by = json.loads(arcacct(*asked, "stats", "--by", "role", "--format", "json").stdout)

    assert done.stdout == f"{sum(row['jobs'] for row in by if row['role'] == 'production')}\n"
    assert (done.stderr, int(done.stdout) > 0) == ("", True)


# --- --by -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["group", "role", "benchmark", "vo", "user"])
def test_usage_of_a_database_of_arc_7(arex7_file, by) -> None:
    """Every job is under what A-REX has of it: the first FQAN and the benchmark are in tables of their own."""
    column = {
        "group": "nullif(rtrim(substr(FQANs.Name, 1, instr(FQANs.Name || '/Role', '/Role') - 1)), '')",
        "role": "CASE WHEN FQANs.Name LIKE '%Role=%' THEN substr(FQANs.Name, instr(FQANs.Name, 'Role=') + 5) END",
        "benchmark": "replace(Benchmarks.Name, ':1.0', ':1')",
        "vo": "nullif(WLCGVOs.Name, '')",
        "user": "replace(Users.Name, '%27', '''')",
    }[by]
    with closing(corpus.arex7_database()) as con:
        expected = con.execute(
            f"SELECT {column}, count(*), sum(UsedWalltime) FROM AAR JOIN FQANs ON FQANs.ID = FQANID"
            " JOIN Benchmarks ON Benchmarks.ID = BenchmarkID JOIN WLCGVOs ON WLCGVOs.ID = VOID"
            " JOIN Users ON Users.ID = UserID WHERE EndTime > 0 GROUP BY 1"
        ).fetchall()

    rows = json.loads(arcacct("--database", arex7_file, "stats", "--by", by, "--format", "json").stdout)

    assert [(row[by], row["jobs"], row["wall_s"]) for row in rows] == expected


def test_hours_are_multiplied_by_the_benchmark_of_arc_7(arex7_file) -> None:
    """`hs06_hours` is from Benchmarks, not 0."""
    rows = json.loads(arcacct("--database", arex7_file, "stats", "--by", "benchmark", "--format", "json").stdout)

    found = {row["benchmark"]: (row["core_hours"], row["hs06_hours"]) for row in rows}
    core_hours, hs06_hours = found["HEPSPEC:12.26"]
    assert hs06_hours == pytest.approx(core_hours * 12.26, rel=0.05)
    assert hs06_hours > 0.2


@pytest.mark.parametrize(
    ("attribute", "value", "jobs"),
    [("benchmark", "HEPSPEC:17.5", 2), ("vomsfqan", "/atlas", 6), ("vomsfqan", "/atlas/Role=production", 4)],
)
def test_extra_attributes_of_a_database_of_arc_7(arex7_file, attribute, value, jobs) -> None:
    """The benchmark is a filter as in ARC 6, and an FQAN of any place."""
    done = arcacct("--database", arex7_file, "stats", "-o", "jobcount", "--filter-extra", attribute, value)

    assert (done.stdout, done.stderr) == (f"{jobs}\n", "")


@pytest.mark.parametrize("database", ["arex_file", "unchanged"])
def test_active_jobs_in_a_table(request, database) -> None:
    """With --by, -a counts the jobs that are not published too, also where the monthly sums know the others."""
    found = request.getfixturevalue(database)
    asked = ("--config", found.conf) if database == "unchanged" else ("--database", found)

    counts = [
        sum(row["jobs"] for row in json.loads(arcacct(*asked, "stats", "--by", "vo", "--format", "json", *more).stdout))
        for more in ((), ("-a",))
    ]

    assert counts == [35, 36]


@pytest.mark.parametrize("version", ["6", "7"])
def test_active_jobs_come_next_to_a_state_that_is_asked_for(unchanged, version) -> None:
    """As arcctl 7 does: `-a` adds the jobs in progress to those of the state."""
    asked = ("--config", unchanged.conf, "stats", "-o", "jobcount", "--arcctl", version, "--filter-state", "completed")

    assert int(arcacct(*asked, "-a").stdout) - int(arcacct(*asked).stdout) == 1


def test_queries_see_the_tables_of_a_rex(arex7_file) -> None:
    """`arcacct query` is for SQL written for A-REX: nothing is laid over its tables."""
    query = "SELECT AttrKey, count(*) AS n FROM AuthTokenAttributes GROUP BY 1 UNION ALL SELECT name, 0 FROM FQANs"
    rows = json.loads(arcacct("--database", arex7_file, "query", "--format", "json", query).stdout)

    with closing(corpus.arex7_database()) as con:
        assert [tuple(row.values()) for row in rows] == con.execute(query).fetchall()


def test_a_database_that_arex_7_has_open(tmp_path) -> None:
    """In WAL mode it is read next to A-REX, what is only in the WAL included, and not a byte of it changes."""
    path = tmp_path / "accounting_v2.db"
    with closing(corpus.arex7_database(str(path))) as con:
        con.execute("PRAGMA journal_mode = WAL")
        con.execute("UPDATE AAR SET BenchmarkID = (SELECT ID FROM Benchmarks WHERE Name = 'HEPSPEC:17.5')")
        con.commit()
        before = _bytes(tmp_path)
        rows = json.loads(arcacct("--database", path, "stats", "--by", "benchmark", "--format", "json").stdout)
        brief = arcacct("--database", path, "stats").stdout
        assert _bytes(tmp_path) == before

    assert [(row["benchmark"], row["jobs"]) for row in rows] == [("HEPSPEC:17.5", 39)]
    assert brief == printed("stats-brief.txt")


def _bytes(directory: pathlib.Path) -> dict[str, bytes]:
    # The -shm is how readers and writers of SQLite tell each other where they are.
    return {name: (directory / name).read_bytes() for name in os.listdir(directory) if not name.endswith("-shm")}


# --- what it costs --------------------------------------------------------------------------------------------------

PLANS = (
    ("parts", lambda con, selection: list(questions.parts(con, selection, ("fqan", "benchmark"), everything=False))),
    ("totals", questions.totals),
    ("fqans", lambda con, selection: questions.distinct(con, selection, "fqans")),
)


@pytest.mark.parametrize(("name", "ask"), PLANS)
@pytest.mark.parametrize(
    "selection", [Selection(after_s=1795319480), Selection(after_s=1795319480, fqans=("/atlas",))], ids=["time", "fqan"]
)
def test_questions_about_a_period_read_no_whole_table(name, ask, selection) -> None:
    """Jobs are found by an index of their end, their names by number."""
    statements: list[str] = []
    with closing(corpus.arex7_database()) as con:
        con.set_trace_callback(statements.append)
        ask(con, selection)
        con.set_trace_callback(None)
        plans = [row[3] for one in statements if "SELECT" in one for row in _plan(con, one)]

    assert any("EndTime>?" in plan for plan in plans), name
    assert [plan for plan in plans if plan.startswith(("SCAN AAR", "SCAN AuthTokenAttributes", "SCAN JobExtra"))] == []


def _plan(con: sqlite3.Connection, statement: str) -> list[tuple[Any, ...]]:
    return con.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
