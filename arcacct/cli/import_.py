"""`arcacct import`: jobs that other programs have recorded."""

from __future__ import annotations

from importlib import import_module

import click

from arcacct.arex.import_database import ImportReport, arex_databases, import_arex, retry_rejected
from arcacct.cli.context import places_of
from arcacct.cli.instants import zone_of
from arcacct.cli.speech import examples, print_line
from arcacct.cli.working import print_retried, progress
from arcacct.database.access import accounting, refuse_unasked
from arcacct.errors import InputError
from arcacct.wording import count_of

_SHOWN = 20


SOURCES = ("gridengine", "htcondor", "rejected", "slurm", "sonar")
"""The commands that have a module of their own, imported when they run."""


class _ImportGroup(click.Group):
    """The sources of this module, and those of others by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *SOURCES})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SOURCES:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(f"arcacct.cli.import_{cmd_name}"), cmd_name)
        return command


@click.group(
    "import",
    cls=_ImportGroup,
    epilog=examples("arcacct import arex", "arcacct import gridengine /var/lib/gridengine/default/common/accounting"),
)
def import_() -> None:
    """Take over jobs that other programs have recorded."""


@import_.command(
    epilog=examples("arcacct import arex", "arcacct import arex /root/old-ce/accounting.db --timezone Europe/Oslo")
)
@click.argument("path", required=False)
@click.option("--timezone", metavar="ZONE", help="A-REX's time zone, e.g. Europe/Oslo; this host's without it.")
@click.option("--controldir", metavar="DIR", help="Use this control directory instead of the configured one.")
@click.option("--retry", is_flag=True, help="Try again what was rejected, see `import rejected`; then PATH, if given.")
@click.pass_context
def arex(ctx: click.Context, path: str | None, *, timezone: str | None, controldir: str | None, retry: bool) -> int:
    """
    Take over the jobs of the database that A-REX itself writes.

    PATH is an accounting.db (ARC 6) or accounting_v2.db (ARC 7); without it, those of the control directory. A-REX
    may run meanwhile and notices nothing. Repeat it as often as you like: it takes over what is new and what has
    changed. What arcacct recorded itself stays as it is, and differences are listed. What cannot be used is said, left
    out and kept (`import rejected`); then the exit code is 65.
    """
    zone = zone_of(timezone)
    here = places_of(ctx, controldir)
    refuse_unasked(here)
    paths = [path] if path else [] if retry else arex_databases(here.controldir)
    rejected = 0
    with accounting(here) as con:
        if retry:
            report, retried = retry_rejected(here, con, zone)
            print_retried(retried)
            _tell(report)
            rejected += report.rejected
        for one in paths:
            with progress("Records") as show:
                report = import_arex(here, con, one, zone, progress=show)
            _tell(report)
            rejected += report.rejected
    return InputError.exit_code if rejected else 0


def _tell(report: ImportReport) -> None:
    for difference in report.differences[:_SHOWN]:
        print_line(f"{difference.job_id}: {'; '.join(difference.what)}", err=True)
    if report.differing:
        print_line(f"{count_of(report.differing, 'job')} recorded here with other values: what is here stays", err=True)
    for line in report.complaints:
        print_line(f"{report.path}: {line}: left out, and kept", err=True)
    if report.rejected > len(report.complaints):
        print_line(f"{report.path}: {count_of(report.rejected, 'rejected record')} in all", err=True)
    for line in report.lost[:_SHOWN]:
        print_line(f"{report.path}: {line}: left out", err=True)
    if len(report.lost) > _SHOWN:
        print_line(f"{report.path}: {count_of(len(report.lost), 'such record')} in all", err=True)
    if report.archived:
        print_line(
            f"{count_of(report.archived, 'job')} left out: moved into an archive by `arcacct db prune`", err=True
        )
    if report.other_zone:
        print_line(
            f"{count_of(report.other_zone, 'job')} with events of another time zone: converted by the job's own times",
            err=True,
        )
    print_line(
        f"{report.path}: {count_of(report.looked_at, 'record')} read, {count_of(report.added, 'job')} added,"
        f" {report.changed} changed, {report.completed} completed, {report.unfinished} unfinished"
    )
