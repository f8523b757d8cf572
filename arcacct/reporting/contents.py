"""What a report consists of: tables of named rows and columns with units, which every form of it is made from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from arcacct.publishing.ledger_rows import Month

Value = int | float | str | None
"""``None``: not known."""
TIDY = ("section", "key", "metric", "unit", "value", "estimated")
"""The columns of the CSV."""


class Column(NamedTuple):
    """One figure of each row."""

    name: str
    """With its unit, as in the CSV."""
    title: str
    """For people."""
    unit: str = ""
    is_estimated: bool = False
    """Computed from an assumption, and not measured: every form marks it."""


class Row(NamedTuple):
    """What a row is about, and its figures in the order of the columns."""

    key: str
    values: tuple[Value, ...]


class Table(NamedTuple):
    """A section of the report."""

    name: str
    title: str
    key: str
    """What its rows are about."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = ()
    total: Row | None = None
    notes: tuple[str, ...] = ()
    """What has to be known to read it; also why it is empty."""
    naming: int = 0
    """So many of the first columns tell, with the key, what a row is about: no two rows have the same."""
    is_detail: bool = False
    """For programs and charts: too long for people."""

    def column(self, name: str) -> int:
        """The place of a column."""
        return next(place for place, column in enumerate(self.columns) if column.name == name)


class Verdict(NamedTuple):
    """Whether the month is published, in a sentence."""

    text: str
    is_well: bool


class Report(NamedTuple):
    """All that is said of a month."""

    site: str
    month: Month
    written_s: int
    """UTC seconds."""
    tables: tuple[Table, ...]
    verdict: Verdict | None = None
    basis: str = ""
    """What the figures rest on, in one line: how many jobs were measured, and have a benchmark."""
    """``None``: nobody asked."""

    @property
    def month_name(self) -> str:
        """YYYY-MM."""
        return f"{self.month[0]:04d}-{self.month[1]:02d}"

    def table(self, name: str) -> Table:
        """The table of a section."""
        return next(table for table in self.tables if table.name == name)


def tidy(report: Report) -> Iterator[tuple[Value, ...]]:
    """One row for each figure of all tables, with the columns TIDY."""
    for table in report.tables:
        for row in (*table.rows, *(() if table.total is None else (table.total._replace(key="(all)"),))):
            key = " ".join((row.key, *map(str, row.values[: table.naming])))
            for column, value in zip(table.columns, row.values, strict=True):
                yield table.name, key, column.name, column.unit, value, "yes" if column.is_estimated else "no"
