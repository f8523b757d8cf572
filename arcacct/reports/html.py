"""A report as one page of HTML that needs nothing else, with charts as SVG."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from arcacct import __version__
from arcacct.publishing.ledger_rows import iso
from arcacct.reports.tables import Column, Report, Row, Table, Value
from arcacct.wording import count_of, sanitise_line

# Charts of a report as SVG that stands in a page: by pygal, without its scripts and colours.
#
# Colours, sizes of letters and what is in them are the page's (`arcacct.reports.html`), so that a chart follows the
# reader's choice of light or dark, and paper.


COLOURS = 6
"""Series that can be told apart; what is more goes into one called "others"."""
_WIDTH = 360
_HEIGHT = 250
_BAR = 26
"""Units of the drawing, of which a phone has about as many pixels: letters stay readable there."""
_LABEL = 18
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
    }
    for table in report.tables:
        if table.name == "ce":
            found["ce"] = _shares(table, "cpu_efficiency", "CPU efficiency by CE")
        elif table.name == "energy":
            found["energy"] = _energy(table)
    return {name: chart for name, chart in found.items() if chart is not None}


def _short(name: str) -> str:
    """A name as it fits beside a bar."""
    text = sanitise_line(name, None)
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…"


def _number(row: Row, place: int) -> float:
    value = row.values[place]
    return value if isinstance(value, int | float) else 0.0


def _days(report: Report) -> Chart | None:
    days = [row.key for row in report.table("day").rows]
    vos = [row.key for row in report.table("vo").rows]
    if not days:
        return None
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
    described = f"Stacked bars for {len(days)} days, a colour for each of {', '.join(series)}; most on {days[most]}."
    return _drawn("StackedBar", "day", title, described, labels, series, _HEIGHT + 16 * ((len(series) + 1) // 2))


def _shares(table: Table, column: str, title: str) -> Chart | None:
    """A bar in per cent for each row; the first is at the top."""
    place = table.column(column)
    rows = [row for row in table.rows if row.values[place] is not None][: 2 * COLOURS]
    if not rows:
        return None
    values = [round(_number(row, place) * 100, 1) for row in rows]
    described = "; ".join(f"{row.key} {value:g} %" for row, value in zip(rows, values, strict=True))
    top = min(max(100.0, *values), _MOST)
    unit = f"%; the scale ends at {_MOST}" if max(values) > _MOST else "%"
    drawn = [min(value, top) for value in values]
    return _horizontal(table.name, f"{title} ({unit})", described, [row.key for row in rows], {"": drawn}, top)


def _pledge(table: Table) -> Chart | None:
    kinds = table.column("kind")
    named = table._replace(rows=tuple(row._replace(key=f"{row.key} {row.values[kinds]}") for row in table.rows))
    return _shares(named, "used_share", "Used of the pledge")


def _energy(table: Table) -> Chart | None:
    rows = table.rows[: 2 * COLOURS]
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
    name: str, title: str, described: str, labels: Sequence[str], series: dict[str, list[float]], top: float | None
) -> Chart:
    height = 50 + _BAR * len(labels) + (20 if len(series) > 1 else 0)
    # pygal begins at the bottom.
    turned = {key: values[::-1] for key, values in series.items()}
    limits = {} if top is None else {"range": (0, top)}
    return _drawn("HorizontalStackedBar", name, title, described, labels[::-1], turned, height, **limits)


def _drawn(
    kind: str,
    name: str,
    title: str,
    described: str,
    labels: Sequence[str],
    series: dict[str, list[float]],
    height: int,
    **more: Any,
) -> Chart:
    library = _library()
    style = library.style.Style(
        font_family="sans-serif", label_font_size=12, major_label_font_size=12, legend_font_size=12
    )
    is_horizontal = kind.startswith("Horizontal")
    chart = getattr(library, kind)(
        width=_WIDTH,
        height=height,
        style=style,
        js=(),
        show_legend=len(series) > 1 or not is_horizontal,
        legend_at_bottom=True,
        legend_at_bottom_columns=min(2, len(series)),
        legend_box_size=10,
        truncate_legend=-1,
        truncate_label=-1,
        margin=4,
        margin_right=16,
        spacing=6,
        show_minor_x_labels=is_horizontal,
        x_labels_major_every=None if is_horizontal else 5,
        max_scale=6,
        value_formatter=lambda value: f"{value:,.6g}",
        **more,
    )
    chart.uuid = name
    chart.x_labels = [_short(label) for label in labels]
    for key, values in series.items():
        chart.add(_short(key), values)
    return Chart(
        title,
        sanitise_line(described, 1000),
        _svg(chart.render(), name, sanitise_line(title), sanitise_line(described, 1000)),
    )


def _library() -> Any:
    """The plotting library, an extra that is slow to load."""
    # What it puts among the finders of modules, for its plugins, is of a kind that Python has given up.
    finders = sys.meta_path.copy()
    try:
        return import_module("pygal")
    finally:
        sys.meta_path[:] = finders


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


# A report as one page of HTML that needs nothing else: no script, no network, no font; for a phone, a screen and paper.
#
# What people, VOs and jobs are called is none of ours: every text goes through `wording.sanitise_line` and is escaped.


_THIN = "\u202f"
_MARK = '<abbr class="mark" title="estimated, not measured">≈</abbr>'
_LONGEST = 500
"""Characters of a name or a note."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Should an escape ever be forgotten: the page may run and load nothing."""
_BENCHMARKS = ("hs06_hours", "hepscore23_hours")
_IF_ANY = (*_BENCHMARKS, "jobs_without_wall", "jobs_without_cpu")
"""Columns that are shown only if a row has more than 0."""
_CARDS = ("jobs", "core_hours", "cpu_hours", *_BENCHMARKS, "cpu_efficiency")


