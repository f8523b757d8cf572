"""`arcacct fleet load`: the dataset in PostgreSQL."""

from __future__ import annotations

import click

from arcacct.cli.speech import examples, print_error, print_line
from arcacct.cli.working import progress
from arcacct.errors import InputError, UsageError
from arcacct.export.dataset import TABLES
from arcacct.fleet.dataset import dataset
from arcacct.wording import count_of


@click.command(
    epilog=examples(
        "arcacct fleet load /srv/accounting",
        "PGSERVICE=accounting arcacct fleet load /srv/site-a /srv/site-b --table jobs",
    )
)
@click.argument("directories", nargs=-1, required=True, metavar="DIR...")
@click.option(
    "--table",
    "tables",
    multiple=True,
    type=click.Choice(TABLES),
    help="Load jobs and this table alone; rows of others go from the months that are loaded. May be repeated.",
)
def load(directories: tuple[str, ...], tables: tuple[str, ...]) -> int:
    """
    Bring PostgreSQL to what the CEs have exported.

    The server is found as by psql: PGSERVICE, PGHOST, PGDATABASE, ~/.pgpass. The first load makes the schema arcacct
    with the tables of the dataset. A month of a CE is one transaction; what is there already costs nothing, a later
    export replaces an earlier one and never the other way round, and jobs that are gone from the export are deleted.
    """
    try:
        from arcacct.fleet import postgresql  # noqa: PLC0415  the packages of two extras
    except ImportError as error:
        # psycopg is also no good without the library of PostgreSQL's client, and says so by an ImportError.
        extra = "parquet" if (error.name or "").partition(".")[0] in {"duckdb", "pyarrow"} else "postgresql"
        raise UsageError(
            f"this needs a package that is not installed ({error}): pip install 'arcacct[{extra}]'"
        ) from error
    wanted = [table for table in TABLES if not tables or table in {"jobs", *tables}]
    with progress("loading") as advanced:
        loaded = postgresql.load(dataset(directories), wanted, advanced)
    print_line(
        f"{count_of(loaded.taken, 'partition')} taken with {count_of(loaded.jobs, 'job')}; {loaded.unchanged} there"
        f" already, {loaded.older} there from a later export; {count_of(len(loaded.problems), 'problem')}"
    )
    print_error(*loaded.problems)
    return InputError.exit_code if loaded.problems else 0
