"""The states of a job, one change of state as the recorder takes it, and the bounds for the values of a job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from arcacct.times import LAST_SECOND

# The states of a job, and one change of them as `recorder` takes it.
#
# A change of state is not a whole job (`arcacct.records.model`). It has fewer values, and a place in the order of the
# earlier changes. Nothing in this module depends on where a change was read. Texts are plain; times are in UTC seconds.


IN_PROGRESS = "in-progress"
COMPLETED, FAILED, ABORTED = FINAL = ("completed", "failed", "aborted")
"""Status.Name of a job that has ended. Aborted: no file of the job remains, or its batch system reports it so."""
UNKNOWN = "unknown"
"""FieldSources.Source of a value that no source reported. A-REX's tables then have 0, one node or one core."""
DERIVED = "derived"
"""FieldSources.Source of a wall time that was computed from the start and end of the run, not measured."""
OF_RUNS = "runs"
"""FieldSources.Source of a wall time calculated from core seconds, and of a CPU time that some runs of a job lack."""
CORE_SECONDS = "coreseconds"
"""JobExtraInfo.InfoKey of the core seconds of a job that are not its wall time times its cores."""
UNMEASURED = (UNKNOWN, DERIVED)
"""FieldSources.Source of values that a measurement in the job's files replaces."""
MEASURED = ("wall_s", "cpu_user_s", "cpu_kernel_s")
"""The measured values of a job that ran, as FieldSources names them."""
PUBLISHED_EVENTS = ("SUBMIT", "LRMSSTART", "LRMSEND")
"""JobEvents.EventKey of the batch system's times, which records have."""
FQAN_KEYS = ("mainfqan", "vomsfqan")
"""AuthTokenAttributes.AttrKey of VOMS attributes: of the first one, and of the others."""
TRANSFER_INPUT, TRANSFER_CACHED_INPUT, TRANSFER_OUTPUT = 10, 11, 20
"""DataTransfers.TransferType as A-REX numbers it."""
TRANSFER_KINDS = {TRANSFER_INPUT: "input", TRANSFER_CACHED_INPUT: "cached_input", TRANSFER_OUTPUT: "output"}


@dataclass(slots=True)
class StatusFile:
    """
    The content of a job's status file: the state and the file's identity (INVARIANTS 8).

    ``pending``: the job has finished the work of this state and waits for a slot of the next one. A-REX rewrites the
    file to show this, so the file's time is not the start of the state.
    """

    state: str
    size: int
    mtime_ns: int
    ctime_ns: int
    pending: bool = field(default=False, kw_only=True)


@dataclass(slots=True)
class TransferLine:
    """One line of .statistics."""

    url: str
    size_bytes: int
    start_time: int
    end_time: int
    kind: int


@dataclass(slots=True)
class Usage:
    """
    The usage of a finished job: the columns that A-REX fills at FINISHED.

    ``unknown``: the fields of `MEASURED` that no source reported for a job that ran; they are 0 here. ``is_awaited``:
    the site does not publish the job's record before its wall time is known.
    """

    status: str = COMPLETED
    end_time: int = 0
    exit_code: int = 1
    node_count: int = 1
    core_count: int = 1
    memory_kib: int = 0
    virtual_memory_kib: int = 0
    wall_s: int = 0
    cpu_user_s: int = 0
    cpu_kernel_s: int = 0
    scratch_bytes: int = 0
    stage_in_bytes: int = 0
    stage_out_bytes: int = 0
    unknown: tuple[str, ...] = ()
    is_awaited: bool = False
    rtes: list[str] = field(default_factory=list)
    transfers: list[TransferLine] = field(default_factory=list)


@dataclass(slots=True)
class StateChange:
    """
    One state change of a job, ready to be recorded. Texts are plain (not escaped); times are in UTC seconds.

    ``known`` is False when .local could not be read: then only the ids, the state and its time are valid.
    ``events`` are the events in the job's files in addition to the state: LRMSSTART, LRMSEND, DTRDOWNLOADSTART, ...
    ``is_whole``: .local had the job's user and time of submission, and ended with a line end (A-REX truncates and
    rewrites it). ``benchmarks`` are the first and the last one in .diag; the version of ARC decides which one counts.
    ``notes`` list the values of the files that were left out (`InputLimiter`).
    ``has_voms``: ``vo`` comes from a VOMS attribute, not from a rule of the site. ``auth_groups``: the authgroups of
    arc.conf in which A-REX found the user, for a credential without a VO. A target may have its own rules for them.
    """

    job_id: str
    state: str
    event_ns: int
    status: StatusFile | None
    known: bool = False
    is_whole: bool = False
    local_job_id: str = ""
    endpoint_type: str = ""
    endpoint_url: str = ""
    queue: str = ""
    user_dn: str = ""
    vo: str = ""
    has_voms: bool = False
    auth_groups: list[str] = field(default_factory=list)
    submit_time: int = 0
    auth_tokens: list[tuple[str, str]] = field(default_factory=list)
    extra: dict[str, str] = field(default_factory=dict)
    events: list[tuple[str, int]] = field(default_factory=list)
    benchmarks: tuple[str, ...] = ()
    default_benchmark: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    usage: Usage | None = None


