"""
Where the features of this machine and job are: said on the command line, by the environment, or by a cloud's metadata.

Metadata should be read only once in the life of a virtual machine, so the answer is kept in a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from arcacct.errors import InputError
from arcacct.features.reader import VARIABLES, location_of
from arcacct.files.json_reader import parsed
from arcacct.files.safe_open import open_parent, read_file

_LARGEST_FILE = 1 << 16


def locations(
    environ: Mapping[str, str],
    *,
    machine: str | None = None,
    job: str | None = None,
    metadata_url: str | None = None,
    metadata_file: str | None = None,
    fetch: Callable[[str], str | None] | None = None,
) -> dict[str, str]:
    """
    The values of both variables as they are, by ``machine`` and ``job``.

    What is given on the command line wins, then the environment, then the metadata.
    """
    found = _of_metadata(metadata_url, metadata_file, fetch) if metadata_url and fetch else {}
    found |= {kind: environ[name] for kind, name in VARIABLES.items() if environ.get(name)}
    return found | {kind: from_here(value) for kind, value in (("machine", machine), ("job", job)) if value}


def from_here(place: str) -> str:
    """A place of the command line: a path from the current directory as one from the root, anything else as it is."""
    return place if place.startswith("/") or ":" in place.partition("/")[0] else os.path.join(os.getcwd(), place)


def valid(given: Mapping[str, str]) -> dict[str, str]:
    """The same as locations to read from. Raises UsageError for one that is neither path nor URL."""
    return {kind: location_of(value, f"${VARIABLES[kind]}") for kind, value in given.items() if value}


def default_file(environ: Mapping[str, str]) -> str:
    """Where an answer of the metadata is kept by default: a place of this user that a reboot empties."""
    return os.path.join(environ.get("XDG_RUNTIME_DIR") or "/run", "arcacct-features.json")


def _of_metadata(url: str, path: str | None, fetch: Callable[[str], str | None]) -> dict[str, str]:
    """The locations under the keys ``machinefeatures`` and ``jobfeatures``, as they were when they were asked for."""
    try:
        known = parsed(read_file(path, _LARGEST_FILE)) if path is not None else None
    except (OSError, ValueError, InputError):
        known = None
    kept = known.get(url) if isinstance(known, dict) else None
    if isinstance(kept, dict):
        return {kind: str(value) for kind, value in kept.items()}
    found = {}
    for kind, name in VARIABLES.items():
        value = fetch(f"{url.rstrip('/')}/{name.lower()}")
        if value:
            found[kind] = location_of(value.strip(), name.lower())
    if path is not None:
        # If that fails it is asked again next time: better than no features at all.
        with suppress(OSError, InputError):
            folder, name = open_parent(path)
            with folder:
                folder.replace(name, json.dumps({url: found}).encode())
    return found
