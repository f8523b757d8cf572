"""Several things at once around a run: no receiver's figures fall for it, and nothing that was held is forgotten."""

from __future__ import annotations

import pathlib
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing

import pytest
from publishing_site import CARS, DAY_S, JUNE, QUICK, SGAS, SUMMARIES, Job, Site, at_apel, jobs

from arcacct.database import upkeep
from arcacct.errors import FiguresHeld, TargetBusy
from arcacct.publishing.answers import Answer, Outcome

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


class Failing:
    """The way to a receiver that gives some messages, by their numbers, another answer."""

    def __init__(self, sender, answer: Answer, fails: Callable[[int], bool]) -> None:
        self._sender, self._answer, self._fails = sender, answer, fails
        self._sent = 0

    def __getattr__(self, name: str):
        return getattr(self._sender, name)

    def send(self, message):
        self._sent += 1
        return self._answer if self._fails(self._sent) else self._sender.send(message)


BUSY = Answer(Outcome.TRY_LATER, 503, "busy")
REFUSED = Answer(Outcome.RECORDS_REFUSED, 500, "refused")


def fail(site: Site, after: int, name: str | None = None) -> None:
    """A run that ends behind so many messages."""
    outcome = site.publish(make_sender=failing(BUSY, lambda number: number > after), name=name)
    assert isinstance(outcome.error, TargetBusy)


def failing(answer: Answer, fails: Callable[[int], bool]):
    return lambda plugin: Failing(plugin.sender(QUICK), answer, fails)


def synced(site: Site) -> dict[int, int]:
    """How many jobs the last sync messages announced, by month."""
    found: Counter[int] = Counter()
    for row in site.box.apel.sync_records.values():
        found[row["Month"]] += row["NumberOfJobs"]
    return dict(found)


def checkpoint(path: str) -> None:
    with closing(sqlite3.connect(path)) as con:
        con.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@pytest.fixture
def sums(memory, empty_box) -> Site:
    """A site that publishes summaries, with 41 jobs that APEL has."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*jobs(41))
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
    """The cursor passed a job that the filter left out; once the filter is repaired that job goes out all the same."""
    messages += "urbatchsize=1\n"
    site = Site(memory, empty_box, messages)
    if before:
        site.send(*jobs(2))
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
    site.send(first, *jobs(2, 1))
    copy = site.backup()
    site.send(first._replace(wall_s=500, status="completed"))
    site.put_back(copy)
    site.record(*jobs(2, 20))
    fail(site, 1)

    assert isinstance(site.publish().error, FiguresHeld)
    assert at_portal(site)[JUNE_2024] == (5, 900)


def test_a_republish_that_was_held_is_no_permanent_alarm(memory, empty_box) -> None:
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
    upkeep.start_new_incarnation(sums.settings.places)
    sums.record(*jobs(21))
    sums.record(*jobs(21, wall_s=101))

    assert isinstance(sums.publish().error, FiguresHeld)
    assert at_portal(sums) == {JUNE_2024: (41, 4100)}
    sums.send(*jobs(20, 21))
    assert at_portal(sums) == {JUNE_2024: (41, 4121)}


CMS = {"vo": "cms", "fqan": "/cms"}


@pytest.mark.parametrize("more", [jobs(20, 20, wall_s=101, **CMS), jobs(60, 100, **CMS)], ids=["changed", "new"])
def test_other_jobs_do_not_hide_a_mistyped_filter(memory, empty_box, more) -> None:
    """Neither corrections nor new jobs of the VO that is left make up for the one that is not."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*jobs(20), *jobs(20, 20, **CMS))
    site.configure(f"{SUMMARIES}vofilter=cms\n")
    site.record(*more)

    assert "vofilter was not set and is cms" in str(site.publish().error)
    assert at_portal(site) == {JUNE_2024: (40, 4000)}
    site.configure(SUMMARIES)
    assert site.publish().error is None
    assert at_portal(site)[JUNE_2024][0] == len({job.job_id for job in (*jobs(40), *more)})


