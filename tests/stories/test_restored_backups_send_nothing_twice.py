"""Backups that come back and power cuts: what is new is sent, what was sent is recognised."""

from __future__ import annotations

import pathlib

import pytest
from publishing_site import CARS, SGAS, Job, Site, jobs, publish_well, received_by_both

from arcacct.database import access
from arcacct.database.incarnation import raise_fence
from arcacct.database.schema import PUBLISHING

BOTH = SGAS + CARS


@pytest.fixture
def site(memory, empty_box):
    """A site with a target of SGAS and one of APEL."""
    return Site(memory, empty_box, BOTH)


@pytest.mark.parametrize("by_hand", [False, True], ids=["db-restore", "by-hand"])
def test_a_restored_backup_sends_nothing_twice(site, by_hand) -> None:
    """After a restore the numbers of the log begin again: what is new is sent, what was sent is recognised."""
    site.send(*jobs(4))
    copy = site.backup()
    site.send(*jobs(4, 4))
    site.put_back(copy, by_hand=by_hand)
    # The sweep finds the lost jobs again, in another order, and more of them than there were.
    new = jobs(4, 8)
    site.record(*new, *reversed(jobs(4, 4)))

    assert publish_well(site) == [4, 4]
    assert received_by_both(site) == {job.job_id for job in jobs(12)}
    assert site.box.sgas.ignored_repeats == 0
    assert site.held() == {}


@pytest.mark.parametrize("by_hand", [False, True], ids=["db-restore", "by-hand"])
def test_a_message_under_way_does_not_hide_jobs_of_the_restored_database(site, by_hand) -> None:
    """The answer to a message of before the restore moves no cursor: its number belongs to another job now."""
    publish_well(site)
    copy_of_nothing = site.backup()
    site.record(*jobs(4))
    site.box.faults.answer("sgas", 503, times=None)
    site.box.faults.answer("ams", 503, times=None)
    site.publish_all()
    site.box.faults.clear()
    site.put_back(copy_of_nothing, by_hand=by_hand)
    site.record(*jobs(4, 4))

    publish_well(site)
    assert received_by_both(site) == {job.job_id for job in jobs(8)}


def test_a_power_cut_takes_back_only_what_was_not_published(site) -> None:
    """Jobs committed after the fence may vanish with the power; whatever gets their numbers then is sent as well."""
    here = site.settings.places
    site.record(*jobs(3))
    keeps_the_wal = access.open_accounting(here)
    publish_well(site)
    site.record(Job("lost-one"), Job("lost-two"))
    raise_fence(keeps_the_wal, here)
    on_disk = [
        (path, path.read_bytes()) for path in (pathlib.Path(here.database), pathlib.Path(f"{here.database}-wal"))
    ]
    site.record(Job("unsynced"))
    keeps_the_wal.close()
    pathlib.Path(f"{here.database}-shm").unlink(missing_ok=True)
    for path, content in on_disk:
        path.write_bytes(content)
    site.record(Job("another"))

    assert publish_well(site) == [3, 3]
    assert received_by_both(site) == {*(job.job_id for job in jobs(3)), "lost-one", "lost-two", "another"}
    site.record(Job("unsynced"))
    assert publish_well(site) == [1, 1]


def test_the_fence_is_synced(site) -> None:
    """The fence is a change of a real row, committed with an fsync; recording continues without."""
    site.record(*jobs(3))
    here = site.settings.places
    con = access.open_accounting(here)
    statements: list[str] = []
    con.set_trace_callback(statements.append)

    first, second = raise_fence(con, here), raise_fence(con, here)

    con.set_trace_callback(None)
    assert (first.horizon, second.horizon, second.passed - first.passed) == (3, 3, 1)
    heads = [one.split("(")[0].split("SET")[0].strip() for one in statements]
    full, commit = heads.index("PRAGMA synchronous = FULL"), heads.index("COMMIT")
    assert full < heads.index("UPDATE Fence") < commit < heads.index("PRAGMA synchronous = NORMAL")
    assert con.execute("PRAGMA synchronous").fetchone() == (1,)
    con.close()


def test_nothing_beyond_the_fence_is_read(site) -> None:
    """What is committed after the fence waits for the next run, since a power cut could still take it back."""
    site.record(*jobs(3))
    done = []

    def record_more(_target: str, _summary: object) -> None:
        if not done:
            done.append(True)
            site.record(Job("during"))

    assert publish_well(site, watch=record_more) == [3, 3]
    assert publish_well(site) == [1, 1]


def test_the_ledger_is_never_lost_by_a_power_cut(site) -> None:
    """Every transaction of the ledger is on disk when it ends, and its schema is the one of this program."""
    site.send(*jobs(1))
    con = access.open_publishing(site.settings.places)
    assert con.execute("PRAGMA synchronous").fetchone() == (2,)
    assert con.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert con.execute("SELECT KeyValue FROM DBConfig WHERE KeyName = 'ARCACCT_SCHEMA'").fetchone() == (
        str(PUBLISHING.schema),
    )
    con.close()
