"""`arcacct config` and `arcacct doctor`: whether everything is ready to go live."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from arcacct.cli.console import Coloured, block, examples, print_line
from arcacct.cli.options import conf_of, next_start
from arcacct.cli.tables import LISTED, format_option, show
from arcacct.config import parser
from arcacct.config.options import errors, targets
from arcacct.config.parser import Conf
from arcacct.config.paths import places
from arcacct.config.review import callouts
from arcacct.database.location import misplaced
from arcacct.errors import ConfigError
from arcacct.files.directories import unseen
from arcacct.targets import kinds
from arcacct.wording import count_of, sanitise_line

if TYPE_CHECKING:
    from arcacct.health.facts import Check

# The modules of the doctor's checks and of certificates are 200: each command loads only its own.

# `arcacct doctor`: is everything right to go live?


VERDICTS = ("ok", "warning", "error", "unknown")
"""The words of this command for severities."""
WIDTH = max(map(len, VERDICTS))


@click.command(epilog=examples("arcacct doctor", "arcacct doctor --offline", "arcacct doctor --format json"))
@click.option("--offline", is_flag=True, help="Do not connect to receivers, and do not resolve their names.")
@click.option(
    "--timeout",
    "limit_s",
    type=click.FloatRange(1, 3600),
    default=30,
    metavar="SECONDS",
    help="End after SECONDS, even without answers; default 30.",
)
@format_option(LISTED, "a list of verdicts: what, verdict, detail, advice, exit_code, manual", ("json",))
@click.pass_context
def doctor(ctx: click.Context, offline: bool, limit_s: float, form: str) -> int:
    """
    Check everything that recording and publishing need; change and send nothing.

    Prints one verdict per line (ok, warning, error or unknown) with what to do about it. It connects to receivers and
    only checks their answer; from AMS it requests a token and discards it. It runs the launcher without recording
    anything. Run it as the user of A-REX.

    Exits with 0 if there is no error, else with the most severe code: 78 configuration, 77 credentials, 69 rejected by
    a receiver, 74 databases, 70 internal error of a check, 75 no answer in time.
    """
    from arcacct.health.doctor import examine  # noqa: PLC0415
    from arcacct.health.doctor_checks import Site, of_error  # noqa: PLC0415

    try:
        site = Site(next_start(ctx), ctx.obj["database"], limit_s=max(1.0, limit_s / 3))
    except ConfigError as error:
        # A configuration that cannot be read allows no other finding.
        return _print([of_error("configuration", error)], form)
    return _print(examine(site, limit_s=limit_s, offline=offline), form)


def verdict_word(severity: int) -> Coloured:
    """The word for a severity in its colour, as wide as the longest one."""
    from arcacct.cli.status import COLOURS  # noqa: PLC0415
    from arcacct.health.facts import CRITICAL  # noqa: PLC0415

    return Coloured(click.style(f"{VERDICTS[severity]:<{WIDTH}}", fg=COLOURS[severity], bold=severity == CRITICAL))


def _print(verdicts: Iterable[Check], form: str) -> int:
    """Print each once it is known, and return the exit code."""
    from arcacct.cli.targets import most_severe  # noqa: PLC0415
    from arcacct.health.facts import CRITICAL, OK, UNKNOWN, WARNING  # noqa: PLC0415

    found = []
    for verdict in verdicts:
        one = verdict._replace(detail=sanitise_line(verdict.detail), advice=sanitise_line(verdict.advice))
        found.append(one)
        if form == "text":
            # One by one: a check that takes its time must not look like a doctor that hangs.
            print_line(verdict_word(one.severity), "  ", one.subject, ": ", one.text)
    if form == "text":
        counts = [sum(one.severity == severity for one in found) for severity in range(len(VERDICTS))]
        parts = [f"{counts[OK]} ok", count_of(counts[WARNING], "warning"), count_of(counts[CRITICAL], "error")]
        if counts[UNKNOWN]:
            parts.append(f"{counts[UNKNOWN]} {VERDICTS[UNKNOWN]}")
        print_line(", ".join(parts))
    else:
        rows = (
            (one.subject, VERDICTS[one.severity], one.detail, one.advice, one.exit_code, one.manual) for one in found
        )
        show(("what", "verdict", "detail", "advice", "exit_code", "manual"), rows, form)
    return most_severe(one.exit_code for one in found)


# `arcacct config`: check the configuration, and show the settings in use.


@click.group(epilog=examples("arcacct config check", "arcacct config show"))
def config() -> None:
    """Check and show the configuration."""


@config.command("check", epilog=examples("arcacct --config /tmp/arc.conf config check"))
@format_option(LISTED, "a list of problems: severity, file, line, block, option, text")
@click.pass_context
def check_command(ctx: click.Context, form: str) -> int:
    """
    List every error: file, line, block, option, what is wrong, what is right.

    Checks arc.conf and arc.conf.d as the next start of A-REX will read them, arcacct.conf, and the files they name
    (certificate, key, CA directory, the programs of callouts). Exits with 78 if there is an error, with 0 if there are
    only warnings.
    """
    from arcacct.config.check import check, not_restarted  # noqa: PLC0415
    from arcacct.health.doctor_checks import unknown_vos  # noqa: PLC0415

    running, conf = conf_of(ctx), next_start(ctx)
    if conf.arc_conf != running.arc_conf:
        print_line(
            f"{parser.ARC_CONF}: applies from the next start of A-REX, which now runs with {running.arc_conf}", err=True
        )
    given = ctx.obj["database"]
    problems = [
        *check(conf, kinds(conf)),
        *(not_restarted(running) if conf.arc_conf != running.arc_conf else ()),
        *unknown_vos(conf, kinds(conf), given),
    ]
    if form == "text":
        for problem in problems:
            print_line(str(problem))
    else:
        columns = ("severity", "file", "line", "block", "option", "text")
        show(columns, ([getattr(problem, name) for name in columns] for problem in problems), form)
    wrong = len(errors(problems))
    counts = f"{count_of(wrong, 'error')}, {count_of(len(problems) - wrong, 'warning')}"
    print_line(f"{'not ok' if wrong else 'ok'}: {', '.join(conf.files) or 'no file'}: {counts}", err=True)
    for target in targets(conf, kinds(conf), []):
        if target.transport_options is not None and target.transport_options.proxy is not None:
            print_line(f"{target.name}: {target.route}", err=True)
    for text in _astray(conf, given):
        print_line(text, err=True)
    return ConfigError.exit_code if wrong else 0


@config.command("show", epilog=examples("arcacct config show"))
@click.pass_context
def show_command(ctx: click.Context) -> None:
    """
    Print the settings in use, each under its file and line.

    The output has the syntax of arcacct.conf. It names key files but never shows their content.
    """
    from arcacct.config.check import show  # noqa: PLC0415

    conf = conf_of(ctx)
    block(show(conf, kinds(conf), ctx.obj["database"]))


def _astray(conf: Conf, database: str | None) -> Iterator[str]:
    """A control directory that `arcacct doctor` will refuse: no error here, since A-REX makes it at its first start."""
    try:
        here = places(conf, None, database)
    except ConfigError:
        return  # It is already among the problems.
    what = misplaced(here) if conf.files else ""
    todo = (
        "arcacct does not create a database there until A-REX has run once (on a host without A-REX set database= in "
        "[arcacct])"
    )
    if not what and callouts(conf) and not os.path.isdir(here.controldir):
        what = f"{unseen(here.controldir) or 'no such control directory'}, but [arex] has callouts of A-REX"
        todo = "start A-REX once, or set its control directory"
    if what:
        yield f"{here.controldir} (from {here.controldir_from}): {what}; {todo}"
