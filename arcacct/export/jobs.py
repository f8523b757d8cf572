"""
The months that changed since an export, and their jobs in the order of their ends, with names, pseudonyms or nothing
for users.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

from arcacct.database.connection import Connection
from arcacct.database.incarnation import highest_seq
from arcacct.export.dataset import Partition, columns
from arcacct.records.pseudonyms import KEPT_ATTRIBUTES, Names, fqan_without_names
from arcacct.records.reader import decoded, one_state
from arcacct.records.states import TRANSFER_KINDS
from arcacct.records.texts import plain_text, unescaped
from arcacct.secrecy import without_credentials
from arcacct.times import LAST_SECOND

# The months with jobs, and those that changed since an export: months of the end, UTC, as 202611.


JOBS, FORGOTTEN, CLOSED, ACCELERATORS = "jobs", "forgotten", "closed", "accelerators"
"""The key of a month, in addition to the log: `Now.seen`, and whether it is one of `Withdrawn.closed`."""
_MONTH = "CAST(strftime('%Y%m', EndTime, 'unixepoch') AS INTEGER)"
_OF_MONTHS = f"EndTime BETWEEN 1 AND {LAST_SECOND}"


class Withdrawn(NamedTuple):
    """Records that were removed from the database without an entry in the log."""

    pruned_before: int
    """UTC seconds: no job that ended then or later was moved into an archive."""
    forgotten: int
    """Records whose names were forgotten."""
    closed: frozenset[int]
    """Months in which names were forgotten."""


class Now(NamedTuple):
    """The state of the database at one moment."""

    seq: int
    """The highest Seq of FinishedLog."""
    events_row: int
    """The last row of JobEvents: rows added to an ended job are no change in the log."""
    seen: dict[int, dict[str, int]]
    """By month: the number of jobs, the number without names, and the sums of accelerators."""
    withdrawn: Withdrawn


def look(con: Connection) -> Now:
    """Return the present state; the counts read only indexes."""
    with one_state(con):
        seen: dict[int, dict[str, int]] = {month: {JOBS: jobs} for month, jobs in _counts(con)}
        # From the few changes to their records. Records that a target has received are forgotten without an entry in
        # the log.
        for month, jobs in con.execute(
            f"SELECT {_MONTH}, count(*) FROM PseudonymisedRecords CROSS JOIN AAR USING (RecordID)"
            f" WHERE {_OF_MONTHS} GROUP BY 1"
        ):
            seen[month][FORGOTTEN] = jobs
        for month, total in con.execute(
            f"SELECT {_MONTH}, count(*) + CAST(total(GPUCount) + total(GPUAllocatedS) + total(GPUBusyS)"
            " + total(GPUEnergyJ) + total(EnergyJ) + total(GPUOccupiedS) + total(GPUPeakMemory) AS INTEGER)"
            f" FROM {_ACCELERATORS} CROSS JOIN AAR ON AAR.RecordID = Known.RecordID WHERE {_OF_MONTHS} GROUP BY 1"
        ):
            seen[month][ACCELERATORS] = total
        (events_row,) = con.execute("SELECT ifnull(max(rowid), 0) FROM JobEvents").fetchone()
        return Now(highest_seq(con), events_row, seen, withdrawn(con))


def withdrawn(con: Connection) -> Withdrawn:
    """Return all removals so far."""
    (pruned_before,) = con.execute("SELECT ifnull(max(EndedBefore), 0) FROM Archives").fetchone()
    (forgotten,) = con.execute("SELECT count(*) FROM PseudonymisedRecords").fetchone()
    closed = frozenset(month for (month,) in con.execute("SELECT Month FROM PseudonymisedMonths"))
    return Withdrawn(pruned_before, forgotten, closed)


_ACCELERATORS = "KnownAccelerators AS Known LEFT JOIN JobTelemetry ON JobTelemetry.RecordID = Known.RecordID"


def _counts(con: Connection) -> Iterator[tuple[int, int]]:
    """Each month with its jobs; from one to the next on the index of EndTime."""
    after = 1
    while True:
        row = con.execute(
            f"SELECT min(EndTime), CAST(strftime('%Y', min(EndTime), 'unixepoch') AS INTEGER),"
            f" CAST(strftime('%m', min(EndTime), 'unixepoch') AS INTEGER) FROM AAR WHERE EndTime >= ? AND {_OF_MONTHS}",
            (after,),
        ).fetchone()
        if row[0] is None:
            return
        year, month = row[1:]
        begin, after = Partition("", year, month, "").bounds
        (jobs,) = con.execute("SELECT count(*) FROM AAR WHERE EndTime >= ? AND EndTime < ?", (begin, after)).fetchone()
        yield year * 100 + month, jobs


def changed(con: Connection, seq: int, events_row: int) -> set[int]:
    """Return the months with a record that was logged, removed or given an event after these positions."""
    logged = f"SELECT DISTINCT {_MONTH} FROM FinishedLog CROSS JOIN AAR USING (RecordID) WHERE Seq > ? AND {_OF_MONTHS}"
    left = f"SELECT DISTINCT {_MONTH} FROM PreviousVersions WHERE Seq > ? AND {_OF_MONTHS}"
    told = (
        f"SELECT DISTINCT {_MONTH} FROM JobEvents CROSS JOIN AAR USING (RecordID)"
        f" WHERE JobEvents.rowid > ? AND {_OF_MONTHS}"
    )
    return {
        month
        for query, place in ((logged, seq), (left, seq), (told, events_row))
        for (month,) in con.execute(query, (place,))
    }


def left_since(con: Connection, seq: int, partition: Partition) -> bool:
    """Whether a record left a month, or was deleted from it, since a position in the log."""
    query = "SELECT 1 FROM PreviousVersions WHERE Seq > ? AND EndTime >= ? AND EndTime < ? LIMIT 1"
    return con.execute(query, (seq, *partition.bounds)).fetchone() is not None


def pruned_among(con: Connection, records: Collection[tuple[int, str]]) -> set[int]:
    """Return which records, with their JobIDs as stored, were pruned: they are gone, and the log has no entry."""
    gone = {record_id for record_id, _job_id in records}
    numbers = ",".join(map(str, gone))
    gone -= {one for (one,) in con.execute(f"SELECT RecordID FROM AAR WHERE RecordID IN ({numbers})")}
    gone -= {one for (one,) in con.execute(f"SELECT RecordID FROM FinishedLog WHERE RecordID IN ({numbers})")}
    job_ids = [job_id for record_id, job_id in records if record_id in gone]
    query = f"SELECT JobID FROM AAR WHERE JobID IN ({','.join('?' * len(job_ids))})"
    # A job that came back from its control directory or a backup has another number.
    back = {job_id for (job_id,) in con.execute(query, job_ids)}
    return {record_id for record_id, job_id in records if record_id in gone and job_id not in back}


# The jobs of a month with all their rows, in the order of their ends, a page at a time.


PAGE_JOBS = 1000
"""A reader's transaction ends before a second is over (INVARIANTS 7)."""
_PAGE_ROWS = 50_000
Values = tuple[Any, ...]
"""A row of one table of the dataset; the number of its record comes first."""


