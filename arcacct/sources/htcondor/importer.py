"""Importing HTCondor's history: files and outputs of any length, in slices that no hook waits for."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from arcacct.config.paths import Places
from arcacct.database.access import writing
from arcacct.database.connection import Connection
from arcacct.errors import InputError, UsageError
from arcacct.files.follow import FileTailer, Reader
from arcacct.records import batch_jobs
from arcacct.records.batch_jobs import Figures, figures
from arcacct.records.enrichment import HTCONDOR
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
from arcacct.records.model import Job, parsed_fqan
from arcacct.records.states import ABORTED, COMPLETED, FAILED
from arcacct.records.writer import JobWriter, remove
from arcacct.sources.htcondor.history import (
    ELSEWHERE_RUN,
    NEVER_STARTED,
    OVERLAP_S,
    REMOVED,
    UNFINISHED,
    CondorJob,
    HistoryCommand,
    HistoryForm,
    NoUse,
    ParsedJob,
    joined,
    read,
)
from arcacct.wording import count_of

# HTCondor's jobs in the database, which of A-REX's they are, and until when condor_history was asked.


_SPELT = {"wall_s": "Wall", "cores": "CPUs", "gpus": "GPUs", "cpu_user_s": "CPUUser", "cpu_kernel_s": "CPUKernel"}
_SPELT |= {"memory_kib": "MaxRSS", "virtual_memory_kib": "MaxVMSize", "memory_mib": "MemoryMiB", "status": "JobStatus"}
_SPELT |= {"user": "UserName", "name": "JobName", "queue": "QueueName", "user_dn": "UserDN", "vo": "VO", "fqan": "FQAN"}
_SPELT |= {"token_id": "TokenID"}
COLUMNS = ", ".join(
    _SPELT.get(field, "".join(part.capitalize() for part in field.split("_"))) for field in CondorJob._fields
)
_INSERT = f"INSERT INTO HTCondorJobs (JobNo, RecordID, {COLUMNS}) VALUES (?, ?{', ?' * len(CondorJob._fields)})"
_REPLACE = f"UPDATE HTCondorJobs SET (RecordID, {COLUMNS}) = (?{', ?' * len(CondorJob._fields)}) WHERE JobNo = ?"
_PAGE = 500

JobNumber = tuple[str, int, int]
"""Schedd, cluster and process."""


class KeptJob(NamedTuple):
    """A job of the database, with its number there and the AAR that it went into."""

    job_no: int
    record_id: int | None
    job: CondorJob


def of_jobs(con: Connection, schedd: str, numbers: Iterable[tuple[int, int]]) -> list[KeptJob]:
    """What is kept of some clusters and processes of a schedd."""
    marks = ",".join(f"({cluster},{proc})" for cluster, proc in numbers)
    rows = con.execute(
        f"SELECT JobNo, RecordID, {COLUMNS} FROM HTCondorJobs WHERE (Cluster, Proc) IN (VALUES {marks}) AND Schedd = ?"
        " ORDER BY Queued",
        (schedd,),
    )
    return [KeptJob(row[0], row[1], CondorJob._make(row[2:])) for row in rows]


def next_job_no(con: Connection) -> int:
    """The number of the next new job; true while the transaction lasts."""
    return int(con.execute("SELECT ifnull(max(JobNo), 0) + 1 FROM HTCondorJobs").fetchone()[0])


def keep(con: Connection, new: Iterable[KeptJob], changed: Iterable[KeptJob]) -> None:
    """Store jobs."""
    con.executemany(_INSERT, [(one.job_no, one.record_id, *one.job) for one in new])
    con.executemany(_REPLACE, [(one.record_id, *one.job, one.job_no) for one in changed])


def waiting_jobs(con: Connection) -> Iterator[list[JobNumber]]:
    """The jobs that have no record, in pages."""
    query = "SELECT DISTINCT Schedd, Cluster, Proc FROM HTCondorJobs WHERE RecordID IS NULL"
    return pages(con, f"{query} AND (Schedd, Cluster, Proc) > (?, ?, ?) ORDER BY 1, 2, 3 LIMIT {_PAGE}", ("", 0, 0))


def schedds(con: Connection) -> list[str]:
    """The schedds that there are jobs of."""
    return [row[0] for row in con.execute("SELECT DISTINCT Schedd FROM HTCondorJobs ORDER BY Schedd")]


def all_jobs(con: Connection) -> Iterator[list[JobNumber]]:
    """Every job, in pages."""
    query = "SELECT DISTINCT Cluster, Proc, Schedd FROM HTCondorJobs WHERE (Cluster, Proc, Schedd) > (?, ?, ?)"
    for page in pages(con, f"{query} ORDER BY 1, 2, 3 LIMIT {_PAGE}", (-1, 0, "")):
        yield [(schedd, cluster, proc) for cluster, proc, schedd in page]


def asked_until(con: Connection, schedd: str) -> int | None:
    """Until when condor_history was asked for a schedd, by `--run`."""
    row = con.execute("SELECT AskedUntil FROM HTCondorProgress WHERE Schedd = ?", (schedd,)).fetchone()
    return None if row is None else row[0]


def ask_until(con: Connection, schedd: str, until: int) -> None:
    """Remember that."""
    con.execute(
        "INSERT INTO HTCondorProgress (Schedd, AskedUntil) VALUES (?, ?)"
        " ON CONFLICT (Schedd) DO UPDATE SET AskedUntil = excluded.AskedUntil",
        (schedd, until),
    )


# A job of HTCondor's as a whole job, and what A-REX calls it.
#
# A-REX knows a job by its cluster and the host that it submitted on (``123.ce.example.org``; older versions write
# ``123.condor``), and submits one job to each cluster.


LRMS = "condor"
"""As [lrms] of arc.conf has it."""
_TERM = 15
_SIGNALLED = 256
"""What A-REX adds to the number of a signal that ended a job."""


def local_job(job: CondorJob, site: BatchSite) -> Job:
    """The accounting record of a job."""
    whose = {"owner": job.user, "account": job.account, "project": job.project or job.account, "group": job.account}
    owner = batch_jobs.accounted_to({name: value or None for name, value in whose.items()}, site.rules)
    if not owner.vo:
        # No map line says whose it is: the credential that it was submitted with does.
        owner = _of_proxy(job) if job.vo or job.user_dn or job.fqan else _of_token(job)
    benchmark, source = (job.benchmark, "") if job.benchmark else site.benchmark(job.queue or None, job.end_time)
    names = node_names(job)
    return Job(
        batch_jobs.job_id("htcondor", job.schedd, job.number, job.queued),
        ABORTED if job.status == REMOVED else FAILED if exit_code(job) else COMPLETED,
        job.submit_time,
        job.end_time,
        local_job_id=job.number,
        endpoint_type=batch_jobs.LOCAL,
        queue=job.queue,
        **owner._asdict(),
        exit_code=exit_code(job),
        node_count=len(names) or None,
        core_count=job.cores,
        memory_kib=job.memory_kib,
        virtual_memory_kib=job.virtual_memory_kib,
        wall_s=job.wall_s,
        cpu_user_s=job.cpu_user_s,
        cpu_kernel_s=job.cpu_kernel_s,
        job_name=job.name or None,
        lrms=LRMS,
        node_names=names,
        local_user=job.user or None,
        project=job.project or job.account or None,
        benchmark=benchmark or None,
        extra=tuple(_extra(job)),
        events=(("LRMSSTART", job.start_time), ("LRMSEND", job.end_time)),
        field_sources=(("benchmark", source),) if benchmark and source else (),
    )


def _of_proxy(job: CondorJob) -> batch_jobs.Owner:
    return batch_jobs.Owner(job.vo, job.user_dn, (("mainfqan", job.fqan),) if job.fqan else ())


def _of_token(job: CondorJob) -> batch_jobs.Owner:
    """
    The user by issuer and subject, as A-REX 7 names him, and the VO by the first group.

    Groups are in the order in which the user asked for them, and the first is the one that he works for (WLCG Common
    JWT Profile 1.0, `wlcg.groups`). What A-REX submitted has a token of A-REX's own.
    """
    if not job.token_subject or job.queue:
        return batch_jobs.Owner()
    issuer = job.token_issuer.rstrip("/")
    user = f"{issuer}/{job.token_subject}" if issuer else job.token_subject
    group = job.token_groups.partition(",")[0].strip()
    # Anything else may name a person.
    found = None if "=" in group else parsed_fqan(group)
    return batch_jobs.Owner("", user) if found is None else batch_jobs.Owner(found.vo, user, (("mainfqan", group),))


def node_names(job: CondorJob) -> tuple[str, ...]:
    """The nodes of its last run, without their slots: ``slot1_3@node.example.org``."""
    names = (slot.strip().rpartition("@")[2] for slot in job.hosts.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def exit_code(job: CondorJob) -> int | None:
    """The exit status; of a job that a signal ended its number and 256, as A-REX has it; never 0 of one removed."""
    code = _SIGNALLED + job.exit_signal if job.exit_signal else job.exit_status
    return code or _TERM if job.status == REMOVED else code


def _extra(job: CondorJob) -> list[tuple[str, str]]:
    """What A-REX has no key for."""
    found = {
        "account": job.account if job.account != (job.project or job.account) else "",
        "gpus": str(job.gpus) if job.gpus else "",
        "jobstarts": str(job.starts) if (job.starts or 0) > 1 else "",
        "schedd": job.schedd,
    }
    return [(key, value) for key, value in found.items() if value]


def cluster_of(local_job_id: str) -> int | None:
    """The cluster that A-REX's LocalJobID names; ``None``: it is none of HTCondor."""
    number, _, place = local_job_id.partition(".")
    if not (number.isascii() and number.isdecimal() and len(number) < 16):
        return None
    return None if place.isdecimal() and int(place) else int(number)


