"""
What A-REX waits for: the launcher for SUBMIT, for the other states, and for FINISHED, next to `/bin/true`, in turns.

A-REX starts a program, and waits for its exit and until its pipes are closed. First each callout is alone on the host,
then many are started together. CPU is that of all that a callout starts, also of what continues when it has ended; that
of the recorder, which is not there meanwhile, is a figure of its own.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from control_directory import set_up  # noqa: E402  after the path is set
from figures import Figure, cpu_of  # noqa: E402
from job_files import LOCAL, Files, lay  # noqa: E402

from arcacct.arex import resident  # noqa: E402
from arcacct.config.paths import Places, places  # noqa: E402
from arcacct.database.access import initialise  # noqa: E402
from arcacct.files.directories import resource as resource_file  # noqa: E402


class Size(NamedTuple):
    """How often what is measured."""

    rounds: int
    calls: int
    """Of each kind in a round, alone."""
    together: int
    crowds: int
    events: int
    """For the recorder, in each of the two ways."""


SIZES = {"smoke": Size(2, 2, 4, 1, 4), "small": Size(10, 20, 100, 10, 200), "large": Size(20, 50, 100, 40, 1000)}
TRUE, SUBMIT, OTHERS, FINISHED = KINDS = ("/bin/true", "SUBMIT", "other states", "FINISHED")
STATES = {SUBMIT: ("SUBMIT",), OTHERS: ("ACCEPTED", "PREPARING", "INLRMS", "FINISHING"), FINISHED: ("FINISHED",)}
CROWDS = (TRUE, SUBMIT, FINISHED)
_SUBREAPER = 36
_ENVIRONMENT = {"PATH": "/usr/bin:/bin"}

Found = dict[str, dict[str, list[float]]]
"""By what was measured and kind of callout: the value of each round."""


def bench(size: str) -> list[Figure]:
    """The figures."""
    counts = SIZES[size]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        here = places(None, set_up(folder / "control"))
        initialise(here)
        (folder / "arc.conf").write_text(f"[arex]\ncontroldir={folder}/control\n")
        (folder / "arcacct.conf").write_text("[arcacct]\n")
        shutil.copy(resource_file("etc", "arcacct-hook"), folder / "arcacct-hook")
        (folder / "arcacct-hook").chmod(0o755)
        found: Found = json.loads(_measured(folder, "waits", size))
        recorder = [*_of_recorder(folder, here, counts.events)]
    waits = f"of {counts.rounds * counts.calls} callouts, each alone"
    crowds = f"{counts.together} jobs at once, {counts.crowds} times"
    return [
        *(_figure(kind, "median wait", found["median"], waits) for kind in KINDS[1:]),
        *(_figure(kind, "least wait", found["minimum"], waits) for kind in KINDS[1:]),
        *(_figure(kind, f"average wait of {counts.together}", found["crowd"], crowds) for kind in CROWDS[1:]),
        *(_figure(kind, "CPU", found["cpu"], "") for kind in KINDS[1:]),
        *recorder,
    ]


def _figure(kind: str, what: str, found: dict[str, list[float]], note: str) -> Figure:
    """Medians of the rounds; of the least waits the least. The ratio of each round says how much these differ."""
    ours, peers = found[kind], found[TRUE]
    middle = min if what == "least wait" else statistics.median
    ratios = tuple(peer / one for one, peer in zip(ours, peers, strict=True))
    times = [1 / ratio for ratio in ratios]
    told = f"{statistics.median(times):.2f} x /bin/true ({min(times):.2f} to {max(times):.2f})"
    note = ", ".join(filter(None, (told, note)))
    return Figure(f"callout, {kind}: {what}", middle(ours), "ms", middle(peers), note, ratios)


def _measured(folder: pathlib.Path, what: str, size: str) -> str:
    command = [sys.executable, __file__, str(folder), what, size]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def _of_recorder(folder: pathlib.Path, here: Places, events: int) -> list[Figure]:
    """Its CPU for each event, one after the other and many at once, and its memory."""
    arcacct = pathlib.Path(sys.executable).parent / "arcacct"
    command = [str(arcacct), "--config", str(folder / "arc.conf"), "sweep", "--follow"]
    figures = []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as recorder:
        while (seen := resident.seen(here)) is None or seen.process is None:
            time.sleep(0.05)
        time.sleep(1)
        for what in ("one after the other", "many at once"):
            before_s = cpu_of(recorder.pid)
            if what == "many at once":
                recorder.send_signal(signal.SIGSTOP)
            _measured(folder, what, str(events))
            recorder.send_signal(signal.SIGCONT)
            while any(name.removeprefix(".tmp-")[:1].isdigit() for name in os.listdir(here.spool)):
                time.sleep(0.05)
            cpu_ms = (cpu_of(recorder.pid) - before_s) * 1000 / events
            figures.append(Figure(f"recorder, an event, {what}: CPU", cpu_ms, "ms", note=f"of {events}"))
        (peak_kib,) = re.findall(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{recorder.pid}/status").read_text())
        figures.append(Figure("recorder: peak memory", int(peak_kib) / 1024, "MiB", note=f"after {2 * events} events"))
        recorder.send_signal(signal.SIGTERM)
    return figures


# What follows is done in a process of its own, which inherits all that a launcher leaves behind.


class _Host:
    """The control directory, with jobs as A-REX has them at the moment of a callout."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._control = folder / "control"
        self._launcher = str(folder / "arcacct-hook")
        self._number = 0

    def command(self, kind: str) -> list[str]:
        """A callout of a job of its own."""
        if kind == TRUE:
            return [TRUE]
        self._number += 1
        state = STATES[kind][self._number % len(STATES[kind])]
        job_id = f"J{os.getpid():010}{self._number:043}"
        lay(self._control, Files(state, time.time_ns(), local=LOCAL.replace(b"first", job_id.encode())), job_id)
        return [self._launcher, str(self._control), job_id, state]

    def tidy(self) -> None:
        """Wait for what callouts have left behind, and remove the events and the jobs."""
        _reap()
        for path in (*self._control.glob("accounting/arcacct/spool/*-J*"), *self._control.glob("*/*.status")):
            path.unlink()
        for path in self._control.glob("job.*"):
            path.unlink()