def page(report: Report) -> str:
    """The page; the same report gives the same text. Without the plotting library it says so and has the tables."""
    drawn = charts(report) if available() else {}
    return "\n".join(_page(report, drawn)) + "\n"


def _page(report: Report, drawn: dict[str, Chart]) -> Iterator[str]:
    title = f"{_text(report.site)}, {report.month_name}"
    yield "<!DOCTYPE html>"
    yield '<html lang="en">'
    yield "<head>"
    yield '<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Accounting of {title}</title>"
    yield f"<style>\n{files(__package__).joinpath('page.css').read_text(encoding='utf-8')}</style>"
    yield "</head>"
    yield "<body>"
    yield f"<header><h1>Accounting of {title}</h1>"
    yield f"<p>Jobs that ended in {report.month_name} (UTC). Written {iso(report.written_s)}.</p></header>"
    yield "<main>"
    yield from _cards(report)
    for table in report.tables:
        if not table.is_detail:
            yield from _section(table, drawn.get(table.name))
    yield "</main>"
    yield "<footer>"
    yield f'<p id="estimated">{_MARK} estimated, not measured; how, stands below the table.</p>'
    if not available():
        yield (
            "<p>There are no charts: the package pygal is not installed where this page was written"
            " (<code>pip install 'arcacct[report]'</code>).</p>"
        )
    yield f"<p>arcacct {_text(__version__)}</p>"
    yield "</footer>"
    yield "</body>"
    yield "</html>"


def _cards(report: Report) -> Iterator[str]:
    """The month in a few numbers."""
    usage = report.table("vo")
    energy = next((table for table in report.tables if table.name == "energy"), None)
    yield '<dl class="cards">'
    for name in _CARDS:
        column = usage.columns[usage.column(name)]
        value = None if usage.total is None else usage.total.values[usage.column(name)]
        if value or name in ("jobs", "core_hours"):
            yield _card(column, value or 0)
    if energy is not None and energy.total is not None:
        for name in ("site_kwh", "carbon_kg"):
            place = energy.column(name)
            if energy.total.values[place] is not None:
                title = {"site_kwh": "Energy with PUE", "carbon_kg": "Carbon"}[name]
                yield _card(energy.columns[place]._replace(title=title), energy.total.values[place])
    yield "</dl>"
    if report.verdict is not None:
        yield f'<p class="verdict {"good" if report.verdict.is_well else "bad"}">{_text(report.verdict.text)}</p>'
    if report.basis:
        yield f'<p class="basis">These figures rest on {_text(report.basis)}.</p>'


