"""Writing whole jobs into our tables, a slice in each transaction: the one way in for every source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from arcacct.database.connection import Connection
from arcacct.records import packing
from arcacct.records.enrichment import EVENTS, OF_AREX, UNASKED, Value, precedes, present, set_holders, unmeasured
from arcacct.records.holds import hold, judge, known_cores, unhold
from arcacct.records.model import Job
from arcacct.records.pseudonyms import pseudonymised
from arcacct.records.reader import unescaped
from arcacct.records.recorder import CHILDREN, dimension_ids, escaped, last_record_id, name_id, set_children
from arcacct.records.row_mapping import NUMBERS, ArexRows, Numbers, Row, rows_of, stored
from arcacct.records.states import ABORTED, FINAL, FQAN_KEYS, IN_PROGRESS, UNKNOWN, ImplausibleValue, implausible_values

_AAR_COLUMNS = f"JobID, LocalJobID, EndpointID, QueueID, UserID, VOID, StatusID, {NUMBERS}"
_VALUES = _AAR_COLUMNS.removeprefix("JobID, ")
_UPDATE = (
    f"UPDATE AAR SET ({_VALUES}) = ({', '.join('?' * 19)}) WHERE RecordID = ?"
    f" AND ({_VALUES}) IS NOT ({', '.join('?' * 19)})"
)
_CHILDREN = {
    "AuthTokenAttributes": "auth_tokens",
    "RunTimeEnvironments": "rtes",
    "DataTransfers": "transfers",
    "JobExtraInfo": "extra",
}
"""By table the field of ArexRows; a change of these children, unlike that of events, is a change of the record."""
_INSERT_EVENT = "INSERT INTO JobEvents (RecordID, EventKey, EventTime) VALUES (?, ?, ?)"
LRMS_START = "LRMSSTART"
_ROWS = 32
"""Rows of one INSERT: a statement for each row takes more than twice as long."""
_RECORD_NAMES = ("LocalJobID", "Interface", "URL", "Queue", "User", "VO", "Status", *NUMBERS.split(", "))
OF_HOLDS = ("RecordHolds", "HoldDecisions")
"""Those that a trigger deletes behind the record: what it counted as depends on them."""
OF_RECORD = (
    *_CHILDREN,
    *("JobEvents", "RecordSources", "FieldSources", "TruncationNotes", "AuthGroups", "StatusFiles", "JobTelemetry"),
    *("TelemetryToDivide", "PackedJobs"),
    "PseudonymisedRecords",
    *OF_HOLDS,
)
"""The tables with rows of a record that mean nothing without it."""


class KnownJob(NamedTuple):
    """What our database has of a job."""

    record_id: int
    status: str
    end_time: int
    recorded: bool
    """Our own recorder has seen the job."""
    source: str | None
    """Where the record came from, when it was not the control directory."""
    has_others: bool
    """Whether others than its own source told something of it."""


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
    record_ids: Mapping[str, int] = {}
    """The record of each job by its id, whatever became of it."""
    without_wall: int = 0
    """Finished jobs, of those added or changed, whose wall time the source does not tell; the next: their CPU time."""
    without_cpu: int = 0


class JobWriter:
    """
    Writes jobs of one source, and remembers the IDs of names, which are append-only.

    Once a transaction was rolled back, make a new one: it may remember names that are gone.
    """

    def __init__(self, con: Connection, source: str, origin: str, *, vo_by_claims: bool = False) -> None:
        """
        ``source``, one of `precedence.SOURCES`, and ``origin`` (file, cell, cluster) go to RecordSources.

        ``vo_by_claims``: the site has rules by which claims of a token tell a job's VO, which the source does not know.
        """
        self._con = con
        self._source = source
        self._origin = origin
        self._vo_by_claims = vo_by_claims
        self._ids: dict[tuple[str, ...], tuple[int, ...]] = {}

    def write(self, jobs: Sequence[Job]) -> Written:
        """Write a slice of jobs inside the caller's transaction; each job may be in it once."""
        known = known_jobs(self._con, [job.job_id for job in jobs])
        # Whatever a source tells of them again, they stay as they are: it would bring the names back.
        closed = pseudonymised(self._con, [one.record_id for one in known.values()])
        new = [job for job in jobs if job.job_id not in known]
        record_ids = {job_id: one.record_id for job_id, one in known.items()}
        if new:
            rows = [stored(job) for job in new]
            first = self.insert(rows, without_cores=[job.core_count is None for job in new])
            packing.keep(self._con, _packs(rows, first))
            for record_id, job in enumerate(new, first):
                record_ids[job.job_id] = record_id
                labels = _labels(job)
                if labels:
                    set_holders(self._con, record_id, labels)
        again = [job for job in jobs if job.job_id in known and known[job.job_id].record_id not in closed]
        merged = [self._merge(known[job.job_id], job) for job in again]
        written = [*new, *(job for job, one in zip(again, merged, strict=True) if one.changed)]
        return Written(
            len(new),
            sum(one.changed for one in merged),
            sum(one.completed for one in merged),
            tuple(difference for one in merged for difference in one.differences),
            record_ids,
            sum(job.wall_s is None and job.status in FINAL for job in written),
            sum(job.cpu_user_s is None and job.status in FINAL for job in written),
        )

    def insert(self, jobs: Sequence[ArexRows], *, without_cores: Sequence[bool] = ()) -> int:
        """
        New jobs, as they are to be stored; returns the RecordID of the first, the others follow.

        ``without_cores``: of each job whether its number of cores is unknown; none is where this is empty.

        Children first, under the numbers that their records will have, then the records: so each enters FinishedLog
        once, by its own insertion. (Nobody else can insert meanwhile: the transaction is the only one that writes.)
        """
        first = last_record_id(self._con) + 1
        numbered = list(enumerate(jobs, first))
        for table, field in (*_CHILDREN.items(), ("JobEvents", "events")):
            rows = [(record_id, *row) for record_id, job in numbered for row in getattr(job, field)]
            _insert_rows(self._con, f"{table} (RecordID, {', '.join(CHILDREN[table])})", rows)
        self._con.executemany(
            "INSERT OR REPLACE INTO RecordSources (RecordID, Source, Origin) VALUES (?, ?, ?)",
            [(record_id, self._source, self._origin) for record_id, _job in numbered],
        )
        for number, (record_id, job) in enumerate(numbered):
            if found := self._implausible(job, has_cores=not (without_cores and without_cores[number])):
                self._hold(record_id, found, job)
        records = [(record_id, job.job_id, *self._values(job)) for record_id, job in numbered]
        _insert_rows(self._con, f"AAR (RecordID, {_AAR_COLUMNS})", records)
        return first

    def _values(self, job: ArexRows) -> tuple[object, ...]:
        """The columns of AAR after JobID."""
        names = (job.interface, job.url, job.queue, job.user_dn, job.vo, job.status)
        if names not in self._ids:
            self._ids[names] = (*dimension_ids(self._con, names[:5]), name_id(self._con, "Status", job.status))
        return (job.local_job_id, *self._ids[names], *job.numbers)

    def _merge(self, known: KnownJob, job: Job) -> Written:
        """A job that we have already."""
        if known.source not in (None, self._source):
            return Written()
        if known.recorded:
            return self._complete(known, job)
        if job.status not in FINAL and known.status != IN_PROGRESS:
            return Written()
        before = self._con.total_changes
        job, events = self._judged(known, job)
        rows = stored(job)
        events = [*rows.events, *events]
        if self._events(known) != events:
            self._con.execute("DELETE FROM JobEvents WHERE RecordID = ?", (known.record_id,))
            self._con.executemany(_INSERT_EVENT, [(known.record_id, *event) for event in events])
        self._put(known, rows, has_cores=job.core_count is not None)
        return Written(changed=int(self._con.total_changes != before))

    def _complete(self, known: KnownJob, job: Job) -> Written:
        """A job that our recorder has seen: what it missed is added, and what it has stays."""
        rows = stored(job)
        # States that it has never seen: ARC 6 has no hook for INLRMS and CANCELING.
        have = {row[0] for row in self._events(known)}
        missing = [(known.record_id, *event) for event in rows.events if event[0] not in have]
        self._con.executemany(_INSERT_EVENT, missing)
        if job.status not in FINAL:
            return Written()
        # Aborted is what a sweep calls a job that vanished: a guess.
        if known.status in (IN_PROGRESS, ABORTED) or job.end_time > known.end_time:
            job, _events = self._judged(known, job)
            rows = stored(job)
            if not rows.vo:
                # A rule may have told one that the source does not have.
                query = "SELECT Name FROM WLCGVOs WHERE ID = (SELECT VOID FROM AAR WHERE RecordID = ?)"
                rows = rows._replace(vo=str(self._con.execute(query, (known.record_id,)).fetchone()[0]))
            if not any(key in FQAN_KEYS for key, _value in rows.auth_tokens):
                # The first group of a token, which it does not call an FQAN.
                query = "SELECT AttrKey, AttrValue FROM AuthTokenAttributes WHERE RecordID = ? AND AttrKey = 'mainfqan'"
                first = self._con.execute(query, (known.record_id,)).fetchall()
                rows = rows._replace(auth_tokens=[*first, *rows.auth_tokens])
            self._put(known, rows, has_cores=job.core_count is not None)
            return Written(completed=1)
        return Written(differences=self._differences(known, rows))

    def _events(self, known: KnownJob) -> list[Row]:
        query = "SELECT EventKey, EventTime FROM JobEvents WHERE RecordID = ? ORDER BY rowid"
        return self._con.execute(query, (known.record_id,)).fetchall()

    def _differences(self, known: KnownJob, rows: ArexRows) -> tuple[Difference, ...]:
        """Both have the job's end: what is not the same."""
        (ours,) = rows_of(self._con, 1, [known.record_id])
        if not any(key in FQAN_KEYS for key, _value in rows.auth_tokens):
            ours = ours._replace(auth_tokens=self._as_reported(ours.auth_tokens))
        children = {table: (getattr(ours, field), getattr(rows, field)) for table, field in _CHILDREN.items()}
        has_voms = any(row[0] in FQAN_KEYS for some in children["AuthTokenAttributes"] for row in some)
        what = [
            f"{name} is {mine!r} here, {other!r} there"
            for name, mine, other in zip(
                _RECORD_NAMES, (*ours[2:9], *ours.numbers), (*rows[2:9], *rows.numbers), strict=True
            )
            if mine != other
            # A VO by a rule of our configuration that the source does not know: nothing is wrong then.
            and not (name == "VO" and not has_voms and mine and (not other or self._vo_by_claims))
        ]
        for table, (mine, others) in children.items():
            if sorted(mine, key=repr) != sorted(others, key=repr):
                what.append(
                    f"{table} has {_listed(set(mine) - set(others))} here, {_listed(set(others) - set(mine))} there"
                )
        return (Difference(unescaped(rows.job_id), tuple(what)),) if what else ()

    def _as_reported(self, tokens: Sequence[Row]) -> Sequence[Row]:
        """
        The attributes of a token without its first group, which our recorder has as the first FQAN, and A-REX has not.

        By the rules of the site (`arex.job_facts.main_group`): those about claims, or those by which it is kept
        besides.
        """
        groups = {value for key, value in tokens if key not in FQAN_KEYS}
        return [row for row in tokens if row[0] not in FQAN_KEYS or not (self._vo_by_claims or row[1] in groups)]

    def _judged(self, known: KnownJob, job: Job) -> tuple[Job, list[tuple[str, str]]]:
        """The job with what others told of it and whose word holds, and their events; FieldSources say so."""
        labels = _labels(job)
        if not known.has_others:
            set_holders(self._con, known.record_id, labels)
            return job, []
        now = present(self._con, known.record_id)
        # What others told of a run that ended otherwise is none of this one's.
        others = now.holders.items() if job.end_time == known.end_time else ()
        kept = {
            field: holder
            for field, holder in others
            if holder not in (self._source, *UNASKED)
            and (not self._reports(job, field) or precedes(field, holder, labels.get(field) or self._source))
        }
        gone = [(known.record_id, field) for field in {*now.holders, *now.unknown} - {*labels, *kept}]
        self._con.executemany("DELETE FROM FieldSources WHERE (RecordID, Field) = (?, ?)", gone)
        set_holders(self._con, known.record_id, {**labels, **kept})
        keys = {EVENTS[field] for field in kept if field in EVENTS}
        return _with(job, {field: now.values[field] for field in kept if field not in EVENTS}), [
            event for event in now.events if event[0] in keys
        ]

    def _reports(self, job: Job, field: str) -> bool:
        if field in EVENTS:
            return EVENTS[field] in dict(job.events)
        if field not in Job._fields:
            return field in dict(job.extra)
        if self._source in OF_AREX and field in Numbers._fields:
            has_end = "LRMSEND" in dict(job.events)
            return field not in unmeasured(stored(job).numbers, has_nodes=bool(job.node_names), has_end=has_end)
        return getattr(job, field) not in (None, "", ())

    def _put(self, known: KnownJob, rows: ArexRows, *, has_cores: bool) -> None:
        """Make our record these rows: children first, the status last, so that it is logged once."""
        for table, field in _CHILDREN.items():
            set_children(self._con, known.record_id, table, list(getattr(rows, field)))
        self._con.execute(
            "INSERT INTO RecordSources (RecordID, Source, Origin) SELECT ?1, ?2, ?3"
            " WHERE NOT EXISTS (SELECT 1 FROM RecordSources WHERE RecordID = ?1)",
            (known.record_id, self._source, self._origin),
        )
        values = self._values(rows)
        found = self._implausible(rows, has_cores=has_cores)
        if found and known.status not in FINAL:
            # Before the status, so that it is logged once, and as held.
            self._hold(known.record_id, found, rows)
        self._con.execute(_UPDATE, (*values, known.record_id, *values))
        if known.has_others:
            # A job that A-REX had given up may have run on, or waits for its wall time: that is in the tables.
            judge(self._con, [known.record_id])
        elif not found:
            unhold(self._con, known.record_id)
        elif known.status in FINAL:
            self._hold(known.record_id, found, rows)

    def _implausible(self, job: ArexRows, *, has_cores: bool) -> tuple[ImplausibleValue, ...]:
        """What cannot be true of a job; of one that has not ended nothing is judged."""
        if job.status not in FINAL:
            return ()
        numbers, start = job.numbers, 0
        extra: dict[object, Any] = {key: value for key, value in job.extra}  # noqa: C416  rows of two
        cores = 0
        if has_cores:
            cores = known_cores(numbers.core_count, self._source, has_nodes=bool(extra.get("nodenames")))
        if not numbers.submit_time:
            start = next((_instant(when) for key, when in reversed(job.events) if key == LRMS_START), 0)
        return implausible_values(
            numbers.submit_time,
            numbers.end_time,
            numbers.wall_s,
            numbers.cpu_user_s,
            numbers.cpu_kernel_s,
            cores,
            numbers.node_count,
            job.benchmark or extra.get("benchmark"),
            start,
        )

    def _hold(self, record_id: int, found: tuple[ImplausibleValue, ...], rows: ArexRows) -> None:
        hold(self._con, record_id, found, (rows.numbers.cpu_user_s, rows.numbers.cpu_kernel_s))


