"""
Files of another CE in a dataset: damaged footers and pages, swapped types, odd columns, texts with every separator.

Digest, size and number of rows are as the manifest says. The other CE is answered exactly whatever the file is; the
file is either named with exit code 65, or answered with all of its rows and texts. The harness limits time and memory.
"""

from __future__ import annotations

import csv
import io
import json
import pathlib
import random
import resource
import shutil
import tempfile
from functools import cache
from typing import Any

import federation
import hostile_datasets
import pyarrow as pa
import pyarrow.parquet as pq
from broken_datasets import BAD, WHOLE
from fuzz.command import arcacct
from fuzz.damage import damaged
from hostile_datasets import SEPARATORS
from written_partitions import schema_of, write_partition

MEMORY_LIMIT_BYTES = 2**32
"""Addresses of the threads of DuckDB; what they use is looked at in each try."""
_USED_KIB = 2**20
_JOBS = 12
_TYPES: tuple[pa.DataType, ...] = (
    *(pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.string(), pa.large_string()),
    *(pa.binary(), pa.binary(3), pa.bool_(), pa.timestamp("us"), pa.timestamp("ns"), pa.date32(), pa.time64("us")),
    *(pa.decimal128(18, 2), pa.list_(pa.int64()), pa.struct({"a": pa.int64()}), pa.map_(pa.string(), pa.int64())),
    *(pa.dictionary(pa.int32(), pa.string()), pa.duration("s"), pa.float16(), pa.null()),
)
_NAMES = (
    *("later", "filename", "file_row_number", "site", "YEAR", "Wall_S", "vo", "a.b", "", 'a"b', "x' OR 1=1 --"),
    "count(*)",
)
_ENCODINGS = ("PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")
_READ = "SELECT ce, count(*) AS jobs, job_name, user_dn, sum(wall_s) AS wall_s FROM jobs GROUP BY ALL ORDER BY ALL"


def made(chance: random.Random) -> dict[str, bytes]:
    """A file of jobs, how many rows its manifest tells, and whether the file is as it was written."""
    table = _jobs()
    for _ in range(chance.choice((0, 1, 1, 3))):
        table = chance.choice((_typed, _texts, _column, _without, _order))(chance, table)
    data = _written(chance, table)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    way = chance.random()
    if way < 0.35:
        data = hostile_datasets.with_footer(data, damaged(chance, data[start:-8], times=2))
    elif way < 0.5:
        data = data[:4] + damaged(chance, data[4:start], times=2)[: start - 4].ljust(start - 4, b"\0") + data[start:]
    elif way < 0.6:
        data = _other_number(chance, data)
    elif way < 0.65:
        data = damaged(chance, data) or b"\0"
    rows = chance.choice((table.num_rows,) * 19 + (chance.randint(0, 2**40),))
    return {"part": data, "rows": b"%d" % rows, "whole": b"%d" % (way >= 0.65)}


def _typed(chance: random.Random, table: pa.Table) -> pa.Table:
    """A column of another type, with the same values where they can be."""
    name, kind = chance.choice(table.schema.names), chance.choice(_TYPES)
    try:
        column = table[name].cast(kind).combine_chunks()
    except (pa.ArrowException, KeyError):
        column = pa.nulls(table.num_rows, kind)
    return hostile_datasets.with_column(table, name, column)


def _texts(chance: random.Random, table: pa.Table) -> pa.Table:
    name = chance.choice(("job_name", "user_dn", "vo"))
    texts = ["".join(chance.choices(SEPARATORS, k=chance.randint(1, 4))) for _ in range(table.num_rows)]
    return hostile_datasets.with_column(table, name, texts)


def _column(chance: random.Random, table: pa.Table) -> pa.Table:
    return table.append_column(chance.choice(_NAMES), pa.nulls(table.num_rows, chance.choice(_TYPES)))


def _without(chance: random.Random, table: pa.Table) -> pa.Table:
    return table.select(chance.sample(range(table.num_columns), chance.randint(1, table.num_columns)))


def _order(chance: random.Random, table: pa.Table) -> pa.Table:
    return table.select(chance.sample(range(table.num_columns), table.num_columns))


