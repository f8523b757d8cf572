"""
A Grid Engine job as a local job of ours: the mapping of its records to an A-REX Accounting Record.

Times and durations are summed in microseconds and rounded once. An endpoint it has none: it is published as local,
under the site's ``lrms_host``.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from arcacct.gridengine.record import NOT_FINAL, LocalJob, failed_text
from arcacct.gridengine.runs import Job, Run, deciding, end_us, used, wall_us

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcacct.conf.values import MapRule
    from arcacct.gridengine.record import Record

NEVER_REALLY_RAN = 271
"""ExitCode of a job that failed although its script returned 0: what A-REX's own Grid Engine backend writes."""
_CHOSEN_BY_NOBODY = frozenset(("sge", "defaultdepartment"))
_DAEMONS = ("execd", "qmaster", "schedd")
_REMOVED = 22
_LARGEST = 2**53
_US = 1_000_000


class Site(NamedTuple):
    """What the site's configuration says about jobs of Grid Engine."""

    cell: str
    """Part of each job's identity: it must stay the same."""
    rules: tuple[MapRule, ...] = ()
    default_benchmark: str | None = None
    queue_benchmarks: tuple[tuple[str, str], ...] = ()

    def benchmark(self, queue: str | None) -> str | None:
        """The benchmark of a queue's nodes."""
        return next((value for name, value in self.queue_benchmarks if name == queue), self.default_benchmark)


class Owner(NamedTuple):
    """Whom a job is accounted to, as far as the site's ``map`` lines tell."""

    vo: str = ""
    fqan: str | None = None
    user_dn: str = ""


def local_job(job: Job, site: Site) -> LocalJob | None:
    """The accounting record of a job; ``None`` when no run of it got to the job itself."""
    counted = job.counted
    if not counted:
        return None
    last = deciding(counted)
    totals = used([record for run in counted for record in (run.master, *run.tasks)])
    owner = accounted_to(last.master, site.rules)
    kernel = round(totals.stime_s)
    return LocalJob(
        job_id(job, site.cell),
        local_job_id(last.master),
        last.master.qname or "",
        owner.user_dn,
        owner.vo,
        owner.fqan,
        status(last.master),
        exit_code(last.master),
        submit_time(job),
        round(max([end_us(run.master) for run in counted]) / _US),
        len(_hosts(last)) or 1,
        max(last.master.slots, 1),
        _measured(totals.memory_kib),
        _measured(totals.virtual_memory_kib),
        round(sum([wall_us(run.master) for run in counted]) / _US),
        _measured(max(0, round(totals.cpu_s) - kernel)),
        _measured(kernel),
        tuple(_extra(last, site)),
        tuple(_events(counted)),
        tuple(_field_sources(last, site)),
    )


def job_id(job: Job, cell: str) -> str:
    """
    The identity of a job: its cell and number, and when it was first submitted, since numbers begin again.

    (A requeue resets the time of submission, so it is the smallest one.)
    """
    return f"gesge:{cell}:{local_job_id(job.runs[0].master)}:{submit_time(job)}"


def local_job_id(record: Record) -> str:
    """The batch system's id: the number, and for a task of an array job ``number.task``."""
    return f"{record.job_number}.{record.task_number}" if record.task_number else str(record.job_number)


def submit_time(job: Job) -> int:
    """When the job was first submitted, also if that attempt never started; its first start if no record says."""
    times = [run.master.submission_time_us for run in job.runs if run.master.submission_time_us]
    return min(times or [run.master.start_time_us for run in job.counted] or [0]) // _US


def status(record: Record) -> str:
    """``completed``; ``aborted`` when a user or administrator deleted the job; else ``failed``."""
    if record.failed == _REMOVED or (_is_person(record.deleted_by) and record.failed not in NOT_FINAL):
        return "aborted"
    return "completed" if record.failed == 0 and record.exit_status == 0 else "failed"


def _is_person(deleted_by: str | None) -> bool:
    """Whether someone deleted the job: daemons that enforce limits sign as well."""
    return deleted_by is not None and deleted_by.partition("@")[0] not in _DAEMONS


def exit_code(record: Record) -> int:
    """The exit status (above 128: killed by a signal), but never 0 of a job that failed."""
    return NEVER_REALLY_RAN if record.failed and record.exit_status == 0 else record.exit_status


def accounted_to(record: Record, rules: tuple[MapRule, ...]) -> Owner:
    """VO, attribute and user by the first ``map`` line that matches; nobody if none does."""
    for rule in rules:
        value = getattr(record, rule.field)
        if value is not None and fnmatchcase(value, rule.pattern):
            group = rule.group
            fqan = None if group is None else group if group.startswith("/") else f"/{rule.vo}/{group}"
            return Owner(rule.vo, fqan, rule.user or "")
    return Owner()


def _measured(value: float) -> int:
    """A value for a column; 0, unknown, for what is no measurement (counters that fell below zero)."""
    return round(value) if 0 <= value < _LARGEST else 0


def _hosts(run: Run) -> tuple[str, ...]:
    return used((run.master, *run.tasks)).hosts if run.tasks else (run.master.hostname,) if run.master.hostname else ()


def _events(counted: tuple[Run, ...]) -> Iterator[tuple[str, int]]:
    for run in counted:
        yield "LRMSSTART", run.master.start_time_us // _US
        yield "LRMSEND", end_us(run.master) // _US


def _extra(run: Run, site: Site) -> Iterator[tuple[str, str]]:
    """What goes into JobExtraInfo, under A-REX's keys where it has one."""
    last = run.master
    benchmark = site.benchmark(last.qname)
    owner = f"{last.owner}:{last.group}" if last.owner and last.group else last.owner
    for key, value in (
        ("account", _chosen(last.account)),
        ("arid", last.arid),
        ("benchmark", benchmark),
        ("category", last.category),
        ("deleted_by", last.deleted_by),
        ("department", _chosen(last.department)),
        ("failed", failed_text(last.failed) if last.failed else None),
        ("granted_pe", last.granted_pe),
        ("jobname", last.job_name),
        ("localuser", owner),
        ("lrms", "sge"),
        ("nodenames", ":".join(_hosts(run)) or None),
        ("projectname", last.project),
    ):
        if value is not None:
            yield key, str(value)
    for group, name, number in last.custom:
        yield f"usage.{group}.{name}" if group else f"usage.{name}", str(number)


def _chosen(name: str | None) -> str | None:
    """An account or department unless it is the one that Grid Engine gives to those who choose none."""
    return None if name in _CHOSEN_BY_NOBODY else name


def _field_sources(run: Run, site: Site) -> Iterator[tuple[str, str]]:
    if site.benchmark(run.master.qname):
        yield "benchmark", "arc.conf"
    if run.master.granted_pe and run.master.slots > 1 and not run.tasks:
        # The records of the other nodes are summed into this one, or were never written: at least one node.
        yield "node_count", "default"
