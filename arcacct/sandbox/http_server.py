"""A loopback HTTPS server for receivers: threads, client certificates, injected faults, and a journal of requests."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from http.client import responses
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, ClassVar, NamedTuple, Protocol, Self
from urllib.parse import parse_qsl, urlsplit

from cryptography import x509
from cryptography.x509.oid import NameOID

from arcacct.config.credentials import slash_dn
from arcacct.errors import ConfigError, TargetBusy
from arcacct.files.safe_open import open_directory, private
from arcacct.sandbox.authority import Credential, validity

# The receiver on a port, its requests and its answers.


class Peer(NamedTuple):
    """The client's certificate, as the receivers see it."""

    dn: str
    """In certificate order, ``/O=Sandbox/CN=ce.example.org``: APEL's spelling."""
    subject: str
    """In the order of RFC 2253, ``CN=ce.example.org,O=Sandbox``: nginx passes this to SGAS."""
    common_name: str
    not_before: int
    not_after: int


class HTTPRequest(NamedTuple):
    """One HTTP request, read to its end."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    peer: Peer | None
    """None: the client showed no certificate."""


class Arrival(NamedTuple):
    """A document that a request brought: one line of the journal."""

    target: str
    """The receiver's `documents`."""
    records: int | None
    """None: not countable."""
    file: str | None
    """Below ``received/``; None: the document was not kept, because a fault came first."""
    verdict: str
    """The result as text."""


class HTTPAnswer(NamedTuple):
    """Status, body and headers of an answer, and the documents of the request."""

    status: int
    body: bytes = b""
    content_type: str = "text/html"
    headers: tuple[tuple[str, str], ...] = ()
    arrivals: tuple[Arrival, ...] = ()


class Surroundings(Protocol):
    """What a receiver may know about its sandbox; the addresses exist once all receivers have their ports."""

    journal: Journal
    client: Credential
    """The certificate of the sandbox's computing element."""
    project: str
    topic: str
    sgas_url: str
    ams_url: str
    auditor_url: str
    authn_port: int

    @property
    def credentials(self) -> list[str]:
        """Return the lines of a target's block with its credentials and its trusted CAs."""

    @property
    def apel_certificate(self) -> Credential:
        """The certificate for encrypted messages to APEL."""


class Receiver(ABC):
    """
    The receiver on a port. A new one is a module with a class of this kind, and a line in `sandbox.RECEIVERS`.

    Requests come from many threads at once.
    """

    endpoint: ClassVar[str]
    """Its name among ports, faults and the options of ``arcacct sandbox``."""
    title: ClassVar[str]
    """Its name on the command line."""
    documents: ClassVar[str | None] = None
    """The folder of ``received/`` for its documents; None: requests here bring no documents."""
    wants_certificate: ClassVar[bool] = True
    """Whether clients are asked for their certificates."""
    demands_certificate: ClassVar[bool] = False
    """Whether TLS itself refuses a client without a certificate, or with an expired one."""

    @classmethod
    @abstractmethod
    def beside(cls, box: Surroundings) -> Self:
        """Return a receiver for this sandbox, whose authority and journal exist."""

    @abstractmethod
    def answer(self, request: HTTPRequest) -> HTTPAnswer:
        """Return the answer to a request."""

    @abstractmethod
    def address(self, port: int) -> str:
        """Return its address, for people."""

    def delivers(self, _request: HTTPRequest) -> bool:
        """Whether a request brings documents: then it is a line of the journal, even if a fault comes first."""
        return False

    def text(self, request: HTTPRequest) -> str:
        """Return the readable text of a request, for faults that follow a record."""
        return request.body.decode("utf-8", "replace")

    def block(self, _box: Surroundings) -> list[str]:
        """Return the lines of arcacct.conf for publishing to it; empty if it is no target of its own."""
        return []

    def totals(self) -> list[str]:
        """Return a line for each item of its portal; all start with the portal's name."""
        return []


