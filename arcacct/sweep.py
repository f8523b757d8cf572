"""
What the hook missed: drain the spool, then compare the control directory with the database (DESIGN section 4).

Files are read outside the queue of writers and recorded in slices, so that no hook waits for the sweep.
"""

from __future__ import annotations

import os
import time
from _sqlite3 import Connection
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from arcacct.conf.places import Places
from arcacct.controldir.facts import JobFacts, job_facts
from arcacct.controldir.files import JobFiles, owner_of, read_job, read_rest, read_status_file
from arcacct.controldir.layout import STATES, is_job_id, scan_status_files
from arcacct.errors import ArcacctError, InputError
from arcacct.store import accounting, health, recorder, spool

SLICE_JOBS = 20
"""Jobs recorded in one transaction: about 10 ms of the queue."""
SETTLED_NS = 60_000_000_000
"""
A job whose status file is younger is looked at again by the next sweep: the file may change within the resolution of
its times, and a callout that runs after ours may still fail the job or add to its .local.
"""
ABANDONED_S = 86_400
"""A spool file that has not got its name within a day never will."""

Owner = Callable[[os.stat_result], str]
Progress = Callable[[int, int], None]
"""Called with the jobs that are done and the jobs that there are."""
StatusFileFound = tuple[str, str, os.stat_result]
"""Job id, path and stat of a status file."""
T = TypeVar("T")


class SweepReport(NamedTuple):
    """What one sweep did."""

    spooled: int
    """Events taken from the spool."""
    jobs: int
    """Jobs with a status file in the control directory."""
    looked_at: int
    """Jobs whose files had to be read."""
    recorded: int
    """Jobs for which the database lacked something."""
    complaints: tuple[str, ...]
    """What could not be used, each with the file, the reason and what to do."""


def sweep(
    here: Places, con: Connection, *, owner: Owner = owner_of, progress: Progress = lambda _done, _all: None
) -> SweepReport:
    """
    Drain the spool, walk the control directory, record what the database lacks.

    ``progress`` is told how many jobs of the directory are done. Raises StoreError when the database refuses and
    InputError when the control directory cannot be read; anything about one job is a complaint.
    """
    complaints: list[str] = []
    spooled = drain(here, con, complaints, owner=owner)
    scanned_ns = time.time_ns()
    try:
        present = scan_status_files(here.controldir)
    except OSError as error:
        raise InputError(
            f"{here.controldir}: cannot read the control directory: {error.strerror}; "
            "run as the user of A-REX, and check [arex] controldir"
        ) from error
    looked_at = 0
    recorded = 0
    jobs = _changed(here, con, _told(present, progress), owner, complaints)
    for batch in _batches(jobs, SLICE_JOBS):
        looked_at += len(batch)
        with accounting.writing(con, here):
            for facts in batch:
                settled = facts.event_ns < scanned_ns - SETTLED_NS
                recorded += recorder.record(con, facts, present=True, settled=settled)
    with accounting.writing(con, here):
        health.remember_sweep(con)
    return SweepReport(spooled, len(present), looked_at, recorded, tuple(complaints))


def _told(present: list[StatusFileFound], progress: Progress) -> Iterator[StatusFileFound]:
    for done, found in enumerate(present, 1):
        yield found
        progress(done, len(present))


def _changed(
    here: Places, con: Connection, present: Iterable[StatusFileFound], owner: Owner, complaints: list[str]
) -> Iterator[JobFacts]:
    """The facts of each job whose status file is not the one that an earlier sweep has read."""
    with accounting.translating(here.database):
        read_before = accounting.remembered_status_files(con)
    for job_id, path, stat in present:
        if read_before.get(recorder.escaped(job_id)) == (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns):
            continue
        try:
            facts = _present_facts(here, job_id, path, owner)
        except (OSError, ArcacctError) as error:
            complaints.append(f"{job_id}: {error}; the job is looked at again by the next sweep")
            continue
        if facts is not None:
            yield facts


