"""Record one state change of a job in A-REX's tables (INVARIANTS 2)."""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from arcacct.database.connection import Connection
from arcacct.records import holds, states
from arcacct.records.states import StateChange, StatusFile, Usage
from arcacct.records.texts import escaped, event_time

# Recording is monotone inside its transaction. The same event twice changes nothing, and an older event only adds its
# events. A finished job's children are compared as multisets, so a resumed job ends with one set of them (INVARIANTS 2
# and 8). The rows are the same for any order of the events. Children are written first and the final status last: this
# makes one entry in FinishedLog.


USAGE_COLUMNS = (
    "LocalJobID, EndTime, ExitCode, NodeCount, CPUCount, UsedMemory, UsedVirtMem, UsedWalltime,"
    " UsedCPUUserTime, UsedCPUKernelTime, UsedScratch, StageInVolume, StageOutVolume"
)
_FIELDS = tuple(one.name for one in fields(Usage)[1:13])
"""The fields of `Usage` for these columns after the first, in their order."""
_numbers_of = attrgetter(*_FIELDS)
_SAME_S = 5
"""Seconds. Two reports of one state within this time are the same event: no job returns to a state so soon."""
_UPDATE_USAGE = (
    f"UPDATE AAR SET (StatusID, {USAGE_COLUMNS}) = (?{', ?' * 13}) WHERE RecordID = ?"
    f" AND (StatusID, {USAGE_COLUMNS}) IS NOT (?{', ?' * 13})"
)
_INSERT = "INSERT OR ROLLBACK"
"""
For rows that fire the log's triggers. A plain INSERT keeps a copy of each page to undo only itself, and takes half as
long again. Here an error ends the whole transaction anyway, and no statement of a trigger can meet a conflict.
"""
_INSERT_RECORD = (
    f"{_INSERT} INTO AAR (RecordID, JobID, SubmitTime, EndpointID, QueueID, UserID, VOID, StatusID,"
    f" {USAGE_COLUMNS}) VALUES (?{', ?' * 20})"
)
_NOTHING_USED = ("", *_numbers_of(Usage()))
"""The values that A-REX writes at ACCEPTED."""
_REMEMBER = (
    "INSERT INTO StatusFiles (RecordID, State, EventNs, Size, MTimeNs, CTimeNs) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (RecordID) DO UPDATE SET State = excluded.State, EventNs = excluded.EventNs,"
    " Size = excluded.Size, MTimeNs = excluded.MTimeNs, CTimeNs = excluded.CTimeNs"
    " WHERE (State, EventNs, Size, MTimeNs, CTimeNs)"
    " IS NOT (excluded.State, excluded.EventNs, excluded.Size, excluded.MTimeNs, excluded.CTimeNs)"
)

CHILDREN = {
    "AuthTokenAttributes": ("AttrKey", "AttrValue"),
    "JobEvents": ("EventKey", "EventTime"),
    "RunTimeEnvironments": ("RTEName",),
    "DataTransfers": ("URL", "FileSize", "TransferStart", "TransferEnd", "TransferType"),
    "JobExtraInfo": ("InfoKey", "InfoValue"),
}
"""The columns of the tables that have several rows for a record."""
INFO_KEYS = {"benchmark": "benchmark", "client_host": "clienthost", "job_name": "jobname", "local_user": "localuser"}
INFO_KEYS |= {"lrms": "lrms", "node_names": "nodenames", "project": "projectname"}
INFO_KEYS |= {"system_software": "systemsoftware", "wn_instance": "wninstance"}
"""JobExtraInfo.InfoKey of the fields of a `Job` that are kept there, in the order of the keys."""

_SET_AUTH_GROUPS = "INSERT OR REPLACE INTO AuthGroups (RecordID, Names) VALUES (?, ?)"
_NO_AUTH_GROUPS = "DELETE FROM AuthGroups WHERE RecordID = ? AND ? = ''"
_NOTE = (
    "INSERT INTO TruncationNotes (RecordID, Field, Note, Noted) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (RecordID, Field) DO UPDATE SET Note = excluded.Note, Noted = excluded.Noted"
    " WHERE Note IS NOT excluded.Note"
)

