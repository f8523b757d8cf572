"""`arcacct db init`."""

from __future__ import annotations

import grp
import os
import pathlib
import sqlite3
import stat
from contextlib import closing

import pytest
from installed import arcacct, configured

from arcacct.database.connection import ACCOUNTING_SCHEMA, PUBLISHING_SCHEMA, open_database


def test_both_databases_are_created(tmp_path: pathlib.Path) -> None:
    """`db init` makes the databases of accounting and of publishing, private, and says where."""
    conf = configured(tmp_path)
    ours = tmp_path / "control" / "accounting" / "arcacct"

    done = arcacct("--config", conf, "db", "init")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{ours}/accounting.db: created\n{ours}/publishing.db: created\n"
    open_database(str(ours / "accounting.db"), ACCOUNTING_SCHEMA).close()
    open_database(str(ours / "publishing.db"), PUBLISHING_SCHEMA).close()
    assert {stat.S_IMODE(path.stat().st_mode) for path in ours.iterdir()} == {0o600}


def test_a_second_time_changes_nothing(tmp_path: pathlib.Path) -> None:
    """Databases that are there and up to date stay as they are, with what is in them."""
    conf = configured(tmp_path)
    arcacct("--config", conf, "db", "init")
    database = tmp_path / "control" / "accounting" / "arcacct" / "accounting.db"
    with closing(sqlite3.connect(database)) as con:
        con.execute("INSERT INTO Users (Name) VALUES ('x')")
        con.commit()

    done = arcacct("--config", conf, "db", "init")

    assert done.returncode == 0
    assert done.stdout.count(": exists and is up to date\n") == 2
    with closing(sqlite3.connect(database)) as con:
        assert con.execute("SELECT Name FROM Users").fetchall() == [("x",)]


def test_the_command_line_says_where(tmp_path: pathlib.Path) -> None:
    """With --database no configuration is needed; publishing.db is beside it."""
    done = arcacct("--database", tmp_path / "a" / "b.db", "db", "init")

    assert done.returncode == 0
    assert done.stdout == f"{tmp_path}/a/b.db: created\n{tmp_path}/a/publishing.db: created\n"


def test_a_newer_database_is_74(tmp_path: pathlib.Path) -> None:
    """A database of a newer program is refused with both versions, one line."""
    arcacct("--database", tmp_path / "a.db", "db", "init")
    with closing(sqlite3.connect(tmp_path / "a.db")) as con:
        con.execute("UPDATE DBConfig SET KeyValue = '999' WHERE KeyName = 'ARCACCT_SCHEMA'")
        con.commit()

    done = arcacct("--database", tmp_path / "a.db", "db", "init")

    assert (done.returncode, done.stdout) == (74, "")
    assert done.stderr == (
        f"arcacct: {tmp_path}/a.db: schema version 999; this program supports {ACCOUNTING_SCHEMA}: "
        "install the version of arcacct that created it, or a newer one\n"
    )


def test_a_place_that_cannot_be_is_74(tmp_path: pathlib.Path) -> None:
    """A path below a file is told, not traced."""
    (tmp_path / "file").write_text("")

    done = arcacct("--database", tmp_path / "file" / "a.db", "db", "init")

    assert (done.returncode, done.stdout) == (74, "")
    assert f"{tmp_path}/file/a.db: cannot be created: Not a directory" in done.stderr


def test_an_unknown_read_group_is_78(tmp_path: pathlib.Path) -> None:
    """The option and the group are named, and no database is made."""
    conf = configured(tmp_path, "read_group=nosuchgroup")

    done = arcacct("--config", conf, "db", "init")

    assert (done.returncode, done.stdout) == (78, "")
    assert "read_group=nosuchgroup: this host has no such group" in done.stderr
    assert not (tmp_path / "control" / "accounting" / "arcacct" / "accounting.db").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to a group")
def test_read_group_is_applied_to_what_is_there(tmp_path: pathlib.Path) -> None:
    """A read_group= that is set later holds after the next `db init`."""
    conf = configured(tmp_path)
    arcacct("--config", conf, "db", "init")
    configured(tmp_path, "read_group=users")

    assert arcacct("--config", conf, "db", "init").returncode == 0

    ours = tmp_path / "control" / "accounting" / "arcacct"
    assert stat.S_IMODE(ours.stat().st_mode) == 0o750
    for path in (ours, *ours.glob("*.db*")):
        assert grp.getgrgid(path.stat().st_gid).gr_name == "users"
        assert stat.S_IMODE(path.stat().st_mode) in (0o640, 0o750)


def test_the_group_has_help() -> None:
    """`arcacct db -h` lists what can be done."""
    found = arcacct("db", "-h")

    assert found.returncode == 0
    assert "init" in found.stdout
