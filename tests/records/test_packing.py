"""Packed jobs: what is read from a pack is what the tables say, whoever wrote it and whatever changed since."""

from __future__ import annotations

import marshal
import random
import re
import sqlite3
import sys
import types
from contextlib import closing, contextmanager

import pytest
import stored_jobs
from arex_corpus import AREX, AREX7, rebuild, replayed, swept
from both_ways import assert_same, packed, page
from hostile_text import AMOUNTS, NASTY, TIMES
from hypothesis import given
from hypothesis import strategies as st
from job_files import DIAG, JOB, LOCAL, NOON_NS, STATISTICS

from arcacct.arex.control_files import JobFiles
from arcacct.arex.job_facts import job_facts
from arcacct.config.paths import JobRules
from arcacct.database.schema import ACCOUNTING, in_memory
from arcacct.records import packing, reader
from arcacct.records.model import AAR, Job, Transfer, column, record_of
from arcacct.records.reader import PACKED_FIELDS
from arcacct.records.recorder import escaped, event_time, record, record_present
from arcacct.records.states import StateChange, StatusFile
from arcacct.records.writer import JobWriter, remove

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def con() -> Iterator[sqlite3.Connection]:
    """An empty accounting database."""
    with closing(in_memory(ACCOUNTING)) as found:
        yield found


@pytest.fixture(scope="module")
def shared() -> Iterator[sqlite3.Connection]:
    """One for all examples of a property, each of which takes back what it did: to make one takes longer than they."""
    with closing(in_memory(ACCOUNTING)) as found:
        yield found


@pytest.mark.parametrize("loaded", [None, types.ModuleType("hashlib")])
def test_a_digest_needs_no_openssl(monkeypatch: pytest.MonkeyPatch, loaded: types.ModuleType | None) -> None:
    """It is the same without it, also while another thread has just begun to load it."""
    found = packing.digest(b"pack")
    monkeypatch.setitem(sys.modules, "hashlib", loaded)
    assert packing.digest(b"pack") == found == bytes.fromhex("4862f447f2c7f272fa2f4aaf89dadb3b")


@contextmanager
def taken_back(con: sqlite3.Connection) -> Iterator[None]:
    con.execute("BEGIN")
    try:
        yield
    finally:
        con.execute("ROLLBACK")


def write(con: sqlite3.Connection, *jobs: Job) -> None:
    JobWriter(con, "gridengine", "cell").write(jobs)


def test_the_layout_has_its_number() -> None:
    """Who adds a value to records, or changes what one means, raises VERSION: no older pack is read then."""
    layouts = {
        1: "job_id local_job_id endpoint_type endpoint_url queue user_dn vo status exit_code submit_time end_time"
        " node_count core_count memory_kib virtual_memory_kib wall_s cpu_user_s cpu_kernel_s scratch_bytes"
        " stage_in_bytes stage_out_bytes fqans job_name lrms node_names client_host local_user project"
        " system_software wn_instance benchmark run_time_environments transfers lrms_submit_time lrms_start_time"
        " lrms_end_time"
    }

    assert max(layouts) == packing.VERSION
    assert tuple(layouts[packing.VERSION].split()) == PACKED_FIELDS
    assert AAR._fields == ("record_id", *PACKED_FIELDS, "auth_groups", "held", "unknown")


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
def test_any_job_of_a_source_is_read_alike(shared, jobs) -> None:
    """Whatever a source tells: what comes from the pack is what comes from the tables."""
    with taken_back(shared):
        try:
            write(shared, *jobs)
        except (UnicodeEncodeError, OverflowError):
            # SQLite stores no lone surrogate and no such number: then the job is refused, pack or not.
            return
        assert_same(shared)


