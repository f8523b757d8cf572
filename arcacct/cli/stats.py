"""
`arcacct stats`: the questions of arcctl, usage by any dimension, and the questions of qacct about Grid Engine's
records.
"""

from __future__ import annotations

import grp
import json
import re
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import click

from arcacct.cli.console import data, examples, print_error, print_line
from arcacct.cli.options import INSTANT, PERIODS, FormerOption, QacctInstant, in_order, in_turn, period_type, together
from arcacct.cli.queries import AS_RATING, arcctl_option, arcctl_version, asking, completed
from arcacct.cli.tables import format_option, lines
from arcacct.database.connection import Connection
from arcacct.errors import UsageError
from arcacct.queries import arcctl, questions
from arcacct.queries.questions import Selection
from arcacct.queries.usage import (
    NEEDS,
    UNMEASURED,
    Conversion,
    Lacking,
    UsageOrder,
    UsageTable,
    before_recording,
    usage,
)
from arcacct.records.states import FINAL, IN_PROGRESS
from arcacct.sources.gridengine import qacct
from arcacct.sources.gridengine.qacct import COLUMNS, Question, Tasks, database_sums, records, table, window
from arcacct.times import iso
from arcacct.wording import count_of

# The questions of qacct as options of `arcacct import gridengine --summary` and of `arcacct stats --gridengine`.


_RESOURCES = {"hostname": "host", "h": "host", "qname": "queue", "q": "queue"}
"""The resources that -l may name: by name, the column of a record."""
_TASKS = re.compile(r"([0-9]+)(?:-([0-9]+)(?::([0-9]+))?)?")


class Qacct(NamedTuple):
    """The options of qacct in one value."""

    patterns: dict[str, str]
    """By name of COLUMNS."""
    days: int | None
    now: int | None
    on: str | None
    timezone: str | None
    masters: bool
    resources: str | None

    def names(self) -> Iterator[str]:
        """The options that were given."""
        others = (
            *(("days", self.days), ("now", self.now), ("on", self.on), ("timezone", self.timezone)),
            *(("masters", self.masters or None), ("resources", self.resources)),
        )
        yield from (f"--{name}" for name, value in (*self.patterns.items(), *others) if value is not None)


def _qacct(**given: Any) -> Qacct:
    patterns = {name: given.pop(name) for name in COLUMNS}
    return Qacct({name: text for name, text in patterns.items() if text is not None}, **given)


question_options = in_order(
    *(
        click.option(f"--{name}", metavar="PATTERN", help=f"Records of this {column.meaning}.")
        for name, column in COLUMNS.items()
    ),
    click.option(
        "-d",
        "--days",
        type=click.IntRange(min=0),
        metavar="DAYS",
        help="Length in days: after -b, or before -e or now.",
    ),
    click.option("--now", type=INSTANT, is_eager=True, help="Use TIME as the current time."),
    click.option(
        "--on",
        type=click.Choice(("start", "end")),
        help="Apply -b, -e and -d to the start or the end of a job; default start.",
    ),
    click.option(
        "--timezone",
        is_eager=True,
        metavar="ZONE",
        help="Zone of -b and -e as qacct writes them, [[CC]YY]MMDDhhmm[.SS], e.g. Europe/Oslo; else this host's.",
    ),
    click.option("-m", "--masters", is_flag=True, help="Only the jobs themselves, without the tasks of parallel jobs."),
    click.option(
        "-l",
        "--resources",
        metavar="NAME=PATTERN,...",
        help="Only queues with these resources; records have only hostname (h) and qname (q).",
    ),
    together(_qacct, "qacct", (*COLUMNS, "days", "now", "on", "timezone", "masters", "resources")),
)
"""The options of both commands, which get them as ``qacct``."""


def question_of(given: Qacct, columns: str | None, from_s: int | None, until_s: int | None) -> Question:
    """Return the question of the options, with ``columns`` by --by. Raises UsageError."""
    by = tuple(dict.fromkeys(name.strip() for name in (columns or "").split(",") if name.strip()))
    for name in by:
        if name not in COLUMNS:
            raise UsageError(f"--by {name}: records of Grid Engine can be summed by {', '.join(COLUMNS)}")
    in_turn(from_s, "-b", until_s, "-e")
    begin, end = window(from_s, until_s, given.days, int(time.time()) if given.now is None else given.now)
    wanted = (*map(_wanted, given.patterns.items()), *_of_queues(given.resources or ""))
    return Question(by, wanted, begin, end, given.on == "end", given.masters)


