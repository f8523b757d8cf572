"""
Lists of host names in brackets, as Slurm writes them: ``c[1-3,5]-[2-4].fox`` is twelve names.

Zero padding of the lower bound is kept (``n[08-11]`` is n08, n09, n10, n11).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

LARGEST_LIST = 100_000
"""Names. A longer list is a mistake; it would take our memory and our time."""

NOBODY = frozenset(("", "None", "None assigned", "(null)", "Unknown", "N/A"))
"""What Slurm says for no nodes; Sonar before 0.17 passes it on as the name of one, for every pending job."""

_MOST_CHARACTERS = 8 * 1024 * 1024
_SIGN = re.compile(r"[\[\],]")
_PARTS = re.compile(r"\[([^\[\]]*)\]|([^\[\],\s]+)")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", re.ASCII)
_LAST_NUMBER = re.compile(r"((?:.*[^0-9])?)([0-9]+)([^0-9]*)", re.ASCII | re.DOTALL)
"""Looked for from the end: the time is linear also for names of digits."""


class MalformedError(ValueError):
    """A value that its type does not allow: what cannot be told without it is refused, and only that."""


def expand(ranges: Iterable[str]) -> list[str]:
    """
    The names of some ranges, in their order, each once.

    Raises MalformedError for brackets that do not match, for bounds that are not numbers or in the wrong order, and
    for more than LARGEST_LIST names, repeated ones included. Names are counted before any is made.
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
    """The elements of a list: commas inside of brackets do not count."""
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
    """Numbers from ``low`` to ``high``, padded with zeros to ``width``, as Slurm does: that of the lower bound."""

    low: int
    high: int
    width: int


def _parts(element: str) -> tuple[list[str | list[_Range]], int, int]:
    """Texts and ranges, in turn; how many names they make, and of how many characters the longest is at most."""
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
            # A product that is too large stays so, and is not multiplied into a number of many digits.
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
    """Host names as one list, the last number of each in brackets: what `expand` makes the same names of."""
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
    """n099 and n100 are of one series: numbers that fill a group's width join it."""
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
        # A range of different lengths (9-10) is only right where nothing is padded, and then it is.
        if pieces and pieces[-1][1] == number - 1:
            pieces[-1][1] = number
        else:
            pieces.append([number, number])
    inside = ",".join(
        f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}" for low, high in pieces
    )
    return f"{prefix}[{inside}]{suffix}"
