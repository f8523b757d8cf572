"""Records of imports that could not be used: kept with their place and reason, and tried again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple, TypeVar

from arcacct.database.connection import (
    Connection,
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
)
from arcacct.errors import ArcacctError, InputError

# What an error says about a record: why it alone is left out, whatever it did to us.
#
# A record that cannot be used is told with what is wrong with it. An error of our own in its handling costs that record
# alone as well, and the reason says whose it is.


T = TypeVar("T")

_LONGEST = 300
_OF_VALUES = {
    "OverflowError": "a number is too large",
    "RecursionError": "nested too deeply",
    "MemoryError": "it needs more memory than available",
    "DataError": "a value is too large for the database",
    "IntegrityError": "the database does not allow its values",
}
"""By the name of the error: sources know no database."""


class Fault(NamedTuple):
    """Why a record is left out."""

    reason: str
    is_ours: bool = False
    """An error of this program: worth another try after an upgrade."""


def optional(name: str, read: Callable[[], T], unusable: set[str]) -> T | None:
    """
    A value that accounting can do without; of one that cannot be used ``None``, and its name goes into ``unusable``.

    What accounting needs (which job it is, when it ended, how long it ran) decides about the job; nothing else does.
    """
    try:
        return read()
    except ValueError:
        unusable.add(name)
        return None


def fault_of(error: Exception) -> Fault:
    """The reason that an error in a record's handling gives, bounded and on one line."""
    name = type(error).__name__
    text = " ".join(str(error).split())
    if isinstance(error, UnicodeError):
        return Fault("its text is not Unicode")
    if isinstance(error, ValueError | InputError):
        return Fault(text[:_LONGEST] or "not usable")
    if name in _OF_VALUES:
        return Fault(_OF_VALUES[name])
    return Fault(f"internal error ({name}: {text[:_LONGEST]}): please report it with the record", True)


# The quarantine of imports: records that could not be used, with where they stood and why, until they can be.
#
# Everything is bounded, since whoever writes a file can make each line of it unusable: what is more than that is only
# counted. A record that is met again, in whatever file, is the same row.


LONGEST_BYTES = 1024 * 1024
"""A record of more bytes is kept up to here, and is read from its file again to be retried."""
MOST_OF_A_FILE = 1000
MOST = 10_000
MOST_BYTES = 64 * 1024 * 1024

_VALUE_COLUMNS = (DataError, IntegrityError, InterfaceError, ProgrammingError)
_COLUMNS = "RejectedID, Source, Scope, File, Position, Reason, IsOurs, Records, Rejected, Bytes"


class Reject(NamedTuple):
    """A record that cannot be used."""

    file: str
    position: str
    fault: Fault
    content: bytes
    """All of it, as it was read; of a very long one at least LONGEST_BYTES."""
    bytes: int = 0
    """How long it is; 0: as long as ``content``."""


class RejectedEntry(NamedTuple):
    """A row of ImportQuarantine without the record itself."""

    rejected_id: int
    source: str
    scope: str
    file: str
    position: str
    reason: str
    is_ours: bool
    records: int
    """1, or how many further records of the file were only counted."""
    rejected_s: int
    bytes: int
    """Of the whole record, of which no more than LONGEST_BYTES are kept; -1: of records that were only counted."""

    @property
    def is_whole(self) -> bool:
        """Whether all of it was kept, so that it can be tried again without its file."""
        return 0 < self.bytes <= LONGEST_BYTES


class RetryResult(NamedTuple):
    """Print the result of a retry of rejected records."""

    tried: int = 0
    good: int = 0
    """Taken in, and no longer rejected."""
    needs_file: int = 0
    """Too long to be kept, or only counted: their files have to be imported again."""


class Rejections(NamedTuple):
    """How many records are rejected."""

    by_source: dict[str, int]
    oldest_s: int | None
    ours: int
    """Those that an error of this program costs."""


def is_of_record(error: Exception) -> bool:
    """
    Whether an error in the handling of a record is about the record, or our own, and not about database or system.

    Disk full, locked, damaged, no right to read: these are no record's fault, and end an import that loses nothing.
    """
    cause = error.__cause__ if isinstance(error, ArcacctError) and error.__cause__ is not None else error
    if isinstance(cause, DatabaseError):
        # An integer sum in SQL that has no room: somebody's values.
        return isinstance(cause, _VALUE_COLUMNS) or (
            isinstance(cause, OperationalError) and "integer overflow" in str(cause)
        )
    return not isinstance(error, OSError | ArcacctError) or isinstance(error, InputError)


