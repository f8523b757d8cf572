"""
Every option that arcacct reads: its block, its default, how its text becomes a value.

The names and defaults of ARC's options are ARC's (arc.conf.reference); etc/arcacct.conf.reference
describes each one, and a test keeps both in step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from arcacct.conf import places, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SGAS = "arex/jura/sgas"
APEL = "arex/jura/apel"
DIRECTORY = "arcacct/directory"
TARGET_KINDS = {SGAS: "sgas", APEL: "apel", DIRECTORY: "directory"}
"""The kind of block of a target, and what the kind is called on the command line."""

JOB_MESSAGES = ("urs", "individual", "individual-v04")
"""The families of messages with one record a job: APEL keeps all three under the same key."""
APEL_MESSAGES = (*JOB_MESSAGES, "summaries", "summaries-v03", "summaries-v04", "normalised-v04")


class Spec(NamedTuple):
    """One option of one kind of block."""

    name: str
    field: str
    """The name of its value, with the unit where it has one."""
    read: Callable[[str], Any]
    default: str | None = None
    """As text; ``None``: not set."""
    words: tuple[str, ...] = ()
    """The allowed values, where they can be counted."""
    repeated: bool = False
    required: bool = False
    inherits: tuple[str, ...] = ()
    """Blocks that are asked for the same option when this block does not set it."""
    may_be_empty: bool = False
    """Whether lines without a value mean nothing at all, in place of the default."""


def _plain(name: str, read: Callable[[str], Any], default: str | None = None, **more: Any) -> Spec:
    return Spec(name, name, read, default, **more)


def _choice(name: str, default: str, *words: str) -> Spec:
    return Spec(name, name, values.one_of(*words), default, words)


def _flag(name: str, default: str = "no") -> Spec:
    return Spec(name, name, values.yes_no, default, ("yes", "no"))


COMMON = (
    _plain("hostname", values.host, "$EXEC{hostname -f}"),
    _plain("http_proxy", values.proxy),
    _plain("x509_host_key", values.path, "/etc/grid-security/hostkey.pem"),
    _plain("x509_host_cert", values.path, "/etc/grid-security/hostcert.pem"),
    _plain("x509_cert_dir", values.path, "/etc/grid-security/certificates"),
)
_X509 = tuple(spec._replace(inherits=("common",)) for spec in COMMON[2:])
_VO = (_plain("vomsless_vo", values.vomsless_vo, repeated=True), _plain("vo_group", values.text, repeated=True))
JURA = (*_X509, *_VO)

ARCACCT = (
    _plain("database", values.path),
    _flag("arex_writes_no_accounting"),
    _plain("read_group", values.word),
    _plain("rehearsal", values.path),
    _plain("spool_fallback", values.path),
    Spec("deadline", "deadline_s", values.seconds, "5"),
    _flag("allow_jura"),
    Spec("keep_messages", "keep_messages_days", values.whole, "90"),
    Spec("settle", "settle_s", values.whole, "0"),
    _plain("lrms_host", values.host),
    _plain("local_group_prefix", values.word),
    _plain("vo_claim", values.vo_claim, repeated=True),
    _plain("map", values.map_rule, repeated=True),
    _plain("node_benchmark", values.node_benchmark, repeated=True),
)

_SELECTION = (
    _plain("vofilter", values.vo, repeated=True),
    Spec("settle", "settle_s", values.whole, "0", inherits=("arcacct",)),
    *(spec._replace(inherits=("arex/jura",)) for spec in _VO),
)
_START_TIME = _choice("start_time_source", "submit", "submit", "lrms")
_TRANSPORT = (
    *(spec._replace(inherits=("arex/jura", "common")) for spec in _X509),
    _plain("ca_file", values.path),
    Spec("connect_timeout", "connect_timeout_s", values.seconds, "10"),
    Spec("timeout", "timeout_s", values.seconds, "60"),
    Spec("exchange_timeout", "exchange_timeout_s", values.seconds),
    Spec("run_timeout", "run_timeout_s", values.many_seconds, "3600"),
)
_APEL_CONTENT = (
    _plain("gocdb_name", values.line_of_ascii, required=True),
    _choice("apel_messages", "summaries", *APEL_MESSAGES),
    _plain("localid_prefix", values.word),
)

SGAS_TARGET = (
    _plain("targeturl", values.sgas_url, required=True),
    _plain("localid_prefix", values.text),
    _plain("urbatchsize", values.batch, "50"),
    Spec("urdelivery_frequency", "urdelivery_frequency_s", values.whole, "0"),
    *_SELECTION,
    _START_TIME,
    _choice("memory_type", "shared", "shared", "virtual"),
    _choice("sgas_vo_style", "arc", "arc", "doc"),
    _choice("sgas_host_style", "multi", "multi", "joined"),
    _choice("sgas_corrections", "hold", "hold", "replace"),
    *_TRANSPORT,
    _flag("ca_system"),
)
APEL_TARGET = (
    _plain("targeturl", values.ams_address, required=True),
    _plain("topic", values.ams_name, "gLite-APEL"),
    _plain("project", values.ams_name, "accounting"),
    _plain("authn_port", values.port, "8443"),
    *_APEL_CONTENT,
    _plain("apel_dialect", values.ams_dialect, "server", words=("server",)),
    _plain("urbatchsize", values.batch, "500"),
    Spec("urdelivery_frequency", "urdelivery_frequency_s", values.whole, "86000"),
    *_SELECTION,
    _START_TIME,
    *_TRANSPORT,
    _flag("ca_system", "yes"),
)
DIRECTORY_TARGET = (
    _plain("path", values.path, required=True),
    _choice("layout", "dirq", "dirq", "directory"),
    *_APEL_CONTENT,
    _choice("apel_dialect", "server", "server", "seed"),
    _plain("urbatchsize", values.batch, "500"),
    Spec("urdelivery_frequency", "urdelivery_frequency_s", values.whole, "86000"),
    *_SELECTION,
    _START_TIME,
)

OPTIONS: dict[str, tuple[Spec, ...]] = {
    "common": COMMON,
    "arex": (
        _plain("controldir", values.path, places.CONTROLDIR),
        _plain("authtokenmap", values.claim_names, places.CLAIM_NAMES, repeated=True, may_be_empty=True),
    ),
    "lrms": (_plain("benchmark", values.benchmark, places.BENCHMARK),),
    "queue": (_plain("benchmark", values.benchmark, repeated=True),),
    "arex/jura": JURA,
    "arcacct": ARCACCT,
    SGAS: SGAS_TARGET,
    APEL: APEL_TARGET,
    DIRECTORY: DIRECTORY_TARGET,
}
"""The options of each kind of block. Of ARC's own blocks only those that arcacct reads."""

