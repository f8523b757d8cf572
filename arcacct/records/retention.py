"""Move old jobs, finished and delivered, into an archive."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from typing import NamedTuple

from arcacct.config.paths import Places
from arcacct.database import access, durable
from arcacct.database.connection import ACCOUNTING_SCHEMA, Connection, open_database
from arcacct.database.durable import maintenance, transaction
from arcacct.database.schema import ACCOUNTING, create_views, ensure, incarnation, sources_of
from arcacct.database.upkeep import ARCHIVE_MARK
from arcacct.errors import InputError, SchemaError, StoreBusy
from arcacct.records import row_mapping, usage
from arcacct.records.holds import HELD
from arcacct.records.recorder import CHILDREN
from arcacct.records.row_mapping import ArexRows
from arcacct.records.states import SQL_FINAL
from arcacct.records.texts import unescaped
from arcacct.records.writer import OF_RECORD, JobWriter, known_jobs, remove

TELEMETRY = "JobTelemetry"
"""Moves with the record, too; its cluster is stored by name there."""
MOVED = tuple(one for one in OF_RECORD if one not in (*CHILDREN, "StatusFiles", TELEMETRY, "TelemetryToDivide"))
"""Tables of arcacct whose rows of a record move with it into the archive, in addition to A-REX's own tables."""
KEPT = ("JobUsageShares", "GridEngineRecords", "SlurmRuns", "HTCondorJobs", "BatchRuns", "PreviousVersions")
"""Tables that keep their rows of a record: its usage still counts, and its lines must not be imported again."""

_PAGE = 500
_FIRST_SLICE = 100
_SLICE_S = 0.02
_TURN_S = 0.05
"""Seconds between two pages: a process that retries for the database finds it free in this time."""
_PATIENCE_S = 600.0
"""How many seconds a prune waits between two pages for a publisher."""

Alone = Callable[[], AbstractContextManager[None]]
"""Keeps publishers out while a page is moved; raises StoreBusy at once if a publisher is active."""


class PruneOptions(NamedTuple):
    """The jobs to prune, and the archive."""

    ended_before: int
    """UTC seconds."""
    archive: str
    targets: tuple[str, ...] = ()
    """The blocks of the configured targets: records that one of them has not received yet stay."""
    without: tuple[str, ...] = ()
    """Targets of the ledger that a prune does not wait for."""
    present: Collection[str] = ()
    """Jobs that the control directory still has."""


class Pruned(NamedTuple):
    """The jobs that a prune would move, or moved, and those that stay, with the reasons."""

    jobs: int = 0
    first_end: int | None = None
    last_end: int | None = None
    left: tuple[tuple[str, int], ...] = ()
    """``(reason, jobs)``."""
    is_whole: bool = True
    """False: it was stopped before it had examined all jobs; the next prune continues."""


class Candidate(NamedTuple):
    """A finished job."""

    record_id: int
    job_id: str
    end_time: int
    seq: int
    held: str
    """Why it is held (`records.holds`); empty: it is not held."""


_Judged = tuple[Candidate, str | None]
"""A candidate, and why it must stay; ``None``: it may move."""


def plan(con: Connection, publishing: Connection, options: PruneOptions) -> Pruned:
    """Return what `prune` would do now, without changing anything."""
    pages = (list(judged(con, publishing, page, options)) for page in candidates(con, options.ended_before))
    return _summed(([one for one, reason in judged if reason is None], judged) for judged in pages)


def prune(
    here: Places,
    con: Connection,
    publishing: Connection,
    options: PruneOptions,
    *,
    alone: Alone = nullcontext,
    progress: Callable[[int], None] = lambda _jobs: None,
    stopping: Callable[[], bool] = lambda: False,
) -> Pruned:
    """
    Move the jobs that may move into the archive; returns how many moved and how many stay.

    While a page of jobs moves, ``alone`` keeps publishers out, and events are spooled. ``progress`` is called with the
    number of jobs moved so far. When ``stopping`` returns True, the prune ends after the page. After an interruption
    the next call continues.

    Raises SchemaError when the archive is another kind of database, StoreBusy when a publisher or another prune is
    active, StoreError when one of the databases fails.
    """
    with closing(_open_archive(here, options.archive)) as archive:
        create_views(archive, *sources_of(con))
        # A job that moves before the monthly cells include it would be missing from all sums.
        usage.update_monthly(con, here)
        stopped, done, size = False, 0, _FIRST_SLICE

        def pages() -> Iterator[tuple[list[Candidate], Sequence[_Judged]]]:
            nonlocal stopped, done, size
            for number, page in enumerate(candidates(con, options.ended_before)):
                if stopped := stopping():
                    return
                with _turn(alone, 0 if number == 0 else _PATIENCE_S, stopping), maintenance(here.database, "prune"):
                    # Judge inside the locks: another process may have changed which jobs may move.
                    verdicts = list(judged(con, publishing, page, options))
                    free = [one for one, reason in verdicts if reason is None]
                    moved, size = _move_page(here, con, archive, free, options, size)
                done += len(moved)
                progress(done)
                yield moved, verdicts
                time.sleep(_TURN_S)

        pruned = _summed(pages())._replace(is_whole=not stopped)
    if pruned.is_whole:
        durable.log_done(here.directory, durable.PRUNE)
    return pruned


