"""
How the ledger stores the records of messages: narrow rows, with jobs and keys by number; instants and months as it
writes them.
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
from typing import Any, NamedTuple
from zlib import crc32

from arcacct.database.connection import Connection
from arcacct.database.durable import count_rolled_back
from arcacct.records import reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.publishing.ledger import SentRecord


# Instants and months of UTC, as the ledger has them and people read them.


DAY_S = 86400
Month = tuple[int, int]
"""Year and month, UTC."""


def recent_months(seconds: int) -> set[Month]:
    """The current and the previous month: APEL never reports a rejected message, so they are sent each time."""
    now = month_of(seconds)
    return {now, month_of(month_bounds(*now)[0] - 1)}


def next_month(seconds: int) -> int:
    """The first second of the month after this one."""
    return month_bounds(*month_of(seconds))[1]


def months_between(first_s: int, before_s: int) -> set[Month]:
    """Every month that has a second of ``[first_s, before_s)``."""
    months, start = set(), month_bounds(*month_of(first_s))[0]
    while start < before_s:
        months.add(month_of(start))
        start = next_month(start)
    return months


@lru_cache(maxsize=1024)
def month_bounds(year: int, month: int) -> tuple[int, int]:
    """The first second of a month and of the next."""
    first = calendar.timegm((year, month, 1, 0, 0, 0))
    # No calendar has the month behind the last of the year 9999.
    return first, first + calendar.monthrange(year, month)[1] * 86_400


def month_name(month: Month) -> str:
    """``2026-11``."""
    return f"{month[0]:04d}-{month[1]:02d}"


def iso(seconds: object) -> str:
    """``2026-11-20T10:30:00Z``; what is no time, or beyond any calendar, as it is."""
    if not isinstance(seconds, int) or not 0 <= seconds <= reader.LAST_SECOND:
        return str(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def month_of(end_time: int) -> Month:
    """Year and month of an end, UTC."""
    return _month_of_day(end_time // DAY_S)


@lru_cache(maxsize=1024)
def _month_of_day(day: int) -> Month:
    return time.gmtime(day * DAY_S)[:2]


# How the records of messages stand in the ledger: narrow rows, with jobs, and what keys have in common, by number.


MANY = 500
"""As many ids as go into one question."""
POSITION_BITS = 20
"""Of the number of a record: its place in the message."""
NEW_JOBS = 8192
"""So many hashes of jobs are collected before they go to the others, in order."""
_ROWS = 50
"""So many rows go into one INSERT: two thirds of what they cost one by one."""
_FORMS = 1000
"""More forms of keys than this are none: such keys are kept as they are."""
_WHOLE = 1, "\3"
"""The form of a key of which nothing follows from anything else."""


class PreviousVersion(NamedTuple):
    """What was accepted last of a job under a key, before a message."""

    receiver_row: str | None
    """The receiver's own number of the record."""
    digest: bytes
    total_id: int | None
    wall_s: int | None


def numbers(message_id: int) -> tuple[int, int]:
    """From which number on, and below which, the records of a message stand."""
    return message_id << POSITION_BITS, (message_id + 1) << POSITION_BITS


def of_messages(columns: str, where: str) -> str:
    """
    A SELECT of ``columns`` of Messages, Record (view SentRows) and PublishedTotals, for what ``where`` asks of them.

    Its parameters are those of ``columns`` and ``where``, by number.
    """
    return (
        # CROSS: from the messages to their records.
        f"SELECT {columns} FROM Messages CROSS JOIN SentRows AS Record ON Record.Number >= Messages.MessageID << 20"
        " AND Record.Number < (Messages.MessageID + 1) << 20 LEFT JOIN PublishedTotals ON"
        " PublishedTotals.PublishedTotalID = Record.PublishedTotalID"
        f" WHERE {where}"
    )


def of_jobs(
    con: Connection, columns: str, job_ids: Sequence[str], where: str, *values: object
) -> list[tuple[Any, ...]]:
    """
    ``columns`` of Messages and Record (view SentRows) of each message that carried some jobs, oldest first.

    Its ``values`` are those of ``where``, as ``?``. Any number of jobs.
    """
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(job_ids), MANY):
        some = job_ids[start : start + MANY]
        # CROSS: from the jobs, or SQLite looks at every message that the target was ever sent.
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
    """The numbers of those of some jobs that were ever in a message, by JobID."""
    return _numbers_of(con).known(job_ids)


