"""The dataset in a real PostgreSQL: what is loaded, what is loaded again, and what it answers."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing

import manual
import pytest
from cut_connection import CutConnection
from in_process import said
from installed import ARCACCT
from installed import arcacct as run
from postgresql_server import Server, reason, server
from twelve_questions import QUESTIONS, canonical

pytest.importorskip("pyarrow", reason="pyarrow is not installed: the extra parquet")
pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgresql")
pytestmark = [pytest.mark.campaign, pytest.mark.skipif(bool(reason()), reason=reason() or "PostgreSQL is here")]

sys.path.append(str(pathlib.Path(__file__).parents[1] / "bench"))

import broken_datasets  # noqa: E402  needs pyarrow
import federation  # noqa: E402
import generate  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
from written_partitions import LIFE, WRITTEN_S, write_database, write_partition  # noqa: E402

import arcacct.fleet  # noqa: E402
from arcacct.export.dataset import TABLES, Partition  # noqa: E402
from arcacct.fleet.dataset import dataset  # noqa: E402
from arcacct.fleet.postgresql import load as load_dataset  # noqa: E402

JANUARY = Partition("Site-01", 2026, 1, "ce01.example.org")
FEBRUARY = JANUARY._replace(month=2)
COUNTS = """
    SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM events), (SELECT count(*) FROM transfers),
           (SELECT count(*) FROM attributes)
"""


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server() as started:
        yield started


@pytest.fixture
def postgresql(running) -> Server:
    """A server without anything of ours."""
    running.run("DROP SCHEMA IF EXISTS arcacct CASCADE")
    return running


def load(postgresql: Server, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as somebody whom libpq leads to this server."""
    return run("fleet", "load", *arguments, environment=postgresql.env | environment)


def jobs(partition: Partition, number: int) -> dict[str, pa.Table]:
    """So many, with what belongs to them."""
    of_month = federation.jobs_of(partition, number)
    return {"jobs": of_month, **federation.children_of(of_month)}


def only(tables: dict[str, pa.Table], record_ids: list[int]) -> dict[str, pa.Table]:
    """Some jobs of these."""
    return {name: table.filter(pc.is_in(table["record_id"], pa.array(record_ids))) for name, table in tables.items()}


def test_the_twelve_questions_are_answered_as_by_the_views(postgresql, tmp_path) -> None:
    """Two CEs in SQLite, exported and loaded: PostgreSQL answers what SQLite answers of both."""
    here = generate.fill(tmp_path / "ce", 400)
    with closing(sqlite3.connect(here.database)) as con:
        write_database(tmp_path / "dataset", con, "Site-01", "ce01.example.org")

        done = load(postgresql, tmp_path / "dataset")

        assert (done.returncode, done.stderr) == (0, "")
        assert "400 jobs" in done.stdout
        for question in QUESTIONS:
            expected = canonical(con.execute(question.sql))
            assert canonical(postgresql.rows(question.sql)) == expected, question.name
            assert expected, question.name


