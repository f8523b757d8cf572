"""Where a recorder lives the launcher starts no Python, and nothing is lost or different; else it is as ever."""

from __future__ import annotations

import fcntl
import os
import pathlib
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress

import pytest
from disturbed_host import LIFE, check_equal, job_files, undisturbed
from hook_host import PROJECT, Host
from installed import ARCACCT
from job_files import DIAG, JOB, NOON_NS, Files, cleaned, events, lay, moved_to_hashed, rows
from recorder_service import (
    LAUNCHER,
    Service,
    counting,
    drained,
    environment,
    launch,
    recorder,
    started,
    until,
    waiting,
)
from strace import strace_only

from arcacct.arex.resident import BEAT
from arcacct.queries.health import OK, WARNING, Thresholds, look
from arcacct.queries.health_checks import judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SHELLS = [name for name in ("dash", "bash", "busybox") if shutil.which(name)]
WORDS = {"bash": ("--posix",), "busybox": ("sh",)}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Each shell that may be /bin/sh somewhere."""
    return (str(shutil.which(request.param)), *WORDS.get(request.param, ()))


@pytest.fixture
def record(tmp_path: pathlib.Path) -> pathlib.Path:
    """What stands in the place of arcacct-record, and notes each start."""
    return counting(tmp_path / "arcacct-record")


def test_the_launcher_starts_no_python(host: Host, record: pathlib.Path, shell: tuple[str, ...]) -> None:
    """Each state of a life is in the database in a moment, and arcacct-record was never started."""
    with recorder(host):
        for step, state in enumerate(LIFE):
            lay(host.control, job_files(JOB, state, step))
            assert launch(host, JOB, state, record, shell=shell) == ""
            drained(host)

    assert started(record) == []
    assert {key for _job, key in events(str(host.database))} >= {*LIFE}
    assert [row[7] for row in rows(str(host.database))["AAR"]] == ["completed"]


@pytest.mark.parametrize("hashed", [False, True], ids=["ARC 6", "ARC 7"])
@pytest.mark.parametrize("failed", [False, True], ids=["completed", "failed"])
def test_the_rows_are_those_of_the_hook(host: Host, record: pathlib.Path, hashed: bool, failed: bool) -> None:
    """Every row with its times, also when A-REX removes the job's files right after the last callout."""
    (host.control.parent / "other").mkdir()
    other = Host(host.control.parent / "other")
    with recorder(host):
        for step, state in enumerate(LIFE):
            for one in (host, other):
                lay(one.control, job_files(JOB, state, step, failed=failed))
                if hashed:
                    moved_to_hashed(one.control)
            launch(host, JOB, state, record)
            other.run(state)
            if state == "FINISHED":
                cleaned(host.control)
            drained(host)

    assert started(record) == []
    assert rows(str(host.database)) == rows(str(other.database))


def test_the_first_call_of_accepted_is_before_there_is_a_job(host: Host, record: pathlib.Path) -> None:
    """By REST there are two: without a status file the launcher ends at once; with one the event is recorded."""
    lay(host.control, Files("ACCEPTED"))
    status = host.control / "accepting" / f"job.{JOB}.status"
    content = status.read_bytes()
    status.unlink()

    assert launch(host, JOB, "ACCEPTED", record) == ""
    assert (started(record), host.spool) == ([], [])
    status.write_bytes(content)
    launch(host, JOB, "ACCEPTED", record)

    assert started(record) == [f"{JOB} ACCEPTED"]
    assert events(str(host.database)) == [(JOB, "ACCEPTED")]


def _up() -> int:
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * 100)


