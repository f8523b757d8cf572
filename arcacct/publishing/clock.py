"""The deadline of one target's run, and whether it must stop."""

from __future__ import annotations

import time
from threading import Event


class RunDeadline:
    """
    The time of one target's run; begun with it.

    Looked at before each exchange and each wait: nothing that is under way is torn off.
    """

    def __init__(self, run_s: float | None = None, stopping: Event | None = None) -> None:
        """``run_s``: how long the run may take in all, ``None``: as long as it does. ``stopping`` ends it at once."""
        self._run_s = run_s
        self._ends = float("inf") if run_s is None else time.monotonic() + run_s
        self._stopping = stopping or Event()

    def expired_reason(self) -> str | None:
        """Why nothing more may start, as text; ``None`` while it may."""
        if self._stopping.is_set():
            return "stopped; the next run goes on"
        if self.left_s() <= 0:
            return f"the time of this run is over (run_timeout={self._run_s:g}); the next run goes on"
        return None

    def left_s(self) -> float:
        """Seconds until the end."""
        return self._ends - time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep, unless the run is stopped meanwhile."""
        self._stopping.wait(seconds)
