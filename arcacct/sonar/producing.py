"""
Envelopes as Sonar writes them, of this host: what it is (``sysinfo``) and what it does (``sample``).

Zeros, empty texts and empty lists are left out, as Sonar does; what our reader of Sonar's format takes for granted
holds here (a test reads back what this writes).
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NamedTuple

import psutil

from arcacct import __version__
from arcacct.sonar import cards
from arcacct.sonar.proc import Process, processes

_EPOCH = 1577836800
"""2020-01-01: what Sonar counts boots from."""
_FIRST_USER = 1000
_LARGEST_DEPTH = 64

Fields = dict[str, Any]


class Host(NamedTuple):
    """Where this host tells about itself, and what it is called."""

    cluster: str = ""
    node: str = ""
    proc: str = "/proc"
    sys: str = "/sys"

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node or socket.gethostname()


def line(probe: Callable[[], Fields], kind: str, host: Host) -> tuple[str, bool]:
    """
    One envelope as one line of JSON, and whether the probe succeeded.

    A probe that fails makes an errors envelope: whoever reads the stream learns why there is nothing.
    """
    # Python's 0.1.dev3 or 0.1 as a semantic version.
    numbers = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", __version__)
    version = ".".join(part or "0" for part in numbers.groups()) if numbers is not None else "0.0.0"
    meta = {"producer": "arcacct", "version": version}
    try:
        attributes = _with_content({"time": now(), "cluster": host.cluster, "node": host.name}) | probe()
        found: Fields = {"meta": meta, "data": {"type": kind, "attributes": attributes}}
    except (OSError, ValueError, LookupError, psutil.Error) as error:
        complaint = {"detail": f"{kind}: {error}", "time": now(), "cluster": host.cluster, "node": host.name}
        found = {"meta": meta, "errors": [_with_content(complaint)]}
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False), "data" in found


def now() -> str:
    """This moment with its offset, whole seconds."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


def _with_content(fields: Fields) -> Fields:
    return {key: value for key, value in fields.items() if value not in (0, "", [], {}, None, False)}


def sysinfo(host: Host, *, topology: bool = False) -> Fields:
    """What this host is. Raises OSError, ValueError or LookupError when it cannot be told."""
    system = os.uname()
    sockets, cores, threads, model = cpu_layout(host)
    distances = numa_distances(host)
    smi = cards.program()
    return _with_content(
        {
            "os_name": system.sysname,
            "os_release": system.release,
            "numa_nodes": len(distances),
            "sockets": sockets,
            "cores_per_socket": cores,
            "threads_per_core": threads,
            "cpu_model": model,
            "architecture": system.machine,
            "memory": psutil.virtual_memory().total // 1024,
            "distances": distances,
            "topo_text": _topology() if topology else "",
            "cards": [{"index": 0} | _with_content(card) for card in cards.cards(smi)] if smi else [],
        }
    )


