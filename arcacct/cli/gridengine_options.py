"""qacct's questions as options: of `arcacct import gridengine --summary` and of `arcacct stats --gridengine`."""

from __future__ import annotations

import grp
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import click

from arcacct.cli.arguments import in_order, together
from arcacct.cli.instants import INSTANT, in_turn
from arcacct.errors import UsageError
from arcacct.sources.gridengine.qacct import COLUMNS, Question, Tasks, window

_RESOURCES = {"hostname": "host", "h": "host", "qname": "queue", "q": "queue"}
"""What -l may ask for: by its names the column of a record."""
_TASKS = re.compile(r"([0-9]+)(?:-([0-9]+)(?::([0-9]+))?)?")


class Qacct(NamedTuple):
    """What was asked by qacct's options."""

    patterns: dict[str, str]
    """By name of COLUMNS."""
    days: int | None
    now: int | None
    on: str | None
    timezone: str | None
    masters: bool
    resources: str | None

    def names(self) -> Iterator[str]:
        """The options that were given."""
        others = (
            *(("days", self.days), ("now", self.now), ("on", self.on), ("timezone", self.timezone)),
            *(("masters", self.masters or None), ("resources", self.resources)),
        )
        yield from (f"--{name}" for name, value in (*self.patterns.items(), *others) if value is not None)


def _qacct(**given: Any) -> Qacct:
    patterns = {name: given.pop(name) for name in COLUMNS}
    return Qacct({name: text for name, text in patterns.items() if text is not None}, **given)


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
    click.option("--now", type=INSTANT, is_eager=True, metavar="TIME", help="Use TIME as the current time."),
    click.option(
        "--on",
        type=click.Choice(("start", "end")),
        help="Whether -b, -e and -d mean when a job started or ended; default start.",
    ),
    click.option(
        "--timezone",
        is_eager=True,
        metavar="ZONE",
        help="Zone of -b and -e as qacct writes them, [[CC]YY]MMDDhhmm[.SS], e.g. Europe/Oslo; else this host's.",
    ),
    click.option("-m", "--masters", is_flag=True, help="Only the jobs themselves, without the tasks of parallel jobs."),
    click.option(
        "-l",
        "--resources",
        metavar="NAME=PATTERN,...",
        help="Of queues with these resources; records know hostname (h) and qname (q), no other.",
    ),
    together(_qacct, "qacct", (*COLUMNS, "days", "now", "on", "timezone", "masters", "resources")),
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
    wanted = (*map(_wanted, given.patterns.items()), *_of_queues(given.resources or ""))
    return Question(by, wanted, begin, end, given.on == "end", given.masters)


def _wanted(asked: tuple[str, str]) -> tuple[str, str]:
    """A pattern as records have it: a group by its name, a host in small letters. Raises UsageError."""
    column, pattern = asked
    if column == "queue" and "@@" in pattern:
        raise UsageError(f"--queue {pattern}: which hosts are of a group only qmaster knows; name them: QUEUE@HOST")
    if column == "group" and pattern.isascii() and pattern.isdecimal():
        with suppress(KeyError, OverflowError):
            return column, grp.getgrgid(int(pattern)).gr_name
    return column, pattern


def _of_queues(resources: str) -> Iterator[tuple[str, str]]:
    """What -l asks for, as far as records tell it. Raises UsageError for the rest."""
    for asked in filter(None, map(str.strip, resources.split(","))):
        name, _, pattern = asked.partition("=")
        if name not in _RESOURCES or not pattern:
            raise UsageError(
                f"-l {asked}: qacct asks qmaster which queues offer that today, and a record does not tell it; ask by "
                f"hostname=PATTERN or qname=PATTERN, or look for what the job asked for in the column category"
            )
        yield _wanted((_RESOURCES[name], pattern))


def tasks_of(text: str) -> Tasks:
    """``N[-M[:STEP]]``. Raises UsageError."""
    found = _TASKS.fullmatch(text)
    if found is None or found[3] == "0":
        raise UsageError(f"--tasks {text}: write N, N-M or N-M:STEP, as 1-7:3")
    return Tasks(int(found[1]), int(found[2] or found[1]), int(found[3] or 1))
