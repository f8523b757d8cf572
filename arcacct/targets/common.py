"""The common parts of all targets' formats: tables of receivers' rules, ASCII, XML, and jobs that came without ARC."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

from arcacct.config.values import LocalJobs
from arcacct.records.batch_jobs import LOCAL
from arcacct.records.model import AAR, is_domain_name
from arcacct.times import DAY_S, HOUR_S

_MOST_CHARACTERS = 1_000_000
_CHARACTERS_OF_ENTRY = 100


class Kept(dict[Any, Any]):
    """
    A cache of made texts, by the values that they were made from.

    It is emptied when these have too many characters, so that users who may choose names cannot fill the memory.
    """

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make
        self._characters = 0

    def __missing__(self, values: Any) -> Any:
        part = self._make(values)
        self._characters += _CHARACTERS_OF_ENTRY + len(repr(values))
        if self._characters > _MOST_CHARACTERS:
            self.clear()
            self._characters = 0
        self[values] = part
        return part


# Text in ASCII for receivers that read nothing else. Other characters are written as ``\xHH``, one for each byte of
# UTF-8, as OpenSSL prints them in a name. SSM decodes every message as ASCII without handling errors: one other byte
# stops the receiver, and is delivered again permanently. It also turns control characters and Unicode line ends into
# new lines, and APEL's loader splits records at any ``%%``. Records for other receivers are checked by it, too: a text
# that is plain for APEL is plain for all of them.


NAME = 255
"""The length of names that receivers sum by."""
_DIGITS = 12
"""Digits of a digest: in a million long names two are the same with a chance of 1 in 500."""
_CUT_ESCAPE = re.compile(r"\\(?:x[0-9A-F]?)?\Z")

_WRITTEN = {byte: chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02X}" for byte in range(256)}


def ascii_text(text: str) -> str:
    """Return the text in printable ASCII, without sequences that have a meaning for a receiver."""
    if not (text.isascii() and text.isprintable()):
        # A lone surrogate means one raw byte that was not UTF-8, or else itself.
        try:
            encoded = text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            encoded = text.encode("utf-8", "surrogatepass")
        text = "".join(map(_WRITTEN.__getitem__, encoded))
    if "%%" in text:
        text = text.replace("%%", "%\\x25")
    if "pkcs7-mime" in text:
        # SSM treats a message with application/pkcs7-mime anywhere in it as encrypted.
        text = text.replace("pkcs7-mime", "pkcs7\\x2Dmime")
    return text


def spelt(text: str, limit: int) -> str:
    """
    Return the same with a limited number of characters, without blanks around it.

    A longer text is cut, but not within an escape. A name that receivers sum by (a user, group or host) then ends in a
    digest of the whole without its case, which they ignore: two names with the same start stay different. A field
    shorter than `NAME` has no such name.
    """
    value = ascii_text(text).strip()
    if len(value) <= limit:
        return value
    end = f"~{sha256(value.lower().encode()).hexdigest()[:_DIGITS]}" if limit >= NAME else ""
    return _CUT_ESCAPE.sub("", value[: limit - len(end)]).rstrip() + end


# The only place where text becomes XML.  XML 1.0 (section 2.2) has no way to write most control characters, lone
# surrogates, U+FFFE and U+FFFF, not even as a reference: they are removed. A document with one of them is not
# well-formed and would be refused completely.


# White space is written as references: parsers turn plain line ends into LF, and any of the three into a blank
# inside an attribute. The apostrophe stays, because all our attributes are in double quotes.
_REFERENCES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
_ILLEGAL = [*range(0x20), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF]
_TABLE: dict[int, str | None] = {
    **dict.fromkeys(_ILLEGAL),
    **{ord(character): reference for character, reference in _REFERENCES.items()},
}
# A text: compiling it takes milliseconds, and is needed only for texts that are not printable.
_FORBIDDEN = "[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]"

_TWO_DIGITS = tuple(f"{number:02d}" for number in range(60))
_SECONDS = tuple(f"{minute}:{second}Z" for minute in _TWO_DIGITS for second in _TWO_DIGITS)
_DAY_ZERO = date(1970, 1, 1).toordinal()


def escape(text: str) -> str:
    """
    Return text for the inside of an element or of a double-quoted attribute, without characters that XML does not
    allow.
    """
    # Characters that XML does not allow are not printable either; no pattern is as fast as this test.
    if text.isprintable() and not ("&" in text or "<" in text or ">" in text or '"' in text):
        return text
    return text.translate(_TABLE)


def carried(text: str) -> str:
    """Return the text as stored in XML: all characters except those that :func:`escape` must remove."""
    return text if text.isprintable() else re.sub(_FORBIDDEN, "", text)


def element(name: str, text: str | None, attributes: str = "") -> str:
    """Return an element, or nothing for an unknown value: SGAS fails at some elements when they are empty."""
    escaped = escape(text) if text else ""
    return f"<{name}{attributes}>{escaped}</{name}>" if escaped else ""


def hosts(names: Iterable[str]) -> list[str]:
    """Return a Host for each text that is a valid name; the first of them is the primary."""
    good = [name for name in dict.fromkeys(names) if is_domain_name(name)]
    return [f'<Host urf:primary="true">{name}</Host>' if name == good[0] else f"<Host>{name}</Host>" for name in good]


def _hour(number: int) -> str:
    """``YYYY-MM-DDThh:`` of an hour since 1970."""
    day, hour = divmod(number, 24)
    return f"{date.fromordinal(_DAY_ZERO + day).isoformat()}T{hour:02d}:"


_HOURS = Kept(_hour)


def iso_time(seconds: int) -> str:
    """
    UTC seconds as ``YYYY-MM-DDThh:mm:ssZ``.

    The hour is cached: jobs come in order of their end, and formatting dates was a third of a record's cost. Raises
    ValueError outside the years 1 to 9999.
    """
    hour: str = _HOURS[seconds // HOUR_S]
    return hour + _SECONDS[seconds % HOUR_S]


now_time = lru_cache(maxsize=16)(iso_time)
"""The same for a time that many records share: that of their creation."""


# SQL for receivers whose administrators must make corrections by hand.


def quoted(text: str) -> str:
    """Return a literal of PostgreSQL, for any settings: with a backslash in it, in the escape form."""
    doubled = text.replace("'", "''")
    return f"E'{doubled.replace(chr(92), 2 * chr(92))}'" if "\\" in text else f"'{doubled}'"


# Form of a table of a receiver's rules: for each field its allowed values, and the result for any other value. Such a
# table (`sgas.rules`, `apel.rules`) is the only source of the limits: acceptance, the sandbox and the tests use it.


INT2, INT4, INT8 = 2**15 - 1, 2**31 - 1, 2**63 - 1
"""The largest numbers of a database's columns of two, four and eight bytes."""

