"""
`arcacct query`: one statement of any user, which can only read, within limits.

SQLite itself keeps the limits: the file is opened read-only, an authorizer allows reading alone, a progress handler
stops slow statements, and the heap has a hard limit, temporary tables included. SQLite gets half of the memory of a
query; a row may take a sixteenth, since it exists several times while it is printed.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from sqlite3 import Connection
from typing import Any, NamedTuple

from arcacct.database.foreign import STEPS, Foreign
from arcacct.database.schema import ACCOUNTING, PUBLISHING, has_view, source_of
from arcacct.errors import InputError, StoreBusy, UsageError
from arcacct.wording import count_of

MIB = 2**20
_LARGEST_VALUE = 16 * MIB
_ROW_SHARE = 16
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_PRAGMAS = {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list"}
"""They report on the schema; their argument is the name of a table."""
_REFUSED_FUNCTIONS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}


class QueryLimits(NamedTuple):
    """The limits of a query."""

    seconds: float
    rows: int
    memory_mib: int


class Result(NamedTuple):
    """A running query: its columns, and its rows as they arrive."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


class _Refusals(list[str]):
    """The actions that the authorizer refused: SQLite reports only that it did."""

    def __init__(self, con: Connection) -> None:
        super().__init__()
        self._foreign = con if isinstance(con, Foreign) else None

    def __call__(self, action: int, one: str | None, two: str | None, _database: str | None, via: str | None) -> int:
        function = action == sqlite3.SQLITE_FUNCTION and str(two).lower() not in _REFUSED_FUNCTIONS
        pragma = action == sqlite3.SQLITE_PRAGMA and str(one).lower() in _PRAGMAS
        if self._foreign is not None and not self._foreign.allows(action, one, via):
            self.append(f"the view {via or one} of another program's database")
        elif action in _ALLOWED or function or pragma:
            return sqlite3.SQLITE_OK
        else:
            self.append(str(two if action == sqlite3.SQLITE_FUNCTION else one))
        return sqlite3.SQLITE_DENY


def sqlite_utils_package() -> Any:
    """
    The package sqlite_utils, imported without pandas and numpy.

    It would load both if they are installed (0.6 s and 86 MiB), to convert DataFrames; arcacct has none.
    """
    absent = [] if "sqlite_utils" in sys.modules else [name for name in ("numpy", "pandas") if name not in sys.modules]
    # None in sys.modules makes an import of this name fail with ModuleNotFoundError.
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        import sqlite_utils  # noqa: PLC0415
    finally:
        for name in absent:
            del sys.modules[name]
    return sqlite_utils


@contextmanager
def watched(con: Connection, alive: Callable[[], bool]) -> Iterator[None]:
    """
    While a statement runs, ``alive`` is called every few milliseconds; it stops the statement by returning False.

    SQLite then reports "interrupted", as for a foreign database that takes too long.
    """
    if isinstance(con, Foreign):
        con.watch(alive)
    else:
        con.set_progress_handler(lambda: 0 if alive() else 1, STEPS)
    try:
        yield
    finally:
        if isinstance(con, Foreign):
            con.watch()
        else:
            con.set_progress_handler(None, 0)


@contextmanager
def query_result(con: Connection, sql: str, limits: QueryLimits) -> Iterator[Result]:
    """
    Run one statement that reads.

    Raises UsageError for a refused or invalid one, InputError if it exceeds ``limits``, StoreBusy if the database is
    locked; also while the rows arrive. The connection cannot be used for anything else afterwards.
    """
    row = _Row(limits)
    con.execute("PRAGMA query_only = 1")
    # Sorting and temporary tables then count as memory, instead of filling a disk.
    con.execute("PRAGMA temp_store = MEMORY")
    con.execute(f"PRAGMA hard_heap_limit = {limits.memory_mib * MIB // 2}")
    con.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
    con.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    con.text_factory = row.text
    # SQLite declares these tables at their first use. The authorizer would see this as CREATE TABLE.
    for table in ("json_each('[]')", "json_tree('[]')", "pragma_table_info('AAR')", "pragma_index_list('AAR')"):
        con.execute(f"SELECT 1 FROM {table}").fetchall()
    # Queries of a dataset do not need it.
    dedupe_keys = sqlite_utils_package().utils.dedupe_keys

    refusals = _Refusals(con)
    con.set_authorizer(refusals)
    began = time.monotonic()
    if isinstance(con, Foreign):
        con.more_time(limits.seconds)
    with watched(con, lambda: time.monotonic() - began < limits.seconds), _explaining(sql, limits, refusals):
        cursor = con.execute(sql)
        if cursor.description is None:
            raise UsageError(f"{beginning(sql)}: this statement does not return rows")
        columns = tuple(dedupe_keys(column[0] for column in cursor.description))
        yield Result(columns, _counted(cursor, limits, row))


