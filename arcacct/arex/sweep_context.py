"""
The context and the report of one sweep. An error of one job is reported with its file and stops no other job.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import NamedTuple, TypeVar

from arcacct.arex.control_files import owner_of
from arcacct.config.paths import Places
from arcacct.database import access
from arcacct.database.connection import Connection
from arcacct.errors import ArcacctError, StoreError
from arcacct.records import recorder

SLICE_JOBS = 20
"""Jobs in the first transaction, and in one whose jobs may have any size: a few ms of the queue."""
_MOST_SLICE_JOBS = 200
_SLICE_S = 0.015
"""The planned time of a transaction. If the disk suddenly is three times as slow, the queue still waits only 50 ms."""
_WRITE_BACK_JOBS = 1000
"""About 5 MB of the WAL."""

Owner = Callable[[os.stat_result], str]
Progress = Callable[[int, int], None]
"""Called with the number of jobs done and the number of all jobs."""
T = TypeVar("T")
R = TypeVar("R")


class Gap:
    """The missing part of a job in the database: the keys of ``SweepReport.found``."""

    NEW_JOB = recorder.NEW_JOB
    NEW_END = recorder.NEW_END
    NEW_EVENT = recorder.NEW_EVENT
    CORRECTION = recorder.CORRECTION
    TAKEN = "taken"
    VANISHED = "vanished"
    GIVEN_UP = "given up"
    WORDS: Mapping[str, str] = {
        NEW_JOB: "never seen",
        NEW_END: "finished, and in progress in the database",
        NEW_EVENT: "with events never seen",
        CORRECTION: "corrected",
        TAKEN: "with the end that A-REX's own database has",
        VANISHED: "vanished unfinished, now aborted",
        GIVEN_UP: "given up, now aborted",
    }
    """The text for each, in the order of the report."""


class SweepReport(NamedTuple):
    """The result of one sweep. In a dry run: the result that it would have had."""

    spooled: int
    """Events from the spool."""
    jobs: int
    """Jobs with a status file in the control directory."""
    looked_at: int
    """Jobs whose files were read."""
    found: dict[str, int]
    """Jobs of the control directory for which the database lacked something, by kind (`Gap`)."""
    complaints: tuple[str, ...]
    """Unusable files, each with the reason and what to do."""

    @property
    def recorded(self) -> int:
        """Jobs for which the database lacked something."""
        return sum(self.found.values())


class SweepRun:
    """A running sweep."""

    def __init__(
        self,
        here: Places,
        con: Connection,
        owner: Owner,
        dry_run: bool = False,
        stopping: Callable[[], bool] = lambda: False,
        *,
        goes_on: bool = False,
    ) -> None:
        """Start a sweep. ``goes_on``: this process will sweep again."""
        self.goes_on = goes_on
        self.here = here
        self.con = con
        self.owner = _looked_up_once() if owner is owner_of else owner
        self.dry_run = dry_run
        self.stopping = stopping
        self.complaints: list[str] = []
        self.found: Counter[str] = Counter()
        self.reported: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        """Times of the events that the spool had, by job and state, in UTC seconds."""
        self.ends: Counter[int] = Counter()
        """Ends of jobs that no callout reported, by their hour since 1970."""
        self._in_wal = 0
        self._slice_jobs = SLICE_JOBS

    def slices(self, items: Iterable[T]) -> Iterator[list[T]]:
        """Yield lists of items for one transaction each; the time of the last transaction decides their length."""
        items = iter(items)
        while batch := [*islice(items, self._slice_jobs)]:
            yield batch

    @contextmanager
    def recording(self, jobs: int) -> Iterator[None]:
        """Open a transaction as `writing`, for the jobs of one of the `slices`."""
        with self.writing():
            begun = time.monotonic()
            yield
        took = max(time.monotonic() - begun, 1e-4)
        if jobs == self._slice_jobs or took > _SLICE_S:
            self._slice_jobs = max(SLICE_JOBS, min(2 * jobs, _MOST_SLICE_JOBS, int(jobs * _SLICE_S / took)))
        self._in_wal += jobs
        if self._in_wal >= _WRITE_BACK_JOBS:
            self.write_back()

    def writing(self) -> AbstractContextManager[Connection]:
        """Open a transaction in turn with the recorder. A dry run rolls it back."""
        if self.dry_run:
            return access.rehearsing(self.con, self.here)
        return access.writing_much(self.con, self.here)

    def complain(self, job_id: str, path: str, error: Exception) -> None:
        """Report a problem of a job in the control directory; ``path``: the file that was used."""
        self.complaints.append(f"{job_id}: {reason(error, path)}; the next sweep checks the job again")

    def record_each(
        self, items: list[T], record: Callable[[list[T]], R], wrong: Callable[[T, Exception], None]
    ) -> list[R]:
        """
        Call ``record`` with a slice in one transaction. If an item fails, use one transaction for each item.

        Returns the results of the committed calls. ``wrong`` is called with each item that cannot be recorded, outside
        of any transaction. Raises StoreError if the database has a problem.
        """
        try:
            with self.recording(len(items)):
                done = record(items)
        except Exception as error:
            if not is_of_one_job(error):
                raise
            if len(items) == 1:
                wrong(items[0], error)
                return []
        else:
            return [done]
        return [done for item in items for done in self.record_each([item], record, wrong)]

    def write_back(self) -> None:
        """Write the records from the WAL into the database, while no process waits for it."""
        if self._in_wal and not self.dry_run:
            access.write_back(self.con)
        self._in_wal = 0


def _looked_up_once() -> Owner:
    """Return an `owner_of` with a cache for one sweep: each look-up of a name reads a file or asks a server."""
    known: dict[tuple[int, int], str] = {}

    def owner(stat: os.stat_result) -> str:
        ids = (stat.st_uid, stat.st_gid)
        if ids not in known:
            known[ids] = owner_of(stat)
        return known[ids]

    return owner


def printable(text: str) -> str:
    r"""Return a text that any terminal and file accepts: invalid UTF-8 and control characters become \xHH."""
    if text.isprintable():
        return text
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def reason(error: Exception, path: str) -> str:
    """Return the text for an error: the file (``path`` if the error names none) and the problem."""
    if isinstance(error, ArcacctError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or path}: {error.strerror or error}"
    return f"{path}: unexpected {type(error).__name__}: {error}; please report it"


def is_of_one_job(error: Exception) -> bool:
    """Whether an error concerns only the present job. Other errors (database, this process) end the sweep."""
    if isinstance(error, StoreError):
        return access.refuses_values(error)
    return not isinstance(error, MemoryError)


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of ``size`` items; the last one may be shorter."""
    items = iter(items)
    while batch := [*islice(items, size)]:
        yield batch
