"""Records as publishing reads them: the values of their rows, whatever any program stored there."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import stored_jobs
from hostile_text import AMOUNTS, NASTY, TIMES
from hypothesis import given
from hypothesis import strategies as st

from arcacct.database import access
from arcacct.database.schema import ACCOUNTING, in_memory
from arcacct.records import reader
from arcacct.records.model import AAR, Job, Transfer
from arcacct.records.texts import escaped, event_seconds, event_time, unescaped
from arcacct.records.writer import JobWriter

EVERYTHING = 2**62


@pytest.fixture
def con() -> Iterator[sqlite3.Connection]:
    """An empty accounting database."""
    with closing(in_memory(ACCOUNTING)) as found:
        found.text_factory = access.READABLE
        yield found


@pytest.fixture(scope="module")
def shared() -> Iterator[sqlite3.Connection]:
    """One for all examples of a property, each of which takes back what it did: to make one takes longer than they."""
    with closing(in_memory(ACCOUNTING)) as found:
        yield found


@contextmanager
def taken_back(con: sqlite3.Connection) -> Iterator[None]:
    con.execute("BEGIN")
    try:
        yield
    finally:
        con.execute("ROLLBACK")


def write(con: sqlite3.Connection, *jobs: Job) -> None:
    JobWriter(con, "gridengine", "cell").write(jobs)


def read(con: sqlite3.Connection) -> list[AAR]:
    """All records of the log, in its order."""
    page = reader.logged_after(con, 0, EVERYTHING)
    return [] if page is None else [aar for _seq, aar in page.records]


def by_hand(con: sqlite3.Connection, record_id: int) -> dict[str, object]:
    """The children of a record from a query for each table, row by row."""

    def rows(table: str, columns: str) -> list[tuple[object, ...]]:
        query = f"SELECT {columns} FROM {table} WHERE RecordID = ? ORDER BY rowid"
        return con.execute(query, (record_id,)).fetchall()

    tokens = rows("AuthTokenAttributes", "AttrKey, AttrValue")
    mains = [unescaped(value) for key, value in tokens if key == "mainfqan"]
    named: dict[object, str] = {}
    for key, value in rows("JobExtraInfo", "InfoKey, InfoValue"):
        if value:
            named.setdefault(key, unescaped(value))
    times = dict(rows("JobEvents", "EventKey, CAST(strftime('%s', EventTime) AS INTEGER)"))
    nodes = named.get("nodenames") or named.get("nodename") or ""
    return {
        "fqans": (*mains[::-1], *(unescaped(value) for key, value in tokens if key == "vomsfqan")),
        "job_name": named.get("jobname"),
        "lrms": named.get("lrms"),
        "node_names": tuple(dict.fromkeys(filter(None, nodes.split(":")))),
        "client_host": named.get("clienthost"),
        "local_user": named.get("localuser"),
        "project": named.get("projectname"),
        "system_software": named.get("systemsoftware"),
        "wn_instance": named.get("wninstance"),
        "benchmark": named.get("benchmark"),
        "run_time_environments": tuple(
            dict.fromkeys(unescaped(name) for (name,) in rows("RunTimeEnvironments", "RTEName"))
        ),
        "transfers": tuple(
            reader.transfer_of(*row)
            for row in rows("DataTransfers", "URL, FileSize, TransferStart, TransferEnd, TransferType")
        ),
        **{
            field: times[key] or 0 if key in times else None
            for field, key in {
                "lrms_submit_time": "SUBMIT",
                "lrms_start_time": "LRMSSTART",
                "lrms_end_time": "LRMSEND",
            }.items()
        },
    }


def assert_read(con: sqlite3.Connection) -> list[AAR]:
    """What is read in pages, by end and by ID is the same, and what is in the tables; returns the records."""
    found = read(con)
    for aar in found:
        wanted = by_hand(con, aar.record_id)
        assert {field: getattr(aar, field) for field in wanted} == wanted
    ended = [
        aar for page in reader.decoded(con, lambda: [*reader.ended_between(con, -(2**63), 2.0**64)]) for aar in page
    ]
    assert sorted(map(repr, ended)) == sorted(map(repr, found))
    by_id = reader.by_job_id(con, [aar.job_id for aar in found])
    assert sorted(map(repr, by_id.values())) == sorted(map(repr, found))
    return found


TEXT = NASTY.filter(lambda text: text.isprintable() or text.isascii()) | st.text(max_size=20)
SOME_TEXT = st.one_of(st.just(""), TEXT, st.sampled_from(["%41", "%4", "a%zz%0A", "100%", "O'Brien #1"]))
MAYBE_TEXT = st.none() | SOME_TEXT
NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1) | AMOUNTS.filter(lambda number: number < 2**63)
WHEN = st.one_of(
    st.integers(0, 253_402_300_799),
    TIMES,
    st.sampled_from(["2026-11-20 12:00:00", "2026-02-31 12:00:00", "2026-11-20T12:00:00", "soon", "", "2026-11-20"]),
)
EVENTS = st.lists(st.tuples(st.sampled_from(["SUBMIT", "LRMSSTART", "LRMSEND", "FINISHED"]), WHEN), max_size=5)
KEYS = st.sampled_from(["jobname", "nodename", "nodenames", "benchmark", "lrms", "clienthost", "x"])
ANY_JOB = st.builds(
    Job,
    job_id=TEXT.filter(bool),
    status=st.sampled_from(["completed", "failed", "aborted", "in-progress"]),
    submit_time=TIMES,
    end_time=TIMES,
    **dict.fromkeys(("local_job_id", "endpoint_type", "endpoint_url", "queue", "user_dn", "vo"), SOME_TEXT),
    **dict.fromkeys(
        ("exit_code", "node_count", "core_count", "memory_kib", "virtual_memory_kib", "wall_s", "cpu_user_s",
         "cpu_kernel_s", "scratch_bytes", "stage_in_bytes", "stage_out_bytes"), NUMBERS),
    **dict.fromkeys(
        ("job_name", "lrms", "client_host", "local_user", "project", "system_software", "wn_instance", "benchmark"),
        MAYBE_TEXT),
    node_names=st.lists(SOME_TEXT, max_size=3).map(tuple),
    extra=st.lists(st.tuples(KEYS, SOME_TEXT), max_size=3).map(tuple),
    auth_tokens=st.lists(
        st.tuples(st.sampled_from(["mainfqan", "vomsfqan", "tokenclaim.sub"]), SOME_TEXT), max_size=4
    ).map(tuple),
    run_time_environments=st.lists(SOME_TEXT, max_size=3).map(tuple),
    transfers=st.lists(
        st.builds(Transfer, SOME_TEXT, *[AMOUNTS.filter(lambda number: number < 2**63)] * 3,
                  st.sampled_from(["input", "cached_input", "output"])), max_size=2).map(tuple),
    events=EVENTS.map(tuple),
)  # fmt: skip


@given(st.lists(ANY_JOB, max_size=3, unique_by=lambda job: job.job_id))
def test_any_job_of_a_source_is_read_as_it_is_stored(shared: sqlite3.Connection, jobs: list[Job]) -> None:
    """Whatever a source tells: the reader has what the tables have."""
    with taken_back(shared):
        try:
            write(shared, *jobs)
        except (UnicodeEncodeError, OverflowError):
            # SQLite stores no lone surrogate and no such number: then the job is refused.
            return
        assert_read(shared)


def test_a_plain_job_has_the_values_of_its_source(con: sqlite3.Connection) -> None:
    """Names with A-REX's escapes, times of the batch system, nodes that are named once."""
    job = stored_jobs.job(1)._replace(
        events=(("SUBMIT", 1_780_000_000), ("LRMSSTART", 1_780_000_010), ("LRMSEND", 1_780_000_020)),
        node_names=("wn1", "wn2", "wn1"),
        user_dn="/CN=O'Brien #1 100%",
        project="p",
        transfers=(Transfer("https://se/a'b", 5, 1_780_000_001, 1_780_000_002, "cached_input"),),
    )
    write(con, job, stored_jobs.job(2, status="failed"), stored_jobs.job(3, status="in-progress"))

    one, other = assert_read(con)

    assert (one.job_id, other.job_id) == ("STORED000001", "STORED000002")
    assert (one.user_dn, one.project) == ("/CN=O'Brien #1 100%", "p")
    assert (one.lrms_submit_time, one.lrms_start_time, one.lrms_end_time) == (1780000000, 1780000010, 1780000020)
    assert one.node_names == ("wn1", "wn2")
    assert one.transfers == (Transfer("https://se/a'b", 5, 1_780_000_001, 1_780_000_002, "cached_input"),)
    assert {type(moved) for moved in one.transfers} == {Transfer}


