"""`arcacct db`: the database itself."""

from __future__ import annotations

import click

from arcacct.cli.context import places_of
from arcacct.store.accounting import initialise, leave_open, open_accounting


@click.group()
def db() -> None:
    """Create, check and keep the database."""


@db.command()
@click.pass_context
def init(ctx: click.Context) -> None:
    """
    Create both databases: of accounting and of publishing.

    Databases that are there are taken forward if they are of an older version, after a backup beside each, and
    opened to read_group= if it is set; otherwise nothing happens to them.
    """
    here = places_of(ctx)
    for path, ran in initialise(here).items():
        click.echo(f"{path}: {_what(ran)}")
    # Whoever may only read needs the files that an open database has.
    leave_open(open_accounting(here), here.database)


def _what(ran: list[int]) -> str:
    if not ran:
        return "is there and up to date"
    return "created" if ran[0] == 1 else f"taken forward to schema version {ran[-1]}"