BEATS: dict[str, tuple[bool, Callable[[int, int], str]]] = {
    "alive": (True, lambda fd, up: f"{up} {os.getpid()} {fd} 176000000000 no 176000000000 CONF\n"),
    "more blanks": (True, lambda fd, up: f"{up}       {os.getpid()} {fd} 176000000000 no 176000000000 CONF\n"),
    "two seconds ago": (False, lambda fd, up: f"{up - 210} {os.getpid()} {fd} 176000000000 no 176000000000 CONF\n"),
    "in a minute": (False, lambda fd, up: f"{up + 6000} {os.getpid()} {fd} 176000000000 no 176000000000 CONF\n"),
    "of another boot": (False, lambda fd, up: f"{up + 10**7} {os.getpid()} {fd} 176000000000 no 176000000000 CONF\n"),
    "ended": (False, lambda fd, up: f"{up} 4194304 {fd} 176000000000 no 176000000000 CONF\n"),
    "of another process": (False, lambda fd, up: f"{up} {os.getppid()} {fd} 176000000000 no 176000000000 CONF\n"),
    "not open": (False, lambda fd, up: f"{up} {os.getpid()} 0 176000000000 no 176000000000 CONF\n"),
    "by another configuration": (
        False,
        lambda fd, up: f"{up} {os.getpid()} {fd} 176000000000 yes 176000000000 /etc/arc.conf\n",
    ),
    "of two beats": (False, lambda fd, up: f"{up} {os.getpid()} {fd} 176000000099 no 176000000100 CONF\n"),
    "torn": (False, lambda fd, up: f"{up} {os.getpid()}"),
    "empty": (False, lambda fd, up: ""),
    "rubbish": (False, lambda fd, up: f"$(touch x) {os.getpid()} {fd} `id` no `id` CONF\n"),
    "a negative number": (False, lambda fd, up: f"-{up} {os.getpid()} {fd} 176000000000 no 176000000000 CONF\n"),
    "an octal number": (False, lambda fd, up: f"0{up} {os.getpid()} {fd} 08 no 08 CONF\n"),
}


@pytest.mark.parametrize("which", BEATS)
def test_only_a_recorder_that_works_is_alive(
    host: Host, record: pathlib.Path, shell: tuple[str, ...], which: str
) -> None:
    """A beat of any other time, process, configuration or form is none, and the hook is started."""
    alive, text = BEATS[which]
    lay(host.control, Files("SUBMIT"))
    beat = pathlib.Path(host.places.spool) / BEAT
    beat.parent.mkdir()
    with open(beat, "w+") as file:
        # The process that is said to be the recorder is this one.
        file.write(text(file.fileno(), _up()).replace("CONF", str(host.conf)))
        file.flush()

        lease = "200" if which == "two seconds ago" else "6000"
        assert launch(host, JOB, "SUBMIT", record, shell=shell, ARCACCT_LEASE=lease) == ""

    assert (started(record) == [], len(host.spool) == 2) == (alive, alive)


@pytest.mark.parametrize(
    ("more", "usual", "conf", "alive"),
    [
        ({}, "yes", "/etc/other", True),
        ({}, "no", "/etc/other", False),
        ({"ARC_CONFIG": "/etc/other"}, "no", "/etc/other", True),
        ({"ARC_CONFIG": "/etc/other"}, "yes", "/etc/arc.conf", False),
        ({"ARCACCT_CONFIG": "/etc/ours"}, "yes", "/etc/arc.conf", False),
    ],
)
def test_the_configuration_is_that_of_the_hook(
    host: Host, record: pathlib.Path, more: dict[str, str], usual: str, conf: str, alive: bool
) -> None:
    """A callout that names no arc.conf is for a recorder that was started without one, or with that of $ARC_CONFIG."""
    lay(host.control, Files("SUBMIT"))
    record.write_text(f'#!/bin/sh\necho >>"{record}.starts"\n')
    beat = pathlib.Path(host.places.spool) / BEAT
    beat.parent.mkdir()
    with open(beat, "w+") as file:
        file.write(f"{_up()} {os.getpid()} {file.fileno()} 176000000000 {usual} 176000000000 {conf}\n")
        file.flush()
        subprocess.run(
            ["/bin/sh", LAUNCHER, str(host.control), JOB, "SUBMIT"],
            env={"PATH": "/usr/bin:/bin", "ARCACCT_RECORD": str(record), "ARCACCT_LEASE": "6000", **more},
            check=True,
        )

    assert (started(record) == []) == alive


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_recorder_of_another_user_is_none(host: Host, record: pathlib.Path) -> None:
    """It could not read what we write."""
    lay(host.control, Files("SUBMIT"))
    beat = pathlib.Path(host.places.spool) / BEAT
    beat.parent.mkdir()
    with open(beat, "w+") as file:
        file.write(f"{_up()} {os.getpid()} {file.fileno()} 176000000000 no 176000000000 {host.conf}\n")
        file.flush()
        os.chown(beat, 65534, 65534)
        launch(host, JOB, "SUBMIT", record)

    assert started(record) == [f"{JOB} SUBMIT"]


