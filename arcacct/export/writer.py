"""An export: the months of a CE that changed, written into a dataset."""

from __future__ import annotations

import heapq
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from operator import itemgetter
from typing import NamedTuple

from pyarrow import ArrowException

from arcacct.config.paths import Places
from arcacct.database.access import read_accounting
from arcacct.database.connection import ACCOUNTING_SCHEMA, Connection, make_durable
from arcacct.database.incarnation import highest_seq
from arcacct.database.schema import incarnation, incarnation_history
from arcacct.errors import InputError, StoreBusy, StoreError
from arcacct.export import dataset
from arcacct.export import jobs as export_jobs
from arcacct.export.dataset import MANIFESTS, TABLES, VERSION, Manifest, Part, Partition, parse, position_path
from arcacct.export.jobs import Concealer, Job, paged, pages
from arcacct.export.parquet import PartsWriter, former_jobs
from arcacct.export.storage import Listing, Store, is_half
from arcacct.files.json_reader import parsed
from arcacct.publishing.locks import Reading, exporter
from arcacct.records.pseudonyms import site_names

_TRIES = 3
"""How often a month is read again if one of its jobs disappeared during reading."""
_KEPT_S = 86400
"""Seconds for readers that started with a former manifest."""


_FIRST_MONTH = 197001
_MOST_NOTE_BYTES, _NOTE_LEVELS = 1 << 16, 4
_PIECE_BYTES = 1 << 20
_SOME_JOBS = 100_000
"""The most jobs that a former part may have beyond the log's: from a database that was restored."""
_KEEP = "pruned jobs are only in it: restore it, or remove the manifest to continue without them"


class _Position(NamedTuple):
    """The position of an export."""

    life: str
    """The incarnation of the database, as in a manifest."""
    seq: int
    events_row: int


class ExportOptions(NamedTuple):
    """The options of a dataset."""

    site: str
    ce: str
    names: str
    """One of `arcacct.export.dataset.NAMES`."""


class Exported(NamedTuple):
    """The result of an export."""

    written: tuple[Partition, ...]
    jobs: int
    """Jobs in the months that were written."""
    bytes: int
    """Bytes of all parts of these months, whether they changed or not."""
    unchanged: int
    """The number of unchanged months."""
    problems: tuple[str, ...]
    """Failures, one line each; the rest was exported."""


def export(
    here: Places,
    store: Store,
    options: ExportOptions,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
    *,
    patience_s: float = 60.0,
) -> Exported:
    """
    Bring the months of this CE in a dataset up to date; ``progress`` gets the number of jobs read and of all jobs.

    If the store takes longer than ``patience_s``, jobs may be pruned or the database replaced meanwhile. Raises
    StoreBusy during another export into the same place, a prune or a restore, StoreError if the database or the store
    refuses.
    """
    with exporter(here, store.place, patience_s) as reading:
        return _Export(here, store, options, progress, reading).run()


