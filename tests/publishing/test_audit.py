"""A position that is wrong is noticed: what is below it is read by no run."""

from __future__ import annotations

import pathlib
import sqlite3
from contextlib import closing

import pytest
from campaigns import cross
from in_process import said
from publishing_site import CARS, SGAS, SUMMARIES, Job, Site, jobs, publish_well, received_by_both

from arcacct.health import checks, facts
from arcacct.publishing.run import republish
from arcacct.publishing.target_run import Period
from arcacct.targets import plugins

BOTH = SGAS + CARS


@pytest.fixture
def site(memory, empty_box):
    """A site with a target of SGAS and one of APEL, of which both have four jobs."""
    found = Site(memory, empty_box, BOTH)
    found.send(*jobs(4))
    return found


def change_ledger(site: Site, statement: str, *values: object) -> None:
    con = sqlite3.connect(site.settings.places.publishing_database)
    con.execute(statement, values)
    con.commit()
    con.close()


def db_check(site: Site, capfd) -> tuple[int, str]:
    done = said(capfd, "--config", site.path / "arc.conf", "db", "check", "--anew")
    return done.returncode, done.stderr


def severities(site: Site) -> dict[str, int]:
    found = checks.judge(facts.examine(site.settings), facts.Thresholds())
    return {one.subject: one.severity for one in found if one.severity}


def test_a_sound_ledger(site, capfd) -> None:
    """Nothing is said of it, whatever is held, quarantined, withdrawn or not for the target."""
    site.send(Job("other", vo="cms"), Job("wrong", wall_s=-1))

    assert db_check(site, capfd) == (0, "")


@pytest.mark.parametrize("bit", [2, 8, 1 << 40])
def test_a_cursor_with_a_flipped_bit(site, capfd, bit) -> None:
    """`status` and `db check` report it before anything is sent, and the next run sends what was ignored."""
    site.record(*jobs(10, 4))
    change_ledger(site, "UPDATE Targets SET LastSeq = LastSeq | ?", bit)

    code, text = db_check(site, capfd)
    assert code == 74
    assert text.count("two different positions in the log") == 2
    assert {subject: one for subject, one in severities(site).items() if "ledger" in subject} == {
        "sgas:s ledger": facts.CRITICAL,
        "apel:a ledger": facts.CRITICAL,
    }
    assert publish_well(site) == [10, 10]
    assert received_by_both(site) == {job.job_id for job in jobs(14)}
    assert site.box.sgas.ignored_repeats == 0
    assert db_check(site, capfd) == (0, "")


def test_a_cursor_that_passed_jobs(site, capfd) -> None:
    """Both notes are wrong: the records that no one sent are named, and `republish` sends them."""
    site.record(*jobs(10, 4))
    change_ledger(site, "UPDATE Targets SET (LastSeq, LastSeqAgain) = (14, 14)")

    code, text = db_check(site, capfd)
    assert code == 74
    assert "s: 10 records up to its position in the log were never sent" in text
    assert "job00004, job00005, job00006, ..." in text
    assert severities(site)["sgas:s ledger"] == severities(site)["apel:a ledger"] == facts.CRITICAL
    republish(site.settings, plugins(site.settings), Period(1, 2_000_000_000), site._options())
    assert received_by_both(site) == {job.job_id for job in jobs(14)}
    assert db_check(site, capfd) == (0, "")


def test_sums_that_lack_jobs(memory, empty_box, capfd) -> None:
    """The sums of a month are believed up to the place in the log that they were made at."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*jobs(4))
    assert db_check(site, capfd) == (0, "")
    site.record(*jobs(10, 4))
    change_ledger(site, "UPDATE Targets SET (LastSeq, LastSeqAgain) = (14, 14)")

    code, text = db_check(site, capfd)

    assert code == 74
    assert "a: 10 records up to its position in the log were never sent" in text


def test_counts_and_texts(site, capfd) -> None:
    """A count that is not that of the messages, and a text that is none."""
    change_ledger(site, "UPDATE PublishedTotals SET Jobs = 36 WHERE Target LIKE '%sgas%'")
    change_ledger(site, "UPDATE SentRecords SET JobID = CAST(x'6aff' AS TEXT) WHERE (MessageID, Position) = (1, 0)")
    change_ledger(site, "UPDATE SentSummaries SET Key = '[' WHERE Kind = 'sync'")

    code, text = db_check(site, capfd)

    assert code == 74
    assert "2024-06: 36 jobs and 400 s recorded as sent, its messages have 4 jobs and 400 s" in text
    assert "SentRecords: 1 row with a JobID that is no text" in text
    assert "SentSummaries: 1 row with a Key that is no JSON" in text


@pytest.mark.parametrize(
    ("damaged", "table"), cross(4, ["accounting.db", "publishing.db"], ["DBConfig", "AAR", "FinishedLog", "Status"])
)
def test_damage_is_said_of_the_database_that_has_it(site, capfd, damaged, table) -> None:
    """The questions to the ledger read both."""
    path = pathlib.Path(site.settings.places.directory, damaged)
    with closing(sqlite3.connect(path)) as con:
        con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        names = {"AAR": "Messages", "FinishedLog": "Targets", "Status": "HeldRecords"}
        name = names.get(table, table) if damaged == "publishing.db" else table
        (page,) = con.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        (size,) = con.execute("PRAGMA page_size").fetchone()
    content = path.read_bytes()
    path.write_bytes(content[: (page - 1) * size] + bytes(size) + content[page * size :])

    code, text = db_check(site, capfd)

    assert (code, damaged in text) == (74, True), text
    blamed = [line for line in text.splitlines() if damaged not in line]
    assert blamed == [], text
