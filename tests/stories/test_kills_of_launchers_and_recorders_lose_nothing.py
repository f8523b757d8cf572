"""Launchers, copies and recorders are killed, or the file system fails them: nothing is lost or different."""

from __future__ import annotations

import os
import pathlib
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from disturbed_host import LIFE, check_equal, job_files, undisturbed
from full_disk import own_file_system
from job_files import lay
from recorder_service import Service
from recording_host import LAUNCHER, Host, has_ended, until
from strace import strace_only

pytestmark = pytest.mark.campaign

CALLS = "openat,write,rename,renameat2,dup2,clone,execve,fsync,close"
FAIL = "openat,write,rename,renameat2,clone,execve,mkdir"
"""Those that a full or broken disk, or a limit, lets fail."""
LAUNCH = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Host:
    """The host that suffers."""
    (tmp_path / "ill").mkdir()
    return Host(tmp_path / "ill")


def swept(host: Host) -> None:
    """What no one was able to finish writing is an event after ten minutes."""
    for path in host.spool:
        os.utime(path, (path.stat().st_mtime - 700,) * 2)
    assert host.sweep().complaints == ()
    assert host.spool == []


def killed_launch(host: Host, job_id: str, state: str, chance: random.Random) -> bool:
    """A callout of which all processes are killed after some milliseconds; whether one was left."""
    process = subprocess.Popen(
        ["/bin/sh", LAUNCHER, str(host.control), job_id, state],
        env=LAUNCH, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    time.sleep(chance.uniform(0, 0.01))
    was_killed = False
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
        was_killed = True
    process.wait()
    until(lambda: has_ended(process.pid))
    return was_killed


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment(host: Host, tmp_path: pathlib.Path, seed: int) -> None:
    """Launchers, copies and recorders are killed at random, and others started."""
    chance = random.Random(seed)
    lives = {f"Job{number:02}": chance.random() < 0.3 for number in range(12)}
    killed = 0
    service = Service(host)
    try:
        for job_id, failed in lives.items():
            for step, state in enumerate(LIFE):
                lay(host.control, job_files(job_id, state, step, failed=failed), job_id)
                killed += killed_launch(host, job_id, state, chance)
                if service.process.poll() is None and chance.random() < 0.15:
                    service.end(signal.SIGKILL)
                elif service.process.poll() is not None and chance.random() < 0.5:
                    service.start()
    finally:
        service.end(signal.SIGKILL)

    swept(host)

    assert killed > 5
    check_equal(host, undisturbed(tmp_path / "well", lives))


def tampered(host: Host, job_id: str, state: str, trace: pathlib.Path, inject: str | None, calls: str) -> int:
    """A callout under strace, which makes a system call fail or kills the process at it; the number of calls."""
    lay(host.control, job_files(job_id, state, LIFE.index(state)), job_id)
    process = subprocess.Popen(
        ["strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={calls}",
         *(["-e", f"inject={calls}:{inject}"] if inject else []),
         "/bin/sh", LAUNCHER, str(host.control), job_id, state],
        env=LAUNCH, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    process.wait()
    until(lambda: has_ended(process.pid))
    return sum("(" in line for line in trace.read_text(errors="replace").splitlines())


@strace_only
@pytest.mark.parametrize("state", ["SUBMIT", "FINISHED"])
def test_killed_at_each_system_call(host: Host, tmp_path: pathlib.Path, state: str) -> None:
    """SIGKILL at every call that makes, writes or renames a file, in the launcher and in the process that copies."""
    lives = {"Counted": False}
    # The first is that of strace itself.
    for number in range(2, tampered(host, "Counted", state, tmp_path / "trace", None, CALLS) + 1):
        lives[job_id := f"Job{number:03}"] = False
        tampered(host, job_id, state, tmp_path / "trace", f"signal=KILL:when={number}", CALLS)
    for job_id in lives:
        lay(host.control, job_files(job_id, "FINISHED", 4), job_id)

    swept(host)

    assert len(lives) > 5
    check_equal(host, undisturbed(tmp_path / "well", lives))


@strace_only
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EROFS", "EMFILE"])
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "from then on"])
def test_each_system_call_fails(host: Host, tmp_path: pathlib.Path, error: str, for_good: bool) -> None:
    """Each call of the launcher and its programs fails: the job is recorded whole, once."""
    lives = {"Counted": False}
    step = 3 if for_good else 1
    for number in range(2, tampered(host, "Counted", "FINISHED", tmp_path / "trace", None, FAIL) + 1, step):
        lives[job_id := f"Job{number:03}"] = False
        when = f"when={number}+" if for_good else f"when={number}"
        tampered(host, job_id, "FINISHED", tmp_path / "trace", f"error={error}:{when}", FAIL)

    swept(host)

    check_equal(host, undisturbed(tmp_path / "well", lives))


@pytest.fixture
def own_disk() -> Iterator[pathlib.Path]:
    """A file system of its own."""
    with own_file_system("size=8m") as directory:
        yield directory


def test_a_file_system_that_becomes_read_only(own_disk: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """What could be written nowhere is found in the control directory as soon as the disk is back."""
    host = Host(own_disk)
    lives = {"Job1": False, "Job2": True}
    for job_id, failed in lives.items():
        for step, state in enumerate(LIFE):
            lay(host.control, job_files(job_id, state, step, failed=failed), job_id)
            subprocess.run(["mount", "-o", "remount,ro", str(own_disk)], check=True)
            assert f"{job_id} {state}: the event is not in a spool" in host.call(state, job_id)
            subprocess.run(["mount", "-o", "remount,rw", str(own_disk)], check=True)

    swept(host)

    check_equal(host, undisturbed(tmp_path / "well", lives))


def test_the_disturbed_hosts_are_really_disturbed(tmp_path: pathlib.Path) -> None:
    """The comparison of these tests notices a job that is missing and an event that no one made."""
    one = undisturbed(tmp_path / "one", {"Job1": False})
    two = undisturbed(tmp_path / "two", {"Job1": False, "Job2": False})

    with pytest.raises(AssertionError):
        check_equal(one, two)
