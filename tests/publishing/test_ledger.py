"""What is new, and what the ledger remembers of it: commit order, beginnings, names, times."""

from __future__ import annotations

import os
import pathlib
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from ledger_rows import MAY, ONE, OTHER, begin, message, new_ledger, one_sum, record, send, set_aside
from publishing_site import (
    CARS,
    DAY_S,
    DIRECTORY,
    JUNE,
    SGAS,
    SUMMARIES,
    Job,
    Site,
    at_apel,
    at_sgas,
    jobs,
    publish_well,
    received_by_both,
    truth,
)

from arcacct.database import access, schema
from arcacct.database.connection import Connection
from arcacct.database.incarnation import MEANING, DatabaseMismatch
from arcacct.errors import StoreBusy, TargetRefuses
from arcacct.publishing import cursors, ledger
from arcacct.publishing.cursors import Cursor
from arcacct.publishing.ledger import KEPT, UNKNOWN_DIGEST, HeldRecord, LedgerGap, SentRecord, SentSum, SentVersion
from arcacct.publishing.ledger import OTHER as OTHER_VERSION
from arcacct.publishing.ledger_rows import unpacked_rows
from arcacct.publishing.locks import publishing_lock
from arcacct.publishing.target_months import MonthSnapshot

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
    site.send(*jobs(5))
    late = Job("late", JUNE - 40 * DAY_S)
    site.record(late)

    assert publish_well(site) == [1, 1]
    assert at_sgas(site.box.sgas.records) == truth([*jobs(5), late])


def test_jobs_of_one_second_are_all_sent(site) -> None:
    """Jobs that ended in the very second up to which the last run came are not taken for old ones."""
    site.send(Job("first"), Job("second"))
    site.record(Job("third"), Job("fourth"))

    assert publish_well(site) == [2, 2]
    assert received_by_both(site) == {"first", "second", "third", "fourth"}


def test_a_publisher_that_was_down_for_three_months(site) -> None:
    """All that ended meanwhile is sent by one run, and the one after has nothing to do."""
    site.send(*jobs(3))
    meanwhile = [Job(f"day{day}", JUNE + day * DAY_S) for day in range(90)]
    site.record(*meanwhile)

    assert publish_well(site) == [90, 90]
    assert publish_well(site) == [0, 0]
    assert at_sgas(site.box.sgas.records) == truth([*jobs(3), *meanwhile])
    months = {(row["Year"], row["Month"]): row["NumberOfJobs"] for row in site.box.apel.sync_records.values()}
    assert months == {(2024, 6): 19, (2024, 7): 31, (2024, 8): 31, (2024, 9): 12}


def test_a_new_target_starts_with_our_own_recording_and_says_so(site) -> None:
    """Jobs since the database was made are sent, of whatever day; older ones were another program's to publish."""
    made = today() - 3 * DAY_S + 64_000
    site.record(Job("imported", made - 1), Job("evening", made), Job("today", today()))
    site.sql(f"UPDATE DBConfig SET KeyValue = '{made}' WHERE KeyName = 'ARCACCT_CREATED'")

    (outcome, _) = site.publish_all(since=None)
    assert any("when the database was created" in note and "--since TIME" in note for note in outcome.summary.notes)
    assert received_by_both(site) == {"evening", "today"}

    site.publish_all(since=made - DAY_S)
    assert received_by_both(site) == {"imported", "evening", "today"}
    assert site.box.sgas.ignored_repeats == 0
    assert site.ledger("SELECT count(*) FROM SentRecords WHERE JobID = 'today'") == [(2,)]


def test_since_finds_what_a_message_under_way_would_have_hidden(site) -> None:
    """A message that waits for its answer does not carry the cursor past the older jobs that --since asks for."""
    site.record(Job("yesterday", today() - 1), Job("today", today()))
    site.sql(f"UPDATE DBConfig SET KeyValue = '{today()}' WHERE KeyName = 'ARCACCT_CREATED'")
    site.box.faults.answer("sgas", 503, times=None)
    site.publish_all(since=None)
    site.box.faults.clear()

    site.publish_all(since=today() - DAY_S)
    assert received_by_both(site) == {"today", "yesterday"}


def test_a_target_of_jura_continues_a_day_before_it_stopped(site) -> None:
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
    assert any("a day before jura-ng stopped at 2024-06-15T12:00:00Z" in note for note in outcome.summary.notes)
    assert received_by_both(site) == {"the-day-before", "after"}


