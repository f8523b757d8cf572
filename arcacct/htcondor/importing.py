"""
Importing HTCondor's history: files and outputs of any length, in slices that no hook waits for.

A history is read whole, whenever it is imported: it is rotated at 20 MB, and what is known is known. A slice in which
something fails is taken back and done again in halves, until the job is found: it alone is rejected.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from arcacct.config.paths import Places
from arcacct.database.access import writing
from arcacct.database.connection import Connection
from arcacct.errors import InputError, UsageError
from arcacct.files.follow import FileTailer
from arcacct.htcondor import stored_jobs
from arcacct.htcondor.command import OVERLAP_S, HistoryCommand
from arcacct.htcondor.local_jobs import cluster_of
from arcacct.htcondor.output import HistoryForm, ParsedJob, read
from arcacct.htcondor.record import ELSEWHERE_RUN, NEVER_STARTED, UNFINISHED, CondorJob, NoUse
from arcacct.htcondor.slices import make_again, take
from arcacct.htcondor.stored_jobs import JobNumber
from arcacct.records.import_quarantine import Fault, Reject, RejectedEntry, forget
from arcacct.records.imports import BatchImport, BatchPolicy, BatchReport, BatchTaken, Say

QUARANTINE = "htcondor"


@dataclass
class HistoryReport(BatchReport):
    """What an import did."""

    jobs: int = 0
    """Ads that were read."""
    rejected: int = 0
    unfinished: int = 0
    never_started: int = 0
    elsewhere: int = 0
    """Jobs that took no slot of the pool."""


class HTCondorImport(BatchImport[JobNumber]):
    """
    One import: what it has done so far is in ``report``.

    ``say`` is told of what cannot be used (the first SHOWN), of histories that cannot be read, and of conflicts.
    """

    progress_of = ("HTCondorProgress", "Schedd")
    report: HistoryReport
    made = staticmethod(make_again)

    def __init__(
        self,
        here: Places,
        con: Connection,
        policy: BatchPolicy,
        form: HistoryForm,
        say: Say,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(here, con, policy, QUARANTINE, say, clock)
        self._form = form
        self.report = HistoryReport()

    def files(self, paths: Sequence[str]) -> None:
        """Import files, compressed or not, or ``-`` for standard input."""
        for reader in FileTailer(paths, self._cannot_read).once():
            self.output(reader.path, reader.chunks())

    def output(self, name: str, chunks: Iterable[bytes]) -> bool:
        """Import one history; whether it could be read to its end."""
        take_slice = partial(self._take, name)
        told = partial(read, chunks, self._form)
        return self._take_output(name, told, take_slice, lambda job, why: take_slice([job._replace(what=why)]))

    def ask(self, command: HistoryCommand, since: int | None) -> None:
        """
        Import what condor_history says of all time since the last asking, or ``since``.

        Raises UsageError when neither is known.
        """
        place = command.schedd or ""
        asked = stored_jobs.asked_until(self._con, place)
        if since is None and asked is None:
            raise UsageError(
                "condor_history was never asked before: give --since, the day when your accounting is to begin"
            )
        start = since if since is not None else max(0, (asked or 0) - OVERLAP_S)
        now = int(self._clock())
        if self.output(command.program, command.ask(start, self._form.attributes)) and now > (asked or 0):
            with writing(self._con, self._here) as con:
                stored_jobs.ask_until(con, place, now)

    def _take(self, name: str, jobs: Sequence[ParsedJob]) -> None:
        """One slice in one transaction."""
        good = [one.what for one in jobs if isinstance(one.what, CondorJob)]
        bad = [
            Reject(name, one.position, one.what, one.content, one.length) for one in jobs if isinstance(one.what, Fault)
        ]
        taken = BatchTaken()
        news: list[Reject] = []
        if good or bad:
            with writing(self._con, self._here) as con:
                begun = time.monotonic()
                taken = take(con, self._now(), good)
                news = self._quarantine.keep(bad)
                self._adapt(len(good), time.monotonic() - begun)
        for count, one in enumerate(news, self.report.news + 1):
            self._show(count, f"{one.file}: {one.position}: {one.fault.reason}; left out")
        self.report.news += len(news)
        unused = Counter(one.what.why for one in jobs if isinstance(one.what, NoUse))
        self.report.jobs += len(jobs)
        self.report.rejected += len(bad)
        self.report.unusable.update(name for one in jobs if isinstance(one.what, CondorJob) for name in one.unusable)
        self.report.unfinished += unused[UNFINISHED]
        self.report.never_started += unused[NEVER_STARTED]
        self.report.elsewhere += unused[ELSEWHERE_RUN]
        self._count(taken)

    def _cells(self) -> list[str]:
        return stored_jobs.schedds(self._con)

    def _number_of(self, local_job_id: str) -> int | None:
        return cluster_of(local_job_id)

    def _numbered(self, cell: str, number: int) -> JobNumber:
        return cell, number, 0

    def _pages(self, *, waiting: bool) -> Iterator[list[JobNumber]]:
        return stored_jobs.waiting(self._con) if waiting else stored_jobs.all_jobs(self._con)

    def _called(self, job: JobNumber) -> str:
        schedd, cluster, proc = job
        return f"job {cluster}.{proc} of {schedd}: cannot be made from what is kept of it"

    def _once_more(self, kept: RejectedEntry, content: bytes) -> None:
        found = [one.what for one in read([content], self._form)]
        for one in found:
            if isinstance(one, Fault):
                raise InputError(one.reason)
        with writing(self._con, self._here) as con:
            taken = take(con, self._now(), [one for one in found if isinstance(one, CondorJob)])
            forget(con, [kept.rejected_id])
        self._count(taken)
