"""
A CSV export of the EGI accounting portal, held against the database: by VO, in jobs or in hours.

The portal is the only place that tells what APEL has made of what it was sent: everything before it is a promise.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from arcacct.benchmark import FALLBACK, parsed_benchmark
from arcacct.errors import InputError
from arcacct.jobs.aar import UsageCell
from arcacct.publishing.instants import Month

_NAMES_OF_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NO_ROW = re.compile(r"\s*(total|percent(age)?|%)?\s*", re.IGNORECASE)
_HOUR_S = 3600
_NO_VO = "no VO"
_SHOWN = 5


class Export(NamedTuple):
    """What an export says of one month."""

    measure: str
    """A name of `MEASURES`."""
    values: dict[str, float]
    """By the name of the row or column, as it is written there: most often a VO."""

    @property
    def total(self) -> float:
        """Of all names."""
        return sum(self.values.values())


class Compared(NamedTuple):
    """An export beside the database; amounts are jobs, or hours."""

    measure: str
    found: float
    ours: float
    differences: list[str]
    """In words, one for each cause."""


MEASURES: dict[str, Callable[[UsageCell], float]] = {
    "jobs": lambda cell: float(cell.jobs),
    "wall hours": lambda cell: cell.wall_s / _HOUR_S,
    "CPU hours": lambda cell: cell.cpu_s / _HOUR_S,
    "core hours": lambda cell: cell.wall_s * max(cell.core_count, 1) / _HOUR_S,
}
"""What the portal's tables can be of, normalised hours as well, and what that is of a usage cell."""
_NORMALISED = "normalised "


def compare_portal(path: str, month: Month, cells: Sequence[UsageCell]) -> Compared:
    """
    One export beside the usage cells of the same month; raises InputError for a file that has no such table.

    Hours are rounded there: they agree when less than one hour is between them, for each VO.
    """
    table = read_portal(path, month)
    ours: Counter[str] = Counter()
    for cell in cells:
        amount = MEASURES[table.measure.removeprefix(_NORMALISED)](cell)
        if table.measure.startswith(_NORMALISED):
            amount *= (parsed_benchmark(cell.benchmark) or FALLBACK).normalised(1) / 10**6
        ours[(cell.vo or _NO_VO).casefold()] += amount  # type: ignore[assignment]
    found = {name.casefold(): value for name, value in table.values.items()}
    if not ours.keys() & found.keys() and ours:
        # A table by something else, such as sites: only its sum can be compared.
        ours, found = Counter({"in all": sum(ours.values())}), {"in all": table.total}
    tolerance = 0.5 if table.measure == "jobs" else 1.0
    groups: dict[str, list[str]] = {}
    for name in sorted(found.keys() | ours.keys()):
        there, here = found.get(name), float(ours.get(name, 0))
        if abs((there or 0.0) - here) < tolerance:
            continue
        groups.setdefault(_cause(there, here), []).append(f"{name} {there or 0:.0f}, in the database {here:.0f}")
    causes = [
        f"{cause}: {'; '.join(names[:_SHOWN])}{f'; and {len(names) - _SHOWN} more' if len(names) > _SHOWN else ''}"
        for cause, names in groups.items()
    ]
    return Compared(table.measure, table.total, float(sum(ours.values())), causes)


def _cause(there: float | None, here: float) -> str:
    if there is None:
        return (
            "not at the portal at all (filtered by vofilter, sent under another VO, or a rejected message: `republish`)"
        )
    if not here:
        return "at the portal only (another CE or program of the site, or published before under another VO)"
    if there < here:
        return "less at the portal (not arrived, set aside, or not summarised yet: it takes a day)"
    return "more at the portal (another CE or program of the site, or counted twice under two keys)"


def read_portal(path: str, month: Month) -> Export:
    """
    What an export says of a month.

    One dimension of the table has to be months. Rows and columns of totals and percentages are left out; what the
    table is of stands in its title, and is jobs without one. Raises InputError when the file has no such table.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except (OSError, UnicodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}; export the table from the portal as CSV") from error
    delimiter = ";" if text.count(";") > text.count(",") else ","
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines(), delimiter=delimiter) if any(row)]
    for number, header in enumerate(rows):
        places = [place for place, cell in enumerate(header) if _month_of(cell) == month]
        if places and number + 1 < len(rows) and (places[0] > 0 or (len(header) > 1 and _month_of(header[1]))):
            below = [row for row in rows[number + 1 :] if len(row) > places[0] and not _NO_ROW.fullmatch(row[0])]
            found = {row[0]: _number(row[places[0]], path) for row in below}
            return Export(_measure(rows[: number + 1]), found)
    for number, row in enumerate(rows):
        if number and _month_of(row[0]) == month:
            # Months may stand directly above it: the header is above them.
            above = number - 1
            while above > 0 and _month_of(rows[above][0]) is not None:
                above -= 1
            names = rows[above]
            cells = zip(names[1:], row[1:], strict=False)
            found = {
                name or "all": _number(cell, path) for name, cell in cells if not _NO_ROW.fullmatch(name) or not name
            }
            return Export(_measure(rows[: above + 1]), found)
    raise InputError(
        f"{path}: no {month[0]:04d}-{month[1]:02d} in it; export a table of the number of jobs with months on one side"
    )


def _measure(above: Sequence[Sequence[str]]) -> str:
    """What a table is of, by the words of its title and of its header's first cell."""
    title = " ".join([*(" ".join(row) for row in above[:-1]), above[-1][0] if above else ""]).lower()
    normalised = _NORMALISED if re.search("norm|hepspec|hs06|hepscore|hs23", title) else ""
    if re.search(r"number of jobs|njobs|\bjobs\b", title):
        return "jobs"
    if re.search("processors|cores?|multi", title) and re.search("elap|wall|hours", title):
        return f"{normalised}core hours"
    if "cpu" in title:
        return f"{normalised}CPU hours"
    if re.search("elap|wall", title):
        return f"{normalised}wall hours"
    return "jobs"


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


def _number(text: str, path: str) -> float:
    plain = text.replace(",", "").replace(" ", "").replace("\N{NO-BREAK SPACE}", "")
    try:
        return float(plain or "0")
    except ValueError:
        raise InputError(f"{path}: {text!r} is not a number; export the table without units") from None
