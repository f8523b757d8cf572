"""Importing the output of sacct: of any length, in slices that no hook waits for."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from arcacct.config.paths import Places
from arcacct.database.access import writing
from arcacct.database.connection import Connection
from arcacct.errors import InputError, UsageError
from arcacct.files.follow import FileTailer, Reader
from arcacct.records import batch_jobs
from arcacct.records.batch_jobs import Figures, figures
from arcacct.records.enrichment import CONFIGURED, SACCT, SLURM
from arcacct.records.import_quarantine import Fault, Reject, RejectedEntry, forget
from arcacct.records.imports import (
    BatchImport,
    BatchPolicy,
    BatchReport,
    BatchSite,
    BatchSlice,
    BatchTaken,
    Say,
    of_written,
    pages,
)
from arcacct.records.model import Job
from arcacct.records.slurm_formats import expand, new_delimiter
from arcacct.records.states import ABORTED, COMPLETED, FAILED
from arcacct.records.writer import JobWriter, remove
from arcacct.sources.slurm.record import Noise, NoUsage, SlurmRun, joined, true_signal
from arcacct.sources.slurm.sacct import OVERLAP_S, OutputForm, ParsedJob, SacctCommand, read, windows
from arcacct.wording import count_of

# Slurm's runs in the database, and until when sacct was asked.


_SPELT = {"job_id": "JobID", "shown": "ShownID", "elapsed_s": "Elapsed", "cores": "CPUs", "partition": "QPartition"}
_SPELT |= {"user": "UserName", "group": "GroupName", "qos": "QOS", "wckey": "WCKey", "name": "JobName"}
_SPELT |= {"tres": "AllocTRES", "cpu_us": "CPUUs", "cpu_kernel_us": "CPUKernelUs", "memory_kib": "MaxRSS"}
_SPELT |= {"virtual_memory_kib": "MaxVMSize"}
COLUMNS = ", ".join(
    _SPELT.get(field, "".join(part.capitalize() for part in field.split("_"))) for field in SlurmRun._fields
)
_INSERT = f"INSERT INTO SlurmRuns (RunNo, RecordID, {COLUMNS}) VALUES (?, ?{', ?' * len(SlurmRun._fields)})"
_REPLACE = f"UPDATE SlurmRuns SET (RecordID, {COLUMNS}) = (?{', ?' * len(SlurmRun._fields)}) WHERE RunNo = ?"
_PAGE = 500
_OFF_S = 3600
"""Sonar takes the time zone that holds now for all of Slurm's times."""

JobNumber = tuple[str, int]
"""Cluster and number."""


class KeptRun(NamedTuple):
    """A run of the database, with its number there and the AAR that it went into."""

    run_no: int
    record_id: int | None
    run: SlurmRun


def of_jobs(con: Connection, cluster: str, job_ids: Iterable[int]) -> list[KeptRun]:
    """The runs that are kept of some numbers, in order of time."""
    marks = ",".join(map(str, job_ids))
    rows = con.execute(
        f"SELECT RunNo, RecordID, {COLUMNS} FROM SlurmRuns WHERE JobID IN ({marks}) AND Cluster = ?"
        " ORDER BY SubmitTime, StartTime",
        (cluster,),
    )
    return [KeptRun(row[0], row[1], _run(row[2:])) for row in rows]


def _run(values: Sequence[Any]) -> SlurmRun:
    run = SlurmRun._make(values)
    # Former versions stored Slurm's own marks as signals.
    return run._replace(cores=run.cores or None, exit_signal=true_signal(run.exit_signal))


def _values(run: SlurmRun) -> tuple[Any, ...]:
    """As they are stored: CPUs that are not known as 0."""
    return run if run.cores else run._replace(cores=0)


def next_run_no(con: Connection) -> int:
    """The number of the next new run; true while the transaction lasts."""
    return int(con.execute("SELECT ifnull(max(RunNo), 0) + 1 FROM SlurmRuns").fetchone()[0])


def keep(con: Connection, new: Iterable[KeptRun], changed: Iterable[KeptRun]) -> None:
    """Store runs."""
    con.executemany(_INSERT, [(one.run_no, one.record_id, *_values(one.run)) for one in new])
    con.executemany(_REPLACE, [(one.record_id, *_values(one.run), one.run_no) for one in changed])


def waiting_jobs(con: Connection) -> Iterator[list[JobNumber]]:
    """The jobs that have no record, in pages."""
    query = "SELECT DISTINCT Cluster, JobID FROM SlurmRuns WHERE RecordID IS NULL AND (Cluster, JobID) > (?, ?)"
    return pages(con, f"{query} ORDER BY Cluster, JobID LIMIT {_PAGE}", ("", 0))


