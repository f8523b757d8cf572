"""`arcacct job`: all about one job."""

from __future__ import annotations

import click

from arcacct.cli.context import settings_of
from arcacct.publish.why import why as story_of
from arcacct.store import accounting
from arcacct.store.lookup import find_job


@click.group(short_help="All about one job.")
def job() -> None:
    """All about one job: JOBID is its id, its id in the batch system, or how its id begins."""


@job.command(short_help="Its whole story: seen, recorded, sent, answered, or why not.")
@click.argument("job_id", metavar="JOBID")
@click.pass_context
def why(ctx: click.Context, job_id: str) -> None:
    """
    Tell the whole story of a job: control files, events, record, every message that carried it with its answer.

    For each target that has no such message it says why not.
    """
    settings = settings_of(ctx)
    con = accounting.read_accounting(settings.places)
    for line in story_of(settings, con, accounting.read_publishing(settings.places), find_job(con, job_id)):
        click.echo(line)
