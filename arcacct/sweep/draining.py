"""
Recording what waits in the spools.

An event is removed only when its record is on disk: the job's own files may be gone by then (INVARIANTS 13).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from arcacct.conf.places import Places, usual_database
from arcacct.controldir.facts import JobFacts, job_facts
from arcacct.controldir.files import JobFiles, read_job
from arcacct.errors import InputError
from arcacct.store import checkpoint, place, recorder, spool
from arcacct.sweep.barrier import is_of_one_job, printable, reason, record_each
from arcacct.sweep.task import PATIENCE_S, Task
from arcacct.sweep.witness import Witness

ABANDONED_S = 60
"""A spool file that has not got its name within a minute never will: who wrote it was killed."""
_NOTHING_S = 86_400
_LARGEST_BYTES = 64 * 1024 * 1024
"""Above what hook and launcher keep of a job's files together."""


class _Event(NamedTuple):
    """One event of a spool."""

    path: str
    facts: JobFacts
    torn: str
    """Why only its name could be read; empty for a whole one."""


def spools(here: Places) -> list[str]:
    """
    The directories in which events may wait.

    A launcher that cannot read the configuration, and a hook that cannot understand it, spool below the control
    directory, wherever the database is; those that are not told yet spool where the database was before.
    Raises ConfigError for a note of the place that is none, StoreError when the file system refuses.
    """
    usual = os.path.join(os.path.dirname(usual_database(here.controldir)), "spool")
    fallback = [] if here.spool_fallback is None else [here.spool_fallback]
    return [*dict.fromkeys((here.spool, *fallback, usual, *place.former_spools(here)))]


def drain_all(task: Task, witness: Witness) -> int:
    """
    Record every event of the spools, oldest first, and remove its file once the record is on disk; returns how many.

    What neither its own files nor the control directory explain is asked of A-REX's own database. Raises StoreError
    and its kinds, and InputError for a spool that cannot be read.
    """
    return sum(_drain(task, witness, folder) for folder in spools(task.here))


def _drain(task: Task, witness: Witness, folder: str) -> int:
    drained = 0
    for batch in task.slices(_spool_files(task, folder)):
        if task.stopping():
            break
        events = [event for path in batch if (event := _spooled(task, path)) is not None]
        done = _recorded(task, witness, events)
        if done and not task.dry_run:
            checkpoint.make_durable(task.here.database)
        for path in done:
            _remove(task, path)
        drained += len(done)
    return drained


def _recorded(task: Task, witness: Witness, events: list[_Event]) -> set[str]:
    """Record events; the files of those that are in the database now. The others wait, or are set aside."""
    refused: set[str] = set()
    done = _record(task, witness, events, refused)
    asked = [one for one in events if one.path not in done | refused]
    if asked:
        witness.take(one.facts.job_id for one in asked)
        # One that is in progress there has a record now.
        done |= _record(task, witness, asked, refused)
    for path, facts, torn in asked:
        if path not in done | refused and not witness.may_still_tell(facts.job_id, facts.event_ns, facts.event_ns):
            _set_aside(task, path, torn or f"job {facts.job_id} has no .local and no record")
    return done


def _record(task: Task, witness: Witness, events: list[_Event], refused: set[str]) -> set[str]:
    """
    The files of those events that are recorded: all but those of jobs that nobody knows.

    Those with values that the database refuses are set aside, and added to ``refused``.
    """

    def record(some: list[_Event]) -> set[str]:
        done = set()
        for path, facts, _torn in some:
            if not facts.known and facts.job_id in witness.taken:
                # A-REX's record has this event, with its own time.
                done.add(path)
            elif facts.known or recorder.knows(task.con, facts.job_id):
                recorder.record(task.con, facts)
                done.add(path)
        return done

    def wrong(event: _Event, error: Exception) -> None:
        refused.add(event.path)
        _set_aside(task, event.path, reason(error, event.path))

    return set().union(*record_each(task, events, record, wrong)) if events else set()


