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


def parse_instant(text: str) -> int | None:
    """
    Seconds since 1970 of ``YYYYMMDDhhmmssZ`` or ``YYYY-MM-DDThh:mm:ssZ``; ``None`` for anything else.

    The batch system's times in .diag carry the Z although they are local to the worker (`date` without -u):
    nothing in the file tells the zone, so the Z is believed, as A-REX does.
    """
    digits = text.strip().replace("-", "").replace(":", "").replace("T", "")
    if len(digits) != 15 or digits[14] != "Z" or not (digits[:14].isascii() and digits[:14].isdigit()):
        return None
    year, month, day = int(digits[:4]), int(digits[4:6]), int(digits[6:8])
    hour, minute, second = int(digits[8:10]), int(digits[10:12]), int(digits[12:14])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
        return None
    return days_since_1970(year, month, day) * 86400 + hour * 3600 + minute * 60 + second
