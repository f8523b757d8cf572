"""
An engine over the files of a dataset, with one table for each kind of file and the views of schema/fleet, once the
files are checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from typing import NamedTuple, TypeVar

from arcacct.errors import InputError, UsageError, install_extra
from arcacct.export.dataset import TABLES, TEXT_BYTES, columns
from arcacct.export.storage import LocalStore
from arcacct.fleet.dataset import Dataset, Engine, EngineFailed, Exported, Unsound, first_line, script
from arcacct.wording import count_of

# The files of exported datasets that are read, and the problems of the others.


# Check files of a dataset against its schema, and against the statements of their manifests.


_REQUESTS = 8
"""To an object store at once."""


class Checked(NamedTuple):
    """The checked files and the findings."""

    partitions: int
    files: int
    jobs: int
    """The usable jobs."""
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    """Findings that may be right, for the administrator to check."""


def check(found: Dataset, *, deep: bool) -> Checked:
    """All files by digest and footer, with ``deep`` every value too; and what the CEs lack. Raises UsageError."""
    sound = judged(found, empty=True, deep=deep)
    impossible = tuple(_impossible_in(sound)) if deep else ()
    return Checked(
        len(found.partitions),
        sum(len(one.manifest.tables) for one in found.partitions),
        sum(one.jobs.rows for one in sound.partitions),
        (*sound.problems, *impossible),
        (*_notes(found.partitions), *_twins(sound)),
    )


def judged(found: Dataset, tables: Collection[str] = TABLES, *, empty: bool = False, deep: bool = False) -> Dataset:
    """
    Return the dataset without partitions that have a file of these tables that differs from the schema or its manifest.

    Each file is read completely, for its digest, before it is used. ``empty``: also files without rows, which no query
    reads. ``deep``: every value is read, too. Raises UsageError without pyarrow.
    """
    try:
        from arcacct.fleet.footers import Footers  # noqa: PLC0415  the package of an extra
    except ModuleNotFoundError as error:
        raise UsageError(f"files are checked by the package pyarrow: {install_extra('parquet')}") from error
    footers = Footers()
    known = dict(found.footers)

    def of(one: Exported) -> str | None:
        for table in tables:
            if (one.manifest.tables[table].rows or empty) and one.file(table) not in known:
                try:
                    known[one.file(table)] = footers.of(one, table)
                except Exception as error:  # noqa: BLE001  pyarrow raises many kinds for what is no sound file
                    return _complaint(one, table, error)
        return None

    seen: set[str] = set()
    # In place of a bad file there may be another of the same CE and month.
    while new := [one for one in found.partitions if one.path not in seen]:
        seen.update(one.path for one in new)
        bad = {one.path: wrong for one, wrong in zip(new, _each(of, new), strict=True) if wrong is not None}
        found = replace(found.without(bad), footers=known)
        if deep:
            found = found.without(damaged(found.only(one for one in new if one.path not in bad)))
    return found


def _each(of: Callable[[Exported], str | None], partitions: Sequence[Exported]) -> Iterable[str | None]:
    """Yield the result for each partition; for an object store, some at once, since each file takes a few requests."""
    if all(isinstance(one.store, LocalStore) for one in partitions):
        return map(of, partitions)
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  only of an object store

    with ThreadPoolExecutor(_REQUESTS) as pool:
        return [*pool.map(of, partitions)]


def damaged(found: Dataset, *, within_s: float | None = None) -> dict[str, str]:
    """
    Return, by manifest, the reason for each partition with an unreadable value: it reads all values of the judged
    files.

    ``found``: the result of `judged`. ``within_s``: the time limit.
    """
    bad = {}
    until_s = None if within_s is None else time.monotonic() + within_s
    for one in found.partitions:
        if until_s is not None and time.monotonic() > until_s:
            break
        for table, part in one.manifest.tables.items():
            try:
                if part.rows and one.file(table) in found.footers:
                    _check_values(found, one, table)
            except Exception as error:  # noqa: BLE001  engines raise many kinds for what is no sound file
                bad[one.path] = _complaint(one, table, error)
                break
    return bad


def _complaint(one: Exported, table: str, error: Exception) -> str:
    said = str(error) if isinstance(error, Unsound) else f"cannot be read: {first_line(error)}"
    return (
        f"{one.path}: {one.file(table)} {said}; {one.partition} is left out: remove the manifest, and the next export"
        " of that CE writes the month again"
    )


def _check_values(found: Dataset, one: Exported, table: str) -> None:
    """Read every value, as a question would. Raises Unsound for texts that are too long, and EngineFailed."""
    from arcacct.fleet.duckdb_engine import every_value  # noqa: PLC0415  the package of an extra

    footer = found.footers[one.file(table)]
    kinds = {column.name: column.type for column in columns()[table] if column.name in footer.names}
    texts = [name for name, kind in kinds.items() if kind == "string"]
    numbers = [f"sum({name})" for name in kinds if name not in texts]
    lengths = [f"{what}(strlen({name}))" for what in ("max", "sum") for name in texts]
    with closing(every_value(found.only([one]), [table])) as engine:
        # Events and attributes repeat the number of their job.
        which = "DISTINCT record_id" if table == "jobs" else "record_id"
        ((known, *told),) = engine.rows(f"SELECT count({which}), {', '.join(lengths + numbers)} FROM {table}", {})
    rows = one.manifest.tables[table].rows
    if known != rows:
        what = "record_id of their own" if table == "jobs" else "record_id"
        raise Unsound(f"has {count_of(known, 'row')} with a {what}, the manifest says {rows}")
    longest = dict(zip(texts, told, strict=False))
    together = sum(filter(None, told[len(texts) : 2 * len(texts)]))
    for name, length in longest.items():
        if length is not None and length > TEXT_BYTES:
            raise Unsound(f"has a text of {length} bytes in {name}; at most {TEXT_BYTES} are read")
    if together > footer.most_bytes:
        raise Unsound(f"has {together} bytes of text; at most {footer.most_bytes} are read")


def _impossible_in(found: Dataset) -> Iterator[str]:
    from arcacct.fleet.duckdb_engine import every_value  # noqa: PLC0415  the package of an extra

    for one in found.partitions:
        if one.jobs.rows:
            alone = found.only([one])
            with closing(every_value(alone, ["jobs"])) as engine:
                yield from _impossible(engine, alone)


def _twins(found: Dataset) -> Iterator[str]:
    """The months of sites in which several CEs have jobs that APEL would take for one, and what keeps them apart."""
    from arcacct.fleet.duckdb_engine import every_value  # noqa: PLC0415  the package of an extra

    by_month: dict[tuple[str, int, int], list[Exported]] = {}
    for one in sorted(found.partitions, key=lambda one: one.partition):
        if one.jobs.rows:
            by_month.setdefault(one.partition[:3], []).append(one)
    for (site, year, month), known in by_month.items():
        if len(known) == 1:
            continue
        try:
            with closing(every_value(found.only(known), ["jobs"])) as engine:
                rows = [*engine.rows(_SAME_KEY, {})]
        except EngineFailed as error:
            yield f"{site}, {year}-{month:02d}: the CEs could not be compared: {error}"
            continue
        for ces, count, example in rows:
            yield (
                f"{site}, {year}-{month:02d}: {count_of(count, 'id')} of the batch system with the same end at {ces}"
                f" ({example}{', ...' if count > 1 else ''}): in job records, APEL counts such jobs once. Give each CE"
                f" its own localid_prefix=; then run `arcacct publish --accept-lower {year}-{month:02d}` at every one"
                " of them, to separate the sent jobs"
            )


_SAME_KEY = """
    WITH Twins AS (
        SELECT lower(rtrim(local_job_id)) AS id, end_time, string_agg(DISTINCT ce, ' and ' ORDER BY ce) AS ces
          FROM jobs WHERE local_job_id <> '' GROUP BY 1, 2 HAVING count(DISTINCT ce) > 1)
    SELECT ces, count(*), min(id) FROM Twins GROUP BY ces ORDER BY ces
