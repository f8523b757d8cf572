"""Run sacct, and read its output (tables or JSON) as runs of jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, NamedTuple

from arcacct.errors import InputError
from arcacct.files.json_reader import MISSING, BeyondBoundsError, Reader, is_torn
from arcacct.files.subprocess import printed
from arcacct.records import slurm_formats
from arcacct.records.rejected import Fault, fault_of, tried
from arcacct.records.slurm_formats import Instants
from arcacct.resources import LARGEST, LATEST_S
from arcacct.sources.engine.batch_runs import lines_of, with_beginning
from arcacct.sources.engine.runs import Asked, Noise, NoUsage, ParsedRun
from arcacct.sources.slurm import record
from arcacct.sources.slurm.record import SacctPart, SacctUse, SlurmRun
from arcacct.times import DAY_S

# Read `sacct --json` of Slurm 22.05 and later: jobs with their steps. Each value is read separately.
#
# Later versions wrap numbers (``{"set": true, "infinite": false, "number": 3}``) and print lists of states. Two wrong
# values of Slurm 22.05 are ignored: exit code 0 of a failed job, and CPU time 0 of a job itself.


LARGEST_JOB = 2 * 1024 * 1024
"""The most characters of a job without its steps (usually some 10,000), and of each value outside the list of jobs."""
LARGEST_STEP = 1024 * 1024
"""The most characters of a step. Slurm 22.05 prints some 9,000. A job may have any number of steps."""
_BEGINS = (re.compile(r'"jobs"\s*:\s*\['), re.compile(r'\{(?<!:\{)(?<!: \{)\s*"account"\s*:'))
"""Each version prints the account of a job first. No other object in a list starts like this."""
_LONGEST_NAME = 1024
_MOST_COMPLAINT = 500
"""In characters."""


class Element(NamedTuple):
    """A job of an output."""

    job: Any
    steps: SacctUse
    fault: Fault | None
    """The reason why it cannot be used: the part that was not read."""
    text: str
    """The text as it was read, up to the limit."""
    length: int
    """The length of the whole text in characters."""
    unusable: frozenset[str]
    """The columns, under their names in tables, with an unusable value in a step."""


def elements(chunks: Iterable[bytes], most_kept: int) -> Iterator[Element]:
    """
    Yield the jobs of an output of any length, or of several outputs one after another. Memory is bounded.

    A damaged part ends where the next job starts. The damaged jobs are lost, and the others are read. Raises InputError
    when the output is cut off, is not from sacct, is damaged after its last job, or contains an error that sacct
    reports. The jobs before that are good.
    """
    reader = Reader(chunks, most_kept, _BEGINS)
    failed: list[object] = []
    last: Element | None = None
    """The last job is held until the following text shows that it was complete."""
    is_in_list = False
    while True:
        try:
            for one in _document(reader, failed, is_in_list=is_in_list):
                yield from [last] if last else []
                last = one
            is_in_list = False
            if reader.is_at_end():
                break
        except InputError as error:
            has_more = reader.pass_damage()
            yield from _with_damage(last, Fault(str(error)), reader.kept, has_more=has_more)
            if not has_more:
                raise
            last, is_in_list = None, True
    yield from [last] if last else []
    if failed:
        raise InputError(f"sacct says in it: {json.dumps(failed)[:_MOST_COMPLAINT]}")


def _with_damage(last: Element | None, fault: Fault, text: str, *, has_more: bool) -> Iterator[Element]:
    """
    Yield the last job and the damage after it. If the damage belongs to the job, yield both as one.

    ``has_more``: another job follows. At the end of the output, the job is yielded alone.
    """
    damage = Element(None, SacctUse(), fault, text, len(text), frozenset())
    if last is not None and is_torn(last.job, text):
        yield damage._replace(text=last.text + text, length=last.length + len(text))
        return
    yield from [last] if last else []
    yield from [damage] if has_more else []


def _document(reader: Reader, failed: list[object], *, is_in_list: bool) -> Iterator[Element]:
    """
    Yield the jobs of one document, or of the rest of its list (``is_in_list``). Errors that sacct reports go to
    ``failed``.
    """
    has_jobs = is_in_list
    if not is_in_list:
        reader.keep()
        reader.expect("{")
    while is_in_list or not reader.skip("}"):
        name = "jobs" if is_in_list else _name(reader)
        if name == "jobs" and (is_in_list or reader.skip("[")):
            has_jobs = reader.is_in_list = True
            while not reader.skip("]"):
                yield _element(reader)
                reader.skip(",")
            is_in_list = reader.is_in_list = False
            reader.keep()
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


def _name(reader: Reader) -> str:
    """Return the name of a member, and skip its colon; empty if the name is longer than any that is used."""
    try:
        name = reader.value(_LONGEST_NAME)
    except BeyondBoundsError:
        name = ""
    if type(name) is not str:
        raise InputError(f"damaged: a name is {name!r:.40}")
    reader.expect(":")
    return name


def _element(reader: Reader) -> Element:
    """Return the next job: at once if it is complete in memory, else member by member and step by step."""
    is_object = reader.comes("{")
    reader.keep()
    begin = reader.passed
    reader.is_in_list = False
    fault = None
    job, steps = reader.whole(), _Steps()
    try:
        if type(job) is dict:
            for one in job["steps"] if type(job.get("steps")) is list else ():
                steps.add(one)
        elif job is MISSING and reader.skip("{"):
            job, fault = _members(reader, steps)
        elif job is MISSING:
            job = reader.value(LARGEST_JOB)
    except BeyondBoundsError as error:
        job, fault = None, Fault(f"not an object, and {error}")
    except InputError as error:
        if not is_object or not reader.pass_damage():
            raise
        job, fault = None, Fault(str(error))
    if not is_object and not reader.comes(",]"):
        raise InputError("damaged: no job begins here")
    fault = fault or steps.fault
    found = Element(job, steps.use, fault, reader.kept, reader.passed - begin, frozenset(steps.unusable))
    reader.is_in_list = True
    return found


class _Steps:
    """The sum of the steps of a job."""

    def __init__(self) -> None:
        self.use = SacctUse()
        self.fault: Fault | None = None
        self.unusable: set[str] = set()

    def add(self, step: Any) -> None:
        if type(step) is dict and self.fault is None:
            try:
                self.use = self.use.plus(_step(step, self.unusable))
            except Exception as error:  # noqa: BLE001  any error rejects only this job
                self.fault = fault_of(error)

    def read(self, reader: Reader) -> None:
        """Read the rest of a list of steps. Values from an earlier list are discarded."""
        self.use, self.fault, self.unusable = SacctUse(), None, set()
        while not reader.skip("]"):
            try:
                self.add(reader.value(LARGEST_STEP))
            except BeyondBoundsError as error:
                self.fault = self.fault or Fault(f"a step is {error}")
            reader.skip(",")


def _members(reader: Reader, steps: _Steps) -> tuple[dict[str, Any], Fault | None]:
    """Return the rest of a job without its steps, and the reason if a part of it was not read."""
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
    Return a job and the sum of its steps. Columns (with their names in tables) of unusable values go into ``unusable``.

    Raises ValueError when the job has no number or a required value is unusable.
    """
    job = element.job
    if type(job) is not dict:
        raise ValueError("not an object")
    time = _inside(job, "time")
    states = _inside(job, "state").get("current", job.get("state"))
    names = [slurm_formats.state(one) for one in (states if type(states) is list else [states]) if type(one) is str]
    # Of several states, take the one that says that the job is not finished, else the first. The others are flags.
    at = next((one for one in names if one in record.GOES_ON), names[0] if names else "")
    code = _inside(job, "exit_code")
    of_signal = _inside(code, "signal")
    # A value of the wrong type is counted under its column in tables. Slurm's marks for no value count as no value.
    for odd in (code.get("return_code"), of_signal.get("signal_id", of_signal.get("id"))):
        if isinstance(odd, str | float | bool | list):
            unusable.add("ExitCode")
    status, signal = _count(code.get("return_code")), _count(of_signal.get("signal_id", of_signal.get("id")))
    if not status and not signal and at != "COMPLETED":
        status = signal = None
    allocated = _tres(_inside(job, "tres").get("allocated"), {"cpu": "AllocCPUS", "node": "NNodes"}, unusable)
    number = _number(job.get("job_id"))
    if not number:
        raise ValueError("job_id is missing")
    texts: dict[str, Any] = {name: _text(job.get(name)) for name in ("partition", "group", "account", "qos", "name")}
    run = SlurmRun(
        _text(job.get("cluster")) or _text(_inside(job, "association").get("cluster")),
        number,
        shown=_shown(job, number),
        state=at,
        exit_status=status,
        exit_signal=signal,
        nodes=allocated.get("node") or _count(job.get("allocation_nodes")),
        node_list=_text(job.get("nodes")),
        user=_text(job.get("user")) or _text(_inside(job, "association").get("user")),
        wckey=_text(_inside(job, "wckey").get("wckey")),
        tres=",".join(f"{name}={count}{'M' if name == 'mem' else ''}" for name, count in sorted(allocated.items())),
        **texts,
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
    # TRESUsageInTot in tables, with CPU time in milliseconds.
    total = _tres(requested.get("total"), {}, unusable)
    sampled_us = total["cpu"] * 1000 if "cpu" in total else None
    memory, virtual = max(most.get("mem", -1), total.get("mem", -1)), most.get("vmem", -1)
    consumed = _inside(_inside(step, "statistics"), "energy").get("consumed")
    return _cpu(_inside(step, "time"), unusable, sampled_us)._replace(
        memory_kib=None if memory < 0 else -(-memory // 1024),
        virtual_memory_kib=None if virtual < 0 else -(-virtual // 1024),
        energy_j=_read(consumed, "ConsumedEnergyRaw", unusable),
    )


def _cpu(time: dict[str, Any], unusable: set[str], sampled_us: int | None = None) -> SacctUse:
    columns = {"user": "UserCPU", "system": "SystemCPU", "total": "TotalCPU"}
    user_us, kernel_us, total_us = (_us(_inside(time, name), columns[name], unusable) for name in columns)
    parts_us = None if user_us is None and kernel_us is None else (user_us or 0) + (kernel_us or 0)
    return SacctUse(cpu_us=record.cpu_use((total_us, parts_us), sampled_us), cpu_kernel_us=kernel_us)


def _us(time: dict[str, Any], column: str, unusable: set[str]) -> int | None:
    seconds, rest_us = (_read(time.get(name), column, unusable) for name in ("seconds", "microseconds"))
    return None if seconds is None else seconds * 10**6 + (rest_us or 0)


def _inside(value: dict[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name)
    return found if type(found) is dict else {}


def _number(value: Any) -> int | None:
    """Return a number, wrapped or not; ``None`` if it is unset, unlimited or not a measurement."""
    if type(value) is dict:
        value = value.get("number") if value.get("set") is not False and value.get("infinite") is not True else None
    return value if type(value) is int and 0 <= value <= LARGEST and slurm_formats.known(value) is not None else None


def _read(value: Any, column: str, unusable: set[str]) -> int | None:
    """Return a number. If a value is set but is not a number, its column in tables goes into ``unusable``."""
    number = _number(value)
    if number is None and value is not None and not (type(value) is dict and value.get("set") is False):
        unusable.add(column)
    return number


def _count(value: Any) -> int | None:
    """Return a number of CPUs or nodes, or an exit code."""
    number = _number(value)
    return None if number is None else slurm_formats.known_count(number)


def _text(value: Any) -> str:
    return slurm_formats.clean(value) if type(value) is str else ""


def _instants(time: dict[str, Any], name: str) -> Instants | None:
    """
    Return a time; ``None`` if it is null, 0 or not set. Raises ValueError if it is too late to be a time of a job.
    """
    found = _number(time.get(name))
    if not found:
        return None
    if found >= LATEST_S:
        raise ValueError(f"time.{name}: {found} is not a time of a job")
    return Instants(found, found)


def _tres(value: Any, columns: Mapping[str, str], unusable: set[str]) -> dict[str, int]:
    """
    Return trackable resources by name: allocated memory in MiB, used memory in bytes.

    ``columns``: the resources in use, with their columns in tables.
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


# Read sacct's output, tables and JSON, piece by piece, as runs of jobs.
#
# Rejected content includes everything that a second reading needs, such as the header of a table.


class OutputForm(NamedTuple):
    """Properties of an output that it does not contain itself."""

    delimiter: str | None = None
    """``None``: the text after the first name in its header."""
    zone: tzinfo | None = None
    """The zone of times without an offset; ``None``: that of this machine."""
    cluster: str | None = None
    """The name of the cluster here; ``None``: Slurm's own name."""


def read(chunks: Iterable[bytes], form: OutputForm) -> Iterator[ParsedRun]:
    """
    Yield each job of an output, in its order. Memory is bounded.

    Raises InputError when it is not an output of sacct, or when it is cut off. The jobs before that are good.
    """
    beginning, whole = with_beginning(chunks)
    return _json(whole, form) if beginning.startswith(b"{") else _table(whole, form)


def _json(chunks: Iterable[bytes], form: OutputForm) -> Iterator[ParsedRun]:
    for number, one in enumerate(elements(chunks, record.LONGEST_LINE), 1):
        what: SlurmRun | NoUsage | Fault
        unusable = set(one.unusable)
        try:
            what = one.fault or record.run_of(*parts(one, unusable), form.cluster, unusable)
        except Exception as error:  # noqa: BLE001  any error rejects only this job
            what = fault_of(error)
        content, length = _bounded(f'{{"jobs": [{one.text}]}}')
        length += one.length - len(one.text)
        yield ParsedRun(what, f"job {number}", content, length, unusable=frozenset(unusable))


def _bounded(content: str) -> tuple[str, int]:
    """Return the part of a text that is kept, and the length of the whole text in bytes."""
    return content[: record.LONGEST_LINE], len(content.encode("utf-8", "surrogateescape"))


def _table(chunks: Iterable[bytes], form: OutputForm) -> Iterator[ParsedRun]:
    lines = _lines(chunks)
    first = next(lines, None)
    if first is None:
        raise InputError("it is empty: not even the header of sacct is there")
    # A program of Windows has rewritten the file.
    has_returns = first[1].endswith("\r")
    header = record.header_of(first[1].removesuffix("\r"), form.delimiter)
    record.check(header)
    jobs = _Jobs(header, form)
    if has_returns:
        lines = ((number, line.removesuffix("\r")) for number, line in lines)
    try:
        for row in record.TableRows(header).of(lines):
            yield from jobs.take(row)
    except record.AnotherHeader:
        yield from jobs.end()
        raise
    yield from jobs.end()


def _lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Yield numbered lines. A line that is longer than any row is cut, so it matches no row."""
    for line in lines_of(chunks):
        yield line.number, line.text[: record.LONGEST_LINE].decode("utf-8", "backslashreplace")


class _Jobs:
    """Jobs from rows: each job's own row, then the rows of its steps."""

    def __init__(self, header: record.TableHeader, form: OutputForm) -> None:
        self._header = header
        self._form = form
        self._empty()

    def _empty(self) -> None:
        self._job: SacctPart | None = None
        self._steps = SacctUse()
        self._seen: set[str] = set()
        """Steps that were counted. A repeated row counts once."""
        self._fault: Fault | None = None
        self._unusable: set[str] = set()
        self._number = 0
        self._job_id = 0
        self._lines: list[str] = []
        self._length = 0
        self._whole = True

    def take(self, row: record.TableRow | record.Misfit | Noise) -> Iterator[ParsedRun]:
        """Add a row, and yield the job before it if the row belongs to another job. A bad line is rejected alone."""
        if isinstance(row, Noise):
            yield ParsedRun(row, f"line {row.number}", row.line, len(row.line), is_line=True)
            return
        if isinstance(row, record.Misfit):
            yield from self._take_misfit(row)
            return
        unusable: set[str] = set()
        try:
            one = record.part(row.values, self._form.zone, unusable)
        except Exception as error:  # noqa: BLE001  any error rejects only this row
            number = row.values["JobIDRaw"]
            yield from self._take_misfit(record.Misfit(fault_of(error).reason, row.lines, row.number, number))
            return
        if not one.step or one.run.job_id != self._job_id:
            yield from self.end()
            self._job_id = one.run.job_id
        self._add(row)
        self._unusable |= unusable
        if one.step and one.step not in self._seen:
            self._seen.add(one.step)
            self._steps = self._steps.plus(one.use)
        elif one.step:
            return
        else:
            self._job = one

    def _take_misfit(self, row: record.Misfit) -> Iterator[ParsedRun]:
        number, _, step = row.job.partition(".")
        # The number may be longer than any of Slurm's, and too long for Python.
        job_id = int(number[:20] or -1)
        if number and (not step or (self._fault is not None and job_id == self._job_id)):
            if not step:
                yield from self.end()
            self._add(row)
            self._fault = self._fault or Fault(row.reason)
            self._job_id = job_id
            return
        content, length = _bounded("".join(f"{line}\n" for line in (self._header.line, *row.lines)))
        yield ParsedRun(Fault(row.reason), f"line {row.number}", content, length, is_line=True)

    def _add(self, row: record.TableRow | record.Misfit) -> None:
        if not self._number:
            self._number = row.number
            self._length = len(self._header.line) + 1
        for line in row.lines:
            self._length += len(line) + 1
            self._whole &= self._length <= record.LONGEST_LINE
            if self._whole:
                self._lines.append(line)

    def end(self) -> Iterator[ParsedRun]:
        """Yield the current job, which is now complete."""
        if not self._number:
            return
        what: SlurmRun | NoUsage | Fault
        if self._fault is not None:
            what = self._fault
        elif self._job is None:
            what = Fault(f"steps of job {self._job_id} come before the row of the job")
        else:
            what = tried(record.run_of, self._job, self._steps, self._form.cluster, self._unusable)
        content, length = _bounded("".join(f"{line}\n" for line in (self._header.line, *self._lines)))
        length = length if self._whole else record.LONGEST_LINE + 1
        yield ParsedRun(what, f"line {self._number}", content, length, unusable=frozenset(self._unusable))
        self._empty()


# Run sacct in windows of time, and fix every setting that changes its output.
#
# The delimiter of the fields is unpredictable, so that no job name can imitate a row.


WINDOW_S = DAY_S
"""The length of one request in seconds. slurmdbd holds the whole answer in memory."""
OVERLAP_S = DAY_S
"""Each request repeats this many seconds, because rows of jobs reach the database late."""
TIMEOUT_S = 600.0


class Window(NamedTuple):
    """A period, in UTC seconds."""

    start: int
    end: int


class SacctCommand(NamedTuple):
    """The settings to call sacct."""

    program: str = "sacct"
    """Its name or path."""
    timeout_s: float = TIMEOUT_S
    """The longest time for one window, in seconds."""

    def answers(self, start: int, end: int, form: OutputForm) -> Iterator[Asked]:
        """Return sacct's outputs about the jobs of a period, window by window, each with an unpredictable delimiter."""
        for window in windows(start, end):
            delimiter = slurm_formats.new_delimiter()
            yield Asked(window.end, self.ask(window, delimiter), form._replace(delimiter=delimiter))

    def ask(self, window: Window, delimiter: str) -> Iterator[bytes]:
        """
        Yield sacct's output about all jobs of a window, with their steps and all their runs, piece by piece.

        Raises InputError when sacct cannot be started, fails, takes too long, or prints to its standard error. The
        output before that is good.
        """
        arguments = [self.program, "--allusers", "--duplicates", "--parsable2", f"--delimiter={delimiter}"]
        arguments += [f"--starttime={_local_time(window.start)}", f"--endtime={_local_time(window.end)}"]
        arguments.append(f"--format={','.join(record.COLUMNS)}")
        # sacct exits 0 even if its database did not answer.
        return printed(arguments, slurm_formats.environment(), self.timeout_s, is_silent=True)


def windows(start: int, end: int) -> Iterator[Window]:
    """Divide a period into windows. A job that ran across a border is in both windows."""
    while start < end:
        yield Window(start, min(start + WINDOW_S, end))
        start += WINDOW_S


def _local_time(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
