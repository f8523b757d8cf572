"""
From records to jobs: which records are runs of one job, and what they measured together.

Everything here depends on the records alone, never on the order in which they were read: whatever way the files are
cut and in whatever order they are imported, the same jobs come out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from arcacct.gridengine.record import NOT_FINAL, Record, started

SAME_US = 60_000_000
"""A job requeued by its own exit code is submitted again within this; another job does not get the number so soon."""
REQUEUED_US = 30 * 86_400_000_000
"""How long after an end that was not final a record of the same number can be the same job's."""


class Run(NamedTuple):
    """One attempt at a job: its own record, and those of the tasks of a tightly integrated parallel job."""

    master: Record
    tasks: tuple[Record, ...] = ()

    @property
    def records(self) -> tuple[Record, ...]:
        """All of them, the job's own last, as in the file."""
        return (*self.tasks, self.master)


class JobRuns(NamedTuple):
    """A job, or one task of an array job, with every attempt in order of time."""

    runs: tuple[Run, ...]

    @property
    def counted(self) -> tuple[Run, ...]:
        """The runs that got to the job itself: only they are accounted."""
        return tuple([run for run in self.runs if started(run.master)])


class Used(NamedTuple):
    """What some records measured, in the units of an accounting record."""

    stime_s: float
    cpu_s: float
    memory_kib: float
    """Maximum resident memory; 0 is unknown."""
    virtual_memory_kib: float
    hosts: tuple[str, ...]


def jobs(records: Iterable[Record]) -> list[JobRuns]:
    """
    The jobs of all records that have one job and task number, in order of time.

    Usually it is one; numbers begin again when they wrap or a cell is made anew, and jobs that cannot be the same
    are told apart. Tasks without any record of their job are in none.
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
        # The run that contains a task, else the next one that ends after it (tasks come first), else the last.
        ran = [place for place, master in enumerate(masters) if master.start_time_us]
        after = [place for place in ran if masters[place].end_time_us >= task.end_time_us]
        within = [place for place in after if masters[place].start_time_us <= task.start_time_us]
        of_run[(within or after or ran[-1:] or [len(masters) - 1])[0]].append(task)
    runs = [Run(master, tuple(of_run[place])) for place, master in enumerate(masters)]
    return [JobRuns(tuple(chain)) for chain in _chains(runs)]


def _order(record: Record) -> tuple[object, ...]:
    """In time: when it began, or when it was submitted if it never did; what has no time at all comes first."""
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
    # Empty records sort first: they are no job of their own, but go with the first that has a time.
    if len(chains) > 1 and all(_no_time(run.master) for run in chains[0]):
        return [chains[0] + chains[1], *chains[2:]]
    return chains


def _no_time(record: Record) -> bool:
    """Whether it is one of the empty records that a reschedule by hand leaves: they say nothing of when."""
    return not (record.start_time_us or record.submission_time_us)


def deciding(counted: tuple[Run, ...]) -> Run:
    """The run that says how a job went: the last one that is final, else the last one."""
    return next((run for run in reversed(counted) if run.master.failed not in NOT_FINAL), counted[-1])


def is_reserved(record: Record) -> bool:
    """
    Whether CPU time and memory are what was reserved, not what was used (execd_params ACCT_RESERVED_USAGE).

    Then the CPU time is exactly the wall clock times the slots, more than the processes used, and the memory is the
    limit over the whole time, or nothing where no limit was asked for.
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
    How long the record's run took, in microseconds: from start to end.

    Never `wallclock`, which ends only when the daemon reaped the job, unless there is no end that can be true.
    """
    if record.end_time_us > record.start_time_us > 0:
        return record.end_time_us - record.start_time_us
    if has_no_end(record):
        return round((record.wallclock_s or record.ru_wallclock_s) * 1_000_000)
    return 0


def has_no_end(record: Record) -> bool:
    """Whether a record of a run that started has no end, or one before the start: two clocks of a site may differ."""
    return record.start_time_us > record.end_time_us >= 0


def end_us(record: Record) -> int:
    """When the record's run ended, in microseconds."""
    return max(record.end_time_us, record.start_time_us + wall_us(record))


def used(records: Iterable[Record]) -> Used:
    """The sum of CPU times and the maximum of memory over records, with the distinct hosts, the first one first."""
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
