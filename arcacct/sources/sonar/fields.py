"""Read the field types of Sonar's JSON, and the JSON objects of a stream of bytes."""

from __future__ import annotations

import codecs
import re
from calendar import timegm
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

from arcacct.files import json_reader
from arcacct.records.rejected import Fault, fault_of
from arcacct.records.slurm_formats import MalformedError
from arcacct.resources import LARGEST
from arcacct.times import LAST_SECOND

# The field types of Sonar's JSON. Each reader takes an object and a key, and returns a value or raises MalformedError.
#
# An absent field has its type's default (0, empty, false), which mostly means "unknown" (seed: data format notes).
#
# An envelope is first decoded strictly, which is fast. If that fails, `Tolerant` readers decode it again. They count an
# unusable value as absent. An element that it would identify is left out alone.


Number = TypeVar("Number", int, float)
LONGEST_TEXT = 64 * 1024
MOST_CARD_W = 10_000
"""No card needs more: the largest modules of several GPUs have 2,700 W."""
UNLIMITED = -1
"""The value of an infinite ExtendedUint."""

_NO_VALUE = range(2**63, 2**64)
"""Slurm's NO_VAL64, and the values of other programs for "not available"."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_TIMESTAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:Z|([+-])(\d\d):?(\d\d))", re.ASCII)
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def text(holder: dict[str, Any], key: str, longest: int = LONGEST_TEXT) -> str:
    """Return a string without control characters and with a limited length; empty when absent."""
    value = holder.get(key, "")
    if type(value) is str and value.isprintable() and len(value) <= longest:
        return value
    if value is None:
        return ""
    if type(value) is not str:
        raise MalformedError(f"{key} is not a string")
    if len(value) > longest:
        raise MalformedError(f"{key} has {len(value)} characters")
    # Refuse control characters of terminals, and characters that a database text cannot hold. Blanks of any kind are
    # allowed.
    if _CONTROL.search(value):
        raise MalformedError(f"{key} has control characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise MalformedError(f"{key} is not Unicode") from None
    return value


def long_text(holder: dict[str, Any], key: str) -> str:
    """Return a string that may be long enough for a picture."""
    return text(holder, key, 16 * 1024 * 1024)


def name(holder: dict[str, Any], key: str) -> str:
    """Return a string that may not be empty."""
    value = text(holder, key)
    if not value:
        raise MalformedError(f"{key} is missing")
    return value


def uint(holder: dict[str, Any], key: str) -> int:
    """
    Return an unsigned number; 0 when absent. The largest numbers of 64 bits are Slurm's "no value", so they become 0.
    """
    value = holder.get(key, 0)
    if type(value) is int and 0 <= value <= LARGEST:
        return value
    if value is None:
        return 0
    # The Go decoder refuses 1.0, but some encoders write it, and it has the same meaning.
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise MalformedError(f"{key} is not a whole number")
    if 0 <= value <= LARGEST:
        return value
    if value not in _NO_VALUE:
        raise MalformedError(f"{key} is out of range")
    return 0


def known(holder: dict[str, Any], key: str) -> int | None:
    """Like `uint`, but ``None`` when absent."""
    return uint(holder, key) if holder.get(key) is not None else None


def integer(holder: dict[str, Any], key: str) -> int:
    """Return a signed number; 0 when absent."""
    value = holder.get(key, 0)
    if value is None:
        return 0
    if type(value) is not int or not -LARGEST <= value <= LARGEST:
        raise MalformedError(f"{key} is not a whole number")
    return value


def number(holder: dict[str, Any], key: str) -> float:
    """Return a finite number; 0 when absent."""
    value = holder.get(key, 0)
    if value is None:
        return 0.0
    if type(value) not in {int, float} or not -LARGEST <= value <= LARGEST:
        raise MalformedError(f"{key} is not a number")
    return float(value)


def percent(holder: dict[str, Any], key: str) -> float:
    """Return a share of a whole, such as the use of one card, in percent; 0 when absent or negative."""
    return max(0.0, _at_most(number(holder, key), 100, key))


def watts(holder: dict[str, Any], key: str) -> int:
    """Return the power of a card in W; 0 when absent."""
    return _at_most(uint(holder, key), MOST_CARD_W, key)


def _at_most(value: Number, most: int, key: str) -> Number:
    if value > most:
        raise MalformedError(f"{key} is out of range")
    return value


def flag(holder: dict[str, Any], key: str) -> bool:
    """Return true or false; false when absent."""
    value = holder.get(key, False)
    if value is None:
        return False
    if type(value) is not bool:
        raise MalformedError(f"{key} is not true or false")
    return value


def extended(holder: dict[str, Any], key: str) -> int | None:
    """Return an ExtendedUint: ``None`` when unset, `UNLIMITED`, or the value (sent with 2 added)."""
    value = uint(holder, key)
    return None if value == 0 else UNLIMITED if value == 1 else value - 2


def items(holder: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return a list of objects; empty when absent."""
    return _list(holder, key, lambda one: type(one) is dict, " of objects")


