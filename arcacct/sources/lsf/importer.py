"""LSF: its lsb.acct as runs of jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from arcacct.records.batch_systems import LSF
from arcacct.records.model import whole_cpu_s
from arcacct.resources import LARGEST
from arcacct.sources.engine import batch_runs
from arcacct.sources.engine.batch_runs import BatchRun, LogForm, LogLine, LogSource
from arcacct.sources.engine.runs import NEVER_STARTED, Field, NoUsage, ParsedRun, values_of
from arcacct.wording import count_of

# Blanks separate fields. Texts are in double quotes, and a quote within a text is doubled. A record ends at the first
# line end outside a text: a job script that is given as command has line ends of its own.
#
# JOB_FINISH has the usage of a job. A requeued job has one for each run. JOB_RESIZE has the hosts until a resize. Each
# version adds fields at the end, and groups with a count of their own. After exitInfo, only effectiveResReq is read.


_FIELD = re.compile(r'[ \t]*+(?:"([^"]*+(?:""[^"]*+)*+)"|([^\s"]++))(?=\s|$)|(.+)', re.DOTALL)
"""A text, or another field, or all that follows where no field begins."""
_HEAD = re.compile(rb'"[A-Z][A-Z0-9_]*" "[0-9.]+" [0-9]+ ')
"""
The type, version and time that a record begins with. No line within a text begins like this: the quote would close the
text, and no blank follows it.
"""
_REAL = re.compile(r"-?\d{1,20}(?:\.\d{0,20})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_NCPUS = re.compile(r"(?:^|;)ncpus=([0-9]+)(?:;|$)", re.ASCII)
_GPUS = re.compile(r"(?:\bgpu\[(?:[^\]]*:)?num|\bngpus_physical)=([0-9]{1,6})\b(/task)?", re.ASCII)
_SHORT = re.compile(r"(\d{1,9})\*(.+)")
_BEFORE_HOSTS = (
    *("type", "version", "eventTime", "jobId", "userId", "options", "numProcessors", "submitTime", "beginTime"),
    *("termTime", "startTime", "userName", "queue", "resReq", "dependCond", "preExecCmd", "fromHost", "cwd"),
    *("inFile", "outFile", "errFile", "jobFile"),
)
_OF_RESIZE = (
    *("type", "version", "eventTime", "jobId", "idx", "startTime", "userId", "userName", "resizeType"),
    "lastResizeStartTime",
)
_AFTER_HOSTS = (
    *("jStatus", "hostFactor", "jobName", "command", "ru_utime", "ru_stime", "ru_maxrss", "ru_ixrss", "ru_ismrss"),
    *("ru_idrss", "ru_isrss", "ru_minflt", "ru_majflt", "ru_nswap", "ru_inblock", "ru_oublock", "ru_ioch"),
    *("ru_msgsnd", "ru_msgrcv", "ru_nsignals", "ru_nvcsw", "ru_nivcsw", "ru_exutime", "mailUser", "projectName"),
    *("exitStatus", "maxNumProcessors", "loginShell", "timeEvent", "idx", "maxRMem", "maxRSwap", "inFileSpool"),
    *("commandSpool", "rsvId", "sla", "exceptMask", "additionalInfo", "exitInfo"),
)
_BEFORE_EXTENSIONS, _BEFORE_EFFECTIVE = 14, 3
"""
The number of fields after exitInfo, which are followed by two counted groups; and of those from there to
effectiveResReq.
"""
_LEAST = _AFTER_HOSTS.index("exitStatus") + 1
"""The number of fields after the hosts in every version. A line with fewer was cut."""
_EXIT, _DONE = 32, 64
"""Bits of jStatus."""
_MOST_HOSTS = 10**6
_BY_PERSON = frozenset(("8", "9", "14", "15", "23"))
"""exitInfo of jobs that their owner or an administrator killed (bkill)."""
_REQUEUED = frozenset(("10", "11"))
"""exitInfo of runs that the system or an administrator requeued: another run follows."""
_DEFAULT_CLUSTER = "default"


def _number(text: str | None) -> int:
    found = batch_runs.whole(text or "")
    if not found:
        raise ValueError("0 is not a number of a job")
    return found


def _measured(text: str) -> float | None:
    """Return a number; ``None`` for -1, which was not measured."""
    if not _REAL.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a number")
    found = float(text)
    if found > LARGEST:
        raise ValueError(f"{text[:40]!r} is longer than any job")
    return found if found >= 0 else None


def _kib(text: str) -> int | None:
    """Return KiB; ``None`` for 0 and -1, which were not measured."""
    return round(_measured(text) or 0) or None


def _code(text: str) -> int:
    """Return a wait status: exit code x 256 + signal. Raises ValueError for 2**31 and more."""
    found = batch_runs.whole(text)
    if found >= 2**31:
        raise ValueError(f"{text[:40]!r} is not an exit status")
    return found


def _task(text: str | None) -> int:
    """
    Return the index of an array element. Old records have none. An unusable one is an error, because it is part of the
    key.
    """
    return batch_runs.whole(text or "0") or batch_runs.NO_TASK


def _ncpus(text: str) -> int | None:
    """Return the CPUs of a job of HP XC, where LSF sees a whole Slurm job as one slot."""
    found = _NCPUS.search(text)
    return batch_runs.cores_of(found[1]) if found else None


def _gpus(text: str) -> tuple[int, bool] | None:
    """Return the requested GPUs, and whether each task has so many instead of each host."""
    found = _GPUS.findall(text)
    # The server writes the section gpu[] last.
    return (int(found[-1][0]), bool(found[-1][1])) if found else None


FIELDS = (
    Field("jobId", _number, "number", is_needed=True),
    Field("submitTime", batch_runs.known_time_s, "submit_time", is_needed=True, unit="s since 1970"),
    Field("startTime", batch_runs.known_time_s, "start_time", is_needed=True, unit="s since 1970"),
    Field("eventTime", batch_runs.known_time_s, "end_time", is_needed=True, unit="s since 1970"),
    Field("idx", _task, "task", is_needed=True),
    Field("ru_utime", _measured, "user_s", unit="s"),
    Field("ru_stime", _measured, "kernel_s", unit="s"),
    Field("maxRMem", _kib, "memory_kib", unit="KiB"),
    Field("ru_maxrss", _kib, "memory_kib", unit="KiB"),
    Field("maxRSwap", _kib, "virtual_memory_kib", unit="KiB"),
    Field("numProcessors", batch_runs.cores_of, "requested_cores"),
    Field("additionalInfo", _ncpus, "ncpus"),
    Field("effectiveResReq", _gpus, "requested_gpus"),
    Field("jStatus", batch_runs.whole, "ended"),
    Field("exitStatus", _code, "exit"),
    Field("exitInfo", batch_runs.text_of, "reason"),
    Field("userName", batch_runs.text_of, "user"),
    Field("queue", batch_runs.text_of, "queue"),
    Field("projectName", partial(batch_runs.chosen, default="default"), "project"),
    Field("jobName", batch_runs.text_of, "name"),
)


def run_of(record: str, unusable: set[str], place: str = _DEFAULT_CLUSTER) -> BatchRun | NoUsage | None:
    """
    Return the run that a record reports; ``None`` for a record of another kind.

    Raises ValueError when it is not a record, or when a required value is missing.
    """
    texts = _fields(record)
    if texts[0] == "JOB_RESIZE" and record.startswith('"'):
        return _phase(texts, place)
    if texts[0] != "JOB_FINISH" or not record.startswith('"'):
        if not re.fullmatch(r'"[A-Z][A-Z0-9_]{2,40}"', record.partition(" ")[0]):
            raise ValueError(f"{texts[0][:40]!r} is not a type of a record")
        return None
    said = dict(zip(_BEFORE_HOSTS, texts, strict=False))
    at = len(_BEFORE_HOSTS)
    _, at = _hosts(texts, at, "numAskedHosts")
    hosts, at = _hosts(texts, at, "numExHosts")
    after = texts[at:]
    if len(after) < _LEAST:
        raise ValueError("it ends before its exit status")
    said |= dict(zip(_AFTER_HOSTS, after, strict=False))
    said["effectiveResReq"] = _effective(after[len(_AFTER_HOSTS) :])
    if not said["startTime"].strip("0"):
        return NoUsage(NEVER_STARTED)
    run = values_of(FIELDS, said.get, unusable)
    requested, reason = run.pop("requested_cores", None), run.pop("reason", None)
    nodes, slots = _slots(hosts)
    ncpus, gpus = run.pop("ncpus", None), run.pop("requested_gpus", None)
    user_s, kernel_s = run.pop("user_s", None), run.pop("kernel_s", None)
    user_s, kernel_s = whole_cpu_s(None if user_s is None else user_s + (kernel_s or 0), kernel_s)
    status, signal = _exit(run.pop("exit", None))
    ended = run.pop("ended", None) or 0
    if not status and not signal:
        status = 1 if ended & _EXIT else 0 if ended & _DONE else status
    plain = {name: run.get(name) or "" for name in ("user", "queue", "project", "name")}
    task = run["task"]
    return batch_runs.checked(
        BatchRun(
            **run
            | plain
            | {
                "place": place,
                "local_id": str(run["number"]) if task == batch_runs.NO_TASK else f"{run['number']}[{task}]",
                "state": batch_runs.status_of(status, signal, by_person=reason in _BY_PERSON),
                # LSF reports no other duration. It includes suspensions, as in bacct.
                "wall_s": run["end_time"] - run["start_time"],
                "cpu_user_s": user_s,
                "cpu_kernel_s": kernel_s,
                "cores": (ncpus if slots == 1 else None) or slots or requested,
                "gpus": gpus[0] * (slots if gpus[1] else len(nodes)) if gpus else None,
                "exit_status": status,
                "exit_signal": signal,
                "node_list": ",".join(nodes),
                "is_final": int(reason not in _REQUEUED),
            }
        )
    )


def _phase(texts: list[str], place: str) -> BatchRun:
    """Return the phase of a run before a resize. Raises ValueError when it cannot be used."""
    said = dict(zip(_OF_RESIZE, texts, strict=False))
    times = ("eventTime", "startTime", "lastResizeStartTime")
    end, start, since = (batch_runs.known_time_s(said.get(name)) for name in times)
    number, task = _number(said.get("jobId")), _task(said.get("idx"))
    cores = _slots(_hosts(texts, len(_OF_RESIZE), "numExecHosts")[0])[1]
    shown = str(number) if task == batch_runs.NO_TASK else f"{number}[{task}]"
    phases = f"{end}:{max(0, end - since)}:{cores}"
    return batch_runs.checked(BatchRun(place, number, task, start, 0, end, shown, "", is_final=0, phases=phases))


def _effective(tail: list[str]) -> str:
    """Return effectiveResReq, from the fields after exitInfo; empty: this version does not write it."""
    at = _BEFORE_EXTENSIONS
    # submitEXT has a key and a value; hostRusage has a host, its memory and swap, and user and system time.
    for width in (2, 5):
        if at >= len(tail) or not (tail[at].isascii() and tail[at].isdecimal() and len(tail[at]) < 10):
            return ""
        at += 1 + width * int(tail[at])
    at += _BEFORE_EFFECTIVE
    return tail[at] if at < len(tail) else ""


def _fields(line: str) -> list[str]:
    """
    Return all fields. Raises ValueError when a text has no closing quote, or when its quote is not followed by a blank.
    """
    found = _FIELD.findall(line.rstrip())
    if found and found[-1][2]:
        raise ValueError(f"field {len(found)} cannot be read: {found[-1][2][:40].strip()!r}")
    return [plain or text.replace('""', '"') for text, plain, _rest in found]


def _hosts(texts: list[str], at: int, name: str) -> tuple[list[str], int]:
    """
    Return a list of hosts, which has its count before it, and the place after it. Raises ValueError if it is
    incomplete.
    """
    if at >= len(texts):
        raise ValueError(f"{name}: it is missing")
    try:
        count = batch_runs.whole(texts[at])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    if count > min(_MOST_HOSTS, len(texts) - at - 1):
        raise ValueError(f"{name}: {count_of(count, 'host')}, but the record ends earlier")
    return texts[at + 1 : at + 1 + count], at + 1 + count


def _slots(hosts: list[str]) -> tuple[tuple[str, ...], int]:
    """Return the nodes and the number of slots. A host is listed once for each slot, or as ``8*n1``."""
    nodes: dict[str, None] = {}
    count = 0
    for host in hosts:
        match = _SHORT.fullmatch(host)
        nodes[match[2] if match else host] = None
        count += int(match[1]) if match else 1
    return tuple(nodes), min(count, batch_runs.MOST_CORES)


def _exit(code: int | None) -> tuple[int | None, int | None]:
    """Return exit status and signal of a wait status."""
    if code is None:
        return None, None
    return (None, code & 127) if code & 127 else (code >> 8 & 255, None)


def _records(lines: Iterable[LogLine], *, is_growing: bool = False) -> Iterator[LogLine]:
    """
    Yield each record. One whose quotes never close ends where another one begins, or with a log that is not growing.
    """
    parts: list[bytes] = []
    number = length = 0
    is_whole = True
    for line in lines:
        if parts and _HEAD.match(line.text):
            yield LogLine(number, b"\n".join(parts), length)
            parts = []
        is_odd = line.text.count(b'"') % 2
        is_whole = line.is_complete
        if not parts:
            if not is_odd:
                yield line
                continue
            number, length, is_odd = line.number, 0, 0
        length += line.length
        if not parts or length <= batch_runs.LONGEST_LINE:
            parts.append(line.text)
        if is_odd:
            yield LogLine(number, b"\n".join(parts), length, line.is_complete)
            parts = []
    if parts:
        is_complete = length > batch_runs.LONGEST_LINE or (is_whole and not is_growing)
        yield LogLine(number, b"\n".join(parts), length, is_complete)


class LSFSource(LogSource):
    """The source for lsb.acct."""

    fields = FIELDS
    place_option = "cluster"
    file_help = "lsb.acct of LSF, or a part of it that was archived (lsb.acct.1, ...)"
    example = "/shared/lsf/work/mycluster/logdir/lsb.acct"

    def read(self, chunks: Iterable[bytes], form: LogForm) -> Iterator[ParsedRun]:
        """Yield each run of a log."""
        return batch_runs.log_lines(chunks, partial(run_of, place=form.place or _DEFAULT_CLUSTER), _records)

    def complete(self, lines: Sequence[bytes]) -> int:
        """Return how many lines there are up to the end of the last complete record."""
        *_, last = _records(batch_runs.lines_of(lines), is_growing=True)
        return len(lines) if last.is_complete else last.number - 1


SOURCE: LogSource = LSFSource(LSF)
