"""One connection to a receiver, straight or through a proxy, whose every wait ends with the exchange that it serves."""

from __future__ import annotations

import base64
import http.client
import re
import select
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlsplit

# Sockets whose every wait ends with the exchange that they serve.
#
# The timeout of a socket limits single waits only, so a receiver that says one byte a second keeps us for ever: in the
# handshake, in a header, in endless "100 Continue", chunk extensions or trailers. Here each call that may wait
# (connect, handshake, send, receive) is given what is left of the whole exchange, and what arrives is counted. Nothing
# has to be interrupted: no thread and no signal that could hit the next exchange of a connection that is kept. Only the
# resolver waits by rules of its own (resolv.conf): nobody can interrupt getaddrinfo.


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


# One connection to a receiver that carries one request after the other, straight or through a proxy.
#
# `http.client` reads the answers; what is sent is written here, at once with its head. Every wait and every byte counts
# (`sockets`). Nothing of the environment has a say, nothing is followed, kept or added: no proxy variables, no .netrc,
# no cookies, no redirects.


LARGEST_ANSWER = 4 * 1024 * 1024
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[A-Za-z0-9._:-]+")
_AS_IT_IS = "/%!#$&'()*+,:;=?@[]~"
"""What stands in a URL for itself, or was quoted by whoever wrote it."""
_SMALL = 32 * 1024
"""A body up to here is copied behind its head: cheaper than to send twice."""


class InvalidURL(ValueError):
    """No URL that we could go to."""


class NoConnection(TimeoutError):
    """Nobody was there in time."""


class ProxyFails(OSError):
    """The proxy does not connect us; its cause says why where it gave no ``status``."""

    def __init__(self, status: int | None = None) -> None:
        super().__init__()
        self.status = status


class Endpoint(NamedTuple):
    """Where a URL leads."""

    scheme: str
    host: str
    """In ASCII, without the brackets of IPv6."""
    port: int

    @property
    def name(self) -> str:
        """As the Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


class Response(NamedTuple):
    """An answer as it came, its body as far as answers may go."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@lru_cache(maxsize=64)
