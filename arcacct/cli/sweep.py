"""`arcacct sweep`: whatever the hook missed."""

from __future__ import annotations

import sys
from contextlib import contextmanager

import click

from arcacct.cli.context import places_of
from arcacct.errors import InputError
from arcacct.store.accounting import leave_open, open_accounting
from arcacct.sweep import sweep as sweep_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcacct.sweep import Progress


@click.command()
@click.option("--controldir", metavar="DIR", help="Sweep this control directory instead of the configured one.")
@click.pass_context
def sweep(ctx: click.Context, controldir: str | None) -> int:
    """
    Drain the spool, then record what the database lacks.

    Compares every job of the control directory with the database, which is made if it is missing. Prints what was
    done, and on stderr what could not be used; exits with 65 if there was any of that, and the rest is recorded.
    """
    here = places_of(ctx, controldir)
    con = open_accounting(here)
    try:
        with _progress() as progress:
            report = sweep_all(here, con, progress=progress)
    finally:
        leave_open(con, here.database)
    for complaint in report.complaints:
        click.echo(f"arcacct: {complaint}", err=True)
    click.echo(
        f"{report.spooled} events from the spool; {report.jobs} jobs in {here.controldir}, "
        f"{report.looked_at} read, {report.recorded} recorded"
    )
    return InputError.exit_code if report.complaints else 0


@contextmanager
def _progress() -> Iterator[Progress]:
    """A progress bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _done, _all: None
        return
    with click.progressbar(length=0, label="Jobs", file=sys.stderr) as bar:

        def show(done: int, jobs: int) -> None:
            bar.length = jobs
            bar.update(done - bar.pos)

        yield show
