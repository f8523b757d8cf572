"""
An export: the months of a CE that changed, into a dataset.

Of a month all parts are written as local files first. What a reader takes changes in one moment, when the new manifest
replaces the old one: before that its parts are not named, after it the former ones are still there for who began with
the old one. They go when they are a day old or the month changes once more, and at once when names were taken out of
them. So it may be killed anywhere, and the next export goes on.

Jobs that were pruned stay: they are taken from the parts that they are in. Those that were deleted go.
"""

from __future__ import annotations

import heapq
import json
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from arcacct.conf.places import Places
from arcacct.dataset.layout import MANIFESTS, TABLES, VERSION, Partition, is_part_name, partition_of, position_path
from arcacct.dataset.manifest import Manifest, Part, parse
from arcacct.db.connect import ACCOUNTING_SCHEMA
from arcacct.db.engine import Connection
from arcacct.db.lives import highest_seq
from arcacct.db.schema import incarnation, lineage
from arcacct.errors import InputError, StoreError
from arcacct.exporting import months
from arcacct.exporting.jobs import PAGE_JOBS, Job, pages
from arcacct.exporting.naming import Concealer
from arcacct.exporting.parquet import PartsWriter, former_jobs
from arcacct.exporting.store import Store, is_half
from arcacct.jobs.pseudonyms import site_names
from arcacct.publishing.locks import exporter

_TRIES = 3
"""A month of which a job left while it was read is read again so often."""
_KEPT_S = 86400
"""For who began to read with a former manifest."""


class Wishes(NamedTuple):
    """What the dataset is to have."""

    site: str
    ce: str
    names: str
    """One of `arcacct.dataset.manifest.NAMES`."""


class Exported(NamedTuple):
    """What an export did."""

    written: tuple[Partition, ...]
    jobs: int
    """In the months that were written."""
    bytes: int
    """Of all parts of these months, whether they changed or not."""
    unchanged: int
    """Months."""
    problems: tuple[str, ...]
    """What could not be exported: a line for each, and the rest went on."""


