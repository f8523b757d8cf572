"""
What telemetry gives to records: records of Slurm's jobs where no A-REX makes them, and what it adds to the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from arcacct.db.engine import Connection
from arcacct.db.schema import note, noted
from arcacct.jobs.precedence import SLURM
from arcacct.jobs.rejected import is_of_record
from arcacct.jobs.statuses import SQL_FINAL
from arcacct.sonar.job_telemetry import telemetry_of, tell
from arcacct.sonar.local_jobs import record_run
from arcacct.sonar.site import Site
from arcacct.sonar.slurm_jobs import SlurmJob
from arcacct.sonar.slurm_rows import runs

ENRICHED = "SONAR_ENRICHED_SEQ"
_PAGE = 200
_SLACK_S = 3600
"""How far the clocks and the latencies of a batch system and of telemetry may be apart."""


class Settled(NamedTuple):
    """What became of the records of some jobs."""

    recorded: int = 0
    enriched: int = 0
    unrecorded: int = 0
    more: bool = False


def has_arex_records(con: Connection) -> bool:
    """Whether A-REX's jobs are recorded here: then Slurm's jobs are A-REX's, and must not be counted twice."""
    # What the hook and the sweep remember of each job, or a database of A-REX that was imported: no scan of all jobs.
    found = con.execute("SELECT EXISTS (SELECT 1 FROM StatusFiles) OR EXISTS (SELECT 1 FROM ImportedFiles)").fetchone()
    return bool(found[0])


def settle(con: Connection, site: Site, cluster_id: int, cluster: str, job_id: int) -> Settled:
    """Make, correct or enrich every record of one job of a batch system."""
    found = runs(con, cluster_id, job_id)
    recorded = unrecorded = 0
    # The finished records of other sources that have this number.
    theirs = [
        record_id
        for (record_id,) in con.execute(
            "SELECT AAR.RecordID FROM AAR JOIN Status ON Status.ID = StatusID LEFT JOIN RecordSources USING (RecordID)"
            f" WHERE LocalJobID = ? AND Status.Name IN {SQL_FINAL} AND coalesce(Source, '') <> ?",
            (str(job_id), SLURM),
        ).fetchall()
    ]
    enriched = sum(_enrich(con, site, record_id, cluster_id, job_id, found) for record_id in theirs)
    for number, main in enumerate(found):
        if not main.finished or main.number("start_time") is None:
            continue
        if any(_overlaps(con, record_id, main) for record_id in theirs):
            continue
        if site.make_records:
            sampled = len(found) == 1
            recorded += record_run(con, site, cluster_id, cluster, main, found[:number], sampled=sampled)
        else:
            unrecorded += 1
    return Settled(recorded, enriched, unrecorded)


def settle_logged(con: Connection, site: Site, complain: Callable[[str, Exception], None]) -> Settled:
    """
    Enrich a page of the records that became final or changed later than their telemetry.

    A record that cannot be enriched is told to ``complain``, and stays as it is.
    """
    rows = con.execute(
        "SELECT Seq, RecordID, LocalJobID, Source FROM FinishedLog JOIN AAR USING (RecordID)"
        " LEFT JOIN RecordSources USING (RecordID) WHERE Seq > ? ORDER BY Seq LIMIT ?",
        (int(noted(con, ENRICHED) or 0), _PAGE),
    ).fetchall()
    if not rows:
        return Settled()
    enriched = 0
    for _, record_id, local_job_id, source in rows:
        number = local_job_id or ""
        if source == SLURM or not (number.isascii() and number.isdigit() and len(number) < 19):
            continue
        con.execute("SAVEPOINT record")
        try:
            for cluster_id in _clusters_with(con, int(number)):
                known = runs(con, cluster_id, int(number))
                enriched += _enrich(con, site, record_id, cluster_id, int(number), known)
        except Exception as error:
            if not is_of_record(error):
                raise
            con.execute("ROLLBACK TO record")
            complain(f"job {number}", error)
        con.execute("RELEASE record")
    note(con, ENRICHED, rows[-1][0])
    return Settled(enriched=enriched, more=len(rows) == _PAGE)


def _clusters_with(con: Connection, job_id: int) -> list[int]:
    """The cluster that has telemetry of this number; none if it is not clear which."""
    rows = con.execute(
        "SELECT ID FROM Clusters WHERE EXISTS (SELECT 1 FROM SampledJobs WHERE ClusterID = Clusters.ID AND JobID = ?1"
        " AND Epoch = 0) OR EXISTS (SELECT 1 FROM SlurmJobs WHERE ClusterID = Clusters.ID AND JobID = ?1)",
        (job_id,),
    ).fetchall()
    return [row[0] for row in rows] if len(rows) == 1 else []


def _span(con: Connection, record_id: int) -> tuple[int, int]:
    submit, end = con.execute("SELECT SubmitTime, EndTime FROM AAR WHERE RecordID = ?", (record_id,)).fetchone()
    return submit - _SLACK_S, end + _SLACK_S


def _overlaps(con: Connection, record_id: int, main: SlurmJob) -> bool:
    since, until = _span(con, record_id)
    start, end = main.number("start_time") or 0, main.number("end_time") or 0
    return since <= end and start <= until


def _enrich(con: Connection, site: Site, record_id: int, cluster_id: int, job_id: int, found: list[SlurmJob]) -> bool:
    """Add telemetry to a record of another source; True when it changed."""
    since, until = _span(con, record_id)
    main = next((one for one in reversed(found) if _overlaps(con, record_id, one)), None)
    first, last = con.execute(
        "SELECT min(FirstTime), max(LastTime) FROM JobUsage JOIN SampledJobs ON SampledJobs.ID = SampledJobID"
        " WHERE ClusterID = ? AND JobID = ? AND Epoch = 0",
        (cluster_id, job_id),
    ).fetchone()
    sampled = first is not None and since <= last and first <= until
    if main is None and not sampled:
        # The number is the same, the job is not.
        return False
    return tell(con, site, record_id, telemetry_of(con, cluster_id, job_id, main, record_id, sampled))
