"""
One target's messages, from intent to answer (INVARIANTS 4).

Every message is in the ledger before it is sent and its answer after. What a receiver refuses is cut in halves down to
the record; a lost answer leaves the message in the ledger, and the next run sends the same bytes before anything newer.
"""

from __future__ import annotations

import hashlib
from _sqlite3 import Connection
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from arcacct.errors import TargetBusy, TargetRefuses
from arcacct.publish.answers import Answer, Kind, error_of
from arcacct.publish.families import DOCUMENTS, Document
from arcacct.publish.senders import Sender
from arcacct.store import ledger
from arcacct.store.ledger import Held, Message, SentRecord, SentSum

SUSPECTS = 3
"""This many records refused one after the other while nothing is accepted: the fault is the server's, not theirs."""


class Part(NamedTuple):
    """One text of a message, and what it is of: a record or a sum."""

    text: str
    record: SentRecord | None = None
    sum: SentSum | None = None


class Sent(NamedTuple):
    """Messages of one kind."""

    messages: int = 0
    records: int = 0
    bytes: int = 0


class Tally:
    """What a target's run did so far, or would do."""

    def __init__(self, announce: Callable[[str], None] = lambda _note: None) -> None:
        self._announce = announce
        self.sent: dict[str, Sent] = {}
        """By kind of message (``ur``, ``car``, ``summaries``, ``sync``, ...), in the order of sending."""
        self.resent = 0
        """Messages of an earlier run that had no answer."""
        self.quarantined = 0
        """Records that were set aside."""
        self.corrections = 0
        """Records that the receiver has in an older version and will not change."""
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Say something about the run, at once: before it is done, where it is about what will be done."""
        self.notes.append(text)
        self._announce(text)

    def add(self, kind: str, records: int, n_bytes: int) -> None:
        """One more message."""
        sent = self.sent.get(kind, Sent())
        self.sent[kind] = Sent(sent.messages + 1, sent.records + records, sent.bytes + n_bytes)


class Deliverer(Protocol):
    """Where batches go: to the target (`Delivery`), or into a plan."""

    def resume(self) -> None:
        """Deal with what an earlier run began."""

    def deliver(
        self, document: Document, batches: Sequence[Sequence[Part]], seq: int | None, held: Sequence[Held]
    ) -> None:
        """Deal with some batches, in order."""

    def settle_suspects(self) -> None:
        """Decide what is left to decide at the end."""


Watch = Callable[[], None]


class Delivery:
    """Sends messages to one target and keeps its ledger."""

    def __init__(
        self,
        con: Connection,
        target: str,
        sender: Sender,
        tally: Tally,
        *,
        origin: str = "publish",
        watch: Watch = lambda: None,
    ) -> None:
        self._con = con
        self._target = target
        self._sender = sender
        self._tally = tally
        self._origin = origin
        self._watch = watch
        self._suspects: list[tuple[Message, Answer]] = []
        self._accepted = False

    def resume(self) -> None:
        """Send what an earlier run began and got no answer for, byte for byte, before anything newer."""
        for message in ledger.unanswered(self._con, self._target):
            self._tally.resent += 1
            self._send(message)

    def deliver(
        self, document: Document, batches: Sequence[Sequence[Part]], seq: int | None, held: Sequence[Held]
    ) -> None:
        """
        Send batches of texts, in order; once the last is accepted every record up to ``seq`` is handled.

        Raises TargetBusy, TargetRefuses or CredentialError when the target stops us: the ledger keeps what is unsent.
        """
        messages = [
            self._message(document, batch, seq if number == len(batches) else None)
            for number, batch in enumerate(batches, 1)
        ]
        self._tally.quarantined += sum(one.state != "held" for one in held)
        if not messages and not held:
            if seq is not None:
                ledger.move_cursor(self._con, self._target, seq)
            return
        intended = ledger.intend(self._con, self._target, messages, held, seq=None if messages else seq)
        for message in intended:
            self._send(message)

    def settle_suspects(self) -> None:
        """
        Decide about single records that were refused: quarantined if the target took others meanwhile.

        Otherwise nothing tells whether record or server is at fault: they stay in the ledger for the next run, and
        TargetBusy says so.
        """
        undecided = [(message, answer) for message, answer in self._suspects if not self._has_evidence(message)]
        for message, answer in self._suspects:
            if self._has_evidence(message):
                self._quarantine(message, answer)
        self._suspects = []
        if undecided:
            raise TargetBusy(
                f"{error_of(undecided[0][1])}; nothing else was accepted since, so it is unclear whether"
                " the record or the server is at fault: the next run tries again"
            )

    def _message(self, document: Document, batch: Sequence[Part], seq: int | None) -> Message:
        text = document.join([part.text for part in batch])
        data = self._sender.pack(text)
        return Message(
            0,
            document.kind,
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

    def _send(self, message: Message) -> None:
        self._watch()
        answer = self._sender.send(message)
        if answer.kind == Kind.ACCEPTED:
            self._accept(message, answer)
        elif answer.kind in (Kind.TOO_LARGE, Kind.RECORDS_REFUSED):
            self._refuse(message, answer)
        else:
            ledger.attempted(self._con, message.message_id, answer.status, answer.text)
            raise error_of(answer)

    def _accept(self, message: Message, answer: Answer) -> None:
        ledger.accepted(self._con, self._target, message, answer.status, answer.text, answer.receiver_id)
        self._accepted = True
        self._tally.add(message.kind, message.record_count, len(message.data))

    def _refuse(self, message: Message, answer: Answer) -> None:
        if message.record_count > 1:
            for part in ledger.split(self._con, self._target, message, self._halves(message)):
                self._send(part)
        elif answer.kind == Kind.TOO_LARGE or self._has_evidence(message):
            self._quarantine(message, answer)
        else:
            ledger.attempted(self._con, message.message_id, answer.status, answer.text)
            self._suspects.append((message, answer))
            if len(self._suspects) >= SUSPECTS:
                raise TargetRefuses(
                    f"{error_of(answer)}; it refused {SUSPECTS} records one by one and took none:"
                    " look at the server's log. Nothing was set aside, the next run tries again"
                )

    def _halves(self, message: Message) -> list[Message]:
        document = DOCUMENTS[message.kind]
        texts = document.cut(self._sender.unpack(message.data))
        records: list[SentRecord | None] = [*message.records] or [None] * len(texts)
        parts = [Part(text, record) for text, record in zip(texts, records, strict=True)]
        middle = len(parts) // 2
        # The second half takes over the cursor: it is sent last.
        return [
            self._message(document, half, seq)._replace(origin=message.origin)
            for half, seq in ((parts[:middle], None), (parts[middle:], message.seq))
        ]

    def _has_evidence(self, message: Message) -> bool:
        """Whether the target took another message since it was first given this one."""
        return self._accepted or ledger.accepted_after(self._con, self._target, message.message_id)

    def _quarantine(self, message: Message, answer: Answer) -> None:
        words = answer.text or f"HTTP {answer.status}"
        held = [Held(record, "quarantined", f"refused by the receiver: {words}") for record in message.records]
        ledger.refused(self._con, self._target, message, answer.status, words, held)
        self._tally.quarantined += max(1, len(held))
        what = ", ".join(record.job_id for record in message.records) or f"a record of a {message.kind} message"
        self._tally.note(f"{what}: refused by the receiver: {words}")
