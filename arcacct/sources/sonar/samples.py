"""Reduce one sample of a node to the data for accounting: counters of processes by job, and readings of the node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from arcacct.records.slurm_formats import MalformedError
from arcacct.resources import LARGEST
from arcacct.sources.sonar import fields as sonar_fields
from arcacct.sources.sonar.fields import STRICT, Strict

Counters = tuple[int, int, int, int]
"""The parent's pid, CPU seconds, KiB read, KiB written. The last three only grow while a process lives."""
Reading = dict[str, dict[str, float | str]]
"""By device and measure. The device is '' for the node, the uuid of a card, or ``disk:NAME``."""


class GPUShare(NamedTuple):
    """The use of one GPU by a job at the moment of a sample."""

    util_percent: float
    memory_kib: int
    power_w: float | None
    """Its share of the card's power; ``None`` when the card's power is unknown."""
    memory_util_percent: float | None = None
    """This field and the next one are stored only with details; ``None``: unknown."""
    card_index: int | None = None


class CommandShare(NamedTuple):
    """The use by all processes of a job with the same command, at the moment of a sample."""

    processes: int
    memory_kib: int
    cpu_avg_percent: float
    """Mean over the life of each process. 100 is one core."""
    cpu_util_percent: float | None
    """At the moment of the sample; ``None`` when Sonar did not measure it."""


class SampledKey(NamedTuple):
    """
    The key of a job of a cluster, over all its nodes (``epoch`` 0), or of a process group of one node since its boot.

    Process groups with the same key are one job unless their samples are more than two hours apart.
    """

    job: int
    epoch: int
    task: int = 0
    """The index in an array with one number for the whole array, as in Grid Engine; 0: no array."""


class JobSnapshot(NamedTuple):
    """A job on a node at one moment."""

    user: str
    processes: dict[str, Counters]
    """Counters by pid. Processes that Sonar has rolled up have no pid, and their key is the parent and the command."""
    process_count: int
    thread_count: int
    memory_kib: int
    virtual_memory_kib: int
    cancelled_kib: int
    in_container: bool
    cards: dict[str, GPUShare]
    commands: dict[str, CommandShare] = {}  # noqa: RUF012  never changed
    """Stored only with details."""


class Sample(NamedTuple):
    """A node at one moment."""

    time: int
    cluster: str
    node: str
    reading: Reading
    jobs: dict[SampledKey, JobSnapshot]
    errors: tuple[tuple[int, str], ...]
    """Time and text of the errors that the probe reported."""


def sample(value: dict[str, Any], fields: Strict = STRICT) -> Sample:
    """
    Return the sample of an envelope's attributes.

    Raises MalformedError without node or time. Strict readers also raise it for any other unusable value.
    """
    time = sonar_fields.timestamp(value, "time")
    cluster, name = sonar_fields.text(value, "cluster"), sonar_fields.name(value, "node")
    system = fields.inside(value, "system")
    entries = sonar_fields.elements(value, "jobs")
    reading = _reading(system, name, fields) if system is not None else {}
    jobs, processes = _jobs(entries, name, fields)
    node = reading.setdefault("", {})
    # A heartbeat is a sample too: an idle node is not an absent one.
    node["processes"] = float(processes)
    node["jobs"] = float(len(jobs))
    _share_power(reading, entries, name, jobs, fields)
    return Sample(
        time,
        cluster,
        name,
        reading,
        {key: gathered.snapshot() for key, gathered in jobs.items()},
        tuple(
            (fields.moment(one, "time") or time, detail)
            for one in fields.items(value, "errors")
            if (detail := fields.optional(sonar_fields.name, one, "detail"))
        ),
    )


class _Gathered:
    """The processes of one job while its entries are read. The same job may occur twice, with different users."""

    __slots__ = (
        *("cancelled", "cards", "commands", "container", "memory", "processes", "threads", "total", "user", "virtual"),
    )

    def __init__(self, user: str) -> None:
        self.user = user
        self.processes: dict[str, Counters] = {}
        self.total = self.threads = self.memory = self.virtual = self.cancelled = 0
        self.container = False
        self.cards: dict[str, GPUShare] = {}
        self.commands: dict[str, CommandShare] = {}

    def snapshot(self) -> JobSnapshot:
        # The sum of many large numbers may be too large for a column.
        sums = (self.total, self.threads, self.memory, self.virtual, self.cancelled)
        total, threads, memory, virtual, cancelled = (min(one, LARGEST) for one in sums)
        commands = self.commands
        if any(one.cpu_util_percent is not None for one in commands.values()):
            # If Sonar measured any of them, a missing value is 0.
            commands = {
                name: one._replace(cpu_util_percent=one.cpu_util_percent or 0.0) for name, one in commands.items()
            }
        return JobSnapshot(
            self.user, self.processes, total, threads, memory, virtual, cancelled, self.container, self.cards, commands
        )


