"""All scenarios of power cuts by name, for the tests and for `python tests/bench power_cuts`."""

from __future__ import annotations

import functools
import os
import pathlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from power_cut_care import BackingUp, Beginning, Forgetting, Moving, Pruning, Restoring, Shrinking, Upgrading
from power_cut_fleet import Loading
from power_cut_hosts import (
    BesideARecorder,
    Draining,
    DrainingByPublish,
    DrainingLaunched,
    Launchers,
    Loss,
    Recording,
    Scenario,
    Sweeping,
    Swept,
)
from power_cut_imports import (
    AskingHTCondor,
    AskingSlurm,
    ImportingArex,
    ImportingGridEngine,
    ImportingHTCondor,
    ImportingLossyArex,
    ImportingSlurm,
    ImportingSonar,
)
from power_cut_positions import Exporting, Snapshotting
from power_cut_publishing import Publishing
from power_cuts import JOURNAL, STRICT, Cut

from arcacct.sandbox import Sandbox

FLEET_LOAD = "fleet load"
"""The only scenario that needs a server."""
WITH, WITHOUT = "with control files", "without control files"


def _publishing(directory: pathlib.Path, stack: ExitStack) -> Scenario:
    (directory / "box").mkdir()
    box = stack.enter_context(Sandbox(str(directory / "box")))
    # An EC key is read in no time.
    box.client = box.authority.issue("ce.example.org", stem="quick", rsa_key=False)
    return Publishing(directory, box)


def _recording(kind: type[Recording], control: bool) -> Callable[[pathlib.Path, ExitStack], Scenario]:
    return lambda directory, _stack: functools.partial(kind, control=control)(directory)


SCENARIOS = {
    f"draining what 0.2 spooled, {WITH}": _recording(Draining, True),
    f"draining what 0.2 spooled, {WITHOUT}": _recording(Draining, False),
    f"draining what the launcher spooled, {WITH}": _recording(DrainingLaunched, True),
    f"draining what the launcher spooled, {WITHOUT}": _recording(DrainingLaunched, False),
    f"publish drains what 0.2 spooled, {WITHOUT}": _recording(DrainingByPublish, False),
    f"launchers without a recorder, {WITH}": _recording(Launchers, True),
    f"launchers without a recorder, {WITHOUT}": _recording(Launchers, False),
    f"launchers and a recorder, {WITH}": _recording(BesideARecorder, True),
    f"launchers and a recorder, {WITHOUT}": _recording(BesideARecorder, False),
    f"a sweep, {WITH}": _recording(Sweeping, True),
    f"after a sweep, {WITHOUT}": _recording(Swept, False),
    f"the first sweep of a host, {WITH}": _recording(Beginning, True),
    "publishing": _publishing,
    "db backup": _recording(BackingUp, False),
    "db restore": _recording(Restoring, False),
    "db move": _recording(Moving, False),
    "db prune": _recording(Pruning, False),
    "db upgrade": _recording(Upgrading, False),
    "db forget": _recording(Forgetting, False),
    "db optimize --shrink": _recording(Shrinking, False),
    "export": _recording(Exporting, True),
    FLEET_LOAD: Loading,
    "db snapshot": _recording(Snapshotting, True),
    "import gridengine": _recording(ImportingGridEngine, True),
    "import slurm": _recording(ImportingSlurm, True),
    "import slurm --run": _recording(AskingSlurm, True),
    "import htcondor": _recording(ImportingHTCondor, True),
    "import htcondor --run": _recording(AskingHTCondor, True),
    "import arex": _recording(ImportingArex, True),
    "import arex, which loses what it wrote": _recording(ImportingLossyArex, True),
    "import sonar": _recording(ImportingSonar, True),
}
"""Each has to lose nothing."""


@contextmanager
def prepared(name: str) -> Iterator[Scenario]:
    """A scenario, traced, in a directory in memory where there is one."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="arcacct-cuts-", dir=where)))
        yield SCENARIOS[name](directory, stack)


def losses_by_cut(scenario: Scenario, count: int, seed: int = 1) -> dict[Cut, list[Loss]]:
    """What is lost by so many cuts under each rule; only the cuts that lost something."""
    cuts = [cut for rule in (JOURNAL, STRICT) for cut in scenario.cuts(count, rule, seed)]
    return {cut: lost for cut in cuts if (lost := scenario.losses(cut))}


def told(scenario: Scenario, found: dict[Cut, list[Loss]]) -> list[str]:
    """Each cut with the call that it followed, and what it cost."""
    lines = []
    for cut, lost in found.items():
        call = scenario.trace.calls[cut.after - 1] if cut.after else "nothing"
        counts = ", ".join(f"{number} {kind}" for kind, number in Counter(one.kind for one in lost).items())
        lines.append(f"{cut}, behind `{call}`: {counts} ({', '.join(one.about for one in lost[:3])}...)")
    return lines
