"""The monthly usage cells: always what a recount of the records gives."""

from __future__ import annotations

import calendar
import pathlib
import tempfile
from contextlib import closing

import pytest
from campaigns import examples
from control_directory import set_up
from hypothesis import given, settings
from hypothesis import strategies as st
from publishing_site import JUNE, Job, Site, jobs
from stored_jobs import endpoint_id

from arcacct.config.paths import Places, places
from arcacct.database import access, incarnation
from arcacct.database.connection import Connection
from arcacct.records import reader, recorder, usage
from arcacct.records.model import UsageCell

OCTOBER_LAST = calendar.timegm((2026, 10, 31, 23, 59, 59))
MONTH_EDGES = [OCTOBER_LAST, OCTOBER_LAST + 1, calendar.timegm((2028, 2, 29, 12, 0, 0)), OCTOBER_LAST - 40 * 86400]
COLUMNS = "JobID, LocalJobID, EndpointID, QueueID, UserID, VOID, StatusID, ExitCode, SubmitTime, EndTime, NodeCount"
KEY = "Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark"
TWICE = f"SELECT {KEY} FROM CurrentUsage GROUP BY {KEY} HAVING count(*) > 1"

job = st.integers(0, 5)
change = st.one_of(
    st.tuples(
        st.just("record"), job, st.sampled_from(MONTH_EDGES), st.sampled_from([0, 10, 2**53, 2**62]), st.integers(1, 3)
    ),
    st.tuples(st.just("status"), job, st.sampled_from(["in-progress", "completed", "failed", "aborted"])),
    st.tuples(st.just("benchmark"), job, st.sampled_from(["HEPSPEC:1.0", "HEPscore23:12"])),
    st.tuples(st.just("fqan"), job, st.sampled_from(["/atlas", "/atlas/Role=production"])),
    st.tuples(st.just("delete"), job),
    st.tuples(st.just("prune"), job),
    st.tuples(st.just("advance")),
)


@pytest.fixture
def here(tmp_path: pathlib.Path) -> Places:
    return places(None, set_up(tmp_path))


def apply(con: Connection, here: Places, step: tuple) -> None:
    """One change of the history."""
    kind, *values = step
    if kind == "advance":
        usage.update_monthly(con, here)
        return
    name = f"job{values[0]}"
    record_id = con.execute("SELECT RecordID FROM AAR WHERE JobID = ?", (name,)).fetchone()
    if kind == "record" and record_id is None:
        ids = [
            endpoint_id(con, "rest", f"https://ce{values[0] % 2}/"),
            *(recorder.name_id(con, table, "x") for table in ("Queues", "Users", "WLCGVOs")),
            recorder.name_id(con, "Status", "completed"),
        ]
        con.execute(
            f"INSERT INTO AAR ({COLUMNS}, CPUCount, UsedMemory, UsedVirtMem, UsedWalltime, UsedCPUUserTime,"
            " UsedCPUKernelTime, UsedScratch, StageInVolume, StageOutVolume)"
            " VALUES (?, '', ?, ?, ?, ?, ?, 0, 1, ?, 1, ?, 0, 0, ?, ?, 1, 0, 0, 0)",
            (name, *ids, values[1], values[3], values[2], values[2]),
        )
    elif record_id is None:
        return
    elif kind == "record":
        con.execute("UPDATE AAR SET EndTime = ?, UsedWalltime = ? WHERE JobID = ?", (values[1], values[2], name))
    elif kind == "status":
        status = recorder.name_id(con, "Status", values[1])
        con.execute("UPDATE AAR SET StatusID = ? WHERE JobID = ?", (status, name))
    elif kind == "benchmark":
        recorder.set_children(con, record_id[0], "JobExtraInfo", [("benchmark", values[1])])
    elif kind == "fqan":
        recorder.set_children(con, record_id[0], "AuthTokenAttributes", [("mainfqan", values[1])])
    else:
        remove(con, here, record_id[0], pruned=kind == "prune")


def remove(con: Connection, here: Places, record_id: int, *, pruned: bool) -> None:
    """A deleted record takes its usage with it; a pruned one (delivered, in the archive) leaves it."""
    if pruned:
        usage.update_monthly(con, here)
    con.execute("BEGIN")
    for table in ("AuthTokenAttributes", "JobExtraInfo", "AAR"):
        con.execute(f"DELETE FROM {table} WHERE RecordID = ?", (record_id,))
    if pruned:
        con.execute("DELETE FROM FinishedLog WHERE RecordID = ?", (record_id,))
    con.execute("COMMIT")