class Quarantine:
    """
    The rejected records of one source (and scope).

    Remembers how much room there is: after a transaction that was rolled back call `forget`.
    """

    def __init__(self, con: Connection, source: str, scope: str = "") -> None:
        self._con = con
        self._source = source
        self._scope = scope
        self._room: dict[str, int] = {}
        self._before: set[bytes] = set()
        """Digests of what `anew` took out."""
        self._counted_before: dict[str, int] = {}
        """By file how many `anew` took out that were only counted."""
        self._all: list[int] | None = None

    def forget(self) -> None:
        """The transaction was rolled back: what we believe of the table may be wrong."""
        self._room.clear()
        self._all = None

    def keep(self, rejects: Iterable[Reject]) -> list[Reject]:
        """
        Put those records into the table that are not there yet, inside the caller's transaction; gives the new ones.

        What was dropped is remembered: it is not new either. Neither is what `anew` took out, and what was only counted
        as long as there is no more of it than before.
        """
        news = []
        for one in rejects:
            # Of a record that could not be held there is nothing but the place.
            what = one.content or f"{one.file}\0{one.position}".encode("utf-8", "surrogateescape")
            digest = blake2b(what, digest_size=16).digest()
            query = "SELECT 1 FROM ImportQuarantine WHERE Source = ? AND Scope = ? AND Digest = ?"
            if self._con.execute(query, (self._source, self._scope, digest)).fetchone() is not None:
                continue
            is_new = digest not in self._before
            if self._has_room(one.file, min(len(one.content), LONGEST_BYTES)):
                size = one.bytes or len(one.content)
                self._insert(one.file, one.position, digest, one.fault, size, one.content[:LONGEST_BYTES])
            else:
                is_new = self._count(one.file) > self._counted_before.get(one.file, 0)
            if is_new:
                news.append(one)
        return news

    def anew(self, file: str) -> None:
        """
        A file is read from its beginning again: what of it is not kept whole comes again if it is still unusable.

        Inside the caller's transaction.
        """
        rows = listed(self._con, self._source, self._scope)
        gone = [one for one in rows if one.file == _storable(file) and not one.is_whole]
        marks = ",".join(str(one.rejected_id) for one in gone)
        rows_of = self._con.execute(f"SELECT Digest FROM ImportQuarantine WHERE RejectedID IN ({marks})")
        self._before.update(digest for (digest,) in rows_of)
        for one in gone:
            if one.bytes < 0:
                self._counted_before.setdefault(file, one.records)
        forget(self._con, [one.rejected_id for one in gone])
        self.forget()

    def files_to_read(self) -> set[str]:
        """The files of which something is not kept whole: too long, or only counted."""
        return {one.file for one in listed(self._con, self._source, self._scope) if not one.is_whole}

    def _has_room(self, file: str, size: int) -> bool:
        if self._all is None:
            count, total = self._con.execute(
                "SELECT count(*), ifnull(sum(length(Content)), 0) FROM ImportQuarantine WHERE Records > 0"
            ).fetchone()
            self._all = [MOST - count, MOST_BYTES - total]
        if file not in self._room:
            used = self._con.execute(
                "SELECT count(*) FROM ImportQuarantine WHERE Source = ? AND Scope = ? AND File = ? AND Content NOTNULL",
                (self._source, self._scope, file),
            ).fetchone()[0]
            self._room[file] = MOST_OF_A_FILE - used
        if self._room[file] <= 0 or self._all[0] <= 0 or self._all[1] < size:
            return False
        self._room[file] -= 1
        self._all[0] -= 1
        self._all[1] -= size
        return True

    def _count(self, file: str) -> int:
        """One more of a file that has no room left; how many there are now."""
        digest = blake2b(b"further records of " + file.encode("utf-8", "surrogateescape"), digest_size=16).digest()
        done = self._con.execute(
            "UPDATE ImportQuarantine SET Records = Records + 1 WHERE Source = ? AND Scope = ? AND Digest = ?",
            (self._source, self._scope, digest),
        )
        if not done.rowcount:
            fault = Fault("only counted: the list is full; correct the file and import it with --retry")
            self._insert(file, "further records", digest, fault, -1, None)
        query = "SELECT Records FROM ImportQuarantine WHERE Source = ? AND Scope = ? AND Digest = ?"
        return int(self._con.execute(query, (self._source, self._scope, digest)).fetchone()[0])

    def _insert(self, file: str, position: str, digest: bytes, fault: Fault, size: int, content: bytes | None) -> None:
        what = (self._source, self._scope, _storable(file), position, digest, _storable(fault.reason), fault.is_ours)
        self._con.execute(
            "INSERT INTO ImportQuarantine (Source, Scope, File, Position, Digest, Reason, IsOurs, Records, Rejected,"
            " Bytes, Content) VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?)",
            (*what, int(time.time()), size, content),
        )

    def waiting(self) -> Iterator[tuple[RejectedEntry, bytes]]:
        """What can be tried again, with its content, the oldest first; rows that come meanwhile are not looked at."""
        for one in listed(self._con, self._source, self._scope):
            query = "SELECT Content FROM ImportQuarantine WHERE RejectedID = ? AND Records > 0"
            # Somebody may have dropped it meanwhile, or tried it again.
            if one.is_whole and (row := self._con.execute(query, (one.rejected_id,)).fetchone()) is not None:
                yield one, bytes(row[0])

    def at(self, file: str) -> dict[str, list[int]]:
        """The rows of a file by their position."""
        rows = self._con.execute(
            "SELECT Position, RejectedID FROM ImportQuarantine WHERE Source = ? AND Scope = ? AND File = ?",
            (self._source, self._scope, _storable(file)),
        )
        found: dict[str, list[int]] = {}
        for position, rejected_id in rows:
            found.setdefault(position, []).append(rejected_id)
        return found


