"""What an operator accepts lasts until the next fall, and messages name every month concerned."""

from __future__ import annotations

import pathlib

import pytest
from publishing_site import CARS, DAY_S, JUNE, SUMMARIES, Job, Site, jobs

from arcacct.database import upkeep
from arcacct.errors import FiguresHeld

JUNE_2024, JULY_2024 = (2024, 6), (2024, 7)


def lose_ledger(site: Site) -> None:
    """publishing.db is gone."""
    for suffix in ("", "-wal", "-shm"):
        pathlib.Path(site.settings.places.publishing_database + suffix).unlink(missing_ok=True)


def at_portal(site: Site, name: str = "SITE") -> dict[tuple[int, int], int]:
    """The wall seconds of each month at the portal."""
    totals = site.box.apel.totals().items()
    return {(year, month): one.wall_s for (found, year, month), one in totals if found == name and one.wall_s}


@pytest.fixture
def forgetful(memory, empty_box) -> Site:
    """Jobs of June and July were published, then both databases were lost or put back, and the site has a new name."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*jobs(18), Job("july", JUNE + 30 * DAY_S))
    copy = site.backup()
    site.send(*jobs(18, 18), *[Job(f"july{number}", JUNE + 30 * DAY_S) for number in range(4)])
    site.put_back(copy)
    lose_ledger(site)
    site.configure(SUMMARIES.replace("=SITE", "=NEW"))
    return site


def test_a_refusal_names_every_month(forgetful) -> None:
    """Nothing is sent of any of them, with how many jobs of each are here."""
    error = forgetful.publish().error
    assert isinstance(error, FiguresHeld)
    assert "nothing is sent" in str(error)
    for word in ("2024-06 (18 jobs here)", "2024-07 (1 job here)"):
        assert word in str(error)


def test_an_acceptance_lasts_while_another_month_is_held(forgetful) -> None:
    """One month is accepted; from then on only the other one is held, by name, in each run."""
    assert isinstance(forgetful.publish().error, FiguresHeld)
    for accepted in ((JUNE_2024,), (), ()):
        error = forgetful.publish(accept_lower=accepted).error
        assert isinstance(error, FiguresHeld)
        assert "2024-07 is held" in str(error)
        assert "nothing is sent" not in str(error)
        assert "2024-06" not in str(error)
        assert at_portal(forgetful, "NEW") == {JUNE_2024: 1800}

    # Nothing was left to compare with, so every month since the backup is named, and accepted at once.
    held = tuple(forgetful.ledger("SELECT Year, Month FROM TargetMonths WHERE Cause IS NOT NULL ORDER BY 1, 2"))
    assert held[0] == JULY_2024
    assert forgetful.publish(accept_lower=held).error is None
    assert forgetful.publish().error is None
    assert at_portal(forgetful, "NEW") == {JUNE_2024: 1800, JULY_2024: 100}


def test_an_acceptance_ends_with_the_next_fall(memory, empty_box) -> None:
    """Months that are held say so together, with one command for all; a later fall is another one."""
    site = Site(memory, empty_box, SUMMARIES)
    july = [Job(f"july{number}", JUNE + 30 * DAY_S) for number in range(4)]
    site.send(*jobs(3))
    copies = [site.backup("first")]
    site.send(*jobs(4), *july[:2])
    copies.append(site.backup("second"))
    site.send(*jobs(6), *july)
    site.put_back(copies[1])

    error = site.publish().error
    assert "2024-06 is held: 6 jobs published, 4 in the database now" in str(error)
    assert "2024-07 is held: 4 jobs published, 2 in the database now" in str(error)
    assert str(error).count("`arcacct publish --accept-lower 2024-06 --accept-lower 2024-07`") == 1
    assert site.publish(accept_lower=(JUNE_2024, JULY_2024)).error is None
    assert site.publish().error is None
    assert at_portal(site) == {JUNE_2024: 400, JULY_2024: 200}

    site.put_back(copies[0])
    assert "2024-06 is held: 4 jobs published, 3 in the database now" in str(site.publish().error)


@pytest.mark.parametrize("kinds", [("individual", "urs"), ("urs", "individual-v04")])
def test_kinds_with_the_same_keys_are_no_doubt(memory, empty_box, kinds) -> None:
    """All kinds of job records have one key at APEL: without the ledger of before they replace each other."""
    before, after = (CARS.replace("=urs", f"={kind}") for kind in kinds)
    site = Site(memory, empty_box, before)
    site.send(*jobs(3))
    lose_ledger(site)
    site.configure(after)

    assert site.publish().error is None
    assert at_portal(site) == {JUNE_2024: 300}


# -- a name that was mistyped for one run


def mistyped(site: Site, messages: str) -> None:
    """The site's name is mistyped at the beginning of July, for one run that sends 9 jobs of it."""
    site.configure(messages)
    site.send(*jobs(5))
    site.configure(messages.replace("=SITE", "=SIGHT"))
    site.record(Job("late", JUNE + 500), *[Job(f"july{number}", JUNE + 30 * DAY_S + number) for number in range(9)])
    assert "gocdb_name was SITE and is SIGHT" in str(site.publish().error)
    assert at_portal(site, "SIGHT") == {JULY_2024: 900}
    site.configure(messages)


