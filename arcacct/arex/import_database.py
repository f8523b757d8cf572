"""Imports the jobs of a database that A-REX writes: first all of them, then those that are new or have changed."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import tzinfo
from typing import NamedTuple

from arcacct.arex import own_database
from arcacct.arex.own_database import ArexDatabase, EventClock, job_of, lost, written_whole
from arcacct.arex.sweep_context import batches
from arcacct.config.paths import AREX_DATABASES, Places
from arcacct.database import access
from arcacct.database.connection import ACCOUNTING_SCHEMA, Connection, open_for_reading, open_lock
from arcacct.database.schema import AREX_FIRST, PLAUSIBLE_S, note, noted
from arcacct.errors import InputError, StoreBusy, StoreError, use_as
from arcacct.files.directories import unseen
from arcacct.records import rejected, row_mapping, usage
from arcacct.records.imports import ImportRun
from arcacct.records.model import Job
from arcacct.records.rejected import Fault, RejectedRecord, RejectedRecords, RetryResult
from arcacct.records.row_mapping import ArexRows, Numbers
from arcacct.records.states import FINAL, IN_PROGRESS
from arcacct.records.writer import Difference, JobWriter, Written, known_jobs

SOURCE = "arex"
SETTLED_S = 3600
"""Seconds. A-REX has finished writing a job that ended longer ago, even if parts are missing."""
_PAGE = 500
_WRITE_BACK = 500
"""The number of records after which the WAL is written back; it then has about 5 MB."""
_CACHE_KIB = 16 * 1024
_EVENTS = 5000
_DIFFERENCES_KEPT = 1000

Progress = Callable[[int, int], None]
"""Called with the number of records done and the number of all records."""


class ImportReport(NamedTuple):
    """The result of one import."""

    path: str
    looked_at: int = 0
    added: int = 0
    changed: int = 0
    completed: int = 0
    """Jobs whose end our recorder missed."""
    unfinished: int = 0
    """Jobs that have not ended there. The next import reads them again."""
    differing: int = 0
    differences: tuple[Difference, ...] = ()
    """The first of the differing jobs."""
    rejected: int = 0
    """The number of unusable records."""
    complaints: tuple[tuple[str, str], ...] = ()
    """The place and the reason of each of these."""
    lost: tuple[tuple[str, str], ...] = ()
    """Records that A-REX itself has lost, each with the reason."""
    archived: int = 0
    """Jobs that were pruned from our database, or that may have been."""
    other_zone: int = 0
    """Jobs whose event times do not fit the given time zone."""

    def plus(self, written: Written) -> ImportReport:
        """Return the report with one more slice."""
        room = _DIFFERENCES_KEPT - len(self.differences)
        return self._replace(
            added=self.added + written.added,
            changed=self.changed + written.changed,
            completed=self.completed + written.completed,
            differing=self.differing + len(written.differences),
            differences=self.differences + written.differences[:room],
        )

    def plus_rejected(self, *rejects: tuple[str, str]) -> ImportReport:
        """Return the report with more unusable records, each with its place and the reason."""
        return self._replace(rejected=self.rejected + len(rejects), complaints=(*self.complaints, *rejects))


class _Position(NamedTuple):
    """A row of ImportedFiles."""

    file_id: int
    record_id: int = 0
    job_id: str = ""
    event_row: int = 0
    event: str = ""
    stamp: str = ""


def arex_databases(controldir: str) -> list[str]:
    """
    Return A-REX's databases below a control directory: of ARC 6, of ARC 7, or of both after an upgrade.

    Raises InputError if there is none.
    """
    paths = [os.path.join(controldir, "accounting", name) for name in AREX_DATABASES]
    found = [path for path in paths if os.path.exists(path)]
    if not found:
        hidden = unseen(paths[0])
        if hidden:
            raise InputError(f"{paths[0]}: {hidden}; {use_as(paths[0])}")
        raise InputError(f"{paths[0]}: A-REX has no database there; if it has one elsewhere, give its path")
    return found


def import_arex(
    here: Places,
    con: Connection,
    path: str,
    zone: tzinfo | None = None,
    *,
    patience_s: float = own_database.PATIENCE_S,
    progress: Progress = lambda _done, _all: None,
) -> ImportReport:
    """
    Import the jobs of A-REX's database that ours lacks. ``zone`` is A-REX's time zone, ``None`` this host's.

    ``patience_s``: how many seconds to wait until A-REX does not write, if the file must be copied.

    Raises InputError if the file is no database of A-REX, StoreBusy if A-REX writes all the time or another import is
    running, StoreError if one of the databases refuses.
    """
    origin = os.path.realpath(path)
    if origin == os.path.realpath(here.database):
        raise InputError(f"{path}: this is the database to import into; give the path of A-REX's own database")
    with import_lock(os.path.join(here.directory, "import.lock")):
        with access.translating(here.database):
            position = _position(con, origin)
            stamp = own_database.newest_stamp(path)
            if stamp and stamp == position.stamp and not _pending(con, position.file_id):
                return ImportReport(path)
        with own_database.opened(path, here.directory, patience_s=patience_s) as database:
            return _Import(here, con, database, position, EventClock(zone), progress).run()


@contextmanager
def import_lock(path: str) -> Iterator[None]:
    """Lock the reading of A-REX's databases: there is room for one copy only. Raises StoreBusy."""
    fd = open_lock(path)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreBusy(f"{path}: another import is running; wait until it ends") from None
        yield
    finally:
        os.close(fd)


