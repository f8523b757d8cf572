"""
Reading Grid Engine's accounting lines: colon-separated of every age, and JSON; one line in, one record out.

The format is told line by line, as qacct does. Nothing is escaped in the colon format, so a colon in the category
(``-l cpu=24:00:00``), a directory or a command makes more fields: the record is taken from both ends.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from arcacct.gridengine.json_lines import json_record, us_of
from arcacct.gridengine.record import Record
from arcacct.records.import_quarantine import Fault, fault_of

LATEST_US = 253_402_300_799 * 1_000_000
"""The end of the year 9999: what is later is no time."""
_UP_TO_QDEL_INFO, _UP_TO_SUBMIT_HOST = 7, 10
_LEAST = 43
_MOST_COLONS = 100
_HEAD = 39
"""Fields before the category; it and those after it are counted from the right."""
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_NUMBERS = re.compile(r"[-+.:0-9eE]*")
_NOTHING = frozenset(("", "NONE"))
_LARGEST_ID = 2**56
_LARGEST_CODE = 2**31
_LARGEST_AMOUNT = 2**63 - 1024


class _Tail(NamedTuple):
    """
    The category and what follows it; of some dialects only the first of these.

    * up to maxvmem: 6.0 and 6.1 (43 fields)
    * and arid, ar_submission_time: 6.2, Son of Grid Engine, Open Cluster Scheduler (45)
    * and job_class, or more of the others: Univa 8.1 (46 to 51)
    * and up to submit_cmd: Univa 8.2 (52); and up to bound_cores: later (55)
    * and then those of FURTHER: Univa 8.6 and Altair (up to 74).
    """

    category: str
    iow: str
    pe_taskid: str
    maxvmem: str
    arid: str = ""
    ar_submission_time: str = ""
    job_class: str = ""
    qdel_info: str = ""
    maxrss: str = ""
    maxpss: str = ""
    submit_host: str = ""
    cwd: str = ""
    submit_cmd: str = ""
    wallclock: str = ""
    ioops: str = ""
    bound_cores: str = ""


FURTHER = (
    *("resource_map", "devices", "gpus", "gpu_usage"),
    *("failcnt", "memsw.failcnt", "max_usage_in_bytes", "memsw.max_usage_in_bytes", "max_cgroups_memory"),
    *("hold_jid", "field_66", "field_67", "field_68"),
    *("hard_resources", "soft_resources", "hard_queues", "soft_queues", "granted_req", "exec_host_list"),
)
"""
What stands behind bound_cores, as qacct of Altair calls it; three are not shown there, and have no name.

