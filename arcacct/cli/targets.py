"""Names of targets on the command line and their completion, and the result of each target for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from arcacct.cli.console import WARNING, print_line, report_error
from arcacct.cli.options import conf_of
from arcacct.config.settings import examine
from arcacct.errors import ArcacctError, InputError, TargetBusy
from arcacct.targets import kinds
from arcacct.wording import count_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from arcacct.publishing.target_run import TargetResult


# Targets by name on the command line, and their completion in a shell.


def complete_target(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion with the names of the configured targets."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415  only a shell asks

    try:
        conf = conf_of(with_options(ctx))
        found, _problems = examine(conf, kinds(conf))
    except ArcacctError:
        return []
    names = () if found is None else tuple(target.name for target in found.targets)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def with_options(ctx: click.Context) -> click.Context:
    """While a shell completes, no command stores the global options where `conf_of` looks for them."""
    if ctx.obj is None:
        ctx.obj = {"config": None, "database": None, "debug": False} | ctx.find_root().params
    return ctx


target_option = click.option(
    "--target",
    metavar="NAME",
    shell_complete=complete_target,
    help="Only this target: sgas:x, apel:x, directory:x, or x if unique.",
)


# The result of each target: results on stdout, notes and errors on stderr, and the exit code.


MOST_SEVERE_FIRST = (78, 77, 69, 74, 70, 75, 65)


def show(
    outcomes: Sequence[TargetResult],
    *,
    planned: bool = False,
    reported: Sequence[TargetResult] = (),
    nothing: str = "nothing new",
) -> None:
    """
    Print one line for each target and kind of message; notes and errors go to stderr, without those in ``reported``.

    ``nothing``: the text for a target that is sent nothing.
    """
    from arcacct.publishing.selection import NOT_SELECTED  # noqa: PLC0415  what publishes has loaded it

    verb = "would send" if planned else "sent"
    known = {(one.target, str(one.error)) for one in reported}
    if not outcomes:
        print_line(
            "no targets are configured: nothing is published; see `arcacct config check`", err=True, priority=WARNING
        )
    for outcome in outcomes:
        if outcome.skipped is not None:
            print_line(f"{outcome.target}: {outcome.skipped}")
            continue
        for kind, sent in outcome.summary.sent.items():
            amount = f"{count_of(sent.records, f'{kind} record')} in {count_of(sent.messages, 'message')}"
            print_line(f"{outcome.target}: {verb} {amount} ({sent.bytes:,} bytes)")
        if not outcome.summary.sent and outcome.error is None:
            print_line(f"{outcome.target}: {nothing}")
        summary = outcome.summary
        for number, what, became in (
            (summary.resent, "message", "of an earlier run had no answer"),
            (summary.quarantined, "record", "quarantined; see `arcacct quarantine list`"),
            (
                summary.implausible,
                "record",
                "held: values that cannot be true, or no wall time; see `arcacct quarantine list`",
            ),
            (summary.refused_once, "record", "rejected, to be tried again"),
            (summary.ahead, "record", "in the future by this host's clock: sent later"),
            (summary.not_selected, "job", NOT_SELECTED),
        ):
            if number:
                print_line(f"{outcome.target}: {count_of(number, what)} {became}")
        if outcome.error is not None and (outcome.target, str(outcome.error)) not in known:
            report_error(outcome.error, f"arcacct: {outcome.target}: ")


def announce(target: str, note: str) -> None:
    """Print the messages of a target's run, while it runs."""
    print_line(f"{target}: {note}", err=True)


def exit_code(outcomes: Sequence[TargetResult], complaints: Sequence[str] = ()) -> int:
    """
    The most severe code of the targets; 65 if a record was quarantined or held, 75 if it will be retried, else 0.

    ``complaints``: unusable files of the spool, which also give 65.
    """
    codes = {outcome.error.exit_code for outcome in outcomes if outcome.error is not None}
    if complaints or any(outcome.summary.quarantined or outcome.summary.implausible for outcome in outcomes):
        codes.add(InputError.exit_code)
    if any(outcome.summary.refused_once for outcome in outcomes):
        codes.add(TargetBusy.exit_code)
    return most_severe(codes)


def most_severe(codes: Iterable[int]) -> int:
    """Return one exit code for several; 0 for none."""
    found = {*codes}
    return next((code for code in MOST_SEVERE_FIRST if code in found), max(found, default=0))
