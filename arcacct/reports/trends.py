"""Comparisons for a month: installed cores, the months before it, pledges over the year; and statistics of its jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from arcacct.queries.questions import Selection, Waits
from arcacct.queries.usage import UsageTable
from arcacct.reports.capacity import DAY_S, Capacity
from arcacct.reports.tables import KINDS, Column, Table, Value, pledges
from arcacct.times import Month, iso, month_bounds
from arcacct.wording import count_of

_HOUR_S = 3600
_FEWEST_MONTHS = 2
_NORMALISED = ("hs06", "hepscore23")
FEWEST = 20
"""A smaller sample gives no statistics."""
NO_VO = "(no VO)"
UNKNOWN = "(unknown)"
EVERY_VO = "(all)"

Asked = Callable[[Selection, Sequence[str]], UsageTable]
"""Usage of some jobs by these, with exact hours: a sum is rounded once."""

_JOBS = Column("jobs", "Jobs", "jobs")
_CORE_HOURS = Column("core_hours", "Core hours", "h")
_INSTALLED = Column("installed_core_hours", "Installed core hours", "h")
_UTILISATION = Column("utilisation", "Utilisation", "ratio")
_OVER_TIME = (
    _JOBS,
    _CORE_HOURS,
    Column("cpu_hours", "CPU hours", "h"),
    Column("normalised_hours", "Normalised hours", "h"),
    Column("cpu_efficiency", "Efficiency", "ratio"),
    _INSTALLED,
    _UTILISATION,
)
_NOTHING: dict[str, Value] = dict.fromkeys(column.name for column in _OVER_TIME)
_WITHOUT_CORES = -2
_MORE_THAN_ALL = "A utilisation above 100 %: a job counts completely on the day of its end; or there are more cores."


def months_before(month: Month, count: int) -> Month:
    """Return the month this number of months earlier."""
    number = month[0] * 12 + month[1] - 1 - count
    return number // 12, number % 12 + 1


def last_months(month: Month, count: int = 12) -> list[Month]:
    """Return the last months up to this one."""
    return [months_before(month, back) for back in range(count - 1, -1, -1)]


def first_month(month: Month) -> Month:
    """Return the first month that `OverTime` needs: the year before has the same months."""
    return min(last_months(month)[0], (month[0] - 1, 1))


def name_of(month: Month) -> str:
    """YYYY-MM."""
    return f"{month[0]:04d}-{month[1]:02d}"


def _title(month: Month) -> str:
    names = "JanFebMarAprMayJunJulAugSepOctNovDec"
    return f"{names[3 * month[1] - 3 : 3 * month[1]]} {month[0]}"


class OverTime(NamedTuple):
    """The months until the reported one."""

    utilisation: Table
    history: Table
    year: Table


class Recording(NamedTuple):
    """The time from which on the jobs of a site are known."""

    first_end_s: int
    """The end of the first job that was ever recorded, UTC seconds: the time before it is unknown."""
    lacking: frozenset[Month] = frozenset()
    """Months that may lack jobs: without a job they are unknown."""

    def unknown(self, months: Iterable[Month], with_jobs: Collection[str]) -> list[Month]:
        """Return the unknown ones of these months; ``with_jobs``: the names of the months with jobs."""
        return [
            one
            for one in months
            if name_of(one) not in with_jobs and (one in self.lacking or month_bounds(*one)[1] <= self.first_end_s)
        ]

    def notes(self, months: Sequence[Month], unknown: Sequence[Month]) -> Iterator[str]:
        """Return what is missing in the figures of these months."""
        if unknown:
            spans = ", ".join(
                name_of(run[0]) + (f" to {name_of(run[-1])}" if run[1:] else "") for run in _runs(unknown)
            )
            yield f"Unknown, and not 0: {spans}; jobs of that time were not recorded."
        first = iso(self.first_end_s)[:10]
        if first[:7] in map(name_of, months) and not first.endswith("-01"):
            yield f"{first[:7]} is counted from the first recorded job, of {first}."


def _runs(months: Iterable[Month]) -> list[list[Month]]:
    """Months in order, those that follow each other together."""
    numbered = groupby(enumerate(months), key=lambda one: one[1][0] * 12 + one[1][1] - one[0])
    return [[month for _place, month in group] for _number, group in numbered]


class _Used(NamedTuple):
    """The values to compare with the installed cores."""

    installed_h: float
    used_h: float


def over_time(ask: Asked, month: Month, capacity: Capacity, written_s: int, recorded: Recording) -> OverTime:
    """
    Utilisation in the month, the last 12 months, and the year to date.

    ``written_s``: now, UTC seconds: the later part of a month cannot be used yet.
    """
    every = last_months(month)
    start_s, before_s = month_bounds(*every[0])[0], month_bounds(*month)[1]
    whole = Selection(from_s=start_s, before_s=before_s)
    of_months = {str(of["month"]): of for of in ask(whole, ("month",)).named()}
    unknown = recorded.unknown(every, of_months)
    days: dict[int, _Used] = {}
    if capacity.cores:
        used = {str(of["day"]): of for of in ask(whole, ("day",)).named()}
        days = dict(_by_day(capacity, used, written_s, recorded.first_end_s))
        for one in unknown:
            for day in range(*(bound // DAY_S for bound in month_bounds(*one))):
                days.pop(day, None)
    rows = [
        (name_of(one), _NOTHING if one in unknown else _figures(of_months.get(name_of(one)), _in(days, one, one)))
        for one in every
    ]
    months = Table("history", "The last 12 months", "Month", _OVER_TIME if days else _OVER_TIME[:_WITHOUT_CORES])
    notes = [*recorded.notes(every, unknown)]
    if any(of["normalised_hours"] for _name, of in rows):
        notes.append("HS06 and HEPscore23 hours are added: 1 HEPscore23 is 1 HS06.")
    if any(_amount(of["utilisation"]) > 1 for _name, of in rows):
        notes.append(_MORE_THAN_ALL)
    if month_bounds(*month)[0] <= written_s < before_s:
        notes.append(f"{name_of(month)} is not over: it is counted until {iso(written_s)}.")
    months = months.filled(rows, notes=notes)
    return OverTime(_utilisation(month, capacity, days, written_s), months, _year(ask, month, days, recorded))


def _by_day(
    capacity: Capacity, used: Mapping[str, Mapping[str, Value]], written_s: int, recorded_from_s: int
) -> Iterable[tuple[int, _Used]]:
    for day, cores in capacity.cores.items():
        seconds = min(DAY_S, written_s - day * DAY_S)
        if seconds > 0 and day >= recorded_from_s // DAY_S:
            of = used.get(iso(day * DAY_S)[:10])
            yield day, _Used(cores * seconds / _HOUR_S, 0.0 if of is None else _amount(of["core_hours"]))


def _in(days: Mapping[int, _Used], first: Month, last: Month) -> list[_Used]:
    begin, end = month_bounds(*first)[0] // DAY_S, month_bounds(*last)[1] // DAY_S
    return [of for day, of in days.items() if begin <= day < end]


def _compared(known: Sequence[_Used]) -> dict[str, Value]:
    installed_h = sum(one.installed_h for one in known)
    share = round(sum(one.used_h for one in known) / installed_h, 4) if installed_h else None
    return {"installed_core_hours": round(installed_h, 3) if installed_h else None, "utilisation": share}


def _figures(of: Mapping[str, Value] | None, known: Sequence[_Used]) -> dict[str, Value]:
    if of is None:
        return _NOTHING | {"jobs": 0, "core_hours": 0.0} | _compared(known)
    both = [of[name] for name in ("hs06_hours", "hepscore23_hours")]
    return {
        "jobs": of["jobs"],
        "core_hours": None if of["core_hours"] is None else round(_amount(of["core_hours"]), 3),
        "cpu_hours": None if of["cpu_s"] is None else round(_amount(of["cpu_s"]) / _HOUR_S, 3),
        "normalised_hours": None if both == [None, None] else round(sum(map(_amount, both)), 3),
        "cpu_efficiency": of["cpu_efficiency"],
        **_compared(known),
    }


def _amount(value: Value) -> float:
    return value if isinstance(value, int | float) else 0.0


def _year(ask: Asked, month: Month, days: Mapping[int, _Used], recorded: Recording) -> Table:
    """The year until the end of the month, and the same months of the year before if it has any job."""
    table = Table("year", "Year to date", "Months", _OVER_TIME[:_WITHOUT_CORES])
    rows: list[tuple[str, dict[str, Value]]] = []
    notes: list[str] = []
    for year in (month[0], month[0] - 1):
        months = [(year, one) for one in range(1, month[1] + 1)]
        of_year = Selection(from_s=month_bounds(year, 1)[0], before_s=month_bounds(year, month[1])[1])
        of_months = {str(of["month"]) for of in ask(of_year, ("month",)).named()}
        for of in ask(of_year, ()).named() if of_months else ():
            name = f"{year:04d}-01 to {year:04d}-{month[1]:02d}" if month[1] > 1 else f"{year:04d}-01"
            known = _in(days, (year, 1), (year, month[1])) if year == month[0] else []
            rows.append((name, _figures(of, known)))
            notes += recorded.notes(months, recorded.unknown(months, of_months))
    if any(of["utilisation"] is not None for _name, of in rows):
        table = table._replace(columns=_OVER_TIME)
    return table.filled(rows, notes=notes, empty="No job ended in this year.")


def _utilisation(month: Month, capacity: Capacity, days: Mapping[int, _Used], written_s: int) -> Table:
    """Return the utilisation for each period with the same number of cores, and for the whole month."""
    columns = (Column("cores", "Cores", "count"), _INSTALLED, _CORE_HOURS, _UTILISATION)
    table = Table("utilisation", "Utilisation of the installed cores", "Days", columns)
    begin, end = (bound // DAY_S for bound in month_bounds(*month))
    known = [day for day in range(begin, end) if day in days]
    if not known:
        return table._replace(notes=(f"unknown: {capacity.lacking}.",))
    rows = []
    for (cores, _run), group in groupby(enumerate(known), key=lambda one: (capacity.cores[one[1]], one[1] - one[0])):
        of = [day for _place, day in group]
        first, last = iso(of[0] * DAY_S)[:10], iso(of[-1] * DAY_S)[:10]
        rows.append((first if first == last else f"{first} to {last}", _row(cores, [days[day] for day in of])))
    notes = [f"Installed cores: {capacity.source}. Core hours count the jobs that ended on these days."]
    over = min(end, -(-written_s // DAY_S)) - begin
    without = sum(day not in capacity.cores for day in range(begin, begin + over))
    if without:
        notes.append(f"Not in these figures: {count_of(without, 'day')} without known cores; {capacity.lacking}.")
    if earlier := over - len(known) - without:
        notes.append(f"Not in these figures: {count_of(earlier, 'day')} before the first recorded job.")
    total = _row(None, [days[day] for day in known])
    if _amount(total["utilisation"]) > 1:
        notes.append(_MORE_THAN_ALL)
    table = table.filled(rows, notes=notes)
    return table._replace(total=table.row("All", total)) if len(rows) > 1 else table


def _row(cores: int | None, known: Sequence[_Used]) -> dict[str, Value]:
    return {"cores": cores, "core_hours": round(sum(one.used_h for one in known), 3), **_compared(known)}


def _delivered(of: Mapping[str, Value], kind: str, kinds: set[str]) -> float:
    """
    Hours of a VO that a pledge of a kind is compared with; ``kinds``: all that the VO has pledges of.

    1 HEPscore23 is 1 HS06 by definition of WLCG, so a pledge in one of them has the hours of both.
    """
    names = [KINDS[kind]]
    if kind in _NORMALISED and not {*_NORMALISED} <= kinds:
        names = [KINDS[one] for one in _NORMALISED]
    return sum(_amount(of.get(name)) for name in names)


class _Delivery:
    """Pledged and delivered hours under one pledge."""

    def __init__(self, year_month: int) -> None:
        self.year_month = year_month
        """The first month of the pledge's year, 1 to 12."""
        self.of_month: dict[Month, tuple[float, float | None]] = {}
        """Hours promised and delivered; ``None``: unknown."""

    def begin(self, month: Month) -> Month:
        """Return the first month of the pledge's year that contains this month."""
        return month[0] - (month[1] < self.year_month), self.year_month


