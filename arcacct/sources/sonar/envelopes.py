"""
Read the envelopes of a stream of Sonar's telemetry, from any version of Sonar, and merge Slurm's reports of a job.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from arcacct.records.rejected import fault_of
from arcacct.records.slurm_formats import MalformedError, compress, expand, known_count
from arcacct.resources import UNSET
from arcacct.sources.sonar import fields as sonar_fields
from arcacct.sources.sonar.fields import STRICT, DroppedPart, Objects, RejectedObject, Strict, Tolerant
from arcacct.sources.sonar.samples import Sample, card_id, sample

# Slurm's values of a job or of one of its steps. Reports are partial and redundant, and are merged field by field.
#
# The merged state does not depend on the order of the reports, because each field has the time of its report.


Value = int | str
PENDING, REQUEUED = "PENDING", "REQUEUED"
_UNFINISHED = {PENDING: 0, "RUNNING": 1, "SUSPENDED": 1, "COMPLETING": 1, "CONFIGURING": 1, REQUEUED: 1}


class SlurmJob(NamedTuple):
    """
    The known values of one run of a job (``job_step`` empty) or of a step, with the time of each value.

    A single report is also a SlurmJob: all its values have the same time. Unknown values are not in ``values``.
    """

    job_id: int
    job_step: str
    values: dict[str, Value]
    times: dict[str, int]

    def number(self, name: str) -> int | None:
        """Return a value that is a number, else ``None``."""
        value = self.values.get(name)
        return value if isinstance(value, int) else None

    def text(self, name: str) -> str | None:
        """Return a value that is a text, else ``None``."""
        value = self.values.get(name)
        return value if isinstance(value, str) else None

    @property
    def finished(self) -> bool:
        """Whether the state is final. A run that was requeued is finished if it has an end."""
        state = self.text("job_state")
        if state == REQUEUED:
            return self.number("end_time") is not None
        return state is not None and state not in _UNFINISHED


def _state(value: dict[str, Any], key: str) -> str:
    """
    Return the first word of the state: "CANCELLED by 2101037" names the user who did it.

    Empty if the state is absent: a daemon of Sonar 0.13 or 0.14 sends only the changed values of a job.
    """
    words = sonar_fields.text(value, key).split()
    if not words and value.get(key):
        raise MalformedError(f"{key} is blank")
    return words[0].upper() if words else ""


def _number(value: dict[str, Any], key: str) -> int | None:
    """Return a number from Slurm; ``None`` if it is one of Slurm's marks for no value."""
    told = value.get(key)
    return None if type(told) is int and told in UNSET else sonar_fields.known(value, key)


def _count(value: dict[str, Any], key: str) -> int | None:
    """Return a number of CPUs or nodes, or an exit code."""
    number = _number(value, key)
    return None if number is None else known_count(number)


def _extended(value: dict[str, Any], key: str) -> int | None:
    number = sonar_fields.extended(value, key)
    return None if number in UNSET else number


FIELDS: dict[str, Callable[[dict[str, Any], str], Value | None]] = {
    "job_name": sonar_fields.text,
    "job_state": _state,
    **dict.fromkeys(("array_job_id", "array_task_id", "het_job_id", "het_job_offset"), _number),
    **dict.fromkeys(("user_name", "account"), sonar_fields.text),
    "submit_time": sonar_fields.moment,
    "time_limit": _extended,
    "partition": sonar_fields.text,
    "reservation": sonar_fields.text,
    # Check the ranges here, and keep them in one form.
    "nodes": lambda value, key: compress(expand(sonar_fields.texts(value, key))),
    "priority": _extended,
    # Sonar's filter is inverted: it lets "Unknown" through.
    "distribution": lambda value, key: {"Unknown": ""}.get(found := sonar_fields.text(value, key), found),
    "gres_detail": lambda value, key: ",".join(sonar_fields.texts(value, key)),
    **dict.fromkeys(("requested_resources", "allocated_resources"), sonar_fields.text),
    **dict.fromkeys(("requested_cpus", "minimum_cpus_per_node"), _count),
    "requested_memory_per_node": _number,
    "requested_node_count": _count,
    "start_time": sonar_fields.moment,
    "suspend_time": _number,
    "end_time": sonar_fields.moment,
    "exit_code": _count,
}
"""The fields of a SlurmJob by their names there, with their readers."""