# The folder ``received/``: every document a receiver got, numbered, and a line of JSON for each request.  A journal
# that finds an older one continues its numbers: nothing received is ever overwritten. Received documents have names of
# users: only the user of the sandbox may read them.


class Journal:
    """``<directory>/index.jsonl`` and a folder for each target, e.g. ``sgas/NNNN.xml``, ``apel/NNNN.smime``."""

    def __init__(self, directory: str, targets: Iterable[str]) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._last: dict[str, int] = {}
        for target in targets:
            open_directory(os.path.join(directory, target), make=0o700).close()
            numbers = (name.partition(".")[0] for name in os.listdir(os.path.join(directory, target)))
            self._last[target] = max((int(number) for number in numbers if number.isdecimal()), default=0)

    def number(self, target: str) -> str:
        """The next number of this target, four digits or more."""
        with self._lock:
            self._last[target] += 1
            return f"{self._last[target]:04d}"

    def keep(self, target: str, name: str, content: bytes) -> str:
        """Write a received document; its name below the journal's directory."""
        with open_directory(os.path.join(self.directory, target)) as folder, open(folder.create(name), "wb") as file:
            file.write(content)
        return f"{target}/{name}"

    def note(self, delivery: Arrival, answer: int | None) -> None:
        """Add the line of one delivery; `answer` is the HTTP status the sender saw, None if it saw none."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "target": delivery.target,
            "records": delivery.records,
            "answer": answer,
            "file": delivery.file,
            "verdict": delivery.verdict,
        }
        index = os.path.join(self.directory, "index.jsonl")
        with self._lock, open(index, "a", encoding="utf-8", opener=private) as file:
            file.write(json.dumps(line) + "\n")


# Receivers that misbehave on request: refuse, answer late, do not answer, close the connection. Faults wait in a queue
# for each endpoint; a request uses the first that fits it. `containing` makes a fault follow a record (its id in the
# readable text of a request) instead of the next request.


class InjectedFault(NamedTuple):
    """A fault, and the requests that get it; `times`: how many more of them (None: every one that fits)."""

    answer: HTTPAnswer | None = None
    """Sent instead of the real answer; None: the real one, or none if `drop`."""
    drop: bool = False
    """Close the connection without an answer."""
    after_work: bool = False
    """
    Do the work first, as behind a balancer that times out: the receiver has data that the sender does not know of.
    """
    delay_s: float = 0.0
    containing: str = ""
    path: str = ""
    times: int | None = 1
    chance: Callable[[], bool] | None = None
    """Called for each request that fits: whether it gets the fault; None: every one does."""

    def fits(self, path: str, text: Callable[[], str]) -> bool:
        """Whether a request to this path with this readable text gets the fault."""
        fits = self.path in path and (not self.containing or self.containing in text())
        return fits and (self.chance is None or self.chance())


class Faults:
    """
    The queues of all endpoints; used from the servers' threads and from the test at once.

    The fields of `InjectedFault` select the requests that get the fault, and when.
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
        """Return how many faults of this endpoint are still unused."""
        with self._lock:
            return len(self._queues[endpoint])

    def clear(self) -> None:
        """Remove all faults, everywhere."""
        with self._lock:
            for queue in self._queues.values():
                queue.clear()

    def take(self, endpoint: str, path: str, text: Callable[[], str]) -> InjectedFault | None:
        """Return the first fault that fits this request, counted as used; None: there is none."""
        with self._lock:
            queue = self._queues[endpoint]
            for position, fault in enumerate(queue):
                if fault.fits(path, text):
                    if fault.times is not None:
                        left = fault._replace(times=fault.times - 1)
                        queue[position : position + 1] = [left] if fault.times > 1 else []
                    return fault
        return None


# A loopback HTTPS server: threads, keep-alive, client certificates, faults on order, a clean end.  A certificate of
# another authority, or a missing one that TLS demands, ends in a TLS alert. Whether a certificate is expired is *not*
# decided by TLS here: the receivers do it, since the real ones answer that in HTTP.


