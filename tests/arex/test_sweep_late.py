"""A measurement that comes after the end of its job was recorded: the sweep finds it while there are files."""

from __future__ import annotations

import os
import pathlib
import sqlite3
import sys
from collections.abc import Iterator

import pytest
from control_directory import set_up
from job_files import DIAG, JOB, LOCAL, NOON_NS, Files, finished_log, lay, rows

from arcacct.arex.control_files import job_file
from arcacct.arex.sweep import sweep
from arcacct.arex.sweep_context import Gap, SweepReport
from arcacct.config.paths import Places, places

OLD_NS = NOON_NS - 10**15
FRONT_END = b"runtimeenvironments=ENV/PROXY;\nexitcode=0\n"
"""What A-REX's front end alone writes into .diag."""
ENDED = Files("FINISHED", OLD_NS, LOCAL.replace(b"starttime=20261120", b"starttime=20261108"))
MEASURED = "wall_s, cpu_s"


@pytest.fixture
def here(tmp_path: pathlib.Path) -> Places:
    (tmp_path / "control").mkdir()
    return places(None, set_up(tmp_path / "control"))


def used(con: sqlite3.Connection) -> list[tuple[object, ...]]:
    return con.execute(f"SELECT {MEASURED} FROM v1_jobs ORDER BY job_id").fetchall()


def without_wall(con: sqlite3.Connection) -> int:
    return int(con.execute("SELECT sum(jobs_without_wall) FROM v1_usage_by_month").fetchone()[0])


def numbers(report: SweepReport) -> tuple[int, int, int]:
    return report.jobs, report.looked_at, report.recorded


@pytest.mark.parametrize("before", [None, b"", FRONT_END], ids=["no .diag", "empty", "the front end's lines"])
@pytest.mark.parametrize("hashed", [False, True], ids=["ARC 6", "ARC 7"])
def test_a_late_diag_is_found(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, before: bytes | None, hashed: bool
) -> None:
    """It is read once, and the record is in the log again, so that it is sent again."""
    lay(control, ENDED._replace(diag=before))
    if hashed:
        _hash(control)
    sweep(here, con)
    log = finished_log(con)
    assert (used(con), without_wall(con)) == ([(None, None)], 1)
    assert numbers(sweep(here, con)) == (1, 0, 0)
    _comes_late(control, hashed=hashed)

    report = sweep(here, con)

    assert (numbers(report), report.found) == ((1, 1, 1), {Gap.CORRECTION: 1})
    assert (used(con), without_wall(con)) == ([(61, 60)], 0)
    assert [seq for seq, _record in finished_log(con)] > [seq for seq, _record in log]
    assert (JOB, "nodenames", "wn1:wn2:wn2") in rows(con)["JobExtraInfo"]
    assert numbers(sweep(here, con)) == (1, 0, 0)


def _comes_late(control: pathlib.Path, *, hashed: bool = False) -> None:
    pathlib.Path(job_file(str(control), JOB, "diag", hashed=hashed)).write_bytes(DIAG)


def _hash(control: pathlib.Path) -> None:
    """Put the job's files where ARC 7 has them."""
    for suffix in ("local", "diag", "statistics"):
        flat, hashed = (pathlib.Path(job_file(str(control), JOB, suffix, hashed=one)) for one in (False, True))
        hashed.parent.mkdir(parents=True, exist_ok=True)
        if flat.exists():
            flat.rename(hashed)
    status = control / "finished" / f"job.{JOB}.status"
    status.rename(status.with_name(f"{JOB}.status"))


def test_the_late_diag_of_a_failed_job_is_found(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """Without .diag it looks as if it had never run; one second is enough to know better, and none is not."""
    failed = ENDED._replace(failed=b"failed", diag=None)
    lay(control, failed)
    sweep(here, con)
    assert used(con) == [(0, 0)]
    for diag, recorded, found in ((DIAG.replace(b"=61.02s", b"=0s"), 0, (0, 0)), (b"WallTime=1s\n", 1, (1, None))):
        pathlib.Path(job_file(str(control), JOB, "diag")).write_bytes(diag)

        assert sweep(here, con).recorded == recorded
        assert used(con) == [found]


def test_cpu_time_that_comes_late_is_found(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """The first lines of a .diag were there, and the rest was not."""
    lay(control, ENDED._replace(diag=b"WallTime=61.02s\n"))
    sweep(here, con)
    assert used(con) == [(61, None)]
    _comes_late(control)

    assert sweep(here, con).recorded == 1
    assert used(con) == [(61, 60)]


@pytest.mark.parametrize("diag", [None, FRONT_END, b"WallTime=0.04s\nUserTime=0.01s\nKernelTime=0s\n"])
def test_what_says_no_more_is_not_read_again(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, diag: bytes | None
) -> None:
    lay(control, ENDED._replace(diag=diag))
    sweep(here, con)
    before = used(con), finished_log(con)

    for _sweep in range(3):
        assert numbers(sweep(here, con)) == (1, 0, 0)
    assert (used(con), finished_log(con)) == before


def test_a_deleted_job_keeps_what_is_recorded(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """A-REX has thrown away some of its files, and its status file tells another end."""
    lay(control, ENDED._replace(diag=None))
    sweep(here, con)
    lay(control, Files("DELETED", OLD_NS + 10**15))
    sweep(here, con)
    before = finished_log(con)

    assert sweep(here, con).recorded == 0
    assert finished_log(con) == before


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """The paths that this process opens from now on."""
    found: list[str] = []
    is_over = False

    def note(event: str, args: tuple[object, ...]) -> None:
        if event == "open" and not is_over and isinstance(args[0], str):
            found.append(args[0])

    sys.addaudithook(note)
    yield found
    is_over = True


def test_with_nothing_late_no_file_of_a_measured_job_is_opened(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, opened: list[str]
) -> None:
    """Of a job without a measurement the .diag alone."""
    for number in range(40):
        lay(control, ENDED, f"measured{number}")
        lay(control, Files("INLRMS", OLD_NS, diag=b""), f"running{number}")
    for number in range(3):
        lay(control, ENDED._replace(diag=(None, b"", FRONT_END)[number]), f"unknown{number}")
    sweep(here, con)
    del opened[:]

    assert numbers(sweep(here, con)) == (83, 0, 0)
    names = sorted(os.path.basename(path) for path in opened if path.startswith(f"{control}/job."))
    assert names == [f"job.unknown{number}.diag" for number in range(3)]
