"""
Targets side by side: a thread for each receiver, so that one that is slow, hangs or fails costs the others nothing.

Each lane has its own connections to both databases and its own locks. What the runs say comes out in whole lines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

from arcacct.conf.places import Places
from arcacct.conf.settings import Settings
from arcacct.conf.targets import Target
from arcacct.publish.tally import Tally
from arcacct.publish.target_run import Databases, Outcome, TargetRun, Wishes, fault_of
from arcacct.store import accounting

Work = Callable[[TargetRun], Outcome]
"""What is done with each target."""

GRACE_S = 5.0
"""How long a run that is interrupted waits for the answers to what it has just sent."""


class Lane:
    """Targets of one receiver, which hears one message at a time: one run after the other."""

    def __init__(self, targets: Sequence[Target], locks: ExitStack) -> None:
        """``locks`` are given back as soon as the last of the targets is done."""
        self.targets = targets
        self.locks = locks
        self.outcomes: list[Outcome] = []

    def go(self, settings: Settings, wishes: Wishes, stopping: Event, work: Work) -> None:
        """Run them all; whatever happens, each has an outcome then."""
        here = settings.places
        with self.locks:
            try:
                with opened(here) as both:
                    accounting.read_once(both.accounting)
                    for target in self.targets:
                        self.outcomes.append(_outcome(settings, target, both, wishes, stopping, work))
            except BaseException as error:  # noqa: BLE001  nobody else would hear of it: this is the end of a thread
                left = self.targets[len(self.outcomes) :]
                fault = fault_of(error, here.publishing_database)
                self.outcomes += [Outcome(target.name, Tally(), fault) for target in left]


def run_all(settings: Settings, lanes: Sequence[Lane], wishes: Wishes, work: Work) -> None:
    """
    Run the lanes side by side, to their ends.

    Interrupted, they send nothing more and have a moment to note what was just answered; what they leave is what a
    kill leaves.
    """
    stopping, finished = Event(), SimpleQueue[Lane]()
    voice = _Voice(wishes)

    def go(lane: Lane) -> None:
        try:
            lane.go(settings, voice.wishes, stopping, work)
        finally:
            finished.put(lane)

    # Daemons: nobody who interrupts us waits for a receiver that says nothing.
    threads = [Thread(target=go, args=(lane,), daemon=True) for lane in lanes]
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            finished.get()
    except BaseException:
        stopping.set()
        try:
            _wait(threads, GRACE_S)
        finally:
            voice.end()
        raise
    _wait(threads, GRACE_S)


def _wait(threads: Sequence[Thread], seconds: float) -> None:
    until = time.monotonic() + seconds
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(0.0, until - time.monotonic()))


@contextmanager
def opened(here: Places) -> Iterator[Databases]:
    """Both databases, for one thread."""
    both = Databases(accounting.open_accounting(here), accounting.open_publishing(here))
    with (
        accounting.put_away(both.accounting, here.database, here),
        accounting.put_away(both.publishing, here.publishing_database, here),
    ):
        both.accounting.text_factory = accounting.READABLE
        yield both


def _outcome(
    settings: Settings, target: Target, both: Databases, wishes: Wishes, stopping: Event, work: Work
) -> Outcome:
    tally = Tally()
    try:
        run = TargetRun(settings, target, both, wishes, stopping)
        tally = run.tally
        return work(run)
    except Exception as error:  # noqa: BLE001  a fault of ours about one target must not keep the others waiting
        return Outcome(target.name, tally, fault_of(error, settings.places.publishing_database))


class _Voice:
    """The wishes with ears for several threads: each hears one thing at a time, and nothing after the end."""

    def __init__(self, wishes: Wishes) -> None:
        self._lock = Lock()
        self._ended = False
        self.wishes = wishes._replace(watch=self._alone(wishes.watch), announce=self._alone(wishes.announce))

    def _alone(self, tell: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        def told(target: Any, what: Any) -> None:
            with self._lock:
                if not self._ended:
                    tell(target, what)

        return told

    def end(self) -> None:
        """A thread that is left behind must not be in the middle of a line when the interpreter ends."""
        if self._lock.acquire(timeout=GRACE_S):
            self._ended = True
            self._lock.release()