class Job(NamedTuple):
    """A job, and its rows in the other tables."""

    end_s: int
    record_id: int
    values: Values
    children: dict[str, list[Values]]


def paged(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """Yield jobs page by page; a page has fewer jobs if they have many rows in other tables."""
    page: list[Job] = []
    rows = 0
    for job in jobs:
        page.append(job)
        rows += sum(map(len, job.children.values()))
        if len(page) >= PAGE_JOBS or rows >= _PAGE_ROWS:
            yield page
            page, rows = [], 0
    if page:
        yield page


def pages(con: Connection, partition: Partition) -> Iterator[list[Job]]:
    """Yield the jobs of a month; each page is the state of one moment."""
    begin, end = partition.bounds
    position = (begin, 0)
    while True:
        chosen = (*position, begin, end, PAGE_JOBS)
        with one_state(con):
            page = decoded(con, partial(_jobs, con, chosen))
        if not page:
            return
        yield page
        position = page[-1][:2]


def _jobs(con: Connection, chosen: tuple[int, ...]) -> list[Job]:
    keys = con.execute(
        # Not the held ones: they are in no figure (`records.holds`).
        "SELECT EndTime, RecordID FROM AccountedAAR WHERE (EndTime, RecordID) > (?, ?) AND EndTime >= ?"
        " AND EndTime < ? ORDER BY EndTime, RecordID LIMIT ?",
        chosen,
    ).fetchall()
    numbers = ",".join(str(record_id) for _end, record_id in keys)
    # The meaning of the columns of v1_jobs, with the reported values of jobs that do not count there.
    query = f"SELECT {_ASKED} FROM JobValues WHERE record_id IN ({numbers})"
    of_job: dict[int, Values] = {
        row[0]: (*row[: _FQAN + 1], *_group_and_role(row[_FQAN]), *row[_FQAN + 1 :]) for row in con.execute(query)
    }
    children = {table: _by_record(con, query.format(numbers)) for table, query in _CHILDREN.items()}
    for rows in children["accelerators"].values():
        rows[:] = [(*row[:3], row[3] and round(row[3]), *row[4:]) for row in rows]
    for rows in children["transfers"].values():
        rows[:] = [
            (row[0], without_credentials(unescaped(row[1])), TRANSFER_KINDS.get(row[2], "input"), *row[3:])
            for row in rows
        ]
    for rows in children["attributes"].values():
        rows[:] = [(*row[:3], row[3] if row[3] is None else unescaped(row[3])) for row in rows]
    return [
        Job(
            end,
            record_id,
            of_job[record_id],
            {table: rows[record_id] for table, rows in children.items() if record_id in rows},
        )
        for end, record_id in keys
    ]


_NAMES = [column.name for column in columns()["jobs"]]
_FQAN = _NAMES.index("fqan")
_ASKED = ", ".join(name for name in _NAMES if name not in ("vo_group", "vo_role"))


@lru_cache(maxsize=4096)
def _group_and_role(fqan: object) -> tuple[str | None, str | None]:
    """Return both as in the view, where they take a third of the time of a job."""
    text = "" if fqan is None else plain_text(fqan)
    group = re.split("/Role=|/Capability=", text, maxsplit=1)[0] if text.startswith("/") else None
    role = text.partition("/Role=")[2].partition("/")[0]
    return group, None if role in ("", "NULL") else role


# In the order of recording: the plus keeps SQLite on the index of RecordID.
_CHILDREN = {
    "events": (
        "SELECT RecordID, EventKey, CAST(strftime('%s', EventTime) AS INTEGER) AS T FROM JobEvents"
        " WHERE RecordID IN ({0}) ORDER BY RecordID, T, rowid"
    ),
    "transfers": (
        "SELECT RecordID, URL, TransferType, FileSize, TransferStart, TransferEnd,"
        " CAST(TransferEnd - TransferStart AS INTEGER) FROM DataTransfers"
        " WHERE RecordID IN ({0}) ORDER BY RecordID, rowid"
    ),
    "attributes": (
        "SELECT RecordID, Kind, Name, Value FROM ("
        "SELECT RecordID, 'token' AS Kind, AttrKey AS Name, AttrValue AS Value, 1 AS Place, rowid AS Row"
        " FROM AuthTokenAttributes WHERE RecordID IN ({0}) UNION ALL "
        "SELECT RecordID, 'rte', NULL, RTEName, 2, rowid FROM RunTimeEnvironments WHERE RecordID IN ({0}) UNION ALL "
        "SELECT RecordID, 'info', InfoKey, InfoValue, 3, rowid FROM JobExtraInfo WHERE RecordID IN ({0}))"
        " ORDER BY RecordID, Place, Row"
    ),
    "accelerators": (
        "SELECT Known.RecordID, coalesce(max(CASE WHEN Source = 'sonar' THEN Place END), max(Place)), max(GPUCount),"
        " max(GPUAllocatedS), GPUModel, GPUOccupiedS, max(GPUBusyS), GPUPeakMemory, max(GPUEnergyJ), max(EnergyJ)"
        f" FROM {_ACCELERATORS} WHERE Known.RecordID IN ({{0}}) GROUP BY Known.RecordID ORDER BY Known.RecordID"
    ),
}


def _by_record(con: Connection, query: str) -> dict[int, list[Values]]:
    found: dict[int, list[Values]] = defaultdict(list)
    for row in con.execute(query):
        found[row[0]].append(row)
    return found


# The users in a dataset: their names, pseudonyms by the key of the site, or nothing.


_NAMED = ("user_dn", "job_name", "client_host")
"""Columns of jobs whose text is a name, or leads to one."""
_WITH_NAMES = ("fqan", "vo_group")
"""Kinds that a part may have."""


class Concealer:
    """Jobs without names: with the pseudonyms of ``names``, or with empty names."""

    def __init__(self, names: Names | None) -> None:
        place = {column.name: number for number, column in enumerate(columns()["jobs"])}
        self._of = lru_cache(maxsize=65536)(lambda name: None if not name or names is None else names.of(name))
        self._fqan = lru_cache(maxsize=65536)(lambda text: fqan_without_names(self._of, text))
        self._ways: dict[int, Callable[[Any], Any]] = {
            **{place[one]: self._of for one in _NAMED},
            **{place[one]: self._fqan for one in _WITH_NAMES},
            place["local_user"]: self._account,
        }

    def __call__(self, job: Job) -> Job:
        """Return the job without the values that must not be published."""
        values = list(job.values)
        for number, way in self._ways.items():
            values[number] = way(values[number])
        children = dict(job.children)
        if "attributes" in children:
            children["attributes"] = [self._attribute(*row) for row in children["attributes"]]
        if "transfers" in children:
            # Paths on storage usually name users.
            children["transfers"] = [(row[0], _host(row[1]), *row[2:]) for row in children["transfers"]]
        return job._replace(values=tuple(values), children=children)

    def _account(self, text: Any) -> str | None:
        user, colon, group = str(text or "").partition(":")
        new = self._of(user)
        return None if new is None else f"{new}{colon}{self._of(group) if group == user else group}"

    def _attribute(self, record_id: int, kind: str, name: str, value: Any) -> Values:
        if kind == "token":
            value = self._fqan(value) if name in KEPT_ATTRIBUTES else self._of(value)
        elif kind == "info" and name == "localuser":
            value = self._account(value)
        elif kind == "info" and name in ("jobname", "clienthost"):
            value = self._of(value)
        return record_id, kind, name, value


def _host(url: Any) -> str | None:
    """Return only the host of a URL."""
    scheme, colon, rest = str(url or "").partition("://")
    # User names on storage are before an @.
    return f"{scheme}{colon}{rest.partition('/')[0].partition('?')[0].rpartition('@')[2]}" if colon else None