def test_a_later_export_replaces_and_an_older_one_does_not(postgresql, tmp_path) -> None:
    """Whatever order exports come in, the latest of each month stays; jobs that are gone go with all of theirs."""
    whole, folders = jobs(JANUARY, 30), [tmp_path / name for name in ("then", "now", "moved")]
    ids = whole["jobs"]["record_id"].to_pylist()
    write_partition(folders[0], JANUARY, only(whole, ids[:20]))
    changed = only(whole, ids[5:])
    place = changed["jobs"].schema.get_field_index("user_dn")
    changed["jobs"] = changed["jobs"].set_column(place, "user_dn", pa.array(["O'Neill\t\\N\n\\.\n\r"] * 25))
    write_partition(folders[1], JANUARY, changed, written_s=WRITTEN_S + 1)
    then, now, moved = folders

    assert load(postgresql, then).stdout.startswith("1 partition loaded with 20 jobs")
    assert postgresql.rows(COUNTS) == [(20, 180, 20, 200)]
    assert load(postgresql, now).stdout.startswith("1 partition loaded with 25 jobs")
    assert load(postgresql, then).stdout.startswith("0 partitions loaded with 0 jobs; 0 already loaded, 1 older")
    assert load(postgresql, now).stdout.startswith("0 partitions loaded with 0 jobs; 1 already loaded")
    # Nor does the server take an older one from who did not look first.
    values = f"'Site-01', 'ce01.example.org', 2026, '01', '{LIFE}', {WRITTEN_S}, 1, 'plain', ''"
    taken = postgresql.run(
        "BEGIN", "SELECT arcacct.begin_partition()", f"SELECT arcacct.take_partition({values})", "COMMIT"
    )
    assert taken.split() == ["f"]
    assert postgresql.rows(COUNTS) == [(25, 225, 25, 250)]
    assert postgresql.rows("SELECT DISTINCT user_dn FROM jobs") == [("O'Neill\t\\N\n\\.\n\r",)]
    assert postgresql.rows("SELECT min(record_id), max(record_id) FROM jobs") == [(ids[5], ids[-1])]

    # Ten jobs turn out to have ended in February: each is in one month at any time, whichever is taken first.
    other = only(whole, ids[20:])
    place = other["jobs"].schema.get_field_index("end_time")
    first_s, _after_s = FEBRUARY.bounds
    other["jobs"] = other["jobs"].set_column(place, "end_time", pa.array(range(first_s, first_s + 10)))
    write_partition(folders[2], FEBRUARY, other, written_s=WRITTEN_S + 2)
    assert load(postgresql, moved).returncode == 0
    assert postgresql.rows(COUNTS) == [(25, 225, 25, 250)]
    assert load(postgresql, moved, "--table", "jobs").stdout.startswith("1 partition loaded")
    assert postgresql.rows(COUNTS) == [(25, 135, 15, 150)]
    assert postgresql.rows("SELECT month, count(*) FROM jobs GROUP BY month ORDER BY month") == [("01", 15), ("02", 10)]
    write_partition(folders[2], FEBRUARY, {name: table[:0] for name, table in other.items()}, written_s=WRITTEN_S + 3)
    assert load(postgresql, moved).returncode == 0
    assert postgresql.rows(COUNTS) == [(15, 135, 15, 150)]


def test_what_is_wrong_is_named_and_the_rest_is_loaded(postgresql, tmp_path, monkeypatch) -> None:
    """Of each broken dataset the partitions that nothing is wrong with; never two databases as one CE."""
    for name, value in postgresql.env.items():
        monkeypatch.setenv(name, value)
    for number, broken in enumerate(broken_datasets.BROKEN):
        folder = tmp_path / str(number)
        folder.mkdir()
        postgresql.run("DROP SCHEMA IF EXISTS arcacct CASCADE")

        loaded = load_dataset(dataset([*map(str, broken.make(folder))]), TABLES)

        assert any(broken_datasets.BAD.ce in problem for problem in loaded.problems), broken.name
        assert loaded.jobs >= broken.whole_jobs, broken.name
        assert postgresql.rows("SELECT count(*) FROM jobs WHERE ce = 'ce01.example.org'") == [(broken_datasets.JOBS,)]
        lives = postgresql.rows("SELECT count(DISTINCT life) FROM partitions WHERE ce = 'ce02.example.org'")
        assert lives[0][0] <= 1, broken.name


def test_a_ce_that_was_loaded_from_another_database_is_refused(postgresql, tmp_path) -> None:
    """Until somebody says that it is the same one: then all of the former goes, and the new one comes."""
    write_partition(tmp_path / "one", JANUARY, jobs(JANUARY, 5))
    write_partition(tmp_path / "other", FEBRUARY, jobs(FEBRUARY, 7), life="f" * 32)
    assert load(postgresql, tmp_path / "one").returncode == 0

    done = load(postgresql, tmp_path / "other")

    assert done.returncode == 65
    assert "ce01.example.org of Site-01 is here from another database; if it is the same CE, SELECT" in done.stderr
    assert postgresql.rows("SELECT count(*) FROM jobs") == [(5,)]
    postgresql.run("SELECT arcacct.remove_ce('Site-01', 'ce01.example.org')")
    assert postgresql.rows(COUNTS) == [(0, 0, 0, 0)]
    assert load(postgresql, tmp_path / "other").returncode == 0
    assert postgresql.rows(COUNTS) == [(7, 63, 7, 70)]