def test_juras_own_row_is_kept_true(site) -> None:
    """AccountingTargets tells jura where to go on: just before the first record that is not delivered."""

    def last_end() -> int:
        return site.ledger("SELECT LastEndTime FROM AccountingTargets WHERE TargetID = 'arex/jura/sgas:s'")[0][0]

    site.record(*jobs(5))
    publish_well(site)
    assert last_end() == JUNE + 4

    site.refusable(Job("bad", JUNE + 100))
    site.record(Job("good", JUNE + 200))
    site.publish_all()
    assert last_end() == JUNE + 99

    site.box.faults.answer("sgas", 503, times=None)
    site.record(Job("waits", JUNE + 50))
    site.publish_all()
    assert last_end() == JUNE + 49


def test_a_renamed_target_continues(site) -> None:
    """A target that goes to the same receiver under another name has the old one's history: nothing is sent again."""
    site.send(*jobs(3))
    site.configure(BOTH.replace("sgas:s", "sgas:new").replace("apel:a", "apel:new"))
    site.record(Job("more"))

    outcomes = site.publish_all(since=None)
    assert [sum(sent.records for kind, sent in one.summary.sent.items() if kind != "sync") for one in outcomes] == [
        1,
        1,
    ]
    for outcome, old in zip(outcomes, ("sgas:s", "apel:a"), strict=True):
        assert any(note.startswith(f"continues where [arex/jura/{old}] stopped") for note in outcome.summary.notes)
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


