"""The hook is killed, or the file system fails it, at each single system call, by strace."""

from __future__ import annotations

import pathlib
import random
import subprocess
import sys
from contextlib import contextmanager

import pytest
from disturbed_host import check_equal, job_files, undisturbed
from hook_host import PROJECT, Host
from job_files import lay
from strace import strace_only

pytestmark = pytest.mark.campaign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Host:
    """The host that suffers."""
    (tmp_path / "ill").mkdir()
    return Host(tmp_path / "ill")


ANYWHERE = "write,pwrite64,ftruncate,fallocate,fsync,fdatasync,rename,unlink,mkdir,fchmod"
"""Calls that the start of an interpreter does not make."""
TO_OUR_FILES = f"{ANYWHERE},openat,flock,fcntl,mmap"
"""Calls that are counted only when they are about a file of the database or its queue."""


def tampered(host: Host, job_id: str, *, inject: str | None, to_our_files: bool) -> tuple[int, int]:
    """One FINISHED hook under strace; its exit code, and how many system calls there were to tamper with."""
    trace = host.control.parent / "trace"
    here = host.places
    paths = [here.database + suffix for suffix in ("", "-wal", "-shm")] + [here.directory, here.queue_lock]
    filters = [part for path in paths for part in ("-P", path)] if to_our_files else []
    calls = TO_OUR_FILES if to_our_files else ANYWHERE
    chosen = ["-e", f"trace={calls}"] + (["-e", f"inject={calls}:{inject}"] if inject else [])
    start = f"import sys; sys.path.append({PROJECT!r}); from arcacct.arex.hook import main; main()"
    done = subprocess.run(
        ["strace", "-f", "-o", str(trace), *filters, *chosen, sys.executable, "-I", "-S", "-c", start,
         str(host.control), job_id, "FINISHED", str(host.conf)],
        capture_output=True,
        env={},
        check=False,
    )  # fmt: skip
    return done.returncode, sum("(" in line for line in trace.read_text(errors="replace").splitlines())


def _counted(host: Host, *, to_our_files: bool) -> int:
    lay(host.control, job_files("Counted", "FINISHED", 4), "Counted")
    code, count = tampered(host, "Counted", inject=None, to_our_files=to_our_files)
    assert code == 0
    return count


@contextmanager
def _maintained(host: Host, yes: bool) -> Iterator[None]:
    """With ``yes`` every hook has to spool."""
    if yes:
        pathlib.Path(host.places.maintenance).touch()
    yield
    pathlib.Path(host.places.maintenance).unlink(missing_ok=True)


@strace_only
@pytest.mark.parametrize("spooled", [False, True], ids=["recording", "spooling"])
def test_killed_at_each_system_call(host: Host, tmp_path: pathlib.Path, spooled: bool) -> None:
    """SIGKILL at every call that opens, writes, locks, syncs or renames a file of ours."""
    lives = {"Counted": False}
    with _maintained(host, spooled):
        count = _counted(host, to_our_files=not spooled)
        for number in range(1, count + 1):
            job_id = f"Job{number:03}"
            lives[job_id] = number % 3 == 0
            lay(host.control, job_files(job_id, "FINISHED", 4, failed=lives[job_id]), job_id)
            tampered(host, job_id, inject=f"signal=KILL:when={number}", to_our_files=not spooled)

    report = host.sweep()

    assert count > (4 if spooled else 20)
    assert report.complaints == ()
    check_equal(host, undisturbed(tmp_path / "well", lives))


@strace_only
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EROFS"])
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "from then on"])
def test_each_system_call_fails(host: Host, tmp_path: pathlib.Path, error: str, for_good: bool) -> None:
    """
    A disk that is full, breaks, or becomes read-only at every single write: exit 0, and the sweep has it all.

    Once: on the database's files. From then on: everywhere, so that nothing can be spooled and nothing said either.
    """
    lives = {"Counted": False}
    count = _counted(host, to_our_files=not for_good)
    for number in random.Random(error).sample(range(1, count + 1), min(count, 14)):
        job_id = f"Job{number:03}"
        lives[job_id] = False
        lay(host.control, job_files(job_id, "FINISHED", 4), job_id)
        inject = f"error={error}:when={number}{'+' if for_good else ''}"
        assert tampered(host, job_id, inject=inject, to_our_files=not for_good)[0] == 0

    report = host.sweep()

    assert report.complaints == ()
    check_equal(host, undisturbed(tmp_path / "well", lives))
