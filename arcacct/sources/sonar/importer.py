"""Import telemetry in batches with a bounded use of memory, and add it to records."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

from arcacct.config.paths import Places
from arcacct.database.access import writing
from arcacct.database.connection import Connection
from arcacct.database.schema import note, noted
from arcacct.files.follow import STDIN, FileTailer, Reader
from arcacct.records.batch_jobs import LocalID, local_id, tasks_of
from arcacct.records.enrichment import SLURM
from arcacct.records.imports import SLICE_S, ImportRun, Progress, RunReport, Say
from arcacct.records.rejected import Fault, RejectedEntry, RejectedRecord, add_dropped, fault, forget, is_of_record
from arcacct.records.texts import unescaped
from arcacct.sources.sonar.envelopes import Cluster, Dropped, Envelope, Errors, ProducerError, Sysinfo, TelemetryStream
from arcacct.sources.sonar.fields import RejectedObject
from arcacct.sources.sonar.jobs import Part, Site, record_run, take_back, telemetry_of, tell
from arcacct.sources.sonar.nodes import Names, observe_cluster, observe_sysinfo, remember_complaint
from arcacct.sources.sonar.samples import JobSnapshot, Reading, Sample, SampledKey
from arcacct.sources.sonar.spans import Claim, finished_records, is_sampled, known_runs, merge_report, with_telemetry
from arcacct.sources.sonar.usage import HOUR_S, Added, add_job_points, add_node_points, divide, forget_points, fuller

# Make records of Slurm's jobs from telemetry where A-REX does not make them, and add telemetry to other records.


ENRICHED = "SONAR_ENRICHED_SEQ"
_PAGE = 200


class Settled(NamedTuple):
    """The results of settling the records of some jobs."""

    recorded: int = 0
    enriched: int = 0
    unrecorded: int = 0
    unjoined: tuple[tuple[str, int], ...] = ()
    """For each record without the telemetry that exists for it: the reason (a key of UNJOINED) and the RecordID."""
    outside: tuple[tuple[int, LocalID, int], ...] = ()
    """Cluster, number, and the number of samples outside all of its runs, if all of these are over."""
    more: bool = False

    def plus(self, other: Settled) -> Settled:
        """Return the sum of both."""
        return Settled._make(one + more for one, more in zip(self, other, strict=True))  # type: ignore[operator]


UNJOINED = {
    "form": "a local id of a form that telemetry does not have",
    "clusters": "a local id that is in the telemetry of several clusters",
    "array": "tasks of arrays, without the task in the samples",
    "element": "elements of Slurm's arrays whose number is in no job envelope",
}
"""The kinds of records to which existing telemetry cannot be added."""


def has_arex_records(con: Connection) -> bool:
    """Whether A-REX's jobs are recorded here. Then Slurm's jobs belong to A-REX, and must not be counted twice."""
    # Look at the table of the recorder, and at imported databases of A-REX. That avoids a scan of all jobs.
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
    # Samples of a whole array belong to none of its elements.
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
    """Give a record of another source exactly its own telemetry. Return True when the record changed."""
    if claim.clusters == {part.cluster_id}:
        told = telemetry_of(con, part, claim.record_id)
        if part.slurm or told[0].samples:
            return tell(con, site, claim.record_id, told)
    elif len(claim.clusters) == 1:
        # The record has the telemetry of another cluster.
        return False
    return take_back(con, site, claim.record_id)


def sampled_tasks(con: Connection, cluster: str, number: int) -> list[int]:
    """Return the elements of an array that have samples."""
    rows = con.execute(
        "SELECT Task FROM SampledJobs JOIN Clusters ON Clusters.ID = ClusterID WHERE Name = ? AND JobID = ? AND"
        " Epoch = 0",
        (cluster, number),
    )
    return [task for (task,) in rows]


def settle_logged(con: Connection, site: Site, complain: Callable[[str, Exception], None]) -> Settled:
    """
    Settle one page of the records that became final, or changed, after their telemetry was imported.

    A record that cannot be settled is passed to ``complain``, and stays unchanged.
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
    # A record without a local ID was never in a batch system, so it has no telemetry.
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
    """Settle each number that a record may have in telemetry."""
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
    # Jobs of job envelopes were counted when the envelopes were imported.
    return done._replace(unrecorded=0)


# Import telemetry into the accounting database, in batches with a bounded use of memory and in short transactions.
#
# The rows do not depend on the order of the envelopes or on repeated ones (`sonar_points`, `sonar_slurm`). So if
# something in a slice fails, the slice is rolled back and its pieces are tried again. Only a piece that fails alone is
# rejected.


T = TypeVar("T")

