"""
The hook is killed, or the file system fails it, at any point: after a sweep the database is as if nothing had happened.

The hooks are forked copies of this process, which have the hook's modules already.
"""

from __future__ import annotations

import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from disturbed_host import LIFE, check_equal, job_files, undisturbed
from hook_host import PROJECT, Host
from job_files import NOON_NS, lay, rows

from arcacct.arex import spool  # noqa: F401  so that no forked hook spends its time on it
from arcacct.arex.hook import main

pytestmark = pytest.mark.campaign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


SEEDS = range(4)


class Child:
    """A forked hook."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def ended(self) -> int:
        """Wait; the exit code, or minus the signal."""
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def hook_in_child(host: Host, job_id: str, state: str, before: Callable[[], object] = lambda: None) -> Child:
    """The hook in a copy of this process; ``before`` runs in it first."""
    pid = os.fork()
    if pid:
        return Child(pid)
    try:
        os.dup2(os.open(host.control.parent / "stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
        before()
        sys.argv[1:] = [str(host.control), job_id, state, str(host.conf)]
        main()
    finally:
        os._exit(99)


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Host:
    """The host that suffers."""
    (tmp_path / "ill").mkdir()
    return Host(tmp_path / "ill")


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_at_any_moment(host: Host, tmp_path: pathlib.Path, seed: int) -> None:
    """Hooks of twelve lives, most of them killed after some microseconds, some called twice: nothing is lost."""
    chance = random.Random(seed)
    lives = {f"Job{number:02}": chance.random() < 0.3 for number in range(12)}
    whole_s = _time_of_a_hook(tmp_path / "timed")
    killed = 0
    for job_id, failed in lives.items():
        for step, state in enumerate(LIFE):
            lay(host.control, job_files(job_id, state, step, failed=failed), job_id)
            child = hook_in_child(host, job_id, state)
            if chance.random() < 0.9:
                time.sleep(chance.uniform(0, whole_s))
                child.kill()
            killed += child.ended() == -signal.SIGKILL
            if chance.random() < 0.2:
                assert hook_in_child(host, job_id, state).ended() == 0

    report = host.sweep()

    assert killed > 0
    assert report.complaints == ()
    check_equal(host, undisturbed(tmp_path / "well", lives))


def _time_of_a_hook(directory: pathlib.Path) -> float:
    directory.mkdir()
    host = Host(directory)
    lay(host.control, job_files("Timed", "FINISHED"), "Timed")
    begun = time.monotonic()
    assert hook_in_child(host, "Timed", "FINISHED").ended() == 0
    return time.monotonic() - begun


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_beside_others(host: Host, tmp_path: pathlib.Path, seed: int) -> None:
    """Hooks that are killed while others wait for the same database hold nobody up and take nothing with them."""
    chance = random.Random(seed)
    lives = {f"Job{number:02}": chance.random() < 0.3 for number in range(10)}
    for step, state in enumerate(LIFE):
        children = []
        for job_id, failed in lives.items():
            lay(host.control, job_files(job_id, state, step, failed=failed), job_id)
            children.append(hook_in_child(host, job_id, state))
        for child in chance.sample(children, 5):
            time.sleep(chance.uniform(0, 0.003))
            child.kill()
        assert {child.ended() for child in children} <= {0, -signal.SIGKILL}

    assert host.sweep().complaints == ()
    check_equal(host, undisturbed(tmp_path / "well", lives))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_clock_jumps(host: Host, tmp_path: pathlib.Path, seed: int) -> None:
    """With a clock that jumps by days, for A-REX and for the hook, each job ends as its files say."""
    chance = random.Random(seed)
    lives = {f"Job{number:02}": chance.random() < 0.3 for number in range(8)}
    for job_id, failed in lives.items():
        end = job_files(job_id, "FINISHED", 4, failed=failed)
        for state in LIFE[:-1]:
            lay(host.control, end._replace(state=state, mtime_ns=_jumped(chance), failed=None), job_id)
            if chance.random() < 0.3:
                pathlib.Path(host.places.maintenance).touch()
            assert hook_in_child(host, job_id, state, lambda: _set_clock(chance)).ended() == 0
            pathlib.Path(host.places.maintenance).unlink(missing_ok=True)
        lay(host.control, end, job_id)
        assert hook_in_child(host, job_id, "FINISHED", lambda: _set_clock(chance)).ended() == 0
    host.sweep()

    wanted = undisturbed(tmp_path / "well", lives)
    ours, theirs = rows(str(host.database)), rows(str(wanted.database))
    # The times of the states before the end are those of a clock that jumped.
    for tables in (ours, theirs):
        tables["JobEvents"] = [row for row in tables["JobEvents"] if row[1] not in LIFE[1:-1]]
    assert ours == theirs


def _jumped(chance: random.Random) -> int:
    return NOON_NS + chance.randint(-20 * 86_400, 20 * 86_400) * 10**9


def _set_clock(chance: random.Random) -> None:
    now = _jumped(chance)
    time.time_ns = lambda: now  # only in the forked copy


def _spool_is_a_file(host: Host) -> None:
    pathlib.Path(host.places.spool).touch()


def _no_directory(host: Host) -> None:
    shutil.rmtree(host.places.directory)


def _no_accounting(host: Host) -> None:
    shutil.rmtree(host.control / "accounting")


def _torn(host: Host) -> None:
    with open(host.database, "r+b") as file:
        file.truncate(4096 * 3 + 100)


def _garbage(host: Host) -> None:
    with open(host.database, "r+b") as file:
        file.seek(4096)
        file.write(random.Random(0).randbytes(4096 * 20))


def _empty(host: Host) -> None:
    host.database.write_bytes(b"")


def _wal_of_another(host: Host) -> None:
    pathlib.Path(f"{host.database}-wal").write_bytes(random.Random(1).randbytes(50_000))


@pytest.mark.parametrize(
    "ruin", [_spool_is_a_file, _no_directory, _no_accounting, _torn, _garbage, _empty, _wal_of_another]
)
def test_ruins_are_survived(host: Host, tmp_path: pathlib.Path, ruin: Callable[[Host], None]) -> None:
    """Whatever has happened to our files, hooks exit 0; with a sound database in place a sweep has every job."""
    lives = {"Job1": False, "Job2": True}
    sound = tmp_path / "sound.db"
    shutil.copy(host.database, sound)
    ruin(host)
    for job_id, failed in lives.items():
        for step, state in enumerate(LIFE):
            lay(host.control, job_files(job_id, state, step, failed=failed), job_id)
            assert hook_in_child(host, job_id, state).ended() == 0

    for path in pathlib.Path(host.places.directory).glob("accounting.db*"):
        path.unlink()
    pathlib.Path(host.places.directory).mkdir(parents=True, exist_ok=True)
    shutil.copy(sound, host.database)
    if ruin is _spool_is_a_file:
        pathlib.Path(host.places.spool).unlink()

    assert host.sweep().complaints == ()
    check_equal(host, undisturbed(tmp_path / "well", lives))


def test_two_hundred_at_once(host: Host) -> None:
    """However many state changes come together, each hook exits 0 and each event is stored or spooled."""
    jobs = [f"Job{number:03}" for number in range(200)]
    for job_id in jobs:
        lay(host.control, job_files(job_id, "FINISHED"), job_id)
    ready, go = os.pipe()
    begun, ended = tmp_files(host, "begun"), tmp_files(host, "ended")

    def wait(job_id: str) -> None:
        os.close(go)
        os.read(ready, 1)
        begun(job_id)

    children = {job_id: hook_in_child(host, job_id, "FINISHED", lambda job_id=job_id: wait(job_id)) for job_id in jobs}  # type: ignore[misc]
    os.close(ready)
    os.close(go)
    for job_id, child in children.items():
        assert child.ended() == 0
        ended(job_id)

    recorded = {str(row[0]) for row in rows(str(host.database))["AAR"]}
    waiting = {path.name.rpartition("-")[2] for path in host.spool}
    waits = [ended.time_of(job_id) - begun.time_of(job_id) for job_id in jobs]
    print(f"200 hooks at once: {len(recorded)} recorded, {len(waiting)} spooled, worst wait {max(waits):.2f} s")
    assert recorded | waiting == set(jobs)
    host.sweep()
    assert sorted(str(row[0]) for row in rows(str(host.database))["AAR"]) == jobs


class tmp_files:  # noqa: N801  a function with a memory on disk
    """Marks moments, across processes, by the times of files."""

    def __init__(self, host: Host, name: str) -> None:
        self._folder = host.control.parent / name
        self._folder.mkdir()

    def __call__(self, job_id: str) -> None:
        (self._folder / job_id).touch()

    def time_of(self, job_id: str) -> float:
        return (self._folder / job_id).stat().st_mtime


@pytest.fixture
def own_disk() -> Iterator[pathlib.Path]:
    """A file system of its own."""
    directory = tempfile.mkdtemp(prefix="arcacct-test-")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", directory], capture_output=True, check=False
    )
    try:
        if mounted.returncode != 0:
            pytest.skip("needs the right to mount a file system")
        yield pathlib.Path(directory)
        subprocess.run(["umount", directory], check=True)
    finally:
        os.rmdir(directory)


def test_a_file_system_that_becomes_read_only(own_disk: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """What nobody could write anywhere is found in the control directory as soon as the disk is back."""
    host = Host(own_disk)
    lives = {"Job1": False, "Job2": True}
    for job_id, failed in lives.items():
        for step, state in enumerate(LIFE):
            lay(host.control, job_files(job_id, state, step, failed=failed), job_id)
            (own_disk / "stderr").touch()
            subprocess.run(["mount", "-o", "remount,ro", str(own_disk)], check=True)
            assert _silent(host, job_id, state) == 0
            subprocess.run(["mount", "-o", "remount,rw", str(own_disk)], check=True)

    report = host.sweep()

    assert report.complaints == ()
    check_equal(host, undisturbed(tmp_path / "well", lives))


def _silent(host: Host, job_id: str, state: str) -> int:
    start = f"import sys; sys.path.append({PROJECT!r}); from arcacct.arex.hook import main; main()"
    command = [sys.executable, "-I", "-S", "-c", start, str(host.control), job_id, state, str(host.conf)]
    done = subprocess.run(command, capture_output=True, text=True, env={}, check=False)
    assert f"{job_id} {state}: not recorded (" in done.stderr
    return done.returncode


def test_the_disturbed_hosts_are_really_disturbed(tmp_path: pathlib.Path) -> None:
    """The comparison of these tests notices a job that is missing and an event that nobody made."""
    one = undisturbed(tmp_path / "one", {"Job1": False})
    two = undisturbed(tmp_path / "two", {"Job1": False, "Job2": False})

    with pytest.raises(AssertionError):
        check_equal(one, two)