def too_long(seconds: float) -> str:
    """The message for a query that was stopped."""
    return f"the query ran for {seconds:g} s: make it smaller, or raise --timeout"


def too_many(rows: int) -> str:
    """Return the message for a query with more rows than allowed."""
    return f"the query has more than {count_of(rows, 'row')}: add a LIMIT, or raise --max-rows"


class _Row:
    """The memory of the present row, including texts that are still being read."""

    def __init__(self, limits: QueryLimits) -> None:
        self._limits = limits
        self.begin()

    def begin(self) -> None:
        """The next row."""
        self._room_bytes = self._limits.memory_mib * MIB // _ROW_SHARE

    def take(self, size_bytes: int) -> None:
        """Add a value. Raises MemoryError for one that is too large."""
        self._room_bytes -= size_bytes
        if self._room_bytes < 0:
            raise MemoryError

    def text(self, content: bytes) -> str:
        """Return the readable part of a text."""
        self.take(len(content))
        return content.decode("utf-8", "replace")


def _counted(cursor: sqlite3.Cursor, limits: QueryLimits, row: _Row) -> Iterator[tuple[Any, ...]]:
    for number, values in enumerate(cursor):
        if number == limits.rows:
            raise InputError(too_many(limits.rows))
        row.take(sum(len(value) for value in values if isinstance(value, bytes)))
        yield values
        row.begin()


@contextmanager
def _explaining(sql: str, limits: QueryLimits, refusals: Sequence[str]) -> Iterator[None]:
    """Return SQLite's error as one line with what to do."""
    try:
        yield
    except (MemoryError, sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
        text = str(error)
        if "interrupted" in text:
            raise InputError(too_long(limits.seconds)) from None
        if isinstance(error, MemoryError) or "out of memory" in text:
            row_mib = limits.memory_mib // _ROW_SHARE
            raise InputError(
                f"the query needs more than {limits.memory_mib} MiB, or a row of it more than {row_mib}: make it"
                " smaller, or raise --max-memory"
            ) from None
        if "too big" in text:
            raise InputError(f"the query makes a value of more than {_LARGEST_VALUE // MIB} MiB") from None
        if "locked" in text:
            raise StoreBusy(f"the database is locked: {text}; try again later") from None
        if refusals:
            raise UsageError(f"{beginning(sql)}: queries can only read; {refusals[-1]} is refused") from None
        raise UsageError(f"{beginning(sql)}: {text}{_where_to_look(text)}") from None


def beginning(sql: str) -> str:
    """Return the name of a statement for a message."""
    line = " ".join(sql.split())
    return repr(line if len(line) <= 40 else f"{line[:40]}...")


def _where_to_look(text: str) -> str:
    """Return the place of a table or column that SQLite does not find, as the end of its message."""
    _, _, missing = text.partition("no such table: ")
    name = missing.removeprefix("main.")
    if source := source_of(name):
        # PBS, LSF and installed sources share one view.
        names = ("pbs", "lsf") if source == "batch" else (source,)
        return f"; the first {' or '.join(f'`arcacct import {name}`' for name in names)} creates it"
    if missing and has_view(PUBLISHING, name):
        return "; it is in publishing.db: use `arcacct query --ledger`"
    if missing and has_view(ACCOUNTING, name):
        return "; it is in accounting.db of arcacct: omit --ledger, or --database with a database of A-REX"
    if missing or "no such column" in text:
        return "; `arcacct help views` lists the views and their columns"
    return ""
