"""
A run of Slurm's as a whole job.

Each run is a job of its own: so Slurm counts, and Sonar, whose records of the same runs have the same identity.
"""

from __future__ import annotations

from collections.abc import Sequence

from arcacct.records import batch_jobs
from arcacct.records.enrichment import CONFIGURED
from arcacct.records.imports import BatchSite
from arcacct.records.model import Job
from arcacct.records.slurm_formats import expand
from arcacct.records.states import ABORTED, COMPLETED, FAILED
from arcacct.slurm.record import SlurmRun

_US = 10**6
_TERM = 15
_SIGNALLED = 256
"""What A-REX adds to the number of a signal that ended a job."""
_STATUS = {"COMPLETED": COMPLETED, "RESIZING": COMPLETED, "CANCELLED": ABORTED}
"""Of a job that was resized the other part is a run of its own."""


def local_job(run: SlurmRun, site: BatchSite) -> Job:
    """The accounting record of a run."""
    # Slurm's account is what other batch systems call project, too.
    whose = {"owner": run.user, "group": run.group, "account": run.account, "project": run.account}
    benchmark, _source = site.benchmark(run.partition, run.end_time)
    names = node_names(run)
    kernel_s = None if run.cpu_kernel_us is None else round(run.cpu_kernel_us / _US)
    return Job(
        batch_jobs.job_id("sonar", run.cluster, run.job_id, run.submit_time),
        _STATUS.get(run.state, FAILED),
        run.submit_time,
        run.end_time,
        local_job_id=str(run.job_id),
        queue=run.partition,
        **batch_jobs.accounted_to(whose, site.rules)._asdict(),
        exit_code=exit_code(run),
        node_count=run.nodes or len(names) or None,
        core_count=run.cores,
        memory_kib=run.memory_kib or None,
        virtual_memory_kib=run.virtual_memory_kib or None,
        wall_s=run.elapsed_s,
        cpu_user_s=None if run.cpu_us is None else max(0, round(run.cpu_us / _US) - (kernel_s or 0)),
        cpu_kernel_s=kernel_s,
        job_name=run.name or None,
        lrms="slurm",
        node_names=names,
        local_user=run.user or None,
        project=run.account or None,
        benchmark=benchmark,
        extra=tuple(_extra(run)),
        events=(("LRMSSTART", run.start_time), ("LRMSEND", run.end_time)),
        field_sources=(("benchmark", CONFIGURED),) if benchmark else (),
    )


def node_names(run: SlurmRun) -> tuple[str, ...]:
    """The nodes of a run; none of a list that cannot be read."""
    try:
        return tuple(expand([run.node_list]))
    except ValueError:
        return ()


def exit_code(run: SlurmRun) -> int:
    """
    The exit status; of a job that a signal ended its number and 256, as A-REX has it; never 0 of one that failed.

    (Slurm has 0:0 for most that it ended itself, and 0:15 for some.)
    """
    if run.state == "CANCELLED":
        return run.exit_status or _TERM
    if run.exit_status:
        return run.exit_status
    if run.exit_signal:
        return _SIGNALLED + run.exit_signal
    return 0 if run.state in ("COMPLETED", "RESIZING") else 1


def together(jobs: Sequence[Job]) -> Job:
    """The runs of one job of A-REX's, in order of time, as it knows them: one job that was requeued."""
    last = jobs[-1]
    return last._replace(
        submit_time=jobs[0].submit_time,
        wall_s=sum(job.wall_s or 0 for job in jobs),
        cpu_user_s=_sum([job.cpu_user_s for job in jobs]),
        cpu_kernel_s=_sum([job.cpu_kernel_s for job in jobs]),
        memory_kib=max((job.memory_kib or 0 for job in jobs), default=0) or None,
        virtual_memory_kib=max((job.virtual_memory_kib or 0 for job in jobs), default=0) or None,
        events=tuple(event for job in jobs for event in job.events),
    )


def _sum(values: Sequence[int | None]) -> int | None:
    """``None`` if any is not known: the rest would be a wrong sum."""
    return None if None in values else sum(value or 0 for value in values)


def _extra(run: SlurmRun) -> list[tuple[str, str]]:
    """What A-REX has no key for; Sonar's names where it has one."""
    found = {
        "alloctres": run.tres,
        "arrayid": run.shown if "_" in run.shown else "",
        "hetid": run.shown if "+" in run.shown else "",
        "localgroup": run.group,
        "qos": run.qos,
        "slurmstate": run.state,
        "wckey": run.wckey,
    }
    return [(key, value) for key, value in found.items() if value]