def test_plain_jobs_of_a_source_are_packed(con) -> None:
    """What sources tell every day is read from packs; what the tests above compare is not always the tables."""
    job = stored_jobs.job(1)._replace(
        events=(("SUBMIT", 1_780_000_000), ("LRMSSTART", 1_780_000_010), ("LRMSEND", 1_780_000_020)),
        node_names=("wn1", "wn2", "wn1"),
        user_dn="/CN=O'Brien #1 100%",
        project="p",
    )
    write(con, job, stored_jobs.job(2, status="failed"), stored_jobs.job(3, status="in-progress"))

    assert assert_same(con) == ["STORED000001", "STORED000002"]
    aar = page(con).records[0].aar
    assert aar.user_dn == "/CN=O'Brien #1 100%"
    assert (aar.lrms_submit_time, aar.lrms_start_time, aar.lrms_end_time) == (1780000000, 1780000010, 1780000020)
    assert aar.node_names == ("wn1", "wn2")


def change(state: str, after_s: int, local: bytes, diag: bytes, statistics: bytes) -> StateChange:
    files = JobFiles("/control", JOB, state)
    files.event_ns = NOON_NS + after_s * 10**9
    files.status = StatusFile(state, len(state), files.event_ns, files.event_ns)
    files.local = local
    if state == "FINISHED":
        files.diag, files.statistics, files.owner = diag, statistics, "ada:atlas"
    return job_facts(files, JobRules("HEPSPEC:11.11"))


LINES = st.lists(
    st.sampled_from(
        [b"voms=/atlas/Role=production", b"voms=/cms", b"subject=/CN=A%27da", b"queue=50% off", b"jobname=a'b#c%41",
         b"localid=", b"localid=77", b"globalid=x", b"starttime=20261120110001Z", b"headnode=https://other:443/arex"]),
    max_size=4).map(lambda lines: LOCAL + b"\n".join(lines) + b"\n")  # fmt: skip
DIAGS = st.lists(
    st.sampled_from(
        [b"runtimeenvironments=A;B;A;", b"nodename=wn%25", b"exitcode=9", b"LRMSStartTime=20261120111001Z",
         b"LRMSEndTime=nonsense", b"WallTime=99999999999999999999s", b"Processors=x", b"Benchmark=HS06:10"]),
    max_size=4).map(lambda lines: DIAG + b"\n".join(lines) + b"\n")  # fmt: skip
TRANSFERS = st.sampled_from([STATISTICS, b"", STATISTICS * 2, STATISTICS.replace(b"/in,", b"/i%20n,")])
STATES = ("ACCEPTED", "PREPARING", "SUBMIT", "INLRMS", "FINISHING", "FINISHED")
EVENTS_OF_A_JOB = st.lists(
    st.tuples(st.sampled_from(STATES), st.integers(0, 9), LINES, DIAGS, TRANSFERS), min_size=1, max_size=5
)


@given(EVENTS_OF_A_JOB, st.booleans())
def test_any_events_of_a_job_are_read_alike(shared, events, present) -> None:
    """In any order, twice, resumed, with other files each time: after each of them pack and tables agree."""
    with taken_back(shared):
        for one in events:
            record(shared, change(*one), present=present)
            assert_same(shared)


LIFE = [(state, number, LOCAL, DIAG, STATISTICS) for number, state in enumerate(STATES)]


def test_a_job_is_packed_by_the_hook_and_by_the_sweep(con) -> None:
    """Told event by event, or found at its end: it is packed, with the same values."""
    for one in LIFE:
        record(con, change(*one))
    assert assert_same(con) == [JOB]
    by_hooks = page(con).records[0].aar

    with closing(in_memory(ACCOUNTING)) as other:
        record_present(other, [(change(*LIFE[-1]), True)])
        assert assert_same(other) == [JOB]
        by_sweep = page(other).records[0].aar
    behind = AAR._fields.index("lrms_submit_time")
    assert by_hooks[1:behind] == by_sweep[1:behind]
    assert by_hooks.lrms_submit_time == NOON_NS // 10**9 + 2


def test_the_same_end_twice_writes_nothing(con) -> None:
    """A repeated event changes no row, of the outbox neither."""
    for one in LIFE:
        record(con, change(*one))
    before = con.total_changes

    record(con, change(*LIFE[-1]))
    record(con, change(*LIFE[-1]), present=True)

    assert con.total_changes == before