def clusters(con: Connection) -> list[str]:
    """The clusters that there are runs of."""
    return [row[0] for row in con.execute("SELECT DISTINCT Cluster FROM SlurmRuns ORDER BY Cluster")]


def all_jobs(con: Connection) -> Iterator[list[JobNumber]]:
    """Every job, in pages."""
    query = f"SELECT DISTINCT JobID, Cluster FROM SlurmRuns WHERE (JobID, Cluster) > (?, ?) ORDER BY 1, 2 LIMIT {_PAGE}"
    for page in pages(con, query, (0, "")):
        yield [(cluster, job_id) for job_id, cluster in page]


def sonars_record(con: Connection, run: SlurmRun) -> int | None:
    """
    The record that Sonar's telemetry made of a run, whatever it calls the cluster.

    It has the run's end, or is one hour off: Sonar takes the zone of today for times of another season.
    """
    rows = con.execute(
        "SELECT RecordID, abs(EndTime - ?2) FROM AAR JOIN RecordSources USING (RecordID)"
        " WHERE LocalJobID = ?1 AND Source = ?3 AND abs(EndTime - ?2) <= ?4 + 1 ORDER BY 2, 1",
        (str(run.job_id), run.end_time, SLURM, _OFF_S),
    ).fetchall()
    return next((record_id for record_id, off in rows if off <= 1 or abs(off - _OFF_S) <= 1), None)


def asked_until(con: Connection, cluster: str) -> int | None:
    """Until when sacct was asked for a cluster, by `--run`."""
    row = con.execute("SELECT AskedUntil FROM SlurmProgress WHERE Cluster = ?", (cluster,)).fetchone()
    return None if row is None else row[0]


def ask_until(con: Connection, cluster: str, until: int) -> None:
    """Remember that."""
    con.execute(
        "INSERT INTO SlurmProgress (Cluster, AskedUntil) VALUES (?, ?)"
        " ON CONFLICT (Cluster) DO UPDATE SET AskedUntil = excluded.AskedUntil",
        (cluster, until),
    )


# A run of Slurm's as a whole job.
#
# Each run is a job of its own: so Slurm counts, and Sonar, whose records of the same runs have the same identity.


_US = 10**6
_TERM = 15
_SIGNALLED = 256
"""What A-REX adds to the number of a signal that ended a job."""
_STATUS = {"COMPLETED": COMPLETED, "RESIZING": COMPLETED, "CANCELLED": ABORTED}
"""Of a job that was resized the other part is a run of its own."""


def local_job(run: SlurmRun, site: BatchSite) -> Job:
    """The accounting record of a run."""
    # Slurm's account is what other batch systems call project, too.
    whose = {"owner": run.user, "group": run.group, "account": run.account, "project": run.account}
    benchmark, _source = site.benchmark(run.partition, run.end_time)
    names = node_names(run)
    kernel_s = None if run.cpu_kernel_us is None else round(run.cpu_kernel_us / _US)
    return Job(
        batch_jobs.job_id("sonar", run.cluster, run.job_id, run.submit_time),
        _STATUS.get(run.state, FAILED),
        run.submit_time,
        run.end_time,
        local_job_id=str(run.job_id),
        queue=run.partition,
        **batch_jobs.accounted_to(whose, site.rules)._asdict(),
        exit_code=exit_code(run),
        node_count=run.nodes or len(names) or None,
        core_count=run.cores,
        memory_kib=run.memory_kib or None,
        virtual_memory_kib=run.virtual_memory_kib or None,
        wall_s=run.elapsed_s,
        cpu_user_s=None if run.cpu_us is None else max(0, round(run.cpu_us / _US) - (kernel_s or 0)),
        cpu_kernel_s=kernel_s,
        job_name=run.name or None,
        lrms="slurm",
        node_names=names,
        local_user=run.user or None,
        project=run.account or None,
        benchmark=benchmark,
        extra=tuple(_extra(run)),
        events=(("LRMSSTART", run.start_time), ("LRMSEND", run.end_time)),
        field_sources=(("benchmark", CONFIGURED),) if benchmark else (),
    )


def node_names(run: SlurmRun) -> tuple[str, ...]:
    """The nodes of a run; none of a list that cannot be read."""
    try:
        return tuple(expand([run.node_list]))
    except ValueError:
        return ()


