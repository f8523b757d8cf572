"""`arcacct query`: SQL that only reads."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import click

from arcacct.cli.arguments import in_order, together
from arcacct.cli.asking import opened
from arcacct.cli.context import places_of
from arcacct.cli.speech import examples, print_error
from arcacct.cli.tables import format_option, show
from arcacct.cli.working import at_work
from arcacct.database import access
from arcacct.database import query as database_query
from arcacct.errors import InputError

_GRACE_S = 2.0


def _limits(timeout: float, max_rows: int, max_memory: int) -> database_query.QueryLimits:
    return database_query.QueryLimits(timeout, max_rows, max_memory)


limit_options = in_order(
    click.option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        default=60.0,
        show_default=True,
        metavar="S",
        help="Give up after so many seconds.",
    ),
    click.option(
        "--max-rows",
        type=click.IntRange(1),
        default=1_000_000,
        show_default=True,
        metavar="N",
        help="Give up after so many rows.",
    ),
    click.option(
        "--max-memory",
        type=click.IntRange(16),
        default=512,
        show_default=True,
        metavar="MIB",
        help="Give up when the query or its result needs more memory.",
    ),
    together(_limits, "limits", ("timeout", "max_rows", "max_memory")),
)
"""How much a query may take."""


@click.command(
    epilog=examples(
        'arcacct query "SELECT vo, sum(jobs) FROM v1_usage_by_month GROUP BY vo"',
        'arcacct query --format csv "SELECT * FROM v1_jobs LIMIT 10"',
        "arcacct query - < report.sql",
    )
)
@click.argument("sql")
@format_option
@click.option("--ledger", is_flag=True, help="Ask publishing.db: v1_publications, v1_quarantine.")
@limit_options
@click.pass_context
def query(ctx: click.Context, sql: str, form: str, ledger: bool, limits: database_query.QueryLimits) -> None:
    """
    Run one SQL query that only reads.

    SQL is one statement, or - to read it from standard input. The views v1_jobs, v1_job_events, v1_transfers,
    v1_job_attributes and v1_usage_by_month keep their columns from version to version; the tables of A-REX are there
    too. Recording goes on beside it. Nothing is written, attached or loaded, whatever the statement says.
    """
    statement = statement_of(sql)
    with (
        watchdog(limits.seconds),
        closing(access.read_publishing(places_of(ctx))) if ledger else opened(ctx) as con,
        database_query.query_result(con, statement, limits) as answer,
        at_work("asking"),
    ):
        show(answer.columns, answer.rows, form)


def statement_of(sql: str) -> str:
    """The statement that is given, or read from standard input."""
    return sys.stdin.read() if sql == "-" else sql


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
