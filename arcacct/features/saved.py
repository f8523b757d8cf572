"""
Features of jobs that their wrappers have saved: a directory as it was, or one file with a ``key=value`` on each line.

They stand where jobs write (`files.safe_open`), so nothing of them is believed that is no value.
"""

from __future__ import annotations

import os
import stat

from arcacct.errors import InputError, UsageError
from arcacct.features.keys import NAME
from arcacct.features.reader import Features, doubted, values_in
from arcacct.files.safe_open import open_parent

PLACE = "{jobid}"
_LARGEST_FILE = 256 * 1024


def place_of(pattern: str, job_id: str) -> str:
    """
    Where the features of a job were saved.

    Raises UsageError for a pattern that has no place for the job's id, InputError for an id that leads elsewhere.
    """
    if PLACE not in pattern:
        raise UsageError(f"{pattern!r} names one place for all jobs; write {PLACE} where the id belongs")
    if not {"", ".", ".."}.isdisjoint(job_id.split("/")) or "\0" in job_id:
        raise InputError(f"{job_id!r} cannot be part of a path; its features are not looked for")
    return os.path.abspath(pattern.replace(PLACE, job_id))


def saved(path: str) -> Features | None:
    """The saved features, ``None`` if there are none. Raises InputError when they cannot be read."""
    try:
        folder, name = open_parent(path)
        with folder:
            kind = folder.lstat(name).st_mode
            if stat.S_ISDIR(kind):
                with folder.open(name) as place:
                    return doubted(path, *values_in(place))
            if not stat.S_ISREG(kind):
                raise InputError(f"{path}: neither a directory nor a file")
            content = folder.read(name, _LARGEST_FILE, for_all=True)
            if len(content) == _LARGEST_FILE:
                # The last line may be half of one.
                content = content[: content.rfind(b"\n") + 1]
            found = []
            for line in content.decode("ascii", "replace").splitlines():
                name, equals, value = line.partition("=")
                # `grep -r . "$JOBFEATURES"` writes the path and a colon.
                if not equals:
                    name, _, value = line.rpartition(":")
                name = name.rpartition("/")[2].strip()
                if NAME.fullmatch(name) and value.strip():
                    found.append((name, value.strip()))
            return doubted(path, found, [])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from error
