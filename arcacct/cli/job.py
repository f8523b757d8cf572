"""`arcacct job`: all about one job; `arcacct query`: SQL that only reads."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

import click

from arcacct.cli.console import data, examples, print_error, print_line
from arcacct.cli.options import in_order, places_of, settings_of, together
from arcacct.cli.progress import at_work
from arcacct.cli.queries import arcctl_option, arcctl_version, asking, completed, opened
from arcacct.cli.tables import LISTED, TOLD, format_option, show, show_object
from arcacct.database import access
from arcacct.database import query as database_query
from arcacct.errors import InputError
from arcacct.queries import arcctl as queries_arcctl
from arcacct.queries.arcctl import arcctl_record
from arcacct.records.reader import find_job

# `arcacct job`: all about one job.


_TRANSFER = ("url", "type", "size", "timestart", "timeend")
PARTS = ("all", "description", "resources", "rtes", "authtokens", "json")
_LONGEST_STATEMENT = 1_000_000
"""Characters."""
_job_id = click.argument("job_id", metavar="JOBID", shell_complete=completed("job"))


@click.group(
    short_help="Show everything about one job: record, events, transfers, or why it was not sent.",
    epilog=examples("arcacct job why rUkNDmRi", "arcacct job info 27647"),
)
def job() -> None:
    """Show everything about one job: JOBID is its id or URL, its id in the batch system, or the beginning of its id."""


@job.command(
    short_help="Its record.",
    epilog=examples("arcacct job info rUkNDmRi", "arcacct job info -o json rUkNDmRi"),
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(PARTS),
    default="all",
    show_default=True,
    help="Which part, or everything as JSON.",
)
@format_option(TOLD, "as with -o json")
@arcctl_option
@_job_id
@click.pass_context
def info(ctx: click.Context, output: str, form: str, arcctl: str | None, job_id: str) -> None:
    """Show a job's record, in the format of arcctl accounting job info; times in UTC."""
    record = _record(ctx, job_id, arcctl)
    unfinished = None if form == "json" else queries_arcctl.unfinished(record)
    if unfinished is not None:
        print_line(unfinished)
    elif "json" in (output, form):
        data(json.dumps(record))
    else:
        for line in queries_arcctl.info(record, output):
            print_line(line)


@job.command(short_help="Its changes of state.", epilog=examples("arcacct job events rUkNDmRi"))
@format_option(LISTED)
@arcctl_option
@_job_id
@click.pass_context
def events(ctx: click.Context, form: str, arcctl: str | None, job_id: str) -> None:
    """Show a job's changes of state, in the format of arcctl accounting job events; times in UTC."""
    record = _record(ctx, job_id, arcctl)
    if form == "text":
        _some(record, queries_arcctl.events(record), "events")
    else:
        show(("event", "time"), record["JobEvents"], form)


@job.command(short_help="The files that A-REX transferred for it.", epilog=examples("arcacct job transfers rUkNDmRi"))
@format_option(LISTED)
@arcctl_option
@_job_id
@click.pass_context
def transfers(ctx: click.Context, form: str, arcctl: str | None, job_id: str) -> None:
    """
    Show the files that A-REX transferred for a job, in the format of arcctl accounting job transfers; times in UTC.
    """
    record = _record(ctx, job_id, arcctl)
    if form == "text":
        _some(record, queries_arcctl.transfers(record), "data transfers")
    else:
        show(_TRANSFER, ([one[name] for name in _TRANSFER] for one in record["DataTransfers"]), form)


def _record(ctx: click.Context, job_id: str, arcctl: str | None) -> queries_arcctl.ArcctlJob:
    with asking(ctx) as con:
        return arcctl_record(con, find_job(con, job_id).record_id, arcctl_version(con, arcctl))


def _some(record: queries_arcctl.ArcctlJob, lines: Iterable[str], what: str) -> None:
    found = False
    for line in lines:
        found = True
        print_line(line)
    if not found:
        print_error(f"There are no {what} registered for job {record['JobID']}")


