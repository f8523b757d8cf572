"""`arcacct import rejected`: records of imports that could not be used."""

from __future__ import annotations

from contextlib import closing

import click

from arcacct.cli.context import settings_of
from arcacct.cli.speech import ask, block, examples, print_line
from arcacct.cli.tables import FORMATS
from arcacct.cli.tables import show as show_rows
from arcacct.database.access import accounting, read_accounting, writing
from arcacct.errors import InputError, UsageError
from arcacct.records.import_quarantine import content_of, drop, listed
from arcacct.targets.common import iso_time
from arcacct.wording import count_of

_SOURCES = ("arex", "features", "gridengine", "htcondor", "slurm", "sonar")
_COLUMNS = ("id", "source", "file", "position", "records", "rejected", "reason")


@click.command(
    "rejected",
    epilog=examples(
        "arcacct import rejected",
        "arcacct import rejected --show 17",
        "arcacct import rejected --drop 17",
        "arcacct import rejected --drop-all --source sonar --yes",
    ),
)
@click.option("--source", type=click.Choice(_SOURCES), help="Only records from this source.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="As in query.")
@click.option(
    "--show", type=int, metavar="ID", help="Print this record as it was read; what steers a terminal is escaped."
)
@click.option(
    "--drop",
    "dropped",
    type=int,
    multiple=True,
    metavar="ID",
    help="Forget the record with this number. May be repeated.",
)
@click.option("--drop-all", is_flag=True, help="Forget all, or all from --source; asks first.")
@click.option("--yes", is_flag=True, help="With --drop-all: go on without asking.")
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
    Records of imports that could not be used, with where they stood and why.

    They are not counted and not published. After an upgrade of arcacct, or a change of the configuration,
    `import SOURCE --retry` tries them again; what can be used then leaves the list. (Records that a target does not
    take are another thing: `quarantine`.)
    """
    if sum((show is not None, bool(dropped), drop_all)) > 1:
        raise UsageError("--show, --drop and --drop-all exclude each other")
    here = settings_of(ctx).places
    if drop_all:
        ask(f"forget all rejected records{f' from {source}' if source else ''}?", yes=yes)
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
                (one.rejected_id, one.source, one.file, one.position, one.records, iso_time(one.rejected_s), one.reason)
                for one in listed(con, source)
            ]
        if rows or form != "table":
            show_rows(_COLUMNS, rows, form)
        else:
            print_line("no record is rejected", err=True)