def status_of_end(by_files: str, recorded: str, state: str | None) -> str:
    """
    Return the status of an end that is read again: the site's choice (`killed_before_arex`) is for new ends only.

    ``by_files``: the status by the files and the present choice. ``recorded``, ``state``: the job's status and its last
    state in the database. An aborted job in the state FINISHED was killed before A-REX took it; any other one vanished.
    """
    if by_files == ABORTED and recorded in (COMPLETED, FAILED):
        return FAILED
    return ABORTED if (by_files, recorded, state) == (FAILED, ABORTED, "FINISHED") else by_files


# The statuses of jobs as text for SQL statements.


SQL_FINAL = str(FINAL)
"""The statuses of jobs that have ended, for ``Status.Name IN``."""
SQL_BY_ITSELF = f"('{COMPLETED}', '{FAILED}')"
"""Statuses of jobs that always count, even without usage. An aborted job counts only if it used something."""
SQL_FAILED = f"'{FAILED}'"
SQL_ABORTED = f"'{ABORTED}'"
SQL_IN_PROGRESS = f"'{IN_PROGRESS}'"


# The bounds of a job's values: one table for all sources and all receivers.
#
# An impossible value is stored as reported, and its job is held (`holds`): no figure and no receiver includes it until
# an operator decides. A bound is therefore not an estimate of usual jobs. No job can exceed it, and it includes a slack
# for clocks, rounding and batch systems that count differently.


LARGEST_S = 2**31 - 1
"""The largest duration that the columns of all receivers hold (APEL's INT; `targets.common`)."""
CLOCK_S = 300
"""The largest difference of two clocks, or step of one clock while a job exists. The value of Kerberos (RFC 4120)."""
CPU_FACTOR = 8
"""
The most hardware threads of a core (POWER8 to POWER10, SMT8). Real jobs have a ratio of at most 1.0, or of up to 5 at
sites that do not confine jobs to their cores.
"""
CPU_SLACK_S = 60
"""Slack for short jobs: times are cut to seconds, and processes may run on after the end of a job."""
THREADS_OF_NODE = 8192
"""The most processors that Linux supports on one node (CONFIG_NR_CPUS)."""
MOST_CORES = 10_000_000
"""Fugaku, the largest machine of CPUs alone, has 7.6 million (Top500)."""
MOST_NODES = 200_000
"""Fugaku has 158,976."""
EARLIEST_S = 788_918_400
"""1995-01-01: no batch system that arcacct reads from wrote an accounting record earlier."""
BENCHMARKS = {"hepspec": (0.2, 1_000.0), "hepscore23": (0.2, 1_000.0), "si2k": (50.0, 250_000.0)}
"""Possible values for a core: an order of magnitude beyond 2 to 100, and beyond 500 to 25,000 for Si2k."""

UNKNOWN_NUMBER = -1
"""Means that a value is taken as unknown (`overrides`)."""

OUT_OF_RANGE, WALL_BEYOND_LIFE, CPU_BEYOND_CORES = "out-of-range", "wall-beyond-life", "cpu-beyond-cores"
END_IMPOSSIBLE, END_BEFORE_SUBMISSION = "end-impossible", "end-before-submission"
CORES_IMPOSSIBLE, NODES_IMPOSSIBLE = "cores-impossible", "nodes-impossible"
BENCHMARK_IMPOSSIBLE = "benchmark-impossible"
NOT_MEASURED = "not-measured"
"""Reason of a job that only waits for its measured wall time, at sites with ``missing_wall_time=wait``."""
BOUNDS = {
    OUT_OF_RANGE: (
        f"wall time and CPU time are whole numbers of 0 to {LARGEST_S} s",
        "no receiver's column holds more (APEL: INT)",
    ),
    WALL_BEYOND_LIFE: (
        (
            f"wall time is at most end - submission + {CLOCK_S} s; without a submission, end - start of the run; if"
            " A-REX had given up the job before, the end is that of the batch system"
        ),
        "a run cannot last longer than its job exists",
    ),
    CPU_BEYOND_CORES: (
        (
            f"CPU time is at most wall time x cores x {CPU_FACTOR} + {CPU_SLACK_S} s; if the wall time is unknown,"
            f" end - submission counts; if the cores are unknown, {THREADS_OF_NODE} processors for each node, and a"
            " decision has no bound"
        ),
        "a core of POWER has 8 hardware threads (SMT8); Linux supports 8192 processors on a node",
    ),
    END_IMPOSSIBLE: ("the end is in the years 1995 to 9999", "no record is older; no later month can be named"),
    END_BEFORE_SUBMISSION: (
        f"the end is at most {CLOCK_S} s before the submission",
        "two clocks of a site are at most 5 minutes apart (as Kerberos requires, RFC 4120)",
    ),
    CORES_IMPOSSIBLE: (
        f"0 to {MOST_CORES} cores, and {THREADS_OF_NODE} for each known node",
        f"Fugaku has 7.6 million cores (Top500); Linux supports {THREADS_OF_NODE} processors on a node",
    ),
    NODES_IMPOSSIBLE: (f"0 to {MOST_NODES} nodes", "Fugaku has 158,976 nodes (Top500)"),
    BENCHMARK_IMPOSSIBLE: (
        "HEPSPEC and HEPscore23 of 0.2 to 1,000 for a core, Si2k of 50 to 250,000",
        "ten times outside the range of real cores; less is a warning about the configuration",
    ),
    NOT_MEASURED: (
        "the wall time of a job that ran is known",
        "the site's choice: `missing_wall_time=wait` in [arcacct]; without it no job is held for this",
    ),
}
"""The bound and its source, by reason."""

