"""Records as publishing reads them: from their packs, and from the tables."""

from __future__ import annotations

import sqlite3

from arcacct.publishing.sent import digests_of
from arcacct.records import reader
from arcacct.records.model import PackedAAR

EVERYTHING = 2**62


def page(con: sqlite3.Connection) -> reader.Page | None:
    """The first page of the log."""
    return reader.logged_after(con, 0, EVERYTHING)


def packed(con: sqlite3.Connection) -> list[str]:
    """The JobIDs of the records that are read from a pack."""
    found = page(con)
    return [] if found is None else [one.aar.job_id for one in found.records if isinstance(one.aar, PackedAAR)]


def assert_same(con: sqlite3.Connection) -> list[str]:
    """A page read from packs is what it is without them, kinds of values and digests too; returns who was packed."""
    quick = page(con)
    con.execute("SAVEPOINT Packs")
    con.execute("DELETE FROM PackedJobs")
    slow = page(con)
    con.execute("ROLLBACK TO Packs")
    con.execute("RELEASE Packs")

    assert described(quick) == described(slow)
    return packed(con)


def described(found: reader.Page | None) -> object:
    """A page with the kinds of its values and the digests of its records; ``1`` and ``1.0`` are not the same."""
    if found is None:
        return None
    records = [(one.seq, repr(tuple(one.aar)), digests_of(one.aar)) for one in found.records]
    return found.last_seq, records, found.others
