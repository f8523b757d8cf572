"""`arcacct import slurm`: what sacct prints."""

from __future__ import annotations

import click

from arcacct.cli.console import examples
from arcacct.cli.import_batch import BatchOptions, batch_options, need_input, run_import
from arcacct.cli.options import INSTANT, zone_of
from arcacct.errors import UsageError
from arcacct.sources.slurm.importer import SOURCE
from arcacct.sources.slurm.sacct import TIMEOUT_S, OutputForm, SacctCommand


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
@batch_options(SOURCE.system, SOURCE.what)
def slurm(
    ctx: click.Context,
    files: tuple[str, ...],
    given: BatchOptions,
    *,
    run: bool,
    sacct: str,
    since: int | None,
    timeout: float,
    cluster: str | None,
    timezone: str | None,
    delimiter: str | None,
) -> int:
    """
    Take over the jobs of Slurm's own accounting.

    FILE is what sacct printed: with --parsable2 or --json, all users' jobs, with their steps and duplicates (-a -D),
    compressed or not, or - for standard input. Of columns at least JobIDRaw, State, Submit, Start, End and AllocCPUS
    are needed; without TotalCPU and MaxRSS nothing is known of CPU time and memory. With --run sacct is asked in the
    right way. Repeat it as often as you like, in any order: each run of a job is taken once, when it is over. What
    cannot be used is said, left out and kept (`import rejected`); then the exit code is 65, but not
    again for what was rejected before.
    """
    need_input(files, given, "no FILE: give what sacct printed, or - for standard input; or --run", run=run)
    if since is not None and not run:
        raise UsageError("--since asks sacct: it needs --run")
    if delimiter == "":
        raise UsageError("--delimiter is empty: nothing divides fields")
    form = OutputForm(delimiter, zone_of(timezone), cluster)
    command = SacctCommand(sacct, timeout)
    ask = (lambda work: work.ask(command, since, cluster or "")) if run else None
    return run_import(ctx, SOURCE, given, form, files, ask)