class _JobNumbers:
    """The numbers of jobs that a connection asked for lately: none is looked up twice, found or not."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        self._taken_back = count_rolled_back()
        (self._last,) = con.execute("SELECT coalesce(max(Job), 0) FROM Jobs").fetchone()
        """The last job that was there when it was looked last. Who was not found is behind it, or nowhere."""
        self._known: dict[str, int | None] = {}
        self._record_ids: dict[int, int] = {}

    def is_of(self, con: Connection) -> bool:
        """Whether a connection may use it: what a transaction added that was rolled back is no job."""
        return self._con is con and self._taken_back == count_rolled_back()

    def known(self, job_ids: Sequence[str]) -> dict[str, int]:
        """As `known_jobs`."""
        if len(self._known) > NEW_JOBS:
            self._known, self._record_ids = {}, {}
        self._read_newest()
        known = self._known
        self._look_up([job_id for job_id in job_ids if job_id not in known])
        return {job_id: job for job_id in job_ids if (job := known[job_id]) is not None}

    def add(self, record_ids: Mapping[str, int]) -> dict[str, int]:
        """Number jobs that are not known, with their RecordIDs, in the caller's transaction; their numbers."""
        # `known` has read all that others added, and nobody else writes now.
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
        """Note under which RecordIDs known jobs were sent last: another life of the accounting database counts anew."""
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
            # Others may have the same hash: they are what they are.
            self._known.update((job_id, job) for job_id, job, _record_id in rows)
            self._record_ids.update((job, record_id) for _job_id, job, record_id in rows)


class _Known(local):
    """Of each thread: it has a connection of its own."""

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
    """By JobID and key: what a target accepted last of some jobs before a message."""
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
    """The receiver's numbers of records, by position, as one text: each as its distance to the one before."""
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
    """What `packed_rows` was given; nothing for a message that has none."""
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
    # As signed numbers: they take four bytes.
    return [crc32(job_id.encode()) - 2**31 for job_id in job_ids]


def _insert(con: Connection, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows of all columns of a table."""
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
    Write down the records of a message, in the caller's transaction.

    ``given_ids``: for each the row of PublishedTotals where the receiver counts it; ``None``: nowhere. ``jobs`` by
    JobID: see `job_numbers`. ``form_of``: where the same transaction writes several messages.
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
        _site,
        _host,
        wall_s,
        replaced_id,
        replaced_s,
    ), total_id in zip(records, given_ids, strict=True):
        form, rest = form_of.parts(key, job_id, end_time)
        rows.append(
            (number, jobs[job_id], end_time, digest, form, rest, notes, total_id, wall_s, replaced_id, replaced_s)
        )
        number += 1
    _insert(con, "SentRecords", rows)


def job_numbers(con: Connection, records: Iterable[SentRecord]) -> dict[str, int]:
    """The numbers of the jobs of some records, by JobID; a new one for who has none, in the caller's transaction."""
    record_ids = {one.job_id: one.record_id for one in records}
    numbered = _numbers_of(con)
    jobs = numbered.known(list(record_ids))
    if jobs:
        numbered.renumber(record_ids, jobs)
    if len(jobs) < len(record_ids):
        jobs |= numbered.add({job_id: one for job_id, one in record_ids.items() if job_id not in jobs})
    return jobs


class KeyTemplates:
    """The forms of keys: for the messages of one transaction."""

    def __init__(self, con: Connection) -> None:
        """To be used in the caller's transaction."""
        self._con = con
        self._ids = {_WHOLE[1]: _WHOLE[0]}
        self._ends: tuple[int, str, str] | None = None
        """Of the last form that is nothing but a JobID between two texts: its number, and the texts."""

    def parts(self, key: str, job_id: str, end_time: int) -> tuple[int, str]:
        """The number of the form of a key, see table KeyTemplates, and what else is in it."""
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
    # The id in the batch system is the last text of a key of several.
    before, found, behind = form.rpartition('"')
    if found:
        before, found, text = before.rpartition('"')
        if found and text.isprintable():
            form, rest = f'{before}"\3"{behind}', text
    return form, rest
