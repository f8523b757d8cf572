"""Charts of a report as inline SVG: by pygal, without its scripts and colours."""

from __future__ import annotations

import sys
from calendar import monthrange
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from arcacct.reports.tables import Report, Row, Table, readable
from arcacct.wording import sanitise_line

# Charts of a report as inline SVG: by pygal, without its scripts and colours.
#
# Colours, sizes of letters and what is in them are the page's (`arcacct.reports.page`), so that a chart follows the
# reader's choice of light or dark, and paper.


COLOURS = 6
"""Maximum number of distinguishable series; the rest goes into one called "others"."""
_WIDTH = 360
_WIDE = 720
"""Of a chart with a place for each day: the page gives it its whole width."""
_MIDDLE = 440
"""Of a chart with a place for each month: letters stay readable on a phone, too."""
_HEIGHT = 250
_BARS = 60
"""Maximum number to show; the chart says how many are left out."""
_BAR = 26
"""Units of the drawing, about the pixels of a phone: letters stay readable there."""
_LABEL = 18
_LEGEND = 26
_FEWEST_MONTHS = 2
_MOST = 200
"""Per cent: a pledge that is surpassed by far would leave no room for the others."""
_SVG = "http://www.w3.org/2000/svg"


class Chart(NamedTuple):
    """A chart of a table."""

    title: str
    description: str
    """What it shows, for people who do not see it."""
    svg: str


def available() -> bool:
    """Whether the plotting library is there."""
    return find_spec("pygal") is not None


def charts(report: Report) -> dict[str, Chart]:
    """By section: its chart; none where there is nothing to draw. Only where `available`."""
    found = {
        "day": _days(report),
        "vo": _shares(report.table("vo"), "cpu_efficiency", "CPU efficiency by VO"),
        "pledge": _pledge(report.table("pledge")),
        "history": _months(report.table("history"), "core_hours", "Core hours by month", _MIDDLE),
        "utilisation": _months(report.table("history"), "utilisation", "Utilisation by month (%)", _WIDTH),
        "cores": _sizes(report.table("cores"), "by cores"),
        "walltime": _sizes(report.table("walltime"), "by wall time"),
    }
    for table in report.tables:
        if table.name == "pledge_trend":
            found["pledge_trend"] = _trend(table)
        elif table.name == "ce":
            found["ce"] = _shares(table, "cpu_efficiency", "CPU efficiency by CE")
        elif table.name == "energy":
            found["energy"] = _energy(table)
    return {name: chart for name, chart in found.items() if chart is not None}


def _short(name: str, most: int = _LABEL) -> str:
    """A name cut to fit next to a bar."""
    text = sanitise_line(readable(name), None)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _number(row: Row, place: int) -> float:
    value = row.values[place]
    return value if isinstance(value, int | float) else 0.0


