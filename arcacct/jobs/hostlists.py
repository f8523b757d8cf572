"""
Lists of host names in brackets, as Slurm writes them: ``c[1-3,5]-[2-4].fox`` is twelve names.

Zero padding of the lower bound is kept (``n[08-11]`` is n08, n09, n10, n11).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice, product

LARGEST_LIST = 100_000
"""A list of more names than this is a mistake, and would take our memory."""

NOBODY = frozenset(("", "None", "None assigned", "(null)", "Unknown", "N/A"))
"""What Slurm says for no nodes; Sonar before 0.17 passes it on as the name of one, for every pending job."""

_LARGEST_BYTES = 8 * 1024 * 1024
_PARTS = re.compile(r"\[([^\[\]]*)\]|([^\[\],\s]+)")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", re.ASCII)
_LAST_NUMBER = re.compile(r"(.*?)([0-9]+)([^0-9]*)", re.ASCII | re.DOTALL)


class MalformedError(ValueError):
    """A value that its type does not allow: what cannot be told without it is refused, and only that."""


def expand(ranges: Iterable[str]) -> list[str]:
    """
    The names of some ranges, in their order, each once.

    Raises MalformedError for brackets that do not match, bounds that are no numbers or in the wrong order.
    """
    found: dict[str, None] = {}
    for text in ranges:
        if text in NOBODY:
            continue
        for element in split(text):
            for name in _expand(element):
                found[name] = None
                if len(found) > LARGEST_LIST:
                    raise MalformedError(f"{text[:60]!r} has more than {LARGEST_LIST} hosts")
    return list(found)


def split(text: str) -> list[str]:
    """The elements of a list: commas inside of brackets do not count."""
    elements, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == "," and depth == 0:
            elements.append(text[start:position])
            start = position + 1
    elements.append(text[start:])
    return elements


def _expand(element: str) -> Iterator[str]:
    parts: list[list[str]] = []
    position = names = 0
    while position < len(element):
        match = _PARTS.match(element, position)
        if match is None:
            raise MalformedError(f"{element[:60]!r} is not a range of hosts")
        parts.append([match[2]] if match[1] is None else list(islice(_numbers(match[1], element), LARGEST_LIST + 1)))
        names = (names or 1) * len(parts[-1])
        if names > LARGEST_LIST or names * sum(len(part[-1]) for part in parts) > _LARGEST_BYTES:
            raise MalformedError(f"{element[:60]!r} has more than {LARGEST_LIST} hosts")
        position = match.end()
    if not parts:
        raise MalformedError("a range of hosts is empty")
    return ("".join(combined) for combined in product(*parts))


def _numbers(inside: str, element: str) -> Iterator[str]:
    for piece in inside.split(","):
        match = _RANGE.fullmatch(piece)
        if match is None:
            raise MalformedError(f"{element[:60]!r} is not a range of hosts")
        low, high = match[1], match[2] or match[1]
        if int(low) > int(high) or int(high) - int(low) > LARGEST_LIST:
            raise MalformedError(f"{element[:60]!r} has bounds in the wrong order, or too many hosts")
        # Slurm pads to the width of the lower bound.
        for number in range(int(low), int(high) + 1):
            yield str(number).zfill(len(low))


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
