"""Job features that a job's wrapper has saved, in the job's record."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import NamedTuple

from arcacct.benchmark import Benchmark
from arcacct.db.engine import Connection
from arcacct.jobs.filling import enrich
from arcacct.jobs.precedence import FEATURES
from arcacct.jobs.reading import unescaped
from arcacct.jobs.recorder import escaped

CURSOR = "FEATURES_SEQ"
_LONGEST_EXTRA = 1000
_MOST_EXTRA = 100
_LIMIT = Decimal(10_000_000)


class Taken(NamedTuple):
    """What became of the features of a job."""

    changed: bool
    complaint: str | None


def finished_since(con: Connection) -> list[tuple[int, str]]:
    """Seq and JobID of the records that became final, or changed, since features were last looked for."""
    row = con.execute("SELECT KeyValue FROM DBConfig WHERE KeyName = ?", (CURSOR,)).fetchone()
    rows = con.execute(
        "SELECT Seq, JobID FROM FinishedLog JOIN AAR USING (RecordID) WHERE Seq > ? ORDER BY Seq",
        (int(row[0]) if row else 0,),
    )
    return [(seq, unescaped(job_id)) for seq, job_id in rows]


def remember(con: Connection, seq: int) -> None:
    """Features were looked for up to here."""
    con.execute("INSERT OR REPLACE INTO DBConfig VALUES (?, ?)", (CURSOR, str(seq)))


def take_features(con: Connection, job_id: str, values: dict[str, str], extra: dict[str, str]) -> Taken | None:
    """
    Put the features of a job into its record; ``None`` if there is no such record.

    ``hs06_job`` over ``allocated_cpu`` becomes its benchmark, of which FieldSources says so. Features of another job
    (``job_id`` is not our LocalJobID) are not taken.
    """
    row = con.execute("SELECT RecordID, LocalJobID FROM AAR WHERE JobID = ?", (escaped(job_id),)).fetchone()
    if row is None:
        return None
    record_id, local_job_id = row[0], unescaped(row[1] or "")
    theirs = values.get("job_id")
    if theirs and local_job_id and theirs.partition(".")[0] != local_job_id.partition(".")[0]:
        return Taken(False, f"{job_id}: the features are of job {theirs}, the record is of {local_job_id}; left out")
    told = {"benchmark": benchmark_of(values)}
    told |= {key: value[:_LONGEST_EXTRA] for key, value in sorted(extra.items())[:_MOST_EXTRA]}
    return Taken(enrich(con, record_id, FEATURES, told).changed, None)


def benchmark_of(values: dict[str, str]) -> str | None:
    """HS06 of one core of a job; ``None`` when its features do not tell, or tell nonsense."""
    try:
        value = Decimal(values["hs06_job"]) / Decimal(values["allocated_cpu"])
    except (KeyError, InvalidOperation, ZeroDivisionError):
        return None
    if not Decimal("0.0005") <= value < _LIMIT:
        return None
    return str(Benchmark("HEPSPEC", int((value * 1000).to_integral_value(ROUND_HALF_UP))))
