"""The parts of a partition: tables in Parquet, written and read one group of rows at a time."""

from __future__ import annotations

import hashlib
import os
import resource
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arcacct.errors import InputError
from arcacct.export import dataset
from arcacct.export.dataset import DESCRIPTION, TABLES, TEXT_BYTES, UNIT, Column, Part, Partition, columns, part_name
from arcacct.export.jobs import Job, Values
from arcacct.records.texts import plain_text

GROUP_ROWS = {table: 32_768 if table == "jobs" else 131_072 for table in TABLES}
"""Rows in a group: a reader skips a group by its lowest and highest values, and one group is in memory."""
_GROUP_BYTES = 1 << 27
"""A group of long texts has fewer rows."""
_BATCH_ROWS = 4096
_FORMER_ROWS = 1024
_MOST_BYTES = {table: 1 << 27 if table == "jobs" else 1 << 24 for table in TABLES}
"""A limit for this number of foreign rows: usually a hundred times their size."""
_UNPACKED_BYTES = 1 << 29
"""The most memory for unpacking them."""
_MOST_OF_A_JOB, _MOST_BYTES_OF_A_JOB = 100_000, 1 << 26
"""Rows of a table, and their bytes in memory."""
# The other allocators of pyarrow keep a tenth more of it.
pa.set_memory_pool(pa.system_memory_pool())
_TYPES = {"int64": pa.int64(), "double": pa.float64(), "string": pa.string()}
_DELTA, _FRONT, _PLAIN = "DELTA_BINARY_PACKED", "DELTA_BYTE_ARRAY", "PLAIN"
_ENCODINGS = {
    # Texts that start like the text before; the ten attributes of a job start like the ten before.
    "jobs": dict.fromkeys(("job_id", "local_job_id", "job_name"), _FRONT),
    "transfers": {"url": _FRONT},
    "attributes": {"value": _PLAIN},
}
_FEW = frozenset(
    (
        *("exit_code", "node_count", "core_count", "cpu_kernel_s", "stage_in_s", "stage_out_s", "duration_s"),
        *("gpu_count", "allocated_gpus", "counted"),
    )
)
"""Numbers that come again and again: as all other texts a dictionary, and numbers into it."""
_LEVELS = {"job_id": 1}
"""Levels of zstd. The data is random, so a higher level finds less."""
_LEVEL = 12


def schema_of(table: str) -> pa.Schema:
    """The types of a table, with the unit and the meaning of each column in its metadata."""
    return pa.schema(
        [
            pa.field(
                one.name,
                _TYPES[one.type],
                nullable=one.name != "record_id",
                metadata={DESCRIPTION: one.description.encode(), **({UNIT: one.unit.encode()} if one.unit else {})},
            )
            for one in columns()[table]
        ]
    )


def how_written(table: str, names: Sequence[str]) -> dict[str, Any]:
    """Return pyarrow's options for these columns of a table: encoding and compression of each."""
    # Only numbers from 0 to 2^31: half the cost of eight bytes, with any compression.
    numbers = {one.name: _DELTA for one in columns()[table] if one.type == "int64" and one.name not in _FEW}
    encodings = {name: how for name, how in (numbers | _ENCODINGS.get(table, {})).items() if name in names}
    return {
        "compression": "zstd",
        "compression_level": {name: _LEVELS.get(name, _LEVEL) for name in names},
        "use_dictionary": [name for name in names if name not in encodings],
        "column_encoding": encodings,
    }


