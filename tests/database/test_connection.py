"""The one way to write: in turn, whole or not at all, with a small WAL."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys
import time
from contextlib import closing

import pytest
from control_directory import set_up

from arcacct.config.paths import Places, places
from arcacct.database.access import open_accounting, writing
from arcacct.database.connection import ACCOUNTING_SCHEMA, Connection, open_database
from arcacct.errors import StoreBusy, StoreError

OPEN = """
import os, sys, time
from arcacct.config.paths import places
from arcacct.database.connection import ACCOUNTING_SCHEMA, open_database
from arcacct.database.connection import transaction
here = places(None, sys.argv[1])
"""
WAIT_IN_TURN = (
    OPEN
    + """
con = open_database(here.database, ACCOUNTING_SCHEMA)
print("ready", flush=True)
with transaction(con, here.database, here.queue_lock):
    con.execute("INSERT INTO Users (Name) VALUES (?)", (sys.argv[2],))
os._exit(0)
"""
)


@pytest.fixture
def here(tmp_path: pathlib.Path) -> Places:
    """The places of a fresh host with a database."""
    found = places(None, set_up(tmp_path))
    open_accounting(found).close()
    return found


def _users(con: Connection) -> list[str]:
    return [name for (name,) in con.execute("SELECT Name FROM Users ORDER BY ID")]


def _insert_and_fail(con: Connection) -> None:
    con.execute("INSERT INTO Users (Name) VALUES ('lost')")
    raise ZeroDivisionError


def _start(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True)


def _wait_for_waiters(lock: str, count: int) -> None:
    """Until so many processes wait for a lock; /proc/locks marks them with an arrow."""
    inode = str(os.stat(lock).st_ino)
    for _ in range(1000):
        lines = pathlib.Path("/proc/locks").read_text().splitlines()
        if sum(" -> FLOCK " in line and f":{inode} " in line for line in lines) == count:
            return
        time.sleep(0.01)
    pytest.fail("nobody waits for the lock")


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="needs Linux's list of locks")
def test_writers_take_their_turn(here: Places, tmp_path: pathlib.Path) -> None:
    """Whoever comes while another writes waits for the lock, then writes; nothing is refused and nothing lost."""
    with closing(open_database(here.database, ACCOUNTING_SCHEMA)) as con:
        waiting = []
        with writing(con, here):
            con.execute("INSERT INTO Users (Name) VALUES ('first')")
            for number in (1, 2, 3):
                waiting.append(_start(WAIT_IN_TURN, str(tmp_path), f"waiter {number}"))
                assert waiting[-1].stdout is not None
                assert waiting[-1].stdout.readline() == "ready\n"
                _wait_for_waiters(here.queue_lock, number)
            assert _users(con) == ["first"]
        for process in waiting:
            process.communicate()

        assert [process.returncode for process in waiting] == [0, 0, 0]
        assert _users(con)[0] == "first"
        assert sorted(_users(con)[1:]) == ["waiter 1", "waiter 2", "waiter 3"]


def test_a_block_that_raises_leaves_nothing(here: Places) -> None:
    """An error inside rolls everything back, passes on unchanged, and frees the turn for the next."""
    with closing(open_database(here.database, ACCOUNTING_SCHEMA)) as con:
        with pytest.raises(ZeroDivisionError), writing(con, here):
            _insert_and_fail(con)
        with writing(con, here):
            con.execute("INSERT INTO Users (Name) VALUES ('kept')")

        assert _users(con) == ["kept"]
        assert not con.in_transaction


def test_what_sqlite_refuses_inside_is_one_of_our_errors(here: Places) -> None:
    """A statement that the database refuses becomes a StoreError with the file, and nothing of the block stays."""
    with closing(open_database(here.database, ACCOUNTING_SCHEMA)) as con:
        con.execute("INSERT INTO Users (Name) VALUES ('x')")
        with pytest.raises(StoreError, match=r"accounting\.db: Users is append-only"), writing(con, here):
            con.execute("UPDATE Users SET Name = 'y'")

        assert _users(con) == ["x"]


def test_a_commit_that_sqlite_refuses_is_one_of_our_errors(here: Places) -> None:
    """Whoever writes hears that nothing was kept, and the next one can write."""
    with closing(open_database(here.database, ACCOUNTING_SCHEMA)) as con:
        con.execute("PRAGMA foreign_keys = ON")
        con.execute("CREATE TABLE Later (Who INTEGER REFERENCES Users (ID) DEFERRABLE INITIALLY DEFERRED)")
        with pytest.raises(StoreError, match=r"accounting\.db: FOREIGN KEY"), writing(con, here):
            con.execute("INSERT INTO Later VALUES (99)")

        assert not con.in_transaction
        assert con.execute("SELECT * FROM Later").fetchall() == []
        with writing(con, here):
            con.execute("INSERT INTO Users (Name) VALUES ('next')")
        assert _users(con) == ["next"]


def test_a_database_that_stays_locked_is_busy(here: Places) -> None:
    """A foreign program that holds the database makes writers wait their time, then raises StoreBusy: try again."""
    with (
        closing(open_database(here.database, ACCOUNTING_SCHEMA)) as other,
        closing(open_database(here.database, ACCOUNTING_SCHEMA, timeout_s=0.05)) as con,
    ):
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreBusy, match=r"accounting\.db: database is locked"), writing(con, here):
            pytest.fail("the block must not run")
        other.execute("ROLLBACK")

        with writing(con, here):
            con.execute("INSERT INTO Users (Name) VALUES ('later')")
        assert _users(con) == ["later"]


def test_a_lock_that_cannot_be_used_is_one_of_our_errors(here: Places) -> None:
    """A queue.lock that is no file is told with its path."""
    os.mkdir(here.queue_lock)
    con = open_database(here.database, ACCOUNTING_SCHEMA)
    refused = pytest.raises(StoreError, match=r"queue\.lock: cannot be used: Is a directory")

    with closing(con), refused, writing(con, here):
        pytest.fail("the block must not run")


@pytest.mark.parametrize("umask", [0o000, 0o777], ids=oct)
def test_the_lock_is_its_owners_under_any_umask(here: Places, umask: int) -> None:
    """queue.lock has mode 0600: the next process of the same user can open it, others cannot hold it."""
    pathlib.Path(here.queue_lock).unlink(missing_ok=True)
    before = os.umask(umask)
    try:
        with closing(open_database(here.database, ACCOUNTING_SCHEMA)) as con, writing(con, here):
            con.execute("INSERT INTO Users (Name) VALUES ('x')")
    finally:
        os.umask(before)

    assert stat.S_IMODE(os.stat(here.queue_lock).st_mode) == 0o600


def test_a_reader_does_not_stop_the_writers(here: Places) -> None:
    """While somebody reads, the WAL cannot be written back; commits go on, and it shrinks once the reader is done."""
    with (
        closing(open_database(here.database, ACCOUNTING_SCHEMA)) as con,
        closing(open_database(here.database, ACCOUNTING_SCHEMA)) as reader,
    ):
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM Users").fetchone() == (0,)
        for number in range(60):
            with writing(con, here):
                con.execute("INSERT INTO Users (Name) VALUES (?)", (f"{number} " + "x" * 4000,))
        grown = os.path.getsize(here.database + "-wal")
        assert reader.execute("SELECT count(*) FROM Users").fetchone() == (0,)
        reader.execute("COMMIT")
        with writing(con, here):
            con.execute("INSERT INTO Users (Name) VALUES ('last')")

        assert grown > 512 * 1024
        assert os.path.getsize(here.database + "-wal") < 16 * 1024
        assert len(_users(con)) == 61
