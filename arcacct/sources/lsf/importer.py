"""LSF: its lsb.acct as runs of jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial

from arcacct.records.batch_runs import (
    LARGEST,
    NO_TASK,
    BatchRun,
    LogForm,
    LogSource,
    checked,
    known_time_s,
    log_lines,
    status_of,
    whole,
)
from arcacct.records.batch_systems import LSF
from arcacct.records.runs import NEVER_STARTED, Field, NoUsage, ParsedRun, values_of
from arcacct.wording import count_of

# Each line is one record. Blanks separate fields. Texts are in double quotes, and a quote within a text is doubled.
#
# JOB_FINISH has the usage of a job. A requeued job has one for each run. Each version adds fields at the end, and
# groups with a count of their own. So no field after exitInfo is read.


_FIELD = re.compile(r'[ \t]*(?:"((?:[^"]|"")*)"|([^\s"]+))(?=\s|$)')
_REAL = re.compile(r"-?\d{1,20}(?:\.\d{0,20})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_SHORT = re.compile(r"(\d{1,9})\*(.+)")
_BEFORE_HOSTS = (
    *("type", "version", "eventTime", "jobId", "userId", "options", "numProcessors", "submitTime", "beginTime"),
    *("termTime", "startTime", "userName", "queue", "resReq", "dependCond", "preExecCmd", "fromHost", "cwd"),
    *("inFile", "outFile", "errFile", "jobFile"),
)
_AFTER_HOSTS = (
    *("jStatus", "hostFactor", "jobName", "command", "ru_utime", "ru_stime", "ru_maxrss", "ru_ixrss", "ru_ismrss"),
    *("ru_idrss", "ru_isrss", "ru_minflt", "ru_majflt", "ru_nswap", "ru_inblock", "ru_oublock", "ru_ioch"),
    *("ru_msgsnd", "ru_msgrcv", "ru_nsignals", "ru_nvcsw", "ru_nivcsw", "ru_exutime", "mailUser", "projectName"),
    *("exitStatus", "maxNumProcessors", "loginShell", "timeEvent", "idx", "maxRMem", "maxRSwap", "inFileSpool"),
    *("commandSpool", "rsvId", "sla", "exceptMask", "additionalInfo", "exitInfo"),
)
_LEAST = _AFTER_HOSTS.index("exitStatus") + 1
"""The number of fields after the hosts in every version. A line with fewer was cut."""
_EXIT, _DONE = 32, 64
"""Bits of jStatus."""
_MOST_HOSTS = 10**6
_MOST_CORES = 2**31
_BY_PERSON = frozenset(("8", "9", "14", "15", "23"))
"""exitInfo of jobs that their owner or an administrator killed (bkill)."""
_DEFAULT_CLUSTER = "default"


def _number(text: str | None) -> int:
    found = whole(text or "")
    if not found:
        raise ValueError("0 is not a number of a job")
    return found


def _seconds(text: str) -> int | None:
    """Return seconds; ``None`` for -1, which was not measured."""
    if not _REAL.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a number")
    found = float(text)
    if found > LARGEST:
        raise ValueError(f"{text[:40]!r} is longer than any job")
    return round(found) if found >= 0 else None


def _kib(text: str) -> int | None:
    """Return KiB; ``None`` for 0 and -1, which were not measured."""
    return _seconds(text) or None


def _count(text: str) -> int | None:
    found = whole(text)
    if found >= _MOST_CORES:
        raise ValueError(f"{found} is more than any job has")
    return found or None


def _code(text: str) -> int:
    """Return a wait status: exit code x 256 + signal. Raises ValueError for 2**31 and more."""
    found = whole(text)
    if found >= 2**31:
        raise ValueError(f"{text[:40]!r} is not an exit status")
    return found


def _task(text: str | None) -> int:
    """
    Return the index of an array element. Old records have none. An unusable one is an error, because it is part of the
    key.
    """
    return whole(text or "0") or NO_TASK


def _text(text: str) -> str | None:
    return text or None


def _project(text: str) -> str | None:
    """Return the project; ``None`` for ``default``, which means that the user chose none."""
    return None if text == "default" else text or None


FIELDS = (
    Field("jobId", _number, "number", is_needed=True),
    Field("submitTime", known_time_s, "submit_time", is_needed=True, unit="s since 1970"),
    Field("startTime", known_time_s, "start_time", is_needed=True, unit="s since 1970"),
    Field("eventTime", known_time_s, "end_time", is_needed=True, unit="s since 1970"),
    Field("idx", _task, "task", is_needed=True),
    Field("ru_utime", _seconds, "cpu_user_s", unit="s"),
    Field("ru_stime", _seconds, "cpu_kernel_s", unit="s"),
    Field("maxRMem", _kib, "memory_kib", unit="KiB"),
    Field("ru_maxrss", _kib, "memory_kib", unit="KiB"),
    Field("maxRSwap", _kib, "virtual_memory_kib", unit="KiB"),
    Field("numProcessors", _count, "requested_cores"),
    Field("jStatus", whole, "ended"),
    Field("exitStatus", _code, "exit"),
    Field("exitInfo", _text, "reason"),
    Field("userName", _text, "user"),
    Field("queue", _text, "queue"),
    Field("projectName", _project, "project"),
    Field("jobName", _text, "name"),
)


def run_of(line: str, unusable: set[str], place: str = _DEFAULT_CLUSTER) -> BatchRun | NoUsage | None:
    """
    Return the run that a line reports; ``None`` for a record of another kind.

    Raises ValueError when the line is not a record, or when a required value is missing.
    """
    texts = _fields(line)
    if texts[0] != "JOB_FINISH":
        if not re.fullmatch(r"[A-Z][A-Z0-9_]{2,40}", texts[0]):
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
    if not said["startTime"].strip("0"):
        return NoUsage(NEVER_STARTED)
    run = values_of(FIELDS, said.get, unusable)
    requested, reason = run.pop("requested_cores", None), run.pop("reason", None)
    nodes, slots = _slots(hosts)
    status, signal = _exit(run.pop("exit", None))
    ended = run.pop("ended", None) or 0
    if not status and not signal:
        status = 1 if ended & _EXIT else 0 if ended & _DONE else status
    plain = {name: run.get(name) or "" for name in ("user", "queue", "project", "name")}
    task = run["task"]
    return checked(
        BatchRun(
            **run
            | plain
            | {
                "place": place,
                "local_id": str(run["number"]) if task == NO_TASK else f"{run['number']}[{task}]",
                "state": status_of(status, signal, by_person=reason in _BY_PERSON),
                # LSF reports no other duration. It includes suspensions, as in bacct.
                "wall_s": run["end_time"] - run["start_time"],
                "cores": slots or requested,
                "exit_status": status,
                "exit_signal": signal,
                "node_list": ",".join(nodes),
            }
        )
    )


def _fields(line: str) -> list[str]:
    """
    Return all fields. Raises ValueError when a text has no closing quote, or when its quote is not followed by a blank.
    """
    found: list[str] = []
    at = 0
    line = line.rstrip()
    while at < len(line):
        match = _FIELD.match(line, at)
        if match is None:
            raise ValueError(f"field {len(found) + 1} cannot be read: {line[at : at + 40].strip()!r}")
        found.append(match[2] if match[1] is None else match[1].replace('""', '"'))
        at = match.end()
    return found


def _hosts(texts: list[str], at: int, name: str) -> tuple[list[str], int]:
    """
    Return a list of hosts, which has its count before it, and the place after it. Raises ValueError if it is
    incomplete.
    """
    if at >= len(texts):
        raise ValueError(f"{name}: it is missing")
    try:
        count = whole(texts[at])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    if count > min(_MOST_HOSTS, len(texts) - at - 1):
        raise ValueError(f"{name}: {count_of(count, 'host')}, and the record ends before")
    return texts[at + 1 : at + 1 + count], at + 1 + count


def _slots(hosts: list[str]) -> tuple[tuple[str, ...], int]:
    """Return the nodes and the number of slots. A host is listed once for each slot, or as ``8*n1``."""
    nodes: dict[str, None] = {}
    count = 0
    for host in hosts:
        match = _SHORT.fullmatch(host)
        nodes[match[2] if match else host] = None
        count += int(match[1]) if match else 1
    return tuple(nodes), min(count, _MOST_CORES)


def _exit(code: int | None) -> tuple[int | None, int | None]:
    """Return exit status and signal of a wait status."""
    if code is None:
        return None, None
    return (None, code & 127) if code & 127 else (code >> 8 & 255, None)


class LSFSource(LogSource):
    """The source for lsb.acct."""

    fields = FIELDS
    place_option = "cluster"
    file_help = "lsb.acct of LSF, or a part of it that was archived (lsb.acct.1, ...)"
    example = "/shared/lsf/work/mycluster/logdir/lsb.acct"

    def read(self, chunks: Iterable[bytes], form: LogForm) -> Iterator[ParsedRun]:
        """Yield each run of a log."""
        return log_lines(chunks, partial(run_of, place=form.place or _DEFAULT_CLUSTER))


SOURCE: LogSource = LSFSource(LSF)
