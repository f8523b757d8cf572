"""
Opening our databases for commands: created or upgraded if needed, with exactly our schema. Also temporary databases,
and the search for a damaged one.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import partial
from sqlite3 import Connection, DatabaseError, connect

from arcacct.config.paths import Places
from arcacct.database import connection, location, schema
from arcacct.database.connection import ACCOUNTING_SCHEMA, PUBLISHING_SCHEMA, open_database, translated
from arcacct.database.durable import locked, refuse_foreign, refuse_maintenance
from arcacct.database.schema import ACCOUNTING, PUBLISHING, DatabaseKind, ensure, in_memory, source_of, sources_of
from arcacct.errors import SchemaError, StoreError

# Whether a file has exactly the schema of one of our databases.  A foreign trigger in a backup would run as root at
# each state change of a job, and a foreign view at each query. Only the list of the schema is read here: none of it is
# run.


_SQLITES_OWN = {
    "sqlite_sequence": "CREATE TABLE sqlite_sequence(name,seq)",
    "sqlite_stat1": "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
    "sqlite_stat4": "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
}


def require_own_schema(con: Connection, path: str, kind: DatabaseKind, *, exactly: bool) -> int:
    """
    Check that an open database has everything that our scripts create, unchanged; return its version.

    ``exactly``: and nothing else except tables. Raises SchemaError, DatabaseError.
    """
    found = _described(con)
    with closing(in_memory(kind)) as newest:
        # It is the same in every version, and must be read to know the version.
        _compare(path, "DBConfig", found, _described(newest))
    number = connection.version(con, path)
    schema.require_known(con, path, kind, number)
    present = sources_of(con)
    with closing(in_memory(kind, number)) as fresh:
        if number == kind.schema:
            schema.create_views(fresh, *present)
        wanted = _described(fresh)
    for name in wanted:
        # The text of an older schema has the views of all sources. A database has them from its first import on.
        if source_of(name) in (None, *present):
            _compare(path, name, found, wanted)
    for name, text in found.items():
        if exactly and name not in wanted and not text.startswith("CREATE TABLE ") and _SQLITES_OWN.get(name) != text:
            what = " ".join(text.split()[1:3])
            raise SchemaError(
                f"{path}: it has {what!a}, which arcacct did not create; if you know it, remove it from a copy of the"
                " file with `sqlite3` (DROP ...); otherwise use another backup"
            )
    return number


def _compare(path: str, name: str, found: dict[str, str], wanted: dict[str, str]) -> None:
    if name not in found:
        raise SchemaError(
            f"{path}: not a database of arcacct, or not a complete one: {name} is missing; use another backup"
        )
    if found[name] != wanted[name]:
        raise SchemaError(f"{path}: {name} differs from arcacct's schema; use another backup")


def _described(con: Connection) -> dict[str, str]:
    """The text by which each thing was made, by name."""
    rows = con.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {str(name): " ".join(str(sql).split()) for name, sql in rows if _SQLITES_OWN.get(name) != sql}


# Opening our databases for the commands: created or upgraded if needed, then read and written.


READABLE = partial(str, encoding="utf-8", errors="replace")
"""How to read a database's texts: one name that is not UTF-8 must not hide the others."""


def initialise(here: Places) -> dict[str, list[int]]:
    """
    Create both databases, or upgrade them; return the numbers of the scripts that ran, by path.

    Also applies ``read_group`` to existing databases. Raises as `open_accounting`.
    """
    is_there = refuse_unasked(here)
    done = {}
    for path, kind in ((here.database, ACCOUNTING), (here.publishing_database, PUBLISHING)):
        done[path] = ensure(path, kind, read_group=here.read_group, may_create=kind is PUBLISHING or not is_there)
        schema.open_to_group(path, here.read_group)
    with closing(open_database(here.database, ACCOUNTING_SCHEMA)) as con:
        location.settle(here, con)
    return done


def refuse_unasked(here: Places) -> bool:
    """
    Refuse a database of another control directory, one under maintenance, and the creation of a second one.

    Returns whether the database exists. Raises ConfigError with the solutions, StoreBusy, StoreError.
    """
    location.refuse_no_file(here.database, here.publishing_database)
    # In this order: the maintenance file of an interrupted move keeps the recorder away from the old place, and stays.
    location.refuse_another(here)
    refuse_maintenance(here.database)
    return location.refuse_lost(here)


