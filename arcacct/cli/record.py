"""`arcacct record` records one event by hand; `arcacct sweep` drains the spool, and records what callouts missed."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from threading import Event

import click

from arcacct.arex.control_files import STATES, is_job_id, read_job
from arcacct.cli.console import examples, print_error, print_line
from arcacct.cli.options import conf_of, controldir_option, places_of, plan_option, settings_of
from arcacct.cli.progress import progress
from arcacct.config.parser import RUN_TIME_FILE, conf_d, find_conf, our_conf
from arcacct.config.paths import Places, places
from arcacct.database import access
from arcacct.database.access import accounting
from arcacct.database.schema import sources_of
from arcacct.errors import ConfigError, InputError, StoreBusy, UsageError, use_as
from arcacct.sources.registry import TELEMETRY, join_telemetry
from arcacct.wording import count_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.arex.resident import Reloaded
    from arcacct.arex.sweep_context import SweepReport

# `arcacct record`: launcher and recorder in one, for people, so its errors are reported.


@click.command(hidden=True, epilog=examples("arcacct record /var/spool/arc/jobstatus rUkNDmRi FINISHED"))
@click.argument("controldir")
@click.argument("jobid")
@click.argument("state", type=click.Choice(STATES))
@click.pass_context
def record(ctx: click.Context, controldir: str, jobid: str, state: str) -> None:
    """
    Record one state change of a job, as a callout and the recorder do together.

    Reads the current control files of job JOBID in CONTROLDIR and records them as of STATE. Creates the database if it
    is missing. Recording twice changes nothing. It does not spool: if it cannot record, it says why, and a later
    `arcacct sweep` records what is missing.
    """
    from arcacct.arex.sweep import record_event  # noqa: PLC0415  `arcacct sweep` does not need it

    here = places_of(ctx, controldir)
    if not is_job_id(jobid):
        raise UsageError(f"{jobid!r} is not the id of a job; give only the id, without job. and path")
    try:
        files = read_job(here.controldir, jobid, state)
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}; {use_as(error.filename)}") from error
    if state == "DELETED":
        print_line(f"{jobid} DELETED: nothing to record, because a record outlives its job")
        return
    with accounting(here) as con:
        new = record_event(here, files, con)
    print_line(f"{jobid} {state}: {'recorded' if new else 'nothing new'} in {here.database}")


# `arcacct sweep`: the spool, and whatever callouts missed.


_INTERVAL_S = 60.0
_HUNG_S = 900
"""How long the service may take for one step."""


@click.command(epilog=examples("arcacct sweep", "arcacct sweep --dry-run"))
@controldir_option
@plan_option("Show what would be recorded; write nothing.")
@click.option("--follow", is_flag=True, help="Keep sweeping, as a service, until SIGTERM or Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help=f"With --follow: seconds between two sweeps; default {_INTERVAL_S:g}.",
)
@click.option(
    "--give-up",
    "given_up",
    multiple=True,
    metavar="JOBID",
    help="Record this job as aborted: it has ended, and its usage is unknown. `all`: every such job.",
)
@click.pass_context
def sweep(
    ctx: click.Context,
    controldir: str | None,
    plan_only: bool,
    follow: bool,
    interval: float | None,
    given_up: tuple[str, ...],
) -> int:
    """
    Record the events in the spool, and what callouts missed.

    Drains the spool, then compares every job of the control directory with the database. Creates the database if it is
    missing. Unusable input is reported on stderr, with exit code 65; the rest is recorded. If a job in progress has no
    files left in the control directory, its end comes from A-REX's own database, or the job is aborted. This is not
    done with --controldir and a database that has jobs of other directories.
    """
    # This is half of all modules: neither help nor `arcacct record` needs them.
    from arcacct.arex.sweep import follow as follow_all  # noqa: PLC0415
    from arcacct.arex.sweep import sweep as sweep_all  # noqa: PLC0415

    if follow and given_up:
        raise UsageError("use only one of --give-up and --follow")
    if plan_only and follow:
        raise UsageError("use only one of --dry-run and --follow")
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

        source = here if ctx.obj["database"] or os.environ.get("ARCACCT_CONFIG") else _reloaded(ctx, controldir)
        try:
            # The system ends a process that hangs anywhere, and starts its service again.
            follow_all(
                source, interval or _INTERVAL_S, stop, tell, take_vanished=own, works=lambda: signal.alarm(_HUNG_S)
            )
        finally:
            signal.alarm(0)
        return 0
    con = access.open_as_it_is(here) if plan_only else access.open_accounting(here)
    try:
        with progress("Jobs") as show:
            # Without a terminal the number of jobs is not needed.
            told = show if sys.stderr.isatty() else None
            report = sweep_all(here, con, progress=told, dry_run=plan_only, take_vanished=own, given_up=given_up)
        if own and not plan_only and conf_of(ctx).get("arcacct", "names_kept_months"):
            # If another process publishes, or the configuration of the targets is wrong, another sweep does it.
            from arcacct.cli.pseudonyms import forget_old  # noqa: PLC0415  few sites replace names

            with suppress(StoreBusy, ConfigError):
                forget_old(settings_of(ctx, warns=False), con)
        if own and not plan_only and TELEMETRY in sources_of(con):
            with suppress(StoreBusy, ConfigError):
                join_telemetry(con, settings_of(ctx, warns=False))
    finally:
        access.leave_open(con, here.database)
    print_error(*report.complaints)
    print_line(_summary(report, here, dry_run=plan_only))
    return InputError.exit_code if report.complaints else 0


def _reloaded(ctx: click.Context, controldir: str | None) -> Reloaded:
    """The configuration, for a service: read again when it changes."""
    from arcacct.arex.resident import Reloaded  # noqa: PLC0415  for the service alone

    def read() -> Places:
        return places_of(ctx, controldir)

    def files() -> list[str]:
        arc_conf = find_conf(ctx.obj["config"], os.environ)
        # A-REX writes the last one when it starts: if it is there, A-REX uses it.
        return [arc_conf, our_conf(arc_conf, os.environ), *conf_d(arc_conf), RUN_TIME_FILE]

    return Reloaded(read, files)


def _summary(report: SweepReport, here: Places, *, dry_run: bool = False) -> str:
    from arcacct.arex.sweep_context import Gap  # noqa: PLC0415  loaded with the sweep

    kinds = ", ".join(f"{report.found[kind]} {words}" for kind, words in Gap.WORDS.items() if report.found.get(kind))
    return (
        f"{'dry run, nothing written: ' if dry_run else ''}{count_of(report.spooled, 'event')} from the spool; "
        f"{count_of(report.jobs, 'job')} in {here.controldir}, {report.looked_at} read, {report.recorded} recorded"
        f"{': ' if kinds else ''}{kinds}"
    )
