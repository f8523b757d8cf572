"""SQL for receivers whose administrators have to do by hand what they offer nobody else."""

from __future__ import annotations


def quoted(text: str) -> str:
    """A literal of PostgreSQL, whatever its settings: with a backslash in it, in the form that says so."""
    doubled = text.replace("'", "''")
    return f"E'{doubled.replace(chr(92), 2 * chr(92))}'" if "\\" in text else f"'{doubled}'"
