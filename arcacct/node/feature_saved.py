"""
Features of jobs that their wrappers have saved: a directory as it was, or one file with a ``key=value`` on each line.

They stand where jobs write, so nothing of them is believed that is no value, and no link is followed.
"""

from __future__ import annotations

import os
import stat

from arcacct.errors import InputError, UsageError
from arcacct.node.feature_keys import KEYS, NAME, problem
from arcacct.node.feature_reader import Features, read

PLACE = "{jobid}"
_LARGEST_FILE = 256 * 1024


def place_of(pattern: str, job_id: str) -> str:
    """Where the features of a job were saved. Raises UsageError for a pattern that has no place for the job's id."""
    if PLACE not in pattern:
        raise UsageError(f"{pattern!r} names one place for all jobs; write {PLACE} where the id belongs")
    return os.path.abspath(pattern.replace(PLACE, job_id))


def saved(path: str) -> Features | None:
    """The saved features, ``None`` if there are none. Raises InputError when they cannot be read."""
    try:
        kind = os.lstat(path).st_mode
        if stat.S_ISDIR(kind):
            return read(path)
        if not stat.S_ISREG(kind):
            raise InputError(f"{path}: neither a directory nor a file")
        return _of_lines(path, _text(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def _text(path: str) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(fd, _LARGEST_FILE).decode("ascii", "replace")
    finally:
        os.close(fd)


def _of_lines(path: str, text: str) -> Features:
    values: dict[str, str] = {}
    extra: dict[str, str] = {}
    warnings = []
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        # `grep -r . "$JOBFEATURES"` writes the path and a colon.
        if not equals:
            name, _, value = line.rpartition(":")
        name = name.rpartition("/")[2].strip()
        if not NAME.fullmatch(name) or not value:
            continue
        if (wrong := problem(name, value)) is not None:
            warnings.append(f"{name}: {wrong}; taken as absent")
        elif name in KEYS:
            values[name] = value
        else:
            extra[name] = value
    return Features(path, values, extra, tuple(warnings))
