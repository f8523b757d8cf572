"""`arcacct fleet`: the dataset of many CEs, queried and loaded."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import click

from arcacct.cli.console import data, examples, print_error, print_line
from arcacct.cli.job import limit_options, statement_of, watchdog
from arcacct.cli.options import in_order, together
from arcacct.cli.progress import at_work, progress
from arcacct.cli.stats import Periods, answer_lines, complain_of, in_period, named, order_of
from arcacct.cli.stats import stats as of_one_ce
from arcacct.cli.tables import TOLD, format_option, show, show_object
from arcacct.database.query import QueryLimits
from arcacct.errors import InputError, UsageError, install_extra
from arcacct.export.dataset import TABLES, Partition
from arcacct.fleet import engine
from arcacct.fleet.dataset import dataset
from arcacct.fleet.engine import ENGINES, answered
from arcacct.fleet.usage import FLEET_NEEDS, FleetSelection, concerned, tables_of, usage
from arcacct.queries.questions import Selection
from arcacct.queries.usage import Conversion
from arcacct.wording import count_of

# `arcacct fleet load`: the dataset in PostgreSQL.


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
    help="Load only jobs and this table; rows of other tables are removed for the loaded months. May be repeated.",
)
def load(directories: tuple[str, ...], tables: tuple[str, ...]) -> int:
    """
    Load what the CEs have exported into PostgreSQL.

    The server is found as by psql: PGSERVICE, PGHOST, PGDATABASE, ~/.pgpass. The first load creates the schema arcacct
    with the tables of the dataset. A month of a CE is one transaction. A later export replaces an earlier one, and jobs
    missing from it are deleted.
    """
    try:
        from arcacct.fleet import postgresql  # noqa: PLC0415  the packages of two extras
    except ImportError as error:
        # psycopg needs the library of PostgreSQL's client, and raises an ImportError without it.
        extra = "parquet" if (error.name or "").partition(".")[0] in {"duckdb", "pyarrow"} else "postgresql"
        raise UsageError(f"this needs a package that is not installed ({error}): {install_extra(extra)}") from error
    wanted = [table for table in TABLES if not tables or table in {"jobs", *tables}]
    with progress("loading") as advanced:
        loaded = postgresql.load(dataset(directories), wanted, advanced)
    print_line(
        f"{count_of(loaded.taken, 'partition')} loaded with {count_of(loaded.jobs, 'job')}; {loaded.unchanged} already"
        f" loaded, {loaded.older} older than the loaded export; {count_of(len(loaded.problems), 'problem')}"
    )
    print_error(*loaded.problems)
    return InputError.exit_code if loaded.problems else 0


# `arcacct fleet`: queries over many CEs, on the files that they have exported.


_OF_TABLES = ("show_active", "details", "measured", "sort", "top", "conversion", "form")
_LIKE_STATS = {*Selection._fields, *Periods._fields, *_OF_TABLES}
"""Options of `arcacct stats`; the others are about one database."""
_directories = click.argument("directories", nargs=-1, required=True, metavar="DIR...")


class FleetOptions(NamedTuple):
    """How to count and show jobs, and by which dimensions."""

    by: str
    show_active: bool
    details: bool
    measured: bool
    sort: str | None
    top: int | None
    conversion: Conversion | None
    form: str
    engine: str
    master: str | None


@click.group(
    epilog=examples("arcacct fleet stats /srv/accounting --by month,vo", "arcacct fleet verify /srv/accounting")
)
def fleet() -> None:
    """
    Query many CEs at once, from the files of `arcacct export`.

    Each DIR is a dataset of one or more CEs, a directory or a URL such as s3://bucket/path. SITE=DIR reads only this
    site from DIR, and this site only from DIR, so that no other CE can use its name. Only files named in manifests are
    read, each after a comparison of all its bytes with the SHA-256 in its manifest. A partition whose manifest or file
    is damaged, or differs from the schema of the dataset, is named on stderr and skipped; the rest is answered, and the
    exit code is 65.
    """


@fleet.command(
    epilog=examples(
        "arcacct fleet stats /srv/accounting --by month,vo",
        "arcacct fleet stats /srv/site-a /srv/site-b --from last-month --to this-month --by site,ce",
        "arcacct fleet stats /srv/accounting --by vo --engine spark --master spark://head:7077",
    )
)
@_directories
@click.option("--by", required=True, metavar="COLUMN,...", help=f"A table by any of {', '.join(FLEET_NEEDS)}.")
@in_order(
    *(
        click.option(f"--filter-{name}", f"{name}s", multiple=True, metavar=name.upper(), help=f"Jobs of this {said}.")
        for name, said in (("site", "site"), ("ce", "CE"))
    )
)
@click.option(
    "--engine", type=click.Choice([*ENGINES]), default="duckdb", show_default=True, help="Engine that reads the files."
)
@click.option(
    "--master",
    metavar="URL",
    help="With --engine spark: the cluster, like spark://head:7077; default: only this host, local[*].",
)
@together(FleetOptions, "given")
@together(Selection, "chosen")
@together(FleetSelection, "which")
@together(Periods, "period")
def stats(
    directories: tuple[str, ...], given: FleetOptions, chosen: Selection, which: FleetSelection, period: Periods
) -> int:
    """
    Sum jobs of all CEs by site, CE, month, VO, user, ...

    Options, columns and figures are those of `arcacct stats` with --by: finished jobs as published, or all ended jobs
    with -a, --filter-state or --by status.
    """
    if given.master is not None and given.engine != "spark":
        raise UsageError("--master needs --engine spark")
    by = named(given.by, FLEET_NEEDS)
    order = order_of(given.sort, given.top)
    chosen = in_period(chosen, period)
    with at_work("asking"):
        every = dataset(directories)
        _tell_unknown(which, [one.partition for one in every.partitions])
        found = concerned(every, chosen, which)
        table, found = answered(
            given.engine,
            found,
            lambda opened: usage(
                opened,
                chosen,
                by,
                details=given.details,
                active=given.show_active,
                measured=given.measured,
                order=order,
                conversion=given.conversion,
            ),
            tables_of(chosen, measured=given.measured),
            given.master,
        )
    if not table.rows and any(isinstance(asked, tuple) and asked for asked in (*chosen, *which)):
        print_error("no job of the dataset matches the filters")
    out = print_line if given.form == "table" else data
    if given.form == "table":
        complain_of(table.lacking)
    for line in answer_lines(table, given.form, details=given.details):
        out(line)
    return report_problems(found.problems)


def _tell_unknown(which: FleetSelection, partitions: Sequence[Partition]) -> None:
    """Name values that no manifest has, as `arcacct stats` does with VOs: a mistyped name would look like no jobs."""
    for kind, names, known in (
        ("site", which.sites, {one.site for one in partitions}),
        ("CE", which.ces, {one.ce for one in partitions}),
    ):
        for name in dict.fromkeys(names):
            if name not in known:
                print_error(f"there is no {kind} {name} in the dataset")


# The same as in `arcacct stats`, by construction.
for param in map(copy, of_one_ce.params):
    if param.name in _LIKE_STATS and isinstance(param, click.Option):
        said = (param.help or "").removeprefix("With --by: ")
        param.help = f"{said[0].upper()}{said[1:]}"
        if param.name == "show_active":
            param.help = "Also jobs that vanished without any usage, which are not published."
        stats.params.append(param)


@fleet.command(
    epilog=examples("arcacct fleet verify /srv/accounting", "arcacct fleet verify --deep /srv/site-a /srv/site-b")
)
@_directories
@click.option("--deep", is_flag=True, help="Read every value, too.")
@format_option(TOLD, "an object with partitions, files, jobs, problems and notes")
def verify(directories: tuple[str, ...], deep: bool, form: str) -> int:
    """
    Compare every manifest with its files, and the CEs with each other.

    For each file: size, digest, rows, columns and their types; with --deep also every value. Run it before another
    program reads the files: DuckDB, pyarrow, ClickHouse and others read a damaged value as if it were right. Reports
    partitions that are half written, of another version, exported twice, or of two databases under one name. Missing
    months, and jobs of two CEs of a site with one key at APEL, are listed, but are not errors.
    """
    with at_work("checking"):
        checked = engine.check(dataset(directories), deep=deep)
    if form == "json":
        show_object(checked._asdict())
        return report_problems(checked.problems)
    for note in checked.notes:
        print_line(note)
    print_line(
        f"{count_of(checked.partitions, 'partition')}, {count_of(checked.files, 'file')}, jobs for queries:"
        f" {checked.jobs}; {count_of(len(checked.problems), 'problem')}"
    )
    return report_problems(checked.problems)


@fleet.command(
    epilog=examples(
        'arcacct fleet sql /srv/accounting "SELECT site, vo, count(*) FROM jobs GROUP BY ALL"',
        "arcacct fleet sql /srv/accounting --format csv - < report.sql",
    )
)
@_directories
@click.argument("sql")
@format_option()
@limit_options
def sql(directories: tuple[str, ...], sql: str, form: str, limits: QueryLimits) -> int:
    """
    Run one read-only SQL query, in the SQL of DuckDB.

    SQL is one statement, or - to read it from standard input. The tables are jobs, events, transfers, attributes and
    accelerators, of all CEs, with the additional columns site, year, month and ce; record_id identifies a job within
    its CE. No statement can open another file, or write, load or install anything.
    """
    try:
        from arcacct.fleet.sql import query_dataset  # noqa: PLC0415  the package of an extra
    except ModuleNotFoundError as error:
        raise UsageError(f"this needs the package {error.name}: {install_extra('parquet')}") from error
    statement = statement_of(sql)
    with at_work("asking"):
        answer, found = query_dataset(dataset(directories), statement, limits, lambda: watchdog(limits.seconds))
    show(answer.columns, answer.rows, form)
    return report_problems(found.problems)


def report_problems(problems: Sequence[str]) -> int:
    """Report the problems; return the exit code."""
    print_error(*problems)
    return InputError.exit_code if problems else 0


fleet.add_command(load)
