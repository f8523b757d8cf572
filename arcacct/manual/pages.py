"""The pages of docs/: what there is, which one a name means, and which of them have words."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from arcacct.config.paths import resource
from arcacct.errors import StoreError

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
