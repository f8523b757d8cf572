"""What is new, and what the ledger remembers of it: commit order, beginnings, names, times."""

from __future__ import annotations

import pathlib
import sqlite3
import time
from contextlib import closing

import pytest
from publishing_site import (
    CARS,
    DAY_S,
    DIRECTORY,
    JUNE,
    SGAS,
    SUMMARIES,
    Job,
    Site,
    at_sgas,
    jobs,
    publish_well,
    received_by_both,
    truth,
)

from arcacct.db import opening, schema
from arcacct.db.lives import MEANING, Doubt
from arcacct.errors import StoreBusy
from arcacct.publishing.ledger import SentRecord, Unknown
from arcacct.publishing.run import publishing_lock

BOTH = SGAS + CARS


@pytest.fixture
def site(memory, empty_box):
    """A site with a target of SGAS and one of APEL."""
    return Site(memory, empty_box, BOTH)


def today() -> int:
    """The first second of the day, UTC."""
    return int(time.time()) // DAY_S * DAY_S


def test_a_late_record_is_sent(site) -> None:
    """A job that ended long before others that were sent, and is recorded after them, is sent by the next run."""
    site.record(*jobs(5))
    publish_well(site)
    late = Job("late", JUNE - 40 * DAY_S)
    site.record(late)

    assert publish_well(site) == [1, 1]
    assert at_sgas(site.box.sgas.records) == truth([*jobs(5), late])


def test_jobs_of_one_second_are_all_sent(site) -> None:
    """Jobs that ended in the very second up to which the last run came are not taken for old ones."""
    site.record(Job("first"), Job("second"))
    publish_well(site)
    site.record(Job("third"), Job("fourth"))

    assert publish_well(site) == [2, 2]
    assert received_by_both(site) == {"first", "second", "third", "fourth"}


def test_a_publisher_that_was_down_for_three_months(site) -> None:
    """All that ended meanwhile is sent by one run, and the one after has nothing to do."""
    site.record(*jobs(3))
    publish_well(site)
    meanwhile = [Job(f"day{day}", JUNE + day * DAY_S) for day in range(90)]
    site.record(*meanwhile)

    assert publish_well(site) == [90, 90]
    assert publish_well(site) == [0, 0]
    assert at_sgas(site.box.sgas.records) == truth([*jobs(3), *meanwhile])
    months = {(row["Year"], row["Month"]): row["NumberOfJobs"] for row in site.box.apel.sync_records.values()}
    assert months == {(2024, 6): 19, (2024, 7): 31, (2024, 8): 31, (2024, 9): 12}


def test_a_new_target_begins_with_our_own_recording_and_says_so(site) -> None:
    """Jobs since the database was made are sent, of whatever day; older ones were another program's to publish."""
    made = today() - 3 * DAY_S + 64_000
    site.record(Job("imported", made - 1), Job("evening", made), Job("today", today()))
    site.sql(f"UPDATE DBConfig SET KeyValue = '{made}' WHERE KeyName = 'ARCACCT_CREATED'")

    (outcome, _) = site.publish_all(since=None)
    assert any("when the database was made" in note and "--since TIME" in note for note in outcome.tally.notes)
    assert received_by_both(site) == {"evening", "today"}

    site.publish_all(since=made - DAY_S)
    assert received_by_both(site) == {"imported", "evening", "today"}
    assert site.box.sgas.ignored_repeats == 0
    assert site.ledger("SELECT count(*) FROM MessageRecords WHERE JobID = 'today'") == [(2,)]


def test_since_finds_what_a_message_under_way_would_have_hidden(site) -> None:
    """A message that waits for its answer does not carry the cursor past the older jobs that --since asks for."""
    site.record(Job("yesterday", today() - 1), Job("today", today()))
    site.sql(f"UPDATE DBConfig SET KeyValue = '{today()}' WHERE KeyName = 'ARCACCT_CREATED'")
    site.box.faults.answer("sgas", 503, times=None)
    site.publish_all(since=None)
    site.box.faults.clear()

    site.publish_all(since=today() - DAY_S)
    assert received_by_both(site) == {"today", "yesterday"}


