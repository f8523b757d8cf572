"""Write whole jobs into arcacct's tables, one slice per transaction. All sources use this module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from arcacct.database.connection import Connection
from arcacct.database.schema import delivered
from arcacct.records import enrichment, states
from arcacct.records.enrichment import Value
from arcacct.records.holds import hold, judge, unhold
from arcacct.records.model import Job
from arcacct.records.pseudonyms import pseudonymised
from arcacct.records.recorder import CHILDREN, dimension_ids, last_record_id, name_id, set_children
from arcacct.records.row_mapping import NUMBERS, ArexRows, Numbers, Row, rows_of, stored
from arcacct.records.states import ImplausibleValue
from arcacct.records.texts import escaped, event_seconds, unescaped

_AAR_COLUMNS = f"JobID, LocalJobID, EndpointID, QueueID, UserID, VOID, StatusID, {NUMBERS}"
_VALUES = _AAR_COLUMNS.removeprefix("JobID, ")
_UPDATE = (
    f"UPDATE AAR SET ({_VALUES}) = ({', '.join('?' * 19)}) WHERE RecordID = ?"
    f" AND ({_VALUES}) IS NOT ({', '.join('?' * 19)})"
)
_CHILDREN = {"AuthTokenAttributes": "auth_tokens", "RunTimeEnvironments": "rtes"}
_CHILDREN |= {"DataTransfers": "transfers", "JobExtraInfo": "extra"}
"""The field of ArexRows, by table. A change of these children changes the record; a change of events does not."""
_INSERT_EVENT = "INSERT INTO JobEvents (RecordID, EventKey, EventTime) VALUES (?, ?, ?)"
_ROWS = 32
"""Rows of one INSERT: a statement for each row takes more than twice as long."""
_RECORD_NAMES = ("LocalJobID", "Interface", "URL", "Queue", "User", "VO", "Status", *NUMBERS.split(", "))
OF_HOLDS = ("RecordHolds", "HoldDecisions")
"""Tables whose rows a trigger deletes after the record, since the record's counted values depend on them."""
OF_RECORD = (
    *_CHILDREN,
    *("JobEvents", "RecordSources", "FieldSources", "TruncationNotes", "AuthGroups", "StatusFiles", "JobTelemetry"),
    *("JobAccelerators", "TelemetryToDivide", "PseudonymisedRecords"),
    *OF_HOLDS,
)
"""The tables whose rows have no meaning without their record."""


class KnownJob(NamedTuple):
    """The stored values of a job."""

    record_id: int
    status: str
    end_time: int
    state: str | None
    """The last state that arcacct's recorder has seen of the job; ``None``: it has seen none."""
    source: str | None
    """The record's source; ``None``: the control directory."""
    has_others: bool
    """Whether it has values from other sources than its own."""


class Difference(NamedTuple):
    """A job with stored values that differ from the source's."""

    job_id: str
    what: tuple[str, ...]
    """``COLUMN ours VALUE, there VALUE``."""


class Written(NamedTuple):
    """The result of writing jobs, mostly as counts."""

    added: int = 0
    """New jobs."""
    changed: int = 0
    """Jobs that were stored from the same source, and that changed there."""
    completed: int = 0
    """Jobs whose end arcacct's recorder missed."""
    differences: tuple[Difference, ...] = ()
    record_ids: Mapping[str, int] = {}
    """The RecordID of each job, by job ID, for any result."""
    without_wall: int = 0
    """Added or changed jobs that count (not: aborted without usage) and have no wall time; the next: no CPU time."""
    without_cpu: int = 0
    with_part_of_cpu: int = 0
    """Those for which it has the CPU time of only some runs."""


