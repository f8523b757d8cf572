"""
Sample this host as Sonar does: load, GPUs, disks, jobs and their processes. This module starts without the command
line's library.
"""

import os
import pwd
import time

from arcacct import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Fields = dict[str, Any]


# Write envelopes of this host as text.
#
# Zeros, empty texts and empty lists are left out, as in Sonar. The output satisfies our reader of Sonar's format (a
# test reads it back). Imports here cost time in each sample, so they are limited (`arcacct.sources.sonar.sampler`).
# That is why json is not used.


_CONTROLS = {number: f"\\u{number:04x}" for number in (*range(0x20), 0x7F)}
_ESCAPES = {**_CONTROLS, ord('"'): '\\"', ord("\\"): "\\\\"}


class Host:
    """The names of this host, and its directories /proc and /sys."""

    __slots__ = ("cluster", "node", "proc", "sys")

    def __init__(self, cluster: str = "", node: str = "", proc: str = "/proc", sys: str = "/sys") -> None:
        self.cluster = cluster
        self.node = node
        self.proc = proc
        self.sys = sys

    @property
    def name(self) -> str:
        """Return the node's name."""
        return self.node or os.uname().nodename


def line(probe: "Callable[[], Fields]", kind: str, host: Host, *, of_node: bool = True) -> "tuple[str, bool]":
    """
    Return one envelope as one line of JSON, and whether the probe succeeded.

    A failed probe gives an errors envelope, so that the reader of the stream sees the reason for the missing data.
    ``of_node``: the envelope is about this node, not about its cluster.
    """
    meta = {"producer": "arcacct", "version": _version()}
    whose = {"time": now(), "cluster": host.cluster, "node": host.name}
    try:
        about = whose if of_node else {key: value for key, value in whose.items() if key != "node"}
        found: Fields = {"meta": meta, "data": {"type": kind, "attributes": with_content(about) | probe()}}
    except Exception as error:
        # psutil's errors share no class with others. Importing psutil only for the name of its error would slow each
        # sample.
        if not isinstance(error, (OSError, ValueError, LookupError)) and type(error).__module__ != "psutil._common":
            raise
        found = {"meta": meta, "errors": [{"detail": f"{kind}: {error}"} | with_content(whose)]}
    return json_text(found), "data" in found


def _version() -> str:
    """Return Python's version, such as 0.1.dev3 or 0.1, as a semantic version."""
    numbers = [part for part in __version__.split(".")[:3] if part.isdigit()]
    return ".".join([*numbers, "0", "0", "0"][:3])


def now() -> str:
    """Return the current time with its offset, in whole seconds."""
    return moment(time.time())


def moment(at: float) -> str:
    """Return a time with the offset that is valid then, in whole seconds."""
    local = time.localtime(at)
    minutes = local.tm_gmtoff // 60
    sign = "-" if minutes < 0 else "+"
    return time.strftime(f"%Y-%m-%dT%H:%M:%S{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}", local)


def with_content(fields: "Fields") -> "Fields":
    """Return the fields without zeros and empty values."""
    return {key: value for key, value in fields.items() if value not in (0, "", [], {}, None, False)}


def json_text(value: "Any") -> str:
    """Return a value as JSON, without blanks."""
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    if isinstance(value, dict):
        return f"{{{','.join([f'{json_text(key)}:{json_text(one)}' for key, one in value.items()])}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join([json_text(one) for one in value])}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


# Read GPUs from ``nvidia-smi``. A host without GPUs or without the program has none.
#
# A value that a card does not know (``[N/A]``) is left out. The program's memory is in MiB, ours in KiB.


TIMEOUT_S = 5.0

_SYSINFO = {"index": "index", "uuid": "uuid", "address": "pci.bus_id", "model": "name", "driver": "driver_version"}
_SYSINFO |= {"firmware": "vbios_version", "memory": "memory.total", "power_limit": "power.limit"}
_SYSINFO |= {"max_power_limit": "power.max_limit", "min_power_limit": "power.min_limit"}
_SYSINFO |= {"max_ce_clock": "clocks.max.sm", "max_memory_clock": "clocks.max.memory"}
_SAMPLE = {"index": "index", "uuid": "uuid", "fan": "fan.speed", "compute_mode": "compute_mode"}
_SAMPLE |= {"performance_state": "pstate", "memory": "memory.used", "ce_util": "utilization.gpu"}
_SAMPLE |= {"memory_util": "utilization.memory", "temperature": "temperature.gpu", "power": "power.draw"}
_SAMPLE |= {"power_limit": "power.limit", "ce_clock": "clocks.sm", "memory_clock": "clocks.mem"}
_TEXTS = frozenset(("uuid", "address", "model", "driver", "firmware", "compute_mode"))


