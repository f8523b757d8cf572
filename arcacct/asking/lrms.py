"""
A month as a batch system's own accounting has it, beside what is recorded: counts, wall time, core hours, CPU time.

Jobs are matched by the batch system's number and their times. Runs of one job of A-REX's are one job, as it is there.
"""

from __future__ import annotations

from collections.abc import Iterable
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

    def plus(self, wall_s: int, cores: int, cpu_s: int) -> Amounts:
        """With one more job."""
        return Amounts(self.jobs + 1, self.wall_s + wall_s, self.core_s + wall_s * cores, self.cpu_s + cpu_s)

    def and_(self, other: Amounts) -> Amounts:
        """Of both."""
        return Amounts(*(one + more for one, more in zip(self, other, strict=True)))


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
    found = _Comparison(name)
    for one in figures:
        record = _match(one, here.get(one.local_job_id, ()))
        if record is not None:
            matched.setdefault(record.job_id, (record, []))[1].append(one)
        elif start <= one.end_time < end:
            found.job(None, [one])
    for record, runs in matched.values():
        if start <= max(run.end_time for run in runs) < end:
            found.job(record, runs)
    for record in (one for some in here.values() for one in some):
        is_used = record.is_its and (record.wall_s or record.cpu_s)
        if record.job_id not in matched and start <= record.end_time < end and is_used:
            found.job(record, [])
    return found.report()


class _Comparison:
    """What was compared so far."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._there: dict[tuple[str, str], Amounts] = {}
        self._here: dict[tuple[str, str], Amounts] = {}
        self._differing: set[tuple[str, str]] = set()
        self._differences: list[Deviation] = []

    def job(self, record: _Record | None, runs: list[Figures]) -> None:
        """One job, with the runs that it has in the batch system; one of both may lack."""
        key = (
            (runs[-1].account, runs[-1].user) if runs else ("", "") if record is None else (record.account, record.user)
        )
        if runs:
            there = _NOTHING
            for run in runs:
                # What sacct does not say of CPU time is no difference.
                cpu_s = run.cpu_s if run.cpu_s is not None else record.cpu_s if record is not None else 0
                there = there.plus(run.wall_s, run.cores, cpu_s)
            self._there[key] = self._there.get(key, _NOTHING).and_(there._replace(jobs=1))
        if record is not None:
            here = _NOTHING.plus(record.wall_s, record.cores, record.cpu_s)
            self._here[key] = self._here.get(key, _NOTHING).and_(here)
        text = _difference(record, runs)
        if text:
            self._differing.add(key)
            job_id = runs[0].local_job_id if record is None else record.job_id
            self._differences.append(Deviation(self._name, job_id, text))

    def report(self) -> LrmsReport:
        """All of it."""
        groups = [
            Group(*key, self._there.get(key, _NOTHING), self._here.get(key, _NOTHING), key not in self._differing)
            for key in sorted({*self._there, *self._here})
        ]
        total = _NOTHING
        for group in groups:
            total = total.and_(group.there)
        agrees = not self._differences
        source = Source(self._name, total.jobs, total.wall_s, total.cpu_s, agrees=agrees, proof="batch system")
        return LrmsReport(source, self._differences, groups)


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
        if there is not None and not (there == here or (record.is_arex and _agree(there, here)))
    )


def _agree(one: int, other: int) -> bool:
    return abs(one - other) <= max(_SLACK_S, _SLACK * max(one, other))