def elements(holder: dict[str, Any], key: str) -> list[Any]:
    """Return a list of any values; empty when absent."""
    return _list(holder, key, lambda _one: True, "")


def texts(holder: dict[str, Any], key: str) -> list[str]:
    """Return a list of strings; empty when absent."""
    found = _list(holder, key, lambda one: type(one) is str, " of strings")
    for one in found:
        text({key: one}, key)
    return found


def uints(holder: dict[str, Any], key: str) -> list[int]:
    """Return a list of unsigned numbers; empty when absent."""
    return _list(holder, key, lambda one: type(one) is int and 0 <= one <= LARGEST, " of whole numbers")


def _list(holder: dict[str, Any], key: str, is_good: Callable[[Any], bool], what: str) -> list[Any]:
    value = holder.get(key) or []
    if type(value) is not list or not all(map(is_good, value)):
        raise MalformedError(f"{key} is not a list{what}")
    return value


def inside(holder: dict[str, Any], key: str) -> dict[str, Any] | None:
    """Return an object, or ``None``."""
    value = holder.get(key)
    if value is not None and type(value) is not dict:
        raise MalformedError(f"{key} is not an object")
    return value


def timestamp(holder: dict[str, Any], key: str) -> int:
    """Return a time as UTC seconds. It may not be absent."""
    found = moment(holder, key)
    if found is None:
        raise MalformedError(f"{key} is missing")
    return found


def moment(holder: dict[str, Any], key: str) -> int | None:
    """Return a time as UTC seconds; ``None`` when absent or empty. An offset is required. ``Z`` is an offset."""
    value = text(holder, key)
    if not value:
        return None
    try:
        return seconds_of(value)
    except ValueError:
        raise MalformedError(f"{key} is not a time: {value[:40]!r}") from None


@lru_cache(maxsize=4096)
def seconds_of(value: str) -> int:
    """Return the UTC seconds of an RFC 3339 time. Raises ValueError."""
    match = _TIMESTAMP.fullmatch(value)
    if match is None:
        raise ValueError(value)
    year, month, day, hour, minute, second = (int(part) for part in match.group(1, 2, 3, 4, 5, 6))
    away = 60 * (60 * int(match[8]) + int(match[9])) * (-1 if match[7] == "-" else 1) if match[7] else 0
    if not (1 <= month <= 12 and 1 <= day <= _DAYS[month - 1] and hour < 24 and minute < 60 and second <= 60):
        raise ValueError(value)
    found = timegm((year, month, day, hour, minute, second)) - away
    if not 0 <= found <= LAST_SECOND:
        raise ValueError(value)
    return found


class DroppedPart(NamedTuple):
    """An unusable element of an envelope, to be retried alone."""

    part: str
    """Its name, e.g. ``job 3``."""
    fault: Fault
    key: str
    """The key of its list."""
    element: object
    """The decoded element."""


class Strict:
    """
    Strict readers: the first unusable value raises MalformedError for its envelope.

    ``details``: also read the details of processes that only some sites store.
    """

    def __init__(self, *, details: bool = False) -> None:
        self.details = details

    text = staticmethod(text)
    long_text = staticmethod(long_text)
    uint = staticmethod(uint)
    known = staticmethod(known)
    integer = staticmethod(integer)
    number = staticmethod(number)
    percent = staticmethod(percent)
    watts = staticmethod(watts)
    flag = staticmethod(flag)
    extended = staticmethod(extended)
    items = staticmethod(items)
    texts = staticmethod(texts)
    uints = staticmethod(uints)
    inside = staticmethod(inside)
    moment = staticmethod(moment)

    def optional(self, reader: Callable[[dict[str, Any], str], Any], holder: dict[str, Any], key: str) -> Any:
        """Return the value of a reader, or ``None`` for a dropped value."""
        return reader(holder, key)

    def drop(self, key: str, error: Exception) -> None:  # noqa: ARG002  as below
        """Handle an unusable element of a list: a process, a disk, a card."""
        raise error

    def lose(self, key: str, place: int, error: Exception, element: object) -> None:  # noqa: ARG002  as below
        """Handle an unusable job."""
        raise error


