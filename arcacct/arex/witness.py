"""
A-REX's own database as witness of jobs whose files are gone.

It is asked only when there is something that neither our database nor the control directory explains, and never so
that A-REX could notice (INVARIANTS 1). Where its file has to be copied first, that takes a hundredth of the time at
most, whatever its size: in between the witness is silent, and whoever needs it waits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial

from arcacct.arex import database as arex_database
from arcacct.arex import own
from arcacct.arex.database import ArexDatabase
from arcacct.arex.importing import SOURCE, Archives, import_lock, settled_before, sorted_out
from arcacct.arex.records import EventClock, job_of
from arcacct.arex.sweeping import Gap, SweepRun, batches, reason
from arcacct.database import access
from arcacct.errors import InputError, StoreError
from arcacct.records import row_mapping
from arcacct.records.model import Job
from arcacct.records.reader import unescaped
from arcacct.records.recorder import escaped
from arcacct.records.row_mapping import ArexRows
from arcacct.records.states import FINAL, IN_PROGRESS
from arcacct.records.writer import JobWriter, known_jobs
from arcacct.wording import count_of

MINUTE_NS = 60 * 10**9
ABSENT_NS = 10 * MINUTE_NS
"""A-REX writes a job into its database some seconds after it was submitted: one that is not there later never was."""
IN_PROGRESS_NS = 60 * MINUTE_NS
"""A job that is still in progress there, so long after it went away: A-REX was killed, and never wrote the end."""
SILENT_NS = 24 * 60 * MINUTE_NS
"""For so long a job waits for a database that cannot be read."""
_PATIENCE_S = 2.0
"""How long one sweep waits for a moment in which A-REX does not write."""
_PAUSES = 100
"""How much longer than one look at the database the pause after it is."""
_CHEAP_S = 0.2
"""A look that cost no more needs no pause."""
_LOOKED_UP_JOBS = 200


class ArexLookup:
    """
    Looks up for one sweep what A-REX itself has recorded; a context manager.

    Nothing is opened before it is asked for a job. Whatever is wrong with A-REX's database, the sweep goes on.
    """

    def __init__(self, run: SweepRun) -> None:
        self.taken: set[str] = set()
        """Jobs that are whole in our database, as far as A-REX knew them, since this sweep."""
        self._run = run
        self._paths: list[str] | None = None
        self._open: dict[str, ArexDatabase] = {}
        self._stack = ExitStack()
        self._clock = EventClock(None)
        self._archives: Archives | None = None
        self._is_silent = False
        self._problem = ""
        self._waited_for = 0
        self._pause_s = 0.0
        self._patience_ns: dict[str, int] = {}

    def __enter__(self) -> ArexLookup:
        return self

    def __exit__(self, *_error: object) -> None:
        """Close A-REX's database, and tell what waits in vain."""
        self._stack.close()
        # A pause is no trouble: the look before it was told, or went well.
        if self._waited_for and self._problem:
            self._run.complaints.append(
                f"{self._problem}; {count_of(self._waited_for, 'job')} with no files left: waiting for what A-REX has"
                " recorded of them, for a day at most; `arcacct import arex` takes it over later, too"
            )

    def take(self, job_ids: Iterable[str]) -> set[str]:
        """
        Record these jobs as A-REX's own databases have them; returns those that are at their end in ours now.

        One that is in progress there is recorded as that, or keeps what we have of it. Transactions of its own, so not
        inside of one. Raises StoreError when our own database is at fault.
        """
        asked = {escaped(job_id): job_id for job_id in job_ids}
        whole: set[str] = set()
        if asked:
            for path in self._databases():
                left = [key for key, job_id in asked.items() if job_id not in whole]
                for some in batches(left, _LOOKED_UP_JOBS):
                    whole |= self._taken(path, some)
        self.taken |= whole
        if whole:
            self._run.found[Gap.TAKEN] += len(whole)
        return whole

    def may_still_report(self, job_id: str, event_ns: int, gone_ns: int) -> bool:
        """
        Whether a job that was asked for and not taken may still be explained, so that it is left to the next sweep.

        ``event_ns`` is when the last that is known of it happened, ``gone_ns`` since when it waits for an explanation.
        """
        if not self._databases():
            return False
        now_ns = time.time_ns()
        waits_ns = abs(now_ns - gone_ns)
        if self._is_silent:
            self._waited_for += IN_PROGRESS_NS < waits_ns < SILENT_NS
            return waits_ns < SILENT_NS
        if job_id in self._patience_ns:
            return waits_ns < self._patience_ns[job_id]
        return abs(now_ns - event_ns) < ABSENT_NS

    def _databases(self) -> list[str]:
        if self._paths is None:
            self._paths = own.own_databases(self._run.here)
        return self._paths

    def _taken(self, path: str, keys: Sequence[str]) -> set[str]:
        rows: list[ArexRows] = []
        try:
            database = self._database(path)
            if database is not None:
                with access.translating(path):
                    rows = row_mapping.rows_of_jobs(database.con, database.version, keys)
        except (StoreError, InputError, OSError) as error:
            # Nothing, when it cannot be read now.
            self._is_silent = True
            self._problem = reason(error, path)
        parts = sorted_out(rows, settled_before())
        for row in rows:
            if row.record_id in parts.unfinished:
                patience_ns = IN_PROGRESS_NS if row.status == IN_PROGRESS else SILENT_NS
                self._patience_ns[unescaped(row.job_id)] = patience_ns
        jobs = [job_of(row, self._clock) for row in parts.usable]
        whole: set[str] = set()

        def refused(job: Job, error: Exception) -> None:
            self._run.complaints.append(f"{job.job_id}: {reason(error, path)}; what A-REX has of it is not taken over")

        for some in self._run.slices(jobs):
            write = partial(self._write, os.path.realpath(path))
            whole.update(*self._run.record_each(some, write, refused))
        return whole

    def _database(self, path: str) -> ArexDatabase | None:
        if path in self._open:
            return self._open[path]
        here = self._run.here
        if not self._is_silent and not self._open:
            with access.translating(here.database):
                self._is_silent = own.ask_after(self._run.con) > time.time()
        if self._is_silent:
            # What could not be had a moment ago is not tried again: the next sweep does.
            return None
        begun = time.monotonic()
        try:
            if not self._open:
                self._stack.enter_context(import_lock(os.path.join(here.directory, "import.lock")))
            opened = arex_database.opened(path, here.directory, patience_s=_PATIENCE_S, at_rest=not self._run.goes_on)
            self._open[path] = self._stack.enter_context(opened)
        finally:
            self._pause_s += time.monotonic() - begun
            if self._pause_s > _CHEAP_S:
                with self._run.writing():
                    own.save_pause(self._run.con, _PAUSES * self._pause_s)
        return self._open[path]

    def _write(self, origin: str, jobs: list[Job]) -> set[str]:
        """One transaction: which of these jobs are at their end in our database now."""
        con = self._run.con
        if self._archives is None:
            self._archives = Archives(con)
            self._stack.callback(self._archives.close)
        kept = self._archives.without_archived(con, jobs)
        # Made for each transaction: one that was rolled back leaves no names behind.
        JobWriter(con, SOURCE, origin).write(kept)
        ended = known_jobs(con, [job.job_id for job in kept if job.status in FINAL])
        return {job_id for job_id, known in ended.items() if known.status != IN_PROGRESS}
