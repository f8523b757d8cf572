"""The file that lets events wait while the database is being worked on."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import job_files
import pytest
from control_directory import set_up

from arcacct.config.paths import Places, places
from arcacct.database.access import open_accounting, open_publishing
from arcacct.database.durable import maintenance
from arcacct.errors import StoreBusy, StoreError


@pytest.fixture
def here(tmp_path) -> Places:
    found = places(None, set_up(tmp_path / "control"))
    open_accounting(found).close()
    return found


def dead(here: Places, work: str) -> None:
    """A process that was killed at its work."""
    code = (
        "import os, sys; from arcacct.database.durable import maintenance\n"
        "with maintenance(sys.argv[1], sys.argv[2]): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, here.database, work], check=False).returncode == -9
    assert os.path.exists(here.maintenance)


@pytest.mark.campaign
def test_commands_wait_while_it_is_there(here) -> None:
    """The complaint says what is being done; afterwards all continues."""
    with maintenance(here.database, "prune"):
        for refused in (open_accounting, open_publishing):
            with pytest.raises(StoreBusy, match=r"maintenance: database maintenance is running \(arcacct: prune"):
                refused(here)
        with pytest.raises(StoreBusy), maintenance(here.database, "upgrade"):
            pass

    open_accounting(here).close()
    assert not os.path.exists(here.maintenance)


def test_a_killed_process_keeps_no_one_away(here) -> None:
    """What it left behind is cleared away by the next command, or taken over."""
    dead(here, "prune")
    open_accounting(here).close()
    assert not os.path.exists(here.maintenance)

    dead(here, "prune")
    with maintenance(here.database, "prune"):
        pass
    assert not os.path.exists(here.maintenance)


def test_a_restore_that_was_killed_is_reported(here) -> None:
    """With no database there, no command may make an empty one."""
    dead(here, "restore")
    os.rename(here.database, here.database + ".old")

    with pytest.raises(StoreError, match=r"restore .* was interrupted; run `arcacct db restore FILE` again"):
        open_accounting(here)
    assert not os.path.exists(here.database)


@pytest.mark.parametrize("words", ["", "back at noon\n"])
def test_one_that_was_made_by_hand_stays(here, words) -> None:
    """Only who made it knows when the work is done."""
    pathlib.Path(here.maintenance).write_text(words)

    with pytest.raises(StoreBusy, match="created by hand"):
        open_accounting(here)
    assert os.path.exists(here.maintenance)


def test_events_wait_meanwhile_and_nothing_is_lost(host) -> None:
    """The sweep after the work records the event."""
    job_files.lay(host.control, job_files.Files())
    with maintenance(str(host.database), "upgrade"):
        host.call()
        assert len(host.spool) == 1
        assert job_files.rows(str(host.database))["AAR"] == []

    host.sweep()

    assert [row[0] for row in job_files.rows(str(host.database))["AAR"]] == [job_files.JOB]
    assert host.spool == []
