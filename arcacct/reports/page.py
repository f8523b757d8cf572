"""A report as one self-contained page of HTML: no script, no network, no font; for a phone, a screen and paper."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files

from arcacct import __version__
from arcacct.reports.charts import HATCH, MARK, THIN, charts, shown, text
from arcacct.reports.tables import Column, Report, Row, Table, readable
from arcacct.times import iso
from arcacct.wording import count_of, sanitise_line

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Should an escape ever be forgotten: the page may run and load nothing."""
_IF_ANY = ("hs06_hours", "hepscore23_hours", "jobs_without_wall", "jobs_without_cpu")
"""Columns that are shown only if a row has more than 0."""
_MINOR = {
    *("failed_jobs", "cpu_hours", "wall_hours", "jobs_without_wall", "jobs_without_cpu", "installed_core_hours"),
    *("year_from", "pledged_hours", "pledged_year_hours", "used_year_hours", "jobs_share", "first_end"),
}
"""Columns that a phone has no room for."""
_BROAD, _WIDE = 7, 8
"""From this number of columns on, a table has the whole width of a sheet, and of a screen."""


def page(report: Report) -> str:
    """Return the page; the same report gives the same text."""
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    title = f"{text(report.site)}, {text(report.month_name)}"
    yield "<!DOCTYPE html>"
    yield '<html lang="en">'
    yield "<head>"
    yield '<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Accounting of {escape(sanitise_line(report.site, None))}, {report.month_name}</title>"
    yield f"<style>\n{files(__package__).joinpath('page.css').read_text(encoding='utf-8')}</style>"
    yield "</head>"
    yield "<body>"
    yield f"<header><h1>Accounting of {title}</h1>"
    yield f"<p>Jobs that ended in {text(report.month_name)} (UTC). Written {text(iso(report.written_s))}.</p></header>"
    yield "<main>"
    yield '<dl class="cards">'
    yield from _cards(report)
    yield "</dl>"
    if report.verdict is not None:
        yield f'<p class="verdict {"good" if report.verdict.is_well else "bad"}">{text(report.verdict.text)}</p>'
    yield '<div class="charts">'
    yield from charts(report)
    yield "</div>"
    yield '<dl class="cards">'
    yield from _cards_of_operation(report)
    yield "</dl>"
    if report.basis:
        yield f'<p class="basis">These figures are based on {text(report.basis)}.</p>'
    yield '<div class="details">'
    unknown = {row.key for row in report.table("history").rows if row.values[0] is None}
    for table in report.tables:
        if not table.is_detail:
            yield from _section(table, unknown)
    yield "</div>"
    yield "</main>"
    yield "<footer>"
    yield f'<p id="estimated">{MARK} estimated, not measured; the method is below the table.</p>'
    yield '<p class="narrow">A wider screen shows more columns.</p>'
    yield f"<p>arcacct {text(__version__)}</p>"
    yield "</footer>"
    yield "</body>"
    yield "</html>"


def _cards(report: Report) -> Iterator[str]:
    """Return the month in a few numbers, the most important for a manager first."""
    history, pledge = report.table("history"), report.table("pledge")
    for name in ("jobs", "core_hours", "normalised_hours", "cpu_efficiency"):
        yield _card(history, history.rows[-1], name)
    # The last row of a kind is the sum.
    of_kind = {row.values[0]: row for row in pledge.rows}
    for kind, row in of_kind.items():
        yield _card(pledge, row, "used_share", "Pledge used" if len(of_kind) == 1 else f"Pledge used, {kind}")


def _cards_of_operation(report: Report) -> Iterator[str]:
    """Return the utilisation of the site, the waiting times and the energy of its jobs."""
    for name, column, title in (
        ("utilisation", "utilisation", "Utilisation"),
        ("wait", "wait_median_min", "Median waiting time"),
        ("energy", "site_kwh", "Energy with PUE"),
        ("energy", "carbon_kg", "Carbon"),
    ):
        for table in report.tables:
            # One row needs no total.
            for total in (table.total or table.rows[-1],) if table.name == name and table.rows else ():
                if total.values[table.column(column)] is not None:
                    yield _card(table, total, column, title)


