"""
What A-REX waits for: the callouts of whole lives of jobs, one after the other as its only loop has them.

In turns, job by job: `/bin/true`, the launcher that starts the hook, the one that only spools, and the one beside a
recorder. The wait is that of who starts the program; CPU is that of all that it starts, also what goes on when
it has ended, but not the recorder's, which is a figure of its own.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from bench_hook import PROJECT, installed  # noqa: E402  after the path is set
from control_directory import set_up  # noqa: E402
from figures import Figure  # noqa: E402
from job_files import LOCAL, Files, lay  # noqa: E402

from arcacct.arex.resident import BEAT  # noqa: E402
from arcacct.config.paths import places  # noqa: E402
from arcacct.database.access import initialise  # noqa: E402

JOBS = {"smoke": 2, "small": 100, "large": 500}
TRUE, DIRECT, SPOOLED, RECORDER = WAYS = ("/bin/true", "direct", "spool-only", "recorder")
# By REST the first call is before there is a status file.
LIFE = ("ACCEPTED", "ACCEPTED", "PREPARING", "SUBMIT", "FINISHING", "FINISHED")
_SUBREAPER = 36


def bench(size: str) -> list[Figure]:
    """The figures."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        scripts = installed(folder)
        for way in WAYS[1:]:
            (folder / way).mkdir()
            initialise(places(None, set_up(folder / way / "control")))
            (folder / way / "arc.conf").write_text(f"[arex]\ncontroldir={folder / way / 'control'}\n")
            (folder / way / "arcacct.conf").write_text("[arcacct]\n")
        arcacct = pathlib.Path(sys.executable).parent / "arcacct"
        command = [str(arcacct), "--config", str(folder / RECORDER / "arc.conf"), "sweep", "--follow"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as recorder:
            here = places(None, str(folder / RECORDER / "control"))
            beat = pathlib.Path(here.spool) / BEAT
            while not beat.exists():
                time.sleep(0.05)
            before_s = _cpu_of(recorder.pid)
            measuring = [sys.executable, __file__, str(folder), str(scripts / "arcacct-record"), str(JOBS[size])]
            done = subprocess.run(measuring, stdout=subprocess.PIPE, check=True)
            while any(name[:1].isdigit() for name in os.listdir(here.spool)):
                time.sleep(0.05)
            recorder_ms = (_cpu_of(recorder.pid) - before_s) * 1000 / (JOBS[size] * (len(LIFE) - 1))
            execs = {way: _execs(folder, way, scripts / "arcacct-record") for way in WAYS[1:]}
            recorder.send_signal(signal.SIGTERM)
        found = json.loads(done.stdout)
    return [*_figures(found, execs, JOBS[size]), Figure("callouts: CPU of the recorder, an event", recorder_ms, "ms")]


def _figures(found: dict[str, dict[str, list[float]]], execs: dict[str, int | None], jobs: int) -> list[Figure]:
    waits = {
        way: [statistics.fmean(one) for one in zip(*(found[way][f"wait {n}"] for n in _N), strict=True)] for way in WAYS
    }
    true_ms = statistics.median(waits[TRUE])
    true_cpu = statistics.fmean(found[TRUE]["cpu"])
    figures = []
    for way in WAYS[1:]:
        median = statistics.median(waits[way])
        states = ", ".join(f"{state} {statistics.median(found[way][f'wait {n}']):.1f}" for n, state in enumerate(LIFE))
        note = f"{median / true_ms:.1f} x /bin/true; median of {jobs} jobs, by state: {states}"
        figures.append(Figure(f"callouts: wait of A-REX for one, {way}", median, "ms", true_ms, note))
        cpu = statistics.fmean(found[way]["cpu"])
        note = f"{cpu / true_cpu:.1f} x /bin/true"
        if execs[way] is not None:
            note += f"; {execs[way]} programs started in a life of {len(LIFE)} callouts"
        figures.append(Figure(f"callouts: CPU of one, {way}", cpu, "ms", true_cpu, note))
    return figures


_N = range(len(LIFE))


def _command(folder: pathlib.Path, way: str, job_id: str, state: str) -> list[str]:
    if way == TRUE:
        return [TRUE]
    launcher = ["/bin/sh", str(PROJECT / "etc" / "arcacct-hook"), *(["spool-only"] if way == SPOOLED else [])]
    return [*launcher, str(folder / way / "control"), job_id, state, str(folder / way / "arc.conf")]


def _lay(folder: pathlib.Path, way: str, job_id: str, step: int) -> None:
    """The files of a job in the state of a callout, as A-REX has them at that moment."""
    if way != TRUE:
        control = folder / way / "control"
        files = Files(LIFE[step], time.time_ns(), local=LOCAL.replace(b"first", job_id.encode()))
        lay(control, files._replace(status=None) if step == 0 else files, job_id)


def _execs(folder: pathlib.Path, way: str, record: pathlib.Path) -> int | None:
    """How many programs a life starts, the launcher itself among them; ``None`` where strace may not be used."""
    if not shutil.which("strace"):
        return None
    started = 0
    for step, state in enumerate(LIFE):
        _lay(folder, way, f"T{0:053}", step)
        command = ["strace", "-f", "-qq", "-e", "trace=execve", *_command(folder, way, f"T{0:053}", state)]
        done = subprocess.run(command, env=_environment(str(record)), capture_output=True, text=True, check=False)
        started += sum("execve(" in line and line.endswith(" = 0") for line in done.stderr.splitlines())
    return started or None


def _environment(record: str) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "ARCACCT_RECORD": record}


def _cpu_of(pid: int) -> float:
    """CPU of a process so far, in seconds."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _measure(folder: pathlib.Path, record: str, jobs: int) -> None:
    """In a process of its own, which inherits all that a launcher leaves behind; prints what was found, as JSON."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)
    found: dict[str, dict[str, list[float]]] = {way: {"cpu": []} for way in WAYS}
    for number in range(jobs):
        job_id = f"J{number:053}"
        for way in WAYS:
            cpu = 0.0
            for step, state in enumerate(LIFE):
                _lay(folder, way, job_id, step)
                command = _command(folder, way, job_id, state)
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                begun = time.perf_counter()
                os.waitpid(os.posix_spawn(command[0], command, _environment(record)), 0)
                found[way].setdefault(f"wait {step}", []).append((time.perf_counter() - begun) * 1000)
                with suppress(ChildProcessError):
                    while True:
                        os.wait()
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                cpu += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            found[way]["cpu"].append(cpu * 1000 / len(LIFE))
    print(json.dumps(found))


if __name__ == "__main__":
    _measure(pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
