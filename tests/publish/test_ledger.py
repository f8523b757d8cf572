"""What is new, and what the ledger remembers of it: commit order, beginnings, names, copies, power cuts."""

from __future__ import annotations

import pathlib
import sqlite3
import time

import pytest
from publishing_site import CARS, DAY_S, DIRECTORY, JUNE, SGAS, SUMMARIES, Job, Site, at_apel, at_sgas, jobs, truth

from arcacct.errors import StoreBusy
from arcacct.publish.run import publishing_lock
from arcacct.store import accounting
from arcacct.store.fence import pass_fence
from arcacct.store.schema import PUBLISHING, scripts

BOTH = SGAS + CARS


@pytest.fixture
def site(memory, empty_box):
    """A site with a target of SGAS and one of APEL."""
    return Site(memory, empty_box, BOTH)


def today() -> int:
    """The first second of the day, UTC."""
    return int(time.time()) // DAY_S * DAY_S


def received(site: Site) -> set[str]:
    """The jobs that SGAS has; APEL has to have the same."""
    ids = set(at_sgas(site.box.sgas.records))
    assert {f"4{job_id}" for job_id in ids} == set(at_apel(site.box.apel.job_records))
    return ids


def publish(site: Site, **wishes) -> list[int]:
    """One run; how many job records each target was sent."""
    outcomes = site.publish_all(**wishes)
    assert [one.error for one in outcomes] == [None] * len(outcomes)
    return [sum(sent.records for kind, sent in one.tally.sent.items() if kind != "sync") for one in outcomes]


def test_a_late_record_is_sent(site) -> None:
    """A job that ended long before others that were sent, and is recorded after them, is sent by the next run."""
    site.record(*jobs(5))
    publish(site)
    late = Job("late", JUNE - 40 * DAY_S)
    site.record(late)

    assert publish(site) == [1, 1]
    assert at_sgas(site.box.sgas.records) == truth([*jobs(5), late])


def test_jobs_of_one_second_are_all_sent(site) -> None:
    """Jobs that ended in the very second up to which the last run came are not taken for old ones."""
    site.record(Job("first"), Job("second"))
    publish(site)
    site.record(Job("third"), Job("fourth"))

    assert publish(site) == [2, 2]
    assert received(site) == {"first", "second", "third", "fourth"}


def test_a_publisher_that_was_down_for_three_months(site) -> None:
    """All that ended meanwhile is sent by one run, and the one after has nothing to do."""
    site.record(*jobs(3))
    publish(site)
    meanwhile = [Job(f"day{day}", JUNE + day * DAY_S) for day in range(90)]
    site.record(*meanwhile)

    assert publish(site) == [90, 90]
    assert publish(site) == [0, 0]
    assert at_sgas(site.box.sgas.records) == truth([*jobs(3), *meanwhile])
    months = {(row["Year"], row["Month"]): row["NumberOfJobs"] for row in site.box.apel.sync_records.values()}
    assert months == {(2024, 6): 19, (2024, 7): 31, (2024, 8): 31, (2024, 9): 12}


def test_a_new_target_begins_today_and_says_so(site) -> None:
    """Jobs of earlier days are not sent to a target that nobody knows, unless --since asks for them."""
    site.record(Job("yesterday", today() - 1), Job("today", today()))

    (outcome, _) = site.publish_all(since=None)
    assert any("the beginning of today; --since TIME changes that" in note for note in outcome.tally.notes)
    assert received(site) == {"today"}

    publish(site, since=today() - DAY_S)
    assert received(site) == {"today", "yesterday"}
    assert site.box.sgas.ignored_repeats == 0
    assert site.ledger("SELECT count(*) FROM MessageRecords WHERE JobID = 'today'") == [(2,)]


def test_since_finds_what_a_message_under_way_would_have_hidden(site) -> None:
    """A message that waits for its answer does not carry the cursor past the older jobs that --since asks for."""
    site.record(Job("yesterday", today() - 1), Job("today", today()))
    site.box.faults.answer("sgas", 503, times=None)
    site.publish_all(since=None)
    site.box.faults.clear()

    publish(site, since=today() - DAY_S)
    assert received(site) == {"today", "yesterday"}


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
    assert received(site) == {"the-day-before", "after"}


