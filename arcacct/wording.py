"""
The filter for every text that a person, a log or the ledger gets.

`sanitise_line` removes every secret of the run, then escapes control characters, then limits the length, in this order:
half a token after a cut would not be recognised. It does not change its own result. `secrecy` knows the forms in which
a secret may appear.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import NamedTuple

LONGEST = 2000
"""Characters of one message, if it has no lower limit of its own."""
HIDDEN = "***"
"""Replacement for a secret."""
CUT = " [cut]"
"""Replacement for the rest of a text."""
PART = 8
"""This many consecutive characters of a secret are also hidden: a quotation may be cut."""
SHORTEST = 4
"""A shorter word occurs in every sentence, so it cannot be hidden alone."""

_EVERYTHING = 1 << 62
_SHORT_FORMS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
"""Printable for Unicode, and nothing to see: fillers, joiners and selectors of variants."""
_LOWER = {ord(letter): ord(letter) + 32 for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_ENDS_AUTHORITY = frozenset("/?#\"'<>\\ \t\r\n")
_LONGEST_AUTHORITY = 1024
_SAMPLE = 4
"""Any PART consecutive characters contain this many at a multiple of that number."""


def sanitise_line(text: str, limit: int | None = LONGEST, keep: str = "") -> str:
    """
    Return a text on one line, without secrets, with at most ``limit`` characters (``None``: no limit).

    ``keep`` are control characters that may stay, such as tabs between columns.
    """
    hidden, is_whole = _secrets.hidden(text, _EVERYTHING if limit is None else limit)
    shown = strip_control(hidden, keep)
    if limit is None or (is_whole and len(shown) <= limit):
        return shown
    mark = CUT[:limit]
    left = limit - len(mark)
    kept = []
    # An escape stays in one piece.
    for piece in _pieces(hidden, keep):
        left -= len(piece)
        if left < 0:
            break
        kept.append(piece)
    return "".join(kept) + mark


def without_secrets(text: str, enough: int = _EVERYTHING) -> str:
    """Return a text without secrets and otherwise unchanged, or at least its first ``enough`` characters."""
    return _secrets.hidden(text, enough)[0]


def strip_control(text: str, keep: str = "") -> str:
    r"""
    Return a text with each invisible character escaped: ``\n``, ``\x1b``, ``\u202e``, ``\U000e0001``.

    These are characters that control a terminal, reverse a line or have no width, and lone surrogates.
    """
    if text.isprintable() and (text.isascii() or _INVISIBLE.isdisjoint(text)):
        return text
    return "".join(_pieces(text, keep))


def count_of(number: int, what: str) -> str:
    """``1 record``, ``2 records``, ``0 entries``: a number of things, by the name of one of them."""
    if number == 1:
        return f"1 {what}"
    if what.endswith("y") and what[-2:-1] not in tuple("aeiou"):
        return f"{number} {what[:-1]}ies"
    return f"{number} {what}{'es' if what.endswith(('s', 'x', 'ch', 'sh')) else 's'}"


def span_of(seconds: float) -> str:
    """``40 d``, ``5 h``, ``12 min``, ``90 s``: a length of time in whole units, at least two of the unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def keep_secret(forms: Iterable[str]) -> None:
    """
    From now on `sanitise_line` hides these texts, in upper and lower case, and each part of PART characters or more.
    """
    _secrets.keep(forms)


