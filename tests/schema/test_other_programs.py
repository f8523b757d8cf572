"""
Other programs on our files: as the manual prints it, and each of its queries.

The common queries are compared with sums of the tables, with held, decided, unknown and pruned jobs among the others.
Each program is compared with SQLite.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import closing
from urllib.parse import urlencode

import pytest

sys.path.append(str(pathlib.Path(__file__).parent.parent / "bench"))

import counted_jobs
import generate
import ledger_rows
import manual
import sql_contract

from arcacct.config.paths import Places
from arcacct.database import access, schema
from arcacct.database.schema import ACCOUNTING, PUBLISHING
from arcacct.publishing import cursors
from arcacct.records import usage
from arcacct.records.retention import PruneOptions, prune

ROOT = pathlib.Path(__file__).parent.parent.parent
SECTION = manual.read("howto/other-programs")
_BLOCK = re.compile(r"^```sql\n-- (\w+)\.db\n(.*?);\n```$", re.MULTILINE | re.DOTALL)
JOB = "STORED000001"
COMMON = [
    (
        database,
        statement.replace("2026-12", "2026-06")
        .replace("2026-11", counted_jobs.MONTH)
        .replace("the id of the job", JOB),
    )
    for database, statement in _BLOCK.findall(
        manual.read("reference/sql").partition("## Common queries")[2].partition("\n## ")[0]
    )
]
"""With the month of the jobs in it, and one of them."""
RECIPES = [*_BLOCK.findall(manual.text()), *COMMON]
ANSWERS = ROOT / "tests/support/duckdb_answers.py"
DUCKDB = os.environ.get("ARCACCT_DUCKDB", sys.executable)
"""A Python with DuckDB and the wheel of its sqlite extension; one that is named has to have them."""


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Places:
    """Generated jobs, those of batch systems and their telemetry, the sums of all, and what was sent and was not."""
    made = generate.fill(tmp_path_factory.mktemp("programs"), 60)
    with closing(access.open_accounting(made)) as con, closing(access.open_publishing(made)) as ledger:
        counted_jobs.add(con, made)
        archive = str(pathlib.Path(made.directory, "archive.db"))
        assert prune(made, con, ledger, PruneOptions(counted_jobs.END_S - 1, archive)).jobs == counted_jobs.OLD
    for source in ("gridengine/accounting.*", "slurm/sacct.txt", "sonar/real-*.json"):
        files = sorted(map(str, (ROOT / "tests/data").glob(source)))
        program = [pathlib.Path(sys.executable).parent / "arcacct", "--database", made.database, "import"]
        subprocess.run([*program, source.partition("/")[0], *files], check=True, capture_output=True)
    con = access.open_accounting(made)
    schema.create_views(con, *schema.SOURCES)
    usage.update_monthly(con, made)
    con.close()
    with closing(access.open_publishing(made)) as con:
        cursors.set_cursor(con, cursors.Cursor(ledger_rows.ONE, "life", 0, 1, None))
        late = ledger_rows.record("job1", end_time=int(time.time()) - 8 * 86400 - 5)
        ledger_rows.send(con, late, ledger_rows.record("job2", end_time=int(time.time()), notes="cut"))
        ledger_rows.set_aside(con, "job3", "quarantined")
    return made


def script(here: Places, language: str, words: str) -> str:
    """The manual's block in a language that has some words, for the database of this test."""
    (found,) = (
        one for one in re.findall(rf"^```{language}\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL) if words in one
    )
    return (
        found.replace("/var/lib/arcacct/", f"{here.directory}/")
        .replace("/opt/arcacct/share/arcacct/", f"{ROOT}/etc/duckdb/")
    )  # fmt: skip


def path_of(here: Places, database: str) -> str:
    return here.database if database == "accounting" else here.publishing_database


def plain(rows: list) -> list[list[object]]:
    """Rows of any program: fractions to the digits that SQLite prints."""
    return [[float(f"{value:.12g}") if isinstance(value, float) else value for value in row] for row in rows]


def asked(here: Places, database: str, statement: str) -> list[list[object]]:
    """What SQLite itself says."""
    with closing(sqlite3.connect(f"file:{path_of(here, database)}?mode=ro", uri=True)) as con:
        return plain(con.execute(statement).fetchall())


@pytest.mark.parametrize("name", sql_contract.DUCKDB_FILES)
def test_the_files_for_duckdb_are_those_of_the_views(name) -> None:
    """``python tests/support/sql_contract.py duckdb`` makes them."""
    made = sql_contract.duckdb_views(*sql_contract.DUCKDB_FILES[name])

    assert (ROOT / "etc" / "duckdb" / name).read_text(encoding="utf-8") == made


def test_every_column_has_a_type() -> None:
    """No column of a view is of no affinity: programs that go by that would take numbers and texts for bytes."""
    with closing(sql_contract.with_all_views(ACCOUNTING)) as con:
        untyped = [
            f"{view}.{column}"
            for view in sql_contract.documented(ACCOUNTING)
            for column, found in sql_contract.affinities(con, view).items()
            if found not in ("TEXT", *sql_contract.NUMBERS)
        ]
    assert untyped == []


@pytest.mark.campaign
def test_duckdb(here, tmp_path) -> None:
    """
    The manual's Python, each view by ATTACH and by the file of etc/, and each recipe: what SQLite says, with its types.

    A view that DuckDB cannot parse, or that it answers by itself and otherwise, shows here.
    """
    wheels = "import duckdb_extensions, duckdb_extension_sqlite_scanner"
    if "ARCACCT_DUCKDB" not in os.environ and subprocess.run([DUCKDB, "-c", wheels], check=False,
                                                             capture_output=True).returncode:  # fmt: skip
        pytest.skip("no duckdb-extension-sqlite-scanner here; ARCACCT_DUCKDB names a Python that has it")
    manual = tmp_path / "manual.py"
    ledger = f"con.execute(\"ATTACH '{here.publishing_database}' AS publishing (TYPE sqlite, READ_ONLY)\")\n"
    for name in sql_contract.DUCKDB_FILES:
        ledger += f"con.execute(open('{ROOT}/etc/duckdb/{name}').read())\n"
    manual.write_text(script(here, "python", "import duckdb") + ledger)
    views = {view: kind.folder for kind in (ACCOUNTING, PUBLISHING) for view in sql_contract.documented(kind)}
    questions = [(f"typed {view}", f"SELECT * FROM {view}") for view in views]
    (listing,) = re.findall(r"`(SELECT DISTINCT table_name .*?)`", SECTION)
    questions.append(("views", listing))
    questions += [(f"attached {view}", f"SELECT * FROM accounting.{view}")
                  for view, folder in views.items() if folder == "accounting"]  # fmt: skip
    questions += [(statement, f"SELECT * FROM sqlite_query('{database}', $${statement}$$)")
                  for database, statement in RECIPES]  # fmt: skip

    done = subprocess.run([DUCKDB, ANSWERS, manual, tmp_path / "printed"], input=json.dumps(questions), text=True,
                          capture_output=True, check=False)  # fmt: skip

    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert "atlas" in (tmp_path / "printed").read_text()
    assert {view for (view,) in answers["views"][1]} == set(views)
    seen = {view for view in views if answers[f"typed {view}"][1]}
    assert seen >= {
        "v1_jobs", "v1_gridengine_records", "v1_slurm_runs", "v1_slurm_jobs", "v1_publications", "v1_quarantine",
    }  # fmt: skip
    for kind in (ACCOUNTING, PUBLISHING):
        with closing(sql_contract.with_all_views(kind)) as con:
            for view in sql_contract.documented(kind):
                types, rows = answers[f"typed {view}"]
                affinities = sql_contract.affinities(con, view).values()
                assert types == [sql_contract.NUMBERS.get(one, "VARCHAR") for one in affinities], view
                assert by_text(plain(rows)) == by_text(asked(here, kind.folder, f"SELECT * FROM {view}")), view
    for view, folder in views.items():
        if folder == "accounting":
            assert texts(answers[f"attached {view}"][1]) == texts(asked(here, folder, f"SELECT * FROM {view}")), view
    for database, statement in RECIPES:
        assert texts(answers[statement][1]) == texts(asked(here, database, statement)), statement


def hours(amounts: list[int | None]) -> float | None:
    """Their sum in hours; ``None`` if nothing is known."""
    return None if set(amounts) <= {None} else round(sum(one or 0 for one in amounts) / 3600, 1)


def grouped(jobs: list, *fields: str) -> dict[tuple, list]:
    found = defaultdict(list)
    for job in jobs:
        found[tuple(getattr(job, field) for field in fields)].append(job)
    return found


def efficiency(jobs: list) -> float | None:
    measured = [job for job in jobs if None not in (job.cpu_s, job.core_s)]
    core_s = sum(job.core_s for job in measured)
    return round(sum(job.cpu_s for job in measured) / core_s, 3) if core_s else None


def test_the_common_queries_give_the_sums_of_the_jobs_that_count(here) -> None:
    """Each is compared with a sum of A-REX's tables, job by job, of the database and of the archive of pruned jobs."""
    with closing(sqlite3.connect(here.database)) as con:
        everything = counted_jobs.counted(con)
        held = {job_id for (job_id,) in con.execute(
            "SELECT JobID FROM AAR JOIN RecordHolds USING (RecordID) WHERE State = 'held'")}  # fmt: skip
        (everyone,) = con.execute("SELECT count(*) FROM AAR").fetchone()
    with closing(sqlite3.connect(pathlib.Path(here.directory, "archive.db"))) as con:
        pruned = counted_jobs.counted(con)
    present = [job for job in everything if job.job_id.startswith("STORED")]
    month = [*present, *pruned]
    assert len(pruned) == counted_jobs.OLD
    assert len(held) >= 2
    assert everyone > len(everything)
    # Their rows by what the rows begin with.
    found = [{tuple(row[:width]): row[width:] for row in asked(here, *one)} for one, width in zip(
        COMMON, (1, 1, 1, 1, 2, 1, 2, 2, 1, 3, 2), strict=True)]  # fmt: skip
    by_user, by_vo, by_queue, one_job, efficient, waits, failed, energy, not_counted, sent, late = found

    def sums(jobs: list) -> list:
        return [len(jobs), hours([job.core_s for job in jobs]), hours([job.cpu_s for job in jobs])]

    assert by_user == {key: sums(jobs) for key, jobs in grouped(month, "user_dn").items()}
    assert by_vo == {
        key: [*sums(jobs), sum(job.wall_s is None for job in jobs)] for key, jobs in grouped(month, "vo").items()
    }
    assert by_queue == {key: sums(jobs) for key, jobs in grouped(present, "queue").items()}
    assert [*one_job] == [(JOB,)]
    assert efficient == {key: [len(jobs), efficiency(jobs)] for key, jobs in grouped(month, "user_dn", "vo").items()}
    waited = grouped([job for job in present if job.wait_s is not None], "queue")
    assert waits == {
        key: [len(jobs), round(sum(job.wait_s for job in jobs) / len(jobs)), max(job.wait_s for job in jobs)]
        for key, jobs in waited.items()
    }
    lost = grouped([job for job in present if job.status == "failed"], "queue", "exit_code")
    assert failed == {key: [len(jobs), hours([job.core_s for job in jobs])] for key, jobs in lost.items()}
    powered = [job for job in everything if job.energy_j is not None]
    assert {key: row for key, row in energy.items() if key[0] == counted_jobs.MONTH} == {
        (counted_jobs.MONTH, *key): [len(jobs), round(sum(job.energy_j for job in jobs) / 3.6e6, 3)]
        for key, jobs in grouped([job for job in powered if job in present], "vo").items()
    }
    assert sum(row[0] for row in energy.values()) == len([job for job in powered if job.energy_j is not None])
    assert {job_id for (job_id,) in not_counted} == held
    assert {key: row[:2] for key, row in sent.items()} == {(ledger_rows.ONE, "ur", "accepted"): [1, 2]}
    assert {key: row[-1] for key, row in late.items()} == {("job1", ledger_rows.ONE): 8}


def by_text(rows: list) -> list:
    return sorted(rows, key=str)


def texts(rows: list) -> list[list[str]]:
    """Rows as text, in any order: where SQLite answers for DuckDB, it does so in text."""
    return sorted([_as_text(value) for value in row] for row in rows)


def _as_text(value: object) -> str:
    try:
        return "" if value is None else f"{float(str(value)):.12g}"
    except ValueError:
        return str(value)


def test_pandas(here, tmp_path) -> None:
    """The manual's Python, and each recipe: numbers are numbers, and with a missing one they stay whole."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    names: dict = {}
    exec(script(here, "python", "pandas.read_sql"), names)
    names["con"].close()
    jobs = names["jobs"]
    with closing(sqlite3.connect(f"file:{here.database}?mode=ro", uri=True)) as con:
        numbers = [name for name, found in sql_contract.affinities(con, "v1_jobs").items() if found == "INT"]
        assert len(jobs) == con.execute("SELECT count(*) FROM v1_jobs").fetchone()[0] > 60
        assert {str(jobs[name].dtype) for name in numbers} == {"Int64"}
    for database, statement in RECIPES:
        with closing(sqlite3.connect(f"file:{path_of(here, database)}?mode=ro", uri=True)) as con:
            found = pandas.read_sql_query(statement, con)
        assert texts(plain(found.astype(object).where(found.notna(), None).values.tolist())) == texts(
            asked(here, database, statement)
        ), statement


def test_polars(here) -> None:
    """The manual's Python, and each recipe."""
    polars = pytest.importorskip("polars", reason="polars is not installed")
    names: dict = {}
    exec(script(here, "python", "polars.read_database"), names)
    names["con"].close()
    assert plain(names["jobs"].rows()) == asked(here, "accounting", "SELECT * FROM v1_jobs")
    for database, statement in RECIPES:
        with closing(sqlite3.connect(f"file:{path_of(here, database)}?mode=ro", uri=True)) as con:
            found = polars.read_database(statement, con, infer_schema_length=None)
        assert plain(found.rows()) == asked(here, database, statement), statement


def test_the_sqlite3_program(here) -> None:
    """Each recipe, by the command that the manual names."""
    program = shutil.which("sqlite3")
    if program is None:
        pytest.skip("sqlite3 is not installed")
    for database, statement in RECIPES:
        command = [program, "-batch", "-json", f"file:{path_of(here, database)}?mode=ro", f"{statement};"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), statement
        found = [list(row.values()) for row in json.loads(done.stdout or "[]")]
        assert plain(found) == asked(here, database, statement), statement


@pytest.mark.campaign
def test_datasette(here, tmp_path) -> None:
    """Each recipe, by a Datasette that lets its visitors ask by SQL."""
    pytest.importorskip("datasette", reason="datasette is not installed")
    (tmp_path / "open.json").write_text("{}")
    paths = [f"/{database}.json?{urlencode({'sql': one, '_shape': 'arrays'})}" for database, one in RECIPES]
    program = ROOT / "tests/support/datasette_pages.py"
    command = [sys.executable, program, tmp_path / "open.json", "{}", here.database, here.publishing_database]
    done = subprocess.run(command, input=json.dumps(paths), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for (database, statement), page in zip(RECIPES, json.loads(done.stdout.splitlines()[-1]), strict=True):
        assert page["status"] == 200, page["text"]
        assert plain(json.loads(page["text"])["rows"]) == asked(here, database, statement), statement


@pytest.mark.campaign
def test_sqlite_utils(here) -> None:
    """The manual's command, and each recipe."""
    environment = os.environ | {"PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}

    def answered(command: list[str]) -> list[dict]:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert (done.returncode, done.stderr) == (0, ""), command
        return json.loads(done.stdout)

    assert len(answered(["sh", "-c", script(here, "sh", "FROM v1_jobs")])) == 10
    functions = answered(["sh", "-c", script(here, "sh", "arcacct_unescape")])
    assert sum(row["jobs"] for row in functions) > 60
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", row["last"]) for row in functions)
    # One process for all of a database.
    for name in ("accounting", "publishing"):
        statements = [statement for database, statement in RECIPES if database == name]
        code = "import json, sys, sqlite_utils; print(json.dumps([list(sqlite_utils.Database(sys.argv[1]).query(one))"
        code += " for one in json.loads(sys.argv[2])]))"
        found = answered([sys.executable, "-c", code, path_of(here, name), json.dumps(statements)])
        for statement, rows in zip(statements, found, strict=True):
            assert plain([list(row.values()) for row in rows]) == asked(here, name, statement), statement
