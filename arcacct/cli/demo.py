"""`arcacct demo`: the whole, on one machine, in a few seconds."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence

import click

from arcacct.cli.speech import examples, say
from arcacct.demo import Rehearsal, rehearse
from arcacct.errors import ArcacctError
from arcacct.publishing.target_run import Outcome

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
    for line in _story(done):
        say(line)
    if done.missing:
        raise ArcacctError(f"{done.directory}: not everything arrived:", *(f"  {line}" for line in done.missing))
    for line in _conclusion(done):
        say(line)


def _story(done: Rehearsal) -> Iterator[str]:
    jobs = len(dict(done.hooked))
    yield f"Twelve jobs of an ARC computing element, their times moved to yesterday, {done.day}."
    yield ""
    yield f"Recorded      {jobs} jobs by the hook, in {len(done.hooked)} changes of state"
    yield f"              {done.swept.recorded} jobs that the hook never saw, by sweep"
    yield from _table("Published", done.published)
    yield from _table("Republished", done.republished)
    yield ""


def _table(verb: str, outcomes: Sequence[Outcome]) -> Iterator[str]:
    width = max((len(outcome.target) for outcome in outcomes), default=0)
    for outcome in outcomes:
        yield f"{verb:<12}  {outcome.target:<{width}}  {_sent(outcome)}"
        verb = ""


def _sent(outcome: Outcome) -> str:
    sent = outcome.tally.sent
    parts = [f"{sent[kind].records} {name}" for kind, name in KINDS.items() if kind in sent]
    if "sync" in sent:
        parts.append("the sync message")
    return " and ".join(parts) or "nothing"


def _conclusion(done: Rehearsal) -> Iterator[str]:
    width = max(map(len, PLACES))
    yield f"All {len(done.records)} jobs were recorded, sent and accepted. Nothing counts twice: of what came again,"
    yield f"SGAS ignored all {done.ignored_repeats} records, and APEL replaced what it had."
    yield ""
    yield f"Where to look, in {done.directory}:"
    for name, what in PLACES.items():
        yield f"  {name:<{width}}  {what.format(documents=done.documents)}"
    yield ""
    yield "What to try next:"
    conf = shlex.quote(os.path.join(done.directory, "arc.conf"))
    yield f"  {_program()} --config {conf} config show"
    yield f"  {_program()} --config {conf} publish --now --dry-run"
    yield f"  {_query(os.path.join(done.directory, 'accounting.db'))}"


def _program() -> str:
    """How this program can be called again from where it was called."""
    name = sys.argv[0]
    if os.path.basename(name) != "arcacct" or shutil.which("arcacct") == os.path.abspath(name):
        return "arcacct"
    return shlex.quote(name)


def _query(database: str) -> str:
    if shutil.which("sqlite3"):
        return f'sqlite3 {shlex.quote(database)} "{QUERY}"'
    # The sqlite3 program may not be there, Python is.
    code = (
        f"import sqlite3; [print(*row) for row in sqlite3.connect({json.dumps(database)}).execute({json.dumps(QUERY)})]"
    )
    return f"python3 -c {shlex.quote(code)}"
