"""Grid Engine's records in the database: found by what they belong to, written in slices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.gridengine.record import DID_NOT_RUN, STORED, Record, RecordKey
from arcacct.records.imports import pages

_SPELT = {"group": "GroupName", "pe_taskid": "PeTaskID", "qname": "QName", "granted_pe": "GrantedPE", "arid": "ArID"}
_SPELT |= {"ioops": "IoOps", "maxvmem_bytes": "MaxVmem", "maxrss_bytes": "MaxRss", "maxpss_bytes": "MaxPss"}
_UNITS = ("_s", "_kib", "_gib", "_bytes", "_gib_s")


def column(field: str) -> str:
    """The column of GridEngineRecords that a field of a record is in."""
    if field in _SPELT:
        return _SPELT[field]
    unit = max((unit for unit in _UNITS if field.endswith(unit)), key=len, default="")
    return "".join(part.capitalize() for part in field.removesuffix(unit).split("_"))


COLUMNS = ", ".join(map(column, STORED))
_JOB = "JobNumber = ? AND TaskNumber = ? AND Cell = ?"
_IS_MASTER = "coalesce(PeTaskID, '') = ''"
_KEY = (
    "JobNumber = ? AND TaskNumber = ? AND coalesce(PeTaskID, '') = ? AND SubmissionTimeUs = ? AND StartTimeUs = ?"
    " AND EndTimeUs = ? AND Failed = ? AND ExitStatus = ? AND coalesce(QName, '') = ? AND coalesce(Hostname, '') = ?"
    " AND Cell = ?"
)
_INSERT = (
    f"INSERT INTO GridEngineRecords (RecordNo, Cell, RecordID, FileID, Line, {COLUMNS})"
    f" VALUES (?, ?, ?, ?, ?{', ?' * len(STORED)})"
)
_REPLACE = f"UPDATE GridEngineRecords SET ({COLUMNS}) = (?{', ?' * (len(STORED) - 1)}) WHERE RecordNo = ?"

Number = tuple[int, int]
"""Job and task number."""


class Stored(NamedTuple):
    """A record of the database, with its number there and the AAR that it went into."""

    record_no: int
    record_id: int | None
    record: Record


class LinePlace(NamedTuple):
    """Where a record was read."""

    file_id: int
    line: int


def next_record_no(con: Connection) -> int:
    """The number of the next new record; true while the transaction lasts."""
    return int(con.execute("SELECT ifnull(max(RecordNo), 0) + 1 FROM GridEngineRecords").fetchone()[0])


def known_numbers(con: Connection, cell: str, job_numbers: Sequence[int]) -> set[Number]:
    """The job and task numbers among these jobs' that the database has records of."""
    marks = ",".join(map(str, job_numbers))
    rows = con.execute(
        f"SELECT DISTINCT JobNumber, TaskNumber FROM GridEngineRecords WHERE JobNumber IN ({marks}) AND Cell = ?",
        (cell,),
    )
    return {(job, task) for job, task in rows}


def masters(con: Connection, cell: str, number: Number) -> list[Stored]:
    """The records of a job (or array task) itself: one for each attempt."""
    return _stored(con, f"{_JOB} AND {_IS_MASTER}", (*number, cell))


def tasks(con: Connection, cell: str, number: Number) -> list[Stored]:
    """The records of the tasks of a tightly integrated parallel job."""
    return _stored(con, f"{_JOB} AND coalesce(PeTaskID, '') > ''", (*number, cell))


def same(con: Connection, cell: str, key: RecordKey) -> Stored | None:
    """The record that is known by this key."""
    found = _stored(con, _KEY, (*key, cell))
    return found[0] if found else None


def _stored(con: Connection, condition: str, values: tuple[object, ...]) -> list[Stored]:
    rows = con.execute(
        f"SELECT RecordNo, RecordID, {COLUMNS} FROM GridEngineRecords WHERE {condition} ORDER BY RecordNo", values
    ).fetchall()
    usage = "SELECT UsageGroup, Name, Value FROM GridEngineUsage WHERE RecordNo = ? ORDER BY UsageGroup, Name"
    return [Stored(row[0], row[1], Record._make((*row[2:], tuple(con.execute(usage, row[:1]))))) for row in rows]


def add(con: Connection, cell: str, rows: Sequence[tuple[Stored, LinePlace]]) -> None:
    """Write new records under the numbers that they have been given."""
    con.executemany(_INSERT, [(new.record_no, cell, new.record_id, *place, *new.record[:-1]) for new, place in rows])
    _add_usage(con, [new for new, _place in rows])


def replace(con: Connection, stored: Stored) -> None:
    """Make a record what a richer encoding of it says."""
    con.execute(_REPLACE, (*stored.record[:-1], stored.record_no))
    con.execute("DELETE FROM GridEngineUsage WHERE RecordNo = ?", (stored.record_no,))
    _add_usage(con, [stored])


def _add_usage(con: Connection, rows: Iterable[Stored]) -> None:
    usage = [(one.record_no, *custom) for one in rows for custom in one.record.custom]
    if usage:
        con.executemany("INSERT OR REPLACE INTO GridEngineUsage VALUES (?, ?, ?, ?)", usage)


def link(con: Connection, links: Iterable[tuple[int | None, int]]) -> None:
    """Say which AAR each record went into: ``(RecordID, RecordNo)``."""
    con.executemany(
        "UPDATE GridEngineRecords SET RecordID = ?1 WHERE RecordNo = ?2 AND RecordID IS NOT ?1", list(links)
    )


def numbers_without_record(con: Connection, cell: str) -> list[Number]:
    """Jobs that ran and went into no AAR yet: they wait for A-REX's."""
    never = ",".join(map(str, sorted(DID_NOT_RUN)))
    rows = con.execute(
        "SELECT DISTINCT JobNumber, TaskNumber FROM GridEngineRecords"
        " WHERE RecordID IS NULL AND StartTimeUs > 0 AND PeTaskID IS NULL"
        f" AND Failed NOT IN ({never}) AND Cell = ?",
        (cell,),
    )
    return [(job, task) for job, task in rows]


def all_numbers(con: Connection, cell: str) -> Iterator[list[Number]]:
    """Every job and task number of a cell, in pages."""
    query = (
        "SELECT DISTINCT JobNumber, TaskNumber FROM GridEngineRecords"
        " WHERE (JobNumber, TaskNumber) > (?, ?) AND Cell = ? ORDER BY JobNumber, TaskNumber LIMIT 1000"
    )
    return pages(con, query, (-1, -1), cell)
