"""
The states of a job, and one change of them as `recorder` takes it. On the hook's path.

A change of state is no whole job (`arcacct.jobs.job`): it tells less of a job, and has a place among the others that
were told before; and the hook, which records one at each event, has no time for more than it.
Nothing here knows where it was read. Texts are plain, times in UTC seconds.
"""

IN_PROGRESS = "in-progress"
COMPLETED, FAILED, ABORTED = FINAL = ("completed", "failed", "aborted")
"""Status.Name of a job that has ended; aborted: nothing is left of it, or its batch system says so."""
UNKNOWN = "unknown"
"""FieldSources.Source of a value that nobody told: A-REX's tables have 0 there, one node or one core."""
DERIVED = "derived"
"""FieldSources.Source of a wall time from the start and end of the run, which nobody measured (`unmeasured`)."""
MEASURED = ("wall_s", "cpu_user_s", "cpu_kernel_s")
"""What is measured of a job that ran, as FieldSources names it."""
FQAN_KEYS = ("mainfqan", "vomsfqan")
"""AuthTokenAttributes.AttrKey of VOMS attributes: the first, and the others."""
TRANSFER_INPUT, TRANSFER_CACHED_INPUT, TRANSFER_OUTPUT = 10, 11, 20
"""DataTransfers.TransferType as A-REX numbers it."""


class StatusFile:
    """
    What the status file of a job said: the state and the file's identity (INVARIANTS 8).

    ``pending``: the job has done what the state is about and waits for a slot of the next. A-REX rewrites the file
    to say so, hence its time is not when the state began.
    """

    __slots__ = ("ctime_ns", "mtime_ns", "pending", "size", "state")

    def __init__(self, state: str, size: int, mtime_ns: int, ctime_ns: int, *, pending: bool = False) -> None:
        self.state = state
        self.size = size
        self.mtime_ns = mtime_ns
        self.ctime_ns = ctime_ns
        self.pending = pending


class TransferLine:
    """One line of .statistics."""

    __slots__ = ("end_time", "kind", "size_bytes", "start_time", "url")

    def __init__(self, url: str, size_bytes: int, start_time: int, end_time: int, kind: int) -> None:
        self.url = url
        self.size_bytes = size_bytes
        self.start_time = start_time
        self.end_time = end_time
        self.kind = kind


class Usage:
    """
    What a finished job used and left behind: the columns that A-REX fills at FINISHED.

    ``unknown``: those of `MEASURED` that nobody told of a job that ran; they are 0 here. ``is_awaited``: the site wants
    no record of the job published before its wall time is known.
    """

    __slots__ = (
        "cpu_count",
        "cpu_kernel_s",
        "cpu_user_s",
        "end_time",
        "exit_code",
        "is_awaited",
        "memory_kib",
        "node_count",
        "rtes",
        "scratch_bytes",
        "stage_in_bytes",
        "stage_out_bytes",
        "status",
        "transfers",
        "unknown",
        "virtual_memory_kib",
        "wall_s",
    )

    def __init__(self) -> None:
        self.status = COMPLETED
        self.end_time = 0
        self.exit_code = 1
        self.node_count = 1
        self.cpu_count = 1
        self.memory_kib = 0
        self.virtual_memory_kib = 0
        self.wall_s = 0
        self.cpu_user_s = 0
        self.cpu_kernel_s = 0
        self.scratch_bytes = 0
        self.stage_in_bytes = 0
        self.stage_out_bytes = 0
        self.unknown: tuple[str, ...] = ()
        self.is_awaited = False
        self.rtes: list[str] = []
        self.transfers: list[TransferLine] = []


class StateChange:
    """
    One state change of a job, ready to be recorded. Texts are plain (not escaped), times UTC seconds.

    ``known`` is False when .local could not be read: then only the ids, the state and its time mean something.
    ``events`` are those that the files tell beside the state itself: LRMSSTART, LRMSEND, DTRDOWNLOADSTART, ...
    ``is_whole``: .local had the job's user and time of submission, and ended with a line end (A-REX truncates and
    rewrites it). ``benchmarks`` are the first and the last that .diag had; which counts depends on who keeps the job.
    ``notes`` say what was left out of what the files say (`gate`).
    ``has_voms``: ``vo`` is of a VOMS attribute, not of a rule of the site. ``auth_groups``: the authgroups of arc.conf
    that A-REX found the user in, where no credential told a VO: a target may have rules of its own for them.
    """

    __slots__ = (
        "auth_groups",
        "auth_tokens",
        "benchmarks",
        "default_benchmark",
        "endpoint_type",
        "endpoint_url",
        "event_ns",
        "events",
        "extra",
        "has_voms",
        "is_whole",
        "job_id",
        "known",
        "local_job_id",
        "notes",
        "queue",
        "state",
        "status",
        "submit_time",
        "usage",
        "user_dn",
        "vo",
    )

    def __init__(self, job_id: str, state: str, event_ns: int, status: StatusFile | None) -> None:
        self.job_id = job_id
        self.state = state
        self.event_ns = event_ns
        self.status = status
        self.known = False
        self.is_whole = False
        self.local_job_id = ""
        self.endpoint_type = ""
        self.endpoint_url = ""
        self.queue = ""
        self.user_dn = ""
        self.vo = ""
        self.has_voms = False
        self.auth_groups: list[str] = []
        self.submit_time = 0
        self.auth_tokens: list[tuple[str, str]] = []
        self.extra: dict[str, str] = {}
        self.events: list[tuple[str, int]] = []
        self.benchmarks: tuple[str, ...] = ()
        self.default_benchmark = ""
        self.notes: dict[str, str] = {}
        self.usage: Usage | None = None
