"""
Read machine and job features as a job does, from a directory or a web server, and write them.

The content is never trusted. This module also has the keys of the specification and the rules for their values.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import NamedTuple

from arcacct.errors import InputError, StoreError, UsageError
from arcacct.files.safe_open import TEMPORARY, Directory, open_directory, open_parent
from arcacct.sources.features.http import LARGEST_VALUE, Web, value_of

# The keys of machine/job features (HSF-TN-2016-02) and their valid values.
#
# Readers treat an empty, a missing and an unreadable value alike. Wrong units and names are the most common faults of
# producers. So values are checked before they are written and after they are read.


NAME = re.compile(r"[a-z0-9_]{1,255}", re.ASCII)
_DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{0,12})?", re.ASCII)
_ID = re.compile(r"[!-~]{1,1024}", re.ASCII)
_FORMS: dict[str, tuple[re.Pattern[str], Callable[[str], bool], str]] = {
    "count": (_DIGITS, lambda value: int(value) >= 1, "not a whole number from 1 on"),
    "seconds": (_DIGITS, bool, "not a whole number of seconds (digits alone, no unit)"),
    # A value of digits may still be wrong: one producer writes the ID of the virtual machine here.
    "instant": (_DIGITS, lambda value: 0 < int(value) < 10**11, "not a time in seconds since 1970"),
    "rating": (_DECIMAL, lambda value: float(value) > 0, "not a number above 0"),
    "bytes": (_DIGITS, bool, "not a whole number of bytes (digits alone, no unit)"),
    "id": (_ID, bool, "not one word of printable ASCII"),
}
"""For each form: the pattern of a value, a further condition, and the message about another value."""
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
    Key("shutdowntime", "instant", True, "when the machine shuts down; no file: no shutdown is planned"),
    Key("grace_secs", "seconds", False, "minimum time between the announcement and a shutdown"),
)
JOB_KEYS = (
    Key("allocated_cpu", "count", False, "processors of this job"),
    Key("hs06_job", "rating", False, "HS06 rating of the processors of this job"),
    Key("shutdowntime_job", "instant", True, "when the job must be finished; no file: no shutdown is planned"),
    Key("grace_secs_job", "seconds", False, "minimum time between the announcement and that end"),
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
"""Keys of the draft of 2013 that some producers still write, with the current key and the factor."""


def problem(name: str, value: str, *, force: bool = False) -> str | None:
    """
    Return the fault of a value, or ``None``. ``force`` allows limits of memory that look like another unit.

    A key that is not in the specification may have any value of one line.
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


# Directories of features: one file for each key, so that no reader can see half of a value.
#
# A new value is written to a temporary file, which then replaces the old one. Jobs may be able to write to the
# directories. So each operation uses their descriptor (`files.safe_open`), and only a directory or file that was
# created here gets another owner.


DIRECTORY_MODE = 0o755
FILE_MODE = 0o644


def write(
    directory: str, values: Mapping[str, str], *, force: bool = False, owner: tuple[int, int] | None = None
) -> None:
    """
    Write some keys into a directory. The directory is created if it is missing. Its other keys stay.

    ``owner`` (uid, gid) becomes the owner of the directory and the files. Raises UsageError for an invalid value
    (nothing is written then), StoreError when the file system refuses, InputError for a planted link.
    """
    wrong = [
        f"{name}={value!r}: {what}" for name, value in values.items() if (what := problem(name, value, force=force))
    ]
    if wrong:
        raise UsageError("; ".join(wrong))
    with _failures(directory), open_directory(directory, make=DIRECTORY_MODE, link=False) as place:
        for name, value in values.items():
            _refuse_other_than_file(place, name)
            try:
                place.replace(name, value.encode("ascii") + b"\n", FILE_MODE, owner)
            except UnicodeEncodeError as error:
                raise UsageError(f"{name}={value!r}: not ASCII") from error
            except OSError as error:
                raise StoreError(f"{place.path_of(name)}: cannot be written: {error.strerror}") from error
        # Last, because until then no other user can change a directory that was created here.
        if owner is not None and place.made:
            os.fchown(place.fd, *owner)


def remove_keys(directory: str, names: tuple[str, ...]) -> None:
    """Remove keys, each atomically. Missing keys are not an error."""
    with _failures(directory), open_directory(directory, link=False) as place:
        for name in names:
            _refuse_other_than_file(place, name)
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=place.fd)


def remove(directory: str) -> None:
    """
    Remove a directory of features with its keys.

    Raises InputError, and removes nothing, if it holds anything that is not a key: then it is another kind of
    directory.
    """
    with _failures(directory):
        folder, own_name = open_parent(directory)
        with folder, folder.open(own_name) as place:
            names = os.listdir(place.fd)
            for name in names:
                kind = place.lstat(name).st_mode
                if not stat.S_ISREG(kind) or not (NAME.fullmatch(name) or name.startswith(TEMPORARY)):
                    raise InputError(f"{place.path_of(name)!r} is not a key of features: nothing was removed")
            for name in names:
                os.unlink(name, dir_fd=place.fd)
            os.rmdir(own_name, dir_fd=folder.fd)


@contextmanager
def _failures(directory: str) -> Iterator[None]:
    """Turn an error of the file system into a StoreError that says what to do."""
    if not directory:
        raise UsageError("DIRECTORY is empty; name the directory of the features")
    try:
        yield
    except OSError as error:
        # An error of an operation relative to a descriptor has only a name, not a path.
        path = error.filename if error.filename and os.path.isabs(error.filename) else directory
        raise StoreError(f"{path}: {error.strerror}; name a directory that this user may write") from error


