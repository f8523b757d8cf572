"""`arcacct verify`: a month in all places that have it."""

from __future__ import annotations

import json
from contextlib import closing

import click

from arcacct.asking.verify import MonthReport, Source
from arcacct.asking.verify import verify as compare
from arcacct.cli.context import settings_of
from arcacct.cli.examples import examples
from arcacct.cli.instants import MONTH
from arcacct.cli.speech import block, data, say
from arcacct.cli.tables import FORMATS, show
from arcacct.db import opening

_SHOWN = 20
_HOUR_S = 3600


@click.command(
    short_help="Compare a month's counts and hours in all places that have them.",
    epilog=examples(
        "arcacct verify 2026-11",
        "arcacct verify 2026-11 --portal portal.csv --all",
        "arcacct verify 2026-11 --format json",
    ),
)
@click.argument("month", type=MONTH, metavar="YYYY-MM")
@click.option(
    "--portal",
    multiple=True,
    metavar="FILE",
    help="CSV export of the EGI accounting portal: jobs, or hours of any kind, by VO and month. May be repeated.",
)
@click.option("--all", "everything", is_flag=True, help=f"Every difference, not only {_SHOWN} of each place.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="As in query.")
@click.pass_context
def verify(ctx: click.Context, month: tuple[int, int], portal: tuple[str, ...], everything: bool, form: str) -> int:
    """
    Compare a month's counts and hours in all places that have them.

    The database is compared with the control directory, with the database that A-REX itself writes, with what the
    ledger says that each target was given, with the sync message, and with the portal. SGAS names each record that it
    stored; what was handed to AMS is only confirmed by the portal. Exits with 0 when all agree, with 1 when not;
    differences are told job by job.
    """
    settings = settings_of(ctx)
    with (
        opening.translating(settings.places.database),
        closing(opening.read_accounting(settings.places)) as ours,
        closing(opening.read_publishing(settings.places)) as ledger,
    ):
        report = compare(settings, ours, ledger, month, portal)
    _show(report, form, len(report.differences) if everything else _SHOWN)
    return 0 if report.agrees else 1


def _show(report: MonthReport, form: str, most: int) -> None:
    if form == "json":
        found = {
            "agrees": report.agrees,
            "sources": [source._asdict() for source in report.sources],
            "differences": [one._asdict() for one in report.differences],
        }
        block(json.dumps(found, indent=1), data)
        return
    columns = ("place", "jobs", "wall_h", "cpu_h", "agrees", "proof")
    show(columns, [_row(source) for source in report.sources], form)
    shown: dict[str, int] = {}
    for one in report.differences:
        shown[one.source] = shown.get(one.source, 0) + 1
        if shown[one.source] <= most:
            say(f"{one.source}: {one.job_id + ': ' if one.job_id else ''}{one.text}", err=form != "table")
    for name, count in shown.items():
        if count > most:
            say(f"{name}: and {count - most} more; --all shows them", err=form != "table")


def _row(source: Source) -> tuple[object, ...]:
    hours = (None if seconds is None else round(seconds / _HOUR_S, 3) for seconds in (source.wall_s, source.cpu_s))
    return source.name, source.jobs, *hours, "yes" if source.agrees else "NO", source.proof
