"""`arcacct import arex` as an operator types it."""

from __future__ import annotations

import json
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
from gridengine_files import ran
from installed import ARCACCT, arcacct, configured
from memory import peak_kib

from arcacct.wording import count_of


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


# `arcacct import rejected`, `--retry`, and what status and metrics say of it.


@pytest.fixture
def conf(tmp_path) -> pathlib.Path:
    """A host that has imported a bad line of Grid Engine and two bad objects of Sonar."""
    conf = configured(tmp_path)
    (tmp_path / "accounting").write_bytes(ran(1, 1, 10, 20) + b"rub\x1b]0;bish\n" + ran(2, 1, 10, 20))
    (tmp_path / "feed.json").write_bytes(b'rubbish\n{"meta":{},"data":{"type":"tea","attributes":{}}}\n')
    for words in (("gridengine", str(tmp_path / "accounting")), ("sonar", str(tmp_path / "feed.json"))):
        assert arcacct("--config", conf, "import", *words).returncode == 65
    return conf


def listed(conf: pathlib.Path, *words: str) -> list[dict[str, object]]:
    """What the command lists."""
    return json.loads(arcacct("--config", conf, "import", "rejected", "--format", "json", *words).stdout)


def test_rejected_records_are_listed_shown_and_dropped(conf, tmp_path) -> None:
    """Each with file, place and reason; shown without steering the terminal; dropped by number, or of a source."""
    found = listed(conf)
    assert [(one["source"], one["file"], one["position"]) for one in found] == [
        ("gridengine", f"{tmp_path}/accounting", "line 2"),
        ("sonar", f"{tmp_path}/feed.json", "object 1"),
        ("sonar", f"{tmp_path}/feed.json", "object 2"),
    ]
    assert found[2]["reason"] == "data of the unknown type 'tea'"
    shown = arcacct("--config", conf, "import", "rejected", "--show", str(found[0]["id"]))
    assert shown.stdout == "rub\\x1b]0;bish\n"

    table = arcacct("--config", conf, "import", "rejected", "--source", "gridengine")
    assert len(table.stdout.splitlines()) == 3
    unknown = arcacct("--config", conf, "import", "rejected", "--drop", "99")
    assert (unknown.returncode, unknown.stdout) == (65, "0 rejected records dropped\n")
    assert "99: no such rejected record" in unknown.stderr
    dropped = arcacct("--config", conf, "import", "rejected", "--drop", str(found[0]["id"]))
    assert dropped.stdout == "1 rejected record dropped\n"
    assert [one["source"] for one in listed(conf)] == ["sonar", "sonar"]
    arcacct("--config", conf, "import", "rejected", "--drop-all", "--source", "sonar", "--yes")
    assert arcacct("--config", conf, "import", "rejected").stderr == "no record is rejected\n"


def test_questions_that_mean_nothing(conf) -> None:
    """No such record; two things at once; nothing to import."""
    assert arcacct("--config", conf, "import", "rejected", "--show", "999").returncode == 65
    assert arcacct("--config", conf, "import", "rejected", "--show", "1", "--drop", "1").returncode == 64
    assert arcacct("--config", conf, "import", "sonar").returncode == 64
    unasked = arcacct("--config", conf, "import", "rejected", "--drop-all")
    assert (unasked.returncode, "pass --yes" in unasked.stderr) == (64, True)
    assert len(listed(conf)) == 3


@pytest.mark.parametrize(("source", "tried", "code"), [("gridengine", 1, 0), ("sonar", 2, 0), ("arex", 0, 0)])
def test_a_retry_is_asked_of_each_source(conf, source, tried, code) -> None:
    """What is still bad stays; another source's is not touched."""
    done = arcacct("--config", conf, "import", source, "--retry")

    assert done.returncode == code
    assert done.stdout.splitlines()[0] == f"{count_of(tried, 'rejected record')} tried again: 0 now usable"
    assert len(listed(conf)) == 3


def test_status_and_metrics_count_them(conf, tmp_path) -> None:
    """One line of status, a warning, and numbers by source; dropped values are a counter by field."""
    (tmp_path / "more.json").write_bytes(
        b'{"meta":{},"data":{"type":"job","attributes":{"time":"2026-11-20T10:00:00Z","cluster":"c","slurm_jobs":'
        b'[{"job_id":1,"job_state":"PENDING","priority":"high","nodes":["n[1-999999999]"]}]}}}\n'
    )
    assert arcacct("--config", conf, "import", "sonar", str(tmp_path / "more.json")).returncode == 0
    checks = json.loads(arcacct("--config", conf, "status", "--format", "json").stdout)
    [check] = [one for one in checks if one["subject"] == "imports"]
    assert check["severity"] == 1
    assert check["text"].startswith("1 of gridengine, 2 of sonar could not be used, the oldest ")
    assert check["text"].endswith("run `arcacct import gridengine --retry` and `arcacct import sonar --retry`")
    metrics = arcacct("--config", conf, "metrics").stdout.splitlines()
    assert 'arcacct_import_rejected_records{source="sonar"} 2.0' in metrics
    assert 'arcacct_sonar_dropped_values_total{field="priority"} 1.0' in metrics
    assert 'arcacct_sonar_dropped_values_total{field="nodes"} 1.0' in metrics
    assert "# TYPE arcacct_sonar_dropped_values_total counter" in metrics

    arcacct("--config", conf, "import", "rejected", "--drop-all", "--yes")
    assert "imports" not in arcacct("--config", conf, "status").stdout
