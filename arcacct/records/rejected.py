"""Unusable records of imports: kept with their position and reason, and tried again."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, ParamSpec, TypeVar

from arcacct.database.connection import OF_VALUES, Connection, DatabaseError, OperationalError
from arcacct.database.schema import note, noted
from arcacct.errors import ArcacctError, InputError

# The reason why a record is left out, from the error that it caused.
#
# An unusable record is reported with its error. An internal error of arcacct also leaves out only that record, and the
# reason says that the error is internal.


P = ParamSpec("P")
T = TypeVar("T")

_LONGEST = 300
_OF_VALUES = {
    "OverflowError": "a number is too large",
    "RecursionError": "nested too deeply",
    "MemoryError": "it needs more memory than available",
    "DataError": "a value is too large for the database",
    "IntegrityError": "the database does not allow its values",
}
"""Reasons by the name of the error class, since sources import no database module."""


class Fault(NamedTuple):
    """Why a record is left out."""

    reason: str
    is_ours: bool = False
    """Whether it is an internal error of arcacct: a retry after an upgrade may succeed."""


def optional(name: str, read: Callable[[], T], unusable: set[str]) -> T | None:
    """
    Return an optional value. If it is unusable, return ``None`` and add its name to ``unusable``.

    A job is rejected only for unusable values that accounting needs: its identity, its end and how long it ran.
    """
    try:
        return read()
    except ValueError:
        unusable.add(name)
        return None


def fault_of(error: BaseException) -> Fault:
    """Return the reason for an error in a record's handling: one line of bounded length."""
    name = type(error).__name__
    text = " ".join(str(error).split())
    if isinstance(error, UnicodeError):
        return Fault("its text is not Unicode")
    if isinstance(error, ValueError | InputError):
        return Fault(text[:_LONGEST] or "not usable")
    if name in _OF_VALUES:
        return Fault(_OF_VALUES[name])
    return Fault(f"internal error ({name}: {text[:_LONGEST]}): please report it with the record", True)


def tried(read: Callable[P, T], *args: P.args, **named: P.kwargs) -> T | Fault:
    """Return the value of a reader; or the reason for any error, which rejects only its record."""
    try:
        return read(*args, **named)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a source of another package may do anything
        return fault_of(error)


# The quarantine of imports: unusable records with their position and reason, until they can be used.
#
# Everything is bounded, since the writer of a file can make each of its lines unusable. Records beyond the bounds are
# only counted. The same record, in the same or another file, has one row.


LONGEST_BYTES = 1024 * 1024
"""Only this many bytes of a longer record are kept. A retry reads it from its file again."""
MOST_OF_A_FILE = 1000
MOST = 10_000
MOST_BYTES = 64 * 1024 * 1024

_COLUMNS = "RejectedID, Source, Scope, File, Position, Reason, IsOurs, Records, Rejected, Bytes"


class RejectedRecord(NamedTuple):
    """A record that cannot be used."""

    file: str
    position: str
    fault: Fault
    content: bytes
    """The whole record, as it was read; of a very long one at least LONGEST_BYTES."""
    bytes: int = 0
    """Length of the whole record; 0: that of ``content``."""


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
    """1, or the number of further records of the file that were only counted."""
    rejected_s: int
    bytes: int
    """Length of the whole record; at most LONGEST_BYTES of it are kept. -1: the records were only counted."""

    @property
    def is_whole(self) -> bool:
        """Whether the whole record is kept, so that a retry does not need its file."""
        return 0 < self.bytes <= LONGEST_BYTES


class RetryResult(NamedTuple):
    """The numbers of a retry of rejected records."""

    tried: int = 0
    good: int = 0
    """Imported now, and no longer rejected."""
    needs_file: int = 0
    """Too long to be kept, or only counted: their files must be imported again."""


class Rejections(NamedTuple):
    """How many records are rejected."""

    by_source: dict[str, int]
    oldest_s: int | None
    ours: int
    """Those rejected by an internal error of arcacct."""


