"""
What is around a run changes, and no receiver's figures fall for it: the run is held, says so, and goes on when mended.

Each case was seen to lower what the real APEL or SGAS had, with exit code 0 and status OK.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import sqlite3
import time
from contextlib import closing

import pytest
from installed import arcacct
from publishing_site import CARS, DAY_S, JUNE, SGAS, SUMMARIES, Job, Site, at_apel, at_sgas, jobs, truth

from arcacct.database import access
from arcacct.errors import ConfigError, FiguresHeld
from arcacct.publishing import held

JUNE_2024 = (2024, 6)
SUFFIXES = ("", "-wal", "-shm")


@pytest.fixture
def sums(memory, empty_box) -> Site:
    """A site that publishes summaries, with 41 jobs that APEL has."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*jobs(41))
    assert at_portal(site) == {JUNE_2024: (41, 4100)}
    return site


def at_portal(site: Site, name: str = "SITE") -> dict[tuple[int, int], tuple[int, int]]:
    """Jobs and wall seconds of each month, as APEL's portal would show them."""
    return {
        (year, month): (total.jobs, total.wall_s)
        for (found, year, month), total in site.box.apel.totals().items()
        if found == name and (total.jobs or total.wall_s)
    }


def synced(site: Site) -> dict[str, int]:
    """How many jobs the last sync message announced, by site."""
    found: dict[str, int] = {}
    for row in site.box.apel.sync_records.values():
        found[row["Site"]] = found.get(row["Site"], 0) + row["NumberOfJobs"]
    return found


def agrees(site: Site, month: tuple[int, int] = JUNE_2024) -> bool:
    """What `verify` says in the end."""
    with site.verified(month) as report:
        return report.agrees


def status(site: Site) -> str:
    """What `arcacct status` prints."""
    return arcacct("--config", str(site.path / "arc.conf"), "status").stdout


def assert_held(site: Site, *words: str, figures: dict[tuple[int, int], tuple[int, int]]) -> None:
    """The run holds the month, exits with 69 and says why; status is critical, verify says NO, APEL has what it had."""
    outcome = site.publish()
    assert isinstance(outcome.error, FiguresHeld)
    assert outcome.error.exit_code == 69
    for word in ("2024-06 is held", "--accept-lower 2024-06", *words):
        assert word in str(outcome.error)
    assert at_portal(site) == figures
    assert not agrees(site)
    told = status(site)
    assert told.startswith("CRITICAL")
    assert "2024-06 is held" in told


def lose(path: str) -> None:
    for suffix in SUFFIXES:
        pathlib.Path(path + suffix).unlink(missing_ok=True)


def new_life(site: Site) -> None:
    """The accounting database is lost, and an operator starts another one."""
    lose(site.settings.places.database)
    done = arcacct("--config", str(site.path / "arc.conf"), "db", "init", "--new-life")
    assert done.returncode == 0, done.stderr


# -- the database


def test_a_timer_does_not_create_a_lost_database_again(sums) -> None:
    """With the ledger there and the database gone, publish and sweep stop with 78 and the ways out."""
    lose(sums.settings.places.database)
    with pytest.raises(ConfigError, match="db restore"):
        sums.publish()
    done = arcacct("--config", str(sums.path / "arc.conf"), "sweep")
    assert done.returncode == 78
    assert at_portal(sums) == {JUNE_2024: (41, 4100)}


def test_a_database_created_again_lowers_nothing(sums) -> None:
    """Of 41 jobs the new database has one: the month is held until they are back, and then continues by itself."""
    new_life(sums)
    sums.record(*jobs(1))
    assert_held(sums, "41 jobs published, 1 in the database now", figures={JUNE_2024: (41, 4100)})
    assert synced(sums) == {"SITE": 41}

    sums.send(*jobs(41), Job("more", JUNE + 500))
    assert at_portal(sums) == {JUNE_2024: (42, 4200)}
    assert agrees(sums)


def test_a_target_under_another_name_keeps_its_figures_from_the_first_run_on(sums) -> None:
    """Its first run compares with what the receiver was sent under the former name."""
    new_life(sums)
    sums.record(*jobs(1))
    sums.configure(SUMMARIES.replace("apel:a", "apel:new"))
    assert_held(sums, "41 jobs published, 1 in the database now", figures={JUNE_2024: (41, 4100)})


def test_new_jobs_do_not_hide_that_old_ones_are_gone(sums) -> None:
    """In another life as many new jobs as were lost prove nothing: what was published is missing all the same."""
    con = access.open_publishing(sums.settings.places)
    con.execute("UPDATE TargetMonths SET Sent = ?", (JUNE + 100,))
    con.close()
    new_life(sums)
    sums.record(*jobs(60, 200))

    assert_held(sums, "41 jobs published, 0 in the database now", figures={JUNE_2024: (41, 4100)})


