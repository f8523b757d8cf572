"""
A month in every place that has it, side by side: control directory, database, A-REX's own database, ledger, sync
message, EGI's portal.

The database is the measure. What another place has otherwise is explained job by job, where it is known by job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from arcacct.arex.control_files import read_job, read_status_file
from arcacct.arex.facts import job_facts
from arcacct.arex.layout import is_job_id, scan_status_files
from arcacct.arex.sweeping import printable, reason
from arcacct.asking import story
from arcacct.asking.arex_month import arex_month
from arcacct.asking.portal import compare_portal
from arcacct.conf.settings import Settings
from arcacct.conf.targets import Target
from arcacct.db import lives
from arcacct.db.engine import Connection
from arcacct.db.lives import MEANING
from arcacct.errors import InputError, StoreError
from arcacct.jobs import reading
from arcacct.jobs.cells import usage_cells
from arcacct.publishing import given, held, ledger, months, sent
from arcacct.publishing.digests import digests_of
from arcacct.publishing.floor import held_text
from arcacct.publishing.instants import Month, month_bounds
from arcacct.publishing.ledger import COUNTS, SentSum
from arcacct.publishing.plug import Plug
from arcacct.publishing.selection import names_in_doubt
from arcacct.publishing.target_run import Databases
from arcacct.publishing.unsettled import unsettled
from arcacct.targets import plugs

_HOUR_S = 3600
_LOCKED_S = 2.0
"""How long a .local may be locked by somebody else before its job is left out."""


class Source(NamedTuple):
    """What one place has of the month; ``None`` is not known there."""

    name: str
    jobs: int | None
    wall_s: int | None
    cpu_s: int | None
    agrees: bool
    proof: str = ""
    """How far a receiver's figures are known: ``stored`` (it named each record), ``handed to AMS``, ``written``."""


class Deviation(NamedTuple):
    """What one place has otherwise than the database, and why."""

    source: str
    job_id: str | None
    """``None``: not known by job."""
    text: str


class MonthReport(NamedTuple):
    """The whole comparison."""

    sources: list[Source]
    differences: list[Deviation]

    @property
    def agrees(self) -> bool:
        """Whether every place has what the database has."""
        return all(source.agrees for source in self.sources)

    def add(self, source: Source, differences: list[Deviation]) -> None:
        """One more place."""
        self.sources.append(source)
        self.differences.extend(differences)


class _Job(NamedTuple):
    """What is compared of a job."""

    wall_s: int
    cpu_s: int
    vo: str | None
    digests: tuple[bytes, ...]
    """In every version of the digest: whole records of a large month would fill the memory. Empty: not known."""
    record_id: int
    end_time: int


def verify(
    settings: Settings, accounting: Connection, publishing: Connection, month: Month, portal: Sequence[str] = ()
) -> MonthReport:
    """
    Compare everything that there is of a month (of end times, UTC); ``portal`` are CSV exports of the portal.

    Raises InputError for an export that cannot be read, StoreError when a database cannot.
    """
    both = Databases(accounting, publishing)
    jobs = {
        aar.job_id: _Job(aar.wall_s, aar.cpu_s, aar.vo, digests_of(aar), aar.record_id, aar.end_time)
        for page in reading.ended_between(accounting, *month_bounds(*month))
        for aar in page
    }
    unknown = [Deviation("database", *one) for one in unsettled(settings.places, accounting, month)]
    report = MonthReport([_source("database", list(jobs.values()), agrees=not unknown)], unknown)
    report.add(*_control_directory(settings, jobs, month))
    for one in _arex(settings, accounting, jobs, month):
        report.add(*one)
    for doubt in lives.doubts(lives.known(accounting, publishing, rehearsing=settings.places.rehearsal is not None)):
        report.add(Source("ledger", None, None, None, agrees=False), [Deviation("ledger", None, MEANING[doubt])])
    for plug in plugs(settings):
        for one in _target(plug, both, jobs, month):
            report.add(*one)
    for path in portal:
        found = compare_portal(path, month, usage_cells(accounting, [month]))
        name, amount = f"portal {found.measure}", round(found.found)
        what = f"{found.found:.0f} {found.measure}, in the database {found.ours:.0f}"
        differences = [Deviation(name, None, text) for text in (what, *found.differences)] if found.differences else []
        count, hours = (amount, None) if found.measure == "jobs" else (None, amount * _HOUR_S)
        wall_s, cpu_s = (None, hours) if "CPU" in found.measure else (hours, None)
        report.add(Source(name, count, wall_s, cpu_s, agrees=not differences, proof="confirmed"), differences)
    return report


def _source(name: str, jobs: list[_Job], *, agrees: bool) -> Source:
    return Source(name, len(jobs), sum(job.wall_s for job in jobs), sum(job.cpu_s for job in jobs), agrees)


