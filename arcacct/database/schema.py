"""Creating the databases and upgrading them by the scripts of schema/, in the order of their numbers."""

from __future__ import annotations

import grp
import os
import stat
import time
from collections.abc import Iterable
from contextlib import ExitStack, closing
from functools import cache
from sqlite3 import Connection, DatabaseError, connect
from typing import NamedTuple

from arcacct.database import connection
from arcacct.database.connection import make_durable, other_version, translated, uri, version
from arcacct.database.durable import locked, maintenance, refuse_foreign
from arcacct.errors import ConfigError, SchemaError, StoreError, use_as
from arcacct.files.directories import private_directory, resource
from arcacct.resources import SQL_FUNCTIONS


class DatabaseKind(NamedTuple):
    """One of the two databases: the folder of its scripts, and the number of its schema."""

    folder: str
    schema: int
    oldest: int
    """The schema of arcacct 0.2, the first that is stored as text: that program must first upgrade an older one."""


ACCOUNTING = DatabaseKind("accounting", connection.ACCOUNTING_SCHEMA, 21)
PUBLISHING = DatabaseKind("publishing", connection.PUBLISHING_SCHEMA, 7)
_CREATED, _LIFE = "ARCACCT_CREATED", "ARCACCT_INCARNATION"
_FORMER, _LIFE_SEQ = "ARCACCT_FORMER_INCARNATIONS", "ARCACCT_LIFE_SEQ"
"""Keys of DBConfig: the incarnations before this one, with blanks between; the start of this one."""
AREX_FIRST = "AREX_FIRST "
"""Before the path of an imported database of A-REX: when the first job in it ended, UTC seconds."""
PLAUSIBLE_S = 1_000_000_000
"""An end before September 2001 is invalid: no A-REX ran then."""
SNAPSHOT = "ARCACCT_SNAPSHOT"
"""In a copy for readers: the time of the copy, UTC seconds; two of the same second belong together."""


SOURCES = {
    "batch": ("BatchRuns",),
    "gridengine": ("GridEngineRecords", "GridEngineFiles"),
    "slurm": ("SlurmRuns",),
    "htcondor": ("HTCondorJobs",),
    "sonar": ("SlurmJobs", "NodeNames", "SampledJobs", "ClusterNodes", "ClusterPartitions", "TelemetryErrors"),
}
"""Sources that have views of their own, or share them, with the tables that their first import fills."""


def scripts(kind: DatabaseKind) -> list[str]:
    """The files that make a new database, in order."""
    return _sql_files("schema", kind.folder)


@cache
def views_of(source: str) -> dict[str, str]:
    """
    Return the views of a source (gridengine, slurm, htcondor, sonar; batch: PBS, LSF and others) by name, as text.

    A database has them from its first import of that source: opening a database parses its whole schema, and most sites
    have none of these sources.
    """
    with closing(connect(":memory:")) as scratch:
        scratch.executescript(_read(os.path.join(resource("schema", ACCOUNTING.folder, "sources"), f"{source}.sql")))
        return dict(scratch.execute("SELECT name, sql FROM sqlite_master"))


def sources_of(con: Connection) -> list[str]:
    """Return the sources whose views a database has, all or some of them."""
    found = _views(con)
    return [source for source in SOURCES if not found.isdisjoint(views_of(source))]


def _views(con: Connection) -> set[str]:
    return {name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}


def create_views(con: Connection, *sources: str) -> None:
    """Create the missing views of these sources, inside the caller's transaction."""
    found = _views(con)
    for source in sources:
        for name, sql in views_of(source).items():
            if name not in found:
                con.execute(sql)


def source_of(view: str) -> str | None:
    """The source whose first import creates a view; ``None`` for others."""
    return next((source for source in SOURCES if view in views_of(source)), None)


def has_view(kind: DatabaseKind, name: str) -> bool:
    """Whether a new database of this kind has a view of this name."""
    with closing(in_memory(kind)) as con:
        return name in _views(con)


def upgrades(kind: DatabaseKind) -> dict[int, str]:
    """Return the scripts that upgrade a database, in order: the schema after each one, and its path."""
    return _numbered(kind, are_texts=False)


def texts(kind: DatabaseKind) -> dict[int, str]:
    """
    Return the schemas that this program knows, in order, and the path of the text of each: the scripts start from them.
    """
    return _numbered(kind, are_texts=True)


def _numbered(kind: DatabaseKind, *, are_texts: bool) -> dict[int, str]:
    names = {os.path.basename(path): path for path in _sql_files("schema", "upgrade", kind.folder)}
    return {int(name[:3]): path for name, path in names.items() if ("_as_of_" in name) == are_texts}


def _sql_files(*folder: str) -> list[str]:
    path = resource(*folder)
    return [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".sql")]


