"""
The JSON lines of Open Cluster Scheduler 9.

``rusage`` and ``eusage`` stand inside ``usage`` (9.0 calls the second ``usage`` too); whatever else stands there was
added by the site (``usage_patterns``). The manual page puts them beside ``usage`` and calls them arrays: read as well.
"""

from __future__ import annotations

import json
import re
from typing import Any

from arcacct.files.json_reader import parsed
from arcacct.gridengine.record import Record

_TEXTS = (
    *("qname", "hostname", "owner", "group", "account", "project", "department", "granted_pe"),
    *("job_name", "submit_cmd_line", "category", "deleted_by", "pe_taskid", "pe_task_id"),
)
_NOT_OF_OCS = ("job_class", "submit_host", "cwd", "bound_cores")
"""Known of other versions' lines only: what is no text is kept as what a site added."""
_WHOLES = ("job_number", "slots", "submission_time", "start_time", "end_time", "failed", "exit_status")
_OPTIONAL_WHOLES = ("task_number", "arid", "priority", "ar_submission_time")
_KNOWN = frozenset((*_TEXTS, *_WHOLES, *_OPTIONAL_WHOLES, "usage", "rusage", "eusage"))
_RUSAGE = ("ru_wallclock", "ru_utime", "ru_stime", "ru_maxrss", *Record._fields[28:42])
_EUSAGE = ("wallclock", "cpu", "mem", "io", "ioops", "iow", "maxvmem", "maxrss", "maxpss")
_SIZES = frozenset(("maxvmem", "maxrss", "maxpss"))
"""These may be texts with a unit, as qacct prints them."""
_SIZE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{0,20})?)([kKmMgGtT]?)B?", re.ASCII)
_OURS = frozenset(("rusage", "eusage", "usage"))
_NOTHING = frozenset(("", "NONE"))
_LARGEST = 2**63
_HALF = re.compile(r"[\ud800-\udfff]")
_UNSTORABLE = re.compile(r"\\u(?:d[89a-f]|0000)|[\ud800-\udfff]", re.IGNORECASE)


def json_record(text: str) -> Record:
    """A JSON line. Raises ValueError with what is wrong."""
    line = _parsed(text)
    usage = _members(line.get("usage"), "usage")
    rusage = _members(usage.get("rusage", line.get("rusage")), "usage.rusage")
    eusage = _members(usage.get("eusage", usage.get("usage", line.get("eusage", {}))), "usage.eusage")
    words = list(map(line.get, _TEXTS))
    for name, value in zip(_TEXTS, words, strict=True):
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{name} is {value!r:.40}, not a text")
    texts = [None if value in _NOTHING else value for value in words]
    job_name, submit_cmd_line, category, deleted_by, pe_taskid, pe_task_id = texts[8:]
    job_number, slots, submission, start, end, failed, exit_status = (_whole(line, name) for name in _WHOLES)
    task_number, arid, priority, ar_submission = (_whole(line, name, 0) for name in _OPTIONAL_WHOLES)
    unit = us_of((submission, start, end))
    job = (job_number, task_number, pe_taskid or pe_task_id, *texts[:8], slots, arid or None, job_name, priority)
    times = (submission * unit, start * unit, end * unit, ar_submission * unit or None)
    ending = (submit_cmd_line, category, failed, exit_status, deleted_by)
    measured = _measures(rusage, _RUSAGE, "usage.rusage")
    measured[:4] = [value or 0.0 for value in measured[:4]]
    measured += _measures(eusage, _EUSAGE, "usage.eusage")
    rest = [value if isinstance(value, str) and value not in _NOTHING else None for value in map(line.get, _NOT_OF_OCS)]
    return Record._make((*job, *times, *ending, *measured, *rest, _custom(line, usage)))


def us_of(times: tuple[int, ...]) -> int:
    """
    How many microseconds the unit of some times is.

    Told by their magnitude, never by configuration: seconds in the colon format, milliseconds in Univa's,
    microseconds in JSON. Raises ValueError when they differ: one of them is no time.
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
    The same without what a database's text cannot be: bytes that are no UTF-8, half a surrogate pair, NUL.

    Bytes that are no UTF-8 come as surrogates of Python's, and are written out.
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
    """An object's members; of an array of objects those of all."""
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        return {key: inner for one in value for key, inner in one.items()}
    if not isinstance(value, dict):
        raise ValueError(f"{name} is missing" if value is None else f"{name} is no object")  # noqa: TRY004  one kind
    return value


def _whole(line: dict[str, Any], name: str, missing: int | None = None) -> int:
    number = line.get(name, missing)
    if type(number) is int:
        return number
    if type(number) is float and abs(number) < 2**53:
        return round(number)
    raise ValueError(f"{name} is missing" if number is None else f"{name} is {number!r:.40}, not a number")


def _measures(group: dict[str, Any], names: tuple[str, ...], where: str) -> list[float | None]:
    values = list(map(group.get, names))
    for place, number in enumerate(values):
        if isinstance(number, str) and names[place] in _SIZES:
            values[place] = _size(number, f"{where}.{names[place]}")
            continue
        kind = type(number)
        if number is None or (kind is float and -1e300 < number < 1e300) or (kind is int and abs(number) < _LARGEST):
            continue
        if kind is not float and kind is not int:
            raise ValueError(f"{where}.{names[place]} is {number!r:.40}, not a number")
        values[place] = _float(number, names[place])
    return values


def _size(text: str, name: str) -> float:
    """Bytes of a size with its unit (sge_types(1), memory_specifier): capital letters are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{name} is {text!r:.40}, not a size")
    unit = match[2]
    power = "KMGT".index(unit.upper()) + 1 if unit else 0
    return _float(float(match[1]) * (1024 if unit.isupper() else 1000) ** power, name)


def _float(number: float, name: str) -> float:
    # JSON's 1e999 is read as infinity; a whole number may be longer than any float.
    if not -1e300 < number < 1e300:
        raise ValueError(f"{name} is out of range")
    return float(number)


def _custom(line: dict[str, Any], usage: dict[str, Any]) -> tuple[tuple[str, str, float | str], ...]:
    """What the site or a newer version added, sorted: usage groups, and fields of the record under the group ``''``."""
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
        return value if isinstance(value, int) and abs(value) < _LARGEST else _float(value, "usage")
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
