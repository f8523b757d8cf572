"""
Locks of publishers: any number of processes publish at once, each to other receivers. None publishes while a database
is replaced.

All publishers share ``publishing.lock``. Commands that restore, move or prune a database lock it exclusively, and so
do publishers of older programs. The directory ``publishing.locks`` next to it has one file for each target of the
ledger and for each receiver: a target has one run at a time, and a receiver gets one message at a time, whatever the
name of the target. The file ``begin`` there is locked while a run notes its number. Each place that is exported into
has a file, too.

The files are empty and private to their owner. They are never removed: a process with an open file that is gone would
hold a lock that others cannot see. `flock` ends with the process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from hashlib import sha256

from arcacct.config.options import Target
from arcacct.config.paths import Places
from arcacct.database.connection import no_lock, open_lock
from arcacct.errors import StoreBusy
from arcacct.files.directories import private_directory

_OURS = fcntl.LOCK_EX | fcntl.LOCK_NB
_TURN_S = 5.0
"""How long, in seconds, to wait for a prune that keeps publishers out. It does so for some tenths of a second."""


def publishing_lock(path: str) -> AbstractContextManager[None]:
    """Keep publishers out. Raises StoreBusy at once if one is active."""
    return _locked(path, _OURS, f"{path}: another arcacct is publishing; wait until it is done")


def publisher(here: Places) -> AbstractContextManager[None]:
    """
    Prevent the replacement of a database. Raises StoreBusy if one is being replaced.

    It waits for the pause that a prune makes for others between two pages.
    """
    path = here.publishing_lock
    busy = f"{path}: another arcacct restores, moves or prunes a database; wait for it"
    return _locked(path, fcntl.LOCK_SH | fcntl.LOCK_NB, busy, _TURN_S)


@contextmanager
def exporter(here: Places, place: str, patience_s: float = 60.0) -> Iterator[Reading]:
    """
    Prevent other exports from this database into a place; ``place`` is any text that identifies it.

    Two exports into one place would remove each other's new parts. Exporting can take hours, or a hostile user can keep
    a place busy. So exports into other places do not wait for it, and a prune or restore waits at most ``patience_s``
    seconds: only the returned `Reading` blocks them. Raises StoreBusy at once.
    """
    path = os.path.join(f"{here.publishing_lock}s", _file_name("export", place))
    busy = f"{path}: another arcacct exports into the same place; wait until it is done"
    with _locked(path, _OURS, busy), closing(Reading(here, patience_s)) as reading:
        yield reading


def beginning(here: Places) -> AbstractContextManager[None]:
    """Lock the start of a run, where it notes its number. It waits for other starts: a few transactions each."""
    return _locked(os.path.join(f"{here.publishing_lock}s", "begin"), fcntl.LOCK_EX)


class Reading:
    """
    The lock of a `publisher` for a process that reads the database, waits for something slow, and reads again.

    The lock is kept during the wait, so that usually nothing is pruned or replaced in between. After ``patience_s``
    seconds it is released until the next reading.
    """

    def __init__(self, here: Places, patience_s: float) -> None:
        self._here, self._patience_s = here, patience_s
        self._mutex = threading.Lock()
        self._lock = ExitStack()
        self._is_held = False
        self._timer: threading.Timer | None = None

    @contextmanager
    def now(self) -> Iterator[None]:
        """Hold the lock while the database is read. Raises as `publisher`."""
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
        """Release the lock: reading is finished."""
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
    Lock targets that share a receiver, and this receiver, until the result is closed.

    Raises StoreBusy at once if another process publishes to one of them, or as `publisher` does.
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
    """Return a file name for any text: readable as far as possible, and unique to the text."""
    digest = sha256(meant.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{re.sub('[^A-Za-z0-9_-]+', '_', shown)[:80]}.{digest[:16]}"
