"""Reading a database that A-REX writes, by the rules that keep A-REX's rows."""

from __future__ import annotations

import inspect
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import time
import tracemalloc
from contextlib import closing
from zoneinfo import ZoneInfo

import arex_writer
import pytest
from control_directory import set_up

from arcacct.arex.own_database import EventClock, job_of, lost, opened, written_whole
from arcacct.config.paths import Places, places
from arcacct.database.access import open_accounting
from arcacct.database.durable import refuse_foreign
from arcacct.errors import InputError, SchemaError, StoreBusy, StoreError
from arcacct.records.row_mapping import ArexRows, Numbers, stored


@pytest.fixture
def arex(tmp_path) -> pathlib.Path:
    """A database of A-REX with two finished jobs, closed, in rollback-journal mode."""
    path = tmp_path / "accounting.db"
    with closing(arex_writer.create(path)) as con:
        writer = arex_writer.Writer(con)
        for number in (1, 2):
            writer.accept(number)
            writer.finish(number, arex_writer.FIRST_S + 60 + number)
    return path


@pytest.fixture
def work(tmp_path) -> str:
    """Our directory."""
    (tmp_path / "ours").mkdir()
    return str(tmp_path / "ours")


@pytest.fixture
def here(tmp_path) -> Places:
    """Where our databases are."""
    return places(None, set_up(tmp_path / "control"))


def jobs(path: pathlib.Path, work: str, **more: float) -> int:
    with opened(str(path), work, **more) as database:
        return int(database.con.execute("SELECT count(*) FROM AAR").fetchone()[0])


def make_wal(path: pathlib.Path) -> None:
    with closing(sqlite3.connect(path)) as con:
        con.execute("PRAGMA journal_mode = WAL")


def test_a_rollback_database_is_read_from_a_copy(arex, work) -> None:
    """SQLite never opens the live file, and the copy is gone afterwards."""
    with opened(str(arex), work) as database:
        named = database.con.execute("PRAGMA database_list").fetchone()[2]

    assert named.startswith(work)
    assert os.listdir(work) == []


def test_a_lock_of_arex_does_not_stop_the_copy(arex, work) -> None:
    """A-REX between BEGIN and its first write holds a lock that any reader of SQLite's would have to wait for."""
    with closing(sqlite3.connect(arex, isolation_level=None)) as con:
        con.execute("BEGIN EXCLUSIVE")

        assert jobs(arex, work) == 2


def test_a_database_that_is_being_written_is_not_copied(arex, work) -> None:
    """With a journal next to it the file may be half written: we wait, and give up in time."""
    with closing(sqlite3.connect(arex, isolation_level=None)) as con:
        con.execute("BEGIN IMMEDIATE")
        con.execute("UPDATE AAR SET ExitCode = 7")

        with pytest.raises(StoreBusy, match="A-REX writes it constantly"):
            jobs(arex, work, patience_s=0.1)
        con.execute("ROLLBACK")

    assert jobs(arex, work) == 2
    assert os.listdir(work) == []


def test_a_wal_database_in_use_is_read_as_it_lives(arex, work) -> None:
    """What A-REX has committed is seen, also what is in the WAL alone, and nothing is written back."""
    make_wal(arex)
    with closing(sqlite3.connect(arex, isolation_level=None)) as con:
        con.execute("DELETE FROM AAR WHERE RecordID = 2")
        before = {name: (arex.parent / name).read_bytes() for name in ("accounting.db", "accounting.db-wal")}

        out = in_another_process(arex, work)

        after = {name: (arex.parent / name).read_bytes() for name in before}
    assert out == "1 live"
    assert after == before
    assert len(before["accounting.db-wal"]) > 0


def test_a_wal_database_that_no_one_uses_is_copied(arex, work) -> None:
    """SQLite would leave -wal and -shm behind, which may belong to the wrong user: there are none afterwards."""
    make_wal(arex)

    assert in_another_process(arex, work) == "2 copy"
    assert not os.path.exists(f"{arex}-shm")
    assert not os.path.exists(f"{arex}-wal")


