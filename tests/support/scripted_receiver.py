"""
A TLS server on loopback that says exactly what a test tells it to, also what no good server says.

The sandbox's receivers know their trade; this one knows nothing. It keeps every request and counts connections.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from arcacct.sandbox.authority import Authority, Credential


class Say(NamedTuple):
    """One step: an answer, or a misbehaviour at this point of the conversation."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    hang_up: bool = False
    """Read the request, close the connection without an answer."""
    reset: bool = False
    """The same, with a TCP reset."""
    silent: bool = False
    """Read the request and say nothing until the client leaves."""
    cut: bool = False
    """Announce ten bytes more than come."""
    before_body: bool = False
    """Answer as soon as the headers are there and close: a server that will not read the rest."""
    raw: bytes = b""
    """Exactly these bytes in place of an answer."""


def say(status: int, body: object = b"", **headers: str) -> Say:
    """An answer; a dict becomes JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Say(status, data, tuple((name.replace("_", "-"), value) for name, value in headers.items()))


class Heard(NamedTuple):
    """A request as it came over the wire; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class ScriptedReceiver:
    """Answers one request per step of `script`, in order; steps may be added at any time."""

    def __init__(self, context: ssl.SSLContext | None, address: str = "127.0.0.1") -> None:
        self.script: list[Say] = []
        self.heard: list[Heard] = []
        self.connections = 0
        self.tunnels: list[str] = []
        self._context = context
        self._stopping = threading.Event()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, 0), family=family)
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def stop(self) -> None:
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for connection in self._open:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(plain)
            thread = threading.Thread(target=self._serve, args=(plain,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, plain: socket.socket) -> None:
        with contextlib.suppress(OSError, ssl.SSLError), contextlib.ExitStack() as stack:
            connection = stack.enter_context(plain)
            if self._context is not None:
                connection = stack.enter_context(_secured(self._context, plain))
                self._open.append(connection)
            self.connections += 1
            reader = stack.enter_context(connection.makefile("rb"))
            while self._converse(connection, reader):
                pass

    def _converse(self, connection: socket.socket, reader) -> bool:
        line = reader.readline(65536).decode("latin-1")
        if not line.endswith(" HTTP/1.1\r\n"):
            if line:
                _answer(connection, say(400, b"this is no HTTP"))
            return False
        method, path, _ = line.split(" ", 2)
        headers = dict(_headers(reader))
        step = self.script.pop(0) if self.script else say(599, b"nothing more in the script")
        if step.before_body:
            _answer(connection, step)
            # Closing with unread bytes resets the connection; the answer had better be there by then.
            time.sleep(0.2)
            return False
        self.heard.append(Heard(method, path, headers, reader.read(int(headers.get("content-length", "0")))))
        if step.silent:
            reader.read(1)
        if step.reset:
            _reset(connection)
        if step.hang_up or step.silent or step.reset:
            return False
        _answer(connection, step)
        return not step.cut


class ConnectProxy(ScriptedReceiver):
    """A proxy that knows CONNECT only; `script` holds its refusals, without one it connects. With TLS or without."""

    def __init__(self, context: ssl.SSLContext | None = None, address: str = "127.0.0.1") -> None:
        self.told: list[dict[str, str]] = []
        """The headers of each request for a tunnel, names in lower case."""
        super().__init__(context, address)

    def _converse(self, connection: socket.socket, reader) -> bool:
        target = reader.readline().decode().split(" ")[1]
        self.tunnels.append(target)
        self.told.append(dict(_headers(reader)))
        if self.script:
            _answer(connection, self.script.pop(0))
            return False
        host, _, port = target.rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port))) as there:
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_pump, args=(there, connection))
            back.start()
            _pump(connection, there)
            back.join()
        return False


def server_context(credential: Credential, authority: Authority | None = None) -> ssl.SSLContext:
    """TLS with this certificate; clients must show one of `authority`, if given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(credential.cert_path, credential.key_path)
    if authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cafile=authority.ca_file)
    return context


def _secured(context: ssl.SSLContext, plain: socket.socket) -> ssl.SSLSocket:
    connection = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
    try:
        connection.do_handshake()
    except ssl.SSLError:
        time.sleep(0.2)  # as above: the alert first
        connection.close()
        raise
    return connection


def _headers(reader) -> Iterator[tuple[str, str]]:
    while line := reader.readline().decode("latin-1").rstrip("\r\n"):
        name, _, value = line.partition(":")
        yield name.lower(), value.strip()


def _answer(connection: socket.socket, step: Say) -> None:
    if step.raw:
        connection.sendall(step.raw)
        return
    length = len(step.body) + (10 if step.cut else 0)
    head = [f"HTTP/1.1 {step.status} Said", f"Content-Length: {length}", *(f"{n}: {v}" for n, v in step.headers)]
    # Header bytes that are no text are surrogates.
    connection.sendall("\r\n".join([*head, "", ""]).encode("utf-8", "surrogateescape") + step.body)


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
