"""
Compares the control directory with the database: records events that no callout reported, and looks up lost jobs in
A-REX's own database.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from arcacct.arex import control_files, own_database
from arcacct.arex.import_database import SOURCE, Archives, import_lock, settled_before, sorted_out
from arcacct.arex.job_facts import job_facts, measurements, parse_instant
from arcacct.arex.own_database import ArexDatabase, Ended, EventClock, job_of
from arcacct.arex.sweep_context import Gap, Progress, SweepRun, batches, is_of_one_job, reason
from arcacct.database import access
from arcacct.database.connection import Connection
from arcacct.database.schema import created, note, noted
from arcacct.errors import InputError, StoreError
from arcacct.records import recorder, row_mapping
from arcacct.records.model import Job
from arcacct.records.reader import LARGEST_EXACT
from arcacct.records.row_mapping import ArexRows
from arcacct.records.states import FINAL, IN_PROGRESS, MEASURED, UNMEASURED, StateChange, StatusFile
from arcacct.records.texts import escaped, unescaped
from arcacct.records.unfinished import REMEDIES, InProgress, abort, held_jobs, hold, in_progress, is_gone_since
from arcacct.records.usage import deleted_jobs
from arcacct.records.writer import JobWriter, known_jobs
from arcacct.times import HOUR_S
from arcacct.wording import count_of

# A-REX's own database as the source for jobs whose files are gone.
#
# It is read if neither our database nor the control directory explains something, and every ten minutes for jobs
# without any event here. That never has an effect on A-REX (INVARIANTS 1). If its file must be copied first, copying
# takes at most a hundredth of the time, whatever its size. In between it is not read, and jobs that need it wait.


MINUTE_NS = 60 * 10**9
ABSENT_NS = 10 * MINUTE_NS
"""A-REX writes a job into its database some seconds after submission. A job that is missing later never comes."""
IN_PROGRESS_NS = 60 * MINUTE_NS
"""If a job is still in progress there this long after its files went away, A-REX was killed and writes no end."""
SILENT_NS = 24 * 60 * MINUTE_NS
"""How long a job waits for a database that cannot be read."""
_PATIENCE_S = 2.0
"""How many seconds one sweep waits until A-REX does not write."""
_PAUSES = 100
"""The ratio of the pause after a reading to the duration of the reading."""
_CHEAP_S = 0.2
"""A shorter reading needs no pause."""
_LOOKED_UP_JOBS = 200
_LOOKED = "ARCACCT_AREX_LOOKED"
"""The time of the last look for jobs without any event here, UTC seconds."""
_LOOK_S = 600
_OVERLAP_S = 7200
"""Each search also covers this many seconds before the last one: A-REX may have been writing the end of a job then."""


class ArexLookup:
    """
    Looks up what A-REX itself has recorded, for one sweep; a context manager.

    It opens a database only when asked for a job. A problem with A-REX's database does not stop the sweep.
    """

    def __init__(self, run: SweepRun) -> None:
        self.taken: set[str] = set()
        """Jobs that this sweep completed in our database as far as A-REX has them."""
        self._run = run
        self._paths: list[str] | None = None
        self._open: dict[str, ArexDatabase] = {}
        self._stack = ExitStack()
        self._clock = EventClock(None)
        self._archives: Archives | None = None
        self._is_silent = False
        self._problem = ""
        self._waited_for = 0
        self._pause_s = 0.0
        self._patience_ns: dict[str, int] = {}

    def __enter__(self) -> ArexLookup:
        return self

    def __exit__(self, *_error: object) -> None:
        """Close A-REX's database, and report jobs that wait without result."""
        self._stack.close()
        # A pause is no problem: the reading before it succeeded or was reported.
        if self._waited_for and self._problem:
            self._run.complaints.append(
                f"{self._problem}; {count_of(self._waited_for, 'job')} without files: waiting at most a day for A-REX's"
                " records of them; `arcacct import arex` can import them later"
            )

    def take(self, job_ids: Iterable[str]) -> set[str]:
        """
        Record these jobs as A-REX's own databases have them; return those that have now ended in ours.

        A job in progress there is recorded as such, or keeps our values. It makes its own transactions, so do not call
        it in one. Raises StoreError if our own database has a problem.
        """
        asked = {escaped(job_id): job_id for job_id in job_ids}
        whole: set[str] = set()
        if asked:
            for path in self._databases():
                left = [key for key, job_id in asked.items() if job_id not in whole]
                for some in batches(left, _LOOKED_UP_JOBS):
                    whole |= self._taken(path, some)
        self.taken |= whole
        if whole:
            self._run.found[Gap.TAKEN] += len(whole)
        return whole

    def take_unseen(self) -> None:
        """
        Record the ended jobs of A-REX's own databases without any event here, at most every ten minutes.

        These are jobs that were cleaned between two sweeps and whose callouts could not even spool. Jobs that ended
        before recording began are another program's, and jobs that were pruned or deleted here stay away. A job of the
        last ten minutes may still have an event in a spool.
        """
        con, now = self._run.con, int(time.time())
        with access.translating(self._run.here.database):
            looked_s = min(now, int(noted(con, _LOOKED) or 0))
            start, end = max(created(con), looked_s - _OVERLAP_S), now - _LOOK_S
        if end < looked_s or end <= start:
            return
        deleted: set[str] | None = None
        for page in self._ended(start, end):
            for some in batches(page, _LOOKED_UP_JOBS):
                if self._run.stopping():
                    return
                with access.translating(self._run.here.database):
                    unseen = {*some} - known_jobs(con, some).keys()
                    if unseen and deleted is None:
                        deleted = {*deleted_jobs(con, 0, LARGEST_EXACT)}
                self.take(unseen - (deleted or set()))
        # A database that is away now may have jobs of this time.
        if self._databases() and not self._is_silent:
            with self._run.writing():
                note(con, _LOOKED, now)

    def _ended(self, start_s: int, end_s: int) -> Iterator[dict[str, Ended]]:
        """Yield the jobs that ended there in a period, some thousand at a time, as far as it can be read."""
        for path in self._databases():
            try:
                database = self._database(path)
                if database is not None:
                    with access.translating(path):
                        yield from own_database.ended_between(database, start_s, end_s, settled_before())
            except (StoreError, InputError, OSError) as error:
                self._is_silent = True
                self._problem = reason(error, path)

    def may_still_report(self, job_id: str, event_ns: int, gone_ns: int) -> bool:
        """
        Whether A-REX's database may still explain a job that was not found, so that the job waits for the next sweep.

        ``event_ns``: the time of its last known event. ``gone_ns``: since when it waits for an explanation.
        """
        if not self._databases():
            return False
        now_ns = time.time_ns()
        waits_ns = abs(now_ns - gone_ns)
        if self._is_silent:
            self._waited_for += IN_PROGRESS_NS < waits_ns < SILENT_NS
            return waits_ns < SILENT_NS
        if job_id in self._patience_ns:
            return waits_ns < self._patience_ns[job_id]
        return abs(now_ns - event_ns) < ABSENT_NS

    def _databases(self) -> list[str]:
        if self._paths is None:
            self._paths = own_database.own_databases(self._run.here)
        return self._paths

    def _taken(self, path: str, keys: Sequence[str]) -> set[str]:
        rows: list[ArexRows] = []
        try:
            database = self._database(path)
            if database is not None:
                with access.translating(path):
                    rows = row_mapping.rows_of_jobs(database.con, database.version, keys)
        except (StoreError, InputError, OSError) as error:
            # Empty if it cannot be read now.
            self._is_silent = True
            self._problem = reason(error, path)
        parts = sorted_out(rows, settled_before())
        for row in rows:
            if row.record_id in parts.unfinished:
                patience_ns = IN_PROGRESS_NS if row.status == IN_PROGRESS else SILENT_NS
                self._patience_ns[unescaped(row.job_id)] = patience_ns
        jobs = [job_of(row, self._clock) for row in parts.usable]
        whole: set[str] = set()

        def refused(job: Job, error: Exception) -> None:
            self._run.complaints.append(f"{job.job_id}: {reason(error, path)}; A-REX's record of it is not imported")

        for some in self._run.slices(jobs):
            write = partial(self._write, os.path.realpath(path))
            whole.update(*self._run.record_each(some, write, refused))
        return whole

    def _database(self, path: str) -> ArexDatabase | None:
        if path in self._open:
            return self._open[path]
        here = self._run.here
        if not self._is_silent and not self._open:
            with access.translating(here.database):
                self._is_silent = own_database.ask_after(self._run.con) > time.time()
        if self._is_silent:
            # After a failure it is not tried again; the next sweep does that.
            return None
        begun = time.monotonic()
        try:
            if not self._open:
                self._stack.enter_context(import_lock(os.path.join(here.directory, "import.lock")))
            opened = own_database.opened(path, here.directory, patience_s=_PATIENCE_S, at_rest=not self._run.goes_on)
            self._open[path] = self._stack.enter_context(opened)
        finally:
            self._pause_s += time.monotonic() - begun
            if self._pause_s > _CHEAP_S:
                with self._run.writing():
                    own_database.save_pause(self._run.con, _PAUSES * self._pause_s)
        return self._open[path]

    def _write(self, origin: str, jobs: list[Job]) -> set[str]:
        """Write jobs in one transaction; return which of them have now ended in our database."""
        con = self._run.con
        if self._archives is None:
            self._archives = Archives(con)
            self._stack.callback(self._archives.close)
        kept = self._archives.without_archived(con, jobs)
        # Created for each transaction: after a rollback it must not remember names.
        JobWriter(con, SOURCE, origin).write(kept)
        ended = known_jobs(con, [job.job_id for job in kept if job.status in FINAL])
        return {job_id for job_id, known in ended.items() if known.status != IN_PROGRESS}


