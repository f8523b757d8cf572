"""
The one place where text becomes XML.

XML 1.0 (section 2.2) has no way to write most control characters, lone surrogates, U+FFFE and U+FFFF,
not even as a reference: they are removed. A document with one of them is not well-formed and would be refused whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from functools import lru_cache

from arcacct.records.model import is_domain_name

# White space is written as references: parsers turn plain line ends into LF, and any of the three into a blank
# inside an attribute. The apostrophe stays, because all our attributes stand in double quotes.
_REFERENCES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
_ILLEGAL = [*range(0x20), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF]
_TABLE: dict[int, str | None] = {
    **dict.fromkeys(_ILLEGAL),
    **{ord(character): reference for character, reference in _REFERENCES.items()},
}
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

_HOUR_S = 3600
_MOST_HOURS = 20_000
_TWO_DIGITS = tuple(f"{number:02d}" for number in range(60))
_SECONDS = tuple(f"{minute}:{second}Z" for minute in _TWO_DIGITS for second in _TWO_DIGITS)
_DAY_ZERO = date(1970, 1, 1).toordinal()

LAST_SECOND = 253_402_300_799
"""The end of the year 9999: ISO 8601 has four digits for a year."""


def escape(text: str) -> str:
    """Text for the inside of an element or of a double-quoted attribute, without what XML cannot carry."""
    # What cannot be carried is not printable either; no pattern looks through a text at this speed.
    if text.isprintable() and not ("&" in text or "<" in text or ">" in text or '"' in text):
        return text
    return text.translate(_TABLE)


def carried(text: str) -> str:
    """What is left of a text in XML: all but what :func:`escape` has to remove."""
    return text if text.isprintable() else _FORBIDDEN.sub("", text)


def has_forbidden(text: str) -> bool:
    """Whether the text has characters that :func:`escape` has to remove."""
    return _FORBIDDEN.search(text) is not None


def element(name: str, text: str | None, attributes: str = "") -> str:
    """An element, or nothing for what is unknown: SGAS fails at some elements when they are empty."""
    escaped = escape(text) if text else ""
    return f"<{name}{attributes}>{escaped}</{name}>" if escaped else ""


def hosts(names: Iterable[str]) -> list[str]:
    """A Host for each text that is the name of one, the first of them the primary."""
    good = [name for name in dict.fromkeys(names) if is_domain_name(name)]
    return [f'<Host urf:primary="true">{name}</Host>' if name == good[0] else f"<Host>{name}</Host>" for name in good]


class _Hours(dict[int, str]):
    """``YYYY-MM-DDThh:`` of those hours since 1970 that were asked for lately."""

    def __missing__(self, number: int) -> str:
        day, hour = divmod(number, 24)
        text = f"{date.fromordinal(_DAY_ZERO + day).isoformat()}T{hour:02d}:"
        if len(self) >= _MOST_HOURS:
            self.clear()
        self[number] = text
        return text


_HOURS = _Hours()


def iso_time(seconds: int) -> str:
    """
    UTC seconds as ``YYYY-MM-DDThh:mm:ssZ``.

    The hour is remembered: jobs come in order of their end, and formatting dates was a third of a record's cost.
    Raises ValueError outside the years 1 to 9999.
    """
    return _HOURS[seconds // _HOUR_S] + _SECONDS[seconds % _HOUR_S]


now_time = lru_cache(maxsize=16)(iso_time)
"""The same of a time that many records share: that of their making."""
