"""Read jobs that left the queue from HTCondor's history, and run condor_history."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from arcacct.benchmark import Benchmark
from arcacct.errors import InputError
from arcacct.files.subprocess import printed
from arcacct.records.model import parsed_fqan, whole_cpu_s
from arcacct.records.rejected import Fault, tried
from arcacct.records.slurm_formats import clean
from arcacct.resources import LARGEST, LATEST_S
from arcacct.sources.engine.runs import NEVER_STARTED, UNFINISHED, Asked, Field, NoUsage, ParsedRun, values_of
from arcacct.sources.htcondor import classad
from arcacct.sources.htcondor.classad import Ad, Expression, Value
from arcacct.wording import span_of

# HTCondor's values of a job that left its queue: times, usage and owner, over all its runs.
#
# The key of a job is GlobalJobId, ``schedd#cluster.proc#seconds``, which is unique. A job leaves the queue once. Two
# outputs of the same job agree, but one may have fewer values (`-attributes`): `joined` combines the known values of
# both in either order.


REMOVED, COMPLETED = 3, 4
"""JobStatus of jobs that left the queue."""
ELSEWHERE = (7, 9, 12)
"""JobUniverse of jobs that use no slot of the pool: scheduler (DAGMan), grid and local."""
_PARALLEL = 11
_OFF_S = 600
"""The largest difference, in seconds, between the clocks whose times HTCondor adds and subtracts."""

_GLOBAL = re.compile(r"([^#\s]{1,255})#([0-9]{1,15})\.([0-9]{1,15})#([0-9]{1,12})")
_QUEUE = re.compile(r"[\w.:-]{1,200}", re.ASCII)


class Scores(NamedTuple):
    """
    The attribute with the benchmark of a core of the machine: ``MachineAttrHEPscore230`` with type ``HEPscore23``.
    """

    type: str
    attribute: str


class CondorJob(NamedTuple):
    """A job that had started and left the queue. Empty text, or ``None``: unknown."""

    schedd: str
    cluster: int
    proc: int
    queued: int
    """The last part of GlobalJobId in UTC seconds. It differs from QDate by some seconds at most."""
    submit_time: int = 0
    status: int = COMPLETED
    start_time: int = 0
    """Start of the first run."""
    last_start: int | None = None
    """Start of the last run."""
    end_time: int = 0
    wall_s: int = 0
    """Wall clock seconds of all runs, with suspensions."""
    starts: int | None = None
    cores: int = 1
    """CPUs of all nodes together."""
    gpus: float | None = None
    """It may be a fraction."""
    cpu_user_s: int | None = None
    """User CPU seconds of all runs; ``None``: not known for all runs."""
    cpu_kernel_s: int | None = None
    memory_kib: int | None = None
    virtual_memory_kib: int | None = None
    memory_mib: int | None = None
    """The memory that the job was given."""
    exit_status: int | None = None
    exit_signal: int | None = None
    """0: no signal."""
    hosts: str = ""
    """Hosts of the last run, as HTCondor names its slots, joined by commas."""
    user: str = ""
    account: str = ""
    project: str = ""
    name: str = ""
    queue: str = ""
    """A-REX's queue. HTCondor has no queues."""
    user_dn: str = ""
    """From the proxy of the submission, like the next two fields."""
    vo: str = ""
    fqan: str = ""
    benchmark: str = ""
    token_subject: str | None = ""
    """From the token of the submission, like the other token fields; ``None``: imported before arcacct read tokens."""
    token_issuer: str = ""
    token_groups: str = ""
    """In the order of the token, joined by commas, like the scopes."""
    token_scopes: str = ""
    token_id: str = ""

    @property
    def without_token(self) -> CondorJob:
        """Return the job without the values of its token."""
        return self._replace(token_subject="", token_issuer="", token_groups="", token_scopes="", token_id="")

    @property
    def number(self) -> str:
        """Return ``cluster.proc``."""
        return f"{self.cluster}.{self.proc}"


ELSEWHERE_RUN = "not run in the pool"


# One table lists the attributes that are read from an ad. All others are ignored.


def _number(value: Value) -> int | float | None:
    """
    Return a number; ``None`` if it is missing or an expression. Raises ValueError for a value that no job can have.
    """
    if value is None or isinstance(value, Expression):
        return None
    if isinstance(value, (bool, str)):
        raise ValueError(f"not a number: {str(value)[:40]!r}")  # noqa: TRY004  a value of the ad, not of the program
    if not -LARGEST <= value <= LARGEST:
        raise ValueError("larger than any measurement")
    return value


def _share(value: Value) -> float | None:
    """Return a number of at least 0, with its fraction."""
    number = _number(value)
    if number is not None and number < 0:
        raise ValueError(f"{number} is less than 0")
    return int(number) if number is not None and number == int(number) else number


