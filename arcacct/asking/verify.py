"""
A month in every place that has it, side by side: control directory, database, A-REX's own database, ledger, sync
message, EGI's portal.

The database is the measure. What another place has otherwise is explained job by job, where it is known by job.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import NamedTuple

from arcacct.arex import database as arex_database
from arcacct.arex import own
from arcacct.arex.control_files import read_job, read_status_file
from arcacct.arex.facts import job_facts
from arcacct.arex.importing import Archives, import_lock, settled_before
from arcacct.arex.layout import is_job_id, scan_status_files
from arcacct.arex.own import Ended
from arcacct.arex.sweeping import batches, printable, reason
from arcacct.asking.portal import compare_portal
from arcacct.asking.why import seq_of
from arcacct.conf.places import Places
from arcacct.conf.settings import Settings
from arcacct.db import lives, opening
from arcacct.db.engine import Connection
from arcacct.db.lives import MEANING
from arcacct.errors import InputError, StoreError
from arcacct.jobs import reading
from arcacct.jobs.cells import usage_cells
from arcacct.jobs.states import ABORTED, IN_PROGRESS
from arcacct.jobs.writing import known_jobs
from arcacct.publishing import given, held, ledger, months, sent
from arcacct.publishing.digests import digests_of
from arcacct.publishing.floor import held_text
from arcacct.publishing.instants import Month, iso, month_bounds
from arcacct.publishing.ledger import COUNTS, SentSum
from arcacct.publishing.plug import Plug
from arcacct.publishing.selection import names_in_doubt
from arcacct.publishing.unsettled import unsettled
from arcacct.targets import plugs

_HOUR_S = 3600
_LOCKED_S = 2.0
"""How long a .local may be locked by somebody else before its job is left out."""
_PATIENCE_S = 20.0
"""How long to wait for a moment in which A-REX does not write."""
_LOOKED_UP_JOBS = 500
_TODO = "`arcacct import arex` takes it over"


class Source(NamedTuple):
    """What one place has of the month; ``None`` is not known there."""

    name: str
    jobs: int | None = None
    wall_s: int | None = None
    cpu_s: int | None = None
    agrees: bool = True
    proof: str = ""
    """How far a receiver's figures are known: ``stored`` (it named each record), ``handed to AMS``, ``written``."""


class Deviation(NamedTuple):
    """What one place has otherwise than the database, and why."""

    source: str
    job_id: str | None
    """``None``: not known by job."""
    text: str


_Findings = list[tuple[str | None, str]]
"""What is otherwise at a place: job id and text."""


class MonthReport(NamedTuple):
    """The whole comparison."""

    sources: list[Source]
    differences: list[Deviation]

    @property
    def agrees(self) -> bool:
        """Whether every place has what the database has."""
        return all(source.agrees for source in self.sources)

    def add(self, source: Source, found: Iterable[tuple[str | None, str]] = (), *notes: str) -> None:
        """
        One more place, which agrees if nothing was ``found``: job id (``None``: not known by job) and text of each.

        ``notes`` are no differences, but worth to be known.
        """
        differences = [Deviation(source.name, *one) for one in found]
        self.sources.append(source._replace(agrees=not differences))
        self.differences.extend((*differences, *(Deviation(source.name, None, text) for text in notes)))


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
    jobs = {
        aar.job_id: _Job(aar.wall_s, aar.cpu_s, aar.vo, digests_of(aar), aar.record_id, aar.end_time)
        for page in reading.ended_between(accounting, *month_bounds(*month))
        for aar in page
    }
    report = MonthReport([], [])
    report.add(_source("database", jobs.values()), unsettled(settings.places, accounting, month))
    _control_directory(report, settings, jobs, month)
    _arex(report, settings.places, accounting, jobs, month)
    for doubt in lives.doubts(lives.known(accounting, publishing, rehearsing=settings.places.rehearsal is not None)):
        report.add(Source("ledger"), [(None, MEANING[doubt])])
    for plug in plugs(settings):
        _AtTarget(plug, accounting, publishing, jobs, month).compare(report)
    for path in portal:
        found = compare_portal(path, month, usage_cells(accounting, [month]))
        amount = round(found.found)
        count, hours = (amount, None) if found.measure == "jobs" else (None, amount * _HOUR_S)
        wall_s, cpu_s = (None, hours) if "CPU" in found.measure else (hours, None)
        what = f"{found.found:.0f} {found.measure}, in the database {found.ours:.0f}"
        texts = (what, *found.differences) if found.differences else ()
        source = Source(f"portal {found.measure}", count, wall_s, cpu_s, proof="confirmed")
        report.add(source, [(None, text) for text in texts])
    return report


def _source(name: str, jobs: Collection[_Job]) -> Source:
    return Source(name, len(jobs), sum(job.wall_s for job in jobs), sum(job.cpu_s for job in jobs))