def merged(found: list[UsageCell]) -> dict[tuple, tuple[int, ...]]:
    """The cells by key; interfaces of one URL are one key."""
    sums: dict[tuple, tuple[int, ...]] = {}
    for cell in found:
        old = sums.get(cell[:9], (0, 0, 0, 2**62, 0))
        sums[cell[:9]] = (
            old[0] + cell.jobs,
            old[1] + cell.wall_s,
            old[2] + cell.cpu_s,
            min(old[3], cell.earliest_end_time),
            max(old[4], cell.latest_end_time),
        )
    return sums


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(st.lists(change, max_size=40))
def test_cells_equal_a_recount_after_any_history(steps) -> None:
    """After corrections, deletions and moves between months the cells are the sums of what is there, at any moment."""
    with tempfile.TemporaryDirectory() as folder:
        here = places(None, set_up(folder))
        con = access.open_accounting(here)
        for step in steps:
            if step[0] != "prune":
                apply(con, here, step)
        recount = merged(reader.cell_of(aar) for page in reader.ended_between(con, 1, 2**60) for aar in page)

        assert merged(usage.usage_cells(con)) == recount  # as a reader without write access sees it
        assert con.execute(TWICE).fetchall() == []
        usage.update_monthly(con, here)
        assert merged(usage.usage_cells(con)) == recount
        assert usage.differences(con) == []
        con.close()


@settings(max_examples=examples(40), deadline=None, derandomize=True)
@given(st.lists(change, max_size=30))
def test_pruned_jobs_stay_counted(steps) -> None:
    """Pruning changes no sum: the jobs are in an archive, their usage stays in its month."""
    with tempfile.TemporaryDirectory() as folder:
        here = places(None, set_up(folder))
        con = access.open_accounting(here)
        for step in steps:
            before = merged(usage.usage_cells(con))
            apply(con, here, step)
            if step[0] == "prune":
                assert merged(usage.usage_cells(con)) == before
        usage.update_monthly(con, here)
        assert usage.differences(con) == []
        con.close()


def test_a_job_that_moves_changes_both_months(here) -> None:
    """A correction that moves a job into another month makes both months new for a publisher."""
    con = access.open_accounting(here)
    apply(con, here, ("record", 0, OCTOBER_LAST, 10, 1))
    usage.update_monthly(con, here)
    seen = usage.position(con)
    apply(con, here, ("record", 0, OCTOBER_LAST + 1, 10, 1))

    assert usage.months_changed_after(con, seen) == {(2026, 10), (2026, 11)}
    usage.update_monthly(con, here)
    assert usage.months_changed_after(con, seen) == {(2026, 10), (2026, 11)}
    assert usage.months_changed_after(con, usage.position(con)) == set()
    con.close()


def test_the_contract_view_reads_the_cells(here) -> None:
    """v1_usage_by_month shows what the cells say, with names and months in words."""
    con = access.open_accounting(here)
    apply(con, here, ("record", 0, OCTOBER_LAST, 10, 2))
    rows = con.execute("SELECT month, vo, core_count, jobs, wall_s, cpu_s FROM v1_usage_by_month").fetchall()

    assert rows == [("2026-10", "x", 2, 1, 10, 11)]
    con.close()


def test_a_long_log_is_gone_through_to_its_end(here) -> None:
    """More records than are taken at once: each is counted, once, and the caller hears of how many."""
    con = access.open_accounting(here)
    apply(con, here, ("record", 0, OCTOBER_LAST, 10, 1))
    columns = COLUMNS.partition(", ")[2] + (
        ", CPUCount, UsedMemory, UsedVirtMem, UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime, UsedScratch,"
        " StageInVolume, StageOutVolume"
    )
    con.execute(
        f"WITH RECURSIVE N (I) AS (SELECT 1 UNION ALL SELECT I + 1 FROM N WHERE I < 1200)"
        f" INSERT INTO AAR (JobID, {columns}) SELECT 'more' || I, {columns} FROM AAR, N"
    )

    assert usage.update_monthly(con, here) == 1201
    assert [(one.jobs, one.wall_s) for one in usage.usage_cells(con)] == [(1201, 12_010)]
    assert usage.differences(con) == []
    assert usage.update_monthly(con, here) == 0
    con.close()


def with_vos(con: Connection, here: Places) -> int:
    """Three jobs of October, the second of another VO, and one of November; where the log stood before."""
    seen = usage.position(con)
    for number, end in enumerate((OCTOBER_LAST - 60, OCTOBER_LAST - 40, OCTOBER_LAST - 20, OCTOBER_LAST + 1)):
        apply(con, here, ("record", 2 * number, end, 10 + number, 1))
    con.execute("UPDATE AAR SET VOID = ? WHERE JobID = 'job2'", (recorder.name_id(con, "WLCGVOs", "y"),))
    usage.update_monthly(con, here)
    return seen


