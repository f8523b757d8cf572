"""The messages of one target, from intent to answer (INVARIANTS 4): each is in the ledger before it is sent."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Semaphore, Thread
from typing import NamedTuple

from arcacct.config.options import Target
from arcacct.errors import ArcacctError, CredentialError, InputError, TargetBusy, TargetRefuses
from arcacct.files.safe_open import open_directory
from arcacct.publishing import cursors, held, ledger, sent
from arcacct.publishing.context import RunContext, RunDeadline
from arcacct.publishing.held import RefusalHistory
from arcacct.publishing.ledger import HeldRecord, LedgerGap, Message, MonthSnapshot, SentRecord, SentSum
from arcacct.publishing.ledger_rows import DAY_S, iso
from arcacct.publishing.plugin import Answer, Envelope, Outcome, Sender, TargetPlugin, error_of

# Messages that are being sent while the next are made: most of a run is waiting for the receiver.


class SendAhead:
    """
    Some messages of the ledger, sent by a thread one after the other until one of them is not accepted.

    It sends the next when it is told that the answer to the last is in the ledger: whatever kills us, one message at
    most is sent again. Until `stop` has returned nobody else may send.
    """

    def __init__(self, sender: Sender, messages: Sequence[Message], groups: Sequence[str | None]) -> None:
        """Begin."""
        self.messages = messages
        self.groups = groups
        self.answers: list[Answer] = []
        """To the first messages; only the last of them may be other than accepted."""
        self.noted = 0
        """How many answers are in the ledger."""
        self.error: Exception | None = None
        """What sending the message after them raised."""
        self._sender = sender
        self._stopping = False
        self._go_on = Semaphore(0)
        # A daemon: who interrupts us a second time does not wait for a receiver that says nothing.
        self._thread = Thread(target=self._send, daemon=True)
        self._thread.start()

    def accepted(self) -> tuple[Message, Answer] | None:
        """A message that was accepted, which is not in the ledger yet."""
        if len(self.answers) == self.noted or self.answers[self.noted].kind != Outcome.ACCEPTED:
            return None
        return self.messages[self.noted], self.answers[self.noted]

    def resume(self) -> None:
        """That is in the ledger now."""
        self.noted += 1
        self._go_on.release()

    def stop(self) -> None:
        """Wait for the answer to the message that is just being sent, and send no other one."""
        self._stopping = True
        self._go_on.release()
        self._thread.join()

    def _send(self) -> None:
        try:
            for message in self.messages:
                if self._stopping:
                    return
                answer = self._sender.send(message)
                self.answers.append(answer)
                if answer.kind != Outcome.ACCEPTED:
                    return
                self._go_on.acquire()
        except Exception as error:  # noqa: BLE001  whatever it is, the thread that waits for us raises it
            self.error = error


# A target's way out, made once there is something to send: keys, certificates and TLS cost more than all the rest.


class LazySender(Sender):
    """
    A `Sender` that is made when the first message is packed, or the first of an earlier run is looked at.

    Raises then, so before anything is sent or written down, what making it raises.
    """

    def __init__(self, target: Target, make: Callable[[], Sender]) -> None:
        """
        Raise CredentialError for a certificate or key that cannot be read: with nothing to send, too, that is told.

        What is in them is looked at when it is used; `arcacct status` warns of their end.
        """
        self._make = make
        self._made: Sender | None = None
        self._deadline = RunDeadline()
        shown = target.credentials()
        for path in () if shown is None else (shown.x509_host_cert, shown.x509_host_key):
            try:
                with open(path, "rb"):
                    pass
            except OSError as exc:
                what = f"{path}: cannot be read ({exc.strerror}); correct the path, or run as the file's owner"
                raise CredentialError(what) from exc

    @property
    def destination(self) -> str:  # type: ignore[override]  # known by the sender alone
        return self._sender().destination

    def send(self, message: Message) -> Answer:
        return self._sender().send(message)

    def name(self) -> str | None:
        return self._sender().name()

    def pack(self, text: str) -> bytes:
        return self._sender().pack(text)

    def unpack(self, data: bytes) -> str:
        return self._sender().unpack(data)

    def renewed(self, data: bytes) -> bytes:
        return self._sender().renewed(data)

    def set_deadline(self, deadline: RunDeadline) -> None:
        self._deadline = deadline

    def close(self) -> None:
        if self._made is not None:
            self._made.close()

    def _sender(self) -> Sender:
        if self._made is None:
            self._made = self._make()
            self._made.set_deadline(self._deadline)
        return self._made


# One target's messages, from intent to answer (INVARIANTS 4).
#
# Every message is in the ledger before it is sent and its answer after. What a receiver refuses is cut in halves down
# to the record; a lost answer leaves the message in the ledger, and the next run sends the same bytes before anything
# newer.


_STILL_THERE = (
    "the receiver still has an older version of this record{named}. {Room}, then run `arcacct quarantine retry`"
)

_REFUSALS = (Outcome.TOO_LARGE, Outcome.RECORDS_REFUSED)

HOUR_S, WEEK_S = 3600, 604_800

LARGE_BYTES = 500_000
"""
A single record below this size is too large for no receiver: AMS takes 1,000,000 bytes of base64, which are 735,000 of
text, and web servers 1 MB or more unless they are told otherwise.
"""

SUSPECTS = 3
"""This many records refused one after the other while nothing is accepted: the fault may be the server's."""


