"""Comparing the control directory with the database: what no hook has told is recorded."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from arcacct.arex.control_files import read_bytes, read_job, read_status_file
from arcacct.arex.facts import job_facts, measurements
from arcacct.arex.instants import parse_instant
from arcacct.arex.layout import STATES, count_status_files, is_hashed, is_job_id, job_file, scan_status_files
from arcacct.arex.sweeping import PATIENCE_S, Progress, SweepRun, batches, is_of_one_job
from arcacct.arex.vanished import Unfinished
from arcacct.database import access
from arcacct.database.connection import Connection
from arcacct.errors import InputError
from arcacct.records import recorder
from arcacct.records.recorder import escaped
from arcacct.records.states import DERIVED, MEASURED, UNKNOWN, StateChange, StatusFile
from arcacct.records.unfinished import HOUR_S

LOOKED_UP_JOBS = 500
"""Jobs asked for in one query."""
SETTLED_NS = 60_000_000_000
"""
A job whose status file is younger is looked at again by the next sweep: the file may change within the resolution of
its times, and a callout that runs after ours may still fail the job or add to its .local.
"""

COPIED_S = 600
"""
How much later than what .local tells of a job's end a status file may be before it is taken for a copy: A-REX 6 writes
the same second, A-REX 7 up to a wakeupperiod later (180 s by default; seen: 9 s of 10).
"""

StatusFileFound = tuple[str, str, os.stat_result]
"""Job id, path and stat of a status file."""


class _Present(NamedTuple):
    """What a job's files say now."""

    facts: StateChange
    path: str
    status: StatusFile
    reported_end: int | None
    """When .local says that the job ended; UTC seconds."""
    is_deleted: bool
    """A-REX has thrown away the results, and some of the files: what is recorded knows more."""


def reconcile(run: SweepRun, unfinished: Unfinished, progress: Progress | None) -> tuple[int, int]:
    """
    Record each job whose status file is not the one that an earlier sweep has read, or whose .diag came late.

    Returns how many jobs there are and of how many the files were read; jobs that are there are struck off
    ``unfinished``. Raises OSError for a control directory that cannot be read, StoreError and its kinds.
    """
    scanned_ns = time.time_ns()
    counter = _Counter(run, unfinished, progress)
    looked_at = 0
    for batch in run.slices(_changed(run, counter)):
        looked_at += len(batch)
        for recorded in run.record_each(
            batch,
            lambda jobs: _record(run, jobs, scanned_ns - SETTLED_NS),
            lambda job, error: run.complain(job.facts.job_id, job.path, error),
        ):
            run.found.update(kind for _facts, kind in recorded if kind)
            run.ends.update(
                facts.usage.end_time // HOUR_S
                for facts, kind in recorded
                if facts.usage is not None and kind in (recorder.NEW_JOB, recorder.NEW_END)
            )
    return counter.jobs, looked_at


class _Counter:
    """Passes on what a scan finds, counts it, and tells how far it is."""

    def __init__(self, run: SweepRun, unfinished: Unfinished, progress: Progress | None) -> None:
        self.jobs = 0
        self._run = run
        self._unfinished = unfinished
        self._progress = progress
        self._expected = count_status_files(run.here.controldir) if progress else 0

    def wrong(self, job_id: str, path: str, error: Exception) -> None:
        """A status file that cannot be used, or not even be looked at."""
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
                # No name of a job, and none that the database could be asked about.
                self.wrong(one[0], one[1], InputError(f"{one[1]}: not a status file of A-REX, by its name"))
            self.jobs += 1
            if self._progress is not None:
                self._progress(self.jobs, max(self.jobs, self._expected))


def _changed(run: SweepRun, counter: _Counter) -> Iterator[_Present]:
    for batch in batches(counter.counted(scan_status_files(run.here.controldir, counter.wrong)), LOOKED_UP_JOBS):
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
            # Of a deleted job what is recorded knows more.
            if present is not None and not (is_read and present.is_deleted):
                yield present


def _is_late(controldir: str, job_id: str, lacking: str, *, has_wall: bool) -> bool:
    """
    Whether the .diag of a job that has ended has a measurement that its record lacks. Raises OSError.

    A-REX records the end of a job also when its .diag is not there yet, as on a slow file server. ``lacking``: the
    fields that the files did not tell, with commas between.
    """
    if has_wall and not lacking:
        return False
    path = job_file(controldir, job_id, "diag", hashed=is_hashed(controldir, job_id))
    found = measurements(read_bytes(path)[0] or b"")
    is_told = any(field in found for field in lacking.split(","))
    return is_told or (found.get("wall_s", 0) > 0 and not has_wall)


def remembered_status_files(con: Connection, job_ids: list[str]) -> dict[str, tuple[tuple[int, ...], int, str]]:
    """
    By JobID those status files that a sweep has read, and how the job was measured.

    That is ``(size, mtime_ns, ctime_ns)``, whether it has a wall time or is not at its end, and what its files did not
    tell (`_is_late`).
    """
    fields = ", ".join(f"'{field}'" for field in MEASURED)
    lacking = (
        f"coalesce((SELECT group_concat(Field) FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID"
        f" AND Field IN ({fields}) AND Source IN ('{UNKNOWN}', '{DERIVED}')), '')"
    )
    known = _known(con, job_ids, f"Size, MTimeNs, CTimeNs, EndTime = 0 OR UsedWalltime, {lacking}", "Size IS NOT NULL")
    return {job_id: (tuple(file), has_wall, lacks) for job_id, (*file, has_wall, lacks) in known.items()}


def _known(con: Connection, job_ids: list[str], columns: str, condition: str) -> dict[str, tuple[Any, ...]]:
    """By id what the database knows of these jobs and their status files."""
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
    """What the files of a job say now; ``None`` for a job that is being written. Raises OSError and InputError."""
    here = run.here
    status = read_status_file(path)
    if status is None or not status.state:
        return None
    if not is_job_id(job_id) or status.state not in STATES:
        raise InputError(f"{path}: not a status file of A-REX (it says {status.state[:40]!r})")
    is_deleted = status.state == "DELETED"
    if is_deleted:
        status.state = "FINISHED"
    files = read_job(here.controldir, job_id, status.state, run.owner, PATIENCE_S, status)
    told_end = _told_end(files.local or b"") if status.state == "FINISHED" else None
    if is_deleted and told_end is not None and told_end * 10**9 <= status.mtime_ns:
        # Else it is the moment of the deletion.
        files.event_ns = told_end * 10**9
    facts = job_facts(files, here.rules)
    # A deleted job may have lost its .local: then there is nothing to learn of it any more.
    if not facts.known and not is_deleted and os.path.exists(path):
        raise InputError(f"{here.controldir}: the job has a status file but no .local")
    return _Present(facts, path, status, told_end, is_deleted) if facts.known else None


def _told_end(local: bytes) -> int | None:
    """
    When a job finished, in UTC seconds; ``None`` if .local does not tell.

    At FINISHED A-REX writes ``cleanuptime``, which is that moment and ``lifetime`` (seconds).
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
    Of a job whose status file is a copy (its time is that of the copying) the end that is recorded stays.

    So a control directory may go to a new host: otherwise every job would end anew, and be published once more.
    """
    copies = {}
    for one in batch:
        ended_s = one.facts.event_ns // 10**9
        if one.reported_end is not None and one.facts.usage is not None and ended_s - one.reported_end > COPIED_S:
            copies[one.facts.job_id] = one
    if not copies:
        return
    # None of a job of which something later is known.
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
    """What each job was to the database. One that is seen twice has moved on: deleted jobs come last."""
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
