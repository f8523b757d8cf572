"""
Sonar's telemetry: the envelopes of a stream as values, whatever version of Sonar, or of us, wrote them.

The seed's format and what Sonar really emits differ in places (the tag of jobs, fields added and dropped): both are
read. A type or a time that is wrong costs the envelope it is in and nothing else.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from arcacct.sources import sonar_fields as field
from arcacct.sources.sonar_fields import MalformedError
from arcacct.sources.sonar_hosts import expand
from arcacct.sources.sonar_jobs import SlurmReport, slurm_report
from arcacct.sources.sonar_samples import Sample, sample
from arcacct.sources.sonar_stream import Objects, Rejected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "Cluster",
    "Complaint",
    "Errors",
    "Jobs",
    "Rejected",
    "Sample",
    "Sysinfo",
    "Telemetry",
    "Told",
    "envelope",
    "read",
]


class Card(NamedTuple):
    """One GPU of a node."""

    card_index: int
    uuid: str
    address: str
    manufacturer: str
    model: str
    architecture: str
    driver: str
    firmware: str
    memory_kib: int
    power_limit_w: int
    max_power_limit_w: int
    min_power_limit_w: int
    max_ce_clock_mhz: int
    max_memory_clock_mhz: int


class Software(NamedTuple):
    """One package that the node always has."""

    key: str
    name: str
    version: str


class Sysinfo(NamedTuple):
    """What a node is."""

    time: int
    cluster: str
    node: str
    os_name: str
    os_release: str
    numa_nodes: int
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    cpu_model: str
    architecture: str
    memory_kib: int
    distances: str
    """JSON: the matrix between NUMA nodes."""
    topo_svg: str
    topo_text: str
    cards: tuple[Card, ...]
    software: tuple[Software, ...]


class Jobs(NamedTuple):
    """What Slurm knew of some jobs."""

    time: int
    cluster: str
    reports: tuple[SlurmReport, ...]


class Partition(NamedTuple):
    """A partition and its nodes."""

    name: str
    nodes: tuple[str, ...]


class NodeStates(NamedTuple):
    """Some nodes and the states they share."""

    names: tuple[str, ...]
    states: tuple[str, ...]


class Cluster(NamedTuple):
    """How a cluster's nodes are grouped, and their states."""

    time: int
    cluster: str
    slurm: bool
    partitions: tuple[Partition, ...]
    nodes: tuple[NodeStates, ...]


class Complaint(NamedTuple):
    """What a producer could not do."""

    time: int
    cluster: str
    node: str
    detail: str


class Errors(NamedTuple):
    """A probe that failed."""

    complaints: tuple[Complaint, ...]


Envelope = Sysinfo | Sample | Jobs | Cluster | Errors


class Told(NamedTuple):
    """An envelope, or what could not be used, and where it came from."""

    origin: str
    what: Envelope | Rejected | None
    """``None``: the stream pauses, so whatever waits for more should be stored."""