def ensure(path: str, kind: DatabaseKind, *, read_group: str | None = None, may_create: bool = True) -> list[int]:
    """
    Create a database, or upgrade it after a backup next to it; return its schemas in order: 0 means none.

    With ``may_create=False`` a missing one is a StoreError. Raises SchemaError for a file that is not ours, is newer
    than this program, or has a schema that no script starts from, StoreError for an error of SQLite or the file system,
    ConfigError for an unknown ``read_group``.
    """
    refuse_foreign(path)
    if may_create:
        _make_file(path, read_group)
    try:
        with closing(connect(uri(path, "rw"), timeout=30.0, isolation_level=None, uri=True)) as con:
            if _found(con, path) == kind.schema:
                return []
            # Only one process makes or changes a schema; the directory is there before any file.
            with locked(os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)), ExitStack() as work:
                found = _found(con, path)
                if not found:
                    con.execute("PRAGMA journal_mode = WAL")
                    _create(con, path, kind)
                    open_to_group(path, read_group)
                    return [0, kind.schema]
                require_known(con, path, kind, found)
                if found < kind.schema:
                    # Writers would wait for a long script: with the file there they end at once.
                    work.enter_context(maintenance(path, "upgrade"))
                    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
                    backup(con, f"{path}.before-schema-{kind.schema}.{now}")
                return _take_forward(con, path, kind, found)
    except (DatabaseError, UnicodeDecodeError) as error:
        raise translated(error, path) from error


def _make_file(path: str, read_group: str | None) -> None:
    if os.path.exists(path):
        return
    group_id(read_group)
    try:
        private_directory(os.path.dirname(path))
        # SQLite would give it the mode of the umask: too open or too closed.
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.fchmod(fd, 0o600)
        os.close(fd)
    except OSError as error:
        raise StoreError(f"{path}: cannot be created: {error.strerror}; {use_as(os.path.dirname(path))}") from error


def _found(con: Connection, path: str) -> int:
    """Its schema's number; 0 where nothing was made yet: also after a first creation that was interrupted."""
    return version(con, path) if con.execute("SELECT 1 FROM sqlite_master").fetchone() else 0


def require_known(con: Connection, path: str, kind: DatabaseKind, found: int) -> None:
    """Raise SchemaError for a schema that is not the current one and that no script starts from."""
    if found != kind.schema and found not in texts(kind):
        raise other_version(con, path, found, kind.schema, kind.oldest)


def in_memory(kind: DatabaseKind, version: int | None = None) -> Connection:
    """An empty private database, of the current version or of another one of `texts`."""
    con = connect(":memory:", isolation_level=None)
    if version is None or version == kind.schema:
        _create(con, ":memory:", kind)
    else:
        _run(con, ":memory:", [_read(texts(kind)[version])], version, is_new=True)
    return con


def open_to_group(path: str, read_group: str | None) -> None:
    """
    Let only the owner read the database (0600), or also a group (0640); SQLite creates -wal and -shm in the same way.

    The group may enter a directory that was only for its owner (0700 becomes 0750); any other was not created by us and
    does not change. Raises ConfigError for an unknown group, StoreError for an error of the file system.
    """
    group = group_id(read_group)
    directory = os.path.dirname(path)
    try:
        for file in filter(os.path.exists, (path, path + "-wal", path + "-shm")):
            if group is not None:
                os.chown(file, -1, group)
            os.chmod(file, 0o600 if group is None else 0o640)
        if group is not None and stat.S_IMODE(os.stat(directory).st_mode) == 0o700:
            os.chown(directory, -1, group)
            os.chmod(directory, 0o750)  # noqa: S103  the group was asked for
    except OSError as error:
        raise StoreError(f"{path}: cannot set its readers (read_group={read_group}): {error.strerror}") from error


def group_id(read_group: str | None) -> int | None:
    """Return the number of a group of this host; ``None`` for no group. Raises ConfigError for an unknown group."""
    try:
        return None if read_group is None else grp.getgrnam(read_group).gr_gid
    except KeyError:
        raise ConfigError(f"[arcacct] read_group={read_group}: this host has no such group; create it first") from None


def backup(con: Connection, path: str) -> None:
    """
    Write a complete copy of an open database, through SQLite (a copy of the file alone would miss the WAL).

    It gets its name when it and all that it was copied from are complete and on disk. Raises StoreError if it cannot be
    written; then there is no copy.
    """
    partial = f"{path}.partial"
    try:
        if os.path.exists(partial):
            os.unlink(partial)
        _make_file(partial, None)
        with closing(connect(partial)) as target:
            # An incomplete file has no name, so it needs no journal; it is on disk before it gets one.
            target.execute("PRAGMA journal_mode = OFF").fetchone()
            target.execute("PRAGMA synchronous = OFF")
            # In one step, so in one read transaction: other writers would restart it again and again.
            con.backup(target)
        # A power cut must not leave a copy with more jobs than its database (INVARIANTS 16).
        make_durable(str(con.execute("PRAGMA database_list").fetchone()[2]))
        sync(partial)
        os.rename(partial, path)
        sync(os.path.dirname(path) or ".")
    except (DatabaseError, OSError) as error:
        if os.path.exists(partial):
            os.unlink(partial)
        raise StoreError(f"{path}: the backup failed: {error}; nothing was changed") from error