def test_juras_own_row_is_kept_true(site) -> None:
    """AccountingTargets tells jura where to go on: just before the first record that is not delivered."""

    def last_end() -> int:
        return site.ledger("SELECT LastEndTime FROM AccountingTargets WHERE TargetID = 'arex/jura/sgas:s'")[0][0]

    site.record(*jobs(5))
    publish(site)
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
    publish(site)
    site.configure(BOTH.replace("sgas:s", "sgas:new").replace("apel:a", "apel:new"))
    site.record(Job("more"))

    assert publish(site, since=None) == [1, 1]
    assert received(site) == {*(job.job_id for job in jobs(3)), "more"}
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

    assert publish(site) == [2, 2]
    assert received(site) == {"a", "c"}
    assert site.held() == {}
    assert {row["NumberOfJobs"] for row in site.box.apel.sync_records.values()} == {2}


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
    assert publish(site) == [2, 2]
    assert received(site) == {"fine", "long-failed"}
    assert {state for state, _why in site.held().values()} == {"held"}

    site.record(Job("resumed", now - 10_000, wall_s=500))
    assert publish(site) == [1, 1]
    assert at_sgas(site.box.sgas.records)["resumed"].wall_s == 500

    site.configure(f"{SGAS}settle=30000\n{CARS}settle=30000\n")
    assert publish(site) == [1, 1]
    assert received(site) == {"fine", "long-failed", "resumed", "given-up"}
    assert site.held() == {}
    assert site.box.sgas.ignored_repeats == 0


def test_a_held_job_that_changed_is_sent_once(site) -> None:
    """A held job whose time has come just when it is logged again goes into one message, not two."""
    site.configure(f"{SGAS}settle=100000\n{CARS}settle=100000\n")
    now = int(time.time())
    site.record(Job("one", now - 50_000, status="failed"))
    publish(site)
    site.configure(f"{SGAS}settle=30000\n{CARS}settle=30000\n")
    site.record(Job("one", now - 50_000, status="failed", wall_s=7))

    assert publish(site) == [1, 1]
    assert at_sgas(site.box.sgas.records)["one"].wall_s == 7
    assert site.held() == {}


def test_a_held_job_that_is_deleted_waits_no_longer(site) -> None:
    """What no longer exists is held back from nobody."""
    site.configure(f"{SGAS}settle=100000\n")
    now = int(time.time())
    site.record(Job("gone", now - 50_000, status="failed"), Job("bad", JUNE, wall_s=-1))
    publish(site)
    assert set(site.held()) == {"gone", "bad"}
    site.sql("DELETE FROM AAR")

    publish(site)
    assert site.held() == {}


def test_two_publishers_at_once(site) -> None:
    """The second one is told to wait; nothing is sent twice."""
    site.record(*jobs(3))
    with publishing_lock(site.settings.places.publishing_lock), pytest.raises(StoreBusy, match="another arcacct"):
        site.publish_all()
    assert publish(site) == [3, 3]


def test_a_dry_run_leaves_no_trace(site) -> None:
    """What would be sent is counted; databases and receivers stay as they are, the cursor is not even begun."""
    site.record(*jobs(5), Job("bad", wall_s=-1))
    (sgas, apel) = site.publish_all(dry_run=True)

    assert sgas.tally.sent["ur"].records == apel.tally.sent["car"].records == 5
    assert sgas.tally.quarantined == 1
    assert not pathlib.Path(site.settings.places.publishing_database).exists()
    assert received(site) == set()

    publish(site)
    before = site.ledger("SELECT * FROM Targets")
    site.record(Job("more"))
    assert site.publish_all(dry_run=True)[0].tally.sent["ur"].records == 1
    assert site.ledger("SELECT * FROM Targets") == before


def test_the_plan_is_what_is_sent(site) -> None:
    """--write-to writes the documents that the next run sends, byte for byte but for the time they are made."""
    site.record(*jobs(5))
    site.publish_all(dry_run=True, write_to=str(site.path / "plan"))
    planned = (site.path / "plan" / "sgas-s-0001-ur").read_text()
    publish(site)

    sent = [path.read_text() for path in pathlib.Path(site.box.received, "sgas").iterdir()]
    assert without_times(planned) in [without_times(text) for text in sent]


def without_times(text: str) -> str:
    """A document without the time when it was made."""
    import re

    return re.sub('createTime="[^"]*"', "", text)


def test_bytes_are_kept_for_some_time(site) -> None:
    """The bytes of a message go after keep_messages days; what it carried stays known, and so does what waits."""
    site.record(*jobs(3))
    publish(site)
    site.box.faults.answer("sgas", 503, times=None)
    site.record(Job("waits"))
    site.publish_all()
    con = sqlite3.connect(site.settings.places.publishing_database)
    con.execute("UPDATE Messages SET Answered = Answered - 91 * 86400, Created = Created - 91 * 86400")
    con.commit()
    con.close()
    site.box.faults.clear()

    publish(site)
    assert site.ledger("SELECT count(*) FROM Messages WHERE Bytes IS NULL") > [(0,)]
    assert site.ledger("SELECT count(*) FROM Messages WHERE Kind = 'ur' AND Bytes IS NULL") == [(1,)]
    assert received(site) == {*(job.job_id for job in jobs(3)), "waits"}
    assert publish(site) == [0, 0]


