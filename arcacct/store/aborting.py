"""Jobs that are in progress in the database, and making those aborted that never came to an end."""

from __future__ import annotations

from _sqlite3 import Connection
from typing import NamedTuple

from arcacct.store.query import unescaped


class InProgress(NamedTuple):
    """A job without an end."""

    record_id: int
    event_ns: int
    """When its last state began."""


def in_progress(con: Connection) -> dict[str, InProgress]:
    """Every job in progress that came from a control directory, by job id."""
    rows = con.execute(
        """
        SELECT JobID, AAR.RecordID, EventNs
          FROM AAR JOIN StatusFiles ON StatusFiles.RecordID = AAR.RecordID
         WHERE StatusID = (SELECT ID FROM Status WHERE Name = 'in-progress')
           AND NOT EXISTS (SELECT 1 FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID)
        """
    )
    return {unescaped(job_id): InProgress(record_id, event_ns) for job_id, record_id, event_ns in rows}


def abort(con: Connection, job: InProgress) -> bool:
    """
    Give a job the status aborted and the time of its last event as its end; False if it has moved on meanwhile.

    Inside the caller's transaction. Its status file is forgotten: should it appear again, the job is looked at.
    """
    cursor = con.execute(
        """
        UPDATE AAR
           SET StatusID = (SELECT ID FROM Status WHERE Name = 'aborted'),
               EndTime = coalesce((SELECT max(CAST(strftime('%s', EventTime) AS INTEGER)) FROM JobEvents
                                    WHERE JobEvents.RecordID = AAR.RecordID), SubmitTime)
         WHERE RecordID = :record_id
           AND StatusID = (SELECT ID FROM Status WHERE Name = 'in-progress')
           AND (SELECT EventNs FROM StatusFiles WHERE StatusFiles.RecordID = AAR.RecordID) = :event_ns
        """,
        job._asdict(),
    )
    if cursor.rowcount:
        con.execute(
            "UPDATE StatusFiles SET (Size, MTimeNs, CTimeNs) = (NULL, NULL, NULL) WHERE RecordID = ?", (job.record_id,)
        )
    return cursor.rowcount > 0
