"""Figures of benchmarks that the manual shows: kept in a file as they were measured, and compared with our aims."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import generated
import manual

KEPT = manual.ROOT / "tests" / "bench" / "measured.json"
PAGES = {"upgrade": "howto/upgrade"}
"""Where the manual has the table of a benchmark, if not on the page of performance."""

Row = Mapping[str, object]
"""A figure as the benchmarks write it: what, ours, unit, peer, note, ratio, spread."""


class Aim(NamedTuple):
    """What a figure should be."""

    what: str
    """For readers."""
    figure: str
    """The benchmark, a blank, and the figure's own name."""
    aim: float
    """At most; with ``SAVES`` at least."""
    unit: str
    """Of the figure; ``COSTS``: ours compared with the peer, ``SAVES``: the peer compared with ours."""


COSTS, SAVES = "times", "times as much"
_JURA = "CPU of jura-ng compared with ours: "
_JOBS = "publish publish 10,000 jobs,"
_HEAVY = "publish publish 2,000 jobs of 16 nodes and 20 transfers,"
_NEW = "publish publish 10,000 new jobs,"
_WAY = "publish whole way of a job,"
_CALL = "callouts callout,"
_EVENT = "callouts recorder, an event,"
AIMS = (
    Aim("wait for a callout of SUBMIT, compared with `/bin/true`", f"{_CALL} SUBMIT: median wait", 2, COSTS),
    Aim("wait for a callout of FINISHED, compared with `/bin/true`", f"{_CALL} FINISHED: median wait", 4, COSTS),
    Aim(
        "wait for each of 100 callouts of SUBMIT at once, compared with `/bin/true`",
        f"{_CALL} SUBMIT: average wait of 100",
        2,
        COSTS,
    ),
    Aim(
        "wait for each of 100 callouts of FINISHED at once, compared with `/bin/true`",
        f"{_CALL} FINISHED: average wait of 100",
        2,
        COSTS,
    ),
    Aim("CPU for an event that is recorded alone", f"{_EVENT} one after the other: CPU", 0.8, "ms"),
    Aim("CPU for an event that is recorded with many others", f"{_EVENT} many at once: CPU", 0.2, "ms"),
    Aim(f"{_JURA}10,000 jobs to SGAS, defaults of both", f"{_JOBS} SGAS, defaults: CPU", 7, SAVES),
    Aim(f"{_JURA}10,000 jobs to SGAS, 500 records in a message", f"{_JOBS} SGAS, 500 a message: CPU", 1.6, SAVES),
    Aim(f"{_JURA}10,000 CARs", f"{_JOBS} CAR, 500 a message by default: CPU", 1.8, SAVES),
    Aim(f"{_JURA}2,000 jobs of 16 nodes and 20 transfers to SGAS", f"{_HEAVY} SGAS, defaults: CPU", 3.2, SAVES),
    Aim(f"{_JURA}2,000 CARs of such jobs", f"{_HEAVY} CAR, 500 a message by default: CPU", 1.1, SAVES),
    Aim(f"{_JURA}sums after 10,000 new jobs", f"{_NEW} summaries, the same months: CPU", 1, SAVES),
    Aim("memory for publishing 10,000 jobs to SGAS", f"{_JOBS} SGAS, defaults: peak memory", 80, "MiB"),
    Aim("memory for publishing 10,000 CARs", f"{_JOBS} CAR, 500 a message by default: peak memory", 80, "MiB"),
    # 10 GB a year for 20,000 jobs a day.
    Aim(
        "space for a job in both databases, with two targets of records",
        f"{_WAY} SGAS and APEL records: bytes in both databases",
        1_370,
        "bytes",
    ),
)