KINDS = ("summaries", "summaries-v04", "urs", "individual")


@pytest.mark.parametrize("kind", KINDS)
def test_jobs_under_a_mistyped_name_move_to_the_right_one(memory, empty_box, kind) -> None:
    """Both names are ours, as the ledger knows: zeros there and the jobs here, and no one has to accept anything."""
    site = Site(memory, empty_box, SUMMARIES)
    mistyped(site, SUMMARIES.replace("=summaries", f"={kind}"))

    for _ in range(2):
        assert site.publish().error is None
        assert at_portal(site, "SIGHT") == {}
        assert at_portal(site) == {JUNE_2024: 600, JULY_2024: 900}
    # APEL compares names without regard to capital letters.
    announced = {
        (row["Site"].upper(), row["Month"]): row["NumberOfJobs"] for row in empty_box.apel.sync_records.values()
    }
    assert announced == {("SITE", 6): 6, ("SIGHT", 7): 0, ("SITE", 7): 9}


def renamed(memory, empty_box, kind: str) -> Site:
    """A site that got the name NEW for good: June was published under the old name, July under the new one."""
    messages = SUMMARIES.replace("=summaries", f"={kind}")
    site = Site(memory, empty_box, messages)
    site.send(*jobs(5))
    site.configure(messages.replace("=SITE", "=NEW"))
    site.record(Job("july", JUNE + 30 * DAY_S))
    assert site.publish(former_names="keep").error is None
    return site


@pytest.mark.parametrize("kind", KINDS)
def test_an_old_name_by_mistake_moves_nothing(memory, empty_box, kind) -> None:
    """The site was renamed for good; the old name, put back by mistake, is the older one: it proves nothing."""
    site = renamed(memory, empty_box, kind)
    site.configure(SUMMARIES.replace("=summaries", f"={kind}"))
    site.record(Job("more", JUNE + 30 * DAY_S + 1))

    error = site.publish().error
    assert "2024-07 is held" in str(error)
    assert "gocdb_name was NEW and is SITE" in str(error)
    assert (at_portal(site), at_portal(site, "NEW")) == ({JUNE_2024: 500}, {JULY_2024: 100})


@pytest.mark.parametrize("kind", KINDS)
def test_a_month_before_a_rename_keeps_its_name(memory, empty_box, kind) -> None:
    """A late job of a month that was published under the old name waits, and the message names that."""
    site = renamed(memory, empty_box, kind)
    site.record(Job("late", JUNE + 500))

    error = site.publish().error
    assert "5 jobs published under the name SITE" in str(error)
    assert "the database lost" not in str(error)
    assert (at_portal(site), at_portal(site, "NEW")) == ({JUNE_2024: 500}, {JULY_2024: 100})


