"""
The keys of machine/job features (HSF-TN-2016-02) and what their values may be.

Consumers take empty, missing and unreadable alike; producers get units and names wrong most. So what we write is
checked before, and what we read is doubted.
"""

from __future__ import annotations

import re
from typing import NamedTuple

NAME = re.compile(r"[a-z0-9_]{1,255}", re.ASCII)
_DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{0,12})?", re.ASCII)
_ID = re.compile(r"[!-~]{1,1024}", re.ASCII)
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
    return _CHECKS[key.form](value, force)


def _count(value: str, _force: bool) -> str | None:
    return None if _DIGITS.fullmatch(value) and int(value) >= 1 else "not a whole number from 1 on"


def _seconds(value: str, _force: bool) -> str | None:
    return None if _DIGITS.fullmatch(value) else "not a whole number of seconds (digits alone, no unit)"


def _instant(value: str, _force: bool) -> str | None:
    # Digits alone: one producer writes the id of the virtual machine here.
    if _DIGITS.fullmatch(value) and 0 < int(value) < 10**11:
        return None
    return "not a time in seconds since 1970"


def _rating(value: str, _force: bool) -> str | None:
    return None if _DECIMAL.fullmatch(value) and float(value) > 0 else "not a number above 0"


def _bytes(value: str, force: bool) -> str | None:
    if not _DIGITS.fullmatch(value):
        return "not a whole number of bytes (digits alone, no unit)"
    return None if force or int(value) >= _LEAST_BYTES else "less than 1 MiB: is it in bytes?"


def _id(value: str, _force: bool) -> str | None:
    return None if _ID.fullmatch(value) else "not one word of printable ASCII"


_CHECKS = {"count": _count, "seconds": _seconds, "instant": _instant, "rating": _rating, "bytes": _bytes, "id": _id}