def program() -> "str | None":
    """Return the path of ``nvidia-smi`` on this host; ``None`` without it."""
    # shutil is not used: its import takes longer than a whole sample.
    paths = [os.path.join(folder, "nvidia-smi") for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)]
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def cards(smi: str) -> "list[Fields]":
    """Return each card as in sysinfo. Raises OSError and its subclasses when the program fails."""
    return [{**one, "manufacturer": "NVIDIA"} for one in _query(smi, _SYSINFO)]


def states(smi: str) -> "list[Fields]":
    """Return each card as in a sample."""
    return [{key: value for key, value in one.items() if value or key == "uuid"} for one in _query(smi, _SAMPLE)]


def users(smi: str) -> "dict[int, list[Fields]]":
    """Return by pid the use of each card by each process."""
    indices = {one["index"]: one["uuid"] for one in _query(smi, {"index": "index", "uuid": "uuid"})}
    numbers = {uuid: index for index, uuid in indices.items()}
    found: dict[tuple[int, str], Fields] = {}
    for line in _run(smi, "--query-compute-apps=pid,gpu_uuid,used_memory", "--format=csv,noheader,nounits"):
        pid, uuid, memory = [*(part.strip() for part in line.split(",")), "", ""][:3]
        if pid.isdigit() and uuid:
            found[int(pid), uuid] = {"index": numbers.get(uuid, 0), "uuid": uuid}
            if memory.isdigit():
                found[int(pid), uuid]["gpu_memory"] = int(memory) * 1024
    for line in _run(smi, "pmon", "-c", "1", "-s", "u"):
        words = line.split()
        if len(words) > 3 and words[0].isdigit() and words[1].isdigit() and words[3].isdigit():
            card = found.get((int(words[1]), indices.get(int(words[0]), "")))
            if card is not None and int(words[3]):
                card["gpu_util"] = int(words[3])
    by_pid: dict[int, list[Fields]] = {}
    for (pid_number, _), card in found.items():
        by_pid.setdefault(pid_number, []).append(card)
    return by_pid


def _query(smi: str, fields: dict[str, str]) -> "list[Fields]":
    found = []
    for line in _run(smi, f"--query-gpu={','.join(fields.values())}", "--format=csv,noheader,nounits"):
        texts = zip(fields, map(str.strip, line.split(",")), strict=False)
        told = {
            key: text if key in _TEXTS else _card_number(key, text) for key, text in texts if text and text[0] != "["
        }
        if line.strip():
            found.append({key: value for key, value in told.items() if value is not None})
    return found


def _card_number(key: str, text: str) -> "int | None":
    if key == "performance_state":
        # P0 is the fastest. An ExtendedUint is sent with 2 added.
        return int(text[1:]) + 2 if text[1:].isdigit() else None
    try:
        value = round(float(text))
    except ValueError:
        return None
    return value * 1024 if key == "memory" else value


def _run(smi: str, *arguments: str) -> list[str]:
    import subprocess  # noqa: PLC0415  slow to import, and most nodes have no card

    try:
        done = subprocess.run([smi, *arguments], capture_output=True, timeout=TIMEOUT_S, check=True)
    except subprocess.SubprocessError as error:
        raise OSError(f"{smi} {arguments[0]}: {error}") from error
    return done.stdout.decode("utf-8", "replace").splitlines()


# Read the processes of this host from /proc: four small files for each, read once.
#
# psutil's Process would open them several times. The values are the kernel's own numbers, as in Sonar. A sample runs
# every minute on every node, so it must be cheap, and its imports are limited (`arcacct.sources.sonar.sampler`).


TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
_LONGEST_NUMBER = 18
_SLUID_LENGTH = 14
_LARGEST_ENVIRONMENT = 256 * 1024
_TASK_VARIABLES = {"JOB_ID": "SGE_TASK_ID", "LSB_JOBID": "LSB_JOBINDEX"}
"""The environment variable with the index in an array, by the variable with the number of the array."""