def _spool_files(task: Task, folder: str) -> Iterator[str]:
    """The events of a spool, oldest first, also those whose writer was killed before they had their name."""
    try:
        names = sorted(os.listdir(folder), key=lambda name: name.removeprefix(spool.TEMPORARY))
        owners = {os.geteuid(), 0, os.stat(folder).st_uid}
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"{folder}: cannot read the spool: {error.strerror}; run as the user of A-REX") from error
    abandoned_before = time.time() - ABANDONED_S
    for name in names:
        path = os.path.join(folder, name)
        begun = name.startswith(spool.TEMPORARY)
        if not begun and not name[:1].isdigit():
            continue
        with suppress(FileNotFoundError):
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode) or status.st_uid not in owners:
                task.complaints.append(f"{printable(path)}: {_stranger(status)}; it is left alone: look who made it")
            # A time to come is of a clock that was wrong: then nobody is at it any more either.
            elif not begun or not abandoned_before < status.st_mtime <= time.time():
                yield path


def _stranger(status: os.stat_result) -> str:
    """What is wrong with something in the spool that neither hook nor launcher makes."""
    if stat.S_ISREG(status.st_mode):
        return f"a file of user {status.st_uid}, who has no business in the spool"
    return "no file, so no event"


def _spooled(task: Task, path: str) -> _Event | None:
    """An event with all that is known of it; ``None`` when nothing is, or another sweep was as fast."""
    try:
        content = _content(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        task.complaints.append(f"{printable(path)}: {error.strerror}; it is tried again by the next sweep")
        return None
    torn = ""
    try:
        event, complete = spool.from_bytes(content, path)
    except InputError as error:
        torn, complete = str(error), False
        named = None if _is_foreign(content) else spool.from_name(os.path.basename(path), task.here.controldir)
        if named is None:
            _put_away(task, path, torn)
            return None
        event = named
    try:
        facts = job_facts(event, task.here.rules) if complete else _explained(task, event)
    except OSError as error:
        task.complaints.append(f"{path}: {reason(error, event.controldir)}; it is tried again by the next sweep")
        return None
    except Exception as error:
        if not is_of_one_job(error):
            raise
        _set_aside(task, path, reason(error, path))
        return None
    return _Event(path, facts, torn)


def _put_away(task: Task, path: str, why: str) -> None:
    """A file that is no event: what somebody never gave a name is nothing after a day, all else is for people."""
    if not os.path.basename(path).startswith(spool.TEMPORARY):
        _set_aside(task, path, why)
        return
    with suppress(FileNotFoundError):
        if not 0 <= time.time() - os.lstat(path).st_mtime < _NOTHING_S:
            _remove(task, path)


def _content(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        return file.read(_LARGEST_BYTES)


def _is_foreign(content: bytes) -> bool:
    """Whether what is in a file is of another program, or of a newer one of ours: its name is no proof then."""
    first = content.partition(b"\n")[0]
    return not f"version={spool.VERSION}".encode().startswith(first) and first.strip(b"\0") != b""


def _explained(task: Task, event: JobFiles) -> JobFacts:
    """The facts of an event that came without .local, with what the control directory says now."""
    now = read_job(event.controldir, event.job_id, event.state, task.owner, PATIENCE_S)
    # The launcher may have cut its time to seconds.
    if now.status is not None and now.status.mtime_ns < event.event_ns + 1_000_000_000:
        return job_facts(now, task.here.rules)
    # The job has moved on or is gone, or is in this state once more: the event's time is when the hook ran.
    now.status = None
    now.event_ns = event.event_ns
    facts = job_facts(now, task.here.rules)
    # What it has used by now is that of a later run, or of none that anybody saw end.
    facts.usage = None
    return facts


def _set_aside(task: Task, path: str, why: str) -> None:
    folder, name = os.path.split(path)
    target = os.path.join(folder, "unusable", name)
    if task.dry_run:
        task.complaints.append(f"{printable(path)}: {why}; a sweep would set it aside as {printable(target)}")
        return
    try:
        spool.private_directory(os.path.dirname(target))
        os.replace(path, target)
    except FileNotFoundError:
        # Another sweep was as fast.
        return
    except OSError as error:
        task.complaints.append(f"{printable(path)}: {why}; it cannot be set aside: {error.strerror}")
        return
    task.complaints.append(f"{printable(target)}: {why}; set aside, look at it and remove it")


def _remove(task: Task, path: str) -> None:
    if task.dry_run:
        return
    try:
        os.unlink(path)
    except FileNotFoundError:
        # Another sweep was as fast: recording twice changes nothing.
        return
