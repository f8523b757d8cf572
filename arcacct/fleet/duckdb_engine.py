"""
DuckDB over the files of a dataset, local or remote: within this process, under a limit of memory, and it opens no other
file.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import duckdb
from fsspec.spec import AbstractFileSystem

from arcacct.export.dataset import KEYS, TABLES, columns
from arcacct.export.storage import LocalStore, Store
from arcacct.fleet.dataset import VIEWS, Dataset, EngineFailed, first_line, script, typed

MEMORY_MIB = 1024
"""The memory of a query, unless an option sets it."""
_BESIDE_BYTES, _OF_THREAD_BYTES = 2**27, 2**23
"""Memory of the process in addition to the query, and of the stack of each of DuckDB's threads."""
_VALUE = re.compile(r":([a-z]\w*)")
_TYPES = {"string": "VARCHAR", "int64": "BIGINT", "double": "DOUBLE"}
_HIVE = "hive_partitioning = true, hive_types = {'site': VARCHAR, 'year': BIGINT, 'month': VARCHAR, 'ce': VARCHAR}"
_CLOSED = (
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET temp_directory = ''",
    # Otherwise DuckDB draws the progress bar on standard output, among the rows.
    "SET enable_progress_bar = false",
    # The view reads the first footer, and the query reads it again.
    "SET parquet_metadata_cache = true",
)


class Duck:
    """An open dataset, whose footers were compared with the schema. Raises EngineFailed for files it cannot read."""

    def __init__(
        self,
        found: Dataset,
        tables: Sequence[str] = TABLES,
        _master: str | None = None,
        *,
        memory_mib: int = MEMORY_MIB,
        threads: int | None = None,
        at_once: int = 1000,
    ) -> None:
        self._at_once = at_once
        self.con = duckdb.connect(":memory:", config={} if threads is None else {"threads": threads})
        ((running,),) = self.con.execute("SELECT current_setting('threads')").fetchall()
        self._more_bytes = memory_mib * 2**20 + _BESIDE_BYTES + running * _OF_THREAD_BYTES
        try:
            for setting in (*_CLOSED, f"SET memory_limit = '{memory_mib}MiB'"):
                self.con.execute(setting)
            paths = self._reached(found)
            allowed: list[str] = []
            for table in tables:
                allowed += [quoted(paths[file]) for file in found.files(table)]
                self.run(f"CREATE VIEW {table} AS {self._selected(found, table, paths)}")
            self.con.execute(f"SET allowed_paths = [{', '.join(allowed)}]")
            self.con.execute("SET enable_external_access = false")
            for view in VIEWS if "jobs" in tables else ():
                self.con.execute(f"CREATE VIEW {view} AS {script(view)}")
            self.con.execute("SET lock_configuration = true")
        except EngineFailed:
            self.close()
            raise
        except (duckdb.Error, MemoryError) as error:
            self.close()
            raise EngineFailed(first_line(error)) from error

    def _reached(self, found: Dataset) -> dict[str, str]:
        """Return the local path of each file, by its path for people: we open those of a URL."""
        paths: dict[str, str] = {}
        for number, store in enumerate({id(one.store): one.store for one in found.partitions}.values()):
            of_it = [(one, table) for one in found.partitions if one.store is store for table in TABLES]
            if isinstance(store, LocalStore):
                paths |= {one.file(table): one.file(table) for one, table in of_it}
                continue

            # Two stores may have the same scheme, and different credentials.
            sizes = {}
            for one, table in of_it:
                part = one.manifest.tables[table]
                path = paths[one.file(table)] = f"dataset{number}://{one.partition.part(table, part.file)}"
                sizes[path] = part.bytes
            self.con.register_filesystem(Remote(f"dataset{number}", store, sizes))
        return paths

    def _selected(self, found: Dataset, table: str, paths: Mapping[str, str]) -> str:
        """
        All rows of a table. Raises EngineFailed where DuckDB reads other types than pyarrow read in the footer.

        DuckDB takes the columns and types of several files from the first one, or joins the types of all: so it is
        given files with the same columns at a time. What files of an older version lack is NULL.
        """
        names = typed(table, _TYPES)
        parts = [f"SELECT {', '.join(f'CAST(NULL AS {kind}) AS {name}' for name, kind in names.items())} WHERE false"]
        alike: dict[frozenset[str], list[str]] = {}
        for file in found.files(table):
            alike.setdefault(frozenset(found.footers[file].names), []).append(quoted(paths[file]))
        for there, files in alike.items():
            wanted = {column.name: _TYPES[column.type] for column in columns()[table] if column.name in there}
            told = ", ".join(wanted)
            self.run(f"DESCRIBE SELECT {told} FROM read_parquet({files[0]}, {_HIVE})")
            for name, kind, *_more in self.con.fetchall():
                if kind != wanted[name]:
                    raise EngineFailed(f"{files[0]}: column {name} is {kind} for DuckDB, not {wanted[name]}")
            parts.append(f"SELECT {', '.join(KEYS)}, {told} FROM read_parquet([{', '.join(files)}], {_HIVE})")
        return f"SELECT {', '.join(names)} FROM ({' UNION ALL BY NAME '.join(parts)})"

    def rows(self, sql: str, values: Mapping[str, object]) -> Iterator[tuple[Any, ...]]:
        """See `Engine`."""
        try:
            self.run(_VALUE.sub(r"$\1", sql), values)
            while some := self.fetched(self._at_once):
                yield from some
        except (duckdb.Error, MemoryError) as error:
            raise EngineFailed(first_line(error)) from error

    def run(self, sql: str, values: Mapping[str, object] | None = None) -> None:
        """Start a statement of DuckDB. Raises duckdb.Error and MemoryError."""
        with _limited(self._more_bytes):
            self.con.execute(sql, dict(values) if values else None)

    def fetched(self, rows: int) -> list[tuple[Any, ...]]:
        """Return the next rows of the answer, at most this number. Raises duckdb.Error and MemoryError."""
        with _limited(self._more_bytes):
            return self.con.fetchmany(rows)

    def close(self) -> None:
        """See `Engine`."""
        self.con.close()


