"""Something of every field of the documents that arcacct is made by, imported: what columns have a value then."""

from __future__ import annotations

import json
import pathlib
import sqlite3
from contextlib import closing
from typing import Any

import arex_corpus as corpus
from gridengine_files import changed_json, json_line
from installed import arcacct, configured

NODE = {"cluster": "c", "node": "n1"}
UUID = {"index": 0, "uuid": "GPU-1"}


def _at(minute: int) -> str:
    return f"2026-11-20T10:{minute:02}:00Z"


def _envelope(kind: str, attributes: dict[str, Any]) -> str:
    meta = {"producer": "sonar", "version": "0.18.0", "format": 0}
    return json.dumps({"meta": meta, "data": {"type": kind, "attributes": attributes}})


def sysinfo() -> str:
    """A node with a card and a software."""
    texts = {"address": "00:01", "manufacturer": "NVIDIA", "model": "A100", "architecture": "Ampere"}
    limits = {"power_limit": 300, "max_power_limit": 400, "min_power_limit": 100}
    clocks = {"max_ce_clock": 1400, "max_memory_clock": 1500}
    card = UUID | texts | {"driver": "1", "firmware": "2", "memory": 1000} | limits | clocks
    system = {"os_name": "Linux", "os_release": "6", "architecture": "x86_64", "cpu_model": "CPU", "memory": 4096}
    shape = {"sockets": 1, "cores_per_socket": 2, "threads_per_core": 2, "topo_svg": "PHN2Zz4="}
    software = {"key": "k", "name": "n", "version": "1"}
    return _envelope("sysinfo", {"time": _at(0), **NODE, **system, **shape, "cards": [card], "software": [software]})


def sample(minute: int) -> str:
    """What the node does, with a job on its card."""
    state = {"failing": 0, "fan": 50, "compute_mode": "Default", "performance_state": 2, "temperature": 40}
    use = {"memory": 700, "ce_util": 80, "memory_util": 70, "power": 200, "power_limit": 300}
    card = UUID | state | use | {"ce_clock": 1300, "memory_clock": 1400}
    on_card = UUID | {"gpu_util": 80.0, "gpu_memory": 500, "gpu_memory_util": 50.0}
    process: dict[str, Any] = {"resident_memory": 1000, "virtual_memory": 2000, "cmd": "run", "pid": 100, "ppid": 1}
    process |= {"cpu_avg": 50.0, "cpu_util": 60.0, "cpu_time": 30 * minute, "rolledup": 1, "gpus": [on_card]}
    system = {"cpus": [minute * 30, minute * 10], "gpus": [card], "used_memory": 1000}
    job = {"job": 77, "user": "u", "epoch": 0, "processes": [process]}
    return _envelope("sample", {"time": _at(minute), **NODE, "system": system, "jobs": [job]})


def slurm_job() -> str:
    """The same job as Slurm tells of it."""
    numbers = {"job_id": 77, "job_step": "", "array_job_id": 70, "array_task_id": 7, "het_job_id": 60}
    texts = {"job_name": "j", "job_state": "COMPLETED", "user_name": "u", "account": "a", "partition": "p"}
    further = {"reservation": "r", "nodes": ["n1"], "distribution": "block", "gres_detail": ["gpu:1"], "exit_code": 1}
    times = {"submit_time": _at(0), "start_time": _at(0), "end_time": _at(9), "suspend_time": 1, "time_limit": 10}
    asked = {"requested_cpus": 2, "minimum_cpus_per_node": 2, "requested_memory_per_node": 1000}
    amounts = {"het_job_offset": 1, "priority": 3, "requested_node_count": 1}
    names = ("MinCPU", "AveCPU", "AveDiskRead", "AveDiskWrite", "AveRSS", "AveVMSize", "SystemCPU", "UserCPU")
    sacct = {name: 4096 + place for place, name in enumerate((*names, "MaxRSS", "MaxVMSize"))}
    sacct |= {"SystemCPU": 7, "UserCPU": 8, "ElapsedRaw": 540}
    job = numbers | texts | further | times | asked | amounts | {"sacct": {**sacct, "AllocTRES": "cpu=2,gres/gpu=1"}}
    return _envelope("jobs", {"time": _at(10), "cluster": "c", "slurm_jobs": [job]})


def filled(folder: pathlib.Path, asked: dict[str, str]) -> set[str]:
    """Those of some names for which a query finds a row: in A-REX's real jobs, or in what is made here."""
    conf = configured(folder)
    lines = [sysinfo(), *map(sample, range(9)), slurm_job()]
    (folder / "telemetry.json").write_text("\n".join(lines) + "\n")
    usage = json.loads(json_line())["usage"]
    usage["eusage"]["maxpss"] = 4096
    usage["site"] = {"bonus": 2.5, "class": "gold"}
    (folder / "accounting.jsonl").write_bytes(changed_json(json_line(), usage=usage))
    data = pathlib.Path(__file__).parent.parent / "data"
    for words in (
        ("gridengine", folder / "accounting.jsonl", data / "gridengine" / "accounting.sge819-real"),
        ("sonar", "--records", "--details", folder / "telemetry.json", *sorted((data / "sonar").glob("real-*.json"))),
    ):
        assert arcacct("--config", conf, "import", *words).returncode == 0
    database = folder / "control" / "accounting" / "arcacct" / "accounting.db"
    with (
        closing(sqlite3.connect(database)) as con,
        closing(corpus.replayed(corpus.rebuild(folder / "arex"))) as of_arex,
    ):
        return {name for name, query in asked.items() if any(one.execute(query).fetchone() for one in (con, of_arex))}