def export(
    here: Places,
    con: Connection,
    store: Store,
    wishes: Wishes,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Exported:
    """
    Bring the months of this CE in a dataset up to date; ``progress`` is told how many jobs of how many were read.

    Raises StoreBusy while another export, a prune or a restore is at work, StoreError when the database or the store
    refuses.
    """
    with exporter(here):
        return _Export(here, con, store, wishes, progress).run()


class _Export:
    def __init__(
        self, here: Places, con: Connection, store: Store, wishes: Wishes, progress: Callable[[int, int], None]
    ) -> None:
        self._here, self._con, self._store, self._wishes, self._progress = here, con, store, wishes, progress
        self._life, self._lineage = incarnation(con), lineage(con)
        self._now = months.look(con)
        self._problems: list[str] = []
        self._done = self._all = 0

    def run(self) -> Exported:
        there = self._there()
        logged = self._logged()
        todo: list[tuple[Partition, Manifest | None]] = []
        known = sorted(there | self._now.seen.keys())
        for month in known:
            partition = self._partition(month)
            try:
                former = self._manifest(partition) if month in there else None
                if former is not None and not self._is_new(month, former, logged):
                    self._check(former)
                    continue
            except InputError as error:
                self._problems.append(str(error))
                continue
            todo.append((partition, former))
        self._all = sum(self._seen(partition).get(months.JOBS, 0) for partition, _former in todo)
        written = []
        for partition, former in todo:
            manifest = self._month(partition, former)
            if manifest is not None:
                written.append(manifest)
        if not self._problems:
            # Else the next one would not see what has changed in the months that were left out.
            self._note_position()
        parts = [part for manifest in written for part in manifest.tables.values()]
        return Exported(
            tuple(manifest.partition for manifest in written),
            sum(manifest.tables["jobs"].rows for manifest in written),
            sum(part.bytes for part in parts),
            len(known) - len(written) - len(self._problems),
            tuple(self._problems),
        )

    def _there(self) -> set[int]:
        """The months that have a manifest; halves of manifests go."""
        found = set()
        position = position_path(self._wishes.site, self._wishes.ce)
        for folder in (f"{MANIFESTS}/site={self._wishes.site}", os.path.dirname(position)):
            for path in sorted(self._store.files(folder)):
                partition = partition_of(f"{folder}/{path}")
                if is_half(path, os.path.basename(position)):
                    self._store.remove(f"{folder}/{path}")
                if partition is not None and partition.ce == self._wishes.ce:
                    found.add(partition.year * 100 + partition.month)
        return found

    def _partition(self, month: int) -> Partition:
        return Partition(self._wishes.site, month // 100, month % 100, self._wishes.ce)

    def _seen(self, partition: Partition) -> dict[str, int]:
        month = partition.year * 100 + partition.month
        closed = {months.CLOSED: 1} if month in self._now.closed else {}
        return self._now.seen.get(month, {}) | closed

    def _manifest(self, partition: Partition) -> Manifest | None:
        """Raises InputError for one that cannot be used, or is of another database."""
        path = self._store.path_of(partition.manifest)
        data = self._store.read(partition.manifest)
        if data is None:
            return None
        found = parse(data, partition, path)
        if found.life not in self._lineage:
            raise InputError(
                f"{path}: written from another accounting database of {self._wishes.ce} ({found.life}, this one is"
                f" {self._life}); give this CE another name with --ce, or remove what that one wrote, if it is meant"
            )
        return found

    def _is_new(self, month: int, former: Manifest, logged: frozenset[int] | None) -> bool:
        """Whether there may be something to write of a month; ``logged``: those that the log tells of, if it can."""
        return (
            logged is None
            or month in logged
            or former.names != self._wishes.names
            or former.seen != self._seen(former.partition)
        )

    def _check(self, manifest: Manifest) -> None:
        """
        Take away what a month that stays as it is had before.

        Raises InputError when a part is not there or has another size than its manifest says.
        """
        for table, part in manifest.tables.items():
            path = manifest.partition.part(table, part.file)
            files = self._store.files(manifest.partition.folder(table))
            size = files.get(part.file)
            if size != part.bytes:
                what = "is missing" if size is None else f"has {size} bytes, its manifest says {part.bytes}"
                raise InputError(
                    f"{self._store.path_of(path)}: {what}; remove"
                    f" {self._store.path_of(manifest.partition.manifest)}, and the next export writes the month anew"
                )
            if abs(time.time() - manifest.written_s) > _KEPT_S:
                self._clear(manifest.partition, table, files.keys() - {part.file})

    def _clear(self, partition: Partition, table: str, names: Collection[str]) -> None:
        """Remove parts, and halves of them; whatever else is in the folder is not ours."""
        for name in names:
            if is_part_name(name) or is_half(name):
                self._store.remove(partition.part(table, name))

    def _logged(self) -> frozenset[int] | None:
        """The months that the log tells of since the last export; ``None`` if nobody knows where that stood."""
        data = self._store.read(position_path(self._wishes.site, self._wishes.ce))
        try:
            last = json.loads(data or b"{}")
            if last.get("dataset_version") != VERSION or last.get("life") != self._life:
                return None
            seq, events_row = int(last["finished_log_seq"]), int(last["events_row"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        if seq > self._now.seq or events_row > self._now.events_row:
            return None
        return frozenset(months.changed(self._con, seq, events_row))

    def _note_position(self) -> None:
        path = position_path(self._wishes.site, self._wishes.ce)
        position = {
            "dataset_version": VERSION, "life": self._life, "finished_log_seq": self._now.seq,
            "events_row": self._now.events_row,
        }  # fmt: skip
        data = f"{json.dumps(position, indent=1)}\n".encode()
        if data != self._store.read(path):
            self._put(path, data)

    def _put(self, path: str, data: bytes) -> None:
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            self._store.put(path, file)

    def _month(self, partition: Partition, former: Manifest | None) -> Manifest | None:
        """Write a month; ``None`` if it is what it was, or could not be read."""
        for _try in range(_TRIES):
            try:
                with tempfile.TemporaryDirectory(prefix="arcacct-export-") as folder:
                    parts = self._read(partition, former, folder)
                    if parts is not None:
                        return self._put_month(partition, former, parts)
            except InputError as error:
                self._problems.append(str(error))
                return None
            except OSError as error:
                raise StoreError(
                    f"{tempfile.gettempdir()}: {error.strerror or str(error).splitlines()[0]}; a month is written there"
                    " first: TMPDIR names another place"
                ) from error
        self._problems.append(f"{partition}: its jobs change faster than they are read; the next export tries again")
        return None

    def _read(self, partition: Partition, former: Manifest | None, folder: str) -> dict[str, tuple[Part, str]] | None:
        """The parts of a month in a local folder; ``None`` if a job left it meanwhile."""
        seq = highest_seq(self._con)
        writer = PartsWriter(folder)
        done = self._done
        with ExitStack() as held:
            held.callback(writer.close)
            sources = [self._of_database(partition)]
            if former is not None and partition.bounds[0] < self._now.pruned_before:
                sources.append(self._pruned(former, held))
            jobs = heapq.merge(*sources, key=itemgetter(0, 1)) if len(sources) > 1 else sources[0]
            while page := list(islice(jobs, PAGE_JOBS)):
                writer.add(page)
        self._done = max(self._done, done + self._seen(partition).get(months.JOBS, 0))
        return None if months.left_since(self._con, seq, partition) else writer.parts()

    def _of_database(self, partition: Partition) -> Iterator[Job]:
        conceal = None if self._wishes.names == "plain" else self._concealer()
        for page in pages(self._con, partition):
            self._done += len(page)
            self._progress(self._done, self._all)
            yield from page if conceal is None else map(conceal, page)

    def _concealer(self) -> Concealer:
        return Concealer(None if self._wishes.names == "withheld" else site_names(self._here))

    def _pruned(self, former: Manifest, held: ExitStack) -> Iterator[Job]:
        """The jobs of the former parts that were moved into an archive since; without names if some were forgotten."""
        partition = former.partition
        path = self._store.path_of(partition.manifest)
        opened = {
            table: held.enter_context(self._store.open(partition.part(table, part.file)))
            for table, part in former.tables.items()
        }
        conceal = None
        if self._wishes.names != "plain" or partition.year * 100 + partition.month in self._now.closed:
            # In an archive nobody here knows whose names were forgotten: of the whole month, then.
            conceal = self._concealer()
        for page in former_jobs(opened, {table: part.rows for table, part in former.tables.items()}, path):
            kept = months.pruned_among(self._con, [(job.record_id, job.values[1]) for job in page])
            kept_jobs = [job for job in page if job.record_id in kept and job.end_s < self._now.pruned_before]
            yield from kept_jobs if conceal is None else map(conceal, kept_jobs)

    def _put_month(
        self, partition: Partition, former: Manifest | None, parts: dict[str, tuple[Part, str]]
    ) -> Manifest | None:
        """Parts first, then the manifest, then away with what neither it nor the former one names."""
        tables = {table: part for table, (part, _path) in parts.items()}
        seen = self._seen(partition)
        made = Manifest(
            partition, ACCOUNTING_SCHEMA, self._life, self._now.seq, self._wishes.names, int(time.time()), tables, seen
        )
        there = {table: self._store.files(partition.folder(table)) for table in TABLES}
        # A part that no manifest names may be a damaged one, for which somebody has removed the manifest.
        known = former.tables if former is not None else {}
        new = [
            table
            for table, part in tables.items()
            if there[table].get(part.file) != part.bytes or known.get(table) != part
        ]
        if former is not None and not new:
            same = former._replace(finished_log_seq=made.finished_log_seq, written_s=made.written_s)
            if same == made:
                return None
        for table in new:
            part, path = parts[table]
            with open(path, "rb") as file:
                self._store.put(partition.part(table, part.file), file)
        self._put(partition.manifest, made.to_json())
        names_changed = former is not None and _names(former) != _names(made)
        for table, files in there.items():
            kept = (
                {tables[table].file}
                if names_changed or former is None
                else {tables[table].file, former.tables[table].file}
            )
            self._clear(partition, table, files.keys() - kept)
        return made


def _names(manifest: Manifest) -> tuple[str, int | None, int | None]:
    return manifest.names, manifest.seen.get(months.FORGOTTEN), manifest.seen.get(months.CLOSED)