def exit_code(run: SlurmRun) -> int:
    """
    The exit status; of a job that a signal ended its number and 256, as A-REX has it; never 0 of one that failed.

    (Slurm has 0:0 for most that it ended itself, and 0:15 for some.)
    """
    if run.state == "CANCELLED":
        return run.exit_status or _TERM
    if run.exit_status:
        return run.exit_status
    if run.exit_signal:
        return _SIGNALLED + run.exit_signal
    return 0 if run.state in ("COMPLETED", "RESIZING") else 1


def together(jobs: Sequence[Job]) -> Job:
    """The runs of one job of A-REX's, in order of time, as it knows them: one job that was requeued."""
    last = jobs[-1]
    return last._replace(
        submit_time=jobs[0].submit_time,
        wall_s=sum(job.wall_s or 0 for job in jobs),
        cpu_user_s=_sum([job.cpu_user_s for job in jobs]),
        cpu_kernel_s=_sum([job.cpu_kernel_s for job in jobs]),
        memory_kib=max((job.memory_kib or 0 for job in jobs), default=0) or None,
        virtual_memory_kib=max((job.virtual_memory_kib or 0 for job in jobs), default=0) or None,
        events=tuple(event for job in jobs for event in job.events),
    )


def _sum(values: Sequence[int | None]) -> int | None:
    """``None`` if any is not known: the rest would be a wrong sum."""
    return None if None in values else sum(value or 0 for value in values)


def _extra(run: SlurmRun) -> list[tuple[str, str]]:
    """What A-REX has no key for; Sonar's names where it has one."""
    found = {
        "alloctres": run.tres,
        "arrayid": run.shown if "_" in run.shown else "",
        "hetid": run.shown if "+" in run.shown else "",
        "localgroup": run.group,
        "qos": run.qos,
        "slurmstate": run.state,
        "wckey": run.wckey,
    }
    return [(key, value) for key, value in found.items() if value]


# A slice of Slurm's runs into the database, and the jobs that they change, in one transaction.
#
# What is kept of a run is what all outputs together say of it, so it does not matter in which order they come, or how
# often; what is made again and is the same writes nothing and logs nothing.


_LRMS_NAMES = ("slurm",)


class _RunsSlice(BatchSlice):
    def __init__(self, con: Connection, policy: BatchPolicy) -> None:
        super().__init__(con, policy, SACCT, _LRMS_NAMES)
        self.next_no = next_run_no(con)
        self.kept: dict[int, KeptRun] = {}
        """By RunNo, as they are in the database."""
        self.now: dict[int, KeptRun] = {}
        """As they have to be."""
        self.writes: dict[str, list[tuple[Job, KeptRun]]] = {}
        """By cluster."""

    def known(self, cluster: str, job_ids: Iterable[int]) -> dict[int, dict[int, KeptRun]]:
        """What is kept of some numbers of a cluster: by number and submission."""
        found: dict[int, dict[int, KeptRun]] = {}
        for one in of_jobs(self.con, cluster, job_ids):
            self.kept[one.run_no] = self.now[one.run_no] = one
            found.setdefault(one.run.job_id, {})[one.run.submit_time] = one
        return found

    def add(self, runs: Iterable[SlurmRun], known: dict[int, KeptRun]) -> bool:
        """Put runs of one number among those that are kept of it; whether that changed anything."""
        changed = False
        for run in runs:
            old = known.get(run.submit_time)
            if old is None:
                one = KeptRun(self.next_no, None, run)
                self.next_no += 1
                self.taken = self.taken._replace(new=self.taken.new + 1)
            else:
                one = old._replace(run=joined(old.run, run))
                self.taken = self.taken._replace(known=self.taken.known + 1)
            changed |= one != old
            known[run.submit_time] = self.now[one.run_no] = one
        return changed

    def make(self, known: dict[int, KeptRun]) -> None:
        """The jobs of all runs of one number."""
        of_arc: dict[int, list[tuple[Job, KeptRun]]] = {}
        for _, one in sorted(known.items()):
            job = local_job(one.run, self.policy.site)
            record_id = self.arc_job(job)
            if record_id is not None:
                of_arc.setdefault(record_id, []).append((job, one))
            elif (of_sonar := sonars_record(self.con, one.run)) is not None:
                self._complete(of_sonar, job, [one])
            elif one.record_id is not None and not self.existing([one.record_id]):
                self.taken = self.taken._replace(pruned=self.taken.pruned + 1)
            elif one.record_id is None and self.waits(job):
                self.taken = self.taken._replace(waiting=self.taken.waiting + 1)
            else:
                self.writes.setdefault(one.run.cluster, []).append((job, one))
        for record_id, members in of_arc.items():
            self._complete(record_id, together([job for job, _ in members]), [one for _, one in members])

    def _complete(self, record_id: int, job: Job, members: Sequence[KeptRun]) -> None:
        """Give a record of A-REX's or Sonar's what Slurm measured; one that was made of the run before goes."""
        self.enrich(record_id, job)
        before = {one.record_id for one in members if one.record_id not in (None, record_id)}
        remove(self.con, sorted(number for number, (_, source) in self.existing(before).items() if source == SACCT))
        for one in members:
            self._link(one, record_id)

    def _link(self, one: KeptRun, record_id: int) -> None:
        self.now[one.run_no] = self.now[one.run_no]._replace(record_id=record_id)

    def write(self) -> BatchTaken:
        """Write everything that was planned."""
        for cluster, some in self.writes.items():
            written = JobWriter(self.con, SACCT, cluster).write([job for job, _ in some])
            for job, one in some:
                self._link(one, written.record_ids[job.job_id])
            self.taken = self.taken.plus(of_written(written))
        changed = [one for number, one in self.now.items() if number in self.kept and one != self.kept[number]]
        keep(self.con, [one for number, one in self.now.items() if number not in self.kept], changed)
        return self.taken