def _instant(when: str) -> int:
    """UTC seconds of an event; 0 of one whose time is in no form that we know."""
    try:
        return packing.event_seconds(when)
    except (TypeError, ValueError):
        return 0


def _packs(jobs: Sequence[ArexRows], first: int) -> Iterator[tuple[int, bytes]]:
    """Of jobs that were just inserted, with the first one's RecordID: those that ended, packed."""
    for record_id, job in enumerate(jobs, first):
        pack = packing.packed(job[1:9], job.numbers, job.auth_tokens, job.rtes, job.transfers, job.extra, job.events)
        if pack is not None:
            yield record_id, pack


_MAY_BE_UNKNOWN = ("wall_s", "cpu_user_s", "cpu_kernel_s", "core_count", "node_count")
_counted = attrgetter(*_MAY_BE_UNKNOWN)


def _labels(job: Job) -> dict[str, str]:
    """Of a job the values that are not its source's own, and those that are not known: FieldSources."""
    counted = _counted(job)
    if None not in counted or job.status not in FINAL:
        return dict(job.field_sources)
    unknown = [field for field, value in zip(_MAY_BE_UNKNOWN, counted, strict=True) if value is None]
    return {**dict.fromkeys(unknown, UNKNOWN), **dict(job.field_sources)}


def _with(job: Job, values: Mapping[str, Value]) -> Job:
    """A job with other values, by field or by key of JobExtraInfo."""
    fields: dict[str, Any] = {field: value for field, value in values.items() if field in Job._fields}
    if "node_names" in fields:
        fields["node_names"] = tuple(fields["node_names"].split(":"))
    extra = {key: str(value) for key, value in values.items() if key not in Job._fields}
    return (
        job._replace(**fields, extra=tuple({**dict(job.extra), **extra}.items())) if extra else job._replace(**fields)
    )


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