# Jobs that are unfinished in the database and have no files left in the control directory.


PATIENCE_NS = 600_000_000_000
"""
A job without files counts as vanished if its last event is older than this. A-REX removes a status file before it
writes the next one, and the last event of a cleaned job may still be in a spool.
"""
_ASKED_JOBS = 200

ALL = "all"
"""Instead of job IDs: every job that is on hold."""

Gone = tuple[str, InProgress]
"""A job with its ID."""


class Unfinished:
    """The jobs in progress that were not found in the control directory, at most as many as A-REX has."""

    def __init__(self, jobs: dict[str, InProgress]) -> None:
        self._jobs = jobs

    @classmethod
    def of(cls, run: SweepRun) -> Unfinished:
        """Return all jobs in progress in the database from control directories. Other sources track their own jobs."""
        with access.translating(run.here.database):
            return cls(in_progress(run.con, own_database.own_origins(run.here)))

    def is_there(self, job_id: str) -> None:
        """Remove a job that was found."""
        self._jobs.pop(job_id, None)

    def settle(self, run: SweepRun, arex_lookup: ArexLookup) -> None:
        """
        Give vanished jobs the end that A-REX's own database has. Abort those without one.

        A job that reported its end is never aborted: it is put on hold, with a complaint. Does nothing if the directory
        is not complete. Raises StoreError and its kinds.
        """
        controldir, now_ns = run.here.controldir, time.time_ns()
        gone = (
            (job_id, job)
            for job_id, job in self._jobs.items()
            if job.event_ns < now_ns - PATIENCE_NS and not job.is_held and control_files.is_gone(controldir, job_id)
        )
        for batch in batches(gone, _ASKED_JOBS):
            # Checked after the jobs: if a file system was unmounted in between, all its jobs seem to be gone.
            if run.stopping() or not control_files.is_whole(controldir):
                return
            taken = arex_lookup.take(job_id for job_id, _job in batch)
            lost: list[Gone] = []
            missed: list[InProgress] = []
            for job_id, job in batch:
                if job_id in taken:
                    continue
                if not arex_lookup.may_still_report(job_id, job.event_ns, job.gone_ns or now_ns):
                    lost.append((job_id, job))
                elif job.gone_ns is None:
                    missed.append(job)
            for some in run.slices(lost):
                _end(run, some)
            for waiting in run.slices(missed):
                with run.recording(len(waiting)):
                    for job in waiting:
                        is_gone_since(run.con, job, now_ns)


