"""
The power is cut while launchers, a recorder, sweep or publish are at work: nothing is lost, nothing counted twice.

``ARCACCT_POWER_CUTS=N`` cuts about N times in all; `python tests/bench power_cuts` prints a table of them.
"""

from __future__ import annotations

import os

import pytest
from postgresql_server import reason
from power_cut_scenarios import FLEET_LOAD, SCENARIOS, losses_by_cut, prepared, told
from power_cuts import Cut
from strace import strace_only

pytestmark = pytest.mark.campaign

CUTS = max(4, round(int(os.environ.get("ARCACCT_POWER_CUTS", "0")) / (2 * len(SCENARIOS))))
"""Of each scenario under each rule."""


@strace_only
@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_is_lost(name: str) -> None:
    """
    Whatever is left of unsynced contents and names, the next sweep or run makes everything as if nothing had happened.

    With the control files as A-REX leaves them, and without those of jobs whose events had been taken.
    """
    if name == FLEET_LOAD and reason():
        pytest.skip(reason())
    with prepared(name) as scenario:
        assert scenario.trace.exit_code == 0, scenario.trace.stderr
        assert scenario.losses(Cut(len(scenario.trace.calls), data="all")) == []
        found = losses_by_cut(scenario, CUTS)

    assert told(scenario, found) == []
