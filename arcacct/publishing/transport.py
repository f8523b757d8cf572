"""
A session with a receiver over `http_client`: time limits, retries, the meaning of each answer and failure, and checks
that change nothing.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from arcacct import secrecy
from arcacct.config.options import TransportOptions
from arcacct.config.values import NoProxy, proxy_for
from arcacct.http_client import ExchangeFailed, HTTPClient, ProxyFails
from arcacct.publishing.answers import Answer, Outcome, RunDeadline, header_time
from arcacct.tls import tls_context

Judge = Callable[[int, Mapping[str, str], bytes], Answer]


class TimeoutPolicy(NamedTuple):
    """
    Time limits in seconds: for a connection, for each part of an answer, and before each further try.

    `exchange_s` limits one request with its answer; ``None``: the sum of the limits for connecting, sending and
    answering. If Retry-After exceeds `longest_wait_s`, the next run asks again: asking earlier does not help.
    """

    connect_s: float = 10.0
    read_s: float = 60.0
    exchange_s: float | None = None
    backoff_s: tuple[float, ...] = (1.0, 5.0)
    longest_wait_s: float = 60.0


def transport_to(
    options: TransportOptions, timeouts: TimeoutPolicy | None = None, *, in_clear: bool = False
) -> Transport:
    """
    Return a session with a receiver, as configured in a target's block.

    ``timeouts`` override the configured ones. ``in_clear``: no TLS. Raises CredentialError for an unusable certificate
    or key, ConfigError for unusable CAs.
    """
    context = None
    if not in_clear:
        context = tls_context(
            options.x509_host_cert,
            options.x509_host_key,
            ca_dir=options.x509_cert_dir,
            ca_file=options.ca_file,
            system_store=options.ca_system,
        )
    waits = timeouts or TimeoutPolicy(options.connect_timeout_s, options.timeout_s, options.exchange_timeout_s)
    return Transport(context, proxy=options.proxy, no_proxy=options.no_proxy, timeouts=waits)


class Request(NamedTuple):
    """One HTTP request that can be repeated byte for byte. Its headers may contain secrets: never print one."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None


class Transport:
    """The connections to one target. No other object uses its TLS context, and only one thread at a time uses it."""

    def __init__(
        self,
        context: ssl.SSLContext | None,
        *,
        proxy: str | None = None,
        no_proxy: NoProxy | None = None,
        timeouts: TimeoutPolicy | None = None,
    ) -> None:
        """
        Store the arguments; do not connect yet.

        Without a ``context`` the target is reached in clear text, with it only by TLS.
        """
        self._timeouts = TimeoutPolicy() if timeouts is None else timeouts
        self._deadline = RunDeadline()
        if proxy is not None:
            secrecy.keep_login(proxy)
        self._proxy, self._no_proxy = proxy, no_proxy
        self._client = HTTPClient(context, connect_s=self._timeouts.connect_s, read_s=self._timeouts.read_s)

    def set_deadline(self, deadline: RunDeadline) -> None:
        """Start nothing and wait for nothing after the deadline of this run."""
        self._deadline = deadline

    def request(self, request: Request, judge: Judge) -> Answer:
        """
        Send a request until `judge` returns a final answer, and return that.

        TRY_LATER is tried again after each wait of `TimeoutPolicy.backoff_s`, or after Retry-After. Refused records are
        tried again once, immediately (a 500 of SGAS can be a passing problem of its database). Network failures become
        answers here. In an answer that is not accepted, `outcome_known` covers all the tries.
        """
        known, waits = True, iter(self._timeouts.backoff_s)
        refusals = 0
        over = self._deadline.expired_reason()
        if over is not None:
            return Answer(Outcome.TRY_LATER, text=over)
        while True:
            answer = self._once(request, judge)
            known = known and answer.outcome_known
            refusals += answer.kind == Outcome.RECORDS_REFUSED
            again = refusals == 1 and answer.kind == Outcome.RECORDS_REFUSED
            wait_s = 0.0 if again else self._wait_s(answer, waits)
            if wait_s:
                self._deadline.sleep(wait_s)
            if wait_s is None or self._deadline.expired_reason() is not None:
                return answer if answer.kind == Outcome.ACCEPTED else answer._replace(outcome_known=known)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _wait_s(self, answer: Answer, waits: Iterator[float]) -> float | None:
        """Return the seconds until the next try; None if there is none."""
        planned = next(waits, None) if answer.kind == Outcome.TRY_LATER else None
        if planned is None:
            return None
        wait_s = max(planned, answer.retry_after_s or 0)
        return wait_s if wait_s <= min(self._timeouts.longest_wait_s, self._deadline.left_s()) else None

    def _once(self, request: Request, judge: Judge) -> Answer:
        waits, left_s = self._timeouts, self._deadline.left_s()
        limit_s = waits.connect_s + 2 * waits.read_s if waits.exchange_s is None else waits.exchange_s
        limit_text = f"no complete answer within {limit_s:g} s (exchange_timeout)"
        is_short = left_s < limit_s
        if is_short:
            limit_s, limit_text = left_s, "no complete answer before the end of this run (run_timeout)"
        try:
            status, headers, body = self._client.send(
                *request,
                limit_s=limit_s,
                limit_text=limit_text,
                proxy=proxy_for(request.url, self._proxy, self._no_proxy),
            )
        except ExchangeFailed as failure:
            where = re.sub(r"^\w+://(?:[^/@]*@)?|[/?#].*$", "", request.url)
            # A GET changes nothing at the receiver.
            answer = _meaning(f"{where}: ", failure, may_be_done=failure.request_started and request.method != "GET")
            late = failure.request_started and failure.cause(TimeoutError) is not None
            return answer._replace(timed_out=late and not is_short)
        return judge(status, headers, body)


