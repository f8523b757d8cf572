"""Describe this host and its Slurm cluster as Sonar does."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import psutil

from arcacct.errors import InputError
from arcacct.files.subprocess import printed
from arcacct.records import slurm_formats
from arcacct.sources.sonar import sampler
from arcacct.sources.sonar.sampler import Host, with_content

# Describe this host as Sonar does, once a day and after each boot.


Fields = dict[str, Any]


def sysinfo(host: Host, *, topology: bool = False) -> Fields:
    """
    Return the description of this host. Raises OSError, ValueError or LookupError when the host does not give a value.
    """
    system = os.uname()
    sockets, cores, threads, model = cpu_layout(host)
    distances = numa_distances(host)
    smi = sampler.program()
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
            "cards": [{"index": 0} | with_content(card) for card in sampler.cards(smi)] if smi else [],
        }
    )


def cpu_layout(host: Host) -> tuple[int, int, int, str]:
    """Return sockets, cores of each, threads of each core, and the model, from /proc/cpuinfo."""
    blocks = []
    for text in _text(f"{host.proc}/cpuinfo").split("\n\n"):
        pairs = (one.partition(":") for one in text.splitlines())
        blocks.append({key.strip(): value.strip() for key, _, value in pairs})
    cpus = [block for block in blocks if "processor" in block]
    if not cpus:
        raise ValueError(f"{host.proc}/cpuinfo lists no processor")
    first = cpus[0]
    if "physical id" not in first or "cpu cores" not in first:
        # Architectures other than x86 report neither sockets nor threads.
        return 1, len(cpus), 1, first.get("model name", "") or f"ARMv{first.get('CPU architecture', '?')}"
    sockets = len({cpu.get("physical id") for cpu in cpus})
    cores, siblings = int(first["cpu cores"]), int(first.get("siblings", first["cpu cores"]))
    return sockets, cores, max(1, siblings // cores), first.get("model name", "")


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def numa_distances(host: Host) -> list[list[int]]:
    """Return the matrix between NUMA nodes; empty if the kernel has none."""
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


# Report Slurm's jobs and the cluster as Sonar does, on a host with ``sacct`` and ``sinfo``.
#
# Some values that Sonar loses are kept here: the seconds of CPU times with fractions, special characters in job names,
# states such as PREEMPTED and NODE_FAIL, the runs before a requeue. The format has no signal, so these envelopes have
# none either.


WINDOW_S = 5400
"""The period of a request in seconds, as in Sonar. Ended jobs are reported several times, so that no job is missed."""
TIMEOUT_S = 120.0
JOBS_OF_AN_ENVELOPE = 500

_JOB = (
    *("JobIDRaw", "JobID", "JobName", "State", "User", "Account", "Submit", "TimelimitRaw", "Partition"),
    *("Reservation", "NodeList", "Priority", "Layout", "ReqTRES", "AllocTRES", "ReqCPUS", "ReqMem", "ReqNodes"),
    *("Start", "Suspended", "End", "ExitCode", "ElapsedRaw"),
)
_TIMES = ("MinCPU", "AveCPU", "SystemCPU", "UserCPU")
_SIZES = ("AveDiskRead", "AveDiskWrite", "AveRSS", "AveVMSize", "MaxRSS", "MaxVMSize")
_USAGE = "TRESUsageInTot"
COLUMNS = (*_JOB, *_TIMES, *_SIZES, _USAGE)

_ADDED = 2
"""Added to each ExtendedUint. The value 1 is infinite."""
_FLAGS = {"*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN", "%": "POWERING_DOWN"}
_FLAGS |= {"$": "MAINTENANCE", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": "PLANNED"}
"""The characters that sinfo puts after the state of a node (sinfo(1), NODE STATE CODES)."""

Row = Mapping[str, str]
T = TypeVar("T")


def slurm_jobs(now: int, window_s: int = WINDOW_S, program: str = "sacct") -> list[Fields]:
    """
    Return each job, run and step of the last ``window_s`` seconds in Slurm's accounting, as elements of ``slurm_jobs``.

    Raises OSError when the program fails, ValueError for an output of another form.
    """
    delimiter = slurm_formats.new_delimiter()
    arguments = [program, "--allusers", "--duplicates", "--parsable2", f"--delimiter={delimiter}"]
    arguments += [f"--starttime={_local(now - window_s)}", f"--endtime={_local(now)}", f"--format={','.join(COLUMNS)}"]
    return [slurm_job(row) for row in _with_usage(_rows(_asked(arguments), delimiter))]


def _local(at: int) -> str:
    # The program runs with TZ=UTC.
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _asked(arguments: list[str]) -> str:
    try:
        return b"".join(printed(arguments, slurm_formats.environment(), TIMEOUT_S)).decode("utf-8", "replace")
    except InputError as error:
        raise OSError(str(error)) from error


def _rows(output: str, delimiter: str) -> Iterator[Row]:
    """Yield the rows below the header. A job name in a row may contain newlines, but no delimiter."""
    lines = iter(output.removesuffix("\n").split("\n"))
    header = next(lines).split(delimiter)
    if header != list(COLUMNS):
        raise ValueError(f"sacct printed the columns {','.join(header)[:200]!r}")
    row = ""
    for line in lines:
        row = f"{row}\n{line}" if row else line
        values = row.split(delimiter)
        if len(values) >= len(header):
            yield dict(zip(header, values, strict=True))
            row = ""
    if row:
        raise ValueError(f"sacct printed half of a row: {row[:200]!r}")


def _with_usage(rows: Iterable[Row]) -> Iterator[Row]:
    """
    Yield the rows, with CPU time and memory from another column where needed. A job comes before its steps.

    Slurm 25.05 may have 0 in UserCPU and SystemCPU of a job and its steps. Then TRESUsageInTot, which only steps have,
    has the CPU time. It also has the memory of all tasks, and MaxRSS that of one.
    """
    for own in _jobs(rows):
        of_steps = 0
        for row in own[1:]:
            sampled_us, sampled_kib = slurm_formats.sampled_use(row[_USAGE])
            if (sampled_kib or 0) > (_told(slurm_formats.size_kib, row["MaxRSS"]) or 0):
                row["MaxRSS"] = f"{sampled_kib}K"
            lacking_us = (sampled_us or 0) - _cpu_us(row)
            if lacking_us > 0:
                row["UserCPU"] = _duration((_told(slurm_formats.duration_us, row["UserCPU"]) or 0) + lacking_us)
            of_steps += _cpu_us(row)
        if of_steps and not _cpu_us(own[0]):
            own[0]["UserCPU"] = _duration(of_steps)
        yield from own


def _jobs(rows: Iterable[Row]) -> Iterator[list[dict[str, str]]]:
    """Yield the rows of each run of a job: its own, and those of its steps."""
    own: list[dict[str, str]] = []
    for row in rows:
        if "." not in row["JobIDRaw"] and own:
            yield own
            own = []
        own.append(dict(row))
    if own:
        yield own


def _cpu_us(row: Row) -> int:
    return sum(_told(slurm_formats.duration_us, row[name]) or 0 for name in ("UserCPU", "SystemCPU"))


def _duration(us: int) -> str:
    """Return a duration as sacct prints it."""
    minutes, rest = divmod(us, 60 * 10**6)
    return f"{minutes:02}:{rest // 10**6:02}.{rest % 10**6:06}"


def slurm_job(row: Row) -> Fields:
    """Return one row of sacct as an element of ``slurm_jobs``. Raises ValueError for a row without a number."""
    number, step = slurm_formats.job_number(row["JobIDRaw"])
    sacct = {"AllocTRES": row["AllocTRES"], "ElapsedRaw": _told(slurm_formats.amount, row["ElapsedRaw"])}
    sacct |= {name: _seconds(row[name]) for name in _TIMES}
    sacct |= {name: _told(slurm_formats.size_kib, row[name]) for name in _SIZES}
    status, priority = _told(slurm_formats.exit_code, row["ExitCode"]), _told(slurm_formats.amount, row["Priority"])
    found: Fields = {
        "job_id": number,
        "job_step": step,
        "job_name": slurm_formats.clean(row["JobName"]),
        "job_state": row["State"],
        **_place(row["JobID"]),
        "user_name": row["User"],
        "account": row["Account"],
        "submit_time": _moment(row["Submit"]),
        "time_limit": _limit(row["TimelimitRaw"]),
        "partition": row["Partition"],
        "reservation": row["Reservation"],
        "nodes": [] if row["NodeList"] in slurm_formats.NOBODY else slurm_formats.split(row["NodeList"]),
        "priority": None if step or priority is None else priority + _ADDED,
        "distribution": "" if row["Layout"] in slurm_formats.NOBODY else row["Layout"],
        "requested_resources": row["ReqTRES"],
        "allocated_resources": row["AllocTRES"],
        "requested_cpus": _told(slurm_formats.amount, row["ReqCPUS"]),
        "requested_memory_per_node": None if step else _memory_kib(row),
        "requested_node_count": _told(slurm_formats.amount, row["ReqNodes"]),
        "start_time": _moment(row["Start"]),
        "suspend_time": _seconds(row["Suspended"]),
        "end_time": _moment(row["End"]),
        "exit_code": None if status is None else status[0],
        "sacct": with_content(sacct),
    }
    return with_content(found)


def _told(reader: Callable[[str], T | None], text: str) -> T | None:
    """Return the value of a text; ``None`` for an empty or unusable one. The rest of its row is good."""
    try:
        return reader(text)
    except ValueError:
        return None


def _seconds(text: str) -> int | None:
    found = _told(slurm_formats.duration_us, text)
    return None if found is None else round(found / 10**6)


def _moment(text: str) -> str:
    found = _told(lambda time: slurm_formats.instants(time, UTC), text)
    return "" if found is None else datetime.fromtimestamp(found.early, UTC).isoformat(timespec="seconds")


def _limit(text: str) -> int | None:
    """Return a limit in seconds. sacct prints minutes."""
    if text == "UNLIMITED":
        return 1
    minutes = _told(slurm_formats.amount, text)
    return None if minutes is None else 60 * minutes + _ADDED


def _place(shown: str) -> Fields:
    """
    Return the place of a job in an array (``5_3``; a waiting array as a whole: ``5_[1,3]``) or in a heterogeneous job
    (``6+1``).
    """
    name = shown.partition(".")[0]
    array, underline, task = name.partition("_")
    if underline:
        return {"array_job_id": int(array), "array_task_id": int(task) if task.isdigit() else 0}
    first, plus, offset = name.partition("+")
    return {"het_job_id": int(first), "het_job_offset": int(offset)} if plus else {}


def _memory_kib(row: Row) -> int | None:
    """Return the requested memory on each node. Older Slurm prints ``4000Mn`` for a node, ``2000Mc`` for a core."""
    text = row["ReqMem"]
    memory = _told(slurm_formats.size_kib, text.rstrip("nc"))
    if memory is None or not text.endswith("c"):
        return memory
    cores, nodes = _told(slurm_formats.amount, row["ReqCPUS"]) or 1, _told(slurm_formats.amount, row["ReqNodes"]) or 1
    return memory * -(-cores // nodes)


def cluster(program: str = "sinfo") -> Fields:
    """
    Return the partitions with their nodes, and the nodes by their states.

    Raises OSError when the program fails, ValueError for an output of another form.
    """
    delimiter = slurm_formats.new_delimiter()
    output = _asked([program, "--noheader", "--all", "--Node", f"--format=%R{delimiter}%N{delimiter}%T"])
    partitions: dict[str, set[str]] = {}
    states: dict[str, tuple[str, ...]] = {}
    for line in output.splitlines():
        partition, names, state = (word.strip() for word in line.split(delimiter))
        own = slurm_formats.expand([names])
        partitions.setdefault(partition, set()).update(own)
        states |= dict.fromkeys(own, _states(state))
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, told in states.items():
        groups.setdefault(told, []).append(name)
    return {
        "slurm": True,
        "partitions": [{"name": name, "nodes": _ranges(nodes)} for name, nodes in partitions.items()],
        "nodes": [{"names": _ranges(names), "states": list(told)} for told, names in groups.items()],
    }


def _states(text: str) -> tuple[str, ...]:
    """Return the states of a node. ``idle*`` is idle, and does not respond."""
    state = text.rstrip("".join(_FLAGS))
    flags = [_FLAGS[sign] for sign in text[len(state) :]]
    return *(word.upper() for word in state.split("+") if word), *flags


def _ranges(names: Iterable[str]) -> list[str]:
    return slurm_formats.split(slurm_formats.compress(names))
