"""
Reading features as a job does: from a directory, or from a web server, never trusting what is there.

A value that cannot be read, is empty or is no number where one belongs counts as absent, with one warning. Whoever
wants to know whether a value has changed reads again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from arcacct.errors import InputError, UsageError
from arcacct.features.keys import DEPRECATED, JOB_KEYS, KEYS, MACHINE_KEYS, NAME, problem
from arcacct.files.safe_open import Directory, open_directory

LARGEST_VALUE = 4096
_LARGEST_DIRECTORY = 1000
VARIABLES = {"machine": "MACHINEFEATURES", "job": "JOBFEATURES"}


class Features(NamedTuple):
    """The features of one machine or job as they were when they were read."""

    location: str
    values: dict[str, str]
    """What is there and good, by key of the specification."""
    extra: dict[str, str]
    """Keys that the specification does not know."""
    warnings: tuple[str, ...]

    def number(self, key: str) -> int | None:
        """A value that is a whole number."""
        value = self.values.get(key)
        return int(value) if value is not None and value.isdigit() else None

    def for_accounting(self) -> dict[str, str]:
        """The unknown keys under the names that a record keeps them by."""
        return {f"mjf_{key}": value for key, value in self.extra.items()}


def location_of(value: str, name: str) -> str:
    """
    The value of $MACHINEFEATURES or $JOBFEATURES as a location: a path from the root, or an http(s) URL.

    Raises UsageError for anything else. A slash at its end, which should not be there, is taken off.
    """
    if not value.startswith(("/", "http://", "https://")) or "\0" in value:
        raise UsageError(f"{name}={value!r}: it begins neither with / nor with http:// or https://")
    return value.rstrip("/") or "/"


def read(location: str, *, fetch: Callable[[str], str | None] | None = None) -> Features:
    """
    All features at a location; ``fetch`` gets a URL's text, ``None`` when there is nothing.

    A directory is listed; of a web server the keys of the specification are asked for. Raises InputError for a
    directory that cannot be listed.
    """
    if location.startswith("/"):
        try:
            with open_directory(location) as place:
                return doubted(location, *values_in(place))
        except (OSError, ValueError) as error:
            raise InputError(f"{location}: cannot be read: {getattr(error, 'strerror', error)}") from error
    if fetch is None:
        # Paths need nothing of what the web needs, which takes a tenth of a second to import.
        from arcacct.features.http import Web  # noqa: PLC0415

        fetch = Web().get
    raw: list[tuple[str, str]] = []
    warnings: list[str] = []
    for name in KEYS:
        try:
            value = fetch(f"{location}/{name}")
        except (InputError, ValueError) as error:
            warnings.append(f"{name}: {error}; taken as absent")
            continue
        if value is not None:
            raw.append((name, value))
    return doubted(location, raw, warnings)


def values_in(place: Directory) -> tuple[list[tuple[str, str]], list[str]]:
    """The values in a directory as they stand there, and what is wrong with others. Raises OSError."""
    raw: list[tuple[str, str]] = []
    names, warnings = names_in(place)
    for name in names:
        if name.startswith("."):
            continue
        if not NAME.fullmatch(name) and name not in DEPRECATED:
            warnings.append(f"{name!r}: not the name of a key")
            continue
        try:
            raw.append((name, value_of(place.read(name, LARGEST_VALUE + 1, for_all=True))))
        except FileNotFoundError:
            # It was taken away meanwhile, and so it is absent.
            continue
        except (OSError, ValueError, InputError) as error:
            why = getattr(error, "strerror", None) or str(error).removeprefix(f"{place.path_of(name)}: ")
            warnings.append(f"{name}: {why}; taken as absent")
    return raw, warnings


def names_in(place: Directory) -> tuple[list[str], list[str]]:
    """What is in a directory; of one that is too full for one of features those that the specification knows."""
    with os.scandir(place.fd) as entries:
        names = sorted(entry.name for entry in islice(entries, _LARGEST_DIRECTORY + 1))
    if len(names) <= _LARGEST_DIRECTORY:
        return names, []
    return [*KEYS, *DEPRECATED], [f"more than {_LARGEST_DIRECTORY} files: only keys of the specification are read"]


def value_of(content: bytes) -> str:
    """
    A value without blanks and newlines around it, as jobs read it: PanDA's pilot and DIRAC strip them.

    Raises ValueError when it is not text, or too long to be a value.
    """
    if len(content) > LARGEST_VALUE:
        raise ValueError("too long")
    try:
        return content.decode("ascii").strip()
    except UnicodeDecodeError:
        raise ValueError("not ASCII") from None


def doubted(location: str, raw: Sequence[tuple[str, str]], warnings: list[str]) -> Features:
    """Names and values as they stand somewhere, each believed only if it is one that its key may have."""
    names = {name for name, _value in raw}
    values: dict[str, str] = {}
    extra: dict[str, str] = {}
    for name, value in raw:
        if name in DEPRECATED:
            today, factor = DEPRECATED[name]
            warnings.append(f"{name}: a key of an old draft; {today} is its name today")
            if today not in names and value.isdigit() and len(value) <= 11:
                amount = str(int(value) * factor)
                if problem(today, amount) is None:
                    values[today] = amount
        elif (wrong := problem(name, value)) is not None:
            warnings.append(f"{name}: {wrong}; taken as absent")
        elif name in KEYS:
            values[name] = value
        else:
            extra[name] = value
    return Features(location, values, extra, tuple(warnings))


def missing(features: Features, kind: str) -> list[str]:
    """The keys that a provider should give and does not; times of shutdown are there only when one is foreseen."""
    keys = MACHINE_KEYS if kind == "machine" else JOB_KEYS
    return [key.name for key in keys if not key.dynamic and key.name not in features.values]


def remaining_s(machine: Features | None, job: Features | None, now: int | None = None) -> int | None:
    """Seconds of clock time that are left to the job, never below zero; ``None``: nothing limits it."""
    ends: list[int | None] = []
    if job is not None:
        start, limit = job.number("jobstart_secs"), job.number("wall_limit_secs")
        if start is not None and limit is not None:
            ends.append(start + limit)
        ends.append(job.number("shutdowntime_job"))
    if machine is not None:
        ends.append(machine.number("shutdowntime"))
    known = [end for end in ends if end is not None]
    return max(0, min(known) - (now if now is not None else int(time.time()))) if known else None
