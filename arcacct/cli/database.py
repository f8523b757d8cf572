"""`arcacct db`: create, check, keep and move the databases."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from functools import partial

import click

from arcacct.cli.console import ask, examples, print_error, print_line
from arcacct.cli.options import INSTANT, controldir_option, in_turn, places_of, settings_of
from arcacct.cli.progress import STOPPED, at_work, progress, stop_on_signal
from arcacct.cli.pseudonyms import forget
from arcacct.cli.queries import RATING
from arcacct.cli.tables import TOLD, format_option
from arcacct.cli.tables import show as show_table
from arcacct.config.paths import Places
from arcacct.database.access import (
    accounting,
    initialise,
    leave_open,
    open_publishing,
    read_accounting,
    read_publishing,
    require,
)
from arcacct.errors import ConfigError, InputError, StoreError, UsageError
from arcacct.records import usage
from arcacct.wording import count_of


@click.group(epilog=examples("arcacct db init", "arcacct db backup /var/backups/arcacct"))
def db() -> None:
    """Create, check and keep the database."""


@db.command(
    short_help="Create both databases: of accounting and of publishing.",
    epilog=examples("arcacct db init", "arcacct db init --new-life"),
)
@click.option("--new-life", is_flag=True, help="Begin an accounting database although there was one, which is lost.")
@click.pass_context
def init(ctx: click.Context, new_life: bool) -> None:
    """
    Create both databases: of accounting and of publishing.

    Databases that are there are taken forward if they are of an older version, after a backup beside each, and
    opened to read_group= if it is set; otherwise nothing happens to them.

    Where there was a database before, none is created: a backup, the right database= or `arcacct db move` keep what
    was published right. When it is lost for good, --new-life begins a new one, which goes on from the lost one.
    """
    here = places_of(ctx)
    if not new_life:
        _initialise(here)
        return
    from arcacct.database.upkeep import start_new_incarnation as begin  # noqa: PLC0415  psutil is slow to import

    scripts, inherited = begin(here)
    _initialise(here, scripts)
    if inherited:
        print_error(
            f"{here.database}: a new life begins, which goes on from {len(inherited)} before: months that "
            "were published are held until their figures are proven or accepted; `arcacct import arex` takes over what "
            "A-REX recorded"
        )


@db.command(short_help="Take both databases forward to this version of arcacct.", epilog=examples("arcacct db upgrade"))
@click.pass_context
def upgrade(ctx: click.Context) -> None:
    """
    Take both databases forward to this version of arcacct, after a backup beside each.

    Hooks spool meanwhile, and the next sweep records what they spooled. Interrupted anywhere, it can be repeated. A
    database of a newer version is refused: nothing goes backward, except by `arcacct db restore` of the backup.
    """
    here = places_of(ctx)
    require(here)
    _initialise(here)


def _initialise(here: Places, made: Sequence[int] = ()) -> None:
    """Create or take forward; ``made``: the scripts by which the accounting database was created just now."""
    with at_work("taking the databases forward"):
        initialised = initialise(here)
    for path, ran in initialised.items():
        steps = [*made, *ran] if path == here.database else ran
        if steps:
            print_line(f"{path}: {'created' if not steps[0] else f'taken forward to schema version {steps[-1]}'}")
        else:
            print_line(f"{path}: exists and is up to date")
    # Whoever may only read needs the files that an open database has.
    with accounting(here) as con, at_work("summing up"):
        usage.update_breakdown(con, here, everything=True)
    leave_open(open_publishing(here), here.publishing_database)


@db.command(
    short_help="Look for damage in both databases; changes nothing.",
    epilog=examples("arcacct db check", "arcacct db check --anew"),
)
@click.option(
    "--anew", is_flag=True, help="Check everything again, also the parts that an interrupted check has finished."
)
@format_option(TOLD, "a list of answers: database, question, verdict, problems, parts, earlier")
@click.pass_context
def check(ctx: click.Context, anew: bool, form: str) -> int:
    """
    Look for damage in both databases; changes nothing, and others go on writing.

    Pages and indexes, that each page is used once, references, the schema, rows without a record, the log of finished
    records, and the usage cells against a recount, table by table. Of the ledger also its texts, the counts of what
    receivers were given, and for each configured target that every record up to its place in the log was sent or has a
    reason not to be. Exits with 74 when something is wrong. Stopped, the
    same command goes on within an hour, and says which answers are those of before.
    """
    from arcacct.publishing.audit import questions  # noqa: PLC0415  slow to import
    from arcacct.publishing.ledger_rows import iso  # noqa: PLC0415  slow to import
    from arcacct.records.integrity import Checked  # noqa: PLC0415  sqlite-utils is slow to import
    from arcacct.records.integrity import check as check_all  # noqa: PLC0415
    from arcacct.targets import plugins  # noqa: PLC0415  slow to import

    done = parts = 0
    answers: list[Checked] = []

    def told(now: int, of: int) -> None:
        nonlocal done, parts
        done, parts = now, of
        show(now, of)

    try:
        with progress("Parts") as show, stop_on_signal() as stopping:
            here = places_of(ctx)
            try:
                targets = plugins(settings_of(ctx, warns=False))
            except ConfigError as error:
                targets = ()
                print_error(f"{error}: places in the log are not checked")
            audits = partial(questions, plugins=targets)
            answers.extend(check_all(here, anew=anew, progress=told, stopping=stopping, audits=audits))
    finally:
        # Behind the bar, which may be on the same terminal; and what was answered before a database failed.
        if any(one.earlier for one in answers):
            print_error(
                f"continues the check that began at {iso(answers[0].begun_s)} and was stopped: what was sound then is "
                "not looked at again (`arcacct db check --anew` does)"
            )
        if form != "text":
            rows = (
                (one.database, one.question, "wrong" if one.problems else "ok", one.problems, one.parts, one.earlier)
                for one in answers
            )
            show_table(("database", "question", "verdict", "problems", "parts", "earlier"), rows, form)
        for one in answers if form == "text" else ():
            of_then = (
                f" ({one.earlier} of {count_of(one.parts, 'part')} as of {iso(one.begun_s)})" if one.earlier else ""
            )
            print_line(f"{one.database}: {one.question}: {'wrong' if one.problems else 'ok'}{of_then}")
            print_error(*(f"{one.database}: {problem}" for problem in one.problems))
    if done < parts:
        print_error(f"stopped: {done} of {count_of(parts, 'part')} checked; run the same command again for the others")
        return STOPPED
    return StoreError.exit_code if any(one.problems for one in answers) else 0


@db.command(
    short_help="Update the statistics that keep queries fast; --shrink also compacts the file.",
    epilog=examples("arcacct db optimize", "arcacct db optimize --shrink"),
)
@click.option("--shrink", is_flag=True, help="Compact the file by writing it anew; hooks spool meanwhile.")
@click.pass_context
def optimize(ctx: click.Context, shrink: bool) -> None:
    """
    Update the statistics by which SQLite chooses indexes, so that queries stay fast.

    --shrink also gives back the room that pruned jobs left; that takes about a second for 50 MB, and as much free room
    on the disk as the database has, twice.
    """
    from arcacct.database import upkeep  # noqa: PLC0415  psutil is slow to import

    here = places_of(ctx)
    with accounting(here) as con, at_work("optimizing"):
        upkeep.optimize(here, con)
        print_line(f"{here.database}: optimized")
        if shrink:
            before, after = upkeep.shrink(here, con)
            print_line(f"{here.database}: {before:,} bytes before, {after:,} bytes now")


@db.command(
    short_help="Copy both databases while others write.", epilog=examples("arcacct db backup /var/backups/arcacct")
)
@click.argument("directory", required=False, metavar="[DIR]")
@click.pass_context
def backup(ctx: click.Context, directory: str | None) -> None:
    """
    Copy both databases into DIR while others write; by default into `backups` beside them.

    Each copy is checked, on disk, and for its owner only. Never use cp: it misses what is in the WAL.
    """
    from arcacct.database import upkeep  # noqa: PLC0415  psutil is slow to import

    here = _site(places_of(ctx))
    with at_work("copying"):
        for copy in upkeep.backups(here, directory or os.path.join(here.directory, "backups")):
            print_line(f"{copy.path}: {copy.size_bytes:,} bytes")


@db.command(
    short_help="Copy both databases for readers, in the place of the last copies.",
    epilog=examples("arcacct db snapshot /var/lib/arcacct-snapshot"),
)
@click.argument("directory", metavar="DIR")
@click.pass_context
def snapshot(ctx: click.Context, directory: str) -> None:
    """
    Copy both databases into DIR for readers, in the place of the copies that are there.

    DIR/accounting.db and DIR/publishing.db are whole, checked, of one moment, read-only, and for the group of
    read_group=. They have no WAL: who may read them needs nothing beside them. Who has the former ones open keeps them.
    They are no backup.
    """
    from arcacct.database.moving import snapshots  # noqa: PLC0415  psutil is slow to import

    here = _site(places_of(ctx))
    with at_work("copying"):
        for copy in snapshots(here, directory):
            print_line(f"{copy.path}: {copy.size_bytes:,} bytes")


@db.command(
    short_help="Replace the database by a backup.",
    epilog=examples("arcacct db restore /var/backups/arcacct/accounting.db"),
)
@click.argument("file")
@click.option("--yes", is_flag=True, help="Go on without asking.")
@click.pass_context
def restore(ctx: click.Context, file: str, yes: bool) -> None:
    """
    Put a backup in the place of the database that it is one of.

    The old database is kept beside it under another name. Hooks spool meanwhile; commands that use the database have
    to end first. Then run `arcacct sweep`, which records what the backup lacks and the control directory has. The
    publisher compares what is in the backup with what was sent before.
    """
    from arcacct.database import upkeep  # noqa: PLC0415  slow to import
    from arcacct.publishing.run import publishing_lock  # noqa: PLC0415  slow to import

    here = _site(places_of(ctx))
    upkeep.may_restore(here)
    ask(f"put {file} in the place of the database in {here.directory}?", yes=yes)
    with publishing_lock(here.publishing_lock), at_work("restoring"):
        done = upkeep.restore(here, file)
    print_line(f"{done.database}: restored from {file}")
    if done.scripts:
        print_line(f"{done.database}: taken forward to schema version {done.scripts[-1]}")
    if done.kept:
        print_line(f"{done.kept}: the old database", err=True)


@db.command(short_help="Move both databases to another directory.", epilog=examples("arcacct db move /var/lib/arcacct"))
@click.argument("directory", metavar="DIR")
@click.option("--yes", is_flag=True, help="Go on without asking.")
@click.pass_context
def move(ctx: click.Context, directory: str, yes: bool) -> None:
    """
    Move both databases and the spool to DIR, which is made if it is missing.

    Prints the line for [arcacct] of the configuration. Hooks spool meanwhile; commands that use the databases have to
    end first. Until the configuration has the new line, commands refuse to write and hooks go on spooling in the old
    place, which the sweep drains. The old databases are kept there under other names. Interrupted, it can be repeated.
    """
    from arcacct.database import moving  # noqa: PLC0415  slow to import
    from arcacct.publishing.run import publishing_lock  # noqa: PLC0415  slow to import

    here = _site(places_of(ctx))
    moving.check(here, directory)
    ask(f"move the databases in {here.directory} to {directory}?", yes=yes)
    with publishing_lock(here.publishing_lock), at_work("moving"):
        done = moving.move(here, directory)
    for path in done.kept:
        print_line(f"{path}: the old database", err=True)
    if done.spooled:
        print_line(f"{count_of(done.spooled, 'event')} of the spool taken along", err=True)
    print_error("moved; now put this line into [arcacct] of the configuration:")
    print_line(f"database={done.database}")


@db.command(
    short_help="Move old jobs, finished and delivered, into an archive.",
    epilog=examples("arcacct db prune --before 2025-05-01 --dry-run", "arcacct db prune --before 2025-05-01 --yes"),
)
@click.option("--before", type=INSTANT, required=True, metavar="TIME", help="Jobs that ended before this time.")
@click.option("--archive", metavar="FILE", help="The archive; by default archive.db beside the database.")
@click.option("--dry-run", is_flag=True, help="Show what would be moved, and what would stay and why; change nothing.")
@click.option(
    "--without-target",
    "without",
    multiple=True,
    metavar="BLOCK",
    help="Ignore what this target, which is no longer used, was not sent: its block, e.g. arex/jura/sgas:old.",
)
@controldir_option
@click.option("--yes", is_flag=True, help="Go on without asking.")
@click.pass_context
def prune(
    ctx: click.Context,
    before: int,
    archive: str | None,
    dry_run: bool,
    without: tuple[str, ...],
    controldir: str | None,
    yes: bool,
) -> int:
    """
    Move jobs that ended before TIME into an archive, a database of the same schema.

    Only jobs that every target has been sent, that nothing holds back, and that are gone from the control directory.
    Monthly usage still counts them; queries can attach the archive. The file becomes smaller by `arcacct db optimize
    --shrink`. Others have their turn every few hundred jobs; stopped, the same command goes on.
    """
    from arcacct.arex.control_files import scan_status_files  # noqa: PLC0415  with its command
    from arcacct.publishing.ledger_rows import iso  # noqa: PLC0415  slow to import
    from arcacct.publishing.run import publishing_lock  # noqa: PLC0415  slow to import
    from arcacct.records import retention  # noqa: PLC0415  slow to import

    found = settings_of(ctx)
    here = _site(found.places)
    directory = os.path.abspath(controldir) if controldir else here.controldir
    try:
        present = frozenset(job_id for job_id, _path, _stat in scan_status_files(directory))
    except OSError as error:
        raise InputError(
            f"{directory}: cannot read the control directory: {error.strerror}; a job that it still has must not be "
            "pruned: give --controldir"
        ) from error
    options = retention.PruneOptions(
        before,
        os.path.abspath(archive) if archive else os.path.join(here.directory, "archive.db"),
        tuple(target.block for target in found.targets),
        without,
        present,
    )
    with closing(read_accounting(here)) as con, closing(read_publishing(here)) as publishing:
        plan = retention.plan(con, publishing, options)
    if plan.first_end is None or plan.last_end is None:
        print_line("no jobs to move")
    else:
        ended = f"ended from {iso(plan.first_end)} to {iso(plan.last_end)}"
        print_line(f"{count_of(plan.jobs, 'job')} {'to be' if dry_run else 'can be'} moved, which {ended}")
    for reason, jobs in plan.left:
        print_line(f"{count_of(jobs, 'job')} kept: {reason}", err=True)
    if dry_run or not plan.jobs:
        return 0
    ask(f"move {count_of(plan.jobs, 'job')} into {options.archive}?", yes=yes)
    with (
        accounting(here) as con,
        closing(read_publishing(here)) as publishing,
        progress("Jobs") as show,
        stop_on_signal() as stopping,
    ):
        moved = retention.prune(
            here,
            con,
            publishing,
            options,
            alone=partial(publishing_lock, here.publishing_lock),
            progress=lambda jobs: show(jobs, plan.jobs),
            stopping=stopping,
        )
    print_line(f"{options.archive}: {count_of(moved.jobs, 'job')} moved")
    if not moved.is_whole:
        print_error(
            f"stopped: {moved.jobs} of {count_of(plan.jobs, 'job')} moved; run the same command again for the others"
        )
        return STOPPED
    return 0


@db.command(
    short_help="Correct benchmarks of recorded jobs by the configuration.",
    epilog=examples(
        "arcacct db benchmark --from 2026-07 --to 2026-08 --plan",
        "arcacct db benchmark --from 2026-07 --to 2026-08 --replace HEPSPEC:1.0 --yes",
    ),
)
@click.option("--from", "from_s", type=INSTANT, required=True, metavar="TIME", help="Jobs that ended at TIME or later.")
@click.option("--to", "before_s", type=INSTANT, required=True, metavar="TIME", help="Jobs that ended before TIME.")
@click.option(
    "--replace",
    "replaced",
    multiple=True,
    type=RATING,
    metavar="TYPE:VALUE",
    help="What was recorded where a job had no benchmark; else the one of [lrms]. May be repeated.",
)
@click.option(
    "--as",
    "everything",
    type=RATING,
    metavar="TYPE:VALUE",
    help="This for all of them, whatever the configuration says.",
)
@click.option(
    "--counted-twice",
    "even_so",
    is_flag=True,
    help="Also months that an APEL target was sent as job records: APEL counts such jobs twice then.",
)
@click.option("--plan", "--dry-run", "plan_only", is_flag=True, help="Show what would change and stop.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@format_option()
@click.pass_context
def benchmark(
    ctx: click.Context,
    from_s: int,
    before_s: int,
    *,
    replaced: tuple[str, ...],
    everything: str | None,
    even_so: bool,
    plan_only: bool,
    yes: bool,
    form: str,
) -> int:
    """
    Correct the benchmarks of jobs that had none of their own, by queue_benchmark= and node_benchmark=.

    A job's benchmark is taken when it is recorded; nothing but this command changes it for what is recorded. It shows
    first, by month and VO, hours times benchmark before and after, and asks. A benchmark that the job itself or machine
    features told stays. The next `arcacct publish` sends the corrected records and months.
    """
    from arcacct.queries.usage import COLUMNS, counted_twice, rows  # noqa: PLC0415  with its command
    from arcacct.records import benchmarks  # noqa: PLC0415  with its command

    in_turn(from_s, "--from", before_s, "--to")
    found = settings_of(ctx)
    here = _site(found.places)
    options = benchmarks.Ratings(
        from_s,
        before_s,
        replaced or (here.rules.default_benchmark,),
        found.queue_benchmarks,
        found.node_benchmarks,
        everything,
    )
    with closing(read_accounting(here)) as con, progress("Jobs") as show_progress:
        changes = benchmarks.plan(con, options, lambda jobs: show_progress(jobs, jobs))
    if changes or form != "table":
        show_table(COLUMNS, rows(changes), form)
    if not changes:
        print_line("no benchmark changes", err=True)
        return 0
    with closing(read_publishing(here)) as publishing:
        twice = counted_twice(found, publishing, changes)
    for text in twice:
        print_error(
            f"{text}: sent as job records, of which APEL keeps the sums by the former benchmark: it would count"
            " corrected jobs twice there, until its administrators delete these sums"
        )
    if plan_only:
        return 0
    if twice and not even_so:
        raise UsageError("nothing is corrected: leave these months out by --from and --to, or give --counted-twice")
    ask("correct these benchmarks?", yes=yes)
    with accounting(here) as con, progress("Jobs") as show_progress, stop_on_signal() as stopping:
        done = benchmarks.correct(con, here, options, lambda jobs: show_progress(jobs, jobs), stopping)
        stopped = stopping()
        usage.update_monthly(con, here)
    count = "1 job has" if done == 1 else f"{done} jobs have"
    print_line(f"{count} another benchmark now: the next `arcacct publish` sends the correction", err=True)
    if stopped:
        print_error("stopped: the same command again goes on with the others")
        return STOPPED
    return 0


def _site(here: Places) -> Places:
    """The ledger of a rehearsal says nothing about what the site has published."""
    if here.rehearsal is not None:
        raise ConfigError(
            f"[arcacct] rehearsal={here.rehearsal}: this configuration is one of a rehearsal; use that of the site"
        )
    return here


db.add_command(forget)
