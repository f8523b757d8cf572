"""The launcher that A-REX starts: it writes each event into the spool, lets another process copy, and exits 0."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from full_disk import own_file_system
from job_files import DIAG, JOB, LOCAL, NOON_NS, STATISTICS, Files, cleaned, events, lay, moved_to_hashed, remove, rows
from other_users import REACHABLE
from recording_host import LAUNCHER, Gate, Host, has_ended, host, shell, until
from strace import strace_only

from arcacct.arex.spool import from_bytes

__all__ = ["host", "shell"]

LIFE = ("ACCEPTED", "PREPARING", "SUBMIT", "FINISHING", "FINISHED")
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def launch(
    shell: tuple[str, ...], *arguments: str, umask: int = 0o022, cwd: str | None = None, **environment: str
) -> str:
    """One call with nothing in the environment but what is given; what it says. It never fails."""
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
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return done.stderr


def spooled(folder: pathlib.Path) -> list[pathlib.Path]:
    """The events in the spool below a control directory."""
    spool = folder / "accounting" / "arcacct" / "spool"
    return sorted(spool.iterdir()) if spool.exists() else []


def test_the_launcher_is_executable_by_sh_and_short() -> None:
    """A-REX starts it as it is."""
    assert os.access(LAUNCHER, os.X_OK)
    lines = pathlib.Path(LAUNCHER).read_text().splitlines()
    assert lines[0] == "#!/bin/sh"
    assert len(lines) <= 170


def test_an_event_without_files(host: Host, shell: tuple[str, ...]) -> None:
    """It has its final name at once, is private, and says in its last line that it is whole."""
    lay(host.control, Files("SUBMIT"))

    assert host.call("SUBMIT", shell=shell, waits=False) == ""

    (event,) = host.spool
    assert re.fullmatch(rf"\d+-SUBMIT-{JOB}", event.name)
    assert event.read_text().splitlines()[-1] == "whole="
    assert stat.S_IMODE(event.stat().st_mode) == 0o600
    assert stat.S_IMODE(event.parent.stat().st_mode) == stat.S_IMODE(event.parent.parent.stat().st_mode) == 0o700
    found, _apart = from_bytes(event.read_bytes(), event.name, 7)
    assert (found.controldir, found.job_id, found.state, found.event_ns) == (str(host.control), JOB, "SUBMIT", 7)
    assert (found.local, found.status) == (None, None)


@pytest.mark.parametrize("hashed", [False, True], ids=["ARC 6", "ARC 7"])
@pytest.mark.parametrize("failed", [None, b"\nuser cancelled\n"], ids=["completed", "failed"])
def test_the_event_of_a_finished_job(host: Host, shell: tuple[str, ...], hashed: bool, failed: bytes | None) -> None:
    """It has the job's files, and state and times of the status file: those are A-REX's own."""
    lay(host.control, Files("FINISHED", NOON_NS + 123_456_789, failed=failed))
    if hashed:
        moved_to_hashed(host.control)

    assert host.call(shell=shell) == ""

    (event,) = host.spool
    found, apart = from_bytes(event.read_bytes(), event.name, 7)
    assert (found.local, found.diag, found.statistics) == (LOCAL, DIAG, STATISTICS)
    assert (found.failed, found.hashed, apart) == (failed is not None, hashed, True)
    assert found.event_ns == NOON_NS + 123_456_789
    assert found.status is not None
    assert (found.status.state, found.status.size, found.status.mtime_ns) == ("FINISHED", 8, NOON_NS + 123_456_789)


def test_the_status_file_is_the_open_one(host: Host, shell: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    """However late the copy is: meanwhile another status file has replaced the one of the callout."""
    gate = Gate(tmp_path / "bin", "stat")
    lay(host.control, Files("FINISHED", NOON_NS))
    host.call(shell=shell, waits=False, PATH=gate.path)
    (host.control / "finished" / f"job.{JOB}.status").unlink()
    lay(host.control, Files("FINISHED", NOON_NS + 10**12))
    gate.open()
    until(lambda: not host.spool[0].name.startswith(".tmp-"))

    assert from_bytes(host.spool[0].read_bytes(), "", 7)[0].event_ns == NOON_NS


def test_the_first_call_of_accepted_is_before_there_is_a_job(host: Host, shell: tuple[str, ...]) -> None:
    """By REST there are two: without a status file the launcher ends at once; with one there is an event."""
    lay(host.control, Files("ACCEPTED"))
    status = host.control / "accepting" / f"job.{JOB}.status"
    content = status.read_bytes()
    status.unlink()

    assert host.call("ACCEPTED", shell=shell) == ""
    assert host.spool == []
    status.write_bytes(content)
    host.call("ACCEPTED", shell=shell)

    assert [one.name.partition("-")[2] for one in host.spool] == [f"ACCEPTED-{JOB}"]


@strace_only
@pytest.mark.parametrize("state", LIFE)
def test_what_the_launcher_starts(host: Host, tmp_path: pathlib.Path, state: str) -> None:
    """A-REX waits for the shell alone, which waits for nothing; the programs of a finished job have another parent."""
    lay(host.control, Files(state))
    pathlib.Path(host.places.spool).mkdir()
    traces = tmp_path / "traces"
    traces.mkdir()
    subprocess.run(
        ["strace", "-ff", "-qq", "-o", str(traces / "of"), "-e", "trace=execve,wait4", "/bin/sh", LAUNCHER,
         str(host.control), JOB, state],
        env={"PATH": "/usr/bin:/bin"}, check=True,
    )  # fmt: skip
    # A file for each process: strace starts with the one that A-REX would start.
    launcher, *others = [file.read_text() for file in sorted(traces.iterdir(), key=lambda file: int(file.suffix[1:]))]
    programs = [pathlib.Path(name).name for name in re.findall(r'execve\("([^"]+)".* = 0\n', "".join(others))]

    assert "wait4(" not in launcher
    assert sorted(programs) == (["head", "mv", "nice", "sh", "stat", "sync"] if state == "FINISHED" else [])


def test_no_event_replaces_another(host: Host, shell: tuple[str, ...]) -> None:
    """A process ID comes again while its event waits, whole or not: the next one has a number."""
    lay(host.control, Files())
    spool = pathlib.Path(host.places.spool)
    spool.mkdir()
    for state in ("SUBMIT", "FINISHED"):
        process = subprocess.Popen(
            [*shell, "-c", 'read -r _; exec "$@"', "sh", *shell, LAUNCHER, str(host.control), JOB, state],
            stdin=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin"},
        )
        for name in (f"{process.pid}-{state}-{JOB}", f".tmp-{process.pid}.1-{state}-{JOB}"):
            (spool / name).write_text("before")
        process.communicate(b"go\n")
        until((spool / f"{process.pid}.2-{state}-{JOB}").exists)

    assert sorted(one.read_text() == "before" for one in spool.iterdir()) == [False] * 2 + [True] * 4


def test_of_a_large_file_the_beginning_and_the_end_are_kept(host: Host, shell: tuple[str, ...]) -> None:
    """A job may write as much as it likes into .diag: the spool stays small, and its last lines count."""
    text = DIAG.replace(b"exitcode=0\n", b"") + b"WallTime=12345678\n" * 900_000 + b"exitcode=7\n"
    lay(host.control, Files(diag=text))

    host.call(shell=shell)
    (event,) = host.spool
    size = event.stat().st_size
    cleaned(host.control)
    host.sweep()

    assert size < 1_100_000
    # No line counts that was cut in two.
    assert [(row[8], row[15]) for row in rows(str(host.database))["AAR"]] == [(7, 12345678)]
    with closing(sqlite3.connect(host.database)) as con:
        (note,) = [one for (one,) in con.execute("SELECT Note FROM TruncationNotes WHERE Field = 'diag'")]
    assert note == f"{len(text) - 2 * 524_224} of {len(text)} bytes in the middle not read"


def test_only_plain_files_of_a_job_are_kept(host: Host, shell: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    """A pipe does not hold the launcher up, and what a link points at is not taken for the job's."""
    lay(host.control, Files())
    secret = tmp_path / "secret"
    secret.write_text("exitcode=77\n")
    for suffix, make in (("diag", lambda path: path.symlink_to(secret)), ("statistics", os.mkfifo)):
        path = host.control / f"job.{JOB}.{suffix}"
        path.unlink()
        make(path)

    host.call(shell=shell)

    (event,) = host.spool
    found, _apart = from_bytes(event.read_bytes(), event.name, 7)
    assert (found.local, found.diag, found.statistics, found.owner) == (LOCAL, None, None, None)


