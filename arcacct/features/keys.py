"""
The keys of machine/job features (HSF-TN-2016-02) and what their values may be.

Consumers take empty, missing and unreadable alike; producers get units and names wrong most. So what we write is
checked before, and what we read is doubted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

NAME = re.compile(r"[a-z0-9_]{1,255}", re.ASCII)
_DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{0,12})?", re.ASCII)
_ID = re.compile(r"[!-~]{1,1024}", re.ASCII)
_FORMS: dict[str, tuple[re.Pattern[str], Callable[[str], bool], str]] = {
    "count": (_DIGITS, lambda value: int(value) >= 1, "not a whole number from 1 on"),
    "seconds": (_DIGITS, bool, "not a whole number of seconds (digits alone, no unit)"),
    # Digits alone are no proof: one producer writes the id of the virtual machine here.
    "instant": (_DIGITS, lambda value: 0 < int(value) < 10**11, "not a time in seconds since 1970"),
    "rating": (_DECIMAL, lambda value: float(value) > 0, "not a number above 0"),
    "bytes": (_DIGITS, bool, "not a whole number of bytes (digits alone, no unit)"),
    "id": (_ID, bool, "not one word of printable ASCII"),
}
"""What a value looks like, what it has to be besides, and what is said of another."""
_LEAST_BYTES = 1024 * 1024


class Key(NamedTuple):
    """One key of the specification."""

    name: str
    form: str
    """``count``, ``seconds``, ``instant``, ``bytes``, ``rating`` or ``id``."""
    dynamic: bool
    meaning: str


MACHINE_KEYS = (
    Key("total_cpu", "count", False, "processors that jobs may be given on this machine"),
    Key("hs06", "rating", False, "HS06 rating of the whole machine"),
    Key("shutdowntime", "instant", True, "when the machine shuts down; no file: not foreseen"),
    Key("grace_secs", "seconds", False, "how long before it a shutdown is announced at least"),
)
JOB_KEYS = (
    Key("allocated_cpu", "count", False, "processors of this job"),
    Key("hs06_job", "rating", False, "HS06 rating of the processors of this job"),
    Key("shutdowntime_job", "instant", True, "when the job has to be done; no file: not foreseen"),
    Key("grace_secs_job", "seconds", False, "how long before it that is announced at least"),
    Key("jobstart_secs", "instant", False, "when the batch system started the job"),
    Key("job_id", "id", False, "the batch system's id of the job"),
    Key("wall_limit_secs", "seconds", False, "limit of clock time, not scaled by processors"),
    Key("cpu_limit_secs", "seconds", False, "limit of CPU time of all processes together"),
    Key("max_rss_bytes", "bytes", False, "limit of resident memory of all processes"),
    Key("max_swap_bytes", "bytes", False, "limit of swap of all processes"),
    Key("scratch_limit_bytes", "bytes", False, "limit of scratch space"),
)
KEYS = {key.name: key for key in (*MACHINE_KEYS, *JOB_KEYS)}

DEPRECATED = {
    "allocated_CPU": ("allocated_cpu", 1),
    "mem_limit_MB": ("max_rss_bytes", 1_000_000),
    "disk_limit_GB": ("scratch_limit_bytes", 1_000_000_000),
}
"""Keys of the draft of 2013 that some producers still write, with the key and factor of today."""


def problem(name: str, value: str, *, force: bool = False) -> str | None:
    """
    What is wrong with a value, or ``None``; ``force`` allows limits of memory that look like another unit.

    Keys that the specification does not know may have any value of one line.
    """
    if NAME.fullmatch(name) is None:
        return "the name of a key has lower-case letters, digits and _ only"
    if not value:
        return "empty; leave the key out instead"
    key = KEYS.get(name)
    if key is None:
        return None if value.isprintable() else "more than one line, or not printable"
    pattern, is_possible, wrong = _FORMS[key.form]
    if not pattern.fullmatch(value) or not is_possible(value):
        return wrong
    if key.form == "bytes" and not force and int(value) < _LEAST_BYTES:
        return "less than 1 MiB: is it in bytes?"
    return None
