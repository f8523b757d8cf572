"""Cutting texts into messages, by count and by bytes, and deciding record by record what is sent and what is held."""

from __future__ import annotations

import hashlib
import marshal
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from arcacct.errors import InputError
from arcacct.publish.delivery import Consignment, Deliverer, Part
from arcacct.publish.families import JobFamily
from arcacct.publish.tally import Tally
from arcacct.records import acceptance
from arcacct.records.aar import AAR
from arcacct.store.ledger import Held, SentRecord, Version

GONE = (
    "the receiver has this record, but the database has no such job to publish any more: ask its administrator to"
    " delete record {key}, then run `arcacct quarantine drop`"
)
CORRECTION = (
    "the receiver has an older version of this record and keeps the first one it got: ask its administrator to delete"
    " record {key}, then run `arcacct quarantine retry`"
)

_TRANSFERS = AAR._fields.index("transfers")

_SET_BYTES = 700_000
_SET_MESSAGES = 20
_SET_HELD = 1000
"""Messages, and records held back, are written into the ledger together, until they are so many."""


def digest(aar: AAR) -> bytes:
    """What tells one version of a record from another: 16 bytes of its values, not of its place in the database."""
    # Format 2 of marshal has no references and no notion of interned texts: equal values are equal bytes, for ever.
    plain: tuple[Any, ...] = (*aar[1:_TRANSFERS], tuple(map(tuple, aar.transfers)), *aar[_TRANSFERS + 1 :])
    return hashlib.sha256(marshal.dumps(plain, 2)).digest()[:16]


def wire_size(text: str) -> int:
    """Bytes of a text once its line ends are CRLF, as S/MIME makes them."""
    n_bytes = len(text) if text.isascii() else len(text.encode("utf-8"))
    return n_bytes + text.count("\n")


def batched(parts: Sequence[Part], max_count: int | None, max_bytes: int) -> list[list[Part]]:
    """Texts cut by count and by bytes."""
    batches: list[list[Part]] = []
    size = 0
    for part in parts:
        length = wire_size(part.text)
        if not batches or len(batches[-1]) == max_count or size + length > max_bytes:
            batches.append([])
            size = 0
        batches[-1].append(part)
        size += length
    return batches


class Limits(NamedTuple):
    """How much goes into one message; ``max_count=None`` is as much as fits."""

    max_count: int | None
    max_bytes: int


