"""A-REX calls the launcher, again and again, whatever a package manager does meanwhile."""

from __future__ import annotations

import subprocess

from package_hosts import CONTROL, LAUNCHER, Host

_CALLS = """
import itertools, os, subprocess, sys

launcher, control, *jobs = sys.argv[1:]
calls = 0
print("begun", flush=True)
for job in itertools.cycle(jobs):
    try:
        code = subprocess.run([launcher, control, job, "FINISHED"], stderr=subprocess.DEVNULL).returncode
    except OSError as error:
        sys.exit(f"call {calls} could not be started: {error}")
    if code:
        sys.exit(f"call {calls} ended with {code}")
    calls += 1
    if calls >= len(jobs) and os.path.exists("/tmp/enough"):
        print(calls)
        break
"""


class Calls:
    """A-REX calls the launcher all the time, with events of real jobs, while a block runs."""

    def __init__(self, ce: Host, jobs: list[str]) -> None:
        self.ce, self.jobs = ce, jobs
        self.count = 0

    def __enter__(self) -> Calls:
        self.ce.inside("/tmp/enough").unlink(missing_ok=True)
        command = [*self.ce.prefix, "python3", "-c", _CALLS, LAUNCHER, CONTROL, *self.jobs]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
        assert self.process.stdout
        assert self.process.stdout.readline() == "begun\n"
        return self

    def __exit__(self, *_: object) -> None:
        self.ce.inside("/tmp/enough").touch()
        out, err = self.process.communicate()
        assert self.process.returncode == 0, err
        self.count = int(out)
