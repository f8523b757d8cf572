"""What a benchmark measures and how it is told: a table for people, JSON for programs."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import time
from typing import NamedTuple


class Cost(NamedTuple):
    """What one process and its children cost."""

    cpu_s: float
    wall_s: float
    peak_mib: float
    exit_code: int


class Figure(NamedTuple):
    """One line of the table; ``peer`` is what the other program cost in the same run, or was recorded elsewhere."""

    what: str
    ours: float
    unit: str
    peer: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return None if not self.peer or not self.ours else self.peer / self.ours


def cost_of(command: list[str], *, env: dict[str, str] | None = None, log: pathlib.Path | None = None) -> Cost:
    """Run a command to its end and say what it cost; its output goes into ``log``."""
    begun = time.monotonic()
    with open(log or os.devnull, "ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **(env or {})})
        _pid, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(usage.ru_utime + usage.ru_stime, time.monotonic() - begun, usage.ru_maxrss / 1024, process.returncode)


def table(figures: list[Figure]) -> str:
    """The figures for people."""
    lines = [f"{'':58} {'ours':>12} {'peer':>12} {'ratio':>7}"]
    for figure in figures:
        peer = "" if figure.peer is None else f"{figure.peer:12,.3f}"
        ratio = "" if figure.ratio is None else f"{figure.ratio:7.1f}"
        what = f"{figure.what} [{figure.unit}]" if figure.unit else figure.what
        lines.append(f"{what:58} {figure.ours:12,.3f} {peer:>12} {ratio:>7}  {figure.note}".rstrip())
    return "\n".join(lines)


def as_json(figures: list[Figure]) -> str:
    """The figures for programs."""
    return json.dumps([{**figure._asdict(), "ratio": figure.ratio} for figure in figures], indent=2)