class MessagePart(NamedTuple):
    """One text of a message, and what it is of: a record or a sum."""

    text: str
    record: SentRecord | None = None
    sum: SentSum | None = None
    authorisation_group: str | None = None
    """The machine that the record speaks for, where the receiver grants rights by machine."""


class DeliveryBatch(NamedTuple):
    """What is delivered at once: batches of texts, each a message, and what is held back beside them."""

    envelope: Envelope
    batches: Sequence[Sequence[MessagePart]]
    seq: int | None = None
    """Once the last message is accepted every record up to here is handled; ``None``: that does not follow."""
    held: Sequence[HeldRecord] = ()
    proofs: Sequence[MonthSnapshot] = ()
    """Months whose sums are all in it."""
    ahead: bool = False
    """Whether the caller goes on while it is sent; the answers are dealt with at the next one."""


class UnconfirmedRefusal(NamedTuple):
    """A message of one record that was refused, and nothing yet tells whether record or server is at fault."""

    message: Message
    answer: Answer
    accepted: int
    """How many messages had been accepted when it was refused."""


class MessageSink(ABC):
    """Where batches go."""

    @abstractmethod
    def resume(self) -> None:
        """Deal with what an earlier run began."""

    @abstractmethod
    def deliver(self, what: DeliveryBatch) -> None:
        """Deal with its batches, in order."""

    def collect_answers(self) -> None:  # noqa: B027
        """Note what was answered meanwhile, without waiting."""

    def settle(self) -> None:  # noqa: B027
        """Decide what is left to decide at the end."""

    def stop(self) -> None:  # noqa: B027
        """Let go of what is still going on, after whatever happened."""