def every_value(found: Dataset, tables: Sequence[str]) -> Duck:
    """For reading tables of a partition: with little memory, since each file is read from its beginning to its end."""
    # A row may have megabytes of text.
    return Duck(found, tables, memory_mib=512, threads=1, at_once=64)


@contextmanager
def _limited(more_bytes: int) -> Iterator[None]:
    """
    Let this process take so much more memory and not beyond that: the kernel refuses, and DuckDB or Python says so.

    DuckDB counts the memory of its buffers, and not that of every text: one of 1 MB that the rows of a page have in
    common takes gigabytes.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    known = [bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([_data_bytes() + more_bytes, *known]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    """Return the memory of this process."""
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def quoted(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


# A dataset outside the local directories, as DuckDB opens its files: through the store of `export`.


class Remote(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Files below a dataset by PROTOCOL://PATH, for reading; manifests name them, so they never change."""

    cachable = False

    def __init__(self, protocol: str, store: Store, sizes: dict[str, int]) -> None:
        """``sizes``: bytes by the path that DuckDB gets."""
        super().__init__()
        self.protocol = protocol
        self._store, self._sizes = store, sizes

    def open(self, path: str, mode: str = "rb", **_options: object) -> Any:
        """A file of pyarrow."""
        if mode != "rb":
            raise PermissionError(f"{path}: only to be read")
        return self._store.open(path.partition("://")[2])

    def exists(self, path: str, **_options: object) -> bool:
        """Whether it is one of these."""
        return path in self._sizes

    def size(self, path: str) -> int:
        """Bytes."""
        return self._sizes[path]

    def modified(self, path: str) -> datetime:  # noqa: ARG002  its name has its digest
        """A fixed time: they never change."""
        return datetime.fromtimestamp(0, UTC)

    def glob(self, path: str, **_options: object) -> list[str]:
        """The file itself; other files there are hidden."""
        return [path] if path in self._sizes else []

    def unstrip_protocol(self, name: str) -> str:
        """Return the path unchanged: nothing was stripped."""
        return name
