"""What `stats` is answered from: always what counting every job answers, and as much of it as was there before."""

from __future__ import annotations

import calendar
import itertools
import tempfile
from contextlib import closing

import pytest
from campaigns import examples
from control_directory import set_up
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_jobs import endpoint_id

from arcacct.config.paths import Places, places
from arcacct.database import access
from arcacct.database.connection import Connection
from arcacct.queries.questions import Selection
from arcacct.queries.usage import NEEDS, UsageTable, usage
from arcacct.records import recorder
from arcacct.records import usage as records_usage

NOVEMBER = calendar.timegm((2026, 11, 1, 0, 0, 0))
ENDS = [NOVEMBER - 1, NOVEMBER, NOVEMBER + 86_400 * 3, NOVEMBER + 86_400 * 4 - 1, NOVEMBER + 86_400 * 30, 0]
COLUMNS = (
    "JobID, LocalJobID, EndpointID, QueueID, UserID, VOID, StatusID, ExitCode, SubmitTime, EndTime, NodeCount,"
    " CPUCount, UsedMemory, UsedVirtMem, UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime, UsedScratch, StageInVolume,"
    " StageOutVolume"
)
STATES = ["in-progress", "completed", "failed", "aborted"]
EXTRA = {
    "projectname": ["gold", "it%27s", ""],
    "nodenames": ["wn1:wn1:wn2", "wn2", ""],
    "nodename": ["wn3"],
    "benchmark": ["HEPSPEC:1.0", "HEPscore23:12", "nonsense"],
    "coreseconds": ["7", "31"],
}
FQANS = ["/atlas", "/atlas/Role=production", "/cms/Role=NULL"]

job = st.integers(0, 5)
change = st.one_of(
    st.tuples(
        st.just("record"), job, st.sampled_from(ENDS), st.sampled_from([0, 10, 2**53]), st.integers(1, 3),
        st.sampled_from(STATES), st.integers(0, 1), st.sampled_from([0, 7, 2**62]),
    ),
    st.tuples(st.just("extra"), job, st.sampled_from(sorted(EXTRA)), st.integers(0, 2)),
    st.tuples(st.just("unknown"), job, st.sampled_from(["wall_s", "cpu_user_s"])),
    st.tuples(st.just("fqan"), job, st.sampled_from(FQANS)),
    st.tuples(st.just("delete"), job),
    st.tuples(st.just("advance")),
    st.tuples(st.just("refine")),
)  # fmt: skip
SELECTIONS = [
    Selection(),
    Selection(from_s=NOVEMBER, before_s=calendar.timegm((2026, 12, 1, 0, 0, 0))),
    Selection(from_s=NOVEMBER + 86_400 * 3, before_s=NOVEMBER + 86_400 * 4),
    Selection(after_s=NOVEMBER - 1),
    Selection(vos=("vo1",), users=("user 1", "nobody")),
    Selection(queues=("q'1",), endpoints=("rest",)),
    Selection(fqans=("/atlas",)),
    Selection(states=("failed", "in-progress")),
]


