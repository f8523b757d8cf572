"""The places of a dataset's files, their columns, and which of them count."""

from __future__ import annotations

import calendar
import csv
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

from arcacct.errors import InputError
from arcacct.files.directories import resource
from arcacct.files.json_reader import parsed

# The places of the files of a dataset, below its directory or URL.  ::
# jobs/v1/site=S/year=YYYY/month=MM/ce=HOST/part-<digest>.parquet       and each other of `TABLES`
# manifests/v1/site=S/year=YYYY/month=MM/ce=HOST.json                   which parts count, one for each partition
# exports/v1/site=S/ce=HOST.json                                        how far the export of a CE came; for it alone  A
# partition is a month of a CE: the jobs that ended in it, by UTC. What no manifest names is not part of the dataset.


VERSION = 1
"""The version of the dataset: of the layout, and of the meaning of columns. An additional column does not change it."""
TABLES = ("jobs", "events", "transfers", "attributes", "accelerators")
MANIFESTS = f"manifests/v{VERSION}"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)
_MONTH_OF = (rf"site=({_NAME.pattern})", "year=((?!0000)[0-9]{4})", "month=(0[1-9]|1[0-2])")
_MANIFEST = re.compile("/".join((MANIFESTS, *_MONTH_OF, rf"ce=({_NAME.pattern})\.json")), re.ASCII)
_PART = re.compile(r"part-[0-9a-f]{16}\.parquet", re.ASCII)
_VERSION = "v[0-9]{1,9}"
_NAMES = {
    **dict.fromkeys(TABLES, (_VERSION, *_MONTH_OF, f"ce={_NAME.pattern}", _PART.pattern)),
    "manifests": (_VERSION, *_MONTH_OF, rf"ce={_NAME.pattern}\.json"),
    "exports": (_VERSION, _MONTH_OF[0], rf"ce={_NAME.pattern}\.json"),
}
"""By the first part of a path, the form of the other parts: the last one is a file, the others are folders."""


class Partition(NamedTuple):
    """A month of a CE."""

    site: str
    year: int
    month: int
    ce: str

    def __str__(self) -> str:
        """For messages."""
        return f"{self.site}, {self.ce}, {self.year:04d}-{self.month:02d}"

    @property
    def bounds(self) -> tuple[int, int]:
        """The first second of the month, UTC, and of the next month."""
        first = calendar.timegm((self.year, self.month, 1, 0, 0, 0))
        # No calendar has a month after the last of the year 9999.
        return first, first + calendar.monthrange(self.year, self.month)[1] * 86_400

    @property
    def manifest(self) -> str:
        """The path of its manifest."""
        return f"{MANIFESTS}/site={self.site}/year={self.year:04d}/month={self.month:02d}/ce={self.ce}.json"

    def folder(self, table: str) -> str:
        """The folder of the parts of one of `TABLES`."""
        return f"{table}/v{VERSION}/site={self.site}/year={self.year:04d}/month={self.month:02d}/ce={self.ce}"

    def part(self, table: str, file: str) -> str:
        """The path of a part that its manifest names."""
        return f"{self.folder(table)}/{file}"


def partition_of(path: str) -> Partition | None:
    """The partition of a manifest, by its path in the dataset; ``None`` if the file is not a manifest."""
    match = _MANIFEST.fullmatch(path)
    return None if match is None else Partition(match[1], int(match[2]), int(match[3]), match[4])


def names_in(folder: str) -> tuple[re.Pattern[str], bool] | None:
    """
    Return the form of names in a folder of the dataset, and whether they are files or folders; ``None``: there are no
    names.

    Other content of the folder is not part of the dataset.
    """
    first, *rest = folder.split("/")
    names = _NAMES.get(first, ())
    if len(rest) >= len(names):
        return None
    return re.compile(names[len(rest)], re.ASCII), len(rest) == len(names) - 1


def position_path(site: str, ce: str) -> str:
    """The path of the file in which the export of a CE notes its position."""
    return f"exports/v{VERSION}/site={site}/ce={ce}.json"


def part_name(sha256: str) -> str:
    """Return the name of a part with these bytes."""
    return f"part-{sha256[:16]}.parquet"


