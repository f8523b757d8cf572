"""`arcacct help`: the pages of the manual on a terminal, without a browser or a network."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from arcacct import __version__
from arcacct.cli.console import Coloured, examples, print_lines
from arcacct.cli.manual_pages import CODES, Manual, Page, Section, any_of, exit_code, load, near
from arcacct.errors import StoreError, UsageError
from arcacct.wording import sanitise_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


_WIDEST = 100
"""Characters of a line beyond which lines are hard to read, even on a wide terminal."""
_MOST = 10
"""Results of a search that are listed, with those that are shown."""
_MOST_SHOWN = 8
"""Headings of one name that are shown."""


def complete_topic(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion with pages and commands; after a group, with its content."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415  only a shell asks

    before = ctx.params.get("topic") or ()
    if before:
        found = _command(ctx, before)
        names = _names(found) if found else []
    else:
        try:
            manual = load()
            names = [manual.topic(page) for page in manual.pages]
        except StoreError:
            names = []
        names += [name for name in _names(_root(ctx)) if name not in names]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command(
    # A text that looks like an option may be the search text.
    context_settings={"ignore_unknown_options": True},
    epilog=examples(
        "arcacct help", "arcacct help install", "arcacct help db move", "arcacct help 69", "arcacct help settle"
    ),
)
@click.argument("topic", nargs=-1, metavar="TOPIC...", shell_complete=complete_topic)
@click.pass_context
def help(ctx: click.Context, topic: tuple[str, ...]) -> None:  # noqa: A001  what the command is called
    """
    Show a page of the manual, or search it.

    TOPIC is the name of a page or its start, a command, an exit code, a subject of `arcacct status`, an option of the
    configuration, or any other heading. Otherwise TOPIC is a problem, or the text of a message: the section for it is
    shown, and at most nine other pages are listed. Without TOPIC all pages are listed.
    """
    manual = load()
    width = max(40, min(shutil.get_terminal_size().columns, _WIDEST))
    # An empty text, as a script may pass it, is no search.
    topic = tuple(one for one in topic if one.strip())
    print_lines(_answer(ctx, manual, topic, width) if topic else _contents(manual))


def _answer(ctx: click.Context, manual: Manual, topic: Sequence[str], width: int) -> Iterator[Sequence[str]]:
    words = list(topic[1:] if topic[0] == "arcacct" else topic)
    found = _command(ctx, words)
    page = manual.named("-".join(words))
    if page:
        if found:
            yield (f"`{found.command_path}` is also a command: `{found.command_path} --help`.",)
            yield ()
        yield from _rendered(manual, page, width)
    elif found:
        yield from ((line,) for line in found.get_help().splitlines())
        for subject in manual.subjects(" ".join(words)):
            yield ()
            yield from _shown(manual, *subject, width)
        yield from _about(manual, found.command_path)
    else:
        yield from _other(ctx, manual, words, width)


def _other(ctx: click.Context, manual: Manual, words: Sequence[str], width: int) -> Iterator[Sequence[str]]:
    """Find a topic that is neither the name of a page nor that of a command."""
    shown = " ".join(words)
    if rows := exit_code(manual, re.sub(r"(?i)^exit code ", "", shown)):
        yield from _rendered(manual, Page(CODES, rows), width)
        yield ()
        yield ("All of them: `arcacct help exit-codes`.",)
        return
    if shown.isdecimal():
        raise UsageError(f"{shown} is not an exit code of arcacct; `arcacct help exit-codes` lists them")
    subjects = manual.subjects(shown)
    begun = manual.beginning("-".join(words))
    if len(begun) == 1 and not subjects:
        yield from _rendered(manual, begun[0], width)
        return
    if len(begun) > 1:
        yield (f"Pages whose names start with {shown!r}:",)
        yield from _listed(manual, begun)
        yield ()
    headed = manual.headed(shown)
    found = manual.search(any_of(shown))
    best = (subjects + headed * (len(headed) <= _MOST_SHOWN)) or found[: not begun]
    if not best and not begun:
        raise _nothing(ctx, manual, shown)
    for number, (page, section) in enumerate(best):
        yield from [()] * (number > 0)
        yield from _shown(manual, page, section, width)
    known = {page.name for page, _section in best}
    if others := [(page, section) for page, section in found if page.name not in known][: _MOST - len(best)]:
        yield from [()] * bool(best)
        yield (f"{'Other pages' if best else 'Pages'} for {shown!r} (arcacct help NAME):",)
        yield from _listed(manual, [page for page, _section in others], [section.heading for _page, section in others])


def _shown(manual: Manual, page: Page, section: Section, width: int) -> Iterator[Sequence[str]]:
    """A section in full, and the page that it is on."""
    text = f"## {section.heading}\n\n{section.text}" if section.heading else section.text
    yield from _rendered(manual, page._replace(text=text), width)
    yield ()
    yield (f"This is in `arcacct help {manual.topic(page)}`.",)


def _nothing(ctx: click.Context, manual: Manual, shown: str) -> UsageError:
    names = [*map(manual.topic, manual.pages), *(" ".join(_words(one)) for one in _commands_below(_root(ctx)))]
    known = " or ".join(f"`arcacct help {name}`" for name in near(shown, names))
    return UsageError(
        f"{shown!r}: no page, command or exit code has this name, and no page has these words; "
        + (f"did you mean {known}? " if known else "")
        + "`arcacct help` lists all pages"
    )


def _rendered(manual: Manual, page: Page, width: int) -> Iterator[Sequence[str]]:
    from arcacct.cli.manual_text import rendered  # noqa: PLC0415  importing it takes a tenth of a second

    for line in rendered(page, manual, width):
        yield [_strong(one.text) if one.strong else one.text for one in line]


def _strong(text: str) -> Coloured:
    return Coloured(click.style(sanitise_line(text), bold=True))


def _root(ctx: click.Context) -> click.Context:
    return ctx.find_root()


def _command(ctx: click.Context, words: Sequence[str]) -> click.Context | None:
    """The command that these words are, in the context in which it would run."""
    found = _root(ctx)
    for name in words:
        if not isinstance(found.command, click.Group):
            return None
        below = found.command.get_command(found, name)
        if below is None:
            return None
        found = click.Context(below, info_name=name, parent=found, **below.context_settings)
    return found


def _names(ctx: click.Context) -> list[str]:
    """Return the names in a group."""
    return ctx.command.list_commands(ctx) if isinstance(ctx.command, click.Group) else []


def _commands_below(ctx: click.Context) -> Iterator[click.Context]:
    """Return all commands below a group, groups before their content."""
    for name in _names(ctx):
        if found := _command(ctx, [*_words(ctx), name]):
            yield found
            yield from _commands_below(found)


def _words(ctx: click.Context) -> list[str]:
    return ctx.command_path.split()[1:]


def _contents(manual: Manual) -> Iterator[Sequence[str]]:
    yield (f"The manual of arcacct {__version__}. Commands:",)
    yield ()
    yield from (
        ("  arcacct help NAME      the page of this name",),
        ("  arcacct help publish   a command, and the pages about it",),
        ("  arcacct help 69        an exit code",),
        ("  arcacct help spool     a subject of `arcacct status`, an option, an alert, or any other heading",),
        ("  arcacct help WORD...   a problem, or the text of a message: the page for it",),
    )
    for title, pages in manual.by_folder():
        yield ()
        yield (_strong(title),)
        yield from _listed(manual, pages)


def _listed(manual: Manual, pages: Iterable[Page], headings: Iterable[str] = ()) -> Iterator[Sequence[str]]:
    """Pages by what to type, each with its title, and with a heading where it is another one."""
    width = max((len(manual.topic(page)) for page in manual.pages), default=0)
    for page, heading in zip(pages, itertools.chain(headings, itertools.repeat("")), strict=False):
        more = f": {heading}" if heading and heading != page.title else ""
        yield (f"  {manual.topic(page):<{width}}  {page.title}{more}",)


def _about(manual: Manual, path: str) -> Iterator[Sequence[str]]:
    """The pages that mention a command most prominently."""
    found = [page for page, _section in manual.search(f'"{path}"')][:_MOST]
    if found:
        yield ()
        yield (_strong("Pages of the manual about it (arcacct help NAME):"),)
        yield from _listed(manual, found)