class JobWriter:
    """
    Writes jobs of one source, and caches the IDs of names, which are append-only.

    Make a new writer after a transaction that was rolled back: the old one may have cached names that are gone.
    """

    def __init__(self, con: Connection, source: str, origin: str, *, vo_by_claims: bool = False) -> None:
        """
        ``source``, one of `enrichment.SOURCES`, and ``origin`` (file, cell, cluster) go to RecordSources.

        ``vo_by_claims``: the site's rules derive a job's VO from claims of a token; the source lacks these rules.
        """
        self._con = con
        self._source = source
        self._origin = origin
        self._vo_by_claims = vo_by_claims
        self._ids: dict[tuple[str, ...], tuple[int, ...]] = {}

    def write(self, jobs: Sequence[Job]) -> Written:
        """Write a slice of jobs inside the caller's transaction; each job may occur only once."""
        known = known_jobs(self._con, [job.job_id for job in jobs])
        # Records with pseudonyms never change: new values from a source would bring the names back.
        closed = pseudonymised(self._con, [one.record_id for one in known.values()])
        new = [job for job in jobs if job.job_id not in known]
        record_ids = {job_id: one.record_id for job_id, one in known.items()}
        if new:
            first = self.insert([stored(job) for job in new], unknown=[_unknown(job) for job in new])
            for record_id, job in enumerate(new, first):
                record_ids[job.job_id] = record_id
                if labels := _labels(job):
                    enrichment.set_holders(self._con, record_id, labels)
                if job.accelerators is not None:
                    self._set_accelerators(record_id, job)
        again = [job for job in jobs if job.job_id in known and known[job.job_id].record_id not in closed]
        merged = [self._merge(known[job.job_id], job) for job in again]
        written = [*new, *(job for job, one in zip(again, merged, strict=True) if one.changed)]
        counted = [
            job
            for job in written
            if job.status in (states.COMPLETED, states.FAILED)
            or (job.status == states.ABORTED and any((job.wall_s, job.cpu_user_s, job.cpu_kernel_s)))
        ]
        return Written(
            len(new),
            sum(one.changed for one in merged),
            sum(one.completed for one in merged),
            tuple(difference for one in merged for difference in one.differences),
            record_ids,
            sum(job.wall_s is None for job in counted),
            sum(job.cpu_user_s is None for job in counted),
            sum(("cpu_user_s", states.OF_RUNS) in job.field_sources for job in written),
        )

    def insert(self, jobs: Sequence[ArexRows], *, unknown: Sequence[Sequence[str]] = ()) -> int:
        """
        Insert new jobs from their rows; returns the RecordID of the first, the others follow.

        ``unknown``: the unknown fields of each job (`_unknown`); empty: only a wall time of 0 is unknown.

        Inserts the children first, under the future numbers of their records, then the records. So each record enters
        FinishedLog once, by its own insertion. (No other process can insert meanwhile: only this transaction writes.)
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
            if found := self._implausible(job, unknown[number] if unknown else ("wall_s",)):
                self._hold(record_id, found, job)
        records = [(record_id, job.job_id, *self._values(job)) for record_id, job in numbered]
        _insert_rows(self._con, f"AAR (RecordID, {_AAR_COLUMNS})", records)
        return first

    def _set_accelerators(self, record_id: int, job: Job) -> None:
        enrichment.set_accelerators(self._con, record_id, self._source, self._origin, job.accelerators)

    def _values(self, job: ArexRows) -> tuple[object, ...]:
        """Return the values of the columns of AAR after JobID."""
        names = (job.interface, job.url, job.queue, job.user_dn, job.vo, job.status)
        if names not in self._ids:
            self._ids[names] = (*dimension_ids(self._con, names[:5]), name_id(self._con, "Status", job.status))
        return (job.local_job_id, *self._ids[names], *job.numbers)

    def _merge(self, known: KnownJob, job: Job) -> Written:
        """Merge a job with its stored record."""
        if known.source not in (None, self._source):
            return Written()
        if known.state is not None:
            return self._complete(known, job)
        if job.status not in states.FINAL and known.status != states.IN_PROGRESS:
            return Written()
        before = self._con.total_changes
        job, events = self._judged(known, job)
        rows = stored(job)
        events = [*rows.events, *events]
        if self._events(known) != events:
            self._con.execute("DELETE FROM JobEvents WHERE RecordID = ?", (known.record_id,))
            self._con.executemany(_INSERT_EVENT, [(known.record_id, *event) for event in events])
        self._put(known, rows, _unknown(job))
        self._set_accelerators(known.record_id, job)
        return Written(changed=int(self._con.total_changes != before))

    def _complete(self, known: KnownJob, job: Job) -> Written:
        """Add missing values to a job that arcacct's recorder has seen; the recorded values stay."""
        rows = stored(job)
        # States that the recorder never sees: ARC 6 has no callout for INLRMS and CANCELING. The times that receivers
        # have stay as they were sent: a record must not change without an entry in the log.
        have = {row[0] for row in self._events(known)}
        query = "SELECT 1 FROM FinishedLog WHERE RecordID = ? AND Seq <= ?"
        if self._con.execute(query, (known.record_id, delivered(self._con))).fetchone():
            have.update(states.PUBLISHED_EVENTS)
        missing = [(known.record_id, *event) for event in rows.events if event[0] not in have]
        self._con.executemany(_INSERT_EVENT, missing)
        if job.status not in states.FINAL:
            return Written()
        # A sweep sets a vanished job to aborted, which is a guess.
        if known.status in (states.IN_PROGRESS, states.ABORTED) or job.end_time > known.end_time:
            job, _events = self._judged(known, job)
            rows = stored(job)
            if not rows.vo:
                # A rule of the site may have given a VO that the source does not have.
                query = "SELECT Name FROM WLCGVOs WHERE ID = (SELECT VOID FROM AAR WHERE RecordID = ?)"
                rows = rows._replace(vo=str(self._con.execute(query, (known.record_id,)).fetchone()[0]))
            if not any(key in states.FQAN_KEYS for key, _value in rows.auth_tokens):
                # The first group of a token, which the source does not store as an FQAN.
                query = "SELECT AttrKey, AttrValue FROM AuthTokenAttributes WHERE RecordID = ? AND AttrKey = 'mainfqan'"
                first = self._con.execute(query, (known.record_id,)).fetchall()
                rows = rows._replace(auth_tokens=[*first, *rows.auth_tokens])
            self._put(known, rows, _unknown(job))
            return Written(completed=1)
        return Written(differences=self._differences(known, rows))

    def _events(self, known: KnownJob) -> list[Row]:
        query = "SELECT EventKey, EventTime FROM JobEvents WHERE RecordID = ? ORDER BY rowid"
        return self._con.execute(query, (known.record_id,)).fetchall()

    def _differences(self, known: KnownJob, rows: ArexRows) -> tuple[Difference, ...]:
        """Compare the source's rows with the stored ones; both have the job's end."""
        (ours,) = rows_of(self._con, 1, [known.record_id])
        if not any(key in states.FQAN_KEYS for key, _value in rows.auth_tokens):
            ours = ours._replace(auth_tokens=self._as_reported(ours.auth_tokens))
        children = {table: (getattr(ours, field), getattr(rows, field)) for table, field in _CHILDREN.items()}
        has_voms = any(row[0] in states.FQAN_KEYS for some in children["AuthTokenAttributes"] for row in some)
        what = [
            f"{name} is {mine!r} here, {other!r} there"
            for name, mine, other in zip(
                _RECORD_NAMES, (*ours[2:9], *ours.numbers), (*rows[2:9], *rows.numbers), strict=True
            )
            if mine != other
            # The VO comes from a rule of the site that the source lacks: this is not a difference.
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
        Return a token's attributes without its first group, which only arcacct's recorder stores as the first FQAN.

        The site's rules decide (`arex.job_facts.main_group`): those about claims, or those by which the group is also
        kept as a claim.
        """
        groups = {value for key, value in tokens if key not in states.FQAN_KEYS}
        return [row for row in tokens if row[0] not in states.FQAN_KEYS or not (self._vo_by_claims or row[1] in groups)]

    def _judged(self, known: KnownJob, job: Job) -> tuple[Job, list[tuple[str, str]]]:
        """
        Return the job with the stronger values of other sources, and those sources' events; updates FieldSources.
        """
        labels = _labels(job)
        if not known.has_others:
            enrichment.set_holders(self._con, known.record_id, labels)
            return job, []
        now = enrichment.present(self._con, known.record_id)
        # Values of other sources for a run with another end do not belong to this run.
        others = now.holders.items() if job.end_time == known.end_time else ()
        kept = {
            field: holder
            for field, holder in others
            if holder not in (self._source, *enrichment.UNASKED)
            and (not self._reports(job, field) or enrichment.precedes(field, holder, labels.get(field) or self._source))
        }
        if "wall_s" not in kept:
            # They belong to the wall time.
            kept.pop(states.CORE_SECONDS, None)
        gone = [(known.record_id, field) for field in {*now.holders, *now.unknown} - {*labels, *kept}]
        self._con.executemany("DELETE FROM FieldSources WHERE (RecordID, Field) = (?, ?)", gone)
        enrichment.set_holders(self._con, known.record_id, {**labels, **kept})
        keys = {enrichment.EVENTS[field] for field in kept if field in enrichment.EVENTS}
        return _with(job, {field: now.values[field] for field in kept if field not in enrichment.EVENTS}), [
            event for event in now.events if event[0] in keys
        ]

    def _reports(self, job: Job, field: str) -> bool:
        if field in enrichment.EVENTS:
            return enrichment.EVENTS[field] in dict(job.events)
        if field not in Job._fields:
            return field in dict(job.extra)
        if self._source in enrichment.OF_AREX and field in Numbers._fields:
            has_nodes, has_end = bool(job.node_names), "LRMSEND" in dict(job.events)
            return field not in enrichment.unmeasured(stored(job).numbers, has_nodes=has_nodes, has_end=has_end)
        return getattr(job, field) not in (None, "", ())

    def _put(self, known: KnownJob, rows: ArexRows, unknown: Sequence[str]) -> None:
        """Set a record to these rows: children first, the status last, so that it is logged once."""
        for table, field in _CHILDREN.items():
            set_children(self._con, known.record_id, table, list(getattr(rows, field)))
        self._con.execute(
            "INSERT INTO RecordSources (RecordID, Source, Origin) SELECT ?1, ?2, ?3"
            " WHERE NOT EXISTS (SELECT 1 FROM RecordSources WHERE RecordID = ?1)",
            (known.record_id, self._source, self._origin),
        )
        values = self._values(rows)
        found = self._implausible(rows, unknown)
        if found and known.status not in states.FINAL:
            # Before the status, so that it is logged once, and as held.
            self._hold(known.record_id, found, rows)
        self._con.execute(_UPDATE, (*values, known.record_id, *values))
        if known.has_others:
            # The tables show whether a job ran on after A-REX gave it up, or waits for its wall time.
            judge(self._con, [known.record_id])
        elif not found:
            unhold(self._con, known.record_id)
        elif known.status in states.FINAL:
            self._hold(known.record_id, found, rows)

    def _implausible(self, job: ArexRows, unknown: Sequence[str]) -> tuple[ImplausibleValue, ...]:
        """Return the impossible values of a job; empty for a job that has not ended."""
        if job.status not in states.FINAL:
            return ()
        numbers, start = job.numbers, 0
        extra: dict[object, Any] = {key: value for key, value in job.extra}  # noqa: C416  rows of two
        has_nodes = bool(extra.get("nodenames"))
        cores = 0 if "core_count" in unknown else numbers.core_count
        nodes = 0 if "node_count" in unknown else numbers.node_count
        cores, nodes = states.known_counts(cores, nodes, self._source, has_nodes=has_nodes)
        is_without_wall = not numbers.wall_s and ("wall_s" in unknown or self._source == enrichment.AREX)
        if not numbers.submit_time:
            start = next((_instant(when) for key, when in reversed(job.events) if key == "LRMSSTART"), 0)
        wall_s = None if is_without_wall else numbers.wall_s
        used = (numbers.submit_time, numbers.end_time, wall_s, numbers.cpu_user_s, numbers.cpu_kernel_s)
        return states.implausible_values(*used, cores, nodes, job.benchmark or extra.get("benchmark"), start)

    def _hold(self, record_id: int, found: tuple[ImplausibleValue, ...], rows: ArexRows) -> None:
        hold(self._con, record_id, found, (rows.numbers.cpu_user_s, rows.numbers.cpu_kernel_s))


def _instant(when: str) -> int:
    """Return the time of an event in UTC seconds; 0: unknown form."""
    try:
        return event_seconds(when)
    except (TypeError, ValueError):
        return 0


_MAY_BE_UNKNOWN = ("wall_s", "cpu_user_s", "cpu_kernel_s", "core_count", "node_count")
_counted = attrgetter(*_MAY_BE_UNKNOWN)


def _unknown(job: Job) -> Sequence[str]:
    """Return the fields of `_MAY_BE_UNKNOWN` that are unknown, with a number of nodes that is a guess."""
    counted = _counted(job)
    guessed = ("node_count",) if ("node_count", enrichment.DEFAULT) in job.field_sources else ()
    if None not in counted:
        return guessed
    return [*guessed, *(field for field, value in zip(_MAY_BE_UNKNOWN, counted, strict=True) if value is None)]


def _labels(job: Job) -> dict[str, str]:
    """Return the FieldSources of a job: of values that are not its source's own, and of unknown values."""
    unknown = _unknown(job) if job.status in states.FINAL else ()
    return {**dict.fromkeys(unknown, states.UNKNOWN), **dict(job.field_sources)} if unknown else dict(job.field_sources)


def _with(job: Job, values: Mapping[str, Value]) -> Job:
    """Return the job with values replaced, by field or by key of JobExtraInfo."""
    fields: dict[str, Any] = {field: value for field, value in values.items() if field in Job._fields}
    if "node_names" in fields:
        fields["node_names"] = tuple(fields["node_names"].split(":"))
    if extra := {key: str(value) for key, value in values.items() if key not in Job._fields}:
        fields["extra"] = tuple({**dict(job.extra), **extra}.items())
    return job._replace(**fields)


def _insert_rows(con: Connection, into: str, rows: Sequence[Row]) -> None:
    """Insert rows into a table, in their order; each row has a value for each column."""
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
    """Return the stored ones of these jobs, by job ID."""
    plain = {escaped(job_id): job_id for job_id in job_ids}
    return {
        plain[job_id]: KnownJob(record_id, status, end_time, state, source, bool(has_others))
        for job_id, record_id, status, end_time, state, source, has_others in con.execute(
            "SELECT JobID, AAR.RecordID, Status.Name, EndTime, State, Source,"
            " EXISTS (SELECT 1 FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID) FROM AAR"
            " JOIN Status ON Status.ID = +StatusID"
            " LEFT JOIN StatusFiles ON StatusFiles.RecordID = AAR.RecordID"
            " LEFT JOIN RecordSources ON RecordSources.RecordID = AAR.RecordID"
            f" WHERE JobID IN ({','.join('?' * len(plain))})",
            tuple(plain),
        )
    }


def rename(con: Connection, record_id: int, job_id: str) -> None:
    """Change a job's ID, which contains its first submission, after an earlier submission was found."""
    con.execute("UPDATE AAR SET JobID = ? WHERE RecordID = ?", (escaped(job_id), record_id))


def remove(con: Connection, record_ids: Sequence[int]) -> None:
    """
    Remove records of jobs that their source no longer has, with all their rows.

    A logged record leaves a tombstone, by which publishing revokes it at the receivers.
    """
    if not record_ids:
        # Imports ask for each job, and a statement for each table would cost more than the job.
        return
    for table in (*(table for table in OF_RECORD if table not in OF_HOLDS), "AAR"):
        con.executemany(f"DELETE FROM {table} WHERE RecordID = ?", [(record_id,) for record_id in record_ids])


def _listed(rows: Iterable[Row]) -> str:
    return ", ".join(" ".join(map(str, row)) for row in sorted(rows, key=repr)) or "nothing more"