def take(con: Connection, policy: BatchPolicy, runs: Sequence[SlurmRun]) -> BatchTaken:
    """Write runs and what they change; inside the caller's transaction."""
    by_cluster: dict[str, dict[int, list[SlurmRun]]] = {}
    for run in runs:
        by_cluster.setdefault(run.cluster, {}).setdefault(run.job_id, []).append(run)
    work = _RunsSlice(con, policy)
    for cluster, by_number in by_cluster.items():
        known = work.known(cluster, by_number)
        for job_id, some in by_number.items():
            own = known.get(job_id, {})
            if work.add(some, own):
                work.make(own)
    return work.write()


def make_again(con: Connection, policy: BatchPolicy, numbers: Iterable[JobNumber]) -> BatchTaken:
    """Make the jobs of these numbers again from their runs; inside the caller's transaction."""
    by_cluster: dict[str, list[int]] = {}
    for cluster, job_id in numbers:
        by_cluster.setdefault(cluster, []).append(job_id)
    work = _RunsSlice(con, policy)
    for cluster, job_ids in by_cluster.items():
        for own in work.known(cluster, job_ids).values():
            work.make(own)
    return work.write()


# Importing what sacct printed: outputs of any length, in slices that no hook waits for.
#
# An output is read whole, whenever it is imported: what is known is known. A slice in which something fails is undone
# and done again in halves, until the job is found: it alone is rejected.


QUARANTINE = "slurm"
_MOST_SHOWN = 200
"""Characters of a line that is ignored."""


@dataclass
class RunsReport(BatchReport):
    """What an import did."""

    jobs: int = 0
    """Rows of jobs (not of steps) that were read."""
    rejected: int = 0
    """Jobs that cannot be used."""
    lines: int = 0
    """Lines that cannot be used and cost no job."""
    noise: int = 0
    """Lines without the delimiter: blank, or of another program."""
    unfinished: int = 0
    """Jobs that go on."""
    never_started: int = 0


