"""
JSON objects out of a stream of bytes: one on a line, several on one, or each over many lines.

What is not JSON costs only itself: reading continues at the next line, or envelope, that begins.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any, NamedTuple

from arcacct.files import json_reader
from arcacct.records.import_quarantine import Fault

LARGEST_OBJECT = 64 * 1024 * 1024
"""Characters: 120,000 jobs in one envelope, of some 550 each."""

_BETWEEN = r"[ \t\r\n\ufeff\0]*"
_BEGINS = r"^(?=\{)|(?=\{\s*\"meta\"\s*:)"


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


class Objects:
    """A stream of objects, fed with bytes as they come."""

    def __init__(self) -> None:
        # Bytes that are not UTF-8 become surrogates, which the readers of the fields refuse.
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._stream = json_reader.Objects(_BETWEEN, _BEGINS, LARGEST_OBJECT)
        self.number = 0

    @property
    def text(self) -> str:
        """The object that came last, as it was read: to be asked for before the next."""
        return self._stream.text

    def objects(self, chunk: bytes, *, final: bool = False) -> Iterator[dict[str, Any] | RejectedObject]:
        """The objects that are complete with these bytes; ``final``: there will be no more."""
        for found in self._stream.feed(self._decode(chunk, final=final), final=final):
            self.number += 1
            if found.value is None:
                yield RejectedObject(self.number, Fault(f"not JSON: {found.fault}"), self.text)
            else:
                yield found.value
