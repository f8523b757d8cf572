"""
The options that arcacct reads: their blocks and defaults, the line that applies, the problems of values, and the
targets of publishing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

from arcacct.config import paths, values
from arcacct.config.parser import Conf, Option
from arcacct.config.values import Thresholds
from arcacct.errors import UsageError
from arcacct.secrecy import without_login

# The problems of a configuration: one value for each complaint, so that all can be shown at once.


ERROR = "error"
WARNING = "warning"


class Problem(NamedTuple):
    """
    One complaint.

    ``text`` says what is wrong and, after a semicolon, what to write. An error stops publishing (exit code 78); a
    warning is something the administrator should know.
    """

    severity: str
    file: str
    line: int | None
    block: str | None
    option: str | None
    text: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        severity = ["warning:"] if self.severity == WARNING else []
        block = [f"[{self.block}]"] if self.block is not None else []
        subject = " ".join([*block, *([self.option] if self.option is not None else [])])
        return " ".join([f"{where}:", *severity, *([f"{subject}:"] if subject else []), self.text])


def errors(problems: Iterable[Problem]) -> list[Problem]:
    """The problems that stop publishing."""
    return [problem for problem in problems if problem.severity == ERROR]


def in_order(problems: Iterable[Problem], files: list[str]) -> list[Problem]:
    """Return each complaint once, in the order of the files and lines."""
    places = {file: number for number, file in enumerate(files)}
    return sorted(dict.fromkeys(problems), key=lambda found: (places.get(found.file, len(places)), found.line or 0))


# The options that arcacct reads: blocks, defaults, and conversions of texts to values.  Options of a kind of target are
# in its folder (`config.options.TargetKind`), except those common to all targets.  The names and defaults of ARC's
# options are ARC's (arc.conf.reference); etc/arcacct.conf.reference describes each one, and a test keeps both in step.


class Spec(NamedTuple):
    """One option of one kind of block."""

    name: str
    field: str
    """The name of its value, with the unit where it has one."""
    read: Callable[[str], Any]
    default: str | None = None
    """As text; ``None``: not set."""
    words: tuple[str, ...] = ()
    """The allowed values, if the option has a fixed list."""
    repeated: bool = False
    required: bool = False
    inherits: tuple[str, ...] = ()
    """Blocks whose value for the same option applies when this block does not set it."""
    may_be_empty: bool = False
    """Whether lines without a value set the option to nothing, in place of the default."""
    is_url: bool = False
    """Whether it may contain a password, which is never shown."""
    needs: str = ""
    """The option of the same block without which it has no effect."""
    advice: Callable[[str], str | None] | None = None
    """Returns advice about a text that is valid, but unwise."""
    about: str = ""
    """Its meaning, within a sentence: for the help of the commands that have the option, too."""
    metavar: str = ""
    """The name of its value in that help."""


def plain(name: str, read: Callable[[str], Any], default: str | None = None, **more: Any) -> Spec:
    """An option whose value is a plain text."""
    return Spec(name, name, read, default, **more)


def choice(name: str, default: str, *words: str, **more: Any) -> Spec:
    """An option that is one of some words."""
    return Spec(name, name, values.one_of(*words), default, words, **more)


def flag(name: str, default: str = "no") -> Spec:
    """An option that is ``yes`` or ``no``."""
    return Spec(name, name, values.yes_no, default, ("yes", "no"))


COMMON = (
    plain("hostname", values.host, "$EXEC{hostname -f}"),
    plain("http_proxy", values.proxy, is_url=True),
    plain("no_proxy", values.no_proxy, needs="http_proxy"),
    plain("x509_host_key", values.path, "/etc/grid-security/hostkey.pem"),
    plain("x509_host_cert", values.path, "/etc/grid-security/hostcert.pem"),
    plain("x509_cert_dir", values.path, "/etc/grid-security/certificates"),
)
_X509 = tuple(spec._replace(inherits=("common",)) for spec in COMMON[3:])
_VO = (plain("vomsless_vo", paths.vomsless_vo, repeated=True), plain("vo_group", str, repeated=True))
JURA = (*_X509, *_VO)

LIMITS = tuple(
    Spec(
        f"{kind}_{limit.name}",
        f"{kind}_{field}",
        partial(values.threshold, unit=limit.unit),
        f"{getattr(limit, part) // values.UNITS[limit.unit][limit.unit]}{limit.unit}",
    )
    for field, limit in Thresholds()._asdict().items()
    for kind, part in values.LIMIT_KINDS.items()
)
"""The limits at which `arcacct status` and similar commands warn."""
ARCACCT = (
    plain("database", values.path),
    flag("arex_writes_no_accounting"),
    plain("read_group", values.word),
    plain("rehearsal", values.path),
    plain("spool_fallback", values.path),
    flag("allow_jura"),
    flag("publishes", "yes"),
    Spec("keep_messages", "keep_messages_days", values.whole, "0"),
    plain("names_kept_months", values.whole, "0"),
    Spec("settle", "settle_s", values.whole, "0"),
    plain("lrms_host", values.host),
    plain("local_group_prefix", values.word),
    choice("missing_wall_time", paths.ZERO, *paths.MISSING_WALL_TIME),
    choice("killed_before_arex", paths.PUBLISHED, *paths.KILLED_BEFORE_AREX),
    plain("vo_claim", paths.vo_claim, repeated=True),
    plain("map", values.map_rule, repeated=True),
    plain("node_benchmark", values.node_benchmark, repeated=True, advice=values.rated_advice),
    plain("queue_benchmark", paths.queue_benchmark, repeated=True, advice=values.rated_advice),
    plain("cores", values.installed_cores, repeated=True),
    plain("cpu_watts", values.cpu_watts, repeated=True),
    plain("core_watts", values.watts),
    plain("pue", values.pue),
    plain("carbon_intensity", values.carbon_intensity),
    *LIMITS,
)

SELECTION = (
    plain("vofilter", values.vo, repeated=True, about="only jobs of this VO", metavar="VO"),
    Spec("settle", "settle_s", values.whole, "0", inherits=("arcacct",)),
    *(spec._replace(inherits=("arex/jura",)) for spec in _VO),
    choice("start_time_source", "submit", "submit", "lrms"),
)
"""For every target: which jobs are sent to it, when, and with which values, independent of its receiver."""
LOCAL_JOBS = plain("local_jobs", values.local_jobs, "own", repeated=True)
"""For every target whose records describe where a job ran."""
TRANSPORT = (
    *(spec._replace(inherits=("arex/jura", "common")) for spec in _X509),
    plain("ca_file", values.path),
    Spec("http_proxy", "proxy", values.proxy, is_url=True, inherits=("common",)),
    plain("no_proxy", values.no_proxy, inherits=("common",), needs="http_proxy"),
    Spec("connect_timeout", "connect_timeout_s", paths.seconds, "10"),
    Spec("timeout", "timeout_s", paths.seconds, "60"),
    Spec("exchange_timeout", "exchange_timeout_s", paths.seconds),
    Spec("run_timeout", "run_timeout_s", values.many_seconds, "3600"),
)
"""
For every target that is reached over the network, with ``ca_system``: the fields of `config.options.TransportOptions`.
"""


def messages(count: str, frequency_s: str) -> tuple[Spec, ...]:
    """For every target: how many records one message has, and how often messages are sent."""
    return (
        plain("urbatchsize", values.batch, count, about="records in one message", metavar="N"),
        Spec("urdelivery_frequency", "urdelivery_frequency_s", values.whole, frequency_s),
    )


OPTIONS: dict[str, tuple[Spec, ...]] = {
    "common": COMMON,
    "arex": (
        plain("controldir", values.path, paths.CONTROLDIR, about="control directory", metavar="DIR"),
        plain("authtokenmap", paths.claim_names, paths.CLAIM_NAMES, repeated=True, may_be_empty=True),
    ),
    "lrms": (plain("benchmark", paths.benchmark, paths.BENCHMARK),),
    "queue": (plain("benchmark", paths.benchmark, repeated=True),),
    "arex/jura": JURA,
    "arcacct": ARCACCT,
}
"""The options of each kind of block that is not a target. Of ARC's own blocks, only those that arcacct reads."""

