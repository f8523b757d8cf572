"""
Moving both databases to another directory: the same life in another place.

Whole copies first, then the note of the place, then the old databases out of the way. Until the note is rewritten the
old place is the one that counts, from then on the new one; killed anywhere, the same command goes on.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import closing
from typing import NamedTuple

from arcacct.config.paths import AREX_WRITES, Places, arex_writes, private_directory
from arcacct.db import place
from arcacct.db.connect import open_for_reading
from arcacct.db.maintain import PATIENCE_S, SUFFIXES, copy_whole, files, wait_until_unused
from arcacct.db.maintenance import alone, maintenance
from arcacct.db.opening import refuse_unasked, require
from arcacct.db.place import LocationFile
from arcacct.db.schema import ACCOUNTING, ensure, incarnation, open_to_group, sync
from arcacct.errors import ConfigError, StoreError, UsageError

_UNFINISHED = "moving"
"""A folder in the new place as long as a move is under way: what is beside it may be overwritten."""


class Moved(NamedTuple):
    """What a move did."""

    database: str
    """The new path of the accounting database."""
    kept: tuple[str, ...]
    """The old databases, under their new names."""
    spooled: int
    """Events that were taken along."""


def check(here: Places, directory: str) -> str:
    """
    The new path of the accounting database, if it can be moved into the directory.

    Raises UsageError for a directory that cannot be meant or has databases already, ConfigError for the one that A-REX
    writes its own accounting into, and as `refuse_unasked` and `require` when there is nothing to move.
    """
    if not os.path.isabs(directory) or "\n" in directory:
        raise UsageError(f"{directory}: give the whole path of a directory, as /var/lib/arcacct")
    directory = os.path.normpath(directory)
    new = os.path.join(directory, "accounting.db")
    if arex_writes(new, here.controldir):
        raise ConfigError(f"{new}: {AREX_WRITES}")
    if os.path.realpath(new) == os.path.realpath(here.database):
        raise UsageError(f"{here.database}: the database is there already; give another directory")
    if not _is_noted(here, new):
        if not refuse_unasked(here):
            require(here)
        _refuse_directory(here, directory)
    return new


def _refuse_directory(here: Places, directory: str) -> None:
    if not os.path.exists(directory):
        if not os.path.isdir(os.path.dirname(directory)):
            raise UsageError(
                f"{os.path.dirname(directory)}: no such directory; make it first, for all who have to enter"
            )
        return
    if not os.path.isdir(directory):
        raise UsageError(f"{directory}: not a directory; give one for the databases alone")
    if os.path.exists(here.directory) and os.stat(directory).st_uid != os.stat(here.directory).st_uid:
        raise UsageError(f"{directory}: belongs to another user than {here.directory}: hooks could not write there")
    if os.path.isdir(os.path.join(directory, _UNFINISHED)):
        return
    for name in ("accounting.db", "publishing.db"):
        if os.path.exists(os.path.join(directory, name)):
            raise UsageError(f"{os.path.join(directory, name)}: there is a database already; give another directory")


def move(here: Places, directory: str, *, patience_s: float = PATIENCE_S) -> Moved:
    """
    Both databases and what waits in the spool into a directory, which is made if it is missing; hooks spool meanwhile.

    The caller holds the publishing lock. The old databases are kept where they were, under other names. A move that
    was interrupted is finished. Raises as `check`, StoreBusy when other processes do not let go of the databases, and
    StoreError when the note of the place cannot be written: without it old configurations would begin anew.
    """
    new = check(here, directory)
    if _is_noted(here, new):
        # What an earlier move was interrupted in: the file `maintenance` in the old place is its own.
        with maintenance(here.database, "move"):
            return _finished(here, new, 0)
    for path, kind in files(here):
        ensure(path, kind, read_group=here.read_group, may_create=False)
    with alone(here.database, here.queue_lock, "move"):
        for path in (here.database, here.publishing_database):
            wait_until_unused(path, patience_s)
        with closing(open_for_reading(here.database, ACCOUNTING.schema)) as con:
            life = incarnation(con)
        note = place.read(here)
        before = LocationFile(here.database, life, () if note is None else note.former)
        # The old place once more: where no note can be written is known before anything is copied.
        _write_note(here, before)
        spooled = _copied(here, os.path.dirname(new))
        # From here on the new place is the one that counts.
        _write_note(here, LocationFile(new, life, place.former_of(before, os.path.dirname(new))))
        return _finished(here, new, spooled)


def _is_noted(here: Places, new: str) -> bool:
    """Whether an earlier move came as far as the note."""
    note = place.read(here)
    return note is not None and os.path.realpath(note.database) == os.path.realpath(new) and place.has_database(new)


def _copied(here: Places, directory: str) -> int:
    """Whole copies of everything in the new place, on disk; returns how many events of the spool there are."""
    workshop = os.path.join(directory, _UNFINISHED)
    try:
        if not os.path.isdir(directory):
            private_directory(directory)
            place.own_as(directory, here.directory)
            sync(os.path.dirname(directory))
        # What an interrupted move left, when the note did not name it yet.
        shutil.rmtree(workshop, ignore_errors=True)
        private_directory(workshop)
        sync(directory)
        for name in ("accounting.db", "publishing.db"):
            for path in filter(os.path.lexists, (os.path.join(directory, name + suffix) for suffix in SUFFIXES)):
                os.unlink(path)
        for path, kind in files(here):
            target = os.path.join(workshop, f"{kind.folder}.db")
            copy_whole(path, kind, target)
            place.own_as(target, here.directory)
        spooled = _copied_spool(here, os.path.join(directory, "spool"), workshop)
        for name in (place.PSEUDONYMS, place.REPORTS):
            if os.path.exists(os.path.join(here.directory, name)):
                # As private as it was.
                copy = os.path.join(workshop, name)
                shutil.copy2(os.path.join(here.directory, name), copy, follow_symlinks=False)
                place.own_as(copy, here.directory)
                sync(copy)
                os.rename(copy, os.path.join(directory, name))
        for _path, kind in files(here):
            final = os.path.join(directory, f"{kind.folder}.db")
            os.rename(os.path.join(workshop, f"{kind.folder}.db"), final)
            open_to_group(final, here.read_group)
        sync(directory)
    except OSError as error:
        raise StoreError(
            f"{error.filename or directory}: {error.strerror}; the databases are still in {here.directory}"
        ) from error
    return spooled


def _copied_spool(here: Places, target: str, workshop: str) -> int:
    """
    Copy the events that wait in the spool, each whole or not at all; returns how many.

    What is being written now ends in the old spool, which is drained, too. What was set aside stays where it is.
    """
    events = _events(here.spool)
    if events and not os.path.isdir(target):
        private_directory(target)
        place.own_as(target, here.directory)
    for name in events:
        copy = os.path.join(workshop, name)
        shutil.copy2(os.path.join(here.spool, name), copy, follow_symlinks=False)
        place.own_as(copy, here.directory)
        sync(copy)
        os.rename(copy, os.path.join(target, name))
    if events:
        sync(target)
    return len(events)


def _events(spool: str) -> list[str]:
    try:
        with os.scandir(spool) as entries:
            return sorted(
                one.name for one in entries if one.is_file(follow_symlinks=False) and not one.name.startswith(".")
            )
    except FileNotFoundError:
        return []


def _write_note(here: Places, note: LocationFile) -> None:
    try:
        place.write(here, note)
    except OSError as error:
        raise StoreError(
            f"{here.place_note}: cannot be written: {error.strerror}; without it the old configuration would begin an "
            f"empty database: the databases are still in {here.directory}"
        ) from error


def _finished(here: Places, new: str, spooled: int) -> Moved:
    """The old databases out of the way, so that no hook records there, and no trace of the work left behind."""
    directory = os.path.dirname(new)
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    kept = []
    for path, _kind in files(here):
        for suffix in SUFFIXES:
            if os.path.exists(path + suffix):
                os.rename(path + suffix, f"{path}.moved.{now}{suffix}")
        kept.append(f"{path}.moved.{now}")
    sync(here.directory)
    taken = set(_events(os.path.join(directory, "spool")))
    for name in _events(here.spool):
        # What came since is drained from where it is.
        if name in taken:
            os.unlink(os.path.join(here.spool, name))
    shutil.rmtree(os.path.join(directory, _UNFINISHED), ignore_errors=True)
    return Moved(new, tuple(kept), spooled)
