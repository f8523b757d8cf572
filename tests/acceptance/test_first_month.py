"""From nothing to a verified first month, by the commands as they are printed."""

from __future__ import annotations

from collections.abc import Iterator

import first_month
import pytest
from pip_hosts import PipRoad

from arcacct.sandbox import Sandbox


@pytest.fixture
def box(tmp_path) -> Iterator[Sandbox]:
    """The receivers."""
    with Sandbox(str(tmp_path / "box")) as made:
        yield made


@pytest.mark.parametrize(("arc", "by_setup"), [(6, False), (7, True)])
def test_a_checkout_leads_from_nothing_to_a_verified_month(tmp_path, box, arc, by_setup) -> None:
    """Installed by pip; recorded by the manual's steps, or by those that `arcacct setup` prints."""
    road = PipRoad(tmp_path / "host", arc, by_pip=not by_setup)
    try:
        found = first_month.first_month(road, box, by_setup=by_setup)
    finally:
        road.end_services()
    assert found.recorded[0]["month"] == first_month.MONTH
