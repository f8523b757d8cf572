"""A message of APEL's text formats, put together by hand."""

from __future__ import annotations

from collections.abc import Iterable


def message(header: str, records: Iterable[str]) -> str:
    """One message: pure ASCII, so its length in characters is its length in bytes."""
    return header + "".join(records)
