"""Targets of SGAS: a block [arex/jura/sgas:NAME]."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from arcacct.config import options, values
from arcacct.config.options import Spec, Target, TargetKind, TransportOptions, choice, flag, messages, plain
from arcacct.secrecy import without_login


@dataclass(frozen=True, slots=True, kw_only=True)
class SGASTarget(Target):
    """Usage records posted to SGAS."""

    transport_options: TransportOptions
    url: str = field()  # Without field() the property of `Target` would be its default.
    """The URL for records: ``https://HOST[:PORT]/PATH/ur``."""
    memory_type: str
    sgas_vo_style: str
    sgas_host_style: str
    sgas_corrections: str
    local_jobs: tuple[values.LocalJobs, ...]

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Options that would be ignored silently."""
        for line in self.local_jobs:
            if line.infrastructure:
                text = f"usage records have no infrastructure; remove infrastructure={line.infrastructure}"
                yield "local_jobs", text


def _insert_url(value: str) -> str:
    """
    The URL that usage records are posted to.

    As ARC makes it: slashes at the end go, ``/ur`` is appended unless it is there.
    A URL without a path gets SGAS's own, ``/sgas/ur`` (jura-ng stops at such a URL).
    """
    url = values.https_url(value)
    folder = url.path.rstrip("/") or "/sgas"
    return f"https://{values.address_of(url).netloc}{folder if folder.endswith('/ur') else folder + '/ur'}"


def _pathless(value: str) -> str | None:
    if not value.startswith("https://") or "/" in value[8:].rstrip("/"):
        return None
    return f"has no path, so /sgas/ur is used; write it out, as {without_login(value).rstrip('/')}/sgas"


KIND = TargetKind(
    "arex/jura/sgas",
    "sgas",
    (
        Spec("targeturl", "url", _insert_url, required=True, is_url=True, advice=_pathless),
        plain("localid_prefix", str),
        *messages("500", "0"),
        *options.SELECTION,
        choice("memory_type", "shared", "shared", "virtual"),
        choice("sgas_vo_style", "arc", "arc", "doc"),
        choice("sgas_host_style", "multi", "multi", "joined"),
        choice("sgas_corrections", "hold", "hold", "replace"),
        options.LOCAL_JOBS,
        *options.TRANSPORT,
        flag("ca_system"),
    ),
    SGASTarget,
    obsolete=("legacy_fallback",),
)