_SET_UNKNOWN = (
    f"INSERT INTO FieldSources (RecordID, Field, Source) VALUES (?, ?, '{states.UNKNOWN}')"
    " ON CONFLICT (RecordID, Field) DO UPDATE SET Source = excluded.Source WHERE Source <> excluded.Source"
)

NOTHING, NEW_JOB, NEW_END, NEW_EVENT, CORRECTION = "", "job", "end", "event", "correction"
"""Kinds of a state change: nothing new, a new job, the end of a job, only a new event, any other change."""


@dataclass(slots=True)
class RecordedJob:
    """
    The stored values of a job before a state change is recorded.

    ``owner``: interface, URL, queue, user, VO (as stored) and time of submission.
    """

    record_id: int
    end_time: int
    status: str
    state: str | None
    event_ns: int
    has_notes: bool
    has_hold: bool
    local_job_id: str | None
    auth_groups: str | None
    owner: tuple[Any, ...]

    def has_ended(self) -> bool:
        """Whether the job's end is recorded. False for an aborted job: it only vanished."""
        return self.end_time != 0 and self.status != states.ABORTED


def record(con: Connection, facts: StateChange, *, present: bool = False, settled: bool = False) -> str:
    """
    Record one state change inside the caller's transaction; returns its kind (`NEW_JOB`, ...).

    ``present`` is for the sweep, which reads the status file: then the file's state is recorded even if it is older
    than the recorded one. ``settled``: the file need not be read again.
    A job that was wrongly recorded as vanished is in progress again.
    DELETED makes no row. A new job with an unreadable .local makes no row either (`knows` then returns False).
    """
    if facts.state == "DELETED":
        return NOTHING
    known = _known(con, facts.job_id)
    if known is None:
        if not facts.known:
            return NOTHING
        _insert(con, [(facts, settled)])
        return NEW_JOB
    usage, latest = _of_this_run(known, facts, present=present)
    before, submitted = con.total_changes, known.owner[5]
    _correct_owner(con, known, facts, latest=latest)
    before_events = con.total_changes
    _add_events(con, known, facts)
    events = con.total_changes - before_events
    # A job may be resumed before its earlier end is recorded: that end is valid until there is a later one.
    if usage is not None and (latest or usage.end_time > known.end_time):
        _finish(con, known, facts, usage)
    elif latest:
        _go_on(con, known, facts)
    elif known.end_time and known.owner[5] != submitted:
        holds.judge(con, [known.record_id])
    changes = con.total_changes - before
    if latest:
        # An event does not mark the file as read: .failed may appear later, so the sweep reads the file once.
        con.execute(_REMEMBER, (known.record_id, *_identity(facts, settled=settled)))
    if not changes:
        return NOTHING
    if usage is not None and not known.has_ended():
        return NEW_END
    return NEW_EVENT if changes == events else CORRECTION


def record_present(con: Connection, jobs: list[tuple[StateChange, bool]]) -> list[str]:
    """
    Call `record` for many jobs whose status files the sweep reads; each job comes with its ``settled``.

    New jobs are inserted together, which takes half of the time. Returns the kinds of the changes, in order.
    """
    ids = [escaped(facts.job_id) for facts, _settled in jobs]
    marks = ", ".join("?" * len(ids))
    seen = {row[0] for row in con.execute(f"SELECT JobID FROM AAR WHERE JobID IN ({marks})", ids).fetchall()}
    new: list[tuple[StateChange, bool]] = []
    others: list[tuple[int, tuple[StateChange, bool]]] = []
    kinds = [NEW_JOB] * len(jobs)
    for place, (job_id, job) in enumerate(zip(ids, jobs, strict=True)):
        if job_id not in seen and job[0].known and job[0].state != "DELETED":
            new.append(job)
        else:
            others.append((place, job))
        seen.add(job_id)
    if new:
        _insert(con, new)
    for place, (facts, settled) in others:
        kinds[place] = record(con, facts, present=True, settled=settled)
    return kinds


