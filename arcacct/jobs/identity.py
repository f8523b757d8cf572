"""Who ran a job and where: the parts of a record that every format derives in the same way."""

from __future__ import annotations

import re
from functools import lru_cache

from arcacct.jobs.aar import AAR
from arcacct.jobs.fqan import VOs, parsed_fqan

# domainNameType of both schemas: labels of two characters or more, so 127.0.0.1 is none and wn001.example.org is one.
_DOMAIN_NAME = re.compile(r"(?:[a-zA-Z0-9][a-zA-Z0-9'\-]*[a-zA-Z0-9]\.)*[a-zA-Z0-9][a-zA-Z0-9'\-]*[a-zA-Z0-9]")
_LONGEST_DOMAIN_NAME = 255

_NO_VALUE = {"", "none", "null"}


@lru_cache(maxsize=8192)
def is_domain_name(text: str) -> bool:
    """Whether the schemas of both record formats accept this as a host's name."""
    return len(text) <= _LONGEST_DOMAIN_NAME and _DOMAIN_NAME.fullmatch(text) is not None


@lru_cache(maxsize=8192)
def is_address(text: str) -> bool:
    """Whether this is an IPv4 or IPv6 address, without the zone of a local one, which may be any text."""
    from ipaddress import ip_address  # noqa: PLC0415  few hosts are asked about; most runs ask about none

    try:
        return "%" not in text and bool(ip_address(text))
    except ValueError:
        return False


@lru_cache(maxsize=1024)
def endpoint_host(url: str | None) -> str | None:
    """
    The host of a submission endpoint, in the letters of the URL, or None.

    It is part of recordId, which SGAS compares byte for byte with what jura-ng sent: no lower-casing here.
    """
    _, scheme, rest = (url or "").partition("://")
    if not scheme:
        return None
    authority = re.split("[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    if authority.startswith("["):
        return authority[1:].partition("]")[0] or None
    return authority.partition(":")[0] or None


def client_host_name(socket: str) -> str:
    """The host of ``host:port`` or ``[IPv6]:port``; a bare IPv6 address is left whole."""
    if socket[:1] == "[":
        return socket[1:].partition("]")[0]
    host, _, port = socket.partition(":")
    return socket if ":" in port else host


def machine_host(endpoint_url: str | None, host: str | None) -> str | None:
    """The machine a record speaks for: the endpoint's host, or the site's own name for jobs without an endpoint."""
    return endpoint_host(endpoint_url) or host


def job_record_id(aar: AAR, host: str | None) -> str:
    """``ur-HOST-JOBID``, as jura-ng writes it: SGAS knows a job again by it."""
    return f"ur-{machine_host(aar.endpoint_url, host) or ''}-{aar.job_id}"


def has_value(text: str | None) -> bool:
    """Whether APEL would store this text: ``none`` and ``null`` mean nothing there, in any case of letters."""
    return text is not None and text.strip().lower() not in _NO_VALUE


def start_time(aar: AAR, source: str) -> int:
    """
    When a job started: its submission, or with ``lrms`` its start in the batch system if that is known and plausible.

    Workers write LRMS times in local time with a false Z, so a start outside the job's life is not believed.
    """
    lrms = aar.lrms_start_time
    if source == "lrms" and lrms is not None and aar.submit_time <= lrms <= aar.end_time:
        return lrms
    return aar.submit_time


def vo_name(vo: str | None, main_fqan: str | None, auth_groups: tuple[str, ...], vomsless: VOs) -> str | None:
    """The VO of a job: its own, that of its attributes, or that of the site's rules for jobs without either."""
    if main_fqan:
        parsed = parsed_fqan(main_fqan)
        return vo or (None if parsed is None else parsed.vo)
    rule = vomsless.rule(vo, auth_groups)
    return vo if rule is None else rule.name
