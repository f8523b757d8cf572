"""
What a sweep costs over a control directory of finished jobs: the first time, and again when nothing has changed.

Files read are told by the sweep itself. The peer of the first sweep is A-REX's own C++ writer in its faster mode
(WAL), measured once with 6.17; the peer of the second is the first.
"""

from __future__ import annotations

import os
import pathlib
import re
import sys
import tempfile

from figures import Figure, cost_of
from job_files import LOCAL, NOON_NS, Files, lay

JOBS = {"smoke": 200, "small": 10_000, "large": 100_000}
AREX_JOBS_PER_S = 467.0
LONG_AGO_NS = NOON_NS - 10**15


def bench(size: str) -> list[Figure]:
    """The figures."""
    jobs = JOBS[size]
    with tempfile.TemporaryDirectory() as folder:
        control = pathlib.Path(folder, "control")
        for number in range(jobs):
            job_id = f"J{number:053}"
            local = LOCAL.replace(b"first", b"%d" % number)
            lay(control, Files(mtime_ns=LONG_AGO_NS + number * 10**9, local=local), job_id)
        log = pathlib.Path(folder, "log")
        program = [os.path.join(os.path.dirname(sys.executable), "arcacct"), "sweep", "--controldir", str(control)]
        first, second = (cost_of(program, log=log) for _ in range(2))
        told = re.findall(r"(\d+) jobs in .*, (\d+) read, (\d+) recorded", log.read_text())
    (_, read_first, recorded_first), (_, read_second, recorded_second) = told
    note = f"{jobs} jobs"
    return [
        Figure("sweep: CPU of the first", first.cpu_s, "s", note=f"{note}, {read_first} read, {recorded_first} new"),
        Figure("sweep: wall time of a job, the first", first.wall_s / jobs * 1e6, "us", 1e6 / AREX_JOBS_PER_S,
               "peer: A-REX's writer"),
        Figure("sweep: CPU of the second", second.cpu_s, "s", first.cpu_s,
               f"{note}, {read_second} read, {recorded_second} new; peer: the first"),
        Figure("sweep: peak memory of the first", first.peak_mib, "MiB", note=note),
        Figure("sweep: peak memory of the second", second.peak_mib, "MiB", note=note),
    ]  # fmt: skip


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    from figures import table

    print(table(bench("small")))
