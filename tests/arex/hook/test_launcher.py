"""The sh launcher that A-REX starts: it runs the hook, or spools when that is away, and always exits 0."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import sqlite3
import stat
import subprocess
from contextlib import closing

import pytest
from hook_host import HOOK, Host
from job_files import DIAG, JOB, NOON_NS, Files, cleaned, events, lay, moved_to_hashed, rows

from arcacct.arex.spool import from_bytes
from arcacct.files.directories import resource

LAUNCHER = resource("etc", "arcacct-hook")
SHELLS = [name for name in ("dash", "bash", "busybox") if shutil.which(name)]


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    """Each shell that may be /bin/sh somewhere."""
    path = shutil.which(request.param)
    assert path is not None
    return [path, "sh"] if request.param == "busybox" else [path, *(["--posix"] if request.param == "bash" else [])]


def launch(
    shell: list[str], *arguments: str, umask: int = 0o022, cwd: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """One call with nothing in the environment but what is given; it never fails, so that is checked here."""
    done = subprocess.run(
        [*shell, LAUNCHER, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment,
        umask=umask,
        cwd=cwd,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    return done


def spooled(folder: pathlib.Path) -> list[pathlib.Path]:
    """The events in a spool below a control directory."""
    spool = folder / "accounting" / "arcacct" / "spool"
    return sorted(spool.iterdir()) if spool.exists() else []


def test_the_launcher_is_executable_by_sh() -> None:
    """A-REX starts it as it is."""
    assert os.access(LAUNCHER, os.X_OK)
    assert pathlib.Path(LAUNCHER).read_text().startswith("#!/bin/sh\n")


def test_it_runs_the_hook(host: Host, shell: list[str]) -> None:
    """With arcacct-record in its place the event is recorded and nothing is spooled or said."""
    lay(host.control, Files())

    done = launch(shell, str(host.control), JOB, "FINISHED", str(host.conf), ARCACCT_RECORD=HOOK)

    assert done.stderr == ""
    assert events(str(host.database)) == [(JOB, "ACCEPTED"), (JOB, "FINISHED")]
    assert host.spool == []


def _missing(path: pathlib.Path) -> None:
    assert not path.exists()


def _not_executable(path: pathlib.Path) -> None:
    path.write_text("#!/bin/sh\n")


def _no_interpreter(path: pathlib.Path) -> None:
    path.write_text("#!/opt/gone/bin/python3\n")
    path.chmod(0o755)


def _no_program(path: pathlib.Path) -> None:
    path.write_bytes(b"\x7fELF\0\0\0")
    path.chmod(0o755)


def _broken_environment(path: pathlib.Path) -> None:
    path.write_text("#!/bin/sh\necho 'ModuleNotFoundError: arcacct' >&2\nexit 1\n")
    path.chmod(0o755)


def _killed(path: pathlib.Path) -> None:
    path.write_text("#!/bin/sh\nkill -9 $$\n")
    path.chmod(0o755)


def _directory(path: pathlib.Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    "break_it", [_missing, _not_executable, _no_interpreter, _no_program, _broken_environment, _killed, _directory]
)
def test_without_the_hook_it_spools(tmp_path: pathlib.Path, shell: list[str], break_it: object) -> None:
    """Whatever is wrong with arcacct-record, the event is in the spool, private, and exit is 0."""
    control, record = tmp_path / "control", tmp_path / "arcacct-record"
    control.mkdir()
    assert callable(break_it)
    break_it(record)

    done = launch(shell, str(control), JOB, "FINISHED", ARCACCT_RECORD=str(record))

    assert f"arcacct-hook: {record}" in done.stderr
    (event,) = spooled(control)
    assert re.fullmatch(rf"\d{{10}}(\d{{9}})?-\d+-FINISHED-{JOB}", event.name)
    assert stat.S_IMODE(event.stat().st_mode) == 0o600
    assert stat.S_IMODE(event.parent.stat().st_mode) == stat.S_IMODE(event.parent.parent.stat().st_mode) == 0o700
    found, complete = from_bytes(event.read_bytes(), event.name)
    assert (found.controldir, found.job_id, found.state, complete) == (str(control), JOB, "FINISHED", False)


def test_spool_only_does_not_run_the_hook(host: Host, shell: list[str]) -> None:
    """The word spool-only leaves every event to the sweep, in silence."""
    lay(host.control, Files())

    done = launch(shell, "spool-only", str(host.control), JOB, "FINISHED", ARCACCT_RECORD=HOOK)

    assert done.stderr == ""
    assert events(str(host.database)) == []
    assert len(spooled(host.control)) == 1


def test_a_sweep_records_what_the_launcher_spooled(host: Host, shell: list[str]) -> None:
    """A life of which the launcher spooled every state ends in the rows that the hook would have made."""
    (host.control.parent / "other").mkdir()
    other = Host(host.control.parent / "other")
    for number, state in enumerate(("ACCEPTED", "PREPARING", "SUBMIT", "FINISHING", "FINISHED")):
        for control in (host.control, other.control):
            lay(control, Files(state, NOON_NS + number * 10**9))
        launch(shell, "spool-only", str(host.control), JOB, state)
        other.run(state)

    report = host.sweep()

    assert (report.spooled, report.complaints) == (5, ())
    assert host.spool == []
    ours, theirs = rows(str(host.database)), rows(str(other.database))
    # Only the status file of the last state is still there: the time of the others is when the launcher ran.
    assert {**ours, "JobEvents": []} == {**theirs, "JobEvents": []}
    assert [row[:2] for row in ours["JobEvents"]] == [row[:2] for row in theirs["JobEvents"]]
    assert [row for row in ours["JobEvents"] if row[1] in ("ACCEPTED", "FINISHED")] == [
        row for row in theirs["JobEvents"] if row[1] in ("ACCEPTED", "FINISHED")
    ]


LIFE = ("ACCEPTED", "PREPARING", "SUBMIT", "FINISHING", "FINISHED")


@pytest.mark.parametrize("hashed", [False, True], ids=["ARC 6", "ARC 7"])
@pytest.mark.parametrize("failed", [None, b"\nuser cancelled\n"], ids=["completed", "failed"])
def test_a_job_that_is_cleaned_before_the_sweep_is_recorded_whole(
    host: Host, shell: list[str], hashed: bool, failed: bytes | None
) -> None:
    """The launcher alone ran, and nothing is left of the job: the record is the one that the hook would have made."""
    (host.control.parent / "other").mkdir()
    other = Host(host.control.parent / "other")
    for number, state in enumerate(LIFE):
        files = Files(state, NOON_NS + number * 10**9 + 123_456_789, failed=failed if state == "FINISHED" else None)
        for control in (host.control, other.control):
            lay(control, files)
            if hashed:
                moved_to_hashed(control)
        assert launch(shell, "spool-only", str(host.control), JOB, state).stderr == ""
        other.run(state)
        for control in (host.control, other.control):
            if hashed or state == "FINISHED":
                cleaned(control)

    report = host.sweep()

    assert (report.spooled, report.complaints) == (5, ())
    assert host.spool == []
    # Also the times: the launcher keeps that of the status file.
    assert rows(str(host.database)) == rows(str(other.database))
    assert [row[7] for row in rows(str(host.database))["AAR"]] == ["failed" if failed else "completed"]


def test_of_a_large_file_the_beginning_and_the_end_are_kept(host: Host, shell: list[str]) -> None:
    """A job may write as much as it likes into .diag: the spool stays small, and its last lines count."""
    text = DIAG.replace(b"exitcode=0\n", b"") + b"WallTime=12345678\n" * 900_000 + b"exitcode=7\n"
    lay(host.control, Files(diag=text))

    launch(shell, "spool-only", str(host.control), JOB, "FINISHED")
    (event,) = host.spool
    size = event.stat().st_size
    cleaned(host.control)
    host.sweep()

    assert size < 1_100_000
    # No line counts that was cut in two.
    assert [(row[8], row[15]) for row in rows(str(host.database))["AAR"]] == [(7, 12345678)]
    with closing(sqlite3.connect(host.database)) as con:
        (note,) = [one for (one,) in con.execute("SELECT Note FROM TruncationNotes WHERE Field = 'diag'")]
    assert note == f"{len(text) - 2 * 524_224} of {len(text)} bytes not read, in the middle"


def test_only_plain_files_of_a_job_are_kept(host: Host, shell: list[str], tmp_path: pathlib.Path) -> None:
    """A pipe does not hold the launcher up, and what a link points at is not taken for the job's."""
    lay(host.control, Files())
    secret = tmp_path / "secret"
    secret.write_text("exitcode=77\n")
    for suffix, make in (("diag", lambda path: path.symlink_to(secret)), ("statistics", os.mkfifo)):
        path = host.control / f"job.{JOB}.{suffix}"
        path.unlink()
        make(path)

    launch(shell, "spool-only", str(host.control), JOB, "FINISHED")

    (event,) = host.spool
    found, complete = from_bytes(event.read_bytes(), event.name)
    assert (found.diag, found.statistics, complete) == (None, None, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_owner_of_diag_is_kept(host: Host, shell: list[str]) -> None:
    """It is the local user of the job; a user or group that the host has no name for is left out."""
    owners = []
    for uid, gid in ((65534, 65534), (54321, 65534), (65534, 54321), (54321, 54321)):
        lay(host.control, Files())
        os.chown(host.control / f"job.{JOB}.diag", uid, gid)
        launch(shell, "spool-only", str(host.control), JOB, "FINISHED")
        (event,) = host.spool
        owners.append(from_bytes(event.read_bytes(), event.name)[0].owner)
        event.unlink()

    assert owners == ["nobody:nogroup", ":nogroup", "nobody", ""]


def _counting(path: pathlib.Path, then: str) -> pathlib.Path:
    """A program in the place of arcacct-record that notes each start."""
    path.write_text(f'#!/bin/sh\necho started >>"{path}.starts"\n{then}\n')
    path.chmod(0o755)
    return pathlib.Path(f"{path}.starts")


@pytest.mark.parametrize("then", ["sleep 600", "kill -STOP $$", "kill -ALRM $$"], ids=["slow", "stopped", "its alarm"])
def test_a_burst_waits_once_for_a_hook_that_does_not_end(tmp_path: pathlib.Path, shell: list[str], then: str) -> None:
    """The hook is ended, the event spooled, and the events that follow do not even try; nothing is lost."""
    record = tmp_path / "arcacct-record"
    starts = _counting(record, then)

    said = [
        launch(shell, str(tmp_path), JOB, "SUBMIT", ARCACCT_RECORD=str(record), ARCACCT_LIMIT="1").stderr
        for _ in range(5)
    ]

    assert starts.read_text() == "started\n"
    assert "it did not end in time: events go to the spool for 30 s" in said[0]
    assert said[1:] == [""] * 4
    assert len(spooled(tmp_path)) == 5


@pytest.mark.parametrize("ends", ["0", "1795176000", "99999999999", "rubbish", "", "9" * 40, "-1", "1 2"])
def test_a_breaker_of_another_time_breaks_nothing(tmp_path: pathlib.Path, shell: list[str], ends: str) -> None:
    """One that is over, or that a wrong clock or a power cut left behind, is cleared away, and the hook runs."""
    record, breaker = tmp_path / "arcacct-record", tmp_path / "accounting" / "arcacct" / "breaker"
    starts = _counting(record, "exit 0")
    breaker.parent.mkdir(parents=True)
    breaker.write_text(f"{ends}\n")

    assert launch(shell, str(tmp_path), JOB, "SUBMIT", ARCACCT_RECORD=str(record)).stderr == ""

    assert starts.read_text() == "started\n"
    assert not breaker.exists()
    assert spooled(tmp_path) == []


def test_a_second_spool_takes_what_the_first_cannot(host: Host, shell: list[str]) -> None:
    """With an unusable disk events wait in fallback=, and the sweep looks where spool_fallback= says."""
    lay(host.control, Files())
    pathlib.Path(host.places.spool).write_text("in the way")
    second = host.control.parent / "second" / "spool"

    launch(shell, "spool-only", str(host.control), JOB, "FINISHED", ARCACCT_SPOOL_FALLBACK=str(second))
    (event,) = second.iterdir()
    assert stat.S_IMODE(event.stat().st_mode) == 0o600
    assert stat.S_IMODE(second.stat().st_mode) == 0o700
    pathlib.Path(host.places.spool).unlink()
    cleaned(host.control)
    host.configure(f"spool_fallback={second}")
    report = host.sweep(str(host.conf))

    assert (report.spooled, report.complaints) == (1, ())
    assert list(second.iterdir()) == []
    assert [row[7] for row in rows(str(host.database))["AAR"]] == ["completed"]


def test_the_sweep_finds_it_where_the_database_is_elsewhere(tmp_path: pathlib.Path, shell: list[str]) -> None:
    """The launcher does not read database=: what it spools below the control directory is drained all the same."""
    from arcacct.arex.sweep import sweep
    from arcacct.config.paths import places
    from arcacct.database.access import open_accounting

    host = Host(tmp_path, created=False)
    lay(host.control, Files("INLRMS"))
    launch(shell, "spool-only", str(host.control), JOB, "SUBMIT")
    here = places(None, str(host.control), str(tmp_path / "elsewhere" / "a.db"))
    with closing(open_accounting(here)) as con:
        report = sweep(here, con)

    assert report.spooled == 1
    assert spooled(host.control) == []
    assert (JOB, "SUBMIT") in events(here.database)


def test_the_spool_can_be_elsewhere(tmp_path: pathlib.Path, shell: list[str]) -> None:
    """ARCACCT_SPOOL names another directory, which is made when it is missing."""
    spool = tmp_path / "a b" / "spool"

    launch(shell, "spool-only", "/control", JOB, "SUBMIT", ARCACCT_SPOOL=str(spool))

    assert len(list(spool.iterdir())) == 1


@pytest.mark.parametrize("umask", [0o000, 0o777], ids=oct)
def test_no_umask_opens_or_locks_anything(tmp_path: pathlib.Path, shell: list[str], umask: int) -> None:
    """Directories 0700, files 0600, under any umask."""
    launch(shell, "spool-only", str(tmp_path), JOB, "SUBMIT", umask=umask)

    (event,) = spooled(tmp_path)
    assert stat.S_IMODE(event.stat().st_mode) == 0o600
    assert stat.S_IMODE(event.parent.stat().st_mode) == 0o700


def test_a_relative_control_directory_is_one(tmp_path: pathlib.Path, shell: list[str]) -> None:
    """The spool has it absolute, since the sweep runs elsewhere."""
    launch(shell, "spool-only", "control", JOB, "SUBMIT", cwd=str(tmp_path))

    (event,) = spooled(tmp_path / "control")
    assert f"controldir={tmp_path}/control\n" in event.read_text()


def test_a_control_directory_with_odd_characters_is_one(tmp_path: pathlib.Path, shell: list[str]) -> None:
    """Blanks, quotes, percent signs, backslashes and dollars in the path arrive as they are."""
    control = tmp_path / "a %s b\\n'\"$HOME*"
    control.mkdir()

    launch(shell, "spool-only", str(control), JOB, "SUBMIT")

    (event,) = spooled(control)
    assert from_bytes(event.read_bytes(), event.name)[0].controldir == str(control)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["/control"],
        ["/control", JOB],
        ["/control", JOB, "BROKEN"],
        ["/control", JOB, ""],
        ["/control", "", "SUBMIT"],
        ["/control", "../x", "SUBMIT"],
        ["/control", ".x", "SUBMIT"],
        ["/control", "a b", "SUBMIT"],
        ["/control", "a\nb", "SUBMIT"],
        ["/control", "jøb", "SUBMIT"],
        ["/control", "\x1b]0;x\x07", "SUBMIT"],
        ["/control", JOB, "\x1b[2J\x9b31m"],
        ["/control\nstate=FINISHED", JOB, "SUBMIT"],
    ],
    ids=["none", "one", "two", "unknown state", "empty state", "empty id", "path as id", "hidden id", "blank in id",
         "line end in id", "not ASCII", "title as id",
         "clear screen as state", "line end in directory"],
)  # fmt: skip
def test_wrong_arguments_are_told_and_harmless(tmp_path: pathlib.Path, shell: list[str], arguments: list[str]) -> None:
    """A slip in the callout line is told with the usage; nothing is written, and exit is 0."""
    done = launch(shell, "spool-only", *arguments, ARCACCT_SPOOL=str(tmp_path / "spool"))

    assert "usage: arcacct-hook [spool-only] CONTROLDIR JOBID STATE" in done.stderr
    assert done.stderr.removesuffix("\n").isprintable()
    assert list(tmp_path.iterdir()) == []


