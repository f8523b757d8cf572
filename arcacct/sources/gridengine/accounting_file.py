"""Grid Engine's accounting lines as records: colon-separated of every version, and JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from arcacct.files.follow import LONGEST_LINE
from arcacct.files.json_reader import parsed
from arcacct.records.rejected import Fault, tried
from arcacct.sources.engine.batch_runs import lines_of
from arcacct.sources.engine.runs import Field, Noise, ParsedRun, values_of
from arcacct.sources.gridengine.record import STORED, Record
from arcacct.times import LAST_SECOND
from arcacct.wording import count_of


class Origin(NamedTuple):
    """The origin of a record."""

    cell: str = "default"
    """Cell (cluster); part of each job's identity."""
    file_id: int = 0
    """The file in the database."""
    line: int = 0
    """The line in the file, from 1; of a file, the number of lines before."""


# The JSON lines of Open Cluster Scheduler 9.
#
# ``rusage`` and ``eusage`` are inside ``usage`` (9.0 calls the second one ``usage`` too). The site adds all other
# members of it (``usage_patterns``). The manual page puts them next to ``usage`` and calls them arrays. This reader
# accepts both forms.


_SIZE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{0,20})?)([kKmMgGtT]?)B?", re.ASCII)
_OURS = frozenset(("rusage", "eusage", "usage"))
_NOTHING = frozenset(("", "NONE"))
_LARGEST = 2**63
_HALF = re.compile(r"[\ud800-\udfff]")
_UNSTORABLE = re.compile(r"\\u(?:d[89a-f]|0000)|[\ud800-\udfff]", re.IGNORECASE)


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is not text")  # noqa: TRY004  of the line, not of the program
    return None if value in _NOTHING else value


def _whole(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer() and abs(value) < 2**53:
        return int(value)
    raise ValueError("it is missing" if value is None else f"{value!r:.40} is not a number")


def _whole_or_0(value: Any) -> int:
    return 0 if value is None else _whole(value)


def _measure(value: Any) -> float:
    if type(value) is int and abs(value) < _LARGEST:
        return value
    if type(value) not in (int, float):
        raise ValueError(f"{value!r:.40} is not a number")
    # JSON's 1e999 is read as infinity; a whole number may be longer than any float.
    if not -1e300 < value < 1e300:
        raise ValueError("out of range")
    return float(value)


def _size(value: Any) -> float:
    """
    A size in bytes. A text has a unit, as qacct prints it (memory_specifier in sge_types(1)): capitals are powers of
    1024.
    """
    if not isinstance(value, str):
        return _measure(value)
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"{value!r:.40} is not a size")
    unit = match[2]
    power = "KMGT".index(unit.upper()) + 1 if unit else 0
    return _measure(float(match[1]) * (1024 if unit.isupper() else 1000) ** power)


_OF_JOB = (
    Field("job_number", _whole, "job_number", is_needed=True),
    Field("task_number", _whole_or_0, "task_number", is_needed=True),
    Field("pe_taskid", _text, "pe_taskid"),
    Field("pe_task_id", _text, "pe_taskid"),
    *(Field(name, _text, name) for name in STORED[3:11]),
    Field("slots", _whole, "slots", is_needed=True),
    Field("arid", _whole, "arid"),
    Field("job_name", _text, "job_name"),
    Field("priority", _whole, "priority"),
    Field("submission_time", _whole, "submission_time_us", is_needed=True, unit="us"),
    Field("start_time", _whole, "start_time_us", is_needed=True, unit="us"),
    Field("end_time", _whole, "end_time_us", is_needed=True, unit="us"),
    Field("ar_submission_time", _whole, "ar_submission_time_us", unit="us"),
    Field("submit_cmd_line", _text, "submit_cmd_line"),
    Field("category", _text, "category"),
    Field("failed", _whole, "failed", is_needed=True),
    Field("exit_status", _whole, "exit_status", is_needed=True),
    Field("deleted_by", _text, "deleted_by"),
)
_RUSAGE = (
    Field("ru_wallclock", _measure, "ru_wallclock_s", unit="s"),
    Field("ru_utime", _measure, "ru_utime_s", unit="s"),
    Field("ru_stime", _measure, "ru_stime_s", unit="s"),
    Field("ru_maxrss", _measure, "ru_maxrss_kib", unit="KiB"),
    *(Field(name, _measure, name) for name in STORED[28:42]),
)
_EUSAGE = (
    Field("wallclock", _measure, "wallclock_s", unit="s"),
    Field("cpu", _measure, "cpu_s", unit="s"),
    Field("mem", _measure, "mem_gib_s", unit="GiB s"),
    Field("io", _measure, "io_gib", unit="GiB"),
    Field("ioops", _measure, "ioops"),
    Field("iow", _measure, "iow_s", unit="s"),
    Field("maxvmem", _size, "maxvmem_bytes", unit="bytes"),
    Field("maxrss", _size, "maxrss_bytes", unit="bytes"),
    Field("maxpss", _size, "maxpss_bytes", unit="bytes"),
)
FIELDS = (*_OF_JOB, *_RUSAGE, *_EUSAGE)
_NOT_OF_OCS = STORED[51:55]
"""Fields that only lines of other versions have. A value that is not text is kept as a field that the site added."""
_KNOWN = frozenset((*(one.name for one in _OF_JOB), "usage", "rusage", "eusage"))


