"""`arcacct help`: the pages of the manual on a terminal, without a browser or a network."""

from __future__ import annotations

import difflib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import click

from arcacct import __version__
from arcacct.cli.console import Coloured, examples, print_lines
from arcacct.errors import StoreError, UsageError
from arcacct.files.directories import resource
from arcacct.wording import count_of, sanitise_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


# The pages of docs/: what there is, which one a name means, and which of them have words.


FOLDERS = {
    "": "To begin",
    "howto": "How to",
    "reference": "Reference",
    "explanation": "Explanation",
    "project": "The project",
}
"""The sections of the manual in their order; a folder that is not here comes last, under its own name."""
CODES = "reference/exit-codes"
"""The page with the tables of exit codes."""
_HEAD = 2
"""Lines of a table before its rows: the names of the columns, and a rule."""
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_HEADING = re.compile(r"(#{1,6}) +(.+?) *#*$")


class Section(NamedTuple):
    """A heading of a page, and the Markdown below it down to the next heading."""

    heading: str
    text: str


class Page(NamedTuple):
    """A page of the manual."""

    name: str
    """Its path below docs/ without ``.md``, as in ``howto/install``."""
    text: str
    """Markdown."""

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]

    @property
    def title(self) -> str:
        """Its first heading."""
        return next((section.heading for section in self.sections() if section.heading), self.name)

    def sections(self) -> Iterator[Section]:
        """The parts of the page; the first has no heading if the page does not begin with one."""
        heading, fence = "", ""
        lines: list[str] = []
        for line in self.text.splitlines():
            fence = fence_after(line, fence)
            found = None if fence else _HEADING.match(line)
            if found:
                yield Section(heading, "\n".join(lines))
                heading, lines = plain_heading(found[2]), []
            else:
                lines.append(line)
        yield Section(heading, "\n".join(lines))


class Manual(NamedTuple):
    """All pages, in the order in which they are listed."""

    pages: tuple[Page, ...]

    def topic(self, page: Page) -> str:
        """What to type for a page: the last part of its name where no other page has it."""
        last = page.name.rpartition("/")[2]
        return last if [one.name.rpartition("/")[2] for one in self.pages].count(last) == 1 else page.name

    def named(self, name: str) -> Page | None:
        """The page of a name, whole or its last part, in upper or lower case."""
        wanted = name.lower().removesuffix(".md").strip("/")
        return next((page for page in self.pages if wanted in (page.name.lower(), self.topic(page).lower())), None)

    def beginning(self, start: str) -> list[Page]:
        """The pages whose name begins so."""
        wanted = start.lower()
        return [page for page in self.pages if self.topic(page).startswith(wanted) or page.name.startswith(wanted)]

    def headed(self, heading: str) -> list[tuple[Page, Section]]:
        """The parts of pages whose heading is this, or ends so: an option of the configuration, an alert."""
        wanted = heading.lower()
        return [
            (page, section)
            for page in self.pages
            for section in page.sections()
            if section.heading.lower() == wanted or section.heading.lower().endswith(f" {wanted}")
        ]

    def by_folder(self) -> Iterator[tuple[str, list[Page]]]:
        """Title and pages of each section of the manual."""
        for folder in dict.fromkeys(page.folder for page in self.pages):
            yield FOLDERS.get(folder, folder), [page for page in self.pages if page.folder == folder]

    def having(self, *patterns: re.Pattern[str]) -> list[tuple[Page, list[str]]]:
        """
        Each page in which all of the patterns are found, with the headings of the sections that have all of them.

        Pages with all of them in one section come first.
        """
        found = []
        for page in self.pages:
            sections = list(page.sections())
            if all(any(_has(one, pattern) for one in sections) for pattern in patterns):
                whole = [one.heading for one in sections if all(_has(one, pattern) for pattern in patterns)]
                found.append((page, whole))
        return sorted(found, key=lambda one: not one[1])


def _has(section: Section, pattern: re.Pattern[str]) -> bool:
    return pattern.search(section.heading) is not None or pattern.search(section.text) is not None


