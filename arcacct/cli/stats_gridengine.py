"""`arcacct stats --gridengine`: qacct's questions, asked of the records in the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from arcacct.cli.gridengine_options import asked, question_of, question_options, tasks_of
from arcacct.cli.tables import lines
from arcacct.errors import UsageError
from arcacct.gridengine import questions
from arcacct.gridengine.totals import COLUMNS, table, table_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.db.engine import Connection

F = TypeVar("F", bound=Callable[..., Any])

_OF_JOBS = (
    *("from_s", "before_s", "start_from", "filter_vo", "filter_fqan", "filter_user", "filter_state", "filter_queue"),
    *("filter_endpoint", "filter_extra", "show_active", "output", "arcctl", "details"),
)


def gridengine_options(command: F) -> F:
    """What `arcacct stats` takes for records of Grid Engine."""
    options = (
        click.option(
            "--gridengine",
            is_flag=True,
            help="Of Grid Engine's records, as qacct: -b and -e are when they began, --by is any of "
            f"{', '.join(COLUMNS)}. The options that follow need it.",
        ),
        click.option("-j", "--job", metavar="JOB", help="The records of a job: number, name or pattern of names."),
        click.option("-t", "--tasks", metavar="N[-M[:STEP]]", help="With --job: of these tasks of an array job."),
    )
    command = question_options(command)
    for option in reversed(options):
        command = option(command)
    return command


def check(given: dict[str, Any]) -> None:
    """Options that do not go together. Raises UsageError."""
    if not given["gridengine"]:
        needless = [*asked(given), *(f"--{name}" for name in ("job", "tasks") if given[name] is not None)]
        if needless:
            raise UsageError(f"{needless[0]} asks for records of Grid Engine: it needs --gridengine")
        return
    for name in _OF_JOBS:
        if given[name]:
            option = {"from_s": "from", "before_s": "to"}.get(name, name.replace("_", "-"))
            raise UsageError(f"--{option} asks for jobs, --gridengine for its records: give one of them")
    if given["tasks"] is not None and given["job"] is None:
        raise UsageError("--tasks needs --job: which tasks of which job")
    if given["job"] is not None and given["by"]:
        raise UsageError("--job lists records, --by sums them: give one of them")


def answer(con: Connection, given: dict[str, Any]) -> Iterator[str]:
    """The lines of the answer. Raises InputError when no record has the job that is asked for."""
    question = question_of(given, given["end_from"], given["end_till"])
    if given["job"] is None:
        yield from lines(table_columns(question), table(questions.sums(con, question)), given["form"])
        return
    tasks = None if given["tasks"] is None else tasks_of(given["tasks"])
    found = questions.records(con, given["job"], tasks, question, everything=given["form"] != "table")
    yield from lines(found.columns, found.rows, given["form"])
