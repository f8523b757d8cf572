"""
`arcacct fleet sql`: one statement of anybody over the files that manifests name, which can only read, and only so much.

DuckDB keeps the limits: its database is empty and in memory, it opens the files of the dataset and no other, loads and
installs nothing, and none of that can be changed by then (`arcacct.fleet.duck`). What takes too long is interrupted.
Its limit of memory leaves texts out, so the operating system keeps one as well.
"""

from __future__ import annotations

import json
import resource
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

import duckdb

from arcacct.db.adhoc import QueryLimits, Result, beginning, too_long, too_many
from arcacct.errors import InputError, UsageError
from arcacct.fleet.duck import Duck
from arcacct.fleet.engine import EngineFailed, left_out
from arcacct.fleet.manifests import Dataset

_AT_ONCE = 1000
_MIB = 2**20
_SLACK_MIB = 128
"""What the process may take beside the query: stacks of threads, code that is loaded late."""
_OF_STATEMENT = (
    *(duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError),
    *(duckdb.InterruptException, duckdb.OutOfMemoryException, duckdb.PermissionException),
)
"""What a statement can be to blame for; all else is a file's fault."""


@contextmanager
def asked(found: Dataset, sql: str, limits: QueryLimits) -> Iterator[tuple[Result, Sequence[str]]]:
    """
    Run one statement that reads; its answer, and what is wrong with the files that it does not have.

    Raises UsageError for one that is refused or is no SQL, InputError when it takes more than ``limits``; also while
    the rows come.
    """
    _require_reading(sql)
    while True:
        try:
            with _begun(found, sql, limits) as result:
                yield result, found.problems
        except EngineFailed as error:
            found = left_out("duckdb", found, error)
        else:
            return


@contextmanager
def _begun(found: Dataset, sql: str, limits: QueryLimits) -> Iterator[Result]:
    """The answer as it comes. Raises EngineFailed when a file can be to blame and there is no row yet."""
    engine = Duck(found, memory_mib=limits.memory_mib)
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        with suppress(duckdb.Error):
            engine.con.interrupt()

    timer = threading.Timer(limits.seconds, end)
    timer.daemon = True
    timer.start()
    try:
        with closing(engine), _explaining(sql, limits, is_over), _memory_of(limits.memory_mib + _SLACK_MIB):
            try:
                engine.con.execute(sql)
            except duckdb.Error as error:
                if is_over.is_set() or isinstance(error, _OF_STATEMENT):
                    raise
                raise EngineFailed(_first(error)) from error
            columns = tuple(column[0] for column in engine.con.description or ())
            yield Result(columns, _counted(engine.con, limits))
    finally:
        timer.cancel()
        # A thread that is left at the end keeps what it knows, and DuckDB complains of that.
        timer.join()


@contextmanager
def _memory_of(more_mib: int) -> Iterator[None]:
    """Let this process allocate so much more and no byte beyond: what DuckDB or Python then raises is named."""
    with open("/proc/self/statm", encoding="ascii") as file:
        data_bytes = int(file.read().split()[5]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = data_bytes + more_mib * _MIB
    resource.setrlimit(resource.RLIMIT_DATA, (min({wanted, soft, hard} - {resource.RLIM_INFINITY}), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _require_reading(sql: str) -> None:
    # DuckDB before 2.0 reads the scripts of IMPORT DATABASE to say what kind of statement it is: no file can be opened.
    try:
        with duckdb.connect(":memory:", config={"enable_external_access": False}) as con:
            statements = con.extract_statements(sql)
    except duckdb.Error as error:
        raise UsageError(f"{beginning(sql)}: {_first(error)}") from None
    if len(statements) != 1:
        raise UsageError(f"{beginning(sql)}: give one statement")
    # EXPLAIN ANALYZE runs what it explains, and DuckDB may write what it may read.
    if statements[0].type != duckdb.StatementType.SELECT:
        raise UsageError(f"{beginning(sql)}: queries can only read")


def _counted(con: duckdb.DuckDBPyConnection, limits: QueryLimits) -> Iterator[tuple[Any, ...]]:
    seen = 0
    while some := con.fetchmany(_AT_ONCE):
        for row in some:
            seen += 1
            if seen > limits.rows:
                raise InputError(too_many(limits.rows))
            yield tuple(map(_plain, row))


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
    except (MemoryError, duckdb.OutOfMemoryException):
        raise InputError(
            f"the query needs more than {limits.memory_mib} MiB: make it smaller, or raise --max-memory"
        ) from None
    except duckdb.PermissionException as error:
        raise UsageError(
            f"{beginning(sql)}: queries read the tables of the dataset, and no other file: {_first(error)}"
        ) from None
    except duckdb.Error as error:
        if is_over.is_set():
            raise InputError(too_long(limits.seconds)) from None
        if isinstance(error, _OF_STATEMENT):
            raise UsageError(f"{beginning(sql)}: {_first(error)}") from None
        raise InputError(
            f"a file of the dataset cannot be read: {_first(error)}; `arcacct fleet verify --deep` names all of these"
        ) from None


def _first(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