def test_a_target_of_jura_goes_on_a_day_before_it_stopped(site) -> None:
    """jura-ng's own publishing.db tells how far it came; a day is sent again, which changes nothing."""
    folder = site.path / "control" / "accounting"
    folder.mkdir(exist_ok=True)
    con = sqlite3.connect(folder / "publishing.db")
    con.execute(
        "CREATE TABLE AccountingTargets (TargetID TEXT UNIQUE NOT NULL, LastEndTime INTEGER, LastReport INTEGER)"
    )
    for block in ("arex/jura/sgas:s", "arex/jura/apel:a"):
        con.execute("INSERT INTO AccountingTargets VALUES (?, ?, 0)", (block, JUNE))
    con.commit()
    con.close()
    site.record(Job("long-ago", JUNE - DAY_S - 1), Job("the-day-before", JUNE - DAY_S), Job("after", JUNE + 1))

    (outcome, _) = site.publish_all(since=None)
    assert any("a day before jura-ng stopped at 2024-06-15T12:00:00Z" in note for note in outcome.tally.notes)
    assert received_by_both(site) == {"the-day-before", "after"}


def test_juras_own_row_is_kept_true(site) -> None:
    """AccountingTargets tells jura where to go on: just before the first record that is not delivered."""

    def last_end() -> int:
        return site.ledger("SELECT LastEndTime FROM AccountingTargets WHERE TargetID = 'arex/jura/sgas:s'")[0][0]

    site.record(*jobs(5))
    publish_well(site)
    assert last_end() == JUNE + 4

    site.record(Job("bad", JUNE + 100, wall_s=-1), Job("good", JUNE + 200))
    site.publish_all()
    assert last_end() == JUNE + 99

    site.box.faults.answer("sgas", 503, times=None)
    site.record(Job("waits", JUNE + 50))
    site.publish_all()
    assert last_end() == JUNE + 49


def test_a_renamed_target_goes_on(site) -> None:
    """A target that goes to the same receiver under another name has the old one's history: nothing is sent again."""
    site.record(*jobs(3))
    publish_well(site)
    site.configure(BOTH.replace("sgas:s", "sgas:new").replace("apel:a", "apel:new"))
    site.record(Job("more"))

    outcomes = site.publish_all(since=None)
    assert [sum(sent.records for kind, sent in one.tally.sent.items() if kind != "sync") for one in outcomes] == [1, 1]
    for outcome, old in zip(outcomes, ("sgas:s", "apel:a"), strict=True):
        assert any(note.startswith(f"goes on where [arex/jura/{old}] stopped") for note in outcome.tally.notes)
    assert received_by_both(site) == {*(job.job_id for job in jobs(3)), "more"}
    assert site.ledger("SELECT DISTINCT Target FROM Messages ORDER BY 1") == [
        ("arex/jura/apel:new",),
        ("arex/jura/sgas:new",),
    ]
    assert {target for (target,) in site.ledger("SELECT TargetID FROM AccountingTargets")} == {
        "arex/jura/apel:new",
        "arex/jura/sgas:new",
    }


def test_vofilter(site) -> None:
    """Jobs of other VOs are none of the target's business, and do not stop its cursor."""
    site.configure(f"{SGAS}vofilter=atlas\nvofilter=cms\n{CARS}vofilter=atlas\nvofilter=cms\n")
    site.record(Job("a"), Job("b", vo="lhcb", fqan="/lhcb"), Job("c", vo="cms", fqan="/cms"))

    assert publish_well(site) == [2, 2]
    assert received_by_both(site) == {"a", "c"}
    assert site.held() == {}
    assert {row["NumberOfJobs"] for row in site.box.apel.sync_records.values()} == {2}


