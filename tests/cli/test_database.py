"""`arcacct db init`."""

from __future__ import annotations

import grp
import os
import pathlib
import pty
import signal
import sqlite3
import stat
import subprocess
from collections.abc import Callable
from contextlib import closing, suppress

import conf_files
import pytest
import stored_jobs
from campaigns import cross
from control_directory import set_up
from installed import ARCACCT, arcacct, configured

from arcacct.cli.main import main
from arcacct.cli.progress import stop_on_signal
from arcacct.config.paths import Places, places
from arcacct.database.access import initialise, open_accounting, open_publishing
from arcacct.database.connection import ACCOUNTING_SCHEMA, PUBLISHING_SCHEMA, open_database
from arcacct.database.schema import incarnation
from arcacct.publishing import cursors
from arcacct.publishing.cursors import Cursor
from arcacct.records.integrity import Checked, check
from arcacct.times import iso


def test_both_databases_are_created(tmp_path: pathlib.Path) -> None:
    """`db init` makes the databases of accounting and of publishing, private, and says where."""
    conf = configured(tmp_path)
    ours = tmp_path / "control" / "accounting" / "arcacct"

    done = arcacct("--config", conf, "db", "init")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{ours}/accounting.db: created\n{ours}/publishing.db: created\n"
    open_database(str(ours / "accounting.db"), ACCOUNTING_SCHEMA).close()
    open_database(str(ours / "publishing.db"), PUBLISHING_SCHEMA).close()
    assert {stat.S_IMODE(path.stat().st_mode) for path in ours.iterdir()} == {0o600}


def test_a_second_time_changes_nothing(tmp_path: pathlib.Path) -> None:
    """Databases that are there and up to date stay as they are, with what is in them."""
    conf = configured(tmp_path)
    arcacct("--config", conf, "db", "init")
    database = tmp_path / "control" / "accounting" / "arcacct" / "accounting.db"
    with closing(sqlite3.connect(database)) as con:
        con.execute("INSERT INTO Users (Name) VALUES ('x')")
        con.commit()

    done = arcacct("--config", conf, "db", "init")

    assert done.returncode == 0
    assert done.stdout.count(": exists and is up to date\n") == 2
    with closing(sqlite3.connect(database)) as con:
        assert con.execute("SELECT Name FROM Users").fetchall() == [("x",)]


def test_the_command_line_says_where(tmp_path: pathlib.Path) -> None:
    """With --database no configuration is needed; publishing.db is next to it."""
    done = arcacct("--database", tmp_path / "a" / "b.db", "db", "init")

    assert done.returncode == 0
    assert done.stdout == f"{tmp_path}/a/b.db: created\n{tmp_path}/a/publishing.db: created\n"


def test_a_newer_database_is_74(tmp_path: pathlib.Path) -> None:
    """A database of a newer program is refused with both versions, one line."""
    arcacct("--database", tmp_path / "a.db", "db", "init")
    with closing(sqlite3.connect(tmp_path / "a.db")) as con:
        con.execute("UPDATE DBConfig SET KeyValue = '999' WHERE KeyName = 'ARCACCT_SCHEMA'")
        con.commit()

    done = arcacct("--database", tmp_path / "a.db", "db", "init")

    assert (done.returncode, done.stdout) == (74, "")
    assert done.stderr == (
        f"arcacct: {tmp_path}/a.db: schema version 999; this program supports {ACCOUNTING_SCHEMA}: "
        "install the version of arcacct that created it, or a newer one\n"
    )


def test_a_place_that_cannot_be_is_74(tmp_path: pathlib.Path) -> None:
    """A path below a file is told, not traced."""
    (tmp_path / "file").write_text("")

    done = arcacct("--database", tmp_path / "file" / "a.db", "db", "init")

    assert (done.returncode, done.stdout) == (74, "")
    assert f"{tmp_path}/file/a.db: cannot be created: Not a directory" in done.stderr


def test_an_unknown_read_group_is_78(tmp_path: pathlib.Path) -> None:
    """The option and the group are named, and no database is made."""
    conf = configured(tmp_path, "read_group=nosuchgroup")

    done = arcacct("--config", conf, "db", "init")

    assert (done.returncode, done.stdout) == (78, "")
    assert "read_group=nosuchgroup: this host has no such group" in done.stderr
    assert not (tmp_path / "control" / "accounting" / "arcacct" / "accounting.db").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to a group")
