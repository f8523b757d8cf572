"""
Whether a file that is said to be one of our databases has our schema, word for word.

A trigger of somebody else's in a backup would run as root at each state change of a job, a view in the place of one of
ours at each question. Only the list of what the file has is read here: nothing of it is run.
"""

from __future__ import annotations

from _sqlite3 import Connection
from contextlib import closing

from arcacct.db.connect import other_version, version
from arcacct.db.schema import DatabaseKind, in_memory
from arcacct.errors import SchemaError

_SQLITES_OWN = {
    "sqlite_sequence": "CREATE TABLE sqlite_sequence(name,seq)",
    "sqlite_stat1": "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
    "sqlite_stat4": "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
}


def require_own_schema(con: Connection, path: str, kind: DatabaseKind, *, exactly: bool) -> int:
    """
    See that an open database has all that our scripts make, as they make it; its version.

    ``exactly``: and nothing else but tables. Raises SchemaError, DatabaseError.
    """
    found = _described(con)
    with closing(in_memory(kind)) as newest:
        # It is the same in every version, and has to be read to know which one this is.
        _compare(path, "DBConfig", found, _described(newest))
    number = version(con, path)
    if number > kind.schema:
        raise other_version(path, number, kind.schema)
    with closing(in_memory(kind, number)) as fresh:
        wanted = _described(fresh)
    for name in wanted:
        _compare(path, name, found, wanted)
    for name, text in found.items():
        if exactly and name not in wanted and not text.startswith("CREATE TABLE ") and _SQLITES_OWN.get(name) != text:
            what = " ".join(text.split()[1:3])
            raise SchemaError(
                f"{path}: it has {what!a}, which arcacct did not make; if you know it take it out of a copy of the file"
                " with `sqlite3` (DROP ...), else take another backup"
            )
    return number


def _compare(path: str, name: str, found: dict[str, str], wanted: dict[str, str]) -> None:
    if name not in found:
        raise SchemaError(
            f"{path}: not a database of arcacct, or not a whole one: {name} is missing; take another backup"
        )
    if found[name] != wanted[name]:
        raise SchemaError(f"{path}: {name} is not as arcacct makes it; take another backup")


def _described(con: Connection) -> dict[str, str]:
    """The text by which each thing was made, by name."""
    rows = con.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {str(name): " ".join(str(sql).split()) for name, sql in rows if _SQLITES_OWN.get(name) != sql}
