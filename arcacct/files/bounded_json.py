"""
JSON that others wrote: read in one pass, with a limit of depth.

The decoder of the standard library recurses: a few kB of brackets raise RecursionError, and what it does decode can be
nested so deeply that nothing else may recurse over it. So the depth is found first, without recursion.
"""

from __future__ import annotations

import json
import re
from typing import Any

DEEPEST = 64
"""Levels. What is exchanged in accounting has fewer than 10."""

# Inside a string; a line end is none of JSON's, so a string that lacks its end damages its line alone.
_IN_STRING = r'[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+'
_FLAT = rf'[^"\[\]{{}}]*+(?:"{_IN_STRING}"[^"\[\]{{}}]*+)*+'
_string = re.compile(_IN_STRING)
flat = re.compile(_FLAT)
"""Matches up to the next bracket, or to a string without an end on its line."""
_leaves = re.compile(rf'(?:[^"\[\]{{}}]++|"{_IN_STRING}"|[\[{{]{_FLAT}[\]}}])*+')
"""With the objects and arrays that nothing is nested in: nearly all, in one step."""


class BeyondBoundsError(ValueError):
    """JSON that is longer, or has more levels, than its reader takes."""


def parsed(text: str | bytes, *, most_depth: int = DEEPEST, most_length: int | None = None) -> Any:
    """
    The value of a text that is one JSON value; bytes are UTF-8.

    Raises ValueError for anything else: damaged, NaN or Infinity, an integer of thousands of digits; BeyondBoundsError
    for more than ``most_depth`` levels, and for more bytes or characters than ``most_length``. Takes time and memory in
    proportion to the text.
    """
    if most_length is not None and len(text) > most_length:
        raise BeyondBoundsError(f"JSON of {len(text)} {'bytes' if isinstance(text, bytes) else 'characters'}")
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    if text.count("[") + text.count("{") > most_depth:
        scan = Scan(most_depth)
        scan.end(text, len(text) - len(text.lstrip()))
        if scan.is_too_deep:
            raise BeyondBoundsError(f"JSON of more than {most_depth} levels")
    return _decoder.decode(text)


class Scan:
    """
    Finds the end of one object, array or string in pieces of text, each of which is looked at once.

    Only brackets and strings are looked at: what ends may still be damaged. ``is_too_deep``: there were more than
    ``most_depth`` levels. ``is_broken``: it has no end, since a line ends within a string, or it is nothing of these.
    """

    __slots__ = ("_depth", "_in_string", "_is_escaped", "_most_depth", "is_broken", "is_too_deep")

    def __init__(self, most_depth: int = DEEPEST) -> None:
        self._most_depth = most_depth
        self._depth = 0
        self._in_string = self._is_escaped = False
        self.is_broken = self.is_too_deep = False

    def end(self, piece: str, start: int = 0) -> int | None:
        """
        The place behind the value in this piece; ``None``: it continues.

        The first piece has its beginning at ``start``, each other one follows there on the one before.
        """
        place, length = start, len(piece)
        while place < length and not self.is_broken:
            if self._in_string:
                place = self._passed_string(piece, place)
                if self._in_string or self._depth or self.is_broken:
                    continue
                return place
            if self._depth:
                # Within leaves nothing is counted, so that near the limit each bracket is a step of its own.
                counts_all = self._depth >= self._most_depth - 1 and not self.is_too_deep
                found = (flat if counts_all else _leaves).match(piece, place)
                place = found.end() if found else place
                if place == length:
                    break
            sign = piece[place]
            place += 1
            if sign == '"':
                self._in_string = True
            elif sign in "[{":
                self._depth += 1
                self.is_too_deep |= self._depth > self._most_depth
            elif not self._depth:
                self.is_broken = True
            else:
                self._depth -= 1
                if not self._depth:
                    return place
        return None

    def _passed_string(self, piece: str, place: int) -> int:
        """The place behind what this piece has of the string that it is in."""
        if self._is_escaped:
            self._is_escaped = False
            place += piece[place] != "\n"
        found = _string.match(piece, place)
        place = found.end() if found else place
        if place == len(piece):
            return place
        if piece[place] == '"':
            self._in_string = False
        elif piece[place] == "\\" and place + 1 == len(piece):
            self._is_escaped = True
        else:
            self.is_broken = True
        return place + 1


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