def _card(table: Table, row: Row, name: str, title: str = "") -> str:
    place = table.column(name)
    column = table.columns[place]
    unit = "" if column.unit in ("jobs", "ratio", "h") else f" {_unit(column)}"
    return f"<div><dt>{escape(title or column.title)}</dt><dd>{shown(column, row.values[place])}{unit}</dd></div>"


def _unit(column: Column) -> str:
    # The heading already names the jobs.
    in_head = {"ratio": "%", "jobs": "", "count": ""}.get(column.unit, column.unit)
    return escape(in_head.replace("CO2e", "CO₂e"))


def _section(table: Table, unknown: set[str]) -> Iterator[str]:
    every = (*table.rows, *(() if table.total is None else (table.total,)))
    # A column without any known value, or a benchmark that no job has, only makes the table wide; the CSV has all.
    places = [
        place
        for place, column in enumerate(table.columns)
        if column.name in unknown
        or any(row.values[place] or (row.values[place] == 0 and column.name not in _IF_ANY) for row in every)
    ]
    wide = "".join(kind for kind, least in ((" broad", _BROAD), (" wide", _WIDE)) if len(places) >= least)
    yield f'<section class="{table.name}{wide}" aria-labelledby="{table.name}">'
    notes = " ".join(map(text, table.notes))
    if not every:
        # One line.
        yield f'<p class="note"><strong id="{table.name}">{escape(table.title)}:</strong> {notes or "none"}</p>'
        yield "</section>"
        return
    yield f'<h2 id="{table.name}">{escape(table.title)}</h2>'
    yield f'<div class="scroll" role="region" aria-labelledby="{table.name}" tabindex="0">'
    yield "<table>"
    yield f"<caption>{escape(table.title)}: {count_of(len(table.rows), 'row')}</caption>"
    head = "".join(_head(table.columns[place]) for place in places)
    yield f'<thead><tr><th scope="col">{escape(table.key)}</th>{head}</tr></thead>'
    yield "<tbody>"
    for row in table.rows:
        yield _row(table, row, places, unknown)
    yield "</tbody>"
    if table.total is not None:
        yield f"<tfoot>{_row(table, table.total, places, unknown)}</tfoot>"
    yield "</table>"
    yield "</div>"
    for note in table.notes:
        yield f'<p class="note">{text(note)}</p>'
    yield "</section>"


def _kinds(column: Column, *more: str) -> str:
    found = " ".join((*more, *(("minor",) if column.name in _MINOR else ())))
    return f' class="{found}"' if found else ""


def _head(column: Column) -> str:
    unit = _unit(column)
    told = f'<span class="unit">{unit}</span>' if unit else ""
    kind = _kinds(column, *(() if column.unit else ("text",)))
    return f'<th scope="col"{kind}>{escape(column.title)}{f"{THIN}{MARK}" if column.is_estimated else ""}{told}</th>'


def _row(table: Table, row: Row, places: list[int], unknown: set[str]) -> str:
    cells = []
    for place in places:
        column, value = table.columns[place], row.values[place]
        kinds, drawn = [], ""
        if not column.unit and not isinstance(value, int | float):
            kinds.append("text")
        if column.name == "agrees":
            kinds.append("good" if str(value).startswith("yes") else "bad")
        if column.unit == "ratio" and isinstance(value, int | float):
            kinds.append("share")
            drawn = f' style="--share:{min(100 * value, 100.0):.1f}%"'
        told = HATCH if column.name in unknown else shown(column, value)
        cells.append(f"<td{_kinds(column, *kinds)}{drawn}>{told}</td>")
    # A long host name breaks at its dots.
    name = text(readable(row.key)).replace(".", ".<wbr>")
    return f'<tr><th scope="row">{name}</th>{"".join(cells)}</tr>'