@job.command(
    short_help="Its history: seen, recorded, sent, answered, or why not.",
    epilog=examples("arcacct job why rUkNDmRi", "arcacct job why --sent rUkNDmRi"),
)
@click.option("--sent", "with_texts", is_flag=True, help="Also show its text in each message, as far as it is known.")
@format_option(TOLD, "a list of lines")
@_job_id
@click.pass_context
def why(ctx: click.Context, job_id: str, *, with_texts: bool, form: str) -> None:
    """
    Show the history of a job: control files, events, record, and every message that contained it with its answer.

    For each target without such a message it says why. For a pruned or deleted record, given by its whole id, it shows
    what was sent.
    """
    from arcacct.queries import job_history  # noqa: PLC0415  all of publishing is slow to import

    settings = settings_of(ctx)
    with (
        closing(access.read_accounting(settings.places)) as con,
        closing(access.read_publishing(settings.places)) as ledger,
        # Who publishes meanwhile forgets messages.
        access.one_moment(ledger),
    ):
        try:
            lines = list(job_history.why(settings, con, ledger, find_job(con, job_id), with_texts=with_texts))
        except InputError:
            gone = job_id.rpartition("/")[2] if "://" in job_id else job_id
            if not job_history.was_sent(ledger, gone):
                raise
            lines = list(job_history.why_gone(settings, con, ledger, gone, with_texts=with_texts))
    # Not in that moment: who reads takes his time.
    if form == "json":
        show_object(lines)
        return
    for line in lines:
        print_line(line)


# `arcacct query`: SQL that only reads.


_GRACE_S = 2.0


limit_options = in_order(
    click.option(
        "--timeout",
        "seconds",
        type=click.FloatRange(0, min_open=True),
        default=60.0,
        show_default=True,
        metavar="S",
        help="Stop after so many seconds.",
    ),
    click.option(
        "--max-rows",
        "rows",
        type=click.IntRange(1),
        default=1_000_000,
        show_default=True,
        metavar="N",
        help="Stop after so many rows.",
    ),
    click.option(
        "--max-memory",
        "memory_mib",
        type=click.IntRange(16),
        default=512,
        show_default=True,
        metavar="MIB",
        help="Stop if the query or its result needs more memory.",
    ),
    together(database_query.QueryLimits, "limits"),
)
"""How much a query may take."""


class StatementCommand(click.Command):
    """A command with an SQL argument that may begin with a comment: `-- ` is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does."""
        # No option has white space after its dashes.
        return super().parse_args(ctx, [f"\n{text}" if re.match(r"--\s", text) else text for text in args])


@click.command(
    cls=StatementCommand,
    epilog=examples(
        'arcacct query "SELECT vo, sum(jobs) FROM v1_usage_by_month GROUP BY vo"',
        'arcacct query --format csv "SELECT * FROM v1_jobs LIMIT 10"',
        "arcacct query - < report.sql",
    ),
)
@click.argument("sql")
@format_option()
@click.option("--ledger", is_flag=True, help="Query publishing.db: v1_publications, v1_quarantine.")
@limit_options
@click.pass_context
def query(ctx: click.Context, sql: str, form: str, ledger: bool, limits: database_query.QueryLimits) -> None:
    """
    Run one read-only SQL query.

    SQL is one statement, or - to read it from standard input. If its first line is a comment with the name
    publishing.db, the query reads the ledger, as with --ledger. The views v1_* keep their columns in all versions;
    A-REX's tables are also available. No statement can write, attach or load anything.
    """
    statement = statement_of(sql)
    ledger = ledger or re.match(r"\s*--\s*publishing\.db\s*\n", statement) is not None
    with (
        watchdog(limits.seconds),
        closing(access.read_publishing(places_of(ctx))) if ledger else opened(ctx) as con,
        database_query.query_result(con, statement, limits) as answer,
        at_work("asking"),
    ):
        show(answer.columns, answer.rows, form)


def statement_of(sql: str) -> str:
    """The statement that is given, or read from standard input. Raises InputError for an endless one."""
    if sql != "-":
        return sql
    statement = sys.stdin.read(_LONGEST_STATEMENT + 1)
    if len(statement) > _LONGEST_STATEMENT:
        raise InputError(f"standard input: more than {_LONGEST_STATEMENT} characters; give one SQL statement")
    return statement


@contextmanager
def watchdog(timeout_s: float) -> Iterator[None]:
    """
    End the process when even SQLite cannot end the query: one function on one large value may take hours.

    (While SQLite works, no Python runs in this thread, not even the handler of a signal.)
    """

    def end() -> None:
        print_error(f"{database_query.too_long(timeout_s)}")
        os._exit(InputError.exit_code)

    timer = threading.Timer(timeout_s + _GRACE_S, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
