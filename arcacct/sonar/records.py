"""
What telemetry gives to records: records of Slurm's jobs where no A-REX makes them, and what it adds to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from arcacct.db.engine import Connection
from arcacct.db.schema import note, noted
from arcacct.jobs.local_ids import LocalID, local_id, spellings, tasks_of
from arcacct.jobs.precedence import SLURM
from arcacct.jobs.reading import unescaped
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
    unjoined: tuple[tuple[str, int], ...] = ()
    """Why telemetry could not be added to a record, and to which: a key of UNJOINED, and its RecordID."""
    more: bool = False


UNJOINED = {
    "form": "a local id of a form that telemetry does not know",
    "clusters": "a local id that several clusters have telemetry of",
    "array": "tasks of arrays whose samples do not say which task",
    "element": "elements of Slurm's arrays whose number no job envelope tells",
}
"""What records are like to which telemetry cannot be added, though there is some."""


def has_arex_records(con: Connection) -> bool:
    """Whether A-REX's jobs are recorded here: then Slurm's jobs are A-REX's, and must not be counted twice."""
    # What the hook and the sweep remember of each job, or a database of A-REX that was imported: no scan of all jobs.
    found = con.execute("SELECT EXISTS (SELECT 1 FROM StatusFiles) OR EXISTS (SELECT 1 FROM ImportedFiles)").fetchone()
    return bool(found[0])


def settle(con: Connection, site: Site, cluster_id: int, cluster: str, job: LocalID) -> Settled:
    """Make, correct or enrich every record of one job of a batch system."""
    # Slurm gives each element of an array a number of its own.
    found = [] if job.task else runs(con, cluster_id, job.number)
    recorded = unrecorded = 0
    names = [job, *(_element(one) for one in found if one.number("array_job_id"))]
    # The finished records of other sources that have this number.
    theirs = [record_id for name in dict.fromkeys(names) for record_id in _named(con, spellings(name))]
    enriched = sum(_enrich(con, site, record_id, cluster_id, job, found) for record_id in theirs)
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
    # Samples of all tasks of an array together are of none of them.
    tasks = [] if theirs or found or job.task else _named(con, [tasks_of(job.number)])
    unjoined = [("array", record_id) for record_id in tasks if _is_sampled(con, record_id, cluster_id, job)]
    return Settled(recorded, enriched, unrecorded, tuple(unjoined))


def _element(run: SlurmJob) -> LocalID:
    return LocalID(run.number("array_job_id") or 0, run.number("array_task_id") or 0, is_element=True)


def _named(con: Connection, ranges: Iterable[tuple[str, str]]) -> list[int]:
    """The finished records of other sources with a local id in these ranges."""
    return [
        record_id
        for first, behind in ranges
        for (record_id,) in con.execute(
            # The status only of those found: nearly all jobs have a final one.
            "SELECT AAR.RecordID FROM AAR LEFT JOIN RecordSources USING (RecordID)"
            " WHERE LocalJobID >= ? AND LocalJobID < ? AND coalesce(Source, '') <> ?"
            f" AND (SELECT Name FROM Status WHERE ID = StatusID) IN {SQL_FINAL}",
            (first, behind, SLURM),
        ).fetchall()
    ]


def sampled_tasks(con: Connection, cluster: str, number: int) -> list[int]:
    """The tasks of an array that there are samples of."""
    rows = con.execute(
        "SELECT Task FROM SampledJobs JOIN Clusters ON Clusters.ID = ClusterID WHERE Name = ? AND JobID = ? AND"
        " Epoch = 0",
        (cluster, number),
    )
    return [task for (task,) in rows]


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
    unjoined: list[tuple[str, int]] = []
    has_telemetry = bool(
        con.execute(
            "SELECT EXISTS (SELECT 1 FROM SlurmJobs) OR EXISTS (SELECT 1 FROM SampledJobs WHERE Epoch = 0)"
        ).fetchone()[0]
    )
    for _, record_id, local_job_id, source in rows:
        # Of one that no batch system ever had there is nothing.
        if source == SLURM or not local_job_id or not has_telemetry:
            continue
        con.execute("SAVEPOINT record")
        try:
            joined = _join(con, site, record_id, local_job_id)
        except Exception as error:
            if not is_of_record(error):
                raise
            con.execute("ROLLBACK TO record")
            complain(f"job {local_job_id}", error)
        else:
            if isinstance(joined, str):
                unjoined.append((joined, record_id))
            else:
                enriched += joined
        con.execute("RELEASE record")
    note(con, ENRICHED, rows[-1][0])
    return Settled(enriched=enriched, unjoined=tuple(unjoined), more=len(rows) == _PAGE)


