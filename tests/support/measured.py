"""Figures of benchmarks that the manual shows: kept in a file as they were measured, and made into its tables."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence

import generated
import manual

KEPT = manual.ROOT / "tests" / "bench" / "measured.json"
PAGE = manual.page("explanation/performance")
"""Of the manual: has the tables."""

PEER = "publish"
"""The benchmark whose peer is jura-ng."""
COSTS = (
    ("wait of A-REX for a callout", "callouts", "callout, other states: median wait"),
    ("the same at the end of a job", "callouts", "callout, FINISHED: median wait"),
    ("CPU of a callout at the end of a job", "callouts", "callout, FINISHED: CPU"),
    ("CPU to record a job and send it to SGAS, without callouts", PEER, "whole way of a job, SGAS records: CPU"),
    ("CPU to send a recorded job to SGAS", PEER, "publish 10,000 jobs, SGAS, defaults: CPU of each"),
    ("CPU to add a job to APEL's sums", PEER, "publish 10,000 new jobs, summaries, the same months: CPU of each"),
    ("CPU of a run with nothing new", "connection", "publish, SGAS, nothing new: CPU"),
    ("memory of a run, SGAS", PEER, "publish 10,000 jobs, SGAS, defaults: peak memory"),
    ("memory of a run, APEL's sums", PEER, "publish 10,000 new jobs, summaries, the same months: peak memory"),
    ("disk of a job, both databases", PEER, "whole way of a job, SGAS records: bytes in both databases"),
)
"""What a site decides by, in its words: by benchmark and figure."""

Row = Mapping[str, object]
"""A figure as the benchmarks write it: what, ours, unit, peer, note, ratio, spread."""


def marks(name: str) -> tuple[str, str]:
    """What stands before and after the table of a benchmark in the manual."""
    return f"<!-- measured by tests/bench {name} -->\n", f"<!-- end of {name} -->\n"


def kept() -> dict[str, dict[str, list[Row]]]:
    """By benchmark and size what was measured last, with the day under ``day``."""
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}


def keep(name: str, size: str, figures: Sequence[Row]) -> None:
    """Keep what was measured, and bring the manual up to date if it has a table of this benchmark."""
    all_of_them = kept()
    day = [{"what": time.strftime("%Y-%m-%d", time.gmtime())}]
    all_of_them.setdefault(name, {}).update({size: [*figures], f"{size} measured on": day})
    KEPT.write_text(json.dumps(all_of_them, indent=1) + "\n", encoding="utf-8")
    if marks(name)[0] in PAGE.read_text(encoding="utf-8"):
        manual.write_between(PAGE, *marks(name), table(name))


def table(name: str) -> str:
    """
    The tables of a benchmark, of all sizes that were measured, in Markdown.

    A figure is named SUBJECT: MEASURE. Each subject is a row, each measure a column. A subject with a measure that the
    table does not have starts another table.
    """
    subjects: dict[str, dict[str, str]] = {}
    days = set()
    for size, figures in kept()[name].items():
        if size.endswith(" measured on"):
            days.add(str(figures[0]["what"]))
            continue
        for one in figures:
            subject, _, measure = str(one["what"]).rpartition(": ")
            subjects.setdefault(subject, {})[measure] = _cell(one)
    lines: list[str] = []
    columns: list[str] = []
    for subject, cells in subjects.items():
        if not cells.keys() <= {*columns}:
            columns = [*cells]
            lines += ["", f"| what | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
        lines.append(f"| {subject} | {' | '.join(cells.get(column, '') for column in columns)} |")
    return "\n".join([*lines, "", f"Measured on {' and '.join(sorted(days))}.", ""])


def _cell(figure: Row) -> str:
    """Three digits of our value, with its unit; in brackets the ratio, if there is a peer."""
    ratio = "" if figure["ratio"] is None else f" ({figure['ratio']:.1f})"
    return f"{_number(figure['ours'])} {figure['unit']}".strip() + ratio


def costs() -> str:
    """What arcacct and jura-ng cost a site, in Markdown."""
    rows = []
    for cost, name, what in COSTS:
        one = {row["what"]: row for figures in kept()[name].values() for row in figures}[what]
        values = [one["ours"], one["peer"] if name == PEER else None]
        ours, peer = ("" if value is None else f"{_number(value)} {one['unit']}" for value in values)
        rows.append((cost, ours, peer, generated.code(name)))
    return generated.table(("cost", "arcacct", "jura-ng", "benchmark"), rows)


def _number(value: object) -> str:
    """Three digits of a figure."""
    assert isinstance(value, int | float)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
