"""
Sockets whose every wait ends with the exchange that they serve.

The timeout of a socket limits single waits only, so a receiver that says one byte a second keeps us for ever: in the
handshake, in a header, in endless "100 Continue", chunk extensions or trailers. Here each call that may wait (connect,
handshake, send, receive) is given what is left of the whole exchange, and what arrives is counted. Nothing has to be
interrupted: no thread and no signal that could hit the next exchange of a connection that is kept. Only the resolver
waits by rules of its own (resolv.conf): nobody can interrupt getaddrinfo.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

_Result = TypeVar("_Result")

LARGEST_HEAD = 1024 * 1024
"""Bytes before the body of an answer: its headers, every "100 Continue", what a proxy says."""


class DeadlineExceeded(TimeoutError):
    """The exchange has used up its time; the text says which time that was."""


class ResponseTooLarge(OSError):
    """More arrives than any answer has."""


class ExchangeLimits:
    """What one exchange may still take, in time and in bytes; begun anew for each."""

    def __init__(self) -> None:
        """Nothing is limited before the first exchange begins."""
        self._ends = float("inf")
        self._words = ""
        self._room_bytes = LARGEST_HEAD
        self.request_started = False
        """Whether anything of the request may have reached the receiver."""

    def begin(self, seconds: float, words: str) -> None:
        """Another exchange: so long, from now on; ``words`` say what limit that is."""
        self._ends = time.monotonic() + seconds
        self._words = words
        self._room_bytes = LARGEST_HEAD
        self.request_started = False

    def expect(self, n_bytes: int) -> None:
        """The head of the answer is there: so much more may come."""
        self._room_bytes = n_bytes

    def wait_s(self, limit_s: float | None) -> float:
        """How long a wait may be that has a limit of its own. Raises DeadlineExceeded."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded(self._words)
        return left if limit_s is None or left < limit_s else limit_s

    def count_received(self, n_bytes: int) -> None:
        """So much has arrived. Raises ResponseTooLarge."""
        self._room_bytes -= n_bytes
        if self._room_bytes < 0:
            raise ResponseTooLarge("more came than any answer has")


class TimedSocket(socket.socket):
    """A TCP socket within a budget. Its own timeout stays the limit of a single wait."""

    budget: ClassVar[ExchangeLimits]
    _limit_s: float | None = None

    def settimeout(self, value: float | None) -> None:
        self._limit_s = value
        super().settimeout(value)

    def _within(self, call: Callable[..., _Result], *how: Any) -> _Result:
        super().settimeout(self.budget.wait_s(self._limit_s))
        try:
            return call(*how)
        except TimeoutError:
            # Whose end it was: that of the wait, or that of all.
            self.budget.wait_s(None)
            raise

    def connect(self, address: Any) -> None:
        self._within(super().connect, address)

    def send(self, data: Any, flags: int = 0) -> int:
        return self._within(super().send, data, flags)

    def sendall(self, data: Any, flags: int = 0) -> None:
        self._within(super().sendall, data, flags)

    def recv(self, *how: Any) -> bytes:
        data = self._within(super().recv, *how)
        self.budget.count_received(len(data))
        return data

    def recv_into(self, *how: Any) -> int:
        count = self._within(super().recv_into, *how)
        self.budget.count_received(count)
        return count


class TimedTLSSocket(TimedSocket, ssl.SSLSocket):
    """The same with TLS: one call of OpenSSL counts as one wait, however many records it reads or writes."""

    def do_handshake(self, block: bool = False) -> None:
        limit_s = self._limit_s
        self._within(super().do_handshake, block)
        # ssl sets the timeout that it found.
        self._limit_s = limit_s


def timed_sockets(budget: ExchangeLimits) -> tuple[type[TimedSocket], type[TimedTLSSocket]]:
    """Classes of sockets, plain and TLS, that all live by one budget: ssl makes its own by their class."""
    return (
        type("TimedSocket", (TimedSocket,), {"budget": budget}),
        type("TimedTLSSocket", (TimedTLSSocket,), {"budget": budget}),
    )
