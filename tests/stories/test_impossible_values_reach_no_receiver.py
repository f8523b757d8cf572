"""What cannot be true reaches no receiver, in no format: neither as a record nor in a sum, nor counted in a sync."""

from __future__ import annotations

import pytest
from publishing_rig import TARGETS, Rig
from publishing_site import JUNE, MOST_S, SGAS, SUMMARIES, Job, Site, at_sgas, jobs, truth

LIES = [
    Job("lie00001", JUNE + 101, wall_s=2**32 - 1),
    Job("lie00002", JUNE + 102, wall_s=JUNE),
    Job("lie00003", JUNE + 103, cpu_s=10**12),
    Job("lie00004", JUNE + 104, cpu_s=47 * 100),
    Job("lie00005", JUNE + 105, cores=4_294_967_294),
    Job("lie00006", JUNE + 106, nodes=4_294_967_295),
    Job("lie00007", JUNE + 107, benchmark="HEPSPEC:0.01"),
]


@pytest.mark.parametrize("kind", TARGETS)
def test_lies_reach_nobody(kind, memory, empty_box) -> None:
    """Their neighbours do, and the run is a good one; sent again, they stay at home as well."""
    rig = Rig(kind, memory, empty_box)
    rig.record(5)
    rig.site.record(*LIES)

    for outcome in (rig.publish(), rig.publish()):
        assert outcome.error is None
        assert outcome.summary.quarantined == 0
    rig.assert_all_is_delivered()
    assert rig.site.ledger("SELECT * FROM HeldRecords") == []
    if kind in {"summaries", "jobs", "cars"}:
        assert sum(row["NumberOfJobs"] for row in empty_box.apel.sync_records.values()) == 5


def test_a_run_says_how_many_are_held(memory, empty_box) -> None:
    site = Site(memory, empty_box, SGAS)
    site.record(*jobs(2), *LIES)

    assert site.publish().summary.implausible == len(LIES)
    assert site.publish().summary.implausible == 0


@pytest.mark.parametrize("again", ["publish", "republish"])
def test_a_version_with_impossible_values_replaces_none(again, memory, empty_box) -> None:
    """The job's record turned impossible later: it is not sent. The job is in no figure, so its record is to go."""
    site = Site(memory, empty_box, SGAS)
    honest = jobs(3)
    site.send(*honest)
    site.record(honest[1]._replace(wall_s=JUNE))

    outcome = getattr(site, again)()
    assert outcome.error is None
    assert at_sgas(empty_box.sgas.records) == truth(honest)
    assert {job_id: state for job_id, (state, _why) in site.held().items()} == {honest[1].job_id: "correction"}


def test_a_sum_falls_by_what_turned_impossible_and_rises_again(memory, empty_box) -> None:
    """The log explains the fall, so no month is held; a decision brings the job back."""
    site = Site(memory, empty_box, SUMMARIES)
    honest = jobs(41)
    site.send(*honest)
    lie = honest[7]._replace(wall_s=JUNE)
    site.record(lie)

    assert site.publish().error is None
    assert portal(empty_box) == (40, 4000)
    site.decide(lie, "bound")
    assert site.publish().error is None
    assert portal(empty_box) == (41, 4000 + MOST_S)
    site.decide(lie, "unknown")
    assert site.publish().error is None
    assert portal(empty_box) == (41, 4000)


def test_a_lie_that_was_never_published_explains_no_fall(memory, empty_box) -> None:
    """A lie is corrected, and two other jobs are gone without a word: their month is held for them."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*jobs(41), LIES[1])
    for gone in (5, 6):
        site.sql(
            f"DELETE FROM FinishedLog WHERE RecordID = {gone}",
            f"DELETE FROM AAR WHERE RecordID = {gone}",
            f"DELETE FROM JobUsageShares WHERE RecordID = {gone}",
            "UPDATE MonthlyUsage SET (Jobs, Wall) = (Jobs - 1, Wall - 100)",
        )
    site.record(LIES[1]._replace(wall_s=100))

    assert "2024-06 is held: 41 jobs published, 40 in the database now" in str(site.publish().error)


def portal(box) -> tuple[int, int]:
    """Jobs and wall time of the month at APEL's portal."""
    (total,) = [one for (_site, year, month), one in box.apel.totals().items() if (year, month) == (2024, 6)]
    return total.jobs, total.wall_s


@pytest.mark.parametrize("kind", ["sgas", "cars", "summaries"])
def test_a_decision_is_sent(kind, memory, empty_box) -> None:
    rig = Rig(kind, memory, empty_box)
    rig.record(3)
    rig.site.record(LIES[1])
    assert rig.publish().error is None

    rig.site.decide(LIES[1], "bound")
    decided = LIES[1]._replace(wall_s=MOST_S)
    assert rig.site.publish_all()[0].error is None
    assert rig.received() == rig.wanted([*rig.jobs, decided])


def test_a_job_that_waits_to_settle_and_is_held_waits_for_the_decision(memory, empty_box) -> None:
    site = Site(memory, empty_box, f"{SGAS}settle=1000000000\n")
    failed = Job("failed01", JUNE, status="failed")
    site.send(failed)
    site.record(failed._replace(wall_s=JUNE))
    site.configure(SGAS)

    assert site.publish().error is None
    assert at_sgas(empty_box.sgas.records) == {}
    site.decide(failed, "bound")
    assert site.publish().error is None
    assert at_sgas(empty_box.sgas.records) == truth([failed._replace(wall_s=MOST_S)])
    assert site.held() == {}
