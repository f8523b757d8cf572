"""
`arcacct publish` and `arcacct republish`: independent runs of the targets, one thread for each receiver, and locks
between processes.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

from arcacct.config.paths import Places, refuse_of_arex
from arcacct.config.settings import Settings
from arcacct.database import access, incarnation, schema
from arcacct.database.connection import ACCOUNTING_SCHEMA, Connection, open_database
from arcacct.database.location import refuse_unrelated, spools
from arcacct.errors import StoreBusy, TargetBusy
from arcacct.publishing import cursors as publishing_cursors
from arcacct.publishing import ledger, target_run
from arcacct.publishing.context import RunSummary
from arcacct.publishing.locks import beginning, lock_targets, publisher
from arcacct.publishing.plugin import TargetPlugin
from arcacct.publishing.selection import note_bare_ids
from arcacct.publishing.senders import PlannedSender
from arcacct.publishing.target_run import AS_CONFIGURED, Databases, Period, RunOptions, TargetResult, TargetRun
from arcacct.records import hold_decisions, usage
from arcacct.times import DAY_S

# Targets run in parallel, in one thread for each receiver, so that a slow or failing target does not delay the others.
#
# Each thread has its own connections to both databases and its own locks. The runs print whole lines.


Work = Callable[[TargetRun], TargetResult]
"""The work for each target."""

GRACE_S = 5.0
"""How long an interrupted run waits for the answers to the messages that it has just sent, in seconds."""


class ReceiverThread:
    """The targets of one receiver. They run one after the other, so the receiver gets one message at a time."""

    def __init__(self, plugins: Sequence[TargetPlugin], locks: ExitStack) -> None:
        """Store the targets. ``locks`` are released as soon as the last target is done."""
        self.plugins = plugins
        self.locks = locks
        self.outcomes: list[TargetResult] = []

    def go(self, settings: Settings, options: RunOptions, stopping: Event, work: Work) -> None:
        """Run all targets. Afterwards each has an outcome, whatever happened."""
        here = settings.places
        with self.locks:
            try:
                with in_use(here, Databases(*access.open_again(here))) as both:
                    access.shrink_page_cache(both.accounting)
                    for plugin in self.plugins:
                        self.outcomes.append(_outcome(plugin, both, options, stopping, work))
            except BaseException as error:  # noqa: BLE001  it would be lost at the end of the thread
                left = self.plugins[len(self.outcomes) :]
                fault = target_run.fault_of(error, here.publishing_database)
                self.outcomes += [TargetResult(plugin.target.name, RunSummary(), fault) for plugin in left]


def run_all(settings: Settings, lanes: Sequence[ReceiverThread], options: RunOptions, work: Work) -> None:
    """
    Run the threads in parallel and wait for their ends. If the host refuses more threads, the rest run afterwards.

    After an interrupt they send nothing more and have `GRACE_S` to note new answers; the rest is left as after a kill.
    Raises TargetBusy if the host allows no thread at all.
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
                # A daemon: after an interrupt the program does not wait for a receiver that does not answer.
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
            "this host cannot start a thread now, so nothing was sent; the next run tries again. Raise its limit of"
            " memory or of tasks (ulimit, or MemoryMax and TasksMax of the service)"
        )


def _wait(threads: Sequence[Thread], seconds: float) -> None:
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


@contextmanager
def in_use(here: Places, both: Databases) -> Iterator[Databases]:
    """Give both open databases to one thread, and close them afterwards."""
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
    except (Exception, SystemExit) as error:  # noqa: BLE001  a fault about one target must not stop the others
        return TargetResult(
            plugin.target.name, summary, target_run.fault_of(error, plugin.settings.places.publishing_database)
        )


