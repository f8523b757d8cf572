"""
Targets side by side: a thread for each receiver, so that one that is slow, hangs or fails costs the others nothing.

Each thread has its own connections to both databases and its own locks. Output of the runs is in whole lines.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

from arcacct.config.paths import Places
from arcacct.config.settings import Settings
from arcacct.database import access
from arcacct.errors import TargetBusy
from arcacct.publishing.plug import TargetPlugin
from arcacct.publishing.target_run import Databases, RunOptions, TargetResult, TargetRun, fault_of
from arcacct.publishing.this_run import RunSummary

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
