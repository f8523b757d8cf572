"""
Which parts of a partition count, and what is in them: written last, so that a reader never takes half for the whole.

A reader takes the files that manifests name, and no other. It may find that one of them is gone, of a partition that
was written twice since: then it reads the manifest again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from arcacct.dataset.layout import TABLES, VERSION, Partition, part_name
from arcacct.errors import InputError
from arcacct.files.json_reader import parsed

MOST_BYTES = 2**20
"""A larger file is no manifest."""
NAMES = ("plain", "hashed", "withheld")
"""How a dataset has the names of users."""


class Part(NamedTuple):
    """The part of one table."""

    file: str
    rows: int
    end_min_s: int | None
    """The first and the last end of its jobs, UTC seconds; ``None`` without rows."""
    end_max_s: int | None
    sha256: str
    bytes: int


class Manifest(NamedTuple):
    """What a partition consists of."""

    partition: Partition
    schema: int
    """Of the accounting database that it was written from."""
    life: str
    """Which database that was: its incarnation."""
    finished_log_seq: int
    """Every change of the log up to here is in it."""
    names: str
    written_s: int
    tables: Mapping[str, Part]
    seen: Mapping[str, int]
    """What `export` saw of the month, to notice what the log does not tell; nothing for readers."""

    def to_json(self) -> bytes:
        """The file."""
        site, year, month, ce = self.partition
        tables = {table: part._asdict() for table, part in self.tables.items()}
        whole = {
            "dataset_version": VERSION, "site": site, "ce": ce, "year": year, "month": month, "schema": self.schema,
            "life": self.life, "finished_log_seq": self.finished_log_seq, "names": self.names,
            "written_s": self.written_s, "tables": tables, "seen": dict(self.seen),
        }  # fmt: skip
        return f"{json.dumps(whole, indent=1)}\n".encode()


def parse(data: bytes, partition: Partition, path: str) -> Manifest:
    """
    The manifest of a partition, from the bytes of its file; ``path`` is for messages.

    Raises InputError for one that is damaged, of another version of the dataset, or of another partition.
    """
    try:
        whole = parsed(data, most_depth=_LEVELS)
    except ValueError as error:
        raise InputError(f"{path}: no manifest, it is cut off or damaged ({error}); {_ANEW}") from None
    if not isinstance(whole, dict) or type(whole.get("dataset_version")) is not int:
        raise InputError(f"{path}: no manifest of a dataset; {_ANEW}")
    if whole["dataset_version"] != VERSION:
        raise InputError(
            f"{path}: version {_shown(whole['dataset_version'])} of the dataset, this program knows version {VERSION}:"
            " use the version of arcacct that wrote it, or export into another directory"
        )
    try:
        return _made(whole, partition)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: the manifest is damaged ({type(error).__name__}: {error}); {_ANEW}") from None


_ANEW = "remove the file, and the next `arcacct export` of that CE writes the month anew"
_LEVELS = 8
_DIGEST = re.compile("[0-9a-f]{64}")
_MOST_ROWS = 10**11
_MOST_PART_BYTES = 10**13
_MOST_SEEN = 100
_LONGEST = 200
"""Characters of a name."""


def _made(whole: dict[str, Any], partition: Partition) -> Manifest:
    said = tuple(whole[name] for name in ("site", "year", "month", "ce"))
    if said != tuple(partition):
        raise ValueError(f"it says that it is of {', '.join(map(_shown, said))}, but stands at {partition}")
    if whole["names"] not in NAMES:
        raise ValueError(f"names: {_shown(whole['names'])}")
    tables = {table: _part(whole["tables"][table], partition) for table in TABLES}
    seen = whole.get("seen", {})
    if len(seen) > _MOST_SEEN:
        raise ValueError(f"{len(seen)} counts")
    return Manifest(
        partition,
        _number(whole, "schema", 2**31),
        _text(whole, "life"),
        _number(whole, "finished_log_seq", 2**63),
        whole["names"],
        # No clock is in the year 6325.
        _number(whole, "written_s", 2**37),
        tables,
        {name[:_LONGEST]: _number(seen, name, 2**63) for name in seen},
    )


def _part(told: dict[str, Any], partition: Partition) -> Part:
    begin, end = partition.bounds
    rows = _number(told, "rows", _MOST_ROWS)
    first, last = (None if told[name] is None else _number(told, name, 2**63) for name in ("end_min_s", "end_max_s"))
    part = Part(_text(told, "file"), rows, first, last, _text(told, "sha256"), _number(told, "bytes", _MOST_PART_BYTES))
    if _DIGEST.fullmatch(part.sha256) is None or part.file != part_name(part.sha256):
        raise ValueError(f"{part.file} is no name of a part with this digest")
    if not part.bytes or (first is None) != (last is None):
        raise ValueError(f"{part.file}: impossible numbers")
    if first is not None and last is not None and not begin <= first <= last < end:
        raise ValueError(f"{part.file}: jobs that ended outside of the month")
    return part


def _number(told: dict[str, Any], name: str, below: int) -> int:
    number = told[name]
    if type(number) is not int or not 0 <= number < below:
        raise ValueError(f"{_shown(name)}: {_shown(number)}")
    return number


def _text(told: dict[str, Any], name: str) -> str:
    text = told[name]
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise ValueError(f"{name}: {_shown(text)}")
    return text


def _shown(value: object) -> str:
    """A value of others, as far as a message has room for it."""
    return f"{value!s:.50}" if isinstance(value, str | int | float) else "neither a number nor a text"
