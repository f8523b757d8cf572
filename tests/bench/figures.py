"""What a benchmark measures and how it is told: a table for people, JSON for programs."""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

ROUNDS = 3
"""Of ours and theirs in turns; who starts alternates: what a machine remembers of the one must not help the other."""


class Cost(NamedTuple):
    """What one process and its children cost."""

    cpu_s: float
    wall_s: float
    peak_mib: float
    exit_code: int


class Figure(NamedTuple):
    """
    One line of the table; ``peer`` is what the other program cost in the same run, or was recorded elsewhere.

    Of several rounds they are medians or the least ones, as the benchmark says, and ``ratios`` has each round's.
    """

    what: str
    ours: float
    unit: str
    peer: float | None = None
    note: str = ""
    ratios: tuple[float, ...] = ()

    @property
    def ratio(self) -> float | None:
        """How many times as much the peer costs; of several rounds their median."""
        if self.ratios:
            return statistics.median(self.ratios)
        return None if not self.peer or not self.ours else self.peer / self.ours

    @property
    def spread(self) -> str:
        """``4.3 to 5.2``: the rounds' lowest and highest ratio."""
        return f"{min(self.ratios):.1f} to {max(self.ratios):.1f}" if self.ratios else ""


class Turns(NamedTuple):
    """What rounds of ours and of theirs cost."""

    ours: list[Cost]
    theirs: list[Cost]

    def least(self, value: Callable[[Cost], float]) -> tuple[float, float | None]:
        """The least of one value on each side: whatever else a host does only adds to it."""
        return min(map(value, self.ours)), min(map(value, self.theirs), default=None)

    def figure(self, what: str, unit: str, value: Callable[[Cost], float], note: str = "") -> Figure:
        """The least of one value on each side, and the ratio of each round."""
        pairs = zip(map(value, self.ours), map(value, self.theirs), strict=False)
        mine, others = self.least(value)
        return Figure(what, mine, unit, others, note, tuple(other / one for one, other in pairs))


def in_turns(ours: Callable[[], Cost], theirs: Callable[[], Cost] | None, rounds: int = ROUNDS) -> Turns:
    """Run both so many times, alternating who starts; ours alone without a peer."""
    turns = Turns([], [])
    sides: Sequence[tuple[list[Cost], Callable[[], Cost]]] = [(turns.ours, ours)]
    if theirs is not None:
        sides = [*sides, (turns.theirs, theirs)]
    for _ in range(rounds):
        for costs, run in sides:
            costs.append(run())
        sides = sides[::-1]
    return turns


def cost_of(command: list[str], *, env: dict[str, str] | None = None, log: pathlib.Path | None = None) -> Cost:
    """Run a command to its end and say what it cost; its output goes into ``log``."""
    begun = time.monotonic()
    with open(log or os.devnull, "ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **(env or {})})
        _pid, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(usage.ru_utime + usage.ru_stime, time.monotonic() - begun, usage.ru_maxrss / 1024, process.returncode)


def cpu_of(pid: int) -> float:
    """CPU of a process so far, in seconds."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def table(figures: list[Figure]) -> str:
    """The figures for people."""
    wide = max([58, *(len(f"{figure.what} [{figure.unit}]") for figure in figures)])
    lines = [f"{'':{wide}} {'ours':>12} {'peer':>12} {'ratio':>7}"]
    for figure in figures:
        peer = "" if figure.peer is None else f"{figure.peer:12,.3f}"
        ratio = "" if figure.ratio is None else f"{figure.ratio:7.1f}"
        ratio += f"  ({figure.spread})" if figure.spread else ""
        what = f"{figure.what} [{figure.unit}]" if figure.unit else figure.what
        lines.append(f"{what:{wide}} {figure.ours:12,.3f} {peer:>12} {ratio:>7}  {figure.note}".rstrip())
    return "\n".join(lines)


def as_rows(figures: list[Figure]) -> list[dict[str, object]]:
    """The figures as values for JSON."""
    return [{**figure._asdict(), "ratio": figure.ratio, "spread": figure.spread} for figure in figures]


def as_json(figures: list[Figure]) -> str:
    """The figures for programs."""
    return json.dumps(as_rows(figures), indent=2)
