"""What HTCondor's history says of a job that left its queue, and how condor_history is called."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from arcacct.benchmark import Benchmark
from arcacct.errors import InputError
from arcacct.files.subprocess import printed
from arcacct.records.import_quarantine import Fault, fault_of, optional
from arcacct.records.model import parsed_fqan
from arcacct.sources.htcondor import classad
from arcacct.sources.htcondor.classad import Ad, Expression, Value

# What HTCondor says of a job that left its queue: times, use and owner, of all its runs together.
#
# A job is known by GlobalJobId, ``schedd#cluster.proc#seconds``, which never comes twice; it leaves the queue once. Two
# outputs that show the same job say the same, one perhaps less (`-attributes`): `joined` takes of both what is known,
# whichever comes first.


T = TypeVar("T")

LARGEST = 2**53
"""What is more is no measurement."""
LATEST_S = 2**34
"""Later than this (year 2514) is no time of a job."""
REMOVED, COMPLETED = 3, 4
"""JobStatus of jobs that left the queue."""
ELSEWHERE = (7, 9, 12)
"""JobUniverse of what takes no slot of the pool: scheduler (DAGMan), grid and local."""
_PARALLEL = 11
_OFF_S = 600
"""How far the clocks that HTCondor adds and subtracts may be apart."""

_GLOBAL = re.compile(r"([^#\s]{1,255})#([0-9]{1,15})\.([0-9]{1,15})#([0-9]{1,12})")
_QUEUE = re.compile(r"[\w.:-]{1,200}", re.ASCII)
ATTRIBUTES = (
    *(
        "GlobalJobId",
        "ClusterId",
        "ProcId",
        "QDate",
        "Owner",
        "AcctGroup",
        "AcctGroupUser",
        "AccountingGroup",
        "ProjectName",
    ),
    *("JobBatchName", "JobUniverse", "JobStatus", "JobStartDate", "JobCurrentStartDate", "CompletionDate"),
    *("EnteredCurrentStatus", "RemoteWallClockTime", "NumJobStarts", "RemoteUserCpu", "RemoteSysCpu"),
    *("CumulativeRemoteUserCpu", "CumulativeRemoteSysCpu", "CpusProvisioned", "RequestCpus", "MachineAttrCpus0"),
    *("GPUsProvisioned", "RequestGPUs", "MemoryProvisioned", "ResidentSetSize", "ResidentSetSize_RAW", "ImageSize"),
    *("ImageSize_RAW", "ExitCode", "ExitBySignal", "ExitSignal", "LastRemoteHost", "RemoteHost", "AllRemoteHosts"),
    *("MaxHosts", "NordugridQueue", "x509userproxysubject", "x509UserProxyVOName", "x509UserProxyFirstFQAN"),
    *("AuthTokenSubject", "AuthTokenIssuer", "AuthTokenGroups", "AuthTokenScopes", "AuthTokenId"),
)
"""What is asked for; condor_history takes and prints names in any letters."""


class Scores(NamedTuple):
    """Where ads have the benchmark of a core of the machine: ``MachineAttrHEPscore230`` with type ``HEPscore23``."""

    type: str
    attribute: str


class CondorJob(NamedTuple):
    """One job that had started and left the queue. Empty text, or ``None``: not known."""

    schedd: str
    cluster: int
    proc: int
    queued: int
    """The last part of GlobalJobId: UTC seconds, within some of QDate."""
    submit_time: int = 0
    status: int = COMPLETED
    start_time: int = 0
    """Of the first run."""
    last_start: int | None = None
    """Of the last run."""
    end_time: int = 0
    wall_s: int = 0
    """Of all runs, suspensions among it."""
    starts: int | None = None
    cores: int = 1
    """Of all nodes together."""
    gpus: float | None = None
    """A part of one, too."""
    cpu_user_s: int | None = None
    """Of all runs; ``None``: not known of all."""
    cpu_kernel_s: int | None = None
    memory_kib: int | None = None
    virtual_memory_kib: int | None = None
    memory_mib: int | None = None
    """That it was given."""
    exit_status: int | None = None
    exit_signal: int | None = None
    """0: none."""
    hosts: str = ""
    """Of the last run, as HTCondor names its slots, joined by commas."""
    user: str = ""
    account: str = ""
    project: str = ""
    name: str = ""
    queue: str = ""
    """A-REX's; HTCondor has none."""
    user_dn: str = ""
    """Of the proxy that it was submitted with; as the next two."""
    vo: str = ""
    fqan: str = ""
    benchmark: str = ""
    token_subject: str | None = ""
    """Of the token that it was submitted with, as the others; ``None``: it was read before tokens were."""
    token_issuer: str = ""
    token_groups: str = ""
    """In the order of the token, joined by commas; as the scopes."""
    token_scopes: str = ""
    token_id: str = ""

    @property
    def key(self) -> tuple[str, int, int, int]:
        """What HTCondor knows a job by."""
        return self[:4]

    @property
    def without_token(self) -> CondorJob:
        """What is known of it besides its token."""
        return self._replace(token_subject="", token_issuer="", token_groups="", token_scopes="", token_id="")

    @property
    def number(self) -> str:
        """``cluster.proc``."""
        return f"{self.cluster}.{self.proc}"