def _end(run: SweepRun, jobs: list[Gone]) -> None:
    """Abort the jobs of a slice, or put them on hold."""
    here = run.here

    def wrong(job: Gone, error: Exception) -> None:
        run.complain(job[0], here.database, error)

    def settle(some: Sequence[Gone]) -> tuple[int, list[str]]:
        aborted = sum(abort(run.con, job, control_files.STATES) for _job_id, job in some if job.finished_s is None)
        return aborted, [job_id for job_id, job in some if job.finished_s is not None and hold(run.con, job)]

    for aborted, held in run.record_each(jobs, settle, wrong):
        if aborted:
            run.found[Gap.VANISHED] += aborted
        for job_id in held:
            run.complaints.append(
                f"{job_id}: it has ended, its files in {here.controldir} are gone, and its usage is unknown, also in "
                f"A-REX's own database; it stays in progress and is not published: {REMEDIES}"
            )


def give_up(run: SweepRun, job_ids: Sequence[str]) -> None:
    """Abort jobs that are on hold, by the decision of a user who knows that their usage stays unknown."""
    with access.translating(run.here.database):
        waiting = held_jobs(run.con)
    wanted = dict.fromkeys(waiting if ALL in job_ids else job_ids)
    for job_id in wanted:
        if job_id not in waiting:
            run.complaints.append(
                f"{job_id}: not given up: no sweep has put it on hold; `arcacct job` shows its record"
            )
    for some in run.slices([waiting[job_id] for job_id in wanted if job_id in waiting]):
        with run.recording(len(some)):
            run.found[Gap.GIVEN_UP] += sum(abort(run.con, job, control_files.STATES) for job in some)