class _Table:
    """One part that is being written, as a local file."""

    def __init__(self, table: str, folder: str) -> None:
        self.path = os.path.join(folder, f"{table}.parquet")
        self._columns = columns()[table]
        self._schema = schema_of(table)
        sorting = [pq.SortingColumn(self._schema.get_field_index(one)) for one in ("end_time", "record_id")]
        self._group_rows = GROUP_ROWS[table]
        self._writer = pq.ParquetWriter(
            self.path,
            self._schema,
            sorting_columns=sorting if table == "jobs" else None,
            **how_written(table, self._schema.names),
        )
        self._rows: list[Values] = []
        self._batches: list[pa.RecordBatch] = []
        self._waiting = self._waiting_bytes = 0
        self.written = 0

    def add(self, rows: Sequence[Values]) -> None:
        self._rows += rows
        if len(self._rows) >= _BATCH_ROWS:
            self._pack()
            if self._waiting >= self._group_rows or self._waiting_bytes >= _GROUP_BYTES:
                self._flush()

    def _pack(self) -> None:
        if self._rows:
            arrays = [
                _array(values, one) for values, one in zip(zip(*self._rows, strict=True), self._columns, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
            self._batches.append(batch)
            self._waiting += len(self._rows)
            self._waiting_bytes += batch.nbytes
            self._rows = []

    def _flush(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches)
            self._writer.write_table(table, row_group_size=_rows_of_group(table))
            self.written += self._waiting
            self._batches, self._waiting, self._waiting_bytes = [], 0, 0

    def close(self) -> None:
        self._pack()
        self._flush()
        self._writer.close()


def _rows_of_group(table: pa.Table) -> int:
    """All rows in one group, or fewer where readers would refuse it: none of them has more than the widest."""
    if table.nbytes <= dataset.group_bytes(table.num_rows):
        return int(table.num_rows)
    widest = sum(_longest(column) for column in table.columns) + 8 * len(table.column_names)
    return max(1, _GROUP_BYTES // widest)


def _longest(column: pa.Array) -> int:
    """Bytes of the longest text of a column; 0 of one of numbers."""
    return int(pc.max(pc.binary_length(column)).as_py() or 0) if pa.types.is_string(column.type) else 0


def _array(values: Sequence[Any], column: Column) -> pa.Array:
    """A column, of what SQLite has there; what is of another type and means nothing in this one is NULL."""
    try:
        found = pa.array(values, _TYPES[column.type])
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        found = pa.array([_fitting(value, column.type) for value in values], _TYPES[column.type])
    if _longest(found) <= TEXT_BYTES:
        return found
    # A reader refuses a file with a longer text.
    return pa.array([None if text is None else _cut(text) for text in found.to_pylist()], found.type)


def _cut(text: str) -> str:
    """The beginning of a text, if it is too long."""
    return text.encode()[:TEXT_BYTES].decode(errors="ignore")


def _fitting(value: object, kind: str) -> object:
    if value is None:
        return None
    if kind == "string":
        return plain_text(value).encode("utf-8", "replace").decode()
    if not isinstance(value, int | float):
        return None
    if kind == "double":
        return float(value)
    return int(value) if -(2**63) <= value < 2**63 else None


class PartsWriter:
    """Writes the parts of one partition as files in a local folder, with jobs in the order of their ends."""

    def __init__(self, folder: str) -> None:
        self._tables = {table: _Table(table, folder) for table in TABLES}
        self._first: int | None = None
        self._last: int | None = None
        self.jobs = 0

    def add(self, jobs: Sequence[Job]) -> None:
        """Add more jobs, which ended later."""
        if not jobs:
            return
        self._first = int(jobs[0].end_s) if self._first is None else self._first
        self._last = int(jobs[-1].end_s)
        self.jobs += len(jobs)
        for name, table in self._tables.items():
            if name == "jobs":
                table.add([job.values for job in jobs])
            else:
                table.add([row for job in jobs for row in job.children.get(name, ())])

    def close(self) -> None:
        """Write the remaining rows; a second call does nothing."""
        for table in self._tables.values():
            table.close()

    def parts(self) -> dict[str, tuple[Part, str]]:
        """Return the written part of each table, and the path of its file; after `close`."""
        found = {}
        for name, table in self._tables.items():
            with open(table.path, "rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
                size = os.fstat(file.fileno()).st_size
            part = Part(part_name(sha256), table.written, self._first, self._last, sha256, size)
            found[name] = (part if table.written else part._replace(end_min_s=None, end_max_s=None), table.path)
        return found


def former_jobs(paths: Mapping[str, str], rows: Mapping[str, int], partition: Partition, path: str) -> Iterator[Job]:
    """
    Yield the jobs of the parts of a partition; ``paths``: local files, by table.

    ``rows``: the expected number of rows of each part. Raises InputError, with the ``path`` of the manifest, if one is
    damaged or was not written by an export: other users may write there.
    """
    try:
        with ExitStack() as held:
            opened = {table: held.enter_context(open(one, "rb")) for table, one in paths.items()}
            read = {table: _Rows(file, table, rows[table]) for table, file in opened.items()}
            children = {table: _Beside(of) for table, of in read.items() if table != "jobs"}
            for job in _in_order(read["jobs"], partition):
                beside = {table: found for table, of in children.items() if (found := of.rows_of(job.record_id))}
                yield job._replace(children=beside)
            for of in children.values():
                of.refuse_more()
    except (pa.ArrowException, MemoryError, OSError, ValueError, LookupError, TypeError) as error:
        why = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(
            f"{path}: a part that it names cannot be read ({why}); pruned jobs are only in it: restore it,"
            " or remove the manifest to continue without them"
        ) from error


def _in_order(rows: Iterable[Values], partition: Partition) -> Iterator[Job]:
    """Jobs without their child rows. Raises ValueError for one that no export can have written."""
    end = [column.name for column in columns()["jobs"]].index("end_time")
    first, behind = partition.bounds
    before = (first, 0)
    for values in rows:
        place = values[end], values[0]
        if None in place or not before < place < (behind, 0) or values[0] < 1 or values[1] is None:
            raise ValueError(f"job {values[0]} is of another month, without a name, or in another place than it was")
        yield Job(*place, values, {})
        before = place


class _Rows:
    """The rows of a part; ``bytes`` is what those that were read so far had in memory."""

    def __init__(self, file: Any, table: str, rows: int) -> None:
        self.bytes = 0
        self._table = table
        self._batches = batches(file, table, rows, _FORMER_ROWS)

    def __iter__(self) -> Iterator[Values]:
        for batch in self._batches:
            self.bytes += batch.nbytes
            # A file from before a column was added has no values in it.
            there = set(batch.schema.names)
            lists = [
                batch.column(one.name).to_pylist() if one.name in there else [None] * batch.num_rows
                for one in columns()[self._table]
            ]
            yield from zip(*lists, strict=True)


class _Beside:
    """The rows of another table, which has them in the order of the jobs, too."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows
        self._groups = groupby(rows, itemgetter(0))
        self._next: tuple[int, list[Values]] | None = None
        self._step()

    def _step(self) -> None:
        self._next = None
        for record_id, group in self._groups:
            before, found = self._rows.bytes, []
            while some := list(islice(group, _FORMER_ROWS)):
                found += some
                if len(found) > _MOST_OF_A_JOB or self._rows.bytes - before > _MOST_BYTES_OF_A_JOB:
                    raise ValueError(f"more rows of record {record_id} than a job can have")
            self._next = record_id, found
            return

    def refuse_more(self) -> None:
        if self._next is not None:
            raise ValueError(f"rows of record {self._next[0]}, which is in no part of jobs, or in another place there")

    def rows_of(self, record_id: int) -> list[Values]:
        if self._next is None or self._next[0] != record_id:
            return []
        found = self._next[1]
        self._step()
        return found


def batches(file: Any, table: str, rows: int, at_once: int) -> Iterator[pa.RecordBatch]:
    """
    Yield the rows of a part that another program may have written, ``at_once`` at a time, with those of our columns
    that it has.

    Raises ValueError if the number of rows or the type of a column is wrong; MemoryError if it unpacks to more than our
    parts can have (a few kB of Parquet can be terabytes of text); pyarrow's errors for other damage.
    """
    with _little_memory():
        reader = pq.ParquetFile(file)
        if reader.metadata.num_rows != rows:
            raise ValueError(f"{reader.metadata.num_rows} rows in {table}, not {rows}")
        names = refuse_other_types(table, reader.schema_arrow)
        coming = reader.iter_batches(batch_size=at_once, columns=names, use_threads=False)
    while True:
        with _little_memory():
            batch = next(coming, None)
        if batch is None:
            return
        if batch.nbytes > _MOST_BYTES[table] * at_once // _FORMER_ROWS:
            raise MemoryError(f"{batch.num_rows} rows of {table} have {batch.nbytes} bytes")
        yield batch


def refuse_other_types(table: str, found: pa.Schema) -> list[str]:
    """
    Return which of our columns of a table a file has. Raises ValueError if one has another type there, or occurs twice.
    """
    names = []
    for ours in schema_of(table):
        places = found.get_all_field_indices(ours.name)
        if len(places) > 1 or (not places and not ours.nullable):
            raise ValueError(f"{len(places)} columns {ours.name} in {table}")
        if places:
            kind = found.field(places[0]).type
            if kind != ours.type:
                raise ValueError(f"{ours.name} in {table} has the type {f'{kind}':.50}, not {ours.type}")
            names.append(ours.name)
    return names


@contextmanager
def _little_memory() -> Iterator[None]:
    """Limit the memory to the need of our parts: more raises MemoryError, so this host does not run out of it."""
    before, most = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", "rb") as file:
        now_bytes = int(file.read().split()[0]) * resource.getpagesize()
    limits = [one for one in (before, now_bytes + _UNPACKED_BYTES) if one != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, most))
