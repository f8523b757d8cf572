"""
What telemetry gives to records: records of Slurm's jobs where no A-REX makes them, and what it adds to the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.database.schema import note, noted
from arcacct.records.batch_jobs import LocalID, local_id, tasks_of
from arcacct.records.enrichment import SLURM
from arcacct.records.import_quarantine import is_of_record
from arcacct.records.reader import unescaped
from arcacct.sonar.job_telemetry import Part, take_back, telemetry_of, tell
from arcacct.sonar.local_jobs import record_run
from arcacct.sonar.points import divide
from arcacct.sonar.site import Site
from arcacct.sonar.spans import Claim, finished_records, is_sampled, known_runs, with_telemetry

ENRICHED = "SONAR_ENRICHED_SEQ"
_PAGE = 200


class Settled(NamedTuple):
    """What became of the records of some jobs."""

    recorded: int = 0
    enriched: int = 0
    unrecorded: int = 0
    unjoined: tuple[tuple[str, int], ...] = ()
    """Why telemetry could not be added to a record, and to which: a key of UNJOINED, and its RecordID."""
    outside: tuple[tuple[int, LocalID, int], ...] = ()
    """Cluster, number, and how many samples none of its runs holds, though all of them are over."""
    more: bool = False

    def plus(self, other: Settled) -> Settled:
        """Both together."""
        return Settled._make(one + more for one, more in zip(self, other, strict=True))  # type: ignore[operator]


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
    """Divide the samples of a number among its runs, and make, correct or enrich the record of each run."""
    known = known_runs(con, cluster_id, job)
    outside = divide(con, cluster_id, job, known.spans)
    recorded = enriched = unrecorded = 0
    unjoined = []
    for claim in known.claims:
        enriched += _enrich(con, site, Part(cluster_id, job, claim.starts, claim.slurm), claim)
        if len(claim.clusters) > 1:
            unjoined.append(("clusters", claim.record_id))
    for run, start in known.unclaimed:
        if not run.finished:
            continue
        if site.make_records:
            earlier = known.slurm[: known.slurm.index(run)]
            recorded += record_run(con, site, cluster, Part(cluster_id, job, start, (run,)), earlier)
        else:
            unrecorded += 1
    # Samples of all tasks of an array together are of none of them.
    if not (known.claims or known.slurm or job.task):
        unjoined += [
            ("array", task.record_id)
            for task in finished_records(con, [tasks_of(job.number)])
            if is_sampled(con, cluster_id, job, task.submit_time, task.end_time)
        ]
    return Settled(
        recorded, enriched, unrecorded, tuple(unjoined), ((cluster_id, job, outside if known.are_over else 0),)
    )


def _enrich(con: Connection, site: Site, part: Part, claim: Claim) -> bool:
    """Make a record of another source have its telemetry, and no other's; True when it changed."""
    if claim.clusters == {part.cluster_id}:
        told = telemetry_of(con, part, claim.record_id)
        if part.slurm or told[0].samples:
            return tell(con, site, claim.record_id, told)
    elif len(claim.clusters) == 1:
        # It has that of another cluster.
        return False
    return take_back(con, site, claim.record_id)


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
    Settle a page of the records that became final, or changed, later than their telemetry.

    A record that cannot be settled is passed to ``complain``, and stays as it is.
    """
    again = con.execute(
        "SELECT RecordID, LocalJobID FROM TelemetryToDivide LEFT JOIN AAR USING (RecordID) LIMIT ?", (_PAGE,)
    ).fetchall()
    logged = con.execute(
        "SELECT Seq, RecordID, LocalJobID, Source FROM FinishedLog JOIN AAR USING (RecordID)"
        " LEFT JOIN RecordSources USING (RecordID) WHERE Seq > ? ORDER BY Seq LIMIT ?",
        (int(noted(con, ENRICHED) or 0), _PAGE),
    ).fetchall()
    has_telemetry = bool(
        con.execute(
            "SELECT EXISTS (SELECT 1 FROM SlurmJobs) OR EXISTS (SELECT 1 FROM SampledJobs WHERE Epoch = 0)"
        ).fetchone()[0]
    )
    names = dict(again) | {record_id: name for _, record_id, name, source in logged if source != SLURM}
    done = Settled()
    # Of a record that no batch system ever had there is nothing.
    for record_id, name in names.items() if has_telemetry else ():
        if name:
            done = done.plus(_settle_record(con, site, record_id, name, complain))
    con.executemany("DELETE FROM TelemetryToDivide WHERE RecordID = ?", [row[:1] for row in again])
    if logged:
        note(con, ENRICHED, logged[-1][0])
    return done._replace(more=_PAGE in (len(again), len(logged)))


def _settle_record(
    con: Connection, site: Site, record_id: int, local_job_id: str, complain: Callable[[str, Exception], None]
) -> Settled:
    con.execute("SAVEPOINT record")
    try:
        found = _settle_numbers(con, site, record_id, local_job_id)
    except Exception as error:
        if not is_of_record(error):
            raise
        con.execute("ROLLBACK TO record")
        complain(f"job {local_job_id}", error)
        found = Settled()
    con.execute("RELEASE record")
    return found


def _settle_numbers(con: Connection, site: Site, record_id: int, local_job_id: str) -> Settled:
    """Settle every number that a record may have in telemetry."""
    name = local_id(unescaped(local_job_id))
    if name is None:
        return Settled(unjoined=(("form", record_id),))
    found = with_telemetry(con, name)
    if name.is_element and not found:
        return Settled(unjoined=(("element", record_id),))
    done = Settled()
    for cluster_id, job in found:
        (cluster,) = con.execute("SELECT Name FROM Clusters WHERE ID = ?", (cluster_id,)).fetchone()
        done = done.plus(settle(con, site, cluster_id, cluster, job))
    if not found and name.task:
        whole = LocalID(name.number)
        first, last = con.execute("SELECT SubmitTime, EndTime FROM AAR WHERE RecordID = ?", (record_id,)).fetchone()
        if any(is_sampled(con, *known, first, last) for known in with_telemetry(con, whole)):
            return Settled(unjoined=(("array", record_id),))
    # The jobs that job envelopes told of were counted when these came.
    return done._replace(unrecorded=0)
