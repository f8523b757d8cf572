"""Usage by any dimension: from kept sums if they suffice, else from the jobs; and a preview of corrected benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from arcacct.benchmark import FALLBACK, Benchmark, parsed_benchmark
from arcacct.database.connection import Connection
from arcacct.database.schema import complete_since
from arcacct.errors import UsageError
from arcacct.queries import questions
from arcacct.queries.questions import MeasuredPart, Selection, UsagePart, is_ours, whole
from arcacct.records.benchmarks import MonthRating
from arcacct.records.model import parsed_fqan
from arcacct.records.usage import has_imported, pruned
from arcacct.times import HOUR_S, iso, months_between
from arcacct.wording import count_of

# Usage by any dimension: from kept sums if these have the answer, else from the jobs.  Jobs, hours, normalised hours,
# efficiency. Sums are of integers, so they do not depend on the order of the jobs.


NEEDS = {
    "month": "month", "week": "day", "day": "day", "year": "month", "vo": "vo", "group": "fqan", "role": "fqan",
    "user": "user_dn", "queue": "queue", "endpoint": "endpoint_url", "status": "status", "host": "node_names",
    "project": "project", "benchmark": "benchmark", "infrastructure": "endpoint_url", "cores": "cores", "wait": "wait",
    "walltime": "walltime",
}  # fmt: skip
"""What can be asked by, and the stored value that it is made from."""
_KWH_J = 3_600_000


def before_recording(con: Connection, from_s: int, before_s: int) -> str:
    """
    Return why a database may lack jobs that ended in ``[from_s, before_s)``, UTC seconds; empty: it lacks none.

    Recording may have started later. An imported job from before then proves that this time was imported. A job of the
    control directory proves nothing: A-REX removes the files of its jobs after some days.
    """
    since = complete_since(con) if is_ours(con) else 0
    before_s = min(before_s, since)
    if from_s >= before_s:
        return ""
    if has_imported(con, from_s, before_s) or any(pruned(con, one) for one in months_between(from_s, before_s)):
        return ""
    return (
        f"recording began at {iso(since)}: jobs that ended before may be missing; `arcacct import` imports them from"
        " A-REX's database or the batch system"
    )


class Lacking(NamedTuple):
    """How many of the jobs of an answer have no measured clock time, no CPU time, and no benchmark."""

    jobs: int = 0
    """All of them."""
    wall: int = 0
    cpu: int = 0
    benchmark: int = 0


class UsageTable(NamedTuple):
    """An answer."""

    columns: tuple[str, ...]
    rows: list[tuple[str | int | float | None, ...]]
    total: tuple[str | int | float | None, ...] = ()
    """The total in one row, including the rows that `UsageOrder.top` leaves out."""
    lacking: Lacking = Lacking()

    def named(self) -> Iterator[dict[str, str | int | float | None]]:
        """Each row by the names of its columns."""
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)


class UsageOrder(NamedTuple):
    """The order of the rows of an answer."""

    column: str
    """A column of the table; empty cells come last."""
    way: str | None = None
    """``asc`` or ``desc``; ``None``: names from A to Z, amounts from the largest."""
    top: int | None = None
    """The number of rows; one more row has the sum of the rest."""


class Conversion(NamedTuple):
    """Benchmarks to assume for jobs: one for all, or a factor for those with a certain type."""

    benchmark: Benchmark
    """The benchmark for all; or the type, with the factor as its value."""
    is_factor: bool = False

    @classmethod
    def parse(cls, text: str) -> Conversion:
        """``TYPE:VALUE`` or ``TYPE=FACTOR``. Raises InputError."""
        return cls(Benchmark.parse(text.replace("=", ":", 1)), "=" in text)

    def millionths(self, core_s: int, recorded: Benchmark | None) -> int:
        """Core time times benchmark, of jobs with the recorded benchmark."""
        if not self.is_factor:
            return self.benchmark.normalised(core_s)
        if recorded is None:
            return 0
        is_meant = recorded.type == self.benchmark.type
        return recorded.normalised(core_s) * (self.benchmark.thousandths if is_meant else 1000) // 1000


@dataclass(slots=True)
class UsageSum:
    """An unfinished sum."""

    jobs: int = 0
    wall_s: int = 0
    cpu_s: int = 0
    core_s: int = 0
    hs06_millionths: int = 0
    hepscore23_millionths: int = 0
    failed_jobs: int = 0
    stage_in_bytes: int = 0
    stage_out_bytes: int = 0
    gpu_s: float | None = None
    """Like the next: ``None`` if it is unknown for all jobs."""
    gpu_busy_s: float | None = None
    gpu_energy_j: float | None = None
    energy_j: float | None = None
    as_millionths: int = 0
    """With other benchmarks: core time times `Conversion`."""
    default_millionths: int = 0
    """Core time times the default benchmark, as published for jobs without their own."""
    jobs_without_wall: int = 0
    """Jobs without a measured clock time: it counts 0."""
    jobs_without_cpu: int = 0
    jobs_without_benchmark: int = 0
    cpu_unpaired_s: int = 0
    """CPU time of the jobs without a measured clock time or CPU time. The efficiency leaves these jobs out."""
    core_unpaired_s: int = 0
    """Core time of the same jobs."""

    def add(self, part: UsagePart, conversion: Conversion | None = None) -> None:
        """Add some jobs."""
        wall_s, cpu_s, core_count = part.wall_s, part.cpu_s, part.core_count
        if not type(wall_s) is type(cpu_s) is type(core_count) is int:
            # For a foreign database: SQLite stores any type in a number column.
            wall_s, cpu_s, core_count = whole(wall_s), whole(cpu_s), whole(core_count)
        core_s = wall_s * core_count + whole(part.core_rest_s)
        self.jobs += part.jobs
        self.wall_s += wall_s
        self.cpu_s += cpu_s
        self.core_s += core_s
        self.failed_jobs += part.failed_jobs
        self.stage_in_bytes += whole(part.stage_in_bytes)
        self.stage_out_bytes += whole(part.stage_out_bytes)
        self.jobs_without_wall += part.jobs_without_wall
        self.jobs_without_cpu += part.jobs_without_cpu
        self.cpu_unpaired_s += whole(part.cpu_unpaired_s)
        self.core_unpaired_s += whole(part.core_unpaired_s)
        benchmark = parsed_benchmark(part.benchmark)
        if conversion is not None:
            self.as_millionths += conversion.millionths(core_s, benchmark)
        if benchmark is None or benchmark == FALLBACK:
            self.jobs_without_benchmark += part.jobs
            self.default_millionths += 0 if benchmark is None else benchmark.normalised(core_s)
        elif benchmark.type == "HEPscore23":
            self.hepscore23_millionths += benchmark.normalised(core_s)
        else:
            # HEPSPEC is HS06; Si2k is converted as APEL's server does.
            self.hs06_millionths += benchmark.normalised(core_s)

    def add_measured(self, part: MeasuredPart) -> None:
        """Add the measurements of GPUs and energy of some jobs."""
        for name, amount in zip(_MEASURED, part[1:], strict=True):
            if amount is not None:
                setattr(self, name, (getattr(self, name) or 0.0) + amount)

    def merge(self, other: UsageSum) -> None:
        """Add another sum."""
        for name in self.__slots__:
            mine, more = getattr(self, name), getattr(other, name)
            setattr(self, name, more if mine is None else mine if more is None else mine + more)

    def row(
        self, *, details: bool, measured: bool = False, conversion: Conversion | None = None, exact: bool = False
    ) -> dict[str, int | float | None]:
        """
        Return the displayed numbers; ``None``: unknown for all jobs.

        The efficiency is CPU time over core time of the jobs that have both. ``exact``: hours are not rounded.
        """

        def hours(amount: int, unit: int = HOUR_S) -> float:
            return amount / unit if exact else round(amount / unit, 3)

        has_wall, has_cpu, has_benchmark = (
            lacking < self.jobs or not self.jobs
            for lacking in (self.jobs_without_wall, self.jobs_without_cpu, self.jobs_without_benchmark)
        )
        cpu_s, core_s = self.cpu_s - self.cpu_unpaired_s, self.core_s - self.core_unpaired_s
        hs06, hepscore23 = (
            hours(one, HOUR_S * 10**6) if has_benchmark else None
            for one in (self.hs06_millionths, self.hepscore23_millionths)
        )
        shown: dict[str, int | float | None] = {
            "jobs": self.jobs,
            "wall_s": self.wall_s if has_wall else None,
            "cpu_s": self.cpu_s if has_cpu else None,
            "core_hours": hours(self.core_s) if has_wall else None,
            "hs06_hours": hs06,
            "hepscore23_hours": hepscore23,
            "cpu_efficiency": round(cpu_s / core_s, 4) if core_s else None,
        }
        shown |= {name: getattr(self, name) for name in (_DETAILS if details else UNMEASURED)}
        if measured:
            shown |= {
                "gpu_hours": _rounded(self.gpu_s, HOUR_S),
                "gpu_busy_hours": _rounded(self.gpu_busy_s, HOUR_S),
                "gpu_energy_kwh": _rounded(self.gpu_energy_j, _KWH_J),
                "energy_kwh": _rounded(self.energy_j, _KWH_J),
            }
        if conversion is not None:
            now = self.hs06_millionths + self.hepscore23_millionths + self.default_millionths
            amounts = {"normalised_before": now, "normalised_after": self.as_millionths}
            amounts["difference"] = self.as_millionths - now
            shown |= {name: round(amount / (HOUR_S * 10**6), 3) for name, amount in amounts.items()}
        return shown


UNMEASURED = ("jobs_without_wall", "jobs_without_cpu")
"""Columns of every answer: without them a partial amount would look complete."""
_DETAILS = ("failed_jobs", "stage_in_bytes", "stage_out_bytes", *UNMEASURED, "jobs_without_benchmark")
_MEASURED = ("gpu_s", "gpu_busy_s", "gpu_energy_j", "energy_j")


def _rounded(amount: float | None, unit: int) -> float | None:
    return None if amount is None else round(amount / unit, 3)


def usage(
    con: Connection,
    selection: Selection,
    by: Sequence[str],
    *,
    details: bool,
    active: bool = False,
    measured: bool = False,
    order: UsageOrder | None = None,
    conversion: Conversion | None = None,
    exact: bool = False,
) -> UsageTable:
    """
    Return one row for each combination of ``by`` (of NEEDS), sorted by it or by ``order``.

    Finished jobs count as published; with ``active``, a state in the selection or in ``by``, all jobs count.
    ``measured``: also GPUs and energy, if telemetry or the batch system reports them; it reads their rows.
    ``conversion``: also hours times benchmark, as they are and as they would be. ``exact``: core hours and hours times
    benchmark are not rounded, for sums. Raises UsageError for an order by an unknown column.
    """
    keys = tuple(dict.fromkeys(NEEDS[name] for name in by))
    everything = active or bool(selection.states) or "status" in by
    kept = questions.kept_parts(con, selection, keys, details=details, everything=everything) if is_ours(con) else None
    parts = questions.parts(con, selection, keys, everything=everything) if kept is None else kept
    told = questions.measured_parts(con, selection, keys, everything=everything) if measured and is_ours(con) else None
    return tabulated(
        parts, told, by, NEEDS, details=details, measured=measured, order=order, conversion=conversion, exact=exact
    )


def tabulated(
    parts: Iterable[UsagePart],
    measures: Iterable[MeasuredPart] | None,
    by: Sequence[str],
    needs: Mapping[str, str],
    *,
    details: bool,
    measured: bool = False,
    order: UsageOrder | None = None,
    conversion: Conversion | None = None,
    exact: bool = False,
) -> UsageTable:
    """
    The result of `usage` from parts of any source, grouped by the columns in ``needs`` for each of ``by``.

    ``measures`` has the measurements of the same jobs. Raises UsageError for an order by an unknown column.
    """
    keys = tuple(dict.fromkeys(needs[name] for name in by))
    places = [(name, keys.index(needs[name])) for name in by]
    sums: dict[tuple[str | None, ...], UsageSum] = {}
    for part in parts:
        shown = tuple(_shown(name, part.key[place]) for name, place in places)
        sums.setdefault(shown, UsageSum()).add(part, conversion)
    for one in measures or ():
        shown = tuple(_shown(name, one.key[place]) for name, place in places)
        if shown in sums:
            sums[shown].add_measured(one)
    known = sorted(
        (shown for shown, found in sums.items() if found.jobs),
        key=lambda shown: [
            (text is not None, _rank(name, text), text or "") for name, text in zip(by, shown, strict=True)
        ],
    )
    columns = (*by, *UsageSum().row(details=details, measured=measured, conversion=conversion))
    total = UsageSum()
    for shown in known:
        total.merge(sums[shown])

    def row(shown: tuple[str | None, ...], found: UsageSum) -> tuple[str | int | float | None, ...]:
        return (*shown, *found.row(details=details, measured=measured, conversion=conversion, exact=exact).values())

    rows = [(shown, row(shown, sums[shown])) for shown in known]
    if order is not None:
        rows = _ordered(rows, columns, len(by), order)
        if order.top is not None and len(rows) > order.top:
            rest = UsageSum()
            for shown, _row in rows[order.top :]:
                rest.merge(sums[shown])
            label = (f"({count_of(len(rows) - order.top, 'other')})", *[None] * (len(by) - 1))
            rows[order.top :] = [(label, row(label, rest))]
    lacking = Lacking(total.jobs, total.jobs_without_wall, total.jobs_without_cpu, total.jobs_without_benchmark)
    label = ("(total)", *[None] * (len(by) - 1))
    return UsageTable(columns, [made for _shown, made in rows], row(label, total), lacking)


_CLASSES = {"wait": [*questions.WAIT_CLASSES.values()], "walltime": [*questions.WALLTIME_CLASSES.values()]}


def _rank(name: str, text: str | None) -> int:
    """Return the position of a name that has an order of its own; 0 for others."""
    if text is None:
        return 0
    if name == "cores":
        return int(text) if text.isdecimal() else 0
    return _CLASSES[name].index(text) if name in _CLASSES else 0


_Rows = list[tuple[tuple[str | None, ...], tuple[str | int | float | None, ...]]]


def _ordered(rows: _Rows, columns: Sequence[str], names: int, order: UsageOrder) -> _Rows:
    """The rows by a column; those that are the same there stay as they are."""
    if order.column not in columns:
        raise UsageError(f"--sort {order.column}: the table has the columns {', '.join(columns)}")
    place = columns.index(order.column)
    known = [one for one in rows if one[1][place] is not None]
    descends = order.way == "desc" if order.way else place >= names
    known.sort(key=lambda one: one[1][place], reverse=descends)  # type: ignore[arg-type, return-value]
    return [*known, *(one for one in rows if one[1][place] is None)]


def _shown(name: str, stored: str | None) -> str | None:
    if name in ("group", "role"):
        found = parsed_fqan(stored) if stored else None
        role = None if found is None or found.role == "NULL" else found.role
        return role if name == "role" else None if found is None else found.group
    if name in ("year", "week") and stored:
        # For a month, and for a day.
        return stored[:4] if name == "year" else _week_of(stored)
    if name == "infrastructure":
        return "grid" if stored else "local"
    if name == "host" and stored:
        # The node that the batch system named first: one job, one host.
        stored = stored.split(":")[0]
    if name == "benchmark":
        benchmark = parsed_benchmark(stored)
        return stored if benchmark is None else str(benchmark)
    return stored


def _week_of(day: str) -> str:
    """``2026-W47`` of a day; years and weeks are those of ISO 8601."""
    try:
        year, week, _day = date.fromisoformat(day).isocalendar()
    except ValueError:
        # For a year with five digits.
        return day
    return f"{year:04d}-W{week:02d}"


# The effect of corrected benchmarks, as a table: by month and VO, before, after, difference.


COLUMNS = ("month", "vo", "type", "jobs", "before_h", "after_h", "difference_h")
"""Hours are core hours times benchmark; a job whose type changes is in a row of each type."""
_MILLIONTHS_OF_HOURS = HOUR_S * 10**6


def rows(changes: Iterable[MonthRating]) -> list[tuple[str | int | float | None, ...]]:
    """The rows, in the order of the changes."""
    return [
        (
            one.month,
            one.vo,
            one.type,
            one.jobs,
            *(round(amount / _MILLIONTHS_OF_HOURS, 3) for amount in (one.before, one.after, one.after - one.before)),
        )
        for one in changes
    ]