class _SerializedCallbacks:
    """Options with callbacks that several threads may call: one call at a time, and none after the end."""

    def __init__(self, options: RunOptions) -> None:
        self._lock = Lock()
        self._ended = False
        self.options = options._replace(watch=self._alone(options.watch), announce=self._alone(options.announce))

    def _alone(self, tell: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        def told(target: Any, what: Any) -> None:
            # A message that cannot be printed (full disk behind stderr, closed pipe) must not stop the sending.
            with self._lock, suppress(OSError):
                if not self._ended:
                    tell(target, what)

        return told

    def end(self) -> None:
        """End the callbacks, so that no remaining thread is in the middle of a line when the interpreter ends."""
        if self._lock.acquire(timeout=GRACE_S):
            self._ended = True
            self._lock.release()


# `arcacct publish` and `arcacct republish`: each target continues where it stopped, independently of the others (DESIGN
# section 5).
#
# fence -> unanswered messages -> records after the target's last Seq (or the months they touch) -> sync.


TimedWork = Callable[[TargetRun, int], TargetResult]


def publish(
    settings: Settings, plugins: Sequence[TargetPlugin], options: RunOptions = AS_CONFIGURED
) -> list[TargetResult]:
    """
    Send new records and sums to some targets in parallel. A target that is slow, hangs or fails does not delay the
    others.

    Returns the results in the order of the targets. Raises StoreError if a database refuses before anything is sent,
    and StoreBusy if one is being replaced. Errors of one target, such as another process that publishes to it, are in
    its result.
    """
    return _each(settings, plugins, options, lambda run, horizon: run.publish(horizon))


def republish(
    settings: Settings, plugins: Sequence[TargetPlugin], period: Period, options: RunOptions = AS_CONFIGURED
) -> list[TargetResult]:
    """
    Send the records of a period again; summaries as whole months. Cursors do not move.

    Raises as `publish`. It can be repeated after an interruption: the receivers recognise repeats.
    """
    return _each(settings, plugins, options, lambda run, horizon: run.republish(period, horizon))


def _each(
    settings: Settings, plugins: Sequence[TargetPlugin], options: RunOptions, work: TimedWork
) -> list[TargetResult]:
    here = settings.places
    if options.dry_run:
        return _planned(settings, plugins, options, work)
    # Before the locks: without a database, the directory for the locks is not created either.
    access.refuse_unasked(here)
    with publisher(here), ExitStack() as locks:
        lanes, outcomes = _receiver_threads(settings, plugins, locks)
        if lanes or not plugins:
            both = Databases(access.open_accounting(here), access.open_publishing(here))
            with in_use(here, both), access.translating(here.publishing_database):
                # Report unusable spool entries here: no later sweep finds them.
                _drain(here, both.accounting, options)
                usage.update_monthly(both.accounting, here)
                usage.update_breakdown(both.accounting, here)
                access.shrink_page_cache(both.accounting)
                with beginning(here):
                    horizon = incarnation.begin_run(both.accounting, both.publishing, here).horizon
                    note_bare_ids(both.accounting, both.publishing, here)
                # Records that were added since are below the fence, too.
                hold_decisions.settle(both.accounting, here)
                # Each thread now owns its locks and releases them when it is done.
                locks.pop_all()
                run_all(settings, lanes, options, lambda run: work(run, horizon))
                ledger.forget_bytes(both.publishing, int(time.time()) + 1 - settings.keep_messages_days * DAY_S)
                passed = _passed_by_all(settings, both)
                # A new target has passed nothing, but the others have what they were sent.
                if passed > schema.delivered(both.accounting):
                    with access.writing(both.accounting, here):
                        schema.note_delivered(both.accounting, passed)
    outcomes += [outcome for lane in lanes for outcome in lane.outcomes]
    names = [plugin.target.name for plugin in plugins]
    return sorted(outcomes, key=lambda outcome: names.index(outcome.target))


def _planned(
    settings: Settings, plugins: Sequence[TargetPlugin], options: RunOptions, work: TimedWork
) -> list[TargetResult]:
    """
    Plan a run as if each receiver accepted everything. It is the same code, on databases that are discarded afterwards.

    The spools are recorded and the sums updated first, as by a sweep, unless the user may only read the databases.
    """
    here = settings.places
    access.require(here)
    if options.write_to is not None:
        refuse_of_arex(options.write_to, here.controldir)
    if os.access(here.database, os.W_OK) and os.access(here.directory, os.W_OK):
        # As the run does: a copy of the database, or that of another host, would take the events of the spools.
        access.refuse_unasked(here)
        with (
            access.close_or_leave_open(open_database(here.database, ACCOUNTING_SCHEMA), here.database, here) as con,
            access.translating(here.database),
        ):
            con.text_factory = access.READABLE
            refuse_unrelated(here, con)
            _drain(here, con, options)
            usage.update_monthly(con, here)
    with access.trial_databases(here) as databases, access.translating(here.database):
        both = Databases(*databases)
        horizon = incarnation.begin_run(*both, here).horizon
        note_bare_ids(*both, here)
        options = options._replace(make_sender=partial(PlannedSender, options.make_sender, options.write_to))
        return [work(TargetRun(plugin, both, options), horizon) for plugin in plugins]


def _drain(here: Places, con: Connection, options: RunOptions) -> None:
    """Record the waiting events of the spools; complain about the unusable ones."""
    if any(map(_has_something, spools(here))):
        from arcacct.arex.sweep import drain  # noqa: PLC0415  rarely needed: the recorder records nearly all

        complaints: list[str] = []
        drain(here, con, complaints)
        for complaint in complaints:
            options.complain(complaint)


def _has_something(folder: str) -> bool:
    try:
        with os.scandir(folder) as found:
            return next(found, None) is not None
    except FileNotFoundError:
        return False
    except OSError:
        # The code that drains it reports the error.
        return True


def _passed_by_all(settings: Settings, both: Databases) -> int:
    """Return the place in the log up to which every configured target has handled records; 0 if one has not started."""
    life = schema.incarnation(both.accounting)
    sound = [one.block for one in settings.targets if not publishing_cursors.is_damaged(both.publishing, one.block)]
    if len(sound) < len(settings.targets):
        return 0
    cursors = [publishing_cursors.cursor(both.publishing, block) for block in sound]
    return min((one.last_seq if one and one.incarnation == life else 0 for one in cursors), default=0)


def _receiver_threads(
    settings: Settings, plugins: Sequence[TargetPlugin], locks: ExitStack
) -> tuple[list[ReceiverThread], list[TargetResult]]:
    """Return the targets by receiver, locked, and the results of those that another process publishes to."""
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