def test_an_empty_file_is_another_than_none(host: Host, shell: tuple[str, ...]) -> None:
    """A job without .diag was killed before A-REX took it; an empty .diag says only that nothing is measured."""
    lay(host.control, Files(diag=b"", statistics=None))

    host.call(shell=shell)

    (event,) = host.spool
    found, _apart = from_bytes(event.read_bytes(), event.name, 7)
    assert (found.diag, found.statistics) == (b"", None)


@ROOT
def test_the_owner_of_diag_is_kept(host: Host, shell: tuple[str, ...]) -> None:
    """It is the local user of the job; a user or group that the host has no name for is left out."""
    owners = []
    for uid, gid in ((65534, 65534), (54321, 65534), (65534, 54321), (54321, 54321)):
        lay(host.control, Files())
        os.chown(host.control / f"job.{JOB}.diag", uid, gid)
        host.call(shell=shell)
        (event,) = host.spool
        owners.append(from_bytes(event.read_bytes(), event.name, 7)[0].owner)
        event.unlink()

    assert owners == ["nobody:nogroup", ":nogroup", "nobody", ""]


def test_a_second_spool_takes_what_the_first_cannot(host: Host, shell: tuple[str, ...]) -> None:
    """With an unusable disk events wait in fallback=, and the sweep looks where spool_fallback= says."""
    pathlib.Path(host.places.spool).write_text("in the way")
    second = host.control.parent / "second" / "spool"
    for state in ("SUBMIT", "FINISHED"):
        lay(host.control, Files(state))
        host.call(state, shell=shell, waits=False, ARCACCT_SPOOL_FALLBACK=str(second))
        until(lambda: [one for one in second.iterdir() if not one.name.startswith(".tmp-")])
    until(lambda: not list(second.glob(".tmp-*")))
    assert {stat.S_IMODE(event.stat().st_mode) for event in second.iterdir()} == {0o600}
    assert stat.S_IMODE(second.stat().st_mode) == 0o700
    pathlib.Path(host.places.spool).unlink()
    cleaned(host.control)
    host.configure(f"spool_fallback={second}")
    report = host.sweep(str(host.conf))

    assert (report.spooled, report.complaints) == (2, ())
    assert list(second.iterdir()) == []
    assert [row[7] for row in rows(str(host.database))["AAR"]] == ["completed"]