@pytest.mark.parametrize("corpus", [AREX, AREX7], ids=["arc6", "arc7"])
def test_all_jobs_of_real_control_directories_are_packed(tmp_path, corpus) -> None:
    """Swept from the files of a real A-REX, every job that ended is read from its pack, as the tables have it."""
    with closing(swept(rebuild(tmp_path / "control", corpus))) as con:
        ended = [row[0] for row in con.execute("SELECT JobID FROM AAR WHERE EndTime > 0")]

        assert sorted(assert_same(con)) == sorted(ended)
        assert len(ended) > 3


def test_all_hooks_of_a_real_arex(tmp_path) -> None:
    """Every hook call of a real site, one after the other; resumed jobs are read from the tables."""
    with closing(replayed(rebuild(tmp_path / "control"))) as con:
        found = assert_same(con)
        (ended,) = con.execute("SELECT count(*) FROM AAR WHERE EndTime > 0").fetchone()

        assert ended * 0.8 < len(found) <= ended


CHANGES = {
    "a column": "UPDATE AAR SET UsedWalltime = 4711 WHERE RecordID = 1",
    "the user": "UPDATE AAR SET UserID = (SELECT max(ID) FROM Users) WHERE RecordID = 1",
    "the status": "UPDATE AAR SET StatusID = (SELECT ID FROM Status WHERE Name = 'failed') WHERE RecordID = 1",
    "back to work": "UPDATE AAR SET StatusID = (SELECT ID FROM Status WHERE Name = 'in-progress') WHERE RecordID = 1",
    "deleted": "DELETE FROM AAR WHERE RecordID = 1",
    "replaced by its JobID": "REPLACE INTO AAR SELECT 77, {rest} FROM AAR WHERE RecordID = 1",
    "replaced by its number": "REPLACE INTO AAR SELECT 1, {other} FROM AAR WHERE RecordID = 2",
    "its JobID taken": "UPDATE OR REPLACE AAR SET JobID = 'STORED000001' WHERE RecordID = 2",
    **{
        f"{what} {table}": statement.format(table=table, column=column)
        for table, column in {
            "AuthTokenAttributes": "AttrValue",
            "RunTimeEnvironments": "RTEName",
            "DataTransfers": "URL",
            "JobExtraInfo": "InfoValue",
        }.items()
        for what, statement in {
            "a row of": "UPDATE {table} SET {column} = 'other' WHERE RecordID = 1",
            "no row of": "DELETE FROM {table} WHERE RecordID = 1",
            "another's row of": "UPDATE {table} SET RecordID = 1 WHERE RecordID = 2",
            "a row to another of": "UPDATE {table} SET RecordID = 2 WHERE RecordID = 1",
            "another order of": "UPDATE {table} SET rowid = 1000 - rowid WHERE RecordID = 1",
            "a copy of a row of": "INSERT INTO {table} SELECT * FROM {table} WHERE RecordID = 2",
        }.items()
    },
    "an event more": "INSERT INTO JobEvents VALUES (1, 'LRMSEND', '2030-01-01 00:00:00')",
    "another time": "UPDATE JobEvents SET EventTime = '2030-01-01 00:00:00' WHERE RecordID = 1",
    "an event of another kind": "UPDATE JobEvents SET EventKey = 'LRMSEND' WHERE RecordID = 1 AND EventKey = 'OTHER'",
    "no event": "DELETE FROM JobEvents WHERE RecordID = 1",
    "an event to another": "UPDATE JobEvents SET RecordID = 2 WHERE RecordID = 1",
    "authgroups": "INSERT INTO AuthGroups VALUES (1, 'a b')",
    "no user": "DELETE FROM Users WHERE ID = (SELECT UserID FROM AAR WHERE RecordID = 1)",
    "another user": "REPLACE INTO Users SELECT UserID, 'new' FROM AAR WHERE RecordID = 1",
    "another VO": "REPLACE INTO WLCGVOs SELECT VOID, 'new' FROM AAR WHERE RecordID = 1",
    "another queue": "REPLACE INTO Queues SELECT QueueID, 'new' FROM AAR WHERE RecordID = 1",
    "another endpoint": "REPLACE INTO Endpoints SELECT EndpointID, 'new', 'new' FROM AAR WHERE RecordID = 1",
    "no endpoint": "DELETE FROM Endpoints",
    "another status": "REPLACE INTO Status SELECT StatusID, 'new' FROM AAR WHERE RecordID = 1",
    "no log": "DELETE FROM FinishedLog WHERE RecordID = 1",
    "another log": "UPDATE FinishedLog SET Seq = 1000 - Seq",
    "each other's log": "UPDATE FinishedLog SET RecordID = 1003 - RecordID;"
    " UPDATE FinishedLog SET RecordID = RecordID - 1000",
}
"""What other programs and people may do to a record, by what it is."""


