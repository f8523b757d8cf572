"""
What recording in bulk costs: whole jobs of values in memory, and sweeps over a control directory of finished jobs.

The peer is A-REX's own writer. Its C++ managed 467 jobs a second in its faster mode (WAL), 13 transactions a job, when
it was measured, and it reads no files; here its statements are repeated in the same order by SQLite's module of Python,
in WAL mode with synchronous=FULL as A-REX has it, in turns with ours. Its jobs have 7 events, 3 further values and one
transfer, ours 8, 7 and 3. The first line is the like of what it does; a sweep reads four files of each job besides. The
peer of the second sweep is the first.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time
from contextlib import closing

import arex_writer
from control_directory import set_up
from figures import Cost, Figure, cost_of
from job_files import DIAG, LOCAL, NOON_NS, STATISTICS, Files, lay

from arcacct.arex.control_files import JobFiles, owner_of
from arcacct.arex.job_facts import job_facts
from arcacct.arex.sweep_context import SweepRun
from arcacct.config.paths import JobRules, places
from arcacct.database.access import open_accounting
from arcacct.records import recorder
from arcacct.records.states import StateChange, StatusFile

JOBS = {"smoke": 200, "small": 10_000, "large": 100_000}
TURNS = {"smoke": (1, 50, 200), "small": (3, 500, 4000), "large": (5, 1000, 20_000)}
"""How often, and how many jobs each time: the peer's, and ours in memory."""
AREX_JOBS_PER_S = 467.0
LONG_AGO_NS = NOON_NS - 10**15
EVENTS = ("PREPARING", "SUBMIT", "INLRMS", "CANCELING", "FINISHING")


def bench(size: str) -> list[Figure]:
    """The figures."""
    turns, peer_jobs, our_jobs = TURNS[size]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        both = [(_peer_us(folder / f"peer{turn}", peer_jobs), _ours_us(folder / f"ours{turn}", our_jobs))
                for turn in range(turns)]  # fmt: skip
        peer_us = statistics.median(peer for peer, _ours in both)
        ours_us = statistics.median(ours for _peer, ours in both)
        return [*_in_memory(ours_us, peer_us, our_jobs), *_sweeps(folder, JOBS[size], peer_us)]


def job_id(number: int) -> str:
    """An id as A-REX makes them: in no order."""
    return hashlib.sha256(b"%d" % number).hexdigest()[:54]


def _in_memory(ours_us: float, peer_us: float, jobs: int) -> list[Figure]:
    note = f"{1e6 / ours_us:.0f} jobs/s, of {jobs} each time; peer: A-REX's statements, 13 transactions a job"
    recorded = f"peer: A-REX's C++ as measured elsewhere, {AREX_JOBS_PER_S:.0f} jobs/s"
    return [
        Figure("record: wall time of a whole job from memory", ours_us, "us", peer_us, note),
        Figure("record: the same", ours_us, "us", 1e6 / AREX_JOBS_PER_S, recorded),
    ]


def _peer_us(folder: pathlib.Path, jobs: int) -> float:
    folder.mkdir()
    with closing(arex_writer.create(folder / "accounting.db")) as con:
        con.execute("PRAGMA journal_mode = WAL")
        con.execute("PRAGMA synchronous = FULL")
        writer = arex_writer.Writer(con)
        begun = time.perf_counter()
        for number in range(1, jobs + 1):
            writer.accept(number)
            for after_s, event in enumerate(EVENTS):
                writer.event(number, event, arex_writer.FIRST_S + number + after_s)
            writer.finish(number, arex_writer.FIRST_S + number + 60)
        return (time.perf_counter() - begun) / jobs * 1e6


def _ours_us(folder: pathlib.Path, jobs: int) -> float:
    here = places(None, set_up(folder))
    facts = [_finished(number) for number in range(jobs)]
    with closing(open_accounting(here)) as con:
        run = SweepRun(here, con, owner_of)
        begun = time.perf_counter()
        for batch in run.slices(facts):
            with run.recording(len(batch)):
                recorder.record_present(con, [(one, True) for one in batch])
        run.write_back()
        return (time.perf_counter() - begun) / jobs * 1e6


def _finished(number: int) -> StateChange:
    files = JobFiles("/control", job_id(number), "FINISHED")
    files.event_ns = LONG_AGO_NS + number * 10**9
    files.status = StatusFile("FINISHED", 8, files.event_ns, files.event_ns)
    files.local, files.diag, files.statistics = LOCAL.replace(b"first", b"%d" % number), DIAG, STATISTICS
    files.owner = "ada:atlas"
    return job_facts(files, JobRules("HEPSPEC:11.11"))


def _sweeps(folder: pathlib.Path, jobs: int, peer_us: float) -> list[Figure]:
    (smaller,) = _swept(folder / "smaller", jobs // 10, 1)
    first, second = _swept(folder, jobs, 2)
    log = folder / "log"
    told = re.findall(r"(\d+) jobs? in .*, (\d+) read, (\d+) recorded", log.read_text())
    (_, read_first, recorded_first), (_, read_second, recorded_second) = told
    note = f"{jobs} jobs"
    first_us = first.wall_s / jobs * 1e6
    rate = f"{1e6 / first_us:.0f} jobs/s with its files and its month's sums"
    return [
        Figure("sweep: wall time of a job, the first", first_us, "us", peer_us, f"{rate}; peer: A-REX's statements"),
        Figure("sweep: the same", first_us, "us", 1e6 / AREX_JOBS_PER_S, "peer: A-REX's C++ as measured elsewhere"),
        Figure("sweep: CPU of the first", first.cpu_s, "s", note=f"{note}, {read_first} read, {recorded_first} new"),
        Figure("sweep: CPU of the second", second.cpu_s, "s", first.cpu_s,
               f"{note}, {read_second} read, {recorded_second} new; peer: the first"),
        Figure("sweep: peak memory of the first", first.peak_mib, "MiB", smaller.peak_mib,
               f"{note}; peer: of a tenth of them"),
        Figure("sweep: peak memory of the second", second.peak_mib, "MiB", note=note),
    ]  # fmt: skip


def _swept(folder: pathlib.Path, jobs: int, times: int) -> list[Cost]:
    """So many sweeps over a control directory of so many jobs."""
    control = folder / "control"
    for number in range(jobs):
        local = LOCAL.replace(b"first", b"%d" % number)
        lay(control, Files(mtime_ns=LONG_AGO_NS + number * 10**9, local=local), job_id(number))
    program = [os.path.join(os.path.dirname(sys.executable), "arcacct"), "sweep", "--controldir", str(control)]
    return [cost_of(program, log=folder / "log") for _ in range(times)]


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    from figures import table

    print(table(bench("small")))