TEXTS: dict[str, tuple[str, str]] = {
    "a name twice": ("'first'), (1, 'jobname', 'second'", "first"),
    "an empty name first": ("''), (1, 'jobname', 'second'", "second"),
    "no value first": ("NULL), (1, 'jobname', 'second'", "second"),
    "quotes": ("""'a":"b\\","c'""", """a":"b\\","c"""),
    "a NUL": ("'a' || char(0) || 'b'", "a\0b"),
    "line ends": ("'a' || char(10, 13, 9, 31, 127, 133) || 'b'", "a\n\r\t\x1f\x7f\x85b"),
    "escapes": ("'a%0a%4%25'", "a\n%4%"),
    "bytes": ("x'c3a9'", "é"),
    "bytes that are no text": ("x'61ff62'", "a\ufffdb"),
    "a text of such bytes": ("CAST(x'61ff62' AS TEXT)", "a\ufffdb"),
}
"""A stored name of a job in SQL, and the name that is read."""


@pytest.mark.parametrize("what", TEXTS)
def test_a_text_is_read_as_it_is_stored(con: sqlite3.Connection, what: str) -> None:
    """Other programs may write any text or bytes, several times."""
    write(con, stored_jobs.job(1))
    con.execute("DELETE FROM JobExtraInfo")
    stored, name = TEXTS[what]
    con.execute(f"INSERT INTO JobExtraInfo VALUES (1, 'jobname', {stored})")

    (aar,) = read(con)

    assert aar.job_name == name


