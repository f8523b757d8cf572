"""Parse values of Slurm: durations, sizes, times and lists of hosts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from itertools import product
from typing import NamedTuple

from arcacct.resources import LARGEST, LATEST_S, POWERS, UNSET

# Values as sacct prints them: durations, sizes, times, exit codes, states, numbers of jobs; and the environment for it.
#
# Each function returns ``None`` for a missing value (empty, ``Unknown``, ``None``). It raises ValueError for a
# malformed value: an unreadable number must not become another number.


_UNSET_COUNTS = UNSET | {0xFFFE, 0xFFFF}
"""With NO_VAL16 and INFINITE16, only for counts and codes: 65,534 s or KiB is a valid measurement."""
NOT_SAID = frozenset(("", "Unknown", "None", "N/A", "(null)"))
"""Texts that sacct prints for a missing value."""
_NOTHING = NOT_SAID | {"INVALID"}
_DURATION = re.compile(r"(?:([0-9]{1,15})-)?(?:([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{2})(?:\.([0-9]{1,6}))?", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)([KMGTPE]?)", re.ASCII)
_EPOCH = re.compile(r"[0-9]{1,12}", re.ASCII)
_EXIT = re.compile(r"([0-9]{1,10}):([0-9]{1,10})", re.ASCII)
_JOB = re.compile(r"([0-9]{1,16})(?:_(?:[0-9]{1,10}|\[[^\]]*\])|\+[0-9]{1,10})?(?:\.([A-Za-z0-9_+-]{1,64}))?", re.ASCII)


class Instants(NamedTuple):
    """The possible UTC seconds of a local time: two different ones when clocks were set back, else twice the same."""

    early: int
    late: int


def duration_us(text: str) -> int | None:
    """
    Parse ``MM:SS.mmm``, ``HH:MM:SS`` or ``D-HH:MM:SS`` into microseconds.

    sacct prints fractions only for durations below an hour.
    """
    if text in _NOTHING:
        return None
    match = _DURATION.fullmatch(text)
    if match is None or (match[1] is not None and match[2] is None):
        raise ValueError(f"{text[:40]!r} is not a duration")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    total_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if total_s in UNSET:
        return None
    if total_s > LARGEST // 10**6:
        raise ValueError(f"{text[:40]!r} is longer than any job")
    return total_s * 10**6 + int((match[5] or "").ljust(6, "0"))


def amount(text: str) -> int | None:
    """Parse a whole number; ``None`` also for Slurm's values for unknown (`UNSET`)."""
    if text in _NOTHING:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise ValueError(f"{text[:40]!r} is not a number")
    number = known(int(text))
    if number is not None and number > LARGEST:
        raise ValueError(f"{text[:40]!r} is larger than any measurement")
    return number


def count(text: str) -> int | None:
    """Parse a number of CPUs, nodes or the like."""
    number = amount(text)
    return None if number is None else known_count(number)


def known(number: int) -> int | None:
    """Return a number of Slurm's; ``None`` for one that means unknown (`UNSET`)."""
    return None if number in UNSET else number


def known_count(number: int) -> int | None:
    """Do the same as `known` for a count or a code, which Slurm may also store in 16 bits."""
    return None if number in _UNSET_COUNTS else number


def size_kib(text: str) -> int | None:
    """Parse ``3188K``, ``2.60M`` or, with ``--noconvert``, bytes, into KiB; rounds up, so a small usage is not 0."""
    if text in _NOTHING:
        return None
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a size")
    number = int(match[1]) if match[1].isdigit() else float(match[1])
    size_bytes = number * 1024 ** POWERS[match[2]]
    # NO_VAL64 in a larger unit is 16384P or 16E.
    if (number in UNSET and match[2] in ("", "K")) or size_bytes == 2**64:
        return None
    size = -int(-size_bytes // 1024)
    if size > LARGEST:
        raise ValueError(f"{text[:40]!r} is larger than any measurement")
    return size


def instants(text: str, zone: tzinfo | None) -> Instants | None:
    """
    Parse seconds since 1970 (``SLURM_TIME_FORMAT=%s``), a time with an offset, or a local time of ``zone``.

    ``zone`` ``None``: this machine's zone. A local time that does not exist, since clocks were set forward, is
    converted as if they had not been set.
    """
    if text in _NOTHING or (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) in UNSET):
        return None
    if _EPOCH.fullmatch(text):
        found = Instants(int(text), int(text))
    else:
        try:
            when = datetime.fromisoformat(text)
        except ValueError as error:
            raise ValueError(f"{text[:40]!r} is not a time") from error
        if len(text) < len("2026-11-22T05:42:00"):
            raise ValueError(f"{text[:40]!r} is not a time: its seconds are missing")
        if when.tzinfo is None:
            folds = [_seconds(when.replace(tzinfo=zone, fold=fold)) for fold in (0, 1)]
            # In a gap the folds are the other way round.
            found = Instants(*folds) if folds[0] < folds[1] else Instants(folds[0], folds[0])
        else:
            found = Instants(_seconds(when), _seconds(when))
    if not 0 <= found.early <= found.late < LATEST_S:
        raise ValueError(f"{text[:40]!r} is not a time of a job")
    return found if found.late else None


