"""
Writing whole jobs that another program recorded into our tables, a slice of jobs in each transaction.

What we recorded ourselves stays: our recorder saw the job's files. A record that came from the same source before is
made what the source says now. Nothing that is right already is written, so that nothing is logged as changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from arcacct.db.engine import Connection
from arcacct.jobs.recorder import last_record_id, set_children
from arcacct.jobs.rows import NUMBERS, Event, Row
from arcacct.jobs.states import FINAL, FQAN_KEYS, IN_PROGRESS

_AAR_COLUMNS = f"JobID, LocalJobID, EndpointID, QueueID, UserID, VOID, StatusID, {NUMBERS}"
_VALUES = _AAR_COLUMNS.removeprefix("JobID, ")
_UPDATE = (
    f"UPDATE AAR SET ({_VALUES}) = ({', '.join('?' * 19)}) WHERE RecordID = ?"
    f" AND ({_VALUES}) IS NOT ({', '.join('?' * 19)})"
)
_CHILD_COLUMNS = {
    "AuthTokenAttributes": "AttrKey, AttrValue",
    "RunTimeEnvironments": "RTEName",
    "DataTransfers": "URL, FileSize, TransferStart, TransferEnd, TransferType",
    "JobExtraInfo": "InfoKey, InfoValue",
}
_EVENT = "EventKey, EventTime"
_INSERT_EVENT = f"INSERT INTO JobEvents (RecordID, {_EVENT}) VALUES (?, ?, ?)"
_ROWS = 32
"""Rows of one INSERT: a statement for each row takes more than twice as long."""
_RECORD_NAMES = ("LocalJobID", "Interface", "URL", "Queue", "User", "VO", "Status", *NUMBERS.split(", "))


class ArexJob(NamedTuple):
    """One job as our tables keep it; texts percent-escaped as A-REX does, events in UTC."""

    job_id: str
    local_job_id: str
    interface: str
    url: str
    queue: str
    user_dn: str
    vo: str
    status: str
    numbers: tuple[int, ...]
    """
    ExitCode, SubmitTime, EndTime, NodeCount, CPUCount, UsedMemory, UsedVirtMem, UsedWalltime, UsedCPUUserTime,
    UsedCPUKernelTime, UsedScratch, StageInVolume, StageOutVolume.
    """
    auth_tokens: tuple[Row, ...]
    rtes: tuple[Row, ...]
    transfers: tuple[Row, ...]
    extra: tuple[Row, ...]
    events: tuple[Event, ...]

    @property
    def submit_time(self) -> int:
        """UTC seconds."""
        return self.numbers[1]

    @property
    def end_time(self) -> int:
        """UTC seconds; 0 while the job is in progress."""
        return self.numbers[2]

    @property
    def final(self) -> bool:
        """Whether the job is at its end."""
        return self.status in FINAL


class Known(NamedTuple):
    """What our database has of a job that is being imported."""

    record_id: int
    status: str
    end_time: int
    recorded: bool
    """Our own recorder has seen the job."""
    source: str | None
    """Where the record came from, when it was not the control directory."""


class Difference(NamedTuple):
    """A job of which we keep other values than the source has."""

    job_id: str
    what: tuple[str, ...]
    """``COLUMN ours VALUE, there VALUE``."""


class Written(NamedTuple):
    """What became of jobs."""

    added: int = 0
    """Jobs that we did not have."""
    changed: int = 0
    """Jobs that we had from the same source, and that changed there."""
    completed: int = 0
    """Jobs of which our recorder missed the end."""
    differences: tuple[Difference, ...] = ()


class JobWriter:
    """
    Writes jobs of one source, and remembers the IDs of names, which are append-only.

    Once a transaction was rolled back, make a new one: it may remember names that are gone.
    """

    def __init__(self, con: Connection, source: str, origin: str, *, vo_by_claims: bool = False) -> None:
        """
        ``source`` and ``origin`` go to RecordSources.

        ``vo_by_claims``: the site has rules by which claims of a token tell a job's VO, which the source does not know.
        """
        self._con = con
        self._source = source
        self._origin = origin
        self._vo_by_claims = vo_by_claims
        self._ids: dict[tuple[str, ...], int] = {}

    def write(self, jobs: Sequence[ArexJob]) -> Written:
        """Write a slice of jobs inside the caller's transaction; each JobID may be in it once."""
        known = known_jobs(self._con, [job.job_id for job in jobs])
        new = [job for job in jobs if job.job_id not in known]
        if new:
            self._insert(new)
        merged = [self._merge(known[job.job_id], job) for job in jobs if job.job_id in known]
        return Written(
            len(new),
            sum(one.changed for one in merged),
            sum(one.completed for one in merged),
            tuple(difference for one in merged for difference in one.differences),
        )

    def _insert(self, jobs: Sequence[ArexJob]) -> None:
        """
        New jobs: children first, under the numbers that their records will have, then the records.

        So each record enters FinishedLog once, by its own insertion. (Nobody else can insert meanwhile: the
        transaction is the only one that writes.)
        """
        numbered = list(enumerate(jobs, last_record_id(self._con) + 1))
        for table, columns in (*_CHILD_COLUMNS.items(), ("JobEvents", _EVENT)):
            rows = [(record_id, *row) for record_id, job in numbered for row in _rows(job, table)]
            _insert_rows(self._con, f"{table} (RecordID, {columns})", rows)
        self._con.executemany(
            "INSERT OR REPLACE INTO RecordSources (RecordID, Source, Origin) VALUES (?, ?, ?)",
            [(record_id, self._source, self._origin) for record_id, _job in numbered],
        )
        records = [(record_id, job.job_id, *self._values(job)) for record_id, job in numbered]
        _insert_rows(self._con, f"AAR (RecordID, {_AAR_COLUMNS})", records)

    def _values(self, job: ArexJob) -> tuple[object, ...]:
        """The columns of AAR after JobID."""
        return (
            job.local_job_id,
            self._id("Endpoints", job.interface, job.url),
            self._id("Queues", job.queue),
            self._id("Users", job.user_dn),
            self._id("WLCGVOs", job.vo),
            self._id("Status", job.status),
            *job.numbers,
        )

    def _id(self, table: str, *values: str) -> int:
        found = self._ids.get((table, *values))
        if found is None:
            found = self._look_up(table, values)
            self._ids[table, *values] = found
        return found

    def _look_up(self, table: str, values: tuple[str, ...]) -> int:
        columns = ("Interface", "URL") if table == "Endpoints" else ("Name",)
        condition = " AND ".join(f"{column} = ?" for column in columns)
        row = self._con.execute(f"SELECT ID FROM {table} WHERE {condition}", values).fetchone()
        if row is None:
            marks = ", ".join("?" * len(values))
            insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
            return self._con.execute(insert, values).lastrowid or 0
        return int(row[0])

    def _merge(self, known: Known, job: ArexJob) -> Written:
        """A job that we have already."""
        if known.source not in (None, self._source):
            return Written()
        if known.recorded:
            return self._complete(known, job)
        if not job.final and known.status != IN_PROGRESS:
            return Written()
        before = self._con.total_changes
        self._set_events(known.record_id, job)
        self._take(known.record_id, job)
        return Written(changed=int(self._con.total_changes != before))

    def _complete(self, known: Known, job: ArexJob) -> Written:
        """A job that our recorder has seen: what it missed is added, and what it has stays."""
        self._add_missing_events(known.record_id, job)
        if not job.final:
            return Written()
        # Aborted is what a sweep calls a job that vanished: a guess.
        if known.status in (IN_PROGRESS, "aborted") or job.end_time > known.end_time:
            self._take(known.record_id, job if job.vo else job._replace(vo=self._known_vo(known)))
            return Written(completed=1)
        return Written(differences=self._differences(known, job))

    def _known_vo(self, known: Known) -> str:
        """The VO of our record: a rule may have told it that the source does not have."""
        query = "SELECT Name FROM WLCGVOs WHERE ID = (SELECT VOID FROM AAR WHERE RecordID = ?)"
        return str(self._con.execute(query, (known.record_id,)).fetchone()[0])

    def _differences(self, known: Known, job: ArexJob) -> tuple[Difference, ...]:
        """Both have the job's end: what is not the same."""
        ours = self._con.execute(
            f"SELECT LocalJobID, Interface, URL, Queues.Name, Users.Name, WLCGVOs.Name, Status.Name, {NUMBERS} FROM AAR"
            " JOIN Endpoints ON Endpoints.ID = EndpointID JOIN Queues ON Queues.ID = QueueID"
            " JOIN Users ON Users.ID = UserID JOIN WLCGVOs ON WLCGVOs.ID = VOID JOIN Status ON Status.ID = +StatusID"
            " WHERE RecordID = ?",
            (known.record_id,),
        ).fetchone()
        theirs = (job.local_job_id, job.interface, job.url, job.queue, job.user_dn, job.vo, job.status, *job.numbers)
        children = {
            table: (_children(self._con, known.record_id, table, columns), _rows(job, table))
            for table, columns in _CHILD_COLUMNS.items()
        }
        has_voms = any(row[0] in FQAN_KEYS for rows in children["AuthTokenAttributes"] for row in rows)
        what = [
            f"{name} is {mine!r} here, {other!r} there"
            for name, mine, other in zip(_RECORD_NAMES, ours, theirs, strict=True)
            if mine != other and not (name == "VO" and not has_voms and self._is_by_rule(mine, other))
        ]
        for table, (mine, others) in children.items():
            if sorted(mine, key=repr) != sorted(others, key=repr):
                what.append(
                    f"{table} has {_listed(set(mine) - set(others))} here, {_listed(set(others) - set(mine))} there"
                )
        return (Difference(job.job_id, tuple(what)),) if what else ()

    def _is_by_rule(self, mine: object, other: object) -> bool:
        """Whether we have a VO by a rule of our configuration that the source does not know: nothing is wrong then."""
        return bool(mine) and (not other or self._vo_by_claims)

    def _take(self, record_id: int, job: ArexJob) -> None:
        """Make our record what the source says: children first, the status last, so that it is logged once."""
        for table in _CHILD_COLUMNS:
            set_children(self._con, record_id, table, list(_rows(job, table)))
        self._con.execute(
            "INSERT INTO RecordSources (RecordID, Source, Origin) SELECT ?1, ?2, ?3"
            " WHERE NOT EXISTS (SELECT 1 FROM RecordSources WHERE RecordID = ?1)",
            (record_id, self._source, self._origin),
        )
        values = self._values(job)
        self._con.execute(_UPDATE, (*values, record_id, *values))

    def _set_events(self, record_id: int, job: ArexJob) -> None:
        """The events of a job that only the source knows, in its order."""
        if _children(self._con, record_id, "JobEvents", _EVENT) != list(job.events):
            self._con.execute("DELETE FROM JobEvents WHERE RecordID = ?", (record_id,))
            self._con.executemany(_INSERT_EVENT, [(record_id, *event) for event in job.events])

    def _add_missing_events(self, record_id: int, job: ArexJob) -> None:
        """States that our recorder has never seen of a job: ARC 6 has no hook for INLRMS and CANCELING."""
        have = {row[0] for row in _children(self._con, record_id, "JobEvents", _EVENT)}
        missing = [(record_id, *event) for event in job.events if event[0] not in have]
        self._con.executemany(_INSERT_EVENT, missing)