def _written(chance: random.Random, table: pa.Table) -> bytes:
    """In one of the ways in which writers of Parquet differ; as usual where a type has no such way."""
    texts = [field.name for field in table.schema if field.type == pa.string()]
    options: dict[str, Any] = {
        "compression": chance.choice(("zstd", "snappy", "gzip", "none", "lz4", "brotli")),
        "data_page_version": chance.choice(("1.0", "2.0")),
        "version": chance.choice(("1.0", "2.4", "2.6")),
        "store_schema": chance.random() < 0.7,
        "row_group_size": chance.choice((1, 5, 1000)),
        "write_statistics": chance.random() < 0.7,
        "write_page_index": chance.random() < 0.3,
        "data_page_size": chance.choice((64, 2**20)),
    }
    if chance.random() < 0.4:
        options |= {"use_dictionary": False, "column_encoding": dict.fromkeys(texts, chance.choice(_ENCODINGS))}
    try:
        return hostile_datasets.written(table, **options)
    except (pa.ArrowException, OSError, ValueError):
        return hostile_datasets.written(_jobs())


def _other_number(chance: random.Random, data: bytes) -> bytes:
    """A footer that lies about one of its numbers."""
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    column = group.column(chance.randrange(group.num_columns))
    numbers = (column.total_uncompressed_size, column.total_compressed_size, column.data_page_offset, column.num_values)
    number = chance.choice([*numbers, group.total_byte_size, group.num_rows])
    other = chance.choice((0, 1, number + 1, 2 * number, 2**31, 2**62))
    try:
        return hostile_datasets.with_numbers(data, {number: other})
    except AssertionError:
        return data


@cache
def _jobs() -> pa.Table:
    return federation.jobs_of(BAD, _JOBS).cast(schema_of("jobs"))


@cache
def _both() -> pathlib.Path:
    """A dataset of two CEs that nothing is wrong with."""
    root = pathlib.Path(tempfile.mkdtemp())
    write_partition(root, WHOLE, {"jobs": federation.jobs_of(WHOLE, _JOBS)})
    write_partition(root, BAD, {"jobs": _jobs()}, life="f" * 32)
    return root


@cache
def _of_whole() -> list[dict[str, Any]]:
    return [row for row in _asked(_both())[1] if row["ce"] == WHOLE.ce]


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    """Put the file in the place of that of one CE, and ask."""
    root = work / "dataset"
    shutil.copytree(_both(), root)
    rows = int(files["rows"])
    hostile_datasets.replace(root, BAD, files["part"], rows)
    checked = arcacct("fleet", "verify", "--deep", str(root), allowed=(0, 65))
    assert (checked.code == 65) == (str(root / BAD.manifest) in checked.err), checked.err
    summed = arcacct("fleet", "stats", str(root), "-a", "--by", "ce,vo,user", "--format", "json", allowed=(0, 65))
    by_stats = json.loads(summed.out)
    code, by_sql = _asked(root)
    assert [row for row in by_sql if row["ce"] == WHOLE.ce] == _of_whole()
    assert sum(row["jobs"] for row in by_stats if row["ce"] == WHOLE.ce) == _JOBS
    # What is left out by its footer is left out by all; a damaged page only where it is read.
    for left_out, told in ((summed.code, by_stats), (code, by_sql)):
        jobs = sum(row["jobs"] for row in told if row["ce"] == BAD.ce)
        assert jobs == (0 if left_out else rows), (left_out, jobs)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < _USED_KIB
    if checked.code == 0:
        assert (code, summed.code) == (0, 0), summed.err
        if files["whole"] == b"1":
            _check_texts(root, files["part"])


def _asked(root: pathlib.Path) -> tuple[int, list[dict[str, Any]]]:
    done = arcacct("fleet", "sql", str(root), _READ, "--format", "json", allowed=(0, 65))
    assert (done.code == 65) == (str(root / BAD.manifest) in done.err), done.err
    return done.code, json.loads(done.out)


def _check_texts(root: pathlib.Path, data: bytes) -> None:
    """What is answered is what pyarrow reads, by CSV, too."""
    table = pq.ParquetFile(io.BytesIO(data)).read()
    if "job_name" not in table.schema.names:
        return
    wanted = sorted(text or "" for text in table["job_name"].to_pylist())
    statement = f"SELECT job_name FROM jobs WHERE ce = '{BAD.ce}'"
    by_json = arcacct("fleet", "sql", str(root), statement, "--format", "json", allowed=(0,))
    assert sorted(row["job_name"] or "" for row in json.loads(by_json.out)) == wanted
    by_csv = arcacct("fleet", "sql", str(root), statement, "--format", "csv", allowed=(0,))
    cells = [row[0] if row else "" for row in csv.reader(io.StringIO(by_csv.out, newline=""))]
    assert sorted(cells[1:]) == wanted
