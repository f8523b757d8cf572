"""
A month in every place that has it, side by side: control directory, database, ledger, sync message, EGI's portal.

The database is the measure. What another place has otherwise is explained job by job, where it is known by job.
"""

from __future__ import annotations

import csv
import re
from _sqlite3 import Connection
from collections.abc import Iterator
from typing import NamedTuple

from arcacct.conf.settings import Settings
from arcacct.conf.targets import SGASTarget, Target
from arcacct.controldir.facts import job_facts
from arcacct.controldir.files import JobFiles, read_rest, read_status_file
from arcacct.controldir.layout import scan_status_files
from arcacct.errors import ArcacctError, InputError
from arcacct.publish.batches import digest
from arcacct.publish.families import APEL_JOB_KINDS, SYNC, UR, SummaryFamily, family_of, wants
from arcacct.publish.sums import Month, month_bounds
from arcacct.store import ledger, query, sent, story

_NAMES_OF_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NO_ROW = re.compile(r"\s*(total|percent(age)?|%)?\s*", re.IGNORECASE)


class Source(NamedTuple):
    """What one place has of the month; ``None`` is not known there."""

    name: str
    jobs: int | None
    wall_s: int | None
    cpu_s: int | None
    agrees: bool


class Difference(NamedTuple):
    """What one place has otherwise than the database, and why."""

    source: str
    job_id: str | None
    """``None``: not known by job."""
    text: str


class Report(NamedTuple):
    """The whole comparison."""

    sources: list[Source]
    differences: list[Difference]

    @property
    def agrees(self) -> bool:
        """Whether every place has what the database has."""
        return all(source.agrees for source in self.sources)


class _Job(NamedTuple):
    """What is compared of a job."""

    wall_s: int
    cpu_s: int
    vo: str | None
    digest: bytes
    record_id: int
    end_time: int


class _Both(NamedTuple):
    accounting: Connection
    publishing: Connection


def verify(
    settings: Settings, accounting: Connection, publishing: Connection, month: Month, portal: str | None = None
) -> Report:
    """
    Compare everything that there is of a month (of end times, UTC); ``portal`` is a CSV export with numbers of jobs.

    Raises InputError for an export that cannot be read, StoreError when a database cannot.
    """
    both = _Both(accounting, publishing)
    jobs = {
        aar.job_id: _Job(aar.wall_s, aar.cpu_s, aar.vo, digest(aar), aar.record_id, aar.end_time)
        for page in query.ended_between(accounting, *month_bounds(*month))
        for aar in page
    }
    report = Report([_source("database", list(jobs.values()), agrees=True)], [])
    _add(report, *_control_directory(settings, jobs, month))
    for target in settings.targets:
        for source, differences in _target(settings, target, both, jobs, month):
            _add(report, source, differences)
    if portal is not None:
        _add(report, *_portal(portal, month, len(jobs)))
    return report


def _add(report: Report, source: Source, differences: list[Difference]) -> None:
    report.sources.append(source)
    report.differences.extend(differences)


def _source(name: str, jobs: list[_Job], *, agrees: bool) -> Source:
    return Source(name, len(jobs), sum(job.wall_s for job in jobs), sum(job.cpu_s for job in jobs), agrees)


def _control_directory(settings: Settings, jobs: dict[str, _Job], month: Month) -> tuple[Source, list[Difference]]:
    """A-REX removes files of old jobs: it may have fewer jobs than the database, but none that is not there."""
    name = "control directory"
    found: list[_Job] = []
    differences: list[Difference] = []
    try:
        for job_id, job in _control_jobs(settings, month, differences):
            found.append(job)
            ours = jobs.get(job_id)
            if ours is None:
                text = "finished, and not in the database with this end: `arcacct sweep` records it"
                differences.append(Difference(name, job_id, text))
            elif (ours.wall_s, ours.cpu_s) != (job.wall_s, job.cpu_s):
                text = f"wall {job.wall_s} s and CPU {job.cpu_s} s, in the database {ours.wall_s} s and {ours.cpu_s} s"
                differences.append(Difference(name, job_id, text))
    except OSError as error:
        differences.append(Difference(name, None, f"{error.filename}: cannot be read: {error.strerror}"))
        return Source(name, None, None, None, agrees=False), differences
    return _source(name, found, agrees=not differences), differences


def _control_jobs(settings: Settings, month: Month, differences: list[Difference]) -> Iterator[tuple[str, _Job]]:
    start, end = month_bounds(*month)
    for job_id, path, stat in scan_status_files(settings.places.controldir):
        if "/finished/" not in path or not start <= stat.st_mtime < end:
            continue
        status = read_status_file(path)
        if status is None or status.state != "FINISHED":
            continue
        try:
            files = read_rest(JobFiles(settings.places.controldir, job_id, status.state), status, _anybody)
            usage = job_facts(files, settings.places.default_benchmark).usage
        except ArcacctError as error:
            differences.append(Difference("control directory", job_id, str(error)))
            continue
        if usage is not None:
            cpu_s = usage.cpu_user_s + usage.cpu_kernel_s
            yield job_id, _Job(usage.wall_s, cpu_s, None, b"", 0, usage.end_time)


def _anybody(_stat: object) -> str:
    return ""


def _target(
    settings: Settings, target: Target, both: _Both, jobs: dict[str, _Job], month: Month
) -> Iterator[tuple[Source, list[Difference]]]:
    """What the ledger says that a receiver has: its jobs or its sums, and the counts of the sync message."""
    wanted = {job_id: job for job_id, job in jobs.items() if wants(target, job.vo)}
    missing = _Reasons(both, target, month)
    if isinstance(family_of(target, settings), SummaryFamily):
        kind = family_of(target, settings).document.kind
        yield _sums(f"{target.name} {kind}", both, target, month, kind, wanted, missing)
    else:
        yield _delivered(target, both, wanted, month, missing)
    if not isinstance(target, SGASTarget):
        yield _sums(f"{target.name} sync", both, target, month, SYNC.kind, wanted, missing)


