"""The power is cut around commands that remember how far they read: an export, a snapshot."""

from __future__ import annotations

import functools
import pathlib
import random
import sqlite3
import time
from calendar import timegm
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from disturbed_host import BENCHMARK, LIFE, job_files
from job_files import Files
from power_cut_hosts import Loss, Recording, compared, jobs_in, jobs_of, played, record, run
from power_cuts import Cut

from arcacct.cli.main import main
from arcacct.config.paths import Places, places

ROUNDS = 3
_TEXTS = ("local", "diag", "statistics")


def files_of(job_id: str, state: str, *, failed: bool, months_ago: int = 0) -> Files:
    """The control files of a job; each job ends in a month of its own."""
    number = int(job_id[3:]) + months_ago
    files = job_files(job_id, state, LIFE.index(state), failed=failed)
    year, month = divmod(2026 * 12 + 10 - number, 12)
    texts = {
        name: text.replace(b"202611", b"%04d%02d" % (year, month + 1)).replace(
            b"2026-11", b"%04d-%02d" % (year, month + 1)
        )
        for name in _TEXTS
        if (text := getattr(files, name)) is not None
    }
    # The same moment of that month: a job that ends before it was submitted would be held.
    at_s, rest_ns = divmod(files.mtime_ns, 10**9)
    moment = time.gmtime(at_s)
    at_s = timegm((year, month + 1, *moment[2:6]))
    return files._replace(mtime_ns=at_s * 10**9 + rest_ns, **texts)


def benchmarked(control: str) -> Places:
    """A host of these tests, by its control directory."""
    here = places(None, control)
    here.rules.default_benchmark = BENCHMARK
    return here


class Reading(Recording):
    """
    Jobs are recorded and not synced; a command reads them, in some rounds.

    After the cut A-REX's jobs are recorded once more in another order, so numbers that were lost are given to other
    jobs; then the same command runs once more.
    """

    JOBS = 12
    CODES = (0,)
    """Exit codes of the command after a cut."""
    files = staticmethod(files_of)

    def command(self) -> tuple[list[str], dict[str, str]]:
        self.copies = self.host.control.parent / "copies"
        for job_id in self.jobs:
            self.lay(self.host, job_id, "FINISHED")
        return played(type(self), self.host.control, self.host.conf, *self.arguments()), {}

    def arguments(self) -> Sequence[str]:
        """The command, for the databases as they are then."""
        raise NotImplementedError

    @classmethod
    def rounds(cls, control: str, conf: str, *arguments: str) -> Iterator[Callable[[], object]]:
        """What is traced: some jobs are recorded, and the command follows."""
        for jobs in cls.jobs_by_round():
            yield functools.partial(record, benchmarked(control), jobs, cls.files)
            yield functools.partial(main, ["--config", conf, *arguments])

    @classmethod
    def jobs_by_round(cls) -> list[dict[str, bool]]:
        """The jobs that are recorded in each round."""
        jobs, size = [*jobs_of(cls.JOBS).items()], cls.JOBS // ROUNDS
        return [dict(jobs[number * size : (number + 1) * size]) for number in range(ROUNDS)]

    def run_again(self) -> None:
        """The command, after the cut."""
        run(self.host.conf, self.arguments(), self.CODES)

    def record_again(self, seed: int) -> None:
        """Record every job, in an order of chance."""
        job_ids = random.Random(seed).sample([*self.jobs], len(self.jobs))
        for job_id in job_ids:
            self.record(self.host, job_id, LIFE)

    def after(self, cut: Cut) -> list[Loss]:
        early = self.early()
        self.record_again(cut.seed)
        self.host.sweep()
        self.run_again()
        return [*early, *compared(jobs_in(self.host.database), self.wanted), *self.differing()]

    def early(self) -> list[Loss]:
        """What is wrong as the cut left it."""
        return []

    def differing(self) -> list[Loss]:
        """What is wrong in what the command wrote."""
        return []


class Exporting(Reading):
    """`arcacct export`: the dataset is what a first export of the same database would write."""

    def arguments(self) -> Sequence[str]:
        return ["export", "--site", "SITE", "--ce", "ce.example.org", str(self.copies / "data" / "set")]

    def differing(self) -> list[Loss]:
        from exported_site import read

        from arcacct.export.storage import LocalStore

        found, wanted = (read(LocalStore(str(place))) for place in (self.copies / "data" / "set", self._anew()))
        return [Loss("not in the dataset", table) for table in wanted if found[table] != wanted[table]]

    def _anew(self) -> pathlib.Path:
        from exported_site import WISHES

        from arcacct.export.storage import LocalStore
        from arcacct.export.writer import export

        self._number = getattr(self, "_number", 0) + 1
        place = self.host.control.parent.parent / f"anew-{self._number}"
        export(self.host.places, LocalStore(str(place)), WISHES)
        return place


class Snapshotting(Reading):
    """`arcacct db snapshot`: it has nothing that the database does not have."""

    def arguments(self) -> Sequence[str]:
        return ["db", "snapshot", str(self.copies / "deep" / "er")]

    @property
    def copy(self) -> pathlib.Path:
        """The copy of the accounting database."""
        return self.copies / "deep" / "er" / "accounting.db"

    def early(self) -> list[Loss]:
        if not self.copy.exists():
            return []
        here = logged(self.host.database)
        return [
            Loss("only in the copy", str(seq)) for seq, job_id in logged(self.copy).items() if here.get(seq) != job_id
        ]

    def differing(self) -> list[Loss]:
        return compared(jobs_in(self.copy), self.wanted)


def logged(database: pathlib.Path) -> dict[int, str]:
    """The JobID of each Seq of a database's log."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as con:
        return dict(con.execute("SELECT Seq, JobID FROM FinishedLog JOIN AAR USING (RecordID)"))
