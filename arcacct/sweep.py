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
from arcacct.controldir.layout import is_job_id, scan_status_files
from arcacct.errors import ArcacctError, InputError
from arcacct.store import accounting, recorder, spool

SLICE_JOBS = 20
"""Jobs recorded in one transaction: about 10 ms of the queue."""
YOUNG_NS = 2_000_000_000
"""A status file younger than this at the scan may change again within the resolution of its times: look again."""

Owner = Callable[[os.stat_result], str]
Progress = Callable[[int], None]
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
    here: Places, con: Connection, *, owner: Owner = owner_of, progress: Progress = lambda _jobs: None
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
    for batch in _batches(_changed(here, con, present, scanned_ns, complaints, owner, progress), SLICE_JOBS):
        looked_at += len(batch)
        with accounting.writing(con, here):
            recorded += sum(recorder.record(con, facts, present=True) for facts in batch)
    return SweepReport(spooled, len(present), looked_at, recorded, tuple(complaints))


def _changed(
    here: Places,
    con: Connection,
    present: list[tuple[str, str, os.stat_result]],
    scanned_ns: int,
    complaints: list[str],
    owner: Owner,
    progress: Progress,
) -> Iterator[JobFacts]:
    """The facts of each job whose status file is not the one that an earlier sweep has read."""
    read_before = accounting.remembered_status_files(con)
    for done, (job_id, path, stat) in enumerate(present, 1):
        progress(done)
        identity = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        same = read_before.get(recorder.escaped(job_id)) == identity
        if same and scanned_ns - max(identity[1:]) > YOUNG_NS:
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
    if not is_job_id(job_id) or not status.state.isalpha():
        raise InputError(f"{path}: not a status file of A-REX (it says {status.state[:40]!r})")
    facts = job_facts(read_rest(JobFiles(here.controldir, job_id, status.state), status, owner), here.default_benchmark)
    if not facts.known:
        raise InputError(f"{here.controldir}: the job has a status file but no .local")
    return facts


def drain(here: Places, con: Connection, complaints: list[str], *, owner: Owner = owner_of) -> int:
    """Record every event of the spool, oldest first, and remove its file once it is committed; returns how many."""
    try:
        names = sorted(name for name in os.listdir(here.spool) if name[:1].isdigit())
    except FileNotFoundError:
        return 0
    drained = 0
    for batch in _batches(names, SLICE_JOBS):
        events = [(name, facts) for name in batch if (facts := _spooled(here, name, complaints, owner)) is not None]
        unusable = []
        with accounting.writing(con, here):
            for name, facts in events:
                if not facts.known and not recorder.knows(con, facts.job_id):
                    unusable.append(name)
                else:
                    recorder.record(con, facts)
        for name, facts in events:
            if name in unusable:
                _set_aside(here, name, f"job {facts.job_id} has no .local and no record", complaints)
            else:
                drained += 1
                _remove(os.path.join(here.spool, name))
    return drained


def _spooled(here: Places, name: str, complaints: list[str], owner: Owner) -> JobFacts | None:
    path = os.path.join(here.spool, name)
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
        _set_aside(here, name, str(error), complaints)
    return None


def _filled(event: JobFiles, owner: Owner) -> JobFiles:
    """An event of the sh launcher, with what the control directory says now."""
    now = read_job(event.controldir, event.job_id, event.state, owner)
    if now.status is None:
        # The job has moved on or is gone: the event's time is when the hook ran.
        now.event_ns = event.event_ns
    return now


def _set_aside(here: Places, name: str, reason: str, complaints: list[str]) -> None:
    aside = os.path.join(here.spool, "unusable")
    spool.private_directory(aside)
    target = os.path.join(aside, name)
    os.replace(os.path.join(here.spool, name), target)
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