def _refuse_other_than_file(place: Directory, name: str) -> None:
    try:
        kind = place.lstat(name).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(kind):
        raise InputError(f"{place.path_of(name)} is not a plain file: another user created it; remove it first")


# Read features as a job does, from a directory or from a web server, without trust in the content.
#
# A value counts as absent, with one warning, if it is unreadable, empty or invalid. To see a change of a value, read
# again.


_LARGEST_DIRECTORY = 1000
VARIABLES = {"machine": "MACHINEFEATURES", "job": "JOBFEATURES"}


class Features(NamedTuple):
    """The features of one machine or job at the time of reading."""

    location: str
    values: dict[str, str]
    """The valid values, by key of the specification."""
    extra: dict[str, str]
    """Keys that are not in the specification."""
    warnings: tuple[str, ...]

    def number(self, key: str) -> int | None:
        """Return a value that is a whole number."""
        value = self.values.get(key)
        return int(value) if value is not None and value.isdigit() else None

    def doubts(self, key: str) -> bool:
        """Whether there is a warning about this key: each begins with its key."""
        return any(warning.startswith(f"{key}: ") for warning in self.warnings)

    def for_accounting(self) -> dict[str, str]:
        """Return the unknown keys under their names in a record."""
        return {f"mjf_{key}": value for key, value in self.extra.items()}


def location_of(value: str, name: str) -> str:
    """
    Return the value of $MACHINEFEATURES or $JOBFEATURES as a location: an absolute path, or an http(s) URL.

    Raises UsageError for any other value. A slash at its end, which is a fault, is removed.
    """
    if not value.startswith(("/", "http://", "https://")) or "\0" in value:
        raise UsageError(f"{name}={value!r}: it begins neither with / nor with http:// or https://")
    return value.rstrip("/") or "/"


def read(location: str, *, fetch: Callable[[str], str | None] | None = None) -> Features:
    """
    Return all features at a location. ``fetch`` returns the text at a URL, ``None`` when there is none.

    A directory is listed. A web server is asked for the keys of the specification. Raises InputError for a directory
    that cannot be listed.
    """
    if location.startswith("/"):
        try:
            with open_directory(location) as place:
                return doubted(location, *values_in(place))
        except (OSError, ValueError) as error:
            raise InputError(f"{location}: cannot be read: {getattr(error, 'strerror', error)}") from error
    if fetch is None:
        fetch = Web().get
    raw: list[tuple[str, str]] = []
    warnings: list[str] = []
    for name in KEYS:
        try:
            value = fetch(f"{location}/{name}")
        except (InputError, ValueError) as error:
            warnings.append(f"{name}: {error}; treated as absent")
            continue
        if value is not None:
            raw.append((name, value))
    return doubted(location, raw, warnings)


def values_in(place: Directory) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the values in a directory unchanged, and the faults of the unreadable ones. Raises OSError."""
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
            # The file was removed in the meantime, so it is absent.
            continue
        except (OSError, ValueError, InputError) as error:
            why = getattr(error, "strerror", None) or str(error).removeprefix(f"{place.path_of(name)}: ")
            warnings.append(f"{name}: {why}; treated as absent")
    return raw, warnings


def names_in(place: Directory) -> tuple[list[str], list[str]]:
    """Return the names in a directory, and warnings. With too many names, return only those of the specification."""
    with os.scandir(place.fd) as entries:
        names = sorted(entry.name for entry in islice(entries, _LARGEST_DIRECTORY + 1))
    if len(names) <= _LARGEST_DIRECTORY:
        return names, []
    return [*KEYS, *DEPRECATED], [f"more than {_LARGEST_DIRECTORY} files: only keys of the specification are read"]


def doubted(location: str, raw: Sequence[tuple[str, str]], warnings: list[str]) -> Features:
    """Check names and values, and return the valid ones as features. Faults are added to ``warnings``."""
    names = {name for name, _value in raw}
    values: dict[str, str] = {}
    extra: dict[str, str] = {}
    for name, value in raw:
        if name in DEPRECATED:
            today, factor = DEPRECATED[name]
            warnings.append(f"{name}: a key of an old draft; its name now is {today}")
            if today not in names and value.isdigit() and len(value) <= 11:
                amount = str(int(value) * factor)
                if problem(today, amount) is None:
                    values[today] = amount
        elif (wrong := problem(name, value)) is not None:
            warnings.append(f"{name}: {wrong}; treated as absent")
        elif name in KEYS:
            values[name] = value
        else:
            extra[name] = value
    return Features(location, values, extra, tuple(warnings))


def missing(features: Features, kind: str) -> list[str]:
    """
    Return the missing keys that a provider should write. Shutdown times are optional: they exist only for a planned
    shutdown.
    """
    keys = MACHINE_KEYS if kind == "machine" else JOB_KEYS
    return [key.name for key in keys if not key.dynamic and key.name not in features.values]


LIMITS = ("jobstart_secs", "wall_limit_secs", "shutdowntime_job", "shutdowntime")
"""The keys that `remaining_s` needs."""


def remaining_s(machine: Features | None, job: Features | None, now: int | None = None) -> int | None:
    """Return the seconds of clock time that the job has left, at least 0; ``None`` without a limit."""
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
