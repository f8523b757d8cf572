"""Grid Engine's records, one for each run; the runs of one job; and the job made from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from arcacct.records import batch_jobs, states
from arcacct.records.enrichment import DEFAULT
from arcacct.records.model import Job, whole_cpu_s
from arcacct.records.states import ABORTED, COMPLETED
from arcacct.resources import LARGEST, Accelerators, granted, gridengine_gpus, of_runs
from arcacct.sources.engine.runs import BatchSite

# Grid Engine's records: one for each run of a job or of one of its tasks.
#
# Texts are plain. A value that a record does not have is ``None``. Times are in microseconds, as the newest versions
# write them, because times are part of the key of a record.


class Record(NamedTuple):
    """
    One line of an accounting file, in any dialect (sge_accounting(5)).

    A tuple and not a dataclass: an import makes one for every line, and this is the cheapest immutable value.
    """

    cell: str
    """Cell (cluster) that it is from."""
    job_number: int
    task_number: int
    """Index in an array job; 0: not an array job. It is part of the key, so it is never unknown."""
    pe_taskid: str | None
    """Task of a tightly integrated parallel job, e.g. ``1.wn001``; ``None`` for the record of the job itself."""
    qname: str | None
    hostname: str | None
    owner: str | None
    group: str | None
    account: str | None
    project: str | None
    department: str | None
    granted_pe: str | None
    slots: int
    """Slots of the whole job, also in the records of its tasks."""
    arid: int | None
    """Advance reservation."""
    job_name: str | None
    priority: int | None
    submission_time_us: int
    """Microseconds since 1970. A requeue resets it. 0: unknown."""
    start_time_us: int
    """0: never started."""
    end_time_us: int
    ar_submission_time_us: int | None
    submit_cmd_line: str | None
    category: str | None
    failed: int
    """Key of FAILED."""
    exit_status: int
    deleted_by: str | None
    """``user@host``; ``execd@host`` and ``qmaster@host`` when a limit killed the job."""
    ru_wallclock_s: float
    ru_utime_s: float
    ru_stime_s: float
    ru_maxrss_kib: float
    ru_ixrss: float | None
    ru_ismrss: float | None
    ru_idrss: float | None
    ru_isrss: float | None
    ru_minflt: float | None
    ru_majflt: float | None
    ru_nswap: float | None
    ru_inblock: float | None
    ru_oublock: float | None
    ru_msgsnd: float | None
    ru_msgrcv: float | None
    ru_nsignals: float | None
    ru_nvcsw: float | None
    ru_nivcsw: float | None
    wallclock_s: float | None
    """Seconds until the execution daemon reaped the job: longer than the job ran."""
    cpu_s: float | None
    """CPU seconds. With ACCT_RESERVED_USAGE it is the reserved slots times the wall clock, not the use."""
    mem_gib_s: float | None
    """An integral over time, not an amount."""
    io_gib: float | None
    ioops: float | None
    iow_s: float | None
    maxvmem_bytes: float | None
    maxrss_bytes: float | None
    maxpss_bytes: float | None
    job_class: str | None
    submit_host: str | None
    cwd: str | None
    bound_cores: str | None
    file_id: int = 0
    """The file in the database and the line that it was read from."""
    line: int = 0
    custom: tuple[tuple[str, str, float | str], ...] = ()
    """``(group, name, value)`` of usage that the site added, sorted; group ``''``: fields of the record itself."""

    @property
    def end_time(self) -> int:
        """The end in UTC seconds; 0: unknown."""
        return self.end_time_us // 1_000_000


_key = attrgetter(
    *("job_number", "task_number", "pe_taskid", "submission_time_us", "start_time_us", "end_time_us"),
    *("failed", "exit_status", "qname", "hostname"),
)

_UP_TO_30 = (
    *("no failure", "assumedly before job", "shepherd", "before writing config", "before writing pid"),
    *("on reading config", "setting processor set", "before prolog", "in prolog", "before pestart"),
    *("in pestart", "before job", "before pestop", "in pestop", "before epilog", "in epilog"),
    *("releasing processor set", "through signal", "shepherd returned error", "before writing exit_status"),
    *("found unexpected error file", "in recognizing job", "removed manually", "on getting PTF pids"),
    *("migrating", "rescheduling", "opening input/output file", "searching requested shell"),
    *("changing into working directory", "AFS setup", "rescheduling on application error"),
)
FAILED = dict(enumerate(_UP_TO_30)) | {
    36: "checking configured daemons",
    37: "qmaster enforced h_rt limit",
    38: "adding supplementary group",
    100: "assumedly after job",
}
"""The meaning of each ``failed`` code."""

DID_NOT_RUN = frozenset((*range(1, 12), 21, 26, 27, 28, 29, 36, 38))
"""``failed`` codes of attempts that never started the job itself."""
FOLLOWED = frozenset((24, 25))
"""``failed`` codes of runs that another run follows: migrated, rescheduled."""
NOT_FINAL = frozenset((*FOLLOWED, 30))
"""``failed`` codes of runs that another run may follow: also in error state, until someone clears it."""

STORED = Record._fields[1:-3]
"""The values of a record with a column of their own."""


def key(record: Record) -> tuple[Any, ...]:
    """Return the key of a record in its cell. Lines with the same key are the same record, in any dialect or file."""
    return tuple(["" if value is None else value for value in _key(record)])


def richer(one: Record, other: Record) -> Record:
    """
    Return the more complete of two encodings of one record. The order of the arguments does not matter.

    Colon lines lack maxrss, deleted_by and custom usage. A site that converts its files has both encodings.
    """

    def amount(record: Record) -> tuple[object, ...]:
        known = [value is not None for value in record[1:-3]]
        custom = [(group, name, str(value)) for group, name, value in record.custom]
        return sum(known) + len(custom), known, [value for value in record[1:-3] if value is not None], custom

    return max(one, other, key=amount)


def failed_text(code: int) -> str:
    """Return a ``failed`` code with its meaning."""
    return f"{code} {FAILED.get(code, 'unknown code')}"


def started(record: Record) -> bool:
    """Whether the job itself ran, so that it has usage to account."""
    return record.start_time_us > 0 and record.failed not in DID_NOT_RUN


def gpus_of(record: Record) -> int:
    """Return the number of GPUs of a job from its record."""
    said = {name: str(value) for group, name, value in record.custom if not group}
    names = ("resource_map", "granted_req", "gpus")
    return gridengine_gpus(record.category or "", *(said.get(name, "") for name in names))


# Make jobs from records: find the runs of one job, and add up their measured values.
#
# The result depends only on the records, never on the order in which they were read. The same jobs result from any
# division of the files and any order of imports.


SAME_US = 60_000_000
"""A job that its own exit code requeues is submitted again within this time. No other job gets the number so soon."""
REQUEUED_US = 30 * 86_400_000_000
"""A record of the same number can belong to the same job for this time after an end that was not final."""


class Run(NamedTuple):
    """One attempt at a job: its own record, and the records of the tasks of a tightly integrated parallel job."""

    master: Record
    tasks: tuple[Record, ...] = ()

    @property
    def records(self) -> tuple[Record, ...]:
        """Return all records. The job's own record is last, as in the file."""
        return (*self.tasks, self.master)


