"""A run of a Slurm job with its steps, and the rows of `sacct --parsable2` from which it is read."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, NamedTuple, TypeVar

from arcacct.errors import InputError
from arcacct.records import slurm_formats
from arcacct.records.rejected import optional
from arcacct.records.slurm_formats import Instants
from arcacct.records.states import CPU_SLACK_S, MOST_NODES
from arcacct.resources import LARGEST, parsed_tres
from arcacct.sources.engine.runs import NEVER_STARTED, UNFINISHED, Field, Noise, NoUsage, values_of
from arcacct.wording import count_of

# Slurm's accounting: one run of a job, from its start (or its requeue) to its end, with the usage of its steps.
#
# Slurm identifies a run by its number and its submission time, which a requeue resets. arcacct does the same. Two sacct
# outputs of the same run agree, but one may have more values: `joined` combines the known values of both in either
# order. Only finished runs are stored, because the values of a running one still change.


GOES_ON = frozenset(
    (
        *("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "REQUEUE_FED", "REQUEUE_HOLD"),
        *("RESV_DEL_HOLD", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED"),
    )
)
"""
States of jobs that are not finished. Each other state, also one of a future Slurm, is an end if the row has an end
time.
"""
NOWHERE = frozenset(("None assigned", "None", "(null)", "N/A"))
"""NodeList of a job that never had a node."""

_MOST_NODE_W = 200_000
"""No node draws more: the largest, of 16 cards, have 20,000 W."""
_LARGEST_SIGNAL = 64
"""The largest signal of Linux. Slurm's own marks are larger, such as 125 for OUT_OF_MEMORY."""
_NOTHING_USED_S = 1
"""A run of at most this many seconds may have used no CPU time that sacct shows (milliseconds)."""
_TWICE = "is a local time that the clock showed twice that night; print it with SLURM_TIME_FORMAT=%s"


class SacctUse(NamedTuple):
    """The usage in a row of sacct, or of several steps together."""

    steps: int = 0
    """The number of steps."""
    cpu_us: int | None = None
    cpu_kernel_us: int | None = None
    memory_kib: int | None = None
    """Memory of all tasks together, else of the task that used most; ``None``: unknown."""
    virtual_memory_kib: int | None = None
    energy_j: int | None = None
    """0: not measured."""

    def plus(self, step: SacctUse) -> SacctUse:
        """Return the usage with one more step."""
        return SacctUse(
            self.steps + 1,
            _sum(self.cpu_us, step.cpu_us),
            _sum(self.cpu_kernel_us, step.cpu_kernel_us),
            _most(self.memory_kib, step.memory_kib),
            _most(self.virtual_memory_kib, step.virtual_memory_kib),
            _sum(self.energy_j, step.energy_j),
        )


class SlurmRun(NamedTuple):
    """A finished run of a job that had started. Empty text, or ``None``: unknown."""

    cluster: str
    job_id: int
    """The own number of an array element or of a component of a heterogeneous job."""
    submit_time: int = 0
    shown: str = ""
    """The number as sacct shows it: ``21_5``, ``51+1``."""
    state: str = ""
    start_time: int = 0
    end_time: int = 0
    elapsed_s: int = 0
    """Seconds without suspensions, as Slurm counts."""
    exit_status: int | None = None
    exit_signal: int | None = None
    cores: int | None = None
    nodes: int | None = None
    node_list: str = ""
    partition: str = ""
    user: str = ""
    group: str = ""
    account: str = ""
    qos: str = ""
    wckey: str = ""
    name: str = ""
    tres: str = ""
    """AllocTRES, with the measured energy."""
    cpu_us: int | None = None
    """User and kernel time of all steps together; ``None``: sacct printed no steps, or nothing was measured."""
    cpu_kernel_us: int | None = None
    memory_kib: int | None = None
    virtual_memory_kib: int | None = None


class SacctPart(NamedTuple):
    """One row of sacct: a job (``step`` empty) or one of its steps; ``None``: unknown."""

    step: str
    submit: Instants | None
    start: Instants | None
    end: Instants | None
    elapsed_s: int | None
    suspended_s: int | None
    cores: int | None
    use: SacctUse
    run: SlurmRun
    """Further values of the run in this row. `run_of` fills in the rest."""