class NoUse(NamedTuple):
    """Why an ad is no job that can be accounted, and nothing is wrong with that."""

    why: str
    """One of UNFINISHED, NEVER_STARTED and ELSEWHERE_RUN."""


UNFINISHED, NEVER_STARTED, ELSEWHERE_RUN = "unfinished", "never started", "not run in the pool"


def job_of(ad: Ad, unusable: set[str], schedd: str | None = None, scores: Scores | None = None) -> CondorJob | NoUse:
    """
    The job that an ad tells of; ``schedd`` is the schedd's name if it is not to be HTCondor's own.

    Attributes whose values cannot be used, and that accounting can do without, go into ``unusable``. Raises ValueError
    when the ad says too little, or what cannot be, of which job it is, when it ended, how long it ran and on how many
    CPUs.
    """
    state = _whole(ad, "JobStatus")
    if state is None:
        raise ValueError("it has no JobStatus: is it an ad of a job?")
    if state not in (REMOVED, COMPLETED):
        return NoUse(UNFINISHED)
    if _whole(ad, "JobUniverse") in ELSEWHERE:
        return NoUse(ELSEWHERE_RUN)
    start = _time(ad, "JobStartDate")
    if not start:
        return NoUse(NEVER_STARTED)
    name, cluster, proc, queued = _key(ad)
    end = (_time(ad, "CompletionDate") if state == COMPLETED else None) or _time(ad, "EnteredCurrentStatus")
    if not end:
        raise ValueError("it has neither CompletionDate nor EnteredCurrentStatus: nothing says when it ended")
    use = _Optional(ad, unusable)
    starts = use.whole("NumJobStarts")
    last_start = use.time("JobCurrentStartDate") or None
    wall_s = _wall(ad, start, end, certain_s=_only_run(state, starts, start, last_start, end))
    user_s, kernel_s = _cpu(use, is_one_run=(starts or 0) < 2 and "NumJobStarts" not in unusable)
    memory_kib = use.amount("ResidentSetSize_RAW") or use.amount("ResidentSetSize")
    image_kib = use.amount("ImageSize_RAW") or use.amount("ImageSize")
    exit_status, exit_signal = _exit(use)
    return CondorJob(
        schedd or name,
        cluster,
        proc,
        queued,
        submit_time=use.time("QDate") or queued,
        status=state,
        start_time=start,
        last_start=last_start,
        end_time=end,
        wall_s=wall_s,
        starts=starts,
        cores=_cores(use),
        gpus=use.first(use.number, "GPUsProvisioned", "RequestGPUs"),
        cpu_user_s=user_s,
        cpu_kernel_s=kernel_s,
        memory_kib=memory_kib or None,
        # Of a job in a container it is that of what starts the container.
        virtual_memory_kib=image_kib if image_kib and image_kib >= (memory_kib or 0) else None,
        memory_mib=use.whole("MemoryProvisioned"),
        exit_status=exit_status,
        exit_signal=exit_signal,
        hosts=_text(ad, "AllRemoteHosts") or _text(ad, "LastRemoteHost") or _text(ad, "RemoteHost"),
        user=_text(ad, "Owner"),
        account=_account(ad),
        project=_text(ad, "ProjectName"),
        name=_text(ad, "JobBatchName"),
        queue=_queue(ad),
        user_dn=_text(ad, "x509userproxysubject"),
        vo=_text(ad, "x509UserProxyVOName"),
        fqan=_fqan(ad),
        benchmark=_benchmark(ad, scores),
        token_subject=_text(ad, "AuthTokenSubject"),
        token_issuer=_text(ad, "AuthTokenIssuer"),
        token_groups=_text(ad, "AuthTokenGroups"),
        token_scopes=_text(ad, "AuthTokenScopes"),
        token_id=_text(ad, "AuthTokenId"),
    )


