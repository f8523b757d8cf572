"""What finished records were before they changed or were deleted: why published figures may fall."""

from __future__ import annotations

from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.jobs.cells import Counted, Month
from arcacct.jobs.reading import LAST_SECOND, unescaped, unescaped_name


class FormerKey(NamedTuple):
    """What a receiver may still have a job under: it was this before it changed."""

    job_id: str
    local_job_id: str | None
    end_time: int


def left_since(con: Connection, month: Month, seq: int) -> list[Counted]:
    """What changed or was deleted in a month after a place in FinishedLog, as it was there: it may have that less."""
    year, number = month
    rows = con.execute(
        # The first change after that place tells what the record was at it. The plus keeps SQLite on the index of Seq:
        # by RecordID it would walk through every change that ever was.
        """
        SELECT WLCGVOs.Name, Endpoints.URL, count(*), sum(Wall) FROM (
          SELECT VOID, EndpointID, EndTime, Wall, min(rowid) FROM FormerVersions WHERE Seq > ? GROUP BY +RecordID)
          LEFT JOIN WLCGVOs ON WLCGVOs.ID = VOID
          LEFT JOIN Endpoints ON Endpoints.ID = EndpointID
         WHERE strftime('%Y-%m', EndTime, 'unixepoch') = ?
         GROUP BY VOID, EndpointID
        """,
        (seq, f"{year:04d}-{number:02d}"),
    )
    return [Counted(unescaped_name(vo), unescaped_name(url), jobs, wall_s) for vo, url, jobs, wall_s in rows]


def former_keys(con: Connection, seq: int) -> list[FormerKey]:
    """What records were before each change after a place in FinishedLog, oldest first."""
    rows = con.execute(
        "SELECT JobID, LocalJobID, EndTime FROM FormerVersions WHERE Seq > ? AND EndTime BETWEEN 1 AND ?"
        " ORDER BY Seq, rowid",
        (seq, LAST_SECOND),
    )
    return [
        FormerKey(unescaped(job_id), unescaped_name(local_job_id), end_time) for job_id, local_job_id, end_time in rows
    ]


def former_places(con: Connection, seq: int) -> set[tuple[str | None, int, int]]:
    """The endpoint, year and month that records had before they changed, after a place in FinishedLog."""
    rows = con.execute(
        "SELECT DISTINCT URL, CAST(strftime('%Y', EndTime, 'unixepoch') AS INTEGER),"
        " CAST(strftime('%m', EndTime, 'unixepoch') AS INTEGER)"
        " FROM FormerVersions LEFT JOIN Endpoints ON Endpoints.ID = EndpointID"
        " WHERE Seq > ? AND EndTime BETWEEN 1 AND ?",
        (seq, LAST_SECOND),
    )
    return {(unescaped_name(url), year, month) for url, year, month in rows}


def deleted_jobs(con: Connection, seq: int, horizon: int) -> list[str]:
    """JobIDs of records that were deleted with ``seq < Seq <= horizon`` (pruned ones leave no trace here)."""
    rows = con.execute(
        "SELECT DISTINCT FormerVersions.JobID FROM FinishedLog"
        " CROSS JOIN FormerVersions ON FormerVersions.RecordID = FinishedLog.RecordID"
        " LEFT JOIN AAR ON AAR.RecordID = FinishedLog.RecordID"
        " WHERE FinishedLog.Seq > ? AND FinishedLog.Seq <= ? AND AAR.RecordID IS NULL",
        (seq, horizon),
    )
    return [unescaped(job_id) for (job_id,) in rows]


def pruned_before(con: Connection) -> int:
    """The end before which finished jobs may be in an archive of `db prune`, UTC seconds; 0: none is."""
    return int(con.execute("SELECT coalesce(max(EndedBefore), 0) FROM Archives").fetchone()[0])
