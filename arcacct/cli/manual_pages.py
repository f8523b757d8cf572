"""The pages of docs/: the list, the page for a name, and a search."""

from __future__ import annotations

import difflib
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from glob import iglob
from typing import NamedTuple

from arcacct.errors import StoreError
from arcacct.files.directories import resource

FOLDERS = {
    "": "To begin",
    "howto": "How to",
    "reference": "Reference",
    "explanation": "Explanation",
    "project": "The project",
}
"""The sections of the manual in their order; a folder that is not listed comes last, under its own name."""
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

    @property
    def lead(self) -> str:
        """Its first paragraph, which describes the problem that it is for; empty: it starts with a table."""
        texts = (section.text.strip() for section in self.sections())
        first = next((text.partition("\n\n")[0] for text in texts if text and not text.startswith("#")), "")
        return "" if first.startswith("|") else first

    def parts(self) -> Iterator[Section]:
        """The units of a search: its sections; for the page of messages, each row of a table."""
        for section in self.sections():
            rows = [line for line in section.text.splitlines() if self.name == MESSAGES and line.startswith("|")]
            yield from (Section(section.heading, text) for row in rows if (text := _selected(section.text, row.__eq__)))
            if not rows and (section.heading or section.text.strip()):
                yield section

    def sections(self) -> Iterator[Section]:
        """
        The parts of the page; the first has no heading if the page does not begin with one.

        A heading that has no text of its own has that of the headings below it.
        """
        fence = ""
        found: list[tuple[int, str, list[str]]] = [(0, "", [])]
        for line in self.text.splitlines():
            fence = fence_after(line, fence)
            mark = None if fence else _HEADING.match(line)
            if mark:
                found.append((len(mark[1]), plain_heading(mark[2]), []))
            else:
                found[-1][2].append(line)
        for number, (level, heading, lines) in enumerate(found):
            text = "\n".join(lines)
            if heading and not text.strip():
                below = itertools.takewhile(lambda one: one[0] > level, found[number + 1 :])  # noqa: B023  used at once
                text = "\n".join("\n".join((f"{'#' * depth} {one}", *its)) for depth, one, its in below)
            yield Section(heading, text)


class Manual(NamedTuple):
    """All pages, in the order in which they are listed."""

    pages: tuple[Page, ...]

    def topic(self, page: Page) -> str:
        """Return the name to type for a page: the last part of its name if no other page has it."""
        last = page.name.rpartition("/")[2]
        return last if [one.name.rpartition("/")[2] for one in self.pages].count(last) == 1 else page.name

    def named(self, name: str) -> Page | None:
        """Return the page with a name (whole, or its last part), in upper or lower case."""
        wanted = name.lower().removesuffix(".md").strip("/")
        return next((page for page in self.pages if wanted in (page.name.lower(), self.topic(page).lower())), None)

    def beginning(self, start: str) -> list[Page]:
        """Return the pages whose name starts with this text."""
        wanted = start.lower()
        return [page for page in self.pages if self.topic(page).startswith(wanted) or page.name.startswith(wanted)]

    def headed(self, heading: str) -> list[tuple[Page, Section]]:
        """
        Return the parts of pages with this heading, or one that ends in it: an option of the configuration, an alert.
        """
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

    def subjects(self, name: str) -> list[tuple[Page, Section]]:
        """Return the rows of ``arcacct status`` for this subject, or for subjects that end in it."""
        return [
            (page, Section(section.heading, rows))
            for page, section in self.headed(STATUS)
            if page.name == MESSAGES
            and (rows := _selected(section.text, lambda row: row.split("|")[1].strip("` ").endswith(name.lower())))
        ]

    def search(self, question: str) -> list[tuple[Page, Section]]:
        """
        Return the pages for a query in SQLite's FTS5, the best first, each with its best part.

        The first paragraph of a page counts most: it says for which problem the page is. The reference and pages about
        the project count less than those that say what to do. The part of a page is found by its own text; if only
        title and first paragraph have the words, the page answers by its beginning.
        """
        from arcacct.database.access import full_text_search  # noqa: PLC0415  other questions need no database

        parts = [(page, part) for page in self.pages for part in page.parts()]
        begins = {page.name: (f"{page.title} {page.name}", page.lead) for page in self.pages}
        # A text below the headings of a subsection is found there.
        own = ("" if part.text.startswith("#") else part.text for _page, part in parts)
        texts = (
            [_separate(one) for one in (*begins[page.name], part.heading, text)]
            for (page, part), text in zip(parts, own, strict=True)
        )
        found = full_text_search(texts, (_COUNTS, (0, 0, *_COUNTS[2:])), question) if question else ()
        ranked: dict[str, float] = {}
        best: dict[str, tuple[float, int]] = {}
        for number, score, own_score in found:
            page = parts[number][0]
            weighted = score * _WEIGHTS.get(page.folder, 1.0)
            ranked[page.name] = min(weighted, ranked.get(page.name, weighted))
            best[page.name] = min((own_score, number), best.get(page.name, (own_score, number)))
        return [parts[best[name][1]] for name in sorted(ranked, key=lambda name: (ranked[name], best[name][1]))]