OF_AREX = (None, "arc", "arex")
"""RecordSources.Source of A-REX's records: no source, or its own database (in which 0 also means unknown)."""
ImplausibleValue = tuple[str, str, int | None, object]
"""Reason, field of v1_jobs, the bound that can replace the value (``None``: no bound), and the reported value."""
AWAITED: ImplausibleValue = (NOT_MEASURED, "wall_s", None, "unknown")


def known_counts(cores: Any, nodes: Any, source: str | None, *, has_nodes: bool) -> tuple[Any, Any]:
    """
    Return cores and nodes of a record; 0: unknown.

    One node without a name is an unknown number. A-REX counts the cores from .diag. From other sources, one core
    without a named node means an unknown number.
    """
    if has_nodes:
        return cores, nodes
    return 0 if cores == 1 and source not in OF_AREX else cores, 0 if nodes == 1 else nodes


def implausible_values(
    submit_time: Any,
    end_time: Any,
    wall_s: Any,
    cpu_user_s: Any,
    cpu_kernel_s: Any,
    cores: Any,
    nodes: Any,
    benchmark: str | None,
    start_time: int = 0,
    ran_until: int = 0,
) -> tuple[ImplausibleValue, ...]:
    """
    Return the impossible values of a job that has ended; empty for nearly all jobs.

    Times are in UTC seconds, durations in seconds; 0 means unknown, also for cores and nodes. ``wall_s``: ``None`` if
    unknown; 0 was measured. ``start_time``: the start of the run, for an unknown submission. ``ran_until``: the end in
    the batch system, if A-REX gave up the job before it.
    SQLite stores values of any type in a number column: a value that is not a number is out of range.
    """
    begin, until = submit_time or start_time or EARLIEST_S, end_time
    if ran_until and _is_number(end_time):
        until = max(end_time, ran_until)
    try:
        is_plausible = (
            0 <= wall_s <= LARGEST_S
            and wall_s <= _longest_s(until - begin)
            and cpu_user_s >= 0 <= cpu_kernel_s
            and cpu_user_s + cpu_kernel_s <= _most_cpu_s(wall_s, CPU_FACTOR * cores)
            and cpu_user_s + cpu_kernel_s <= LARGEST_S
            and 0 <= cores <= _most_cores(nodes)
            and 0 <= nodes <= MOST_NODES
            and EARLIEST_S <= end_time <= LAST_SECOND
        )
    except TypeError:
        is_plausible = False
    if is_plausible and not (benchmark and _is_impossible(benchmark)):
        return ()
    return tuple(_implausible((begin, until, end_time), (wall_s, cpu_user_s, cpu_kernel_s), cores, nodes, benchmark))


def _most_cores(nodes: Any) -> Any:
    return min(MOST_CORES, nodes * THREADS_OF_NODE) if _is_number(nodes) and nodes > 0 else MOST_CORES


def _longest_s(life_s: Any) -> Any:
    """Return the bound of the wall time of a job that existed for ``life_s`` seconds; ``None``: unknown."""
    return None if life_s is None else life_s + CLOCK_S


def _most_cpu_s(span_s: Any, threads: Any) -> Any:
    """Return the bound of the CPU time of a job that ran for ``span_s`` seconds."""
    return span_s * threads + CPU_SLACK_S


