"""Complaints about single records, as one line for each cause."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from arcacct.wording import count_of

_OWN = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9]+")
"""The parts of a complaint that differ from record to record: quoted values, and numbers."""
_MOST_LINES = 10


class _Cause(NamedTuple):
    records: int
    example: str
    text: str
    """As it was said of the example."""


def cause_of(text: str, *names: str) -> str:
    """Return what complaints of one cause have in common; ``names``: those of the record."""
    for name in names:
        text = text.replace(name, "")
    return _OWN.sub("", text)


class Causes:
    """Complaints that differ only in the names of the record, in numbers and in quoted values have one cause."""

    def __init__(self) -> None:
        self._found: dict[str, _Cause] = {}

    def add(self, example: str, text: str, *names: str) -> None:
        """Add a complaint about one record. ``names``: its further names in the text."""
        cause = cause_of(text, example, *names)
        first = self._found.get(cause, _Cause(0, example, text))
        self._found[cause] = first._replace(records=first.records + 1)

    def lines(self) -> Iterator[str]:
        """
        Yield ``EXAMPLE: text`` of one record, ``100 records, as EXAMPLE: text`` of several.

        Causes after the tenth are only counted.
        """
        found = [*self._found.values()]
        for one in found[:_MOST_LINES]:
            several = "" if one.records == 1 else f"{one.records} records, as "
            yield f"{several}{one.example}: {one.text}"
        if others := found[_MOST_LINES:]:
            records = count_of(sum(one.records for one in others), "record")
            yield f"and {records} for {count_of(len(others), 'other reason')}"

    def take(self) -> list[str]:
        """Return the lines, and forget the complaints."""
        lines = [*self.lines()]
        self._found.clear()
        return lines
