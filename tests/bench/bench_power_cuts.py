"""Power cuts, replayed over everything that writes: how many of them lose something. The figures must be 0."""

from __future__ import annotations

import time
from collections import Counter

import strace
from figures import Figure
from postgresql_server import reason
from power_cut_scenarios import FLEET_LOAD, SCENARIOS, losses_by_cut, prepared, told

CUTS = {"smoke": 1, "small": 5, "large": 20}
"""Of each scenario under each of two rules."""


def bench(size: str) -> list[Figure]:
    """A figure for each scenario; with ``large`` each cut that lost something is told, too."""
    if strace.REASON:
        return [Figure("power cuts", 0, "", note=f"not done: {strace.REASON}")]
    # The tests play all of them: here it is enough that the benchmark runs.
    names = list(SCENARIOS)[:2] if size == "smoke" else SCENARIOS
    return [_figure(name, size) for name in names]


def _figure(name: str, size: str) -> Figure:
    if name == FLEET_LOAD and reason():
        return Figure(name, 0, "", note=f"not done: {reason()}")
    begun = time.monotonic()
    with prepared(name) as scenario:
        found = losses_by_cut(scenario, CUTS[size])
    if size == "large":
        print("\n".join(told(scenario, found)))
    kinds = Counter(loss.kind for lost in found.values() for loss in lost)
    notes = [f"{number} {kind}" for kind, number in kinds.items()]
    notes += [f"{len(scenario.trace.calls)} calls", f"{time.monotonic() - begun:.0f} s"]
    return Figure(name, len(found), f"of {2 * CUTS[size]} cuts", note=", ".join(notes))