_ABSENT: dict[str, type] = {
    **dict.fromkeys(("text", "long_text"), str),
    **dict.fromkeys(("uint", "integer", "watts"), int),
    **dict.fromkeys(("texts", "uints"), list),
    **dict.fromkeys(("known", "extended", "inside", "moment"), type(None)),
    **dict.fromkeys(("number", "percent"), float),
    "flag": bool,
}
"""The type of each reader's result for an absent value."""


class Tolerant(Strict):
    """Tolerant readers: an unusable value counts as absent, and is counted."""

    def __init__(self, *, details: bool = False) -> None:
        super().__init__(details=details)
        self.dropped: Counter[str] = Counter()
        self.lost: list[DroppedPart] = []
        for name, absent in _ABSENT.items():
            setattr(self, name, partial(self._tolerated, getattr(Strict, name), absent))

    def _tolerated(
        self, reader: Callable[[dict[str, Any], str], Any], absent: type, holder: dict[str, Any], key: str
    ) -> Any:
        found = self.optional(reader, holder, key)
        return absent() if found is None else found

    def optional(self, reader: Callable[[dict[str, Any], str], Any], holder: dict[str, Any], key: str) -> Any:
        try:
            return reader(holder, key)
        except MalformedError:
            self.dropped[key] += 1
            return None

    def drop(self, key: str, error: Exception) -> None:  # noqa: ARG002  as above
        self.dropped[key] += 1

    def lose(self, key: str, place: int, error: Exception, element: object) -> None:
        self.lost.append(DroppedPart(f"job {place}", fault_of(error), key, element))

    def items(self, holder: dict[str, Any], key: str) -> list[dict[str, Any]]:
        value = holder.get(key) or []
        if type(value) is not list:
            self.dropped[key] += 1
            return []
        found = [one for one in value if type(one) is dict]
        self.dropped[key] += len(value) - len(found)
        return found


STRICT = Strict()


# Read JSON objects from a stream of bytes: one on a line, several on a line, or each over many lines.
#
# Text that is not JSON is skipped alone. Reading continues at the start of the next line or envelope.


LARGEST_OBJECT = 64 * 1024 * 1024
"""In characters: 120,000 jobs in one envelope, of some 550 each."""

_BETWEEN = r"[ \t\r\n\ufeff\0]*"
_BEGINS = r"^(?=\{)|(?=\{\s*\"meta\"\s*:)"


class RejectedObject(NamedTuple):
    """A part of a stream that cannot be used."""

    number: int
    """The number of the object in the stream, from 1."""
    fault: Fault
    text: str
    """The text as it was read. For a part of an envelope, it is an envelope with only this part."""
    part: str = ""
    """The part of the object; empty: the whole object."""

    @property
    def position(self) -> str:
        """Return its place in the stream."""
        return f"object {self.number}{f', {self.part}' if self.part else ''}"


class Objects:
    """A stream of objects that receives bytes in chunks."""

    def __init__(self) -> None:
        # Bytes that are not UTF-8 become surrogates, which the readers of the fields refuse.
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._stream = json_reader.Objects(_BETWEEN, _BEGINS, LARGEST_OBJECT)
        self.number = 0

    @property
    def text(self) -> str:
        """The text of the last object. Read it before the next object."""
        return self._stream.text

    def objects(self, chunk: bytes, *, final: bool = False) -> Iterator[dict[str, Any] | RejectedObject]:
        """Yield the objects that are complete with these bytes. ``final``: these are the last bytes."""
        for found in self._stream.feed(self._decode(chunk, final=final), final=final):
            self.number += 1
            if found.value is None:
                yield RejectedObject(self.number, Fault(f"not JSON: {found.fault}"), self.text)
            else:
                yield found.value
