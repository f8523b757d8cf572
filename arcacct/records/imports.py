"""The common parts of all imports: slices and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from arcacct.config.paths import Places
from arcacct.database.access import writing
from arcacct.database.connection import Connection
from arcacct.database.schema import SOURCES, create_views, sources_of
from arcacct.records import rejected
from arcacct.records.rejected import Fault, RejectedEntry, RejectedRecord, RejectedRecords, RetryResult
from arcacct.wording import Causes

# The common parts of all imports of files. Only the unusable record is left out; it is reported, kept and retried.


T = TypeVar("T")
Say = Callable[[str], None]
"""Called with a message for the user while the import runs."""
Progress = Callable[[str, int, int], None]
"""Called with a path, the bytes that are done and the size of the file in bytes."""

SLICE_S = 0.03
"""How many seconds a slice should hold the queue of writers."""
_FIRST, _LARGEST = 50, 500

SHOWN = 10
"""How many values that differ from A-REX's are reported one by one."""


@dataclass
class RunReport:
    """The report of every import."""

    unreadable: int = 0
    """Files that do not belong to the source, or that could not be read to their end."""
    news: int = 0
    """Rejected records that no earlier import rejected."""


class ImportRun:
    """
    One run of an import; ``say`` is called with the unusable records, once for each reason.

    Each slice is one transaction, which also moves the position in its file. An error of the database or the system
    ends the run with a StoreError or a subclass. Imported records are not lost then.
    """

    report: RunReport
    _slice_s = SLICE_S
    _smallest = _FIRST
    """Records of the smallest slice."""

    def __init__(
        self, here: Places, con: Connection, source: str, scope: str, say: Say, views: str | None = None
    ) -> None:
        """``views``: the key in `schema.SOURCES` whose views show the imported rows, if it differs from ``source``."""
        self._here = here
        self._con = con
        self._source = source
        self._scope = scope
        self._say = say
        self._causes = Causes()
        self._quarantine = RejectedRecords(con, source, scope)
        self._slice = _FIRST
        self._to_read: set[str] = set()
        """Files that a retry reads from their start, since some of their records are not kept whole."""
        views = views or source
        if views in SOURCES and views not in sources_of(con):
            with writing(con, here):
                create_views(con, views)

    def finish(self) -> None:
        """Do the remaining work after the files."""
        raise NotImplementedError

    def retry(self) -> RetryResult:
        """Retry the rejected records; those that can be used now are imported and no longer rejected."""
        done = RetryResult()
        try:
            for kept, content in self._quarantine.waiting():
                done = RetryResult(done.tried + 1, done.good + self._retried(kept, content))
        finally:
            self.finish()
        self._to_read = self._quarantine.files_to_read()
        return done._replace(needs_file=rejected.needing_file(self._con, self._source, self._scope))

    def _retried(self, kept: RejectedEntry, content: bytes) -> bool:
        """Retry one rejected record; returns whether it was imported and removed from the list."""
        raise NotImplementedError

    def _cannot_read(self, complaint: str) -> None:
        self._say(complaint)
        self.report.unreadable += 1

    def _say_news(self, news: Iterable[RejectedRecord]) -> None:
        """Report the newly rejected records, in one line for each reason."""
        for one in news:
            self.report.news += 1
            where = ": ".join(filter(None, (one.file, one.position)))
            self._causes.add(where, f"{one.fault.reason}; left out")

    def _say_causes(self) -> None:
        """Report what was found since the last call: one line for each cause."""
        for line in self._causes.take():
            self._say(line)

    def _slices(self, work: Sequence[T]) -> Iterator[Sequence[T]]:
        """Split work into parts that each take about the time of a slice, as `_adapt` measures it."""
        start = 0
        while start < len(work):
            part = work[start : start + self._slice]
            start += len(part)
            yield part

    def _adapt(self, records: int, seconds: float) -> None:
        """Adapt the size of slices to a measurement: ``records`` took ``seconds``."""
        wanted = int(records * self._slice_s / max(seconds, 1e-6))
        self._slice = max(self._smallest, min(wanted, 2 * self._slice, _LARGEST))

    def _in_halves(
        self, work: Sequence[T], run: Callable[[Sequence[T]], None], refuse: Callable[[T, Fault], None]
    ) -> None:
        """
        Do work in one transaction, which ``run`` opens; if it fails, repeat it in halves.

        This finds the record that fails, and ``refuse`` gets only that one. Raises errors that are not about a record.
        """
        try:
            run(work)
        except Exception as error:
            self._taken_back()
            if not rejected.is_of_record(error):
                raise
            if len(work) == 1:
                refuse(work[0], rejected.fault(error))
                return
            for half in (work[: len(work) // 2], work[len(work) // 2 :]):
                self._in_halves(half, run, refuse)

    def _taken_back(self) -> None:
        """Clear the caches after a transaction that was rolled back."""
        self._quarantine.forget()
