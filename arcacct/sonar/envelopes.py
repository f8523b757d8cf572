"""
Sonar's telemetry: the envelopes of a stream as values, whatever version of Sonar, or of us, wrote them.

The seed's format and what Sonar really emits differ in places (the tag of jobs, fields added and dropped): both are
read. A value that is wrong costs itself; what says which node, job or process it is about, and when, costs that.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from arcacct.records.import_quarantine import fault_of
from arcacct.records.slurm_formats import MalformedError, expand
from arcacct.sonar import fields as field
from arcacct.sonar.fields import STRICT, DroppedPart, Strict, Tolerant
from arcacct.sonar.samples import Sample, card_id, sample
from arcacct.sonar.slurm_jobs import SlurmJob, refuse_without_span, slurm_report
from arcacct.sonar.stream import Objects, RejectedObject

T = TypeVar("T")


class GPU(NamedTuple):
    """One GPU of a node; but for the units of numbers the names are those of the format."""

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
    cards: tuple[GPU, ...]
    software: tuple[Software, ...]


class Jobs(NamedTuple):
    """What Slurm knew of some jobs."""

    time: int
    cluster: str
    reports: tuple[SlurmJob, ...]


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


class ProducerError(NamedTuple):
    """What a producer could not do."""

    time: int
    cluster: str
    node: str
    detail: str


class Errors(NamedTuple):
    """A probe that failed."""

    complaints: tuple[ProducerError, ...]


Envelope = Sysinfo | Sample | Jobs | Cluster | Errors


class Dropped(NamedTuple):
    """Values of the envelope before this that were unusable and are taken as absent."""

    counts: Counter[str]
    """By the name of the field."""


class TelemetryStream(Objects):
    """
    A stream of envelopes, fed with bytes as they come; ``number`` and ``text`` are those of the last one.

    ``details``: with what a site may want to keep of processes.
    """

    def __init__(self, *, details: bool = False) -> None:
        super().__init__()
        self._fields = Strict(details=details)

    def feed(self, chunk: bytes, *, final: bool = False) -> Iterator[Envelope | RejectedObject | Dropped]:
        """Every envelope that is complete with these bytes, and in its place whatever cannot be used."""
        for found in self.objects(chunk, final=final):
            if isinstance(found, RejectedObject):
                yield found
                continue
            try:
                yield envelope(found, self._fields)
            except Exception:  # noqa: BLE001  whatever it is, it is looked at once more, part by part
                yield from self._in_parts(found)

    def _in_parts(self, value: dict[str, Any]) -> Iterator[Envelope | RejectedObject | Dropped]:
        """An envelope of which something is unusable: all that is not."""
        fields = Tolerant(details=self._fields.details)
        try:
            yield envelope(value, fields)
        except Exception as error:  # noqa: BLE001  also one of our own costs this envelope alone
            yield RejectedObject(self.number, fault_of(error), self.text)
            return
        for lost in fields.lost:
            yield RejectedObject(self.number, lost.fault, _alone(value, lost), lost.part)
        if fields.dropped:
            yield Dropped(+fields.dropped)


def _alone(value: dict[str, Any], lost: DroppedPart) -> str:
    """An envelope with nothing but the one element that was left out of it, to be tried again as any other."""
    attributes = {key: one for key, one in value["data"]["attributes"].items() if key in ("time", "cluster", "node")}
    data = {"type": value["data"]["type"], "attributes": attributes | {lost.key: [lost.element]}}
    return json.dumps({"meta": value.get("meta"), "data": data})


def envelope(value: dict[str, Any], fields: Strict = STRICT) -> Envelope:
    """One decoded JSON object as an envelope. Raises MalformedError."""
    errors = field.elements(value, "errors")
    data = field.inside(value, "data")
    if errors and data is not None:
        raise MalformedError("both data and errors")
    if errors:
        return _errors(errors, fields)
    if data is None:
        raise MalformedError("neither data nor errors: not an envelope of Sonar")
    kind = field.name(data, "type")
    attributes = field.inside(data, "attributes")
    if kind not in _KINDS:
        raise MalformedError(f"data of the unknown type {kind[:40]!r}")
    if attributes is None:
        raise MalformedError("attributes are missing")
    return _KINDS[kind](attributes, fields)


def _errors(values: list[Any], fields: Strict) -> Errors:
    found = []
    for value in values:
        try:
            if type(value) is not dict:
                raise MalformedError("errors is not a list of objects")  # noqa: TRY301  as a reader of fields does
            at, cluster = field.timestamp(value, "time"), fields.text(value, "cluster")
            found.append(ProducerError(at, cluster, fields.text(value, "node"), field.name(value, "detail")))
        except MalformedError as error:
            fields.drop("errors", error)
    if not found:
        raise MalformedError("no error of it has a time and a detail")
    return Errors(tuple(found))


def _nonzero(value: dict[str, Any], key: str) -> int:
    found = field.uint(value, key)
    if not found:
        raise MalformedError(f"{key} is missing")
    return found


def _sysinfo(value: dict[str, Any], fields: Strict) -> Sysinfo:
    node = field.name(value, "node")
    return Sysinfo(
        time=field.timestamp(value, "time"),
        cluster=field.text(value, "cluster"),
        node=node,
        os_name=fields.optional(field.name, value, "os_name") or "",
        os_release=fields.optional(field.name, value, "os_release") or "",
        numa_nodes=fields.uint(value, "numa_nodes"),
        sockets=fields.optional(_nonzero, value, "sockets") or 0,
        cores_per_socket=fields.optional(_nonzero, value, "cores_per_socket") or 0,
        threads_per_core=fields.optional(_nonzero, value, "threads_per_core") or 0,
        cpu_model=fields.text(value, "cpu_model"),
        # Not told by every Sonar.
        architecture=fields.text(value, "architecture"),
        memory_kib=fields.optional(_nonzero, value, "memory") or 0,
        distances=fields.optional(_distances, value, "distances") or "",
        topo_svg=fields.long_text(value, "topo_svg"),
        topo_text=fields.long_text(value, "topo_text"),
        cards=tuple(_each(_card, value, "cards", node, fields)),
        software=tuple(_each(_software, value, "software", node, fields)),
    )


def _each(
    make: Callable[[dict[str, Any], str, Strict], T], value: dict[str, Any], key: str, node: str, fields: Strict
) -> Iterator[T]:
    """The elements of a list, without those that are unusable."""
    for one in fields.items(value, key):
        try:
            yield make(one, node, fields)
        except MalformedError as error:
            fields.drop(key, error)


def _distances(value: dict[str, Any], key: str) -> str:
    rows = field.elements(value, key)
    matrix = [field.uints({key: row}, key) for row in rows]
    return json.dumps(matrix, separators=(",", ":")) if matrix else ""


def _software(value: dict[str, Any], _node: str, fields: Strict) -> Software:
    return Software(field.name(value, "key"), fields.text(value, "name"), field.name(value, "version"))


def _card(value: dict[str, Any], node: str, fields: Strict) -> GPU:
    index, uuid = field.uint(value, "index"), card_id(value, node)
    texts = [fields.text(value, key) for key in GPU._fields[2:8]]
    numbers = [fields.uint(value, key.rpartition("_")[0]) for key in GPU._fields[8:]]
    return GPU._make((index, uuid, *texts, *numbers))


def _jobs(value: dict[str, Any], fields: Strict) -> Jobs:
    time, cluster = field.timestamp(value, "time"), field.text(value, "cluster")
    reports = []
    for place, one in enumerate(field.elements(value, "slurm_jobs"), 1):
        try:
            reports.append(slurm_report(one, time, fields))
            refuse_without_span(one, reports[-1])
        except Exception as error:  # noqa: BLE001  strict readers raise it again
            fields.lose("slurm_jobs", place, error, one)
    return Jobs(time, cluster, tuple(reports))


def _cluster(value: dict[str, Any], fields: Strict) -> Cluster:
    return Cluster(
        field.timestamp(value, "time"),
        field.text(value, "cluster"),
        fields.flag(value, "slurm"),
        tuple(_each(_partition, value, "partitions", "", fields)),
        tuple(_each(_node_states, value, "nodes", "", fields)),
    )


def _partition(value: dict[str, Any], _node: str, fields: Strict) -> Partition:
    return Partition(field.name(value, "name"), tuple(fields.optional(_expanded, value, "nodes") or ()))


def _expanded(value: dict[str, Any], key: str) -> list[str]:
    return expand(field.texts(value, key))


def _node_states(value: dict[str, Any], _node: str, fields: Strict) -> NodeStates:
    names = _expanded(value, "names")
    if not names:
        raise MalformedError("names is empty")
    return NodeStates(tuple(names), tuple(fields.texts(value, "states")))


_KINDS: dict[str, Callable[[dict[str, Any], Strict], Sysinfo | Sample | Jobs | Cluster]] = {
    "sysinfo": _sysinfo,
    "sample": sample,
    # The seed, and files of Sonar before 0.18, say "jobs".
    "job": _jobs,
    "jobs": _jobs,
    "cluster": _cluster,
}
