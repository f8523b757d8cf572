"""`arcacct fleet sql`: it only reads, no file but those of the dataset, and only so much."""

from __future__ import annotations

import json

import pytest
from in_process import said
from installed import ARCACCT, arcacct
from memory import cost_of

pytest.importorskip("duckdb", reason="the extra parquet is not installed")
pytest.importorskip("pyarrow", reason="the extra parquet is not installed")

REFUSED = {
    "CREATE TABLE t (a INTEGER)": "queries can only read",
    "COPY (SELECT 1) TO '{other}/stolen.csv'": "queries can only read",
    "ATTACH '{other}/a.db' AS a": "queries can only read",
    "INSTALL httpfs": "queries can only read",
    "LOAD httpfs": "queries can only read",
    "SET enable_external_access = true": "queries can only read",
    "PRAGMA disable_object_cache": "queries can only read",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{other}/stolen.csv'": "queries can only read",
    "SELECT * FROM query('COPY (SELECT 1) TO ''{other}/stolen.csv'' ')": "",
    "SELECT 1; SELECT 2": "give one statement",
    "": "give one statement",
    "SELEC 1": "syntax error",
    "SELECT colour FROM jobs": "colour",
    "SELECT * FROM read_text('{other}/secret')": "no other file",
    "SELECT * FROM '{other}/secret.csv'": "no other file",
    "SELECT * FROM read_csv('/etc/passwd')": "no other file",
    "SELECT * FROM glob('{other}/*')": "no other file",
    "SELECT * FROM 'https://127.0.0.1:1/a.parquet'": "no other file",
    "SELECT * FROM secret": "secret",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_what_does_more_than_read_is_refused(federation, tmp_path, capsys, statement) -> None:
    """In one line that says why; nothing is written, and a variable of the program is no table."""
    secret = [(1,)]
    (tmp_path / "secret").write_text("do not tell")
    (tmp_path / "secret.csv").write_text("a,b\n1,do not tell\n")

    done = said(capsys, "fleet", "sql", federation.root, statement.format(other=tmp_path))

    assert secret
    assert done.returncode == 64, done.stderr
    assert REFUSED[statement] in done.stderr
    assert done.stderr.count("\n") == 1
    assert "do not tell" not in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret", "secret.csv"]


def test_a_statement_is_judged_where_no_file_can_be_opened(federation, tmp_path, capsys) -> None:
    """DuckDB before 2.0 reads the scripts that IMPORT DATABASE names, and quotes them where they are no SQL."""
    (tmp_path / "schema.sql").write_text("secret_of_others")
    (tmp_path / "load.sql").write_text("")

    done = said(capsys, "fleet", "sql", federation.root, f"IMPORT DATABASE '{tmp_path}'")

    assert (done.returncode, done.stdout) == (64, "")
    assert "secret_of_others" not in done.stderr


def test_nothing_can_be_switched_on(federation, capsys) -> None:
    """What keeps a statement in is set, also where nothing yet would get through."""
    names = ("enable_external_access", "python_enable_replacements", "autoload_known_extensions", "lock_configuration")
    asked = "SELECT " + ", ".join(f"current_setting('{name}') AS {name}" for name in names)

    (row,) = json.loads(said(capsys, "fleet", "sql", federation.root, asked, "--format", "json").stdout)

    assert list(map(str, row.values())) == ["False", "False", "False", "True"]


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("statement", "options", "complaint"),
    [
        ("SELECT count(*) FROM range(10000000000) AS a, range(1000) AS b", ("--timeout", "0.3"), "ran for 0.3 s"),
        ("SELECT * FROM range(100)", ("--max-rows", "99"), "more than 99 rows"),
        ("SELECT array_agg(i) FROM range(100000000) AS r(i)", ("--max-memory", "32"), "more than 32 MiB"),
    ],
)
def test_what_takes_too_much_is_ended(federation, capsys, statement, options, complaint) -> None:
    """Time, rows and memory have limits, as those of `arcacct query`."""
    done = said(capsys, "fleet", "sql", federation.root, statement, *options)

    assert done.returncode == 65
    assert complaint in done.stderr


@pytest.mark.campaign
@pytest.mark.parametrize(
    "statement", ["SELECT length(repeat('x', 4000000000))", "SELECT repeat('x', 40000000) FROM range(100)"]
)
def test_large_texts_count_as_memory(federation, statement) -> None:
    """DuckDB's own limit leaves texts out: without another one these take more than a gigabyte each."""
    cost = cost_of(ARCACCT, "fleet", "sql", federation.root, statement, "--max-memory", "64", exit_code=65)

    assert "more than 64 MiB" in cost.stderr
    assert cost.peak_kib < 600 * 1024


def test_a_long_query_prints_nothing_but_its_answer(federation, capsys) -> None:
    """DuckDB draws a bar on standard output after two seconds, which readers of CSV or JSON would take for rows."""
    done = said(capsys, "fleet", "sql", federation.root, "SELECT current_setting('enable_progress_bar') AS draws")

    assert done.stdout.split() == ["draws", "-----", "False"]


def test_all_tables_answer(federation, capsys) -> None:
    """Each has the columns of its partition next to its own, typed; values of any type can be printed."""
    for table in ("jobs", "events", "transfers", "attributes"):
        asked = f"SELECT site, year + 1 AS next, month, ce, record_id FROM {table} WHERE site = 'South' LIMIT 1"
        (row,) = json.loads(said(capsys, "fleet", "sql", federation.root, asked, "--format", "json").stdout)
        assert (row["site"], row["next"], row["month"][0]) == ("South", 2027, "0")

    assert said(capsys, "fleet", "sql", federation.root, "FROM accelerators", "--format", "csv").stdout.startswith(
        "site,year,month,ce,record_id,"
    )

    done = said(
        capsys,
        "fleet",
        "sql",
        federation.root,
        "SELECT sum(wall_s) AS s, 1.5::DECIMAL(9, 3) AS d, [1, 2] AS l, DATE '2026-11-01' AS t FROM jobs",
        "--format",
        "json",
    )

    (row,) = json.loads(done.stdout)
    assert (row["d"], row["l"], row["t"]) == ("1.500", "[1, 2]", "2026-11-01")
    assert row["s"] > 0


def test_as_a_program_of_its_own(federation) -> None:
    """It says what it is asked, and DuckDB has nothing to add when the program ends."""
    done = arcacct("fleet", "sql", federation.root, "SELECT 1 AS a", "--format", "csv")
    refused = arcacct("fleet", "sql", federation.root, "SELECT colour FROM jobs")

    assert (done.returncode, done.stdout, done.stderr) == (0, "a\n1\n", "")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (64, "", 1)
