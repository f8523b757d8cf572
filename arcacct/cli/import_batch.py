"""`arcacct import NAME` of batch systems: what all of them do alike, and the commands of all but Grid Engine."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from arcacct.benchmark import canonical_type
from arcacct.cli import progress
from arcacct.cli.console import examples, print_error, print_line
from arcacct.cli.options import INSTANT, Decorator, in_order, settings_of, together, zone_of
from arcacct.database.access import accounting
from arcacct.errors import InputError, UsageError
from arcacct.records.batch_systems import BatchSystem
from arcacct.sources.engine.batch_runs import LogForm, LogSource
from arcacct.sources.engine.imports import BatchPolicy, RunsImport, RunsReport
from arcacct.sources.engine.runs import NEVER_STARTED, UNFINISHED, BatchSite, SourceType
from arcacct.sources.htcondor import history
from arcacct.sources.htcondor.importer import SOURCE as HTCONDOR_SOURCE
from arcacct.sources.registry import join_telemetry
from arcacct.sources.slurm import sacct
from arcacct.sources.slurm.importer import SOURCE as SLURM_SOURCE
from arcacct.wording import count_of

PLACE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""The name of a cell, server or cluster."""
LEFT_OUT = "Unusable input is shown and stored (`import rejected`). The exit code is 65 if any is new."


class BatchOptions(NamedTuple):
    """The options of an import."""

    wait: float
    prefer: bool
    derive_again: bool
    retry: bool
    lenient: bool
    follow: bool = False
    run: bool = False
    program: str = ""
    since: int | None = None
    timeout: float = 0


def _run_options(program: str, timeout_s: float) -> Decorator:
    return in_order(
        click.option("--run", is_flag=True, help=f"Run {program}, for the time since its last run."),
        click.option("--since", type=INSTANT, help="With --run: for the time since TIME."),
        click.option(
            f"--{program.replace('_', '-')}",
            "program",
            default=program,
            show_default=True,
            metavar="PROGRAM",
            help="With --run: its name or path.",
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=timeout_s,
            show_default=True,
            metavar="SECONDS",
            help="With --run: time limit of each call.",
        ),
    )


def batch_options(
    system: BatchSystem, what: str, *, follow: bool = False, program: str = "", timeout_s: float = 0
) -> Decorator:
    """
    Return the options of every such command, which gets them as ``given``, a `BatchOptions`.

    ``what``: the stored part of a job. ``program``: a program of the batch system that the command can run, with
    ``timeout_s`` as default of --timeout.
    """
    followed = click.option(
        "--follow", is_flag=True, help="Keep reading new data, through rotation, until SIGTERM or Ctrl-C."
    )
    optional = (("follow",) if follow else ()) + (("run", "program", "since", "timeout") if program else ())
    return in_order(
        *((followed,) if follow else ()),
        *((_run_options(program, timeout_s),) if program else ()),
        progress.wait_option,
        click.option(
            f"--prefer-{system.name}",
            "prefer",
            is_flag=True,
            help=f"In jobs of A-REX, {system.title}'s measured values have priority.",
        ),
        click.option(
            "--derive-again", is_flag=True, help=f"Rebuild jobs from imported {what}s, after a change of map lines."
        ),
        click.option(
            "--retry", is_flag=True, help="Retry rejected records (see `import rejected`); then read FILE, if given."
        ),
        click.option("--lenient", is_flag=True, help="Exit with 0 even if jobs or files could not be used."),
        click.pass_context,
        together(BatchOptions, "given", (*BatchOptions._fields[:5], *optional)),
    )


def run_import(
    ctx: click.Context,
    source: SourceType[Any],
    given: BatchOptions,
    form: Any,
    files: Sequence[str],
    ask: Callable[[RunsImport[Any]], None] | None = None,
) -> int:
    """Import files, and the output of a program that ``ask`` runs. Print the result and return the exit code."""
    settings = settings_of(ctx)
    site = BatchSite("", settings.map, settings.places.rules.default_benchmark, settings.queue_benchmarks)
    policy = BatchPolicy(site, int(time.time()), round(given.wait * 3600), not given.prefer)
    with accounting(settings.places) as con:
        work = RunsImport(source, settings.places, con, policy, form, print_error)
        carry_out(work, given, files, ask)
        unjoined = join_telemetry(con, settings)
    print_report(source, work.report)
    return exit_code(work.report, unjoined, given)


