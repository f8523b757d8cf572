"""The columns of a dataset's tables, from ``schema/fleet/columns.csv``: that file is for every engine."""

from __future__ import annotations

import csv
from functools import cache
from typing import Literal, NamedTuple, get_args

from arcacct.config.paths import resource
from arcacct.dataset.layout import TABLES

Type = Literal["int64", "double", "string"]


KEYS: dict[str, Type] = {"site": "string", "year": "int64", "month": "string", "ce": "string"}
"""The columns of a partition: they are in the paths alone."""


class Column(NamedTuple):
    """A column; every one may be NULL but ``record_id``."""

    name: str
    type: Type
    unit: str
    """Of what is measured, empty for all else; also in the metadata of the column in each file, under `UNIT`."""
    description: str


UNIT = b"unit"
DESCRIPTION = b"description"
TEXT_BYTES = 2**18
"""A text has at most so many bytes of UTF-8: the names of 20,000 slots."""
GROUP_ROWS = 2**20
"""A row group has at most so many rows."""


def group_bytes(rows: int) -> int:
    """How many bytes a row group with so many rows may have, uncompressed."""
    return 2**28 + rows * 2**13


@cache
def columns() -> dict[str, tuple[Column, ...]]:
    """By table, in their order, without `KEYS`."""
    found: dict[str, list[Column]] = {table: [] for table in TABLES}
    with open(resource("schema", "fleet", "columns.csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            (kind,) = [one for one in get_args(Type) if one == row["type"]]
            found[row["table"]].append(Column(row["column"], kind, row["unit"], row["description"]))
    return {table: tuple(of) for table, of in found.items()}
