"""
Moving old jobs, which are finished and delivered, into an archive: a database of the same schema that queries attach.

First into the archive, then out of the database, a slice at a time: no transaction spans both files, so after a crash
in between a job is in both, and the next prune goes on. What a job contributed to the usage cells stays (INVARIANTS 6).
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from arcacct.conf.places import Places
from arcacct.db import opening
from arcacct.db.connect import ACCOUNTING_SCHEMA, open_database
from arcacct.db.durable import transaction
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


class PruneWishes(NamedTuple):
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


class Pruned(NamedTuple):
    """What a prune would move, or moved, and what it leaves, why."""

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


def plan(con: Connection, publishing: Connection, wishes: PruneWishes) -> Pruned:
    """What `prune` would do now."""
    return _gone_through(con, publishing, wishes, lambda page: page)


def prune(here: Places, con: Connection, publishing: Connection, wishes: PruneWishes) -> Pruned:
    """
    Move what may go; returns what was moved and what was left.

    The caller holds the publishing lock. Hooks spool meanwhile. Raises SchemaError when the archive is something else,
    StoreError when one of the databases refuses; interrupted anywhere, the next call goes on.
    """
    archive = _open_archive(here, wishes.archive)
    with closing(archive), maintenance(here.database, "prune"):
        # What is not in the cells when it goes would be in no sum any more.
        cells.advance(con, here)
        counted, size = cells.position(con), 100
        cells.refine(con, here, everything=True)

        def move(page: Sequence[_Candidate]) -> list[_Candidate]:
            nonlocal size
            moved: list[_Candidate] = []
            waiting = [one for one in page if one.seq <= counted]
            while waiting:
                part, waiting = waiting[:size], waiting[size:]
                began = time.monotonic()
                moved += _move(here, con, archive, part, wishes)
                size = max(10, min(int(size * _SLICE_S / max(time.monotonic() - began, 1e-6)), 2 * size, _PAGE))
            return moved

        return _gone_through(con, publishing, wishes, move)


def _gone_through(
    con: Connection,
    publishing: Connection,
    wishes: PruneWishes,
    move: Callable[[list[_Candidate]], list[_Candidate]],
) -> Pruned:
    """Every candidate, judged; ``move`` has those of a page that may go, and returns what went."""
    life = incarnation(con)
    # How far the targets are; one that has not begun, or that a restore set back, is at 0.
    cursors = dict.fromkeys(wishes.targets, 0) | {
        target: last_seq if owner == life else 0
        for target, owner, last_seq in publishing.execute("SELECT Target, Incarnation, LastSeq FROM Targets")
    }
    handled = {f"[{target}]": seq for target, seq in sorted(cursors.items()) if target not in wishes.without}
    result = Pruned()
    left: Counter[str] = Counter()
    for page in _candidates(con, wishes.ended_before):
        judged = list(_judged(publishing, page, handled, wishes))
        left.update(reason for _one, reason in judged if reason is not None)
        if moved := move([one for one, reason in judged if reason is None]):
            first = moved[0].end_time if result.first_end is None else result.first_end
            result = Pruned(result.jobs + len(moved), first, moved[-1].end_time)
    return result._replace(left=tuple(sorted(left.items())))


def _candidates(con: Connection, ended_before: int) -> Iterator[list[_Candidate]]:
    """Pages of the finished jobs that ended before then, by their end."""
    # The plus keeps SQLite on the index of EndTime.
    query = (
        "SELECT AAR.RecordID, JobID, EndTime, ifnull(Seq, 0) FROM AAR"
        " JOIN Status ON Status.ID = +StatusID"
        " LEFT JOIN FinishedLog ON FinishedLog.RecordID = AAR.RecordID"
        " WHERE (EndTime, AAR.RecordID) > (?, ?) AND EndTime > 0 AND EndTime < ?"
        f" AND Status.Name IN {SQL_FINAL} ORDER BY EndTime, AAR.RecordID LIMIT ?"
    )
    position = (0, 0)
    while page := [_Candidate._make(row) for row in con.execute(query, (*position, ended_before, _PAGE))]:
        yield page
        position = (page[-1].end_time, page[-1].record_id)


def _judged(
    publishing: Connection, page: Sequence[_Candidate], handled: Mapping[str, int], wishes: PruneWishes
) -> Iterator[tuple[_Candidate, str | None]]:
    """Each candidate, and why it has to stay; ``handled``: up to which Seq those who wait for records have had them."""
    job_ids = [unescaped(one.job_id) for one in page]
    query = "SELECT DISTINCT JobID FROM HeldRecords WHERE State <> 'dropped' AND JobID IN"
    held = {row[0] for row in publishing.execute(f"{query} ({','.join('?' * len(page))})", job_ids)}
    for one, job_id in zip(page, job_ids, strict=True):
        waiting = next((who for who, seq in handled.items() if seq < one.seq), None)
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
    here: Places, con: Connection, archive: Connection, part: Sequence[_Candidate], wishes: PruneWishes
) -> list[_Candidate]:
    """One slice into the archive and out of the database; what changed meanwhile stays."""
    by_id = {one.record_id: one for one in part}
    ids = ",".join(map(str, by_id))
    beside = {table: con.execute(f"SELECT * FROM {table} WHERE RecordID IN ({ids})").fetchall() for table in MOVED}
    beside[TELEMETRY] = con.execute(
        f"SELECT RecordID, Clusters.Name, JobTelemetry.* FROM {TELEMETRY} JOIN Clusters ON Clusters.ID = ClusterID"
        f" WHERE RecordID IN ({ids})"
    ).fetchall()
    with opening.translating(wishes.archive):
        _store(archive, arex_rows.rows_of(con, 1, list(by_id)), beside, here.database)
    with opening.writing(con, here):
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


def _store(
    archive: Connection, rows: Sequence[ArexRows], beside: Mapping[str, list[tuple[object, ...]]], origin: str
) -> None:
    """Jobs as they are, with what stands ``beside`` them by table (the RecordID first), under numbers of its own."""
    with transaction(archive):
        # An earlier prune may have ended between the two databases, and the job may have changed since.
        there = known_jobs(archive, [unescaped(one.job_id) for one in rows])
        _delete(archive, [known.record_id for known in there.values()])
        # A writer for each slice: were one rolled back, it would remember names that are gone.
        first = JobWriter(archive, "archive", origin).insert(rows)
        numbers: dict[object, int] = {one.record_id: number for number, one in enumerate(rows, first)}
        clusters = {row[1] for row in beside[TELEMETRY]}
        archive.executemany("INSERT OR IGNORE INTO Clusters (Name) VALUES (?)", [(name,) for name in clusters])
        number_of = dict(archive.execute("SELECT Name, ID FROM Clusters").fetchall())
        for table in (*MOVED, TELEMETRY):
            found = [(numbers[record_id], *values) for record_id, *values in beside[table]]
            if table == TELEMETRY:
                found = [
                    (number, number_of[cluster], *values) for number, cluster, _record_id, _cluster_id, *values in found
                ]
            archive.executemany(f"DELETE FROM {table} WHERE RecordID = ?", [(number,) for number in numbers.values()])
            if found:
                archive.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(found[0]))})", found)
