"""DuckDB over the files of a dataset, local or remote, under a limit of memory; SQL of users, which can only read."""

from __future__ import annotations

import json
import marshal
import re
import resource
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from typing import IO, Any, NamedTuple

import duckdb
from fsspec.spec import AbstractFileSystem

from arcacct.database.query import QueryLimits, Result, beginning, too_long, too_many
from arcacct.errors import ArcacctError, InputError, UsageError
from arcacct.export.dataset import KEYS, TABLES, columns
from arcacct.export.storage import LocalStore, Store
from arcacct.fleet.dataset import Dataset, first_line
from arcacct.fleet.engine import VIEWS, EngineFailed, damaged, judged, left_out, script, typed

# DuckDB over the files of a dataset: within this process, under a limit of memory, and it opens no other file.


MEMORY_MIB = 1024
"""What a question may take, unless it says otherwise."""
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
    # It would be drawn on standard output, among the rows.
    "SET enable_progress_bar = false",
    # The first footer is read by the view, and again by the question.
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
        """What each file is called here, by the path that it has for people: those of a URL are opened by us."""
        paths: dict[str, str] = {}
        for number, store in enumerate({id(one.store): one.store for one in found.partitions}.values()):
            of_it = [(one, table) for one in found.partitions if one.store is store for table in TABLES]
            if isinstance(store, LocalStore):
                paths |= {one.file(table): one.file(table) for one, table in of_it}
                continue

            # Two stores may have the same scheme, and other credentials.
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
        """The next rows of the answer, so many at most. Raises duckdb.Error and MemoryError."""
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
    """What this process has of its own."""
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def quoted(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


# A dataset that is no local directory, as DuckDB opens its files: through the store that `export` writes to.


class Remote(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Files below a dataset by PROTOCOL://PATH, to be read; of those that manifests name, so they never change."""

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
        """Once and for all."""
        return datetime.fromtimestamp(0, UTC)

    def glob(self, path: str, **_options: object) -> list[str]:
        """The file itself; other files there are hidden."""
        return [path] if path in self._sizes else []

    def unstrip_protocol(self, name: str) -> str:
        """As it is: nothing was stripped."""
        return name


# `arcacct fleet sql`: one statement of anybody over the files that manifests name, which can only read, and only so
# much.
#
# DuckDB keeps the limits: its database is empty and in memory, it opens the files of the dataset and no other, loads
# and installs nothing, and none of that can be changed by then (`arcacct.fleet.duckdb_engine`). What takes too long is
# interrupted.


_AT_ONCE = 1000
_IN_MEMORY_BYTES = 2**24
"""Of an answer; the rest waits in a temporary file."""
_LENGTH = 8
_DOUBT_S = 10
"""To look for a damaged file when a statement failed that may be wrong itself."""
_OF_STATEMENT = (
    *(duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.DataError),
    *(duckdb.NotSupportedError, duckdb.InterruptException),
)
"""What a statement is to blame for, unless the message names a file; of what else is wrong a file may be the reason."""


class _Doubtful(Exception):
    """A statement failed and a file may be the reason: ``error`` is what to say if none is found in so much time."""

    def __init__(self, error: ArcacctError, within_s: float) -> None:
        super().__init__(str(error))
        self.error, self.within_s = error, within_s


def query_dataset(
    found: Dataset,
    sql: str,
    limits: QueryLimits,
    watched: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> tuple[Result, Dataset]:
    """
    Run one statement that reads; its answer, and what it is of, with what is wrong with the other files.

    The whole answer is read before any of it is given, since a file may turn out to be damaged at its last row.
    ``watched``: what each run is to be within. Raises UsageError for a statement that is refused or is no SQL,
    InputError when it takes more than ``limits``.
    """
    _require_reading(sql)
    # A statement that names no table asks which tables there are.
    tables = [table for table in TABLES if table in sql.lower()] or TABLES

    def ask(some: Dataset) -> _Answer:
        with watched():
            return _run(some, tables, sql, limits)

    def try_alone(some: Dataset) -> None:
        try:
            ask(some).kept.close()
        except _Doubtful as doubt:
            raise EngineFailed(str(doubt)) from doubt

    while True:
        found = judged(found, tables)
        try:
            answer = ask(found)
            return Result(answer.columns, answer.rows()), found
        except EngineFailed as error:
            found = left_out("duckdb", found, error, try_alone)
        except _Doubtful as doubt:
            bad = damaged(found, within_s=doubt.within_s)
            if not bad:
                raise doubt.error from None
            found = found.without(bad)


class _Answer(NamedTuple):
    columns: tuple[str, ...]
    kept: IO[bytes]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        with self.kept:
            self.kept.seek(0)
            while length := self.kept.read(_LENGTH):
                # Written by us, into a file without a name.
                yield from marshal.loads(self.kept.read(int.from_bytes(length, "big")))  # noqa: S302


def _run(found: Dataset, tables: Sequence[str], sql: str, limits: QueryLimits) -> _Answer:
    """The answer. Raises EngineFailed when a file is to blame, _Doubtful when one may be."""
    engine = Duck(found, tables, memory_mib=limits.memory_mib)
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        with suppress(duckdb.Error):
            engine.con.interrupt()

    timer = threading.Timer(limits.seconds, end)
    timer.daemon = True
    timer.start()
    kept: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115  closed with the last row
    try:
        with closing(engine), _explaining(sql, limits, is_over):
            engine.run(sql)
            columns = tuple(column[0] for column in engine.con.description or ())
            seen = 0
            while some := engine.fetched(_AT_ONCE):
                seen += len(some)
                _require_few(seen, limits)
                data = marshal.dumps([tuple(map(_plain, row)) for row in some])
                kept.write(len(data).to_bytes(_LENGTH, "big") + data)
    except BaseException:
        kept.close()
        raise
    finally:
        timer.cancel()
        # A thread that is left at the end keeps what it knows, and DuckDB complains of that.
        timer.join()
    return _Answer(columns, kept)


def _require_few(rows: int, limits: QueryLimits) -> None:
    if rows > limits.rows:
        raise InputError(too_many(limits.rows))


def _require_reading(sql: str) -> None:
    # DuckDB before 2.0 reads the scripts of IMPORT DATABASE to say what kind of statement it is: no file can be opened.
    try:
        with duckdb.connect(":memory:", config={"enable_external_access": False}) as con:
            statements = con.extract_statements(sql)
    except duckdb.Error as error:
        raise UsageError(f"{beginning(sql)}: {first_line(error)}") from None
    if len(statements) != 1:
        raise UsageError(f"{beginning(sql)}: give one statement")
    # EXPLAIN ANALYZE runs what it explains, and DuckDB may write what it may read.
    if statements[0].type != duckdb.StatementType.SELECT:
        raise UsageError(f"{beginning(sql)}: queries can only read")


def _plain(value: Any) -> Any:
    """A value as it can be printed: the other types of DuckDB as text."""
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, default=str, ensure_ascii=False)
    return str(value)


@contextmanager
def _explaining(sql: str, limits: QueryLimits, is_over: threading.Event) -> Iterator[None]:
    """What DuckDB says, as one line that says what to do."""
    try:
        yield
    except (duckdb.OutOfMemoryException, MemoryError):
        refused = f"the query needs more than {limits.memory_mib} MiB: make it smaller, or raise --max-memory"
        raise _Doubtful(InputError(refused), limits.seconds) from None
    except duckdb.PermissionException as error:
        raise UsageError(
            f"{beginning(sql)}: queries read the tables of the dataset, and no other file: {first_line(error)}"
        ) from None
    except duckdb.Error as error:
        if is_over.is_set():
            raise _Doubtful(InputError(too_long(limits.seconds)), limits.seconds) from None
        if ".parquet" in str(error) or "Parquet file" in str(error):
            raise EngineFailed(first_line(error)) from error
        wrong = UsageError(f"{beginning(sql)}: {first_line(error)}")
        if isinstance(error, _OF_STATEMENT):
            raise wrong from None
        raise _Doubtful(wrong, _DOUBT_S) from None
