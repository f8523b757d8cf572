"""`arcacct query`: everybody may ask, no one may do anything else."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from contextlib import closing

import arex_corpus as corpus
import pytest
from installed import ARCACCT, arcacct

from arcacct.database.access import open_accounting, writing

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
REFUSED = {
    "delete": ("DELETE FROM AAR", "queries can only read; AAR is refused"),
    "insert-returning": ("INSERT INTO DBConfig VALUES ('a', 'b') RETURNING 1", "DBConfig is refused"),
    "update": ("UPDATE Users SET Name = 'x'", "Users is refused"),
    "with-delete": ("WITH x AS (SELECT 1) DELETE FROM JobEvents", "JobEvents is refused"),
    "create": ("CREATE TABLE x (y)", "is refused"),
    "create-temporary": ("CREATE TEMP TABLE x (y)", "is refused"),
    "create-view": ("CREATE VIEW x AS SELECT 1", "is refused"),
    "drop": ("DROP TABLE AAR", "is refused"),
    "begin": ("BEGIN IMMEDIATE", "BEGIN is refused"),
    "savepoint": ("SAVEPOINT s", "is refused"),
    "attach": ("ATTACH 'other.db' AS other", "other.db is refused"),
    "vacuum-into": ("VACUUM INTO 'copy.db'", "copy.db is refused"),
    "vacuum": ("VACUUM", "is refused"),
    "reindex": ("REINDEX", "refused"),
    "analyze": ("ANALYZE", "is refused"),
    "load": ("SELECT load_extension('evil')", "load_extension is refused"),
    "pragma": ("PRAGMA journal_mode = DELETE", "journal_mode is refused"),
    "pragma-checkpoint": ("PRAGMA wal_checkpoint(TRUNCATE)", "wal_checkpoint is refused"),
    "pragma-writable": ("PRAGMA writable_schema = 1", "writable_schema is refused"),
    "two-statements": ("SELECT 1; DELETE FROM AAR", "one statement at a time"),
    "nothing": ("", "this statement does not return rows"),
    "no-sql": ("SELEC 1", "syntax error"),
}
TOO_MUCH = {
    "for-ever": (f"{ENDLESS} SELECT count(*) FROM n", "ran for 1 s"),
    "rows-without-end": (f"{ENDLESS} SELECT i FROM n", "more than 50 rows"),
    "one-long-function": ("SELECT instr(hex(zeroblob(2000000)), hex(zeroblob(1000000)) || '1')", "ran for 1 s"),
    "large-value": ("SELECT length(hex(zeroblob(500000000)))", "a value of more than 16 MiB"),
    "random-value": ("SELECT randomblob(1000000000)", "a value of more than 16 MiB"),
    "large-sort": (
        (
            "WITH RECURSIVE n(i, b) AS (SELECT 1, zeroblob(1000000) UNION ALL SELECT i + 1, b FROM n LIMIT 500)"
            " SELECT length(b) FROM n ORDER BY b, random()"
        ),
        "needs more than 32 MiB",
    ),
    "large-row": ("SELECT zeroblob(1500000), zeroblob(1500000)", "a row of it more than 2"),
    "large-texts": ("SELECT hex(zeroblob(700000)), hex(zeroblob(700000))", "a row of it more than 2"),
    "json-without-end": (f"{ENDLESS} SELECT json_group_array(hex(zeroblob(100000))) FROM n", " MiB"),
    "large-aggregate": (
        (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000)"
            " SELECT length(group_concat(hex(zeroblob(1000000)))) FROM n"
        ),
        " MiB",
    ),
}
LIMITS = ("--max-rows", "50", "--max-memory", "32")


def test_a_view_of_the_other_database_is_named(unchanged) -> None:
    """Views of publishing.db need another option."""
    done = arcacct("--config", unchanged.conf, "query", "SELECT * FROM v1_publications")
    assert done.returncode == 64
    assert "it is in publishing.db: use `arcacct query --ledger`" in done.stderr
    assert arcacct("--config", unchanged.conf, "query", "--ledger", "SELECT * FROM v1_publications").returncode == 0


def test_a_view_of_the_accounting_database_is_named(unchanged) -> None:
    """Who asks the ledger for jobs has one option too many."""
    done = arcacct("--config", unchanged.conf, "query", "--ledger", "SELECT * FROM v1_jobs")
    assert done.returncode == 64
    assert "it is in accounting.db of arcacct: omit --ledger" in done.stderr


@pytest.mark.parametrize("sql", ["SELECT vo FROM jobs", "SELECT colour FROM v1_jobs"])
def test_an_unknown_table_or_column_leads_to_the_list(unchanged, sql) -> None:
    """The page with all views and columns is named."""
    done = arcacct("--config", unchanged.conf, "query", sql)
    assert done.returncode == 64
    assert done.stderr.endswith("; `arcacct help views` lists the views and their columns\n")


@pytest.mark.parametrize("name", REFUSED)
def test_a_statement_that_does_anything_but_read_is_refused(unchanged, name) -> None:
    """It ends with 64 and one clear line, and neither the database nor its directory changes."""
    statement, complaint = REFUSED[name]
    names = sorted(path.name for path in unchanged.database.parent.iterdir())
    before = unchanged.database.read_bytes()

    done = arcacct("--config", unchanged.conf, "query", statement, cwd=unchanged.database.parent)

    assert (done.returncode, done.stdout) == (64, "")
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in unchanged.database.parent.iterdir()) == names
    assert unchanged.database.read_bytes() == before


@pytest.mark.campaign
@pytest.mark.parametrize("name", TOO_MUCH)
def test_a_statement_that_takes_too_much_is_ended(unchanged, name) -> None:
    """It ends with 65 and one clear line that names the limit."""
    statement, complaint = TOO_MUCH[name]

    # Time is short only for what ends by nothing else: a busy machine needs long for the others.
    timeout = "1" if complaint.startswith("ran for") else "300"
    done = arcacct("--config", unchanged.conf, "query", "--timeout", timeout, *LIMITS, statement)

    assert done.returncode == 65
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1


def peak_mib(*command: object) -> float:
    """The most memory that a command had at any time. (One that pytest started would count pytest's, too.)"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _MEASURE, *map(str, command)], capture_output=True, text=True, check=True
    )
    return int(done.stdout) / 1024