ARC_ONLY = {"arex/jura": ("logfile", "loglevel", "urdelivery_frequency")}
"""Options of ARC that are correct in their place and have no meaning for arcacct."""
OBSOLETE = {"arex/jura": ("urdelivery_keepfailed",), "arcacct": ("deadline",)}
"""Options that ARC 6.8 and arcacct 0.3 dropped."""
ARC_BLOCKS = (
    "common", "authgroup", "mapping", "authtokens", "lrms", "lrms/ssh", "arex", "arex/cache", "arex/cache/cleaner",
    "arex/data-staging", "arex/ws", "arex/ws/jobs", "arex/ws/publicinfo", "arex/ws/cache", "arex/ws/candypond",
    "arex/jura", "arex/jura/sgas", "arex/jura/apel", "arex/jura/archiving", "arex/ganglia", "gridftpd",
    "gridftpd/jobs", "gridftpd/filedir", "infosys", "infosys/ldap", "infosys/nordugrid", "infosys/glue1",
    "infosys/glue1/site-bdii", "infosys/glue2", "infosys/glue2/ldap", "infosys/cluster", "infosys/accesscontrol",
    "queue", "datadelivery-service", "acix-scanner", "acix-index", "userlist", "nordugridmap", "monitor", "custom",
)  # fmt: skip
"""Kinds of blocks that ARC 6 and 7 know."""


