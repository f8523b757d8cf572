"""Jobs that A-REX ran in Grid Engine: one record of both, and none twice."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import import_host
import pytest
from control_directory import set_up
from gridengine_files import BEGIN, NOW, World, ran

from arcacct.config.paths import places
from arcacct.database.access import open_accounting, writing
from arcacct.records.recorder import name_id

MEASURED = {
    "ru_utime": 80,
    "ru_stime": 10,
    "cpu": 90,
    "ru_maxrss": 2048,
    "maxvmem": 8 * 1024**2,
    "hostname": "wn7",
    "slots": 4,
    "project": "phys",
}


@pytest.fixture
def world(tmp_path) -> Iterator[World]:
    here = places(None, set_up(tmp_path / "control"))
    with closing(open_accounting(here)) as con:
        yield World(here, con)


def arc_job(world: World, job_id: str, **columns: object) -> int:
    """A job of A-REX that Grid Engine ran as number 7."""
    times = {"SubmitTime": BEGIN, "EndTime": BEGIN + 130}
    return import_host.arc_job(world, job_id, {"LocalJobID": "7"} | times | columns)


def set_column(con: sqlite3.Connection, column: str, value: object) -> None:
    con.execute(f"UPDATE AAR SET {column} = ? WHERE JobID = 'arc1'", (value,))


@pytest.fixture
def accounting(tmp_path) -> pathlib.Path:
    """The file of a job that ran 100 s on 4 slots."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(7, 5, 20, 120, **MEASURED))
    return path


FILLED = "SELECT wall_s, cpu_user_s, cpu_kernel_s, memory_kib, virtual_memory_kib, core_count, node_names, project"


def test_what_arex_could_not_measure(world, accounting) -> None:
    """A job of A-REX's gets what Grid Engine measured, and there is no second job."""
    arc_job(world, "arc1")
    report = world.take(accounting)

    assert (report.taken.added, report.taken.enriched) == (0, 1)
    assert world.con.execute(f"{FILLED}, lrms_start_time, vo, source FROM v1_jobs").fetchall() == [
        (100, 80, 10, 2048, 8192, 4, "wn7", "phys", BEGIN + 20, "atlas", "arc")
    ]
    assert {row[0] for row in world.con.execute("SELECT Field FROM FieldSources WHERE Source = 'gridengine'")} >= {
        "wall_s",
        "memory_kib",
        "core_count",
        "node_names",
        "lrms_end_time",
    }
    assert world.value("SELECT job_id FROM v1_gridengine_records") == "arc1"


def test_what_arex_measured_stays(world, accounting) -> None:
    """A-REX's own values win, small differences are none, and what really differs is said."""
    arc_job(world, "arc1", UsedWalltime=101, UsedMemory=999_999)
    world.take(accounting)

    assert world.con.execute("SELECT wall_s, memory_kib FROM v1_jobs").fetchall() == [(101, 999_999)]
    assert world.said == ["arc1: memory_kib is 999999 by A-REX, 2048 by Grid Engine; the first is kept"]


def test_what_grid_engine_measured_wins_if_it_is_reported_so(world, accounting) -> None:
    """With the preference turned round, Grid Engine's values replace those of A-REX."""
    world.prefer_arc = False
    arc_job(world, "arc1", UsedWalltime=500, UsedMemory=999_999, ExitCode=3)
    world.take(accounting)

    assert world.con.execute("SELECT wall_s, memory_kib, exit_code FROM v1_jobs").fetchall() == [(100, 2048, 0)]


def test_a_killed_job_gets_its_exit_code(world, tmp_path) -> None:
    """Where A-REX has no exit code (it writes 1), Grid Engine's is taken."""
    arc_job(world, "arc1", StatusID="failed", ExitCode=1)
    path = tmp_path / "accounting"
    path.write_bytes(ran(7, 5, 20, 120, failed=100, exit_status=137))
    world.take(path)

    assert world.value("SELECT exit_code FROM v1_jobs") == 137


def test_importing_again_changes_nothing(world, accounting, tmp_path) -> None:
    """A record that was completed once is not logged again."""
    arc_job(world, "arc1")
    world.take(accounting)
    seq = world.seq()
    (tmp_path / "other").write_bytes(b"#\n\n" + ran(8, 5, 20, 120) + accounting.read_bytes())
    world.take(accounting, tmp_path / "other")

    assert world.logged_after(seq) == 1
    assert world.value("SELECT count(*) FROM v1_jobs") == 2


def test_a_requeued_job_of_arex(world, accounting) -> None:
    """When another run of the job comes, what was filled is filled again."""
    arc_job(world, "arc1")
    world.take(accounting)
    with accounting.open("ab") as file:
        file.write(ran(7, 121, 122, 128, **MEASURED))
    world.take(accounting)

    assert world.con.execute("SELECT wall_s, cpu_user_s FROM v1_jobs").fetchall() == [(106, 160)]


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"LocalJobID": "70"}, id="another number"),
        pytest.param({"SubmitTime": BEGIN + 5000, "EndTime": BEGIN + 9000}, id="submitted later"),
        pytest.param({"SubmitTime": BEGIN - 9000, "EndTime": BEGIN - 5000}, id="ended before"),
    ],
)
def test_jobs_that_only_look_alike(world, accounting, columns) -> None:
    """Another number, or times that do not fit: the jobs are two."""
    arc_job(world, "arc1", **columns)
    report = world.take(accounting)

    assert (report.taken.added, report.taken.enriched) == (1, 0)