EXACT = 2**53
"""A larger value is not a measurement, and it would make a month's sum overflow: it is never sent."""


class Form(StrEnum):
    """The form of a field."""

    TEXT = "characters"
    INTEGER = "whole number"
    DECIMAL = "number of three decimals"
    BENCHMARK = "benchmark type: number"
    DURATION = "duration in seconds"
    TIME = "time"
    IGNORED = "anything"


class Breach(StrEnum):
    """The receiver's treatment of a record that breaks the rule."""

    REFUSED = "refuses the whole message"
    CUT = "stores the beginning"
    LOST = "stores nothing in its place"
    RENAMED = "stores nothing in its place, and the record under another id"


class Care(StrEnum):
    """How arcacct prevents a record from breaking the rule."""

    REFUSE = "the job is refused"
    CUT = "cut, and noted"
    LARGEST = "taken to the largest, and noted"
    UNKNOWN = "taken as unknown, and noted"
    OTHERWISE = "sent otherwise or left out"
    OURS = "what we write there cannot break it, or is not sent"


class Rule(NamedTuple):
    """The allowed values of one field."""

    form: Form
    most: float
    """Characters of a text; the largest number, in the unit of the field."""
    care: Care = Care.OURS
    value: str = ""
    """The value of the job (AAR) or the sum (UsageCell) that it is made from, if a job can break the rule with it."""
    needed: bool = False
    """A record without it is refused."""
    least: float = 0
    breach: Breach = Breach.REFUSED
    source: str = "column"
    """The source of the rule: ``column`` of the receiver's database, its ``procedure``, or the ``parser`` before it."""
    element: str = ""
    """Its path in an XML record, below the record."""


FUTURE_S = 2 * DAY_S
"""How far a job's end may be in the future by a receiver's clock: APEL's rule, used for all of them."""


# The description in records of jobs that came to their batch system without ARC: their own start, infrastructure and
# middleware. It is part of no key, at any receiver, and not of the digest of a record: a change of the words does not
# send a job again.


_UNNAMED = "LOCAL"
"""The infrastructure of a job without a known batch system."""


class LocalJobValues(NamedTuple):
    """The values of a record in which jobs of ARC and other jobs differ."""

    start_time_source: str
    """``submit`` or ``lrms`` (`identity.start_time`)."""
    infrastructure: str | None
    """A description; ``None``: that of ARC in this format."""
    middleware: str | None
    """``None``: ARC; empty: unknown."""


def local_job_values(aar: AAR, lines: Iterable[LocalJobs], start_time_source: str) -> LocalJobValues:
    """Return the values by the first line of the job's batch system, else the first for any, else ``own``."""
    # A job of ARC has the interface even if the URL of its endpoint is unknown.
    if aar.endpoint_url or aar.endpoint_type not in (None, LOCAL):
        return LocalJobValues(start_time_source, None, None)
    lrms = (aar.lrms or "").lower()
    of_lrms = [line for line in lines if line.lrms == lrms] or [line for line in lines if line.lrms is None]
    line = of_lrms[0] if of_lrms else LocalJobs("own")
    if line.profile == "arc":
        return LocalJobValues(start_time_source, line.infrastructure, None)
    return LocalJobValues("lrms", line.infrastructure or lrms.upper() or _UNNAMED, lrms)
