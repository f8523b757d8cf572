"""GPUs of HTCondor's jobs, counted as Slurm's are: in sums, as attribute, and in datasets."""

from __future__ import annotations

from contextlib import closing

import pytest
from htcondor_files import BEGIN, CondorHost, ad, history

from arcacct.export.dataset import Partition
from arcacct.export.jobs import look, pages
from arcacct.queries.questions import Selection, measured_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def host(tmp_path) -> Iterator[CondorHost]:
    found = CondorHost(tmp_path)
    with closing(found.con):
        yield found


def counted_s(host: CondorHost, selection: Selection = Selection()) -> float:  # noqa: B008  immutable
    """GPU seconds of all parts of an answer."""
    return sum(part.gpu_s or 0 for part in measured_parts(host.con, selection, ("month",), everything=False))


def test_gpus_times_the_time_that_all_runs_took(host) -> None:
    """Those provided, else those asked for; whatever the number of cores."""
    two = {"NumJobStarts": 2, "RemoteWallClockTime": 30.0}
    host.take(
        history(
            ad(1, GPUsProvisioned=2, RequestGPUs=1),
            ad(2, RequestGPUs=3, **two),
            ad(3, GPUsProvisioned=0),
            ad(4, RequestGPUs="ifThenElse(Big,4,1)"),
        )
    )
    attributes = "SELECT local_job_id, value FROM v1_job_attributes JOIN v1_jobs USING (job_id) WHERE name = 'gpus'"
    numbers = dict(host.rows("SELECT RecordID, LocalJobID FROM AAR"))
    exported = {
        numbers[job.record_id]: job.children["accelerators"][0][1:4]
        for page in pages(host.con, Partition("site", 2026, 11, "ce"))
        for job in page
        if "accelerators" in job.children
    }

    assert counted_s(host) == 2 * 60 + 3 * 30
    assert counted_s(host, Selection(from_s=BEGIN, before_s=BEGIN + 86_400)) == 2 * 60 + 3 * 30
    assert sorted(host.rows(attributes)) == [("1.0", "2"), ("2.0", "3")]
    assert exported == {"1.0": ("ce.example.org", 2, 120), "2.0": ("ce.example.org", 3, 90)}
    assert look(host.con).seen[202611]["runs"] == 2


def test_a_part_of_a_gpu_is_counted_as_a_part(host) -> None:
    """A text is no number: it is unknown, and counted as that."""
    report = host.take(history(ad(1, GPUsProvisioned=0.5), ad(2, RequestGPUs='"1"')))
    exported = [
        job.children["accelerators"][0][2:4]
        for page in pages(host.con, Partition("site", 2026, 11, "ce"))
        for job in page
        if "accelerators" in job.children
    ]

    assert report.unusable == {"RequestGPUs": 1}
    assert host.rows("SELECT gpus FROM v1_htcondor_jobs ORDER BY htcondor_job") == [(0.5,), (None,)]
    assert counted_s(host) == 30.0
    assert exported == [(1, 30)]


def test_telemetry_knows_better(host) -> None:
    """Where telemetry has the batch system's word of a job, that is counted, and nothing twice."""
    host.take(history(ad(1, GPUsProvisioned=2)))
    host.con.execute("INSERT INTO Clusters (ID, Name) VALUES (1, 'c')")
    host.con.execute(
        "INSERT INTO JobTelemetry (RecordID, ClusterID, JobID, Samples, GPUCount, GPUAllocatedS)"
        " SELECT RecordID, 1, 1, 1, 4, 14400 FROM AAR"
    )

    assert counted_s(host) == 14_400