QUARANTINE = "sonar"
POLL_S = 1.0
_ENDINGS = tuple(name + packed for name in (".json", ".jsonl", ".ndjson") for packed in ("", ".gz", ".bz2", ".xz"))
_BATCH_WEIGHT = 100_000
_WRITES_OF_A_SAMPLE = 20
_TEXTS_KEPT = 8 * 1024 * 1024
"""The most characters of waiting envelopes. For further envelopes only the place is kept."""


@dataclass
class SonarReport(RunReport):
    """The results of an import."""

    envelopes: Counter[str] = field(default_factory=Counter)
    """Number of envelopes by kind."""
    rejected: int = 0
    """Number of envelopes, and of parts of them, that could not be used."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Number of unusable values that count as absent, by field."""
    late: int = 0
    """Number of closed hours for which samples came."""
    recorded: int = 0
    """Number of Slurm jobs that became records, or whose records changed."""
    enriched: int = 0
    """Number of records of other sources that changed."""
    unrecorded: int = 0
    """Number of finished Slurm jobs without a record, on a host that records jobs of A-REX."""
    unjoined: set[tuple[str, int]] = field(default_factory=set)
    """As in `Settled`: records to which existing telemetry could not be added, with the reason."""
    outside: dict[tuple[int, LocalID], int] = field(default_factory=dict)
    """By cluster and number: the samples outside all known runs, if all of these are over."""


class _Source(NamedTuple):
    """The place of an envelope, and its text while there is room for it."""

    origin: str
    position: str
    text: str


Result = Settled | Added | None
"""The results of a piece of work."""


class _Piece(NamedTuple):
    """Work that is done completely or not at all."""

    run: Callable[[Connection], Result]
    """Runs inside a transaction."""
    sources: Sequence[_Source]
    parts: Callable[[], list[_Piece]] | None = None
    """The same work in smaller pieces; ``None``: it cannot be divided."""


_Add = Callable[[Connection, int, dict[int, T]], Added]
"""Adds points to an hour."""


