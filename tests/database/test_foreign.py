"""Databases that somebody else made, to harm whoever reads them: tables are read, and nothing of theirs is run."""

from __future__ import annotations

import json
import os
import pathlib
import resource
import sqlite3
import subprocess
import sys
from contextlib import closing

import arex_writer
import conf_files
import pytest
from control_directory import set_up
from installed import ARCACCT

from arcacct.config.paths import Places, places
from arcacct.database import upkeep
from arcacct.database.access import initialise
from arcacct.wording import count_of

pytestmark = pytest.mark.campaign

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
_COLUMNS = (
    "i AS RecordID, 'J' || i AS JobID, '1' AS LocalJobID, 1 AS EndpointID, 1 AS QueueID, 1 AS UserID, 1 AS VOID,"
    " 1 AS StatusID, 0 AS ExitCode, 1 AS SubmitTime, i AS EndTime, 1 AS NodeCount, 1 AS CPUCount, 1 AS UsedMemory,"
    " 1 AS UsedVirtMem, 1 AS UsedWalltime, 1 AS UsedCPUUserTime, 1 AS UsedCPUKernelTime, 1 AS UsedScratch,"
    " 1 AS StageInVolume, 1 AS StageOutVolume"
)
TRAPS = {
    "records-without-end": f"DROP TABLE AAR; CREATE VIEW AAR AS {ENDLESS} SELECT {_COLUMNS} FROM n",
    "names-of-two-gigabytes": (
        "CREATE TABLE Large AS SELECT 1 AS ID; DROP TABLE Users;"
        " CREATE VIEW Users AS SELECT ID, hex(zeroblob(499999999)) || hex(zeroblob(499999999)) AS Name FROM Large"
    ),
    "a-join-of-everything": (
        "DROP TABLE Queues; CREATE VIEW Queues AS SELECT 1 AS ID, (SELECT count(*) FROM JobEvents a, JobEvents b,"
        " JobEvents c, JobEvents d, JobEvents e, JobEvents f, JobEvents g, JobEvents h, JobEvents i) AS Name"
    ),
    "settings-without-end": (
        f"DROP TABLE DBConfig; CREATE VIEW DBConfig AS {ENDLESS} SELECT 'K' || i AS KeyName, '1' AS KeyValue FROM n"
    ),
    "a-generated-column": (
        "ALTER TABLE Users RENAME TO Old; CREATE TABLE Users (ID INTEGER PRIMARY KEY, Plain TEXT);"
        " INSERT INTO Users (ID, Plain) SELECT ID, Name FROM Old;"
        " ALTER TABLE Users ADD COLUMN Name TEXT GENERATED ALWAYS AS (hex(zeroblob(499999999)))"
    ),
    "a-virtual-table": "DROP TABLE Users; CREATE VIRTUAL TABLE Users USING fts5(ID, Name)",
    "another-virtual-table": "CREATE VIRTUAL TABLE Map USING rtree(id, x, y)",
    "a-table-without-numbers": (
        "ALTER TABLE AAR RENAME TO Old; CREATE TABLE AAR AS SELECT * FROM Old; UPDATE AAR SET RecordID = '1) OR (1'"
    ),
    "a-table-without-rowid": (
        "CREATE TABLE New (RecordID INTEGER PRIMARY KEY, EventKey TEXT, EventTime TEXT) WITHOUT ROWID;"
        " DROP TABLE JobEvents; ALTER TABLE New RENAME TO JobEvents"
    ),
    "a-column-rowid": "ALTER TABLE JobEvents ADD COLUMN rowid TEXT",
    "a-missing-table": "DROP TABLE JobExtraInfo",
    "a-missing-column": "ALTER TABLE JobEvents RENAME COLUMN EventTime TO Other",
    "no-such-collation": (
        "PRAGMA writable_schema = 1;"
        " UPDATE sqlite_master SET sql = replace(sql, 'TEXT', 'TEXT COLLATE nonesuch') WHERE name = 'Users'"
    ),
    "text-that-is-no-sql": "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = 'x' WHERE name = 'Users'",
    "a-view-that-says-table": (
        "PRAGMA writable_schema = 1; CREATE VIEW Trap AS SELECT 1 AS ID, 'x' AS Name;"
        " UPDATE sqlite_master SET type = 'table', name = 'Users', tbl_name = 'Users' WHERE name = 'Trap';"
        " DELETE FROM sqlite_master WHERE rootpage > 0 AND name = 'Users'"
    ),
}
"""Each made of a database of A-REX with two jobs."""