def test_a_killed_recorder_is_noticed_at_once(host: Host, record: pathlib.Path) -> None:
    """Its file is still there and new, and the next callout records by itself; what it left is in the spool."""
    with recorder(host) as service:
        service.pause()
        lay(host.control, Files("SUBMIT"))
        launch(host, JOB, "SUBMIT", record)
        left = len(waiting(host))
        service.end(signal.SIGKILL)
        lay(host.control, Files())
        launch(host, JOB, "FINISHED", record)

    assert started(record)[-1] == f"{JOB} FINISHED"
    assert len(waiting(host)) == left == 2 - len(started(record))
    assert host.sweep().spooled == left
    assert events(str(host.database)) == [(JOB, "ACCEPTED"), (JOB, "FINISHED"), (JOB, "SUBMIT")]


def test_a_stopped_recorder_is_noticed_within_two_seconds(host: Host, record: pathlib.Path) -> None:
    """From then on callouts record by themselves; when it goes on it records what was left to it."""
    with recorder(host) as service:
        service.pause()
        for number in range(3):
            lay(host.control, Files(), f"Early{number}")
            launch(host, f"Early{number}", "FINISHED", record)
        time.sleep(2.05)
        lay(host.control, Files(), "Late")
        launch(host, "Late", "FINISHED", record, ARCACCT_LEASE="200")
        assert started(record) == ["Late FINISHED"]
        service.process.send_signal(signal.SIGCONT)
        drained(host)
        until(service.lives)
        lay(host.control, Files(), "Then")
        launch(host, "Then", "FINISHED", record)
        drained(host)

    assert started(record) == ["Late FINISHED"]
    assert sorted(str(row[0]) for row in rows(str(host.database))["AAR"]) == [
        "Early0", "Early1", "Early2", "Late", "Then",
    ]  # fmt: skip


def test_while_it_cannot_record_it_is_not_alive(host: Host, record: pathlib.Path) -> None:
    """Work on the database, or a damaged one: it says so, callouts do as without it, and it goes on by itself."""
    with recorder(host) as service:
        for spoil in (_maintained, _torn):
            restore = spoil(host)
            until(lambda: not service.lives())
            count = len(started(record))
            lay(host.control, Files(), f"Job{count}")
            severity, detail = _told(host)
            assert severity == WARNING
            assert detail.startswith(f"process {service.process.pid} cannot record now, so each state callout")
            assert "spooled as" in launch(host, f"Job{count}", "FINISHED", record)
            assert len(started(record)) == count + 1
            restore()
            pathlib.Path(host.places.breaker).unlink(missing_ok=True)
            until(service.lives)
            drained(host)

    assert [row[0] for row in rows(str(host.database))["AAR"]] == ["Job0", "Job1"]
    assert service.said.count("by hand for maintenance") == 1


def _maintained(host: Host) -> Callable[[], object]:
    path = pathlib.Path(host.places.maintenance)
    path.touch()
    return path.unlink


def _torn(host: Host) -> Callable[[], object]:
    sound = host.database.with_name("sound")
    host.database.rename(sound)
    host.database.write_bytes(b"no database at all, but long enough to look at" * 100)
    return lambda: sound.rename(host.database)


def _in_mounts_of(process: subprocess.Popen[bytes]) -> tuple[str, ...]:
    """A shell that sees what is mounted for a process."""
    return ("nsenter", "-t", str(process.pid), "-m", "/bin/sh")


def _status(process: subprocess.Popen[bytes], host: Host) -> str:
    """The line of `arcacct status` about the recorder, in its mounts."""
    command = [*_in_mounts_of(process), "-c", 'exec "$@"', "sh", ARCACCT, "--config", str(host.conf), "status"]
    said = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, check=False).stdout
    return next(line for line in said.splitlines()[1:] if "recorder service" in line)


