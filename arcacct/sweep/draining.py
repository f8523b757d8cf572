"""Recording what waits in the spool."""

from __future__ import annotations

import os
import time

from arcacct.conf.places import usual_database
from arcacct.controldir.facts import JobFacts, job_facts
from arcacct.controldir.files import JobFiles, read_job
from arcacct.errors import InputError
from arcacct.store import place, recorder, spool
from arcacct.sweep.task import PATIENCE_S, Task
from arcacct.sweep.witness import Witness

ABANDONED_S = 86_400
"""A spool file that has not got its name within a day never will."""


def drain_all(task: Task, witness: Witness) -> int:
    """
    Record every event of the spool, oldest first, and remove its file once it is committed; returns how many.

    A launcher that cannot read the configuration, and a hook that cannot understand it, spool below the control
    directory, wherever the database is: that spool is drained too, and those of the places that the database was moved
    from. Raises StoreError and its kinds, and InputError for a spool that cannot be read.
    """
    here = task.here
    usual = os.path.join(os.path.dirname(usual_database(here.controldir)), "spool")
    folders = dict.fromkeys((here.spool, usual, *place.former_spools(here)))
    return sum(_drain(task, witness, folder) for folder in folders)


def _drain(task: Task, witness: Witness, folder: str) -> int:
    drained = 0
    for batch in task.slices(_spool_files(task, folder)):
        if task.stopping():
            break
        events = [(path, facts) for path in batch if (facts := _spooled(task, path)) is not None]
        unusable = _unexplained(task, witness, events, _record(task, witness, events))
        for path, facts in events:
            if path in unusable and witness.may_still_tell(facts.job_id, facts.event_ns, facts.event_ns):
                continue
            if path in unusable:
                _set_aside(task, path, f"job {facts.job_id} has no .local and no record")
            else:
                drained += 1
                _remove(task, path)
    return drained


def _unexplained(task: Task, witness: Witness, events: list[tuple[str, JobFacts]], unusable: set[str]) -> set[str]:
    """Those of the files whose job A-REX's own database does not know either."""
    asked = [(path, facts) for path, facts in events if path in unusable]
    taken = witness.take(facts.job_id for _path, facts in asked)
    # One that is in progress there has a record now.
    rest = [(path, facts) for path, facts in asked if facts.job_id not in taken]
    return _record(task, witness, rest) if rest else set()


def _record(task: Task, witness: Witness, events: list[tuple[str, JobFacts]]) -> set[str]:
    """The files of events that cannot be recorded: of a job that nobody knows."""
    unusable = set()
    with task.recording(len(events)):
        for path, facts in events:
            if not facts.known and facts.job_id in witness.taken:
                # A-REX's record has this event, with its own time.
                continue
            if not facts.known and not recorder.knows(task.con, facts.job_id):
                unusable.add(path)
            else:
                recorder.record(task.con, facts)
    return unusable


def _spool_files(task: Task, folder: str) -> list[str]:
    """The events of a spool, oldest first; what a hook that was killed left half written is removed."""
    try:
        names = sorted(os.listdir(folder))
        for name in names:
            path = os.path.join(folder, name)
            if name.startswith(".tmp-") and os.stat(path).st_mtime < time.time() - ABANDONED_S:
                _remove(task, path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{folder}: cannot read the spool: {error.strerror}; run as the user of A-REX") from error
    return [os.path.join(folder, name) for name in names if name[:1].isdigit()]


def _spooled(task: Task, path: str) -> JobFacts | None:
    try:
        with open(path, "rb") as file:
            event, complete = spool.from_bytes(file.read(), path)
        if not complete:
            event = _filled(event, task)
        return job_facts(event, task.here.default_benchmark)
    except FileNotFoundError:
        return None
    except OSError as error:
        task.complaints.append(f"{path}: {error.strerror}; it is tried again by the next sweep")
    except InputError as error:
        _set_aside(task, path, str(error))
    return None


def _filled(event: JobFiles, task: Task) -> JobFiles:
    """An event of the sh launcher, with what the control directory says now."""
    now = read_job(event.controldir, event.job_id, event.state, task.owner, PATIENCE_S)
    # The launcher may have cut its time to seconds.
    if now.status is None or now.status.mtime_ns >= event.event_ns + 1_000_000_000:
        # The job has moved on or is gone, or is in this state once more: the event's time is when the hook ran.
        now.status = None
        now.event_ns = event.event_ns
    return now


def _set_aside(task: Task, path: str, reason: str) -> None:
    folder, name = os.path.split(path)
    target = os.path.join(folder, "unusable", name)
    if task.dry_run:
        task.complaints.append(f"{path}: {reason}; a sweep would set it aside as {target}")
        return
    try:
        spool.private_directory(os.path.dirname(target))
        os.replace(path, target)
    except FileNotFoundError:
        # Another sweep was as fast.
        return
    except OSError as error:
        task.complaints.append(f"{path}: {reason}; it cannot be set aside: {error.strerror}")
        return
    task.complaints.append(f"{target}: {reason}; set aside, look at it and remove it")


def _remove(task: Task, path: str) -> None:
    if task.dry_run:
        return
    try:
        os.unlink(path)
    except FileNotFoundError:
        # Another sweep was as fast: recording twice changes nothing.
        return
