"""Shared by the steps of one target's run: settings, summary and deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.publishing import ledger
from arcacct.publishing.former_publisher import FormerPublisher
from arcacct.publishing.held import RetryThresholds
from arcacct.publishing.ledger import HeldRecord
from arcacct.publishing.plugin import ReceiverRows, TargetPlugin
from arcacct.publishing.safeguard import DecreaseGuard
from arcacct.publishing.target_months import MonthFormat, TargetMonth
from arcacct.times import Month
from arcacct.wording import Causes

# The settings and the summary that the steps of one target's run share. The summary is reported during the run.


class Limits(NamedTuple):
    """The limits of one message; ``max_count=None``: any number of texts."""

    max_count: int | None
    max_bytes: int


class MessageCounts(NamedTuple):
    """The number of messages, records and bytes of one kind."""

    messages: int = 0
    records: int = 0
    bytes: int = 0


class RunSummary:
    """The results of a target's run so far. In a dry run: the results that it would have."""

    def __init__(self, announce: Callable[[str], None] = lambda _note: None) -> None:
        self._announce = announce
        self.sent: dict[str, MessageCounts] = {}
        """By kind of message (``ur``, ``car``, ``summaries``, ``sync``, ...), in the order of sending."""
        self.resent = 0
        """Messages from an earlier run that had no answer."""
        self.quarantined = 0
        """Records that were quarantined."""
        self.refused_once = 0
        """Records and sums that the receiver refused. They are sent again before the refusal is believed."""
        self.ahead = 0
        """Records that wait because they end in the future by this host's clock."""
        self.corrections = 0
        """Records that the receiver has in an older version and will not replace."""
        self.withdrawn: set[Month] = set()
        """The months of the records that were sent with zeros for the first time."""
        self.implausible = 0
        """Logged records that are held because their values cannot be true (`records.holds`)."""
        self.not_selected = 0
        """Jobs of the current and the previous month that ``vofilter`` leaves out."""
        self._notes: list[str] = []
        self._of_records = Causes()

    @property
    def notes(self) -> list[str]:
        """Return the notes of the run so far, and the pending notes about records."""
        return [*self._notes, *self._of_records.lines()]

    def note(self, text: str) -> None:
        """Report a text about the run at once, before the work that it announces."""
        self._notes.append(text)
        self._announce(text)

    def note_record(self, name: str, text: str, key: str = "") -> None:
        """Report a text about one record at the end of the run, in one line with others of its cause."""
        self._of_records.add(name, text, *filter(None, [key]))

    def report_records(self) -> None:
        """Report the texts about records. Call it at the end of the run, whatever happened."""
        for line in self._of_records.take():
            self.note(line)

    def quarantine(self, aside: Iterable[HeldRecord]) -> None:
        """Count and report newly quarantined records. Corrections are reported where they are found."""
        for one in aside:
            self.quarantined += 1
            if one.state == "quarantined":
                self.note_record(one.record.job_id, f"not sent: {one.reason}")

    def add(self, kind: str, records: int, n_bytes: int) -> None:
        """Count one more message."""
        sent = self.sent.get(kind, MessageCounts())
        self.sent[kind] = MessageCounts(sent.messages + 1, sent.records + records, sent.bytes + n_bytes)


class RunContext(NamedTuple):
    """One target's run: the values that its steps share."""

    plugin: TargetPlugin
    accounting: Connection
    publishing: Connection
    summary: RunSummary
    guard: DecreaseGuard
    months: Mapping[Month, MonthFormat]
    """The months with something published to the target, as of the start of the run."""
    incarnation: str
    """The incarnation of the accounting database."""
    former: FormerPublisher | None = None
    """jura-ng's records at the receiver; ``None``: nothing."""
    remembered_kinds: Mapping[Month, str] = MappingProxyType({})
    """The message kind of each month, as accounting.db remembers it, for months that an older ledger does not have."""
    at_receiver: ReceiverRows = ReceiverRows()
    """The rows that the receiver's administrator exported, for the months that are sent again."""
    former_names: Mapping[Month, Sequence[str]] = MappingProxyType({})
    """The names by month that the receiver has and that are no longer in use (`selection.former_names`)."""
    run: int = 0
    """The number of this run of the target."""
    known: Mapping[Month, TargetMonth] = MappingProxyType({})
    """The ledger's data about each month at the start of the run."""

    @property
    def block(self) -> str:
        """The name of the target in the ledger."""
        return self.plugin.target.block

    def message_format_of(self, month: Month) -> str:
        """Return the message kind of a month: the kind of its first messages, else the target's present kind."""
        known = self.months.get(month)
        return self.remembered_kinds.get(month, self.plugin.message_format) if known is None else known.message_format

    @property
    def message_formats(self) -> set[str]:
        """Every kind of message that the target is sent, or that one of its months is in."""
        return {self.plugin.message_format, *map(self.message_format_of, {*self.months, *self.remembered_kinds})}

    @property
    def limits(self) -> Limits:
        """The limits of one message: fewer records than configured if the receiver recently needed too long."""
        count = self.plugin.target.urbatchsize
        if self.plugin.keeps_first:
            timed_out = ledger.least_timed_out(self.publishing, self.block, self.plugin.message_format)
            count = count if timed_out is None else min(count or timed_out, timed_out // 2)
        return Limits(count, self.plugin.max_bytes)

    @property
    def retry_thresholds(self) -> RetryThresholds:
        """Return the thresholds that decide whether a held record is due."""
        now = int(time.time())
        return RetryThresholds(now - self.plugin.target.settle_s, now, self.run)
