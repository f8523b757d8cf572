"""From nothing to a verified first month, by the commands as they are printed; tests/packages does it with packages."""

from __future__ import annotations

import first_month
import pytest
from pip_hosts import PipRoad


@pytest.mark.parametrize("arc", [pytest.param(6, marks=pytest.mark.campaign), 7])
def test_a_checkout_leads_from_nothing_to_a_verified_month(tmp_path, arc) -> None:
    """By the steps of the manual, or by those that `arcacct setup` prints; the figures are the same."""
    found = []
    for by_setup in (False, True):
        road = PipRoad(tmp_path / f"host-{by_setup}", arc, by_pip=arc == 6 and not by_setup)
        try:
            found.append(first_month.first_month(road, tmp_path / f"box-{by_setup}", by_setup=by_setup))
        finally:
            road.end_services()
    assert found[0] == found[1]