def open_accounting(here: Places) -> Connection:
    """
    Open the accounting database for writing; create it if it is missing and nothing shows that there was one.

    Notes its place if no note exists. Raises ConfigError if it would be a second one for the control directory,
    StoreError and its kinds.
    """
    is_there = refuse_unasked(here)
    con = None
    if is_there:
        # To check whether it needs an upgrade, a process would open and close it. The last process to close it writes
        # the WAL back, and the recorder waits for the disk.
        refuse_foreign(here.database)
        with suppress(SchemaError):
            con = open_database(here.database, ACCOUNTING_SCHEMA)
    if con is None:
        # Another process may be moving the present database away: do not create an empty one in its place.
        ensure(here.database, ACCOUNTING, read_group=here.read_group, may_create=not is_there)
        con = open_database(here.database, ACCOUNTING_SCHEMA)
    try:
        location.settle(here, con)
    except BaseException:
        con.close()
        raise
    return _for_records(con)


def _for_records(con: Connection) -> Connection:
    # Statement journals of inserts with triggers: in memory they cost half (18 us a record against 42).
    con.execute("PRAGMA temp_store = MEMORY")
    # SQLite's default of 2 MB is less than the index pages that a sweep reads repeatedly.
    con.execute("PRAGMA cache_size = -16000")
    return con


def open_as_it_is(here: Places) -> Connection:
    """
    Open the accounting database for a rehearsal, without creating or upgrading it; an empty one in memory if it is
    missing.

    Raises StoreError and its kinds, SchemaError for a database of another version, ConfigError if the command itself
    would refuse to create one.
    """
    location.refuse_no_file(here.database)
    location.refuse_another(here)
    if location.refuse_lost(here):
        return open_database(here.database, ACCOUNTING_SCHEMA)
    return in_memory(ACCOUNTING)


def open_publishing(here: Places) -> Connection:
    """Open the publishing database for writing; create it if it is missing. Raises as `open_accounting`."""
    refuse_unasked(here)
    ensure(here.publishing_database, PUBLISHING, read_group=here.read_group)
    return _for_the_ledger(open_database(here.publishing_database, PUBLISHING_SCHEMA))


def _for_the_ledger(con: Connection) -> Connection:
    # A power cut must never lose what was sent.
    con.execute("PRAGMA synchronous = FULL")
    # A run is the only writer for its whole time: without SQLite's own checkpoints a million records make gigabytes of
    # WAL.
    con.execute("PRAGMA wal_autocheckpoint = 1000")
    # 8 MB, not 2: jobs are looked up by the ends of their JobIDs, which are scattered over the index, and the same ones
    # twice within a moment.
    con.execute("PRAGMA cache_size = -8000")
    return con


def open_again(here: Places) -> tuple[Connection, Connection]:
    """
    The accounting and the publishing database, for one more thread of a process that has both open.

    Only SQLite touches the files, so there is no check before: closing any other descriptor of a database drops the
    locks of all connections that this process has to it, and another process that closes it then removes their WAL
    (INVARIANTS 7; seen: a damaged ledger). Raises StoreError and its kinds.
    """
    con = _for_records(open_database(here.database, ACCOUNTING_SCHEMA))
    try:
        return con, _for_the_ledger(open_database(here.publishing_database, PUBLISHING_SCHEMA))
    except BaseException:
        con.close()
        raise


@contextmanager
def one_moment(con: Connection) -> Iterator[None]:
    """All reads inside see the state of one moment; keep it short, and without other transactions inside."""
    con.execute("BEGIN")
    try:
        yield
    finally:
        con.execute("COMMIT")


def shrink_page_cache(con: Connection) -> None:
    """From now on nothing is read twice, so keep no memory for pages."""
    con.execute("PRAGMA cache_size = -2000")


def leave_open(con: Connection, path: str) -> None:
    """
    End the use of a database without closing it, for a process that is about to end.

    The last connection that closes removes -wal and -shm, and without them users who may only read the database cannot
    open it (INVARIANTS 7). Python closes every connection that it can still find, also at exit, so this one is hidden
    from it.
    """
    connection.shrink(con, path)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(con))


@contextmanager
def accounting(here: Places) -> Iterator[Connection]:
    """Open the accounting database for a command that writes and then ends: `open_accounting`, then `leave_open`."""
    con = open_accounting(here)
    try:
        yield con
    finally:
        leave_open(con, here.database)


