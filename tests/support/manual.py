"""The manual: README.md and the pages of docs/, with what is looked up in them."""

from __future__ import annotations

import pathlib
import re
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
_LINES = re.MULTILINE | re.DOTALL


class Block(NamedTuple):
    """A fenced block: the word after the fence, and what is in it."""

    language: str
    text: str


def pages() -> list[pathlib.Path]:
    """README.md, then each page of docs/ by its name."""
    return [README, *sorted(DOCS.rglob("*.md"))]


def page(name: str) -> pathlib.Path:
    """The file of a page of docs/, as in ``howto/install``."""
    return DOCS / f"{name}.md"


def read(name: str) -> str:
    """The text of a page of docs/, as in ``howto/install``."""
    return page(name).read_text(encoding="utf-8")


def text() -> str:
    """All pages, one after the other."""
    return "\n".join(path.read_text(encoding="utf-8") for path in pages())


def blocks(of: str | None = None) -> list[Block]:
    """The fenced blocks of a text, or of all pages."""
    return [Block(*found) for found in re.findall(r"^```(\w*)\n(.*?)^```$", text() if of is None else of, _LINES)]


def without_blocks(of: str) -> str:
    """A text without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", of, flags=_LINES)


def between(of: str, begin: str, end: str) -> str:
    """What stands between two marks, each of which is there once."""
    ((_, rest),) = [of.split(begin)]
    inside, _ = rest.split(end)
    return inside


def write_between(path: pathlib.Path, begin: str, end: str, inside: str) -> None:
    """Put another text between two marks of a page."""
    before, rest = path.read_text(encoding="utf-8").split(begin)
    path.write_text(f"{before}{begin}{inside}{end}{rest.split(end)[1]}", encoding="utf-8")