SACCT_FIELDS: dict[str, Callable[[dict[str, Any], str], Value | None]] = {
    "MinCPU": _number,
    "AllocTRES": sonar_fields.text,
    **dict.fromkeys(("AveCPU", "AveDiskRead", "AveDiskWrite", "AveRSS", "AveVMSize", "ElapsedRaw"), _number),
    **dict.fromkeys(("SystemCPU", "UserCPU", "MaxRSS", "MaxVMSize"), _number),
}
"""The fields of SacctData. CPU is in seconds, memory and disk are in KiB."""


def slurm_report(value: Any, time: int, fields: Strict = STRICT) -> SlurmJob:
    """
    Return one element of ``slurm_jobs``. ``time`` is the time of the report.

    Raises MalformedError when the job or step is unknown. Strict readers also raise it for any other unusable value.
    """
    if type(value) is not dict:
        raise MalformedError("not an object")
    job_id = sonar_fields.uint(value, "job_id")
    if not job_id:
        raise MalformedError("job_id is missing")
    step = sonar_fields.text(value, "job_step")
    found: dict[str, Value] = {}
    _take(found, value, FIELDS, fields)
    sacct = fields.inside(value, "sacct")
    if sacct is not None:
        _take(found, sacct, SACCT_FIELDS, fields)
    # Sonar omits an index of 0 in an array or a heterogeneous job, so a missing index is 0. A pending array as a whole
    # also has no index, and its last element keeps the job_id of the whole.
    if found.get("array_job_id") and found.get("job_state", PENDING) != PENDING:
        found.setdefault("array_task_id", 0)
    if found.get("het_job_id"):
        found.setdefault("het_job_offset", 0)
    return SlurmJob(job_id, step, found, dict.fromkeys(found, time))


def refuse_without_span(value: dict[str, Any], report: SlurmJob) -> None:
    """
    Raise MalformedError for an ended job whose start or end is unusable as sent.

    Without these times the job gets no record, so its report is rejected even if its other values are good. Otherwise
    the missing record would not be noticed.
    """
    if report.job_step or not report.finished:
        return
    start, end = report.number("start_time"), report.number("end_time")
    for name, found in (("start_time", start), ("end_time", end)):
        if value.get(name) and found is None:
            raise MalformedError(f"{name} is not a time: the job cannot be recorded without it")
    # A job that was cancelled before it ran may have its expected start here.
    if start is not None and end is not None and end < start and report.text("job_state") != "CANCELLED":
        raise MalformedError("end_time is before start_time: the job cannot be recorded")


def _take(
    found: dict[str, Value],
    value: dict[str, Any],
    readers: dict[str, Callable[[dict[str, Any], str], Value | None]],
    fields: Strict,
) -> None:
    for name, reader in readers.items():
        if name in value:
            read = fields.optional(reader, value, name)
            if read is not None and read != "":
                found[name] = read


def merged(job: SlurmJob, report: SlurmJob) -> SlurmJob:
    """Return a job with one more report. A later value replaces an earlier one. A missing value changes nothing."""
    values, times = dict(job.values), dict(job.times)
    for name, value in report.values.items():
        said, now = times.get(name), report.times[name]
        if said is None or (now, *_rank(name, value)) > (said, *_rank(name, values[name])):
            values[name] = value
            times[name] = now
    return job._replace(values=values, times=times)


def _rank(name: str, value: Value) -> tuple[int, str]:
    """
    Return the rank of a value among values of the same second. The later state in a job's life wins. Otherwise the
    choice is arbitrary but always the same.
    """
    rank = _UNFINISHED.get(str(value), 2) if name == "job_state" else 0
    return rank, f"{value:020d}" if isinstance(value, int) else value


def same_run(job: SlurmJob, report: SlurmJob) -> bool:
    """
    Whether a report belongs to this run. A requeued job keeps its job_id and starts again.

    A later start after a final state belongs to another run. So does a job that waits after its end.
    """
    start, other = job.number("start_time"), report.number("start_time")
    if start is not None and other is not None:
        return start == other or not (job if start < other else report).finished
    if start is not None:
        end = job.number("end_time")
        waits = report.text("job_state") == PENDING
        return not (job.finished and waits and end is not None and report.times["job_state"] > end)
    if other is not None:
        # This run has no start yet. Either it was cancelled, or the report has its start or that of a later run.
        ended = report.number("end_time")
        return not (report.finished and ended is not None and job.times.get("job_state", 0) > ended)
    return True


