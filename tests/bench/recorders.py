"""Many recorders at once, each a process of its own that has started: opens the database, records, and is gone."""

from __future__ import annotations

import gc
import mmap
import os
import pathlib
import struct
import subprocess
import time
from typing import NamedTuple

from control_directory import set_up
from job_files import LOCAL, NOON_NS

from arcacct.arex import job_facts
from arcacct.arex.control_files import JobFiles
from arcacct.arex.hook import record_event
from arcacct.config.paths import Places, places
from arcacct.database.access import initialise, read_accounting

LOADED_BEFORE = (job_facts,)
"""What the hook imports on the way: here nobody waits for a start."""
_WAIT = struct.Struct("d")
_FAILED = -1.0


class Crowd(NamedTuple):
    """What became of the events of a crowd of recorders."""

    sent: int
    stored: int
    errors: int
    rounds_s: list[list[float]]
    """Of each event of each round: from before the database is opened until the event is committed."""


def crowd(folder: pathlib.Path, recorders: int, rounds: int) -> Crowd:
    """``recorders`` processes at once, ``rounds`` times over; each records one event of a job of its own."""
    here = places(None, set_up(folder))
    initialise(here)
    waits = [_round(here, recorders, f"R{number}") for number in range(rounds)]
    con = read_accounting(here)
    stored = con.execute("SELECT count(*) FROM AAR").fetchone()[0]
    con.close()
    errors = sum(one.count(_FAILED) for one in waits)
    return Crowd(recorders * rounds, stored, errors, [[wait for wait in one if wait != _FAILED] for one in waits])


def _round(here: Places, recorders: int, name: str) -> list[float]:
    """The waits of one round."""
    told = mmap.mmap(-1, recorders * _WAIT.size)
    ready, readied = os.pipe()
    gate, opened = os.pipe()
    children = []
    # Or the first thing that each would do is to make a copy of our memory.
    gc.freeze()
    for number in range(recorders):
        pid = os.fork()
        if pid == 0:
            os.close(opened)
            os.write(readied, b".")
            # All are let go at once: by the end of the file.
            os.read(gate, 1)
            told[number * _WAIT.size : (number + 1) * _WAIT.size] = _WAIT.pack(_record(here, f"{name}J{number:05}"))
            os._exit(0)
        children.append(pid)
    for _child in children:
        os.read(ready, 1)
    os.close(opened)
    for pid in children:
        os.waitpid(pid, 0)
    for fd in (ready, readied, gate):
        os.close(fd)
    return [wait for (wait,) in _WAIT.iter_unpack(told[:])]


def _record(here: Places, job_id: str) -> float:
    files = JobFiles(here.controldir, job_id, "ACCEPTED")
    files.event_ns = NOON_NS
    files.local = LOCAL.replace(b"first", job_id.encode())
    begun = time.monotonic()
    try:
        record_event(here, files)
    except Exception:  # noqa: BLE001  whatever it is, it is counted
        return _FAILED
    return time.monotonic() - begun


def slowest(commands: list[list[str]]) -> float:
    """Start all programs at once; seconds until the last has ended."""
    begun = time.monotonic()
    for process in [subprocess.Popen(command, env={}, stdin=subprocess.DEVNULL) for command in commands]:
        if process.wait() != 0:
            raise subprocess.CalledProcessError(process.returncode, process.args)
    return time.monotonic() - begun