def test_two_sites_may_call_a_ce_the_same_but_no_job_counts_twice(postgresql, tmp_path) -> None:
    """Of two databases both are there; a site that changed its name is refused until the former one is removed."""
    elsewhere = JANUARY._replace(site="Site-02")
    write_partition(tmp_path / "one", JANUARY, jobs(JANUARY, 5))
    write_partition(tmp_path / "other", elsewhere, jobs(elsewhere, 7), life="f" * 32)
    write_partition(tmp_path / "renamed", elsewhere._replace(site="Site-03", month=2), jobs(FEBRUARY, 5))

    assert [load(postgresql, tmp_path / name).returncode for name in ("one", "other")] == [0, 0]
    done = load(postgresql, tmp_path / "renamed")

    assert done.returncode == 65
    assert "ce01.example.org of Site-01 is here from this very database, which now says Site-03" in done.stderr
    assert "SELECT arcacct.remove_ce('Site-01', 'ce01.example.org')" in done.stderr
    assert postgresql.rows("SELECT site, count(*) FROM jobs GROUP BY site ORDER BY 1") == [
        ("Site-01", 5),
        ("Site-02", 7),
    ]
    postgresql.run("SELECT arcacct.remove_ce('Site-01', 'ce01.example.org')")
    assert load(postgresql, tmp_path / "renamed").returncode == 0
    assert postgresql.rows(COUNTS) == [(12, 108, 12, 120)]


