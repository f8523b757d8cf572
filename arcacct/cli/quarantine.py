"""`arcacct quarantine`: records that are not sent, and why."""

from __future__ import annotations

import json
from contextlib import closing

import click

from arcacct.cli.context import settings_of
from arcacct.cli.naming import complete_target, target_option
from arcacct.cli.speech import ask, block, data, examples, say
from arcacct.conf.settings import Settings
from arcacct.conf.targets import select_targets
from arcacct.db import opening
from arcacct.errors import InputError
from arcacct.publishing import held
from arcacct.publishing.instants import iso
from arcacct.targets import plugs
from arcacct.wording import count_of

_HEADER = ("target", "state", "job", "ended", "reason")


@click.group(
    short_help="List, retry or drop records that are not sent.",
    epilog=examples("arcacct quarantine list", "arcacct quarantine retry --all --target sgas:s"),
)
def quarantine() -> None:
    """
    Records that are not sent to a target: those its receiver would refuse or refused, and corrections it ignores.

    Their neighbours are not affected. "held" waits for another try by itself, "quarantined" is believed to be refused.
    """


@quarantine.command(
    "list",
    short_help="Every record that is set aside, with the reason.",
    epilog=examples("arcacct quarantine list --format json"),
)
@target_option
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", help="How to print them.")
@click.pass_context
def list_(ctx: click.Context, target: str | None, form: str) -> None:
    """List every record that is set aside, with the reason."""
    settings = settings_of(ctx)
    with closing(opening.read_publishing(settings.places)) as con:
        found = held.set_aside(con, target=_block(settings, target))
    if form == "json":
        block(json.dumps([one._asdict() for one in found], indent=2), data)
        return
    if not found:
        say("nothing is set aside", err=True)
        return
    names = {one.block: one.name for one in settings.targets}
    rows = [
        (names.get(one.target, one.target), one.state, one.job_id, iso(one.end_time), _reason(one)) for one in found
    ]
    widths = [max(map(len, column)) for column in zip(_HEADER, *rows, strict=True)]
    for row in (_HEADER, *rows):
        # The reason is last: it may be long, and is shown whole.
        say("  ".join(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)) + f"  {row[-1]}")


@quarantine.command(
    short_help="All that is known of one record that is set aside.", epilog=examples("arcacct quarantine show rUkNDmRi")
)
@click.argument("job_id", metavar="JOBID")
@click.pass_context
def show(ctx: click.Context, job_id: str) -> None:
    """Show where and why a record is set aside; `arcacct job why` tells the rest of its story."""
    settings = settings_of(ctx)
    with closing(opening.read_publishing(settings.places)) as con:
        found = held.set_aside(con, job_id=job_id)
    if not found:
        raise InputError(f"{job_id}: not set aside; see `arcacct quarantine list` and `arcacct job why {job_id}`")
    for one in found:
        say(f"{one.target}: {one.state} since {iso(one.since_s)}, tried {count_of(one.attempts + 1, 'time')}")
        say(f"  ended {iso(one.end_time)}")
        say(f"  {one.reason}")
        if one.refusals:
            say(f"  the receiver refused it in {count_of(one.refusals, 'run')}")
        if one.again:
            say(f"  {one.again}")


@quarantine.command(
    short_help="Send records again with the next run.",
    epilog=examples("arcacct quarantine retry rUkNDmRi", "arcacct quarantine retry --all"),
)
@click.argument("job_ids", metavar="JOBID...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All records that are set aside.")
@target_option
@click.pass_context
def retry(ctx: click.Context, job_ids: tuple[str, ...], everything: bool, target: str | None) -> None:
    """Send records again with the next run: after the cause was removed, here or at the receiver."""
    _change(ctx, job_ids, "retry", everything=everything, target=target)


@quarantine.command(
    short_help="Never send these records.", epilog=examples("arcacct quarantine drop rUkNDmRi --target sgas:s")
)
@click.argument("job_ids", metavar="JOBID...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All records that are set aside.")
@target_option
@click.option("--yes", is_flag=True, help="With --all: go on without asking.")
@click.pass_context
def drop(ctx: click.Context, job_ids: tuple[str, ...], everything: bool, target: str | None, yes: bool) -> None:
    """
    Never send these records; they stay in the database, and `quarantine retry JOBID` brings them back.

    With --all it asks first; without a terminal that needs --yes.
    """
    if everything and not job_ids:
        where = f"that is set aside for {target}" if target else "that is set aside, for all targets"
        ask(f"never send any record {where}?", yes=yes)
    _change(ctx, job_ids, "dropped", everything=everything, target=target)


@quarantine.command(
    "sql",
    short_help="What SGAS's administrator runs to make room for corrections.",
    epilog=examples("arcacct quarantine sql sgas:s > corrections.sql"),
)
@click.argument("target", shell_complete=complete_target)
@click.pass_context
def sql(ctx: click.Context, target: str) -> None:
    """
    Print the transaction that removes outdated records from the database of an SGAS server, for its administrator.

    They are those that are set aside as corrections. It also has the daily sums made anew, which deleting alone would
    leave as they are. Afterwards `arcacct quarantine retry --all --target TARGET` sends the records as they are now.
    """
    settings = settings_of(ctx)
    (found,) = plugs(settings, target)
    with closing(opening.read_publishing(settings.places)) as con:
        block(found.corrections(con), data)


def _change(ctx: click.Context, job_ids: tuple[str, ...], state: str, *, everything: bool, target: str | None) -> None:
    if bool(job_ids) == everything:
        raise click.UsageError("give the ids of jobs, or --all")
    settings = settings_of(ctx)
    with closing(opening.open_publishing(settings.places)) as con:
        changed = held.change_state(con, _block(settings, target), job_ids, state)
    say(f"{count_of(changed, 'record')}: {state}")


def _reason(one: held.Aside) -> str:
    return f"{one.reason}; {one.again}" if one.again else one.reason


def _block(settings: Settings, target: str | None) -> str | None:
    return None if target is None else select_targets(settings.targets, target)[0].block