def sync(path: str) -> None:
    """Sync a written file, or a directory in which a file was renamed, to disk. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _create(con: Connection, path: str, kind: DatabaseKind) -> None:
    _run(con, path, [_read(script) for script in scripts(kind)], kind.schema, is_new=True)


def _take_forward(con: Connection, path: str, kind: DatabaseKind, found: int) -> list[int]:
    """Run the scripts after a schema, each with its number; the last also adopts the texts of a new database."""
    later = [(number, script) for number, script in upgrades(kind).items() if number > found]
    dropped, created = _views_of_others(con, kind, found)
    for name, (arguments, function) in SQL_FUNCTIONS.items():
        con.create_function(name, arguments, function)
    for number, script in later:
        name = f"{path} ({os.path.basename(script)})"
        texts = [*dropped, _read(script), *created]
        _run(con, name, texts, number, to_newest=kind if number == kind.schema else None)
    return [number for number, _script in later]


def _views_of_others(con: Connection, kind: DatabaseKind, version: int) -> tuple[list[str], list[str]]:
    """
    Statements that drop the views that others added, and their triggers, and those that create them again.

    A script runs between both: SQLite refuses to rename a table or a column while any view does not work.
    """
    with closing(in_memory(kind, version)) as fresh:
        ours = {name for _, name, _ in fresh.execute(_OBJECTS)}
    views = [(name, sql) for type_, name, sql in con.execute(_OBJECTS) if type_ == "view" and name not in ours]
    triggers = con.execute(
        "SELECT tbl_name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN"
        " (SELECT name FROM sqlite_master WHERE type = 'view')"
    )
    dropped = ["DROP VIEW {};".format('"' + name.replace('"', '""') + '"') for name, _ in views]
    # Their texts may end in a comment.
    created = [f"{sql}\n;" for name, sql in (*views, *triggers) if name in dict(views)]
    return dropped, created


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _run(
    con: Connection,
    path: str,
    texts: Iterable[str],
    number: int,
    *,
    is_new: bool = False,
    to_newest: DatabaseKind | None = None,
) -> None:
    # executescript() first commits an open transaction, so the transaction must be part of the text.
    try:
        con.executescript("BEGIN IMMEDIATE;\n" + "\n".join(texts))
        if to_newest is not None:
            _adopt_texts(con, path, to_newest)
        if is_new:
            note(con, _LIFE, os.urandom(16).hex())
            note(con, _CREATED, int(time.time()))
        note(con, "ARCACCT_SCHEMA", number)
        con.execute("COMMIT")
        if to_newest is not None:
            con.execute("PRAGMA writable_schema = RESET")
    except DatabaseError as error:
        if con.in_transaction:
            con.execute("ROLLBACK")
        raise translated(error, path) from error


def _adopt_texts(con: Connection, path: str, kind: DatabaseKind) -> None:
    """
    Give every object of a database that has the newest structure the text that a new database has.

    Views and triggers are created again, and so are missing indexes; tables and indexes keep their pages, and get the
    text once it is certain that it describes what they are. Raises SchemaError where it does not. What others added
    stays as it is.
    """
    with closing(in_memory(kind)) as fresh:
        wanted = {(type_, name): sql for type_, name, sql in fresh.execute(_OBJECTS)}
        ours = {(type_, name): sql for type_, name, sql in con.execute(_OBJECTS)}
        for source, tables in SOURCES.items() if kind is ACCOUNTING else ():
            if any(con.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in tables):
                wanted |= {("view", name): sql for name, sql in views_of(source).items()}
            else:
                for name in views_of(source):
                    con.execute(f"DROP VIEW IF EXISTS {name}")
        for (type_, name), sql in wanted.items():
            if type_ in ("view", "trigger") and ours.get((type_, name)) != sql:
                con.execute(f"DROP {type_} IF EXISTS {name}")
                con.execute(sql)
            elif type_ == "index" and (type_, name) not in ours:
                con.execute(sql)
        con.execute("PRAGMA writable_schema = ON")
        for (type_, name), sql in wanted.items():
            if type_ in ("table", "index") and ours.get((type_, name)) != sql:
                if _structure(con, type_, name) != _structure(fresh, type_, name):
                    raise SchemaError(f"{path}: {name} differs from arcacct's schema; restore a backup (`db restore`)")
                con.execute("UPDATE sqlite_master SET sql = ? WHERE type = ? AND name = ?", (sql, type_, name))


_OBJECTS = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"


def _structure(con: Connection, type_: str, name: str) -> list[object]:
    """Return SQLite's parsed form of the text of a table or an index."""
    asked = ("table_xinfo", "foreign_key_list", "index_list") if type_ == "table" else ("index_xinfo",)
    found = [con.execute(f"PRAGMA {pragma}({name})").fetchall() for pragma in asked]
    # The first column of index_list is the order of creation.
    return [sorted(row[pragma == "index_list" :] for row in rows) for pragma, rows in zip(asked, found, strict=True)]