class JobRuns(NamedTuple):
    """A job, or one task of an array job, with all attempts in order of time."""

    runs: tuple[Run, ...]

    @property
    def counted(self) -> tuple[Run, ...]:
        """Return the runs that started the job itself. Only these are accounted."""
        return tuple([run for run in self.runs if started(run.master)])


class Used(NamedTuple):
    """The measured values of some records, in the units of an accounting record."""

    stime_s: float
    cpu_s: float
    memory_kib: float
    """Maximum resident memory; 0: unknown."""
    virtual_memory_kib: float
    hosts: tuple[str, ...]


def jobs(records: Iterable[Record]) -> list[JobRuns]:
    """
    Return the jobs of all records with one job and task number, in order of time.

    Usually there is one job. Numbers restart when they wrap or when a cell is created again, so records that cannot
    belong to the same job are separated. Tasks without any record of their job belong to no job.
    """
    masters: list[Record] = []
    tasks: list[Record] = []
    for record in records:
        (masters if record.pe_taskid is None else tasks).append(record)
    if len(masters) == 1:
        return [JobRuns((Run(masters[0], tuple(sorted(tasks, key=_order)) if tasks else ()),))]
    masters.sort(key=_order)
    of_run: list[list[Record]] = [[] for _ in masters]
    for task in sorted(tasks, key=_order) if masters else ():
        # Use the run that contains a task. Else use the next run that ends after it, since tasks come first. Else use
        # the last run.
        ran = [place for place, master in enumerate(masters) if master.start_time_us]
        after = [place for place in ran if masters[place].end_time_us >= task.end_time_us]
        within = [place for place in after if masters[place].start_time_us <= task.start_time_us]
        of_run[(within or after or ran[-1:] or [len(masters) - 1])[0]].append(task)
    runs = [Run(master, tuple(of_run[place])) for place, master in enumerate(masters)]
    return [JobRuns(tuple(chain)) for chain in _chains(runs)]


def _order(record: Record) -> tuple[object, ...]:
    """
    Return the sort key in time: the start, or the submission if the run never started. Records without any time come
    first.
    """
    begin = record.start_time_us or record.submission_time_us
    final = record.failed not in NOT_FINAL
    rest = (record.failed, record.exit_status, record.pe_taskid or "", record.qname or "", record.hostname or "")
    return begin, record.end_time_us, record.submission_time_us, final, rest


