"""`arcacct import gridengine`: accounting files of Grid Engine."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing
from typing import NamedTuple

import click

from arcacct.cli.console import examples, print_error, print_line
from arcacct.cli.import_batch import NOT_YET, PLACE_NAME, BatchOptions, batch_options, carry_out, exit_code, need_input
from arcacct.cli.options import QacctInstant, settings_of, together
from arcacct.cli.progress import print_counts, print_unusable, progress
from arcacct.cli.stats import Qacct, question_of, question_options, tasks_of
from arcacct.cli.tables import FORMATS, format_option, show
from arcacct.database.access import accounting, translating
from arcacct.errors import InputError, UsageError
from arcacct.records.batch_systems import GRIDENGINE
from arcacct.sources.engine.imports import BatchPolicy, RunsImport
from arcacct.sources.engine.runs import BatchSite
from arcacct.sources.gridengine import qacct
from arcacct.sources.gridengine.accounting_file import Origin
from arcacct.sources.gridengine.importer import SOURCE
from arcacct.sources.registry import join_telemetry
from arcacct.wording import count_of


class GridEngineOptions(NamedTuple):
    """The owner of the jobs, or the question about the files."""

    cell: str
    summary: bool
    by: str | None
    begin: int | None
    end: int | None
    job: str | None
    tasks: str | None
    form: str
    qacct: Qacct


@click.command(
    "gridengine",
    epilog=examples(
        "arcacct import gridengine $SGE_ROOT/default/common/accounting.jsonl",
        "arcacct import gridengine --follow $SGE_ROOT/default/common/accounting",
        "arcacct import gridengine --summary --by owner,project --days 30 accounting",
    ),
)
@click.argument("files", nargs=-1, metavar="FILE...")
@batch_options(GRIDENGINE, "record", follow=True)
@click.option("--cell", default="default", show_default=True, help="Name of the cell; part of each job's identity.")
@click.option("--summary", is_flag=True, is_eager=True, help="Import nothing; print the same as qacct for the files.")
@click.option("--by", metavar="COLUMN,...", help="With --summary: sums by host, queue, group, owner, project, ...")
@click.option(
    "-b",
    "--begin",
    type=QacctInstant("summary"),
    help="With --summary: start of the period of start times (inclusive).",
)
@click.option(
    "-e", "--end", type=QacctInstant("summary"), help="With --summary: end of the period of start times (inclusive)."
)
@click.option("-j", "--job", metavar="JOB", help="With --summary: the records of a job, by number, name or pattern.")
@click.option("-t", "--tasks", metavar="N[-M[:STEP]]", help="With --job: only these tasks of an array job.")
@format_option(("qacct", *FORMATS), start="With --summary: output format.")
@question_options
@together(GridEngineOptions, "asked")
def gridengine(ctx: click.Context, files: tuple[str, ...], given: BatchOptions, asked: GridEngineOptions) -> int:
    """
    Import the jobs of Grid Engine's accounting files.

    FILE is an accounting file of Grid Engine, colon-separated or JSON, compressed or not, or - for standard input. Each
    record is imported once, and files rotated since the last run are read first. Unusable lines are counted and stored
    (`import rejected`). The exit code is 65 if any is new.
    """
    _check(files, given, asked)
    if asked.summary:
        return _summary(files, asked, is_lenient=given.lenient)
    settings = settings_of(ctx)
    with (
        accounting(settings.places) as con,
        progress("Bytes", has_end=not given.follow and "-" not in files) as show_progress,
    ):
        site = BatchSite(asked.cell, settings.map, settings.places.rules.default_benchmark, settings.queue_benchmarks)
        policy = BatchPolicy(site, int(time.time()), round(given.wait * 3600), not given.prefer)
        work = RunsImport(
            *(SOURCE, settings.places, con, policy, Origin(asked.cell), print_error),
            progress=lambda _path, done, size: show_progress(done, size),
        )
        carry_out(work, given, files)
        unjoined = join_telemetry(con, settings)
    report, taken = work.report, work.report.taken
    print_counts(
        (report.rejected, "line", " not usable; all others are imported"),
        (report.failed_jobs, "job", " not rebuilt from the imported records: see the reasons above"),
        (report.more_conflicts, "further value", " with different values in A-REX and Grid Engine"),
        (taken.waiting, "job", " not recorded yet: each may be an unfinished ARC job (see --wait)"),
        (taken.followed, "job", NOT_YET),
        (taken.pruned, "job", " left out: moved into an archive by `arcacct db prune`"),
    )
    print_line(
        f"{count_of(report.lines, 'line')} read: {count_of(taken.new, 'new record')}, {taken.known} known; "
        f"{count_of(taken.added, 'job')} added, {taken.changed} changed, {count_of(taken.enriched, 'job')} of "
        "A-REX completed"
    )
    print_unusable(report.unusable)
    return exit_code(report, unjoined, given)


def _check(files: tuple[str, ...], given: BatchOptions, asked: GridEngineOptions) -> None:
    need_input(files, given, "no FILE: pass the path of an accounting file, or - for standard input")
    if not PLACE_NAME.fullmatch(asked.cell):
        raise UsageError(f"--cell {asked.cell!r}: use letters, digits, dots, - and _")
    of_files = (
        *(("--by", asked.by), ("--begin", asked.begin), ("--end", asked.end)),
        *(("--job", asked.job), ("--tasks", asked.tasks)),
    )
    options = [*asked.qacct.names(), *(name for name, value in of_files if value is not None)]
    if options and not asked.summary:
        raise UsageError(f"{options[0]} needs --summary")
    if asked.summary and (given.follow or given.derive_again or given.retry):
        raise UsageError("--summary imports nothing: it cannot be combined with --follow, --derive-again or --retry")
    if asked.tasks is not None and asked.job is None:
        raise UsageError("--tasks needs --job")
    if asked.job is not None and asked.by:
        raise UsageError("--job lists records, --by sums them: use only one of them")


def _summary(files: tuple[str, ...], asked: GridEngineOptions, *, is_lenient: bool) -> int:
    question = question_of(asked.qacct, asked.by, asked.begin, asked.end)
    tasks = None if asked.tasks is None else tasks_of(asked.tasks)
    with translating("temporary database"):
        found = qacct.FileRecords(files, print_error)
        with closing(found.con) as con:
            sums = qacct.database_sums(con, question) if asked.job is None else []
            records = iter(qacct.table(sums)) if asked.job is None else found.of_job(asked.job, tasks, question)
            if asked.form != "qacct":
                show(qacct.table_columns(question) if asked.job is None else qacct.ALL_COLUMNS, records, asked.form)
            elif asked.job is None:
                _print(qacct.qacct_lines(question, sums))
            else:
                _print(line for record in records for line in qacct.block(record))
    return InputError.exit_code if found.bad_lines + found.unreadable and not is_lenient else 0


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print_line(line)
