"""What one sweep works with, and what it reports."""

from __future__ import annotations

import os
from _sqlite3 import Connection
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from arcacct.conf.places import Places
from arcacct.store import accounting, recorder

SLICE_JOBS = 20
"""Jobs recorded in one transaction: about 10 ms of the queue."""

_WRITE_BACK_SLICES = 50
"""Some 5 MB of the WAL."""
PATIENCE_S = 2.0
"""How long a .local may be locked by somebody else before its job is left to the next sweep."""

Owner = Callable[[os.stat_result], str]
Progress = Callable[[int, int], None]
"""Called with the jobs that are done and the jobs that there are."""
T = TypeVar("T")


class Found:
    """What a job was to the database: the keys of ``SweepReport.found``."""

    NEW_JOB = recorder.NEW_JOB
    NEW_END = recorder.NEW_END
    NEW_EVENT = recorder.NEW_EVENT
    CORRECTION = recorder.CORRECTION
    VANISHED = "vanished"
    WORDS: Mapping[str, str] = {
        NEW_JOB: "never seen",
        NEW_END: "finished, and in progress in the database",
        NEW_EVENT: "with events never seen",
        CORRECTION: "corrected",
        VANISHED: "vanished unfinished, now aborted",
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
    """Of the control directory's jobs, those for which the database lacked something, by kind (`Found`)."""
    complaints: tuple[str, ...]
    """What could not be used, each with the file, the reason and what to do."""

    @property
    def recorded(self) -> int:
        """Jobs for which the database lacked something."""
        return sum(self.found.values())


class Task:
    """A sweep under way."""

    __slots__ = ("_in_wal", "complaints", "con", "dry_run", "found", "here", "owner", "stopping")

    def __init__(
        self,
        here: Places,
        con: Connection,
        owner: Owner,
        dry_run: bool = False,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.here = here
        self.con = con
        self.owner = owner
        self.dry_run = dry_run
        self.stopping = stopping
        self.complaints: list[str] = []
        self.found: Counter[str] = Counter()
        self._in_wal = 0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction in turn with the hooks; a dry run takes it back."""
        if self.dry_run:
            with accounting.rehearsing(self.con, self.here):
                yield
            return
        with accounting.writing_much(self.con, self.here):
            yield
        self._in_wal += 1
        if self._in_wal == _WRITE_BACK_SLICES:
            accounting.write_back(self.con)
            self._in_wal = 0


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of ``size`` items, the last one shorter."""
    batch: list[T] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
