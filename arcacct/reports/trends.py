"""What a month is compared with: installed cores, the months before it, pledges over the year; and how jobs were."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from arcacct.publishing.ledger_rows import Month, iso, month_bounds
from arcacct.queries.capacity import DAY_S, Capacity
from arcacct.queries.questions import Selection, Waits
from arcacct.queries.usage import UsageTable
from arcacct.reports.tables import KINDS, Column, Table, Value, pledges
from arcacct.wording import count_of

_HOUR_S = 3600
_MONTHS = 12
_FEWEST_MONTHS = 2
_NORMALISED = ("hs06", "hepscore23")
FEWEST = 20
"""Of fewer jobs of a sample nothing is said."""
NO_VO = "(no VO)"
UNKNOWN = "(unknown)"

Asked = Callable[[Selection, Sequence[str]], UsageTable]
"""Usage of some jobs by these."""

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
_WITHOUT_CORES = -2
_MORE_THAN_ALL = (
    "A utilisation above 100 %: jobs count whole at their end, with hours of the time before; or there are more cores."
)


def months_before(month: Month, count: int) -> Month:
    """The month so many months earlier."""
    number = month[0] * 12 + month[1] - 1 - count
    return number // 12, number % 12 + 1


def first_month(month: Month) -> Month:
    """The first of all months that `OverTime` asks for: the year before has the same months."""
    return min(months_before(month, _MONTHS - 1), (month[0] - 1, 1))


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


class _Used(NamedTuple):
    """What is compared with the installed cores."""

    installed_h: float
    used_h: float


def over_time(ask: Asked, month: Month, capacity: Capacity, written_s: int, recorded_from_s: int) -> OverTime:
    """
    Utilisation in the month, the last 12 months, and the year to date.

    ``written_s``: now, UTC seconds: what comes later of a month cannot be used yet. ``recorded_from_s``: the end of
    the first job that was ever recorded: of days before it nothing is known.
    """
    first = months_before(month, _MONTHS - 1)
    start_s, before_s = month_bounds(*first)[0], month_bounds(*month)[1]
    whole = Selection(from_s=start_s, before_s=before_s)
    of_months = {str(of["month"]): of for of in ask(whole, ("month",)).named()}
    days: dict[int, _Used] = {}
    if capacity.cores:
        used = {str(of["day"]): of for of in ask(whole, ("day",)).named()}
        days = dict(_by_day(capacity, used, written_s, recorded_from_s))
    every = [months_before(month, back) for back in range(_MONTHS - 1, -1, -1)]
    with_jobs = [one for one in every if name_of(one) in of_months]
    rows = [
        (name_of(one), _figures(of_months.get(name_of(one)), _in(days, one, one)))
        for one in every
        if with_jobs and one >= with_jobs[0]
    ]
    months = Table("history", "The last 12 months", "Month", _OVER_TIME if days else _OVER_TIME[:_WITHOUT_CORES])
    notes = ["HS06 and HEPscore23 hours are added: 1 HEPscore23 is 1 HS06."] if _has_normalised(rows) else []
    if any(_amount(of["utilisation"]) > 1 for _name, of in rows):
        notes.append(_MORE_THAN_ALL)
    if month_bounds(*month)[0] <= written_s < before_s:
        notes.append(f"{name_of(month)} is not over: it is counted until {iso(written_s)}.")
    months = months.filled(rows, notes=notes, empty="No job ended in these months.")
    return OverTime(_utilisation(month, capacity, days, written_s), months, _year(ask, month, days))


def _has_normalised(rows: Iterable[tuple[str, Mapping[str, Value]]]) -> bool:
    return any(of["normalised_hours"] for _name, of in rows)


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
        nothing: dict[str, Value] = dict.fromkeys(column.name for column in _OVER_TIME)
        return nothing | {"jobs": 0, "core_hours": 0.0} | _compared(known)
    both = [of[name] for name in ("hs06_hours", "hepscore23_hours")]
    return {
        "jobs": of["jobs"],
        "core_hours": of["core_hours"],
        "cpu_hours": None if of["cpu_s"] is None else round(_amount(of["cpu_s"]) / _HOUR_S, 3),
        "normalised_hours": None if both == [None, None] else round(sum(map(_amount, both)), 3),
        "cpu_efficiency": of["cpu_efficiency"],
        **_compared(known),
    }


def _amount(value: Value) -> float:
    return value if isinstance(value, int | float) else 0.0


def _year(ask: Asked, month: Month, days: Mapping[int, _Used]) -> Table:
    """The year until the end of the month, and the same months of the year before if it has any job."""
    table = Table("year", "Year to date", "Months", _OVER_TIME[:_WITHOUT_CORES])
    rows = []
    for year in (month[0], month[0] - 1):
        bounds = month_bounds(year, 1)[0], month_bounds(year, month[1])[1]
        for of in ask(Selection(from_s=bounds[0], before_s=bounds[1]), ()).named():
            if of["jobs"]:
                name = f"{year:04d}-01 to {year:04d}-{month[1]:02d}" if month[1] > 1 else f"{year:04d}-01"
                known = _in(days, (year, 1), (year, month[1])) if year == month[0] else []
                rows.append((name, _figures(of, known)))
    if any(of["utilisation"] is not None for _name, of in rows):
        table = table._replace(columns=_OVER_TIME)
    return table.filled(rows, empty="No job ended in this year.")


def _utilisation(month: Month, capacity: Capacity, days: Mapping[int, _Used], written_s: int) -> Table:
    """By times in which the cores were the same; all of the month together."""
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
    """What was promised and delivered under one pledge."""

    def __init__(self) -> None:
        self.of_month: dict[Month, tuple[float, float]] = {}

    def of_year(self, year: int) -> tuple[float, float]:
        months = [of for month, of in self.of_month.items() if month[0] == year]
        return sum(pledged for pledged, _used in months), sum(used for _pledged, used in months)


def use_of_pledge(ask: Asked, month: Month, path: str | None) -> tuple[Table, ...]:
    """
    What VOs used of what they were promised in the month and in the year so far, and by month if there are several.

    Raises InputError as `pledges`.
    """
    columns = (
        Column("kind", "Hours of"),
        Column("pledged_hours", "Pledged", "h"),
        Column("used_hours", "Used", "h"),
        Column("used_share", "Share", "ratio"),
        Column("pledged_year_hours", "Pledged this year", "h"),
        Column("used_year_hours", "Used this year", "h"),
        Column("used_year_share", "Share this year", "ratio"),
    )
    table = Table("pledge", "Use against the pledge", "VO", columns, naming=1)
    if path is None:
        return (table._replace(notes=("No pledge is known: name a file of pledges with --pledge.",)),)
    every = [months_before(month, back) for back in range(_MONTHS - 1, -1, -1)]
    found = _deliveries(ask, every, path)
    rows = []
    for (vo, kind), of in sorted(found.items()):
        if month in of.of_month:
            figures: dict[str, Value] = {"kind": kind}
            for which, (pledged, used) in (("", of.of_month[month]), ("_year", of.of_year(month[0]))):
                figures[f"pledged{which}_hours"], figures[f"used{which}_hours"] = round(pledged, 3), round(used, 3)
                figures[f"used{which}_share"] = _share(pledged, used)
            rows.append((vo, figures))
    if all(figures["pledged_hours"] == figures["pledged_year_hours"] for _vo, figures in rows):
        # The year so far is this month.
        table = table._replace(columns=columns[:4])
    table = table.filled(rows, empty="The file of pledges has none for this month.")
    promised = [one for one in every if any(one in of.of_month for of in found.values())]
    if len(promised) < _FEWEST_MONTHS:
        return (table,)
    shares = (Column("kind", "Hours of"), *(Column(name_of(one), _title(one), "ratio") for one in promised))
    trend = Table("pledge_trend", "Use against the pledge by month", "VO", shares, naming=1)
    by_month = (
        (vo, {"kind": kind} | {name_of(one): _share(*of.of_month.get(one, (0.0, 0.0))) for one in promised})
        for (vo, kind), of in sorted(found.items())
    )
    return table, trend.filled(by_month)


def _share(pledged: float, used: float) -> float | None:
    return round(used / pledged, 4) if pledged else None


def _deliveries(ask: Asked, months: Sequence[Month], path: str) -> dict[tuple[str, str], _Delivery]:
    """By VO and kind of each pledge that held in one of these months."""
    whole = Selection(from_s=month_bounds(*months[0])[0], before_s=month_bounds(*months[-1])[1])
    used: dict[tuple[str, str], Mapping[str, Value]] = {}
    for of in ask(whole, ("month", "vo")).named():
        figures = of | {"cpu_hours": round(_amount(of["cpu_s"]) / _HOUR_S, 3)}
        used[str(of["month"]), NO_VO if of["vo"] is None else str(of["vo"])] = figures
    found: dict[tuple[str, str], _Delivery] = {}
    for month in months:
        promised = pledges(path, month)
        for one in promised:
            kinds = {other.kind for other in promised if other.vo == one.vo}
            hours = _delivered(used.get((name_of(month), one.vo), {}), one.kind, kinds)
            found.setdefault((one.vo, one.kind), _Delivery()).of_month[month] = one.hours, hours
    return found


def sizes(name: str, title: str, key: str, found: Iterable[tuple[str | None, int, float]]) -> Table:
    """Jobs and core hours by a class, with the share of each; classes come as they are given, unknown last."""
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
    Median and 90th percentile of the waiting times, of all jobs and by VO.

    ``jobs``: all that ended in the month; ``one_of``: only each such job was looked at.
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
        notes.append(f"Of many jobs one of {one_of} was looked at.")
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
    return {
        "jobs": one.jobs,
        "wait_median_min": round(one.median_s / 60, 2),
        "wait_p90_min": round(one.most_s / 60, 2),
    }
