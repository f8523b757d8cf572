"""What finished records were before they changed or were deleted: the proof of a fall, and nothing else."""

from __future__ import annotations

from contextlib import closing

import pytest
from publishing_site import JUNE, Job, Site, jobs

from arcacct.database import access, incarnation
from arcacct.records import usage

MONTH = (2024, 6)


@pytest.fixture
def site(tmp_path) -> Site:
    """Five finished jobs of 100 s."""
    made = Site(tmp_path, None, "")
    made.record(*jobs(5))
    return made


def left(site: Site, seq: int) -> list[tuple[str | None, int, int]]:
    with closing(access.read_accounting(site.settings.places)) as con:
        return [(one.vo, one.jobs, one.wall_s) for one in usage.left_since(con, MONTH, seq)]


def highest(site: Site) -> int:
    with closing(access.read_accounting(site.settings.places)) as con:
        return incarnation.highest_seq(con)


def test_finishing_explains_nothing(site) -> None:
    """A job that ends was nothing before."""
    assert left(site, 0) == []


def test_a_correction_explains_what_the_record_was(site) -> None:
    """Not more than it was where the reader stood, however often it changed since."""
    begin = highest(site)
    for wall_s in (900, 20, 30):
        site.record(jobs(5)[0]._replace(wall_s=wall_s))
    assert left(site, begin) == [("atlas", 1, 100)]
    assert left(site, begin + 1) == [("atlas", 1, 900)]
    assert left(site, begin + 3) == []


def test_a_correction_that_changes_no_figure_explains_nothing(site) -> None:
    """More that is known of a job is logged, and no reason for a fall."""
    begin = highest(site)
    site.sql("UPDATE AAR SET UsedMemory = 77, QueueID = 1 WHERE JobID = 'job00000'")
    assert highest(site) > begin
    assert left(site, begin) == []


def test_a_deletion_is_remembered_by_name(site) -> None:
    """The record's number is gone, its name and what it was are not."""
    begin = highest(site)
    site.sql("DELETE FROM AAR WHERE JobID = 'job00003'")
    assert left(site, begin) == [("atlas", 1, 100)]
    with closing(access.read_accounting(site.settings.places)) as con:
        assert usage.deleted_jobs(con, begin, highest(site)) == ["job00003"]


def test_a_resumed_job_leaves_the_key_it_had(site) -> None:
    """The end and the id under which a receiver may know it, once, also when it runs again in between."""
    begin = highest(site)
    con = access.open_accounting(site.settings.places)
    con.execute("INSERT OR IGNORE INTO Status (Name) VALUES ('in-progress')")
    con.execute(
        "UPDATE AAR SET StatusID = (SELECT ID FROM Status WHERE Name = 'in-progress'), EndTime = 0"
        " WHERE JobID = 'job00001'"
    )
    con.close()
    site.record(Job("job00001", JUNE + 800, local_id="new"))
    with closing(access.read_accounting(site.settings.places)) as con:
        assert usage.former_keys(con, begin) == [("job00001", "4job00001", JUNE + 1)]
