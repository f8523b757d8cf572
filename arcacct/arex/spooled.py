"""What waits in the spools, for people: looked at and left as it is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.database.schema import note, noted

_NOTE = "ARCACCT_SPOOL_LEFT"
_LARGEST_LAUNCHER = 65_536
_PLACE = re.compile(r"(?m)^(?:spool|fallback)=(?:\$\{ARCACCT_\w+:-)?[\"']?([^\"'}\n]*)")
"""Where the launcher spools, by its own lines."""


class Spooled(NamedTuple):
    """What there is in spools; of several, in all of them."""

    files: int = 0
    oldest_s: int | None = None
    """Time of the oldest event, UTC seconds."""
    unusable: int = 0
    """Files that were set aside."""
    unknown: tuple[str, ...] = ()
    """Each directory that cannot be listed, with the reason."""


def look(folders: Iterable[str]) -> Spooled:
    """What is in these directories now; one that is not there is an empty one."""
    unusable, times, unknown = 0, [], []
    for folder in folders:
        try:
            for name in os.listdir(folder):
                if name[:1].isdigit():
                    digits = name.partition("-")[0]
                    times.append(int(digits[:10]) if digits.isdecimal() else 0)
            unusable += len(os.listdir(aside)) if os.path.isdir(aside := os.path.join(folder, "unusable")) else 0
        except FileNotFoundError:
            continue
        except OSError as error:
            unknown.append(f"{folder}: {error.strerror}")
    return Spooled(len(times), min(times, default=None), unusable, tuple(unknown))


def save_status(con: Connection, left: Spooled) -> None:
    """What a sweep left, for those who may not list the spools; inside the caller's transaction."""
    if not left.unknown:
        note(con, _NOTE, f"{left.files} {left.oldest_s or 0} {left.unusable}")


def saved_status(con: Connection) -> Spooled | None:
    """What the last sweep left, ``None`` when none has told."""
    words = (noted(con, _NOTE) or "").split()
    if len(words) != 3 or not all(word.isdecimal() for word in words):
        return None
    files, oldest_s, unusable = map(int, words)
    return Spooled(files, oldest_s or None, unusable)


def of_launcher(path: str) -> Iterator[str]:
    """
    The directories that the launcher's own lines name for its spool.

    Raises OSError when it cannot be read. (Where they are empty it spools below the control directory.)
    """
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        yield from filter(None, _PLACE.findall(file.read(_LARGEST_LAUNCHER)))
