"""A `sqlite3` of root's takes -wal and -shm away: who may only read the databases reads them all the same."""

from __future__ import annotations

import grp
import os
import pathlib
import sqlite3
import stat
from contextlib import closing

import pytest
from in_process import said
from installed import arcacct, configured
from job_files import JOB, Files, lay
from other_users import REACHABLE, acting_as

from arcacct.database.connection import ACCOUNTING_SCHEMA, AtRest, open_for_reading
from arcacct.errors import StoreBusy, StoreError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be a member of a group")
GROUP = grp.getgrnam("users").gr_gid
QUERY = ["query", "--format", "csv", "SELECT job_id FROM v1_jobs"]
JOBS = "SELECT count(*) FROM AAR"


@pytest.fixture
def shared(public_dir, capfd) -> pathlib.Path:
    """The accounting database of a site with one job, which the group may read; what arcacct leaves of it."""
    conf = configured(public_dir, f"database={public_dir}/ours/accounting.db\nread_group=users")
    lay(public_dir / "control", Files())
    database = public_dir / "ours" / "accounting.db"
    assert arcacct("--config", conf, "db", "init").returncode == 0
    # Another user may not import what only root may read, so all is imported now.
    for command in (QUERY, ["--database", database, *QUERY], ["status"], ["metrics"], ["stats"], ["job", "info", JOB]):
        said(capfd, "--config", conf, *command)
    assert arcacct("--config", conf, "sweep").returncode == 0
    return database


def _looked_at_by_root(database: pathlib.Path) -> None:
    """What `sqlite3 FILE` does: whoever closes a database last clears up."""
    for path in (database, database.with_name("publishing.db")):
        with closing(sqlite3.connect(path)) as con:
            con.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        assert not path.with_name(f"{path.name}-shm").exists()


def _as_member(capfd: pytest.CaptureFixture[str], shared: pathlib.Path, *command: object) -> tuple[int, str, str]:
    with acting_as("nobody", groups=(GROUP,)):
        done = said(capfd, "--config", shared.parents[1] / "arc.conf", *command)
    return done.returncode, done.stdout, done.stderr


@REACHABLE
def test_members_of_the_group_ask_while_nobody_has_it_open(shared, capfd) -> None:
    """Every kind of question is answered, and not a byte is written; and once a sweep has run, as before."""
    before = _as_member(capfd, shared, *QUERY)
    assert before[0] == 0
    _looked_at_by_root(shared)
    files = {path.name for path in shared.parent.iterdir()}

    assert _as_member(capfd, shared, *QUERY) == before
    assert _as_member(capfd, shared, "--database", shared, *QUERY)[1] == before[1]
    code, out, _err = _as_member(capfd, shared, "status")
    # The host has no callouts.
    assert (code, ", 1 job\n" in out or ", 1 job " in out) == (2, True)
    assert _as_member(capfd, shared, "job", "info", JOB)[0] == 0
    assert "arcacct_database_ok 1.0" in _as_member(capfd, shared, "metrics")[1]
    assert {path.name for path in shared.parent.iterdir()} == files

    lay(shared.parents[1] / "control", Files(), "Another")
    assert arcacct("--config", shared.parents[1] / "arc.conf", "sweep").returncode == 0
    assert [stat.S_IMODE(os.stat(f"{shared}{tail}").st_mode) for tail in ("-wal", "-shm")] == [0o640, 0o640]
    assert os.stat(f"{shared}-shm").st_gid == GROUP
    code, out, _err = _as_member(capfd, shared, *QUERY)
    assert (code, len(out.splitlines())) == (0, 3)


def test_work_that_starts_meanwhile_spoils_no_answer(shared) -> None:
    """As long as nothing is written back the file has one moment; after that the connection is good for nothing."""
    _looked_at_by_root(shared)
    with acting_as("nobody", groups=(GROUP,)):
        con = open_for_reading(str(shared), ACCOUNTING_SCHEMA)
    assert isinstance(con, AtRest)
    with closing(sqlite3.connect(shared)) as writer:
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("DELETE FROM AAR")
        writer.commit()
        assert con.execute(JOBS).fetchone() == (1,)
        rows = con.execute("SELECT JobID FROM AAR")
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with pytest.raises(StoreBusy, match="it changed during reading; run the command again"):
            con.execute(JOBS)
        # What is being read is not looked at, but whoever used it hears of it.
        rows.fetchall()
        with pytest.raises(StoreBusy):
            con.close()


def test_what_the_file_does_not_have_is_not_left_out(shared) -> None:
    """A write-ahead log without -shm, as after a crash: its rows are in no file that could be read alone."""
    with closing(sqlite3.connect(shared)) as con:
        con.execute("PRAGMA wal_autocheckpoint = 0")
        con.execute("UPDATE AAR SET ExitCode = 3")
        con.commit()
        kept = [(name, pathlib.Path(name).read_bytes()) for name in (str(shared), f"{shared}-wal")]
    for name, content in kept:
        pathlib.Path(name).write_bytes(content)
        os.chown(name, 0, GROUP)
        os.chmod(name, 0o640)
    assert kept[1][1]
    pathlib.Path(f"{shared}-shm").unlink(missing_ok=True)

    with acting_as("nobody", groups=(GROUP,)), pytest.raises(StoreError) as raised:
        open_for_reading(str(shared), ACCOUNTING_SCHEMA)

    assert f"needs readable {shared}-wal and {shared}-shm files" in str(raised.value)
    assert "`arcacct sweep` as the user of A-REX creates them" in str(raised.value)


def test_the_owner_who_is_refused_is_not_advised_to_run_as_the_owner(shared, capfd) -> None:
    """He is the owner; something else refuses him: here the mode, elsewhere SELinux, an access list, the mount."""
    os.chown(shared, 65534, -1)
    shared.chmod(0)
    with acting_as("nobody", groups=(GROUP,)):
        done = said(capfd, "--config", shared.parents[1] / "arc.conf", "--database", shared, "stats")

    assert done.returncode == 74
    assert f"{shared}: this user may not read it; check its mode, SELinux (ausearch -m avc)" in done.stderr
    assert "run as" not in done.stderr


def test_a_user_who_may_not_read_gets_an_error(shared, capfd) -> None:
    """No one else is told to make a database, or to write one: he lacks the group."""
    for prepare in (lambda: None, lambda: _looked_at_by_root(shared)):
        prepare()
        for command in (["stats"], ["--database", shared, "stats"], ["job", "info", "x"]):
            with acting_as("nobody"):
                done = said(capfd, "--config", shared.parents[1] / "arc.conf", *command)
            assert (done.returncode, "read_group=" in done.stderr) == (74, True), done.stderr
            assert "this user may not read it" in done.stderr
            assert "db init`, run by the owner" in done.stderr