def _key(ad: Ad) -> tuple[str, int, int, int]:
    match = _GLOBAL.fullmatch(_text(ad, "GlobalJobId"))
    if match is None:
        raise ValueError("it has no GlobalJobId, by which HTCondor knows its jobs")
    found = match[1], int(match[2]), int(match[3]), int(match[4])
    if _whole(ad, "ClusterId") not in (None, found[1]) or _whole(ad, "ProcId") not in (None, found[2]):
        raise ValueError(f"its ClusterId and ProcId are not those of its GlobalJobId: {match[0][:80]!r}")
    return found


def _only_run(state: int, starts: int | None, start: int, last_start: int | None, end: int) -> int | None:
    """
    How long the only run of a job took by its start and end; ``None`` where that is not certain.

    A removed job may have been held before: nothing says when its run ended.
    """
    return end - start if state == COMPLETED and starts == 1 and last_start in (None, start) else None


def _wall(ad: Ad, start: int, end: int, *, certain_s: int | None) -> int:
    if end < start:
        raise ValueError(f"it ended {start - end} s before it started")
    wall_s = _amount(ad, "RemoteWallClockTime")
    if wall_s is None:
        wall_s = certain_s
    if wall_s is None:
        raise ValueError("it has no RemoteWallClockTime: nothing says how long it ran")
    if wall_s > end - start + _OFF_S:
        raise ValueError(f"it ran {wall_s} s between a start and an end that are {end - start} s apart")
    return wall_s


def _get(ad: Ad, name: str) -> Value:
    return ad.get(name.lower())


def _text(ad: Ad, name: str) -> str:
    """A text as a database keeps it: without zeros and halves of characters, which become what Python calls them."""
    value = _get(ad, name)
    if not isinstance(value, str):
        return ""
    return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _number(ad: Ad, name: str) -> int | float | None:
    """``None``: not said, or an expression. Raises ValueError for what no job can have."""
    value = _get(ad, name)
    if value is None or isinstance(value, Expression):
        return None
    if isinstance(value, (bool, str)):
        raise ValueError(  # noqa: TRY004  a value of the ad, not of the program
            f"{name} is no number: {str(value)[:40]!r}"
        )
    if not -LARGEST <= value <= LARGEST:
        raise ValueError(f"{name} is larger than any measurement")
    return value


def _amount(ad: Ad, name: str) -> int | None:
    value = _number(ad, name)
    if value is not None and value < 0:
        raise ValueError(f"{name} is {value}")
    return None if value is None else round(value)


def _whole(ad: Ad, name: str) -> int | None:
    value = _number(ad, name)
    if value is not None and value != int(value):
        raise ValueError(f"{name} is {value}")
    return None if value is None else int(value)


