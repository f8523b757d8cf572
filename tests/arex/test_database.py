"""Reading a database that A-REX writes, by the rules that keep A-REX's rows."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import arex_writer
import pytest
from control_directory import set_up

from arcacct.arex.own_database import opened
from arcacct.config.paths import Places, places
from arcacct.database.access import open_accounting
from arcacct.database.durable import refuse_foreign
from arcacct.errors import InputError, SchemaError, StoreBusy, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pathlib


@pytest.fixture
def arex(tmp_path) -> pathlib.Path:
    """A database of A-REX with two finished jobs, closed, in rollback-journal mode."""
    path = tmp_path / "accounting.db"
    with closing(arex_writer.create(path)) as con:
        writer = arex_writer.Writer(con)
        for number in (1, 2):
            writer.accept(number)
            writer.finish(number, arex_writer.FIRST_S + 60 + number)
    return path


@pytest.fixture
def work(tmp_path) -> str:
    """Our directory."""
    (tmp_path / "ours").mkdir()
    return str(tmp_path / "ours")


@pytest.fixture
def here(tmp_path) -> Places:
    """Where our databases are."""
    return places(None, set_up(tmp_path / "control"))


def jobs(path: pathlib.Path, work: str, **more: float) -> int:
    with opened(str(path), work, **more) as database:
        return int(database.con.execute("SELECT count(*) FROM AAR").fetchone()[0])


def make_wal(path: pathlib.Path) -> None:
    with closing(sqlite3.connect(path)) as con:
        con.execute("PRAGMA journal_mode = WAL")


def test_a_rollback_database_is_read_from_a_copy(arex, work) -> None:
    """SQLite never opens the live file, and the copy is gone afterwards."""
    with opened(str(arex), work) as database:
        named = database.con.execute("PRAGMA database_list").fetchone()[2]

    assert named.startswith(work)
    assert os.listdir(work) == []


def test_a_lock_of_arex_does_not_stop_the_copy(arex, work) -> None:
    """A-REX between BEGIN and its first write holds a lock that any reader of SQLite's would have to wait for."""
    with closing(sqlite3.connect(arex, isolation_level=None)) as con:
        con.execute("BEGIN EXCLUSIVE")

        assert jobs(arex, work) == 2


def test_a_database_that_is_being_written_is_not_copied(arex, work) -> None:
    """With a journal beside it the file may be half written: we wait, and give up in time."""
    with closing(sqlite3.connect(arex, isolation_level=None)) as con:
        con.execute("BEGIN IMMEDIATE")
        con.execute("UPDATE AAR SET ExitCode = 7")

        with pytest.raises(StoreBusy, match="A-REX writes it constantly"):
            jobs(arex, work, patience_s=0.1)
        con.execute("ROLLBACK")

    assert jobs(arex, work) == 2
    assert os.listdir(work) == []


def test_a_wal_database_in_use_is_read_as_it_lives(arex, work) -> None:
    """What A-REX has committed is seen, also what is in the WAL alone, and nothing is written back."""
    make_wal(arex)
    with closing(sqlite3.connect(arex, isolation_level=None)) as con:
        con.execute("DELETE FROM AAR WHERE RecordID = 2")
        before = {name: (arex.parent / name).read_bytes() for name in ("accounting.db", "accounting.db-wal")}

        out = in_another_process(arex, work)

        after = {name: (arex.parent / name).read_bytes() for name in before}
    assert out == "1 live"
    assert after == before
    assert len(before["accounting.db-wal"]) > 0


def test_a_wal_database_that_nobody_uses_is_copied(arex, work) -> None:
    """SQLite would leave -wal and -shm behind, which may belong to the wrong user: there are none afterwards."""
    make_wal(arex)

    assert in_another_process(arex, work) == "2 copy"
    assert not os.path.exists(f"{arex}-shm")
    assert not os.path.exists(f"{arex}-wal")


def in_another_process(path: pathlib.Path, work: str) -> str:
    """The number of jobs, and how the database was read."""
    code = (
        "import sys; from arcacct.arex.own_database import opened\n"
        "with opened(sys.argv[1], sys.argv[2]) as one:\n"
        " print(one.con.execute('SELECT count(*) FROM AAR').fetchone()[0], 'copy' if one.stamp else 'live')"
    )
    command = [sys.executable, "-c", code, str(path), work]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_one_process_never_reads_a_file_both_ways(arex, work) -> None:
    """When another program changes the journal mode meanwhile, the next process is right again."""
    assert jobs(arex, work) == 2
    make_wal(arex)

    with closing(sqlite3.connect(arex)) as con:
        con.execute("SELECT count(*) FROM AAR").fetchone()
        with pytest.raises(StoreBusy, match="run the command again"):
            jobs(arex, work)
        assert in_another_process(arex, work) == "2 live"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "no such file; give the path", id="missing"),
        pytest.param(b"", "not an SQLite database", id="empty"),
        pytest.param(b"not a database" * 20, "not an SQLite database", id="text"),
    ],
)
def test_what_is_no_database_is_refused(tmp_path, work, content, message) -> None:
    """The complaint names the file."""
    path = tmp_path / "accounting.db"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(InputError, match=f"accounting.db: {message}"):
        jobs(path, work)


def test_a_database_of_something_else_is_refused(tmp_path, work) -> None:
    """It has no table AAR."""
    with closing(sqlite3.connect(tmp_path / "other.db")) as con:
        con.execute("CREATE TABLE Things (Name TEXT)")

    with pytest.raises(InputError, match="no table AAR"):
        jobs(tmp_path / "other.db", work)


def test_a_damaged_database_is_refused(arex, work) -> None:
    """A page of rubbish: not one job is taken from it."""
    content = bytearray(arex.read_bytes())
    content[8192:12288] = b"\xff" * 4096
    arex.write_bytes(content)

    with pytest.raises(StoreError, match="damaged"):
        jobs(arex, work)


def test_our_own_database_is_no_source(here, work) -> None:
    """It has our mark."""
    open_accounting(here).close()
    shutil.copy(here.database, f"{here.controldir}/copy.db")

    with pytest.raises(InputError, match="a database of arcacct"):
        jobs(here.controldir + "/copy.db", work)


def test_a_rollback_database_is_refused_as_ours_before_sqlite_opens_it(arex) -> None:
    """Ours are in WAL mode; what is not may be A-REX's, which must not even be locked."""
    with closing(sqlite3.connect(arex, isolation_level=None)) as con:
        con.execute("BEGIN EXCLUSIVE")

        with pytest.raises(SchemaError, match="not a database of arcacct"):
            refuse_foreign(str(arex))


def test_ours_and_none_are_not_refused(here) -> None:
    """A missing one will be made."""
    refuse_foreign(here.database)
    open_accounting(here).close()
    refuse_foreign(here.database)