def _chains(runs: list[Run]) -> list[list[Run]]:
    chains: list[list[Run]] = []
    end = 0
    final = False
    for run in runs:
        master = run.master
        if chains and master.submission_time_us <= end + (SAME_US if final else REQUEUED_US):
            chains[-1].append(run)
        else:
            chains.append([run])
            end = 0
        if not _no_time(master):
            end = max(end, master.end_time_us, master.submission_time_us)
            final = started(master) and master.failed not in NOT_FINAL
    # Empty records sort first. They are not a job: they belong to the first record that has a time.
    if len(chains) > 1 and all(_no_time(run.master) for run in chains[0]):
        return [chains[0] + chains[1], *chains[2:]]
    return chains


def _no_time(record: Record) -> bool:
    """Whether this is an empty record without times, which a manual reschedule leaves."""
    return not (record.start_time_us or record.submission_time_us)


def deciding(counted: tuple[Run, ...]) -> Run:
    """Return the run that decides the status of a job: the last final run, else the last run."""
    return next((run for run in reversed(counted) if run.master.failed not in NOT_FINAL), counted[-1])


def is_reserved(record: Record) -> bool:
    """
    Whether CPU time and memory are the reserved amounts, not the use (execd_params ACCT_RESERVED_USAGE).

    Then the CPU time is exactly the wall clock times the slots, which is more than the processes used. The memory is
    the limit over the whole time, or 0 without a limit.
    """
    cpu, wall = record.cpu_s, record.ru_wallclock_s
    if not cpu or not wall or cpu <= record.ru_utime_s + record.ru_stime_s + 0.001:
        return False
    slots = cpu / wall
    if round(slots) < 1 or abs(slots - round(slots)) * wall > 2e-6:
        return False
    memory, limit = record.mem_gib_s or 0.0, record.maxvmem_bytes or 0.0
    return abs(memory * 2**30 - limit * cpu) <= 0.001 * limit * cpu or abs(memory * 2**30 - limit * wall) <= 0.001 * (
        limit * wall
    )


def wall_us(record: Record) -> int:
    """
    Return the duration of the record's run in microseconds, from start to end.

    `wallclock` lasts until the daemon reaped the job, so it is used only when no end can be correct.
    """
    if record.end_time_us > record.start_time_us > 0:
        return record.end_time_us - record.start_time_us
    if has_no_end(record):
        return round((record.wallclock_s or record.ru_wallclock_s) * 1_000_000)
    return 0


def has_no_end(record: Record) -> bool:
    """Whether a started run has no end, or an end before its start. The clocks of two hosts of a site may differ."""
    return record.start_time_us > record.end_time_us >= 0


def end_us(record: Record) -> int:
    """Return the end of the record's run in microseconds."""
    return max(record.end_time_us, record.start_time_us + wall_us(record))


def used(records: Iterable[Record]) -> Used:
    """Return the sum of CPU times, the maximum of memory, and the distinct hosts in order of the records."""
    stime = cpu = memory = virtual = 0.0
    hosts: dict[str, None] = {}
    for record in records:
        reserved = is_reserved(record)
        both = record.ru_utime_s + record.ru_stime_s
        stime += record.ru_stime_s
        cpu += both if reserved else max(both, record.cpu_s or 0.0)
        resident = 0.0 if reserved else (record.maxrss_bytes or 0.0) / 1024
        memory = max(memory, resident or record.ru_maxrss_kib)
        virtual = max(virtual, 0.0 if reserved else (record.maxvmem_bytes or 0.0) / 1024)
        if record.hostname:
            hosts[record.hostname] = None
    return Used(stime, cpu, memory, virtual, tuple(hosts))


# Map the records of a Grid Engine job to an A-REX Accounting Record.
#
# Times and durations are summed in microseconds and rounded once. The job has no endpoint. It is published as local,
# under the site's ``lrms_host``.


NEVER_REALLY_RAN = 271
"""
ExitCode of a job that failed although its script returned 0. A-REX's own Grid Engine backend writes the same value.
"""
_CHOSEN_BY_NOBODY = frozenset(("sge", "defaultdepartment"))
_DAEMONS = ("execd", "qmaster", "schedd")
_REMOVED = 22
_US = 1_000_000