def _seconds(when: datetime) -> int:
    try:
        return int(when.timestamp() if when.tzinfo is not None else when.astimezone(UTC).timestamp())
    except (OverflowError, OSError) as error:
        raise ValueError("a time that no clock shows") from error


def exit_code(text: str) -> tuple[int | None, int | None] | None:
    """Parse ``N:SIGNAL`` into exit code and signal."""
    if text in _NOTHING:
        return None
    match = _EXIT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not an exit code")
    return known_count(int(match[1])), known_count(int(match[2]))


def state(text: str) -> str:
    """Return the state, without the user in ``CANCELLED by 1004``. Empty: unknown."""
    word = text.partition(" ")[0].rstrip("+")
    if not re.fullmatch(r"[A-Z_]{0,40}", word):
        raise ValueError(f"{text[:40]!r} is not a state of a job")
    return word


def job_number(text: str) -> tuple[int, str]:
    """
    Parse JobIDRaw (``24``, ``24.batch``) or JobID (``21_1``, ``51+1.0``) into job and step.

    The step is ``batch``, ``extern``, ``0``, ...; empty: the job itself.
    """
    match = _JOB.fullmatch(text)
    if match is None or not 0 < int(match[1]) < LARGEST or int(match[1]) in UNSET:
        raise ValueError(f"{text[:40]!r} is not a number of a job")
    return int(match[1]), match[2] or ""


