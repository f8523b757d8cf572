"""
Moving old jobs, which are finished and delivered, into an archive: a database of the same schema that queries attach.

First into the archive, then out of the database, a slice at a time: no transaction spans both files, so after a crash
in between a job is in both, and the next prune goes on. What a job contributed to the usage cells stays (INVARIANTS 6).
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from arcacct.conf.places import Places
from arcacct.db import opening
from arcacct.db.connect import ACCOUNTING_SCHEMA, open_database
from arcacct.db.engine import Connection
from arcacct.db.maintain import ARCHIVE_MARK
from arcacct.db.maintenance import maintenance
from arcacct.db.schema import ACCOUNTING, ensure, incarnation
from arcacct.errors import InputError, SchemaError
from arcacct.jobs import cells
from arcacct.jobs import rows as arex_rows
from arcacct.jobs.reading import unescaped
from arcacct.jobs.rows import ArexRows
from arcacct.jobs.statuses import SQL_FINAL
from arcacct.jobs.writing import JobWriter, forget, known_jobs

MOVED = ("RecordSources", "FieldSources", "RecordNotes", "AuthGroups")
"""Tables of a record, beside A-REX's own, that go with it into the archive."""
TELEMETRY = "JobTelemetry"
"""Goes with it, too; its cluster is known by name there."""
KEPT = ("Contributions", "GridEngineRecords", "SlurmRuns", "FormerVersions")
"""Tables that go on to know of a record: its usage counts, and its lines are not to be taken in once more."""

_PAGE = 500
_SLICE_S = 0.02


class Wishes(NamedTuple):
    """What is to be pruned."""

    ended_before: int
    """UTC seconds."""
    archive: str
    targets: tuple[str, ...] = ()
    """The blocks of the configured targets: what one of them was not sent yet stays."""
    without: tuple[str, ...] = ()
    """Targets of the ledger that are not waited for."""
    present: Collection[str] = ()
    """Jobs that the control directory still has."""


class Plan(NamedTuple):
    """What a prune would move, and what it would leave, why."""

    jobs: int = 0
    first_end: int | None = None
    last_end: int | None = None
    left: tuple[tuple[str, int], ...] = ()
    """``(reason, jobs)``."""


class _Candidate(NamedTuple):
    record_id: int
    job_id: str
    end_time: int
    seq: int


class Limits(NamedTuple):
    """How far everybody is who has to see a record before it may go."""

    seqs: tuple[tuple[str, int], ...]
    """``(who, the highest Seq that he has handled)``."""

    def waiting(self, seq: int) -> str | None:
        """Who has not handled a record yet."""
        return next((who for who, handled in self.seqs if handled < seq), None)


def limits(con: Connection, publishing: Connection, wishes: Wishes) -> Limits:
    """How far the targets are; one that has not begun, or that a restore set back, is at 0."""
    life = incarnation(con)
    cursors = {
        target: last_seq if owner == life else 0
        for target, owner, last_seq in publishing.execute("SELECT Target, Incarnation, LastSeq FROM Targets")
    }
    cursors |= {target: 0 for target in wishes.targets if target not in cursors}
    seqs = [(f"[{target}]", seq) for target, seq in sorted(cursors.items()) if target not in wishes.without]
    return Limits(tuple(seqs))


def plan(con: Connection, publishing: Connection, wishes: Wishes) -> Plan:
    """What `prune` would do now."""
    found = limits(con, publishing, wishes)
    jobs, first, last = 0, None, None
    left: dict[str, int] = {}
    for page in _candidates(con, wishes.ended_before):
        for one, reason in _judged(publishing, page, found, wishes):
            if reason is None:
                jobs += 1
                first = one.end_time if first is None else first
                last = one.end_time
            else:
                left[reason] = left.get(reason, 0) + 1
    return Plan(jobs, first, last, tuple(sorted(left.items())))