def _control_directory(report: MonthReport, settings: Settings, jobs: dict[str, _Job], month: Month) -> None:
    """A-REX removes files of old jobs: it may have fewer jobs than the database, but none that is not there."""
    name = "control directory"
    found: list[_Job] = []
    differences: _Findings = []
    try:
        for job_id, job in _control_jobs(settings, month, differences):
            found.append(job)
            ours = jobs.get(job_id)
            if ours is None:
                text = "finished, and not in the database with this end: `arcacct sweep` records it"
                differences.append((job_id, text))
            elif (ours.wall_s, ours.cpu_s) != (job.wall_s, job.cpu_s):
                text = f"wall {job.wall_s} s and CPU {job.cpu_s} s, in the database {ours.wall_s} s and {ours.cpu_s} s"
                differences.append((job_id, text))
    except OSError as error:
        report.add(Source(name), [*differences, (None, f"{error.filename}: cannot be read: {error.strerror}")])
    else:
        report.add(_source(name, found), differences)


def _control_jobs(settings: Settings, month: Month, differences: _Findings) -> Iterator[tuple[str, _Job]]:
    start, end = month_bounds(*month)

    def wrong(job_id: str, path: str, error: Exception) -> None:
        differences.append((printable(job_id), printable(reason(error, path))))

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


def _arex(report: MonthReport, here: Places, con: Connection, jobs: dict[str, _Job], month: Month) -> None:
    """
    A-REX may have fewer jobs (it loses some, and knows no other sources), but none that is not in the database.

    That it cannot be asked now says nothing of the month.
    """
    paths = own.own_databases(here)
    if not paths:
        return
    name = "A-REX's database"
    count = wall_s = cpu_s = archived = 0
    missing: _Findings = []
    seen: set[str] = set()
    try:
        with closing(Archives(con)) as archives:
            for page in (page for path in paths for page in _pages(here, path, month)):
                ended = {job_id: one for job_id, one in page.items() if job_id not in seen}
                if len(paths) > 1:
                    seen.update(ended)
                count += len(ended)
                wall_s += sum(one.wall_s for one in ended.values())
                cpu_s += sum(one.cpu_s for one in ended.values())
                for job_id, one in ended.items():
                    if job_id in jobs and jobs[job_id].wall_s < one.wall_s:
                        text = f"wall {one.wall_s} s, in the database {jobs[job_id].wall_s} s"
                        missing.append((job_id, f"{text}; `arcacct job info` shows what ours is from"))
                absent = [(job_id, one) for job_id, one in ended.items() if job_id not in jobs]
                for some in map(dict, batches(absent, _LOOKED_UP_JOBS)):
                    put_away = archives.archived(con, {job_id: one.end_time for job_id, one in some.items()})
                    archived += len(put_away)
                    missing.extend(_absent(con, some, put_away))
    except (InputError, StoreError) as error:
        report.add(Source(name), (), f"cannot be compared now: {error}")
        return
    notes = [f"{archived} of its jobs are in an archive of `arcacct db prune`: no difference"] if archived else []
    report.add(Source(name, count, wall_s, cpu_s), missing, *notes)


def _pages(here: Places, path: str, month: Month) -> Iterator[dict[str, Ended]]:
    with ExitStack() as stack:
        if os.access(here.directory, os.W_OK):
            workspace = here.directory
            stack.enter_context(import_lock(os.path.join(workspace, "import.lock")))
        else:
            workspace = stack.enter_context(tempfile.TemporaryDirectory(prefix="arcacct-"))
        database = stack.enter_context(arex_database.opened(path, workspace, patience_s=_PATIENCE_S))
        with opening.translating(path):
            yield from own.ended_between(database, *month_bounds(*month), settled_before())


def _absent(con: Connection, ended: Mapping[str, Ended], archived: set[str]) -> Iterator[tuple[str, str]]:
    """Of jobs that do not end in this month here: those that do not end at all, and are not put away either."""
    known = known_jobs(con, list(ended))
    for job_id, one in ended.items():
        ours = known.get(job_id)
        if ours is None and job_id not in archived:
            yield job_id, f"ended there at {iso(one.end_time)}, and is not in the database: {_TODO}"
        elif ours is not None and ours.status in (IN_PROGRESS, ABORTED):
            yield job_id, f"ended there at {iso(one.end_time)}, and is {ours.status} in the database: {_TODO}"


