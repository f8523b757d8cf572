"""
`sacct --json`, of Slurm 22.05 and later: jobs with their steps, each value read on its own.

Later versions wrap numbers (``{"set": true, "infinite": false, "number": 3}``) and make lists of states. What Slurm
22.05 prints wrong is not believed: an exit code of 0 of a job that failed, and a job's own CPU time of 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from arcacct.errors import InputError
from arcacct.files.json_reader import MISSING, BeyondBoundsError, Reader
from arcacct.records.import_quarantine import Fault, fault_of
from arcacct.records.slurm_formats import LARGEST, LATEST_S, Instants, clean, known, known_count, state
from arcacct.slurm.record import UNFINISHED, SacctPart, SacctUse, SlurmRun, cpu_use

LARGEST_JOB = 2 * 1024 * 1024
"""Characters of a job without its steps, which have some 10,000, and of what stands around the jobs."""
LARGEST_STEP = 1024 * 1024
"""Characters. Slurm 22.05 prints some 9,000; a job may have any number of steps."""
_LONGEST_NAME = 1024
_MOST_COMPLAINT = 500
"""Characters."""


class Element(NamedTuple):
    """A job of an output."""

    job: Any
    steps: SacctUse
    fault: Fault | None
    """Why it cannot be used: what of it was not read."""
    text: str
    """As it was read, as far as that is kept."""
    length: int
    """Characters, all of it."""
    unusable: frozenset[str]
    """Of its steps: columns, as tables have them, with a value that cannot be used."""


def elements(chunks: Iterable[bytes], most_kept: int) -> Iterator[Element]:
    """
    The jobs of an output, however long it is; of several outputs, one behind the other, all. Bounded memory.

    Raises InputError when it ends before its end, is no output of sacct, or sacct says in it that something failed;
    what came before is good.
    """
    reader = Reader(chunks, most_kept)
    failed: list[object] = []
    while True:
        has_jobs = False
        reader.expect("{")
        while not reader.skip("}"):
            name = _name(reader)
            if name == "jobs" and reader.skip("["):
                has_jobs = True
                while not reader.skip("]"):
                    yield _element(reader)
                    reader.skip(",")
            else:
                try:
                    value = reader.value(LARGEST_JOB)
                except BeyondBoundsError as error:
                    value = f"{name} is {error}"
                if name == "errors" and value:
                    failed += value if isinstance(value, list) else [value]
            reader.skip(",")
        if not has_jobs:
            raise InputError("there is no list of jobs in it, as sacct prints one with --json")
        if reader.is_at_end():
            break
    if failed:
        raise InputError(f"sacct says in it: {json.dumps(failed)[:_MOST_COMPLAINT]}")


def _name(reader: Reader) -> str:
    """The name of a member, and its colon."""
    try:
        name = reader.value(_LONGEST_NAME)
    except BeyondBoundsError as error:
        raise InputError(f"damaged: a name is {error}") from None
    if type(name) is not str:
        raise InputError(f"damaged: a name is {name!r:.40}")
    reader.expect(":")
    return name


def _element(reader: Reader) -> Element:
    """The next job: at once if all of it came already, else member by member, and step by step."""
    reader.keep()
    begin = reader.passed
    fault = None
    job, steps = reader.whole(), _Steps()
    if type(job) is dict:
        for one in job["steps"] if type(job.get("steps")) is list else ():
            steps.add(one)
    elif job is MISSING and reader.skip("{"):
        job, fault = _members(reader, steps)
    elif job is MISSING:
        try:
            job = reader.value(LARGEST_JOB)
        except BeyondBoundsError as error:
            job, fault = None, Fault(f"not an object, and {error}")
    fault = fault or steps.fault
    return Element(job, steps.use, fault, reader.kept, reader.passed - begin, frozenset(steps.unusable))


class _Steps:
    """The steps of a job together."""

    def __init__(self) -> None:
        self.use = SacctUse()
        self.fault: Fault | None = None
        self.unusable: set[str] = set()

    def add(self, step: Any) -> None:
        if type(step) is dict and self.fault is None:
            try:
                self.use = self.use.plus(_step(step, self.unusable))
            except Exception as error:  # noqa: BLE001  whatever it is, it costs this job alone
                self.fault = fault_of(error)

    def read(self, reader: Reader) -> None:
        """The rest of their list; what was added before was of another one."""
        self.use, self.fault, self.unusable = SacctUse(), None, set()
        while not reader.skip("]"):
            try:
                self.add(reader.value(LARGEST_STEP))
            except BeyondBoundsError as error:
                self.fault = self.fault or Fault(f"a step is {error}")
            reader.skip(",")


def _members(reader: Reader, steps: _Steps) -> tuple[dict[str, Any], Fault | None]:
    """The rest of a job, but for its steps; why not all of it was read."""
    job: dict[str, Any] = {}
    fault: Fault | None = None
    used = 0
    while not reader.skip("}"):
        begin = reader.passed
        name = _name(reader)
        if name == "steps" and reader.skip("["):
            steps.read(reader)
        else:
            try:
                value = reader.value(LARGEST_JOB)
            except BeyondBoundsError as error:
                fault = fault or Fault(f"{name:.40} is {error}")
            used += reader.passed - begin
            if used > LARGEST_JOB:
                fault = fault or Fault(f"longer than any job without its steps: {LARGEST_JOB} characters")
            if fault is None:
                job[name] = value
        reader.skip(",")
    return job, fault


def parts(element: Element, unusable: set[str]) -> tuple[SacctPart, SacctUse]:
    """
    A job and its steps. Columns (as tables have them) whose values cannot be used go into ``unusable``.

    Raises ValueError when it has no number, or a value that has to be there is none.
    """
    job = element.job
    if type(job) is not dict:
        raise ValueError("not an object")
    time = _inside(job, "time")
    states = _inside(job, "state").get("current", job.get("state"))
    names = [state(one) for one in (states if type(states) is list else [states]) if type(one) is str]
    # Of several the one that says that the job goes on, else the first: the others are flags.
    at = next((one for one in names if one in UNFINISHED), names[0] if names else "")
    code = _inside(job, "exit_code")
    of_signal = _inside(code, "signal")
    status, signal = _count(code.get("return_code")), _count(of_signal.get("signal_id", of_signal.get("id")))
    if not status and not signal and at != "COMPLETED":
        status = signal = None
    allocated = _tres(_inside(job, "tres").get("allocated"), {"cpu": "AllocCPUS", "node": "NNodes"}, unusable)
    number = _number(job.get("job_id"))
    if not number:
        raise ValueError("job_id is missing")
    run = SlurmRun(
        _text(job.get("cluster")) or _text(_inside(job, "association").get("cluster")),
        number,
        shown=_shown(job, number),
        state=at,
        exit_status=status,
        exit_signal=signal,
        nodes=allocated.get("node") or _count(job.get("allocation_nodes")),
        node_list=_text(job.get("nodes")),
        partition=_text(job.get("partition")),
        user=_text(job.get("user")) or _text(_inside(job, "association").get("user")),
        group=_text(job.get("group")),
        account=_text(job.get("account")),
        qos=_text(job.get("qos")),
        wckey=_text(_inside(job, "wckey").get("wckey")),
        name=_text(job.get("name")),
        tres=",".join(f"{name}={count}{'M' if name == 'mem' else ''}" for name, count in sorted(allocated.items())),
    )
    part = SacctPart(
        step="",
        submit=_instants(time, "submission"),
        start=_instants(time, "start"),
        end=_instants(time, "end"),
        elapsed_s=_read(time.get("elapsed"), "ElapsedRaw", unusable),
        suspended_s=_read(time.get("suspended"), "Suspended", unusable),
        cores=allocated.get("cpu") or _count(_inside(job, "required").get("CPUs")),
        use=_cpu(time, unusable),
        run=run,
    )
    return part, element.steps


def _step(step: dict[str, Any], unusable: set[str]) -> SacctUse:
    requested = _inside(_inside(step, "tres"), "requested")
    most = _tres(requested.get("max"), {"mem": "MaxRSS", "vmem": "MaxVMSize"}, unusable)
    memory, virtual = (-(-most[name] // 1024) if name in most else None for name in ("mem", "vmem"))
    # What a table has as TRESUsageInTot: CPU time in milliseconds.
    sampled_ms = _tres(requested.get("total"), {}, unusable).get("cpu")
    sampled_us = None if sampled_ms is None else sampled_ms * 1000
    return _cpu(_inside(step, "time"), unusable, sampled_us)._replace(memory_kib=memory, virtual_memory_kib=virtual)


def _cpu(time: dict[str, Any], unusable: set[str], sampled_us: int | None = None) -> SacctUse:
    columns = {"user": "UserCPU", "system": "SystemCPU", "total": "TotalCPU"}
    user_us, kernel_us, total_us = (_us(_inside(time, name), columns[name], unusable) for name in columns)
    parts_us = None if user_us is None and kernel_us is None else (user_us or 0) + (kernel_us or 0)
    return SacctUse(cpu_us=cpu_use((total_us, parts_us), sampled_us), cpu_kernel_us=kernel_us)


def _us(time: dict[str, Any], column: str, unusable: set[str]) -> int | None:
    seconds, rest_us = (_read(time.get(name), column, unusable) for name in ("seconds", "microseconds"))
    return None if seconds is None else seconds * 10**6 + (rest_us or 0)


def _inside(value: dict[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name)
    return found if type(found) is dict else {}


def _number(value: Any) -> int | None:
    """A number, wrapped or not; ``None`` for what is none, unlimited, or no measurement."""
    if type(value) is dict:
        value = value.get("number") if value.get("set") is not False and value.get("infinite") is not True else None
    return value if type(value) is int and 0 <= value <= LARGEST and known(value) is not None else None


def _read(value: Any, column: str, unusable: set[str]) -> int | None:
    """A number; the column that it has in tables goes into ``unusable`` if something is said that is no number."""
    number = _number(value)
    if number is None and value is not None and not (type(value) is dict and value.get("set") is False):
        unusable.add(column)
    return number


def _count(value: Any) -> int | None:
    """A number of CPUs or nodes, or an exit code."""
    number = _number(value)
    return None if number is None else known_count(number)


def _text(value: Any) -> str:
    return clean(value) if type(value) is str else ""


def _instants(time: dict[str, Any], name: str) -> Instants | None:
    """A time; null, 0 and what is not set are none."""
    found = _number(time.get(name))
    if not found:
        return None
    if found >= LATEST_S:
        raise ValueError(f"time.{name}: {found} is no time of a job")
    return Instants(found, found)


def _tres(value: Any, columns: Mapping[str, str], unusable: set[str]) -> dict[str, int]:
    """
    Trackable resources by name, as they are counted here: memory of an allocation in MiB, of a usage in bytes.

    ``columns``: those that are used, with the column that tables have for them.
    """
    found = {}
    for one in value if type(value) is list else ():
        if type(one) is not dict:
            continue
        name = _text(one.get("name"))
        what = _text(one.get("type")) + (f"/{name}" if name else "")
        said = one.get("count")
        count = _read(said, columns[what], unusable) if what in columns else _number(said)
        if count is not None:
            found[what] = count
    return found


def _shown(job: dict[str, Any], number: int) -> str:
    array, het = _inside(job, "array"), _inside(job, "het")
    for of, sign, place in ((array, "_", "task_id"), (het, "+", "job_offset")):
        whole, own = _number(of.get("job_id")), _number(of.get(place))
        if whole:
            return f"{whole}{sign}{own or 0}"
    return str(number)
