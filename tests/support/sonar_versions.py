"""
Envelopes in the form of each released Sonar, from 0.13 on, with our own values.

What differs (Sonar's change log, its ``types.go`` and what its source emits at each version):

* 0.13 to 0.15: ``software`` and no ``numa_nodes``; cards of AMD have no uuid; the daemon may send only what has changed
  of a Slurm job, without its state; ReqMem is never there; no ``requested_resources``, but ``gres_detail``.
* 0.16: no ``software``, ``topo_text``; synthesized uuids; requested and allocated resources (scontrol).
* up to 0.16: "None assigned" for the nodes of every pending job.
* 0.17: several envelopes for one list of jobs; load averages, disks, boot, data read and written.
* 0.18: ``in_container``, threads; synthetic pids of rolled-up processes.
* from 0.16 on the cluster is left out where it is not configured.
* the written specification says ``jobs`` where the programs say ``job``.
"""

from __future__ import annotations

import copy
from typing import Any

VERSIONS = ("0.13.2", "0.14.0", "0.15.0", "0.16.1", "0.17.0", "0.18.2", "0.19.0-devel")
START, END = "2026-11-20T11:00:00+01:00", "2026-11-20T11:30:00+01:00"
ASKED = "2026-11-20T11:40:00+01:00"


def number(version: str) -> int:
    """16 of 0.16.1."""
    return int(version.split(".")[1])