class Process:
    """
    One process at a moment.

    ``batch_job`` is the batch system's number of its job, ``None`` without a job. ``batch_task`` is the index in an
    array, 0 without an array. ``sluid`` is Slurm's name of the job's cgroup, empty if the cgroup has the number.
    ``is_stepd`` says whether the process is Slurm's own. ``cpu_s`` includes children that the process has waited for.
    ``start_s`` is in seconds after the boot. ``resident_kib`` is the size of private pages, ``data_kib`` of data and
    stack.
    """

    __slots__ = (
        *("batch_job", "batch_task", "cancelled_bytes", "command", "cpu_s", "data_kib", "group", "is_stepd"),
        *("own_cpu_s", "pid", "ppid", "read_bytes", "resident_kib", "sluid", "start_s", "threads", "uid", "user"),
        "written_bytes",
    )

    def __init__(self, pid: int, uid: int, stat: bytes, statm: bytes, moved: "dict[bytes, bytes]") -> None:
        """
        ``stat`` and ``statm`` are the contents of these files. ``moved`` has the values of the file ``io`` by name.
        """
        # The command is in parentheses, and may contain parentheses itself.
        close = stat.rindex(b")")
        state, *rest = stat[close + 2 :].split()
        numbers = [int(one) for one in rest[:19]]
        pages = statm.split()
        own = numbers[10] + numbers[11]
        command = stat[stat.index(b"(") + 1 : close].decode("utf-8", "replace")
        self.pid = pid
        self.ppid, self.group = numbers[:2]
        self.uid, self.user = uid, user_name(uid)
        self.command = command + " <defunct>" if state == b"Z" else command
        self.batch_job: int | None = None
        self.batch_task = 0
        self.sluid = b""
        self.is_stepd = False
        self.cpu_s = (own + numbers[12] + numbers[13]) / TICKS
        self.own_cpu_s = own / TICKS
        self.start_s = numbers[18] / TICKS
        self.threads = numbers[16]
        self.resident_kib = max(0, int(pages[1]) - int(pages[2])) * _PAGE_KIB
        self.data_kib = int(pages[5]) * _PAGE_KIB
        self.read_bytes = int(moved.get(b"read_bytes", 0))
        self.written_bytes = int(moved.get(b"write_bytes", 0))
        self.cancelled_bytes = int(moved.get(b"cancelled_write_bytes", 0))


def processes(proc: str = "/proc", *, variable: "str | None" = None) -> "Iterator[Process]":
    """
    Yield each process that exists during the whole read. Others are skipped.

    ``variable``: the environment variable with the job's number, for a process whose cgroup does not show it (Grid
    Engine: ``JOB_ID``). If the batch system also sets a variable with the index in an array, that is read as well.
    Raises OSError when ``proc`` cannot be listed.
    """
    for name in os.listdir(proc):
        if name.isdigit():
            found = _process(proc, name, variable)
            if found is not None:
                yield found


def _process(proc: str, name: str, variable: "str | None") -> "Process | None":
    folder = f"{proc}/{name}"
    try:
        stat, uid = read_bytes(f"{folder}/stat"), os.stat(folder).st_uid
        statm, cgroup = read_bytes(f"{folder}/statm"), read_bytes(f"{folder}/cgroup")
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        moved = dict(line.split(b": ") for line in read_bytes(f"{folder}/io").splitlines())
    except OSError:
        # The process belongs to another user.
        moved = {}
    found = Process(int(name), uid, stat, statm, moved)
    job, *below = _slurm_cgroup(cgroup) or [b""]
    found.batch_job = _number_of_cgroup(job)
    if job and found.batch_job is None:
        found.sluid = job
        # Slurm's own process is alone in this cgroup, which users cannot enter.
        found.is_stepd = below[1:] == [b"slurm"]
    if found.batch_job is None and not found.sluid and variable is not None:
        found.batch_job, found.batch_task = _job_of_environment(folder, variable)
    return found


