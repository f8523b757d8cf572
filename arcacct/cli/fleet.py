"""`arcacct fleet`: questions to many CEs, of the files that they have exported."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import click

from arcacct.cli.arguments import in_order, together
from arcacct.cli.fleet_load import load
from arcacct.cli.query import limit_options, statement_of, watchdog
from arcacct.cli.speech import data, examples, print_error, print_line
from arcacct.cli.stats import Periods, answer_lines, complain_of, in_period, named, order_of
from arcacct.cli.stats import stats as of_one_ce
from arcacct.cli.tables import format_option, show
from arcacct.cli.working import at_work
from arcacct.database.query import QueryLimits
from arcacct.errors import InputError, UsageError
from arcacct.export.dataset import Partition
from arcacct.fleet import dataset as fleet_dataset
from arcacct.fleet.dataset import dataset
from arcacct.fleet.engine import ENGINES, answered
from arcacct.fleet.usage import FLEET_NEEDS, FleetSelection, concerned, usage
from arcacct.queries.questions import Selection
from arcacct.queries.usage import Conversion
from arcacct.wording import count_of

_OF_TABLES = ("show_active", "details", "measured", "sort", "top", "conversion", "form")
_LIKE_STATS = {*Selection._fields, *Periods._fields, *_OF_TABLES}
"""Options of `arcacct stats`; the others are about one database."""
_directories = click.argument("directories", nargs=-1, required=True, metavar="DIR...")


class FleetOptions(NamedTuple):
    """How jobs are to be counted and shown, and by what."""

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
    Ask many CEs at once, by the files that `arcacct export` writes.

    Each DIR is a dataset of one CE or of many, a directory or a URL such as s3://bucket/path. What a manifest names is
    read, and nothing else. A file that is damaged or differs from the schema of the dataset is named on stderr and left
    out; the rest is answered, and the exit code is 65.
    """


@fleet.command(
    epilog=examples(
        "arcacct fleet stats /srv/accounting --by month,vo",
        "arcacct fleet stats /srv/site-a /srv/site-b --month last --by site,ce --details",
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
    "--engine", type=click.Choice([*ENGINES]), default="duckdb", show_default=True, help="What reads the files."
)
@click.option(
    "--master",
    metavar="URL",
    help="With --engine spark: the cluster, like spark://head:7077; without it this host alone, local[*].",
)
@together(FleetOptions, "given")
@together(Selection, "chosen")
@together(FleetSelection, "which")
@together(Periods, "period")
def stats(
    directories: tuple[str, ...],
    given: FleetOptions,
    chosen: Selection,
    which: FleetSelection,
    period: Periods,
) -> int:
    """
    Sum jobs of all CEs by site, CE, month, VO, user, ...

    Options and columns are those of `arcacct stats` with --by, and so are the figures: finished jobs as they are
    published, or with -a, --filter-state or --by status all that have ended.
    """
    if given.master is not None and given.engine != "spark":
        raise UsageError("--master is where Spark runs: it needs --engine spark")
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
            given.master,
        )
    if not table.rows and any(isinstance(asked, tuple) and asked for asked in (*chosen, *which)):
        print_error("no job of the dataset is as the filters ask for")
    out = print_line if given.form == "table" else data
    if given.form == "table":
        complain_of(table.lacking)
    for line in answer_lines(table, given.form):
        out(line)
    return report_problems(found.problems)


def _tell_unknown(which: FleetSelection, partitions: Sequence[Partition]) -> None:
    """Name what no manifest has, as `arcacct stats` does of VOs: a mistyped name would look like no jobs."""
    for kind, names, known in (
        ("site", which.sites, {one.site for one in partitions}),
        ("CE", which.ces, {one.ce for one in partitions}),
    ):
        for name in dict.fromkeys(names):
            if name not in known:
                print_error(f"there is no {kind} {name} in the dataset")


# The same as of `arcacct stats`, by construction.
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
@click.option("--deep", is_flag=True, help="Read every byte and every value, and compare the digest with the manifest.")
def verify(directories: tuple[str, ...], deep: bool) -> int:
    """
    Compare every manifest with its files, and the CEs with each other.

    Of each file: size, rows, range of end times, columns and their types; with --deep its digest and every value.
    Partitions that are half written, of another version, exported twice, or of two databases under one name. Missing
    months between others are listed and are no error: perhaps no job ended then. Nor are jobs of two CEs of a site that
    APEL would take for one: perhaps localid_prefix tells them apart.
    """
    with at_work("checking"):
        checked = fleet_dataset.check(dataset(directories), deep=deep)
    for note in checked.notes:
        print_line(note)
    print_line(
        f"{count_of(checked.partitions, 'partition')}, {count_of(checked.files, 'file')}, jobs that can be asked:"
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
@format_option
@limit_options
def sql(directories: tuple[str, ...], sql: str, form: str, limits: QueryLimits) -> int:
    """
    Run one SQL query that only reads, in the SQL of DuckDB.

    SQL is one statement, or - to read it from standard input. The tables are jobs, events, transfers, attributes and
    accelerators, of all CEs, with the columns site, year, month and ce beside their own; record_id names a job of its
    CE. No other file is opened, and nothing is written, loaded or installed, whatever the statement says.
    """
    try:
        from arcacct.fleet import duckdb_engine  # noqa: PLC0415  the package of an extra
    except ModuleNotFoundError as error:
        raise UsageError(f"this needs the package {error.name}: pip install 'arcacct[parquet]'") from error
    statement = statement_of(sql)
    with at_work("asking"):
        answer, found = duckdb_engine.query_dataset(
            dataset(directories), statement, limits, lambda: watchdog(limits.seconds)
        )
    show(answer.columns, answer.rows, form)
    return report_problems(found.problems)


def report_problems(problems: Sequence[str]) -> int:
    """Name what is wrong; the exit code."""
    print_error(*problems)
    return InputError.exit_code if problems else 0


fleet.add_command(load)
