"""
HTTP by `requests` and urllib3: the only module of the program, besides the sandbox, that opens a network connection.

`requests` limits single waits only. Here one limit covers the whole exchange, in time and in bytes: a receiver that
sends one byte a second, in a header, in endless "100 Continue" or in trailers, would otherwise block this process
permanently. The sockets apply it: each call that may wait (connect, handshake, send, receive) gets the remaining time
of the exchange, and every received byte counts. No thread and no signal interrupts anything. Only the resolver has its
own limits (resolv.conf), because getaddrinfo cannot be interrupted.

Requests are prepared and handed to the adapter. `requests.Session` is not used: it takes proxies, CA bundles and logins
from the environment and from .netrc, keeps cookies, and follows redirects.
"""

from __future__ import annotations

import http.client
import io
import re
import socket
import ssl
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple, TypeVar
from urllib.parse import urlsplit

import urllib3.exceptions
from requests import PreparedRequest
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from urllib3.connection import HTTPConnection, HTTPSConnection

import arcacct

LARGEST_RESPONSE = 4 * 1024 * 1024
"""Bytes of a body that are read, and unpacked."""
LARGEST_HEAD = 1024 * 1024
"""Bytes before the body of a response: its headers, every "100 Continue", what a proxy sends."""
_HEADERS = {"User-Agent": f"arcacct/{arcacct.__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}
_COMPRESSED = ("gzip", "x-gzip", "deflate")
"""Encodings that are undone, once, although we ask for the plain body: some load balancers compress anyway."""
_ZLIB_FORMATS = (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS)
"""With the header of gzip or zlib, and without one, as old servers understood "deflate"."""

_Result = TypeVar("_Result")


class DeadlineExceeded(TimeoutError):
    """The exchange took all of its time; the text names the limit."""


class ResponseTooLarge(OSError):
    """More bytes arrive than any response has."""


class NoConnection(TimeoutError):
    """The connection was not complete in time."""


class ProxyFails(OSError):
    """The proxy does not connect us: it answers ``status``, or the cause says why."""

    def __init__(self, status: int | None = None) -> None:
        super().__init__()
        self.status = status


class InvalidURL(ValueError):
    """A URL or header that cannot be sent."""


class CorruptBody(ValueError):
    """The body is compressed and damaged."""


class ExchangeFailed(Exception):
    """There is no response. The text gives the reason in our words: those of libraries may quote a proxy's password."""

    def __init__(self, causes: list[BaseException], *, request_started: bool) -> None:
        """``request_started``: whether a part of the request may have reached the receiver."""
        super().__init__(_reason(causes))
        self._causes = causes
        self.request_started = request_started

    def cause(self, kind: type[_Result]) -> _Result | None:
        """The first cause of a kind."""
        return next((cause for cause in self._causes if isinstance(cause, kind)), None)

    @property
    def is_invalid_url(self) -> bool:
        """Whether the URL, the proxy's URL or a header cannot be sent, so that no server was contacted."""
        return not self.request_started and self.cause(ValueError) is not None


class ExchangeLimits:
    """The limits of one exchange, in seconds and bytes. Each exchange starts with new ones."""

    def __init__(self) -> None:
        """Set no limit before the first exchange."""
        self._end = float("inf")
        self._text = ""
        self._room_bytes = LARGEST_HEAD
        self.request_started = False
        """Whether a part of the request may have reached the receiver."""

    def start(self, seconds: float, text: str) -> None:
        """Start an exchange that ends after ``seconds``; ``text`` names this limit."""
        self._end = time.monotonic() + seconds
        self._text = text
        self._room_bytes = LARGEST_HEAD
        self.request_started = False

    def expect(self, n_bytes: int) -> None:
        """Allow ``n_bytes`` more, after the head of the response."""
        self._room_bytes = n_bytes

    def wait_s(self, limit_s: float | None) -> float:
        """How long a wait with its own limit may be, seconds. Raises DeadlineExceeded."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded(self._text)
        return left if limit_s is None or left < limit_s else limit_s

    def count_received(self, n_bytes: int) -> None:
        """Count received bytes. Raises ResponseTooLarge."""
        self._room_bytes -= n_bytes
        if self._room_bytes < 0:
            raise ResponseTooLarge("more bytes arrived than any response has")


class TimedSocket(socket.socket):
    """A TCP socket within the limits of an exchange. Its own timeout still limits each wait."""

    limits: ClassVar[ExchangeLimits]
    _limit_s: float | None = None

    def settimeout(self, value: float | None) -> None:
        self._limit_s = value
        super().settimeout(value)

    def _within(self, call: Callable[..., _Result], *arguments: Any) -> _Result:
        super().settimeout(self.limits.wait_s(self._limit_s))
        try:
            return call(*arguments)
        except TimeoutError:
            # Raises DeadlineExceeded if the time of the exchange is over, and not that of this wait alone.
            self.limits.wait_s(None)
            raise

    def connect(self, address: Any) -> None:
        self._within(super().connect, address)

    def send(self, data: Any, flags: int = 0) -> int:
        return self._within(super().send, data, flags)

    def sendall(self, data: Any, flags: int = 0) -> None:
        self._within(super().sendall, data, flags)

    def recv(self, *arguments: Any) -> bytes:
        data = self._within(super().recv, *arguments)
        self.limits.count_received(len(data))
        return data

    def recv_into(self, *arguments: Any) -> int:
        count = self._within(super().recv_into, *arguments)
        self.limits.count_received(count)
        return count


class TimedTLSSocket(TimedSocket, ssl.SSLSocket):
    """The same with TLS: a call of OpenSSL is one wait, however many TLS records it reads or writes."""

    def do_handshake(self, block: bool = False) -> None:
        limit_s = self._limit_s
        self._within(super().do_handshake, block)
        # ssl sets the timeout that it found.
        self._limit_s = limit_s


class Response(NamedTuple):
    """A response; its body is cut at `LARGEST_RESPONSE` bytes."""

    status: int
    headers: Mapping[str, str]
    """Names in any case."""
    body: bytes


class HTTPClient:
    """Sends requests, each once, over one connection to each host. Used by one thread at a time."""

    def __init__(self, context: ssl.SSLContext | None, *, connect_s: float, read_s: float) -> None:
        """
        Connect to nothing yet. With a ``context`` use TLS only, without one plain HTTP only and no proxy.

        ``connect_s``: seconds for the connection and the TLS handshake; ``read_s``: for sending the body, and for each
        part of the response.
        """
        self._scheme = "http" if context is None else "https"
        self._limits = ExchangeLimits()
        self._read_s = read_s
        self._adapter = _Adapter(context, self._limits, connect_s)

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        limit_s: float,
        limit_text: str,
        proxy: str | None = None,
    ) -> Response:
        """
        Send a request and return the response, all within ``limit_s`` seconds; ``limit_text`` names this limit.

        Reads what a server answered before it hung up in the middle of a large body: 413, or a TLS alert. Raises
        ExchangeFailed.
        """
        outer = sys.exception()
        self._limits.start(limit_s, limit_text)
        try:
            request = prepare(method, url, headers, body)
            if not (request.url or "").startswith(f"{self._scheme}://"):
                # Nothing is sent in clear by accident.
                raise InvalidURL
            proxies = {} if proxy is None else {"https": proxy}
            with self._adapter.send(request, stream=True, timeout=self._read_s, proxies=proxies) as response:
                # Chunks and trailers are more than the body.
                self._limits.expect(2 * LARGEST_RESPONSE)
                content = _read(response.raw)
                # Of a header that comes twice the last one counts; `requests` joins them, two dates too.
                found = CaseInsensitiveDict(response.raw.headers.iteritems())
                if found.get("Content-Encoding", "").strip().lower() in _COMPRESSED:
                    content = _decompressed(content)
                return Response(response.status_code, found, content)
        # A chunk size above what Python's files take overflows.
        except (OSError, urllib3.exceptions.HTTPError, http.client.HTTPException, OverflowError, ValueError) as error:
            raise ExchangeFailed(_causes(error, outer), request_started=self._limits.request_started) from None

    def close(self) -> None:
        """Close the connections."""
        self._adapter.close()


def prepare(method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> PreparedRequest:
    """Build a request from the given values only: a login in the URL is ignored. Raises ValueError."""
    request = PreparedRequest()
    request.prepare_method(method)
    request.url = _prepared_url(url)
    request.prepare_headers({**_HEADERS, **headers})
    request.prepare_body(body, None)
    return request


@lru_cache(maxsize=64)
def _prepared_url(url: str) -> str:
    request = PreparedRequest()
    request.prepare_url(url, None)
    assert request.url is not None
    return request.url


def addresses(url: str) -> tuple[str, list[str]]:
    """The host of a URL and its addresses. Raises OSError when it has none, ValueError for an invalid URL."""
    parts = urlsplit(_prepared_url(url))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidURL
    found = socket.getaddrinfo(parts.hostname, parts.port or parts.scheme, type=socket.SOCK_STREAM)
    return parts.hostname, list(dict.fromkeys(str(address[0]) for *_kind, address in found))


def _read(raw: Any) -> bytes:
    """The body, not decoded. Read to its end, the connection can be used again."""
    content: bytes = raw.read(LARGEST_RESPONSE, decode_content=False)
    # urllib3 reports a body that is cut short in the read after its last byte.
    while len(content) < LARGEST_RESPONSE and (more := raw.read(LARGEST_RESPONSE - len(content), decode_content=False)):
        content += more
    return content


def _decompressed(body: bytes) -> bytes:
    """
    A compressed body, cut at `LARGEST_RESPONSE`. Raises CorruptBody when it is damaged or incomplete.

    Members of gzip after the first are ignored: zlib copies the rest for each, so many empty ones would take minutes.
    (urllib3's own decoding reads them all.)
    """
    for wbits in _ZLIB_FORMATS if body else ():
        decompressor = zlib.decompressobj(wbits)
        with suppress(zlib.error):
            content = decompressor.decompress(body, LARGEST_RESPONSE)
            if decompressor.eof or len(content) == LARGEST_RESPONSE:
                return content
    if body:
        raise CorruptBody
    return body


class _Adapter(HTTPAdapter):
    """Connections within the limits. The context alone decides who is trusted."""

    def __init__(self, context: ssl.SSLContext | None, limits: ExchangeLimits, connect_s: float) -> None:
        self._context = context
        make_socket = type("TimedSocket", (TimedSocket,), {"limits": limits})
        if context is not None:
            # ssl makes the TLS socket by this class.
            context.sslsocket_class = type("TimedTLSSocket", (TimedTLSSocket,), {"limits": limits})
            context.set_alpn_protocols(["http/1.1"])
        kind = _PlainConnection if context is None else _TLSConnection
        self._connection: Any = partial(kind, limits=limits, make_socket=make_socket, connect_s=connect_s)
        super().__init__(pool_maxsize=1)

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options, ssl_context=self._context)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        return super().proxy_manager_for(proxy, **options, ssl_context=self._context, proxy_ssl_context=self._context)

    def get_connection_with_tls_context(self, *arguments: Any, **options: Any) -> Any:
        pool = super().get_connection_with_tls_context(*arguments, **options)
        pool.ConnectionCls = self._connection
        return pool

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Do nothing: `requests` would add certifi's CAs, those of the web, to the ones that the context trusts."""


class _PlainConnection(HTTPConnection):
    """A connection whose every wait and every received byte is within the limits."""

    def __init__(
        self, *arguments: Any, limits: ExchangeLimits, make_socket: type[TimedSocket], connect_s: float, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._limits = limits
        self._make_socket = make_socket
        self._connect_s = connect_s
        self._is_ready = False

    def connect(self) -> None:
        self._is_ready = False
        super().connect()
        self._is_ready = True
        self.sock.settimeout(self.timeout)

    def _new_conn(self) -> socket.socket:
        try:
            return self._connected()
        except OSError as error:
            if self.proxy is not None:
                raise ProxyFails from error
            raise

    def _connected(self) -> TimedSocket:
        """Each of a name's addresses gets its share of the time that is left. Raises NoConnection, OSError."""
        found = socket.getaddrinfo(self._dns_host.strip("[]"), self.port, type=socket.SOCK_STREAM)
        problem: OSError = OSError(f"{self.host} has no address")
        for tried, (family, kind, protocol, _name, address) in enumerate(found):
            connecting = self._make_socket(family, kind, protocol)
            try:
                connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                share_s = self._limits.wait_s(None) / (len(found) - tried)
                connecting.settimeout(min(self._limits.wait_s(self._connect_s), share_s))
                connecting.connect(address)
                connecting.settimeout(self._connect_s)
            except OSError as error:
                connecting.close()
                problem = error
            else:
                return connecting
        if isinstance(problem, TimeoutError) and not isinstance(problem, DeadlineExceeded):
            raise NoConnection from problem
        raise problem

    def _tunnel(self) -> None:
        try:
            super()._tunnel()
        except (OSError, http.client.HTTPException) as error:
            refused = re.match(r"Tunnel connection failed: (\d+)", str(error))
            raise ProxyFails(int(refused[1]) if refused else None) from error

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        # A request to a proxy for a tunnel is sent while connecting.
        self._limits.request_started = self._is_ready
        try:
            super().send(data)
        except ssl.SSLEOFError as error:
            # After this error alone urllib3 reads what the server answered before the end of the body.
            raise BrokenPipeError from error

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open and silent: bytes after the last response would pass for the next one."""
        if self.sock is None:
            return False
        # poll does not see what OpenSSL has read already. `request` sets the timeout again.
        self.sock.settimeout(0)
        try:
            self.sock.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            pass
        return False

    class response_class(http.client.HTTPResponse):  # noqa: N801  as http.client calls it
        """
        Skips 102 and 103 as well; the standard library knows 100 only (RFC 9110, 15.2). Raises IncompleteRead when the
        connection ends before the empty line after the headers; the standard library takes that for the whole head.
        """

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._lines = self.fp = _LineReader(self.fp.detach())

        def begin(self) -> None:
            super().begin()
            while 101 < self.status < 200:
                self.headers = self.msg = None  # type: ignore[assignment]  # as before the first status line
                super().begin()
            if self._lines.last not in (b"\r\n", b"\n"):
                raise http.client.IncompleteRead(self._lines.last)


class _LineReader(io.BufferedReader):
    """Keeps the last line in ``last``."""

    last = b""

    def readline(self, size: int | None = -1) -> bytes:
        self.last = super().readline(size)
        return self.last


class _TLSConnection(_PlainConnection, HTTPSConnection):
    """The same with TLS, straight or in a proxy's tunnel."""


def _causes(error: BaseException, outer: BaseException | None) -> list[BaseException]:
    """
    An error and what it was raised for, except ``outer``, which was handled before the request.

    urllib3 keeps the error of ssl among the arguments of its own.
    """
    found = [error]
    for cause in found:
        context = None if cause.__suppress_context__ else cause.__context__
        found += [
            one
            for one in (cause.__cause__, context, *cause.args)
            if isinstance(one, BaseException) and one is not outer and one not in found
        ]
    return found


_REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (NoConnection, "no connection within the time limit"),
    (TimeoutError, "no answer within the time limit"),
    (http.client.IncompleteRead, "the answer is incomplete"),
    (socket.gaierror, "the host name cannot be resolved"),
    (http.client.RemoteDisconnected, "the connection was closed without an answer"),
    (CorruptBody, "the answer cannot be decoded"),
    (http.client.HTTPException, "the answer is not HTTP"),
    (OverflowError, "the answer is not HTTP"),
    (ValueError, "the answer is not HTTP"),
)


def _reason(causes: list[BaseException]) -> str:
    limit = next((cause for cause in causes if isinstance(cause, DeadlineExceeded | ResponseTooLarge)), None)
    if limit is not None:
        return str(limit)
    tls = next((cause for cause in causes if isinstance(cause, ssl.SSLError)), None)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return f"the certificate cannot be verified ({tls.verify_message})"
    if tls is not None:
        return f"TLS failed ({(tls.reason or 'closed too early').replace('_', ' ').lower()})"
    for kind, text in _REASONS:
        if any(isinstance(cause, kind) for cause in causes):
            return text
    texts = [cause.strerror for cause in causes if isinstance(cause, OSError) and isinstance(cause.strerror, str)]
    return texts[-1].lower() if texts else "the connection failed"
