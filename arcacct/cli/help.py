"""`arcacct help`: the manual on a terminal, without a browser or a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence

import click

from arcacct import __version__
from arcacct.cli.speech import Coloured, examples, print_lines
from arcacct.errors import StoreError, UsageError
from arcacct.manual.pages import CODES, Manual, Page, command, exit_code, load, near, word
from arcacct.wording import count_of, sanitise_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_WIDEST = 100
"""Characters of a line beyond which nobody likes to read, however wide the terminal is."""
_MOST_HEADINGS = 5
_MOST_PARTS = 8


def complete_topic(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion with pages and commands, and behind a group with what is in it."""
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
    # What looks like an option may be what is looked for.
    context_settings={"ignore_unknown_options": True},
    epilog=examples(
        "arcacct help", "arcacct help install", "arcacct help db move", "arcacct help 69", "arcacct help settle"
    ),
)
@click.argument("topic", nargs=-1, metavar="TOPIC...", shell_complete=complete_topic)
@click.pass_context
def help(ctx: click.Context, topic: tuple[str, ...]) -> None:  # noqa: A001  what the command is called
    """
    Show a page of the manual, or find one.

    TOPIC is the name of a page or how it begins, a command, an exit code, an option of the configuration, or any other
    heading. All else is looked for in all pages, as words. Without TOPIC all pages are listed.
    """
    manual = load()
    width = max(40, min(shutil.get_terminal_size().columns, _WIDEST))
    # What is empty, as a script may make it, asks for nothing.
    topic = tuple(one for one in topic if one.strip())
    print_lines(_answer(ctx, manual, topic, width) if topic else _contents(manual))


def _answer(ctx: click.Context, manual: Manual, topic: Sequence[str], width: int) -> Iterator[Sequence[str]]:
    words = list(topic[1:] if topic[0] == "arcacct" else topic)
    found = _command(ctx, words)
    page = manual.named("-".join(words))
    if page:
        if found:
            yield (f"`{found.command_path}` is a command, too: `{found.command_path} --help`.",)
            yield ()
        yield from _rendered(manual, page, width)
    elif found:
        yield from ((line,) for line in found.get_help().splitlines())
        yield from _speaking_of(manual, found.command_path)
    else:
        yield from _other(ctx, manual, words, width)


def _other(ctx: click.Context, manual: Manual, words: Sequence[str], width: int) -> Iterator[Sequence[str]]:
    """What is neither the name of a page nor that of a command."""
    shown = " ".join(words)
    if rows := exit_code(manual, shown):
        yield from _rendered(manual, Page(CODES, rows), width)
        yield ()
        yield ("All of them: `arcacct help exit-codes`.",)
    elif len(begun := manual.beginning("-".join(words))) == 1:
        yield from _rendered(manual, begun[0], width)
    elif 0 < len(parts := manual.headed(shown)) <= _MOST_PARTS:
        for page, section in parts:
            yield from _rendered(manual, page._replace(text=f"## {section.heading}\n\n{section.text}"), width)
            yield ()
            yield (f"This stands in `arcacct help {manual.topic(page)}`.",)
            yield ()
    else:
        yield from _search(ctx, manual, words)


def _rendered(manual: Manual, page: Page, width: int) -> Iterator[Sequence[str]]:
    from arcacct.manual.rendering import rendered  # noqa: PLC0415  a tenth of a second, for whoever reads a page

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
    """What is in a group."""
    return ctx.command.list_commands(ctx) if isinstance(ctx.command, click.Group) else []


def _below(ctx: click.Context) -> Iterator[click.Context]:
    """All commands below a group, groups before what is in them."""
    for name in _names(ctx):
        if found := _command(ctx, [*_words(ctx), name]):
            yield found
            yield from _below(found)


def _words(ctx: click.Context) -> list[str]:
    return ctx.command_path.split()[1:]


def _contents(manual: Manual) -> Iterator[Sequence[str]]:
    yield (f"The manual of arcacct {__version__}. What to type:",)
    yield ()
    yield from (
        ("  arcacct help NAME      the page of this name",),
        ("  arcacct help publish   a command, and the pages that speak of it",),
        ("  arcacct help 69        an exit code",),
        ("  arcacct help settle    an option of the configuration, an alert, or any other heading",),
        ("  arcacct help WORD...   the pages that have these words",),
    )
    for title, pages in manual.by_folder():
        yield ()
        yield (_strong(title),)
        yield from _listed(manual, pages)


def _listed(manual: Manual, pages: Iterable[Page]) -> Iterator[Sequence[str]]:
    pages = list(pages)
    width = max((len(manual.topic(page)) for page in manual.pages), default=0)
    yield from ((f"  {manual.topic(page):<{width}}  {page.title}",) for page in pages)


def _speaking_of(manual: Manual, path: str) -> Iterator[Sequence[str]]:
    found = manual.having(command(path))
    if found:
        yield ()
        yield (_strong("Pages of the manual that speak of it (arcacct help NAME):"),)
        yield from _listed(manual, (page for page, _headings in found))


def _search(ctx: click.Context, manual: Manual, words: Sequence[str]) -> Iterator[Sequence[str]]:
    found = manual.having(*(word(one) for text in words for one in text.split()))
    begun = manual.beginning("-".join(words))
    shown = " ".join(words)
    if not found and not begun:
        names = [*map(manual.topic, manual.pages), *(" ".join(_words(one)) for one in _below(_root(ctx)))]
        known = " or ".join(f"`arcacct help {name}`" for name in near(shown, names))
        raise UsageError(
            f"{shown!r}: no page, command or exit code is called so, and no page has these words; "
            + (f"did you mean {known}? " if known else "")
            + "`arcacct help` lists all pages"
        )
    if begun:
        yield (f"Pages whose names begin with {shown!r}:",)
        yield from _listed(manual, begun)
        yield ()
    if found:
        yield (f"{count_of(len(found), 'page')} with {shown!r} (arcacct help NAME):",)
    for page, headings in found:
        yield from _listed(manual, [page])
        inner = [heading for heading in headings if heading and heading != page.title]
        yield from ((f"      {heading}",) for heading in inner[:_MOST_HEADINGS])
        if len(inner) > _MOST_HEADINGS:
            yield (f"      and {len(inner) - _MOST_HEADINGS} more",)
