"""
A month as a batch system's own accounting has it, beside what is recorded: counts, wall time, core hours, CPU time.

Jobs are matched by the batch system's number and their times. Runs of one job of A-REX's are one job, as it is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import add
from typing import NamedTuple

from arcacct.asking.verify import Deviation, Source
from arcacct.db.engine import Connection
from arcacct.jobs import reading
from arcacct.jobs.local import CLOCKS_S, Figures
from arcacct.publishing.instants import Month, month_bounds

DAY_S = 86_400
_SLACK_S, _SLACK = 5, 0.05
"""A-REX cuts to seconds, and measures otherwise: less than this is no difference of its jobs."""
_NAMES = {"slurm": ("slurm",), "gridengine": ("sge", "gridengine", "ge", "ogs", "uge")}
"""What [lrms] of arc.conf, and our records, call each batch system; in small letters."""


class Amounts(NamedTuple):
    """The sums of some jobs."""

    jobs: int = 0
    wall_s: int = 0
    core_s: int = 0
    """Wall time times cores."""
    cpu_s: int = 0

    def and_(self, *more: int) -> Amounts:
        """With some more of each."""
        return Amounts(*map(add, self, more))


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
    """Whether each of them is the same in both."""


class LrmsReport(NamedTuple):
    """The whole comparison."""

    source: Source
    differences: list[Deviation]
    groups: list[Group]


class _Record(NamedTuple):
    """What is compared of a record."""

    job_id: str
    is_arex: bool
    is_its: bool
    """Whether it says that it is of this batch system; A-REX's may not say."""
    account: str
    user: str
    submit_time: int
    end_time: int
    wall_s: int
    cores: int
    cpu_s: int


def lrms_month(name: str, figures: Iterable[Figures], con: Connection, lrms: str, month: Month) -> LrmsReport:
    """
    Compare what a batch system says of a month (of end times, UTC) with the database.

    ``name`` says what is compared. ``figures`` may have jobs of the days around it, too. Raises InputError for an
    accounting that cannot be read.
    """
    start, end = month_bounds(*month)
    here = _records(con, lrms, start - DAY_S, end + DAY_S)
    matched: dict[str, tuple[_Record, list[Figures]]] = {}
    pairs: list[tuple[_Record | None, list[Figures]]] = []
    for one in figures:
        record = _match(one, here.get(one.local_job_id, ()))
        if record is not None:
            matched.setdefault(record.job_id, (record, []))[1].append(one)
        elif start <= one.end_time < end:
            pairs.append((None, [one]))
    pairs += [pair for pair in matched.values() if start <= max(run.end_time for run in pair[1]) < end]
    for record in (one for some in here.values() for one in some):
        is_used = record.is_its and (record.wall_s or record.cpu_s)
        if record.job_id not in matched and start <= record.end_time < end and is_used:
            pairs.append((record, []))
    return _compared(name, pairs)


def _compared(name: str, pairs: Iterable[tuple[_Record | None, list[Figures]]]) -> LrmsReport:
    """Each job with the runs that it has in the batch system; one of both may lack."""
    sums: dict[tuple[str, str], tuple[Amounts, Amounts]] = {}
    differing: set[tuple[str, str]] = set()
    differences: list[Deviation] = []
    for record, runs in pairs:
        key = (
            (runs[-1].account, runs[-1].user) if runs else ("", "") if record is None else (record.account, record.user)
        )
        there, here = sums.get(key, (_NOTHING, _NOTHING))
        if runs:
            # What sacct does not say of CPU time is no difference.
            unsaid_s = 0 if record is None else record.cpu_s
            there = there.and_(
                1,
                sum(run.wall_s for run in runs),
                sum(run.wall_s * run.cores for run in runs),
                sum(unsaid_s if run.cpu_s is None else run.cpu_s for run in runs),
            )
        if record is not None:
            here = here.and_(1, record.wall_s, record.wall_s * record.cores, record.cpu_s)
        sums[key] = there, here
        text = _difference(record, runs)
        if text:
            differing.add(key)
            differences.append(Deviation(name, runs[0].local_job_id if record is None else record.job_id, text))
    groups = [Group(*key, *sums[key], key not in differing) for key in sorted(sums)]
    total = Amounts(*map(sum, zip(*(group.there for group in groups), strict=True)))
    source = Source(name, total.jobs, total.wall_s, total.cpu_s, agrees=not differences, proof="batch system")
    return LrmsReport(source, differences, groups)


def _records(con: Connection, lrms: str, start: int, end: int) -> dict[str, list[_Record]]:
    """The records of a batch system's jobs by its number."""
    found: dict[str, list[_Record]] = {}
    for aar in (aar for page in reading.ended_between(con, start, end) for aar in page):
        if aar.local_job_id and (aar.lrms is None or aar.lrms.lower() in _NAMES[lrms]):
            user = (aar.local_user or "").partition(":")[0]
            record = _Record(
                aar.job_id,
                aar.endpoint_url is not None,
                aar.lrms is not None,
                aar.project or "",
                user,
                aar.submit_time,
                aar.end_time,
                aar.wall_s,
                aar.core_count,
                aar.cpu_s,
            )
            found.setdefault(aar.local_job_id, []).append(record)
    return found


def _match(one: Figures, records: Iterable[_Record]) -> _Record | None:
    """The record of a run: A-REX's if it ran within its job, else the one that ended then."""

    def fits(record: _Record) -> bool:
        if record.is_arex:
            return record.submit_time <= one.submit_time + CLOCKS_S and record.end_time >= one.end_time - CLOCKS_S
        return abs(record.end_time - one.end_time) <= 1

    return max(filter(fits, records), key=lambda record: (record.is_arex, record.submit_time), default=None)


def _difference(record: _Record | None, runs: list[Figures]) -> str:
    """What a record has otherwise than its runs together; empty: nothing."""
    if record is None:
        cpu = "unknown" if runs[0].cpu_s is None else f"{runs[0].cpu_s} s"
        return f"wall {runs[0].wall_s} s and CPU {cpu}, and not in the database"
    if not runs:
        return f"wall {record.wall_s} s and CPU {record.cpu_s} s in the database, and not there"
    cpu_s = [run.cpu_s for run in runs]
    pairs = [
        ("wall", sum(run.wall_s for run in runs), record.wall_s),
        ("core seconds", sum(run.wall_s * run.cores for run in runs), record.wall_s * record.cores),
        ("CPU", None if None in cpu_s else sum(one or 0 for one in cpu_s), record.cpu_s),
    ]
    return "; ".join(
        f"{name} {there} s, in the database {here} s"
        for name, there, here in pairs
        if there is not None and abs(there - here) > (max(_SLACK_S, _SLACK * max(there, here)) if record.is_arex else 0)
    )
