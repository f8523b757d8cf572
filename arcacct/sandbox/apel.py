"""
APEL behind the messaging service: SSM, the loader, the summariser and the server's database (apel 2 and 3).

A message is loaded whole or not at all, and a record replaces the one with its key. The sender learns nothing of
a rejection, so neither does the publisher here: look at `rejected`. What the portal would show is in `hybrid`.
"""

from __future__ import annotations

import base64
import threading
import time
from typing import NamedTuple

from arcacct.sandbox import apel_car, apel_text, summariser
from arcacct.sandbox.apel_text import JOBS, NORMALISED_SUMMARIES, SUMMARIES, SYNCS, LoadedRecord, Value
from arcacct.sandbox.authority import Credential
from arcacct.sandbox.journal import Journal
from arcacct.sandbox.ssm import Crashed, MessageRejected, VerifiedMessage, accept
from arcacct.sandbox.summariser import HYBRID_KEY, SIZE, WHOSE, Key, PortalTotals, Row, folded
from arcacct.sandbox.wire import Arrival

HYBRID = "hybrid"
KEYS = {
    JOBS: ("Site", "LocalJobId", "EndTime"),
    SUMMARIES: (*WHOSE, "InfrastructureType", "ServiceLevelType", "ServiceLevel", *SIZE),
    NORMALISED_SUMMARIES: (*WHOSE, "Infrastructure", *SIZE, "ServiceLevelType"),
    SYNCS: ("Site", "SubmitHost", "Month", "Year"),
    HYBRID: HYBRID_KEY,
}
"""The columns by which a table's rows are replaced (apel 3.6)."""

Table = dict[Key, Row]


class Rejection(NamedTuple):
    """A message that was not loaded."""

    reason: str
    empaid: str | None
    file: str


class APEL:
    """The receiver with its tables, each row by the columns of `KEYS` (letters' case and trailing blanks apart)."""

    def __init__(self, journal: Journal, ca_dir: str) -> None:
        self.journal = journal
        self.ca_dir = ca_dir
        self.allowed_dns: set[str] | None = set()
        """Slash DNs that may send; None: whoever has a certificate of a known authority."""
        self.credential: Credential | None = None
        """The certificate to which messages may be encrypted, with its key; None: none can be read."""
        self.rejected: list[Rejection] = []
        self.stopped: Rejection | None = None
        """The message over which the receiver died: it comes again for ever, and what follows waits."""
        self.waiting: list[str] = []
        """Files of messages behind the one that stopped the receiver."""
        self.received: list[VerifiedMessage] = []
        self._tables: dict[str, Table] = {table: {} for table in KEYS}
        self._sites: dict[Key, Value] = {}
        """Each site as it was spelt first: the database looks names up, so later spellings change nothing."""
        self._lock = threading.Lock()

    @property
    def job_records(self) -> Table:
        """Jobs by (Site, LocalJobId, EndTime)."""
        return self._table(JOBS)

    @property
    def summaries(self) -> Table:
        """Months of v0.2 and v0.4 summaries."""
        return self._table(SUMMARIES)

    @property
    def normalised_summaries(self) -> Table:
        """Months of v0.3 summaries and of normalised v0.4 ones."""
        return self._table(NORMALISED_SUMMARIES)

    @property
    def sync_records(self) -> Table:
        """Counts of jobs by (Site, SubmitHost, Month, Year)."""
        return self._table(SYNCS)

    @property
    def hybrid(self) -> Table:
        """What the portal shows, after another run of the summariser: rows by `HYBRID_KEY`."""
        self.summarise()
        return self._table(HYBRID)

    def summarise(self) -> None:
        """Run the summariser: SummariseJobs, NormaliseSummaries, CopyNormalisedSummaries; nothing is ever deleted."""
        with self._lock:
            sources = (self._tables[table].values() for table in (JOBS, SUMMARIES, NORMALISED_SUMMARIES))
            for row in summariser.hybrid_rows(*sources):
                self._tables[HYBRID][key(LoadedRecord(HYBRID, row))] = {**row, "Site": self._site(row)}

    def totals(self) -> dict[tuple[str, int, int], PortalTotals]:
        """What the portal shows, summed by (site, year, month), after another run of the summariser."""
        return summariser.totals(self.hybrid.values())

    def receive(self, data: str, empaid: str | None) -> Arrival:
        """A message from the service, base64 as it was published: kept, verified, loaded."""
        with self._lock:
            number = self.journal.number("apel")
            try:
                message = base64.b64decode(data, validate=True)
            except ValueError as error:
                file = self.journal.keep("apel", f"{number}.smime", data.encode())
                return self._reject(Rejection(f"not base64: {error}", empaid, file))
            file = self.journal.keep("apel", f"{number}.smime", message)
            if self.stopped is not None:
                self.waiting.append(file)
                return Arrival("apel", None, file, f"waits: the receiver stopped over {self.stopped.file}")
            return self._take(message, number, empaid, file)

    def _take(self, message: bytes, number: str, empaid: str | None, file: str) -> Arrival:
        """Through SSM and into the tables, or to the rejected ones."""
        try:
            accepted = accept(message, self.ca_dir, self.allowed_dns, self.credential)
            suffix = "xml" if accepted.text.startswith("<") else "txt"
            self.journal.keep("apel", f"{number}.{suffix}", accepted.text.encode())
            self.received.append(accepted)
            records = read(accepted.text)
        except MessageRejected as refusal:
            return self._reject(Rejection(str(refusal), empaid, file))
        except Crashed as crash:
            self.stopped = Rejection(f"the receiver stopped: {crash}", empaid, file)
            return self._reject(self.stopped)
        for record in records:
            self._tables[record.table][key(record)] = record.values
            self._site(record.values)
        return Arrival("apel", len(records), file, "loaded")

    def _site(self, row: Row) -> Value:
        return self._sites.setdefault(folded(row, ("Site",)), row["Site"])

    def _reject(self, rejection: Rejection) -> Arrival:
        self.rejected.append(rejection)
        return Arrival("apel", None, rejection.file, f"rejected: {rejection.reason}")

    def _table(self, name: str) -> Table:
        with self._lock:
            return dict(self._tables[name])


def read(text: str, now: float | None = None) -> list[LoadedRecord]:
    """The records of a message, XML or text, all good at `now` (UTC; None: now); else MessageRejected or Crashed."""
    at = time.time() if now is None else now
    return apel_car.read(text, at) if text.startswith("<") else apel_text.read(text, at)


def key(record: LoadedRecord) -> Key:
    """What identifies a record in its table, compared as MySQL does: letters' case and trailing blanks do not count."""
    return folded(record.values, KEYS[record.table])