ARC_ONLY = {"arex/jura": ("logfile", "loglevel", "urdelivery_frequency")}
"""Options of ARC that are right where they stand and mean nothing to us."""
OBSOLETE = {
    "arex/jura": ("urdelivery_keepfailed",),
    APEL: ("use_ssl", "benchmark_type", "benchmark_value", "benchmark_description", "legacy_fallback"),
    SGAS: ("legacy_fallback",),
}
"""Options that ARC 6.8 dropped."""
ARC_BLOCKS = (
    "common", "authgroup", "mapping", "authtokens", "lrms", "lrms/ssh", "arex", "arex/cache", "arex/cache/cleaner",
    "arex/data-staging", "arex/ws", "arex/ws/jobs", "arex/ws/publicinfo", "arex/ws/cache", "arex/ws/candypond",
    "arex/jura", "arex/jura/sgas", "arex/jura/apel", "arex/jura/archiving", "arex/ganglia", "gridftpd",
    "gridftpd/jobs", "gridftpd/filedir", "infosys", "infosys/ldap", "infosys/nordugrid", "infosys/glue1",
    "infosys/glue1/site-bdii", "infosys/glue2", "infosys/glue2/ldap", "infosys/cluster", "infosys/accesscontrol",
    "queue", "datadelivery-service", "acix-scanner", "acix-index", "userlist", "nordugridmap", "monitor", "custom",
)  # fmt: skip
"""Kinds of blocks that ARC 6 and 7 know."""