def _implausible(
    times: tuple[Any, Any, Any], durations: tuple[Any, Any, Any], cores: Any, nodes: Any, benchmark: str | None
) -> list[ImplausibleValue]:
    found: list[ImplausibleValue] = []
    wall_s, *cpu = durations
    life_s = _life(*times, found)
    span_s = life_s if wall_s is None else _span(wall_s, life_s, found)
    if times[1] != times[2]:
        # The wall time may cover only the part that A-REX saw, and the CPU time the whole run.
        span_s = life_s
    cores = _count(CORES_IMPOSSIBLE, "core_count", cores, _most_cores(nodes), 0, found)
    nodes = _count(NODES_IMPOSSIBLE, "node_count", nodes, MOST_NODES, 1, found)
    _judge_cpu(cpu, span_s, cores, nodes, found)
    if benchmark and _is_impossible(benchmark):
        found.append((BENCHMARK_IMPOSSIBLE, "benchmark", None, benchmark))
    return found


def _life(begin: Any, until: Any, end_time: Any, found: list[ImplausibleValue]) -> Any:
    """Return how long the job existed, in seconds; ``None``: unknown."""
    if not (_is_number(end_time) and EARLIEST_S <= end_time <= LAST_SECOND):
        found.append((END_IMPOSSIBLE, "end_time", None, end_time))
        return None
    if not _is_number(begin):
        return None
    if until - begin < -CLOCK_S:
        # One of the two is wrong, so the lifetime is unknown.
        found.append((END_BEFORE_SUBMISSION, "end_time", begin, end_time))
        return None
    return max(until - begin, 0)


def _span(wall_s: Any, life_s: Any, found: list[ImplausibleValue]) -> Any:
    """Return the longest possible run of the job, in seconds; ``None``: unknown."""
    if not (_is_number(wall_s) and 0 <= wall_s <= LARGEST_S):
        found.append((OUT_OF_RANGE, "wall_s", _longest_s(life_s), wall_s))
        return life_s
    if life_s is not None and wall_s > _longest_s(life_s):
        found.append((WALL_BEYOND_LIFE, "wall_s", _longest_s(life_s), wall_s))
        return life_s
    return wall_s


def _count(reason: str, name: str, count: Any, most: int, unknown: int, found: list[ImplausibleValue]) -> Any:
    if _is_number(count) and 0 <= count <= most:
        return count or unknown
    found.append((reason, name, None, count))
    return unknown


def _judge_cpu(cpu: list[Any], span_s: Any, cores: Any, nodes: Any, found: list[ImplausibleValue]) -> None:
    most_s = None if span_s is None else _most_cpu_s(span_s, cores * CPU_FACTOR or nodes * THREADS_OF_NODE)
    bound_s = int(most_s) if most_s is not None and cores else None
    user_s, kernel_s = cpu
    if not (_is_number(user_s) and _is_number(kernel_s)):
        found.append((OUT_OF_RANGE, "cpu_s", bound_s, f"{user_s!r} + {kernel_s!r}"))
        return
    total_s = user_s + kernel_s
    if user_s < 0 or kernel_s < 0 or not total_s <= LARGEST_S:
        found.append((OUT_OF_RANGE, "cpu_s", bound_s, total_s))
    elif most_s is not None and total_s > most_s:
        found.append((CPU_BEYOND_CORES, "cpu_s", bound_s, total_s))


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _is_impossible(benchmark: str) -> bool:
    """Whether a benchmark is out of bounds; False for other texts, which the site's default replaces."""
    kind, _, value = benchmark.partition(":")
    least, most = BENCHMARKS.get(kind.lower(), (0.0, 0.0))
    try:
        return most > 0 and not least <= float(value) <= most
    except ValueError:
        return False


def overrides(found: tuple[ImplausibleValue, ...], cpu: tuple[Any, Any], *, take_bound: bool) -> dict[str, int | str]:
    """
    Return the replacements of impossible values, by field of v1_jobs: `UNKNOWN_NUMBER`, or the bound.

    ``cpu``: user and kernel time as reported, in seconds. With a bound, the kernel time keeps its share. An impossible
    end has no replacement. A value without a bound becomes unknown.
    """
    values: dict[str, int | str] = {}
    for _reason, name, bound, _reported in found:
        taken = min(bound, LARGEST_S) if take_bound and bound is not None else UNKNOWN_NUMBER
        if name == "cpu_s":
            user_s = kernel_s = taken
            if taken != UNKNOWN_NUMBER:
                kernel_s = _share(cpu, taken)
                user_s = taken - kernel_s
            values["cpu_user_s"], values["cpu_kernel_s"] = user_s, kernel_s
        elif name == "benchmark":
            values[name] = ""
        elif name != "end_time":
            values[name] = taken
    return values


def _share(cpu: tuple[Any, Any], total_s: int) -> int:
    user_s, kernel_s = cpu
    if not (_is_number(user_s) and _is_number(kernel_s) and user_s >= 0 <= kernel_s and user_s + kernel_s > 0):
        return 0
    return int(total_s * kernel_s // (user_s + kernel_s))
