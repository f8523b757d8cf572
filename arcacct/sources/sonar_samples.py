"""
One sample of a node, reduced to what accounting keeps of it: counters of processes by job, readings of the node.

Of a job's processes only running totals are kept (CPU, bytes), and sums over the processes for what is a reading
(memory); commands, percentages and single threads are left behind here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from arcacct.sources import sonar_fields as field
from arcacct.sources.sonar_fields import MalformedError

Counters = tuple[int, int, int, int]
"""Parent's pid, CPU seconds, KiB read, KiB written: the last three only grow while a process lives."""
Reading = dict[str, dict[str, float | str]]
"""By device ('' is the node, a card by uuid, ``disk:NAME``) and measure."""


class CardShare(NamedTuple):
    """What a job did on one GPU at the moment of a sample."""

    util_percent: float
    memory_kib: int
    power_w: float | None
    """Its share of what the card drew; ``None`` when the card was not read."""


class JobKey(NamedTuple):
    """
    A job of a cluster, over all its nodes (``epoch`` 0), or a process group of one node since it booted.

    Two process groups with the same key are one unless more than two hours lie between their samples.
    """

    job: int
    epoch: int


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
    cards: dict[str, CardShare]


class Sample(NamedTuple):
    """A node at a moment."""

    time: int
    cluster: str
    node: str
    reading: Reading
    jobs: dict[JobKey, JobSnapshot]
    errors: tuple[tuple[int, str], ...]
    """Time and text of what the probe could not read."""


def sample(value: dict[str, Any]) -> Sample:
    """The attributes of a sample envelope. Raises MalformedError."""
    time = field.timestamp(value, "time")
    system = field.inside(value, "system")
    entries = field.items(value, "jobs")
    reading = _reading(system) if system is not None else {}
    jobs, processes = _jobs(entries)
    node = reading.setdefault("", {})
    # A heartbeat is a sample too: idle is not the same as absent.
    node["processes"] = float(processes)
    node["jobs"] = float(len(jobs))
    _share_power(reading, entries, jobs)
    return Sample(
        time,
        field.text(value, "cluster"),
        field.name(value, "node"),
        reading,
        {key: gathered.snapshot() for key, gathered in jobs.items()},
        tuple((field.moment(one, "time") or time, field.name(one, "detail")) for one in field.items(value, "errors")),
    )


class _Gathered:
    """The processes of one job while its entries are read: the same job may come twice, with other users."""

    __slots__ = ("cancelled", "cards", "container", "memory", "processes", "threads", "total", "user", "virtual")

    def __init__(self, user: str) -> None:
        self.user = user
        self.processes: dict[str, Counters] = {}
        self.total = self.threads = self.memory = self.virtual = self.cancelled = 0
        self.container = False
        self.cards: dict[str, CardShare] = {}

    def snapshot(self) -> JobSnapshot:
        return JobSnapshot(
            self.user,
            self.processes,
            self.total,
            self.threads,
            self.memory,
            self.virtual,
            self.cancelled,
            self.container,
            self.cards,
        )


def _jobs(entries: list[dict[str, Any]]) -> tuple[dict[JobKey, _Gathered], int]:
    found: dict[JobKey, _Gathered] = {}
    processes = 0
    for entry in entries:
        key = JobKey(field.uint(entry, "job"), field.uint(entry, "epoch"))
        user = field.text(entry, "user")
        # Job 0 is no job: kernel threads and the like, each on its own (seed). They count for the node alone.
        gathered = found.get(key) or _Gathered(user)
        gathered.user = min(gathered.user, user)
        for process in field.items(entry, "processes"):
            processes += _add_process(gathered, process)
        if key.job:
            found[key] = gathered
    return found, processes


