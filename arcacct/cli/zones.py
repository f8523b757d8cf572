"""Time zones on the command line."""

from __future__ import annotations

from zoneinfo import ZoneInfo, available_timezones

from arcacct.errors import UsageError


def zone_of(name: str | None, option: str = "--timezone") -> ZoneInfo | None:
    """A zone of the tz database; ``None``: this host's. Raises UsageError for a name that it has not."""
    if name is None:
        return None
    if name not in available_timezones():
        raise UsageError(f"{option} {name}: there is no such zone; write a name of the tz database, as Europe/Oslo")
    return ZoneInfo(name)
