"""The targets of publishing, as the configuration has them: kinds of blocks, and what each block asks for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

from arcacct.conf.lookup import read_block
from arcacct.conf.options import OPTIONS, TRANSPORT, Spec
from arcacct.conf.parser import Conf
from arcacct.conf.problems import ERROR, WARNING, Problem, errors
from arcacct.conf.values import VomslessVO
from arcacct.errors import UsageError


@dataclass(frozen=True, slots=True)
class TransportOptions:
    """How to reach a receiver: who we are, whom we trust, how long we wait."""

    x509_host_key: str
    x509_host_cert: str
    x509_cert_dir: str
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(ABC):
    """What a block of any kind of target asks for, checked and immutable. Each kind adds its own."""

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
    vomsless_vo: tuple[VomslessVO, ...]
    vo_group: tuple[str, ...]
    start_time_source: str
    """``submit`` or ``lrms``."""

    @property
    @abstractmethod
    def url(self) -> str:
        """Where messages go, for the ledger and for people."""

    @property
    def receiver(self) -> tuple[object, ...]:
        """What tells one receiver from another: targets of a kind that agree in it write into the same accounts."""
        return (self.url,)

    def wants(self, vo: str | None) -> bool:
        """Whether a job of this VO is the target's business (``vofilter``)."""
        return not self.vofilter or vo in self.vofilter

    def doubles(self, _other: Any) -> str | None:
        """
        Why every job would count twice at the receiver of both, continuing "goes to the same receiver as NAME".

        ``None``: the second of a job is only wasted. Asked of two targets of one kind.
        """
        return None

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Options that cannot both hold: the one that is refused, and what is wrong."""
        return iter(())

    def credentials(self) -> TransportOptions | None:
        """What the host proves itself by; ``None``: by nothing."""
        return self.transport_options

    def check_credentials(self) -> None:
        """
        Use certificate and key for trial, in the order in which a run does; when they are valid is not looked at.

        Raises CredentialError, its text with the path first, for what a run would refuse.
        """
        shown = self.credentials()
        if shown is not None:
            import ssl  # noqa: PLC0415  slow to import, and needed by checks only

            from arcacct.tls import load_credential  # noqa: PLC0415

            load_credential(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), shown.x509_host_cert, shown.x509_host_key)

    def wrong(self) -> Iterator[tuple[str, str]]:
        """What the host lacks for this target, beside credentials: the option that names it, and what is wrong."""
        return iter(())


class TargetKind(NamedTuple):
    """One kind of target: its blocks, its options, and the class of its values."""

    block: str
    """``arex/jura/sgas`` of [arex/jura/sgas:NAME]. Blocks below ``arex`` are ARC's, which has them published too."""
    word: str
    """What the kind is called on the command line."""
    options: tuple[Spec, ...]
    target: Callable[..., Target]
    """Made with the fields of `Target` and those of the options; those of `TransportOptions` become one."""
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


def targets(conf: Conf, kinds: Kinds, proxy: str | None, problems: list[Problem]) -> tuple[Target, ...]:
    """Every target that can be built; what is wrong with the others is added to ``problems``."""
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
            transport = TransportOptions(proxy=proxy, **way) if way else None
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


def shared_receivers(conf: Conf, found: Sequence[Target]) -> Iterator[Problem]:
    """Pairs of targets that reach the same receiver with jobs in common: an error where that counts them twice."""
    for other, target in combinations(found, 2):
        apart = target.vofilter and other.vofilter and not {*target.vofilter} & {*other.vofilter}
        if apart or (type(target), target.receiver) != (type(other), other.receiver):
            continue
        why = target.doubles(other)
        text = f"goes to the same receiver as {other.name}" + (
            "; every job is sent twice and counted once, keep one of them"
            if why is None
            else f" {why}; keep one of them, or give each its own VOs by vofilter"
        )
        block = conf.blocks[target.block]
        yield Problem(WARNING if why is None else ERROR, block.file, block.line, block.name, None, text)