PEER = "publish"
"""The benchmark whose peer is jura-ng."""
SITE_COSTS = (
    ("wait of A-REX for a callout", "callouts", "callout, other states: median wait"),
    ("the same at the end of a job", "callouts", "callout, FINISHED: median wait"),
    ("CPU of a callout at the end of a job", "callouts", "callout, FINISHED: CPU"),
    ("memory of the recorder", "callouts", "recorder: peak memory"),
    ("CPU to record a job and send it to SGAS, without callouts", PEER, "whole way of a job, SGAS records: CPU"),
    ("CPU to send a recorded job to SGAS", PEER, "publish 10,000 jobs, SGAS, defaults: CPU of each"),
    ("CPU to add a job to APEL's sums", PEER, "publish 10,000 new jobs, summaries, the same months: CPU of each"),
    ("CPU of a run with nothing new", "connection", "publish, SGAS, nothing new: CPU"),
    ("memory of a run, SGAS", PEER, "publish 10,000 jobs, SGAS, defaults: peak memory"),
    ("memory of a run, APEL's sums", PEER, "publish 10,000 new jobs, summaries, the same months: peak memory"),
    ("disk of a job, both databases", PEER, "whole way of a job, SGAS records: bytes in both databases"),
)
"""What a site decides by, in its words: by benchmark and figure."""


def kept() -> dict[str, dict[str, list[Row]]]:
    """By benchmark and size what was measured last, with the day under ``day``."""
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}


def keep(name: str, size: str, figures: Sequence[Row]) -> None:
    """Keep what was measured."""
    all_of_them = kept()
    day = [{"what": time.strftime("%Y-%m-%d", time.gmtime())}]
    all_of_them.setdefault(name, {}).update({size: [*figures], f"{size} measured on": day})
    KEPT.write_text(json.dumps(all_of_them, indent=1) + "\n", encoding="utf-8")


def parts() -> tuple[generated.Part, ...]:
    """The parts of the manual with figures: a table for each benchmark, costs, aims, and those that are missed."""
    return (
        *(generated.Part(PAGES.get(name, "explanation/performance"), name, partial(table, name)) for name in kept()),
        generated.Part("explanation/design", "aims", partial(aims, AIMS)),
        generated.Part("explanation/decide", "costs", costs),
        generated.Part("project/limits", "missed", lambda: aims([aim for aim in AIMS if is_missed(aim)])),
    )


def aims(wanted: Sequence[Aim]) -> str:
    """A table of aims with what was reached."""
    rows = []
    for aim in wanted:
        limit = "at least" if aim.unit == SAVES else "at most"
        unit = "times" if aim.unit == SAVES else aim.unit
        rows.append((aim.what, f"{limit} {_value(aim.aim, unit)}", _value(_reached(aim), unit)))
    return generated.table(("what", "aim", "reached"), rows)


def is_missed(aim: Aim) -> bool:
    """Whether the last figure is not what we aim at. Raises KeyError if no benchmark that is kept has the figure."""
    # Differences of times have digits that no one measured.
    reached = round(_reached(aim), 9)
    return reached < aim.aim if aim.unit == SAVES else reached > aim.aim


def _reached(aim: Aim) -> float:
    found = {f"{name} {row['what']}": row for name, sizes in kept().items() for rows in sizes.values() for row in rows}
    row = found[aim.figure]
    if aim.unit in (COSTS, SAVES):
        ratio = _number(row["ratio"])
        return ratio if aim.unit == SAVES else 1 / ratio
    assert row["unit"] == aim.unit
    return _number(row["ours"])


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
            ratio = "" if one["ratio"] is None else f" ({one['ratio']:.1f})"
            subjects.setdefault(subject, {})[measure] = _value(_number(one["ours"]), str(one["unit"])) + ratio
    lines: list[str] = []
    columns: list[str] = []
    for subject, cells in subjects.items():
        if not cells.keys() <= {*columns}:
            columns = [*cells]
            lines += ["", f"| what | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
        lines.append(f"| {subject} | {' | '.join(cells.get(column, '') for column in columns)} |")
    return "\n".join([*lines, "", f"Measured on {' and '.join(sorted(days))}."])


def costs() -> str:
    """What arcacct and jura-ng cost a site, in Markdown."""
    rows = []
    for cost, name, what in SITE_COSTS:
        one = {row["what"]: row for figures in kept()[name].values() for row in figures}[what]
        values = [one["ours"], one["peer"] if name == PEER else None]
        ours, peer = ("" if value is None else _value(_number(value), str(one["unit"])) for value in values)
        rows.append((cost, ours, peer, generated.code(name)))
    return generated.table(("cost", "arcacct", "jura-ng", "benchmark"), rows)


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return value


def _value(value: float, unit: str) -> str:
    """Three digits with the unit; two of a ratio."""
    digits = f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if unit == COSTS else f"{value:.3g}"
    return f"{digits} {unit}".strip()
