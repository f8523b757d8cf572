"""Which files of exported datasets are read, and what is wrong with the others."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from arcacct.errors import InputError, StoreError, UsageError
from arcacct.export.dataset import (
    MANIFESTS,
    TABLES,
    TEXT_BYTES,
    VERSION,
    Manifest,
    Part,
    Partition,
    columns,
    is_part_name,
    parse,
    partition_of,
)
from arcacct.export.storage import Listing, LocalStore, Store, open_store
from arcacct.wording import count_of

# Which files of exported datasets are to be read, and what is wrong with the others.
#
# A file that no manifest names is never read: an export may be under way, or was killed.


_MOST_NAMED = 20


class Unsound(Exception):
    """A file that is no table of the dataset, or not what its manifest says: how it differs, to follow its name."""


class Exported(NamedTuple):
    """A CE's jobs that ended in one month (UTC), as a manifest tells of them."""

    path: str
    """Of the manifest."""
    store: Store
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
        """The path of the part of a table, or its URL."""
        return self.store.path_of(self.partition.part(table, self.manifest.tables[table].file))

    def open(self, table: str) -> Any:
        """The part of a table, as a file of pyarrow. Raises StoreError."""
        return self.store.open(self.partition.part(table, self.manifest.tables[table].file))


class Footer(NamedTuple):
    """What is known of a file by its footer."""

    names: tuple[str, ...]
    """All of its columns: a later version may have written some that nobody knows here."""
    most_bytes: int
    """That its rows may have, uncompressed."""


class Dataset(NamedTuple):
    """What can be asked, and what is wrong with the rest."""

    partitions: tuple[Exported, ...]
    """One for each CE and month."""
    problems: tuple[str, ...]
    footers: Mapping[str, Footer] = MappingProxyType({})
    """By file (`Exported.file`), of those whose footers were read: see `arcacct.fleet.dataset.judged`."""

    def without(self, bad: Mapping[str, str]) -> Dataset:
        """The same where these manifests cannot be used: by path, with the reason of each."""
        kept = tuple(one for one in self.partitions if one.path not in bad)
        return self._replace(partitions=kept, problems=(*self.problems, *bad.values()))

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
    for directory in dict.fromkeys(one if "://" in one else os.path.abspath(one) for one in directories):
        store = open_store(directory)
        manifests = store.listing(os.path.dirname(MANIFESTS))
        if not manifests.files and not manifests.refused:
            raise InputError(f"{directory}: there is no exported dataset; `arcacct export {directory}` writes one")
        problems += _refused(store, manifests)
        parts = store.listing(*(f"{table}/v{VERSION}" for table in TABLES))
        known = set()
        for path in sorted(manifests.files):
            partition = partition_of(path)
            if partition is not None:
                known.add(partition.folder("jobs"))
                try:
                    found.append(_usable(store, partition, parts))
                except (InputError, StoreError) as wrong:
                    problems.append(f"{wrong}")
        problems += _unnamed(store, parts, known)
    kept, doubles = _one_of_each(found)
    return Dataset(tuple(sorted(kept, key=lambda one: one.path)), (*problems, *doubles, *_lives(kept)))


def last_month(directories: Sequence[str]) -> tuple[int, int]:
    """The last month (year and month) that any CE exported. Raises InputError without any."""
    known = [one.partition for one in dataset(directories).partitions]
    if not known:
        raise InputError(f"{', '.join(directories)}: nothing of it can be read; `arcacct fleet verify` says why")
    return max((one.year, one.month) for one in known)


def _refused(store: Store, manifests: Listing) -> Iterator[str]:
    """What stands where manifests could be, as far as people read on."""
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
        # It may have been replaced, and what it named be removed, since it was listed.
        found = _read(store, partition, path)
        wrong = _absent(found, store.listing(*map(partition.folder, TABLES)))
        if wrong is not None:
            raise InputError(f"{path}: {wrong}; remove it, and the next export of that CE writes the month anew")
    return found