def _time(ad: Ad, name: str) -> int | None:
    value = _amount(ad, name)
    if value is not None and value >= LATEST_S:
        raise ValueError(f"{name} is no time of a job: {value}")
    return value


class _Optional(NamedTuple):
    """Values of an ad that accounting can do without: one that cannot be used is ``None``, and noted."""

    ad: Ad
    unusable: set[str]

    def number(self, name: str) -> float | None:
        """Not negative."""

        def read() -> float | None:
            value = _number(self.ad, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} is {value}")
            return int(value) if value is not None and value == int(value) else value

        return optional(name, read, self.unusable)

    def amount(self, name: str) -> int | None:
        """Rounded."""
        return optional(name, lambda: _amount(self.ad, name), self.unusable)

    def whole(self, name: str) -> int | None:
        """A count."""
        return optional(name, lambda: _whole(self.ad, name), self.unusable)

    def time(self, name: str) -> int | None:
        """UTC seconds."""
        return optional(name, lambda: _time(self.ad, name), self.unusable)

    def first(self, read: Callable[[str], T | None], *names: str) -> T | None:
        """The first of some values that is said and can be used."""
        return next((value for name in names if (value := read(name)) is not None), None)


def _cores(use: _Optional) -> int:
    """
    CPUs of the slot that it had, else those that it asked for; of a parallel job those of all its nodes.

    Raises ValueError where only expressions say it.
    """
    cores = use.first(use.whole, "CpusProvisioned", "MachineAttrCpus0", "RequestCpus")
    if cores is None or cores < 0:
        raise ValueError("nothing says how many CPUs it had: CpusProvisioned and RequestCpus are no numbers")
    nodes = use.whole("MaxHosts") if _whole(use.ad, "JobUniverse") == _PARALLEL else 1
    return max(1, cores) * max(1, nodes or 1)


def _cpu(use: _Optional, *, is_one_run: bool) -> tuple[int | None, int | None]:
    """
    User and kernel time of all runs. RemoteUserCpu and RemoteSysCpu are of the last: of several they are no measure.

    Each run adds its own to the cumulative ones when it ends, so that these are never less.
    """
    times: list[int | None] = []
    for part in ("User", "Sys"):
        last, every = use.amount(f"Remote{part}Cpu"), use.amount(f"CumulativeRemote{part}Cpu")
        times.append(max(every, last or 0) if every is not None else last if is_one_run else None)
    return (None, None) if None in times else (times[0], times[1])


def _exit(use: _Optional) -> tuple[int | None, int | None]:
    """Exit status and signal; of a job that a signal ended of which nothing is known the status is 1, never 0."""
    status, by_signal = use.whole("ExitCode"), _get(use.ad, "ExitBySignal")
    if by_signal is True:
        signal = use.whole("ExitSignal")
        return (status, signal) if signal else (status or 1, None)
    return status, 0 if by_signal is False else None


def _account(ad: Ad) -> str:
    """The accounting group, without the user behind it."""
    group = _text(ad, "AcctGroup") or _text(ad, "AccountingGroup")
    user = _text(ad, "AcctGroupUser") or _text(ad, "Owner")
    return group.removesuffix(f".{user}") if user else group


def _queue(ad: Ad) -> str:
    """A-REX writes it without quotes, so that it is the name of another attribute to HTCondor."""
    value = _get(ad, "NordugridQueue")
    text = value.text if isinstance(value, Expression) else value if isinstance(value, str) else ""
    return text if _QUEUE.fullmatch(text) else ""


def _fqan(ad: Ad) -> str:
    """The first attribute of VOMS, of groups, role and capability alone: anything else may name a person."""
    text = _text(ad, "x509UserProxyFirstFQAN")
    names = {part.partition("=")[0] for part in text.split("/") if "=" in part}
    return text if parsed_fqan(text) and names <= {"Role", "Capability"} else ""


