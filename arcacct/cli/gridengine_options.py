"""qacct's questions as options: of `arcacct import gridengine --summary` and of `arcacct stats --gridengine`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import NamedTuple

import click

from arcacct.cli.arguments import in_order, together
from arcacct.cli.instants import INSTANT, in_turn
from arcacct.errors import UsageError
from arcacct.gridengine.questions import Tasks
from arcacct.gridengine.totals import COLUMNS, Question, window

_TASKS = re.compile(r"([0-9]+)(?:-([0-9]+)(?::([0-9]+))?)?")


class Qacct(NamedTuple):
    """What was asked by qacct's options."""

    patterns: dict[str, str]
    """By name of COLUMNS."""
    days: int | None
    now: int | None
    on: str | None
    masters: bool

    def names(self) -> Iterator[str]:
        """The options that were given."""
        others = (("days", self.days), ("now", self.now), ("on", self.on), ("masters", self.masters or None))
        yield from (f"--{name}" for name, value in (*self.patterns.items(), *others) if value is not None)


def _qacct(days: int | None, now: int | None, on: str | None, masters: bool, **patterns: str | None) -> Qacct:
    return Qacct({name: text for name, text in patterns.items() if text is not None}, days, now, on, masters)


question_options = in_order(
    *(
        click.option(f"--{name}", metavar="PATTERN", help=f"Records of this {column.meaning}.")
        for name, column in COLUMNS.items()
    ),
    click.option(
        "-d",
        "--days",
        type=click.IntRange(min=0),
        metavar="DAYS",
        help="Length in days: from -b, or back from -e or now.",
    ),
    click.option("--now", type=INSTANT, metavar="TIME", help="Use TIME as the current time."),
    click.option(
        "--on",
        type=click.Choice(("start", "end")),
        help="Whether -b, -e and -d mean when a job started or ended; default start.",
    ),
    click.option("-m", "--masters", is_flag=True, help="Only the jobs themselves, without the tasks of parallel jobs."),
    together(_qacct, "qacct", (*COLUMNS, "days", "now", "on", "masters")),
)
"""The options that both commands have; they get what these say as ``qacct``."""


def question_of(given: Qacct, columns: str | None, from_s: int | None, until_s: int | None) -> Question:
    """The question that options ask, ``columns`` by --by. Raises UsageError."""
    by = tuple(dict.fromkeys(name.strip() for name in (columns or "").split(",") if name.strip()))
    for name in by:
        if name not in COLUMNS:
            raise UsageError(f"--by {name}: records of Grid Engine can be summed by {', '.join(COLUMNS)}")
    in_turn(from_s, "-b", until_s, "-e")
    begin, end = window(from_s, until_s, given.days, int(time.time()) if given.now is None else given.now)
    return Question(by, tuple(given.patterns.items()), begin, end, given.on == "end", given.masters)


def tasks_of(text: str) -> Tasks:
    """``N[-M[:STEP]]``. Raises UsageError."""
    found = _TASKS.fullmatch(text)
    if found is None or found[3] == "0":
        raise UsageError(f"--tasks {text}: write N, N-M or N-M:STEP, as 1-7:3")
    return Tasks(int(found[1]), int(found[2] or found[1]), int(found[3] or 1))