def is_of_record(error: Exception) -> bool:
    """
    Whether an error is about a record or internal to arcacct, and not about the database or the system.

    A full disk, a locked or damaged database or a missing permission is not about a record. It ends the import, and
    nothing is lost.
    """
    cause = error.__cause__ if isinstance(error, ArcacctError) and error.__cause__ is not None else error
    if isinstance(cause, DatabaseError):
        # The values of a record overflow an integer sum in SQL.
        return isinstance(cause, OF_VALUES) or (
            isinstance(cause, OperationalError) and "integer overflow" in str(cause)
        )
    return not isinstance(error, OSError | ArcacctError) or isinstance(error, InputError)


class RejectedRecords:
    """
    The rejected records of one source (and scope).

    It caches the remaining room: call `forget` after a transaction that was rolled back.
    """

    def __init__(self, con: Connection, source: str, scope: str = "") -> None:
        self._con = con
        self._source = source
        self._scope = scope
        self._room: dict[str, int] = {}
        self._before: set[bytes] = set()
        """Digests of the records that `anew` deleted."""
        self._counted_before: dict[str, int] = {}
        """By file: the number of only counted records that `anew` deleted."""
        self._all: list[int] | None = None

    def forget(self) -> None:
        """Clear the cache after a transaction that was rolled back: it may no longer match the table."""
        self._room.clear()
        self._all = None

    def keep(self, rejects: Iterable[RejectedRecord]) -> list[RejectedRecord]:
        """
        Store the records that are not in the table yet, inside the caller's transaction; returns the new ones.

        Dropped records are remembered, so they are not new. Records that `anew` deleted are not new either, nor are
        counted ones until there are more of them than before.
        """
        news = []
        for one in rejects:
            # A record without content is identified by its position.
            what = one.content or f"{one.file}\0{one.position}".encode("utf-8", "surrogateescape")
            digest = blake2b(what, digest_size=16).digest()
            if self._asked("1", "Digest = ?", digest).fetchone() is not None:
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
        Delete the rows of a file that are not kept whole, since the file is read from its start again.

        Records that are still unusable come again. Inside the caller's transaction.
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
        """Return the files with records that are not kept whole: too long, or only counted."""
        return {one.file for one in listed(self._con, self._source, self._scope) if not one.is_whole}

    def _asked(self, columns: str, condition: str, value: object) -> Any:
        """Return columns of the rows of this source and scope that meet a condition on a value."""
        query = f"SELECT {columns} FROM ImportQuarantine WHERE Source = ? AND Scope = ? AND {condition}"
        return self._con.execute(query, (self._source, self._scope, value))

    def _has_room(self, file: str, size: int) -> bool:
        if self._all is None:
            count, total = self._con.execute(
                "SELECT count(*), ifnull(sum(length(Content)), 0) FROM ImportQuarantine WHERE Records > 0"
            ).fetchone()
            self._all = [MOST - count, MOST_BYTES - total]
        if file not in self._room:
            (used,) = self._asked("count(*)", "File = ? AND Content NOTNULL", file).fetchone()
            self._room[file] = MOST_OF_A_FILE - used
        if self._room[file] <= 0 or self._all[0] <= 0 or self._all[1] < size:
            return False
        self._room[file] -= 1
        self._all[0] -= 1
        self._all[1] -= size
        return True

    def _count(self, file: str) -> int:
        """Count one more record of a file without room; returns how many are counted now."""
        digest = blake2b(b"further records of " + file.encode("utf-8", "surrogateescape"), digest_size=16).digest()
        done = self._con.execute(
            "UPDATE ImportQuarantine SET Records = Records + 1 WHERE Source = ? AND Scope = ? AND Digest = ?",
            (self._source, self._scope, digest),
        )
        if not done.rowcount:
            fault = Fault("only counted: the list is full; correct the file and import it with --retry")
            self._insert(file, "further records", digest, fault, -1, None)
        return int(self._asked("Records", "Digest = ?", digest).fetchone()[0])

    def _insert(self, file: str, position: str, digest: bytes, fault: Fault, size: int, content: bytes | None) -> None:
        what = (self._source, self._scope, _storable(file), position, digest, _storable(fault.reason), fault.is_ours)
        self._con.execute(
            "INSERT INTO ImportQuarantine (Source, Scope, File, Position, Digest, Reason, IsOurs, Records, Rejected,"
            " Bytes, Content) VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?)",
            (*what, int(time.time()), size, content),
        )

    def waiting(self) -> Iterator[tuple[RejectedEntry, bytes]]:
        """Yield the records that can be retried, with their content, the oldest first; rows added meanwhile are not."""
        for one in listed(self._con, self._source, self._scope):
            query = "SELECT Content FROM ImportQuarantine WHERE RejectedID = ? AND Records > 0"
            # Another process may have dropped or retried it meanwhile.
            if one.is_whole and (row := self._con.execute(query, (one.rejected_id,)).fetchone()) is not None:
                yield one, bytes(row[0])

    def at(self, file: str) -> dict[str, list[int]]:
        """Return the RejectedIDs of a file, by position."""
        found: dict[str, list[int]] = {}
        for position, rejected_id in self._asked("Position, RejectedID", "File = ?", _storable(file)):
            found.setdefault(position, []).append(rejected_id)
        return found


