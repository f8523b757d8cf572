"""The power is cut around commands that remember how far they read: an export, a snapshot, imports."""

from __future__ import annotations

import os
import pathlib
import random
import sqlite3
import sys
import time
from calendar import timegm
from contextlib import closing

from disturbed_host import BENCHMARK, LIFE, job_files
from gridengine_files import ran
from job_files import Files, lay
from power_cut_hosts import Jobs, Loss, Recording, compared, jobs_in
from power_cuts import Cut

from arcacct.arex.control_files import read_job
from arcacct.arex.sweep import record_event
from arcacct.cli.main import main
from arcacct.config.paths import Places, places
from arcacct.database.access import open_accounting
from arcacct.errors import ArcacctError, InputError
from arcacct.records.integrity import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from recording_host import Host

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


class Reading(Recording):
    """
    Jobs are recorded and not synced; a command reads them, in some rounds.

    After the cut A-REX's jobs are recorded once more in another order, so numbers that were lost are given to other
    jobs; then the same command runs once more.
    """

    JOBS = 12
    CODES = (0,)
    """Exit codes of the command after a cut."""

    def command(self) -> tuple[list[str], dict[str, str]]:
        self.copies = self.host.control.parent / "copies"
        for job_id in self.jobs:
            self.lay(self.host, job_id, "FINISHED")
        command = [sys.executable, __file__, str(self.host.control), str(self.host.conf), *self.arguments()]
        return command, {}

    files = staticmethod(files_of)
    """The control files of a job in a state."""

    def lay(self, host: Host, job_id: str, state: str) -> None:
        lay(host.control, self.files(job_id, state, failed=self.jobs[job_id]), job_id)

    def arguments(self) -> Sequence[str]:
        """The command, for the databases as they are then."""
        raise NotImplementedError

    def run_again(self) -> None:
        """The command, after the cut."""
        run(self.host.conf, self.arguments(), self.CODES)

    def record_again(self, seed: int) -> None:
        """Record every job, in an order of chance."""
        job_ids = random.Random(seed).sample([*self.jobs], len(self.jobs))
        for job_id in job_ids:
            self.record(self.host, job_id, LIFE)

    def losses(self, cut: Cut) -> list[Loss]:
        self.trace.restore(cut)
        try:
            early = self.early()
            self.record_again(cut.seed)
            self.host.sweep()
            self.run_again()
            problems = [one.question for one in check(self.host.places) if one.problems]
            lost = compared(jobs_in(self.host.database), self.wanted)
        except (ArcacctError, sqlite3.Error) as error:
            return [Loss("damaged", str(error))]
        return [*(Loss("damaged", question) for question in problems), *early, *lost, *self.differing()]

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


class ImportingGridEngine(Reading):
    """`arcacct import gridengine`: the batch system writes its file, syncs nothing, and continues after the cut."""

    # That the file was cut is reported.
    CODES = (0, InputError.exit_code)

    def command(self) -> tuple[list[str], dict[str, str]]:
        self.file = self.host.control.parent / "accounting"
        self.lines = [ran(number, 1, 60, 60 + number * 7, job_name=f"job{number}") for number in range(1, 13)]
        return super().command()

    def arguments(self) -> Sequence[str]:
        return ["import", "gridengine", str(self.file)]

    def make_wanted(self) -> Jobs:
        file = self.well.control.parent / "accounting"
        file.write_bytes(b"".join(self.lines))
        super().make_wanted()
        run(self.well.conf, ["import", "gridengine", str(file)])
        return jobs_in(self.well.database)

    def record_again(self, seed: int) -> None:
        super().record_again(seed)
        content = self.file.read_bytes() if self.file.exists() else b""
        kept = [line for line in content.splitlines(keepends=True) if line in self.lines]
        kept = kept if content.startswith(b"".join(kept)) else []
        left = [line for line in self.lines if line not in kept]
        self.file.write_bytes(b"".join([*kept, *random.Random(seed).sample(left, len(left))]))


def run(conf: pathlib.Path, arguments: Sequence[str], codes: Collection[int] = (0,)) -> None:
    """Run a command, which must end with one of these exit codes."""
    try:
        main(["--config", str(conf), *arguments])
    except SystemExit as end:
        if int(end.code or 0) not in codes:
            raise ArcacctError(f"{' '.join(arguments)}: exit code {end.code}") from None


def logged(database: pathlib.Path) -> dict[int, str]:
    """The JobID of each Seq of a database's log."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as con:
        return dict(con.execute("SELECT Seq, JobID FROM FinishedLog JOIN AAR USING (RecordID)"))


# -- what is traced


def in_child(work: Callable[[], object]) -> None:
    """Do some work in a process that ends with it; the program ends where it fails."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    if os.waitpid(pid, 0)[1]:
        sys.exit("a part of the rounds failed")


def record(here: Places, job_ids: Sequence[str], files: Callable[..., Files] = files_of) -> None:
    """Record jobs as a recorder that is killed, which closes nothing."""
    con = open_accounting(here)
    for job_id in job_ids:
        for state in LIFE:
            lay(pathlib.Path(here.controldir), files(job_id, state, failed=int(job_id[3:]) % 5 == 0), job_id)
            record_event(here, read_job(here.controldir, job_id, state), con)


def _rounds(control: str, conf: str, arguments: list[str]) -> None:
    here = places(None, control)
    here.rules.default_benchmark = BENCHMARK
    job_ids = [f"Job{number:02}" for number in range(Reading.JOBS)]
    lines = [ran(number, 1, 60, 60 + number * 7, job_name=f"job{number}") for number in range(1, 13)]
    size = len(job_ids) // ROUNDS
    for first in range(0, len(job_ids), size):
        in_child(lambda first=first: record(here, job_ids[first : first + size]))
        if "gridengine" in arguments:
            with open(arguments[-1], "ab") as file:
                file.write(b"".join(lines[first : first + size]))
        in_child(lambda: main(["--config", conf, *arguments]))


if __name__ == "__main__":
    _rounds(sys.argv[1], sys.argv[2], sys.argv[3:])
