"""Both databases are restored from one moment, by hand: they agree, and the note next to them does not."""

from __future__ import annotations

import pathlib
import shutil
import time

import pytest
from publishing_site import CARS, SGAS, SUMMARIES, Job, Site, at_sgas, jobs, publish_well

from arcacct.database import location, upkeep
from arcacct.errors import FiguresHeld
from arcacct.health import checks, facts
from arcacct.times import month_bounds, month_name, month_of


@pytest.fixture
def site(memory, empty_box) -> Site:
    return Site(memory, empty_box, SUMMARIES)


MONTH = month_of(int(time.time()))


def of_this_month(count: int, first: int = 0) -> list[Job]:
    """Jobs that ended at its beginning."""
    begin = month_bounds(*MONTH)[0]
    return [job._replace(end_time=begin + at) for at, job in enumerate(jobs(count, first), first)]


def copied(site: Site, folder: str) -> pathlib.Path:
    """A copy of the directory of the databases, while no one has them open."""
    copy = site.path / folder
    shutil.copytree(site.settings.places.directory, copy)
    return copy


def put_back(site: Site, copy: pathlib.Path) -> None:
    directory = pathlib.Path(site.settings.places.directory)
    shutil.rmtree(directory)
    shutil.copytree(copy, directory)


def at_apel(site: Site) -> int:
    return sum(total.jobs for total in site.box.apel.totals().values())


def held_months(site: Site) -> tuple[tuple[int, int], ...]:
    return tuple(site.ledger("SELECT DISTINCT Year, Month FROM TargetMonths WHERE Cause IS NOT NULL ORDER BY 1, 2"))


def judged(site: Site) -> list[facts.Check]:
    return list(checks.judge(facts.examine(site.settings), facts.Thresholds()))


def severities(site: Site) -> dict[str, int]:
    return {one.subject: one.severity for one in judged(site) if one.severity}


def test_no_figure_falls(site) -> None:
    """60 jobs at APEL stay 60 when both databases know of 40 and one is new; the month is held until it is accepted."""
    site.send(*of_this_month(40))
    copy = copied(site, "copy")
    site.send(*of_this_month(20, 40))
    assert at_apel(site) == 60
    put_back(site, copy)
    site.record(*of_this_month(1, 60))

    assert severities(site)["ledger"] == facts.CRITICAL
    advice = {one.advice for one in judged(site) if one.subject == "ledger"}
    assert advice == {"if this is intended, run `arcacct publish`"}
    outcome = site.publish()
    assert isinstance(outcome.error, FiguresHeld)
    assert f"{month_name(MONTH)} is held" in str(outcome.error)
    assert at_apel(site) == 60
    # It stays held, although both databases and the note agree again since.
    assert isinstance(site.publish().error, FiguresHeld)
    assert at_apel(site) == 60
    assert site.publish(accept_lower=held_months(site)).error is None
    assert at_apel(site) == 41


def test_records_are_recognised(memory, empty_box) -> None:
    """Receivers of records get what is new, and what they have once more, which changes nothing."""
    site = Site(memory, empty_box, SGAS + CARS)
    site.send(*jobs(4))
    copy = copied(site, "copy")
    site.send(*jobs(4, 4))
    put_back(site, copy)
    # The sweep finds the lost jobs again, in another order.
    site.record(*jobs(2, 8), *reversed(jobs(4, 4)))

    site.publish_all()
    # What APEL has of the months since is unknown.
    assert MONTH in held_months(site)
    publish_well(site, accept_lower=held_months(site))

    assert {row["LocalJobId"] for row in site.box.apel.job_records.values()} == {job.lrms_id for job in jobs(10)}
    assert len(site.box.sgas.records) == 10


def test_a_sound_pair_is_no_copy(site) -> None:
    """Runs, an older note and a note of an older program say nothing against databases that are ahead of it."""
    here = site.settings.places
    site.send(*jobs(4))
    older = pathlib.Path(here.place_note).read_bytes()
    assert location.fence(here) == site.database("SELECT Passed FROM Fence")[0][0]
    publish_well(site)
    pathlib.Path(here.place_note).write_bytes(older)
    assert "ledger" not in severities(site)
    publish_well(site)
    pathlib.Path(here.place_note).write_text("".join(older.decode().partition("fence=")[0]))
    assert "ledger" not in severities(site)
    publish_well(site)
    assert location.fence(here) == site.database("SELECT Passed FROM Fence")[0][0]


def test_a_new_life_of_both(site) -> None:
    """A site that gives up both databases starts with more fences than the note has: nothing is an old copy since."""
    here = site.settings.places
    site.record(*jobs(4))
    for _ in range(3):
        publish_well(site)
    for path in pathlib.Path(here.directory).glob("*.db*"):
        path.unlink()
    upkeep.start_new_incarnation(here)
    site.send(*jobs(1, 50))
    assert "ledger" not in severities(site)
    site.send(*jobs(1, 51))
    assert "ledger" not in severities(site)


@pytest.mark.parametrize("by_hand", [False, True], ids=["db-restore", "by-hand"])
def test_a_correction_is_found_again_after_both_accidents(memory, empty_box, by_hand) -> None:
    """accounting.db is restored, a published job is resumed, and then an old publishing.db is restored."""
    site = Site(memory, empty_box, SGAS)
    ledger = pathlib.Path(site.settings.places.publishing_database)
    site.send(*jobs(2))
    backup = site.backup()
    site.send(*jobs(6, 2))
    old_ledger = ledger.read_bytes()
    lost = jobs(4, 8)
    site.send(*lost)
    site.put_back(backup, by_hand=by_hand)
    resumed = lost[3]._replace(end_time=lost[3].end_time + 677, wall_s=lost[3].wall_s + 677)
    # The place of this in the log is one that the old ledger knows from the former life.
    site.send(lost[3])
    site.send(resumed)
    assert site.held()[resumed.job_id][0] == "correction"
    for path in ledger.parent.glob(f"{ledger.name}-*"):
        path.unlink()
    ledger.write_bytes(old_ledger)
    site.record(*jobs(1, 20))

    publish_well(site)
    assert {job_id: state for job_id, (state, _why) in site.held().items()} == {resumed.job_id: "correction"}
    assert at_sgas(site.box.sgas.records)[resumed.job_id].wall_s == lost[3].wall_s
