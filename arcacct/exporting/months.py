"""The months that there are jobs of, and which of them changed since an export: months of the end, UTC, as 202611."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.database.incarnation import highest_seq
from arcacct.dataset.layout import Partition
from arcacct.records.reader import LAST_SECOND, one_state
from arcacct.sources.gridengine.record import RUNS_WITH_GPUS

JOBS, FORGOTTEN, CLOSED, TELEMETRY, RUNS = "jobs", "forgotten", "closed", "telemetry", "runs"
"""What a month is known by, beside what the log tells: `Now.seen`, and whether it is one of `Withdrawn.closed`."""
_MONTH = "CAST(strftime('%Y%m', EndTime, 'unixepoch') AS INTEGER)"
_OF_MONTHS = f"EndTime BETWEEN 1 AND {LAST_SECOND}"


class Withdrawn(NamedTuple):
    """What was taken out of the database, of which the log says nothing."""

    pruned_before: int
    """UTC seconds: no job that ended then or later was moved into an archive."""
    forgotten: int
    """Records whose names were forgotten."""
    closed: frozenset[int]
    """Months in which names were forgotten."""


class Now(NamedTuple):
    """The database at one moment."""

    seq: int
    """The highest Seq of FinishedLog."""
    events_row: int
    """The last row of JobEvents: what comes to a job that has ended is no change to the log."""
    seen: dict[int, dict[str, int]]
    """By month: how many jobs, how many without names, and what is told of accelerators, added up."""
    withdrawn: Withdrawn


def look(con: Connection) -> Now:
    """What there is now; the counts read indexes alone."""
    with one_state(con):
        seen: dict[int, dict[str, int]] = {month: {JOBS: jobs} for month, jobs in _counts(con)}
        # From the few to their records. What a target has had is forgotten without a word to the log.
        for month, jobs in con.execute(
            f"SELECT {_MONTH}, count(*) FROM ForgottenRecords CROSS JOIN AAR USING (RecordID)"
            f" WHERE {_OF_MONTHS} GROUP BY 1"
        ):
            seen[month][FORGOTTEN] = jobs
        for month, total in con.execute(
            f"SELECT {_MONTH}, count(*) + CAST(total(GPUCount) + total(GPUAllocatedS) + total(GPUOccupiedS)"
            " + total(GPUBusyS) + total(GPUPeakMemory) + total(GPUEnergyJ) + total(EnergyJ) AS INTEGER)"
            " FROM JobTelemetry CROSS JOIN AAR USING (RecordID)"
            f" WHERE coalesce({', '.join(ACCELERATORS)}) IS NOT NULL AND {_OF_MONTHS} GROUP BY 1"
        ):
            seen[month][TELEMETRY] = total
        for month, runs in con.execute(
            f"SELECT {_MONTH}, count(*) FROM (SELECT RecordID FROM SlurmRuns WHERE {OF_ACCELERATORS})"
            f" CROSS JOIN AAR USING (RecordID) WHERE {_OF_MONTHS} GROUP BY 1"
        ):
            seen[month][RUNS] = runs
        for month, jobs in con.execute(
            f"SELECT {_MONTH}, count(*) FROM (SELECT RecordID FROM HTCondorJobs WHERE GPUs > 0)"
            f" CROSS JOIN AAR USING (RecordID) WHERE {_OF_MONTHS} GROUP BY 1"
        ):
            seen[month][RUNS] = seen[month].get(RUNS, 0) + jobs
        for month, runs in con.execute(
            f"SELECT {_MONTH}, count(*) FROM (SELECT RecordID FROM {RUNS_WITH_GPUS})"
            f" CROSS JOIN AAR USING (RecordID) WHERE {_OF_MONTHS} GROUP BY 1"
        ):
            seen[month][RUNS] = seen[month].get(RUNS, 0) + runs
        (events_row,) = con.execute("SELECT ifnull(max(rowid), 0) FROM JobEvents").fetchone()
        return Now(highest_seq(con), events_row, seen, withdrawn(con))


def withdrawn(con: Connection) -> Withdrawn:
    """What was taken out until now."""
    (pruned_before,) = con.execute("SELECT ifnull(max(EndedBefore), 0) FROM Archives").fetchone()
    (forgotten,) = con.execute("SELECT count(*) FROM ForgottenRecords").fetchone()
    closed = frozenset(month for (month,) in con.execute("SELECT Month FROM ForgottenMonths"))
    return Withdrawn(pruned_before, forgotten, closed)


ACCELERATORS = (
    *("GPUCount", "GPUAllocatedS", "GPUModel", "GPUOccupiedS", "GPUBusyS", "GPUPeakMemory", "GPUEnergyJ", "EnergyJ"),
)
"""Columns of JobTelemetry of which one at least is known of what gets a row in the table accelerators."""
OF_ACCELERATORS = "(instr(AllocTRES, 'gres/gpu') OR instr(AllocTRES, 'energy='))"
"""The runs of SlurmRuns that tell something for it."""


def _counts(con: Connection) -> Iterator[tuple[int, int]]:
    """Each month with its jobs; from one to the next on the index of EndTime."""
    after = 1
    while True:
        row = con.execute(
            f"SELECT min(EndTime), CAST(strftime('%Y', min(EndTime), 'unixepoch') AS INTEGER),"
            f" CAST(strftime('%m', min(EndTime), 'unixepoch') AS INTEGER) FROM AAR WHERE EndTime >= ? AND {_OF_MONTHS}",
            (after,),
        ).fetchone()
        if row[0] is None:
            return
        year, month = row[1:]
        begin, after = Partition("", year, month, "").bounds
        (jobs,) = con.execute("SELECT count(*) FROM AAR WHERE EndTime >= ? AND EndTime < ?", (begin, after)).fetchone()
        yield year * 100 + month, jobs


def changed(con: Connection, seq: int, events_row: int) -> set[int]:
    """The months with a record that was logged, left or got an event after these places."""
    logged = f"SELECT DISTINCT {_MONTH} FROM FinishedLog CROSS JOIN AAR USING (RecordID) WHERE Seq > ? AND {_OF_MONTHS}"
    left = f"SELECT DISTINCT {_MONTH} FROM FormerVersions WHERE Seq > ? AND {_OF_MONTHS}"
    told = (
        f"SELECT DISTINCT {_MONTH} FROM JobEvents CROSS JOIN AAR USING (RecordID)"
        f" WHERE JobEvents.rowid > ? AND {_OF_MONTHS}"
    )
    return {
        month
        for query, place in ((logged, seq), (left, seq), (told, events_row))
        for (month,) in con.execute(query, (place,))
    }


def left_since(con: Connection, seq: int, partition: Partition) -> bool:
    """Whether a record was elsewhere in a month, or is gone from it, since a place in the log."""
    query = "SELECT 1 FROM FormerVersions WHERE Seq > ? AND EndTime >= ? AND EndTime < ? LIMIT 1"
    return con.execute(query, (seq, *partition.bounds)).fetchone() is not None


def pruned_among(con: Connection, records: Collection[tuple[int, str]]) -> set[int]:
    """Which of some records, with their JobIDs as stored, were pruned: gone, and the log has no trace of them."""
    gone = {record_id for record_id, _job_id in records}
    numbers = ",".join(map(str, gone))
    gone -= {one for (one,) in con.execute(f"SELECT RecordID FROM AAR WHERE RecordID IN ({numbers})")}
    gone -= {one for (one,) in con.execute(f"SELECT RecordID FROM FinishedLog WHERE RecordID IN ({numbers})")}
    job_ids = [job_id for record_id, job_id in records if record_id in gone]
    query = f"SELECT JobID FROM AAR WHERE JobID IN ({','.join('?' * len(job_ids))})"
    # A job that came back, from its control directory or a backup, has another number.
    back = {job_id for (job_id,) in con.execute(query, job_ids)}
    return {record_id for record_id, job_id in records if record_id in gone and job_id not in back}
