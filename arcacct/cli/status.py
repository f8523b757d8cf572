"""`arcacct status`: one screen, and an exit code for the monitoring."""

from __future__ import annotations

import json

import click

from arcacct.asking import health
from arcacct.cli.context import settings_of
from arcacct.cli.speech import Coloured, block, data, examples, say, say_error
from arcacct.cli.thresholds import threshold_options
from arcacct.errors import ConfigError
from arcacct.wording import fit

_COLOURS = ("green", "yellow", "red", "magenta")


@click.command(
    epilog=examples("arcacct status", "arcacct status --warn-unsent 6 --crit-unsent 48", "arcacct status --json")
)
@click.option("--json", "as_json", is_flag=True, help="A list of checks instead: subject, severity (0-3), text.")
@click.pass_context
@threshold_options
def status(ctx: click.Context, as_json: bool, limits: health.Thresholds) -> int:
    """
    Tell whether all is well, on one screen and by exit code.

    Exits as monitoring plug-ins do: 0 all is well, 1 warning, 2 critical, 3 unknown. The first line is the verdict.
    Needs nothing but the right to read the databases (read_group=) and the certificates.
    """
    try:
        settings = settings_of(ctx)
    except ConfigError as error:
        say_error(error, "UNKNOWN: ", err=False)
        return health.UNKNOWN
    found = health.judge(health.examine(settings), limits)
    checks = [check._replace(text=fit(check.text)) for check in found]
    verdict = health.worst(checks)
    if as_json:
        block(json.dumps([check._asdict() for check in checks], indent=1), data)
        return verdict
    grave = [check.subject for check in checks if check.severity]
    say(_coloured(verdict), ": " if grave else "", ", ".join(grave))
    width = max(len(check.subject) for check in checks)
    for check in checks:
        mark = () if check.severity == health.OK else (_coloured(check.severity), ": ")
        say(f"{check.subject:<{width}}  ", *mark, check.text)
    return verdict


def _coloured(severity: int) -> Coloured:
    return Coloured(click.style(health.WORDS[severity].upper(), fg=_COLOURS[severity], bold=True))