def _jobs(entries: list[Any], node: str, fields: Strict) -> tuple[dict[SampledKey, _Gathered], int]:
    found: dict[SampledKey, _Gathered] = {}
    processes = 0
    for place, entry in enumerate(entries, 1):
        try:
            if type(entry) is not dict:
                raise MalformedError("not an object")  # noqa: TRY301  as a reader of fields does
            key = SampledKey(*(sonar_fields.uint(entry, name) for name in ("job", "epoch", "array_task_id")))
            own = sonar_fields.elements(entry, "processes")
        except Exception as error:  # noqa: BLE001  strict readers raise it again
            fields.lose("jobs", place, error, entry)
            continue
        user = fields.text(entry, "user")
        # Job 0 is not a job. It has kernel threads and similar processes, each alone (seed). They count only for the
        # node.
        gathered = found.get(key) or _Gathered(user)
        gathered.user = min(gathered.user, user)
        for process in own:
            try:
                processes += _add_process(gathered, process, node, fields)
            except MalformedError as error:
                fields.drop("processes", error)
        if key.job:
            found[key] = gathered
    return found, processes


def _add_process(gathered: _Gathered, process: Any, node: str, fields: Strict) -> int:
    """
    Add a process (or several, rolled up) to its job. Return the number of processes.

    Raises MalformedError, and adds nothing, when the process cannot be identified.
    """
    if type(process) is not dict:
        raise MalformedError("processes is not a list of objects")
    exact, uint = sonar_fields.uint, fields.uint
    pid, ppid = exact(process, "pid"), exact(process, "ppid")
    count = 1 + max(0, fields.integer(process, "rolledup")) if "rolledup" in process else 1
    command = fields.text(process, "cmd")
    # The command is not in the key: exec changes it, and a zombie's has an annotation, but the counters continue.
    key = str(pid) if pid else f"{ppid}/{command}"
    counters = uint(process, "cpu_time"), uint(process, "data_read"), uint(process, "data_written")
    # Sonar sends threads minus one.
    threads = count + uint(process, "num_threads")
    memory, virtual = uint(process, "resident_memory"), uint(process, "virtual_memory")
    cancelled = uint(process, "data_cancelled")
    container = "in_container" in process and fields.flag(process, "in_container")
    cards = list(_process_cards(process, node, fields)) if "gpus" in process else ()
    before = gathered.processes.get(key)
    if before is not None:
        counters = before[1] + counters[0], before[2] + counters[1], before[3] + counters[2]
    gathered.processes[key] = (ppid, *counters)
    gathered.total += count
    gathered.threads += threads
    gathered.memory += memory
    gathered.virtual += virtual
    gathered.cancelled += cancelled
    gathered.container |= container
    for uuid, util, used, memory_util, index in cards:
        old = gathered.cards.get(uuid, GPUShare(0.0, 0, None))
        share = None if memory_util is None else (old.memory_util_percent or 0.0) + memory_util
        used = min(old.memory_kib + used, LARGEST)  # noqa: PLW2901  its sum
        gathered.cards[uuid] = GPUShare(min(old.util_percent + util, 100.0), used, None, share, index)
    if fields.details:
        _add_command(gathered, command, process, CommandShare(count, memory, 0.0, None), fields)
    return count


def _add_command(
    gathered: _Gathered, command: str, process: dict[str, Any], more: CommandShare, fields: Strict
) -> None:
    """Add a process to the use of its command in the job. ``more``: the use without the percentages."""
    old = gathered.commands.get(command, CommandShare(0, 0, 0.0, None))
    util = max(0.0, fields.number(process, "cpu_util")) if "cpu_util" in process else None
    gathered.commands[command] = CommandShare(
        old.processes + more.processes,
        min(old.memory_kib + more.memory_kib, LARGEST),
        old.cpu_avg_percent + max(0.0, fields.number(process, "cpu_avg")),
        old.cpu_util_percent if util is None else (old.cpu_util_percent or 0.0) + util,
    )


def _process_cards(
    process: dict[str, Any], node: str, fields: Strict
) -> Iterator[tuple[str, float, int, float | None, int | None]]:
    """Yield each card that a process uses: uuid, percent, KiB; with details also percent of its memory, and index."""
    for gpu in fields.items(process, "gpus"):
        try:
            uuid = card_id(gpu, node)
        except MalformedError as error:
            fields.drop("gpus", error)
        else:
            has_memory = fields.details and "gpu_memory_util" in gpu
            memory_util = fields.percent(gpu, "gpu_memory_util") if has_memory else None
            index = fields.uint(gpu, "index") if fields.details else None
            yield uuid, fields.percent(gpu, "gpu_util"), fields.uint(gpu, "gpu_memory"), memory_util, index