@contextmanager
def close_or_leave_open(con: Connection, path: str, here: Places) -> Iterator[Connection]:
    """Close a connection at the end, or leave it open if other users may read the database (``read_group``)."""
    try:
        yield con
    finally:
        if here.read_group is None:
            # The last process to close writes the WAL back while the recorder waits: so leave nothing to write.
            write_back(con)
            con.close()
        else:
            leave_open(con, path)


@contextmanager
def translating(path: str) -> Iterator[None]:
    """Turn SQLite's errors inside into StoreBusy or StoreError, with the name of the file."""
    try:
        yield
    except (DatabaseError, UnicodeDecodeError) as error:
        raise translated(error, path) from error


def refuses_values(error: StoreError) -> bool:
    """Whether it is the values of a row that SQLite refused, and the database itself is well."""
    return isinstance(error.__cause__, connection.OF_VALUES)


def read_accounting(here: Places) -> Connection:
    """The accounting database for reading only. Raises StoreError and its kinds."""
    require(here)
    con = connection.open_for_reading(here.database, ACCOUNTING_SCHEMA)
    con.text_factory = READABLE
    return con


def require(here: Places) -> None:
    """For commands that only read: raise StoreError with the solutions if there is no database."""
    location.refuse_no_file(here.database)
    location.refuse_missing(here)


def read_publishing(here: Places) -> Connection:
    """
    Open the publishing database for reading only; an empty one in memory if nothing was ever published.

    Raises ConfigError if an accounting database could not be created there, and StoreError.
    """
    if os.path.exists(here.publishing_database):
        location.refuse_no_file(here.publishing_database)
        return connection.open_for_reading(here.publishing_database, PUBLISHING_SCHEMA)
    location.refuse_misplaced(here)
    return in_memory(PUBLISHING)


@contextmanager
def writing(con: Connection, here: Places) -> Iterator[Connection]:
    """One transaction on the accounting database, in turn with the recorder; keep it below 50 ms."""
    if is_trial(con):
        # No other process writes these pages.
        yield con
        return
    with writing_much(con, here):
        yield con
    connection.shrink(con, here.database)


def is_trial(con: Connection) -> bool:
    """Whether an open accounting database is one of `trial_databases`."""
    return bool(con.execute("SELECT count(*) FROM temp.sqlite_master WHERE name = 'Fence'").fetchone()[0])


@contextmanager
def rehearsing(con: Connection, here: Places) -> Iterator[Connection]:
    """A transaction on the accounting database that is taken back at its end, in turn as `writing`."""
    turn = locked(connection.open_lock(here.queue_lock)) if os.path.isdir(here.directory) else nullcontext()
    with turn, translating(here.database):
        con.execute("BEGIN IMMEDIATE")
        try:
            yield con
        finally:
            con.execute("ROLLBACK")


def writing_much(con: Connection, here: Places) -> AbstractContextManager[Connection]:
    """One of very many transactions: the WAL may grow, and the caller uses `write_back` every few MB."""
    return connection.transaction(con, here.database, here.queue_lock)


def write_back(con: Connection) -> None:
    """
    Write the WAL back into the database, without delaying any writer; the WAL restarts after it.

    (It takes longer than the transactions that filled it: an fsync of each file.)
    """
    # The committed data is safe: this is housekeeping.
    with suppress(DatabaseError):
        con.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()


# Both databases for a dry run: only the run sees its writes, and none of them stays.


_WRITTEN = ("DBConfig", "Fence")
"""The tables of accounting.db that a run writes; the others are read where they are."""
_TRIAL_CACHE_KIB = 16 * 1024


@contextmanager
def trial_databases(here: Places) -> Iterator[tuple[Connection, Connection]]:
    """
    accounting.db and publishing.db as they are now; a run may write to both, without a lock, and leaves no trace.

    The few tables of accounting.db that a run writes become temporary tables, which SQLite finds first by name.
    publishing.db is copied completely, into a file without a name (SQLITE_TMPDIR or TMPDIR, else /var/tmp). Raises
    StoreError and its kinds, also if the disk has no space for the copy.
    """
    with closing(_accounting_for_trial(here)) as accounting, closing(_ledger_for_trial(here)) as publishing:
        yield accounting, publishing