HANDSHAKE_S = 10.0
LARGEST_REQUEST = 16 * 1024 * 1024
"""Bytes of a body: more than any receiver takes. Every user of this machine can connect."""

_NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which the ssl module knows no name for."""


def server_context(credential: Credential, ca_file: str, receiver: Receiver) -> ssl.SSLContext:
    """
    TLS 1.2 or newer with this certificate; a client's certificate must come from `ca_file`, if it has one.

    If the receiver demands one and it is missing or bad, the handshake fails.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(credential.cert_path, credential.key_path)
    if receiver.wants_certificate:
        context.load_verify_locations(cafile=ca_file)
        # Optional for TLS: without one, nginx and authn answer 400 in HTTP.
        context.verify_mode = ssl.CERT_REQUIRED if receiver.demands_certificate else ssl.CERT_OPTIONAL
        if not receiver.demands_certificate:
            context.verify_flags = ssl.VerifyFlags(context.verify_flags | _NO_CHECK_TIME)
    return context


class Server:
    """A receiver on a port of the loopback address, from `start` to `stop`; counts its requests."""

    def __init__(
        self, receiver: Receiver, context: ssl.SSLContext | None, port: int, faults: Faults, journal: Journal
    ) -> None:
        """Without a ``context``: plain HTTP."""
        self.receiver = receiver
        self.faults = faults
        self.journal = journal
        self.stopping = threading.Event()
        self.connections = 0
        self.requests = 0
        self.refused_handshakes = 0
        self._count = threading.Lock()
        try:
            self._listener = _Listener(self, context, port)
        except PermissionError as error:
            raise ConfigError(f"port {port} is not ours to open ({error.strerror}): choose one above 1023") from error
        except OverflowError as error:
            raise ConfigError(f"port {port} does not exist: choose one from 1024 to 65535") from error
        except OSError as error:
            raise TargetBusy(
                f"port {port} of the loopback address: {error.strerror}; choose another, or stop what is using it"
            ) from error
        self.port: int = self._listener.server_address[1]
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.02,), name=receiver.endpoint)

    def start(self) -> None:
        """Start to answer requests, in threads of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port and every connection; returns when all threads have ended."""
        self.stopping.set()
        if self._thread.is_alive():
            self._listener.shutdown()
            self._thread.join()
        self._listener.hang_up()
        self._listener.server_close()

    def count(self, counter: str) -> None:
        """Add one to ``connections``, ``requests`` or ``refused_handshakes``."""
        with self._count:
            setattr(self, counter, getattr(self, counter) + 1)

    def respond(self, request: HTTPRequest) -> HTTPAnswer | None:
        """Return the answer to a request, including faults; None: close the connection without one."""
        fault = self.faults.take(self.receiver.endpoint, request.path, lambda: self.receiver.text(request))
        answer = self.receiver.answer(request) if fault is None else self._misbehave(fault, request)
        dropped = fault is not None and fault.drop
        if self.receiver.documents is not None and self.receiver.delivers(request):
            nothing = Arrival(self.receiver.documents, None, None, "not looked at")
            for delivery in answer.arrivals or (nothing,):
                self.journal.note(delivery, None if dropped else answer.status)
        return None if dropped else answer

    def _misbehave(self, fault: InjectedFault, request: HTTPRequest) -> HTTPAnswer:
        """The work (done or not), then the fault's answer in place of the real one, with the real arrivals."""
        if not fault.after_work:
            self.stopping.wait(fault.delay_s)
        keeps_quiet = not fault.after_work and (fault.drop or fault.answer is not None)
        worked = HTTPAnswer(0) if keeps_quiet else self.receiver.answer(request)
        if fault.after_work:
            self.stopping.wait(fault.delay_s)
        return worked if fault.answer is None else fault.answer._replace(arrivals=worked.arrivals)