# Read the envelopes of a stream of Sonar's telemetry, from any version of Sonar or arcacct.
#
# The seed's format and Sonar's output differ in places (the tag of jobs, added and removed fields). Both are read. An
# unusable value is dropped alone. If it identifies a node, a job or a process, or gives the time, then this whole part
# is dropped.


T = TypeVar("T")


class GPU(NamedTuple):
    """One GPU of a node. The names are those of the format, plus the units of numbers."""

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
    """One software package of the node."""

    key: str
    name: str
    version: str


class Sysinfo(NamedTuple):
    """The hardware and software of a node."""

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
    """Slurm's reports of some jobs."""

    time: int
    cluster: str
    reports: tuple[SlurmJob, ...]


class Partition(NamedTuple):
    """A partition and its nodes."""

    name: str
    nodes: tuple[str, ...]


class NodeStates(NamedTuple):
    """Some nodes and the states that all of them have."""

    names: tuple[str, ...]
    states: tuple[str, ...]


class Cluster(NamedTuple):
    """The partitions of a cluster, and the states of its nodes."""

    time: int
    cluster: str
    slurm: bool
    partitions: tuple[Partition, ...]
    nodes: tuple[NodeStates, ...]


class ProducerError(NamedTuple):
    """An error that a producer of telemetry reports."""

    time: int
    cluster: str
    node: str
    detail: str


class Errors(NamedTuple):
    """The errors of a failed probe."""

    complaints: tuple[ProducerError, ...]


Envelope = Sysinfo | Sample | Jobs | Cluster | Errors


class Dropped(NamedTuple):
    """The number of unusable values in the envelope before this. They count as absent."""

    counts: Counter[str]
    """By the name of the field."""


class TelemetryStream(Objects):
    """
    A stream of envelopes that receives bytes in chunks. ``number`` and ``text`` are those of the last envelope.

    ``details``: also read the details of processes that a site may want to store.
    """

    def __init__(self, *, details: bool = False) -> None:
        super().__init__()
        self._fields = Strict(details=details)

    def feed(self, chunk: bytes, *, final: bool = False) -> Iterator[Envelope | RejectedObject | Dropped]:
        """Yield each envelope that is complete with these bytes, and the unusable parts in their places."""
        for found in self.objects(chunk, final=final):
            if isinstance(found, RejectedObject):
                yield found
                continue
            try:
                yield envelope(found, self._fields)
            except Exception:  # noqa: BLE001  after any error, it is read again part by part
                yield from self._in_parts(found)

    def _in_parts(self, value: dict[str, Any]) -> Iterator[Envelope | RejectedObject | Dropped]:
        """Yield the usable parts of an envelope, and then its unusable ones."""
        fields = Tolerant(details=self._fields.details)
        try:
            yield envelope(value, fields)
        except Exception as error:  # noqa: BLE001  any error rejects only this envelope
            yield RejectedObject(self.number, fault_of(error), self.text)
            return
        for lost in fields.lost:
            yield RejectedObject(self.number, lost.fault, _alone(value, lost), lost.part)
        if fields.dropped:
            yield Dropped(+fields.dropped)


def _alone(value: dict[str, Any], lost: DroppedPart) -> str:
    """Return an envelope with only the rejected element, so that it can be retried like any other."""
    attributes = {key: one for key, one in value["data"]["attributes"].items() if key in ("time", "cluster", "node")}
    data = {"type": value["data"]["type"], "attributes": attributes | {lost.key: [lost.element]}}
    return json.dumps({"meta": value.get("meta"), "data": data})


def envelope(value: dict[str, Any], fields: Strict = STRICT) -> Envelope:
    """Return one decoded JSON object as an envelope. Raises MalformedError."""
    errors = sonar_fields.elements(value, "errors")
    data = sonar_fields.inside(value, "data")
    if errors and data is not None:
        raise MalformedError("both data and errors")
    if errors:
        return _errors(errors, fields)
    if data is None:
        raise MalformedError("neither data nor errors: not an envelope of Sonar")
    kind = sonar_fields.name(data, "type")
    attributes = sonar_fields.inside(data, "attributes")
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
            at, cluster = sonar_fields.timestamp(value, "time"), fields.text(value, "cluster")
            found.append(ProducerError(at, cluster, fields.text(value, "node"), sonar_fields.name(value, "detail")))
        except MalformedError as error:
            fields.drop("errors", error)
    if not found:
        raise MalformedError("no error of it has a time and a detail")
    return Errors(tuple(found))


