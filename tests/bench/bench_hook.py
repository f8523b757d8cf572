"""
What the hook costs A-REX: whole lives of jobs, each state change one process of the installed program.

The program is installed from a wheel into an environment of its own. Its peer is the bare start of the same
interpreter, run in turns with it; the launcher that only spools has the same peer. Then many recorders at once, each a
process that has started already: what is measured is the wait for the database, from before it is opened to the commit.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import resource
import shutil
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import chain

from control_directory import set_up
from figures import Figure
from job_files import LOCAL, NOON_NS, Files, lay
from recorders import crowd, slowest

from arcacct.config.paths import Places, places
from arcacct.database.access import initialise

JOBS = {"smoke": 1, "small": 25, "large": 1700}
TRACED = {"smoke": 5, "small": 100, "large": 100}
"""How many hooks are looked at for what they sync."""
RECORDERS = {"smoke": (4, 2), "small": (200, 3), "large": (200, 20)}
"""How many at once, and how often."""
LIFE = ("ACCEPTED", "ACCEPTED", "PREPARING", "SUBMIT", "FINISHING", "FINISHED")
PROJECT = pathlib.Path(__file__).parent.parent.parent
_WAL_HEADER, _FRAME_HEADER = 32, 24


def bench(size: str) -> list[Figure]:
    """The figures."""
    # A hook may leave a process that looks after the database for a moment: it may still write there.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        scripts = installed(folder)
        return [*_figures(folder, scripts, JOBS[size], TRACED[size]), *_at_once(folder, scripts, *RECORDERS[size])]


def installed(folder: pathlib.Path) -> pathlib.Path:
    """Build the wheel and install it alone; returns the directory of its programs."""
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*wheel, str(PROJECT)], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    (built,) = folder.glob("*.whl")
    pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(built)], check=True)
    return folder / "venv" / "bin"


def _figures(folder: pathlib.Path, scripts: pathlib.Path, jobs: int, traced: int) -> list[Figure]:
    control, conf = folder / "control", folder / "arc.conf"
    control.mkdir()
    conf.write_text("[common]\n[lrms]\nbenchmark=HEPSPEC:11.11\n")
    (folder / "arcacct.conf").write_text("[arcacct]\n")
    here = places(None, set_up(control))
    initialise(here)
    costs: dict[str, list[float]] = {}
    largest_wal = commits = 0
    for number in range(jobs):
        job_id = f"J{number:053}"
        for step, state in enumerate(LIFE):
            lay(control, Files(state, NOON_NS + step * 10**9, local=LOCAL.replace(b"first", job_id.encode())), job_id)
            before = _commits(here)
            costs.setdefault(state, []).append(
                _cpu_ms([str(scripts / "arcacct-record"), str(control), job_id, state, str(conf)])
            )
            costs.setdefault("bare", []).append(_cpu_ms([str(scripts / "python"), "-c", "pass"]))
            commits = max(commits, _commits(here) - before)
            largest_wal = max(largest_wal, _size(here.database + "-wal"))
        launcher = ["/bin/sh", str(PROJECT / "etc" / "arcacct-hook"), "spool-only", str(control), job_id, "FINISHED"]
        # With all the files of a job that has ended.
        costs.setdefault("launcher", []).append(_cpu_ms(launcher))
    spooled = len(os.listdir(here.spool)) - jobs
    bare = statistics.median(costs["bare"])
    hooks = [cost for state in dict.fromkeys(LIFE) for cost in costs[state]]
    note = f"{len(hooks)} hooks, {spooled} of them spooled"
    return [
        _figure("hook: CPU, all states of a life", hooks, bare, note),
        *(_figure(f"hook: CPU of {state}", costs[state], bare) for state in dict.fromkeys(LIFE)),
        _figure("hook: CPU of the launcher that only spools", costs["launcher"], bare),
        *_syncs(folder, scripts, traced),
        *_hostile(folder, scripts),
        _burst(folder, scripts),
        Figure("hook: transactions of a hook, at most", commits, ""),
        Figure("hook: largest -wal", largest_wal / 1024, "KiB", note=note),
    ]


def _syncs(folder: pathlib.Path, scripts: pathlib.Path, hooks: int) -> list[Figure]:
    """Syncs that A-REX waits for, and those of the children it knows nothing of; none where strace may not be used."""
    control, trace = folder / "control", folder / "trace"
    strace = ["strace", "-ff", "-qq", "-o", str(trace), "-e", "trace=fsync,fdatasync,sync_file_range,msync"]
    if not shutil.which("strace") or subprocess.run([*strace, "true"], capture_output=True, check=False).returncode:
        return []
    waited_for = apart = 0
    for number in range(hooks):
        job_id = f"T{number:053}"
        lay(control, Files(mtime_ns=NOON_NS, local=LOCAL.replace(b"first", job_id.encode())), job_id)
        for left in folder.glob("trace.*"):
            left.unlink()
        command = [str(scripts / "arcacct-record"), str(control), job_id, "FINISHED", str(folder / "arc.conf")]
        subprocess.run([*strace, *command], env={}, stdin=subprocess.DEVNULL, check=True)
        # A file for each process: strace begins with the one that A-REX would start.
        first, *others = sorted(folder.glob("trace.*"), key=lambda path: int(path.suffix[1:]))
        waited_for += first.read_text().count("sync(")
        apart += sum(path.read_text().count("sync(") for path in others)
    note = f"{hooks} FINISHED in a row, {apart} syncs by children that nobody waits for"
    return [Figure("hook: syncs that A-REX waits for, of a hook", waited_for / hooks, "", note=note)]


def _hostile(folder: pathlib.Path, scripts: pathlib.Path) -> Iterator[Figure]:
    """A .diag of 16 MiB: one line, and many repeated ones; the peer is the bare start of the interpreter."""
    control = folder / "control"
    here = places(None, set_up(control))
    texts = {
        "of one line": b"systemsoftware=" + b"x" * 16_000_000 + b"\nexitcode=0\n",
        "of 480,000 lines": b"LRMSStartTime=20261120111000Z\n" * 480_000 + b"exitcode=0\n",
    }
    bare = _used([str(scripts / "python"), "-c", "pass"])
    for number, (what, diag) in enumerate(texts.items()):
        job_id = f"H{number:053}"
        lay(control, Files(mtime_ns=NOON_NS, diag=diag), job_id)
        before = _stored(here)
        used = _used([str(scripts / "arcacct-record"), str(control), job_id, "FINISHED", str(folder / "arc.conf")])
        yield Figure(f"hook: peak memory, .diag {what}", used[0], "MiB", bare[0])
        yield Figure(f"hook: CPU, .diag {what}", used[1], "ms", bare[1])
        yield Figure(f"hook: bytes stored, .diag {what}", (_stored(here) - before) / 1024, "KiB")


_MEASURED = """
import os, resource, sys
os.waitpid(os.posix_spawn(sys.argv[1], sys.argv[1:], {}), 0)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_maxrss / 1024, (used.ru_utime + used.ru_stime) * 1000)
"""


def _used(command: list[str]) -> tuple[float, float]:
    """Peak memory in MiB and CPU in ms; started from a small process, since a child begins as large as its parent."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", _MEASURED, *command], capture_output=True, check=True)
    mib, ms = done.stdout.split()
    return float(mib), float(ms)