def may_be_of(local_job_id: str, job: CondorJob) -> bool:
    """
    Whether A-REX's job with this LocalJobID may be this one: its cluster, from the host of its schedd.

    A job that A-REX submitted says so (NordugridQueue): then the host may be called otherwise.
    """
    if job.proc or cluster_of(local_job_id) != job.cluster:
        return False
    return bool(job.queue) or same_host(local_job_id.partition(".")[2], job.schedd)


def same_host(place: str, schedd: str) -> bool:
    """Whether what stands behind the cluster may be the host of a schedd (``name@host`` or ``host``)."""
    host = place.lower()
    if host in ("", "0", "condor"):
        return True
    other = schedd.rpartition("@")[2].lower()
    return host == other or (host.partition(".")[0] == other.partition(".")[0] and not ("." in host and "." in other))


# A slice of HTCondor's jobs into the database, and the records that they change, in one transaction.
#
# What is kept of a job is what all outputs together say of it, so it does not matter in which order they come, or how
# often; what is made again and is the same writes nothing and logs nothing.


LRMS_NAMES = ("condor", "htcondor")

Known = dict[tuple[int, int], dict[int, KeptJob]]
"""By cluster and process, and when they were queued."""


class _JobsSlice(BatchSlice):
    def __init__(self, con: Connection, policy: BatchPolicy) -> None:
        super().__init__(con, policy, HTCONDOR, LRMS_NAMES)
        self.next_no = next_job_no(con)
        self.kept: dict[int, KeptJob] = {}
        """By JobNo, as they are in the database."""
        self.now: dict[int, KeptJob] = {}
        """As they have to be."""
        self.writes: dict[str, list[tuple[Job, KeptJob]]] = {}
        """By schedd."""

    def known(self, schedd: str, numbers: Iterable[tuple[int, int]]) -> Known:
        """What is kept of some numbers of a schedd."""
        found: Known = {}
        for one in of_jobs(self.con, schedd, numbers):
            self.kept[one.job_no] = self.now[one.job_no] = one
            found.setdefault((one.job.cluster, one.job.proc), {})[one.job.queued] = one
        return found

    def add(self, job: CondorJob, known: dict[int, KeptJob]) -> bool:
        """Put a job among those that are kept of its number; whether that changed anything."""
        old = known.get(job.queued)
        if old is None:
            one = KeptJob(self.next_no, None, job)
            self.next_no += 1
            self.taken = self.taken._replace(new=self.taken.new + 1)
        else:
            one = old._replace(job=joined(old.job, job))
            self.taken = self.taken._replace(known=self.taken.known + 1)
        known[job.queued] = self.now[one.job_no] = one
        if old is not None and old.job.token_subject is None:
            # Recorded, and perhaps published, before tokens were read: `--derive-again` says whose it is by its token.
            return one.job.without_token != old.job.without_token
        return one != old

    def record_of_arc(self, one: CondorJob, job: Job) -> int | None:
        """The record of A-REX's that a job is."""
        if not self.has_arc_jobs:
            return None
        found = batch_jobs.arc_jobs_called(self.con, str(one.cluster), job, LRMS_NAMES)
        return next((record_id for record_id, name in found if may_be_of(name, one)), None)

    def make(self, one: KeptJob) -> None:
        """The record of a job."""
        one = self.now[one.job_no]
        job = local_job(one.job, self.policy.site)
        record_id = self.record_of_arc(one.job, job)
        if record_id is not None:
            self._complete(record_id, job, one)
        elif one.record_id is not None and not self.existing([one.record_id]):
            self.taken = self.taken._replace(pruned=self.taken.pruned + 1)
        elif one.record_id is None and not one.job.proc and self.waits(job):
            self.taken = self.taken._replace(waiting=self.taken.waiting + 1)
        else:
            self.writes.setdefault(one.job.schedd, []).append((job, one))

    def _complete(self, record_id: int, job: Job, one: KeptJob) -> None:
        """Give a record of A-REX's what HTCondor measured; one that was made of the job before goes."""
        self.enrich(record_id, job)
        if one.record_id not in (None, record_id):
            before = self.existing([one.record_id])
            remove(self.con, [number for number, (_, source) in before.items() if source == HTCONDOR])
        self._link(one, record_id)

    def _link(self, one: KeptJob, record_id: int) -> None:
        self.now[one.job_no] = self.now[one.job_no]._replace(record_id=record_id)

    def write(self) -> BatchTaken:
        """Write everything that was planned."""
        for schedd, some in self.writes.items():
            written = JobWriter(self.con, HTCONDOR, schedd).write([job for job, _ in some])
            for job, one in some:
                self._link(one, written.record_ids[job.job_id])
            self.taken = self.taken.plus(of_written(written))
        changed = [one for number, one in self.now.items() if number in self.kept and one != self.kept[number]]
        keep(self.con, [one for number, one in self.now.items() if number not in self.kept], changed)
        return self.taken