def _control_directory(settings: Settings, jobs: dict[str, _Job], month: Month) -> tuple[Source, list[Deviation]]:
    """A-REX removes files of old jobs: it may have fewer jobs than the database, but none that is not there."""
    name = "control directory"
    found: list[_Job] = []
    differences: list[Deviation] = []
    try:
        for job_id, job in _control_jobs(settings, month, differences):
            found.append(job)
            ours = jobs.get(job_id)
            if ours is None:
                text = "finished, and not in the database with this end: `arcacct sweep` records it"
                differences.append(Deviation(name, job_id, text))
            elif (ours.wall_s, ours.cpu_s) != (job.wall_s, job.cpu_s):
                text = f"wall {job.wall_s} s and CPU {job.cpu_s} s, in the database {ours.wall_s} s and {ours.cpu_s} s"
                differences.append(Deviation(name, job_id, text))
    except OSError as error:
        differences.append(Deviation(name, None, f"{error.filename}: cannot be read: {error.strerror}"))
        return Source(name, None, None, None, agrees=False), differences
    return _source(name, found, agrees=not differences), differences


def _control_jobs(settings: Settings, month: Month, differences: list[Deviation]) -> Iterator[tuple[str, _Job]]:
    start, end = month_bounds(*month)

    def wrong(job_id: str, path: str, error: Exception) -> None:
        differences.append(Deviation("control directory", printable(job_id), printable(reason(error, path))))

    for job_id, path, stat in scan_status_files(settings.places.controldir, wrong):
        if "/finished/" not in path or not start <= stat.st_mtime < end:
            continue
        try:
            if not is_job_id(job_id):
                raise InputError(f"{path}: not a status file of A-REX, by its name")  # noqa: TRY301  as any other
            status = read_status_file(path)
            if status is None or status.state != "FINISHED":
                continue
            files = read_job(settings.places.controldir, job_id, status.state, lambda _stat: "", _LOCKED_S, status)
            usage = job_facts(files, settings.places.rules).usage
        except Exception as error:  # noqa: BLE001  whatever it is, the other jobs are compared
            wrong(job_id, path, error)
            continue
        if usage is not None:
            cpu_s = usage.cpu_user_s + usage.cpu_kernel_s
            yield job_id, _Job(usage.wall_s, cpu_s, None, (), 0, usage.end_time)


def _arex(
    settings: Settings, con: Connection, jobs: dict[str, _Job], month: Month
) -> Iterator[tuple[Source, list[Deviation]]]:
    """
    A-REX may have fewer jobs (it loses some, and knows no other sources), but none that is not in the database.

    That it cannot be asked now says nothing of the month.
    """
    name = "A-REX's database"
    try:
        found = arex_month(settings.places, con, month, {job_id: job.wall_s for job_id, job in jobs.items()})
    except (InputError, StoreError) as error:
        yield Source(name, None, None, None, agrees=True), [Deviation(name, None, f"cannot be compared now: {error}")]
        return
    if found is None:
        return
    differences = [Deviation(name, *one) for one in found.missing]
    notes = [Deviation(name, None, text) for text in found.notes]
    yield Source(name, found.jobs, found.wall_s, found.cpu_s, agrees=not differences), [*differences, *notes]


def _target(
    plug: Plug, both: Databases, jobs: dict[str, _Job], month: Month
) -> Iterator[tuple[Source, list[Deviation]]]:
    """What the ledger says that a receiver was given: its jobs or its sums, and the counts of the sync message."""
    target = plug.target
    wanted = {job_id: job for job_id, job in jobs.items() if target.wants(job.vo)}
    missing = _Reasons(both, target, month, jobs)
    known = months.published(both.publishing, target.block).get(month)
    kind = plug.kind if known is None else known.kind
    if plug.has_records(kind):
        source, differences = _delivered(plug, both, wanted, month, missing)
    else:
        source, differences = _sums(f"{target.name} {kind}", both, target, month, kind, wanted, missing)
    # Why nobody can say that the receiver has what it should have.
    doubts = []
    if held_month := months.held_month(both.publishing, target.block, month):
        doubts.append(held_text(held_month))
    if in_doubt := names_in_doubt(both.accounting, both.publishing, plug):
        doubts.append(in_doubt)
    elif lives.doubt_seq(both.publishing, target.block) is not None:
        doubts.append(
            "an older ledger was put back: what was sent since is unknown until the next run has sent it again"
        )
    open_questions = [Deviation(source.name, None, text) for text in doubts]
    yield (
        source._replace(proof=plug.proof, agrees=source.agrees and not open_questions),
        [*open_questions, *differences],
    )
    if plug.counts is not None:
        # It tells the receiver how many jobs it was given.
        name = f"{target.name} sync"
        said = sum(one.jobs for one in _live_sums(both, target, month, COUNTS))
        missed = not source.jobs and bool(wanted)
        counted = "and the database has some" if missed else f"{source.jobs or 'none'} were given"
        text = f"announces {said} jobs, {counted}"
        differences = [] if said == source.jobs and not missed else [Deviation(name, None, text)]
        yield Source(name, said, None, None, agrees=not differences, proof=plug.proof), differences


