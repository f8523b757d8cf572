"""The parts of the manual that are made from the program: between two marks of a page, written again on request."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import manual

WRITE = "ARCACCT_WRITE_DOCS"
"""With this variable in the environment the test of a part writes it."""


class Part(NamedTuple):
    """What stands in a page between ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->``."""

    page: str
    """As in ``reference/views``."""
    name: str
    made: Callable[[], str]
    """The text, which ends with a line end."""

    @property
    def marks(self) -> tuple[str, str]:
        """The lines before and after it."""
        return f"<!-- {self.name}: begin -->\n", f"<!-- {self.name}: end -->\n"

    def text(self) -> str:
        """With the empty lines that Markdown wants between a mark and a table."""
        return f"\n{self.made().strip()}\n\n"

    def in_page(self) -> str:
        """What stands in the page; written again before, if that is asked for."""
        if os.environ.get(WRITE):
            manual.write_between(manual.page(self.page), *self.marks, self.text())
        return manual.between(manual.read(self.page), *self.marks)


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table of Markdown. A bar in a cell stands outside of backquotes: the readers of Markdown disagree within."""
    lines = [header, ("---",) * len(header), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def code(text: str) -> str:
    """Between backquotes."""
    return f"`{text}`"


def plain(text: str) -> str:
    """A text of the program as Markdown shows it: nothing outside of backquotes is a sign of Markdown's."""
    parts = text.split("`")
    for number in range(0, len(parts), 2):
        for sign in "\\*[]<":
            parts[number] = parts[number].replace(sign, f"\\{sign}" if sign != "<" else "&lt;")
    return "`".join(parts)
