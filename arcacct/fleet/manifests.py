"""
Which files of exported datasets are to be read, and what is wrong with the others.

A file that no manifest names is never read: an export may be under way, or was killed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from arcacct.dataset.layout import MANIFESTS, TABLES, Partition, is_part_name, partition_of
from arcacct.dataset.manifest import Manifest, Part, parse
from arcacct.errors import InputError

_LARGEST_MANIFEST = 2**20
_LEVELS = ("site", "year", "month", "ce")


class Exported(NamedTuple):
    """A CE's jobs that ended in one month (UTC), as a manifest tells of them."""

    path: str
    """Of the manifest."""
    root: str
    """The dataset that it is in."""
    manifest: Manifest

    @property
    def partition(self) -> Partition:
        """Which month of which CE."""
        return self.manifest.partition

    @property
    def month_name(self) -> str:
        """YYYY-MM."""
        return f"{self.partition.year:04d}-{self.partition.month:02d}"

    @property
    def jobs(self) -> Part:
        """Of the table of jobs."""
        return self.manifest.tables["jobs"]

    def file(self, table: str) -> str:
        """The path of the part of a table."""
        return os.path.join(self.root, self.partition.part(table, self.manifest.tables[table].file))


class Dataset(NamedTuple):
    """What can be asked, and what is wrong with the rest."""

    partitions: tuple[Exported, ...]
    """One for each CE and month."""
    problems: tuple[str, ...]

    def without(self, bad: Mapping[str, str]) -> Dataset:
        """The same where these manifests cannot be used: by path, with the reason of each."""
        kept = tuple(one for one in self.partitions if one.path not in bad)
        return Dataset(kept, (*self.problems, *bad.values()))

    def files(self, table: str) -> dict[str, Exported]:
        """The files of a table that have rows, in the order of their paths."""
        found = {one.file(table): one for one in self.partitions if one.manifest.tables[table].rows}
        return dict(sorted(found.items()))


def dataset(directories: Sequence[str]) -> Dataset:
    """
    All partitions below these directories, of each CE and month one.

    Raises InputError for a directory without any manifest; what is wrong with single partitions is among the problems.
    """
    found: list[Exported] = []
    problems: list[str] = []
    for given in directories:
        if "://" in given:
            raise InputError(f"{given}: datasets are read from directories: mount it, or copy what is asked for")
    for directory in dict.fromkeys(map(os.path.abspath, directories)):
        known = 0
        for path, partition in _listed(directory):
            known += 1
            try:
                found.append(_usable(directory, path, partition))
            except InputError as wrong:
                problems.append(f"{wrong}")
        folder, version = os.path.split(os.path.join(directory, MANIFESTS))
        others = [name for name in _names(folder) if name != version]
        problems += [
            f"{folder}/{name}: a dataset of another version, which is left out; this program reads {version}"
            for name in others
        ]
        if not known and not others:
            raise InputError(f"{directory}: there is no exported dataset; `arcacct export {directory}` writes one")
        problems += _unnamed(directory)
    kept, doubles = _one_of_each(found)
    return Dataset(tuple(sorted(kept, key=lambda one: one.path)), (*problems, *doubles, *_lives(kept)))


def last_month(directories: Sequence[str]) -> tuple[int, int]:
    """The last month (year and month) that any CE exported. Raises InputError without any."""
    known = [one.partition for one in dataset(directories).partitions]
    if not known:
        raise InputError(f"{', '.join(directories)}: nothing of it can be read; `arcacct fleet verify` says why")
    return max((one.year, one.month) for one in known)


def _names(directory: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if not name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{directory}: cannot be read: {error.strerror}") from error


def _below(directory: str, levels: Sequence[str]) -> Iterator[str]:
    """The paths, from here, of all that is called ``LEVEL=...`` at each level."""
    for name in _names(directory):
        if name.startswith(f"{levels[0]}="):
            if not levels[1:]:
                yield name
            elif os.path.isdir(os.path.join(directory, name)):
                for inner in _below(os.path.join(directory, name), levels[1:]):
                    yield f"{name}/{inner}"


def _listed(directory: str) -> Iterator[tuple[str, Partition]]:
    """Each manifest, and its partition."""
    for below in _below(os.path.join(directory, MANIFESTS), _LEVELS):
        partition = partition_of(f"{MANIFESTS}/{below}")
        if partition is not None:
            yield os.path.join(directory, MANIFESTS, below), partition


def _unnamed(directory: str) -> Iterator[str]:
    """Partitions with files and without a manifest."""
    version = os.path.basename(MANIFESTS)
    root = os.path.join(directory, "jobs", version)
    for below in _below(root, _LEVELS):
        folder, manifest = os.path.join(root, below), os.path.join(directory, MANIFESTS, f"{below}.json")
        if not os.path.exists(manifest) and any(map(is_part_name, _names(folder))):
            yield (
                f"{folder}: half written: no manifest names its files, which are left out; `arcacct export` of that CE"
                " completes it"
            )


def _usable(directory: str, path: str, partition: Partition) -> Exported:
    """The manifest with all of its files there. Raises InputError."""
    found = _read(directory, path, partition)
    if _absent(found) is not None:
        # It may have been replaced, and what it named be removed, since it was read.
        found = _read(directory, path, partition)
        wrong = _absent(found)
        if wrong is not None:
            raise InputError(f"{path}: {wrong}; the next export of the month writes it anew")
    return found


def _absent(found: Exported) -> str | None:
    for table in TABLES:
        file, size_bytes = found.file(table), found.manifest.tables[table].bytes
        try:
            is_bytes = os.stat(file).st_size
        except OSError as error:
            return f"it names {file}, which cannot be read: {error.strerror}"
        if is_bytes != size_bytes:
            return f"{file} has {is_bytes} bytes, and should have {size_bytes}: it is cut off or changed"
    return None


def _read(directory: str, path: str, partition: Partition) -> Exported:
    try:
        with open(path, "rb") as file:
            return Exported(path, directory, parse(file.read(_LARGEST_MANIFEST), partition, path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def _one_of_each(found: Sequence[Exported]) -> tuple[list[Exported], list[str]]:
    """Of each CE and month the one that was exported last, and what that leaves out, in words."""
    kept: dict[str, Exported] = {}
    by_name: dict[Partition, Exported] = {}
    by_life: dict[tuple[str, str, str], Exported] = {}
    problems = []
    for one in sorted(found, key=lambda one: (one.manifest.written_s, one.manifest.finished_log_seq, one.path)):
        # A site that was renamed has exported the same jobs twice.
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
                    " twice"
                )
        kept[one.path] = by_name[one.partition] = by_life[life] = one
    return list(kept.values()), problems


def _lives(kept: Sequence[Exported]) -> Iterator[str]:
    """CEs of which some months are of another database than others."""
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