def event_near(con: Connection, job_id: str, state: str, event_ns: int, others: Container[int]) -> int | None:
    """
    Return the time of the job's nearest event of this kind within `_SAME_S`, in UTC seconds; ``None``: no event.

    ``others``: times of events of this kind that are certainly other ones.
    """
    query = (
        "SELECT CAST(strftime('%s', EventTime) AS INTEGER) FROM AAR JOIN JobEvents USING (RecordID)"
        " WHERE JobID = ? AND EventKey = ?"
    )
    asked_s = event_ns // 10**9
    times = [at_s for (at_s,) in con.execute(query, (escaped(job_id), state)) if at_s not in others]
    near = [at_s for at_s in times if abs(at_s - asked_s) <= _SAME_S]
    return min(near, key=lambda at_s: abs(at_s - asked_s), default=None)


def knows(con: Connection, job_id: str) -> bool:
    """Whether the database has a record of the job."""
    return _known(con, job_id) is not None


def has_ended(con: Connection, job_id: str) -> bool:
    """Whether the database has the end of the job. False for an aborted job: it only vanished."""
    known = _known(con, job_id)
    return known is not None and known.has_ended()


def remember_status_file(con: Connection, job_id: str, status: StatusFile) -> None:
    """Remember that the sweep need not read this status file of a job again."""
    con.execute(
        "UPDATE StatusFiles SET (Size, MTimeNs, CTimeNs) = (?, ?, ?)"
        " WHERE RecordID = (SELECT RecordID FROM AAR WHERE JobID = ?)",
        (status.size, status.mtime_ns, status.ctime_ns, escaped(job_id)),
    )


def _known(con: Connection, job_id: str) -> RecordedJob | None:
    row = con.execute(
        "SELECT AAR.RecordID, EndTime, Status.Name, State, ifnull(EventNs, 0),"
        " EXISTS (SELECT 1 FROM TruncationNotes WHERE TruncationNotes.RecordID = AAR.RecordID),"
        " EXISTS (SELECT 1 FROM RecordHolds WHERE RecordHolds.RecordID = AAR.RecordID), LocalJobID, Names,"
        " Interface, URL, Queues.Name, Users.Name, WLCGVOs.Name, SubmitTime FROM AAR"
        " JOIN Status ON Status.ID = +StatusID"
        " LEFT JOIN Endpoints ON Endpoints.ID = +EndpointID LEFT JOIN Queues ON Queues.ID = +QueueID"
        " LEFT JOIN Users ON Users.ID = +UserID LEFT JOIN WLCGVOs ON WLCGVOs.ID = +VOID"
        " LEFT JOIN StatusFiles ON StatusFiles.RecordID = AAR.RecordID"
        " LEFT JOIN AuthGroups ON AuthGroups.RecordID = AAR.RecordID WHERE JobID = ?",
        (escaped(job_id),),
    ).fetchone()
    return None if row is None else RecordedJob(*(*row[:9], row[9:]))


def _of_this_run(known: RecordedJob, facts: StateChange, *, present: bool) -> tuple[Usage | None, bool]:
    """
    Return the usage of the run that the event belongs to, and whether no later event of the job is recorded.

    The usage is ``None`` if the job is in a later run: then the files do not describe that end. (The time of an event
    may be cut to seconds.)
    """
    if facts.usage is not None and facts.status is None and not present:
        is_older = facts.event_ns + 1_000_000_000 <= known.event_ns
        if is_older or (known.has_ended() and known.state not in (None, "FINISHED")):
            return None, False
    if facts.usage is not None:
        facts.usage.status = states.status_of_end(facts.usage.status, known.status, known.state)
    return facts.usage if facts.known else None, present or facts.event_ns >= known.event_ns


