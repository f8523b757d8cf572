"""`arcacct db`: create, check, keep and move the databases."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from functools import partial

import click

from arcacct.cli.console import ask, examples, print_error, print_line, report_error
from arcacct.cli.options import INSTANT, controldir_option, in_turn, places_of, plan_option, settings_of, yes_option
from arcacct.cli.progress import STOPPED, at_work, progress, stop_on_signal
from arcacct.cli.pseudonyms import forget
from arcacct.cli.queries import RATING
from arcacct.cli.tables import TOLD, format_option
from arcacct.cli.tables import show as show_table
from arcacct.config.paths import Places, refuse_of_arex
from arcacct.database import access
from arcacct.database.access import accounting, open_publishing, read_accounting, read_publishing, require
from arcacct.errors import ConfigError, InputError, StoreError
from arcacct.publishing.locks import publishing_lock
from arcacct.records import usage
from arcacct.wording import count_of


@click.group(epilog=examples("arcacct db init", "arcacct db backup /var/backups/arcacct"))
def db() -> None:
    """Create, check and maintain the database."""


@db.command(
    short_help="Create both databases, accounting.db and publishing.db.",
    epilog=examples("arcacct db init", "arcacct db init --new-life"),
)
@click.option("--new-life", is_flag=True, help="Create a new accounting database although an earlier one is lost.")
@click.pass_context
def init(ctx: click.Context, new_life: bool) -> None:
    """
    Create both databases, accounting.db and publishing.db.

    Existing databases of an older version are upgraded, after a backup next to each, and readable by read_group= if it
    is set; otherwise they do not change.

    If a database existed before, none is created: restore a backup, fix database= or use `arcacct db move`. If it is
    lost permanently, --new-life creates a new one.
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
            f"{here.database}: continues the lost database: published months are held until their figures are proven "
            "or accepted; run `arcacct import arex` and `arcacct sweep` to recover what A-REX has"
        )


@db.command(short_help="Upgrade both databases to this version of arcacct.", epilog=examples("arcacct db upgrade"))
@click.pass_context
def upgrade(ctx: click.Context) -> None:
    """
    Upgrade both databases to this version of arcacct, after a backup next to each.

    Events wait in the spool meanwhile, and the next sweep records them. You can repeat an interrupted upgrade. A
    database of a newer version is rejected: the only way back is `arcacct db restore` of the backup.
    """
    here = places_of(ctx)
    require(here)
    _initialise(here)


def _initialise(here: Places, made: Sequence[int] = ()) -> None:
    """Create or take forward; ``made``: the scripts by which the accounting database was created just now."""
    with at_work("upgrading the databases"):
        initialised = access.initialise(here)
    for path, ran in initialised.items():
        steps = [*made, *ran] if path == here.database else ran
        if steps:
            print_line(f"{path}: {'created' if not steps[0] else f'upgraded to schema version {steps[-1]}'}")
        else:
            print_line(f"{path}: exists and is up to date")
    # A user who may only read needs the files of an open database.
    with accounting(here) as con, at_work("summing up"):
        usage.update_breakdown(con, here, everything=True)
    access.leave_open(open_publishing(here), here.publishing_database)


@db.command(
    short_help="Check both databases for damage; change nothing.",
    epilog=examples("arcacct db check", "arcacct db check --anew"),
)
@click.option(
    "--anew", is_flag=True, help="Check everything again, including the parts that an interrupted check finished."
)
@format_option(TOLD, "a list of answers: database, question, verdict, problems, parts, earlier")
@click.pass_context
def check(ctx: click.Context, anew: bool, form: str) -> int:
    """
    Check both databases for damage; change nothing. Other commands can write meanwhile.

    Checks pages, indexes, references, the schema, the log of finished records, and the usage cells against a recount.
    In the ledger it also checks, for each configured target, that every record up to its position in the log was sent
    or has a reason. Exits with 74 if there is damage. If stopped, the same command continues within an hour.
    """
    from arcacct.publishing.audit import questions  # noqa: PLC0415  slow to import
    from arcacct.records.integrity import Checked  # noqa: PLC0415  sqlite-utils is slow to import
    from arcacct.records.integrity import check as check_all  # noqa: PLC0415
    from arcacct.targets import plugins  # noqa: PLC0415  slow to import
    from arcacct.times import iso  # noqa: PLC0415  slow to import

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
                report_error(error)
                print_error("the positions in the log are not checked until the configuration is right")
            audits = partial(questions, plugins=targets)
            answers.extend(check_all(here, anew=anew, progress=told, stopping=stopping, audits=audits))
    finally:
        # After the bar, which may be on the same terminal. If a database failed, this includes the answers before that.
        if any(one.earlier for one in answers):
            print_error(
                f"continues the check that began at {iso(answers[0].begun_s)} and was stopped: parts that were sound "
                "then are not checked again (`arcacct db check --anew` checks them)"
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
    short_help="Update query statistics; --shrink also compacts the file.",
    epilog=examples("arcacct db optimize", "arcacct db optimize --shrink"),
)
@click.option("--shrink", is_flag=True, help="Compact the file by rewriting it; events wait in the spool meanwhile.")
@click.pass_context
def optimize(ctx: click.Context, shrink: bool) -> None:
    """
    Update the statistics that SQLite uses to choose indexes, so that queries stay fast.

    If the last `arcacct db check` found damage, it first rebuilds the damaged indexes of both databases from the
    rows, and rewrites the file, as --shrink does.

    --shrink also frees the space of pruned jobs. That needs twice the size of the database as free disk space.
    """
    from arcacct.database import upkeep  # noqa: PLC0415  psutil is slow to import

    here = places_of(ctx)
    with at_work("checking indexes"):
        for path, name in upkeep.rebuild_indexes(here):
            print_line(f"{path}: index {name} rebuilt")
    with accounting(here) as con, at_work("optimizing"):
        upkeep.optimize(here, con)
        print_line(f"{here.database}: optimized")
        if shrink:
            before, after = upkeep.shrink(here, con)
            print_line(f"{here.database}: {before:,} bytes before, {after:,} bytes now")


