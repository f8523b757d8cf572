"""
What Slurm accounts: one run of a job, from its start (or its requeue) to its end, with what its steps used.

Slurm knows a run by its number and its time of submission, which a requeue sets anew; so do we. Two outputs of sacct
that show the same run say the same, one more than the other: `joined` takes of both what is known, whichever comes
first. Only runs that are over are kept: of one that is not, nothing is known that will hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from arcacct.records.import_quarantine import optional
from arcacct.records.slurm_formats import LARGEST, Instants

UNFINISHED = frozenset(
    (
        *("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "REQUEUE_FED", "REQUEUE_HOLD"),
        *("RESV_DEL_HOLD", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED"),
    )
)
"""States of jobs that go on. Every other one is an end, also one that a future Slurm invents, once there is an end."""
NOWHERE = frozenset(("None assigned", "None", "(null)", "N/A"))
"""NodeList of a job that never had a node."""

_LARGEST_SIGNAL = 64
"""Of Linux. Slurm's own marks are larger: 125 of OUT_OF_MEMORY."""
_NOTHING_USED_S = 1
"""A run that took no longer may have used no CPU time that sacct shows (milliseconds)."""
_TWICE = "is a local time that the clock showed twice that night; print it with SLURM_TIME_FORMAT=%s"


class SacctUse(NamedTuple):
    """What a row of sacct says of use; of steps together."""

    steps: int = 0
    """How many of them."""
    cpu_us: int | None = None
    cpu_kernel_us: int | None = None
    memory_kib: int | None = None
    """Of the task that used most; ``None``: not said."""
    virtual_memory_kib: int | None = None

    def plus(self, step: SacctUse) -> SacctUse:
        """With one more step."""
        return SacctUse(
            self.steps + 1,
            _sum(self.cpu_us, step.cpu_us),
            _sum(self.cpu_kernel_us, step.cpu_kernel_us),
            _most(self.memory_kib, step.memory_kib),
            _most(self.virtual_memory_kib, step.virtual_memory_kib),
        )


class SlurmRun(NamedTuple):
    """One run that is over, of a job that had started. Empty text, or ``None``: not known."""

    cluster: str
    job_id: int
    """Of an element of an array, or a component of a heterogeneous job, its own number."""
    submit_time: int = 0
    shown: str = ""
    """As sacct shows the number: ``21_5``, ``51+1``."""
    state: str = ""
    start_time: int = 0
    end_time: int = 0
    elapsed_s: int = 0
    """Without the time that it was suspended, as Slurm counts."""
    exit_status: int | None = None
    exit_signal: int | None = None
    cores: int | None = None
    nodes: int | None = None
    node_list: str = ""
    partition: str = ""
    user: str = ""
    group: str = ""
    account: str = ""
    qos: str = ""
    wckey: str = ""
    name: str = ""
    tres: str = ""
    """AllocTRES."""
    cpu_us: int | None = None
    """User and kernel together, of all steps; ``None``: sacct was asked without steps, or nothing measured it."""
    cpu_kernel_us: int | None = None
    memory_kib: int | None = None
    virtual_memory_kib: int | None = None

    @property
    def key(self) -> tuple[str, int, int]:
        """What Slurm knows a run by: cluster, number, submission."""
        return self[:3]


class SacctPart(NamedTuple):
    """One row of sacct: a job (``step`` empty) or one of its steps; ``None``: not said."""

    step: str
    submit: Instants | None
    start: Instants | None
    end: Instants | None
    elapsed_s: int | None
    suspended_s: int | None
    cores: int | None
    use: SacctUse
    run: SlurmRun
    """What it says of its run besides; `run_of` puts the rest in."""


class NoUsage(NamedTuple):
    """Why a row of sacct is no run that can be accounted, and nothing is wrong with that."""

    is_unfinished: bool
    """It goes on, or its end is not written yet; else it never started."""


