"""Cutting texts into messages, by count and by bytes, and telling what has to be held back."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence

from arcacct.publish.delivery import Deliverer, Part, Tally
from arcacct.publish.families import JobFamily
from arcacct.records.aar import AAR
from arcacct.store.ledger import Held, SentRecord


def digest(aar: AAR) -> bytes:
    """What tells one version of a record from another: 16 bytes of its values, not of its place in the database."""
    return hashlib.sha256(repr(aar[1:]).encode("utf-8", "surrogatepass")).digest()[:16]


def wire_size(text: str) -> int:
    """Bytes of a text once its line ends are CRLF, as S/MIME makes them."""
    return len(text.encode("utf-8")) + text.count("\n")


def batched(texts: Sequence[str], max_count: int | None, max_bytes: int) -> list[list[Part]]:
    """Texts without records of their own, cut by count and by bytes."""
    batches: list[list[Part]] = []
    size = 0
    for text in texts:
        length = wire_size(text)
        if not batches or len(batches[-1]) == max_count or size + length > max_bytes:
            batches.append([])
            size = 0
        batches[-1].append(Part(text, None))
        size += length
    return batches


class JobBatcher:
    """
    Collects the texts of records, in the order of Seq, and delivers a batch when it is full.

    Records of different groups get messages of their own; the last message of a batch moves the cursor. With
    ``moves_cursor=False`` (republishing) none does.
    """

    def __init__(
        self,
        family: JobFamily,
        delivery: Deliverer,
        tally: Tally,
        *,
        max_count: int | None,
        max_bytes: int,
        moves_cursor: bool = True,
    ) -> None:
        self._family = family
        self._delivery = delivery
        self._tally = tally
        self._max_count = max_count
        self._max_bytes = max_bytes - len(family.document.head) - len(family.document.tail)
        self._moves_cursor = moves_cursor
        self._now = int(time.time())
        self._parts: dict[str | None, list[Part]] = {}
        self._held: list[Held] = []
        self._count = 0
        self._bytes = 0
        self._seq: int | None = None

    def add(self, aar: AAR, seq: int) -> None:
        """One record: checked, then formatted or held back; ``seq`` is 0 when it is republished."""
        record = SentRecord(aar.job_id, aar.record_id, seq, aar.end_time, digest(aar))
        verdict = self._family.accept(aar, self._now)
        if verdict.refusal is not None:
            self._held.append(Held(record, "quarantined", verdict.refusal))
            self._tally.notes.append(f"{aar.job_id}: not sent: {verdict.refusal}")
        else:
            self._collect(verdict.aar, record)
        self.passed(seq)
        if self._count == self._max_count:
            self.flush()

    def _collect(self, aar: AAR, record: SentRecord) -> None:
        text = self._family.text(aar, self._now)
        size = wire_size(text)
        if self._count and self._bytes + size > self._max_bytes:
            self.flush()
        self._parts.setdefault(self._family.group(aar), []).append(Part(text, record))
        self._count += 1
        self._bytes += size

    def passed(self, seq: int) -> None:
        """Everything up to ``seq`` is in a batch or needs none."""
        if self._moves_cursor:
            self._seq = seq

    def flush(self) -> None:
        """Deliver what was collected; raises as `Delivery.deliver`."""
        batches, held, seq = list(self._parts.values()), self._held, self._seq
        self._parts, self._held, self._count, self._bytes, self._seq = {}, [], 0, 0, None
        self._delivery.deliver(self._family.document, batches, seq, held)
