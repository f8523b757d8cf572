"""Jobs that went away without an end become aborted; those that only seem to have gone do not."""

from __future__ import annotations

import os
import pathlib
import shutil
import sqlite3
import time
from collections.abc import Callable

import pytest
import spool_0_2 as spool
from control_directory import set_up
from job_files import JOB, NOON_NS, NOON_S, Files, events, finished_log, lay, remove, statuses

from arcacct.arex.control_files import job_file, read_job
from arcacct.arex.sweep import record_event, sweep
from arcacct.arex.sweep_context import Gap
from arcacct.config.paths import Places, places

AGO_NS = NOON_NS - 10**15
AGO_S = AGO_NS // 10**9


@pytest.fixture
def here(tmp_path: pathlib.Path) -> Places:
    """A host with a control directory that A-REX has set up; its databases are elsewhere."""
    return places(None, set_up(tmp_path / "control"), str(tmp_path / "ours" / "accounting.db"))


def test_a_job_that_vanished_is_aborted(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """Its end is the last event seen; it is in the log of finished records, and told by kind."""
    lay(control, Files("SUBMIT", AGO_NS))
    lay(control, Files("INLRMS", AGO_NS), "Other")
    sweep(here, con)
    remove(control)

    report = sweep(here, con)

    assert report.found == {Gap.VANISHED: 1}
    assert sorted(statuses(con)) == [("Other", "in-progress", 0), (JOB, "aborted", max(AGO_S, NOON_S - 3600))]
    assert len(finished_log(con)) == 1
    assert sweep(here, con).found == {}


def _status_file(control: pathlib.Path) -> None:
    os.unlink(job_file(str(control), JOB, "local"))


def _local(control: pathlib.Path) -> None:
    (control / "processing" / f"job.{JOB}.status").unlink()


def _hashed_local(control: pathlib.Path) -> None:
    path = pathlib.Path(job_file(str(control), JOB, "local", hashed=True))
    path.parent.mkdir(parents=True)
    os.rename(job_file(str(control), JOB, "local"), path)
    _local(control)


def _hashed_status(control: pathlib.Path) -> None:
    (control / "processing" / f"job.{JOB}.status").rename(control / "restarting" / f"{JOB}.status")
    _status_file(control)


def _a_folder_missing(control: pathlib.Path) -> None:
    remove(control)
    (control / "restarting").rmdir()


def _another_file_system(control: pathlib.Path) -> None:
    control.rename(control.parent / "unmounted")
    control.mkdir()


@pytest.mark.parametrize(
    "leave", [_status_file, _local, _hashed_local, _hashed_status, _a_folder_missing, _another_file_system]
)
def test_what_is_left_of_a_job_keeps_it(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, leave: Callable[[pathlib.Path], None]
) -> None:
    """As long as one of its files is there in either layout, or the directory is not whole, no job is aborted."""
    lay(control, Files("INLRMS", AGO_NS))
    sweep(here, con)
    leave(control)

    sweep(here, con)
    sweep(here, con)

    assert statuses(con) == [(JOB, "in-progress", 0)]


def test_a_job_of_a_moment_ago_is_waited_for(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """A-REX removes a status file before it writes the next, and an event may still be on its way into the spool."""
    lay(control, Files("FINISHING", time.time_ns() - 10**9))
    record_event(here, read_job(str(control), JOB, "FINISHING"), con)
    remove(control)

    sweep(here, con)

    assert statuses(con) == [(JOB, "in-progress", 0)]


def test_an_end_in_the_spool_comes_first(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """A job that ended while the database was away, and was cleaned, has its own end."""
    lay(control, Files("INLRMS", AGO_NS))
    sweep(here, con)
    lay(control, Files("FINISHED", AGO_NS + 10**9))
    spool.write(here.spool, read_job(str(control), JOB, "FINISHED"))
    remove(control)

    assert sweep(here, con).found == {}

    assert statuses(con) == [(JOB, "completed", AGO_S + 1)]


@pytest.mark.parametrize("state", ["INLRMS", "FINISHED"])
@pytest.mark.parametrize("how", ["sweep", "hook"])
def test_a_job_that_comes_back_goes_on(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, how: str, state: str
) -> None:
    """Files that were only away for a while take the abortion back: the job is in progress, or has its real end."""
    lay(control, Files("INLRMS", AGO_NS))
    sweep(here, con)
    shutil.move(control / "processing" / f"job.{JOB}.status", control.parent / "status")
    shutil.move(job_file(str(control), JOB, "local"), control.parent / "local")
    assert sweep(here, con).found == {Gap.VANISHED: 1}
    shutil.move(control.parent / "local", job_file(str(control), JOB, "local"))
    shutil.move(control.parent / "status", control / "processing" / f"job.{JOB}.status")
    if state == "FINISHED":
        lay(control, Files("FINISHED", AGO_NS + 10**9))

    if how == "hook":
        record_event(here, read_job(str(control), JOB, state), con)
    found = sweep(here, con).found

    assert statuses(con) == [(JOB, "in-progress", 0) if state == "INLRMS" else (JOB, "completed", AGO_S + 1)]
    kind = Gap.CORRECTION if state == "INLRMS" else Gap.NEW_END
    assert found == ({} if how == "hook" else {kind: 1})


def test_an_older_event_does_not_bring_it_back(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """What waited in the spool from before the last state adds its event only."""
    lay(control, Files("PREPARING", AGO_NS))
    spool.write(here.spool, read_job(str(control), JOB, "PREPARING"))
    waiting = pathlib.Path(here.spool)
    waiting.rename(here.spool + "-away")
    lay(control, Files("INLRMS", AGO_NS + 10**9))
    sweep(here, con)
    remove(control)
    sweep(here, con)
    pathlib.Path(here.spool + "-away").rename(waiting)

    sweep(here, con)

    assert statuses(con)[0][1] == "aborted"
    assert (JOB, "PREPARING") in events(con)


def test_jobs_of_other_sources_are_left_alone(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """A job that was imported is followed up where it came from; it never had files here."""
    lay(control, Files("INLRMS", AGO_NS))
    sweep(here, con)
    con.execute("INSERT INTO RecordSources SELECT RecordID, 'arex', '/elsewhere' FROM AAR")
    remove(control)

    assert sweep(here, con).found == {}


def test_it_can_be_left_out(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """Where a database has jobs of several control directories, one of them cannot tell what has vanished."""
    lay(control, Files("INLRMS", AGO_NS))
    sweep(here, con)
    remove(control)

    assert sweep(here, con, take_vanished=False).found == {}
    assert statuses(con) == [(JOB, "in-progress", 0)]