def clean(text: str) -> str:
    """Return a text that a database can store: zero bytes and lone surrogates become Python escapes."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def environment() -> dict[str, str]:
    """Return the environment for sacct: seconds since 1970, one language, no variables that change its output."""
    changes = ("SACCT_", "SLURM_CLUSTERS", "LC_")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(changes)}
    return ours | {"TZ": "UTC", "LC_ALL": "C", "LANG": "C", "SLURM_TIME_FORMAT": "%s"}


def new_delimiter() -> str:
    """Return a random delimiter that no user can put into a name. It has no letters, so the header still shows it."""
    import secrets  # noqa: PLC0415  once for each question to Slurm

    return f"\x1f{secrets.randbelow(10**18):018d}\x1f"


def is_secret(delimiter: str) -> bool:
    """Whether a delimiter has the form of `new_delimiter`."""
    return re.fullmatch("\x1f[0-9]{18}\x1f", delimiter) is not None


def sampled_use(text: str) -> tuple[int | None, int | None]:
    """
    Return CPU time in microseconds and memory in KiB of a usage (``cpu=03:50:00,energy=0,mem=7252K``, TRESUsageInTot).

    ``None``: unknown.
    """
    cpu_us, memory_kib = None, None
    for part in text.split(","):
        key, _, value = part.strip().partition("=")
        if key in ("cpu", "mem"):
            with suppress(ValueError):
                if key == "cpu":
                    cpu_us = duration_us(value)
                else:
                    memory_kib = size_kib(value)
    return cpu_us, memory_kib


# Lists of host names in brackets, as Slurm writes them: ``c[1-3,5]-[2-4].fox`` is twelve names.
#
# Zero padding of the lower bound is kept (``n[08-11]`` is n08, n09, n10, n11).


LARGEST_LIST = 100_000
"""The most names. A longer list is a mistake, and would take too much memory and time."""

NOBODY = frozenset(("", "None", "None assigned", "(null)", "Unknown", "N/A"))
"""Slurm's texts for no nodes; Sonar before 0.17 reports them as a node's name, for every pending job."""

_MOST_CHARACTERS = 8 * 1024 * 1024
_SIGN = re.compile(r"[\[\],]")
_PARTS = re.compile(r"\[([^\[\]]*)\]|([^\[\],\s]+)")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", re.ASCII)
_LAST_NUMBER = re.compile(r"((?:.*[^0-9])?)([0-9]+)([^0-9]*)", re.ASCII | re.DOTALL)
"""It matches from the end: the time is linear also for names of digits."""


class MalformedError(ValueError):
    """A value is malformed: only the values that depend on it are rejected."""


def expand(ranges: Iterable[str]) -> list[str]:
    """
    Return the distinct names of ranges, in their order.

    Raises MalformedError for brackets that do not match, for bounds that are not numbers or in the wrong order, and
    for more than LARGEST_LIST names, including repeated ones. Counts the names before it makes them.
    """
    elements = []
    names = characters = 0
    for text in ranges:
        for element in split(text) if text not in NOBODY else ():
            parts, count, length = _parts(element)
            names += count
            characters += count * length
            if names > LARGEST_LIST or characters > _MOST_CHARACTERS:
                raise MalformedError(f"{text[:60]!r} has more than {LARGEST_LIST} hosts")
            elements.append(parts)
    made = ("".join(name) for parts in elements for name in product(*map(_made, parts)))
    return list(dict.fromkeys(made))


def split(text: str) -> list[str]:
    """Split a list at commas outside of brackets."""
    elements, depth, start = [], 0, 0
    for match in _SIGN.finditer(text):
        if match[0] == "[":
            depth += 1
        elif match[0] == "]":
            depth -= 1
        elif depth == 0:
            elements.append(text[start : match.start()])
            start = match.end()
    elements.append(text[start:])
    return elements


class _Range(NamedTuple):
    """Numbers from ``low`` to ``high``, padded with zeros to ``width``, that of the lower bound, as Slurm does."""

    low: int
    high: int
    width: int


def _parts(element: str) -> tuple[list[str | list[_Range]], int, int]:
    """Return the texts and ranges of an element, the number of its names, and the most characters of a name."""
    parts: list[str | list[_Range]] = []
    position, names, length = 0, 1, 0
    while position < len(element):
        match = _PARTS.match(element, position)
        if match is None:
            raise MalformedError(f"{element[:60]!r} is not a range of hosts")
        if match[1] is None:
            parts.append(match[2])
            length += len(match[2])
        else:
            ranges = [_range(piece, element) for piece in match[1].split(",")]
            parts.append(ranges)
            # The product is limited, so that it cannot become a number of many digits.
            names = min(names * sum(high - low + 1 for low, high, _ in ranges), LARGEST_LIST + 1)
            length += max(max(width, len(str(high))) for _, high, width in ranges)
        position = match.end()
    if not parts:
        raise MalformedError("a range of hosts is empty")
    return parts, names, length


def _range(piece: str, element: str) -> _Range:
    match = _RANGE.fullmatch(piece)
    if match is None:
        raise MalformedError(f"{element[:60]!r} is not a range of hosts")
    low, high = int(match[1]), int(match[2] or match[1])
    if low > high:
        raise MalformedError(f"{element[:60]!r} has bounds in the wrong order")
    return _Range(low, high, len(match[1]))


def _made(part: str | list[_Range]) -> list[str]:
    if isinstance(part, str):
        return [part]
    return [str(number).zfill(width) for low, high, width in part for number in range(low, high + 1)]


def compress(names: Iterable[str]) -> str:
    """Return host names as one list with the last number of each in brackets; `expand` returns the same names."""
    groups: dict[tuple[str, str, int], list[int]] = {}
    plain: dict[str, None] = {}
    for name in dict.fromkeys(names):
        match = _LAST_NUMBER.fullmatch(name)
        if match is None or len(match[2]) > 18:
            plain[name] = None
        else:
            width = len(match[2]) if match[2].startswith("0") else 0
            groups.setdefault((match[1], match[3], width), []).append(int(match[2]))
    _join_padded(groups)
    return ",".join([*plain, *(_bracketed(*key, sorted(numbers)) for key, numbers in groups.items())])


def _join_padded(groups: dict[tuple[str, str, int], list[int]]) -> None:
    """Join numbers that fill the width of a padded group with it: n099 and n100 belong together."""
    for prefix, suffix, width in [key for key in groups if key[2]]:
        rest = groups.get((prefix, suffix, 0), [])
        groups[prefix, suffix, width] += [number for number in rest if len(str(number)) == width]
        left = [number for number in rest if len(str(number)) != width]
        if left:
            groups[prefix, suffix, 0] = left
        else:
            groups.pop((prefix, suffix, 0), None)


def _bracketed(prefix: str, suffix: str, width: int, numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"{prefix}{numbers[0]:0{width}d}{suffix}"
    pieces: list[list[int]] = []
    for number in numbers:
        # A range with different lengths (9-10) occurs only without padding, where it is correct.
        if pieces and pieces[-1][1] == number - 1:
            pieces[-1][1] = number
        else:
            pieces.append([number, number])
    inside = ",".join(
        f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}" for low, high in pieces
    )
    return f"{prefix}[{inside}]{suffix}"
