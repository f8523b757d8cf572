"""
One connection to a target: TLS as grids do it, time limits always, a few patient tries, one judge of each answer.

Every exchange has a total of time and bytes (`sockets`), every run of a target a time of its own (`clock`).

Nothing of the environment has a say: no proxy variables, no REQUESTS_CA_BUNDLE, no .netrc. The TLS context is made
once for a target and one keep-alive connection carries all its messages (2.8 ms CPU against 0.5 ms a message).
"""

from __future__ import annotations

import errno
import http.client
import http.cookiejar
import os
import re
import socket
import ssl
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import requests
import requests.adapters
import urllib3.connection
import urllib3.connectionpool
import urllib3.exceptions
from urllib3.util.ssltransport import SSLTransport

import arcacct
from arcacct import secrecy
from arcacct.conf.targets import Transport
from arcacct.publishing.answers import Answer, Kind
from arcacct.publishing.clock import Clock
from arcacct.publishing.sockets import Budget, OutOfTime, TimedSocket, TooMuch, timed_sockets
from arcacct.tls import tls_context

Judge = Callable[[int, Mapping[str, str], bytes], Answer]

LARGEST_ANSWER = 4 * 1024 * 1024
_PACKED = ("gzip", "x-gzip", "deflate")
"""What an answer may be packed in, once, although we ask for it as it is: some balancers never listen."""
_ZLIB_FORMS = (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS)
"""With the header of gzip or zlib, and without one, as old servers understood "deflate"."""


class Patience(NamedTuple):
    """
    How long we wait: for a connection, for each part of an answer, and before each further try (seconds).

    `exchange_s` is for all of one request and its answer; ``None``: as long as connecting, sending and answering may
    take by the other limits. A Retry-After above `longest_wait_s` is left to the next run: asking earlier than told
    helps nobody.
    """

    connect_s: float = 10.0
    read_s: float = 60.0
    exchange_s: float | None = None
    backoff_s: tuple[float, ...] = (1.0, 5.0)
    longest_wait_s: float = 60.0

    @property
    def total_s(self) -> float:
        """Of one request and its answer."""
        return self.connect_s + 2 * self.read_s if self.exchange_s is None else self.exchange_s


def session_to(transport: Transport, patience: Patience | None = None, *, in_clear: bool = False) -> TargetSession:
    """
    A session with a receiver as a target's block says; ``patience`` overrides its waits, ``in_clear``: without TLS.

    Raises CredentialError for a certificate or key that cannot be used, ConfigError for CAs that cannot.
    """
    context = None
    if not in_clear:
        context = tls_context(
            transport.x509_host_cert,
            transport.x509_host_key,
            ca_dir=transport.x509_cert_dir,
            ca_file=transport.ca_file,
            system_store=transport.ca_system,
        )
    waits = patience or Patience(transport.connect_timeout_s, transport.timeout_s, transport.exchange_timeout_s)
    return TargetSession(context, proxy=transport.proxy, patience=waits)


