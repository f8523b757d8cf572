"""publishing.db is lost: months that the new ledger does not know completely keep their figures and their counts."""

from __future__ import annotations

import pathlib
import time

import pytest
from gridengine_files import COLON
from installed import arcacct
from publishing_site import CARS, DAY_S, SGAS, SUMMARIES, Job, Site, at_sgas

from arcacct.database import upkeep
from arcacct.times import Month, iso, month_bounds, month_name, month_of

NOW = int(time.time())
THIS = month_of(NOW)
LAST = month_of(month_bounds(*THIS)[0] - 1)
BEFORE = month_of(month_bounds(*LAST)[0] - 1)
START_S = month_bounds(*BEFORE)[0]
CREATED_S = month_bounds(*LAST)[0] + 10 * DAY_S
"""The database was created in the middle of the last month."""
COUNTS = {BEFORE: 50, LAST: 12, THIS: 3}
KINDS = pytest.mark.parametrize("messages", [SUMMARIES, CARS], ids=["summaries", "cars"])


def ended(month: Month, count: int) -> list[Job]:
    begin = month_bounds(*month)[0]
    return [Job(f"{month_name(month)}-{number:03d}", begin + number) for number in range(count)]


def lose_ledger(site: Site) -> None:
    for suffix in ("", "-wal", "-shm"):
        pathlib.Path(site.settings.places.publishing_database + suffix).unlink(missing_ok=True)


def command(site: Site, *words: str) -> tuple[int, str]:
    """The exit code of a command, and everything that it prints."""
    done = arcacct("--config", str(site.path / "arc.conf"), *words)
    return done.returncode, done.stdout + done.stderr


def counts(site: Site) -> dict[Month, int]:
    """The counts of the sync messages at APEL."""
    return {(row["Year"], row["Month"]): row["NumberOfJobs"] for row in site.box.apel.sync_records.values()}


def usage_s(site: Site) -> dict[Month, int]:
    """The wall seconds of each month at the portal."""
    return {(year, month): one.wall_s for (_site, year, month), one in site.box.apel.totals().items()}


def imported_and_published(site: Site) -> None:
    """A site that imported the jobs of three months, accepted the months before the database, and corrected jobs."""
    for month, count in COUNTS.items():
        site.record(*ended(month, count))
    site.sql(f"UPDATE DBConfig SET KeyValue = '{CREATED_S}' WHERE KeyName = 'ARCACCT_CREATED'")
    site.publish(since=START_S)
    if site.settings.targets[0].name.startswith("apel"):
        assert site.publish(since=None, accept_lower=(BEFORE, LAST)).error is None
        assert counts(site) == COUNTS
        # A correction: the database knows where its jobs were before.
        site.sql(f"UPDATE AAR SET UsedWalltime = 150 WHERE EndTime < {CREATED_S}")
        assert site.publish(since=None).error is None


@KINDS
def test_no_count_and_no_sum_falls(memory, empty_box, messages) -> None:
    """The target's start is known without the ledger: all is sent again, and months in doubt wait with their counts."""
    site = Site(memory, empty_box, messages)
    imported_and_published(site)
    before = usage_s(site)
    lose_ledger(site)

    code, text = command(site, "publish")
    assert code == 69
    assert f"{month_name(BEFORE)} and {month_name(LAST)} are held" in text
    assert (counts(site), usage_s(site)) == (COUNTS, before)
    assert "never sent" not in command(site, "status")[1]

    accept = [word for month in (BEFORE, LAST) for word in ("--accept-lower", month_name(month))]
    assert command(site, "publish", *accept)[0] == 0
    assert (counts(site), usage_s(site)) == (COUNTS, before)
    for month in COUNTS:
        # There is no control directory with the files of these jobs.
        assert command(site, "verify", month_name(month))[0] == 0, command(site, "verify", month_name(month))


def test_sgas_is_sent_everything_again(memory, empty_box) -> None:
    """SGAS ignores the repeats, and no job counts as never sent."""
    site = Site(memory, empty_box, SGAS)
    imported_and_published(site)
    lose_ledger(site)

    assert "never sent" not in command(site, "status")[1]
    code, text = command(site, "publish")
    assert (code, f"sent {sum(COUNTS.values())} ur records" in text) == (0, True), text
    assert len(at_sgas(empty_box.sgas.records)) == sum(COUNTS.values())
    assert "never sent" not in command(site, "status")[1]