@pytest.mark.parametrize("change", CHANGES)
def test_no_change_leaves_a_pack_behind(con, change) -> None:
    """Whoever changes a value, by whatever statement: the next reader gets the value that is there."""
    times = (("SUBMIT", 1_780_000_000), ("LRMSSTART", 1_780_000_010), ("OTHER", 1_780_000_020))
    write(con, *(stored_jobs.job(number)._replace(events=times, extra=(("a", str(number)),)) for number in (1, 2)))
    assert len(assert_same(con)) == 2
    columns = [row[1] for row in con.execute("PRAGMA table_info(AAR)")][1:]
    named = {"JobID": "'other'", "StatusID": "(SELECT ID FROM Status WHERE Name = 'in-progress')"}
    other = ", ".join(named.get(name, name) for name in columns)
    before = repr(page(con))

    con.executescript(CHANGES[change].format(rest=", ".join(columns), other=other))

    assert_same(con)
    quiet = ("another order of Ru", "another order of D", "another order of A", "another order of J")
    assert repr(page(con)) != before or change.startswith(quiet) or change == "an event of another kind"


def test_packed_jobs_are_read_as_plain_values(con) -> None:
    """No object is made of a job, nor of any of its transfers, before it is asked for."""
    write(con, stored_jobs.job(1), stored_jobs.job(2))
    found = page(con)
    assert found is not None
    transfers = column("transfers")

    assert [type(one.row) for one in found.records] == [tuple, tuple]
    assert {type(moved) for one in found.records for moved in one.row[transfers]} == {tuple}
    for one in found.records:
        assert one.aar == record_of(one.row, one.digest)
        assert {type(moved) for moved in one.aar.transfers} == {Transfer}
        assert one.aar[:transfers] == one.row[:transfers]


RUBBISH = [b"", b"\0", b"rubbish", b"(", marshal.dumps((1,) * 36, 2)[:-1], marshal.dumps({}, 2), marshal.dumps((), 2)]
RUBBISH += [marshal.dumps((1,) * 35, 2), marshal.dumps((1,) * 31 + (5,) + (1,) * 4, 2)]
HUGE = [b"(\xff\xff\xff\x7f", b"[" * 3000]
"""A tuple and a list of some gigabytes, which marshal would begin to make."""


@pytest.mark.parametrize("data", [*RUBBISH, *HUGE, "text", 5])
def test_rubbish_is_not_read(con, data) -> None:
    """Bytes that are no pack are passed over, and their neighbours are read from theirs."""
    write(con, stored_jobs.job(1), stored_jobs.job(2))
    con.execute("UPDATE PackedJobs SET Data = ? WHERE RecordID = 1", (data,))
    assert assert_same(con) == ["STORED000002"]

    if data in RUBBISH:
        con.execute("UPDATE PackedJobs SET Digest = ? WHERE RecordID = 1", (packing.digest(data),))
        assert assert_same(con) == ["STORED000002"]