def test_a_database_that_was_lost_while_a_name_was_mistyped_is_held(memory, empty_box) -> None:
    """The right name proves nothing about jobs that are gone."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*jobs(5))
    copy = site.backup()
    mistyped(site, SUMMARIES)
    site.put_back(copy)

    error = site.publish().error
    assert "2024-07 is held: 9 jobs published under the name SIGHT, 0 in the database now (https" in str(error)
    assert at_portal(site, "SIGHT") == {JULY_2024: 900}


# -- a ledger from before, or from after, other names


def ledger_copy(site: Site) -> str:
    """A copy of publishing.db, as `db backup` makes it."""
    folder = site.path / "copies"
    folder.mkdir(exist_ok=True)
    (copy,) = [one.path for one in upkeep.backups(site.settings.places, str(folder)) if "publishing" in one.path]
    return copy


@pytest.mark.parametrize(("before", "after"), [("urs", "summaries"), ("summaries", "urs")])
def test_an_older_ledger_knows_what_was_sent_before_it_was_copied(memory, empty_box, before, after) -> None:
    """The kind was changed, then the ledger was copied: put back later it knows which months are of which kind."""
    site = Site(memory, empty_box, SUMMARIES.replace("=summaries", f"={before}"))
    site.send(*jobs(3))
    site.configure(SUMMARIES.replace("=summaries", f"={after}"))
    site.send(Job("july", JUNE + 30 * DAY_S))
    copy = ledger_copy(site)
    site.send(Job("more", JUNE + 30 * DAY_S + 1), Job("late", JUNE + 500), Job("august", JUNE + 60 * DAY_S))
    upkeep.restore(site.settings.places, copy)

    for _ in range(2):
        assert site.publish().error is None
        assert at_portal(site) == {JUNE_2024: 400, JULY_2024: 200, (2024, 8): 100}


def test_an_older_ledger_does_not_know_names_that_were_used_after_it(memory, empty_box) -> None:
    """Another site name was configured for a run after the copy: what was sent then is unknown, nothing is sent."""
    site = Site(memory, empty_box, CARS)
    site.record(*jobs(3))
    assert site.publish().error is None
    copy = ledger_copy(site)
    site.configure(CARS.replace("gocdb_name=", "gocdb_name=OTHER-"))
    site.record(Job("july", JUNE + 30 * DAY_S))
    site.publish()
    site.configure(CARS)
    site.publish()
    upkeep.restore(site.settings.places, copy)

    for _ in range(2):
        error = site.publish().error
        assert isinstance(error, FiguresHeld)
        assert "gocdb_name was OTHER-" in str(error)


@pytest.mark.parametrize("loss", ["older copy", "lost"])
@pytest.mark.parametrize("fails", [False, True])
def test_the_kind_of_each_month_survives_the_ledger(memory, empty_box, loss, fails) -> None:
    """The kind changed after the copy and a month started in it: each month is sent again in its own kind."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*jobs(3))
    copy = ledger_copy(site)
    site.configure(SUMMARIES.replace("=summaries", "=urs"))
    site.record(Job("july", JUNE + 30 * DAY_S))
    if fails:
        # The first run with the new kind: the month starts at the receiver, and the answer is lost.
        site.box.faults.drop("ams", after_work=True, times=None)
    assert (site.publish().error is None) is not fails
    site.box.faults.clear()
    if loss == "lost":
        lose_ledger(site)
    else:
        upkeep.restore(site.settings.places, copy)

    for kind in ("urs", "summaries") if not fails else ("urs",):
        site.configure(SUMMARIES.replace("=summaries", f"={kind}"))
        assert site.publish().error is None, kind
        assert at_portal(site) == {JUNE_2024: 300, JULY_2024: 100}


def test_figures_that_are_accepted_say_nothing_of_other_names(memory, empty_box) -> None:
    """A month is accepted while the ledger is in doubt; once the ledger is lost its kind is still known."""
    site = Site(memory, empty_box, CARS)
    site.send(*jobs(3))
    site.configure(SUMMARIES)
    site.send(Job("july", JUNE + 30 * DAY_S))
    copy = ledger_copy(site)
    upkeep.restore(site.settings.places, copy)
    assert site.publish(accept_lower=(JULY_2024,)).error is None
    lose_ledger(site)

    assert site.publish().error is None
    assert at_portal(site) == {JUNE_2024: 300, JULY_2024: 100}


def test_a_month_that_is_accepted_for_all_targets_says_nothing_of_the_names_of_one(memory, empty_box) -> None:
    """That word is one about a single target, which its message names."""
    site = Site(memory, empty_box, CARS)
    site.send(*jobs(3))
    lose_ledger(site)
    site.configure(SUMMARIES)

    for options in ({}, {"accept_lower": (JUNE_2024,), "accept_names": False}):
        error = str(site.publish(**options).error)
        assert "`arcacct publish --target apel:a --accept-lower YYYY-MM`" in error
    assert at_portal(site) == {JUNE_2024: 300}
    assert site.publish(accept_lower=(JUNE_2024,)).error is None
