"""The place in the log up to which every target has handled records: what is behind it waits for a target."""

from __future__ import annotations

import pathlib
import sqlite3
from contextlib import closing

import pytest
from publishing_site import CARS, SGAS, Site, at_apel, at_sgas, jobs, publish_well, truth

from arcacct.database import access, upkeep
from arcacct.database.schema import delivered
from arcacct.publishing.run import publish
from arcacct.publishing.target_run import RunOptions
from arcacct.targets import plugins

RELEASED = pathlib.Path(__file__).parents[1] / "data" / "released"
BOTH = SGAS + CARS


def noted(site: Site) -> int:
    """The place that is noted."""
    with closing(access.open_accounting(site.settings.places)) as con:
        return delivered(con)


@pytest.fixture
def site(memory, empty_box) -> Site:
    """A site that publishes to SGAS and to APEL."""
    return Site(memory, empty_box, BOTH)


def test_the_place_moves_when_every_target_has_the_records(site) -> None:
    """What is new waits until it was sent everywhere."""
    site.record(*jobs(5))
    assert noted(site) == 0
    assert publish_well(site) == [5, 5]
    assert noted(site) == 5

    site.record(*jobs(3, 5))
    assert noted(site) == 5
    assert publish_well(site) == [3, 3]

    assert noted(site) == 8
    assert at_sgas(site.box.sgas.records) == truth(jobs(8))
    assert at_apel(site.box.apel.job_records) == truth(jobs(8), by_lrms=True)


def test_the_place_waits_for_the_last_target(site) -> None:
    """One target that cannot be reached keeps it before what it lacks."""
    site.send(*jobs(2))
    site.record(*jobs(3, 2))
    # Where no one listens.
    site.configure(SGAS + CARS.replace("{ams}", "https://127.0.0.1:9").replace("{authn}", "9"))
    assert [one.error is None for one in site.publish_all()] == [True, False]

    assert noted(site) == 2
    site.configure(BOTH)
    assert publish_well(site) == [0, 3]
    assert noted(site) == 5


def test_a_new_target_is_sent_what_the_others_have(site) -> None:
    """The place does not go back for a target that is added later: the others have what they were sent."""
    site.configure(SGAS)
    site.record(*jobs(4))
    assert publish_well(site) == [4]
    site.configure(BOTH)
    site.record(*jobs(1, 4))
    chosen = [plugin for plugin in plugins(site.settings) if plugin.target.name == "sgas:s"]
    assert [one.error for one in publish(site.settings, chosen, RunOptions(since=1, now=True))] == [None]
    assert noted(site) == 4

    assert publish_well(site) == [0, 5]

    assert noted(site) == 5
    assert at_apel(site.box.apel.job_records) == truth(jobs(5), by_lrms=True)


@pytest.mark.parametrize("version", sorted(path.name for path in RELEASED.iterdir()))
def test_what_waits_in_a_released_database_waits_after_its_upgrade(memory, empty_box, version) -> None:
    """Former programs said so by a packed copy of each waiting job."""
    site = Site(memory, empty_box, BOTH)
    here = site.settings.places
    pathlib.Path(here.directory).mkdir(parents=True)
    with closing(sqlite3.connect(here.database)) as con:
        con.execute("PRAGMA journal_mode = WAL")
        con.executescript((RELEASED / version / "accounting.sql").read_text())
        (first,) = con.execute("SELECT min(Seq) FROM PackedJob JOIN FinishedLog USING (RecordID, Seq)").fetchone()
    assert first > 1
    assert noted(site) == first - 1
    site.record(*jobs(2, 100))

    sent = publish_well(site)

    assert min(sent) > 2
    assert noted(site) == site.database("SELECT max(Seq) FROM FinishedLog")[0][0]


def test_nothing_waits_in_a_released_database_without_copies(memory, empty_box) -> None:
    """All was delivered, or the database was restored from a backup: targets may have each of its records."""
    site = Site(memory, empty_box, BOTH)
    here = site.settings.places
    pathlib.Path(here.directory).mkdir(parents=True)
    with closing(sqlite3.connect(here.database)) as con:
        con.execute("PRAGMA journal_mode = WAL")
        con.executescript((RELEASED / "0.2.0" / "accounting.sql").read_text())
        con.execute("DELETE FROM PackedJob")
        con.commit()

    assert noted(site) == site.database("SELECT max(Seq) FROM FinishedLog")[0][0] > 0


def test_nothing_waits_in_a_backup_that_is_restored(site, tmp_path) -> None:
    """Targets may have been sent all of it since it was made."""
    site.record(*jobs(3))
    here = site.settings.places
    copy = next(one.path for one in upkeep.backups(here, str(tmp_path)))
    publish_well(site)
    upkeep.restore(here, copy)

    assert noted(site) == 3
