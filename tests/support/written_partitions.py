"""Files of a dataset as its layout says, written without `arcacct export`: what readers read, whoever wrote it."""

from __future__ import annotations

import hashlib
import pathlib
import sqlite3
from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from twelve_questions import sqlite_views

from arcacct.export.dataset import TABLES, Manifest, Part, Partition, part_name
from arcacct.export.parquet import GROUP_ROWS, how_written, schema_of

LIFE = "0123456789abcdef0123456789abcdef"
WRITTEN_S = 1_800_000_000


def write_partition(
    root: pathlib.Path,
    partition: Partition,
    tables: Mapping[str, pa.Table],
    *,
    life: str = LIFE,
    seq: int = 1,
    written_s: int = WRITTEN_S,
    schema: int = 18,
    without: Collection[str] = (),
) -> pathlib.Path:
    """
    Write the parts of all tables (those that are not given are empty), then their manifest, which is returned.

    ``without`` columns that the schema of that time did not have.
    """
    parts = {name: _part(root, partition, name, tables, without) for name in TABLES}
    manifest = Manifest(partition, schema, life, seq, "plain", written_s, parts, {})
    place = root / partition.manifest
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(manifest.to_json())
    return place


def write_database(root: pathlib.Path, con: sqlite3.Connection, site: str, ce: str) -> None:
    """All finished jobs of an accounting database, as the CE's months."""
    con.executescript(sqlite_views(site, ce))
    for year, month in con.execute("SELECT DISTINCT year, month FROM jobs").fetchall():
        tables = {}
        for name in ("jobs", "events", "transfers", "attributes"):
            schema = schema_of(name)
            asked = f"SELECT {', '.join(schema.names)} FROM {name} WHERE year = ? AND month = ? ORDER BY record_id"
            rows = con.execute(asked, (year, month)).fetchall()
            tables[name] = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
        write_partition(root, Partition(site, year, int(month), ce), tables)


def _part(
    root: pathlib.Path, partition: Partition, name: str, tables: Mapping[str, pa.Table], without: Collection[str]
) -> Part:
    schema = pa.schema([field for field in schema_of(name) if field.name not in without])
    table = tables[name].select(schema.names).cast(schema) if name in tables else schema.empty_table()
    folder = root / partition.folder(name)
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "being-written"
    pq.write_table(table, written, row_group_size=GROUP_ROWS[name], **how_written(name, schema.names))
    with open(written, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    part = written.rename(folder / part_name(digest))
    ends = pc.min_max(tables["jobs"]["end_time"]).as_py() if table.num_rows else {"min": None, "max": None}
    return Part(part.name, table.num_rows, ends["min"], ends["max"], digest, part.stat().st_size)
