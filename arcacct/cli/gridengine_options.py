"""qacct's questions as options: of `arcacct import gridengine --summary` and of `arcacct stats --gridengine`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from arcacct.cli.instants import INSTANT
from arcacct.errors import UsageError
from arcacct.gridengine.questions import Tasks
from arcacct.gridengine.totals import COLUMNS, Question, window

F = TypeVar("F", bound=Callable[..., Any])

_TASKS = re.compile(r"([0-9]+)(?:-([0-9]+)(?::([0-9]+))?)?")
FILTERS = tuple(COLUMNS)


def question_options(command: F) -> F:
    """The options that both commands have, by the names of COLUMNS, and `days`, `now`, `on`, `masters`."""
    options = [
        *(
            click.option(f"--{name}", metavar="PATTERN", help=f"Records of this {column.meaning}.")
            for name, column in COLUMNS.items()
        ),
        click.option(
            "-d", "--days", type=click.IntRange(min=0), metavar="DAYS", help="So long from -b, up to -e, or up to now."
        ),
        click.option("--now", type=INSTANT, metavar="TIME", help="What -d takes for now."),
        click.option("--on", type=click.Choice(("start", "end")), help="Which time -b, -e and -d mean; default start."),
        click.option("-m", "--masters", is_flag=True, help="No tasks of parallel jobs, only the jobs themselves."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def question_of(given: dict[str, Any], from_s: int | None, until_s: int | None) -> Question:
    """The question that options ask. Raises UsageError."""
    by = tuple(dict.fromkeys(name.strip() for name in (given["by"] or "").split(",") if name.strip()))
    for name in by:
        if name not in COLUMNS:
            raise UsageError(f"--by {name}: records of Grid Engine can be summed by {', '.join(COLUMNS)}")
    now = int(time.time()) if given["now"] is None else given["now"]
    begin, end = window(from_s, until_s, given["days"], now)
    wanted = tuple((name, given[name]) for name in FILTERS if given[name] is not None)
    return Question(by, wanted, begin, end, given["on"] == "end", given["masters"])


def asked(given: dict[str, Any]) -> list[str]:
    """Which of the options were given."""
    names = (*FILTERS, "days", "now", "on", "masters")
    return [f"--{name}" for name in names if given[name] not in (None, False)]


def tasks_of(text: str) -> Tasks:
    """``N[-M[:STEP]]``. Raises UsageError."""
    found = _TASKS.fullmatch(text)
    if found is None or found[3] == "0":
        raise UsageError(f"--tasks {text}: write N, N-M or N-M:STEP, as 1-7:3")
    return Tasks(int(found[1]), int(found[2] or found[1]), int(found[3] or 1))
