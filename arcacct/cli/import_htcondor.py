"""`arcacct import htcondor`: HTCondor's history."""

from __future__ import annotations

import re

import click

from arcacct.benchmark import canonical_type
from arcacct.cli.console import examples
from arcacct.cli.import_batch import BatchOptions, batch_options, need_input, run_import
from arcacct.errors import UsageError
from arcacct.sources.htcondor.history import TIMEOUT_S, HistoryCommand, HistoryForm, Scores
from arcacct.sources.htcondor.importer import SOURCE

_ATTRIBUTE = re.compile(r"[A-Za-z_]\w{0,199}", re.ASCII)


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
@batch_options(SOURCE.system, SOURCE.what, program="condor_history", timeout_s=TIMEOUT_S)
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
    form = HistoryForm(schedd, None if benchmark is None else _scores(benchmark))
    command = HistoryCommand(given.program, given.timeout, name)
    ask = (lambda work: work.ask(command, given.since, name or "")) if given.run else None
    return run_import(ctx, SOURCE, given, form, files, ask)