MESSAGES = "reference/messages"
"""The page with the tables of subjects and messages."""
STATUS = "arcacct status"
"""The heading above its subjects of `arcacct status`."""
_COUNTS = (6, 16, 2, 1)
"""The weights of a word in the title of a page, its first paragraph, a heading, and other text."""
_WEIGHTS = {"": 0.6, "reference": 0.75, "explanation": 0.95, "project": 0.4}
"""The same for the folders of pages; others: 1."""


def _separate(text: str) -> str:
    """Put blanks between the words of a name: `ArcacctWordTooOld`."""
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", text)


def any_of(text: str) -> str:
    """Return the query for the words of a text, or words that start with them."""
    words = dict.fromkeys(re.findall(r"[^\W_]+", _separate(text)))
    return " OR ".join(f'"{word}"' + "*" * (len(word) > 3) for word in words)


def _selected(text: str, is_wanted: Callable[[str], bool]) -> str:
    """The rows of tables that are wanted, each table with its head."""
    head: list[str] = []
    rows: list[str] = []
    is_new = False
    for line in text.splitlines():
        if not line.startswith("|"):
            head = []
        elif len(head) < _HEAD:
            head.append(line)
            is_new = True
        elif is_wanted(line):
            rows += ([""] * bool(rows) + head) * is_new + [line]
            is_new = False
    return "\n".join(rows)


def plain_heading(text: str) -> str:
    """A heading without Markdown: backquotes, targets of links, an id of its own."""
    text = re.sub(r"\s*\{[:#.][^}]*\}\s*$", "", text)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("**", "")


def fence_after(line: str, fence: str) -> str:
    """Return the fence of the code block that is open after a line, if ``fence`` was open before it; empty: none."""
    mark = _FENCE.match(line)
    if mark is None:
        return fence
    if not fence:
        return mark[1]
    return "" if mark[1].startswith(fence) and not line.strip().strip(fence[0]) else fence


def load() -> Manual:
    """Load the manual of this program. Raises StoreError if it is missing."""
    root = resource("docs")
    found = [_read(root, name) for name in iglob("**/*.md", root_dir=root, recursive=True)]
    if not any(page.name == "index" for page in found):
        raise StoreError(
            f"{root}: the pages of the manual are missing; install arcacct again, or see only the commands: "
            "arcacct --help"
        )
    order = list(FOLDERS)

    def place(page: Page) -> tuple[int, str, bool, str]:
        number = order.index(page.folder) if page.folder in order else len(order)
        return number, page.folder, page.name != "index", page.name

    return Manual(tuple(sorted(found, key=place)))


def _read(root: str, name: str) -> Page:
    # A damaged character is no reason to withhold the rest of a page.
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
        text = file.read()
    return Page(name.removesuffix(".md"), re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))


def exit_code(manual: Manual, wanted: str) -> str:
    """
    Return the rows of the tables of exit codes with this number or name, as Markdown; empty if there is none.

    A name may be one of sysexits.h, with or without ``EX_``, in upper or lower case.
    """
    name = wanted.upper().removeprefix("EX_")
    number = str(getattr(os, f"EX_{name}", wanted))
    page = manual.named(CODES)
    made = []
    for section in page.sections() if page else ():
        if rows := _selected(section.text, lambda row: _is_of_code(row, {number, name})):
            made += [f"## {section.heading}", "", rows, ""]
    return "\n".join(made)


def _is_of_code(row: str, names: set[str]) -> bool:
    """Whether a cell of a row is one of the names, or has it as code."""
    cells = [cell.strip().upper() for cell in row.split("|")]
    return not names.isdisjoint(cells) or not names.isdisjoint(re.findall(r"`([^`]+)`", row.upper()))


def near(wanted: str, names: Iterable[str]) -> list[str]:
    """Known names that resemble an unknown one."""
    return difflib.get_close_matches(wanted.lower(), list(dict.fromkeys(names)), n=3, cutoff=0.6)
