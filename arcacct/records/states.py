"""
The states of a job, one change of state as the recorder takes it, and the bounds in which the values of a job must
be. On the hook's path: standard library only, and little of it.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# The states of a job, and one change of them as `recorder` takes it. On the hook's path.
#
# A change of state is no whole job (`arcacct.records.model`): it tells less of a job, and has a place among the others
# that were told before; and the hook, which records one at each event, has no time for more than it. Nothing here knows
# where it was read. Texts are plain, times in UTC seconds.


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


# The statuses of jobs in SQL: what `states` lists, as the texts of statements need it.


SQL_FINAL = str(FINAL)
"""Of jobs that have ended, for ``Status.Name IN``."""
SQL_BY_ITSELF = f"('{COMPLETED}', '{FAILED}')"
"""Of those that ended by themselves: they count whatever they used, and an aborted one only if it used something."""
SQL_FAILED = f"'{FAILED}'"
SQL_ABORTED = f"'{ABORTED}'"
SQL_IN_PROGRESS = f"'{IN_PROGRESS}'"


# Whether the values of a job can be true: one table of bounds for every way in and every way out. On the hook's path.
#
# A value that cannot be true is kept as it was reported, and its job is held (`holds`): in no figure and at no receiver
# until an operator decides. So a bound is no estimate of what jobs usually do. It is what no job can exceed, with a
# slack for clocks, rounding and batch systems that count differently.


LARGEST_S = 2**31 - 1
"""The largest duration that the columns of all receivers hold (APEL's INT; `targets.common`)."""
CLOCK_S = 300
"""How far two clocks may be apart, or one may be set while a job exists: as Kerberos has it (RFC 4120)."""
CPU_FACTOR = 8
"""
Hardware threads of a core at most (POWER8 to POWER10, SMT8). Of real jobs the ratio is at most 1.0, where sites do not
confine jobs to their cores up to 5.
"""
CPU_SLACK_S = 60
"""CPU time of short jobs: the clock is cut to seconds, and what a job leaves behind may run on."""
THREADS_OF_NODE = 8192
"""Of a job of which the cores are unknown: what Linux supports on one node (CONFIG_NR_CPUS)."""
MOST_CORES = 10_000_000
"""Fugaku, the largest machine of CPUs alone, has 7.6 million (Top500)."""
MOST_NODES = 200_000
"""Fugaku has 158,976."""
EARLIEST_S = 788_918_400
"""1995-01-01: no batch system that arcacct reads from wrote an accounting record earlier."""
LATEST_S = 253_402_300_799
"""The end of the year 9999, the last month that can be named."""
BENCHMARKS = {"hepspec": (0.2, 1_000.0), "hepscore23": (0.2, 1_000.0), "si2k": (50.0, 250_000.0)}
"""What a core can have at all: an order of magnitude outside of 2 to 100, and of 500 to 25,000 (Si2k)."""

UNKNOWN_NUMBER = -1
"""Stands for a value that is taken as unknown (`overrides`)."""

OUT_OF_RANGE, WALL_BEYOND_LIFE, CPU_BEYOND_CORES = "out-of-range", "wall-beyond-life", "cpu-beyond-cores"
END_IMPOSSIBLE, END_BEFORE_SUBMISSION = "end-impossible", "end-before-submission"
CORES_IMPOSSIBLE, NODES_IMPOSSIBLE = "cores-impossible", "nodes-impossible"
BENCHMARK_IMPOSSIBLE = "benchmark-impossible"
NOT_MEASURED = "not-measured"
"""Of a job that nothing is wrong with, but that waits for its measurement: of sites that want it so (`unmeasured`)."""
BOUNDS = {
    OUT_OF_RANGE: (
        f"wall time and CPU time are whole numbers of 0 to {LARGEST_S} s",
        "no receiver's column holds more (APEL: INT)",
    ),
    WALL_BEYOND_LIFE: (
        (
            f"wall time is at most end - submission + {CLOCK_S} s; without a submission, end - start of the run; of a"
            " job that A-REX had given up before, the end is that of the batch system"
        ),
        "a run cannot last longer than its job exists",
    ),
    CPU_BEYOND_CORES: (
        (
            f"CPU time is at most wall time x cores x {CPU_FACTOR} + {CPU_SLACK_S} s; of an unknown wall time, end -"
            f" submission counts; of unknown cores, {THREADS_OF_NODE} processors for each node"
        ),
        "a core of POWER has 8 hardware threads (SMT8); Linux supports 8192 processors on a node",
    ),
    END_IMPOSSIBLE: ("the end is in the years 1995 to 9999", "no record is older; no later month can be named"),
    END_BEFORE_SUBMISSION: (
        f"the end is at most {CLOCK_S} s before the submission",
        "two clocks of a site are at most 5 minutes apart (as Kerberos requires, RFC 4120)",
    ),
    CORES_IMPOSSIBLE: (f"0 to {MOST_CORES} cores", "Fugaku has 7.6 million cores (Top500)"),
    NODES_IMPOSSIBLE: (f"0 to {MOST_NODES} nodes", "Fugaku has 158,976 nodes (Top500)"),
    BENCHMARK_IMPOSSIBLE: (
        "HEPSPEC and HEPscore23 of 0.2 to 1,000 for a core, Si2k of 50 to 250,000",
        "ten times outside of what any core has; less is a warning about the configuration",
    ),
    NOT_MEASURED: (
        "the wall time of a job that ran is known",
        "the site's choice: `missing_wall_time=wait` in [arcacct]; without it no job is held for this",
    ),
}
"""By reason: the bound, and where it is from."""

ImplausibleValue = tuple[str, str, "int | None", object]
"""Reason, value (a field of v1_jobs), the bound that can be taken instead (``None``: there is none), as reported."""
AWAITED: ImplausibleValue = (NOT_MEASURED, "wall_s", None, "unknown")


def implausible_values(
    submit_time: "Any",
    end_time: "Any",
    wall_s: "Any",
    cpu_user_s: "Any",
    cpu_kernel_s: "Any",
    cores: "Any",
    nodes: "Any",
    benchmark: str | None,
    start_time: int = 0,
    ran_until: int = 0,
) -> tuple[ImplausibleValue, ...]:
    """
    Which values of a job that has ended cannot be true; empty for nearly all jobs.

    Times in UTC seconds; 0 is unknown, also of cores. ``start_time`` is of the run, where the submission is unknown;
    ``ran_until`` is when a job ended in the batch system that A-REX had given up before.
    SQLite keeps anything in a column of numbers: what is no whole number is out of range.
    """
    begin, until = submit_time or start_time or EARLIEST_S, end_time
    if ran_until and _is_number(end_time):
        until = max(end_time, ran_until)
    try:
        is_plausible = (
            0 <= wall_s <= LARGEST_S
            and wall_s <= until - begin + CLOCK_S
            and cpu_user_s >= 0 <= cpu_kernel_s
            and cpu_user_s + cpu_kernel_s <= CPU_FACTOR * wall_s * cores + CPU_SLACK_S
            and cpu_user_s + cpu_kernel_s <= LARGEST_S
            and 0 <= cores <= MOST_CORES
            and 0 <= nodes <= MOST_NODES
            and EARLIEST_S <= end_time <= LATEST_S
        )
    except TypeError:
        is_plausible = False
    if is_plausible and not (benchmark and _is_impossible(benchmark)):
        return ()
    return tuple(_implausible((begin, until, end_time), (wall_s, cpu_user_s, cpu_kernel_s), cores, nodes, benchmark))


def _implausible(
    times: "tuple[Any, Any, Any]", durations: "tuple[Any, Any, Any]", cores: "Any", nodes: "Any", benchmark: str | None
) -> "list[ImplausibleValue]":
    found: list[ImplausibleValue] = []
    wall_s, *cpu = durations
    life_s = _life(*times, found)
    span_s = _span(wall_s, life_s, found)
    if times[1] != times[2]:
        # The wall time may be what A-REX saw of it, and the CPU time that of the whole run.
        span_s = life_s
    cores = _count(CORES_IMPOSSIBLE, "core_count", cores, MOST_CORES, 0, found)
    nodes = _count(NODES_IMPOSSIBLE, "node_count", nodes, MOST_NODES, 1, found)
    _judge_cpu(cpu, span_s, cores, nodes, found)
    if benchmark and _is_impossible(benchmark):
        found.append((BENCHMARK_IMPOSSIBLE, "benchmark", None, benchmark))
    return found


def _life(begin: "Any", until: "Any", end_time: "Any", found: "list[ImplausibleValue]") -> "Any":
    """How long the job existed; ``None`` where nothing tells it."""
    if not (_is_number(end_time) and EARLIEST_S <= end_time <= LATEST_S):
        found.append((END_IMPOSSIBLE, "end_time", None, end_time))
        return None
    if not _is_number(begin):
        return None
    if until - begin < -CLOCK_S:
        # One of both is wrong: they say nothing of how long it existed.
        found.append((END_BEFORE_SUBMISSION, "end_time", begin, end_time))
        return None
    return max(until - begin, 0)


def _span(wall_s: "Any", life_s: "Any", found: "list[ImplausibleValue]") -> "Any":
    """How long the job can have run, as far as it can be known; else ``None``."""
    if not (_is_number(wall_s) and 0 <= wall_s <= LARGEST_S):
        found.append((OUT_OF_RANGE, "wall_s", life_s, wall_s))
        return life_s
    if life_s is not None and wall_s > life_s + CLOCK_S:
        found.append((WALL_BEYOND_LIFE, "wall_s", life_s, wall_s))
        return life_s
    return wall_s or life_s


def _count(reason: str, field: str, count: "Any", most: int, unknown: int, found: "list[ImplausibleValue]") -> "Any":
    if _is_number(count) and 0 <= count <= most:
        return count or unknown
    found.append((reason, field, None, count))
    return unknown


def _judge_cpu(cpu: "list[Any]", span_s: "Any", cores: "Any", nodes: "Any", found: "list[ImplausibleValue]") -> None:
    bound_s = None if span_s is None or not cores else int(span_s * cores)
    user_s, kernel_s = cpu
    if not (_is_number(user_s) and _is_number(kernel_s)):
        found.append((OUT_OF_RANGE, "cpu_s", bound_s, f"{user_s!r} + {kernel_s!r}"))
        return
    total_s = user_s + kernel_s
    if user_s < 0 or kernel_s < 0 or not total_s <= LARGEST_S:
        found.append((OUT_OF_RANGE, "cpu_s", bound_s, total_s))
    elif span_s is not None:
        threads = cores * CPU_FACTOR if cores else nodes * THREADS_OF_NODE
        if total_s > span_s * threads + CPU_SLACK_S:
            found.append((CPU_BEYOND_CORES, "cpu_s", bound_s, total_s))


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _is_impossible(benchmark: str) -> bool:
    """A text that is no benchmark is not looked at: the site's default stands in for it."""
    kind, _, value = benchmark.partition(":")
    least, most = BENCHMARKS.get(kind.lower(), (0.0, 0.0))
    try:
        return most > 0 and not least <= float(value) <= most
    except ValueError:
        return False


def overrides(
    found: "tuple[ImplausibleValue, ...]", cpu: "tuple[Any, Any]", *, take_bound: bool
) -> "dict[str, int | str]":
    """
    What counts in the place of values that cannot be true, by field of v1_jobs: `UNKNOWN_NUMBER`, or their bound.

    ``cpu``: user and kernel time as reported; of a bound the kernel time keeps its share. An end that cannot be true
    has no other value. A bound that is not there is unknown.
    """
    values: dict[str, int | str] = {}
    for _reason, field, bound, _reported in found:
        taken = min(bound, LARGEST_S) if take_bound and bound is not None else UNKNOWN_NUMBER
        if field == "cpu_s":
            user_s = kernel_s = taken
            if taken != UNKNOWN_NUMBER:
                kernel_s = _share(cpu, taken)
                user_s = taken - kernel_s
            values["cpu_user_s"], values["cpu_kernel_s"] = user_s, kernel_s
        elif field == "benchmark":
            values[field] = ""
        elif field != "end_time":
            values[field] = taken
    return values


def _share(cpu: "tuple[Any, Any]", total_s: int) -> int:
    user_s, kernel_s = cpu
    if not (_is_number(user_s) and _is_number(kernel_s) and user_s >= 0 <= kernel_s and user_s + kernel_s > 0):
        return 0
    return int(total_s * kernel_s // (user_s + kernel_s))
