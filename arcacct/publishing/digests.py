"""What tells one version of a record from another, also when a later program keeps more of each record."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping
from operator import attrgetter, itemgetter
from typing import Any

from arcacct.records import packing
from arcacct.records.model import AAR, StoredAAR
from arcacct.records.reader import PACKED_FIELDS

_FIRST_DIGEST = (
    "job_id", "local_job_id", "endpoint_type", "endpoint_url", "queue", "user_dn", "vo", "status", "exit_code",
    "submit_time", "end_time", "node_count", "core_count", "memory_kib", "virtual_memory_kib", "wall_s", "cpu_user_s",
    "cpu_kernel_s", "scratch_bytes", "stage_in_bytes", "stage_out_bytes", "fqans", "job_name", "lrms", "node_names",
    "client_host", "local_user", "project", "system_software", "wn_instance", "benchmark", "run_time_environments",
    "transfers", "lrms_submit_time", "lrms_start_time", "lrms_end_time",
)  # fmt: skip
DIGESTS = {1: _FIRST_DIGEST}
"""
The values that each version of the digest is of, in their order. A version that was released never changes: what was
sent is compared in the version in which it is stored, so a new field makes no record of yesterday "changed".
"""


def values_of(versions: Mapping[int, tuple[str, ...]]) -> dict[int, tuple[Callable[[AAR], tuple[Any, ...]], int]]:
    """How the values of each version are read off a record, and where the transfers stand among them."""
    return {number: (_reader(names), names.index("transfers")) for number, names in versions.items()}


def _reader(names: tuple[str, ...]) -> Callable[[AAR], tuple[Any, ...]]:
    fields: tuple[str, ...] = AAR._fields
    first = fields.index(names[0])
    span = slice(first, first + len(names))
    # Values that stand together in a record are read as one piece: half the cost of one by one.
    return itemgetter(span) if fields[span] == names else attrgetter(*names)


_VALUES = values_of(DIGESTS)
_OF_PACKS = {number for number, names in DIGESTS.items() if names == PACKED_FIELDS}
"""The versions whose bytes a pack is."""


def digest(aar: AAR, version: int | None = None) -> bytes:
    """
    What tells one version of a record from another: 16 bytes of its values, not of its place in the database.

    From version 2 of the digest on its number stands before them, in one byte. Without ``version``: the newest.
    """
    number = max(DIGESTS) if version is None else version
    keeper = aar if number in _OF_PACKS and isinstance(aar, StoredAAR) else None
    found = None if keeper is None else keeper.digest
    if found is None:
        read, transfers = _VALUES[number]
        values = read(aar)
        plain: tuple[Any, ...] = (*values[:transfers], tuple(map(tuple, values[transfers])), *values[transfers + 1 :])
        # Format 2 of marshal has no references and no notion of interned texts: equal values are equal bytes, for ever.
        found = packing.digest(marshal.dumps(plain, 2))
        if keeper is not None:
            keeper.digest = found
    return found if number == 1 else bytes((number,)) + found


def digests_of(aar: AAR) -> tuple[bytes, ...]:
    """The digests of a record in every version: all that has to be kept of it to compare it later."""
    return tuple(digest(aar, number) for number in DIGESTS)


def is_same(aar: AAR, stored: bytes) -> bool:
    """Whether a digest of the ledger is of this very version of a record, compared in the version it is stored in."""
    number = 1 if len(stored) == packing.DIGEST_BYTES else stored[0] if stored else 0
    return number in DIGESTS and digest(aar, number) == stored