def _amount(value: Value) -> int | None:
    """Return a number, rounded."""
    number = _share(value)
    return None if number is None else round(number)


def _positive(value: Value) -> int | None:
    """Return a number, rounded; ``None`` for 0, which was not measured."""
    return _amount(value) or None


def _whole(value: Value) -> int | None:
    """Return a whole number."""
    number = _number(value)
    if number is not None and number != int(number):
        raise ValueError(f"{number} is not a whole number")
    return None if number is None else int(number)


def _count(value: Value) -> int | None:
    """Return a whole number of at least 0."""
    _share(value)
    return _whole(value)


def _cpus(value: Value) -> int | None:
    """Return CPUs, rounded up: a job with a part of a CPU keeps other jobs from it."""
    number = _share(value)
    return None if number is None else math.ceil(number)


def _time(value: Value) -> int | None:
    """Return UTC seconds."""
    found = _amount(value)
    if found is not None and found >= LATEST_S:
        raise ValueError(f"{found} is not a time of a job")
    return found or None


def _text(value: Value) -> str | None:
    """Return a text that a database can hold. NUL and half surrogates are written as Python's escapes."""
    if value is None or isinstance(value, Expression):
        return None
    if not isinstance(value, str):
        raise ValueError(f"not text: {str(value)[:40]}")  # noqa: TRY004  a value of the ad, not of the program
    return clean(value) or None


def _signalled(value: Value) -> bool | None:
    if value is None or isinstance(value, bool | Expression):
        return value if isinstance(value, bool) else None
    raise ValueError(f"neither true nor false: {str(value)[:40]!r}")


def _queue(value: Value) -> str | None:
    """Return the queue. A-REX writes it without quotes, so HTCondor reads it as the name of another attribute."""
    text = value.text if isinstance(value, Expression) else value if isinstance(value, str) else ""
    return text if _QUEUE.fullmatch(text) else None


def _fqan(value: Value) -> str | None:
    """Return the first VOMS attribute, if it has only group, role and capability. Anything else may name a person."""
    text = _text(value) or ""
    names = {part.partition("=")[0] for part in text.split("/") if "=" in part}
    return text if parsed_fqan(text) and names <= {"Role", "Capability"} else None


_STATE = (
    Field("JobStatus", _whole, "status", is_needed=True),
    Field("JobUniverse", _whole, "universe", is_needed=True),
    Field("JobStartDate", _time, "start_time", is_needed=True, unit="s since 1970"),
)
"""The attributes that decide whether a job can be accounted."""
FIELDS = (
    Field("GlobalJobId", _text, "id", is_needed=True),
    Field("ClusterId", _whole, "cluster", is_needed=True),
    Field("ProcId", _whole, "proc", is_needed=True),
    Field("CompletionDate", _time, "completed_s", is_needed=True, unit="s since 1970"),
    Field("EnteredCurrentStatus", _time, "left_s", is_needed=True, unit="s since 1970"),
    Field("RemoteWallClockTime", _amount, "wall_s", is_needed=True, unit="s"),
    Field("QDate", _time, "submit_time", unit="s since 1970"),
    Field("JobCurrentStartDate", _time, "last_start", unit="s since 1970"),
    Field("NumJobStarts", _count, "starts"),
    Field("RemoteUserCpu", _share, "last_user_s", unit="s"),
    Field("RemoteSysCpu", _share, "last_kernel_s", unit="s"),
    Field("CumulativeRemoteUserCpu", _share, "every_user_s", unit="s"),
    Field("CumulativeRemoteSysCpu", _share, "every_kernel_s", unit="s"),
    *(Field(name, _cpus, "cores") for name in ("CpusProvisioned", "MachineAttrCpus0", "RequestCpus")),
    Field("MaxHosts", _count, "nodes"),
    Field("GPUsProvisioned", _share, "gpus"),
    Field("RequestGPUs", _share, "gpus"),
    Field("MemoryProvisioned", _count, "memory_mib", unit="MiB"),
    Field("ResidentSetSize_RAW", _positive, "memory_kib", unit="KiB"),
    Field("ResidentSetSize", _positive, "memory_kib", unit="KiB"),
    Field("ImageSize_RAW", _positive, "image_kib", unit="KiB"),
    Field("ImageSize", _positive, "image_kib", unit="KiB"),
    Field("ExitCode", _whole, "exit_status"),
    Field("ExitBySignal", _signalled, "is_signalled"),
    Field("ExitSignal", _count, "exit_signal"),
    *(Field(name, _text, "hosts") for name in ("AllRemoteHosts", "LastRemoteHost", "RemoteHost")),
    Field("Owner", _text, "user"),
    Field("AcctGroup", _text, "account"),
    Field("AccountingGroup", _text, "account"),
    Field("AcctGroupUser", _text, "account_user"),
    Field("ProjectName", _text, "project"),
    Field("JobBatchName", _text, "name"),
    Field("NordugridQueue", _queue, "queue"),
    Field("x509userproxysubject", _text, "user_dn"),
    Field("x509UserProxyVOName", _text, "vo"),
    Field("x509UserProxyFirstFQAN", _fqan, "fqan"),
    Field("AuthTokenSubject", _text, "token_subject"),
    Field("AuthTokenIssuer", _text, "token_issuer"),
    Field("AuthTokenGroups", _text, "token_groups"),
    Field("AuthTokenScopes", _text, "token_scopes"),
    Field("AuthTokenId", _text, "token_id"),
)
ATTRIBUTES = tuple(one.name for one in (*_STATE, *FIELDS))
"""The attributes to request. condor_history takes and prints names in upper or lower case."""