def _pieces(text: str, keep: str) -> Iterator[str]:
    for letter in text:
        if (letter.isprintable() and letter not in _INVISIBLE) or letter in keep:
            yield letter
        elif letter in _SHORT_FORMS:
            yield _SHORT_FORMS[letter]
        else:
            code = ord(letter)
            yield f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _lower(text: str) -> str:
    """A text in lower case, in which everything stands where it stood: a few letters become two, and stay then."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.translate(_LOWER)


class Secrets:
    """The secrets to hide. Threads may add to it while others read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._parts: frozenset[str] = frozenset()
        self._samples: frozenset[str] = frozenset()
        self._short: tuple[str, ...] = ()

    def keep(self, forms: Iterable[str]) -> None:
        """Add texts; texts too short to differ from ordinary words are ignored."""
        parts, samples, short = set(), set(), set()
        for form in map(_lower, forms):
            parts |= {form[at : at + PART] for at in range(len(form) - PART + 1)}
            samples |= {form[at : at + _SAMPLE] for at in range(len(form) - _SAMPLE + 1)}
            if SHORTEST <= len(form) < PART:
                short.add(form)
        with self._lock:
            self._parts |= parts
            self._samples |= samples
            # The longer first: one may be the start of another.
            self._short = tuple(sorted({*self._short, *short}, key=len, reverse=True))

    def hidden(self, text: str, enough: int) -> tuple[str, bool]:
        """
        Return a text without secrets, as far as it is needed for ``enough`` characters, and whether that is all of it.
        """
        if not self._may_be_in(text):
            return text[:enough], enough >= len(text)
        lower = _lower(text)
        made: list[str] = []
        at = start = length = 0
        while at < len(text) and length + at - start < enough:
            end = self._end_of_secret(lower, at) or _end_of_login(text, at)
            if not end:
                at += 1
                continue
            made += [text[start:at], HIDDEN]
            length += at - start + len(HIDDEN)
            at = start = end
        made.append(text[start:at])
        return "".join(made), at >= len(text)

    def _may_be_in(self, text: str) -> bool:
        """Whether it is worth looking closely: most texts have nothing to hide, and there may be millions."""
        if "://" in text and "@" in text:
            return True
        if not self._samples:
            return False
        lower = _lower(text)
        pieces = (lower[at : at + _SAMPLE] for at in range(0, len(lower), _SAMPLE))
        return not self._samples.isdisjoint(pieces) or any(one in lower for one in self._short)

    def _end_of_secret(self, lower: str, at: int) -> int:
        """Return where a secret, or a part of one, that starts here ends; 0: none starts here."""
        if lower[at : at + PART] in self._parts:
            end = at + PART
            while lower[end - PART + 1 : end + 1] in self._parts and end < len(lower):
                end += 1
            return end
        return next((at + len(one) for one in self._short if lower.startswith(one, at)), 0)


def _end_of_login(text: str, at: int) -> int:
    """Return where ``user:password`` that starts here ends, in a URL: before its ``@``; 0: none starts here."""
    if not text.startswith("://", at - 3) or at < 3:
        return 0
    last = 0
    for place in range(at, min(len(text), at + _LONGEST_AUTHORITY)):
        if text[place] in _ENDS_AUTHORITY:
            break
        if text[place] == "@":
            last = place
    return last if ":" in text[at:last] else 0


_secrets = Secrets()


# Complaints about single records, as one line for each cause.


_OWN = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9]+")
"""The parts of a complaint that differ from record to record: quoted values, and numbers."""
_MOST_LINES = 10


class _Cause(NamedTuple):
    records: int
    example: str
    text: str
    """The text for the example."""


def cause_of(text: str, *names: str) -> str:
    """Return the common part of complaints with one cause; ``names``: those of the record."""
    for name in names:
        text = text.replace(name, "")
    return _OWN.sub("", text)


class Causes:
    """Complaints that differ only in the names of the record, in numbers and in quoted values have one cause."""

    def __init__(self) -> None:
        self._found: dict[str, _Cause] = {}

    def add(self, example: str, text: str, *names: str) -> None:
        """Add a complaint about one record. ``names``: its further names in the text."""
        cause = cause_of(text, example, *names)
        first = self._found.get(cause, _Cause(0, example, text))
        self._found[cause] = first._replace(records=first.records + 1)

    def lines(self) -> Iterator[str]:
        """
        Yield ``EXAMPLE: text`` of one record, ``100 records, as EXAMPLE: text`` of several.

        Causes after the tenth are only counted.
        """
        found = [*self._found.values()]
        for one in found[:_MOST_LINES]:
            several = "" if one.records == 1 else f"{one.records} records, as "
            yield f"{several}{one.example}: {one.text}"
        if others := found[_MOST_LINES:]:
            records = count_of(sum(one.records for one in others), "record")
            yield f"and {records} for {count_of(len(others), 'other reason')}"

    def take(self) -> list[str]:
        """Return the lines, and forget the complaints."""
        lines = [*self.lines()]
        self._found.clear()
        return lines
