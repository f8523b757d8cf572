"""Targets by name on the command line, and what a shell completes there."""

from __future__ import annotations

import click

from arcacct.cli.context import conf_of
from arcacct.config.settings import examine
from arcacct.errors import ArcacctError
from arcacct.targets import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def complete_target(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion with the names of the configured targets."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415  only a shell asks

    try:
        found, _problems = examine(conf_of(with_options(ctx)), kinds())
    except ArcacctError:
        return []
    names = () if found is None else tuple(target.name for target in found.targets)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def with_options(ctx: click.Context) -> click.Context:
    """While a shell completes, no command runs that would put the global options where `conf_of` looks for them."""
    if ctx.obj is None:
        ctx.obj = {"config": None, "database": None, "debug": False} | ctx.find_root().params
    return ctx


target_option = click.option(
    "--target",
    metavar="NAME",
    shell_complete=complete_target,
    help="Only this target: sgas:x, apel:x, directory:x, or x if unique.",
)