def _add_process(gathered: _Gathered, process: dict[str, Any]) -> int:
    """Add a process (or several, rolled up) to its job; how many it stands for."""
    uint = field.uint
    pid, ppid = uint(process, "pid"), uint(process, "ppid")
    count = 1 + max(0, field.integer(process, "rolledup")) if "rolledup" in process else 1
    command = field.text(process, "cmd")
    # Not by command: exec changes it, and a zombie's has an annotation, while the counters go on.
    key = str(pid) if pid else f"{ppid}/{command}"
    counters = uint(process, "cpu_time"), uint(process, "data_read"), uint(process, "data_written")
    before = gathered.processes.get(key)
    if before is not None:
        counters = before[1] + counters[0], before[2] + counters[1], before[3] + counters[2]
    gathered.processes[key] = (ppid, *counters)
    gathered.total += count
    # Sonar sends threads minus one.
    gathered.threads += count + uint(process, "num_threads")
    gathered.memory += uint(process, "resident_memory")
    gathered.virtual += uint(process, "virtual_memory")
    gathered.cancelled += uint(process, "data_cancelled")
    if "in_container" in process:
        gathered.container |= field.flag(process, "in_container")
    for gpu in field.items(process, "gpus") if "gpus" in process else ():
        uuid = field.name(gpu, "uuid")
        old = gathered.cards.get(uuid, CardShare(0.0, 0, None))
        util, memory = field.number(gpu, "gpu_util"), uint(gpu, "gpu_memory")
        gathered.cards[uuid] = CardShare(old.util_percent + util, old.memory_kib + memory, None)
    return count


def _share_power(reading: Reading, entries: list[dict[str, Any]], jobs: dict[JobKey, _Gathered]) -> None:
    """Divide what each card drew among those who used it: by their use of it, alike when none shows."""
    users: dict[str, list[float]] = {}
    for entry in entries:
        if entry.get("job"):
            continue
        for process in field.items(entry, "processes"):
            for gpu in field.items(process, "gpus") if "gpus" in process else ():
                users.setdefault(field.name(gpu, "uuid"), []).append(field.number(gpu, "gpu_util"))
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


def _reading(system: dict[str, Any]) -> Reading:
    """The node and its devices. What is absent of the node is 0 (the format leaves zeros out)."""
    cpus = field.uints(system, "cpus")
    node: dict[str, float | str] = {
        "used_memory_kib": float(field.uint(system, "used_memory")),
        "load1": field.number(system, "load1"),
        "load5": field.number(system, "load5"),
        "load15": field.number(system, "load15"),
        "runnable_entities": float(field.uint(system, "runnable_entities")),
        "existing_entities": float(field.uint(system, "existing_entities")),
    }
    boot = field.moment(system, "boot")
    if boot is not None:
        node["boot"] = float(boot)
    if cpus:
        node["cores"] = float(len(cpus))
        node["cpu_busy_s"] = float(sum(cpus))
    found: Reading = {"": node}
    for card in field.items(system, "gpus"):
        found[field.name(card, "uuid")] = _card(card)
    for disk in field.items(system, "disks"):
        stats = field.uints(disk, "stats")
        if any(stats):
            found[f"disk:{field.name(disk, 'name')}"] = _disk(stats)
    return found


def _card(card: dict[str, Any]) -> dict[str, float | str]:
    found: dict[str, float | str] = {
        "ce_util_percent": float(field.uint(card, "ce_util")),
        "memory_util_percent": float(field.uint(card, "memory_util")),
        "memory_kib": float(field.uint(card, "memory")),
        "failing": float(field.uint(card, "failing")),
    }
    # Of these, zero is what a card says that cannot tell.
    for key, measure in (
        ("fan", "fan_percent"),
        ("power", "power_w"),
        ("power_limit", "power_limit_w"),
        ("ce_clock", "ce_clock_mhz"),
        ("memory_clock", "memory_clock_mhz"),
    ):
        value = field.uint(card, key)
        if value:
            found[measure] = float(value)
    temperature, state = field.integer(card, "temperature"), field.extended(card, "performance_state")
    if temperature:
        found["temperature_c"] = float(temperature)
    if state is not None and state >= 0:
        found["performance_state"] = float(state)
    if mode := field.text(card, "compute_mode"):
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
