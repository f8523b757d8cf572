"""The targets of publishing: what each block of the configuration asks for, checked and immutable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from arcacct.conf.lookup import read_block
from arcacct.conf.options import APEL, DIRECTORY, JOB_MESSAGES, SGAS, TARGET_KINDS
from arcacct.conf.problems import ERROR, WARNING, Problem, errors
from arcacct.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcacct.conf.parser import Block, Conf
    from arcacct.conf.values import Address, VomslessVO


@dataclass(frozen=True, slots=True)
class Transport:
    """How to reach a receiver: who we are, whom we trust, how long we wait."""

    host_key: str
    host_cert: str
    cert_dir: str
    """A directory of CA certificates under hashed names."""
    ca_file: str | None
    """A file of further CA certificates."""
    ca_system: bool
    """Whether the CA certificates of the operating system count too."""
    proxy: str | None
    """From [common] http_proxy; proxies of the environment are never used."""
    connect_timeout_s: float
    """For a connection: one wait."""
    timeout_s: float
    """For each part of an answer: one wait."""
    exchange_timeout_s: float | None
    """For all of one request and its answer; ``None``: what follows from the other two."""
    run_timeout_s: float
    """For all of one run of `arcacct publish`."""


@dataclass(frozen=True, slots=True)
class SGASTarget:
    """A block [arex/jura/sgas:NAME]: usage records posted to SGAS."""

    name: str
    """``sgas:NAME``, as on the command line."""
    block: str
    """The block's full name, which is jura's TargetID."""
    url: str
    """Where records are posted: ``https://HOST[:PORT]/PATH/ur``."""
    transport: Transport
    localid_prefix: str | None
    urbatchsize: int | None
    """Records in one message; ``None``: as many as fit."""
    urdelivery_frequency_s: int
    settle_s: int
    vofilter: tuple[str, ...]
    """Only jobs of these VOs; empty: all jobs."""
    vomsless_vo: tuple[VomslessVO, ...]
    vo_group: tuple[str, ...]
    start_time_source: str
    memory_type: str
    sgas_vo_style: str
    sgas_host_style: str
    sgas_corrections: str


@dataclass(frozen=True, slots=True)
class APELTarget:
    """A block [arex/jura/apel:NAME]: signed messages to APEL by the ARGO Messaging Service."""

    name: str
    block: str
    address: Address
    authn_port: int
    transport: Transport
    topic: str
    project: str
    gocdb_name: str
    apel_messages: str
    localid_prefix: str | None
    apel_dialect: str
    urbatchsize: int | None
    urdelivery_frequency_s: int
    settle_s: int
    vofilter: tuple[str, ...]
    vomsless_vo: tuple[VomslessVO, ...]
    vo_group: tuple[str, ...]
    start_time_source: str

    @property
    def url(self) -> str:
        """Where messages are published."""
        return f"https://{self.address.netloc}/v1/projects/{self.project}/topics/{self.topic}:publish"

    @property
    def authn_url(self) -> str:
        """Where the token comes from: the path has the host as it is registered there, without a port."""
        authn = self.address.at(self.authn_port).netloc
        return f"https://{authn}/v1/service-types/ams/hosts/{self.address.host}:authx509"


@dataclass(frozen=True, slots=True)
class DirectoryTarget:
    """A block [arcacct/directory:NAME]: unsigned messages as files, for a site's own ``ssmsend``."""

    name: str
    block: str
    path: str
    layout: str
    """``dirq`` or ``directory``."""
    gocdb_name: str
    apel_messages: str
    localid_prefix: str | None
    apel_dialect: str
    urbatchsize: int | None
    urdelivery_frequency_s: int
    settle_s: int
    vofilter: tuple[str, ...]
    vomsless_vo: tuple[VomslessVO, ...]
    vo_group: tuple[str, ...]
    start_time_source: str

    @property
    def url(self) -> str:
        """The directory as a URL."""
        return f"file://{self.path}"


Target = SGASTarget | APELTarget | DirectoryTarget


