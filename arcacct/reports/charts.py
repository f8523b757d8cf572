"""Texts, numbers and charts of a report as HTML: charts are boxes; the page's style sheet gives their sizes."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from arcacct.reports.capacity import DAY_S
from arcacct.reports.tables import Column, Report, Row, Table, Value, readable
from arcacct.times import month_bounds
from arcacct.wording import sanitise_line

# Texts, numbers and charts of a report as HTML. Text has the size of the page's text, for any width of a chart. Names
# of people, VOs and jobs are foreign text: every text goes through `wording.sanitise_line` and is escaped.


COLOURS = 6
"""Maximum number of distinguishable VOs; the rest are others."""
HATCH = '<svg class="unknown" aria-label="unknown"><path d="M0 0L2000 2000"/></svg>'
MARK = '<abbr class="mark" title="estimated, not measured">≈</abbr>'
THIN = "\u202f"
_UNITS = ((9, "G"), (6, "M"), (3, "k"))
_LEAST = 0.1
_LONGEST = 500
"""Characters of a name or a note."""
_DATE = re.compile(r"\b(\d{4}-\d{2}(?:-\d{2})?)(T?)")


class _Stack(NamedTuple):
    """A column of a chart."""

    name: str
    label: str
    """The text below it, as HTML; empty: there is no space."""
    parts: Sequence[float] | None
    """From the bottom, one for each colour; ``None``: unknown."""
    value: str = ""


def text(content: str) -> str:
    """Return any text as HTML; a date in it stays on one line."""
    return _DATE.sub(
        lambda found: f'<span class="date">{found[1]}</span>{"<wbr>T" if found[2] else ""}',
        escape(sanitise_line(content, _LONGEST)),
    )


def shown(column: Column, value: Value) -> str:
    """Return a value for people; an estimated one has a mark."""
    if value is None:
        return "–"  # noqa: RUF001  a dash
    if isinstance(value, str):
        return text(value)
    if column.unit == "ratio":
        return f"{100 * value:.1f}{THIN}%"
    mark = f"{MARK}{THIN}" if column.is_estimated else ""
    digits = 0 if isinstance(value, int) or value >= 1000 else 1 if value >= 10 else 2
    least = 0.01
    if 0 < value < least / 2:
        # It is a small amount, but not zero.
        return f"{mark}&lt;{THIN}{least}"
    return mark + f"{value:,.{digits}f}".replace(",", THIN)


def short(value: float) -> str:
    """A number in at most four characters, as HTML: 950k, 1.2M."""
    if 0 < value < _LEAST:
        return f"&lt;{_LEAST}"
    exponent, unit = next((one for one in _UNITS if value >= 0.9995 * 10 ** one[0]), (0, ""))
    scaled = value / 10**exponent
    return (f"{scaled:.0f}" if scaled >= 9.95 else f"{scaled:.1f}".removesuffix(".0")) + unit


def charts(report: Report) -> Iterable[str]:
    """Return charts of usage by VO, by month and by day, if there are any data."""
    by_vo = report.table("vo")
    hours = by_vo.columns[by_vo.column("core_hours")]
    of_vos = {row.key: by_vo.number(row, "core_hours") for row in by_vo.rows}
    if any(of_vos.values()):
        yield _figure("vo", "Core hours by VO", _bars(hours, _with_others(of_vos)))
    history = report.table("history")
    if any(history.number(row, "core_hours") for row in history.rows):
        yield _columns("history", "Core hours by month", [*map(_month, [history] * 12, history.rows)])
    if any(of_vos.values()):
        yield _days(report, [*_with_others(of_vos)])


def _with_others(of_vos: dict[str, float]) -> dict[str, float]:
    """The VOs that have a colour each, those with the most first, and the sum of the others."""
    names = [*of_vos]
    if len(names) <= COLOURS:
        return of_vos
    rest = names[COLOURS - 1 :]
    sums = {name: of_vos[name] for name in names[: COLOURS - 1]}
    return sums | {f"{len(rest)} others": sum(of_vos[name] for name in rest)}


def _bars(column: Column, amounts: dict[str, float]) -> str:
    """A bar for each name with its amount and its share of all."""
    whole, most = sum(amounts.values()), max(amounts.values())
    lines = (
        f'<li><span>{text(readable(name))}</span><span class="bar"><i class="c{place}" style="width:'
        f'{100 * amount / most:.1f}%"></i></span><span>{shown(column, amount)}</span><span>'
        f"{shown(Column('', '', 'ratio'), amount / whole)}</span></li>"
        for place, (name, amount) in enumerate(amounts.items())
    )
    return f'<ul class="bars">{"".join(lines)}</ul>'


def _month(history: Table, row: Row) -> _Stack:
    year, month = row.key.split("-")
    label = "JanFebMarAprMayJunJulAugSepOctNovDec"[3 * int(month) - 3 :][:3]
    if row == history.rows[0] or month == "01":
        label += f"<br>{year}"
    if row.values[history.column("jobs")] is None:
        return _Stack(row.key, label, None)
    amount = history.number(row, "core_hours")
    return _Stack(row.key, label, [amount], short(amount))


def _days(report: Report, names: Sequence[str]) -> str:
    """Every day of the month, whatever ended on it: a day without jobs is an empty place, an unknown one is hatched."""
    table = report.table("day_vo")
    hours: dict[str, dict[str, float]] = {}
    for row in table.rows:
        day, _, vo = row.key.partition(" ")
        name = vo if vo in names else names[-1]
        of_day = hours.setdefault(day, dict.fromkeys(names, 0.0))
        of_day[name] += table.number(row, "core_hours")
    last = monthrange(*report.month)[1]
    first_s = month_bounds(*report.month)[0]
    stacks = []
    for number in range(1, last + 1):
        day = f"{report.month_name}-{number:02d}"
        is_named = number in (1, last) or (number % 5 == 0 and last - number > 2)
        is_known = day in hours or first_s + number * DAY_S > report.first_end_s
        parts = [*hours.get(day, {}).values()] if is_known else None
        stacks.append(_Stack(day, str(number) if is_named else "", parts))
    return _columns("day", "Core hours by day and VO", stacks, names)


def _columns(name: str, title: str, stacks: Sequence[_Stack], legend: Sequence[str] = ()) -> str:
    """A column for each stack, with a text for people who point at it or do not see it."""
    sums = {one.name: None if one.parts is None else sum(one.parts) for one in stacks}
    top = max(amount or 0.0 for amount in sums.values())
    said = {at: "unknown" if amount is None else f"{amount:,.6g}" for at, amount in sums.items()}
    boxes = []
    for one in stacks:
        parts = [
            f'<i class="c{place}" style="height:{100 * part / top:.1f}%"></i>'
            for place, part in enumerate(one.parts or ())
            if part
        ]
        drawn = HATCH if one.parts is None else f"<b>{one.value}</b>{''.join(parts[::-1])}"
        boxes.append(f'<div title="{one.name}: {said[one.name]}"><div>{drawn}</div><span>{one.label}</span></div>')
    described = escape(f"{title}: {'; '.join(f'{at} {amount}' for at, amount in said.items() if amount != '0')}")
    names = [f'<li><i class="c{place}"></i>{text(readable(vo))}</li>' for place, vo in enumerate(legend)]
    if None in sums.values():
        names.append(f"<li>{HATCH}unknown</li>")
    keys = f'<ul class="legend">{"".join(names)}</ul>' if names else ""
    title = f"{title}, at most {short(top)}"
    return _figure(
        name, title, f'<div class="columns" role="img" aria-label="{described}">{"".join(boxes)}</div>{keys}'
    )


def _figure(name: str, title: str, drawn: str) -> str:
    return f'<figure class="{name}"><figcaption>{escape(title)}</figcaption>{drawn}</figure>'
