"""`arcacct import slurm`: what sacct prints."""

from __future__ import annotations

import time
from typing import NamedTuple

import click

from arcacct.cli.console import examples, print_error, print_line
from arcacct.cli.options import INSTANT, settings_of, together, zone_of
from arcacct.cli.progress import print_counts, print_retried, print_unmeasured, print_unusable, wait_option
from arcacct.database.access import accounting
from arcacct.errors import InputError, UsageError
from arcacct.records.imports import BatchPolicy, BatchSite
from arcacct.sources.slurm.importer import SlurmImport
from arcacct.sources.slurm.sacct import TIMEOUT_S, OutputForm, SacctCommand
from arcacct.wording import count_of


class SlurmOptions(NamedTuple):
    """What is to be done, and what outputs do not say of themselves."""

    run: bool
    sacct: str
    since: int | None
    timeout: float
    cluster: str | None
    timezone: str | None
    delimiter: str | None
    wait: float
    prefer_slurm: bool
    derive_again: bool
    retry: bool
    lenient: bool

    @property
    def form(self) -> OutputForm:
        """How outputs are read."""
        return OutputForm(self.delimiter, zone_of(self.timezone), self.cluster)


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
@click.option("--run", is_flag=True, help="Ask sacct itself, for all time since it was asked last (and a day before).")
@click.option("--since", type=INSTANT, metavar="TIME", help="With --run: for all time since then.")
@click.option("--sacct", default="sacct", show_default=True, metavar="PROGRAM", help="With --run: its name or path.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="With --run: how long it may take for a day.",
)
@click.option("--cluster", metavar="NAME", help="Name of the cluster, part of each job's identity; else Slurm's own.")
@click.option("--timezone", metavar="ZONE", help="Zone of the times in FILE, e.g. Europe/Oslo; else this host's.")
@click.option(
    "--delimiter", metavar="TEXT", help="The text between the fields of FILE; only needed where it has letters."
)
@wait_option
@click.option("--prefer-slurm", is_flag=True, help="In jobs of A-REX, Slurm's measured values win.")
@click.option("--derive-again", is_flag=True, help="Rebuild jobs from imported runs, after a change of map lines.")
@click.option("--retry", is_flag=True, help="Try again what was rejected, see `import rejected`; then FILE, if given.")
@click.option("--lenient", is_flag=True, help="Exit with 0 also if jobs or files could not be used.")
@click.pass_context
@together(SlurmOptions, "given")
def slurm(ctx: click.Context, files: tuple[str, ...], given: SlurmOptions) -> int:
    """
    Take over the jobs of Slurm's own accounting.

    FILE is what sacct printed: with --parsable2 or --json, all users' jobs, with their steps and duplicates (-a -D),
    compressed or not, or - for standard input. Of columns at least JobIDRaw, State, Submit, Start, End and AllocCPUS
    are needed; without TotalCPU and MaxRSS nothing is known of CPU time and memory. With --run sacct is asked in the
    right way. Repeat it as often as you like, in any order: each run of a job is taken once, when it is over. What
    cannot be used is said, left out and kept (`import rejected`); then the exit code is 65, but not
    again for what was rejected before.
    """
    if not (files or given.run or given.derive_again or given.retry):
        raise UsageError("no FILE: give what sacct printed, or - for standard input; or --run")
    if given.since is not None and not given.run:
        raise UsageError("--since asks sacct: it needs --run")
    if given.delimiter == "":
        raise UsageError("--delimiter is empty: nothing divides fields")
    settings = settings_of(ctx)
    site = BatchSite("", settings.map, settings.places.rules.default_benchmark, settings.queue_benchmarks)
    policy = BatchPolicy(site, int(time.time()), round(given.wait * 3600), not given.prefer_slurm)
    with accounting(settings.places) as con:
        work = SlurmImport(settings.places, con, policy, given.form, print_error)
        if given.retry:
            print_retried(work.retry())
        if given.derive_again:
            work.again()
        work.files(files)
        if given.run:
            work.ask(SacctCommand(given.sacct, given.timeout), given.since)
        work.finish()
    report, taken = work.report, work.report.taken
    print_counts(
        (report.rejected, "job", " not usable; all others are imported"),
        (report.lines, "line", " not usable; no job was left out for that"),
        (report.noise, "line", " ignored: blank, or without the delimiter"),
        (report.failed_jobs, "job", " not made from the imported runs: see the reasons above"),
        (report.more_conflicts, "further value", " told differently by A-REX and Slurm"),
        (taken.waiting, "run", " not recorded yet: each may be an unfinished ARC job (see --wait)"),
        (taken.pruned, "run", " left out: the job was moved into an archive by `arcacct db prune`"),
    )
    print_line(
        f"{count_of(report.jobs, 'job')} read, {report.unfinished} unfinished, {report.never_started} never started:"
        f" {count_of(taken.new, 'new run')}, {taken.known} known; {count_of(taken.added, 'job')} added,"
        f" {taken.changed} changed, {count_of(taken.enriched, 'job')} of others completed"
    )
    print_unmeasured(taken)
    print_unusable(report.unusable)
    # What was rejected before, and has not changed, is no news.
    unusable = report.news + report.unreadable + report.failed_jobs
    return InputError.exit_code if unusable and not given.lenient else 0
