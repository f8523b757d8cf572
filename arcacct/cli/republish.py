"""`arcacct republish`."""

from __future__ import annotations

import click

from arcacct.cli.context import settings_of
from arcacct.cli.instants import INSTANT
from arcacct.cli.outcomes import announce, exit_code, show
from arcacct.conf.targets import select_targets
from arcacct.errors import UsageError
from arcacct.publish import run


@click.command(short_help="Send the records of a period again.")
@click.option(
    "--from", "from_s", type=INSTANT, required=True, metavar="TIME", help="Jobs that ended at this time (UTC)"
)
@click.option("--to", "before_s", type=INSTANT, required=True, metavar="TIME", help="or later, and before this one.")
@click.option("--target", metavar="NAME", help="Only this target: sgas:x, apel:x, directory:x, or x if unique.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent; send nothing.")
@click.option("--write-to", metavar="DIR", help="Write exactly what would be sent into a directory; send nothing.")
@click.pass_context
def republish(
    ctx: click.Context, from_s: int, before_s: int, target: str | None, dry_run: bool, write_to: str | None
) -> int:
    """
    Send the records of a period again: jobs with FROM <= end time < TO.

    Summaries are always sent as whole months. SGAS ignores records that it has, APEL replaces them. The regular
    publishing is not affected.
    """
    if from_s >= before_s:
        raise UsageError("--from has to be earlier than --to: nothing ends in that period")
    settings = settings_of(ctx)
    targets = select_targets(settings.targets, target)
    planned = dry_run or write_to is not None
    wishes = run.Wishes(dry_run=planned, write_to=write_to, announce=announce)
    outcomes = run.republish(settings, targets, run.Period(from_s, before_s), wishes)
    show(outcomes, planned=planned)
    return exit_code(outcomes)
