"""
Recording what waits in the spools.

An event is removed only when its record is on disk: the job's own files may be gone by then (INVARIANTS 13). A spool
may lie where others may write (`spool_fallback`), so all is done by its descriptor (`files.foreign`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from arcacct.arex import spool
from arcacct.arex.barrier import is_of_one_job, printable, reason, record_each
from arcacct.arex.control_files import JobFiles, read_job
from arcacct.arex.facts import job_facts
from arcacct.arex.sweeping import PATIENCE_S, Task
from arcacct.arex.witness import Witness
from arcacct.conf.places import Places, usual_database
from arcacct.db import checkpoint, place
from arcacct.errors import InputError
from arcacct.files.foreign import Directory, open_directory
from arcacct.jobs import recorder
from arcacct.jobs.states import StateChange

ABANDONED_S = 60
"""A spool file that has not got its name within a minute never will: who wrote it was killed."""
_NOTHING_S = 86_400
_ASIDE = "unusable"
_LARGEST_BYTES = 64 * 1024 * 1024
"""Above what hook and launcher keep of a job's files together."""


class _Event(NamedTuple):
    """One event of a spool."""

    name: str
    facts: StateChange
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
    try:
        spooled = open_directory(folder)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise InputError(f"{folder}: cannot read the spool: {error.strerror}; run as the user of A-REX") from error
    with spooled:
        owner = spooled.status.st_uid
        # An event says which jobs there were, and which control directory root is to read.
        trusted = {0, os.geteuid()}
        for path in (task.here.controldir, task.here.directory):
            with suppress(OSError):
                trusted.add(os.stat(path).st_uid)
        if owner not in trusted:
            task.complaints.append(
                f"{folder}: it belongs to user {owner}, who is neither root nor the user of A-REX, so no event in it "
                "is believed; look who made it"
            )
            return 0
        drained = 0
        for batch in task.slices(_spool_files(task, spooled)):
            if task.stopping():
                break
            events = [event for name in batch if (event := _spooled(task, spooled, name)) is not None]
            done = _recorded(task, witness, spooled, events)
            if done and not task.dry_run:
                checkpoint.make_durable(task.here.database)
            for name in done:
                _remove(task, spooled, name)
            drained += len(done)
        return drained


def _recorded(task: Task, witness: Witness, folder: Directory, events: list[_Event]) -> set[str]:
    """Record events; the files of those that are in the database now. The others wait, or are set aside."""
    refused: set[str] = set()

    def wrong(event: _Event, error: Exception) -> None:
        refused.add(event.name)
        _set_aside(task, folder, event.name, reason(error, folder.path_of(event.name)))

    done = _record(task, witness, events, wrong)
    asked = [one for one in events if one.name not in done | refused]
    if asked:
        witness.take(one.facts.job_id for one in asked)
        # One that is in progress there has a record now.
        done |= _record(task, witness, asked, wrong)
    for name, facts, torn in asked:
        if name not in done | refused and not witness.may_still_tell(facts.job_id, facts.event_ns, facts.event_ns):
            _set_aside(task, folder, name, torn or f"job {facts.job_id} has no .local and no record")
    return done


def _record(task: Task, witness: Witness, events: list[_Event], wrong: Callable[[_Event, Exception], None]) -> set[str]:
    """The files of those events that are recorded: all but those of jobs that nobody knows, and those told `wrong`."""

    def record(some: list[_Event]) -> set[str]:
        done = set()
        for name, facts, _torn in some:
            if not facts.known and facts.job_id in witness.taken:
                # A-REX's record has this event, with its own time.
                done.add(name)
            elif facts.known or recorder.knows(task.con, facts.job_id):
                recorder.record(task.con, facts)
                done.add(name)
        return done

    return set().union(*record_each(task, events, record, wrong)) if events else set()


