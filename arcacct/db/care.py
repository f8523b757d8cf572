"""
When the databases were last cared for: backed up, checked, pruned.

A small file beside them, `care.json`, by what was done: when it ended (UTC seconds), and whether all was well. It is no
part of the databases: a check changes nothing in them, and one that is put back must not say that it was checked.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import NamedTuple

from arcacct.conf.places import Places
from arcacct.errors import InputError
from arcacct.files.foreign import open_directory

BACKUP, CHECK, PRUNE = KINDS = ("backup", "check", "prune")
_FILE = "care.json"


class Done(NamedTuple):
    """The last time of a kind of care."""

    at_s: int
    is_well: bool


def remember(here: Places, kind: str, *, is_well: bool = True) -> None:
    """What was done now; by who may only read the databases nothing is remembered."""
    found = {name: list(done) for name, done in remembered(here).items()} | {kind: [int(time.time()), is_well]}
    # Whoever gets into the directory may know it.
    with suppress(OSError, InputError), open_directory(here.directory) as folder:
        folder.replace(_FILE, f"{json.dumps(found)}\n".encode(), 0o644)


def remembered(here: Places) -> dict[str, Done]:
    """By kind what was done last; what is not known is absent."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        with open(os.path.join(here.directory, _FILE), encoding="utf-8") as file:
            found = json.load(file)
        return {kind: Done(int(found[kind][0]), bool(found[kind][1])) for kind in KINDS if kind in found}
    return {}
