"""
Whether the values of a job can be true: one table of bounds for every way in and every way out. On the hook's path.

A value that cannot be true is kept as it was reported, and its job is held (`holds`): in no figure and at no receiver
until an operator decides. So a bound is no estimate of what jobs usually do. It is what no job can exceed, with a slack
for clocks, rounding and batch systems that count differently.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LARGEST_S = 2**31 - 1
"""The largest duration that the columns of all receivers hold (APEL's INT; `targets.rules`)."""
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

Doubt = tuple[str, str, "int | None", object]
"""Reason, value (a field of v1_jobs), the bound that can be taken instead (``None``: there is none), as reported."""
AWAITED: Doubt = (NOT_MEASURED, "wall_s", None, "unknown")


def doubts(
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
) -> tuple[Doubt, ...]:
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
    return tuple(_doubts((begin, until, end_time), (wall_s, cpu_user_s, cpu_kernel_s), cores, nodes, benchmark))


def _doubts(
    times: "tuple[Any, Any, Any]", durations: "tuple[Any, Any, Any]", cores: "Any", nodes: "Any", benchmark: str | None
) -> "list[Doubt]":
    found: list[Doubt] = []
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


def _life(begin: "Any", until: "Any", end_time: "Any", found: "list[Doubt]") -> "Any":
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


def _span(wall_s: "Any", life_s: "Any", found: "list[Doubt]") -> "Any":
    """How long the job can have run, as far as it can be known; else ``None``."""
    if not (_is_number(wall_s) and 0 <= wall_s <= LARGEST_S):
        found.append((OUT_OF_RANGE, "wall_s", life_s, wall_s))
        return life_s
    if life_s is not None and wall_s > life_s + CLOCK_S:
        found.append((WALL_BEYOND_LIFE, "wall_s", life_s, wall_s))
        return life_s
    return wall_s or life_s


def _count(reason: str, field: str, count: "Any", most: int, unknown: int, found: "list[Doubt]") -> "Any":
    if _is_number(count) and 0 <= count <= most:
        return count or unknown
    found.append((reason, field, None, count))
    return unknown


def _judge_cpu(cpu: "list[Any]", span_s: "Any", cores: "Any", nodes: "Any", found: "list[Doubt]") -> None:
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


def overrides(found: "tuple[Doubt, ...]", cpu: "tuple[Any, Any]", *, take_bound: bool) -> "dict[str, int | str]":
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
