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
@click.option("--run", is_flag=True, help="Run sacct, for the time since its last run (and a day before).")
@click.option("--since", type=INSTANT, metavar="TIME", help="With --run: for the time since TIME.")
@click.option("--sacct", default="sacct", show_default=True, metavar="PROGRAM", help="With --run: its name or path.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="With --run: time limit for one day.",
)
@click.option("--cluster", metavar="NAME", help="Name of the cluster, part of each job's identity; else Slurm's own.")
@click.option("--timezone", metavar="ZONE", help="Zone of the times in FILE, e.g. Europe/Oslo; else this host's.")
@click.option(
    "--delimiter", metavar="TEXT", help="The separator of the fields in FILE; only needed if it contains letters."
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
    Import the jobs of Slurm's own accounting.

    FILE is output of sacct with --parsable2 or --json, for all users' jobs, with their steps and duplicates (-a -D),
    compressed or not, or - for standard input. The columns JobIDRaw, State, Submit, Start, End and AllocCPUS are
    required; without TotalCPU and MaxRSS, CPU time and memory are unknown. With --run it runs sacct with the right
    options. Each run of a job is imported once, after its end, in any order. Unusable records are shown and stored
    (`import rejected`). The exit code is 65 if there is a new one.
    """
    need_input(files, given, "no FILE: pass output of sacct, or - for standard input; or --run", run=run)
    if since is not None and not run:
        raise UsageError("--since needs --run")
    if delimiter == "":
        raise UsageError("--delimiter is empty: give the separator of the fields")
    form = OutputForm(delimiter, zone_of(timezone), cluster)
    command = SacctCommand(sacct, timeout)
    ask = (lambda work: work.ask(command, since, cluster or "")) if run else None
    return run_import(ctx, SOURCE, given, form, files, ask)
