"""
Partitions that another CE made to harm: digests, sizes and rows are as their manifest says, and the Parquet is hostile.

`HOSTILE` has a maker for each kind. Each changes one partition of a dataset that was sound before.
"""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from arcacct.export.dataset import Partition, columns, part_name, with_digest

SHELL = "PWNED"
"""The file that the shell command of `escaping` makes in the current directory."""
SEPARATORS = (
    *("\t", "\\N", "\\.", "\n\\.\n", "\\", "\r\n", "\r", ",", ";", "|", '"', '""', "'", "''", "$$", "$1", "--", "/*"),
    *("NULL", "", " ", "\0", "\x1b[2J", "\x0b", "\x1d", "\u202e", "\u2028", "\ufeff", "żółć 🚀", "=1+1", "{}", "%s"),
    *(":a", "\\! id", "E'\\''", "\\x00", "PGCOPY\n\xff\r\n\0", "a:b"),
)
"""What ends or escapes a value in SQL, CSV and each form of COPY, and what steers a terminal."""


class Hostile(NamedTuple):
    """A kind of hostile partition."""

    make: Callable[[pathlib.Path, Partition], object]
    complaint: str
    """What `arcacct fleet verify` says of it."""
    is_in_footer: bool = True
    """Whether the footer alone shows it; otherwise ``verify --deep`` and an engine that reads the column do."""


def escaping(after: int) -> str:
    """A text that ends a textual COPY and lets psql run a shell command, in a column with so many behind it."""
    end = "\t\\N" * after
    return f"x{end}\n\\.\nROLLBACK;\n\\! id > {SHELL}\nCREATE TABLE IF NOT EXISTS public.pwned(x text);\n\\q\n"


def read(root: pathlib.Path, partition: Partition, table: str = "jobs") -> pa.Table:
    """The rows of a part."""
    return pq.ParquetFile(_part(root, partition, table)).read()


def replace(
    root: pathlib.Path, partition: Partition, data: bytes, rows: int | None = None, table: str = "jobs"
) -> None:
    """Put a file with these bytes in the place of a part, and into the manifest."""
    manifest = root / partition.manifest
    told = json.loads(manifest.read_text())
    part = told["tables"][table]
    _part(root, partition, table).unlink()
    digest = hashlib.sha256(data).hexdigest()
    part |= {"file": part_name(digest), "sha256": digest, "bytes": len(data)}
    if rows is not None:
        ends = {name: told["tables"]["jobs"][name] if rows else None for name in ("end_min_s", "end_max_s")}
        part |= {"rows": rows, **ends}
    (root / partition.part(table, part["file"])).write_bytes(data)
    manifest.write_bytes(with_digest(told))


def write(root: pathlib.Path, partition: Partition, table: pa.Table, name: str = "jobs", **options: Any) -> None:
    """Put these rows in the place of those of a part."""
    replace(root, partition, written(table, **options), table.num_rows, name)


def written(table: pa.Table, **options: Any) -> bytes:
    """A file of Parquet."""
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


def with_column(table: pa.Table, name: str, values: Any, kind: pa.DataType | None = None) -> pa.Table:
    """The same with another column of this name, in its place or at the end."""
    column = values if isinstance(values, pa.Array) else pa.array(values, kind)
    place = table.schema.get_field_index(name)
    if place < 0:
        return table.append_column(name, column)
    return table.set_column(place, pa.field(name, column.type), column)


def _part(root: pathlib.Path, partition: Partition, table: str) -> pathlib.Path:
    told = json.loads((root / partition.manifest).read_text())
    return root / partition.part(table, told["tables"][table]["file"])


def _column(name: str, kind: pa.DataType, values: Callable[[int], list[Any]], **options: Any) -> Any:
    """A maker: the column of jobs has this type and these values."""

    def make(root: pathlib.Path, partition: Partition) -> None:
        table = read(root, partition)
        write(root, partition, with_column(table, name, values(table.num_rows), kind), **options)

    return make


def _cast(name: str, kind: pa.DataType, **options: Any) -> Any:
    """A maker: the column of jobs has this type and the same values."""

    def make(root: pathlib.Path, partition: Partition) -> None:
        table = read(root, partition)
        write(root, partition, with_column(table, name, table[name].cast(kind).combine_chunks()), **options)

    return make


def _payload(rows: int) -> list[Any]:
    names = [column.name for column in columns()["jobs"]]
    return [escaping(len(names) - 1 - names.index("job_name")), *["honest\ttext\\"] * (rows - 1)]