def prune(here: Places, con: Connection, publishing: Connection, wishes: Wishes) -> Plan:
    """
    Move what may go; returns what was moved and what was left.

    The caller holds the publishing lock. Hooks spool meanwhile. Raises SchemaError when the archive is something else,
    StoreError when one of the databases refuses; interrupted anywhere, the next call goes on.
    """
    archive = _open_archive(here, wishes.archive)
    with closing(archive), maintenance(here.database, "prune"):
        # What is not in the cells when it goes would be in no sum any more.
        cells.advance(con, here)
        found = limits(con, publishing, wishes)
        counted = cells.position(con)
        size, result = 100, Plan()
        left: dict[str, int] = {}
        for page in _candidates(con, wishes.ended_before):
            movable = []
            for one, reason in _judged(publishing, page, found, wishes):
                if reason is None and one.seq <= counted:
                    movable.append(one)
                elif reason is not None:
                    left[reason] = left.get(reason, 0) + 1
            start = 0
            while start < len(movable):
                part = movable[start : start + size]
                start += len(part)
                began = time.monotonic()
                moved = _move(here, con, archive, part, wishes)
                size = max(10, min(int(size * _SLICE_S / max(time.monotonic() - began, 1e-6)), 2 * size, _PAGE))
                if moved:
                    first = moved[0].end_time if result.first_end is None else result.first_end
                    result = Plan(result.jobs + len(moved), first, moved[-1].end_time)
    return result._replace(left=tuple(sorted(left.items())))


def _candidates(con: Connection, ended_before: int) -> Iterator[list[_Candidate]]:
    """Pages of the finished jobs that ended before then, by their end."""
    position = (0, 0)
    while True:
        # The plus keeps SQLite on the index of EndTime.
        rows = con.execute(
            "SELECT AAR.RecordID, JobID, EndTime, ifnull(Seq, 0) FROM AAR"
            " JOIN Status ON Status.ID = +StatusID"
            " LEFT JOIN FinishedLog ON FinishedLog.RecordID = AAR.RecordID"
            " WHERE (EndTime, AAR.RecordID) > (?, ?) AND EndTime > 0 AND EndTime < ?"
            f" AND Status.Name IN {SQL_FINAL} ORDER BY EndTime, AAR.RecordID LIMIT ?",
            (*position, ended_before, _PAGE),
        ).fetchall()
        if not rows:
            return
        page = [_Candidate(*row) for row in rows]
        yield page
        position = (page[-1].end_time, page[-1].record_id)


def _judged(
    publishing: Connection, page: Sequence[_Candidate], found: Limits, wishes: Wishes
) -> Iterator[tuple[_Candidate, str | None]]:
    """Each candidate, and why it has to stay."""
    job_ids = [unescaped(one.job_id) for one in page]
    query = "SELECT DISTINCT JobID FROM HeldRecords WHERE State <> 'dropped' AND JobID IN"
    held = {row[0] for row in publishing.execute(f"{query} ({','.join('?' * len(page))})", job_ids)}
    for one, job_id in zip(page, job_ids, strict=True):
        waiting = found.waiting(one.seq)
        if job_id in wishes.present:
            yield one, "the control directory still has them"
        elif one.seq == 0:
            yield one, "not in the log of finished records (`arcacct db check`)"
        elif waiting is not None:
            yield one, f"{waiting} was not sent them yet"
        elif job_id in held:
            yield one, "held back or set aside (`arcacct quarantine list`)"
        else:
            yield one, None


def _open_archive(here: Places, path: str) -> Connection:
    """The archive, made when it is missing. Raises SchemaError for a database that is none."""
    if os.path.exists(path) and os.path.exists(here.database) and os.path.samefile(path, here.database):
        raise InputError(f"{path}: that is the database itself; give another file for the archive")
    new = not os.path.exists(path) or os.path.getsize(path) == 0
    ensure(path, ACCOUNTING, read_group=here.read_group)
    archive = open_database(path, ACCOUNTING_SCHEMA)
    # A job leaves the database only when the archive has it for good.
    archive.execute("PRAGMA synchronous = FULL")
    if not new and not archive.execute("SELECT 1 FROM DBConfig WHERE KeyName = ?", (ARCHIVE_MARK,)).fetchone():
        used = archive.execute("SELECT 1 FROM AAR LIMIT 1").fetchone()
        if used:
            archive.close()
            raise SchemaError(f"{path}: a database of arcacct, but no archive; give another file")
    archive.execute("INSERT OR IGNORE INTO DBConfig VALUES (?, '1')", (ARCHIVE_MARK,))
    return archive