def _wanted(asked: tuple[str, str]) -> tuple[str, str]:
    """A pattern as records have it: a group by its name, a host in small letters. Raises UsageError."""
    column, pattern = asked
    if column == "queue" and "@@" in pattern:
        raise UsageError(f"--queue {pattern}: only qmaster knows the hosts of a group; name them: QUEUE@HOST")
    if column == "group" and pattern.isascii() and pattern.isdecimal():
        with suppress(KeyError, OverflowError):
            return column, grp.getgrgid(int(pattern)).gr_name
    return column, pattern


def _of_queues(resources: str) -> Iterator[tuple[str, str]]:
    """Return the conditions of -l that records can answer. Raises UsageError for the others."""
    for asked in filter(None, map(str.strip, resources.split(","))):
        name, _, pattern = asked.partition("=")
        if name not in _RESOURCES or not pattern:
            raise UsageError(
                f"-l {asked}: qacct asks qmaster which queues offer that today, and records do not have it; use "
                f"hostname=PATTERN or qname=PATTERN, or the resources that the job requested, in the column category"
            )
        yield _wanted((_RESOURCES[name], pattern))


def tasks_of(text: str) -> Tasks:
    """Parse ``N[-M[:STEP]]``. Raises UsageError."""
    found = _TASKS.fullmatch(text)
    if found is None or found[3] == "0":
        raise UsageError(f"--tasks {text}: write N, N-M or N-M:STEP, as 1-7:3")
    return Tasks(int(found[1]), int(found[2] or found[1]), int(found[3] or 1))


# `arcacct stats`: the questions of arcctl, usage by any dimension, and the questions of qacct about records of Grid
# Engine.


_AMOUNTS = {
    "jobcount": "count",
    "walltime": "walltime",
    "cputime": "cputime",
    "data-staged-in": "stagein",
    "data-staged-out": "stageout",
}
"""By output: the displayed value of JobTotals."""
_NAMES = {"wlcgvos": "vos", "fqans": "fqans", "users": "users"}
"""By output: the field of Selection whose names are listed."""
OUTPUTS = ("brief", *_AMOUNTS, *_NAMES, "jobids", "json")
_FILTERS = {
    "vo": ("vos", "VO", "Jobs of this VO."),
    "fqan": ("fqans", "FQAN", "With this first FQAN."),
    "user": ("users", "DN", "Of this user."),
    "state": ("states", "STATE", "In this state."),
    "queue": ("queues", "QUEUE", "Of this queue."),
    "endpoint": ("endpoints", "TYPE", "Submitted by this type of interface."),
}
"""Field of Selection, metavar and help of each --filter-... that the database can complete."""
_OF_JOBS = {
    *Selection._fields,
    *(*PERIODS, "show_active", "output", "arcctl", "details", "measured", "sort", "top", "conversion"),
} - {"after_s", "until_s"}
"""What means nothing with --gridengine."""


class StatsOptions(NamedTuple):
    """How to count and show jobs, or records of Grid Engine."""

    show_active: bool
    output: str | None
    arcctl: str | None
    by: str | None
    details: bool
    measured: bool
    sort: str | None
    top: int | None
    conversion: Conversion | None
    form: str
    gridengine: bool
    job: str | None
    tasks: str | None
    qacct: Qacct


class Periods(NamedTuple):
    """Each is ``[from, before)``; only one may be given."""

    month: tuple[int, int] | None
    week: tuple[int, int] | None
    year: tuple[int, int] | None


