"""Records from before values were checked: nothing changes at a receiver by an upgrade, and nothing new lies there."""

from __future__ import annotations

import pathlib
import sqlite3
from contextlib import closing

import pytest
from publishing_site import JUNE, MOST_S, SGAS, SUMMARIES, Job, Site, at_sgas, jobs, truth

from arcacct.database import access
from arcacct.database.schema import ACCOUNTING, ensure, in_memory, noted
from arcacct.records import hold_decisions, usage
from arcacct.records.hold_decisions import ImplausibleFilter, held_records

LIE = Job("lie", JUNE + 100)


def upgraded(site: Site, *lies: Job, horizon: int | None = None) -> None:
    """What an upgrade finds: jobs with a wall time that no one has judged, and what publishers have read of the log."""
    site.record(*lies)
    for job in lies:
        site.sql(f"UPDATE AAR SET UsedWalltime = {JUNE} WHERE JobID = '{job.job_id}'")
    if horizon is None:
        horizon = site.database("SELECT max(Seq) FROM FinishedLog")[0][0]
    last = site.database("SELECT max(RecordID) FROM AAR")[0][0]
    site.sql(f"INSERT OR REPLACE INTO DBConfig VALUES ('ARCACCT_UNJUDGED', '0 {last} {horizon}')")


def states(site: Site) -> dict[str, str]:
    with closing(access.read_accounting(site.settings.places)) as con:
        return {one.job_id: one.state for one in held_records(con)}


def decide(site: Site, state: str, states: tuple[str, ...] = ()) -> None:
    here = site.settings.places
    with access.accounting(here) as con:
        hold_decisions.decide(con, here, list(held_records(con, ImplausibleFilter(states))), state, "root")


@pytest.mark.parametrize("target", [SGAS, SUMMARIES])
def test_what_was_published_stays_as_it_is(memory, empty_box, target) -> None:
    """It is counted, and sent neither again nor back; an operator may correct it."""
    site = Site(memory, empty_box, target)
    site.record(*jobs(3))
    upgraded(site, LIE)
    # As the older program did: the lie goes out like any other job.
    site.sql("UPDATE DBConfig SET KeyName = 'LATER' WHERE KeyName = 'ARCACCT_UNJUDGED'")
    assert site.publish().error is None
    site.sql("UPDATE DBConfig SET KeyName = 'ARCACCT_UNJUDGED' WHERE KeyName = 'LATER'")
    log = site.database("SELECT * FROM FinishedLog")
    before = received(site)

    outcome = site.publish()

    assert states(site) == {"lie": "published"}
    assert site.database("SELECT * FROM FinishedLog") == log
    assert (outcome.error, received(site)) == (None, before)
    assert outcome.summary.implausible == 0
    decide(site, "bound")
    assert site.publish().error is None
    assert states(site) == {"lie": "bound"}
    if target == SUMMARIES:
        assert received(site) == (4, 300 + MOST_S)


def received(site: Site) -> object:
    if site.settings.targets[0].block.endswith("sgas:s"):
        return at_sgas(site.box.sgas.records)
    (total,) = site.box.apel.totals().values()
    return total.jobs, total.wall_s


def test_what_no_publisher_has_read_is_held(memory, empty_box) -> None:
    site = Site(memory, empty_box, SGAS)
    site.record(*jobs(3))
    upgraded(site, LIE, horizon=3)

    outcome = site.publish()

    assert (outcome.error, outcome.summary.implausible) == (None, 1)
    assert states(site) == {"lie": "held"}
    assert at_sgas(empty_box.sgas.records) == truth(jobs(3))


def test_former_records_are_judged_once_and_page_by_page(memory, empty_box, monkeypatch) -> None:
    """Interrupted, the next command resumes; what was corrected or judged meanwhile is left alone."""
    monkeypatch.setattr(hold_decisions, "_PAGE", 2)
    site = Site(memory, empty_box, SGAS)
    lies = [Job(f"lie{number}", JUNE + number) for number in range(5)]
    upgraded(site, *lies)
    site.record(lies[1])
    here = site.settings.places
    with access.accounting(here) as con:
        turns = iter([False, True])
        assert hold_decisions.judge_former(con, here, lambda: next(turns)) == 1
        assert states(site) == {"lie0": "published"}
        usage.update_monthly(con, here)
        assert states(site) == {f"lie{number}": "published" for number in (0, 2, 3, 4)}
        assert noted(con, "ARCACCT_UNJUDGED") is None
        assert hold_decisions.judge_former(con, here) == 0


def test_the_upgrade_notes_what_is_to_be_judged(tmp_path: pathlib.Path) -> None:
    """All records there are, and how far publishers have read the log."""
    path = str(tmp_path / "x.db")
    with closing(in_memory(ACCOUNTING, ACCOUNTING.oldest)) as con:
        con.execute("UPDATE Fence SET Horizon = 7")
        con.execute("INSERT INTO Endpoints VALUES (1, '', '')")
        values = ("job", "", 1, 1, 1, 1, 2, 0, JUNE - 100, JUNE, 1, 1, 0, 0, JUNE, 0, 0, 0, 0, 0)
        con.execute(f"INSERT INTO AAR VALUES (41{', ?' * len(values)})", values)
        con.execute("VACUUM INTO ?", (path,))

    ensure(path, ACCOUNTING)

    with closing(sqlite3.connect(path)) as con:
        assert noted(con, "ARCACCT_UNJUDGED") == "0 41 7"
        assert con.execute("SELECT count(*) FROM RecordHolds").fetchone() == (0,)