def _live_sums(both: Databases, target: Target, month: Month, kind: str) -> list[SentSum]:
    """The sums of a kind that a receiver has of a month, without those in doubt."""
    unanswered = sent.unanswered_keys(both.publishing, target.block)
    live = sent.live_sums(both.publishing, target.block, *month)
    return [one for found, one in live if found == kind and one.key not in unanswered]


class _Reasons:
    """Why a target has not got a job, or has one that it should not have."""

    def __init__(self, both: Databases, target: Target, month: Month, jobs: dict[str, _Job]) -> None:
        start, end = month_bounds(*month)
        self._jobs = jobs
        self._month_is_held = months.held_month(both.publishing, target.block, month) is not None
        self.held = {
            one.job_id: one
            for one in held.set_aside(both.publishing, target=target.block)
            if start <= one.end_time < end
        }
        self._both = both
        self._cursor = ledger.cursor(both.publishing, target.block)

    def of(self, job_id: str, job: _Job) -> str:
        """The reason of one job."""
        if job_id in self.held:
            return f"{self.held[job_id].state}: {self.held[job_id].reason}"
        if self._cursor is None:
            return "not sent: the target never published"
        if job.end_time < self._cursor.start_end_time:
            return "not sent: it ended before the target began; `arcacct republish` sends it"
        seq = story.seq_of(self._both.accounting, job.record_id)
        if self._month_is_held:
            return "waits: its month is held"
        if seq is not None and seq > self._cursor.last_seq:
            return "waits for the next run"
        return "not sent, for a reason that the ledger does not know; `arcacct republish` sends it"

    def gone(self, job_id: str) -> str:
        """The reason of one that was sent and is not wanted."""
        if job_id in self._jobs:
            return "sent, and vofilter does not select it any more"
        return "sent, and not in the database with an end in this month any more"


def _delivered(
    plug: Plug, both: Databases, wanted: dict[str, _Job], month: Month, reasons: _Reasons
) -> tuple[Source, list[Deviation]]:
    target = plug.target
    unanswered = sent.unanswered_keys(both.publishing, target.block)
    has = {
        one.job_id: one
        for one in sent.live_versions(both.publishing, target.block, plug.record_kinds, month_bounds(*month))
        if one.key not in unanswered
    }
    differences = [
        Deviation(target.name, job_id, reasons.of(job_id, job)) for job_id, job in wanted.items() if job_id not in has
    ]
    same = []
    for job_id, one in has.items():
        job = wanted.get(job_id)
        if job is None:
            differences.append(Deviation(target.name, job_id, reasons.gone(job_id)))
        elif one.digest not in job.digests:
            differences.append(Deviation(target.name, job_id, "changed since it was sent: " + reasons.of(job_id, job)))
        else:
            same.append(job)
    # What it was given is known by its wall time; the CPU time only where that is the database's.
    counted = given.is_counted(both.publishing, target.block)
    wall_s = sum(one.wall_s for one in has.values()) if counted else None
    cpu_s = sum(job.cpu_s for job in same) if len(same) == len(has) else None
    return Source(target.name, len(has), wall_s, cpu_s, agrees=not differences), differences


def _sums(
    name: str, both: Databases, target: Target, month: Month, kind: str, wanted: dict[str, _Job], reasons: _Reasons
) -> tuple[Source, list[Deviation]]:
    """Sums are known by how many jobs they stand for, and how long these ran; who is missing, as far as it is known."""
    live = _live_sums(both, target, month, kind)
    jobs = sum(one.jobs for one in live)
    known = [one.wall_s for one in live if one.wall_s is not None]
    wall_s = sum(known) if len(known) == len(live) else None
    ours, ours_s = len(wanted), sum(job.wall_s for job in wanted.values())
    if jobs == ours and wall_s in (None, ours_s):
        return Source(name, jobs, wall_s, None, agrees=True), []
    text = f"{jobs} jobs, in the database {ours}"
    if jobs == ours and wall_s is not None:
        text = f"{wall_s / _HOUR_S:.3f} h of wall time, in the database {ours_s / _HOUR_S:.3f} h"
    differences = [Deviation(name, None, text)]
    for job_id, job in wanted.items():
        reason = reasons.of(job_id, job)
        if job_id in reasons.held or reason.startswith("waits"):
            differences.append(Deviation(name, job_id, reason))
    return Source(name, jobs, wall_s, None, agrees=False), differences