def _position(con: Connection, origin: str) -> _Position:
    row = con.execute(
        "SELECT FileID, RecordID, JobID, EventRow, Event, Stamp FROM ImportedFiles WHERE Origin = ?", (origin,)
    ).fetchone()
    if row is not None:
        return _Position._make(row)
    highest = con.execute("SELECT ifnull(max(FileID), 0) FROM ImportedFiles").fetchone()[0]
    return _Position(highest + 1)


def _pending(con: Connection, file_id: int) -> list[int]:
    rows = con.execute("SELECT RecordID FROM UnfinishedImports WHERE FileID = ? ORDER BY RecordID", (file_id,))
    return [record_id for (record_id,) in rows]


class _Import(ImportRun):
    """One import from one open database."""

    _slice_s = 0.02
    _smallest = 5

    def __init__(
        self,
        here: Places,
        con: Connection,
        database: ArexDatabase,
        position: _Position,
        clock: EventClock,
        progress: Progress,
    ) -> None:
        super().__init__(here, con, SOURCE, "", lambda _text: None)
        self._database = database
        self._there = database.con
        self._origin = os.path.realpath(database.path)
        self._position = position
        self._clock = clock
        self._progress = progress
        self._writer = self._new_writer()
        self._rejected = self._quarantine.at(self._origin)
        self._archives = Archives(con)
        self._report = ImportReport(database.path)
        self._in_wal = 0
        self._settled_before = settled_before()

    def _new_writer(self) -> JobWriter:
        return JobWriter(self._con, SOURCE, self._origin, vo_by_claims=bool(self._here.rules.vo_claims))

    def run(self) -> ImportReport:
        """Do the whole import and return the report."""
        # Index entries come in random order: with SQLite's usual cache of 2 MB nearly every page would be read again.
        self._con.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        with closing(self._archives):
            position = self._position
            if position.record_id > 0 and (
                row_mapping.job_id_of(self._there, position.record_id) != position.job_id
                or (row_mapping.event_at(self._there, position.event_row) or "") != position.event
            ):
                # The last record of the previous import is missing: it is another file.
                self._position = _Position(position.file_id)
            if self._position.record_id == 0:
                # Read it before the first record: any later change then has a later event.
                row, event = row_mapping.last_event(self._there)
                self._position = self._position._replace(event_row=row, event=event)
            self._note_first_end()
            self._look_again_at_pending()
            self._look_again_at_changed()
            # Records with numbers below 1, from manual SQL, are read each time, since they have no order.
            for chunk in batches(row_mapping.records_below(self._there, 1), _PAGE):
                self._take(row_mapping.rows_of(self._there, self._database.version, chunk))
            first = self._position.record_id
            highest = row_mapping.highest_record(self._there)
            while rows := row_mapping.rows_after(self._there, self._database.version, self._position.record_id, _PAGE):
                self._take(rows, advance=True)
                done = self._position.record_id - first
                self._progress(done, max(highest - first, done))
            if self._position.stamp != self._database.stamp:
                self._write((), self._position._replace(stamp=self._database.stamp))
        usage.update_monthly(self._con, self._here)
        usage.update_breakdown(self._con, self._here)
        return self._report._replace(
            unfinished=len(_pending(self._con, self._position.file_id)), other_zone=self._clock.elsewhere
        )

    def _note_first_end(self) -> None:
        """
        Note the first job end in this database: a newly created one of A-REX lacks earlier jobs.

        Earlier imports from the same path remain here, so the earlier of two times counts.
        """
        first = row_mapping.first_end(self._there, PLAUSIBLE_S)
        known = noted(self._con, f"{AREX_FIRST}{self._origin}")
        # A database without an ended job starts now.
        first = int(time.time()) if first is None else first
        if known is None or first < int(known):
            with access.writing(self._con, self._here) as con:
                note(con, f"{AREX_FIRST}{self._origin}", first)

    def _look_again_at_pending(self) -> None:
        pending = _pending(self._con, self._position.file_id)
        for ids in batches(pending, _PAGE):
            statuses = row_mapping.statuses_of(self._there, ids)
            gone = [one for one in ids if one not in statuses]
            if gone:
                self._write((), self._position, gone=gone)
            ended = [one for one, status in statuses.items() if status != IN_PROGRESS]
            self._take(row_mapping.rows_of(self._there, self._database.version, ended))

    def _look_again_at_changed(self) -> None:
        """Read earlier records that have new events."""
        while True:
            last, ids = row_mapping.records_with_events(self._there, self._position.event_row, _EVENTS)
            if last == self._position.event_row:
                return
            event = row_mapping.event_at(self._there, last) or ""
            known = sorted(record_id for record_id in ids if record_id <= self._position.record_id)
            for chunk in batches(known, _PAGE):
                self._take(row_mapping.rows_of(self._there, self._database.version, chunk))
            self._write((), self._position._replace(event_row=last, event=event))

    def _take(self, rows: Sequence[ArexRows], *, advance: bool = False) -> None:
        """Write these records in slices. With ``advance`` they are the next ones, and the position moves with them."""

        def write(part: Sequence[ArexRows], refused: Fault | None = None) -> None:
            last, position = part[-1], self._position
            if advance:
                position = position._replace(record_id=last.record_id, job_id=last.job_id)
            self._write(part, position, refused=refused)

        for part in self._slices(rows):
            self._in_halves(part, write, lambda one, why: write([one], why))

    def _taken_back(self) -> None:
        super()._taken_back()
        self._writer = self._new_writer()

    def _write(
        self, rows: Sequence[ArexRows], position: _Position, gone: Sequence[int] = (), refused: Fault | None = None
    ) -> None:
        """Write the jobs of a slice, the records to read again and the position, in one transaction."""
        parts = sorted_out(rows if refused is None else (), self._settled_before)
        jobs: list[Job] = []
        bad: list[RejectedRecord] = []
        for one in parts.usable:
            try:
                jobs.append(job_of(one, self._clock))
            except Exception as error:  # noqa: BLE001  any error affects only this record
                bad.append(_reject(self._origin, one, rejected.fault(error)))
        bad += [
            # Nothing of these records is stored: they are read again from their file.
            RejectedRecord(self._origin, _place(one.record_id), Fault(one.fault or ""), b"", rejected.LONGEST_BYTES + 1)
            for one in parts.unreadable
        ]
        if refused is not None:
            bad = [_reject(self._origin, rows[0], refused)]
        done = [one.record_id for one in rows if one.record_id not in parts.unfinished]
        with access.writing_much(self._con, self._here) as con:
            # Other writers wait from here on.
            started = time.monotonic()
            kept = self._archives.without_archived(con, jobs)
            written = self._writer.write(kept)
            _remember(con, position, self._origin, parts.unfinished, [*done, *gone])
            if bad or self._rejected:
                # Earlier rejections of these records end here: the records are examined again.
                rejected.forget(con, [one for row in rows for one in self._rejected.get(_place(row.record_id), ())])
                self._quarantine.keep(bad)
        if rows:
            self._adapt(len(rows), time.monotonic() - started)
        self._position = position
        if bad or self._rejected:
            self._quarantine.forget()
            self._rejected = self._quarantine.at(self._origin)
        self._report = (
            self._report.plus(written)
            .plus_rejected(*((one.position, one.fault.reason) for one in bad))
            ._replace(
                looked_at=self._report.looked_at + len(rows),
                lost=(*self._report.lost, *parts.lost),
                archived=self._report.archived + len(jobs) - len(kept),
            )
        )

    def _adapt(self, records: int, seconds: float) -> None:
        super()._adapt(records, seconds)
        self._in_wal += records
        if self._in_wal >= _WRITE_BACK:
            access.write_back(self._con)
            self._in_wal = 0