def test_the_sweep_finds_it_where_the_database_is_elsewhere(tmp_path: pathlib.Path, shell: tuple[str, ...]) -> None:
    """The launcher does not read database=: what it spools below the control directory is drained all the same."""
    from arcacct.arex.sweep import sweep
    from arcacct.config.paths import places
    from arcacct.database.access import open_accounting

    host = Host(tmp_path, created=False)
    lay(host.control, Files("INLRMS"))
    host.call("SUBMIT", shell=shell)
    here = places(None, str(host.control), str(tmp_path / "elsewhere" / "a.db"))
    with closing(open_accounting(here)) as con:
        report = sweep(here, con)

    assert report.spooled == 1
    assert spooled(host.control) == []
    assert (JOB, "SUBMIT") in events(here.database)


def test_the_spool_can_be_elsewhere(tmp_path: pathlib.Path, shell: tuple[str, ...]) -> None:
    """ARCACCT_SPOOL names another directory, which is made when it is missing."""
    spool = tmp_path / "a b" / "spool"

    assert launch(shell, "/control", JOB, "SUBMIT", ARCACCT_SPOOL=str(spool)) == ""

    assert len(list(spool.iterdir())) == 1


@pytest.mark.parametrize("umask", [0o000, 0o777], ids=oct)
def test_no_umask_opens_or_locks_anything(tmp_path: pathlib.Path, shell: tuple[str, ...], umask: int) -> None:
    """Directories 0700, files 0600, under any umask."""
    launch(shell, str(tmp_path), JOB, "SUBMIT", umask=umask)

    (event,) = spooled(tmp_path)
    assert stat.S_IMODE(event.stat().st_mode) == 0o600
    assert stat.S_IMODE(event.parent.stat().st_mode) == 0o700