def _stored(here: Places) -> int:
    """Bytes of all texts and numbers of the database, as SQLite would write them out."""
    with closing(sqlite3.connect(f"file:{here.database}?mode=ro", uri=True)) as con:
        return sum(len(line) for line in con.iterdump())


def _burst(folder: pathlib.Path, scripts: pathlib.Path) -> Figure:
    """Twenty events one after the other, as A-REX's only loop has them, while a stopped process holds the queue."""
    control, conf = folder / "control", folder / "arc.conf"
    here = places(None, set_up(control))
    waits = []
    environment = {"PATH": "/usr/bin:/bin", "ARCACCT_RECORD": str(scripts / "arcacct-record")}
    launcher = ["/bin/sh", str(PROJECT / "etc" / "arcacct-hook")]
    with open(here.queue_lock, "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for number in range(20):
            job_id = f"B{number:053}"
            lay(control, Files("SUBMIT"), job_id)
            begun = time.monotonic()
            command = [*launcher, str(control), job_id, "SUBMIT", str(conf)]
            subprocess.run(command, env=environment, capture_output=True, check=True)
            waits.append(time.monotonic() - begun)
    os.unlink(here.breaker)
    note = (
        f"deadline {here.deadline_s:g} s; the longest {max(waits):.2f} s, then {statistics.median(waits) * 1000:.0f} ms"
    )
    return Figure("hook: twenty events while the queue is held, all together", sum(waits), "s", note=note)


def _at_once(folder: pathlib.Path, scripts: pathlib.Path, recorders: int, rounds: int) -> Iterator[Figure]:
    found = crowd(folder / "crowd", recorders, rounds)
    worst = [max(waits, default=float("nan")) for waits in found.rounds_s]
    note = f"{recorders} at once, {rounds} times: {found.sent} sent, {found.stored} stored, {found.errors} errors"
    yield Figure("hook: worst wait of a recorder, quietest round", min(worst), "s", note=note)
    yield Figure("hook: worst wait of a recorder, all rounds", max(worst), "s", note="all share the processors")
    yield Figure("hook: median wait of a recorder", statistics.median(chain.from_iterable(found.rounds_s)), "s")
    control = folder / "control"
    commands = []
    for number in range(recorders):
        job_id = f"C{number:053}"
        lay(control, Files(mtime_ns=NOON_NS, local=LOCAL.replace(b"first", job_id.encode())), job_id)
        commands.append([str(scripts / "arcacct-record"), str(control), job_id, "FINISHED", str(folder / "arc.conf")])
    spool = pathlib.Path(places(None, set_up(control)).spool)
    before = len(os.listdir(spool))
    wall_s = slowest(commands)
    note = f"{recorders} whole processes started at once, {len(os.listdir(spool)) - before} of them spooled"
    yield Figure("hook: until the last of a crowd has ended", wall_s, "s", note=note)


def _figure(what: str, costs: list[float], bare: float, note: str = "") -> Figure:
    median = statistics.median(costs)
    told = f"{median / bare:.2f} x python -c pass"
    return Figure(what, median, "ms", bare, f"{told}; {note}" if note else told)


def _cpu_ms(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env={}, stdin=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def _commits(here: Places) -> int:
    """The transactions in the WAL: frames that carry the size of the database, up to where the salts change."""
    try:
        content = pathlib.Path(here.database + "-wal").read_bytes()
    except FileNotFoundError:
        return 0
    if len(content) < _WAL_HEADER:
        return 0
    page_size = struct.unpack(">I", content[8:12])[0]
    frames = range(_WAL_HEADER, len(content) - _FRAME_HEADER - page_size + 1, _FRAME_HEADER + page_size)
    return sum(content[at + 4 : at + 8] != bytes(4) for at in frames if content[at + 8 : at + 16] == content[16:24])


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    from figures import table

    print(table(bench("small")))