def noted(con: Connection, name: str) -> str | None:
    """Return the value under a name in a database's table DBConfig; ``None``: there is none."""
    row = con.execute("SELECT KeyValue FROM DBConfig NOT INDEXED WHERE KeyName = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def note(con: Connection, name: str, value: object) -> None:
    """Store a value as text, replacing the earlier one, inside the caller's transaction."""
    con.execute("INSERT OR REPLACE INTO DBConfig VALUES (?, ?)", (name, str(value)))


def delivered(con: Connection) -> int:
    """Return the position in FinishedLog up to which every target has handled records; 0: none."""
    return int(noted(con, _DELIVERED) or 0)


def note_delivered(con: Connection, seq: int) -> None:
    """Note that every target has handled records up to this position, inside the caller's transaction."""
    note(con, _DELIVERED, seq)


_DELIVERED = "ARCACCT_DELIVERED"


def created(con: Connection) -> int:
    """Return when the accounting database was created, UTC seconds; 0: unknown."""
    return int(noted(con, _CREATED) or 0)


def complete_since(con: Connection, published_until: int | None = None) -> int:
    """
    Return the end time from which on the database has every job, UTC seconds.

    This is its creation time: the control directory no longer has earlier jobs that A-REX cleaned. 0 once A-REX's own
    database was imported, and for databases without a creation time. An A-REX that has created its own database again
    has no earlier jobs either: its first job ended after one that was recorded here, or after ``published_until``, the
    last end of a job that another program published.
    """
    if not con.execute("SELECT 1 FROM ImportedFiles LIMIT 1").fetchone():
        return created(con)
    found = con.execute(
        "SELECT min(CAST(KeyValue AS INTEGER)) FROM DBConfig WHERE substr(KeyName, 1, ?) = ?",
        (len(AREX_FIRST), AREX_FIRST),
    )
    (first,) = found.fetchone()
    if first is None:
        # Imported by an older program, which did not note it.
        return 0
    ours = con.execute(
        "SELECT 1 FROM AAR WHERE EndTime > ? AND EndTime < ?"
        " AND EXISTS (SELECT 1 FROM StatusFiles WHERE StatusFiles.RecordID = AAR.RecordID) LIMIT 1",
        (PLAUSIBLE_S, first),
    ).fetchone()
    is_later = ours is not None or (published_until is not None and first > published_until)
    return min(int(first), created(con)) if is_later else 0


def incarnation(con: Connection) -> str:
    """The random name of this incarnation of the accounting database: a restore gives it a new one."""
    life = noted(con, _LIFE)
    if life is None:
        raise SchemaError("the database has no incarnation; restore it with `arcacct db restore`")
    return life


def incarnation_history(con: Connection) -> frozenset[str]:
    """The incarnation of an accounting database, and all incarnations that it continues (INVARIANTS 11)."""
    return frozenset((incarnation(con), *_former_incarnations(con)))


def incarnation_start_seq(con: Connection) -> int:
    """The Seq after which this incarnation logs: the highest of the backup; 0 for a new database."""
    return int(noted(con, _LIFE_SEQ) or 0)


def inherit_from(con: Connection, lives: Iterable[str]) -> None:
    """Let the accounting database continue these incarnations, too, inside the caller's transaction."""
    known = dict.fromkeys((*_former_incarnations(con), *lives))
    known.pop(incarnation(con), None)
    note(con, _FORMER, " ".join(known))


def new_incarnation(con: Connection, lives: Iterable[str] = (), *, seq: int | None = None) -> None:
    """
    Give a restored backup a new incarnation: its further rows differ from those of the old one.

    It continues its own old incarnation and ``lives``. The log up to ``seq`` is the backup's; default: the whole log.
    Inside the caller's transaction.
    """
    old = incarnation(con)
    (highest,) = con.execute("SELECT seq FROM sqlite_sequence WHERE name = 'FinishedLog'").fetchone() or (0,)
    note(con, _LIFE, os.urandom(16).hex())
    inherit_from(con, (old, *lives))
    note(con, _LIFE_SEQ, highest if seq is None else seq)


def _former_incarnations(con: Connection) -> list[str]:
    return (noted(con, _FORMER) or "").split()
