"""
The processes of this host as /proc tells them: four small files each, read once.

psutil's Process would open them several times over; the kernel's own numbers are what Sonar reports, too. A sample a
minute on every node has to be cheap, so what this imports is counted (`arcacct.sonar.lean`).
"""

import os
import pwd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
_LONGEST_NUMBER = 18
_SLUID_LENGTH = 14
_LARGEST_ENVIRONMENT = 256 * 1024
_TASK_VARIABLES = {"JOB_ID": "SGE_TASK_ID", "LSB_JOBID": "LSB_JOBINDEX"}
"""Where batch systems tell the task of an array, by where they tell the number of the array."""


class Process:
    """
    One process at a moment.

    ``batch_job`` and ``batch_task`` are the batch system's number of its job, ``None`` if it has none, and its index in
    an array, 0 if there is none. ``sluid`` is what Slurm calls the cgroup of the job, empty if that has the number;
    ``is_stepd`` says whether it is Slurm's own process there. ``cpu_s`` is with children that it has waited for,
    ``start_s`` after the boot, ``resident_kib`` of private pages, ``data_kib`` of data and stack.
    """

    __slots__ = (
        "batch_job",
        "batch_task",
        "cancelled_bytes",
        "command",
        "cpu_s",
        "data_kib",
        "group",
        "is_stepd",
        "own_cpu_s",
        "pid",
        "ppid",
        "read_bytes",
        "resident_kib",
        "sluid",
        "start_s",
        "threads",
        "uid",
        "user",
        "written_bytes",
    )

    def __init__(self, pid: int, uid: int, stat: bytes, statm: bytes, moved: "dict[bytes, bytes]") -> None:
        """``stat``, ``statm`` and ``io`` are the files of these names, the last one by the names in it."""
        # The command stands in brackets and may have some itself.
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
    Every process that is there from the first look at it to the last; the others are passed over.

    ``variable`` of a process's environment is its job when its cgroup does not tell (Grid Engine: ``JOB_ID``); where
    the batch system tells the task of an array beside it, that is taken, too. Raises OSError when ``proc`` cannot be
    listed.
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
        # Another user's.
        moved = {}
    found = Process(int(name), uid, stat, statm, moved)
    job, *below = _slurm_cgroup(cgroup) or [b""]
    found.batch_job = _number_of_cgroup(job)
    if job and found.batch_job is None:
        found.sluid = job
        # Slurm's own process is alone in this cgroup, and users cannot enter it.
        found.is_stepd = below[1:] == [b"slurm"]
    if found.batch_job is None and not found.sluid and variable is not None:
        found.batch_job, found.batch_task = _job_of_environment(folder, variable)
    return found


def name_jobs(found: "list[Process]", proc: str = "/proc") -> int:
    """
    Give the processes in cgroups that Slurm calls by SLUID the number of their job; returns how many jobs have none.

    Slurm 26.05 does so (``CgroupJobIdPaths=no`` in cgroup.conf). The number is in the title of slurmstepd, which all
    may read and no user can change; else in SLURM_JOB_ID of the job's first process, which its owner and root may read.
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
    """A file of the kernel's. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, largest)
    finally:
        os.close(fd)


def _slurm_cgroup(cgroup: bytes) -> "list[bytes]":
    """
    The names of the cgroups, from a job's down, that Slurm made for a process; empty if it made none.

    With cgroup v2 the path is ``/system.slice/slurmstepd.scope/job_123/step_0/...``, in another slice where
    CgroupSlice names one, ``NODE_slurmstepd.scope`` where one host runs several nodes, and a SLUID in the place of
    ``job_123`` in Slurm 26.05. With cgroup v1: ``/slurm/uid_1000/job_123/...``, ``/slurm_NODE/...``.
    """
    # The whole path counts: users may give any name to cgroups below their user@UID.service or in their containers.
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
    """An element of an array has a number of its own."""
    return int(text) if text.isdigit() and len(text) <= _LONGEST_NUMBER else None


def _job_of_environment(folder: str, variable: str) -> "tuple[int | None, int]":
    """Number and task, as the batch system tells them to the job."""
    try:
        environment = read_bytes(f"{folder}/environ", _LARGEST_ENVIRONMENT)
    except OSError:
        return None, 0
    told = dict(one.partition(b"=")[::2] for one in reversed(environment.split(b"\0")))
    text = told.get(os.fsencode(variable), b"")
    if not text.isdigit():
        return _job_of_name(text.decode("ascii", "replace")) if text else (None, 0)
    # Grid Engine says "undefined" to a job that is no array.
    task = told.get(_TASK_VARIABLES.get(variable, "").encode(), b"")
    number = int(text) if len(text) <= _LONGEST_NUMBER else None
    return number, int(task) if task.isdigit() and len(task) <= _LONGEST_NUMBER else 0


def _job_of_name(text: str) -> "tuple[int | None, int]":
    """What a longer name says, as Torque's ``123[4].server``."""
    from arcacct.records.batch_jobs import local_id  # noqa: PLC0415  few batch systems need it

    found = local_id(text)
    # Slurm's elements have other numbers than their names.
    return (None, 0) if found is None or found.is_element else (found.number, found.task)


_users: "dict[int, str]" = {}


def user_name(uid: int) -> str:
    """The account, ``_user_UID`` for one that this host does not know."""
    if uid not in _users:
        try:
            _users[uid] = pwd.getpwuid(uid).pw_name
        except KeyError:
            _users[uid] = f"_user_{uid}"
    return _users[uid]