def take(con: Connection, policy: BatchPolicy, jobs: Sequence[CondorJob]) -> BatchTaken:
    """Write jobs and what they change; inside the caller's transaction."""
    by_schedd: dict[str, list[CondorJob]] = {}
    for job in jobs:
        by_schedd.setdefault(job.schedd, []).append(job)
    work = _JobsSlice(con, policy)
    for schedd, some in by_schedd.items():
        known = work.known(schedd, {(job.cluster, job.proc) for job in some})
        changed: dict[int, KeptJob] = {}
        for job in some:
            of_number = known.setdefault((job.cluster, job.proc), {})
            if work.add(job, of_number):
                one = of_number[job.queued]
                changed[one.job_no] = one
        for one in changed.values():
            work.make(one)
    return work.write()


def make_again(con: Connection, policy: BatchPolicy, numbers: Iterable[JobNumber]) -> BatchTaken:
    """Make these jobs again from what is kept of them; inside the caller's transaction."""
    by_schedd: dict[str, list[tuple[int, int]]] = {}
    for schedd, *number in numbers:
        by_schedd.setdefault(schedd, []).append((number[0], number[1]))
    work = _JobsSlice(con, policy)
    for schedd, some in by_schedd.items():
        for of_number in work.known(schedd, some).values():
            for one in of_number.values():
                work.make(one)
    return work.write()


