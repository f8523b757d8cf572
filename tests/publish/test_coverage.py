"""Taking over from jura-ng in the middle of a month must not lower what APEL has of it."""

from __future__ import annotations

import calendar
import sqlite3

import pytest
import rehearsal

from arcacct.conf.settings import Settings
from arcacct.publish import run
from arcacct.publish.senders import sender_of
from arcacct.publish.session import Patience
from arcacct.sandbox import Sandbox
from arcacct.store import accounting

SUMMARIES = """
[arex/jura/apel:a]
targeturl={ams}
authn_port={authn}
gocdb_name=EXAMPLE-SITE
apel_messages=summaries
"""
NOVEMBER_20 = calendar.timegm((2026, 11, 20, 0, 0, 0))


@pytest.fixture
def box(tmp_path):
    with Sandbox(str(tmp_path)) as running:
        yield running


def served_by_jura(site: rehearsal.Site, until_s: int) -> None:
    """The state that jura-ng leaves behind."""
    con = sqlite3.connect(site.settings().jura_database)
    con.execute(
        "CREATE TABLE AccountingTargets (TargetID TEXT UNIQUE NOT NULL, LastEndTime INTEGER NOT NULL,"
        " LastReport INTEGER NOT NULL)"
    )
    con.execute("INSERT INTO AccountingTargets VALUES ('arex/jura/apel:a', ?, ?)", (until_s, until_s))
    con.commit()
    con.close()


def made_on(site: rehearsal.Site, seconds: int) -> None:
    """Our database as if it had been made then."""
    con = accounting.open_accounting(site.settings().places)
    con.execute("UPDATE DBConfig SET KeyValue = ? WHERE KeyName = 'ARCACCT_CREATED'", (str(seconds),))
    con.close()


def publish(site: rehearsal.Site) -> run.Outcome:
    settings = site.settings()
    (outcome,) = run.publish(settings, settings.targets, run.Wishes(now=True))
    assert outcome.error is None
    return outcome


def test_a_month_that_jura_began_is_not_lowered(tmp_path, box) -> None:
    """Neither summary nor sync of such a month is sent, and the run says why and what to do."""
    site = rehearsal.site(tmp_path, box, SUMMARIES)
    served_by_jura(site, NOVEMBER_20)
    made_on(site, NOVEMBER_20)
    outcome = publish(site)

    assert not box.apel.summaries
    assert not box.apel.sync_records
    assert any("2026-11" in note and "arcacct import arex" in note for note in outcome.tally.notes)


def test_after_the_import_of_its_database_the_month_is_ours(tmp_path, box) -> None:
    """Once A-REX's own database was imported the month is whole, and is sent."""
    site = rehearsal.site(tmp_path, box, SUMMARIES)
    served_by_jura(site, NOVEMBER_20)
    made_on(site, NOVEMBER_20)
    con = accounting.open_accounting(site.settings().places)
    con.execute("INSERT INTO ImportedFiles VALUES (1, '/old/accounting.db', 1, 'x', 1, '', '', 0)")
    con.close()
    publish(site)

    assert sum(one["NumberOfJobs"] for one in box.apel.summaries.values()) == 35


@pytest.mark.parametrize(
    ("jura_until", "made"),
    [
        pytest.param(NOVEMBER_20 - 40 * 86400, NOVEMBER_20, id="jura stopped a month before"),
        pytest.param(NOVEMBER_20, NOVEMBER_20 - 20 * 86400, id="our database is older than the month"),
        pytest.param(None, NOVEMBER_20, id="jura never served the target"),
    ],
)
def test_other_months_are_sent(tmp_path, box, jura_until, made) -> None:
    """Where nothing can go down the first month is sent at once, also in part."""
    site = rehearsal.site(tmp_path, box, SUMMARIES)
    if jura_until is not None:
        served_by_jura(site, jura_until)
    made_on(site, made)
    publish(site)

    assert box.apel.summaries
    assert box.apel.sync_records


def moved_back(settings: Settings, days: int) -> None:
    """Every job as if it had ended so many days earlier."""
    con = accounting.open_accounting(settings.places)
    con.execute("UPDATE AAR SET EndTime = EndTime - ? WHERE EndTime > 0", (days * 86400,))
    con.close()


def test_a_job_that_moves_after_a_broken_run_leaves_its_month(tmp_path, box) -> None:
    """A sum that was begun before the job moved is taken back, also when that run never got to the sync message."""
    site = rehearsal.site(tmp_path, box, SUMMARIES)
    settings = site.settings()
    moved_back(settings, 400)
    box.faults.answer("ams", 503, "busy", times=1)
    wishes = run.Wishes(now=True, since=0, make_sender=lambda target: sender_of(target, Patience(backoff_s=())))
    assert run.publish(settings, settings.targets, wishes)[0].error is not None
    moved_back(settings, 60)
    publish(site)

    counted = {
        (one["Year"], one["Month"]): sum(
            other["NumberOfJobs"]
            for other in box.apel.summaries.values()
            if (other["Year"], other["Month"]) == (one["Year"], one["Month"])
        )
        for one in box.apel.summaries.values()
    }
    assert counted == {(2025, 10): 0, (2025, 8): 35}
