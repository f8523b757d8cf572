"""`arcacct job`: all about one job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import closing

import click

from arcacct.cli.asking import arcctl_option, arcctl_version, asking, completed
from arcacct.cli.context import settings_of
from arcacct.cli.speech import data, examples, print_error, print_line
from arcacct.database import access
from arcacct.errors import InputError
from arcacct.queries import arcctl as queries_arcctl
from arcacct.queries.arcctl import arcctl_record
from arcacct.records.reader import find_job

PARTS = ("all", "description", "resources", "rtes", "authtokens", "json")
_job_id = click.argument("job_id", metavar="JOBID", shell_complete=completed("job"))


@click.group(
    short_help="Tell all about one job: record, events, transfers, or why it was not sent.",
    epilog=examples("arcacct job why rUkNDmRi", "arcacct job info 27647"),
)
def job() -> None:
    """Tell all about one job: JOBID is its id or URL, its id in the batch system, or how its id begins."""


@job.command(
    short_help="What is recorded of it.",
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
@arcctl_option
@_job_id
@click.pass_context
def info(ctx: click.Context, output: str, arcctl: str | None, job_id: str) -> None:
    """What is recorded of a job, as arcctl accounting job info prints it; times in UTC."""
    record = _record(ctx, job_id, arcctl)
    unfinished = queries_arcctl.unfinished(record)
    if unfinished is not None:
        print_line(unfinished)
    elif output == "json":
        data(json.dumps(record))
    else:
        for line in queries_arcctl.info(record, output):
            print_line(line)


@job.command(short_help="When it changed its state.", epilog=examples("arcacct job events rUkNDmRi"))
@arcctl_option
@_job_id
@click.pass_context
def events(ctx: click.Context, arcctl: str | None, job_id: str) -> None:
    """When a job changed its state, as arcctl accounting job events prints it; times in UTC."""
    _some(_record(ctx, job_id, arcctl), queries_arcctl.events, "events")


@job.command(short_help="Which files A-REX moved for it.", epilog=examples("arcacct job transfers rUkNDmRi"))
@arcctl_option
@_job_id
@click.pass_context
def transfers(ctx: click.Context, arcctl: str | None, job_id: str) -> None:
    """Which files A-REX moved for a job, as arcctl accounting job transfers prints it; times in UTC."""
    _some(_record(ctx, job_id, arcctl), queries_arcctl.transfers, "data transfers")


def _record(ctx: click.Context, job_id: str, arcctl: str | None) -> queries_arcctl.ArcctlJob:
    with asking(ctx) as con:
        return arcctl_record(con, find_job(con, job_id).record_id, arcctl_version(con, arcctl))


def _some(
    record: queries_arcctl.ArcctlJob, lines: Callable[[queries_arcctl.ArcctlJob], Iterable[str]], what: str
) -> None:
    found = list(lines(record))
    for line in found:
        print_line(line)
    if not found:
        print_error(f"There are no {what} registered for job {record['JobID']}")


@job.command(
    short_help="Its whole story: seen, recorded, sent, answered, or why not.",
    epilog=examples("arcacct job why rUkNDmRi", "arcacct job why --sent rUkNDmRi"),
)
@click.option("--sent", "with_texts", is_flag=True, help="With what each message said of it, as far as that is known.")
@_job_id
@click.pass_context
def why(ctx: click.Context, job_id: str, *, with_texts: bool) -> None:
    """
    Tell the whole story of a job: control files, events, record, every message that carried it with its answer.

    For each target that has no such message it says why not. Of a job whose record was pruned or deleted, given by its
    whole id, it tells what was sent.
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
    for line in lines:
        print_line(line)
