"""`arcacct report`: a month for those who pay for it, on the terminal, as a page and as CSV."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import click

from arcacct.cli.console import examples, print_error, print_line
from arcacct.cli.options import STARTED_MONTH, settings_of, together
from arcacct.cli.progress import at_work
from arcacct.cli.tables import LISTED, format_option, lines, show
from arcacct.database import access
from arcacct.errors import InputError, StoreError
from arcacct.files.safe_open import replace_file
from arcacct.fleet.dataset import last_month
from arcacct.records.pseudonyms import site_names
from arcacct.reports import tables
from arcacct.reports.month import ReportRequest, month_report
from arcacct.reports.tables import TIDY, Report, tidy
from arcacct.times import Month, iso

if TYPE_CHECKING:
    from arcacct.config.settings import Settings
    from arcacct.reports.month import ReportData


def _month(ctx: click.Context, param: click.Parameter, value: Month | None) -> Month:
    if value is None and not ctx.params["fleet"]:
        raise click.MissingParameter(ctx=ctx, param=param)
    return last_month(ctx.params["fleet"]) if value is None else value


@click.command(
    epilog=examples(
        "arcacct report --month 2026-11",
        "arcacct report --month 2026-11 --html november.html --csv november.csv",
        "arcacct report --month 2026-11 --pledge /etc/arcacct-pledge.csv --pseudonymous",
        "arcacct report --month 2026-11 --fleet /srv/accounting --html federation.html",
    )
)
@click.option(
    "--month",
    type=STARTED_MONTH,
    callback=_month,
    metavar="YYYY-MM",
    help="Jobs that ended in this month (UTC). Required; with --fleet default: the last month of the dataset.",
)
@click.option(
    "--fleet",
    multiple=True,
    is_eager=True,
    metavar="DIR",
    help="Report all CEs in this dataset (see `arcacct fleet`) instead of this CE. May be repeated.",
)
@click.option("--html", "html_file", metavar="FILE", help="Write a self-contained page to this file.")
@click.option("--csv", "csv_file", metavar="FILE", help="Write every figure as CSV, safe for a spreadsheet.")
@format_option(LISTED, "every figure as an object of a list")
@click.option("--pledge", metavar="FILE", help="CSV of pledges to VOs: vo,from,hours,kind (hours per month).")
@click.option(
    "--pseudonymous", "is_pseudonymous", is_flag=True, help="Replace names of users by pseudonyms of this site."
)
@click.option(
    "--top", "users", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="Show N users."
)
@click.option(
    "--verify/--skip-verify",
    "with_publishing",
    default=True,
    help="Compare the month in all places, as `arcacct verify` does, which reads every job of the month.",
)
@click.pass_context
@together(ReportRequest, "asked")
def report(
    ctx: click.Context,
    asked: ReportRequest,
    fleet: tuple[str, ...],
    html_file: str | None,
    csv_file: str | None,
    form: str,
) -> int:
    """
    Report a month: usage, pledge, failures, users, energy and publishing.

    Prints tables; with --html or --csv it writes these files instead. Estimated figures are marked with *. The report
    is stored next to the databases, and the next report of the month shows what changed since.

    With --fleet: usage, pledge and users of all CEs, and when each of them exported the month. Faulty files are named
    on stderr, and the exit code is 65.
    """
    if fleet:
        of_all, problems = _of_fleet(ctx, fleet, asked)
        _tell(of_all, asked, html_file, csv_file, form)
        print_error(*problems)
        return InputError.exit_code if problems else 0
    settings = settings_of(ctx)
    with (
        access.translating(settings.places.database),
        at_work("reporting"),
        closing(access.read_accounting(settings.places)) as ours,
        closing(access.read_publishing(settings.places)) as ledger,
    ):
        made = month_report(settings, ours, ledger, asked, int(time.time()))
    _tell(made.report, asked, html_file, csv_file, form)
    _remember(settings, made)
    return 0


def _of_fleet(ctx: click.Context, directories: tuple[str, ...], asked: ReportRequest) -> tuple[Report, Sequence[str]]:
    from arcacct.reports.federation import federation_report  # noqa: PLC0415  few reports are of many CEs

    # On a host without a CE no configuration is needed, except for pseudonyms.
    try:
        pseudonyms = site_names(settings_of(ctx).places) if asked.is_pseudonymous else None
    except StoreError as error:
        raise InputError(
            f"pseudonyms need the key of a CE ({error}); name its database with --database, or have all CEs export"
            " with --names hashed"
        ) from error
    with at_work("reporting"):
        return federation_report(
            directories, asked.month, int(time.time()), pledge=asked.pledge, pseudonyms=pseudonyms, users=asked.users
        )


def _tell(made: Report, asked: ReportRequest, html_file: str | None, csv_file: str | None, form: str) -> None:
    """Into the files that are asked for, or on the terminal."""
    if csv_file is not None:
        text = "".join(f"{line}\r\n" for line in lines(TIDY, tidy(made), "spreadsheet"))
        _write(csv_file, text, asked)
    if html_file is not None:
        from arcacct.reports.page import page  # noqa: PLC0415  few reports are pages

        _write(html_file, page(made), asked)
    if form != "text":
        show(TIDY, tidy(made), form)
    elif html_file is None and csv_file is None:
        _print(made)


def _write(path: str, text: str, asked: ReportRequest) -> None:
    """Write a file: only its owner can read names of users; with pseudonyms all users can. Raises InputError."""
    replace_file(path, text.encode("utf-8", "backslashreplace"), 0o644 if asked.is_pseudonymous else 0o600)


def _print(report: Report) -> None:
    print_line(f"{report.site}, {report.month_name} (written {iso(report.written_s)})")
    if report.verdict is not None:
        print_line(report.verdict.text)
    if report.basis:
        print_line(f"These figures are based on {report.basis}.")
    marked = False
    for table in report.tables:
        if table.is_detail:
            continue
        print_line("")
        print_line(table.title)
        if table.rows:
            names = (table.key, *(f"{column.name}{'*' if column.is_estimated else ''}" for column in table.columns))
            marked |= any(column.is_estimated for column in table.columns)
            rows = (*table.rows, *(() if table.total is None else (table.total,)))
            show(names, [(row.key, *row.values) for row in rows], "table")
        for note in table.notes:
            print_line(note)
    if marked:
        print_line("")
        print_line("* estimated, not measured")


def _remember(settings: Settings, made: ReportData) -> None:
    if settings.places.rehearsal is not None:
        return
    try:
        tables.save(settings.places, made.report.month_name, made.history, made.current, is_unchanged=made.is_unchanged)
    except OSError as error:
        print_error(
            f"this report is not stored ({error.filename}: {error.strerror}): the next report compares with"
            " an earlier one; only the owner of the databases can store reports"
        )
