"""Pruned jobs are part of their month: `verify` counts what remains of them, and finds what really differs."""

from __future__ import annotations

import pathlib
import sqlite3
from contextlib import closing

import pytest
from installed import arcacct
from publishing_site import CARS, JUNE, SGAS, SUMMARIES, Job, Site, jobs

MESSAGES = {"sgas": SGAS, "cars": CARS, "summaries": SUMMARIES}


@pytest.fixture(params=MESSAGES)
def pruned(request, tmp_path, empty_box) -> Site:
    """A site of whose 7 jobs of June 4 are in an archive; one of those is of a VO that no other job has."""
    site = Site(tmp_path, empty_box, MESSAGES[request.param])
    site.send(*jobs(3), Job("alone", JUNE + 3, vo="cms", fqan="/cms"), *jobs(3, 100))
    done = command(site, "db", "prune", "--before", "2024-06-15T12:01:00", "--yes")
    assert "4 jobs moved" in done.stdout, done.stderr
    return site


def command(site: Site, *words: str):
    """Run a command on a site."""
    return arcacct("--config", str(site.path / "arc.conf"), *words)


def verdict(site: Site) -> tuple[int, str]:
    """The exit code of `verify` and what it says."""
    done = command(site, "verify", "2024-06")
    return done.returncode, done.stdout


def test_a_pruned_month_agrees(pruned) -> None:
    """What is in the archive was sent, and still counts."""
    code, told = verdict(pruned)
    assert (code, " NO " in told) == (0, False), told
    assert "database: 4 of its jobs are in an archive of `arcacct db prune`" in told

    pruned.record(Job("late", JUNE + 500))
    assert verdict(pruned)[0] == 1
    assert pruned.publish().error is None
    assert verdict(pruned)[0] == 0


def test_a_wholly_pruned_month_agrees(pruned) -> None:
    """Nothing of it is left in the database but what it counts."""
    assert command(pruned, "db", "prune", "--before", "2024-07-01", "--yes").returncode == 0
    code, told = verdict(pruned)
    assert (code, " NO " in told) == (0, False), told


def test_a_difference_in_a_pruned_month_is_found(pruned) -> None:
    """The ledger says less than was counted, or more than database and archive have."""
    with closing(sqlite3.connect(pruned.settings.places.publishing_database, isolation_level=None)) as con:
        con.execute("UPDATE SentSummaries SET Jobs = Jobs - 1 WHERE Kind <> 'sync' AND Jobs > 1")
        con.execute("DELETE FROM SentRecords WHERE JobID = 'alone'")
    code, told = verdict(pruned)
    assert (code, " NO " in told) == (1, True), told


@pytest.mark.parametrize("messages", ["sgas", "cars"])
def test_a_job_that_is_nowhere_is_named(tmp_path, empty_box, messages) -> None:
    """Sent, and neither in the database nor in the archive."""
    site = Site(tmp_path, empty_box, MESSAGES[messages])
    site.send(*jobs(4))
    assert command(site, "db", "prune", "--before", "2024-07-01", "--yes").returncode == 0
    (path,) = site.database("SELECT Path FROM Archives")[0]
    with closing(sqlite3.connect(path, isolation_level=None)) as con:
        con.execute("PRAGMA foreign_keys = OFF")
        con.execute("DELETE FROM AAR WHERE JobID = 'job00002'")

    code, told = verdict(site)
    assert code == 1
    assert "job00002: sent, and no longer in the database" in told
    assert "job00001" not in told


def test_no_correction_is_asked_for_a_pruned_job(tmp_path, empty_box) -> None:
    """An older ledger, restored, holds a correction of a job that was pruned since: no one makes room for it."""
    site = Site(tmp_path, empty_box, SGAS)
    site.send(*jobs(3))
    site.send(*[job._replace(wall_s=job.wall_s + 50) for job in jobs(1)])
    assert [row[0] for row in site.ledger("SELECT State FROM HeldRecords")] == ["correction"]
    path = site.settings.places.publishing_database
    with closing(sqlite3.connect(path)) as con, closing(sqlite3.connect(tmp_path / "old.db")) as old:
        con.backup(old)
    (job_id,) = site.ledger("SELECT JobID FROM HeldRecords")[0]
    assert command(site, "quarantine", "drop", job_id).returncode == 0
    done = command(site, "db", "prune", "--before", "2024-07-01", "--yes")
    assert "3 jobs moved" in done.stdout, done.stderr
    assert command(site, "db", "restore", str(tmp_path / "old.db"), "--yes").returncode == 0

    site.publish()

    assert site.ledger("SELECT JobID FROM HeldRecords WHERE State = 'correction'") == []


def lose_the_ledger(site: Site) -> None:
    """publishing.db is gone."""
    for suffix in ("", "-wal", "-shm"):
        pathlib.Path(f"{site.settings.places.publishing_database}{suffix}").unlink(missing_ok=True)


@pytest.mark.parametrize("pruned", ["cars", "summaries"], indirect=True)
def test_the_count_of_a_pruned_month_outlives_a_lost_ledger(pruned, empty_box) -> None:
    """Seven jobs are at APEL, and three in the database: nothing announces three, however often it runs."""

    def announced() -> list[int]:
        return [row["NumberOfJobs"] for row in empty_box.apel.sync_records.values()]

    assert announced() == [7]
    lose_the_ledger(pruned)

    for _ in range(2):
        outcome = pruned.publish()
        assert outcome.error is None
        assert announced() == [7]
    if pruned.settings.targets[0].apel_messages == "urs":
        assert any("no count is sent: 4 jobs of it in an archive" in note for note in outcome.summary.notes)
    code, told = verdict(pruned)
    assert " NO " not in told, told
    if pruned.settings.targets[0].apel_messages == "urs":
        assert code == 1
        assert (
            "publishing.db was lost, and it is unknown whether 4 jobs in an archive of `arcacct db prune` were sent"
            in told
        )