class Delivery(MessageSink):
    """Sends messages to one target and keeps its ledger."""

    def __init__(
        self, ctx: RunContext, sender: Sender, origin: str, unknown: LedgerGap | None, watch: Callable[[], None]
    ) -> None:
        """
        ``origin``: ``publish`` or ``republish``; ``watch`` is told of each answer.

        ``unknown``: what an older ledger does not know of a receiver that keeps the first version of a record.
        """
        self._con = ctx.publishing
        self._target = ctx.block
        self._plugin = ctx.plugin
        self._one_kind = ctx.plugin.one_format_per_month
        self._keep = ctx.plugin.settings.keep_messages_days > 0
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
        Send what an earlier run began and got no answer for, byte for byte, before anything newer.

        Raises as `deliver`, and TargetBusy for one that is refused now: the receiver may have it since then.
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
                    " run asks once more"
                )
            self._handle_answer(message, answer, self._accepted, None)

    def deliver(self, what: DeliveryBatch) -> None:
        """
        Send the batches in order, after all that was sent before.

        Raises TargetBusy, TargetRefuses or CredentialError when the target stops us: the ledger keeps what was tried.
        """
        packed, aside = self._packed(what.envelope, what.batches)
        # Its answers come before the next is written down: whatever they are, at most one set has none.
        self._collect_answers()
        aside = [*what.held, *aside]
        groups = [group for group, _message in packed]
        messages = [message for _group, message in packed]
        if messages:
            messages[-1] = messages[-1]._replace(seq=what.seq)
        self._summary.quarantine(held.newly_quarantined(self._con, self._target, aside))
        if not messages and not aside and not what.proofs:
            if what.seq is not None:
                cursors.move_cursor(self._con, self._target, what.seq)
            return
        seq = None if messages else what.seq
        intended = ledger.record_intent(
            self._con,
            self._target,
            messages,
            aside,
            seq=seq,
            proofs=what.proofs,
            one_kind=self._one_kind,
            keep=self._keep,
        )
        if what.ahead and not self._forbidden.keys() & set(groups):
            # Where the host lets no more threads begin the caller waits for the answers.
            with suppress(RuntimeError):
                self._under_way = SendAhead(self._sender, intended, groups)
                return
        self._send_all(intended, groups)

    def collect_answers(self) -> None:
        """Note what the receiver accepted meanwhile: the next message is sent then."""
        if self._under_way is not None and (accepted := self._under_way.accepted()) is not None:
            self._watch()
            self._accept(*accepted)
            self._under_way.resume()

    def _collect_answers(self) -> None:
        """Send the rest of what is under way, and deal with all the answers; raises as `deliver`."""
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            return
        under_way.stop()
        noted = under_way.noted
        answers = under_way.answers[noted:]
        self._send_all(under_way.messages[noted:], under_way.groups[noted:], answers, under_way.error)

    def _send_all(
        self,
        messages: Sequence[Message],
        groups: Sequence[str | None],
        answers: Sequence[Answer] = (),
        error: Exception | None = None,
    ) -> None:
        """Send messages; the first have ``answers`` already, and the one after them ended in ``error``."""
        waiting = list(zip(messages, groups, strict=True))[::-1]
        heard = iter(answers)
        try:
            while waiting:
                message, group = waiting.pop()
                answer = next(heard, None)
                if answer is not None:
                    self._handle_answer(message, answer, self._accepted, group)
                elif error is not None:
                    raise error
                elif group in self._forbidden:
                    self._hold_forbidden(message, self._forbidden[group])
                else:
                    self._handle_answer(message, self._sender.send(message), self._accepted, group)
        except ArcacctError:
            # Their records come from the log again, as they are by then: what was never sent may still be corrected.
            ledger.discard_unsent(self._con, [message.message_id for message, _group in waiting if message.records])
            raise

    def stop(self) -> None:
        """Wait for what is just being sent, and note whether it was accepted; the rest waits in the ledger."""
        if self._under_way is not None:
            self._under_way.stop()
            self.collect_answers()
            self._under_way = None

    def settle(self) -> None:
        """
        Decide about single records that were refused: set aside if the target took something else since.

        Otherwise nothing tells whether record or server is at fault: they stay in the ledger for the next run, and
        TargetBusy says so. Raises TargetRefuses for machines that are not ours to report.
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
        """Set the suspects aside against whom there is evidence; returns the others."""
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
    ) -> tuple[list[tuple[str | None, Message]], list[HeldRecord]]:
        """
        The message of each batch, with its group, but for those that are forbidden: their records are held.

        A text that cannot be packed at all is set aside, alone. The rules of its `RecordFormat.accept` should have
        found it; if they did not, the others must not wait for it.
        """
        packed: list[tuple[str | None, Message]] = []
        # A republish leaves what it may not send.
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
                packed.append((batch[0].authorisation_group, self._message(document, batch, None)))
            except InputError as error:
                if len(batch) > 1:
                    waiting += [batch[len(batch) // 2 :], batch[: len(batch) // 2]]
                    continue
                record = batch[0].record
                if record is None:
                    what = "a sum" if batch[0].sum is not None else "zeros under an outdated key"
                    self._summary.note(f"{what}: not sent: {error}")
                    self._summary.quarantined += 1
                else:
                    aside.append(HeldRecord(record, "quarantined", str(error), int(time.time()) + DAY_S))
        return packed, aside

    def _message(self, document: Envelope, batch: Sequence[MessagePart], seq: int | None) -> Message:
        import hashlib  # noqa: PLC0415  it loads OpenSSL: a tenth of a run that has nothing to send

        text = document.join([part.text for part in batch])
        data = self._sender.pack(text)
        return Message(
            0,
            document.message_format,
            self._origin,
            seq,
            self._sender.destination,
            self._sender.name(),
            hashlib.sha256(text.encode("utf-8")).hexdigest(),
            len(batch),
            data,
            tuple(part.record for part in batch if part.record is not None),
            tuple(part.sum for part in batch if part.sum is not None),
        )

    def _handle_answer(self, message: Message, answer: Answer, accepted: int, group: str | None) -> None:
        """
        Deal with the answer to a message.

        ``accepted`` is how many were accepted when it was sent, or when the message it is a part of was refused.
        """
        self._watch()
        if answer.kind == Outcome.ACCEPTED:
            self._accept(message, answer)
        elif answer.kind in _REFUSALS:
            self._refuse(message, answer, accepted)
        elif answer.about_group:
            self._forbidden[group] = answer
            self._hold_forbidden(message, answer)
        else:
            ledger.attempted(self._con, message.message_id, answer.status, answer.text)
            raise error_of(answer)

    def _accept(self, message: Message, answer: Answer) -> None:
        said = (answer.status, answer.text, answer.receiver_id, answer.receiver_rows)
        kept = ledger.accepted(self._con, self._target, message, *said, self._still_there, self._unknown)
        # What is sent again on purpose was counted and named before.
        for job_id in kept if self._origin == "publish" else ():
            self._summary.corrections += 1
            self._summary.quarantined += 1
            self._summary.note(f"{job_id}: sent, and the receiver kept its older version; quarantined")
        self._accepted += 1
        self._summary.add(message.message_format, message.record_count, len(message.data))

    def _hold_forbidden(self, message: Message, answer: Answer) -> None:
        aside = [_forbidden(record, answer) for record in message.records if self._origin == "publish"]
        ledger.refused(self._con, self._target, message, answer.status, answer.text, aside)

    def _refuse(self, message: Message, answer: Answer, accepted: int) -> None:
        if message.record_count > 1:
            now, halves = self._accepted, self._halves(message)
            for part in ledger.split(self._con, self._target, message, halves, one_kind=self._one_kind):
                self._handle_answer(part, self._sender.send(part), now, None)
        elif (answer.kind == Outcome.TOO_LARGE and answer.status is None) or self._has_evidence(message, accepted):
            # Without a status it was never sent: no message can be that large.
            self._set_aside(message, answer)
        else:
            ledger.attempted(self._con, message.message_id, answer.status, answer.text)
            self._suspects.append(UnconfirmedRefusal(message, answer, self._accepted))
            if len(self._decide()) < SUSPECTS:
                return
            # So many refusals in a row: the target has to prove that it still works.
            if not self._still_works(self._suspects[0].message):
                raise TargetRefuses(
                    f"{error_of(answer)}; it rejected {SUSPECTS} records one by one and accepted none:"
                    " check the server's log. Nothing was quarantined, the next run tries again"
                )
            self._decide()

    def _still_works(self, message: Message) -> bool:
        """
        Whether the receiver takes again what it took before: then the new records are at fault.

        One that replaces newer values by what it took before is never asked.
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
        Whether the target took another message since it refused this one (or the message that this is a part of).

        What it took before says nothing: its database may have broken in between.
        """
        return self._accepted > accepted or sent.accepted_after(self._con, self._target, message.message_id)

    def _set_aside(self, message: Message, answer: Answer) -> None:
        """A message of one record, or sum, that was refused: believed if a run before was told the same."""
        if not message.records:
            self._set_aside_sum(message, answer)
            return
        (record,) = message.records
        before = held.refusals(self._con, self._target, record.job_id)
        # What the receiver has of the job in an older version stays there.
        is_correction = record.notes is not None and record.notes == self._plugin.replacement_note
        believed = "correction" if is_correction else "quarantined"
        aside = _refused(record, answer, len(message.data), before, self._run, believed)
        new = held.newly_quarantined(self._con, self._target, [aside])
        ledger.refused(self._con, self._target, message, answer.status, _words_of(answer), [aside])
        self._summary.quarantine(new)
        if aside.state == "held":
            self._summary.refused_once += 1
            again = "the next run sends it again alone, and quarantines it if it is rejected again"
            if aside.refusals > 1:
                when = iso(aside.next_try or 0)
                again = (
                    f"so in {aside.refusals} runs, which is implausible for so small a record: sent again from {when}"
                )
            self._summary.note(f"{record.job_id}: {aside.reason}; {again}")

    def _set_aside_sum(self, message: Message, answer: Answer) -> None:
        """A sum, or zeros that were sent before: every run sends it again, until the receiver takes it."""
        words, months = _words_of(answer), []
        if not self._plugin.has_records(message.message_format):
            months = self._plugin.sums(message.message_format).months(self._sender.unpack(message.data))
        count = ledger.refused(self._con, self._target, message, answer.status, words, [], months, self._run)
        if count > 1:
            self._summary.quarantined += 1
        else:
            self._summary.refused_once += 1
        again = "the next run sends it again" if count <= 1 else f"so in {count} runs; each run sends it again"
        self._summary.note(f"a record of a {message.message_format} message: rejected: {words}; {again}")


class PlannedSender(Sender):
    """
    Takes the place of a target's `Sender` in a dry run: accepts each message and sends none.

    With ``write_to`` each becomes a file of exactly the bytes that would be sent; only then is ``make`` called, since
    signing needs the host's key.
    """

    def __init__(self, make: Callable[[TargetPlugin], Sender], write_to: str | None, plugin: TargetPlugin) -> None:
        self._target = plugin.target.block
        self._made = make(plugin) if write_to is not None else None
        self._write_to = write_to
        self._written = 0
        self.destination = plugin.target.url

    def send(self, message: Message) -> Answer:
        """Raises InputError when it cannot be written."""
        self._written += 1
        if self._write_to is not None:
            self._write(message, self._write_to)
        return Answer(Outcome.ACCEPTED, receiver_id="planned")

    def pack(self, text: str) -> bytes:
        return text.encode("utf-8") if self._made is None else self._made.pack(text)

    def unpack(self, data: bytes) -> str:
        return data.decode("utf-8") if self._made is None else self._made.unpack(data)

    def renewed(self, data: bytes) -> bytes:
        return data if self._made is None else self._made.renewed(data)

    def close(self) -> None:
        if self._made is not None:
            self._made.close()

    def _write(self, message: Message, directory: str) -> None:
        name = f"{self._target.rpartition('/')[2].replace(':', '-')}-{self._written:04d}-{message.message_format}"
        try:
            # For this user alone, whatever the umask: messages have the names of users.
            with open_directory(directory, make=0o700) as folder, open(folder.create(name), "wb") as file:
                file.write(message.data)
        except OSError as error:
            raise InputError(
                f"{os.path.join(directory, name)}: cannot write: {error.strerror}; give an empty directory"
            ) from error


def _forbidden(record: SentRecord, answer: Answer) -> HeldRecord:
    return HeldRecord(record, "held", f"the receiver rejects records of this machine from us: {answer.text}")


def _refused(
    record: SentRecord, answer: Answer, n_bytes: int, before: RefusalHistory | None, run: int, believed: str
) -> HeldRecord:
    """
    What becomes of a record that the receiver refused alone, in a message of so many bytes.

    A refusal is believed when it is repeated in a later run (``before``: what is known of earlier ones): a server, or a
    balancer before it, that answers 500 or 413 now and then says nothing about a record. Until then the record is held,
    and sent again without new neighbours; then its state is ``believed``. Not even that is the last word: servers are
    mended, and one small message a week costs nobody anything.
    """
    words, now = f"rejected by the receiver: {_words_of(answer)}", int(time.time())
    count = 1 if before is None else before.refusals + (before.run != run)
    was_believed = before is not None and before.state == "quarantined"
    # Without a status it was never sent: no message can be that large.
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
    """The receiver's words, or its status where it said nothing."""
    return answer.text or f"HTTP {answer.status}"
