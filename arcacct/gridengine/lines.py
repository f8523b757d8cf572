"""
Reading Grid Engine's accounting lines: colon-separated of every age, and JSON; one line in, one record out.

The format is told line by line, as qacct does. Nothing is escaped in the colon format, so a colon in the category
(``-l cpu=24:00:00``), a directory or a command makes more fields: the record is taken from both ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from arcacct.gridengine.json_lines import json_record, us_of
from arcacct.gridengine.record import Record
from arcacct.jobs.faults import Fault, fault_of

LATEST_US = 253_402_300_799 * 1_000_000
"""The end of the year 9999: what is later is no time."""
_HEAD = 39
"""Fields before the category; it and those after it are counted from the right."""
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_NUMBERS = re.compile(r"[-+.:0-9eE]*")
_NOTHING = frozenset(("", "NONE"))
_LARGEST_ID = 2**56
_LARGEST_CODE = 2**31


class _Tail(NamedTuple):
    """
    The category and what follows it; of some dialects only the first of these.

    * up to maxvmem: 6.0 and 6.1 (43 fields)
    * and arid, ar_submission_time: 6.2, Son of Grid Engine, Open Cluster Scheduler (45)
    * and job_class: some 8.x (46)
    * and all others: Univa (52 to 55).
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
    """A colon-separated line. Raises ValueError."""
    parts = text.split(":")
    if len(parts) < 43:
        raise ValueError(f"{len(parts)} fields; a record has 43, 45 or more")
    tail = _tail(parts)
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
    return Record._make((*number, *who, *job, *times, *ending, *rusage, *usage, *largest, *rest, ()))


def _tail(parts: list[str]) -> _Tail:
    """The category, in which there may be colons, and what follows it. Raises ValueError."""
    count = len(parts)
    if count >= 52:
        for place in range(_HEAD + 1, count - 11):
            measured = _is_number(parts[place + 7]) and _is_number(parts[place + 8])
            if _is_tail(parts, place, 12) and measured and not parts[place + 9].isdecimal():
                return _Tail(":".join(parts[_HEAD:place]), *_univa(parts, place))
    for length in (5, 6, 3):
        if count - _HEAD > length and _is_tail(parts, count - length, length):
            return _Tail(":".join(parts[_HEAD : count - length]), *parts[count - length :])
    raise ValueError(f"{count} fields, and the last ones are those of no known version")


def _is_tail(parts: list[str], place: int, length: int) -> bool:
    """Whether iow, pe_taskid and maxvmem stand here, then, unless the line is of 6.0 or 6.1, two whole numbers."""
    if not (_is_number(parts[place]) and _is_number(parts[place + 2])):
        return False
    if length == 3:
        # No task has a mere number for its name: that is arid, behind other fields.
        return "." in parts[-1] and not parts[place + 1].isdecimal()
    return parts[place + 3].isdecimal() and parts[place + 4].isdecimal()


def _univa(parts: list[str], place: int) -> list[str]:
    """The fields from iow on, with the command in one piece; a colon in the directory counts as the command's."""
    fixed, rest = parts[place : place + 11], parts[place + 11 :]
    for measured in (3, 2, 1):
        last = rest[len(rest) - measured :]
        if len(rest) > measured and all(_is_number(text) for text in last[:2]) and "." in last[0]:
            return [*fixed, ":".join(rest[:-measured]), *last]
    return [*fixed, ":".join(rest)]


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


def in_range(found: Record) -> Record:
    """The record, if everything in it can be: raises ValueError for what no file of Grid Engine has."""
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