def _move(
    here: Places, con: Connection, archive: Connection, part: Sequence[_Candidate], wishes: Wishes
) -> list[_Candidate]:
    """One slice into the archive and out of the database; what changed meanwhile stays."""
    rows = arex_rows.rows_of(con, 1, [one.record_id for one in part])
    sources = _beside(con, [one.record_id for one in part])
    with opening.translating(wishes.archive):
        _store(archive, rows, sources, here.database)
    by_id = {one.record_id: one for one in part}
    with opening.writing(con, here):
        ids = ",".join(str(record_id) for record_id in by_id)
        now = con.execute(f"SELECT RecordID, Seq FROM FinishedLog WHERE RecordID IN ({ids})").fetchall()
        moved = [by_id[record_id] for record_id, seq in now if by_id[record_id].seq == seq]
        con.execute(
            "INSERT INTO Archives (Path, EndedBefore, Jobs, Pruned) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (Path) DO UPDATE SET EndedBefore = max(EndedBefore, excluded.EndedBefore),"
            " Jobs = Jobs + excluded.Jobs, Pruned = excluded.Pruned",
            (os.path.abspath(wishes.archive), wishes.ended_before, len(moved), int(time.time())),
        )
        _delete(con, [one.record_id for one in moved])
    return sorted(moved, key=lambda one: (one.end_time, one.record_id))


def _delete(con: Connection, record_ids: Sequence[int]) -> None:
    """
    Records with all that is theirs, inside the caller's transaction.

    The log first: a record that is in it would leave a tombstone, and its children would log it again.
    """
    con.executemany("DELETE FROM FinishedLog WHERE RecordID = ?", [(record_id,) for record_id in record_ids])
    forget(con, record_ids)


Beside = dict[str, list[tuple[object, ...]]]
"""Rows by table, the RecordID first."""


def _beside(con: Connection, record_ids: Sequence[int]) -> Beside:
    ids = ",".join(map(str, record_ids))
    return {
        **{table: con.execute(f"SELECT * FROM {table} WHERE RecordID IN ({ids})").fetchall() for table in MOVED},
        TELEMETRY: con.execute(
            f"SELECT RecordID, Clusters.Name, JobTelemetry.* FROM {TELEMETRY} JOIN Clusters ON Clusters.ID = ClusterID"
            f" WHERE RecordID IN ({ids})"
        ).fetchall(),
    }


def _store(archive: Connection, rows: Sequence[ArexRows], beside: Beside, origin: str) -> None:
    """Jobs as they are, under numbers of the archive's own."""
    archive.execute("BEGIN IMMEDIATE")
    try:
        # An earlier prune may have ended between the two databases, and the job may have changed since.
        there = known_jobs(archive, [unescaped(one.job_id) for one in rows])
        _delete(archive, [known.record_id for known in there.values()])
        # A writer for each slice: were one rolled back, it would remember names that are gone.
        first = JobWriter(archive, "archive", origin).insert(rows)
        numbers = {one.record_id: number for number, one in enumerate(rows, first)}
        for table in MOVED:
            archive.executemany(f"DELETE FROM {table} WHERE RecordID = ?", [(number,) for number in numbers.values()])
            rows_beside = [(numbers[int(str(record_id))], *values) for record_id, *values in beside[table]]
            if rows_beside:
                archive.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows_beside[0]))})", rows_beside)
        archive.executemany(
            "INSERT OR IGNORE INTO Clusters (Name) VALUES (?)", {(row[1],) for row in beside[TELEMETRY]}
        )
        clusters = dict(archive.execute("SELECT Name, ID FROM Clusters").fetchall())
        for record_id, cluster, _record_id, _cluster_id, *values in beside[TELEMETRY]:
            found = (numbers[int(str(record_id))], clusters[cluster], *values)
            archive.execute(f"INSERT OR REPLACE INTO {TELEMETRY} VALUES ({', '.join('?' * len(found))})", found)
        archive.execute("COMMIT")
    except BaseException:
        archive.execute("ROLLBACK")
        raise