def test_the_disk_of_its_database_is_full(tmp_path: pathlib.Path, record: pathlib.Path) -> None:
    """The launcher notices, `status` reports it, hooks spool, and all is recorded once the disk has room again."""
    host = Host(tmp_path, created=False)
    disk = tmp_path / "disk"
    disk.mkdir()
    host.configure(f"database={disk}/accounting.db")
    mount = ("unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size=4m none {disk} && exec "$@"', "sh")
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace here: a full disk cannot be had")
    begin = f'"{ARCACCT}" --config {host.conf} db init >/dev/null && exec "$@"'
    # The launcher's spool, on another disk.
    host.places.spool = str(host.control / "accounting" / "arcacct" / "spool")
    jobs = []

    def finish() -> str:
        jobs.append(f"Job{len(jobs):02}")
        lay(host.control, Files(), jobs[-1])
        said = launch(host, jobs[-1], "FINISHED", record, shell=_in_mounts_of(service.process))
        cleaned(host.control)
        return said

    with recorder(host, program=(*mount, "sh", "-c", begin, "sh", ARCACCT)) as service:
        seen = pathlib.Path(f"/proc/{service.process.pid}/root{disk}")
        finish()
        drained(host)
        with suppress(OSError), open(seen / "filler", "wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        # Its write-ahead log has room for some events.
        until(lambda: not service.lives() or finish())
        until(lambda: not service.lives())
        assert "cannot record now" in _status(service.process, host)
        assert "arcacct-record failed" in finish()
        (seen / "filler").unlink()
        until(service.lives)
        drained(host)
        assert "within a second" in _status(service.process, host)
        copy = shutil.copytree(seen, tmp_path / "copy")

    assert [(row[0], row[7]) for row in rows(str(copy / "accounting.db"))["AAR"]] == [
        (job_id, "completed") for job_id in jobs
    ]


def test_of_two_recorders_one_is_alive(host: Host, record: pathlib.Path) -> None:
    """The second takes over when the first is killed; both may run."""
    with recorder(host) as first:
        second = Service(host)
        try:
            lay(host.control, Files(), "A")
            launch(host, "A", "FINISHED", record)
            drained(host)
            assert first.lives()
            first.end(signal.SIGKILL)
            second.ready()
            lay(host.control, Files(), "B")
            launch(host, "B", "FINISHED", record)
            drained(host)
        finally:
            assert second.end() == 0

    assert started(record) == []
    assert [row[0] for row in rows(str(host.database))["AAR"]] == ["A", "B"]


def test_a_recorder_of_a_database_that_was_named_is_none(host: Host, record: pathlib.Path) -> None:
    """With --database it may be another one than callouts are about."""
    lay(host.control, Files(), "Swept")
    service = Service(host, program=(ARCACCT, "--database", str(host.database)))
    try:
        until(lambda: events(str(host.database)))
        lay(host.control, Files())
        launch(host, JOB, "FINISHED", record)
    finally:
        service.end()

    assert started(record) == [f"{JOB} FINISHED"]


def test_a_recorder_that_ends_leaves_nothing(host: Host, record: pathlib.Path) -> None:
    """By SIGTERM in the middle of callouts: each event is recorded by it or by a hook, and none waits for a sweep."""
    jobs = [f"Job{number:02}" for number in range(30)]
    for job_id in jobs:
        lay(host.control, Files(), job_id)
    service = Service(host)
    service.ready()
    for number, job_id in enumerate(jobs):
        launch(host, job_id, "FINISHED", record)
        if number % 10 == 5:
            assert service.end() == 0
            assert waiting(host) == []
            assert not (pathlib.Path(host.places.spool) / BEAT).exists()
        if number % 10 == 7:
            service.start()
            service.ready()
    assert service.end() == 0

    assert waiting(host) == []
    assert started(record) == [f"{job_id} FINISHED" for job_id in jobs if int(job_id[3:]) % 10 in (6, 7)]
    assert sorted(str(row[0]) for row in rows(str(host.database))["AAR"]) == jobs


def test_a_changed_configuration_is_read(host: Host, record: pathlib.Path) -> None:
    """As a hook reads it at each callout; one that cannot be used leaves the callouts to themselves."""
    with recorder(host) as service:
        lay(host.control, Files(diag=b"WallTime=10s\nexitcode=0\n"), "A")
        launch(host, "A", "FINISHED", record)
        drained(host)
        text = host.conf.read_text()
        host.conf.write_text(text.replace("11.11", "broken"))
        until(lambda: not service.lives())
        host.conf.write_text(text.replace("11.11", "22.22"))
        until(service.lives)
        lay(host.control, Files(diag=b"WallTime=10s\nexitcode=0\n"), "B")
        launch(host, "B", "FINISHED", record)
        drained(host)

    with closing(sqlite3.connect(host.database)) as con:
        query = (
            "SELECT InfoValue FROM AAR JOIN JobExtraInfo USING (RecordID) WHERE InfoKey = 'benchmark' ORDER BY JobID"
        )
        assert [benchmark for (benchmark,) in con.execute(query)] == ["HEPSPEC:11.11", "HEPSPEC:22.22"]
    assert "is not a benchmark" in service.said


def test_a_program_that_was_replaced_ends(host: Host, tmp_path: pathlib.Path) -> None:
    """It has parts of the old version: it ends, so that its service begins with the new one, and is not alive."""
    shutil.copytree(f"{PROJECT}/arcacct", tmp_path / "lib" / "arcacct")
    if os.path.isdir(f"{PROJECT}/schema"):
        # A wheel has it in the package.
        shutil.copytree(f"{PROJECT}/schema", tmp_path / "lib" / "schema")
    start = "import sys; sys.argv[0] = 'arcacct'; from arcacct.__main__ import main; main()"
    service = Service(host, program=(sys.executable, "-P", "-c", start), PYTHONPATH=str(tmp_path / "lib"))
    service.ready()
    new = tmp_path / "lib" / "arcacct" / "new"
    shutil.copy(tmp_path / "lib" / "arcacct" / "__init__.py", new)
    new.rename(tmp_path / "lib" / "arcacct" / "__init__.py")

    until(lambda: service.process.poll() is not None)
    assert service.end() == 75
    assert "was replaced by another version" in service.said
    assert not service.lives()


def test_a_hundred_at_once(host: Host, record: pathlib.Path) -> None:
    """Callouts of a hundred jobs together: each ends well, starts nothing, and is recorded."""
    jobs = [f"Job{number:03}" for number in range(100)]
    for job_id in jobs:
        lay(host.control, Files(), job_id)
    with recorder(host):
        running = [
            subprocess.Popen(
                ["/bin/sh", LAUNCHER, str(host.control), job_id, "FINISHED", str(host.conf)], env=environment(record)
            )
            for job_id in jobs
        ]
        assert [process.wait() for process in running] == [0] * 100
        drained(host)

    assert started(record) == []
    assert sorted(str(row[0]) for row in rows(str(host.database))["AAR"]) == jobs


def test_a_spool_that_is_full_is_no_spool(host: Host, record: pathlib.Path) -> None:
    """When the launcher cannot write there the hook has its turn, and the recorder goes on."""
    lay(host.control, Files("SUBMIT"))
    with recorder(host):
        # A name that cannot be made stands for a disk that is full.
        script = f"ulimit -f 0; trap '' XFSZ; . {LAUNCHER}"
        done = subprocess.run(
            ["/bin/sh", "-c", script, "sh", str(host.control), JOB, "SUBMIT", str(host.conf)],
            env=environment(record), capture_output=True, text=True, check=False,
        )  # fmt: skip
        drained(host)

    assert done.returncode == 0
    assert (JOB, "SUBMIT") in events(str(host.database))


def test_an_event_that_is_recorded_already_is_the_same(host: Host, record: pathlib.Path) -> None:
    """A sweep has seen the state in the second before the launcher ran, and then the job has moved on: one event."""
    with recorder(host) as service:
        service.pause()
        now_ns = time.time_ns()
        lay(host.control, Files("SUBMIT", now_ns - 10**9))
        host.sweep()
        launch(host, JOB, "SUBMIT", record)
        lay(host.control, Files("FINISHING", now_ns + 10**9))
        service.process.send_signal(signal.SIGCONT)
        drained(host)

    assert events(str(host.database)).count((JOB, "SUBMIT")) == 1


def _told(host: Host) -> tuple[int, str]:
    """What status says of the recorder."""
    (check,) = [one for one in judge(look(host.places, None), Thresholds()) if one.subject == "recorder service"]
    return check.severity, check.detail


def test_status_tells_which_way_is_in_use(host: Host) -> None:
    """None, one that works, one that does not go on, one that was killed, one that was ended: with a warning or not."""
    assert _told(host) == (OK, "none: each state callout starts Python and records its event")
    with recorder(host) as service:
        until(lambda: "within a second" in _told(host)[1])
        assert _told(host)[0] == OK
        service.pause()
        until(lambda: _told(host)[0] == WARNING)
        assert f"process {service.process.pid} has not recorded for" in _told(host)[1]
        service.end(signal.SIGKILL)
        assert _told(host) == (
            WARNING, "it was killed and does not run, so each state callout starts Python and records its event",
        )  # fmt: skip
        service.start()
        service.ready()
        service.end()
    assert _told(host)[0] == OK


@strace_only
@pytest.mark.parametrize(
    ("state", "apart"),
    [
        ("ACCEPTED", []),
        ("PREPARING", []),
        ("SUBMIT", []),
        ("FINISHING", []),
        ("FINISHED", ["head", "head", "head", "stat", "sync"]),
    ],
)
def test_what_the_launcher_starts(
    host: Host, record: pathlib.Path, tmp_path: pathlib.Path, state: str, apart: list[str]
) -> None:
    """A-REX waits for the shell alone, which waits for nothing; the programs of a finished job have another parent."""
    lay(host.control, Files(state))
    traces = tmp_path / "traces"
    traces.mkdir()
    with recorder(host):
        subprocess.run(
            ["strace", "-ff", "-qq", "-o", str(traces / "of"), "-e", "trace=execve,wait4", "/bin/sh", LAUNCHER,
             str(host.control), JOB, state, str(host.conf)],
            env=environment(record), check=True,
        )  # fmt: skip
        drained(host)
    # A file for each process: strace begins with the one that A-REX would start.
    launcher, *others = [file.read_text() for file in sorted(traces.iterdir(), key=lambda file: int(file.suffix[1:]))]
    programs = [pathlib.Path(name).name for name in re.findall(r'execve\("([^"]+)".* = 0\n', "".join(others))]

    assert started(record) == []
    assert "wait4(" not in launcher
    assert sorted(programs) == apart


class Gate:
    """A program of the launcher that waits until it may start."""

    def __init__(self, folder: pathlib.Path, name: str, then: str = "") -> None:
        folder.mkdir()
        self._began, self._opened = folder / "began", folder / "opened"
        program = folder / name
        program.write_text(
            f'#!/bin/sh\n: >"{self._began}"\nwhile [ ! -e "{self._opened}" ]; do /bin/sleep 0.01; done\n{then}\n'
            f'exec {shutil.which(name)} "$@"\n'
        )
        program.chmod(0o755)
        self.path = f"{folder}:/usr/bin:/bin"
        """PATH for the launcher."""

    def waits(self) -> None:
        """Wait until the program has started."""
        until(self._began.exists)

    def open(self) -> None:
        """Let the program go on."""
        self._opened.touch()


def _has_swept(host: Host) -> bool:
    with closing(sqlite3.connect(host.database)) as con:
        return con.execute("SELECT 1 FROM DBConfig WHERE KeyName = 'ARCACCT_LAST_SWEEP'").fetchone() is not None


def _finished(host: Host, tmp_path: pathlib.Path, files: Files | None = None) -> Host:
    """
    Lay the files of a finished job on this host and on another one, which is returned and has recorded it.

    The recorder of this host has made its first sweep by then, which would find the job.
    """
    until(lambda: _has_swept(host))
    (tmp_path / "other").mkdir()
    other = Host(tmp_path / "other")
    for one in (host, other):
        lay(one.control, files or Files())
    other.run("FINISHED")
    return other


def test_cleaned_while_its_files_are_copied(
    host: Host, record: pathlib.Path, tmp_path: pathlib.Path, shell: tuple[str, ...]
) -> None:
    """All files of the job are deleted before the launcher's programs have started: they are still recorded."""
    gate = Gate(tmp_path / "bin", "stat")
    with recorder(host):
        other = _finished(host, tmp_path)
        # It returns once A-REX's pipes are closed, too.
        launch(host, JOB, "FINISHED", record, shell=shell, PATH=gate.path)
        cleaned(host.control)
        gate.open()
        drained(host)

    assert started(record) == []
    assert rows(str(host.database)) == rows(str(other.database))


def test_a_rex_writes_local_again_while_it_is_copied(
    host: Host, record: pathlib.Path, tmp_path: pathlib.Path, shell: tuple[str, ...]
) -> None:
    """The launcher finds only a part of .local, and then all of it. The client cleans the job before it is recorded."""
    local = host.control / f"job.{JOB}.local"
    gate, patience = Gate(tmp_path / "bin", "head"), Gate(tmp_path / "patience", "sleep")
    with recorder(host) as service:
        other = _finished(host, tmp_path)
        launch(host, JOB, "FINISHED", record, shell=shell, PATH=f"{tmp_path}/patience:{gate.path}")
        service.pause()
        gate.waits()
        with open(local, "r+b", buffering=0) as file:
            content = file.read()
            file.truncate(0)
            file.seek(0)
            file.write(content[:100])
            gate.open()
            patience.waits()
            file.write(content[100:] + b"cleanuptime=20261127120000Z\n")
            patience.open()
        until(lambda: any(b"parts=" in pathlib.Path(host.places.spool, name).read_bytes() for name in waiting(host)))
        cleaned(host.control)
        service.process.send_signal(signal.SIGCONT)
        drained(host)

    assert started(record) == []
    assert rows(str(host.database)) == rows(str(other.database))


def test_a_rex_is_slow_to_write_local_again(host: Host, record: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The launcher finds only a part of .local, even after a while: the recorder waits for A-REX's lock."""
    with recorder(host):
        other = _finished(host, tmp_path)
        with open(host.control / f"job.{JOB}.local", "r+b", buffering=0) as local:
            fcntl.lockf(local, fcntl.LOCK_EX)
            content = local.read()
            local.seek(0)
            local.truncate(0)
            local.write(content[:40])
            launch(host, JOB, "FINISHED", record)
            until(
                lambda: any(b"parts=" in pathlib.Path(host.places.spool, name).read_bytes() for name in waiting(host))
            )
            local.write(content[40:])
        drained(host)

    assert started(record) == []
    assert rows(str(host.database)) == rows(str(other.database))


def test_a_large_file_of_a_cleaned_job(host: Host, record: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Of a .diag of 3 MB the beginning and the end are recorded, and A-REX does not wait for that either."""
    with recorder(host):
        other = _finished(host, tmp_path, Files(diag=b"nodename=wn1\n" * 250_000 + DIAG))
        launch(host, JOB, "FINISHED", record)
        cleaned(host.control)
        drained(host)

    assert started(record) == []
    assert rows(str(host.database)) == rows(str(other.database))


def test_a_rex_stops_while_files_are_copied(host: Host, record: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Its unit sends SIGTERM to all of its processes, and the client cleans the job: it is recorded whole."""
    gate = Gate(tmp_path / "bin", "stat")
    with recorder(host):
        other = _finished(host, tmp_path)
        process = subprocess.Popen(
            ["/bin/sh", LAUNCHER, str(host.control), JOB, "FINISHED", str(host.conf)],
            env={**environment(record), "PATH": gate.path},
            start_new_session=True,
        )
        assert process.wait() == 0
        # The launcher's program has started, which ignores the signal like the launcher.
        gate.waits()
        os.killpg(process.pid, signal.SIGTERM)
        cleaned(host.control)
        gate.open()
        drained(host)

    assert started(record) == []
    assert rows(str(host.database)) == rows(str(other.database))


def test_a_recorder_that_ends_waits_for_files_that_are_copied(
    host: Host, record: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """SIGTERM right after a callout: the event is recorded, and does not wait for a sweep."""
    gate = Gate(tmp_path / "bin", "stat")
    with recorder(host) as service:
        other = _finished(host, tmp_path)
        launch(host, JOB, "FINISHED", record, PATH=gate.path)
        cleaned(host.control)
        service.process.send_signal(signal.SIGTERM)
        until(lambda: not service.lives())
        time.sleep(0.1)
        gate.open()
        assert service.end() == 0

    assert (started(record), waiting(host)) == ([], [])
    assert rows(str(host.database)) == rows(str(other.database))


def test_files_that_cannot_be_copied(host: Host, record: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The disk of the spool gets full after the callout: arcacct-record has its turn, in parallel to A-REX."""
    gate = Gate(tmp_path / "bin", "head", "exit 1")
    with recorder(host):
        other = _finished(host, tmp_path)
        launch(host, JOB, "FINISHED", record, PATH=gate.path)
        gate.open()
        until(lambda: started(record))
        drained(host)
        until(lambda: (JOB, "FINISHED") in events(str(host.database)))

    assert started(record) == [f"{JOB} FINISHED"]
    assert rows(str(host.database)) == rows(str(other.database))


def test_order_and_repeats_do_not_matter(host: Host, record: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """All events of a life wait while the recorder is stopped, some twice, and are recorded as ever."""
    (tmp_path / "other").mkdir()
    other = Host(tmp_path / "other")
    with recorder(host) as service:
        service.pause()
        for step, state in enumerate((*LIFE, *LIFE[::-1])):
            if step < len(LIFE):
                lay(host.control, Files(state, NOON_NS + step * 10**9))
                lay(other.control, Files(state, NOON_NS + step * 10**9))
                other.run(state)
            launch(host, JOB, state, record)
        service.process.send_signal(signal.SIGCONT)
        drained(host)

    ours, theirs = rows(str(host.database)), rows(str(other.database))
    assert {**ours, "JobEvents": []} == {**theirs, "JobEvents": []}
    assert sorted(row[1] for row in ours["JobEvents"]) == sorted(row[1] for row in theirs["JobEvents"])


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment(host: Host, record: pathlib.Path, tmp_path: pathlib.Path, seed: int) -> None:
    """Launchers, hooks and recorders are killed at random, and others begun: nothing is lost, and nothing different."""
    chance = random.Random(seed)
    lives = {f"Job{number:02}": chance.random() < 0.3 for number in range(12)}
    killed = 0
    service = Service(host)
    service.ready()
    try:
        for job_id, failed in lives.items():
            for step, state in enumerate(LIFE):
                lay(host.control, job_files(job_id, state, step, failed=failed), job_id)
                killed += _killed_launch(host, job_id, state, record, chance)
                if service.process.poll() is None and chance.random() < 0.15:
                    service.end(signal.SIGKILL)
                elif service.process.poll() is not None and chance.random() < 0.5:
                    service.start()
                    if chance.random() < 0.5:
                        service.ready()
    finally:
        service.end(signal.SIGKILL)
    for name in waiting(host):
        # What nobody was able to finish writing is an event after a minute.
        os.utime(f"{host.places.spool}/{name}", (1, 1))

    report = host.sweep()

    assert killed > 5
    assert report.complaints == ()
    assert waiting(host) == []
    check_equal(host, undisturbed(tmp_path / "well", lives), launched=True)


def _killed_launch(host: Host, job_id: str, state: str, record: pathlib.Path, chance: random.Random) -> bool:
    """A callout of which all processes are killed after some milliseconds; whether it had not ended before."""
    process = subprocess.Popen(
        ["/bin/sh", LAUNCHER, str(host.control), job_id, state, str(host.conf)],
        env=environment(record),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(chance.uniform(0, 0.03))
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


@strace_only
@pytest.mark.parametrize("state", ["SUBMIT", "FINISHED"])
def test_the_launcher_is_killed_at_each_system_call(
    host: Host, record: pathlib.Path, tmp_path: pathlib.Path, state: str
) -> None:
    """SIGKILL at every call that makes, writes or renames a file while it spools for a recorder."""
    calls = "openat,write,rename,renameat2,dup2,clone,execve,fsync"
    lives = {"Counted": False}
    step = LIFE.index(state)

    def tampered(job_id: str, inject: str | None) -> int:
        lay(host.control, job_files(job_id, state, step), job_id)
        trace = tmp_path / "trace"
        subprocess.run(
            ["strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={calls}",
             *(["-e", f"inject={calls}:{inject}"] if inject else []),
             "/bin/sh", LAUNCHER, str(host.control), job_id, state, str(host.conf)],
            env=environment(record), stderr=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        return sum("(" in line for line in trace.read_text(errors="replace").splitlines())

    with recorder(host):
        # The first is that of strace itself.
        for number in range(2, tampered("Counted", None) + 1):
            lives[job_id := f"Job{number:03}"] = False
            tampered(job_id, f"signal=KILL:when={number}")
    for name in waiting(host):
        os.utime(f"{host.places.spool}/{name}", (1, 1))
    for job_id in lives:
        lay(host.control, job_files(job_id, "FINISHED", 4), job_id)

    report = host.sweep()

    assert len(lives) > 5
    assert report.complaints == ()
    assert waiting(host) == []
    check_equal(host, undisturbed(tmp_path / "well", lives), launched=True)
