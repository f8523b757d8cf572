"""
Times on the command line: a date, a date-time or seconds since 1970; UTC unless a zone is written.

Also as qacct takes them, CCYYMMDDhhmm[.SS], which means this host's time zone there and therefore here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import click

from arcacct.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_EPOCH = re.compile("[0-9]{9,11}")
"""Until after the year 5000; with 12 digits it is a time of qacct."""
_QACCT = re.compile(r"[0-9]{12}(?:\.[0-9]{2})?")


class Instant(click.ParamType[int]):
    """A time as UTC seconds since 1970."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The seconds; fails with what would be right."""
        text = str(value).strip()
        if _QACCT.fullmatch(text):
            try:
                return int(datetime.strptime(text, "%Y%m%d%H%M.%S" if "." in text else "%Y%m%d%H%M").timestamp())
            except (ValueError, OverflowError):
                self.fail(f"{text!r} is not a time; write CCYYMMDDhhmm[.SS], as 202611201030", param, ctx)
        if _EPOCH.fullmatch(text):
            return int(text)
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is not a time; write 2026-11-20, 2026-11-20T10:30:00 (UTC) or an epoch", param, ctx)
        return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())


class MonthName(click.ParamType[tuple[int, int]]):
    """A month as ``(year, month)``."""

    name = "month"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """The month; fails with what would be right."""
        text = str(value).strip()
        if not re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])", text):
            self.fail(f"{text!r} is not a month; write it like 2026-11", param, ctx)
        return int(text[:4]), int(text[5:])


def zone_of(name: str | None) -> ZoneInfo | None:
    """A zone of the tz database; ``None``: this host's. Raises UsageError for a name that it has not."""
    if name is None:
        return None
    from zoneinfo import ZoneInfo, available_timezones  # noqa: PLC0415  few commands know zones, and many know times

    if name not in available_timezones():
        raise UsageError(f"--timezone {name}: there is no such zone; write a name of the tz database, as Europe/Oslo")
    return ZoneInfo(name)


INSTANT = Instant()
MONTH = MonthName()