def known_jobs(con: Connection, job_ids: Sequence[str]) -> dict[str, KnownJob]:
    """What we have of these jobs, by id."""
    plain = {escaped(job_id): job_id for job_id in job_ids}
    return {
        plain[job_id]: KnownJob(record_id, status, end_time, bool(recorded), source, bool(has_others))
        for job_id, record_id, status, end_time, recorded, source, has_others in con.execute(
            "SELECT JobID, AAR.RecordID, Status.Name, EndTime, StatusFiles.RecordID IS NOT NULL, Source,"
            " EXISTS (SELECT 1 FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID) FROM AAR"
            " JOIN Status ON Status.ID = +StatusID"
            " LEFT JOIN StatusFiles ON StatusFiles.RecordID = AAR.RecordID"
            " LEFT JOIN RecordSources ON RecordSources.RecordID = AAR.RecordID"
            f" WHERE JobID IN ({','.join('?' * len(plain))})",
            tuple(plain),
        )
    }


def rename(con: Connection, record_id: int, job_id: str) -> None:
    """Another id for a job whose beginning came to light: it has its first submission in its id."""
    con.execute("UPDATE AAR SET JobID = ? WHERE RecordID = ?", (escaped(job_id), record_id))


def remove(con: Connection, record_ids: Sequence[int]) -> None:
    """
    Remove records with all that is theirs: jobs that their source no longer tells of.

    What was logged leaves a tombstone, by which it is taken back where it was published.
    """
    for table in (*(table for table in OF_RECORD if table not in OF_HOLDS), "AAR"):
        con.executemany(f"DELETE FROM {table} WHERE RecordID = ?", [(record_id,) for record_id in record_ids])


def _listed(rows: Iterable[Row]) -> str:
    return ", ".join(" ".join(map(str, row)) for row in sorted(rows, key=repr)) or "nothing more"
