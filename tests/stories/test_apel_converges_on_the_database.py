"""
APEL loses what it accepted, gets a message twice or late, or comes back from a backup: it converges on the database.

APEL never reports a message that its loader drops, so nothing here depends on how often a message arrived.
"""

from __future__ import annotations

import copy
import time
from contextlib import contextmanager

import pytest
from publishing_site import CARS, DAY_S, JUNE, SUMMARIES, Job, Site

JUNE_2024 = (2024, 6)
FAMILIES = ("summaries", "summaries-v04", "normalised-v04", "urs", "individual")


def tables(site: Site) -> dict[str, dict[object, object]]:
    """Everything that APEL has, as a backup of it."""
    return copy.deepcopy(site.box.apel._tables)


def put_back(site: Site, backup: dict[str, dict[object, object]]) -> None:
    """APEL's database is restored from a backup."""
    for name, table in site.box.apel._tables.items():
        table.clear()
        table.update(backup[name])


@contextmanager
def dropped(site: Site):
    """AMS accepts messages, and APEL's loader drops them: the certificate is not registered that day."""
    before = tables(site)
    yield
    put_back(site, before)


def at_apel(site: Site) -> dict[tuple[int, int], tuple[int, int]]:
    """The wall seconds of each month at the portal, and the jobs that the sync messages announced."""
    announced: dict[tuple[int, int], int] = {}
    for row in site.box.apel.sync_records.values():
        month = (row["Year"], row["Month"])
        announced[month] = announced.get(month, 0) + row["NumberOfJobs"]
    walls = {(year, month): total.wall_s for (_site, year, month), total in site.box.apel.totals().items()}
    return {month: (walls.get(month, 0), count) for month, count in announced.items() if count or walls.get(month)}


@pytest.fixture(params=FAMILIES)
def corrected(request, memory, empty_box):
    """Two jobs of June were published, one of them under a key that holds no more: it was resumed."""
    site = Site(memory, empty_box, SUMMARIES.replace("=summaries", f"={request.param}"))
    site.send(Job("one"), Job("two", JUNE + 50, user_dn="/CN=Two", status="failed"))
    return site


RESUMED = Job("two", JUNE + DAY_S, wall_s=300, user_dn="/CN=Two", cores=8)


def test_zeros_that_the_loader_dropped_are_sent_by_a_republish(corrected) -> None:
    """`republish --help` promises zeros for keys that no longer hold, whether or not they were sent before."""
    corrected.record(RESUMED)
    with dropped(corrected):
        assert corrected.publish().error is None

    assert corrected.republish(JUNE - DAY_S, JUNE + 2 * DAY_S).error is None
    assert at_apel(corrected) == {JUNE_2024: (400, 2)}


def test_zeros_are_repeated_with_each_sending_of_their_month(corrected) -> None:
    """A late job of the month brings its zeros, too."""
    corrected.send(RESUMED)
    now = tables(corrected)
    # APEL has again what it had of the old key; what it has of the new one stays.
    for name, table in corrected.box.apel._tables.items():
        table.update({key: {**row, **_usage(7)} for key, row in now[name].items() if not row.get("WallDuration", 1)})
    assert at_apel(corrected)[JUNE_2024][0] > 400

    corrected.send(Job("late", JUNE + 60))
    assert at_apel(corrected) == {JUNE_2024: (500, 3)}


def _usage(wall_s: int) -> dict[str, int]:
    return {"WallDuration": wall_s, "CpuDuration": wall_s, "NormalisedWallDuration": wall_s}


def test_an_older_message_that_arrives_late_is_undone(corrected) -> None:
    """What APEL had before the correction is loaded once more: the month, sent again, puts it right."""
    before = tables(corrected)
    corrected.send(RESUMED)
    for name, table in corrected.box.apel._tables.items():
        table.update(before[name])

    assert corrected.republish(JUNE - DAY_S, JUNE + 2 * DAY_S).error is None
    assert at_apel(corrected) == {JUNE_2024: (400, 2)}


@pytest.mark.parametrize("messages", ["urs", "individual"])
def test_zeros_of_the_current_month_are_repeated_in_each_run(memory, empty_box, messages) -> None:
    """As sums of the current and the previous month are; what they cost the ledger does not grow with the runs."""
    now = int(time.time())
    site = Site(memory, empty_box, CARS.replace("=urs", f"={messages}"))
    site.record(Job("one", now - 100), Job("two", now - 90, status="failed"))
    # A failed job is sent once it is settled.
    site.configure(f"{CARS.replace('=urs', f'={messages}')}settle=0\n")
    assert site.publish().error is None
    before = tables(site)
    site.send(Job("two", now - 10, wall_s=300))
    (rows,) = site.ledger("SELECT count(*) FROM SentRecords")
    for name, table in site.box.apel._tables.items():
        table.update(before[name])

    assert site.publish().error is None
    assert sum(wall_s for wall_s, _count in at_apel(site).values()) == 400
    assert site.ledger("SELECT count(*) FROM SentRecords") == [rows]


@pytest.mark.parametrize("messages", ["urs", "individual"])
def test_a_key_that_another_job_took_over_is_not_taken_back(memory, empty_box, messages) -> None:
    """The id in the batch system and the end are the key: zeros that are repeated must not hit a job that holds it."""
    site = Site(memory, empty_box, CARS.replace("=urs", f"={messages}"))
    site.send(Job("one"), Job("two", JUNE + 50, local_id="77"))
    site.sql("DELETE FROM AAR WHERE JobID = 'two'")
    assert site.publish().error is None
    site.send(Job("three", JUNE + 50, wall_s=300, local_id="77"))

    assert site.republish(JUNE - DAY_S, JUNE + 2 * DAY_S).error is None
    assert at_apel(site) == {JUNE_2024: (400, 2)}


def test_a_refusal_of_repeated_zeros_holds_no_job_back(memory, empty_box) -> None:
    """They are of a key and no news of a job: the next run repeats them."""
    site = Site(memory, empty_box, CARS)
    site.send(Job("one"), Job("two", JUNE + 50))
    site.sql("DELETE FROM AAR WHERE JobID = 'two'")
    assert site.publish().error is None
    site.box.faults.answer("ams", 413, "too large", containing="4two", times=None)

    refused = site.republish(JUNE - DAY_S, JUNE + 2 * DAY_S)
    assert refused.error is None
    assert any("too large" in note and "the next run sends it again" in note for note in refused.summary.notes)
    assert site.held() == {}
    site.box.faults.clear()
    assert site.republish(JUNE - DAY_S, JUNE + 2 * DAY_S).summary.sent["car"].records == 2
    assert at_apel(site) == {JUNE_2024: (100, 1)}


def test_a_count_that_the_loader_dropped_is_repeated(memory, empty_box) -> None:
    """The sync message of a host that jobs have left announces 0 in each run, not once."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(Job("one"), Job("two", JUNE + 50, endpoint_url="https://ce2.example.org/arex"))
    site.record(Job("two", JUNE + 50))
    with dropped(site):
        assert site.publish().error is None

    assert site.publish().error is None
    assert at_apel(site)[JUNE_2024][1] == 2


def test_a_closed_month_is_left_alone(memory, empty_box) -> None:
    """Nothing touched it and no one asked: its zeros are not repeated, and neither are its sums."""
    site = Site(memory, empty_box, CARS)
    site.send(Job("one"), Job("two", JUNE + 50))
    site.sql("DELETE FROM AAR WHERE JobID = 'two'")
    assert site.publish().error is None

    sent = site.publish().summary.sent
    assert {kind: one.records for kind, one in sent.items() if kind != "sync"} == {}
