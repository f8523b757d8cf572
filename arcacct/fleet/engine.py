"""An engine over the files of a dataset, with one table for each kind of file and the views of schema/fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from importlib import import_module
from typing import Any, Protocol, TypeVar

from arcacct.errors import InputError, UsageError
from arcacct.export.dataset import KEYS, columns
from arcacct.files.directories import resource
from arcacct.fleet.dataset import Dataset, Exported, damaged, judged

ENGINES = {
    "duckdb": ("arcacct.fleet.duckdb_engine", "Duck", "parquet"),
    "spark": ("arcacct.fleet.spark_engine", "Spark", "spark"),
}
"""By name: its module and class, and the extra that has what it needs."""
VIEWS = ("counted_jobs",)
"""Made in each engine, of the scripts of the same name."""
Answer = TypeVar("Answer")


class EngineFailed(Exception):
    """What an engine says of a statement, or of a file."""


class Engine(Protocol):
    """A dataset that is open."""

    def rows(self, sql: str, values: Mapping[str, object]) -> Iterator[tuple[Any, ...]]:
        """What a statement of ours answers. Raises EngineFailed."""

    def close(self) -> None:
        """Let go of everything."""


def script(name: str) -> str:
    """A text of schema/fleet."""
    with open(resource("schema", "fleet", f"{name}.sql"), encoding="utf-8") as file:
        return file.read()


def opened(name: str, found: Dataset, master: str | None = None) -> Engine:
    """An engine over a dataset. Raises UsageError where it is not installed, EngineFailed where it cannot read."""
    module, kind, extra = ENGINES[name]
    try:
        make: Callable[[Dataset, str | None], Engine] = getattr(import_module(module), kind)
    except ModuleNotFoundError as error:
        raise UsageError(f"--engine {name} needs the package {error.name}: pip install 'arcacct[{extra}]'") from error
    return make(found, master)


def answered(
    name: str, found: Dataset, ask: Callable[[Engine], Answer], master: str | None = None
) -> tuple[Answer, Dataset]:
    """
    An answer from all that can be read, and what that is, with what is wrong with the rest.

    Raises InputError when the engine fails and no file is to blame.
    """

    def tried(some: Dataset) -> Answer:
        with closing(opened(name, some, master)) as engine:
            return ask(engine)

    found = judged(found)
    while True:
        try:
            return tried(found), found
        except EngineFailed as error:
            found = left_out(name, found, error, tried)


def left_out(name: str, found: Dataset, error: EngineFailed, ask: Callable[[Dataset], object]) -> Dataset:
    """
    The same without the partitions that make an engine fail, which are found by asking parts of the dataset.

    Raises InputError when no partition is to blame.
    """
    suspects = _failing(found, error, ask)
    bad = damaged(found._replace(partitions=tuple(one for one, _why in suspects)))
    if not bad and len(suspects) < len(found.partitions):
        bad = {
            one.path: f"{one.path}: {name} cannot read {one.partition}, which is left out: {why}"
            for one, why in suspects
        }
    # Two may take too much together.
    bad = bad or damaged(found)
    if not bad:
        raise InputError(f"{name} cannot answer: {error}") from error
    return found.without(bad)


def _failing(
    found: Dataset, error: EngineFailed, ask: Callable[[Dataset], object]
) -> list[tuple[Exported, EngineFailed]]:
    """The partitions that an engine fails at alone, of a dataset that it fails at."""
    half = len(found.partitions) // 2
    if not half:
        return [(one, error) for one in found.partitions]
    failing = []
    for some in (found.partitions[:half], found.partitions[half:]):
        part = found._replace(partitions=some)
        try:
            ask(part)
        except EngineFailed as why:
            failing += _failing(part, why, ask)
    return failing


def typed(table: str, types: Mapping[str, str]) -> dict[str, str]:
    """
    The columns of a table, those of the partition first, each with its type as ``types`` calls it.

    Files that an older version wrote may lack some of them: these are NULL.
    """
    every = KEYS | {column.name: column.type for column in columns()[table]}
    return {name: types[kind] for name, kind in every.items()}
