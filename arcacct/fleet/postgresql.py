"""The dataset in PostgreSQL: the tables of schema/fleet/postgresql.sql, loaded by psycopg."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from arcacct.errors import TargetError
from arcacct.export.dataset import Partition, columns
from arcacct.files.directories import resource
from arcacct.fleet.dataset import Dataset, EngineFailed, Exported, typed
from arcacct.fleet.duckdb_engine import Duck, every_value
from arcacct.fleet.engine import judged

_TYPES = {"string": "text", "int64": "int8", "double": "float8"}
_KNOWN = "SELECT site, year, month::integer, ce, written_s, finished_log_seq, digest FROM arcacct.partitions"
_COLUMNS = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'arcacct'"
_TAKE = "SELECT arcacct.take_partition(%s, %s, %s, %s, %s, %s, %s, %s, %s)"


class Loaded(NamedTuple):
    """The partitions by result."""

    taken: int
    jobs: int
    """Jobs in the partitions that were loaded."""
    unchanged: int
    older: int
    """Partitions with a later export on the server."""
    problems: tuple[str, ...]


def load(found: Dataset, tables: Sequence[str], advanced: Callable[[int, int], object] = lambda *_: None) -> Loaded:
    """
    Bring the tables of PostgreSQL to the state of a dataset; ``advanced`` gets the numbers of done and of all
    partitions.

    A partition that cannot be read or is refused is among the problems, and all others are loaded. Raises UsageError
    without pyarrow, TargetError if the server cannot be reached or the connection is lost.
    """
    with _connected() as con:
        known = _known(con)
        taken = jobs = unchanged = older = 0
        problems: list[str] = []
        todo = [*found.partitions]
        for number, one in enumerate(todo):
            advanced(number, len(todo))
            digest, revision = _digest(one, tables), (one.manifest.written_s, one.manifest.finished_log_seq)
            there = known.get(one.partition)
            if there == (*revision, digest):
                unchanged += 1
            elif there is not None and there[:2] > revision:
                older += 1
            else:
                sound = judged(found.only([one]), tables, deep=True)
                if not sound.partitions:
                    found = found.without({one.path: sound.wrong[0]})
                    # In place of a bad file there may be another of the same CE and month.
                    known_paths = {other.path for other in todo}
                    todo += [other for other in found.partitions if other.path not in known_paths]
                    continue
                try:
                    if _taken(con, sound, tables, digest):
                        taken += 1
                        jobs += one.jobs.rows
                    else:
                        older += 1  # Another load took it in the meantime.
                except EngineFailed as error:
                    problems.append(f"{one.path}: {error}; it may have been exported again meanwhile: repeat this")
                except psycopg.Error as error:
                    if con.broken:
                        raise
                    problems.append(f"{one.path}: PostgreSQL rejected {one.partition}: {_said(error)}")
    return Loaded(taken, jobs, unchanged, older, (*found.problems, *problems))


@contextmanager
def _connected() -> Iterator[psycopg.Connection]:
    """A connection to the server that libpq finds. Raises TargetError without one, and when it is lost."""
    try:
        with psycopg.connect(
            autocommit=True, client_encoding="utf8", prepare_threshold=None, fallback_application_name="arcacct"
        ) as con:
            yield con
    except psycopg.OperationalError as error:
        raise TargetError(
            f"cannot reach PostgreSQL: {_said(error)}; PGSERVICE, PGHOST and PGDATABASE set the server, ~/.pgpass the"
            " passwords"
        ) from error


def _known(con: psycopg.Connection) -> dict[Partition, tuple[int, int, str]]:
    """The revision and the digest of each partition that the server has; what its tables lack is made."""
    wanted = {(table, column.name) for table, of in columns().items() for column in of}
    try:
        if not wanted.issubset(con.execute(_COLUMNS)):
            with con.transaction(), open(resource("schema", "fleet", "postgresql.sql"), "rb") as script:
                con.execute(script.read())
        return {Partition(*row[:4]): (row[4], row[5], row[6]) for row in con.execute(_KNOWN)}
    except psycopg.Error as error:
        if con.broken:
            raise
        raise TargetError(f"PostgreSQL error: {_said(error)}") from error


def _taken(con: psycopg.Connection, found: Dataset, tables: Sequence[str], digest: str) -> bool:
    """Whether the server took the only partition of a dataset; if not, it has a later export."""
    (one,) = found.partitions
    site, year, month, ce = one.partition
    of = one.manifest
    with closing(every_value(found, tables)) as opened, con.transaction():
        con.execute("SELECT arcacct.begin_partition()")
        for table in tables:
            if of.tables[table].rows:
                _copy(con, opened, table)
        values = (site, ce, year, f"{month:02d}", of.life, of.written_s, of.finished_log_seq, of.names, digest)
        (is_taken,) = con.execute(_TAKE, values).fetchone() or (False,)
    return bool(is_taken)


def _copy(con: psycopg.Connection, opened: Duck, table: str) -> None:
    """The rows of a table."""
    types = typed(table, _TYPES)
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
        sql.Identifier(f"incoming_{table}"), sql.SQL(", ").join(map(sql.Identifier, types))
    )
    with con.cursor().copy(statement) as copy:
        copy.set_types([*types.values()])
        for row in opened.rows(f"SELECT {', '.join(types)} FROM {table}", {}):
            copy.write_row([_plain(value) for value in row])


def _plain(value: Any) -> Any:
    """No text of PostgreSQL has a NUL."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def _said(error: psycopg.Error) -> str:
    """The error on one line."""
    told = (error.diag.message_primary, error.diag.message_detail, error.diag.message_hint)
    lines = [text for text in told if text] or str(error).splitlines() or [type(error).__name__]
    return "; ".join(line.strip() for line in lines)


def _digest(one: Exported, tables: Sequence[str]) -> str:
    """Return the digest of the files to load."""
    files = " ".join(f"{name} {one.manifest.tables[name].sha256}" for name in tables)
    return hashlib.sha256(files.encode()).hexdigest()