def test_a_relative_control_directory_is_one(tmp_path: pathlib.Path, shell: tuple[str, ...]) -> None:
    """The spool has it absolute, since the sweep runs elsewhere."""
    launch(shell, "control", JOB, "SUBMIT", cwd=str(tmp_path))

    (event,) = spooled(tmp_path / "control")
    assert f"controldir={tmp_path}/control\n" in event.read_text()


@pytest.mark.parametrize("state", ["SUBMIT", "FINISHED"])
def test_a_control_directory_with_odd_characters_is_one(
    tmp_path: pathlib.Path, shell: tuple[str, ...], state: str
) -> None:
    """Blanks, quotes, percent signs, backslashes, dollars and bytes that are no ASCII arrive as they are."""
    control = tmp_path / "a %s b\\n'\"$HOME* -é"
    control.mkdir()
    lay(control, Files(state))

    launch(shell, str(control), JOB, state)
    until(lambda: not any(one.name.startswith(".tmp-") for one in spooled(control)))

    (event,) = spooled(control)
    found, _apart = from_bytes(event.read_bytes(), event.name, 7)
    assert (found.controldir, found.local) == (str(control), None if state == "SUBMIT" else LOCAL)


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
def test_wrong_arguments_are_reported_and_harmless(
    tmp_path: pathlib.Path, shell: tuple[str, ...], arguments: list[str]
) -> None:
    """A slip in the callout line is answered with the usage; nothing is written, and exit is 0."""
    said = launch(shell, *arguments, ARCACCT_SPOOL=str(tmp_path / "spool"))

    assert "usage: arcacct-hook CONTROLDIR JOBID STATE" in said
    assert said.removesuffix("\n").isprintable()
    assert list(tmp_path.iterdir()) == []


def test_callouts_of_0_2_still_work(tmp_path: pathlib.Path, shell: tuple[str, ...]) -> None:
    """The word spool-only before the arguments, and the path of arc.conf after them."""
    assert launch(shell, "spool-only", str(tmp_path), JOB, "SUBMIT", "/etc/arc.conf") == ""

    assert [one.name.partition("-")[2] for one in spooled(tmp_path)] == [f"SUBMIT-{JOB}"]


def test_deleted_needs_nothing(tmp_path: pathlib.Path, shell: tuple[str, ...]) -> None:
    """DELETED makes no row and no file."""
    assert launch(shell, str(tmp_path), JOB, "DELETED") == ""
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_spooled_is_told(tmp_path: pathlib.Path, shell: tuple[str, ...]) -> None:
    """With no place for a file the launcher names job, state and what to run, and exits 0."""
    (tmp_path / "accounting").write_text("in the way")

    said = launch(shell, str(tmp_path), JOB, "SUBMIT")

    assert f"arcacct-hook: {JOB} SUBMIT: the event is not in a spool" in said
    assert "`arcacct sweep`" in said