def _card(column: Column, value: Value) -> str:
    unit = "" if column.unit in ("jobs", "ratio", "h") or "h" in column.unit.split() else f" {_unit(column)}"
    return f"<div><dt>{escape(column.title)}</dt><dd>{_shown(column, value)}{unit}</dd></div>"


def _unit(column: Column) -> str:
    # Jobs are called so by the heading.
    shown = {"ratio": "%", "jobs": "", "count": ""}.get(column.unit, column.unit)
    return escape(shown.replace("CO2e", "CO₂e"))


def _section(table: Table, chart: Chart | None) -> Iterator[str]:
    wide = " wide" if chart is not None and len(table.columns) <= 4 else ""
    yield f'<section class="{table.name}" aria-labelledby="{table.name}">'
    yield f'<h2 id="{table.name}">{escape(table.title)}</h2>'
    if table.rows:
        yield f'<div class="part{wide}">'
        if chart is not None:
            yield f"<figure><figcaption>{escape(chart.title)}</figcaption>{chart.svg}</figure>"
        yield from _table(table)
        yield "</div>"
    for note in table.notes:
        yield f'<p class="note">{_text(note)}</p>'
    yield "</section>"


def _table(table: Table) -> Iterator[str]:
    every = (*table.rows, *(() if table.total is None else (table.total,)))
    # What is not known of any row, or a benchmark that no job has, only makes it wide; the CSV has all.
    places = [
        place
        for place, column in enumerate(table.columns)
        if any(row.values[place] or (row.values[place] == 0 and column.name not in _IF_ANY) for row in every)
    ]
    yield f'<div class="scroll" role="region" aria-labelledby="{table.name}" tabindex="0">'
    yield "<table>"
    yield f"<caption>{escape(table.title)}: {count_of(len(table.rows), 'row')}</caption>"
    head = "".join(_head(table.columns[place]) for place in places)
    yield f'<thead><tr><th scope="col">{escape(table.key)}</th>{head}</tr></thead>'
    yield "<tbody>"
    for row in table.rows:
        yield _row(table, row, places)
    yield "</tbody>"
    if table.total is not None:
        yield f"<tfoot>{_row(table, table.total, places)}</tfoot>"
    yield "</table>"
    yield "</div>"


def _head(column: Column) -> str:
    unit = _unit(column)
    told = f'<span class="unit">{unit}</span>' if unit else ""
    kind = "" if column.unit else ' class="text"'
    return f'<th scope="col"{kind}>{escape(column.title)}{f"{_THIN}{_MARK}" if column.is_estimated else ""}{told}</th>'


def _row(table: Table, row: Row, places: list[int]) -> str:
    cells = []
    for place in places:
        column, value = table.columns[place], row.values[place]
        kind = ' class="text"' if not column.unit and not isinstance(value, int | float) else ""
        if column.name == "agrees":
            kind = f' class="text {"good" if str(value).startswith("yes") else "bad"}"'
        cells.append(f"<td{kind}>{_shown(column, value)}</td>")
    return f'<tr><th scope="row">{_text(row.key)}</th>{"".join(cells)}</tr>'


def _shown(column: Column, value: Value) -> str:
    """A value as people read it; an estimated one with its mark."""
    if value is None:
        return "–"  # noqa: RUF001  a dash
    if isinstance(value, str):
        return _text(value)
    if column.unit == "ratio":
        return f"{100 * value:.1f}{_THIN}%"
    digits = 0 if isinstance(value, int) or value >= 1000 else 1 if value >= 10 else 2
    text = f"{value:,.{digits}f}"
    return (f"{_MARK}{_THIN}" if column.is_estimated else "") + text.replace(",", _THIN)


def _text(text: str) -> str:
    return escape(sanitise_line(text, _LONGEST))
