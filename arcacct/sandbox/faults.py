"""
Receivers that misbehave on order: refuse, answer late, forget to answer, lose the connection.

Faults wait in a queue for each endpoint; the first that fits a request is used up by it. `containing` makes a
fault follow a record (its id in the readable text of a request) instead of the next request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from arcacct.sandbox.wire import HTTPAnswer


class InjectedFault(NamedTuple):
    """What happens to requests, and to which; `times` of them will still meet it (None: every one that fits)."""

    answer: HTTPAnswer | None = None
    """Sent instead of the real answer; None: the real one, or none at all if `drop`."""
    drop: bool = False
    """Close the connection without an answer."""
    after_work: bool = False
    """Do the work first, as behind a balancer that loses patience: the receiver has what the sender cannot know of."""
    delay_s: float = 0.0
    containing: str = ""
    path: str = ""
    times: int | None = 1
    chance: Callable[[], bool] | None = None
    """Asked of each request that fits: whether it happens to this one; None: it does."""

    def fits(self, path: str, text: Callable[[], str]) -> bool:
        """True if a request to this path with this readable text meets the fault."""
        fits = self.path in path and (not self.containing or self.containing in text())
        return fits and (self.chance is None or self.chance())


class Faults:
    """
    The queues of all endpoints; used from the servers' threads and from the test at once.

    Whoever orders a fault says by fields of `InjectedFault` which requests meet it, and when.
    """

    def __init__(self, endpoints: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, list[InjectedFault]] = {endpoint: [] for endpoint in endpoints}

    def add(self, endpoint: str, fault: InjectedFault) -> None:
        """Queue a fault for an endpoint, e.g. ``sgas``, ``ams`` or ``authn``."""
        with self._lock:
            self._queues[endpoint].append(fault)

    def answer(
        self,
        endpoint: str,
        status: int,
        body: str = "",
        *,
        content_type: str = "text/html",
        headers: Mapping[str, str] | None = None,
        **which: Any,
    ) -> None:
        """Answer with this status and body, without doing the work or (`after_work`) after it."""
        answer = HTTPAnswer(status, body.encode(), content_type, tuple((headers or {}).items()))
        self.add(endpoint, InjectedFault(answer, **which))

    def drop(self, endpoint: str, **which: Any) -> None:
        """Close the connection without an answer, before the work or (`after_work`) after it."""
        self.add(endpoint, InjectedFault(drop=True, **which))

    def slow(self, endpoint: str, seconds: float, **which: Any) -> None:
        """Answer as usual, `seconds` later: waiting before the work or (`after_work`) after it."""
        self.add(endpoint, InjectedFault(delay_s=seconds, **which))

    def pending(self, endpoint: str) -> int:
        """How many faults of this endpoint no request has used up yet."""
        with self._lock:
            return len(self._queues[endpoint])

    def clear(self) -> None:
        """Behave again, everywhere."""
        with self._lock:
            for queue in self._queues.values():
                queue.clear()

    def take(self, endpoint: str, path: str, text: Callable[[], str]) -> InjectedFault | None:
        """The first fault that fits this request, counted as met; None: behave."""
        with self._lock:
            queue = self._queues[endpoint]
            for position, fault in enumerate(queue):
                if fault.fits(path, text):
                    if fault.times is not None:
                        left = fault._replace(times=fault.times - 1)
                        queue[position : position + 1] = [left] if fault.times > 1 else []
                    return fault
        return None
