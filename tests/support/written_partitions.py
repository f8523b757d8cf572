"""Files of a dataset as its layout says, written without `arcacct export`: what readers read, whoever wrote it."""

from __future__ import annotations

import hashlib
import pathlib
import sqlite3
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from twelve_questions import sqlite_views

from arcacct.dataset.columns import DESCRIPTION, UNIT, columns
from arcacct.dataset.layout import TABLES, Partition, part_name
from arcacct.dataset.manifest import Manifest, Part

LIFE = "0123456789abcdef0123456789abcdef"
WRITTEN_S = 1_800_000_000
_TYPES = {"int64": pa.int64(), "double": pa.float64(), "string": pa.string()}


def schema_of(table: str) -> pa.Schema:
    """The columns of its files, with their units."""
    fields = []
    for column in columns()[table]:
        metadata = {DESCRIPTION: column.description.encode()} | ({UNIT: column.unit.encode()} if column.unit else {})
        fields.append(pa.field(column.name, _TYPES[column.type], metadata=metadata))
    return pa.schema(fields)


def write_partition(
    root: pathlib.Path,
    partition: Partition,
    tables: Mapping[str, pa.Table],
    *,
    life: str = LIFE,
    seq: int = 1,
    written_s: int = WRITTEN_S,
) -> pathlib.Path:
    """Write the parts of all tables (those that are not given are empty), then their manifest, which is returned."""
    parts = {name: _part(root, partition, name, tables) for name in TABLES}
    manifest = Manifest(partition, 18, life, seq, "plain", written_s, parts, {})
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


def _part(root: pathlib.Path, partition: Partition, name: str, tables: Mapping[str, pa.Table]) -> Part:
    schema = schema_of(name)
    table = tables[name].select(schema.names).cast(schema) if name in tables else schema.empty_table()
    folder = root / partition.folder(name)
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "being-written"
    # Rows for some seconds of one core: engines read as many groups at once as they have cores.
    pq.write_table(table, written, compression="zstd", row_group_size=122_880)
    with open(written, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    part = written.rename(folder / part_name(digest))
    ends = pc.min_max(tables["jobs"]["end_time"]).as_py() if table.num_rows else {"min": None, "max": None}
    return Part(part.name, table.num_rows, ends["min"], ends["max"], digest, part.stat().st_size)
