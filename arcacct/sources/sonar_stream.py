"""
JSON objects out of a stream of bytes: one on a line, several on one, or each over many lines.

What is not JSON costs only itself: reading goes on at the next line, or envelope, that begins.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST_OBJECT = 64 * 1024 * 1024

_BLANK = re.compile(r"[ \t\r\n\ufeff\0]*")
_NEXT_OBJECT = re.compile(r"^(?=\{)|(?=\{\s*\"meta\"\s*:)", re.MULTILINE)
_LONGEST_TOKEN = 16  # a literal or escape that the end of a chunk can cut; strings are told by their own message


class Rejected(NamedTuple):
    """Something of a stream that cannot be used."""

    number: int
    """Which object of the stream it is, from 1."""
    reason: str


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


class Objects:
    """A stream of objects, fed with bytes as they come."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        # Bytes that are not UTF-8 become surrogates, which the readers of the fields refuse: one object is lost.
        self._text = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.buffer = ""
        self.number = 0
        self.tried = 0

    def feed(self, chunk: bytes, *, final: bool = False) -> Iterator[tuple[int, dict[str, Any]] | Rejected]:
        """The objects that are complete with these bytes, each with its number; ``final``: there will be no more."""
        text = self._text.decode(chunk, final=final)
        self.buffer += text
        # A long object that comes in many pieces is tried again only when it has grown by a quarter, or looks complete.
        if not final and len(self.buffer) < self.tried * 5 // 4 and not text.endswith("}\n"):
            return
        position = 0
        while True:
            blank = _BLANK.match(self.buffer, position)
            position = blank.end() if blank else position
            if position >= len(self.buffer):
                break
            found, after = self._one(position, final=final)
            if found is None:
                break
            position = after
            yield found
        self.buffer = self.buffer[position:]
        self.tried = len(self.buffer)

    def _one(self, position: int, *, final: bool) -> tuple[tuple[int, dict[str, Any]] | Rejected | None, int]:
        """The object at a position and where it ends, or (None, ...) when more has to come first."""
        try:
            value, after = _DECODER.raw_decode(self.buffer, position)
        except json.JSONDecodeError as error:
            if not final and self._is_cut(error) and len(self.buffer) - position < LARGEST_OBJECT:
                return None, position
            reason, stopped = f"not JSON: {error.msg} at character {error.pos - position}", error.pos
        except (ValueError, RecursionError) as error:
            reason, stopped = f"not JSON: {error}", position + 1
        else:
            self.number += 1
            if type(value) is dict:
                return (self.number, value), after
            return Rejected(self.number, "not an object"), after
        self.number += 1
        return Rejected(self.number, reason), self._next(position, stopped)

    def _is_cut(self, error: json.JSONDecodeError) -> bool:
        return error.msg.startswith("Unterminated") or len(self.buffer) - error.pos <= _LONGEST_TOKEN

    def _next(self, position: int, stopped: int) -> int:
        """Where the next object may begin: a line that opens one, at or after the place where reading stopped."""
        line = self.buffer.rfind("\n", position, stopped + 1) + 1
        start = line if line > position else stopped
        match = _NEXT_OBJECT.search(self.buffer, max(start, position + 1))
        return match.end() if match is not None else len(self.buffer)
