"""
One sample of a node, reduced to what accounting keeps of it: counters of processes by job, and readings of the node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from arcacct.records.slurm_formats import MalformedError
from arcacct.sources.sonar import fields as sonar_fields
from arcacct.sources.sonar.fields import STRICT, Strict

Counters = tuple[int, int, int, int]
"""Parent's pid, CPU seconds, KiB read, KiB written: the last three only grow while a process lives."""
Reading = dict[str, dict[str, float | str]]
"""By device ('' is the node, a card by uuid, ``disk:NAME``) and measure."""


class GPUShare(NamedTuple):
    """What a job did on one GPU at the moment of a sample."""

    util_percent: float
    memory_kib: int
    power_w: float | None
    """Its share of what the card drew; ``None`` when the card was not read."""
    memory_util_percent: float | None = None
    """As this and the next are kept with details only; ``None``: not told."""
    card_index: int | None = None


class CommandShare(NamedTuple):
    """What the processes of a job that run one command did at the moment of a sample."""

    processes: int
    memory_kib: int
    cpu_avg_percent: float
    """Over the life of each process; 100 is a core."""
    cpu_util_percent: float | None
    """At the moment; ``None`` when Sonar did not look."""


class SampledKey(NamedTuple):
    """
    A job of a cluster, over all its nodes (``epoch`` 0), or a process group of one node since it booted.

    Two process groups with the same key are one unless more than two hours lie between their samples.
    """

    job: int
    epoch: int
    task: int = 0
    """Its index in an array that has one number as a whole, as Grid Engine's; 0: none."""


class JobSnapshot(NamedTuple):
    """A job on a node at a moment."""

    user: str
    processes: dict[str, Counters]
    """By pid; those that Sonar has rolled up have none and are known by parent and command."""
    process_count: int
    thread_count: int
    memory_kib: int
    virtual_memory_kib: int
    cancelled_kib: int
    in_container: bool
    cards: dict[str, GPUShare]
    commands: dict[str, CommandShare] = {}  # noqa: RUF012  never changed
    """With details only."""


class Sample(NamedTuple):
    """A node at a moment."""

    time: int
    cluster: str
    node: str
    reading: Reading
    jobs: dict[SampledKey, JobSnapshot]
    errors: tuple[tuple[int, str], ...]
    """Time and text of what the probe could not read."""