def _days(report: Report) -> Chart | None:
    if not report.table("day").rows:
        return None
    # Every day of the month, whatever ended on it: a day without jobs is an empty place.
    year, month = report.month
    days = [f"{year:04d}-{month:02d}-{day:02d}" for day in range(1, monthrange(year, month)[1] + 1)]
    vos = [row.key for row in report.table("vo").rows]
    table = report.table("day_vo")
    place = table.column("core_hours")
    hours = {row.key: _number(row, place) for row in table.rows}
    shown = vos if len(vos) <= COLOURS else vos[: COLOURS - 1]
    series: dict[str, list[float]] = {vo: [hours.get(f"{day} {vo}", 0.0) for day in days] for vo in shown}
    if len(vos) > len(shown):
        rest = vos[len(shown) :]
        series["others"] = [sum(hours.get(f"{day} {vo}", 0.0) for vo in rest) for day in days]
    labels = [str(int(day[-2:])) for day in days]
    title = "Core hours by day and VO"
    most = max(range(len(days)), key=lambda at: sum(values[at] for values in series.values()))
    empty = sum(not any(values[at] for values in series.values()) for at in range(len(days)))
    described = (
        f"Stacked bars for {len(days)} days, {empty} of them without core hours, a colour for each of"
        f" {', '.join(series)}; most on {days[most]}."
    )
    height = _HEIGHT + 16 * ((len(series) + 1) // 2)
    return _drawn(
        "StackedBar", "day", title, described, labels, series, height, width=_WIDE, x_labels_major=_marks(labels)
    )


def _marks(days: Sequence[str]) -> list[str]:
    """The days that are named below the axis: the first, each fifth and the last."""
    return [day for day in days if int(day) % 5 == 0 and len(days) - int(day) > 2] + [days[0], days[-1]]


def _shares(table: Table, column: str, title: str) -> Chart | None:
    """A bar in per cent for each row; the first is at the top."""
    place = table.column(column)
    known = [row for row in table.rows if row.values[place] is not None]
    rows = known[:_BARS]
    if not rows:
        return None
    if len(known) > len(rows):
        title += f", {len(rows)} of {len(known)}; the table has all"
    values = [round(_number(row, place) * 100, 1) for row in rows]
    described = "; ".join(f"{row.key} {value:g} %" for row, value in zip(rows, values, strict=True))
    top = min(max(100.0, *values), _MOST)
    unit = f"%; the scale ends at {_MOST}" if max(values) > _MOST else "%"
    drawn = [min(value, top) for value in values]
    return _horizontal(table.name, f"{title} ({unit})", described, [row.key for row in rows], {"": drawn}, top)


def _months(table: Table, column: str, title: str, width: int) -> Chart | None:
    """A bar for each month, if there are several."""
    if column not in [one.name for one in table.columns] or len(table.rows) < _FEWEST_MONTHS:
        return None
    place = table.column(column)
    is_ratio = table.columns[place].unit == "ratio"
    values = [round(_number(row, place) * (100 if is_ratio else 1), 1) for row in table.rows]
    if not any(values):
        return None
    labels = [row.key for row in table.rows]
    described = "; ".join(
        f"{label} {value:,.6g}{' %' if is_ratio else ''}" for label, value in zip(labels, values, strict=True)
    )
    name = "utilisation" if is_ratio else table.name
    # A name below every third bar: more have no room.
    return _drawn(
        "Bar", name, title, described, labels, {title: values}, _HEIGHT, width=width, x_labels_major=labels[::-3]
    )


def _sizes(table: Table, by: str) -> Chart | None:
    """Two bars for each class, if there are several: its share of the jobs and of the core hours."""
    rows = table.rows[:_BARS]
    if len(rows) == 1 or not rows:
        return None
    series = {
        title: [round(100 * _number(row, table.column(column)), 1) for row in rows]
        for title, column in (("of jobs", "jobs_share"), ("of core hours", "core_hours_share"))
    }
    labels = [row.key for row in rows]
    described = "; ".join(
        f"{label}: {jobs:g} % of jobs, {hours:g} % of core hours"
        for label, jobs, hours in zip(labels, *series.values(), strict=True)
    )
    title = f"Shares {by} (%)"
    return _horizontal(table.name, title, described, labels, series, None, kind="HorizontalBar")


def _trend(table: Table) -> Chart | None:
    """A line for each pledge over the months, in per cent of it."""
    months = [place for place, column in enumerate(table.columns) if column.unit == "ratio"]
    labels = [table.columns[place].name for place in months]
    rows = table.rows[:COLOURS]
    series: dict[str, list[float | None]] = {}
    for row in rows:
        shares = [row.values[place] for place in months]
        series[f"{row.key} {row.values[0]}"] = [
            min(round(100 * share, 1), _MOST) if isinstance(share, int | float) else None for share in shares
        ]
    title = "Used of the pledge by month (%)"
    if len(table.rows) > len(rows):
        title = f"{title}, {len(rows)} of {len(table.rows)} pledges"
    told = {
        name: [f"{label} {value:g} %" for label, value in zip(labels, values, strict=True) if value is not None]
        for name, values in series.items()
    }
    described = "; ".join(f"{name}: {', '.join(values)}" for name, values in told.items())
    top = max(100.0, *(value for values in series.values() for value in values if value is not None))
    height = _HEIGHT + 16 * ((len(series) + 1) // 2)
    named = labels[::-3]
    return _drawn(
        "Line", "pledge_trend", title, described, labels, series, height,
        width=_MIDDLE, x_labels_major=named, range=(0, top), show_legend=True,
    )  # fmt: skip


def _pledge(table: Table) -> Chart | None:
    kinds = table.column("kind")
    named = table._replace(rows=tuple(row._replace(key=f"{row.key} {row.values[kinds]}") for row in table.rows))
    return _shares(named, "used_share", "Used of the pledge")


def _energy(table: Table) -> Chart | None:
    rows = table.rows[:_BARS]
    if not rows:
        return None
    series = {
        "measured": [_number(row, table.column("measured_kwh")) for row in rows],
        "estimated": [_number(row, table.column("estimated_kwh")) for row in rows],
    }
    described = "; ".join(
        f"{row.key} {measured:g} measured and {estimated:g} estimated"
        for row, measured, estimated in zip(rows, *series.values(), strict=True)
    )
    return _horizontal("energy", "Energy by VO (kWh)", described, [row.key for row in rows], series, None)


def _horizontal(
    name: str,
    title: str,
    described: str,
    labels: Sequence[str],
    series: dict[str, list[float]],
    top: float | None,
    kind: str = "HorizontalStackedBar",
) -> Chart:
    height = 50 + _BAR * len(labels) + (20 if len(series) > 1 else 0)
    # pygal begins at the bottom.
    turned = {key: values[::-1] for key, values in series.items()}
    limits = {} if top is None else {"range": (0, top)}
    return _drawn(kind, name, title, described, labels[::-1], turned, height, **limits)


def _drawn(
    kind: str,
    name: str,
    title: str,
    described: str,
    labels: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    height: int,
    **more: Any,
) -> Chart:
    library = _library()
    style = library.style.Style(
        font_family="sans-serif", label_font_size=12, major_label_font_size=12, legend_font_size=12
    )
    is_horizontal = kind.startswith("Horizontal")
    # pygal keeps room for one line less of an odd number of names.
    odd = 20 if len(series) > 1 and len(series) % 2 else 0
    chart = getattr(library, kind)(
        width=more.pop("width", _WIDTH),
        height=height + odd,
        style=style,
        js=(),
        show_legend=more.pop("show_legend", len(series) > 1 or (name == "day")),
        legend_at_bottom=True,
        legend_at_bottom_columns=min(2, len(series)),
        legend_box_size=10,
        truncate_legend=-1,
        truncate_label=-1,
        margin=4,
        margin_bottom=4 + odd,
        margin_right=24 if kind == "Line" else 16,
        spacing=6,
        show_minor_x_labels=is_horizontal,
        max_scale=6,
        value_formatter=lambda value: f"{value:,.6g}",
        **more,
    )
    chart.uuid = name
    chart.x_labels = [_short(label) for label in labels]
    for key, values in series.items():
        chart.add(_short(key, _LABEL if is_horizontal or name == "day" else _LEGEND), values)
    return Chart(
        title,
        sanitise_line(described, 1000),
        _svg(chart.render(), name, sanitise_line(title), sanitise_line(described, 1000)),
    )


def _library() -> Any:
    """The plotting library, an extra that is slow to load."""
    # Its importlib_metadata puts a finder of its own among those of modules, of a kind that Python has given up, and
    # takes from Python's what finds packages: entry points would be gone for the whole process.
    finders, find_distributions = sys.meta_path.copy(), PathFinder.__dict__["find_distributions"]
    try:
        return import_module("pygal")
    finally:
        sys.meta_path[:] = finders
        PathFinder.find_distributions = find_distributions  # type: ignore[method-assign]


def _svg(rendered: bytes, name: str, title: str, described: str) -> str:
    """The drawing alone, with a name and a description, and the value of each bar where one points at it."""
    ET.register_namespace("", _SVG)
    root = ET.fromstring(rendered)  # noqa: S314  pygal wrote it just now
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{{{_SVG}}}defs" or _is_for_scripts(child):
                parent.remove(child)
    for bar in root.iter(f"{{{_SVG}}}g"):
        _point_out(bar)
        if bar.get("id"):
            del bar.attrib["id"]
    root.set("id", f"chart-{name}")
    root.set("class", "chart")
    root.set("role", "img")
    root.set("aria-labelledby", f"chart-{name}-title chart-{name}-desc")
    root.attrib.pop(f"{{{_SVG}}}xlink", None)
    first = root.find(f"{{{_SVG}}}title")
    assert first is not None
    first.text = title
    first.set("id", f"chart-{name}-title")
    desc = ET.Element(f"{{{_SVG}}}desc", {"id": f"chart-{name}-desc"})
    desc.text = described
    root.insert(1, desc)
    return ET.tostring(root, encoding="unicode")


def _is_for_scripts(element: ET.Element) -> bool:
    kinds = (element.get("class") or "").split()
    return "tooltip-overlay" in kinds or ("overlay" in kinds and "plot" in kinds)


def _texts(bar: ET.Element) -> Iterable[ET.Element]:
    return [child for child in bar if child.tag == f"{{{_SVG}}}desc"]


def _point_out(bar: ET.Element) -> None:
    """What pygal leaves for its script becomes the title that browsers show."""
    told = {desc.get("class"): desc.text or "" for desc in _texts(bar)}
    if not told:
        return
    for desc in _texts(bar):
        bar.remove(desc)
    title = ET.Element(f"{{{_SVG}}}title")
    title.text = ": ".join(filter(None, (told.get("x_label"), told.get("value"))))
    bar.insert(0, title)
