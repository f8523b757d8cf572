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
from arcacct.cli.tables import LISTED, format_option, show, show_object
from arcacct.database import access
from arcacct.database import query as database_query
from arcacct.errors import InputError, UsageError
from arcacct.queries import arcctl as queries_arcctl
from arcacct.queries.arcctl import arcctl_record
from arcacct.records.reader import find_job

# `arcacct job`: all about one job.


_TRANSFER = ("url", "type", "size", "timestart", "timeend")
SECTIONS = ("info", "events", "transfers", "why")
PARTS = ("all", "description", "resources", "rtes", "authtokens", "json")
_LONGEST_STATEMENT = 1_000_000
"""Characters."""
_job_id = click.argument("job_id", metavar="JOBID", shell_complete=completed("job"))


@click.command(
    short_help="Show everything about one job: record, events, transfers, and what was sent, or why it was not.",
    epilog=examples(
        "arcacct job rUkNDmRi", "arcacct job --only why --sent rUkNDmRi", "arcacct job --only events --format csv 27647"
    ),
)
@click.option("--only", type=click.Choice(SECTIONS), help="Only this section; info, events and transfers as arcctl.")
@click.option("--sent", is_flag=True, help="Also show its text in each message, as far as it is known.")
@click.option("-o", "--output", type=click.Choice(PARTS), hidden=True, help="With --only info: as arcctl job info -o.")
@format_option(
    LISTED,
    "an object with info and why, or the content of the section",
    start="Output format; csv and spreadsheet only of events and transfers.",
)
@arcctl_option
@_job_id
@click.pass_context
def job(
    ctx: click.Context, job_id: str, *, only: str | None, sent: bool, output: str | None, form: str, arcctl: str | None
) -> None:
    """
    Show a job's record, transfers and history: control files, events, and each message that had it, with the answer.

    JOBID is its id or URL, its id in the batch system, or the beginning of its id. For each target without such a
    message the history says why. For a pruned or deleted record, give its whole id: it shows what was sent. The
    sections info, events and transfers have the format of arcctl accounting job; times are UTC.
    """
    if output and only != "info":
        raise UsageError("-o needs --only info")
    if sent and only not in (None, "why"):
        raise UsageError("--sent needs the section why")
    if form in ("csv", "spreadsheet") and only not in ("events", "transfers"):
        raise UsageError(f"--format {form} needs --only events or --only transfers")
    if only is None:
        _everything(ctx, job_id, with_texts=sent, form=form, arcctl=arcctl)
    elif only == "why":
        _tell(_history(ctx, job_id, with_texts=sent), form)
    else:
        _section(_record(ctx, job_id, arcctl), only, output or "all", form)


def _everything(ctx: click.Context, job_id: str, *, with_texts: bool, form: str, arcctl: str | None) -> None:
    """The record and the transfers, then the history, which has the events."""
    try:
        record = _record(ctx, job_id, arcctl)
    except InputError:
        # The ledger may know a job that is no longer in the database.
        record = None
    if record is not None and form == "text":
        _tell([*_info(record, "all"), *queries_arcctl.transfers(record), ""], form)
    history = _history(ctx, job_id, with_texts=with_texts)
    if form == "json":
        show_object({"info": record, "why": history})
    else:
        _tell(history, form)


def _section(record: queries_arcctl.ArcctlJob, only: str, output: str, form: str) -> None:
    """Return arcctl's lines about a job: info, events or transfers."""
    if only == "info":
        if form == "json" or (output == "json" and queries_arcctl.unfinished(record) is None):
            data(json.dumps(record))
        else:
            _tell(_info(record, output), form)
        return
    is_events = only == "events"
    if form != "text":
        columns = ("event", "time") if is_events else _TRANSFER
        moved = ([one[name] for name in _TRANSFER] for one in record["DataTransfers"])
        show(columns, record["JobEvents"] if is_events else moved, form)
        return
    lines = list(queries_arcctl.events(record) if is_events else queries_arcctl.transfers(record))
    _tell(lines, form)
    if not lines:
        print_error(f"There are no {'events' if is_events else 'data transfers'} registered for job {record['JobID']}")


def _record(ctx: click.Context, job_id: str, arcctl: str | None) -> queries_arcctl.ArcctlJob:
    with asking(ctx) as con:
        return arcctl_record(con, find_job(con, job_id).record_id, arcctl_version(con, arcctl))


def _info(record: queries_arcctl.ArcctlJob, output: str) -> Iterable[str]:
    unfinished = queries_arcctl.unfinished(record)
    return queries_arcctl.info(record, output) if unfinished is None else [unfinished]


def _history(ctx: click.Context, job_id: str, *, with_texts: bool) -> list[str]:
    """
    Return the history of a job; for a pruned or deleted one, given by its whole id, the sent records. Raises
    InputError.
    """
    from arcacct.queries import job_history  # noqa: PLC0415  all of publishing is slow to import

    settings = settings_of(ctx)
    with (
        closing(access.read_accounting(settings.places)) as con,
        closing(access.read_publishing(settings.places)) as ledger,
        # A publisher that runs meanwhile deletes texts of messages.
        access.one_moment(ledger),
    ):
        try:
            return list(job_history.why(settings, con, ledger, find_job(con, job_id), with_texts=with_texts))
        except InputError:
            gone = job_id.rpartition("/")[2] if "://" in job_id else job_id
            if not job_history.was_sent(ledger, gone):
                raise
            return list(job_history.why_gone(settings, con, ledger, gone, with_texts=with_texts))


def _tell(lines: Iterable[str], form: str) -> None:
    if form == "json":
        show_object(list(lines))
        return
    for line in lines:
        print_line(line)


# `arcacct query`: SQL that only reads.


_GRACE_S = 2.0


_LIMITS = (
    ("--timeout", "seconds", click.FloatRange(0, min_open=True), 60.0, "S", "after this number of seconds"),
    ("--max-rows", "rows", click.IntRange(1), 1_000_000, "N", "after this number of rows"),
    ("--max-memory", "memory_mib", click.IntRange(16), 512, "MIB", "if the query or its result needs more memory"),
)
limit_options = in_order(
    *(
        click.option(flag, name, type=kind, default=most, show_default=True, metavar=unit, help=f"Stop {when}.")
        for flag, name, kind, most, unit, when in _LIMITS
    ),
    together(database_query.QueryLimits, "limits"),
)
"""Limits of a query."""


class StatementCommand(click.Command):
    """A command with an SQL argument that may begin with a comment: `-- ` is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click."""
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
    """Return the statement from the argument or from standard input. Raises InputError for an endless one."""
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