def named(options: Iterable[Spec], name: str) -> Spec:
    """Return the option with this name."""
    return next(spec for spec in options if spec.name == name)


# The line that applies to an option, and the values of a whole block.


class InForce(NamedTuple):
    """The texts that apply to an option, and where they were set."""

    texts: tuple[str, ...]
    lines: tuple[Option, ...]
    """As many as there are texts, none for a default; without texts, the lines that set the option to nothing."""
    block: str
    """The block that sets it: the option's own, or one that it inherits from."""


def find(conf: Conf, block: str, spec: Spec) -> InForce:
    """
    Return the texts that apply to an option of a block: its own lines, those of a block it inherits from, or the
    default.

    For an option that is not repeatable the last line applies, as in A-REX.
    """
    for name in (block, *spec.inherits):
        there = conf.blocks.get(name)
        lines = [line for line in there.options.get(spec.name, ()) if line.value] if there is not None else []
        if lines:
            lines = lines if spec.repeated else lines[-1:]
            return InForce(tuple(line.value for line in lines), tuple(lines), name)
        if spec.may_be_empty and there is not None and spec.name in there.options:
            return InForce((), tuple(there.options[spec.name]), name)
    return InForce(() if spec.default is None else (spec.default,), (), block)


def read_block(conf: Conf, block: str, options: Iterable[Spec], problems: list[Problem]) -> dict[str, Any]:
    """
    Return the values of a block by field: one, ``None`` if nothing is set, or a tuple for a repeatable option.

    Unreadable values are added to ``problems`` and count as not set.
    """
    fields: dict[str, Any] = {}
    for spec in options:
        found = find(conf, block, spec)
        if spec.required and not found.texts:
            there = conf.blocks[block]
            wrong = f"is not set and this target needs it; add a line {spec.name} = ..."
            problems.append(Problem(ERROR, there.file, there.line, there.name, spec.name, wrong))
        values = []
        for number, text in enumerate(found.texts):
            try:
                values.append(spec.read(text))
            except ValueError as error:
                line = found.lines[number]
                name = conf.blocks[found.block].name
                problems.append(Problem(ERROR, line.file, line.line, name, spec.name, str(error)))
        fields[spec.field] = tuple(values) if spec.repeated else next(iter(values), None)
    return fields


# The targets of the configuration: kinds of blocks, and the values of each block.


class TransportOptions(NamedTuple):
    """How to reach a receiver: our credentials, the trusted CAs, and the time limits."""

    x509_host_key: str
    x509_host_cert: str
    x509_cert_dir: str
    """A directory of CA certificates under hashed names."""
    ca_file: str | None
    """A file of further CA certificates."""
    ca_system: bool
    """Whether the CA certificates of the operating system count too."""
    proxy: str | None
    """Proxies of the environment are never used."""
    no_proxy: values.NoProxy | None
    """Hosts that are reached without the proxy (`config.values.proxy_for`)."""
    connect_timeout_s: float
    """For a connection: one wait."""
    timeout_s: float
    """For each part of an answer: one wait."""
    exchange_timeout_s: float | None
    """For all of one request and its answer; ``None``: the sum of the other two."""
    run_timeout_s: float
    """For all of one run of `arcacct publish`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(ABC):
    """The settings of a block of any kind of target, checked and immutable. Each kind adds its own."""

    name: str
    """``sgas:NAME``, as on the command line."""
    block: str
    """The block's full name, which is jura's TargetID."""
    transport_options: TransportOptions | None
    """``None``: it is not reached over the network."""
    localid_prefix: str | None
    urbatchsize: int | None
    """Records in one message; ``None``: as many as fit."""
    urdelivery_frequency_s: int
    settle_s: int
    vofilter: tuple[str, ...]
    """Only jobs of these VOs; empty: all jobs."""
    vomsless_vo: tuple[paths.VO, ...]
    vo_group: tuple[str, ...]
    start_time_source: str
    """``submit`` or ``lrms``."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The destination of messages, for the ledger and for people."""

    @property
    def route(self) -> str:
        """Its URL and, where a proxy is configured, whether messages go through it."""
        way = self.transport_options
        if way is None or way.proxy is None:
            return self.url
        if values.proxy_for(self.url, way.proxy, way.no_proxy):
            return f"{self.url} through the proxy {without_login(way.proxy)}"
        why = "no_proxy has its host" if self.url.startswith("https:") else "http never uses the proxy"
        return f"{self.url} without the proxy: {why}"

    @property
    def receiver(self) -> tuple[object, ...]:
        """Identifies the receiver: targets of one kind with the same value write into the same accounts."""
        return (self.url,)

    def wants(self, vo: str | None) -> bool:
        """Whether the target takes jobs of this VO (``vofilter``)."""
        return not self.vofilter or vo in self.vofilter

    def doubles(self, _other: Any) -> str | None:
        """
        Return why every job would count twice at the receiver of both, continuing "goes to the same receiver as NAME".

        ``None``: the second record of a job has no effect. Called for two targets of one kind.
        """
        return None

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Options that contradict each other: the one that is refused, and the reason."""
        return iter(())

    def credentials(self) -> TransportOptions | None:
        """The credentials of the host; ``None``: it has none."""
        return self.transport_options

    def check_credentials(self) -> None:
        """
        Try certificate and key, in the same order as a run; their dates are not checked.

        Raises CredentialError, with the path first, if a run would refuse them.
        """
        shown = self.credentials()
        if shown is not None:
            import ssl  # noqa: PLC0415  slow to import, and needed by checks only

            from arcacct.tls import load_credential  # noqa: PLC0415

            load_credential(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), shown.x509_host_cert, shown.x509_host_key)

    def wrong(self) -> Iterator[tuple[str, str]]:
        """Return what the host lacks for this target, except credentials: the option that names it, and the problem."""
        return iter(())


class TargetKind(NamedTuple):
    """One kind of target: its blocks, its options, and the class of its values."""

    block: str
    """``arex/jura/sgas`` of [arex/jura/sgas:NAME]. Blocks below ``arex`` are ARC's, and ARC publishes to them too."""
    word: str
    """The name of the kind on the command line."""
    options: tuple[Spec, ...]
    target: Callable[..., Target]
    """Created with the fields of `Target` and of the options; those of `TransportOptions` become one."""
    obsolete: tuple[str, ...] = ()
    """Options that ARC 6.8 dropped."""

    @property
    def is_arcs(self) -> bool:
        """Whether A-REX knows such blocks, and starts jura-ng for them."""
        return self.block.startswith("arex/")