def job_of(ad: Ad, unusable: set[str], schedd: str | None = None, scores: Scores | None = None) -> CondorJob | NoUsage:
    """
    Return the job of an ad. ``schedd`` replaces HTCondor's name of the schedd.

    Optional attributes with unusable values go into ``unusable``. Raises ValueError when one of these is missing or
    impossible: the key of the job, its end, its duration, its number of CPUs.
    """

    def said(name: str) -> Value:
        return ad.get(name.lower())

    run = values_of(_STATE, said, unusable)
    state = run["status"]
    if state is None:
        raise ValueError("it has no JobStatus: is it an ad of a job?")
    if state not in (REMOVED, COMPLETED):
        return NoUsage(UNFINISHED)
    if run["universe"] in ELSEWHERE:
        return NoUsage(ELSEWHERE_RUN)
    if not run["start_time"] and not ad.get("remotewallclocktime"):
        return NoUsage(NEVER_STARTED)
    run |= values_of(FIELDS, said, unusable)
    if not run["start_time"]:
        raise ValueError("it has a RemoteWallClockTime and no JobStartDate: its start is unknown")
    name, *number = _key(run)
    end = (run["completed_s"] if state == COMPLETED else None) or run["left_s"]
    if not end:
        raise ValueError("it has neither CompletionDate nor EnteredCurrentStatus: its end is unknown")
    starts, memory_kib, image_kib = run.get("starts"), run.get("memory_kib"), run.get("image_kib")
    user_s, kernel_s = _cpu(run, is_one_run=(starts or 0) < 2 and "NumJobStarts" not in unusable)
    exit_status, exit_signal = _exit(run)
    plain = {field: value for field, value in run.items() if value is not None and field in CondorJob._fields}
    return CondorJob(
        **plain
        | {
            "schedd": schedd or name,
            "cluster": number[0],
            "proc": number[1],
            "queued": number[2],
            "submit_time": run.get("submit_time") or number[2],
            "end_time": end,
            "wall_s": _wall(run, end),
            "cores": _cores(run),
            "cpu_user_s": user_s,
            "cpu_kernel_s": kernel_s,
            # For a job in a container, this is the size of the program that starts the container.
            "virtual_memory_kib": image_kib if image_kib and image_kib >= (memory_kib or 0) else None,
            "exit_status": exit_status,
            "exit_signal": exit_signal,
            "account": _account(run),
            "benchmark": _benchmark(ad, scores),
        }
    )


def _key(run: Mapping[str, Any]) -> tuple[str, int, int, int]:
    match = _GLOBAL.fullmatch(run["id"] or "")
    if match is None:
        raise ValueError("it has no GlobalJobId, by which HTCondor identifies its jobs")
    found = match[1], int(match[2]), int(match[3]), int(match[4])
    if run["cluster"] not in (None, found[1]) or run["proc"] not in (None, found[2]):
        raise ValueError(f"its ClusterId and ProcId differ from its GlobalJobId: {match[0][:80]!r}")
    return found


def _only_run(state: int, starts: int | None, start: int, last_start: int | None, end: int) -> int | None:
    """
    Return the seconds from start to end of a job with a single run; ``None`` if that is not certain.

    A removed job may have been held before, so the end of its run is unknown.
    """
    return end - start if state == COMPLETED and starts == 1 and last_start in (None, start) else None


def _wall(run: Mapping[str, Any], end: int) -> int:
    start = run["start_time"]
    if end < start:
        raise ValueError(f"it ended {span_of(start - end)} before it started")
    wall_s = run["wall_s"]
    if wall_s is None:
        wall_s = _only_run(run["status"], run.get("starts"), start, run.get("last_start"), end)
    if wall_s is None:
        raise ValueError("it has no RemoteWallClockTime: its duration is unknown")
    if wall_s > end - start + _OFF_S:
        raise ValueError(f"it ran {wall_s} s between a start and an end that are {end - start} s apart")
    return int(wall_s)