def plain_heading(text: str) -> str:
    """A heading without the signs of Markdown: backquotes, the targets of links, an id of its own."""
    text = re.sub(r"\s*\{[:#.][^}]*\}\s*$", "", text)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("**", "")


def fence_after(line: str, fence: str) -> str:
    """The fence of the block of code that is open behind a line, if ``fence`` was before it; empty: none."""
    mark = _FENCE.match(line)
    if mark is None:
        return fence
    if not fence:
        return mark[1]
    return "" if mark[1].startswith(fence) and not line.strip().strip(fence[0]) else fence


def load() -> Manual:
    """The manual that came with the program. Raises StoreError if it is not there."""
    root = resource("docs")
    found = [_read(root, path) for path in _below(root)]
    if not any(page.name == "index" for page in found):
        raise StoreError(
            f"{root}: the pages of the manual are not there; install arcacct again, or look at the commands alone: "
            "arcacct --help"
        )
    order = list(FOLDERS)
    return Manual(
        tuple(
            sorted(
                found,
                key=lambda page: (
                    order.index(page.folder) if page.folder in order else len(order),
                    page.folder,
                    page.name != "index",
                    page.name,
                ),
            )
        )
    )


def _below(root: str) -> Iterator[str]:
    for folder, _, names in os.walk(root):
        yield from (os.path.join(folder, name) for name in names if name.endswith(".md"))


def _read(root: str, path: str) -> Page:
    # A damaged letter is no reason to keep the rest of a page from who needs it.
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    name = os.path.relpath(path, root).replace(os.sep, "/").removesuffix(".md")
    return Page(name, re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))


def word(text: str) -> re.Pattern[str]:
    """What finds a word, or the beginning of one."""
    return re.compile(("(?<!\\w)" if text[:1].isalnum() else "") + re.escape(text), re.IGNORECASE)


def command(path: str) -> re.Pattern[str]:
    """What finds a command, ``arcacct db move``, wherever it is typed."""
    return re.compile(r"(?<![\w-])" + re.escape(path) + r"(?![\w-])")


def exit_code(manual: Manual, wanted: str) -> str:
    """
    The rows of the tables of exit codes that have this number or name, as Markdown; empty if there is none.

    A name may be that of sysexits.h, with or without ``EX_``, in upper or lower case.
    """
    name = wanted.upper().removeprefix("EX_")
    number = str(getattr(os, f"EX_{name}", wanted))
    page = manual.named(CODES)
    made = []
    for section in page.sections() if page else ():
        head: list[str] = []
        rows: list[str] = []
        for line in section.text.splitlines():
            if not line.startswith("|"):
                head = []
            elif len(head) < _HEAD:
                head.append(line)
            elif _is_of_code(line, {number, name}):
                rows += head * (not rows) + [line]
        if rows:
            made += [f"## {section.heading}", "", *rows, ""]
    return "\n".join(made)


def _is_of_code(row: str, names: set[str]) -> bool:
    """Whether a cell of a row is one of the names, or has it as code."""
    cells = [cell.strip().upper() for cell in row.split("|")]
    return not names.isdisjoint(cells) or not names.isdisjoint(re.findall(r"`([^`]+)`", row.upper()))


def near(wanted: str, names: Iterable[str]) -> list[str]:
    """Names that look like a word that is none."""
    return difflib.get_close_matches(wanted.lower(), list(dict.fromkeys(names)), n=3, cutoff=0.6)


# `arcacct help`: the manual on a terminal, without a browser or a network.


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
    from arcacct.cli.manual_text import rendered  # noqa: PLC0415  a tenth of a second, for whoever reads a page

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


def _commands_below(ctx: click.Context) -> Iterator[click.Context]:
    """All commands below a group, groups before what is in them."""
    for name in _names(ctx):
        if found := _command(ctx, [*_words(ctx), name]):
            yield found
            yield from _commands_below(found)


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
        names = [*map(manual.topic, manual.pages), *(" ".join(_words(one)) for one in _commands_below(_root(ctx)))]
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