def is_part_name(name: str) -> bool:
    """Whether this is a possible name of a part."""
    return _PART.fullmatch(name) is not None


def key_name(name: str, what: str) -> str:
    """
    The name of a site or a CE in the form used in paths.

    Raises InputError for one that some file systems or engines do not accept. ``what``: its source.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{what}: {name!r} cannot be the name of a directory everywhere; use letters, digits, dots, dashes and _"
        )
    return name


# The columns of a dataset's tables, from ``schema/fleet/columns.csv``: every engine reads that file.


Type = Literal["int64", "double", "string"]


KEYS: dict[str, Type] = {"site": "string", "year": "int64", "month": "string", "ce": "string"}
"""The columns of a partition: they are in the paths alone."""


class Column(NamedTuple):
    """A column; all except ``record_id`` may be NULL."""

    name: str
    type: Type
    unit: str
    """The unit of a measured value, else empty; also in the metadata of the column in each file, under `UNIT`."""
    description: str


UNIT = b"unit"
DESCRIPTION = b"description"
TEXT_BYTES = 2**18
"""The most bytes of UTF-8 in a text: the names of 20,000 slots."""
GROUP_ROWS = 2**20
"""The most rows in a row group."""


def most_rows(jobs: int) -> int:
    """Return the most rows that a table of so many jobs may have: a thousand each on average, for few jobs more."""
    return 1000 * (jobs + 100)


def group_bytes(rows: int) -> int:
    """Return the most bytes that a row group with so many rows may have, uncompressed."""
    return 2**28 + rows * 2**13


@cache
def columns() -> dict[str, tuple[Column, ...]]:
    """The columns of each table in their order, without `KEYS`."""
    found: dict[str, list[Column]] = {table: [] for table in TABLES}
    with open(resource("schema", "fleet", "columns.csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            (kind,) = [one for one in get_args(Type) if one == row["type"]]
            found[row["table"]].append(Column(row["column"], kind, row["unit"], row["description"]))
    return {table: tuple(of) for table, of in found.items()}


# The parts of a partition that count, and their content: written last, so that a reader never reads half of them.  A
# reader reads only the files that manifests name. If one of them is missing because the partition was written twice
# since, it reads the manifest again.


MOST_BYTES = 2**20
"""The most bytes of a manifest."""
NAMES = ("plain", "hashed", "withheld")
"""How users' names appear in a dataset."""


class Part(NamedTuple):
    """The part of one table."""

    file: str
    rows: int
    end_min_s: int | None
    """The first and the last end of its jobs, UTC seconds; ``None`` without rows."""
    end_max_s: int | None
    sha256: str
    bytes: int


class Manifest(NamedTuple):
    """The content of a partition."""

    partition: Partition
    schema: int
    """The schema of the accounting database that it was written from."""
    life: str
    """The incarnation of that database."""
    finished_log_seq: int
    """It includes every change of the log up to here."""
    names: str
    written_s: int
    tables: Mapping[str, Part]
    seen: Mapping[str, int]
    """
    The observations of `export` about the month, to notice changes that are not in the log; unimportant for readers.
    """
    has_digest: bool = True
    """Whether it has a digest of itself. Without one (older versions) only files and paths prove its content."""

    def to_json(self) -> bytes:
        """Return the text of the file."""
        site, year, month, ce = self.partition
        tables = {table: part._asdict() for table, part in self.tables.items()}
        whole = {
            "dataset_version": VERSION, "site": site, "ce": ce, "year": year, "month": month, "schema": self.schema,
            "life": self.life, "finished_log_seq": self.finished_log_seq, "names": self.names,
            "written_s": self.written_s, "tables": tables, "seen": dict(self.seen),
        }  # fmt: skip
        return with_digest(whole)


def with_digest(whole: Mapping[str, Any]) -> bytes:
    """A small file of the dataset: JSON, with the SHA-256 of everything else in it."""
    return f"{json.dumps({**whole, _OWN: _digest(whole)}, indent=1)}\n".encode()


def proves_itself(whole: Mapping[str, Any]) -> bool:
    """Whether a small file has a digest of itself. Raises ValueError if the digest is wrong."""
    if _OWN in whole and whole[_OWN] != _digest(whole):
        raise ValueError("its own digest (sha256) does not match its content")
    return _OWN in whole