def _benchmark(ad: Ad, scores: Scores | None) -> str:
    if scores is None:
        return ""
    value = _get(ad, scores.attribute)
    try:
        # A text, since some machines say it so.
        return str(Benchmark.parse(f"{scores.type}:{float(value):.3f}")) if isinstance(value, (str, int, float)) else ""
    except (ValueError, InputError):
        return ""


def joined(one: CondorJob, other: CondorJob) -> CondorJob:
    """Two outputs of the same job: of each value what is known, and of two that are known always the same one."""
    if one == other:
        return one
    values: tuple[Any, ...] = tuple([_better(*pair) for pair in zip(one, other, strict=True)])
    return CondorJob(*values)._replace(start_time=min(one.start_time, other.start_time))


def _better(value: float | str | None, other: float | str | None) -> float | str | None:
    if isinstance(value, str) and isinstance(other, str):
        return max(value, other, key=lambda text: (len(text), text))
    if isinstance(value, int | float) and isinstance(other, int | float):
        return max(value, other)
    return other if value is None else value


# What a history has, as jobs: each with all that is needed to read it again.


class HistoryForm(NamedTuple):
    """What a history does not say of itself."""

    schedd: str | None = None
    """What the schedd is called here; ``None``: as HTCondor calls it."""
    scores: Scores | None = None

    @property
    def attributes(self) -> tuple[str, ...]:
        """What is read of each ad."""
        return ATTRIBUTES if self.scores is None else (*ATTRIBUTES, self.scores.attribute)


class ParsedJob(NamedTuple):
    """One ad of a history."""

    what: CondorJob | NoUse | Fault
    position: str
    content: bytes
    """The same ad as a history of its own; as far as classads.KEPT."""
    length: int
    """How long all of that is, in bytes."""
    unusable: frozenset[str] = frozenset()
    """Attributes with a value that cannot be used, and that accounting can do without."""


def read(chunks: Iterable[bytes], form: HistoryForm) -> Iterator[ParsedJob]:
    """
    Every ad of a history file or of what condor_history printed, in its order. Bounded memory.

    Raises InputError when it is none.
    """
    wanted = frozenset(name.lower() for name in form.attributes)
    for told in classad.read(chunks, wanted):
        what: CondorJob | NoUse | Fault
        unusable: set[str] = set()
        if isinstance(told.what, Fault):
            what = told.what
        elif told.what is None:
            what = NoUse(UNFINISHED)
        else:
            try:
                what = job_of(told.what, unusable, form.schedd, form.scores)
            except Exception as error:  # noqa: BLE001  whatever it is, it costs this job alone
                what = fault_of(error)
        yield ParsedJob(what, told.position, told.content, told.length, frozenset(unusable))


# Asking condor_history itself.


TIMEOUT_S = 600.0
OVERLAP_S = 11 * 86_400
"""Asked for again each time: a job may stay in the queue for ten days after its end, until its output was fetched."""


class HistoryCommand(NamedTuple):
    """How condor_history is called."""

    program: str = "condor_history"
    """Its name or path."""
    timeout_s: float = TIMEOUT_S
    schedd: str | None = None
    """The schedd to ask; ``None``: the history of this host."""

    def ask(self, since: int, attributes: Sequence[str]) -> Iterator[bytes]:
        """
        What it prints of all jobs that ended at or after ``since``, UTC seconds, piece by piece.

        As JSON, in which no text of a user can pretend to be an attribute. Raises InputError when it cannot be started,
        fails, or takes too long; what came before is good.
        """
        arguments = [self.program, "-json", "-attributes", ",".join(attributes)]
        # Not -since: it ends at the first older job, and jobs leave the queue in another order than they end.
        arguments += ["-constraint", f"EnteredCurrentStatus >= {since}"]
        if self.schedd is not None:
            arguments += ["-name", self.schedd]
        return printed(arguments, {**os.environ, "LC_ALL": "C"}, self.timeout_s)
