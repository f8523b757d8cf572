"""`arcacct publish`."""

from __future__ import annotations

import gc
import time

import click

from arcacct.cli.console import examples, print_error
from arcacct.cli.options import INSTANT, NAMED_MONTH, name_of_user, plan_option, settings_of
from arcacct.cli.progress import at_work
from arcacct.cli.targets import announce, exit_code, show, target_option
from arcacct.publishing import run, target_run
from arcacct.publishing.context import RunSummary
from arcacct.targets import plugins
from arcacct.times import iso
from arcacct.wording import count_of

# `arcacct publish`.


@click.command(
    epilog=examples(
        "arcacct publish --dry-run", "arcacct publish --target apel:egi --now", "arcacct publish --since 2026-11-01"
    )
)
@target_option
@click.option("--now", is_flag=True, help="Ignore urdelivery_frequency: also send to targets that are not due yet.")
@click.option(
    "--since", type=INSTANT, help="Also send unsent jobs that ended at or after TIME, and ignore urdelivery_frequency."
)
@click.option(
    "--accept-lower",
    "accepted",
    multiple=True,
    type=NAMED_MONTH,
    metavar="YYYY-MM",
    help="Send this held month with the current figures of the database; your name is stored. May be repeated.",
)
@click.option(
    "--former-names",
    type=click.Choice(["move", "keep"]),
    help="Months that the receiver has under a former name of the site: move them to the present name, or keep them"
    " there; your name is stored.",
)
@plan_option("Show what would be sent; send nothing.")
@click.option("--write-to", metavar="DIR", help="Write the exact messages to a directory; send nothing.")
@click.pass_context
def publish(
    ctx: click.Context,
    target: str | None,
    now: bool,
    since: int | None,
    accepted: tuple[tuple[int, int], ...],
    former_names: str | None,
    plan_only: bool,
    write_to: str | None,
) -> int:
    """
    Send new records to every configured target.

    Each target continues where it stopped. A record that a receiver would reject is quarantined with the reason, and
    the others are sent. If a month's published figures would fall and no logged change explains it, the month is held
    and reported (69). Exit code: the most severe of the targets (78, 77, 69, 75; 65 if a record was quarantined).
    """
    # Records contain no reference cycles: searching them at the usual rate takes a twelfth of the whole time. A page of
    # jobs with many nodes and transfers has 50,000 objects; a message leaves five in cycles.
    gc.freeze()
    gc.set_threshold(500_000)
    for year, month in accepted:
        # An acceptance applies to a whole month, so a future month cannot be accepted.
        if (year, month) > time.gmtime()[:2]:
            raise click.UsageError(f"--accept-lower: {year:04d}-{month:02d} is in the future")
    if since is not None and since > time.time():
        raise click.UsageError(f"--since: {iso(since)} is in the future")
    settings = settings_of(ctx, to_publish=True)
    targets = plugins(settings, target)
    planned = plan_only or write_to is not None
    complaints: list[str] = []
    tallies: dict[str, RunSummary] = {}

    def so_far() -> str:
        records = sum(sent.records for summary in list(tallies.values()) for sent in list(summary.sent.values()))
        return f", {count_of(records, 'record')}" if records else ""

    options = target_run.RunOptions(
        now=now,
        since=since,
        dry_run=planned,
        write_to=write_to,
        accept_lower=accepted,
        accept_names=len(targets) == 1,
        former_names=former_names,
        who=name_of_user() if accepted or former_names else "",
        announce=announce,
        complain=complaints.append,
        watch=tallies.__setitem__,
    )
    with at_work("planning" if planned else "publishing", so_far):
        outcomes = run.publish(settings, targets, options)
    print_error(*complaints)
    show(outcomes, planned=planned)
    return exit_code(outcomes, complaints)
