"""Records the events that wait in the spools, and shows them without changing them."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from typing import NamedTuple

from arcacct.arex import spool
from arcacct.arex.control_files import JobFiles, job_file, read_bytes, read_job, read_status
from arcacct.arex.job_facts import job_facts
from arcacct.arex.reconcile import ArexLookup
from arcacct.arex.sweep_context import SweepRun, is_of_one_job, printable, reason
from arcacct.config.paths import Places
from arcacct.database.connection import Connection, make_durable
from arcacct.database.location import spools
from arcacct.errors import InputError, use_as
from arcacct.files.safe_open import Directory, open_directory
from arcacct.records import recorder
from arcacct.records.states import StateChange
from arcacct.times import iso

# Recording the events in the spools.
#
# An event is removed only after its record is on disk: the job's own files may be gone by then (INVARIANTS 13). Other
# users may be able to write where a spool is (`spool_fallback`), so all access uses its descriptor (`files.safe_open`).


_INCOMPLETE_S = 60
"""Seconds until an event that is not whole, or a whole copy without its final name, is taken: its writer was killed."""
_JUDGED_S = 600
"""
Seconds until an event that cannot be recorded is judged, and until a copy of a job's files counts as given up: the
process that copies may have been stopped. (If it runs again after that, it writes the event again.)
"""
_NOTHING_S = 86_400
_ASIDE = "unusable"
_LARGEST_BYTES = 64 * 1024 * 1024
"""More than the bytes of a job's files that the launcher keeps."""


class _Event(NamedTuple):
    """One event of a spool."""

    folder: Directory
    name: str
    facts: StateChange
    status: os.stat_result
    """Of its file, at the time of reading."""
    torn: str
    """Why only its name could be read; empty for a complete one."""
    is_late: bool
    """Whether its time is that of the launcher, just after the state began."""
    waits: bool
    """Whether it is too young to be judged: what explains it may still be written."""

    @property
    def path(self) -> str:
        return self.folder.path_of(self.name)


_File = tuple[Directory, str]
"""A spool, and the name of an event in it."""
_Read = tuple[bytes, os.stat_result]
_Wrong = Callable[[_Event, Exception], None]


def drain_all(run: SweepRun, arex_lookup: ArexLookup | None, left: set[str] | None = None) -> int:
    """
    Record every event of the spools, oldest first, and remove its file once the record is on disk; return how many.

    First it records what can be recorded, since an event without the job's files may be of a job whose later event has
    them. Then it judges what is left: jobs that neither their own files nor the control directory explain are looked
    up in A-REX's own database. Without ``arex_lookup`` a later sweep does that. ``left``: paths of events to skip;
    events that remain are added to it. A spool that cannot be read is a complaint, and nothing is judged then: it may
    have what explains an event of another one. Raises StoreError and its kinds.
    """
    with ExitStack() as stack:
        files, copied, is_all = _spool_files(run, stack, left)
        drained = 0
        rehearsed: set[str] = set()
        for lookup in (None, arex_lookup if is_all else None):
            later: list[_File] = []
            for batch in run.slices(files):
                if run.stopping():
                    return drained
                events = [event for one in batch if (event := _spooled(run, *one, copied)) is not None]
                # A dry run has taken back what the first pass recorded.
                known = [one for one in events if one.facts.job_id in rehearsed]
                done, waiting = _recorded(run, lookup, _without(events, known))
                if done and not run.dry_run:
                    make_durable(run.here.database)
                for event in done:
                    _remove(run, event.folder, event.name, event.status)
                drained += len(known) + len(done)
                later += [(one.folder, one.name) for one in waiting]
                if run.dry_run:
                    rehearsed.update(one.facts.job_id for one in done)
                if left is not None:
                    left.update(one.path for one in waiting if not _is_younger(one.status, _INCOMPLETE_S))
            files = later
        return drained


def trusted_owners(here: Places) -> set[int]:
    """Return the users whose spools are trusted: an event names jobs and a control directory that root then reads."""
    trusted = {0, os.geteuid()}
    for path in (here.controldir, here.directory):
        with suppress(OSError):
            trusted.add(os.stat(path).st_uid)
    return trusted