def use_of_pledge(ask: Asked, month: Month, path: str | None, recorded: Recording) -> tuple[Table, ...]:
    """
    Return the VOs' usage and pledge in the month and in the year so far, and by month if there are several.

    Raises InputError as `pledges`.
    """
    columns = (
        Column("kind", "Hours of"),
        Column("pledged_hours", "Pledged", "h"),
        Column("used_hours", "Used", "h"),
        Column("used_share", "Share", "ratio"),
        Column("year_from", "Year from"),
        Column("pledged_year_hours", "Pledged this year", "h"),
        Column("used_year_hours", "Used this year", "h"),
        Column("used_year_share", "Share this year", "ratio"),
    )
    table = Table("pledge", "Use against the pledge", "VO", columns, naming=1)
    if path is None:
        return (table._replace(notes=("No pledge is known: name a file of pledges with --pledge.",)),)
    every = last_months(month)
    found, unknown = _deliveries(ask, every, path, recorded)
    of_kind: dict[str, list[tuple[str, _Delivery]]] = {}
    for (vo, kind), of in sorted(found.items()):
        if month in of.of_month:
            of_kind.setdefault(kind, []).append((vo, of))
    rows = [(vo, _use(kind, [of], month)) for kind, parts in of_kind.items() for vo, of in parts]
    rows.sort(key=lambda row: (row[0], str(row[1]["kind"])))
    for kind, parts in sorted(of_kind.items()):
        if len(parts) > 1:
            rows.append((EVERY_VO, _use(kind, [of for _vo, of in parts], month)))
    if all(figures["pledged_hours"] == figures["pledged_year_hours"] for _vo, figures in rows):
        # The year so far is this month.
        table = table._replace(columns=columns[:4])
    promised = [one for one in every if any(one in of.of_month for of in found.values())]
    notes = recorded.notes(promised, [one for one in unknown if one in promised])
    table = table.filled(rows, notes=notes, empty="The file of pledges has none for this month.")
    if len(promised) < _FEWEST_MONTHS:
        return (table,)
    shares = (Column("kind", "Hours of"), *(Column(name_of(one), _title(one), "ratio") for one in promised))
    trend = Table("pledge_trend", "Use against the pledge by month", "VO", shares, naming=1)
    by_month = (
        (vo, {"kind": kind} | {name_of(one): _share(*of.of_month.get(one, (0.0, None))) for one in promised})
        for (vo, kind), of in sorted(found.items())
    )
    return table, trend.filled(by_month)


