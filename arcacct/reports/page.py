"""
A report as one page of HTML that needs nothing else: no script, no network, no font; for a phone, a screen and paper.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files

from arcacct import __version__
from arcacct.errors import install_extra
from arcacct.publishing.ledger_rows import iso
from arcacct.reports.charts import Chart, available, charts
from arcacct.reports.tables import Column, Report, Row, Table, Value, readable
from arcacct.wording import count_of, sanitise_line

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
    yield f'<p id="estimated">{_MARK} estimated, not measured; the method is below the table.</p>'
    if not available():
        yield (
            "<p>No charts: the package pygal is not installed on the host that wrote this page"
            f" (<code>{_text(install_extra('report'))}</code>).</p>"
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
    both = [0.0 if usage.total is None else usage.number(usage.total, name) for name in _BENCHMARKS]
    if all(both):
        # 1 HEPscore23 is 1 HS06 by definition of WLCG, and APEL adds them so.
        yield _card(Column("normalised_hours", "Normalised hours, all (1 HS23 = 1 HS06)", "h"), sum(both))
    yield from _cards_of_operation(report)
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


def _cards_of_operation(report: Report) -> Iterator[str]:
    """How full the site was, and how long its jobs waited."""
    for name, column, title in (
        ("utilisation", "utilisation", "Utilisation"),
        ("wait", "wait_median_min", "Median waiting time"),
    ):
        table = report.table(name)
        place = table.column(column)
        # One row needs no total.
        for row in (table.total or table.rows[-1],) if table.rows else ():
            yield _card(table.columns[place]._replace(title=title), row.values[place])


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
    if not table.rows:
        # One line.
        told = " ".join(map(_text, table.notes))
        yield f'<p class="note"><strong id="{table.name}">{escape(table.title)}:</strong> {told or "none"}</p>'
        yield "</section>"
        return
    yield f'<h2 id="{table.name}">{escape(table.title)}</h2>'
    yield f'<div class="part{wide}">'
    if chart is not None:
        svg = chart.svg
        if table.name == "day":
            svg = f'<div class="scroll" role="region" aria-label="{escape(chart.title)}" tabindex="0">{svg}</div>'
        yield f"<figure><figcaption>{escape(chart.title)}</figcaption>{svg}</figure>"
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
    return f'<tr><th scope="row">{_text(readable(row.key))}</th>{"".join(cells)}</tr>'


def _shown(column: Column, value: Value) -> str:
    """A value as people read it; an estimated one with its mark."""
    if value is None:
        return "–"  # noqa: RUF001  a dash
    if isinstance(value, str):
        return _text(value)
    if column.unit == "ratio":
        return f"{100 * value:.1f}{_THIN}%"
    digits = 0 if isinstance(value, int) or value >= 1000 else 1 if value >= 10 else 2
    least = 0.01
    if 0 < value < least / 2:
        # It is little, and not nothing.
        return f"{f'{_MARK}{_THIN}' if column.is_estimated else ''}&lt;{_THIN}{least}"
    text = f"{value:,.{digits}f}"
    return (f"{_MARK}{_THIN}" if column.is_estimated else "") + text.replace(",", _THIN)


def _text(text: str) -> str:
    return escape(sanitise_line(text, _LONGEST))
