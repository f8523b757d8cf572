"""
Reading the records of an open database of A-REX, of ARC 6 or ARC 7: page by page, each in one short transaction.

Our own tables are those of ARC 6, so the same queries read the records that are put into an archive.
"""

from __future__ import annotations

from _sqlite3 import Connection, OperationalError
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from arcacct.sources.arex import ArexRows, Event, Row

NUMBERS = (
    "ExitCode, SubmitTime, EndTime, NodeCount, CPUCount, UsedMemory, UsedVirtMem, UsedWalltime, UsedCPUUserTime,"
    " UsedCPUKernelTime, UsedScratch, StageInVolume, StageOutVolume"
)
_RECORD = f"""
    SELECT AAR.RecordID, JobID, LocalJobID, Interface, URL, Queues.Name, Users.Name, WLCGVOs.Name, Status.Name,
           {{fqan}}, {{benchmark}}, {NUMBERS}
      FROM AAR
      LEFT JOIN Endpoints ON Endpoints.ID = EndpointID
      LEFT JOIN Queues ON Queues.ID = QueueID
      LEFT JOIN Users ON Users.ID = UserID
      LEFT JOIN WLCGVOs ON WLCGVOs.ID = VOID
      LEFT JOIN Status ON Status.ID = StatusID
"""
_RECORD_QUERIES = {
    1: _RECORD.format(fqan="NULL", benchmark="NULL"),
    2: _RECORD.format(fqan="ifnull(FQANs.Name, '')", benchmark="ifnull(Benchmarks.Name, '')")
    + " LEFT JOIN FQANs ON FQANs.ID = FQANID LEFT JOIN Benchmarks ON Benchmarks.ID = BenchmarkID",
}
_CHILDREN = {
    "AuthTokenAttributes": "AttrKey, AttrValue",
    "RunTimeEnvironments": "RTEName",
    "DataTransfers": "URL, FileSize, TransferStart, TransferEnd, TransferType",
    "JobExtraInfo": "InfoKey, InfoValue",
    "JobEvents": "EventKey, EventTime",
}


def schema_version(con: Connection) -> int:
    """1: A-REX's tables as ARC 6 has them, and as ours are; 2: those of ARC 7."""
    return 2 if any(row[1] == "FQANID" for row in con.execute("PRAGMA table_info(AAR)")) else 1


def rows_after(con: Connection, version: int, record_id: int, limit: int) -> list[ArexRows]:
    """The next records by RecordID with their children, in one short transaction."""
    return _rows(con, version, "AAR.RecordID > ? ORDER BY AAR.RecordID LIMIT ?", (record_id, limit))


def rows_of(con: Connection, version: int, record_ids: Iterable[int]) -> list[ArexRows]:
    """These records with their children, by RecordID; those that no longer exist are left out."""
    ids = ",".join(str(int(record_id)) for record_id in record_ids)
    return _rows(con, version, f"AAR.RecordID IN ({ids}) ORDER BY AAR.RecordID", ())


def rows_of_jobs(con: Connection, version: int, job_ids: Sequence[str]) -> list[ArexRows]:
    """The records of these jobs (some hundred at most; ids as the tables have them) with their children."""
    marks = ",".join("?" * len(job_ids))
    return _rows(con, version, f"JobID IN ({marks})", tuple(job_ids))


def _rows(con: Connection, version: int, condition: str, values: tuple[int | str, ...]) -> list[ArexRows]:
    try:
        return _read(con, version, condition, values)
    except OperationalError as error:
        if "UTF-8" not in str(error):
            raise
    # Somebody's job name: as the control files are read, bytes that are no text become \xHH.
    con.text_factory = lambda content: content.decode("utf-8", "backslashreplace")
    try:
        return _read(con, version, condition, values)
    finally:
        con.text_factory = str


