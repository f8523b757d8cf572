"""
Features from a web server: with a short time limit, cached as the server allows, without redirects to other hosts.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin, urlsplit

from arcacct.errors import InputError

if TYPE_CHECKING:
    from arcacct.http_client import HTTPClient, Response

TIMEOUT_S = 5.0
LARGEST_VALUE = 4096
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?(\d{1,9})", re.IGNORECASE)


class _Kept(NamedTuple):
    """An answer in the cache."""

    value: str | None
    lifetime_s: float
    fresh_until: float
    etag: str | None


class Web:
    """
    A client for web servers. ``ca_dir`` has the grid's certificate authorities, which are trusted as well as the
    system's.
    """

    def __init__(
        self, ca_dir: str | None = None, *, timeout_s: float = TIMEOUT_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Create the client. It does not connect yet."""
        self._ca_dir = ca_dir
        self._timeout_s = timeout_s
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._clients: dict[str, HTTPClient] = {}

    def get(self, url: str) -> str | None:
        """
        Return the value at a URL, ``None`` when the server has none.

        Raises InputError when there is no answer in time, or when the answer is not a value.
        """
        kept = self._kept.get(url)
        if kept is not None and self._clock() < kept.fresh_until:
            return kept.value
        headers = {"If-None-Match": kept.etag} if kept is not None and kept.etag is not None else {}
        answer = self.request(url, headers=headers)
        lifetime = freshness_s(answer.headers)
        if answer.status == 304 and kept is not None:
            # A header that is not repeated keeps its old value (RFC 9111 section 4.3.4).
            value, lifetime = kept.value, lifetime or kept.lifetime_s
        elif answer.status == 200:
            try:
                value = value_of(answer.body)
            except ValueError as error:
                raise InputError(f"{url}: {error}") from error
        elif answer.status in (404, 410):
            value = None
        else:
            raise InputError(f"{url}: the server answers {answer.status}")
        self._kept[url] = _Kept(value, lifetime, self._clock() + lifetime, answer.headers.get("ETag"))
        return value

    def request(self, url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None) -> Response:
        """
        Send a request without a body, and follow redirects on the same host.

        Raises InputError when there is no response in time, or on a redirect to another host, which no provider named.
        """
        here = url
        for _ in range(_MOST_REDIRECTS):
            response = self._once(method, here, headers or {})
            if response.status not in _REDIRECTS or not response.headers.get("Location"):
                return response
            there = urljoin(here, response.headers["Location"])
            if urlsplit(there)[:2] != urlsplit(here)[:2]:
                raise InputError(f"{url}: redirects to another host ({urlsplit(there).netloc}); not followed")
            here = there
        raise InputError(f"{url}: more than {_MOST_REDIRECTS} redirects")

    def _once(self, method: str, url: str, headers: Mapping[str, str]) -> Response:
        from arcacct.http_client import ExchangeFailed  # noqa: PLC0415  HTTP is slow to import

        text = f"no complete answer within {self._timeout_s:g} s"
        try:
            client = self._client(urlsplit(url).scheme)
            return client.send(method, url, headers, limit_s=self._timeout_s, limit_text=text)
        except ExchangeFailed as failure:
            raise InputError(f"{url}: no answer: {failure}") from failure

    def _client(self, scheme: str) -> HTTPClient:
        if scheme not in self._clients:
            from arcacct.http_client import HTTPClient  # noqa: PLC0415  HTTP is slow to import

            context = None
            if scheme == "https":
                from arcacct.tls import tls_context  # noqa: PLC0415  plain HTTP needs none of it

                context = tls_context(None, None, ca_dir=self._ca_dir, system_store=True)
            # No proxy is used: the server is at the worker's own site.
            self._clients[scheme] = HTTPClient(context, connect_s=self._timeout_s, read_s=self._timeout_s)
        return self._clients[scheme]


def freshness_s(headers: Mapping[str, str]) -> float:
    """
    Return for how many seconds an answer may be used without a new request: from Cache-Control, else from Expires.
    """
    control = headers.get("Cache-Control", "")
    if "no-store" in control or "no-cache" in control:
        return 0.0
    match = _MAX_AGE.search(control)
    if match is not None:
        return float(match[1])
    import email.utils  # noqa: PLC0415  slow to import, for one header

    expires = headers.get("Expires")
    if expires is None or email.utils.parsedate_tz(expires) is None:
        return 0.0
    return max(0.0, email.utils.parsedate_to_datetime(expires).timestamp() - time.time())


def value_of(content: bytes) -> str:
    """
    Return a value without blanks and newlines around it, as jobs read it: PanDA's pilot and DIRAC strip them.

    Raises ValueError when it is not ASCII, or too long for a value.
    """
    if len(content) > LARGEST_VALUE:
        raise ValueError("too long")
    try:
        return content.decode("ascii").strip()
    except UnicodeDecodeError:
        raise ValueError("not ASCII") from None
