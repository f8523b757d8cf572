"""GPUs of Grid Engine's jobs: of what its records say, counted as Slurm's are."""

from __future__ import annotations

from contextlib import closing

import pytest
from control_directory import set_up
from gridengine_files import World, changed_json, json_line, ran

from arcacct.config.paths import places
from arcacct.database.access import open_accounting
from arcacct.export.dataset import Partition
from arcacct.export.jobs import pages
from arcacct.queries.questions import Selection, measured_parts
from arcacct.sources.gridengine.record import gpu_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def world(tmp_path) -> Iterator[World]:
    here = places(None, set_up(tmp_path / "control"))
    with closing(open_accounting(here)) as con:
        yield World(here, con)


@pytest.mark.parametrize(
    ("category", "gpus"),
    [
        ("-l gpu=2", 2),
        ("-U users -l h_rt=600,gpu=1,h_vmem=4G -pe smp 8", 1),
        ("-l ngpus=4", 4),
        ("-l gpu=1.000000", 1),
        ("-l GPU=1 -l gpu=3", 3),
        ("-l gpu=0", 0),
        ("-l gpu=0.25", 0),
        ("-l gpu=a100", 0),
        ("-l gpu_mem=16,mygpu=2,gpu_type=3", 0),
        ("-q gpu=2", 0),
        ("-P gpu -q gpu.q", 0),
        ("", 0),
    ],
)
def test_what_was_asked_for(category, gpus) -> None:
    """Whole GPUs of resources called so, and nothing that only looks like it."""
    assert gpu_count(category, "", "", "") == gpus


@pytest.mark.parametrize(
    ("resource_map", "granted_req", "listed", "gpus"),
    [
        pytest.param("gpu=wn1=(0 3)", "", "", 2, id="one host"),
        pytest.param("gpu=wn1=(0 1),wn2=(0)", "", "", 3, id="two hosts"),
        pytest.param("licence=wn1=(a b),gpu=gpunode2=(0)", "gpu=7", "", 1, id="another resource"),
        pytest.param("licence=gpunode1=(a b)", "h_rt=600,gpu=4", "", 4, id="granted"),
        pytest.param("", "", "wn1=0,1", 5, id="asked for, which says more than a list"),
        pytest.param("gpu=wn1=()", "", "", 5, id="nothing mapped"),
    ],
)
def test_what_was_granted(resource_map, granted_req, listed, gpus) -> None:
    """What was mapped to the job holds, then what was granted to it, then what it asked for."""
    assert gpu_count("-l gpu=5", resource_map, granted_req, listed) == gpus


@pytest.mark.parametrize(
    ("listed", "gpus"), [("wn1=0,1", 2), ("wn1(0 1),wn2(0)", 5), ("GPU-77a0", 1), ("3", 0), ("", 0)]
)
def test_a_list(listed, gpus) -> None:
    """Where nothing else tells it a list is counted; a mere number may be the name of a GPU, too."""
    assert gpu_count("", "", "", listed) == gpus


def test_gpu_hours_of_jobs(world, tmp_path) -> None:
    """Of every run that counts, once for the job and not for its tasks; in sums, as attribute, and in datasets."""
    path = tmp_path / "accounting"
    asked = "-l gpu=2,h_rt=600"
    path.write_bytes(
        ran(1, 1, 10, 3610, category=asked)
        + ran(2, 1, 10, 1810, category=asked, granted_pe="mpi", slots=8, pe_taskid="1.wn2")
        + ran(2, 1, 10, 1810, category=asked, granted_pe="mpi", slots=8)
        + ran(3, 1, 10, 1810, category=asked, failed=25, exit_status=99)
        + ran(3, 1815, 1820, 3620, category="-l gpu=1")
        + ran(4, 1, 10, 1810, category=asked, failed=26)
        + ran(5, 1, 10, 1810, category="-l h_rt=600 -q gpu.q")
        + changed_json(json_line(), job_number=6, resource_map="gpu=wn1=(0 3)")
    )
    world.take(path)

    told = [part.gpu_s for part in measured_parts(world.con, Selection(), ("month",), everything=False)]
    attributes = "SELECT local_job_id, value FROM v1_job_attributes JOIN v1_jobs USING (job_id) WHERE name = 'gpus'"
    numbers = dict(world.con.execute("SELECT RecordID, LocalJobID FROM AAR"))
    exported = {
        numbers[job.record_id]: job.children["accelerators"][0][1:4]
        for page in pages(world.con, Partition("site", 2026, 11, "ce"))
        for job in page
        if "accelerators" in job.children
    }

    last_s = world.value("SELECT UsedWalltime FROM AAR WHERE LocalJobID = '6'")
    assert isinstance(last_s, int)
    assert sum(value or 0 for value in told) == 2 * 3600 + 2 * 1800 + 2 * 1800 + 1800 + 2 * last_s
    assert exported == {
        "1": ("default", 2, 7200),
        "2": ("default", 2, 3600),
        "3": ("default", 1, 5400),
        "6": ("default", 2, 2 * last_s),
    }
    assert sorted(world.con.execute(attributes)) == [("1", "2"), ("2", "2"), ("3", "1"), ("6", "2")]


def test_telemetry_knows_better(world, tmp_path) -> None:
    """Where telemetry has the batch system's word of a job, that is counted, and nothing twice."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(1, 1, 10, 3610, category="-l gpu=2"))
    world.take(path)
    world.con.execute("INSERT INTO Clusters (ID, Name) VALUES (1, 'c')")
    telemetry = "INSERT INTO JobTelemetry (RecordID, ClusterID, JobID, Samples, GPUCount, GPUAllocatedS)"
    world.con.execute(f"{telemetry} SELECT RecordID, 1, 1, 1, 4, 14400 FROM AAR")

    told = [part.gpu_s for part in measured_parts(world.con, Selection(), ("month",), everything=False)]

    assert sum(value or 0 for value in told) == 14_400