def _recorded(run: SweepRun, arex_lookup: ArexLookup | None, events: list[_Event]) -> tuple[list[_Event], list[_Event]]:
    """Record events; return those that are in the database now, and those that wait. The others move to `unusable`."""
    refused: list[_Event] = []

    def wrong(event: _Event, error: Exception) -> None:
        refused.append(event)
        _set_aside(run, event.folder, event.name, reason(error, event.path))

    done = _record(run, arex_lookup, events, wrong)
    waiting = _without(events, [*done, *refused])
    asked = [one for one in waiting if not one.waits]
    if arex_lookup is None or not asked:
        return done, waiting
    arex_lookup.take(one.facts.job_id for one in asked)
    # A job in progress there has a record now.
    done += _record(run, arex_lookup, asked, wrong)
    for one in _without(asked, [*done, *refused]):
        job_id, event_ns = one.facts.job_id, one.facts.event_ns
        if not arex_lookup.may_still_report(job_id, event_ns, event_ns):
            refused.append(one)
            _set_aside(run, one.folder, one.name, one.torn or f"job {job_id} has no .local and no record")
    return done, _without(waiting, [*done, *refused])


def _without(events: list[_Event], others: list[_Event]) -> list[_Event]:
    paths = {one.path for one in others}
    return [one for one in events if one.path not in paths]


