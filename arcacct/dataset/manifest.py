"""
Which parts of a partition count, and what is in them: written last, so that a reader never takes half for the whole.

A reader takes the files that manifests name, and no other. It may find that one of them is gone, of a partition that
was written twice since: then it reads the manifest again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from arcacct.dataset.layout import TABLES, VERSION, Partition, is_part_name
from arcacct.errors import InputError

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
        whole = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: no manifest, it is cut off or damaged ({error}); {_ANEW}") from None
    if not isinstance(whole, dict) or "dataset_version" not in whole:
        raise InputError(f"{path}: no manifest of a dataset; {_ANEW}")
    if whole["dataset_version"] != VERSION:
        raise InputError(
            f"{path}: version {whole['dataset_version']} of the dataset, this program knows version {VERSION}:"
            " use the version of arcacct that wrote it, or export into another directory"
        )
    try:
        return _made(whole, partition)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{path}: the manifest is damaged ({type(error).__name__}: {error}); {_ANEW}") from None


_ANEW = "remove the file, and the next `arcacct export` of that CE writes the month anew"


def _made(whole: dict[str, Any], partition: Partition) -> Manifest:
    said = Partition(whole["site"], whole["year"], whole["month"], whole["ce"])
    if said != partition:
        raise ValueError(f"it says that it is of {said}, but stands at {partition}")
    if whole["names"] not in NAMES:
        raise ValueError(f"names: {whole['names']}")
    written_s = int(whole["written_s"])
    if not 0 <= written_s < 2**37:
        raise ValueError(f"written_s: {written_s} is no time")
    tables = {table: Part(**whole["tables"][table]) for table in TABLES}
    for part in tables.values():
        if not is_part_name(part.file) or part.file[5:21] != part.sha256[:16] or len(part.sha256) != 64:
            raise ValueError(f"{part.file} is no name of a part with this digest")
        if part.rows < 0 or part.bytes <= 0 or (part.end_min_s is None) != (part.end_max_s is None):
            raise ValueError(f"{part.file}: impossible numbers")
        begin, end = partition.bounds
        if (
            part.end_min_s is not None
            and part.end_max_s is not None
            and not begin <= part.end_min_s <= part.end_max_s < end
        ):
            raise ValueError(f"{part.file}: jobs that ended outside of the month")
    seen = {str(name): int(number) for name, number in whole.get("seen", {}).items()}
    return Manifest(
        partition, int(whole["schema"]), str(whole["life"]), int(whole["finished_log_seq"]), whole["names"],
        written_s, tables, seen,
    )  # fmt: skip
