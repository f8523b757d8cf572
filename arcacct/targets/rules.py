"""
How a table of a receiver's rules is written: for each field what it may hold, and what becomes of a record otherwise.

Such a table (`sgas.rules`, `apel.rules`) is the one place that knows: acceptance has its limits from there, the
sandbox judges by it, and the tests walk it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

INT2, INT4, INT8 = 2**15 - 1, 2**31 - 1, 2**63 - 1
"""The largest numbers of a database's columns of two, four and eight bytes."""

EXACT = 2**53
"""Beyond it a value is no measurement, and one would make a month's sum overflow: nothing of ours sends it."""


class Form(StrEnum):
    """What is written into a field."""

    TEXT = "characters"
    INTEGER = "whole number"
    DECIMAL = "number of three decimals"
    BENCHMARK = "benchmark type: number"
    DURATION = "duration in seconds"
    TIME = "time"
    IGNORED = "anything"


class Breach(StrEnum):
    """What the receiver does with a record that breaks the rule."""

    REFUSED = "refuses the whole message"
    CUT = "stores the beginning"
    LOST = "stores nothing in its place"
    RENAMED = "stores nothing in its place, and the record under another id"


class Care(StrEnum):
    """What we do so that a record does not break the rule."""

    REFUSE = "the job is refused"
    CUT = "cut, and noted"
    LARGEST = "taken to the largest, and noted"
    UNKNOWN = "taken as unknown, and noted"
    OTHERWISE = "sent otherwise or left out"
    OURS = "what we write there cannot break it, or is not sent"


class Rule(NamedTuple):
    """What one field may hold."""

    form: Form
    most: float
    """Characters of a text; the largest number, in the unit of the field."""
    care: Care = Care.OURS
    value: str = ""
    """The job's (AAR) or the sum's (UsageCell) from which it is made, where a job can make it break the rule."""
    needed: bool = False
    """A record without it is refused."""
    least: float = 0
    breach: Breach = Breach.REFUSED
    source: str = "column"
    """Where the rule is from: ``column`` of the receiver's database, its ``procedure``, or the ``parser`` before it."""
    element: str = ""
    """Where it stands in a record of XML, below the record."""


FUTURE_S = 2 * 86400
"""How far a job's end may lie ahead of a receiver's clock: APEL's rule, kept for all of them."""
