"""
Datasette's front page for arcacct: totals of this month, a chart of the last twelve, the questions, the reports.

A plugin for `datasette serve --plugins-dir`, with the template next to it. It needs nothing but Datasette. It shows
rows of v1_usage_by_month, for those who may see them, and files that `arcacct report --html` wrote.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from datasette import Forbidden, NotFound, Response, hookimpl
from datasette.app import Datasette
from datasette.database import QueryInterrupted
from markupsafe import Markup

_DATABASE = "accounting"
_TOTALS = f"/{_DATABASE}/usage_of_a_month"
"""A visitor who may run this query may see the totals."""
_NAMES = "users_of_a_vo"
"""A visitor who may run this query may see the reports, which name users."""
_MONTHS = 12
_MOST_VOS = 8
_LARGEST_BYTES = 2**24
_HOST = os.uname().nodename
_REPORT = re.compile(r"(\d{4}-\d{2})\.html")
_BY_MONTH = """
SELECT month, vo, sum(jobs) AS jobs, sum(core_s) / 3600.0 AS core_h, sum(cpu_s) / 3600.0 AS cpu_h,
       sum(cpu_with_core_s) AS cpu_with_core_s, sum(core_with_cpu_s) AS core_with_cpu_s
  FROM v1_usage_by_month WHERE month >= :first AND month <= :last GROUP BY month, vo