class Request(NamedTuple):
    """One HTTP request, ready to be sent again byte for byte. Its headers may hold secrets: never print one."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None


class TargetSession:
    """The way to one target, and the only one that uses its context. Used by one thread at a time."""

    def __init__(
        self,
        context: ssl.SSLContext | None,
        *,
        proxy: str | None = None,
        patience: Patience | None = None,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        """
        Connect to nothing yet. ``sleep`` takes the place of the waits between tries.

        Without a ``context`` the target is reached in clear, with it by nothing but TLS.
        """
        self._patience = Patience() if patience is None else patience
        self._sleep = sleep
        self._clock = Clock()
        self._budget = Budget()
        self._http = _Session()
        self._http.trust_env = False
        plain, secured = timed_sockets(self._budget)
        # Nothing travels in clear that was not meant to.
        self._http.adapters.clear()
        adapter = _Adapter(context, plain, self._patience.read_s)
        self._http.mount("http://" if context is None else "https://", adapter)
        if context is not None:
            context.sslsocket_class = secured
        self._http.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
        self._http.headers.clear()
        self._http.headers.update(
            {"User-Agent": f"arcacct/{arcacct.__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}
        )
        if proxy is not None and context is not None:
            secrecy.keep_login(proxy)
            self._http.proxies = {"https": proxy}

    def heed(self, clock: Clock) -> None:
        """From now on nothing begins, or is waited for, once the time of this run is over."""
        self._clock = clock

    def exchange(self, request: Request, judge: Judge) -> Answer:
        """
        Send a request until `judge` finds an answer to keep, and return that.

        "Try later" is tried again after each wait of `Patience.backoff_s` or as long as Retry-After says, refused
        records once, at once (SGAS's 500 can be its database's mood). Network failures become answers here.
        In an answer that is not accepted, `outcome_known` speaks for all the tries.
        """
        known, waits = True, iter(self._patience.backoff_s)
        refusals = 0
        over = self._clock.over()
        if over is not None:
            return Answer(Kind.TRY_LATER, text=over)
        while True:
            answer = self._once(request, judge)
            known = known and answer.outcome_known
            refusals += answer.kind == Kind.RECORDS_REFUSED
            again = refusals == 1 and answer.kind == Kind.RECORDS_REFUSED
            wait_s = 0.0 if again else self._wait_s(answer, waits)
            if wait_s:
                (self._sleep or self._clock.rest)(wait_s)
            if wait_s is None or self._clock.over() is not None:
                return answer if answer.kind == Kind.ACCEPTED else answer._replace(outcome_known=known)

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def _wait_s(self, answer: Answer, waits: Iterator[float]) -> float | None:
        """Seconds until the next try, None if there is none."""
        planned = next(waits, None) if answer.kind == Kind.TRY_LATER else None
        if planned is None:
            return None
        wait_s = max(planned, answer.retry_after_s or 0)
        return wait_s if wait_s <= min(self._patience.longest_wait_s, self._clock.left_s()) else None

    def _once(self, request: Request, judge: Judge) -> Answer:
        total_s, left_s = self._patience.total_s, self._clock.left_s()
        if left_s < total_s:
            self._budget.begin(left_s, "no whole answer before the time of this run was over (run_timeout)")
        else:
            self._budget.begin(total_s, f"no whole answer within {total_s:g} s (exchange_timeout)")
        try:
            with self._http.request(
                request.method,
                request.url,
                data=request.body,
                headers=request.headers,
                timeout=(self._patience.connect_s, self._patience.read_s),
                allow_redirects=False,
                stream=True,
            ) as response:
                # Bounded: whoever answers may not be who we think. Read to its end, the connection can be used again.
                response.raw.headers.discard("Content-Encoding")
                body = response.raw.read(LARGEST_ANSWER, decode_content=True)
                if response.headers.get("Content-Encoding", "").strip().lower() in _PACKED:
                    body = _unpacked(body)
        except _OF_THE_WIRE as exc:
            where = re.sub(r"^\w+://(?:[^/@]*@)?|[/?#].*$", "", request.url)
            # Asking for something changes nothing there.
            asked = self._budget.asked and request.method != "GET"
            return _meaning(f"{where}: ", [*_causes(exc)], asked=asked)
        return judge(response.status_code, response.headers, body)


def _unpacked(body: bytes) -> bytes:
    """
    What was packed, as far as answers may go. Raises DecodeError when it is damaged or has no end.

    Nothing behind its end is looked at: urllib3 goes on there, and copies what is left for each of many parts.
    """
    for form in _ZLIB_FORMS if body else ():
        unpacking = zlib.decompressobj(form)
        with suppress(zlib.error):
            found = unpacking.decompress(body, LARGEST_ANSWER)
            if unpacking.eof or len(found) == LARGEST_ANSWER:
                return found
    if body:
        raise urllib3.exceptions.DecodeError("not packed as it says")
    return body


_OF_THE_WIRE = (
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    http.client.HTTPException,
    OSError,
    # A chunk of more bytes than there are numbers for, and whatever else no library foresees in what is no HTTP.
    OverflowError,
    ValueError,
)
"""What requests, urllib3 and ssl raise."""


class _Response(http.client.HTTPResponse):
    """Passes over what comes before the answer, whatever it is: the standard library knows of 100 only."""

    def begin(self) -> None:
        super().begin()
        while 101 < self.status < 200:
            self.headers = self.msg = None  # type: ignore[assignment]  # as before the beginning
            super().begin()


class _Connection(urllib3.connection.HTTPConnection):
    """
    Lives by the budget of an exchange; with TLS as `_TLSConnection`.

    Hears what a server said before it hung up in the middle of a large body: 413, or a TLS alert. Nothing that was
    said before a request is an answer to it.
    """

    response_class = _Response

    def __init__(self, *args: Any, make: type[TimedSocket], read_s: float, **kwargs: Any) -> None:
        """``make``: the class of its sockets, with the budget; ``read_s`` also limits how long a body is sent."""
        super().__init__(*args, **kwargs)
        self._make = make
        self._budget = make.budget
        self._read_s = read_s

    def _new_conn(self) -> socket.socket:
        """As urllib3's own, but for the sockets: each of a name's addresses gets its part of what time is left."""
        host = self._dns_host.strip("[]")
        try:
            host.encode("idna")
            found = socket.getaddrinfo(host, self.port, type=socket.SOCK_STREAM)
        except UnicodeError:
            raise urllib3.exceptions.LocationParseError(host) from None
        except socket.gaierror as exc:
            raise urllib3.exceptions.NameResolutionError(self.host, self, exc) from exc
        problem: OSError = OSError(f"{host} has no address")
        for tried, (family, kind, protocol, _name, address) in enumerate(found):
            connecting = self._make(family, kind, protocol)
            try:
                for option in self.socket_options or ():
                    connecting.setsockopt(*option)
                its_part_s = self._budget.wait_s(None) / (len(found) - tried)
                connecting.settimeout(min(self._budget.wait_s(self.timeout), its_part_s))
                connecting.connect(address)
                connecting.settimeout(self.timeout)
            except OSError as exc:
                connecting.close()
                problem = exc
            else:
                return connecting
        if isinstance(problem, TimeoutError):
            raise urllib3.exceptions.ConnectTimeoutError(self, str(problem)) from problem
        raise urllib3.exceptions.NewConnectionError(self, str(problem)) from problem

    def request(self, *args: Any, **kwargs: Any) -> None:
        self._budget.asked = True
        # urllib3 would give a body as long as a connection may take.
        self.timeout = self._read_s
        super().request(*args, **kwargs)

    @property
    def is_connected(self) -> bool:
        return super().is_connected and not _unread(self.sock)

    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]  # so in urllib3
        response = super().getresponse()
        # Some more for chunks and trailers.
        self._budget.expect(2 * LARGEST_ANSWER)
        return response

    def send(self, data: Any) -> None:
        try:
            super().send(data)
        except ssl.SSLEOFError as exc:
            # urllib3 goes on to the answer after a broken pipe, but knows it only by its plain TCP form.
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from exc


def _unread(connected: object) -> int:
    """Bytes that OpenSSL has taken from a socket, and nobody from OpenSSL: no look at the socket shows them."""
    if isinstance(connected, SSLTransport):
        # TLS within the TLS of a proxy.
        return connected.incoming.pending + connected.sslobj.pending()
    return connected.pending() if isinstance(connected, ssl.SSLSocket) else 0


class _TLSConnection(_Connection, urllib3.connection.HTTPSConnection):
    pass


class _Pool(urllib3.connectionpool.HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(urllib3.connectionpool.HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


class _Adapter(requests.adapters.HTTPAdapter):
    """Connections with our TLS context instead of one made by requests for each pool, and nothing but TLS or none."""

    def __init__(self, context: ssl.SSLContext | None, make: type[TimedSocket], read_s: float) -> None:
        self._context = context
        scheme, pool = ("http", _Pool) if context is None else ("https", _TLSPool)
        self._pools = {scheme: partial(pool, make=make, read_s=read_s)}
        super().__init__(pool_connections=4, pool_maxsize=1, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, ssl_context=self._context, **kwargs)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        contexts = {"ssl_context": self._context, "proxy_ssl_context": self._context}
        manager = super().proxy_manager_for(proxy, **contexts, **kwargs)
        manager.pool_classes_by_scheme = self._pools
        return manager

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Leave the context as it is: requests would add the CAs of its own bundle to those we trust."""