def run_of(job: SacctPart, steps: SacctUse, cluster: str | None, unusable: set[str]) -> SlurmRun | NoUsage:
    """
    Return the run from the row of a job and the rows of its steps. ``cluster`` replaces Slurm's name of the cluster.

    An optional value that cannot be used is ``None``, and its column goes into ``unusable``. Raises ValueError when the
    values contradict each other or a required one is missing.
    """
    state = job.run.state
    if state in GOES_ON or not state:
        return NoUsage(UNFINISHED)
    if job.start is None or job.run.node_list in NOWHERE:
        return NoUsage(NEVER_STARTED)
    if job.end is None:
        return NoUsage(UNFINISHED)
    if state == "CANCELLED" and job.end.late < job.start.early:
        # This is the expected start.
        return NoUsage(NEVER_STARTED)
    name = cluster or job.run.cluster
    if not name:
        raise ValueError("its cluster is unknown; print the column Cluster, or pass --cluster")
    if job.submit is None:
        raise ValueError("it has no time of submission, by which Slurm identifies its runs")
    if job.submit.early != job.submit.late:
        raise ValueError(f"its time of submission {_TWICE}")
    start, end = _span(job, job.start, job.end)
    elapsed_s = max(0, end - start - (job.suspended_s or 0)) if job.elapsed_s is None else job.elapsed_s
    if elapsed_s > end - start + 1:
        raise ValueError(f"it took {elapsed_s} s between a start and an end that are {end - start} s apart")
    cpu_us, kernel_us = optional("TotalCPU", lambda: _cpu(job.use, steps, elapsed_s), unusable) or (None, None)
    return job.run._replace(
        cluster=name,
        submit_time=job.submit.early,
        start_time=start,
        end_time=end,
        elapsed_s=elapsed_s,
        exit_signal=true_signal(job.run.exit_signal),
        # A run has at least one core, so 0 means that sacct does not know it.
        cores=job.cores or None,
        cpu_us=cpu_us,
        cpu_kernel_us=kernel_us,
        tres=_with_energy(job, steps.energy_j, elapsed_s, unusable),
        memory_kib=_most(job.use.memory_kib, steps.memory_kib),
        virtual_memory_kib=_most(job.use.virtual_memory_kib, steps.virtual_memory_kib),
    )


def true_signal(number: int | None) -> int | None:
    """Return a signal; ``None`` for Slurm's own marks."""
    return number if number is not None and number <= _LARGEST_SIGNAL else None


def _span(job: SacctPart, start: Instants, end: Instants) -> tuple[int, int]:
    """
    Return start and end. A local time that the clock showed twice is resolved by the elapsed time of the job.

    Raises ValueError when two readings remain, or when the end is before the start, as `sacct --truncate` prints it.
    """
    pairs = [(one, other) for one in dict.fromkeys(start) for other in dict.fromkeys(end) if one <= other]
    if not pairs:
        raise ValueError("its end is before its start (was it printed with --truncate?)")
    if len(pairs) > 1 and job.elapsed_s is not None:
        lasted = job.elapsed_s + (job.suspended_s or 0)
        pairs = [(one, other) for one, other in pairs if abs(other - one - lasted) <= 1] or pairs
    if len(pairs) > 1:
        raise ValueError(f"its start or end {_TWICE}")
    return pairs[0]


def cpu_use(measured: Iterable[int | None], sampled_us: int | None) -> int | None:
    """
    Return the CPU time of a step (or of a job's own row) in microseconds: the largest known value.

    ``measured``: TotalCPU, and UserCPU plus SystemCPU. They count processes that ended. ``sampled_us``: CPU time in
    TRESUsageInTot, which Slurm sums over the processes that it sees.

    Slurm 25.05 may report 0 for each step in the measured columns. They also lack processes that were never waited for.
    Where they are correct, the sampled value is not larger, because it is from a moment before the end.
    """
    return max((value for value in (*measured, sampled_us) if value is not None), default=None)