def test_deleted_needs_nothing(tmp_path: pathlib.Path, shell: list[str]) -> None:
    """DELETED makes no row and no file."""
    assert launch(shell, "spool-only", str(tmp_path), JOB, "DELETED").stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_spooled_is_told(tmp_path: pathlib.Path, shell: list[str]) -> None:
    """With no place for a file the launcher names job, state, place and the sweep, and exits 0."""
    (tmp_path / "accounting").write_text("in the way")

    done = launch(shell, "spool-only", str(tmp_path), JOB, "SUBMIT")

    assert f"{JOB} SUBMIT: not recorded and not spooled in {tmp_path}/accounting/arcacct/spool" in done.stderr
    assert "`arcacct sweep` finds it" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_leaves_no_half_file(tmp_path: pathlib.Path, shell: list[str]) -> None:
    """When the lines cannot be written no event gets its name."""
    spool = tmp_path / "spool"
    spool.mkdir()
    date = tmp_path / "date"
    date.write_text("#!/bin/sh\necho 1795176000000000000\n")
    date.chmod(0o755)
    full = f"{spool}/.tmp-1795176000000000000-$$-SUBMIT-{JOB}"
    script = f'ln -s /dev/full "{full}"; set -- spool-only /control {JOB} SUBMIT; . {LAUNCHER}'

    done = subprocess.run(
        [*shell, "-c", script],
        capture_output=True,
        text=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "ARCACCT_SPOOL": str(spool)},
        check=False,
    )

    assert done.returncode == 0
    assert "not recorded and not spooled" in done.stderr
    assert [path.name for path in spool.iterdir() if not path.name.startswith(".tmp-")] == []