@pytest.mark.parametrize("by_hand", [False, True], ids=["db-restore", "by-hand"])
def test_a_restored_backup_sends_nothing_twice(site, by_hand) -> None:
    """After a restore the numbers of the log begin again: what is new is sent, what was sent is recognised."""
    site.record(*jobs(4))
    publish(site)
    copy = site.backup()
    site.record(*jobs(4, 4))
    publish(site)
    site.put_back(copy, by_hand=by_hand)
    # The sweep finds the lost jobs again, in another order, and more of them than there were.
    new = jobs(4, 8)
    site.record(*new, *reversed(jobs(4, 4)))

    assert publish(site) == [4, 4]
    assert received(site) == {job.job_id for job in jobs(12)}
    assert site.box.sgas.ignored_repeats == 0
    assert site.held() == {}


@pytest.mark.parametrize("by_hand", [False, True], ids=["db-restore", "by-hand"])
def test_a_message_under_way_does_not_hide_jobs_of_the_restored_database(site, by_hand) -> None:
    """The answer to a message of before the restore moves no cursor: its number belongs to another job now."""
    publish(site)
    copy_of_nothing = site.backup()
    site.record(*jobs(4))
    site.box.faults.answer("sgas", 503, times=None)
    site.box.faults.answer("ams", 503, times=None)
    site.publish_all()
    site.box.faults.clear()
    site.put_back(copy_of_nothing, by_hand=by_hand)
    site.record(*jobs(4, 4))

    publish(site)
    assert received(site) == {job.job_id for job in jobs(8)}


def test_a_power_cut_takes_back_only_what_was_not_published(site) -> None:
    """Jobs committed after the fence may vanish with the power; whatever gets their numbers then is sent as well."""
    here = site.settings.places
    site.record(*jobs(3))
    keeps_the_wal = accounting.open_accounting(here)
    publish(site)
    site.record(Job("lost-one"), Job("lost-two"))
    pass_fence(keeps_the_wal, here)
    on_disk = [
        (path, path.read_bytes()) for path in (pathlib.Path(here.database), pathlib.Path(f"{here.database}-wal"))
    ]
    site.record(Job("unsynced"))
    keeps_the_wal.close()
    pathlib.Path(f"{here.database}-shm").unlink(missing_ok=True)
    for path, content in on_disk:
        path.write_bytes(content)
    site.record(Job("another"))

    assert publish(site) == [3, 3]
    assert received(site) == {*(job.job_id for job in jobs(3)), "lost-one", "lost-two", "another"}
    site.record(Job("unsynced"))
    assert publish(site) == [1, 1]


def test_the_fence_is_synced(site) -> None:
    """The fence is a change of a real row, committed with an fsync; recording goes on without."""
    site.record(*jobs(3))
    here = site.settings.places
    con = accounting.open_accounting(here)
    statements: list[str] = []
    con.set_trace_callback(statements.append)

    first, second = pass_fence(con, here), pass_fence(con, here)

    con.set_trace_callback(None)
    assert (first.horizon, second.horizon, second.passed - first.passed) == (3, 3, 1)
    heads = [one.split("(")[0].split("SET")[0].strip() for one in statements]
    full, commit = heads.index("PRAGMA synchronous = FULL"), heads.index("COMMIT")
    assert full < heads.index("UPDATE Fence") < commit < heads.index("PRAGMA synchronous = NORMAL")
    assert con.execute("PRAGMA synchronous").fetchone() == (1,)
    con.close()


def test_nothing_beyond_the_fence_is_read(site) -> None:
    """What is committed after the fence waits for the next run, since a power cut could still take it back."""
    site.record(*jobs(3))
    done = []

    def record_more(_target: str, _tally: object) -> None:
        if not done:
            done.append(True)
            site.record(Job("during"))

    assert publish(site, watch=record_more) == [3, 3]
    assert publish(site) == [1, 1]


def test_a_clock_that_was_wrong_stops_nothing(site) -> None:
    """A last success in the future, noted by a wrong clock, does not make the target wait for that day."""
    site.configure(f"{SGAS}urdelivery_frequency=1000\n")
    site.record(*jobs(1))
    publish(site)
    con = sqlite3.connect(site.settings.places.publishing_database)
    con.execute("UPDATE Targets SET LastSuccess = LastSuccess + 100000000")
    con.commit()
    con.close()
    site.record(Job("more"))

    assert publish(site, now=False) == [1]


def test_the_ledger_is_never_lost_by_a_power_cut(site) -> None:
    """Every transaction of the ledger is on disk when it ends, and its schema is the one of this program."""
    site.record(*jobs(1))
    publish(site)
    con = accounting.open_publishing(site.settings.places)
    assert con.execute("PRAGMA synchronous").fetchone() == (2,)
    assert con.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert con.execute("SELECT KeyValue FROM DBConfig WHERE KeyName = 'ARCACCT_SCHEMA'").fetchone() == (
        str(scripts(PUBLISHING)[-1][0]),
    )
    con.close()


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