def _use(kind: str, parts: Sequence[_Delivery], month: Month) -> dict[str, Value]:
    """Return the sum of these pledges: the month, and the year of each so far, without its unknown months."""
    begins = {name_of(of.begin(month)) for of in parts}
    figures: dict[str, Value] = {"kind": kind, "year_from": begins.pop() if len(begins) == 1 else None}
    of_year = [of.of_month[one] for of in parts for one in of.of_month if of.begin(month) <= one <= month]
    for which, months in (
        ("", [of.of_month[month] for of in parts]),
        ("_year", [one for one in of_year if one[1] is not None]),
    ):
        pledged = sum(promised for promised, _used in months)
        known = [used for _promised, used in months if used is not None]
        used = sum(known) if known else None
        figures[f"pledged{which}_hours"] = round(pledged, 3) if months else None
        figures[f"used{which}_hours"] = None if used is None else round(used, 3)
        figures[f"used{which}_share"] = _share(pledged, used)
    return figures


def _share(pledged: float, used: float | None) -> float | None:
    return round(used / pledged, 4) if pledged and used is not None else None


def _deliveries(
    ask: Asked, months: Sequence[Month], path: str, recorded: Recording
) -> tuple[dict[tuple[str, str], _Delivery], list[Month]]:
    """Return the delivery of each pledge valid in one of these months, by VO and kind; and the unknown months."""
    whole = Selection(from_s=month_bounds(*months[0])[0], before_s=month_bounds(*months[-1])[1])
    used: dict[tuple[str, str], Mapping[str, Value]] = {}
    for of in ask(whole, ("month", "vo")).named():
        figures = of | {"cpu_hours": _amount(of["cpu_s"]) / _HOUR_S}
        used[str(of["month"]), NO_VO if of["vo"] is None else str(of["vo"])] = figures
    unknown = recorded.unknown(months, {name for name, _vo in used})
    found: dict[tuple[str, str], _Delivery] = {}
    for month in months:
        promised = pledges(path, month)
        for one in promised:
            kinds = {other.kind for other in promised if other.vo == one.vo}
            hours = _delivered(used.get((name_of(month), one.vo), {}), one.kind, kinds)
            of_pledge = found.setdefault((one.vo, one.kind), _Delivery(one.year_month))
            of_pledge.of_month[month] = one.hours, None if month in unknown else hours
    return found, unknown