def _cpu(job: SacctUse, steps: SacctUse, elapsed_s: int) -> tuple[int | None, int | None]:
    """
    Return total and kernel CPU time in microseconds; ``None`` if unknown. Raises ValueError if it is too large.

    The job's own row has the sum of its steps, but only if sacct printed steps (else 0). `sacct --json` of Slurm 22.05
    always has 0 there, and its steps are correct. All steps of a run use at least some milliseconds together. So a run
    of more than a second with 0 was not measured, for example because its node failed.
    """
    kernel = _most(job.cpu_kernel_us, steps.cpu_kernel_us) or 0
    total = max(_most(job.cpu_us, steps.cpu_us) or 0, kernel)
    is_said = steps.steps and steps.cpu_us is not None and elapsed_s <= _NOTHING_USED_S
    if not total and not is_said:
        return None, None
    if total > LARGEST:
        raise ValueError("its CPU time is larger than any measurement")
    return total, kernel


def _with_energy(job: SacctPart, of_steps_j: int | None, elapsed_s: int, unusable: set[str]) -> str:
    """
    Return AllocTRES with the energy of the job's own row; else with its own energy, else with that of the steps.

    Energy that its nodes cannot have used is unusable: some counters of nodes wrap.
    """
    tres = job.run.tres
    own_j = parsed_tres(tres).get("energy") if "energy=" in tres else None
    known = [one for one in (job.use.energy_j, own_j, of_steps_j) if one]
    if not known:
        return tres
    # A job has at least one core on each node.
    most_j = (job.run.nodes or job.cores or MOST_NODES) * (elapsed_s + CPU_SLACK_S) * _MOST_NODE_W
    usable = [one for one in known if one <= most_j]
    if len(usable) < len(known):
        unusable.add("ConsumedEnergyRaw")
    if usable[:1] == [own_j]:
        return tres
    others = [one for one in tres.split(",") if one and not one.startswith("energy=")]
    return ",".join([*others, *(f"energy={one}" for one in usable[:1])])


def _sum(one: int | None, other: int | None) -> int | None:
    """Return the sum of the known values."""
    return other if one is None else one if other is None else one + other


def _most(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)


# Read the rows of `sacct --parsable2` from lines that users may have broken.
#
# sacct prints names, comments and command lines unchanged. A delimiter or a line end in one of them makes more fields,
# or two lines, of one row. A line with the right number of fields is a row. In other lines, the columns with a known
# form (a number, a time, a state, an ID) show the places of the others. Only the others can hold the delimiter. A line
# is used if exactly one reading is possible. Otherwise only this line is rejected. Lines without the delimiter are
# noise.
#
# This repairs accidents. A user who knows the delimiter can give a job a name that looks like another row. An
# unpredictable delimiter (as `command` uses) or JSON prevents that. With such a delimiter only the number of fields
# counts.


LONGEST_LINE = 1024 * 1024
HORIZON = 64 * 1024
"""The most bytes of lines that one text may span: the size limit of a comment in Slurm's database."""
_MOST_LINES = 50
_MOST_DELIMITERS = 200
"""A text with more delimiters than this is not put together again, because that takes too long."""
_ADVICE = "print it with --json or another --delimiter, or use `arcacct import slurm --run`"