@click.command(
    epilog=examples(
        "arcacct stats -b 2026-11-01 -e 2026-12-01 --filter-vo atlas",
        "arcacct stats -o json",
        "arcacct stats --by month,vo --format csv",
        "arcacct stats --from 2026-10 --to 2026-11 --by user,queue --details",
        "arcacct stats --from last-month --to this-month --by user --sort core_hours --top 10",
        "arcacct stats --from -7d --by day",
    )
)
@click.option(
    "-b",
    "--end-from",
    "after_s",
    type=QacctInstant("gridengine"),
    help="Start of the period (exclusive), as in arcctl: jobs that ended after TIME.",
)
@click.option(
    "-e",
    "--end-till",
    "until_s",
    type=QacctInstant("gridengine"),
    help="End of the period (inclusive), as in arcctl: jobs that ended at TIME or before.",
)
@click.option("-s", "--start-from", "submitted_after_s", type=INSTANT, help="Jobs submitted after this time.")
@click.option("--from", "from_s", type=INSTANT, help="Start of the period (inclusive), like 2026-10, yesterday or -7d.")
@click.option("--to", "before_s", type=INSTANT, help="End of the period (exclusive): --to 2026-10 ends before October.")
@in_order(
    *(
        click.option(
            f"--{kind}",
            cls=FormerOption,
            type=period_type(kind),
            metavar=kind.upper(),
            new=f"`--from {example}` and `--to` the next {kind} (or `--from last-{kind} --to this-{kind}`)",
        )
        for kind, example in PERIODS.items()
    )
)
@in_order(
    *(
        click.option(
            f"--filter-{name}", field, multiple=True, metavar=metavar, shell_complete=completed(name), help=text
        )
        for name, (field, metavar, text) in _FILTERS.items()
    )
)
@click.option(
    "--filter-extra",
    "extra",
    nargs=2,
    multiple=True,
    metavar="ATTRIBUTE VALUE",
    help="With this jobname, projectname, vomsfqan, rte, dtrurl, ...",
)
@click.option("-a", "--show-active", is_flag=True, help="Also jobs that have not ended yet.")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), help="Print arcctl's output of this kind; default brief.")
@arcctl_option
@click.option("--by", metavar="COLUMN,...", help=f"A table by any of {', '.join(NEEDS)}.")
@click.option("--details", is_flag=True, help="With --by: also failed jobs and data volumes.")
@click.option("--gpu", "measured", is_flag=True, help="With --by: also GPU hours and energy, as far as known.")
@click.option(
    "--sort",
    metavar="COLUMN[:asc|:desc]",
    help="With --by: sort by this column; default: amounts descending, names ascending.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --by: the first N rows (by core_hours without --sort), and one row for the others.",
)
@click.option(
    "--benchmark-as",
    "conversion",
    type=AS_RATING,
    metavar="TYPE:VALUE|TYPE=FACTOR",
    help="With --by: hours times benchmark as they are, and as they would be with this benchmark of all jobs, or with a"
    " multiple of those of this type.",
)
@format_option()
@click.option(
    "--gridengine",
    cls=FormerOption,
    is_flag=True,
    is_eager=True,
    new="`arcacct import gridengine --summary FILE`, or SQL for the view v1_gridengine_records",
)
@click.option("-j", "--job", metavar="JOB", help="The records of a job: number, name or pattern of names.")
@click.option("-t", "--tasks", metavar="N[-M[:STEP]]", help="With --job: only these tasks of an array job.")
@click.pass_context
@question_options
@together(Selection, "chosen")
@together(StatsOptions, "given")
@together(Periods, "period")
def stats(ctx: click.Context, chosen: Selection, given: StatsOptions, period: Periods) -> None:
    """
    Sum jobs, in arcctl's format or by month, VO, user, ...

    Without --by, options and output are those of arcctl accounting stats, of ARC 6 or ARC 7, times in UTC. With --by:
    jobs, wall and CPU time in s, core hours, core hours times benchmark, CPU time over core time. They cover finished
    jobs as published, or all jobs with -a, --filter-state or --by status.
    """
    _refuse_mixtures(ctx, chosen._asdict() | given._asdict() | period._asdict(), given)
    chosen = in_period(chosen, period)
    if not given.by and not given.gridengine and given.form != "table":
        if given.form != "json" or given.output not in (None, "json"):
            raise UsageError(f"--format {given.form} needs --by")
        given = given._replace(output="json")
    for option, value in (("-o", given.output), ("--arcctl", given.arcctl)):
        if given.by and value:
            raise UsageError(f"--by prints a table, {option} prints arcctl's output: use only one of them")
    is_table = given.form == "table" if given.by or given.gridengine else given.output != "json"
    out = print_line if is_table else data
    with asking(ctx) as con:
        for line in _of_records(con, chosen, given) if given.gridengine else _of_jobs(con, chosen, given):
            out(line)


