"""
What a receiver was sent of a job or a sum, for `arcacct job why --sent`.

The bytes of a message are kept until it is answered, and of some longer (`keep_messages`). Of the others the ledger
has the SHA-256 of the text: made again of the records as they are, a message that has it is the one that was sent.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.publishing import sent
from arcacct.publishing.batches import UNFORESEEN, zeroed_record
from arcacct.publishing.context import RunSummary
from arcacct.publishing.ledger import SentRecord, SentSum
from arcacct.publishing.ledger_rows import DAY_S, Month, iso
from arcacct.publishing.plugin import RecordFormat, TargetPlugin
from arcacct.publishing.selection import bare_ids
from arcacct.publishing.sent import SentMessage, is_same
from arcacct.publishing.summaries import summed
from arcacct.records import reader, usage
from arcacct.records.model import AAR

KEPT = "byte for byte as it was sent: the ledger has the message"
MADE_AGAIN = "byte for byte as it was sent: the message was made again, with the SHA-256 of what was sent"
AS_IT_IS = (
    "as the record is: the version that was sent, but the message cannot be made again to compare its bytes: its other"
    " records, the configuration or the program are not as they were"
)
AS_IT_IS_THERE = (
    "as the record is: the version that the receiver kept; the message may have brought another one, and cannot be made"
    " again"
)
SUM_AS_IT_IS = (
    "as the sum is: of as many jobs and as much wall time as was sent, but the message cannot be made again to compare"
    " its bytes"
)
_UNKNOWN = "not known any more: {why}, and the bytes of the message are not kept; {advice}"
_ADVICE = "keep_messages=DAYS in [arcacct] keeps those of what is sent from now on"
_ADVICE_OF_DAYS = "keep_messages={days} in [arcacct] keeps them for {days} days"

_RUN_S = 600
"""So long before a message was written down its texts may have been made; or longer, up to a day, if ..."""
_HASHED_BYTES = 1_000_000_000
"""... no more than this has to be hashed to find out: a second or two."""
_FAR_S = 221_845_392_000
_FAR_SECONDS = 10**10
"""Some time from the year 9000 on: one of so many that no name of a job hits it."""


class SentText(NamedTuple):
    """A text that was sent, or why it cannot be told."""

    how: str
    """In words: how far it is known."""
    text: str | None


class _Whole(NamedTuple):
    """All the texts of a message as it was sent."""

    message: SentMessage
    how: str
    texts: list[str]
    """None: it is not kept, and cannot be made again."""


class SentTexts:
    """The texts that one target was sent; remembers those of the last message."""

    def __init__(self, plugin: TargetPlugin, accounting: Connection, publishing: Connection) -> None:
        self._plugin = plugin
        plugin.bare_ids = bare_ids(accounting, publishing)
        self._accounting = accounting
        self._publishing = publishing
        self._last: _Whole | None = None
        days = plugin.settings.keep_messages_days
        self._advice = _ADVICE_OF_DAYS.format(days=days) if days else _ADVICE

    def of_record(self, message_id: int, position: int, aar: AAR | None) -> SentText:
        """The record of a job at a position of a message; ``aar``: as it is, ``None`` if nothing is left of it."""
        message, how, texts = self._whole(message_id)
        if texts:
            return SentText(how, texts[list(message.records).index(position)])
        record = message.records[position]
        if aar is not None and is_same(aar, record.digest):
            text = self._text(self._plugin.records(message.message_format), record, aar, message.created_s)
            if text is not None:
                # Of what such a receiver had before the ledger notes the version that it kept.
                kept = self._plugin.keeps_first and record.replaced_id is not None
                return SentText(AS_IT_IS_THERE if kept else AS_IT_IS, text)
        return self._unknown("its record is gone" if aar is None else "the record changed since")

    def of_sum(self, message_id: int, key: str) -> SentText:
        """The sum with a key of the ledger in the last message that has it."""
        message, how, texts = self._whole(message_id)
        family = self._plugin.sums(message.message_format)
        for text in texts:
            if family.stands_under(text, key):
                return SentText(how, text)
        noted = next(one for one in message.sums if one.key == key)
        found = self._sums(message.message_format, [noted]).get(key)
        if found is not None and (found[1].jobs, found[1].wall_s) == (noted.jobs, noted.wall_s):
            return SentText(SUM_AS_IT_IS, found[0])
        return self._unknown("the sum changed since")

    def _unknown(self, why: str) -> SentText:
        return SentText(_UNKNOWN.format(why=why, advice=self._advice), None)

    def _whole(self, message_id: int) -> _Whole:
        if self._last is None or self._last.message.message_id != message_id:
            message = sent.message(self._publishing, message_id)
            self._last = self._kept(message) or self._made_again(message) or _Whole(message, "", [])
        return self._last

    def _kept(self, message: SentMessage) -> _Whole | None:
        if message.data is None:
            return None
        try:
            text = self._plugin.text_of(message.data)
        except ValueError:
            return None
        texts = self._plugin.envelope(message.message_format).cut(text)
        if sha256(text.encode()).hexdigest() != message.digest or len(texts) != message.record_count:
            return None
        return _Whole(message, KEPT, texts)

    def _made_again(self, message: SentMessage) -> _Whole | None:
        """The message, if a text of what is known now has its digest, whenever it was made."""
        # When a record was made stands in its text and nowhere else: a time that nobody can guess holds its place.
        stand_in = _FAR_S + secrets.randbelow(_FAR_SECONDS)
        if message.sums:
            texts = [text for text, _one in self._sums(message.message_format, message.sums).values()]
        else:
            texts = self._texts_of_records(message, stand_in)
        if len(texts) != message.record_count:
            return None
        try:
            pieces = self._plugin.envelope(message.message_format).join(texts).encode().split(iso(stand_in).encode())
        except UnicodeEncodeError:
            return None
        longest_s = min(max(_RUN_S, _HASHED_BYTES // sum(map(len, pieces))), DAY_S) if len(pieces) > 1 else 0
        for made_s in range(message.created_s, message.created_s - longest_s - 1, -1):
            if sha256(iso(made_s).encode().join(pieces)).hexdigest() == message.digest:
                return _Whole(message, MADE_AGAIN, [text.replace(iso(stand_in), iso(made_s)) for text in texts])
        return None

    def _texts_of_records(self, message: SentMessage, now: int) -> list[str]:
        """As they would be sent now, in their order; none if one of them would not be."""
        records = message.records.values()
        there = reader.by_job_id(self._accounting, list({one.job_id for one in records}))
        family, texts = self._plugin.records(message.message_format), []
        for record in records:
            text = self._text(family, record, there.get(record.job_id), now)
            if text is None:
                return []
            texts.append(text)
        return texts

    def _text(self, family: RecordFormat, record: SentRecord, aar: AAR | None, now: int) -> str | None:
        """A record in the way in which it was sent: with zeros, to replace another, or as it is."""
        try:
            if not record.digest:
                return None if self._plugin.keeps_first else zeroed_record(family, aar, record, now)
            if aar is None:
                return None
            verdict = family.accept(aar, now)
            if verdict.refusal is not None:
                return None
            if record.notes is not None and record.notes == self._plugin.replacement_note:
                return family.replacement(verdict.aar, now, record.digest)
            return family.text(verdict.aar, now)
        except UNFORESEEN:
            return None

    def _sums(self, kind: str, wanted: Sequence[SentSum]) -> dict[str, tuple[str, SentSum]]:
        """By key, in the order in which they go: the sums of some keys as they are now, or the zeros that were sent."""
        family = self._plugin.summaries(kind)
        keys = {one.key for one in wanted}
        if not any(one.jobs for one in wanted):
            return {one.key: (family.zero(one.key), one) for one in wanted}
        months: set[Month] = {(one.year, one.month) for one in wanted}
        parts = summed(self._plugin, family, usage.usage_cells(self._accounting, sorted(months)), RunSummary()).parts
        return {part.sum.key: (part.text, part.sum) for part in parts if part.sum is not None and part.sum.key in keys}