def _absent(found: Exported, parts: Listing) -> str | None:
    for table, part in found.manifest.tables.items():
        path = found.partition.part(table, part.file)
        is_bytes = parts.files.get(path)
        if is_bytes is None:
            return parts.obstacle(path) or f"it names {found.file(table)}, which is not there"
        if is_bytes != part.bytes:
            return f"{found.file(table)} has {is_bytes} bytes, and should have {part.bytes}: it is cut off or changed"
    return None


def _read(store: Store, partition: Partition, path: str) -> Exported:
    data = store.read(partition.manifest)
    if data is None:
        raise InputError(f"{path}: it was there a moment ago, and is gone; ask again")
    return Exported(path, store, parse(data, partition, path))


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


def first_line(error: BaseException) -> str:
    """What an error of a library says; further lines are about its own code."""
    return (str(error) or type(error).__name__).splitlines()[0]


# Files of a dataset against the schema of the dataset, and against what their manifests say of them.


_PIECE = 2**20
_REQUESTS = 8
"""To an object store at once."""
_Result = TypeVar("_Result")


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
    sound = judged(found, empty=True)
    if deep:
        sound = sound.without(damaged(sound))
    return Checked(
        len(found.partitions),
        sum(len(one.manifest.tables) for one in found.partitions),
        sum(one.jobs.rows for one in sound.partitions),
        sound.problems,
        (*_notes(found.partitions), *_twins(sound)),
    )


def judged(found: Dataset, *, empty: bool = False) -> Dataset:
    """
    The same without the partitions of which a file differs from the schema or its manifest, by the footers.

    ``empty``: also files without rows, which nobody reads. Raises UsageError without pyarrow.
    """
    try:
        from arcacct.fleet.footers import Footers  # noqa: PLC0415  the package of an extra
    except ModuleNotFoundError as error:
        raise UsageError("files are checked by the package pyarrow: pip install 'arcacct[parquet]'") from error
    footers = Footers()

    def of(one: Exported) -> tuple[dict[str, Footer], str | None]:
        known: dict[str, Footer] = {}
        for table, part in one.manifest.tables.items():
            if part.rows or empty:
                try:
                    known[one.file(table)] = footers.of(one, table)
                except Exception as error:  # noqa: BLE001  pyarrow raises many kinds for what is no sound file
                    return {}, _complaint(one, table, error)
        return known, None

    by_file: dict[str, Footer] = {}
    bad = {}
    for one, (known, wrong) in zip(found.partitions, _each(of, found.partitions), strict=True):
        by_file |= known
        if wrong is not None:
            bad[one.path] = wrong
    return found.without(bad)._replace(footers=by_file)


def _each(of: Callable[[Exported], _Result], partitions: Sequence[Exported]) -> Iterable[_Result]:
    """Of each partition; of an object store some at once, since each file takes a few requests."""
    if all(isinstance(one.store, LocalStore) for one in partitions):
        return map(of, partitions)
    with ThreadPoolExecutor(_REQUESTS) as pool:
        return [*pool.map(of, partitions)]


def damaged(found: Dataset, *, within_s: float | None = None) -> dict[str, str]:
    """
    By manifest the reason for each partition that has a damaged file: every byte and every value of all is read.

    ``found``: with its footers read, by `judged`. ``within_s``: those that there is time for.
    """
    bad = {}
    until_s = None if within_s is None else time.monotonic() + within_s
    for one in found.partitions:
        if until_s is not None and time.monotonic() > until_s:
            break
        for table, part in one.manifest.tables.items():
            try:
                _check_bytes(one, table)
                if part.rows:
                    _check_values(found, one, table)
            except Exception as error:  # noqa: BLE001  engines raise many kinds for what is no sound file
                bad[one.path] = _complaint(one, table, error)
                break
    return bad


