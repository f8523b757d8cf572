"""Several things at once around a run: no receiver's figures fall for it, and nothing that was held is forgotten."""

from __future__ import annotations

import pathlib

import pytest
from publishing_site import CARS, DAY_S, JUNE, QUICK, SGAS, SUMMARIES, Job, Site, jobs

from arcacct.errors import FiguresHeld, TargetBusy
from arcacct.publish.answers import Answer, Kind
from arcacct.publish.senders import sender_of
from arcacct.store import maintain

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


class Busy:
    """The way to a receiver that is busy from some message on."""

    def __init__(self, sender, after: int) -> None:
        self._sender = sender
        self._left = after

    def __getattr__(self, name: str):
        return getattr(self._sender, name)

    def send(self, message):
        self._left -= 1
        return self._sender.send(message) if self._left >= 0 else Answer(Kind.TRY_LATER, 503, "busy")


def fail(site: Site, after: int) -> None:
    """A run that ends at its message number ``after``."""
    outcome = site.publish(make_sender=lambda target: Busy(sender_of(target, QUICK), after))
    assert isinstance(outcome.error, TargetBusy)


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


@pytest.mark.parametrize("messages", [CARS, SGAS], ids=["cars", "sgas"])
@pytest.mark.parametrize("before", [True, False], ids=["published", "new"])
def test_a_filter_that_was_there_for_a_run_that_failed(memory, empty_box, messages, before) -> None:
    """The cursor passed a job that the filter left out; once the filter is mended that job goes out all the same."""
    messages += "urbatchsize=1\n"
    site = Site(memory, empty_box, messages)
    if before:
        site.record(*jobs(2))
        assert site.publish().error is None
    site.configure(f"{messages}vofilter=atlas\n")
    site.record(Job("cms", JUNE + 60, vo="cms", fqan="/cms"), Job("atlas", JUNE + 61), Job("last", JUNE + 62))
    fail(site, 1)
    site.configure(messages)

    assert site.publish().error is None
    found = len(empty_box.sgas.records) + len(empty_box.apel.job_records)
    assert found == (5 if before else 3)


def test_what_was_held_is_held_after_a_run_that_failed(memory, empty_box) -> None:
    """A backup has an older version of a job: a run that fails behind it does not make the next one forget that."""
    site = Site(memory, empty_box, f"{CARS}urbatchsize=1\n")
    first = Job("first", wall_s=50, status="failed")
    site.record(first, *jobs(2, 1))
    site.publish()
    copy = site.backup()
    site.record(first._replace(wall_s=500, status="completed"))
    site.publish()
    site.put_back(copy)
    site.record(*jobs(2, 20))
    fail(site, 1)

    assert isinstance(site.publish().error, FiguresHeld)
    assert at_portal(site)[JUNE_2024] == (5, 900)


def test_a_republish_that_was_held_is_no_alarm_for_ever(memory, empty_box) -> None:
    """A month from before the database that was asked for once is held then, and not in every later run."""
    site = Site(memory, empty_box, SUMMARIES)
    site.record(Job("april", JUNE - 60 * DAY_S), *jobs(3))
    site.sql(f"UPDATE DBConfig SET KeyValue = '{JUNE - 20 * DAY_S}' WHERE KeyName = 'ARCACCT_CREATED'")
    assert site.publish(since=None).error is None
    assert "2024-04 is held" in str(site.republish(JUNE - 90 * DAY_S).error)

    assert site.publish(since=None).error is None
    assert at_portal(site) == {JUNE_2024: (3, 300)}


def test_corrections_in_a_new_life_do_not_hide_that_jobs_are_gone(sums) -> None:
    """A job that changed is no proof that another one may go, in whichever life of the database."""
    lose(sums.settings.places.database)
    maintain.new_life(sums.settings.places)
    sums.record(*jobs(21))
    sums.record(*jobs(21, wall_s=101))

    assert isinstance(sums.publish().error, FiguresHeld)
    assert at_portal(sums) == {JUNE_2024: (41, 4100)}
    sums.record(*jobs(20, 21))
    assert sums.publish().error is None
    assert at_portal(sums) == {JUNE_2024: (41, 4121)}


CMS = {"vo": "cms", "fqan": "/cms"}


@pytest.mark.parametrize("more", [jobs(20, 20, wall_s=101, **CMS), jobs(60, 100, **CMS)], ids=["changed", "new"])
def test_other_jobs_do_not_hide_a_mistyped_filter(memory, empty_box, more) -> None:
    """Neither corrections nor new jobs of the VO that is left make up for the one that is not."""
    site = Site(memory, empty_box, SUMMARIES)
    site.record(*jobs(20), *jobs(20, 20, **CMS))
    site.publish()
    site.configure(f"{SUMMARIES}vofilter=cms\n")
    site.record(*more)

    assert "vofilter was not set and is cms" in str(site.publish().error)
    assert at_portal(site) == {JUNE_2024: (40, 4000)}
    site.configure(SUMMARIES)
    assert site.publish().error is None
    assert at_portal(site)[JUNE_2024][0] == len({job.job_id for job in (*jobs(40), *more)})