@pytest.mark.parametrize("change", [{"wall_s": 200}, {"end_time": JUNE + 70}], ids=["key", "other-key"])
def test_the_count_of_what_replaced_a_record_that_never_arrived(memory, empty_box, change) -> None:
    """A record is refused, and by then a newer version of it has gone out: sync counts what the receiver has."""
    site = Site(memory, empty_box, CARS)
    site.send(*jobs(2))
    job = Job("job", JUNE + 50)
    site.record(job)
    assert isinstance(site.publish(make_sender=failing(REFUSED, lambda _number: True)).error, TargetBusy)
    site.record(job._replace(**change), Job("new", JUNE + 90))
    assert site.publish(make_sender=failing(REFUSED, lambda number: number == 1)).error is None
    assert site.publish().error is None

    assert len(at_apel(empty_box.apel.job_records)) == 4
    assert synced(site) == {6: 4}
    assert site.ledger("SELECT sum(Jobs), sum(Wall) FROM PublishedTotals") == [(4, 300 + change.get("wall_s", 100))]


@pytest.mark.parametrize("messages", [SUMMARIES, CARS], ids=["summaries", "cars"])
def test_an_absurd_end_of_before_stops_no_run_after_a_lost_ledger(memory, empty_box, messages) -> None:
    """No receiver ever had a job under an end that is in no month."""
    site = Site(memory, empty_box, messages)
    site.record(*jobs(3))
    site.sql("UPDATE AAR SET EndTime = 1000000000000000 WHERE JobID = 'job00000'")
    site.publish()
    site.send(Job("job00000", JUNE))
    lose(site.settings.places.publishing_database)

    assert site.publish().error is None
    assert empty_box.apel.rejected == []
    assert synced(site) == {6: 3}


def test_a_word_for_one_target_is_none_for_the_later_fall_of_another(memory, empty_box) -> None:
    """The other target was down and held nothing when the month was accepted: its next fall must be accepted."""
    targets = SUMMARIES + SUMMARIES.replace("apel:a", "apel:b").replace("=SITE", "=OTHER")
    site = Site(memory, empty_box, targets)
    site.send(*jobs(20), *jobs(20, 20, **CMS))
    outcomes = site.publish_all(accept_lower=(JUNE_2024,), make_sender=failing(BUSY, lambda _number: True))
    assert [type(one.error) for one in outcomes] == [TargetBusy, TargetBusy]
    site.configure(targets.replace("=summaries\n", "=summaries\nvofilter=cms\n"))

    assert [type(one.error) for one in site.publish_all()] == [FiguresHeld, FiguresHeld]
    assert at_portal(site, "OTHER") == {JUNE_2024: (40, 4000)}


def test_a_word_for_a_month_that_is_held_outlives_a_run_that_failed(sums) -> None:
    """What the operator saw and accepted is not to be said twice because the receiver was down."""
    sums.configure(f"{SUMMARIES}vofilter=cms\n")
    assert isinstance(sums.publish().error, FiguresHeld)
    busy = failing(BUSY, lambda _number: True)
    assert isinstance(sums.publish(accept_lower=(JUNE_2024,), make_sender=busy).error, TargetBusy)

    assert sums.publish().error is None
    assert at_portal(sums) == {}


def test_a_backup_moves_no_job_to_a_month_of_another_family(memory, empty_box) -> None:
    """July is published as records, June in sums; a backup has a job of July still in June: July keeps it."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*jobs(5))
    site.configure(CARS)
    site.send(Job("moved", JUNE + 100), Job("july", JUNE + 31 * DAY_S))
    copy = site.backup()
    site.send(Job("moved", JUNE + 30 * DAY_S))
    site.put_back(copy)

    assert "2024-07 is held" in str(site.publish().error)
    assert at_portal(site)[2024, 7] == (2, 200)
    site.send(Job("moved", JUNE + 30 * DAY_S))
    assert at_portal(site) == {JUNE_2024: (5, 500), (2024, 7): (2, 200)}


def test_the_count_of_a_month_that_another_began_is_not_lowered_after_an_import(memory, empty_box) -> None:
    """Another program sent the month's first jobs and announced them; ours alone are fewer than the receiver has."""
    site = Site(memory, empty_box, CARS)
    site.record(*jobs(30))
    site.sql(
        f"UPDATE DBConfig SET KeyValue = '{JUNE + 20}' WHERE KeyName = 'ARCACCT_CREATED'",
        "INSERT INTO ImportedFiles VALUES (1, '/old/accounting.db', 1, 'x', 1, '', '', 0)",
    )
    outcome = site.publish(since=None)
    assert outcome.error is None
    assert "20 jobs that ended before 2024-06-15T12:00:20Z" in " ".join(outcome.summary.notes)
    assert len(empty_box.apel.job_records) == 10
    assert synced(site) == {}

    site.republish()
    assert site.publish(since=None).error is None
    assert synced(site) == {6: 30}


