"""
The footer of a file, compared with the only schema of the dataset before any other read of the file.

Files come from other CEs, and their types may be chosen to harm: a file that differs is left out, and has no effect on
others. Parquet has a type for each column, and Arrow's schema, which a file may also have, another one: some engines
read the first, others the second, so both must be right. A footer can say less than the pages hold; engines read under
a limit of memory for that (`arcacct.fleet.duckdb_engine`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from arcacct.export.dataset import GROUP_ROWS, KEYS, columns, group_bytes, most_rows
from arcacct.fleet.dataset import Exported, Footer, Unsound, first_line
from arcacct.wording import count_of

_TAIL_BYTES = 2**16
"""Read at once from the end of a file: most footers have 15 kB."""
_PIECE_BYTES = 2**20
_FOOTER_BYTES = 2**21
"""The footer of a file with 10 million jobs. A footer that is made to harm takes 200 times as much when decoded."""
_LIST_LENGTH = 1024
"""The most columns, and the most row groups."""
_ROWS_PER_BYTE = 64
"""The most rows of any table per byte of the jobs: each of these has an id of its own, and takes 20 bytes as a rule."""
_MAGIC = b"PAR1"
_TYPES = {
    ("INT64", "None"): "int64",
    ("INT64", "Int(bitWidth=64, isSigned=true)"): "int64",
    ("DOUBLE", "None"): "double",
    ("BYTE_ARRAY", "String"): "string",
}
"""By physical and logical type of Parquet: that of the dataset."""
_ARROW = {"int64": pa.int64(), "double": pa.float64(), "string": pa.string()}


class Footers:
    """Reads footers. Most files have the same columns, which are checked closely once."""

    def __init__(self) -> None:
        self._accepted: dict[str, tuple[tuple[str, ...], Any, Any]] = {}

    def of(self, one: Exported, table: str) -> Footer:
        """
        Return the footer of a part, whose content is that of the manifest.

        Raises Unsound with the difference from the schema or the manifest, StoreError, and pyarrow's errors for a file
        that cannot be read.
        """
        part = one.manifest.tables[table]
        with one.open(table) as file:
            metadata = _metadata(file)
            _check_digest(file, part.sha256)
        names = self._names(table, metadata)
        if metadata.num_rows != part.rows:
            raise Unsound(f"has {count_of(metadata.num_rows, 'row')}, the manifest says {part.rows}")
        jobs = one.jobs
        if part.rows > _ROWS_PER_BYTE * jobs.bytes or part.rows > most_rows(jobs.rows):
            raise Unsound(
                f"has {part.rows} rows, of {count_of(jobs.rows, 'job')} in {jobs.bytes} bytes; at most"
                f" {min(_ROWS_PER_BYTE * jobs.bytes, most_rows(jobs.rows))} are read"
            )
        return Footer(names, _most_bytes(metadata))

    def _names(self, table: str, metadata: Any) -> tuple[str, ...]:
        schema, beside = metadata.schema, metadata.metadata
        names = tuple([schema.column(place).path for place in range(len(schema))])
        accepted = self._accepted.get(table)
        if accepted is None or names != accepted[0] or not schema.equals(accepted[1]) or beside != accepted[2]:
            wrong = _difference(table, names, schema)
            if wrong is not None:
                raise Unsound(f"differs from the schema of the dataset: {wrong}")
            self._accepted[table] = names, schema, beside
        return names


def _check_digest(file: Any, sha256: str) -> None:
    """No engine sees a bit of a page that changed: that reads as another value."""
    digest = hashlib.sha256()
    file.seek(0)
    while piece := file.read(_PIECE_BYTES):
        digest.update(piece)
    if digest.hexdigest() != sha256:
        raise Unsound("has other content than was exported (sha256)")


def _metadata(file: Any) -> Any:
    """Return the data of an open file's footer; the memory that it can take is limited."""
    size = file.size()
    file.seek(max(0, size - _TAIL_BYTES))
    tail = file.read(_TAIL_BYTES)
    length = int.from_bytes(tail[-8:-4], "little")
    if tail[-4:] != _MAGIC or length > size - 12:
        raise Unsound("is not a Parquet file")
    if length > _FOOTER_BYTES:
        raise Unsound(f"has a footer of {length} bytes; at most {_FOOTER_BYTES} are read")
    if length + 8 > len(tail):
        file.seek(size - 8 - length)
        tail = file.read(length + 8)
    footer = pa.BufferReader(_MAGIC + tail[-8 - length :])
    limits = {"thrift_string_size_limit": _FOOTER_BYTES, "thrift_container_size_limit": _LIST_LENGTH}
    try:
        return pq.ParquetFile(footer, **limits).metadata
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise Unsound(f"has a footer that cannot be read: {first_line(error)}") from error


def _difference(table: str, names: Sequence[str], schema: Any) -> str | None:
    """Return how the columns differ from those of the table; ``None``: they agree."""
    wanted = {column.name: column.type for column in columns()[table]}
    in_arrow = schema.to_arrow_schema()
    if in_arrow.names != [*names]:
        group = next((name for name in in_arrow.names if name not in names), in_arrow.names[0])
        return f"column {group} is a group of columns"
    known = {name.lower(): name for name in wanted}
    seen = set()
    for place, name in enumerate(names):
        if name.lower() in KEYS:
            return f"column {name} must be only in the path"
        if name.lower() in seen:
            return f"two columns are called {name.lower()}"
        seen.add(name.lower())
        if known.get(name.lower(), name) != name:
            return f"column {name} is called {known[name.lower()]}"
        column = schema.column(place)
        kind = _TYPES.get((column.physical_type, str(column.logical_type)))
        told = in_arrow.field(place).type
        if kind is None or told != _ARROW[kind] or wanted.get(name, kind) != kind:
            is_lie = name in wanted and told == _ARROW[wanted[name]]
            found = f"{column.physical_type} of Parquet" if is_lie else str(told)
            return f"column {name} is {found}, not {wanted.get(name) or ' or '.join(_ARROW)}"
    return None if "record_id" in names else "the column record_id is missing"


def _most_bytes(metadata: Any) -> int:
    """Return the most bytes of all row groups. Raises Unsound for larger ones, or if they do not add up to the file."""
    rows = most_bytes = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        rows += group.num_rows
        if not 0 <= group.num_rows <= GROUP_ROWS:
            raise Unsound(f"has a group of {group.num_rows} rows; at most {GROUP_ROWS} are read")
        most = group_bytes(group.num_rows)
        if not 0 <= group.total_byte_size <= most:
            raise Unsound(
                f"has {group.total_byte_size} uncompressed bytes in {count_of(group.num_rows, 'row')}; at most {most}"
                " are read"
            )
        most_bytes += most
        if group.num_columns != metadata.num_columns:
            raise Unsound(f"has a row group of {count_of(group.num_columns, 'column')}, not {metadata.num_columns}")
    if rows != metadata.num_rows:
        raise Unsound(f"has {count_of(rows, 'row')} in its row groups, and its footer says {metadata.num_rows}")
    return most_bytes
