"""The files of exported datasets that are read, and the problems of the others."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from arcacct.errors import InputError, StoreError
from arcacct.export.dataset import (
    KEYS,
    MANIFESTS,
    TABLES,
    VERSION,
    Manifest,
    Part,
    Partition,
    columns,
    is_part_name,
    parse,
    partition_of,
)
from arcacct.export.storage import Listing, Store, open_store
from arcacct.files.directories import resource

# The files of exported datasets to read, and the problems of the others.  A file that no manifest names is never read:
# an export may be under way, or was killed.


_MOST_NAMED = 20
_SITE_OF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*=")


class Unsound(Exception):
    """A file that is not a table of the dataset, or differs from its manifest: the difference, to follow its name."""


class Exported(NamedTuple):
    """A CE's jobs that ended in one month (UTC), from its manifest."""

    path: str
    """The path of the manifest."""
    store: Store
    """The dataset that contains it."""
    manifest: Manifest
    is_named: bool = False
    """Whether its site was named with this directory."""

    @property
    def partition(self) -> Partition:
        """The month and the CE."""
        return self.manifest.partition

    @property
    def month_name(self) -> str:
        """The month as YYYY-MM."""
        return f"{self.partition.year:04d}-{self.partition.month:02d}"

    @property
    def jobs(self) -> Part:
        """The part of the table of jobs."""
        return self.manifest.tables["jobs"]

    def file(self, table: str) -> str:
        """The path of the part of a table, or its URL."""
        return self.store.path_of(self.partition.part(table, self.manifest.tables[table].file))

    def open(self, table: str) -> Any:
        """Open the part of a table, as a file of pyarrow. Raises StoreError."""
        return self.store.open(self.partition.part(table, self.manifest.tables[table].file))


class Footer(NamedTuple):
    """The data of a file's footer."""

    names: tuple[str, ...]
    """All of its columns: a later version may have written unknown ones."""
    most_bytes: int
    """The most bytes that its rows may have, uncompressed."""


@dataclass(frozen=True)
class Dataset:
    """The usable partitions, and the problems of the rest."""

    candidates: tuple[Exported, ...]
    """The partitions without a known problem; a CE and month may have several."""
    wrong: tuple[str, ...] = ()
    """The problems of the others."""
    is_asked: Callable[[Exported], bool] = lambda _one: True
    footers: Mapping[str, Footer] = field(default_factory=dict)
    """By file (`Exported.file`), for the checked ones: see `arcacct.fleet.engine.judged`."""

    @cached_property
    def partitions(self) -> tuple[Exported, ...]:
        """One for each requested CE and month."""
        kept, _doubles = self._one_of_each
        return tuple(sorted(filter(self.is_asked, kept), key=lambda one: one.path))

    @property
    def problems(self) -> tuple[str, ...]:
        """All problems, one line each."""
        kept, doubles = self._one_of_each
        return (*self.wrong, *doubles, *_lives(kept))

    @cached_property
    def _one_of_each(self) -> tuple[list[Exported], list[str]]:
        return _one_of_each(self.candidates)

    def without(self, bad: Mapping[str, str]) -> Dataset:
        """
        Return the dataset without these manifests, which cannot be used: by path, with the reason of each.

        A partition that one of them had replaced is used again: a bad one has no effect.
        """
        kept = tuple(one for one in self.candidates if one.path not in bad)
        return replace(self, candidates=kept, wrong=(*self.wrong, *bad.values()))

    def only(self, some: Iterable[Exported]) -> Dataset:
        """Return some of its partitions, without problems."""
        return Dataset(tuple(some), footers=self.footers)

    def files(self, table: str) -> dict[str, Exported]:
        """The files of a table that have rows, in the order of their paths."""
        found = {one.file(table): one for one in self.partitions if one.manifest.tables[table].rows}
        return dict(sorted(found.items()))


