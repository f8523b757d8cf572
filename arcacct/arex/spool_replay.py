"""Records the events that wait in the spools, and shows them without changing them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from arcacct.arex import spool
from arcacct.arex.control_files import JobFiles, job_file, read_bytes, read_job, read_status
from arcacct.arex.job_facts import job_facts
from arcacct.arex.reconcile import ArexLookup
from arcacct.arex.sweep_context import PATIENCE_S, SweepRun, is_of_one_job, printable, reason
from arcacct.config.paths import Places
from arcacct.database import checkpoint
from arcacct.database.connection import Connection
from arcacct.database.location import spools
from arcacct.database.schema import note, noted
from arcacct.errors import InputError
from arcacct.files.safe_open import Directory, open_directory
from arcacct.records import recorder
from arcacct.records.states import StateChange

# The content of the spools, for people: it is read and not changed.


_NOTE = "ARCACCT_SPOOL_LEFT"
_LARGEST_LAUNCHER = 65_536
_PLACE = re.compile(r"(?m)^(?:spool|fallback)=(?:\$\{ARCACCT_\w+:-)?[\"']?([^\"'}\n]*)")
"""The launcher's spool directory, from its own lines."""


class Spooled(NamedTuple):
    """The content of one or more spools."""

    files: int = 0
    oldest_s: int | None = None
    """Time of the oldest event, UTC seconds."""
    unusable: int = 0
    """Files in `unusable`."""
    unknown: tuple[str, ...] = ()
    """Each directory that cannot be listed, with the reason."""


def look(folders: Iterable[str]) -> Spooled:
    """Return the present content of these directories. A missing directory counts as empty."""
    unusable, times, unknown = 0, [], []
    for folder in folders:
        try:
            for name in os.listdir(folder):
                digits = name.removeprefix(spool.TEMPORARY).partition("-")[0]
                if digits[:1].isdigit():
                    times.append(int(digits[:10]) if digits.isdecimal() else 0)
            unusable += len(os.listdir(aside)) if os.path.isdir(aside := os.path.join(folder, "unusable")) else 0
        except FileNotFoundError:
            continue
        except OSError as error:
            unknown.append(f"{folder}: {error.strerror}")
    return Spooled(len(times), min(times, default=None), unusable, tuple(unknown))


def save_status(con: Connection, left: Spooled) -> None:
    """Store what a sweep left, for users who may not list the spools. The caller has a transaction."""
    if not left.unknown:
        note(con, _NOTE, f"{left.files} {left.oldest_s or 0} {left.unusable}")


def saved_status(con: Connection) -> Spooled | None:
    """Return what the last sweep left, ``None`` if no sweep stored it."""
    words = (noted(con, _NOTE) or "").split()
    if len(words) != 3 or not all(word.isdecimal() for word in words):
        return None
    files, oldest_s, unusable = map(int, words)
    return Spooled(files, oldest_s or None, unusable)


def of_launcher(path: str) -> Iterator[str]:
    """
    Yield the directories that the launcher's own lines name for its spool.

    Raises OSError if it cannot be read. (If they are empty, it spools below the control directory.)
    """
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        yield from filter(None, _PLACE.findall(file.read(_LARGEST_LAUNCHER)))


# Recording the events in the spools.
#
# An event is removed only after its record is on disk: the job's own files may be gone by then (INVARIANTS 13). Other
# users may be able to write where a spool is (`spool_fallback`), so all access uses its descriptor (`files.safe_open`).


ABANDONED_S = 60
"""Seconds. A spool file without its final name after this time never gets one: its writer was killed."""
_NOTHING_S = 86_400
_ASIDE = "unusable"
_LARGEST_BYTES = 64 * 1024 * 1024
"""More than the bytes of a job's files that hook and launcher keep."""


class _Event(NamedTuple):
    """One event of a spool."""

    name: str
    facts: StateChange
    torn: str
    """Why only its name could be read; empty for a complete one."""
    is_late: bool
    """Whether its time is that of the launcher, just after the state began."""


def drain_all(run: SweepRun, arex_lookup: ArexLookup | None, left: set[str] | None = None) -> int:
    """
    Record every event of the spools, oldest first, and remove its file once the record is on disk; return how many.

    Jobs that neither their own files nor the control directory explain are looked up in A-REX's own database. Without
    ``arex_lookup`` a later sweep does that. ``left``: paths of events to skip; events that remain are added to it.
    Raises StoreError and its kinds, and InputError for a spool that cannot be read.
    """
    return sum(_drain(run, arex_lookup, folder, left) for folder in spools(run.here))