def in_another_process(path: pathlib.Path, work: str) -> str:
    """The number of jobs, and how the database was read."""
    code = (
        "import sys; from arcacct.arex.own_database import opened\n"
        "with opened(sys.argv[1], sys.argv[2]) as one:\n"
        " print(one.con.execute('SELECT count(*) FROM AAR').fetchone()[0], 'copy' if one.stamp else 'live')"
    )
    command = [sys.executable, "-c", code, str(path), work]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_one_process_never_reads_a_file_both_ways(arex, work) -> None:
    """When another program changes the journal mode meanwhile, the next process is right again."""
    assert jobs(arex, work) == 2
    make_wal(arex)

    with closing(sqlite3.connect(arex)) as con:
        con.execute("SELECT count(*) FROM AAR").fetchone()
        with pytest.raises(StoreBusy, match="run the command again"):
            jobs(arex, work)
        assert in_another_process(arex, work) == "2 live"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "no such file; give the path", id="missing"),
        pytest.param(b"", "not an SQLite database", id="empty"),
        pytest.param(b"not a database" * 20, "not an SQLite database", id="text"),
    ],
)
def test_what_is_no_database_is_refused(tmp_path, work, content, message) -> None:
    """The complaint names the file."""
    path = tmp_path / "accounting.db"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(InputError, match=f"accounting.db: {message}"):
        jobs(path, work)


def test_a_database_of_something_else_is_refused(tmp_path, work) -> None:
    """It has no table AAR."""
    with closing(sqlite3.connect(tmp_path / "other.db")) as con:
        con.execute("CREATE TABLE Things (Name TEXT)")

    with pytest.raises(InputError, match="no table AAR"):
        jobs(tmp_path / "other.db", work)


def test_a_damaged_database_is_refused(arex, work) -> None:
    """A page of rubbish: not one job is taken from it."""
    content = bytearray(arex.read_bytes())
    content[8192:12288] = b"\xff" * 4096
    arex.write_bytes(content)

    with pytest.raises(StoreError, match="damaged"):
        jobs(arex, work)


def test_our_own_database_is_no_source(here, work) -> None:
    """It has our mark."""
    open_accounting(here).close()
    shutil.copy(here.database, f"{here.controldir}/copy.db")

    with pytest.raises(InputError, match="a database of arcacct"):
        jobs(here.controldir + "/copy.db", work)


def test_a_rollback_database_is_refused_as_ours_before_sqlite_opens_it(arex) -> None:
    """Ours are in WAL mode; what is not may be A-REX's, which must not even be locked."""
    with closing(sqlite3.connect(arex, isolation_level=None)) as con:
        con.execute("BEGIN EXCLUSIVE")

        with pytest.raises(SchemaError, match="not a database of arcacct"):
            refuse_foreign(str(arex))


def test_ours_and_none_are_not_refused(here) -> None:
    """A missing one will be made."""
    refuse_foreign(here.database)
    open_accounting(here).close()
    refuse_foreign(here.database)


# Records of A-REX's own database as the records that we keep.


OSLO = ZoneInfo("Europe/Oslo")
UTC = ZoneInfo("UTC")
SUBMIT, END = 1_795_169_300, 1_795_172_900
"""2026-11-20 10:08:20 and 11:08:20 UTC."""


