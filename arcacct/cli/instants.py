"""Times on the command line: a date, a date-time or seconds since 1970; UTC unless a zone is written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click


class Instant(click.ParamType[int]):
    """A time as UTC seconds since 1970."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The seconds; fails with what would be right."""
        text = str(value).strip()
        if text.isascii() and text.isdigit() and len(text) > 8:
            return int(text)
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is no time; write 2026-11-20, 2026-11-20T10:30:00 (UTC) or an epoch", param, ctx)
        return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())


INSTANT = Instant()
