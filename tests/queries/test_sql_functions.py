"""The SQL functions that sqlite-utils and Datasette get, and what the program takes of sqlite-utils."""

from __future__ import annotations

import json
import os
import pathlib
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from arcacct.queries.sql_functions import FUNCTIONS, prepare_connection

BIN = pathlib.Path(sys.executable).parent
VALUES = [
    ("arcacct_unescape('a%27b%23c%25d%0A%zz')", "a'b#c%d\n%zz"),
    ("arcacct_unescape(NULL)", None),
    ("arcacct_unescape(7)", 7),
    ("arcacct_iso(1790856000)", "2026-10-01T12:00:00Z"),
    ("arcacct_iso(1790856000.9)", "2026-10-01T12:00:00Z"),
    ("arcacct_iso(-1)", "1969-12-31T23:59:59Z"),
    ("arcacct_iso(9e300)", None),
    ("arcacct_iso(9223372036854775807)", None),
    ("arcacct_iso('soon')", None),
    ("arcacct_iso(NULL)", None),
    ("arcacct_hours(5400)", 1.5),
    ("arcacct_hours(NULL)", None),
    ("arcacct_fqan_vo('/atlas/uk/Role=production/Capability=NULL')", "atlas"),
    ("arcacct_fqan_group('/atlas/uk/Role=production/Capability=NULL')", "/atlas/uk"),
    ("arcacct_fqan_role('/atlas/uk/Role=production/Capability=NULL')", "production"),
    ("arcacct_fqan_role('/atlas')", None),
    ("arcacct_fqan_group('atlas')", None),
    ("arcacct_fqan_vo(x'2f61')", None),
]
EXPRESSIONS = f"SELECT json_array({', '.join(expression for expression, _value in VALUES)}) AS found"


@pytest.fixture
def database(tmp_path) -> str:
    """An empty database."""
    path = str(tmp_path / "some.db")
    with closing(sqlite3.connect(path)) as con:
        con.execute("CREATE TABLE Users (Name TEXT)")
    return path


def answered(*command: str) -> list[dict]:
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("program", ["sqlite-utils", "datasette"])
def test_both_programs_have_the_functions(database, program) -> None:
    """By the entry points of the distribution, in the programs as they are installed."""
    if program == "sqlite-utils":
        (row,) = answered(str(BIN / program), "query", database, EXPRESSIONS)
    else:
        pytest.importorskip("datasette", reason="datasette is not installed (the extra `test` has it)")
        query = f"/some.json?_shape=array&sql={EXPRESSIONS.replace('%', '%25').replace(' ', '+')}"
        (row,) = answered(str(BIN / program), database, "--get", query)
    assert json.loads(row["found"]) == [value for _expression, value in VALUES]


def test_an_index_can_use_each_function() -> None:
    """SQLite lets an index call what is deterministic only."""
    with closing(sqlite3.connect(":memory:")) as con:
        prepare_connection(con)
        con.execute("CREATE TABLE t (x)")
        for name in FUNCTIONS:
            con.execute(f"CREATE INDEX {name} ON t ({name}(x))")
        con.execute("INSERT INTO t VALUES ('/atlas/Role=a%27')")


@pytest.fixture
def costly(tmp_path) -> str:
    """A directory with a pandas and a numpy that must not be loaded."""
    for name in ("pandas", "numpy"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise AssertionError('{name} is loaded')\n")
    return str(tmp_path)


@pytest.mark.parametrize("words", [["query", "SELECT 1 AS one"], ["db", "check"]])
def test_no_command_loads_pandas(costly, tmp_path, words) -> None:
    """sqlite-utils loads it where it is installed: 0.6 s and 86 MiB for nothing."""
    (tmp_path / "control/accounting").mkdir(parents=True)
    for folder in ("accepting", "processing", "restarting", "finished"):
        (tmp_path / "control" / folder).mkdir()
    (tmp_path / "arc.conf").write_text(f"[common]\nhostname=ce.example.org\n[arex]\ncontroldir={tmp_path}/control\n")
    code = (
        "import sys\n"
        "from arcacct.cli.main import main\n"
        "for words in (['db', 'init'], sys.argv[2:]):\n"
        "    try: main(['--config', sys.argv[1], *words])\n"
        "    except SystemExit as end: assert not end.code, end.code\n"
        "assert 'sqlite_utils' in sys.modules\n"
        "assert not {'pandas', 'numpy'} & {*sys.modules}\n"
        # Whoever wants it afterwards has it.
        "try: import pandas\n"
        "except AssertionError as error: assert 'pandas is loaded' in str(error)\n"
    )
    environment = os.environ | {"PYTHONPATH": costly}
    command = [sys.executable, "-c", code, str(tmp_path / "arc.conf"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