def apply(con: Connection, here: Places, step: tuple) -> None:
    """One change of a history."""
    kind, *values = step
    if kind == "advance":
        records_usage.update_monthly(con, here)
        return
    if kind == "refine":
        records_usage.update_breakdown(con, here)
        return
    name = f"job{values[0]}"
    found = con.execute("SELECT RecordID FROM AAR WHERE JobID = ?", (name,)).fetchone()
    if kind == "record":
        _n, end, wall, cores, status, one, staged = values
        row = (
            name, "", endpoint_id(con, "rest" if one else "emies", "https://ce/" if one else ""),
            recorder.name_id(con, "Queues", f"q'{one}"), recorder.name_id(con, "Users", f"user {one}"),
            recorder.name_id(con, "WLCGVOs", f"vo{cores % 2}"), recorder.name_id(con, "Status", status), 0, 5, end, 1,
            cores, 0, 0, wall, wall, 0, 0, staged % 2**61, 0,
        )  # fmt: skip
        if found:
            marks = ", ".join(f"{column} = ?" for column in COLUMNS.split(", "))
            con.execute(f"UPDATE AAR SET {marks} WHERE RecordID = ?", (*row, found[0]))
        else:
            con.execute(f"INSERT INTO AAR ({COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)
    elif found is None:
        return
    elif kind == "extra":
        choices = EXTRA[values[1]]
        recorder.set_children(con, found[0], "JobExtraInfo", [(values[1], choices[values[2] % len(choices)])])
    elif kind == "unknown":
        con.execute("INSERT OR IGNORE INTO FieldSources VALUES (?, ?, 'unknown')", (*found, values[1]))
    elif kind == "fqan":
        recorder.set_children(con, found[0], "AuthTokenAttributes", [("mainfqan", values[1])])
    else:
        con.execute("BEGIN")
        for table in ("AuthTokenAttributes", "JobExtraInfo", "FieldSources", "AAR"):
            con.execute(f"DELETE FROM {table} WHERE RecordID = ?", found)
        con.execute("COMMIT")


def counted(con: Connection, selection: Selection, by: tuple[str, ...], **options: bool) -> tuple[UsageTable, ...]:
    """The answer from the sums that are kept, and from every job: no sum tells of the time of submission."""
    options = {"details": False} | options
    every = selection._replace(submitted_after_s=-1)
    return usage(con, selection, by, **options), usage(con, every, by, **options)


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(st.lists(change, max_size=30), st.data())
def test_answers_are_what_counting_every_job_gives(steps, data) -> None:
    """After any history, by anything, with any filter and any range: also what no command has summed up yet."""
    with tempfile.TemporaryDirectory() as folder:
        here = places(None, set_up(folder))
        with closing(access.open_accounting(here)) as con:
            for step in steps:
                apply(con, here, step)
            asked = itertools.product(SELECTIONS, [(name,) for name in NEEDS] + [("day", "status"), ("month", "host")])
            for selection, by in data.draw(st.permutations(list(asked)))[:20]:
                details, active = data.draw(st.booleans()), data.draw(st.booleans())
                quick, slow = counted(con, selection, by, details=details, active=active)
                assert quick == slow, (selection, by, details, active)
            records_usage.update_monthly(con, here)
            records_usage.update_breakdown(con, here)
            assert records_usage.differences(con) == []
            quick, slow = counted(con, Selection(), ("queue", "user", "project"), details=True, active=True)
            assert quick == slow


@pytest.fixture
def here(tmp_path) -> Places:
    return places(None, set_up(tmp_path))


@pytest.fixture
def con(here):
    con = access.open_accounting(here)
    for number, end in enumerate(ENDS[:5]):
        apply(con, here, ("record", number, end, 10, 1 + number % 3, STATES[1 + number % 2], number % 2, 7))
        apply(con, here, ("extra", number, "nodenames", number % 2))
    yield con
    con.close()


@pytest.mark.parametrize("by", sorted({*NEEDS} - {"wait", "walltime"}))
def test_pruned_jobs_stay_counted_by_anything(here, con, by) -> None:
    """Whatever is asked by, a job that went into an archive counts as it did."""
    records_usage.update_monthly(con, here)
    records_usage.update_breakdown(con, here, everything=True)
    before = usage(con, Selection(), (by,), details=True)
    con.execute("BEGIN")
    for table in ("FinishedLog", "JobExtraInfo", "AAR"):
        con.execute(f"DELETE FROM {table} WHERE RecordID <= 3")
    con.execute("COMMIT")

    assert usage(con, Selection(), (by,), details=True) == before
    assert records_usage.differences(con) == []


def test_sums_of_an_older_database_are_made_in_slices(here, con) -> None:
    """What the monthly cells had before there were finer ones is put into these; pruned jobs too."""
    records_usage.update_monthly(con, here)
    con.execute("BEGIN")
    for table in ("FinishedLog", "JobExtraInfo", "AAR"):
        con.execute(f"DELETE FROM {table} WHERE RecordID = 1")
    con.execute("COMMIT")
    waiting = "SELECT count(*) FROM JobUsageShares WHERE MonthID IS NULL"

    assert con.execute(waiting).fetchone() == (5,)
    assert sum(row[1] for row in usage(con, Selection(), ("queue",), details=False).rows) == 4
    assert records_usage.update_breakdown(con, here) == 5
    assert con.execute(waiting).fetchone() == (0,)
    rows = usage(con, Selection(), ("queue",), details=False).rows
    assert [row[:2] for row in rows] == [(None, 1), ("q'0", 2), ("q'1", 2)]
    assert records_usage.differences(con) == []


def test_putting_in_can_be_interrupted(here, con, monkeypatch) -> None:
    """A slice that fails leaves what was there, and the next call continues with it."""
    records_usage.update_monthly(con, here)
    con.execute("CREATE TRIGGER Stop BEFORE UPDATE ON UsageBreakdown BEGIN SELECT RAISE(ABORT, 'power cut'); END")
    with pytest.raises(Exception, match="power cut"):
        records_usage.update_breakdown(con, here)
    con.execute("DROP TRIGGER Stop")

    assert records_usage.differences(con) == []
    assert records_usage.update_breakdown(con, here) == 5
    assert records_usage.differences(con) == []


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("UPDATE UsageBreakdown SET Jobs = Jobs + 1 WHERE FinerID = 1", "finer cell 1: sums are not those of its jobs"),
        ("UPDATE JobUsageShares SET HostID = DayID WHERE RecordID = 2", "record 2: is in the finer cells"),
        ("UPDATE JobUsageShares SET StageIn = 8 WHERE RecordID = 2", "record 2: is in the finer cells"),
    ],
)
def test_what_is_wrong_is_found(here, con, damage, said) -> None:
    """`db check` compares the finer cells with a recount."""
    records_usage.update_monthly(con, here)
    records_usage.update_breakdown(con, here)
    assert records_usage.differences(con) == []
    con.execute(damage)

    assert any(text.startswith(said) for text in records_usage.differences(con))


def test_amounts_are_those_of_the_jobs(here, con) -> None:
    """Jobs, hours, failures and volumes by queue and by host."""
    records_usage.update_monthly(con, here)
    records_usage.update_breakdown(con, here)
    table = usage(con, Selection(), ("host",), details=True)

    assert table.columns[:4] == ("host", "jobs", "wall_s", "cpu_s")
    assert table.columns[8:11] == ("failed_jobs", "stage_in_bytes", "stage_out_bytes")
    assert [(*row[:4], *row[8:11]) for row in table.rows] == [
        ("wn1", 3, 30, 30, 0, 21, 0),
        ("wn2", 2, 20, 20, 2, 14, 0),
    ]