def trusted_owners(here: Places) -> set[int]:
    """Return the users whose spools are trusted: an event names jobs and a control directory that root then reads."""
    trusted = {0, os.geteuid()}
    for path in (here.controldir, here.directory):
        with suppress(OSError):
            trusted.add(os.stat(path).st_uid)
    return trusted


def _drain(run: SweepRun, arex_lookup: ArexLookup | None, folder: str, left: set[str] | None) -> int:
    try:
        spooled = open_directory(folder)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise InputError(f"{folder}: cannot read the spool: {error.strerror}; run as the user of A-REX") from error
    with spooled:
        owner = spooled.status.st_uid
        if owner not in trusted_owners(run.here):
            run.complaints.append(
                f"{folder}: it belongs to user {owner}, who is neither root nor the user of A-REX, so its events "
                "are rejected; check who created it"
            )
            return 0
        drained = 0
        for batch in run.slices(_spool_files(run, spooled, left)):
            if run.stopping():
                break
            events = [event for name in batch if (event := _spooled(run, spooled, name)) is not None]
            done = _recorded(run, arex_lookup, spooled, events)
            if left is not None:
                # A file that is still being written is tried again soon.
                left.update(spooled.path_of(name) for name in batch if name not in done and name[:1].isdigit())
            if done and not run.dry_run:
                checkpoint.make_durable(run.here.database)
            for name in done:
                _remove(run, spooled, name)
            drained += len(done)
        return drained


def _recorded(run: SweepRun, arex_lookup: ArexLookup | None, folder: Directory, events: list[_Event]) -> set[str]:
    """Record events; return the files of those that are now in the database. The others wait or move to `unusable`."""
    refused: set[str] = set()

    def wrong(event: _Event, error: Exception) -> None:
        refused.add(event.name)
        _set_aside(run, folder, event.name, reason(error, folder.path_of(event.name)))

    done = _record(run, arex_lookup, events, wrong)
    asked = [one for one in events if one.name not in done | refused]
    if arex_lookup is None:
        return done
    if asked:
        arex_lookup.take(one.facts.job_id for one in asked)
        # A job in progress there has a record now.
        done |= _record(run, arex_lookup, asked, wrong)
    for name, facts, torn, _is_late in asked:
        if name not in done | refused and not arex_lookup.may_still_report(
            facts.job_id, facts.event_ns, facts.event_ns
        ):
            _set_aside(run, folder, name, torn or f"job {facts.job_id} has no .local and no record")
    return done


def _record(
    run: SweepRun, arex_lookup: ArexLookup | None, events: list[_Event], wrong: Callable[[_Event, Exception], None]
) -> set[str]:
    """Record events of known jobs; return their files. ``wrong`` is called for each event that cannot be recorded."""

    def record(some: list[_Event]) -> set[str]:
        done = set()
        for name, facts, _torn, is_late in some:
            if is_late:
                # If that time is recorded already, it is the same event.
                recorded_s = recorder.event_near(run.con, facts.job_id, facts.state, facts.event_ns)
                facts.event_ns = facts.event_ns if recorded_s is None else recorded_s * 10**9
            if arex_lookup is not None and not facts.known and facts.job_id in arex_lookup.taken:
                # A-REX's record has this event, with its own time.
                done.add(name)
            elif facts.known or recorder.knows(run.con, facts.job_id):
                recorder.record(run.con, facts)
                done.add(name)
        return done

    return set().union(*run.record_each(events, record, wrong)) if events else set()


def _spool_files(run: SweepRun, folder: Directory, left: set[str] | None) -> Iterator[str]:
    """Yield the events of a spool, oldest first, also those without their final name."""
    names = sorted(os.listdir(folder.fd), key=lambda name: name.removeprefix(spool.TEMPORARY))
    owners = {os.geteuid(), 0, folder.status.st_uid}
    for name in names:
        if not name.startswith(spool.TEMPORARY) and not name[:1].isdigit():
            continue
        if left and folder.path_of(name) in left:
            continue
        with suppress(FileNotFoundError):
            status = folder.lstat(name)
            # Neither hook nor launcher creates such a file.
            stranger = folder.doubt(status)
            if status.st_uid not in owners:
                stranger = f"a file of user {status.st_uid}, who may not use the spool"
            if stranger:
                _leave_alone(run, folder, name, stranger)
            else:
                yield name


def _is_being_written(folder: Directory, name: str, content: bytes) -> bool:
    """Whether an event without its final name may still get it: its writer is alive and has more to write."""
    if not name.startswith(spool.TEMPORARY) or spool.is_whole(content):
        return False
    now = time.time()
    # A time in the future is from a wrong clock: no process is writing the file then either.
    return now - ABANDONED_S < folder.lstat(name).st_mtime <= now