class _Session(requests.Session):
    """Follows nothing, and so reads nothing of the way there: requests would take in the whole body, unpacked."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:  # noqa: ARG002  requests' signature
        return None


def _causes(exc: BaseException) -> Iterator[BaseException]:
    """An exception and all that it wraps: urllib3 and requests keep the reason in four different places."""
    waiting: list[BaseException] = [exc]
    seen: list[BaseException] = []
    while waiting:
        current = waiting.pop(0)
        if any(current is other for other in seen):
            continue
        seen.append(current)
        yield current
        inside = (getattr(current, "reason", None), getattr(current, "original_error", None), *current.args)
        waiting += [part for part in (*inside, current.__cause__) if isinstance(part, BaseException)]


def _meaning(where: str, causes: list[BaseException], *, asked: bool) -> Answer:
    """
    What an exchange came to that failed, in words of our own: those of others may quote a proxy's password.

    ``asked``: whether anything of the request may have reached the target.
    """
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return _tls_meaning(where, cause, asked=asked)
    if any(isinstance(cause, urllib3.exceptions.ProxyError) for cause in causes):
        refused = re.search(r"Tunnel connection failed: ([0-9]{3})", " ".join(str(cause) for cause in causes))
        if refused and refused[1].startswith("4") and refused[1] not in {"408", "429"}:
            return _stopped(f"{where}the proxy refuses to connect us (HTTP {refused[1]}); check http_proxy")
        why = f"HTTP {refused[1]}" if refused else _reason(causes)
        return Answer(Kind.TRY_LATER, text=f"{where}the proxy cannot connect us ({why})")
    if asked:
        text = f"{where}{_reason(causes)}; the work may have been done"
        return Answer(Kind.TRY_LATER, text=text, outcome_known=False)
    if any(isinstance(cause, _NOT_ASKED) for cause in causes):
        return _stopped(f"{where}this URL, or that of the proxy, cannot be used; check targeturl and http_proxy")
    return Answer(Kind.TRY_LATER, text=f"{where}{_reason(causes)}")


def _stopped(text: str, *, about_credentials: bool = False) -> Answer:
    return Answer(Kind.WE_ARE_REFUSED, text=text, about_credentials=about_credentials)


_NOT_ASKED = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
    requests.exceptions.InvalidHeader,
    urllib3.exceptions.LocationValueError,
)


_OTHER_NAME = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""


def _tls_meaning(where: str, cause: ssl.SSLError, *, asked: bool) -> Answer:
    """Alerts are the target's word on us; with TLS 1.3 they arrive with the first answer, after the handshake."""
    what = cause.reason or ""
    words = (cause.reason or "closed in the middle").replace("_", " ").lower()
    if isinstance(cause, ssl.SSLCertVerificationError):
        if cause.verify_code in _OTHER_NAME:
            return _stopped(
                f"{where}its certificate is not for this name, which has to stand among its subject alternative names"
                " (a common name alone does not count): check targeturl, or ask the target's administrator for such a"
                " one"
            )
        return _stopped(
            f"{where}its certificate cannot be verified ({cause.verify_message}); check targeturl and x509_cert_dir,"
            " and the CAs in it"
        )
    if "ALERT" in what and re.search("CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED|HANDSHAKE_FAILURE|DECRYPT", what):
        text = f"{where}our certificate is refused ({words}); check x509_host_cert: its end, its CA"
        return _stopped(text, about_credentials=True)
    if re.search("VERSION|PROTOCOL|HTTP_REQUEST|HTTPS_PROXY|INSUFFICIENT_SECURITY|TOO_SMALL|CIPHER", what):
        return _stopped(f"{where}no common TLS ({words}); check the port in targeturl")
    return Answer(Kind.TRY_LATER, text=f"{where}TLS broke off ({words})", outcome_known=not asked)


