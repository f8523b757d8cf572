"""The time spans of the runs of a job number, so that a sample belongs to the run whose span contains it."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.records.batch_jobs import LocalID, local_id, spellings
from arcacct.records.enrichment import ARC, OF_AREX, SACCT, SLURM
from arcacct.records.states import SQL_FINAL
from arcacct.records.texts import unescaped
from arcacct.sources.sonar.envelopes import FIELDS, PENDING, SACCT_FIELDS, SlurmJob, Value, merged, same_run
from arcacct.sources.sonar.nodes import Names

# Slurm's reports in the table SlurmJobs: read them, merge them field by field, and write them back.


_SPELT = {"array_job_id": "ArrayJobID", "array_task_id": "ArrayTaskID", "het_job_id": "HetJobID"}
_SPELT |= {"requested_cpus": "RequestedCPUs", "minimum_cpus_per_node": "MinimumCPUsPerNode"}
# The names of these columns end in their unit, seconds.
_SPELT |= {"time_limit": "TimeLimitS", "suspend_time": "SuspendTimeS"}
_SPELT |= {name: f"{name}S" for name in ("MinCPU", "AveCPU", "ElapsedRaw", "SystemCPU", "UserCPU")}
COLUMNS = {name: "".join(part.capitalize() for part in name.split("_")) for name in FIELDS}
COLUMNS |= {name: name for name in SACCT_FIELDS} | _SPELT
"""The column of each field of the format."""

_NAMES = tuple(COLUMNS)
_LIST = ", ".join(COLUMNS.values())
_SELECT = f"SELECT JobID, JobStep, FieldTimes, Run, {_LIST} FROM SlurmJobs WHERE ClusterID = ?"
_REPLACE = (
    f"INSERT OR REPLACE INTO SlurmJobs (ClusterID, JobID, JobStep, Run, FieldTimes, {_LIST})"
    f" VALUES ({', '.join('?' * (5 + len(COLUMNS)))})"
)


def merge_report(con: Connection, names: Names, cluster: str, report: SlurmJob) -> None:
    """Merge one report into the known values of its job or step."""
    if not report.values:
        return
    cluster_id = names.cluster(cluster)
    found = runs(con, cluster_id, report.job_id, report.job_step)
    old = next((job for job in reversed(found) if same_run(job, report)), None)
    new = report if old is None else merged(old, report)
    if new == old:
        return
    if old is not None and _run(old) != _run(new):
        con.execute(
            "DELETE FROM SlurmJobs WHERE ClusterID = ? AND JobID = ? AND JobStep = ? AND Run = ?",
            (cluster_id, old.job_id, old.job_step, _run(old)),
        )
    values = (new.values.get(name) for name in _NAMES)
    times = json.dumps(new.times, separators=(",", ":"), sort_keys=True)
    con.execute(_REPLACE, (cluster_id, new.job_id, new.job_step, _run(new), times, *values))


def _run(job: SlurmJob) -> int:
    return job.number("start_time") or 0


def runs(con: Connection, cluster_id: int, job_id: int, step: str = "") -> list[SlurmJob]:
    """Return the runs of a job, or of one of its steps. A run that has not started yet comes first."""
    rows = con.execute(f"{_SELECT} AND JobID = ? AND JobStep = ? ORDER BY Run", (cluster_id, job_id, step))
    return [_job(row) for row in rows]


def steps(con: Connection, cluster_id: int, main: SlurmJob) -> list[SlurmJob]:
    """Return the steps of one run of a job: those that started while it ran."""
    rows = con.execute(f"{_SELECT} AND JobID = ? AND JobStep <> '' ORDER BY JobStep, Run", (cluster_id, main.job_id))
    start, end = main.number("start_time") or 0, main.number("end_time")
    # The clocks of two daemons may differ by a second.
    return [
        step
        for step in map(_job, rows)
        if (own := step.number("start_time")) is None or (start - 1 <= own and (end is None or own <= end + 1))
    ]


def _job(row: tuple[Value | None, ...]) -> SlurmJob:
    values = {name: value for name, value in zip(_NAMES, row[4:], strict=True) if value is not None}
    return SlurmJob(int(row[0] or 0), str(row[1]), values, json.loads(str(row[2])))


# The time spans of the runs of a job number: a sample belongs to the run whose span contains it, not to a number.
#
# Batch systems use a number again: at once for a requeued job, after months for another job.
#
# The span depends on the source:
#
# * Slurm by sacct, Grid Engine, HTCondor: LRMSSTART to LRMSEND of the record. Each such pair is a run.
# * Slurm by job envelopes: start to end. Without an end, the run lasts until the next run of the number starts.
# * ARC: submission to end, which includes each run before a requeue. LRMSSTART does not shorten it, because a worker
#   may write local time with a false Z.


SLACK_S = 60
"""A sample outside all runs belongs to a run at most this far away: clocks differ, and processes outlive their job."""
_OFF_S = 3600
"""
The largest difference between the times of one run in an envelope and in a record. Sonar uses today's zone for all
times.
"""
_LATE_S = 86_400
"""A-REX may give up a job that still runs. The end in the batch system counts if it is at most this much later."""
_OPEN = 2**62


class Span(NamedTuple):
    """First and last second of a run."""

    start: int
    end: int


class Spans:
    """The runs of one number. Each moment belongs to one run, identified by its start, or to no run, which is 0."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        ordered = sorted({one for one in spans if one.start > 0})
        # A run without an end ends when the next one starts.
        ordered = [
            one._replace(end=later.start - 1) if one.end == _OPEN and later.start > one.start else one
            for one, later in pairwise([*ordered, Span(_OPEN, _OPEN)])
        ]
        edges = {
            edge for one in ordered for edge in (one.start - SLACK_S, one.start, one.end + 1, one.end + SLACK_S + 1)
        }
        edges |= {(one.end + later.start) // 2 + 1 for one, later in pairwise(ordered)}
        self._edges = [-_OPEN]
        self._starts = [0]
        for edge in sorted(edges):
            start = _holder(ordered, edge)
            if start != self._starts[-1]:
                self._edges.append(edge)
                self._starts.append(start)

    def at(self, time: int) -> int:
        """Return the start of the run that a sample at this time belongs to; 0: no run."""
        return self._starts[bisect_right(self._edges, time) - 1]

    def is_one(self, first: int, last: int) -> bool:
        """Whether all samples from ``first`` to ``last`` belong to the same run, or all to no run."""
        return bisect_right(self._edges, first) == bisect_right(self._edges, last)

    def zones(self) -> Iterator[tuple[int, int, int]]:
        """
        Yield the zones of all time in order: the first second of a zone, that of the next zone, and the zone's run.
        """
        yield from zip(self._edges, [*self._edges[1:], _OPEN], self._starts, strict=True)


def _holder(spans: Iterable[Span], at: int) -> int:
    """
    Return the start of the run that contains a moment, or of the last started of several; else that of the nearest run;
    else 0.
    """
    inside = [one.start for one in spans if one.start <= at <= one.end]
    if inside:
        return max(inside)
    distance, start = min(((max(one.start - at, at - one.end), one.start) for one in spans), default=(SLACK_S + 1, 0))
    return start if distance <= SLACK_S else 0


class Claim(NamedTuple):
    """A finished record of another source, and its part of a number's telemetry."""

    record_id: int
    clusters: frozenset[int]
    """The clusters with telemetry of its time. Telemetry is added only if there is exactly one."""
    starts: tuple[int, ...] = ()
    """The starts of its runs."""
    slurm: tuple[SlurmJob, ...] = ()
    """Its runs as job envelopes report them, in order of time."""


class KnownRuns(NamedTuple):
    """All known runs of a number in a cluster."""

    spans: Spans
    claims: tuple[Claim, ...]
    slurm: tuple[SlurmJob, ...]
    """All runs of the number in job envelopes, in order of time."""
    unclaimed: tuple[tuple[SlurmJob, tuple[int, ...]], ...]
    """The runs of these that started and have no record of another source, each with its start as in `Claim`."""
    are_over: bool
    """Whether there is a run, and each run has an end."""


class FinishedRecord(NamedTuple):
    """A record of another source than job envelopes."""

    record_id: int
    job_id: str
    name: str
    """The batch system's ID."""
    source: str
    origin: str
    submit_time: int
    end_time: int


def known_runs(con: Connection, cluster_id: int, job: LocalID) -> KnownRuns:
    """Return the known runs of a number in a cluster."""
    # Slurm gives each element of an array a number of its own.
    slurm = () if job.task else tuple(runs(con, cluster_id, job.number))
    names = dict.fromkeys((job, *(name for one in slurm if (name := _element(one)) is not None)))
    found_records = finished_records(con, [one for name in names for one in spellings(name)])
    # Sort by a key that does not depend on the order of the imports.
    records = sorted(found_records, key=lambda one: one.job_id)
    clusters = {one: _clusters_of(con, one, cluster_id) for one in records}
    here = {one: _spans_of(con, one) for one in records if cluster_id in clusters[one]}
    started = [(one, span) for one in slurm if (span := _span_of(one)) is not None]
    reported: dict[FinishedRecord | None, list[tuple[SlurmJob, Span]]] = {}
    for one, span in started:
        reported.setdefault(_record_of(span, here), []).append((one, span))
    found: dict[int, Span] = {}
    claims = []
    for record in records:
        own = reported.get(record, [])
        spans = here.get(record, [])
        if record.source in OF_AREX:
            spans = [_hull([*spans, *(span for _, span in own)])] if spans else []
        mine = [span for span in spans if found.setdefault(span.start, span) is span]
        claims.append(
            Claim(record.record_id, clusters[record], tuple(span.start for span in mine), tuple(one for one, _ in own))
        )
    unclaimed = tuple(
        (one, (span.start,) if found.setdefault(span.start, span) is span else ())
        for one, span in reported.get(None, [])
    )
    are_over = bool(found) and all(span.end != _OPEN for span in found.values())
    return KnownRuns(Spans(found.values()), tuple(claims), slurm, unclaimed, are_over)


def _element(run: SlurmJob) -> LocalID | None:
    array = run.number("array_job_id")
    return LocalID(array, run.number("array_task_id") or 0, is_element=True) if array else None


def finished_records(con: Connection, names: Sequence[tuple[str, str]]) -> list[FinishedRecord]:
    """Return the finished records of other sources with a local ID in these ranges."""
    ranges = " OR ".join(["(LocalJobID >= ? AND LocalJobID < ?)"] * len(names))
    rows = con.execute(
        # Read the status only of the records found, because nearly all jobs have a final one.
        "SELECT AAR.RecordID, JobID, LocalJobID, coalesce(Source, ?), coalesce(Origin, ''), SubmitTime, EndTime"
        f" FROM AAR LEFT JOIN RecordSources USING (RecordID) WHERE ({ranges})"
        f" AND coalesce(Source, '') <> ? AND (SELECT Name FROM Status WHERE ID = StatusID) IN {SQL_FINAL}",
        (ARC, *(text for name in names for text in name), SLURM),
    )
    return [FinishedRecord._make(row) for row in rows]


def _span_of(run: SlurmJob) -> Span | None:
    """Return the span of a run in job envelopes; ``None``: it did not start."""
    start, end = run.number("start_time"), run.number("end_time") if run.finished else None
    # For a job that waits, or was cancelled while it waited, this is the expected start.
    if start is None or run.text("job_state") == PENDING or (end is not None and end < start):
        return None
    return Span(start, _OPEN if end is None else end)


def _spans_of(con: Connection, record: FinishedRecord) -> list[Span]:
    """Return the spans of the runs of a record, from its own source."""
    life = Span(record.submit_time, record.end_time)
    events = con.execute(
        "SELECT EventKey, CAST(strftime('%s', EventTime) AS INTEGER) FROM JobEvents"
        " WHERE RecordID = ? AND EventKey IN ('LRMSSTART', 'LRMSEND') ORDER BY rowid",
        (record.record_id,),
    ).fetchall()
    if record.source in OF_AREX:
        late = [at for key, at in events if key == "LRMSEND" and at and at <= life.end + _LATE_S]
        return [life._replace(end=max([life.end, *late]))]
    pairs = [
        Span(start, end)
        for (key, start), (after, end) in pairwise(events)
        if (key, after) == ("LRMSSTART", "LRMSEND") and life.start - _OFF_S <= (start or 0) <= (end or 0)
    ]
    return pairs or [life]


def _hull(spans: Sequence[Span]) -> Span:
    """Return the span from the start of the first run to the last known end."""
    return Span(min(one.start for one in spans), max(one.end for one in spans if one.end != _OPEN))


def _record_of(run: Span, records: Mapping[FinishedRecord, Sequence[Span]]) -> FinishedRecord | None:
    """Return the nearest record of a run in job envelopes; ``None`` without a record."""
    # If the end is unknown, the start decides.
    run = run._replace(end=run.start) if run.end == _OPEN else run
    near = [(_apart(run, one, record), order) for order, record in enumerate(records) for one in records[record]]
    apart, order = min(near, default=(_OPEN, 0))
    return list(records)[order] if apart <= _OFF_S else None


def _apart(run: Span, own: Span, record: FinishedRecord) -> int:
    """Return the distance in seconds between a run and a run of a record. More than an hour means a different run."""
    if record.source in OF_AREX:
        return max(0, max(run.start, own.start) - min(run.end, own.end))
    off = abs(run.start - own.start)
    # The same run may be cut by `sacct --truncate`, or have times in another season's zone. A later run is a different
    # one.
    is_same = not off or own.start <= run.start < own.end or run.start <= own.start < run.end or off == _OFF_S
    return min(off, _OFF_S) if is_same else _OPEN


def _clusters_of(con: Connection, record: FinishedRecord, cluster_id: int) -> frozenset[int]:
    """Return the clusters with telemetry of the time of a record."""
    if con.execute("SELECT count(*) FROM Clusters").fetchone() == (1,):
        return frozenset((cluster_id,))
    name = local_id(unescaped(record.name))
    found = {} if name is None else dict(with_telemetry(con, name))
    if record.source == SACCT:
        # The record names its cluster. Telemetry may use another name for it.
        own = con.execute("SELECT ID FROM Clusters WHERE Name = ?", (record.origin,)).fetchone()
        if own is not None and own[0] in found:
            return frozenset(own)
    first, last = record.submit_time, record.end_time
    return frozenset(
        one
        for one, job in found.items()
        if is_sampled(con, one, job, first, last) or _is_reported(con, one, job, first, last)
    )


def with_telemetry(con: Connection, job: LocalID) -> list[tuple[int, LocalID]]:
    """Return the clusters with telemetry of a number, and its number there."""
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


def sampled_job(con: Connection, cluster_id: int, job: LocalID) -> int:
    """Return the ID in SampledJobs of a job of the batch system; 0: it has no samples."""
    row = con.execute(
        "SELECT ID FROM SampledJobs WHERE ClusterID = ? AND JobID = ? AND Epoch = 0 AND Task = ?",
        (cluster_id, *job[:2]),
    ).fetchone()
    return 0 if row is None else int(row[0])


def is_sampled(con: Connection, cluster_id: int, job: LocalID, first: int, last: int) -> bool:
    """Whether a number has samples between two times."""
    row = con.execute(
        "SELECT EXISTS (SELECT 1 FROM JobUsage WHERE SampledJobID = ? AND FirstTime <= ? AND LastTime >= ?)",
        (sampled_job(con, cluster_id, job), last + SLACK_S, first - SLACK_S),
    ).fetchone()
    return bool(row[0])


def _is_reported(con: Connection, cluster_id: int, job: LocalID, first: int, last: int) -> bool:
    """Whether job envelopes report a run of a number between two times."""
    spans = (_span_of(one) for one in ([] if job.task else runs(con, cluster_id, job.number)))
    return any(one is not None and one.start <= last + _OFF_S and first - _OFF_S <= one.end for one in spans)
