"""`arcacct import slurm`: what sacct prints."""

from __future__ import annotations

import click

from arcacct.cli.console import examples
from arcacct.cli.import_batch import BatchOptions, batch_options, need_input, run_import
from arcacct.cli.options import zone_of
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
@batch_options(SOURCE.system, SOURCE.what, program="sacct", timeout_s=TIMEOUT_S)
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
    form = OutputForm(delimiter, zone_of(timezone), cluster)
    command = SacctCommand(given.program, given.timeout)
    ask = (lambda work: work.ask(command, given.since, cluster or "")) if given.run else None
    return run_import(ctx, SOURCE, given, form, files, ask)
