"""
The manual's page of all commands, made from click's own objects.

Not by mkdocs-click (0.9): it leaves the examples out; its tables call each value ``text`` and each missing default
``Sentinel.UNSET``; it sorts commands by the alphabet, which tears them out of the order of a job's life; and since it
works while the site is built, the page would be empty in `arcacct help` and for the tests of links and examples.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import click
from generated import code, plain, table

from arcacct.cli.main import arcacct
from arcacct.cli.options import Parsed

Row = tuple[str, str]
"""The names and the meaning of an option."""
COMMON = "Common options"
"""The heading above the options that several commands have."""
MANY_COMMANDS = 3
"""So many commands make an option common."""
MANY_OPTIONS = 5
"""So many options of an earlier command are not repeated."""


def contexts(ctx: click.Context | None = None) -> Iterator[click.Context]:
    """Every command in the context in which it runs, in the order of --help, groups before what is in them."""
    # As it runs: click keeps the first help option of a command that it is asked for.
    ctx = ctx or click.Context(arcacct, info_name="arcacct", **arcacct.context_settings)
    yield ctx
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            command = ctx.command.get_command(ctx, name)
            assert command is not None
            if command.hidden:
                continue
            yield from contexts(click.Context(command, info_name=name, parent=ctx))


def anchor(path: str) -> str:
    """Of the heading of a command, or of another heading."""
    return path.lower().replace(" ", "-")


def markdown() -> str:
    """The list of the commands, the options that several of them have, then a section for each command."""
    found = list(contexts())
    top = [one for one in found if one.parent is None or one.parent.parent is None]
    rows = [(f"[{one.command_path}](#{anchor(one.command_path)})", plain(_short(one))) for one in top]
    of_command = {one.command_path: _rows(one) for one in found}
    common = _common(of_command.values())
    overview = table(("command", "what it does"), rows)
    shared = f"## {COMMON}\n\n{_options(sorted(common, key=_long_name))}"
    return "\n".join((overview, shared, *(_section(one, of_command, common) for one in found)))


def _short(ctx: click.Context) -> str:
    return ctx.command.get_short_help_str(200)


def _options(rows: Iterable[Row]) -> str:
    return table(("option", "meaning"), list(rows))


def _long_name(row: Row) -> str:
    return re.findall(r"--[\w-]+", row[0])[-1]


def _common(of_commands: Iterable[list[Row]]) -> list[Row]:
    """The rows that at least `MANY_COMMANDS` have; of those with one name the most frequent."""
    counts = Counter(row for rows in of_commands for row in rows)
    frequent: dict[str, Row] = {}
    for row, count in counts.most_common():
        if count >= MANY_COMMANDS:
            frequent.setdefault(_long_name(row), row)
    return list(frequent.values())


def _section(ctx: click.Context, of_command: dict[str, list[Row]], common: list[Row]) -> str:
    level = "#" * min(4, max(2, 1 + ctx.command_path.count(" ")))
    usage = " ".join((ctx.command_path, *ctx.command.collect_usage_pieces(ctx)))
    parts = [f"{level} {ctx.command_path}", plain(inspect.cleandoc(ctx.command.help or "")), f"```text\n{usage}\n```"]
    below = [one for one in contexts(ctx) if one.parent is ctx]
    if below and ctx.parent:
        links = ", ".join(f"[{one.info_name}](#{anchor(one.command_path)})" for one in below)
        parts.append(f"Commands: {links}.")
    rows = of_command[ctx.command_path]
    elsewhere = {COMMON: [row for row in rows if row in common]}
    left = [row for row in rows if row not in common]
    earlier = itertools.takewhile(lambda one: one != ctx.command_path, of_command)
    same = {path: [row for row in left if row in of_command[path]] for path in earlier}
    path = max(same, key=lambda one: len(same[one]), default="")
    if path and len(same[path]) >= MANY_OPTIONS:
        elsewhere[path] = same[path]
        left = [row for row in left if row not in same[path]]
    if left:
        parts.append(_options(left).rstrip())
    for heading, there in elsewhere.items():
        if there:
            names = ", ".join(code(name) for row in there for name in re.findall(r"`(-[\w-]+)", row[0]))
            parts.append(f"{'' if heading == COMMON else 'Options of '}[{heading}](#{anchor(heading)}): {names}.")
    if examples := inspect.cleandoc(ctx.command.epilog or "").splitlines()[2:]:
        parts.append("\n".join(("```sh", *(line.strip() for line in examples), "```")))
    return "\n\n".join(parts) + "\n"


def _rows(ctx: click.Context) -> list[Row]:
    return [(_names(one), _meaning(one, ctx)) for one in options(ctx.command)]


def options(command: click.Command) -> list[click.Option]:
    """Of a command; without --help, which click gives to all of them."""
    return [one for one in command.params if isinstance(one, click.Option) and not one.hidden]


def value(option: click.Option) -> str:
    """What stands behind an option, or nothing."""
    if option.is_flag or option.count:
        return ""
    if option.metavar is None and isinstance(option.type, Parsed):
        return option.type.name.upper()
    return option.metavar or max(option.opts, key=len).lstrip("-").replace("-", "_").upper()


def _names(option: click.Option) -> str:
    *others, last = (*option.opts, *option.secondary_opts)
    return ", ".join(map(code, (*others, f"{last} {value(option).replace('|', ' or ')}".strip())))


def _meaning(option: click.Option, ctx: click.Context) -> str:
    extra = option.get_help_extra(ctx)
    text = (option.help or "").strip()
    words = [plain(text if text.endswith((".", ":")) else f"{text}.")]
    if isinstance(option.type, click.Choice):
        words.append(f"One of {', '.join(map(code, option.type.choices))}.")
    if option.required:
        words.append("Required.")
    if option.multiple and not re.search(r"repeat|every such", text, re.IGNORECASE):
        words.append("May be repeated.")
    if told := extra.get("range"):
        low, _, high = told.partition("<=x<=")
        words.append(
            f"{low} to {high}." if high else f"{told.replace('x>=', 'At least ').replace('x>', 'More than ')}."
        )
    if "default" in extra:
        words.append(f"Default: {code(str(extra['default']))}.")
    return " ".join(words)