def _accounting_for_trial(here: Places) -> Connection:
    con = read_accounting(here)
    # The file is open for reading only, whatever this says; without it there were no tables of our own either.
    con.execute("PRAGMA query_only = 0")
    for table in _WRITTEN:
        (sql,) = con.execute("SELECT sql FROM main.sqlite_master WHERE name = ?", (table,)).fetchone()
        con.execute(sql.replace("CREATE TABLE", "CREATE TEMP TABLE", 1))
        con.execute(f"INSERT INTO temp.{table} SELECT * FROM main.{table}")
    return con


def _ledger_for_trial(here: Places) -> Connection:
    with closing(read_publishing(here)) as ledger:
        con = connect("", isolation_level=None, check_same_thread=False)
        con.execute("PRAGMA synchronous = OFF")
        con.execute(f"PRAGMA cache_size = -{_TRIAL_CACHE_KIB}")
        try:
            # In one step, so in one read transaction: another publisher would restart it again and again.
            ledger.backup(con)
        except DatabaseError as error:
            con.close()
            if "full" not in str(error):
                raise
            raise StoreError(
                f"no space for a copy of {here.publishing_database}, which a dry run needs: make room in /var/tmp, or"
                " name another directory in TMPDIR"
            ) from error
    return con


# Space on disk for data that would fill the memory: a database of this process alone, in a file without a name.  SQLite
# makes the file when its cache of 2 MB is full, in SQLITE_TMPDIR or TMPDIR, else in /var/tmp, and removes its name at
# once: nothing remains of it, however the process ends.


_CACHE_KIB = 2 * 1024


@contextmanager
def scratch(script: str) -> Iterator[connection.Connection]:
    """Create a temporary database with the tables of ``script``. Raises StoreError if the disk has no space for it."""
    with closing(connection.connect("", isolation_level=None)) as con:
        con.executescript(
            f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{_CACHE_KIB};"
            f"PRAGMA temp_store = FILE; {script}"
        )
        try:
            yield con
        except connection.DatabaseError as error:
            # This includes errors of another database that is read meanwhile: the code that opened it reports them.
            if "full" not in str(error):
                raise
            raise StoreError(
                "the disk with temporary files is full: free space in /var/tmp, or set TMPDIR to another directory"
            ) from error


def full_text_search(
    texts: Iterable[Sequence[str]], weights: tuple[Sequence[float], Sequence[float]], question: str
) -> list[tuple[int, float, float]]:
    """
    The numbers of those texts in which FTS5 finds an answer, each with two scores: the lower, the better.

    Each of ``weights`` makes one score: it says how much a word counts in each part of a text.
    """
    columns = ", ".join(f"Part{number}" for number in range(len(weights[0])))
    scores = ", ".join(f"bm25(Found, {', '.join(map(str, counts))})" for counts in weights)
    with scratch(f"CREATE VIRTUAL TABLE Found USING fts5({columns}, tokenize = 'porter unicode61')") as con:
        con.executemany(
            f"INSERT INTO Found (rowid, {columns}) VALUES (?{', ?' * len(weights[0])})",
            ((number, *parts) for number, parts in enumerate(texts)),
        )
        return con.execute(f"SELECT rowid, {scores} FROM Found WHERE Found MATCH ?", (question,)).fetchall()


# Which database is damaged, if SQLite or a value from a database made a command fail.


_PATIENCE_S = 20.0
_STEPS = 100_000


def blamed(error: BaseException) -> StoreError | None:
    """
    The message for an unexpected error, if a database opened by this process caused it.

    SQLite's own errors concern one of them even if none is found damaged.
    """
    paths = [path for path in connection.opened if os.path.isfile(path)]
    for path in paths:
        problem = _problem(path)
        if problem is not None:
            return problem
    if not isinstance(error, DatabaseError):
        return None
    return translated(error, " or ".join(paths) or "database")


def _problem(path: str) -> StoreError | None:
    """Return the problem of a database's pages; ``None`` if a quick check finds none."""
    end = time.monotonic() + _PATIENCE_S
    try:
        with closing(connect(connection.uri(path, "ro"), timeout=1.0, uri=True)) as con:
            con.set_progress_handler(lambda: int(time.monotonic() > end), _STEPS)
            found = str(con.execute("PRAGMA quick_check(1)").fetchone()[0])
    except (DatabaseError, UnicodeDecodeError) as error:
        if "interrupted" in str(error) or "locked" in str(error):
            return None
        return translated(error, path)
    return None if found == "ok" else translated(DatabaseError(f"malformed: {found}"), path)
