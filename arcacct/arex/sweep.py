"""What the hook missed, once or as a service: the spool first, then the control directory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event

from arcacct.arex import spool_replay
from arcacct.arex.control_files import is_whole, owner_of
from arcacct.arex.reconcile import ArexLookup, Unfinished, give_up, reconcile
from arcacct.arex.spool_replay import drain_all
from arcacct.arex.sweep_context import Owner, Progress, SweepReport, SweepRun, printable
from arcacct.config.paths import Places
from arcacct.database import access, location
from arcacct.database.access import leave_open, open_accounting
from arcacct.database.connection import Connection
from arcacct.database.durable import refuse_maintenance
from arcacct.database.location import spools
from arcacct.database.schema import note
from arcacct.errors import ArcacctError, InputError
from arcacct.records import unfinished, usage

# What the hook missed: drain the spool, then compare the control directory with the database (DESIGN section 4).
#
# Files are read outside the queue of writers and recorded in slices, so that no hook waits for the sweep. Nothing grows
# with the number of jobs: names are taken from the directory as they come, and looked up some hundred at a time.


def sweep(
    here: Places,
    con: Connection,
    *,
    owner: Owner = owner_of,
    progress: Progress | None = None,
    dry_run: bool = False,
    take_vanished: bool = True,
    stopping: Callable[[], bool] = lambda: False,
    goes_on: bool = False,
    given_up: Sequence[str] = (),
) -> SweepReport:
    """
    Drain the spool, walk the control directory, record what the database lacks.

    ``progress`` is told how many jobs of the directory are done. A ``dry_run`` takes everything back and leaves the
    spool alone. ``take_vanished=False``: jobs without files may be in another control directory. With ``stopping`` it
    ends between two slices as soon as that is true; the next sweep goes on. ``goes_on``: this process will sweep again.
    ``given_up`` are jobs on hold (`vanished.give_up`). Raises StoreError when the database
    refuses and InputError when the control directory cannot be read; anything about one job is a complaint.
    """
    run = SweepRun(here, con, owner, dry_run, stopping, goes_on=goes_on)
    with ArexLookup(run) as arex_lookup:
        drained = drain_all(run, arex_lookup)
        unfinished = Unfinished.of(run) if take_vanished else Unfinished({})
        try:
            jobs, looked_at = reconcile(run, unfinished, progress)
        except OSError as error:
            raise InputError(
                f"{error.filename or here.controldir}: cannot read the control directory: {error.strerror}; "
                "run as the user of A-REX, and check [arex] controldir"
            ) from error
        if not stopping():
            unfinished.settle(run, arex_lookup)
    if given_up:
        give_up(run, given_up)
    if not dry_run and not stopping():
        # Whoever commits next would have to do it with the queue waiting.
        run.write_back()
        left = spool_replay.look(spools(here))
        with run.writing():
            save_sweep(con, run.ends)
            spool_replay.save_status(con, left)
        with access.translating(here.database):
            usage.update_monthly(con, here)
            usage.update_breakdown(con, here)
            # Whoever publishes does it as well, up to where everybody is: where nobody does, packs would stay for ever.
            usage.delete_delivered(con, here, 0)
    return SweepReport(drained, jobs, looked_at, dict(run.found), tuple(map(printable, run.complaints)))


def save_sweep(con: Connection, ends: Mapping[int, int] | None = None) -> None:
    """A sweep is at its end; ``ends``: what it found (`SweepRun.ends`). Inside the caller's transaction."""
    now = int(time.time())
    note(con, "ARCACCT_LAST_SWEEP", now)
    unfinished.add_ends(con, ends or {}, now)


def drain(here: Places, con: Connection, complaints: list[str]) -> int:
    """The first half of a sweep alone: record every event of the spool; returns how many."""
    run = SweepRun(here, con, owner_of)
    try:
        with ArexLookup(run) as arex_lookup:
            return drain_all(run, arex_lookup)
    finally:
        complaints += map(printable, run.complaints)


# A sweep that goes on as a service.


_LOOK_S = 1.0
"""How often it looks whether the database is being worked on."""


def follow(
    here: Places,
    interval_s: float,
    stop: Event,
    told: Callable[[SweepReport | None, list[str]], None],
    *,
    take_vanished: bool = True,
) -> None:
    """
    Sweep every ``interval_s`` seconds until ``stop`` is set; a sweep under way ends after its slice.

    ``told`` gets each report (``None`` when there was no sweep) and the complaints that the one before did not have.
    Whatever is wrong, also that the control directory is not there, is a complaint: the next sweep may do better.
    """
    database = _Database(here)
    known: set[str] = set()
    try:
        while not stop.is_set():
            report = None
            try:
                con = database.connection()
                report = sweep(here, con, take_vanished=take_vanished, stopping=stop.is_set, goes_on=True)
                complaints = list(report.complaints)
            except ArcacctError as error:
                complaints = [str(error)]
            told(report, [text for text in complaints if text not in known])
            known = set(complaints)
            database.wait(stop, interval_s)
    finally:
        database.leave()


class _Database:
    """The accounting database, opened again when another file has come into its place."""

    def __init__(self, here: Places) -> None:
        self._here = here
        self._con: Connection | None = None
        self._identity: tuple[int, int] | None = None

    def connection(self) -> Connection:
        """
        Raises InputError while there is neither a database nor a control directory, StoreError and its kinds; StoreBusy
        while the database is being worked on, ConfigError once it is somewhere else, and then it is closed.

        (A file system that is not mounted is an empty directory: a database made in there would be lost below it.)
        """
        try:
            location.refuse_another(self._here)
            refuse_maintenance(self._here.database)
        except ArcacctError:
            self._close()
            raise
        identity = _identity(self._here.database)
        if self._con is not None and identity == self._identity:
            return self._con
        self._close()
        if identity is None and not is_whole(self._here.controldir):
            raise InputError(
                f"{self._here.controldir}: no control directory of A-REX is there now; waiting for it to come back"
            )
        self._con = open_accounting(self._here)
        self._identity = _identity(self._here.database)
        return self._con

    def wait(self, stop: Event, seconds: float) -> None:
        """Wait, but close the database as soon as somebody wants to work on it: a restore waits for us."""
        end = time.monotonic() + seconds
        while not stop.is_set() and (left := end - time.monotonic()) > 0:
            if self._con is not None and os.path.exists(self._here.maintenance):
                self._close()
            stop.wait(min(left, _LOOK_S))

    def leave(self) -> None:
        """For the end of the process."""
        if self._con is not None:
            leave_open(self._con, self._here.database)
            self._con = None

    def _close(self) -> None:
        if self._con is not None:
            self._con.close()
            self._con = None


def _identity(path: str) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
