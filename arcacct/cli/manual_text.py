"""Markdown as text for a terminal."""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

from markdown_it.token import Token
from rich import markdown
from rich.box import Box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.containers import Renderables
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from arcacct.cli.manual_pages import Manual, Page, fence_after, plain_heading

_RULES = {"h1": "=", "h2": "-"}
_LINES = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
_STRONG = ("markdown.h1", "markdown.h2", "markdown.h3", "markdown.h4", "markdown.strong", "markdown.table.header")
_PLAIN = ("markdown.code", "markdown.code_block", "markdown.em", "markdown.block_quote", "markdown.table.border")
_STYLES = Theme(dict.fromkeys(_STRONG, "bold") | dict.fromkeys(_PLAIN, "none"))
_ADMONITION = re.compile(r'^( *)(?:!!!|\?\?\?\+?|===) *(\w*) *(?:"(.*)")? *$')


class Piece(NamedTuple):
    """A part of a line."""

    text: str
    strong: bool = False


Line = tuple[Piece, ...]


def rendered(page: Page, manual: Manual, width: int) -> list[Line]:
    """Return the lines of a page, at most ``width`` characters wide except for code."""
    tokens = list(_tokens(markdown.Markdown(_plain_blocks(page.text)).parsed, _links(page, manual)))
    document = _Document("")
    document.parsed = tokens
    console = Console(file=io.StringIO(), width=width, color_system=None, theme=_STYLES, highlight=False, emoji=False)
    return [_trimmed(line) for line in _lines(console, document, console.options)]


def _lines(console: Console, what: RenderableType, options: ConsoleOptions) -> list[list[Segment]]:
    """The lines of something: broken to the width, but not cut, as rich's own way to get them does to code."""
    return list(Segment.split_lines(console.render(what, options)))


def _trimmed(line: Iterable[Segment]) -> Line:
    pieces = [Piece(one.text, bool(one.style and one.style.bold)) for one in line if one.text and not one.control]
    while pieces and not pieces[-1].text.rstrip():
        pieces.pop()
    return (*pieces[:-1], pieces[-1]._replace(text=pieces[-1].text.rstrip())) if pieces else ()


def _plain_blocks(text: str) -> str:
    """Admonitions and tabs of the site as quoted paragraphs with a title, which every reader of Markdown knows."""
    made, fence, inside = [], "", ""
    for line in text.splitlines():
        fence = fence_after(line, fence)
        found = None if fence else _ADMONITION.match(line)
        if found:
            made += [""] * bool(inside)
            title = found[3] or found[2].capitalize()
            inside = found[1] + "    "
            made += [f"{found[1]}> **{title}**", f"{found[1]}>"]
        elif inside and (line.startswith(inside) or not line.strip()):
            made.append(f"{inside[4:]}> {line.removeprefix(inside)}".rstrip())
        else:
            if inside:
                made.append("")
            inside = ""
            made.append(line)
    return "\n".join(made)


class _Links(NamedTuple):
    """The targets of the links of a page."""

    page: Page
    manual: Manual
    headings: dict[str, str]
    """The headings of the page, by their anchors."""

    def note(self, target: str, text: str) -> str:
        """Return the text to add after a link: how to reach its target; empty if the link text already says so."""
        if re.match(r"[a-z]+:", target):
            plain = target.removeprefix("mailto:")
            return "" if plain == text else f" ({plain})"
        path, _, anchor = target.partition("#")
        if not path:
            heading = self.headings.get(anchor, "")
            return "" if not heading or heading.lower().endswith(text.lower()) else f" (below: {heading})"
        name = posixpath.normpath(posixpath.join(self.page.folder, path))
        other = self.manual.named(name) if name.endswith(".md") else None
        if other:
            return f" (`arcacct help {self.manual.topic(other)}`)"
        outside = name.replace("../", "")
        return "" if outside in text else f" ({outside})"