def _dictionary(root: pathlib.Path, partition: Partition) -> None:
    table = read(root, partition)
    write(root, partition, with_column(table, "job_name", pa.array(_payload(table.num_rows)).dictionary_encode()))


def _renamed(name: str, other: str) -> Any:
    def make(root: pathlib.Path, partition: Partition) -> None:
        table = read(root, partition)
        names = [other if one == name else one for one in table.schema.names]
        write(root, partition, table.rename_columns(names))

    return make


def _twice(root: pathlib.Path, partition: Partition) -> None:
    table = read(root, partition)
    write(root, partition, table.append_column("wall_s", table["cpu_s"]))


def _in_a_group(root: pathlib.Path, partition: Partition) -> None:
    """The leaf is called and typed as the column of the schema, within a group that is never NULL."""
    table = read(root, partition)
    place = table.schema.get_field_index("vo")
    inner = pa.StructArray.from_arrays([table["vo"].combine_chunks()], fields=[pa.field("vo", pa.string())])
    field = pa.field("vo", inner.type, nullable=False)
    write(root, partition, table.set_column(place, field, inner), store_schema=False)


def _lying_schema(root: pathlib.Path, partition: Partition) -> None:
    """The columns are called as they should be typed by Arrow, and stored otherwise."""
    table = read(root, partition)
    text = with_column(table, "wall_s", [str(value) for value in table["wall_s"].to_pylist()])
    honest = pq.ParquetFile(io.BytesIO(written(table))).metadata.metadata[b"ARROW:schema"]
    file = io.BytesIO()
    with pq.ParquetWriter(file, text.schema, store_schema=False) as writer:
        writer.write_table(text)
        writer.add_key_value_metadata({"ARROW:schema": honest.decode()})
    replace(root, partition, file.getvalue(), text.num_rows)


def _more_rows(root: pathlib.Path, partition: Partition) -> None:
    table = read(root, partition)
    replace(root, partition, written(pa.concat_tables([table, table])), table.num_rows)


def big_texts(root: pathlib.Path, partition: Partition, size: int = 40_000_000) -> None:
    """Twelve texts of so many bytes each, in 20 to 80 kB."""
    table = read(root, partition).slice(0, 12)
    texts = pa.chunked_array([pa.array(["x" * size])] * 12)
    many = table.set_column(table.schema.get_field_index("job_name"), "job_name", texts)
    write(root, partition, many, use_dictionary=False, compression="zstd", write_statistics=False)


def big_texts_of_a_liar(root: pathlib.Path, partition: Partition, size: int = 40_000_000) -> None:
    """The same, and the footer says that they are a kilobyte."""
    big_texts(root, partition, size)
    data = _part(root, partition, "jobs").read_bytes()
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    sizes = {group.total_byte_size, *(group.column(at).total_uncompressed_size for at in range(group.num_columns))}
    replace(root, partition, with_numbers(data, {one: 1000 for one in sizes if one > 10**6}))


def _prefixes(root: pathlib.Path, partition: Partition) -> None:
    """Texts that begin as the one before does, by which 4 GB are a page of 235 kB."""
    _repeated(root, partition, 20_000, pa.array([f"{'y' * 200_000}{number}" for number in range(200)]), "job_name")


def _dictionary_of_long_texts(root: pathlib.Path, partition: Partition) -> None:
    """Two texts of 20 MB that 20,000 jobs have in turns."""
    texts = pa.array([f"{'x' * 20_000_000}{number}" for number in range(2)])
    jobs = pa.DictionaryArray.from_arrays(pa.array([number % 2 for number in range(20_000)], pa.int32()), texts)
    _repeated(root, partition, 20_000, jobs, "vo", dictionary_pagesize_limit=2**30)