def cpu_layout(host: Host) -> tuple[int, int, int, str]:
    """Sockets, cores of each, threads of each core, and the model, as /proc/cpuinfo has them."""
    blocks = []
    for text in _text(f"{host.proc}/cpuinfo").split("\n\n"):
        pairs = (one.partition(":") for one in text.splitlines())
        blocks.append({key.strip(): value.strip() for key, _, value in pairs})
    cpus = [block for block in blocks if "processor" in block]
    if not cpus:
        raise ValueError(f"{host.proc}/cpuinfo lists no processor")
    first = cpus[0]
    if "physical id" not in first or "cpu cores" not in first:
        # Other architectures than x86 tell neither sockets nor threads.
        return 1, len(cpus), 1, first.get("model name", "") or f"ARMv{first.get('CPU architecture', '?')}"
    sockets = len({cpu.get("physical id") for cpu in cpus})
    cores, siblings = int(first["cpu cores"]), int(first.get("siblings", first["cpu cores"]))
    return sockets, cores, max(1, siblings // cores), first.get("model name", "")


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def numa_distances(host: Host) -> list[list[int]]:
    """The matrix between NUMA nodes; empty where the kernel has none."""
    folder = f"{host.sys}/devices/system/node"
    try:
        names = [name for name in os.listdir(folder) if re.fullmatch(r"node\d+", name)]
        names.sort(key=lambda name: int(name[4:]))
        return [[int(word) for word in _text(f"{folder}/{name}/distance").split()] for name in names]
    except FileNotFoundError:
        return []


def _topology() -> str:
    program = shutil.which("lstopo-no-graphics") or shutil.which("hwloc-ls")
    if program is None:
        return ""
    try:
        done = subprocess.run([program, "--of", "console"], capture_output=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return base64.b64encode(done.stdout).decode("ascii")


def sample(host: Host, *, system_jobs: bool = True, variable: str | None = None) -> Fields:
    """
    What this host does: its load, cards and disks, its jobs and their processes.

    ``system_jobs`` False leaves out the processes of system accounts; ``variable`` as in `proc.processes`.
    """
    smi = cards.program()
    used = cards.users(smi) if smi else {}
    found = list(processes(host.proc, variable=variable))
    boot = boot_time(host)
    return {
        "system": _system(host, boot, cards.states(smi) if smi else []),
        "jobs": _jobs(found, boot, used, system_jobs=system_jobs),
    }


def boot_time(host: Host) -> int:
    """When the kernel booted: from /proc/stat, since other ways jitter by a second."""
    for one in _text(f"{host.proc}/stat").splitlines():
        if one.startswith("btime "):
            return int(one.split()[1])
    raise ValueError(f"{host.proc}/stat has no btime")


def _system(host: Host, boot: int, gpus: list[Fields]) -> Fields:
    memory = psutil.virtual_memory()
    load1, load5, load15, entities, *_ = _text(f"{host.proc}/loadavg").split()
    running, _, existing = entities.partition("/")
    return _with_content(
        {
            "boot": datetime.fromtimestamp(boot).astimezone().isoformat(timespec="seconds"),
            "cpus": [
                int(cpu.user + cpu.nice + cpu.system + cpu.irq + cpu.softirq) for cpu in psutil.cpu_times(percpu=True)
            ],
            "gpus": gpus,
            "disks": _disks(host),
            "used_memory": (memory.total - memory.available) // 1024,
            "load1": float(load1),
            "load5": float(load5),
            "load15": float(load15),
            "runnable_entities": int(running),
            "existing_entities": int(existing),
        }
    )


def _disks(host: Host) -> list[Fields]:
    """The kernel's counters of whole disks; partitions would count everything twice."""
    found = []
    for one in _text(f"{host.proc}/diskstats").splitlines():
        major, minor, name, *stats = one.split()
        if os.path.isdir(f"{host.sys}/block/{name}"):
            numbers = [int(word) for word in stats]
            found.append({"name": name, "major": int(major), "minor": int(minor), "stats": numbers})
    return found


def _jobs(found: list[Process], boot: int, used: dict[int, list[Fields]], *, system_jobs: bool) -> list[Fields]:
    """The processes by job: a batch job, or a process group since this boot; each without a group stands alone."""
    by_pid = {process.pid: process for process in found}
    uptime = datetime.now().timestamp() - boot
    jobs: dict[tuple[object, ...], Fields] = {}
    for process in found:
        if not system_jobs and process.uid < _FIRST_USER and process.batch_job is None:
            continue
        batch = process.batch_job
        job = batch if batch is not None else process.group
        key = (job, process.user) if job else (0, process.pid)
        if key not in jobs:
            epoch = {"epoch": boot - _EPOCH} if batch is None else {}
            jobs[key] = {"job": job, "user": process.user, **epoch, "processes": []}
        jobs[key]["processes"].append(_entry(process, by_pid, uptime, used.get(process.pid, [])))
    return list(jobs.values())


def _entry(process: Process, by_pid: dict[int, Process], uptime_s: float, gpus: Iterable[Fields]) -> Fields:
    alive = max(uptime_s - process.start_s, 0.01)
    return _with_content(
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


def _in_container(process: Process, by_pid: dict[int, Process]) -> bool:
    """Whether a container's supervisor, which itself belongs to init, is among its ancestors."""
    for _ in range(_LARGEST_DEPTH):
        parent = by_pid.get(process.ppid)
        if parent is None:
            return False
        if parent.command.startswith("containerd") and parent.ppid == 1:
            return True
        process = parent
    return False