def rows(**changed: object) -> ArexRows:
    """A finished job of ARC 6."""
    numbers = Numbers(0, SUBMIT, END, 1, 8, 2_000_000, 2_000_000, 3500, 20_000, 300, 0, 10, 20)
    found = ArexRows(
        record_id=1,
        job_id="JOB",
        local_job_id="4711",
        interface="org.nordugrid.arcrest",
        url="https://ce.example.org/arex",
        queue="main",
        user_dn="/CN=O%27Neill",
        vo="atlas",
        status="completed",
        numbers=numbers,
        fqan=None,
        benchmark=None,
        auth_tokens=[("mainfqan", "/atlas/Role=production"), ("vomsfqan", "/atlas")],
        rtes=[("ENV/PROXY",)],
        transfers=[("https://se.example.org/a%23b", 10, SUBMIT, SUBMIT, 10)],
        extra=[("benchmark", "HEPSPEC:12.26"), ("jobname", "100%25"), ("lrms", "fork")],
        events=[("ACCEPTED", "2026-11-20 10:08:20"), ("FINISHED", "2026-11-20 11:08:20")],
    )
    return found._replace(**changed)


def local(seconds: int, zone: ZoneInfo) -> str:
    """A time as A-REX writes it in a zone."""
    from datetime import datetime

    return datetime.fromtimestamp(seconds, zone).strftime("%Y-%m-%d %H:%M:%S")


