"""
Reading a foreign database: its tables are read, and nothing else of it is run.

A file can have a view with an endless query in place of a table, computed columns, modules of SQLite behind its tables,
or one value of a gigabyte. A-REX's databases have none of these, so refusing them harms no user.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from sqlite3 import Connection, connect

from arcacct.errors import InputError

LONGEST_S = 300.0
"""The longest time of one query: a normal one of a million jobs takes seconds."""
LARGEST_VALUE_BYTES = 2**20
"""The limit of a line of a control file; SQLite refuses longer values, also while it computes."""
_MEMORY_BYTES = 512 * 2**20
STEPS = 100_000
"""Virtual machine instructions between two checks of the clock: some milliseconds."""
_NAMES = frozenset({"ID", "Name"})
_TABLES = {
    "AAR": frozenset(
        {
            *("RecordID", "JobID", "LocalJobID", "EndpointID", "QueueID", "UserID", "VOID", "StatusID", "ExitCode"),
            *("SubmitTime", "EndTime", "NodeCount", "CPUCount", "UsedMemory", "UsedVirtMem", "UsedWalltime"),
            *("UsedCPUUserTime", "UsedCPUKernelTime", "UsedScratch", "StageInVolume", "StageOutVolume"),
        }
    ),
    "DBConfig": frozenset({"KeyName", "KeyValue"}),
    "Endpoints": frozenset({"ID", "Interface", "URL"}),
    "Queues": _NAMES,
    "Users": _NAMES,
    "WLCGVOs": _NAMES,
    "Status": _NAMES,
    "AuthTokenAttributes": frozenset({"RecordID", "AttrKey", "AttrValue"}),
    "RunTimeEnvironments": frozenset({"RecordID", "RTEName"}),
    "DataTransfers": frozenset({"RecordID", "URL", "FileSize", "TransferStart", "TransferEnd", "TransferType"}),
    "JobExtraInfo": frozenset({"RecordID", "InfoKey", "InfoValue"}),
    "JobEvents": frozenset({"RecordID", "EventKey", "EventTime"}),
}
"""The tables of A-REX that are read, with the columns that are."""
_TABLES_OF_VERSION_2 = {"FQANs": _NAMES, "Benchmarks": _NAMES}
_NUMBERED = {"AAR": "RecordID", "Users": "ID", "Queues": "ID", "Endpoints": "ID", "WLCGVOs": "ID", "Status": "ID"}
"""Columns that are whole numbers, whatever a row says: they become part of statements."""


class Foreign(Connection):
    """A foreign database, open for reading, with limits of time, memory and size of values."""

    views: frozenset[str] = frozenset()
    """Names of its views, in lower case: they are not read."""
    _deadline = 0.0

    def more_time(self, seconds: float = LONGEST_S) -> None:
        """Start the time of a new query; SQLite reports "interrupted" for one that takes longer."""
        self._deadline = time.monotonic() + seconds

    def watch(self, alive: Callable[[], bool] = lambda: True) -> None:
        """Stop a query that runs too long, or as soon as ``alive`` returns False."""
        self.set_progress_handler(lambda: 0 if time.monotonic() < self._deadline and alive() else 1, STEPS)

    def allows(self, action: int, one: str | None, via: str | None) -> bool:
        """Whether an action of a statement (as in an authorizer) does not come through a view."""
        named = action in (sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT)
        return not (named and {str(one).lower(), str(via).lower()} & self.views)


def open_foreign(uri: str) -> Foreign:
    """Open a foreign file, by SQLite's URI. Raises DatabaseError."""
    con: Foreign = connect(uri, timeout=30.0, isolation_level=None, uri=True, factory=Foreign)
    try:
        con.more_time()
        con.watch()
        con.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE_BYTES)
        con.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        # No column is read by these. A program that is built without one of them ignores it.
        for setting in ("query_only = 1", "trusted_schema = 0", "cell_size_check = 1", "mmap_size = 0"):
            con.execute(f"PRAGMA {setting}")
        con.execute("PRAGMA ignore_check_constraints = 1")
        # This applies to the whole process; it can only be lowered.
        con.execute(f"PRAGMA hard_heap_limit = {_MEMORY_BYTES}")
    except BaseException:
        con.close()
        raise
    return con


def require_tables(con: Foreign, path: str) -> int:
    """
    Check that an open database has A-REX's tables, and that they are plain ones; return 1 (ARC 6) or 2 (ARC 7).

    Call this before any other read. Raises InputError, DatabaseError.
    """
    tables: dict[str, str] = {}
    views = set()
    for kind, name, root, sql in con.execute("SELECT type, name, rootpage, sql FROM sqlite_master"):
        if kind == "view":
            views.add(str(name).lower())
        elif kind == "table" and not root:
            raise InputError(f"{path}: {name!a} is a virtual table; A-REX has none; give the file that A-REX writes")
        elif kind == "table":
            tables[str(name)] = str(sql).upper()
    con.views = frozenset(views)
    columns = _plain_columns(con, path, "AAR", tables)
    if not columns >= {"RecordID", "JobID", "StatusID", "EndTime"}:
        raise InputError(f"{path}: not the accounting database of an A-REX (it has no table AAR)")
    version = 2 if "FQANID" in columns else 1
    for table, wanted in (_TABLES | (_TABLES_OF_VERSION_2 if version == 2 else {})).items():
        lacking = wanted - _plain_columns(con, path, table, tables)
        if lacking:
            what = f"no table {table}" if table not in tables else f"{table} has no column {min(lacking)}"
            raise InputError(f"{path}: not the accounting database of an A-REX ({what})")
    return version


def _plain_columns(con: Foreign, path: str, table: str, tables: dict[str, str]) -> set[str]:
    """The columns of a table; none where there is no such table. Raises InputError for one that is not plain."""
    if table.lower() in con.views:
        raise InputError(f"{path}: {table} is a view, but A-REX writes a table: views of other programs are not run")
    if table not in tables:
        return set()
    columns = set()
    odd = "it is WITHOUT ROWID" if "ROWID" in tables[table].rpartition(")")[2] else ""
    for _place, name, kind, _not_null, _default, key, hidden in con.execute(f"PRAGMA table_xinfo({table})"):
        if hidden:
            raise InputError(f"{path}: {table}.{name!a} is a computed column: foreign expressions are not run")
        if str(name).lower() in {"rowid", "_rowid_", "oid"}:
            odd = f"its column {name!a} hides SQLite's own"
        if name == _NUMBERED.get(table) and (str(kind).upper() != "INTEGER" or key != 1):
            odd = f"{name} is not its INTEGER PRIMARY KEY"
        columns.add(str(name))
    if odd:
        raise InputError(f"{path}: not the accounting database of an A-REX (table {table}: {odd})")
    return columns
