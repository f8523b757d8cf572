"""Questions to a receiver that change nothing there: is it there, is it who it says, does it know us?"""

from __future__ import annotations

import email.utils
import socket
import time
from collections.abc import Mapping
from typing import NamedTuple

from arcacct.config.options import TransportOptions
from arcacct.publishing.answers import Answer
from arcacct.publishing.connection import InvalidURL, endpoint_of
from arcacct.publishing.session import Judge, Request, TimeoutPolicy, transport_to

_LONGEST_DATE = 100


class ConnectivityCheck(NamedTuple):
    """One question, a GET without a body; of a kind of target (`plug.TargetPlugin.connectivity_checks`)."""

    what: str
    """What it asks for, as a word for people: ``server``, ``token``, ..."""
    url: str
    judge: Judge
    """What an answer means: ACCEPTED, or why not. What it notes of a secret it hides (`secrecy.keep`)."""
    shows: str
    """What is known after a good answer, and what is not."""


class CheckResult(NamedTuple):
    """What came of it."""

    answer: Answer
    ahead_s: int | None
    """How far this host's clock is ahead of the receiver's (its Date header), seconds; ``None``: it did not say."""


def ask(transport: TransportOptions, probe: ConnectivityCheck, limit_s: float) -> CheckResult:
    """
    Put one question, once, over the connection that messages would take; done after ``limit_s`` at the latest.

    (But for the resolver, which nobody can interrupt.) Raises CredentialError and ConfigError as `transport_to`.
    """
    apart: list[int] = []

    def judge(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        for name, value in headers.items():
            if name.lower() == "date" and (date_s := _seconds(value[:_LONGEST_DATE])) is not None:
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
    return CheckResult(answer, apart[-1] if apart else None)


def addresses(transport: TransportOptions, url: str) -> tuple[str, list[str]]:
    """
    The host that is connected to, a proxy's if there is one, and its addresses.

    Raises OSError when it has none, ValueError for what is no URL.
    """
    try:
        place, _path = endpoint_of(transport.proxy or url, ("http", "https"))
    except InvalidURL:
        raise ValueError("no URL that can be connected to") from None
    found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    return place.host, list(dict.fromkeys(str(address[0]) for *_how, address in found))


def _seconds(date: str) -> int | None:
    try:
        return int(email.utils.parsedate_to_datetime(date).timestamp())
    except (TypeError, ValueError, OverflowError, LookupError):
        # Python's parser lets numbers through that no date has.
        return None