def test_another_life_of_the_database_is_gone_through_again_and_says_so(site) -> None:
    """From the time that the target has known, or an earlier one that is asked for; what is there is not sent twice."""
    site.record(*jobs(2), Job("early", JUNE - 9 * DAY_S))
    site.publish_all(since=JUNE - DAY_S)
    for since, received in ((None, 2), (JUNE - DAY_S // 2, 2), (JUNE - 20 * DAY_S, 3)):
        with closing(access.open_accounting(site.settings.places)) as con, con:
            schema.new_incarnation(con)
            life = schema.incarnation(con)
        for outcome in site.publish_all(since=since):
            assert outcome.error is None
            assert MEANING[DatabaseMismatch.ACCOUNTING_OTHER] in outcome.summary.notes
        assert len(received_by_both(site)) == received
        assert site.ledger("SELECT DISTINCT Incarnation FROM Targets") == [(life,)]
    assert site.box.sgas.ignored_repeats == 0


def test_of_two_that_went_to_a_receiver_a_new_target_continues_with_neither(site) -> None:
    """No one knows whose other name it is: it starts with our own recording."""
    site.configure(SGAS + SGAS.replace("sgas:s", "sgas:t"))
    site.send(*jobs(2))
    site.configure(SGAS.replace("sgas:s", "sgas:u"))

    (outcome,) = site.publish_all(since=None)
    assert any(note.startswith("new target: ") for note in outcome.summary.notes)
    assert {target for (target,) in site.ledger("SELECT Target FROM Targets")} == {
        *("arex/jura/sgas:s", "arex/jura/sgas:t", "arex/jura/sgas:u")
    }


def test_what_nobody_wants_is_gone_through_once(site) -> None:
    """Jobs that are none of a target's business wait for nothing: the next run does not look at them again."""
    site.configure(f"{SGAS}vofilter=atlas\n{CARS}vofilter=atlas\n")
    site.record(*(Job(f"other{number}", vo="lhcb", fqan="/lhcb") for number in range(3)))

    assert publish_well(site) == [0, 0]
    assert site.ledger("SELECT DISTINCT LastSeq FROM Targets") == [(3,)]


def test_a_target_that_is_added_starts_where_no_other_stopped(site) -> None:
    """How far another target came says nothing about what a new one was given, in which run."""
    site.configure(SGAS)
    site.record(*jobs(3))
    for _ in range(3):
        site.publish_all()
    site.configure(BOTH)
    site.record(Job("more"))

    (_, added) = site.publish_all(since=None)
    assert any("when the database was created" in note for note in added.summary.notes)
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
    assert LedgerGap(10, lambda: {"changed"}).has(record, row) is may_be_old


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
    site.send(Job("one", now - 50_000, status="failed"))
    site.configure(f"{SGAS}settle=30000\n{CARS}settle=30000\n")
    site.record(Job("one", now - 50_000, status="failed", wall_s=7))

    assert publish_well(site) == [1, 1]
    assert at_sgas(site.box.sgas.records)["one"].wall_s == 7
    assert site.held() == {}


def test_a_held_job_that_is_deleted_waits_no_longer(site) -> None:
    """What no longer exists is held back from no one."""
    site.configure(f"{SGAS}settle=100000\n")
    now = int(time.time())
    site.record(Job("gone", now - 50_000, status="failed"))
    site.refusable(Job("bad", JUNE))
    publish_well(site)
    assert set(site.held()) == {"gone", "bad"}
    site.sql("DELETE FROM AAR")

    publish_well(site)
    assert site.held() == {}


@pytest.mark.campaign
def test_two_publishers_at_once(site) -> None:
    """The second one is told to wait; nothing is sent twice."""
    site.record(*jobs(3))
    with publishing_lock(site.settings.places.publishing_lock), pytest.raises(StoreBusy, match="another arcacct"):
        site.publish_all()
    assert publish_well(site) == [3, 3]


def test_a_dry_run_leaves_no_trace(site) -> None:
    """What would be sent is counted; databases and receivers stay as they are, the cursor is not even started."""
    site.record(*jobs(5))
    site.refusable(Job("bad"))
    (sgas, apel) = site.publish_all(dry_run=True)

    assert sgas.summary.sent["ur"].records == apel.summary.sent["car"].records == 5
    assert sgas.summary.quarantined == 1
    assert not pathlib.Path(site.settings.places.publishing_database).exists()
    assert received_by_both(site) == set()

    publish_well(site)
    before = site.ledger("SELECT * FROM Targets")
    site.record(Job("more"))
    assert site.publish_all(dry_run=True)[0].summary.sent["ur"].records == 1
    assert site.ledger("SELECT * FROM Targets") == before


def test_a_dry_run_knows_what_waits_in_the_spool_and_in_no_sum(site) -> None:
    """What hooks have spooled since the last sweep is in the plan, and in the sums of it."""
    site.configure(SUMMARIES)
    site.record(*jobs(2))
    planned = site.publish_all(dry_run=True)[0].summary.sent
    assert planned["summaries"].records == 1
    assert planned["sync"].records == 1
    assert site.publish_all()[0].summary.sent["summaries"].records == 1


def test_a_reader_plans_too(site, monkeypatch) -> None:
    """A user who may not write the databases gets the plan of what the database has."""
    site.send(*jobs(5))
    site.record(Job("more"))
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **more: mode != os.W_OK and real(path, mode, **more))
    assert [
        one.summary.sent[kind].records for one, kind in zip(site.publish_all(dry_run=True), ("ur", "car"), strict=True)
    ] == [1, 1]


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
    site.options = {"keep_messages": "90"}
    site.configure(BOTH)
    site.record(*jobs(3))
    publish_well(site)
    site.box.faults.answer("sgas", 503, times=None)
    site.record(Job("waits"))
    site.publish_all()
    con = sqlite3.connect(site.settings.places.publishing_database)
    con.execute("UPDATE Messages SET Answered = Answered - 89 * 86400, Created = Created - 89 * 86400")
    con.commit()
    site.box.faults.clear()

    publish_well(site)
    first, waited = messages_with_bytes(site, "ur")
    con.execute("UPDATE Messages SET Answered = Answered - 2 * 86400, Created = Created - 2 * 86400")
    con.commit()
    con.close()
    site.record(Job("more"))
    publish_well(site)
    assert messages_with_bytes(site, "ur")[0] == waited
    assert site.ledger("SELECT job_id FROM v1_publications WHERE message_id = ? ORDER BY 1", first) == [
        (job.job_id,) for job in jobs(3)
    ]
    assert received_by_both(site) == {*(job.job_id for job in jobs(3)), "waits", "more"}
    assert publish_well(site) == [0, 0]


def test_the_bytes_of_what_is_answered_go(site) -> None:
    """Those that wait stay, and of each kind the last that was taken: with it a receiver is asked if it still works."""
    site.configure(f"{SGAS}urbatchsize=2\n{CARS}")
    site.record(*jobs(6))
    publish_well(site)
    last = site.ledger("SELECT max(MessageID) FROM Messages WHERE Kind <> 'sync' GROUP BY Kind")
    assert messages_with_bytes(site, "ur", "car") == sorted(message_id for (message_id,) in last)

    site.box.faults.answer("sgas", 503, times=None)
    site.record(Job("waits"))
    site.publish_all()
    assert len(messages_with_bytes(site, "ur")) == 2
    site.box.faults.clear()
    publish_well(site)
    assert len(messages_with_bytes(site, "ur")) == 1
    assert at_sgas(site.box.sgas.records) == truth([*jobs(6), Job("waits")])


def test_nothing_else_needs_the_bytes_of_what_is_answered(site) -> None:
    """Corrections, resumed and deleted jobs, what is sent again and what is planned: without any bytes all goes on."""
    site.configure(BOTH)
    site.send(*jobs(6))
    forgotten = "DELETE FROM MessageBytes WHERE MessageID IN (SELECT MessageID FROM Messages WHERE State <> 'sending')"
    con = sqlite3.connect(site.settings.places.publishing_database, isolation_level=None)
    con.execute(forgotten)
    site.record(jobs(6)[1]._replace(wall_s=7), jobs(6)[2]._replace(end_time=JUNE + 99))
    site.sql("DELETE FROM AAR WHERE JobID = 'job00003'")
    now = [*jobs(2)[:1], jobs(6)[1]._replace(wall_s=7), jobs(6)[2]._replace(end_time=JUNE + 99), *jobs(2, 4)]
    assert site.publish_all(dry_run=True)[1].summary.sent["car"].records == 4
    assert publish_well(site) == [0, 4]
    con.execute(forgotten)
    assert at_apel(site.box.apel.job_records) == truth(now, by_lrms=True)
    assert {job: state for job, (state, _why) in site.held().items()} == dict.fromkeys(
        ("job00001", "job00002", "job00003"), "correction"
    )
    site.configure(CARS)
    assert site.republish().error is None
    con.execute(forgotten)
    site.configure(BOTH)
    con.execute("UPDATE HeldRecords SET State = 'retry'")
    con.close()
    assert publish_well(site)[1] == 0
    assert at_apel(site.box.apel.job_records) == truth(now, by_lrms=True)


def test_without_bytes_no_receiver_is_asked_whether_it_still_works(site) -> None:
    """Who refuses everything then is not believed either: nothing is quarantined."""
    site.configure(SGAS)
    site.send(*jobs(2))
    con = sqlite3.connect(site.settings.places.publishing_database, isolation_level=None)
    con.execute("DELETE FROM MessageBytes")
    con.close()
    site.box.faults.answer("sgas", 500, "smallint out of range", times=None)
    site.record(*jobs(5, 2))
    (outcome,) = site.publish_all()
    assert isinstance(outcome.error, TargetRefuses)
    assert site.held() == {}
    site.box.faults.clear()
    publish_well(site)
    assert at_sgas(site.box.sgas.records) == truth(jobs(7))


def messages_with_bytes(site: Site, *kinds: str) -> list[int]:
    """The numbers of the messages of some kinds whose bytes the ledger has."""
    marks = ",".join("?" * len(kinds))
    found = site.ledger(
        f"SELECT MessageID FROM Messages JOIN MessageBytes USING (MessageID) WHERE Kind IN ({marks}) ORDER BY 1", *kinds
    )
    return [message_id for (message_id,) in found]


def test_a_clock_that_was_wrong_stops_nothing(site) -> None:
    """A last success in the future, noted by a wrong clock, does not make the target wait for that day."""
    site.configure(f"{SGAS}urdelivery_frequency=1000\n")
    site.send(*jobs(1))
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


# -- the ledger by itself, in memory


@pytest.fixture
def con() -> Iterator[Connection]:
    """A ledger of two targets."""
    with closing(new_ledger()) as found:
        yield found


def last_seq(con: Connection, target: str = ONE) -> int:
    """How far a target is."""
    found = cursors.cursor(con, target)
    assert found is not None
    return found.last_seq


def given_now(con: Connection) -> dict[str, tuple[int, int]]:
    """Jobs and wall time of each submit host."""
    rows = con.execute(
        "SELECT SubmitHost, Jobs, Wall FROM PublishedTotals JOIN SentNames USING (NamesID) WHERE Target = ? ORDER BY 1",
        (ONE,),
    )
    return {host: (count, wall_s) for host, count, wall_s in rows}


def place(con: Connection, host: str) -> int:
    """Where a submit host's jobs of May are counted."""
    return ledger.published_total_id(con, ONE, ("SITE", host), (2026, 5))


def test_what_is_not_said_is_nothing() -> None:
    """No usage, no receiver's number, no refusal, and no one else's sum."""
    assert SentRecord("job", 1, 1, MAY, b"")[5:] == ("", None, None, 0, None, 0, None)
    assert SentSum("key", 2026, 5, 1)[4:] == (0, "", "", 0)
    assert SentVersion("key", b"", MAY)[3:] == (None, 0, 0, None)
    assert HeldRecord(record("job"), "held", "why")[3:] == (None, 0, 0)


def test_a_target_that_starts_again(con: Connection) -> None:
    """What waits for its answer moves no cursor; what is held is of no place in the new log; others stay."""
    for target in (ONE, OTHER):
        begin(con, record("waits"), seq=5, target=target)
        send(con, record("sent"), seq=4, target=target)
        set_aside(con, "held", seq=3, target=target)
        assert cursors.begin_run(con, target) == 1
    cursors.finish_run(con, ONE, error=None, last_end_time=MAY)
    cursors.set_cursor(con, Cursor(ONE, "another", 2, 9, None), in_doubt=True)

    found = cursors.cursor(con, ONE)
    assert found is not None
    assert found[:4] == (ONE, "another", 2, 9)
    assert found.last_success is not None
    assert cursors.cursor(con, OTHER) == (OTHER, "life", 4, 1, None)
    assert con.execute("SELECT Target, UncertainAfterSeq FROM Targets ORDER BY 1").fetchall() == [
        (ONE, 0),
        (OTHER, None),
    ]
    assert con.execute("SELECT Seq FROM Messages WHERE Target = ? ORDER BY 1", (ONE,)).fetchall() == [(None,), (4,)]
    assert con.execute("SELECT Seq FROM Messages WHERE Target = ? ORDER BY 1", (OTHER,)).fetchall() == [(4,), (5,)]
    assert con.execute("SELECT Seq FROM HeldRecords ORDER BY Target").fetchall() == [(0,), (3,)]
    assert cursors.cursor(con, "nobody") is None


def test_runs_and_cursors_are_of_one_target(con: Connection) -> None:
    """A cursor goes forward only."""
    assert [cursors.begin_run(con, ONE) for _ in range(3)] == [1, 2, 3]
    assert cursors.begin_run(con, OTHER) == 1
    ledger.record_intent(con, ONE, [], seq=9)
    ledger.record_intent(con, ONE, [], seq=7)
    assert (last_seq(con), last_seq(con, OTHER)) == (9, 0)


def test_a_target_under_another_name_is_all_of_the_old_one(con: Connection) -> None:
    """In every table; the new name takes jura's row, too."""
    for target in (ONE, OTHER):
        send(con, record("sent"), sums=(one_sum("key"),), target=target)
        set_aside(con, "held", target=target)
        cursors.finish_run(con, target, error=None, last_end_time=MAY + len(target))
    cursors.rename_target(con, ONE, "new")
    for table in ("Targets", "Messages", "SentSummaries", "HeldRecords", "PublishedTotals"):
        assert set(con.execute(f"SELECT Target FROM {table}")) == {("new",), (OTHER,)}
    assert [cursors.jura_end_time(con, name) for name in (ONE, "new", OTHER)] == [
        None,
        MAY + len(ONE),
        MAY + len(OTHER),
    ]


def test_how_a_run_ended(con: Connection) -> None:
    """A run that failed is no success, and forgets none; jura's row stays where nothing was to be said."""
    cursors.finish_run(con, ONE, error=None, last_end_time=5)
    con.execute("UPDATE Targets SET LastSuccess = 1, LastRun = 1 WHERE Target = ?", (ONE,))
    cursors.finish_run(con, ONE, error=TargetRefuses("no"), last_end_time=None)
    ((ran, succeeded, error),) = con.execute(
        "SELECT LastRun, LastSuccess, LastError FROM Targets WHERE Target = ?", (ONE,)
    )
    assert (ran > 1, succeeded, error) == (True, 1, "no")
    assert cursors.jura_end_time(con, ONE) == 5
    cursors.finish_run(con, ONE, error=None, last_end_time=7)
    ((succeeded, error),) = con.execute("SELECT LastSuccess, LastError FROM Targets WHERE Target = ?", (ONE,))
    assert (succeeded > 1, error, cursors.jura_end_time(con, ONE)) == (True, None, 7)
    assert con.execute("SELECT LastRun FROM Targets WHERE Target = ?", (OTHER,)).fetchall() == [(None,)]


def test_a_message_is_kept_as_it_was_written_down(con: Connection) -> None:
    """Its records, of whatever place, in order; until it is answered it is one of those that go first."""
    here, nowhere = record("b", replaced_id=4, replaced_wall_s=5, notes="repaired"), record("a", names=None)
    first = begin(con, here, nowhere, seq=7)
    second = begin(con, empaid="name")
    begin(con, target=OTHER)
    send(con)
    assert [one.message_id for one in ledger.pending_messages(con, ONE)] == [first.message_id, second.message_id]
    assert ledger.count_pending(con, ONE) == 2

    ((names,),) = con.execute("SELECT Names FROM PublishedTotals JOIN SentNames USING (NamesID)")
    assert names == '["SITE","ce"]'
    found = ledger.stored(con, first.message_id)
    # Its number and its place in the log are noted nowhere.
    here, nowhere = here._replace(record_id=0, seq=0, names=None, total_id=1), nowhere._replace(record_id=0, seq=0)
    assert found == first._replace(records=(here, nowhere))
    ledger.replace_payload(con, first.message_id, b"others")
    assert ledger.stored(con, first.message_id) == found._replace(data=b"others")
    assert ledger.stored(con, second.message_id).data == b"bytes"
    assert con.execute("SELECT ByteCount FROM Messages ORDER BY MessageID").fetchall() == [(6,), (5,), (5,), (5,)]


def test_an_attempt_is_noted_with_its_message(con: Connection) -> None:
    """Status and words of the last answer, and how many there were."""
    first, second = begin(con), begin(con)
    assert ledger.last_code(con, first.message_id) is None
    ledger.attempted(con, first.message_id, 500, "no")
    ledger.attempted(con, first.message_id, 503, "later")
    assert [ledger.last_code(con, number) for number in (first.message_id, second.message_id, 99)] == [503, None, None]
    assert con.execute("SELECT Attempts, Answer, State FROM Messages ORDER BY MessageID").fetchall() == [
        (2, "later", "sending"),
        (0, None, "sending"),
    ]


def test_months_of_records_have_one_kind_where_that_counts(con: Connection) -> None:
    """From the first message on; where records and sums do not count twice nothing is noted."""
    begin(con, record("any"))
    assert con.execute("SELECT * FROM TargetMonths").fetchall() == []
    two = message(
        record("a"), record("b", end_time=MAY + 40 * DAY_S), record("zeros", names=None), message_format="car"
    )
    ledger.record_intent(con, ONE, [two], one_kind=True)
    ledger.record_intent(con, ONE, [two._replace(message_format="individual")], one_kind=True)
    assert con.execute("SELECT Target, Year, Month, Kind FROM TargetMonths").fetchall() == [
        (ONE, 2026, 5, "car"),
        (ONE, 2026, 6, "car"),
    ]
    begun = begin(con, record("c", end_time=MAY + 80 * DAY_S))
    ledger.split(con, ONE, begun, [message(record("c", end_time=MAY + 80 * DAY_S))])
    assert con.execute("SELECT count(*) FROM TargetMonths").fetchall() == [(2,)]


def test_what_is_intended_is_noted_at_once(con: Connection) -> None:
    """What is held back, how far the target is then, and how far months are proven, each time again."""
    aside = HeldRecord(record("bad", seq=3), "held", "why", 5, 1, 2)
    for seq in (8, 9):
        ledger.record_intent(
            con, ONE, [], [aside], seq=seq, proofs=[MonthSnapshot(2026, 5, "summaries", seq, f"life{seq}")]
        )
    assert last_seq(con) == 9
    assert con.execute("SELECT Kind, Seq, Incarnation FROM TargetMonths").fetchall() == [("summaries", 9, "life9")]
    held_now = "SELECT Seq, State, Reason, NextTry, Refusals, RefusedRun, Attempts FROM HeldRecords"
    assert con.execute(held_now).fetchall() == [(3, "held", "why", 5, 1, 2, 1)]
    con.execute("UPDATE HeldRecords SET State = 'dropped'")
    ledger.record_intent(con, ONE, [], [aside])
    assert con.execute(held_now).fetchall() == [(3, "dropped", "why", 5, 1, 2, 1)]


def test_what_the_receiver_has_is_held_back_no_longer(con: Connection) -> None:
    """Of that target; neither what an operator decided, nor what waits for room there, nor a job sent with zeros."""
    set_aside(con, "first")
    send(con, record("first"))
    assert con.execute("SELECT * FROM HeldRecords").fetchall() == []
    for target in (ONE, OTHER):
        for state in ("held", "quarantined", "retry", "correction", "dropped"):
            set_aside(con, state, state, target=target)
        set_aside(con, "zeros", target=target)
    names = ("held", "quarantined", "retry", "correction", "dropped")
    send(con, *map(record, names), record("zeros", digest=b"", names=None), seq=4)
    assert con.execute("SELECT JobID FROM HeldRecords WHERE Target = ? ORDER BY 1", (ONE,)).fetchall() == [
        ("correction",),
        ("dropped",),
        ("zeros",),
    ]
    assert con.execute("SELECT count(*) FROM HeldRecords WHERE Target = ?", (OTHER,)).fetchall() == [(6,)]
    assert (last_seq(con), con.execute("PRAGMA synchronous").fetchall()) == (4, [(2,)])


def test_an_answer_is_kept(con: Connection) -> None:
    """Of its message alone: the receiver's words, status and id; one that moves no cursor moves none."""
    first, second = begin(con), begin(con)
    ledger.accepted(con, ONE, first, 200, "fine", "id-1")
    ledger.refused(con, ONE, second, 500, "no", [])
    assert con.execute("SELECT State, AnswerCode, Answer, ReceiverID, Attempts FROM Messages").fetchall() == [
        ("accepted", 200, "fine", "id-1", 1),
        ("refused", 500, "no", None, 1),
    ]
    assert con.execute("SELECT count(*) FROM Messages WHERE Answered > 1").fetchall() == [(2,)]
    assert last_seq(con) == 0


def test_a_receiver_that_kept_what_it_had_is_believed(con: Connection) -> None:
    """By its number of the row: the ledger says the earlier version then, and the record waits for room."""
    ((first,), here) = ([begin(con, *map(record, "abcde"))], place(con, "ce"))
    ledger.accepted(con, ONE, first, 200, "", None, {f"key-{name}": name for name in "abcde"})
    assert given_now(con) == {"ce": (5, 300)}

    again = [
        record(name, digest=b"new", names=("SITE", "ce2"), wall_s=70, replaced_id=here, replaced_wall_s=60)
        for name in "abcd"
    ]
    unknown, new = record("f"), record("g")
    second = begin(con, *again, unknown, new, record("e", replaced_id=here, replaced_wall_s=60))
    rows = {"key-a": "a", "key-b": "new-row", "key-c": KEPT, "key-e": "e", "key-f": OTHER_VERSION, "key-g": "9"}
    kept = ledger.accepted(con, ONE, second, 200, "", None, rows, "room for {key}")
    assert kept == ["a", "c", "f"]
    assert con.execute("SELECT JobID, State, Reason FROM HeldRecords ORDER BY 1").fetchall() == [
        (name, "correction", f"room for key-{name}") for name in "acf"
    ]
    records = con.execute(
        "SELECT JobID, Digest, Wall FROM SentRecords WHERE MessageID = ? ORDER BY Position", (second.message_id,)
    ).fetchall()
    ((told,),) = con.execute("SELECT ReceiverRows FROM Messages WHERE MessageID = ?", (second.message_id,))
    found = [(*one, row) for one, row in zip(records, unpacked_rows(told), strict=True)]
    assert found == [
        ("a", b"digest", 60, "a"),
        ("b", b"new", 70, "new-row"),
        ("c", b"digest", 60, KEPT),
        ("d", b"new", 70, None),
        ("f", UNKNOWN_DIGEST, 60, OTHER_VERSION),
        ("g", b"digest", 60, "9"),
        ("e", b"digest", 60, "e"),
    ]
    assert given_now(con) == {"ce": (5, 300), "ce2": (2, 140)}
    assert ledger.highest_row(con, ONE, "ur") == 9


def test_a_number_of_before_the_ledger_was_lost_is_of_another_version(con: Connection) -> None:
    """Of a job that was another once; its neighbours are what was sent."""
    begun = begin(con, record("same"), record("changed"), record("later"))
    rows = {"key-same": "3", "key-changed": "4", "key-later": "11"}
    unknown = LedgerGap(10, lambda: {"changed", "later"})
    assert ledger.accepted(con, ONE, begun, 200, "", None, rows, "room", unknown) == ["changed"]
    digests = con.execute("SELECT Digest FROM SentRecords ORDER BY Position").fetchall()
    assert digests == [(b"digest",), (UNKNOWN_DIGEST,), (b"digest",)]


def test_the_highest_number_of_a_receiver(con: Connection) -> None:
    """Of one target and kind of message."""
    assert ledger.highest_row(con, ONE, "ur") == 0
    for target, kind, number in ((ONE, "ur", "7"), (ONE, "ur", "10"), (ONE, "car", "99"), (OTHER, "ur", "50")):
        begun = begin(con, record("a"), target=target, message_format=kind)
        ledger.accepted(con, target, begun, 200, "", None, {"key-a": number})
    assert ledger.highest_row(con, ONE, "ur") == 10


@pytest.mark.parametrize("answered", [True, False])
def test_what_a_refused_record_would_have_replaced_is_replaced_by_the_next(con: Connection, answered: bool) -> None:
    """A message that was refused late took nothing out of the counts, nor did it put anything in."""
    send(con, record("a", wall_s=10), record("b"))
    one, two, three = (place(con, host) for host in ("ce", "ce2", "ce3"))
    lost = begin(con, record("x"), record("a", names=("SITE", "ce2"), wall_s=20, replaced_id=one, replaced_wall_s=10))
    newer = begin(con, record("a", names=("SITE", "ce3"), wall_s=30, replaced_id=two, replaced_wall_s=20))
    bystander = begin(con, record("b", names=("SITE", "ce3"), replaced_id=one, replaced_wall_s=60))
    if answered:
        ledger.accepted(con, ONE, newer, 200, "", None)
    ledger.refused(con, ONE, lost, 500, "no", [])
    if not answered:
        ledger.accepted(con, ONE, newer, 200, "", None)
    assert given_now(con) == {"ce": (1, 60), "ce2": (0, 0), "ce3": (1, 30)}
    ((replaced, wall_s),) = con.execute(
        "SELECT ReplacedID, ReplacedWall FROM SentRecords WHERE MessageID = ?", (newer.message_id,)
    )
    assert (replaced, wall_s) == (one, 10)
    assert ledger.stored(con, bystander.message_id).records[0][9:11] == (one, 60)
    assert three == place(con, "ce3")


def test_what_was_never_sent_is_forgotten(con: Connection) -> None:
    """With its records, and nothing else."""
    first, second, third = (begin(con, record(name)) for name in "abc")
    ledger.discard_unsent(con, [])
    ledger.discard_unsent(con, [first.message_id, third.message_id])
    assert [one.message_id for one in ledger.pending_messages(con, ONE)] == [second.message_id]
    assert con.execute("SELECT JobID FROM SentRecords").fetchall() == [("b",)]


def test_a_message_that_is_split_is_answered_by_its_parts(con: Connection) -> None:
    """They go in its place, in order; no one sends it again."""
    begun = begin(con, record("a"), record("b"))
    parts = ledger.split(con, ONE, begun, [message(record("a")), message(record("b"), seq=7)])
    assert [one.message_id for one in ledger.pending_messages(con, ONE)] == [one.message_id for one in parts]
    assert con.execute("SELECT State FROM Messages").fetchall() == [("split",), ("sending",), ("sending",)]
    aside = HeldRecord(record("b"), "held", "why")
    assert ledger.refused(con, ONE, parts[1], 500, "no", [aside]) == 0
    assert last_seq(con) == 7
    assert con.execute("SELECT JobID FROM HeldRecords").fetchall() == [("b",)]


def test_bytes_of_messages_that_were_answered_long_ago_go(con: Connection) -> None:
    """Before that very second; never of those without an answer, nor of the last that was taken of a kind."""
    for _ in range(3):
        send(con)
    begin(con)
    con.execute("UPDATE Messages SET Answered = MessageID WHERE State <> 'sending'")
    ledger.forget_bytes(con, 2)
    assert con.execute("SELECT MessageID FROM MessageBytes ORDER BY MessageID").fetchall() == [(2,), (3,), (4,)]
    ledger.forget_bytes(con, 9)
    assert con.execute("SELECT MessageID FROM MessageBytes ORDER BY MessageID").fetchall() == [(3,), (4,)]
