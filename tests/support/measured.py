"""Figures of benchmarks that the manual shows: kept in a file as they were measured, and made into its tables."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence

import manual

KEPT = manual.ROOT / "tests" / "bench" / "measured.json"
PAGE = manual.page("explanation/performance")
"""Of the manual: has the tables."""

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
    """The table of a benchmark, of all sizes that were measured, in Markdown."""
    lines = ["| what | arcacct | peer | ratio | lowest to highest |", "|---|---|---|---|---|"]
    days = set()
    for size, figures in kept()[name].items():
        if size.endswith(" measured on"):
            days.add(str(figures[0]["what"]))
            continue
        for one in figures:
            ratio = "" if one["ratio"] is None else f"{one['ratio']:.1f}"
            what, unit = one["what"], one["unit"]
            values = [f"{_number(value)} {unit}".strip() for value in (one["ours"], one["peer"]) if value is not None]
            lines.append(f"| {what} | {' | '.join([*values, ''][:2])} | {ratio} | {one['spread']} |")
    return "\n".join([*lines, "", f"Measured on {' and '.join(sorted(days))}.", ""])


def _number(value: object) -> str:
    """Three digits of a figure."""
    assert isinstance(value, int | float)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