def card_id(card: dict[str, Any], node: str) -> str:
    """
    Return the key of a card, the same in samples and sysinfo.

    AMD's cards have no uuid before Sonar 0.16. These versions have no node with cards of two makers, so the index
    identifies a card.
    """
    return sonar_fields.text(card, "uuid") or f"{node}/{sonar_fields.uint(card, 'index')}"


def _share_power(
    reading: Reading, entries: list[Any], node: str, jobs: dict[SampledKey, _Gathered], fields: Strict
) -> None:
    """Divide the power of each card among its users in proportion to their use, or equally if no use is measured."""
    if not any(job.cards for job in jobs.values()):
        return
    # The percentages of each card: of each process without a job, and of each job.
    users: dict[str, list[float]] = {}
    for entry in entries:
        for process in fields.items(entry, "processes") if type(entry) is dict and not entry.get("job") else ():
            for uuid, util, *_rest in _process_cards(process, node, fields) if "gpus" in process else ():
                users.setdefault(uuid, []).append(util)
    for gathered in jobs.values():
        for uuid, share in gathered.cards.items():
            users.setdefault(uuid, []).append(share.util_percent)
    for gathered in jobs.values():
        for uuid, share in gathered.cards.items():
            power = reading.get(uuid, {}).get("power_w")
            if isinstance(power, float):
                total = sum(users[uuid])
                part = share.util_percent / total if total else 1 / len(users[uuid])
                gathered.cards[uuid] = share._replace(power_w=power * part)


_SECTOR_BYTES = 512


def _reading(system: dict[str, Any], name: str, fields: Strict) -> Reading:
    """
    Return the readings of the node and its devices. An absent value of the node is 0, because the format omits zeros.
    """
    cpus = fields.uints(system, "cpus")
    node: dict[str, float | str] = {
        "used_memory_kib": float(fields.uint(system, "used_memory")),
        "load1": fields.number(system, "load1"),
        "load5": fields.number(system, "load5"),
        "load15": fields.number(system, "load15"),
        "runnable_entities": float(fields.uint(system, "runnable_entities")),
        "existing_entities": float(fields.uint(system, "existing_entities")),
    }
    boot = fields.moment(system, "boot")
    if boot is not None:
        node["boot"] = float(boot)
    if cpus:
        node["cores"] = float(len(cpus))
        node["cpu_busy_s"] = float(sum(cpus))
    found: Reading = {"": node}
    for card in fields.items(system, "gpus"):
        try:
            found[card_id(card, name)] = _card(card, fields)
        except MalformedError as error:
            fields.drop("gpus", error)
    for disk in fields.items(system, "disks"):
        try:
            stats = sonar_fields.uints(disk, "stats")
            if any(stats):
                found[f"disk:{sonar_fields.name(disk, 'name')}"] = _disk(stats)
        except MalformedError as error:
            fields.drop("disks", error)
    return found


def _card(card: dict[str, Any], fields: Strict) -> dict[str, float | str]:
    found: dict[str, float | str] = {
        "ce_util_percent": fields.percent(card, "ce_util"),
        "memory_util_percent": fields.percent(card, "memory_util"),
        "memory_kib": float(fields.uint(card, "memory")),
        "failing": float(fields.uint(card, "failing")),
    }
    # For these, a card sends 0 if it does not know the value.
    for key, measure, read in (
        ("fan", "fan_percent", fields.uint),
        ("power", "power_w", fields.watts),
        ("power_limit", "power_limit_w", fields.watts),
        ("ce_clock", "ce_clock_mhz", fields.uint),
        ("memory_clock", "memory_clock_mhz", fields.uint),
    ):
        value = read(card, key)
        if value:
            found[measure] = float(value)
    temperature, state = fields.integer(card, "temperature"), fields.extended(card, "performance_state")
    if temperature:
        found["temperature_c"] = float(temperature)
    if state is not None and state >= 0:
        found["performance_state"] = float(state)
    if mode := fields.text(card, "compute_mode"):
        found["compute_mode"] = mode
    return found


def _disk(stats: list[int]) -> dict[str, float | str]:
    """Return the transferred data and the busy time from the kernel's counters (Documentation/admin-guide/iostats)."""
    if len(stats) < 10:
        raise MalformedError("disks has too few stats")
    return {
        "read_kib": float(stats[2] * _SECTOR_BYTES // 1024),
        "written_kib": float(stats[6] * _SECTOR_BYTES // 1024),
        "busy_ms": float(stats[9]),
    }
