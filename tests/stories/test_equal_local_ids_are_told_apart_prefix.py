"""CEs of one site whose batch systems give the same ids: a prefix keeps their jobs apart at APEL, which counts all."""

from __future__ import annotations

import pytest
from campaigns import cross
from publishing_site import CARS, DIRECTORY, Site, at_apel, jobs, truth, usage

INDIVIDUAL = CARS.replace("=urs", "=individual")
V04 = CARS.replace("=urs", "=individual-v04")
TARGETS = [CARS, INDIVIDUAL, V04]
FAMILIES = pytest.mark.parametrize("target", TARGETS, ids=["cars", "individual", "individual-v04"])
PREFIX = "localid_prefix=CE1:\n"


@FAMILIES
def test_equal_ids_of_two_ces_are_two_jobs(memory, empty_box, target) -> None:
    """Of one site, with equal ends: without the prefix the second CE's record would replace the first one's."""
    first = Site(memory / "1", empty_box, target + PREFIX)
    second = Site(memory / "2", empty_box, target + "localid_prefix=ce2:\n")
    ours = jobs(3)
    theirs = [job._replace(job_id=f"other{job.job_id}", local_id=job.lrms_id, wall_s=7) for job in ours]
    first.record(*ours)
    second.record(*theirs)

    first.publish()
    second.publish()

    stored = at_apel(empty_box.apel.job_records)
    assert {name.lower() for name in stored} == {
        *(f"ce1:{job.lrms_id}" for job in ours),
        *(f"ce2:{job.lrms_id}" for job in theirs),
    }
    assert usage(empty_box.apel)[0] == 3 * 100 + 3 * 7


@FAMILIES
def test_a_prefix_at_each_ce_separates_jobs_that_were_sent(memory, empty_box, target) -> None:
    """What `arcacct fleet verify` advises: a prefix at each CE, and the months that collided accepted at each."""
    first, second = Site(memory / "1", empty_box, target), Site(memory / "2", empty_box, target)
    ours = jobs(3)
    first.record(*ours)
    second.record(*(job._replace(job_id=f"other{job.job_id}", local_id=job.lrms_id, wall_s=7) for job in ours))
    first.publish()
    second.publish()
    assert usage(empty_box.apel)[0] == 3 * 7

    for site, prefix in ((first, "ce1:"), (second, "ce2:")):
        site.configure(f"{target}localid_prefix={prefix}\n")
        assert site.publish(accept_lower=((2024, 6),)).error is None
    assert usage(empty_box.apel)[0] == 3 * 100 + 3 * 7
    assert first.republish().error is None
    assert usage(empty_box.apel)[0] == 3 * 100 + 3 * 7


@pytest.mark.parametrize(
    ("target", "prefixes"), cross(3, TARGETS, [("", PREFIX), (PREFIX, ""), (PREFIX, "localid_prefix=CE12:\n")])
)
def test_a_prefix_that_comes_later_counts_no_use_twice(memory, empty_box, target, prefixes) -> None:
    """Published jobs keep their ids until that is accepted; then the old ones are taken back, and the new ones sent."""
    before, after = prefixes
    site = Site(memory, empty_box, target + before)
    site.send(*jobs(3))
    before_the_change = at_apel(empty_box.apel.job_records)
    site.configure(target + after)

    assert "localid_prefix was" in str(site.republish().error)
    assert at_apel(empty_box.apel.job_records) == before_the_change

    assert site.publish(accept_lower=((2024, 6),)).error is None
    assert usage(empty_box.apel) == (300, 270)
    prefix = after.removeprefix("localid_prefix=").strip()
    assert {name.lower() for name in at_apel(empty_box.apel.job_records)} == {
        f"{prefix}{job.lrms_id}".lower() for job in jobs(3)
    }


def test_the_prefix_is_in_files_too(memory, empty_box) -> None:
    """A directory target's messages are read by a site's own ssmsend."""
    (memory / "outgoing").mkdir()
    site = Site(memory, empty_box, DIRECTORY + PREFIX)
    site.send(*jobs(1))

    texts = [path.read_text() for path in (memory / "outgoing").rglob("*") if path.is_file()]
    assert sum(f"LocalJobId: CE1:{jobs(1)[0].lrms_id}\n" in text for text in texts) == 1


def test_without_a_prefix_ids_are_the_batch_systems(memory, empty_box) -> None:
    """As they have always been sent."""
    site = Site(memory, empty_box, CARS)
    site.send(*jobs(2))

    assert at_apel(empty_box.apel.job_records) == truth(jobs(2), by_lrms=True)