# Importing HTCondor's history: files and outputs of any length, in slices that no hook waits for.
#
# A history is read whole, whenever it is imported: it is rotated at 20 MB, and what is known is known. A slice in which
# something fails is taken back and done again in halves, until the job is found: it alone is rejected.


QUARANTINE = "htcondor"


@dataclass
class HistoryReport(BatchReport):
    """What an import did."""

    jobs: int = 0
    """Ads that were read."""
    rejected: int = 0
    unfinished: int = 0
    never_started: int = 0
    elsewhere: int = 0
    """Jobs that took no slot of the pool."""


class HTCondorImport(BatchImport[JobNumber]):
    """
    One import: what it has done so far is in ``report``.

    ``say`` is told of what cannot be used (the first SHOWN), of histories that cannot be read, and of conflicts.
    """

    progress_of = ("HTCondorProgress", "Schedd")
    report: HistoryReport
    made = staticmethod(make_again)

    def __init__(
        self,
        here: Places,
        con: Connection,
        policy: BatchPolicy,
        form: HistoryForm,
        say: Say,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(here, con, policy, QUARANTINE, say, clock)
        self._form = form
        self.report = HistoryReport()

    def files(self, paths: Sequence[str]) -> None:
        """Import files, compressed or not, or ``-`` for standard input."""
        for reader in FileTailer(paths, self._cannot_read).once():
            self.output(reader.path, reader.chunks())

    def output(self, name: str, chunks: Iterable[bytes]) -> bool:
        """Import one history; whether it could be read to its end."""
        take_slice = partial(self._take, name)
        told = partial(read, chunks, self._form)
        return self._take_output(name, told, take_slice, lambda job, why: take_slice([job._replace(what=why)]))

    def ask(self, command: HistoryCommand, since: int | None) -> None:
        """
        Import what condor_history says of all time since the last asking, or ``since``.

        Raises UsageError when neither is known.
        """
        place = command.schedd or ""
        asked = asked_until(self._con, place)
        if since is None and asked is None:
            raise UsageError(
                "condor_history was never asked before: give --since, the day when your accounting is to begin"
            )
        start = since if since is not None else max(0, (asked or 0) - OVERLAP_S)
        now = int(self._clock())
        if self.output(command.program, command.ask(start, self._form.attributes)) and now > (asked or 0):
            with writing(self._con, self._here) as con:
                ask_until(con, place, now)

    def _take(self, name: str, jobs: Sequence[ParsedJob]) -> None:
        """One slice in one transaction."""
        good = [one.what for one in jobs if isinstance(one.what, CondorJob)]
        bad = [
            Reject(name, one.position, one.what, one.content, one.length) for one in jobs if isinstance(one.what, Fault)
        ]
        taken = BatchTaken()
        news: list[Reject] = []
        if good or bad:
            with writing(self._con, self._here) as con:
                begun = time.monotonic()
                taken = take(con, self._now(), good)
                news = self._quarantine.keep(bad)
                self._adapt(len(good), time.monotonic() - begun)
        for count, one in enumerate(news, self.report.news + 1):
            self._show(count, f"{one.file}: {one.position}: {one.fault.reason}; left out")
        self.report.news += len(news)
        unused = Counter(one.what.why for one in jobs if isinstance(one.what, NoUse))
        self.report.jobs += len(jobs)
        self.report.rejected += len(bad)
        self.report.unusable.update(name for one in jobs if isinstance(one.what, CondorJob) for name in one.unusable)
        self.report.unfinished += unused[UNFINISHED]
        self.report.never_started += unused[NEVER_STARTED]
        self.report.elsewhere += unused[ELSEWHERE_RUN]
        self._count(taken)

    def _cells(self) -> list[str]:
        return schedds(self._con)

    def _number_of(self, local_job_id: str) -> int | None:
        return cluster_of(local_job_id)

    def _numbered(self, cell: str, number: int) -> JobNumber:
        return cell, number, 0

    def _pages(self, *, waiting: bool) -> Iterator[list[JobNumber]]:
        return waiting_jobs(self._con) if waiting else all_jobs(self._con)

    def _called(self, job: JobNumber) -> str:
        schedd, cluster, proc = job
        return f"job {cluster}.{proc} of {schedd}: cannot be made from what is kept of it"

    def _once_more(self, kept: RejectedEntry, content: bytes) -> None:
        found = [one.what for one in read([content], self._form)]
        for one in found:
            if isinstance(one, Fault):
                raise InputError(one.reason)
        with writing(self._con, self._here) as con:
            taken = take(con, self._now(), [one for one in found if isinstance(one, CondorJob)])
            forget(con, [kept.rejected_id])
        self._count(taken)


# What HTCondor's history says of a span of time, job by job, to be compared with what is recorded.


def of_file(path: str, form: HistoryForm, start: int, end: int) -> Iterator[Figures]:
    """
    The jobs of a history that ended at or after ``start`` and before ``end``, UTC seconds.

    Raises InputError when it cannot be read, and after the rest when some of it cannot be used: what is compared with
    it would be no measure.
    """
    with Reader(path) as reader:
        try:
            yield from _figures(reader.chunks(), form, start, end)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        if reader.complaint:
            raise InputError(reader.complaint)


def of_history(command: HistoryCommand, form: HistoryForm, start: int, end: int) -> Iterator[Figures]:
    """The same, by asking condor_history."""
    yield from _figures(command.ask(max(0, start - OVERLAP_S), form.attributes), form, start, end)


def _figures(chunks: Iterable[bytes], form: HistoryForm, start: int, end: int) -> Iterator[Figures]:
    seen: set[tuple[str, int, int, int]] = set()
    bad = 0
    for one in (told.what for told in read(chunks, form)):
        if isinstance(one, Fault):
            bad += 1
        elif isinstance(one, CondorJob) and start <= one.end_time < end and one.key not in seen:
            seen.add(one.key)
            yield of_job(one)
    if bad:
        raise InputError(f"{count_of(bad, 'job')} not usable; `arcacct import htcondor` says why")


def of_job(job: CondorJob) -> Figures:
    """What is compared of a job."""
    # A job of A-REX's says so, and then its host may be called otherwise than the schedd.
    return figures(local_job(job, BatchSite()))._replace(place="" if job.queue else job.schedd)