def _storable(text: str) -> str:
    """A path, or what was said of a record, as a database's text can be."""
    return text.encode("utf-8", "backslashreplace").decode()


def listed(con: Connection, source: str | None = None, scope: str | None = None) -> list[RejectedEntry]:
    """Every row, of one source if asked for, the oldest first."""
    rows = con.execute(
        f"SELECT {_COLUMNS} FROM ImportQuarantine WHERE (?1 IS NULL OR Source = ?1) AND (?2 IS NULL OR Scope = ?2)"
        " AND Records > 0"
        " ORDER BY RejectedID",
        (source, scope),
    )
    return [kept._replace(is_ours=bool(kept.is_ours)) for kept in map(RejectedEntry._make, rows)]


def rejections(con: Connection) -> Rejections:
    """How many there are, those that were only counted among them."""
    rows = con.execute(
        "SELECT Source, sum(Records), min(Rejected), sum(IsOurs) FROM ImportQuarantine WHERE Records > 0"
        " GROUP BY Source ORDER BY Source"
    ).fetchall()
    oldest = min((rejected for _source, _records, rejected, _ours in rows), default=None)
    ours = sum(ours for _source, _records, _rejected, ours in rows)
    return Rejections({source: records for source, records, _rejected, _ours in rows}, oldest, ours)


def needing_file(con: Connection, source: str, scope: str = "") -> int:
    """How many records can only be tried again with their files."""
    return sum(one.records for one in listed(con, source, scope) if not one.is_whole)


def content_of(con: Connection, rejected_id: int) -> bytes:
    """What is kept of a record; raises InputError when there is no such row."""
    row = con.execute(
        "SELECT Content FROM ImportQuarantine WHERE RejectedID = ? AND Records > 0", (rejected_id,)
    ).fetchone()
    if row is None:
        raise InputError(f"{rejected_id}: no such rejected record; see `arcacct import rejected`")
    return bytes(row[0] or b"")


def drop(con: Connection, rejected_ids: Sequence[int]) -> int:
    """
    Take some off the list, inside the caller's transaction; how many there were.

    That they were there is remembered, of the last MOST of them and without their content (Records is 0): when they
    are met again they are no news.
    """
    found = con.executemany(
        "UPDATE ImportQuarantine SET Records = 0, Content = NULL WHERE RejectedID = ? AND Records > 0",
        [(one,) for one in rejected_ids],
    )
    con.execute(
        "DELETE FROM ImportQuarantine WHERE Records = 0 AND RejectedID NOT IN"
        " (SELECT RejectedID FROM ImportQuarantine WHERE Records = 0 ORDER BY RejectedID DESC LIMIT ?)",
        (MOST,),
    )
    return found.rowcount


def forget(con: Connection, rejected_ids: Sequence[int]) -> int:
    """Delete some, inside the caller's transaction, since they can be used now; how many there were."""
    found = con.executemany("DELETE FROM ImportQuarantine WHERE RejectedID = ?", [(one,) for one in rejected_ids])
    return found.rowcount


def fault(error: Exception) -> Fault:
    """Why a record is left out, of whatever its handling raised: of a complaint about the database what it wraps."""
    cause = error.__cause__
    return fault_of(cause if isinstance(error, ArcacctError) and isinstance(cause, Exception) else error)
