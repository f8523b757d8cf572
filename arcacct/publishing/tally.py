"""What a target's run comes to, told while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from arcacct.publishing.ledger import Held


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
        self.refused_once = 0
        """Records and sums that the receiver refused, and that are sent again before that is believed."""
        self.ahead = 0
        """Records that wait since they end in the future, by this host's clock."""
        self.corrections = 0
        """Records that the receiver has in an older version and will not change."""
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Say something about the run, at once: before it is done, where it is about what will be done."""
        self.notes.append(text)
        self._announce(text)

    def set_aside(self, aside: Iterable[Held]) -> None:
        """These are set aside, and nobody was told of it yet. Corrections are named where they are found."""
        for one in aside:
            self.quarantined += 1
            if one.state == "quarantined":
                self.note(f"{one.record.job_id}: not sent: {one.reason}")

    def add(self, kind: str, records: int, n_bytes: int) -> None:
        """One more message."""
        sent = self.sent.get(kind, Sent())
        self.sent[kind] = Sent(sent.messages + 1, sent.records + records, sent.bytes + n_bytes)