def test_a_clock_of_seconds_is_enough(tmp_path: pathlib.Path, shell: list[str]) -> None:
    """Where date does not know nanoseconds the name has seconds, and the sweep reads them as such."""
    date = tmp_path / "date"
    date.write_text("#!/bin/sh\ncase $1 in *N) echo 1795176000%N;; *) echo 1795176000;; esac\n")
    date.chmod(0o755)

    launch(shell, "spool-only", str(tmp_path), JOB, "SUBMIT", PATH=f"{tmp_path}:/usr/bin:/bin")

    (event,) = spooled(tmp_path)
    assert event.name.startswith("1795176000-")
    assert from_bytes(event.read_bytes(), event.name)[0].event_ns == NOON_NS


def test_two_at_once_are_two_files(tmp_path: pathlib.Path, shell: list[str]) -> None:
    """Events of one moment have different names, by process."""
    command = [*shell, LAUNCHER, "spool-only", str(tmp_path), JOB, "SUBMIT"]
    running = [subprocess.Popen(command) for _ in range(10)]

    assert [process.wait() for process in running] == [0] * 10
    assert len(spooled(tmp_path)) == 10


def test_the_hooks_answer_is_kept(tmp_path: pathlib.Path, shell: list[str]) -> None:
    """Arguments with blanks, and a fourth one, reach the hook as they are."""
    record = tmp_path / "arcacct-record"
    record.write_text('#!/bin/sh\nprintf "<%s>" "$@" >&2\n')
    record.chmod(0o755)

    done = launch(shell, "/a b", JOB, "SUBMIT", "/etc/arc conf", ARCACCT_RECORD=str(record))

    assert done.stderr == f"</a b><{JOB}><SUBMIT></etc/arc conf>"
