"""
Importing what sacct printed: outputs of any length, in slices that no hook waits for.

An output is read whole, whenever it is imported: what is known is known. A slice in which something fails is taken back
and done again in halves, until the job is found: it alone is rejected.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from arcacct.conf.places import Places
from arcacct.db.engine import Connection
from arcacct.db.opening import writing
from arcacct.errors import InputError, UsageError
from arcacct.files.following import Follower
from arcacct.jobs import cells
from arcacct.jobs.faults import Fault
from arcacct.jobs.filling import Conflict
from arcacct.jobs.local import has_arc_jobs
from arcacct.jobs.rejected import Quarantine, Reject, Retried, drop, fault, is_of_record, needing_file
from arcacct.slurm import stored_runs
from arcacct.slurm.command import OVERLAP_S, SacctCommand, new_delimiter, windows
from arcacct.slurm.output import OutputForm, ToldJob, read
from arcacct.slurm.record import NoUsage, SlurmRun
from arcacct.slurm.slices import RunsTaken, SlurmPolicy, make_again, take
from arcacct.slurm.stored_runs import JobNumber

QUARANTINE = "slurm"
SHOWN = 10
"""So many bad jobs are shown of an import."""
_SLICE_S = 0.03
"""How long a slice should hold the queue of writers."""
_SMALLEST, _LARGEST = 50, 500
_MOST_TEXT = 4 * 1024 * 1024
"""Characters of jobs that wait to be taken together."""

Say = Callable[[str], None]
"""Called with something that a person should know while the import runs."""


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


class SlurmImport:
    """
    One import: what it has done so far is in ``report``.

    ``say`` is told of what cannot be used (the first SHOWN), of outputs that cannot be read, and of conflicts.
    Raises StoreError when the database refuses; nothing that was taken is lost then.
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
        stored_runs.prepare(con)
        self._here = here
        self._con = con
        self._policy = policy
        self._form = form
        self._say = say
        self._clock = clock
        self._quarantine = Quarantine(con, QUARANTINE)
        self._conflicts: set[Conflict] = set()
        self._slice = _SMALLEST
        self._begun = 0
        self.report = RunsReport()

    def files(self, paths: Sequence[str]) -> None:
        """SlurmImport files, compressed or not, or ``-`` for standard input."""
        for reader in Follower(paths, self._unreadable).once():
            self.output(reader.path, reader.chunks())

    def _unreadable(self, complaint: str) -> None:
        self._say(complaint)
        self._count(unreadable=1)

    def output(self, name: str, chunks: Iterable[bytes], form: OutputForm | None = None) -> bool:
        """SlurmImport one output; whether it could be read to its end. ``form``: if it is another than the import's."""
        self._count(outputs=1)
        if name in self._quarantine.files_to_read():
            with writing(self._con, self._here):
                self._quarantine.anew(name)
        wait: list[ToldJob] = []
        size = 0
        try:
            for told in read(chunks, form or self._form):
                wait.append(told)
                size += len(told.content)
                if len(wait) >= self._slice or size > _MOST_TEXT:
                    self._take(name, wait)
                    wait, size = [], 0
        except InputError as error:
            self._unreadable(f"{name}: {error}")
            return False
        finally:
            # What was read before the end of what can be.
            self._take(name, wait)
        return True

    def ask(self, command: SacctCommand, since: int | None) -> None:
        """
        SlurmImport what sacct says of all time since the last asking, or ``since``, each window whole.

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

    def _take(self, name: str, jobs: Sequence[ToldJob], refused: Fault | None = None) -> None:
        """One slice in one transaction; ``refused``: why the only one of these jobs cannot be used."""
        if not jobs:
            return
        runs = [one.what for one in jobs if isinstance(one.what, SlurmRun)] if refused is None else []
        faults = [(one, one.what if isinstance(one.what, Fault) else refused) for one in jobs]
        bad = [Reject(name, one.position, why, _kept(one), one.length) for one, why in faults if why is not None]
        taken = RunsTaken()
        if runs or bad:
            try:
                with writing(self._con, self._here) as con:
                    begun = time.monotonic()
                    taken = take(con, self._now(), runs)
                    self._quarantine.keep(bad)
                    self._adapt(len(runs), time.monotonic() - begun)
            except Exception as error:
                self._quarantine.forget()
                if refused is not None or not is_of_record(error):
                    raise
                if len(jobs) == 1:
                    self._take(name, jobs, fault(error))
                else:
                    for half in (jobs[: len(jobs) // 2], jobs[len(jobs) // 2 :]):
                        self._take(name, half)
                return
        self._told(jobs, bad)
        self._counted(taken)

    def _told(self, jobs: Sequence[ToldJob], bad: Sequence[Reject]) -> None:
        for number, one in enumerate(bad, self.report.rejected + 1):
            if number <= SHOWN:
                self._say(f"{one.file}: {one.position}: {one.fault.reason}; left out")
            elif number == SHOWN + 1:
                self._say("further ones are only counted")
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

    def _adapt(self, runs: int, seconds: float) -> None:
        wanted = int(runs * _SLICE_S / max(seconds, 1e-6))
        self._slice = max(_SMALLEST, min(wanted, 2 * self._slice, _LARGEST))

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
            start = 0
            while start < len(page):
                part = page[start : start + self._slice]
                start += len(part)
                self._make_part(part)

    def _make_part(self, part: list[JobNumber]) -> None:
        try:
            with writing(self._con, self._here) as con:
                begun = time.monotonic()
                taken = make_again(con, self._now(), part)
                self._adapt(len(part), time.monotonic() - begun)
        except Exception as error:
            if not is_of_record(error):
                raise
            if len(part) > 1:
                for half in (part[: len(part) // 2], part[len(part) // 2 :]):
                    self._make_part(half)
                return
            self._count(failed_jobs=1)
            if self.report.failed_jobs <= SHOWN:
                cluster, number = part[0]
                self._say(f"job {number} of {cluster}: cannot be made from its runs: {fault(error).reason}")
        else:
            self._counted(taken)

    def retry(self) -> Retried:
        """Take once more what was rejected; what can be used now is rejected no longer."""
        done = Retried()
        for kept, content in self._quarantine.waiting():
            done = done._replace(tried=done.tried + 1, good=done.good + self._retried(kept.rejected_id, content))
        return done._replace(needs_file=needing_file(self._con, QUARANTINE))

    def _retried(self, rejected_id: int, content: bytes) -> bool:
        try:
            found = [one.what for one in read([content], self._form)]
            if any(isinstance(one, Fault) for one in found):
                return False
            with writing(self._con, self._here) as con:
                taken = take(con, self._now(), [one for one in found if isinstance(one, SlurmRun)])
                drop(con, [rejected_id])
        except Exception as error:
            self._quarantine.forget()
            if not is_of_record(error):
                raise
            return False
        self._counted(taken)
        return True


def _kept(one: ToldJob) -> bytes:
    return one.content.encode("utf-8", "surrogateescape")
