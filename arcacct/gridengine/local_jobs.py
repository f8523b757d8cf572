"""
A Grid Engine job as a whole job: the mapping of its records to an A-REX Accounting Record.

Times and durations are summed in microseconds and rounded once. An endpoint it has none: it is published as local,
under the site's ``lrms_host``.
"""

from __future__ import annotations

from collections.abc import Iterator

from arcacct.gridengine.gpus import gpus_of
from arcacct.gridengine.record import NOT_FINAL, Record, failed_text
from arcacct.gridengine.runs import JobRuns, Run, deciding, end_us, has_no_end, used, wall_us
from arcacct.records import batch_jobs
from arcacct.records.enrichment import DEFAULT
from arcacct.records.imports import BatchSite
from arcacct.records.model import Job
from arcacct.records.states import ABORTED, COMPLETED, FAILED

NEVER_REALLY_RAN = 271
"""ExitCode of a job that failed although its script returned 0: what A-REX's own Grid Engine backend writes."""
_CHOSEN_BY_NOBODY = frozenset(("sge", "defaultdepartment"))
_DAEMONS = ("execd", "qmaster", "schedd")
_REMOVED = 22
_LARGEST = 2**53
_US = 1_000_000


def local_job(runs: JobRuns, site: BatchSite) -> Job | None:
    """The accounting record of a job; ``None`` when no run of it got to the job itself."""
    counted = runs.counted
    if not counted:
        return None
    last = deciding(counted)
    record = last.master
    totals = used([record for run in counted for record in (run.master, *run.tasks)])
    whose = {"owner": record.owner, "group": record.group, "account": record.account, "project": record.project}
    kernel = round(totals.stime_s)
    submitted = submit_time(runs)
    end_time = round(max([end_us(run.master) for run in counted]) / _US)
    benchmark, source = site.benchmark(record.qname, end_time)
    sources = [("benchmark", source)] if benchmark else []
    if record.granted_pe and record.slots > 1 and not last.tasks:
        # The records of the other nodes are summed into this one, or were never written: at least one node.
        sources.append(("node_count", DEFAULT))
    if any(has_no_end(run.master) for run in counted):
        # By the daemon's clock, not from start to end.
        sources.append(("wall_s", DEFAULT))
    return Job(
        # A requeue resets the time of submission, so it is the smallest one.
        batch_jobs.job_id("gesge", site.cell, local_job_id(runs.runs[0].master), submitted),
        status(record),
        submitted,
        end_time,
        local_job_id=local_job_id(record),
        endpoint_type=batch_jobs.LOCAL,
        queue=record.qname or "",
        **batch_jobs.accounted_to(whose, site.rules)._asdict(),
        exit_code=exit_code(record),
        node_count=len(_hosts(last)) or 1,
        core_count=max(record.slots, 1),
        memory_kib=_amount(totals.memory_kib),
        virtual_memory_kib=_amount(totals.virtual_memory_kib),
        wall_s=round(sum([wall_us(run.master) for run in counted]) / _US),
        cpu_user_s=_amount(max(0, round(totals.cpu_s) - kernel)) or 0,
        cpu_kernel_s=_amount(kernel) or 0,
        job_name=record.job_name,
        lrms="sge",
        node_names=_hosts(last),
        local_user=f"{record.owner}:{record.group}" if record.owner and record.group else record.owner,
        project=record.project,
        benchmark=benchmark,
        extra=tuple(_extra(record)),
        events=tuple(
            event
            for run in counted
            for event in (("LRMSSTART", run.master.start_time_us // _US), ("LRMSEND", end_us(run.master) // _US))
        ),
        field_sources=tuple(sources),
    )


def local_job_id(record: Record) -> str:
    """The batch system's id: the number, and for a task of an array job ``number.task``."""
    return f"{record.job_number}.{record.task_number}" if record.task_number else str(record.job_number)


def submit_time(runs: JobRuns) -> int:
    """When the job was first submitted, also if that attempt never started; its first start if no record says."""
    times = [run.master.submission_time_us for run in runs.runs if run.master.submission_time_us]
    return min(times or [run.master.start_time_us for run in runs.counted] or [0]) // _US


def status(record: Record) -> str:
    """``completed``; ``aborted`` when a user or administrator deleted the job; else ``failed``."""
    # Daemons that enforce limits sign as well.
    by_person = record.deleted_by is not None and record.deleted_by.partition("@")[0] not in _DAEMONS
    if record.failed == _REMOVED or (by_person and record.failed not in NOT_FINAL):
        return ABORTED
    return COMPLETED if record.failed == 0 and record.exit_status == 0 else FAILED


def exit_code(record: Record) -> int:
    """The exit status (above 128: killed by a signal), but never 0 of a job that failed."""
    return NEVER_REALLY_RAN if record.failed and record.exit_status == 0 else record.exit_status


def _amount(value: float) -> int | None:
    """A measured value; ``None`` for what is no measurement (nothing, counters that fell below zero)."""
    return round(value) or None if 0 <= value < _LARGEST else None


def _hosts(run: Run) -> tuple[str, ...]:
    return used((run.master, *run.tasks)).hosts if run.tasks else (run.master.hostname,) if run.master.hostname else ()


def _extra(record: Record) -> Iterator[tuple[str, str]]:
    """What A-REX has no key for."""
    for key, value in (
        ("account", _chosen(record.account)),
        ("arid", record.arid),
        ("category", record.category),
        ("deleted_by", record.deleted_by),
        ("department", _chosen(record.department)),
        ("failed", failed_text(record.failed) if record.failed else None),
        ("gpus", gpus_of(record) or None),
        ("granted_pe", record.granted_pe),
    ):
        if value is not None:
            yield key, str(value)
    for group, name, number in record.custom:
        yield f"usage.{group}.{name}" if group else f"usage.{name}", str(number)


def _chosen(name: str | None) -> str | None:
    """An account or department unless it is the one that Grid Engine gives to those who choose none."""
    return None if name in _CHOSEN_BY_NOBODY else name
