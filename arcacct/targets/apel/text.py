"""Text for APEL's messages: lines of ``Key: value`` in ASCII (`targets.ascii`)."""

from __future__ import annotations

from functools import lru_cache

from arcacct.targets.ascii import ascii_text, cut

END = "%%\n"
"""The end of a record."""

_NO_VALUE = {"", "none", "null"}


@lru_cache(maxsize=16384)
def field(text: str | None, limit: int) -> str | None:
    """
    A value as APEL will store it: printable ASCII, at most `limit` characters, no blanks around it.

    None for what APEL takes for nothing: an empty text, ``none`` and ``null``.
    """
    if text is None:
        return None
    value = ascii_text(text).strip()
    if len(value) > limit:
        value = cut(value, limit)
    return None if value.lower() in _NO_VALUE else value


def folded(text: str | None) -> str | None:
    """A value as MySQL compares it in a key: without case and without blanks at the end."""
    return None if text is None else text.rstrip(" ").lower()


def record_text(fields: list[tuple[str, object]]) -> str:
    """One record, its end included; what is unknown (None) is left out."""
    return "".join([f"{key}: {value}\n" for key, value in fields if value is not None]) + END