def json_record(text: str, unusable: set[str], origin: Origin) -> Record:
    """
    Read a JSON line. The names of optional values that cannot be used go into ``unusable``. Raises ValueError with the
    reason.
    """
    line = _parsed(text)
    usage = _members(line.get("usage"), "usage")
    rusage = _members(usage.get("rusage", line.get("rusage")), "usage.rusage")
    eusage = _members(usage.get("eusage", usage.get("usage", line.get("eusage", {}))), "usage.eusage")
    found: dict[str, Any] = {"priority": 0, **dict.fromkeys(STORED[24:28], 0.0)}
    for fields, group in ((_OF_JOB, line), (_RUSAGE, rusage), (_EUSAGE, eusage)):
        found |= values_of(fields, group.get, unusable)
    unit = us_of((found["submission_time_us"], found["start_time_us"], found["end_time_us"]))
    for name in STORED[15:19]:
        found[name] = (found.get(name) or 0) * unit
    for name in STORED[24:28]:
        found[name] = found[name] or 0.0
    for name in ("arid", "ar_submission_time_us"):
        found[name] = found.get(name) or None
    for name in _NOT_OF_OCS:
        value = line.get(name)
        found[name] = value if isinstance(value, str) and value not in _NOTHING else None
    custom = _json_custom(line, usage)
    return Record._make((origin.cell, *map(found.get, STORED), origin.file_id, origin.line, custom))


def us_of(times: tuple[int, ...]) -> int:
    """
    Return the unit of some times in microseconds.

    The magnitude of the times decides, never the configuration: seconds in the colon format, milliseconds in Univa's,
    microseconds in JSON. Raises ValueError when the times have different units: then one of them is wrong.
    """
    units = {1_000_000 if when < 10**11 else 1_000 if when < 10**14 else 1 for when in times if when > 0}
    if len(units) > 1:
        raise ValueError(f"times of different units: {', '.join(map(str, times))}")
    return units.pop() if units else 1


