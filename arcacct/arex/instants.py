"""
A-REX's two ways to write a time, as UTC seconds.

`calendar`, `datetime` and `time.strptime` would cost the hook milliseconds of imports, hence the arithmetic.
"""


def days_since_1970(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the Gregorian calendar (years begin in March, so leap days come last)."""
    if month <= 2:
        year -= 1
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + day_of_year - 719468


_MIDNIGHTS: dict[str, int | None] = {}
"""Dates that were parsed lately: the times of the jobs of one sweep are of few days."""
_MOST_MIDNIGHTS = 1000


def parse_instant(text: str) -> int | None:
    """
    Seconds since 1970 of ``YYYYMMDDhhmmssZ`` or ``YYYY-MM-DDThh:mm:ssZ``; ``None`` for anything else.

    Times before 1970 are no times of a job, and a day that its month does not have is no time at all.

    The batch system's times in .diag carry the Z although they are local to the worker (`date` without -u):
    nothing in the file tells the zone, so the Z is believed, as A-REX does.
    """
    digits = text.strip()
    if len(digits) == 20 and digits[4] + digits[7] + digits[10] + digits[13] + digits[16] == "--T::":
        digits = digits[:4] + digits[5:7] + digits[8:10] + digits[11:13] + digits[14:16] + digits[17:]
    if len(digits) != 15 or digits[14] != "Z" or not (digits[:14].isascii() and digits[:14].isdigit()):
        return None
    hour, minute, second = int(digits[8:10]), int(digits[10:12]), int(digits[12:14])
    if hour > 23 or minute > 59 or second > 60:
        return None
    date = digits[:8]
    if date not in _MIDNIGHTS:
        if len(_MIDNIGHTS) >= _MOST_MIDNIGHTS:
            _MIDNIGHTS.clear()
        year, month, day = int(date[:4]), int(date[4:6]), int(date[6:])
        _MIDNIGHTS[date] = None
        if year >= 1970 and 1 <= month <= 12:
            days = days_since_1970(year, month, day)
            if day >= 1 and days < days_since_1970(year + month // 12, month % 12 + 1, 1):
                _MIDNIGHTS[date] = days * 86400
    midnight = _MIDNIGHTS[date]
    return None if midnight is None else midnight + hour * 3600 + minute * 60 + second