def _read(con: Connection, version: int, condition: str, values: tuple[int | str, ...]) -> list[ArexRows]:
    con.execute("BEGIN")
    try:
        main = con.execute(f"{_RECORD_QUERIES[version]} WHERE {condition}", values).fetchall()
        ids = ",".join(str(row[0]) for row in main)
        children = [_children(con, table, columns, ids) for table, columns in _CHILDREN.items()]
    finally:
        con.execute("COMMIT")
    tokens, rtes, transfers, extra, events = children
    return [
        ArexRows(
            *_names(row[:9]),
            numbers=_numbers(row[11:]),
            fqan=row[9],
            benchmark=row[10],
            auth_tokens=tokens.get(row[0], ()),
            rtes=rtes.get(row[0], ()),
            transfers=transfers.get(row[0], ()),
            extra=extra.get(row[0], ()),
            events=[(str(key), str(when)) for key, when in events.get(row[0], ())],
        )
        for row in main
    ]


# SQLite keeps anything in any column, but hardly ever has to: the kind of all values is looked at once.


def _numbers(values: tuple[Any, ...]) -> tuple[int, ...]:
    if set(map(type, values)) == {int}:
        return values
    return tuple(value if isinstance(value, int) else 0 for value in values)


def _names(row: tuple[Any, ...]) -> tuple[int, str, str, str, str, str, str, str, str]:
    texts = row[1:] if set(map(type, row[1:])) == {str} else ["" if text is None else str(text) for text in row[1:]]
    job_id, local, interface, url, queue, user, vo, status = texts
    return row[0], job_id, local, interface, url, queue, user, vo, status


def _children(con: Connection, table: str, columns: str, ids: str) -> dict[int, list[Row]]:
    """The rows of a child table by RecordID, in the order in which they were written."""
    rows = con.execute(f"SELECT RecordID, {columns} FROM {table} WHERE RecordID IN ({ids}) ORDER BY RecordID, rowid")
    return {record_id: [row[1:] for row in group] for record_id, group in groupby(rows, itemgetter(0))}


def highest_record(con: Connection) -> int:
    """The highest RecordID; 0 when there is none."""
    return int(con.execute("SELECT ifnull(max(RecordID), 0) FROM AAR").fetchone()[0])


def job_id_of(con: Connection, record_id: int) -> str | None:
    """The JobID of a record; ``None`` when there is none."""
    row = con.execute("SELECT JobID FROM AAR WHERE RecordID = ?", (record_id,)).fetchone()
    return None if row is None else str(row[0])


def event_at(con: Connection, row: int) -> str | None:
    """What a row of JobEvents says, as one text; ``None`` when there is none."""
    found: tuple[int, *Event] | None = con.execute(
        "SELECT RecordID, EventKey, EventTime FROM JobEvents WHERE rowid = ?", (row,)
    ).fetchone()
    return None if found is None else " ".join(map(str, found))


def last_event(con: Connection) -> tuple[int, str]:
    """The last row of JobEvents and what it says; ``(0, "")`` when there is none."""
    row = int(con.execute("SELECT ifnull(max(rowid), 0) FROM JobEvents").fetchone()[0])
    return row, event_at(con, row) or ""


def records_with_events(con: Connection, after: int, limit: int) -> tuple[int, set[int]]:
    """The last of the next rows of JobEvents after one, and the records that these rows belong to."""
    rows = con.execute(
        "SELECT rowid, RecordID FROM JobEvents WHERE rowid > ? ORDER BY rowid LIMIT ?", (after, limit)
    ).fetchall()
    return (rows[-1][0] if rows else after), {record_id for _row, record_id in rows}


def statuses_of(con: Connection, record_ids: Sequence[int]) -> dict[int, str]:
    """The status of each of these records that still exists."""
    ids = ",".join(str(int(record_id)) for record_id in record_ids)
    return dict(
        con.execute(
            "SELECT RecordID, ifnull(Status.Name, '') FROM AAR LEFT JOIN Status ON Status.ID = StatusID"
            f" WHERE RecordID IN ({ids})"
        ).fetchall()
    )
