"""
JSON objects out of a stream of bytes: one on a line, several on one, or each over many lines.

What is not JSON costs only itself: reading goes on at the next line, or envelope, that begins.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from arcacct.jobs.faults import Fault, fault_of

LARGEST_OBJECT = 64 * 1024 * 1024

_BLANK = re.compile(r"[ \t\r\n\ufeff\0]*")
_NEXT_OBJECT = re.compile(r"^(?=\{)|(?=\{\s*\"meta\"\s*:)", re.MULTILINE)
_LONGEST_TOKEN = 16  # a literal or escape that the end of a chunk can cut; strings are told by their own message
_PIECE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}"]', re.DOTALL)
_DEEPEST = 32
"""No envelope is nested deeper; what is becomes null."""
_LONGEST_NUMBER = 40
_DONE_KEPT = 16 * 1024
"""So many characters before the place where we are may stay in the buffer."""
_NOTHING = object()


class RejectedObject(NamedTuple):
    """Something of a stream that cannot be used."""

    number: int
    """Which object of the stream it is, from 1."""
    fault: Fault
    text: str
    """What was read; of a part of an envelope an envelope with it alone."""
    part: str = ""
    """Which part of the object it is; empty: all of it."""

    @property
    def position(self) -> str:
        """Where it stood in its stream."""
        return f"object {self.number}{f', {self.part}' if self.part else ''}"


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_PATIENT = json.JSONDecoder(
    # What the readers of the fields refuse, so that it costs the field alone.
    parse_constant=float,
    parse_int=lambda digits: int(digits) if len(digits) <= _LONGEST_NUMBER else float("nan"),
)


class Objects:
    """A stream of objects, fed with bytes as they come."""

    def __init__(self) -> None:
        # Bytes that are not UTF-8 become surrogates, which the readers of the fields refuse.
        self._text = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.buffer = ""
        self.number = 0
        self.tried = 0
        self._begin = self._end = 0

    @property
    def text(self) -> str:
        """The object that came last, as it was read: to be asked for before the next."""
        return self.buffer[self._begin : self._end]

    def objects(self, chunk: bytes, *, final: bool = False) -> Iterator[dict[str, Any] | RejectedObject]:
        """The objects that are complete with these bytes; ``final``: there will be no more."""
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
            if position > _DONE_KEPT:
                # Each complaint of the decoder counts the lines from the beginning.
                self.buffer, position = self.buffer[position:], 0
            found, after = self._one(position, final=final)
            if found is None:
                break
            self._begin, self._end = position, after
            position = after
            yield found
        self.buffer = self.buffer[position:]
        self.tried = len(self.buffer)
        self._begin = self._end = 0

    def _one(self, position: int, *, final: bool) -> tuple[dict[str, Any] | RejectedObject | None, int]:
        """The object at a position and where it ends, or (None, ...) when more has to come first."""
        value: Any = _NOTHING
        fault, is_cut = Fault("not JSON: no object begins here"), False
        try:
            if self.buffer[position] == "{":
                value, after = _DECODER.raw_decode(self.buffer, position)
        except json.JSONDecodeError as error:
            fault = Fault(f"not JSON: {error.msg} at character {error.pos - position}")
            is_cut = error.msg.startswith("Unterminated") or len(self.buffer) - error.pos <= _LONGEST_TOKEN
        except (ValueError, RecursionError) as error:
            fault, is_cut = Fault(f"not JSON: {fault_of(error).reason}"), False
            found = self._patiently(position)
            if found is not None:
                value, after = found
        if value is _NOTHING:
            # At the first one that begins, also if what is broken goes on behind it: that may be somebody else's.
            match = _NEXT_OBJECT.search(self.buffer, position + 1)
            following = None if match is None else match.end()
            if not final and (is_cut or following is None) and len(self.buffer) - position < LARGEST_OBJECT:
                return None, position
            after = len(self.buffer) if following is None else following
            self.number += 1
            return RejectedObject(self.number, fault, self.buffer[position:after]), after
        self.number += 1
        return value, after

    def _patiently(self, position: int) -> tuple[Any, int] | None:
        """
        The object at a position with null for what is nested too deeply, and numbers that are none as NaN.

        ``None`` when it does not end here, or is no JSON either way.
        """
        pieces, depth, done = [], 0, position
        for match in _PIECE.finditer(self.buffer, position):
            mark = match[0]
            if mark in "[{":
                depth += 1
                if depth == _DEEPEST + 1:
                    pieces += [self.buffer[done : match.start()], "null"]
            elif mark in "]}":
                depth -= 1
                if depth == _DEEPEST:
                    done = match.end()
                elif depth <= 0:
                    text = "".join([*pieces, self.buffer[done : match.end()]])
                    try:
                        return _PATIENT.decode(text), match.end()
                    except (ValueError, RecursionError):
                        return None
            elif mark == '"':
                # A string without its end.
                return None
        return None