@pytest.mark.parametrize("limit", ["-f 0", "-n 16", "-n 8"])
def test_no_limit_of_a_rex_fails_a_job(host: Host, shell: tuple[str, ...], limit: str) -> None:
    """Without files of any size, or with few open files, it exits 0, and the name of the event is enough."""
    if limit == "-n 8" and "dash" in shell[0]:
        pytest.skip("dash itself cannot open a script with so few open files")
    for state in ("SUBMIT", "FINISHED"):
        lay(host.control, Files(state))
        limited = [*shell, "-c", f'ulimit {limit} && exec "$@"', "sh"]
        command = [*limited, *shell, LAUNCHER, str(host.control), JOB, state]
        process = subprocess.Popen(
            command, stderr=subprocess.PIPE, env={"PATH": "/usr/bin:/bin"}, start_new_session=True
        )
        assert process.wait() == 0, process.communicate()
        process.communicate()
        until(lambda: has_ended(process.pid))  # noqa: B023
    for path in host.spool:
        os.utime(path, (path.stat().st_mtime - 700,) * 2)
    assert len(host.spool) == 2

    assert host.sweep().complaints == ()

    assert host.spool == []
    assert {(JOB, "SUBMIT"), (JOB, "FINISHED")} <= {*events(str(host.database))}


def test_a_log_that_no_one_reads(host: Host, shell: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    """The other end of stderr is closed: a complaint ends neither the launcher nor the try of the second spool."""
    pathlib.Path(host.places.spool).write_text("in the way")
    reader, writer = os.pipe()
    os.close(reader)
    lay(host.control, Files("SUBMIT"))
    for state in ("SUBMIT", "BROKEN"):
        done = subprocess.run(
            [*shell, LAUNCHER, str(host.control), JOB, state],
            stderr=writer,
            env={"ARCACCT_SPOOL_FALLBACK": str(tmp_path / "second")},
            restore_signals=True,
            check=False,
        )
        assert done.returncode == 0
    os.close(writer)

    assert [one.name.partition("-")[2] for one in (tmp_path / "second").iterdir()] == [f"SUBMIT-{JOB}"]


@pytest.mark.parametrize("path", ["/nowhere", ""])
def test_the_callers_path_does_not_matter(host: Host, shell: tuple[str, ...], path: str) -> None:
    """The programs of the copy are found where every system has them."""
    lay(host.control, Files())
    host.call(shell=shell, PATH=path)

    (event,) = host.spool
    assert from_bytes(event.read_bytes(), event.name, 7)[0].diag == DIAG


@pytest.fixture(params=["size=64k", "nr_inodes=6"])
def small_disk(request: pytest.FixtureRequest) -> Iterator[pathlib.Path]:
    """A file system of its own, which is soon full."""
    with own_file_system(request.param) as directory:
        yield directory


def test_a_full_disk_loses_nothing(host: Host, shell: tuple[str, ...], small_disk: pathlib.Path) -> None:
    """What the first spool has no room for goes to the second one, also if only the copy finds no room."""
    second, spool = host.control.parent / "second", pathlib.Path(host.places.spool)
    second.mkdir()
    host.configure(f"spool_fallback={second}")
    both = {"PATH": "/usr/bin:/bin", "ARCACCT_SPOOL": str(small_disk), "ARCACCT_SPOOL_FALLBACK": str(second)}
    jobs = [f"Job{number:02}" for number in range(12)]
    for count, job_id in enumerate(jobs, 1):
        for state in ("SUBMIT", "FINISHED"):
            lay(host.control, Files(state, local=LOCAL + b"x=" + b"y" * 9000 + b"\n"), job_id)
            launch(shell, str(host.control), job_id, state, **both)
        until(
            lambda: len([*second.glob("[0-9]*-FINISHED-*"), *small_disk.glob("[0-9]*-FINISHED-*")]) == count  # noqa: B023
        )
        remove(host.control, job_id)

    assert list(second.glob("[0-9]*-FINISHED-*"))
    shutil.copytree(small_disk, spool)
    for path in (*spool.iterdir(), *second.iterdir()):
        os.utime(path, (path.stat().st_mtime - 700,) * 2)
    assert host.sweep(str(host.conf)).complaints == ()
    assert [(row[0], row[7]) for row in rows(str(host.database))["AAR"]] == [(job_id, "completed") for job_id in jobs]
    assert {event for event in events(str(host.database)) if event[1] == "SUBMIT"} == {(one, "SUBMIT") for one in jobs}
    assert [*spool.iterdir(), *second.iterdir()] == []


@ROOT
@REACHABLE
def test_another_user_than_root_may_run_everything(public_dir: pathlib.Path, shell: tuple[str, ...]) -> None:
    """A-REX may run as another user: events belong to him, and the job's files are his to read."""
    host = Host(public_dir)
    lay(host.control, Files())
    for path in (public_dir, *public_dir.rglob("*")):
        shutil.chown(path, "nobody")

    command = [*shell, LAUNCHER, str(host.control), JOB, "FINISHED"]
    subprocess.run(command, user="nobody", group="nogroup", extra_groups=(), env={"PATH": "/usr/bin:/bin"}, check=True)
    until(lambda: [one for one in host.spool if not one.name.startswith(".tmp-")])

    (event,) = host.spool
    assert event.owner() == "nobody"
    host.sweep()
    assert [row[7] for row in rows(str(host.database))["AAR"]] == ["completed"]


def test_closed_standard_files_do_not_matter(host: Host, shell: tuple[str, ...]) -> None:
    """A service may start it without any: nothing of it gets into a file of the job or of the spool."""
    lay(host.control, Files())
    closing_all = "import os,sys; [os.close(fd) for fd in (0, 1, 2)]; os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", closing_all, *shell, LAUNCHER, str(host.control), JOB, "FINISHED"]

    assert subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, check=False).returncode == 0
    until(lambda: [one for one in host.spool if not one.name.startswith(".tmp-")])

    (event,) = host.spool
    assert from_bytes(event.read_bytes(), event.name, 7)[0].diag == DIAG


