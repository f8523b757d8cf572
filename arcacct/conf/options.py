"""
The options that arcacct reads: their blocks, their defaults, how their text becomes a value.

Those of a kind of target stand in its folder (`conf.targets.TargetKind`), but for what is the same for all of them.

The names and defaults of ARC's options are ARC's (arc.conf.reference); etc/arcacct.conf.reference
describes each one, and a test keeps both in step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from arcacct.conf import places, values


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
    is_url: bool = False
    """Whether there may be a password in it, which nobody is shown."""
    advice: Callable[[str], str | None] | None = None
    """What to say of a text that is right, and could be better."""


def plain(name: str, read: Callable[[str], Any], default: str | None = None, **more: Any) -> Spec:
    """An option whose value is called as it is."""
    return Spec(name, name, read, default, **more)


def choice(name: str, default: str, *words: str) -> Spec:
    """An option that is one of some words."""
    return Spec(name, name, values.one_of(*words), default, words)


def flag(name: str, default: str = "no") -> Spec:
    """An option that is ``yes`` or ``no``."""
    return Spec(name, name, values.yes_no, default, ("yes", "no"))


COMMON = (
    plain("hostname", values.host, "$EXEC{hostname -f}"),
    plain("http_proxy", values.proxy, is_url=True),
    plain("x509_host_key", values.path, "/etc/grid-security/hostkey.pem"),
    plain("x509_host_cert", values.path, "/etc/grid-security/hostcert.pem"),
    plain("x509_cert_dir", values.path, "/etc/grid-security/certificates"),
)
_X509 = tuple(spec._replace(inherits=("common",)) for spec in COMMON[2:])
_VO = (plain("vomsless_vo", values.vomsless_vo, repeated=True), plain("vo_group", str, repeated=True))
JURA = (*_X509, *_VO)

ARCACCT = (
    plain("database", values.path),
    flag("arex_writes_no_accounting"),
    plain("read_group", values.word),
    plain("rehearsal", values.path),
    plain("spool_fallback", values.path),
    Spec("deadline", "deadline_s", values.seconds, "5"),
    flag("allow_jura"),
    flag("publishes", "yes"),
    Spec("keep_messages", "keep_messages_days", values.whole, "0"),
    plain("names_kept_months", values.whole, "0"),
    Spec("settle", "settle_s", values.whole, "0"),
    plain("lrms_host", values.host),
    plain("local_group_prefix", values.word),
    choice("missing_wall_time", places.ZERO, *places.MISSING_WALL_TIME),
    plain("vo_claim", places.vo_claim, repeated=True),
    plain("map", values.map_rule, repeated=True),
    plain("node_benchmark", values.node_benchmark, repeated=True, advice=values.rated_advice),
    plain("queue_benchmark", values.queue_benchmark, repeated=True, advice=values.rated_advice),
    plain("cpu_watts", values.cpu_watts, repeated=True),
    plain("core_watts", values.watts),
    plain("pue", values.pue),
    plain("carbon_intensity", values.carbon_intensity),
)

SELECTION = (
    plain("vofilter", values.vo, repeated=True),
    Spec("settle", "settle_s", values.whole, "0", inherits=("arcacct",)),
    *(spec._replace(inherits=("arex/jura",)) for spec in _VO),
    choice("start_time_source", "submit", "submit", "lrms"),
)
"""Of every target: which jobs go to it, and when; and what is said of each that does not depend on its receiver."""
LOCAL_JOBS = plain("local_jobs", values.local_jobs, "own", repeated=True)
"""Of every target whose records say in what a job ran."""
TRANSPORT = (
    *(spec._replace(inherits=("arex/jura", "common")) for spec in _X509),
    plain("ca_file", values.path),
    Spec("connect_timeout", "connect_timeout_s", values.seconds, "10"),
    Spec("timeout", "timeout_s", values.seconds, "60"),
    Spec("exchange_timeout", "exchange_timeout_s", values.seconds),
    Spec("run_timeout", "run_timeout_s", values.many_seconds, "3600"),
)
"""
Of every target that is reached over the network, with ``ca_system``: the fields of `conf.targets.TransportOptions`.
"""


def messages(count: str, frequency_s: str) -> tuple[Spec, ...]:
    """Of every target: how many records go into one message, and how often any is sent."""
    return (
        plain("urbatchsize", values.batch, count),
        Spec("urdelivery_frequency", "urdelivery_frequency_s", values.whole, frequency_s),
    )


OPTIONS: dict[str, tuple[Spec, ...]] = {
    "common": COMMON,
    "arex": (
        plain("controldir", values.path, places.CONTROLDIR),
        plain("authtokenmap", places.claim_names, places.CLAIM_NAMES, repeated=True, may_be_empty=True),
    ),
    "lrms": (plain("benchmark", values.benchmark, places.BENCHMARK),),
    "queue": (plain("benchmark", values.benchmark, repeated=True),),
    "arex/jura": JURA,
    "arcacct": ARCACCT,
}
"""The options of each kind of block that is no target. Of ARC's own blocks only those that arcacct reads."""

ARC_ONLY = {"arex/jura": ("logfile", "loglevel", "urdelivery_frequency")}
"""Options of ARC that are right where they stand and mean nothing to us."""
OBSOLETE = {"arex/jura": ("urdelivery_keepfailed",)}
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
