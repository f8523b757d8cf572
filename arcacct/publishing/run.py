"""
`arcacct publish` and `arcacct republish`: every target on its own, one thread for each receiver, and locks between
processes.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

from arcacct.config.options import Target
from arcacct.config.paths import Places
from arcacct.config.settings import Settings
from arcacct.database import access, incarnation, schema, trial
from arcacct.database.connection import ACCOUNTING_SCHEMA, Connection, no_lock, open_database, open_lock
from arcacct.database.durable import refuse_maintenance
from arcacct.database.location import spools
from arcacct.errors import StoreBusy, TargetBusy
from arcacct.files.directories import private_directory
from arcacct.publishing import cursors as publishing_cursors
from arcacct.publishing import ledger
from arcacct.publishing.context import RunSummary
from arcacct.publishing.delivery import PlannedSender
from arcacct.publishing.ledger_rows import DAY_S
from arcacct.publishing.plugin import TargetPlugin
from arcacct.publishing.selection import note_bare_ids
from arcacct.publishing.target_run import (
    AS_CONFIGURED,
    Databases,
    Period,
    RunOptions,
    TargetResult,
    TargetRun,
    fault_of,
)
from arcacct.records import hold_decisions, usage
from arcacct.records.packing import sha256

# Targets side by side: a thread for each receiver, so that one that is slow, hangs or fails costs the others nothing.
#
# Each thread has its own connections to both databases and its own locks. Output of the runs is in whole lines.


Work = Callable[[TargetRun], TargetResult]
"""What is done with each target."""

GRACE_S = 5.0
"""How long a run that is interrupted waits for the answers to what it has just sent."""


class ReceiverThread:
    """Targets of one receiver, which hears one message at a time: one run after the other."""

    def __init__(self, plugins: Sequence[TargetPlugin], locks: ExitStack) -> None:
        """``locks`` are given back as soon as the last of the targets is done."""
        self.plugins = plugins
        self.locks = locks
        self.outcomes: list[TargetResult] = []

    def go(self, settings: Settings, options: RunOptions, stopping: Event, work: Work) -> None:
        """Run them all; whatever happens, each has an outcome then."""
        here = settings.places
        with self.locks:
            try:
                with in_use(here, Databases(*access.open_again(here))) as both:
                    access.shrink_page_cache(both.accounting)
                    for plugin in self.plugins:
                        self.outcomes.append(_outcome(plugin, both, options, stopping, work))
            except BaseException as error:  # noqa: BLE001  nobody else would hear of it: this is the end of a thread
                left = self.plugins[len(self.outcomes) :]
                fault = fault_of(error, here.publishing_database)
                self.outcomes += [TargetResult(plugin.target.name, RunSummary(), fault) for plugin in left]


def run_all(settings: Settings, lanes: Sequence[ReceiverThread], options: RunOptions, work: Work) -> None:
    """
    Run the threads side by side to their ends; where the host refuses more threads, the rest run afterwards.

    Interrupted, they send nothing more and have a moment to note what was just answered; what they leave is what a
    kill leaves. Raises TargetBusy where the host lets no thread begin at all.
    """
    stopping, finished = Event(), SimpleQueue[None]()
    voice = _SerializedCallbacks(options)
    waiting = deque(lanes)

    def go() -> None:
        try:
            while not stopping.is_set():
                try:
                    lane = waiting.popleft()
                except IndexError:
                    return
                lane.go(settings, voice.options, stopping, work)
        finally:
            finished.put(None)

    threads: list[Thread] = []
    try:
        with suppress(RuntimeError):
            for _ in lanes:
                # A daemon: nobody who interrupts us waits for a receiver that says nothing.
                thread = Thread(target=go, daemon=True)
                thread.start()
                threads.append(thread)
        _refuse_none(threads, lanes)
        for _ in threads:
            finished.get()
    except BaseException:
        stopping.set()
        for lane in waiting:
            lane.locks.close()
        try:
            _wait(threads, GRACE_S)
        finally:
            voice.end()
        raise
    _wait(threads, GRACE_S)


def _refuse_none(threads: Sequence[Thread], lanes: Sequence[ReceiverThread]) -> None:
    if lanes and not threads:
        raise TargetBusy(
            "this host lets no thread begin now, and nothing was sent; the next run tries again. Raise its limit of"
            " memory or of tasks (ulimit, or MemoryMax and TasksMax of the service)"
        )


def _wait(threads: Sequence[Thread], seconds: float) -> None:
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


@contextmanager
def in_use(here: Places, both: Databases) -> Iterator[Databases]:
    """Both open databases, used by one thread and put away then."""
    with (
        access.close_or_leave_open(both.accounting, here.database, here),
        access.close_or_leave_open(both.publishing, here.publishing_database, here),
    ):
        both.accounting.text_factory = access.READABLE
        yield both


def _outcome(plugin: TargetPlugin, both: Databases, options: RunOptions, stopping: Event, work: Work) -> TargetResult:
    summary = RunSummary()
    try:
        run = TargetRun(plugin, both, options, stopping)
        summary = run.summary
        return work(run)
    except Exception as error:  # noqa: BLE001  a fault of ours about one target must not keep the others waiting
        return TargetResult(plugin.target.name, summary, fault_of(error, plugin.settings.places.publishing_database))


class _SerializedCallbacks:
    """The options with callbacks that several threads may use: one call at a time, and none after the end."""

    def __init__(self, options: RunOptions) -> None:
        self._lock = Lock()
        self._ended = False
        self.options = options._replace(watch=self._alone(options.watch), announce=self._alone(options.announce))

    def _alone(self, tell: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        def told(target: Any, what: Any) -> None:
            # What nobody can hear (a full disk behind stderr, a reader that went away) keeps nothing from being sent.
            with self._lock, suppress(OSError):
                if not self._ended:
                    tell(target, what)

        return told

    def end(self) -> None:
        """A thread that is left behind must not be in the middle of a line when the interpreter ends."""
        if self._lock.acquire(timeout=GRACE_S):
            self._ended = True
            self._lock.release()


# Who may publish: any number of processes at once, each to other receivers, and none while a database is replaced.
#
# ``publishing.lock`` is shared by all publishers; commands that restore, move or prune a database take it alone, as do
# publishers of older programs. In the directory ``publishing.locks`` beside it each target of the ledger and each
# receiver has a file of its own: a target is one run's at a time, and a receiver hears one message after the other,
# whatever the target is called. ``begin`` there is held for the moments in which a run notes its number. Each place
# that is exported into has one, too.
#
# The files are empty, for their owner only, and nobody removes them: whoever has opened one that is gone would hold a
# lock that nobody else can see. `flock` ends with the process, however that ends.


_OURS = fcntl.LOCK_EX | fcntl.LOCK_NB
_TURN_S = 5.0
"""How long a prune keeps publishers out at once; some tenths of a second do."""


def publishing_lock(path: str) -> AbstractContextManager[None]:
    """Nobody publishes meanwhile; raises StoreBusy at once when somebody does."""
    return _locked(path, _OURS, f"{path}: another arcacct is publishing; wait until it is done")


def publisher(here: Places) -> AbstractContextManager[None]:
    """
    No database is replaced meanwhile; raises StoreBusy when one is.

    It waits for the turn that a prune gives to others between two pages.
    """
    path = here.publishing_lock
    busy = f"{path}: another arcacct restores, moves or prunes a database; wait for it"
    return _locked(path, fcntl.LOCK_SH | fcntl.LOCK_NB, busy, _TURN_S)


@contextmanager
def exporter(here: Places, place: str, patience_s: float = 60.0) -> Iterator[Reading]:
    """
    Nobody else exports from this database into a place, which is any text that names it.

    Two exports into one place would take away each other's new parts. A place can take hours, or a hostile user can
    keep it busy: exports into other places do not wait for it, and whoever prunes or restores waits for no longer than
    ``patience_s``, since only the `Reading` that this gives keeps them out. Raises StoreBusy at once.
    """
    path = os.path.join(f"{here.publishing_lock}s", _file_name("export", place))
    busy = f"{path}: another arcacct exports into the same place; wait until it is done"
    with _locked(path, _OURS, busy), closing(Reading(here, patience_s)) as reading:
        yield reading


class Reading:
    """
    The lock of a `publisher` for somebody who reads the database, waits for something slow, and reads on.

    The lock is kept during the wait, so that as a rule nothing is pruned or replaced in between; after ``patience_s``
    it is given up until the next reading.
    """

    def __init__(self, here: Places, patience_s: float) -> None:
        self._here, self._patience_s = here, patience_s
        self._mutex = threading.Lock()
        self._lock = ExitStack()
        self._is_held = False
        self._timer: threading.Timer | None = None

    @contextmanager
    def now(self) -> Iterator[None]:
        """The database is read inside. Raises as `publisher`."""
        self._stop_timer()
        with self._mutex:
            if not self._is_held:
                self._lock.enter_context(publisher(self._here))
                self._is_held = True
        try:
            yield
        finally:
            self._timer = threading.Timer(self._patience_s, self._let_go)
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        """Nothing is read any more."""
        self._stop_timer()
        self._let_go()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
            self._timer = None

    def _let_go(self) -> None:
        with self._mutex:
            self._lock.close()
            self._is_held = False


def lock_targets(here: Places, targets: Sequence[Target]) -> ExitStack:
    """
    Targets that share a receiver, and this receiver, are ours until the result is closed.

    Raises StoreBusy at once when another process publishes to one of them, or as `publisher` does.
    """
    names = " and ".join(target.name for target in targets)
    busy = f"another arcacct is publishing to {names}, or to the same receiver; wait until it is done"
    files = [_file_name(target.block, target.block) for target in targets]
    files += sorted({_file_name("receiver", target.url) for target in targets})
    with ExitStack() as held:
        held.enter_context(publisher(here))
        for name in files:
            held.enter_context(_locked(os.path.join(f"{here.publishing_lock}s", name), _OURS, busy))
        return held.pop_all()


def beginning(here: Places) -> AbstractContextManager[None]:
    """One after the other; waits for whoever is at it, which takes no longer than a few transactions."""
    return _locked(os.path.join(f"{here.publishing_lock}s", "begin"), fcntl.LOCK_EX)


@contextmanager
def _locked(path: str, how: int, busy: str = "", patience_s: float = 0) -> Iterator[None]:
    private_directory(os.path.dirname(path))
    fd = open_lock(path)
    try:
        deadline = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(fd, how)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise StoreBusy(busy) from None
            except OSError as error:
                raise no_lock(path, error) from error
            time.sleep(0.01)
        yield
    finally:
        os.close(fd)


def _file_name(shown: str, meant: str) -> str:
    """Whatever is meant, a file name: readable as far as it goes, and never that of something else."""
    digest = sha256(meant.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{re.sub('[^A-Za-z0-9_-]+', '_', shown)[:80]}.{digest[:16]}"


# `arcacct publish` and `arcacct republish`: every target on its own, each continuing where it stopped (DESIGN section
# 5).
#
# fence -> what began and has no answer -> records after the target's last Seq (or the months they touch) -> sync.


TimedWork = Callable[[TargetRun, int], TargetResult]


def publish(
    settings: Settings, plugins: Sequence[TargetPlugin], options: RunOptions = AS_CONFIGURED
) -> list[TargetResult]:
    """
    Send what is new to each of some targets, side by side; one that is slow, hangs or fails costs the others nothing.

    Raises StoreError when a database refuses before anything is sent, StoreBusy when one is being replaced; everything
    about one target is in its Outcome, also that another process publishes to it. They are in the targets' order.
    """
    return _each(settings, plugins, options, lambda run, horizon: run.publish(horizon))


def republish(
    settings: Settings, plugins: Sequence[TargetPlugin], period: Period, options: RunOptions = AS_CONFIGURED
) -> list[TargetResult]:
    """
    Send the records of a period again; summaries as whole months. Cursors stay where they are.

    Raises as `publish`. Interrupted, it can be repeated: the receivers know what to do with a repeat.
    """
    return _each(settings, plugins, options, lambda run, horizon: run.republish(period, horizon))


def _each(
    settings: Settings, plugins: Sequence[TargetPlugin], options: RunOptions, work: TimedWork
) -> list[TargetResult]:
    here = settings.places
    if options.dry_run:
        return _planned(settings, plugins, options, work)
    # Before the locks: where no database is begun, no directory for it is made either.
    access.refuse_unasked(here)
    with publisher(here), ExitStack() as locks:
        lanes, outcomes = _receiver_threads(settings, plugins, locks)
        if lanes or not plugins:
            both = Databases(access.open_accounting(here), access.open_publishing(here))
            with in_use(here, both), access.translating(here.publishing_database):
                # What is set aside in a spool no sweep will find again.
                for complaint in _drained(here, both.accounting):
                    options.complain(complaint)
                usage.update_monthly(both.accounting, here)
                usage.update_breakdown(both.accounting, here)
                access.shrink_page_cache(both.accounting)
                with beginning(here):
                    horizon = incarnation.begin_run(both.accounting, both.publishing, here).horizon
                    note_bare_ids(both.accounting, both.publishing, here)
                # What was recorded since is below the fence, too.
                hold_decisions.settle(both.accounting, here)
                # Each thread releases its own locks when it is done, not earlier.
                locks.pop_all()
                run_all(settings, lanes, options, lambda run: work(run, horizon))
                ledger.forget_bytes(both.publishing, int(time.time()) + 1 - settings.keep_messages_days * DAY_S)
                usage.delete_delivered(both.accounting, here, _passed_by_all(settings, both))
    outcomes += [outcome for lane in lanes for outcome in lane.outcomes]
    names = [plugin.target.name for plugin in plugins]
    return sorted(outcomes, key=lambda outcome: names.index(outcome.target))


def _planned(
    settings: Settings, plugins: Sequence[TargetPlugin], options: RunOptions, work: TimedWork
) -> list[TargetResult]:
    """
    What a run does, if each receiver accepts what it is sent: the same code, on databases that are put away afterwards.

    What waits in the spools is recorded first, and the sums follow, as by a sweep. A user who may only read the
    databases plans without that.
    """
    here = settings.places
    access.require(here)
    if os.access(here.database, os.W_OK) and os.access(here.directory, os.W_OK):
        refuse_maintenance(here.database)
        with (
            access.close_or_leave_open(open_database(here.database, ACCOUNTING_SCHEMA), here.database, here) as con,
            access.translating(here.database),
        ):
            con.text_factory = access.READABLE
            for complaint in _drained(here, con):
                options.complain(complaint)
            usage.update_monthly(con, here)
    with trial.databases(here) as databases, access.translating(here.database):
        both = Databases(*databases)
        horizon = incarnation.begin_run(*both, here).horizon
        note_bare_ids(*both, here)
        options = options._replace(make_sender=partial(PlannedSender, options.make_sender, options.write_to))
        return [work(TargetRun(plugin, both, options), horizon) for plugin in plugins]


def _drained(here: Places, con: Connection) -> list[str]:
    """Record what waits in the spools, which is new, too; what of it could not be used."""
    complaints: list[str] = []
    if any(map(_has_something, spools(here))):
        from arcacct.arex.sweep import drain  # noqa: PLC0415  hooks record nearly all by themselves

        drain(here, con, complaints)
    return complaints


def _has_something(folder: str) -> bool:
    try:
        with os.scandir(folder) as found:
            return next(found, None) is not None
    except FileNotFoundError:
        return False
    except OSError:
        # Whoever drains it says what is wrong with it.
        return True


def _passed_by_all(settings: Settings, both: Databases) -> int:
    """The place in the log up to which every configured target is done with records; 0 if one has not begun."""
    life = schema.incarnation(both.accounting)
    sound = [one.block for one in settings.targets if not publishing_cursors.is_damaged(both.publishing, one.block)]
    if len(sound) < len(settings.targets):
        return 0
    cursors = [publishing_cursors.cursor(both.publishing, block) for block in sound]
    return min((one.last_seq if one and one.incarnation == life else 0 for one in cursors), default=0)


def _receiver_threads(
    settings: Settings, plugins: Sequence[TargetPlugin], locks: ExitStack
) -> tuple[list[ReceiverThread], list[TargetResult]]:
    """The targets by receiver, locked; and the outcomes of those that another process publishes to."""
    by_receiver: dict[str, list[TargetPlugin]] = {}
    for plugin in plugins:
        by_receiver.setdefault(plugin.target.url, []).append(plugin)
    lanes, outcomes = [], []
    for same in by_receiver.values():
        try:
            held = locks.enter_context(lock_targets(settings.places, [plugin.target for plugin in same]))
            lanes.append(ReceiverThread(same, held))
        except StoreBusy as error:
            outcomes += [TargetResult(plugin.target.name, RunSummary(), error) for plugin in same]
    return lanes, outcomes
