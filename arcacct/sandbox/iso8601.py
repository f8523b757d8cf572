"""
Times and durations as the receivers read them: each is lenient in its own way.
"""

from __future__ import annotations

import calendar
import re

_DURATION = "P(?:{0}Y)?(?:{0}M)?(?:{0}W)?(?:{0}D)?(?:T(?:{0}H)?(?:{0}M)?(?:{1}S)?)?"
_SGAS_DURATION = re.compile("[+-]?" + _DURATION.format(*2 * [r"(\d+(?:[.,]\d+)?)"]))
_APEL_DURATION = re.compile(_DURATION.format(r"(\d+)", r"(\d+(?:\.\d+)?)"))
_UNITS_S = (31_536_000, 2_592_000, 604_800, 86_400, 3600, 60, 1)
_INSTANT = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)(?:(?P<between>[T ])(\d\d):?(\d\d)(?::?(\d\d)(?:[.,]\d+)?)?"
    r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?)?"
)


def duration_s(text: str) -> int | None:
    """
    Seconds of an ISO 8601 duration as SGAS reads it: decimals in any part, parts of a second dropped.

    None for what it cannot read, and for anything with years or months: the server stores NULL then.
    """
    match = _SGAS_DURATION.fullmatch(text)
    if match is None or match[1] or match[2]:
        return None
    parts = [float((part or "0").replace(",", ".")) for part in match.groups()]
    total = sum(value * unit for value, unit in zip(parts, _UNITS_S, strict=True))
    return -int(total) if text.startswith("-") else int(total)


def apel_duration_s(text: str) -> int:
    """Seconds of an ISO 8601 duration in a CAR; only seconds may have decimals, which are rounded. ValueError."""
    match = _APEL_DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"not an ISO 8601 duration: {text!r}")
    return round(sum(float(part or 0) * unit for part, unit in zip(match.groups(), _UNITS_S, strict=True)))


def sgas_instant(text: str) -> int | None:
    """UTC seconds of a date and time as SGAS reads it (one `T`; no zone means UTC); None if it stores NULL."""
    match = _INSTANT.fullmatch(text)
    if match is None or match["between"] != "T":
        return None
    zone = match["zone"] or "Z"
    # Without the colon the server passes over the minutes of the zone.
    return _seconds(match, zone if ":" in zone else zone[:3])


def iso_instant(text: str) -> int:
    """UTC seconds of a date and time in a CAR: `T` or a blank between, a date alone, no zone means UTC. ValueError."""
    match = _INSTANT.fullmatch(text)
    instant = None if match is None else _seconds(match, match["zone"] or "Z")
    if instant is None:
        raise ValueError(f"not an ISO 8601 date and time: {text!r}")
    return instant


def _seconds(match: re.Match[str], zone: str) -> int | None:
    year, month, day, _, hour, minute, second, _ = match.groups()
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= calendar.monthrange(int(year), int(month))[1]):
        return None
    fields = (int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
    if fields[3] > 24 or fields[4] > 59 or fields[5] > 60:
        return None
    digits = zone[1:].replace(":", "")
    offset_s = int(digits[:2] or 0) * 3600 + int(digits[2:] or 0) * 60
    return calendar.timegm(fields) - (-offset_s if zone[0] == "-" else offset_s)
