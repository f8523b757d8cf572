"""
Importing what sacct printed: outputs of any length, in slices that no hook waits for.

An output is read whole, whenever it is imported: what is known is known. A slice in which something fails is taken back
and done again in halves, until the job is found: it alone is rejected.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from arcacct.conf.places import Places
from arcacct.db.engine import Connection
from arcacct.db.opening import writing
from arcacct.errors import InputError, UsageError
from arcacct.files.following import Follower
from arcacct.jobs import cells
from arcacct.jobs.faults import Fault
from arcacct.jobs.filling import Conflict
from arcacct.jobs.imports import SHOWN, ImportRun, Say
from arcacct.jobs.local import has_arc_jobs
from arcacct.jobs.rejected import Kept, Reject, drop
from arcacct.slurm import stored_runs
from arcacct.slurm.command import OVERLAP_S, SacctCommand, new_delimiter, windows
from arcacct.slurm.output import OutputForm, ToldJob, read
from arcacct.slurm.record import NoUsage, SlurmRun
from arcacct.slurm.slices import RunsTaken, SlurmPolicy, make_again, take
from arcacct.slurm.stored_runs import JobNumber

QUARANTINE = "slurm"
_MOST_TEXT = 4 * 1024 * 1024
"""Characters of jobs that wait to be taken together."""


class RunsReport(NamedTuple):
    """What an import did."""

    outputs: int = 0
    jobs: int = 0
    """Rows of jobs (not of steps) that were read."""
    rejected: int = 0
    failed_jobs: int = 0
    """Jobs that could not be made again from their runs."""
    unreadable: int = 0
    """Outputs that are none, or could not be read to their end."""
    unfinished: int = 0
    """Jobs that go on."""
    never_started: int = 0
    more_conflicts: int = 0
    """Differences between A-REX and Slurm that were not said one by one."""
    taken: RunsTaken = RunsTaken()


class SlurmImport(ImportRun):
    """
    One import: what it has done so far is in ``report``.

    ``say`` is told of what cannot be used (the first SHOWN), of outputs that cannot be read, and of conflicts.
    """

    def __init__(
        self,
        here: Places,
        con: Connection,
        policy: SlurmPolicy,
        form: OutputForm,
        say: Say,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(here, con, QUARANTINE, "", say)
        stored_runs.prepare(con)
        self._policy = policy
        self._form = form
        self._clock = clock
        self._conflicts: set[Conflict] = set()
        self.report = RunsReport()

    def files(self, paths: Sequence[str]) -> None:
        """Import files, compressed or not, or ``-`` for standard input."""
        for reader in Follower(paths, self._cannot_read).once():
            self.output(reader.path, reader.chunks())

    def _cannot_read(self, complaint: str) -> None:
        self._say(complaint)
        self._count(unreadable=1)

    def output(self, name: str, chunks: Iterable[bytes], form: OutputForm | None = None) -> bool:
        """Import one output; whether it could be read to its end. ``form``: if it is another than the import's."""
        self._count(outputs=1)
        if name in self._quarantine.files_to_read():
            with writing(self._con, self._here):
                self._quarantine.anew(name)
        wait: list[ToldJob] = []
        size = 0
        complaint = ""
        try:
            for told in read(chunks, form or self._form):
                wait.append(told)
                size += len(told.content)
                if len(wait) >= self._slice or size > _MOST_TEXT:
                    self._take_all(name, wait)
                    wait, size = [], 0
        except InputError as error:
            complaint = f"{name}: {error}"
        self._take_all(name, wait)
        if complaint:
            self._cannot_read(complaint)
        return not complaint

    def _take_all(self, name: str, jobs: Sequence[ToldJob]) -> None:
        if jobs:
            self._in_halves(jobs, partial(self._take, name), partial(self._refuse, name))

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

    def _take(self, name: str, jobs: Sequence[ToldJob]) -> None:
        """One slice in one transaction."""
        runs = [one.what for one in jobs if isinstance(one.what, SlurmRun)]
        bad = [_reject(name, one, one.what) for one in jobs if isinstance(one.what, Fault)]
        taken = RunsTaken()
        if runs or bad:
            with writing(self._con, self._here) as con:
                begun = time.monotonic()
                taken = take(con, self._now(), runs)
                self._quarantine.keep(bad)
                self._adapt(len(runs), time.monotonic() - begun)
        self._told(jobs, bad)
        self._counted(taken)

    def _refuse(self, name: str, job: ToldJob, why: Fault) -> None:
        bad = _reject(name, job, why)
        with writing(self._con, self._here):
            self._quarantine.keep([bad])
        self._told([job], [bad])

    def _told(self, jobs: Sequence[ToldJob], bad: Sequence[Reject]) -> None:
        for count, one in enumerate(bad, self.report.rejected + 1):
            self._show(count, f"{one.file}: {one.position}: {one.fault.reason}; left out")
        unused = Counter(one.what.is_unfinished for one in jobs if isinstance(one.what, NoUsage))
        self._count(jobs=len(jobs), rejected=len(bad), unfinished=unused[True], never_started=unused[False])

    def _count(self, **more: int) -> None:
        now = self.report
        self.report = now._replace(**{name: getattr(now, name) + number for name, number in more.items()})

    def _counted(self, taken: RunsTaken) -> None:
        for conflict in taken.conflicts:
            if conflict in self._conflicts:
                continue
            if len(self._conflicts) < SHOWN:
                self._say(f"{conflict}; {'the first' if self._policy.prefer_arc else 'the second'} is kept")
                self._conflicts.add(conflict)
            else:
                self._count(more_conflicts=1)
        self.report = self.report._replace(taken=self.report.taken.plus(taken._replace(conflicts=())))

    def _now(self) -> SlurmPolicy:
        return self._policy._replace(now=int(self._clock()))

    def finish(self) -> None:
        """What is left after the outputs: jobs that A-REX finished since, jobs that waited, and the monthly sums."""
        # What is completed now is logged after this: the next import looks at it once and changes nothing.
        horizon = stored_runs.horizon(self._con)
        with_arc = has_arc_jobs(self._con)
        for cluster in stored_runs.clusters(self._con):
            self._make_again(self._logged_by_arc(cluster, horizon) if with_arc else ())
            self._see(cluster, horizon)
        self.report = self.report._replace(taken=self.report.taken._replace(waiting=0))
        self._make_again(stored_runs.waiting(self._con))
        cells.advance(self._con, self._here)

    def _logged_by_arc(self, cluster: str, horizon: int) -> Iterator[list[JobNumber]]:
        """The numbers of A-REX's jobs that ended or changed since the last import, in pages."""
        while logged := stored_runs.logged_since(self._con, stored_runs.seen(self._con, cluster), horizon):
            yield [(cluster, number) for _seq, number in logged if number]
            self._see(cluster, logged[-1][0])

    def _see(self, cluster: str, seq: int) -> None:
        if stored_runs.seen(self._con, cluster) < seq:
            with writing(self._con, self._here) as con:
                stored_runs.see(con, cluster, seq)

    def again(self) -> None:
        """Make every job again from its runs: the configuration says something else now."""
        self._make_again(stored_runs.all_jobs(self._con))

    def _make_again(self, pages: Iterable[list[JobNumber]]) -> None:
        for page in pages:
            for part in self._slices(page):
                self._in_halves(part, self._make_part, self._cannot_make)

    def _make_part(self, part: Sequence[JobNumber]) -> None:
        with writing(self._con, self._here) as con:
            begun = time.monotonic()
            taken = make_again(con, self._now(), part)
            self._adapt(len(part), time.monotonic() - begun)
        self._counted(taken)

    def _cannot_make(self, job: JobNumber, why: Fault) -> None:
        self._count(failed_jobs=1)
        if self.report.failed_jobs <= SHOWN:
            cluster, number = job
            self._say(f"job {number} of {cluster}: cannot be made from its runs: {why.reason}; it stays as it was")

    def _retried(self, kept: Kept, content: bytes) -> bool:
        refused: list[object] = []
        self._in_halves([content], lambda _all: self._take_once_more(kept, content), lambda *why: refused.append(why))
        return not refused

    def _take_once_more(self, kept: Kept, content: bytes) -> None:
        found = [one.what for one in read([content], self._form)]
        for one in found:
            if isinstance(one, Fault):
                raise InputError(one.reason)
        with writing(self._con, self._here) as con:
            taken = take(con, self._now(), [one for one in found if isinstance(one, SlurmRun)])
            drop(con, [kept.rejected_id])
        self._counted(taken)


def _reject(name: str, job: ToldJob, why: Fault) -> Reject:
    return Reject(name, job.position, why, job.content.encode("utf-8", "surrogateescape"), job.length)