(No manual page with them is public; the order is that of public programs that read such files.)
"""
_AMOUNTS = frozenset(FURTHER[4:10])
_CGROUP_AMOUNTS = 5


def read_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, Record | Fault]]:
    """The records of some lines, each with the number of its line from 1; of a line that cannot be used why."""
    for number, line in enumerate(lines, 1):
        try:
            one = record(line)
        except Exception as error:  # noqa: BLE001  whatever it is, it costs this line alone
            yield number, fault_of(error)
        else:
            if one is not None:
                yield number, one


def record(line: bytes) -> Record | None:
    r"""
    The record of one line (with or without its newline); ``None`` for comments and lines of one character or less.

    Bytes that are not UTF-8 are shown as ``\xhh``. Raises ValueError with what is wrong with the line.
    """
    # After a crash some file systems leave zeros where the end of a file was.
    line = line.rstrip(b"\r\n").lstrip(b"\0")
    if len(line) <= 1 or line.startswith(b"#"):
        return None
    if line.startswith(b"{"):
        return in_range(json_record(line.decode("utf-8", "surrogateescape")))
    return in_range(colon_record(line.decode("utf-8", "backslashreplace").replace("\0", "\\x00")))


def colon_record(text: str) -> Record:
    """A colon-separated line; there may be colons in the name of its job. Raises ValueError."""
    parts = text.split(":")
    if len(parts) < _LEAST:
        raise ValueError(f"{len(parts)} fields; a record has 43, 45 or more")
    try:
        return _of_parts(parts)
    except ValueError:
        readings = _with_colons_in_name(parts)
        if len(readings) != 1:
            raise
        return _of_parts(readings[0])


def _with_colons_in_name(parts: list[str]) -> list[list[str]]:
    """The fields, with the name of the job put together so that numbers are where they should be; each such reading."""
    found = []
    for more in range(1, min(len(parts) - _LEAST, _MOST_COLONS) + 1):
        one = [*parts[:4], ":".join(parts[4 : 5 + more]), *parts[5 + more :]]
        numbers = (*one[7:31], *one[34:39])
        if one[5].isdecimal() and one[6] and not one[6].isdecimal() and all(map(_is_number, numbers)):
            found.append(one)
    return found


def _of_parts(parts: list[str]) -> Record:
    tail, further = _tail(parts)
    numbers = [parts[5], *parts[7:31], *parts[34:39], tail.iow, tail.maxvmem]
    try:
        job_number, priority, submission, start, end, failed, exit_status, *measured = _measures(numbers)
    except ValueError:
        raise ValueError(_not_a_number(parts)) from None
    *rusage, slots, task_number, cpu, mem, io, iow, maxvmem = measured
    qname, hostname, group, owner, job_name, _, account = [text or None for text in parts[:7]]
    submission, start, end = int(submission), int(start), int(end)
    unit = us_of((submission, start, end))
    who = (qname, hostname, owner, group, account, *map(_word, parts[31:34]))
    number = (round(job_number), round(task_number), _word(tail.pe_taskid))
    job = (round(slots), int(tail.arid or 0) or None, job_name, round(priority))
    times = (submission * unit, start * unit, end * unit, int(tail.ar_submission_time or 0) * unit or None)
    ending = (_word(tail.submit_cmd), _word(tail.category), round(failed), round(exit_status), _word(tail.qdel_info))
    usage = (_optional(tail.wallclock), cpu, mem, io, _optional(tail.ioops), iow, maxvmem)
    rest = map(_word, (tail.job_class, tail.submit_host, tail.cwd, tail.bound_cores))
    largest = map(_optional, (tail.maxrss, tail.maxpss))
    return Record._make(
        (*number, *who, *job, *times, *ending, *rusage, *usage, *largest, *rest, _custom(further) if further else ())
    )


def _tail(parts: list[str]) -> tuple[_Tail, list[str]]:
    """The category, in which there may be colons, and what follows it; by FURTHER the rest. Raises ValueError."""
    count = len(parts)
    for place in range(_HEAD + 1, count - 11):
        if _is_tail(parts, place, 12):
            measured, further = _command(parts[place + 11 :])
            return _Tail(":".join(parts[_HEAD:place]), *parts[place : place + 11], *measured), further
    # The category is as long as it can be: what looks like the rest of an older line may be its end.
    for length in (5, 6, 7, 8, 9, 10, 11, 3):
        if count - _HEAD > length and _is_tail(parts, count - length, length):
            return _Tail(":".join(parts[_HEAD : count - length]), *parts[count - length :]), []
    raise ValueError(f"{count} fields, and the last ones are those of no known version")


def _is_tail(parts: list[str], place: int, length: int) -> bool:
    """Whether so many fields from iow on stand here, as far as they have a shape."""
    if not (_is_number(parts[place]) and _is_number(parts[place + 2])):
        return False
    if length == 3:
        # No task has a mere number for its name: that is arid, behind other fields.
        return "." in parts[-1] and not parts[place + 1].isdecimal()
    if not (parts[place + 3].isdecimal() and parts[place + 4].isdecimal()):
        return False
    # (Most lines end before these.)
    return length <= _UP_TO_QDEL_INFO or (
        all(map(_is_number, parts[place + 7 : min(place + length, place + 9)]))
        and (length < _UP_TO_SUBMIT_HOST or not parts[place + 9].isdecimal())
    )


def _command(rest: list[str]) -> tuple[list[str], list[str]]:
    """
    The fields from the command to bound_cores, and what follows; a colon in the directory counts as the command's.

    What was measured, wallclock with its decimals and the number of operations, ends the command; without decimals it
    could be the command's own, unless the five numbers of the longest lines stand where they should.
    """
    for place in range(1, len(rest)):
        amounts = rest[place + 7 : place + 12]
        is_sure = "." in rest[place] or (len(amounts) == _CGROUP_AMOUNTS and all(map(_is_number, amounts)))
        if is_sure and all(map(_is_number, rest[place : place + 2])):
            return [":".join(rest[:place]), *rest[place : place + 3]], _in_place(rest[place + 3 :])
    return [":".join(rest)], []


def _in_place(further: list[str]) -> list[str]:
    """What stands behind bound_cores, by FURTHER; colons in it are of lists of resources and hosts, which come last."""
    listed = FURTHER.index("hard_resources")
    if len(further) > len(FURTHER):
        return [*further[:listed], ":".join(further[listed:])]
    return further


def _custom(further: Iterable[str]) -> tuple[tuple[str, str, float | str], ...]:
    """What has no column of its own, by name; neither NONE nor 0, which say that nothing was asked for or measured."""
    named = ((name, text) for name, text in zip(FURTHER, further, strict=False) if text not in _NOTHING)
    values = ((name, _amount(text) if name in _AMOUNTS else text) for name, text in named)
    return tuple(sorted(("", name, value) for name, value in values if value))


def _amount(text: str) -> float | str:
    value = float(text) if _is_number(text) else math.inf
    return text if abs(value) > _LARGEST_AMOUNT else round(value) if value.is_integer() else value


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _measures(texts: list[str]) -> list[float]:
    """
    Numbers as the line has them: some versions write whole fields with decimals, and the other way round.

    (A counter that fell below zero shows as 2**64: the rest of the record is good.)
    """
    if not _NUMBERS.fullmatch(":".join(texts)):
        raise ValueError
    values = list(map(float, texts))
    if not -1e300 < sum(values) < 1e300:
        raise ValueError
    return values


def _optional(text: str) -> float | None:
    return _measures([text])[0] if text else None


def _word(text: str) -> str | None:
    return None if text in _NOTHING else text


def _not_a_number(parts: list[str]) -> str:
    names = {5: "job_number", 34: "slots", 35: "task_number", 36: "cpu", 37: "mem", 38: "io"}
    names |= dict(enumerate(Record._fields[24:42], 13))
    names |= dict(enumerate(("priority", "submission_time", "start_time", "end_time", "failed", "exit_status"), 7))
    for place in sorted(names):
        if not _is_number(parts[place]):
            return f"{names[place]} (field {place + 1}) is {parts[place][:40]!r}, not a number"
    return "a number is out of range"


def _with_start(found: Record) -> Record:
    """A record without a start that has an end and a wall clock: it started that long before its end, as in qacct."""
    wall_us = (found.ru_wallclock_s or found.wallclock_s or 0.0) * 1_000_000
    start_us = found.end_time_us - round(wall_us) if 0 < wall_us < found.end_time_us else 0
    return found._replace(start_time_us=start_us)


def in_range(found: Record) -> Record:
    """The record, if everything in it can be: raises ValueError for what no file of Grid Engine has."""
    if found.start_time_us <= 0:
        found = _with_start(found)
    if not (
        0 <= found.submission_time_us <= LATEST_US
        and 0 <= found.start_time_us <= LATEST_US
        and 0 <= found.end_time_us <= LATEST_US
        and 0 <= found.job_number < _LARGEST_ID
        and 0 <= found.task_number < _LARGEST_ID
        and 0 <= found.slots < _LARGEST_CODE
        and -_LARGEST_CODE < found.failed < _LARGEST_CODE
        and -_LARGEST_CODE < found.exit_status < _LARGEST_CODE
        and -_LARGEST_CODE < (found.priority or 0) < _LARGEST_CODE
        and 0 <= (found.arid or 0) < _LARGEST_ID
        and 0 <= (found.ar_submission_time_us or 0) <= LATEST_US
    ):
        raise ValueError(
            f"a number is out of range: job {found.job_number}.{found.task_number}, {found.slots} slots, failed "
            f"{found.failed}, exit status {found.exit_status}, priority {found.priority}, reservation {found.arid}, "
            f"times in us {found.submission_time_us}, {found.start_time_us}, {found.end_time_us}, "
            f"{found.ar_submission_time_us}"
        )
    return found
