"""`arcacct doctor`: is everything right to go live?"""

from __future__ import annotations

import json

import click

from arcacct.cli.context import conf_of
from arcacct.cli.outcomes import GRAVEST_FIRST
from arcacct.cli.speech import Coloured, block, data, examples, print_line
from arcacct.errors import ConfigError
from arcacct.queries.doctor import examine
from arcacct.queries.doctor_checks import ERROR, OK, UNTOLD, VERDICTS, WARNING, Site, Verdict, of_error
from arcacct.wording import sanitise_line

_COLOURS = {OK: "green", WARNING: "yellow", ERROR: "red", UNTOLD: "magenta"}
_WIDTH = max(map(len, VERDICTS))


@click.command(epilog=examples("arcacct doctor", "arcacct doctor --offline", "arcacct doctor --json"))
@click.option("--offline", is_flag=True, help="Connect to no receiver, and look up no name of one.")
@click.option(
    "--timeout",
    "limit_s",
    type=click.FloatRange(1, 3600),
    default=30,
    metavar="SECONDS",
    help="End after SECONDS, whatever does not answer; default 30.",
)
@click.option("--json", "as_json", is_flag=True, help="A list of verdicts: what, verdict, detail, advice, exit_code.")
@click.pass_context
def doctor(ctx: click.Context, offline: bool, limit_s: float, as_json: bool) -> int:
    """
    Check everything that recording and publishing need, from the ground up; change and send nothing.

    One verdict a line (ok, warning, error, or that it cannot be told) with what to do about it. Receivers are connected
    to and asked for nothing but an answer; from AMS a token is asked for and thrown away. The launcher is run in a way
    that records nothing. Run it as the user of A-REX.

    Exits with 0 if there is no error, else with the code of the gravest: 78 configuration, 77 credentials, 69 refused
    by a receiver, 74 databases, 70 a check of the doctor's own that failed, 75 no answer in time.
    """
    try:
        site = Site(conf_of(ctx), ctx.obj["database"], limit_s=max(1.0, limit_s / 3))
    except ConfigError as error:
        return _only(of_error("configuration", error), as_json=as_json)
    found = []
    for verdict in examine(site, limit_s=limit_s, offline=offline):
        found.append(verdict._replace(detail=sanitise_line(verdict.detail), advice=sanitise_line(verdict.advice)))
        if not as_json:
            # One by one: a check that takes its time must not look like a doctor that hangs.
            _say(found[-1])
    if as_json:
        block(json.dumps([one._asdict() for one in found], indent=1), data)
    else:
        _sum_up(found)
    codes = {one.exit_code for one in found}
    return next((code for code in GRAVEST_FIRST if code in codes), max(codes, default=0))


def _only(one: Verdict, *, as_json: bool) -> int:
    """A configuration that cannot be read says nothing of anything else."""
    one = one._replace(detail=sanitise_line(one.detail), advice=sanitise_line(one.advice))
    if as_json:
        block(json.dumps([one._asdict()], indent=1), data)
    else:
        _say(one)
        _sum_up([one])
    return one.exit_code


def _say(one: Verdict) -> None:
    word = Coloured(click.style(f"{one.verdict:<{_WIDTH}}", fg=_COLOURS[one.verdict], bold=one.verdict == ERROR))
    print_line(word, "  ", one.what, ": ", one.text)


def _sum_up(found: list[Verdict]) -> None:
    counts = {kind: sum(one.verdict == kind for one in found) for kind in VERDICTS}
    parts = [f"{counts[OK]} ok", _plural(counts[WARNING], "warning"), _plural(counts[ERROR], "error")]
    if counts[UNTOLD]:
        parts.append(f"{counts[UNTOLD]} cannot be told")
    print_line(", ".join(parts))


def _plural(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