def sizes(name: str, title: str, key: str, found: Iterable[tuple[str | None, int, float]]) -> Table:
    """Return jobs and core hours by a class, with the share of each; classes keep their order, unknown comes last."""
    columns = (
        _JOBS,
        Column("jobs_share", "of jobs", "ratio"),
        _CORE_HOURS,
        Column("core_hours_share", "of core hours", "ratio"),
    )
    parts = sorted(found, key=lambda one: one[0] is None)
    jobs, hours = sum(one[1] for one in parts), sum(one[2] for one in parts)
    rows = [
        (
            UNKNOWN if label is None else label,
            {
                "jobs": count,
                "jobs_share": round(count / jobs, 4) if jobs else None,
                "core_hours": round(core_h, 3),
                "core_hours_share": round(core_h / hours, 4) if hours else None,
            },
        )
        for label, count, core_h in parts
        if count
    ]
    return Table(name, title, key, columns).filled(rows, empty="No job ended in this month.")


def waiting(found: Sequence[Waits], jobs: int, one_of: int) -> Table:
    """
    Return median and 90th percentile of the waiting times, of all jobs and by VO.

    ``jobs``: all that ended in the month; ``one_of``: only each such job was read.
    """
    is_sample = one_of > 1
    columns = (
        Column("jobs", "Jobs with a known time", "jobs"),
        Column("wait_median_min", "Median", "min", is_estimated=is_sample),
        Column("wait_p90_min", "90th percentile", "min", is_estimated=is_sample),
    )
    table = Table("wait", "Waiting time in the batch system", "VO", columns)
    known = [one for one in found if not is_sample or one.jobs >= FEWEST]
    rows = [(NO_VO if one.vo is None else one.vo, _wait(one)) for one in known if one.vo != ""]
    span = "From the submission to the batch system until the start"
    notes = [f"{span}: half of the jobs waited at most the median, nine of ten at most the 90th percentile."]
    if is_sample:
        notes.append(f"Of many jobs, one in {one_of} was used.")
    looked_at = jobs // one_of
    for one in (one for one in known if one.vo == ""):
        if one.jobs < looked_at:
            lacking = "did not start, or their times cannot be true"
            notes.append(f"Of {looked_at - one.jobs} of {looked_at} jobs the waiting time is unknown: they {lacking}.")
        table = table._replace(total=table.row("All", _wait(one)))
    empty = "No job ended in this month."
    if jobs:
        empty = "unknown: no job has a submission to the batch system and a start that fit each other."
    return table.filled(rows, "jobs", notes=notes, empty=empty)


def _wait(one: Waits) -> dict[str, Value]:
    return {"jobs": one.jobs, "wait_median_min": round(one.median_s / 60, 2), "wait_p90_min": round(one.most_s / 60, 2)}
