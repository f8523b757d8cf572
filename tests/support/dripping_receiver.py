"""Receivers that never come to an end: a byte now and then at any point of the conversation, or a flood."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from scripted_receiver import ScriptedReceiver, server_context

from arcacct.sandbox.authority import Credential

PAUSE_S = 0.02
GUARD_S = 60.0
"""After this a connection is closed, so that a test ends whose client has no limit of its own: it fails then."""
_OK = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"


class Drip(NamedTuple):
    """How it starts, and what follows byte by byte, again and again."""

    start: bytes
    endless: bytes


ANSWERS = {
    "status line": Drip(b"HTTP/1.1 200 ", b"O"),
    "header": Drip(_OK + b"X: ", b"x"),
    "headers": Drip(_OK, b"X: x\r\n"),
    "100 Continue": Drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": Drip(_OK + b"Content-Length: 1000000\r\n\r\n", b"x"),
    "body until it closes": Drip(_OK + b"\r\n", b"x"),
    "chunks": Drip(_CHUNKED, b"1\r\nx\r\n"),
    "chunk extension": Drip(_CHUNKED + b"1;x=", b"x"),
    "trailers": Drip(_CHUNKED + b"0\r\n", b"T: x\r\n"),
}
"""Answers that never end."""
HANDSHAKE = Drip(b"\x16\x03\x03\x3f\xff", b"\0")
"""The beginning of a TLS record of 16 kB."""
TUNNEL = Drip(b"HTTP/1.1 200 Connection established\r\nX: ", b"x")
"""What a proxy says."""


class DrippingReceiver(ScriptedReceiver):
    """
    Says `drip` to the first requests, then what is in the script.

    Without a TLS context it is a proxy, or (`deaf`) drips without a word from the client. `begun` is set once it
    drips, `enough` ends it. A `slow` one takes in the request as it answers others: byte by byte. `outwaited`: the
    client was still there after `GUARD_S`.
    """

    def __init__(
        self, context: ssl.SSLContext | None, drip: Drip, *, deaf: bool = False, slow: bool = False, pause_s=PAUSE_S
    ) -> None:
        self.drip = drip
        self.drips = 10**9
        self.begun = threading.Event()
        self.enough = threading.Event()
        self.outwaited = False
        self._deaf = deaf
        self._slow = slow
        self._pause_s = pause_s
        super().__init__(context)

    def stop(self) -> None:
        self.enough.set()
        super().stop()

    def _converse(self, connection: socket.socket, reader) -> bool:
        if self.drips <= 0:
            return super()._converse(connection, reader)
        self.drips -= 1
        if not self._deaf:
            _take_in(reader, whole=not self._slow)
        self.begun.set()
        until = time.monotonic() + GUARD_S
        with contextlib.suppress(OSError):
            self._drip(connection, reader, until)
            self.outwaited = time.monotonic() > until
        return False

    def _drip(self, connection: socket.socket, reader, until: float) -> None:
        if self._slow:
            while time.monotonic() < until and not self.enough.wait(self._pause_s) and reader.read(1):
                pass
            return
        connection.sendall(self.drip.start)
        for piece in _pieces(self.drip.endless) if self._pause_s else itertools.repeat(self.drip.endless * 100):
            if time.monotonic() > until or self.enough.wait(self._pause_s):
                return
            connection.sendall(piece)


def _pieces(endless: bytes) -> Iterator[bytes]:
    return itertools.cycle(endless[place : place + 1] for place in range(len(endless)))


def _take_in(reader, *, whole: bool) -> None:
    length = 0
    while line := reader.readline().rstrip(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    if whole:
        reader.read(length)


def dripping(credential: Credential, where: str, **how) -> DrippingReceiver:
    """A receiver with TLS whose answers never end."""
    return DrippingReceiver(server_context(credential), ANSWERS[where], **how)