def name_jobs(found: "list[Process]", proc: str = "/proc") -> int:
    """
    Set the job number of processes whose cgroups have a SLUID. Return how many jobs remain without a number.

    Slurm 26.05 names cgroups by SLUID with ``CgroupJobIdPaths=no`` in cgroup.conf. The number is in the title of
    slurmstepd, which all users may read and no user can change. Else it is in SLURM_JOB_ID of the job's first process,
    which only its owner and root may read.
    """
    jobs: dict[bytes, list[Process]] = {}
    for process in found:
        if process.sluid:
            jobs.setdefault(process.sluid, []).append(process)
    unnamed = 0
    for members in jobs.values():
        members.sort(key=lambda one: (not one.is_stepd, one.start_s))
        number = next((number for one in members if (number := _job_of_step(proc, one)) is not None), None)
        unnamed += number is None
        for one in members:
            one.batch_job = number
    return unnamed


def _job_of_step(proc: str, process: Process) -> "int | None":
    folder = f"{proc}/{process.pid}"
    if not process.is_stepd:
        return _job_of_environment(folder, "SLURM_JOB_ID")[0]
    try:
        title = read_bytes(f"{folder}/cmdline")
    except OSError:
        return None
    start = b"slurmstepd: ["
    return _number(title[len(start) :].partition(b".")[0]) if title.startswith(start) else None


def read_bytes(path: str, largest: int = 65536) -> bytes:
    """Return the content of a kernel file, at most ``largest`` bytes. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, largest)
    finally:
        os.close(fd)


def _slurm_cgroup(cgroup: bytes) -> "list[bytes]":
    """
    Return the names of Slurm's cgroups of a process, from the job's cgroup down; empty without such cgroups.

    With cgroup v2 the path is ``/system.slice/slurmstepd.scope/job_123/step_0/...``. The slice differs if CgroupSlice
    names another one. The scope is ``NODE_slurmstepd.scope`` if one host runs several nodes. Slurm 26.05 may have a
    SLUID in the place of ``job_123``. With cgroup v1 the path is ``/slurm/uid_1000/job_123/...`` or
    ``/slurm_NODE/...``.
    """
    # Check the whole path: users may give any name to cgroups below their user@UID.service or in their containers.
    for line in cgroup.split(b"\n"):
        top, *parts = line.split(b":", 2)[-1].split(b"/")[1:] or [b""]
        if top == b"slurm" or top.startswith(b"slurm_"):
            del parts[:1]
        elif top.endswith(b".slice") and top != b"user.slice":
            while parts and parts[0].endswith(b".slice"):
                del parts[0]
            scope = parts.pop(0) if parts else b""
            if scope != b"slurmstepd.scope" and not scope.endswith(b"_slurmstepd.scope"):
                continue
        else:
            continue
        if parts and (_number_of_cgroup(parts[0]) is not None or _is_sluid(parts[0])):
            return parts
    return []


def _number_of_cgroup(name: bytes) -> "int | None":
    return _number(name[4:]) if name[:4] == b"job_" else None


def _is_sluid(name: bytes) -> bool:
    return len(name) == _SLUID_LENGTH and name[:1] == b"s" and name.isalnum()


def _number(text: bytes) -> "int | None":
    """Return a job number; ``None`` if the text is not one. An element of a Slurm array has a number of its own."""
    return int(text) if text.isdigit() and len(text) <= _LONGEST_NUMBER else None


def _job_of_environment(folder: str, variable: str) -> "tuple[int | None, int]":
    """Return the job number and the index in an array from the environment that the batch system sets."""
    try:
        environment = read_bytes(f"{folder}/environ", _LARGEST_ENVIRONMENT)
    except OSError:
        return None, 0
    told = dict(one.partition(b"=")[::2] for one in reversed(environment.split(b"\0")))
    text = told.get(os.fsencode(variable), b"")
    if not text.isdigit():
        return _job_of_name(text.decode("ascii", "replace")) if text else (None, 0)
    # Grid Engine sets "undefined" for a job that is not in an array.
    task = told.get(_TASK_VARIABLES.get(variable, "").encode(), b"")
    number = int(text) if len(text) <= _LONGEST_NUMBER else None
    return number, int(task) if task.isdigit() and len(task) <= _LONGEST_NUMBER else 0


def _job_of_name(text: str) -> "tuple[int | None, int]":
    """Return number and index of a longer name, such as Torque's ``123[4].server``."""
    from arcacct.records.batch_jobs import local_id  # noqa: PLC0415  few batch systems need it

    found = local_id(text)
    # The number of a Slurm element differs from its name.
    return (None, 0) if found is None or found.is_element else (found.number, found.task)


