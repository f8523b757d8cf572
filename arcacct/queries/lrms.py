"""A month in the accounting of a batch system, compared with the records."""

from __future__ import annotations

from collections.abc import Iterable
from operator import add
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.queries.verify_report import Deviation, Source
from arcacct.records import reader
from arcacct.records.batch_jobs import CLOCKS_S, FOLLOWED_S, Figures, same_host
from arcacct.records.batch_systems import HTCONDOR, BatchSystem
from arcacct.times import DAY_S, Month, month_bounds

_SLACK_S, _SLACK = 5, 0.05
"""A-REX cuts times to seconds, and measures differently: a smaller difference of its jobs does not count."""


class Amounts(NamedTuple):
    """The sums of some jobs."""

    jobs: int = 0
    wall_s: int = 0
    core_s: int = 0
    cpu_s: int = 0

    def and_(self, runs: Iterable[Figures], unsaid_s: int = 0) -> Amounts:
        """Return the sums with one more job, of these runs; unknown CPU time counts as ``unsaid_s``."""
        told = [(run.wall_s, run.core_s, unsaid_s if run.cpu_s is None else run.cpu_s) for run in runs]
        return Amounts(*map(add, self, (1, *map(sum, zip(*told, strict=True)))))


_NOTHING = Amounts()


class Group(NamedTuple):
    """The jobs of one account and user."""

    account: str
    user: str
    there: Amounts
    """In the batch system."""
    here: Amounts
    """In the database."""

    agrees: bool
    """Whether each job is the same in both."""


class LrmsReport(NamedTuple):
    """The whole comparison."""

    source: Source
    differences: list[Deviation]
    groups: list[Group]


class _Record(NamedTuple):
    """The compared values of a record."""

    job_id: str
    is_arex: bool
    is_its: bool
    """Whether the record names this batch system; A-REX's may name none."""
    figures: Figures
    is_calculated: bool
    """Whether its wall time is calculated from the core seconds of runs with different cores."""


def lrms_month(name: str, figures: Iterable[Figures], con: Connection, lrms: BatchSystem, month: Month) -> LrmsReport:
    """
    Compare a month of a batch system (of end times, UTC) with the database.

    ``name``: the compared source. ``figures`` may also have jobs of the days around it. Raises InputError for
    unreadable accounting.
    """
    start, end = month_bounds(*month)
    here = _records(con, lrms, start - DAY_S, end + DAY_S)
    matched: dict[str, tuple[_Record, list[Figures]]] = {}
    pairs: list[tuple[_Record | None, list[Figures]]] = []
    newest = 0
    for one in figures:
        newest = max(newest, one.end_time)
        record = _match(one, here.get(one.local_job_id, ()))
        if record is not None:
            matched.setdefault(record.job_id, (record, []))[1].append(one)
        elif start <= one.end_time < end:
            pairs.append((None, [one]))
    # A run that is followed by another one is not recorded before that (`batch_jobs.FOLLOWED_S`).
    pairs = [one for one in pairs if one[1][0].is_final or one[1][0].end_time + FOLLOWED_S <= newest]
    pairs += [pair for pair in matched.values() if start <= max(run.end_time for run in pair[1]) < end]
    for record in (one for some in here.values() for one in some):
        is_used = record.is_its and (record.figures.wall_s or record.figures.cpu_s)
        if record.job_id not in matched and start <= record.figures.end_time < end and is_used:
            pairs.append((record, []))
    return _compared(name, pairs)


