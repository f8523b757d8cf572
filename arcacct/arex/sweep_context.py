"""
What one sweep works with and what it reports. An error of one job is reported with its file and stops no other job.
"""

from __future__ import annotations

import os
import time
from collections import Counter
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
"""Jobs recorded in the first transaction, and in one whose jobs may be of any size: a few ms of the queue."""
_MOST_SLICE_JOBS = 200
_SLICE_S = 0.015
"""What a transaction is to take: a disk that is three times as slow at once still keeps the queue waiting for 50 ms."""
_WRITE_BACK_JOBS = 1000
"""Some 5 MB of the WAL."""
PATIENCE_S = 2.0
"""How long a .local may be locked by somebody else before its job is left to the next sweep."""

Owner = Callable[[os.stat_result], str]
Progress = Callable[[int, int], None]
"""Called with the jobs that are done and the jobs that there are."""
T = TypeVar("T")
R = TypeVar("R")


class Gap:
    """What a job was to the database: the keys of ``SweepReport.found``."""

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
    """How each is told to people, in the order of telling."""


class SweepReport(NamedTuple):
    """What one sweep did; of a dry run, what it would have done."""

    spooled: int
    """Events taken from the spool."""
    jobs: int
    """Jobs with a status file in the control directory."""
    looked_at: int
    """Jobs whose files had to be read."""
    found: dict[str, int]
    """Of the control directory's jobs, those for which the database lacked something, by kind (`Gap`)."""
    complaints: tuple[str, ...]
    """What could not be used, each with the file, the reason and what to do."""

    @property
    def recorded(self) -> int:
        """Jobs for which the database lacked something."""
        return sum(self.found.values())


class SweepRun:
    """A sweep under way."""

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
        """``goes_on``: this process will sweep again."""
        self.goes_on = goes_on
        self.here = here
        self.con = con
        self.owner = _looked_up_once() if owner is owner_of else owner
        self.dry_run = dry_run
        self.stopping = stopping
        self.complaints: list[str] = []
        self.found: Counter[str] = Counter()
        self.ends: Counter[int] = Counter()
        """Ends of jobs that neither hook nor spool had told of, by their hour since 1970."""
        self._in_wal = 0
        self._slice_jobs = SLICE_JOBS

    def slices(self, items: Iterable[T]) -> Iterator[list[T]]:
        """Lists of as many items as may be recorded in one transaction, by the time that the last one took."""
        items = iter(items)
        while batch := [*islice(items, self._slice_jobs)]:
            yield batch

    @contextmanager
    def recording(self, jobs: int) -> Iterator[None]:
        """`writing`, of the jobs of one of the `slices`."""
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
        """One transaction in turn with the hooks; a dry run takes it back."""
        if self.dry_run:
            return access.rehearsing(self.con, self.here)
        return access.writing_much(self.con, self.here)

    def complain(self, job_id: str, path: str, error: Exception) -> None:
        """Tell what is wrong with a job of the control directory; ``path`` is the file at hand."""
        self.complaints.append(f"{job_id}: {reason(error, path)}; the next sweep checks the job again")

    def record_each(
        self, items: list[T], record: Callable[[list[T]], R], wrong: Callable[[T, Exception], None]
    ) -> list[R]:
        """
        ``record`` a slice in one transaction, or when one of its items spoils that, each item in one of its own.

        Returns what ``record`` returned each time that it was committed; ``wrong`` is told of each item that cannot be
        recorded, outside of any transaction. Raises StoreError when the database is at fault.
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
        """Write what was recorded from the WAL into the database, with nobody waiting."""
        if self._in_wal and not self.dry_run:
            access.write_back(self.con)
        self._in_wal = 0


def _looked_up_once() -> Owner:
    """`owner_of` for one sweep: each look-up of a name reads a file, or asks a server."""
    known: dict[tuple[int, int], str] = {}

    def owner(stat: os.stat_result) -> str:
        ids = (stat.st_uid, stat.st_gid)
        if ids not in known:
            known[ids] = owner_of(stat)
        return known[ids]

    return owner


def printable(text: str) -> str:
    r"""A text that any terminal and file takes: bytes of a name that are not UTF-8, and control characters, as \xHH."""
    if text.isprintable():
        return text
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def reason(error: Exception, path: str) -> str:
    """What is said of an error: the file, ``path`` if it names none, and what is wrong with it."""
    if isinstance(error, ArcacctError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or path}: {error.strerror or error}"
    return f"{path}: unexpected {type(error).__name__}: {error}; please report it"


def is_of_one_job(error: Exception) -> bool:
    """Whether an error is about the job at hand; else it is about the database or this process, and ends the sweep."""
    if isinstance(error, StoreError):
        return access.refuses_values(error)
    return not isinstance(error, MemoryError)


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of ``size`` items, the last one shorter."""
    items = iter(items)
    while batch := [*islice(items, size)]:
        yield batch