_HEADER = re.compile(r"([A-Za-z]+)([^A-Za-z]+)[A-Za-z]")
_INSTANT = r"[0-9]{1,12}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{5,8}(?:[+-][0-9:]{4,6}|Z)?|None|Unknown|"
_DURATION = r"[0-9:.-]+|INVALID|UNLIMITED|Partition_Limit|"
_KINDS = {
    "JobID": r"[0-9]+(?:_(?:[0-9]+|\[[^\]\s]*\])|\+[0-9]+)?(?:\.[A-Za-z0-9_+-]+)?",
    "JobIDRaw": r"[0-9]+(?:\.[A-Za-z0-9_+-]+)?",
    "State": r"[A-Z_]+\+?(?: by -?[0-9]+)?|",
    "Submit Eligible Start End": _INSTANT,
    "Elapsed CPUTime TotalCPU UserCPU SystemCPU Suspended AveCPU MinCPU Timelimit": _DURATION,
    "Reserved Planned ResvCPU PlannedCPU": _DURATION,
    "ElapsedRaw CPUTimeRAW TimelimitRaw ResvCPURAW PlannedCPURAW": r"[0-9]+|[A-Z]\w*|",
    "AllocCPUS NCPUS NNodes ReqCPUS": r"[0-9]+",
    "AllocNodes ReqNodes NTasks UID GID AssocID QOSRAW DBIndex WCKeyID Priority ReservationId": r"-?[0-9]*",
    "ExitCode DerivedExitCode": r"[0-9]+:[0-9]+|",
    "MaxRSS AveRSS MaxVMSize AveVMSize ConsumedEnergyRaw": r"[0-9.]*[KMGTPE]?",
    "AllocTRES ReqTRES TRESUsageInTot": r"(?:[\w/:.-]+=[^,=\s]+(?:,[\w/:.-]+=[^,=\s]+)*)?",
    "Layout": r"(?:[A-Z][A-Za-z]*)?",
    "Cluster": r"[\w.-]*",
    "NodeList": r"None assigned|[\w.,\[\]-]*",
}
_SHAPES = {name: re.compile(shape, re.ASCII) for names, shape in _KINDS.items() for name in names.split(" ")}
"""The form of the values of a column, where it is known. Only other columns can hold the delimiter."""
_words = re.compile(r"\w+").findall
_TEXTS = _words(
    "AdminComment Comment Container Extra FailedNode JobName StdErr StdIn StdOut SubmitLine SystemComment WorkDir"
)
"""Columns whose texts may contain line ends."""


T = TypeVar("T")

# The columns in use, in the order in which sacct prints them. A text is between other columns, so that its end can be
# found. Other columns are ignored.


_LONGEST_KNOWN = 100