_MEASURE = (
    "import resource, subprocess, sys\n"
    "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)\n"
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)


@pytest.mark.campaign
@pytest.mark.parametrize("form", ["table", "csv", "json"])
@pytest.mark.parametrize(
    "value", ["zeroblob(3900000)", "hex(zeroblob(1900000))", "replace(hex(zeroblob(900000)), '0', '\x01')"]
)
def test_the_result_counts_as_memory(unchanged, form, value) -> None:
    """Forty rows of 4 MB each take no more than one: each is written before the next one is read."""
    ask = [ARCACCT, "--config", unchanged.conf, "query", "--timeout", 900, "--max-memory", 64, "--format", form]
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 40)"

    small = peak_mib(*ask, "SELECT 1")
    large = peak_mib(*ask, f"{rows} SELECT {value} FROM n")

    assert large - small < 64 + 48


def test_asking_continues_next_to_a_writer(ours) -> None:
    """While a transaction writes, a query answers with what was committed before."""
    here = corpus.place(ours.control)
    with closing(open_accounting(here)) as con, writing(con, here):
        con.execute("INSERT INTO Users (Name) VALUES ('not committed yet')")
        done = arcacct("--config", ours.conf, "query", "SELECT count(*) AS n FROM Users WHERE Name LIKE 'not%'")

    assert done.stdout.split() == ["n", "-", "0"]


def test_values_come_as_they_are(unchanged) -> None:
    """JSON keeps numbers, NULL, text of any script and bytes; columns of one name stay apart."""
    done = arcacct(
        "--config", unchanged.conf, "query", "--format", "json",
        "SELECT 1 AS a, 2.5 AS a, NULL AS n, 'Ærø ☃' AS t, x'00ff' AS b",
    )  # fmt: skip

    assert json.loads(done.stdout) == [
        {"a": 1, "a_2": 2.5, "n": None, "t": "Ærø ☃", "b": {"$base64": True, "encoded": "AP8="}}
    ]


def test_a_statement_may_come_from_a_file(unchanged, tmp_path: pathlib.Path) -> None:
    """`-` reads the statement from standard input."""
    report = tmp_path / "report.sql"
    report.write_text("-- how many\nSELECT count(*) AS jobs\n  FROM v1_jobs;\n")
    with report.open() as stdin:
        done = subprocess.run(
            [ARCACCT, "--config", unchanged.conf, "query", "--format", "csv", "-"],
            stdin=stdin,
            capture_output=True,
            text=True,
            check=True,
        )

    assert done.stdout.splitlines()[0] == "jobs"
    assert int(done.stdout.splitlines()[1]) > 30


def test_no_rows_are_an_empty_answer(unchanged) -> None:
    """JSON of nothing is an empty list, CSV the header alone."""
    statement = "SELECT job_id FROM v1_jobs WHERE 0"

    assert arcacct("--config", unchanged.conf, "query", "--format", "json", statement).stdout == "[]\n"
    assert arcacct("--config", unchanged.conf, "query", "--format", "csv", statement).stdout == "job_id\n"


def test_a_name_cannot_steer_the_terminal(unchanged) -> None:
    """Control characters of a job's name are replaced in the table, so that each row stays one line."""
    done = arcacct("--config", unchanged.conf, "query", "SELECT 'a' || char(10) || char(27) || '[31mb' AS name")

    assert done.stdout.splitlines()[2] == r"a\n\x1b[31mb"
