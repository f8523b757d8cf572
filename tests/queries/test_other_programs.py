"""Other programs on our files: DuckDB, pandas and sqlite-utils, as the manual prints it, and each of its recipes."""

from __future__ import annotations

import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

sys.path.append(str(pathlib.Path(__file__).parent.parent / "bench"))

import generate
import ledger_rows
import manual
import sql_contract

from arcacct.config.paths import Places
from arcacct.database import access, schema
from arcacct.database.schema import ACCOUNTING, PUBLISHING
from arcacct.publishing import cursors
from arcacct.records import usage

ROOT = pathlib.Path(__file__).parent.parent.parent
SECTION = manual.read("howto/other-programs")
RECIPES = re.findall(r"^```sql\n-- (\w+)\.db\n(.*?);\n```$", manual.text(), re.MULTILINE | re.DOTALL)
ANSWERS = ROOT / "tests/support/duckdb_answers.py"
DUCKDB = os.environ.get("ARCACCT_DUCKDB", sys.executable)
"""A Python with DuckDB and the wheel of its sqlite extension; one that is named has to have them."""


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Places:
    """Generated jobs, those of batch systems and their telemetry, the sums of all, and what was sent and was not."""
    made = generate.fill(tmp_path_factory.mktemp("programs"), 60)
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
        ledger_rows.send(con, ledger_rows.record("job1"), ledger_rows.record("job2", notes="cut"))
        ledger_rows.set_aside(con, "job3", "quarantined")
    return made


def script(here: Places, language: str, words: str) -> str:
    """The manual's block in a language that has some words, for the database of this test."""
    (found,) = (
        one for one in re.findall(rf"^```{language}\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL) if words in one
    )
    return (
        found.replace("/var/lib/arcacct/", f"{here.directory}/")
        .replace("/opt/arcacct/share/arcacct/", f"{ROOT}/etc/")
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

    assert (ROOT / "etc" / name).read_text(encoding="utf-8") == made


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
        ledger += f"con.execute(open('{ROOT}/etc/{name}').read())\n"
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
        "v1_jobs",
        "v1_gridengine_records",
        "v1_slurm_runs",
        "v1_slurm_jobs",
        "v1_publications",
        "v1_quarantine",
    }
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