def dataset(directories: Sequence[str]) -> Dataset:
    """
    Return all partitions below these directories, one for each CE and month.

    SITE=DIR means that a site is in this directory and in no other, and that no other site is there. Raises InputError
    for a directory without any manifest; single bad partitions are among the problems.
    """
    found: list[Exported] = []
    problems: list[str] = []
    sites_in: dict[str, set[str]] = {}
    for one in directories:
        site, told, directory = one.partition("=") if _SITE_OF.match(one) else ("", "", one)
        sites = sites_in.setdefault(directory if "://" in directory else os.path.abspath(directory), set())
        sites |= {site} if told else set()
    told_sites = set().union(*sites_in.values())
    for directory, sites in sites_in.items():
        there: set[str] = set()
        store = open_store(directory)
        manifests = store.listing(os.path.dirname(MANIFESTS))
        if not manifests.files and not manifests.refused:
            raise InputError(f"{directory}: no exported dataset; `arcacct export {directory}` writes one")
        problems += _refused(store, manifests)
        parts = store.listing(*(f"{table}/v{VERSION}" for table in TABLES))
        known = set()
        for path in sorted(manifests.files):
            partition = partition_of(path)
            if partition is None:
                continue
            known.add(partition.folder("jobs"))
            there.add(partition.site)
            if (partition.site not in sites) if sites else (partition.site in told_sites):
                continue
            try:
                found.append(_usable(store, partition, parts)._replace(is_named=bool(sites)))
            except (InputError, StoreError) as wrong:
                problems.append(f"{wrong}")
        problems += _unnamed(store, parts, known)
        problems += [
            f"{store.path_of(f'{MANIFESTS}/site={site}')}: left out, because this directory was not named for {site};"
            f" name it as {site}={store.shown} if its figures are from there"
            for site in sorted(there - sites if sites else there & told_sites)
        ]
        problems += [
            f"{store.shown}: it has no month of {site}; correct the name of the site" for site in sorted(sites - there)
        ]
    return Dataset(tuple(found), tuple(problems))


def last_month(directories: Sequence[str]) -> tuple[int, int]:
    """
    The last month (year and month) that any CE exported. Raises InputError without any.

    A month that is in the future by this host's clock counts only if all are: the clock of one CE may be wrong.
    """
    every = [one.partition for one in dataset(directories).partitions]
    known = [one for one in every if one.bounds[0] <= time.time()] or every
    if not known:
        raise InputError(f"{', '.join(directories)}: unreadable; `arcacct fleet verify` shows why")
    return max((one.year, one.month) for one in known)


def _refused(store: Store, manifests: Listing) -> Iterator[str]:
    """Other files in places of manifests, up to a limit."""
    for number, path in enumerate(sorted(manifests.refused)):
        if number == _MOST_NAMED:
            yield f"{store.path_of(os.path.dirname(MANIFESTS))}: {len(manifests.refused) - number} more like these"
            return
        yield manifests.refused[path]


def _unnamed(store: Store, parts: Listing, known: set[str]) -> Iterator[str]:
    """Partitions with files and without a manifest."""
    unnamed = set()
    for path in parts.files:
        folder, _, name = path.rpartition("/")
        if folder.startswith("jobs/") and folder not in known and is_part_name(name):
            unnamed.add(folder)
    for folder in sorted(unnamed):
        yield (
            f"{store.path_of(folder)}: half written: no manifest names its files, which are left out; `arcacct export`"
            " of that CE completes it"
        )


def _usable(store: Store, partition: Partition, parts: Listing) -> Exported:
    """The manifest with all of its files there, by a listing of these. Raises InputError, StoreError."""
    path = store.path_of(partition.manifest)
    found = _read(store, partition, path)
    if _absent(found, parts) is not None:
        # It may have been replaced, and its files removed, since it was listed.
        found = _read(store, partition, path)
        wrong = _absent(found, store.listing(*map(partition.folder, TABLES)))
        if wrong is not None:
            raise InputError(f"{path}: {wrong}; remove it, and the next export of that CE writes the month again")
    return found


