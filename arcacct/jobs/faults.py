"""
What an error says about a record: why it alone is left out, whatever it did to us.

A record that cannot be used is told with what is wrong with it. An error of our own in its handling costs that record
alone as well, and the reason says whose it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from arcacct.errors import InputError

T = TypeVar("T")

_LONGEST = 300
_OF_VALUES = {
    "OverflowError": "a number is too large",
    "RecursionError": "nested too deeply",
    "MemoryError": "it needs more memory than there is",
    "DataError": "a value is too large for the database",
    "IntegrityError": "the database does not allow its values",
}
"""By the name of the error: sources know no database."""


class Fault(NamedTuple):
    """Why a record is left out."""

    reason: str
    is_ours: bool = False
    """An error of this program: worth another try after an upgrade."""


def optional(name: str, read: Callable[[], T], unusable: set[str]) -> T | None:
    """
    A value that accounting can do without; of one that cannot be used ``None``, and its name goes into ``unusable``.

    What accounting needs (which job it is, when it ended, how long it ran) decides about the job; nothing else does.
    """
    try:
        return read()
    except ValueError:
        unusable.add(name)
        return None


def fault_of(error: Exception) -> Fault:
    """The reason that an error in a record's handling gives, bounded and on one line."""
    name = type(error).__name__
    text = " ".join(str(error).split())
    if isinstance(error, UnicodeError):
        return Fault("its text is not Unicode")
    if isinstance(error, ValueError | InputError):
        return Fault(text[:_LONGEST] or "not usable")
    if name in _OF_VALUES:
        return Fault(_OF_VALUES[name])
    return Fault(f"an error of arcacct itself ({name}: {text[:_LONGEST]}): please report it with the record", True)
