"""
What Slurm knew of a job or of one of its steps: partial and redundant reports, merged field by field.

The merged state does not depend on the order in which reports came: each field remembers when it was said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from arcacct.records.slurm_formats import UNSET, MalformedError, compress, expand, known_count
from arcacct.sonar import fields as field
from arcacct.sonar.fields import STRICT, Strict

Value = int | str
PENDING, REQUEUED = "PENDING", "REQUEUED"
_UNFINISHED = {PENDING: 0, "RUNNING": 1, "SUSPENDED": 1, "COMPLETING": 1, "CONFIGURING": 1, REQUEUED: 1}


class SlurmJob(NamedTuple):
    """
    What is known of one run of a job (``job_step`` empty) or step, and when each value was said.

    What one report says of it is one, too: all of it was said at one time. What is not known is not in ``values``.
    """

    job_id: int
    job_step: str
    values: dict[str, Value]
    times: dict[str, int]

    def number(self, name: str) -> int | None:
        """A value that is a number."""
        value = self.values.get(name)
        return value if isinstance(value, int) else None

    def text(self, name: str) -> str | None:
        """A value that is a text."""
        value = self.values.get(name)
        return value if isinstance(value, str) else None

    @property
    def finished(self) -> bool:
        """Whether the state is one that a job does not leave by itself; a run that was requeued may be over as well."""
        state = self.text("job_state")
        if state == REQUEUED:
            return self.number("end_time") is not None
        return state is not None and state not in _UNFINISHED


def _state(value: dict[str, Any], key: str) -> str:
    """
    The state's first word: "CANCELLED by 2101037" names the user who did it.

    Absent where a daemon of Sonar 0.13 or 0.14 sends only what has changed of a job.
    """
    words = field.text(value, key).split()
    if not words and value.get(key):
        raise MalformedError(f"{key} is blank")
    return words[0].upper() if words else ""


def _number(value: dict[str, Any], key: str) -> int | None:
    """A number that Slurm told; ``None`` for one that stands for none."""
    told = value.get(key)
    return None if type(told) is int and told in UNSET else field.known(value, key)


def _count(value: dict[str, Any], key: str) -> int | None:
    """A number of CPUs or nodes, or an exit code."""
    number = _number(value, key)
    return None if number is None else known_count(number)


def _extended(value: dict[str, Any], key: str) -> int | None:
    number = field.extended(value, key)
    return None if number in UNSET else number


FIELDS: dict[str, Callable[[dict[str, Any], str], Value | None]] = {
    "job_name": field.text,
    "job_state": _state,
    "array_job_id": _number,
    "array_task_id": _number,
    "het_job_id": _number,
    "het_job_offset": _number,
    "user_name": field.text,
    "account": field.text,
    "submit_time": field.moment,
    "time_limit": _extended,
    "partition": field.text,
    "reservation": field.text,
    # Ranges are checked here and kept in one form.
    "nodes": lambda value, key: compress(expand(field.texts(value, key))),
    "priority": _extended,
    # Sonar's filter is the wrong way round: it lets "Unknown" through.
    "distribution": lambda value, key: {"Unknown": ""}.get(found := field.text(value, key), found),
    "gres_detail": lambda value, key: ",".join(field.texts(value, key)),
    "requested_resources": field.text,
    "allocated_resources": field.text,
    "requested_cpus": _count,
    "minimum_cpus_per_node": _count,
    "requested_memory_per_node": _number,
    "requested_node_count": _count,
    "start_time": field.moment,
    "suspend_time": _number,
    "end_time": field.moment,
    "exit_code": _count,
}
"""The fields of a SlurmJob, by the name they have there, with their readers."""

SACCT_FIELDS: dict[str, Callable[[dict[str, Any], str], Value | None]] = {
    "MinCPU": _number,
    "AllocTRES": field.text,
    **dict.fromkeys(("AveCPU", "AveDiskRead", "AveDiskWrite", "AveRSS", "AveVMSize", "ElapsedRaw"), _number),
    **dict.fromkeys(("SystemCPU", "UserCPU", "MaxRSS", "MaxVMSize"), _number),
}
"""The fields of SacctData; CPU in seconds, memory and disk in KiB."""


def slurm_report(value: Any, time: int, fields: Strict = STRICT) -> SlurmJob:
    """
    One element of ``slurm_jobs``, said at a time.

    Raises MalformedError when it cannot be told which job or step it is; with strict readers for any other value, too.
    """
    if type(value) is not dict:
        raise MalformedError("not an object")
    job_id = field.uint(value, "job_id")
    if not job_id:
        raise MalformedError("job_id is missing")
    step = field.text(value, "job_step")
    found: dict[str, Value] = {}
    _take(found, value, FIELDS, fields)
    sacct = fields.inside(value, "sacct")
    if sacct is not None:
        _take(found, sacct, SACCT_FIELDS, fields)
    # The index in an array or a heterogeneous job is left out when it is 0, and is 0 then. A pending array as a whole
    # has none either; its last element keeps the job_id of the whole.
    if found.get("array_job_id") and found.get("job_state", PENDING) != PENDING:
        found.setdefault("array_task_id", 0)
    if found.get("het_job_id"):
        found.setdefault("het_job_offset", 0)
    return SlurmJob(job_id, step, found, dict.fromkeys(found, time))


def refuse_without_span(value: dict[str, Any], report: SlurmJob) -> None:
    """
    Raise MalformedError for a job that ended when its start or end, as it was sent, is unusable.

    What else the report says is good, but without them the job is no record: nobody should have to notice by himself.
    """
    if report.job_step or not report.finished:
        return
    start, end = report.number("start_time"), report.number("end_time")
    for name, found in (("start_time", start), ("end_time", end)):
        if value.get(name) and found is None:
            raise MalformedError(f"{name} is not a time: the job cannot be recorded without it")
    # One that was cancelled before it ran may have the start that it was to have.
    if start is not None and end is not None and end < start and report.text("job_state") != "CANCELLED":
        raise MalformedError("end_time is before start_time: the job cannot be recorded")


def _take(
    found: dict[str, Value],
    value: dict[str, Any],
    readers: dict[str, Callable[[dict[str, Any], str], Value | None]],
    fields: Strict,
) -> None:
    for name, reader in readers.items():
        if name in value:
            read = fields.optional(reader, value, name)
            if read is not None and read != "":
                found[name] = read


def merged(job: SlurmJob, report: SlurmJob) -> SlurmJob:
    """A job with one more report: what is said later holds, what is not said stays."""
    values, times = dict(job.values), dict(job.times)
    for name, value in report.values.items():
        said, now = times.get(name), report.times[name]
        if said is None or (now, *_rank(name, value)) > (said, *_rank(name, values[name])):
            values[name] = value
            times[name] = now
    return job._replace(values=values, times=times)


def _rank(name: str, value: Value) -> tuple[int, str]:
    """Which of two values of the same second holds: of states the later in a job's life, else any, always the same."""
    rank = _UNFINISHED.get(str(value), 2) if name == "job_state" else 0
    return rank, f"{value:020d}" if isinstance(value, int) else value


def same_run(job: SlurmJob, report: SlurmJob) -> bool:
    """
    Whether a report is of this run: a job that is requeued keeps its job_id and starts again.

    A later start after a final state is another run, and so is a job that waits after its end.
    """
    start, other = job.number("start_time"), report.number("start_time")
    if start is not None and other is not None:
        return start == other or not (job if start < other else report).finished
    if start is not None:
        end = job.number("end_time")
        waits = report.text("job_state") == PENDING
        return not (job.finished and waits and end is not None and report.times["job_state"] > end)
    if other is not None:
        # This run never started. It was cancelled, or it is the one that starts now, or one after that.
        ended = report.number("end_time")
        return not (report.finished and ended is not None and job.times.get("job_state", 0) > ended)
    return True
