"""What the database knows of the jobs of a control directory, for the sweep."""

from __future__ import annotations

import time

from arcacct.db.engine import Connection
from arcacct.db.schema import note
from arcacct.jobs.recorder import escaped


def remembered_status_files(con: Connection, job_ids: list[str]) -> dict[str, tuple[int, int, int]]:
    """``(size, mtime_ns, ctime_ns)`` by JobID of those status files that a sweep has read."""
    plain = {escaped(job_id): job_id for job_id in job_ids}
    return {
        plain[job_id]: (size, mtime_ns, ctime_ns)
        for job_id, size, mtime_ns, ctime_ns in con.execute(
            "SELECT JobID, Size, MTimeNs, CTimeNs FROM AAR JOIN StatusFiles ON StatusFiles.RecordID = AAR.RecordID"
            f" WHERE JobID IN ({', '.join('?' * len(plain))}) AND Size IS NOT NULL",
            tuple(plain),
        )
    }


def recorded_ends(con: Connection, job_ids: list[str]) -> dict[str, tuple[int, int]]:
    """By JobID the end of a job (UTC seconds) and the time of that event (ns); none where something later is known."""
    plain = {escaped(job_id): job_id for job_id in job_ids}
    return {
        plain[job_id]: (end_time, event_ns or end_time * 10**9)
        for job_id, end_time, event_ns in con.execute(
            "SELECT JobID, EndTime, EventNs FROM AAR LEFT JOIN StatusFiles ON StatusFiles.RecordID = AAR.RecordID"
            f" WHERE JobID IN ({', '.join('?' * len(plain))}) AND EndTime <> 0"
            " AND coalesce(State, 'FINISHED') = 'FINISHED'",
            tuple(plain),
        )
    }


def remember_sweep(con: Connection) -> None:
    """A sweep has come to its end; inside the caller's transaction."""
    note(con, "ARCACCT_LAST_SWEEP", int(time.time()))