def _repeated(root: pathlib.Path, partition: Partition, rows: int, values: pa.Array, name: str, **options: Any) -> None:
    table = read(root, partition).slice(0, 1)
    many = table.take(pa.array([0] * rows))
    column = pa.chunked_array([values] * (rows // len(values)))
    many = many.set_column(many.schema.get_field_index(name), name, column)
    many = with_column(many, "record_id", range(rows), pa.int64())
    if "dictionary_pagesize_limit" not in options:
        options |= {"use_dictionary": False, "column_encoding": {name: "DELTA_BYTE_ARRAY"}, "data_page_size": 2**30}
    write(root, partition, many, store_schema=False, compression="zstd", write_statistics=False, **options)


def many_rows(root: pathlib.Path, partition: Partition, table: str, rows: int) -> None:
    """So many rows of a table that are all alike, in some kB."""
    schema = read(root, partition, table).schema
    values = {name: [1 if kind == "int64" else "x"] for name, kind in zip(schema.names, schema.types, strict=True)}
    one = pa.Table.from_pydict(values).cast(schema)
    many = one.take(pa.array(np.zeros(rows, np.int8)))
    write(root, partition, many, table, row_group_size=2**20, compression="zstd")


def _decimal_that_says_int(root: pathlib.Path, partition: Partition) -> None:
    """Parquet has two ways to say what a number is: the newer one says int64, and the older one a decimal."""
    table = read(root, partition)
    cents = with_column(table, "wall_s", [1] * table.num_rows, pa.decimal128(18, 2))
    data = written(cents, store_decimal_as_integer=True, store_schema=False)
    footer = data[len(data) - 8 - int.from_bytes(data[-8:-4], "little") : -8]
    # A field of LogicalType: DECIMAL with scale 2 and precision 18, and INTEGER with 64 bits and a sign.
    decimal, integer = b"\x5c\x15\x04\x15\x24\x00", b"\xac\x13\x40\x11\x00"
    assert footer.count(decimal) == 1
    replace(root, partition, with_footer(data, footer.replace(decimal, integer)), table.num_rows)


def varint(number: int, length: int = 0) -> bytes:
    """A number of a footer in bytes, padded to a length: all readers take that."""
    out = bytearray()
    while True:
        out.append(number & 0x7F | 0x80)
        number >>= 7
        if not number and len(out) >= length:
            out[-1] &= 0x7F
            return bytes(out)


def with_numbers(data: bytes, numbers: dict[int, int]) -> bytes:
    """A file of Parquet with other numbers in its footer, each wherever it stands there."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[start:-8]
    for number, other in numbers.items():
        # Signed ones have their sign in the lowest bit.
        before = varint(2 * number)
        assert before in footer
        footer = footer.replace(before, varint(2 * other, len(before)))
    return data[:start] + footer + data[-8:]


def with_footer(data: bytes, footer: bytes) -> bytes:
    """A file of Parquet with another footer."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return data[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _footer(footer: bytes) -> Any:
    def make(root: pathlib.Path, partition: Partition) -> None:
        data = _part(root, partition, "jobs").read_bytes()
        replace(root, partition, with_footer(data, footer))

    return make


def _list(elements: int, kind: int = 12) -> bytes:
    """How a list starts in a footer; 12: of structures."""
    return bytes([0xF0 | kind]) + varint(elements)


ONE_COLUMN = b"\x15\x02\x19\x2c\x48\x06schema\x15\x02\x00\x15\x04\x25\x00\x18\x01a\x00\x16\x00\x19"
"""A footer up to its row groups: version, a schema of one column ``a``, no rows."""
CHUNKS = ONE_COLUMN + _list(1000) + (b"\x19" + _list(1000) + b"\x26\x00\x00" * 1000 + b"\x16\x00\x16\x00\x00") * 1000


def _zeros(root: pathlib.Path, partition: Partition) -> None:
    """All but the footer is zeros."""
    data = _part(root, partition, "jobs").read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    replace(root, partition, data[:4] + bytes(start - 4) + data[start:])


def _no_utf8(root: pathlib.Path, partition: Partition) -> None:
    """Bytes that are no UTF-8 in a column that is a string for Parquet and for Arrow."""
    table = read(root, partition)
    mark = "nothing else has this text"
    data = written(with_column(table, "user_dn", [mark] * table.num_rows), compression="none", use_dictionary=False)
    assert data.count(mark.encode()) > table.num_rows // 2
    replace(root, partition, data.replace(mark.encode(), b"\xff\xfe\n\\.\n" + mark.encode()[6:]))


def _long_text(root: pathlib.Path, partition: Partition) -> None:
    table = read(root, partition)
    write(root, partition, with_column(table, "job_name", ["z" * 300_000, *["ok"] * (table.num_rows - 1)]))


HOSTILE = {
    "large_string": Hostile(_column("job_name", pa.large_string(), _payload), "job_name is large_string, not string"),
    "dictionary": Hostile(_dictionary, "job_name is dictionary"),
    "binary": Hostile(
        _column("job_name", pa.binary(), lambda rows: [b"\xff\xfe\n\\.\n"] * rows), "job_name is binary, not string"
    ),
    "struct": Hostile(
        _column("vo", pa.struct({"a": pa.list_(pa.int64())}), lambda rows: [{"a": [1]}] * rows), "vo is a group"
    ),
    "list": Hostile(_column("vo", pa.list_(pa.string()), lambda rows: [["atlas"]] * rows), "vo is a group"),
    "group with the same leaf": Hostile(_in_a_group, "vo is a group"),
    "int as text": Hostile(_column("wall_s", pa.string(), lambda rows: ["12"] * rows), "wall_s is string, not int64"),
    "int as text, by Parquet": Hostile(
        _column("wall_s", pa.string(), lambda rows: ["12"] * rows, store_schema=False), "wall_s is string, not int64"
    ),
    "text that Arrow calls int": Hostile(_lying_schema, "wall_s is"),
    "int32": Hostile(_cast("wall_s", pa.int32()), "wall_s is int32, not int64"),
    "uint64": Hostile(_cast("wall_s", pa.uint64()), "wall_s is uint64, not int64"),
    "double for int": Hostile(_cast("wall_s", pa.float64()), "wall_s is double, not int64"),
    "float": Hostile(_cast("benchmark_value", pa.float32()), "benchmark_value is float, not double"),
    "timestamp": Hostile(_cast("end_time", pa.timestamp("s")), "end_time is timestamp"),
    "int96": Hostile(
        _cast("end_time", pa.timestamp("s"), use_deprecated_int96_timestamps=True), "end_time is timestamp"
    ),
    "decimal": Hostile(_cast("wall_s", pa.decimal128(38, 2)), "wall_s is decimal128(38, 2), not int64"),
    "fixed length": Hostile(
        _column("vo", pa.binary(5), lambda rows: [b"atlas"] * rows), "vo is fixed_size_binary[5], not string"
    ),
    "boolean": Hostile(_column("exit_code", pa.bool_(), lambda rows: [True] * rows), "exit_code is bool, not int64"),
    "unknown column of another type": Hostile(
        _column("later", pa.struct({"a": pa.int64()}), lambda rows: [{"a": 1}] * rows), "later is a group"
    ),
    "column of the partition": Hostile(
        _column("ce", pa.string(), lambda rows: ["ce01.example.org"] * rows), "column ce must be only in the path"
    ),
    "column twice": Hostile(_twice, "two columns are called wall_s"),
    "columns that differ by case": Hostile(
        _column("Wall_S", pa.int64(), lambda rows: [1] * rows), "two columns are called wall_s"
    ),
    "column in other case": Hostile(_renamed("vo", "VO"), "column VO is called vo"),
    "no record_id": Hostile(_renamed("record_id", "other_id"), "the column record_id is missing"),
    "more rows": Hostile(_more_rows, "the manifest says"),
    "big texts": Hostile(big_texts, "uncompressed bytes"),
    "a million column chunks": Hostile(_footer(CHUNKS + b"\x00"), "footer"),
    "a list of two billion": Hostile(_footer(ONE_COLUMN + _list(2**31 - 2)), "footer"),
    "a schema that lacks an end": Hostile(_footer(b"\x15\x02\x19\xfc\xff\xff\xff\x07"), "footer"),
    "zeros": Hostile(_zeros, "cannot be read", is_in_footer=False),
    "no UTF-8": Hostile(_no_utf8, "UTF", is_in_footer=False),
    "long text": Hostile(_long_text, "300000 bytes", is_in_footer=False),
    "big texts of a liar": Hostile(big_texts_of_a_liar, "", is_in_footer=False),
    "texts by prefixes": Hostile(_prefixes, "", is_in_footer=False),
    "dictionary of long texts": Hostile(_dictionary_of_long_texts, "bytes", is_in_footer=False),
}
NEWER = {
    "string_view": Hostile(_column("job_name", pa.string_view(), _payload), "job_name is string_view, not string"),
    "decimal as int64": Hostile(
        _column("wall_s", pa.decimal128(18, 2), lambda rows: [1] * rows, store_decimal_as_integer=True),
        "wall_s is decimal128(18, 2), not int64",
    ),
    "decimal that says int64": Hostile(
        _decimal_that_says_int, "wall_s is DECIMAL(18,2) for DuckDB", is_in_footer=False
    ),
}
"""Kinds that not every pyarrow can write."""


def _can_write(kind: pa.DataType, **options: Any) -> bool:
    try:
        written(pa.table({"a": pa.array([None], kind)}), **options)
    except (NotImplementedError, TypeError):
        return False
    return True


if _can_write(pa.string_view()):
    HOSTILE["string_view"] = NEWER["string_view"]
if _can_write(pa.decimal128(18, 2), store_decimal_as_integer=True):
    for name in ("decimal as int64", "decimal that says int64"):
        HOSTILE[name] = NEWER[name]
