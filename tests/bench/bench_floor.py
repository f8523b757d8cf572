"""
The floor: what it costs that published figures do not fall, after a short history and after a long one.

A run with nothing new has to cost the same after both. A filter that is mistyped holds every month: of records the
whole log is gone through, also by each run until it is mended, and by the one that finds it mended. Every history was
published before, by the program itself; the peer of each figure is ours after the short one.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterator

from bench_publish import APEL, SGAS, configure, receivers
from figures import Cost, Figure, cost_of
from generate import Look, generate

SIZES = {"smoke": (300, 600), "small": (20_000, 200_000), "large": (200_000, 1_000_000)}
ARCACCT = os.path.join(os.path.dirname(sys.executable), "arcacct")
RUNS = {"smoke": 1, "small": 3, "large": 3}
"""Of each thing the cheapest run counts, where it can be done again."""
HELD = 69
_MISTYPED = "vofilter=atals\n"


def bench(size: str) -> list[Figure]:
    """One row for each thing done: CPU after the long history next to CPU after the short one."""
    short, long = SIZES[size]
    after_short, after_long = (_costs(jobs, RUNS[size]) for jobs in (short, long))
    return [
        Figure(f"{what} after {long:,} jobs", cost.cpu_s, "CPU s", after_short[what][0].cpu_s, _note(short, cost, code))
        for what, (cost, code) in after_long.items()
    ]


def _note(short: int, cost: Cost, code: int) -> str:
    failed = "" if cost.exit_code == code else f", FAILED with {cost.exit_code}"
    return f"peer: after {short:,}; {cost.peak_mib:.0f} MiB{failed}"


def _costs(jobs: int, runs: int) -> dict[str, tuple[Cost, int]]:
    """What each thing cost, and the exit code that it has to have."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        site = folder / "site"
        generate(site, jobs, Look(children=False))
        with receivers(folder / "box") as box:
            return {
                f"{what}, {kind}": found
                for kind, target in (
                    ("SGAS", SGAS.format(sgas=box["sgas"])),
                    ("summaries", APEL.format(ams=box["ams"], messages="summaries")),
                )
                for what, found in _measured(site, box, target, runs)
            }


def _measured(
    site: pathlib.Path, box: dict[str, str], target: str, runs: int
) -> Iterator[tuple[str, tuple[Cost, int]]]:
    configure(site, box, target)
    _run(site, "--since", "2026-01-01")
    yield "nothing new", (_cheapest(runs, lambda: _run(site)), 0)
    configure(site, box, target + _MISTYPED)
    yield "a mistyped filter is noticed", (_run(site), HELD)
    yield "a run while it is held", (_cheapest(runs, lambda: _run(site)), HELD)
    configure(site, box, target)
    yield "the run that finds it mended", (_run(site), 0)
    yield "nothing new afterwards", (_cheapest(runs, lambda: _run(site)), 0)


def _cheapest(runs: int, measure: Callable[[], Cost]) -> Cost:
    return min((measure() for _ in range(runs)), key=lambda cost: cost.cpu_s)


def _run(site: pathlib.Path, *arguments: str) -> Cost:
    command = [ARCACCT, "--config", str(site / "arc.conf"), "publish", "--now", *arguments]
    return cost_of(command, log=site / "ours.log")