class JobBatcher:
    """
    Collects the texts of records, in the order of Seq, and delivers full batches, some at once.

    Records of different groups get messages of their own; the last message of those delivered at once moves the
    cursor. With ``republish`` none does, and what the receiver has already is sent again.
    """

    def __init__(
        self,
        family: JobFamily,
        delivery: Deliverer,
        tally: Tally,
        limits: Limits,
        *,
        settle_s: int = 0,
        republish: bool = False,
    ) -> None:
        self._family = family
        self._delivery = delivery
        self._tally = tally
        self._limits = limits
        self._room = limits.max_bytes - len(family.document.head) - len(family.document.tail)
        self._republish = republish
        self._now = int(time.time())
        self._settled_at = self._now - settle_s
        self._parts: dict[str | None, list[Part]] = {}
        self._count = 0
        self._bytes = 0
        self._full: list[list[Part]] = []
        self._full_bytes = 0
        self._held: list[Held] = []
        self._seq: int | None = None

    def add(self, aar: AAR, seq: int, known: Sequence[Version] = ()) -> bool:
        """
        One record: formatted, or held back with the reason; ``seq`` is 0 when it does not come from the log.

        ``known`` is what the receiver has of the job. The same version is not sent twice; under another key (APEL)
        the old one is sent again with zeros; a newer version is not sent to a receiver that keeps the first (SGAS).
        False if the receiver has it already.
        """
        record = SentRecord(aar.job_id, aar.record_id, seq, aar.end_time, digest(aar), self._family.key(aar))
        new = self._republish or not is_known(record, known)
        if new:
            held = self._unsettled(aar, record) or self._correction(record, known)
            if held is not None:
                self._held.append(held)
            if held is None or self._republish:
                self._accept(aar, record, known)
        self.passed(seq)
        if self._is_full():
            self._end_batch()
        if len(self._held) >= _SET_HELD:
            self._deliver(ahead=True)
        self._delivery.listen()
        return new

    def take_back(self, job_id: str, aar: AAR | None, known: Sequence[Version]) -> bool:
        """
        A job that was sent and is not to be published any more; ``aar`` is what is left of it.

        False if only the receiver's administrator can take it back.
        """
        for old in known:
            record = SentRecord(job_id, old.record_id, 0, old.end_time, old.digest, old.key)
            if self._family.neutral is not None:
                self._tally.note(
                    f"{job_id}: was published and is not any more: it is sent again with zeros ({old.key})"
                )
                self.neutralise(aar, record)
            else:
                self._tally.corrections += 1
                self._tally.note(f"{job_id}: {GONE.format(key=old.key)}")
                self._held.append(Held(record, "correction", GONE.format(key=old.key)))
        return not known or self._family.neutral is not None

    def neutralise(self, aar: AAR | None, old: SentRecord) -> None:
        """Take back what was sent for a job under a key: the same record with zeros, as far as it is known."""
        assert self._family.neutral is not None
        zeros = self._family.neutral(aar or _bare(old), old.key)
        verdict = self._family.accept(zeros, self._now)
        if verdict.refusal is not None:
            # What the job has become would be refused; the key is all that has to be the same.
            verdict = self._family.accept(self._family.neutral(_bare(old), old.key), self._now)
        text = self._family.text(verdict.aar, self._now)
        # The empty digest marks it: nothing of the job is at the receiver under this key any more.
        self._collect(text, None, old._replace(digest=b"", seq=0, notes="sent with zeros"))

    def _unsettled(self, aar: AAR, record: SentRecord) -> Held | None:
        if self._republish or aar.status != "failed" or not _later(aar.end_time, self._settled_at):
            return None
        seconds = self._now - self._settled_at
        return Held(record, "held", f"failed, and may be resumed until it is settled (settle={seconds} s)")

    def _correction(self, record: SentRecord, known: Sequence[Version]) -> Held | None:
        if not known or self._family.neutral is not None or is_known(record, known):
            return None
        self._tally.corrections += 1
        reason = CORRECTION.format(key=record.key)
        if not self._republish:
            self._tally.note(f"{record.job_id}: not sent: {reason}")
        return Held(record, "correction", reason)

    def _neutralise(self, aar: AAR, record: SentRecord, known: Sequence[Version]) -> None:
        if self._family.neutral is None:
            return
        for old in known:
            if old.key != record.key:
                self._tally.note(
                    f"{aar.job_id}: was published as another record ({old.key}): that one is sent again with zeros;"
                    " the receiver counts one job too many"
                )
                self.neutralise(aar, SentRecord(aar.job_id, aar.record_id, 0, old.end_time, b"", old.key))

    def _accept(self, aar: AAR, record: SentRecord, known: Sequence[Version]) -> None:
        try:
            verdict = self._family.accept(aar, self._now)
            text = "" if verdict.refusal is not None else self._family.text(verdict.aar, self._now)
        except (InputError, ValueError, TypeError, OverflowError) as error:
            # A value that no rule foresees (SQLite holds text in a column of numbers) must stop nobody else.
            verdict = acceptance.Verdict(aar, (), f"cannot be written: {error}")
            text = ""
        if verdict.refusal is not None:
            # What the receiver has of the job under another key stays until there is something to replace it.
            self._tally.note(f"{aar.job_id}: not sent: {verdict.refusal}")
            self._held.append(Held(record, "quarantined", verdict.refusal))
            return
        if known:
            self._neutralise(aar, record, known)
        if verdict.notes:
            record = record._replace(notes="; ".join(verdict.notes))
        self._collect(text, self._family.group(verdict.aar), record)

    def _collect(self, text: str, group: str | None, record: SentRecord) -> None:
        size = wire_size(text)
        if self._count and (self._is_full() or self._bytes + size > self._room):
            self._end_batch()
        self._parts.setdefault(group, []).append(Part(text, record, group=group))
        self._count += 1
        self._bytes += size

    def _is_full(self) -> bool:
        return self._limits.max_count is not None and self._count >= self._limits.max_count

    def passed(self, seq: int) -> None:
        """Everything up to ``seq`` is in a batch or needs none."""
        if not self._republish:
            self._seq = max(seq, self._seq or 0)

    def _end_batch(self) -> None:
        """No record goes into the batches that were begun any more."""
        self._full += self._parts.values()
        self._full_bytes += self._bytes
        self._parts, self._count, self._bytes = {}, 0, 0
        if self._full_bytes >= _SET_BYTES or len(self._full) >= _SET_MESSAGES:
            self._deliver(ahead=True)

    def flush(self) -> None:
        """Deliver what was collected, and wait for the answers; raises as `Delivery.deliver`."""
        self._deliver(ahead=False)

    def _deliver(self, *, ahead: bool) -> None:
        batches = [*self._full, *self._parts.values()]
        what = Consignment(self._family.document, batches, self._seq, self._held, ahead)
        self._full, self._full_bytes, self._parts, self._count, self._bytes = [], 0, {}, 0, 0
        self._held, self._seq = [], None
        self._delivery.deliver(what)


def is_known(record: SentRecord, known: Sequence[Version]) -> bool:
    """Whether the receiver has this very version of a record, and has it under no other key."""
    same = [one.key == record.key and one.digest == record.digest for one in known]
    return bool(same) and all(same)


def _bare(record: SentRecord) -> AAR:
    """A job of which nothing is known but what the ledger says."""
    nothing = (None, None, None, None, None, None)
    return AAR(record.record_id, record.job_id, *nothing, "failed", 1, 0, record.end_time, 1, 1, *([0] * 8))  # type: ignore[arg-type]


def _later(end_time: object, seconds: int) -> bool:
    return isinstance(end_time, int) and end_time > seconds
