"""
What this host does, as Sonar samples it: its load, cards and disks, its jobs and their processes.

What this imports is counted (`arcacct.sonar.lean`).
"""

import os
import time

from arcacct.sonar import cards
from arcacct.sonar.proc import TICKS, name_jobs, processes, read_bytes
from arcacct.sonar.telling import moment, now, with_content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcacct.sonar.proc import Process
    from arcacct.sonar.telling import Fields, Host

_EPOCH = 1577836800
"""2020-01-01: what Sonar counts boots from."""
_FIRST_USER = 1000
_LARGEST_DEPTH = 64
_LARGEST_FILE = 16 * 1024 * 1024
_BUSY = (0, 1, 2, 5, 6)
"""Of the times in /proc/stat: user, nice, system, irq, softirq."""


def sample(host: "Host", *, system_jobs: bool = True, variable: "str | None" = None) -> "Fields":
    """
    The attributes of a sample.

    ``system_jobs`` False leaves out the processes of system accounts; ``variable`` as in `proc.processes`. Raises
    OSError, ValueError or LookupError when the host cannot tell.
    """
    smi = cards.program()
    used = cards.users(smi) if smi else {}
    found = list(processes(host.proc, variable=variable))
    unnamed = name_jobs(found, host.proc)
    stat = _text(f"{host.proc}/stat")
    boot = boot_time(stat)
    sampled: Fields = {
        "system": _system(host, stat, boot, cards.states(smi) if smi else []),
        "jobs": _jobs(found, boot, used, system_jobs=system_jobs),
    }
    if unnamed:
        detail = (
            f"Slurm jobs of unknown number: {unnamed}. Their cgroups are named by SLUID, and neither the title of"
            " slurmstepd nor SLURM_JOB_ID can be read; run as root, or set CgroupJobIdPaths=yes in cgroup.conf"
        )
        sampled["errors"] = [{"detail": detail, "time": now()}]
    return sampled


def _text(path: str) -> str:
    """A file of the kernel's, whole: one read may end with a page."""
    parts, fd = [], os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while part := os.read(fd, _LARGEST_FILE):
            parts.append(part)
    finally:
        os.close(fd)
    return b"".join(parts).decode("utf-8", "replace")


def boot_time(stat: str) -> int:
    """When the kernel booted: from /proc/stat, since other ways jitter by a second."""
    for one in stat.splitlines():
        if one.startswith("btime "):
            return int(one.split()[1])
    raise ValueError("/proc/stat has no btime")


def _system(host: "Host", stat: str, boot: int, gpus: "list[Fields]") -> "Fields":
    load1, load5, load15, entities, *_ = read_bytes(f"{host.proc}/loadavg").decode().split()
    running, _, existing = entities.partition("/")
    memory = dict(one.split()[:2] for one in _text(f"{host.proc}/meminfo").splitlines())
    cpus = [one.split()[1:] for one in stat.splitlines() if one[:3] == "cpu" and one[3:4].isdigit()]
    return with_content(
        {
            "boot": moment(boot),
            "cpus": [int(sum([int(times[place]) for place in _BUSY]) / TICKS) for times in cpus],
            "gpus": gpus,
            "disks": _disks(host),
            "used_memory": int(memory["MemTotal:"]) - int(memory["MemAvailable:"]),
            "load1": float(load1),
            "load5": float(load5),
            "load15": float(load15),
            "runnable_entities": int(running),
            "existing_entities": int(existing),
        }
    )


def _disks(host: "Host") -> "list[Fields]":
    """The kernel's counters of whole disks; partitions would count everything twice."""
    found = []
    for one in _text(f"{host.proc}/diskstats").splitlines():
        major, minor, name, *stats = one.split()
        # Disks that never did anything: there are dozens of ram0 and loop0.
        if any(number != "0" for number in stats) and os.path.isdir(f"{host.sys}/block/{name}"):
            numbers = [int(word) for word in stats]
            found.append({"name": name, "major": int(major), "minor": int(minor), "stats": numbers})
    return found


def _jobs(found: "list[Process]", boot: int, used: "dict[int, list[Fields]]", *, system_jobs: bool) -> "list[Fields]":
    """The processes by job: a batch job, or a process group since this boot; each without a group stands alone."""
    by_pid = {process.pid: process for process in found}
    uptime = time.time() - boot
    jobs: dict[tuple[object, ...], Fields] = {}
    for process in found:
        if not system_jobs and process.uid < _FIRST_USER and process.batch_job is None:
            continue
        batch = process.batch_job
        job = batch if batch is not None else process.group
        key = (job, process.batch_task, process.user) if job else (0, process.pid)
        if key not in jobs:
            epoch = {"epoch": boot - _EPOCH} if batch is None else {}
            task = {"array_task_id": process.batch_task} if process.batch_task else {}
            jobs[key] = {"job": job, **task, "user": process.user, **epoch, "processes": []}
        jobs[key]["processes"].append(_entry(process, by_pid, uptime, used.get(process.pid, [])))
    return list(jobs.values())


def _entry(process: "Process", by_pid: "dict[int, Process]", uptime_s: float, gpus: "Iterable[Fields]") -> "Fields":
    alive = max(uptime_s - process.start_s, 0.01)
    return with_content(
        {
            "resident_memory": process.resident_kib,
            "virtual_memory": process.data_kib,
            "data_read": -(-process.read_bytes // 1024),
            "data_written": -(-process.written_bytes // 1024),
            "data_cancelled": -(-process.cancelled_bytes // 1024),
            "cmd": process.command,
            "pid": process.pid,
            "ppid": process.ppid,
            "num_threads": max(0, process.threads - 1),
            "cpu_avg": round(100 * process.own_cpu_s / alive, 1),
            "cpu_time": round(process.cpu_s),
            "in_container": _in_container(process, by_pid),
            "gpus": list(gpus),
        }
    )


def _in_container(process: "Process", by_pid: "dict[int, Process]") -> bool:
    """Whether a container's supervisor, which itself belongs to init, is among its ancestors."""
    for _ in range(_LARGEST_DEPTH):
        parent = by_pid.get(process.ppid)
        if parent is None:
            return False
        if parent.command.startswith("containerd") and parent.ppid == 1:
            return True
        process = parent
    return False
