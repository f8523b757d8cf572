"""`arcacct status`: one screen, and an exit code for the monitoring."""

from __future__ import annotations

import json

import click

from arcacct.asking.perfdata import perfdata
from arcacct.cli.context import settings_of
from arcacct.cli.speech import Coloured, block, data, examples, print_line, report_error
from arcacct.cli.thresholds import threshold_options
from arcacct.errors import ConfigError, UsageError
from arcacct.queries import health
from arcacct.wording import sanitise_line

_GRAVITY = {health.OK: 0, health.UNKNOWN: 1, health.WARNING: 2, health.CRITICAL: 3}
_COLOURS = ("green", "yellow", "red", "magenta")


@click.command(
    epilog=examples(
        "arcacct status",
        "arcacct status --warn-unsent 6 --crit-unsent 48",
        "arcacct status --json",
        "arcacct status --nagios",
    )
)
@click.option("--json", "as_json", is_flag=True, help="A list of checks instead: subject, severity (0-3), text.")
@click.option("--nagios", is_flag=True, help="As a monitoring plug-in prints it, with performance data.")
@click.pass_context
@threshold_options
def status(ctx: click.Context, as_json: bool, nagios: bool, limits: health.Thresholds) -> int:
    """
    Tell whether all is well, on one screen and by exit code.

    Exits as monitoring plug-ins do: 0 all is well, 1 warning, 2 critical, 3 unknown. The first line is the verdict.
    Needs nothing but the right to read the databases (read_group=) and the certificates.
    """
    if as_json and nagios:
        raise UsageError("--json and --nagios: choose one of them")
    try:
        settings = settings_of(ctx)
    except ConfigError as error:
        # For a plug-in all on one line, without what would begin the figures.
        known = ConfigError(_no_bar(" ".join(error.args))) if nagios else error
        report_error(known, "UNKNOWN: ", err=False)
        return health.UNKNOWN
    found = health.examine(settings)
    checks = [check._replace(text=sanitise_line(check.text)) for check in health.judge(found, limits)]
    verdict = health.worst(checks)
    if as_json:
        block(json.dumps([check._asdict() for check in checks], indent=1), data)
        return verdict
    if nagios:
        _plug_in(checks, " ".join(perfdata(found, limits)))
        return verdict
    grave = [check.subject for check in checks if check.severity]
    print_line(_coloured(verdict), ": " if grave else "", ", ".join(grave))
    width = max(len(check.subject) for check in checks)
    for check in checks:
        mark = () if check.severity == health.OK else (_coloured(check.severity), ": ")
        print_line(f"{check.subject:<{width}}  ", *mark, check.text)
    return verdict


def _plug_in(checks: list[health.Check], figures: str) -> None:
    """
    One line with the figures behind a bar, then the long output: what is not well, then the rest.

    (Whoever is called shows the first line, so that has the first trouble with its text.)
    """
    graver = sorted(checks, key=lambda check: -_GRAVITY[check.severity])
    grave = [check for check in graver if check.severity]
    first = (
        "; ".join([f"{grave[0].subject}: {grave[0].text}", *(check.subject for check in grave[1:])]) if grave else ""
    )
    words = f"{health.WORDS[health.worst(checks)].upper()}: {first or f'{len(checks)} checks'}"
    data(f"{_no_bar(words)} | {sanitise_line(figures, None)}")
    for check in graver:
        data(_no_bar(f"{health.WORDS[check.severity].upper()}: {check.subject}: {check.text}"))


def _no_bar(text: str) -> str:
    # Behind it the monitoring looks for figures.
    return text.replace("|", "/")


def _coloured(severity: int) -> Coloured:
    return Coloured(click.style(health.WORDS[severity].upper(), fg=_COLOURS[severity], bold=True))
