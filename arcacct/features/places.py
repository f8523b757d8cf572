"""
Where the features of this machine and job are: said on the command line, by the environment, or by a cloud's metadata.

Metadata should be read only once in the life of a virtual machine, so the answer is kept in a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping

from arcacct.errors import InputError
from arcacct.features.reader import VARIABLES, of_environment, of_metadata
from arcacct.files.foreign import open_parent, read_file

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
    return found | {kind: value for kind, value in (("machine", machine), ("job", job)) if value}


def valid(given: Mapping[str, str]) -> dict[str, str]:
    """The same as locations to read from. Raises UsageError for one that is neither path nor URL."""
    return of_environment({VARIABLES[kind]: value for kind, value in given.items()})


def default_file(environ: Mapping[str, str]) -> str:
    """Where an answer of the metadata is kept by default: a place of this user that a reboot empties."""
    return os.path.join(environ.get("XDG_RUNTIME_DIR") or "/run", "arcacct-features.json")


def _of_metadata(url: str, path: str | None, fetch: Callable[[str], str | None]) -> dict[str, str]:
    kept = _kept(path, url)
    if kept is not None:
        return kept
    found = of_metadata(url, fetch)
    if path is not None:
        _keep(path, url, found)
    return found


def _kept(path: str | None, url: str) -> dict[str, str] | None:
    if path is None:
        return None
    try:
        known = json.loads(read_file(path, _LARGEST_FILE))
    except (OSError, ValueError, InputError, RecursionError):
        return None
    found = known.get(url) if isinstance(known, dict) else None
    return {kind: str(value) for kind, value in found.items()} if isinstance(found, dict) else None


def _keep(path: str, url: str, found: dict[str, str]) -> None:
    try:
        folder, name = open_parent(path)
        with folder:
            folder.replace(name, json.dumps({url: found}).encode())
    except (OSError, InputError):
        # It is asked again next time: better than no features at all.
        return