def made(path: pathlib.Path, trap: str = "") -> None:
    """A database of A-REX with two finished jobs, and then what the trap does to it."""
    with closing(arex_writer.create(path)) as con:
        writer = arex_writer.Writer(con)
        for number in (1, 2):
            writer.accept(number)
            writer.finish(number, arex_writer.FIRST_S + 60 + number)
        for statement in trap.split(";"):
            con.execute(statement)


@pytest.fixture
def here(tmp_path) -> Places:
    found = places(None, set_up(tmp_path / "control"))
    initialise(found)
    return found


@pytest.fixture
def path(tmp_path) -> pathlib.Path:
    return tmp_path / "their.db"


def limited(work: pathlib.Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the program with a gigabyte and a minute of CPU time for everything."""
    return _limited(ARCACCT, "--config", conf_files.write(work, ""), *arguments)


SEVERAL = """
import io, json, shlex, sys
from contextlib import redirect_stderr, redirect_stdout
from arcacct.cli.main import main
answers = []
for question in sys.argv[3:]:
    words = io.StringIO()
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(words):
            main(["--config", sys.argv[1], "--database", sys.argv[2], *shlex.split(question)])
    except SystemExit as ended:
        answers.append((ended.code or 0, words.getvalue()))
print(json.dumps(answers))
"""


def answers(work: pathlib.Path, path: pathlib.Path, *questions: str) -> list[tuple[int, str]]:
    """Exit code and complaint of several questions to one database; all in one process, with the same limits."""
    done = _limited(sys.executable, "-c", SEVERAL, conf_files.write(work, ""), path, *questions)
    assert (done.returncode, done.stderr) == (0, ""), done
    found = [(code, words) for code, words in json.loads(done.stdout)]
    assert len(found) == len(questions)
    return found


def _limited(*command: object) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))

    return subprocess.run(
        [*map(str, command)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_is_refused_by_an_import(tmp_path, here, path, trap) -> None:
    """One clear line with the file, in no time and no memory; the file stays as it was, and no job is taken over."""
    made(path, TRAPS[trap])
    before = path.read_bytes()

    done = limited(tmp_path, "import", "arex", path)

    assert done.returncode in (65, 74), done
    assert done.stderr.startswith(f"arcacct: {path}: ")
    assert done.stderr.count("\n") == 1
    assert path.read_bytes() == before
    with closing(sqlite3.connect(here.database)) as con:
        assert con.execute("SELECT count(*) FROM AAR").fetchone() == (0,)


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_is_refused_by_questions(tmp_path, here, path, trap) -> None:
    """So do commands that are asked by --database."""
    made(path, TRAPS[trap])

    for code, words in answers(
        tmp_path, path, "stats --by user", "job info J1", "query 'SELECT * FROM AAR, Users, DBConfig'"
    ):
        assert code in (65, 74), words
        assert words.startswith(f"arcacct: {path}: ")
        assert words.count("\n") == 1


@pytest.mark.parametrize("value", ["'7x'", "x'ff41'", "9e999", "CAST(x'41ff42' AS TEXT)", "'%41%zz'"])
@pytest.mark.parametrize("column", ["AAR.CPUCount", "AAR.UsedWalltime", "AAR.EndTime", "Users.Name", "Queues.Name"])
def test_values_of_another_kind_are_no_error_of_ours(tmp_path, path, column, value) -> None:
    """SQLite holds anything in any column: the other job counts, and every question has an answer or a clear line."""
    table, name = column.split(".")
    made(path, f"UPDATE {table} SET {name} = {value} WHERE {'RecordID' if table == 'AAR' else 'ID'} = 1")

    for code, words in answers(
        tmp_path,
        path,
        "stats",
        "stats --by user,queue,month",
        "stats --by host,day --details",
        "stats -o users",
        "job info JOB00001",
    ):
        assert code in (0, 74), words
        assert "internal error" not in words
        assert code == 0 or str(path) in words


def shell_words(line: str) -> list[str]:
    first, _quote, sql = line.partition(" '")
    return [*first.split(), *([sql.rstrip("'")] if sql else [])]


@pytest.mark.parametrize("command", ["import arex", "--database stats", "--database status", "--database db check"])
def test_a_pipe_is_not_waited_for(tmp_path, here, path, command) -> None:
    """No one will ever write it; a device is none either."""
    os.mkfifo(path)
    words = command.split()
    option = ["--database", path] if words[0] == "--database" else []
    rest = words[1:] if option else [*words, path]

    done = limited(tmp_path, *option, *rest)

    assert done.returncode in (2, 65, 74), done
    assert str(path) in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        pytest.param("zeroblob(900000000)", 1, id="a-gigabyte"),
        pytest.param("hex(zeroblob(2000000))", 1, id="four-megabytes"),
        pytest.param("hex(zeroblob(200))", 2, id="400-bytes"),
        pytest.param("CAST(x'41ff42' AS TEXT)", 2, id="no-text"),
        pytest.param("x'41ff42'", 2, id="bytes"),
        pytest.param("9e999", 2, id="infinite"),
        pytest.param("'7.5'", 2, id="number"),
    ],
)
def test_a_record_that_is_too_large_is_left_out_alone(tmp_path, here, path, value, kept) -> None:
    """Its neighbour is taken over, and the complaint has its number."""
    made(path, f"UPDATE JobExtraInfo SET InfoValue = {value} WHERE RecordID = 2 AND InfoKey = 'lrms'")

    done = limited(tmp_path, "import", "arex", path)

    assert done.returncode == (0 if kept == 2 else 65), done
    assert f"{count_of(kept, 'job')} added" in done.stdout
    assert ("record 2" in done.stderr) == (kept == 1)


@pytest.mark.parametrize("number", [0, -1, -(2**63)])
def test_a_record_with_a_number_of_nobodys_is_a_job_like_any_other(tmp_path, here, path, number) -> None:
    """A-REX counts from 1; what SQL made of it must not be ignored, however often the file is imported."""
    made(path, f"UPDATE AAR SET RecordID = {number} WHERE RecordID = 1")

    for added in (2, 0):
        done = limited(tmp_path, "import", "arex", path)

        assert done.returncode == 0, done
        assert f"{count_of(added, 'job')} added, 0 changed" in done.stdout


def test_very_many_rows_of_one_record_are_not_read_at_once(tmp_path, here, path) -> None:
    """The record alone is left out."""
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 600000)"
    made(path, f"INSERT INTO RunTimeEnvironments {rows} SELECT 1, 'ENV/' || i FROM n")

    done = limited(tmp_path, "import", "arex", path)

    assert done.returncode == 65, done
    assert "1 job added" in done.stdout
    assert "record 1" in done.stderr


@pytest.mark.parametrize("command", ["stats --by user", "job info STORED1", "query 'SELECT * FROM v1_jobs'"])
@pytest.mark.parametrize("name", ["v1_jobs", "v1_usage_by_month", "CurrentUsage", "DBConfig"])
def test_what_only_looks_like_ours_is_refused(tmp_path, here, path, command, name) -> None:
    """A copy of our database in which a view runs permanently; the one of the site is asked as ever."""
    (copy, *_rest) = upkeep.backups(here, str(tmp_path / "safe"))
    with closing(sqlite3.connect(copy.path)) as con:
        kind = con.execute("SELECT type FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
        con.executescript(f"DROP {kind} {name}; CREATE VIEW {name} AS {ENDLESS} SELECT i AS KeyName, i AS vo FROM n")

    done = limited(tmp_path, "--database", copy.path, *shell_words(command))

    assert done.returncode in (65, 74), done
    assert done.stderr.startswith(f"arcacct: {copy.path}: ")
