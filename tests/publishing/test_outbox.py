"""Packed jobs around publishing: they go when every target is past them, and nothing that is sent depends on them."""

from __future__ import annotations

import pathlib
import sqlite3
from contextlib import closing

import pytest
from both_ways import packed
from publishing_site import CARS, SGAS, Site, at_apel, at_sgas, jobs, publish_well, truth

from arcacct.arex.sweep import sweep
from arcacct.database import access, upkeep
from arcacct.database.schema import noted
from arcacct.errors import StoreError
from arcacct.publishing.run import publish
from arcacct.publishing.target_run import RunOptions
from arcacct.records import usage
from arcacct.targets import plugins

RELEASED = pathlib.Path(__file__).parents[1] / "data" / "released"
BOTH = SGAS + CARS


def packs(site: Site) -> list[int]:
    """The records that are packed."""
    return [record_id for (record_id,) in site.database("SELECT RecordID FROM PackedJobs ORDER BY RecordID")]


@pytest.fixture
def site(memory, empty_box) -> Site:
    """A site that publishes to SGAS and to APEL."""
    return Site(memory, empty_box, BOTH)


def test_packs_go_when_every_target_has_the_records(site) -> None:
    """What was sent everywhere is packed no more; what is new is, until it was sent."""
    site.record(*jobs(5))
    assert packs(site) == [1, 2, 3, 4, 5]
    assert publish_well(site) == [5, 5]
    assert packs(site) == []

    site.record(*jobs(3, 5))
    assert packs(site) == [6, 7, 8]
    assert publish_well(site) == [3, 3]

    assert packs(site) == []
    assert at_sgas(site.box.sgas.records) == truth(jobs(8))
    assert at_apel(site.box.apel.job_records) == truth(jobs(8), by_lrms=True)


def test_packs_wait_for_the_last_target(site) -> None:
    """One target that cannot be reached keeps the packs of what it lacks, and no others."""
    site.record(*jobs(2))
    publish_well(site)
    site.record(*jobs(3, 2))
    # Where nobody listens.
    site.configure(SGAS + CARS.replace("{ams}", "https://127.0.0.1:9").replace("{authn}", "9"))
    assert [one.error is None for one in site.publish_all()] == [True, False]

    assert packs(site) == [3, 4, 5]
    site.configure(BOTH)
    assert publish_well(site) == [0, 3]
    assert packs(site) == []


def test_a_new_target_reads_what_is_packed_no_more(site) -> None:
    """A target that is added later is sent all that there was."""
    site.configure(SGAS)
    site.record(*jobs(4))
    assert publish_well(site) == [4]
    assert packs(site) == []

    site.configure(BOTH)

    assert publish_well(site) == [0, 4]
    assert at_apel(site.box.apel.job_records) == truth(jobs(4), by_lrms=True)


def test_a_target_without_a_run_keeps_them(site) -> None:
    """A target that is configured and was never published to is waited for."""
    site.record(*jobs(2))
    site.publish_all(since=1)
    site.configure(BOTH + CARS.replace("apel:a", "apel:b"))
    site.record(*jobs(2, 2))

    chosen = [plugin for plugin in plugins(site.settings) if plugin.target.name == "sgas:s"]
    assert [one.error for one in publish(site.settings, chosen, RunOptions(since=1, now=True))] == [None]

    assert packs(site) == [3, 4]


def test_a_site_that_never_publishes_is_bounded(site, monkeypatch) -> None:
    """Of the log's last places alone there are packs, whoever never comes for them: the sweep sees to it."""
    monkeypatch.setattr(usage, "MOST", 3)
    site.record(*jobs(10))
    here = site.settings.places
    with closing(access.open_accounting(here)) as con:
        sweep(here, con, dry_run=True)
        assert len(packs(site)) == 10
        sweep(here, con)
        assert packs(site) == [8, 9, 10]

        done: list[str] = []
        con.set_trace_callback(done.append)
        usage.delete_delivered(con, here, 0)

    assert [statement.partition(" ")[0] for statement in done] == ["SELECT", "SELECT"]
    assert packs(site) == [8, 9, 10]


def test_letting_go_goes_on_where_it_was_interrupted(site, monkeypatch) -> None:
    """Killed between two slices, the next run lets go of the rest; nothing is looked at twice."""
    monkeypatch.setattr(usage, "_SLICE", 2)
    site.record(*jobs(7))
    here = site.settings.places
    with closing(access.open_accounting(here)) as con:
        con.execute(
            "CREATE TEMP TRIGGER Cut BEFORE DELETE ON main.PackedJobs WHEN old.RecordID = 5"
            " BEGIN SELECT RAISE(ROLLBACK, 'cut'); END"
        )
        with pytest.raises(StoreError, match="cut"):
            usage.delete_delivered(con, here, 7)
        con.execute("DROP TRIGGER Cut")
        assert packs(site) == [5, 6, 7]
        assert noted(con, "ARCACCT_PACKS_AFTER") == "4"
        assert len(packed(con)) == 3

        usage.delete_delivered(con, here, 7)
    assert packs(site) == []


def test_what_is_missing_can_be_packed(site) -> None:
    """Records of an older program, or changed since: packed as they are now, and let go as all others are."""
    site.record(*jobs(6))
    site.sql("DELETE FROM PackedJobs WHERE RecordID > 2", "UPDATE AAR SET UsedWalltime = 4711 WHERE RecordID = 1")
    here = site.settings.places
    with closing(access.open_accounting(here)) as con:
        usage.delete_delivered(con, here, 7)
        assert usage.pack_logged(con, here, 0, 2**62) == 6
        assert usage.pack_logged(con, here, 0, 2**62) == 0
        assert len(packed(con)) == 6
    assert publish_well(site) == [6, 6]
    assert packs(site) == []


@pytest.mark.parametrize("version", sorted(path.name for path in RELEASED.iterdir()))
def test_the_packs_of_a_released_database_go_out(memory, empty_box, version) -> None:
    """Taken forward its packs are used and go; those of later jobs, too."""
    site = Site(memory, empty_box, BOTH)
    here = site.settings.places
    pathlib.Path(here.directory).mkdir(parents=True)
    with closing(sqlite3.connect(here.database)) as con:
        con.execute("PRAGMA journal_mode = WAL")
        con.executescript((RELEASED / version / "accounting.sql").read_text())
    with closing(access.open_accounting(here)) as con:
        assert packed(con)
    site.record(*jobs(2, 100))

    sent = publish_well(site)

    assert min(sent) > 2
    assert packs(site) == []


def test_a_backup_that_is_put_back_has_no_packs(site, tmp_path) -> None:
    """They are read as they are, and a backup may have been anywhere: the tables are read instead."""
    site.record(*jobs(3))
    here = site.settings.places
    copy = next(one.path for one in upkeep.backups(here, str(tmp_path)))
    upkeep.restore(here, copy)

    assert packs(site) == []
    assert publish_well(site) == [3, 3]
