"""`arcacct sweep`: whatever the hook missed."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from threading import Event

import click

from arcacct.arex.sweep import follow as follow_all
from arcacct.arex.sweep import sweep as sweep_all
from arcacct.arex.sweep_context import Gap, SweepReport
from arcacct.cli.context import conf_of, places_of, settings_of
from arcacct.cli.db_forget import forget_old
from arcacct.cli.speech import examples, print_error, print_line
from arcacct.cli.working import progress
from arcacct.config.paths import Places, places
from arcacct.database import access
from arcacct.errors import ConfigError, InputError, StoreBusy, UsageError
from arcacct.wording import count_of

_INTERVAL_S = 60.0


@click.command(epilog=examples("arcacct sweep", "arcacct sweep --dry-run"))
@click.option("--controldir", metavar="DIR", help="Sweep this control directory instead of the configured one.")
@click.option("--dry-run", is_flag=True, help="Say what would be recorded, and write nothing.")
@click.option("--follow", is_flag=True, help="Keep sweeping, as a service, until SIGTERM or Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help=f"With --follow: how long to wait between two sweeps; default {_INTERVAL_S:g}.",
)
@click.option(
    "--give-up",
    "given_up",
    multiple=True,
    metavar="JOBID",
    help="Record this job as aborted: it has ended, and nothing tells what it used. `all`: every such job.",
)
@click.pass_context
def sweep(
    ctx: click.Context,
    controldir: str | None,
    dry_run: bool,
    follow: bool,
    interval: float | None,
    given_up: tuple[str, ...],
) -> int:
    """
    Record what hooks have spooled or missed.

    Drains the spool, then compares every job of the control directory with the database, which is made if it is
    missing. Prints what was done, and on stderr what could not be used; exits with 65 if there was any of that, and the
    rest is recorded.
    Of a job in progress of which nothing is left in the control directory the end is taken from A-REX's own database,
    or it becomes aborted; not so with --controldir and a database that has jobs of other directories too.
    """
    if follow and given_up:
        raise UsageError("--give-up and --follow exclude each other")
    if dry_run and follow:
        raise UsageError("--dry-run and --follow exclude each other")
    if interval is not None and not follow:
        raise UsageError("--interval is for --follow")
    here = places_of(ctx, controldir)
    own = controldir is None or here.database == places(None, here.controldir).database
    if follow:
        stop = Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: stop.set())

        def tell(report: SweepReport | None, complaints: list[str]) -> None:
            print_error(*complaints)
            if report is not None and (report.spooled or report.recorded):
                print_line(_summary(report, here))

        follow_all(here, interval or _INTERVAL_S, stop, tell, take_vanished=own)
        return 0
    con = access.open_as_it_is(here) if dry_run else access.open_accounting(here)
    try:
        with progress("Jobs") as show:
            # Without a terminal nobody needs to know how many jobs there are.
            told = show if sys.stderr.isatty() else None
            report = sweep_all(here, con, progress=told, dry_run=dry_run, take_vanished=own, given_up=given_up)
        if own and not dry_run and conf_of(ctx).get("arcacct", "names_kept_months"):
            # While somebody publishes, or the configuration of the targets is wrong, another sweep does it.
            with suppress(StoreBusy, ConfigError):
                forget_old(settings_of(ctx, warns=False), con)
    finally:
        access.leave_open(con, here.database)
    print_error(*report.complaints)
    print_line(_summary(report, here, dry_run=dry_run))
    return InputError.exit_code if report.complaints else 0


def _summary(report: SweepReport, here: Places, *, dry_run: bool = False) -> str:
    kinds = ", ".join(f"{report.found[kind]} {words}" for kind, words in Gap.WORDS.items() if report.found.get(kind))
    return (
        f"{'dry run, nothing written: ' if dry_run else ''}{count_of(report.spooled, 'event')} from the spool; "
        f"{count_of(report.jobs, 'job')} in {here.controldir}, {report.looked_at} read, {report.recorded} recorded"
        f"{': ' if kinds else ''}{kinds}"
    )
