"""An accounting database with jobs of three months, and a dataset that it is exported into."""

from __future__ import annotations

import hashlib
import os
import pathlib
from contextlib import closing

import pyarrow.parquet as pq
import stored_jobs
from control_directory import set_up

from arcacct.config.paths import Places, places
from arcacct.database.access import initialise, open_accounting, open_publishing, writing
from arcacct.export.dataset import MANIFESTS, TABLES, Manifest, Partition, parse, partition_of
from arcacct.export.storage import LocalStore, Store
from arcacct.export.writer import Exported, ExportOptions, export
from arcacct.records.retention import PruneOptions, prune
from arcacct.records.writer import remove

MAY_S, JUNE_S, JULY_S = 1_778_000_000, 1_781_000_000, 1_783_500_000
"""Within May, June and July 2026."""
WISHES = ExportOptions("SITE", "ce.example.org", "plain")


class Site:
    """An accounting database, and a dataset that it is exported into."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.here: Places = places(None, set_up(folder / "control"))
        initialise(self.here)
        self.con = open_accounting(self.here)
        self.dataset = folder / "dataset"

    def add(self, *jobs) -> None:
        stored_jobs.add(self.con, self.here, *jobs)

    def sql(self, statement: str, *values: object) -> None:
        with writing(self.con, self.here):
            self.con.execute(statement, values)

    def forget(self, *records: int) -> None:
        with writing(self.con, self.here):
            remove(self.con, records)

    def export(self, store: Store | None = None, *, patience_s: float = 60.0, **options: str) -> Exported:
        place = store or LocalStore(str(self.dataset))
        return export(self.here, place, WISHES._replace(**options), patience_s=patience_s)

    def prune(self, before: int) -> None:
        with closing(open_publishing(self.here)) as publishing:
            prune(
                self.here, self.con, publishing, PruneOptions(before, os.path.join(self.here.directory, "archive.db"))
            )

    def files(self) -> dict[str, tuple[int, int]]:
        """Inode and time of change of every file of the dataset."""
        found = [path for path in self.dataset.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.dataset)): (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}

    def manifest(self, month: int) -> pathlib.Path:
        return self.dataset / Partition("SITE", 2026, month, "ce.example.org").manifest


def manifests(store: Store) -> list[Manifest]:
    """Every manifest of a dataset, as a reader finds them."""
    paths = sorted(store.listing(MANIFESTS).files)
    found = [(path, partition) for path in paths if (partition := partition_of(path)) is not None]
    return [parse(store.read(path) or b"", partition, path) for path, partition in found]


def read(store: Store) -> dict[str, list[dict[str, object]]]:
    """All rows of the dataset by table, of the parts that manifests name; each is what its manifest says."""
    found: dict[str, list[dict[str, object]]] = {table: [] for table in TABLES}
    for manifest in manifests(store):
        for table, part in manifest.tables.items():
            data = store.read(manifest.partition.part(table, part.file))
            assert data is not None
            assert (len(data), hashlib.sha256(data).hexdigest()) == (part.bytes, part.sha256)
            with store.open(manifest.partition.part(table, part.file)) as file:
                rows = pq.ParquetFile(file).read().to_pylist()
            assert len(rows) == part.rows
            if table == "jobs" and rows:
                ends = [row["end_time"] for row in rows]
                assert (ends, ends[0], ends[-1]) == (sorted(ends), part.end_min_s, part.end_max_s)
            found[table] += rows
    return found


def names_of(site: Site) -> list[str]:
    return [row["job_id"] for row in read(LocalStore(str(site.dataset)))["jobs"]]


def ids(*numbers: int) -> list[str]:
    return [f"STORED{number:06d}" for number in numbers]
