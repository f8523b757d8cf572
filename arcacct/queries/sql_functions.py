"""
A plugin of sqlite-utils and Datasette: SQL functions for the values in A-REX's tables.

The entry points `sqlite_utils` and `datasette` of the distribution name this module. Each function is deterministic, so
indexes and generated columns can use it; a value that it cannot convert becomes NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pluggy import HookimplMarker

from arcacct.records.model import FQAN, parsed_fqan
from arcacct.records.texts import unescaped

if TYPE_CHECKING:
    from arcacct.database.connection import Connection


def unescape(text: object) -> object:
    """Return a text without A-REX's percent-escapes (``%27``, ``%23``, ``%25``, ``%0A``); another value unchanged."""
    return unescaped(text) if isinstance(text, str) else text


def iso(seconds: object) -> str | None:
    """UTC seconds as ``2026-10-01T12:00:00Z``."""
    if not isinstance(seconds, int | float):
        return None
    try:
        return f"{datetime.fromtimestamp(int(seconds), UTC).isoformat()[:19]}Z"
    except (OSError, OverflowError, ValueError):
        return None


def hours(seconds: object) -> float | None:
    """Seconds as hours."""
    return seconds / 3600 if isinstance(seconds, int | float) else None


def fqan_vo(fqan: object) -> str | None:
    """The VO of a VOMS attribute: ``atlas`` of ``/atlas/uk/Role=production``."""
    return _of_fqan(fqan, lambda parsed: parsed.vo)


def fqan_group(fqan: object) -> str | None:
    """The group of a VOMS attribute: ``/atlas/uk``."""
    return _of_fqan(fqan, lambda parsed: parsed.group)


def fqan_role(fqan: object) -> str | None:
    """The role of a VOMS attribute, ``production``, or NULL if it has none."""
    return _of_fqan(fqan, lambda parsed: parsed.role)


def _of_fqan(fqan: object, part: Callable[[FQAN], str | None]) -> str | None:
    parsed = parsed_fqan(fqan) if isinstance(fqan, str) else None
    return None if parsed is None else part(parsed)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    f"arcacct_{function.__name__}": function for function in (unescape, iso, hours, fqan_vo, fqan_group, fqan_role)
}


@HookimplMarker("datasette")
@HookimplMarker("sqlite_utils")
def prepare_connection(conn: Connection) -> None:
    """Give a connection the functions; both programs call it for each connection that they open."""
    for name, function in FUNCTIONS.items():
        conn.create_function(name, 1, function, deterministic=True)