def _spool_files(task: Task, folder: Directory) -> Iterator[str]:
    """The events of a spool, oldest first, also those whose writer was killed before they had their name."""
    names = sorted(os.listdir(folder.fd), key=lambda name: name.removeprefix(spool.TEMPORARY))
    owners = {os.geteuid(), 0, folder.status.st_uid}
    abandoned_before = time.time() - ABANDONED_S
    for name in names:
        begun = name.startswith(spool.TEMPORARY)
        if not begun and not name[:1].isdigit():
            continue
        with suppress(FileNotFoundError):
            status = folder.lstat(name)
            # What neither hook nor launcher makes.
            stranger = folder.doubt(status)
            if status.st_uid not in owners:
                stranger = f"a file of user {status.st_uid}, who has no business in the spool"
            if stranger:
                _leave_alone(task, folder, name, stranger)
            # A time to come is of a clock that was wrong: then nobody is at it any more either.
            elif not begun or not abandoned_before < status.st_mtime <= time.time():
                yield name


def _leave_alone(task: Task, folder: Directory, name: str, why: str) -> None:
    task.complaints.append(f"{printable(folder.path_of(name))}: {why}; it is left alone: look who made it")


def _spooled(task: Task, folder: Directory, name: str) -> _Event | None:
    """An event with all that is known of it; ``None`` when nothing is, or another sweep was as fast."""
    content = _content(task, folder, name)
    if content is None:
        return None
    path, torn = folder.path_of(name), ""
    try:
        event, complete = spool.from_bytes(content, path)
    except InputError as error:
        torn, complete = str(error), False
        named = spool.from_name(name, task.here.controldir)
        foreign = _is_foreign(content)
        if named is None or foreign:
            # What another version of ours was writing when it was killed is an event, too.
            _put_away(task, folder, name, torn, is_event=named is not None and foreign)
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
        _set_aside(task, folder, name, reason(error, path))
        return None
    return _Event(name, facts, torn)


def _content(task: Task, folder: Directory, name: str) -> bytes | None:
    try:
        return folder.read(name, _LARGEST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        path = printable(folder.path_of(name))
        task.complaints.append(f"{path}: {error.strerror}; it is tried again by the next sweep")
    except InputError:
        _leave_alone(task, folder, name, "somebody exchanged it while it was read")
    return None


def _put_away(task: Task, folder: Directory, name: str, why: str, *, is_event: bool) -> None:
    """A file that we cannot read: what nobody ever gave a name is nothing after a day, all else is for people."""
    if is_event or not name.startswith(spool.TEMPORARY):
        _set_aside(task, folder, name, why)
        return
    with suppress(FileNotFoundError):
        if not 0 <= time.time() - folder.lstat(name).st_mtime < _NOTHING_S:
            _remove(task, folder, name)


def _is_foreign(content: bytes) -> bool:
    """Whether what is in a file is of another program, or of a newer one of ours: its name is no proof then."""
    first = content.partition(b"\n")[0]
    return not f"version={spool.VERSION}".encode().startswith(first) and first.strip(b"\0") != b""


def _explained(task: Task, event: JobFiles) -> StateChange:
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


def _set_aside(task: Task, folder: Directory, name: str, why: str) -> None:
    path, target = printable(folder.path_of(name)), printable(folder.path_of(f"{_ASIDE}/{name}"))
    if task.dry_run:
        task.complaints.append(f"{path}: {why}; a sweep would set it aside as {target}")
        return
    try:
        with folder.make(_ASIDE) as aside:
            os.replace(name, name, src_dir_fd=folder.fd, dst_dir_fd=aside.fd)
    except FileNotFoundError:
        # Another sweep was as fast.
        return
    except (OSError, InputError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        task.complaints.append(f"{path}: {why}; it cannot be set aside: {said}")
        return
    task.complaints.append(f"{target}: {why}; set aside, look at it and remove it")


def _remove(task: Task, folder: Directory, name: str) -> None:
    if task.dry_run:
        return
    # Another sweep may have been as fast: recording twice changes nothing.
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder.fd)