def utc(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def test_a_job_of_arc_6_is_taken_as_it_is() -> None:
    """Names, numbers, children and percent-escapes are A-REX's own; our tables have the same convention."""
    theirs = rows()

    job = job_of(theirs, EventClock(UTC))

    assert stored(job) == theirs._replace(record_id=0)
    assert (job.user_dn, job.job_name, job.transfers[0].url) == ("/CN=O'Neill", "100%", "https://se.example.org/a#b")


@pytest.mark.parametrize(
    ("fqan", "tokens", "expected"),
    [
        pytest.param(
            "/atlas/Role=production",
            [("vomsfqan", "/atlas/Role=production"), ("vomsfqan", "/atlas")],
            [("mainfqan", "/atlas/Role=production"), ("vomsfqan", "/atlas")],
            id="the first is also among the others",
        ),
        pytest.param("/atlas", [], [("mainfqan", "/atlas")], id="the first alone"),
        pytest.param(
            "/b",
            [("vomsfqan", "/a"), ("vomsfqan", "/b")],
            [("mainfqan", "/b"), ("vomsfqan", "/a")],
            id="the record's own is the main one",
        ),
        pytest.param("", [("vomsfqan", "/a")], [("mainfqan", "/a")], id="the record has none"),
        pytest.param(
            "/a",
            [("subject", "s"), ("vomsfqan", "/a"), ("issuer", "https://iam")],
            [("mainfqan", "/a"), ("subject", "s"), ("issuer", "https://iam")],
            id="claims of a token stay",
        ),
        pytest.param("", [], [], id="no VO"),
    ],
)
def test_fqans_of_arc_7(fqan, tokens, expected) -> None:
    """ARC 7 calls every FQAN vomsfqan and has the first in the record: ours are mainfqan and vomsfqan."""
    ours = job_of(rows(fqan=fqan, benchmark="", auth_tokens=tokens), EventClock(UTC))

    assert list(ours.auth_tokens) == expected


def test_the_benchmark_of_arc_7_joins_the_extra_values() -> None:
    """ARC 7 has the benchmark in the record, and the record wins over an older row next to it."""
    ours = job_of(rows(fqan="", benchmark="HEPscore23:17.5"), EventClock(UTC))

    assert (ours.benchmark, ours.job_name, ours.lrms, ours.extra) == ("HEPscore23:17.5", "100%", "fork", ())


def test_children_of_a_resumed_job_are_there_once() -> None:
    """A-REX repeats all children at each end; of extra values those of the last end count."""
    finished = [("FINISHED", "2026-11-20 10:30:00"), ("FINISHED", "2026-11-20 11:08:20")]
    once = rows()
    twice = rows(
        events=[*once.events[:1], *finished],
        rtes=[*once.rtes, *once.rtes],
        transfers=[*once.transfers, *once.transfers, ("https://se.example.org/new", 1, END, END, 20)],
        extra=[("benchmark", "HEPSPEC:1.0"), ("nodenames", "wn1"), *once.extra],
    )

    ours = stored(job_of(twice, EventClock(UTC)))

    assert ours.rtes == once.rtes
    assert ours.transfers == [*once.transfers, ("https://se.example.org/new", 1, END, END, 20)]
    assert ours.extra == once.extra


def test_a_file_that_was_fetched_twice_stays_twice() -> None:
    """Equal rows of one end are what happened; only those that a second end repeats are too many."""
    same = [("https://se.example.org/a", 10, SUBMIT, SUBMIT, 10)] * 2
    resumed = rows(transfers=same * 2, events=[*rows().events, ("FINISHED", "2026-11-20 11:08:20")])

    assert stored(job_of(rows(transfers=same), EventClock(UTC))).transfers == same
    assert stored(job_of(resumed, EventClock(UTC))).transfers == same


@pytest.mark.parametrize(
    "zone", ["Europe/Oslo", "Asia/Kolkata", "America/St_Johns", "Pacific/Kiritimati", "UTC", "Australia/Lord_Howe"]
)
def test_event_times_become_utc(zone) -> None:
    """Local times of A-REX's zone, which has no marker, are UTC here."""
    times = [SUBMIT, SUBMIT + 1, END - 30, END]
    keys = ["ACCEPTED", "PREPARING", "FINISHING", "FINISHED"]
    events = [(key, local(when, ZoneInfo(zone))) for key, when in zip(keys, times, strict=True)]

    ours = job_of(rows(events=events), EventClock(ZoneInfo(zone)))

    assert list(ours.events) == [*zip(keys, times, strict=True)]


def test_without_a_zone_it_is_that_of_this_host(monkeypatch) -> None:
    """A-REX runs here, mostly."""
    monkeypatch.setenv("TZ", "America/St_Johns")
    time.tzset()
    try:
        events = [("ACCEPTED", local(SUBMIT, ZoneInfo("America/St_Johns"))), ("INLRMS", "2026-07-01 00:00:00")]
        clock = EventClock(None)
        ours = job_of(rows(events=events), clock)
    finally:
        monkeypatch.undo()
        time.tzset()

    assert list(ours.events) == [("ACCEPTED", SUBMIT), ("INLRMS", 1_782_873_000)]
    assert clock.elsewhere == 0


def test_the_jobs_own_times_win_over_a_wrong_zone() -> None:
    """A-REX ran in another zone for a while: ACCEPTED is the submission and FINISHED the end, whatever was said."""
    kolkata = ZoneInfo("Asia/Kolkata")
    events = [("ACCEPTED", local(SUBMIT, kolkata)), ("INLRMS", local(SUBMIT + 60, kolkata))]
    events += [("FINISHED", local(END, kolkata)), ("LRMSSTART", local(SUBMIT + 61, kolkata))]
    clock = EventClock(UTC)

    ours = job_of(rows(events=events), clock)

    times = (SUBMIT, SUBMIT + 60, END, SUBMIT + 61)
    assert [when for _key, when in ours.events] == [*times]
    assert clock.elsewhere == 1


def test_a_restart_in_another_zone_within_one_job() -> None:
    """Events before and after it are told apart by their order."""
    kolkata = ZoneInfo("Asia/Kolkata")
    events = [("ACCEPTED", utc(SUBMIT)), ("INLRMS", utc(SUBMIT + 60))]
    events += [("FINISHING", local(END - 5, kolkata)), ("FINISHED", local(END, kolkata))]

    ours = job_of(rows(events=events), EventClock(UTC))

    assert [when for _key, when in ours.events] == [SUBMIT, SUBMIT + 60, END - 5, END]


def test_the_hour_that_comes_twice() -> None:
    """At the end of summer time the rows' order and the job's own times say which of two instants it was."""
    # 2026-10-25 00:50 UTC is 02:50 in summer time; ten minutes later it is 02:00 once more.
    submit, end = 1_792_889_400, 1_792_889_400 + 1800
    times = [submit, submit + 120, submit + 900, submit + 1500, end]
    keys = ["ACCEPTED", "PREPARING", "INLRMS", "FINISHING", "FINISHED"]
    events = [(key, local(when, OSLO)) for key, when in zip(keys, times, strict=True)]
    assert events[0][1] > events[-1][1]

    ours = job_of(rows(events=events, numbers=Numbers(0, submit, end, *[1] * 10)), EventClock(OSLO))

    assert [when for _key, when in ours.events] == [*times]


@pytest.mark.parametrize("text", ["", "garbage", "2026-13-01 00:00:00", "0000-00-00 00:00:00", "2026-11-20"])
def test_what_is_no_time_is_kept_as_it_is(text) -> None:
    """One odd row neither stops the import nor moves the others."""
    ours = job_of(rows(events=[*rows().events, ("ODD", text)]), EventClock(UTC))

    assert ours.events[:2] == (("ACCEPTED", SUBMIT), ("FINISHED", END))
    assert stored(ours).events[2] in (("ODD", text), ("ODD", f"{text} 00:00:00"))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param({}, None, id="finished"),
        pytest.param({"status": "in-progress", "numbers": Numbers(1, SUBMIT, 0, *[0] * 10)}, None, id="in progress"),
        pytest.param({"status": ""}, "INTERNAL", id="INTERNAL"),
        pytest.param({"numbers": Numbers(0, SUBMIT, 0, *[0] * 10)}, "without an end time", id="no end"),
        pytest.param({"status": "weird"}, "'weird' is unknown", id="unknown status"),
    ],
)
def test_records_that_arex_has_lost(changed, expected) -> None:
    """They are left out, with the reason."""
    reason = lost(rows(**changed))

    assert (reason is None) == (expected is None)
    assert expected is None or expected in (reason or "")


