"""Texts and times of A-REX's tables: its percent-escapes, and JobEvents.EventTime."""

from __future__ import annotations

import calendar
import time
from datetime import datetime
from functools import lru_cache

from arcacct.times import DAY_S

_ESCAPES = str.maketrans({"'": "%27", "#": "%23", "%": "%25", "\r": "%0d", "\n": "%0a", "\b": "%08", "\0": "%00"})
_HEX = frozenset("0123456789ABCDEFabcdef")


def escaped(text: str) -> str:
    """Return a text as A-REX writes it into the shared tables: its C++ percent-escapes characters special to SQL."""
    # Nearly every text is plain, and a translation table costs four times as much as these tests.
    if text.isprintable() and "'" not in text and "#" not in text and "%" not in text:
        return text
    return text.translate(_ESCAPES)


def unescaped(text: object) -> str:
    """Remove A-REX's percent-escapes from a text of the shared tables (the reverse of `escaped`)."""
    if not isinstance(text, str):
        text = plain_text(text)
    if "%" not in text:
        return text
    first, *parts = text.split("%")
    plain = [first]
    for part in parts:
        if len(part) > 1 and part[0] in _HEX and part[1] in _HEX:
            plain.append(chr(int(part[:2], 16)) + part[2:])
        else:
            plain.append("%" + part)
    return "".join(plain)


# The same names occur in many jobs and months.
@lru_cache(maxsize=8192)
def unescaped_name(text: object) -> str | None:
    """Return a name of the shared tables, `unescaped`; ``None`` for an empty or missing one."""
    return unescaped(text) if text else None


def plain_text(value: object) -> str:
    """Return a value of a text column as text; SQLite may store any type there."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def event_time(seconds: int) -> str:
    """Return UTC seconds as JobEvents.EventTime: in A-REX's form, but in UTC (A-REX writes local time unmarked)."""
    day, second = divmod(seconds, DAY_S)
    return f"{_date(day)} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


@lru_cache(maxsize=1024)
def _date(day: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(day * DAY_S))


def event_seconds(when: str) -> int:
    """Return JobEvents.EventTime as UTC seconds. Raises TypeError and ValueError for other forms than A-REX's."""
    seconds = calendar.timegm(datetime.fromisoformat(when).timetuple())
    if event_time(seconds) != when:
        raise ValueError(when)
    return seconds
