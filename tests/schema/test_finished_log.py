"""FinishedLog: each rule of the log, with plain SQL as any tool may run it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from job_files import finished_log

from arcacct.database.schema import ACCOUNTING, in_memory

FINAL = ("completed", "failed", "aborted")
CHILDREN = {
    "AuthTokenAttributes": ("AttrKey, AttrValue", "'mainfqan', '/atlas'", "AttrValue"),
    "RunTimeEnvironments": ("RTEName", "'ENV/PROXY'", "RTEName"),
    "DataTransfers": ("URL, FileSize, TransferStart, TransferEnd, TransferType", "'a', 1, 2, 3, 10", "FileSize"),
    "JobExtraInfo": ("InfoKey, InfoValue", "'jobname', 'x'", "InfoValue"),
}
"""Columns, a row, and a column to change of each child table."""


@pytest.fixture
def con() -> Iterator[sqlite3.Connection]:
    """A database with the names of one user."""
    with closing(in_memory(ACCOUNTING)) as found:
        found.executescript(
            "INSERT INTO Users (Name) VALUES ('/CN=Ada'); INSERT INTO WLCGVOs (Name) VALUES ('atlas');"
            "INSERT INTO Queues (Name) VALUES ('main'); INSERT INTO Endpoints (Interface, URL) VALUES ('i', 'u');"
        )
        yield found


def add(con: sqlite3.Connection, job_id: str, status: str = "in-progress", verb: str = "INSERT") -> int:
    """A record of a job; its number."""
    cursor = con.execute(
        f"{verb} INTO AAR (JobID, LocalJobID, EndpointID, QueueID, UserID, VOID, StatusID, ExitCode, SubmitTime,"
        " EndTime, NodeCount, CPUCount, UsedMemory, UsedVirtMem, UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime,"
        " UsedScratch, StageInVolume, StageOutVolume)"
        " SELECT ?, '', 1, 1, 1, 1, ID, 1, 10, 20, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0 FROM Status WHERE Name = ?",
        (job_id, status),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def set_status(con: sqlite3.Connection, record_id: int, status: str) -> None:
    """Give a record a status by its name."""
    con.execute(
        "UPDATE AAR SET StatusID = (SELECT ID FROM Status WHERE Name = ?) WHERE RecordID = ?", (status, record_id)
    )


def add_child(con: sqlite3.Connection, table: str, record_id: int) -> None:
    """A row of a child table."""
    columns, values, _changed = CHILDREN[table]
    con.execute(f"INSERT INTO {table} (RecordID, {columns}) VALUES ({record_id}, {values})")


@pytest.mark.parametrize("status", FINAL)
def test_a_record_that_becomes_final_is_logged(con: sqlite3.Connection, status: str) -> None:
    """Completed, failed and aborted are final, whether the record is made so or becomes so."""
    first = add(con, "A")
    assert finished_log(con) == []

    set_status(con, first, status)
    second = add(con, "B", status)

    assert finished_log(con) == [(1, first), (2, second)]


def test_statuses_are_known_by_name_whatever_their_number(con: sqlite3.Connection) -> None:
    """A-REX numbers statuses by first use: a database where `failed` is number 99 logs as well."""
    con.execute("DELETE FROM Status")
    con.execute("INSERT INTO Status VALUES (1, 'failed'), (2, 'in-progress'), (3, 'resubmitted'), (99, 'completed')")
    first = add(con, "A")
    set_status(con, first, "resubmitted")
    assert finished_log(con) == []

    set_status(con, first, "completed")

    assert finished_log(con) == [(1, first)]


COLUMNS = (
    "JobID", "LocalJobID", "EndpointID", "QueueID", "UserID", "VOID", "ExitCode", "SubmitTime", "EndTime", "NodeCount",
    "CPUCount", "UsedMemory", "UsedVirtMem", "UsedWalltime", "UsedCPUUserTime", "UsedCPUKernelTime", "UsedScratch",
    "StageInVolume", "StageOutVolume",
)  # fmt: skip
CHANGES = (
    *(f"UPDATE AAR SET {column} = 777" for column in COLUMNS),
    # The clause of an outer statement holds inside triggers: none makes the log miss the change.
    *(f"UPDATE OR {clause} AAR SET EndTime = 99" for clause in ("IGNORE", "REPLACE", "FAIL", "ABORT", "ROLLBACK")),
    # Publishers learn that a record is gone: its entry stays, without a record.
    "DELETE FROM AAR",
)


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_moves_the_record_to_the_end(con: sqlite3.Connection, change: str) -> None:
    """A correction of a final record is news, whatever it is; the record has one entry, the last."""
    first, second = add(con, "A", "completed"), add(con, "B", "completed")

    con.execute(f"{change} WHERE RecordID = ?", (first,))

    assert finished_log(con) == [(2, second), (3, first)]


def test_every_column_is_watched(con: sqlite3.Connection) -> None:
    """The test above leaves no column out: the trigger compares each but the identity."""
    columns = {name for (name,) in con.execute("SELECT name FROM pragma_table_info('AAR')")} - {"RecordID"}
    (trigger,) = con.execute("SELECT sql FROM sqlite_master WHERE name = 'FinishedLog_AAR_update'").fetchone()

    assert {name for name in columns if f"old.{name}" in trigger and f"new.{name}" in trigger} == columns


def test_an_update_that_changes_nothing_is_no_news(con: sqlite3.Connection) -> None:
    """SQLite fires triggers on updates that write what was there: they do not count, nor does NULL for NULL."""
    first = add(con, "A", "completed")
    con.execute("UPDATE AAR SET LocalJobID = NULL")
    before = finished_log(con)

    con.execute("UPDATE AAR SET EndTime = EndTime, StatusID = StatusID, LocalJobID = NULL")

    assert finished_log(con) == before == [(2, first)]


def test_a_change_from_nothing_is_a_change(con: sqlite3.Connection) -> None:
    """NULL and a value differ: `<>` would not see it."""
    first = add(con, "A", "completed")
    con.execute("UPDATE AAR SET LocalJobID = NULL")

    con.execute("UPDATE AAR SET LocalJobID = '4711'")

    assert finished_log(con) == [(3, first)]


def test_changes_of_a_job_in_progress_are_not_logged(con: sqlite3.Connection) -> None:
    """Nothing about a job that runs is for publishers."""
    first = add(con, "A")
    con.execute("UPDATE AAR SET UsedWalltime = 5")
    for table in CHILDREN:
        add_child(con, table, first)

    assert finished_log(con) == []


def test_a_job_that_continues_after_its_end_stays_in_the_log(con: sqlite3.Connection) -> None:
    """A record that leaves a final status is news too: what was published may have to be taken back."""
    first, second = add(con, "A", "failed"), add(con, "B", "completed")

    set_status(con, first, "in-progress")

    assert finished_log(con) == [(2, second), (3, first)]


@pytest.mark.parametrize("verb", ["INSERT OR REPLACE", "REPLACE"])
def test_a_record_that_is_replaced_is_logged(con: sqlite3.Connection, verb: str) -> None:
    """Other tools may replace whole rows: the new row is logged."""
    add(con, "A", "completed")
    second = add(con, "B", "completed")

    again = add(con, "A", "failed", verb)

    assert finished_log(con)[-1][1] == again
    assert second in [record_id for _seq, record_id in finished_log(con)]


@pytest.mark.parametrize("table", CHILDREN)
def test_a_child_that_changes_changes_its_record(con: sqlite3.Connection, table: str) -> None:
    """A row added to, changed in or taken from a final record's children is news of the record."""
    first, second = add(con, "A", "completed"), add(con, "B", "completed")

    add_child(con, table, first)
    assert finished_log(con) == [(2, second), (3, first)]
    con.execute(f"UPDATE {table} SET {CHILDREN[table][2]} = 12345 WHERE RecordID = ?", (first,))
    assert finished_log(con) == [(2, second), (4, first)]
    con.execute(f"UPDATE {table} SET {CHILDREN[table][2]} = {CHILDREN[table][2]} WHERE RecordID = ?", (first,))
    assert finished_log(con) == [(2, second), (4, first)]
    con.execute(f"DELETE FROM {table} WHERE RecordID = ?", (first,))
    assert finished_log(con) == [(2, second), (5, first)]


