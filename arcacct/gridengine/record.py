"""
What Grid Engine accounts: one record for each run of a job or of a task of it.

Texts are plain; what a record does not say is ``None``. Times are kept in microseconds, as the newest writers have
them, since they are part of what a record is known by.
"""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple


class Record(NamedTuple):
    """
    One line of an accounting file, whatever its dialect (sge_accounting(5)).

    A tuple and not a dataclass: an import makes one for every line, and this is the cheapest immutable value.
    """

    job_number: int
    task_number: int
    """Index in an array job; 0: not an array job (part of the key, therefore never unknown)."""
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
    """Of the whole job, also in the records of its tasks."""
    arid: int | None
    """Advance reservation."""
    job_name: str | None
    priority: int | None
    submission_time_us: int
    """Microseconds since 1970; reset when a job is requeued; 0: the record does not say."""
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
    """Until the execution daemon reaped the job: longer than it ran."""
    cpu_s: float | None
    """With ACCT_RESERVED_USAGE the reserved slots times the wall clock, not what was used."""
    mem_gib_s: float | None
    """An integral over time, no amount."""
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
    custom: tuple[tuple[str, str, float | str], ...] = ()
    """``(group, name, value)`` of usage that the site added, sorted; group ``''``: fields of the record itself."""


class RecordKey(NamedTuple):
    """What makes two lines the same record, in whatever dialect and file they stand."""

    job_number: int
    task_number: int
    pe_taskid: str
    submission_time_us: int
    start_time_us: int
    end_time_us: int
    failed: int
    exit_status: int
    qname: str
    hostname: str


_key = attrgetter(*RecordKey._fields)

FAILED = {
    0: "no failure",
    1: "assumedly before job",
    2: "shepherd",
    3: "before writing config",
    4: "before writing pid",
    5: "on reading config",
    6: "setting processor set",
    7: "before prolog",
    8: "in prolog",
    9: "before pestart",
    10: "in pestart",
    11: "before job",
    12: "before pestop",
    13: "in pestop",
    14: "before epilog",
    15: "in epilog",
    16: "releasing processor set",
    17: "through signal",
    18: "shepherd returned error",
    19: "before writing exit_status",
    20: "found unexpected error file",
    21: "in recognizing job",
    22: "removed manually",
    23: "on getting PTF pids",
    24: "migrating",
    25: "rescheduling",
    26: "opening input/output file",
    27: "searching requested shell",
    28: "changing into working directory",
    29: "AFS setup",
    30: "rescheduling on application error",
    36: "checking configured daemons",
    37: "qmaster enforced h_rt limit",
    38: "adding supplementary group",
    100: "assumedly after job",
}
"""What ``failed`` says, for people."""

DID_NOT_RUN = frozenset((*range(1, 12), 21, 26, 27, 28, 29, 36, 38))
"""``failed`` of attempts that never got to the job itself."""
NOT_FINAL = frozenset((24, 25, 30))
"""``failed`` of runs that another may follow: migrated, rescheduled, in error state."""

STORED = Record._fields[:-1]
"""What has a column of its own."""


def key(record: Record) -> RecordKey:
    """What a record is known by."""
    return RecordKey._make(["" if value is None else value for value in _key(record)])


def richer(one: Record, other: Record) -> Record:
    """
    Of two encodings of one record the one that says more: whatever order they come in, the same one stays.

    (Colon lines lack maxrss, deleted_by and custom usage, so a site that converts its files has both.)
    """

    def amount(record: Record) -> tuple[object, ...]:
        known = [value is not None for value in record[:-1]]
        custom = [(group, name, str(value)) for group, name, value in record.custom]
        return sum(known) + len(custom), known, [value for value in record[:-1] if value is not None], custom

    return max(one, other, key=amount)


def failed_text(code: int) -> str:
    """A ``failed`` code with its meaning."""
    return f"{code} {FAILED.get(code, 'unknown code')}"


def started(record: Record) -> bool:
    """Whether the job itself ran, so that there is something to account."""
    return record.start_time_us > 0 and record.failed not in DID_NOT_RUN
