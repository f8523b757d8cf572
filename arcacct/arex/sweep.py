"""Records what callouts reported and what they missed, once or as a service: the spool, then the control directory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from threading import Event

import arcacct
from arcacct.arex import resident
from arcacct.arex.control_files import JobFiles, is_whole, owner_of
from arcacct.arex.job_facts import job_facts
from arcacct.arex.reconcile import ArexLookup, Unfinished, give_up, reconcile
from arcacct.arex.resident import RecorderLock, Reloaded, SpoolWatch
from arcacct.arex.spool import look, save_status
from arcacct.arex.spool_replay import drain_all
from arcacct.arex.sweep_context import Owner, Progress, SweepReport, SweepRun, printable
from arcacct.config.paths import Places
from arcacct.database import access, location
from arcacct.database.access import leave_open, open_accounting
from arcacct.database.connection import Connection, shrink
from arcacct.database.durable import refuse_maintenance
from arcacct.database.location import spools
from arcacct.database.schema import note
from arcacct.errors import ArcacctError, InputError, StoreBusy, use_as
from arcacct.records import recorder, unfinished, usage

# One sweep: drain the spool, then compare the control directory with the database (DESIGN section 4).
#
# Files are read outside the queue of writers and recorded in slices, so that no other writer waits for the sweep.
# Memory does not grow with the number of jobs: names are read from the directory as needed, and looked up some hundred
# at a time.


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
    Drain the spool, walk the control directory, and record what the database lacks.

    ``progress`` is called with the number of jobs done and all jobs. A ``dry_run`` rolls everything back and leaves the
    spool alone. ``take_vanished=False``: jobs without files may be in another control directory. The sweep ends between
    two slices once ``stopping`` returns true, and the next sweep continues. ``goes_on``: this process will sweep again.
    ``given_up``: jobs on hold to abort (`vanished.give_up`). Raises StoreError if the database refuses, InputError if
    the control directory cannot be read. Problems of one job are complaints.
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
                f"check [arex] controldir, and {use_as(here.controldir)}"
            ) from error
        if not stopping():
            unfinished.settle(run, arex_lookup)
        if take_vanished and not stopping():
            arex_lookup.take_unseen()
    if given_up:
        give_up(run, given_up)
    if not dry_run and not stopping():
        # Otherwise the next process that commits would do it, with the queue waiting.
        run.write_back()
        left = look(spools(here))
        with run.writing():
            save_sweep(con, run.ends)
            save_status(con, left)
        with access.translating(here.database):
            usage.update_monthly(con, here)
            usage.update_breakdown(con, here)
    return SweepReport(drained, jobs, looked_at, dict(run.found), tuple(map(printable, run.complaints)))


def record_event(here: Places, files: JobFiles, con: Connection) -> str:
    """
    Record one event as the recorder does; return what was new (`recorder.NEW_JOB`, ...).

    Raises InputError if the job has no .local to read, StoreError and its kinds.
    """
    facts = job_facts(files, here.rules)
    if not facts.known:
        raise InputError(f"{files.controldir}: job {files.job_id} has no .local to read")
    refuse_maintenance(here.database)
    with access.writing_much(con, here):
        # Waiting for the turn may have taken long.
        refuse_maintenance(here.database)
        return recorder.record(con, facts)


def save_sweep(con: Connection, ends: Mapping[int, int] | None = None) -> None:
    """Note the end of a sweep; ``ends``: its results (`SweepRun.ends`). The caller has a transaction."""
    now = int(time.time())
    note(con, "ARCACCT_LAST_SWEEP", now)
    unfinished.add_ends(con, ends or {}, now)


def drain(here: Places, con: Connection, complaints: list[str]) -> int:
    """Do the first half of a sweep: record every event of the spool; return how many. Complaints are appended."""
    run = SweepRun(here, con, owner_of)
    try:
        with ArexLookup(run) as arex_lookup:
            return drain_all(run, arex_lookup)
    finally:
        complaints += map(printable, run.complaints)


# A sweep as a service, which in between records what the launcher spools.


_LOOK_S = 0.5
"""The most seconds between two checks of the spools and of the database."""
_GATHER_S = 0.02
"""Events within this many seconds of another one are recorded and synced together with it."""


class Stale(ArcacctError):
    """Another version replaced the program: this process has old parts loaded and would load new ones."""

    exit_code = StoreBusy.exit_code


def follow(
    source: Places | Reloaded,
    interval_s: float,
    stop: Event,
    told: Callable[[SweepReport | None, list[str]], None],
    *,
    take_vanished: bool = True,
    works: Callable[[], object] = lambda: None,
) -> None:
    """
    Sweep every ``interval_s`` seconds until ``stop`` is set. In between record at once what comes into the spools.

    A running sweep ends after its slice. ``source``: with `Reloaded` a changed configuration is read again. `told` is
    called with each report (``None`` without a sweep) and the new complaints. Every problem, even a missing control
    directory, is a complaint: the next sweep may succeed. ``works`` is called repeatedly. Raises `Stale`.
    """
    with closing(_Recorder(source, stop, told, works)) as recorder:
        while not stop.is_set():
            recorder.sweep(take_vanished)
            recorder.wait(interval_s)


class _Recorder:
    """The open objects of `follow` and the complaints that it has reported."""

    def __init__(
        self,
        source: Places | Reloaded,
        stop: Event,
        told: Callable[[SweepReport | None, list[str]], None],
        works: Callable[[], object],
    ) -> None:
        self._source = source
        self._stop = stop
        self._told = told
        self._works = works
        self._program = resident.of_program()
        self._database: _Database | None = None
        self._lock: RecorderLock | None = None
        self._watch = SpoolWatch()
        self._looked_s = 0.0
        self._drained = 0
        self._left: set[str] = set()
        """Events that only a sweep can record, or that cannot be recorded at all."""
        self._known: set[str] = set()
        self._since: set[str] = set()
        """Complaints up to the last sweep, and since then."""

    def sweep(self, take_vanished: bool) -> None:
        """Sweep everything once. Events that come in meanwhile are recorded between its slices."""
        report = None
        try:
            here, con = self._ready()
            report = sweep(here, con, take_vanished=take_vanished, stopping=self._stopping, goes_on=True)
            report = report._replace(spooled=report.spooled + self._drained)
            self._drained = 0
            complaints = list(report.complaints)
        except ArcacctError as error:
            complaints = self._failed(error)
        new = self._new(complaints)
        self._known, self._since = set(complaints) | self._since, set()
        self._told(report, new)

    def wait(self, seconds: float) -> None:
        """Record events for some seconds, and close the database as soon as maintenance needs it."""
        end = time.monotonic() + seconds
        while not self._stop.is_set():
            self._record()
            left_s = end - time.monotonic()
            if left_s <= 0:
                return
            self._watch.wait(min(left_s, _LOOK_S))
            if not self._stop.is_set() and self._watch.has_news():
                time.sleep(_GATHER_S)

    def close(self) -> None:
        """End the process: record what waits now."""
        with suppress(ArcacctError):
            self._drain(*self._ready())
        if self._lock is not None:
            self._lock.release()
        self._watch.close()
        if self._database is not None:
            self._database.leave()

    def _stopping(self) -> bool:
        """Whether to stop. A sweep calls it between two slices and for each job; it also records new events."""
        passed_s = time.monotonic() - self._looked_s
        if passed_s >= _LOOK_S or (passed_s >= _GATHER_S and self._watch.has_news()):
            assert self._database is not None
            con = self._database.unchanged()
            if con is not None:
                self._tell_new(self._drain(self._database.here, con))
        return self._stop.is_set()

    def _record(self) -> None:
        try:
            complaints = self._drain(*self._ready())
        except ArcacctError as error:
            complaints = self._failed(error)
        self._tell_new(complaints)

    def _ready(self) -> tuple[Places, Connection]:
        """Return the configured database. Raises `Stale`, ConfigError, and as `_Database.connection`."""
        if resident.of_program() != self._program:
            raise Stale(
                f"{arcacct.__file__}: arcacct was replaced by another version; start `arcacct sweep --follow` again"
            )
        if isinstance(self._source, Reloaded):
            changed = self._source.changed()
            if changed is not None:
                self._use(changed)
        elif self._database is None:
            self._use(self._source)
        assert self._database is not None
        return self._database.here, self._database.connection()

    def _use(self, here: Places) -> None:
        if self._lock is not None:
            self._lock.release()
        if self._database is not None:
            self._database.close()
        self._database, self._lock = _Database(here), RecorderLock(here)

    def _drain(self, here: Places, con: Connection) -> list[str]:
        """Record the events of the spools once; return complaints. Raises ArcacctError if nothing can be recorded."""
        self._looked_s = time.monotonic()
        self._works()
        self._watch.look_at(spools(here))
        self._left = {path for path in self._left if os.path.exists(path)}
        run = SweepRun(here, con, owner_of)
        drained = drain_all(run, None, self._left)
        if drained:
            self._drained += drained
            shrink(con, here.database)
        complaints = [*map(printable, run.complaints)]
        if self._lock is not None:
            with suppress(OSError):
                self._lock.hold()
        return complaints

    def _failed(self, error: ArcacctError) -> list[str]:
        if isinstance(error, Stale):
            raise error
        text = printable(str(error))
        if self._lock is not None and self._database is not None and is_whole(self._database.here.controldir):
            with suppress(OSError):
                self._lock.hold(text)
        return [text]

    def _tell_new(self, complaints: list[str]) -> None:
        if new := self._new(complaints):
            self._told(None, new)

    def _new(self, complaints: list[str]) -> list[str]:
        new = [text for text in complaints if text not in self._known and text not in self._since]
        self._since.update(complaints)
        return new


class _Database:
    """The accounting database. It is opened again if another file has replaced it."""

    def __init__(self, here: Places) -> None:
        self.here = here
        self._con: Connection | None = None
        self._identity: tuple[int, int] | None = None

    def connection(self) -> Connection:
        """
        Return the open database, or open it.

        Raises InputError while there is no database, or no control directory either, StoreError and its kinds,
        StoreBusy during maintenance of the database. Raises ConfigError, and closes it, once the database is in another
        place.

        (A file system that is not mounted is an empty directory: a database created there would be hidden by the
        mount.)
        """
        try:
            location.refuse_another(self.here)
            refuse_maintenance(self.here.database)
        except ArcacctError:
            self.close()
            raise
        identity = _identity(self.here.database)
        if self._con is not None and identity == self._identity:
            return self._con
        self.close()
        if identity is None and not is_whole(self.here.controldir):
            raise InputError(f"{self.here.controldir}: A-REX's control directory is missing; waiting for it")
        if identity is None and not location.refuse_lost(self.here):
            raise InputError(f"{self.here.database}: no database; waiting for it: `arcacct db init` creates it")
        self._con = open_accounting(self.here)
        self._identity = _identity(self.here.database)
        return self._con

    def unchanged(self) -> Connection | None:
        """Return the open database; ``None`` if another file has replaced it, or maintenance is waiting."""
        if os.path.exists(self.here.maintenance) or _identity(self.here.database) != self._identity:
            return None
        return self._con

    def leave(self) -> None:
        """Leave the database at the end of the process."""
        if self._con is not None:
            leave_open(self._con, self.here.database)
            self._con = None

    def close(self) -> None:
        """Close the database for maintenance: a restore waits for this process."""
        if self._con is not None:
            self._con.close()
            self._con = None


def _identity(path: str) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
