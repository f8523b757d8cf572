"""`arcacct import arex` as an operator types it."""

from __future__ import annotations

import os
import pathlib
import shutil
import sqlite3
from contextlib import closing

import arex_corpus as corpus
import arex_writer
import conf_files
import pytest
from control_directory import set_up
from installed import ARCACCT
from memory import peak_kib

from arcacct.cli.main import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command; its exit code, standard output and standard error."""
    for name in ("ARC_CONFIG", "ARCACCT_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def run(*args: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as raised:
            main(list(args))
        out, err = capsys.readouterr()
        return raised.value.code, out, err

    return run


@pytest.fixture
def arex(tmp_path) -> pathlib.Path:
    """The corpus' database where A-REX keeps it, and a configuration of its control directory."""
    conf_files.write(tmp_path)
    path = tmp_path / "control" / "accounting" / "accounting.db"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as con:
        con.executescript((corpus.AREX / "accounting.sql").read_text())
    return path


def jobs(path: pathlib.Path | str) -> int:
    with closing(sqlite3.connect(path)) as con:
        return int(con.execute("SELECT count(*) FROM AAR").fetchone()[0])


def test_the_database_of_the_control_directory(tmp_path, arex, run) -> None:
    """Without a path it is found; what A-REX has lost is said on stderr, what was done on stdout."""
    conf = str(tmp_path / "arc.conf")
    before = arex.read_bytes()

    code, out, err = run("--config", conf, "import", "arex", "--timezone", "UTC")

    assert code == 0
    assert out == (f"{arex}: 36 records read, 35 jobs added, 0 changed, 0 completed, 0 unfinished\n")
    assert "(a job of the INTERNAL interface): left out" in err
    assert "2 jobs with events of another time zone" in err
    assert jobs(arex.parent / "arcacct" / "accounting.db") == 35
    assert arex.read_bytes() == before
    code, out, err = run("--config", conf, "import", "arex", "--timezone", "UTC")
    assert (code, out.partition(": ")[2].partition(",")[0], err) == (0, "0 records read", "")


def test_lost_records_are_one_line(tmp_path, arex, run) -> None:
    """Also with an import that rejects many."""
    with closing(sqlite3.connect(arex)) as con, con:
        con.execute("UPDATE AAR SET EndTime = 0 WHERE RecordID IN (SELECT RecordID FROM AAR LIMIT 30)")
    _code, _out, err = run("--config", str(tmp_path / "arc.conf"), "import", "arex", "--timezone", "UTC")

    lines = [line for line in err.splitlines() if "left out" in line]
    assert len(lines) == len({line.rpartition(": status ")[2] for line in lines}) <= 3
    assert any(" records, as record " in line for line in lines)


def test_a_path_and_a_control_directory(tmp_path, arex, run) -> None:
    """A database from elsewhere goes into the accounting of the directory that is named."""
    other = shutil.copy(arex, tmp_path / "from-another-ce.db")

    code, out, _err = run("import", "arex", str(other), "--controldir", set_up(tmp_path / "here"), "--timezone", "UTC")

    assert code == 0
    assert out.startswith(f"{other}: 36 records read, 35 jobs added")
    assert jobs(tmp_path / "here" / "accounting" / "arcacct" / "accounting.db") == 35


def test_both_databases_after_an_upgrade_to_arc_7(tmp_path, arex, run) -> None:
    """That of ARC 6 first, then that of ARC 7."""
    arex_writer.create(arex.with_name("accounting_v2.db"), 2).close()

    code, out, _err = run("--config", str(tmp_path / "arc.conf"), "import", "arex")

    assert code == 0
    assert [os.path.basename(line.partition(":")[0]) for line in out.splitlines()] == [
        "accounting.db",
        "accounting_v2.db",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param(["--timezone", "Mars/Olympus"], 64, "no such zone; use a name", id="no zone"),
        pytest.param(["/nowhere/accounting.db"], 65, "/nowhere/accounting.db: no such file", id="missing"),
        pytest.param([__file__], 65, "not an SQLite database", id="no database"),
        pytest.param(["--controldir", "/nowhere"], 78, "/nowhere: no such control directory", id="nothing there"),
    ],
)
def test_what_cannot_be_imported(tmp_path, arex, run, arguments, code, message) -> None:
    """One line on stderr that says what, where and what to do."""
    found = run("--config", str(tmp_path / "arc.conf"), "import", "arex", *arguments)

    assert found[0] == code
    assert message in found[2]
    assert found[2].count("\n") == 1


def test_a_database_that_arex_writes_is_never_written(tmp_path, arex, run) -> None:
    """Neither the configured control directory's, nor one of another, which is not even opened."""
    conf = str(tmp_path / "arc.conf")
    elsewhere = shutil.copy(arex, tmp_path / "elsewhere.db")
    with closing(sqlite3.connect(elsewhere, isolation_level=None)) as con:
        con.execute("BEGIN EXCLUSIVE")

        own = run("--config", conf, "--database", str(arex), "import", "arex")
        other = run("--config", conf, "--database", str(elsewhere), "import", "arex")

    assert own[0] == 78
    assert "this is the file that A-REX writes" in own[2]
    assert other[0] == 74
    assert "not a database of arcacct" in other[2]
    assert jobs(arex) == jobs(elsewhere) == 36


@pytest.mark.campaign
def test_memory_has_an_end(tmp_path) -> None:
    """However large the database that is filled becomes (here by few jobs of much text), not all of it is kept."""
    control = tmp_path / "control"
    set_up(control)
    (tmp_path / "arc.conf").write_text(f"[arex]\ncontroldir={control}\n")
    path = tmp_path / "accounting.db"
    with closing(arex_writer.create(path)) as con:
        con.execute("PRAGMA synchronous = OFF")
        writer = arex_writer.Writer(con)
        for number in range(1, 6001):
            writer.accept(number)
            writer.finish(number, arex_writer.FIRST_S + number)
        con.execute("INSERT INTO JobExtraInfo SELECT RecordID, 'description', printf('%.*c', 10000, 'x') FROM AAR")

    peak = peak_kib(ARCACCT, "--config", tmp_path / "arc.conf", "import", "arex", path, "--timezone", "UTC")

    assert os.path.getsize(path) > 50 * 2**20
    assert peak < 80 * 2**10