Kinds = Mapping[str, TargetKind]
"""By the kind of block."""
Found = TypeVar("Found", bound=Target)

_OF_TRANSPORT = (*(spec.field for spec in TRANSPORT), "ca_system")


def options_of(kinds: Kinds) -> dict[str, tuple[Spec, ...]]:
    """The options of each kind of block, whether it is a target or not."""
    return OPTIONS | {name: kind.options for name, kind in kinds.items()}


def targets(conf: Conf, kinds: Kinds, problems: list[Problem]) -> tuple[Target, ...]:
    """Return every target that can be built; the problems of the others are added to ``problems``."""
    found = []
    for block in conf.blocks.values():
        kind = kinds.get(block.kind)
        if kind is None:
            continue
        wrong: list[Problem] = []
        values = read_block(conf, block.name, kind.options, wrong)
        if not block.label:
            text = f"the target has no name; write [{block.kind}:NAME]"
            wrong.append(Problem(ERROR, block.file, block.line, block.name, None, text))
        if not errors(wrong):
            way = {field: values.pop(field) for field in _OF_TRANSPORT if field in values}
            transport = TransportOptions(**way) if way else None
            made = kind.target(
                name=f"{kind.word}:{block.label}", block=block.name, transport_options=transport, **values
            )
            for option, text in made.contradictions():
                line = conf.option(block.name, option)
                place = (block.file, block.line) if line is None else (line.file, line.line)
                wrong.append(Problem(ERROR, *place, block.name, option, text))
            found += [] if errors(wrong) else [made]
        problems += wrong
    return tuple(found)


def select_targets(found: Sequence[Found], name: str | None) -> tuple[Found, ...]:
    """
    Return the targets of a command: all without a name, else ``apel:x``, or ``x`` if only one has this name.

    Raises UsageError that lists the names.
    """
    if name is None:
        return tuple(found)
    matching = [target for target in found if name in (target.name, target.block)] or [
        target for target in found if target.name.partition(":")[2] == name
    ]
    if len(matching) == 1:
        return (matching[0],)
    names = ", ".join(target.name for target in matching or found) or "none is configured"
    what = "is the name of more than one target" if matching else "is not the name of a target"
    raise UsageError(f"{name!r} {what}; the targets are: {names}")


def shared_receivers(conf: Conf, found: Sequence[Target]) -> Iterator[Problem]:
    """Return pairs of targets that reach the same receiver with jobs in common: an error if these jobs count twice."""
    for other, target in combinations(found, 2):
        apart = target.vofilter and other.vofilter and not {*target.vofilter} & {*other.vofilter}
        if apart or (type(target), target.receiver) != (type(other), other.receiver):
            continue
        why = target.doubles(other)
        text = f"goes to the same receiver as {other.name}" + (
            "; every job is sent twice and counted once; keep one of them"
            if why is None
            else f" {why}; keep one of them, or give each its own VOs with vofilter"
        )
        block = conf.blocks[target.block]
        yield Problem(WARNING if why is None else ERROR, block.file, block.line, block.name, None, text)