def test_killed_anywhere_it_leaves_the_former_month(postgresql, tmp_path) -> None:
    """Within a table, between two, and before the last statement; the next load completes the month."""
    whole = jobs(JANUARY, 40)
    write_partition(tmp_path / "then", JANUARY, only(whole, whole["jobs"]["record_id"].to_pylist()[:10]))
    write_partition(tmp_path / "now", JANUARY, whole, written_s=WRITTEN_S + 1)
    assert load(postgresql, tmp_path / "then").returncode == 0

    def load_until(cut: int | None) -> tuple[int, bytes]:
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            connection = CutConnection(pathlib.Path(folder), postgresql.env["PGHOST"], cut)
            done = load(postgresql, tmp_path / "now", PGHOST=folder)
            connection.join()
            return done.returncode, connection.sent

    # What is sent depends on nothing but the dataset: a load that is undone says where to cut the others.
    with_all = "SELECT * FROM jobs ORDER BY record_id"
    before = postgresql.rows(with_all)
    postgresql.run("ALTER TABLE arcacct.attributes ADD CONSTRAINT none CHECK (record_id < 0) NOT VALID")
    code, sent = load_until(None)
    assert code == 65
    postgresql.run("ALTER TABLE arcacct.attributes DROP CONSTRAINT none")
    of_jobs, of_events, last = (
        sent.index(text) for text in (b'COPY "incoming_jobs"', b'COPY "incoming_events"', b"SELECT arcacct.take_part")
    )
    for cut in (of_jobs + 500, of_events - 1, (of_events + last) // 2, last + 1):
        assert load_until(cut) == (-signal.SIGKILL, sent[:cut])
        assert postgresql.rows(COUNTS) == [(10, 90, 10, 100)]
        assert postgresql.rows(with_all) == before
    assert load(postgresql, tmp_path / "now").stdout.startswith("1 partition loaded with 40 jobs")
    assert postgresql.rows(COUNTS) == [(40, 360, 40, 400)]


NOT_THERE = ("hold_reasons", "hold_state")
LATER = (
    *("counted", "core_s", "allocated_gpus", "allocated_gpu_s", "busy_gpu_s", "gpus_energy_j", "nodes_energy_j"),
    *("gpus_source", "energy_source"),
)
"""Columns of v1_jobs that a view of an older version can get behind the others alone."""


def test_the_views_are_those_of_a_ce(postgresql, tmp_path) -> None:
    """Same names, columns and rows as in SQLite; and a reader needs two grants, and can write nothing."""
    here = generate.fill(tmp_path / "ce", 30)
    with closing(sqlite3.connect(here.database)) as con:
        write_database(tmp_path / "dataset", con, "Site-01", "ce01.example.org")
        assert load(postgresql, tmp_path / "dataset").returncode == 0
        postgresql.run(
            "DROP ROLE IF EXISTS reader",
            "CREATE ROLE reader",
            "GRANT USAGE ON SCHEMA arcacct TO reader",
            "GRANT SELECT ON ALL TABLES IN SCHEMA arcacct TO reader",
        )
        for view in ("v1_jobs", "v1_job_events", "v1_transfers", "v1_job_attributes"):
            columns = [name for _cid, name, *_rest in con.execute(f"PRAGMA table_info({view})")]
            # A dataset has no held jobs.
            names = [one for one in columns if one not in NOT_THERE]
            expected = canonical(con.execute(f"SELECT {', '.join(names)} FROM {view}"))

            asked = f"SET ROLE reader; SELECT json_agg(told) FROM (SELECT * FROM arcacct.{view}) AS told"
            answer = json.loads(postgresql.run(asked))

            later = [one for one in names if one in LATER]
            assert [*answer[0]] == [*(one for one in names if one not in LATER), "site", "ce", *later]
            assert canonical([tuple(row[name] for name in names) for row in answer]) == expected, view
    takes = "SELECT arcacct.take_partition('S', 'ce', 2026, '01', 'x', 1, 1, 'plain', '')"
    for statement in ("DELETE FROM arcacct.jobs", "SELECT arcacct.remove_ce('Site-01', 'ce01.example.org')", takes):
        with pytest.raises(AssertionError, match="permission denied"):
            postgresql.run("SET ROLE reader", statement)
    postgresql.run("DROP OWNED BY reader", "DROP ROLE reader")


def test_tables_of_an_older_version_get_the_columns_that_they_lack(postgresql, tmp_path) -> None:
    """What is in them stays, and what others made of them and may read; usage of a job that does not count is NULL."""
    postgresql.run(
        (pathlib.Path(__file__).parents[1] / "data" / "released" / "0.2.0" / "postgresql.sql").read_text(),
        "INSERT INTO arcacct.jobs (site, year, month, ce, record_id, job_id, wall_s, core_count)"
        " VALUES ('Site-02', 2025, '12', 'ce02.example.org', 1, 'OLD', 100, 2)",
        "CREATE VIEW public.hours AS SELECT job_id, wall_s * core_count AS core_s FROM arcacct.v1_jobs",
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader",
        "GRANT USAGE ON SCHEMA arcacct TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA arcacct TO reader",
    )
    told = jobs(JANUARY, 5)
    place = told["jobs"].schema.get_field_index("counted")
    told["jobs"] = told["jobs"].set_column(place, "counted", pa.array([0, 1, 1, 1, 1]))
    write_partition(tmp_path, JANUARY, told)
    try:
        done = load(postgresql, tmp_path)

        assert (done.returncode, done.stderr) == (0, "")
        assert load(postgresql, tmp_path).stdout.startswith("0 partitions loaded with 0 jobs; 1 already loaded")
        wanted = {
            (job_id, counted, wall_s if counted else None, core_s if counted else None)
            for job_id, counted, wall_s, core_s in zip(
                *(told["jobs"][name].to_pylist() for name in ("job_id", "counted", "wall_s", "core_s")), strict=True
            )
        }
        rows = postgresql.rows("SELECT job_id, counted, wall_s, core_s FROM v1_jobs")
        assert {*rows} == {("OLD", None, 100, None), *wanted}
        assert ("OLD", 200) in postgresql.rows("SELECT job_id, core_s FROM public.hours")
        assert postgresql.run("SET ROLE reader", "SELECT count(core_s) FROM arcacct.v1_jobs").strip() == "4"
        assert sum(postgresql.rows("SELECT core_s FROM jobs WHERE counted = 0")[0]) > 0
    finally:
        postgresql.run("DROP VIEW public.hours", "DROP OWNED BY reader", "DROP ROLE reader")


def test_the_recipe_of_the_manual(postgresql, tmp_path) -> None:
    """As printed, on another directory."""
    recipe = manual.read("howto/many-ces-engines").split("## In PostgreSQL\n")[1].split("```sh\n")[1].split("```")[0]
    write_partition(tmp_path, JANUARY, jobs(JANUARY, 9))
    postgresql.run("DROP DATABASE IF EXISTS accounting")
    postgresql.run("DROP ROLE IF EXISTS analysts")

    done = subprocess.run(
        ["bash", "-euc", recipe.replace("/srv/accounting", str(tmp_path))],
        env=os.environ | postgresql.env | {"PATH": f"{os.path.dirname(ARCACCT)}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "1 partition loaded with 9 jobs" in done.stdout
    asked = "SET ROLE analysts; SELECT count(*) FROM arcacct.v1_job_events"
    assert postgresql.run("\\c accounting", asked).split()[-1] == "81"
    postgresql.run("DROP DATABASE accounting")
    postgresql.run("DROP ROLE analysts")


def test_no_server_is_an_error_of_its_own(tmp_path) -> None:
    """One line says what libpq says, and what leads it to the server."""
    write_partition(tmp_path, JANUARY, jobs(JANUARY, 1))

    done = run("fleet", "load", tmp_path, environment={"PGHOST": str(tmp_path)})

    assert (done.returncode, done.stderr.count("\n")) == (69, 1)
    assert str(tmp_path) in done.stderr
    assert "PGSERVICE" in done.stderr


def test_a_server_that_goes_away_ends_the_load(postgresql, tmp_path) -> None:
    """The months that it took stay, and the exit code is that of no server."""
    write_partition(tmp_path / "dataset", JANUARY, jobs(JANUARY, 5))
    write_partition(tmp_path / "dataset", FEBRUARY, jobs(FEBRUARY, 5))
    assert load(postgresql, tmp_path / "dataset", "--table", "jobs").returncode == 0
    postgresql.run(
        "DELETE FROM arcacct.partitions WHERE month = '02'",
        "CREATE FUNCTION arcacct.end() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END'",
        "CREATE TRIGGER ends BEFORE INSERT ON arcacct.partitions EXECUTE FUNCTION arcacct.end()",
    )

    done = load(postgresql, tmp_path / "dataset", "--table", "jobs")

    assert (done.returncode, done.stderr.count("\n")) == (69, 1)
    assert "terminating connection" in done.stderr
    assert postgresql.rows("SELECT count(*) FROM jobs") == [(10,)]


@pytest.mark.parametrize(("package", "extra"), [("psycopg", "postgresql"), ("duckdb", "parquet")])
def test_a_missing_package_is_named(tmp_path, monkeypatch, capsys, package, extra) -> None:
    """With what installs it."""
    write_partition(tmp_path, JANUARY, jobs(JANUARY, 1))
    for module in ("postgresql", "duckdb_engine"):
        monkeypatch.delitem(sys.modules, f"arcacct.fleet.{module}", raising=False)
        monkeypatch.delattr(arcacct.fleet, module, raising=False)
    monkeypatch.setitem(sys.modules, package, None)

    done = said(capsys, "fleet", "load", tmp_path)

    assert (done.returncode, done.stderr.count("\n")) == (64, 1)
    assert package in done.stderr
    assert f"{sys.prefix}/bin/pip install 'arcacct[{extra}]'" in done.stderr

    # The environment of a package: it has no pip, and is replaced as a whole.
    (tmp_path / "package" / "versions").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "package"))
    packaged = said(capsys, "fleet", "load", tmp_path).stderr
    assert (
        f"/opt/arcacct-extras/bin/pip install './arcacct-{arcacct.__version__}-py3-none-any.whl[{extra}]'" in packaged
    )
