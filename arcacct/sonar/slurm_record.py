"""
A Slurm job of Sonar's telemetry as a record, for sites that have no ARC before their Slurm.

CPU times that sacct prints with fractions arrive without their seconds (a bug of Sonar): the best of three lower
bounds is taken, and said which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from arcacct.benchmark import Benchmark, parsed_benchmark
from arcacct.config.values import NodeBenchmark
from arcacct.records.batch_jobs import model_benchmark
from arcacct.records.slurm_formats import expand, parse
from arcacct.records.states import ABORTED, COMPLETED, FAILED
from arcacct.sonar.fields import LARGEST
from arcacct.sonar.slurm_jobs import SACCT_FIELDS, SlurmJob

_TERM = 15
_STATUS = {"COMPLETED": COMPLETED, "CANCELLED": ABORTED}


class CPUTime(NamedTuple):
    """CPU seconds and what they rest on."""

    user_s: int | None
    kernel_s: int | None
    source: str | None
    """``sacct`` (UserCPU and SystemCPU), ``steps`` (the sum of the steps' AveCPU) or ``samples``; ``None``: unknown."""


class SlurmUsage(NamedTuple):
    """What a finished job used, by the fields of a `Job`, and what more is needed."""

    status: str
    exit_code: int
    submit_time: int
    start_time: int
    end_time: int
    wall_s: int
    cpu: CPUTime
    memory_kib: int | None
    virtual_memory_kib: int | None
    core_count: int | None
    node_names: tuple[str, ...]
    node_count: int


def slurm_usage(main: SlurmJob, steps: Sequence[SlurmJob], sampled_cpu_s: int | None) -> SlurmUsage | None:
    """
    What a job used, or ``None`` while it is unfinished, or if it never ran.

    ``sampled_cpu_s`` is what samples of its processes say, ``None`` if there are none.
    """
    start, end = main.number("start_time"), main.number("end_time")
    if not main.finished or start is None or end is None or end < start:
        return None
    tres, state = allocated(main), main.text("job_state") or ""
    names = tuple(expand([main.text("nodes") or ""])) if main.text("nodes") else ()
    cores = tres.get("cpu") or main.number("requested_cpus") or None
    # suspend_time may be later than the end of a job that was killed while suspended.
    wall = max(0, end - start - (main.number("suspend_time") or 0))
    return SlurmUsage(
        status=_STATUS.get(state, FAILED),
        # Sonar loses the signal: success is only what the state says (exit_code is 0 for a job that was killed).
        exit_code=main.number("exit_code") or {"COMPLETED": 0, "CANCELLED": _TERM}.get(state, 1),
        submit_time=main.number("submit_time") or start,
        start_time=start,
        end_time=end,
        wall_s=wall,
        cpu=_cpu_time(main, steps, sampled_cpu_s, wall * cores if cores else LARGEST),
        memory_kib=max(step.number("MaxRSS") or 0 for step in (main, *steps)) or None,
        virtual_memory_kib=max(step.number("MaxVMSize") or 0 for step in (main, *steps)) or None,
        core_count=cores,
        node_names=names,
        node_count=tres.get("node") or len(names) or 1,
    )


def allocated(main: SlurmJob) -> dict[str, int]:
    """What a job was given, each resource as sacct has it, else as scontrol: an amount of one may be unusable."""
    return parse(main.text("allocated_resources") or "") | parse(main.text("AllocTRES") or "")


def _cpu_time(main: SlurmJob, steps: Sequence[SlurmJob], sampled: int | None, limit_s: int) -> CPUTime:
    # A field that is 0 is left out: where sacct was asked, a time that is missing is 0.
    if sampled is None and not any(SACCT_FIELDS.keys() & one.values.keys() for one in (main, *steps)):
        return CPUTime(None, None, None)
    user, kernel, sampled_s = main.number("UserCPU") or 0, main.number("SystemCPU") or 0, sampled or 0
    # Of one task; how many tasks a step had is not sent, so this is a lower bound as well.
    of_steps = sum(step.number("AveCPU") or 0 for step in steps)
    # What is more than there was is no lower bound. What sacct reports stays as it is, whatever way it comes.
    bounds = ((user + kernel, "sacct"), (min(of_steps, limit_s), "steps"), (min(sampled_s, limit_s), "samples"))
    total, source = max(bounds, key=lambda one: one[0])
    total = min(total, LARGEST)
    if user and kernel:
        part = total * kernel // (user + kernel)
        return CPUTime(total - part, part, source)
    return CPUTime(total, 0, source)


def local_ids(main: SlurmJob) -> dict[str, str]:
    """Where a job stands in an array or a heterogeneous job, as extra information of the record."""
    found = {}
    if main.number("array_job_id"):
        found["arrayid"] = f"{main.number('array_job_id')}_{main.number('array_task_id') or 0}"
    if main.number("het_job_id"):
        found["hetid"] = f"{main.number('het_job_id')}+{main.number('het_job_offset') or 0}"
    return found


def node_benchmark(models: Iterable[str], end_time: int, lines: Sequence[NodeBenchmark]) -> str | None:
    """
    The benchmark per core of a job with this end that ran on nodes of these CPU models, one for each node.

    The first line whose pattern matches holds for a node; of different models the mean is taken. ``None`` when a
    model has no line, or the types differ: half an answer would be a wrong one.
    """
    found: list[Benchmark] = []
    for model in models:
        benchmark = parsed_benchmark(model_benchmark(model, end_time, lines))
        if benchmark is None or (found and found[0].type != benchmark.type):
            return None
        found.append(benchmark)
    if not found:
        return None
    mean = (sum(one.thousandths for one in found) * 2 + len(found)) // (2 * len(found))
    return str(Benchmark(found[0].type, mean))
