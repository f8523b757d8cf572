"""`arcacct verify`: compare a month in all places that have it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import click

from arcacct.cli.console import block, data, examples, print_line
from arcacct.cli.options import INSTANT, STARTED_MONTH, settings_of, zone_of
from arcacct.cli.progress import at_work
from arcacct.cli.tables import format_option, show
from arcacct.database import access
from arcacct.errors import UsageError
from arcacct.queries.lrms import Group, lrms_month
from arcacct.queries.portal import PortalRow
from arcacct.queries.verify import verify as compare
from arcacct.queries.verify_report import MonthReport
from arcacct.records.batch_jobs import Figures
from arcacct.records.batch_systems import BATCH_SYSTEMS, HTCONDOR, SLURM, BatchSystem
from arcacct.sources.engine.runs import SourceType, figures_of_command, figures_of_file
from arcacct.sources.htcondor.history import HistoryCommand, HistoryForm
from arcacct.sources.htcondor.importer import SOURCE as HTCONDOR_SOURCE
from arcacct.sources.registry import batch_source
from arcacct.sources.slurm.importer import SOURCE as SLURM_SOURCE
from arcacct.sources.slurm.sacct import OutputForm, SacctCommand
from arcacct.times import DAY_S, HOUR_S, month_bounds

_SHOWN = 20


@click.command(
    epilog=examples(
        "arcacct verify 2026-11",
        "arcacct verify 2026-11 --portal portal.csv --all",
        "arcacct verify 2026-11 --lrms slurm",
        "arcacct verify 2026-11 --format json",
    )
)
@click.argument("month", type=STARTED_MONTH, metavar="YYYY-MM")
@click.option(
    "--portal",
    multiple=True,
    metavar="FILE",
    help="Export of the EGI accounting portal, CSV or JSON: jobs, or hours of any kind, by VO and month. Repeatable.",
)
@click.option("--exported", type=INSTANT, help="With --portal: time of the exports; default: time of their files.")
@click.option(
    "--lrms",
    multiple=True,
    metavar="SOURCE",
    help="The batch system's own accounting: slurm (asks sacct), htcondor (asks condor_history), or a file for"
    f" `arcacct import`: {', '.join(f'{name}:FILE' for name in BATCH_SYSTEMS)}, or an installed source."
    " Also compares by account and user. May be repeated.",
)
@click.option("--sacct", default="sacct", show_default=True, metavar="PROGRAM", help="With --lrms slurm: its path.")
@click.option(
    "--condor-history",
    default="condor_history",
    show_default=True,
    metavar="PROGRAM",
    help="With --lrms htcondor: its path.",
)
@click.option("--timezone", metavar="ZONE", help="With --lrms slurm:FILE: zone of its times; default: this host's.")
@click.option(
    "--all", "everything", is_flag=True, help=f"Show every difference, not only the first {_SHOWN} of each place."
)
@format_option(what="an object with agrees, sources and differences")
@click.pass_context
def verify(
    ctx: click.Context,
    month: tuple[int, int],
    *,
    portal: tuple[str, ...],
    exported: int | None,
    lrms: tuple[str, ...],
    sacct: str,
    condor_history: str,
    timezone: str | None,
    everything: bool,
    form: str,
) -> int:
    """
    Compare a month's counts and hours in all places that have them.

    The places are the control directory, A-REX's own database, the ledger's records of each target, the sync message,
    the batch system's own accounting, and the portal. Each has one of three results: yes, NO, and unknown (with what
    would decide it). Exits with 0 if everything agrees, else with 1; differences are shown job by job.
    """
    if exported is not None and not portal:
        raise UsageError("--exported is the time of the --portal files: it needs --portal")
    asked: list[tuple[BatchSystem, str, partial[Iterator[Figures]], SourceType[Any] | None]] = []
    for text in lrms:
        kind, has_path, path = text.partition(":")
        figures: partial[Iterator[Figures]] | None = None
        source: SourceType[Any] | None = None
        output = OutputForm(zone=zone_of(timezone), cluster="-")
        if path and (source := batch_source(kind)) is not None:
            figures = partial(figures_of_file, source, path, output if kind == SLURM.name else source.form)
        elif kind == SLURM.name and not has_path:
            figures = partial(figures_of_command, SLURM_SOURCE, SacctCommand(sacct), output)
        elif kind == HTCONDOR.name and not has_path:
            figures = partial(figures_of_command, HTCONDOR_SOURCE, HistoryCommand(condor_history), HistoryForm())
        if figures is None:
            files = ", ".join(f"{name}:FILE" for name in BATCH_SYSTEMS)
            wanted = f"write {SLURM.name}, {HTCONDOR.name}, or one of {files}, or NAME:FILE of an installed source"
            raise UsageError(f"--lrms {text}: {wanted}")
        system = BATCH_SYSTEMS[kind] if source is None else source.system
        asked.append((system, f"{kind} {path or (sacct if kind == SLURM.name else condor_history)}", figures, source))
    settings = settings_of(ctx)
    groups: dict[str, list[Group]] = {}
    with (
        access.translating(settings.places.database),
        at_work("comparing"),
        closing(access.read_accounting(settings.places)) as ours,
        closing(access.read_publishing(settings.places)) as ledger,
        closing(compare(settings, ours, ledger, month, portal, exported)) as report,
    ):
        start, end = month_bounds(*month)
        for system, name, figures, source in asked:
            parts = {} if source is None else {"parts": source.parts(ours)}
            compared = lrms_month(name, figures(start - DAY_S, end + DAY_S, **parts), ours, system, month)
            report.add(compared.source, ((one.job_id, one.text) for one in compared.differences))
            groups[name] = compared.groups
        _show(report, groups, form, len(report.differences) if everything else _SHOWN)
        return 0 if report.agrees else 1


def _show(report: MonthReport, groups: dict[str, list[Group]], form: str, most: int) -> None:
    if form == "json":
        _show_json(report, groups)
        return
    columns = ("place", "jobs", "wall_h", "cpu_h", "agrees", "proof")
    rows = []
    for source in report.sources:
        seconds = (source.wall_s, source.cpu_s)
        hours: list[float | str | None] = [None if one is None else round(one / HOUR_S, 3) for one in seconds]
        if hours[0] is not None and hours[1] is None and not source.agrees:
            # The ledger has the wall time of each sent version; the CPU time comes from the database if both agree.
            hours[1] = "unknown"
        rows.append((source.name, source.jobs, *hours, source.answer, source.proof))
    show(columns, rows, form)
    for name, compared in report.portals:
        show((f"{name} by VO", *_OF_PORTAL[1:]), [tuple(_of_portal(row).values()) for row in compared.rows], form)
    for name, some in groups.items():
        show((name, *_GROUP[1:]), [tuple(_group(one).values()) for one in some], form)
    shown: dict[str, int] = {}
    for one in report.differences:
        shown[one.source] = shown.get(one.source, 0) + 1
        if shown[one.source] <= most:
            print_line(f"{one.source}: {one.job_id + ': ' if one.job_id else ''}{one.text}", err=form != "table")
    for name, count in shown.items():
        if count > most:
            print_line(f"{name}: and {count - most} more; --all shows them", err=form != "table")


def _show_json(report: MonthReport, groups: dict[str, list[Group]]) -> None:
    """One object; the differences, which may be as many as the month has jobs, one after the other."""
    found: dict[str, object] = {
        "agrees": report.agrees,
        "sources": [source._asdict() for source in report.sources],
        "differences": [],
    }
    if report.portals:
        found["portals"] = {name: [_of_portal(row) for row in compared.rows] for name, compared in report.portals}
    if groups:
        found["groups"] = {name: [_group(one) for one in some] for name, some in groups.items()}
    # A single text would show backslashes before the quotes.
    before, name, after = json.dumps(found, indent=1).partition('"differences": [')
    text = before + name
    for one in report.differences:
        block(text, data)
        text = textwrap.indent(json.dumps(one._asdict(), indent=1), "  ") + ","
    block((f"{text[:-1]}\n " if len(report.differences) else text) + after, data)


_OF_PORTAL = ("vo", "portal", "here", "difference", "cause")


def _of_portal(row: PortalRow) -> dict[str, object]:
    """A VO in an export of the portal and here."""
    amounts = (row.there, row.here, (row.there or 0.0) - row.here)
    rounded = (None if amount is None else round(amount, 3) for amount in amounts)
    return dict(zip(_OF_PORTAL, (row.name, *rounded, "; ".join(row.causes)), strict=True))


_GROUP = (
    *("account", "user", "jobs", "here", "wall_h", "here_wall_h", "core_h", "here_core_h", "cpu_h", "here_cpu_h"),
    "agrees",
)


def _group(one: Group) -> dict[str, object]:
    """The values of an account and user in a batch system, and here."""
    pairs = [one.there.jobs, one.here.jobs]
    for there, here in zip(one.there[1:], one.here[1:], strict=True):
        pairs += [round(there / HOUR_S, 3), round(here / HOUR_S, 3)]  # type: ignore[list-item]
    return dict(zip(_GROUP, (one.account, one.user, *pairs, "yes" if one.agrees else "NO"), strict=True))
