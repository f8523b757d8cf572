"""Split texts into messages, by count and by bytes, and decide for each record whether it is sent or held."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

from arcacct.database.connection import Connection
from arcacct.errors import InputError
from arcacct.publishing import ledger
from arcacct.publishing.context import RunContext
from arcacct.publishing.delivery import Delivery, DeliveryBatch, MessagePart
from arcacct.publishing.ledger import PLACE, HeldRecord, SentRecord, SentVersion
from arcacct.publishing.plugin import RecordFormat, RenderedRecord, TargetPlugin, bare
from arcacct.publishing.sent import is_same
from arcacct.records import reader
from arcacct.records.model import AAR
from arcacct.records.pseudonyms import PSEUDONYM
from arcacct.records.states import FAILED
from arcacct.times import DAY_S, month_of

_GONE = "the receiver has this record, but {why}: {room}, then run `arcacct quarantine retry`"
_CORRECTION = (
    "the receiver has an older version of this record and keeps the first version: {room}, then run"
    " `arcacct quarantine retry`"
)

UNFORESEEN = (InputError, ValueError, TypeError, OverflowError)
"""Errors from an unexpected value (SQLite accepts text in a number column). They must not stop other records."""
_SET_BYTES = 700_000
_SET_MESSAGES = 20
_SET_HELD = 1000
"""This many messages and held records are written to the ledger in one transaction."""
_ANSWERS_EVERY = 16
"""After this many records, the answers that have arrived are noted."""
_noted: Callable[[Any], SentRecord] = partial(tuple.__new__, SentRecord)
_part: Callable[[Any], MessagePart] = partial(tuple.__new__, MessagePart)
"""Create these tuples from all their values, in order: a third of the usual cost. Each job needs one of each."""


def wire_size(text: str, *, crlf: bool = True) -> int:
    """Bytes of a text; with ``crlf`` once its line ends are CRLF, as S/MIME makes them."""
    n_bytes = len(text) if text.isascii() else len(text.encode("utf-8"))
    return n_bytes + text.count("\n") if crlf else n_bytes


def batched(parts: Sequence[MessagePart], max_count: int | None, max_bytes: int) -> list[list[MessagePart]]:
    """Group texts into batches of at most ``max_count`` texts (``None``: no limit) and ``max_bytes`` bytes."""
    batches: list[list[MessagePart]] = []
    size = 0
    for part in parts:
        length = wire_size(part.text)
        if not batches or len(batches[-1]) == max_count or size + length > max_bytes:
            batches.append([])
            size = 0
        batches[-1].append(part)
        size += length
    return batches


class RecordBatcher:
    """
    Collects the texts of records, in the order of Seq, and delivers full batches, several at a time.

    Records of different groups go into different messages. The last message of a delivery moves the cursor, unless
    ``moves_cursor`` is false or ``republish`` is set. With ``republish``, records that the receiver already has are
    sent again. Records that the safeguard blocks stay at the receiver as they are.
    """

    def __init__(
        self,
        ctx: RunContext,
        family: RecordFormat,
        delivery: Delivery,
        *,
        republish: bool = False,
        moves_cursor: bool = True,
    ) -> None:
        self._ctx = ctx
        self._family = family
        self._plugin = ctx.plugin
        self._keeps_first = ctx.plugin.keeps_first
        self._moves_cursor = moves_cursor and not republish
        self._delivery = delivery
        self._summary = ctx.summary
        limits = ctx.limits
        self._most = sys.maxsize if limits.max_count is None else limits.max_count
        self._room = limits.max_bytes - len(family.envelope.head) - len(family.envelope.tail)
        self._crlf = ctx.plugin.crlf
        self._republish = republish
        self._now = int(time.time())
        self._settle_s = ctx.plugin.target.settle_s
        self._parts = defaultdict[str | None, list[MessagePart]](list)
        self._count = 0
        self._bytes = 0
        self._full: list[list[MessagePart]] = []
        self._full_bytes = 0
        self._held: list[HeldRecord] = []
        self._seq: int | None = None
        is_elsewhere, site = ctx.guard.published_under_other_site, family.site
        # By day: whether the month is published under another site's name.
        self._is_elsewhere = cache(lambda day: is_elsewhere(month_of(day * DAY_S), site))

    def add(self, aar: AAR, seq: int, known: Sequence[SentVersion] = ()) -> bool:
        """
        Add one record: format it, or hold it with a reason. Return False if the receiver has it already.

        ``seq`` is 0 if the record does not come from the log. ``known`` are the versions that the receiver has of the
        job. The same version is not sent twice. If the key has changed (APEL), the old key is sent again with zeros. A
        newer version is not sent to a receiver that keeps the first version (SGAS).
        """
        made = self._rendered(aar) if self._republish or not known else None
        key = self._family.key(aar) if made is None else made.key
        new = self._republish or not is_known(aar, key, known)
        if new and not self._forbidden(aar, key, seq, known):
            record = SentRecord(
                aar.job_id, aar.record_id, seq, aar.end_time, self._family.digest(aar), key, wall_s=aar.wall_s
            )
            self._add_new(aar, record if made is None else record._replace(names=made.names), known, made)
        self.passed(seq)
        if self._count >= self._most:
            self._end_batch()
        if len(self._held) >= _SET_HELD:
            self._deliver(ahead=True)
        self._delivery.collect_answers()
        return new

    def add_new(self, records: Sequence[tuple[int, AAR]]) -> None:
        """
        Add records, each after its Seq, of jobs that the receiver does not have. The result is that of `add` for each.

        This is the fast path for most records: it creates only the objects that the ledger stores.
        """
        unsettled_from, is_elsewhere = self._now - self._settle_s, self._is_elsewhere
        rendered, collect, digest = self._rendered, self._collect, self._family.digest
        for number, (seq, aar) in enumerate(records):
            made, end_time = rendered(aar), aar.end_time
            if made is None or (aar.status == FAILED and end_time > unsettled_from) or is_elsewhere(end_time // DAY_S):
                self.add(aar, seq)
                continue
            key, text, group, names = made
            of_job = aar.job_id, aar.record_id, seq, end_time, digest(aar), key
            collect(text, group, _noted((*of_job, None, names, aar.wall_s, None, 0, None)))
            self.passed(seq)
            if self._count >= self._most:
                self._end_batch()
            if not number % _ANSWERS_EVERY:
                self._delivery.collect_answers()

    def _rendered(self, aar: AAR) -> RenderedRecord | None:
        """Return a record that can be sent unchanged; ``None`` if the rules must decide."""
        try:
            return self._family.rendered(aar, self._now)
        except UNFORESEEN:
            return None

    def _forbidden(self, aar: AAR, key: str, seq: int, known: Sequence[SentVersion]) -> bool:
        """Whether the safeguard blocks a record: figures would change, or be split between two sites, without proof."""
        if known:
            site_of = self._family.site_of
            return self._ctx.guard.blocks_correction(aar, key, seq, known, asked=self._republish, site_of=site_of)
        return reader.is_time(aar.end_time) and self._ctx.guard.blocks_new_record(aar.end_time, self._family.site, seq)

    def quarantine(self, aar: AAR, seq: int, reason: str) -> None:
        """Quarantine a record for a reason that the receiver would not report."""
        record = SentRecord(
            aar.job_id, aar.record_id, seq, aar.end_time, self._family.digest(aar), self._family.key(aar)
        )
        self._hold(record, reason)
        self.passed(seq)

    def _hold(self, record: SentRecord, reason: str, not_before: int | None = None) -> None:
        """Hold a record by our own rules. ``not_before``, UTC seconds: the job ends in the future and is sent then."""
        self._summary.ahead += not_before is not None
        # Retry daily: it costs nothing, and the configuration, the program or another job may have changed.
        state, next_try = ("quarantined", self._now + DAY_S) if not_before is None else ("held", not_before)
        self._held.append(HeldRecord(record, state, reason, next_try))

    def _add_new(self, aar: AAR, record: SentRecord, known: Sequence[SentVersion], made: RenderedRecord | None) -> None:
        for one in known:
            if one.key == record.key:
                record = record._replace(replaced_id=one.total_id, replaced_wall_s=one.wall_s)
        end_time: object = aar.end_time
        is_late = isinstance(end_time, int) and end_time > self._now - self._settle_s
        if aar.status == FAILED and is_late and not self._republish:
            reason = f"failed, and may be resumed until it is settled (settle={self._settle_s} s)"
            held: HeldRecord | None = HeldRecord(record, "held", reason)
        else:
            held = self._correction(aar, record, known)
        if held is not None:
            self._held.append(held)
        # A receiver that keeps the first version ignores another one, but another key would be a second job.
        if held is None or (self._republish and any(one.key == record.key for one in known)):
            self._accept(aar, record, known, made)

    def retract(self, job_id: str, aar: AAR | None, known: Sequence[SentVersion]) -> bool:
        """
        Retract a job that was sent and must no longer be published. ``aar`` is its record, if one is left.

        Returns False if only the receiver's administrator can remove it.
        """
        for old in known:
            record = _retracted(job_id, aar, old)
            if not self._keeps_first:
                what = f"was published, and now is not: it is sent again with zeros ({old.key})"
                self._summary.note_record(job_id, what, old.key)
                self.withdraw(record, aar)
            else:
                self._summary.corrections += 1
                why = "the database no longer has this job" if aar is None else _why_gone(aar)
                reason = _GONE.format(why=why, room=self._plugin.correction_advice.format(key=old.key))
                self._summary.note_record(job_id, reason, old.key)
                self._held.append(HeldRecord(record, "correction", reason))
        return not known or not self._keeps_first

    def withdraw(self, old: SentRecord, aar: AAR | None = None) -> None:
        """
        Send the record under an old key again with zeros (`withdrawal`), if its names are still known.

        The ledger notes it with an empty digest: the receiver no longer has usage under this key.
        """
        part = withdrawal(self._ctx.publishing, self._plugin, self._family, old, aar, self._now)
        if part is None:
            self._summary.note_record(old.job_id, f"{NAMES_FORGOTTEN} ({old.key})", old.key)
            return
        self._summary.withdrawn.add(month_of(old.end_time))
        self._collect(part[0], None, part[1])

    def _correction(self, aar: AAR, record: SentRecord, known: Sequence[SentVersion]) -> HeldRecord | None:
        # A version without a digest: an operator has said that the receiver has room for the record now.
        there = [one for one in known if one.digest]
        if not there or not self._keeps_first or is_known(aar, record.key, there):
            return None
        # Under another key it would be an additional record, not a new version of the existing one.
        if self._family.replaces(aar) and all(one.key == record.key for one in there):
            return None
        self._summary.corrections += 1
        reason = _CORRECTION.format(room=self._plugin.correction_advice.format(key=there[0].key))
        if not self._republish:
            self._summary.note_record(record.job_id, f"not sent: {reason}", there[0].key)
        return HeldRecord(record, "correction", reason)

    def _accept(self, aar: AAR, record: SentRecord, known: Sequence[SentVersion], made: RenderedRecord | None) -> None:
        # Records of the job under other keys stay until a text replaces them.
        if made is not None and not self._is_replacement(aar, record, known):
            text, group, notes = made.text, made.authorisation_group, None
        else:
            try:
                verdict = self._family.accept(aar, self._now)
                if verdict.refusal is not None:
                    self._hold(record, verdict.refusal, verdict.not_before)
                    return
                if self._is_replacement(aar, record, known):
                    text = self._family.replacement(verdict.aar, self._now, record.digest)
                    notes = self._plugin.replacement_note
                else:
                    text = self._family.text(verdict.aar, self._now)
                    notes = "; ".join(verdict.notes) or None
                record = record._replace(names=self._family.names(verdict.aar))
            except UNFORESEEN as error:
                self._hold(record, f"cannot be written: {error}")
                return
            group = self._family.authorisation_group(verdict.aar)
        for old in known:
            if old.key != record.key and not self._keeps_first:
                what = f"was published as another record ({old.key}): that one is sent again with zeros"
                self._summary.note_record(aar.job_id, what, old.key)
                self.withdraw(_retracted(aar.job_id, aar, old), aar)
        self._collect(text, group, record if notes is None else record._replace(notes=notes))

    def _is_replacement(self, aar: AAR, record: SentRecord, known: Sequence[SentVersion]) -> bool:
        """Whether a record is sent in the replacing form: it must replace an earlier one, or has already done so."""
        if not self._family.can_replace or not known:
            return False
        if is_known(aar, record.key, known):
            return any(one.notes == self._plugin.replacement_note for one in known)
        return self._family.replaces(aar)

    def _collect(self, text: str, group: str | None, record: SentRecord | None) -> None:
        size = wire_size(text, crlf=self._crlf)
        if self._count and (self._count >= self._most or self._bytes + size > self._room):
            self._end_batch()
        self._parts[group].append(_part((text, record, None, group)))
        self._count += 1
        self._bytes += size

    def passed(self, seq: int) -> None:
        """Note that every record up to ``seq`` is in a batch or needs none."""
        if self._moves_cursor:
            self._seq = max(seq, self._seq or 0)

    def _end_batch(self) -> None:
        """Close the batches that are being filled: later records go into new ones."""
        self._full += self._parts.values()
        self._full_bytes += self._bytes
        self._parts, self._count, self._bytes = defaultdict(list), 0, 0
        if self._full_bytes >= _SET_BYTES or len(self._full) >= _SET_MESSAGES:
            self._deliver(ahead=True)

    def flush(self) -> None:
        """Deliver the collected batches and wait for the answers. Raises as `Delivery.deliver`."""
        self._deliver(ahead=False)

    def _deliver(self, *, ahead: bool) -> None:
        batches = [*self._full, *self._parts.values()]
        what = DeliveryBatch(self._family.envelope, batches, self._seq, self._held, ahead=ahead)
        self._full, self._full_bytes, self._held, self._seq = [], 0, [], None
        self._parts, self._count, self._bytes = defaultdict(list), 0, 0
        self._delivery.deliver(what)


def is_known(aar: AAR, key: str, known: Sequence[SentVersion]) -> bool:
    """Whether the receiver has exactly this version of a record, and has it under no other key."""
    return bool(known) and all(one.key == key and is_same(aar, one.digest) for one in known)


NAMES_FORGOTTEN = (
    "stays at the receiver: the names that were sent are needed to cancel it, and `arcacct db forget` replaced them"
)


def withdrawal(
    con: Connection, plugin: TargetPlugin, family: RecordFormat, old: SentRecord, aar: AAR | None, now: int
) -> tuple[str, SentRecord] | None:
    """
    Return the text with zeros that takes back the usage under a key, and the ledger's note of it.

    No other function makes such texts.

    The names are those that were sent with the key (INVARIANTS 18): a receiver that groups by them never deletes a
    group. If the ledger does not have them (a former program sent the record, or the ledger was lost), they are those
    of ``aar``, the job's present record. Returns ``None`` if `arcacct db forget` has replaced them.
    """
    names = old.names or ledger.sent_names(con, old.total_id)
    if any(isinstance(one, str) and PSEUDONYM.fullmatch(one) for one in names):
        return None
    if not names or (plugin.groups_records and len(names) == PLACE):
        present = family.names(bare(old.job_id, old.end_time))
        with suppress(*UNFORESEEN):
            if aar is not None and (verdict := family.accept(aar, now)).refusal is None:
                present = family.names(verdict.aar)
        names = (names or (family.site_of(old.key) or present[0], present[1])) + present[PLACE:]
    record = old._replace(digest=b"", seq=0, notes="sent with zeros", names=names, wall_s=0)
    return family.zeros(old.key, names, now), record


def _why_gone(aar: AAR) -> str:
    return f"the job is held or excluded here ({aar.held})" if aar.held else "the job is no longer published"


def _retracted(job_id: str, aar: AAR | None, old: SentVersion) -> SentRecord:
    """Return the ledger's note of a job that is sent with zeros, or that the receiver should no longer have."""
    return SentRecord(
        job_id, 0 if aar is None else aar.record_id, 0, old.end_time, b"", old.key, replaced_id=old.total_id,
        replaced_wall_s=old.wall_s, total_id=old.total_id,
    )  # fmt: skip
