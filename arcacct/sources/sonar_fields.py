"""
The field types of Sonar's JSON: each reader takes an object and a key and gives a value or refuses the object.

An absent field has its type's default (0, empty, false), which mostly means "unknown" (seed: data format notes).
"""

from __future__ import annotations

import re
from calendar import timegm
from functools import lru_cache
from typing import Any

LARGEST = 2**63 - 1
"""What a column of SQLite holds."""
UNLIMITED = -1
"""An ExtendedUint that is infinite."""

_LARGEST_UINT = 2**64 - 1
_TIMESTAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:Z|([+-])(\d\d):?(\d\d))", re.ASCII)
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class MalformedError(ValueError):
    """A value that its type does not allow: the envelope that has it is refused, and only that one."""


def text(holder: dict[str, Any], key: str) -> str:
    """A string; empty when absent."""
    value = holder.get(key, "")
    if type(value) is not str:
        raise MalformedError(f"{key} is not a string")
    if not value.isascii():
        _refuse_surrogates(value, key)
    return value


def name(holder: dict[str, Any], key: str) -> str:
    """A string that may not be empty."""
    value = text(holder, key)
    if not value:
        raise MalformedError(f"{key} is missing")
    return value


def uint(holder: dict[str, Any], key: str) -> int:
    """A 64-bit number without a sign; 0 when absent. What a column cannot hold is Slurm's "no value", so 0 too."""
    value = holder.get(key, 0)
    if type(value) is int and 0 <= value <= LARGEST:
        return value
    # The Go decoder refuses 1.0; some encoders write it, and it says the same.
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise MalformedError(f"{key} is not a whole number")
    if not 0 <= value <= _LARGEST_UINT:
        raise MalformedError(f"{key} is out of range")
    return value if value <= LARGEST else 0


def known(holder: dict[str, Any], key: str) -> int | None:
    """As `uint`, but ``None`` when absent."""
    return uint(holder, key) if holder.get(key) is not None else None


def integer(holder: dict[str, Any], key: str) -> int:
    """A number with a sign; 0 when absent."""
    value = holder.get(key, 0)
    if type(value) is not int or not -LARGEST <= value <= LARGEST:
        raise MalformedError(f"{key} is not a whole number")
    return value


def number(holder: dict[str, Any], key: str) -> float:
    """A finite number; 0 when absent."""
    value = holder.get(key, 0)
    if type(value) not in {int, float} or not -1e300 < value < 1e300:
        raise MalformedError(f"{key} is not a number")
    return float(value)


def flag(holder: dict[str, Any], key: str) -> bool:
    """True or false; false when absent."""
    value = holder.get(key, False)
    if type(value) is not bool:
        raise MalformedError(f"{key} is not true or false")
    return value


def extended(holder: dict[str, Any], key: str) -> int | None:
    """An ExtendedUint: ``None`` when unset, `UNLIMITED`, or the value (sent with 2 added)."""
    value = uint(holder, key)
    return None if value == 0 else UNLIMITED if value == 1 else value - 2


def items(holder: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """A list of objects; empty when absent."""
    value = holder.get(key) or []
    if type(value) is not list or not all(type(one) is dict for one in value):
        raise MalformedError(f"{key} is not a list of objects")
    return value


def texts(holder: dict[str, Any], key: str) -> list[str]:
    """A list of strings; empty when absent."""
    value = holder.get(key) or []
    if type(value) is not list or not all(type(one) is str for one in value):
        raise MalformedError(f"{key} is not a list of strings")
    for one in value:
        _refuse_surrogates(one, key)
    return value


def uints(holder: dict[str, Any], key: str) -> list[int]:
    """A list of numbers without a sign; empty when absent."""
    value = holder.get(key) or []
    if type(value) is not list or not all(type(one) is int and 0 <= one <= LARGEST for one in value):
        raise MalformedError(f"{key} is not a list of whole numbers")
    return value


def inside(holder: dict[str, Any], key: str) -> dict[str, Any] | None:
    """An object, or ``None``."""
    value = holder.get(key)
    if value is not None and type(value) is not dict:
        raise MalformedError(f"{key} is not an object")
    return value


def timestamp(holder: dict[str, Any], key: str) -> int:
    """A moment as UTC seconds; it may not be absent."""
    found = moment(holder, key)
    if found is None:
        raise MalformedError(f"{key} is missing")
    return found


def moment(holder: dict[str, Any], key: str) -> int | None:
    """A moment as UTC seconds, ``None`` when absent or empty; an offset is required, ``Z`` is one."""
    value = text(holder, key)
    if not value:
        return None
    try:
        return seconds_of(value)
    except ValueError:
        raise MalformedError(f"{key} is not a time: {value[:40]!r}") from None


@lru_cache(maxsize=4096)
def seconds_of(value: str) -> int:
    """UTC seconds of an RFC 3339 time; raises ValueError."""
    match = _TIMESTAMP.fullmatch(value)
    if match is None:
        raise ValueError(value)
    year, month, day, hour, minute, second = (int(part) for part in match.group(1, 2, 3, 4, 5, 6))
    away = 60 * (60 * int(match[8]) + int(match[9])) * (-1 if match[7] == "-" else 1) if match[7] else 0
    if not (1 <= month <= 12 and 1 <= day <= _DAYS[month - 1] and hour < 24 and minute < 60 and second <= 60):
        raise ValueError(value)
    found = timegm((year, month, day, hour, minute, second)) - away
    if not 0 <= found <= 253402300799:
        raise ValueError(value)
    return found


def _refuse_surrogates(value: str, key: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise MalformedError(f"{key} is not Unicode") from None
