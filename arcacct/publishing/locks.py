"""
Who may publish: any number of processes at once, each to other receivers, and none while a database is replaced.

``publishing.lock`` is shared by all publishers; commands that restore, move or prune a database take it alone, as do
publishers of older programs. In the directory ``publishing.locks`` beside it each target of the ledger and each
receiver has a file of its own: a target is one run's at a time, and a receiver hears one message after the other,
whatever the target is called. ``begin`` there is held for the moments in which a run notes its number. Each place that
is exported into has one, too.

The files are empty, for their owner only, and nobody removes them: whoever has opened one that is gone would hold a
lock that nobody else can see. `flock` ends with the process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager

from arcacct.config.options import Target
from arcacct.config.paths import Places, private_directory
from arcacct.database.connection import open_lock
from arcacct.errors import StoreBusy
from arcacct.records.packing import sha256

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
            time.sleep(0.01)
        yield
    finally:
        os.close(fd)


def _file_name(shown: str, meant: str) -> str:
    """Whatever is meant, a file name: readable as far as it goes, and never that of something else."""
    digest = sha256(meant.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{re.sub('[^A-Za-z0-9_-]+', '_', shown)[:80]}.{digest[:16]}"