class _Export:
    def __init__(
        self, here: Places, store: Store, options: ExportOptions, progress: Callable[[int, int], None], reading: Reading
    ) -> None:
        self._here, self._store, self._options, self._progress, self._reading = here, store, options, progress, reading
        self._life = ""
        self._lineage: frozenset[str] = frozenset()
        self._problems: list[str] = []
        self._done = self._all = 0

    def run(self) -> Exported:
        there, listing = self._there()
        last = self._last()
        with self._database() as con:
            self._lineage = incarnation_history(con)
            self._now = export_jobs.look(con)
            self._position = _Position(self._life, self._now.seq, self._now.events_row)
            logged = self._logged(con, last)
        todo: list[tuple[Partition, Manifest | None]] = []
        # Other users who may write there could create a manifest for each month of ten thousand years.
        last_month = (time.gmtime().tm_year + 1) * 100 + 12
        known = sorted({month for month in there if _FIRST_MONTH <= month <= last_month} | self._now.seen.keys())
        for month in known:
            partition = self._partition(month)
            try:
                if (obstacle := listing.obstacle(partition.manifest)) is not None:
                    raise InputError(obstacle)  # noqa: TRY301  as what reading it would raise
                former = self._manifest(partition) if month in there else None
                if former is not None and not self._is_new(month, former, logged) and self._is_whole(former):
                    continue
            except InputError as error:
                self._problems.append(str(error))
                continue
            todo.append((partition, former))
        self._all = sum(self._seen(partition).get(export_jobs.JOBS, 0) for partition, _former in todo)
        written = []
        for partition, former in todo:
            manifest = self._month(partition, former)
            if manifest is not None:
                written.append(manifest)
        left_out = len(self._problems)
        if not self._problems:
            # Otherwise the next export would not see the changes in the months that were left out.
            try:
                self._note_position()
            except InputError as error:
                self._problems.append(str(error))
        parts = [part for manifest in written for part in manifest.tables.values()]
        return Exported(
            tuple(manifest.partition for manifest in written),
            sum(manifest.tables["jobs"].rows for manifest in written),
            sum(part.bytes for part in parts),
            len(known) - len(written) - left_out,
            tuple(dict.fromkeys(self._problems)),
        )

    @contextmanager
    def _database(self) -> Iterator[Connection]:
        """
        The database, while it is read; meanwhile no prune or restore can run.

        A month is read as a whole: a job that is pruned meanwhile would be in it twice, or not at all. Nothing is read
        from the store or written to it in here: a store can take hours, and a prune would wait for it. A restore waits
        until no process has the database open, so it is closed in between.

        What was read is on disk at the end: a power cut must not leave a dataset that has more than the database, whose
        numbers would then be given to other jobs (INVARIANTS 16).

        Raises StoreBusy if the database there is another one than before.
        """
        with self._reading.now(), closing(read_accounting(self._here)) as con:
            life = incarnation(con)
            self._life = self._life or life
            if life != self._life:
                raise StoreBusy(
                    f"{self._here.database}: it was replaced by another database during the export; nothing is"
                    " lost, and the next export continues"
                )
            yield con
            make_durable(self._here.database)

    def _there(self) -> tuple[set[int], Listing]:
        """The months with a manifest, and other files in such places; removes partial manifests."""
        position = position_path(self._options.site, self._options.ce)
        listing = self._store.listing(f"{MANIFESTS}/site={self._options.site}", os.path.dirname(position))
        found = set()
        for path in sorted(listing.files):
            partition = dataset.partition_of(path)
            if is_half(path, os.path.basename(position)):
                # A file that was replaced since then is not ours, and does no harm.
                with suppress(InputError):
                    self._store.remove(path)
            if partition is not None and partition.ce == self._options.ce:
                found.add(partition.year * 100 + partition.month)
        return found, listing

    def _partition(self, month: int) -> Partition:
        return Partition(self._options.site, month // 100, month % 100, self._options.ce)

    def _seen(self, partition: Partition) -> dict[str, int]:
        month = partition.year * 100 + partition.month
        closed = {export_jobs.CLOSED: 1} if month in self._now.withdrawn.closed else {}
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
                f"{path}: written from another accounting database of {self._options.ce} ({found.life}, this one is"
                f" {self._life}); give this CE another name with --ce, or remove the other database's files"
            )
        return found

    def _is_new(self, month: int, former: Manifest, logged: frozenset[int] | None) -> bool:
        """Whether a month may have something to write; ``logged``: the months in the log, if known."""
        return (
            logged is None
            or month in logged
            or not former.has_digest
            or former.names != self._options.names
            or former.seen != self._seen(former.partition)
        )

    def _is_whole(self, manifest: Manifest) -> bool:
        """
        Whether all parts of an unchanged month exist; removes its former parts.

        A lost part, for example after a power cut, is written again, unless jobs of it are in an archive alone or
        something else is in its place: then InputError is raised.
        """
        for table, part in manifest.tables.items():
            path = manifest.partition.part(table, part.file)
            listing = self._store.listing(manifest.partition.folder(table))
            size = listing.files.get(path)
            if size != part.bytes:
                if listing.obstacle(path) is None and not self._has_pruned(manifest):
                    return False
                what = "is missing" if size is None else f"has {size} bytes, its manifest says {part.bytes}"
                raise InputError(
                    f"{listing.obstacle(path) or f'{self._store.path_of(path)}: {what}'}; remove"
                    f" {self._store.path_of(manifest.partition.manifest)}, and the next export writes the month again"
                )
            if abs(time.time() - manifest.written_s) > _KEPT_S:
                self._clear(listing.files.keys() - {path})
        return True

    def _clear(self, paths: Collection[str]) -> None:
        """Remove parts, and halves of them: a listing has nothing else of the folder."""
        for path in paths:
            self._store.remove(path)

    def _last(self) -> _Position:
        """The position of the last export; an unusable note counts as none."""
        try:
            data = self._store.read(position_path(self._options.site, self._options.ce), _MOST_NOTE_BYTES)
            return _position(data or b"")
        except (InputError, ValueError):
            return _Position("", 0, 0)

    def _logged(self, con: Connection, last: _Position) -> frozenset[int] | None:
        """The months in the log since the last export; ``None`` if its position is unknown."""
        if last.life != self._life or last.seq > self._now.seq or last.events_row > self._now.events_row:
            return None
        return frozenset(export_jobs.changed(con, last.seq, last.events_row))

    def _note_position(self) -> None:
        if self._position != self._last():
            position = self._position
            whole = {
                "dataset_version": VERSION, "life": position.life, "finished_log_seq": position.seq,
                "events_row": position.events_row,
            }  # fmt: skip
            self._put(position_path(self._options.site, self._options.ce), dataset.with_digest(whole))

    def _put(self, path: str, data: bytes) -> None:
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            self._store.put(path, file)

    def _month(self, partition: Partition, former: Manifest | None) -> Manifest | None:
        """Write a month; ``None`` if it has not changed, or could not be read."""
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
                    " first: set TMPDIR to another directory"
                ) from error
        self._problems.append(f"{partition}: its jobs change faster than they are read; the next export tries again")
        return None

    def _read(self, partition: Partition, former: Manifest | None, folder: str) -> dict[str, tuple[Part, str]] | None:
        """The parts of a month in a local folder; ``None`` if a job left it meanwhile."""
        kept = self._fetched(former, folder) if former is not None and self._has_pruned(former) else None
        writer = PartsWriter(folder)
        done = self._done
        with closing(writer), self._database() as con:
            if export_jobs.withdrawn(con) != self._now.withdrawn:
                self._now = export_jobs.look(con)
                if former is not None and kept is None and self._has_pruned(former):
                    return None
            seq = highest_seq(con)
            sources = [self._of_database(con, partition)]
            if former is not None and kept is not None:
                sources.append(self._pruned(con, former, kept))
            jobs = heapq.merge(*sources, key=itemgetter(0, 1)) if len(sources) > 1 else sources[0]
            for page in paged(jobs):
                writer.add(page)
            has_left = export_jobs.left_since(con, seq, partition)
        self._done = max(self._done, done + self._seen(partition).get(export_jobs.JOBS, 0))
        return None if has_left else writer.parts()

    def _has_pruned(self, former: Manifest) -> bool:
        """Whether some of its jobs can be in an archive alone."""
        return former.partition.bounds[0] < self._now.withdrawn.pruned_before

    def _fetched(self, former: Manifest, folder: str) -> dict[str, str]:
        """
        Local copies of its parts, by table, so that reading the database does not wait for the store.

        Raises InputError when one is missing, differs from the manifest, or cannot be ours. (A user who can write there
        can change both: former parts are trusted as much as the dataset.)
        """
        path = self._store.path_of(former.partition.manifest)
        rows = {table: part.rows for table, part in former.tables.items()}
        most_jobs = 2 * self._now.seq + _SOME_JOBS
        if rows["jobs"] > most_jobs or max(rows.values()) > dataset.most_rows(rows["jobs"]):
            raise InputError(f"{path}: {rows['jobs']} jobs and {max(rows.values())} rows cannot be of this CE; {_KEEP}")
        if 2 * sum(part.bytes for part in former.tables.values()) > shutil.disk_usage(folder).free:
            raise InputError(
                f"{path}: its parts need more than half of the free space in {tempfile.gettempdir()};"
                " set TMPDIR to another directory"
            )
        found = {}
        for table, part in former.tables.items():
            found[table] = os.path.join(folder, f"former-{part.file}")
            with open(found[table], "wb") as copy:
                digest = sha256()
                for piece in self._pieces(former.partition.part(table, part.file), part.bytes):
                    copy.write(piece)
                    digest.update(piece)
            if digest.hexdigest() != part.sha256:
                file = self._store.path_of(former.partition.part(table, part.file))
                raise InputError(f"{file}: has another content than {path} says; {_KEEP}")
        return found

    def _pieces(self, path: str, most_bytes: int) -> Iterator[bytes]:
        """The first bytes of a part. Raises InputError when it cannot be read."""
        try:
            with self._store.open(path) as file:
                while most_bytes > 0 and (piece := file.read(min(most_bytes, _PIECE_BYTES))):
                    yield piece
                    most_bytes -= len(piece)
        except (OSError, ArrowException) as error:
            raise InputError(f"{self._store.path_of(path)}: {str(error).splitlines()[0]}; {_KEEP}") from error

    def _of_database(self, con: Connection, partition: Partition) -> Iterator[Job]:
        conceal = None if self._options.names == "plain" else self._concealer()
        for page in pages(con, partition):
            self._done += len(page)
            self._progress(self._done, self._all)
            yield from page if conceal is None else map(conceal, page)

    def _concealer(self) -> Concealer:
        return Concealer(None if self._options.names == "withheld" else site_names(self._here))

    def _pruned(self, con: Connection, former: Manifest, paths: Mapping[str, str]) -> Iterator[Job]:
        """The jobs of the former parts that were moved into an archive since; without names if some were forgotten."""
        partition = former.partition
        pruned_before, _forgotten, closed = self._now.withdrawn
        conceal = None
        if self._options.names != "plain" or partition.year * 100 + partition.month in closed:
            # The erased names in an archive are unknown, so those of the whole month are used.
            conceal = self._concealer()
        rows = {table: part.rows for table, part in former.tables.items()}
        for page in paged(former_jobs(paths, rows, partition, self._store.path_of(partition.manifest))):
            kept = export_jobs.pruned_among(con, [(job.record_id, job.values[1]) for job in page])
            kept_jobs = [job for job in page if job.record_id in kept and job.end_s < pruned_before]
            yield from kept_jobs if conceal is None else map(conceal, kept_jobs)

    def _put_month(
        self, partition: Partition, former: Manifest | None, parts: dict[str, tuple[Part, str]]
    ) -> Manifest | None:
        """Parts first, then the manifest, then away with what neither it nor the former one names."""
        tables = {table: part for table, (part, _path) in parts.items()}
        seen = self._seen(partition)
        made = Manifest(
            partition, ACCOUNTING_SCHEMA, self._life, self._now.seq, self._options.names, int(time.time()), tables, seen
        )
        there = self._store.listing(*map(partition.folder, TABLES)).files
        # A part that no manifest names may be damaged, and an administrator may have removed its manifest.
        known = former.tables if former is not None else {}
        new = [
            table
            for table, part in tables.items()
            if there.get(partition.part(table, part.file)) != part.bytes or known.get(table) != part
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
        kept = {partition.part(table, part.file) for table, part in tables.items()}
        if not names_changed:
            kept |= {partition.part(table, part.file) for table, part in known.items()}
        self._clear(there.keys() - kept)
        return made


def _position(data: bytes) -> _Position:
    """Raises ValueError for a note that none of our exports wrote."""
    told = parsed(data, most_depth=_NOTE_LEVELS)
    if not isinstance(told, dict) or told.get("dataset_version") != VERSION or not dataset.proves_itself(told):
        raise ValueError("of another version")
    life, seq, events_row = (told.get(name) for name in ("life", "finished_log_seq", "events_row"))
    if not isinstance(life, str) or type(seq) is not int or type(events_row) is not int or min(seq, events_row) < 0:
        raise ValueError("no position")
    return _Position(life, seq, events_row)


def _names(manifest: Manifest) -> tuple[str, int | None, int | None]:
    return manifest.names, manifest.seen.get(export_jobs.FORGOTTEN), manifest.seen.get(export_jobs.CLOSED)
