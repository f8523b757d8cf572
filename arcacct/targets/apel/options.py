"""Targets of APEL: a block [arex/jura/apel:NAME], and the options of every target with APEL's messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from arcacct.config import options, values
from arcacct.config.options import Spec, Target, TargetKind, TransportOptions, choice, flag, messages, plain
from arcacct.config.values import Address, LocalJobs
from arcacct.secrecy import without_login

JOB_MESSAGES = ("urs", "individual", "individual-v04")
"""The families of messages with one record for each job: APEL keeps all three under the same key."""

SPECIFIED = {"individual": "individual", "summaries": "summaries-v03", "summaries-v03": "summaries-v03"}
"""
Kinds that the message format's document describes: its summaries are v0.3
(and in hours), whatever jura-ng sends.
"""

_AMS_NAME = re.compile(r"[a-zA-Z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class APELContent(Target):
    """The content of messages to APEL, for any transport."""

    gocdb_name: str
    apel_messages: str
    apel_dialect: str
    local_jobs: tuple[LocalJobs, ...]

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Options for which the document of the message format has no form."""
        if self.apel_dialect != "seed":
            return
        if self.apel_messages not in SPECIFIED:
            good = " or ".join(SPECIFIED)
            text = f"seed has no form for apel_messages={self.apel_messages}; write server, or apel_messages={good}"
            yield "apel_dialect", text
        for line in self.local_jobs:
            if line.infrastructure:
                name = line.infrastructure
                text = f"messages of apel_dialect=seed have no infrastructure; remove infrastructure={name}"
                yield "local_jobs", text

    def doubles(self, other: Any) -> str | None:
        """
        APEL keeps job records and each kind of summary apart and adds them up.

        Two families count each job twice, and so do job records under two prefixes. The same family twice has no
        effect: each record replaces itself.
        """
        families = {self.apel_messages, other.apel_messages}
        if families <= {*JOB_MESSAGES}:
            if self.localid_prefix == other.localid_prefix:
                return None
            return "with another localid_prefix, and APEL would count every job twice"
        if len(families) == 1:
            return None
        return f"with other messages ({' and '.join(sorted(families))}), and APEL would count every job twice"


@dataclass(frozen=True, slots=True, kw_only=True)
class APELTarget(APELContent):
    """Signed messages to APEL by the ARGO Messaging Service."""

    transport_options: TransportOptions
    address: Address
    authn_port: int
    topic: str
    project: str

    @property
    def url(self) -> str:
        """The URL to which messages are published."""
        return f"https://{self.address.netloc}/v1/projects/{self.project}/topics/{self.topic}:publish"

    @property
    def authn_url(self) -> str:
        """The URL of the token: its path has the registered host, without a port."""
        authn = self.address.at(self.authn_port).netloc
        return f"https://{authn}/v1/service-types/ams/hosts/{self.address.host}:authx509"

    @property
    def receiver(self) -> tuple[object, ...]:
        """The same topic may serve several sites."""
        return (self.url, self.gocdb_name.casefold())

    def check_credentials(self) -> None:
        """Check by TLS, and by a signature as in messages."""
        from arcacct.targets.apel.ams import signing_pair  # noqa: PLC0415  cryptography is slow to import

        signing_pair(self.transport_options.x509_host_cert, self.transport_options.x509_host_key)


def _line_of_ascii(value: str) -> str:
    """Printable ASCII, blanks included."""
    if not value.isascii() or not value.isprintable():
        raise ValueError(f"{value!r} has characters other than ASCII; APEL's receiver cannot read them")
    return value


def _dialect(value: str) -> str:
    """``server``: the service delivers to APEL, which misreads or refuses any other form of its messages."""
    if value == "seed":
        raise ValueError("'seed' is only for [arcacct/directory] targets, APEL rejects it; write server")
    return values.one_of("server")(value)


def _ams_name(value: str) -> str:
    """A project or topic; AMS answers 400 to any other character."""
    if not _AMS_NAME.fullmatch(value):
        raise ValueError(f"{value!r} is not a name for AMS; write letters, digits, - and _ only")
    return value


def _ams_address(value: str) -> Address:
    """The host and port of an AMS service; the paths are ours to add."""
    url = values.https_url(value)
    if url.path.strip("/"):
        raise ValueError(f"{without_login(value)!r} has a path; write https://HOST or https://HOST:PORT alone")
    return values.address_of(url)


CONTENT = (
    plain("gocdb_name", _line_of_ascii, required=True, about="the site's name in GOCDB", metavar="SITE"),
    choice(
        "apel_messages",
        "summaries",
        *(*JOB_MESSAGES, "summaries", "summaries-v03", "summaries-v04", "normalised-v04"),
        about="the kind of messages",
        metavar="KIND",
    ),
    plain("localid_prefix", values.word, about="put before LocalJobId", metavar="TEXT"),
    options.LOCAL_JOBS,
)
"""Of every target with APEL's messages, and then the dialect, which a service has no choice of."""
PACE = (*messages("500", "86000"), *options.SELECTION)
"""... and then these."""

KIND = TargetKind(
    "arex/jura/apel",
    "apel",
    (
        Spec("targeturl", "address", _ams_address, required=True, is_url=True),
        plain("topic", _ams_name, "gLite-APEL", about="the topic", metavar="TOPIC"),
        plain("project", _ams_name, "accounting", about="the project", metavar="PROJECT"),
        plain("authn_port", values.port, "8443"),
        *CONTENT,
        plain("apel_dialect", _dialect, "server", words=("server",)),
        *PACE,
        *options.TRANSPORT,
        flag("ca_system", "yes"),
    ),
    APELTarget,
    obsolete=("use_ssl", "benchmark_type", "benchmark_value", "benchmark_description", "legacy_fallback"),
)