def test_many_at_once_are_many_files(tmp_path: pathlib.Path, shell: tuple[str, ...]) -> None:
    """Events of one moment have different names, by process."""
    command = [*shell, LAUNCHER, str(tmp_path), JOB, "SUBMIT"]
    running = [subprocess.Popen(command) for _ in range(10)]

    assert [process.wait() for process in running] == [0] * 10
    assert len(spooled(tmp_path)) == 10


def test_a_callout_may_still_name_arcacct_record(host: Host, tmp_path: pathlib.Path, shell: tuple[str, ...]) -> None:
    """A-REX fails each job whose callout cannot be started: the program of 0.2 runs the launcher, also by a link."""
    prefix = tmp_path / "prefix"
    for source, target in (("arcacct-record", "bin"), ("arcacct-hook", "share/arcacct")):
        (prefix / target).mkdir(parents=True)
        shutil.copy(pathlib.Path(LAUNCHER).with_name(source), prefix / target)
    (tmp_path / "link").symlink_to(prefix / "bin" / "arcacct-record")
    lay(host.control, Files())
    command = [*shell, str(tmp_path / "link"), str(host.control), JOB, "FINISHED", str(host.conf)]

    done = subprocess.run(command, capture_output=True, env={"PATH": "/usr/bin:/bin"}, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    until(lambda: [one for one in host.spool if not one.name.startswith(".tmp-")])
    assert [one.name.partition("-")[2] for one in host.spool] == [f"FINISHED-{JOB}"]
