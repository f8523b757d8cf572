"""
Years of a site with accidents: no receiver is wrong while everything is green, and no NO of `verify` is false.

``ARCACCT_SIMULATED_YEARS=N`` simulates N years of each of ``ARCACCT_SEEDS`` (numbers with commas); with ``-s`` the
numbers of each are printed, and with ``ARCACCT_STORY=1`` what happened.
"""

from __future__ import annotations

import os

import pytest
from simulated_years import Years

YEARS = float(os.environ.get("ARCACCT_SIMULATED_YEARS") or 2 / 12)
SEEDS = [int(seed) for seed in (os.environ.get("ARCACCT_SEEDS") or "1,2").split(",")]


@pytest.mark.parametrize("seed", SEEDS)
def test_years_of_accidents(memory, monkeypatch, seed) -> None:
    """After each accident and the operator's answer, and in the end: what is wrong is reported."""
    years = Years(memory, seed, (2021, 1), monkeypatch)

    years.simulate(YEARS)

    print(f"\nseed {seed}, {YEARS} years\n{years.summary()}")
    if os.environ.get("ARCACCT_STORY"):
        print("\n".join(years.story))
    assert years.wrong_and_green == []
    assert years.complaints == []
    assert years.false_answers()[0] == []
