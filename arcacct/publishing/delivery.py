"""
The messages of one target, from intent to answer (INVARIANTS 4).

The ledger has every message before it is sent, and its answer afterwards. A refused message is cut in halves, down to
the single record. If an answer is lost, the message stays in the ledger, and the next run sends the same bytes before
anything newer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from arcacct.errors import ArcacctError, InputError, TargetBusy, TargetRefuses
from arcacct.publishing import held, ledger, sent
from arcacct.publishing.answers import Answer, Outcome, error_of
from arcacct.publishing.context import RunContext
from arcacct.publishing.held import RefusalHistory
from arcacct.publishing.ledger import HeldRecord, LedgerGap, Message, SentRecord, SentSum
from arcacct.publishing.plugin import Envelope, Sender
from arcacct.publishing.senders import SendAhead
from arcacct.publishing.target_months import MonthSnapshot
from arcacct.times import DAY_S, HOUR_S, iso

_STILL_THERE = (
    "the receiver still has an older version of this record{named}. {Room}, then run `arcacct quarantine retry`"
)

_REFUSALS = (Outcome.TOO_LARGE, Outcome.RECORDS_REFUSED)

WEEK_S = 7 * DAY_S

LARGE_BYTES = 500_000
"""
Bytes. No receiver can refuse a single record below this size for its size: AMS takes 1,000,000 bytes of base64, which
are 735,000 bytes of text, and web servers take 1 MB or more unless they are configured otherwise.
"""

MOST_UNHALVED = 50
"""Records. A larger message is halved if its receiver does not answer in time; jura-ng sends this many by default."""

SUSPECTS = 3
"""If this many records are refused one after the other and none is accepted, the server may be at fault."""


class MessagePart(NamedTuple):
    """One text of a message, with the record or sum that it contains."""

    text: str
    record: SentRecord | None = None
    sum: SentSum | None = None
    authorisation_group: str | None = None
    """The machine in the record, if the receiver grants rights by machine."""


class DeliveryBatch(NamedTuple):
    """One delivery: batches of texts (each becomes a message) and the held records."""

    envelope: Envelope
    batches: Sequence[Sequence[MessagePart]]
    seq: int | None = None
    """Once the last message is accepted, every record up to here is handled; ``None``: the cursor does not move."""
    held: Sequence[HeldRecord] = ()
    proofs: Sequence[MonthSnapshot] = ()
    """The months whose sums are all in this delivery."""
    ahead: bool = False
    """Whether the caller continues during sending. The next delivery then handles the answers."""


class UnconfirmedRefusal(NamedTuple):
    """A message of one record that was refused, while it is unclear whether the record or the server is at fault."""

    message: Message
    answer: Answer
    accepted: int
    """How many messages had been accepted when it was refused."""


class Delivery:
    """Sends messages to one target and keeps its ledger."""

    def __init__(
        self, ctx: RunContext, sender: Sender, origin: str, unknown: LedgerGap | None, watch: Callable[[], None]
    ) -> None:
        """
        Store the settings; send nothing.

        ``origin`` is ``publish`` or ``republish``. ``watch`` is called at each answer. ``unknown``: what an older
        ledger does not have about a receiver that keeps the first version of a record.
        """
        self._con = ctx.publishing
        self._target = ctx.block
        self._plugin = ctx.plugin
        self._one_kind = ctx.plugin.one_format_per_month
        self._sender = sender
        self._summary = ctx.summary
        self._origin = origin
        self._run = ctx.run
        self._unknown = unknown
        room, named = self._plugin.correction_advice, ": it named the same row of its database again"
        self._still_there = _STILL_THERE.format(
            Room=room[:1].upper() + room[1:], named=named if self._plugin.returns_row_ids else ""
        )
        self._watch = watch
        self._under_way: SendAhead | None = None
        self._suspects: list[UnconfirmedRefusal] = []
        self._accepted = 0
        self._forbidden: dict[str | None, Answer] = {}

    def resume(self) -> None:
        """
        Send the unanswered messages of an earlier run, byte for byte, before anything newer.

        Raises as `deliver`. Also raises TargetBusy if a message is refused now: the receiver may have had it since
        then.
        """
        for message in ledger.pending_messages(self._con, self._target):
            self._summary.resent += 1
            data = self._sender.renewed(message.data)
            if data != message.data:
                ledger.replace_payload(self._con, message.message_id, data)
            message = message._replace(data=data)  # noqa: PLW2901  the same message
            answer = self._sender.send(message)
            said_before = ledger.last_code(self._con, message.message_id)
            if answer.kind in _REFUSALS and answer.status not in (None, said_before):
                ledger.attempted(self._con, message.message_id, answer.status, answer.text)
                raise TargetBusy(
                    f"{error_of(answer)}; it was sent before and may have arrived, although no answer came: the next"
                    " run sends it again"
                )
            self._handle_answer(message, answer, self._accepted)

    def deliver(self, what: DeliveryBatch) -> None:
        """
        Send the batches in order, after everything that was sent before.

        Raises TargetBusy, TargetRefuses or CredentialError if the target cannot be used. The ledger keeps the attempts.
        """
        messages, aside = self._packed(what.envelope, what.batches)
        # Handle the earlier answers before the next messages are stored, so that at most one set has no answers.
        self._collect_answers()
        aside = [*what.held, *aside]
        if messages:
            messages[-1] = messages[-1]._replace(seq=what.seq)
        self._summary.quarantine(held.newly_held(self._con, self._target, aside))
        if not messages and not aside and not what.proofs and what.seq is None:
            return
        seq = None if messages else what.seq
        keep = self._plugin.settings.keep_messages_days > 0
        intended = ledger.record_intent(
            self._con, self._target, messages, aside, seq=seq, proofs=what.proofs, one_kind=self._one_kind, keep=keep
        )
        if what.ahead and not self._forbidden.keys() & {message.group for message in intended}:
            # If the host refuses another thread, the caller waits for the answers.
            with suppress(RuntimeError):
                self._under_way = SendAhead(self._sender, intended)
                return
        self._send_all(intended)

    def collect_answers(self) -> None:
        """Note a message that the receiver has accepted, so that the next one is sent."""
        if self._under_way is not None and (accepted := self._under_way.accepted()) is not None:
            self._watch()
            self._accept(*accepted)
            self._under_way.resume()

    def _collect_answers(self) -> None:
        """Send the rest of the running delivery and handle all its answers. Raises as `deliver`."""
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            return
        under_way.stop()
        noted = under_way.noted
        self._send_all(under_way.messages[noted:], under_way.answers[noted:], under_way.error)

    def _send_all(
        self, messages: Sequence[Message], answers: Sequence[Answer] = (), error: Exception | None = None
    ) -> None:
        """Send messages. The first have ``answers`` already; sending the next one raised ``error``."""
        waiting = [*reversed(messages)]
        heard = iter(answers)
        try:
            while waiting:
                message = waiting.pop()
                answer = next(heard, None)
                if answer is not None:
                    self._handle_answer(message, answer, self._accepted)
                elif error is not None:
                    raise error
                elif message.group in self._forbidden:
                    self._hold_forbidden(message, self._forbidden[message.group])
                else:
                    self._handle_answer(message, self._sender.send(message), self._accepted)
        except ArcacctError:
            # Their records are read from the log again, with their values of that time: an unsent record can still be
            # corrected.
            ledger.discard_unsent(self._con, [message.message_id for message in waiting if message.records])
            raise

    def stop(self) -> None:
        """Wait for the message that is being sent, and note whether it was accepted. The rest waits in the ledger."""
        if self._under_way is not None:
            self._under_way.stop()
            self.collect_answers()
            self._under_way = None

    def settle(self) -> None:
        """
        Decide about single records that were refused. Quarantine or hold them if the target accepted something else
        since.

        Otherwise it is unclear whether the record or the server is at fault. The records stay in the ledger for the
        next run. Raises TargetBusy in that case, and TargetRefuses for machines that we may not report.
        """
        self._collect_answers()
        undecided = self._decide()
        if undecided and self._still_works(undecided[0].message):
            undecided = self._decide()
        self._suspects = []
        if undecided:
            raise TargetBusy(
                f"{error_of(undecided[0].answer)}; nothing else was accepted since, so it is unclear whether"
                " the record or the server is at fault: the next run tries again"
            )
        for answer in self._forbidden.values():
            raise error_of(answer)

    def _decide(self) -> list[UnconfirmedRefusal]:
        """Handle the suspects that are at fault by the evidence; return the others."""
        undecided = []
        for suspect in self._suspects:
            if self._has_evidence(suspect.message, suspect.accepted):
                self._set_aside(suspect.message, suspect.answer)
            else:
                undecided.append(suspect)
        self._suspects = undecided
        return undecided

    def _packed(
        self, document: Envelope, batches: Sequence[Sequence[MessagePart]]
    ) -> tuple[list[Message], list[HeldRecord]]:
        """
        Return the message of each batch, and the records that are held instead.

        Batches of a forbidden group become no message. A text that cannot be packed is quarantined alone, so that the
        other texts can be sent. `RecordFormat.accept` should have found it before.
        """
        packed: list[Message] = []
        # A republish does not hold forbidden records: it leaves them as they are.
        aside = [
            _forbidden(part.record, self._forbidden[part.authorisation_group])
            for batch in batches
            for part in batch
            if part.authorisation_group in self._forbidden and part.record is not None and self._origin == "publish"
        ]
        waiting = [batch for batch in reversed(batches) if batch[0].authorisation_group not in self._forbidden]
        while waiting:
            batch = waiting.pop()
            try:
                packed.append(self._message(document, batch, None))
            except InputError as error:
                if len(batch) > 1:
                    waiting += [batch[len(batch) // 2 :], batch[: len(batch) // 2]]
                    continue
                record = batch[0].record
                if record is None:
                    what = "a sum" if batch[0].sum is not None else "zeros under an outdated key"
                    self._summary.note_record(what, f"not sent: {error}")
                    self._summary.quarantined += 1
                else:
                    aside.append(HeldRecord(record, "quarantined", str(error), int(time.time()) + DAY_S))
        return packed, aside

    def _message(self, document: Envelope, batch: Sequence[MessagePart], seq: int | None) -> Message:
        import hashlib  # noqa: PLC0415  it loads OpenSSL: a tenth of a run that has nothing to send

        text = document.join([part.text for part in batch])
        data = self._sender.pack(text)
        return Message(
            0, document.message_format, self._origin, seq, self._sender.destination, self._sender.name(),
            hashlib.sha256(text.encode("utf-8")).hexdigest(), len(batch), data,
            tuple(part.record for part in batch if part.record is not None),
            tuple(part.sum for part in batch if part.sum is not None), batch[0].authorisation_group,
        )  # fmt: skip

    def _handle_answer(self, message: Message, answer: Answer, accepted: int) -> None:
        """
        Handle the answer to a message.

        ``accepted`` is the number of accepted messages when it was sent. For a part of a refused message it is the
        number when that message was refused.
        """
        self._watch()
        if answer.kind == Outcome.ACCEPTED:
            self._accept(message, answer)
        elif answer.kind in _REFUSALS:
            self._refuse(message, answer, accepted)
        elif answer.about_group:
            self._forbidden[message.group] = answer
            self._hold_forbidden(message, answer)
        else:
            if answer.timed_out and self._plugin.keeps_first and message.record_count > MOST_UNHALVED:
                # The next run sends the halves. They have the same texts, so the receiver may get a record twice.
                halves = self._halves(message)
                ledger.split(self._con, self._target, message, halves, one_kind=self._one_kind, reason=ledger.TIMED_OUT)
            else:
                ledger.attempted(self._con, message.message_id, answer.status, answer.text)
            raise error_of(answer)

    def _accept(self, message: Message, answer: Answer) -> None:
        said = (answer.status, answer.text, answer.receiver_id, answer.receiver_rows)
        kept = ledger.accepted(self._con, self._target, message, *said, self._still_there, self._unknown)
        # Records that were sent again on purpose have already been counted and reported.
        for job_id in kept if self._origin == "publish" else ():
            self._summary.corrections += 1
            self._summary.quarantined += 1
            self._summary.note_record(job_id, "sent, and the receiver kept its older version; quarantined")
        self._accepted += 1
        self._summary.add(message.message_format, message.record_count, len(message.data))

    def _hold_forbidden(self, message: Message, answer: Answer) -> None:
        aside = [_forbidden(record, answer) for record in message.records if self._origin == "publish"]
        ledger.refused(self._con, self._target, message, answer.status, answer.text, aside)

    def _refuse(self, message: Message, answer: Answer, accepted: int) -> None:
        if message.record_count > 1:
            now, halves = self._accepted, self._halves(message)
            for part in ledger.split(self._con, self._target, message, halves, one_kind=self._one_kind):
                self._handle_answer(part, self._sender.send(part), now)
        elif (answer.kind == Outcome.TOO_LARGE and answer.status is None) or self._has_evidence(message, accepted):
            # No status: the message was never sent because of its size.
            self._set_aside(message, answer)
        else:
            ledger.attempted(self._con, message.message_id, answer.status, answer.text)
            self._suspects.append(UnconfirmedRefusal(message, answer, self._accepted))
            if len(self._decide()) < SUSPECTS:
                return
            # After so many refusals in a row, the target must prove that it still works.
            if not self._still_works(self._suspects[0].message):
                raise TargetRefuses(
                    f"{error_of(answer)}; it rejected {SUSPECTS} records one by one and accepted none:"
                    " check the server's log. Nothing was quarantined, the next run tries again"
                )
            self._decide()

    def _still_works(self, message: Message) -> bool:
        """
        Whether the receiver accepts an old message again. If it does, the new records are at fault.

        Only a receiver that keeps the first version is asked: another one would replace newer values by old ones.
        """
        known = None
        if self._plugin.keeps_first:
            known = sent.last_accepted(self._con, self._target, message.message_format)
        if known is None or self._sender.send(known).kind != Outcome.ACCEPTED:
            return False
        self._accepted += 1
        return True

    def _halves(self, message: Message) -> list[Message]:
        document = self._plugin.envelope(message.message_format)
        texts = document.cut(self._sender.unpack(message.data))
        records: list[SentRecord | None] = [*message.records] or [None] * len(texts)
        parts = [MessagePart(text, record) for text, record in zip(texts, records, strict=True)]
        middle = len(parts) // 2
        # The second half takes over the cursor: it is sent last.
        return [
            self._message(document, half, seq)._replace(origin=message.origin)
            for half, seq in ((parts[:middle], None), (parts[middle:], message.seq))
        ]

    def _has_evidence(self, message: Message, accepted: int) -> bool:
        """
        Whether the target accepted another message after it refused this one, or the message that this is a part of.

        Earlier acceptances prove nothing: the receiver's database may have failed in between.
        """
        return self._accepted > accepted or sent.accepted_after(self._con, self._target, message.message_id)

    def _set_aside(self, message: Message, answer: Answer) -> None:
        """Handle a refused message of one record or sum. The refusal is believed if an earlier run got it too."""
        if not message.records:
            self._set_aside_sum(message, answer)
            return
        (record,) = message.records
        before = held.refusals(self._con, self._target, record.job_id)
        # The receiver keeps the older version of the job that it has.
        is_correction = record.notes is not None and record.notes == self._plugin.replacement_note
        believed = "correction" if is_correction else "quarantined"
        aside = _refused(record, answer, len(message.data), before, self._run, believed)
        new = held.newly_held(self._con, self._target, [aside])
        ledger.refused(self._con, self._target, message, answer.status, _words_of(answer), [aside])
        self._summary.quarantine(new)
        if aside.state == "held":
            self._summary.refused_once += 1
            again = "the next run sends it again alone, and quarantines it if it is rejected again"
            if aside.refusals > 1:
                when = iso(aside.next_try or 0)
                again = f"the same in {aside.refusals} runs, implausible for a small record: sent again from {when}"
            self._summary.note_record(record.job_id, f"{aside.reason}; {again}")

    def _set_aside_sum(self, message: Message, answer: Answer) -> None:
        """Handle a refused sum, or refused zeros. Every run sends it again until the receiver accepts it."""
        words, months = _words_of(answer), []
        if not self._plugin.has_records(message.message_format):
            months = self._plugin.sums(message.message_format).months(self._sender.unpack(message.data))
        count = ledger.refused(self._con, self._target, message, answer.status, words, [], months, self._run)
        if count > 1:
            self._summary.quarantined += 1
        else:
            self._summary.refused_once += 1
        again = "the next run sends it again" if count <= 1 else f"the same in {count} runs; each run sends it again"
        self._summary.note_record(f"a record of a {message.message_format} message", f"rejected: {words}; {again}")


def _forbidden(record: SentRecord, answer: Answer) -> HeldRecord:
    return HeldRecord(record, "held", f"the receiver rejects records of this machine from us: {answer.text}")


def _refused(
    record: SentRecord, answer: Answer, n_bytes: int, before: RefusalHistory | None, run: int, believed: str
) -> HeldRecord:
    """
    Return how a record is held after the receiver refused it alone, in a message of ``n_bytes`` bytes.

    A refusal is believed when a later run gets it again (``before``: the earlier refusals). A server or load balancer
    that answers 500 or 413 now and then says nothing about a record. Until then the record is held and sent again
    alone; then its state is ``believed``. Even then it is tried again: servers are repaired, and one small message a
    week is cheap.
    """
    words, now = f"rejected by the receiver: {_words_of(answer)}", int(time.time())
    count = 1 if before is None else before.refusals + (before.run != run)
    was_believed = before is not None and before.state == "quarantined"
    # No status: the message was never sent because of its size.
    if answer.status is None and answer.kind == Outcome.TOO_LARGE:
        return HeldRecord(record, believed, words)
    is_believable = answer.kind != Outcome.TOO_LARGE or n_bytes >= LARGE_BYTES
    if is_believable and (count > 1 or was_believed):
        return HeldRecord(record, believed, words, now + WEEK_S, count, run)
    if was_believed:
        return HeldRecord(record, "quarantined", words, now + DAY_S, count, run)
    wait_s = 0 if count == 1 else min(DAY_S, HOUR_S << min(count - 2, 8))
    return HeldRecord(record, "held", words, now + wait_s, count, run)


def _words_of(answer: Answer) -> str:
    """Return the receiver's text, or its status if it sent no text."""
    return answer.text or f"HTTP {answer.status}"