@contextmanager
def _turn(alone: Alone, patience_s: float, stopping: Callable[[], bool]) -> Iterator[None]:
    """Enter ``alone`` as soon as no publisher is active. Raises StoreBusy after ``patience_s`` seconds."""
    deadline = time.monotonic() + patience_s
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(alone())
                break
            except StoreBusy:
                if time.monotonic() >= deadline or stopping():
                    raise
            time.sleep(_TURN_S)
        yield


def _summed(pages: Iterable[tuple[Sequence[Candidate], Sequence[_Judged]]]) -> Pruned:
    """Sum up pages; each has the jobs that moved, or may move, and the verdicts on its candidates."""
    result = Pruned()
    left: Counter[str] = Counter()
    for moved, judged in pages:
        left.update(reason for _one, reason in judged if reason is not None)
        if moved:
            first = moved[0].end_time if result.first_end is None else result.first_end
            result = Pruned(result.jobs + len(moved), first, moved[-1].end_time)
    return result._replace(left=tuple(sorted(left.items())))


def candidates(con: Connection, ended_before: int, ended_from: int = 0) -> Iterator[list[Candidate]]:
    """Yield pages of the finished jobs with ``ended_from <= EndTime < ended_before`` (UTC seconds), by their end."""
    # The plus keeps SQLite on the index of EndTime.
    query = (
        "SELECT AAR.RecordID, JobID, EndTime, ifnull(Seq, 0), ifnull(Reasons, '') FROM AAR"
        " JOIN Status ON Status.ID = +StatusID"
        " LEFT JOIN FinishedLog ON FinishedLog.RecordID = AAR.RecordID"
        f" LEFT JOIN RecordHolds ON RecordHolds.RecordID = AAR.RecordID AND State = '{HELD}'"
        " WHERE (EndTime, AAR.RecordID) > (?, ?) AND EndTime > 0 AND EndTime < ?"
        f" AND Status.Name IN {SQL_FINAL} ORDER BY EndTime, AAR.RecordID LIMIT ?"
    )
    position = (ended_from, 0)
    while page := [Candidate._make(row) for row in con.execute(query, (*position, ended_before, _PAGE))]:
        yield page
        position = (page[-1].end_time, page[-1].record_id)


_NOT_SENT = "not sent to {} yet"


def _handled(con: Connection, publishing: Connection, options: PruneOptions) -> dict[str, int]:
    """Return the cursor of each target. A target that has not started, or that a restore set back, is at 0."""
    life = incarnation(con)
    cursors = dict.fromkeys(options.targets, 0) | {
        target: last_seq if owner == life else 0
        for target, owner, last_seq in publishing.execute(
            "SELECT Target, Incarnation, min(LastSeq, ifnull(LastSeqAgain, 0)) FROM Targets"
        )
    }
    return {f"[{target}]": seq for target, seq in sorted(cursors.items()) if target not in options.without}


def not_taken_back(
    con: Connection, publishing: Connection, ended: tuple[int, int], options: PruneOptions
) -> dict[str, int]:
    """
    Return, by reason, how many jobs a target may have with a former end in ``ended[0] <= EndTime < ended[1]``.

    They were deleted or have changed since its last run, which needs the names that were sent to take them back.
    """
    found = {}
    for target, seq in _handled(con, publishing, options).items():
        (jobs,) = con.execute(
            "SELECT count(DISTINCT RecordID) FROM PreviousVersions CROSS JOIN FinishedLog USING (RecordID)"
            " WHERE EndTime >= ? AND EndTime < ? AND FinishedLog.Seq > ?",
            (*ended, seq),
        ).fetchone()
        if jobs:
            found[_NOT_SENT.format(target)] = jobs
    return found


def judged(
    con: Connection, publishing: Connection, page: Sequence[Candidate], options: PruneOptions
) -> Iterator[_Judged]:
    """Yield each candidate with the reason why it must stay; ``None``: it may move."""
    handled = _handled(con, publishing, options)
    job_ids = [unescaped(one.job_id) for one in page]
    query = "SELECT DISTINCT JobID FROM HeldRecords WHERE State <> 'dropped' AND JobID IN"
    held = {row[0] for row in publishing.execute(f"{query} ({','.join('?' * len(page))})", job_ids)}
    for one, job_id in zip(page, job_ids, strict=True):
        waiting = next((who for who, seq in handled.items() if seq < one.seq), None)
        if job_id in options.present:
            yield one, "the control directory still has them"
        elif one.seq == 0:
            yield one, "not in the log of finished records (`arcacct db check`)"
        elif waiting is not None:
            yield one, _NOT_SENT.format(waiting)
        elif one.held:
            yield one, "held for their values (`arcacct quarantine list`)"
        elif job_id in held:
            yield one, "held or quarantined (`arcacct quarantine list`)"
        else:
            yield one, None