def _parsed(text: str) -> dict[str, Any]:
    try:
        line: Any = parsed(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(line, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  what the caller shows is one kind of error
    found: dict[str, Any] = _storable(line) if _UNSTORABLE.search(text) else line
    return found


def _storable(value: Any) -> Any:
    """
    Return the value without anything that a database text cannot hold: bytes that are not UTF-8, half a surrogate pair,
    NUL.

    Python reads bytes that are not UTF-8 as surrogates. They are written as escapes.
    """
    if isinstance(value, str):
        return _HALF.sub(_written_out, value).replace("\0", "\\x00")
    if isinstance(value, dict):
        return {_storable(key): _storable(inner) for key, inner in value.items()}
    return [_storable(inner) for inner in value] if isinstance(value, list) else value


def _written_out(half: re.Match[str]) -> str:
    code = ord(half[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def _members(value: Any, name: str) -> dict[str, Any]:
    """Return the members of an object, or of all objects of an array."""
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        return {key: inner for one in value for key, inner in one.items()}
    if not isinstance(value, dict):
        raise ValueError(f"{name} is missing" if value is None else f"{name} is not an object")  # noqa: TRY004  one kind
    return value


def _json_custom(line: dict[str, Any], usage: dict[str, Any]) -> tuple[tuple[str, str, float | str], ...]:
    """
    Return the values that the site or a newer version added, sorted. They are usage groups, and fields of the record
    under the group ``''``.
    """
    further = [(group, members) for group, members in usage.items() if group not in _OURS]
    unknown = line.keys() - _KNOWN - {name for name in _NOT_OF_OCS if isinstance(line.get(name), str)}
    if not further and not unknown:
        return ()
    found: dict[tuple[str, str], float | str] = {}
    for group, members in [*further, *((name, line[name]) for name in unknown)]:
        if isinstance(members, list) and members and all(isinstance(one, dict) for one in members):
            members = _members(members, group)  # noqa: PLW2901  an array of objects is one group
        if isinstance(members, dict):
            found |= {(group, name): _kept(value) for name, value in members.items() if value is not None}
        elif members is not None:
            found["", group] = _kept(members)
    return tuple((*place, found[place]) for place in sorted(found))


def _kept(value: Any) -> float | str:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float)):
        return value if isinstance(value, int) and abs(value) < _LARGEST else _measure(value)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


# Read Grid Engine's accounting lines: colon-separated of every version, and JSON. One line gives one record.
#
# Each line decides its own format, as in qacct. The colon format escapes nothing. A colon in the category (``-l
# cpu=24:00:00``), a directory or a command makes more fields, so the record is read from both ends.


LATEST_US = LAST_SECOND * 1_000_000
"""A later value is not a time."""
_UP_TO_QDEL_INFO, _UP_TO_SUBMIT_HOST = 7, 10
_LEAST = 43
_MOST_COLONS = 100
_HEAD = 39
"""The number of fields before the category. The category and the fields after it are counted from the right."""
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_NUMBERS = re.compile(r"[-+.:0-9eE]*")
_LARGEST_ID = 2**56
_LARGEST_CODE = 2**31
_LARGEST_AMOUNT = 2**63 - 1024


class _Tail(NamedTuple):
    """
    The category and the fields after it. Some dialects have only the first of these.

    * up to maxvmem: 6.0 and 6.1 (43 fields)
    * also arid, ar_submission_time: 6.2, Son of Grid Engine, Open Cluster Scheduler (45)
    * also job_class, or more of the others: Univa 8.1 (46 to 51)
    * up to submit_cmd: Univa 8.2 (52); up to bound_cores: later versions (55)
    * then the fields of FURTHER: Univa 8.6 and Altair (up to 74).
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
The fields after bound_cores, as Altair's qacct calls them. qacct does not show three of them, so they have no name.

No manual page about them is public. The order is that of public programs that read such files.
"""
_AMOUNTS = frozenset(FURTHER[4:10])
_CGROUP_AMOUNTS = 5


def read(chunks: Iterable[bytes], form: Origin) -> Iterator[ParsedRun]:
    """Yield each complete line. ``form``: the cell and the file, and the number of lines before."""
    for line in lines_of(chunks, LONGEST_LINE):
        unusable: set[str] = set()
        what: Record | Fault | Noise | None
        if len(line.text) > LONGEST_LINE:
            what = Fault(f"a line of {line.length - 1} bytes: longer than any record")
        else:
            what = tried(record, line.text, unusable, Origin(form.cell, form.file_id, form.line + line.number))
        if line.is_complete:
            is_line = what is None
            what = what or Noise("", line.number, why="")
            content = line.text + b"\n"
            yield ParsedRun(what, f"line {line.number}", content, line.length, is_line, frozenset(unusable))


def record(line: bytes, unusable: set[str] | None = None, origin: Origin = Origin()) -> Record | None:  # noqa: B008
    r"""
    Return the record of one line, with or without its newline; ``None`` for comments and lines of at most one
    character.

    Bytes that are not UTF-8 are shown as ``\xhh``. Measured values that cannot be used are unknown, and their names go
    into ``unusable``. Raises ValueError with the reason when the line cannot be used.
    """
    found: set[str] = set() if unusable is None else unusable
    # After a crash some file systems leave zeros where the end of a file was.
    line = line.rstrip(b"\r\n").lstrip(b"\0")
    if len(line) <= 1 or line.startswith(b"#"):
        return None
    if line.startswith(b"{"):
        return in_range(json_record(line.decode("utf-8", "surrogateescape"), found, origin), found)
    text = line.decode("utf-8", "backslashreplace").replace("\0", "\\x00")
    return in_range(colon_record(text, found, origin), found)


def colon_record(text: str, unusable: set[str], origin: Origin) -> Record:
    """
    Read a colon-separated line. The job name may contain colons.

    The names of measured values that are not numbers go into ``unusable``. Raises ValueError.
    """
    parts = text.split(":")
    if len(parts) < _LEAST:
        raise ValueError(f"{count_of(len(parts), 'field')}; a record has 43, 45 or more")
    try:
        return _of_parts(parts, origin)
    except ValueError:
        readings = _with_colons_in_name(parts)
        if len(readings) == 1:
            return _of_parts(readings[0], origin)
        odd = [place for place in _MEASURED if not _is_measure(parts[place])]
        if not odd or not all(map(_is_number, (parts[5], *parts[7:13], *parts[34:36]))):
            raise
        # The fields that accounting needs are in their places. A measured value that is not a number is unknown.
        unusable.update(_MEASURED[place] for place in odd)
        found = _of_parts([("0" if place in odd else part) for place, part in enumerate(parts)], origin)
        unknown: dict[str, Any] = dict.fromkeys(set(unusable) & _MAY_BE_UNKNOWN)
        return found._replace(**unknown)


def _is_measure(text: str) -> bool:
    return _is_number(text) and abs(float(text)) < 1e300


_MEASURED = dict(enumerate(STORED[24:42], 13)) | {36: "cpu_s", 37: "mem_gib_s", 38: "io_gib"}
"""The places of the measured values in a line, with their field names in a record."""
_MAY_BE_UNKNOWN = frozenset((*STORED[28:42], "cpu_s", "mem_gib_s", "io_gib"))


def _with_colons_in_name(parts: list[str]) -> list[list[str]]:
    """Join the parts of a job name with colons so that numbers are in their places. Return each possible reading."""
    found = []
    for more in range(1, min(len(parts) - _LEAST, _MOST_COLONS) + 1):
        one = [*parts[:4], ":".join(parts[4 : 5 + more]), *parts[5 + more :]]
        numbers = (*one[7:31], *one[34:39])
        if one[5].isdecimal() and one[6] and not one[6].isdecimal() and all(map(_is_number, numbers)):
            found.append(one)
    return found


def _of_parts(parts: list[str], origin: Origin) -> Record:
    tail, further = _tail(parts)
    numbers = [parts[5], *parts[7:31], *parts[34:39], tail.iow, tail.maxvmem]
    try:
        job_number, priority, submission, start, end, failed, exit_status, *measured = _measures(numbers)
    except ValueError:
        raise ValueError(_not_a_number(parts)) from None
    *rusage, slots, task_number, cpu, mem, io, iow, maxvmem = measured
    if job_number % 1 or task_number % 1:
        raise ValueError(f"job {job_number}.{task_number} is not a number of a job")
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
    custom = _custom(further) if further else ()
    who_and_when = (origin.cell, *number, *who, *job, *times, *ending)
    return Record._make((*who_and_when, *rusage, *usage, *largest, *rest, origin.file_id, origin.line, custom))


def _tail(parts: list[str]) -> tuple[_Tail, list[str]]:
    """
    Return the category, which may contain colons, with the fields after it, and then the fields of FURTHER. Raises
    ValueError.
    """
    count = len(parts)
    for place in range(_HEAD + 1, count - 11):
        if _is_tail(parts, place, 12):
            measured, further = _command(parts[place + 11 :])
            return _Tail(":".join(parts[_HEAD:place]), *parts[place : place + 11], *measured), further
    # Take the longest possible category: its end may look like the rest of an older line.
    for length in (5, 6, 7, 8, 9, 10, 11, 3):
        if count - _HEAD > length and _is_tail(parts, count - length, length):
            return _Tail(":".join(parts[_HEAD : count - length]), *parts[count - length :]), []
    raise ValueError(f"{count_of(count, 'field')}, and the last ones do not belong to a known version")


def _is_tail(parts: list[str], place: int, length: int) -> bool:
    """Whether ``length`` fields, from iow on, are at this place. Only fields with a known form are checked."""
    if not (_is_number(parts[place]) and _is_number(parts[place + 2])):
        return False
    if length == 3:
        # A task name is never only a number. A number here is arid, and other fields come before it.
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
    Return the fields from the command to bound_cores, and the fields after them.

    A colon in the directory counts as part of the command. The command ends at the measured values: wallclock with its
    decimals, then the number of operations. Without decimals they could be part of the command. They count as measured
    only if the five numbers of the longest lines are also in their places.
    """
    for place in range(1, len(rest)):
        amounts = rest[place + 7 : place + 12]
        is_sure = "." in rest[place] or (len(amounts) == _CGROUP_AMOUNTS and all(map(_is_number, amounts)))
        if is_sure and all(map(_is_number, rest[place : place + 2])):
            return [":".join(rest[:place]), *rest[place : place + 3]], _in_place(rest[place + 3 :])
    return [":".join(rest)], []


def _in_place(further: list[str]) -> list[str]:
    """
    Return the fields after bound_cores in the order of FURTHER. Lists of resources and hosts come last, and only they
    have colons.
    """
    listed = FURTHER.index("hard_resources")
    if len(further) > len(FURTHER):
        return [*further[:listed], ":".join(further[listed:])]
    return further


def _custom(further: Iterable[str]) -> tuple[tuple[str, str, float | str], ...]:
    """Return the values without a column, by name. NONE and 0 are left out: nothing was requested or measured."""
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
    Return the numbers of a line. Some versions write whole fields with decimals, and some write decimal fields without.

    A counter that fell below zero shows as 2**64. The rest of such a record is good.
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
    names = _MEASURED | {5: "job_number", 34: "slots", 35: "task_number", 36: "cpu", 37: "mem", 38: "io"}
    names |= dict(enumerate(("priority", "submission_time", "start_time", "end_time", "failed", "exit_status"), 7))
    for place in sorted(names):
        if not _is_number(parts[place]):
            return f"{names[place]} (field {place + 1}) is {parts[place][:40]!r}, not a number"
    return "a number is out of range"


def _with_start(found: Record) -> Record:
    """
    Give a record that has an end and a wall clock but no start its start: the end minus the wall clock, as in qacct.
    """
    wall_us = (found.ru_wallclock_s or found.wallclock_s or 0.0) * 1_000_000
    start_us = found.end_time_us - round(wall_us) if 0 < wall_us < found.end_time_us else 0
    return found._replace(start_time_us=start_us)


def in_range(found: Record, unusable: set[str]) -> Record:
    """
    Return the record without impossible optional values. Their names go into ``unusable``.

    Raises ValueError for a required value that no Grid Engine file has.
    """
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
    ):
        raise ValueError(
            f"a number is out of range: job {found.job_number}.{found.task_number}, {found.slots} slots, failed "
            f"{found.failed}, exit status {found.exit_status}, "
            f"times in us {found.submission_time_us}, {found.start_time_us}, {found.end_time_us}"
        )
    can_be = {
        "priority": -_LARGEST_CODE < (found.priority or 0) < _LARGEST_CODE,
        "arid": 0 <= (found.arid or 0) < _LARGEST_ID,
        "ar_submission_time_us": 0 <= (found.ar_submission_time_us or 0) <= LATEST_US,
    }
    if not all(can_be.values()):
        odd = {name for name, good in can_be.items() if not good}
        unusable |= odd
        unknown: dict[str, Any] = dict.fromkeys(odd)
        found = found._replace(**unknown)
    return found
