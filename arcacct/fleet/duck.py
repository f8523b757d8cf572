"""DuckDB over the files of a dataset: within this process, and after its views are made it opens no other file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import duckdb

from arcacct.dataset.layout import TABLES
from arcacct.exporting.store import LocalStore
from arcacct.fleet.engine import VIEWS, EngineFailed, script, typed
from arcacct.fleet.manifests import Dataset

_VALUE = re.compile(r":([a-z]\w*)")
_AT_ONCE = 1000
_TYPES = {"string": "VARCHAR", "int64": "BIGINT", "double": "DOUBLE"}
_HIVE = "hive_partitioning = true, hive_types = {'site': VARCHAR, 'year': BIGINT, 'month': VARCHAR, 'ce': VARCHAR}"
_CLOSED = (
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET temp_directory = ''",
    # It would be drawn on standard output, among the rows.
    "SET enable_progress_bar = false",
    # Footers are read to be compared with the manifests, and again by the question.
    "SET parquet_metadata_cache = true",
)


class Duck:
    """An open dataset. Raises EngineFailed for files that cannot be read."""

    def __init__(self, found: Dataset, _master: str | None = None, *, memory_mib: int | None = None) -> None:
        self.con = duckdb.connect(":memory:")
        try:
            for setting in _CLOSED:
                self.con.execute(setting)
            if memory_mib is not None:
                self.con.execute(f"SET memory_limit = '{memory_mib}MiB'")
            paths = self._reached(found)
            allowed: list[str] = []
            # Databases of several versions differ in columns; to know which, every footer is read.
            is_mixed = len({one.manifest.schema for one in found.partitions}) > 1
            how = f"{_HIVE}, union_by_name = {is_mixed}"
            for table in TABLES:
                files = [quoted(paths[file]) for file in found.files(table)]
                allowed += files
                names = typed(table, _TYPES)
                source = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in names.items()) + " WHERE false"
                if files:
                    source += f" UNION ALL BY NAME SELECT * FROM read_parquet([{', '.join(files)}], {how})"
                self.con.execute(f"CREATE VIEW {table} AS SELECT {', '.join(names)} FROM (SELECT {source})")
            self._agree({paths[file]: one.jobs.rows for file, one in found.files("jobs").items()})
            self.con.execute(f"SET allowed_paths = [{', '.join(allowed)}]")
            self.con.execute("SET enable_external_access = false")
            for view in VIEWS:
                self.con.execute(f"CREATE VIEW {view} AS {script(view)}")
            self.con.execute("SET lock_configuration = true")
        except duckdb.Error as error:
            self.con.close()
            raise EngineFailed(str(error)) from error
        except EngineFailed:
            self.con.close()
            raise

    def _reached(self, found: Dataset) -> dict[str, str]:
        """What each file is called here, by the path that it has for people: those of a URL are opened by us."""
        paths: dict[str, str] = {}
        for number, store in enumerate({id(one.store): one.store for one in found.partitions}.values()):
            of_it = [(one, table) for one in found.partitions if one.store is store for table in TABLES]
            if isinstance(store, LocalStore):
                paths |= {one.file(table): one.file(table) for one, table in of_it}
                continue
            from arcacct.fleet.remote import Remote  # noqa: PLC0415  few datasets need it

            # Two stores may have the same scheme, and other credentials.
            sizes = {}
            for one, table in of_it:
                part = one.manifest.tables[table]
                path = paths[one.file(table)] = f"dataset{number}://{one.partition.part(table, part.file)}"
                sizes[path] = part.bytes
            self.con.register_filesystem(Remote(f"dataset{number}", store, sizes))
        return paths

    def _agree(self, rows: Mapping[str, int]) -> None:
        """Raises EngineFailed where a file of jobs has not so many rows as its manifest says."""
        if rows:
            told = self.con.execute(
                f"SELECT file_name, num_rows FROM parquet_file_metadata([{', '.join(map(quoted, rows))}])"
            ).fetchall()
            if dict(told) != rows:
                raise EngineFailed("a manifest and its file disagree")

    def rows(self, sql: str, values: Mapping[str, object]) -> Iterator[tuple[Any, ...]]:
        """See `Engine`."""
        try:
            self.con.execute(_VALUE.sub(r"$\1", sql), dict(values) or None)
            while some := self.con.fetchmany(_AT_ONCE):
                yield from some
        except duckdb.Error as error:
            raise EngineFailed(str(error)) from error

    def close(self) -> None:
        """See `Engine`."""
        self.con.close()


def quoted(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"
