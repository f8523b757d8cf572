"""
The processes of this host as /proc tells them: four small files each, read once.

psutil's Process would open them several times over; the kernel's own numbers are what Sonar reports, too.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
_JOB = re.compile(rb"/job_(\d+)(?:/|$)", re.MULTILINE)


class Process(NamedTuple):
    """One process at a moment."""

    pid: int
    ppid: int
    group: int
    user: str
    uid: int
    command: str
    batch_job: int | None
    """The batch system's number of its job."""
    cpu_s: float
    """With children that it has waited for."""
    own_cpu_s: float
    start_s: float
    """After the boot."""
    threads: int
    resident_kib: int
    """Private pages."""
    data_kib: int
    """Data and stack."""
    read_bytes: int
    written_bytes: int
    cancelled_bytes: int


def processes(proc: str = "/proc", *, variable: str | None = None) -> Iterator[Process]:
    """
    Every process that is there from the first look at it to the last; the others are passed over.

    ``variable`` of a process's environment is its job when its cgroup does not tell (Grid Engine: ``JOB_ID``).
    Raises OSError when ``proc`` cannot be listed.
    """
    for name in os.listdir(proc):
        if name.isdigit():
            found = _process(proc, name, variable)
            if found is not None:
                yield found


def _process(proc: str, name: str, variable: str | None) -> Process | None:
    folder = f"{proc}/{name}"
    try:
        stat = _read(f"{folder}/stat")
        uid = os.stat(folder).st_uid
        pages = _read(f"{folder}/statm").split()
        cgroup = _read(f"{folder}/cgroup")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command stands in brackets and may have some itself.
    close = stat.rindex(b")")
    command = stat[stat.index(b"(") + 1 : close].decode("utf-8", "replace")
    state, *rest = stat[close + 2 :].split()
    numbers = [int(one) for one in rest[:19]]
    own, children = numbers[10] + numbers[11], numbers[12] + numbers[13]
    try:
        moved = dict(line.split(b": ") for line in _read(f"{folder}/io").splitlines())
    except OSError:
        # Another user's.
        moved = dict.fromkeys((b"read_bytes", b"write_bytes", b"cancelled_write_bytes"), b"0")
    return Process(
        pid=int(name),
        ppid=numbers[0],
        group=numbers[1],
        user=user_name(uid),
        uid=uid,
        command=command + " <defunct>" if state == b"Z" else command,
        batch_job=_batch_job(folder, cgroup, variable),
        cpu_s=(own + children) / _TICKS,
        own_cpu_s=own / _TICKS,
        start_s=numbers[18] / _TICKS,
        threads=numbers[16],
        resident_kib=max(0, int(pages[1]) - int(pages[2])) * _PAGE_KIB,
        data_kib=int(pages[5]) * _PAGE_KIB,
        read_bytes=int(moved[b"read_bytes"]),
        written_bytes=int(moved[b"write_bytes"]),
        cancelled_bytes=int(moved[b"cancelled_write_bytes"]),
    )


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 65536)
    finally:
        os.close(fd)


def _batch_job(folder: str, cgroup: bytes, variable: str | None) -> int | None:
    match = _JOB.search(cgroup)
    if match is not None:
        return int(match[1])
    if variable is None:
        return None
    try:
        environment = _read(f"{folder}/environ").split(b"\0")
    except OSError:
        return None
    prefix = os.fsencode(variable) + b"="
    values = [entry[len(prefix) :] for entry in environment if entry.startswith(prefix)]
    return int(values[0]) if values and values[0].isdigit() and len(values[0]) < 19 else None


@lru_cache(maxsize=4096)
def user_name(uid: int) -> str:
    """The account, ``_user_UID`` for one that this host does not know."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"_user_{uid}"