"""
"""As APEL compares the keys of job records: the id without case and trailing blanks, and the end."""


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
        if older := sum(not one.manifest.has_digest for one in known):
            yield (
                f"{site}, {ce}: {count_of(older, 'manifest')} without a digest of its own, of an older version: the"
                " next export of that CE adds it"
            )


# An engine over the files of a dataset, with one table for each kind of file and the views of schema/fleet.


ENGINES = {
    "duckdb": ("arcacct.fleet.duckdb_engine", "Duck", "parquet"),
    "spark": ("arcacct.fleet.spark_engine", "Spark", "spark"),
}
"""By name: its module and class, and the extra that it needs."""
Answer = TypeVar("Answer")


def opened(name: str, found: Dataset, tables: Sequence[str] = TABLES, master: str | None = None) -> Engine:
    """Open an engine over a dataset. Raises UsageError if it is not installed, EngineFailed if it cannot read."""
    module, kind, extra = ENGINES[name]
    try:
        make: Callable[[Dataset, Sequence[str], str | None], Engine] = getattr(import_module(module), kind)
    except ModuleNotFoundError as error:
        raise UsageError(f"--engine {name} needs the package {error.name}: {install_extra(extra)}") from error
    return make(found, tables, master)


def answered(
    name: str,
    found: Dataset,
    ask: Callable[[Engine], Answer],
    tables: Sequence[str] = TABLES,
    master: str | None = None,
) -> tuple[Answer, Dataset]:
    """
    Return an answer from the readable part of these tables, that part, and the problems of the rest.

    Jobs with impossible values are among the problems, too: the figures leave them out. Raises InputError if the engine
    fails and no file is the cause.
    """

    def tried(some: Dataset) -> tuple[Answer, Dataset]:
        with closing(opened(name, some, tables, master)) as engine:
            return ask(engine), replace(some, wrong=(*some.wrong, *_impossible(engine, some)))

    while True:
        found = judged(found, tables)
        try:
            return tried(found)
        except EngineFailed as error:
            found = left_out(name, found, error, tried)


def _impossible(engine: Engine, found: Dataset) -> Iterator[str]:
    """The partitions with jobs whose values no job can have. Raises EngineFailed."""
    manifests = {(one.partition.site, one.partition.ce, one.month_name): one for one in found.partitions}
    for site, ce, month, jobs in engine.rows(script("impossible"), {}):
        one = manifests[site, ce, f"{month // 100:04d}-{month % 100:02d}"]
        yield (
            f"{one.path}: {count_of(jobs, 'job')} of {one.partition} with a wall time, CPU time, core time, number of"
            " cores or nodes, or benchmark that no job can have: not counted; that CE must correct them and export"
            " again"
        )


def left_out(name: str, found: Dataset, error: EngineFailed, ask: Callable[[Dataset], object]) -> Dataset:
    """
    Return the dataset without the partitions that make an engine fail, found by queries of parts of the dataset.

    Raises InputError if no partition is the cause.
    """
    suspects = _failing(found, error, ask)
    bad = damaged(found.only(one for one, _why in suspects))
    if not bad and len(suspects) < len(found.partitions):
        bad = {
            one.path: f"{one.path}: {name} cannot read {one.partition}, which is left out: {why}"
            for one, why in suspects
        }
    # Two may need too much memory together.
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
        part = found.only(some)
        try:
            ask(part)
        except EngineFailed as why:
            failing += _failing(part, why, ask)
    return failing