def _complaint(one: Exported, table: str, error: Exception) -> str:
    said = str(error) if isinstance(error, Unsound) else f"cannot be read: {first_line(error)}"
    return (
        f"{one.path}: {one.file(table)} {said}; {one.partition} is left out: remove the manifest, and the next export"
        " of that CE writes the month anew"
    )


def _check_bytes(one: Exported, table: str) -> None:
    digest = hashlib.sha256()
    with one.open(table) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    if digest.hexdigest() != one.manifest.tables[table].sha256:
        raise Unsound("has other content than was exported (sha256)")


def _check_values(found: Dataset, one: Exported, table: str) -> None:
    """Read every value, as a question would. Raises Unsound for texts that are too long, and EngineFailed."""
    from arcacct.fleet.duckdb_engine import every_value  # noqa: PLC0415  the package of an extra

    footer = found.footers[one.file(table)]
    kinds = {column.name: column.type for column in columns()[table] if column.name in footer.names}
    texts = [name for name, kind in kinds.items() if kind == "string"]
    numbers = [f"sum({name})" for name in kinds if name not in texts]
    lengths = [f"{what}(strlen({name}))" for what in ("max", "sum") for name in texts]
    with closing(every_value(found._replace(partitions=(one,)), [table])) as engine:
        ((known, *told),) = engine.rows(f"SELECT count(record_id), {', '.join(lengths + numbers)} FROM {table}", {})
    rows = one.manifest.tables[table].rows
    if known != rows:
        raise Unsound(f"has {count_of(known, 'row')} with a record_id, the manifest says {rows}")
    longest = dict(zip(texts, told, strict=False))
    together = sum(filter(None, told[len(texts) : 2 * len(texts)]))
    for name, length in longest.items():
        if length is not None and length > TEXT_BYTES:
            raise Unsound(f"has a text of {length} bytes in {name}; at most {TEXT_BYTES} are read")
    if together > footer.most_bytes:
        raise Unsound(f"has {together} bytes of text; at most {footer.most_bytes} are read")


def _twins(found: Dataset) -> Iterator[str]:
    """The months of sites in which several CEs have jobs that APEL would take for one, and what keeps them apart."""
    from arcacct.fleet.duckdb_engine import every_value  # noqa: PLC0415  the package of an extra
    from arcacct.fleet.engine import EngineFailed  # noqa: PLC0415  it imports this module

    by_month: dict[tuple[str, int, int], list[Exported]] = {}
    for one in sorted(found.partitions, key=lambda one: one.partition):
        if one.jobs.rows:
            by_month.setdefault(one.partition[:3], []).append(one)
    for (site, year, month), known in by_month.items():
        if len(known) == 1:
            continue
        try:
            with closing(every_value(found._replace(partitions=tuple(known)), ["jobs"])) as engine:
                rows = [*engine.rows(_SAME_KEY, {})]
        except EngineFailed as error:
            yield f"{site}, {year}-{month:02d}: the CEs could not be compared: {error}"
            continue
        for ces, count, example in rows:
            yield (
                f"{site}, {year}-{month:02d}: {count_of(count, 'id')} of the batch system with the same end at {ces}"
                f" ({example}{', ...' if count > 1 else ''}): where these CEs publish job records, APEL takes such jobs"
                " for one, and each CE needs a localid_prefix= of its own; then `arcacct publish --accept-lower"
                f" {year}-{month:02d}` at every one of them separates what was sent"
            )


_SAME_KEY = """
    WITH Twins AS (
        SELECT lower(rtrim(local_job_id)) AS id, end_time, string_agg(DISTINCT ce, ' and ' ORDER BY ce) AS ces
          FROM jobs WHERE local_job_id <> '' GROUP BY 1, 2 HAVING count(DISTINCT ce) > 1)
    SELECT ces, count(*), min(id) FROM Twins GROUP BY ces ORDER BY ces
"""
"""As APEL compares the keys of job records: the id without regard to case and blanks at its end, and the end."""


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