def test_another_life_of_the_database_is_gone_through_anew_and_says_so(site) -> None:
    """From the time that the target has known, or an earlier one that is asked for; what is there is not sent twice."""
    site.record(*jobs(2), Job("early", JUNE - 9 * DAY_S))
    site.publish_all(since=JUNE - DAY_S)
    for since, received in ((None, 2), (JUNE - DAY_S // 2, 2), (JUNE - 20 * DAY_S, 3)):
        with closing(opening.open_accounting(site.settings.places)) as con, con:
            schema.begin_new_life(con)
            life = schema.incarnation(con)
        for outcome in site.publish_all(since=since):
            assert outcome.error is None
            assert MEANING[Doubt.ACCOUNTING_OTHER] in outcome.tally.notes
        assert len(received_by_both(site)) == received
        assert site.ledger("SELECT DISTINCT Incarnation FROM Targets") == [(life,)]
    assert site.box.sgas.ignored_repeats == 0


def test_of_two_that_went_to_a_receiver_a_new_target_goes_on_with_neither(site) -> None:
    """Nobody knows whose other name it is: it begins with our own recording."""
    site.configure(SGAS + SGAS.replace("sgas:s", "sgas:t"))
    site.record(*jobs(2))
    site.publish_all()
    site.configure(SGAS.replace("sgas:s", "sgas:u"))

    (outcome,) = site.publish_all(since=None)
    assert any(note.startswith("new target: ") for note in outcome.tally.notes)
    assert {target for (target,) in site.ledger("SELECT Target FROM Targets")} == {
        *("arex/jura/sgas:s", "arex/jura/sgas:t", "arex/jura/sgas:u")
    }


def test_what_nobody_wants_is_gone_through_once(site) -> None:
    """Jobs that are none of a target's business wait for nothing: the next run does not look at them again."""
    site.configure(f"{SGAS}vofilter=atlas\n{CARS}vofilter=atlas\n")
    site.record(*(Job(f"other{number}", vo="lhcb", fqan="/lhcb") for number in range(3)))

    assert publish_well(site) == [0, 0]
    assert site.ledger("SELECT DISTINCT LastSeq FROM Targets") == [(3,)]


def test_a_target_that_is_added_begins_where_no_other_stopped(site) -> None:
    """How far another target came says nothing about what a new one was given, in which run."""
    site.configure(SGAS)
    site.record(*jobs(3))
    for _ in range(3):
        site.publish_all()
    site.configure(BOTH)
    site.record(Job("more"))

    (_, added) = site.publish_all(since=None)
    assert any("when the database was made" in note for note in added.tally.notes)
    assert site.ledger("SELECT Target, Runs FROM Targets ORDER BY 1") == [
        ("arex/jura/apel:a", 1),
        ("arex/jura/sgas:s", 4),
    ]


@pytest.mark.parametrize(
    ("record", "row", "may_be_old"),
    [
        (SentRecord("changed", 1, 1, JUNE, b"d"), "10", True),
        (SentRecord("changed", 1, 1, JUNE, b"d"), "9", True),
        (SentRecord("changed", 1, 1, JUNE, b"d"), "11", False),
        (SentRecord("changed", 1, 1, JUNE, b"d"), "a-uuid", False),
        (SentRecord("changed", 1, 1, JUNE, b"d", replaced_id=4), "9", False),
        (SentRecord("same", 1, 1, JUNE, b"d"), "9", False),
    ],
)
def test_what_a_lost_ledger_may_not_know(record: SentRecord, row: str, may_be_old: bool) -> None:
    """A record that was another version once, and has a number there that was given before the ledger was lost."""
    assert Unknown(10, frozenset({"changed"})).has(record, row) is may_be_old


def test_settle_waits_for_failed_jobs(site) -> None:
    """A failed job is held while it may be resumed, and then sent: once, as what it was in the end."""
    site.configure(f"{SGAS}settle=100000\n{CARS}settle=100000\n")
    now = int(time.time())
    site.record(
        Job("resumed", now - 50_000, status="failed"),
        Job("given-up", now - 50_000, status="failed"),
        Job("fine", now - 500),
        Job("long-failed", now - 200_000, status="failed"),
    )
    assert publish_well(site) == [2, 2]
    assert received_by_both(site) == {"fine", "long-failed"}
    assert {state for state, _why in site.held().values()} == {"held"}

    site.record(Job("resumed", now - 10_000, wall_s=500))
    assert publish_well(site) == [1, 1]
    assert at_sgas(site.box.sgas.records)["resumed"].wall_s == 500

    site.configure(f"{SGAS}settle=30000\n{CARS}settle=30000\n")
    assert publish_well(site) == [1, 1]
    assert received_by_both(site) == {"fine", "long-failed", "resumed", "given-up"}
    assert site.held() == {}
    assert site.box.sgas.ignored_repeats == 0


def test_a_held_job_that_changed_is_sent_once(site) -> None:
    """A held job whose time has come just when it is logged again goes into one message, not two."""
    site.configure(f"{SGAS}settle=100000\n{CARS}settle=100000\n")
    now = int(time.time())
    site.record(Job("one", now - 50_000, status="failed"))
    publish_well(site)
    site.configure(f"{SGAS}settle=30000\n{CARS}settle=30000\n")
    site.record(Job("one", now - 50_000, status="failed", wall_s=7))

    assert publish_well(site) == [1, 1]
    assert at_sgas(site.box.sgas.records)["one"].wall_s == 7
    assert site.held() == {}


def test_a_held_job_that_is_deleted_waits_no_longer(site) -> None:
    """What no longer exists is held back from nobody."""
    site.configure(f"{SGAS}settle=100000\n")
    now = int(time.time())
    site.record(Job("gone", now - 50_000, status="failed"), Job("bad", JUNE, wall_s=-1))
    publish_well(site)
    assert set(site.held()) == {"gone", "bad"}
    site.sql("DELETE FROM AAR")

    publish_well(site)
    assert site.held() == {}


def test_two_publishers_at_once(site) -> None:
    """The second one is told to wait; nothing is sent twice."""
    site.record(*jobs(3))
    with publishing_lock(site.settings.places.publishing_lock), pytest.raises(StoreBusy, match="another arcacct"):
        site.publish_all()
    assert publish_well(site) == [3, 3]


def test_a_dry_run_leaves_no_trace(site) -> None:
    """What would be sent is counted; databases and receivers stay as they are, the cursor is not even begun."""
    site.record(*jobs(5), Job("bad", wall_s=-1))
    (sgas, apel) = site.publish_all(dry_run=True)

    assert sgas.tally.sent["ur"].records == apel.tally.sent["car"].records == 5
    assert sgas.tally.quarantined == 1
    assert not pathlib.Path(site.settings.places.publishing_database).exists()
    assert received_by_both(site) == set()

    publish_well(site)
    before = site.ledger("SELECT * FROM Targets")
    site.record(Job("more"))
    assert site.publish_all(dry_run=True)[0].tally.sent["ur"].records == 1
    assert site.ledger("SELECT * FROM Targets") == before


def test_the_plan_is_what_is_sent(site) -> None:
    """--write-to writes the documents that the next run sends, byte for byte but for the time they are made."""
    site.record(*jobs(5))
    site.publish_all(dry_run=True, write_to=str(site.path / "plan"))
    planned = (site.path / "plan" / "sgas-s-0001-ur").read_text()
    publish_well(site)

    sent = [path.read_text() for path in pathlib.Path(site.box.received, "sgas").iterdir()]
    assert without_times(planned) in [without_times(text) for text in sent]


def without_times(text: str) -> str:
    """A document without the time when it was made."""
    import re

    return re.sub('createTime="[^"]*"', "", text)


def test_bytes_are_kept_for_some_time(site) -> None:
    """The bytes of a message go after keep_messages days; what it carried stays known, and so does what waits."""
    site.record(*jobs(3))
    publish_well(site)
    site.box.faults.answer("sgas", 503, times=None)
    site.record(Job("waits"))
    site.publish_all()
    con = sqlite3.connect(site.settings.places.publishing_database)
    con.execute("UPDATE Messages SET Answered = Answered - 91 * 86400, Created = Created - 91 * 86400")
    con.commit()
    con.close()
    site.box.faults.clear()

    publish_well(site)
    assert site.ledger("SELECT count(*) FROM Messages WHERE Bytes IS NULL") > [(0,)]
    assert site.ledger("SELECT count(*) FROM Messages WHERE Kind = 'ur' AND Bytes IS NULL") == [(1,)]
    assert received_by_both(site) == {*(job.job_id for job in jobs(3)), "waits"}
    assert publish_well(site) == [0, 0]


def test_a_clock_that_was_wrong_stops_nothing(site) -> None:
    """A last success in the future, noted by a wrong clock, does not make the target wait for that day."""
    site.configure(f"{SGAS}urdelivery_frequency=1000\n")
    site.record(*jobs(1))
    publish_well(site)
    con = sqlite3.connect(site.settings.places.publishing_database)
    con.execute("UPDATE Targets SET LastSuccess = LastSuccess + 100000000")
    con.commit()
    con.close()
    site.record(Job("more"))

    assert publish_well(site, now=False) == [1]


@pytest.mark.parametrize("targets", [SUMMARIES, DIRECTORY, BOTH], ids=["summaries", "directory", "sgas-and-apel"])
def test_one_target_that_fails_stops_no_other(memory, empty_box, targets) -> None:
    """A target that can never work is named; the others go on."""
    (memory / "outgoing").mkdir()
    broken = "[arex/jura/sgas:broken]\ntargeturl=https://localhost:9/sgas\n"
    site = Site(memory, empty_box, broken + targets)
    site.record(*jobs(3))

    first, *others = site.publish_all()
    assert first.error is not None
    assert others
    assert [one.error for one in others] == [None] * len(others)
