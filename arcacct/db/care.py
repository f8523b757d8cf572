"""
When the databases were last cared for: backed up, checked, pruned, copied for readers.

A small file beside them, `care.json`, by what was done: when it ended (UTC seconds), and whether all was well; of a
copy for readers also the life of the database, and where it is. It is no part of the databases: a check changes nothing
in them, and one that is put back must not say that it was checked.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import NamedTuple

from arcacct.config.paths import Places
from arcacct.errors import InputError
from arcacct.files.json_reader import parsed
from arcacct.files.safe_open import open_directory

BACKUP, CHECK, PRUNE, SNAPSHOT = KINDS = ("backup", "check", "prune", "snapshot")
_FILE = "care.json"
_LARGEST_CHARACTERS = 2**16


class MaintenanceEntry(NamedTuple):
    """The last time of a kind of care."""

    at_s: int
    is_well: bool
    incarnation: str = ""
    """The incarnation of the database that was copied."""
    path: str = ""
    """The copy."""


def log_done(here: Places, kind: str, *, is_well: bool = True, life: str = "", path: str = "") -> None:
    """What was done now; by who may only read the databases nothing is remembered."""
    done = MaintenanceEntry(int(time.time()), is_well, life, path)
    found = {name: [one for one in care if one != ""] for name, care in (last_done(here) | {kind: done}).items()}
    # Whoever gets into the directory may know it.
    with suppress(OSError, InputError), open_directory(here.directory) as folder:
        folder.replace(_FILE, f"{json.dumps(found)}\n".encode(), 0o644)


def last_done(here: Places) -> dict[str, MaintenanceEntry]:
    """By kind what was done last; what is not known is absent, and so is a copy that was removed."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        with open(os.path.join(here.directory, _FILE), encoding="utf-8") as file:
            found = parsed(file.read(_LARGEST_CHARACTERS))
        known = {
            kind: MaintenanceEntry(int(found[kind][0]), bool(found[kind][1]), *map(str, found[kind][2:4]))
            for kind in KINDS
            if kind in found
        }
        return {kind: done for kind, done in known.items() if not (done.path and _is_gone(done.path))}
    return {}


def _is_gone(path: str) -> bool:
    """Not for one who may not look."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False