def carry_out(
    work: RunsImport[Any],
    given: BatchOptions,
    files: Sequence[str],
    ask: Callable[[RunsImport[Any]], None] | None = None,
) -> None:
    """Retry, rebuild, read or follow files, and ask a program, as the options say."""
    if given.retry:
        progress.print_retried(work.retry())
    if given.derive_again:
        work.again()
    if given.follow:
        with progress.until_signal() as goes_on:
            work.follow(files, goes_on=goes_on)
    else:
        work.files(files)
    if ask is not None:
        ask(work)
    work.finish()


def exit_code(report: RunsReport, unjoined: int, given: BatchOptions) -> int:
    """65 if anything new could not be used; what was rejected before, and has not changed, is no news."""
    unusable = report.news + report.unreadable + report.failed_jobs + unjoined
    return InputError.exit_code if unusable and not given.lenient else 0


NOT_YET = " not recorded yet: another run follows; if none comes, it is recorded after a day of the log"


def print_report(source: SourceType[Any], report: RunsReport) -> None:
    """Print the result of an import: omissions on stderr, the rest on stdout."""
    taken, what = report.taken, source.what
    others = [
        (jobs, "job", f" left out: {why}")
        for why, jobs in sorted(report.unused.items())
        if why not in (UNFINISHED, NEVER_STARTED)
    ]
    progress.print_counts(
        (report.rejected, "job", " not usable; all others are imported"),
        (report.bad_lines, "line", " not usable, without a job's own values; see `arcacct import rejected`"),
        (report.noise, "line", " ignored: blank, not a record, or without a line end"),
        (report.failed_jobs, "job", " not rebuilt from the stored runs: see the reasons above"),
        (report.more_conflicts, "further value", f" with different values in A-REX and {source.system.title}"),
        *others,
        (taken.waiting, what, " not recorded yet: each may be an unfinished ARC job (see --wait)"),
        (taken.followed, what, NOT_YET),
        (taken.pruned, what, " left out: moved into an archive by `arcacct db prune`"),
    )
    print_line(
        f"{count_of(report.jobs, 'job')} read, {report.unused[UNFINISHED]} unfinished,"
        f" {report.unused[NEVER_STARTED]} never started: {count_of(taken.new, f'new {what}')}, {taken.known} known;"
        f" {count_of(taken.added, 'job')} added, {taken.changed} changed,"
        f" {count_of(taken.enriched, 'job')} of others completed"
    )
    progress.print_unmeasured(taken)
    progress.print_unusable(report.unusable)


def need_input(files: Sequence[str], given: BatchOptions, complaint: str) -> None:
    """Raise UsageError if there is nothing to do, or options contradict each other."""
    if given.since is not None and not given.run:
        raise UsageError("--since needs --run")
    if not (files or given.run or given.derive_again or given.retry):
        raise UsageError(complaint)


def log_command(source: LogSource) -> click.Command:
    """Return the command of a source with only the common options and the name of its server or cluster."""
    name, place, title = source.system.name, source.place_option, source.system.title

    def called(ctx: click.Context, files: tuple[str, ...], given: BatchOptions, place: str | None) -> int:
        need_input(files, given, f"no FILE: pass {source.file_help}, or - for standard input")
        if place is not None and not PLACE_NAME.fullmatch(place):
            raise UsageError(f"--{source.place_option} {place!r}: use letters, digits, dots, - and _")
        return run_import(ctx, source, given, LogForm(place), files)

    called.__doc__ = f"""
    Import the jobs of {source.system.accounting}.

    FILE is {source.file_help}, compressed or not, a directory of such files, or - for standard input.
    Each run of a job is imported once, after its end, in any order. {LEFT_OUT}
    """
    command = in_order(
        click.command(name, epilog=examples(f"arcacct import {name} {source.example}")),
        click.argument("files", nargs=-1, metavar="FILE..."),
        click.option(
            f"--{place}",
            "place",
            metavar="NAME",
            help=f"Name of the {place}, part of each job's identity; without it as {title} calls it, or default.",
        ),
        batch_options(source.system, source.what, follow=True),
    )
    made: click.Command = command(called)  # type: ignore[assignment]
    return made


# `arcacct import slurm`: what sacct prints.