def enveloped(version: str, kind: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes with what every envelope has."""
    meta = {"producer": "sonar", "version": version}
    return {"meta": meta, "data": {"type": kind, "attributes": {"time": ASKED, "cluster": "fram", **attributes}}}


def sysinfo(version: str) -> dict[str, Any]:
    """A node with a card of AMD, which has no uuid of its own."""
    card: dict[str, Any] = {"index": 0, "uuid": "", "manufacturer": "AMD", "model": "MI250", "memory": 67108864}
    attributes: dict[str, Any] = {
        "time": "2026-11-20T09:00:00+01:00", "node": "c1-7", "os_name": "Linux", "os_release": "5.14.0", "sockets": 2,
        "cores_per_socket": 32, "threads_per_core": 2, "cpu_model": "AMD EPYC 7543", "architecture": "x86_64",
        "memory": 527000000, "cards": [card],
    }  # fmt: skip
    if number(version) < 16:
        attributes["software"] = [{"key": "rocm", "name": "ROCm", "version": "6.1"}]
    else:
        card["uuid"] = "c1-7/1795000000/0"
        attributes |= {"topo_text": "TWFjaGluZQ==", "numa_nodes": 2, "distances": [[10, 32], [32, 10]]}
    return enveloped(version, "sysinfo", attributes)


def sample(version: str, minute: int) -> dict[str, Any]:
    """Job 71 on the node, with a process that uses the card; one process group; kernel threads."""
    gpu = {"index": 0, "uuid": "" if number(version) < 16 else "c1-7/1795000000/0", "gpu_util": 80, "gpu_memory": 4096}
    process: dict[str, Any] = {
        "resident_memory": 200000,
        "virtual_memory": 300000,
        "cmd": "python3",
        "pid": 4242,
        "ppid": 4200,
        "cpu_avg": 95.5,
        "cpu_time": 60 * minute,
        "gpus": [gpu],
    }
    card = {"fan": 30, "compute_mode": "Default", "performance_state": 2, "power": 250, "ce_util": 80}
    if number(version) >= 16:
        card["uuid"] = gpu["uuid"]
    system: dict[str, Any] = {"cpus": [100 * minute] * 4, "gpus": [card], "used_memory": 9000000}
    if number(version) >= 17:
        stats = [9, 0, 2048, 0, 9, 0, 4096, 0, 0, 500, 0]
        disk = {"name": "sda", "major": 8, "minor": 0, "stats": stats}
        system |= {"load1": 4.5, "load5": 4.0, "load15": 3.5, "runnable_entities": 5, "existing_entities": 900}
        system |= {"boot": "2026-11-01T00:00:00+01:00", "disks": [disk]}
        process |= {"data_read": 10 * minute, "data_written": 5 * minute}
    if number(version) >= 18:
        process |= {"num_threads": 7, "in_container": True}
    slurm = {"job": 71, "user": "ada", "processes": [process]}
    other = {"job": 900, "user": "root", "epoch": 215480000, "processes": [{"cmd": "sshd", "pid": 900, "ppid": 1}]}
    none = {
        "job": 0,
        "user": "_user_0",
        "epoch": 215480000,
        "processes": [{"cmd": "kworker/0:1", "pid": 17, "ppid": 2}],
    }
    at = {"time": f"2026-11-20T11:{minute:02d}:00+01:00", "node": "c1-7"}
    return enveloped(version, "sample", {**at, "system": system, "jobs": [slurm, other, none]})


def jobs(version: str) -> list[dict[str, Any]]:
    """A finished job with a step, a pending one, an element of an array: in one envelope, or from 0.17 in several."""
    main: dict[str, Any] = {
        "job_id": 71,
        "job_name": "fit",
        "job_state": "COMPLETED",
        "user_name": "ada",
        "account": "nn9999k",
        "submit_time": "2026-11-20T10:59:00+01:00",
        "time_limit": 7202,
        "partition": "accel",
        "nodes": ["c1-7"],
        "priority": 4294901761,
        "distribution": "Unknown",
        "requested_cpus": 8,
        "requested_node_count": 1,
        "start_time": START,
        "end_time": END,
        "sacct": {
            "AllocTRES": "billing=8,cpu=8,gres/gpu=1,mem=16G,node=1",
            "ElapsedRaw": 1800,
            "SystemCPU": 60,
            "UserCPU": 1740,
        },
    }
    step = {
        "job_id": 71,
        "job_step": "batch",
        "job_name": "batch",
        "job_state": "COMPLETED",
        "account": "nn9999k",
        "submit_time": START,
        "nodes": ["c1-7"],
        "start_time": START,
        "end_time": END,
        "sacct": {"AllocTRES": "cpu=8,mem=16G,node=1", "AveCPU": 1800, "MaxRSS": 3200000, "MaxVMSize": 5200000},
    }
    pending: dict[str, Any] = {
        "job_id": 72, "job_name": "later", "job_state": "PENDING", "user_name": "bob", "account": "nn9999k",
        "submit_time": "2026-11-20T11:10:00+01:00", "time_limit": 1, "partition": "accel", "priority": 12,
        "requested_cpus": 64, "requested_node_count": 4,
    }  # fmt: skip
    element = copy.deepcopy(main) | {"job_id": 74, "job_name": "many", "array_job_id": 73, "array_task_id": 4}
    changed = {"job_id": 72, "priority": 22, "requested_cpus": 64}
    if number(version) <= 16:
        pending["nodes"] = ["None assigned"]
    if number(version) < 16:
        main["gres_detail"] = []
    else:
        main |= {"allocated_resources": main["sacct"]["AllocTRES"], "requested_memory_per_node": 16777216}
        pending["requested_resources"] = "cpu=64,mem=256G,node=4,gres/gpu=4"
    all_of_them = [main, step, pending, element]
    if number(version) < 15:
        later = enveloped(version, "jobs", {"time": "2026-11-20T11:50:00+01:00", "slurm_jobs": [changed]})
        return [enveloped(version, "jobs", {"slurm_jobs": all_of_them}), later]
    if number(version) < 17:
        return [enveloped(version, "job", {"slurm_jobs": all_of_them})]
    return [enveloped(version, "job", {"slurm_jobs": [one]}) for one in all_of_them]


def cluster(version: str) -> dict[str, Any]:
    """The nodes and their partition."""
    attributes = {
        "slurm": True,
        "partitions": [{"name": "accel", "nodes": ["c1-[7-8]"]}],
        "nodes": [{"names": ["c1-[7-8]"], "states": ["MIXED"]}],
    }
    return enveloped(version, "cluster", attributes)


def errors(version: str) -> dict[str, Any]:
    """A probe that failed."""
    detail = {"detail": "sacct: error", "time": ASKED, "cluster": "fram", "node": "login-1"}
    return {"meta": {"producer": "sonar", "version": version}, "errors": [detail]}


def everything(version: str) -> list[dict[str, Any]]:
    """One day of a version."""
    samples = [sample(version, minute) for minute in (5, 15, 25)]
    return [sysinfo(version), cluster(version), *samples, *jobs(version), errors(version)]