@db.command(
    short_help="Copy both databases during normal operation.", epilog=examples("arcacct db backup /var/backups/arcacct")
)
@click.argument("directory", required=False, metavar="[DIR]")
@click.pass_context
def backup(ctx: click.Context, directory: str | None) -> None:
    """
    Copy both databases into DIR during normal operation; default: `backups` next to them.

    Each copy is checked, synced to disk, and readable only by its owner. Never use cp: it misses the content of the
    WAL.
    """
    from arcacct.database import upkeep  # noqa: PLC0415  psutil is slow to import

    here = _site(places_of(ctx))
    with at_work("copying"):
        for copy in upkeep.backups(here, directory or os.path.join(here.directory, "backups")):
            print_line(f"{copy.path}: {copy.size_bytes:,} bytes")


@db.command(
    short_help="Copy both databases for readers; replaces the last copies.",
    epilog=examples("arcacct db snapshot /var/lib/arcacct-snapshot"),
)
@click.argument("directory", metavar="DIR")
@click.pass_context
def snapshot(ctx: click.Context, directory: str) -> None:
    """
    Copy both databases into DIR for readers, replacing the last copies.

    DIR/accounting.db and DIR/publishing.db are complete, checked, of one moment, read-only, and readable by the group
    in read_group=. They have no WAL, so readers need no other file. Readers with open copies keep the old ones. The
    copies are not a backup.
    """
    from arcacct.database.moving import snapshots  # noqa: PLC0415  psutil is slow to import

    here = _site(places_of(ctx))
    with at_work("copying"):
        for copy in snapshots(here, directory):
            print_line(f"{copy.path}: {copy.size_bytes:,} bytes")


@db.command(
    short_help="Replace the database with a backup.",
    epilog=examples("arcacct db restore /var/backups/arcacct/accounting.db"),
)
@click.argument("file")
@yes_option()
@click.pass_context
def restore(ctx: click.Context, file: str, yes: bool) -> None:
    """
    Replace a database with its backup.

    The old database stays next to it under another name. Events wait in the spool meanwhile; commands that use the
    database must end first. Then run `arcacct sweep`, which records jobs of the control directory that the backup does
    not have. The publisher compares the backup with what was sent before.
    """
    from arcacct.database import upkeep  # noqa: PLC0415  slow to import

    here = _site(places_of(ctx))
    upkeep.may_restore(here)
    ask(f"put {file} over the database in {here.directory}?", yes=yes)
    with publishing_lock(here.publishing_lock), at_work("restoring"):
        done = upkeep.restore(here, file)
    print_line(f"{done.database}: restored from {file}")
    if done.scripts:
        print_line(f"{done.database}: upgraded to schema version {done.scripts[-1]}")
    if done.kept:
        print_line(f"{done.kept}: the old database", err=True)


@db.command(short_help="Move both databases to another directory.", epilog=examples("arcacct db move /var/lib/arcacct"))
@click.argument("directory", metavar="DIR")
@yes_option()
@click.pass_context
def move(ctx: click.Context, directory: str, yes: bool) -> None:
    """
    Move both databases and the spool to DIR. Creates DIR if it is missing.

    Prints the line for [arcacct] of the configuration. Events wait in the spool meanwhile; commands that use the
    databases must end first. Until you add the line to the configuration, commands refuse to write, and the launcher
    spools in the old directory, which the sweep drains. The old databases stay there under other names. You can repeat
    an interrupted move.
    """
    from arcacct.database import moving  # noqa: PLC0415  slow to import

    here = _site(places_of(ctx))
    moving.check(here, directory)
    ask(f"move the databases in {here.directory} to {directory}?", yes=yes)
    with publishing_lock(here.publishing_lock), at_work("moving"):
        done = moving.move(here, directory)
    for path in done.kept:
        print_line(f"{path}: the old database", err=True)
    if done.spooled:
        print_line(f"{count_of(done.spooled, 'event')} of the spool moved", err=True)
    print_error("moved; now add this line to [arcacct] of the configuration:")
    print_line(f"database={done.database}")