def test_a_record_without_its_last_event_is_being_written() -> None:
    """A-REX writes a job's end in five transactions; the event FINISHED is in the last."""
    assert written_whole(rows())
    assert not written_whole(rows(events=rows().events[:1]))


@pytest.mark.parametrize(
    ("fqan", "vo", "kept"),
    [
        ("", "dteam%23/DC=org/CN=voms server", "dteam"),
        ("", "  dteam", "dteam"),
        ("/atlas", "atlas", "atlas"),
        (None, "odd%23name", "odd#name"),
    ],
    ids=["issuer", "blanks", "VOMS", "ARC 6"],
)
def test_the_vo_of_arc_7_has_no_issuer(fqan: str | None, vo: str, kept: str) -> None:
    """A-REX 7 writes `VO#ISSUER` and blanks of its configuration as they stand; the hook records the VO."""
    assert job_of(rows(fqan=fqan, benchmark="", vo=vo), EventClock(UTC)).vo == kept


def kept_bytes(days: int) -> int:
    """What an import of a job a minute keeps for their times, at most; other threads of this process do not count."""
    own = tracemalloc.Filter(inclusive=True, filename_pattern=inspect.getfile(EventClock))
    kept = 0
    tracemalloc.start()
    clock = EventClock(UTC)
    for minute in range(days * 1440):
        when = time.strftime("%Y-%m-%d %H:%M:20", time.gmtime(SUBMIT + minute * 60))
        clock.utc([("ACCEPTED", when)], SUBMIT + minute * 60, 0)
        if minute % 500 == 0:
            found = tracemalloc.take_snapshot().filter_traces([own])
            kept = max(kept, sum(one.size for one in found.statistics("filename")))
    tracemalloc.stop()
    return kept


@pytest.mark.campaign
def test_memory_does_not_grow_with_the_years_that_are_imported() -> None:
    """Jobs come in the order of their records: minutes of a month ago hardly come again."""
    assert kept_bytes(20) < 1.5 * kept_bytes(8)
