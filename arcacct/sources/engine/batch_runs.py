"""Runs of batch systems without their own tables: one common table, and the jobs made from it."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.records import batch_jobs
from arcacct.records.batch_systems import BatchSystem
from arcacct.records.enrichment import DEFAULT
from arcacct.records.model import Job
from arcacct.records.rejected import Fault, tried
from arcacct.records.states import ABORTED, COMPLETED, CORE_SECONDS, FAILED
from arcacct.resources import LARGEST, LATEST_S, granted
from arcacct.sources.engine.runs import BatchSite, KeptRun, Noise, NoUsage, ParsedRun, RunTable, SourceType, together
from arcacct.wording import span_of

_SPELT = {"number": "JobNumber", "local_id": "LocalJobID", "wall_s": "Wall", "cores": "CPUs", "gpus": "GPUs"}
_SPELT |= {"cpu_user_s": "CPUUser", "cpu_kernel_s": "CPUKernel", "memory_kib": "MaxRSS"}
_SPELT |= {"virtual_memory_kib": "MaxVMSize", "queue": "QueueName", "user": "UserName", "group": "GroupName"}
_SPELT |= {"name": "JobName"}
NO_TASK = -1
MOST_CORES = 2**31
"""No job has so many."""


class BatchRun(NamedTuple):
    """One finished run. Empty text, or ``None``: unknown."""

    place: str
    """Server or cluster."""
    number: int
    task: int
    """Index in an array; NO_TASK: not an element of an array."""
    start_time: int
    """UTC seconds; distinguishes the runs of a job."""
    submit_time: int
    end_time: int
    local_id: str
    """The local ID, as the batch system writes it."""
    state: str = COMPLETED
    """A status of A-REX's; empty: only phases of the run are known, its end is not."""
    wall_s: int | None = None
    """``None``: the time from start to end is used."""
    cpu_user_s: int | None = None
    """Includes the kernel's time if both are reported together."""
    cpu_kernel_s: int | None = None
    cores: int | None = None
    gpus: float | None = None
    memory_kib: int | None = None
    virtual_memory_kib: int | None = None
    exit_status: int | None = None
    exit_signal: int | None = None
    node_list: str = ""
    """Each node once, joined by commas."""
    queue: str = ""
    user: str = ""
    group: str = ""
    account: str = ""
    project: str = ""
    name: str = ""
    is_final: int = 1
    """0: the batch system says that another run follows, or nothing of the end."""
    phases: str = ""
    """``END:WALL:CORES`` of each phase whose cores are reported, in seconds, joined by commas."""
    core_s: int | None = None
    """Core seconds of a run with phases; ``None``: wall time times cores."""


class LogForm(NamedTuple):
    """Facts about a log that it does not contain."""

    place: str | None = None
    """The name of the server or cluster; ``None``: the name in the log."""


def _phases(run: BatchRun) -> Iterator[tuple[int, ...]]:
    """Yield the end, wall time in seconds, and cores of each phase."""
    for text in filter(None, run.phases.split(",")):
        yield tuple(map(int, text.split(":")))


def checked(run: BatchRun) -> BatchRun:
    """Return the run. Raises ValueError if it ended before it started."""
    if run.end_time < run.start_time:
        raise ValueError(f"it ended {span_of(run.start_time - run.end_time)} before it started")
    return run


def status_of(exit_status: int | None, exit_signal: int | None, *, by_person: bool = False) -> str:
    """Return A-REX's status for an end: completed only for a known exit status of 0."""
    return ABORTED if by_person else COMPLETED if exit_status == 0 and not exit_signal else FAILED


def whole(text: str) -> int:
    """Parse a whole number of at most LARGEST. Raises ValueError."""
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) <= LARGEST):
        raise ValueError(f"{text[:40]!r} is not a number")
    return int(text)


def text_of(text: str) -> str | None:
    """Return a text; ``None`` for an empty one."""
    return text or None


def chosen(text: str, default: str) -> str | None:
    """Return a text; ``None`` for the default, which means that the user chose none."""
    return None if text == default else text or None


def cores_of(text: str) -> int | None:
    """Parse a number of cores or GPUs; ``None`` for 0. Raises ValueError."""
    found = whole(text)
    if found >= MOST_CORES:
        raise ValueError(f"{found} is more than any job has")
    return found or None


def time_s(text: str | None) -> int:
    """Parse UTC seconds; 0: unknown. Raises ValueError."""
    found = whole(text or "0")
    if found >= LATEST_S:
        raise ValueError(f"{found} is not a time of a job")
    return found


def known_time_s(text: str | None) -> int:
    """Parse UTC seconds. Raises ValueError also for a missing time."""
    found = time_s(text)
    if not found:
        raise ValueError("it is missing")
    return found


