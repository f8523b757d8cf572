"""`arcacct import`: jobs that other programs have recorded, and records of imports that could not be used."""

from __future__ import annotations

from contextlib import closing
from importlib import import_module

import click

from arcacct import entry_points
from arcacct.arex.import_database import ImportReport, arex_databases, import_arex, retry_rejected
from arcacct.cli.console import ask, block, examples, print_line
from arcacct.cli.options import controldir_option, places_of, settings_of, yes_option, zone_of
from arcacct.cli.progress import print_retried, progress
from arcacct.cli.tables import format_option
from arcacct.cli.tables import show as show_rows
from arcacct.database.access import accounting, read_accounting, refuse_unasked, writing
from arcacct.errors import ConfigError, InputError, UsageError
from arcacct.records.batch_systems import BATCH_SYSTEMS, GRIDENGINE
from arcacct.records.rejected import content_of, drop, listed
from arcacct.sources.registry import GROUP, TELEMETRY, TelemetrySource, batch_source, installed
from arcacct.times import iso
from arcacct.wording import Causes, count_of

# `arcacct import rejected`: records of imports that could not be used.


_SOURCES = sorted(("arex", "features", TELEMETRY, *BATCH_SYSTEMS))
_COLUMNS = ("id", "source", "file", "position", "records", "rejected", "reason")


class _SourceName(click.Choice[str]):
    """A built-in source, or a name that another package may have, or had: judged by the command."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value if value.isidentifier() else super().convert(value, param, ctx)


@click.command(
    "rejected",
    epilog=examples(
        "arcacct import rejected",
        "arcacct import rejected --show 17",
        "arcacct import rejected --drop 17",
        "arcacct import rejected --drop-all --source sonar --yes",
    ),
)
@click.option("--source", type=_SourceName(_SOURCES), help="Only records from this source, or an installed one.")
@format_option()
@click.option("--show", type=int, metavar="ID", help="Print this record unchanged, with control characters escaped.")
@click.option(
    "--drop",
    "dropped",
    type=int,
    multiple=True,
    metavar="ID",
    help="Delete the record with this number. May be repeated.",
)
@click.option("--drop-all", is_flag=True, help="Delete all, or all from --source, after confirmation.")
@yes_option("With --drop-all: ")
@click.pass_context
def rejected(
    ctx: click.Context,
    *,
    source: str | None,
    form: str,
    show: int | None,
    dropped: tuple[int, ...],
    drop_all: bool,
    yes: bool,
) -> None:
    """
    List import records that could not be used, with their place and the reason.

    They are not counted and not published. After an upgrade of arcacct, or a change of the configuration, `import
    SOURCE --retry` tries them again; records that are now usable leave the list. (For records that a target rejects,
    see `quarantine`.)
    """
    if sum((show is not None, bool(dropped), drop_all)) > 1:
        raise UsageError("use only one of --show, --drop and --drop-all")
    here = settings_of(ctx).places
    if source is not None and source not in _SOURCES:
        with closing(read_accounting(here)) as con:
            # The package may be removed, but its rejected records are still here.
            is_known = bool(listed(con, source)) or batch_source(source) is not None
        if not is_known:
            raise UsageError(
                f"--source {source}: no such source; use one of {', '.join(_SOURCES)}, or an installed one"
            )
    if drop_all:
        ask(f"delete all rejected records{f' from {source}' if source else ''}?", yes=yes)
    if dropped or drop_all:
        with accounting(here) as con, writing(con, here):
            known = [one.rejected_id for one in listed(con, source if drop_all else None)]
            print_line(f"{count_of(drop(con, known if drop_all else dropped), 'rejected record')} dropped")
        unknown = ", ".join(str(one) for one in dict.fromkeys(dropped) if one not in known)
        if unknown:
            raise InputError(f"{unknown}: no such rejected record; see `arcacct import rejected`")
    elif show is not None:
        with closing(read_accounting(here)) as con:
            block(content_of(con, show).decode("utf-8", "backslashreplace"))
    else:
        with closing(read_accounting(here)) as con:
            rows = [
                (one.rejected_id, one.source, one.file, one.position, one.records, iso(one.rejected_s), one.reason)
                for one in listed(con, source)
            ]
        if rows or form != "table":
            show_rows(_COLUMNS, rows, form)
        else:
            print_line("no record is rejected", err=True)


# `arcacct import`: jobs that other programs have recorded.


_SHOWN = 20


def _installed() -> dict[str, str]:
    """Return the sources of parts and other packages by name, with the problem of each; empty: no problem."""
    found = {}
    for name in entry_points.names(GROUP):
        try:
            installed(name)
            found[name] = ""
        except ConfigError as error:
            found[name] = str(error)
    return found


class _ImportGroup(click.Group):
    """The sources of this module, those that have one of their own, and those of parts and other packages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        names = {name for name, problem in _installed().items() if not problem}
        return sorted({*super().list_commands(ctx), *BATCH_SYSTEMS, *names})

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, and the problems of sources of other packages."""
        super().format_commands(ctx, formatter)
        for problem in filter(None, _installed().values()):
            formatter.write_paragraph()
            formatter.write_text(problem)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if (own := super().get_command(ctx, cmd_name)) is not None:
            return own
        source = batch_source(cmd_name) if cmd_name != TELEMETRY else installed(cmd_name)
        if source is None:
            if cmd_name in entry_points.PARTS[GROUP] and not ctx.resilient_parsing:
                raise UsageError(f"command {cmd_name} {entry_points.NOT_INSTALLED}")
            return None
        if isinstance(source, TelemetrySource):
            return source.command
        is_plain = cmd_name not in BATCH_SYSTEMS or BATCH_SYSTEMS[cmd_name].is_plain
        module = import_module(f"arcacct.cli.import_{'gridengine' if cmd_name == GRIDENGINE.name else 'batch'}")
        command: click.Command = module.log_command(source) if is_plain else getattr(module, cmd_name)
        command.short_help = command.get_short_help_str(200)
        return command


@click.group(
    "import",
    cls=_ImportGroup,
    epilog=examples("arcacct import arex", "arcacct import gridengine /var/lib/gridengine/default/common/accounting"),
)
def import_() -> None:
    """Import jobs that other programs have recorded."""


@import_.command(
    epilog=examples("arcacct import arex", "arcacct import arex /root/old-ce/accounting.db --timezone Europe/Oslo")
)
@click.argument("path", required=False)
@click.option("--timezone", metavar="ZONE", help="A-REX's time zone, e.g. Europe/Oslo; default: this host's.")
@controldir_option
@click.option("--retry", is_flag=True, help="Retry rejected records (see `import rejected`); then read PATH, if given.")
@click.pass_context
def arex(ctx: click.Context, path: str | None, *, timezone: str | None, controldir: str | None, retry: bool) -> int:
    """
    Import the jobs of A-REX's own database.

    PATH is an accounting.db (ARC 6) or accounting_v2.db (ARC 7); default: those of the control directory. A-REX may run
    meanwhile and is not affected. You can repeat it: it imports new and changed jobs. Jobs that arcacct recorded itself
    do not change, and differences are listed. Unusable records are shown and stored (`import rejected`), with exit code
    65.
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
        print_line(f"{count_of(report.differing, 'job')} have other values here, which stay unchanged", err=True)
    for found, rest in ((report.complaints, "left out, and stored as rejected"), (report.lost, "left out")):
        causes = Causes()
        for where, reason in found:
            causes.add(where, f"{reason}: {rest}")
        for line in causes.lines():
            print_line(f"{report.path}: {line}", err=True)
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


import_.add_command(rejected)
