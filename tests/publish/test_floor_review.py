"""Several things at once around a run: no receiver's figures fall for it, and nothing that was held is forgotten."""

from __future__ import annotations

import pathlib

import pytest
from publishing_site import SUMMARIES, Site, jobs

from arcacct.errors import FiguresHeld

JUNE_2024 = (2024, 6)


def at_portal(site: Site, name: str = "SITE") -> dict[tuple[int, int], tuple[int, int]]:
    """Jobs and wall seconds of each month, as APEL's portal would show them."""
    return {
        (year, month): (total.jobs, total.wall_s)
        for (found, year, month), total in site.box.apel.totals().items()
        if found == name and (total.jobs or total.wall_s)
    }


def lose(path: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        pathlib.Path(path + suffix).unlink(missing_ok=True)


@pytest.fixture
def sums(memory, empty_box) -> Site:
    """A site that publishes summaries, with 41 jobs that APEL has."""
    site = Site(memory, empty_box, SUMMARIES)
    site.record(*jobs(41))
    assert site.publish().error is None
    return site


@pytest.mark.parametrize("again", ["publish", "republish"])
def test_other_names_after_a_lost_ledger_stay_refused(sums, again) -> None:
    """The ledger is lost and the name is another one: the second run knows no more than the first."""
    lose(sums.settings.places.publishing_database)
    sums.configure(SUMMARIES.replace("=SITE", "=SIGHT"))
    for _ in range(3):
        assert isinstance(getattr(sums, again)().error, FiguresHeld)
        assert at_portal(sums, "SIGHT") == {}
    sums.configure(SUMMARIES)
    assert sums.publish().error is None
    assert at_portal(sums) == {JUNE_2024: (41, 4100)}