class LogSource(SourceType[BatchRun]):
    """A batch system whose runs are in the common table; a subclass reads its log."""

    run_type = BatchRun
    form = LogForm()
    endings = ("",)
    """A directory means all its files, since PBS starts a file each day."""
    place_option: str
    """The command's option for the place: ``server``, ``cluster``."""
    file_help: str
    """The help text for FILE."""
    example: str

    def __init__(self, system: BatchSystem) -> None:
        self.system = system
        self.table = RunTable(
            "BatchRuns", BatchRun, _SPELT, numbers=2, progress=("BatchProgress", "Place"), source=system.source
        )

    def jobs(
        self, runs: Sequence[KeptRun[BatchRun]], site: BatchSite
    ) -> Iterator[tuple[Job, Sequence[KeptRun[BatchRun]]]]:
        """Yield the jobs of runs: all runs of one submission are one repeated job."""
        in_order = sorted(runs, key=lambda one: (one.run.submit_time, one.run.start_time))
        for _, some in groupby(in_order, key=lambda one: one.run.submit_time):
            members = list(some)
            yield together([self.job(one.run, site) for one in members]), members

    def job(self, run: BatchRun, site: BatchSite) -> Job:
        """Return the job of a run."""
        project = run.project or run.account
        whose = {"owner": run.user, "group": run.group, "account": run.account, "project": project}
        benchmark, source = site.benchmark(run.queue or None, run.end_time)
        nodes = tuple(name for name in run.node_list.split(",") if name)
        guessed = (("wall_s", DEFAULT),) if run.wall_s is None else ()
        cores = max(run.cores or 0, *(cores for *_, cores in _phases(run))) if run.phases else run.cores
        wall_s = run.end_time - run.start_time if run.wall_s is None else run.wall_s
        others = {
            CORE_SECONDS: "" if run.core_s is None else str(run.core_s),
            "account": run.account if run.account != project else "",
            "gpus": f"{run.gpus:g}" if run.gpus else "",
            "localgroup": run.group,
        }
        return Job(
            batch_jobs.job_id(self.system.kind, run.place, self.shown(run), run.submit_time),
            run.state,
            run.submit_time,
            run.end_time,
            local_job_id=run.local_id,
            endpoint_type=batch_jobs.LOCAL,
            queue=run.queue,
            **batch_jobs.accounted_to({name: value or None for name, value in whose.items()}, site.rules)._asdict(),
            exit_code=batch_jobs.exit_code(run.exit_status, run.exit_signal, is_removed=run.state == ABORTED),
            node_count=len(nodes) or None,
            core_count=cores,
            memory_kib=run.memory_kib,
            virtual_memory_kib=run.virtual_memory_kib,
            wall_s=wall_s,
            cpu_user_s=run.cpu_user_s,
            cpu_kernel_s=run.cpu_kernel_s,
            job_name=run.name or None,
            lrms=self.system.lrms_names[0],
            node_names=nodes,
            local_user=run.user or None,
            project=project or None,
            benchmark=benchmark,
            extra=batch_jobs.extra_of(others),
            events=(("LRMSSTART", run.start_time), ("LRMSEND", run.end_time)),
            field_sources=((("benchmark", source),) if benchmark else ()) + guessed,
            accelerators=granted(run.gpus or 0, wall_s),
        )

    def joined(self, one: BatchRun, other: BatchRun) -> BatchRun:
        """
        Merge two reports of the same run, and count its core seconds phase by phase.

        The time that no reported phase covers has the cores of the whole run.
        """
        run = super().joined(one, other)
        if not run.phases or one == other:
            return run
        phases = sorted({*_phases(one), *_phases(other)})
        core_s, since, rest_s = 0, run.start_time, run.end_time - run.start_time if run.wall_s is None else run.wall_s
        for end, told_s, cores in phases:
            # Some servers report the time since the start.
            wall_s = max(0, min(told_s, end - since))
            core_s, since, rest_s = core_s + wall_s * cores, end, rest_s - wall_s
        core_s += max(0, rest_s) * (run.cores or 1)
        text = ",".join(":".join(map(str, phase)) for phase in phases)
        return run._replace(phases=text, core_s=core_s if run.state else None)

    def is_part(self, run: BatchRun) -> bool:
        """Whether only phases of the run are known."""
        return not run.state

    def parts(self, con: Connection) -> Iterator[BatchRun]:
        """Yield the phases of stored runs."""
        for run in self.table.where(con, "Phases <> ''"):
            last, *_ = max(_phases(run))
            yield BatchRun(*run[:5], last, run.local_id, "", is_final=0, phases=run.phases)

    def is_final(self, run: BatchRun) -> bool:
        """Whether the batch system does not say that another run follows."""
        return bool(run.is_final)

    @staticmethod
    def shown(run: BatchRun) -> str:
        """Return the number of a run; for an element of an array, ``number[index]``."""
        return str(run.number) if run.task == NO_TASK else f"{run.number}[{run.task}]"

    def arc_record(self, con: Connection, run: BatchRun, job: Job) -> int | None:
        """Find A-REX's record. A-REX appends the server to the number if the batch system's commands do."""
        found = batch_jobs.arc_jobs_called(con, self.shown(run), job, self.system.lrms_names)
        names = ((record_id, name.removeprefix(self.shown(run)).removeprefix(".")) for record_id, name in found)
        return next((record_id for record_id, host in names if batch_jobs.same_host(host, run.place)), None)

    def may_be_arc(self, run: BatchRun) -> bool:
        """Whether A-REX may have submitted the job: it submits no arrays."""
        return run.task == NO_TASK

    def number_of(self, local_job_id: str) -> tuple[int, ...] | None:
        """Return the numbers that A-REX's LocalJobID names; ``None``: unknown form, or an element of an array."""
        found = batch_jobs.local_id(local_job_id)
        return None if found is None or found.task or found.is_element else (found.number, NO_TASK)


