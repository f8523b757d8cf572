"""What the steps of one target's run share: its settings, its summary and its deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from threading import Event
from types import MappingProxyType
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.publishing.held import RetryThresholds
from arcacct.publishing.ledger import HeldRecord
from arcacct.publishing.ledger_rows import Month
from arcacct.publishing.plugin import ReceiverRows, TargetPlugin
from arcacct.publishing.safeguard import DecreaseGuard, MonthFormat

# What the steps of one target's run share, and what it comes to, told while it goes on.


class Limits(NamedTuple):
    """How much goes into one message; ``max_count=None`` is as much as fits."""

    max_count: int | None
    max_bytes: int


class MessageCounts(NamedTuple):
    """Messages of one kind."""

    messages: int = 0
    records: int = 0
    bytes: int = 0


class RunSummary:
    """What a target's run did so far, or would do."""

    def __init__(self, announce: Callable[[str], None] = lambda _note: None) -> None:
        self._announce = announce
        self.sent: dict[str, MessageCounts] = {}
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
        self.implausible = 0
        """Records that are held for values that cannot be true (`records.holds`), of those that were logged."""
        self.not_selected = 0
        """Jobs of the current and the previous month that ``vofilter`` leaves out."""
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Say something about the run, at once: before it is done, where it is about what will be done."""
        self.notes.append(text)
        self._announce(text)

    def quarantine(self, aside: Iterable[HeldRecord]) -> None:
        """These are set aside, and nobody was told of it yet. Corrections are named where they are found."""
        for one in aside:
            self.quarantined += 1
            if one.state == "quarantined":
                self.note(f"{one.record.job_id}: not sent: {one.reason}")

    def add(self, kind: str, records: int, n_bytes: int) -> None:
        """One more message."""
        sent = self.sent.get(kind, MessageCounts())
        self.sent[kind] = MessageCounts(sent.messages + 1, sent.records + records, sent.bytes + n_bytes)


class RunContext(NamedTuple):
    """One target's run: what its steps share."""

    plugin: TargetPlugin
    accounting: Connection
    publishing: Connection
    summary: RunSummary
    guard: DecreaseGuard
    months: Mapping[Month, MonthFormat]
    """Those of which the target was sent something, as they were when the run began."""
    incarnation: str
    """The incarnation of the accounting database."""
    remembered_kinds: Mapping[Month, str] = MappingProxyType({})
    """The kind of each month as accounting.db remembers it: of months that an older ledger does not have."""
    at_receiver: ReceiverRows = ReceiverRows()
    """What its administrator exported, of the months that are sent again."""
    run: int = 0
    """The number of this run of the target."""

    @property
    def block(self) -> str:
        """What the ledger knows the target by."""
        return self.plugin.target.block

    def message_format_of(self, month: Month) -> str:
        """The kind of the messages of a month: the one that it was begun in, else what the target is sent now."""
        known = self.months.get(month)
        return self.remembered_kinds.get(month, self.plugin.message_format) if known is None else known.message_format

    @property
    def message_formats(self) -> set[str]:
        """Every kind of message that the target is sent, or that one of its months is in."""
        return {
            self.plugin.message_format,
            *(one.message_format for one in self.months.values()),
            *self.remembered_kinds.values(),
        }

    @property
    def limits(self) -> Limits:
        """Of one message."""
        return Limits(self.plugin.target.urbatchsize, self.plugin.max_bytes)

    @property
    def retry_thresholds(self) -> RetryThresholds:
        """By what to tell whether the time of a held record has come."""
        now = int(time.time())
        return RetryThresholds(now - self.plugin.target.settle_s, now, self.run)


# The deadline of one target's run, and whether it must stop.


class RunDeadline:
    """
    The time of one target's run; begun with it.

    Looked at before each exchange and each wait: nothing that is under way is torn off.
    """

    def __init__(self, run_s: float | None = None, stopping: Event | None = None) -> None:
        """``run_s``: how long the run may take in all, ``None``: as long as it does. ``stopping`` ends it at once."""
        self._run_s = run_s
        self._ends = float("inf") if run_s is None else time.monotonic() + run_s
        self._stopping = stopping or Event()

    def expired_reason(self) -> str | None:
        """Why nothing more may start, as text; ``None`` while it may."""
        if self._stopping.is_set():
            return "stopped; the next run continues"
        if self.left_s() <= 0:
            return f"the time of this run is over (run_timeout={self._run_s:g}); the next run continues"
        return None

    def left_s(self) -> float:
        """Seconds until the end."""
        return self._ends - time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep, unless the run is stopped meanwhile."""
        self._stopping.wait(seconds)