# Comparing the control directory with the database: events that no callout reported are recorded.


LOOKED_UP_JOBS = 500
"""The number of jobs in one query."""
SETTLED_NS = 60_000_000_000
"""
The next sweep examines a job again if its status file is younger than this. The file may change within the resolution
of its times, and a callout after ours may still fail the job or add to its .local.
"""

COPIED_S = 600
"""
A status file counts as a copy if it is this much later than the job's end in .local. A-REX 6 writes the same second,
A-REX 7 up to a wakeupperiod later (180 s by default; observed: 9 s of 10).
"""

StatusFileFound = tuple[str, str, os.stat_result]
"""Job ID, path and stat of a status file."""


class _Present(NamedTuple):
    """The present content of a job's files."""

    facts: StateChange
    path: str
    status: StatusFile
    reported_end: int | None
    """The job's end by .local, UTC seconds."""
    is_deleted: bool
    """A-REX has deleted the results and some of the files: the record has more."""


def reconcile(run: SweepRun, unfinished: Unfinished, progress: Progress | None) -> tuple[int, int]:
    """
    Record each job whose status file has changed since an earlier sweep read it, or whose .diag came late.

    Returns the number of jobs and the number of jobs whose files were read. Found jobs are removed from ``unfinished``.
    Raises OSError for an unreadable control directory, StoreError and its kinds.
    """
    scanned_ns = time.time_ns()
    counter = _Counter(run, unfinished, progress)
    looked_at = 0
    since_s = created(run.con)
    for batch in run.slices(_changed(run, counter)):
        looked_at += len(batch)
        for recorded in run.record_each(
            batch,
            lambda jobs: _record(run, jobs, scanned_ns - SETTLED_NS),
            lambda job, error: run.complain(job.facts.job_id, job.path, error),
        ):
            run.found.update(kind for _facts, kind in recorded if kind)
            ended = [facts.usage for facts, kind in recorded if kind in (recorder.NEW_JOB, recorder.NEW_END)]
            # No callout could report a job that ended before recording started.
            run.ends.update(one.end_time // HOUR_S for one in ended if one is not None and one.end_time >= since_s)
    return counter.jobs, looked_at


class _Counter:
    """Passes on the results of a scan, counts them, and reports the progress."""

    def __init__(self, run: SweepRun, unfinished: Unfinished, progress: Progress | None) -> None:
        self.jobs = 0
        self._run = run
        self._unfinished = unfinished
        self._progress = progress
        self._expected = control_files.count_status_files(run.here.controldir) if progress else 0

    def wrong(self, job_id: str, path: str, error: Exception) -> None:
        """Report a status file that cannot be used or examined."""
        self._unfinished.is_there(job_id)
        self._run.complain(job_id, path, error)

    def counted(self, found: Iterable[StatusFileFound]) -> Iterator[StatusFileFound]:
        for one in found:
            if self._run.stopping():
                return
            self._unfinished.is_there(one[0])
            if one[0].isascii():
                yield one
            else:
                # This is no job ID, and the database cannot be searched for it.
                self.wrong(one[0], one[1], InputError(f"{one[1]}: not a status file of A-REX, by its name"))
            self.jobs += 1
            if self._progress is not None:
                self._progress(self.jobs, max(self.jobs, self._expected))


def _changed(run: SweepRun, counter: _Counter) -> Iterator[_Present]:
    found = control_files.scan_status_files(run.here.controldir, counter.wrong)
    for batch in batches(counter.counted(found), LOOKED_UP_JOBS):
        with access.translating(run.here.database):
            read_before = remembered_status_files(run.con, [job_id for job_id, _path, _stat in batch])
        for job_id, path, stat in batch:
            file, has_wall, lacking = read_before.get(job_id, ((), 0, ""))
            is_read = file == (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            try:
                if is_read and not _is_late(run.here.controldir, job_id, lacking, has_wall=bool(has_wall)):
                    continue
                present = _present(run, job_id, path)
            except Exception as error:
                if not is_of_one_job(error):
                    raise
                run.complain(job_id, path, error)
                continue
            # The record of a deleted job has more than its files.
            if present is not None and not (is_read and present.is_deleted):
                yield present


def _is_late(controldir: str, job_id: str, lacking: str, *, has_wall: bool) -> bool:
    """
    Whether the .diag of an ended job has a measurement that its record lacks. Raises OSError.

    A-REX records the end of a job even if its .diag is not there yet, as on a slow file server. ``lacking``: the
    missing fields, separated by commas.
    """
    if has_wall and not lacking:
        return False
    path = control_files.job_file(controldir, job_id, "diag", hashed=control_files.is_hashed(controldir, job_id))
    found = measurements(control_files.read_bytes(path)[0] or b"")
    is_told = any(field in found for field in lacking.split(","))
    return is_told or (found.get("wall_s", 0) > 0 and not has_wall)


def remembered_status_files(con: Connection, job_ids: list[str]) -> dict[str, tuple[tuple[int, ...], int, str]]:
    """
    Return, by JobID, the status files that a sweep has read, and how the jobs were measured.

    The values are ``(size, mtime_ns, ctime_ns)``, whether the job has a wall time or has not ended, and the fields that
    its files lacked (`_is_late`).
    """
    fields = ", ".join(f"'{field}'" for field in MEASURED)
    lacking = (
        f"coalesce((SELECT group_concat(Field) FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID"
        f" AND Field IN ({fields}) AND Source IN {UNMEASURED}), '')"
    )
    known = _known(con, job_ids, f"Size, MTimeNs, CTimeNs, EndTime = 0 OR UsedWalltime, {lacking}", "Size IS NOT NULL")
    return {job_id: (tuple(file), has_wall, lacks) for job_id, (*file, has_wall, lacks) in known.items()}


def _known(con: Connection, job_ids: list[str], columns: str, condition: str) -> dict[str, tuple[Any, ...]]:
    """Return, by job ID, columns of these jobs and their status files in the database."""
    plain = {escaped(job_id): job_id for job_id in job_ids}
    return {
        plain[job_id]: tuple(values)
        for job_id, *values in con.execute(
            f"SELECT JobID, {columns} FROM AAR LEFT JOIN StatusFiles ON StatusFiles.RecordID = AAR.RecordID"
            f" WHERE JobID IN ({', '.join('?' * len(plain))}) AND {condition}",
            tuple(plain),
        )
    }


def _present(run: SweepRun, job_id: str, path: str) -> _Present | None:
    """Return what a job's files contain now; ``None`` if they are being written. Raises OSError and InputError."""
    here = run.here
    status = control_files.read_status_file(path)
    if status is None or not status.state:
        return None
    if not control_files.is_job_id(job_id) or status.state not in control_files.STATES:
        raise InputError(f"{path}: not a status file of A-REX (its content is {status.state[:40]!r})")
    is_deleted = status.state == "DELETED"
    if is_deleted:
        status.state = "FINISHED"
    files = control_files.read_job(here.controldir, job_id, status.state, run.owner, status)
    told_end = _told_end(files.local or b"") if status.state == "FINISHED" else None
    if is_deleted and told_end is not None and told_end * 10**9 <= status.mtime_ns:
        # Otherwise the file's time is that of the deletion.
        files.event_ns = told_end * 10**9
    facts = job_facts(files, here.rules)
    # A deleted job may have lost its .local: then nothing more can be learned about it.
    if not facts.known and not is_deleted and os.path.exists(path):
        raise InputError(f"{here.controldir}: the job has a status file but no .local")
    return _Present(facts, path, status, told_end, is_deleted) if facts.known else None


def _told_end(local: bytes) -> int | None:
    """
    Return when a job finished, in UTC seconds; ``None`` if .local does not show it.

    At FINISHED A-REX writes ``cleanuptime``, which is that time plus ``lifetime`` (seconds).
    """
    values = dict(line.partition(b"=")[::2] for line in local.split(b"\n"))
    cleanup = parse_instant(values.get(b"cleanuptime", b"").decode("ascii", "replace"))
    start = parse_instant(values.get(b"starttime", b"").decode("ascii", "replace"))
    lifetime = values.get(b"lifetime", b"")
    if cleanup is None or not lifetime.isdigit() or len(lifetime) > 12:
        return None
    end = cleanup - int(lifetime)
    return end if end >= (start or 0) else None


def _keep_ends(run: SweepRun, batch: list[_Present]) -> None:
    """
    Keep the recorded end of a job whose status file is a copy, with the time of copying.

    So a control directory can move to a new host. Otherwise every job would end again, and be published again.
    """
    copies = {}
    for one in batch:
        ended_s = one.facts.event_ns // 10**9
        if one.reported_end is not None and one.facts.usage is not None and ended_s - one.reported_end > COPIED_S:
            copies[one.facts.job_id] = one
    if not copies:
        return
    # Skip jobs with a later known event.
    ends = _known(
        run.con, list(copies), "EndTime, EventNs", "EndTime <> 0 AND coalesce(State, 'FINISHED') = 'FINISHED'"
    )
    for job_id, (end_time, event_ns) in ends.items():
        one = copies[job_id]
        assert one.reported_end is not None
        assert one.facts.usage is not None
        if 0 <= end_time - one.reported_end <= COPIED_S:
            one.facts.usage.end_time, one.facts.event_ns = end_time, event_ns or end_time * 10**9


def _record(run: SweepRun, batch: list[_Present], settled_before_ns: int) -> list[tuple[StateChange, str]]:
    """Record jobs; return the result of each. If a job was seen twice it has moved on, so deleted jobs come last."""
    _keep_ends(run, batch)
    jobs = [(one.facts, one.status.mtime_ns < settled_before_ns) for one in batch if not one.is_deleted]
    recorded = [*zip((facts for facts, _settled in jobs), recorder.record_present(run.con, jobs), strict=True)]
    for one in batch:
        if one.is_deleted and recorder.has_ended(run.con, one.facts.job_id):
            recorder.remember_status_file(run.con, one.facts.job_id, one.status)
        elif one.is_deleted:
            (kind,) = recorder.record_present(run.con, [(one.facts, one.status.mtime_ns < settled_before_ns)])
            recorded.append((one.facts, kind))
    return recorded
