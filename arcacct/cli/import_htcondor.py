"""`arcacct import htcondor`: HTCondor's history."""

from __future__ import annotations

import re
import time
from typing import NamedTuple

import click

from arcacct.benchmark import canonical_type
from arcacct.cli.console import examples, print_error, print_line
from arcacct.cli.options import INSTANT, settings_of, together
from arcacct.cli.progress import print_counts, print_retried, print_unmeasured, print_unusable, wait_option
from arcacct.database.access import accounting
from arcacct.errors import InputError, UsageError
from arcacct.records.imports import BatchPolicy, BatchSite
from arcacct.sources.htcondor.history import TIMEOUT_S, HistoryCommand, HistoryForm, Scores
from arcacct.sources.htcondor.importer import HTCondorImport
from arcacct.wording import count_of

_ATTRIBUTE = re.compile(r"[A-Za-z_]\w{0,199}", re.ASCII)


class HTCondorOptions(NamedTuple):
    """What is to be done, and what a history does not say of itself."""

    run: bool
    condor_history: str
    name: str | None
    since: int | None
    timeout: float
    schedd: str | None
    benchmark: str | None
    wait: float
    prefer_htcondor: bool
    derive_again: bool
    retry: bool
    lenient: bool

    @property
    def form(self) -> HistoryForm:
        """How a history is read."""
        return HistoryForm(self.schedd, None if self.benchmark is None else _scores(self.benchmark))


def _scores(text: str) -> Scores:
    """``TYPE=ATTRIBUTE``. Raises UsageError."""
    name, _, attribute = text.partition("=")
    known = canonical_type(name)
    if known is None or not _ATTRIBUTE.fullmatch(attribute):
        raise UsageError(f"--benchmark {text}: write TYPE=ATTRIBUTE, e.g. HEPscore23=MachineAttrHEPscore230")
    return Scores(known, attribute)


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
@click.option("--run", is_flag=True, help="Ask condor_history itself, for all time since it was asked last.")
@click.option("--since", type=INSTANT, metavar="TIME", help="With --run: for jobs that ended since then.")
@click.option(
    "--condor-history",
    default="condor_history",
    show_default=True,
    metavar="PROGRAM",
    help="With --run: its name or path.",
)
@click.option("--name", metavar="SCHEDD", help="With --run: ask this schedd; else the history of this host.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="With --run: how long it may take.",
)
@click.option("--schedd", metavar="NAME", help="Name of the schedd, part of each job's identity; else HTCondor's own.")
@click.option(
    "--benchmark",
    metavar="TYPE=ATTRIBUTE",
    help="The attribute in which jobs have the benchmark of a core of their machine, e.g."
    " HEPscore23=MachineAttrHEPscore230.",
)
@wait_option
@click.option("--prefer-htcondor", is_flag=True, help="In jobs of A-REX, HTCondor's measured values win.")
@click.option("--derive-again", is_flag=True, help="Rebuild jobs from imported ones, after a change of map lines.")
@click.option("--retry", is_flag=True, help="Try again what was rejected, see `import rejected`; then FILE, if given.")
@click.option("--lenient", is_flag=True, help="Exit with 0 also if jobs or files could not be used.")
@click.pass_context
@together(HTCondorOptions, "given")
def htcondor(ctx: click.Context, files: tuple[str, ...], given: HTCondorOptions) -> int:
    """
    Take over the jobs of HTCondor's history.

    FILE is a history file of a schedd, or what condor_history printed with -json, -jsonl or -long, compressed or not,
    or - for standard input. With --run condor_history is asked. Repeat it as often as you like, in any order: each job
    is taken once. What cannot be used is said, left out and kept (`import rejected`); then the exit code is 65, but not
    again for what was rejected before.
    """
    if not (files or given.run or given.derive_again or given.retry):
        raise UsageError(
            "no FILE: give a history file or what condor_history printed, or - for standard input; or --run"
        )
    if (given.since is not None or given.name is not None) and not given.run:
        raise UsageError("--since and --name ask condor_history: they need --run")
    form = given.form
    settings = settings_of(ctx)
    site = BatchSite("", settings.map, settings.places.rules.default_benchmark, settings.queue_benchmarks)
    policy = BatchPolicy(site, int(time.time()), round(given.wait * 3600), not given.prefer_htcondor)
    with accounting(settings.places) as con:
        work = HTCondorImport(settings.places, con, policy, form, print_error)
        if given.retry:
            print_retried(work.retry())
        if given.derive_again:
            work.again()
        work.files(files)
        if given.run:
            work.ask(HistoryCommand(given.condor_history, given.timeout, given.name), given.since)
        work.finish()
    report, taken = work.report, work.report.taken
    print_counts(
        (report.rejected, "job", " not usable; all others are imported"),
        (report.failed_jobs, "job", " not made from what is kept of it: see the reasons above"),
        (report.more_conflicts, "further value", " told differently by A-REX and HTCondor"),
        (
            report.elsewhere,
            "job",
            " left out: of the grid, scheduler or local universe, which take no slot of the pool",
        ),
        (taken.waiting, "job", " not recorded yet: each may be an unfinished ARC job (see --wait)"),
        (taken.pruned, "job", " left out: moved into an archive by `arcacct db prune`"),
    )
    print_line(
        f"{count_of(report.jobs, 'job')} read, {report.unfinished} unfinished, {report.never_started} never started:"
        f" {taken.new} new, {taken.known} known; {count_of(taken.added, 'job')} added,"
        f" {taken.changed} changed, {count_of(taken.enriched, 'job')} of others completed"
    )
    print_unmeasured(taken)
    print_unusable(report.unusable)
    # What was rejected before, and has not changed, is no news.
    unusable = report.news + report.unreadable + report.failed_jobs
    return InputError.exit_code if unusable and not given.lenient else 0
