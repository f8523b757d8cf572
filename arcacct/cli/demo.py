"""`arcacct demo`: the whole, on one machine, in a few seconds."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence

import click

from arcacct.cli.speech import examples, print_line
from arcacct.demo import rehearse
from arcacct.errors import ArcacctError
from arcacct.publishing.target_run import TargetResult
from arcacct.wording import count_of

KINDS = {"ur": "usage records", "car": "job records", "summaries": "summaries"}
"""What the records of a message are called; the sync message is told of apart."""
PLACES = {
    "accounting.db": "the records, in the tables that A-REX knows (SQLite)",
    "publishing.db": "the ledger: every message, what was in it, what was answered",
    "received/": "the {documents} documents that SGAS and APEL got, and index.jsonl with the answers",
    "control/": "the jobs' files, as A-REX keeps them",
    "arc.conf": "the configuration of the computing element",
    "arcacct.conf": "the targets, and where the databases are",
}
QUERY = "SELECT Users.Name, count(*), sum(UsedWalltime) FROM AAR JOIN Users ON Users.ID = UserID GROUP BY 1"


@click.command(epilog=examples("arcacct demo", "arcacct demo /tmp/demo"))
@click.argument("directory", metavar="[DIR]", default="arcacct-demo")
def demo(directory: str) -> None:
    """
    Record and publish a small real control directory, here and now.

    Lays out the files of twelve jobs of an ARC computing element in DIR (arcacct-demo), a new directory, records them,
    runs receivers that answer as SGAS and APEL do, publishes to them and publishes the same day again. Nothing leaves
    this machine. Exits with 0 only if every record was recorded, sent and accepted, else with 70 and what is missing.
    """
    done = rehearse(directory)
    print_line(f"Twelve jobs of an ARC computing element, their times moved to yesterday, {done.day}.")
    print_line()
    print_line(
        f"Recorded      {count_of(len(dict(done.hooked)), 'job')} by the hook, in {count_of(len(done.hooked), 'event')}"
    )
    print_line(f"              {count_of(done.swept.recorded, 'job')} that the hook never saw, by sweep")
    _tell("Published", done.published)
    _tell("Republished", done.republished)
    print_line()
    if done.missing:
        raise ArcacctError(f"{done.directory}: not everything arrived:", *(f"  {line}" for line in done.missing))
    print_line(
        f"All {len(done.records)} jobs were recorded, sent and accepted. Nothing counts twice: of what came again,"
    )
    print_line(f"SGAS ignored all {done.ignored_repeats} records, and APEL replaced what it had.")
    print_line()
    print_line(f"Where to look, in {done.directory}:")
    width = max(map(len, PLACES))
    for name, what in PLACES.items():
        print_line(f"  {name:<{width}}  {what.format(documents=done.documents)}")
    print_line()
    print_line("What to try next:")
    # How this program can be called again from where it was called.
    program = shlex.quote(sys.argv[0])
    if os.path.basename(sys.argv[0]) != "arcacct" or shutil.which("arcacct") == os.path.abspath(sys.argv[0]):
        program = "arcacct"
    conf = shlex.quote(os.path.join(done.directory, "arc.conf"))
    print_line(f"  {program} --config {conf} config show")
    print_line(f"  {program} --config {conf} publish --now --dry-run")
    database = os.path.join(done.directory, "accounting.db")
    if shutil.which("sqlite3"):
        print_line(f'  sqlite3 {shlex.quote(database)} "{QUERY}"')
        return
    # The sqlite3 program may not be there, Python is.
    rows = f"sqlite3.connect({json.dumps(database)}).execute({json.dumps(QUERY)})"
    print_line(f"  python3 -c {shlex.quote(f'import sqlite3; [print(*row) for row in {rows}]')}")


def _tell(verb: str, outcomes: Sequence[TargetResult]) -> None:
    width = max((len(outcome.target) for outcome in outcomes), default=0)
    for outcome in outcomes:
        sent = outcome.summary.sent
        parts = [f"{sent[kind].records} {name}" for kind, name in KINDS.items() if kind in sent]
        if "sync" in sent:
            parts.append("the sync message")
        print_line(f"{verb:<12}  {outcome.target:<{width}}  {' and '.join(parts) or 'nothing'}")
        verb = ""