def sample(value: dict[str, Any], fields: Strict = STRICT) -> Sample:
    """
    The attributes of a sample envelope.

    Raises MalformedError without node or time, and with strict readers for any other unusable value, too.
    """
    time = sonar_fields.timestamp(value, "time")
    cluster, name = sonar_fields.text(value, "cluster"), sonar_fields.name(value, "node")
    system = fields.inside(value, "system")
    entries = sonar_fields.elements(value, "jobs")
    reading = _reading(system, name, fields) if system is not None else {}
    jobs, processes = _jobs(entries, name, fields)
    node = reading.setdefault("", {})
    # A heartbeat is a sample too: idle is not the same as absent.
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
    """The processes of one job while its entries are read: the same job may come twice, with other users."""

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
        # Many large numbers make one that no column holds.
        sums = (self.total, self.threads, self.memory, self.virtual, self.cancelled)
        total, threads, memory, virtual, cancelled = (min(one, sonar_fields.LARGEST) for one in sums)
        commands = self.commands
        if any(one.cpu_util_percent is not None for one in commands.values()):
            # Where Sonar looks, what is left out is 0.
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
            job, epoch, task = (
                sonar_fields.uint(entry, "job"),
                sonar_fields.uint(entry, "epoch"),
                sonar_fields.uint(entry, "array_task_id"),
            )
            key = SampledKey(job, epoch, task)
            own = sonar_fields.elements(entry, "processes")
        except Exception as error:  # noqa: BLE001  strict readers raise it again
            fields.lose("jobs", place, error, entry)
            continue
        user = fields.text(entry, "user")
        # Job 0 is no job: kernel threads and the like, each on its own (seed). They count for the node alone.
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
    Add a process (or several, rolled up) to its job; how many it stands for.

    Raises MalformedError, and has added nothing, when it cannot be told which process it is.
    """
    if type(process) is not dict:
        raise MalformedError("processes is not a list of objects")
    exact, uint = sonar_fields.uint, fields.uint
    pid, ppid = exact(process, "pid"), exact(process, "ppid")
    count = 1 + max(0, fields.integer(process, "rolledup")) if "rolledup" in process else 1
    command = fields.text(process, "cmd")
    # Not by command: exec changes it, and a zombie's has an annotation, while the counters go on.
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
        used = min(old.memory_kib + used, sonar_fields.LARGEST)  # noqa: PLW2901  its sum
        gathered.cards[uuid] = GPUShare(old.util_percent + util, used, None, share, index)
    if fields.details:
        _add_command(gathered, command, process, CommandShare(count, memory, 0.0, None), fields)
    return count


def _add_command(
    gathered: _Gathered, command: str, process: dict[str, Any], more: CommandShare, fields: Strict
) -> None:
    """Add a process to what its job runs under this name; ``more``: without its percentages."""
    old = gathered.commands.get(command, CommandShare(0, 0, 0.0, None))
    util = max(0.0, fields.number(process, "cpu_util")) if "cpu_util" in process else None
    gathered.commands[command] = CommandShare(
        old.processes + more.processes,
        min(old.memory_kib + more.memory_kib, sonar_fields.LARGEST),
        old.cpu_avg_percent + max(0.0, fields.number(process, "cpu_avg")),
        old.cpu_util_percent if util is None else (old.cpu_util_percent or 0.0) + util,
    )


def _process_cards(
    process: dict[str, Any], node: str, fields: Strict
) -> Iterator[tuple[str, float, int, float | None, int | None]]:
    """Each card that a process uses: its uuid, percent, KiB; with details percent of its memory, and index."""
    for gpu in fields.items(process, "gpus"):
        try:
            uuid = card_id(gpu, node)
        except MalformedError as error:
            fields.drop("gpus", error)
        else:
            has_memory = fields.details and "gpu_memory_util" in gpu
            memory_util = max(0.0, fields.number(gpu, "gpu_memory_util")) if has_memory else None
            index = fields.uint(gpu, "index") if fields.details else None
            yield uuid, max(0.0, fields.number(gpu, "gpu_util")), fields.uint(gpu, "gpu_memory"), memory_util, index


def card_id(card: dict[str, Any], node: str) -> str:
    """
    What a card is known by, in samples and sysinfo alike.

    AMD's cards have no uuid before Sonar 0.16, which has no node with cards of two makers either: the index tells them.
    """
    return sonar_fields.text(card, "uuid") or f"{node}/{sonar_fields.uint(card, 'index')}"


def _share_power(
    reading: Reading, entries: list[Any], node: str, jobs: dict[SampledKey, _Gathered], fields: Strict
) -> None:
    """Divide what each card drew among those who used it: by their use of it, alike when none shows."""
    if not any(job.cards for job in jobs.values()):
        return
    # Percent of each card of those who use it: processes of no job, and jobs.
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
    """The node and its devices. What is absent of the node is 0 (the format leaves zeros out)."""
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
        "ce_util_percent": float(fields.uint(card, "ce_util")),
        "memory_util_percent": float(fields.uint(card, "memory_util")),
        "memory_kib": float(fields.uint(card, "memory")),
        "failing": float(fields.uint(card, "failing")),
    }
    # Of these, zero is what a card says that cannot tell.
    for key, measure in (
        ("fan", "fan_percent"),
        ("power", "power_w"),
        ("power_limit", "power_limit_w"),
        ("ce_clock", "ce_clock_mhz"),
        ("memory_clock", "memory_clock_mhz"),
    ):
        value = fields.uint(card, key)
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
    """Of the kernel's counters (Documentation/admin-guide/iostats) what was moved, and how long it was busy."""
    if len(stats) < 10:
        raise MalformedError("disks has too few stats")
    return {
        "read_kib": float(stats[2] * _SECTOR_BYTES // 1024),
        "written_kib": float(stats[6] * _SECTOR_BYTES // 1024),
        "busy_ms": float(stats[9]),
    }