class Importer(ImportRun):
    """One run of an import: the data that waits to be stored, and the results so far."""

    report: SonarReport

    def __init__(
        self,
        con: Connection,
        here: Places,
        site: Site,
        say: Say = lambda _: None,
        progress: Progress = lambda _path, _done, _all: None,
        *,
        keeps: bool = True,
    ) -> None:
        """``say`` gets messages about unusable data at once. ``keeps``: unusable data goes into the quarantine."""
        super().__init__(here, con, QUARANTINE, "", say)
        self.site = site
        self.report = SonarReport()
        self._progress = progress
        self._keeps = keeps
        self._names = Names(con)
        self._rejects: list[RejectedRecord] = []
        self._to_read = self._quarantine.files_to_read() if keeps else set()
        self._begun: set[str] = set()
        self._dropped: Counter[str] = Counter()
        self._empty()

    def _empty(self) -> None:
        self._single: list[_Piece] = []
        self._readings: dict[tuple[str, str], dict[int, Reading]] = {}
        self._snapshots: dict[tuple[str, str, SampledKey], dict[int, JobSnapshot]] = {}
        self._touched: set[tuple[str, LocalID]] = set()
        self._sources: dict[tuple[str, str, int], _Source] = {}
        self._texts = 0
        self._weight = 0

    def files(self, paths: Sequence[str]) -> None:
        """Import files, the JSON files in directories at any depth, and standard input."""
        try:
            for reader in FileTailer(paths, self._cannot_read, endings=_ENDINGS).once():
                self._new_objects(reader)
        finally:
            self.finish()

    def follow(
        self, paths: Sequence[str], *, poll_s: float = POLL_S, goes_on: Callable[[], bool] = lambda: True
    ) -> None:
        """
        Import files, and then everything that is added to them. Data is stored whenever no more is available.

        A replaced or truncated file is read from its start. A repeated envelope changes nothing.
        """
        try:
            for reader in FileTailer(paths, self._cannot_read, endings=_ENDINGS).follow(poll_s, goes_on=goes_on):
                if reader is None:
                    self.store()
                    self._say_causes()
                else:
                    self._new_objects(reader, at_once=reader.identity is None)
        finally:
            self.finish()

    def _new_objects(self, reader: Reader, *, at_once: bool = False) -> None:
        """Import the available envelopes. ``at_once``: store each chunk, because the next one may come much later."""
        if reader.state is None:
            reader.state = TelemetryStream(details=self.site.details)
        for chunk in reader.chunks():
            self.take(reader.path, reader.state, chunk)
            self._progress(reader.path, reader.position.position, reader.size)
            if at_once:
                self.store()
        # A damaged file reports its own damage. The incomplete object is imported later with the repaired file.
        if reader.is_last and not reader.complaint:
            self.take(reader.path, reader.state, b"", final=True)

    def take(self, origin: str, stream: TelemetryStream, chunk: bytes, *, final: bool = False) -> None:
        """
        Take the objects that are complete with these bytes of a stream. All waiting data is stored from time to time.
        """
        # A file that is read again from its start replaces its earlier rejections. Each standard input is different.
        if not stream.number and origin in self._to_read - {STDIN}:
            self._begun.add(origin)
        for what in stream.feed(chunk, final=final):
            if isinstance(what, RejectedObject):
                self._reject(_Source(origin, what.position, what.text), what.fault)
            elif isinstance(what, Dropped):
                self.report.dropped += what.counts
                self._dropped += what.counts
            else:
                self.report.envelopes[type(what).__name__.lower()] += 1
                self._texts += len(stream.text)
                text = stream.text if self._texts <= _TEXTS_KEPT else ""
                self._take(what, _Source(origin, f"object {stream.number}", text))
            if self._weight >= _BATCH_WEIGHT:
                self.store()

    def _reject(self, source: _Source, why: Fault) -> None:
        self.report.rejected += 1
        if not self._keeps:
            # A retried entry is an object of its own. Its original place is in its origin.
            self._causes.add(source.origin or source.position, f"{why.reason}; left out")
        else:
            content = source.text.encode("utf-8", "surrogateescape")
            self._rejects.append(RejectedRecord(source.origin, source.position, why, content))
            # Rejected data also counts towards the size of a batch.
            self._weight += 1 + len(source.text) // 100

    def _take(self, what: Envelope, source: _Source) -> None:
        names = self._names
        if isinstance(what, Sample):
            self._take_sample(what, source)
        elif isinstance(what, Sysinfo):
            self._wait(partial(observe_sysinfo, names=names, told=what), source)
        elif isinstance(what, Cluster):
            self._wait(partial(observe_cluster, names=names, told=what), source, 1 + len(what.nodes))
        elif isinstance(what, Errors):
            self._wait_complaints(what.complaints, source)
        else:
            for report in what.reports:
                self._wait(partial(merge_report, names=names, cluster=what.cluster, report=report), source)
                # A rejected job is kept as a report without values. It means all samples of its number.
                tasks = [] if report.values else sampled_tasks(self._con, what.cluster, report.job_id)
                self._touched |= {(what.cluster, LocalID(report.job_id, task)) for task in (0, *tasks)}

    def _wait(self, run: Callable[[Connection], None], source: _Source, samples: int = 1) -> None:
        """Add a piece of work. Storing it takes as long as storing this number of samples."""
        self._single.append(_Piece(run, (source,)))
        self._weight += _WRITES_OF_A_SAMPLE * samples

    def _wait_complaints(self, complaints: Iterable[ProducerError], source: _Source) -> None:
        for one in complaints:
            self._single.append(_Piece(partial(remember_complaint, names=self._names, told=one), (source,)))
            self._weight += 1

    def _take_sample(self, sample: Sample, source: _Source) -> None:
        self._sources[sample.cluster, sample.node, sample.time] = source
        node = self._readings.setdefault((sample.cluster, sample.node), {})
        node[sample.time] = fuller(node.get(sample.time), sample.reading)
        for key, shot in sample.jobs.items():
            own = self._snapshots.setdefault((sample.cluster, sample.node, key), {})
            own[sample.time] = fuller(own.get(sample.time), shot)
            if key.epoch == 0:
                self._touched.add((sample.cluster, LocalID(key.job, key.task)))
            self._weight += len(shot.processes)
        complaints = (ProducerError(at, sample.cluster, sample.node, detail) for at, detail in sample.errors)
        self._wait_complaints(complaints, source)
        self._weight += _WRITES_OF_A_SAMPLE

    def store(self) -> None:
        """Store the waiting data, then make and enrich the records of its jobs."""
        now = int(time.time())
        todo = self._single
        for (cluster, node), readings in self._readings.items():
            add = partial(add_node_points, names=self._names, cluster=cluster, node=node, now=now)
            todo += self._hours(add, cluster, node, readings)
        for (cluster, node, key), shots in self._snapshots.items():
            add = partial(add_job_points, names=self._names, cluster=cluster, node=node, key=key, now=now)
            todo += self._hours(add, cluster, node, shots)
        self._store(todo)
        touched = sorted(self._touched)
        self._empty()
        self._store([self._settling(*job) for job in touched])
        self._note()

    def _note(self) -> None:
        """Store the rejected objects, and count the dropped values."""
        if self._rejects or self._dropped or self._begun:
            self._quarantine.forget()
            with writing(self._con, self._here) as con:
                for file in self._begun:
                    self._quarantine.anew(file)
                news = self._quarantine.keep(self._rejects)
                add_dropped(con, self._dropped)
            self._say_news(news)
            self._to_read |= {one.file for one in self._rejects}
            self._rejects, self._dropped, self._begun = [], Counter(), set()

    def finish(self) -> None:
        """Store the rest, enrich the records that became final since the last import, and close old hours."""
        self.store()
        while True:
            with writing(self._con, self._here) as con:
                done = settle_logged(con, self.site, self._unsettled)
            self._count([done])
            if not done.more:
                break
        with writing(self._con, self._here) as con:
            forget_points(con, int(time.time()))
        self._say_causes()

    def _unsettled(self, job_id: str, error: Exception) -> None:
        """Report a record of another source to which telemetry cannot be added."""
        self.report.rejected += 1
        self.report.news += 1
        self._causes.add(job_id, f"telemetry cannot be added: {fault(error).reason}")

    def _hours(self, add: _Add[T], cluster: str, node: str, points: dict[int, T]) -> Iterator[_Piece]:
        """Yield the points of a node, or of a job on it, hour by hour."""
        hours: dict[int, dict[int, T]] = {}
        for at, point in points.items():
            hours.setdefault(at - at % HOUR_S, {})[at] = point
        for hour, own in sorted(hours.items()):
            yield self._hour(add, cluster, node, hour, own)

    def _hour(self, add: _Add[T], cluster: str, node: str, hour: int, own: dict[int, T]) -> _Piece:
        def parts() -> list[_Piece]:
            return [self._hour(add, cluster, node, hour, {at: point}) for at, point in own.items()]

        sources = [self._sources[cluster, node, at] for at in own]
        return _Piece(lambda con: add(con, hour, own), sources, parts if len(own) > 1 else None)

    def _settling(self, cluster: str, job: LocalID) -> _Piece:
        def run(con: Connection) -> Settled:
            return settle(con, self.site, self._names.cluster(cluster), cluster, job)

        # Its reports are stored already. A report without values makes the records of the job again.
        said = {"time": "1970-01-01T00:00:00+00:00", "cluster": cluster, "slurm_jobs": [{"job_id": job.number}]}
        text = json.dumps({"data": {"type": "job", "attributes": said}})
        name = f"{job.number}.{job.task}" if job.task else job.number
        return _Piece(run, (_Source("", f"cluster {cluster!r}, job {name}", text),))

    def _store(self, work: Iterable[_Piece]) -> None:
        """
        Do the work in transactions so short that no other writer waits long.

        If some of it fails, it is divided in halves and tried again.
        """
        todo = deque(work)
        while todo:
            pieces: list[_Piece] = []
            results = []
            try:
                with writing(self._con, self._here) as con:
                    began = time.monotonic()
                    while todo and time.monotonic() - began < SLICE_S:
                        pieces.append(todo.popleft())
                        results.append(pieces[-1].run(con))
            except Exception as error:
                self._taken_back()
                if not is_of_record(error):
                    raise
                self._in_halves(pieces, self._together, self._refuse)
            else:
                self._count(results)

    def _together(self, pieces: Sequence[_Piece]) -> None:
        with writing(self._con, self._here) as con:
            results = [piece.run(con) for piece in pieces]
        self._count(results)

    def _refuse(self, piece: _Piece, why: Fault) -> None:
        """Try the parts of a piece that fails alone. Reject a piece without parts."""
        if piece.parts is not None:
            self._in_halves(piece.parts(), self._together, self._refuse)
            return
        for source in piece.sources:
            self._reject(source, why)

    def _taken_back(self) -> None:
        super()._taken_back()
        self._names.forget()

    def _count(self, results: Iterable[Result]) -> None:
        for result in results:
            if isinstance(result, Settled):
                self.report.recorded += result.recorded
                self.report.enriched += result.enriched
                self.report.unrecorded += result.unrecorded
                self.report.unjoined.update(result.unjoined)
                for cluster_id, job, samples in result.outside:
                    self.report.outside[cluster_id, job] = samples
            elif result is False:
                self.report.late += 1
            elif result:
                self.report.dropped += result
                self._dropped += result

    def _retried(self, kept: RejectedEntry, content: bytes) -> bool:
        before = self.report.rejected
        stream = TelemetryStream(details=self.site.details)
        origin = f"{kept.file}: {kept.position}" if kept.file else kept.position
        self.take(origin, stream, content)
        self.take(origin, stream, b"", final=True)
        self.store()
        is_good = self.report.rejected == before
        if is_good:
            with writing(self._con, self._here):
                forget(self._con, [kept.rejected_id])
        return is_good