def _meaning(where: str, failure: ExchangeFailed, *, may_be_done: bool) -> Answer:
    """Return the meaning of an exchange without a response; ``may_be_done``: the receiver may have done the work."""
    tls = failure.cause(ssl.SSLError)
    if tls is not None:
        return _tls_meaning(where, tls, may_be_done=may_be_done)
    proxy = failure.cause(ProxyFails)
    if proxy is not None:
        if proxy.status is not None and 400 <= proxy.status < 500 and proxy.status not in {408, 429}:
            return _stopped(f"{where}the proxy rejects the connection (HTTP {proxy.status}); check http_proxy")
        why = f"HTTP {proxy.status}" if proxy.status is not None else failure
        return Answer(Outcome.TRY_LATER, text=f"{where}the proxy cannot connect us ({why})")
    if may_be_done:
        text = f"{where}{failure}; the receiver may have processed it"
        return Answer(Outcome.TRY_LATER, text=text, outcome_known=False)
    if failure.is_invalid_url:
        return _stopped(f"{where}this URL, or that of the proxy, cannot be used; check targeturl and http_proxy")
    return Answer(Outcome.TRY_LATER, text=f"{where}{failure}")


def _stopped(text: str, *, about_credentials: bool = False) -> Answer:
    return Answer(Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, text=text, about_credentials=about_credentials)


_OTHER_NAME = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""


def _tls_meaning(where: str, cause: ssl.SSLError, *, may_be_done: bool) -> Answer:
    """Return the meaning of a TLS error. Alerts come from the target; with TLS 1.3 they come with the first answer."""
    what = cause.reason or ""
    words = (cause.reason or "closed too early").replace("_", " ").lower()
    if isinstance(cause, ssl.SSLCertVerificationError):
        if cause.verify_code in _OTHER_NAME:
            return _stopped(
                f"{where}its certificate does not have this name among its subject alternative names (a common"
                " name alone does not count): check targeturl, or ask the target's administrator for a certificate with"
                " this name"
            )
        return _stopped(
            f"{where}its certificate cannot be verified ({cause.verify_message}); check targeturl and x509_cert_dir,"
            " and the CAs in it"
        )
    if "ALERT" in what and re.search("CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED|HANDSHAKE_FAILURE|DECRYPT", what):
        text = f"{where}our certificate is rejected ({words}); check x509_host_cert: its expiry, its CA"
        return _stopped(text, about_credentials=True)
    if re.search("VERSION|PROTOCOL|HTTP_REQUEST|HTTPS_PROXY|INSUFFICIENT_SECURITY|TOO_SMALL|CIPHER", what):
        return _stopped(f"{where}no common TLS version or cipher ({words}); check the port in targeturl")
    return Answer(Outcome.TRY_LATER, text=f"{where}TLS failed ({words})", outcome_known=not may_be_done)


# Checks that change nothing at a receiver: is it reachable, is it the right one, does it accept us?


class ConnectivityCheck(NamedTuple):
    """One check: a GET without a body, defined by a kind of target (`plug.TargetPlugin.connectivity_checks`)."""

    what: str
    """The subject of the check, as a word for people: ``server``, ``token``, ..."""
    url: str
    judge: Judge
    """Returns the meaning of an answer: ACCEPTED, or the problem. It hides secrets that it finds (`secrecy.keep`)."""
    shows: str
    """The conclusion after a good answer, and what remains unknown."""


def ask(transport: TransportOptions, probe: ConnectivityCheck, limit_s: float) -> tuple[Answer, int | None]:
    """
    Do one check, once, over the connection that messages would take. It ends after ``limit_s`` seconds at the latest.

    Returns the answer, and how many seconds this host's clock is ahead of the receiver's (its Date header); ``None``:
    unknown. Only name resolution can take longer: it cannot be interrupted. Raises CredentialError and ConfigError as
    `transport_to`.
    """
    apart: list[int] = []

    def judge(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        if (date_s := header_time(headers, "Date")) is not None:
            apart.append(int(time.time()) - date_s)
        return probe.judge(status, headers, body)

    timeouts = TimeoutPolicy(
        min(transport.connect_timeout_s, limit_s), min(transport.timeout_s, limit_s), limit_s, backoff_s=()
    )
    session = transport_to(transport, timeouts, in_clear=probe.url.startswith("http://"))
    try:
        answer = session.request(Request("GET", probe.url, {}), judge)
    finally:
        session.close()
    return answer, apart[-1] if apart else None