def _present_facts(here: Places, job_id: str, path: str, owner: Owner) -> JobFacts | None:
    """What the files of a job say now; ``None`` for a job that is being written or on its way out."""
    status = read_status_file(path)
    if status is None or not status.state or status.state == "DELETED":
        return None
    if not is_job_id(job_id) or status.state not in STATES:
        raise InputError(f"{path}: not a status file of A-REX (it says {status.state[:40]!r})")
    facts = job_facts(read_rest(JobFiles(here.controldir, job_id, status.state), status, owner), here.default_benchmark)
    if not facts.known and os.path.exists(path):
        raise InputError(f"{here.controldir}: the job has a status file but no .local")
    return facts if facts.known else None


def drain(here: Places, con: Connection, complaints: list[str], *, owner: Owner = owner_of) -> int:
    """
    Record every event of the spool, oldest first, and remove its file once it is committed; returns how many.

    A launcher that cannot read the configuration, and a hook that cannot understand it, spool below the control
    directory, wherever the database is: that spool is drained too.
    """
    folders = dict.fromkeys((here.spool, os.path.join(here.controldir, "accounting", "arcacct", "spool")))
    return sum(_drain(here, folder, con, complaints, owner) for folder in folders)


def _drain(here: Places, folder: str, con: Connection, complaints: list[str], owner: Owner) -> int:
    drained = 0
    for batch in _batches(_spool_files(folder), SLICE_JOBS):
        events = [(path, facts) for path in batch if (facts := _spooled(here, path, complaints, owner)) is not None]
        unusable = []
        with accounting.writing(con, here):
            for path, facts in events:
                if not facts.known and not recorder.knows(con, facts.job_id):
                    unusable.append(path)
                else:
                    recorder.record(con, facts)
        for path, facts in events:
            if path in unusable:
                _set_aside(path, f"job {facts.job_id} has no .local and no record", complaints)
            else:
                drained += 1
                _remove(path)
    return drained


def _spool_files(folder: str) -> list[str]:
    """The events of a spool, oldest first; what a hook that was killed left half written is removed."""
    try:
        names = sorted(os.listdir(folder))
        for name in names:
            path = os.path.join(folder, name)
            if name.startswith(".tmp-") and os.stat(path).st_mtime < time.time() - ABANDONED_S:
                _remove(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{folder}: cannot read the spool: {error.strerror}; run as the user of A-REX") from error
    return [os.path.join(folder, name) for name in names if name[:1].isdigit()]


def _spooled(here: Places, path: str, complaints: list[str], owner: Owner) -> JobFacts | None:
    try:
        with open(path, "rb") as file:
            event, complete = spool.from_bytes(file.read(), path)
        if not complete:
            event = _filled(event, owner)
        return job_facts(event, here.default_benchmark)
    except FileNotFoundError:
        return None
    except OSError as error:
        complaints.append(f"{path}: {error.strerror}; it is tried again by the next sweep")
    except InputError as error:
        _set_aside(path, str(error), complaints)
    return None


def _filled(event: JobFiles, owner: Owner) -> JobFiles:
    """An event of the sh launcher, with what the control directory says now."""
    now = read_job(event.controldir, event.job_id, event.state, owner)
    # The launcher may have cut its time to seconds.
    if now.status is None or now.status.mtime_ns >= event.event_ns + 1_000_000_000:
        # The job has moved on or is gone, or is in this state once more: the event's time is when the hook ran.
        now.status = None
        now.event_ns = event.event_ns
    return now


def _set_aside(path: str, reason: str, complaints: list[str]) -> None:
    folder, name = os.path.split(path)
    target = os.path.join(folder, "unusable", name)
    try:
        spool.private_directory(os.path.dirname(target))
        os.replace(path, target)
    except FileNotFoundError:
        # Another sweep was as fast.
        return
    except OSError as error:
        complaints.append(f"{path}: {reason}; it cannot be set aside: {error.strerror}")
        return
    complaints.append(f"{target}: {reason}; set aside, look at it and remove it")


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        # Another sweep was as fast: recording twice changes nothing.
        return


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    batch: list[T] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
