"""
How the ledger stores the records of messages: narrow rows that refer to jobs and keys by number. Also its formats of
times and months.
"""

from __future__ import annotations

import calendar
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from threading import local
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from arcacct.database.connection import Connection
from arcacct.database.durable import count_rolled_back
from arcacct.records import reader

if TYPE_CHECKING:
    from arcacct.publishing.ledger import SentRecord


# Times and months in UTC, as the ledger stores them and people read them.


DAY_S = 86400
Month = tuple[int, int]
"""Year and month, UTC."""


def recent_months(seconds: int) -> set[Month]:
    """Return the current and the previous month. APEL never reports a rejected message, so they are sent each time."""
    now = month_of(seconds)
    return {now, month_of(month_bounds(*now)[0] - 1)}


def next_month(seconds: int) -> int:
    """Return the first second of the month after this one."""
    return month_bounds(*month_of(seconds))[1]


def months_between(first_s: int, before_s: int) -> set[Month]:
    """Return every month that has a second of ``[first_s, before_s)``."""
    months, start = set(), month_bounds(*month_of(first_s))[0]
    while start < before_s:
        months.add(month_of(start))
        start = next_month(start)
    return months


@lru_cache(maxsize=1024)
def month_bounds(year: int, month: int) -> tuple[int, int]:
    """Return the first second of a month and of the next."""
    first = calendar.timegm((year, month, 1, 0, 0, 0))
    # Python's calendar ends with the year 9999, so the first second of the next month is computed.
    return first, first + calendar.monthrange(year, month)[1] * 86_400


def month_name(month: Month) -> str:
    """Return a month as ``2026-11``."""
    return f"{month[0]:04d}-{month[1]:02d}"


