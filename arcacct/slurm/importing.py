"""
Importing what sacct printed: outputs of any length, in slices that no hook waits for.

An output is read whole, whenever it is imported: what is known is known. A slice in which something fails is undone
and done again in halves, until the job is found: it alone is rejected.
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
from arcacct.records.import_quarantine import Fault, Reject, RejectedEntry, forget
from arcacct.records.imports import BatchImport, BatchPolicy, BatchReport, BatchTaken, Say
from arcacct.records.slurm_formats import new_delimiter
from arcacct.slurm import stored_runs
from arcacct.slurm.command import OVERLAP_S, SacctCommand, windows
from arcacct.slurm.output import OutputForm, ParsedJob, read
from arcacct.slurm.record import NoUsage, SlurmRun
from arcacct.slurm.rows import Noise
from arcacct.slurm.slices import make_again, take
from arcacct.slurm.stored_runs import JobNumber

QUARANTINE = "slurm"
_MOST_SHOWN = 200
"""Characters of a line that is ignored."""


@dataclass
class RunsReport(BatchReport):
    """What an import did."""

    jobs: int = 0
    """Rows of jobs (not of steps) that were read."""
    rejected: int = 0
    """Jobs that cannot be used."""
    lines: int = 0
    """Lines that cannot be used and cost no job."""
    noise: int = 0
    """Lines without the delimiter: blank, or of another program."""
    unfinished: int = 0
    """Jobs that go on."""
    never_started: int = 0


class SlurmImport(BatchImport[JobNumber]):
    """
    One import: what it has done so far is in ``report``.

    ``say`` is told of what cannot be used (the first SHOWN), of outputs that cannot be read, and of conflicts.
    """

    progress_of = ("SlurmProgress", "Cluster")
    report: RunsReport
    made = staticmethod(make_again)

    def __init__(
        self,
        here: Places,
        con: Connection,
        policy: BatchPolicy,
        form: OutputForm,
        say: Say,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(here, con, policy, QUARANTINE, say, clock)
        self._form = form
        self.report = RunsReport()

    def files(self, paths: Sequence[str]) -> None:
        """Import files, compressed or not, or ``-`` for standard input."""
        for reader in FileTailer(paths, self._cannot_read).once():
            self.output(reader.path, reader.chunks())

    def output(self, name: str, chunks: Iterable[bytes], form: OutputForm | None = None) -> bool:
        """Import one output; whether it could be read to its end. ``form``: if it is another than the import's."""
        take_slice = partial(self._take, name)
        told = partial(read, chunks, form or self._form)
        return self._take_output(name, told, take_slice, lambda job, why: take_slice([job._replace(what=why)]))

    def ask(self, command: SacctCommand, since: int | None) -> None:
        """
        Import what sacct says of all time since the last asking, or ``since``, each window whole.

        Raises UsageError when neither is known.
        """
        place = self._form.cluster or ""
        asked = stored_runs.asked_until(self._con, place)
        if since is None and asked is None:
            raise UsageError("sacct was never asked before: give --since, the day when your accounting is to begin")
        start = since if since is not None else (asked or 0) - OVERLAP_S
        for window in windows(start, int(self._clock())):
            form = self._form._replace(delimiter=new_delimiter())
            if not self.output(command.program, command.ask(window, form.delimiter or ""), form):
                return
            if window.end > (asked or 0):
                with writing(self._con, self._here) as con:
                    stored_runs.ask_until(con, place, window.end)

    def _take(self, name: str, jobs: Sequence[ParsedJob]) -> None:
        """One slice in one transaction."""
        runs = [one.what for one in jobs if isinstance(one.what, SlurmRun)]
        bad = [
            Reject(name, one.position, one.what, one.content.encode("utf-8", "surrogateescape"), one.length)
            for one in jobs
            if isinstance(one.what, Fault)
        ]
        taken = BatchTaken()
        news: list[Reject] = []
        if runs or bad:
            with writing(self._con, self._here) as con:
                begun = time.monotonic()
                taken = take(con, self._now(), runs)
                news = self._quarantine.keep(bad)
                self._adapt(len(runs), time.monotonic() - begun)
        for count, one in enumerate(news, self.report.news + 1):
            self._show(count, f"{one.file}: {one.position}: {one.fault.reason}; left out")
        self.report.news += len(news)
        unused = Counter(one.what.is_unfinished for one in jobs if isinstance(one.what, NoUsage))
        lines = [one for one in jobs if one.is_line]
        noise = [one for one in lines if isinstance(one.what, Noise)]
        for count, note in enumerate((one for one in noise if one.content.strip()), self.report.noise + 1):
            self._show(count, f"{name}: {note.position}: {note.content[:_MOST_SHOWN]!r} is no row; ignored")
        self.report.jobs += len(jobs) - len(lines)
        self.report.noise += len(noise)
        self.report.lines += len(lines) - len(noise)
        self.report.rejected += len(bad) - (len(lines) - len(noise))
        self.report.unusable.update(field for one in jobs if isinstance(one.what, SlurmRun) for field in one.unusable)
        self.report.unfinished += unused[True]
        self.report.never_started += unused[False]
        self._count(taken)

    def _cells(self) -> list[str]:
        return stored_runs.clusters(self._con)

    def _numbered(self, cell: str, number: int) -> JobNumber:
        return cell, number

    def _pages(self, *, waiting: bool) -> Iterator[list[JobNumber]]:
        return stored_runs.waiting(self._con) if waiting else stored_runs.all_jobs(self._con)

    def _called(self, job: JobNumber) -> str:
        cluster, number = job
        return f"job {number} of {cluster}: cannot be made from its runs"

    def _once_more(self, kept: RejectedEntry, content: bytes) -> None:
        found = [one.what for one in read([content], self._form)]
        for one in found:
            if isinstance(one, Fault):
                raise InputError(one.reason)
        with writing(self._con, self._here) as con:
            taken = take(con, self._now(), [one for one in found if isinstance(one, SlurmRun)])
            forget(con, [kept.rejected_id])
        self._count(taken)