def run_of(job: SacctPart, steps: SacctUse, cluster: str | None, unusable: set[str]) -> SlurmRun | NoUsage:
    """
    The run that a row of a job and those of its steps tell of; ``cluster`` is its name if it is not to be Slurm's.

    What accounting can do without and cannot be used is ``None``, and its column goes into ``unusable``.

    Raises ValueError when they contradict each other, or say too little.
    """
    state = job.run.state
    if state in UNFINISHED or not state:
        return NoUsage(is_unfinished=True)
    if job.start is None or job.run.node_list in NOWHERE:
        return NoUsage(is_unfinished=False)
    if job.end is None:
        return NoUsage(is_unfinished=True)
    if state == "CANCELLED" and job.end.late < job.start.early:
        # The start that it was to have.
        return NoUsage(is_unfinished=False)
    name = cluster or job.run.cluster
    if not name:
        raise ValueError("nothing says which cluster it ran on; print the column Cluster, or give --cluster")
    if job.submit is None:
        raise ValueError("it has no time of submission, by which Slurm knows its runs")
    if job.submit.early != job.submit.late:
        raise ValueError(f"its time of submission {_TWICE}")
    start, end = _span(job, job.start, job.end)
    elapsed_s = max(0, end - start - (job.suspended_s or 0)) if job.elapsed_s is None else job.elapsed_s
    if elapsed_s > end - start + 1:
        raise ValueError(f"it took {elapsed_s} s between a start and an end that are {end - start} s apart")
    cpu_us, kernel_us = optional("TotalCPU", lambda: _cpu(job.use, steps, elapsed_s), unusable) or (None, None)
    return job.run._replace(
        cluster=name,
        submit_time=job.submit.early,
        start_time=start,
        end_time=end,
        elapsed_s=elapsed_s,
        exit_signal=true_signal(job.run.exit_signal),
        cores=None if job.cores is None else max(1, job.cores),
        cpu_us=cpu_us,
        cpu_kernel_us=kernel_us,
        memory_kib=_most(job.use.memory_kib, steps.memory_kib),
        virtual_memory_kib=_most(job.use.virtual_memory_kib, steps.virtual_memory_kib),
    )


def true_signal(number: int | None) -> int | None:
    """A signal; ``None`` for what Slurm writes in its place."""
    return number if number is not None and number <= _LARGEST_SIGNAL else None


def _span(job: SacctPart, start: Instants, end: Instants) -> tuple[int, int]:
    """
    Start and end; of local times that a clock showed twice, those that fit to how long the job took.

    Raises ValueError where that leaves a doubt, and for an end before the start: `sacct --truncate` writes such.
    """
    pairs = [(one, other) for one in dict.fromkeys(start) for other in dict.fromkeys(end) if one <= other]
    if not pairs:
        raise ValueError("its end is before its start (was it printed with --truncate?)")
    if len(pairs) > 1 and job.elapsed_s is not None:
        lasted = job.elapsed_s + (job.suspended_s or 0)
        pairs = [(one, other) for one, other in pairs if abs(other - one - lasted) <= 1] or pairs
    if len(pairs) > 1:
        raise ValueError(f"its start or end {_TWICE}")
    return pairs[0]


def cpu_use(measured: Iterable[int | None], sampled_us: int | None) -> int | None:
    """
    The CPU time of a step (or of a job's own row), in microseconds: the largest that any column has.

    ``measured``: TotalCPU, and UserCPU with SystemCPU, which are of processes that ended. ``sampled_us``: of
    TRESUsageInTot, which Slurm sums over the processes that it sees. Slurm 25.05 may have 0 in the first two for each
    step, and of a step whose processes nobody waited for they lack those. Where they are right, the sampled one is no
    larger: it is of a moment before the end.
    """
    return max((value for value in (*measured, sampled_us) if value is not None), default=None)


def _cpu(job: SacctUse, steps: SacctUse, elapsed_s: int) -> tuple[int | None, int | None]:
    """
    CPU times: the job's own row has the sum of its steps, but only where steps were asked for (else 0).

    (`sacct --json` of Slurm 22.05 has 0 there in any case; the steps are right.) All steps of a run together use some
    milliseconds: a run of more than a second with 0 was not measured, as when its node failed.
    """
    kernel = _most(job.cpu_kernel_us, steps.cpu_kernel_us) or 0
    total = max(_most(job.cpu_us, steps.cpu_us) or 0, kernel)
    is_said = steps.steps and steps.cpu_us is not None and elapsed_s <= _NOTHING_USED_S
    if not total and not is_said:
        return None, None
    if total > LARGEST:
        raise ValueError("its CPU time is larger than any measurement")
    return total, kernel


def _sum(one: int | None, other: int | None) -> int | None:
    """Of what is known."""
    return other if one is None else one if other is None else one + other


def _most(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)


def joined(one: SlurmRun, other: SlurmRun) -> SlurmRun:
    """
    Two outputs of the same run: of each value what is known, and of two that are known always the same one.

    Times: the longer of two, since `--truncate` cuts them. CPU and memory: the larger, since it has more of the steps.
    Texts: the longer, since a name may have lost letters on its way.
    """
    if one == other:
        return one
    values: tuple[Any, ...] = tuple([_better(*pair) for pair in zip(one, other, strict=True)])
    return SlurmRun(*values)._replace(start_time=min(one.start_time, other.start_time))


def _better(value: int | str | None, other: int | str | None) -> int | str | None:
    if isinstance(value, str) and isinstance(other, str):
        return max(value, other, key=lambda text: (len(text), text))
    if isinstance(value, int) and isinstance(other, int):
        return max(value, other)
    return other if value is None else value