def test_damage_is_not_read(con) -> None:
    """A pack that the disk changed, wherever, is passed over."""
    write(con, stored_jobs.job(1))
    ((good,),) = con.execute("SELECT Data FROM PackedJobs").fetchall()
    chance = random.Random(1)
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 1 + chance.randrange(255)
        con.execute("UPDATE PackedJobs SET Data = ?", (bytes(bad),))
        assert packed(con) == []


def test_another_program_s_packs_are_not_read(con) -> None:
    """A layout with another number is not ours to read."""
    write(con, stored_jobs.job(1), stored_jobs.job(2))
    con.execute("UPDATE PackedJobs SET Version = Version + 1 WHERE RecordID = 1")

    assert assert_same(con) == ["STORED000002"]


def test_what_is_large_is_stored_once(con) -> None:
    """A job with very long children is not packed, and read all the same."""
    write(con, stored_jobs.job(1)._replace(project="x" * packing.LARGEST_BYTES), stored_jobs.job(2))

    assert assert_same(con) == ["STORED000002"]


def test_what_is_taken_back_leaves_no_pack(con) -> None:
    """Pack and status are of one transaction; a record that is forgotten takes its pack along."""
    con.execute("BEGIN")
    JobWriter(con, "gridengine", "cell").write([stored_jobs.job(1)])
    con.execute("ROLLBACK")
    assert con.execute("SELECT count(*) FROM PackedJobs").fetchone() == (0,)

    write(con, stored_jobs.job(1), stored_jobs.job(2))
    remove(con, [1])
    assert con.execute("SELECT RecordID FROM PackedJobs").fetchall() == [(2,)]


@given(st.text(st.sampled_from("%%%0a4FgGé\n"), max_size=12))
def test_percent_escapes_are_undone_as_they_are_written(text) -> None:
    """Two hexadecimal digits after a percent sign, from the left; and any text survives being escaped."""
    by_rule = re.sub("%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)

    assert packing.unescaped(text) == by_rule
    assert packing.unescaped(escaped(text)) == text


@given(st.integers(0, 253_402_300_799))
def test_times_are_those_that_sqlite_reads(shared, seconds) -> None:
    """The text of an event's time in A-REX's form is the second that SQLite takes it for."""
    (theirs,) = shared.execute("SELECT CAST(strftime('%s', ?) AS INTEGER)", (event_time(seconds),)).fetchone()

    assert packing.event_seconds(event_time(seconds)) == seconds == theirs


@pytest.mark.parametrize(
    "when",
    ["2026-02-29 00:00:00", "2026-13-01 00:00:00", "2026-00-01 00:00:00", "2026-1-01 00:00:00", "2026-01-01 00:00",
     "2026-01-01T00:00:00", "2026-01-01 24:00:00", "2026-01-01 00:60:00", "2026-01-01 00:00:60", "", "now",
     "2026-01-01 00:00:00Z", "2026-01-01 00:00:00.5", " 2026-01-01 00:00:00", "2026-01-01 00:00:+1"],
)  # fmt: skip
def test_other_forms_of_time_are_left_to_sqlite(when) -> None:
    """SQLite knows many forms; only A-REX's is read here."""
    with pytest.raises(ValueError, match=f"^{re.escape(when)}$"):
        packing.event_seconds(when)


def test_a_reader_between_pages_sees_what_is_there(con) -> None:
    """A page is of one state: records that have a pack and records that have none, in the order of the log."""
    write(con, *(stored_jobs.job(number) for number in range(1, 8)))
    con.execute("DELETE FROM PackedJobs WHERE RecordID % 2")
    con.execute("UPDATE AAR SET UsedWalltime = 0, UsedCPUUserTime = 0, UsedCPUKernelTime = 0 WHERE RecordID IN (3, 4)")
    con.execute("UPDATE AAR SET StatusID = (SELECT ID FROM Status WHERE Name = 'aborted') WHERE RecordID IN (3, 4)")

    assert len(assert_same(con)) == 2
    late = reader.logged_after(con, 0, 2**62, ended_from=stored_jobs.END_S + 1)
    assert late.records == []
    assert len(late.others) == 7