"""
_EARLIER = "SELECT 1 FROM v1_usage_by_month WHERE month < :first LIMIT 1"
_VIEWS = "SELECT name FROM sqlite_master WHERE type = 'view'"


@hookimpl
def extra_template_vars(
    view_name: str | None, request: Any, datasette: Datasette
) -> Callable[[], Awaitable[dict[str, Any]]]:
    """What the template of the front page shows, as ``portal``."""

    async def found() -> dict[str, Any]:
        if view_name != "index":
            return {}
        usage = None
        if await _may(datasette, request, "usage_of_a_month"):
            try:
                usage = await _usage(datasette)
            except QueryInterrupted:
                # Jobs that no sum has yet are read one by one.
                usage = {"is_late": True}
        reports = [*_reports(datasette)] if await _may(datasette, request, _NAMES) else []
        parts = await _parts(datasette, request)
        return {"portal": {"host": _HOST, "usage": usage, "reports": reports, "parts": parts}}

    return found


@hookimpl
def register_routes() -> list[tuple[str, Callable[..., Awaitable[Response]]]]:
    """The reports, by month."""
    return [(r"^/reports/(?P<month>\d{4}-\d{2})$", report)]


async def report(request: Any, datasette: Datasette) -> Response:
    """The page that `arcacct report` wrote of a month."""
    if not await _may(datasette, request, _NAMES):
        raise Forbidden("reports name users")
    text = _text(datasette, request.url_vars["month"])
    if text is None:
        raise NotFound("there is no report of this month")
    return Response(text, content_type="text/html; charset=utf-8", headers={"X-Content-Type-Options": "nosniff"})


async def _may(datasette: Datasette, request: Any, query: str) -> bool:
    place = (_DATABASE, query)
    asked = [("view-query", place), ("view-database", _DATABASE), "view-instance"]
    if _DATABASE not in datasette.databases or await datasette.get_canned_query(*place, request.actor) is None:
        return False
    try:
        await datasette.ensure_permissions(request.actor, asked)
    except Forbidden:
        return False
    return True


def _reports(datasette: Datasette) -> Iterator[dict[str, str]]:
    """The months with a report that this process may read, the latest first."""
    folder = _folder(datasette)
    try:
        names = sorted(os.listdir(folder), reverse=True) if folder else []
    except OSError:
        names = []
    for name in names:
        month = _REPORT.fullmatch(name)
        if month is not None and _text(datasette, month[1]) is not None:
            yield {"month": month[1], "href": f"reports/{month[1]}"}


def _text(datasette: Datasette, month: str) -> str | None:
    folder = _folder(datasette)
    try:
        fd = os.open(f"{folder}/{month}.html", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    known = os.fstat(fd)
    if not folder or not stat.S_ISREG(known.st_mode) or known.st_size > _LARGEST_BYTES:
        os.close(fd)
        return None
    with open(fd, encoding="utf-8", errors="replace") as file:
        return file.read()


def _folder(datasette: Datasette) -> str:
    config = datasette.plugin_config("arcacct_portal") or {}
    return str(config.get("reports") or "")


async def _parts(datasette: Datasette, request: Any) -> list[dict[str, Any]]:
    """Questions and views of each database that this visitor may see; views that are not there yet are left out."""
    parts = []
    for name, database in datasette.databases.items():
        said = (datasette.metadata("databases") or {}).get(name)
        if said is None:
            continue
        views = {row[0] for row in (await database.execute(_VIEWS)).rows}
        offered: dict[str, list[dict[str, str]]] = {"queries": [], "tables": []}
        for kind, action in (("queries", "view-query"), ("tables", "view-table")):
            for key, of in (said.get(kind) or {}).items():
                asked = [(action, (name, key)), ("view-database", name), "view-instance"]
                try:
                    await datasette.ensure_permissions(request.actor, asked)
                except Forbidden:
                    continue
                if kind == "queries" or key in views:
                    link = {"href": f"{name}/{key}", "title": of.get("title", key)}
                    offered[kind].append(link | {"description": of.get("description", "")})
        parts.append({"title": said.get("title", name), **offered})
    return parts


async def _usage(datasette: Datasette) -> dict[str, Any]:
    """This month in total and by VO, and the core hours of the last twelve as a drawing."""
    now = time.gmtime()
    months = [_month(now.tm_year * 12 + now.tm_mon - 1 - back) for back in range(_MONTHS - 1, -1, -1)]
    database = datasette.get_database(_DATABASE)
    rows = (await database.execute(_BY_MONTH, {"first": months[0], "last": months[-1]})).rows
    current = sorted((row for row in rows if row["month"] == months[-1]), key=lambda row: -(row["core_h"] or 0))
    by_vo = [_sum(row["vo"] or "(no VO)", [row]) for row in current[:_MOST_VOS]]
    if len(current) > _MOST_VOS:
        rest = current[_MOST_VOS:]
        by_vo.append(_sum(f"{len(rest)} others", rest))
    hours: dict[str, float | None] = dict.fromkeys(months)
    # Months before the first record are unknown; those after it without a job have none.
    known = bool((await database.execute(_EARLIER, {"first": months[0]})).rows)
    for month in months:
        of_month = [row["core_h"] or 0 for row in rows if row["month"] == month]
        known = known or bool(of_month)
        hours[month] = sum(of_month) if known else None
    return {
        "month": months[-1],
        "total": _sum("All", current),
        "by_vo": by_vo,
        "chart": _chart(hours) if any(hours.values()) else "",
        "href": f"{_TOTALS[1:]}?month={months[-1]}",
    }


def _month(number: int) -> str:
    return f"{number // 12:04d}-{number % 12 + 1:02d}"


def _sum(name: str, rows: list[Any]) -> dict[str, str]:
    def total(column: str) -> float:
        return sum(row[column] or 0 for row in rows)

    core_s = total("core_with_cpu_s")
    return {
        "name": name,
        "jobs": f"{total('jobs'):,.0f}",
        "core_h": f"{total('core_h'):,.0f}",
        "cpu_h": f"{total('cpu_h'):,.0f}",
        "efficiency": f"{100 * total('cpu_with_core_s') / core_s:.1f} %" if core_s else "–",  # noqa: RUF001  a dash
    }


def _chart(hours: dict[str, float | None]) -> Markup:
    """Bars, whose sizes the style sheet draws: each says its month and its hours to who points at it."""
    most = max(value or 0 for value in hours.values())
    told = {month: "unknown" if value is None else f"{value:,.0f} core hours" for month, value in hours.items()}
    boxes = []
    for month, value in hours.items():
        drawn = '<svg class="unknown"><path d="M0 0L999 999"/></svg>'
        if value is not None:
            drawn = f'<b>{_short(value)}</b><i style="height:{100 * value / most:.1f}%"></i>'
        boxes.append(f'<div title="{month}: {told[month]}"><div>{drawn}</div><span>{month[2:]}</span></div>')
    described = "; ".join(f"{month} {text}" for month, text in told.items())
    # Numbers and months.
    chart = f'<div class="columns" role="img" aria-label="Core hours by month: {described}">{"".join(boxes)}</div>'
    return Markup(chart)  # noqa: S704


def _short(value: float) -> str:
    for exponent, unit in ((9, "G"), (6, "M"), (3, "k")):
        if value >= 0.9995 * 10**exponent:
            return f"{value / 10**exponent:.3g} {unit}"
    return f"{value:.3g}" if value else ""