def endpoint_of(url: str, schemes: tuple[str, ...]) -> tuple[Endpoint, str]:
    """Where a URL leads, and what is asked for there. Raises Unusable."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode("ascii")
        port = parts.port or _PORTS[parts.scheme]
    except (KeyError, ValueError):
        # Without the reason, which quotes what may be a password.
        raise InvalidURL from None
    if parts.scheme not in schemes or not _HOST.fullmatch(host):
        raise InvalidURL
    path = quote(parts.path or "/", safe=_AS_IT_IS)
    return Endpoint(parts.scheme, host, port), f"{path}?{quote(parts.query, safe=_AS_IT_IS)}" if parts.query else path


class Proxy:
    """The way through an HTTP proxy, with its password if it wants one."""

    def __init__(self, url: str) -> None:
        """Raise Unusable."""
        self.place, _path = endpoint_of(url, ("http", "https"))
        parts = urlsplit(url)
        self._login = ""
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            try:
                self._login = base64.b64encode(login.encode("latin-1")).decode("ascii")
            except UnicodeEncodeError:
                raise InvalidURL from None

    def lead(self, connected: socket.socket, there: Endpoint) -> None:
        """Have it connect us. Raises ProxyFails with its status, OSError and HTTPException."""
        name = there.name if there.name.endswith(f":{there.port}") else f"{there.name}:{there.port}"
        login = f"Proxy-Authorization: Basic {self._login}\r\n" if self._login else ""
        connected.sendall(f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n{login}\r\n".encode("ascii"))
        answer = _Answer(connected, method="CONNECT")
        answer.begin()
        answer.close()
        if answer.status != 200:
            raise ProxyFails(answer.status)


class Connection:
    """To one place. Opened when it is needed, and again once it has broken."""

    def __init__(
        self,
        place: Endpoint,
        make: type[TimedSocket],
        context: ssl.SSLContext | None,
        *,
        connect_s: float,
        read_s: float,
        proxy: Proxy | None = None,
    ) -> None:
        """``make``: the class of its sockets, with the budget; ``read_s`` also limits how long a body is sent."""
        self._place = place
        self._make = make
        self._budget = make.budget
        self._context = context
        self._connect_s = connect_s
        self._read_s = read_s
        self._proxy = proxy
        self._socket: Any = None
        """A socket, or what urllib3 makes of one for TLS within TLS."""

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        """
        Send a request and read its answer, without another try.

        Hears what a server said before it hung up in the middle of a large body: 413, or a TLS alert. Nothing that was
        said before a request is an answer to it.

        Raises Unusable before anything is sent; OSError, ssl's errors among them, HTTPException, and ValueError and
        OverflowError for what is no HTTP.
        """
        fields = [f"{method} {path} HTTP/1.1", f"Host: {self._place.name}"]
        fields += [f"{name}: {value}" for name, value in headers.items()]
        if method != "GET":
            fields.append(f"Content-Length: {len(body or b'')}")
        text = "".join(fields)
        if not (text.isascii() and text.isprintable()):
            raise InvalidURL
        head = "\r\n".join([*fields, "", ""]).encode("ascii")
        if self._socket is None or not _is_quiet(self._socket):
            self.close()
            self._socket = self._opened()
        is_whole = False
        try:
            is_sent = self._sent(head, body or b"")
            reply, stays_open = self._received(method)
            is_whole = is_sent and stays_open
        finally:
            if not is_whole:
                self.close()
        return reply

    def close(self) -> None:
        """Let go of it."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _sent(self, head: bytes, body: bytes) -> bool:
        """Whether all went out; what did not may have been answered before the end."""
        self._budget.request_started = True
        try:
            if len(body) <= _SMALL:
                self._socket.sendall(head + body)
            else:
                self._socket.sendall(head)
                self._socket.sendall(body)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            return False
        return True

    def _received(self, method: str) -> tuple[Response, bool]:
        """The answer, and whether another may follow."""
        answer = _Answer(self._socket, method=method)
        try:
            answer.begin()
            lengths = ",".join(answer.headers.get_all("Content-Length", ())).split(",")
            if len(set(map(str.strip, lengths))) > 1:
                raise http.client.HTTPException("of two lengths")
            # Some more for chunks and trailers.
            self._budget.expect(2 * LARGEST_ANSWER)
            # Bounded: whoever answers may not be who we think. Read to its end, the connection can be used again.
            body = answer.read(LARGEST_ANSWER)
            if answer.length and len(body) < LARGEST_ANSWER:
                raise http.client.IncompleteRead(b"")
            is_read = answer.isclosed() and not answer.will_close
            return Response(answer.status, dict(answer.headers.items()), body), is_read
        finally:
            answer.close()

    def _opened(self) -> Any:
        """A socket through which the receiver alone is spoken to, with TLS if there is any."""
        way: Any = None
        try:
            way = self._connected(self._place) if self._proxy is None else self._led(self._proxy)
            if self._context is not None:
                way = self._secured(way, self._context)
            way.settimeout(self._read_s)
        except BaseException:
            if way is not None:
                way.close()
            raise
        return way

    def _led(self, proxy: Proxy) -> Any:
        way: Any = None
        try:
            way = self._connected(proxy.place)
            if proxy.place.scheme == "https":
                assert self._context is not None
                way = self._context.wrap_socket(way, server_hostname=proxy.place.host.rstrip("."))
            proxy.lead(way, self._place)
        except BaseException as exc:
            if way is not None:
                way.close()
            if isinstance(exc, ssl.SSLError | ProxyFails) or not isinstance(exc, OSError | http.client.HTTPException):
                raise
            raise ProxyFails from exc
        return way

    def _secured(self, way: Any, context: ssl.SSLContext) -> Any:
        name = self._place.host.rstrip(".")
        if isinstance(way, ssl.SSLSocket):
            # TLS within that of a proxy: rare, and slow to import.
            from urllib3.util.ssltransport import SSLTransport  # noqa: PLC0415

            return SSLTransport(way, context, server_hostname=name)
        return context.wrap_socket(way, server_hostname=name)

    def _connected(self, place: Endpoint) -> TimedSocket:
        """Each of a name's addresses gets its part of what time is left. Raises NoConnection."""
        found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
        problem: OSError = OSError(f"{place.host} has no address")
        for tried, (family, kind, protocol, _name, address) in enumerate(found):
            connecting = self._make(family, kind, protocol)
            try:
                connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                its_part_s = self._budget.wait_s(None) / (len(found) - tried)
                connecting.settimeout(min(self._budget.wait_s(self._connect_s), its_part_s))
                connecting.connect(address)
                connecting.settimeout(self._connect_s)
            except OSError as exc:
                connecting.close()
                problem = exc
            else:
                return connecting
        if isinstance(problem, TimeoutError) and not isinstance(problem, DeadlineExceeded):
            raise NoConnection from problem
        raise problem


class _Answer(http.client.HTTPResponse):
    """Passes over what comes before the answer, whatever it is: the standard library knows of 100 only."""

    def begin(self) -> None:
        super().begin()
        while 101 < self.status < 200:
            self.headers = self.msg = None  # type: ignore[assignment]  # as before the beginning
            super().begin()


def _is_quiet(connected: Any) -> bool:
    """Whether nothing has come that nobody asked for, nor the end of the connection."""
    # What OpenSSL has taken from the socket, and nobody from OpenSSL: no look at the socket shows it.
    if isinstance(connected, ssl.SSLSocket):
        unread = connected.pending()
    elif isinstance(connected, TimedSocket):
        unread = 0
    else:
        unread = connected.incoming.pending + connected.sslobj.pending()
    looking = select.poll()
    looking.register(connected, select.POLLIN)
    return not unread and not looking.poll(0)
