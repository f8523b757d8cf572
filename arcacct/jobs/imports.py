"""What every import of files does alike: what cannot be used is left out alone, said, kept, and tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from arcacct.config.paths import Places
from arcacct.database.connection import Connection
from arcacct.jobs.faults import Fault
from arcacct.jobs.rejected import Quarantine, RejectedEntry, RetryResult, fault, is_of_record, needing_file

T = TypeVar("T")
Say = Callable[[str], None]
"""Called with something that a person should know while the import runs."""
Progress = Callable[[str, int, int], None]
"""Called with a path, the bytes of it that are done and those that there are."""

SLICE_S = 0.03
"""How long a slice should hold the queue of writers."""
_FIRST, _LARGEST = 50, 500

SHOWN = 10
"""So many things of a kind that cannot be used are said one by one."""


class ImportRun:
    """
    One run of an import; ``say`` is told of what cannot be used, as it comes.

    Each slice is one transaction that moves the position in its file, too. What is wrong with the database or the
    system ends the run with a StoreError and its kinds, and nothing that was taken is lost then.
    """

    _slice_s = SLICE_S
    _smallest = _FIRST
    """Records of the smallest slice."""

    def __init__(self, here: Places, con: Connection, source: str, scope: str, say: Say) -> None:
        self._here = here
        self._con = con
        self._source = source
        self._scope = scope
        self._say = say
        self._quarantine = Quarantine(con, source, scope)
        self._slice = _FIRST
        self._to_read: set[str] = set()
        """Files of which a retry needs what is not kept whole: they are read from their beginning."""

    def finish(self) -> None:
        """What is left to do after the files."""
        raise NotImplementedError

    def retry(self) -> RetryResult:
        """Take once more what was rejected; what can be used now is rejected no longer."""
        done = RetryResult()
        try:
            for kept, content in self._quarantine.waiting():
                done = RetryResult(done.tried + 1, done.good + self._retried(kept, content))
        finally:
            self.finish()
        self._to_read = self._quarantine.files_to_read()
        return done._replace(needs_file=needing_file(self._con, self._source, self._scope))

    def _retried(self, kept: RejectedEntry, content: bytes) -> bool:
        """Take one rejected record; whether it is good now, and was dropped."""
        raise NotImplementedError

    def _show(self, count: int, what: str, others: str = "further ones are only counted") -> None:
        """Say what is wrong with a thing, the count-th of its kind, if it is one of the first."""
        if count <= SHOWN + 1:
            self._say(what if count <= SHOWN else others)

    def _slices(self, work: Sequence[T]) -> Iterator[Sequence[T]]:
        """Some work in parts that are each done in about the time for a slice, as `_adapt` is told."""
        start = 0
        while start < len(work):
            part = work[start : start + self._slice]
            start += len(part)
            yield part

    def _adapt(self, records: int, seconds: float) -> None:
        """So many records took so long."""
        wanted = int(records * self._slice_s / max(seconds, 1e-6))
        self._slice = max(self._smallest, min(wanted, 2 * self._slice, _LARGEST))

    def _in_halves(
        self, work: Sequence[T], run: Callable[[Sequence[T]], None], refuse: Callable[[T, Fault], None]
    ) -> None:
        """
        Do some work in one transaction, which ``run`` opens; where something fails, in halves.

        So what fails is found, and refused alone. Raises what is no fault of a record.
        """
        try:
            run(work)
        except Exception as error:
            self._taken_back()
            if not is_of_record(error):
                raise
            if len(work) == 1:
                refuse(work[0], fault(error))
                return
            for half in (work[: len(work) // 2], work[len(work) // 2 :]):
                self._in_halves(half, run, refuse)

    def _taken_back(self) -> None:
        """A transaction was rolled back: what was remembered of it is wrong."""
        self._quarantine.forget()
