"""What a program takes of memory at most."""

from __future__ import annotations

import subprocess
import sys

_LAUNCHER = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
said = process.stderr.read()
_pid, status, usage = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
print(process.returncode, usage.ru_maxrss)
sys.stderr.buffer.write(said)
"""


def peak_kib(*command: object, exit_code: int = 0) -> int:
    """The most that a command had in memory, in KiB; it has to end with ``exit_code``."""
    # A process begins with the peak of the one that started it: a small one between this and that.
    arguments = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *map(str, command)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    code, peak = map(int, done.stdout.split())
    assert code == exit_code, done.stderr
    return peak