@KINDS
def test_a_start_that_only_the_ledger_knew(memory, empty_box, messages) -> None:
    """An older program noted no start: counts of earlier months stay, `status` says what helps, and that helps."""
    site = Site(memory, empty_box, messages)
    imported_and_published(site)
    before = usage_s(site)
    lose_ledger(site)
    site.sql("UPDATE DBConfig SET KeyValue = json_remove(KeyValue, '$[#-1].start') WHERE KeyName LIKE 'NAMES %'")

    for _ in range(2):
        command(site, "publish", "--now")
        assert (counts(site), usage_s(site)) == (COUNTS, before)
        text = command(site, "status")[1]
        assert "never sent" not in text
        assert f"62 jobs from before {iso(CREATED_S)}: it is unknown whether they were sent" in text
        assert "`arcacct publish --since TIME` sends them again" in text

    code, text = command(site, "publish", "--since", month_name(BEFORE) + "-01")
    assert code == 69
    accept = [word for month in (BEFORE, LAST) for word in ("--accept-lower", month_name(month))]
    assert command(site, "publish", *accept)[0] == 0
    assert (counts(site), usage_s(site)) == (COUNTS, before)
    assert "unknown whether" not in command(site, "status")[1]
    assert command(site, "verify", month_name(BEFORE))[0] == 0


@KINDS
def test_a_complete_database_has_no_further_records(memory, empty_box, messages) -> None:
    """A-REX's database was imported, so each month is complete: what was sent of it is unknown all the same."""
    site = Site(memory, empty_box, messages)
    imported_and_published(site)
    before = usage_s(site)
    lose_ledger(site)
    site.sql(
        "INSERT INTO ImportedFiles VALUES (1, '/control/accounting/accounting.db', 0, '', 0, '', '', 0)",
        "UPDATE DBConfig SET KeyValue = json_remove(KeyValue, '$[#-1].start') WHERE KeyName LIKE 'NAMES %'",
    )

    for words in ((), ("--now",), ("--since", f"{month_name(BEFORE)}-01")):
        assert command(site, "publish", *words)[0] == 0
        assert (counts(site), usage_s(site)) == (COUNTS, before)
    assert command(site, "verify", month_name(BEFORE))[0] == 0


@KINDS
def test_a_host_with_only_a_batch_system(memory, empty_box, messages) -> None:
    """By the manual: the month before the database is imported, and published from its first day with --since."""
    site = Site(memory, empty_box, messages, lrms_host="ge.example.org")
    assert command(site, "db", "init")[0] == 0
    assert command(site, "import", "gridengine", str(COLON))[0] == 0
    assert command(site, "publish", "--since", "2026-11-01")[0] == 69
    assert command(site, "publish", "--accept-lower", "2026-11")[0] == 0
    assert counts(site) == {(2026, 11): 39}
    # The manual's `import gridengine --derive-again`, after a change of the configuration, corrects jobs.
    site.sql("UPDATE AAR SET UsedWalltime = UsedWalltime + 1")
    assert command(site, "publish", "--now")[0] == 0
    before = usage_s(site)
    lose_ledger(site)

    for words in (("publish",), ("publish", "--now"), ("publish", "--accept-lower", "2026-11")):
        command(site, *words)
        assert (counts(site), usage_s(site)) == ({(2026, 11): 39}, before)
    assert "never sent" not in command(site, "status")[1]


@KINDS
def test_a_republish_lowers_no_count(memory, empty_box, messages) -> None:
    """Neither a lost nor an older ledger knows the counts of other months, until `publish` has sent all again."""
    site = Site(memory, empty_box, messages)
    site.send(*ended(BEFORE, 5), *ended(LAST, 7))
    (_accounting, ledger) = upkeep.backups(site.settings.places, str(memory))
    site.send(*ended(LAST, 12))
    before = usage_s(site)

    upkeep.restore(site.settings.places, ledger.path)
    site.republish(*month_bounds(*BEFORE))
    assert (counts(site), usage_s(site)) == ({BEFORE: 5, LAST: 12}, before)
    assert site.publish().error is None
    assert (counts(site), usage_s(site)) == ({BEFORE: 5, LAST: 12}, before)