def test_an_event_is_no_change_of_the_record(con: sqlite3.Connection) -> None:
    """JobEvents are not published: they do not log the record again."""
    first = add(con, "A", "completed")

    con.execute("INSERT INTO JobEvents VALUES (?, 'DELETED', '2026-11-20 12:00:00')", (first,))

    assert finished_log(con) == [(1, first)]


def test_a_deleted_job_in_progress_leaves_nothing(con: sqlite3.Connection) -> None:
    """What was never final never mattered to a publisher."""
    con.execute("DELETE FROM AAR WHERE RecordID = ?", (add(con, "A"),))

    assert finished_log(con) == []


def test_a_number_is_never_given_twice(con: sqlite3.Connection) -> None:
    """Pruning the end of the log, and VACUUM, do not make later entries look old."""
    add(con, "A", "completed")
    con.execute("DELETE FROM FinishedLog")
    con.execute("VACUUM")

    add(con, "B", "completed")

    assert [seq for seq, _record in finished_log(con)] == [2]


def test_a_rollback_takes_the_log_back_too(con: sqlite3.Connection) -> None:
    """Record and entry are one transaction."""
    con.execute("BEGIN IMMEDIATE")
    add(con, "A", "completed")
    con.execute("ROLLBACK")

    assert finished_log(con) == []


@pytest.mark.parametrize(
    "change",
    ["UPDATE Users SET Name = 'x'", "UPDATE WLCGVOs SET Name = 'x'", "UPDATE Queues SET Name = 'x'",
     "UPDATE Status SET Name = 'x' WHERE ID = 1", "UPDATE Endpoints SET URL = 'x'",
     "UPDATE Endpoints SET Interface = 'x'",
     "UPDATE Users SET ID = 9"],
)  # fmt: skip
def test_a_name_is_never_renamed(con: sqlite3.Connection, change: str) -> None:
    """Renaming would change many records unseen: it is refused, and the message says what to do instead."""
    with pytest.raises(sqlite3.IntegrityError, match="is append-only: insert the new"):
        con.execute(change)


def test_the_number_of_a_record_is_fixed(con: sqlite3.Connection) -> None:
    """RecordID is what children, log and ledger know a record by."""
    add(con, "A")

    with pytest.raises(sqlite3.IntegrityError, match="RecordID is the identity"):
        con.execute("UPDATE AAR SET RecordID = 99")