@click.command(
    "slurm",
    epilog=examples(
        "arcacct import slurm --run --since 2026-11-01",
        "arcacct import slurm --run",
        "arcacct import slurm --timezone Europe/Oslo sacct.txt",
        "sacct -a -D --json -S 2026-11-01 | arcacct import slurm -",
    ),
)
@click.argument("files", nargs=-1, metavar="FILE...")
@batch_options(SLURM_SOURCE.system, SLURM_SOURCE.what, program="sacct", timeout_s=sacct.TIMEOUT_S)
@click.option("--cluster", metavar="NAME", help="Name of the cluster, part of each job's identity; else Slurm's own.")
@click.option("--timezone", metavar="ZONE", help="Zone of the times in FILE, e.g. Europe/Oslo; else this host's.")
@click.option(
    "--delimiter", metavar="TEXT", help="The separator of the fields in FILE; only needed if it contains letters."
)
def slurm(
    ctx: click.Context,
    files: tuple[str, ...],
    given: BatchOptions,
    *,
    cluster: str | None,
    timezone: str | None,
    delimiter: str | None,
) -> int:
    """
    Import the jobs of Slurm's own accounting.

    FILE is output of sacct with --parsable2 or --json, for all users' jobs, with their steps and duplicates (-a -D),
    compressed or not, or - for standard input. The columns JobIDRaw, State, Submit, Start, End and AllocCPUS are
    required; without TotalCPU and MaxRSS, CPU time and memory are unknown. With --run it runs sacct with the right
    options. Each run of a job is imported once, after its end, in any order. Unusable records are shown and stored
    (`import rejected`). The exit code is 65 if any is new.
    """
    need_input(files, given, "no FILE: pass output of sacct, or - for standard input; or --run")
    if delimiter == "":
        raise UsageError("--delimiter is empty: give the separator of the fields")
    form = sacct.OutputForm(delimiter, zone_of(timezone), cluster)
    command = sacct.SacctCommand(given.program, given.timeout)
    ask = (lambda work: work.ask(command, given.since, cluster or "")) if given.run else None
    return run_import(ctx, SLURM_SOURCE, given, form, files, ask)


# `arcacct import htcondor`: HTCondor's history.


_ATTRIBUTE = re.compile(r"[A-Za-z_]\w{0,199}", re.ASCII)


def _scores(text: str) -> history.Scores:
    """``TYPE=ATTRIBUTE``. Raises UsageError."""
    name, _, attribute = text.partition("=")
    known = canonical_type(name)
    if known is None or not _ATTRIBUTE.fullmatch(attribute):
        raise UsageError(f"--benchmark {text}: write TYPE=ATTRIBUTE, e.g. HEPscore23=MachineAttrHEPscore230")
    return history.Scores(known, attribute)


@click.command(
    "htcondor",
    epilog=examples(
        "arcacct import htcondor --run --since 2026-11-01",
        "arcacct import htcondor --run",
        "arcacct import htcondor /var/lib/condor/spool/history*",
        "condor_history -json | arcacct import htcondor -",
    ),
)
@click.argument("files", nargs=-1, metavar="FILE...")
@batch_options(HTCONDOR_SOURCE.system, HTCONDOR_SOURCE.what, program="condor_history", timeout_s=history.TIMEOUT_S)
@click.option("--name", metavar="SCHEDD", help="With --run: read the history of this schedd; default: of this host.")
@click.option("--schedd", metavar="NAME", help="Name of the schedd, part of each job's identity; else HTCondor's own.")
@click.option(
    "--benchmark",
    metavar="TYPE=ATTRIBUTE",
    help="The job attribute with the benchmark per core of its machine, e.g. HEPscore23=MachineAttrHEPscore230.",
)
def htcondor(
    ctx: click.Context,
    files: tuple[str, ...],
    given: BatchOptions,
    *,
    name: str | None,
    schedd: str | None,
    benchmark: str | None,
) -> int:
    """
    Import the jobs of HTCondor's history.

    FILE is a history file of a schedd, or output of condor_history with -json, -jsonl or -long, compressed or not, or -
    for standard input. With --run it runs condor_history. Each job is imported once, in any order. Unusable records are
    shown and stored (`import rejected`). The exit code is 65 if any is new.
    """
    complaint = "no FILE: pass a history file or output of condor_history, or - for standard input; or --run"
    need_input(files, given, complaint)
    if name is not None and not given.run:
        raise UsageError("--name needs --run")
    form = history.HistoryForm(schedd, None if benchmark is None else _scores(benchmark))
    command = history.HistoryCommand(given.program, given.timeout, name)
    ask = (lambda work: work.ask(command, given.since, name or "")) if given.run else None
    return run_import(ctx, HTCONDOR_SOURCE, given, form, files, ask)