@pytest.mark.parametrize("by_hand", [False, True], ids=["db-restore", "by-hand"])
def test_an_old_backup_lowers_nothing(memory, empty_box, by_hand) -> None:
    """The backup has 41 of 60 jobs, and the control directory has none of them any more: held, then repaired."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*jobs(41))
    copy = site.backup()
    site.send(*jobs(19, 41))
    site.put_back(copy, by_hand=by_hand)

    assert_held(site, "60 jobs published, 41 in the database now", figures={JUNE_2024: (60, 6000)})
    # Held again by the next run, and other months go on.
    site.record(Job("july", JUNE + 30 * DAY_S))
    assert_held(site, "60 jobs published", figures={JUNE_2024: (60, 6000), (2024, 7): (1, 100)})

    site.send(*jobs(19, 41))
    assert at_portal(site) == {JUNE_2024: (60, 6000), (2024, 7): (1, 100)}
    assert agrees(site)


def test_what_an_operator_accepts_is_sent_and_remembered(sums) -> None:
    """--accept-lower sends what the database has, once, and the ledger has who said so and when."""
    new_life(sums)
    sums.record(*jobs(1))
    assert isinstance(sums.publish().error, FiguresHeld)

    assert sums.publish(accept_lower=(JUNE_2024,), who="ada").error is None
    assert at_portal(sums) == {JUNE_2024: (1, 100)}
    assert agrees(sums)
    ((month, who, when),) = sums.ledger("SELECT Month, Who, Decided FROM MonthDecisions")
    assert (month, who) == (6, "ada")
    assert abs(when - time.time()) < 600
    # The word was for this fall, not for the next one.
    sums.send(*jobs(30))
    sums.put_back(sums.backup())
    con = access.open_accounting(sums.settings.places)
    con.execute("PRAGMA foreign_keys = OFF")
    for table in ("FinishedLog", "PreviousVersions", "JobUsageShares", "MonthlyUsage", "AAR"):
        con.execute(f"DELETE FROM {table}")
    con.execute("UPDATE UsageCursor SET Seq = 0")
    con.close()
    assert isinstance(sums.publish().error, FiguresHeld)


def test_the_command_accepts(sums) -> None:
    """As the message says it, on the command line."""
    new_life(sums)
    sums.record(*jobs(1))
    conf = str(sums.path / "arc.conf")
    held = arcacct("--config", conf, "publish", "--now")
    assert held.returncode == 69
    assert "arcacct publish --accept-lower 2024-06" in held.stderr

    done = arcacct("--config", conf, "publish", "--accept-lower", "2024-06")
    assert done.returncode == 0, done.stderr
    assert at_portal(sums) == {JUNE_2024: (1, 100)}
    assert arcacct("--config", conf, "publish", "--accept-lower", "June").returncode == 64


def test_a_month_to_come_cannot_be_accepted(sums) -> None:
    """A slip of the finger must not accept what no one has seen."""
    done = arcacct("--config", str(sums.path / "arc.conf"), "publish", "--accept-lower", "2999-01")
    assert (done.returncode, "2999-01 is in the future" in done.stderr) == (64, True)
    assert sums.ledger("SELECT * FROM MonthDecisions") == []


def test_metrics_tell_what_is_held(sums) -> None:
    """A month that is held, with both figures, for the alarm."""
    new_life(sums)
    sums.record(*jobs(1))
    sums.publish()

    text = arcacct("--config", str(sums.path / "arc.conf"), "metrics").stdout
    assert 'arcacct_target_held_months{target="apel:a"} 1.0' in text
    assert 'arcacct_target_held_month_jobs{kind="given",month="2024-06",target="apel:a"} 41.0' in text
    assert 'arcacct_target_held_month_jobs{kind="found",month="2024-06",target="apel:a"} 1.0' in text


@pytest.mark.parametrize("change", ["shorter", "deleted", "moved", "of another VO"])
def test_what_was_logged_explains_a_fall(sums, change) -> None:
    """Corrections and deletions lower the figures at once, as they always did."""
    if change == "shorter":
        sums.record(jobs(41)[0]._replace(wall_s=1, cpu_s=1))
        expected = {JUNE_2024: (41, 4001)}
    elif change == "deleted":
        sums.sql("DELETE FROM AAR WHERE JobID IN ('job00000', 'job00001')")
        expected = {JUNE_2024: (39, 3900)}
    elif change == "moved":
        sums.record(jobs(41)[0]._replace(end_time=JUNE + 30 * DAY_S))
        expected = {JUNE_2024: (40, 4000), (2024, 7): (1, 100)}
    else:
        sums.configure(f"{SUMMARIES}vofilter=atlas\n")
        sums.record(jobs(41)[0]._replace(vo="cms", fqan="/cms"))
        expected = {JUNE_2024: (40, 4000)}

    assert sums.publish().error is None
    assert at_portal(sums) == expected
    assert agrees(sums)


def test_a_pruned_job_still_counts(sums) -> None:
    """A job that leaves the log and the database by `db prune` leaves no figure."""
    con = access.open_accounting(sums.settings.places)
    con.execute("DELETE FROM FinishedLog WHERE RecordID <= 10")
    con.execute("DELETE FROM JobExtraInfo WHERE RecordID <= 10")
    con.execute("DELETE FROM AuthTokenAttributes WHERE RecordID <= 10")
    con.execute("DELETE FROM AAR WHERE RecordID <= 10")
    con.close()
    sums.send(Job("more", JUNE + 500))
    assert at_portal(sums) == {JUNE_2024: (42, 4200)}


# -- the configuration


MISTAKES = {
    "vofilter": ("{}vofilter=atals\n", {}, "vofilter was not set and is atals"),
    "gocdb_name": ("{}", {"SITE": "SIGHT"}, "gocdb_name was SITE and is SIGHT"),
}


@pytest.mark.parametrize("messages", ["summaries", "urs", "individual"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_configuration_takes_nothing_back(memory, empty_box, messages, mistake) -> None:
    """Neither zeros nor a second name: the month is held, the cause is named, and the repaired file continues."""
    form, words, cause = MISTAKES[mistake]
    good = CARS.replace("=urs", f"={messages}")
    bad = form.format(good)
    for word, other in words.items():
        bad = bad.replace(f"={word}\n", f"={other}\n")
    site = Site(memory, empty_box, good)
    site.send(*jobs(40))
    site.configure(bad)
    site.record(Job("new", JUNE + 500))

    if messages == "summaries" or mistake == "gocdb_name":
        outcome = site.publish()
        assert isinstance(outcome.error, FiguresHeld)
        assert cause in str(outcome.error)
    else:
        assert_held(site, cause, figures={JUNE_2024: (40, 4000)})
    assert at_portal(site)[JUNE_2024] == (40, 4000)
    assert synced(site)["SITE"] == 40

    site.configure(good)
    outcome = site.publish()
    assert outcome.error is None
    assert at_portal(site) == {JUNE_2024: (41, 4100)} if mistake == "vofilter" or messages == "summaries" else True
    both = at_portal(site).get(JUNE_2024, (0, 0))[0] + at_portal(site, "SIGHT").get(JUNE_2024, (0, 0))[0]
    assert both == 41
    assert empty_box.apel.rejected == []


def test_what_a_mistaken_filter_leaves_behind_is_called_by_its_name(memory, empty_box) -> None:
    """The jobs are in the database, so no one says that they are gone; `verify` and `job why` name what holds them."""
    site = Site(memory, empty_box, CARS)
    site.send(*jobs(3))
    site.configure(f"{CARS}vofilter=nobody\n")
    assert_held(site, "vofilter does not select them", figures={JUNE_2024: (3, 300)})

    conf = str(site.path / "arc.conf")
    told = arcacct("--config", conf, "verify", "2024-06").stdout
    assert "sent, and vofilter no longer selects it" in told
    assert "not in the database" not in told


def test_new_jobs_under_another_name_wait_and_are_reported(memory, empty_box) -> None:
    """What would split a month between two names is told as what it is: jobs that wait, and are not lost."""
    site = Site(memory, empty_box, CARS)
    site.send(*jobs(3))
    site.configure(CARS.replace("=SITE", "=OTHER"))
    site.record(Job("late", JUNE + 500))
    site.publish(former_names="keep")
    assert_held(site, "3 jobs published under the name SITE, and 1 more waiting", figures={JUNE_2024: (3, 300)})

    conf = str(site.path / "arc.conf")
    assert "late: waits: its month is on hold" in arcacct("--config", conf, "verify", "2024-06").stdout
    assert "not sent: 2024-06 is on hold" in arcacct("--config", conf, "job", "--only", "why", "late").stdout


def test_a_republish_after_a_rename_heals_in_the_same_run(memory, empty_box) -> None:
    """Once the name is right again and the month was sent again as a whole, it is held no more."""
    site = Site(memory, empty_box, CARS)
    site.send(*jobs(3))
    site.configure(CARS.replace("=SITE", "=OTHER"))
    site.record(Job("late", JUNE + 500))
    site.publish(former_names="keep")
    assert_held(site, "1 more waiting", figures={JUNE_2024: (3, 300)})
    site.configure(CARS)

    site.republish(JUNE + 400, JUNE + 600)
    assert "2024-06 is held" in status(site)
    assert site.republish().error is None

    assert at_portal(site) == {JUNE_2024: (4, 400)}
    assert "is held" not in status(site)
    assert site.publish().error is None
    assert agrees(site)


def test_a_republish_of_a_month_that_lost_a_job_does_not_heal_it(memory, empty_box) -> None:
    """A job that was deleted while the month was held is taken back by the next publish."""
    site = Site(memory, empty_box, CARS)
    site.record(*jobs(3))
    site.publish()
    site.configure(CARS.replace("=SITE", "=OTHER"))
    site.record(Job("late", JUNE + 500))
    site.publish()
    site.sql("DELETE FROM AAR WHERE JobID = 'job00001'")
    site.publish()
    site.configure(CARS)

    site.republish()
    assert site.publish().error is None
    # A job record that was sent with zeros still counts as a job there.
    assert at_portal(site) == {JUNE_2024: (4, 300)}


def test_since_waits_for_no_timetable(memory, empty_box) -> None:
    """Whoever asks for older jobs gets them now, also if the target had a run a minute ago."""
    site = Site(memory, empty_box, CARS)
    site.record(*jobs(3))
    site.publish(since=JUNE + 10 * DAY_S)
    assert site.publish(now=False, since=None).skipped is not None

    assert site.publish(now=False, since=JUNE).summary.sent["car"].records == 3


def test_config_check_knows_the_vos_of_the_database(sums) -> None:
    """A VO that no job has is a warning, with the one that may be meant."""
    sums.configure(f"{SUMMARIES}vofilter=atals\n")
    done = arcacct("--config", str(sums.path / "arc.conf"), "config", "check")
    assert "no recorded job has VO 'atals'; did you mean atlas?" in done.stdout


def test_another_name_of_the_batch_systems_host_moves_nothing(memory, empty_box) -> None:
    """lrms_host is the submit host of local jobs: published ones stay where they are until that is accepted."""
    site = Site(memory, empty_box, SUMMARIES, lrms_host="lrms.example.org")
    site.send(*jobs(5), *jobs(5, 5, endpoint_url=""))
    site.options["lrms_host"] = "batch.example.org"
    site.configure(SUMMARIES)
    site.record(Job("more", JUNE + 500, endpoint_url=""))

    outcome = site.publish()
    assert "lrms_host was lrms.example.org and is batch.example.org" in str(outcome.error)
    assert at_portal(site) == {JUNE_2024: (10, 1000)}

    assert site.publish(accept_lower=(JUNE_2024,)).error is None
    assert at_portal(site) == {JUNE_2024: (11, 1100)}
    assert agrees(site)


def test_a_site_that_is_renamed_for_good(memory, empty_box) -> None:
    """Old months keep their name until somebody accepts; a new month starts under the new one."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*jobs(5))
    site.configure(SUMMARIES.replace("=SITE", "=NEW-SITE"))
    site.record(Job("july", JUNE + 30 * DAY_S))
    assert "2024-06 is held: published under the name SITE" in str(site.publish().error)
    assert site.publish(former_names="keep").error is None
    assert at_portal(site) == {JUNE_2024: (5, 500)}
    assert at_portal(site, "NEW-SITE") == {(2024, 7): (1, 100)}

    assert site.publish(accept_lower=(JUNE_2024,)).error is None
    assert at_portal(site) == {}
    assert at_portal(site, "NEW-SITE") == {JUNE_2024: (5, 500), (2024, 7): (1, 100)}


