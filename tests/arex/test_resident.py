"""The sweep as a service: it continues whatever happens to the directory, and stops when it is told to."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import closing

import pytest
import spool_0_2 as spool
from control_directory import set_up
from installed import ARCACCT, configured
from job_files import JOB, Files, events, lay, rows

from arcacct.arex.control_files import read_job
from arcacct.arex.sweep import follow
from arcacct.arex.sweep_context import SweepReport
from arcacct.config.paths import Places, places
from arcacct.database.access import initialise


@pytest.fixture
def control(tmp_path: pathlib.Path) -> pathlib.Path:
    """A control directory that A-REX has set up."""
    return pathlib.Path(set_up(tmp_path / "control"))


class Story:
    """What happens between the sweeps of a service, and what it tells."""

    def __init__(self, here: Places, *steps: Callable[[], object]) -> None:
        self.reports: list[SweepReport | None] = []
        self.complaints: list[list[str]] = []
        self._steps = list(steps)
        self._stop = threading.Event()
        initialise(here)
        follow(here, 0.001, self._stop, self._told)

    def _told(self, report: SweepReport | None, complaints: list[str]) -> None:
        self.reports.append(report)
        self.complaints.append(complaints)
        if not self._steps:
            self._stop.set()
            return
        self._steps.pop(0)()


def recorded(here: Places) -> list[tuple[object, ...]]:
    """Job ids and statuses in the database."""
    return [(row[0], row[7]) for row in rows(here.database)["AAR"]]


def test_it_sweeps_again_and_again(control: pathlib.Path) -> None:
    """What comes between two sweeps is found by the next."""
    here = places(None, str(control))

    story = Story(here, lambda: lay(control, Files(), "A"), lambda: lay(control, Files(), "B"))

    assert [report.recorded for report in story.reports if report] == [0, 1, 1]
    assert recorded(here) == [("A", "completed"), ("B", "completed")]
    assert story.complaints == [[], [], []]


def test_a_directory_that_is_replaced_is_followed(control: pathlib.Path) -> None:
    """With another directory in its place, and in it another database, the service continues in that."""
    here = places(None, str(control))
    lay(control, Files(), "Old")

    def replace() -> None:
        control.rename(control.parent / "old")
        set_up(control)
        initialise(here)
        lay(control, Files(), "New")

    Story(here, replace)

    assert recorded(here) == [("New", "completed")]
    assert recorded(places(None, str(control.parent / "old"))) == [("Old", "completed")]


def test_it_waits_for_a_database(control: pathlib.Path) -> None:
    """It creates none: `arcacct db init` does. Events wait in the spool until then."""
    here = places(None, str(control))
    lay(control, Files("SUBMIT"))
    spool.write(here.spool, read_job(str(control), JOB, "SUBMIT"))
    stop, said = threading.Event(), []

    def told(report: SweepReport | None, complaints: list[str]) -> None:
        said.append((report is None, complaints))
        if len(said) == 2:
            assert not os.path.exists(here.database)
            assert sum(name[0] != "." for name in os.listdir(here.spool)) == 1
            initialise(here)
        elif report is not None:
            stop.set()

    follow(here, 0.001, stop, told)

    waiting = f"{here.database}: no database; waiting for it: `arcacct db init` creates it"
    assert said[:2] == [(True, [waiting]), (True, [])]
    assert recorded(here) == [(JOB, "in-progress")]
    assert [name for name in os.listdir(here.spool) if name[0] != "."] == []


@pytest.mark.parametrize("empty", [False, True], ids=["gone", "mount point without file system"])
def test_a_directory_that_is_away_is_waited_for(control: pathlib.Path, empty: bool) -> None:
    """Nothing is made where it was, that is told once, and when it is back the service continues."""
    here = places(None, str(control))
    lay(control, Files(), "A")
    away = control.parent / "away"

    def go() -> None:
        control.rename(away)
        if empty:
            control.mkdir()

    def come() -> None:
        assert not control.exists() or os.listdir(control) == []
        if empty:
            control.rmdir()
        away.rename(control)
        lay(control, Files(), "B")

    story = Story(here, go, lambda: None, come)

    assert [report is None for report in story.reports] == [False, True, True, False]
    assert [len(complaints) for complaints in story.complaints] == [0, 1, 0, 0]
    assert "A-REX's control directory is missing" in story.complaints[1][0]
    assert recorded(here) == [("A", "completed"), ("B", "completed")]


def test_a_complaint_is_reported_once(control: pathlib.Path) -> None:
    """A job that cannot be used is told when it appears, and again only when it was all right in between."""
    here = places(None, str(control))
    lay(control, Files(local=None))

    story = Story(here, lambda: None, lambda: lay(control, Files()), lambda: lay(control, Files(local=None)))

    assert [len(complaints) for complaints in story.complaints] == [1, 0, 0, 1]


def test_a_busy_database_is_tried_again(control: pathlib.Path) -> None:
    """While the database is being worked on the service says so and waits."""
    here = places(None, str(control))
    lay(control, Files())
    sound = control.parent / "sound"

    def away() -> None:
        shutil.move(here.database, sound)
        pathlib.Path(here.database).write_bytes(b"no database at all, but long enough to look at" * 100)

    def back() -> None:
        os.replace(sound, here.database)
        lay(control, Files(), "B")

    story = Story(here, away, back)

    assert "not a database" in story.complaints[1][0]
    assert recorded(here) == [("B", "completed"), (JOB, "completed")]


def test_it_makes_way_for_work_on_the_database(control: pathlib.Path) -> None:
    """While somebody works on the database the service has no file of it open, and says so once."""
    here = places(None, str(control))
    lay(control, Files(), "A")
    maintenance = pathlib.Path(here.maintenance)

    def end() -> None:
        assert [path for path in open_files() if path.startswith(here.database)] == []
        maintenance.unlink()
        lay(control, Files(), "B")

    story = Story(here, maintenance.touch, end)

    assert [report is None for report in story.reports] == [False, True, False]
    assert "by hand for maintenance" in story.complaints[1][0]
    assert recorded(here) == [("A", "completed"), ("B", "completed")]


def open_files() -> list[str]:
    """What this process has open."""
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    # The descriptor that listed them is closed by now.
    return [os.readlink(link) for link in links if os.path.lexists(link)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_it_stops_on_request(tmp_path: pathlib.Path, number: signal.Signals) -> None:
    """SIGTERM and Ctrl-C end it cleanly between two slices: exit 0, nothing on stderr, files left for readers."""
    conf = configured(tmp_path)
    control = pathlib.Path(set_up(tmp_path / "control"))
    lay(control, Files())
    initialise(places(None, str(control)))
    command = [ARCACCT, "--config", str(conf), "sweep", "--follow", "--interval", "30"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        assert service.stdout.readline().endswith("1 recorded: 1 never seen\n")
        service.send_signal(number)
        stdout, stderr = service.communicate()

    assert (service.returncode, stdout, stderr) == (0, "", "")
    assert {path.suffix for path in (control / "accounting" / "arcacct").glob("accounting.db*")} == {
        ".db", ".db-wal", ".db-shm",
    }  # fmt: skip


def test_it_stops_in_the_middle_of_a_sweep(tmp_path: pathlib.Path) -> None:
    """A service with much to do ends after a slice; the next sweep continues from there."""
    conf = configured(tmp_path)
    control = pathlib.Path(set_up(tmp_path / "control"))
    for number in range(400):
        lay(control, Files(), f"Job{number:04}")
    here = places(None, str(control))
    initialise(here)
    command = [ARCACCT, "--config", str(conf), "sweep", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as service:
        while not _some(here):
            time.sleep(0.001)
        service.terminate()
        _stdout, stderr = service.communicate()

    assert (service.returncode, stderr) == (0, "")
    assert recorded(here)
    done = subprocess.run([ARCACCT, "--config", str(conf), "sweep"], capture_output=True, text=True, check=True)
    assert "400 jobs in" in done.stdout
    assert len(recorded(here)) == 400


def _some(here: Places) -> bool:
    try:
        with closing(sqlite3.connect(f"file:{here.database}?mode=ro", uri=True)) as con:
            return bool(con.execute("SELECT count(*) FROM AAR").fetchone()[0])
    except sqlite3.OperationalError:
        return False


def test_the_hook_and_the_service_get_on(control: pathlib.Path) -> None:
    """Events that hooks spool while the service runs are drained by it."""
    here = places(None, str(control))
    lay(control, Files("SUBMIT"))

    def spooled() -> None:
        spool.write(here.spool, read_job(str(control), JOB, "SUBMIT"))
        lay(control, Files())

    story = Story(here, spooled)

    assert [report.spooled for report in story.reports if report] == [0, 1]
    assert {key for _job, key in events(here.database)} == {"ACCEPTED", "SUBMIT", "FINISHED"}


def test_it_needs_no_more_with_time(control: pathlib.Path) -> None:
    """Sweep after sweep leaves no open file behind."""
    here = places(None, str(control))
    lay(control, Files())
    counts = []

    def count() -> None:
        counts.append(len(open_files()))

    Story(here, *[count] * 20)

    assert len(set(counts)) == 1
