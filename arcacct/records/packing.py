"""Packs: a finished job with its children in one value (table PackedJobs), for the reader."""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from arcacct.database.connection import Connection
from arcacct.records.states import FINAL, TRANSFER_CACHED_INPUT, TRANSFER_INPUT, TRANSFER_OUTPUT

VERSION = 1
"""The version of the layout (`reader.PACKED_FIELDS`): packs of another version are not read."""
DIGEST_BYTES = 16
LARGEST_BYTES = 16_384
"""A larger job is not packed: the storage for one job must be bounded, and a pack stores it a second time."""
TRANSFER_KINDS = {TRANSFER_INPUT: "input", TRANSFER_CACHED_INPUT: "cached_input", TRANSFER_OUTPUT: "output"}
EVENTS = ("SUBMIT", "LRMSSTART", "LRMSEND")
"""JobEvents.EventKey of the published events."""

_HEX = frozenset("0123456789ABCDEFabcdef")
_EPOCH = datetime(1970, 1, 1)
_EVENT_TIME_LENGTH = len("2026-11-20 12:00:00")

_INSERT = (
    "INSERT OR REPLACE INTO PackedJobs (RecordID, Seq, Version, Digest, Data)"
    f" SELECT RecordID, Seq, {VERSION}, ?2, ?3 FROM FinishedLog WHERE RecordID = ?1"
    " AND NOT EXISTS (SELECT 1 FROM RecordHolds WHERE RecordHolds.RecordID = ?1)"
)


def unescaped(text: str) -> str:
    """Remove A-REX's percent-escapes from a text of the shared tables (the reverse of `recorder.escaped`)."""
    first, *parts = text.split("%")
    plain = [first]
    for part in parts:
        if len(part) > 1 and part[0] in _HEX and part[1] in _HEX:
            plain.append(chr(int(part[:2], 16)) + part[2:])
        else:
            plain.append("%" + part)
    return "".join(plain)


def node_names(text: str | None) -> tuple[str, ...]:
    """Return the distinct names, in order. A-REX writes one per slot, under `nodenames` (jura reads `nodename`)."""
    return tuple(dict.fromkeys([name for name in (text or "").split(":") if name]))


def packed(
    texts: Sequence[Any],
    numbers: Sequence[object],
    tokens: Sequence[Any],
    rtes: Sequence[Any],
    transfers: Sequence[Any],
    extra: Sequence[Any],
    events: Iterable[Any],
) -> bytes | None:
    """
    Pack an ended job from its rows as they are stored; ``None``: the job must not be packed.

    ``texts``: JobID, LocalJobID, interface, URL, queue, user, VO and status; ``numbers``: the columns of AAR from
    ExitCode and SubmitTime on; the children in the order of their rows.
    """
    try:
        # Joining all texts also fails for a value that is not a text.
        whole = "".join(
            [*texts, *[one[1] for one in tokens], *[one[0] for one in rtes], *[one[0] for one in transfers],
             *[one[1] for one in extra]]
        )  # fmt: skip
        if texts[7] not in FINAL or {*map(type, numbers)} != {int}:
            return None
        if "%" in whole:
            texts = [*map(unescaped, texts)]
            tokens = [(key, unescaped(value)) for key, value in tokens]
            rtes = [(unescaped(name),) for (name,) in rtes]
            transfers = [(unescaped(url), *row) for url, *row in transfers]
            extra = [(key, unescaped(value)) for key, value in extra]
        data = marshal.dumps(_values(texts, numbers, tokens, rtes, transfers, extra, events), 2)
    except (TypeError, ValueError):
        # A value has another type than its column, or a time is not in A-REX's form.
        return None
    return data if len(data) <= LARGEST_BYTES else None


def _values(
    texts: Sequence[str],
    numbers: Sequence[object],
    tokens: Sequence[Any],
    rtes: Sequence[Any],
    transfers: Sequence[Any],
    extra: Sequence[Any],
    events: Iterable[Any],
) -> tuple[Any, ...]:
    """Return the values of `AAR` from ``job_id`` on; every text is plain. Raises TypeError and ValueError."""
    fqans: list[str] = []
    for key, value in tokens:
        if key == "mainfqan":
            fqans.insert(0, value)
        elif key == "vomsfqan":
            fqans.append(value)
    named: dict[object, str] = {}
    for key, value in extra:
        if value:
            named.setdefault(key, value)
    get = named.get
    # For a job that ran twice, the last run counts.
    times = {key: event_seconds(when) for key, when in events if key in EVENTS}
    moved = [(url, size, begin, end, TRANSFER_KINDS.get(kind, "input")) for url, size, begin, end, kind in transfers]
    if {type(number) for row in transfers for number in row[1:]} - {int}:
        raise TypeError
    return (
        texts[0],
        *[text or None for text in texts[1:7]],
        texts[7],
        *numbers,
        tuple(fqans),
        get("jobname"),
        get("lrms"),
        node_names(get("nodenames") or get("nodename")),
        get("clienthost"),
        get("localuser"),
        get("projectname"),
        get("systemsoftware"),
        get("wninstance"),
        get("benchmark"),
        tuple(dict.fromkeys([name for (name,) in rtes])),
        tuple(moved),
        *map(times.get, EVENTS),
    )


def event_seconds(when: str) -> int:
    """Return JobEvents.EventTime as UTC seconds. Raises TypeError and ValueError for other forms than A-REX's."""
    try:
        moment = datetime.fromisoformat(when)
    except ValueError:
        raise ValueError(when) from None
    # It also reads other forms of ISO 8601.
    if len(when) != _EVENT_TIME_LENGTH or str(moment) != when:
        raise ValueError(when)
    return int((moment - _EPOCH).total_seconds())


def keep(con: Connection, packs: Iterable[tuple[int, bytes]]) -> None:
    """
    Store packs by RecordID, of records as they are at the end of the caller's transaction; all must be in the log.

    A record that is held, or that has a decision (`holds`), gets no pack: its counted values differ from its own.
    """
    con.executemany(_INSERT, [(record_id, digest(data), data) for record_id, data in packs])


def digest(data: bytes) -> bytes:
    """Return the digest of a pack. It also finds damaged bytes, from which marshal may make a tuple of 16 GB."""
    return sha256(data).digest()[:DIGEST_BYTES]