def test_a_change_of_messages_keeps_a_months_figures(memory, empty_box) -> None:
    """41 jobs became 26 where a month changed from summaries to job records: it stays in the family it started in."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*jobs(41), *jobs(4, 41, fqan="/atlas"))
    site.configure(CARS)
    site.send(Job("late", JUNE + 500), Job("july", JUNE + 30 * DAY_S))
    assert site.republish().error is None

    assert at_portal(site) == {JUNE_2024: (46, 4600), (2024, 7): (1, 100)}
    assert agrees(site)
    assert agrees(site, (2024, 7))


# -- the ledger


BOTH = SGAS + CARS


def ledger_copy(site: Site) -> pathlib.Path:
    """A backup of publishing.db."""
    copy = site.path / "ledger.db"
    copy.unlink(missing_ok=True)
    with (
        closing(sqlite3.connect(site.settings.places.publishing_database)) as con,
        closing(sqlite3.connect(copy)) as to,
    ):
        con.backup(to)
    return copy


def put_ledger_back(site: Site, copy: pathlib.Path) -> None:
    """An older publishing.db in its place, by hand."""
    lose(site.settings.places.publishing_database)
    shutil.copyfile(copy, site.settings.places.publishing_database)


@pytest.mark.parametrize("what", ["old", "lost"])
def test_a_job_that_was_resumed_after_the_ledger_forgot_it(memory, empty_box, what) -> None:
    """
    APEL gets zeros for the key that only the lost ledger knew; SGAS's older version is found by the number it names.
    """
    site = Site(memory, empty_box, BOTH)
    site.record(*jobs(3))
    assert [one.error for one in site.publish_all()] == [None, None]
    copy = ledger_copy(site)
    failed = Job("resumed", JUNE + 50, 60, 50, status="failed")
    site.send(failed)
    if what == "old":
        put_ledger_back(site, copy)
    else:
        lose(site.settings.places.publishing_database)
    resumed = failed._replace(end_time=JUNE + 900, wall_s=300, cpu_s=200, status="completed")
    site.record(resumed)
    if what == "old":
        assert "ledger" in status(site)
        assert not agrees(site)

    assert [one.error for one in site.publish_all()] == [None, None]

    assert at_apel(empty_box.apel.job_records) == truth([*jobs(3), resumed], by_lrms=True)
    assert at_sgas(empty_box.sgas.records)["resumed"].wall_s == 60
    held = site.ledger("SELECT Target, State, Reason FROM HeldRecords WHERE JobID = 'resumed'")
    assert [(target, state) for target, state, _why in held] == [("arex/jura/sgas:s", "correction")]
    assert "ur-ce.example.org-resumed" in held[0][2]
    assert not agrees(site)
    assert empty_box.apel.rejected == []


def test_verify_names_each_job_of_which_the_receiver_keeps_an_unknown_version(memory, empty_box) -> None:
    """Whatever bytes the digest of the job has: the ledger stores a single byte for a version that it does not know."""
    site = Site(memory, empty_box, SGAS)
    site.send(*jobs(60))
    lose(site.settings.places.publishing_database)
    site.send(*(one._replace(wall_s=one.wall_s + 60) for one in jobs(60)))

    with site.verified(JUNE_2024) as report:
        named = {one.job_id for one in report.differences if one.source == "sgas:s"}
    assert named == {one.job_id for one in jobs(60)}


@pytest.mark.parametrize("which", [0, 1])
def test_a_job_that_was_held_when_the_lost_ledger_was_found(memory, empty_box, which) -> None:
    """
    Nothing of it was sent again then, and it is sent much later: SGAS names the number of its older version.

    That may be the highest number that SGAS gave, which only the lost ledger knew.
    """
    site = Site(memory, empty_box, SGAS)
    site.record(*jobs(2))
    first = jobs(2)[which]
    assert site.publish().error is None
    site.record(first._replace(wall_s=JUNE))
    lose(site.settings.places.publishing_database)
    assert site.publish().error is None
    assert site.publish().error is None
    site.send(first._replace(wall_s=300), Job("new"))

    assert at_sgas(empty_box.sgas.records)[first.job_id].wall_s == first.wall_s != 300
    assert site.ledger("SELECT JobID, State FROM HeldRecords") == [(first.job_id, "correction")]
    assert not agrees(site)


def test_a_receiver_may_keep_a_job_in_a_month_that_only_a_lost_ledger_knew(memory, empty_box) -> None:
    """It ended again in the next month after the loss, and was deleted: no month is right until SGAS deletes it."""
    site = Site(memory, empty_box, SGAS)
    (job,) = jobs(1)
    site.send(job)
    lose(site.settings.places.publishing_database)
    site.send(job._replace(end_time=job.end_time + 30 * DAY_S))
    site.sql(f"DELETE FROM AAR WHERE JobID = '{job.job_id}'")
    assert site.publish().error is None
    assert not agrees(site)

    empty_box.sgas.delete_records([f"ur-{site.hostname}-{job.job_id}"])
    with closing(access.open_publishing(site.settings.places)) as con:
        held.change_state(con, "arex/jura/sgas:s", [], "retry")
    assert site.publish().error is None
    assert site.held() == {}


def test_a_run_that_failed_behind_a_lost_ledger_forgets_no_number(memory, empty_box) -> None:
    """The first run is refused (another host's name): the second still knows SGAS's older version by its number."""
    site = Site(memory, empty_box, BOTH)
    site.send(Job("changed", wall_s=300), Job("local", endpoint_url=""))
    site.record(Job("changed", wall_s=200))
    lose(site.settings.places.publishing_database)
    site.options |= {"lrms_host": "other.example.org"}
    site.configure(BOTH)
    assert all(one.error is not None for one in site.publish_all())
    site.options.pop("lrms_host")
    site.configure(BOTH)

    assert [one.error for one in site.publish_all()] == [None, None]

    assert at_sgas(empty_box.sgas.records)["changed"].wall_s == 300
    assert site.ledger("SELECT JobID, State FROM HeldRecords") == [("changed", "correction")]


def test_a_lost_ledger_loses_no_job(memory, empty_box) -> None:
    """All since our recording started goes out again, yesterday's too, and changes nothing where it was sent before."""
    site = Site(memory, empty_box, BOTH)
    now = int(time.time())
    site.record(Job("yesterday", now - DAY_S), Job("today", now - 60))
    site.sql(f"UPDATE DBConfig SET KeyValue = '{now - 2 * DAY_S}' WHERE KeyName = 'ARCACCT_CREATED'")
    site.publish_all(since=None)
    site.record(Job("late", now - DAY_S + 5))
    lose(site.settings.places.publishing_database)

    outcomes = site.publish_all(since=None)
    assert [one.error for one in outcomes] == [None, None]
    assert set(at_sgas(empty_box.sgas.records)) == {"yesterday", "today", "late"}
    assert len(empty_box.apel.job_records) == 3


def test_names_that_changed_while_the_ledger_was_lost_wait_for_a_word(memory, empty_box) -> None:
    """Not only in the first run after it: a timer tries again, and status and verify say so, until it is accepted."""
    site = Site(memory, empty_box, CARS)
    site.send(*jobs(3))
    lose(site.settings.places.publishing_database)
    site.configure(CARS.replace("=SITE", "=OTHER"))

    for _ in range(3):
        error = site.publish().error
        assert isinstance(error, FiguresHeld)
        assert "gocdb_name" in str(error)
        told = status(site)
        assert told.startswith("CRITICAL")
        assert "gocdb_name" in told
        assert not agrees(site)
    assert (at_portal(site), at_portal(site, "OTHER")) == ({JUNE_2024: (3, 300)}, {})

    site.configure(CARS)
    assert site.publish().error is None
    assert at_portal(site) == {JUNE_2024: (3, 300)}
    assert agrees(site)


def test_a_month_that_a_job_left_before_the_ledger_was_lost(memory, empty_box) -> None:
    """Nothing is in that month any more, and nothing tells of it but the database: zeros go there all the same."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(Job("job"))
    site.record(Job("job", JUNE + 40 * DAY_S))
    lose(site.settings.places.publishing_database)

    assert site.publish().error is None
    assert at_portal(site) == {(2024, 7): (1, 100)}


def test_names_of_before_are_remembered_next_to_todays(memory, empty_box) -> None:
    """Renamed with nothing to send, then the ledger is lost: the receiver has the jobs under the name of before."""
    site = Site(memory, empty_box, CARS)
    site.send(*jobs(3))
    site.configure(CARS.replace("=SITE", "=OTHER"))
    assert site.publish(former_names="keep").error is None
    lose(site.settings.places.publishing_database)

    error = site.publish().error
    assert isinstance(error, FiguresHeld)
    assert "gocdb_name was SITE and is OTHER" in str(error)
    assert site.publish(accept_lower=(JUNE_2024,)).error is None
    assert site.publish().error is None
    assert "ledger" not in status(site)


def test_keys_in_doubt_of_a_held_month_are_not_forgotten(memory, empty_box) -> None:
    """After an older ledger a month may be held: what is in doubt of it stays so until it is sent."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*jobs(3))
    copy = ledger_copy(site)
    site.send(Job("moved", JUNE + 50, 60, 50, vo="alone"))
    put_ledger_back(site, copy)
    site.record(Job("moved", JUNE + 50, 60, 50, vo="other"))
    site.configure(f"{SUMMARIES}vofilter=nobody\n")
    assert_held(site, "vofilter", figures={JUNE_2024: (4, 360)})

    site.configure(SUMMARIES)
    assert site.publish().error is None
    assert at_portal(site) == {JUNE_2024: (4, 360)}
    assert agrees(site)


def test_the_ledger_of_another_site_is_refused(memory, empty_box, tmp_path) -> None:
    """publishing.db of another database next to ours would take that one's figures back: 78, and nothing is sent."""
    other = Site(tmp_path, empty_box, SUMMARIES)
    other.send(*jobs(7))
    site = Site(memory, empty_box, SUMMARIES)
    site.record(*jobs(2))
    with closing(access.open_accounting(site.settings.places)):
        put_ledger_back(site, ledger_copy(other))

    with pytest.raises(ConfigError, match="of another accounting database"):
        site.publish()
    assert "another accounting database" in status(site)
    assert not agrees(site)
    assert at_portal(site) == {JUNE_2024: (7, 700)}


# -- beginnings


def test_a_new_target_of_records_announces_what_it_was_given(memory, empty_box) -> None:
    """The sync message counts what was sent, not what the database has from before the target's time."""
    site = Site(memory, empty_box, CARS)
    now = int(time.time())
    begun = now - now % DAY_S
    site.record(*jobs(40), Job("new", begun + 60))
    site.sql(f"UPDATE DBConfig SET KeyValue = '{JUNE + 30 * DAY_S}' WHERE KeyName = 'ARCACCT_CREATED'")

    assert site.publish(since=None).error is None
    assert len(empty_box.apel.job_records) == 1
    assert synced(site) == {"SITE": 1}
    assert "40 jobs from before 2024-07-15T12:00:00Z never sent" in status(site)
    site.republish()
    assert "never sent" not in status(site)


def test_imported_history_goes_nowhere_unasked(memory, empty_box) -> None:
    """Years that `import arex` brought are what another program published: neither records nor sums of them go out."""
    site = Site(memory, empty_box, f"{SGAS}{SUMMARIES}")
    site.record(*jobs(40))
    made = int(time.time()) - DAY_S
    site.sql(
        f"UPDATE DBConfig SET KeyValue = '{made}' WHERE KeyName = 'ARCACCT_CREATED'",
        "INSERT INTO ImportedFiles VALUES (1, '/old/accounting.db', 1, 'x', 1, '', '', 0)",
    )
    assert [one.error for one in site.publish_all(since=None)] == [None, None]
    assert empty_box.sgas.records == {}
    assert at_portal(site) == {}


def test_a_month_that_the_database_has_in_part_waits_for_a_word(memory, empty_box) -> None:
    """Somebody else may have published its beginning: held until it is imported or accepted, the next month goes."""
    site = Site(memory, empty_box, SUMMARIES)
    site.record(*jobs(5), Job("july", JUNE + 30 * DAY_S))
    site.sql(f"UPDATE DBConfig SET KeyValue = '{JUNE}' WHERE KeyName = 'ARCACCT_CREATED'")

    outcome = site.publish(since=None)
    assert isinstance(outcome.error, FiguresHeld)
    assert "2024-06 is held" in str(outcome.error)
    assert "`arcacct import`" in str(outcome.error)
    assert at_portal(site) == {(2024, 7): (1, 100)}
    assert synced(site) == {"SITE": 1}

    site.sql("INSERT INTO ImportedFiles VALUES (1, '/old/accounting.db', 1, 'x', 1, '', '', 0)")
    assert site.publish(since=None).error is None
    assert at_portal(site) == {JUNE_2024: (5, 500), (2024, 7): (1, 100)}


def test_a_month_in_part_that_is_accepted_stays_so(memory, empty_box) -> None:
    """One word is enough for all of this month's runs."""
    site = Site(memory, empty_box, SUMMARIES)
    site.record(*jobs(5))
    site.sql(f"UPDATE DBConfig SET KeyValue = '{JUNE}' WHERE KeyName = 'ARCACCT_CREATED'")
    assert isinstance(site.publish().error, FiguresHeld)
    assert site.publish(accept_lower=(JUNE_2024,)).error is None
    con = access.open_accounting(site.settings.places)
    con.close()
    site.record(*jobs(2, 5))
    site.sql(f"UPDATE DBConfig SET KeyValue = '{JUNE}' WHERE KeyName = 'ARCACCT_CREATED'")

    assert site.publish().error is None
    assert at_portal(site) == {JUNE_2024: (7, 700)}


# -- SGAS


@pytest.fixture
def corrected(memory, empty_box) -> Site:
    """A site whose SGAS has 3 h of a job that turned out to take 6."""
    site = Site(memory, empty_box, SGAS)
    site.send(Job("job", wall_s=3 * 3600))
    site.record(Job("job", wall_s=6 * 3600))
    assert site.publish().summary.corrections == 1
    return site


def retry(site: Site) -> None:
    con = access.open_publishing(site.settings.places)
    held.change_state(con, None, ["job"], "retry")
    con.close()


def test_a_retry_before_sgas_was_cleared_is_noticed(corrected) -> None:
    """SGAS thanks and keeps the old record in its row: it is a correction again, and verify says NO."""
    retry(corrected)
    done = arcacct("--config", str(corrected.path / "arc.conf"), "publish", "--now")

    assert done.returncode == 65, done.stderr
    assert "kept its older version" in done.stderr
    assert "1 record quarantined" in done.stdout
    assert at_sgas(corrected.box.sgas.records)["job"].wall_s == 3 * 3600
    ((state, why),) = corrected.held().values()
    assert state == "correction"
    assert "still has an older version" in why
    assert "`arcacct quarantine sql`" in why
    assert not agrees(corrected)

    corrected.box.sgas.delete_records(["ur-ce.example.org-job"])
    retry(corrected)
    corrected.publish()
    assert at_sgas(corrected.box.sgas.records)["job"].wall_s == 6 * 3600
    assert corrected.held() == {}
    assert agrees(corrected)


def test_the_sql_for_the_administrator(corrected) -> None:
    """One transaction that names the record, its children first, and has the daily sums made again."""
    done = arcacct("--config", str(corrected.path / "arc.conf"), "quarantine", "sql", "sgas:s")

    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert "  'ur-ce.example.org-job'" in lines
    order = ("BEGIN;", "INSERT INTO uraggregated_update", "DELETE FROM runtimeenvironment_usagedata",
             "DELETE FROM jobtransferdata", "DELETE FROM usagedata", "COMMIT;")  # fmt: skip
    places = [next(number for number, line in enumerate(lines) if line.startswith(start)) for start in order]
    assert places == sorted(places)
    retry(corrected)
    nothing = arcacct("--config", str(corrected.path / "arc.conf"), "quarantine", "sql", "sgas:s")
    assert nothing.returncode == 65


def test_corrections_that_replace(memory, empty_box) -> None:
    """With sgas_corrections=replace the server itself puts the new version in place, and its daily sums are right."""
    site = Site(memory, empty_box, f"{SGAS}sgas_corrections=replace\n")
    site.send(*jobs(2))
    for wall_s in (500, 900, 100):
        site.record(jobs(2)[0]._replace(wall_s=wall_s))
        assert site.publish().summary.corrections == 0
        assert at_sgas_walls(site) == {"ur-ce.example.org-job00000": wall_s, "ur-ce.example.org-job00001": 100}
        assert agrees(site)
    assert site.republish().error is None
    assert at_sgas_walls(site) == {"ur-ce.example.org-job00000": 100, "ur-ce.example.org-job00001": 100}
    assert site.held() == {}
    empty_box.sgas.update_aggregates()
    assert sum(one.jobs for one in empty_box.sgas.aggregates.values()) == 2


def test_a_record_that_is_repaired_replaces_nothing_when_it_is_sent_again(memory, empty_box) -> None:
    """The same version goes as it went, though what is written differs from what is recorded (a name cut to fit)."""
    site = Site(memory, empty_box, f"{SGAS}sgas_corrections=replace\n")
    site.send(jobs(1)[0]._replace(name="n" * 1200))
    before = {one.global_job_id for one in empty_box.sgas.records.values()}
    site.republish()

    (again,) = site.ledger("SELECT Bytes FROM MessageBytes ORDER BY MessageID DESC LIMIT 1")
    assert before == {"job00000"}
    assert b"<GlobalJobId>job00000</GlobalJobId>" in again[0]


def at_sgas_walls(site: Site) -> dict[str, int]:
    return {record_id: row.wall_duration for record_id, row in site.box.sgas.records.items()}


# -- what a message is, and what a record was


def test_a_message_is_in_the_ledger_while_the_receiver_answers(memory, empty_box, monkeypatch) -> None:
    """Another connection sees it as `sending`, with its records and bytes, before the receiver has said anything."""
    site = Site(memory, empty_box, SGAS)
    site.record(*jobs(3))
    seen: list[tuple[object, ...]] = []
    answer = empty_box.sgas.answer

    def look(request):
        if request.method == "POST":
            seen.extend(
                site.ledger(
                    "SELECT State, count(*), sum(length(MessageBytes.Bytes) > 0) FROM Messages"
                    " JOIN SentRecords USING (MessageID) JOIN MessageBytes USING (MessageID)"
                )
            )
        return answer(request)

    monkeypatch.setattr(empty_box.sgas, "answer", look)
    assert site.publish().error is None
    assert seen == [("sending", 3, 3)]
    assert site.ledger("SELECT State FROM Messages") == [("accepted",)]


def test_other_digests_make_no_record_changed(memory, empty_box, monkeypatch) -> None:
    """What a former program sent is compared by the values of its own digest."""
    from arcacct.publishing.plugin import RecordFormat
    from arcacct.targets.sgas.target import UsageRecords

    site = Site(memory, empty_box, BOTH)
    site.record(*jobs(3))
    with monkeypatch.context() as former:
        former.setattr(UsageRecords, "digest", RecordFormat.digest)
        site.publish_all()
    site.sql("UPDATE FinishedLog SET Seq = Seq + 100")
    site.record(Job("new", JUNE + 70))

    assert [
        sum(one.records for kind, one in found.summary.sent.items() if kind != "sync") for found in site.publish_all()
    ] == [1, 1]
    assert site.held() == {}
    assert sorted(site.ledger("SELECT length(Digest), count(*) FROM SentRecords GROUP BY 1")) == [(16, 7), (17, 1)]
    site.record(Job("new", JUNE + 70, wall_s=7), jobs(3)[0]._replace(wall_s=7))
    (sgas, apel) = site.publish_all()
    assert (sgas.summary.corrections, apel.summary.sent["car"].records) == (2, 2)


# -- two records with one key


def test_two_jobs_that_apel_takes_for_one(memory, empty_box) -> None:
    """Equal local ids and ends: the second would overwrite the first, so it is set aside with the reason."""
    site = Site(memory, empty_box, CARS)
    site.send(Job("one", local_id="77"), Job("two", local_id="77"), Job("three", local_id="78"))
    assert len(empty_box.apel.job_records) == 2
    ((job, (state, why)),) = site.held().items()
    assert (job, state) == ("two", "quarantined")
    assert "one" in why

    site.send(Job("four", local_id="78"))
    assert set(site.held()) == {"two", "four"}
    assert len(empty_box.apel.job_records) == 2


def test_json_of_a_held_month(sums) -> None:
    """`status --format json` has it as a check of its own."""
    new_life(sums)
    sums.record(*jobs(1))
    sums.publish()
    done = arcacct("--config", str(sums.path / "arc.conf"), "status", "--format", "json")
    checks = {one["subject"]: one for one in json.loads(done.stdout)}
    assert checks["apel:a figures"]["severity"] == 2


def test_a_rehearsal_touches_no_ledger_of_the_site(memory, empty_box) -> None:
    """With rehearsal= the runs have a ledger of their own, and the site's continues as if nothing had been."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*jobs(5))
    before = pathlib.Path(site.settings.places.publishing_database).read_bytes()
    known = site.database("SELECT * FROM DBConfig WHERE KeyName LIKE 'LEDGER%' OR KeyName LIKE 'NAMES%'")
    site.options["rehearsal"] = str(memory / "ledger")
    site.configure(SUMMARIES.replace("=SITE", "=REHEARSAL"))
    site.send(*jobs(2, 5))
    assert at_portal(site, "REHEARSAL") == {JUNE_2024: (7, 700)}
    conf = str(memory / "arc.conf")
    refused = arcacct("--config", conf, "db", "prune", "--before", "2025-01-01", "--yes")
    assert (refused.returncode, "rehearsal" in refused.stderr) == (78, True)

    del site.options["rehearsal"]
    site.configure(SUMMARIES)
    assert pathlib.Path(site.settings.places.publishing_database).read_bytes() == before
    assert site.database("SELECT * FROM DBConfig WHERE KeyName LIKE 'LEDGER%' OR KeyName LIKE 'NAMES%'") == known
    assert site.publish().error is None
    assert at_portal(site) == {JUNE_2024: (7, 700)}
    assert "OK" not in status(site).splitlines()[0] or "ledger" not in status(site)


def test_databases_that_moved_continue(sums) -> None:
    """`db move`, and the line that it prints: the same life in another place, and nothing falls."""
    conf = str(sums.path / "arc.conf")
    done = arcacct("--config", conf, "db", "move", str(sums.path / "elsewhere"), "--yes")
    assert done.returncode == 0, done.stderr
    assert arcacct("--config", conf, "publish", "--now").returncode == 78
    sums.options["database"] = str(sums.path / "elsewhere" / "accounting.db")
    sums.configure(SUMMARIES)
    sums.record(Job("more", JUNE + 500))

    assert sums.publish().error is None
    assert at_portal(sums) == {JUNE_2024: (42, 4200)}
    assert agrees(sums)