def _digest(whole: Mapping[str, Any]) -> str:
    """As in `jq -cSj 'del(.sha256)' FILE | sha256sum`."""
    rest = {name: value for name, value in whole.items() if name != _OWN}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def parse(data: bytes, partition: Partition, path: str) -> Manifest:
    """
    The manifest of a partition, from the bytes of its file; ``path`` is for messages.

    Raises InputError for one that is damaged, of another version of the dataset, or of another partition.
    """
    try:
        whole = parsed(data, most_depth=_LEVELS)
    except ValueError as error:
        raise InputError(f"{path}: not a complete manifest, truncated or damaged ({error}); {_ANEW}") from None
    if not isinstance(whole, dict) or type(whole.get("dataset_version")) is not int:
        raise InputError(f"{path}: not a manifest of a dataset; {_ANEW}")
    if whole["dataset_version"] != VERSION:
        raise InputError(
            f"{path}: version {_shown(whole['dataset_version'])} of the dataset, this program knows version {VERSION}:"
            " use the version of arcacct that wrote it, or export into another directory"
        )
    try:
        return _made(whole, partition)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: the manifest is damaged ({type(error).__name__}: {error}); {_ANEW}") from None


_OWN = "sha256"
_ANEW = "remove the file, and the next `arcacct export` of that CE writes the month again"
_LEVELS = 8
_DIGEST = re.compile("[0-9a-f]{64}")
_MOST_ROWS = 10**11
_MOST_PART_BYTES = 10**13
_MOST_SEEN = 100
_LONGEST = 200
"""Characters of a name."""


def _made(whole: dict[str, Any], partition: Partition) -> Manifest:
    has_digest = proves_itself(whole)
    said = tuple(whole[name] for name in ("site", "year", "month", "ce"))
    if said != tuple(partition):
        raise ValueError(f"it says that it is for {', '.join(map(_shown, said))}, but is at {partition}")
    if whole["names"] not in NAMES:
        raise ValueError(f"names: {_shown(whole['names'])}")
    tables = {table: _part(whole["tables"][table], partition) for table in TABLES}
    seen = whole.get("seen", {})
    if len(seen) > _MOST_SEEN:
        raise ValueError(f"{len(seen)} counts")
    return Manifest(
        partition,
        _number(whole, "schema", 2**31),
        _text(whole, "life"),
        _number(whole, "finished_log_seq", 2**63),
        whole["names"],
        # No clock is in the year 6325.
        _number(whole, "written_s", 2**37),
        tables,
        {name[:_LONGEST]: _number(seen, name, 2**63) for name in seen},
        has_digest,
    )


def _part(told: dict[str, Any], partition: Partition) -> Part:
    begin, end = partition.bounds
    rows = _number(told, "rows", _MOST_ROWS)
    first, last = (None if told[name] is None else _number(told, name, 2**63) for name in ("end_min_s", "end_max_s"))
    part = Part(_text(told, "file"), rows, first, last, _text(told, "sha256"), _number(told, "bytes", _MOST_PART_BYTES))
    if _DIGEST.fullmatch(part.sha256) is None or part.file != part_name(part.sha256):
        raise ValueError(f"{part.file} is not the name of a part with this digest")
    if not part.bytes or not (first is None) == (last is None) == (not rows):
        raise ValueError(f"{part.file}: impossible numbers")
    if first is not None and last is not None and not begin <= first <= last < end:
        raise ValueError(f"{part.file}: jobs that ended outside of the month")
    return part


def _number(told: dict[str, Any], name: str, below: int) -> int:
    number = told[name]
    if type(number) is not int or not 0 <= number < below:
        raise ValueError(f"{_shown(name)}: {_shown(number)}")
    return number


def _text(told: dict[str, Any], name: str) -> str:
    text = told[name]
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise ValueError(f"{name}: {_shown(text)}")
    return text


def _shown(value: object) -> str:
    """A value of others, as far as a message has room for it."""
    return f"{value!s:.50}" if isinstance(value, str | int | float) else "neither a number nor a text"
