"""`arcacct sweep`."""

from __future__ import annotations

import fcntl
import grp
import os
import pathlib
import pty
import shutil
import sqlite3
import subprocess
from contextlib import closing

import pytest
import spool_0_2 as spool
from control_directory import set_up
from installed import ARCACCT, arcacct, configured
from job_files import JOB, LOCAL, NOON_NS, Files, events, lay, remove, rows
from other_users import acting_as
from sonar_site import sample, stream

from arcacct.arex.control_files import read_job
from arcacct.config.paths import places
from arcacct.files.directories import private_directory


@pytest.fixture
def control(tmp_path: pathlib.Path) -> pathlib.Path:
    """A control directory with three jobs, next to an arc.conf."""
    configured(tmp_path)
    for job_id in "ABC":
        lay(tmp_path / "control", Files(), job_id)
    return tmp_path / "control"


def test_the_summary_is_on_stdout(control: pathlib.Path) -> None:
    """One line says what was done; a second sweep has nothing to record."""
    conf = control.parent / "arc.conf"
    spool.write(places(None, str(control)).spool, read_job(str(control), "A", "FINISHED"))

    first = arcacct("--config", conf, "sweep")
    second = arcacct("--config", conf, "sweep")

    assert (first.returncode, first.stderr) == (second.returncode, second.stderr) == (0, "")
    assert first.stdout == f"1 event from the spool; 3 jobs in {control}, 3 read, 2 recorded: 2 never seen\n"
    assert second.stdout.startswith(f"0 events from the spool; 3 jobs in {control}, ")
    assert second.stdout.endswith(" read, 0 recorded\n")


def test_telemetry_that_came_before_its_job_is_added_to_it(control: pathlib.Path) -> None:
    """The next sweep adds it, and no further import of telemetry is needed."""
    conf = control.parent / "arc.conf"
    process = {"pid": 1, "cpu_time": 5, "resident_memory": 2048}
    (control.parent / "samples.jsonl").write_bytes(
        stream(*(sample(at, [process], job=4711, node="wn1") for at in (4800, 5400)))
    )
    lay(control, Files(local=LOCAL.replace(b"lrms=fork", b"lrms=slurm")), "A")
    assert arcacct("--config", conf, "import", "sonar", control.parent / "samples.jsonl").returncode == 0

    done = arcacct("--config", conf, "sweep")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("telemetry of an earlier import added to 1 record\n")
    with closing(sqlite3.connect(control / "accounting" / "arcacct" / "accounting.db")) as con:
        assert con.execute("SELECT job_id, samples FROM v1_job_telemetry").fetchall() == [("A", 2)]
    assert "telemetry of" not in arcacct("--config", conf, "sweep").stdout


@pytest.mark.parametrize("ours", ["", "[arcacct]\nnames_kept_months=12\n"], ids=["all names stay", "old names go"])
def test_what_is_odd_in_the_configuration_is_none_of_its_business(control: pathlib.Path, ours: str) -> None:
    """A timer runs it every quarter of an hour: `arcacct config check` and the publisher tell of warnings."""
    conf = control.parent / "arc.conf"
    conf.write_text(f"{conf.read_text()}[arex/jura]\nvomsless_vo=one\nvomsless_vo=two\n")
    (control.parent / "arcacct.conf").write_text(ours)
    assert "vomsless_vo" in arcacct("--config", conf, "config", "check").stdout

    done = arcacct("--config", conf, "sweep")

    assert (done.returncode, done.stderr) == (0, "")


def test_complaints_are_on_stderr_with_65(control: pathlib.Path) -> None:
    """One line for each thing that could not be used; the rest is recorded all the same."""
    lay(control, Files(local=None), "B")
    spooled = pathlib.Path(places(None, str(control)).spool)
    private_directory(str(spooled))
    (spooled / "1-2-SUBMIT-X").write_text("rubbish")

    done = arcacct("--config", control.parent / "arc.conf", "sweep")

    assert done.returncode == 65
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"arcacct: {spooled}/unusable/1-2-SUBMIT-X: ")
    assert lines[1].startswith("arcacct: B: ")
    assert done.stdout.endswith("2 recorded: 2 never seen\n")
    database = control / "accounting" / "arcacct" / "accounting.db"
    assert {job_id for job_id, _event in events(str(database))} == {"A", "C"}


