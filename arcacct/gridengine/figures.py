"""What an accounting file says of a span of time, job by job, to be compared with what is recorded."""

from __future__ import annotations

from collections.abc import Iterator

from arcacct.errors import InputError
from arcacct.files.follow import Overlong, Reader
from arcacct.gridengine.lines import read_lines
from arcacct.gridengine.local_jobs import local_job
from arcacct.gridengine.record import Record
from arcacct.gridengine.runs import jobs
from arcacct.records.batch_jobs import Figures, figures
from arcacct.records.import_quarantine import Fault
from arcacct.records.imports import BatchSite
from arcacct.wording import count_of

_RUNS_S = 31 * 86_400
"""So long before a job's last run its first may have ended."""


def of_file(path: str, start: int, end: int) -> Iterator[Figures]:
    """
    The jobs that ended at or after ``start`` and before ``end``, UTC seconds; their records are held in memory.

    Raises InputError when the file cannot be read, or lines of it cannot be used.
    """
    found: dict[tuple[int, int], list[Record]] = {}
    bad = 0
    with Reader(path) as reader:
        for lines in reader.lines():
            bad += isinstance(lines, Overlong)
            for _, one in read_lines(() if isinstance(lines, Overlong) else lines):
                if isinstance(one, Fault):
                    bad += 1
                elif start - _RUNS_S <= one.end_time_us // 10**6 < end:
                    found.setdefault((one.job_number, one.task_number), []).append(one)
        if reader.complaint:
            raise InputError(reader.complaint)
    site = BatchSite()
    for records in found.values():
        for job in (local_job(runs, site) for runs in jobs(records)):
            if job is not None and start <= job.end_time < end:
                yield figures(job)
    if bad:
        raise InputError(f"{path}: {count_of(bad, 'line')} not usable; `arcacct import gridengine` says why")