def _open_archive(here: Places, path: str) -> Connection:
    """
    Open the archive; create it if it is missing.

    Raises InputError if it is the database itself, SchemaError if it is a database of arcacct but not an archive.
    """
    if os.path.exists(path) and os.path.exists(here.database) and os.path.samefile(path, here.database):
        raise InputError(f"{path}: that is the database itself; give another file for the archive")
    new = not os.path.exists(path) or os.path.getsize(path) == 0
    ensure(path, ACCOUNTING, read_group=here.read_group)
    archive = open_database(path, ACCOUNTING_SCHEMA)
    # A job is deleted from the database only when the archive has it on disk.
    archive.execute("PRAGMA synchronous = FULL")
    if not new and not archive.execute("SELECT 1 FROM DBConfig WHERE KeyName = ?", (ARCHIVE_MARK,)).fetchone():
        used = archive.execute("SELECT 1 FROM AAR LIMIT 1").fetchone()
        if used:
            archive.close()
            raise SchemaError(f"{path}: a database of arcacct, but not an archive; give another file")
    archive.execute("INSERT OR IGNORE INTO DBConfig VALUES (?, '1')", (ARCHIVE_MARK,))
    return archive


def _move_page(
    here: Places, con: Connection, archive: Connection, page: Sequence[Candidate], options: PruneOptions, size: int
) -> tuple[list[Candidate], int]:
    """
    Move a page; returns the moved jobs. Jobs that the monthly cells lack, or that changed meanwhile, stay.

    Moves slices that take about `_SLICE_S`, since other processes wait meanwhile. ``size``: jobs of the first slice;
    the second result is the size for the next page.
    """
    counted = usage.position(con)
    # Another process may have added more jobs to the monthly cells than to the finer ones.
    usage.update_breakdown(con, here, everything=True)
    waiting = [one for one in page if one.seq <= counted]
    moved: list[Candidate] = []
    while waiting:
        part, waiting = waiting[:size], waiting[size:]
        began = time.monotonic()
        moved += _move(here, con, archive, part, options)
        took = max(time.monotonic() - began, 1e-6)
        size = max(10, min(int(size * _SLICE_S / took), 2 * size, _PAGE))
    return moved, size


def _move(
    here: Places, con: Connection, archive: Connection, part: Sequence[Candidate], options: PruneOptions
) -> list[Candidate]:
    """Copy one slice into the archive and delete it from the database; jobs that changed meanwhile stay."""
    by_id = {one.record_id: one for one in part}
    ids = ",".join(map(str, by_id))
    beside = {table: con.execute(f"SELECT * FROM {table} WHERE RecordID IN ({ids})").fetchall() for table in MOVED}
    beside[TELEMETRY] = con.execute(
        f"SELECT RecordID, Clusters.Name, JobTelemetry.* FROM {TELEMETRY} JOIN Clusters ON Clusters.ID = ClusterID"
        f" WHERE RecordID IN ({ids})"
    ).fetchall()
    with access.translating(options.archive):
        _store(archive, row_mapping.rows_of(con, 1, list(by_id)), beside, here.database)
    with access.writing(con, here):
        now = con.execute(f"SELECT RecordID, Seq FROM FinishedLog WHERE RecordID IN ({ids})").fetchall()
        moved = [by_id[record_id] for record_id, seq in now if by_id[record_id].seq == seq]
        con.execute(
            "INSERT INTO Archives (Path, EndedBefore, Jobs, Pruned) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (Path) DO UPDATE SET EndedBefore = max(EndedBefore, excluded.EndedBefore),"
            " Jobs = Jobs + excluded.Jobs, Pruned = excluded.Pruned",
            (os.path.abspath(options.archive), options.ended_before, len(moved), int(time.time())),
        )
        _delete(con, [one.record_id for one in moved])
    return sorted(moved, key=lambda one: (one.end_time, one.record_id))


def _delete(con: Connection, record_ids: Sequence[int]) -> None:
    """
    Delete records with all their rows, inside the caller's transaction.

    The log first: a record that is in the log would leave a tombstone, and its children would log it again.
    """
    con.executemany("DELETE FROM FinishedLog WHERE RecordID = ?", [(record_id,) for record_id in record_ids])
    remove(con, record_ids)


def _store(
    archive: Connection, rows: Sequence[ArexRows], beside: Mapping[str, list[tuple[object, ...]]], origin: str
) -> None:
    """Store jobs in the archive under new numbers; `beside`: their rows in other tables, the RecordID first."""
    with transaction(archive):
        # An earlier prune may have ended between the two databases, and the job may have changed since.
        there = known_jobs(archive, [unescaped(one.job_id) for one in rows])
        _delete(archive, [known.record_id for known in there.values()])
        # A new writer for each slice: after a rollback, a writer would remember names that are gone.
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
