"""
Features from a web server: with a short time limit, cached as the server allows, without redirects to other hosts.
"""

from __future__ import annotations

import email.utils
import http.client
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from typing import IO, NamedTuple
from urllib.parse import urlsplit

from arcacct.errors import InputError
from arcacct.sources.features.reader import LARGEST_VALUE, value_of

TIMEOUT_S = 5.0
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?(\d{1,9})", re.IGNORECASE)


class _Kept(NamedTuple):
    """An answer that may be used again."""

    value: str | None
    lifetime_s: float
    fresh_until: float
    etag: str | None


class Reply(NamedTuple):
    """What a server said to one request."""

    status: int
    headers: Message
    body: bytes


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Redirects on the same host only: another one was never named by the provider."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        here, there = urlsplit(req.full_url), urlsplit(newurl)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise InputError(f"{req.full_url}: leads to another host ({there.netloc}); not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class Web:
    """The way to web servers; ``ca_dir`` are the grid's authorities, trusted beside those of the system."""

    def __init__(
        self, ca_dir: str | None = None, *, timeout_s: float = TIMEOUT_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Connect to nothing yet."""
        self._ca_dir = ca_dir
        self._timeout_s = timeout_s
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._openers: dict[str, urllib.request.OpenerDirector] = {}

    def get(self, url: str) -> str | None:
        """
        The value at a URL, ``None`` when the server has none.

        Raises InputError when there is no answer in time or one that is no value.
        """
        kept = self._kept.get(url)
        if kept is not None and self._clock() < kept.fresh_until:
            return kept.value
        headers = {"If-None-Match": kept.etag} if kept is not None and kept.etag is not None else {}
        answer = self.request(url, headers=headers)
        lifetime = freshness_s(answer.headers)
        if answer.status == 304 and kept is not None:
            # What it does not say again holds as before (RFC 9111 section 4.3.4).
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

    def request(self, url: str, *, method: str = "GET", headers: dict[str, str] | None = None) -> Reply:
        """One request. Raises InputError when there is no answer in time."""
        request = urllib.request.Request(url, method=method, headers=headers or {})  # noqa: S310  the caller's URL is checked
        try:
            with self._opener(url).open(request, timeout=self._timeout_s) as response:
                return Reply(response.status, response.headers, response.read(LARGEST_VALUE + 1))
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, error.headers, error.read(LARGEST_VALUE + 1))
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise InputError(f"{url}: no answer: {reason}") from error

    def _opener(self, url: str) -> urllib.request.OpenerDirector:
        scheme = urlsplit(url).scheme
        if scheme not in self._openers:
            # No proxy variables: a worker's own server is meant.
            handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), _SameHost()]
            if scheme == "https":
                from arcacct.tls import tls_context  # noqa: PLC0415  plain HTTP needs none of it

                context = tls_context(None, None, ca_dir=self._ca_dir, system_store=True)
                handlers.append(urllib.request.HTTPSHandler(context=context))
            self._openers[scheme] = urllib.request.build_opener(*handlers)
        return self._openers[scheme]


def freshness_s(headers: Message) -> float:
    """How long an answer may be used without asking again: Cache-Control first, then Expires."""
    control = headers.get("Cache-Control", "")
    if "no-store" in control or "no-cache" in control:
        return 0.0
    match = _MAX_AGE.search(control)
    if match is not None:
        return float(match[1])
    expires = headers.get("Expires")
    if expires is None or email.utils.parsedate_tz(expires) is None:
        return 0.0
    return max(0.0, email.utils.parsedate_to_datetime(expires).timestamp() - time.time())