def _insert(con: Connection, jobs: list[tuple[StateChange, bool]]) -> None:
    """
    Insert the records of new jobs: the children first, so that a finished job is logged once.

    (AUTOINCREMENT would give the same numbers: only the caller's transaction writes.)
    """
    children: dict[str, list[tuple[object, ...]]] = {table: [] for table in CHILDREN}
    records: list[tuple[object, ...]] = []
    files: list[tuple[object, ...]] = []
    # IDs of endpoint, queue, user, VO and status.
    names: dict[tuple[str, ...], tuple[int, ...]] = {}
    for record_id, (facts, settled) in enumerate(jobs, last_record_id(con) + 1):
        children["AuthTokenAttributes"] += [(record_id, *row) for row in _auth_tokens(facts)]
        children["JobEvents"] += [(record_id, *event) for event in _events(facts)]
        for table, rows in _final_children(facts):
            children[table] += [(record_id, *row) for row in rows]
        status = facts.usage.status if facts.usage is not None else states.IN_PROGRESS
        key = (facts.endpoint_type, facts.endpoint_url, facts.queue, facts.user_dn, facts.vo, status)
        if key not in names:
            names[key] = (*dimension_ids(con, tuple(map(escaped, key[:5]))), name_id(con, "Status", status))
        used = _used(facts)
        if facts.usage is not None:
            _hold(con, record_id, facts, facts.submit_time, used)
        records.append((record_id, escaped(facts.job_id), facts.submit_time, *names[key], *used))
        files.append((record_id, *_identity(facts, settled=settled)))
        # Few records have these rows, in arcacct's own tables.
        if facts.auth_groups:
            con.execute(_SET_AUTH_GROUPS, (record_id, " ".join(facts.auth_groups)))
        if facts.notes:
            _add_notes(con, record_id, facts)
        if facts.usage is not None and facts.usage.unknown:
            con.executemany(_SET_UNKNOWN, [(record_id, field) for field in facts.usage.unknown])
    for table, rows in children.items():
        if rows:
            con.executemany(_insert_child(table), rows)
    con.executemany(_INSERT_RECORD, records)
    con.executemany(_REMEMBER, files)


def last_record_id(con: Connection) -> int:
    """Return the highest RecordID that was ever used: those of deleted records are not used again."""
    row = con.execute(
        "SELECT max(coalesce((SELECT max(RecordID) FROM AAR), 0),"
        " coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'AAR'), 0))"
    ).fetchone()
    return int(row[0])


def _correct_owner(con: Connection, known: RecordedJob, facts: StateChange, *, latest: bool) -> None:
    """
    Update the job's owner from .local. An empty or partial value never replaces a known one.

    The job's latest .local may also replace known values, if it is whole. The same event, read again, does not change a
    job that has ended. VO, attributes and claims belong to the user: if the user differs, those of the kept user stay.
    Updates ``known.owner``.
    """
    if not facts.known:
        return
    better = latest and facts.is_whole and (not known.has_ended() or 0 < known.event_ns < facts.event_ns)
    # A current rule of the site does not apply to a job that ended before.
    vo = facts.vo if facts.has_voms or better or not known.has_ended() else ""
    user_dn = known.owner[3]
    told = (*map(escaped, (facts.endpoint_type, facts.endpoint_url, facts.queue, facts.user_dn, vo)), facts.submit_time)
    is_other = bool(user_dn and told[3] and told[3] != user_dn)
    if told != known.owner:
        wanted = _merged(told, known.owner) if better else _merged(known.owner, told)
        if is_other:
            wanted = (*wanted[:4], (told if better else known.owner)[4], wanted[5])
        if wanted != known.owner:
            con.execute(
                "UPDATE AAR SET (EndpointID, QueueID, UserID, VOID, SubmitTime) = (?, ?, ?, ?, ?) WHERE RecordID = ?",
                (*dimension_ids(con, wanted[:5]), wanted[5], known.record_id),
            )
            known.owner = wanted
    tokens = _auth_tokens(facts)
    query = "SELECT AttrKey, AttrValue FROM AuthTokenAttributes WHERE RecordID = ? ORDER BY rowid"
    have = con.execute(query, (known.record_id,)).fetchall()
    if known.has_ended() and user_dn and not better:
        # The same applies to the claims that the site keeps now. The claims of a .local that had a user are known.
        tokens = [token for token in tokens if token in have or (facts.has_voms and token[0] in states.FQAN_KEYS)]
    if is_other:
        is_new = better and tokens != have
    else:
        is_new = not _is_part(tokens, have) and (better or _is_part(have, tokens))
    if is_new:
        set_children(con, known.record_id, "AuthTokenAttributes", tokens)
    auth_groups = " ".join(facts.auth_groups)
    if better and auth_groups != (known.auth_groups or ""):
        con.execute(_SET_AUTH_GROUPS if auth_groups else _NO_AUTH_GROUPS, (known.record_id, auth_groups))