def retry_rejected(here: Places, con: Connection, zone: tzinfo | None = None) -> tuple[ImportReport, RetryResult]:
    """
    Retry the rejected records of every A-REX database, as stored at that time, each record alone.

    Records that can be used now are no longer rejected. Raises StoreError and its kinds.
    """
    quarantine = RejectedRecords(con, SOURCE)
    report, done = ImportReport("rejected records"), RetryResult()
    with closing(Archives(con)) as archives:
        for kept, content in quarantine.waiting():
            done = done._replace(tried=done.tried + 1)
            writer = JobWriter(con, SOURCE, kept.file, vo_by_claims=bool(here.rules.vo_claims))
            try:
                values = json.loads(content)
                children = [[tuple(row) for row in rows] for rows in values[12:17]]
                rows = ArexRows._make((*values[:9], Numbers._make(values[9]), *values[10:12], *children, *values[17:]))
                usable = sorted_out([rows], settled_before()).usable
                jobs = [job_of(one, EventClock(zone)) for one in usable]
                with access.writing(con, here):
                    written = writer.write(archives.without_archived(con, jobs))
                    rejected.forget(con, [kept.rejected_id])
            except Exception as error:
                if not rejected.is_of_record(error):
                    raise
                report = report.plus_rejected((f"{kept.file}: {kept.position}", rejected.fault(error).reason))
            else:
                done = done._replace(good=done.good + 1)
                report = report.plus(written)._replace(looked_at=report.looked_at + 1)
    usage.update_monthly(con, here)
    return report, done._replace(needs_file=rejected.needing_file(con, SOURCE))


