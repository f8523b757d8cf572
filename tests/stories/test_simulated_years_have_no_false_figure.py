"""
Years of a site with accidents: no receiver is wrong while everything is green, and no NO of `verify` is false.

``ARCACCT_SIMULATED_YEARS=N`` simulates N years of each of ``ARCACCT_SEEDS`` (numbers with commas); with ``-s`` the
numbers of each are printed, and with ``ARCACCT_STORY=1`` what happened.
"""

from __future__ import annotations

import os

import pytest
from simulated_years import Clock, Years, simulate, strangers

pytestmark = pytest.mark.campaign

YEARS = float(os.environ.get("ARCACCT_SIMULATED_YEARS") or 2 / 12)
SEEDS = [int(seed) for seed in (os.environ.get("ARCACCT_SEEDS") or "1,2").split(",")]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("number", [1, 2], ids=["one CE", "two CEs of one site"])
def test_years_of_accidents(memory, monkeypatch, seed, number) -> None:
    """After each accident and the operators' answers, and in the end: what is wrong is reported."""
    clock = Clock((2021, 1), monkeypatch)
    ces = [Years(memory / "first", seed, clock)]
    if number == 2:
        ces.append(Years(memory / "second", seed + 1000, clock, ces[0]))

    simulate(ces, YEARS)

    assert strangers(ces) == []
    for ce in ces:
        print(f"\nseed {seed}, {YEARS} years, {ce.site.hostname}\n{ce.summary()}")
        if os.environ.get("ARCACCT_STORY"):
            print("\n".join(ce.story))
        assert ce.wrong_and_green == []
        assert ce.complaints == []
        assert ce.false_answers()[0] == []