# Logs of lines, one record to a line.


_MOST_SHOWN = 60
"""Characters of a line that is left for the next import."""
LONGEST_LINE = 1024 * 1024
"""Bytes. Records have some 2,000; a job on thousands of nodes some 100,000."""


class LogLine(NamedTuple):
    """A line of a log; or a record of several lines."""

    number: int
    """The number of its first line in the log, from 1."""
    text: bytes
    """Without its line end, and cut after LONGEST_LINE bytes."""
    length: int
    """Bytes of the whole line, with its line end."""
    is_complete: bool = True
    """False: it may still be being written."""


def with_beginning(chunks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the beginning of some bytes without blanks, empty if there is nothing else, and all of them again."""
    coming = iter(chunks)
    begun: list[bytes] = []
    for chunk in coming:
        begun.append(chunk if begun else chunk.removeprefix(BOM_UTF8))
        if chunk.strip():
            break
    return b"".join(begun).lstrip(), chain(begun, coming)


def lines_of(chunks: Iterable[bytes], longest: int = LONGEST_LINE) -> Iterator[LogLine]:
    """Yield the lines of a log, with bounded memory."""
    rest = b""
    length = number = 0
    for chunk in chunks:
        *lines, more = chunk.split(b"\n")
        for line in lines:
            number += 1
            # After a crash, some file systems leave zeros at the former end of a file; editors begin it with a mark.
            whole = (rest + line)[: longest + 1].lstrip(b"\0").removeprefix(BOM_UTF8)
            yield LogLine(number, whole, length + len(line) + 1)
            rest, length = b"", 0
        rest = (rest + more)[: longest + 1]
        length += len(more)
    if rest:
        yield LogLine(number + 1, rest, length, is_complete=False)


def log_lines(
    chunks: Iterable[bytes],
    read: Callable[[str, set[str]], BatchRun | NoUsage | Noise | None],
    records: Callable[[Iterable[LogLine]], Iterable[LogLine]] = iter,
) -> Iterator[ParsedRun]:
    """
    Yield the runs of a log, with bounded memory.

    ``read`` parses a record. It returns ``None`` for a record of another kind, and raises ValueError for a malformed
    one. ``records`` makes records of lines; by default each line is one. A record at the end that is not complete may
    still be being written: it is noise, and the next import reads it.
    """
    for line in records(lines_of(chunks)):
        where = f"line {line.number}"
        unusable: set[str] = set()
        what: BatchRun | NoUsage | Noise | Fault | None
        text = line.text.decode("utf-8", "backslashreplace").rstrip("\r").replace("\0", "\\x00")
        if not line.is_complete:
            if text.replace("\\x00", "").strip():
                what = Noise(text, line.number, "has no line end: left for the next import")
                yield ParsedRun(what, where, text[:_MOST_SHOWN], line.length, is_line=True)
            continue
        if not text.strip() or text.startswith("#"):
            yield ParsedRun(Noise(text, line.number), where, text, line.length, is_line=True)
            continue
        if len(line.text) > LONGEST_LINE:
            what = Fault(f"a line of {line.length - 1} bytes: longer than any record")
        else:
            what = tried(read, text, unusable)
        if what is not None:
            yield ParsedRun(what, where, line.text + b"\n", line.length, unusable=frozenset(unusable))