def _cores(run: Mapping[str, Any]) -> int:
    """
    Return the CPUs of the job's slot, else the requested CPUs. A parallel job has those of all its nodes.

    Raises ValueError when only expressions give the number.
    """
    if run.get("cores") is None:
        raise ValueError("its number of CPUs is unknown: CpusProvisioned and RequestCpus are not numbers")
    nodes = run.get("nodes") if run["universe"] == _PARALLEL else 1
    cores: int = max(1, run["cores"]) * max(1, nodes or 1)
    return cores


def _cpu(run: Mapping[str, Any], *, is_one_run: bool) -> tuple[int | None, int | None]:
    """
    Return user and kernel time of all runs in seconds, rounded once.

    RemoteUserCpu and RemoteSysCpu are of the last run, so they count only for a job with one run. Each run adds its
    values to the cumulative ones when it ends, so the cumulative ones are never smaller.
    """
    times: list[float | None] = []
    for part in ("user_s", "kernel_s"):
        last, every = run.get(f"last_{part}"), run.get(f"every_{part}")
        times.append(max(every, last or 0) if every is not None else last if is_one_run else None)
    user_s, kernel_s = times
    return (None, None) if user_s is None or kernel_s is None else whole_cpu_s(user_s + kernel_s, kernel_s)


def _exit(run: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return exit status and signal. If a signal ended the job and the signal is unknown, the status is 1, never 0."""
    status, signal = run.get("exit_status"), run.get("exit_signal")
    if run.get("is_signalled"):
        return (status, signal) if signal else (status or 1, None)
    return status, 0 if run.get("is_signalled") is False else None


def _account(run: Mapping[str, Any]) -> str:
    """Return the accounting group, without the user at its end."""
    group: str = run.get("account") or ""
    user = run.get("account_user") or run.get("user")
    return group.removesuffix(f".{user}") if user else group


def _benchmark(ad: Ad, scores: Scores | None) -> str:
    if scores is None:
        return ""
    value = ad.get(scores.attribute.lower())
    try:
        # Some machines give the benchmark as a text.
        return str(Benchmark.parse(f"{scores.type}:{float(value):.3f}")) if isinstance(value, (str, int, float)) else ""
    except (ValueError, InputError):
        return ""


# Read a history as jobs. Each job has the content for a second reading.


class HistoryForm(NamedTuple):
    """Properties of a history that it does not contain itself."""

    schedd: str | None = None
    """The name of the schedd here; ``None``: HTCondor's own name."""
    scores: Scores | None = None

    @property
    def attributes(self) -> tuple[str, ...]:
        """Return the attributes that are read from each ad."""
        return ATTRIBUTES if self.scores is None else (*ATTRIBUTES, self.scores.attribute)


def read(chunks: Iterable[bytes], form: HistoryForm) -> Iterator[ParsedRun]:
    """
    Yield each ad of a history file or of condor_history's output, in its order. Memory is bounded.

    Raises InputError when the input has no ads.
    """
    wanted = frozenset(name.lower() for name in form.attributes)
    for told in classad.read(chunks, wanted):
        what: CondorJob | NoUsage | Fault
        unusable: set[str] = set()
        if isinstance(told.what, Fault):
            what = told.what
        elif told.what is None:
            what = NoUsage(UNFINISHED)
        else:
            what = tried(job_of, told.what, unusable, form.schedd, form.scores)
        yield ParsedRun(what, told.position, told.content, told.length, unusable=frozenset(unusable))


# Run condor_history.


TIMEOUT_S = 600.0
OVERLAP_S = 11 * 86_400
"""
Each request repeats these seconds. A job may stay in the queue for ten days after its end, until its output is fetched.
"""


class HistoryCommand(NamedTuple):
    """The settings to call condor_history."""

    program: str = "condor_history"
    """Its name or path."""
    timeout_s: float = TIMEOUT_S
    schedd: str | None = None
    """The schedd to ask; ``None``: the history of this host."""

    def answers(self, start: int, end: int, form: HistoryForm) -> Iterator[Asked]:
        """Return condor_history's output about the jobs that ended at or after ``start``."""
        yield Asked(end, self.ask(start, form.attributes), form)

    def ask(self, since: int, attributes: Sequence[str]) -> Iterator[bytes]:
        """
        Yield condor_history's output about all jobs that ended at or after ``since``, UTC seconds, piece by piece.

        The output is JSON, in which no text of a user can imitate an attribute. Raises InputError when the program
        cannot be started, fails, or takes too long. The output before that is good.
        """
        arguments = [self.program, "-json", "-attributes", ",".join(attributes)]
        # -since would stop at the first older job, but jobs do not leave the queue in the order of their ends.
        arguments += ["-constraint", f"EnteredCurrentStatus >= {since}"]
        if self.schedd is not None:
            arguments += ["-name", self.schedd]
        return printed(arguments, {**os.environ, "LC_ALL": "C"}, self.timeout_s)