def test_a_transfer_with_values_that_are_no_numbers_is_read(con: sqlite3.Connection) -> None:
    """SQLite stores any type in a number column; the other transfers and values of the job are read as they are."""
    write(con, stored_jobs.job(1)._replace(transfers=()))
    con.executemany(
        "INSERT INTO DataTransfers VALUES (1, ?, ?, ?, ?, ?)",
        [
            ("https://se/%25", 2**62, 5, 6, 20),
            ("b", "many", b"x", 6, 10),
            (b"\xffc", 1, 5, 6, 99),
            ("https://se/d", float("inf"), -1, 6, 11),
        ],
    )

    (aar,) = read(con)

    assert [moved.url for moved in aar.transfers] == ["https://se/%", "b", "\ufffdc", "https://se/d"]
    assert [moved.kind for moved in aar.transfers] == ["output", "input", "input", "cached_input"]
    assert aar.transfers[0] == ("https://se/%", 2**62, 5, 6, "output")
    assert {type(value) for moved in aar.transfers for value in moved[1:4]} == {int}


def test_the_times_of_the_last_run_count(con: sqlite3.Connection) -> None:
    """A job that ran twice has two starts; a time that is none is 0."""
    write(con, stored_jobs.job(1)._replace(events=(("LRMSSTART", 1_780_000_000), ("LRMSSTART", 1_780_000_100))))
    con.execute("INSERT INTO JobEvents VALUES (1, 'LRMSEND', 'soon')")

    (aar,) = assert_read(con)

    assert (aar.lrms_submit_time, aar.lrms_start_time, aar.lrms_end_time) == (None, 1_780_000_100, 0)