def _reap() -> None:
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _waited_for(command: list[str]) -> float:
    """Milliseconds until a callout has ended and closed its pipes."""
    begun = time.perf_counter()
    readable, writable = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, writable, 1), (os.POSIX_SPAWN_DUP2, writable, 2)]
    pid = os.posix_spawn(command[0], command, _ENVIRONMENT, file_actions=actions)
    os.close(writable)
    while os.read(readable, 4096):
        pass
    _, status = os.waitpid(pid, 0)
    waited_ms = (time.perf_counter() - begun) * 1000
    os.close(readable)
    assert status == 0, command
    return waited_ms


def _crowd(commands: Sequence[list[str]]) -> float:
    """All callouts begin together: the average of the milliseconds until each has ended and closed its pipes."""
    gate, opened = os.pipe()
    waiting = {}
    for command in commands:
        readable, writable = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(opened)
            os.dup2(writable, 1)
            os.dup2(writable, 2)
            # All are let go at once: by the end of the file.
            os.read(gate, 1)
            os.execve(command[0], command, _ENVIRONMENT)
        os.close(writable)
        waiting[readable] = pid
    # All have come to the gate.
    time.sleep(0.2)
    poll = select.poll()
    for fd in waiting:
        poll.register(fd, select.POLLIN | select.POLLHUP)
    waits_ms = []
    begun = time.perf_counter()
    os.close(opened)
    while waiting:
        for fd, _event in poll.poll():
            if not os.read(fd, 4096):
                _, status = os.waitpid(waiting.pop(fd), 0)
                waits_ms.append((time.perf_counter() - begun) * 1000)
                assert status == 0
                poll.unregister(fd)
                os.close(fd)
    os.close(gate)
    return statistics.fmean(waits_ms)


def _waits(host: _Host, size: Size) -> Found:
    found: Found = {what: {kind: [] for kind in KINDS} for what in ("median", "minimum", "crowd", "cpu")}
    for number in range(size.rounds):
        waits: dict[str, list[float]] = {kind: [] for kind in KINDS}
        cpu_s = dict.fromkeys(KINDS, 0.0)
        for call in range(size.calls):
            for kind in _in_turn(KINDS, number + call):
                command = host.command(kind)
                before_s = _cpu_of_children()
                waits[kind].append(_waited_for(command))
                _reap()
                cpu_s[kind] += _cpu_of_children() - before_s
        host.tidy()
        for kind in KINDS:
            found["median"][kind].append(statistics.median(waits[kind]))
            found["minimum"][kind].append(min(waits[kind]))
            found["cpu"][kind].append(cpu_s[kind] * 1000 / size.calls)
    # Or the first thing that each fork does is to make a copy of our memory.
    gc.freeze()
    for number in range(size.crowds):
        for kind in _in_turn(CROWDS, number):
            found["crowd"][kind].append(_crowd([host.command(kind) for _ in range(size.together)]))
            host.tidy()
    return found


def _in_turn(kinds: Sequence[str], number: int) -> list[str]:
    """What a machine remembers of the one must not help the other."""
    first = number % len(kinds)
    return [*kinds[first:], *kinds[:first]]


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _main(folder: str, what: str, size: str) -> None:
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)
    host = _Host(pathlib.Path(folder))
    if what == "waits":
        print(json.dumps(_waits(host, SIZES[size])))
        return
    for number in range(int(size)):
        _waited_for(host.command(FINISHED if number % 5 == 4 else OTHERS))
        if what == "one after the other":
            time.sleep(0.05)
    _reap()


if __name__ == "__main__":
    _main(*sys.argv[1:])
