"""What a run says of many records at once: a line for each cause, with their number and one of them."""

from __future__ import annotations

import re

import pytest
from installed import arcacct
from publishing_site import CARS, JUNE, SGAS, SUMMARIES, Job, Site, jobs

from arcacct.wording import Causes

MANY = 30


def run(site: Site, *words: str) -> tuple[int, list[str]]:
    """The exit code of a command, and the lines in which it names a job or complains."""
    done = arcacct("--config", site.path / "arc.conf", *words)
    lines = (done.stdout + done.stderr).splitlines()
    return done.returncode, [line for line in lines if re.search(r"job0|: not sent|reject", line)]


def deleted(site: Site, one: Job) -> None:
    site.sql(f"DELETE FROM AAR WHERE JobID = '{one.job_id}'")


def changed(site: Site, one: Job) -> None:
    site.record(one._replace(wall_s=99))


def moved(site: Site, one: Job) -> None:
    site.record(one._replace(end_time=one.end_time + 1000))


@pytest.mark.parametrize("targets", [SGAS, CARS, SUMMARIES], ids=["sgas", "cars", "summaries"])
def test_refused_records_of_one_cause_are_one_line(targets, memory, empty_box) -> None:
    """Each has a number of its own in the reason; the list has all of them."""
    site = Site(memory, empty_box, targets)
    many = jobs(MANY, user_dn="/CN=somebody")
    site.record(*many, *jobs(3, first=MANY))
    for number, one in enumerate(many):
        site.sql(f"UPDATE AAR SET UsedWalltime = {-1 - number} WHERE JobID = '{one.job_id}'")

    for words in (("publish", "--now", "--since", "2024-01-01", "--dry-run"), ("publish", "--since", "2024-01-01")):
        code, lines = run(site, *words)
        assert code == 65
        if targets == SUMMARIES:
            assert lines == []
            continue
        (line,) = lines
        assert f"{MANY} records, as job00000: not sent: " in line
        assert len(line) < 400

    listed = arcacct("--config", site.path / "arc.conf", "quarantine", "list").stdout
    assert all(one.job_id in listed for one in many)


@pytest.mark.parametrize("targets", [SGAS, CARS], ids=["sgas", "cars"])
@pytest.mark.parametrize("change", [deleted, changed, moved])
def test_changed_records_are_one_line(targets, change, memory, empty_box) -> None:
    """Corrections that SGAS does not take, and records that APEL gets with zeros."""
    site = Site(memory, empty_box, targets)
    many = jobs(MANY)
    site.record(*many, *jobs(2 * MANY, first=MANY))
    assert run(site, "publish", "--since", "2024-01-01") == (0, [])
    for one in many:
        change(site, one)

    _code, lines = run(site, "publish", "--now", "--accept-lower", "2024-06")

    expected = 0 if (targets, change) == (CARS, changed) else 1
    assert len(lines) == expected, lines[:3]
    assert all(f"{MANY} records, as job000" in line for line in lines)
    _code, lines = run(site, "republish", "--from", "2024-06-01", "--to", "2024-07-01")
    assert len(lines) <= 2, lines[:5]


@pytest.mark.parametrize("targets", [SGAS, CARS, SUMMARIES], ids=["sgas", "cars", "summaries"])
def test_one_record_is_named_as_before(targets, memory, empty_box) -> None:
    site = Site(memory, empty_box, targets)
    site.record(*jobs(3))
    site.refusable(Job("lonely", JUNE + 50, user_dn="/CN=x"))

    _code, lines = run(site, "publish", "--since", "2024-01-01")

    assert all("lonely: not sent: " in line for line in lines)
    assert len(lines) == (0 if targets == SUMMARIES else 1)


def test_each_cause_has_its_line() -> None:
    """A name, a number and a quoted value make no cause of their own; after ten causes the others are counted."""
    causes = Causes()
    for number in range(1000):
        causes.add(
            f"job{number}", f"job{number} has key k/{number}: value 'v{number}' is above {number}", f"k/{number}"
        )
    assert causes.take() == ["1000 records, as job0: job0 has key k/0: value 'v0' is above 0"]
    assert causes.take() == []

    for place, letter in enumerate("abcdefghijkl"):
        for number in range(1, place + 2):
            causes.add(f"job{number}", f"reason {letter}")
    *first, last = causes.lines()
    assert first[:2] == ["job1: reason a", "2 records, as job1: reason b"]
    assert (len(first), last) == (10, "and 23 records for 2 other reasons")