_WAY = ("ca_file", "ca_system", "connect_timeout_s", "timeout_s", "exchange_timeout_s", "run_timeout_s")
"""Fields of Transport that are options of the target's block."""


def target_blocks(conf: Conf) -> list[Block]:
    """The blocks that are targets, in the order of the files."""
    return [block for block in conf.blocks.values() if block.kind in TARGET_KINDS]


def targets(conf: Conf, proxy: str | None, problems: list[Problem]) -> tuple[Target, ...]:
    """Every target that can be built; what is wrong with the others is added to ``problems``."""
    found = []
    for block in target_blocks(conf):
        wrong: list[Problem] = []
        values = read_block(conf, block.name, block.kind, wrong)
        if not block.label:
            text = f"the target has no name; write [{block.kind}:NAME]"
            wrong.append(Problem(ERROR, block.file, block.line, block.name, None, text))
        if not errors(wrong):
            found.append(_target(block, values, proxy))
        problems += wrong
    return tuple(found)


def select_targets(found: Sequence[Target], name: str | None) -> tuple[Target, ...]:
    """
    The targets that a command is about: all without a name, else ``apel:x``, or ``x`` where only one is called so.

    Raises UsageError that lists the names there are.
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


def shared_receivers(conf: Conf, found: Sequence[Target]) -> list[Problem]:
    """
    Pairs of targets that reach the same receiver with jobs in common.

    APEL keeps job records and each kind of summary apart and adds them up: two families count each job twice, and
    so do job records under two prefixes.
    The same family twice, or SGAS twice, is only wasted: one replaces its own key, the other ignores repeats.
    """
    return [
        _shared(conf.blocks[target.block], target, other)
        for number, target in enumerate(found)
        for other in found[:number]
        if receiver(target) == receiver(other) and _overlap(target, other)
    ]


def receiver(target: Target) -> tuple[object, ...]:
    """What tells one receiver from another: targets that agree in it write into the same accounts."""
    match target:
        case SGASTarget():
            return (SGAS, target.url)
        case APELTarget():
            return (APEL, target.address, target.project, target.topic, target.gocdb_name)
        case DirectoryTarget():
            return (DIRECTORY, target.path, target.gocdb_name)


def _target(block: Block, values: dict[str, Any], proxy: str | None) -> Target:
    name = f"{TARGET_KINDS[block.kind]}:{block.label}"
    if block.kind == DIRECTORY:
        return DirectoryTarget(name=name, block=block.name, **values)
    transport = Transport(
        host_key=values.pop("x509_host_key"),
        host_cert=values.pop("x509_host_cert"),
        cert_dir=values.pop("x509_cert_dir"),
        proxy=proxy,
        **{field: values.pop(field) for field in _WAY},
    )
    url = values.pop("targeturl")
    if block.kind == SGAS:
        return SGASTarget(name=name, block=block.name, url=url, transport=transport, **values)
    return APELTarget(name=name, block=block.name, address=url, transport=transport, **values)


def _overlap(target: Target, other: Target) -> bool:
    return not target.vofilter or not other.vofilter or bool({*target.vofilter} & {*other.vofilter})


def _shared(block: Block, target: Target, other: Target) -> Problem:
    severity = WARNING
    text = f"goes to the same receiver as {other.name}; every job is sent twice and counted once, keep one of them"
    if not isinstance(target, SGASTarget) and not isinstance(other, SGASTarget):
        families = {target.apel_messages, other.apel_messages}
        if families <= {*JOB_MESSAGES}:
            if target.localid_prefix != other.localid_prefix:
                severity = ERROR
                text = (
                    f"goes to the same receiver as {other.name} with another localid_prefix, and APEL would count "
                    "every job twice; keep one of them, or give each its own VOs by vofilter"
                )
        elif len(families) > 1:
            severity = ERROR
            text = (
                f"goes to the same receiver as {other.name} with other messages ({' and '.join(sorted(families))}), "
                "and APEL would count every job twice; keep one of them, or give each its own VOs by vofilter"
            )
    return Problem(severity, block.file, block.line, block.name, None, text)