class _AtTarget:
    """What the ledger says that a receiver was given of a month, and why it lacks a job, or has one too many."""

    def __init__(
        self, plug: Plug, accounting: Connection, publishing: Connection, jobs: dict[str, _Job], month: Month
    ) -> None:
        start, end = month_bounds(*month)
        self._plug = plug
        self._block = plug.target.block
        self._accounting = accounting
        self._ledger = publishing
        self._jobs = jobs
        self._wanted = {job_id: job for job_id, job in jobs.items() if plug.target.wants(job.vo)}
        self._month = month
        self._held_month = months.held_month(publishing, self._block, month)
        self._aside = {
            one.job_id: one for one in held.set_aside(publishing, target=self._block) if start <= one.end_time < end
        }
        self._cursor = ledger.cursor(publishing, self._block)
        self._unanswered = sent.unanswered_keys(publishing, self._block)

    def compare(self, report: MonthReport) -> None:
        """Its jobs or its sums, and the counts of the sync message."""
        plug = self._plug
        known = months.published(self._ledger, self._block).get(self._month)
        kind = plug.kind if known is None else known.kind
        source, differences = self._delivered() if plug.has_records(kind) else self._sums(kind)
        # Why nobody can say that the receiver has what it should have.
        doubts = [] if self._held_month is None else [held_text(self._held_month)]
        if in_doubt := names_in_doubt(self._accounting, self._ledger, plug):
            doubts.append(in_doubt)
        elif lives.doubt_seq(self._ledger, self._block) is not None:
            doubts.append(
                "an older ledger was put back: what was sent since is unknown until the next run has sent it again"
            )
        report.add(source._replace(proof=plug.proof), [*((None, text) for text in doubts), *differences])
        if plug.counts is not None:
            # It tells the receiver how many jobs it was given.
            said = sum(one.jobs for one in self._live_sums(COUNTS))
            missed = not source.jobs and bool(self._wanted)
            counted = "and the database has some" if missed else f"{source.jobs or 'none'} were given"
            wrong = [] if said == source.jobs and not missed else [(None, f"announces {said} jobs, {counted}")]
            report.add(Source(f"{plug.target.name} sync", said, proof=plug.proof), wrong)

    def _live_sums(self, kind: str) -> list[SentSum]:
        """The sums of a kind that the receiver has, without those in doubt."""
        live = sent.live_sums(self._ledger, self._block, *self._month)
        return [one for found, one in live if found == kind and one.key not in self._unanswered]

    def _why_not(self, job_id: str, job: _Job) -> str:
        """Why it has not got a job."""
        if job_id in self._aside:
            return f"{self._aside[job_id].state}: {self._aside[job_id].reason}"
        if self._cursor is None:
            return "not sent: the target never published"
        if job.end_time < self._cursor.start_end_time:
            return "not sent: it ended before the target began; `arcacct republish` sends it"
        if self._held_month is not None:
            return "waits: its month is held"
        seq = seq_of(self._accounting, job.record_id)
        if seq is not None and seq > self._cursor.last_seq:
            return "waits for the next run"
        return "not sent, for a reason that the ledger does not know; `arcacct republish` sends it"

    def _delivered(self) -> tuple[Source, _Findings]:
        has = {
            one.job_id: one
            for one in sent.live_versions(
                self._ledger, self._block, self._plug.record_kinds, month_bounds(*self._month)
            )
            if one.key not in self._unanswered
        }
        differences: _Findings = [
            (job_id, self._why_not(job_id, job)) for job_id, job in self._wanted.items() if job_id not in has
        ]
        same = []
        for job_id, one in has.items():
            job = self._wanted.get(job_id)
            if job is not None and one.digest in job.digests:
                same.append(job)
            elif job is not None:
                differences.append((job_id, "changed since it was sent: " + self._why_not(job_id, job)))
            elif job_id in self._jobs:
                differences.append((job_id, "sent, and vofilter does not select it any more"))
            else:
                differences.append((job_id, "sent, and not in the database with an end in this month any more"))
        # What it was given is known by its wall time; the CPU time only where that is the database's.
        counted = given.is_counted(self._ledger, self._block)
        wall_s = sum(one.wall_s for one in has.values()) if counted else None
        cpu_s = sum(job.cpu_s for job in same) if len(same) == len(has) else None
        return Source(self._plug.target.name, len(has), wall_s, cpu_s), differences

    def _sums(self, kind: str) -> tuple[Source, _Findings]:
        """Sums are known by their jobs, and how long these ran; who is missing, as far as it is known."""
        live = self._live_sums(kind)
        jobs = sum(one.jobs for one in live)
        known = [one.wall_s for one in live if one.wall_s is not None]
        wall_s = sum(known) if len(known) == len(live) else None
        ours, ours_s = len(self._wanted), sum(job.wall_s for job in self._wanted.values())
        differences: _Findings = []
        if jobs != ours:
            differences.append((None, f"{jobs} jobs, in the database {ours}"))
        elif wall_s is not None and wall_s != ours_s:
            text = f"{wall_s / _HOUR_S:.3f} h of wall time, in the database {ours_s / _HOUR_S:.3f} h"
            differences.append((None, text))
        for job_id, job in self._wanted.items() if differences else ():
            why = self._why_not(job_id, job)
            if job_id in self._aside or why.startswith("waits"):
                differences.append((job_id, why))
        return Source(f"{self._plug.target.name} {kind}", jobs, wall_s), differences