_REASONS: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((urllib3.exceptions.ReadTimeoutError, TimeoutError), "no answer within the time limit"),
    ((http.client.IncompleteRead, urllib3.exceptions.IncompleteRead), "the answer was cut short"),
    ((socket.gaierror,), "the host name cannot be resolved"),
    ((http.client.RemoteDisconnected,), "the connection was closed without an answer"),
    ((urllib3.exceptions.DecodeError,), "the answer cannot be unpacked"),
    ((http.client.HTTPException, urllib3.exceptions.InvalidHeader, OverflowError, ValueError), "the answer is no HTTP"),
)


def _reason(causes: list[BaseException]) -> str:
    """The innermost known reason in plain words; never a foreign exception's own text, which may quote URLs."""
    ours = next((cause for cause in causes if isinstance(cause, OutOfTime | TooMuch)), None)
    if ours is not None:
        return str(ours)
    if any(type(cause) is urllib3.exceptions.ConnectTimeoutError for cause in causes):
        return "no connection within the time limit"
    for kinds, words in _REASONS:
        if any(isinstance(cause, kinds) for cause in causes):
            return words
    strerrors = [cause.strerror for cause in causes if isinstance(cause, OSError) and isinstance(cause.strerror, str)]
    return strerrors[-1].lower() if strerrors else "the connection failed"
