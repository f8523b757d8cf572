"""`arcacct setup`: everything that a host needs to record and publish, step by step."""

from __future__ import annotations

import os
from contextlib import suppress

import click

from arcacct.cli.config import VERDICTS, WIDTH, verdict_word
from arcacct.cli.console import Coloured, ask, examples, print_line
from arcacct.cli.options import next_start, yes_option
from arcacct.cli.tables import TOLD, format_option
from arcacct.cli.tables import show as show_rows
from arcacct.cli.targets import most_severe
from arcacct.config.check import LAUNCHERS, check
from arcacct.config.options import errors
from arcacct.config.parser import load
from arcacct.errors import ConfigError, UsageError, use_as
from arcacct.files.safe_open import open_directory
from arcacct.health.doctor_checks import RESTART, Site
from arcacct.health.facts import CRITICAL, OK, UNKNOWN
from arcacct.health.setup import SetupStep, callout_file, callout_lines, is_own_file, steps
from arcacct.targets import kinds
from arcacct.wording import count_of


@click.command(epilog=examples("arcacct setup", "arcacct setup --write", "arcacct setup --check --format json"))
@click.option("--check", "only_check", is_flag=True, help="Only check whether all steps are done.")
@format_option(TOLD, "the steps as a list: step, verdict, details, do, undo")
@click.option("--write", is_flag=True, help="Write the callouts to arc.conf.d, after the launcher has run.")
@click.option("--launcher", metavar="FILE", help="The launcher in the callouts, if it is elsewhere.")
@yes_option("With --write: ")
@click.pass_context
def setup(ctx: click.Context, *, only_check: bool, form: str, write: bool, launcher: str | None, yes: bool) -> int:
    """
    Guide the installation: check everything before A-REX restarts, and show the next steps.

    The steps are configuration, clock, launcher, callouts, database, history, benchmark, targets with the DNs to
    register, rehearsal, switch from jura-ng, timers. Stop and resume where you like. Without --write nothing is
    changed.

    Exits with 0 if no required step is left, else with the most severe code: 78 configuration, 77 credentials, 69
    switch from jura-ng, 74 database.
    """
    if write and only_check:
        raise UsageError("--write changes a file and --check changes nothing: use only one of them")
    site = _site(ctx, launcher)
    found = list(steps(site))
    if write:
        _write(site, found, yes=yes)
        found = list(steps(_site(ctx, launcher)))
    if form == "json":
        columns = ("step", "verdict", "details", "do", "undo")
        show_rows(columns, ((one.name, VERDICTS[one.severity], _details(one), one.do, one.undo) for one in found), form)
    else:
        for one in found:
            _show(one)
        left = [one for one in found if one.is_open]
        if left and not only_check:
            _lead(left[0])
        done = f"{count_of(len(left), 'step')} left" if left else "no step is left; run `arcacct doctor`"
        print_line(done, err=True)
    return most_severe(verdict.exit_code for one in found for verdict in one.checks if verdict.severity == CRITICAL)


def _site(ctx: click.Context, launcher: str | None) -> Site:
    usual = next(filter(os.path.exists, LAUNCHERS), LAUNCHERS[-1])
    return Site(next_start(ctx), ctx.obj["database"], launcher=launcher or usual)


def _write(site: Site, found: list[SetupStep], *, yes: bool) -> None:
    """Write the callouts; raises ConfigError, and leaves the file as it was, when A-REX would not start with them."""
    by_name = {one.name: one for one in found}
    if site.callouts or site.is_without_arex:
        print_line("callouts: nothing to write", err=True)
        return
    conf = site.conf
    if site.release.major < 7:
        raise ConfigError(
            f"{conf.arc_conf}.d: this is A-REX 6 ({site.release.source or 'there is no such directory'}), which does"
            f" not read it; add the lines that `arcacct setup` prints to [arex] of {conf.arc_conf}"
        )
    if by_name["launcher"].is_open:
        _show(by_name["launcher"])
        raise ConfigError("the callouts are not written, because the launcher does not work: A-REX would fail each job")
    before = {str(one) for one in errors(check(conf, site.kinds))}
    path = callout_file(conf)
    text = "\n".join(
        (
            "# Written by `arcacct setup --write`. To undo: remove this file and restart A-REX.",
            "[arex]",
            *callout_lines(site.launchers[0], site.release),
            "",
        )
    )
    old: str | None = None
    with suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        old = file.read()
    if old is not None and not is_own_file(old):
        raise ConfigError(f"{path}: contains lines other than callouts of arcacct; move them to another file")
    ask(f"write {path}?", yes=yes)
    folder, name = os.path.split(path)
    try:
        with open_directory(folder) as place:
            place.replace(name, text.encode(), 0o644)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}; {use_as(folder, 'root')}") from error
    now = load(conf.arc_conf, os.environ)
    new = [one for one in errors(check(now, kinds(now))) if str(one) not in before]
    if new:
        with open_directory(folder) as place:
            if old is None:
                os.unlink(name, dir_fd=place.fd)
            else:
                place.replace(name, old.encode(), 0o644)
        raise ConfigError(f"{path}: removed again, because it makes the configuration wrong:", *map(str, new))
    print_line(f"{path}: written; restart A-REX: {RESTART}", err=True)


def _show(one: SetupStep) -> None:
    wrong = [verdict for verdict in one.checks if verdict.severity != OK]
    if one.is_open:
        # A missing file cannot be examined: that it is missing is reported already.
        wrong = [verdict for verdict in wrong if verdict.severity != UNKNOWN]
    about = [verdict for verdict in one.checks if verdict.subject == one.name]
    for verdict in wrong or (about or one.checks)[-1:]:
        subject = "" if verdict.subject == one.name else f"{verdict.subject}: "
        print_line(verdict_word(verdict.severity), "  ", one.name, ": ", subject, verdict.text)
    for verdict in one.checks:
        # The exact text for a receiver.
        if verdict.subject == "DN" and verdict.severity == OK:
            print_line(Coloured(" " * WIDTH), "  ", one.name, ": ", verdict.text)


def _lead(one: SetupStep) -> None:
    print_line("")
    print_line(f"next: {one.name}")
    # Where no command fixes it, the checks say what to do.
    for line in one.do or [found.advice for found in one.checks if found.severity == CRITICAL]:
        print_line("  ", line)
    if one.undo:
        print_line("to undo:")
        for line in one.undo:
            print_line("  ", line)


def _details(step: SetupStep) -> list[dict[str, str]]:
    return [
        {"subject": one.subject, "verdict": VERDICTS[one.severity], "detail": one.detail, "advice": one.advice}
        for one in step.checks
    ]