def test_another_control_directory_can_be_swept(control: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """--controldir wins over the configuration, and has its own database unless --database says otherwise."""
    conf, other, third = control.parent / "arc.conf", tmp_path / "other", tmp_path / "third"
    lay(other, Files())
    lay(third, Files())

    done = arcacct("--config", conf, "sweep", "--controldir", other)
    into = arcacct("--config", conf, "--database", tmp_path / "x.db", "sweep", "--controldir", third)

    told = "0 events from the spool; 1 job in {}, 1 read, 1 recorded: 1 never seen\n"
    assert done.stdout == told.format(other)
    assert into.stdout == told.format(third)
    assert events(str(tmp_path / "x.db")) == [(JOB, "ACCEPTED"), (JOB, "FINISHED")]


def test_a_missing_control_directory_is_65(tmp_path: pathlib.Path) -> None:
    """A path that is not there is named, with what to check."""
    conf = configured(tmp_path)
    shutil.rmtree(tmp_path / "control")

    done = arcacct("--config", conf, "--database", tmp_path / "x.db", "sweep")

    assert (done.returncode, done.stdout) == (65, "")
    assert f"{tmp_path}/control: cannot read the control directory" in done.stderr
    assert "check [arex] controldir" in done.stderr


def test_a_missing_configuration_is_78(tmp_path: pathlib.Path) -> None:
    """A --config that is not there is told; nothing is guessed."""
    done = arcacct("--config", tmp_path / "nowhere.conf", "sweep")

    assert (done.returncode, done.stdout) == (78, "")
    assert f"{tmp_path}/nowhere.conf" in done.stderr


@pytest.mark.skipif(
    any(map(os.path.exists, ("/etc/arc.conf", "/etc/arcacct.conf", "/run/arched-arex.cfg"))),
    reason="this host has a configuration",
)
def test_no_configuration_at_all_is_78(tmp_path: pathlib.Path) -> None:
    """Without configuration a person has to name the control directory: ARC's default is not swept by surprise."""
    done = arcacct("sweep")
    given = arcacct("sweep", "--controldir", set_up(tmp_path))

    assert (done.returncode, done.stdout) == (78, "")
    assert "/etc/arc.conf: no such file" in done.stderr
    assert "--config" in done.stderr
    assert given.returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to read as somebody else")
def test_those_who_may_only_read_can_read_after_a_sweep(public_dir: pathlib.Path) -> None:
    """The sweep leaves -wal and -shm: without them a reader without the right to write could not open the database."""
    group = grp.getgrgid(grp.getgrnam("users").gr_gid)
    conf = configured(public_dir, f"database={public_dir}/ours/accounting.db\nread_group={group.gr_name}")
    lay(public_dir / "control", Files())

    assert arcacct("--config", conf, "sweep").returncode == 0

    found = {path.name for path in (public_dir / "ours").iterdir()}
    readable = f"file:{public_dir}/ours/accounting.db?mode=ro"
    assert {"accounting.db", "accounting.db-wal", "accounting.db-shm"} <= found
    with acting_as("nobody", groups=(group.gr_gid,)), closing(sqlite3.connect(readable, uri=True)) as con:
        assert con.execute("SELECT JobID FROM AAR").fetchall() == [(JOB,)]


def test_a_terminal_gets_a_progress_bar(control: pathlib.Path) -> None:
    """On a terminal progress is drawn on stderr; stdout has the summary alone."""
    ours, theirs = pty.openpty()
    command = [ARCACCT, "--config", str(control.parent / "arc.conf"), "sweep"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        drawn = _all_of(ours)
        stdout = process.stdout.read() if process.stdout is not None else ""

    assert process.returncode == 0
    assert "Jobs" in drawn
    assert "100%" in drawn
    assert stdout == f"0 events from the spool; 3 jobs in {control}, 3 read, 3 recorded: 3 never seen\n"


def _all_of(terminal: int) -> str:
    parts = []
    try:
        while part := os.read(terminal, 4096):
            parts.append(part)
    except OSError:
        # Linux says EIO when the other side is closed.
        pass
    finally:
        os.close(terminal)
    return b"".join(parts).decode()


def test_an_empty_directory_is_swept_without_a_word_on_a_terminal_too(tmp_path: pathlib.Path) -> None:
    """No jobs, no progress, no error."""
    conf = configured(tmp_path)
    ours, theirs = pty.openpty()
    with subprocess.Popen([ARCACCT, "--config", str(conf), "sweep"], stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        _all_of(ours)
        stdout = process.stdout.read() if process.stdout is not None else b""

    assert process.returncode == 0
    assert b"0 jobs in" in stdout


def test_the_help_says_what_it_does() -> None:
    """`arcacct sweep -h` names the option and the exit code of complaints."""
    found = arcacct("sweep", "-h")

    assert found.returncode == 0
    assert "--controldir" in found.stdout
    assert "65" in found.stdout


def test_a_dry_run_writes_nothing(control: pathlib.Path) -> None:
    """It tells what a sweep would record, by kind, and leaves database, spool and control directory as they are."""
    conf = control.parent / "arc.conf"
    arcacct("--config", conf, "sweep")
    here = places(None, str(control))
    lay(control, Files(local=LOCAL.replace(b"first", b"D")), "D")
    lay(control, Files(failed=b""), "A")
    spool.write(here.spool, read_job(str(control), "A", "FINISHED"))
    (pathlib.Path(here.spool) / "1-2-SUBMIT-X").write_text("rubbish")
    before = rows(here.database)

    done = arcacct("--config", conf, "sweep", "--dry-run")

    assert done.returncode == 65
    assert done.stdout == (
        f"dry run, nothing written: 1 event from the spool; 4 jobs in {control}, 2 read, 2 recorded: "
        "1 never seen, 1 corrected\n"
    )
    assert "1-2-SUBMIT-X" in done.stderr
    assert "a sweep would move it to" in done.stderr
    assert rows(here.database) == before
    assert len(os.listdir(here.spool)) == 2
    # The event in the spool comes first, and leaves nothing to correct.
    assert arcacct("--config", conf, "sweep").stdout.endswith("2 read, 1 recorded: 1 never seen\n")


def test_a_dry_run_makes_no_database(control: pathlib.Path) -> None:
    """Before the first sweep it tells what that would find, and makes nothing."""
    done = arcacct("--config", control.parent / "arc.conf", "sweep", "--dry-run")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("3 read, 3 recorded: 3 never seen\n")
    assert not (control / "accounting").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--dry-run", "--follow"], "only one of"),
        (["--interval", "5"], "--interval is for --follow"),
        (["--follow", "--give-up", "all"], "use only one of --give-up and --follow"),
        (["--follow", "--interval", "0"], "interval"),
    ],
)
def test_what_does_not_go_together_is_64(control: pathlib.Path, arguments: list[str], complaint: str) -> None:
    """Options that contradict each other are told, and nothing is done."""
    done = arcacct("--config", control.parent / "arc.conf", "sweep", *arguments)

    assert done.returncode == 64
    assert complaint in done.stderr
    assert not (control / "accounting").exists()


def test_every_kind_is_reported(control: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """One line has the count of each kind of thing that the database lacked."""
    conf = control.parent / "arc.conf"
    lay(control, Files("INLRMS", NOON_NS - 10**15), "A")
    lay(control, Files("INLRMS", NOON_NS - 10**15), "B")
    lay(control, Files("PREPARING", NOON_NS - 10**15), "C")
    lay(control, Files(), "D")
    arcacct("--config", conf, "sweep")
    for path in [*control.glob("job.A.*"), *control.glob("*/job.A.status")]:
        path.unlink()
    lay(control, Files(), "B")
    lay(control, Files("SUBMIT"), "C")
    lay(control, Files(failed=b""), "D")
    lay(control, Files(), "E")

    done = arcacct("--config", conf, "sweep")

    assert done.stdout.endswith(
        "5 recorded: 1 never seen, 1 finished, and in progress in the database, 1 with events never seen, "
        "1 corrected, 1 vanished unfinished, now aborted\n"
    )


def test_a_job_without_usage_is_reported_and_given_up(control: pathlib.Path) -> None:
    """A job that ended and whose files are gone is named once, with the command that accepts that."""
    conf = control.parent / "arc.conf"
    lay(control, Files("INLRMS", NOON_NS - 10**15), "Gone")
    arcacct("--config", conf, "sweep")
    remove(control, "Gone")
    folder = pathlib.Path(places(None, str(control)).spool)
    folder.mkdir(exist_ok=True)
    event = f"version=1\ncontroldir={control}\njobid=Gone\nstate=FINISHED\ntime={NOON_NS - 10**14}\n"
    (folder / f"{NOON_NS}-1-FINISHED-Gone").write_text(event)

    told = arcacct("--config", conf, "sweep")
    again = arcacct("--config", conf, "sweep")
    given_up = arcacct("--config", conf, "sweep", "--give-up", "Gone")

    assert (told.returncode, again.returncode) == (65, 0)
    assert told.stderr.startswith("arcacct: Gone: it has ended, its files in ")
    assert given_up.stdout.endswith(" 1 recorded: 1 given up, now aborted\n")
    database = places(None, str(control)).database
    assert ("Gone", "aborted") in [(row[0], row[7]) for row in rows(database)["AAR"]]


def test_another_directory_tells_nothing_of_vanished_jobs(control: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """With --controldir and a database of several directories no job becomes aborted."""
    other = tmp_path / "other"
    set_up(other)
    lay(control, Files("INLRMS", NOON_NS - 10**15), "A")
    conf, database = control.parent / "arc.conf", tmp_path / "x.db"
    arcacct("--config", conf, "--database", database, "sweep")

    done = arcacct("--config", conf, "--database", database, "sweep", "--controldir", other)

    assert done.stdout == f"0 events from the spool; 0 jobs in {other}, 0 read, 0 recorded\n"
    assert ("A", "in-progress") in [(row[0], row[7]) for row in rows(str(database))["AAR"]]


def test_a_local_that_stays_locked_is_left_to_the_next_sweep(control: pathlib.Path) -> None:
    """A process that hangs with a .local locked holds up neither the sweep nor the other jobs."""
    local = control / "job.B.local"
    with open(local, "r+b") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        first = arcacct("--config", control.parent / "arc.conf", "sweep")
    second = arcacct("--config", control.parent / "arc.conf", "sweep")

    assert first.returncode == 65
    assert f"{local}: locked by another process for 2 s" in first.stderr
    assert first.stdout.endswith("2 recorded: 2 never seen\n")
    assert second.stdout.endswith("1 recorded: 1 never seen\n")