def _record(run: SweepRun, arex_lookup: ArexLookup | None, events: list[_Event], wrong: _Wrong) -> list[_Event]:
    """Record events of known jobs; return them. ``wrong`` is called for each event that cannot be recorded."""

    def record(some: list[_Event]) -> list[_Event]:
        done = []
        for event in some:
            facts = event.facts
            times = run.reported[facts.job_id, facts.state]
            if event.is_late:
                # If a sweep has recorded that time already, it is the same event. (A job may be resumed within seconds:
                # then each of its events has a file.)
                recorded_s = recorder.event_near(run.con, facts.job_id, facts.state, facts.event_ns, times)
                facts.event_ns = facts.event_ns if recorded_s is None else recorded_s * 10**9
            times.add(facts.event_ns // 10**9)
            if arex_lookup is not None and not facts.known and facts.job_id in arex_lookup.taken:
                # A-REX's record has this event, with its own time.
                done.append(event)
            elif facts.known or recorder.knows(run.con, facts.job_id):
                recorder.record(run.con, facts)
                done.append(event)
        return done

    return [event for some in (run.record_each(events, record, wrong) if events else ()) for event in some]


def _spool_files(run: SweepRun, stack: ExitStack, left: set[str] | None) -> tuple[list[_File], set[str], bool]:
    """
    Return the events, oldest first by the times of their files, and the jobs whose files are being copied.

    Also whether all spools could be read.
    """
    found: list[tuple[int, _File]] = []
    copied: set[str] = set()
    is_all = True
    for path in spools(run.here):
        try:
            folder = stack.enter_context(open_directory(path))
            if (owner := folder.status.st_uid) in trusted_owners(run.here):
                found += _listed(run, folder, left, copied)
            else:
                run.complaints.append(
                    f"{path}: it belongs to user {owner}, who is neither root nor the user of A-REX, so its events "
                    "are rejected; check who created it"
                )
        except FileNotFoundError:
            continue
        except (OSError, InputError) as error:
            is_all = False
            why = error.strerror if isinstance(error, OSError) else error
            run.complaints.append(f"{path}: cannot read the spool: {why}; check its disk, and {use_as(path)}")
    return [file for _written_ns, file in sorted(found, key=lambda one: (one[0], one[1][1]))], copied, is_all


def _listed(run: SweepRun, folder: Directory, left: set[str] | None, copied: set[str]) -> Iterator[tuple[int, _File]]:
    """Yield the events of a spool with the times of their files; add the jobs whose files are being copied."""
    owners = {os.geteuid(), 0, folder.status.st_uid}
    for name in sorted(filter(spool.is_event, os.listdir(folder.fd))):
        # Between sweeps, ignore an unfinished copy: only its age shows whether it will ever be finished.
        is_copy = name.startswith(spool.TEMPORARY)
        if left is not None and folder.path_of(name) in left:
            continue
        with suppress(FileNotFoundError):
            status = folder.lstat(name)
            # The launcher creates no such file.
            stranger = folder.doubt(status)
            if status.st_uid not in owners:
                stranger = f"a file of user {status.st_uid}, who may not use the spool"
            if stranger:
                _leave_alone(run, folder, name, stranger)
                continue
            event = spool.from_name(name, run.here.controldir, 0) if is_copy else None
            if event is not None and _is_younger(status, _JUDGED_S):
                copied.add(event.job_id)
            if not is_copy or (left is None and not _is_younger(status, _INCOMPLETE_S)):
                yield status.st_mtime_ns, (folder, name)


def _is_younger(status: os.stat_result, seconds: float) -> bool:
    """
    Whether a file was written in the last seconds.

    The clock of a file server may be ahead of this host's; a time far in the future is from a wrong clock.
    """
    return abs(time.time() - status.st_mtime) < seconds


def _leave_alone(run: SweepRun, folder: Directory, name: str, why: str) -> None:
    run.complaints.append(f"{printable(folder.path_of(name))}: {why}; it is not touched: check who created it")


def _spooled(run: SweepRun, folder: Directory, name: str, copied: set[str]) -> _Event | None:
    """Return an event with all known facts; ``None`` if there are none (yet), or another sweep was faster."""
    found = _content(run, folder, name)
    if found is None:
        return None
    content, status = found
    path, torn, is_copied_apart = folder.path_of(name), "", False
    event: JobFiles | None
    try:
        event, is_copied_apart = spool.from_bytes(content, path, status.st_mtime_ns)
    except InputError as error:
        torn = str(error)
        event = _named(run, folder, name, (content, status), torn)
    if event is None:
        return None
    has_local = event.local is not None
    # 0.2 stored the time in the file, maybe without its fraction.
    written_ns = min(status.st_mtime_ns, event.event_ns + 999_999_999)
    try:
        if has_local and is_copied_apart:
            event.local = _present_local(event) or event.local
        facts = job_facts(event, run.here.rules) if has_local else _explained(run, event, written_ns)
    except OSError as error:
        run.complaints.append(f"{path}: {reason(error, event.controldir)}; the next sweep tries it again")
        return None
    except Exception as error:
        if not is_of_one_job(error):
            raise
        _set_aside(run, folder, name, reason(error, path))
        return None
    is_late = not has_local and facts.event_ns == event.event_ns
    waits = _is_younger(status, _JUDGED_S) or (event.job_id in copied and not name.startswith(spool.TEMPORARY))
    return _Event(folder, name, facts, status, torn, is_late, waits)


def _named(run: SweepRun, folder: Directory, name: str, found: _Read, torn: str) -> JobFiles | None:
    """
    Return what the name and the time of an event say that is not whole; ``None`` if it may still become whole.

    A file that another version of arcacct was writing when it was killed is an event, too. All other files are kept
    for people, except files that have had no final name for a day.
    """
    content, status = found
    named, is_copy = spool.from_name(name, run.here.controldir, status.st_mtime_ns), name.startswith(spool.TEMPORARY)
    if named is not None and not spool.is_foreign(content):
        return None if _is_younger(status, _JUDGED_S if is_copy else _INCOMPLETE_S) else named
    if named is not None or not is_copy:
        _set_aside(run, folder, name, torn)
    elif not _is_younger(status, _NOTHING_S):
        _remove(run, folder, name, status)
    return None


def _content(run: SweepRun, folder: Directory, name: str) -> _Read | None:
    """Return the bytes of an event and its stat; ``None`` if it cannot be read."""
    try:
        return folder.read(name, _LARGEST_BYTES), folder.lstat(name)
    except FileNotFoundError:
        return None
    except OSError as error:
        path = printable(folder.path_of(name))
        run.complaints.append(f"{path}: {error.strerror}; the next sweep tries it again")
    except InputError:
        _leave_alone(run, folder, name, "it was replaced during reading")
    return None


def _present_local(event: JobFiles) -> bytes | None:
    """
    Return the job's .local if the job is still in the state of the event; ``None`` otherwise.

    It is read under A-REX's lock, so it is complete.
    """
    try:
        status = read_status(event.controldir, event.job_id, event.state, hashed=event.hashed)
        if status is None or event.status is None or status.mtime_ns != event.status.mtime_ns:
            return None
        path = job_file(event.controldir, event.job_id, "local", hashed=event.hashed)
        return read_bytes(path, lock=True)[0]
    except OSError:
        return None


def _explained(run: SweepRun, event: JobFiles, written_ns: int) -> StateChange:
    """
    Return the facts of an event without .local, from the present control directory.

    A-REX writes the status file before the callout, so a status file that is younger than the event is of a later time.
    """
    now = read_job(event.controldir, event.job_id, event.state, run.owner)
    if now.status is not None and now.status.mtime_ns <= written_ns:
        return job_facts(now, run.here.rules)
    # The job has moved on, is gone, or is in this state again.
    now.status = None
    now.event_ns = event.event_ns
    facts = job_facts(now, run.here.rules)
    # The recorded usage is that of a later run, or its end was not observed.
    facts.usage = None
    return facts


def _set_aside(run: SweepRun, folder: Directory, name: str, why: str) -> None:
    path, target = printable(folder.path_of(name)), printable(folder.path_of(f"{_ASIDE}/{name}"))
    if run.dry_run:
        run.complaints.append(f"{path}: {why}; a sweep would move it to {target}")
        return
    try:
        with folder.make(_ASIDE) as aside:
            if aside.status.st_uid not in {os.geteuid(), 0, folder.status.st_uid}:
                text = f"{aside.path} belongs to user {aside.status.st_uid}; check who created it"
                raise InputError(text)  # noqa: TRY301  as any other
            os.replace(name, name, src_dir_fd=folder.fd, dst_dir_fd=aside.fd)
    except FileNotFoundError:
        # Another sweep was faster.
        return
    except (OSError, InputError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        run.complaints.append(f"{path}: {why}; it cannot be moved to spool/unusable: {said}")
        return
    run.complaints.append(f"{target}: {why}; moved to spool/unusable; `arcacct doctor` says what to do with it")


def unusable_files(folders: Iterable[str], con: Connection | None) -> Iterator[tuple[str, str, str]]:
    """
    Yield ``(path, what it is, what to do with it)`` of each file in `unusable`, as of now.

    ``con``: the accounting database, which tells whether a job is recorded; ``None`` if it cannot be read.
    """
    for folder in folders:
        for name in sorted(os.listdir(aside)) if os.path.isdir(aside := os.path.join(folder, _ASIDE)) else ():
            path = os.path.join(aside, name)
            back = f"to try it again: `mv {shlex.quote(path)} {shlex.quote(folder)}/`, then `arcacct sweep`"
            try:
                with open_directory(aside) as directory:
                    content, written_ns = directory.read(name, _LARGEST_BYTES), directory.lstat(name).st_mtime_ns
                what, job_id = _described(content, path, name, written_ns)
            except (OSError, InputError) as error:
                yield printable(path), f"it cannot be read: {reason(error, path)}", "check who created it"
                continue
            if not job_id:
                todo = f"install the arcacct that wrote it, or remove the file; {back}"
            elif con is not None and recorder.has_ended(con, job_id):
                todo = f"the end of the job is recorded (`arcacct job {job_id}`): remove the file"
            elif con is not None and recorder.knows(con, job_id):
                todo = back
            else:
                todo = f"the job is not recorded: `arcacct import arex` may find it in A-REX's database; {back}"
            yield printable(path), what, todo


def _described(content: bytes, path: str, name: str, written_ns: int) -> tuple[str, str]:
    """Return the text for a file, and the job that it is about; empty if that is unknown."""
    if spool.is_foreign(content):
        return "another program, or a newer arcacct, wrote it", ""
    try:
        event = spool.from_bytes(content, path, written_ns)[0]
        parts = [part for part in ("local", "diag", "statistics") if getattr(event, part) is not None]
        has = f"with the job's {', '.join(parts)}" if parts else "without the job's files"
    except InputError:
        named = spool.from_name(name, "/", written_ns)
        if named is None:
            return "it is not an event of arcacct", ""
        event, has = named, "it is incomplete, and only its name can be used"
    at = iso(event.event_ns // 10**9)
    return f"{event.job_id} {event.state} at {at}, {has}", event.job_id


def _remove(run: SweepRun, folder: Directory, name: str, read: os.stat_result) -> None:
    """Remove a file that was read, unless the launcher has written it since. Another sweep may have been faster."""
    if run.dry_run:
        return
    with suppress(FileNotFoundError):
        now = folder.lstat(name)
        if (now.st_ino, now.st_size, now.st_mtime_ns) == (read.st_ino, read.st_size, read.st_mtime_ns):
            os.unlink(name, dir_fd=folder.fd)