def _nonzero(value: dict[str, Any], key: str) -> int:
    found = sonar_fields.uint(value, key)
    if not found:
        raise MalformedError(f"{key} is missing")
    return found


def _sysinfo(value: dict[str, Any], fields: Strict) -> Sysinfo:
    node = sonar_fields.name(value, "node")
    return Sysinfo(
        time=sonar_fields.timestamp(value, "time"),
        cluster=sonar_fields.text(value, "cluster"),
        node=node,
        os_name=fields.optional(sonar_fields.name, value, "os_name") or "",
        os_release=fields.optional(sonar_fields.name, value, "os_release") or "",
        numa_nodes=fields.uint(value, "numa_nodes"),
        sockets=fields.optional(_nonzero, value, "sockets") or 0,
        cores_per_socket=fields.optional(_nonzero, value, "cores_per_socket") or 0,
        threads_per_core=fields.optional(_nonzero, value, "threads_per_core") or 0,
        cpu_model=fields.text(value, "cpu_model"),
        # Not every version of Sonar sends this.
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
    """Yield the elements of a list, without the unusable ones."""
    for one in fields.items(value, key):
        try:
            yield make(one, node, fields)
        except MalformedError as error:
            fields.drop(key, error)


def _distances(value: dict[str, Any], key: str) -> str:
    rows = sonar_fields.elements(value, key)
    matrix = [sonar_fields.uints({key: row}, key) for row in rows]
    return json.dumps(matrix, separators=(",", ":")) if matrix else ""


def _software(value: dict[str, Any], _node: str, fields: Strict) -> Software:
    return Software(sonar_fields.name(value, "key"), fields.text(value, "name"), sonar_fields.name(value, "version"))


def _card(value: dict[str, Any], node: str, fields: Strict) -> GPU:
    index, uuid = sonar_fields.uint(value, "index"), card_id(value, node)
    texts = [fields.text(value, key) for key in GPU._fields[2:8]]
    numbers = [fields.uint(value, key.rpartition("_")[0]) for key in GPU._fields[8:]]
    return GPU._make((index, uuid, *texts, *numbers))


def _jobs(value: dict[str, Any], fields: Strict) -> Jobs:
    time, cluster = sonar_fields.timestamp(value, "time"), sonar_fields.text(value, "cluster")
    reports = []
    for place, one in enumerate(sonar_fields.elements(value, "slurm_jobs"), 1):
        try:
            reports.append(slurm_report(one, time, fields))
            refuse_without_span(one, reports[-1])
        except Exception as error:  # noqa: BLE001  strict readers raise it again
            fields.lose("slurm_jobs", place, error, one)
    return Jobs(time, cluster, tuple(reports))


def _cluster(value: dict[str, Any], fields: Strict) -> Cluster:
    return Cluster(
        sonar_fields.timestamp(value, "time"),
        sonar_fields.text(value, "cluster"),
        fields.flag(value, "slurm"),
        tuple(_each(_partition, value, "partitions", "", fields)),
        tuple(_each(_node_states, value, "nodes", "", fields)),
    )


def _partition(value: dict[str, Any], _node: str, fields: Strict) -> Partition:
    return Partition(sonar_fields.name(value, "name"), tuple(fields.optional(_expanded, value, "nodes") or ()))


def _expanded(value: dict[str, Any], key: str) -> list[str]:
    return expand(sonar_fields.texts(value, key))


def _node_states(value: dict[str, Any], _node: str, fields: Strict) -> NodeStates:
    names = _expanded(value, "names")
    if not names:
        raise MalformedError("names is empty")
    return NodeStates(tuple(names), tuple(fields.texts(value, "states")))


_KINDS: dict[str, Callable[[dict[str, Any], Strict], Sysinfo | Sample | Jobs | Cluster]] = {
    "sysinfo": _sysinfo,
    "sample": sample,
    # The seed, and files of Sonar before 0.18, use "jobs".
    "job": _jobs,
    "jobs": _jobs,
    "cluster": _cluster,
}
