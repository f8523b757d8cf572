"""What a program takes of memory and CPU at most."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

_LAUNCHER = """
import os, resource, subprocess, sys
limit_s = int(sys.argv[1])
limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 1))
process = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=limit)
said = process.stderr.read()
_pid, status, usage = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
print(process.returncode, usage.ru_maxrss, usage.ru_utime + usage.ru_stime)
sys.stderr.buffer.write(said)
"""
_MOST_CPU_S = 600


class Cost(NamedTuple):
    """What a command took, with its children that it waited for."""

    peak_kib: int
    cpu_s: float
    stderr: str


def cost_of(*command: object, exit_code: int = 0, most_cpu_s: int = _MOST_CPU_S) -> Cost:
    """What a command takes; it must end with ``exit_code``, and is killed when it took ``most_cpu_s`` of CPU."""
    # A process starts with the peak of the one that started it: a small one between this and that.
    arguments = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(most_cpu_s), *map(str, command)]
    done = subprocess.run(arguments, capture_output=True, text=True, errors="backslashreplace", check=True)
    code, peak, cpu_s = done.stdout.split()
    assert int(code) == exit_code, f"exit code {code} after {cpu_s} s of CPU: {done.stderr[-2000:]}"
    return Cost(int(peak), float(cpu_s), done.stderr)


def peak_kib(*command: object, exit_code: int = 0) -> int:
    """The most that a command had in memory, in KiB; it must end with ``exit_code``."""
    return cost_of(*command, exit_code=exit_code).peak_kib