class SlurmImport(BatchImport[JobNumber]):
    """
    One import: what it has done so far is in ``report``.

    ``say`` is told of what cannot be used (the first SHOWN), of outputs that cannot be read, and of conflicts.
    """

    progress_of = ("SlurmProgress", "Cluster")
    report: RunsReport
    made = staticmethod(make_again)

    def __init__(
        self,
        here: Places,
        con: Connection,
        policy: BatchPolicy,
        form: OutputForm,
        say: Say,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(here, con, policy, QUARANTINE, say, clock)
        self._form = form
        self.report = RunsReport()

    def files(self, paths: Sequence[str]) -> None:
        """Import files, compressed or not, or ``-`` for standard input."""
        for reader in FileTailer(paths, self._cannot_read).once():
            self.output(reader.path, reader.chunks())

    def output(self, name: str, chunks: Iterable[bytes], form: OutputForm | None = None) -> bool:
        """Import one output; whether it could be read to its end. ``form``: if it is another than the import's."""
        take_slice = partial(self._take, name)
        told = partial(read, chunks, form or self._form)
        return self._take_output(name, told, take_slice, lambda job, why: take_slice([job._replace(what=why)]))

    def ask(self, command: SacctCommand, since: int | None) -> None:
        """
        Import what sacct says of all time since the last asking, or ``since``, each window whole.

        Raises UsageError when neither is known.
        """
        place = self._form.cluster or ""
        asked = asked_until(self._con, place)
        if since is None and asked is None:
            raise UsageError("sacct was never asked before: give --since, the day when your accounting is to begin")
        start = since if since is not None else (asked or 0) - OVERLAP_S
        for window in windows(start, int(self._clock())):
            form = self._form._replace(delimiter=new_delimiter())
            if not self.output(command.program, command.ask(window, form.delimiter or ""), form):
                return
            if window.end > (asked or 0):
                with writing(self._con, self._here) as con:
                    ask_until(con, place, window.end)

    def _take(self, name: str, jobs: Sequence[ParsedJob]) -> None:
        """One slice in one transaction."""
        runs = [one.what for one in jobs if isinstance(one.what, SlurmRun)]
        bad = [
            Reject(name, one.position, one.what, one.content.encode("utf-8", "surrogateescape"), one.length)
            for one in jobs
            if isinstance(one.what, Fault)
        ]
        taken = BatchTaken()
        news: list[Reject] = []
        if runs or bad:
            with writing(self._con, self._here) as con:
                begun = time.monotonic()
                taken = take(con, self._now(), runs)
                news = self._quarantine.keep(bad)
                self._adapt(len(runs), time.monotonic() - begun)
        for count, one in enumerate(news, self.report.news + 1):
            self._show(count, f"{one.file}: {one.position}: {one.fault.reason}; left out")
        self.report.news += len(news)
        unused = Counter(one.what.is_unfinished for one in jobs if isinstance(one.what, NoUsage))
        lines = [one for one in jobs if one.is_line]
        noise = [one for one in lines if isinstance(one.what, Noise)]
        for count, note in enumerate((one for one in noise if one.content.strip()), self.report.noise + 1):
            self._show(count, f"{name}: {note.position}: {note.content[:_MOST_SHOWN]!r} is no row; ignored")
        self.report.jobs += len(jobs) - len(lines)
        self.report.noise += len(noise)
        self.report.lines += len(lines) - len(noise)
        self.report.rejected += len(bad) - (len(lines) - len(noise))
        self.report.unusable.update(field for one in jobs if isinstance(one.what, SlurmRun) for field in one.unusable)
        self.report.unfinished += unused[True]
        self.report.never_started += unused[False]
        self._count(taken)

    def _cells(self) -> list[str]:
        return clusters(self._con)

    def _numbered(self, cell: str, number: int) -> JobNumber:
        return cell, number

    def _pages(self, *, waiting: bool) -> Iterator[list[JobNumber]]:
        return waiting_jobs(self._con) if waiting else all_jobs(self._con)

    def _called(self, job: JobNumber) -> str:
        cluster, number = job
        return f"job {number} of {cluster}: cannot be made from its runs"

    def _once_more(self, kept: RejectedEntry, content: bytes) -> None:
        found = [one.what for one in read([content], self._form)]
        for one in found:
            if isinstance(one, Fault):
                raise InputError(one.reason)
        with writing(self._con, self._here) as con:
            taken = take(con, self._now(), [one for one in found if isinstance(one, SlurmRun)])
            forget(con, [kept.rejected_id])
        self._count(taken)


# What sacct says of a span of time, job by job, to be compared with what is recorded.


def of_file(path: str, form: OutputForm, start: int, end: int) -> Iterator[Figures]:
    """
    The runs of an output that ended at or after ``start`` and before ``end``, UTC seconds.

    Raises InputError when it cannot be read, and after the rest when some of it cannot be used: what is compared with
    it would be no measure.
    """
    with Reader(path) as reader:
        try:
            yield from _figures([(reader.chunks(), form)], start, end)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        if reader.complaint:
            raise InputError(reader.complaint)


def of_sacct(command: SacctCommand, form: OutputForm, start: int, end: int) -> Iterator[Figures]:
    """The same, by asking sacct."""
    delimiter = new_delimiter()
    outputs = ((command.ask(window, delimiter), form._replace(delimiter=delimiter)) for window in windows(start, end))
    yield from _figures(outputs, start, end)


def _figures(outputs: Iterable[tuple[Iterable[bytes], OutputForm]], start: int, end: int) -> Iterator[Figures]:
    seen: set[tuple[str, int, int]] = set()
    bad = 0
    for chunks, form in outputs:
        for one in (told.what for told in read(chunks, form)):
            if isinstance(one, Fault):
                bad += 1
            elif isinstance(one, SlurmRun) and start <= one.end_time < end and one.key not in seen:
                seen.add(one.key)
                yield of_run(one)
    if bad:
        raise InputError(f"{count_of(bad, 'entry')} not usable; `arcacct import slurm` says why")


def of_run(run: SlurmRun) -> Figures:
    """What is compared of a run."""
    return figures(local_job(run, BatchSite()))