def local_job(runs: JobRuns, site: BatchSite) -> Job | None:
    """Return the accounting record of a job; ``None`` when none of its runs started the job itself."""
    counted = runs.counted
    if not counted:
        return None
    last = deciding(counted)
    record = last.master
    totals = used([record for run in counted for record in (run.master, *run.tasks)])
    whose = {"owner": record.owner, "group": record.group, "account": record.account, "project": record.project}
    user_s, kernel_s = whole_cpu_s(totals.cpu_s, totals.stime_s)
    submitted = submit_time(runs)
    end_time = round(max([end_us(run.master) for run in counted]) / _US)
    benchmark, source = site.benchmark(record.qname, end_time)
    sources = [("benchmark", source)] if benchmark else []
    if record.granted_pe and record.slots > 1 and not last.tasks:
        # The records of the other nodes are summed into this one, or were never written. So the job had at least one
        # node.
        sources.append(("node_count", DEFAULT))
    if any(has_no_end(run.master) for run in counted):
        # By the daemon's clock, not from start to end.
        sources.append(("wall_s", DEFAULT))
    slots = [max(run.master.slots, 1) for run in counted]
    wall_s = round(sum([wall_us(run.master) for run in counted]) / _US)
    extra = list(_extra(record))
    if len(set(slots)) > 1:
        core_us = sum([wall_us(run.master) * count for run, count in zip(counted, slots, strict=True)])
        wall_s, exact, label = batch_jobs.calculated_wall(round(core_us / _US), max(slots))
        extra.append(exact)
        sources = [*(one for one in sources if one[0] != "wall_s"), label]
    return Job(
        # A requeue resets the submission time, so take the earliest one.
        batch_jobs.job_id("gesge", record.cell, local_job_id(runs.runs[0].master), submitted),
        status(record),
        submitted,
        end_time,
        local_job_id=local_job_id(record),
        endpoint_type=batch_jobs.LOCAL,
        queue=record.qname or "",
        **batch_jobs.accounted_to(whose, site.rules)._asdict(),
        exit_code=exit_code(record),
        node_count=len(_hosts(last)) or 1,
        core_count=max(slots),
        memory_kib=_amount(totals.memory_kib),
        virtual_memory_kib=_amount(totals.virtual_memory_kib),
        wall_s=wall_s,
        cpu_user_s=_amount(user_s or 0) or 0,
        cpu_kernel_s=_amount(kernel_s or 0) or 0,
        job_name=record.job_name,
        lrms="sge",
        node_names=_hosts(last),
        local_user=f"{record.owner}:{record.group}" if record.owner and record.group else record.owner,
        project=record.project,
        benchmark=benchmark,
        extra=tuple(extra),
        events=tuple(
            event
            for run in counted
            for event in (("LRMSSTART", run.master.start_time_us // _US), ("LRMSEND", end_us(run.master) // _US))
        ),
        field_sources=tuple(sources),
        accelerators=of_runs([_accelerators(run.master) for run in counted]),
    )


def _accelerators(record: Record) -> Accelerators | None:
    """Return the GPUs of a run, from its start to its end."""
    elapsed_us = record.end_time_us - record.start_time_us
    return granted(gpus_of(record), int(elapsed_us / _US + 0.5)) if elapsed_us > 0 else None


def local_job_id(record: Record) -> str:
    """Return the batch system's ID: the number, or ``number.task`` for a task of an array job."""
    return f"{record.job_number}.{record.task_number}" if record.task_number else str(record.job_number)


def submit_time(runs: JobRuns) -> int:
    """
    Return the first submission time of the job, even if that attempt never started. Without one, return its first
    start.
    """
    times = [run.master.submission_time_us for run in runs.runs if run.master.submission_time_us]
    return min(times or [run.master.start_time_us for run in runs.counted] or [0]) // _US


def status(record: Record) -> str:
    """Return ``aborted`` when a user or administrator deleted the job, else ``completed`` or ``failed``."""
    # Daemons that enforce limits also appear in ``deleted_by``.
    by_person = record.deleted_by is not None and record.deleted_by.partition("@")[0] not in _DAEMONS
    if record.failed == _REMOVED or (by_person and record.failed not in NOT_FINAL):
        return ABORTED
    return COMPLETED if record.failed == 0 and record.exit_status == 0 else states.FAILED


def exit_code(record: Record) -> int:
    """Return the exit status; above 128, a signal ended the job. A failed job never gets 0."""
    return NEVER_REALLY_RAN if record.failed and record.exit_status == 0 else record.exit_status


def _amount(value: float) -> int | None:
    """Return a measured value; ``None`` if it is no measurement (nothing, or a counter that fell below zero)."""
    return round(value) or None if 0 <= value < LARGEST else None


def _hosts(run: Run) -> tuple[str, ...]:
    return used((run.master, *run.tasks)).hosts if run.tasks else (run.master.hostname,) if run.master.hostname else ()


def _extra(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the values for which A-REX has no key."""
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
    """Return an account or department; ``None`` for the default that Grid Engine gives without a choice."""
    return None if name in _CHOSEN_BY_NOBODY else name