class _Reasons:
    """Why a target has not got a job."""

    def __init__(self, both: _Both, target: Target, month: Month) -> None:
        start, end = month_bounds(*month)
        self.held = {
            one.job_id: one
            for one in story.set_aside(both.publishing, target=target.block)
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
        if seq is not None and seq > self._cursor.last_seq:
            return "waits for the next run"
        return "not sent, for a reason that the ledger does not know; `arcacct republish` sends it"


def _delivered(
    target: Target, both: _Both, wanted: dict[str, _Job], month: Month, reasons: _Reasons
) -> tuple[Source, list[Difference]]:
    kinds = (UR.kind,) if isinstance(target, SGASTarget) else APEL_JOB_KINDS
    unanswered = sent.unanswered_keys(both.publishing, target.block)
    has = {
        one.job_id: one.digest
        for one in sent.live_versions(both.publishing, target.block, kinds, month_bounds(*month))
        if one.key not in unanswered
    }
    differences = [
        Difference(target.name, job_id, reasons.of(job_id, job)) for job_id, job in wanted.items() if job_id not in has
    ]
    for job_id, sent_digest in has.items():
        if job_id not in wanted:
            differences.append(Difference(target.name, job_id, "sent, and not in the database any more"))
        elif sent_digest != wanted[job_id].digest:
            text = "changed since it was sent: " + reasons.of(job_id, wanted[job_id])
            differences.append(Difference(target.name, job_id, text))
    same = [job for job_id, job in wanted.items() if has.get(job_id) == job.digest]
    known = len(same) == len(has)
    source = _source(target.name, same, agrees=not differences)
    return source if known else source._replace(jobs=len(has), wall_s=None, cpu_s=None), differences


def _sums(
    name: str, both: _Both, target: Target, month: Month, kind: str, wanted: dict[str, _Job], reasons: _Reasons
) -> tuple[Source, list[Difference]]:
    """Sums are known by how many jobs they stand for; who is missing, as far as it is known."""
    unanswered = sent.unanswered_keys(both.publishing, target.block)
    live = [one for found, one in sent.live_sums(both.publishing, target.block, *month) if found == kind]
    jobs = sum(one.jobs for one in live if one.key not in unanswered)
    if jobs == len(wanted):
        return Source(name, jobs, None, None, agrees=True), []
    differences = [Difference(name, None, f"{jobs} jobs, in the database {len(wanted)}")]
    for job_id, job in wanted.items():
        reason = reasons.of(job_id, job)
        if job_id in reasons.held or reason.startswith("waits"):
            differences.append(Difference(name, job_id, reason))
    return Source(name, jobs, None, None, agrees=False), differences


def _portal(path: str, month: Month, jobs: int) -> tuple[Source, list[Difference]]:
    found = portal_jobs(path, month)
    differences = [] if found == jobs else [Difference("portal", None, f"{found} jobs, in the database {jobs}")]
    return Source("portal", found, None, None, agrees=not differences), differences


def portal_jobs(path: str, month: Month) -> int:
    """
    The number of jobs of a month in a CSV export of the EGI accounting portal (Sum Number of Jobs).

    One dimension of the table has to be months. Rows and columns of totals and percentages are left out.
    Raises InputError when the file has no such table.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except (OSError, UnicodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}; export the table from the portal as CSV") from error
    delimiter = ";" if text.count(";") > text.count(",") else ","
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines(), delimiter=delimiter) if any(row)]
    for number, header in enumerate(rows):
        places = [place for place, cell in enumerate(header) if _is_month(cell, month)]
        if places and number + 1 < len(rows) and (places[0] > 0 or (len(header) > 1 and _month_of(header[1]))):
            below = [row for row in rows[number + 1 :] if len(row) > places[0] and not _NO_ROW.fullmatch(row[0])]
            return sum(_number(row[places[0]], path) for row in below)
    for number, row in enumerate(rows):
        if number and _is_month(row[0], month):
            header = rows[0]
            cells = [
                cell for name, cell in zip(header[1:], row[1:], strict=False) if not _NO_ROW.fullmatch(name) or not name
            ]
            return sum(_number(cell, path) for cell in cells)
    raise InputError(
        f"{path}: no {month[0]:04d}-{month[1]:02d} in it; export a table of the number of jobs with months on one side"
    )


def _is_month(text: str, month: Month) -> bool:
    return _month_of(text) == month


def _month_of(text: str) -> Month | None:
    """``2026-11``, ``11/2026``, ``Nov 2026``, ``November 2026``; ``None`` for anything else."""
    found = re.fullmatch(r"(\d{4})[-/](\d{1,2})", text)
    if found:
        return int(found[1]), int(found[2])
    found = re.fullmatch(r"(\d{1,2})[-/](\d{4})", text)
    if found:
        return int(found[2]), int(found[1])
    found = re.fullmatch(r"([A-Za-z]{3})[a-z]*\.?[ -](\d{4})", text)
    if found and found[1].lower() in _NAMES_OF_MONTHS:
        return int(found[2]), _NAMES_OF_MONTHS.index(found[1].lower()) + 1
    return None


def _number(text: str, path: str) -> int:
    plain = text.replace(",", "").replace(" ", "").replace("\N{NO-BREAK SPACE}", "")
    try:
        return round(float(plain or "0"))
    except ValueError:
        raise InputError(f"{path}: {text!r} is no number of jobs; export the table without units") from None
