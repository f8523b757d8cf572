"""Databases that a released program wrote: taken forward, nothing of them goes out again, and nothing is forgotten."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3

import pytest
from publishing_site import CARS, JUNE, SGAS, SUMMARIES, Job, Site, at_apel, jobs

from arcacct.database import upkeep
from arcacct.errors import FiguresHeld

DATA = pathlib.Path(__file__).parent.parent / "data" / "released"
TARGETS = SGAS + CARS + SUMMARIES.replace("apel:a", "apel:sums").replace("=SITE", "=SUMS")


@pytest.fixture(params=["0.2.0"])
def site(request, memory, empty_box) -> Site:
    """
    A site that 0.2.0 published for: seven jobs, one of them corrected, one deleted since, and one that waits.
    """
    made = Site(memory, empty_box, TARGETS)
    here = made.settings.places
    pathlib.Path(here.directory).mkdir(parents=True)
    for path, name in ((here.database, "accounting"), (here.publishing_database, "publishing")):
        con = sqlite3.connect(path)
        con.execute("PRAGMA journal_mode = WAL")
        con.executescript((DATA / request.param / f"{name}.sql").read_text())
        con.close()
    # What its receivers had.
    return made


def sent(site: Site) -> list[dict[str, int]]:
    """How many records of each kind every target is sent by one run."""
    outcomes = site.publish_all()
    assert [one.error for one in outcomes] == [None, None, None]
    return [{kind: one.records for kind, one in outcome.summary.sent.items()} for outcome in outcomes]


def test_only_what_is_new_goes_out(site) -> None:
    """The job that waited, zeros for the deleted one, the month that changed; nothing is "changed" by the upgrade."""
    sgas, cars, sums = sent(site)

    assert sgas == {"ur": 1}
    assert cars == {"car": 2, "sync": 2}
    assert sums == {"summaries": 1, "sync": 2}
    assert at_apel(site.box.apel.job_records).keys() == {"4waits"}
    held = {job: state for job, (state, _why) in site.held().items()}
    assert held == {"job00000": "correction", "gone": "correction"}
    assert sent(site) == [{}, {"sync": 2}, {"sync": 2}]


def test_counts_are_of_all_that_was_ever_given(site) -> None:
    """The sync message counts what 0.2.0 had sent, too, without what was taken back since."""
    sent(site)

    months = {(row["Site"].upper(), row["Month"]): row["NumberOfJobs"] for row in site.box.apel.sync_records.values()}
    assert months == {("SITE", 6): 6, ("SITE", 7): 1, ("SUMS", 6): 6, ("SUMS", 7): 1}
    assert site.ledger("SELECT sum(Jobs), sum(Wall) FROM PublishedTotals WHERE Target = 'arex/jura/apel:a'") == [
        (7, 800)
    ]
    assert site.ledger("SELECT Target, Year, Month, Kind FROM TargetMonths ORDER BY 1, 3") == [
        ("arex/jura/apel:a", 2024, 6, "car"),
        ("arex/jura/apel:a", 2024, 7, "car"),
        ("arex/jura/apel:sums", 2024, 6, "summaries"),
        ("arex/jura/apel:sums", 2024, 7, "summaries"),
    ]


def test_later_changes_are_what_they_always_were(site) -> None:
    """Resumed, corrected and deleted jobs of before the upgrade are replaced and taken back."""
    sent(site)
    site.record(jobs(5)[1]._replace(end_time=JUNE + 700, wall_s=300), Job("july", JUNE + 30 * 86400, wall_s=50))
    sent(site)

    rows = at_apel(site.box.apel.job_records)
    assert rows["4job00001"].wall_s == 300
    assert rows["4july"].wall_s == 50
    assert site.ledger("SELECT sum(Jobs), sum(Wall) FROM PublishedTotals WHERE Target = 'arex/jura/apel:a'") == [
        (7, 950)
    ]


def test_another_filter_with_the_upgrade_takes_nothing_back(site) -> None:
    """0.1.0 noted no place in the log; what nothing logged explains is held all the same."""
    site.configure(TARGETS.replace("=summaries\n", "=summaries\nvofilter=atals\n"))
    error = site.publish("apel:sums").error
    assert isinstance(error, FiguresHeld)
    assert "2024-06 is held" in str(error)

    site.configure(TARGETS)
    assert site.publish("apel:sums").error is None


def test_an_older_accounting_database_with_the_upgrade_takes_nothing_back(site) -> None:
    """A copy put in place by hand has less in its log than 0.2.0 had sent of it."""
    con = sqlite3.connect(site.settings.places.database)
    for table in ("FinishedLog", "Contributions", "Cells", "AAR"):
        con.execute(f"DELETE FROM {table}")
    con.execute("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'FinishedLog'")
    con.execute("UPDATE CellsPosition SET Seq = 0")
    con.commit()
    con.close()
    site.record(*jobs(1))

    assert isinstance(site.publish("apel:sums").error, FiguresHeld)


def test_a_restored_copy_is_compared_with_a_ledger_of_the_program_before(site, tmp_path) -> None:
    """Both have the names of 0.2: what was sent since the copy is known all the same."""
    here = site.settings.places
    copy = str(tmp_path / "publishing.copy.db")
    with contextlib.closing(sqlite3.connect(here.publishing_database)) as con:
        con.execute("VACUUM INTO ?", (copy,))
    with contextlib.closing(sqlite3.connect(copy)) as con:
        con.execute("PRAGMA journal_mode = WAL")
        con.execute("UPDATE Given SET Jobs = Jobs - 1 WHERE Month = 6 AND Target LIKE '%sgas%'")
        con.commit()

    upkeep.restore(here, copy)

    assert site.ledger(
        "SELECT Target, Year, Month, UncertainJobs FROM TargetMonths WHERE UncertainSince IS NOT NULL"
    ) == [("arex/jura/sgas:s", 2024, 6, 6)]
