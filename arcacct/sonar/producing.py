"""What this host is, as Sonar tells it, once a day and after each boot."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
from typing import Any

import psutil

from arcacct.sonar import cards
from arcacct.sonar.telling import Host, with_content

Fields = dict[str, Any]


def sysinfo(host: Host, *, topology: bool = False) -> Fields:
    """What this host is. Raises OSError, ValueError or LookupError when it cannot be told."""
    system = os.uname()
    sockets, cores, threads, model = cpu_layout(host)
    distances = numa_distances(host)
    smi = cards.program()
    return with_content(
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
            "cards": [{"index": 0} | with_content(card) for card in cards.cards(smi)] if smi else [],
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
