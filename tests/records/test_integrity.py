"""Is the database whole?"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import stored_jobs
from control_directory import set_up

from arcacct.config.paths import Places, places
from arcacct.database import durable, integrity
from arcacct.database.access import initialise, open_accounting
from arcacct.records import usage
from arcacct.records.integrity import Checked, check

PAGE_BYTES = 4096


@pytest.fixture
def here(tmp_path) -> Places:
    """A database with three finished jobs and their cells, and an empty ledger."""
    found = places(None, set_up(tmp_path / "control"))
    initialise(found)
    with closing(open_accounting(found)) as con:
        stored_jobs.add(con, found, *map(stored_jobs.job, (1, 2, 3)))
        usage.update_monthly(con, found)
    return found


def problems(here: Places) -> list[str]:
    return [problem for one in check(here) for problem in one.problems]


def number(content: bytearray, at: int) -> int:
    """What SQLite has written there."""
    return int.from_bytes(content[at : at + 4], "big")


@contextmanager
def whole_file(here: Places) -> Iterator[bytearray]:
    """The bytes of the accounting database, with nothing in its WAL, to be damaged."""
    with closing(sqlite3.connect(here.database)) as con:
        con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with open(here.database, "r+b") as file:
        content = bytearray(file.read())
        yield content
        file.seek(0)
        file.write(content)


def test_a_sound_database(here) -> None:
    """Every question of both databases is asked, and nothing is wrong."""
    answers = list(check(here))

    assert [one.problems for one in answers] == [()] * len(answers)
    assert {one.database for one in answers} == {here.database, here.publishing_database}
    assert len(answers) == 11


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
            "record 2 (STORED000002) is completed and not in FinishedLog, so it is not published",
            id="not in the log",
        ),
        pytest.param(
            "INSERT INTO JobEvents VALUES (99, 'FINISHED', '2026-11-20 00:00:00')",
            "JobEvents: 1 row without a record",
            id="orphaned child",
        ),
        pytest.param("DELETE FROM Users WHERE ID = 1", "Users has no such row", id="dangling reference"),
        pytest.param("DROP TRIGGER FinishedLog_AAR_update", "trigger FinishedLog_AAR_update is missing", id="trigger"),
        pytest.param("DROP INDEX AAR_EndTime_IDX", "index AAR_EndTime_IDX is missing", id="index"),
        pytest.param("DROP VIEW v1_jobs", "view v1_jobs is missing", id="view"),
        pytest.param("ALTER TABLE AAR ADD COLUMN More TEXT", "table AAR differs from the schema", id="column"),
        pytest.param("UPDATE sqlite_sequence SET seq = 1 WHERE name = 'FinishedLog'", "next one would be 2", id="Seq"),
        pytest.param("UPDATE Fence SET Horizon = 99", "published up to Seq 99", id="fence"),
        pytest.param("UPDATE MonthlyUsage SET Jobs = Jobs + 1", "sums are not those of its jobs", id="cell"),
        pytest.param("DELETE FROM JobUsageShares", "counted as nothing", id="contribution"),
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
        root = con.execute("SELECT rootpage FROM sqlite_master WHERE name = 'JobExtraInfo_RecordID_IDX'").fetchone()[0]
        con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with open(here.database, "r+b") as file:
        file.seek((root - 1) * 4096 + 3)
        file.write(b"\x00\x00")

    assert problems(here)


def test_a_page_that_no_one_uses_is_found(here) -> None:
    """Each table is whole alone: the page belongs to none."""
    with whole_file(here) as content:
        pages = number(content, 28)
        content[28:32] = (pages + 1).to_bytes(4, "big")
        content.extend(bytes(PAGE_BYTES))

    assert problems(here) == [f"1 of {pages + 1} pages neither used nor free"]


def share_a_page(here: Places) -> int:
    """Let a long value of one table go on where one of another does; the number of the page that both use then."""
    long = "x" * 11_000
    with closing(open_accounting(here)) as con:
        job = stored_jobs.job(4)._replace(job_name=long, run_time_environments=(long,))
        stored_jobs.add(con, here, job)
    with whole_file(here) as content:
        # Both values: pages of nothing else, each behind the number of the next one.
        part = long[: PAGE_BYTES - 4].encode()
        starts = range(0, len(content), PAGE_BYTES)
        following = {at: number(content, at) for at in starts if content[at + 4 : at + PAGE_BYTES] == part}
        one, other = (at for at in following if at // PAGE_BYTES + 1 not in following.values())
        content[one : one + 4] = content[other : other + 4]
    return following[other]


def test_a_page_that_two_tables_use_is_found(here) -> None:
    """The tables cannot tell: each has what it needs."""
    page = share_a_page(here)

    found = problems(here)

    assert f"page {page} is used 2 times, by RunTimeEnvironments,JobExtraInfo" in found
    assert any(one.startswith("1 of ") and one.endswith(" pages neither used nor free") for one in found)


class WithoutDbstat(sqlite3.Connection):
    """SQLite as some build it."""

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        return super().execute("SELECT 1 WHERE 0" if statement == "PRAGMA compile_options" else statement, *values)


def test_a_page_that_two_tables_use_is_found_without_dbstat(here) -> None:
    """By quick_check, in its words."""
    page = share_a_page(here)

    with closing(sqlite3.connect(here.database, factory=WithoutDbstat)) as con:
        assert any(f"2nd reference to page {page}" in one for one in integrity.use_of_pages(con))


def test_a_free_page_that_a_table_uses_is_found(here) -> None:
    """Whoever writes next would write over it."""
    with closing(sqlite3.connect(here.database)) as con:
        con.execute("CREATE TABLE Ours AS SELECT zeroblob(4000) FROM AAR")
        con.execute("DROP TABLE Ours")
        con.commit()
        (used,) = con.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'Users'").fetchone()
    with whole_file(here) as content:
        # The first free page has the numbers of the others: one more.
        first = (number(content, 32) - 1) * PAGE_BYTES
        listed = number(content, first + 4)
        for at, value in ((36, number(content, 36) + 1), (first + 4, listed + 1), (first + 8 + 4 * listed, used)):
            content[at : at + 4] = value.to_bytes(4, "big")

    assert problems(here) == [f"1 of {len(content) // PAGE_BYTES} pages used and free at once"]


def test_a_check_changes_nothing(here) -> None:
    """The database is opened for reading only."""
    with open(here.database, "rb") as file:
        before = file.read()

    problems(here)

    with open(here.database, "rb") as file:
        assert file.read() == before


def stopped_behind(here: Places, questions: int, **options: bool) -> list[Checked]:
    """What a check answers that is stopped once so many questions are answered."""
    answers: list[Checked] = []
    answers.extend(check(here, stopping=lambda: len(answers) == questions, **options))
    return answers


def users_of_job_2(here: Places, *, lost: bool) -> None:
    """Take the user of a job away, or bring it back."""
    statement = "DELETE FROM Users WHERE ID = 1" if lost else "INSERT INTO Users VALUES (1, '/DC=org/CN=User 1')"
    with closing(sqlite3.connect(here.database)) as con:
        con.execute(statement)
        con.commit()


def test_a_check_that_is_stopped_continues(here) -> None:
    """It ends behind the part at hand; the next one asks the rest alone, and tells what is of before."""
    told: list[tuple[int, int]] = []
    first: list[Checked] = []
    first.extend(check(here, progress=lambda *now: told.append(now), stopping=lambda: len(first) == 3))
    stopped, parts = told[-1]
    # What was answered is not asked again.
    users_of_job_2(here, lost=True)
    second = list(check(here, progress=lambda *now: told.append(now)))

    assert 20 < stopped < parts
    assert [one.earlier for one in first] == [0, 0, 0]
    assert sum(one.parts for one in first) == stopped
    assert [one.earlier for one in second] == [one.parts for one in first] + [0] * 8
    assert {one.begun_s for one in second} == {first[0].begun_s}
    assert second[2].problems == ()
    assert told[-1] == (parts, parts)
    assert any("Users has no such row" in problem for problem in problems(here))
    assert not os.path.exists(os.path.join(here.directory, "check.json"))


def test_what_was_wrong_is_asked_again(here) -> None:
    """Somebody may have repaired it since."""
    users_of_job_2(here, lost=True)
    assert stopped_behind(here, 3)[2].problems
    users_of_job_2(here, lost=False)

    references = list(check(here))[2]

    assert references.problems == ()
    assert references.earlier == references.parts - 1


@pytest.mark.parametrize(
    "since",
    [
        pytest.param("CREATE INDEX Ours_IDX ON AAR (UsedWalltime)", id="schema"),
        pytest.param("UPDATE DBConfig SET KeyValue = 'x' WHERE KeyName = 'ARCACCT_INCARNATION'", id="another life"),
        pytest.param("UPDATE sqlite_sequence SET seq = 2 WHERE name = 'FinishedLog'", id="an older copy"),
    ],
)
def test_answers_are_of_the_database_that_was_asked(here, since) -> None:
    """Nothing that was said of another one is good enough."""
    stopped_behind(here, 3)
    with closing(sqlite3.connect(here.database)) as con:
        con.execute(since)
        con.commit()

    assert {one.earlier for one in check(here)} == {0}


def test_answers_are_of_the_file_that_was_asked(here) -> None:
    """Put back from a copy it may have been damaged meanwhile, with the same content."""
    stopped_behind(here, 3)
    shutil.copyfile(here.database, f"{here.database}-copy")
    os.rename(f"{here.database}-copy", here.database)

    assert {one.earlier for one in check(here)} == {0}


def test_answers_are_kept_for_an_hour(here) -> None:
    """What was damaged since they cannot tell."""
    known = os.path.join(here.directory, "check.json")
    for minutes, is_kept in ((58, True), (61, False)):
        stopped_behind(here, 3, anew=True)
        with open(known, encoding="utf-8") as file:
            found = json.load(file)
        with open(known, "w", encoding="utf-8") as file:
            json.dump({**found, "begun_s": found["begun_s"] - minutes * 60}, file)

        assert any(one.earlier for one in check(here)) is is_kept


@pytest.mark.parametrize("content", ["[" * 200_000, '{"a":' * 200_000, "", "[]", "{"], ids=lambda text: text[:5])
def test_a_file_next_to_the_database_that_is_damaged_stops_nothing(here, content) -> None:
    """What a check remembered, and when the database was cared for."""
    stopped_behind(here, 3)
    for name in ("check.json", "care.json"):
        with open(os.path.join(here.directory, name), "w", encoding="utf-8") as file:
            file.write(content)

    assert durable.last_done(here.directory) == {}
    assert {one.earlier for one in check(here)} == {0}


def test_a_check_can_start_again(here) -> None:
    """Whatever was answered before."""
    stopped_behind(here, 3)

    assert {one.earlier for one in check(here, anew=True)} == {0}


def test_others_come_in_between_the_parts_of_a_check(here) -> None:
    """No read transaction is open between two parts: whoever writes finds the WAL free to start again."""
    busy = []

    def look(_done: int, _parts: int) -> None:
        with closing(sqlite3.connect(here.database)) as con:
            con.execute("UPDATE RecordCount SET Records = Records")
            con.commit()
            busy.append(con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])

    assert [one.problems for one in check(here, progress=look)] == [()] * 11
    assert len(busy) > 50
    assert set(busy) == {0}