class Telemetry:
    """A stream of envelopes, fed with bytes as they come."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self._objects = Objects()

    def feed(self, chunk: bytes, *, final: bool = False) -> Iterator[Envelope | Rejected]:
        """Every envelope that is complete with these bytes, and in its place whatever cannot be used."""
        for found in self._objects.feed(chunk, final=final):
            if isinstance(found, Rejected):
                yield found
                continue
            number, value = found
            try:
                yield envelope(value)
            except MalformedError as error:
                yield Rejected(number, str(error))


def read(chunks: Iterable[bytes]) -> Iterator[Envelope | Rejected]:
    """Every envelope of a whole stream."""
    stream = Telemetry()
    for chunk in chunks:
        yield from stream.feed(chunk)
    yield from stream.feed(b"", final=True)


def envelope(value: dict[str, Any]) -> Envelope:
    """One decoded JSON object as an envelope. Raises MalformedError."""
    errors = field.items(value, "errors")
    data = field.inside(value, "data")
    if errors and data is not None:
        raise MalformedError("both data and errors")
    if errors:
        return Errors(tuple(_complaint(one) for one in errors))
    if data is None:
        raise MalformedError("neither data nor errors: not an envelope of Sonar")
    kind = field.name(data, "type")
    attributes = field.inside(data, "attributes")
    if kind not in _KINDS:
        raise MalformedError(f"data of the unknown type {kind[:40]!r}")
    if attributes is None:
        raise MalformedError("attributes are missing")
    return _KINDS[kind](attributes)


def _complaint(value: dict[str, Any]) -> Complaint:
    return Complaint(
        field.timestamp(value, "time"),
        field.text(value, "cluster"),
        field.text(value, "node"),
        field.name(value, "detail"),
    )


def _nonzero(value: dict[str, Any], key: str) -> int:
    found = field.uint(value, key)
    if not found:
        raise MalformedError(f"{key} is missing")
    return found


def _sysinfo(value: dict[str, Any]) -> Sysinfo:
    return Sysinfo(
        time=field.timestamp(value, "time"),
        cluster=field.text(value, "cluster"),
        node=field.name(value, "node"),
        os_name=field.name(value, "os_name"),
        os_release=field.name(value, "os_release"),
        numa_nodes=field.uint(value, "numa_nodes"),
        sockets=_nonzero(value, "sockets"),
        cores_per_socket=_nonzero(value, "cores_per_socket"),
        threads_per_core=_nonzero(value, "threads_per_core"),
        cpu_model=field.text(value, "cpu_model"),
        architecture=field.name(value, "architecture"),
        memory_kib=_nonzero(value, "memory"),
        distances=_distances(value),
        topo_svg=field.text(value, "topo_svg"),
        topo_text=field.text(value, "topo_text"),
        cards=tuple(_card(one) for one in field.items(value, "cards")),
        software=tuple(
            Software(field.name(one, "key"), field.text(one, "name"), field.name(one, "version"))
            for one in field.items(value, "software")
        ),
    )


def _distances(value: dict[str, Any]) -> str:
    rows = value.get("distances") or []
    if type(rows) is not list:
        raise MalformedError("distances is not a list")
    matrix = [field.uints({"distances": row}, "distances") for row in rows]
    return json.dumps(matrix, separators=(",", ":")) if matrix else ""


def _card(value: dict[str, Any]) -> Card:
    return Card(
        field.uint(value, "index"),
        field.text(value, "uuid"),
        field.text(value, "address"),
        field.text(value, "manufacturer"),
        field.text(value, "model"),
        field.text(value, "architecture"),
        field.text(value, "driver"),
        field.text(value, "firmware"),
        field.uint(value, "memory"),
        field.uint(value, "power_limit"),
        field.uint(value, "max_power_limit"),
        field.uint(value, "min_power_limit"),
        field.uint(value, "max_ce_clock"),
        field.uint(value, "max_memory_clock"),
    )


def _jobs(value: dict[str, Any]) -> Jobs:
    time = field.timestamp(value, "time")
    reports = tuple(slurm_report(one, time) for one in field.items(value, "slurm_jobs"))
    return Jobs(time, field.text(value, "cluster"), reports)


def _cluster(value: dict[str, Any]) -> Cluster:
    return Cluster(
        field.timestamp(value, "time"),
        field.text(value, "cluster"),
        field.flag(value, "slurm"),
        tuple(
            Partition(field.name(one, "name"), tuple(expand(field.texts(one, "nodes"))))
            for one in field.items(value, "partitions")
        ),
        tuple(_node_states(one) for one in field.items(value, "nodes")),
    )


def _node_states(value: dict[str, Any]) -> NodeStates:
    names = expand(field.texts(value, "names"))
    if not names:
        raise MalformedError("names is empty")
    return NodeStates(tuple(names), tuple(field.texts(value, "states")))


_KINDS: dict[str, Callable[[dict[str, Any]], Sysinfo | Sample | Jobs | Cluster]] = {
    "sysinfo": _sysinfo,
    "sample": sample,
    # The seed, and files of Sonar before 0.18, say "jobs".
    "job": _jobs,
    "jobs": _jobs,
    "cluster": _cluster,
}
