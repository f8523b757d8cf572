"""The examples under a command's help."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """Command lines as an epilog that click does not wrap."""
    # \b before a paragraph tells click to leave its lines alone.
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