def iso(seconds: object) -> str:
    """Return a time as ``2026-11-20T10:30:00Z``; a value that is no valid time is returned as text unchanged."""
    if not isinstance(seconds, int) or not 0 <= seconds <= reader.LAST_SECOND:
        return str(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def month_of(end_time: int) -> Month:
    """Return the year and month (UTC) of an end time."""
    return _month_of_day(end_time // DAY_S)


@lru_cache(maxsize=1024)
def _month_of_day(day: int) -> Month:
    return time.gmtime(day * DAY_S)[:2]


# How the ledger stores the records of messages: narrow rows that refer to jobs, and to common parts of keys, by number.


MANY = 500
"""The highest number of ids in one query."""
POSITION_BITS = 20
"""The bits of a record's number that contain its place in the message."""
NEW_JOBS = 8192
"""This many hashes of new jobs are collected before they are moved, sorted, to the others."""
_ROWS = 50
"""The rows of one INSERT. This costs two thirds of single INSERTs."""
_FORMS = 1000
"""The highest number of key templates. Further keys are stored whole."""
_WHOLE = 1, "\3"
"""The template of a key that is stored whole."""


class PreviousVersion(NamedTuple):
    """The version of a job that was accepted last under a key, before a message."""

    receiver_row: str | None
    """The receiver's own number of the record."""
    digest: bytes
    total_id: int | None
    wall_s: int | None


def numbers(message_id: int) -> tuple[int, int]:
    """Return the first number of a message's records, and the first number after them."""
    return message_id << POSITION_BITS, (message_id + 1) << POSITION_BITS


def of_messages(columns: str, where: str) -> str:
    """
    Return a SELECT of ``columns`` of Messages, Record (view SentRows) and PublishedTotals, with the condition
    ``where``.

    The parameters in ``columns`` and ``where`` must be numbered.
    """
    return (
        # CROSS makes SQLite start with the messages and then read their records.
        f"SELECT {columns} FROM Messages CROSS JOIN SentRows AS Record ON Record.Number >= Messages.MessageID << 20"
        " AND Record.Number < (Messages.MessageID + 1) << 20 LEFT JOIN PublishedTotals ON"
        " PublishedTotals.PublishedTotalID = Record.PublishedTotalID"
        f" WHERE {where}"
    )


def of_jobs(
    con: Connection, columns: str, job_ids: Sequence[str], where: str, *values: object
) -> list[tuple[Any, ...]]:
    """
    Return ``columns`` of Messages and Record (view SentRows) for each message with any of some jobs, oldest first.

    ``values`` are the parameters of ``where``, as ``?``. The number of jobs is not limited.
    """
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(job_ids), MANY):
        some = job_ids[start : start + MANY]
        # CROSS makes SQLite start with the jobs. Otherwise it reads every message that the target was ever sent.
        if jobs := known_jobs(con, some).values():
            rows = con.execute(
                f"SELECT Record.MessageID, Record.Position, {columns} FROM SentRows AS Record CROSS JOIN Messages"
                f" ON Messages.MessageID = Record.MessageID WHERE {where}"
                f" AND Record.Job IN ({','.join('?' * len(jobs))})",
                (*values, *jobs),
            )
            found += rows.fetchall()
    found.sort(key=itemgetter(0, 1))
    return [row[2:] for row in found]


def known_jobs(con: Connection, job_ids: Sequence[str]) -> dict[str, int]:
    """Return the numbers of the jobs that were ever in a message, by JobID."""
    return _numbers_of(con).known(job_ids)


class _JobNumbers:
    """A cache of job numbers for one connection: no job is looked up twice, whether it was found or not."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        self._taken_back = count_rolled_back()
        (self._last,) = con.execute("SELECT coalesce(max(Job), 0) FROM Jobs").fetchone()
        """The last job at the last look. A job that was not found has a higher number or none."""
        self._known: dict[str, int | None] = {}
        self._record_ids: dict[int, int] = {}

    def is_of(self, con: Connection) -> bool:
        """Whether the cache is valid for a connection: it is not after a rollback, which removes added jobs."""
        return self._con is con and self._taken_back == count_rolled_back()

    def known(self, job_ids: Sequence[str]) -> dict[str, int]:
        """Return the numbers of known jobs, as `known_jobs`."""
        if len(self._known) > NEW_JOBS:
            self._known, self._record_ids = {}, {}
        self._read_newest()
        known = self._known
        self._look_up([job_id for job_id in job_ids if job_id not in known])
        return {job_id: job for job_id in job_ids if (job := known[job_id]) is not None}

    def add(self, record_ids: Mapping[str, int]) -> dict[str, int]:
        """Add unknown jobs with their RecordIDs, in the caller's transaction; return their numbers."""
        # `known` has read all jobs that others added, and no other process writes now.
        numbered = range(self._last + 1, self._last + 1 + len(record_ids))
        _insert(self._con, "Jobs", list(zip(numbered, record_ids, record_ids.values(), strict=True)))
        _insert(self._con, "NewJobHashes", sorted(zip(_hashes(record_ids), numbered, strict=True)))
        if numbered.start // NEW_JOBS != numbered.stop // NEW_JOBS:
            self._con.execute("INSERT INTO JobHashes SELECT Hash, Job FROM NewJobHashes ORDER BY Hash, Job")
            self._con.execute("DELETE FROM NewJobHashes")
        added = dict(zip(record_ids, numbered, strict=True))
        self._known.update(added)
        self._record_ids.update(zip(numbered, record_ids.values(), strict=True))
        self._last = numbered[-1]
        return added

    def renumber(self, record_ids: Mapping[str, int], jobs: Mapping[str, int]) -> None:
        """Store changed RecordIDs of known jobs: each accounting database incarnation numbers its records anew."""
        known = self._record_ids
        moved = {
            job: record_id
            for job_id, job in jobs.items()
            if (record_id := record_ids[job_id]) and record_id != known[job]
        }
        self._con.executemany("UPDATE Jobs SET RecordID = ? WHERE Job = ?", [(one, job) for job, one in moved.items()])
        known.update(moved)

    def _read_newest(self) -> None:
        rows = self._con.execute("SELECT Job, JobID, RecordID FROM Jobs WHERE Job > ?", (self._last,)).fetchall()
        for job, job_id, record_id in rows:
            self._known[job_id] = self._last = job
            self._record_ids[job] = record_id

    def _look_up(self, job_ids: Sequence[str]) -> None:
        for start in range(0, len(job_ids), MANY):
            some = job_ids[start : start + MANY]
            hashes, marks = _hashes(some), ",".join("?" * len(some))
            rows = self._con.execute(
                "SELECT JobID, Job, RecordID FROM Jobs WHERE Job IN (SELECT Job FROM NewJobHashes WHERE Hash IN"
                f" ({marks}) UNION ALL SELECT Job FROM JobHashes WHERE Hash IN ({marks}))",
                hashes + hashes,
            ).fetchall()
            self._known.update(dict.fromkeys(some))
            # The rows can include other jobs with the same hash; they are cached, too.
            self._known.update((job_id, job) for job_id, job, _record_id in rows)
            self._record_ids.update((job, record_id) for _job_id, job, record_id in rows)


class _Known(local):
    """One cache for each thread, since each thread has its own connection."""

    numbers: _JobNumbers | None = None


_KNOWN = _Known()


def _numbers_of(con: Connection) -> _JobNumbers:
    numbers = _KNOWN.numbers
    if numbers is None or not numbers.is_of(con):
        numbers = _KNOWN.numbers = _JobNumbers(con)
    return numbers


def versions_before(
    con: Connection, target: str, job_ids: Sequence[str], message_id: int
) -> dict[tuple[str, str], PreviousVersion]:
    """Return, by JobID and key, the version of some jobs that a target accepted last before a message."""
    found = {}
    rows_of: dict[int, list[str | None]] = {}
    for job_id, key, number, position, packed, *values in of_jobs(
        con,
        "JobID, Key, Record.MessageID, Record.Position, ReceiverRows, Record.Digest, PublishedTotalID, Wall",
        job_ids,
        "Target = ? AND State = 'accepted' AND Record.MessageID < ?",
        target,
        message_id,
    ):
        if packed is not None and number not in rows_of:
            rows_of[number] = unpacked_rows(packed)
        row = None if packed is None else rows_of[number][position]
        found[job_id, key] = PreviousVersion(row, *values)
    return found


def packed_rows(rows: Iterable[str | None]) -> str:
    """Return the receiver's row numbers, by position, as one text: each as its difference from the previous one."""
    packed: list[int | str | None] = []
    last = 0
    for row in rows:
        if row is not None and row.isdecimal() and str(number := int(row)) == row:
            packed.append(number - last)
            last = number
        else:
            packed.append(row)
    return json.dumps(packed, separators=(",", ":"))


def unpacked_rows(packed: str | None) -> list[str | None]:
    """Return the row numbers from `packed_rows`; an empty list if the message has none."""
    rows: list[str | None] = []
    last = 0
    for row in json.loads(packed or "[]"):
        if isinstance(row, int):
            last += row
            rows.append(str(last))
        else:
            rows.append(row)
    return rows


def _hashes(job_ids: Iterable[str]) -> list[int]:
    # Signed numbers take four bytes.
    return [crc32(job_id.encode()) - 2**31 for job_id in job_ids]


def _insert(con: Connection, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows with values for all columns of a table."""
    several = len(rows) - len(rows) % _ROWS
    if rows:
        row = f"({','.join('?' * len(rows[0]))})"
        for start in range(0, several, _ROWS):
            values = list(chain.from_iterable(rows[start : start + _ROWS]))
            con.execute(f"INSERT INTO {table} VALUES {','.join([row] * _ROWS)}", values)
        con.executemany(f"INSERT INTO {table} VALUES {row}", rows[several:])


def add(
    con: Connection,
    message_id: int,
    records: Sequence[SentRecord],
    given_ids: Iterable[int | None],
    jobs: Mapping[str, int],
    form_of: KeyTemplates | None = None,
) -> None:
    """
    Store the records of a message, in the caller's transaction.

    ``given_ids``: for each record the row of PublishedTotals with its names; ``None``: none has. ``jobs``: numbers
    by JobID, from `job_numbers`. ``form_of``: the templates, if the same transaction stores several messages.
    """
    form_of = form_of or KeyTemplates(con)
    rows = []
    number, _behind = numbers(message_id)
    for (
        job_id,
        _id,
        _seq,
        end_time,
        digest,
        key,
        notes,
        _names,
        wall_s,
        replaced_id,
        replaced_s,
        _total_id,
    ), total_id in zip(records, given_ids, strict=True):
        form, rest = form_of.parts(key, job_id, end_time)
        rows.append(
            (number, jobs[job_id], end_time, digest, form, rest, notes, total_id, wall_s, replaced_id, replaced_s)
        )
        number += 1
    _insert(con, "SentRecords", rows)


def job_numbers(con: Connection, records: Iterable[SentRecord]) -> dict[str, int]:
    """Return the numbers of the jobs of some records, by JobID. Add the unknown jobs, in the caller's transaction."""
    record_ids = {one.job_id: one.record_id for one in records}
    numbered = _numbers_of(con)
    jobs = numbered.known(list(record_ids))
    if jobs:
        numbered.renumber(record_ids, jobs)
    if len(jobs) < len(record_ids):
        jobs |= numbered.add({job_id: one for job_id, one in record_ids.items() if job_id not in jobs})
    return jobs


class KeyTemplates:
    """The templates of keys, for the messages of one transaction."""

    def __init__(self, con: Connection) -> None:
        """Use it only in the caller's transaction."""
        self._con = con
        self._ids = {_WHOLE[1]: _WHOLE[0]}
        self._ends: tuple[int, str, str] | None = None
        """The last template that is only a JobID between two texts: its number and the two texts."""

    def parts(self, key: str, job_id: str, end_time: int) -> tuple[int, str]:
        """Return the number of a key's template (table KeyTemplates) and the rest of the key."""
        if self._ends is not None:
            form_id, before, behind = self._ends
            if f"{before}{job_id}{behind}" == key and job_id.isprintable():
                return form_id, ""
        form, rest = _form(key, job_id, end_time)
        form_id = self._ids.get(form, 0)
        if not form_id:
            form_id = self._ids[form] = self._known(form)
        if form_id == _WHOLE[0]:
            return form_id, key
        before, found, behind = form.partition("\1")
        if found and form.count("\2") + form.count("\3") == 0:
            self._ends = form_id, before, behind
        return form_id, rest

    def _known(self, form: str) -> int:
        found = self._con.execute("SELECT TemplateID FROM KeyTemplates WHERE Template = ?", (form,)).fetchone()
        if found is not None:
            return int(found[0])
        (last,) = self._con.execute("SELECT max(TemplateID) FROM KeyTemplates").fetchone()
        if last >= _FORMS:
            return _WHOLE[0]
        self._con.execute("INSERT INTO KeyTemplates VALUES (?, ?)", (last + 1, form))
        return int(last) + 1


def _form(key: str, job_id: str, end_time: int) -> tuple[str, str]:
    if not key.isprintable() or not job_id:
        return _WHOLE[1], key
    form, rest = key, ""
    before, found, behind = form.rpartition(job_id)
    if found:
        form = f"{before}\1{behind}"
    if type(end_time) is int:
        before, found, behind = form.rpartition(str(end_time))
        if found:
            form = f"{before}\2{behind}"
    # In a key of several texts, the last one is the local ID.
    before, found, behind = form.rpartition('"')
    if found:
        before, found, text = before.rpartition('"')
        if found and text.isprintable():
            form, rest = f'{before}"\3"{behind}', text
    return form, rest