def _place(record_id: int) -> str:
    return f"record {record_id}"


def _reject(origin: str, rows: ArexRows, why: Fault) -> RejectedRecord:
    """Return a rejected record as JSON, for `retry_rejected`."""
    return RejectedRecord(origin, _place(rows.record_id), why, json.dumps(rows, default=repr).encode())


class Sorted(NamedTuple):
    """Records by their usability."""

    usable: list[ArexRows]
    unfinished: set[int]
    """Records to read again: jobs in progress (also usable), and jobs whose end A-REX is writing (not usable yet)."""
    lost: list[tuple[str, str]]
    unreadable: list[ArexRows]


def settled_before() -> int:
    """Return the time (UTC seconds) before which A-REX has written everything about ended jobs that it ever will."""
    return int(time.time()) - SETTLED_S


def sorted_out(rows: Iterable[ArexRows], settled_before: int) -> Sorted:
    """Sort records into usable, unfinished (in progress, or their end is being written), lost and unreadable."""
    usable: list[ArexRows] = []
    unfinished: set[int] = set()
    missing: list[tuple[str, str]] = []
    unreadable: list[ArexRows] = []
    for one in rows:
        if one.fault is not None:
            unreadable.append(one)
        elif (reason := lost(one)) is not None:
            missing.append((f"record {one.record_id} ({one.job_id})", reason))
        elif one.status == IN_PROGRESS:
            usable.append(one)
            unfinished.add(one.record_id)
        elif written_whole(one) or one.numbers.end_time < settled_before:
            usable.append(one)
        else:
            unfinished.add(one.record_id)
    return Sorted(usable, unfinished, missing, unreadable)


class Archives:
    """The archives of pruned jobs, which are not imported again."""

    def __init__(self, con: Connection) -> None:
        rows = con.execute("SELECT Path, EndedBefore FROM Archives").fetchall()
        self._ended_before = max((before for _path, before in rows), default=0)
        self._open: list[Connection] = []
        self._complete = True
        for path, _before in rows:
            try:
                self._open.append(open_for_reading(path, ACCOUNTING_SCHEMA))
            except StoreError:
                self._complete = False

    def without_archived(self, con: Connection, jobs: list[Job]) -> list[Job]:
        """Return the jobs without those that are in an archive."""
        archived = self.archived(con, {job.job_id: job.end_time for job in jobs if job.status in FINAL})
        return [job for job in jobs if job.job_id not in archived]

    def archived(self, con: Connection, ends: Mapping[str, int]) -> set[str]:
        """Return which jobs (JobID with end time) are archived. If an archive is missing: all that may be in it."""
        old = [job_id for job_id, end_time in ends.items() if end_time < self._ended_before]
        if not old:
            return set()
        unknown = set(old) - set(known_jobs(con, old))
        if self._complete:
            unknown = {job_id for archive in self._open for job_id in known_jobs(archive, sorted(unknown))}
        return unknown

    def close(self) -> None:
        """Close the archives."""
        for con in self._open:
            con.close()


def _remember(
    con: Connection, position: _Position, origin: str, unfinished: Iterable[int], done: Iterable[int]
) -> None:
    con.execute(
        "INSERT INTO ImportedFiles (FileID, Origin, RecordID, JobID, EventRow, Event, Stamp, Imported)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (FileID) DO UPDATE SET RecordID = excluded.RecordID, JobID = excluded.JobID,"
        " EventRow = excluded.EventRow, Event = excluded.Event, Stamp = excluded.Stamp, Imported = excluded.Imported"
        " WHERE (RecordID, JobID, EventRow, Event, Stamp)"
        " IS NOT (excluded.RecordID, excluded.JobID, excluded.EventRow, excluded.Event, excluded.Stamp)",
        (position.file_id, origin, *position[1:], int(time.time())),
    )
    con.executemany(
        "DELETE FROM UnfinishedImports WHERE FileID = ? AND RecordID = ?",
        [(position.file_id, record_id) for record_id in done],
    )
    con.executemany(
        "INSERT OR IGNORE INTO UnfinishedImports (FileID, RecordID) VALUES (?, ?)",
        [(position.file_id, record_id) for record_id in unfinished],
    )