# qacct's options belong to --gridengine, whose line on stderr is enough.
for param in stats.params:
    if param.name in {*Qacct._fields, *COLUMNS, "job", "tasks"} and isinstance(param, click.Option):
        param.hidden = True


def in_period(chosen: Selection, period: Periods) -> Selection:
    """Return the selection with its period. Raises UsageError for two periods, and for an empty one."""
    periods = {f"--{kind}": one for kind, one in period._asdict().items() if one is not None}
    bounds = {"--from": chosen.from_s, "--to": chosen.before_s, "-b": chosen.after_s, "-e": chosen.until_s}
    ranges = [*periods, *(name for name, bound in bounds.items() if bound is not None)]
    if periods and len(ranges) > 1:
        raise UsageError(f"{ranges[0]} is a complete period: do not combine it with {ranges[1]}")
    for first, first_s in (("--from", chosen.from_s), ("-b", chosen.after_s)):
        for last, last_s in (("--to", chosen.before_s), ("-e", chosen.until_s)):
            in_turn(first_s, first, last_s, last)
    if periods:
        ((from_s, before_s),) = periods.values()
        return chosen._replace(from_s=from_s, before_s=before_s)
    return chosen


def _refuse_mixtures(ctx: click.Context, values: dict[str, object], given: StatsOptions) -> None:
    """Raise UsageError if ``values`` are options that exclude each other."""
    if not given.by:
        shown = (("--gpu", given.measured), ("--sort", given.sort), ("--top", given.top))
        alone = [name for name, value in (*shown, ("--benchmark-as", given.conversion)) if value]
        if alone and not given.gridengine:
            raise UsageError(f"{alone[0]} needs --by")
    if not given.gridengine:
        of_job = (("--job", given.job), ("--tasks", given.tasks))
        needless = [*given.qacct.names(), *(name for name, value in of_job if value is not None)]
        if needless:
            raise UsageError(f"{needless[0]} needs --gridengine")
        return
    for param in ctx.command.params:
        if param.name in _OF_JOBS and values[param.name]:
            raise UsageError(f"{param.opts[-1]} reads jobs, --gridengine reads its records: use only one of them")
    if given.tasks is not None and given.job is None:
        raise UsageError("--tasks needs --job")
    if given.job is not None and given.by:
        raise UsageError("--job lists records, --by sums them: use only one of them")


def _of_records(con: Connection, chosen: Selection, given: StatsOptions) -> Iterator[str]:
    """Return the answer of qacct. Raises InputError if no record has the requested job."""
    question = question_of(given.qacct, given.by, chosen.after_s, chosen.until_s)
    if given.job is None:
        yield from lines(qacct.table_columns(question), table(database_sums(con, question)), given.form)
        return
    tasks = None if given.tasks is None else tasks_of(given.tasks)
    columns, rows = records(con, given.job, tasks, question, everything=given.form != "table")
    yield from lines(columns, rows, given.form)


def _of_jobs(con: Connection, chosen: Selection, given: StatsOptions) -> Iterator[str]:
    for kind, name in questions.unknown_names(con, chosen):
        print_error(f"the database has no jobs with {kind} {name}")
    if chosen.states and given.show_active:
        chosen = chosen._replace(states=(*chosen.states, IN_PROGRESS))
    if not given.by:
        yield from _arcctl(con, chosen, given)
        return
    by = named(given.by, NEEDS)
    table = usage(
        con,
        chosen,
        by,
        details=given.details,
        active=given.show_active,
        measured=given.measured,
        order=order_of(given.sort, given.top),
        conversion=given.conversion,
    )
    _complain_of_period(con, chosen, has_jobs=bool(table.rows))
    if given.form == "table":
        complain_of(table.lacking)
    if {"wait", "walltime"} & set(by) and (pruned := questions.count_pruned(con)):
        print_error(f"{count_of(pruned, 'job')} in archives of `arcacct db prune` not counted: their class is unknown")
    yield from answer_lines(table, given.form, details=given.details)