def _storable(text: str) -> str:
    """Return a path or reason as text that the database can store."""
    return text.encode("utf-8", "backslashreplace").decode()


def listed(con: Connection, source: str | None = None, scope: str | None = None) -> list[RejectedEntry]:
    """Return all rows, or those of one source, the oldest first."""
    rows = con.execute(
        f"SELECT {_COLUMNS} FROM ImportQuarantine WHERE (?1 IS NULL OR Source = ?1) AND (?2 IS NULL OR Scope = ?2)"
        " AND Records > 0 ORDER BY RejectedID",
        (source, scope),
    )
    return [kept._replace(is_ours=bool(kept.is_ours)) for kept in map(RejectedEntry._make, rows)]


def rejections(con: Connection) -> Rejections:
    """Count the rejected records, including those that were only counted."""
    rows = con.execute(
        "SELECT Source, sum(Records), min(Rejected), sum(IsOurs) FROM ImportQuarantine WHERE Records > 0"
        " GROUP BY Source ORDER BY Source"
    ).fetchall()
    oldest = min((rejected for _source, _records, rejected, _ours in rows), default=None)
    ours = sum(ours for _source, _records, _rejected, ours in rows)
    return Rejections({source: records for source, records, _rejected, _ours in rows}, oldest, ours)


def needing_file(con: Connection, source: str, scope: str = "") -> int:
    """Return how many records need their files for a retry."""
    return sum(one.records for one in listed(con, source, scope) if not one.is_whole)


def content_of(con: Connection, rejected_id: int) -> bytes:
    """Return the stored bytes of a record. Raises InputError when there is no such row."""
    row = con.execute(
        "SELECT Content FROM ImportQuarantine WHERE RejectedID = ? AND Records > 0", (rejected_id,)
    ).fetchone()
    if row is None:
        raise InputError(f"{rejected_id}: no such rejected record; see `arcacct import rejected`")
    return bytes(row[0] or b"")


def drop(con: Connection, rejected_ids: Sequence[int]) -> int:
    """
    Remove records from the list, inside the caller's transaction; returns how many.

    The last MOST dropped ones are remembered without their content (Records is 0), so that they are not new when they
    are read again.
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
    """Delete records that can be used now, inside the caller's transaction; returns how many."""
    found = con.executemany("DELETE FROM ImportQuarantine WHERE RejectedID = ?", [(one,) for one in rejected_ids])
    return found.rowcount


def fault(error: Exception) -> Fault:
    """Return why a record is left out, from any error of its handling; unwraps the cause of an ArcacctError."""
    cause = error.__cause__
    return fault_of(cause if isinstance(error, ArcacctError) and isinstance(cause, Exception) else error)


# The number of unusable values that count as absent, by field, over the life of the database. Only telemetry counts
# them: its samples are too many for a list of those with such a value.


_DROPPED = "SONAR_DROPPED"
"""A key of DBConfig. The value is a JSON object. Its names are those of the format, so it stays small."""


def dropped(con: Connection) -> Counter[str]:
    """Return the counts by field."""
    return Counter(json.loads(noted(con, _DROPPED) or "{}"))


def add_dropped(con: Connection, counts: Mapping[str, int]) -> None:
    """Add to the counts, inside the caller's transaction."""
    if counts:
        note(con, _DROPPED, json.dumps(dropped(con) + Counter(counts), sort_keys=True))