def _remembering(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Keep the values of short texts: steps repeat most of their job, and jobs those of other jobs."""
    known = lru_cache(1024)(parse)
    return lambda text: known(text) if len(text) <= _LONGEST_KNOWN else parse(text)


@_remembering
def _text(text: str) -> str | None:
    return slurm_formats.clean(text) or None


def _said(parse: Callable[[str], T | None]) -> Callable[[str], T | None]:
    """Wrap a parser: a non-empty text without a value is unusable."""

    def read(text: str) -> T | None:
        value = parse(text)
        if value is None and text not in slurm_formats.NOT_SAID:
            raise ValueError("no value")
        return value

    return _remembering(read)


def _as_it_is(text: str | None) -> str:
    return text or ""


FIELDS = (
    Field("JobID", _text, "shown"),
    Field("JobIDRaw", lambda text: slurm_formats.job_number(_as_it_is(text)), "number", is_needed=True),
    Field("Cluster", _text, "cluster"),
    Field("State", _as_it_is, "state", is_needed=True),
    *(Field(name, _as_it_is, name.lower(), True, "s since 1970") for name in ("Submit", "Start", "End")),
    Field("Elapsed", _said(slurm_formats.duration_us), "elapsed_us", unit="us"),
    Field("ElapsedRaw", _said(slurm_formats.amount), "elapsed_s", unit="s"),
    Field("Suspended", _said(slurm_formats.duration_us), "suspended_us", unit="us"),
    Field("ExitCode", _said(slurm_formats.exit_code), "exit_code"),
    Field("AllocCPUS", _said(slurm_formats.count), "cores"),
    Field("NCPUS", _said(slurm_formats.count), "cores"),
    Field("NNodes", _said(slurm_formats.count), "nodes"),
    Field("JobName", _text, "name"),
    Field("AllocTRES", _text, "tres"),
    Field("TotalCPU", _said(slurm_formats.duration_us), "total_us", unit="us"),
    Field("UserCPU", _said(slurm_formats.duration_us), "user_us", unit="us"),
    Field("SystemCPU", _said(slurm_formats.duration_us), "kernel_us", unit="us"),
    Field("TRESUsageInTot", slurm_formats.sampled_use, "sampled", unit="us, KiB"),
    Field("ConsumedEnergyRaw", _said(slurm_formats.amount), "energy_j", unit="J"),
    Field("MaxRSS", _said(slurm_formats.size_kib), "memory_kib", unit="KiB"),
    Field("MaxVMSize", _said(slurm_formats.size_kib), "virtual_memory_kib", unit="KiB"),
    *(Field(name, _text, name.lower()) for name in ("Partition", "User", "Group", "Account", "QOS", "WCKey")),
    Field("NodeList", _text, "node_list"),
)
COLUMNS = tuple(one.name for one in FIELDS)
NEEDED = tuple(one.name for one in FIELDS if one.is_needed)
_CANONICAL = {name.lower(): name for name in (*COLUMNS, *_SHAPES, *_TEXTS)}


class TableHeader(NamedTuple):
    """The first line of an output."""

    columns: tuple[str, ...]
    delimiter: str
    line: str


class AnotherHeader(InputError):
    """A second output with other columns begins; the one before it is complete."""


class TableRow(NamedTuple):
    """One row, by column, with all its lines and the number of the first."""

    values: dict[str, str]
    lines: tuple[str, ...]
    number: int


class Misfit(NamedTuple):
    """A line that is not a row, or that has several possible readings."""

    reason: str
    lines: tuple[str, ...]
    number: int
    job: str
    """JobIDRaw if it is known, else empty."""


def header_of(line: str, delimiter: str | None = None) -> TableHeader:
    """
    Return the columns of a header line. A ``delimiter`` with letters must be given. Raises InputError when the line is
    not a header.
    """
    if delimiter is None:
        match = _HEADER.match(line)
        delimiter = match[2] if match else ""
    columns = tuple(line.removesuffix(delimiter).split(delimiter)) if delimiter else ()
    if not delimiter.strip(" ") or len(columns) < 2 or not all(name.isascii() and name.isalpha() for name in columns):
        raise InputError("its first line is not a header of sacct: use --parsable2, and keep the header")
    if len(set(columns)) < len(columns):
        raise InputError("its header names a column twice")
    return TableHeader(columns, delimiter, line)


class TableRows:
    """The rows of one output, line by line."""

    def __init__(self, header: TableHeader) -> None:
        self._delimiter = header.delimiter
        self._width = len(header.columns)
        self._closed = header.line.endswith(header.delimiter)
        self._counts_alone = slurm_formats.is_secret(header.delimiter)
        # sacct takes names in upper and lower case.
        self._names = [_CANONICAL.get(name.lower(), name) for name in header.columns]
        self._shapes = [None if self._counts_alone else _SHAPES.get(name) for name in self._names]
        self._has_line_ends = [name in _TEXTS for name in self._names]
        self._used = [name in COLUMNS for name in self._names]
        self._needed = [(place, one) for place, one in enumerate(self._shapes) if one and self._names[place] in NEEDED]

    def _header(self, line: str) -> bool | None:
        """Return True for the header again, False for another header, and ``None`` for anything else."""
        names = line.removesuffix(self._delimiter).split(self._delimiter)
        names = [_CANONICAL.get(name.lower(), name) for name in names]
        if names == self._names:
            return True
        return False if set(NEEDED) <= set(names) else None

    def of(self, lines: Iterable[tuple[int, str]]) -> Iterator[TableRow | Misfit | Noise]:
        """
        Yield each row of some numbered lines (without their ends), and each line that is not a row. Memory is bounded.

        A header that comes again, as in outputs joined to one file, is noise. Raises AnotherHeader for one with other
        columns: a job name may look like a header, so it must not decide how other rows are read.
        """
        coming = iter(lines)
        ahead: deque[tuple[int, str]] = deque()
        while ahead or (ahead := deque(islice(coming, 1))):
            number, line = ahead.popleft()
            row = self._alone(number, line)
            if row is not None:
                yield row
            elif self._delimiter not in line or (is_known := self._header(line)):
                yield Noise(line, number)
            elif is_known is False:
                raise AnotherHeader(
                    f"line {number} is another header, with other columns: import each output separately"
                )
            else:
                yield self._broken(number, line, ahead, coming)

    def _fields(self, line: str) -> list[str]:
        fields = line.split(self._delimiter)
        if self._closed and fields[-1] == "":
            fields.pop()
        return fields

    def _alone(self, number: int, line: str) -> TableRow | None:
        """Return the row of a line that is complete and correct, as nearly all are; else ``None``."""
        fields = self._fields(line)
        if len(fields) != self._width or not all(shape.fullmatch(fields[place]) for place, shape in self._needed):
            return None
        return TableRow(dict(zip(self._names, fields, strict=True)), (line,), number)

    def _broken(
        self, number: int, line: str, ahead: deque[tuple[int, str]], coming: Iterator[tuple[int, str]]
    ) -> TableRow | Misfit:
        """
        Return the row of a broken line, and take the following lines that belong to it. Without a row, return the
        reason.
        """
        lines = [line]
        length = len(line)
        values = self._put_together(line)
        goes_on = self._begun(line) is not None
        while values is None and goes_on and len(lines) < _MOST_LINES and length <= HORIZON:
            if len(lines) > len(ahead):
                ahead.extend(islice(coming, 1))
            if len(lines) > len(ahead):
                break
            _, own = ahead[len(lines) - 1]
            # A line that is a row, or the start of one, is not part of this row.
            if self._alone(number, own) is not None or (self._begun(own) or 0) > 1:
                break
            lines.append(own)
            length += len(own)
            values = self._put_together("\n".join(lines))
        if values is None:
            return Misfit(self._wrong(line), (line,), number, self._job(line))
        for _ in lines[1:]:
            ahead.popleft()
        return TableRow(values, tuple(lines), number)

    def _begun(self, line: str) -> int | None:
        """
        Count the values with a known form before the first text that may contain line ends; ``None``: no row starts
        here.
        """
        proven = 0
        for field, shape, is_text in zip(self._fields(line), self._shapes, self._has_line_ends, strict=False):
            if is_text:
                break
            if shape is not None and not shape.fullmatch(field):
                return None
            proven += shape is not None and field != ""
        return proven

    def _wrong(self, line: str) -> str:
        fields = self._fields(line)
        if len(fields) == self._width:
            at = next(at for at, shape in self._needed if not shape.fullmatch(fields[at]))
            return f"{self._names[at]}: {fields[at][:40]!r} is not a value of this column"
        wrong = f"{count_of(len(fields), 'field')} where the header names {self._width}"
        if len(fields) > self._width and not self._counts_alone:
            return f"{wrong}, and it is not certain which of them contain the delimiter: {_ADVICE}"
        return wrong

    def _job(self, line: str) -> str:
        place = self._names.index("JobIDRaw") if "JobIDRaw" in self._names else self._width
        fields = self._fields(line)
        if place >= len(fields) or not (self._counts_alone or all(self._shapes[: place + 1])):
            return ""
        if len(fields) != self._width and self._begun(line) is None:
            # The last value of a short line may be cut.
            is_cut = place < len(fields) - 1 < self._width - 1
            if not is_cut or (self._begun(self._delimiter.join(fields[:-1])) or 0) < 2:
                return ""
        return fields[place] if _SHAPES["JobIDRaw"].fullmatch(fields[place]) else ""

    def _put_together(self, text: str) -> dict[str, str] | None:
        """
        Return the values of a row whose texts contain delimiters or line ends; ``None`` if there is no row or no single
        reading.

        It goes column by column: how many of the surplus fields may be in the columns before it.
        """
        fields = self._fields(text)
        extra = len(fields) - self._width
        most = 0 if self._counts_alone else _MOST_DELIMITERS
        ways = self._ways(fields, extra) if 0 <= extra <= most else []
        values = {}
        for place, (begins, ends) in enumerate(pairwise(ways)):
            if not self._used[place]:
                continue
            readings: set[str] = set()
            for one in begins:
                furthest = self._furthest(fields, place, one, extra)
                spans = (fields[place + one : place + other + 1] for other in ends if one <= other <= furthest)
                readings.update(map(self._delimiter.join, spans))
                if len(readings) > 1:
                    return None
            values[self._names[place]] = readings.pop()
        return values or None

    def _furthest(self, fields: Sequence[str], place: int, before: int, extra: int) -> int:
        """
        Return the most of the ``extra`` fields that can be before the end of a column, if ``before`` are before its
        start.

        -1: impossible.
        """
        shape = self._shapes[place]
        if shape is not None:
            return before if shape.fullmatch(fields[place + before]) else -1
        if self._has_line_ends[place]:
            return extra
        whole = (at for at in range(before, extra + 1) if "\n" in fields[place + at])
        return next(whole, extra + 1) - 1

    def _ways(self, fields: Sequence[str], extra: int) -> list[list[int]]:
        """
        Return how many of the ``extra`` fields can be before each column, and after the last; empty: no reading is
        possible.

        The forward pass finds the places where each value has its form. The backward pass keeps those that lead to the
        end.
        """
        forward = [[0]]
        for place in range(self._width):
            reached: list[int] = []
            for before in forward[-1]:
                first = max(before, reached[-1] + 1) if reached else before
                reached.extend(range(first, self._furthest(fields, place, before, extra) + 1))
            forward.append(reached)
        if not forward[-1] or forward[-1][-1] != extra:
            return []
        ways = [[extra]]
        for place in reversed(range(self._width)):
            after = ways[-1]
            good = []
            for before in forward[place]:
                at = bisect_left(after, before)
                if at < len(after) and after[at] <= self._furthest(fields, place, before, extra):
                    good.append(before)
            ways.append(good)
        return ways[::-1]


# Read a row of `sacct --parsable2` as a part of a job.


CORES = ("AllocCPUS", "NCPUS", "AllocTRES")
"""One of these columns is required as well."""


def check(header: TableHeader) -> None:
    """Raise InputError when an output lacks columns that the usage of a job needs."""
    names = {name.lower() for name in header.columns}
    missing = [name for name in NEEDED if name.lower() not in names]
    if not names & {name.lower() for name in CORES}:
        missing.append("AllocCPUS")
    if missing:
        raise InputError(f"it lacks the columns {', '.join(missing)}: print it with these, too")


def part(row: Mapping[str, str], zone: tzinfo | None, unusable: set[str]) -> SacctPart:
    """
    Return one row. ``zone`` is the time zone of its local times; ``None``: that of this machine.

    Columns whose values cannot be used go into ``unusable``. Raises ValueError, with the column, for an unusable value
    that accounting needs.
    """
    row_of = values_of(FIELDS, row.get, unusable)
    job_id, step = row_of["number"]
    texts: dict[str, Any] = {name: row_of.get(name) or "" for name in _PLAIN}

    def of_job(column: str, read: Callable[[str], T]) -> T | None:
        """Return a value that is required in the row of a job, but not in the row of a step."""
        try:
            return None if step else read(row_of[column.lower()])
        except ValueError as error:
            raise ValueError(f"{column}: {error}") from error

    def time(column: str) -> Instants | None:
        return of_job(column, lambda text: slurm_formats.instants(text, zone))

    def seconds(name: str) -> int | None:
        found: int | None = row_of.get(name)
        return None if found is None else found // 10**6

    status, signal = row_of.get("exit_code") or (None, None)
    user_us, kernel_us = row_of.get("user_us"), row_of.get("kernel_us")
    parts_us = None if user_us is None and kernel_us is None else (user_us or 0) + (kernel_us or 0)
    elapsed_s, cores = row_of.get("elapsed_s"), row_of.get("cores")
    sampled_us, sampled_kib = row_of.get("sampled") or (None, None)
    cpu_us = cpu_use((row_of.get("total_us"), parts_us), sampled_us)
    memory_kib = _most(row_of.get("memory_kib"), sampled_kib)
    return SacctPart(
        step=step,
        submit=time("Submit"),
        start=time("Start"),
        end=time("End"),
        elapsed_s=seconds("elapsed_us") if elapsed_s is None else elapsed_s,
        suspended_s=seconds("suspended_us"),
        cores=parsed_tres(texts["tres"]).get("cpu") if cores is None else cores,
        use=SacctUse(0, cpu_us, kernel_us, memory_kib, row_of.get("virtual_memory_kib"), row_of.get("energy_j")),
        run=SlurmRun(
            job_id=job_id,
            state=of_job("State", slurm_formats.state) or "",
            exit_status=status,
            exit_signal=signal,
            nodes=row_of.get("nodes"),
            **texts | {"wckey": texts["wckey"].removeprefix("*")},
        ),
    )


_PLAIN = ("cluster", "shown", "node_list", "partition", "user", "group", "account", "qos", "wckey", "name", "tres")
"""Texts of a run that are copied unchanged."""