def _links(page: Page, manual: Manual) -> _Links:
    headings = (one.heading for one in page.sections())
    return _Links(page, manual, {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-"): one for one in headings})


def _tokens(tokens: Iterable[Token], links: _Links) -> Iterator[Token]:
    """The parts of a document without HTML and links: the text has their content."""
    for token in tokens:
        if token.type == "html_block":
            if words := " ".join(re.sub(r"<!--.*?-->|<[^>]*>", " ", token.content, flags=re.DOTALL).split()):
                yield from (
                    Token("paragraph_open", "p", 1),
                    Token("inline", "", 0, children=[_text(words)]),
                    Token("paragraph_close", "p", -1),
                )
        elif token.type == "inline":
            token.children = list(_inline(token.children or [], links))
            yield token
        else:
            yield token


def _inline(tokens: list[Token], links: _Links) -> Iterator[Token]:
    opened = ""
    words: list[str] = []
    for token in tokens:
        if token.type == "link_open":
            opened, words = str(token.attrs.get("href", "")), []
        elif token.type == "link_close":
            if note := links.note(opened, "".join(words)):
                yield _text(note)
        elif token.type == "image":
            yield _text(f"[picture: {token.content}]")
        elif token.type == "html_inline":
            if re.match("<br */?>", token.content):
                yield Token("hardbreak", "br", 0)
        else:
            if token.type == "code_inline":
                # Without colour, nothing distinguishes code from words.
                token.content = f"`{token.content}`"
            words.append(token.content.strip("`") if token.type == "code_inline" else token.content)
            yield token


def _text(words: str) -> Token:
    return Token("text", "", 0, content=words)


def _inner(console: Console, parts: Renderables, options: ConsoleOptions, left: int) -> Iterator[list[Segment]]:
    """
    Return the lines inside an item or a quotation, narrower by ``left``, each block except a list after an empty line.
    """
    # (rich does not declare that these are iterators.)
    for number, part in enumerate(cast("Iterable[RenderableType]", parts)):
        if number and not isinstance(part, markdown.ListElement):
            yield []
        yield from _lines(console, part, options.update(width=options.max_width - left))


# rich renders paragraphs, lists and tables. Some of its elements are replaced: rich centres headings, wraps code, so
# that it cannot be copied, and draws with characters that some terminals lack.


class _Heading(markdown.Heading):
    """A heading with a line below it; lower levels have none."""

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        title = plain_heading(self.text.plain)
        yield Text(title, "bold")
        if rule := _RULES.get(self.tag):
            yield Text(rule * min(len(title), options.max_width))


class _Code(markdown.CodeBlock):
    """Its lines as they are, however long."""

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        for line in self.text.plain.rstrip("\n").split("\n"):
            yield Segment(f"    {line}\n")


class _Item(markdown.ListItem):
    """An item with a mark that every terminal can show."""

    def render_bullet(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Return the lines of the item after its mark."""
        for number, line in enumerate(_inner(console, self.elements, options, 3)):
            yield Segment("   " if number else " * ")
            yield from line
            yield Segment("\n")

    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        """Return the lines of the item after its number."""
        room = len(str(last_number)) + 3
        for at, line in enumerate(_inner(console, self.elements, options, room)):
            yield Segment(" " * room if at else f"{number}. ".rjust(room))
            yield from line
            yield Segment("\n")


class _Quote(markdown.BlockQuote):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in _inner(console, self.elements, options, 4):
            yield Segment("  | ")
            yield from line
            yield Segment("\n")


class _Table(markdown.TableElement):
    """A table without a frame; text that is too wide for its column is folded."""

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        table = Table(box=_LINES, pad_edge=False, show_edge=False, collapse_padding=True)
        for cell in self.header.row.cells if self.header and self.header.row else ():
            table.add_column(Text(cell.content.plain, "bold"), overflow="fold")
        for row in self.body.rows if self.body else ():
            table.add_row(*(cell.content for cell in row.cells))
        yield table


class _Document(markdown.Markdown):
    elements = {  # noqa: RUF012  as the base class has it
        **markdown.Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "list_item_open": _Item,
        "blockquote_open": _Quote,
        "table_open": _Table,
    }