@db.command(
    short_help="Move old jobs, finished and delivered, into an archive.",
    epilog=examples("arcacct db prune --before 2025-05-01 --dry-run", "arcacct db prune --before 2025-05-01 --yes"),
)
@click.option("--before", type=INSTANT, required=True, help="Jobs that ended before this time.")
@click.option("--archive", metavar="FILE", help="The archive; default: archive.db next to the database.")
@plan_option("Show what would move, and what would stay and why; change nothing.")
@click.option(
    "--without-target",
    "without",
    multiple=True,
    metavar="BLOCK",
    help="Ignore unsent records of this target, which is no longer used: its block, e.g. arex/jura/sgas:old.",
)
@controldir_option
@yes_option()
@click.pass_context
def prune(
    ctx: click.Context,
    before: int,
    archive: str | None,
    plan_only: bool,
    without: tuple[str, ...],
    controldir: str | None,
    yes: bool,
) -> int:
    """
    Move jobs that ended before TIME into an archive, a database of the same schema.

    Moves only jobs that were sent to every target, are not on hold, and are gone from the control directory. Monthly
    usage still counts them; queries can attach the archive. Afterwards `arcacct db optimize --shrink` makes the file
    smaller. Other processes can write meanwhile. If stopped, the same command continues.
    """
    from arcacct.arex.control_files import scan_status_files  # noqa: PLC0415  with its command
    from arcacct.records import retention  # noqa: PLC0415  slow to import
    from arcacct.times import iso  # noqa: PLC0415  slow to import

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
    refuse_of_arex(os.path.dirname(options.archive), here.controldir)
    with closing(read_accounting(here)) as con, closing(read_publishing(here)) as publishing:
        plan = retention.plan(con, publishing, options)
    if plan.first_end is None or plan.last_end is None:
        print_line("no jobs to move")
    else:
        ended = f"ended from {iso(plan.first_end)} to {iso(plan.last_end)}"
        print_line(f"{count_of(plan.jobs, 'job')} {'to be' if plan_only else 'can be'} moved, which {ended}")
    for reason, jobs in plan.left:
        print_line(f"{count_of(jobs, 'job')} kept: {reason}", err=True)
    if plan_only or not plan.jobs:
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
@click.option("--from", "from_s", type=INSTANT, required=True, help="Jobs that ended at TIME or later.")
@click.option("--to", "before_s", type=INSTANT, required=True, help="Jobs that ended before TIME.")
@click.option(
    "--replace",
    "replaced",
    multiple=True,
    type=RATING,
    metavar="TYPE:VALUE",
    help="The benchmark recorded for jobs without their own; default: the one of [lrms]. May be repeated.",
)
@click.option(
    "--as",
    "everything",
    type=RATING,
    metavar="TYPE:VALUE",
    help="Use this benchmark for all jobs instead of the configuration.",
)
@plan_option("Show what would change; change nothing.")
@yes_option()
@format_option()
@click.pass_context
def benchmark(
    ctx: click.Context,
    from_s: int,
    before_s: int,
    *,
    replaced: tuple[str, ...],
    everything: str | None,
    plan_only: bool,
    yes: bool,
    form: str,
) -> int:
    """
    Correct the benchmarks of jobs that had none of their own, by queue_benchmark= and node_benchmark=.

    A job's benchmark is fixed when it is recorded; only this command changes it later. It first shows hours times
    benchmark before and after, by month and VO, and asks for confirmation. A benchmark from the job itself or from
    machine features does not change. The next `arcacct publish` sends the corrected records and months.
    """
    from arcacct.queries.usage import COLUMNS, rows  # noqa: PLC0415  with its command
    from arcacct.records import benchmarks  # noqa: PLC0415  with its command

    in_turn(from_s, "--from", before_s, "--to")
    found = settings_of(ctx)
    here = _site(found.places)
    replaced = replaced or (here.rules.default_benchmark,)
    options = benchmarks.Ratings(from_s, before_s, replaced, found.queue_benchmarks, found.node_benchmarks, everything)
    with closing(read_accounting(here)) as con, progress("Jobs") as show_progress:
        changes = benchmarks.plan(con, options, lambda jobs: show_progress(jobs, jobs))
    if changes or form != "table":
        show_table(COLUMNS, rows(changes), form)
    if not changes:
        print_line("no benchmark changes", err=True)
        return 0
    if plan_only:
        return 0
    ask("correct these benchmarks?", yes=yes)
    with accounting(here) as con, progress("Jobs") as show_progress, stop_on_signal() as stopping:
        done = benchmarks.correct(con, here, options, lambda jobs: show_progress(jobs, jobs), stopping)
        stopped = stopping()
        usage.update_monthly(con, here)
    count = "1 job has" if done == 1 else f"{done} jobs have"
    print_line(f"{count} another benchmark now: the next `arcacct publish` sends the correction", err=True)
    if stopped:
        print_error("stopped: run the same command again for the others")
        return STOPPED
    return 0


def _site(here: Places) -> Places:
    """The ledger of a rehearsal has no record of what the site has published."""
    if here.rehearsal is not None:
        raise ConfigError(
            f"[arcacct] rehearsal={here.rehearsal}: this is the configuration of a rehearsal; use that of the site"
        )
    return here


db.add_command(forget)