def _absent(found: Exported, parts: Listing) -> str | None:
    for table, part in found.manifest.tables.items():
        path = found.partition.part(table, part.file)
        is_bytes = parts.files.get(path)
        if is_bytes is None:
            return parts.obstacle(path) or f"it names {found.file(table)}, which is missing"
        if is_bytes != part.bytes:
            return f"{found.file(table)} has {is_bytes} bytes, and should have {part.bytes}: it is truncated or changed"
    return None


def _read(store: Store, partition: Partition, path: str) -> Exported:
    data = store.read(partition.manifest)
    if data is None:
        raise InputError(f"{path}: it was removed during the query; repeat the query")
    return Exported(path, store, parse(data, partition, path))


def _one_of_each(found: Sequence[Exported]) -> tuple[list[Exported], list[str]]:
    """Return the last exported partition of each CE and month, and the ones left out, in words."""
    kept: dict[str, Exported] = {}
    by_name: dict[Partition, Exported] = {}
    by_life: dict[tuple[str, str, str], Exported] = {}
    problems = []
    for one in sorted(
        found, key=lambda one: (one.is_named, one.manifest.written_s, one.manifest.finished_log_seq, one.path)
    ):
        # A renamed site has exported the same jobs twice. A site that is named is never the former name of another one.
        life = one.manifest.life, one.partition.ce, one.month_name
        for before in (by_name.get(one.partition), by_life.get(life)):
            if before is not None and before.path in kept:
                del kept[before.path]
                why = (
                    "overlapping exports of the same CE"
                    if before.manifest.life == one.manifest.life
                    else "of two databases: two CEs have the same name, or the database was restored"
                )
                problems.append(
                    f"{before.path}: {why}; {one.path} was written later and is read instead, so that no job counts"
                    " twice; if it is not of this CE, name the directory of each site as SITE=DIR"
                )
        kept[one.path] = by_name[one.partition] = one
        if not one.is_named:
            by_life[life] = one
    return list(kept.values()), problems


def _lives(kept: Sequence[Exported]) -> Iterator[str]:
    """CEs whose months come from several databases."""
    lives: dict[str, dict[str, Exported]] = {}
    for one in sorted(kept, key=lambda one: (one.partition.ce, one.month_name, one.path)):
        lives.setdefault(one.partition.ce, {}).setdefault(one.manifest.life, one)
    for ce, known in lives.items():
        sites = sorted({one.partition.site for one in known.values()})
        if len(sites) > 1:
            yield f"{ce}: CEs of the sites {', '.join(sites)} have this name; all of their jobs count"
        elif len(known) > 1:
            first, second, *_more = known.values()
            yield (
                f"{second.path}: from {second.month_name} on {ce} is of another database than in {first.month_name}:"
                " two CEs have the same name, or the database was restored and its earlier months not exported again;"
                " all of their jobs count"
            )


def first_line(error: BaseException) -> str:
    """Return the first line of a library's error; further lines are about its own code."""
    return (str(error) or type(error).__name__).splitlines()[0]


# The interface of an engine that answers from these files, and the statements of schema/fleet for each.


VIEWS = ("counted_jobs",)
"""Created in each engine, from the scripts of the same name."""


class EngineFailed(Exception):
    """The error of an engine about a statement or a file."""


class Engine(Protocol):
    """A dataset that is open."""

    def rows(self, sql: str, values: Mapping[str, object]) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a statement of ours. Raises EngineFailed."""

    def close(self) -> None:
        """Release everything."""


def script(name: str) -> str:
    """A text of schema/fleet."""
    with open(resource("schema", "fleet", f"{name}.sql"), encoding="utf-8") as file:
        return file.read()


def typed(table: str, types: Mapping[str, str]) -> dict[str, str]:
    """
    Return the columns of a table, those of the partition first, each with its type by ``types``.

    Files of an older version may lack some of them: these are NULL.
    """
    every = KEYS | {column.name: column.type for column in columns()[table]}
    return {name: types[kind] for name, kind in every.items()}
