"""Files of a dataset against what their manifests say of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

from arcacct.errors import UsageError
from arcacct.fleet.manifests import Dataset, Exported
from arcacct.wording import count_of

_PIECE = 2**20


class Checked(NamedTuple):
    """What was looked at, and found."""

    partitions: int
    files: int
    jobs: int
    """That can be asked."""
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    """What may be right, and be looked at."""


def check(found: Dataset, *, deep: bool) -> Checked:
    """All files by their footers, with ``deep`` every byte too; and what the CEs lack. Raises UsageError."""
    bad = dict(damaged(found.partitions, deep=deep))
    return Checked(
        len(found.partitions),
        sum(len(one.manifest.tables) for one in found.partitions),
        sum(one.jobs.rows for one in found.partitions if one.path not in bad),
        (*found.problems, *bad.values()),
        tuple(_notes(found.partitions)),
    )


def damaged(partitions: Iterable[Exported], *, deep: bool = False) -> Iterator[tuple[str, str]]:
    """The manifest of each whose files are not what it says, with the reason. Raises UsageError without pyarrow."""
    try:
        parquet = import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise UsageError("files are checked by the package pyarrow: pip install 'arcacct[parquet]'") from error
    for one in partitions:
        for table in one.manifest.tables:
            wrong = _wrong(parquet, one, table, deep=deep)
            if wrong is not None:
                told = f"{one.path}: {one.file(table)} {wrong}; {one.partition} is left out: remove the manifest, and"
                yield one.path, f"{told} the next export of that CE writes the month anew"
                break


def _wrong(parquet: Any, one: Exported, table: str, *, deep: bool) -> str | None:
    part = one.manifest.tables[table]
    try:
        with one.open(table) as file:
            if deep:
                digest = hashlib.sha256()
                while piece := file.read(_PIECE):
                    digest.update(piece)
                if digest.hexdigest() != part.sha256:
                    return "has other content than was exported (sha256)"
            footer = parquet.read_metadata(file)
        if footer.num_rows != part.rows:
            return f"has {count_of(footer.num_rows, 'row')}, the manifest says {part.rows}"
        ends = _ends(footer) if table == "jobs" else None
    except Exception as error:  # noqa: BLE001  pyarrow raises many kinds for what is no sound file
        # The first line says it, the others are pyarrow's own places.
        return f"cannot be read: {(str(error) or type(error).__name__).splitlines()[0]}"
    if ends is not None and ends != (part.end_min_s, part.end_max_s):
        return (
            f"has jobs that ended from {ends[0]} to {ends[1]}, the manifest says {part.end_min_s} to {part.end_max_s}"
        )
    return None


def _ends(footer: Any) -> tuple[int, int] | None:
    """The first and the last end time, if the footer tells them."""
    found: list[int] = []
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for place in range(group.num_columns):
            column = group.column(place)
            if column.path_in_schema == "end_time":
                if column.statistics is None or not column.statistics.has_min_max:
                    return None
                found += [column.statistics.min, column.statistics.max]
                break
    return (min(found), max(found)) if found else None


def _notes(partitions: Iterable[Exported]) -> Iterator[str]:
    by_ce: dict[tuple[str, str], list[Exported]] = {}
    for one in sorted(partitions, key=lambda one: one.partition):
        by_ce.setdefault((one.partition.site, one.partition.ce), []).append(one)
    for (site, ce), known in by_ce.items():
        for before, after in pairwise(known):
            months = after.partition.year - before.partition.year, after.partition.month - before.partition.month
            lacking = months[0] * 12 + months[1] - 1
            if lacking:
                yield (
                    f"{site}, {ce}: nothing of {count_of(lacking, 'month')} between {before.month_name} and"
                    f" {after.month_name}: no job ended then, or it was not exported"
                )
        names = {one.manifest.names for one in known}
        if len(names) > 1:
            yield f"{site}, {ce}: names are {' and '.join(sorted(names))}: a user counts under each"
