"""What killed commands leave is named by `status`, and removed by the next; errors of the system say what to do."""

from __future__ import annotations

import errno
import os
import pathlib
import subprocess
import sys
import time

import arex_corpus as corpus
import pytest
from full_disk import on_small_disk

from arcacct.cli.main import as_ours
from arcacct.database import connection, durable, upkeep
from arcacct.database.access import initialise
from arcacct.errors import StoreError
from arcacct.files.safe_open import TEMPORARY

KILLED = """
import os, signal, sys
from arcacct.config.paths import places
from arcacct.database import durable, upkeep
here = places(None, sys.argv[1])
def end(*_given, **_more):
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "backup":
    os.rename = end
    upkeep.backups(here, here.directory + "/backups")
else:
    os.link = end
    with durable.maintenance(here.database, "shrink"):
        pass
"""


@pytest.fixture
def here(tmp_path: pathlib.Path):
    """The databases of a new control directory."""
    found = corpus.place(corpus.control(tmp_path) if hasattr(corpus, "control") else tmp_path)
    initialise(found)
    return found


def aged(path: str) -> None:
    """As if its process had been killed an hour ago."""
    os.utime(path, (time.time() - 3600, time.time() - 3600))


@pytest.mark.parametrize("what", ["backup", "shrink"])
def test_what_a_killed_command_left_goes_with_the_next(here, what: str) -> None:
    """Named as long as it is there; a command of the same kind removes it, and nothing that is at work."""
    done = subprocess.run([sys.executable, "-c", KILLED, here.controldir, what], check=False)
    assert done.returncode == -9
    backups = pathlib.Path(here.directory, "backups")
    (left,) = [*backups.glob(f"{TEMPORARY}*"), *pathlib.Path(here.directory).glob("maintenance.*")]
    assert durable.leftovers(here.directory) == []
    aged(str(left))
    assert durable.leftovers(here.directory) == [str(left)]

    if what == "backup":
        upkeep.backups(here, str(backups))
    else:
        with durable.maintenance(here.database, "shrink"):
            pass
    assert not left.exists()
    assert durable.leftovers(here.directory) == []


def test_a_folder_of_somebody_else_stays(here) -> None:
    """Only what can be nothing but an unfinished copy is removed."""
    backups = pathlib.Path(here.directory, "backups")
    theirs = backups / f"{TEMPORARY}0123456789abcdef"
    theirs.mkdir(parents=True)
    (theirs / "thesis.tex").write_text("all of it")
    aged(str(theirs))
    upkeep.backups(here, str(backups))
    assert (theirs / "thesis.tex").exists()


def test_a_full_disk_is_named_with_its_place(tmp_path: pathlib.Path) -> None:
    """SQLite says `disk I/O error` or `database or disk is full`; we say which disk, and what to do."""
    code = (
        "import sys\nfrom arcacct.database.connection import connect, translated\n"
        "con = connect(sys.argv[1] + '/a.db', isolation_level=None)\n"
        "try:\n    con.execute('CREATE TABLE t (x)')\n"
        "    con.execute('INSERT INTO t VALUES (zeroblob(9000000))')\n"
        "except Exception as error:\n"
        "    open(sys.argv[1] + '/more', 'wb', 0).write(b'x' * 4096) if False else None\n"
        "    print(translated(error, sys.argv[1] + '/a.db'))\n"
    )
    said = on_small_disk(tmp_path, 400, code, str(tmp_path))
    assert f"{tmp_path}/a.db: " in said
    assert "full" in said
    assert "df " in said or "free space" in said


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), ["not enough memory", "ulimit"]),
        (OSError(errno.ENOLCK, "No locks available"), ["No locks available", "local disk"]),
        (OSError(errno.ENOSPC, "No space left on device", "/data/x"), ["/data/x", "free space"]),
        (
            ImportError("libarrow.so.2100: cannot open shared object file", name="pyarrow.lib"),
            ["the package pyarrow is installed and cannot be loaded", "libarrow.so.2100"],
        ),
    ],
)
def test_an_error_of_the_system_says_what_to_do(error: Exception, words: list[str]) -> None:
    """It is no internal error, and no one is asked to report it."""
    said = str(as_ours(error))
    assert all(word in said for word in words)
    assert "please report" not in said
    assert as_ours(error).exit_code == StoreError.exit_code


def test_a_lock_that_the_file_system_does_not_have_names_the_file(here, monkeypatch) -> None:
    """As on NFS without a lock service."""

    def refused(_fd: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    con = connection.open_database(here.database, connection.ACCOUNTING_SCHEMA)
    monkeypatch.setattr(connection.fcntl, "flock", refused)
    with pytest.raises(
        StoreError, match=r"queue\.lock: cannot be locked: No locks available; put the databases on a local disk"
    ):
        connection.transaction(con, here.database, here.queue_lock).__enter__()
    con.close()