def test_the_main_attribute_is_the_first(con: sqlite3.Connection) -> None:
    """Wherever its row is; an attribute without a value is none, and claims are no attributes."""
    write(con, stored_jobs.job(1)._replace(auth_tokens=()))
    rows = [("vomsfqan", "/b"), ("tokenclaim.sub", "x"), ("vomsfqan", None), ("mainfqan", "/a%25"), ("vomsfqan", "/b")]
    con.executemany("INSERT INTO AuthTokenAttributes VALUES (1, ?, ?)", rows)

    (aar,) = read(con)

    assert aar.fqans == ("/a%", "/b", "/b")


def test_a_job_whose_names_are_gone_is_read_without_them(con: sqlite3.Connection) -> None:
    """Who deletes an endpoint or a user does not hide jobs."""
    write(con, stored_jobs.job(1))
    con.executescript("DELETE FROM Endpoints; DELETE FROM Users; DELETE FROM Queues; DELETE FROM WLCGVOs")

    (aar,) = read(con)

    assert (aar.endpoint_url, aar.endpoint_type, aar.user_dn, aar.queue, aar.vo) == (None,) * 5


def test_what_is_not_published_is_named_in_the_order_of_the_log(con: sqlite3.Connection) -> None:
    """Records that ended before the time of a target, and vanished ones without usage; a page says where it ends."""
    write(con, *(stored_jobs.job(number) for number in range(1, 8)))
    con.execute("UPDATE AAR SET UsedWalltime = 0, UsedCPUUserTime = 0, UsedCPUKernelTime = 0 WHERE RecordID IN (3, 4)")
    con.execute("UPDATE AAR SET StatusID = (SELECT ID FROM Status WHERE Name = 'aborted') WHERE RecordID IN (3, 4)")
    con.execute("UPDATE AAR SET StatusID = (SELECT ID FROM Status WHERE Name = 'in-progress') WHERE RecordID = 5")

    page = reader.logged_after(con, 0, EVERYTHING)
    late = reader.logged_after(con, 0, EVERYTHING, ended_from=stored_jobs.END_S + 1)

    assert page is not None
    assert late is not None
    assert [aar.record_id for _seq, aar in page.records] == [1, 2, 6, 7]
    assert [job_id for _seq, job_id in page.others] == ["STORED000003", "STORED000004"]
    assert late.records == []
    assert len(late.others) == 6
    assert [seq for seq, _job_id in late.others] == sorted(seq for seq, _job_id in late.others)
    assert page.last_seq == late.last_seq == con.execute("SELECT max(Seq) FROM FinishedLog").fetchone()[0]


@given(st.text(st.sampled_from("%%%0a4FgGé\n"), max_size=12))
def test_percent_escapes_are_undone_as_they_are_written(text: str) -> None:
    """Two hexadecimal digits after a percent sign, from the left; and any text survives being escaped."""
    by_rule = re.sub("%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)

    assert unescaped(text) == by_rule
    assert unescaped(escaped(text)) == text


@given(st.integers(0, 253_402_300_799))
def test_times_are_those_that_sqlite_reads(shared: sqlite3.Connection, seconds: int) -> None:
    """The text of an event's time in A-REX's form is the second that SQLite takes it for."""
    (theirs,) = shared.execute("SELECT CAST(strftime('%s', ?) AS INTEGER)", (event_time(seconds),)).fetchone()

    assert event_seconds(event_time(seconds)) == seconds == theirs


@pytest.mark.parametrize(
    "when",
    ["2026-02-29 00:00:00", "2026-13-01 00:00:00", "2026-00-01 00:00:00", "2026-1-01 00:00:00", "2026-01-01 00:00",
     "2026-01-01T00:00:00", "2026-01-01 24:00:00", "2026-01-01 00:60:00", "2026-01-01 00:00:60", "", "now",
     "2026-01-01 00:00:00Z", "2026-01-01 00:00:00.5", " 2026-01-01 00:00:00", "2026-01-01 00:00:+1",
     "2026-01-01 00:00:00.500000", "2026-01-01 00:00:00+00:00"],
)  # fmt: skip
def test_another_form_of_time_is_no_event_time(when: str) -> None:
    """SQLite knows many forms; only A-REX's is read here."""
    with pytest.raises(ValueError, match=r"."):
        event_seconds(when)