def test_jobs_are_counted_up_to_an_end_by_vo_and_endpoint(here) -> None:
    """Of one month, each VO by its name; the very end counts."""
    con = access.open_accounting(here)
    with_vos(con, here)

    def counted(until: int) -> list[tuple[str | None, str | None, int, int]]:
        return sorted(usage.counted_until(con, (2026, 10), until))

    assert counted(OCTOBER_LAST) == [("x", "https://ce0/", 2, 22), ("y", "https://ce0/", 1, 11)]
    assert counted(OCTOBER_LAST - 40) == [("x", "https://ce0/", 1, 10), ("y", "https://ce0/", 1, 11)]
    assert counted(OCTOBER_LAST - 41) == [("x", "https://ce0/", 1, 10)]
    con.close()


def test_what_changed_is_reported_as_it_is_now(here) -> None:
    """In cells with their first and last end: finished records that changed after a place in the log, once each."""
    con = access.open_accounting(here)
    with_vos(con, here)
    seen = usage.position(con)
    for wall_s in (5, 6):
        con.execute("UPDATE AAR SET UsedWalltime = ? WHERE VOID = 1", (wall_s,))
    (found,) = usage.cells_of_changed(con, (2026, 10), seen, OCTOBER_LAST)

    assert (found.vo, found.jobs, found.wall_s) == ("x", 2, 12)
    assert (found.earliest_end_time, found.latest_end_time) == (OCTOBER_LAST - 60, OCTOBER_LAST - 20)
    assert usage.cells_of_changed(con, (2026, 10), seen + 1000, OCTOBER_LAST) == []
    con.close()


def test_cells_that_all_jobs_left_are_reported_as_they_were_called(here) -> None:
    """With nothing in them, also of their last job: no time of an end either."""
    con = access.open_accounting(here)
    with_vos(con, here)
    before = {one.vo: one for one in usage.usage_cells(con, [(2026, 10)])}
    con.execute("UPDATE AAR SET EndTime = ? WHERE JobID = 'job2'", (OCTOBER_LAST + 9,))
    usage.update_monthly(con, here)

    assert usage.emptied_cells(con, [(2026, 10)]) == [
        before["y"]._replace(jobs=0, wall_s=0, cpu_s=0, earliest_end_time=0, latest_end_time=0)
    ]
    assert usage.emptied_cells(con, [(2026, 11)]) == []
    con.close()


# What finished records were before they changed or were deleted: the proof of a fall, and nothing else.


MONTH = (2024, 6)


@pytest.fixture
def site(tmp_path) -> Site:
    """Five finished jobs of 100 s."""
    made = Site(tmp_path, None, "")
    made.record(*jobs(5))
    return made


def left(site: Site, seq: int) -> list[tuple[str | None, int, int]]:
    with closing(access.read_accounting(site.settings.places)) as con:
        return [(one.vo, one.jobs, one.wall_s) for one in usage.left_since(con, MONTH, seq)]


def highest(site: Site) -> int:
    with closing(access.read_accounting(site.settings.places)) as con:
        return incarnation.highest_seq(con)


def test_finishing_explains_nothing(site) -> None:
    """A job that ends was nothing before."""
    assert left(site, 0) == []


def test_a_correction_explains_what_the_record_was(site) -> None:
    """Not more than it was where the reader stood, however often it changed since."""
    begin = highest(site)
    for wall_s in (900, 20, 30):
        site.record(jobs(5)[0]._replace(wall_s=wall_s))
    assert left(site, begin) == [("atlas", 1, 100)]
    assert left(site, begin + 1) == [("atlas", 1, 900)]
    assert left(site, begin + 3) == []


def test_a_correction_that_changes_no_figure_explains_nothing(site) -> None:
    """More that is known of a job is logged, and no reason for a fall."""
    begin = highest(site)
    site.sql("UPDATE AAR SET UsedMemory = 77, QueueID = 1 WHERE JobID = 'job00000'")
    assert highest(site) > begin
    assert left(site, begin) == []


def test_a_deletion_is_remembered_by_name(site) -> None:
    """The record's number is gone, its name and what it was are not."""
    begin = highest(site)
    site.sql("DELETE FROM AAR WHERE JobID = 'job00003'")
    assert left(site, begin) == [("atlas", 1, 100)]
    with closing(access.read_accounting(site.settings.places)) as con:
        assert usage.deleted_jobs(con, begin, highest(site)) == ["job00003"]


def test_a_resumed_job_leaves_the_key_it_had(site) -> None:
    """The end and the id under which a receiver may know it, once, also when it runs again in between."""
    begin = highest(site)
    con = access.open_accounting(site.settings.places)
    con.execute("INSERT OR IGNORE INTO Status (Name) VALUES ('in-progress')")
    con.execute(
        "UPDATE AAR SET StatusID = (SELECT ID FROM Status WHERE Name = 'in-progress'), EndTime = 0"
        " WHERE JobID = 'job00001'"
    )
    con.close()
    site.record(Job("job00001", JUNE + 800, local_id="new"))
    with closing(access.read_accounting(site.settings.places)) as con:
        assert usage.former_keys(con, begin) == [("job00001", "4job00001", JUNE + 1)]