_users: "dict[int, str]" = {}


def user_name(uid: int) -> str:
    """Return the account name; ``_user_UID`` if this host does not know the user."""
    if uid not in _users:
        try:
            _users[uid] = pwd.getpwuid(uid).pw_name
        except KeyError:
            _users[uid] = f"_user_{uid}"
    return _users[uid]


# Sample this host as Sonar does: its load, cards and disks, its jobs and their processes.
#
# The imports here are limited (`arcacct.sources.sonar.sampler`).


_EPOCH = 1577836800
"""2020-01-01: Sonar counts boot times from here."""
_FIRST_USER = 1000
_LARGEST_DEPTH = 64
_LARGEST_FILE = 16 * 1024 * 1024
_BUSY = (0, 1, 2, 5, 6)
"""The columns of /proc/stat for busy time: user, nice, system, irq, softirq."""


def sample(host: "Host", *, system_jobs: bool = True, variable: "str | None" = None) -> "Fields":
    """
    Return the attributes of a sample.

    ``system_jobs`` False leaves out the processes of system accounts. ``variable`` is that of `processes`. Raises
    OSError, ValueError or LookupError when the host does not give a value.
    """
    smi = program()
    used = users(smi) if smi else {}
    found = list(processes(host.proc, variable=variable))
    unnamed = name_jobs(found, host.proc)
    stat = _text(f"{host.proc}/stat")
    boot = boot_time(stat)
    sampled: Fields = {
        "system": _system(host, stat, boot, states(smi) if smi else []),
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
    """Return the whole content of a kernel file. One read may end at a page."""
    parts, fd = [], os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while part := os.read(fd, _LARGEST_FILE):
            parts.append(part)
    finally:
        os.close(fd)
    return b"".join(parts).decode("utf-8", "replace")


def boot_time(stat: str) -> int:
    """Return the boot time of the kernel from /proc/stat. Other ways vary by a second."""
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
    """Return the kernel's counters of whole disks. Partitions would count everything twice."""
    found = []
    for one in _text(f"{host.proc}/diskstats").splitlines():
        major, minor, name, *stats = one.split()
        # Skip disks that never did anything, such as dozens of ram0 and loop0.
        if any(number != "0" for number in stats) and os.path.isdir(f"{host.sys}/block/{name}"):
            numbers = [int(word) for word in stats]
            found.append({"name": name, "major": int(major), "minor": int(minor), "stats": numbers})
    return found


def _jobs(found: "list[Process]", boot: int, used: "dict[int, list[Fields]]", *, system_jobs: bool) -> "list[Fields]":
    """
    Return the processes by job: a batch job, or a process group since this boot. A process without a group is alone.
    """
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
    """Whether a container's supervisor that is a child of init is among the ancestors."""
    for _ in range(_LARGEST_DEPTH):
        parent = by_pid.get(process.ppid)
        if parent is None:
            return False
        if parent.command.startswith("containerd") and parent.ppid == 1:
            return True
        process = parent
    return False


# Run `arcacct node sample` without the command line's library, because the start of Python takes most of a sample's
# time.
#
# Only the options that need no explanation are handled here. Anything else is left to `sources.sonar.node`, which does
# the same and reports errors. A test limits the imports here.


FAILED = 75
_VALUES = ("--cluster", "--node", "--job-variable")


def main(arguments: "list[str]") -> "int | None":
    """
    Print one sample. Return the exit code, or ``None`` without any output if `sources.sonar.node` must handle the
    arguments.
    """
    given = dict.fromkeys(_VALUES, "")
    system_jobs = True
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--exclude-system-jobs":
            system_jobs = False
        elif name in _VALUES:
            told = value if equals else next(words, None)
            if told is None:
                return None
            given[name] = told
        else:
            return None
    if os.isatty(1):
        # `sources.sonar.node` prints for people.
        return None
    host = Host(given["--cluster"], given["--node"])
    text, succeeded = line(
        lambda: sample(host, system_jobs=system_jobs, variable=given["--job-variable"] or None), "sample", host
    )
    try:
        rest = f"{text}\n".encode()
        while rest:
            rest = rest[os.write(1, rest) :]
    except BrokenPipeError:
        return 0
    except (OSError, UnicodeEncodeError):
        return None
    return 0 if succeeded else FAILED
