"""A ledger in memory, of two targets, and what tests write into it without any receiver."""

from __future__ import annotations

from typing import Any

from closed_later import closed_later

from arcacct.database.connection import Connection
from arcacct.database.schema import PUBLISHING, in_memory
from arcacct.publishing import cursors, ledger
from arcacct.publishing.cursors import Cursor
from arcacct.publishing.ledger import HeldRecord, Message, SentRecord, SentSum

MAY = 1_778_000_000
"""2026-05-05 16:53:20 UTC."""
ONE, OTHER = "arex/jura/sgas:one", "arex/jura/sgas:other"


def new_ledger() -> Connection:
    """Of two targets that have started."""
    con = closed_later(in_memory(PUBLISHING))
    for target in (ONE, OTHER):
        cursors.set_cursor(con, Cursor(target, "life", 0, 1, None))
    return con


def record(job_id: str, **values: Any) -> SentRecord:
    """A record of May, of 60 s at one place, under a key of its own."""
    made = SentRecord(job_id, 1, 1, MAY, b"digest", f"key-{job_id}", None, ("SITE", "ce"), 60)
    return made._replace(**values)


def message(*records: SentRecord, **values: Any) -> Message:
    """A message of some records."""
    made = Message(0, "ur", "publish", None, "nowhere", None, "sha", len(records), b"bytes", records)
    return made._replace(**values)


def begin(con: Connection, *records: SentRecord, target: str = ONE, **values: Any) -> Message:
    """A message that was written down, and has no answer."""
    (begun,) = ledger.record_intent(con, target, [message(*records, **values)])
    return begun


def send(con: Connection, *records: SentRecord, target: str = ONE, **values: Any) -> Message:
    """A message that the receiver took."""
    begun = begin(con, *records, target=target, **values)
    ledger.accepted(con, target, begun, 200, "", None)
    return begun


def set_aside(con: Connection, job_id: str, state: str = "held", *, target: str = ONE, **values: Any) -> None:
    """A record that is held back: ``values`` are of it, or of `HeldRecord`."""
    of_held = {name: values.pop(name) for name in ("next_try", "refusals", "refused_run") if name in values}
    ledger.record_intent(con, target, [], [HeldRecord(record(job_id, **values), state, "why", **of_held)])


def one_sum(key: str, **values: Any) -> SentSum:
    """A sum of May, of three jobs."""
    return SentSum(key, 2026, 5, 3, 180, "SITE", "ce")._replace(**values)