@pytest.mark.parametrize("messages", [CARS, SGAS], ids=["cars", "sgas"])
def test_what_was_republished_from_before_the_targets_time_stays(memory, empty_box, messages) -> None:
    """A walk through the whole log, or a change, takes no job back because it ended before the target started."""
    site = Site(memory, empty_box, messages)
    site.record(*jobs(30))
    site.sql(f"UPDATE DBConfig SET KeyValue = '{JUNE + 20}' WHERE KeyName = 'ARCACCT_CREATED'")
    site.publish(since=None, accept_lower=(JUNE_2024,))
    site.republish()
    site.configure(f"{messages}vofilter=atlas\n")
    site.sql("UPDATE AAR SET UsedMemory = 77 WHERE JobID = 'job00001'")
    site.publish(since=None)

    assert len(at_apel(empty_box.apel.job_records)) + len(empty_box.sgas.records) == 30
    if messages == CARS:
        assert synced(site) == {6: 30}
    assert {job: state for job, (state, _why) in site.held().items()} == (
        {} if messages == CARS else {"job00001": "correction"}
    )


@pytest.mark.parametrize("messages", [SUMMARIES, CARS], ids=["summaries", "cars"])
@pytest.mark.parametrize("ledger", ["restored", "lost"])
def test_both_databases_of_the_past(memory, empty_box, messages, ledger) -> None:
    """With accounting.db from a backup and the ledger, too, or lost, no one knows what went out since: that is held."""
    site = Site(memory, empty_box, messages)
    now = int(time.time())
    site.send(*[job._replace(end_time=now - 60) for job in jobs(41)])
    copy = site.backup()
    checkpoint(site.settings.places.publishing_database)
    old = pathlib.Path(shutil.copyfile(site.settings.places.publishing_database, site.path / "ledger.db"))
    site.send(*[job._replace(end_time=now - 30) for job in jobs(19, 41)])
    month = time.gmtime(now - 30)[:2]
    site.put_back(copy)
    lose(site.settings.places.publishing_database)
    if ledger == "restored":
        shutil.copyfile(old, site.settings.places.publishing_database)
        # As `db restore` does.
        with closing(sqlite3.connect(site.settings.places.publishing_database, isolation_level=None)) as con:
            con.execute("INSERT INTO DBConfig VALUES ('ARCACCT_RESTORED', '1')")
    site.record(Job("new", now - 10))

    for _ in range(2):
        error = site.publish().error
        assert "neither knows the later publications" in str(error)
        assert synced(site) == {month[1]: 60}
        assert at_portal(site)[month][0] == (60 if messages == SUMMARIES else 61)
    # Runs since the backup sent the month before, too: it is named, and accepted, at once.
    held = tuple(site.ledger("SELECT Year, Month FROM TargetMonths WHERE Cause IS NOT NULL"))
    assert len(held) == 2
    assert site.publish(accept_lower=held).error is None
    assert site.publish().error is None
    assert synced(site) == {month[1]: 42}


class AnswerLost(Failing):
    """The same, but the receiver does what it is asked before its answer is lost."""

    def send(self, message):
        self._sender.send(message)
        return Answer(Outcome.TRY_LATER, text="lost", outcome_known=False)


def test_what_may_have_arrived_is_not_taken_for_refused(memory, empty_box) -> None:
    """
    An answer is lost, then the receiver refuses what it has; meanwhile the host's name changes.

    The job is not sent under its new name next to the old one: the message stays what it was until the next run.
    """
    site = Site(memory, empty_box, SGAS, lrms_host="one.example.org")
    site.record(Job("local", endpoint_url=""))
    lost = site.publish(make_sender=lambda plugin: AnswerLost(plugin.sender(QUICK), BUSY, bool))
    assert isinstance(lost.error, TargetBusy)
    refused = site.publish(make_sender=failing(REFUSED, lambda number: number == 1))
    assert isinstance(refused.error, TargetBusy)
    assert "may have arrived" in str(refused.error)
    assert site.held() == {}

    assert site.publish().error is None

    assert len(empty_box.sgas.records) == 1
    assert site.held() == {}
