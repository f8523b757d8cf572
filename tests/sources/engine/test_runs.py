"""The runs of a job: whatever their history, the job has the sums of its runs."""

from __future__ import annotations

import itertools
import pathlib
import tempfile
from contextlib import closing
from typing import NamedTuple

from batch_files import BEGIN, BatchHost
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from arcacct.queries.questions import Selection, kept_parts, measured_parts
from arcacct.sources.pbs.importer import SOURCE


class History(NamedTuple):
    """A run of a job, as a server of PBS tells it."""

    wall_s: int
    cores: int | None
    cpu_s: int | None
    gpus: int

    def line(self, job: int, start: int, *, is_last: bool) -> bytes:
        """The record of the run, which started at a time."""
        used = f" resources_used.cput={self.cpu_s}" if self.cpu_s is not None else ""
        hosts = f"n1/0*{self.cores}" if self.cores else "unknown"
        asked = f" Resource_List.ncpus={self.cores}" if self.cores else ""
        return (
            f"11/02/2026 10:00:00;{'E' if is_last else 'R'};{job}.srv;user=ada group=g jobname=j queue=q ctime={BEGIN}"
            f" qtime={BEGIN} etime={BEGIN} start={start} exec_host={hosts} exec_vnode=(n1){asked}"
            f" Resource_List.ngpus={self.gpus} end={start + self.wall_s}"
            f" Exit_status=0{used} resources_used.walltime={self.wall_s}\n"
        ).encode()


RUNS = st.lists(
    st.builds(
        History,
        st.integers(1, 90_000),
        st.none() | st.integers(1, 64),
        st.none() | st.integers(0, 90_000),
        st.integers(0, 4),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=examples(25), deadline=None, derandomize=True)
@given(st.lists(RUNS, min_size=1, max_size=4), st.data())
def test_a_job_has_the_sums_of_its_runs_in_any_order_and_division(jobs, data) -> None:
    """
    Core seconds, CPU and GPU seconds exactly; the wall time of the record within half its cores. A run without known
    cores counts one.
    """
    lines = list[bytes]()
    for number, runs in enumerate(jobs, 1):
        start = BEGIN + 10
        for place, run in enumerate(runs, 1):
            lines.append(run.line(number, start, is_last=place == len(runs)))
            start += run.wall_s + 60
    order = data.draw(st.permutations(lines))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(lines)), max_size=2)))
    with tempfile.TemporaryDirectory() as folder:
        host = BatchHost(pathlib.Path(folder), SOURCE)
        with closing(host.con):
            for first, after in itertools.pairwise([0, *cuts, len(lines)]):
                host.take(b"".join(order[first:after]))
            records = host.rows("SELECT core_count, wall_s, cpu_s FROM v1_jobs ORDER BY local_job_id")
            parts = kept_parts(host.con, Selection(), ("month",), details=False, everything=False) or ()
            gpus = measured_parts(host.con, Selection(), ("month",), everything=False)
            gpu_s = sum(part.gpu_s or 0 for part in gpus)

    core_s = [sum(run.wall_s * (run.cores or 1) for run in runs) for runs in jobs]
    assert len(records) == len(jobs)
    for runs, wanted, (cores, wall_s, cpu_s) in zip(jobs, core_s, records, strict=True):
        known = [run.cpu_s for run in runs if run.cpu_s is not None]
        most = max(run.cores or 0 for run in runs) or None
        assert (cores, cpu_s) == (most, sum(known) if known else None)
        assert 2 * abs(wall_s * (most or 1) - wanted) <= (most or 1)
        assert wall_s <= sum(run.wall_s for run in runs)
    assert sum(part.wall_s * part.core_count + part.core_rest_s for part in parts) == sum(core_s)
    assert gpu_s == sum(run.wall_s * run.gpus for runs in jobs for run in runs)


def test_a_job_whose_submission_is_reported_differently_stays_one_job(tmp_path) -> None:
    """A run whose second report has another time of submission has another JobID, and still one record."""
    host = BatchHost(tmp_path, SOURCE)
    with closing(host.con):
        line = History(10, 2, 5, 0).line(7, BEGIN + 60, is_last=True)
        host.take(line)
        host.take(line.replace(b"ctime=%d" % BEGIN, b"ctime=%d" % (BEGIN + 1)))

        assert host.rows("SELECT job_id, wall_s FROM v1_jobs") == [(f"pbs:srv:7:{BEGIN + 1}", 10)]