def _insert_rows(con: Connection, into: str, rows: Sequence[Row]) -> None:
    """Rows into a table, in their order; each has a value for each of its columns."""
    if not rows:
        return
    width = len(rows[0])
    marks = f"({', '.join('?' * width)})"
    whole = len(rows) - len(rows) % _ROWS
    values = list(chain.from_iterable(rows[:whole]))
    blocks = [values[start : start + _ROWS * width] for start in range(0, len(values), _ROWS * width)]
    con.executemany(f"INSERT INTO {into} VALUES {', '.join([marks] * _ROWS)}", blocks)
    con.executemany(f"INSERT INTO {into} VALUES {marks}", rows[whole:])


def known_jobs(con: Connection, job_ids: Sequence[str]) -> dict[str, Known]:
    """What we have of these jobs, by JobID."""
    marks = ",".join("?" * len(job_ids))
    return {
        job_id: Known(record_id, status, end_time, bool(recorded), source)
        for job_id, record_id, status, end_time, recorded, source in con.execute(
            "SELECT JobID, AAR.RecordID, Status.Name, EndTime, StatusFiles.RecordID IS NOT NULL, Source FROM AAR"
            " JOIN Status ON Status.ID = +StatusID"
            " LEFT JOIN StatusFiles ON StatusFiles.RecordID = AAR.RecordID"
            " LEFT JOIN RecordSources ON RecordSources.RecordID = AAR.RecordID"
            f" WHERE JobID IN ({marks})",
            tuple(job_ids),
        )
    }


def _rows(job: ArexJob, table: str) -> Sequence[Row]:
    if table == "AuthTokenAttributes":
        return job.auth_tokens
    if table == "RunTimeEnvironments":
        return job.rtes
    if table == "DataTransfers":
        return job.transfers
    return job.extra if table == "JobExtraInfo" else job.events


def _children(con: Connection, record_id: int, table: str, columns: str) -> list[Row]:
    return con.execute(f"SELECT {columns} FROM {table} WHERE RecordID = ? ORDER BY rowid", (record_id,)).fetchall()


def _listed(rows: Iterable[Row]) -> str:
    return ", ".join(" ".join(map(str, row)) for row in sorted(rows, key=repr)) or "nothing more"