def test_read_group_is_applied_to_what_is_there(tmp_path: pathlib.Path) -> None:
    """A read_group= that is set later holds after the next `db init`."""
    conf = configured(tmp_path)
    arcacct("--config", conf, "db", "init")
    configured(tmp_path, "read_group=users")

    assert arcacct("--config", conf, "db", "init").returncode == 0

    ours = tmp_path / "control" / "accounting" / "arcacct"
    assert stat.S_IMODE(ours.stat().st_mode) == 0o750
    for path in (ours, *ours.glob("*.db*")):
        assert grp.getgrgid(path.stat().st_gid).gr_name == "users"
        assert stat.S_IMODE(path.stat().st_mode) in (0o640, 0o750)


def test_the_group_has_help() -> None:
    """`arcacct db -h` lists what can be done."""
    found = arcacct("db", "-h")

    assert found.returncode == 0
    assert "init" in found.stdout


# `arcacct db upgrade|check|optimize|backup|restore|prune` as an operator types them.


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run `arcacct db ...`; its exit code, standard output and standard error."""
    for name in ("ARC_CONFIG", "ARCACCT_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    conf = conf_files.write(tmp_path, conf_files.DIRECTORY.replace("/var/spool/apel/outgoing", str(tmp_path / "out")))
    (tmp_path / "out").mkdir()

    def run(*args: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as raised:
            main(["--config", conf, "db", *args])
        out, err = capsys.readouterr()
        return raised.value.code, out, err

    return run


@pytest.fixture
def here(tmp_path) -> Places:
    """Three old jobs, all of them delivered to the only target; no job in the control directory."""
    found = places(None, set_up(tmp_path / "control"))
    initialise(found)
    with closing(open_accounting(found)) as con, closing(open_publishing(found)) as publishing:
        stored_jobs.add(con, found, *map(stored_jobs.job, (1, 2, 3)))
        cursors.set_cursor(publishing, Cursor("arcacct/directory:out", incarnation(con), 3, 0, None))
    return found


def jobs(path: str) -> int:
    with closing(sqlite3.connect(path)) as con:
        return int(con.execute("SELECT count(*) FROM AAR").fetchone()[0])


def test_a_check_with_a_wrong_configuration_says_on_a_line_each_what_is_wrong(run, here, tmp_path) -> None:
    """And checks what it can: the positions in the log belong to targets, which are unknown then."""
    conf_files.write(tmp_path, "[arcacct]\nmissing_wall_time = never\n" + conf_files.DIRECTORY)

    code, out, err = run("check")

    assert code == 0
    assert "positions" not in out
    first, *wrong, last = err.splitlines()
    assert first.endswith("in the configuration:")
    assert any("missing_wall_time" in line for line in wrong)
    assert "positions in the log are not checked" in last


def test_check_says_what_it_asked(here, run) -> None:
    """A line for each question; exit 0 when all is well, 74 and the problem on stderr when not."""
    code, out, err = run("check")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 14
    assert all(line.endswith(": ok") for line in out.splitlines())

    with closing(sqlite3.connect(here.database)) as con:
        con.execute("DELETE FROM FinishedLog WHERE RecordID = 2")
        con.commit()
    code, out, err = run("check")

    assert code == 74
    assert "log of finished records: wrong\n" in out
    assert "STORED000002" in err


PAGE_BYTES = 4096


def write_page_of(path: str, name: str, change: Callable[[bytes], bytes]) -> None:
    """Change the first page of a table or an index in the file, with nothing in the WAL."""
    with closing(sqlite3.connect(path)) as con:
        con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = con.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
    with open(path, "r+b") as file:
        file.seek((root - 1) * PAGE_BYTES)
        page = change(file.read(PAGE_BYTES))
        file.seek((root - 1) * PAGE_BYTES)
        file.write(page)


def rows(path: str) -> dict[str, list[tuple[object, ...]]]:
    """What is in each table, read without indexes."""
    with closing(sqlite3.connect(path)) as con:
        names = [name for (name,) in con.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        tables = [name for name in names if not name.startswith("sqlite_stat")]
        return {name: con.execute(f'SELECT * FROM "{name}" NOT INDEXED').fetchall() for name in tables}


@pytest.mark.parametrize(
    ("place", "page"),
    cross(
        7,
        [
            ("accounting.db", "AAR", "AAR_EndTime_IDX"),
            ("accounting.db", "AAR", "sqlite_autoindex_AAR_1"),
            ("accounting.db", "AAR", "Ours_IDX"),
            ("accounting.db", "Status", "Status_Name_IDX"),
            ("accounting.db", "DBConfig", "sqlite_autoindex_DBConfig_1"),
            ("publishing.db", "Targets", "sqlite_autoindex_Targets_1"),
            ("publishing.db", "Messages", "Messages_sending_IDX"),
        ],
        [bytes(PAGE_BYTES), b"\xff" * PAGE_BYTES],
    ),
    ids=lambda one: one[-1] if isinstance(one, tuple) else "ones" if any(one) else "zeros",
)
def test_a_damaged_index_is_named_and_built_again_from_the_rows(here, run, place, page) -> None:
    """The check says that no row is damaged, and which command repairs it; all questions are asked all the same."""
    name, table, index = place
    path = os.path.join(here.directory, name)
    with closing(sqlite3.connect(here.database)) as con:
        con.execute("CREATE INDEX Ours_IDX ON AAR (EndTime) WHERE UsedWalltime > 0")
    before = rows(path)
    write_page_of(path, index, lambda _page: page)

    code, out, err = run("check")
    assert (code, len(out.splitlines())) == (74, 14)
    assert f"{path}: the rows of {table} are intact, and only indexes are damaged, {index}; run `arcacct db opt" in err
    assert "`arcacct db check`" not in err

    assert run("optimize") == (0, f"{path}: index {index} rebuilt\n{here.database}: optimized\n", "")
    assert run("check")[::2] == (0, "")
    assert rows(path) == before


@pytest.mark.parametrize(
    ("name", "table"), [("accounting.db", "AAR"), ("accounting.db", "FinishedLog"), ("publishing.db", "Targets")]
)
def test_damaged_rows_are_named_and_need_a_backup(here, run, name, table) -> None:
    """No index is built again from them."""
    path = os.path.join(here.directory, name)
    write_page_of(path, table, lambda _page: b"\xff" * PAGE_BYTES)

    code, out, err = run("check")
    assert (code, len(out.splitlines())) == (74, 14)
    assert f"{path}: rows of {table} are damaged; restore a backup: `arcacct db restore FILE`" in err
    code, out, err = run("optimize")
    assert (code, out) == (74, "")
    assert f"{path}: rows of {table} are damaged; restore a backup: `arcacct db restore FILE`" in err


def test_a_row_and_an_entry_that_differ_need_a_backup(here, run) -> None:
    """One of both is damaged, and nothing tells which."""
    write_page_of(here.database, "sqlite_autoindex_AAR_1", lambda page: page.replace(b"STORED000002", b"STORED000009"))

    code, _out, err = run("check")
    assert code == 74
    assert "a row of AAR and its entry in an index differ, so one of the two is damaged; restore a backup" in err
    assert run("optimize")[:2] == (0, f"{here.database}: optimized\n")
    assert run("check")[0] == 74


@pytest.mark.parametrize("name", ["accounting.db", "publishing.db"])
@pytest.mark.parametrize("content", [b"no database" * 1000, None], ids=["text", "no-whole-page"])
def test_a_database_that_cannot_be_asked_needs_a_backup(here, run, name, content) -> None:
    """The check does not send the user to the check."""
    path = pathlib.Path(here.directory, name)
    path.write_bytes(path.read_bytes()[: 3 * PAGE_BYTES + 100] if content is None else content)

    code, _out, err = run("check")

    assert code == 74
    assert f"{path}: " in err
    assert err.endswith("it is damaged or not a database: restore a backup with `arcacct db restore FILE`\n")


def test_a_check_says_what_is_of_before(here, run) -> None:
    """Of each question how many answers are those of a check that was stopped, and when that started."""
    answers: list[Checked] = []
    answers.extend(check(here, stopping=lambda: len(answers) == 2))

    code, out, err = run("check")

    began = iso(answers[0].begun_s)
    lines = out.splitlines()
    assert code == 0
    assert f"continues the check that began at {began} and was stopped" in err
    assert lines[0].endswith(f": ok ({answers[0].parts} of {answers[0].parts} parts as of {began})")
    assert lines[1].endswith(f": ok (1 of 1 part as of {began})")
    assert all(line.endswith(": ok") for line in lines[2:])

    answers.clear()
    answers.extend(check(here, stopping=lambda: len(answers) == 2))
    code, out, err = run("check", "--anew")

    assert (code, err) == (0, "")
    assert all(line.endswith(": ok") for line in out.splitlines())


def test_backup_and_restore(tmp_path, here, run) -> None:
    """The paths of a backup are what a restore is given; the old database is named."""
    code, out, _err = run("backup", str(tmp_path / "safe"))
    copies = [line.partition(": ")[0] for line in out.splitlines()]
    assert code == 0
    assert [os.path.dirname(path) for path in copies] == [str(tmp_path / "safe")] * 2
    with closing(open_accounting(here)) as con:
        stored_jobs.add(con, here, stored_jobs.job(4))

    refused = run("restore", copies[0])
    code, out, err = run("restore", copies[0], "--yes")

    assert refused[0] == 64
    assert "--yes" in refused[2]
    assert (code, out) == (0, f"{here.database}: restored from {copies[0]}\n")
    assert jobs(here.database) == 3
    assert jobs(err.partition(": ")[0]) == 4


def test_backup_without_a_directory(here, run) -> None:
    """Beside the database."""
    code, out, _err = run("backup")

    assert code == 0
    assert out.startswith(os.path.join(here.directory, "backups", "accounting-"))


def test_upgrade(here, run) -> None:
    """One line for each database; one that is missing is not made."""
    code, out, _err = run("upgrade")
    assert code == 0
    assert out.splitlines() == [
        f"{path}: exists and is up to date" for path in (here.database, here.publishing_database)
    ]

    os.unlink(here.database)
    code, _out, err = run("upgrade")

    assert code == 74
    assert "`arcacct db restore FILE`" in err
    assert not os.path.exists(here.database)


def test_optimize(here, run) -> None:
    """With --shrink it says what came of it."""
    assert run("optimize") == (0, f"{here.database}: optimized\n", "")

    code, out, _err = run("optimize", "--shrink")

    assert code == 0
    assert "bytes before" in out


def test_prune_shows_first_and_asks(here, run) -> None:
    """A dry run and a refused one change nothing; --yes moves the jobs into the archive next to the database."""
    dry = run("prune", "--before", "2026-06-01", "--dry-run")
    refused = run("prune", "--before", "2026-06-01")
    assert dry == (0, "3 jobs to be moved, which ended from 2026-05-28T20:26:40Z to 2026-05-28T20:26:40Z\n", "")
    assert refused[0] == 64
    assert jobs(here.database) == 3

    code, out, _err = run("prune", "--before", "2026-06-01", "--yes")

    archive = os.path.join(here.directory, "archive.db")
    assert code == 0
    assert out.splitlines()[-1] == f"{archive}: 3 jobs moved"
    assert (jobs(here.database), jobs(archive)) == (0, 3)
    assert run("prune", "--before", "2026-06-01", "--yes")[1] == "no jobs to move\n"


def test_prune_says_what_stays(tmp_path, here, run) -> None:
    """And why; a target that is not used any more is left out by its block."""
    (tmp_path / "control" / "finished" / "job.STORED000001.status").write_text("FINISHED")
    with closing(open_publishing(here)) as publishing, closing(open_accounting(here)) as con:
        cursors.set_cursor(publishing, Cursor("arex/jura/sgas:old", incarnation(con), 0, 0, None))

    waiting = run("prune", "--before", "2026-06-01", "--dry-run")
    without = run("prune", "--before", "2026-06-01", "--dry-run", "--without-target", "arex/jura/sgas:old")

    assert waiting[1] == "no jobs to move\n"
    assert "2 jobs kept: not sent to [arex/jura/sgas:old] yet" in waiting[2]
    assert without[1].startswith("2 jobs to be moved")
    assert "1 job kept: the control directory still has them" in without[2]


def test_prune_needs_the_control_directory(tmp_path, here, run) -> None:
    """A job that it still has would be recorded once more by the next sweep."""
    os.rename(tmp_path / "control" / "finished", tmp_path / "control" / "elsewhere")
    pathlib.Path(tmp_path / "control" / "finished").write_text("")

    code, _out, err = run("prune", "--before", "2026-06-01", "--yes")

    assert code == 65
    assert "cannot read the control directory" in err
    assert jobs(here.database) == 3


def on_a_terminal(tmp_path: pathlib.Path, *command: str) -> tuple[int, str]:
    """The exit code of `arcacct db ...`, and what it drew on a terminal."""
    ours, theirs = pty.openpty()
    arguments = [ARCACCT, "--config", str(tmp_path / "arc.conf"), "db", *command]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=theirs, stdin=subprocess.DEVNULL) as process:
        os.close(theirs)
        drawn = b""
        # Linux says EIO when the other side is closed.
        with suppress(OSError):
            while part := os.read(ours, 4096):
                drawn += part
        os.close(ours)
    return process.returncode, drawn.decode()


@pytest.mark.parametrize(
    ("command", "label"),
    [(("check",), "Parts"), (("prune", "--before", "2026-06-01", "--yes"), "Jobs")],
    ids=["check", "prune"],
)
def test_a_terminal_sees_how_far_it_is(tmp_path, here, run, command, label) -> None:
    """A bar to its end; elsewhere nothing is drawn."""
    code, drawn = on_a_terminal(tmp_path, *command)

    assert code == 0
    assert label in drawn
    assert "100%" in drawn
    assert run("check")[2] == ""


def test_a_signal_stops_behind_a_slice() -> None:
    """Whoever is at work is told to stop; whoever insists, at once."""
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)
        with stop_on_signal() as stopping:
            assert not stopping()
            os.kill(os.getpid(), number)
            assert stopping()
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
        assert signal.getsignal(number) is before
