"""Is the database whole?"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest
import stored_jobs
from control_directory import set_up

from arcacct.conf.places import Places, places
from arcacct.db.opening import initialise, open_accounting
from arcacct.errors import StoreError
from arcacct.jobs import cells
from arcacct.jobs.check import Checked, check


@pytest.fixture
def here(tmp_path) -> Places:
    """A database with three finished jobs and their cells, and an empty ledger."""
    found = places(None, set_up(tmp_path / "control"))
    initialise(found)
    with closing(open_accounting(found)) as con:
        stored_jobs.add(con, found, *map(stored_jobs.job, (1, 2, 3)))
        cells.advance(con, found)
    return found


def problems(here: Places) -> list[str]:
    return [problem for one in check(here) for problem in one.problems]


def test_a_sound_database(here) -> None:
    """Every question of both databases is asked, and nothing is wrong."""
    answers = list(check(here))

    assert [one.problems for one in answers] == [()] * len(answers)
    assert {one.database for one in answers} == {here.database, here.publishing_database}
    assert len(answers) == 9


def test_an_empty_database_is_sound(tmp_path) -> None:
    """As `db init` makes it; without a ledger only the accounting database is looked at."""
    found = places(None, set_up(tmp_path / "control"))
    open_accounting(found).close()

    assert problems(found) == []


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        pytest.param(
            "DELETE FROM FinishedLog WHERE RecordID = 2",
            "record 2 (STORED000002) is completed and not in FinishedLog: nobody publishes it",
            id="not in the log",
        ),
        pytest.param(
            "INSERT INTO JobEvents VALUES (99, 'FINISHED', '2026-11-20 00:00:00')",
            "JobEvents: 1 rows belong to no record",
            id="orphaned child",
        ),
        pytest.param("DELETE FROM Users WHERE ID = 1", "Users has no such row", id="dangling reference"),
        pytest.param("DROP TRIGGER FinishedLog_AAR_update", "trigger FinishedLog_AAR_update is missing", id="trigger"),
        pytest.param("DROP INDEX AAR_EndTime_IDX", "index AAR_EndTime_IDX is missing", id="index"),
        pytest.param("DROP VIEW v1_jobs", "view v1_jobs is missing", id="view"),
        pytest.param("ALTER TABLE AAR ADD COLUMN More TEXT", "table AAR is not as it should be", id="column"),
        pytest.param("UPDATE sqlite_sequence SET seq = 1 WHERE name = 'FinishedLog'", "next one would be 2", id="Seq"),
        pytest.param("UPDATE Fence SET Horizon = 99", "published up to Seq 99", id="fence"),
        pytest.param("UPDATE Cells SET Jobs = Jobs + 1", "sums are not those of its jobs", id="cell"),
        pytest.param("DELETE FROM Contributions", "counted as nothing", id="contribution"),
        pytest.param("UPDATE RecordCount SET Records = 99", "records: counted as 99, are ", id="count"),
    ],
)
def test_what_is_wrong_is_named(here, statement, expected) -> None:
    """Each kind of damage that a statement of somebody else could do."""
    with closing(sqlite3.connect(here.database)) as con:
        con.execute(statement)
        con.commit()

    assert any(expected in problem for problem in problems(here)), problems(here)


def test_what_somebody_added_is_no_problem(here) -> None:
    """A site's own table, index or view."""
    with closing(sqlite3.connect(here.database)) as con:
        con.execute("CREATE TABLE Ours (Name TEXT)")
        con.execute("CREATE INDEX Ours_IDX ON AAR (UsedWalltime)")
        con.commit()

    assert problems(here) == []


def test_damaged_pages_are_found(here) -> None:
    """By integrity_check, or already when the page is read."""
    with closing(sqlite3.connect(here.database)) as con:
        root = con.execute("SELECT rootpage FROM sqlite_master WHERE name = 'JobExtraInfo_InfoKey_IDX'").fetchone()[0]
        con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with open(here.database, "r+b") as file:
        file.seek((root - 1) * 4096 + 3)
        file.write(b"\x00\x00")

    try:
        found = problems(here)
    except StoreError as error:
        found = [str(error)]
    assert found


def test_a_check_changes_nothing(here) -> None:
    """The database is opened for reading only."""
    with open(here.database, "rb") as file:
        before = file.read()

    problems(here)

    with open(here.database, "rb") as file:
        assert file.read() == before


def test_a_check_that_is_stopped_goes_on(here) -> None:
    """It ends behind the part at hand; the next one asks the rest alone, and tells all that both have found."""
    with closing(sqlite3.connect(here.database)) as con:
        con.execute("DELETE FROM Users WHERE ID = 1")
        con.commit()
    told: list[tuple[int, int]] = []
    first: list[Checked] = []

    asked = check(here, progress=lambda *now: told.append(now), stopping=lambda: any(one.problems for one in first))
    first.extend(asked)
    stopped, parts = told[-1]
    # What was answered is not asked again.
    with closing(sqlite3.connect(here.database)) as con:
        con.execute("INSERT INTO Users SELECT 1, '/DC=org/CN=User 1'")
        con.commit()
    second = list(check(here, progress=lambda *now: told.append(now)))

    assert 20 < stopped < parts
    assert [bool(one.problems) for one in first] == [False, True]
    assert second[:2] == first
    assert len(second) == 9
    assert told[-1] == (parts, parts)
    assert problems(here) == []
    assert not os.path.exists(os.path.join(here.directory, "check.json"))


def test_others_come_in_between_the_parts_of_a_check(here) -> None:
    """No read transaction is open between two parts: whoever writes finds the WAL free to begin anew."""
    busy = []

    def look(_done: int, _parts: int) -> None:
        with closing(sqlite3.connect(here.database)) as con:
            con.execute("UPDATE RecordCount SET Records = Records")
            con.commit()
            busy.append(con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])

    assert [one.problems for one in check(here, progress=look)] == [()] * 9
    assert len(busy) > 50
    assert set(busy) == {0}
