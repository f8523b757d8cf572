"""
`arcacct fleet sql`: one statement of any user over the files that manifests name, which can only read, within limits.

DuckDB keeps the limits: its database is empty and in memory, it opens the files of the dataset and no other, loads and
installs nothing, and a statement can change none of these limits (`arcacct.fleet.duckdb_engine`). A slow statement is
interrupted.
"""

from __future__ import annotations

import json
import marshal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from typing import IO, Any, NamedTuple

import duckdb

from arcacct.database.query import QueryLimits, Result, beginning, too_long, too_many
from arcacct.errors import ArcacctError, InputError, UsageError
from arcacct.export.dataset import TABLES
from arcacct.fleet.dataset import Dataset, EngineFailed, first_line
from arcacct.fleet.duckdb_engine import Duck
from arcacct.fleet.engine import damaged, judged, left_out

_AT_ONCE = 1000
_IN_MEMORY_BYTES = 2**24
"""Bytes of an answer in memory; the rest waits in a temporary file."""
_LENGTH = 8
_DOUBT_S = 10
"""To look for a damaged file when a statement failed that may be wrong itself."""
_OF_STATEMENT = (
    *(duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.DataError),
    *(duckdb.NotSupportedError, duckdb.InterruptException),
)
"""Errors that a statement causes, unless the message names a file; a file may cause any other error."""


class _Doubtful(Exception):
    """A statement failed and a file may be the reason: ``error`` is what to say if none is found in so much time."""

    def __init__(self, error: ArcacctError, within_s: float) -> None:
        super().__init__(str(error))
        self.error, self.within_s = error, within_s


def query_dataset(
    found: Dataset, sql: str, limits: QueryLimits, watched: Callable[[], AbstractContextManager[object]] = nullcontext
) -> tuple[Result, Dataset]:
    """
    Run one statement that reads; return its answer, the files that it is from, and the problems of the other files.

    The whole answer is read before any of it is returned, since the last row of a file may be damaged. ``watched``: a
    context for each run. Raises UsageError for a statement that is refused or is no SQL, InputError when it takes more
    than ``limits``.
    """
    _require_reading(sql)
    # A statement that names no table asks for the list of tables.
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
                # We write it, into a file without a name.
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
        # A thread that still runs at the end keeps its references, and DuckDB complains about them.
        timer.join()
    return _Answer(columns, kept)


def _require_few(rows: int, limits: QueryLimits) -> None:
    if rows > limits.rows:
        raise InputError(too_many(limits.rows))


def _require_reading(sql: str) -> None:
    # DuckDB before 2.0 reads the scripts of IMPORT DATABASE to find the kind of a statement: no file can be opened.
    try:
        with duckdb.connect(":memory:", config={"enable_external_access": False}) as con:
            statements = con.extract_statements(sql)
    except duckdb.Error as error:
        raise UsageError(f"{beginning(sql)}: {first_line(error)}") from None
    if len(statements) != 1:
        raise UsageError(f"{beginning(sql)}: give one statement")
    # EXPLAIN ANALYZE runs its statement, and DuckDB may write wherever it may read.
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
    """Return DuckDB's error as one line with what to do."""
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