def _merged(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of the first; where one is empty, that of the second."""
    return tuple([one or other for one, other in zip(first, second, strict=True)])


def _is_part(some: list[tuple[object, ...]], rows: list[tuple[object, ...]]) -> bool:
    """Whether ``rows`` contain ``some``, as multisets."""
    if some == rows:
        return True
    rest = rows.copy()
    for row in some:
        if row not in rest:
            return False
        rest.remove(row)
    return True


def dimension_ids(con: Connection, names: tuple[str, ...]) -> tuple[int, int, int, int]:
    """Return the IDs of endpoint, queue, user and VO for their stored names; adds new names."""
    endpoint, queue, user, vo = con.execute(
        "SELECT (SELECT ID FROM Endpoints WHERE Interface = ? AND URL = ?), (SELECT ID FROM Queues WHERE Name = ?),"
        " (SELECT ID FROM Users WHERE Name = ?), (SELECT ID FROM WLCGVOs WHERE Name = ?)",
        names,
    ).fetchone()
    return (
        endpoint or _new_id(con, "Endpoints (Interface, URL)", *names[:2]),
        queue or _new_id(con, "Queues (Name)", names[2]),
        user or _new_id(con, "Users (Name)", names[3]),
        vo or _new_id(con, "WLCGVOs (Name)", names[4]),
    )


def name_id(con: Connection, table: str, name: str) -> int:
    """Return the ID of a name in Queues, Users, WLCGVOs or Status; adds a new name."""
    text = escaped(name)
    row = con.execute(f"SELECT ID FROM {table} WHERE Name = ?", (text,)).fetchone()
    return _new_id(con, f"{table} (Name)", text) if row is None else int(row[0])


def _new_id(con: Connection, into: str, *names: str) -> int:
    marks = ", ".join("?" * len(names))
    return con.execute(f"INSERT INTO {into} VALUES ({marks})", names).lastrowid or 0


def _auth_tokens(facts: StateChange) -> list[tuple[object, ...]]:
    return [(key, escaped(value)) for key, value in facts.auth_tokens]


def _events(facts: StateChange) -> dict[tuple[str, str], None]:
    """Return the events of a state change: the submission, the state itself, the batch system's and the files'."""
    events = [("ACCEPTED", facts.submit_time)] if facts.submit_time else []
    # A-REX rewrites the status file of a waiting job, so its time is not the start of the state.
    if facts.state != "ACCEPTED" and not (facts.status is not None and facts.status.pending):
        events.append((facts.state, facts.event_ns // 1_000_000_000))
    return dict.fromkeys([(key, event_time(seconds)) for key, seconds in events + facts.events])


def _add_events(con: Connection, known: RecordedJob, facts: StateChange) -> None:
    """Insert the new events of a job."""
    wanted = _events(facts)
    query = "SELECT EventKey, EventTime FROM JobEvents WHERE RecordID = ?"
    for event in con.execute(query, (known.record_id,)):
        wanted.pop(event, None)
    con.executemany(_insert_child("JobEvents"), [(known.record_id, *event) for event in wanted])


def _final_children(facts: StateChange) -> tuple[tuple[str, list[tuple[object, ...]]], ...]:
    """Return the additional rows of a finished job, by table."""
    usage = facts.usage
    if usage is None:
        return ()
    transfers = [(escaped(one.url), one.size_bytes, one.start_time, one.end_time, one.kind) for one in usage.transfers]
    return (
        ("RunTimeEnvironments", [(escaped(name),) for name in usage.rtes]),
        ("DataTransfers", [*transfers]),
        ("JobExtraInfo", [(key, escaped(facts.extra[key])) for key in sorted(facts.extra)]),
    )


def _used(facts: StateChange) -> tuple[object, ...]:
    """Return the values of `USAGE_COLUMNS`."""
    return _NOTHING_USED if facts.usage is None else (escaped(facts.local_job_id), *_numbers_of(facts.usage))


def _hold(
    con: Connection, record_id: int, facts: StateChange, submit_time: int, used: Sequence[Any], *, note: bool = True
) -> bool:
    """
    Whether an ended job has impossible values; if so and with ``note``, hold its record.

    ``used``: the values of `USAGE_COLUMNS`.
    """
    _local_job_id, end, _exit_code, nodes, cores, _memory, _virtual, wall_s, user_s, kernel_s = used[:10]
    start = 0 if submit_time else dict(facts.events).get("LRMSSTART", 0)
    benchmark = facts.extra.get("benchmark")
    cores, nodes = states.known_counts(cores, nodes, None, has_nodes="nodenames" in facts.extra)
    if not wall_s and facts.usage is not None and "wall_s" in facts.usage.unknown:
        wall_s = None
    found = states.implausible_values(submit_time, end, wall_s, user_s, kernel_s, cores, nodes, benchmark, start)
    if facts.usage is not None and facts.usage.is_awaited:
        found = (*found, states.AWAITED)
    if found and note:
        holds.hold(con, record_id, found, (user_s, kernel_s))
    return bool(found)


def _finish(con: Connection, known: RecordedJob, facts: StateChange, usage: Usage) -> None:
    """Record the end of a job."""
    children = dict(_final_children(facts))
    local_job_id, *used = _used(facts)
    unknown = usage.unknown
    if known.has_ended() and usage.end_time == known.end_time:
        query = "SELECT Field, Source FROM FieldSources WHERE RecordID = ?"
        others = dict(con.execute(query, (known.record_id,)).fetchall())
        told = keep_filled_in(con, known.record_id, facts, used, others) if others else set()
        _keep_known_extra(con, known.record_id, facts, children, others, told)
        if others:
            unknown = tuple([field for field in unknown if others.get(field, states.UNKNOWN) == states.UNKNOWN])
        local_job_id = local_job_id or known.local_job_id
    elif known.end_time:
        # The values from other sources belong to another run.
        con.execute("DELETE FROM FieldSources WHERE RecordID = ?", (known.record_id,))
    con.executemany(_SET_UNKNOWN, [(known.record_id, field) for field in unknown])
    for table, rows in children.items():
        set_children(con, known.record_id, table, rows)
    values = (name_id(con, "Status", usage.status), local_job_id, *used)
    # Before the status, so that a job that ends is logged once, and as held.
    is_held = _hold(con, known.record_id, facts, known.owner[5], values[1:], note=not known.end_time)
    con.execute(_UPDATE_USAGE, (*values, known.record_id, *values))
    if known.has_hold or (is_held and known.end_time):
        holds.judge(con, [known.record_id])
    if known.has_notes:
        # The notes of an earlier end do not apply to this one.
        fields = con.execute("SELECT Field FROM TruncationNotes WHERE RecordID = ?", (known.record_id,)).fetchall()
        gone = [(known.record_id, field) for (field,) in fields if field not in facts.notes]
        con.executemany("DELETE FROM TruncationNotes WHERE (RecordID, Field) = (?, ?)", gone)
    if facts.notes:
        _add_notes(con, known.record_id, facts)


def _keep_known_extra(
    con: Connection,
    record_id: int,
    facts: StateChange,
    children: dict[str, list[Any]],
    others: dict[str, str],
    measured: Container[str],
) -> None:
    """
    Keep the values of an already recorded end that the files no longer contain, and keep its benchmark.

    The version of ARC decides which of several benchmarks of .diag counts. An upgrade of ARC must not change the
    benchmark of finished jobs. Only a default, or a substitute from ``others`` (sources by field), is replaced by the
    job's own benchmark. Core seconds of another source go with its wall time, if the files have one (``measured``).
    """
    query = "SELECT InfoKey, InfoValue FROM JobExtraInfo WHERE RecordID = ?"
    rows = con.execute(query, (record_id,)).fetchall()
    have, told = dict(rows), dict(children["JobExtraInfo"])
    benchmark = have.get("benchmark")
    if benchmark and benchmark != told["benchmark"]:
        own = [*map(escaped, facts.benchmarks)]
        is_own = benchmark in own or benchmark != escaped(facts.default_benchmark)
        # Features (`precedence`) are stronger than the job's own benchmark; all other sources are weaker.
        if not any(own) or (is_own and others.get("benchmark", "features") == "features"):
            told["benchmark"] = benchmark
    wanted = {**have, **told}
    if "wall_s" in measured:
        wanted.pop(states.CORE_SECONDS, None)
    if wanted == have and len(rows) == len(have):
        del children["JobExtraInfo"]
    else:
        children["JobExtraInfo"] = [*wanted.items()]


def _add_notes(con: Connection, record_id: int, facts: StateChange) -> None:
    """Store notes about values of the files that were left out (`InputLimiter`)."""
    con.executemany(_NOTE, [(record_id, *noted, int(time.time())) for noted in facts.notes.items()])


def _go_on(con: Connection, known: RecordedJob, facts: StateChange) -> None:
    """Record that a job is in progress, except when a late event of its start arrives after its end."""
    if known.status == states.ABORTED and (known.state, facts.state) != ("FINISHED", "ACCEPTED"):
        con.execute(
            "UPDATE AAR SET (StatusID, EndTime) = (?, 0) WHERE RecordID = ?",
            (name_id(con, "Status", states.IN_PROGRESS), known.record_id),
        )
    if facts.notes:
        _add_notes(con, known.record_id, facts)


def set_children(con: Connection, record_id: int, table: str, rows: list[tuple[object, ...]]) -> None:
    """
    Set a record's rows in a child table, as a multiset; rows that are right already are not written.

    (v1 has no unique index on them, and each needless write would log the record as changed.)
    """
    names = ", ".join(CHILDREN[table])
    missing: dict[tuple[object, ...], int] = {}
    for row in rows:
        missing[row] = missing.get(row, 0) + 1
    query = f"SELECT rowid, {names} FROM {table} WHERE RecordID = ? ORDER BY rowid"
    for rowid, *found in con.execute(query, (record_id,)).fetchall():
        key = tuple(found)
        if missing.get(key, 0):
            missing[key] -= 1
        else:
            con.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,))
    lacking = [key for key, count in missing.items() for _ in range(count)]
    if lacking:
        con.executemany(_insert_child(table), [(record_id, *key) for key in lacking])


def _insert_child(table: str) -> str:
    columns = CHILDREN[table]
    return f"{_INSERT} INTO {table} (RecordID, {', '.join(columns)}) VALUES (?{', ?' * len(columns)})"


def _identity(facts: StateChange, *, settled: bool) -> tuple[object, ...]:
    status = facts.status if settled else None
    file = (status.size, status.mtime_ns, status.ctime_ns) if status is not None else (None, None, None)
    return (facts.state, facts.event_ns, *file)


# Files that are read again after other sources than A-REX have added values to the job.


def keep_filled_in(
    con: Connection, record_id: int, facts: StateChange, used: list[object], others: dict[str, str]
) -> set[str]:
    """
    Keep the values that other sources filled in for an already recorded end, where the files still have no value.

    Returns the fields for which the files have one.

    ``used``: the values of USAGE_COLUMNS after the first; changed in place. ``others``: sources by field.
    """
    _local_job_id, *have = con.execute(f"SELECT {USAGE_COLUMNS} FROM AAR WHERE RecordID = ?", (record_id,)).fetchone()
    told = {field for field, key in INFO_KEYS.items() if field != "benchmark" and facts.extra.get(key)}
    if any(facts.benchmarks) and others.get("benchmark") != "features":
        told.add("benchmark")
    if facts.usage is not None:
        # Also a measured 0.
        told |= {
            one for one in states.MEASURED if others.get(one) in states.UNMEASURED and one not in facts.usage.unknown
        }
    for place, (field, value, nothing) in enumerate(zip(_FIELDS, used, _NOTHING_USED[1:], strict=True)):
        if value != nothing:
            told.add(field)
        elif field in others and field not in told:
            used[place] = have[place]
    lost = told | {states.CORE_SECONDS} if "wall_s" in told else told
    gone = [(record_id, field) for field in others if field in lost]
    con.executemany("DELETE FROM FieldSources WHERE (RecordID, Field) = (?, ?)", gone)
    return told