def _join(con: Connection, site: Site, record_id: int, local_job_id: str) -> bool | str:
    """Add telemetry to a record: whether that changed it, or a key of UNJOINED."""
    name = local_id(unescaped(local_job_id))
    if name is None:
        return "form"
    found = _with_telemetry(con, name)
    if len(found) > 1:
        return "clusters"
    if name.is_element and not found:
        return "element"
    for cluster_id, job in found:
        return _enrich(con, site, record_id, cluster_id, job, [] if job.task else runs(con, cluster_id, job.number))
    whole = LocalID(name.number)
    is_whole = name.task and any(_is_sampled(con, record_id, *known) for known in _with_telemetry(con, whole))
    return "array" if is_whole else False


def _with_telemetry(con: Connection, job: LocalID) -> list[tuple[int, LocalID]]:
    """The clusters that have telemetry of a job, and what it is called there."""
    if job.is_element:
        rows = con.execute(
            "SELECT DISTINCT ClusterID, JobID FROM SlurmJobs WHERE ArrayJobID = ? AND ArrayTaskID = ?", job[:2]
        ).fetchall()
        return [(cluster_id, LocalID(number)) for cluster_id, number in rows]
    rows = con.execute(
        "SELECT ID FROM Clusters WHERE EXISTS (SELECT 1 FROM SampledJobs WHERE ClusterID = Clusters.ID AND JobID = ?1"
        " AND Epoch = 0 AND Task = ?2)"
        " OR ?2 = 0 AND EXISTS (SELECT 1 FROM SlurmJobs WHERE ClusterID = Clusters.ID AND JobID = ?1)",
        job[:2],
    ).fetchall()
    return [(cluster_id, job) for (cluster_id,) in rows]


def _span(con: Connection, record_id: int) -> tuple[int, int]:
    submit, end = con.execute("SELECT SubmitTime, EndTime FROM AAR WHERE RecordID = ?", (record_id,)).fetchone()
    return submit - _SLACK_S, end + _SLACK_S


def _overlaps(con: Connection, record_id: int, main: SlurmJob) -> bool:
    since, until = _span(con, record_id)
    start, end = main.number("start_time") or 0, main.number("end_time") or 0
    return since <= end and start <= until


def _is_sampled(con: Connection, record_id: int, cluster_id: int, job: LocalID) -> bool:
    """Whether samples of this number are of the time in which the job of a record ran."""
    since, until = _span(con, record_id)
    first, last = con.execute(
        "SELECT min(FirstTime), max(LastTime) FROM JobUsage JOIN SampledJobs ON SampledJobs.ID = SampledJobID"
        " WHERE ClusterID = ? AND JobID = ? AND Task = ? AND Epoch = 0",
        (cluster_id, *job[:2]),
    ).fetchone()
    return first is not None and since <= last and first <= until


def _enrich(con: Connection, site: Site, record_id: int, cluster_id: int, job: LocalID, found: list[SlurmJob]) -> bool:
    """Add telemetry to a record of another source; True when it changed."""
    main = next((one for one in reversed(found) if _overlaps(con, record_id, one)), None)
    sampled = _is_sampled(con, record_id, cluster_id, job)
    if main is None and not sampled:
        # The number is the same, the job is not.
        return False
    return tell(con, site, record_id, telemetry_of(con, cluster_id, job, main, record_id, sampled))