def _compared(name: str, pairs: Iterable[tuple[_Record | None, list[Figures]]]) -> LrmsReport:
    """Each job with the runs that it has in the batch system; one of both may lack."""
    sums: dict[tuple[str, str], tuple[Amounts, Amounts]] = {}
    differing: set[tuple[str, str]] = set()
    differences: list[Deviation] = []
    for record, runs in pairs:
        ours = [] if record is None else [record.figures]
        last = runs[-1] if runs else ours[-1]
        key = last.account, last.user
        there, here = sums.get(key, (_NOTHING, _NOTHING))
        if runs:
            # CPU time that sacct does not report is no difference.
            is_told = any(run.cpu_s is not None for run in runs)
            there = there.and_(runs, 0 if is_told else sum(one.cpu_s or 0 for one in ours))
        if ours:
            here = here.and_(ours)
        sums[key] = there, here
        text = _difference(record, runs)
        if text:
            differing.add(key)
            differences.append(Deviation(name, runs[0].local_job_id if record is None else record.job_id, text))
    groups = [Group(*key, *sums[key], key not in differing) for key in sorted(sums)]
    total = Amounts(*map(sum, zip(*(group.there for group in groups), strict=True)))
    source = Source(name, total.jobs, total.wall_s, total.cpu_s, agrees=not differences, proof="batch system")
    return LrmsReport(source, differences, groups)


def _records(con: Connection, lrms: BatchSystem, start: int, end: int) -> dict[str, list[_Record]]:
    """The records of a batch system's jobs by its number."""
    found: dict[str, list[_Record]] = {}
    exact = reader.core_seconds(con, start, end)
    for aar in (aar for page in reader.ended_between(con, start, end) for aar in page):
        if not aar.local_job_id or (aar.lrms is not None and aar.lrms.lower() not in lrms.lrms_names):
            continue
        user = (aar.local_user or "").partition(":")[0]
        times = aar.submit_time, aar.end_time, aar.wall_s
        number, place = _number(lrms, aar.local_job_id)
        core_s = exact.get(aar.record_id, aar.wall_s * aar.core_count)
        figures = Figures(number, aar.project or "", user, *times, core_s, aar.cpu_s, place)
        is_arex = aar.endpoint_url is not None
        record = _Record(aar.job_id, is_arex, aar.lrms is not None, figures, aar.record_id in exact)
        found.setdefault(number, []).append(record)
    return found


def _number(lrms: BatchSystem, local_job_id: str) -> tuple[str, str]:
    """Return a job's number in the batch system, and the host that A-REX may have appended."""
    if lrms != HTCONDOR:
        return local_job_id, ""
    cluster, _, place = local_job_id.partition(".")
    return (local_job_id, "") if place.isdecimal() else (f"{cluster}.0", place)


def _match(one: Figures, records: Iterable[_Record]) -> _Record | None:
    """The record of a run: A-REX's if it was submitted within its job, else the one that ended then."""

    def fits(record: _Record) -> bool:
        ours = record.figures
        if record.is_arex:
            if ours.place and one.place and not same_host(ours.place, one.place):
                return False
            return ours.submit_time - CLOCKS_S <= one.submit_time <= ours.end_time + CLOCKS_S
        # For a repeated job, every run but the last ended before.
        is_earlier_run = ours.submit_time == one.submit_time and one.end_time <= ours.end_time
        return is_earlier_run or abs(ours.end_time - one.end_time) <= 1

    return max(filter(fits, records), key=lambda record: (record.is_arex, record.figures.submit_time), default=None)


def _difference(record: _Record | None, runs: list[Figures]) -> str:
    """Return how a record differs from its runs together; empty: not at all."""
    if record is None:
        cpu = "unknown" if runs[0].cpu_s is None else f"{runs[0].cpu_s} s"
        return f"wall {runs[0].wall_s} s and CPU {cpu}, and not in the database"
    if not runs:
        return f"wall {record.figures.wall_s} s and CPU {record.figures.cpu_s} s in the database, and not there"
    theirs, ours = _NOTHING.and_(runs), _NOTHING.and_([record.figures])
    pairs = [("core seconds", theirs.core_s, ours.core_s)]
    if not record.is_calculated:
        pairs.insert(0, ("wall", theirs.wall_s, ours.wall_s))
    if all(run.cpu_s is not None for run in runs):
        pairs.append(("CPU", theirs.cpu_s, ours.cpu_s))
    return "; ".join(
        f"{name} {there} s, in the database {here} s"
        for name, there, here in pairs
        if abs(there - here) > (max(_SLACK_S, _SLACK * max(there, here)) if record.is_arex else 0)
    )
