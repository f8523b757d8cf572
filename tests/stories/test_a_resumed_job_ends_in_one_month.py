"""A published job is resumed into the next month; SGAS is put right by its administrator: both months agree then."""

from __future__ import annotations

from contextlib import closing

import pytest
from publishing_site import DAY_S, JUNE, SGAS, Job, Site, at_sgas, jobs

from arcacct.database import access
from arcacct.publishing import held

JUNE_2024, JULY_2024 = (2024, 6), (2024, 7)


def agrees(site: Site, month: tuple[int, int]) -> bool:
    """What `verify` says in the end."""
    with site.verified(month) as report:
        return report.agrees


def retry(site: Site) -> None:
    """The administrator of SGAS made room, or an operator believes so."""
    with closing(access.open_publishing(site.settings.places)) as con:
        held.change_state(con, None, ["job"], "retry")


@pytest.fixture
def resumed(memory, empty_box) -> Site:
    """SGAS has a failed job of June, which ended in July after all."""
    site = Site(memory, empty_box, SGAS)
    site.send(*jobs(2), Job("job", JUNE + 50, status="failed"))
    assert agrees(site, JUNE_2024)
    site.record(Job("job", JUNE + 30 * DAY_S, wall_s=500))
    assert site.publish().summary.corrections == 1
    return site


def test_both_months_differ_until_there_is_room(resumed) -> None:
    """SGAS has the job in June; sent again before it was deleted there it stays so."""
    for _ in range(2):
        assert not agrees(resumed, JUNE_2024)
        assert not agrees(resumed, JULY_2024)
        retry(resumed)
        assert resumed.publish().error is None
    assert at_sgas(resumed.box.sgas.records)["job"].wall_s == 100


def test_both_months_agree_once_it_was_sent_again(resumed) -> None:
    """The ledger knows that the record is in July now, whatever it was sent as before."""
    resumed.box.sgas.delete_records(["ur-ce.example.org-job"])
    retry(resumed)
    assert resumed.publish().error is None
    assert at_sgas(resumed.box.sgas.records)["job"].wall_s == 500

    assert agrees(resumed, JULY_2024)
    assert agrees(resumed, JUNE_2024)