class _Listener(ThreadingMixIn, TCPServer):
    """Accepts; the TLS handshake happens in the connection's own thread, so that a silent client blocks no other."""

    allow_reuse_address = True
    request_queue_size = 128
    daemon_threads = False

    def __init__(self, owner: Server, context: ssl.SSLContext | None, port: int) -> None:
        self.owner = owner
        self._context = context
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        if self._context is not None:
            connection = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._open.add(connection)
        return connection, address

    def finish_request(self, request: Any, client_address: Any) -> None:
        try:
            request.settimeout(HANDSHAKE_S)
            if self._context is not None:
                request.do_handshake()
            request.settimeout(None)
        except OSError:
            self.owner.count("refused_handshakes")
            _linger(request)
            return
        self.owner.count("connections")
        super().finish_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  socketserver's signature
        """A client that disconnected is no error of ours; anything else is a bug, and the thread raises it."""
        with contextlib.suppress(OSError):
            raise  # noqa: PLE0704  called from within socketserver's except clause

    def hang_up(self) -> None:
        """Close every open connection, so that threads that wait for a next request end."""
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _linger(connection: socket.socket) -> None:
    """Wait a moment for the client to read the TLS alert: closing at once would reset the connection before it."""
    with contextlib.suppress(OSError):
        connection.settimeout(1.0)
        socket.socket.shutdown(connection, socket.SHUT_WR)
        while socket.socket.recv(connection, 65536):
            pass


class _Handler(BaseHTTPRequestHandler):
    """Reads a request to its end, asks the server for the answer, writes it in one piece."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def setup(self) -> None:
        super().setup()
        self._peer: Peer | None = None
        if isinstance(self.request, ssl.SSLSocket) and (encoded := self.request.getpeercert(binary_form=True)):
            certificate = x509.load_der_x509_certificate(encoded)
            subject = certificate.subject
            names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            name = str(names[-1].value) if names else ""
            self._peer = Peer(slash_dn(subject), subject.rfc4514_string(), name, *validity(certificate))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's signature
        """Print nothing: the journal has all requests, and stderr stays clean."""

    def _serve(self) -> None:
        self.server.owner.count("requests")
        url = urlsplit(self.path)
        body = self._body()
        if isinstance(body, HTTPAnswer):
            self.close_connection = True
            self._write(body)
            return
        answer = self.server.owner.respond(
            HTTPRequest(
                self.command,
                url.path,
                dict(parse_qsl(url.query)),
                {name.lower(): value for name, value in self.headers.items()},
                body,
                self._peer,
            )
        )
        if answer is None:
            self.close_connection = True
        else:
            self._write(answer)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815  http.server's names

    def _body(self) -> bytes | HTTPAnswer:
        """Return the body, or the answer to an invalid or too large length; the rest is then not read."""
        is_chunked = self.headers.get("Transfer-Encoding", "").lower() == "chunked"
        parts, room = [], LARGEST_REQUEST
        while True:
            said = (
                self.rfile.readline(1024).partition(b";")[0]
                if is_chunked
                else self.headers.get("Content-Length") or "0"
            )
            try:
                size = int(said, 16 if is_chunked else 10)
            except ValueError:
                return HTTPAnswer(400)
            room -= size
            if room < 0 or size < 0:
                return HTTPAnswer(413 if room < 0 else 400)
            parts.append(self.rfile.read(size))
            if is_chunked:
                self.rfile.readline(1024)
            if not is_chunked or not size:
                return b"".join(parts)

    def _write(self, answer: HTTPAnswer) -> None:
        lines = [
            f"HTTP/1.1 {answer.status} {responses.get(answer.status, 'Unknown')}",
            "Server: arcacct-sandbox",
            f"Date: {self.date_time_string()}",
            f"Content-Type: {answer.content_type}",
            f"Content-Length: {len(answer.body)}",
            *(f"{name}: {value}" for name, value in answer.headers),
        ]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        self.wfile.write(head if self.command == "HEAD" else head + answer.body)