def has_unwritten(folders: Iterable[str], young_s: float) -> bool:
    """Whether a launcher may still be writing to an event of the last ``young_s`` seconds."""
    for folder in folders:
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(spool.TEMPORARY) and entry.stat().st_mtime > time.time() - young_s:
                    return True
    return False


def _leave_alone(run: SweepRun, folder: Directory, name: str, why: str) -> None:
    run.complaints.append(f"{printable(folder.path_of(name))}: {why}; it is not touched: check who created it")


def _spooled(run: SweepRun, folder: Directory, name: str) -> _Event | None:
    """Return an event with all known facts; ``None`` if there are none, or another sweep was faster."""
    content = _content(run, folder, name)
    if content is None:
        return None
    path, torn = folder.path_of(name), ""
    try:
        event, complete = spool.from_bytes(content, path)
    except InputError as error:
        torn, complete = str(error), False
        named = spool.from_name(name, run.here.controldir)
        # If another or a newer program wrote it, its name proves nothing.
        first = content.partition(b"\n")[0]
        foreign = not f"version={spool.VERSION}".encode().startswith(first) and first.strip(b"\0") != b""
        if named is None or foreign:
            # A file that another version of arcacct was writing when it was killed is an event, too. All other files
            # are kept for people, except files that have had no final name for a day.
            if (named is not None and foreign) or not name.startswith(spool.TEMPORARY):
                _set_aside(run, folder, name, torn)
                return None
            with suppress(FileNotFoundError):
                if not 0 <= time.time() - folder.lstat(name).st_mtime < _NOTHING_S:
                    _remove(run, folder, name)
            return None
        event = named
    try:
        if complete and spool.was_written_apart(content):
            event.local = _present_local(event) or event.local
        facts = job_facts(event, run.here.rules) if complete else _explained(run, event)
    except OSError as error:
        run.complaints.append(f"{path}: {reason(error, event.controldir)}; the next sweep tries it again")
        return None
    except Exception as error:
        if not is_of_one_job(error):
            raise
        _set_aside(run, folder, name, reason(error, path))
        return None
    return _Event(name, facts, torn, not complete and facts.event_ns == event.event_ns)


def _content(run: SweepRun, folder: Directory, name: str) -> bytes | None:
    """Return the bytes of an event that is no longer being written; ``None`` if there are none."""
    try:
        content = folder.read(name, _LARGEST_BYTES)
        return None if _is_being_written(folder, name, content) else content
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
        return read_bytes(path, lock=True, patience_s=PATIENCE_S)[0]
    except OSError:
        return None


def _explained(run: SweepRun, event: JobFiles) -> StateChange:
    """Return the facts of an event without .local, from the present control directory."""
    now = read_job(event.controldir, event.job_id, event.state, run.owner, PATIENCE_S)
    # The launcher may have cut its time to seconds.
    if now.status is not None and now.status.mtime_ns < event.event_ns + 1_000_000_000:
        return job_facts(now, run.here.rules)
    # The job has moved on, is gone, or is in this state again: use the time at which the hook ran.
    now.status = None
    now.event_ns = event.event_ns
    facts = job_facts(now, run.here.rules)
    # The present usage is that of a later run, or of no observed end.
    facts.usage = None
    return facts


def _set_aside(run: SweepRun, folder: Directory, name: str, why: str) -> None:
    path, target = printable(folder.path_of(name)), printable(folder.path_of(f"{_ASIDE}/{name}"))
    if run.dry_run:
        run.complaints.append(f"{path}: {why}; a sweep would move it to {target}")
        return
    try:
        with folder.make(_ASIDE) as aside:
            os.replace(name, name, src_dir_fd=folder.fd, dst_dir_fd=aside.fd)
    except FileNotFoundError:
        # Another sweep was faster.
        return
    except (OSError, InputError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        run.complaints.append(f"{path}: {why}; it cannot be moved to spool/unusable: {said}")
        return
    run.complaints.append(f"{target}: {why}; moved to spool/unusable, check it and remove it")


def _remove(run: SweepRun, folder: Directory, name: str) -> None:
    if run.dry_run:
        return
    # Another sweep may have been faster: recording twice changes nothing. Or the event has its final name by now.
    for known in dict.fromkeys((name, name.removeprefix(spool.TEMPORARY))):
        with suppress(FileNotFoundError):
            os.unlink(known, dir_fd=folder.fd)
