"""`arcacct record`: the hook for people."""

from __future__ import annotations

import os
import pathlib
import sqlite3
from contextlib import closing

import pytest
from installed import arcacct, configured
from job_files import JOB, NOON_NS, Files, events, lay, rows

from arcacct.arex.control_files import job_file


@pytest.fixture
def control(tmp_path: pathlib.Path) -> pathlib.Path:
    """A control directory with one finished job, next to an arc.conf."""
    configured(tmp_path)
    lay(tmp_path / "control", Files())
    return tmp_path / "control"


def database(control: pathlib.Path) -> pathlib.Path:
    """Where the database is by default."""
    return control / "accounting" / "arcacct" / "accounting.db"


def test_an_event_is_recorded_and_told(control: pathlib.Path) -> None:
    """The database is made, the event recorded, one line says where; the same again is nothing new."""
    first = arcacct("--config", control.parent / "arc.conf", "record", control, JOB, "FINISHED")
    second = arcacct("--config", control.parent / "arc.conf", "record", control, JOB, "FINISHED")

    assert (first.returncode, first.stderr) == (second.returncode, second.stderr) == (0, "")
    assert first.stdout == f"{JOB} FINISHED: recorded in {database(control)}\n"
    assert second.stdout == f"{JOB} FINISHED: nothing new in {database(control)}\n"
    assert events(str(database(control))) == [(JOB, "ACCEPTED"), (JOB, "FINISHED")]


def test_it_records_what_the_hook_records(control: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Hook and command make the same rows of the same files."""
    from recording_host import Host

    (tmp_path / "other").mkdir()
    host = Host(tmp_path / "other")
    for state, after_s in (("ACCEPTED", 0), ("SUBMIT", 1), ("FINISHED", 2)):
        for directory in (control, host.control):
            lay(directory, Files(state, NOON_NS + after_s * 10**9))
        arcacct("--config", host.conf, "record", control, JOB, state)
        host.run(state)

    assert rows(str(database(control))) == rows(str(host.database))


def test_the_database_of_the_command_line_is_used(control: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """--database wins over the configuration."""
    elsewhere = tmp_path / "elsewhere" / "a.db"

    done = arcacct("--config", tmp_path / "arc.conf", "--database", elsewhere, "record", control, JOB, "FINISHED")

    assert done.stdout == f"{JOB} FINISHED: recorded in {elsewhere}\n"
    assert not database(control).exists()


def test_it_needs_no_configuration(control: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The control directory on the command line is enough where there is no arc.conf."""
    empty = tmp_path / "empty.conf"
    empty.write_text("")

    done = arcacct("record", control, JOB, "FINISHED", environment={"ARC_CONFIG": str(empty)})

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["control"], "Missing argument"),
        (["control", JOB], "Missing argument"),
        (["control", JOB, "BROKEN"], "BROKEN"),
        (["control", "../x", "FINISHED"], "'../x' is not the id of a job"),
        (["control", f"job.{JOB}/local", "FINISHED"], "is not the id of a job"),
    ],
)
def test_wrong_arguments_are_64(control: pathlib.Path, arguments: list[str], complaint: str) -> None:
    """A slip on the command line is told, with the exit code for it, and nothing is made."""
    arguments = [str(control) if argument == "control" else argument for argument in arguments]

    done = arcacct("--config", control.parent / "arc.conf", "record", *arguments)

    assert (done.returncode, done.stdout) == (64, "")
    assert complaint in done.stderr
    assert not database(control).exists()


def test_a_job_without_local_is_65(control: pathlib.Path) -> None:
    """What the hook would spool is an error for a person: one line, nothing spooled."""
    os.unlink(job_file(str(control), JOB, "local"))

    done = arcacct("--config", control.parent / "arc.conf", "record", control, JOB, "FINISHED")

    assert (done.returncode, done.stdout) == (65, "")
    assert done.stderr == f"arcacct: {control}: job {JOB} has no .local to read\n"
    assert not (database(control).parent / "spool").exists()


def test_an_unreadable_file_is_65(control: pathlib.Path) -> None:
    """The file is named, and what to do."""
    local = job_file(str(control), JOB, "local")
    os.unlink(local)
    os.mkdir(local)

    done = arcacct("--config", control.parent / "arc.conf", "record", control, JOB, "FINISHED")

    assert done.returncode == 65
    assert done.stderr.startswith(f"arcacct: {local}: cannot be read: ")
    assert done.stderr.count("\n") == 1


def test_a_foreign_database_is_74(control: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A database that is not ours is refused, by name."""
    foreign = tmp_path / "foreign.db"
    with closing(sqlite3.connect(foreign)) as con:
        con.execute("CREATE TABLE Theirs (A)")

    done = arcacct("--config", tmp_path / "arc.conf", "--database", foreign, "record", control, JOB, "FINISHED")

    assert done.returncode == 74
    assert done.stderr.startswith(f"arcacct: {foreign}: not a database of arcacct")


def test_the_file_that_arex_writes_is_78(control: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A-REX's own database is refused before anything touches it."""
    theirs = control / "accounting" / "accounting.db"

    done = arcacct("--config", tmp_path / "arc.conf", "--database", theirs, "record", control, JOB, "FINISHED")

    assert done.returncode == 78
    assert "A-REX" in done.stderr
    assert not theirs.exists()


def test_maintenance_is_75(control: pathlib.Path) -> None:
    """While the database is being worked on a person is told to try again later."""
    arcacct("--config", control.parent / "arc.conf", "record", control, JOB, "FINISHED")
    (database(control).parent / "maintenance").touch()

    done = arcacct("--config", control.parent / "arc.conf", "record", control, JOB, "FINISHED")

    assert done.returncode == 75
    assert "maintenance exists" in done.stderr


def test_deleted_is_reported(control: pathlib.Path) -> None:
    """A deleted job needs no record, and the command says why."""
    done = arcacct("--config", control.parent / "arc.conf", "record", control, JOB, "DELETED")

    assert done.returncode == 0
    assert done.stdout == f"{JOB} DELETED: nothing to record, because a record outlives its job\n"


def test_the_help_says_what_differs_from_the_hook() -> None:
    """`arcacct record -h` names the arguments and that nothing is spooled."""
    found = arcacct("record", "-h")

    assert found.returncode == 0
    assert "CONTROLDIR JOBID" in found.stdout
    assert "spool" in found.stdout