def _complain_of_period(con: Connection, chosen: Selection, *, has_jobs: bool) -> None:
    """Print that a period without jobs has not started, or that recording began later than the period."""
    begins_s = [begin_s for begin_s in (chosen.after_s, chosen.from_s) if begin_s is not None]
    if not has_jobs and begins_s and max(begins_s) > time.time():
        print_error(f"no job has ended after {iso(max(begins_s))}: this is in the future by this host's clock")
        return
    ends_s = [end_s for end_s in (chosen.before_s, chosen.until_s) if end_s is not None]
    if begins_s or (ends_s and not has_jobs):
        why = before_recording(con, max(begins_s, default=0), min(ends_s, default=int(time.time())))
        print_error(*filter(None, [why]))


def complain_of(lacking: Lacking) -> None:
    """Print how many jobs count with 0, because they have no measurement."""
    for name, jobs in (("wall", lacking.wall), ("CPU", lacking.cpu)):
        if jobs:
            print_error(
                f"{jobs} of {count_of(lacking.jobs, 'job')} without a measured {name} time, counted as 0 here;"
                " --details shows the number for each row"
            )


def named(by: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the known dimensions that --by names. Raises UsageError."""
    names = tuple(dict.fromkeys(name.strip() for name in by.split(",")))
    for name in names:
        if name not in known:
            raise UsageError(f"--by {name}: it can be any of {', '.join(known)}")
    return names


def answer_lines(table: UsageTable, form: str, *, details: bool) -> Iterator[str]:
    """
    Return the lines of an answer.

    The table for people has a total; in the other forms, readers would count everything twice. The number of jobs
    without measurement is above the table (`complain_of`), or in it with ``details``.
    """
    if form != "table":
        yield from lines(table.columns, table.rows, form)
        return
    places = [place for place, name in enumerate(table.columns) if details or name not in UNMEASURED]

    def shown(row: Sequence[Any]) -> list[Any]:
        return [row[place] for place in places]

    rows = [*table.rows, table.total] if len(table.rows) > 1 else table.rows
    yield from lines(shown(table.columns), map(shown, rows), form)


def order_of(sort: str | None, top: int | None) -> UsageOrder | None:
    """Return the order of --sort and --top. Raises UsageError."""
    if sort is None:
        return None if top is None else UsageOrder("core_hours", top=top)
    column, _colon, way = sort.strip().partition(":")
    if way not in ("", "asc", "desc"):
        raise UsageError(f"--sort {sort}: write COLUMN, COLUMN:asc or COLUMN:desc")
    return UsageOrder(column, way or None, top)


def _arcctl(con: Connection, chosen: Selection, given: StatsOptions) -> Iterator[str]:
    output = given.output or "brief"
    version = arcctl_version(con, given.arcctl)
    active = given.show_active or version == 6
    if not chosen.states and not active:
        chosen = chosen._replace(states=FINAL)
    if output == "jobids":
        yield from questions.job_ids(con, chosen)
        return
    if output in _NAMES:
        names = questions.distinct(con, chosen, _NAMES[output])
        if names != [""]:
            yield from names
        return
    totals = questions.totals(con, chosen)
    if not totals.count:
        print_error("There are no jobs matching defined filtering criteria")
    _complain_of_period(con, chosen, has_jobs=bool(totals.count))
    if output == "json":
        users, vos = (questions.distinct(con, chosen, field) for field in ("users", "vos"))
        fqans = [] if version == 6 else questions.distinct(con, chosen, "fqans")
        yield json.dumps(arcctl.stats_json(totals, version, users=users, vos=vos, fqans=fqans))
    elif output == "brief":
        if totals.count:
            yield from arcctl.brief(totals, version, active=active)
    else:
        yield str(getattr(totals, _AMOUNTS[output]))