@pytest.mark.parametrize(("started", "ended"), [(20, 120), (20, 7_320), (90_000, 180_000)])
def test_a_job_that_ran_on_without_arex(world, tmp_path, started, ended) -> None:
    """Whenever a job ended that A-REX had cancelled or given up, it is A-REX's, and there is no second one."""
    arc_job(world, "arc1", StatusID="failed")
    path = tmp_path / "accounting"
    path.write_bytes(ran(7, 5, started, ended, **MEASURED))
    report = world.take(path)

    assert (report.taken.added, report.taken.enriched) == (0, 1)
    assert world.con.execute("SELECT job_id, wall_s FROM v1_jobs").fetchall() == [("arc1", ended - started)]


def test_numbers_that_begin_again(world, tmp_path) -> None:
    """A job that got the number after A-REX's had ended is another, also if A-REX's ran on until then."""
    arc_job(world, "arc1")
    arc_job(world, "arc2", SubmitTime=BEGIN + 90_000, EndTime=BEGIN + 91_000)
    path = tmp_path / "accounting"
    path.write_bytes(
        ran(7, 5, 20, 7_320, **MEASURED) + ran(7, 40_000, 40_010, 40_050) + ran(7, 90_100, 90_200, 95_200, **MEASURED)
    )
    world.take(path)

    assert world.con.execute("SELECT job_id, wall_s FROM v1_jobs ORDER BY submit_time").fetchall() == [
        ("arc1", 7_300),
        (f"gesge:default:7:{BEGIN + 40_000}", 40),
        ("arc2", 5_000),
    ]


def test_the_second_job_of_an_earlier_version(world, accounting) -> None:
    """A job that was made next to A-REX's goes when the jobs are made again."""
    world.take(accounting)
    arc_job(world, "arc1", EndTime=BEGIN + 10)
    work = world.work()
    work.again()

    assert world.con.execute("SELECT job_id, wall_s FROM v1_jobs").fetchall() == [("arc1", 100)]


def test_a_number_that_came_twice(world, accounting) -> None:
    """Of two jobs of A-REX with the same number and fitting times the later one is completed, and no third is made."""
    arc_job(world, "arc1", SubmitTime=BEGIN - 5000)
    arc_job(world, "arc2")
    world.take(accounting)

    assert world.con.execute("SELECT job_id, wall_s FROM v1_jobs ORDER BY 1").fetchall() == [("arc1", 0), ("arc2", 100)]


def test_a_job_of_another_batch_system(world, accounting) -> None:
    """The same number in a batch system that is not Grid Engine is another job."""
    record_id = arc_job(world, "arc1")
    world.con.execute("INSERT INTO JobExtraInfo VALUES (?, 'lrms', 'slurm')", (record_id,))

    assert world.take(accounting).taken.added == 1


def test_a_job_that_arex_has_not_finished(world, accounting) -> None:
    """While A-REX has an unfinished job that it may be, a job waits; then it is completed or made, never both."""
    arc_job(world, "arc1", LocalJobID="", StatusID="in-progress", EndTime=0)
    first = world.take(accounting)
    waiting = world.value("SELECT count(*) FROM AAR")
    with writing(world.con, world.here) as con:
        set_column(con, "LocalJobID", "7")
        set_column(con, "EndTime", BEGIN + 130)
        set_column(con, "StatusID", name_id(con, "Status", "completed"))
    second = world.take(accounting)

    assert (first.taken.waiting, first.taken.added, waiting) == (1, 0, 1)
    assert (second.taken.waiting, second.taken.added, second.taken.enriched) == (0, 0, 1)
    assert world.con.execute("SELECT job_id, wall_s FROM v1_jobs").fetchall() == [("arc1", 100)]


def test_waiting_has_an_end(world, accounting) -> None:
    """A job of Grid Engine is made when A-REX has not claimed it in time."""
    arc_job(world, "arc1", LocalJobID="", StatusID="in-progress", EndTime=0)
    world.wait_s = NOW - BEGIN
    world.take(accounting)
    before = world.value("SELECT count(*) FROM AAR")
    world.now += 86_400
    report = world.take(accounting)

    assert (before, report.taken.added, report.taken.waiting) == (1, 1, 0)


def test_a_job_that_arex_finished_after_all(world, accounting) -> None:
    """A job that was made because A-REX was late becomes A-REX's when it is finished: it is never counted twice."""
    world.take(accounting)
    arc_job(world, "arc1")
    report = world.take(accounting)

    assert report.taken.enriched == 1
    assert world.con.execute("SELECT job_id, memory_kib FROM v1_jobs").fetchall() == [("arc1", 2048)]
    assert world.value("SELECT count(*) FROM RecordSources") == 0


def test_a_job_that_arex_recorded_again(world, accounting) -> None:
    """When our recorder writes a resumed job again, the next import completes it again."""
    arc_job(world, "arc1")
    world.take(accounting)
    with writing(world.con, world.here) as con:
        set_column(con, "UsedMemory", 0)
        set_column(con, "EndTime", BEGIN + 200)
    world.take(accounting)

    assert world.con.execute("SELECT memory_kib, end_time FROM v1_jobs").fetchall() == [(2048, BEGIN + 200)]
